/* edge/edge.h — the client side of one event loop: listeners, connections, requests.
 * Each loop has one edge with its own connections and counters. All edges share the listening
 * sockets, the byte budgets and the fleet. Thread: the edge's loop; only the functions marked "any
 * thread" may be called from elsewhere.
 */
#ifndef AS_EDGE_EDGE_H
#define AS_EDGE_EDGE_H

#include "base/log.h"
#include "base/memory/budget.h"
#include "core/keys/key_table.h"
#include "io/shm.h"
#include "io/tls/tls_server.h"
#include "link/fleet/fleet.h"
#include "wire/h1/h1.h"
#include "wire/h2/h2.h"
#include "wire/ws/ws.h"

struct as_edge;
struct as_control;
struct as_status_page;

/* Which answers are compressed, if the client lists an encoding that the server supports. MATCH:
 * only answers to compressed requests. */
enum as_compress_mode { AS_COMPRESS_OFF, AS_COMPRESS_MATCH, AS_COMPRESS_ALWAYS };

/* What an edge serves on its listeners. */
enum as_interface {
    AS_INTERFACE_CLIENTS,
    AS_INTERFACE_MANAGEMENT, /* registration of workers: edge/admin/registrar.h; dispatch loop */
    AS_INTERFACE_CONTROL,    /* deployments: edge/admin/control.h; no models */
    AS_INTERFACE_STATUS,     /* read only, and no models: edge/admin/status.h; dispatch loop */
    AS_INTERFACES
};

struct as_websocket_conf {
    struct as_ws_conf session;
    as_ns ping_interval; /* a client that is silent for this time gets a ping; 0: never */
    as_ns ping_timeout;  /* in which it must answer that, or a close */
};

struct as_edge_conf {
    enum as_interface interface;
    const char *token; /* required of TCP clients of AS_INTERFACE_MANAGEMENT and
                          AS_INTERFACE_CONTROL; NULL: all of them are refused */
    const char *host;  /* a further name that Host headers may carry, beside the machine's own; ""
                          or NULL: none */
    const char *status_host; /* AS_INTERFACE_CLIENTS: where the status port is, for texts */
    uint32_t status_port;    /* the same: its number; 0: off */
    bool status_tls;         /* the same: it speaks TLS */
    const char *origins;     /* AS_INTERFACE_CLIENTS: web origins whose pages may change the server,
                                wire/http/origin.h; NULL: none */
    const char *cors_origins;     /* the same: whose pages may read answers, edge/exchange/cors.h */
    as_ns cors_max_age;           /* how long a browser may remember the answer to a preflight */
    const struct as_control *api; /* of AS_INTERFACE_CONTROL */
    void (*on_refused)(void *ctx); /* access control has refused something; NULL: nobody asks */
    void *refused_ctx;
    struct as_status_page *status_page; /* of AS_INTERFACE_STATUS; of AS_INTERFACE_CLIENTS, if its
                                           clients may read /metrics, else NULL */
    bool one_request; /* HTTP/1.1: a connection ends with its first answer, so that the next one
                         comes to the newest dispatcher */
    as_ns heartbeat;  /* interval requested from workers that register; 0: none */
    struct as_h1_conf h1;
    struct as_h2_conf h2;
    struct as_websocket_conf websocket;
    uint64_t max_message;    /* bytes of one gRPC message */
    uint64_t max_http_body;  /* bytes of the body of a plain HTTP request, before inflating */
    uint64_t max_pickle;     /* AS_INTERFACE_CONTROL: bytes of pickled code */
    uint64_t ingress_buffer; /* bytes of a body that are collected for an application */
    struct as_str root_path; /* before the paths that applications see; clients do not send it */
    struct as_str tenant_header, cost_header; /* edge/exchange/urgency.h; empty: none */
    uint64_t max_inflated;      /* bytes of a compressed message or body, after inflating */
    const char *message_option; /* the options that set these, for error texts */
    const char *body_option;
    const char *pickle_option;
    const char *inflated_option;
    bool no_reflection; /* gRPC reflection is an unknown method */
    enum as_compress_mode compress;
    uint64_t compress_min;    /* bytes; smaller answers are not compressed */
    uint32_t stream_requests; /* requests in progress on one ModelStreamInfer call */
    uint32_t max_connections; /* of this loop */
    uint32_t max_requests;    /* of this loop: requests in memory, in any state */
    as_ns header_timeout;    /* from accept to the client's SETTINGS or first request; also for each
                                request head or header block */
    as_ns idle_timeout;      /* a connection without a request is closed; 0: never */
    as_ns goaway_grace;      /* from the first GOAWAY to the final one */
    as_ns keepalive_time;    /* after this time without bytes from the client: a ping; 0: never */
    as_ns keepalive_timeout; /* closed when no bytes come within this time after the ping */
    as_ns body_timeout;    /* a request must receive min_progress bytes in this time; 0: no limit */
    as_ns send_timeout;    /* the client must read min_progress bytes in this time; 0: no limit */
    uint64_t min_progress; /* bytes; less if fewer are left */
    struct as_tls_server *tls; /* for listeners with TLS; NULL: there are none */
    uint32_t max_handshakes;   /* of this loop, in progress */
    uint32_t max_tls_messages; /* of a client in a row, without data; 0: any number */
    as_ns handshake_timeout;   /* from accept to the end of the handshake */
    as_ns linger_timeout;   /* of sockets that the server closes: edge/conn/linger.h; 0: at once */
    uint32_t max_lingering; /* of this loop */
    struct as_shm *shm; /* shared memory of clients, one table for all loops; NULL: not allowed */
    struct as_log *log; /* the log whose level clients may set; NULL: not allowed */
    bool control;       /* clients may load and unload models */
    bool api_keys;      /* AS_INTERFACE_CLIENTS: requests need a key: as_edge_set_keys */
    bool status_keys;   /* AS_INTERFACE_STATUS: those over TCP need one that may use everything */
};

