/* Waiting for an Out. A thread waits in the worker library; coroutines wait as await.c says. */
#include "opaque.h"

#include <sched.h>

void native_out_keep(Out *x)
{
    if (x->kept || x->state == OUT_ENDED)
        return;
    x->kept = true;
    Py_INCREF(x);
}

void native_out_release_if_idle(Out *x)
{
    if (x->kept && !x->awaits && !x->callbacks && !x->dependents) {
        x->kept = false;
        Py_DECREF(x);
    }
}

/* --- waking --- */

static void run_callbacks(Out *x)
{
    PyObject *callbacks = x->callbacks;
    bool may_step = x->link->may_step;

    x->callbacks = NULL;
    x->link->may_step = false;
    for (Py_ssize_t i = 0; callbacks && i < PyList_GET_SIZE(callbacks); i++) {
        PyObject *r = PyObject_CallOneArg(PyList_GET_ITEM(callbacks, i), (PyObject *)x);

        if (!r)
            PyErr_WriteUnraisable(PyList_GET_ITEM(callbacks, i));
        Py_XDECREF(r);
    }
    Py_XDECREF(callbacks);
    x->link->may_step = may_step;
}

void native_out_wake(Out *x)
{
    Py_INCREF(x);
    if (x->state == OUT_ENDED)
        run_callbacks(x);
    native_awaits_wake(&x->awaits, NULL, x->link);
    native_out_release_if_idle(x);
    Py_DECREF(x);
}

PyObject *native_out_add_done_callback(PyObject *o, PyObject *fn)
{
    Out *x = (Out *)(void *)o;

    if (!x->callbacks)
        x->callbacks = PyList_New(0);
    if (!x->callbacks || PyList_Append(x->callbacks, fn) < 0)
        return NULL;
    if (x->state == OUT_ENDED)
        run_callbacks(x);
    else {
        native_out_keep(x);
        native_out_pump(x);
    }
    Py_RETURN_NONE;
}

/* --- coroutines --- */

static Await **awaits(PyObject *o)
{
    return &((Out *)(void *)o)->awaits;
}

static void keep(PyObject *o)
{
    native_out_keep((Out *)(void *)o);
}

static void release(PyObject *o)
{
    native_out_release_if_idle((Out *)(void *)o);
}

static int take_result(PyObject *o, PyObject **ret_value)
{
    Out *x = (Out *)(void *)o;

    if (!native_out_pump(x))
        return 0;
    *ret_value = native_out_result(x);
    return *ret_value ? 1 : -1;
}

static int take_item(PyObject *o, PyObject **ret_value)
{
    int r = native_out_item((Out *)(void *)o, ret_value);

    if (r < 0 && PyErr_ExceptionMatches(PyExc_StopIteration)) {
        PyErr_Clear();
        PyErr_SetNone(PyExc_StopAsyncIteration);
    }
    return r;
}

PyObject *native_out_await(PyObject *o)
{
    static const struct await_kind result = {take_result, awaits, keep, release};

    return native_await_new(o, &result);
}

PyObject *native_out_anext(PyObject *o, PyObject *unused AS_UNUSED)
{
    static const struct await_kind item = {take_item, awaits, keep, release};

    return native_await_new(o, &item);
}

/* --- threads --- */

/* The call that a thread must wait for, so that x goes on: x itself, or, while x waits for its
 * arguments, one of these. */
static Out *awaited_by(Out *x)
{
    while (x->state == OUT_WAITS) {
        PyObject *parts = native_out_parts(x);
        Out *open = NULL;

        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts) && !open; i++) {
            Out *dep = (Out *)(void *)PyList_GET_ITEM(parts, i);

            if (!native_out_pump(dep))
                open = dep;
            if (x->state != OUT_WAITS)
                return x;
        }
        if (!open)
            return x;
        x = open;
    }
    return x;
}

/* Waits until something came for x, without the lock of the interpreter; at most until `until`. -1
 * with an exception: TimeoutError, or of a signal handler. */
static int wait_for(Out *x, as_ns until)
{
    as_ns now = native_sync_clock();
    Link *l = x->link;
    int err;

    if (until != AS_NEVER && until <= now) {
        PyErr_SetNone(PyExc_TimeoutError);
        return -1;
    }
    if (l->forked || !l->w) {
        PyErr_SetString(PyExc_RuntimeError, "the link of this call is closed");
        return -1;
    }
    x->n_threads++;
    l->n_blocked++;
    Py_BEGIN_ALLOW_THREADS;
    err = as_worker_out_wait(x->o, until == AS_NEVER ? AS_NEVER : until - now);
    Py_END_ALLOW_THREADS;
    l->n_blocked--;
    x->n_threads--;
    if (x->state == OUT_ENDED && x->o && !x->n_threads) { /* another thread has read the answer */
        as_worker_out_free(x->o);
        x->o = NULL;
    }
    return err == AS_EAGAIN ? PyErr_CheckSignals() : 0;
}

/* A point in time, of a timeout in seconds or None. -1 with an exception. */
static int until_of(PyObject *timeout, as_ns *ret_until)
{
    double s = Py_IsNone(timeout) ? 0 : PyFloat_AsDouble(timeout);

    if (PyErr_Occurred())
        return -1;
    *ret_until = Py_IsNone(timeout) || s > 1e9
                     ? AS_NEVER
                     : native_sync_clock() + (as_ns)((s > 0 ? s : 0) * 1e9);
    return 0;
}

/* Waits until `is_there` says that it need not wait any more, or -1 with an exception. */
static int wait_until(Out *x, PyObject *timeout, int (*is_there)(Out *x, PyObject **ret),
                      PyObject **ret)
{
    as_ns until;
    int r = until_of(timeout, &until);

    if (r)
        return -1;
    while ((r = is_there(x, ret)) == 0) {
        Out *open = awaited_by(x);

        if (open->state != OUT_OPEN || !open->o) {
            Py_BEGIN_ALLOW_THREADS; /* another thread is opening it, for the time of a copy */
            sched_yield();
            Py_END_ALLOW_THREADS;
            continue;
        }
        Py_INCREF(open);
        r = wait_for(open, until);
        Py_DECREF(open);
        if (r)
            return -1;
    }
    return r;
}

static int result_is_there(Out *x, PyObject **ret)
{
    if (!native_out_pump(x))
        return 0;
    *ret = native_out_result(x);
    return *ret ? 1 : -1;
}

PyObject *native_out_result_method(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    PyObject *v = NULL;

    if (n > 1) {
        PyErr_SetString(PyExc_TypeError, "result takes a timeout");
        return NULL;
    }
    return wait_until((Out *)(void *)o, n ? args[0] : Py_None, result_is_there, &v) < 0 ? NULL : v;
}

PyObject *native_out_next_method(PyObject *o, PyObject *timeout)
{
    PyObject *v = NULL;

    return wait_until((Out *)(void *)o, timeout, native_out_item, &v) < 0 ? NULL : v;
}
