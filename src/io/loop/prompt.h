/* io/loop/prompt.h — a thread that runs briefly, and should run at once when it wakes.
 *
 * On a busy machine a woken thread waits behind whoever has the CPU, for a tick or more (4 ms at
 * 250 Hz). The scheduler lets one that asks for a shorter slice than the others' (about 3 ms) go
 * first: EEVDF, Linux 6.12 and newer, sched_runtime of sched_setattr(2) for the usual policies. No
 * privilege is needed, since it gets no more of the CPU, only sooner.
 */
#ifndef AS_IO_LOOP_PROMPT_H
#define AS_IO_LOOP_PROMPT_H

#include "base/defs.h"

#define AS_PROMPT_SLICE (100 * AS_US) /* the shortest that the kernel takes */

/* The calling thread, and those that it makes from now on. `slice`: about as long as it runs at a
 * time, to 100 ms; 0: as the others. 0; AS_EUNIMPLEMENTED where the kernel has no such thing, or
 * the thread runs by another policy than the usual ones: nothing has changed then. */
int as_prompt_set_slice(as_ns slice);

#endif
