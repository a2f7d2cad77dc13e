/* edge/edge_internal.h — the edge and its connections, for the files of src/edge only.
 *
 * An edge owns its connections and a pool of free exchanges; a connection owns its HTTP/1.1 or
 * HTTP/2 state. conn/conn.c implements as_conn_…, conn/conn_h1.c and conn/conn_h2.c its two
 * protocols. Thread: the edge's loop.
 */
#ifndef AS_EDGE_EDGE_INTERNAL_H
#define AS_EDGE_EDGE_INTERNAL_H

#include "edge/conn/connection_handover.h"
#include "edge/conn/linger.h"
#include "edge/edge.h"
#include "edge/exchange/compress.h"
#include "io/loop/helper.h"
#include "io/loop/sock.h"

#define AS_EDGE_RX           (128u << 10) /* bytes of one read from a connection */
#define AS_EDGE_LISTENERS    8u
#define AS_EXCHANGE_POOL_MIN 64u /* free exchanges that an idle edge keeps */

struct as_exchange;

/* Kinds of log lines that are limited to one a second each. The first AS_CLOSE_REASONS kinds are
 * the reasons for closing a connection. */
#define AS_EDGE_LOG_REFUSED      AS_CLOSE_REASONS
#define AS_EDGE_LOG_STALLED      (AS_CLOSE_REASONS + 1)
#define AS_EDGE_LOG_OTHER_USER   (AS_CLOSE_REASONS + 2)
#define AS_EDGE_LOG_ACCESS       (AS_CLOSE_REASONS + 3)
#define AS_EDGE_LOG_REGISTRATION (AS_CLOSE_REASONS + 4)
#define AS_EDGE_LOGS             (AS_CLOSE_REASONS + 5)

struct as_listener { /* sock: a duplicate of the shared descriptor */
    struct as_sock sock;
    struct as_edge *edge;
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
    struct as_list streams;            /* streaming calls: edge/grpc/stream.h */
    struct as_task stream_turn;        /* due while a stream has used up its share of a turn */
    struct as_compressor compressor;   /* compresses and inflates messages */
    struct as_json *json;              /* NULL until the first request in JSON */
    struct as_helper helper;           /* a thread for large work: edge/exchange/offload.h */
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
    uint8_t *rx; /* read buffer of all connections: h1 and h2 copy what they need later */
    struct as_linger linger;
    struct as_connection_handover handover;
};

struct as_conn {
    struct as_sock sock;
    struct as_task flush;
    struct as_outq out;
    struct as_account *requests, *answers; /* its part of the budgets */
    size_t charged;                        /* bytes of `out` that are charged to `answers` */
    struct as_edge *edge;
    struct as_h2 *h2; /* h2 or h1 is set once the first bytes have shown the protocol */
    struct as_h1 *h1;
    struct as_list node;
    as_ns opened, last_active;      /* last_active: when the last request ended */
    as_ns last_received, last_ping; /* bytes from the client; a ping to it */
    as_ns output_since;  /* when the client last took min_progress; valid while out has bytes */
    size_t output_taken; /* bytes that it has taken since then */
    uint64_t n_requests; /* so far */
    uint32_t n_open;     /* requests in progress */
    enum as_close_reason close_reason; /* why it is being closed gracefully */
    bool ending;                       /* nothing more is read; closed after the next write */
    bool eof; /* HTTP/1.1: the client has shut down its side; its answer is still being sent */
    bool reading_stopped; /* HTTP/1.1: no room for pipelined requests: nothing more is read */
    bool trusted;         /* needs no token: the server's user or root, by a unix socket */
    bool has_user;        /* `user` is known: looked up when a request needs it */
    uid_t user;           /* user of the client's process on this machine: io/socket/peer.h */
    uint8_t n_first;      /* bytes of the HTTP/2 preface received, until the protocol is known */
    uint8_t *pipelined; /* HTTP/1.1: unparsed bytes of pipelined requests, charged to `requests` */
    size_t pipelined_at, pipelined_n;
};

/* Makes a connection of a connected socket; it frees itself after it is closed. NULL: fd was
 * closed, because access control refused the client or memory is short. */
struct as_conn *as_conn_accept(struct as_edge *e, int fd);
/* The same within max_connections: evicts an idle connection if necessary. NULL also when none
 * could be evicted. */
struct as_conn *as_edge_admit(struct as_edge *e, int fd);
/* True: no request, no buffered byte in either direction. Such a socket can be handed over. */
bool as_conn_is_idle(const struct as_conn *c);
/* n bytes were read from the socket. */
void as_conn_received(struct as_conn *c, size_t n);
/* Closes it at once; counted, and logged if the client caused it. why: an as_close_reason or above
 * AS_CLOSE_BREACH. */
void as_conn_close(struct as_conn *c, uint32_t why);
/* Closes it after a last write, in which HTTP/2 sends GOAWAY; with `calm` ENHANCE_YOUR_CALM and the
 * reason. Not from a callback of h1 or h2. */
