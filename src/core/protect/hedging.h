/* core/protect/hedging.h — when a request may be sent to a second replica, and how often.
 *
 * A request that runs for longer than most others do is sent to another replica as well (a hedge),
 * and the first answer counts: Dean and Barroso, "The Tail at Scale", 2013. The time is a quantile
 * of what the deployment measured, and is believed after `samples` requests. A token bucket
 * bounds the extra load: each request adds `budget` thousandths of a hedge, up to AS_HEDGING_BURST.
 * Pure. Thread: the caller's.
 */
#ifndef AS_CORE_HEDGING_H
#define AS_CORE_HEDGING_H

#include "core/protect/quantile.h"

#define AS_HEDGING_SAMPLES   100u  /* of as_hedging_conf.samples in the server */
#define AS_HEDGING_BURST     10u   /* hedges at once after a quiet time */
#define AS_HEDGING_MOST      999u  /* of as_hedging_conf.quantile */
#define AS_HEDGING_BUDGET    20u   /* defaults: 2 % … */
#define AS_HEDGING_MIN_DELAY AS_MS /* … and a millisecond */

struct as_hedging_conf {
    uint32_t quantile; /* of the measured times, in thousandths, up to AS_HEDGING_MOST; 0: off */
    uint32_t budget;   /* hedges per request, in thousandths, 1 … 1000 */
    uint32_t samples;  /* so many times must be measured first */
    as_ns min_delay;   /* no hedge before the request has run for so long */
};

/* Tokens are thousandths of a hedge. */
static inline uint32_t as_hedging_earn(const struct as_hedging_conf *conf, uint32_t tokens)
{
    return AS_MIN(tokens + conf->budget, AS_HEDGING_BURST * 1000u);
}
static inline bool as_hedging_can_spend(uint32_t tokens)
{
    return tokens >= 1000;
}
/* How long a request runs before it is hedged; AS_NEVER: too little was measured. */
static inline as_ns as_hedging_delay(const struct as_hedging_conf *conf,
                                     const struct as_quantile *times)
{
    if (times->n < conf->samples || !times->n)
        return AS_NEVER;
    return AS_MAX(as_quantile_get(times), conf->min_delay);
}

#endif
