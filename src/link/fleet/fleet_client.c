/* Submitting calls from client loops (the second half of link/fleet/fleet.h). */
#include "link/fleet/call_error.h"

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
    c->routes = as_routes_ref(f->routes);
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
        as_routes_unref(c->routes);
        c->registry = NULL;
        c->routes = NULL;
    }
    as_mbox_close(&c->box);
}

uint64_t as_fleet_tenant_key(const struct as_fleet *f, struct as_str name)
{
    return name.n ? as_route_key(name, f->conf.deployment.seed) : 0;
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
    as_call_set_error(c, d, err);
    as_fleet_answer_call(c);
}

static void count_fallback(const struct as_fleet *f, const struct as_call *c)
{
    struct as_fleet_deployment *from = as_fleet_deployment_by_number(f, c->fallback_from);

    if (from && from->core)
        as_deployment_stat(from->core)->fallbacks++;
}

void as_call_owner_fini(struct as_call_owner *o)
{
    free(o->waiting);
    o->waiting = NULL;
}

/* The deployment's limit holds for each caller: c is counted with those of its own. */
static void count_for_owner(struct as_fleet *f, struct as_call *c)
{
    struct as_call_owner *o = c->owner ? c->owner : &f->clients_calls;

    if (!o->waiting)
        o->waiting = as_xalloc(AS_FLEET_DEPLOYMENTS_MAX * sizeof(o->waiting[0]));
    c->core.waiting = &o->waiting[AS_FLEET_DEPLOYMENT_PLACE(c->deployment)];
}

/* A call that a worker makes enters the graph of calls, which says whether it may wait for a slot.
 * False: its chain is too long. */
static bool enter_graph(struct as_fleet *f, struct as_call *c)
{
    const struct as_fleet_deployment *caller = as_fleet_deployment_by_number(f, c->caller);

    if (c->depth > AS_CALL_DEPTH_MAX)
        return false;
    if (caller)
        c->core.on_cycle = as_call_graph_is_cyclic(&f->calls, AS_FLEET_DEPLOYMENT_PLACE(c->caller),
                                                   AS_FLEET_DEPLOYMENT_PLACE(c->deployment));
    return true;
}

/* Whether the caller of a worker's or driver's call waits for its answer. */
static void set_awaited(struct as_call *c, bool awaited)
{
    struct as_fleet *f = c->client->fleet;

    if (!c->owner || c->payload.kind != AS_FRAME_CALL || c->awaited == awaited)
        return;
    c->awaited = awaited;
    f->awaited_calls += awaited ? 1u : -1u;
    if (f->ends_with_calls && !f->awaited_calls)
        as_fleet_check_calls_done(f);
}

void as_call_note_answer(struct as_call *c)
{
    set_awaited(c, false);
}

/* A call that begins a chain, which a worker or a driver makes. */
static bool is_refused_root(const struct as_fleet *f, const struct as_call *c)
{
    return f->refuses_callers && c->owner && c->payload.kind == AS_FRAME_CALL && !c->depth;
}

/* NULL: it is not there any more. */
static struct as_fleet_model *find_target(const struct as_fleet_deployment *d, struct as_call *c)
{
    struct as_fleet_model *m;

    if (__builtin_expect(c->core.model != AS_CALL_TARGET, 1))
        return as_fleet_find_model(d, c->core.model);
    m = as_fleet_call_target(d);
    if (m) {
        c->core.model = m->index;
        c->core.idempotent = m->idempotent;
    }
    return m;
}

/* It has no deadline: it lasts as long as its client wants. */
static bool is_websocket(const struct as_call *c)
{
    return c->payload.kind == AS_FRAME_HTTP && c->payload.http->flags & AS_HTTP_F_WEBSOCKET;
}

/* Finds the target of a request of HTTP, anew if the one that was found last is gone, and sets what
 * depends on it. 0, or why there is none. */
