/* Reads what a handler returned: in which form, which values with which names. */
#include "message.h"
#include "output.h"

#include <string.h>

/* "output0" …: a new reference; the first few are made once. */
static PyObject *number_name(Py_ssize_t i)
{
    static PyObject *made[OUTPUT_ON_STACK];

    if (i >= OUTPUT_ON_STACK)
        return PyUnicode_FromFormat("output%zd", i);
    if (!made[i])
        made[i] = PyUnicode_FromFormat("output%zd", i);
    return Py_XNewRef(made[i]);
}

static int put_numbered(struct output *o, Py_ssize_t i, PyObject *value)
{
    PyObject *name;
    int err;

    if (o->m->has_outputs)
        return output_put(o, PyTuple_GET_ITEM(o->m->output_names, i), value, &o->m->outputs[i]);
    name = number_name(i);
    err = name ? output_put(o, name, value, NULL) : -1;
    if (err)
        Py_XDECREF(name);
    else
        o->keep[o->n - 1].name = name;
    return err;
}

static int raise_wrong_count(struct output *o, Py_ssize_t n)
{
    PyObject *declared = output_quoted(o->m->output_names);

    if (declared)
        output_refuse("model '%U' returned %zd output%s, but %u %s declared%s%U", o->m->name, n,
                      n == 1 ? "" : "s", o->m->n_outputs, o->m->n_outputs == 1 ? "is" : "are",
                      o->m->n_outputs ? ": " : "", declared);
    Py_XDECREF(declared);
    return -1;
}

static int raise_missing(struct output *o, PyObject *name, PyObject *dict)
{
    PyObject *returned = output_quoted(dict);
    PyObject *declared = returned ? output_quoted(o->m->output_names) : NULL;

    if (declared)
        output_refuse("output '%U' of model '%U' is missing; returned: %s%U; declared: %U", name,
                      o->m->name, PyDict_GET_SIZE(dict) ? "" : "none", returned, declared);
    Py_XDECREF(returned);
    Py_XDECREF(declared);
    return -1;
}

static int raise_undeclared(struct output *o, PyObject *name)
{
    PyObject *declared = output_quoted(o->m->output_names);

    if (declared)
        output_refuse("model '%U' returned the output %R, which is not declared; declared: %s%U",
                      o->m->name, name, o->m->n_outputs ? "" : "none", declared);
    Py_XDECREF(declared);
    return -1;
}

/* The handler returned a coroutine: it forgot to await, or should be an async def. */
static int refuse_coroutine(struct output *o, PyObject *v)
{
    PyObject *name = PyObject_GetAttrString(v, "__name__");
    bool named = name && PyUnicode_Check(name);

    if (!named) {
        PyErr_Clear();
        Py_XSETREF(name, PyUnicode_FromString("..."));
    }
    output_close_coroutine(v);
    if (name && o->m->is_async)
        output_refuse("model '%U' returned the coroutine of '%U', which its handler must await: "
                      "return await %U(...)",
                      o->m->name, name, name);
    else if (name)
        output_refuse("model '%U' returned a coroutine; declare its handler with async def, and "
                      "await in it: return await %U(...)",
                      o->m->name, name);
    Py_XDECREF(name);
    return -1;
}

static int put_tuple(struct output *o, PyObject *tuple)
{
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);

    if (o->m->has_outputs && n != (Py_ssize_t)o->m->n_outputs)
        return raise_wrong_count(o, n);
    if (output_init(o, o->m, n) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (put_numbered(o, i, PyTuple_GET_ITEM(tuple, i)) < 0)
            return -1;
    }
    return 0;
}

/* Adds a value of a dict. It needs a reference: converting it may run user code (`__array__`),
 * which may change the dict. */
static int put_owned(struct output *o, PyObject *name, PyObject *value,
                     const struct as_tensor_spec *spec)
{
    int err;

    Py_INCREF(value);
    err = output_put(o, name, value, spec);
    Py_DECREF(value);
    return err;
}

/* Adds the declared outputs in declared order, on which clients may rely. A missing output is
 * reported before an unknown one: a misspelt name is both, and the declared name shows what was
 * expected. */
