/* The lives of requests in a deployment: submit, cancel, expire, down, the end. */
#include "core/dispatch/deployment.h"

#include "core/dispatch/replica.h"

int as_deploy_new(struct as_deploy **ret_d, struct as_str name, const struct as_deploy_conf *conf,
                  const struct as_deploy_ops *ops, void *ctx)
{
    struct as_deploy *d;

    if (conf->max_queued < -1 || (size_t)conf->router > AS_ROUTER_POW2)
        return AS_EINVALID;
    d = as_xalloc(sizeof(*d));
    d->conf = *conf;
    d->conf.prefetch_work = AS_MIN(conf->prefetch_work, UINT32_MAX);
    d->ops = *ops;
    d->ctx = ctx;
    d->name = as_str_dup(name);
    d->router = as_router_ops(conf->router);
    d->rand.s = conf->seed;
    as_queue_init(&d->queue);
    d->queue.alike = ops->alike;
    as_list_init(&d->batches);
    as_blame_init(&d->blame, &conf->blame);
    as_eject_model(d, 0);
    as_list_init(&d->suspects);
    d->serving = AS_NEVER;
    as_list_init(&d->graves);
    as_list_init(&d->released);
    as_heap_init(&d->deadlines);
    *ret_d = d;
    return 0;
}

void as_deploy_end(struct as_deploy *d, struct as_request *q)
{
    as_heap_remove(&d->deadlines, q);
    as_request_move(q, AS_REQ_DONE);
    as_deploy_clear(d, q);
    d->ops.release(d->ctx, q);
}

void as_deploy_tell(struct as_deploy *d, struct as_request *q, int err)
{
    if (err == AS_EDEADLINE)
        d->stat.expired++;
    else
        d->stat.failed++;
    if (err == AS_EMAYHAVERUN)
        d->stat.lost++;
    else if (err == AS_EPOISON)
        d->stat.quarantined++;
    as_heap_remove(&d->deadlines, q);
    d->ops.answer(d->ctx, q, err);
}

void as_deploy_fail(struct as_deploy *d, struct as_request *q, int err)
{
    as_deploy_tell(d, q, err);
    as_deploy_end(d, q);
}

static void fail_queued(struct as_deploy *d, int err)
{
    struct as_request *q;

    while ((q = as_queue_any(&d->queue))) {
        as_queue_remove(&d->queue, q);
        as_deploy_fail(d, q, err);
    }
    while (d->n_suspects) {
        q = AS_LIST_ENTRY(d->suspects.next, struct as_request, node);
        as_trial_leave(d, q);
        as_deploy_fail(d, q, err);
    }
}

static void fail_sent(struct as_replica *r)
{
    struct as_deploy *d = r->deploy;

    as_trial_decide(d, as_trial_abort(r));
    AS_LIST_EACH(it, &r->sent)
    {
        struct as_request *q = AS_LIST_ENTRY(it, struct as_request, node);

        q->ran = true; /* for all that we know */
        if (q->state == AS_REQ_SENT)
            as_deploy_tell(d, q, AS_EUNAVAILABLE);
        as_dispatch_detach(q);
        as_deploy_end(d, q);
    }
}

void as_deploy_free(struct as_deploy *d)
{
    if (!d)
        return;
    d->down = true; /* what a death lets go waits for nobody */
    fail_queued(d, AS_EUNAVAILABLE);
    while (d->n_all) {
        struct as_replica *r = d->all[d->n_all - 1];

        fail_sent(r);
        as_replica_free(r, UINT64_MAX, AS_LOSS_LINK, 0);
    }
    as_grave_fill_all(d, AS_EUNAVAILABLE);
    as_blame_fini(&d->blame);
    AS_LIST_EACH(n, &d->batches) free(AS_LIST_ENTRY(n, struct as_batch, node));
    as_queue_fini(&d->queue);
    as_heap_fini(&d->deadlines);
    free(d->medians);
    free(d->all);
    free(d->free);
    free(d->name);
    free(d);
}

