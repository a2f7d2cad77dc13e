/* core/protect/retry.h — may a request that was lost with its worker go to another one?
 *
 * The one table of retries: how far the request was, why the worker went, whether the request may
 * run twice. A request that is queued is not lost: nothing happens to it. Pure. Thread: the
 * caller's.
 *
 *                       never started   started, may     started, must    answer begun, or
 *                                       run twice        not run twice    worker has read on
 *   killed from outside replay          replay           may have run     may have run
 *   by its own making   replay          alone            may have run     may have run
 *   nobody knows        replay          counted          may have run     may have run
 *   we ended it: hung,  replay          alone            may have run     may have run
 *     or not well
 *   link broken         (all started)   in the budget    may have run     may have run
 *   not told yet        replay          when told        may have run     may have run
 *
 * replay: bounded by the request's deadline only. counted: at most `attempts` executions. in the
 * budget: counted, and only while few replays of the deployment are under way, or a worker that
 * breaks its rules would multiply its load. alone: counted, and with no neighbour that it could
 * take along (core/protect/blame.h). may have run: AS_EMAYHAVERUN.
 *
 * Of a worker that we ended only those are suspect that were executing when it was found out: what
 * started later is lost as if it had been killed from outside.
 */
#ifndef AS_CORE_RETRY_H
#define AS_CORE_RETRY_H

#include "base/defs.h"
#include "core/replicas/restart.h"

/* Why a replica's requests were lost. Rows of the table. */
enum as_loss {
    AS_LOSS_KILLED,    /* a signal from outside, or it was asked to go: no request did it */
    AS_LOSS_CRASHED,   /* its own making: ended by itself, by SEGV, BUS, ABRT, ILL, FPE, or for want
                          of memory, which was proved */
    AS_LOSS_UNKNOWN,   /* dead, and nobody will say why: not a process of ours, or told too late */
    AS_LOSS_LINK,      /* it lives, or lies: everything may have started */
    AS_LOSS_PENDING,   /* dead; whoever started it will say why */
    AS_LOSS_UNHEALTHY, /* dead; we ended it, since it hung or was not well */
    AS_LOSSES
};

enum as_progress {
    AS_PROGRESS_SENT, /* its worker had not started it */
    AS_PROGRESS_STARTED,
    AS_PROGRESS_BOUND /* another execution would be no repetition */
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
    uint32_t attempts; /* executions of one request, but for those that an outside kill ended */
    uint32_t percent;  /* the budget: of the requests in the deployment … */
    uint32_t least;    /* … and so many in any case */
};

enum as_retry as_retry_rule(enum as_loss loss, enum as_progress progress, bool idempotent);

/* Replays that may be under way at once, of so many requests. */
uint32_t as_retry_budget(const struct as_retry_conf *conf, uint64_t requests);

/* From how the process ended, an as_exit_kind; any other number: AS_LOSS_UNKNOWN. */
enum as_loss as_loss_from_exit(uint32_t kind);

#endif
