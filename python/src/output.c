/* Converts one value of a result into a tensor: datatype, shape, contiguous little-endian bytes. */
#include "output.h"

#include <string.h>

/* The text of OutputError goes to the client as it is, so it names the output and the model. Always
 * -1. */
int output_refuse(const char *format, ...)
{
    va_list ap;
    PyObject *text;

    va_start(ap, format);
    text = PyUnicode_FromFormatV(format, ap);
    va_end(ap);
    if (text)
        PyErr_SetObject(native_output_error, text);
    Py_XDECREF(text);
    return -1;
}

/* May be called again as long as no tensor was added, when the form of the result becomes known.
 * After a failure output_fini is safe: n is 0, and pointers are NULL or owned. */
int output_init(struct output *o, struct model *m, Py_ssize_t n)
{
    o->m = m;
    o->t = o->t_stack;
    o->keep = o->keep_stack;
    o->n = o->n_params = o->n_tensor_params = 0;
    o->params = NULL;
    o->tensor_params = NULL;
    o->cap = OUTPUT_ON_STACK;
    if (n <= OUTPUT_ON_STACK)
        return 0;
    if (n > (Py_ssize_t)AS_WORKER_TENSORS)
        return output_refuse("model '%U' returned %zd outputs; the limit is %u", m->name, n,
                             AS_WORKER_TENSORS);
    o->t = PyMem_Malloc((size_t)n * sizeof(*o->t));
    o->keep = PyMem_Malloc((size_t)n * sizeof(*o->keep));
    o->cap = (uint32_t)n;
    return o->t && o->keep ? 0 : (PyErr_NoMemory(), -1);
}

/* Called after the answer was sent: as_worker_answer has copied what it needs, so objects of user
 * code are not referenced for longer than the call. */
void output_fini(struct output *o)
{
    for (uint32_t i = 0; i < o->n; i++) {
        Py_XDECREF(o->keep[i].array);
        Py_XDECREF(o->keep[i].packed);
        Py_XDECREF(o->keep[i].name);
    }
    if (o->t != o->t_stack)
        PyMem_Free(o->t);
    if (o->keep != o->keep_stack)
        PyMem_Free(o->keep);
    PyMem_Free(o->params);
    PyMem_Free(o->tensor_params);
}

/* --- datatypes --- */

/* If ml_dtypes was there at import, its type is equivalent to our descriptor. Otherwise two plain
 * raw bytes stand for bfloat16; a structured dtype of that size does not. */
static bool is_bfloat16(PyArrayObject *a)
{
    PyArray_Descr *d = PyArray_DESCR(a);

    if (PyArray_ITEMSIZE(a) != 2)
        return false;
    return PyArray_EquivTypes(d, native_descr(AS_DT_BF16)) ||
           (d->type_num == NPY_VOID && !PyDataType_HASFIELDS(d) && !PyDataType_HASSUBARRAY(d));
}

/* Decides by kind and size instead of the type number: `long` and `long long` may be two numpy
 * types of the same 64 bits. Kinds are those of numpy's array interface ('T': StringDType of numpy
 * 2). */
static enum as_dtype dtype_of(PyArrayObject *a)
{
    static const uint8_t ints[] = {
        [1] = AS_DT_INT8, [2] = AS_DT_INT16, [4] = AS_DT_INT32, [8] = AS_DT_INT64};
    static const uint8_t uints[] = {
        [1] = AS_DT_UINT8, [2] = AS_DT_UINT16, [4] = AS_DT_UINT32, [8] = AS_DT_UINT64};
    static const uint8_t floats[] = {[2] = AS_DT_FP16, [4] = AS_DT_FP32, [8] = AS_DT_FP64};
    size_t size = (size_t)PyArray_ITEMSIZE(a);

    switch (PyArray_DESCR(a)->kind) {
    case 'f':
        return size < AS_COUNT(floats) ? floats[size] : AS_DT_INVALID;
    case 'i':
        return size < AS_COUNT(ints) ? ints[size] : AS_DT_INVALID;
    case 'u':
        return size < AS_COUNT(uints) ? uints[size] : AS_DT_INVALID;
    case 'b':
        return AS_DT_BOOL;
    case 'S':
    case 'U':
    case 'O':
    case 'T':
        return AS_DT_BYTES;
    default:
        return is_bfloat16(a) ? AS_DT_BF16 : AS_DT_INVALID;
    }
}

/* --- error texts --- */

#define SHOWN_NAMES 16

PyObject *output_quoted(PyObject *names)
{
    PyObject *it = PyObject_GetIter(names), *list = PyList_New(0), *sep, *name, *text = NULL;

    while (it && list && PyList_GET_SIZE(list) <= SHOWN_NAMES && (name = PyIter_Next(it))) {
        PyObject *one =
            PyList_GET_SIZE(list) < SHOWN_NAMES ? PyObject_Repr(name) : PyUnicode_FromString("…");
        int err = one ? PyList_Append(list, one) : -1;

        Py_XDECREF(one);
        Py_DECREF(name);
        if (err)
            break;
    }
    sep = PyUnicode_FromString(", ");
    if (sep && list && !PyErr_Occurred())
        text = PyUnicode_Join(sep, list);
    Py_XDECREF(sep);
    Py_XDECREF(it);
    Py_XDECREF(list);
    return text;
}