static int resolve_route(struct as_fleet *f, struct as_call *c)
{
    struct as_route *r = c->route;
    struct as_fleet_deployment *d =
        r->number == AS_ROUTE_UNKNOWN ? NULL : as_fleet_deployment_by_number(f, r->number);
    const struct as_fleet_model *m = d ? as_fleet_find_model(d, r->model) : NULL;

    if (!m || m->gone || !m->opaque || d->deleted) {
        d = as_fleet_find_deployment(f, r->deployment);
        m = d && !d->deleted ? as_fleet_call_target(d) : NULL;
        r->number = m ? d->number : AS_ROUTE_UNKNOWN;
        r->model = m ? m->index : 0;
    }
    c->deployment = d ? d->number : UINT32_MAX;
    c->core.model = m ? m->index : UINT32_MAX;
    if (!m)
        return AS_EUNAVAILABLE;
    c->core.idempotent = c->core.idempotent || m->idempotent;
    return m->http ? 0 : AS_EUNIMPLEMENTED;
}

static void refuse_route(struct as_call *c, int err)
{
    const struct as_fleet_deployment *d =
        as_fleet_deployment_by_number(c->client->fleet, c->deployment);

    as_call_set_error(c, d, err);
    as_fleet_answer_call(c);
}

/* Dispatch loop. */
static void submit_call(struct as_fleet *f, struct as_call *c)
{
    int err = c->payload.kind == AS_FRAME_HTTP ? resolve_route(f, c) : 0;
    struct as_fleet_deployment *d = as_fleet_deployment_by_number(f, c->deployment);
    struct as_fleet_model *m = d ? find_target(d, c) : NULL;
    as_ns deadline;

    /* before anything can answer the call, since releasing it counts down */
    f->unanswered++;
    if (__builtin_expect(err, 0)) {
        refuse_route(c, err);
        return;
    }
    set_awaited(c, true);
    if (__builtin_expect(c->is_fallback, 0))
        count_fallback(f, c);
    /* the deployment or the model was removed since the client loop's snapshot was made; another
     * may have its place */
    if (!m || (f->draining && !c->depth) || is_refused_root(f, c)) {
        bool unknown = !m && !f->draining && c->payload.kind == AS_FRAME_CALL;

        refuse_call(c, d, m, unknown ? AS_ENOTFOUND : AS_EUNAVAILABLE);
        return;
    }
    if (c->caller != AS_CALL_NO_CALLER && !enter_graph(f, c)) {
        refuse_call(c, d, m, AS_EFULL);
        return;
    }
    c->core.model = AS_FLEET_MODEL_PLACE(c->core.model);
    if (c->core.deadline == AS_NEVER && d->options.request_timeout && !is_websocket(c))
        c->core.deadline = as_loop_now(f->loop) + d->options.request_timeout;
    if (__builtin_expect(d->options.idempotent != AS_FLEET_AS_REGISTERED, 0))
        c->core.idempotent = d->options.idempotent == AS_FLEET_IDEMPOTENT;
    if (__builtin_expect(d->options.per_caller, 0))
        count_for_owner(f, c);
    c->question = 0; /* another deployment's router may have been asked */
    as_fleet_set_keys(d, c);
    deadline = c->core.deadline; /* read now: submitting may answer and free the call */
    err = c->only ? as_deployment_submit_to(c->only, &c->core, as_loop_now(f->loop))
                  : as_deployment_submit(d->core, &c->core, as_loop_now(f->loop));
    if (err) {
        refuse_call(c, d, m, err);
        return;
    }
    if (deadline < d->timer.at)
        as_timer_set(&d->timer, deadline);
    as_fleet_note_load(d);
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
    call->awaited = false;
    call->outcome.result.blob = NULL;
    call->hedge = call->hedge_of = NULL;
    call->core.unary = !call->stream;
    call->outcome.retry_after = 0;
    call->outcome.backpressure = (struct as_backpressure){0};
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

void as_fleet_client_use_slot(struct as_fleet_client *c, struct as_call *call)
{
    struct as_fleet_deployment *d = as_fleet_deployment_by_number(c->fleet, call->deployment);
    as_ns deadline = call->core.deadline_then; /* read now: the call may be freed */

    AS_ASSERT(c->local && d); /* a deployment that was removed has released its calls */
    if (call->stream)
        as_call_init_stream(call);
    as_deployment_dispatch_reserved(d->core, &call->core, as_loop_now(c->fleet->loop));
    if (deadline < d->timer.at)
        as_timer_set(&d->timer, deadline);
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
    struct as_call *second = c->hedge;

    set_awaited(c, false);
    if (d)
        as_deployment_cancel(d->core, &c->core, as_loop_now(f->loop));
    if (d && second) /* then c was not released by that */
        as_deployment_cancel(d->core, &second->core, as_loop_now(f->loop));
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
