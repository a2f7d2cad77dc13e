/* The awaitables of receive() and send(): coroutines, so that tasks can be made of them. */
#include "http.h"

static PyObject *done; /* the awaitable of a send that had room: it has no state */

PyObject *native_http_done(void)
{
    return Py_NewRef(done);
}

PyObject *native_http_wait_new(Http *h, bool sends)
{
    HttpWait *w = PyObject_GC_New(HttpWait, &native_http_wait_type);

    if (!w)
        return NULL;
    w->http = (Http *)Py_XNewRef((PyObject *)h);
    w->future = w->loop = NULL;
    w->next = NULL;
    w->sends = sends;
    PyObject_GC_Track(w);
    return (PyObject *)w;
}

int native_wait_init(void)
{
    done = native_http_wait_new(NULL, true);
    return done ? 0 : -1;
}

/* --- waking --- */

void native_http_wake(Http *h, bool sends)
{
    HttpWait **p = &h->waits, *first = NULL, *w;

    while ((w = *p)) { /* the one that waits longest is taken last, and is the first here */
        if (w->sends != sends) {
            p = &w->next;
            continue;
        }
        *p = w->next;
        w->next = first;
        first = w;
    }
    while ((w = first)) {
        PyObject *future = w->future, *loop = w->loop;

        first = w->next;
        w->next = NULL;
        w->future = w->loop = NULL;
        native_future_wake(h->link, future, loop);
        Py_DECREF((PyObject *)w);
    }
}

Py_ssize_t native_http_n_sending(const Http *h)
{
    Py_ssize_t n = 0;

    for (const HttpWait *w = h->waits; w; w = w->next)
        n += w->sends;
    return n;
}

static void forget(HttpWait *w)
{
    if (!w->future)
        return;
    for (HttpWait **p = &w->http->waits; *p; p = &(*p)->next) {
        if (*p == w) {
            *p = w->next;
            w->next = NULL;
            Py_DECREF((PyObject *)w); /* the caller has another reference */
            break;
        }
    }
    Py_CLEAR(w->future);
    Py_CLEAR(w->loop);
}

/* --- the coroutine --- */

/* 1: *ret_value; 0: it must wait; -1 with an exception */
static int take(HttpWait *w, PyObject **ret_value)
{
    Http *h = w->http;

    if (!w->sends)
        return native_http_receive(h, ret_value);
    if (h && h->unsent)
        return 0;
    *ret_value = Py_NewRef(Py_None);
    return 1;
}

static PyObject *new_future(HttpWait *w)
{
    Http *h = w->http;
    PyObject *loop, *future = native_future_new(&loop);

    if (!future)
        return NULL;
    w->future = Py_NewRef(future);
    w->loop = loop;
    w->next = h->waits;
    h->waits = (HttpWait *)Py_NewRef((PyObject *)w);
    return future;
}

static PySendResult wait_send(PyObject *o, PyObject *arg AS_UNUSED, PyObject **ret)
{
    HttpWait *w = (HttpWait *)(void *)o;
    int r;

    *ret = NULL;
    forget(w);
    r = take(w, ret);
    if (r)
        return r > 0 ? PYGEN_RETURN : PYGEN_ERROR;
    *ret = new_future(w);
    return *ret ? PYGEN_NEXT : PYGEN_ERROR;
}

static PyObject *wait_send_method(PyObject *o, PyObject *arg)
{
    PyObject *out, *stop;
    PySendResult how = wait_send(o, arg, &out);

    if (how == PYGEN_RETURN) {
        stop = PyObject_CallOneArg(PyExc_StopIteration, out);
        if (stop)
            PyErr_SetObject(PyExc_StopIteration, stop);
        Py_XDECREF(stop);
        Py_DECREF(out);
        return NULL;
    }
    return how == PYGEN_NEXT ? out : NULL;
}

static PyObject *wait_iternext(PyObject *o)
{
    return wait_send_method(o, Py_None);
}

/* throw(exception), or throw(type, value, traceback) */
static PyObject *wait_throw(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    PyObject *exc;

    forget((HttpWait *)(void *)o);
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

static PyObject *wait_close(PyObject *o, PyObject *unused AS_UNUSED)
{
    forget((HttpWait *)(void *)o);
    Py_RETURN_NONE;
}

static int wait_traverse(PyObject *o, visitproc visit, void *arg)
{
    HttpWait *w = (HttpWait *)(void *)o;

    Py_VISIT((PyObject *)w->http);
    Py_VISIT(w->future);
    Py_VISIT(w->loop);
    return 0;
}

static int wait_clear(PyObject *o)
{
    HttpWait *w = (HttpWait *)(void *)o;

    Py_CLEAR(w->future);
    Py_CLEAR(w->loop);
    return 0;
}

static void wait_dealloc(PyObject *o)
{
    PyObject_GC_UnTrack(o);
    wait_clear(o);
    Py_XDECREF(
        (PyObject *)((HttpWait *)(void *)o)->http); /* it does not wait: http would have it */
    PyObject_GC_Del(o);
}

static PyMethodDef wait_methods[] = {
    {"send", wait_send_method, METH_O, NULL},
    {"throw", (PyCFunction)(void (*)(void))wait_throw, METH_FASTCALL, NULL},
    {"close", wait_close, METH_NOARGS, NULL},
    {0},
};

static PyAsyncMethods wait_async = {.am_await = PyObject_SelfIter, .am_send = wait_send};

PyTypeObject native_http_wait_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.HttpWait",
    .tp_basicsize = sizeof(HttpWait),
    .tp_dealloc = wait_dealloc,
    .tp_traverse = wait_traverse,
    .tp_clear = wait_clear,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = wait_iternext,
    .tp_as_async = &wait_async,
    .tp_methods = wait_methods,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A coroutine's wait for a message of a request of HTTP, or for room for one.",
};
