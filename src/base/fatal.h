/* base/fatal.h — ends a process to which the system refuses something that it cannot do without.
 *
 * Not for bugs (AS_ASSERT), and not for the needs of a single client or worker: those are refused.
 */
#ifndef AS_BASE_FATAL_H
#define AS_BASE_FATAL_H

#include <stddef.h>

#define AS_EXIT_SYSTEM 71 /* exit code; EX_OSERR of sysexits.h */

/* Writes "out of memory" to stderr, runs the cleanup, ends the process with AS_EXIT_SYSTEM. Any
 * thread. */
__attribute__((noreturn, cold)) void as_fatal_memory(size_t n);

/* The same for anything else: `what` was refused ("random bytes"), and with which errno. */
__attribute__((noreturn, cold)) void as_fatal_system(const char *what, int e);

/* Sets the process's one cleanup, which removes what would outlive the process; NULL: none. Called
 * by main before there are threads. The cleanup must not allocate memory. It is a global variable,
 * because an allocation that fails has no object at hand. */
void as_fatal_set_cleanup(void (*cleanup_fn)(void *ctx), void *ctx);

/* Runs the cleanup, at most once. */
void as_fatal_run_cleanup(void);

#endif
