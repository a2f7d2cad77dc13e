/* What the last decision was, in words. */
#include "core/autoscale/autoscaler.h"

static double seconds(as_ns t)
{
    return (double)t / (double)AS_SEC;
}

const char *as_autoscale_source_name(enum as_autoscale_source s)
{
    static const char *const names[] = {[AS_AUTOSCALE_HOLD] = "",
                                        [AS_AUTOSCALE_ONGOING] = "target_ongoing_requests",
                                        [AS_AUTOSCALE_LATENCY] = "target_latency_ms",
                                        [AS_AUTOSCALE_ANSWER] = "policy",
                                        [AS_AUTOSCALE_COLD] = "first request"};

    return names[s];
}

const char *as_autoscale_bound_name(enum as_autoscale_bound b)
{
    static const char *const names[] = {[AS_AUTOSCALE_UNBOUND] = "",
                                        [AS_AUTOSCALE_MIN] = "min_replicas",
                                        [AS_AUTOSCALE_SCHEDULE] = "schedule",
                                        [AS_AUTOSCALE_MAX] = "max_replicas",
                                        [AS_AUTOSCALE_MACHINE] = "resources",
                                        [AS_AUTOSCALE_LAST] = "the last replica stays longer"};

    return names[b];
}

static void put_requests(const struct as_autoscaler *a, struct as_buf *out)
{
    const struct as_autoscale_decision *d = &a->last;

    as_buf_printf(out, "%u queued + %u ongoing requests, %u running", d->queued, d->ongoing,
                  d->running);
    if (d->window)
        as_buf_printf(out, "; %s of %g s: %.6g",
                      as_autoscale_aggregation_name(a->config.aggregation), seconds(d->window),
                      d->total);
}

static void put_latency(const struct as_autoscaler *a, struct as_buf *out)
{
    const struct as_service_times *t = &a->times;

    as_buf_printf(
        out,
        "; %.6g requests/s, service %.4g ms (p95 %.4g ms), latency p95 %.4g ms, target_latency_ms "
        "%.6g: %g wanted",
        t->rate, t->mean * 1e3, t->p95 * 1e3, t->latency_p95 * 1e3, a->config.target_latency_ms,
        a->last.wanted);
    if (a->last.model == AS_QUEUE_MODEL_UNREACHABLE)
        as_buf_str(out, " (the service time alone is above the target)");
}

static void put_wanted(const struct as_autoscaler *a, struct as_buf *out)
{
    const struct as_autoscale_decision *d = &a->last;

    if (d->source == AS_AUTOSCALE_ONGOING)
        as_buf_printf(out, " / target_ongoing_requests %g: %.6g wanted",
                      a->config.target_ongoing_requests, d->wanted);
    else if (d->source == AS_AUTOSCALE_LATENCY)
        put_latency(a, out);
    else if (d->source == AS_AUTOSCALE_ANSWER)
        as_buf_printf(out, "; the policy wants %.6g", d->wanted);
    else if (d->source == AS_AUTOSCALE_COLD)
        as_buf_printf(out, "; no replica runs: %g wanted at once", d->wanted);
}

static void put_bound(const struct as_autoscaler *a, struct as_buf *out)
{
    const struct as_autoscale_decision *d = &a->last;

    if (d->bound == AS_AUTOSCALE_MIN || d->bound == AS_AUTOSCALE_SCHEDULE)
        as_buf_printf(out, ", at least %u by %s", d->minimum, as_autoscale_bound_name(d->bound));
    else if (d->bound == AS_AUTOSCALE_MAX)
        as_buf_printf(out, ", at most max_replicas %g", a->config.max_replicas);
    else if (d->bound == AS_AUTOSCALE_MACHINE)
        as_buf_printf(out, ", %u can start%s%s", d->desired, d->lack[0] ? ": " : "", d->lack);
}

void as_autoscaler_explain(const struct as_autoscaler *a, as_ns now, struct as_buf *out)
{
    const struct as_autoscale_decision *d = &a->last;

    if (!d->known && d->source != AS_AUTOSCALE_ANSWER) {
        as_buf_printf(out, "the dispatcher has not counted yet; stays at %u", d->next);
        return;
    }
    put_requests(a, out);
    put_wanted(a, out);
    put_bound(a, out);
    if (d->next != d->target)
        as_buf_printf(out, "; from %u to %u", d->target, d->next);
    else if (d->at != AS_NEVER)
        as_buf_printf(out, "; from %u to %u in %.1f s unless that changes (%s)", d->target,
                      d->desired, now < d->at ? seconds(d->at - now) : 0.0,
                      d->desired > d->target ? "upscale_delay_s"
                      : d->target == 1 && a->config.downscale_to_zero_delay_s >= 0
                          ? "downscale_to_zero_delay_s"
                          : "downscale_delay_s");
    else
        as_buf_printf(out, "; stays at %u", d->next);
}
