/* Outcomes of calls on their way back to the home loop; calls that execute twice. */
#include "link/fleet/call_error.h"
#include "link/fleet/fleet_deployment.h"

void as_call_set_outcome(struct as_call *c, int err, uint32_t status, struct as_str message)
{
    c->outcome.err = err;
    c->outcome.status = status;
    c->outcome.started = c->outcome.shed = false;
    c->outcome.message = (struct as_str){0};
    if (message.n) {
        c->outcome.message.p = as_arena_dup(c->arena, message);
        c->outcome.message.n = c->outcome.message.p ? message.n : 0;
    }
}

const uint8_t *as_call_copy_answer(struct as_call *c, const void *bytes, size_t n,
                                   struct as_blob **ret_blob, int *ret_err)
{
    uint8_t *p = NULL;

    *ret_err = AS_ENOMEM;
    if (n <= AS_COPY_MAX)
        p = as_arena_alloc(c->arena, n, 8);
    else if ((*ret_err = as_blob_new_charged(c->payer, n, ret_blob)) == 0)
        p = (*ret_blob)->data;
    if (p)
        memcpy(p, bytes, n);
    return p;
}

static void on_answer_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call, answer_letter);

    if (!c->cancel_posted)
        c->on_answer(c);
    else
        as_blob_unref(c->outcome.result.blob);
}

/* The call may be freed only when none of its letters is in a mailbox. */
static void release_at_home(struct as_call *c)
{
    if (c->letters_out)
        c->released = true; /* as_call_letter_returned releases it */
    else
        c->on_release(c);
}

static void on_release_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    release_at_home(AS_CONTAINER(letter, struct as_call, release_letter));
}

static void post_answer(struct as_call *c)
{
    as_call_note_answer(c);
    if (c->client->local) {
        c->on_answer(c);
        return;
    }
    c->answer_letter.open = on_answer_letter;
    as_mbox_post(&c->client->box, &c->answer_letter);
}

static void post_release(struct as_call *c)
{
    c->client->fleet->unanswered--;
    if (c->stream)
        as_call_release_input(c->stream);
    if (c->client->local) {
        c->on_release(c);
        return;
    }
    c->release_letter.open = on_release_letter;
    as_mbox_post(&c->client->box, &c->release_letter);
}

/* --- hedges --- */

/* The call of a client that c executes. */
static struct as_call *client_of(struct as_call *c)
{
    return c->hedge_of ? c->hedge_of : c;
}

/* The second execution sends the first one's payload, and its answer goes into the same arena: only
 * one of the two is awaited when that is filled. So the call is released after both have ended. */
struct as_request *as_fleet_hedge(void *ctx, struct as_request *q)
{
    struct as_fleet *f = ((struct as_fleet_deployment *)ctx)->fleet;
    struct as_call *c = AS_CONTAINER(q, struct as_call, core);
    struct as_list *node = as_list_pop(&f->free_hedges);
    struct as_call *h =
        node ? AS_CONTAINER(as_request_of(node), struct as_call, core) : as_xalloc(sizeof(*h));

    AS_ASSERT(!c->hedge && !c->stream);
    *h = (struct as_call){.deployment = c->deployment,
                          .route = c->route,
                          .caller = c->caller,
                          .depth = c->depth,
                          .payload = c->payload,
                          .arena = c->arena,
                          .payer = c->payer,
                          .client = c->client,
                          .hedge_of = c};
    c->hedge = h;
    return &h->core;
}

void as_fleet_free_hedges(struct as_fleet *f)
{
    struct as_list *n;

    while ((n = as_list_pop(&f->free_hedges)))
        free(AS_CONTAINER(as_request_of(n), struct as_call, core));
}

void as_fleet_release_call(struct as_call *c)
{
    struct as_call *client = client_of(c);

    if (c->hedge) /* released later, with the second execution */
        return;
    if (c != client) {
        client->hedge = NULL;
        as_list_push(&c->client->fleet->free_hedges, &c->core.node);
        if (client->core.state != AS_REQ_DONE)
            return;
    }
    post_release(client);
}

/* --- answers --- */

void as_fleet_answer_with_error(struct as_call *c, const struct as_fleet_deployment *d, int err)
{
    as_call_set_error(client_of(c), d, err);
    post_answer(client_of(c));
}

/* on_answer first: on_release may free the memory of the answer. */
void as_fleet_answer_call(struct as_call *c)
{
    struct as_call *client = client_of(c);

    if (c != client)
        client->outcome = c->outcome;
    post_answer(client);
    as_fleet_release_call(c);
}
