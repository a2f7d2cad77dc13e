/* wire/h2/h2_guard.h — limits on what a client may do that costs the server more than the client.
 *
 * Scans the frame heads of one connection before nghttp2 parses them, and counts: token buckets for
 * resets, faults, control frames, empty frames and window updates; limits on the size of a header
 * block; and gRPC's rule for pings. Also finds protocol errors that nghttp2 does not report: frames
 * after the client's own end of a stream (wire/h2/h2_closed_streams), and invalid PRIORITY frames
 * (RFC 9113 §6.3, RFC 7540 §5.3.1), which nghttp2 does not read when priorities are off. Does not
 * use nghttp2; the time is passed in (ns, any origin).
 * Sources: CVE-2023-44487 (rapid reset), CVE-2025-8671 (MadeYouReset), CVE-2019-9511…9518 (ping,
 * settings, empty frames), CVE-2024-27316 and related ones (CONTINUATION), gRPC proposal A8
 * (pings).
 * Thread: that of the connection.
 */
#ifndef AS_WIRE_H2_GUARD_H
#define AS_WIRE_H2_GUARD_H

#include "wire/h2/h2_closed_streams.h"

enum as_h2_breach {
    AS_H2_NO_BREACH,
    AS_H2_PROTOCOL,      /* violated the protocol: found by nghttp2, or `code` is set */
    AS_H2_RESETS,        /* cancelled too many streams */
    AS_H2_FAULTS,        /* made the server reset too many streams */
    AS_H2_PINGS,         /* more pings than gRPC's rule allows */
    AS_H2_SETTINGS,      /* too many control frames; the last one decides between these three */
    AS_H2_PRIORITIES,    /* PRIORITY and PRIORITY_UPDATE */
    AS_H2_CONTROL,       /* PING, GOAWAY, frames of unknown type */
    AS_H2_EMPTY,         /* frames without a payload that end nothing */
    AS_H2_WINDOW,        /* too many window updates for the data that was sent */
    AS_H2_CONTINUATIONS, /* too many frames of one header block */
    AS_H2_HEADERS,       /* too many bytes of one header block, encoded or decoded */
    AS_H2_BREACHES
};
const char *as_h2_breach_name(enum as_h2_breach b); /* "rapid_reset", for counters and logs */

struct as_h2_rate {
    uint32_t burst; /* at once; 0: no limit */
    uint32_t rate;  /* more per second; at least 1 */
};

struct as_h2_limits {
    struct as_h2_rate resets; /* received RST_STREAM; a call that ends normally gives one back */
    /* A reset of a stream that was open for at least this long is given back too: clients whose
     * deadlines expire while nothing is answered cancel everything. 0: every reset counts. */
    as_ns reset_patience;
    struct as_h2_rate faults; /* RST_STREAM that was sent because the client violated a rule */
    /* SETTINGS, PING (except for the first after each answer), PRIORITY, GOAWAY, unknown types;
     * also acknowledgements of our frames */
    struct as_h2_rate control;
    struct as_h2_rate empty;    /* DATA, HEADERS, CONTINUATION without a payload that end nothing */
    struct as_h2_rate window;   /* WINDOW_UPDATE; requests and frames of answers give some back */
    uint32_t max_continuations; /* CONTINUATION frames after one HEADERS; 0: no limit */
    uint32_t max_header_block;  /* bytes of these frames together; 0: no limit */
    as_ns ping_interval;        /* minimum between two pings while calls are open; 0: any */
    as_ns idle_ping_interval;   /* the same while no call is open; 0: any */
    uint32_t ping_strikes;      /* pings that may come too early, before one ends it; 0: any */
};

/* A token bucket. Credit is counted in ns: a token costs the time that it takes to earn it. */
struct as_h2_bucket {
    uint64_t credit, most, cost; /* most == 0: no limit */
    as_ns at;                    /* the time for which `credit` is valid */
};

