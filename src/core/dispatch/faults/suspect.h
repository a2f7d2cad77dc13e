/* core/dispatch/faults/suspect.h — which requests are suspects (core/protect/blame.h). Internal to
 * a deployment.
 *
 * Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_SUSPECT_H
#define AS_CORE_SUSPECT_H

#include "core/protect/blame.h"
#include "core/queue/request.h"

/* A request that was executing in a worker that died. */
struct as_evidence {
    /* PARKED or RETAINED; NULL: its fingerprint is complete, and it has left */
    struct as_request *q;
    struct as_fingerprint fingerprint;
    as_ns ran; /* for how long it had been at that worker */
};

/* Compares q with the requests that may have ended workers. AS_EPOISON: it is to be refused; else
 * 0, and q->blame is set if it is a suspect. If its body is too large to be compared in this turn,
 * it is a suspect until that is done (q->unverified). */
int as_suspect_check(struct as_deployment *d, struct as_request *q, as_ns now);
/* Compares the unverified suspects, as far as this turn allows. True: none is left. */
bool as_suspect_verify(struct as_deployment *d, as_ns now);
/* Makes q (in no list) a suspect without a death that counts; no effect if the table is full. */
void as_suspect_add(struct as_deployment *d, struct as_request *q, const struct as_fingerprint *p,
                    as_ns now);
/* q (in no list) is no suspect any more: it ends, or a request like it ended well. */
void as_suspect_remove(struct as_deployment *d, struct as_request *q);
/* Blames the requests that were executing in a worker that crashed or was unhealthy. Those that are
 * PARKED become suspects, and all waiting requests are compared again. alone: the only evidence ran
 * alone there, as a suspect. as_replica_requeue must follow. */
void as_suspect_blame(struct as_deployment *d, struct as_evidence *evidence, uint32_t n, bool alone,
                      as_ns now);

#endif
