/* app/dispatcher/dispatcher.h — the process that owns every client connection.
 *
 * Started by the supervisor only, with its listeners and one end of the control socket inherited.
 * All descriptors are non-blocking and close-on-exec; the function owns them.
 */
#ifndef AS_APP_DISPATCHER_H
#define AS_APP_DISPATCHER_H

#include "conf/option.h"

#define AS_DISPATCHER_LISTENERS 8u

struct as_dispatcher_fds {
    int grpc[AS_DISPATCHER_LISTENERS]; /* TCP listeners for clients: --port and --grpc-port */
    uint32_t n_grpc;
    int status[AS_DISPATCHER_LISTENERS]; /* /metrics and /status: TCP on loopback, status.sock */
    uint32_t n_status;
    int management[AS_DISPATCHER_LISTENERS]; /* workers that register: TCP, management.sock */
    uint32_t n_management;
    int link;    /* unix listener for workers */
    int control; /* SOCK_SEQPACKET to the supervisor (ctl/message/message.h) */
    int log;     /* for log lines */
};

/* Serves until DRAIN is done (exit code 0) or the control socket ends: then kills the process
 * groups of all workers it was told of. Returns the exit code of the process. Limits that the
 * options leave to us (0: max-inflight-bytes, max-connections) are already resolved; join-token is
 * read with as_runtime_read_token(--runtime-dir, --port), which are both set. */
int as_dispatcher_main(const struct as_option_set *opts, const struct as_dispatcher_fds *fds);

#endif
