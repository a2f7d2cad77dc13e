/* Methods of Link that open calls, and what they need of its thread. A driver's link has no event
 * loop: a thread of Python runs it, and waits without the lock of the interpreter.
 */
#include "opaque.h"

#define NEWS_PER_TURN 256   /* maximum per turn: then other callbacks of the loop run … */
#define TIME_PER_TURN AS_MS /* … and maximum time in coroutines that go on … */
#define NEWS_PER_LOOK 8     /* … which is checked after this many */

bool native_link_is_here(const Link *l)
{
    return l->loop && PyThread_get_thread_ident() == l->loop_thread;
}

void native_link_send(Link *l, bool answered)
{
    if (!l->w)
        return;
    if (native_link_is_here(l)) {
        native_schedule_turn(l);
    } else if (answered) {
        as_worker_flush(l->w);
        if (l->loop)
            as_worker_wake(l->w); /* a slot is free: the loop may start the next request */
    }
}

void native_link_news(Link *l)
{
    as_ns until = 0;

    for (int i = 0; l->w; i++) {
        struct as_worker_out *o;
        Out *x;

        if (i % NEWS_PER_LOOK == 0) {
            as_ns at = native_sync_clock();

            if (i >= NEWS_PER_TURN || (until && at >= until)) {
                as_worker_wake(l->w); /* there may be more, for the next turn */
                return;
            }
            until = until ? until : at + TIME_PER_TURN;
        }
        o = as_worker_next_news(l->w);
        if (!o)
            return;
        x = as_worker_out_data(o);
        Py_INCREF(x);
        l->may_step = l->in_turn && l->steps_at_once;
        native_out_news(x);
        l->may_step = false;
        Py_DECREF(x);
    }
}

PyObject *native_link_target(PyObject *self, PyObject *args)
{
    Link *l = (Link *)(void *)self;
    const char *application, *deployment;
    PyObject *key;
    uint32_t number;
    int err;

    if (!PyArg_ParseTuple(args, "ss:target", &application, &deployment))
        return NULL;
    err = as_worker_target(l->w, application, deployment, &number);
    if (err) {
        PyErr_Format(PyExc_ValueError, "%s of application %s: %s", deployment, application,
                     err == AS_EFULL ? "too many deployments were called" : as_err_text(err));
        return NULL;
    }
    if (!l->targets)
        l->targets = PyDict_New();
    key = PyLong_FromUnsignedLong(number);
    if (!l->targets || !key || PyDict_SetItem(l->targets, key, args) < 0)
        Py_CLEAR(key);
    return key;
}

PyObject *native_link_report(PyObject *self, PyObject *args)
{
    Link *l = (Link *)(void *)self;
    struct as_str text;
    unsigned kind;
    Py_ssize_t n;
    int err;

    if (!PyArg_ParseTuple(args, "Is#:report", &kind, &text.p, &n))
        return NULL;
    text.n = (size_t)n;
    err = as_worker_report(l->w, (enum as_worker_report)kind, text);
    if (err == AS_ENOMEM)
        return PyErr_NoMemory();
    if (err) {
        PyErr_Format(PyExc_ValueError, "report %u of %zd bytes: %s", kind, n, as_err_text(err));
        return NULL;
    }
    Py_RETURN_NONE;
}

/* --- a driver --- */

PyObject *native_link_driver(PyObject *type, PyObject *args)
{
    struct as_worker_conf conf = {.size = sizeof(conf), .flags = AS_WORKER_DRIVER};
    Link *l;

    if (!PyArg_ParseTuple(args, "zzzIs:driver", &conf.path, &conf.token, &conf.runtime_dir,
                          &conf.port, &conf.peer))
        return NULL;
    l = (Link *)(void *)((PyTypeObject *)(void *)type)->tp_alloc((PyTypeObject *)(void *)type, 0);
    if (!l)
        return NULL;
    l->epoll_fd = -1;
    l->is_driver = l->has_calls = true;
    if (as_worker_new(&l->w, &conf)) {
        PyErr_SetString(PyExc_OSError, "cannot make the driver's descriptors or its thread");
        Py_CLEAR(l);
    }
    return (PyObject *)l;
}

PyObject *native_link_run_calls(PyObject *self, PyObject *unused AS_UNUSED)
{
    Link *l = (Link *)(void *)self;

    while (!l->stop_calls) {
        int r;

        native_link_news(l);
        Py_BEGIN_ALLOW_THREADS;
        r = as_worker_wait(l->w);
        Py_END_ALLOW_THREADS;
        if (r)
            return native_link_outcome(r);
    }
    Py_RETURN_NONE;
}

PyObject *native_link_stop_calls(PyObject *self, PyObject *unused AS_UNUSED)
{
    Link *l = (Link *)(void *)self;

    l->stop_calls = true;
    if (!l->forked)
        as_worker_wake(l->w);
    Py_RETURN_NONE;
}
