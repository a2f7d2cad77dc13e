#include "link/fleet/call_error.h"

#define TEXT_MAX (2 * AS_NAME_MAX + 256u)

/* "APPLICATION#NAME"; a deployment without an application is of the default one. */
static void split_name(const struct as_fleet_deployment *d, struct as_str *ret_application,
                       struct as_str *ret_name)
{
    const char *sharp = strchr(d->name, '#');

    *ret_application =
        sharp ? (struct as_str){d->name, (size_t)(sharp - d->name)} : AS_STR("default");
    *ret_name = as_str_of(sharp ? sharp + 1 : d->name);
}

static void describe_full(const struct as_call *c, const struct as_fleet_deployment *d, bool shed,
                          char *ret_text)
{
    if (c->depth > AS_CALL_DEPTH_MAX) {
        snprintf(ret_text, TEXT_MAX, "calls are nested more than %u deep", AS_CALL_DEPTH_MAX);
        return;
    }
    snprintf(ret_text, TEXT_MAX,
             "Request dropped due to backpressure (num_queued_requests=%u, "
             "max_queued_requests=%lld)%s",
             d->options.per_caller && c->core.waiting
                 ? *c->core.waiting
                 : as_deployment_queued(d->core) + as_deployment_prefetched(d->core),
             (long long)as_deployment_max_queued(d->core),
             shed ? ": it has waited too long (codel_target_s)." : ".");
}

static void describe_unavailable(const struct as_fleet_deployment *d, char *ret_text)
{
    struct as_str application, name;

    if (d->fleet->draining || (d->fleet->refuses_callers && !as_fleet_flag(&d->down))) {
        snprintf(ret_text, TEXT_MAX, "the server is shutting down");
        return;
    }
    if (!as_fleet_flag(&d->down))
        return;
    split_name(d, &application, &name);
    snprintf(ret_text, TEXT_MAX, "Deployment(name='%.*s', app='%.*s') %s.", AS_STR_FMT(name),
             AS_STR_FMT(application),
             d->deleted ? "was deleted" : "is unavailable because it failed to deploy");
}

void as_call_set_error(struct as_call *c, const struct as_fleet_deployment *d, int err)
{
    bool shed = err == AS_EFULL && c->core.state == AS_REQ_QUEUED;
    char text[TEXT_MAX] = "";

    if (c->payload.kind <= AS_FRAME_TENSOR || !d) {
        as_outcome_set(&c->outcome, err);
    } else {
        if (err == AS_EFULL)
            describe_full(c, d, shed, text);
        else if (err == AS_EUNAVAILABLE)
            describe_unavailable(d, text);
        as_call_set_outcome(c, err, 0, as_str_of(text));
    }
    c->outcome.shed = shed;
    if (err != AS_EFULL || !d || !d->core)
        return;
    c->outcome.backpressure = d->options.backpressure;
    c->outcome.retry_after = as_deployment_retry_after(d->core, as_loop_now(d->fleet->loop));
}
