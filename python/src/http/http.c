/* Http: a request of HTTP, until it is answered. */
#include "http.h"

#include <structmember.h>

static PyObject *request_type, *disconnect_type, *key_type, *key_body, *key_more, *no_text;

int native_http_init(void)
{
    request_type = PyUnicode_InternFromString("http.request");
    disconnect_type = PyUnicode_InternFromString("http.disconnect");
    key_type = PyUnicode_InternFromString("type");
    key_body = PyUnicode_InternFromString("body");
    key_more = PyUnicode_InternFromString("more_body");
    no_text = PyUnicode_InternFromString("");
    if (!request_type || !disconnect_type || !key_type || !key_body || !key_more || !no_text)
        return -1;
    return native_scope_init() || native_answer_init() || native_websocket_init() ||
                   native_wait_init()
               ? -1
               : 0;
}

/* --- start --- */

static Http *http_new(Link *l, struct as_worker_req *q)
{
    const struct as_worker_http *head = as_worker_req_http(q);
    Http *h = PyObject_GC_New(Http, &native_http_type);

    if (!h)
        return NULL;
    memset((char *)h + sizeof(PyObject), 0, sizeof(*h) - sizeof(PyObject));
    h->q = q;
    h->link = (Link *)Py_NewRef((PyObject *)l);
    h->m = &l->models[as_worker_req_model(q)];
    h->deadline = as_worker_req_deadline(q);
    h->beyond = as_worker_req_beyond(q);
    h->whole = head->whole;
    h->websocket = head->websocket;
    h->model_id = Py_NewRef(no_text);
    h->session_id = Py_NewRef(no_text);
    h->id = native_text(head->id);
    h->first = h->id ? PyBytes_FromStringAndSize(head->body.p, (Py_ssize_t)head->body.n) : NULL;
    h->scope = h->first ? native_scope_new(h, head) : NULL;
    if (h->scope && h->websocket && native_websocket_scope(h->scope, head))
        Py_CLEAR(h->scope);
    PyObject_GC_Track(h);
    if (!h->scope) {
        h->q = NULL; /* the caller ends it */
        Py_CLEAR(h);
        return NULL;
    }
    as_worker_http_drop_head(l->w, q);
    return h;
}

int native_http_start(Link *l, struct as_worker_req *q)
{
    return native_served_start(l, q, (Served *)(void *)http_new(l, q));
}

/* --- the body --- */

/* {"type": "http.request", "body": body, "more_body": more}; consumes body */
static PyObject *request_message(PyObject *body, bool more)
{
    PyObject *d = body ? PyDict_New() : NULL;

    if (d &&
        (PyDict_SetItem(d, key_type, request_type) < 0 || PyDict_SetItem(d, key_body, body) < 0 ||
         PyDict_SetItem(d, key_more, more ? Py_True : Py_False) < 0))
        Py_CLEAR(d);
    Py_XDECREF(body);
    return d;
}

static int disconnected(PyObject **ret_message)
{
    PyObject *d = PyDict_New();

    if (d && PyDict_SetItem(d, key_type, disconnect_type) < 0)
        Py_CLEAR(d);
    *ret_message = d;
    return d ? 1 : -1;
}

/* The next bytes of the body: as native_http_receive. */
static int next_bytes(Http *h, PyObject **ret_message)
{
    struct as_str bytes;
    PyObject *body;
    void *hold;
    int err;

    do
        err = as_worker_http_read(h->link->w, h->q, &bytes, &hold);
    while (err == AS_EAGAIN && as_worker_want(h->link->w, h->q, AS_WANT_INPUT));
    if (err == AS_EAGAIN)
        return 0;
    if (err == AS_EOF) {
        h->received = true;
        *ret_message = request_message(PyBytes_FromStringAndSize(NULL, 0), false);
    } else if (err) {
        return disconnected(ret_message);
    } else {
        body = PyBytes_FromStringAndSize(bytes.p, (Py_ssize_t)bytes.n);
        as_worker_release_hold(hold);
        native_link_send(h->link, false); /* what it may send again */
        *ret_message = request_message(body, true);
    }
    return *ret_message ? 1 : -1;
}

