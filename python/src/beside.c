/* Handlers that are not async, in a worker with an event loop: on the loop's thread while they are
 * short, in a thread beside it otherwise. They run one at a time, wherever that is.
 *
 *              QUICK calls in a row took less than SHORT
 *   BESIDE ────────────────────────────────────────────────► HERE
 *      ▲                                                       │
 *      └───────────────────────────────────────────────────────┤ one took longer than that: it has
 *                                                              │ to show twice as often that it is
 *   NEVER HERE ◄───────────────────────────────────────────────┘ short; one held the loop up for
 *                                                                LONG: it never runs there again
 *
 * A call that took long because something else had the CPU does not count: it neither slept nor
 * computed. While a handler runs on the loop's thread the loop is not the running one and context
 * variables are not those of tasks, as in any other thread, and the status page says that the
 * runner cannot leave.
 */
#include "native.h"

#include <sys/resource.h>
#include <time.h>

#define SHORT (100 * AS_US)
#define LONG  (10 * AS_MS)
#define QUICK 16u
#define NEVER UINT32_MAX

static PyObject *set_running_loop; /* asyncio._set_running_loop */

int native_beside_init(Link *l)
{
    PyObject *m;

    if (!l->beside)
        return 0;
    m = PyImport_ImportModule("asyncio");
    if (m && !set_running_loop)
        set_running_loop = PyObject_GetAttrString(m, "_set_running_loop");
    Py_XDECREF(m);
    Py_XSETREF(l->context, PyContext_CopyCurrent());
    return set_running_loop && l->context ? 0 : -1;
}

void native_beside_model(struct model *m)
{
    /* A generator waits for its client to read, and a stream for it to write. */
    m->quick_needed = m->decoupled || m->streams_inputs ? NEVER : QUICK;
}

bool native_beside_is(const Link *l, const struct model *m)
{
    return l->beside && !m->is_async && (l->n_beside || m->quick < m->quick_needed);
}

/* --- on the loop's thread --- */

static void set_loop(PyObject *loop)
{
    PyObject *r = PyObject_CallOneArg(set_running_loop, loop);

    if (!r)
        PyErr_Clear(); /* it takes anything */
    Py_XDECREF(r);
}

/* What this thread has done by itself: time on a CPU, and waits. */
static void usage(struct usage *ret_u)
{
    struct rusage r;

    *ret_u = (struct usage){0};
    if (getrusage(RUSAGE_THREAD, &r) < 0)
        return;
    ret_u->cpu = ((as_ns)r.ru_utime.tv_sec + (as_ns)r.ru_stime.tv_sec) * AS_SEC +
                 ((as_ns)r.ru_utime.tv_usec + (as_ns)r.ru_stime.tv_usec) * AS_US;
    ret_u->waits = r.ru_nvcsw;
}

void native_beside_enter(Link *l)
{
    if (l->in_sync)
        return;
    l->in_sync = true;
    usage(&l->before);
    as_worker_busy(l->w, true);
    set_loop(Py_None);
    if (PyContext_Enter(l->context) < 0)
        PyErr_Clear(); /* it is entered here only */
}

void native_beside_leave(Link *l)
{
    PyObject *exc;

    if (!l->in_sync)
        return;
    l->in_sync = false;
    as_worker_busy(l->w, false);
    exc = PyErr_Occurred() ? native_raised() : NULL; /* a handler's, which ends the worker */
    if (PyContext_Exit(l->context) < 0)
        PyErr_Clear();
    set_loop(l->loop);
    if (exc) {
        PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
        Py_DECREF(exc);
    }
}

/* --- how long they take --- */

/* Was it the handler that took the time, since the last look? */
static bool is_own(Link *l, as_ns took)
{
    struct usage u, *b = &l->before;
    bool own;

    usage(&u);
    own = u.waits != b->waits || u.cpu - b->cpu >= took / 2;
    *b = u;
    return own;
}

void native_beside_learn(Link *l, struct model *m, as_ns took, bool here)
{
    if (took < SHORT) {
        m->quick += m->quick < m->quick_needed;
        return;
    }
    if (!here) {
        m->quick = 0;
        return;
    }
    if (!is_own(l, took))
        return;
    m->quick = 0;
    m->quick_needed = took >= LONG ? NEVER : AS_MIN(2 * m->quick_needed, NEVER / 4);
}

as_ns native_beside_clock(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (as_ns)ts.tv_sec * AS_SEC + (as_ns)ts.tv_nsec;
}
