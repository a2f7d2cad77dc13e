/* Sync handlers in a worker with an event loop: they run on the loop's thread while their calls are
 * short, and in another thread otherwise. In either case one at a time.
 *
 *             MIN_SHORT_CALLS calls in a row took less than SHORT_TIME
 *   IN THREAD ──────────────────────────────────────────────────────► ON THE LOOP'S THREAD
 *      ▲                                                                │ a call took longer: the
 *      ├────────────────────────────────────────────────────────────────┤ needed number of short
 *      │                                                                │ calls doubles, at most
 *      │                                                                │ to MAX_SHORT_CALLS
 *   ALWAYS IN THREAD ◄──────────────────────────────────────────────────┘ a call took LONG_TIME
 *
 * A handler that exceeds SHORT_TIME after MAX_SHORT_CALLS short calls starts again with
 * MIN_SHORT_CALLS. Otherwise every handler would end up in a thread, by a garbage collection here
 * and a page fault there. A call that took long because something else had the CPU (the thread
 * neither slept nor computed) does not count. If a call of LONG_TIME may have been either,
 * MAX_SHORT_CALLS short calls are needed. While a handler runs on the loop's thread, the loop is
 * not the running loop, context variables are not those of a task, as in any other thread, and the
 * status page says that the worker's thread is busy.
 */
#include "native.h"

#include <sys/resource.h>
#include <time.h>

#define SHORT_TIME      (100 * AS_US)
#define LONG_TIME       (10 * AS_MS)
#define MIN_SHORT_CALLS 16u
#define MAX_SHORT_CALLS 1024u /* one longer call in so many does not show in others' p99 */
#define NEVER           UINT32_MAX

static PyObject *set_running_loop; /* asyncio._set_running_loop */

int native_sync_init(Link *l)
{
    if (!l->run_in_thread)
        return 0;
    if (!set_running_loop)
        set_running_loop = native_import("asyncio", "_set_running_loop");
    Py_XSETREF(l->context, PyContext_CopyCurrent());
    return set_running_loop && l->context ? 0 : -1;
}

void native_sync_init_model(struct model *m)
{
    /* A generator waits for its client to read, and a stream for its client to write. */
    m->short_calls_needed = m->decoupled || m->streams_inputs ? NEVER : MIN_SHORT_CALLS;
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
        PyErr_Clear(); /* the function accepts any value */
    Py_XDECREF(r);
}

/* The CPU time and the context switches of this thread. */
static void get_usage(struct usage *ret_u)
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
    get_usage(&l->before);
    as_worker_busy(l->w, true);
    set_loop(Py_None);
    if (PyContext_Enter(l->context) < 0)
        PyErr_Clear(); /* it cannot be entered already: only this code does so */
}

void native_sync_leave(Link *l)
{
    PyObject *exc;

    if (!l->in_sync)
        return;
    l->in_sync = false;
    as_worker_busy(l->w, false);
    exc = native_save_exception(); /* set by a handler; it ends the worker */
    if (PyContext_Exit(l->context) < 0)
        PyErr_Clear();
    set_loop(l->loop);
    native_restore_exception(exc);
}

/* --- how long they take --- */

enum whose { OTHERS, PERHAPS, OWN };

/* Who used the time since the last check: the handler, or other threads and processes. */
static enum whose whose_time(Link *l, as_ns took)
{
    struct usage u, was = l->before;

    get_usage(&u);
    l->before = u;
    if (u.cpu - was.cpu >= took / 2)
        return OWN;
    if (u.voluntary == was.voluntary)
        return OTHERS;
    return u.involuntary == was.involuntary ? OWN : PERHAPS;
}

void native_sync_record(Link *l, struct model *m, as_ns took, bool here)
{
    bool is_rare = m->short_calls >= MAX_SHORT_CALLS;
    enum whose w;

    if (took < SHORT_TIME) {
        m->short_calls += !is_rare;
        return;
    }
    w = here ? whose_time(l, took) : OWN;
    if (w == OTHERS)
        return;
    m->short_calls = 0;
    if (!here)
        return;
    if (took >= LONG_TIME)
        m->short_calls_needed = w == OWN ? NEVER : MAX_SHORT_CALLS;
    else
        m->short_calls_needed =
            is_rare ? MIN_SHORT_CALLS : AS_MIN(2 * m->short_calls_needed, MAX_SHORT_CALLS);
}

as_ns native_sync_clock(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (as_ns)ts.tv_sec * AS_SEC + (as_ns)ts.tv_nsec;
}
