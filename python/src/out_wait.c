/* Waiting for an Out. A thread waits in the worker library. A coroutine waits for a future of its
 * loop: where the loop is that of the link, the coroutine goes on within the turn that reads the
 * answer; other loops are called from there.
 */
#include "opaque.h"

#include <sched.h>

/* Of asyncio; loaded when first needed. */
static PyObject *get_running_loop; /* asyncio.get_running_loop */
static PyObject *set_if_waiting;   /* a function (future): set_result, unless it is done */
static PyObject *name_blocking, *name_create_future, *name_set_result; /* interned texts */

int native_out_wait_init(void)
{
    name_blocking = PyUnicode_InternFromString("_asyncio_future_blocking");
    name_create_future = PyUnicode_InternFromString("create_future");
    name_set_result = PyUnicode_InternFromString("set_result");
    return name_blocking && name_create_future && name_set_result ? 0 : -1;
}

void native_out_keep(Out *x)
{
    if (x->kept || x->state == OUT_ENDED)
        return;
    x->kept = true;
    Py_INCREF(x);
}

/* The caller has another reference. */
static void release_if_idle(Out *x)
{
    if (x->kept && !x->awaits && !x->callbacks && !x->dependents) {
        x->kept = false;
        Py_DECREF(x);
    }
}

/* --- waking --- */

/* In the loop of the future: it may have been cancelled meanwhile. */
static PyObject *set_future(PyObject *self AS_UNUSED, PyObject *future)
{
    native_wake_future(future);
    Py_RETURN_NONE;
}

static PyMethodDef set_future_def = {"set_future", set_future, METH_O, NULL};

/* Wakes the coroutine of a loop that may run in another thread, or be closed. */
static void wake_elsewhere(PyObject *loop, PyObject *future)
{
    PyObject *r, *closed;

    if (!set_if_waiting)
        set_if_waiting = PyCFunction_New(&set_future_def, NULL);
    r = set_if_waiting
            ? PyObject_CallMethod(loop, "call_soon_threadsafe", "OO", set_if_waiting, future)
            : NULL;
    if (!r) {
        PyObject *exc = native_fetch_exception();

        closed = PyObject_CallMethod(loop, "is_closed", NULL);
        native_restore_exception(exc);
        if (closed == Py_True) /* then the coroutine cannot go on */
            PyErr_Clear();
        else
            PyErr_WriteUnraisable(loop);
        Py_XDECREF(closed);
    }
    Py_XDECREF(r);
}

void native_future_wake(Link *l, PyObject *future, PyObject *loop)
{
    if (future && loop == l->loop && native_link_is_here(l))
        native_loop_wake(l, future, name_set_result);
    else if (future)
        wake_elsewhere(loop, future);
    Py_XDECREF(future);
    Py_XDECREF(loop);
}

/* a->future is set aside before code runs that may close the coroutine. */
static void wake_awaits(Out *x)
{
    Await *a = x->awaits, *next, *first = NULL;
    PyObject *future, *loop;

    x->awaits = NULL;
    for (; a; a = next) { /* in the order in which they came */
        next = a->next;
        a->next = first;
        first = a;
    }
    for (a = first; a; a = next) {
        next = a->next;
        a->next = NULL;
        future = a->future;
        loop = a->loop;
        a->future = a->loop = NULL;
        native_future_wake(x->link, future, loop);
        Py_DECREF((PyObject *)a);
    }
}

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
    wake_awaits(x);
    release_if_idle(x);
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

static void forget(Await *a)
{
    if (!a->future)
        return;
    for (Await **p = &a->out->awaits; *p; p = &(*p)->next) {
        if (*p == a) {
            *p = a->next;
            a->next = NULL;
            Py_DECREF((PyObject *)a); /* the caller has another reference */
            break;
        }
    }
    Py_CLEAR(a->future);
    Py_CLEAR(a->loop);
    release_if_idle(a->out);
}

/* 1: *ret_value; 0: it must wait; -1 with an exception */
static int take(Await *a, PyObject **ret_value)
{
    if (a->item) {
        int r = native_out_item(a->out, ret_value);

        if (r < 0 && PyErr_ExceptionMatches(PyExc_StopIteration)) {
            PyErr_Clear();
            PyErr_SetNone(PyExc_StopAsyncIteration);
        }
        return r;
    }
    if (!native_out_pump(a->out))
        return 0;
    *ret_value = native_out_result(a->out);
    return *ret_value ? 1 : -1;
}

