/* A request with several answers or inputs: sync generators, and the Stream object of a coroutine
 * that serves one.
 */
#include "native.h"

#include <structmember.h>

/* --- sync generators --- */

/* The request was cancelled: closes the generator, which gets GeneratorExit where it stands. */
static PyObject *close_generator(PyObject *generator)
{
    PyObject *r = PyObject_CallMethod(generator, "close", NULL);

    if (!r)
        PyErr_WriteUnraisable(generator);
    Py_XDECREF(r);
    Py_DECREF(generator);
    native_set_cancelled();
    return NULL;
}

/* Waits for room before it asks the generator for a result, so that a slow client stops the
 * generator. */
PyObject *native_stream_run(Link *l, struct model *m, struct as_worker_req *q, PyObject *generator)
{
    for (;;) {
        PyObject *value;
        int err = as_worker_room(l->w, q);

        if (err == AS_EAGAIN) {
            Py_BEGIN_ALLOW_THREADS;
            err = as_worker_await_room(l->w, q);
            Py_END_ALLOW_THREADS;
        }
        if (err)
            return close_generator(generator);
        value = PyIter_Next(generator);
        if (!value)
            break;
        err = native_send_part(l, m, q, value);
        Py_DECREF(value);
        if (err && native_raised_cancelled())
            return close_generator(generator);
        if (err)
            break;
    }
    Py_DECREF(generator);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* --- Stream --- */

Stream *native_stream_new(Link *l, struct model *m, struct as_worker_req *q)
{
    Stream *s = PyObject_New(Stream, &native_stream_type);

    if (!s)
        return NULL;
    s->q = q;
    s->link = (Link *)Py_NewRef((PyObject *)l);
    s->m = m;
    s->room_waiter = s->input_waiter = NULL;
    s->began = false;
    return s;
}

void native_wake_future(PyObject *future)
{
    PyObject *done, *r = NULL;

    done = PyObject_CallMethod(future, "done", NULL); /* it may have been cancelled meanwhile */
    if (done == Py_False)
        r = PyObject_CallMethod(future, "set_result", "O", Py_None);
    if (!done || (done == Py_False && !r))
        PyErr_WriteUnraisable(future);
    Py_XDECREF(done);
    Py_XDECREF(r);
}

void native_wake_waiter(PyObject **waiter)
{
    PyObject *future = *waiter;

    *waiter = NULL;
    if (future && future != Py_None)
        native_wake_future(future);
    Py_XDECREF(future);
}

void native_stream_notify(Stream *s, unsigned what)
{
    Py_INCREF(s);
    if (what & AS_WANT_ROOM)
        native_wake_waiter(&s->room_waiter);
    if (what & AS_WANT_INPUT)
        native_wake_waiter(&s->input_waiter);
    Py_DECREF(s);
}

static bool is_over(Stream *s)
{
    if (s->q)
        return false;
    native_set_cancelled();
    return true;
}

static PyObject *stream_send(PyObject *o, PyObject *value)
{
    Stream *s = (Stream *)(void *)o;

    if (is_over(s) || native_send_part(s->link, s->m, s->q, value))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *stream_room(PyObject *o, PyObject *unused AS_UNUSED)
{
    Stream *s = (Stream *)(void *)o;

    if (is_over(s))
        return NULL;
    return PyBool_FromLong(as_worker_want(s->link->w, s->q, AS_WANT_ROOM));
}

static PyObject *stream_more(PyObject *o, PyObject *unused AS_UNUSED)
{
    Stream *s = (Stream *)(void *)o;

    if (is_over(s))
        return NULL;
    return PyBool_FromLong(as_worker_want(s->link->w, s->q, AS_WANT_INPUT));
}

/* Makes a complete Request, so that the memory of its message can be given back to the link. */
static PyObject *request_of(Stream *s, struct as_worker_req *q)
{
    Request *r = native_request_new(s->link, s->m, q);

    if (r && native_request_materialize(r))
        Py_CLEAR(r);
    return (PyObject *)r;
}

static PyObject *stream_next(PyObject *o, PyObject *unused AS_UNUSED)
{
    Stream *s = (Stream *)(void *)o;
    struct as_worker_req *input;
    PyObject *r;
    int err;

    if (is_over(s))
        return NULL;
    if (!s->began) {
        s->began = true;
        return request_of(s, s->q);
    }
    err = as_worker_next_input(s->link->w, s->q, &input);
    if (err == AS_EAGAIN)
        Py_RETURN_NONE;
    if (err == AS_EOF)
        Py_RETURN_FALSE;
    if (err) {
        native_set_cancelled();
        return NULL;
    }
    r = request_of(s, input);
    /* no Python code has run since that could have ended the stream */
    if (s->q)
        as_worker_drop_input(s->link->w, s->q, input);
    return r;
}

static void stream_dealloc(PyObject *o)
{
    Stream *s = (Stream *)(void *)o;

    Py_XDECREF(s->room_waiter);
    Py_XDECREF(s->input_waiter);
    Py_DECREF((PyObject *)s->link);
    PyObject_Free(o);
}

static PyMethodDef stream_methods[] = {
    {"send", stream_send, METH_O, "send(result): one response; there must be room for it."},
    {"room", stream_room, METH_NOARGS,
     "True: there is room for a response. Otherwise room_waiter is done when there is."},
    {"next", stream_next, METH_NOARGS,
     "The next Request; None: none has come yet; False: no more will come."},
    {"more", stream_more, METH_NOARGS,
     "True: next() has a result. Otherwise input_waiter is done when it has."},
    {0},
};

static PyMemberDef stream_members[] = {
    {"room_waiter", T_OBJECT, offsetof(Stream, room_waiter), 0, NULL},
    {"input_waiter", T_OBJECT, offsetof(Stream, input_waiter), 0, NULL},
    {0},
};

PyTypeObject native_stream_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Stream",
    .tp_basicsize = sizeof(Stream),
    .tp_dealloc = stream_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = stream_methods,
    .tp_members = stream_members,
    .tp_doc = "The messages of one request that has several.",
};
