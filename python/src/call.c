/* One call of a handler: its result or exception, its coroutine. */
#include "http/http.h"

/* --- ending a request --- */

/* Every request ends here, in finish_stream or in native_answer. l->calls counts the requests that
 * have not ended, and the worker is not freed before it is 0. It is decremented last: ending a
 * request may run Python code, and meanwhile another thread may close the link. */
void native_fail(Link *l, struct as_worker_req *q, uint32_t code, struct as_str text)
{
    as_worker_fail(l->w, q, code, text);
    l->calls--;
}

/* Ends a stream of answers. */
static void finish_stream(Link *l, struct as_worker_req *q)
{
    as_worker_finish(l->w, q);
    l->calls--;
}

/* Ends all requests of a call with an error. */
static void fail_call(struct execution *x, uint32_t code, struct as_str text)
{
    if (x->group)
        native_group_fail(x, code, text);
    else
        native_fail(x->link, x->q, code, text);
}

/* Answers with exc, which it consumes. -1: exc is set again, because it also ends the task. */
static int fail_with_exception(struct execution *x, PyObject *exc)
{
    struct handler_error v;

    native_handler_error(x->link, x->m, x->group ? NULL : x->q, exc, &v);
    fail_call(x, v.code, v.text);
    Py_XDECREF(v.text_owner);
    if (v.is_cancelled)
        native_restore_exception(exc);
    else
        Py_DECREF(exc);
    return v.is_cancelled ? -1 : 0;
}

/* --- the end of a call --- */

/* The handler had the list, and may have put any object into it. */
static void detach_requests(struct execution *x)
{
    PyObject *list = x->group ? x->group->requests : NULL;

    if (x->request)
        native_request_detach(x->request);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        if (Py_IS_TYPE(PyList_GET_ITEM(list, i), &native_request_type))
            native_request_detach((Request *)(void *)PyList_GET_ITEM(list, i));
    }
}

static int answer_with(struct execution *x, PyObject *result)
{
    if (x->m->decoupled) {
        finish_stream(x->link, x->q);
        return 0;
    }
    return x->group ? native_group_answer(x, result) : native_answer(x->link, x->m, x->q, result);
}

/* Answers with a result, and drops it and what x owns. result == NULL: an exception is set, or
 * `why` says what the client did wrong. */
static int finish_call(struct execution *x, PyObject *result, const char *why)
{
    /* fetched before anything else runs: detaching calls into Python */
    PyObject *exc = result || why[0] ? NULL : native_fetch_exception();
    int err = 0;

    detach_requests(x);
    if (result && answer_with(x, result))
        exc = native_fetch_exception();
    Py_XDECREF(result);
    if (exc)
        err = fail_with_exception(x, exc);
    else if (!result)
        fail_call(x, AS_STATUS_INVALID_ARGUMENT, as_str_of(why));
    Py_XDECREF((PyObject *)x->request);
    native_group_free(x->group);
    return err;
}

/* A cancel finds the call through its requests. */
static void set_call(const struct execution *x, Call *c)
{
    as_worker_req_set_data(x->q, c);
    for (Py_ssize_t i = 1; x->group && i < x->group->n; i++)
        as_worker_req_set_data(x->group->at[i].q, c);
}

/* Makes a Call, which owns what x owns. Returns a new reference for the caller; a second one lives
 * until the request is answered. NULL with an exception: x is as it was. */
static Call *call_new(const struct execution *x)
{
    Call *c = PyObject_New(Call, &native_call_type);

    if (!c)
        return NULL;
    c->x = *x;
    Py_INCREF((PyObject *)x->link);
    c->coro = c->task = c->first = NULL;
    c->traced = false;
    c->stream = NULL;
    set_call(x, (Call *)(void *)Py_NewRef((PyObject *)c));
    return c;
}

/* Ends a call. Its fields are cleared first, because Python code may run then, and may come back to
 * this call (close() in a finalizer, a cancel): it must find the call answered. */
static int end_call(Call *c, PyObject *result, const char *why)
{
    struct execution x = c->x;
    int err;

    c->x.q = NULL;
    c->x.request = NULL;
    c->x.group = NULL;
    if (c->stream)
        c->stream->q = NULL; /* the stream is over */
    set_call(&x, NULL);
    err = finish_call(&x, result, why);
    Py_CLEAR(c->task);
    Py_DECREF((PyObject *)c);
    return err;
}

/* --- the id of the request, for logging --- */

struct trace {
    PyObject *var, *token; /* NULL: nothing was set */
};

/* Sets the context variable in which logging finds the id of the request: the request's own id, or
 * that of the client's header. A batch has none. */
