/* app/client/server_process.h — the supervisor process of a server, for commands that signal it.
 *
 * The process is held by a pidfd: a pid read from a file may belong to another process by now.
 * Blocking calls, for commands.
 */
#ifndef AS_APP_SERVER_PROCESS_H
#define AS_APP_SERVER_PROCESS_H

#include "conf/option/option.h"

#include <sys/types.h>

struct as_server_process {
    char *base; /* --runtime-dir */
    uint16_t port;
    pid_t pid; /* for messages only */
    int fd;    /* pidfd, or -1 */
};

/* Finds the server that the options select. Returns an exit code; errors are printed to stderr.
 * Call as_server_process_fini in any case. */
int as_server_process_find(struct as_server_process *ret_o, const struct as_option_set *opts);
void as_server_process_fini(struct as_server_process *o);

/* Returns an exit code; it is no failure if the process has ended meanwhile. */
int as_server_process_signal(const struct as_server_process *o, int signo);
/* Waits until the process has ended. False: the deadline (as_clock_now) came first. */
bool as_server_process_wait_end(const struct as_server_process *o, as_ns deadline);

/* Prints to stderr which of the server's processes are stopped (SIGSTOP), if any. */
void as_server_process_print_stopped(const struct as_server_process *o);

#endif
