/* core/protect/outlier.h — which replica is worse than its peers, and whether it may be ejected.
 *
 * A replica is compared with the other replicas of its deployment only: a client that sends bad
 * requests makes all of them fail, and sending those elsewhere does not help. A replica is an
 * outlier when it fails again and again while most of its peers do not, or when more than half of
 * its requests take several times their median. (Its own median would not do: with few samples that
 * of a healthy replica is far off when service times vary as much as an exponential distribution
 * does.) At most a percentage of the replicas is ejected at once (but one is always allowed), and
 * never the last one that serves. Pure. Thread: the caller's.
 */
#ifndef AS_CORE_OUTLIER_H
#define AS_CORE_OUTLIER_H

#include "base/defs.h"

/* A running estimate of the median. Each sample moves it by a step up or down; steps grow while
 * they go in the same direction. It needs little memory, and a rare long sample does not move it
 * far, as it would move an average. */
struct as_median {
    as_ns value; /* the median; 0: no sample yet */
    as_ns step;
    uint32_t n; /* samples; wraps around after 2^32 */
    bool up;
};

void as_median_add(struct as_median *m, as_ns sample);

struct as_outlier_conf {
    /* slow: more than this many times its peers' median; 0: slow replicas are not ejected */
    uint32_t factor;
    as_ns least;      /* a service time below this is never slow */
    uint32_t percent; /* of the replicas may be ejected at once */
};

/* The share of a replica's requests that were slow: their mean at first, then a moving average of
 * weight 1/AS_SLOW_SAMPLES. With service times whose standard deviation is twice their mean, a
 * healthy replica is 4 standard deviations or more below one half. */
#define AS_SLOW_SAMPLES 32u
struct as_slow_share {
    uint32_t n;     /* requests, at most AS_SLOW_SAMPLES */
    uint32_t share; /* in 1/65536 */
};
void as_slow_share_add(struct as_slow_share *s, bool slow);
/* Enough requests were counted, and more than half of them were slow. */
bool as_slow_share_is_high(const struct as_slow_share *s);

/* A median counts after this many samples. */
#define AS_OUTLIER_SAMPLES 16u

/* May one more replica be ejected, if n could serve and `out` of them are ejected already? */
bool as_outlier_may_eject(const struct as_outlier_conf *conf, uint32_t n, uint32_t out);
/* The median of n values, which are sorted; 0: there are none. */
as_ns as_outlier_median(as_ns *values, uint32_t n);
/* Compares the median `own` with those of n peers. Sorts `peers`. */
bool as_outlier_is_slow(const struct as_outlier_conf *conf, as_ns own, as_ns *peers, uint32_t n);
/* True when most of the n peers have fewer than half as many failures in a row as `streak`. */
bool as_outlier_is_failing(uint32_t streak, const uint32_t *peers, uint32_t n);

#endif
