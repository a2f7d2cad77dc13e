/* core/dispatch/faults/pending_verdict.h — the requests of a worker that died, until the cause of
 * the death is known. Internal to a deployment. Thread: the loop that owns the deployment.
 *
 *            crash reported,             all done,
 *            or time is over           cause unknown
 *   WAITING ────────────────► FINGER- ───────────────► FINGERPRINTED
 *      │                      PRINTING                       │
 *      │ other cause             │ other cause, or           │ cause reported,
 *      │ reported                │ done after a crash        │ or too many
 *      └─────────────────────────┴──────────► freed ◄────────┘
 *
 * A worker that is known to have crashed or to be unhealthy starts with FINGERPRINTING. Bodies are
 * read only in that state, so a kill from outside that is reported in time costs nothing.
 */
#ifndef AS_CORE_PENDING_VERDICT_H
#define AS_CORE_PENDING_VERDICT_H

#include "core/dispatch/faults/suspect.h"
#include "core/protect/retry.h"

struct as_deployment;

enum as_pending_verdict_state {
    AS_PENDING_VERDICT_WAITING,
    AS_PENDING_VERDICT_FINGERPRINTING,
    AS_PENDING_VERDICT_FINGERPRINTED
};

struct as_pending_verdict {
    struct as_list node;
    uint64_t number;
    enum as_pending_verdict_state state;
    /* FINGERPRINTING: the cause by which parked requests go on; UNKNOWN: time is over */
    enum as_loss loss;
    as_ns until; /* WAITING: when it ends; else AS_NEVER */
    struct as_list parked, retained;
    struct as_blame_entry *in_quarantine; /* requests like this wait for the result; NULL: none */
    bool alone;                           /* the only evidence ran alone in that worker */
    uint32_t n_evidence, n_fingerprinted;
    struct as_evidence evidence[];
};

/* Allocates a pending verdict for the death of r. The requests that r executed, up to stream
 * `suspect_to`, are its evidence. quarantined: as returned by as_quarantine_abort. */
struct as_pending_verdict *as_pending_verdict_new(struct as_replica *r, uint64_t suspect_to,
                                                  struct as_blame_entry *quarantined, as_ns now);
/* Is q evidence in pv? pv may be NULL. */
bool as_pending_verdict_has_evidence(struct as_pending_verdict *pv, const struct as_request *q);
/* q (SENT, detached) waits for the verdict: it becomes PARKED. */
void as_pending_verdict_park(struct as_deployment *d, struct as_pending_verdict *pv,
                             struct as_request *q, as_ns now);
/* q (SENT, ABANDONED or PARKED, detached, in no list) has ended. If it is evidence it becomes
 * RETAINED, else it is released. */
void as_pending_verdict_retain(struct as_deployment *d, struct as_pending_verdict *pv,
                               struct as_request *q);
/* To be called when pv has all requests of r: sets its deadline, or puts into `back` the requests
 * that can go on now. Returns the number of pv, or 0 if pv was freed. */
uint64_t as_pending_verdict_start(struct as_deployment *d, struct as_pending_verdict *pv,
                                  enum as_loss loss, struct as_list back[AS_PRIORITIES], as_ns now);
/* q (PARKED) ends before the verdict. If its client waits, it has been answered. */
void as_pending_verdict_remove(struct as_deployment *d, struct as_request *q);
/* Computes fingerprints and releases requests that are not needed any more, as far as this turn
 * allows. True: nothing is left to do. */
bool as_pending_verdict_work(struct as_deployment *d, as_ns now);
void as_pending_verdict_expire(struct as_deployment *d, as_ns now);
as_ns as_pending_verdict_next_due(const struct as_deployment *d);
/* Does some pending verdict need a request of this model? */
bool as_pending_verdict_holds_model(const struct as_deployment *d, uint32_t model);
/* Drops the evidence of a model of which none is needed. */
void as_pending_verdict_forget_model(struct as_deployment *d, uint32_t model);
/* Answers all parked requests with err. */
void as_pending_verdict_fail_all(struct as_deployment *d, int err);
bool as_pending_verdict_ok(const struct as_deployment *d);

#endif
