#include "core/dispatch/width.h"

#include "core/dispatch/dispatch.h"

/* r uses all of its slots. */
static bool is_warm(const struct as_replica *r)
{
    return as_replica_is_ready(r) && !r->warms && r->breaker.state == AS_BREAKER_CLOSED;
}

/* Another replica is warm, and has been ready since then or before. */
static bool has_warm_peer(const struct as_deployment *d, const struct as_replica *r, as_ns since)
{
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        const struct as_replica *o = d->replicas[i];

        if (o != r && is_warm(o) && o->ready_since <= since)
            return true;
    }
    return false;
}

static as_ns age_of(const struct as_replica *r, as_ns now)
{
    return now - r->ready_since;
}

static void set_warms(struct as_replica *r, bool warms)
{
    r->deployment->n_warming += warms - r->warms;
    r->warms = warms;
}

static void update_cap(struct as_replica *r, as_ns now)
{
    const struct as_deployment *d = r->deployment;
    as_ns next = AS_NEVER;

    r->warm_width = UINT32_MAX;
    if (r->warms) {
        r->warm_width = as_slow_start_width(r->slots, age_of(r, now), d->slow_start);
        next = as_slow_start_next(r->slots, age_of(r, now), d->slow_start);
        next = r->ready_since + AS_MIN(next, d->slow_start);
    }
    r->next_step = next;
    r->cap = d->adaptive ? AS_MIN(r->warm_width, as_gradient_limit(&r->gradient, r->slots))
                         : r->warm_width;
}

static void wake(struct as_deployment *d, as_ns now)
{
    as_ns when = d->n_warming ? as_width_next_due(d) : AS_NEVER;

    if (when != AS_NEVER)
        d->ops.wake(d->ctx, AS_MAX(when, now + 1));
}

void as_width_on_grant(struct as_replica *r, as_ns now)
{
    struct as_deployment *d = r->deployment;

    if (r->slots && r->ready_since == AS_NEVER) {
        r->ready_since = now;
        set_warms(r,
                  d->slow_start && now > d->slow_start && has_warm_peer(d, r, now - d->slow_start));
    }
    update_cap(r, now);
    wake(d, now);
}

void as_width_on_service(struct as_replica *r, as_ns service)
{
    uint32_t busy = as_replica_front_calls(r);

    if (!r->deployment->adaptive || !as_gradient_add(&r->gradient, r->slots, service, busy))
        return;
    r->cap = AS_MIN(r->warm_width, as_gradient_limit(&r->gradient, r->slots));
    as_dispatch_update_limits(r);
}

void as_width_update(struct as_deployment *d, as_ns now)
{
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];

        if (!r->warms)
            continue;
        if (age_of(r, now) >= d->slow_start || !has_warm_peer(d, r, AS_NEVER - 1))
            set_warms(r, false);
        update_cap(r, now);
        as_dispatch_update_limits(r);
        as_dispatch_pull(r, now);
    }
    wake(d, now);
    as_dispatch_balance(d, now);
}

void as_width_forget(struct as_replica *r)
{
    set_warms(r, false);
}

as_ns as_width_next_due(const struct as_deployment *d)
{
    as_ns next = AS_NEVER;

    for (uint32_t i = 0; i < d->n_replicas; i++) {
        const struct as_replica *r = d->replicas[i];

        if (r->warms)
            next = AS_MIN(next, r->next_step);
    }
    return next;
}

bool as_width_ok(const struct as_deployment *d)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->n_replicas; i++) {
        const struct as_replica *r = d->replicas[i];

        n += r->warms;
        if ((r->slots && !r->cap) || (!r->warms && !d->adaptive && r->cap != UINT32_MAX) ||
            (r->warms && (!d->slow_start || r->ready_since == AS_NEVER)))
            return false;
    }
    return n == d->n_warming;
}

/* --- settings --- */

void as_deployment_set_slow_start(struct as_deployment *d, as_ns duration, as_ns now)
{
    d->slow_start = duration;
    if (d->n_warming)
        as_width_update(d, now);
}

void as_deployment_set_adaptive(struct as_deployment *d, bool on, as_ns now)
{
    if (d->adaptive == on)
        return;
    d->adaptive = on;
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        update_cap(d->replicas[i], now);
        as_dispatch_update_limits(d->replicas[i]);
    }
    for (uint32_t i = 0; i < d->n_replicas; i++)
        as_dispatch_pull(d->replicas[i], now);
    as_dispatch_balance(d, now);
}

uint32_t as_replica_cap(const struct as_replica *r)
{
    return r->cap;
}
