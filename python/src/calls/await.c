/* Await: a coroutine waits for a future of its loop. Where that is the loop of the link, the
 * coroutine goes on within the turn that reads what it waits for; other loops are called from
 * there.
 */
#include "opaque.h"

/* Of asyncio; loaded when first needed. */
static PyObject *get_running_loop; /* asyncio.get_running_loop */
static PyObject *set_if_waiting;   /* a function (future): set_result, unless it is done */
static PyObject *name_blocking, *name_create_future, *name_set_result; /* interned texts */

int native_await_init(void)
{
    name_blocking = PyUnicode_InternFromString("_asyncio_future_blocking");
    name_create_future = PyUnicode_InternFromString("create_future");
    name_set_result = PyUnicode_InternFromString("set_result");
    return name_blocking && name_create_future && name_set_result ? 0 : -1;
}

PyObject *native_await_new(PyObject *owner, const struct await_kind *kind)
{
    Await *a = PyObject_GC_New(Await, &native_await_type);

    if (!a)
        return NULL;
    a->owner = Py_XNewRef(owner);
    a->kind = kind;
    a->future = a->loop = NULL;
    a->next = NULL;
    PyObject_GC_Track(a);
    return (PyObject *)a;
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

static void wake(Link *l, PyObject *future, PyObject *loop)
{
    if (future && loop == l->loop && native_link_is_here(l))
        native_loop_wake(l, future, name_set_result);
    else if (future)
        wake_elsewhere(loop, future);
    Py_XDECREF(future);
    Py_XDECREF(loop);
}

void native_awaits_wake(Await **list, const struct await_kind *kind, Link *l)
{
    Await **p = list, *first = NULL, *a;

    while ((a = *p)) { /* the one that waits longest is taken last, and is the first here */
        if (kind && a->kind != kind) {
            p = &a->next;
            continue;
        }
        *p = a->next;
        a->next = first;
        first = a;
    }
    while ((a = first)) {
        /* set aside before code runs that may close the coroutine */
        PyObject *future = a->future, *loop = a->loop;

        first = a->next;
        a->next = NULL;
        a->future = a->loop = NULL;
        wake(l, future, loop);
        Py_DECREF((PyObject *)a);
    }
}

static void forget(Await *a)
{
    if (!a->future)
        return;
    for (Await **p = a->kind->list(a->owner); *p; p = &(*p)->next) {
        if (*p == a) {
            *p = a->next;
            a->next = NULL;
            Py_DECREF((PyObject *)a); /* the caller has another reference */
            break;
        }
    }
    Py_CLEAR(a->future);
    Py_CLEAR(a->loop);
    if (a->kind->forgotten)
        a->kind->forgotten(a->owner);
}

/* --- the coroutine --- */

/* Makes the future that the task waits for: a new reference, or NULL with an exception. */
static PyObject *new_future(Await *a)
{
    PyObject *loop, *future;
    Await **list;

    if (!get_running_loop)
        get_running_loop = native_import("asyncio", "get_running_loop");
    loop = get_running_loop ? PyObject_CallNoArgs(get_running_loop) : NULL;
    future = loop ? PyObject_CallMethodNoArgs(loop, name_create_future) : NULL;
    if (!future || PyObject_SetAttr(future, name_blocking, Py_True) < 0) {
        Py_XDECREF(loop);
        Py_XDECREF(future);
        return NULL;
    }
    a->future = Py_NewRef(future);
    a->loop = loop;
    list = a->kind->list(a->owner);
    a->next = *list;
    *list = (Await *)Py_NewRef((PyObject *)a);
    if (a->kind->waits)
        a->kind->waits(a->owner);
    return future;
}

static PySendResult await_send(PyObject *o, PyObject *arg AS_UNUSED, PyObject **ret)
{
    Await *a = (Await *)(void *)o;
    int r;

    *ret = NULL;
    forget(a); /* woken without news: by a cancelled future, or another reader of a stream */
    r = a->kind->take(a->owner, ret);
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

static int await_traverse(PyObject *o, visitproc visit, void *arg)
{
    Await *a = (Await *)(void *)o;

    Py_VISIT(a->owner);
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
    Py_XDECREF(((Await *)(void *)o)->owner); /* it does not wait: its owner would have it */
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
    .tp_doc = "A coroutine's wait for a call, or for a request of HTTP.",
};
