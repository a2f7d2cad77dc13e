/* Reads a declared model, once: for calls, and for its registration. */
#include "native.h"

static int get_bool(PyObject *o, const char *name, bool *ret)
{
    PyObject *v = PyObject_GetAttrString(o, name);
    int is = v ? PyObject_IsTrue(v) : -1;

    Py_XDECREF(v);
    *ret = is == 1;
    return is < 0 ? -1 : 0;
}

static int get_int(PyObject *o, const char *name, long long *ret)
{
    PyObject *v = PyObject_GetAttrString(o, name);

    *ret = v ? PyLong_AsLongLong(v) : -1;
    Py_XDECREF(v);
    return PyErr_Occurred() ? -1 : 0;
}

/* Copies the shape into an array of int64_t, which the model owns. */
static int get_shape(PyObject *shape, struct as_tensor_spec *s)
{
    Py_ssize_t n;
    int64_t *to;

    if (shape == Py_None) {
        /* shape None: any rank */
        s->ndim = AS_ANY_RANK;
        return 0;
    }
    n = PySequence_Size(shape);
    if (n < 0)
        return -1;
    /* + 1: the shape of a scalar is empty, and NULL would mean out of memory */
    to = PyMem_Calloc((size_t)n + 1, sizeof(*to));
    if (!to)
        return PyErr_NoMemory(), -1;
    s->ndim = (uint32_t)n;
    s->shape = to;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *v = PySequence_GetItem(shape, i);

        to[i] = v ? PyLong_AsLongLong(v) : -1;
        Py_XDECREF(v);
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* labels: None, or a tuple of str, which the model keeps alive because the slices point into it. */
static int get_labels(struct model *m, PyObject *labels, struct as_tensor_spec *s)
{
    Py_ssize_t n = labels == Py_None ? 0 : PyTuple_Size(labels);
    struct as_str *to = n > 0 ? PyMem_Calloc((size_t)n, sizeof(*to)) : NULL;

    if (n < 0)
        return -1;
    if (n && !to)
        return PyErr_NoMemory(), -1;
    s->labels = to;
    s->n_labels = (uint32_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (native_utf8(PyTuple_GET_ITEM(labels, i), &to[i]) < 0)
            return -1;
    }
    return PyList_Append(m->text_owners, labels);
}

/* Reads one side of a signature: None, or a sequence of (name, datatype, shape, labels). */
static int get_specs(struct model *m, PyObject *o, const char *attr, struct as_tensor_spec **ret,
                     uint32_t *ret_n, PyObject **ret_names, bool *ret_has)
{
    PyObject *seq = PyObject_GetAttrString(o, attr);
    Py_ssize_t n = seq && seq != Py_None ? PySequence_Size(seq) : 0;
    PyObject *names = n >= 0 ? PyTuple_New(n) : NULL;

    *ret_has = seq && seq != Py_None;
    *ret_n = (uint32_t)n;
    *ret = names ? PyMem_Calloc((size_t)n + 1, sizeof(**ret)) : NULL;
    for (Py_ssize_t i = 0; *ret && i < n; i++) {
        struct as_tensor_spec *s = &(*ret)[i];
        PyObject *row = PySequence_GetItem(seq, i), *name, *shape, *labels;
        const char *dtype;

        if (row && PyArg_ParseTuple(row, "UsOO", &name, &dtype, &shape, &labels) &&
            native_utf8(name, &s->name) == 0 && get_shape(shape, s) == 0 &&
            get_labels(m, labels, s) == 0) {
            s->dtype = as_dtype_of(as_str_of(dtype));
            /* slices in the specs point into the strings of this tuple */
            PyTuple_SET_ITEM(names, i, Py_NewRef(name));
        }
        Py_XDECREF(row);
        /* Python's own exceptions are good enough for the author: this runs before anything is
         * served */
        if (PyErr_Occurred())
            break;
    }
    Py_XDECREF(seq);
    *ret_names = names;
    return PyErr_Occurred() ? -1 : PyList_Append(m->text_owners, names);
}

/* params: a sequence of (name, required, default, is_request), the last n_kwonly keyword-only. */
static int get_params(PyObject *o, struct model *m)
{
    PyObject *seq = PyObject_GetAttrString(o, "params");
    Py_ssize_t n = seq ? PySequence_Size(seq) : -1;
    long long n_kw = 0;

    if (n < 0 || get_int(o, "n_kwonly", &n_kw) < 0) {
        Py_XDECREF(seq);
        return -1;
    }
    m->params = PyMem_Calloc((size_t)n + 1, sizeof(*m->params));
    m->kwnames = n_kw ? PyTuple_New((Py_ssize_t)n_kw) : NULL;
    for (Py_ssize_t i = 0; m->params && i < n; i++) {
        struct param *p = &m->params[i];
        PyObject *row = PySequence_GetItem(seq, i), *fallback;
        int required, request;

        if (row && PyArg_ParseTuple(row, "UpOp", &p->name, &required, &fallback, &request) &&
            native_utf8(p->name, &p->utf8) == 0) {
            p->name = Py_NewRef(p->name);
            p->fallback = required ? NULL : Py_NewRef(fallback);
            p->request = request;
            m->takes_request = m->takes_request || p->request;
            /* counts up in the loop, so that an incomplete model has complete parameters only */
            m->n_params = i + 1;
            if (i >= n - (Py_ssize_t)n_kw)
                PyTuple_SET_ITEM(m->kwnames, i - (n - (Py_ssize_t)n_kw), Py_NewRef(p->name));
        }
        Py_XDECREF(row);
        if (PyErr_Occurred())
            break;
    }
    Py_DECREF(seq);
    return PyErr_Occurred() ? -1 : 0;
}

/* `batching`: None, or (max_batch_size, max_wait in ns, preferred sizes, ragged, as_list), checked
 * where it was declared. */
static int get_batching(PyObject *o, struct model *m, struct as_worker_model *r)
{
    PyObject *v = PyObject_GetAttrString(o, "batching"), *sizes;
    int ragged, as_list, err = -1;
    unsigned long long wait;
    unsigned int max;

    if (v == Py_None) {
        Py_DECREF(v);
        return 0;
    }
    if (v && PyArg_ParseTuple(v, "IKO!pp", &max, &wait, &PyTuple_Type, &sizes, &ragged, &as_list) &&
        PyTuple_GET_SIZE(sizes) <= (Py_ssize_t)AS_WORKER_PREFERRED) {
        r->max_batch = max;
        r->max_wait = wait;
        r->ragged = ragged;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes); i++)
            r->preferred[r->n_preferred++] =
                (uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(sizes, i));
        m->batched = max > 0;
        m->as_list = as_list;
        m->ragged = ragged;
        err = 0;
    }
    Py_XDECREF(v);
    if (PyErr_Occurred())
        return -1;
    if (err)
        PyErr_SetString(PyExc_ValueError, "too many preferred sizes");
    return err;
}

