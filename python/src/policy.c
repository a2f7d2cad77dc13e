/* Records for a policy process (anyserve/policy.h): a Python callable gets those that have come. */
#include "native.h"

int native_policy_poll(Link *l)
{
    struct as_worker_policy *p;

    while (l->on_policy && (p = as_worker_next_policy(l->w))) {
        struct as_str records = as_worker_policy_records(p);
        PyObject *r = PyObject_CallFunction(l->on_policy, "Ky#",
                                            (unsigned long long)as_worker_policy_origin(p),
                                            records.p, (Py_ssize_t)records.n);

        as_worker_policy_free(p);
        Py_XDECREF(r);
        if (r)
            continue;
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return -1; /* the exception ends the worker */
        PyErr_WriteUnraisable(l->on_policy);
    }
    return 0;
}

PyObject *native_link_on_policy(PyObject *self, PyObject *callable)
{
    Link *l = (Link *)(void *)self;

    Py_XSETREF(l->on_policy, Py_NewRef(callable));
    Py_RETURN_NONE;
}

PyObject *native_link_send_policy(PyObject *self, PyObject *args)
{
    Link *l = (Link *)(void *)self;
    unsigned long long origin;
    struct as_str records;
    Py_ssize_t n;
    int err;

    if (!PyArg_ParseTuple(args, "Ky#", &origin, &records.p, &n))
        return NULL;
    records.n = (size_t)n;
    err = as_worker_send_policy(l->w, origin, records);
    if (err == AS_EINVALID) {
        PyErr_SetString(PyExc_ValueError,
                        "records of 8 bytes to 1 MiB, a multiple of 8, can be sent");
        return NULL;
    }
    return PyBool_FromLong(!err);
}

PyObject *native_link_spawn(PyObject *self, PyObject *coro)
{
    static PyObject *name; /* of all these tasks: a number for each would cost more than the task */

    Link *l = (Link *)(void *)self;

    if (!l->loop) {
        PyErr_SetString(PyExc_RuntimeError, "the link has no event loop yet");
        return NULL;
    }
    if (!name && !(name = PyUnicode_InternFromString("route")))
        return NULL;
    return native_spawn_task(l, coro, name);
}
