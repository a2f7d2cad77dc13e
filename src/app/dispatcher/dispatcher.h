/* app/dispatcher/dispatcher.h — the process that owns every client connection.
 *
 * Only the supervisor starts it. It inherits its listeners and one end of the control socket. All
 * descriptors are non-blocking and close-on-exec; as_dispatcher_main owns them.
 */
#ifndef AS_APP_DISPATCHER_H
#define AS_APP_DISPATCHER_H

#include "conf/option/option.h"
#include "ctl/supervise/handover.h"

#define AS_DISPATCHER_LISTENERS AS_HANDOVER_LISTENERS

struct as_dispatcher_fds {
    int grpc[AS_DISPATCHER_LISTENERS]; /* for clients: --port, --grpc-port, --listen */
    uint32_t n_grpc;
    int grpc_tls[AS_DISPATCHER_LISTENERS]; /* the same, by TLS */
    uint32_t n_grpc_tls;
    int status[AS_DISPATCHER_LISTENERS]; /* /metrics and /status: TCP on loopback, status.sock */
    uint32_t n_status;
    int status_tls[AS_DISPATCHER_LISTENERS];
    uint32_t n_status_tls;
    int management[AS_DISPATCHER_LISTENERS]; /* workers that register: TCP, management.sock */
    uint32_t n_management;
    int link;    /* unix listener for workers */
    int control; /* SOCK_SEQPACKET to the supervisor (ctl/message/message.h) */
    int log;     /* for log lines */
};

/* Serves until a drain is done (exit code 0), or until the control socket ends: then it kills the
 * process groups of all workers that it knows. Returns the exit code of the process. opts: limits
 * with an automatic value (max-inflight-bytes, max-connections, …) are resolved by the caller;
 * --runtime-dir and --port are set. */
int as_dispatcher_main(const struct as_option_set *opts, const struct as_dispatcher_fds *fds);

#endif