/* The RPCs that are served and counted; the table of names is in edge/methods/grpc_service.c. */
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
    AS_RPC_SERVE_HEALTHZ, /* of ray.serve.RayServeAPIService */
    AS_RPC_SERVE_APPLICATIONS,
    AS_RPC_SERVICE,      /* a method of a service of the user, with one message in each direction */
    AS_RPC_HEALTH_WATCH, /* from here on: streaming */
    AS_RPC_SERVICE_STREAM, /* the other methods of such services */
    AS_RPC_MODEL_STREAM_INFER,
    AS_RPC_REFLECTION,
    AS_RPC_REFLECTION_ALPHA,
    AS_RPC_UNKNOWN,
    AS_RPC_HTTP, /* plain HTTP: counted by as_resource */
    AS_RPC_COUNT
};
static inline bool as_rpc_is_streaming(enum as_rpc rpc)
{
    return rpc >= AS_RPC_HEALTH_WATCH && rpc < AS_RPC_UNKNOWN;
}

/* Plain HTTP requests are counted by resource; the paths are in edge/methods/rest_routes.c. */
enum as_resource {
    AS_RESOURCE_NONE, /* unknown path, or refused before the path was looked up */
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
    AS_RESOURCE_APPLICATION, /* below the route of an application: edge/ingress/ingress.h */
    AS_RESOURCE_ROUTES,      /* /-/routes and /-/healthz */
    AS_RESOURCE_METRICS,     /* on the port of clients */
    AS_RESOURCES
};
#define AS_HTTP_STATUSES 21u /* that are counted one by one: as_counted_http_status */

/* Why a connection was closed. Above AS_CLOSE_BREACH: AS_CLOSE_BREACH plus the breach of
 * wire/h2/h2_guard.h. */
enum as_close_reason {
    AS_CLOSE_CLIENT, /* by the client, or a socket error */
    AS_CLOSE_IDLE,
    AS_CLOSE_DRAIN, /* the server shuts down */
    AS_CLOSE_MOVED, /* not closed: the next dispatcher has taken it over */
    AS_CLOSE_EVICTED,
    AS_CLOSE_HEADER_TIMEOUT,
    AS_CLOSE_SEND_TIMEOUT,
    AS_CLOSE_KEEPALIVE,
    AS_CLOSE_BAD_REQUEST, /* malformed HTTP/1.1 */
    AS_CLOSE_HANDSHAKE_TIMEOUT,
    AS_CLOSE_HANDSHAKE_FAILED,
    AS_CLOSE_HANDSHAKE_EVICTED, /* silent, and a new client took its place */
    AS_CLOSE_HANDSHAKE_REFUSED, /* it could not begin */
    AS_CLOSE_TLS_FLOOD,         /* messages of TLS itself without end */
    AS_CLOSE_BREACH
};
#define AS_CLOSE_REASONS (AS_CLOSE_BREACH + (uint32_t)AS_H2_BREACHES)
const char *as_close_reason_name(uint32_t why); /* NULL: not a reason */

