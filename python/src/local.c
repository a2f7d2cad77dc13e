/* Requests that this process makes itself, before it is connected: to warm models up, and of a
 * program that runs its models in one process with their caller. Local is the caller's side of one
 * request. The callbacks `part`, `took` and `done` are called by the code that answers, with the
 * GIL.
 */
#include "message.h"
#include "native.h"

typedef struct {
    PyObject_HEAD Link *link;
    struct as_worker_req *q; /* NULL: it is over */
    PyObject *part;          /* (outputs, parameters, parameters of single outputs), or None */
    PyObject *took;          /* (): an input was taken; or None */
    PyObject *done;          /* (status, text): called once, as the last callback */
} Local;

/* An exception of the caller's function is only printed. Consumes r. */
static void report_callback(PyObject *function, PyObject *r)
{
    if (!r)
        PyErr_WriteUnraisable(function);
    Py_XDECREF(r);
}

/* Drops the callbacks, whose owners may refer to this object. */
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
    PyObject *tensor_params = params ? native_tensor_parameters(msg, p, n) : NULL;

    report_callback(o->part, tensor_params ? PyObject_CallFunctionObjArgs(o->part, outputs, params,
                                                                          tensor_params, NULL)
                                           : NULL);
    Py_XDECREF(tensor_params);
    Py_XDECREF(outputs);
    Py_XDECREF(params);
}

static void on_took(void *ctx)
{
    Local *o = ctx;

    report_callback(o->took, PyObject_CallNoArgs(o->took));
}

/* May be called while an exception is set, which stays set. */
static void on_done(void *ctx, uint32_t status, struct as_str text)
{
    PyObject *exc = native_save_exception(), *why = native_text(text);
    Local *o = ctx;

    o->q = NULL;
    report_callback(o->done, why ? PyObject_CallFunction(o->done, "iO", (int)status, why) : NULL);
    Py_XDECREF(why);
    local_clear((PyObject *)o);
    Py_DECREF(o); /* the reference of the request */
    native_restore_exception(exc);
}

/* What the SDK gets when the library has refused a request: the reason; NULL with an exception. */
static PyObject *refusal(Link *l, int err)
{
    return err == AS_ENOMEM ? PyErr_NoMemory() : native_text(as_str_of(as_worker_error(l->w)));
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

/* None, or the reason for a refusal. A sync handler is done afterwards. */
static PyObject *start_request(Local *o, unsigned model, const struct message *message, bool more,
                               unsigned room)
{
    struct as_worker_local conf = {.size = sizeof(conf),
                                   .msg = &message->msg,
                                   .more = more,
                                   .room = room,
                                   .part = o->part == Py_None ? NULL : on_part,
                                   .took = o->took == Py_None ? NULL : on_took,
                                   .done = on_done,
                                   .ctx = o,
                                   .tensor_params = message->tensor_params,
                                   .n_tensor_params = message->n_tensor_params};
    int err = as_worker_local(o->link->w, model, &conf, &o->q);

    if (err) {
        local_clear((PyObject *)o); /* `done` will never be called */
        return refusal(o->link, err);
    }
    Py_INCREF(o); /* until on_done */
    err = native_call_start(o->link, o->q);
    native_sync_leave(o->link); /* the caller is a callback of the event loop */
    if (err)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *local_start(PyObject *self, PyObject *args)
{
    Local *o = (Local *)(void *)self;
    PyObject *values, *result;
    struct message message;
    unsigned model, room;
    int more;

    if (!PyArg_ParseTuple(args, "IOpI:start", &model, &values, &more, &room))
        return NULL;
    if (o->q || !o->done || !o->link->w) {
        PyErr_SetString(PyExc_RuntimeError, "it was started already, or the link is closed");
        return NULL;
    }
    if (native_message_read(&message, values))
        return NULL;
    result = start_request(o, model, &message, more, room);
    native_message_free(&message);
    return result;
}

/* A handler in an event loop may be waiting for this. */
static void notify_stream(Local *o, unsigned what)
{
    native_call_stream_ready((PyObject *)as_worker_req_data(o->q), what);
}

/* None, or the reason for a refusal. */
static PyObject *send_input(Local *o, const struct message *message)
{
    bool wanted;
    int err = as_worker_local_input(o->link->w, o->q, message ? &message->msg : NULL,
                                    message ? message->tensor_params : NULL,
                                    message ? message->n_tensor_params : 0, &wanted);

    if (err)
        return refusal(o->link, err);
    if (wanted)
        notify_stream(o, AS_WANT_INPUT);
    Py_RETURN_NONE;
}

static PyObject *local_input(PyObject *self, PyObject *values)
{
    Local *o = (Local *)(void *)self;
    struct message message;
    PyObject *result;

    if (!o->q)
        Py_RETURN_NONE;
    if (native_message_read(&message, values))
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
        native_call_cancel((PyObject *)as_worker_req_data(o->q));
    }
    Py_RETURN_NONE;
}

/* The garbage collector frees a request that is never started; a started one has a reference that
 * the collector does not see. */
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
     "start(model, message, more, room) -> None, or why it was refused.\n"
     "more: input() follows. room: how many parts may come before room() allows more; 0: any "
     "number."},
    {"input", local_input, METH_O,
     "input(message) -> None, or why it was refused: one more message."},
    {"end", local_end, METH_NOARGS, "No further message will follow."},
    {"room", local_room, METH_O, "room(n): n more parts may come."},
    {"cancel", local_cancel, METH_NOARGS, "Cancels the request."},
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
    .tp_doc = "The caller's side of a request within one process. To be used in the thread of the "
              "event loop, if there is one.",
};
