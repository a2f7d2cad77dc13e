/* The module and Link: a worker's end of the link, and its synchronous runner.
 */
#define ANYSERVE_IMPORT_ARRAY
#include "native.h"

#include "array.h"
#include "http/http.h"

#include <signal.h>

/* Both are set when the package is imported, and never change. There is one module per process,
 * without state for subinterpreters (m_size -1). */
PyObject *native_response_type;
PyObject *native_output_error;

/* --- Link: construction --- */

static int add_model(Link *l, PyObject *o, struct model *m)
{
    struct as_worker_model public = {0};

    if (!o || native_model_init(m, o, &public))
        return -1;
    if (as_worker_add(l->w, &public)) {
        PyErr_Format(PyExc_ValueError, "model %R: %s", m->name, as_worker_error(l->w));
        return -1;
    }
    /* from the first turn on: the library reports news from the first question for them */
    l->has_calls = l->has_calls || m->opaque;
    return 0;
}

static int make_worker(Link *l, PyObject *models, const struct as_worker_conf *conf)
{
    Py_ssize_t n = PySequence_Size(models);
    int err;

    if (n < 0)
        return -1;
    l->models = PyMem_Calloc((size_t)n + 1, sizeof(*l->models));
    if (!l->models)
        return PyErr_NoMemory(), -1;
    l->n_models = (uint32_t)n;
    err = as_worker_new(&l->w, conf);
    if (err) {
        PyErr_SetString(err == AS_EINVALID ? PyExc_ValueError : PyExc_OSError,
                        err == AS_EINVALID ? "a name is too long, or a number is out of range"
                                           : "cannot make the worker's descriptors or its thread");
        return -1;
    }
    for (Py_ssize_t i = 0; !err && i < n; i++) {
        PyObject *o = PySequence_GetItem(models, i);

        err = add_model(l, o, &l->models[i]);
        Py_XDECREF(o);
    }
    return err;
}

static int link_init(PyObject *self, PyObject *args, PyObject *kw)
{
    Link *l = (Link *)(void *)self;
    struct as_worker_conf conf = {.size = sizeof(conf), .flags = AS_WORKER_ASKS};
    PyObject *models, *on_error;
    unsigned long long max_message, inputs, input_bytes;
    long long max_queued;

    if (kw && PyDict_GET_SIZE(kw)) {
        PyErr_SetString(PyExc_TypeError, "Link takes positional arguments");
        return -1;
    }
    if (l->w ||
        !PyArg_ParseTuple(args, "sssssOIILKKKO:Link", &conf.path, &conf.token, &conf.replica,
                          &conf.deployment, &conf.peer, &models, &conf.slots, &conf.max_prefetch,
                          &max_queued, &max_message, &inputs, &input_bytes, &on_error))
        return -1;
    conf.max_queued = max_queued;
    conf.input_messages = inputs;
    conf.input_bytes = input_bytes;
    conf.max_message = max_message;
    l->on_error = Py_NewRef(on_error);
    l->epoll_fd = -1;
    return make_worker(l, models, &conf);
}

/* Drops what the SDK has given; these objects may refer to the link. */
static void drop_objects(Link *l)
{
    PyObject **all[] = {&l->on_error, &l->on_ask,        &l->on_policy,     &l->loop,
                        &l->spawn,    &l->schedule,      &l->drive,         &l->context,
                        &l->ready,    &l->on_link_event, &l->run_in_thread, &l->timers};

    for (size_t i = 0; i < AS_COUNT(all); i++)
        Py_CLEAR(*all[i]);
}

static void link_dealloc(PyObject *self)
{
    Link *l = (Link *)(void *)self;

    /* A handler that still runs in some thread needs its request: then the end of the process
     * cleans up. */
    if (l->w && !l->calls && !l->forked)
        as_worker_free(l->w);
    drop_objects(l);
    Py_XDECREF(l->trace);
    Py_XDECREF(l->targets);
    if (!l->w || !l->calls)
        native_models_free(l);
    Py_TYPE(self)->tp_free(self);
}

