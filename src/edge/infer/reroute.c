#include "edge/infer/reroute.h"

#include "core/registry/traffic.h"

#define WHY_MAX 512

/* True: as_infer_begin would accept the inputs. */
static bool accepts_inputs(const struct as_exchange *x, const struct as_model *m)
{
    char why[WHY_MAX];
    uint32_t items;

    if (m->unloaded ||
        as_model_check_inputs(m, x->infer.inputs, x->infer.n_inputs, why, sizeof(why)))
        return false;
    return !m->batching.max_size ||
           !as_model_items(m, x->infer.inputs, x->infer.n_inputs, why, sizeof(why), &items);
}

static bool is_ready_for(void *arg, const struct as_model *m)
{
    const struct as_exchange *x = arg;

    return as_fleet_deployment_ready(x->edge->client.fleet, m->deployment) && accepts_inputs(x, m);
}

void as_reroute_choose_canary(struct as_exchange *x)
{
    const struct as_model *canary;

    if (as_reroute_names_version(x))
        return;
    canary = as_traffic_canary(x->registry, x->model,
                               as_traffic_point(x->model->name, x->infer.id, &x->edge->canary_turn),
                               is_ready_for, x);
    if (canary)
        x->model = canary;
}

static const struct as_model *find_next(const struct as_exchange *x, const struct as_reroute *d)
{
    const struct as_model *m = as_traffic_fallback(x->registry, d->requested, d->n_refused + 1);

    return m && accepts_inputs(x, m) ? m : NULL;
}

void as_reroute_prepare(struct as_exchange *x)
{
    struct as_reroute *d = x->reroute;

    if (!d) {
        if (!x->model->traffic.fallback.n || as_reroute_names_version(x))
            return;
        d = as_arena_alloc(&x->arena, sizeof(*d), 8);
        if (!d)
            return; /* no memory: no fallback */
        *d = (struct as_reroute){.requested = x->model};
        x->reroute = d;
    }
    d->next = find_next(x, d);
    x->call.core.has_fallback = d->next;
}

/* True: the dispatcher refused it, not a worker. */
static bool is_refusal(const struct as_call *c)
{
    return !c->outcome.status && (c->outcome.err == AS_EFULL || c->outcome.err == AS_EUNAVAILABLE);
}

static void restore_first_refusal(struct as_exchange *x)
{
    const struct as_reroute *d = x->reroute;

    x->call.outcome.err = d->err;
    x->call.outcome.retry_after = d->retry_after;
    x->call.outcome.backpressure = d->backpressure;
    x->model = d->requested;
}

bool as_reroute_after_error(struct as_exchange *x)
{
    struct as_reroute *d = x->reroute;
    struct as_call *c = &x->call;

    if (!is_refusal(c))
        return false;
    if (!d->n_refused) {
        d->err = c->outcome.err;
        d->retry_after = c->outcome.retry_after;
        d->backpressure = c->outcome.backpressure;
    }
    d->may_have_run = d->may_have_run || c->core.ran;
    /* a request that may have run is only repeated if both models are idempotent */
    d->pending = d->next && x->conn && x->state == AS_EXCHANGE_WAITING &&
                 (!d->may_have_run || (c->core.idempotent && d->next->idempotent));
    if (!d->pending)
        restore_first_refusal(x);
    return d->pending;
}

bool as_reroute_to_next(struct as_exchange *x)
{
    struct as_reroute *d = x->reroute;

    d->pending = false;
    if (!x->conn || x->cancelled || (x->call.stream && x->call.stream->inputs_more)) {
        restore_first_refusal(x);
        return false;
    }
    x->call.fallback_from = x->model->deployment;
    x->call.is_fallback = true;
    x->model = d->next;
    d->n_refused++;
    return true;
}

void as_reroute_add_param(struct as_exchange *x, struct as_oip_response *r)
{
    struct as_reroute *d = x->reroute;
    struct as_param *p = d->params;

    if (!d->n_refused)
        return;
    if (d->cap <= r->n_params) { /* reused by all responses of a stream */
        p = as_arena_alloc(&x->arena, (r->n_params + 1) * sizeof(*p), 8);
        if (!p)
            return; /* the version in the response still shows it */
        d->params = p;
        d->cap = r->n_params + 1;
    }
    if (r->n_params)
        memcpy(p, r->params, r->n_params * sizeof(*p));
    p[r->n_params] = (struct as_param){.name = AS_STR(AS_REROUTE_PARAM),
                                       .type = AS_PARAM_STRING,
                                       .str = as_id_shown(x->model->served_by)};
    r->params = p;
    r->n_params++;
}
