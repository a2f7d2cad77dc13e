#include "wire/h2/h2_guard.h"

#include "base/be.h"

#include <endian.h>
#include <string.h>

#define HEAD        9u
#define PREFACE     24u
#define END_STREAM  0x1u
#define ACK         0x1u
#define END_HEADERS 0x4u
#define PADDED      0x8u
#define STREAM      0x7fffffffu

enum {
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION,
    PRIORITY_UPDATE = 16
};

const char *as_h2_breach_name(enum as_h2_breach b)
{
    static const char *const names[] = {
        [AS_H2_NO_BREACH] = "none",
        [AS_H2_PROTOCOL] = "protocol_error",
        [AS_H2_RESETS] = "rapid_reset",
        [AS_H2_FAULTS] = "stream_faults",
        [AS_H2_PINGS] = "too_many_pings",
        [AS_H2_SETTINGS] = "settings_flood",
        [AS_H2_PRIORITIES] = "priority_flood",
        [AS_H2_CONTROL] = "control_flood",
        [AS_H2_EMPTY] = "empty_frames",
        [AS_H2_WINDOW] = "window_updates",
        [AS_H2_CONTINUATIONS] = "continuation_flood",
        [AS_H2_HEADERS] = "header_flood",
    };

    return names[b];
}

/* --- buckets --- */

static struct as_h2_bucket full_bucket(const struct as_h2_rate *r, as_ns now)
{
    uint64_t cost = AS_SEC / AS_MAX(r->rate, 1u), most = r->burst * cost;

    return (struct as_h2_bucket){.credit = most, .most = most, .cost = cost, .at = now};
}

static void spend_token(struct as_h2_guard *g, struct as_h2_bucket *b, as_ns now,
                        enum as_h2_breach breach)
{
    if (!b->most || g->breach)
        return;
    /* The earned credit is limited before it is added, so that the sum cannot overflow. */
    b->credit = AS_MIN(b->most, b->credit + AS_MIN(now - b->at, b->most));
    b->at = now;
    if (b->credit < b->cost)
        g->breach = breach;
    else
        b->credit -= b->cost;
}

void as_h2_guard_init(struct as_h2_guard *g, const struct as_h2_limits *limits, as_ns now)
{
    *g = (struct as_h2_guard){
        .limits = *limits,
        .resets = full_bucket(&limits->resets, now),
        .faults = full_bucket(&limits->faults, now),
        .control = full_bucket(&limits->control, now),
        .empty = full_bucket(&limits->empty, now),
        .window = full_bucket(&limits->window, now),
        .skip = PREFACE,
        .last_ping = AS_NEVER,
    };
}

void as_h2_guard_stream_fault(struct as_h2_guard *g, as_ns now)
{
    spend_token(g, &g->faults, now, AS_H2_FAULTS);
}

void as_h2_guard_stream_refused(struct as_h2_guard *g, as_ns now)
{
    spend_token(g, &g->resets, now, AS_H2_RESETS);
}

/* --- frames --- */

static void count_empty(struct as_h2_guard *g, as_ns now)
{
    spend_token(g, &g->empty, now, AS_H2_EMPTY);
}

static void count_control(struct as_h2_guard *g, as_ns now, enum as_h2_breach breach)
{
    spend_token(g, &g->control, now, breach);
}

/* gRPC's rule (proposal A8) as its servers implement it: pings must keep a minimum distance, unless
 * an answer was sent since the last one; a few may come early. True: there was an answer. Such a
 * ping does not count as a control frame, because grpc-go measures the bandwidth with one ping per
 * round trip of data, which can be thousands per second. */
static bool check_ping(struct as_h2_guard *g, as_ns now, uint32_t calls)
{
    const struct as_h2_limits *l = &g->limits;
    as_ns least = calls ? l->ping_interval : l->idle_ping_interval;
    as_ns last = g->last_ping;

    g->last_ping = now;
    if (g->answering) {
        g->answering = false;
        g->strikes = 0;
        return true;
    }
    if (last != AS_NEVER && now - last < least && l->ping_strikes && ++g->strikes > l->ping_strikes)
        g->breach = AS_H2_PINGS;
    return false;
}