static int put_declared(struct output *o, PyObject *dict)
{
    PyObject *k, *v;
    Py_ssize_t at = 0;

    for (uint32_t i = 0; i < o->m->n_outputs; i++) {
        PyObject *name = PyTuple_GET_ITEM(o->m->output_names, i);

        v = PyDict_GetItemWithError(dict, name);
        if (!v)
            return PyErr_Occurred() ? -1 : raise_missing(o, name, dict);
        if (put_owned(o, name, v, &o->m->outputs[i]) < 0)
            return -1;
    }
    while (o->n < (uint32_t)PyDict_GET_SIZE(dict) && PyDict_Next(dict, &at, &k, &v)) {
        int known = PySequence_Contains(o->m->output_names, k);

        if (known < 0)
            return -1;
        if (!known)
            return raise_undeclared(o, k);
    }
    return 0;
}

static int put_dict(struct output *o, PyObject *dict)
{
    PyObject *k, *v;
    Py_ssize_t at = 0;

    if (output_init(o, o->m,
                    o->m->has_outputs ? (Py_ssize_t)o->m->n_outputs : PyDict_GET_SIZE(dict)) < 0)
        return -1;
    if (o->m->has_outputs)
        return put_declared(o, dict);
    /* the limit holds even if converting a value runs Python code that adds to the dict */
    while (o->n < o->cap && PyDict_Next(dict, &at, &k, &v)) {
        if (!PyUnicode_Check(k))
            return output_refuse("model '%U' returned a dict with the key %R; names must be str",
                                 o->m->name, k);
        if (!PyUnicode_GET_LENGTH(k))
            return output_refuse("model '%U' returned an output without a name", o->m->name);
        Py_INCREF(k); /* the tensor's name points into it */
        if (put_owned(o, k, v, NULL) < 0) {
            Py_DECREF(k);
            return -1;
        }
        o->keep[o->n - 1].name = k;
    }
    return 0;
}

/* Decides by the type: an attribute of the object may be one of its keys, as the columns of a
 * DataFrame are. */
static bool is_array_type(PyTypeObject *type)
{
    return PyObject_HasAttrString((PyObject *)type, "dtype") &&
           PyObject_HasAttrString((PyObject *)type, "__array__");
}

/* Arrays are not treated as mappings, not even a mapping of labels, like a Series of pandas. */
static bool is_mapping(PyObject *v)
{
    return !PyArray_Check(v) && !PyList_Check(v) && !PyUnicode_Check(v) && !PyBytes_Check(v) &&
           PyMapping_Check(v) && PyObject_HasAttrString(v, "keys") && !is_array_type(Py_TYPE(v));
}

static int put_mapping(struct output *o, PyObject *mapping)
{
    PyObject *d = PyDict_New();
    int err = d ? PyDict_Update(d, mapping) : -1;

    if (!err)
        err = put_dict(o, d);
    Py_XDECREF(d);
    return err;
}

/* The most likely forms come first: an array, a dict, a tuple. A list is one value: people write a
 * vector as a list. */
static int put_result(struct output *o, PyObject *v)
{
    if (v == Py_None)
        return output_refuse(
            "model '%U' returned None; a handler returns an array, a dict or a tuple", o->m->name);
    if (PyCoro_CheckExact(v))
        return refuse_coroutine(o, v);
    if (PyGen_Check(v) || PyAsyncGen_CheckExact(v))
        return output_refuse("model '%U' returned a generator; write `yield` in its handler itself",
                             o->m->name);
    if (!PyArray_CheckExact(v) && !PyList_Check(v)) {
        if (PyDict_Check(v))
            return put_dict(o, v);
        if (PyTuple_Check(v))
            return put_tuple(o, v);
        if (is_mapping(v))
            return put_mapping(o, v);
    }
    if (o->m->has_outputs && o->m->n_outputs != 1)
        return raise_wrong_count(o, 1);
    return put_numbered(o, 0, v);
}

/* --- parameters of a Response --- */

static int read_param(struct output *o, PyObject *k, PyObject *v, struct as_param *p)
{
    if (!PyUnicode_Check(k))
        return output_refuse("model '%U' returned a parameter whose name %R is not a str",
                             o->m->name, k);
    if (!PyLong_Check(v) && !PyFloat_Check(v) && !PyUnicode_Check(v)) /* a bool is a PyLong, too */
        return output_refuse(
            "parameter '%U' of model '%U' is a %s; it must be bool, int, float or str", k,
            o->m->name, Py_TYPE(v)->tp_name);
    if (native_param_read(k, v, p) < 0) {
        PyErr_Clear();
        return output_refuse("parameter '%U' of model '%U' is out of range", k, o->m->name);
    }
    return 0;
}

static int raise_too_many(struct output *o, Py_ssize_t n)
{
    return output_refuse("model '%U' returned %zd parameters; the limit is %u", o->m->name, n,
                         AS_WORKER_PARAMS);
}