static struct trace trace_begin(const struct execution *x)
{
    struct trace t = {x->link->trace, NULL};
    const struct as_msg *msg;
    struct as_str id;
    PyObject *s;

    if (__builtin_expect(!t.var, 1) || x->group)
        return (struct trace){0};
    msg = as_worker_req_msg(x->q);
    id = msg->id;
    for (uint32_t i = 0; !id.n && i < msg->n_meta; i++) {
        if (as_str_eq(msg->meta[i].key, AS_STR("x-request-id")))
            id = msg->meta[i].value;
    }
    if (!id.n)
        return (struct trace){0};
    s = native_text(id);
    t.token = s ? PyContextVar_Set(t.var, s) : NULL;
    Py_XDECREF(s);
    if (!t.token) {
        PyErr_Clear();
        return (struct trace){0};
    }
    Py_INCREF(t.var);
    return t;
}

/* Resets the context variable; an exception that is set stays set. */
static void trace_end(struct trace t)
{
    PyObject *exc;

    if (__builtin_expect(!t.token, 1))
        return;
    exc = native_save_exception();
    if (PyContextVar_Reset(t.var, t.token))
        PyErr_Clear(); /* the code has changed the context */
    Py_DECREF(t.token);
    Py_DECREF(t.var);
    native_restore_exception(exc);
}

/* --- coroutines --- */

/* Reports the outcome of a step of the coroutine to its driver, usually a task. The task gets
 * neither the result nor an ordinary exception. */
static PySendResult report_step(Call *c, PySendResult how, PyObject *out, PyObject **ret)
{
    int err;

    *ret = NULL;
    if (how == PYGEN_NEXT) {
        *ret = out;
        return PYGEN_NEXT;
    }
    if (!c->x.q) { /* it was answered by close() */
        Py_XDECREF(out);
        *ret = how == PYGEN_RETURN ? Py_NewRef(Py_None) : NULL;
        return how;
    }
    err = end_call(c, how == PYGEN_RETURN ? out : NULL, "");
    native_schedule_turn(c->x.link);
    if (err)
        return PYGEN_ERROR;
    *ret = Py_NewRef(Py_None);
    return PYGEN_RETURN;
}

static PySendResult call_send(PyObject *o, PyObject *arg, PyObject **ret)
{
    Call *c = (Call *)(void *)o;
    PyObject *out = c->first;
    PySendResult how = PYGEN_NEXT;

    /* the first await of an eager handler, from before there was a task to give it to */
    c->first = NULL;
    if (!c->traced && c->x.q) { /* the context belongs to the task and its children only */
        struct trace t = trace_begin(&c->x);

        c->traced = true;
        Py_XDECREF(t.token);
        Py_XDECREF(t.var);
    }
    if (!out)
        how = PyIter_Send(c->coro, arg, &out);
    return report_step(c, how, out, ret);
}

/* Converts an outcome as the methods of a coroutine report it: a value, or StopIteration. */
static PyObject *as_method(PySendResult how, PyObject *out)
{
    if (how == PYGEN_RETURN) {
        Py_DECREF(out);
        PyErr_SetNone(PyExc_StopIteration);
        return NULL;
    }
    return how == PYGEN_NEXT ? out : NULL;
}

static PyObject *call_send_method(PyObject *o, PyObject *arg)
{
    PyObject *out;
    PySendResult how = call_send(o, arg, &out);

    return as_method(how, out);
}

static PyObject *call_iternext(PyObject *o)
{
    return call_send_method(o, Py_None);
}

static PyObject *call_throw(PyObject *o, PyObject *args)
{
    Call *c = (Call *)(void *)o;
    PyObject *method = PyObject_GetAttrString(c->coro, "throw");
    PyObject *out = method ? PyObject_Call(method, args, NULL) : NULL, *value = NULL;
    PySendResult how = out ? PYGEN_NEXT : PYGEN_ERROR;

    Py_XDECREF(method);
    /* the task throws before it got the future, so nobody waits for that */
    Py_CLEAR(c->first);
    if (!out && PyErr_ExceptionMatches(PyExc_StopIteration)) {
        PyObject *exc = native_fetch_exception();

        how = PYGEN_RETURN;
        out = PyObject_GetAttrString(exc, "value");
        Py_DECREF(exc);
        if (!out)
            how = PYGEN_ERROR;
    }
    how = report_step(c, how, out, &value);
    return as_method(how, value);
}

/* Called when the loop is closed, or the task was dropped unawaited: without an answer here the
 * client would wait for ever, and the slot would stay taken. */
static PyObject *call_close(PyObject *o, PyObject *unused AS_UNUSED)
{
    Call *c = (Call *)(void *)o;

    if (c->x.q) {
        end_call(c, NULL, "the handler was closed before it answered");
        native_schedule_turn(c->x.link);
    }
    if (!c->coro)
        Py_RETURN_NONE;
    return PyObject_CallMethod(c->coro, "close", NULL);
}

