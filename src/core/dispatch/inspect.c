/* What a deployment and its replicas have, for those who ask. */
#include "core/dispatch/choice/multiplex.h"
#include "core/dispatch/deployment_internal.h"

struct as_str as_deployment_name(const struct as_deployment *d)
{
    return as_str_of(d->name);
}

uint32_t as_deployment_queued(const struct as_deployment *d)
{
    return d->queue.n + d->n_preferring + d->n_suspects + d->n_stranded;
}

uint32_t as_deployment_preferring(const struct as_deployment *d)
{
    return d->n_preferring;
}

const struct as_router_conf *as_deployment_router(const struct as_deployment *d)
{
    return &d->conf.router;
}

uint32_t as_replica_models(const struct as_replica *r)
{
    return r->n_held;
}

uint32_t as_deployment_beyond(const struct as_deployment *d)
{
    return d->beyond;
}

uint32_t as_deployment_reserved(const struct as_deployment *d)
{
    return d->reserved;
}

uint32_t as_deployment_suspects(const struct as_deployment *d)
{
    return d->n_suspects;
}

uint32_t as_deployment_parked(const struct as_deployment *d)
{
    return d->parked;
}

uint32_t as_deployment_poisons(const struct as_deployment *d)
{
    return as_blame_poisons(&d->blame);
}

uint32_t as_deployment_prefetched(const struct as_deployment *d)
{
    return d->prefetched;
}

uint32_t as_deployment_ongoing(const struct as_deployment *d)
{
    return d->ongoing;
}

uint32_t as_deployment_replicas(const struct as_deployment *d)
{
    return d->n_replicas;
}

uint32_t as_deployment_ready(const struct as_deployment *d)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->n_replicas; i++)
        n += as_replica_is_ready(d->replicas[i]);
    return n;
}

as_ns as_deployment_batch_service(const struct as_deployment *d, uint32_t model)
{
    const struct as_batching *b = as_queue_batching(&d->queue, model);

    return b ? b->service : 0;
}

struct as_stat *as_deployment_stat(struct as_deployment *d)
{
    return &d->stat;
}

/* The expected time between two answers, from the service times of the replicas, in 1/1024 ns. */
static as_ns estimate_gap(const struct as_deployment *d)
{
    uint64_t per_second = 0;

    for (uint32_t i = 0; i < d->n_replicas; i++) {
        const struct as_replica *r = d->replicas[i];

        if (r->service && as_replica_is_open(r))
            per_second += r->slots * AS_SEC / r->service;
    }
    return per_second ? (AS_SEC << 10) / per_second : 0;
}

as_ns as_deployment_retry_after(struct as_deployment *d, as_ns now)
{
    const struct as_stat *s = &d->stat;
    as_ns hint = as_queue_drain_time(
        &d->drain, s->completed + s->failed + s->expired + s->cancelled,
        (uint64_t)as_deployment_queued(d) + d->prefetched, estimate_gap(d), now);

    return hint + as_rand_below(&d->rand, hint / 4 + 1);
}

void as_deployment_each_replica(struct as_deployment *d,
                                void (*fn)(void *arg, struct as_replica *r), void *arg)
{
    for (uint32_t i = 0; i < d->n_replicas; i++)
        fn(arg, d->replicas[i]);
}

/* --- replicas --- */

void *as_replica_link(const struct as_replica *r)
{
    return r->link;
}

uint32_t as_replica_ongoing(const struct as_replica *r)
{
    return r->unanswered - as_replica_waiting(r) - r->beyond;
}

uint32_t as_replica_beyond(const struct as_replica *r)
{
    return r->beyond;
}

uint64_t as_replica_id(const struct as_replica *r)
{
    return r->id;
}

void as_replica_view(const struct as_replica *r, const struct as_request *q,
                     struct as_replica_view *ret_v)
{
    *ret_v = (struct as_replica_view){
        .id = r->id,
        .place = r->place,
        .slots = r->slots,
        .unanswered = r->unanswered,
        .waiting = r->own.n,
        .models = r->n_held,
        .service = r->service,
        .is_free = r->free_at != AS_NOWHERE && as_replica_can_execute(r, q),
        .holds_model = as_multiplex_applies(r->deployment, q) && as_multiplex_holds(r, q)};
}

enum as_breaker_state as_replica_breaker(const struct as_replica *r)
{
    return r->breaker.state;
}

enum as_quarantine_state as_replica_quarantine(const struct as_replica *r)
{
    return r->quarantine.state;
}

uint32_t as_replica_slots(const struct as_replica *r)
{
    return r->slots;
}

uint32_t as_replica_unanswered(const struct as_replica *r)
{
    return r->unanswered;
}

as_ns as_replica_service(const struct as_replica *r)
{
    return r->service;
}

as_ns as_replica_model_service(const struct as_replica *r, uint32_t model)
{
    return r->of_model ? r->of_model[model].service : 0;
}
