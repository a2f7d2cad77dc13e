/* Tensors as numpy arrays, over the link's bytes or copied. */
#include "array.h"

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

int native_array_init(void)
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

PyObject *native_array_copy(const struct as_tensor *t)
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
