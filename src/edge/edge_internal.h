/* edge/edge_internal.h — the edge, for the files of src/edge only.
 *
 * An edge owns its connections (edge/conn/conn.h) and a pool of free exchanges. Thread: the edge's
 * loop.
 */
#ifndef AS_EDGE_EDGE_INTERNAL_H
#define AS_EDGE_EDGE_INTERNAL_H

#include "core/keys/key_cache.h"
#include "edge/conn/connection_handover.h"
#include "edge/conn/linger.h"
#include "edge/edge.h"
#include "edge/exchange/compress.h"
#include "io/loop/helper.h"
#include "io/loop/sock.h"

#define AS_EDGE_RX        (128u << 10) /* bytes of one read from a connection */
#define AS_EDGE_LISTENERS 32u
/* After this time an unsent answer waits for its client: from then on progress is checked. */
#define AS_EDGE_FIRST_CHECK  AS_SEC
#define AS_EXCHANGE_POOL_MIN 64u /* free exchanges that an idle edge keeps */

struct as_conn;
struct as_exchange;

/* Kinds of log lines that are limited to one a second each. The first AS_CLOSE_REASONS kinds are
 * the reasons for closing a connection. */
#define AS_EDGE_LOG_REFUSED      AS_CLOSE_REASONS
#define AS_EDGE_LOG_STALLED      (AS_CLOSE_REASONS + 1)
#define AS_EDGE_LOG_OTHER_USER   (AS_CLOSE_REASONS + 2)
#define AS_EDGE_LOG_ACCESS       (AS_CLOSE_REASONS + 3)
#define AS_EDGE_LOG_REGISTRATION (AS_CLOSE_REASONS + 4)
#define AS_EDGE_LOG_CALL         (AS_CLOSE_REASONS + 5) /* plain HTTP, then gRPC */
#define AS_EDGE_LOG_ANSWER       (AS_CLOSE_REASONS + 7)
#define AS_EDGE_LOG_WEBSOCKET    (AS_CLOSE_REASONS + 8)
#define AS_EDGE_LOG_KEY          (AS_CLOSE_REASONS + 9)
#define AS_EDGE_LOGS             (AS_CLOSE_REASONS + 10)

struct as_listener { /* sock: a duplicate of the shared descriptor */
    struct as_sock sock;
    bool tls;              /* its connections speak TLS */
    struct as_task accept; /* due while clients wait */
    struct as_edge *edge;
};

/* TLS handshakes in progress: edge/conn/conn_tls.h. */
struct as_handshakes {
    struct as_edge *edge;
    /* for bytes of their clients; silent for longest first */
    struct as_list silent;  /* clients that have not said hello, or not all of it */
    struct as_list waiting; /* clients that were answered */
    struct as_list due;     /* a step can be taken; oldest first */
    struct as_task turn;    /* takes steps; pending while `due` has entries */
};

struct as_edge {
    struct as_loop *loop;
    struct as_fleet_client client;
    struct as_edge_conf conf;
    struct as_edge_budgets *budgets;
    const struct as_log *log;
    struct as_edge_stat stat;
    struct as_list new_conns; /* connections without a request so far, oldest first */
    struct as_list conns;     /* the others, in the order of their last request's end */
    uint32_t n_conns;
    struct as_log_ratelimit log_limits[AS_EDGE_LOGS], accept_log_limit;
    struct as_list uploads, new_answers, answers; /* edge/exchange/client_timeouts.h */
    as_ns last_sweep;                             /* time of the last sweep */
    uint64_t refused_requests, refused_answers;   /* refusals of the budgets up to the last sweep */
    bool short_of_requests, short_of_answers;     /* there were new ones before the last sweep */
    as_ns sweep_every; /* interval of the sweeps, which enforce the timeouts of clients */
    uint32_t canary_turn, mirror_turn; /* counters for as_traffic_point */
    struct as_exchange *pool;          /* free exchanges */
    uint64_t pool_low;                 /* least size of the pool since the last trim */
    uint32_t pool_generation; /* exchanges of an older one are freed, and not kept in the pool */
    bool pool_overflowed;     /* exchanges were freed since the last trim: the pool was full */
    struct as_http_header over_limit[3]; /* fields of an answer without an exchange, until it is
                                            written in the same turn: exchange/cors.h */
    struct as_list websockets;           /* edge/websocket/websocket.h */
    bool websockets_drained;             /* new ones are closed at once */
    struct as_list streams;              /* streaming calls: edge/grpc/stream.h */
    struct as_task stream_turn;          /* due while a stream has used up its share of a turn */
    struct as_key_cache keys;            /* of --api-keys */
    struct as_compressor compressor;     /* compresses and inflates messages */
    struct as_json *json;                /* NULL until the first request in JSON */
    struct as_helper helper;             /* a thread for large work: edge/exchange/offload.h */
    struct as_json *large_json; /* the helper's; NULL until the first large request in JSON */
    struct as_listener listeners[AS_EDGE_LISTENERS];
    uint32_t n_listeners;
    bool loopback;         /* a listener is bound to a loopback address */
    struct as_timer sweep; /* set while there are connections */
    bool draining;
    bool shutting_down; /* the server shuts down: health reports NOT_SERVING */
    as_ns drain_final;  /* when the final GOAWAY is sent; AS_NEVER: it was, or there is no drain */
    void (*drained)(void *arg);
    void *drained_arg;
    uint8_t *rx; /* read buffer of all connections, which copy what they need later */
    struct as_handshakes handshakes;
    struct as_tls_buffer *tls_buffer; /* NULL until the first connection with TLS */
    struct as_linger linger;
    struct as_connection_handover handover;
};

/* Makes a connection of a connected socket within max_connections: evicts an idle connection if
 * necessary. NULL: fd was closed, because none could be evicted, access control refused the client
 * or memory is short. */
struct as_conn *as_edge_admit(struct as_edge *e, int fd, bool tls);
void as_edge_conn_closed(struct as_edge *e); /* counts a closed connection; ends the drain */

/* The event of a refusal by this edge's interface, for the log. */
const char *as_edge_refusal_event(const struct as_edge *e);

/* What health reports, with as_edge_is_ready. */
bool as_edge_is_model_ready(const struct as_edge *e, const struct as_model *m);

/* True: a line of this kind may be logged now. *ret_skipped: lines skipped since the last one. */
bool as_edge_may_log(struct as_edge *e, uint32_t kind, uint64_t *ret_skipped);

#endif