int native_http_receive(Http *h, PyObject **ret_message)
{
    bool over = h->complete || h->cancelled || !h->q || h->link->forked;
    PyObject *first = h->first;

    if (h->websocket)
        return native_websocket_receive(h, ret_message);
    if (over)
        return disconnected(ret_message);
    if (first) {
        h->first = NULL;
        h->received = h->whole;
        *ret_message = request_message(first, !h->whole);
        return *ret_message ? 1 : -1;
    }
    return h->received ? 0 : next_bytes(h, ret_message);
}

/* --- news --- */

void native_http_ready(Http *h, unsigned what)
{
    Link *l = h->link;
    bool may_step = l->may_step;

    Py_INCREF(h);
    l->may_step = l->in_turn && l->steps_at_once;
    if ((what & AS_WANT_ROOM) && h->unsent) /* else a cancel came with the room, and dropped it */
        native_http_flush(h);
    if (what & AS_WANT_INPUT)
        native_http_wake_receivers(h);
    l->may_step = may_step;
    Py_DECREF(h);
}

void native_http_cancel(Http *h)
{
    Py_INCREF(h);
    h->cancelled = true;
    if (h->unsent)
        native_http_flush(h); /* drops it */
    native_http_wake_senders(h);
    native_http_wake_receivers(h);
    if (!h->keeps_task || h->on_cancel)
        native_served_cancel((Served *)(void *)h);
    Py_DECREF(h);
}

/* --- methods --- */

static bool is_here(Http *h)
{
    if (!h->link->forked && native_link_is_here(h->link))
        return true;
    PyErr_SetString(PyExc_RuntimeError,
                    h->link->forked
                        ? "the request belongs to the parent process"
                        : "receive and send are to be called on the event loop of the replica");
    return false;
}

static PyObject *http_receive(PyObject *o, PyObject *unused AS_UNUSED)
{
    Http *h = (Http *)(void *)o;

    return is_here(h) ? native_http_wait_message(h) : NULL;
}

static PyObject *sent(Http *h, int err)
{
    if (err)
        return NULL;
    return h->unsent ? native_http_wait_sent(h) : native_http_done();
}

static PyObject *http_send(PyObject *o, PyObject *message)
{
    Http *h = (Http *)(void *)o;

    return is_here(h) ? sent(h, native_http_send(h, message)) : NULL;
}

static PyObject *http_respond(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    Http *h = (Http *)(void *)o;
    unsigned long status;

    if (n != 3) {
        PyErr_SetString(PyExc_TypeError, "respond takes status, headers and body");
        return NULL;
    }
    status = PyLong_AsUnsignedLong(args[0]);
    if (PyErr_Occurred() || !is_here(h))
        return NULL;
    return sent(h,
                native_http_respond(h, status > 1000 ? 1000 : (unsigned)status, args[1], args[2]));
}

static PyObject *http_drop(PyObject *o, PyObject *unused AS_UNUSED)
{
    Http *h = (Http *)(void *)o;

    if (!h->started) {
        h->status = 0;
        h->complete = false;
        Py_CLEAR(h->fields);
    }
    Py_RETURN_NONE;
}

static PyObject *http_fail(PyObject *o, PyObject *args)
{
    Http *h = (Http *)(void *)o;
    PyObject *r = native_served_fail_method(o, args);

    if (r && h->unsent)
        native_http_flush(h); /* drops it */
    if (r)
        native_http_wake_receivers(h);
    return r;
}

/* --- the type --- */

