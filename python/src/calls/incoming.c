/* Incoming: a call that this replica serves, until it is answered.
 *
 * The handler of an opaque model is called with it, on the loop's thread. It returns a coroutine,
 * which gets a task that begins at once, or None: then some thread answers later. A call that
 * nobody answers fails when its Incoming is freed.
 */
#include "../http/http.h"

#include <sched.h>
#include <structmember.h>

/* --- the end --- */

/* A thread that opens a call with q may need it a moment longer, without the lock of the
 * interpreter. */
void native_served_settle(Served *s)
{
    while (s->n_using) {
        Py_BEGIN_ALLOW_THREADS;
        sched_yield();
        Py_END_ALLOW_THREADS;
    }
}

struct as_worker_req *native_served_take(Served *s)
{
    struct as_worker_req *q = s->q;

    s->q = NULL;
    native_served_settle(s);
    return q;
}

void native_served_ended(Served *s)
{
    Link *l = s->link;

    Py_CLEAR(s->task);
    Py_CLEAR(s->on_cancel);
    l->calls--;
    if (l->w)
        native_link_send(l, true);
}

void native_served_fail(Served *s, unsigned status, struct as_str text)
{
    struct as_worker_req *q = native_served_take(s);

    if (!q || s->link->forked) /* in the child of a fork it is the parent's */
        return;
    as_worker_req_set_data(q, NULL);
    as_worker_fail(s->link->w, q, status, text);
    native_served_ended(s);
}

void native_served_fini(Served *s)
{
    Py_XDECREF(s->task);
    Py_XDECREF(s->on_cancel);
    Py_XDECREF(s->id);
    Py_DECREF((PyObject *)s->link);
}

/* --- start --- */

static PyObject *metadata_of(const struct as_msg *msg)
{
    PyObject *d = msg->n_meta ? PyDict_New() : Py_NewRef(Py_None);

    for (uint32_t i = 0; d && i < msg->n_meta; i++) {
        if (native_dict_put(d, native_text(msg->meta[i].key), native_text(msg->meta[i].value)) < 0)
            Py_CLEAR(d);
    }
    return d;
}

/* The name of the method. Most calls are for one of a few: their texts are kept. */
static PyObject *method_name(struct model *m, struct as_str name)
{
    PyObject **empty = NULL, *s;

    if (!name.n)
        name = AS_STR("__call__");
    for (uint32_t i = 0; i < NATIVE_CACHED_NAMES; i++) {
        PyObject *k = m->cached_names[i];

        if (!k) {
            empty = &m->cached_names[i];
            break;
        }
        if (as_str_eq((struct as_str){(const char *)PyUnicode_1BYTE_DATA(k),
                                      (size_t)PyUnicode_GET_LENGTH(k)},
                      name))
            return Py_NewRef(k);
    }
    s = native_text(name);
    if (s && empty && PyUnicode_IS_COMPACT_ASCII(s) && name.n <= NATIVE_CACHED_NAME_MAX)
        *empty = Py_NewRef(s);
    return s;
}

static Incoming *incoming_new(Link *l, struct as_worker_req *q)
{
    const struct as_body *body = as_worker_req_body(q);
    const struct as_msg *msg = as_worker_req_msg(q);
    Incoming *in = PyObject_GC_New(Incoming, &native_incoming_type);

    if (!in)
        return NULL;
    memset((char *)in + sizeof(PyObject), 0, sizeof(*in) - sizeof(PyObject));
    in->q = q;
    in->link = (Link *)Py_NewRef((PyObject *)l);
    in->m = &l->models[as_worker_req_model(q)];
    in->deadline = as_worker_req_deadline(q);
    in->stream = as_worker_req_streams(q);
    in->inputs = as_worker_req_takes_inputs(q);
    in->beyond = as_worker_req_beyond(q);
    in->body = native_body_new(body, as_worker_req_hold(q));
    in->method = in->body ? method_name(in->m, body->method) : NULL;
    in->id = in->method ? native_text(msg->id) : NULL;
    in->metadata = in->id ? metadata_of(msg) : NULL;
    PyObject_GC_Track(in);
    if (!in->metadata) {
        in->q = NULL; /* the caller ends it */
        Py_CLEAR(in);
    }
    return in;
}

/* Where a task does not begin at once, it may be cancelled before it has begun: its coroutine never
 * runs then, and cannot answer. */
static PyObject *on_task_done(PyObject *o, PyObject *task AS_UNUSED)
{
    native_served_fail((Served *)(void *)o, AS_STATUS_CANCELLED,
                       AS_STR("the handler was cancelled"));
    Py_RETURN_NONE;
}

static PyMethodDef on_task_done_def = {"on_task_done", on_task_done, METH_O, NULL};

