/* Streaming calls between a client loop and the fleet: parts to the client loop, credit and inputs
 * to the fleet.
 *
 * `letters_out` counts the letters of a call that go to the dispatch loop and come back: the call
 * may be freed only when all are back.
 */
#include "link/fleet/upstream.h"

void as_part_free(struct as_part *p)
{
    if (!p)
        return;
    as_blob_unref(p->payload.blob);
    as_arena_fini(&p->arena);
    free(p);
}

void as_call_init_stream(struct as_call *c)
{
    struct as_call_stream *s = c->stream;

    *s = (struct as_call_stream){.on_part = s->on_part,
                                 .takes_inputs = s->takes_inputs,
                                 .passes_credit = s->passes_credit,
                                 .passed = s->passed,
                                 .call = c};
}

/* --- parts --- */

static void on_part_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_part *p = AS_CONTAINER(letter, struct as_part, letter);
    struct as_call *c = p->call;

    if (!c->cancel_posted)
        c->stream->on_part(c, p);
    as_part_free(p);
}

void as_fleet_deliver_part(struct as_call *c, struct as_part *p)
{
    p->call = c;
    p->letter.open = on_part_letter;
    if (c->client->local)
        on_part_letter(&p->letter, NULL);
    else
        as_mbox_post(&c->client->box, &p->letter);
}

void as_fleet_deliver_close(struct as_call *c, uint16_t code)
{
    struct as_part *p = calloc(1, sizeof(*p));

    if (!p) /* it lasts until its replica is ended */
        return;
    as_arena_init(&p->arena, NULL, 0);
    p->payload.kind = AS_FRAME_HTTP;
    p->http.type = AS_HTTP_WS_MESSAGE;
    p->http.ws = (struct as_frame_ws_message){.opcode = AS_WS_CLOSE, .code = code};
    as_fleet_deliver_part(c, p);
}

/* --- credit --- */

static void grant_credit(struct as_call *c, const struct as_frame_window *w)
{
    if (c->stream->passes_credit) {
        c->stream->passed.messages += w->messages;
        c->stream->passed.bytes += w->bytes;
    }
    if (c->core.state == AS_REQ_SENT) {
        struct as_upstream *u = as_upstream_of(c->core.replica);

        u->ops->credit(u, c, w);
    }
}

static void post_credit(struct as_call_stream *s);

static void on_credit_returned(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call_stream *s = AS_CONTAINER(letter, struct as_call_stream, credit_letter);

    s->credit_posted = false;
    if (s->credit.messages || s->credit.bytes)
        post_credit(s);
    as_call_letter_returned(s->call);
}

static void on_credit_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call_stream *s = AS_CONTAINER(letter, struct as_call_stream, credit_letter);

    grant_credit(s->call, &s->posted_credit);
    letter->open = on_credit_returned;
    as_mbox_post(&s->call->client->box, letter);
}

static void post_credit(struct as_call_stream *s)
{
    s->posted_credit = s->credit;
    s->credit = (struct as_frame_window){0};
    s->credit_posted = true;
    s->call->letters_out++;
    s->credit_letter.open = on_credit_letter;
    as_mbox_post(s->call->client->fleet->box, &s->credit_letter);
}

void as_fleet_client_credit(struct as_fleet_client *client, struct as_call *c, uint32_t messages,
                            uint64_t bytes)
{
    struct as_call_stream *s = c->stream;

    s->credit.messages += messages;
    s->credit.bytes += (int64_t)bytes;
    if (!client->local) {
        if (!s->credit_posted)
            post_credit(s);
        return;
    }
    grant_credit(c, &s->credit);
    s->credit = (struct as_frame_window){0};
}

/* --- inputs --- */

static void on_input_returned(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_input *in = AS_CONTAINER(letter, struct as_input, letter);
    struct as_call *c = in->call;

    in->on_release(in);
    as_call_letter_returned(c);
}

void as_call_release_input(struct as_call_stream *s)
{
    struct as_input *in = s->input;

    s->input = NULL;
    if (!in)
        return;
    if (s->call->client->local) {
        in->on_release(in);
        return;
    }
    in->letter.open = on_input_returned;
    as_mbox_post(&s->call->client->box, &in->letter);
}

/* Dispatch loop. If the call is still queued the input waits until it is sent. */
static void accept_input(struct as_call *c, struct as_input *in)
{
    c->stream->input = in;
    if (c->core.state == AS_REQ_SENT) {
        struct as_upstream *u = as_upstream_of(c->core.replica);

        u->ops->input(u, c);
    } else if (c->core.state != AS_REQ_QUEUED) {
        as_call_release_input(c->stream);
    }
}

static void on_input_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_input *in = AS_CONTAINER(letter, struct as_input, letter);

    accept_input(in->call, in);
}

void as_fleet_client_input(struct as_fleet_client *client, struct as_call *c, struct as_input *in)
{
    in->call = c;
    in->sent = 0;
    c->stream->inputs_more = true;
    if (client->local) {
        accept_input(c, in);
        return;
    }
    c->letters_out++;
    in->letter.open = on_input_letter;
    as_mbox_post(client->fleet->box, &in->letter);
}

static void end_inputs(struct as_call *c)
{
    c->stream->inputs_over = true;
    if (c->core.state == AS_REQ_SENT) {
        struct as_upstream *u = as_upstream_of(c->core.replica);

        u->ops->input_end(u, c);
    }
}

static void on_end_returned(struct as_letter *letter, void *to AS_UNUSED)
{
    as_call_letter_returned(AS_CONTAINER(letter, struct as_call_stream, end_letter)->call);
}

static void on_end_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call_stream, end_letter)->call;

    end_inputs(c);
    letter->open = on_end_returned;
    as_mbox_post(&c->client->box, letter);
}

void as_fleet_client_input_end(struct as_fleet_client *client, struct as_call *c)
{
    if (client->local) {
        end_inputs(c);
        return;
    }
    c->letters_out++;
    c->stream->end_letter.open = on_end_letter;
    as_mbox_post(client->fleet->box, &c->stream->end_letter);
}
