/* Inputs as numpy arrays over the link's bytes, and the Request object. */
#include "native.h"

#include <string.h>

/* Keeps the bytes of a request alive for its arrays. There is one per request, made with its first
 * array: the common request, whose arrays are gone when the handler returns, costs one small
 * object. */
typedef struct hold {
    PyObject_HEAD void *bytes; /* of as_worker_req_hold */
} Hold;

/* numpy's descriptor of each OIP datatype, made once when the module is imported. Never freed: the
 * module lives as long as the process. */
static PyArray_Descr *descrs[AS_DT_COUNT];

static void hold_dealloc(PyObject *o)
{
    as_worker_release_hold(((Hold *)(void *)o)->bytes);
    PyObject_Free(o);
}

PyTypeObject native_hold_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Hold",
    .tp_basicsize = sizeof(Hold),
    .tp_dealloc = hold_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Keeps the bytes of a request alive for the arrays that show them.",
};

/* A borrowed reference. The caller owns *hold, and may pass the same one for every array of the
 * request. */
static PyObject *hold_of(struct as_worker_req *q, PyObject **hold)
{
    if (!*hold) {
        Hold *h = PyObject_New(Hold, &native_hold_type);

        if (!h)
            return NULL;
        h->bytes = as_worker_req_hold(q);
        *hold = (PyObject *)h;
    }
    return *hold;
}

/* --- arrays --- */

/* An array of this form over `data`; NULL: over memory of its own, which numpy allocates. */
static PyObject *array_over(enum as_dtype t, uint32_t ndim, const npy_intp *shape, const void *data)
{
    Py_INCREF(descrs[t]);
    return PyArray_NewFromDescr(&PyArray_Type, descrs[t], (int)ndim, shape, NULL,
                                (void *)(uintptr_t)data,
                                data ? NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED : 0, NULL);
}

/* ml_dtypes.bfloat16 if it is installed, else two raw bytes. */
static PyArray_Descr *bfloat16_descr(void)
{
    PyObject *type = native_import("ml_dtypes", "bfloat16");
    PyArray_Descr *d = NULL;

    if (!type && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear();
        type = PyUnicode_FromString("V2");
    }
    if (type)
        PyArray_DescrConverter(type, &d);
    Py_XDECREF(type);
    return d;
}

int native_request_init(void)
{
    static const int types[AS_DT_COUNT] = {
        [AS_DT_BOOL] = NPY_BOOL,     [AS_DT_UINT8] = NPY_UINT8,   [AS_DT_UINT16] = NPY_UINT16,
        [AS_DT_UINT32] = NPY_UINT32, [AS_DT_UINT64] = NPY_UINT64, [AS_DT_INT8] = NPY_INT8,
        [AS_DT_INT16] = NPY_INT16,   [AS_DT_INT32] = NPY_INT32,   [AS_DT_INT64] = NPY_INT64,
        [AS_DT_FP16] = NPY_FLOAT16,  [AS_DT_FP32] = NPY_FLOAT32,  [AS_DT_FP64] = NPY_FLOAT64,
        [AS_DT_BYTES] = NPY_OBJECT,
    };

    for (int t = AS_DT_BOOL; t < AS_DT_COUNT; t++) {
        descrs[t] = t == AS_DT_BF16 ? bfloat16_descr() : PyArray_DescrFromType(types[t]);
        if (!descrs[t])
            return -1;
    }
    return 0;
}

PyArray_Descr *native_descr(enum as_dtype t)
{
    return descrs[t];
}

/* Sets the empty slots of an object array to the elements of t. */
static int set_bytes_items(PyObject **slots, const struct as_tensor *t)
{
    const uint8_t *p = t->data;
    size_t left = t->nbytes;

    for (uint64_t i = 0, count = native_count(t); i < count; i++) {
        uint32_t n = 0;

        if (left >= 4)
            memcpy(&n, p, 4);
        if (left < 4 || left - 4 < n) {
            PyErr_Format(PyExc_ValueError, "malformed BYTES data");
            return -1;
        }
        Py_XDECREF(slots[i]);
        slots[i] = PyBytes_FromStringAndSize((const char *)p + 4, n);
        if (!slots[i])
            return -1;
        p += 4 + n;
        left -= 4 + n;
    }
    return 0;
}

/* An object array of bytes objects. The lengths were checked by the dispatcher; checked again. */
static PyObject *bytes_array(const struct as_tensor *t)
{
    PyObject *a = PyArray_SimpleNew((int)t->ndim, (const npy_intp *)t->shape, NPY_OBJECT);

    if (a && set_bytes_items(PyArray_DATA((PyArrayObject *)a), t) < 0)
        Py_CLEAR(a);
    if (a)
        /* it is a copy, but read-only like all inputs: otherwise a handler that writes into its
         * input would work for BYTES only */
        PyArray_CLEARFLAGS((PyArrayObject *)a, NPY_ARRAY_WRITEABLE);
    return a;
}

