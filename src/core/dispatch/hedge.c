/* Hedges: requests that execute in a second replica, too. */
#include "core/dispatch/hedge.h"

#include "core/dispatch/choice/multiplex.h"
#include "core/dispatch/dispatch.h"

#define SCAN_MAX 16u /* due requests that are looked at for one that another replica can take */

static struct as_request *watched_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_request, hedge_node);
}

as_ns as_hedge_next_due(const struct as_deployment *d)
{
    const struct as_hedger *h = d->hedger;
    as_ns delay = as_hedging_delay(&h->conf, &h->times);

    if (as_list_empty(&h->watched) || delay == AS_NEVER)
        return AS_NEVER;
    return watched_of(h->watched.next)->sent + delay;
}

static void collect_due(struct as_deployment *d, as_ns now)
{
    struct as_hedger *h = d->hedger;

    while (as_hedge_next_due(d) <= now) {
        struct as_request *q = watched_of(h->watched.next);

        as_list_remove(&q->hedge_node);
        as_list_push(&h->due, &q->hedge_node);
        q->hedge = AS_HEDGE_DUE;
        h->n_due++;
    }
}

/* The delay or the requests have changed: has as_deployment_expire called when the next one is due.
 */
static void schedule(struct as_deployment *d, as_ns now)
{
    struct as_hedger *h = d->hedger;
    as_ns due;

    collect_due(d, now);
    due = as_hedge_next_due(d);
    if (due >= h->wake_at)
        return;
    h->wake_at = due;
    d->ops.wake(d->ctx, due);
}

static bool may_hedge(const struct as_deployment *d, const struct as_request *q)
{
    return q->idempotent && q->unary && q->hedge == AS_HEDGE_NONE && !q->pinned && !q->beyond &&
           !q->batch && !q->blame && !q->is_mirror && !q->bound && !q->reservation &&
           !as_queue_batching(&d->queue, q->model);
}

void as_hedge_on_sent(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_hedger *h = d->hedger;

    if (!may_hedge(d, q))
        return;
    if (q->attempts == 1)
        h->tokens = as_hedging_earn(&h->conf, h->tokens);
    q->hedge = AS_HEDGE_WATCHED;
    as_list_push(&h->watched, &q->hedge_node);
    schedule(d, now);
}

void as_hedge_unwatch(struct as_deployment *d, struct as_request *q)
{
    if (q->hedge == AS_HEDGE_DUE) {
        d->hedger->n_due--;
        d->stat.hedges_withheld++;
    }
    as_list_remove(&q->hedge_node);
    q->hedge = AS_HEDGE_NONE;
}

/* --- two executions of one request --- */

static struct as_request *unpair(struct as_request *q)
{
    struct as_request *twin = q->twin;

    AS_ASSERT(twin->twin == q && q->state == AS_REQ_SENT && twin->state == AS_REQ_SENT);
    q->twin = twin->twin = NULL;
    return twin;
}

void as_hedge_on_answer(struct as_deployment *d, struct as_request *q, bool good, as_ns now)
{
    struct as_hedger *h = d->hedger;
    const struct as_request *first = q->hedge == AS_HEDGE_SECOND ? q->twin : q;
    struct as_request *twin;

    if (q->state != AS_REQ_SENT)
        return;
    if (h && good && first && first->hedge != AS_HEDGE_NONE) {
        as_quantile_add(&h->times, now - first->sent);
        schedule(d, now);
    }
    if (!q->twin)
        return;
    if (!good) {
        q->twin->ran = q->twin->ran || q->failed; /* if it was handed back it has not */
        as_hedge_yield(d, q);
        return;
    }
    d->stat.hedges_lost += q->hedge != AS_HEDGE_SECOND;
    twin = unpair(q);
    as_deployment_abandon(d, twin, AS_ECANCELLED);
}

void as_hedge_on_delivered(struct as_deployment *d, const struct as_request *q)
{
    if (q->failed)
        d->stat.hedges_failed++;
    else
        d->stat.hedges_won++;
}

void as_hedge_yield(struct as_deployment *d, struct as_request *q)
{
    unpair(q);
    d->stat.hedges_failed += q->hedge == AS_HEDGE_SECOND;
    as_due_heap_remove(&d->deadlines, &q->due);
    as_request_set_state(q, AS_REQ_ABANDONED);
}