struct as_h2_guard {
    struct as_h2_limits limits;
    struct as_h2_bucket resets, faults, control, empty, window;
    enum as_h2_breach breach; /* the first breach; nothing is checked after it */
    uint32_t code;            /* error code of RFC 9113 for AS_H2_PROTOCOL; else 0 */
    struct as_h2_closed_streams closed_streams;
    uint32_t skip;   /* bytes until the next frame head; at first those of the preface */
    uint8_t head[9]; /* a frame head that came in pieces */
    uint8_t n_head;
    bool got_preface;    /* the preface and the first frame are complete */
    bool framed;         /* a frame has begun */
    bool in_block;       /* between the first and the last byte of a header block */
    bool block_ends;     /* the current frame has END_HEADERS */
    bool answering;      /* a frame of an answer was sent since the last ping */
    bool padded;         /* the next byte is the pad length of a short DATA frame */
    uint8_t n_last;      /* the next bytes: so many of the last stream of a GOAWAY */
    uint8_t n_parent;    /* the next bytes: so many of the stream that a PRIORITY names */
    uint32_t parent;     /* the value of those that have come */
    uint32_t stream;     /* the stream of that PRIORITY */
    uint32_t n_blocks;   /* header blocks since the owner has set it to 0 */
    uint32_t n_cont;     /* CONTINUATION frames of the current block */
    uint64_t block_size; /* bytes of the current block */
    as_ns block_since;   /* when the block began; valid while in_block */
    as_ns last_ping;     /* AS_NEVER: none yet */
    uint32_t strikes;
};

void as_h2_guard_init(struct as_h2_guard *g, const struct as_h2_limits *limits, as_ns now);

/* Scans the next bytes of the connection; calls: how many are open when p[0] is reached. Returns
 * how many of the bytes may be passed to nghttp2 now. That is n, or less: when `breach` was set
 * (the offending frame is left out); when a ping, or the last stream of a GOAWAY (n_last is set),
 * comes next; when the returned bytes are such a last stream (n_last was set); or when n_blocks has
 * reached AS_H2_REQUESTS_PER_RECV. Pass these bytes on and call again with the rest. 0 is returned
 * in these cases only. */
#define AS_H2_REQUESTS_PER_RECV 64u
size_t as_h2_guard_scan(struct as_h2_guard *g, const uint8_t *p, size_t n, as_ns now,
                        uint32_t calls);

/* The server has reset a stream for a fault of the client's, or refused one (which counts as a
 * reset by the client). */
void as_h2_guard_stream_fault(struct as_h2_guard *g, as_ns now);
void as_h2_guard_stream_refused(struct as_h2_guard *g, as_ns now);

static inline void as_h2_bucket_add(struct as_h2_bucket *b, uint64_t credit)
{
    b->credit = AS_MIN(b->most, b->credit + credit);
}

/* A request has begun. Gives back two window updates, for clients that open the windows of the
 * stream and of the connection at once. */
static inline void as_h2_guard_request_opened(struct as_h2_guard *g)
{
    as_h2_bucket_add(&g->window, 2 * g->window.cost);
}

/* A call ended normally. */
static inline void as_h2_guard_call_succeeded(struct as_h2_guard *g)
{
    as_h2_bucket_add(&g->resets, g->resets.cost);
}

/* The client has cancelled a call that had been open for `age`. */
static inline void as_h2_guard_call_cancelled(struct as_h2_guard *g, as_ns age)
{
    if (g->limits.reset_patience && age >= g->limits.reset_patience)
        as_h2_bucket_add(&g->resets, g->resets.cost);
}

/* HEADERS or DATA of an answer was sent. Gives back four window updates: enough for clients that
 * send two for each frame, for stream and connection. */
static inline void as_h2_guard_answer_sent(struct as_h2_guard *g)
{
    g->answering = true;
    as_h2_bucket_add(&g->window, 4 * g->window.cost);
}

#endif
