/* bench/load_h2.h — one client connection of the load generator: a replay of pre-encoded gRPC
 * calls.
 *
 * Requests are header bytes encoded once and a message of which only an 8-byte stamp changes, so
 * that a call costs well below a microsecond. Answers are judged in full: HTTP status, grpc-status,
 * message length, and every byte of the tensor that must come back, stamp included. HTTP/2 is
 * spoken as far as a client needs it that expects small answers: header blocks in one frame, flow
 * control in both directions, PING, SETTINGS. Anything else ends the connection with a reason.
 */
#ifndef AS_BENCH_LOAD_H2_H
#define AS_BENCH_LOAD_H2_H

#include "base/buf.h"
#include "base/loghist.h"

/* What every request looks like; made once, shared by all connections. */
struct as_load_shape {
    uint32_t streams;        /* in flight per connection; open loop: at most */
    bool is_open;            /* calls start when as_load_conn_start says so, not after each other */
    struct as_buf head;      /* header block of a connection's first request */
    struct as_buf head_next; /* of later ones: it refers to what the first put into the table */
    struct as_buf body;      /* gRPC prefix and message; the last tensor's bytes are its end */
    size_t payload;          /* bytes of a tensor, at least 8 */
    uint8_t *answer;    /* the tensor that must come back, at the answer's end; has no stamp yet */
    float stamp_add[2]; /* what the answer's stamp is more than the request's */
};

struct as_load_options {
    const char *authority, *model;
    uint32_t streams;
    bool is_open;
    uint32_t inputs; /* 1: "x"; 2: "a" and "b" */
    bool is_sum;     /* the answer must be a + b; else the last input */
    size_t payload;
    uint32_t timeout_ms; /* 0: no grpc-timeout */
};

void as_load_shape_init(struct as_load_shape *s, const struct as_load_options *o);
void as_load_shape_fini(struct as_load_shape *s);

/* Counts of all connections. The driver resets hist, ok and failed when the warm-up is over. */
struct as_load_tally {
    struct as_loghist hist;
    as_ns count_from; /* calls that began earlier are neither in hist nor in ok */
    uint64_t ok, failed;
    uint64_t started, finished;
    uint64_t start_max;    /* no more than this are started in total */
    char first_fault[256]; /* why the first failed answer was refused; "" if none */
};

struct as_load_conn;

struct as_load_conn *as_load_conn_new(int fd, const struct as_load_shape *s,
                                      struct as_load_tally *t);
void as_load_conn_free(struct as_load_conn *c); /* closes the socket */
int as_load_conn_fd(const struct as_load_conn *c);

/* Open loop: starts a call whose latency counts from `due`; the next turn sends it. False: no
 * stream is free. */
bool as_load_conn_start(struct as_load_conn *c, as_ns due);
bool as_load_conn_has_queue(const struct as_load_conn *c); /* calls that a turn would send */

/* One turn: at most one read and one write. *now is in: the time before; out: after the read.
 * False: the connection is over; its calls in flight have been counted as failed. */
bool as_load_conn_turn(struct as_load_conn *c, bool readable, as_ns *now);
bool as_load_conn_is_blocked(const struct as_load_conn *c); /* wants to write more */

#endif