/* Makes the task. -1 with an exception, which ends the worker if the call has been answered. */
static int start_task(Served *in, PyObject *coro)
{
    Link *l = in->link;
    bool at_once = l->starts_at_once && l->in_turn;
    PyObject *task = native_spawn_task(l, coro, in->m->name), *callback, *r = NULL;

    if (!task)
        return -1;
    if (in->q)
        in->task = Py_NewRef(task);
    if (!at_once && in->q) {
        callback = PyCFunction_New(&on_task_done_def, (PyObject *)in);
        r = callback ? PyObject_CallMethod(task, "add_done_callback", "O", callback) : NULL;
        Py_XDECREF(callback);
        if (!r)
            PyErr_WriteUnraisable(task);
        Py_XDECREF(r);
    }
    Py_DECREF(task);
    return 0;
}

/* The handler has raised: our own code has failed, or there is no memory. */
static int fail_with_exception(Served *in)
{
    PyObject *exc = native_fetch_exception();
    bool ends_worker = !PyErr_GivenExceptionMatches(exc, PyExc_Exception);
    PyObject *text = PyObject_Str(exc);
    struct as_str s = AS_STR("");

    if (native_utf8(text, &s))
        PyErr_Clear();
    native_served_fail(in, AS_STATUS_INTERNAL, s);
    Py_XDECREF(text);
    native_restore_exception(exc);
    if (ends_worker)
        return -1;
    PyErr_WriteUnraisable(in->m->handler);
    return 0;
}

int native_served_start(Link *l, struct as_worker_req *q, Served *s)
{
    PyObject *r;
    int err = 0;

    l->calls++;
    if (!s) {
        PyErr_WriteUnraisable(NULL);
        native_fail(l, q, AS_STATUS_RESOURCE_EXHAUSTED, AS_STR("out of memory"));
        return 0;
    }
    as_worker_req_set_data(q, s);
    native_sync_leave(l);
    r = PyObject_CallOneArg(s->m->handler, (PyObject *)s);
    if (!r || (!Py_IsNone(r) && start_task(s, r)))
        err = fail_with_exception(s);
    Py_XDECREF(r);
    Py_DECREF(s);
    return err;
}

int native_incoming_start(Link *l, struct as_worker_req *q)
{
    if (as_worker_req_http(q))
        return native_http_start(l, q);
    return native_served_start(l, q, (Served *)(void *)incoming_new(l, q));
}

Served *native_served_of(PyObject *o)
{
    return o && (Py_IS_TYPE(o, &native_incoming_type) || Py_IS_TYPE(o, &native_http_type))
               ? (Served *)(void *)o
               : NULL;
}

void native_served_cancel(Served *s)
{
    PyObject *on_cancel = s->on_cancel, *r;

    s->cancelled = true;
    s->on_cancel = NULL;
    r = on_cancel ? PyObject_CallNoArgs(on_cancel)
        : s->task ? PyObject_CallMethod(s->task, "cancel", NULL)
                  : Py_NewRef(Py_None);
    if (!r)
        PyErr_WriteUnraisable((PyObject *)s);
    Py_XDECREF(r);
    Py_XDECREF(on_cancel);
}

void native_incoming_ready(Incoming *in, unsigned what)
{
    if (what & AS_WANT_ROOM)
        native_wake_waiter(&in->room_waiter);
    if (what & AS_WANT_INPUT)
        native_wake_waiter(&in->input_waiter);
}

/* --- answers --- */

static PyObject *answer_error(int err)
{
    if (err == AS_ENOMEM)
        return PyErr_NoMemory();
    PyErr_SetString(PyExc_ValueError,
                    err == AS_ETOOBIG
                        ? "the answer is larger than the server accepts (--max-message-bytes)"
                        : as_err_text(err));
    return NULL;
}

static PyObject *already_over(void)
{
    PyErr_SetString(PyExc_RuntimeError, "the call was answered, or belongs to the parent process");
    return NULL;
}

static bool is_over(const Incoming *in)
{
    if (in->q && !in->link->forked)
        return false;
    already_over();
    return true;
}

/* (codec, flags, data, buffers) */
static int read_body(PyObject *const *args, Py_ssize_t n, struct body_sent *ret_s)
{
    int codec, flags;

    if (n != 4) {
        PyErr_SetString(PyExc_TypeError, "it takes codec, flags, data and buffers");
        return -1;
    }
    codec = (int)PyLong_AsLong(args[0]);
    flags = PyErr_Occurred() ? 0 : (int)PyLong_AsLong(args[1]);
    if (PyErr_Occurred())
        return -1;
    return native_body_read(ret_s, NULL, codec, flags, args[2], args[3], Py_None);
}

