/* core/protect/gradient.h — adaptive concurrency: how many calls a replica should execute at once.
 *
 * While a call takes no longer than usual, more of them at once cost nothing, and the limit grows.
 * When calls take more than AS_GRADIENT_TOLERANCE times as long as they do over a long time, more
 * at once only make all of them slower, and the limit falls in proportion. This is the rule of
 * Netflix's Gradient2: each update moves the limit by a fifth of the way to
 * limit x clamp(tolerance x long / short, 0.5, 1) + 4. `short` is the mean of AS_GRADIENT_WINDOW
 * calls, `long` a moving average of 600 updates. The 4 lets it grow; for a replica with eight slots
 * or fewer it never limits anything. A replica that is not busy does not grow. Pure. Thread: the
 * caller's.
 */
#ifndef AS_CORE_GRADIENT_H
#define AS_CORE_GRADIENT_H

#include "base/defs.h"

#define AS_GRADIENT_WINDOW    10u /* calls */
#define AS_GRADIENT_FIRST     20u /* the limit at first, or all slots */
#define AS_GRADIENT_TOLERANCE 1.5

struct as_gradient {
    double limit;     /* 0: no call has been measured yet */
    double longer;    /* ns; the average over a long time */
    double sum;       /* of the window */
    uint32_t n, busy; /* calls of the window; the most that executed at one of them */
    uint32_t updates;
};

/* How many of the slots should be used: 1 … slots, or 0 if there are none. */
uint32_t as_gradient_limit(const struct as_gradient *g, uint32_t slots);
/* A call has taken so long, ns; `busy` calls executed then, itself included. True: the limit may
 * have changed. */
bool as_gradient_add(struct as_gradient *g, uint32_t slots, as_ns took, uint32_t busy);

#endif
