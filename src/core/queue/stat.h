/* core/queue/stat.h — counters and histograms of one deployment.
 *
 * Every accepted request is counted once as completed, failed, expired or cancelled; what is not
 * yet counted waits: accepted == completed + failed + expired + cancelled + waiting.
 * One whose deadline has passed on arrival counts as accepted and expired: whoever looks for
 * deadlines that are too short finds all of them in one number.
 * Plain numbers written by the owning loop; another loop that shows them asks by message.
 * Durations are in buckets of powers of two of microseconds (1 us … 2^26 us, then more).
 */
#ifndef AS_CORE_STAT_H
#define AS_CORE_STAT_H

#include "base/defs.h"

#define AS_HIST_BUCKETS 28u /* bucket i: <= 2^i us; the last: everything longer */

struct as_hist {
    uint64_t bucket[AS_HIST_BUCKETS];
    uint64_t count;
    uint64_t sum; /* ns */
};

#define AS_STAT_BATCH_BUCKETS 17u /* as_stat.batch: 1 … 65,536 items are all there can be */

void as_hist_add(struct as_hist *h, as_ns v);

struct as_stat {
    uint64_t accepted;   /* submits that were not refused for want of room or workers */
    uint64_t refused;    /* AS_EFULL */
    uint64_t dispatched; /* sends, replays included */
    uint64_t completed;  /* worker's answers delivered */
    uint64_t failed;     /* answered with an error by core (expired not counted) */
    uint64_t expired;
    uint64_t cancelled;
    uint64_t replayed; /* sent again after a death, a return or a retry */
    uint64_t recalled;
    uint64_t lost;   /* AS_EMAYHAVERUN */
    uint64_t deaths; /* replicas gone */
    uint64_t
        replays_refused; /* lost that might have been replayed: too often, or over the budget */
    uint64_t
        blamed; /* requests that were executing when a worker ended itself, hung or was not well */
    uint64_t trials;      /* suspects that were given a replica for themselves */
    uint64_t quarantined; /* AS_EPOISON, refused or answered */
    uint64_t hung;        /* requests given up as their handler ran too long; counted by link … */
    uint64_t sick;        /* … as are failed health checks */
    uint64_t ejected;     /* times that a replica was taken out for failing or being slow */
    uint64_t fallbacks;   /* refused here and given to another deployment instead */
    uint64_t mirrored;    /* copies that were accepted, as part of `accepted` */
    uint64_t
        mirror_dropped;     /* copies that were refused, for want of a free slot or for any cause */
    uint64_t mirror_failed; /* accepted ones that were answered by an error */
    struct as_hist queue;   /* arrival to (last) dispatch */
    struct as_hist total;   /* arrival to completion */
    struct as_hist service; /* handler time as the worker measured it */
    struct as_hist link;    /* (last) dispatch to completion, less the handler time */
    uint64_t batches;       /* calls of models with batching; those of one request too */
    struct as_hist batch;   /* their items; one item counts as AS_US, so bucket i is <= 2^i */
};

#endif
