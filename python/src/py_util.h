/* py_util.h — short forms of Python's C interface: exceptions, texts, dicts, modules. Needs the
 * GIL.
 */
#ifndef ANYSERVE_PY_UTIL_H
#define ANYSERVE_PY_UTIL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <anyserve/types.h>
#include <string.h>

#define AS_COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define AS_MIN(a, b) ((a) < (b) ? (a) : (b))
#define AS_UNUSED    __attribute__((unused))
#define AS_US        ((as_ns)1000) /* as_ns counts nanoseconds */
#define AS_MS        (1000 * AS_US)
#define AS_SEC       (1000 * AS_MS)
#define AS_STR(lit)  ((struct as_str){(lit), sizeof(lit) - 1})

static inline struct as_str as_str_of(const char *z)
{
    return (struct as_str){z, z ? strlen(z) : 0};
}

static inline bool as_str_eq(struct as_str a, struct as_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Returns the current exception with its traceback, and clears it; a new reference. */
static inline PyObject *native_fetch_exception(void)
{
#if PY_VERSION_HEX >= 0x030c0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
#endif
}

/* The current exception, set aside while Python code runs; NULL: there is none. */
static inline PyObject *native_save_exception(void)
{
    return PyErr_Occurred() ? native_fetch_exception() : NULL;
}

/* Sets it again, and consumes it. */
static inline void native_restore_exception(PyObject *exc)
{
    if (exc)
        PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
    Py_XDECREF(exc);
}

/* The UTF-8 of a str, which keeps it. -1 with an exception: it is none, or `o` is NULL. */
static inline int native_utf8(PyObject *o, struct as_str *ret_s)
{
    Py_ssize_t n = 0;

    ret_s->p = o ? PyUnicode_AsUTF8AndSize(o, &n) : NULL;
    ret_s->n = (size_t)n;
    return ret_s->p ? 0 : -1;
}

/* A new str of any bytes: what is not UTF-8 is replaced. */
static inline PyObject *native_text(struct as_str s)
{
    return PyUnicode_DecodeUTF8(s.p, (Py_ssize_t)s.n, "replace");
}

/* Puts v at k into the dict d, and consumes k and v. Any of them may be NULL with an exception. */
static inline int native_dict_put(PyObject *d, PyObject *k, PyObject *v)
{
    int err = d && k && v ? PyDict_SetItem(d, k, v) : -1;

    Py_XDECREF(k);
    Py_XDECREF(v);
    return err;
}

/* An attribute of a module, which is imported if it is not yet: a new reference. NULL: an
 * exception. */
static inline PyObject *native_import(const char *module, const char *name)
{
    PyObject *m = PyImport_ImportModule(module), *o = m ? PyObject_GetAttrString(m, name) : NULL;

    Py_XDECREF(m);
    return o;
}

/* The same, if some code has imported the module; else NULL, without an exception. */
static inline PyObject *native_loaded(const char *module, const char *name)
{
    PyObject *s = PyUnicode_FromString(module);
    PyObject *m = s ? PyImport_GetModule(s) : NULL;
    PyObject *o = m ? PyObject_GetAttrString(m, name) : NULL;

    PyErr_Clear(); /* another thread is importing it */
    Py_XDECREF(s);
    Py_XDECREF(m);
    return o;
}

#endif
