/* The link within an event loop: one wait for both, and tasks that begin within the turn.
 *
 * An event loop that the SDK makes waits in native_link_wait: the link's descriptor is in the
 * loop's epoll set, and a turn of the link is part of the wait, so that a request costs no callback
 * of the loop. A foreign loop (uvloop, another policy) watches the descriptor with add_reader, and
 * calls turn().
 *
 * A task begins within the turn that brings its request. CPython 3.12 has eager tasks for that. In
 * older versions a task asks its loop, by call_soon, to run its first step; a loop of the SDK
 * (LoopBase) captures that step, and it is called at once, in the task's context and as the current
 * task.
 */
#include "calls/opaque.h"

#include <errno.h>
#include <math.h>
#include <sys/epoll.h>

#define STARTS_PER_TURN 256   /* maximum per turn: then other callbacks of the loop run … */
#define TIME_PER_TURN   AS_MS /* … and maximum time in handlers … */
#define STARTS_PER_LOOK 8     /* … which is checked after this many */
#define EVENTS_AT_ONCE  64

/* Objects of asyncio, which only workers with an event loop import. */
static PyObject *asyncio_task, *base_call_soon; /* Task; BaseEventLoop.call_soon */
static PyObject *task_keywords; /* of Task: ("loop", "name"), and "eager_start" if it exists */

static int load_asyncio(void)
{
    PyObject *base = native_import("asyncio", "BaseEventLoop");

    if (base && !asyncio_task) {
        asyncio_task = native_import("asyncio", "Task");
        base_call_soon = PyObject_GetAttrString(base, "call_soon");
        task_keywords = PY_VERSION_HEX >= 0x030c0000
                            ? Py_BuildValue("(sss)", "loop", "name", "eager_start")
                            : Py_BuildValue("(ss)", "loop", "name");
    }
    Py_XDECREF(base);
    return asyncio_task && base_call_soon && task_keywords ? 0 : -1;
}

/* --- the loop's own call_soon --- */

static PyObject *debug_name; /* "_debug" */
/* The captured call: a function, its argument (or NULL), and its context. */
static PyObject *first_step, *first_arg, *first_context;
static bool capture_first_step;

/* Captures only the call of a new task: call_soon(step, context=context), or that of a future whose
 * result is set: call_soon(callback, future, context=context). */
static PyObject *loop_call_soon(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                PyObject *names)
{
    Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *few[8], **v = few, *r;

    if (capture_first_step && all == n + 1 && (n == 1 || n == 2)) {
        capture_first_step = false;
        first_step = Py_NewRef(args[0]);
        first_arg = n == 2 ? Py_NewRef(args[1]) : NULL;
        first_context = Py_NewRef(args[n]);
        Py_RETURN_NONE;
    }
    if (!base_call_soon && load_asyncio())
        return NULL;
    if ((size_t)all + 1 > AS_COUNT(few)) {
        v = PyMem_Malloc(((size_t)all + 1) * sizeof(*v));
        if (!v)
            return PyErr_NoMemory();
    }
    v[0] = self;
    for (Py_ssize_t i = 0; i < all; i++)
        v[i + 1] = args[i];
    r = PyObject_Vectorcall(base_call_soon, v, (size_t)n + 1, names);
    if (v != few)
        PyMem_Free(v);
    return r;
}

/* Every future calls this method; asyncio's own is Python code. */
static PyObject *loop_get_debug(PyObject *self, PyObject *unused AS_UNUSED)
{
    return PyObject_GetAttr(self, debug_name);
}

static PyMethodDef loop_methods[] = {
    {"get_debug", loop_get_debug, METH_NOARGS, "As asyncio's."},
    {"call_soon", (PyCFunction)(void (*)(void))loop_call_soon, METH_FASTCALL | METH_KEYWORDS,
     "As asyncio's, but for the first step of a task that is made within a turn of the link."},
    {0},
};

