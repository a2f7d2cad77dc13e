/* edge/conn/conn.h — one client connection, whatever its protocol.
 *
 * conn.c moves bytes between the socket and a protocol, which is a table of operations: conn_tls.c
 * during a TLS handshake, conn_detect.c until the first bytes have shown which one it is, then
 * conn_h1.c (HTTP/1.1) or conn_h2.c (HTTP/2). The protocol calls as_exchange_ops for each request.
 * A connection frees itself after it is closed. Thread: the edge's loop.
 */
#ifndef AS_EDGE_CONN_H
#define AS_EDGE_CONN_H

#include "edge/edge_internal.h"

#define AS_CONN_OUT (512u << 10) /* most bytes in c->out; the rest stays in the protocol */

struct as_conn;

/* Operations of a protocol. Those without a comment are the functions as_conn_… below. open, free,
 * watch, end, expect and receive_into may be NULL: nothing is to be done. */
struct as_conn_protocol {
    bool carries_grpc; /* requests may be gRPC */
    /* The version of HTTP that the open request has: 10, 11 or 20; 0 before there was one. */
    uint8_t (*version)(const struct as_conn *c);
    char handover; /* state of an idle connection for the next dispatcher; 0: cannot be handed over
                    */
    int (*open)(struct as_conn *c);  /* makes it the protocol of c */
    void (*free)(struct as_conn *c); /* calls on_close for every open request */
    void (*on_event)(struct as_conn *c, int events);
    /* Parses n bytes. The caller schedules a flush. */
    void (*feed)(struct as_conn *c, const uint8_t *p, size_t n);
    bool (*send)(struct as_conn *c); /* moves output to c->out; false: the connection was closed */
    bool (*wants_write)(const struct as_conn *c); /* `send` has output, or can parse more input */
    bool (*is_done)(const struct as_conn *c);     /* nothing more is to be read or written */
    bool (*is_idle)(const struct as_conn *c);     /* it has no byte of a request or of an answer */
    void (*watch)(struct as_conn *c); /* after a write: sets what its socket is watched for */
    void (*sweep)(struct as_conn *c, as_ns now);
    void (*drain)(struct as_conn *c, bool final);
    void (*end)(struct as_conn *c, bool calm); /* outputs the last bytes of as_conn_end */
    /* Why it is being closed: as for as_conn_close. *ret_detail: a static text, or NULL. */
    uint32_t (*close_reason)(const struct as_conn *c, const char **ret_detail);
    void (*answer)(struct as_conn *c, uint32_t stream, const struct as_http_answer *a);
    void (*begin)(struct as_conn *c, uint32_t stream, const struct as_http_answer *a);
    void (*write)(struct as_conn *c, uint32_t stream, const struct as_http_piece *piece);
    void (*finish)(struct as_conn *c, uint32_t stream, const struct as_http_header *trailers,
                   uint32_t n_trailers);
    void (*consume)(struct as_conn *c, uint32_t stream, size_t n);
    void (*expect)(struct as_conn *c, uint32_t stream, size_t n);
    void (*receive_into)(struct as_conn *c, uint32_t stream, uint8_t *p, size_t n);
    void (*reset)(struct as_conn *c, uint32_t stream);
    void (*cut)(struct as_conn *c, uint32_t stream);
    size_t (*unsent)(struct as_conn *c, uint32_t stream);
    uint64_t (*sent)(struct as_conn *c, uint32_t stream);
};
extern const struct as_conn_protocol as_conn_handshake, as_conn_detect, as_conn_h1, as_conn_h2;

/* "ADDRESS:PORT"; empty for a unix socket. */
struct as_conn_addresses {
    char peer[64], local[64];
};

struct as_conn {
    struct as_sock sock;
    struct as_task flush;
    struct as_outq out;
    struct as_account *requests, *answers; /* its part of the budgets */
    size_t charged;                        /* bytes of output that are charged to `answers` */
    struct as_edge *edge;
    const struct as_conn_protocol *protocol;
    struct as_conn_tls *tls; /* edge/conn/conn_tls.h; NULL: clear text */
    struct as_list node;
    as_ns opened, ready; /* accepted; requests may come, as the TLS handshake is done, if any */
    as_ns last_active;   /* when the last request ended */
    as_ns last_received; /* bytes from the client */
    as_ns output_since;  /* when the client last took min_progress; valid while out has bytes */
    size_t output_taken; /* bytes that it has taken since then */
    struct as_conn_addresses *addresses; /* NULL: nobody has asked for them */
    uint64_t n_requests;                 /* so far */
    uint32_t n_open;                     /* requests in progress */
    enum as_close_reason close_reason;   /* why it is being closed gracefully */
    bool ending;                         /* nothing more is read; closed after the next write */
    bool eof;      /* the client has shut down its side; its answer is still being sent */
    bool trusted;  /* needs no token: the server's user or root, by a unix socket */
    bool has_user; /* `user` is known: looked up when a request needs it */
    uid_t user;    /* user of the client's process on this machine: io/socket/peer.h */
    union {        /* state of the protocol */
        struct {
            uint8_t n_first; /* bytes of the HTTP/2 preface received */
        } detect;
        struct {
            struct as_h1 *session;
            bool reading_stopped; /* no room for pipelined requests: nothing more is read */
            uint8_t *pipelined;   /* unparsed bytes of requests, charged to `requests` */
            size_t pipelined_at, pipelined_n;
        } h1;
        struct {
            struct as_h2 *session;
            as_ns last_ping; /* to the client */
        } h2;
    };
};