int as_deploy_set_model(struct as_deploy *d, uint32_t model, uint32_t max_ongoing)
{
    if (model >= AS_DEPLOY_MODELS_MAX || !max_ongoing)
        return AS_EINVALID;
    if (d->cap_of[model])
        return d->cap_of[model] == max_ongoing ? 0 : AS_EEXISTS;
    d->cap_of[model] = max_ongoing;
    as_eject_model(d, model);
    as_dispatch_restrict(d);
    return 0;
}

static void relimit(void *arg AS_UNUSED, struct as_replica *r)
{
    as_dispatch_relimit(r);
}

int as_deploy_set_batch(struct as_deploy *d, uint32_t model, const struct as_batch_conf *conf)
{
    const struct as_lane *lane = as_queue_lane(&d->queue, model);
    const struct as_batching *old;

    if (model >= AS_DEPLOY_MODELS_MAX || as_batch_check(conf))
        return AS_EINVALID;
    old = as_queue_batching(&d->queue, model);
    if (old)
        return as_batch_eq(&old->conf, conf) ? 0 : AS_EEXISTS;
    if (!conf->max_size)
        return 0;
    if (lane && lane->n) /* it has taken requests one by one */
        return AS_EEXISTS;
    as_queue_batch(&d->queue, model, d->cap_of[model] ? d->cap_of[model] : UINT32_MAX, conf);
    d->batched = true;
    as_dispatch_restrict(d);
    as_deploy_each_replica(d, relimit, NULL);
    return 0;
}

void as_deploy_set_max_queued(struct as_deploy *d, int64_t max_queued)
{
    AS_ASSERT(max_queued >= -1);
    d->conf.max_queued = max_queued;
}

static bool is_full(const struct as_deploy *d)
{
    return d->conf.max_queued >= 0 &&
           (int64_t)d->queue.n + d->n_suspects + d->prefetched >= d->conf.max_queued;
}

static int refuse(struct as_request *q, int err)
{
    as_request_move(q, AS_REQ_DONE);
    return err;
}

/* What every accepted request gets. */
static void accept(struct as_deploy *d, struct as_request *q, as_ns now)
{
    as_request_move(q, AS_REQ_QUEUED);
    q->arrived = now;
    q->order = ++d->orders;
    if (q->deadline != AS_NEVER)
        as_heap_push(&d->deadlines, q);
    d->stat.accepted++;
}

/* Like one that ended a worker: it waits for a replica of its own, or is refused. */
static int submit_suspect(struct as_deploy *d, struct as_request *q, int err, as_ns now)
{
    if (err) {
        d->stat.quarantined++;
        return refuse(q, err);
    }
    if (as_absent_is_gone(d, q)) {
        as_suspect_forget(d, q);
        return refuse(q, AS_EUNAVAILABLE);
    }
    if (is_full(d)) {
        as_suspect_forget(d, q);
        d->stat.refused++;
        return refuse(q, AS_EFULL);
    }
    accept(d, q, now);
    as_trial_add(d, q, now);
    as_trial_go(d, now);
    return 0;
}

/* Through its lane in any case, since others may go with it. */
static int submit_batched(struct as_deploy *d, struct as_request *q, as_ns now)
{
    const struct as_batching *b = as_queue_batching(&d->queue, q->model);
    struct as_lane *l;

    AS_ASSERT(q->items && q->items <= b->conf.max_size);
    q->release = as_batch_release(&b->conf, q->deadline, b->service, now);
    if (as_absent_is_gone(d, q))
        return refuse(q, AS_EUNAVAILABLE);
    l = as_queue_lane_for(&d->queue, q);
    if (is_full(d) && !(as_lane_ripens(l, q) && as_dispatch_free_for(d, q))) {
        d->stat.refused++;
        return refuse(q, AS_EFULL);
    }
    accept(d, q, now);
    as_queue_push(&d->queue, q);
    if (q->lane->holding)
        d->ops.wake(d->ctx, q->release);
    else
        as_dispatch_lane(d, q->lane, now);
    if (__builtin_expect(d->n_suspects != 0, 0)) /* nobody may be owed any more */
        as_trial_go(d, now);
    return 0;
}

