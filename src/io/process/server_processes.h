/* io/process/server_processes.h — finds the processes of a server on this machine, and whether one
 * of them is stopped.
 *
 * Read from /proc, for messages about a server that does not answer; a process may end at any
 * moment. Blocking calls without libuv, for commands.
 */
#ifndef AS_IO_SERVER_PROCESSES_H
#define AS_IO_SERVER_PROCESSES_H

#include "base/buf.h"

#include <sys/types.h>

/* The names that dispatcher and controller give themselves (prctl PR_SET_NAME). */
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

/* n is 0 when no server runs there. */
void as_server_processes_read(struct as_server_processes *ret_f, const char *runtime_dir,
                              uint16_t port);
/* Appends "the controller (pid 12)", or "the controller" when there is no such process. */
void as_server_processes_put_name(const struct as_server_processes *f, const char *role,
                                  struct as_buf *out);
/* Appends an indented line for each stopped process: which one, and how to continue it. False: no
 * process is stopped. */
bool as_server_processes_put_stopped(const struct as_server_processes *f, struct as_buf *out);

#endif