/* --- Link: methods --- */

static PyObject *none_or_error(Link *l, int err)
{
    if (!err)
        Py_RETURN_NONE;
    return Py_BuildValue("(ss)", as_err_name(err), as_worker_error(l->w));
}

static PyObject *link_connect(PyObject *self, PyObject *arg)
{
    Link *l = (Link *)(void *)self;
    double timeout = PyFloat_AsDouble(arg);
    int err;

    if (timeout < 0 || timeout > 1e6) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "timeout must be 0 to 1e6 seconds");
        return NULL;
    }
    /* threads of the user's module run on meanwhile */
    Py_BEGIN_ALLOW_THREADS;
    err = as_worker_connect(l->w, (as_ns)(timeout * 1e9));
    Py_END_ALLOW_THREADS;
    return none_or_error(l, err);
}

static PyObject *link_connect_begin(PyObject *self, PyObject *unused AS_UNUSED)
{
    Link *l = (Link *)(void *)self;
    int err = as_worker_connect_begin(l->w);

    l->connecting = !err;
    return none_or_error(l, err);
}

static PyObject *link_connect_step(PyObject *self, PyObject *unused AS_UNUSED)
{
    Link *l = (Link *)(void *)self;
    int err = as_worker_connect_step(l->w);

    if (err == AS_EAGAIN)
        Py_RETURN_FALSE;
    l->connecting = false;
    return none_or_error(l, err);
}

static PyObject *link_connect_abort(PyObject *self, PyObject *unused AS_UNUSED)
{
    Link *l = (Link *)(void *)self;

    l->connecting = false;
    as_worker_connect_abort(l->w);
    Py_RETURN_NONE;
}

/* The Python side compares these texts. */
PyObject *native_link_outcome(int r)
{
    if (r == AS_EOF)
        return PyUnicode_FromString("lost");
    if (r == AS_ECANCELLED)
        return PyUnicode_FromString("drained");
    Py_RETURN_NONE;
}

/* A signal that comes after Python's check of its flags and before poll() would not end the poll(),
 * so the stop signal has a handler of its own. Global, because a signal handler has no argument:
 * there is one link per process. */
static volatile sig_atomic_t stop_asked;
static struct as_worker *volatile stop_worker;

/* Async-signal-safe. */
static void on_stop(int signum AS_UNUSED)
{
    stop_asked = 1;
    if (stop_worker)
        as_worker_stop(stop_worker);
}

static PyObject *link_stop(PyObject *self AS_UNUSED, PyObject *unused AS_UNUSED)
{
    on_stop(0);
    Py_RETURN_NONE;
}

