/* A connection with HTTP/2. */
#include "edge/conn/conn_tls.h"

static int open_session(struct as_conn *c)
{
    struct as_edge *e = c->edge;
    struct as_h2 *h;
    int err = as_h2_new(&h, &e->conf.h2, &as_exchange_ops, c, as_loop_now(e->loop));

    if (err)
        return err;
    c->protocol = &as_conn_h2;
    c->h2.session = h;
    c->h2.last_ping = 0;
    if (e->draining) /* its handshake was under way when the drain began */
        as_h2_shutdown_notice(h);
    return 0;
}

static void free_session(struct as_conn *c)
{
    as_h2_free(c->h2.session);
}

static void feed(struct as_conn *c, const uint8_t *p, size_t n)
{
    while (!c->ending) {
        size_t taken;

        if (as_h2_recv(c->h2.session, p, n, c->last_received, &taken))
            c->ending = true;
        p += taken;
        n -= taken;
        if (!n)
            return;
        if (as_h2_send(c->h2.session, &c->out, AS_CONN_OUT))
            c->ending = true;
    }
}

/* Sends a ping to a silent client. True: it did not answer the last one; closed. Not while output
 * waits, since then nothing may be read: as_conn_close_if_stuck handles that. */
static bool close_if_dead(struct as_conn *c, as_ns now)
{
    const struct as_edge_conf *conf = &c->edge->conf;

    if (!conf->keepalive_time || c->out.bytes || now - c->last_received < conf->keepalive_time)
        return false;
    if (c->h2.last_ping <= c->last_received) {
        c->h2.last_ping = now;
        as_h2_ping(c->h2.session);
        as_conn_schedule_flush(c);
    } else if (now - c->h2.last_ping >= conf->keepalive_timeout) {
        as_conn_close(c, AS_CLOSE_KEEPALIVE);
        return true;
    }
    return false;
}

static void sweep(struct as_conn *c, as_ns now)
{
    const struct as_edge_conf *conf = &c->edge->conf;
    as_ns block = as_h2_header_block_since(c->h2.session);

    if (!as_h2_got_preface(c->h2.session)) {
        if (now - c->ready >= conf->header_timeout)
            as_conn_close(c, AS_CLOSE_HEADER_TIMEOUT);
    } else if (block != AS_NEVER && now - block >= conf->header_timeout) {
        as_conn_end(c, AS_CLOSE_HEADER_TIMEOUT, true);
    } else if (as_conn_close_if_stuck(c, now) || close_if_dead(c, now)) {
        return;
    } else if (conf->idle_timeout && !c->n_open && now - c->last_active >= conf->idle_timeout) {
        c->close_reason = AS_CLOSE_IDLE;
        as_h2_shutdown_final(c->h2.session);
        as_conn_schedule_flush(c);
    }
}

static bool send_output(struct as_conn *c)
{
    if (as_h2_send(c->h2.session, &c->out, AS_CONN_OUT))
        c->ending = true;
    return true;
}

static bool wants_write(const struct as_conn *c)
{
    return as_h2_wants_write(c->h2.session);
}

static bool is_done(const struct as_conn *c)
{
    return as_h2_done(c->h2.session);
}

/* The client may send frames at any time. */
static bool is_idle(const struct as_conn *c AS_UNUSED)
{
    return false;
}

/* Stops reading while the output is full, since input would make it grow. */
static void watch(struct as_conn *c)
{
    int events = c->sock.events;

    as_conn_watch(c, c->out.bytes < AS_CONN_OUT ? events | UV_READABLE : events & ~UV_READABLE);
}

static void drain(struct as_conn *c, bool final)
{
    c->close_reason = AS_CLOSE_DRAIN;
    (final ? as_h2_shutdown_final : as_h2_shutdown_notice)(c->h2.session);
    as_conn_schedule_flush(c);
}

static void end(struct as_conn *c, bool calm)
{
    if (calm)
        as_h2_enhance_your_calm(c->h2.session, as_close_reason_name((uint32_t)c->close_reason));
    else
        as_h2_shutdown_final(c->h2.session);
}

static uint32_t close_reason(const struct as_conn *c, const char **ret_detail AS_UNUSED)
{
    enum as_h2_breach breach = as_h2_breach(c->h2.session);

    return breach ? AS_CLOSE_BREACH + (uint32_t)breach : (uint32_t)c->close_reason;
}

static void answer(struct as_conn *c, uint32_t stream, const struct as_http_answer *a)
{
    as_h2_answer(c->h2.session, stream, a);
}

static void begin(struct as_conn *c, uint32_t stream, const struct as_http_answer *a)
{
    as_h2_begin(c->h2.session, stream, a);
}

static void write_piece(struct as_conn *c, uint32_t stream, const struct as_http_piece *piece)
{
    as_h2_write(c->h2.session, stream, piece);
}

static void finish(struct as_conn *c, uint32_t stream, const struct as_http_header *trailers,
                   uint32_t n_trailers)
{
    as_h2_finish(c->h2.session, stream, trailers, n_trailers);
}

static void consume(struct as_conn *c, uint32_t stream, size_t n)
{
    as_h2_consume(c->h2.session, stream, n);
}

static void expect(struct as_conn *c, uint32_t stream, size_t n)
{
    as_h2_widen_window(c->h2.session, stream, n);
}

static void reset(struct as_conn *c, uint32_t stream)
{
    as_h2_reset(c->h2.session, stream, AS_H2_CANCEL);
}

static size_t unsent(struct as_conn *c, uint32_t stream)
{
    return as_h2_bytes_unsent(c->h2.session, stream);
}

static uint64_t sent(struct as_conn *c, uint32_t stream)
{
    return as_h2_bytes_sent(c->h2.session, stream);
}

static uint8_t version(const struct as_conn *c AS_UNUSED)
{
    return 20;
}

const struct as_conn_protocol as_conn_h2 = {
    .carries_grpc = true,
    .version = version,
    .open = open_session,
    .free = free_session,
    .on_event = as_conn_on_event,
    .feed = feed,
    .send = send_output,
    .wants_write = wants_write,
    .is_done = is_done,
    .is_idle = is_idle,
    .watch = watch,
    .sweep = sweep,
    .drain = drain,
    .end = end,
    .close_reason = close_reason,
    .answer = answer,
    .begin = begin,
    .write = write_piece,
    .finish = finish,
    .consume = consume,
    .expect = expect,
    .reset = reset,
    .cut = reset,
    .unsent = unsent,
    .sent = sent,
};