#define AS_GRPC_CODES 17u

struct as_edge_stat {  /* read by any thread: base/counter.h */
    uint64_t accepted; /* connections, including those taken over from the previous dispatcher */
    uint64_t closed;
    uint64_t refused;                               /* over max_connections */
    uint64_t requests[AS_RPC_COUNT][AS_GRPC_CODES]; /* by gRPC status */
    uint64_t http[AS_RESOURCES][AS_HTTP_STATUSES];
    uint64_t bytes_in, bytes_out; /* of connections */
    uint64_t handshakes;          /* of TLS, in progress */
    uint64_t tls_full,
        tls_resumed;          /* TLS handshakes that are done: with a certificate, by a ticket */
    uint64_t exchanges;       /* requests in memory, also those whose client has gone */
    uint64_t mirrors_skipped; /* mirrored copies that could not be made: edge/infer/mirror.h */
    uint64_t pooled;          /* freed exchanges that are kept for reuse */
    uint64_t closed_for[AS_CLOSE_REASONS]; /* closed connections, by reason */
    uint64_t slow_requests, slow_answers;  /* failed by body_timeout, by send_timeout */
    uint64_t other_users;          /* connections of other users to a unix socket, refused */
    uint64_t calls_refused[2];     /* inferences that named a target of calls: plain HTTP, gRPC */
    uint64_t websockets;           /* that are open */
    uint64_t ws_received, ws_sent; /* messages of websockets, from and to clients */
    uint64_t keys_refused[AS_KEY_REFUSALS]; /* requests, by what is wrong with their API key */
    uint64_t unauthenticated; /* requests refused for want of a valid token, or of a known origin */
};

/* Limits of the process: bytes held for requests, and bytes held for answers. Two budgets, so that
 * a full one does not keep the other from draining. */
struct as_edge_budgets {
    struct as_budget requests, answers;
};

/* fleet: NULL for AS_INTERFACE_CONTROL and AS_INTERFACE_STATUS. */
int as_edge_new(struct as_edge **ret_e, struct as_loop *loop, struct as_fleet *fleet,
                const struct as_edge_conf *conf, struct as_edge_budgets *budgets,
                const struct as_log *log);
/* Accepts from a shared listening socket, TCP or unix. The descriptor is duplicated. tls: its
 * clients speak TLS, by conf.tls. */
int as_edge_listen(struct as_edge *e, int fd, bool tls);
/* Takes over the connections that the previous dispatcher sends by this socket
 * (edge/conn/connection_handover.h). The edge owns fd from here on. */
int as_edge_adopt(struct as_edge *e, int fd);
/* Graceful shutdown: stops accepting and sends GOAWAY. `drained` (may be NULL) is called on this
 * loop when no connection is left. successor: a socket to the dispatcher that takes over
 * connections, owned by the edge from here on; or -1. */
void as_edge_drain(struct as_edge *e, int successor, void (*drained)(void *arg), void *arg);
/* From now on these API keys are valid; a reference is taken. Before the first call
 * the edge is not ready, and answers only what probes ask. */
void as_edge_set_keys(struct as_edge *e, struct as_key_table *t);
/* The server is about to shut down. The edge goes on serving, but reports that neither the server
 * nor any model is ready. */
void as_edge_announce_shutdown(struct as_edge *e);
/* conf.tls has certificates now, and had none before: the edge may be ready. */
void as_edge_announce_certificates(struct as_edge *e);
/* What health reports of the server. On this loop. */
bool as_edge_is_ready(const struct as_edge *e);
/* The time of a drain is over; call it after the fleet's drain has expired. Incomplete requests are
 * failed with UNAVAILABLE, and connections take no further ones. Each connection closes when its
 * answers are sent; then `drained` is called. */
void as_edge_drain_expired(struct as_edge *e);
/* Closes every connection at once. Next, when no request is in memory (the fleet has released
 * all requests): as_edge_close, run the loop until it ends, as_edge_free. */
void as_edge_stop(struct as_edge *e);
void as_edge_close(struct as_edge *e);
void as_edge_free(struct as_edge *e);

/* The mailbox of this loop (any thread). */
struct as_mbox *as_edge_mailbox(struct as_edge *e);

const struct as_edge_stat *as_edge_stat(const struct as_edge *e); /* any thread */
const struct as_loop_stat *as_edge_loop_stat(const struct as_edge *e);

#endif
