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

void as_call_init_parts(struct as_call *c)
{
    c->part = NULL;
    c->input = NULL;
    c->inputs_over = c->inputs_more = c->credit_posted = false;
    c->credit = (struct as_frame_window){0};
}

/* --- parts --- */

static void on_part_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_part *p = AS_CONTAINER(letter, struct as_part, letter);
    struct as_call *c = p->call;

    if (!c->cancel_posted)
        c->on_part(c, p);
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

/* --- credit --- */

static void grant_credit(struct as_call *c, const struct as_frame_window *w)
{
    if (c->core.state == AS_REQ_SENT) {
        struct as_upstream *u = as_upstream_of(c->core.replica);

        u->ops->credit(u, c, w);
    }
}

static void post_credit(struct as_call *c);

static void on_credit_returned(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call, credit_letter);

    c->credit_posted = false;
    if (c->credit.messages)
        post_credit(c);
    as_call_letter_returned(c);
}

static void on_credit_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call, credit_letter);

    grant_credit(c, &c->posted_credit);
    c->credit_letter.open = on_credit_returned;
    as_mbox_post(&c->client->box, &c->credit_letter);
}

static void post_credit(struct as_call *c)
{
    c->posted_credit = c->credit;
    c->credit = (struct as_frame_window){0};
    c->credit_posted = true;
    c->letters_out++;
    c->credit_letter.open = on_credit_letter;
    as_mbox_post(c->client->fleet->box, &c->credit_letter);
}

void as_fleet_client_credit(struct as_fleet_client *client, struct as_call *c, uint32_t messages,
                            uint64_t bytes)
{
    c->credit.messages += messages;
    c->credit.bytes += (int64_t)bytes;
    if (!client->local) {
        if (!c->credit_posted)
            post_credit(c);
        return;
    }
    grant_credit(c, &c->credit);
    c->credit = (struct as_frame_window){0};
}

/* --- inputs --- */

static void on_input_returned(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *input = AS_CONTAINER(letter, struct as_call, submit_letter);
    struct as_call *c = input->target;

    input->on_release(input);
    as_call_letter_returned(c);
}

void as_call_release_input(struct as_call *c)
{
    struct as_call *input = c->input;

    c->input = NULL;
    if (!input)
        return;
    if (c->client->local) {
        input->on_release(input);
        return;
    }
    input->submit_letter.open = on_input_returned;
    as_mbox_post(&c->client->box, &input->submit_letter);
}

/* Dispatch loop. If the call is still queued the input waits until it is sent. */
static void accept_input(struct as_call *c, struct as_call *input)
{
    c->input = input;
    if (c->core.state == AS_REQ_SENT) {
        struct as_upstream *u = as_upstream_of(c->core.replica);

        u->ops->input(u, c);
    } else if (c->core.state != AS_REQ_QUEUED) {
        as_call_release_input(c);
    }
}

static void on_input_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *input = AS_CONTAINER(letter, struct as_call, submit_letter);

    accept_input(input->target, input);
}

void as_fleet_client_input(struct as_fleet_client *client, struct as_call *c, struct as_call *input)
{
    input->target = c;
    c->inputs_more = true;
    if (client->local) {
        accept_input(c, input);
        return;
    }
    c->letters_out++;
    input->submit_letter.open = on_input_letter;
    as_mbox_post(client->fleet->box, &input->submit_letter);
}

static void end_inputs(struct as_call *c)
{
    c->inputs_over = true;
    if (c->core.state == AS_REQ_SENT) {
        struct as_upstream *u = as_upstream_of(c->core.replica);

        u->ops->input_end(u, c);
    }
}

static void on_end_returned(struct as_letter *letter, void *to AS_UNUSED)
{
    as_call_letter_returned(AS_CONTAINER(letter, struct as_call, end_letter));
}

static void on_end_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call, end_letter);

    end_inputs(c);
    c->end_letter.open = on_end_returned;
    as_mbox_post(&c->client->box, &c->end_letter);
}

void as_fleet_client_input_end(struct as_fleet_client *client, struct as_call *c)
{
    if (client->local) {
        end_inputs(c);
        return;
    }
    c->letters_out++;
    c->end_letter.open = on_end_letter;
    as_mbox_post(client->fleet->box, &c->end_letter);
}