int as_deploy_submit(struct as_deploy *d, struct as_request *q, as_ns now)
{
    struct as_replica *r;

    AS_ASSERT(q->model < AS_DEPLOY_MODELS_MAX && q->priority < AS_PRIORITIES);
    if (__builtin_expect(q->elsewhere || q->spare, 0)) {
        int err = as_elsewhere_look(d, q, is_full(d));

        if (err)
            return refuse(q, err);
    }
    if (d->down)
        return refuse(q, AS_EUNAVAILABLE);
    if (q->deadline <= now) { /* its life here was short, but it is in the books like any other */
        d->stat.accepted++;
        d->stat.expired++;
        return refuse(q, AS_EDEADLINE);
    }
    if (__builtin_expect(d->blame.n != 0, 0)) {
        int err = as_suspect_look(d, q, now);

        if (err || q->blame)
            return submit_suspect(d, q, err, now);
    }
    if (d->batched && as_queue_batching(&d->queue, q->model))
        return submit_batched(d, q, now);
    r = as_dispatch_free_for(d, q);
    if (!r) {
        if (as_absent_is_gone(d, q))
            return refuse(q, AS_EUNAVAILABLE);
        if (is_full(d)) {
            d->stat.refused++;
            return refuse(q, AS_EFULL);
        }
        r = as_dispatch_prefetch_for(d, q);
    }
    accept(d, q, now);
    if (r)
        as_dispatch_send(r, q, now);
    else
        as_queue_push(&d->queue, q);
    if (__builtin_expect(d->n_suspects != 0, 0))
        as_trial_go(d, now);
    return 0;
}

/* Between two answers, if every slot works as its replica did of late; in 1/1024 ns. */
static as_ns guess_gap(const struct as_deploy *d)
{
    uint64_t per_second = 0;

    for (uint32_t i = 0; i < d->n_all; i++) {
        const struct as_replica *r = d->all[i];

        if (r->service && as_replica_open(r))
            per_second += r->slots * AS_SEC / r->service;
    }
    return per_second ? (AS_SEC << 10) / per_second : 0;
}

as_ns as_deploy_retry_after(struct as_deploy *d, as_ns now)
{
    const struct as_stat *s = &d->stat;
    as_ns hint = as_drain_hint(&d->drain, s->completed + s->failed + s->expired + s->cancelled,
                               (uint64_t)as_deploy_queued(d) + d->prefetched, guess_gap(d), now);

    return hint + as_rand_below(&d->rand, hint / 4 + 1);
}

void as_deploy_abandon(struct as_deploy *d, struct as_request *q, int reason)
{
    d->ops.cancel(d->ctx, q->replica, q, reason);
    as_heap_remove(&d->deadlines, q);
    as_request_move(q, AS_REQ_ABANDONED);
}

void as_deploy_cancel(struct as_deploy *d, struct as_request *q, as_ns now)
{
    if (q->state == AS_REQ_QUEUED) {
        d->stat.cancelled++;
        as_dispatch_unqueue(d, q, now);
        as_deploy_end(d, q);
        if (d->n_suspects) /* nobody may be owed any more */
            as_trial_go(d, now);
    } else if (q->state == AS_REQ_SENT) {
        d->stat.cancelled++;
        as_deploy_abandon(d, q, AS_ECANCELLED);
    } else if (q->state == AS_REQ_PARKED) {
        d->stat.cancelled++;
        as_grave_leave(d, q);
    }
}