static PyObject *link_stop_on(PyObject *self, PyObject *arg)
{
    struct sigaction sa = {.sa_handler = on_stop};
    long signum = PyLong_AsLong(arg);

    if (signum == -1 && PyErr_Occurred())
        return NULL;
    stop_worker = ((Link *)(void *)self)->w;
    if (sigaction((int)signum, &sa, NULL) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

/* Runs the requests that have come, one after the other. After a stop it runs these, too, and
 * drains; the dispatcher recalls the others. */
static int serve_ready(Link *l)
{
    struct as_worker_req *q;

    while (!stop_asked) {
        if (native_admin_poll(l))
            return -1;
        q = as_worker_next(l->w);
        if (!q)
            break;
        if (native_call_start(l, q))
            return -1;
    }
    if (!stop_asked)
        return 0;
    as_worker_drain(l->w);
    while ((q = as_worker_next(l->w))) {
        if (native_call_start(l, q))
            return -1;
    }
    return 0;
}

static PyObject *link_run(PyObject *self, PyObject *unused AS_UNUSED)
{
    Link *l = (Link *)(void *)self;
    int r;

    for (;;) {
        /* checks signals between two rounds, so that Ctrl-C works in a busy worker */
        if (serve_ready(l) || PyErr_CheckSignals())
            return NULL;
        Py_BEGIN_ALLOW_THREADS;
        r = as_worker_wait(l->w);
        Py_END_ALLOW_THREADS;
        if (r)
            return native_link_outcome(r);
    }
}

static PyObject *link_trace(PyObject *self, PyObject *var)
{
    Link *l = (Link *)(void *)self;

    if (!Py_IsNone(var) && !PyContextVar_CheckExact(var)) {
        PyErr_SetString(PyExc_TypeError, "not a ContextVar");
        return NULL;
    }
    Py_XSETREF(l->trace, Py_IsNone(var) ? NULL : Py_NewRef(var));
    Py_RETURN_NONE;
}

static PyObject *link_drain(PyObject *self, PyObject *unused AS_UNUSED)
{
    as_worker_drain(((Link *)(void *)self)->w);
    Py_RETURN_NONE;
}

/* The child of os.fork() must not hold the socket: the dispatcher would see one worker in two
 * processes. */
static PyObject *link_forked(PyObject *self, PyObject *unused AS_UNUSED)
{
    Link *l = (Link *)(void *)self;

    as_worker_forked(l->w);
    l->forked = true; /* the thread of a call of the parent process may have held locks */
    l->n_blocked = 0;
    Py_RETURN_NONE;
}

static PyObject *link_close(PyObject *self, PyObject *args)
{
    Link *l = (Link *)(void *)self;
    const char *why = NULL;

    if (!PyArg_ParseTuple(args, "|z:close", &why))
        return NULL;
    /* before it is freed: a late signal must not wake it */
    stop_worker = NULL;
    native_outs_close(l, why);
    if (l->w && !l->calls && !l->n_blocked) {
        if (!l->forked)
            as_worker_free(l->w);
        l->w = NULL;
        native_models_drop_handlers(l);
        drop_objects(l);
    }
    Py_RETURN_NONE;
}

static PyObject *link_error(PyObject *self, void *closure AS_UNUSED)
{
    Link *l = (Link *)(void *)self;

    return PyUnicode_FromString(l->w ? as_worker_error(l->w) : "closed");
}

static PyObject *link_registrations(PyObject *self, PyObject *unused AS_UNUSED)
{
    Link *l = (Link *)(void *)self;
    PyObject *all = PyList_New(0), *one = all;

    for (uint32_t i = 0; one && i < l->n_models; i++) {
        void *p = NULL;
        size_t n = 0;
        int err = as_worker_registration(l->w, i, &p, &n);

        one = PyBytes_FromStringAndSize(err ? "" : p, err ? 0 : (Py_ssize_t)n);
        free(p);
        if (one && PyList_Append(all, one) < 0)
            Py_CLEAR(one);
        else
            Py_XDECREF(one);
    }
    if (!one)
        Py_CLEAR(all);
    return all;
}

static PyObject *link_stopping(PyObject *self AS_UNUSED, void *closure AS_UNUSED)
{
    return PyBool_FromLong(stop_asked);
}

static PyObject *link_ongoing(PyObject *self, void *closure AS_UNUSED)
{
    return PyLong_FromSsize_t(((Link *)(void *)self)->calls);
}

/* Everything except __init__ needs the worker, which a closed link no longer has. */
static PyObject *link_getattr(PyObject *self, PyObject *name)
{
    if (!((Link *)(void *)self)->w) {
        PyErr_SetString(PyExc_ValueError, "the link is closed");
        return NULL;
    }
    return PyObject_GenericGetAttr(self, name);
}

static PyMethodDef link_methods[] = {
    {"connect", link_connect, METH_O,
     "connect(timeout) -> None, or (error name, reason) if it failed."},
    {"connect_begin", link_connect_begin, METH_NOARGS,
     "Starts to connect, without waiting: None, or (error name, reason)."},
    {"connect_step", link_connect_step, METH_NOARGS,
     "Goes on connecting, without waiting: None (connected), False (not yet), or (error name, "
     "reason)."},
    {"connect_abort", link_connect_abort, METH_NOARGS, "Cancels a connect_begin()."},
    {"run", link_run, METH_NOARGS,
     "Runs handlers on the calling thread until the link is 'lost' or 'drained'."},
    {"stop", link_stop, METH_NOARGS, "Makes run() drain the link."},
    {"stop_on", link_stop_on, METH_O, "stop_on(signum): that signal makes run() drain the link."},
    {"use_loop", native_link_use_loop, METH_VARARGS,
     "use_loop(loop, spawn, eager, schedule, drive, on_event, in_thread) -> descriptor.\n"
     "turn() is due when the descriptor is readable. spawn(call): makes a task. eager: tasks are\n"
     "asyncio's, and may begin at once. schedule(): schedules a turn. drive(stream, result): a\n"
     "coroutine. on_event(event): connecting may go on (None), or the link is 'lost' or "
     "'drained'.\n"
     "in_thread(call): a thread calls it; None: every handler is async, or has threads."},
    {"turn", native_link_turn, METH_NOARGS, "One turn: reads, starts, cancels. Not within a task."},
    {"wait_with", native_link_wait_with, METH_O,
     "wait_with(fd): wait() also waits for this epoll descriptor. -1: it does not any more."},
    {"wait", native_link_wait, METH_O,
     "wait(timeout) -> [(descriptor, events)]: as a selector waits, and takes turns."},
    {"on_ask", native_link_on_ask, METH_O,
     "on_ask(answer): answer(op, text, ask) is called for each request to the replica itself."},
    {"on_policy", native_link_on_policy, METH_O,
     "on_policy(take): take(origin, records) is called with the records for a policy process."},
    {"send_policy", native_link_send_policy, METH_VARARGS,
     "send_policy(origin, records) -> False: that link has ended. 0: by each link, also later "
     "ones."},
    {"spawn", native_link_spawn, METH_O,
     "spawn(coro) -> a task, which has run up to its first suspension if this is within a turn\n"
     "(on_policy)."},
    {"reply", native_link_reply, METH_VARARGS, "reply(ask, status, text): once for each."},
    {"set_options", native_link_set_options, METH_VARARGS,
     "How the server treats this replica: times in ns, failures, signal, slots, idempotent,\n"
     "max_queued; 0: as set or declared elsewhere, -1: never, no, without limit."},
    {"trace", link_trace, METH_O,
     "trace(var): while a handler runs, its request's id is in that ContextVar. None: stop it."},
    {"local", native_link_local, METH_VARARGS,
     "local(part, took, done) -> Local: a request of this process, while it is not connected; "
     "each answer goes to\n"
     "part(outputs, parameters, output_parameters); part or took None: not called."},
    {"set_services", native_link_set_services, METH_VARARGS,
     "set_services(methods, descriptors): a list of (path, takes_inputs, gives_parts)."},
    {"set_router", native_link_set_router, METH_VARARGS,
     "set_router(policy, session_header, max_wait, virtual_nodes, fallbacks, bound, session_ttl, "
     "max_sessions, prefer_local, ask_first, ask_factor, ask_max): times in ns; None, 0: as the "
     "server has it; -1: 0."},
    {"set_traffic", native_link_set_traffic, METH_VARARGS,
     "set_traffic(canary, mirror, fallback): parts in 1/100000, -1: no canary; a name or None."},
    {"target", native_link_target, METH_VARARGS,
     "target(application, deployment) -> the number of a deployment, for open()."},
    {"open", (PyCFunction)(void (*)(void))native_link_open, METH_FASTCALL,
     "open(method, codec, data, buffers, parts, deadline, id, model_id, session_id, priority,\n"
     "tenant, target, parent, window, every, reserve) -> Out. method None: __call__. parts: Outs, "
     "whose "
     "answers are put in.\n"
     "window: how many messages of a stream may be here unread; 0: the call has one answer. "
     "every:\n"
     "each replica is called, and a message is (value, None) or (None, exception)."},
    {"report", native_link_report, METH_VARARGS,
     "report(kind, text): what the server shows of this replica (enum as_worker_report)."},
    {"driver", native_link_driver, METH_VARARGS | METH_CLASS,
     "driver(path, token, runtime_dir, port, peer) -> Link that only opens calls. path None: it "
     "is\n"
     "looked up."},
    {"run_calls", native_link_run_calls, METH_NOARGS,
     "Of a driver: reads answers, until the link is 'lost' or stop_calls() is called (None)."},
    {"stop_calls", native_link_stop_calls, METH_NOARGS, "Ends run_calls(); from any thread."},
    {"drain", link_drain, METH_NOARGS, "Asks for no more requests."},
    {"forked", link_forked, METH_NOARGS, "In a forked child: closes the child's copy of the link."},
    {"registrations", link_registrations, METH_NOARGS,
     "How the server is told of each model, as bytes; b'' if that is too large."},
    {"close", link_close, METH_VARARGS,
     "close(why=None): closes the link, unless handlers still run; calls that wait fail, with this "
     "text."},
    {0},
};

static PyGetSetDef link_getset[] = {
    {"error", link_error, NULL, "Why the link ended or was refused.", NULL},
    {"stopping", link_stopping, NULL, "A signal of stop_on() came.", NULL},
    {"ongoing", link_ongoing, NULL, "Started requests that are not answered.", NULL},
    {0},
};

static PyTypeObject link_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Link",
    .tp_basicsize = sizeof(Link),
    .tp_init = link_init,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = link_dealloc,
    .tp_getattro = link_getattr,
    .tp_methods = link_methods,
    .tp_getset = link_getset,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The worker's end of a link to the dispatcher.",
};

/* --- the module --- */

static PyObject *set_response_type(PyObject *module AS_UNUSED, PyObject *type)
{
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "not a type");
        return NULL;
    }
    Py_XSETREF(native_response_type, Py_NewRef(type));
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"set_response_type", set_response_type, METH_O, "Sets the class anyserve.Response."},
    {"set_body_hooks", native_set_body_hooks, METH_VARARGS,
     "set_body_hooks(load, exception, status): load(body) unpickles a body with parts;\n"
     "exception(body): that of a body with EXCEPTION; status(out, status, flags, text): that of a\n"
     "call that has failed."},
    {0},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "anyserve._native",
    .m_doc = "The link's worker side, bound to numpy. Internal: use the package anyserve.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__native(void); /* no header declares it */

