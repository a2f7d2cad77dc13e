/* A connection with HTTP/2. */
#include "edge/edge_internal.h"

int as_conn_h2_open(struct as_conn *c)
{
    struct as_edge *e = c->edge;

    return as_h2_new(&c->h2, &e->conf.h2, &as_exchange_ops, c, as_loop_now(e->loop));
}

void as_conn_h2_feed(struct as_conn *c, const uint8_t *p, size_t n)
{
    while (!c->ending) {
        size_t taken;

        if (as_h2_recv(c->h2, p, n, c->last_received, &taken))
            c->ending = true;
        p += taken;
        n -= taken;
        if (!n)
            return;
        if (as_h2_send(c->h2, &c->out, AS_CONN_OUT))
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
    if (c->last_ping <= c->last_received) {
        c->last_ping = now;
        as_h2_ping(c->h2);
        as_conn_schedule_flush(c);
    } else if (now - c->last_ping >= conf->keepalive_timeout) {
        as_conn_close(c, AS_CLOSE_KEEPALIVE);
        return true;
    }
    return false;
}

void as_conn_h2_sweep(struct as_conn *c, as_ns now)
{
    const struct as_edge_conf *conf = &c->edge->conf;
    as_ns block = as_h2_header_block_since(c->h2);

    if (!as_h2_got_preface(c->h2)) {
        if (now - c->opened >= conf->header_timeout)
            as_conn_close(c, AS_CLOSE_HEADER_TIMEOUT);
    } else if (block != AS_NEVER && now - block >= conf->header_timeout) {
        as_conn_end(c, AS_CLOSE_HEADER_TIMEOUT, true);
    } else if (as_conn_close_if_stuck(c, now) || close_if_dead(c, now)) {
        return;
    } else if (conf->idle_timeout && !c->n_open && now - c->last_active >= conf->idle_timeout) {
        c->close_reason = AS_CLOSE_IDLE;
        as_h2_shutdown_final(c->h2);
        as_conn_schedule_flush(c);
    }
}
