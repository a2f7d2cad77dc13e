/* What OPTIONS say of a deployment. */
#include "core/protect/slow_start.h"
#include "link/fleet/fleet_deployment.h"

static uint64_t option_or(const struct as_frame_options *o, enum as_frame_option key, uint64_t none)
{
    return o->has >> key & 1 ? o->value[key] : none;
}

struct as_fleet_options as_fleet_options_of(const struct as_frame_options *o, as_ns request_timeout)
{
    struct as_fleet_options ours = {.request_timeout = request_timeout};

    static_assert(AS_FRAME_QUEUED_ANY == (uint64_t)-1, "the same as core's -1");
    if (o->has >> AS_FRAME_OPT_REQUEST_TIMEOUT & 1)
        ours.request_timeout = o->value[AS_FRAME_OPT_REQUEST_TIMEOUT];
    if (o->has >> AS_FRAME_OPT_IDEMPOTENT & 1)
        ours.idempotent =
            o->value[AS_FRAME_OPT_IDEMPOTENT] ? AS_FLEET_IDEMPOTENT : AS_FLEET_NOT_IDEMPOTENT;
    if (o->has >> AS_FRAME_OPT_MAX_QUEUED & 1)
        ours.max_queued = (int64_t)o->value[AS_FRAME_OPT_MAX_QUEUED];
    ours.share = (uint32_t)option_or(o, AS_FRAME_OPT_PRIORITY_SHARE, 0);
    ours.fairness = (uint32_t)option_or(o, AS_FRAME_OPT_FAIRNESS, 0);
    ours.codel.target = option_or(o, AS_FRAME_OPT_CODEL_TARGET, 0);
    ours.codel.interval = option_or(o, AS_FRAME_OPT_CODEL_INTERVAL, 0);
    static_assert(AS_FRAME_OPTION_MAX == AS_SLOW_START_MAX, "one maximum");
    ours.slow_start = option_or(o, AS_FRAME_OPT_SLOW_START, 0);
    ours.adaptive = option_or(o, AS_FRAME_OPT_ADAPTIVE, 0) != 0;
    ours.hedging.quantile = (uint32_t)option_or(o, AS_FRAME_OPT_HEDGE_QUANTILE, 0);
    ours.hedging.budget = (uint32_t)option_or(o, AS_FRAME_OPT_HEDGE_BUDGET, 0);
    if (o->has >> AS_FRAME_OPT_HEDGE_MIN_DELAY & 1)
        ours.hedging.min_delay = o->value[AS_FRAME_OPT_HEDGE_MIN_DELAY]
                                     ? o->value[AS_FRAME_OPT_HEDGE_MIN_DELAY]
                                     : AS_NEVER;
    ours.per_caller = o->has >> AS_FRAME_OPT_PER_CALLER & 1 && o->value[AS_FRAME_OPT_PER_CALLER];
    if (o->has >> AS_FRAME_OPT_BACKPRESSURE_STATUS & 1)
        ours.backpressure.status = (uint32_t)o->value[AS_FRAME_OPT_BACKPRESSURE_STATUS];
    if (o->has >> AS_FRAME_OPT_BACKPRESSURE_RETRY & 1) {
        ours.backpressure.has_retry = true;
        ours.backpressure.retry = o->value[AS_FRAME_OPT_BACKPRESSURE_RETRY];
    }
    return ours;
}

static enum as_fair_cost fair_cost(uint32_t fairness)
{
    return fairness == AS_FRAME_FAIR_ITEMS  ? AS_FAIR_COST_ITEMS
           : fairness == AS_FRAME_FAIR_COST ? AS_FAIR_COST_SAID
                                            : AS_FAIR_COST_REQUEST;
}

void as_fleet_set_options(struct as_fleet_deployment *d, const struct as_fleet_options *o)
{
    as_ns now = as_loop_now(d->fleet->loop);
    struct as_codel_conf codel = o->codel;
    struct as_hedging_conf hedging = o->hedging;

    d->options = *o;
    if (!d->core)
        return;
    as_deployment_set_max_queued(d->core, o->max_queued ? o->max_queued : d->max_queued);
    as_deployment_set_per_caller(d->core, o->per_caller, now);
    as_deployment_set_share(d->core, o->share ? o->share : AS_SHARE_DEFAULT);
    as_deployment_set_fair(d->core, o->fairness, fair_cost(o->fairness));
    codel.interval = codel.interval ? codel.interval : AS_CODEL_INTERVAL;
    as_deployment_set_codel(d->core, &codel);
    as_deployment_set_slow_start(d->core, o->slow_start, now);
    as_deployment_set_adaptive(d->core, o->adaptive, now);
    hedging.budget = hedging.budget ? hedging.budget : AS_HEDGING_BUDGET;
    hedging.min_delay = !hedging.min_delay              ? AS_HEDGING_MIN_DELAY
                        : hedging.min_delay == AS_NEVER ? 0
                                                        : hedging.min_delay;
    hedging.samples = AS_HEDGING_SAMPLES;
    as_deployment_set_hedging(d->core, &hedging, now);
}
