/* The body of a request behind what was collected: it goes to the worker as it comes, as far as the
 * worker grants it. The client gets room for as much as has gone. */
#include "edge/exchange/client_timeouts.h"
#include "edge/ingress/ingress.h"

#include <string.h>

#define GATHER_MIN 32768u /* bytes of the block in which they wait */

/* Nobody wants more of it. */
static bool is_unwanted(const struct as_ingress *g)
{
    return g->over || !g->x->in_fleet || g->x->cancelled || !g->x->conn;
}

static void pump(struct as_ingress *g);

/* The worker has it, or the call is over. */
static void on_input_release(struct as_input *in)
{
    struct as_ingress *g = in->owner;
    struct as_exchange *x = g->x;
    size_t n = in->payload.body.n;

    as_blob_unref(in->payload.blob);
    in->payload.blob = NULL;
    g->input_busy = false;
    if (!x->conn)
        return;
    as_conn_consume(x->conn, x->stream, n);
    as_conn_schedule_flush(x->conn);
    if (!x->body.ended && x->state == AS_EXCHANGE_WAITING)
        as_client_timeouts_start(x, &x->edge->uploads, x->body.received);
    pump(g);
}

/* Sends what was gathered, one input at a time; then the end. */
static void pump(struct as_ingress *g)
{
    struct as_exchange *x = g->x;

    if (is_unwanted(g) || g->input_busy)
        return;
    if (g->n_gather) {
        g->input.payload = (struct as_payload){.kind = AS_FRAME_HTTP,
                                               .body = {(const char *)g->gather->data, g->n_gather},
                                               .blob = g->gather};
        g->input.owner = g;
        g->input.on_release = on_input_release;
        g->gather = NULL;
        g->n_gather = 0;
        g->input_busy = true;
        if (x->state == AS_EXCHANGE_WAITING) /* now the worker is waited for */
            as_client_timeouts_stop(x);
        as_fleet_client_input(&x->edge->client, &x->call, &g->input);
    } else if (x->body.ended && !g->input_ended) {
        g->input_ended = true;
        as_client_timeouts_stop(x);
        if (x->state == AS_EXCHANGE_ANSWERED)
            as_client_timeouts_start_answer(x);
        as_fleet_client_input_end(&x->edge->client, &x->call);
    }
}

/* A block for n bytes; of a kept run of pages with room for all that may come while the worker is
 * busy, if there is one: then it never moves. */
static int make_block(struct as_ingress *g, size_t n)
{
    struct as_exchange *x = g->x;
    uint64_t more = g->has_length ? AS_MIN(g->length, (uint64_t)x->edge->conf.h2.stream_window) : 0;
    size_t total = AS_MAX(AS_MAX(n, (size_t)more), (size_t)GATHER_MIN);
    int err = as_blob_new_growing(x->budget.requests, total, &g->gather);

    return err || n <= g->gather->n ? err : as_blob_grow(&g->gather, n);
}

/* False: no room; the request was failed. */
static bool gather(struct as_ingress *g, const uint8_t *p, size_t n)
{
    struct as_exchange *x = g->x;
    int err = 0;

    if (!g->gather)
        err = make_block(g, n);
    else if (n > g->gather->n - g->n_gather)
        err = as_blob_grow(&g->gather, AS_MAX(2 * g->gather->n, g->n_gather + n));
    if (err) {
        as_exchange_fail_room(x, err, "the request", g->n_gather + n);
        if (g->begun)
            as_conn_reset(x->conn, x->stream);
        return false;
    }
    memcpy(g->gather->data + g->n_gather, p, n);
    g->n_gather += n;
    return true;
}

void as_ingress_body_receive(struct as_ingress *g, const uint8_t *p, size_t n)
{
    struct as_exchange *x = g->x;

    if (!n)
        return;
    if (is_unwanted(g) || !g->stream.takes_inputs || !gather(g, p, n)) {
        if (x->conn)
            as_conn_consume(x->conn, x->stream, n);
        return;
    }
    pump(g);
}

void as_ingress_body_end(struct as_ingress *g)
{
    if (g->stream.takes_inputs)
        pump(g);
}
