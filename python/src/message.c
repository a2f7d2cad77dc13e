/* Converts tensors, parameters and metadata from Python values into a message, for requests that
 * the SDK makes itself (local.c).
 */
#include "message.h"

/* Reads (name, datatype, shape, bytes), perhaps with parameters, which go to *ret_params: a
 * borrowed reference, or NULL. The shape is written to `dims`. */
static int read_tensor(PyObject *o, struct as_tensor *t, int64_t dims[AS_MAX_DIMS],
                       PyObject **ret_params)
{
    PyObject *name, *shape, *data;
    const char *datatype;

    *ret_params = NULL;
    if (!PyArg_ParseTuple(o, "UsO!S|O!", &name, &datatype, &PyTuple_Type, &shape, &data,
                          &PyDict_Type, ret_params) ||
        native_utf8(name, &t->name))
        return -1;
    t->dtype = as_dtype_of(as_str_of(datatype));
    if (t->dtype == AS_DT_INVALID || PyTuple_GET_SIZE(shape) > AS_MAX_DIMS) {
        PyErr_SetString(PyExc_ValueError, "unknown datatype, or too many dimensions");
        return -1;
    }
    t->ndim = (uint32_t)PyTuple_GET_SIZE(shape);
    for (uint32_t i = 0; i < t->ndim; i++) {
        dims[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
        if (dims[i] == -1 && PyErr_Occurred())
            return -1;
    }
    t->shape = dims;
    t->data = (const uint8_t *)PyBytes_AS_STRING(data);
    t->nbytes = (size_t)PyBytes_GET_SIZE(data);
    return 0;
}

static int read_number(PyObject *v, struct as_param *p)
{
    int over;

    p->type = AS_PARAM_INT64;
    p->i64 = PyLong_AsLongLongAndOverflow(v, &over);
    if (over > 0) {
        p->type = AS_PARAM_UINT64;
        p->u64 = PyLong_AsUnsignedLongLong(v);
    } else if (over < 0) {
        PyErr_SetString(PyExc_OverflowError, "a parameter is too small for int64");
    }
    return PyErr_Occurred() ? -1 : 0;
}

int native_param_read(PyObject *k, PyObject *v, struct as_param *p)
{
    if (native_utf8(k, &p->name))
        return -1;
    if (PyBool_Check(v)) {
        p->type = AS_PARAM_BOOL;
        p->b = v == Py_True;
    } else if (PyLong_Check(v)) {
        return read_number(v, p);
    } else if (PyFloat_Check(v)) {
        p->type = AS_PARAM_DOUBLE;
        p->f64 = PyFloat_AS_DOUBLE(v);
    } else {
        p->type = AS_PARAM_STRING;
        return native_utf8(v, &p->str);
    }
    return 0;
}

/* Reads a metadata entry: str or bytes. */
static int read_meta(PyObject *k, PyObject *v, struct as_meta *m)
{
    if (native_utf8(k, &m->key))
        return -1;
    if (!PyBytes_Check(v))
        return native_utf8(v, &m->value);
    m->value = (struct as_str){PyBytes_AS_STRING(v), (size_t)PyBytes_GET_SIZE(v)};
    return 0;
}

void native_message_free(struct message *s)
{
    PyMem_Free(s->t);
    PyMem_Free(s->dims);
    PyMem_Free(s->p);
    PyMem_Free(s->m);
    PyMem_Free(s->tensor_params);
    *s = (struct message){0};
}

/* Reads the parameters of the i-th tensor. */
static int read_tensor_params(struct message *s, uint32_t i, PyObject *params)
{
    size_t n = s->n_tensor_params + (size_t)PyDict_GET_SIZE(params);
    struct as_tensor_param *p = PyMem_Realloc(s->tensor_params, (n + 1) * sizeof(*p));
    PyObject *k, *v;
    Py_ssize_t at = 0;

    if (!p)
        return PyErr_NoMemory(), -1;
    s->tensor_params = p;
    while (s->n_tensor_params < n && PyDict_Next(params, &at, &k, &v)) {
        if (native_param_read(k, v, &p[s->n_tensor_params].param))
            return -1;
        p[s->n_tensor_params++].tensor = i;
    }
    return 0;
}

int native_message_read(struct message *s, PyObject *values)
{
    struct as_msg *msg = &s->msg;
    PyObject *k, *v, *tensors, *params, *id, *meta, *tensor_params;
    Py_ssize_t at = 0;

    if (!PyArg_ParseTuple(values, "O!O!UO!:message", &PyList_Type, &tensors, &PyDict_Type, &params,
                          &id, &PyDict_Type, &meta))
        return -1;
    *s = (struct message){0};
    s->t = PyMem_Calloc((size_t)PyList_GET_SIZE(tensors) + 1, sizeof(*s->t));
    s->dims = PyMem_Calloc((size_t)PyList_GET_SIZE(tensors) + 1, sizeof(*s->dims));
    s->p = PyMem_Calloc((size_t)PyDict_GET_SIZE(params) + 1, sizeof(*s->p));
    s->m = PyMem_Calloc((size_t)PyDict_GET_SIZE(meta) + 1, sizeof(*s->m));
    if (!s->t || !s->dims || !s->p || !s->m) {
        native_message_free(s);
        return PyErr_NoMemory(), -1;
    }
    if (native_utf8(id, &msg->id))
        goto fail;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tensors); i++) {
        if (read_tensor(PyList_GET_ITEM(tensors, i), &s->t[i], s->dims[i], &tensor_params) ||
            (tensor_params && read_tensor_params(s, (uint32_t)i, tensor_params)))
            goto fail;
        msg->n_tensors++;
    }
    while (PyDict_Next(params, &at, &k, &v)) {
        if (native_param_read(k, v, &s->p[msg->n_params]))
            goto fail;
        msg->n_params++;
    }
    at = 0;
    while (PyDict_Next(meta, &at, &k, &v)) {
        if (read_meta(k, v, &s->m[msg->n_meta]))
            goto fail;
        msg->n_meta++;
    }
    msg->tensors = s->t;
    msg->params = s->p;
    msg->meta = s->m;
    return 0;
fail:
    native_message_free(s);
    return -1;
}
