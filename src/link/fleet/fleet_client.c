/* Submitting calls from client loops (the second half of link/fleet/fleet.h). */
#include "link/fleet/fleet_deployment.h"

int as_fleet_client_open(struct as_fleet_client *c, struct as_fleet *f, struct as_loop *loop)
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
    c->models_pending = true;
    c->kind_seed = f->conf.deployment.seed;
    if (c->local)
        f->box = &c->box; /* other loops post their letters to it */
    as_list_push(&f->clients, &c->node);
    return 0;
}

void as_fleet_client_close(struct as_fleet_client *c)
{
    if (c->fleet) {
        as_list_remove(&c->node);
        as_registry_unref(c->registry);
        c->registry = NULL;
    }
    as_mbox_close(&c->box);
}

void as_call_letter_returned(struct as_call *c)
{
    if (!--c->letters_out && c->released)
        c->on_release(c);
}

static void refuse_call(struct as_call *c, const struct as_fleet_deployment *d,
                        struct as_fleet_model *m, int err)
{
    if (m && !c->core.is_mirror) /* a mirrored copy is not a client's request */
        as_model_stat_refuse(&m->stat);
    as_outcome_set(&c->outcome, err);
    if (err == AS_EFULL)
        c->outcome.retry_after =
            as_deployment_retry_after(d->core, as_loop_now(c->client->fleet->loop));
    as_fleet_answer_call(c);
}

static void count_fallback(const struct as_fleet *f, const struct as_call *c)
{
    struct as_fleet_deployment *from = as_fleet_deployment_by_number(f, c->fallback_from);

    if (from && from->core)
        as_deployment_stat(from->core)->fallbacks++;
}

/* Dispatch loop. */
static void submit_call(struct as_fleet *f, struct as_call *c)
{
    struct as_fleet_deployment *d = as_fleet_deployment_by_number(f, c->deployment);
    struct as_fleet_model *m = d ? as_fleet_find_model(d, c->core.model) : NULL;
    as_ns deadline;
    int err;

    /* before anything can answer the call, since releasing it counts down */
    f->unanswered++;
    if (__builtin_expect(c->is_fallback, 0))
        count_fallback(f, c);
    /* the deployment or the model was removed since the client loop's snapshot was made; another
     * may have its place */
    if (f->draining || !m) {
        refuse_call(c, d, m, AS_EUNAVAILABLE);
        return;
    }
    c->core.model = AS_FLEET_MODEL_PLACE(c->core.model);
    if (c->core.deadline == AS_NEVER && d->request_timeout)
        c->core.deadline = as_loop_now(f->loop) + d->request_timeout;
    if (__builtin_expect(d->idempotent != AS_FLEET_AS_REGISTERED, 0))
        c->core.idempotent = d->idempotent == AS_FLEET_IDEMPOTENT;
    deadline = c->core.deadline; /* read now: submitting may answer and free the call */
    err = as_deployment_submit(d->core, &c->core, as_loop_now(f->loop));
    if (err)
        refuse_call(c, d, m, err);
    else if (deadline < d->timer.at)
        as_timer_set(&d->timer, deadline);
}

static void on_submit_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call, submit_letter);

    submit_call(c->client->fleet, c);
}

void as_fleet_client_submit(struct as_fleet_client *c, struct as_call *call)
{
    call->client = c;
    /* the edge reuses calls */
    call->cancel_posted = call->released = false;
    call->started = false;
    call->executing_since = 0;
    call->letters_out = 0;
    call->outcome.result.blob = NULL;
    call->outcome.retry_after = 0;
    if (call->stream)
        as_call_init_stream(call);
    if (call->payload.batching)
        call->core.kind = as_payload_batch_key(&call->payload, c->kind_seed);
    if (c->local) {
        submit_call(c->fleet, call);
        return;
    }
    call->submit_letter.open = on_submit_letter;
    as_mbox_post(c->fleet->box, &call->submit_letter);
}

static void on_cancel_returned(struct as_letter *letter, void *to AS_UNUSED)
{
    as_call_letter_returned(AS_CONTAINER(letter, struct as_call, cancel_letter));
}

/* A deployment that was removed has released its calls. */
static void cancel_call(struct as_call *c)
{
    struct as_fleet *f = c->client->fleet;
    struct as_fleet_deployment *d = as_fleet_deployment_by_number(f, c->deployment);

    if (d)
        as_deployment_cancel(d->core, &c->core, as_loop_now(f->loop));
}

static void on_cancel_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call, cancel_letter);

    cancel_call(c);
    c->cancel_letter.open = on_cancel_returned;
    as_mbox_post(&c->client->box, &c->cancel_letter);
}

void as_fleet_client_cancel(struct as_fleet_client *c, struct as_call *call)
{
    if (c->local) {
        cancel_call(call);
        return;
    }
    call->cancel_posted = true;
    call->letters_out++;
    call->cancel_letter.open = on_cancel_letter;
    as_mbox_post(c->fleet->box, &call->cancel_letter);
}

/* --- jobs --- */

static void on_job_returned(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_fleet_job *e = AS_CONTAINER(letter, struct as_fleet_job, letter);

    e->done(e);
}

static void on_job_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_fleet_job *e = AS_CONTAINER(letter, struct as_fleet_job, letter);

    e->run(e, e->client->fleet);
    letter->open = on_job_returned;
    as_mbox_post(&e->client->box, letter);
}

void as_fleet_client_run(struct as_fleet_client *c, struct as_fleet_job *e)
{
    e->client = c;
    if (c->local) {
        e->run(e, c->fleet);
        e->done(e);
        return;
    }
    e->letter.open = on_job_letter;
    as_mbox_post(c->fleet->box, &e->letter);
}
