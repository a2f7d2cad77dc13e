/* A connection whose protocol is not known: its first bytes decide. */
#include "edge/conn/conn.h"

/* The first bytes of the HTTP/2 preface (RFC 9113 §3.4); no HTTP/1.1 request begins so. */
static const uint8_t preface[4] = "PRI ";

static void feed(struct as_conn *c, const uint8_t *p, size_t n)
{
    size_t before = c->detect.n_first, at = before, same = 0;

    while (same < n && at < sizeof(preface) && p[same] == preface[at]) {
        same++;
        at++;
    }
    c->detect.n_first = (uint8_t)at;
    if (at < sizeof(preface) && same == n)
        return;
    if ((at < sizeof(preface) ? as_conn_h1 : as_conn_h2).open(c)) {
        as_conn_close(c, AS_CLOSE_CLIENT);
        return;
    }
    /* the bytes before these equal the beginning of the preface */
    if (before)
        c->protocol->feed(c, preface, before);
    c->protocol->feed(c, p, n);
}

static bool send_nothing(struct as_conn *c AS_UNUSED)
{
    return true;
}

static bool never(const struct as_conn *c AS_UNUSED)
{
    return false;
}

static bool is_idle(const struct as_conn *c)
{
    return !c->detect.n_first;
}

static void sweep(struct as_conn *c, as_ns now)
{
    if (now - c->ready >= c->edge->conf.header_timeout)
        as_conn_close(c, AS_CLOSE_HEADER_TIMEOUT);
}

static void drain(struct as_conn *c, bool final)
{
    c->close_reason = AS_CLOSE_DRAIN;
    if (final)
        as_conn_close(c, AS_CLOSE_DRAIN);
}

static uint32_t close_reason(const struct as_conn *c, const char **ret_detail AS_UNUSED)
{
    return (uint32_t)c->close_reason;
}

const struct as_conn_protocol as_conn_detect = {
    .handover = 'f', /* nothing was received on it */
    .on_event = as_conn_on_event,
    .feed = feed,
    .send = send_nothing,
    .wants_write = never,
    .is_done = never,
    .is_idle = is_idle,
    .sweep = sweep,
    .drain = drain,
    .close_reason = close_reason,
};
