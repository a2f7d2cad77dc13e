/* io/process/server_processes.h — the processes of a server of this machine, and whether they can go on, as /proc
 * says.
 *
 * For texts about a server that does not answer: a process may end at any moment. Blocking calls,
 * without libuv, for commands.
 */
#ifndef AS_IO_FAMILY_H
#define AS_IO_FAMILY_H

#include "base/buf.h"

#include <sys/types.h>

/* What dispatcher and controller call themselves (prctl PR_SET_NAME). */
#define AS_FAMILY_DISPATCHER "as-dispatcher"
#define AS_FAMILY_CONTROLLER "as-controller"
#define AS_FAMILY_MAX        8u /* during an upgrade there may be two dispatchers */

struct as_family {
    struct as_family_member {
        const char *role; /* "supervisor", "dispatcher", "controller" */
        pid_t pid;
        bool is_stopped; /* by a signal or a debugger */
    } all[AS_FAMILY_MAX];
    uint32_t n;
};

/* n == 0: no server has this folder. */
void as_family_read(struct as_family *ret_f, const char *runtime_dir, uint16_t port);
/* "the controller (pid 12)"; without such a process "the controller". */
void as_family_name(const struct as_family *f, const char *role, struct as_buf *out);
/* For each process that is stopped a line with an indent: which, and how it goes on. False: none.
 */
bool as_family_explain(const struct as_family *f, struct as_buf *out);

#endif
