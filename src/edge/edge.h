/* edge/edge.h — the client side of one event loop: listeners, connections, requests.
 *
 * Each loop has one edge with its own connections and counters; all share the listening sockets,
 * the byte budgets and the fleet. Thread: its loop's, but for reading the counters.
 */
#ifndef AS_EDGE_EDGE_H
#define AS_EDGE_EDGE_H

#include "base/memory/budget.h"
#include "base/log.h"
#include "io/shm.h"
#include "link/fleet/fleet.h"
#include "wire/h1/h1.h"
#include "wire/h2/h2.h"

struct as_edge;
struct as_control;

/* Which answers are compressed, for clients that list an encoding of ours. */
enum as_compress_mode { AS_COMPRESS_OFF, AS_COMPRESS_MATCH, AS_COMPRESS_ALWAYS };

/* Who comes in by an edge's listeners, and so what is served there. */
enum as_interface {
    AS_INTERFACE_CLIENTS,
    AS_INTERFACE_MANAGEMENT, /* workers that register: edge/admin/registrar.h; the dispatch loop
                                only */
    AS_INTERFACE_CONTROL,    /* who says what is to be served: edge/admin/control.h; no models */
    AS_INTERFACES
};

struct as_edge_conf {
    enum as_interface interface;
    const char *token; /* of calls over TCP to any interface but AS_INTERFACE_CLIENTS; NULL: all are
                          refused */
    const char *host;  /* a name that is ours, beside the machine's, in Host headers; "" or NULL */
    uint32_t status_port; /* AS_INTERFACE_CLIENTS: where the metrics are, on 127.0.0.1; 0: off */
    const char *origins;  /* AS_INTERFACE_CLIENTS: pages that may change something,
                             wire/http/origin.h; NULL */
    const struct as_control *api; /* of AS_INTERFACE_CONTROL */
    as_ns heartbeat;              /* asked of workers that register; 0: none */
    struct as_h1_conf h1;
    struct as_h2_conf h2;
    uint64_t max_message;       /* bytes of one gRPC message */
    uint64_t max_http_body;     /* of the body of a plain HTTP request, as it comes */
    uint64_t max_inflated;      /* of either that came compressed, bytes after inflating */
    const char *message_option; /* what sets these, "--max-message-bytes" */
    const char *body_option;
    const char *inflated_option;
    enum as_compress_mode compress;
    uint64_t compress_min;    /* bytes; smaller answers are sent as they are */
    uint32_t stream_requests; /* under way on one ModelStreamInfer */
    uint32_t max_connections; /* of this loop */
    uint32_t max_requests;    /* of this loop: open ones, whatever their state */
    as_ns header_timeout;    /* from accept to the client's SETTINGS or first request; also for each
                                head or header block */
    as_ns idle_timeout;      /* without a request; 0: never */
    as_ns goaway_grace;      /* from the first GOAWAY to the final one */
    as_ns keepalive_time;    /* nothing heard for so long: a ping; 0: never */
    as_ns keepalive_timeout; /* and nothing for so long after it: closed */
    as_ns body_timeout;      /* a request moves on by min_progress in this time; 0: never ends it */
    as_ns send_timeout;      /* the client takes min_progress of its answers; 0: never */
    uint64_t min_progress;   /* bytes, or what is left if less */
    as_ns linger_timeout;    /* of sockets that we end, edge/conn/linger.h; 0: closed at once */
    uint32_t max_lingering;  /* of this loop */
    struct as_shm *shm; /* clients' shared memory, one table for all loops; NULL: not allowed */
    struct as_log *log; /* the log whose level clients may set; NULL: not allowed */
    bool control;       /* clients may load and unload models */
};

/* The RPCs that we count and answer; the table of names is in edge/methods/grpc_service.c. */
enum as_rpc {
    AS_RPC_MODEL_INFER,
    AS_RPC_SERVER_LIVE,
    AS_RPC_SERVER_READY,
    AS_RPC_SERVER_METADATA,
    AS_RPC_MODEL_READY,
    AS_RPC_MODEL_METADATA,
    AS_RPC_MODEL_CONFIG, /* from here on: extensions, edge/triton/extension.h */
    AS_RPC_MODEL_STATISTICS,
    AS_RPC_REPOSITORY_INDEX,
    AS_RPC_REPOSITORY_LOAD,
    AS_RPC_REPOSITORY_UNLOAD,
    AS_RPC_SHM_STATUS,
    AS_RPC_SHM_REGISTER,
    AS_RPC_SHM_UNREGISTER,
    AS_RPC_CUDA_STATUS,
    AS_RPC_CUDA_REGISTER,
    AS_RPC_CUDA_UNREGISTER,
    AS_RPC_TRACE_SETTING,
    AS_RPC_LOG_SETTINGS, /* the last of inference.GRPCInferenceService */
    AS_RPC_HEALTH_CHECK,
    AS_RPC_HEALTH_LIST,
    AS_RPC_REGISTER_MODEL, /* of anyserve.WorkerManagement */
    AS_RPC_UNREGISTER_MODEL,
    AS_RPC_HEARTBEAT,
    AS_RPC_HEALTH_WATCH, /* from here on: streaming */
    AS_RPC_MODEL_STREAM_INFER,
    AS_RPC_REFLECTION,
    AS_RPC_REFLECTION_ALPHA,
    AS_RPC_UNKNOWN,
    AS_RPC_HTTP, /* no gRPC: counted by as_resource */
    AS_RPC_COUNT
};
static inline bool as_rpc_is_streaming(enum as_rpc rpc)
{
    return rpc >= AS_RPC_HEALTH_WATCH && rpc < AS_RPC_UNKNOWN;
}

