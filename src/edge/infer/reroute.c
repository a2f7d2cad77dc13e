#include "edge/infer/reroute.h"

#include "core/registry/traffic.h"

#define WHY_MAX 512

/* What as_infer_begin would say of its inputs. */
static bool fits(const struct as_exchange *x, const struct as_model *m)
{
    char why[WHY_MAX];
    uint32_t items;

    if (m->unloaded ||
        as_model_check_inputs(m, x->infer.inputs, x->infer.n_inputs, why, sizeof(why)))
        return false;
    return !m->batching.max_size ||
           !as_model_items(m, x->infer.inputs, x->infer.n_inputs, why, sizeof(why), &items);
}

static bool takes(void *arg, const struct as_model *m)
{
    const struct as_exchange *x = arg;

    return as_fleet_model_ready(x->edge->client.fleet, m->deployment) && fits(x, m);
}

void as_detour_choose(struct as_exchange *x)
{
    const struct as_model *canary;

    if (as_detour_versioned(x))
        return;
    canary =
        as_traffic_canary(x->registry, x->model,
                          as_traffic_point(x->model->name, x->infer.id, &x->edge->turn), takes, x);
    if (canary)
        x->model = canary;
}

static const struct as_model *next_of(const struct as_exchange *x, const struct as_detour *d)
{
    const struct as_model *m = as_traffic_fallback(x->registry, d->first, d->refused + 1);

    return m && fits(x, m) ? m : NULL;
}

void as_detour_prepare(struct as_exchange *x)
{
    struct as_detour *d = x->detour;

    if (!d) {
        if (!x->model->traffic.fallback.n || as_detour_versioned(x))
            return;
        d = as_arena_alloc(&x->arena, sizeof(*d), 8);
        if (!d)
            return; /* it can do without */
        *d = (struct as_detour){.first = x->model};
        x->detour = d;
    }
    d->next = next_of(x, d);
    x->call.core.elsewhere = d->next;
}

/* By the dispatcher, not by a worker. */
static bool is_refusal(const struct as_call *c)
{
    return !c->status && (c->err == AS_EFULL || c->err == AS_EUNAVAILABLE);
}

static void refuse(struct as_exchange *x)
{
    const struct as_detour *d = x->detour;

    x->call.err = d->err;
    x->call.retry_after = d->retry_after;
    x->model = d->first;
}

bool as_detour_takes(struct as_exchange *x)
{
    struct as_detour *d = x->detour;
    struct as_call *c = &x->call;

    if (!is_refusal(c))
        return false;
    if (!d->refused) {
        d->err = c->err;
        d->retry_after = c->retry_after;
    }
    d->ran = d->ran || c->core.ran;
    /* what may have run goes on only where running twice is no harm */
    d->going = d->next && x->conn && x->state == AS_X_WAITING &&
               (!d->ran || (c->core.idempotent && d->next->idempotent));
    if (!d->going)
        refuse(x);
    return d->going;
}

bool as_detour_goes(struct as_exchange *x)
{
    struct as_detour *d = x->detour;

    d->going = false;
    if (!x->conn || x->cancelled || (x->call.on_part && x->call.inputs_more)) {
        refuse(x);
        return false;
    }
    x->call.fell_from = x->model->deployment;
    x->call.fell = true;
    x->model = d->next;
    d->refused++;
    return true;
}

void as_detour_tell(struct as_exchange *x, struct as_oip_response *r)
{
    struct as_detour *d = x->detour;
    struct as_param *p = d->params;

    if (!d->refused)
        return;
    if (d->cap <= r->n_params) { /* of a stream's answers each uses it again */
        p = as_arena_alloc(&x->arena, (r->n_params + 1) * sizeof(*p), 8);
        if (!p)
            return; /* the version tells, too */
        d->params = p;
        d->cap = r->n_params + 1;
    }
    if (r->n_params)
        memcpy(p, r->params, r->n_params * sizeof(*p));
    p[r->n_params] = (struct as_param){
        .name = AS_STR(AS_DETOUR_PARAM), .type = AS_PARAM_STRING, .str = x->model->served_by};
    r->params = p;
    r->n_params++;
}
