/* app/client/server_process.h — the process of a server, its supervisor, for commands that signal it: not by a
 * number in a file, which may be another process's by now, but by a descriptor of it.
 */
#ifndef AS_APP_OWNER_H
#define AS_APP_OWNER_H

#include "conf/option.h"

#include <sys/types.h>

struct as_owner {
    char *base; /* --runtime-dir */
    uint16_t port;
    pid_t pid; /* to be told only */
    int fd;    /* pidfd, or -1 */
};

/* The server that the options mean. An exit code; what is wrong was printed. as_owner_fini in any
 * case. */
int as_owner_find(struct as_owner *ret_o, const struct as_option_set *opts);
void as_owner_fini(struct as_owner *o);

/* An exit code; one that has ended meanwhile is no failure. */
int as_owner_signal(const struct as_owner *o, int signo);
/* Waits until it has ended, or until then (as_contact_clock): false. */
bool as_owner_ends(const struct as_owner *o, as_ns deadline);

/* Tells on stderr which of the server's processes are stopped, if any: it cannot go on without. */
void as_owner_explain(const struct as_owner *o);

#endif