int native_loop_init(void)
{
    debug_name = PyUnicode_InternFromString("_debug");
    return debug_name ? 0 : -1;
}

PyTypeObject native_loop_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.LoopBase",
    .tp_basicsize = sizeof(PyObject),
    .tp_methods = loop_methods,
    .tp_new = PyType_GenericNew,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The part in C of the event loop that the SDK makes.",
};

/* --- tasks --- */

/* Calls the captured step. False: an exception is set, which ends the worker. */
static bool run_first_step(void)
{
    PyObject *step = first_step, *arg = first_arg, *context = first_context, *r = NULL;

    first_step = first_arg = first_context = NULL;
    if (PyContext_Enter(context) == 0) {
        r = arg ? PyObject_CallOneArg(step, arg) : PyObject_CallNoArgs(step);
        if (PyContext_Exit(context) < 0)
            Py_CLEAR(r);
    }
    Py_DECREF(step);
    Py_XDECREF(arg);
    Py_DECREF(context);
    Py_XDECREF(r);
    return r != NULL;
}

/* The task gets the model's name: to make up a numbered name for each costs a tenth of the whole
 * call. */
PyObject *native_spawn_task(Link *l, PyObject *coro, PyObject *name)
{
    PyObject *args[4] = {coro, l->loop, name, Py_True}, *task;

    /* outside of a turn another task may be the current one */
    if (!l->starts_at_once || !l->in_turn)
        return PyObject_CallOneArg(l->spawn, coro);
    capture_first_step = l->captures_first_step;
    task = PyObject_Vectorcall(asyncio_task, args, 1, task_keywords);
    capture_first_step = false;
    if (!task) {
        Py_CLEAR(first_step);
        Py_CLEAR(first_context);
    } else if (first_step && !run_first_step()) {
        Py_CLEAR(task);
    }
    return task;
}

void native_loop_wake(Link *l, PyObject *future, PyObject *name_set_result)
{
    PyObject *r;

    if (!l->may_step) {
        native_wake_future(future);
        return;
    }
    l->may_step = false;
    capture_first_step = true;
    r = PyObject_CallMethodOneArg(future, name_set_result, Py_None);
    capture_first_step = false;
    if (!r) { /* it was cancelled meanwhile */
        PyErr_Clear();
        native_wake_future(future);
    }
    if (first_step && !run_first_step())
        PyErr_WriteUnraisable(future);
    Py_XDECREF(r);
    l->may_step = true;
}

/* --- turns --- */

/* Starts requests, up to a limit: otherwise a steady stream of them would block timers and other
 * sockets of the loop. */
static int start_requests(Link *l)
{
    as_ns until = 0;
    struct as_worker_req *q;

    for (int i = 0; i < STARTS_PER_TURN; i++) {
        if (i % STARTS_PER_LOOK == 0) {
            as_ns at = native_sync_clock();

            if (until && at >= until)
                break;
            until = until ? until : at + TIME_PER_TURN;
        }
        q = as_worker_next(l->w);
        if (!q)
            return 0;
        if (native_call_start(l, q))
            return -1;
    }
    as_worker_flush(l->w);
    as_worker_wake(l->w); /* there may be more, for the next turn */
    return 0;
}

