/* Refuses values of which numpy would silently lose something when it makes an array of them. */
#include "output.h"

#include <math.h>

/* numpy.ma.MaskedArray, once some code has imported numpy.ma; before that there can be none. A
 * borrowed reference, or NULL without an exception. */
static PyObject *masked_type(void)
{
    static PyObject *type;

    if (!type)
        type = native_loaded("numpy.ma", "MaskedArray");
    return type;
}

static bool is_masked(PyObject *v)
{
    PyObject *type;

    if (!PyArray_Check(v) || PyArray_CheckExact(v))
        return false;
    type = masked_type();
    return type && PyObject_TypeCheck(v, (PyTypeObject *)type);
}

/* True: v is a masked array, or a list or tuple that contains one, as deep as numpy looks. */
static bool has_masked(PyObject *v, int depth)
{
    if (!PyList_Check(v) && !PyTuple_Check(v))
        return is_masked(v);
    if (depth == AS_MAX_DIMS || !masked_type())
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(v); i++) {
        if (has_masked(PySequence_Fast_GET_ITEM(v, i), depth + 1))
            return true;
    }
    return false;
}

int output_check_mask(struct output *o, PyObject *name, PyObject *value)
{
    if (PyArray_CheckExact(value) || !has_masked(value, 0))
        return 0;
    return output_refuse("output '%U' of model '%U' is a masked array, whose mask would be lost: "
                         "return .filled(value), or the mask as an output of its own",
                         name, o->m->name);
}

/* Sets, iterators and other objects: numpy makes an array of one object of them. */
int output_check_object(struct output *o, PyObject *name, PyObject *value, PyArrayObject *a)
{
    const char *type = Py_TYPE(value)->tp_name, *dot = strrchr(type, '.');

    if (PyArray_DESCR(a)->kind != 'O' || PyArray_NDIM(a) || PyArray_IsScalar(value, Generic) ||
        PyArray_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value) ||
        PyLong_Check(value))
        return 0;
    type = dot ? dot + 1 : type;
    return output_refuse(
        "output '%U' of model '%U' is %s %s, which numpy cannot convert to an array of "
        "numbers or text",
        name, o->m->name, strchr("aeiou", type[0]) ? "an" : "a", type);
}

static PyObject *is_infinite(PyArrayObject *a)
{
    PyObject *isinf = native_import("numpy", "isinf");
    PyObject *r = isinf ? PyObject_CallOneArg(isinf, (PyObject *)a) : NULL;

    Py_XDECREF(isinf);
    return r;
}

/* An array that is true where the cast has changed a number. */
static PyObject *lossy_elements(PyArrayObject *was, PyArrayObject *is)
{
    PyObject *a, *b, *r;

    if (PyArray_ISINTEGER(was) && PyArray_ISINTEGER(is))
        return PyObject_RichCompare((PyObject *)was, (PyObject *)is, Py_NE);
    a = is_infinite(was); /* only infinity: fewer digits are what was declared */
    b = a ? is_infinite(is) : NULL;
    r = b ? PyObject_RichCompare(a, b, Py_NE) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return r;
}

/* The same for arrays that were made of Python numbers, without calling numpy. 1: changed, 0: not,
 * -1: another kind of array. */
static int is_lossy_fast(PyArrayObject *was, PyArrayObject *is)
{
    npy_intp n = PyArray_SIZE(was);
    const double *x = PyArray_DATA(was);
    const npy_int64 *k = PyArray_DATA(was);
    const void *to = PyArray_DATA(is);

    if (!PyArray_ISCARRAY_RO(was) || !PyArray_ISCARRAY_RO(is) || PyArray_SIZE(is) != n)
        return -1;
    if (PyArray_TYPE(was) == NPY_DOUBLE && PyArray_TYPE(is) == NPY_FLOAT) {
        for (npy_intp i = 0; i < n; i++) {
            if (isinf(((const float *)to)[i]) && !isinf(x[i]))
                return 1;
        }
        return 0;
    }
    if (PyArray_TYPE(was) == NPY_INT64 && PyArray_TYPE(is) == NPY_INT32) {
        for (npy_intp i = 0; i < n; i++) {
            if (((const npy_int32 *)to)[i] != k[i])
                return 1;
        }
        return 0;
    }
    return -1;
}

int output_check_range(PyArrayObject *was, PyArrayObject *is, enum as_dtype t)
{
    PyObject *where, *any = NULL;
    PyArrayObject *array;
    int is_lost;

    if (PyArray_EquivTypes(PyArray_DESCR(was), PyArray_DESCR(is)) || !PyArray_ISNUMBER(was) ||
        !PyArray_ISNUMBER(is))
        return 0;
    is_lost = is_lossy_fast(was, is);
    if (is_lost < 0) {
        where = lossy_elements(was, is);
        array = where ? (PyArrayObject *)PyArray_FROM_O(where) : NULL; /* also for a scalar */
        any = array ? PyArray_Any(array, NPY_RAVEL_AXIS, NULL) : NULL;
        is_lost = any ? PyObject_IsTrue(any) : -1;
        Py_XDECREF(where);
        Py_XDECREF(array);
        Py_XDECREF(any);
    }
    if (is_lost > 0)
        PyErr_Format(PyExc_OverflowError, "a number is out of the range of %s", as_dtype_name(t));
    return is_lost ? -1 : 0;
}