int native_model_init(struct model *m, PyObject *o, struct as_worker_model *ret_r)
{
    PyObject *input_names = NULL;
    long long max_ongoing;

    m->text_owners = PyList_New(0);
    m->name = m->text_owners ? PyObject_GetAttrString(o, "name") : NULL;
    m->version = m->name ? PyObject_GetAttrString(o, "version") : NULL;
    m->where = m->version ? PyObject_GetAttrString(o, "where") : NULL;
    m->handler = m->where ? PyObject_GetAttrString(o, "handler") : NULL;
    m->submit = m->handler ? PyObject_GetAttrString(o, "submit") : NULL;
    ret_r->size = sizeof(*ret_r);
    ret_r->name = m->submit ? PyUnicode_AsUTF8(m->name) : NULL;
    ret_r->version = ret_r->name ? PyUnicode_AsUTF8(m->version) : NULL;
    if (!ret_r->version)
        return -1;
    if (m->submit == Py_None)
        Py_CLEAR(m->submit);
    if (get_bool(o, "is_async", &m->is_async) < 0 || get_bool(o, "eager", &m->eager) < 0 ||
        get_bool(o, "decoupled", &m->decoupled) < 0 ||
        get_bool(o, "streams_inputs", &m->streams_inputs) < 0 ||
        get_bool(o, "opaque", &m->opaque) < 0 || get_bool(o, "http", &m->http) < 0 ||
        get_bool(o, "var_keyword", &m->var_keyword) < 0 ||
        get_bool(o, "idempotent", &ret_r->idempotent) < 0 || get_batching(o, m, ret_r) < 0 ||
        get_params(o, m) < 0 ||
        get_specs(m, o, "inputs", &m->inputs, &m->n_inputs, &input_names, &ret_r->has_inputs) < 0 ||
        get_specs(m, o, "outputs", &m->outputs, &m->n_outputs, &m->output_names, &m->has_outputs) <
            0 ||
        get_int(o, "max_ongoing_requests", &max_ongoing) < 0)
        return -1;           /* the process ends, and frees what is incomplete */
    Py_XDECREF(input_names); /* m->text_owners has a reference */
    ret_r->platform = "python";
    ret_r->max_ongoing = (uint32_t)max_ongoing;
    native_sync_init_model(m);
    ret_r->opaque = m->opaque;
    ret_r->http = m->http;
    ret_r->decoupled = m->decoupled;
    ret_r->streams_inputs = m->streams_inputs;
    /* the dispatcher checks inputs before Python gets them, and checks outputs again */
    ret_r->has_outputs = m->has_outputs;
    ret_r->inputs = m->inputs;
    ret_r->outputs = m->outputs;
    ret_r->n_inputs = m->n_inputs;
    ret_r->n_outputs = m->n_outputs;
    return 0;
}

static void specs_free(struct as_tensor_spec *specs, uint32_t n)
{
    for (uint32_t i = 0; specs && i < n; i++) {
        PyMem_Free((void *)(uintptr_t)specs[i].shape);
        PyMem_Free((void *)(uintptr_t)specs[i].labels);
    }
    PyMem_Free(specs);
}

void native_models_drop_handlers(Link *l)
{
    for (uint32_t i = 0; l->models && i < l->n_models; i++) {
        Py_CLEAR(l->models[i].handler);
        Py_CLEAR(l->models[i].submit);
        for (Py_ssize_t k = 0; k < l->models[i].n_params; k++)
            Py_CLEAR(l->models[i].params[k].fallback);
    }
}

void native_models_free(Link *l)
{
    native_models_drop_handlers(l);
    for (uint32_t i = 0; l->models && i < l->n_models; i++) {
        struct model *m = &l->models[i];

        for (Py_ssize_t k = 0; k < m->n_params; k++)
            Py_XDECREF(m->params[k].name);
        for (uint32_t k = 0; k < NATIVE_CACHED_NAMES; k++)
            Py_XDECREF(m->cached_names[k]);
        PyMem_Free(m->params);
        specs_free(m->inputs, m->n_inputs);
        specs_free(m->outputs, m->n_outputs);
        Py_XDECREF(m->name);
        Py_XDECREF(m->version);
        Py_XDECREF(m->where);
        Py_XDECREF(m->kwnames);
        Py_XDECREF(m->output_names);
        Py_XDECREF(m->text_owners);
    }
    PyMem_Free(l->models);
    l->models = NULL;
}