PyMODINIT_FUNC PyInit__native(void)
{
    PyTypeObject *types[] = {
        &link_type,          &native_request_type,  &native_call_type,  &native_hold_type,
        &native_stream_type, &native_loop_type,     &native_local_type, &native_body_type,
        &native_piece_type,  &native_incoming_type, &native_out_type,   &native_await_type,
        &native_http_type};
    PyObject *m;

    import_array();
    for (size_t i = 0; i < AS_COUNT(types); i++) {
        if (PyType_Ready(types[i]) < 0)
            return NULL;
    }
    native_output_error = PyErr_NewExceptionWithDoc(
        "anyserve._native.OutputError", "A handler returned something that is not a valid answer.",
        NULL, NULL);
    if (!native_output_error || native_array_init() < 0 || native_handler_error_init() < 0 ||
        native_loop_init() < 0 || native_await_init() < 0 || native_http_init() < 0)
        return NULL;
    m = PyModule_Create(&module);
    if (!m || PyModule_AddObjectRef(m, "Link", (PyObject *)&link_type) < 0 ||
        PyModule_AddObjectRef(m, "Request", (PyObject *)&native_request_type) < 0 ||
        PyModule_AddObjectRef(m, "Call", (PyObject *)&native_call_type) < 0 ||
        PyModule_AddObjectRef(m, "Incoming", (PyObject *)&native_incoming_type) < 0 ||
        PyModule_AddObjectRef(m, "Http", (PyObject *)&native_http_type) < 0 ||
        PyModule_AddObjectRef(m, "Out", (PyObject *)&native_out_type) < 0 ||
        PyModule_AddObjectRef(m, "LoopBase", (PyObject *)&native_loop_type) < 0 ||
        PyModule_AddObjectRef(m, "OutputError", native_output_error) < 0) {
        Py_XDECREF(m);
        return NULL;
    }
    return m;
}
