/* Out: a call that this process has opened. All code here runs with the lock of the interpreter,
 * which also makes sure that one thread at a time reads an answer.
 *
 *   WAITS ──── the answers that are its arguments are here ───► OPEN ──── answer, failure ──► ENDED
 *     └──────────────── one of those calls has failed; cancel ────────────────────────────────▲
 *
 * Who holds an Out: the program; while something waits for it also itself (`kept`), since nobody
 * else holds a coroutine that waits; while it waits for others, these. A call whose Out is freed
 * goes on; a stream is cancelled, because nobody can take its messages.
 */
#include "opaque.h"

#include <structmember.h>

/* --- the list of the link --- */

void native_out_link(Out *x)
{
    Link *l = x->link;

    x->prev = NULL;
    x->next = l->outs;
    if (l->outs)
        l->outs->prev = x;
    l->outs = x;
}

void native_out_unlink(Out *x)
{
    if (x->prev)
        x->prev->next = x->next;
    else if (x->link->outs == x)
        x->link->outs = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->prev = x->next = NULL;
}

PyObject *native_out_parts(Out *x)
{
    return x->args->parts;
}

/* --- the end --- */

void native_out_free_args(Out *x)
{
    struct open_args *a = x->args;

    x->args = NULL;
    if (!a)
        return;
    Py_XDECREF(a->method);
    Py_XDECREF(a->data);
    Py_XDECREF(a->buffers);
    Py_XDECREF(a->parts);
    Py_XDECREF(a->model_id);
    Py_XDECREF(a->session_id);
    Py_XDECREF(a->tenant);
    Py_XDECREF(a->parent);
    PyMem_Free(a);
}

bool native_out_has_failed(const Out *x)
{
    return x->status || x->failed || !x->body || (x->body->flags & AS_BODY_F_EXCEPTION);
}

void native_out_set_status(Out *x, unsigned status, unsigned flags, struct as_str text)
{
    x->status = status ? status : AS_STATUS_INTERNAL;
    x->flags = flags;
    Py_XSETREF(x->text, PyBytes_FromStringAndSize(text.p, (Py_ssize_t)text.n));
    PyErr_Clear(); /* without memory there is no text */
}

/* The calls that wait for x: opens those that have all of their arguments, and adds those that fail
 * with x to the list `more`. */
static void settle_dependents(Out *x, PyObject *dependents, PyObject *more)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(dependents); i++) {
        Out *d = (Out *)(void *)PyList_GET_ITEM(dependents, i);

        if (d->state != OUT_WAITS || !d->args)
            continue;
        if (native_out_has_failed(x))
            d->failed = (Out *)Py_NewRef((PyObject *)x);
        else if (--d->args->n_missing == 0)
            native_out_open_now(d);
        if ((d->failed || d->status) && PyList_Append(more, (PyObject *)d) < 0)
            PyErr_Clear();
    }
}

/* Its state becomes ENDED. The caller has a reference. */
static void set_ended(Out *x)
{
    x->state = OUT_ENDED;
    native_out_unlink(x);
    native_out_free_args(x);
    if (x->o && !x->n_threads && !x->opening) {
        as_worker_out_free(x->o);
        x->o = NULL;
    }
}

/* x has ended, and those that depend on it: without Python code in between, so that everyone sees
 * all of them ended. Then wakes whoever waits for them. */
void native_out_settle(Out *first)
{
    PyObject *exc = native_save_exception();
    PyObject *all = PyList_New(0);

    if (!all || PyList_Append(all, (PyObject *)first) < 0) {
        PyErr_WriteUnraisable((PyObject *)first);
        Py_XDECREF(all);
        native_restore_exception(exc);
        return;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all); i++) {
        Out *x = (Out *)(void *)PyList_GET_ITEM(all, i);
        PyObject *dependents = x->dependents;

        set_ended(x);
        x->dependents = NULL;
        if (dependents)
            settle_dependents(x, dependents, all);
        Py_XDECREF(dependents);
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all); i++) {
        Out *x = (Out *)(void *)PyList_GET_ITEM(all, i);

        native_out_wake(x);
    }
    Py_DECREF(all);
    native_restore_exception(exc);
}