static void begin_block(struct as_h2_guard *g, uint32_t len, uint8_t flags, as_ns now)
{
    g->n_blocks++;
    g->in_block = true;
    g->block_ends = flags & END_HEADERS;
    g->block_since = now;
    g->block_size = len;
    g->n_cont = 0;
}

static void check_block(struct as_h2_guard *g, uint32_t len, as_ns now)
{
    const struct as_h2_limits *l = &g->limits;

    if (l->max_continuations && g->n_cont > l->max_continuations)
        g->breach = AS_H2_CONTINUATIONS;
    else if (l->max_header_block && g->block_size > l->max_header_block)
        g->breach = AS_H2_HEADERS;
    else if (!len && !g->block_ends)
        count_empty(g, now);
}

static void set_protocol_error(struct as_h2_guard *g, uint32_t code)
{
    if (!code)
        return;
    g->breach = AS_H2_PROTOCOL;
    g->code = code;
}

static void check_priority(struct as_h2_guard *g, uint32_t stream, uint32_t len)
{
    if (!stream)
        set_protocol_error(g, AS_H2_CODE_PROTOCOL);
    if (len < 4) /* nghttp2 reports the wrong length */
        return;
    g->n_parent = 4;
    g->parent = 0;
    g->stream = stream;
}

/* Reads the stream that a PRIORITY depends on: a stream must not depend on itself. */
static void read_parent(struct as_h2_guard *g, const uint8_t *p, size_t n)
{
    for (; n && g->n_parent; n--, g->n_parent--)
        g->parent = g->parent << 8 | *p++;
    if (!g->n_parent && (g->parent & STREAM) == g->stream)
        set_protocol_error(g, AS_H2_CODE_PROTOCOL);
}

/* nghttp2 reports a shorter one by its length. */
static void check_goaway(struct as_h2_guard *g, uint32_t len, as_ns now)
{
    g->n_last = len >= 8 ? 4 : 0;
    count_control(g, now, AS_H2_CONTROL);
}

static void check_frame(struct as_h2_guard *g, const uint8_t *head, as_ns now, uint32_t calls)
{
    uint32_t len = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
    uint32_t stream = as_be_get32(head + 5) & STREAM;
    uint8_t flags = head[4];

    g->skip = len;
    g->framed = true;
    if (head[3] <= RST_STREAM && head[3] != PRIORITY)
        set_protocol_error(
            g, as_h2_closed_streams_check(&g->closed_streams, head[3], flags & END_STREAM, stream));
    if (g->breach)
        return;
    switch (head[3]) {
    case DATA:
        if (flags & END_STREAM)
            break;
        if (!len)
            count_empty(g, now);
        g->padded = flags & PADDED && len && len <= 256;
        break;
    case HEADERS:
        begin_block(g, len, flags, now);
        check_block(g, len, now);
        break;
    case CONTINUATION:
        g->n_cont++;
        g->block_size += len;
        g->block_ends = flags & END_HEADERS;
        check_block(g, len, now);
        break;
    case RST_STREAM:
        spend_token(g, &g->resets, now, AS_H2_RESETS);
        break;
    case WINDOW_UPDATE:
        spend_token(g, &g->window, now, AS_H2_WINDOW);
        break;
    case PING:
        if (flags & ACK || !check_ping(g, now, calls))
            count_control(g, now, AS_H2_CONTROL);
        break;
    case SETTINGS:
        count_control(g, now, AS_H2_SETTINGS);
        break;
    case PRIORITY:
        check_priority(g, stream, len);
        count_control(g, now, AS_H2_PRIORITIES);
        break;
    case PRIORITY_UPDATE:
        count_control(g, now, AS_H2_PRIORITIES);
        break;
    case GOAWAY:
        check_goaway(g, len, now);
        break;
    default:
        count_control(g, now, AS_H2_CONTROL);
    }
}