static PyObject *incoming_answer(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    Incoming *in = (Incoming *)(void *)o;
    struct as_worker_req *q;
    struct body_sent body;
    int err;

    if (is_over(in) || read_body(args, n, &body))
        return NULL;
    q = native_served_take((Served *)(void *)in);
    if (!q) { /* while it waited for another thread */
        native_body_release(&body);
        is_over(in);
        return NULL;
    }
    if (body.bytes >= NATIVE_LARGE) {
        Py_BEGIN_ALLOW_THREADS;
        err = as_worker_answer_body(in->link->w, q, &body.body);
        Py_END_ALLOW_THREADS;
    } else {
        err = as_worker_answer_body(in->link->w, q, &body.body);
    }
    native_body_release(&body);
    if (err) {
        in->q = q; /* it can still fail */
        return answer_error(err);
    }
    native_served_ended((Served *)(void *)in);
    Py_RETURN_NONE;
}

static PyObject *incoming_part(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    Incoming *in = (Incoming *)(void *)o;
    struct body_sent body;
    int err;

    if (is_over(in) || read_body(args, n, &body))
        return NULL;
    err = as_worker_part_body(in->link->w, in->q, &body.body);
    native_body_release(&body);
    if (err == AS_EAGAIN)
        Py_RETURN_FALSE;
    if (err == AS_ECANCELLED) {
        native_set_cancelled();
        return NULL;
    }
    if (err)
        return answer_error(err);
    native_link_send(in->link, false);
    Py_RETURN_TRUE;
}

static PyObject *incoming_finish(PyObject *o, PyObject *unused AS_UNUSED)
{
    Incoming *in = (Incoming *)(void *)o;
    struct as_worker_req *q;

    if (is_over(in))
        return NULL;
    q = native_served_take((Served *)(void *)in);
    if (q) {
        as_worker_finish(in->link->w, q);
        native_served_ended((Served *)(void *)in);
    }
    Py_RETURN_NONE;
}

PyObject *native_served_fail_method(PyObject *o, PyObject *args)
{
    Served *in = (Served *)(void *)o;
    struct as_str text;
    unsigned status;
    Py_ssize_t n;

    if (!PyArg_ParseTuple(args, "Is#:fail", &status, &text.p, &n))
        return NULL;
    if (!in->q || in->link->forked)
        return already_over();
    text.n = (size_t)n;
    native_served_fail(in, status, text);
    Py_RETURN_NONE;
}

static PyObject *incoming_load(PyObject *o, PyObject *unused AS_UNUSED)
{
    Incoming *in = (Incoming *)(void *)o;
    Body *body = in->body;
    PyObject *v;

    if (!body) {
        PyErr_SetString(PyExc_RuntimeError, "the call was loaded");
        return NULL;
    }
    in->body = NULL;
    v = native_body_load(body);
    Py_DECREF(body);
    return v;
}

static PyObject *incoming_room(PyObject *o, PyObject *unused AS_UNUSED)
{
    Incoming *in = (Incoming *)(void *)o;

    if (is_over(in))
        return NULL;
    return PyBool_FromLong(as_worker_want(in->link->w, in->q, AS_WANT_ROOM));
}

/* Ellipsis: none is here now. */
static PyObject *incoming_next_input(PyObject *o, PyObject *unused AS_UNUSED)
{
    Incoming *in = (Incoming *)(void *)o;
    struct as_worker_req *input;
    PyObject *data;
    int err;

    if (is_over(in))
        return NULL;
    if (!in->inputs) {
        PyErr_SetString(PyExc_RuntimeError, "the call takes no inputs");
        return NULL;
    }
    err = as_worker_next_input(in->link->w, in->q, &input);
    if (err == AS_EOF)
        Py_RETURN_NONE;
    if (err == AS_EAGAIN && !as_worker_want(in->link->w, in->q, AS_WANT_INPUT))
        return Py_NewRef(Py_Ellipsis);
    if (err == AS_EAGAIN) /* it has come meanwhile */
        return incoming_next_input(o, NULL);
    if (err) {
        native_set_cancelled();
        return NULL;
    }
    data = PyBytes_FromStringAndSize(as_worker_req_body(input)->data.p,
                                     (Py_ssize_t)as_worker_req_body(input)->data.n);
    as_worker_drop_input(in->link->w, in->q, input);
    native_link_send(in->link, false);
    return data;
}

/* --- the type --- */

static int incoming_traverse(PyObject *o, visitproc visit, void *arg)
{
    Incoming *in = (Incoming *)(void *)o;

    /* not the task: the server needs it until the call has ended. Else one that waits for an object
     * that nothing but itself refers to would be collected, as asyncio does with tasks */
    Py_VISIT(in->room_waiter);
    Py_VISIT(in->input_waiter);
    Py_VISIT(in->on_cancel);
    Py_VISIT(in->state);
    return 0;
}

