/* core/protect/retry.h — may a request that was lost with its worker be sent to another one?
 *
 * This is the only table of retries. Its input is how far the request was, why the worker was lost,
 * and whether the request may run twice (idempotent). A QUEUED request is not lost with a worker.
 * Pure. Thread: the caller's.
 *
 *                       not started     started, may     started, must    answer begun, or
 *                                       run twice        not run twice    more input sent
 *   killed from outside retry           retry            may have run     may have run
 *   crashed             retry           alone            may have run     may have run
 *   unknown             retry           counted          may have run     may have run
 *   ended by us: hung   retry           alone            may have run     may have run
 *     or unhealthy
 *   link broken         (all started)   in the budget    may have run     may have run
 *   not known yet       retry           when known       may have run     may have run
 *
 * retry: limited by the request's deadline only. counted: at most `attempts` executions. in the
 * budget: counted, and only while the deployment has few retries under way, because a worker that
 * breaks the protocol must not multiply its load. alone: counted, and in a replica of its own,
 * where it can harm no other request (core/protect/blame.h). when known: it waits for the cause
 * (core/dispatch/faults/pending_verdict.h). may have run: the client gets AS_EMAYHAVERUN.
 *
 * When we end a worker, only the requests that were executing when the problem was found are
 * suspects. Requests that started later are treated as if the worker had been killed from outside.
 */
#ifndef AS_CORE_RETRY_H
#define AS_CORE_RETRY_H

#include "base/defs.h"
#include "core/replicas/restart.h"

/* Why the requests of a replica were lost: the rows of the table. */
enum as_loss {
    AS_LOSS_KILLED,  /* by a signal from outside, or it was asked to end: no request caused it */
    AS_LOSS_CRASHED, /* it exited by itself, by SEGV, BUS, ABRT, ILL or FPE, or provably ran out of
                        memory */
    AS_LOSS_UNKNOWN, /* dead, and the cause will not be known: not our process, or reported too late
                      */
    AS_LOSS_LINK,    /* the link broke; the worker may live, and everything may have started */
    AS_LOSS_PENDING, /* dead; the supervisor will report the cause */
    AS_LOSS_UNHEALTHY, /* dead; we ended it because it hung or was unhealthy */
    AS_LOSSES
};

enum as_progress {
    AS_PROGRESS_SENT, /* its worker had not started it */
    AS_PROGRESS_STARTED,
    AS_PROGRESS_BOUND /* as_request.bound: another execution would differ from this one */
};

enum as_retry {
    AS_RETRY_NEVER,
    AS_RETRY_UNCOUNTED,
    AS_RETRY_COUNTED,
    AS_RETRY_BUDGET,
    AS_RETRY_ALONE,
    AS_RETRY_PENDING
};

struct as_retry_conf {
    uint32_t attempts; /* executions of one request, except those that a kill from outside ended */
    uint32_t percent;  /* the budget, as a part of the requests in the deployment … */
    uint32_t least;    /* … but at least this many */
};

enum as_retry as_retry_rule(enum as_loss loss, enum as_progress progress, bool idempotent);

/* How many retries may be under way at once while the deployment has this many requests. */
uint32_t as_retry_budget(const struct as_retry_conf *conf, uint64_t requests);

/* The loss for an as_exit_kind; any other number: AS_LOSS_UNKNOWN. */
enum as_loss as_loss_from_exit(uint32_t kind);

#endif
