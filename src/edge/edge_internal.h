/* edge/edge_internal.h — what the files of the client side share: the edge, its connections, its
 * pool.
 */
#ifndef AS_EDGE_EDGE_INTERNAL_H
#define AS_EDGE_EDGE_INTERNAL_H

#include "edge/edge.h"
#include "edge/conn/linger.h"
#include "edge/conn/connection_handover.h"
#include "edge/exchange/compress.h"
#include "io/loop/helper.h"
#include "io/loop/sock.h"

#define AS_EDGE_RX           (128u << 10) /* bytes of one read from a connection */
#define AS_EDGE_LISTENERS    8u
#define AS_EXCHANGE_POOL_MIN 64u /* free exchanges that a log_limits server keeps */

struct as_exchange;

/* One line a second for each kind of event: a flood of clients is no flood of lines. */
#define AS_EDGE_LOG_REFUSED      AS_CLOSE_REASONS /* behind the reasons for closing */
#define AS_EDGE_LOG_STALLED      (AS_CLOSE_REASONS + 1)
#define AS_EDGE_LOG_OTHER_USER   (AS_CLOSE_REASONS + 2)
#define AS_EDGE_LOG_ACCESS       (AS_CLOSE_REASONS + 3)
#define AS_EDGE_LOG_REGISTRATION (AS_CLOSE_REASONS + 4)
#define AS_EDGE_LOGS             (AS_CLOSE_REASONS + 5)

struct as_listener { /* own duplicate of a shared descriptor */
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
    struct as_list new_conns; /* connections without a request so far, in order of arrival */
    struct as_list conns;     /* the others; idle ones in the order of becoming idle */
    uint32_t n_conns;
    struct as_log_ratelimit log_limits[AS_EDGE_LOGS], accept_log_limit;
    struct as_list uploads, new_answers, answers; /* edge/exchange/client_timeouts.h */
    as_ns last_sweep;                             /* when the last sweep was, or should have been */
    uint64_t refused_requests, refused_answers;   /* of the budgets, at the last sweep … */
    bool short_of_requests, short_of_answers;     /* … since when something was refused */
    as_ns sweep_every; /* what is looked at without an event of its own: timeouts of the clients */
    uint32_t canary_turn, mirror_turn; /* of as_traffic_point: canaries; copies */
    struct as_exchange *pool;          /* free ones */
    uint64_t pool_low;                 /* fewest in the pool since the last trim */
    struct as_list streams;            /* streaming calls: edge/grpc/stream.h */
    struct as_task stream_turn;        /* due while one of them has had its share of a turn */
    struct as_compressor compressor;   /* compressed messages */
    struct as_json *json;              /* NULL until the first request in JSON */
    struct as_helper helper;    /* for what is too large for a turn: edge/exchange/offload.h */
    struct as_json *large_json; /* the helper's; NULL until the first large request in JSON */
    struct as_listener listeners[AS_EDGE_LISTENERS];
    uint32_t n_listeners;
    bool loopback;         /* they are reached from this machine only */
    struct as_timer sweep; /* time-outs of connections; set while there are any */
    bool draining;
    bool ending;       /* the server drains: nothing is ready, whether this edge serves on or not */
    as_ns drain_final; /* when the final GOAWAY goes out; AS_NEVER: sent */
    void (*drained)(void *arg);
    void *drained_arg;
    uint8_t *rx; /* read buffer, shared: h1 and h2 copy what they keep */
    struct as_linger linger;
    struct as_connection_handover handover;
};

struct as_conn {
    struct as_sock sock;
    struct as_task flush;
    struct as_outq out;
    struct as_account *requests, *answers; /* what it holds of the budgets */
    size_t charged;                        /* of `answers`: for `out`, while it waits */
    struct as_edge *edge;
    struct as_h2 *h2; /* or h1; neither: its first bytes have not said which */
    struct as_h1 *h1;
    struct as_list node;
    as_ns opened, last_active;      /* last_active: last time that a request was there */
    as_ns last_received, last_ping; /* last bytes from the client; our last ping */
    as_ns output_since;             /* when it last took min_progress; valid while out has bytes */
    size_t output_taken;            /* bytes that it took since */
    uint64_t n_requests;            /* ever */
    uint32_t n_open;                /* requests on it */
    enum as_close_reason why;       /* the reason of a graceful end */
    bool ending;                    /* no more is read; closed with the next write */
    bool eof; /* HTTP/1.1: the client has ended its side, and its answer is on its way */
    bool reading_stopped; /* HTTP/1.1: there was no room for what it pipelines; nothing is read */
    bool trusted;         /* needs no token: of our own user, by a unix socket */
    bool has_user;        /* `user` is known; asked for by requests that need it */
    uid_t user;           /* whose the client is, on this machine: io/socket/peer.h */
    uint8_t n_first;      /* bytes of HTTP/2's preface that came, until the protocol is known */
    uint8_t *pipelined;   /* HTTP/1.1: what was read of requests that have to wait, charged */
    size_t pipelined_at, pipelined_n;
};

