/* io/process/server_processes.h — the processes of a server of this machine, and whether they can
 * go on, as /proc says.
 *
 * For texts about a server that does not answer: a process may end at any moment. Blocking calls,
 * without libuv, for commands.
 */
#ifndef AS_IO_PROCESS_SERVER_PROCESSES_H
#define AS_IO_PROCESS_SERVER_PROCESSES_H

#include "base/buf.h"

#include <sys/types.h>

/* What dispatcher and controller call themselves (prctl PR_SET_NAME). */
#define AS_SERVER_PROCESSES_DISPATCHER "as-dispatcher"
#define AS_SERVER_PROCESSES_CONTROLLER "as-controller"
#define AS_SERVER_PROCESSES_MAX        8u /* during an upgrade there may be two dispatchers */

struct as_server_processes {
    struct as_server_processes_entry {
        const char *role; /* "supervisor", "dispatcher", "controller" */
        pid_t pid;
        bool is_stopped; /* by a signal or a debugger */
    } all[AS_SERVER_PROCESSES_MAX];
    uint32_t n;
};

/* n == 0: no server has this folder. */
void as_server_processes_read(struct as_server_processes *ret_f, const char *runtime_dir,
                              uint16_t port);
/* "the controller (pid 12)"; without such a process "the controller". */
void as_server_processes_put_name(const struct as_server_processes *f, const char *role,
                                  struct as_buf *out);
/* For each process that is stopped a line with an indent: which, and how it goes on. False: none.
 */
bool as_server_processes_put_stopped(const struct as_server_processes *f, struct as_buf *out);

#endif
