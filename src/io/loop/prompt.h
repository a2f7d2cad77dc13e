/* io/loop/prompt.h — lets a thread that runs briefly run at once when it wakes up.
 *
 * On a busy machine a thread that wakes up waits until the running thread has used its slice, for a
 * scheduler tick or more (4 ms at 250 Hz). A thread that asks for a shorter slice than the others'
 * (about 3 ms) goes first: EEVDF of Linux 6.12 and newer, sched_runtime of sched_setattr(2). No
 * privilege is needed: the thread gets the CPU sooner, but not more of it.
 */
#ifndef AS_IO_PROMPT_H
#define AS_IO_PROMPT_H

#include "base/defs.h"

#define AS_PROMPT_SLICE (100 * AS_US) /* the shortest that the kernel accepts */

/* For the calling thread and the threads that it starts from now on. `slice`: about as long as it
 * runs at a time, at most 100 ms; 0: the default. 0; AS_EUNIMPLEMENTED: the kernel does not support
 * it, or the thread's policy is neither SCHED_OTHER nor SCHED_BATCH; nothing has changed. */
int as_prompt_set_slice(as_ns slice);

#endif
