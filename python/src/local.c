/* Requests of a program that runs its models in one process with their caller: Local is the
 * caller's side of one. What comes of it is given to `part`, `took` and `done`, within the code
 * that answers, with the GIL. */
#include "native.h"

typedef struct {
    PyObject_HEAD Link *link;
    struct as_worker_req *q; /* NULL when it is over */
    PyObject *part;          /* (outputs, parameters, those of single outputs) */
    PyObject *took;          /* () */
    PyObject *done;          /* (status, text): once, the last */
} Local;

/* What the caller's function raises is its own affair. Consumes r. */
static void report_callback(PyObject *function, PyObject *r)
{
    if (!r)
        PyErr_WriteUnraisable(function);
    Py_XDECREF(r);
}

/* Whoever these belong to has this object, too. */
static int local_clear(PyObject *self)
{
    Local *o = (Local *)(void *)self;

    Py_CLEAR(o->part);
    Py_CLEAR(o->took);
    Py_CLEAR(o->done);
    return 0;
}

static void on_part(void *ctx, const struct as_msg *msg)
{
    Local *o = ctx;
    PyObject *outputs = native_outputs(msg);
    PyObject *params = outputs ? native_parameters(msg) : NULL;
    uint32_t n;
    const struct as_tensor_param *p = as_worker_local_tensor_params(o->q, &n);
    PyObject *own = params ? native_tensor_parameters(msg, p, n) : NULL;

    report_callback(o->part,
                    own ? PyObject_CallFunctionObjArgs(o->part, outputs, params, own, NULL) : NULL);
    Py_XDECREF(own);
    Py_XDECREF(outputs);
    Py_XDECREF(params);
}

static void on_took(void *ctx)
{
    Local *o = ctx;

    report_callback(o->took, PyObject_CallNoArgs(o->took));
}

/* Maybe while an exception is on its way. */
static void on_done(void *ctx, uint32_t status, struct as_str text)
{
    PyObject *exc = PyErr_Occurred() ? native_fetch_exception() : NULL;
    PyObject *why = PyUnicode_DecodeUTF8(text.p, (Py_ssize_t)text.n, "replace");
    Local *o = ctx;

    o->q = NULL;
    report_callback(o->done, why ? PyObject_CallFunction(o->done, "iO", (int)status, why) : NULL);
    Py_XDECREF(why);
    local_clear((PyObject *)o);
    Py_DECREF(o); /* the request's */
    if (exc) {
        PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
        Py_DECREF(exc);
    }
}

static PyObject *refusal_text(Link *l, int err)
{
    const char *why = as_worker_error(l->w);

    return err == AS_ENOMEM ? PyErr_NoMemory()
                            : PyUnicode_DecodeUTF8(why, (Py_ssize_t)strlen(why), "replace");
}

PyObject *native_link_local(PyObject *self, PyObject *args)
{
    PyObject *part, *took, *done;
    Local *o;

    if (!PyArg_ParseTuple(args, "OOO:local", &part, &took, &done))
        return NULL;
    o = PyObject_GC_New(Local, &native_local_type);
    if (!o)
        return NULL;
    o->link = (Link *)Py_NewRef(self);
    o->q = NULL;
    o->part = Py_NewRef(part);
    o->took = Py_NewRef(took);
    o->done = Py_NewRef(done);
    PyObject_GC_Track(o);
    return (PyObject *)o;
}

