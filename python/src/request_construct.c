/* A Request that Python code constructs, so that a unit test can call a handler with it. It has the
 * same attributes as a Request that came over the link, but no request of the link.
 */
#include "native.h"

#include <math.h>

#define NEVER_S 9e9 /* in seconds: more than as_ns can hold */

void native_request_free_constructed(Request *r)
{
    if (!r->m)
        return;
    Py_XDECREF(r->m->name);
    Py_XDECREF(r->m->version);
    PyMem_Free(r->m);
}

/* A new dict with the contents of a mapping; `o` may be NULL. */
static PyObject *copy_of(PyObject *o, const char *what)
{
    PyObject *d;

    if (o && (!PyMapping_Check(o) || PyUnicode_Check(o) || !PyObject_HasAttrString(o, "keys"))) {
        PyErr_Format(PyExc_TypeError, "%s must be a mapping, not %s", what, Py_TYPE(o)->tp_name);
        return NULL;
    }
    d = PyDict_New();
    if (d && o && PyDict_Update(d, o))
        Py_CLEAR(d);
    return d;
}

static PyObject *text_of(PyObject *o, const char *what, const char *fallback)
{
    if (!o)
        return PyUnicode_FromString(fallback);
    if (PyUnicode_Check(o))
        return Py_NewRef(o);
    PyErr_Format(PyExc_TypeError, "%s must be a str, not %s", what, Py_TYPE(o)->tp_name);
    return NULL;
}

/* Converts inputs as the client does: lists become arrays. */
static PyObject *inputs_of(PyObject *o)
{
    PyObject *as_inputs = o ? native_import("anyserve.arrays", "as_inputs") : NULL;
    PyObject *d = as_inputs ? PyObject_CallOneArg(as_inputs, o) : NULL;

    Py_XDECREF(as_inputs);
    return o ? d : PyDict_New();
}

static int deadline_of(PyObject *o, as_ns *ret_at)
{
    double at;

    *ret_at = AS_NEVER;
    if (!o || Py_IsNone(o))
        return 0;
    if (!PyFloat_Check(o) && !PyLong_Check(o)) {
        PyErr_Format(PyExc_TypeError,
                     "deadline must be a number of time.monotonic() or None, not %s",
                     Py_TYPE(o)->tp_name);
        return -1;
    }
    at = PyFloat_AsDouble(o);
    if (at == -1 && PyErr_Occurred())
        return -1;
    if (isnan(at) || fabs(at) >= NEVER_S) {
        PyErr_Format(PyExc_ValueError, "deadline: %R is not a time of time.monotonic()", o);
        return -1;
    }
    *ret_at = (as_ns)(at * 1e9);
    return 0;
}

PyObject *native_request_construct(PyTypeObject *type AS_UNUSED, PyObject *args, PyObject *kw)
{
    static const char *const names[] = {"inputs",     "parameters",       "metadata", "id",
                                        "model_name", "model_version",    "deadline", "items",
                                        "cancelled",  "input_parameters", NULL};
    PyObject *inputs = NULL, *params = NULL, *meta = NULL, *id = NULL, *name = NULL,
             *version = NULL;
    PyObject *deadline = NULL, *of_inputs = NULL;
    long long items = 1;
    int cancelled = 0;
    Request *r;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|$OOOOOOOLpO:Request", (char **)(uintptr_t)names,
                                     &inputs, &params, &meta, &id, &name, &version, &deadline,
                                     &items, &cancelled, &of_inputs))
        return NULL;
    if (items < 0 || items > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "items must be 0 to %u, not %lld", UINT32_MAX, items);
        return NULL;
    }
    r = native_request_new(NULL, NULL, NULL);
    if (!r)
        return NULL;
    r->items = (uint32_t)items;
    r->cancelled = cancelled;
    r->m = PyMem_Calloc(1, sizeof(*r->m));
    if (!r->m) {
        Py_DECREF(r);
        return PyErr_NoMemory();
    }
    if (!(r->m->name = text_of(name, "model_name", "")) ||
        !(r->m->version = text_of(version, "model_version", "1")) ||
        !(r->id = text_of(id, "id", "")) || deadline_of(deadline, &r->deadline) ||
        !(r->parameters = copy_of(params, "parameters")) ||
        !(r->input_parameters = copy_of(of_inputs, "input_parameters")) ||
        !(r->metadata = copy_of(meta, "metadata")) || !(r->inputs = inputs_of(inputs)))
        Py_CLEAR(r);
    return (PyObject *)r;
}