static void fail(Out *x, unsigned status, unsigned flags, struct as_str text)
{
    native_out_set_status(x, status, flags, text);
    native_out_settle(x);
}

/* --- reading --- */

/* In the child of a fork: the call is the parent process's. */
static void fail_forked(Out *x)
{
    x->o = NULL;
    fail(x, AS_STATUS_UNAVAILABLE, 0, AS_STR("the call was made before this process was forked"));
}

bool native_out_pump(Out *x)
{
    struct as_worker_out_msg msg;
    int err;

    if (x->link->forked && x->state != OUT_ENDED) {
        Py_INCREF(x);
        fail_forked(x);
        Py_DECREF(x);
    }
    if (x->state != OUT_OPEN || x->stream || !x->o || x->opening)
        return x->state == OUT_ENDED;
    err = as_worker_out_read(x->o, &msg);
    if (err == AS_EAGAIN)
        return false;
    if (!err && !msg.body) {
        native_out_note_slot(x, &msg);
        return x->state == OUT_ENDED;
    }
    Py_INCREF(x);
    if (!err) {
        Py_XSETREF(x->body, native_body_new(msg.body, as_worker_out_hold(x->o)));
        PyErr_Clear();
    }
    if (err == AS_EHANDLER)
        native_out_set_status(x, msg.status, msg.flags, msg.text);
    else if (!x->body)
        native_out_set_status(x, AS_STATUS_INTERNAL, AS_WORKER_OUT_STARTED,
                              err ? AS_STR("the call has ended without an answer")
                                  : AS_STR("out of memory"));
    native_out_settle(x);
    Py_DECREF(x);
    return true;
}

void native_out_news(Out *x)
{
    if (!x->stream)
        native_out_pump(x);
    else if (x->state == OUT_OPEN)
        native_out_wake(x);
}

/* Raises the exception; it starts with no traceback, since it may be raised more than once. */
static void raise(PyObject *exc)
{
    PyException_SetTraceback(exc, Py_None);
    PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
}

static struct as_str text_of(const Out *x)
{
    return x->text ? (struct as_str){PyBytes_AS_STRING(x->text), (size_t)PyBytes_GET_SIZE(x->text)}
                   : AS_STR("");
}

/* The exception of one that has failed: a borrowed reference. */
static PyObject *exception_of(Out *x)
{
    Out *first = x;
    PyObject *e;

    while (first->failed)
        first = first->failed;
    if (!first->exception) {
        e = first->status ? native_status_exception((PyObject *)first, first->status, first->flags,
                                                    text_of(first))
                          : native_body_exception(first->body);
        Py_XSETREF(first->exception, e);
    }
    if (x != first && !x->exception)
        x->exception = Py_NewRef(first->exception);
    return x->exception;
}

PyObject *native_out_result(Out *x)
{
    PyObject *value, *exc;

    if (x->value)
        return Py_NewRef(x->value);
    if (x->exception || native_out_has_failed(x)) {
        raise(x->exception ? x->exception : exception_of(x));
        return NULL;
    }
    value = native_body_load(x->body); /* another thread may do the same meanwhile */
    if (value && x->value) {
        Py_SETREF(value, Py_NewRef(x->value)); /* all get the same object */
    } else if (value) {
        x->value = Py_NewRef(value);
    } else if (!x->value && !x->exception && PyErr_ExceptionMatches(PyExc_Exception)) {
        exc = native_fetch_exception(); /* it cannot be unpickled here */
        x->exception = Py_NewRef(exc);
        native_restore_exception(exc);
    }
    return value;
}

/* The stream has ended: raises what its reader gets. */
static int raise_end(Out *x)
{
    if (x->status || x->exception)
        raise(x->exception ? x->exception : exception_of(x));
    else if (x->failed)
        raise(exception_of(x));
    else
        PyErr_SetNone(PyExc_StopIteration);
    return -1;
}

/* The answer of one of several replicas: (value, None), or (None, exception). */
static PyObject *pair_of(Body *body)
{
    bool failed = body->flags & AS_BODY_F_EXCEPTION;
    PyObject *v = failed ? native_body_exception(body) : native_body_load(body);
    PyObject *pair = v ? PyTuple_Pack(2, failed ? Py_None : v, failed ? v : Py_None) : NULL;

    Py_XDECREF(v);
    return pair;
}

