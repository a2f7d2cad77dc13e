/* The client loops' way into the fleet (the second half of link/fleet/fleet.h). */
#include "link/fleet/fleet_deployment.h"

int as_client_open(struct as_client *c, struct as_fleet *f, struct as_loop *loop)
{
    int err = as_mbox_open(&c->box, loop, c);

    if (err)
        return err;
    c->fleet = f;
    c->loop = loop;
    if (!f)
        return 0;
    c->local = loop == f->loop;
    c->registry = as_registry_ref(f->registry);
    c->settling = true;
    c->kind_seed = f->conf.seed;
    if (c->local)
        f->box = &c->box; /* other loops' letters to the fleet come here */
    as_list_push(&f->clients, &c->node);
    return 0;
}

void as_client_close(struct as_client *c)
{
    if (c->fleet) {
        as_list_remove(&c->node);
        as_registry_unref(c->registry);
        c->registry = NULL;
    }
    as_mbox_close(&c->box);
}

void as_call_letter_back(struct as_call *c)
{
    if (!--c->posted && c->released)
        c->on_release(c);
}

static void refuse(struct as_call *c, const struct as_fleet_deploy *d, struct as_fleet_model *m,
                   int err)
{
    if (m && !c->core.spare) /* a copy is nobody's request */
        as_model_stat_refuse(&m->stat);
    c->err = err;
    c->status = 0;
    c->message = (struct as_str){0};
    if (err == AS_EFULL)
        c->retry_after = as_deploy_retry_after(d->core, as_loop_now(c->client->fleet->loop));
    as_fleet_deliver(c);
}

static void count_fall(const struct as_fleet *f, const struct as_call *c)
{
    struct as_fleet_deploy *from = as_fleet_numbered(f, c->fell_from);

    if (from && from->core)
        as_deploy_stat(from->core)->fallbacks++;
}

/* Dispatch loop. */
static void submit(struct as_fleet *f, struct as_call *c)
{
    struct as_fleet_deploy *d = as_fleet_numbered(f, c->deployment);
    struct as_fleet_model *m = d ? as_fleet_model_of(d, c->core.model) : NULL;
    as_ns deadline;
    int err;

    /* before anything can answer: release takes it back, for refusals too */
    f->unanswered++;
    if (__builtin_expect(c->fell, 0))
        count_fall(f, c);
    /* gone since the client loop's snapshot was made: the deployment, or the model, whose place
     * another one may have */
    if (f->draining || !m) {
        refuse(c, d, m, AS_EUNAVAILABLE);
        return;
    }
    c->core.model = AS_FLEET_PLACE(c->core.model);
    if (c->core.deadline == AS_NEVER && d->request_timeout)
        c->core.deadline = as_loop_now(f->loop) + d->request_timeout;
    if (__builtin_expect(d->idempotent != AS_FLEET_AS_REGISTERED, 0))
        c->core.idempotent = d->idempotent == AS_FLEET_IDEMPOTENT;
    deadline = c->core.deadline; /* it may be answered, and its memory used again, in there */
    err = as_deploy_submit(d->core, &c->core, as_loop_now(f->loop));
    if (err)
        refuse(c, d, m, err);
    else if (deadline < d->timer.at)
        as_timer_set(&d->timer, deadline);
}

static void open_submit(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call, submit_letter);

    submit(c->client->fleet, c);
}

void as_client_submit(struct as_client *c, struct as_call *call)
{
    call->client = c;
    /* the edge reuses calls: nothing of the last one may show */
    call->cancel_posted = call->released = call->answered = false;
    call->started = false;
    call->begun = 0;
    call->posted = 0;
    call->result_blob = NULL;
    AS_ASSERT(call->on_part || !call->streams_inputs);
    call->retry_after = 0;
    if (call->on_part)
        as_call_begin_parts(call);
    if (call->batching) {
        call->core.kind = as_call_kind(&call->msg, call->batching == AS_CALL_RAGGED, c->kind_seed);
        if (call->tensor_params.n)
            call->core.kind ^= as_call_params_print(&call->tensor_params, c->kind_seed).lo;
    }
    if (c->local) {
        submit(c->fleet, call);
        return;
    }
    call->submit_letter.open = open_submit;
    as_mbox_post(c->fleet->box, &call->submit_letter);
}

static void open_cancel_back(struct as_letter *letter, void *to AS_UNUSED)
{
    as_call_letter_back(AS_CONTAINER(letter, struct as_call, cancel_letter));
}

/* A deployment that has gone has released all that it had. */
static void cancel(struct as_call *c)
{
    struct as_fleet *f = c->client->fleet;
    struct as_fleet_deploy *d = as_fleet_numbered(f, c->deployment);

    if (d)
        as_deploy_cancel(d->core, &c->core, as_loop_now(f->loop));
}

static void open_cancel(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call, cancel_letter);

    cancel(c);
    c->cancel_letter.open = open_cancel_back;
    as_mbox_post(&c->client->box, &c->cancel_letter);
}

void as_client_cancel(struct as_client *c, struct as_call *call)
{
    if (c->local) {
        cancel(call);
        return;
    }
    call->cancel_posted = true;
    call->posted++;
    call->cancel_letter.open = open_cancel;
    as_mbox_post(c->fleet->box, &call->cancel_letter);
}

/* --- errands --- */

static void open_done(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_errand *e = AS_CONTAINER(letter, struct as_errand, letter);

    e->done(e);
}

static void open_errand(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_errand *e = AS_CONTAINER(letter, struct as_errand, letter);

    e->run(e, e->client->fleet);
    letter->open = open_done;
    as_mbox_post(&e->client->box, letter);
}

void as_client_errand(struct as_client *c, struct as_errand *e)
{
    e->client = c;
    if (c->local) {
        e->run(e, c->fleet);
        e->done(e);
        return;
    }
    e->letter.open = open_errand;
    as_mbox_post(c->fleet->box, &e->letter);
}
