/* Handlers that are not async, in a worker with an event loop: on the loop's thread while they are
 * short, in a thread beside it otherwise. They run one at a time, wherever that is.
 *
 *              QUICK calls in a row took less than SHORT
 *   BESIDE ────────────────────────────────────────────────► HERE
 *      ▲                                                       │ one took longer: it has to show
 *      ├───────────────────────────────────────────────────────┤ twice as often that it is short,
 *      │                                                       │ at most RARE times
 *   NEVER HERE ◄───────────────────────────────────────────────┘ one held the loop up for LONG
 *
 * One that comes after RARE short ones is as good as new: else each handler would lose its place in
 * the end, by a collection of garbage here and a page that has to be fetched there. A call that
 * took long because something else had the CPU does not count: it neither slept nor computed. Where
 * it may have been either, for LONG, RARE short ones are asked for. While a handler runs on the
 * loop's thread the loop is not the running one and context variables are not those of tasks, as in
 * any other thread, and the status page says that the runner cannot leave.
 */
#include "native.h"

#include <sys/resource.h>
#include <time.h>

#define SHORT_CALL  (100 * AS_US)
#define LONG_CALL   (10 * AS_MS)
#define SHORT_CALLS 16u
#define RARE_CALLS  1024u /* one in so many that takes longer does not show in a neighbour's p99 */
#define NEVER       UINT32_MAX

static PyObject *set_running_loop; /* asyncio._set_running_loop */

int native_sync_init(Link *l)
{
    PyObject *m;

    if (!l->run_in_thread)
        return 0;
    m = PyImport_ImportModule("asyncio");
    if (m && !set_running_loop)
        set_running_loop = PyObject_GetAttrString(m, "_set_running_loop");
    Py_XDECREF(m);
    Py_XSETREF(l->context, PyContext_CopyCurrent());
    return set_running_loop && l->context ? 0 : -1;
}

void native_sync_init_model(struct model *m)
{
    /* A generator waits for its client to read, and a stream for it to write. */
    m->short_calls_needed = m->decoupled || m->streams_inputs ? NEVER : SHORT_CALLS;
}

bool native_sync_in_thread(const Link *l, const struct model *m)
{
    return l->run_in_thread && !m->is_async &&
           (l->n_in_thread || m->short_calls < m->short_calls_needed);
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
    ret_u->voluntary = r.ru_nvcsw;
    ret_u->involuntary = r.ru_nivcsw;
}

void native_sync_enter(Link *l)
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

void native_sync_leave(Link *l)
{
    PyObject *exc;

    if (!l->in_sync)
        return;
    l->in_sync = false;
    as_worker_busy(l->w, false);
    exc =
        PyErr_Occurred() ? native_fetch_exception() : NULL; /* a handler's, which ends the worker */
    if (PyContext_Exit(l->context) < 0)
        PyErr_Clear();
    set_loop(l->loop);
    if (exc) {
        PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
        Py_DECREF(exc);
    }
}

/* --- how long they take --- */

enum whose { OTHERS, PERHAPS, OWN };

/* Whose was the time, since the last look? */
static enum whose whose(Link *l, as_ns took)
{
    struct usage u, was = l->before;

    usage(&u);
    l->before = u;
    if (u.cpu - was.cpu >= took / 2)
        return OWN;
    if (u.voluntary == was.voluntary)
        return OTHERS;
    return u.involuntary == was.involuntary ? OWN : PERHAPS;
}

void native_sync_record(Link *l, struct model *m, as_ns took, bool here)
{
    bool is_rare = m->short_calls >= RARE_CALLS;
    enum whose w;

    if (took < SHORT_CALL) {
        m->short_calls += !is_rare;
        return;
    }
    w = here ? whose(l, took) : OWN;
    if (w == OTHERS)
        return;
    m->short_calls = 0;
    if (!here)
        return;
    if (took >= LONG_CALL)
        m->short_calls_needed = w == OWN ? NEVER : RARE_CALLS;
    else
        m->short_calls_needed =
            is_rare ? SHORT_CALLS : AS_MIN(2 * m->short_calls_needed, RARE_CALLS);
}

as_ns native_sync_clock(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (as_ns)ts.tv_sec * AS_SEC + (as_ns)ts.tv_nsec;
}