/* The dict lives as long as the Response, which the caller holds. */
static int put_params(struct output *o, PyObject *d)
{
    PyObject *k, *v;
    Py_ssize_t at = 0;
    Py_ssize_t n;

    if (d == Py_None)
        return 0;
    if (!PyDict_Check(d))
        return output_refuse("model '%U' returned parameters that are not a dict", o->m->name);
    n = PyDict_GET_SIZE(d);
    if (n > (Py_ssize_t)AS_WORKER_PARAMS)
        return raise_too_many(o, n);
    o->params = PyMem_Calloc((size_t)n + 1, sizeof(*o->params));
    if (!o->params)
        return PyErr_NoMemory(), -1;
    while (o->n_params < (uint32_t)n && PyDict_Next(d, &at, &k, &v)) {
        if (read_param(o, k, v, &o->params[o->n_params]) < 0)
            return -1;
        o->n_params++;
    }
    return 0;
}

/* --- parameters of single outputs --- */

/* Raises: the name is not that of an output. */
static int raise_not_returned(struct output *o, PyObject *name)
{
    PyObject *names = PyList_New(0), *quoted;

    for (uint32_t i = 0; names && i < o->n; i++) {
        PyObject *s = PyUnicode_FromStringAndSize(o->t[i].name.p, (Py_ssize_t)o->t[i].name.n);

        if (!s || PyList_Append(names, s))
            Py_CLEAR(names);
        Py_XDECREF(s);
    }
    quoted = names ? output_quoted(names) : NULL;
    if (quoted)
        output_refuse(
            "output_parameters of model '%U' name the output %R, which it did not return; "
            "returned: %s%U",
            o->m->name, name, o->n ? "" : "none", quoted);
    Py_XDECREF(quoted);
    Py_XDECREF(names);
    return -1;
}

/* The number of all parameters of single outputs; -1 with an exception. */
static Py_ssize_t count_tensor_params(struct output *o, PyObject *d)
{
    PyObject *k, *v;
    Py_ssize_t at = 0, n = 0;

    while (PyDict_Next(d, &at, &k, &v)) {
        struct as_str name = {0};
        uint32_t i = 0;

        if (PyUnicode_Check(k) && native_utf8(k, &name) < 0)
            return -1;
        while (name.p && i < o->n && !as_str_eq(o->t[i].name, name))
            i++;
        if (!name.p || i == o->n)
            return raise_not_returned(o, k);
        if (v != Py_None && !PyDict_Check(v))
            return output_refuse("output_parameters of model '%U' must map names of outputs to "
                                 "dicts; %R has a %s",
                                 o->m->name, k, Py_TYPE(v)->tp_name);
        n += v == Py_None ? 0 : PyDict_GET_SIZE(v);
    }
    return n;
}

static int put_output_params(struct output *o, uint32_t i, PyObject *name, PyObject *d,
                             uint32_t cap)
{
    PyObject *k, *v;
    Py_ssize_t at = 0;

    while (o->n_tensor_params < cap && PyDict_Next(d, &at, &k, &v)) {
        struct as_tensor_param *p = &o->tensor_params[o->n_tensor_params];

        if (read_param(o, k, v, &p->param) < 0)
            return -1;
        if (as_tensor_param_reserved(p->param.name))
            return output_refuse("parameter '%U' of output '%U' is the server's own: model '%U' "
                                 "cannot set it",
                                 k, name, o->m->name);
        p->tensor = i;
        o->n_tensor_params++;
    }
    return 0;
}

/* Reads them in the order of the outputs. The dicts live as long as the Response. */
static int put_tensor_params(struct output *o, PyObject *d)
{
    Py_ssize_t n;

    if (d == Py_None)
        return 0;
    if (!PyDict_Check(d))
        return output_refuse("output_parameters of model '%U' must be a dict", o->m->name);
    n = count_tensor_params(o, d);
    if (n < 0)
        return -1;
    if (n + o->n_params > (Py_ssize_t)AS_WORKER_PARAMS)
        return raise_too_many(o, n + o->n_params);
    o->tensor_params = PyMem_Calloc((size_t)n + 1, sizeof(*o->tensor_params));
    if (!o->tensor_params)
        return PyErr_NoMemory(), -1;
    for (uint32_t i = 0; i < o->n; i++) {
        PyObject *name = PyUnicode_FromStringAndSize(o->t[i].name.p, (Py_ssize_t)o->t[i].name.n);
        PyObject *of = name ? PyDict_GetItemWithError(d, name) : NULL;
        int err = PyErr_Occurred() ? -1 : 0;

        if (of && of != Py_None)
            err = put_output_params(o, i, name, of, (uint32_t)n);
        Py_XDECREF(name);
        if (err)
            return err;
    }
    return 0;
}

