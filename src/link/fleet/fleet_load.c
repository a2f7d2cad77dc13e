/* What autoscaling counts of a deployment, told to the owner when it changes. One timer for all. */
#include "link/fleet/upstream.h"

static uint32_t count_queued(const struct as_fleet_deployment *d)
{
    return d->core ? as_deployment_queued(d->core) + as_deployment_prefetched(d->core) +
                         as_deployment_parked(d->core)
                   : 0;
}

static uint32_t count_ongoing(const struct as_fleet_deployment *d)
{
    return d->core ? as_deployment_ongoing(d->core) + as_deployment_beyond(d->core) : 0;
}

static void set_due(struct as_fleet_deployment *d, as_ns due)
{
    d->counting.due = due;
    if (due < d->fleet->load_timer.at)
        as_timer_set(&d->fleet->load_timer, due);
}

void as_fleet_load_changed(struct as_fleet_deployment *d)
{
    struct as_fleet_counting *k = &d->counting;
    as_ns now = as_loop_now(d->fleet->loop), due = AS_MAX(now, k->last + k->interval);

    /* the first request of a deployment without a replica starts one */
    if (!k->was_loaded && !as_fleet_flag(&d->ready))
        due = now;
    if (due < k->due)
        set_due(d, due);
}

static void send_load(struct as_fleet_deployment *d, as_ns now)
{
    struct as_fleet_counting *k = &d->counting;
    struct as_fleet_load l = {.deployment = as_str_of(d->name),
                              .core = d->core,
                              .queued = count_queued(d),
                              .ongoing = count_ongoing(d),
                              .times = k->times,
                              .stats = k->stats};

    k->last = now;
    k->was_loaded = l.queued + l.ongoing > 0;
    k->due = d->fleet->ops.on_load && d->fleet->ops.on_load(d->fleet->ctx, &l)
                 ? AS_NEVER
                 : now + AS_MAX(k->interval, AS_MS);
}

void as_fleet_on_load_timer(struct as_timer *t)
{
    struct as_fleet *f = AS_CONTAINER(t, struct as_fleet, load_timer);
    as_ns now = as_loop_now(f->loop), next = AS_NEVER;

    for (uint32_t i = 0; i < f->n_deploys; i++) {
        struct as_fleet_deployment *d = f->deploys[i];

        if (!d->name || !d->counting.on)
            continue;
        if (d->counting.due <= now)
            send_load(d, now);
        next = AS_MIN(next, d->counting.due);
    }
    as_timer_set(t, next);
}

static void update_asleep(struct as_fleet_deployment *d)
{
    bool asleep = d->counting.on && d->counting.none_wanted;

    if (as_fleet_flag(&d->asleep) == asleep)
        return;
    as_fleet_set_flag(&d->asleep, asleep);
    as_fleet_republish(d->fleet);
}

/* The worker has reported other autoscaling statistics. */
void as_fleet_stats_changed(struct as_upstream *u)
{
    u->stats_pending = true;
    if (u->deploy && u->deploy->counting.on && u->deploy->counting.stats)
        as_fleet_load_changed(u->deploy);
}

/* A new controller knows none of them. */
static void tell_all_stats(struct as_fleet *f, const struct as_fleet_deployment *d)
{
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        if (u->deploy == d && u->stats_at)
            u->stats_pending = true;
    }
}

void as_fleet_count(struct as_fleet *f, struct as_str deployment, bool on, unsigned what,
                    as_ns interval)
{
    struct as_fleet_deployment *d =
        on ? as_fleet_get_deployment(f, deployment) : as_fleet_find_deployment(f, deployment);

    if (!d)
        return;
    d->counting.on = on;
    d->counting.times = what & AS_FLEET_COUNT_TIMES;
    d->counting.stats = what & AS_FLEET_COUNT_STATS;
    d->counting.interval = interval;
    /* the interval is over: the loop's clock may be younger than it */
    d->counting.last = as_loop_now(f->loop) - interval;
    d->counting.due = AS_NEVER;
    update_asleep(d);
    if (on && d->counting.stats)
        tell_all_stats(f, d);
    if (on) /* at once, whatever was told before, and when */
        set_due(d, as_loop_now(f->loop));
}

void as_fleet_set_wanted(struct as_fleet *f, struct as_str deployment, uint32_t replicas)
{
    /* a new dispatcher is told that there is to be no replica before it knows the deployment */
    struct as_fleet_deployment *d =
        replicas ? as_fleet_find_deployment(f, deployment) : as_fleet_get_deployment(f, deployment);

    if (!d)
        return;
    d->counting.none_wanted = replicas == 0;
    update_asleep(d);
}

void as_fleet_each_load(struct as_fleet *f, struct as_str deployment,
                        void (*fn)(void *arg, struct as_str replica, uint32_t requests), void *arg)
{
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        if (u->replica && u->process && u->deploy && !u->retiring &&
            as_str_eq(as_str_of(u->deploy->name), deployment))
            fn(arg, as_str_of(u->process->replica), as_replica_unanswered(u->replica));
    }
}

bool as_fleet_each_stats(struct as_fleet *f, struct as_str deployment,
                         bool (*fn)(void *arg, const struct as_fleet_stats *s), void *arg)
{
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        struct as_fleet_replica status = {0};
        struct as_fleet_stats s = {.at = u->stats_at};

        if (!u->stats_pending || !u->process || !u->deploy || u->retiring ||
            !as_str_eq(as_str_of(u->deploy->name), deployment))
            continue;
        u->ops->fill_status(u, &status);
        s.replica = as_str_of(u->process->replica);
        s.token = as_str_of(u->process->token);
        s.text = status.reports[AS_REPORT_AUTOSCALING];
        if (!fn(arg, &s))
            return false;
        u->stats_pending = false;
    }
    return true;
}