/* A text like "INT8 [-1, 2]": a new str. */
static PyObject *shape_text(enum as_dtype t, const int64_t *shape, uint32_t ndim)
{
    char text[AS_MAX_DIMS * 22 + 32];
    size_t n;

    if (ndim == AS_ANY_RANK)
        return PyUnicode_FromFormat("%s of any shape", as_dtype_name(t));
    n = (size_t)snprintf(text, sizeof(text), "%s [", as_dtype_name(t));
    for (uint32_t i = 0; i < ndim && i < AS_MAX_DIMS; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%lld", i ? ", " : "",
                              (long long)shape[i]);
    snprintf(text + n, sizeof(text) - n, "]");
    return PyUnicode_FromString(text);
}

/* An array is never cast silently: a model that returns float64 where FP32 is declared has a
 * mistake, and the author should learn of it before a client does. */
static int refuse_form(struct output *o, PyObject *name, PyArrayObject *a, enum as_dtype got,
                       const struct as_tensor_spec *want)
{
    PyObject *np = (PyObject *)PyArray_DESCR(a), *is, *declared;

    if (got == AS_DT_INVALID)
        return output_refuse(
            "output '%U' of model '%U' has the numpy dtype %S, which has no OIP datatype", name,
            o->m->name, np);
    is = shape_text(got, (const int64_t *)PyArray_DIMS(a), (uint32_t)PyArray_NDIM(a));
    declared = shape_text(want->dtype, want->shape, want->ndim);
    if (is && declared)
        output_refuse("output '%U' of model '%U' is %U (numpy %S), but %U is declared", name,
                      o->m->name, is, np, declared);
    Py_XDECREF(is);
    Py_XDECREF(declared);
    return -1;
}

/* -1 in the declared shape means any size. The dispatcher checks again; this check gives the author
 * a message with the array's own dtype. */
static bool shape_fits(PyArrayObject *a, const struct as_tensor_spec *spec)
{
    bool fits = spec->ndim == AS_ANY_RANK || (uint32_t)PyArray_NDIM(a) == spec->ndim;

    for (uint32_t i = 0; fits && spec->ndim != AS_ANY_RANK && i < spec->ndim; i++)
        fits = spec->shape[i] == -1 || spec->shape[i] == PyArray_DIM(a, (int)i);
    return fits;
}

/* --- values --- */

/* Raises OutputError with the current exception as the reason why the value is not an output. */
static int refuse_value(struct output *o, PyObject *name)
{
    PyObject *exc = native_fetch_exception();

    output_refuse("output '%U' of model '%U' cannot be converted to a tensor: %S", name, o->m->name,
                  exc);
    Py_DECREF(exc);
    return -1;
}

/* Makes an array of a scalar, a list or the like. Numbers get the declared datatype if their kind
 * allows it; text becomes objects, because numpy's fixed-width strings drop trailing zeros. */
static PyObject *array_of(PyObject *value, const struct as_tensor_spec *spec)
{
    PyObject *a = PyArray_FROM_O(value), *cast;
    PyArray_Descr *want = spec && spec->dtype != AS_DT_BYTES ? native_descr(spec->dtype) : NULL;
    bool text;

    /* a value with a dtype (a numpy scalar, another library's array) keeps it */
    if (!a || PyObject_HasAttrString(value, "dtype"))
        return a;
    text = PyArray_DESCR((PyArrayObject *)a)->kind == 'S' ||
           PyArray_DESCR((PyArrayObject *)a)->kind == 'U';
    if (text)
        want = native_descr(AS_DT_BYTES);
    else if (!want ||
             !PyArray_CanCastTypeTo(PyArray_DESCR((PyArrayObject *)a), want, NPY_SAME_KIND_CASTING))
        return a;
    Py_INCREF(want);
    cast = PyArray_FromAny(value, want, 0, 0, NPY_ARRAY_FORCECAST, NULL);
    if (cast && !text &&
        output_check_range((PyArrayObject *)a, (PyArrayObject *)cast, spec->dtype) < 0)
        Py_CLEAR(cast);
    Py_DECREF(a);
    return cast;
}

/* Gets one element of a BYTES tensor: bytes as they are, text as UTF-8. */
static int bytes_element(PyObject *e, const char **ret_p, Py_ssize_t *ret_n)
{
    char *p;

    if (PyBytes_Check(e)) {
        if (PyBytes_AsStringAndSize(e, &p, ret_n) < 0)
            return -1;
        *ret_p = p;
    } else if (PyUnicode_Check(e)) {
        *ret_p = PyUnicode_AsUTF8AndSize(e, ret_n);
        if (!*ret_p)
            return -1;
    } else {
        PyErr_Format(PyExc_TypeError, "elements must be bytes or str, not %s", Py_TYPE(e)->tp_name);
        return -1;
    }
    if (*ret_n > (Py_ssize_t)UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "an element has 4 GiB or more");
        return -1;
    }
    return 0;
}