static int http_traverse(PyObject *o, visitproc visit, void *arg)
{
    Http *h = (Http *)(void *)o;

    Py_VISIT(h->scope);
    /* not the task: the server needs it until the request has ended, as in calls/incoming.c */
    Py_VISIT(h->on_cancel);
    Py_VISIT(h->fields);
    for (Await *a = h->waits; a; a = a->next)
        Py_VISIT((PyObject *)a);
    return 0;
}

static int http_clear(PyObject *o)
{
    Http *h = (Http *)(void *)o;

    Py_CLEAR(h->scope);
    Py_CLEAR(h->task);
    Py_CLEAR(h->on_cancel);
    Py_CLEAR(h->fields);
    return 0;
}

static void http_dealloc(PyObject *o)
{
    Http *h = (Http *)(void *)o;
    PyObject *exc;

    PyObject_GC_UnTrack(o);
    exc = native_save_exception();
    native_served_fail((Served *)(void *)h, AS_STATUS_INTERNAL,
                       AS_STR("the handler was closed before it answered"));
    native_restore_exception(exc);
    http_clear(o);
    Py_XDECREF(h->first);
    Py_XDECREF(h->unsent);
    Py_XDECREF(h->close_reason);
    Py_XDECREF(h->model_id);
    Py_XDECREF(h->session_id);
    native_served_fini((Served *)(void *)h);
    PyObject_GC_Del(o);
}

static PyObject *http_ended(PyObject *o, void *unused AS_UNUSED)
{
    Http *h = (Http *)(void *)o;

    return PyBool_FromLong(!h->q || h->complete);
}

static PyMethodDef http_methods[] = {
    {"receive", http_receive, METH_NOARGS, "ASGI's receive."},
    {"send", http_send, METH_O, "ASGI's send."},
    {"respond", (PyCFunction)(void (*)(void))http_respond, METH_FASTCALL,
     "respond(status, headers, body): the whole answer; an awaitable."},
    {"drop", http_drop, METH_NOARGS, "Forgets a head that was given, and not sent."},
    {"fail", http_fail, METH_VARARGS, "fail(status, text): ends the request with an error."},
    {0},
};

static PyMemberDef http_members[] = {
    {"scope", T_OBJECT, offsetof(Http, scope), READONLY, NULL},
    {"id", T_OBJECT, offsetof(Http, id), READONLY, NULL},
    {"model_id", T_OBJECT, offsetof(Http, model_id), READONLY, NULL},
    {"session_id", T_OBJECT, offsetof(Http, session_id), READONLY, NULL},
    {"beyond", T_BOOL, offsetof(Http, beyond), READONLY, NULL},
    {"status", T_UINT, offsetof(Http, status), READONLY, "Of the answer; 0: none was given."},
    {"started", T_BOOL, offsetof(Http, started), READONLY, "The head of the answer was sent."},
    {"complete", T_BOOL, offsetof(Http, complete), READONLY, "All of the answer was given."},
    {"cancelled", T_BOOL, offsetof(Http, cancelled), READONLY, "Nobody waits for the answer."},
    {"disconnected", T_BOOL, offsetof(Http, disconnected), READONLY,
     "The client of a websocket has closed it, or has gone, and receive() has said so."},
    {"on_cancel", T_OBJECT, offsetof(Http, on_cancel), 0,
     "Called when the request is cancelled, instead of task.cancel()."},
    {0},
};

static PyGetSetDef http_getset[] = {
    {"deadline", native_served_deadline, NULL, "When the client's time is over (time.monotonic()).",
     NULL},
    {"ended", http_ended, NULL, "It was answered, or has failed.", NULL},
    {0},
};

PyTypeObject native_http_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Http",
    .tp_basicsize = sizeof(Http),
    .tp_dealloc = http_dealloc,
    .tp_traverse = http_traverse,
    .tp_clear = http_clear,
    .tp_methods = http_methods,
    .tp_members = http_members,
    .tp_getset = http_getset,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A request of HTTP, as ASGI has it.",
};