/* A message: its value, or the exception that it describes, which is the end. */
static int take_item(Out *x, Body *body, bool last, PyObject **ret_value)
{
    if (!x->every && (body->flags & AS_BODY_F_EXCEPTION)) {
        x->exception = native_body_exception(body);
        native_out_settle(x);
        raise(x->exception);
        return -1;
    }
    *ret_value = x->every ? pair_of(body) : native_body_load(body);
    if (last && *ret_value)
        native_out_settle(x);
    return *ret_value ? 1 : -1;
}

int native_out_item(Out *x, PyObject **ret_value)
{
    struct as_worker_out_msg msg;
    Body *body;
    int err, r;

    if (x->link->forked && x->state != OUT_ENDED)
        fail_forked(x);
    if (x->state == OUT_ENDED)
        return raise_end(x);
    if (x->state != OUT_OPEN || !x->o || x->opening)
        return 0;
    err = as_worker_out_read(x->o, &msg);
    if (err == AS_EAGAIN)
        return 0;
    if (err) {
        if (err == AS_EHANDLER)
            native_out_set_status(x, msg.status, msg.flags, msg.text);
        native_out_settle(x);
        return raise_end(x);
    }
    body = native_body_new(msg.body, as_worker_out_hold(x->o));
    if (!body)
        return -1;
    r = take_item(x, body, msg.last, ret_value);
    Py_DECREF((PyObject *)body);
    return r;
}

/* --- ending it early --- */

void native_out_cancel(Out *x)
{
    if (x->state == OUT_ENDED || x->link->forked)
        return;
    x->cancelled = true;
    if (x->state == OUT_WAITS) {
        fail(x, AS_STATUS_CANCELLED, 0, AS_STR("the call was cancelled"));
        return;
    }
    if (!x->o || x->opening)
        return; /* the thread that opens it looks again */
    as_worker_out_cancel(x->o);
    native_link_send(x->link, false);
    native_out_news(x);
}

void native_outs_close(Link *l, const char *given)
{
    char why[256] = "the link is closed";

    if (given)
        snprintf(why, sizeof(why), "%s", given);
    else if (l->outs && l->w && !l->forked && as_worker_error(l->w)[0])
        snprintf(why, sizeof(why), "%s", as_worker_error(l->w));
    while (l->outs) {
        Out *x = l->outs;

        Py_INCREF(x);
        if (x->o && !l->forked)
            as_worker_out_cancel(x->o); /* wakes the threads that wait for it */
        if (l->forked)
            x->o = NULL;
        fail(x, AS_STATUS_UNAVAILABLE, 0, as_str_of(why));
        Py_DECREF(x);
    }
}

/* --- the type --- */

static PyObject *out_done(PyObject *o, PyObject *unused AS_UNUSED)
{
    return PyBool_FromLong(native_out_pump((Out *)(void *)o));
}

static PyObject *out_cancel(PyObject *o, PyObject *unused AS_UNUSED)
{
    native_out_cancel((Out *)(void *)o);
    Py_RETURN_NONE;
}

static PyObject *out_exception(PyObject *o, PyObject *unused AS_UNUSED)
{
    Out *x = (Out *)(void *)o;
    PyObject *v = native_out_pump(x) && !x->stream ? native_out_result(x) : Py_NewRef(Py_None);

    if (v) {
        Py_DECREF(v);
        Py_RETURN_NONE;
    }
    return native_fetch_exception();
}

static int out_traverse(PyObject *o, visitproc visit, void *arg)
{
    Out *x = (Out *)(void *)o;

    Py_VISIT(x->value);
    Py_VISIT(x->exception);
    Py_VISIT(x->callbacks);
    Py_VISIT((PyObject *)x->failed);
    Py_VISIT(x->dependents);
    for (Await *a = x->awaits; a; a = a->next)
        Py_VISIT((PyObject *)a);
    if (x->args) {
        Py_VISIT(x->args->parts);
        Py_VISIT(x->args->parent);
    }
    return 0;
}