/* What plain HTTP requests are counted by; the paths are in edge/methods/rest_routes.c. */
enum as_resource {
    AS_RESOURCE_NONE, /* no such path; refused before the path was looked at */
    AS_RESOURCE_SERVER,
    AS_RESOURCE_LIVE,
    AS_RESOURCE_READY,
    AS_RESOURCE_MODEL,
    AS_RESOURCE_MODEL_READY,
    AS_RESOURCE_INFER,
    AS_RESOURCE_GENERATE,
    AS_RESOURCE_GENERATE_STREAM,
    AS_RESOURCE_CONFIG,
    AS_RESOURCE_STATISTICS,
    AS_RESOURCE_REPOSITORY,
    AS_RESOURCE_SHARED_MEMORY,
    AS_RESOURCE_TRACE,
    AS_RESOURCE_LOGGING,
    AS_RESOURCE_OPENAPI,
    AS_RESOURCE_MANAGEMENT,
    AS_RESOURCE_CONTROL,
    AS_RESOURCES
};
const char *as_resource_name(enum as_resource r); /* unique: the label of metrics */
/* The HTTP statuses that are counted, by number from 0; the last is 0 and stands for all others. */
#define AS_HTTP_STATUSES 21u
uint32_t as_counted_http_status(uint32_t i);

/* Why a connection ended; from AS_CLOSE_BREACH on: that and the breach of wire/h2/h2_guard.h. */
enum as_close_reason {
    AS_CLOSE_CLIENT, /* by the client, or an error of the socket */
    AS_CLOSE_IDLE,
    AS_CLOSE_DRAIN, /* the server ends */
    AS_CLOSE_MOVED, /* it is open: the dispatcher that relieves us has it */
    AS_CLOSE_EVICTED,
    AS_CLOSE_HEADER_TIMEOUT,
    AS_CLOSE_SEND_TIMEOUT,
    AS_CLOSE_KEEPALIVE,
    AS_CLOSE_BAD_REQUEST, /* malformed HTTP/1.1 */
    AS_CLOSE_BREACH
};
#define AS_CLOSE_REASONS (AS_CLOSE_BREACH + (uint32_t)AS_H2_BREACHES)
const char *as_close_reason_name(uint32_t why); /* NULL: no reason has this number */

#define AS_GRPC_CODES 17u
const char *as_rpc_name(enum as_rpc rpc); /* unique: the label of metrics */

struct as_edge_stat {  /* base/counter.h */
    uint64_t accepted; /* adopted ones, too */
    uint64_t closed;
    uint64_t refused;                               /* over max_connections */
    uint64_t requests[AS_RPC_COUNT][AS_GRPC_CODES]; /* by gRPC status */
    uint64_t http[AS_RESOURCES][AS_HTTP_STATUSES];
    uint64_t bytes_in, bytes_out; /* of connections */
    uint64_t exchanges;           /* requests that are not freed: their clients may have gone */
    uint64_t mirrors_skipped;     /* copies that were wanted and not made: edge/infer/mirror.h */
    uint64_t pooled;              /* freed ones, kept for the next */
    uint64_t closed_for[AS_CLOSE_REASONS]; /* closed ones, by reason */
    uint64_t slow_requests, slow_answers;  /* given up: body_timeout, send_timeout */
    uint64_t other_users;                  /* connections of other users to a unix socket of ours */
    uint64_t unauthenticated;              /* requests without the token */
};

/* Of the process: the memory that clients make it hold for what they send, and for what they are
 * sent. Apart, so that neither keeps the other from ending. */
struct as_edge_budgets {
    struct as_budget requests, answers;
};

/* fleet: NULL for AS_INTERFACE_CONTROL. */
int as_edge_new(struct as_edge **ret_e, struct as_loop *loop, struct as_fleet *fleet,
                const struct as_edge_conf *conf, struct as_edge_budgets *budgets,
                const struct as_log *log);
/* Accepts from a shared listening socket (not owned), TCP or unix. */
int as_edge_listen(struct as_edge *e, int fd);
/* Takes clients that the dispatcher before us sends by this socket
 * (edge/conn/connection_handover.h), which is the edge's from here on. */
int as_edge_adopt(struct as_edge *e, int fd);
/* Graceful end: no accept, GOAWAY; `drained` (may be NULL) is called on this loop
 * when no connection is left. successor: a socket to a dispatcher that takes connections over,
 * which is the edge's from here on, or -1. */
void as_edge_drain(struct as_edge *e, int successor, void (*drained)(void *arg), void *arg);
/* The server ends, though this edge serves on: it says that neither server nor models are ready. */
void as_edge_announce_shutdown(struct as_edge *e);
/* In a drain that has run out of time, behind as_fleet_abort: requests that have not come whole
 * are answered UNAVAILABLE, and no connection takes a further one. Each ends with its answers;
 * `drained` is called as before. */
void as_edge_drain_expired(struct as_edge *e);
/* Closes every connection at once. When as_edge_open_requests is 0 (the fleet has released all
 * requests): as_edge_close, run the loop to its end, as_edge_free. */
void as_edge_stop(struct as_edge *e);
uint32_t as_edge_open_requests(const struct as_edge *e); /* requests that are not freed yet */
void as_edge_close(struct as_edge *e);
void as_edge_free(struct as_edge *e);

/* Letters to this loop (any thread). */
struct as_mbox *as_edge_mailbox(struct as_edge *e);

const struct as_edge_stat *as_edge_stat(const struct as_edge *e); /* any thread */
const struct as_loop_stat *as_edge_loop_stat(const struct as_edge *e);

#endif
