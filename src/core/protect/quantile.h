/* core/protect/quantile.h — a quantile of the last AS_QUANTILE_WINDOW durations.
 *
 * Durations are counted in buckets: 16 for each power of two, so that the result is at most 1/16
 * above the exact one (and at most 64 ns), and never below it. The bucket with the quantile is kept
 * up to date with each duration, so adding and reading are O(1). Pure; no allocation. Thread: the
 * caller's.
 */
#ifndef AS_CORE_QUANTILE_H
#define AS_CORE_QUANTILE_H

#include "base/defs.h"

#define AS_QUANTILE_WINDOW  1024u
#define AS_QUANTILE_BUCKETS 544u            /* up to AS_QUANTILE_MAX */
#define AS_QUANTILE_MAX     (3600 * AS_SEC) /* a longer duration counts as this */

struct as_quantile {
    uint32_t per_mille; /* which one: 950 is the p95 */
    uint32_t n, next;   /* durations in the window, and the place of the next one */
    uint32_t at, below; /* the bucket of the quantile, and how many durations are in lower ones */
    uint16_t count[AS_QUANTILE_BUCKETS];
    uint16_t window[AS_QUANTILE_WINDOW]; /* bucket of each duration */
};

/* per_mille: 1 … 999. */
void as_quantile_init(struct as_quantile *q, uint32_t per_mille);
void as_quantile_add(struct as_quantile *q, as_ns v);
/* 0: nothing was added. */
as_ns as_quantile_get(const struct as_quantile *q);

#endif
