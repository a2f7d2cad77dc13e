/* Models that not every replica of the deployment serves, as during an update to another version.
 * Such a model has a lane of its own, which replicas that do not serve it skip. While all replicas
 * serve the same models this costs nothing. */
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"
#include "core/dispatch/faults/outlier_ejection.h"
#include "core/dispatch/faults/pending_verdict.h"

bool as_deployment_is_mixed(const struct as_deployment *d)
{
    return d->n_absent != 0;
}

static struct as_lane *ensure_lane(struct as_deployment *d, uint32_t model)
{
    uint32_t cap = d->cap_of[model];

    if (!as_queue_lane(&d->queue, model)) {
        as_queue_add_lane(&d->queue, model, cap ? cap : UINT32_MAX);
        as_dispatch_update_caps(d); /* now every replica counts its calls by model */
    }
    return d->queue.lanes[model];
}

void as_replica_set_model(struct as_replica *r, uint32_t model, bool serves, as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct as_lane *l;

    AS_ASSERT(model < AS_DEPLOYMENT_MODELS_MAX);
    if (serves == as_replica_serves(r, model))
        return;
    l = ensure_lane(d, model);
    r->of_model[model].absent = !serves;
    if (serves) {
        l->dropped = false;
        r->n_absent--;
        d->n_absent--;
        as_dispatch_pull(r, now);
        as_dispatch_balance(d, now);
        return;
    }
    r->n_absent++;
    d->n_absent++;
    if (r->quarantine.state == AS_QUARANTINE_RESERVED && r->quarantine.suspect->model == model) {
        as_quarantine_release(r);
        as_dispatch_pull(r, now);
        as_dispatch_balance(d, now);
    }
}

static struct as_request *first_of(const struct as_list *all, uint32_t model)
{
    for (struct as_list *n = all->next; n != all; n = n->next) {
        struct as_request *q = as_request_of(n);

        if (q->model == model)
            return q;
    }
    return NULL;
}

static struct as_request *suspect_of(const struct as_deployment *d, uint32_t model)
{
    return first_of(&d->suspects, model);
}

static bool has_beyond(const struct as_replica *r, uint32_t model)
{
    for (struct as_list *n = r->sent.next; r->beyond && n != &r->sent; n = n->next) {
        if (as_request_of(n)->beyond && as_request_of(n)->model == model)
            return true;
    }
    return false;
}

bool as_deployment_is_unused(const struct as_deployment *d, uint32_t model)
{
    const struct as_lane *l = as_queue_lane(&d->queue, model);

    if (!l || !l->dropped || as_queue_first_of_model(&d->queue, model) ||
        first_of(&d->preferring, model) || suspect_of(d, model) || as_beyond_first(d, model) ||
        as_pending_verdict_holds_model(d, model))
        return false;
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        const struct as_replica *r = d->replicas[i];

        if (as_replica_serves(r, model) || r->of_model[model].calls || has_beyond(r, model))
            return false;
    }
    return true;
}

void as_deployment_forget_model(struct as_deployment *d, uint32_t model)
{
    AS_ASSERT(as_deployment_is_unused(d, model));
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];

        r->of_model[model].absent = false;
        r->n_absent--;
        d->n_absent--;
    }
    as_blame_forget_model(&d->blame, model);
    as_pending_verdict_forget_model(d, model);
    as_outlier_forget_model(d, model);
    as_queue_remove_lane(&d->queue, model);
    d->cap_of[model] = 0;
}

void as_model_coverage_init(struct as_replica *r)
{
    struct as_deployment *d = r->deployment;

    for (uint32_t m = 0; m < d->queue.n_lanes; m++) {
        if (!d->queue.lanes[m] || !d->queue.lanes[m]->dropped)
            continue;
        r->of_model[m].absent = true;
        r->n_absent++;
        d->n_absent++;
    }
}

void as_deployment_drop_model(struct as_deployment *d, uint32_t model, as_ns now)
{
    struct as_request *q;

    AS_ASSERT(model < AS_DEPLOYMENT_MODELS_MAX);
    ensure_lane(d, model)->dropped = true;
    while ((q = as_queue_first_of_model(&d->queue, model))) {
        as_queue_remove(&d->queue, q);
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
    }
    while ((q = first_of(&d->preferring, model))) {
        as_preference_dequeue(d, q);
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
    }
    while ((q = as_beyond_first(d, model))) {
        as_beyond_dequeue(d, q);
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
    }
    /* starts from the front each time: when one leaves, another may enter quarantine */
    while ((q = suspect_of(d, model))) {
        as_quarantine_remove(d, q, now);
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
    }
    if (d->n_suspects) /* turns_owed may have become 0 */
        as_quarantine_schedule(d, now);
    as_dispatch_balance(d, now);
}