static int incoming_clear(PyObject *o)
{
    Incoming *in = (Incoming *)(void *)o;

    Py_CLEAR(in->task);
    Py_CLEAR(in->room_waiter);
    Py_CLEAR(in->input_waiter);
    Py_CLEAR(in->on_cancel);
    Py_CLEAR(in->state);
    return 0;
}

static void incoming_dealloc(PyObject *o)
{
    Incoming *in = (Incoming *)(void *)o;
    PyObject *exc;

    PyObject_GC_UnTrack(o);
    exc = native_save_exception();
    native_served_fail((Served *)(void *)in, AS_STATUS_INTERNAL,
                       AS_STR("the handler was closed before it answered"));
    native_restore_exception(exc);
    incoming_clear(o);
    Py_XDECREF((PyObject *)in->body);
    Py_XDECREF(in->method);
    Py_XDECREF(in->metadata);
    native_served_fini((Served *)(void *)in);
    PyObject_GC_Del(o);
}

PyObject *native_served_deadline(PyObject *o, void *unused AS_UNUSED)
{
    as_ns at = ((Served *)(void *)o)->deadline;

    if (at == AS_NEVER)
        Py_RETURN_NONE;
    return PyFloat_FromDouble((double)at / 1e9);
}

static PyObject *incoming_cancelled(PyObject *o, void *unused AS_UNUSED)
{
    Incoming *in = (Incoming *)(void *)o;

    return PyBool_FromLong(in->cancelled || (in->q && as_worker_req_cancelled(in->q)));
}

static PyObject *incoming_ended(PyObject *o, void *unused AS_UNUSED)
{
    return PyBool_FromLong(!((Incoming *)(void *)o)->q);
}

static PyObject *incoming_body(PyObject *o, void *unused AS_UNUSED)
{
    Body *b = ((Incoming *)(void *)o)->body;

    return Py_NewRef(b ? (PyObject *)b : Py_None);
}

static PyMethodDef incoming_methods[] = {
    {"load", incoming_load, METH_NOARGS, "The value in the body, once: the call then drops it."},
    {"answer", (PyCFunction)(void (*)(void))incoming_answer, METH_FASTCALL,
     "answer(codec, flags, data, buffers): the only answer, or the last of a stream."},
    {"part", (PyCFunction)(void (*)(void))incoming_part, METH_FASTCALL,
     "part(codec, flags, data, buffers): one message of a stream. False: there is no room now."},
    {"finish", incoming_finish, METH_NOARGS, "Ends a stream."},
    {"fail", native_served_fail_method, METH_VARARGS,
     "fail(status, text): ends the call with an error."},
    {"room", incoming_room, METH_NOARGS,
     "True: part() has room. Otherwise room_waiter, a future, is done when it has."},
    {"next_input", incoming_next_input, METH_NOARGS,
     "The next message of the caller, as bytes; None after the last one. Ellipsis: there is none "
     "now, and input_waiter, a future, is done when there is."},
    {0},
};

static PyMemberDef incoming_members[] = {
    {"method", T_OBJECT, offsetof(Incoming, method), READONLY, NULL},
    {"id", T_OBJECT, offsetof(Incoming, id), READONLY, NULL},
    {"metadata", T_OBJECT, offsetof(Incoming, metadata), READONLY, "A dict, or None."},
    {"stream", T_BOOL, offsetof(Incoming, stream), READONLY, NULL},
    {"inputs", T_BOOL, offsetof(Incoming, inputs), READONLY, NULL},
    {"input_waiter", T_OBJECT, offsetof(Incoming, input_waiter), 0, NULL},
    {"beyond", T_BOOL, offsetof(Incoming, beyond), READONLY, NULL},
    {"room_waiter", T_OBJECT, offsetof(Incoming, room_waiter), 0, NULL},
    {"on_cancel", T_OBJECT, offsetof(Incoming, on_cancel), 0,
     "Called when the call is cancelled, instead of task.cancel()."},
    {"state", T_OBJECT, offsetof(Incoming, state), 0, NULL},
    {0},
};

static PyGetSetDef incoming_getset[] = {
    {"body", incoming_body, NULL, "None after load().", NULL},
    {"deadline", native_served_deadline, NULL, "When the caller stops waiting (time.monotonic()).",
     NULL},
    {"cancelled", incoming_cancelled, NULL, "Nobody waits for the answer any more.", NULL},
    {"ended", incoming_ended, NULL, "It was answered.", NULL},
    {0},
};

PyTypeObject native_incoming_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Incoming",
    .tp_basicsize = sizeof(Incoming),
    .tp_dealloc = incoming_dealloc,
    .tp_traverse = incoming_traverse,
    .tp_clear = incoming_clear,
    .tp_methods = incoming_methods,
    .tp_members = incoming_members,
    .tp_getset = incoming_getset,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A call that this replica serves.",
};
