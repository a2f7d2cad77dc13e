/* base/fatal.h — the end of a process that cannot go on without what the system refused it.
 *
 * Not for bugs (AS_ASSERT) and not for what a client or a worker asked for (that is refused alone).
 */
#ifndef AS_BASE_FATAL_H
#define AS_BASE_FATAL_H

#include <stddef.h>

#define AS_EXIT_SYSTEM 71 /* exit code; EX_OSERR of sysexits.h */

/* Says so on stderr, tidies up, ends the process. Any thread. */
__attribute__((noreturn, cold)) void as_fatal_memory(size_t n);

/* The same for anything else: what could not be had ("random bytes"), and errno. */
__attribute__((noreturn, cold)) void as_fatal_system(const char *what, int e);

/* Runs what was set, once. */
void as_fatal_run_cleanup(void);

/* What as_fatal_memory does before the end: removes what would outlive the process. One for the
 * process, set by its main before there are threads; must not take memory. NULL: nothing.
 * The one global of this layer: an allocation that fails has no object to ask. */
void as_fatal_set_cleanup(void (*cleanup_fn)(void *ctx), void *ctx);

#endif