/* Starts the coroutine of a handler, and consumes it. `s`: of a model with several messages, or
 * NULL. */
static int start_coro(struct execution *x, PyObject *coro, Stream *s)
{
    PyObject *first = NULL, *task;
    int err = 0;
    Call *c;

    if (x->m->eager) {
        struct trace t = trace_begin(x);
        PySendResult how = PyIter_Send(coro, Py_None, &first);

        trace_end(t);
        if (how != PYGEN_NEXT) {
            err = finish_call(x, how == PYGEN_RETURN ? first : NULL, "");
            Py_DECREF(coro);
            return err;
        }
    }
    c = call_new(x);
    if (!c) {
        if (s)
            s->q = NULL;
        Py_XDECREF(first);
        Py_DECREF(coro);
        return finish_call(x, NULL, "");
    }
    c->coro = coro;
    c->stream = (Stream *)Py_XNewRef((PyObject *)s);
    c->first = first;
    /* an eager task factory may run the task to its end in here: then c->x.q is NULL */
    task = native_spawn_task(x->link, (PyObject *)c, x->m->name);
    if (c->x.q && !task)
        err = end_call(c, NULL, "");
    else if (!task)
        err = -1; /* it was answered in native_spawn_task; the exception ends the worker */
    else if (c->x.q)
        c->task = Py_NewRef(task);
    Py_XDECREF(task);
    Py_DECREF((PyObject *)c);
    return err;
}

/* --- starting --- */

static int start_thread(struct execution *x)
{
    Link *l = x->link;
    PyObject *submit = x->m->submit ? x->m->submit : l->run_in_thread, *r;
    Py_ssize_t in_thread = !x->m->submit;
    Call *c = call_new(x);
    int err = 0;

    if (!c)
        return finish_call(x, NULL, "");
    l->n_in_thread += in_thread;
    r = PyObject_CallOneArg(submit, (PyObject *)c);
    if (!r) {
        l->n_in_thread -= in_thread;
        err = end_call(c, NULL, "");
    }
    Py_XDECREF(r);
    Py_DECREF((PyObject *)c);
    return err;
}

/* Starts an async handler with several messages: a coroutine of the SDK drives it. */
static int start_stream(struct execution *x)
{
    Stream *s = native_stream_new(x->link, x->m, x->q);
    PyObject *result = NULL, *coro = NULL;
    char why[NATIVE_WHY];
    int err;

    why[0] = 0;
    if (s)
        result = x->m->streams_inputs ? PyObject_CallOneArg(x->m->handler, (PyObject *)s)
                                      : native_call_handler(x, why);
    if (result)
        coro = PyObject_CallFunctionObjArgs(x->link->drive, (PyObject *)s, result, NULL);
    if (coro) {
        err = start_coro(x, coro, s);
    } else {
        if (s)
            s->q = NULL;
        err = finish_call(x, NULL, why);
    }
    Py_XDECREF(result);
    Py_XDECREF((PyObject *)s);
    return err;
}

/* Calls the handler. A sync handler is done afterwards; if it is a generator, all its results are
 * sent. */
static PyObject *run_handler(struct execution *x, char why[NATIVE_WHY])
{
    struct trace t = trace_begin(x);
    PyObject *result = native_call_handler(x, why);

    if (x->m->decoupled && result)
        result = native_stream_run(x->link, x->m, x->q, result);
    trace_end(t);
    return result;
}

static int start_handler(struct execution *x)
{
    Link *l = x->link;
    char why[NATIVE_WHY];
    PyObject *result;
    as_ns begun;

    if (x->m->takes_request && !x->group) {
        x->request = native_request_new(l, x->m, x->q);
        if (!x->request)
            return finish_call(x, NULL, "");
    }
    if (x->m->decoupled && x->m->is_async) {
        native_sync_leave(l);
        return start_stream(x);
    }
    if (!x->m->is_async && l->loop)
        native_sync_enter(l);
    else if (l->loop)
        native_sync_leave(l);
    begun = l->in_sync ? native_sync_clock() : 0;
    result = run_handler(x, why);
    if (begun)
        native_sync_record(l, x->m, native_sync_clock() - begun, true);
    if (x->m->is_async && result && PyCoro_CheckExact(result))
        return start_coro(x, result, NULL);
    return finish_call(x, result, why);
}