/* Nothing but a cycle refers to it, so nothing waits for it: an open one has no callbacks then. */
static int out_clear(PyObject *o)
{
    Out *x = (Out *)(void *)o;

    Py_CLEAR(x->value);
    Py_CLEAR(x->exception);
    Py_CLEAR(x->callbacks);
    Py_CLEAR(x->dependents);
    return 0;
}

static void out_dealloc(PyObject *o)
{
    Out *x = (Out *)(void *)o;

    PyObject_GC_UnTrack(o);
    Py_TRASHCAN_BEGIN(o, out_dealloc);
    if (x->state != OUT_ENDED)
        native_out_unlink(x);
    if (x->o && !x->link->forked) {
        if (x->stream || x->reserve || x->state != OUT_OPEN)
            as_worker_out_free(x->o);
        else
            as_worker_out_detach(x->o);
        if (x->stream || x->reserve) /* its CANCEL */
            native_link_send(x->link, false);
    }
    native_out_free_args(x);
    out_clear(o);
    Py_CLEAR(x->failed);
    Py_XDECREF((PyObject *)x->body);
    Py_XDECREF(x->text);
    Py_XDECREF(x->replica);
    Py_XDECREF(x->id);
    Py_DECREF((PyObject *)x->link);
    PyObject_GC_Del(o);
    Py_TRASHCAN_END;
}

static PyMethodDef out_methods[] = {
    {"done", out_done, METH_NOARGS, "Whether it has ended."},
    {"result", (PyCFunction)(void (*)(void))native_out_result_method, METH_FASTCALL,
     "result(timeout): waits; TimeoutError; else the value, or the call's exception."},
    {"exception", out_exception, METH_NOARGS, "Of a call that has ended: its exception, or None."},
    {"next", native_out_next_method, METH_O,
     "next(timeout): the next message of a stream; StopIteration at its end."},
    {"anext", native_out_anext, METH_NOARGS, "The same, for `await`; StopAsyncIteration."},
    {"cancel", out_cancel, METH_NOARGS, "Cancels the call, if it has not ended."},
    {"reserved", native_out_reserved, METH_NOARGS,
     "Of one that reserves: the name of the replica of which it has a slot, for `await`."},
    {"use", (PyCFunction)(void (*)(void))native_out_use, METH_FASTCALL,
     "use(method, codec, data, buffers, parts, deadline, id, model_id, session_id, priority, "
     "tenant, window): executes a call in the slot."},
    {"add_done_callback", native_out_add_done_callback, METH_O,
     "Calls fn(self) when the call has ended, at once if it has; in any thread."},
    {0},
};

static PyMemberDef out_members[] = {
    {"request_id", T_OBJECT, offsetof(Out, id), READONLY, NULL},
    {"cancelled", T_BOOL, offsetof(Out, cancelled), READONLY, "cancel() was called in time."},
    {"stream", T_BOOL, offsetof(Out, stream), READONLY, NULL},
    {"replica", T_OBJECT, offsetof(Out, replica), READONLY, "Of which it has, or had, a slot."},
    {0},
};

/* (application, deployment) */
static PyObject *out_target(PyObject *o, void *unused AS_UNUSED)
{
    Out *x = (Out *)(void *)o;
    PyObject *key = PyLong_FromUnsignedLong(x->target);
    PyObject *names =
        key && x->link->targets ? PyDict_GetItemWithError(x->link->targets, key) : NULL;

    Py_XDECREF(key);
    if (!names && !PyErr_Occurred())
        return Py_BuildValue("(ss)", "", "");
    return Py_XNewRef(names);
}

static PyGetSetDef out_getset[] = {
    {"target", out_target, NULL, "(application, deployment)", NULL},
    {0},
};

static PyAsyncMethods out_async = {.am_await = native_out_await};

PyTypeObject native_out_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Out",
    .tp_basicsize = sizeof(Out),
    .tp_dealloc = out_dealloc,
    .tp_traverse = out_traverse,
    .tp_clear = out_clear,
    .tp_as_async = &out_async,
    .tp_methods = out_methods,
    .tp_members = out_members,
    .tp_getset = out_getset,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A call that this process has opened. `await` gives its result.",
};
