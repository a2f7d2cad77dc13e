/* app/client/server_process.h — the process of a server, its supervisor, for commands that signal
 * it: not by a number in a file, which may be another process's by now, but by a descriptor of it.
 */
#ifndef AS_APP_OWNER_H
#define AS_APP_OWNER_H

#include "conf/option.h"

#include <sys/types.h>

struct as_server_process {
    char *base; /* --runtime-dir */
    uint16_t port;
    pid_t pid; /* to be told only */
    int fd;    /* pidfd, or -1 */
};

/* The server that the options mean. An exit code; what is wrong was printed. as_server_process_fini
 * in any case. */
int as_server_process_find(struct as_server_process *ret_o, const struct as_option_set *opts);
void as_server_process_fini(struct as_server_process *o);

/* An exit code; one that has ended meanwhile is no failure. */
int as_server_process_signal(const struct as_server_process *o, int signo);
/* Waits until it has ended, or until then (as_control_client_clock): false. */
bool as_server_process_wait_end(const struct as_server_process *o, as_ns deadline);

/* Tells on stderr which of the server's processes are stopped, if any: it cannot go on without. */
void as_server_process_print_stopped(const struct as_server_process *o);

#endif