int native_call_start(Link *l, struct as_worker_req *q)
{
    struct execution x = {.link = l, .m = &l->models[as_worker_req_model(q)], .q = q};
    bool failed = false;
    int err;

    if (x.m->opaque)
        return native_incoming_start(l, q);
    l->calls++;
    if (x.m->batched && !native_group_new(&x, &failed))
        return failed ? 0 : -1;
    err = x.m->submit || native_sync_in_thread(l, x.m) ? start_thread(&x) : start_handler(&x);
    /* cancelled, in a handler without a task: no reason to end the worker */
    return err && native_raised_cancelled() ? 0 : err;
}

/* Calling a Call runs its handler: the SDK does so in a thread, for a model with threads. */
static PyObject *call_call(PyObject *o, PyObject *args AS_UNUSED, PyObject *kw AS_UNUSED)
{
    Call *c = (Call *)(void *)o;
    Link *l = c->x.link;
    struct model *m = c->x.m;
    char why[NATIVE_WHY];
    PyObject *result = NULL;
    as_ns begun = m->submit ? 0 : native_sync_clock();

    if (!c->x.q) {
        l->n_in_thread -= begun != 0;
        Py_RETURN_NONE;
    }
    why[0] = 0;
    if (m->takes_request && !c->x.group)
        c->x.request = native_request_new(l, m, c->x.q);
    if (!m->takes_request || c->x.request || c->x.group)
        result = run_handler(&c->x, why);
    if (begun) {
        native_sync_record(l, m, native_sync_clock() - begun, false);
        l->n_in_thread--;
    }
    if (end_call(c, result, why)) {
        if (!native_raised_cancelled())
            PyErr_WriteUnraisable(m->handler);
    }
    /* this is no turn of a loop, so the answer is published here; but since the call has ended,
     * another thread may have closed the link */
    if (l->w)
        as_worker_flush(l->w);
    if (l->w && l->loop)
        as_worker_wake(l->w); /* the loop may start the next request */
    Py_RETURN_NONE;
}

void native_call_cancel(PyObject *o)
{
    Call *c = (Call *)(void *)o;
    PyObject *task, *r;

    if (o && Py_IS_TYPE(o, &native_http_type)) {
        native_http_cancel((Http *)(void *)o);
        return;
    }
    if (native_served_of(o)) {
        native_served_cancel(native_served_of(o));
        return;
    }
    /* A sync handler cannot be stopped; it can read request.cancelled. Its answer is dropped. */
    if (!c || !c->task)
        return;
    /* the other requests of a batch still wait */
    if (c->x.group && ++c->x.group->cancelled < c->x.group->n)
        return;
    /* cancel() may end the call at once, and drop its reference */
    task = Py_NewRef(c->task);
    r = PyObject_CallMethod(task, "cancel", NULL);
    if (!r)
        PyErr_WriteUnraisable(task);
    Py_XDECREF(r);
    Py_DECREF(task);
}

void native_call_stream_ready(PyObject *o, unsigned what)
{
    Call *c = (Call *)(void *)o;

    if (o && Py_IS_TYPE(o, &native_incoming_type))
        native_incoming_ready((Incoming *)(void *)o, what);
    else if (o && Py_IS_TYPE(o, &native_http_type))
        native_http_ready((Http *)(void *)o, what);
    else if (c && c->stream)
        native_stream_notify(c->stream, what);
}

/* --- the type --- */

static void call_dealloc(PyObject *o)
{
    Call *c = (Call *)(void *)o;

    Py_XDECREF((PyObject *)c->x.request);
    Py_XDECREF((PyObject *)c->stream);
    native_group_free(c->x.group);
    Py_XDECREF(c->coro);
    Py_XDECREF(c->task);
    Py_XDECREF(c->first);
    Py_DECREF((PyObject *)c->x.link);
    PyObject_Free(o);
}

/* The repr and the stack of a task use cr_frame, __qualname__ and the like: they come from the
 * coroutine. */
static PyObject *call_getattr(PyObject *o, PyObject *name)
{
    Call *c = (Call *)(void *)o;
    PyObject *v = PyObject_GenericGetAttr(o, name);

    if (v || !c->coro || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return v;
    PyErr_Clear();
    return PyObject_GetAttr(c->coro, name);
}

static PyMethodDef call_methods[] = {
    {"send", call_send_method, METH_O, NULL},
    {"throw", call_throw, METH_VARARGS, NULL},
    {"close", call_close, METH_NOARGS, NULL},
    {0},
};

static PyAsyncMethods call_async = {
    .am_await = PyObject_SelfIter,
    .am_send = call_send,
};

PyTypeObject native_call_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Call",
    .tp_basicsize = sizeof(Call),
    .tp_dealloc = call_dealloc,
    .tp_call = call_call,
    .tp_getattro = call_getattr,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = call_iternext,
    .tp_as_async = &call_async,
    .tp_methods = call_methods,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A running handler, as the coroutine of its task.",
};
