/* core/queue/stat.h — counters and histograms of one deployment.
 *
 * Every accepted request is counted once as completed, failed, expired or cancelled when it ends:
 * accepted == completed + failed + expired + cancelled + waiting. A request whose deadline has
 * passed on arrival counts as accepted and expired, so that `expired` shows every deadline that was
 * too short. The counters are plain numbers written by the loop that owns the deployment; other
 * loops ask for them by message. Durations are counted in buckets of powers of two of microseconds
 * (1 us … 2^26 us, then one for all longer ones).
 */
#ifndef AS_CORE_STAT_H
#define AS_CORE_STAT_H

#include "base/defs.h"

#define AS_HIST_BUCKETS 28u /* bucket i: at most 2^i us; the last one: everything longer */

struct as_hist {
    uint64_t bucket[AS_HIST_BUCKETS];
    uint64_t count;
    uint64_t sum; /* ns */
};

#define AS_STAT_BATCH_BUCKETS 17u /* as_stat.batch: 1 … 65,536 items */

void as_hist_add(struct as_hist *h, as_ns v);

struct as_stat {
    uint64_t accepted;   /* submitted requests that were not refused */
    uint64_t refused;    /* AS_EFULL */
    uint64_t dispatched; /* requests sent to replicas, retries included, hedges not */
    uint64_t completed;  /* answers of workers that were delivered */
    uint64_t failed;     /* answered with an error by the deployment itself; without expired ones */
    uint64_t expired;
    uint64_t cancelled;
    uint64_t shed;     /* by CoDel; part of `failed` */
    uint64_t replayed; /* sent again after a death, a recall, or as_replica_done(retry) */
    uint64_t recalled;
    uint64_t lost;   /* AS_EMAYHAVERUN */
    uint64_t deaths; /* replicas removed, for whatever cause */
    /* lost requests that were not retried: too many attempts, no budget, or waited too long */
    uint64_t replays_refused;
    uint64_t blamed; /* requests that were executing when a worker crashed, hung or was unhealthy */
    uint64_t trials; /* suspects that ran alone in a replica (core/dispatch/faults/quarantine.h) */
    uint64_t quarantined; /* requests refused or answered with AS_EPOISON */
    uint64_t hung; /* requests given up because their handler ran too long; counted by link … */
    uint64_t sick; /* … like this one: failed health checks */
    uint64_t ejected;   /* times that a replica was ejected for failing or being slow */
    uint64_t fallbacks; /* requests refused here and submitted to another deployment instead */
    uint64_t mirrored;  /* mirrored copies that were accepted; part of `accepted` */
    /* mirrored copies that were refused, because no slot was free or for any other cause */
    uint64_t mirror_dropped;
    uint64_t mirror_failed; /* accepted copies that were answered with an error */
    uint64_t model_hits;    /* requests for a multiplexed model sent to a replica that holds it */
    uint64_t model_misses;  /* … and to one that had to load it */
    uint64_t router_late; /* the user's router did not answer in time, so the policy decided … */
    uint64_t router_fallbacks; /* … or it answered that it has no choice */
    /* Hedges (core/dispatch/hedge.h) that were sent. Each ends as one of the next four. */
    uint64_t hedges;
    uint64_t hedges_won;       /* its answer was the client's … */
    uint64_t hedges_lost;      /* … the first execution's was */
    uint64_t hedges_failed;    /* it was lost, handed back, or answered with an error */
    uint64_t hedges_cancelled; /* its client left, or its deadline passed */
    uint64_t hedges_withheld;  /* requests that were due: no replica was free, or no budget left */
    struct as_hist queue;      /* from arrival to the last dispatch */
    struct as_hist total;      /* from arrival to completion */
    struct as_hist service;    /* the handler's time as the worker measured it */
    struct as_hist link;       /* from the last dispatch to completion, less the handler's time */
    uint64_t batches;          /* calls of models with batching, those with one request included */
    /* items of these calls; one item is added as AS_US, so bucket i counts calls of at most 2^i
     * items */
    struct as_hist batch;
};

#endif