/* Packs the elements of an object array into a bytes object, in OIP's form of BYTES: a 32-bit
 * little-endian length before each element. The first pass computes the size, so that the second
 * copies each byte once. */
static PyObject *pack_bytes(PyArrayObject *a)
{
    PyObject **e = PyArray_DATA(a), *packed;
    npy_intp count = PyArray_SIZE(a);
    Py_ssize_t total = 0, n;
    const char *p;
    char *to;

    for (npy_intp i = 0; i < count; i++) {
        if (bytes_element(e[i] ? e[i] : Py_None, &p, &n) < 0)
            return NULL;
        total += 4 + n;
    }
    packed = PyBytes_FromStringAndSize(NULL, total);
    if (!packed)
        return NULL;
    to = PyBytes_AS_STRING(packed);
    for (npy_intp i = 0; i < count; i++) {
        uint32_t len;

        /* it succeeded above, and no Python code that could change the array has run since */
        (void)bytes_element(e[i], &p, &n);
        len = (uint32_t)n;
        memcpy(to, &len, 4);
        memcpy(to + 4, p, (size_t)n);
        to += 4 + n;
    }
    return packed;
}

/* A contiguous array in native byte order and C order; fixed-width strings become objects. */
static PyArrayObject *contiguous_array(PyArrayObject *a, enum as_dtype t)
{
    PyArray_Descr *d = NULL;

    if (t == AS_DT_BYTES)
        d = (PyArray_Descr *)Py_NewRef((PyObject *)native_descr(AS_DT_BYTES));
    else if (PyArray_ISBYTESWAPPED(a))
        d = PyArray_DescrNewByteorder(PyArray_DESCR(a), NPY_NATIVE);
    return (PyArrayObject *)PyArray_FromArray(a, d, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
}

/* Consumes `a`. */
static int put_array(struct output *o, PyObject *name, PyArrayObject *a, enum as_dtype t)
{
    struct as_tensor *to = &o->t[o->n];
    int err;

    if (!PyArray_ISCARRAY_RO(a) || (t == AS_DT_BYTES && PyArray_DESCR(a)->kind != 'O'))
        Py_SETREF(a, contiguous_array(a, t));
    if (!a)
        return refuse_value(o, name);
    o->keep[o->n] = (struct tensor_owner){.array = (PyObject *)a};
    err = native_utf8(name, &to->name);
    to->dtype = t;
    to->ndim = (uint32_t)PyArray_NDIM(a);
    /* numpy's own array of dimensions; npy_intp has 64 bits on all supported platforms */
    to->shape = (const int64_t *)PyArray_DIMS(a);
    to->data = PyArray_DATA(a);
    to->nbytes = (size_t)PyArray_NBYTES(a);
    o->n++;
    if (err)
        return -1;
    if (t == AS_DT_BYTES) {
        PyObject *packed = pack_bytes(a);

        if (!packed)
            return refuse_value(o, name);
        o->keep[o->n - 1].packed = packed;
        to->data = (const uint8_t *)PyBytes_AS_STRING(packed);
        to->nbytes = (size_t)PyBytes_GET_SIZE(packed);
    }
    return 0;
}

bool output_is_awaitable(PyObject *v)
{
    PyAsyncMethods *am = Py_TYPE(v)->tp_as_async;

    return PyCoro_CheckExact(v) || (am && am->am_await);
}

void output_close_coroutine(PyObject *v)
{
    PyObject *closed = PyCoro_CheckExact(v) ? PyObject_CallMethod(v, "close", NULL) : NULL;

    if (!closed)
        PyErr_Clear();
    Py_XDECREF(closed);
}

static int refuse_awaitable(struct output *o, PyObject *name, PyObject *value)
{
    const char *type = Py_TYPE(value)->tp_name, *dot = strrchr(type, '.');

    output_close_coroutine(value);
    return output_refuse("output '%U' of model '%U' is a %s, which its handler must await", name,
                         o->m->name, dot ? dot + 1 : type);
}

int output_put(struct output *o, PyObject *name, PyObject *value, const struct as_tensor_spec *spec)
{
    PyArrayObject *a;
    enum as_dtype t;

    if (value == Py_None)
        return output_refuse("output '%U' of model '%U' is None", name, o->m->name);
    if (output_is_awaitable(value))
        return refuse_awaitable(o, name, value);
    if (output_check_mask(o, name, value) < 0)
        return -1;
    if (PyArray_Check(value))
        a = (PyArrayObject *)Py_NewRef(value);
    else
        a = (PyArrayObject *)array_of(value, spec);
    if (!a)
        return refuse_value(o, name);
    t = dtype_of(a);
    if (output_check_object(o, name, value, a) == 0) {
        if ((uint32_t)PyArray_NDIM(a) > AS_MAX_DIMS)
            output_refuse("output '%U' of model '%U' has more than %d dimensions", name, o->m->name,
                          AS_MAX_DIMS);
        else if (t == AS_DT_INVALID || (spec && (t != spec->dtype || !shape_fits(a, spec))))
            refuse_form(o, name, a, t, spec);
        else
            return put_array(o, name, a, t);
    }
    Py_DECREF(a);
    return -1;
}
