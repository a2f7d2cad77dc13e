/* The Request object; names, parameters and tensors of a message as dicts. */
#include "array.h"

#include <string.h>

/* The dispatcher accepts only UTF-8 for names, ids and string parameters. Metadata values may be
 * any bytes that HTTP allows; surrogateescape keeps them for the way back. */
static PyObject *str_of(struct as_str s)
{
    return PyUnicode_DecodeUTF8(s.p ? s.p : "", (Py_ssize_t)s.n, "surrogateescape");
}

/* The name of input i. Most clients send the same names in the same order, so the str of the last
 * request, whose hash is already computed, is used again. Declared names cannot be used: declaring
 * is optional. */
static PyObject *input_name(struct model *m, uint32_t i, struct as_str name)
{
    PyObject *k;

    if (i >= NATIVE_CACHED_NAMES || name.n > NATIVE_CACHED_NAME_MAX)
        return str_of(name);
    k = m->cached_names[i];
    if (k && PyUnicode_IS_COMPACT_ASCII(k) &&
        as_str_eq(
            (struct as_str){(const char *)PyUnicode_1BYTE_DATA(k), (size_t)PyUnicode_GET_LENGTH(k)},
            name))
        return Py_NewRef(k);
    k = str_of(name);
    if (k)
        Py_XSETREF(m->cached_names[i], Py_NewRef(k));
    return k;
}

/* A new dict, or NULL with an exception. If it fails, the dict and its arrays are freed. */
static PyObject *make_inputs(Request *r)
{
    const struct as_msg *msg = as_worker_req_msg(r->q);
    PyObject *d = PyDict_New();

    for (uint32_t i = 0; d && i < msg->n_tensors; i++) {
        PyObject *k = input_name(r->m, i, msg->tensors[i].name);
        PyObject *v = k ? native_array(r->q, &msg->tensors[i], &r->hold) : NULL;

        if (native_dict_put(d, k, v) < 0)
            Py_CLEAR(d);
    }
    return d;
}

static PyObject *param_value(const struct as_param *p)
{
    switch (p->type) {
    case AS_PARAM_BOOL:
        return PyBool_FromLong(p->b);
    case AS_PARAM_INT64:
        return PyLong_FromLongLong(p->i64);
    case AS_PARAM_UINT64:
        return PyLong_FromUnsignedLongLong(p->u64);
    case AS_PARAM_DOUBLE:
        return PyFloat_FromDouble(p->f64);
    case AS_PARAM_STRING:
        break;
    }
    return str_of(p->str);
}

PyObject *native_tensor_parameters(const struct as_msg *msg, const struct as_tensor_param *p,
                                   uint32_t n)
{
    PyObject *d = PyDict_New(), *of = NULL; /* of: the dict of the current tensor, owned by d */

    for (uint32_t i = 0; d && i < n; i++) {
        if (!i || p[i].tensor != p[i - 1].tensor) {
            of = PyDict_New();
            if (native_dict_put(d, str_of(msg->tensors[p[i].tensor].name), of) < 0)
                Py_CLEAR(d);
        }
        if (d && native_dict_put(of, str_of(p[i].param.name), param_value(&p[i].param)) < 0)
            Py_CLEAR(d);
    }
    return d;
}

static PyObject *make_input_parameters(Request *r)
{
    uint32_t n;
    const struct as_tensor_param *p = as_worker_req_tensor_params(r->q, &n);

    return native_tensor_parameters(as_worker_req_msg(r->q), p, n);
}

PyObject *native_parameters(const struct as_msg *msg)
{
    PyObject *d = PyDict_New();

    for (uint32_t i = 0; d && i < msg->n_params; i++) {
        PyObject *k = str_of(msg->params[i].name);
        PyObject *v = k ? param_value(&msg->params[i]) : NULL;

        if (native_dict_put(d, k, v) < 0)
            Py_CLEAR(d);
    }
    return d;
}

