/* core/protect/outlier.h — which replica is worse than its peers, and whether it may be taken out.
 *
 * A replica is judged beside the others of its deployment only: a client that sends nonsense makes
 * all of them fail, and no router helps against that. It is an outlier when it fails again and
 * again while most of its peers do not, or when its median service time is several times theirs. At
 * most a share of the replicas is out, one in any case, and never the last that serves. Pure.
 * Thread: the caller's.
 */
#ifndef AS_CORE_OUTLIER_H
#define AS_CORE_OUTLIER_H

#include "base/defs.h"

/* A running median: each sample moves it a step up or down, and the steps grow while they go the
 * same way. It costs two words and is not moved by rare long ones, as an average would be. */
struct as_median {
    as_ns value; /* 0: no sample so far */
    as_ns step;
    uint32_t n; /* samples; begins again after 2^32 */
    bool up;
};

void as_median_add(struct as_median *m, as_ns sample);

struct as_outlier_conf {
    uint32_t factor;  /* times its peers' median; 0: slowness is no reason */
    as_ns least;      /* nor is a time below this */
    uint32_t percent; /* of the replicas may be out at once */
};

/* Samples until a median is believed. */
#define AS_OUTLIER_SAMPLES 16u

/* May one more be taken out, of n that could serve with `out` out already? */
bool as_outlier_may_eject(const struct as_outlier_conf *conf, uint32_t n, uint32_t out);
/* own against the medians of n peers, which are sorted on the way. */
bool as_outlier_is_slow(const struct as_outlier_conf *conf, as_ns own, as_ns *peers, uint32_t n);
/* It has `streak` failures in a row; most of its n peers have fewer than half of that. */
bool as_outlier_is_failing(uint32_t streak, const uint32_t *peers, uint32_t n);

#endif