void as_hedge_on_lost(struct as_deployment *d, struct as_request *q, enum as_progress progress,
                      enum as_retry rule)
{
    struct as_request *twin = q->twin;

    twin->ran = twin->ran || progress != AS_PROGRESS_SENT;
    if (rule != AS_RETRY_UNCOUNTED && rule != AS_RETRY_PENDING && twin->tries < UINT8_MAX)
        twin->tries++;
    as_hedge_yield(d, q);
}

void as_hedge_cancel_twin(struct as_deployment *d, struct as_request *q, int reason)
{
    struct as_request *twin = unpair(q);

    d->stat.hedges_cancelled += twin->hedge == AS_HEDGE_SECOND; /* else q is counted when it ends */
    as_deployment_abandon(d, twin, reason);
}

void as_hedge_on_end(struct as_deployment *d, int err)
{
    if (err == AS_EDEADLINE || err == AS_ECANCELLED)
        d->stat.hedges_cancelled++;
    else
        d->stat.hedges_failed++;
}

/* --- sending --- */

/* Another replica than its own with a free slot for q; NULL: none. */
static struct as_replica *find_other(struct as_deployment *d, const struct as_request *q)
{
    struct as_replica *own = q->replica, *r;

    AS_ASSERT(!own->paused);
    own->paused = true;
    as_dispatch_update_limits(own);
    r = as_multiplex_applies(d, q) ? as_multiplex_find_holder(d, q) : as_dispatch_find_free(d, q);
    own->paused = false;
    as_dispatch_update_limits(own);
    return r;
}

/* A request like q has ended a worker since q was sent. */
static bool is_suspect(struct as_deployment *d, struct as_request *q, as_ns now)
{
    int err = d->blame.n ? as_suspect_check(d, q, now) : 0;
    bool is = err || q->blame;

    if (q->blame)
        as_suspect_remove(d, q);
    return is;
}

/* What the caller and the queue have set of q. */
static void copy_request(struct as_request *to, const struct as_request *q)
{
    as_request_init(to);
    to->model = q->model;
    to->priority = q->priority;
    to->idempotent = to->unary = true;
    to->cost = q->cost;
    to->tenant = q->tenant;
    to->has_fallback = q->has_fallback;
    to->items = q->items;
    to->deadline = q->deadline;
    to->kind = q->kind;
    to->root = q->root;
    to->on_cycle = q->on_cycle;
    to->waiting = q->waiting;
    to->model_key = q->model_key;
    to->session_key = q->session_key;
    to->place = q->place;
    to->tries = q->tries;
    to->ran = q->ran;
    to->charged = true; /* its tenant has paid for q */
    to->arrived = q->arrived;
    to->order = q->order;
}

static void send_hedge(struct as_replica *r, struct as_request *q, struct as_request *second,
                       as_ns now)
{
    struct as_deployment *d = r->deployment;

    copy_request(second, q);
    as_request_set_state(second, AS_REQ_QUEUED);
    if (second->deadline != AS_NEVER)
        as_due_heap_push(&d->deadlines, &second->due);
    as_list_remove(&q->hedge_node);
    d->hedger->n_due--;
    q->hedge = AS_HEDGE_SENT;
    second->hedge = AS_HEDGE_SECOND;
    q->twin = second;
    second->twin = q;
    d->hedger->tokens -= 1000;
    d->stat.hedges++;
    as_dispatch_send_call(r, second, now);
}

/* True: some due request was hedged, or is not due any more. */
static bool run_one(struct as_deployment *d, as_ns now)
{
    struct as_list *n = d->hedger->due.next;

    for (uint32_t i = 0; i < SCAN_MAX && n != &d->hedger->due; i++, n = n->next) {
        struct as_request *q = watched_of(n), *second;
        struct as_replica *r;

        if (q->recalled) /* it waited when that was asked, and may still be given back */
            continue;
        r = find_other(d, q);
        if (!r)
            continue;
        second =
            q->bound || is_suspect(d, q, now) || !d->ops.hedge ? NULL : d->ops.hedge(d->ctx, q);
        if (second)
            send_hedge(r, q, second, now);
        else
            as_hedge_unwatch(d, q);
        return true;
    }
    return false;
}

