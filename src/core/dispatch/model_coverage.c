/* Models that not every replica of the deployment serves, as while one version takes the place of
 * another: such a model has a lane of its own, which those that lack it step over. Where all serve
 * the same nothing of this costs anything. */
#include "core/dispatch/replica.h"

bool as_deploy_is_mixed(const struct as_deploy *d)
{
    return d->n_absent != 0;
}

static struct as_lane *lane_of(struct as_deploy *d, uint32_t model)
{
    uint32_t cap = d->cap_of[model];

    if (!as_queue_lane(&d->queue, model)) {
        as_queue_restrict(&d->queue, model, cap ? cap : UINT32_MAX);
        as_dispatch_restrict(d); /* every replica counts by model from here on */
    }
    return d->queue.lanes[model];
}

void as_replica_set_model(struct as_replica *r, uint32_t model, bool serves, as_ns now)
{
    struct as_deploy *d = r->deploy;
    struct as_lane *l;

    AS_ASSERT(model < AS_DEPLOY_MODELS_MAX);
    if (serves == as_replica_has(r, model))
        return;
    l = lane_of(d, model);
    r->of_model[model].absent = !serves;
    if (serves) {
        l->gone = false;
        r->n_absent--;
        d->n_absent--;
        as_dispatch_pull(r, now);
        as_dispatch_balance(d);
        return;
    }
    r->n_absent++;
    d->n_absent++;
    if (r->trial.state == AS_TRIAL_KEPT && r->trial.suspect->model == model) {
        as_trial_unkeep(r);
        as_dispatch_pull(r, now);
        as_dispatch_balance(d);
    }
}

static struct as_request *suspect_of(const struct as_deploy *d, uint32_t model)
{
    for (struct as_list *n = d->suspects.next; n != &d->suspects; n = n->next) {
        struct as_request *q = AS_LIST_ENTRY(n, struct as_request, node);

        if (q->model == model)
            return q;
    }
    return NULL;
}

bool as_deploy_is_free(const struct as_deploy *d, uint32_t model)
{
    const struct as_lane *l = as_queue_lane(&d->queue, model);

    if (!l || !l->gone || as_queue_of_model(&d->queue, model) || suspect_of(d, model) ||
        as_grave_holds(d, model))
        return false;
    for (uint32_t i = 0; i < d->n_all; i++) {
        const struct as_replica *r = d->all[i];

        if (as_replica_has(r, model) || r->of_model[model].calls)
            return false;
    }
    return true;
}

void as_deploy_forget_model(struct as_deploy *d, uint32_t model)
{
    AS_ASSERT(as_deploy_is_free(d, model));
    for (uint32_t i = 0; i < d->n_all; i++) {
        struct as_replica *r = d->all[i];

        r->of_model[model].absent = false;
        r->n_absent--;
        d->n_absent--;
    }
    as_blame_forget(&d->blame, model);
    as_grave_forget(d, model);
    as_eject_forget(d, model);
    as_queue_forget(&d->queue, model);
    d->cap_of[model] = 0;
}

void as_absent_begin(struct as_replica *r)
{
    struct as_deploy *d = r->deploy;

    for (uint32_t m = 0; m < d->queue.n_lanes; m++) {
        if (!d->queue.lanes[m] || !d->queue.lanes[m]->gone)
            continue;
        r->of_model[m].absent = true;
        r->n_absent++;
        d->n_absent++;
    }
}

void as_deploy_drop_model(struct as_deploy *d, uint32_t model, as_ns now)
{
    struct as_request *q;

    AS_ASSERT(model < AS_DEPLOY_MODELS_MAX);
    lane_of(d, model)->gone = true;
    while ((q = as_queue_of_model(&d->queue, model))) {
        as_queue_remove(&d->queue, q);
        as_deploy_fail(d, q, AS_EUNAVAILABLE);
    }
    /* from the front again: the trial of another may begin when one leaves */
    while ((q = suspect_of(d, model))) {
        as_trial_remove(d, q, now);
        as_deploy_fail(d, q, AS_EUNAVAILABLE);
    }
}
