/* wire/h2/h2_guard.h — what a client may do that costs us more than it costs the client.
 *
 * Walks over the frame heads of one connection before HTTP/2 sees them and keeps count: token
 * buckets for resets, faults, control frames, empty frames and window updates, bounds on a header
 * block, and gRPC's rule for pings. Also finds the breaches that nghttp2 lets pass: frames behind
 * the client's own end of a stream (wire/h2/h2_closed_streams), and senseless PRIORITY (RFC 9113
 * §6.3, RFC 7540 §5.3.1), which nghttp2 does not read when priorities are off. Knows nothing of
 * nghttp2; time is passed in (ns, any origin). Sources: CVE-2023-44487 (rapid reset), CVE-2025-8671
 * (MadeYouReset), CVE-2019-9511…9518 (ping, settings, empty frames), CVE-2024-27316 and kin
 * (CONTINUATION), gRPC proposal A8 (pings). Thread: that of the connection.
 */
#ifndef AS_WIRE_H2_GUARD_H
#define AS_WIRE_H2_GUARD_H

#include "wire/h2/h2_closed_streams.h"

enum as_h2_breach {
    AS_H2_NO_BREACH,
    AS_H2_PROTOCOL,      /* broke the protocol itself: what nghttp2 says, or code says */
    AS_H2_RESETS,        /* took back too many streams */
    AS_H2_FAULTS,        /* made us reset too many streams */
    AS_H2_PINGS,         /* more pings than gRPC's rule allows */
    AS_H2_SETTINGS,      /* these three: too many control frames, by the last straw */
    AS_H2_PRIORITIES,    /* PRIORITY and PRIORITY_UPDATE */
    AS_H2_CONTROL,       /* PING, GOAWAY, frames of unknown type */
    AS_H2_EMPTY,         /* frames without a payload and without an end */
    AS_H2_WINDOW,        /* window updates without data to account for */
    AS_H2_CONTINUATIONS, /* pieces of one header block */
    AS_H2_HEADERS,       /* bytes of one header block, as sent or as unpacked */
    AS_H2_BREACHES
};
const char *as_h2_breach_name(enum as_h2_breach b); /* "rapid_reset": for counters and logs */

struct as_h2_rate {
    uint32_t burst; /* at once; 0: no limit */
    uint32_t rate;  /* more per second; at least 1 */
};

struct as_h2_limits {
    struct as_h2_rate resets; /* RST_STREAM received; a call that ends well gives one back */
    /* One of a stream that was open for so long gives it back too: clients whose deadlines pass
     * while nothing is answered take back all that they ask. 0: all count. */
    as_ns reset_patience;
    struct as_h2_rate faults; /* RST_STREAM sent because the client broke a rule */
    /* SETTINGS, PING (but for the first after each answer), PRIORITY, GOAWAY, unknown; answers to
     * ours too */
    struct as_h2_rate control;
    struct as_h2_rate empty;    /* DATA, HEADERS, CONTINUATION that carry and end nothing */
    struct as_h2_rate window;   /* WINDOW_UPDATE; a request, a frame of an answer give some back */
    uint32_t max_continuations; /* frames behind one HEADERS; 0: no limit */
    uint32_t max_header_block;  /* bytes of all of them; 0: no limit */
    as_ns ping_interval;        /* between two pings while calls are open; 0: any */
    as_ns idle_ping_interval;   /* while none is; 0: any */
    uint32_t ping_strikes;      /* pings that may come too early; one more ends it; 0: never */
};

/* Credit is counted in ns: a token costs the time that it takes to earn it. */
struct as_h2_bucket {
    uint64_t credit, most, cost; /* most 0: no limit */
    as_ns at;                    /* when credit was right */
};

struct as_h2_guard {
    struct as_h2_limits limits;
    struct as_h2_bucket resets, faults, control, empty, window;
    enum as_h2_breach breach; /* the first one; nothing is judged after it */
    uint32_t code;            /* RFC 9113 error for AS_H2_PROTOCOL; else 0 */
    struct as_h2_closed_streams closed_streams;
    uint32_t skip;   /* bytes until the next frame head, preface included */
    uint8_t head[9]; /* one that came in pieces */
    uint8_t n_head;
    bool greeted;        /* the first frame has come whole */
    bool framed;         /* a frame has begun */
    bool in_block;       /* between the first and the last byte of a header block */
    bool block_ends;     /* the frame at hand carries END_HEADERS */
    bool answering;      /* an answer's frame was sent since the last ping */
    bool padded;         /* the next byte is the pad length of a short DATA frame */
    uint8_t n_last;      /* bytes that come next and name a last stream, in a GOAWAY */
    uint8_t n_parent;    /* bytes of PRIORITY that are still to name a stream */
    uint32_t parent;     /* what they named so far */
    uint32_t stream;     /* of that PRIORITY */
    uint32_t n_blocks;   /* header blocks since the owner set it to 0 */
    uint32_t n_cont;     /* CONTINUATIONs of this block */
    uint64_t block_size; /* bytes of this block */
    as_ns block_since;   /* when it began; valid while in_block */
    as_ns last_ping;     /* AS_NEVER: none yet */
    uint32_t strikes;
};

void as_h2_guard_init(struct as_h2_guard *g, const struct as_h2_limits *limits, as_ns now);

/* The next bytes of the connection; calls: how many are open when p[0] is reached. Returns how many
 * of them may go on to HTTP/2 now: all; less, when `breach` was set (the bad frame is left out), or
 * when a ping or a GOAWAY's last stream comes next (n_last is set), when those returned are of that
 * stream (n_last was set), or when n_blocks has reached AS_H2_REQUESTS_PER_RECV: hand those on and
 * call again with the rest. 0 only then. */
#define AS_H2_REQUESTS_PER_RECV 64u
size_t as_h2_guard_scan(struct as_h2_guard *g, const uint8_t *p, size_t n, as_ns now,
                        uint32_t calls);

/* A stream was reset by us for the client's fault, or refused (counted as a reset). */
void as_h2_guard_stream_fault(struct as_h2_guard *g, as_ns now);
void as_h2_guard_stream_refused(struct as_h2_guard *g, as_ns now);

static inline void as_h2_bucket_add(struct as_h2_bucket *b, uint64_t credit)
{
    b->credit = AS_MIN(b->most, b->credit + credit);
}

/* A request has begun. Clients that make room for its answer at once, in its stream and in the
 * connection, may do so, whether an answer comes or not. */
static inline void as_h2_guard_request_opened(struct as_h2_guard *g)
{
    as_h2_bucket_add(&g->window, 2 * g->window.cost);
}

/* A call ended well. */
static inline void as_h2_guard_call_succeeded(struct as_h2_guard *g)
{
    as_h2_bucket_add(&g->resets, g->resets.cost);
}

/* A call was taken back that had been open for `age`. */
static inline void as_h2_guard_call_cancelled(struct as_h2_guard *g, as_ns age)
{
    if (g->limits.reset_patience && age >= g->limits.reset_patience)
        as_h2_bucket_add(&g->resets, g->resets.cost);
}

/* HEADERS or DATA of an answer went out. Clients that account for each of them twice, for its
 * stream and the connection, have room. */
static inline void as_h2_guard_answer_sent(struct as_h2_guard *g)
{
    g->answering = true;
    as_h2_bucket_add(&g->window, 4 * g->window.cost);
}

#endif