/* A free slot for which a request was recalled is that request's. */
void as_hedge_run(struct as_deployment *d, as_ns now)
{
    while (d->hedger->n_due && d->n_free && as_hedging_can_spend(d->hedger->tokens) &&
           !as_deployment_queued(d) && !d->prefetched && !d->down && run_one(d, now))
        ;
}

void as_hedge_expire(struct as_deployment *d, as_ns now)
{
    struct as_hedger *h = d->hedger;

    collect_due(d, now);
    h->wake_at = as_hedge_next_due(d);
    if (h->n_due)
        as_hedge_run(d, now);
}

/* --- settings --- */

void as_hedge_fini(struct as_deployment *d)
{
    struct as_hedger *h = d->hedger;

    if (!h)
        return;
    AS_LIST_EACH(n, &h->watched) as_hedge_unwatch(d, watched_of(n));
    AS_LIST_EACH(n, &h->due) as_hedge_unwatch(d, watched_of(n));
    free(h);
    d->hedger = NULL;
}

static struct as_hedger *hedger_new(const struct as_hedging_conf *conf)
{
    struct as_hedger *h = as_xalloc(sizeof(*h));

    as_quantile_init(&h->times, conf->quantile);
    as_list_init(&h->watched);
    as_list_init(&h->due);
    h->wake_at = AS_NEVER;
    return h;
}

void as_deployment_set_hedging(struct as_deployment *d, const struct as_hedging_conf *conf,
                               as_ns now)
{
    bool was_on = d->hedger;

    AS_ASSERT(conf->quantile <= AS_HEDGING_MOST && conf->budget <= 1000);
    if (was_on && d->hedger->conf.quantile != conf->quantile)
        as_hedge_fini(d);
    if (conf->quantile) {
        d->hedger = d->hedger ? d->hedger : hedger_new(conf);
        d->hedger->conf = *conf;
    }
    if (d->hedger)
        schedule(d, now);
    if (was_on == (d->hedger != NULL))
        return;
    for (uint32_t i = 0; i < d->n_replicas; i++)
        as_dispatch_update_limits(d->replicas[i]);
    for (uint32_t i = 0; i < d->n_replicas; i++) /* they may prefetch again */
        as_dispatch_pull(d->replicas[i], now);
    as_dispatch_balance(d, now);
}

as_ns as_deployment_hedge_delay(const struct as_deployment *d)
{
    as_ns delay = d->hedger ? as_hedging_delay(&d->hedger->conf, &d->hedger->times) : AS_NEVER;

    return delay == AS_NEVER ? 0 : delay;
}

static bool twins_ok(const struct as_replica *r)
{
    for (struct as_list *n = r->sent.next; n != &r->sent; n = n->next) {
        const struct as_request *q = as_request_of(n), *o = q->twin;

        if (o && (o->twin != q || q->state != AS_REQ_SENT || o->state != AS_REQ_SENT ||
                  o->replica == r || o->order != q->order || q->recalled ||
                  (q->hedge == AS_HEDGE_SECOND) == (o->hedge == AS_HEDGE_SECOND)))
            return false;
    }
    return true;
}

static bool list_ok(const struct as_list *list, enum as_hedge_state state, uint32_t *ret_n)
{
    as_ns sent = 0;

    *ret_n = 0;
    for (const struct as_list *n = list->next; n != list; n = n->next, ++*ret_n) {
        const struct as_request *q = watched_of((struct as_list *)(uintptr_t)n);

        if (q->state != AS_REQ_SENT || q->hedge != state || q->twin || q->sent < sent)
            return false;
        sent = q->sent;
    }
    return true;
}

bool as_hedge_ok(const struct as_deployment *d)
{
    const struct as_hedger *h = d->hedger;
    uint32_t n;

    for (uint32_t i = 0; i < d->n_replicas; i++) {
        if (!twins_ok(d->replicas[i]))
            return false;
    }
    return !h ||
           (list_ok(&h->watched, AS_HEDGE_WATCHED, &n) && list_ok(&h->due, AS_HEDGE_DUE, &n) &&
            n == h->n_due && h->tokens <= AS_HEDGING_BURST * 1000u);
}