static void end_frame(struct as_h2_guard *g)
{
    g->got_preface = g->framed; /* what ended may be the preface */
    if (g->in_block && g->block_ends)
        g->in_block = false;
}

/* Skips payload, or the preface. */
static size_t skip_payload(struct as_h2_guard *g, const uint8_t *p, size_t n, as_ns now)
{
    size_t k = AS_MIN(n, (size_t)g->skip);

    if (g->padded) {
        g->padded = false;
        if (p[0] + 1u == g->skip) /* the payload is padding only */
            count_empty(g, now);
        if (g->breach)
            return 0;
    }
    if (g->n_parent) {
        read_parent(g, p, k);
        if (g->breach)
            return 0;
    }
    g->skip -= (uint32_t)k;
    if (!g->skip)
        end_frame(g);
    return k;
}

/* Skips bytes of a GOAWAY's last stream; at least four bytes of the frame follow. */
static size_t skip_last_stream(struct as_h2_guard *g, size_t n)
{
    size_t k = AS_MIN(n, (size_t)g->n_last);

    g->n_last -= (uint8_t)k;
    g->skip -= (uint32_t)k;
    return k;
}

/* The fast path: the length of a complete HEADERS or DATA frame that needs no check, or 0. */
static inline size_t ordinary_frame_len(struct as_h2_guard *g, const uint8_t *head, size_t n)
{
    uint32_t word;
    size_t len;

    if (g->skip || g->n_head || n < HEAD)
        return 0;
    memcpy(&word, head, sizeof(word));
    word = be32toh(word);
    len = word >> 8;
    if (!len || len > n - HEAD)
        return 0;
    if ((word & 0xff) == HEADERS) {
        if (!(head[4] & END_HEADERS) || g->n_blocks >= AS_H2_REQUESTS_PER_RECV ||
            (g->limits.max_header_block && len > g->limits.max_header_block))
            return 0;
    } else if ((word & 0xff) != DATA || head[4] & PADDED) {
        return 0;
    }
    /* check_frame finds the error again, and reports it */
    if (as_h2_closed_streams_check(&g->closed_streams, head[3], head[4] & END_STREAM,
                                   as_be_get32(head + 5) & STREAM))
        return 0;
    g->n_blocks += head[3] == HEADERS;
    return HEAD + len;
}

size_t as_h2_guard_scan(struct as_h2_guard *g, const uint8_t *p, size_t n, as_ns now,
                        uint32_t calls)
{
    size_t at = 0;

    while (at < n && !g->breach) {
        const uint8_t *head = p + at;
        size_t k = ordinary_frame_len(g, head, n - at);

        if (k) {
            at += k;
            continue;
        }
        k = HEAD;
        if (g->n_last)
            return at ? at : skip_last_stream(g, n);
        if (g->skip) {
            at += skip_payload(g, head, n - at, now);
            continue;
        }
        if (g->n_head || n - at < HEAD) {
            k = AS_MIN(HEAD - g->n_head, n - at);
            memcpy(g->head + g->n_head, head, k);
            g->n_head = (uint8_t)(g->n_head + k);
            if (g->n_head < HEAD)
                return n;
            head = g->head;
        }
        if (head[3] == PING && at) {
            g->n_head = 0; /* its head is complete in p, and is scanned again by the next call */
            return at;
        }
        if (head[3] == HEADERS && g->n_blocks >= AS_H2_REQUESTS_PER_RECV && !g->n_head)
            return at;
        g->n_head = 0;
        check_frame(g, head, now, calls);
        if (g->breach)
            return at;
        at += k;
        if (!g->skip)
            end_frame(g);
    }
    return at;
}