void as_conn_end(struct as_conn *c, enum as_close_reason why, bool calm);
/* Closes it with a TCP reset, so that the client does not take a partial answer for a whole one. */
void as_conn_abort(struct as_conn *c);
void as_conn_schedule_flush(struct as_conn *c); /* h1 or h2 has output */
/* Graceful shutdown in two steps: the first announces it to the client, the second (`final`)
 * refuses further requests. */
void as_conn_drain(struct as_conn *c, bool final);
void as_conn_begin_request(struct as_conn *c);
void as_conn_end_request(struct as_conn *c);
/* Enforces the timeouts of the connection; called every sweep. May close it. */
void as_conn_sweep(struct as_conn *c, as_ns now);
bool as_conn_close_if_stuck(struct as_conn *c, as_ns now); /* true: it was closed */
void as_conn_free_pipelined(struct as_conn *c);

/* conn_h1.c, conn_h2.c: the two protocols of conn.c. Each parses n bytes at p. */
int as_conn_h1_open(struct as_conn *c);
int as_conn_h1_resume(struct as_conn *c); /* an HTTP/1.1 connection of the previous dispatcher */
int as_conn_h2_open(struct as_conn *c);
void as_conn_h1_feed(struct as_conn *c, const uint8_t *p, size_t n);
void as_conn_h2_feed(struct as_conn *c, const uint8_t *p, size_t n);
void as_conn_h1_on_event(struct as_conn *c, int events);
/* Moves output to c->out. False: the connection was closed. */
bool as_conn_h1_send(struct as_conn *c);
void as_conn_h1_update_events(struct as_conn *c);
void as_conn_h1_sweep(struct as_conn *c, as_ns now);
void as_conn_h2_sweep(struct as_conn *c, as_ns now);
#define AS_CONN_OUT (512u << 10) /* most bytes in c->out; the rest stays in h1 and h2 */
/* Answers of a request, for either version of HTTP: see wire/h2/h2.h and wire/h1/h1.h. */
static inline void as_conn_answer(struct as_conn *c, uint32_t stream,
                                  const struct as_http_answer *a)
{
    if (c->h2)
        as_h2_answer(c->h2, stream, a);
    else
        as_h1_answer(c->h1, stream, a);
}
static inline void as_conn_begin(struct as_conn *c, uint32_t stream, const struct as_http_answer *a)
{
    if (c->h2)
        as_h2_begin(c->h2, stream, a);
    else
        as_h1_begin(c->h1, stream, a);
}
static inline void as_conn_write(struct as_conn *c, uint32_t stream,
                                 const struct as_http_piece *piece)
{
    if (c->h2)
        as_h2_write(c->h2, stream, piece);
    else
        as_h1_write(c->h1, stream, piece);
}
/* HTTP/1.1 drops the trailers. */
static inline void as_conn_finish(struct as_conn *c, uint32_t stream,
                                  const struct as_http_header *trailers, uint32_t n_trailers)
{
    if (c->h2)
        as_h2_finish(c->h2, stream, trailers, n_trailers);
    else
        as_h1_finish(c->h1, stream);
}
static inline void as_conn_consume(struct as_conn *c, uint32_t stream, size_t n)
{
    if (c->h2)
        as_h2_consume(c->h2, stream, n);
    else
        as_h1_consume(c->h1, stream, n);
}
/* Widens the stream's window for a body of n bytes. A no-op for HTTP/1.1. */
static inline void as_conn_expect(struct as_conn *c, uint32_t stream, size_t n)
{
    if (c->h2)
        as_h2_widen_window(c->h2, stream, n);
}
/* Sets the buffer for the next n bytes of the body (0: none). p must stay valid until on_close, or
 * until the buffer is removed by n = 0. HTTP/1.1 then reads from the socket into it where possible
 * and calls on_data with a pointer inside of it; otherwise on_data's bytes lie elsewhere, and the
 * owner copies them. n is at most what is left of a body of known length. To be called from
 * on_request, or from the on_data that completed the previous buffer. A no-op for HTTP/2. */
static inline void as_conn_receive_into(struct as_conn *c, uint32_t stream, uint8_t *p, size_t n)
{
    if (c->h1)
        as_h1_set_body_buffer(c->h1, stream, p, n);
}
static inline void as_conn_reset(struct as_conn *c, uint32_t stream)
{
    if (c->h2)
        as_h2_reset(c->h2, stream, AS_H2_CANCEL);
    else
        as_h1_reset(c->h1, stream);
}
static inline size_t as_conn_unsent(struct as_conn *c, uint32_t stream)
{
    return c->h2 ? as_h2_bytes_unsent(c->h2, stream) : as_h1_bytes_unsent(c->h1, stream);
}
static inline uint64_t as_conn_sent(struct as_conn *c, uint32_t stream)
{
    return c->h2 ? as_h2_bytes_sent(c->h2, stream) : as_h1_bytes_sent(c->h1);
}
void as_edge_conn_closed(struct as_edge *e); /* counts a closed connection; ends the drain */

/* True: a line of this kind may be logged now. *ret_skipped: lines skipped since the last one. */
bool as_edge_may_log(struct as_edge *e, uint32_t kind, uint64_t *ret_skipped);

extern const struct as_http_ops as_exchange_ops; /* callbacks of h1 and h2 */

#endif