void as_deploy_expire(struct as_deploy *d, as_ns now)
{
    struct as_request *q;

    while ((q = as_heap_first(&d->deadlines)) && q->deadline <= now) {
        if (q->state == AS_REQ_QUEUED) {
            as_dispatch_unqueue(d, q, now);
            as_deploy_fail(d, q, AS_EDEADLINE);
        } else if (q->state == AS_REQ_PARKED) {
            as_deploy_tell(d, q, AS_EDEADLINE);
            as_grave_leave(d, q);
        } else {
            /* told last: the verdict takes the request to another thread, which owns it then */
            as_eject_late(q->replica, q, now);
            as_deploy_abandon(d, q, AS_EDEADLINE);
            as_deploy_tell(d, q, AS_EDEADLINE);
        }
    }
    if (d->n_graves)
        as_grave_expire(d, now);
    if (d->queue.n_holding && as_queue_next_release(&d->queue) <= now) {
        as_queue_ripen(&d->queue, now);
        as_dispatch_flow(d, now);
    }
    if (d->n_out)
        as_eject_expire(d, now);
    if (d->n_suspects || d->n_trials)
        as_trial_expire(d, now);
}

void as_deploy_work(struct as_deploy *d, as_ns now)
{
    if (!as_grave_work(d, now) || !as_suspect_prove(d, now))
        d->ops.next_turn(d->ctx);
}

as_ns as_deploy_next_deadline(const struct as_deploy *d)
{
    const struct as_request *q = as_heap_first(&d->deadlines);
    as_ns next = q ? q->deadline : AS_NEVER;

    if (d->n_graves)
        next = AS_MIN(next, as_grave_next(d));
    if (d->n_out)
        next = AS_MIN(next, as_eject_next(d));
    if (d->n_suspects || d->n_trials)
        next = AS_MIN(next, as_trial_next(d));
    return d->queue.n_holding ? AS_MIN(next, as_queue_next_release(&d->queue)) : next;
}

void as_deploy_set_down(struct as_deploy *d, bool down, as_ns now AS_UNUSED)
{
    d->down = down;
    if (!down)
        return;
    fail_queued(d, AS_EUNAVAILABLE);
    as_dispatch_balance(d); /* replicas that were kept for suspects have room */
}

void as_deploy_give_up(struct as_deploy *d)
{
    d->down = true;
    fail_queued(d, AS_EUNAVAILABLE);
    as_grave_fill_all(d, AS_EMAYHAVERUN);
}

/* --- inspection --- */

struct as_str as_deploy_name(const struct as_deploy *d)
{
    return as_str_of(d->name);
}

uint32_t as_deploy_queued(const struct as_deploy *d)
{
    return d->queue.n + d->n_suspects;
}

uint32_t as_deploy_suspects(const struct as_deploy *d)
{
    return d->n_suspects;
}

uint32_t as_deploy_parked(const struct as_deploy *d)
{
    return d->parked;
}

uint32_t as_deploy_condemned(const struct as_deploy *d)
{
    return as_blame_condemned(&d->blame);
}

uint32_t as_deploy_prefetched(const struct as_deploy *d)
{
    return d->prefetched;
}

uint32_t as_deploy_ongoing(const struct as_deploy *d)
{
    return d->ongoing;
}

uint32_t as_deploy_replicas(const struct as_deploy *d)
{
    return d->n_all;
}

uint32_t as_deploy_ready(const struct as_deploy *d)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->n_all; i++)
        n += d->all[i]->slots > 0 && !d->all[i]->draining;
    return n;
}

as_ns as_deploy_batch_service(const struct as_deploy *d, uint32_t model)
{
    const struct as_batching *b = as_queue_batching(&d->queue, model);

    return b ? b->service : 0;
}

struct as_stat *as_deploy_stat(struct as_deploy *d)
{
    return &d->stat;
}

void as_deploy_each_replica(struct as_deploy *d, void (*fn)(void *arg, struct as_replica *r),
                            void *arg)
{
    for (uint32_t i = 0; i < d->n_all; i++)
        fn(arg, d->all[i]);
}