static PyObject *make_parameters(Request *r)
{
    return native_parameters(as_worker_req_msg(r->q));
}

PyObject *native_outputs(const struct as_msg *msg)
{
    PyObject *d = PyDict_New();

    for (uint32_t i = 0; d && i < msg->n_tensors; i++) {
        PyObject *k = str_of(msg->tensors[i].name);
        PyObject *v = k ? native_array_copy(&msg->tensors[i]) : NULL;

        if (native_dict_put(d, k, v) < 0)
            Py_CLEAR(d);
    }
    return d;
}

/* Values of keys that end in -bin are bytes. A key that comes twice: the values are joined by ", ";
 * of binary ones the last one counts. */
static int add_metadata(PyObject *d, const struct as_meta *m)
{
    bool binary = m->key.n >= 4 && memcmp(m->key.p + m->key.n - 4, "-bin", 4) == 0;
    PyObject *k = str_of(m->key);
    PyObject *v = !k       ? NULL
                  : binary ? PyBytes_FromStringAndSize(m->value.p, (Py_ssize_t)m->value.n)
                           : str_of(m->value);
    PyObject *old = v && !binary ? PyDict_GetItemWithError(d, k) : NULL;

    if (old) {
        PyObject *joined = PyUnicode_FromFormat("%U, %U", old, v);

        Py_SETREF(v, joined);
    }
    return native_dict_put(d, k, v);
}

static PyObject *make_metadata(Request *r)
{
    const struct as_msg *msg = as_worker_req_msg(r->q);
    PyObject *d = PyDict_New();

    for (uint32_t i = 0; d && i < msg->n_meta; i++) {
        if (add_metadata(d, &msg->meta[i]) < 0)
            Py_CLEAR(d);
    }
    return d;
}

static PyObject *make_id(Request *r)
{
    return str_of(as_worker_req_msg(r->q)->id);
}

/* Attributes that are made when first read: where they are stored, and how they are made. */
static const struct lazy {
    size_t at;
    PyObject *(*make)(Request *r);
} lazies[] = {
    {offsetof(Request, inputs), make_inputs},
    {offsetof(Request, parameters), make_parameters},
    {offsetof(Request, metadata), make_metadata},
    {offsetof(Request, id), make_id},
    {offsetof(Request, input_parameters), make_input_parameters},
};

static PyObject **slot_of(Request *r, const struct lazy *z)
{
    return (PyObject **)(void *)((char *)r + z->at);
}

/* After native_request_detach, attributes that were made before are still there; others cannot be
 * made any more, because the bytes belong to the link again. */
static PyObject *get_lazy(PyObject *o, void *closure)
{
    Request *r = (Request *)(void *)o;
    const struct lazy *z = closure;
    PyObject **slot = slot_of(r, z);

    if (!*slot) {
        if (!r->q) {
            PyErr_SetString(PyExc_RuntimeError, "the request is over");
            return NULL;
        }
        *slot = z->make(r);
    }
    return Py_XNewRef(*slot);
}

static PyObject *get_name(PyObject *o, void *closure AS_UNUSED)
{
    return Py_NewRef(((Request *)(void *)o)->m->name);
}

static PyObject *get_version(PyObject *o, void *closure AS_UNUSED)
{
    return Py_NewRef(((Request *)(void *)o)->m->version);
}

static PyObject *get_items(PyObject *o, void *closure AS_UNUSED)
{
    return PyLong_FromUnsignedLong(((Request *)(void *)o)->items);
}

static PyObject *get_deadline(PyObject *o, void *closure AS_UNUSED)
{
    Request *r = (Request *)(void *)o;

    if (r->deadline == AS_NEVER)
        Py_RETURN_NONE;
    return PyFloat_FromDouble((double)r->deadline / 1e9);
}

/* When the request is over, the link has reused its slot: the value at the end of the request
 * stays. */
static PyObject *get_cancelled(PyObject *o, void *closure AS_UNUSED)
{
    Request *r = (Request *)(void *)o;

    return PyBool_FromLong(r->q ? as_worker_req_cancelled(r->q) : r->cancelled);
}