/* Reports progress of the connection, and its end, to the Python side. */
static int report_link_event(Link *l, int outcome)
{
    PyObject *v, *r;

    if (outcome != AS_EOF && outcome != AS_ECANCELLED && !l->connecting)
        return 0;
    v = native_link_outcome(outcome);
    r = v ? PyObject_CallOneArg(l->on_link_event, v) : NULL;
    Py_XDECREF(v);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

/* Takes a reference to the Call: a thread may answer the request before it is used. */
static void get_call(void *ctx, struct as_worker_req *q)
{
    *(PyObject **)ctx = Py_XNewRef((PyObject *)as_worker_req_data(q));
}

/* has_input: there is something to read, or the loop was woken. */
static int run_turn(Link *l, bool has_input)
{
    PyObject *call;
    unsigned what;
    int outcome = 0, err;

    l->scheduled = false;
    /* answers during a turn schedule no further turn (native_schedule_turn) */
    l->in_turn = true;
    if (has_input)
        outcome = as_worker_poll(l->w);
    err = native_admin_poll(l);
    if (!err)
        err = native_policy_poll(l);
    if (!err && l->has_calls)
        native_link_news(l); /* requests that go on come before new ones */
    if (!err)
        err = start_requests(l);
    native_sync_leave(l);
    while (!err && as_worker_cancelled(l->w, get_call, &call)) {
        native_call_cancel(call);
        Py_XDECREF(call);
    }
    while (!err && as_worker_ready(l->w, &what, get_call, &call)) {
        native_call_stream_ready(call, what);
        Py_XDECREF(call);
    }
    l->in_turn = false;
    return err ? -1 : report_link_event(l, outcome);
}

PyObject *native_link_turn(PyObject *self, PyObject *unused AS_UNUSED)
{
    Link *l = (Link *)(void *)self;

    /* a call that __del__ makes at the end schedules a turn, which comes after the close */
    if (l->w && run_turn(l, true))
        return NULL;
    Py_RETURN_NONE;
}

void native_schedule_turn(Link *l)
{
    PyObject *exc, *r;

    if (l->in_turn || l->scheduled || !l->loop)
        return;
    if (l->epoll_fd >= 0) { /* the next wait begins with a turn */
        l->scheduled = true;
        return;
    }
    /* an exception may be set, and calling into Python with one is not allowed */
    exc = native_save_exception();
    r = PyObject_CallNoArgs(l->schedule);
    l->scheduled = r != NULL;
    if (!r)
        PyErr_WriteUnraisable(l->schedule);
    Py_XDECREF(r);
    native_restore_exception(exc);
}

/* --- the wait --- */

/* Converts asyncio's timeout to milliseconds: None means for ever (-1). Rounded up: rounding down
 * would wait several times for one timer. -2: an exception. */
static int ms_of_timeout(PyObject *timeout)
{
    double s = Py_IsNone(timeout) ? -1 : PyFloat_AsDouble(timeout);

    if (s < 0)
        return PyErr_Occurred() ? -2 : -1;
    return (int)fmin(ceil(s * 1e3), 1e9);
}

/* The events of other descriptors than the link's: [(descriptor, events)]. NULL: an exception. */
static PyObject *other_events(const Link *l, const struct epoll_event *events, int n,
                              bool *ret_ours)
{
    PyObject *list = PyList_New(0);

    for (int i = 0; list && i < n; i++) {
        PyObject *pair;

        if (events[i].data.fd == l->link_fd) {
            *ret_ours = true;
            continue;
        }
        pair = Py_BuildValue("(iI)", events[i].data.fd, (unsigned)events[i].events);
        if (!pair || PyList_Append(list, pair) < 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

/* Waits once, for at most ms. Returns the events of other descriptors; ret_ours: the link has an
 * event. */
static PyObject *wait_once(const Link *l, int ms, bool *ret_ours)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int n;

    *ret_ours = false;
    if (ms == 0) {
        n = epoll_wait(l->epoll_fd, events, EVENTS_AT_ONCE, 0);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        n = epoll_wait(l->epoll_fd, events, EVENTS_AT_ONCE, ms);
        Py_END_ALLOW_THREADS;
    }
    if (n < 0 && errno != EINTR)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (PyErr_CheckSignals())
        return NULL;
    return other_events(l, events, n, ret_ours);
}

static Py_ssize_t count_timers(const Link *l)
{
    return l->timers ? PyObject_Size(l->timers) : 0;
}

/* True: the loop has nothing to do after a turn that began with this many timers. Then the wait
 * goes on, and a request whose handler does not wait costs no iteration of the loop. */
static bool is_idle(const Link *l, Py_ssize_t timers)
{
    PyObject *stopping;
    bool idle;

    if (!l->ready || PyObject_Size(l->ready) != 0 || count_timers(l) != timers)
        return false;
    stopping = PyObject_GetAttrString(l->loop, "_stopping");
    idle = stopping == Py_False;
    Py_XDECREF(stopping);
    return idle;
}

static int ms_until(as_ns until)
{
    as_ns at = native_sync_clock();

    return until <= at ? 0 : (int)((until - at + AS_MS - 1) / AS_MS);
}

PyObject *native_link_wait(PyObject *self, PyObject *timeout)
{
    Link *l = (Link *)(void *)self;
    Py_ssize_t timers = count_timers(l);
    int ms = ms_of_timeout(timeout);
    as_ns until = ms > 0 ? native_sync_clock() + (as_ns)ms * AS_MS : 0;

    if (ms < -1 || (l->scheduled && run_turn(l, false)))
        return NULL;
    if (!is_idle(l, timers))
        ms = 0; /* the loop has something to do: only check for events */
    for (;;) {
        bool ours;
        PyObject *list = wait_once(l, ms, &ours);

        if (!list || !ours)
            return list;
        timers = count_timers(l);
        if (run_turn(l, true)) {
            Py_DECREF(list);
            return NULL;
        }
        if (ms == 0 || PyList_GET_SIZE(list) || !is_idle(l, timers))
            return list;
        Py_DECREF(list);
        if (ms > 0)
            ms = ms_until(until);
    }
}

/* --- set-up --- */

PyObject *native_link_use_loop(PyObject *self, PyObject *args)
{
    Link *l = (Link *)(void *)self;
    PyObject *loop, *spawn, *schedule, *drive, *on_link_event, *run_in_thread;
    int eager;

    if (!PyArg_ParseTuple(args, "OOpOOOO:use_loop", &loop, &spawn, &eager, &schedule, &drive,
                          &on_link_event, &run_in_thread))
        return NULL;
    Py_XSETREF(l->loop, Py_NewRef(loop));
    Py_XSETREF(l->spawn, Py_NewRef(spawn));
    Py_XSETREF(l->schedule, Py_NewRef(schedule));
    Py_XSETREF(l->drive, Py_NewRef(drive));
    Py_XSETREF(l->on_link_event, Py_NewRef(on_link_event));
    Py_XSETREF(l->run_in_thread, Py_IsNone(run_in_thread) ? NULL : Py_NewRef(run_in_thread));
    Py_XSETREF(l->ready, PyObject_GetAttrString(loop, "_ready"));
    Py_XSETREF(l->timers, PyObject_GetAttrString(loop, "_scheduled"));
    if (!l->ready || !l->timers) { /* a foreign loop */
        PyErr_Clear();
        Py_CLEAR(l->ready);
        Py_CLEAR(l->timers);
    }
    l->link_fd = as_worker_fd(l->w);
    l->loop_thread = PyThread_get_thread_ident();
    l->steps_at_once = PyObject_TypeCheck(loop, &native_loop_type) && eager;
    l->captures_first_step =
        PY_VERSION_HEX < 0x030c0000 && PyObject_TypeCheck(loop, &native_loop_type);
    l->starts_at_once = eager && (l->captures_first_step || PY_VERSION_HEX >= 0x030c0000);
    if (load_asyncio() || native_sync_init(l))
        return NULL;
    return PyLong_FromLong(l->link_fd);
}

PyObject *native_link_wait_with(PyObject *self, PyObject *arg)
{
    Link *l = (Link *)(void *)self;
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = l->link_fd};
    long fd = PyLong_AsLong(arg);

    if (fd == -1 && PyErr_Occurred())
        return NULL;
    if (fd < 0) {
        (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, l->link_fd, NULL);
        l->epoll_fd = -1;
        Py_RETURN_NONE;
    }
    if (epoll_ctl((int)fd, EPOLL_CTL_ADD, l->link_fd, &ev) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    l->epoll_fd = (int)fd;
    Py_RETURN_NONE;
}