static int put_response(struct output *o, PyObject *response)
{
    PyObject *outputs = PyObject_GetAttrString(response, "outputs");
    PyObject *params = outputs ? PyObject_GetAttrString(response, "parameters") : NULL;
    PyObject *own = params ? PyObject_GetAttrString(response, "output_parameters") : NULL;
    int err = own ? put_result(o, outputs) : -1;

    if (!err)
        err = put_params(o, params);
    if (!err)
        err = put_tensor_params(o, own);
    Py_XDECREF(own);
    Py_XDECREF(params);
    Py_XDECREF(outputs);
    return err;
}

int output_collect(struct output *o, struct model *m, PyObject *result)
{
    if (output_init(o, m, 1) < 0)
        return -1;
    if (Py_IS_TYPE(result, (PyTypeObject *)native_response_type))
        return put_response(o, result);
    return put_result(o, result);
}

struct as_msg output_message(const struct output *o, struct as_worker_req *q)
{
    /* cannot fail: read_param and put_output_params have checked the values */
    (void)as_worker_req_set_tensor_params(q, o->tensor_params, o->n_tensor_params);
    return (struct as_msg){
        .tensors = o->t, .params = o->params, .n_tensors = o->n, .n_params = o->n_params};
}

int output_check_rows(struct output *o, int64_t rows, Py_ssize_t requests)
{
    for (uint32_t i = 0; i < o->n; i++) {
        const struct as_tensor *t = &o->t[i];
        PyObject *name;

        if (t->ndim && t->shape[0] == rows)
            continue;
        name = PyUnicode_FromStringAndSize(t->name.p, (Py_ssize_t)t->name.n);
        if (name && !t->ndim)
            output_refuse("output '%U' of model '%U' has no dimension that counts items", name,
                          o->m->name);
        else if (name)
            output_refuse("output '%U' of model '%U' has %lld rows; the call has %lld items of %zd "
                          "request%s",
                          name, o->m->name, (long long)t->shape[0], (long long)rows, requests,
                          requests == 1 ? "" : "s");
        Py_XDECREF(name);
        return -1;
    }
    return 0;
}

static int raise_send_error(struct model *m, int err)
{
    if (err == AS_ENOMEM)
        PyErr_NoMemory();
    else if (err == AS_ECANCELLED)
        native_set_cancelled();
    else if (err == AS_EAGAIN)
        PyErr_SetString(PyExc_RuntimeError, "there is no room for a response");
    else
        output_refuse("the answer of model '%U' is larger than the dispatcher accepts "
                      "(--max-message-bytes)",
                      m->name);
    return -1;
}

int output_send(Link *l, struct model *m, struct as_worker_req *q, const struct as_msg *msg)
{
    int err = as_worker_answer(l->w, q, msg);

    if (err)
        return raise_send_error(m, err);
    l->calls--;
    return 0;
}

/* Called with the GIL, in the thread that runs the handler; the worker's functions lock. `rows`:
 * what each output must have; -1: any. */
static int
send_result(Link *l, struct model *m, struct as_worker_req *q, PyObject *result, int64_t rows,
            int (*send)(struct as_worker *, struct as_worker_req *, const struct as_msg *))
{
    struct output o;
    int err = output_collect(&o, m, result);

    if (!err && rows >= 0)
        err = output_check_rows(&o, rows, 1);
    if (!err) {
        struct as_msg msg = output_message(&o, q);

        err = send(l->w, q, &msg);
        if (err)
            raise_send_error(m, err);
    }
    output_fini(&o);
    return err ? -1 : 0;
}

int native_answer_rows(Link *l, struct model *m, struct as_worker_req *q, PyObject *result,
                       int64_t rows)
{
    if (send_result(l, m, q, result, rows, as_worker_answer))
        return -1;
    l->calls--;
    return 0;
}

/* Called once per request. -1 leaves q unanswered, so that the caller can fail it. */
int native_answer(Link *l, struct model *m, struct as_worker_req *q, PyObject *result)
{
    return native_answer_rows(l, m, q, result, -1);
}

int native_send_part(Link *l, struct model *m, struct as_worker_req *q, PyObject *result)
{
    return send_result(l, m, q, result, -1, as_worker_part);
}
