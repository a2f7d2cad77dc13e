/* Requests with several messages, the dispatcher's end: parts of answers in, inputs out, and the
 * credit for both. */
#include "base/err.h"
#include "link/native/link.h"
#include "wire/frame/body.h"

#include <string.h>

/* --- parts of answers --- */

void as_link_start_stream(struct as_link *l, struct as_call *c)
{
    struct as_call_stream *s = c->stream;
    const struct as_frame_window *w = s->passes_credit ? &s->passed : &l->up.fleet->conf.parts;
    struct as_frame_credit credit = {.messages = (uint32_t)w->messages,
                                     .bytes = (uint64_t)w->bytes};

    if (c->payload.kind == AS_FRAME_HTTP) {
        as_link_start_http(l, c);
        return;
    }
    s->part_credit = *w;
    s->owed_credit = s->input_credit = (struct as_frame_window){0};
    if (credit.messages || credit.bytes)
        as_frame_put_credit(&l->out, c->core.stream, &credit);
    if (s->takes_inputs && s->inputs_over && !s->input)
        as_frame_put_end(&l->out, c->core.stream, 0);
}

static struct as_part *new_part(const struct as_frame *f, struct as_frame *ret_copy)
{
    struct as_part *p = calloc(1, sizeof(*p));
    uint8_t *bytes;

    if (!p)
        return NULL;
    as_arena_init(&p->arena, NULL, 0);
    bytes = as_arena_alloc(&p->arena, f->n, 8);
    if (!bytes) {
        as_part_free(p);
        return NULL;
    }
    memcpy(bytes, f->p, f->n);
    *ret_copy = *f;
    ret_copy->p = bytes;
    return p;
}

/* Delivers a part that is complete to a client on this loop: nothing is copied. */
static const char *deliver_now(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    struct as_part p = {.call = c};
    struct as_frame_msg m;
    const char *why = as_link_decode(c, f, &l->scratch, &m, &p.payload);

    if (why) {
        as_arena_reset(&l->scratch);
        return why;
    }
    p.cost = m.table.n + m.body_len;
    as_frame_window_consume(&c->stream->part_credit, p.cost);
    c->stream->on_part(c, &p);
    as_arena_reset(&l->scratch);
    return NULL;
}

void as_link_drop_part(struct as_link *l, struct as_call *c, uint64_t n)
{
    struct as_part *p = c->stream->part;

    c->stream->part = NULL; /* as_link_discard_answer would free it */
    as_link_discard_answer(l, c);
    c->rx_msg.body_len = UINT64_MAX;
    p->payload.msg = (struct as_msg){0};
    p->payload.tensor_params = (struct as_tensor_params){0};
    p->dropped = n;
    as_fleet_deliver_part(c, p);
}

/* Copies a part that outlives the read buffer: for another loop, or since its body follows. */
static const char *store_part(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    struct as_frame copy;
    struct as_part *p = new_part(f, &copy);
    struct as_frame_msg m;
    const char *why;

    if (!p)
        return "out of memory";
    why = as_link_decode(c, &copy, &p->arena, &m, &p->payload);
    if (why) {
        as_part_free(p);
        return why;
    }
    p->cost = m.table.n + m.body_len;
    as_frame_window_consume(&c->stream->part_credit, p->cost);
    if (m.body || !m.body_len) {
        as_fleet_deliver_part(c, p);
        return NULL;
    }
    if (m.body_len > l->up.fleet->conf.max_message) {
        as_part_free(p);
        return "an answer over the limit of max_message";
    }
    c->stream->part = p;
    c->rx_msg = m;
    c->body_received = 0;
    if (as_blob_new_growing(c->payer, (size_t)m.body_len, &c->outcome.result.blob))
        as_link_drop_part(l, c, m.body_len);
    return NULL;
}

static bool body_follows(const struct as_frame *f)
{
    uint64_t body_len;

    if (f->n < AS_FRAME_FIXED)
        return false;
    memcpy(&body_len, f->p + 16, sizeof(body_len)); /* docs/protocol/link.md, section 7 */
    return body_len > AS_FRAME_INLINE;
}

static void on_part(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    bool end = f->flags & AS_FRAME_F_END;
    const char *why;

    c->executing_since =
        as_loop_now(l->up.fleet->loop); /* a handler that sends parts does not hang */
    /* nobody waits for it: it is not decoded, and its body is discarded */
    if (!as_replica_bind(l->up.replica, &c->core)) {
        c->rx_msg.body_len = UINT64_MAX;
        if (end)
            as_link_finish_call(l, c, (struct as_model_times){0}, false);
        return;
    }
    if (c->outcome.result.blob)
        why = "a message inside the body of another";
    else if (!as_frame_window_is_open(&c->stream->part_credit))
        why = "a message beyond its stream's credit";
    else if (c->client->local && !body_follows(f))
        why = deliver_now(l, c, f);
    else
        why = store_part(l, c, f);
    if (why)
        as_link_protocol_error(l, why);
    else if (end)
        as_link_finish_ok(l, c, (struct as_model_times){0});
}