/* A connected socket; the connection lives until it ends by itself. NULL: it was closed, since the
 * door refuses it, or memory is short. */
struct as_conn *as_conn_accept(struct as_edge *e, int fd);
/* As well, when there is room for one more connection; NULL: there was none, either. */
struct as_conn *as_edge_admit(struct as_edge *e, int fd);
/* Nothing of it is here but the socket: no request, no byte of one, nothing that it has to hear. */
bool as_conn_is_idle(const struct as_conn *c);
/* Bytes from the socket. */
void as_conn_received(struct as_conn *c, size_t n);
/* At once; counted and, when the client is to blame, logged. why: as_close_reason_name. */
void as_conn_close(struct as_conn *c, uint32_t why);
/* As well, but not from a callback of h1 or h2: the client of HTTP/2 hears GOAWAY if it takes it
 * now. `calm`: with the reason and ENHANCE_YOUR_CALM. */
void as_conn_end(struct as_conn *c, enum as_close_reason why, bool calm);
/* As well, in the middle of an answer, so that its client does not take it for the whole. */
void as_conn_abort(struct as_conn *c);
void as_conn_schedule_flush(struct as_conn *c); /* h1 or h2 has something to say */
/* The server ends. First the client is told, then (`final`) nothing new is taken. */
void as_conn_drain(struct as_conn *c, bool final);
void as_conn_begin_request(struct as_conn *c);
void as_conn_end_request(struct as_conn *c);
/* Once a second: is the client there, and does it move? May close it. */
void as_conn_sweep(struct as_conn *c, as_ns now);
bool as_conn_close_if_stuck(struct as_conn *c, as_ns now); /* and closed for that */
void as_conn_free_pipelined(struct as_conn *c);            /* HTTP/1.1: what waits is forgotten */

/* conn_h1.c, conn_h2.c: the two protocols of conn.c. Each begins with the first n bytes read, that
 * lie at p. */
int as_conn_h1_open(struct as_conn *c);
int as_conn_h1_resume(struct as_conn *c); /* requests have come on it, elsewhere */
int as_conn_h2_open(struct as_conn *c);
void as_conn_h1_feed(struct as_conn *c, const uint8_t *p, size_t n);
void as_conn_h2_feed(struct as_conn *c, const uint8_t *p, size_t n);
void as_conn_h1_on_event(struct as_conn *c, int events);
/* Fills c->out. False: the connection was closed. */
bool as_conn_h1_send(struct as_conn *c);
void as_conn_h1_update_events(struct as_conn *c); /* what of the socket matters now */
void as_conn_h1_sweep(struct as_conn *c, as_ns now);
void as_conn_h2_sweep(struct as_conn *c, as_ns now);
#define AS_CONN_OUT (512u << 10) /* bytes that wait in c->out; more is not taken from h1 and h2 */
/* What a request says to its client, whichever HTTP it speaks: as in wire/h2/h2.h and wire/h1/h1.h.
 */
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
/* HTTP/1.1 has no trailers for its answers. */
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
/* Widens the stream's window; HTTP/1.1 has none. */
static inline void as_conn_expect(struct as_conn *c, uint32_t stream, size_t n)
{
    if (c->h2)
        as_h2_widen_window(c->h2, stream, n);
}
/* The next n bytes of the body are wanted at p (valid until on_close, or until it is taken back by
 * n = 0): where the protocol can, it receives them there, and on_data is called with p inside of
 * that place; else on_data's bytes lie elsewhere, and the owner copies. n is at most what is left
 * of a body of known length. In on_request, or in an on_data that was given the last bytes of the
 * place before. A no-op for HTTP/2. */
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
void as_edge_conn_closed(struct as_edge *e); /* bookkeeping after a connection */

/* May a line of this kind be written now? ret_skipped: how many were not since the last one. */
bool as_edge_may_log(struct as_edge *e, uint32_t log_limits, uint64_t *ret_skipped);

extern const struct as_http_ops as_exchange_ops; /* the requests' side of h1's and h2's callbacks */

#endif