/* None, or why it is refused; a handler that is not async is over then. */
static PyObject *start_request(Local *o, unsigned model, const struct message *message, bool more,
                               unsigned room)
{
    struct as_worker_local conf = {.size = sizeof(conf),
                                   .msg = &message->msg,
                                   .more = more,
                                   .room = room,
                                   .part = on_part,
                                   .took = on_took,
                                   .done = on_done,
                                   .ctx = o,
                                   .tensor_params = message->own,
                                   .n_tensor_params = message->n_own};
    int err = as_worker_local(o->link->w, model, &conf, &o->q);

    if (err) {
        local_clear((PyObject *)o); /* it will never be done */
        return refusal_text(o->link, err);
    }
    Py_INCREF(o); /* until on_done */
    err = native_call_start(o->link, o->q);
    native_sync_leave(o->link); /* to the event loop's callback that has called us */
    if (err)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *local_start(PyObject *self, PyObject *args)
{
    Local *o = (Local *)(void *)self;
    PyObject *tensors, *params, *id, *meta, *result;
    struct message message;
    unsigned model, room;
    int more;

    if (!PyArg_ParseTuple(args, "IO!O!UO!pI:start", &model, &PyList_Type, &tensors, &PyDict_Type,
                          &params, &id, &PyDict_Type, &meta, &more, &room))
        return NULL;
    if (o->q || !o->done || !o->link->w) {
        PyErr_SetString(PyExc_RuntimeError, "it was started already, or the link is closed");
        return NULL;
    }
    if (native_message_read(&message, tensors, params, id, meta))
        return NULL;
    result = start_request(o, model, &message, more, room);
    native_message_free(&message);
    return result;
}

/* An event loop's handler waits for what there is now. */
static void notify_stream(Local *o, unsigned what)
{
    native_call_stream_ready((Call *)as_worker_req_data(o->q), what);
}

/* None, or why it is refused. */
static PyObject *send_input(Local *o, const struct message *message)
{
    bool wanted;
    int err =
        as_worker_local_input(o->link->w, o->q, message ? &message->msg : NULL,
                              message ? message->own : NULL, message ? message->n_own : 0, &wanted);

    if (err)
        return refusal_text(o->link, err);
    if (wanted)
        notify_stream(o, AS_WANT_INPUT);
    Py_RETURN_NONE;
}

static PyObject *local_input(PyObject *self, PyObject *args)
{
    Local *o = (Local *)(void *)self;
    PyObject *tensors, *params, *id, *meta, *result;
    struct message message;

    if (!PyArg_ParseTuple(args, "O!O!UO!:input", &PyList_Type, &tensors, &PyDict_Type, &params, &id,
                          &PyDict_Type, &meta))
        return NULL;
    if (!o->q)
        Py_RETURN_NONE;
    if (native_message_read(&message, tensors, params, id, meta))
        return NULL;
    result = send_input(o, &message);
    native_message_free(&message);
    return result;
}

static PyObject *local_end(PyObject *self, PyObject *unused AS_UNUSED)
{
    Local *o = (Local *)(void *)self;

    if (!o->q)
        Py_RETURN_NONE;
    return send_input(o, NULL);
}

static PyObject *local_room(PyObject *self, PyObject *arg)
{
    Local *o = (Local *)(void *)self;
    unsigned long parts = PyLong_AsUnsignedLong(arg);

    if (PyErr_Occurred())
        return NULL;
    if (parts > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many parts");
        return NULL;
    }
    if (o->q && as_worker_local_room(o->link->w, o->q, (uint32_t)parts))
        notify_stream(o, AS_WANT_ROOM);
    Py_RETURN_NONE;
}

static PyObject *local_cancel(PyObject *self, PyObject *unused AS_UNUSED)
{
    Local *o = (Local *)(void *)self;

    if (o->q) {
        as_worker_local_cancel(o->link->w, o->q);
        native_call_cancel((Call *)as_worker_req_data(o->q));
    }
    Py_RETURN_NONE;
}

/* One that is never started is let go by the collector; the request of one that is has a reference
 * that the collector does not see. */
static int local_traverse(PyObject *self, visitproc visit, void *arg)
{
    Local *o = (Local *)(void *)self;

    Py_VISIT(o->part);
    Py_VISIT(o->took);
    Py_VISIT(o->done);
    return 0;
}

static void local_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_DECREF(((Local *)(void *)self)->link);
    local_clear(self);
    PyObject_GC_Del(self);
}

static PyMethodDef local_methods[] = {
    {"start", local_start, METH_VARARGS,
     "start(model, tensors, parameters, id, metadata, more, room) -> None, or why it is refused.\n"
     "more: input() follows. room: parts before room() says that there may be more; 0: any "
     "number."},
    {"input", local_input, METH_VARARGS,
     "input(tensors, parameters, id, metadata) -> None, or why it is refused: one more message."},
    {"end", local_end, METH_NOARGS, "There will be no further message."},
    {"room", local_room, METH_O, "room(n): so many more parts may come."},
    {"cancel", local_cancel, METH_NOARGS, "Nobody waits any more."},
    {0},
};

PyTypeObject native_local_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Local",
    .tp_basicsize = sizeof(Local),
    .tp_dealloc = local_dealloc,
    .tp_traverse = local_traverse,
    .tp_clear = local_clear,
    .tp_methods = local_methods,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A request of this process's own, as its caller has it. By the thread of the event "
              "loop, if there is one.",
};