void as_link_on_part_body(struct as_link *l, struct as_call *c)
{
    bool end = l->rx.sink_end;
    struct as_part *p = c->stream->part;

    if (!p || c->core.state != AS_REQ_SENT) { /* discarded */
        if (end)
            as_link_finish_call(l, c, (struct as_model_times){0}, false);
        return;
    }
    if (c->body_received == c->rx_msg.body_len) {
        const char *why = as_link_set_body(c, &p->payload, c->outcome.result.blob->data);

        if (why) {
            as_link_protocol_error(l, why);
            return;
        }
        p->payload.blob = c->outcome.result.blob;
        c->outcome.result.blob = NULL;
        c->stream->part = NULL;
        c->rx_msg.body_len = 0;
        as_fleet_deliver_part(c, p);
        if (end)
            as_link_finish_ok(l, c, (struct as_model_times){0});
    } else if (end) {
        as_link_protocol_error(l, "END before the body was complete");
    }
}

void as_link_on_part_frame(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    uint64_t service;

    if (c->payload.kind == AS_FRAME_HTTP)
        as_link_on_http_frame(l, c, f);
    else if (f->type == AS_FRAME_DATA)
        on_part(l, c, f);
    else if (as_frame_get_end(f, &service))
        as_link_protocol_error(l, "malformed END");
    else if (c->outcome.result.blob)
        as_link_protocol_error(l, "END before the body was complete");
    else
        as_link_finish_ok(l, c, (struct as_model_times){.service = service});
}

/* Credit is granted again when half of the window is used up: one frame for many messages. */
void as_link_return_credit(struct as_link *l, struct as_call *c, const struct as_frame_window *w)
{
    const struct as_frame_window *all = &l->up.fleet->conf.parts;
    struct as_frame_window *owed = &c->stream->owed_credit;
    struct as_frame_credit credit;
    size_t had = l->out.bytes;

    owed->messages += w->messages;
    owed->bytes += w->bytes;
    if (c->payload.kind == AS_FRAME_HTTP
            ? 2 * owed->bytes < (int64_t)AS_HTTP_WINDOW
            : !c->stream->passes_credit && 2 * owed->messages < all->messages &&
                  2 * owed->bytes < all->bytes)
        return;
    credit = (struct as_frame_credit){.messages = (uint32_t)owed->messages,
                                      .bytes = (uint64_t)owed->bytes};
    c->stream->part_credit.messages += owed->messages;
    c->stream->part_credit.bytes += owed->bytes;
    *owed = (struct as_frame_window){0};
    as_frame_put_credit(&l->out, c->core.stream, &credit);
    as_link_count_reply(l, had);
    as_link_schedule_flush(l);
}

/* --- inputs --- */

void as_link_send_input(struct as_link *l, struct as_call *c)
{
    struct as_frame_msg fixed = {.more = true, .input = true};
    struct as_input *in = c->stream->input;

    if (c->payload.kind == AS_FRAME_HTTP) {
        as_link_send_http_input(l, c);
        return;
    }
    if (!in || !as_frame_window_is_open(&c->stream->input_credit))
        return;
    /* bound to this worker: another one would get only the later inputs */
    as_replica_bind(l->up.replica, &c->core);
    as_link_put_payload(l, AS_FRAME_DATA, c->core.stream, &fixed, &in->payload);
    as_frame_window_consume(&c->stream->input_credit,
                            in->payload.kind == AS_FRAME_CALL
                                ? as_body_len(in->payload.pieces)
                                : as_frame_msg_cost(&in->payload.msg, &fixed.tensor_params, true));
    as_call_release_input(c->stream);
    as_link_schedule_flush(l);
}

void as_link_send_input_end(struct as_link *l, struct as_call *c)
{
    if (c->payload.kind == AS_FRAME_HTTP)
        as_frame_put_http_data(&l->out, c->core.stream, NULL, 0, true, NULL);
    else
        as_frame_put_end(&l->out, c->core.stream, 0);
    as_link_schedule_flush(l);
}

void as_link_on_stream_credit(struct as_link *l, const struct as_frame *f)
{
    struct as_call *c = as_link_find_call(l, f->stream);
    struct as_frame_credit credit;

    if (!c || !c->stream || !(c->stream->takes_inputs || c->payload.kind == AS_FRAME_HTTP) ||
        as_frame_get_credit(f, &credit) || as_frame_window_add(&c->stream->input_credit, &credit))
        as_link_protocol_error(l, "malformed CREDIT of a stream");
    else if (c->core.state == AS_REQ_SENT)
        as_link_send_input(l, c);
}