/* Makes a connection of a connected socket; it frees itself after it is closed. tls: it speaks TLS.
 * NULL: fd was closed, because access control refused the client, no handshake can begin now or
 * memory is short. */
struct as_conn *as_conn_accept(struct as_edge *e, int fd, bool tls);
/* conn_h1.c: continues an idle HTTP/1.1 connection of the previous dispatcher. */
int as_conn_h1_resume(struct as_conn *c);
/* Of its socket, as long as it lives. NULL: no memory. */
const struct as_conn_addresses *as_conn_addresses(struct as_conn *c);
/* True: no request, no buffered byte in either direction. Such a socket can be handed over. */
bool as_conn_is_idle(const struct as_conn *c);
/* n bytes were read from the socket. */
void as_conn_received(struct as_conn *c, size_t n);
/* on_event of protocols that read into the edge's buffer and feed it. */
void as_conn_on_event(struct as_conn *c, int events);
/* Closes it at once; counted, and logged if the client caused it. why: an as_close_reason or above
 * AS_CLOSE_BREACH. */
void as_conn_close(struct as_conn *c, uint32_t why);
/* Closes it after a last write, in which HTTP/2 sends GOAWAY; with `calm` ENHANCE_YOUR_CALM and the
 * reason. Not from a callback of h1 or h2. */
void as_conn_end(struct as_conn *c, enum as_close_reason why, bool calm);
/* Closes it with a TCP reset, so that the client does not take a partial answer for a whole one. */
void as_conn_abort(struct as_conn *c);
void as_conn_schedule_flush(struct as_conn *c); /* the protocol has output */
void as_conn_begin_request(struct as_conn *c);
void as_conn_end_request(struct as_conn *c);
/* Enforces the timeouts of the connection; called every sweep. May close it. */
void as_conn_sweep(struct as_conn *c, as_ns now);
/* How long it may read nothing of its output. 0: no limit. */
as_ns as_conn_output_timeout(const struct as_conn *c);
bool as_conn_close_if_stuck(struct as_conn *c, as_ns now); /* true: it was closed */
/* Graceful shutdown in two steps: the first announces it to the client, the second (`final`)
 * refuses further requests. */
static inline void as_conn_drain(struct as_conn *c, bool final)
{
    c->protocol->drain(c, final);
}

/* Answers of a request, for either version of HTTP: see wire/h2/h2.h and wire/h1/h1.h. */
static inline void as_conn_answer(struct as_conn *c, uint32_t stream,
                                  const struct as_http_answer *a)
{
    c->protocol->answer(c, stream, a);
}
static inline void as_conn_begin(struct as_conn *c, uint32_t stream, const struct as_http_answer *a)
{
    c->protocol->begin(c, stream, a);
}
static inline void as_conn_write(struct as_conn *c, uint32_t stream,
                                 const struct as_http_piece *piece)
{
    c->protocol->write(c, stream, piece);
}
/* HTTP/1.1 drops the trailers. */
static inline void as_conn_finish(struct as_conn *c, uint32_t stream,
                                  const struct as_http_header *trailers, uint32_t n_trailers)
{
    c->protocol->finish(c, stream, trailers, n_trailers);
}
static inline void as_conn_consume(struct as_conn *c, uint32_t stream, size_t n)
{
    c->protocol->consume(c, stream, n);
}
/* Widens the stream's window for a body of n bytes. A no-op for HTTP/1.1. */
static inline void as_conn_expect(struct as_conn *c, uint32_t stream, size_t n)
{
    if (c->protocol->expect)
        c->protocol->expect(c, stream, n);
}
/* Sets the buffer for the next n bytes of the body (0: none). p must stay valid until on_close, or
 * until the buffer is removed by n = 0. HTTP/1.1 then reads from the socket into it where possible
 * and calls on_data with a pointer inside of it; otherwise on_data's bytes lie elsewhere, and the
 * owner copies them. n is at most what is left of a body of known length. To be called from
 * on_request, or from the on_data that completed the previous buffer. A no-op for HTTP/2. */
static inline void as_conn_receive_into(struct as_conn *c, uint32_t stream, uint8_t *p, size_t n)
{
    if (c->protocol->receive_into)
        c->protocol->receive_into(c, stream, p, n);
}
static inline uint8_t as_conn_http_version(const struct as_conn *c)
{
    return c->protocol->version(c);
}
static inline void as_conn_reset(struct as_conn *c, uint32_t stream)
{
    c->protocol->reset(c, stream);
}
/* Ends an answer that has begun and cannot go on, so that its client sees that; HTTP/1.1 sends what
 * was written before. */
static inline void as_conn_cut(struct as_conn *c, uint32_t stream)
{
    c->protocol->cut(c, stream);
}
static inline size_t as_conn_unsent(struct as_conn *c, uint32_t stream)
{
    return c->protocol->unsent(c, stream);
}
static inline uint64_t as_conn_sent(struct as_conn *c, uint32_t stream)
{
    return c->protocol->sent(c, stream);
}

extern const struct as_http_ops as_exchange_ops; /* what the protocols call: edge/exchange */

#endif