/* The view is C-contiguous and aligned because the link aligns each tensor to 64 bytes. It is
 * read-only (numpy checks NPY_ARRAY_WRITEABLE) because requests of other models are in the same
 * receive buffer. */
PyObject *native_array(struct as_worker_req *q, const struct as_tensor *t, PyObject **hold)
{
    PyObject *a, *base;

    if (t->dtype == AS_DT_BYTES)
        return bytes_array(t);
    /* an empty tensor may lie at the end of the buffer: numpy allocates, and nothing has to be kept
     * alive */
    a = array_over(t->dtype, t->ndim, (const npy_intp *)t->shape, t->nbytes ? t->data : NULL);
    if (!t->nbytes) {
        if (a)
            PyArray_CLEARFLAGS((PyArrayObject *)a, NPY_ARRAY_WRITEABLE);
        return a;
    }
    /* PyArray_SetBaseObject takes the reference, so the hold is freed with its last array, in
     * whichever thread */
    base = a ? hold_of(q, hold) : NULL;
    if (!base) {
        Py_XDECREF(a);
        return NULL;
    }
    PyArray_SetBaseObject((PyArrayObject *)a, Py_NewRef(base));
    return a;
}

static PyObject *stack_bytes(const struct as_tensor *const *t, Py_ssize_t n, const npy_intp *shape)
{
    PyObject *a = PyArray_SimpleNew((int)t[0]->ndim, shape, NPY_OBJECT);
    PyObject **slot = a ? PyArray_DATA((PyArrayObject *)a) : NULL;

    for (Py_ssize_t i = 0; a && i < n; i++) {
        if (set_bytes_items(slot, t[i]) < 0)
            Py_CLEAR(a);
        else
            slot += native_count(t[i]);
    }
    return a;
}

/* Uses memory of the link: numpy aligns its own memory to 16 bytes only. */
static PyObject *stack_fixed(const struct as_tensor *const *t, Py_ssize_t n, const npy_intp *shape)
{
    size_t bytes = 0, at = 0;
    uint8_t *to;
    void *held;
    PyObject *a;
    Hold *h;

    for (Py_ssize_t i = 0; i < n; i++)
        bytes += t[i]->nbytes;
    if (!bytes)
        return array_over(t[0]->dtype, t[0]->ndim, shape, NULL);
    held = as_worker_hold_new(bytes, &to);
    if (!held)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        if (t[i]->nbytes)
            memcpy(to + at, t[i]->data, t[i]->nbytes);
        at += t[i]->nbytes;
    }
    a = array_over(t[0]->dtype, t[0]->ndim, shape, to);
    h = a ? PyObject_New(Hold, &native_hold_type) : NULL;
    if (!h) {
        Py_XDECREF(a);
        as_worker_release_hold(held);
        return NULL;
    }
    h->bytes = held;
    PyArray_SetBaseObject((PyArrayObject *)a, (PyObject *)h);
    return a;
}

/* Read-only like every input, so that a handler works the same for one request and for several. */
PyObject *native_stack(const struct as_tensor *const *t, Py_ssize_t n, int64_t rows)
{
    npy_intp shape[AS_MAX_DIMS];
    PyObject *a;

    memcpy(shape, t[0]->shape, t[0]->ndim * sizeof(shape[0]));
    shape[0] = rows;
    a = t[0]->dtype == AS_DT_BYTES ? stack_bytes(t, n, shape) : stack_fixed(t, n, shape);
    if (a)
        PyArray_CLEARFLAGS((PyArrayObject *)a, NPY_ARRAY_WRITEABLE);
    return a;
}

/* --- Request --- */

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

/* A copy of the tensor as a writable array. */
static PyObject *copy_array(const struct as_tensor *t)
{
    PyObject *a;

    if (t->dtype == AS_DT_BYTES) {
        a = bytes_array(t);
        if (a)
            PyArray_ENABLEFLAGS((PyArrayObject *)a, NPY_ARRAY_WRITEABLE);
        return a;
    }
    a = array_over(t->dtype, t->ndim, (const npy_intp *)t->shape, NULL);
    if (a && t->nbytes)
        memcpy(PyArray_DATA((PyArrayObject *)a), t->data, t->nbytes);
    return a;
}

PyObject *native_outputs(const struct as_msg *msg)
{
    PyObject *d = PyDict_New();

    for (uint32_t i = 0; d && i < msg->n_tensors; i++) {
        PyObject *k = str_of(msg->tensors[i].name);
        PyObject *v = k ? copy_array(&msg->tensors[i]) : NULL;

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