PyObject *native_future_new(PyObject **ret_loop)
{
    PyObject *loop, *future;

    if (!get_running_loop)
        get_running_loop = native_import("asyncio", "get_running_loop");
    loop = get_running_loop ? PyObject_CallNoArgs(get_running_loop) : NULL;
    future = loop ? PyObject_CallMethodNoArgs(loop, name_create_future) : NULL;
    if (!future || PyObject_SetAttr(future, name_blocking, Py_True) < 0) {
        Py_XDECREF(loop);
        Py_XDECREF(future);
        return NULL;
    }
    *ret_loop = loop;
    return future;
}

/* Makes the future that the task waits for. */
static PyObject *new_future(Await *a)
{
    PyObject *loop, *future = native_future_new(&loop);

    if (!future)
        return NULL;
    a->future = Py_NewRef(future);
    a->loop = loop;
    a->next = a->out->awaits;
    a->out->awaits = (Await *)Py_NewRef((PyObject *)a);
    native_out_keep(a->out);
    return future;
}

static PySendResult await_send(PyObject *o, PyObject *arg AS_UNUSED, PyObject **ret)
{
    Await *a = (Await *)(void *)o;
    int r;

    *ret = NULL;
    forget(a); /* woken without news: by a cancelled future, or another reader of a stream */
    r = take(a, ret);
    if (r)
        return r > 0 ? PYGEN_RETURN : PYGEN_ERROR;
    *ret = new_future(a);
    return *ret ? PYGEN_NEXT : PYGEN_ERROR;
}

static PyObject *await_send_method(PyObject *o, PyObject *arg)
{
    PyObject *out, *stop;
    PySendResult how = await_send(o, arg, &out);

    if (how == PYGEN_RETURN) { /* an instance, since the value may be a tuple */
        stop = PyObject_CallOneArg(PyExc_StopIteration, out);
        if (stop)
            PyErr_SetObject(PyExc_StopIteration, stop);
        Py_XDECREF(stop);
        Py_DECREF(out);
        return NULL;
    }
    return how == PYGEN_NEXT ? out : NULL;
}

static PyObject *await_iternext(PyObject *o)
{
    return await_send_method(o, Py_None);
}

/* throw(exception), or throw(type, value, traceback) */
static PyObject *await_throw(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    PyObject *exc;

    forget((Await *)(void *)o);
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "throw takes an exception");
        return NULL;
    }
    exc = n > 1 && PyExceptionInstance_Check(args[1]) ? args[1] : args[0];
    if (PyExceptionInstance_Check(exc))
        PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
    else if (PyExceptionClass_Check(exc))
        PyErr_SetObject(exc, n > 1 ? args[1] : NULL);
    else
        PyErr_SetString(PyExc_TypeError, "exceptions derive from BaseException");
    return NULL;
}

static PyObject *await_close(PyObject *o, PyObject *unused AS_UNUSED)
{
    forget((Await *)(void *)o);
    Py_RETURN_NONE;
}

static PyObject *await_new(Out *x, bool item)
{
    Await *a = PyObject_GC_New(Await, &native_await_type);

    if (!a)
        return NULL;
    a->out = (Out *)Py_NewRef((PyObject *)x);
    a->future = a->loop = NULL;
    a->next = NULL;
    a->item = item;
    PyObject_GC_Track(a);
    return (PyObject *)a;
}

PyObject *native_out_await(PyObject *o)
{
    return await_new((Out *)(void *)o, false);
}

PyObject *native_out_anext(PyObject *o, PyObject *unused AS_UNUSED)
{
    return await_new((Out *)(void *)o, true);
}

static int await_traverse(PyObject *o, visitproc visit, void *arg)
{
    Await *a = (Await *)(void *)o;

    Py_VISIT((PyObject *)a->out);
    Py_VISIT(a->future);
    Py_VISIT(a->loop);
    return 0;
}

static int await_clear(PyObject *o)
{
    Await *a = (Await *)(void *)o;

    Py_CLEAR(a->future);
    Py_CLEAR(a->loop);
    return 0;
}

static void await_dealloc(PyObject *o)
{
    PyObject_GC_UnTrack(o);
    await_clear(o);
    Py_DECREF((PyObject *)((Await *)(void *)o)->out); /* it does not wait: its out would have it */
    PyObject_GC_Del(o);
}

static PyMethodDef await_methods[] = {
    {"send", await_send_method, METH_O, NULL},
    {"throw", (PyCFunction)(void (*)(void))await_throw, METH_FASTCALL, NULL},
    {"close", await_close, METH_NOARGS, NULL},
    {0},
};

static PyAsyncMethods await_async = {.am_await = PyObject_SelfIter, .am_send = await_send};

PyTypeObject native_await_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Await",
    .tp_basicsize = sizeof(Await),
    .tp_dealloc = await_dealloc,
    .tp_traverse = await_traverse,
    .tp_clear = await_clear,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = await_iternext,
    .tp_as_async = &await_async,
    .tp_methods = await_methods,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A coroutine's wait for an Out.",
};

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
