#include "core/queue/queue_drain.h"

#define LONG_ENOUGH (100 * AS_MS) /* a measurement takes at least this */
#define TOO_LONG                                                                                   \
    (2 * AS_SEC) /* an older measurement is dropped: the queue was not full all the time */

/* Averages the new rate with the old one: the hint follows a change within a few tenths of a
 * second. */
static void update_gap(struct as_queue_drain *s, uint64_t left, as_ns now)
{
    as_ns passed = now - s->since;

    if (s->since && passed < LONG_ENOUGH)
        return;
    if (s->since && passed <= TOO_LONG) {
        as_ns gap = (passed << 10) / AS_MAX(left - s->left, 1);

        s->gap = s->gap ? s->gap / 2 + gap / 2 : gap;
    } else {
        s->gap = 0;
    }
    s->since = now;
    s->left = left;
}

as_ns as_queue_drain_time(struct as_queue_drain *s, uint64_t left, uint64_t waiting, as_ns guess,
                          as_ns now)
{
    as_ns gap, hint;

    update_gap(s, left, now);
    gap = s->gap ? s->gap : guess;
    if (!gap)
        return AS_QUEUE_DRAIN_DEFAULT;
    if (__builtin_mul_overflow(gap, waiting, &hint))
        return AS_QUEUE_DRAIN_MAX;
    hint >>= 10;
    return AS_MIN(AS_MAX(hint, AS_QUEUE_DRAIN_MIN), AS_QUEUE_DRAIN_MAX);
}