static PyObject *request_repr(PyObject *o)
{
    Request *r = (Request *)(void *)o;

    return PyUnicode_FromFormat("<anyserve.Request for model %R version %R>", r->m->name,
                                r->m->version);
}

#define LAZY(i) ((void *)(uintptr_t)&lazies[i])
static PyGetSetDef request_getset[] = {
    {"inputs", get_lazy, NULL, "Mapping of tensor name to numpy array (read-only view).", LAZY(0)},
    {"parameters", get_lazy, NULL, "Mapping of parameter name to bool, int, float or str.",
     LAZY(1)},
    {"metadata", get_lazy, NULL, "Headers of the call; values of '-bin' keys are bytes.", LAZY(2)},
    {"id", get_lazy, NULL, "The client's request id, '' if it gave none.", LAZY(3)},
    {"input_parameters", get_lazy, NULL,
     "Mapping of input name to the parameters of that input; inputs without any are not in it.",
     LAZY(4)},
    {"model_name", get_name, NULL, "Name of the model that was called.", NULL},
    {"model_version", get_version, NULL, "Version of the model that was called.", NULL},
    {"items", get_items, NULL,
     "Rows of the inputs' first dimension, for a model with batching; otherwise 1.", NULL},
    {"deadline", get_deadline, NULL, "When the client stops waiting (time.monotonic()), or None.",
     NULL},
    {"cancelled", get_cancelled, NULL, "True when nobody waits for the answer any more.", NULL},
    {0},
};

static void request_dealloc(PyObject *o)
{
    Request *r = (Request *)(void *)o;

    for (size_t i = 0; i < AS_COUNT(lazies); i++)
        Py_XDECREF(*slot_of(r, &lazies[i]));
    Py_XDECREF(r->hold);
    if (r->link)
        Py_DECREF(r->link);
    else
        native_request_free_constructed(r);
    PyObject_Free(o);
}

PyTypeObject native_request_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve.Request",
    .tp_basicsize = sizeof(Request),
    .tp_dealloc = request_dealloc,
    .tp_repr = request_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_getset = request_getset,
    .tp_new = native_request_construct,
    .tp_doc = "One inference request, as a handler's parameter called `request` sees it.",
};

/* No cyclic garbage collection: only a handler can make a cycle (a request within itself). */
Request *native_request_new(Link *l, struct model *m, struct as_worker_req *q)
{
    Request *r = PyObject_New(Request, &native_request_type);

    if (!r)
        return NULL;
    r->q = q;
    r->link = (Link *)Py_XNewRef((PyObject *)l);
    r->m = m;
    r->hold = r->inputs = r->parameters = r->metadata = r->id = r->input_parameters = NULL;
    r->items = 1;
    r->deadline = q ? as_worker_req_deadline(q) : AS_NEVER;
    r->cancelled = false;
    return r;
}

int native_request_materialize(Request *r)
{
    for (size_t i = 0; i < AS_COUNT(lazies); i++) {
        PyObject **slot = slot_of(r, &lazies[i]);

        if (!*slot)
            *slot = lazies[i].make(r);
        if (!*slot)
            return -1;
    }
    r->q = NULL;
    return 0;
}

void native_request_detach(Request *r)
{
    if (!r->q)
        return;
    /* User code has kept the request: a background task, a list, a traceback. Arrays that are made
     * now hold the bytes on their own. The count cannot rise meanwhile: we hold the GIL. */
    if (Py_REFCNT(r) > 1) {
        r->cancelled = as_worker_req_cancelled(r->q);
        for (size_t i = 0; i < AS_COUNT(lazies); i++) {
            if (!*slot_of(r, &lazies[i]))
                *slot_of(r, &lazies[i]) = lazies[i].make(r);
        }
        PyErr_Clear(); /* an attribute that could not be made raises when it is read */
    }
    r->q = NULL;
}
