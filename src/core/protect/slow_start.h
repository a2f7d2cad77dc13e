/* core/protect/slow_start.h — how many slots a new replica may use while it warms up: from one to
 * all of them in equal steps, over `duration`. Pure; ages and durations in ns. Thread: the
 * caller's.
 */
#ifndef AS_CORE_SLOW_START_H
#define AS_CORE_SLOW_START_H

#include "base/defs.h"

/* As every time of OPTIONS (docs/protocol/link.md), and of a deployment file. */
#define AS_SLOW_START_MAX (86400 * AS_SEC)

/* Of so many slots, at that age. */
uint32_t as_slow_start_width(uint32_t slots, as_ns age, as_ns duration);
/* The age at which the next step comes; AS_NEVER: none, it has all of them. */
as_ns as_slow_start_next(uint32_t slots, as_ns age, as_ns duration);

#endif
