/* Records: what the next dispatcher is told about a deployment of our processes before a worker of
 * it connects. A model is its REGISTER frame; the settings of the deployment are an OPTIONS and a
 * TRAFFIC frame, and ROUTER and SERVICES if it has any. */
#include "base/err.h"
#include "link/fleet/fleet_deployment.h"
#include "link/fleet/upstream.h"

#include <stdlib.h>
#include <string.h>

/* --- reporting --- */

static bool report(const struct as_fleet_deployment *d, struct as_str model, struct as_str frames,
                   bool whole)
{
    const struct as_fleet *f = d->fleet;
    const struct as_fleet_record r = {as_str_of(d->name), model, frames, whole, false};

    return f->ops.on_record && f->ops.on_record(f->ctx, &r);
}

static bool report_model(const struct as_fleet_deployment *d, const struct as_fleet_model *m,
                         struct as_str frames)
{
    char name[AS_NAME_MAX + AS_VERSION_MAX + 2];
    int n = snprintf(name, sizeof(name), "%s:%s", m->name, m->version);

    return report(d, (struct as_str){name, (size_t)n}, frames, false);
}

void as_fleet_record_model(struct as_fleet_deployment *d, uint32_t model,
                           const struct as_frame_register *r)
{
    struct as_fleet_model *m = &d->models[model];
    struct as_outq q;
    struct as_buf frame;

    if (m->recorded || d->deleted)
        return;
    as_outq_init(&q);
    as_buf_init(&frame);
    if (as_frame_put_register(&q, r) == 0)
        as_outq_peek(&q, &frame);
    m->recorded = frame.n && report_model(d, m, as_buf_slice(&frame));
    d->incomplete = d->incomplete || !m->recorded;
    as_buf_fini(&frame);
    as_outq_fini(&q);
}

void as_fleet_record_gone(struct as_fleet_deployment *d, uint32_t model)
{
    struct as_fleet_model *m = &d->models[model];

    if (m->recorded)
        (void)report_model(d, m, AS_STR(""));
    m->recorded = false;
}

/* The fallback as its workers have said it: of the same application without that. */
static struct as_str said_fallback(const struct as_fleet_deployment *d)
{
    struct as_str id = d->traffic.fallback;
    bool same = as_str_eq(as_id_application(id), as_id_application(as_str_of(d->name)));

    return same ? as_id_name(id) : id;
}

static void set_option(struct as_frame_options *o, enum as_frame_option key, uint64_t value)
{
    o->has |= 1u << key;
    o->value[key] = value;
}

/* The reverse of as_fleet_options_of. */
static void put_options(const struct as_fleet_deployment *d, struct as_outq *q)
{
    const struct as_fleet_options *ours = &d->options;
    struct as_frame_options o = {0};

    if (ours->request_timeout != d->fleet->conf.request_timeout)
        set_option(&o, AS_FRAME_OPT_REQUEST_TIMEOUT, ours->request_timeout);
    if (ours->idempotent != AS_FLEET_AS_REGISTERED)
        set_option(&o, AS_FRAME_OPT_IDEMPOTENT, ours->idempotent == AS_FLEET_IDEMPOTENT);
    if (ours->max_queued)
        set_option(&o, AS_FRAME_OPT_MAX_QUEUED, (uint64_t)ours->max_queued);
    if (ours->share)
        set_option(&o, AS_FRAME_OPT_PRIORITY_SHARE, ours->share);
    if (ours->fairness)
        set_option(&o, AS_FRAME_OPT_FAIRNESS, ours->fairness);
    if (ours->codel.target)
        set_option(&o, AS_FRAME_OPT_CODEL_TARGET, ours->codel.target);
    if (ours->codel.interval)
        set_option(&o, AS_FRAME_OPT_CODEL_INTERVAL, ours->codel.interval);
    if (ours->slow_start)
        set_option(&o, AS_FRAME_OPT_SLOW_START, ours->slow_start);
    if (ours->adaptive)
        set_option(&o, AS_FRAME_OPT_ADAPTIVE, 1);
    if (ours->hedging.quantile)
        set_option(&o, AS_FRAME_OPT_HEDGE_QUANTILE, ours->hedging.quantile);
    if (ours->hedging.budget)
        set_option(&o, AS_FRAME_OPT_HEDGE_BUDGET, ours->hedging.budget);
    if (ours->hedging.min_delay)
        set_option(&o, AS_FRAME_OPT_HEDGE_MIN_DELAY,
                   ours->hedging.min_delay == AS_NEVER ? 0 : ours->hedging.min_delay);
    if (ours->per_caller)
        set_option(&o, AS_FRAME_OPT_PER_CALLER, 1);
    if (ours->backpressure.status)
        set_option(&o, AS_FRAME_OPT_BACKPRESSURE_STATUS, ours->backpressure.status);
    if (ours->backpressure.has_retry)
        set_option(&o, AS_FRAME_OPT_BACKPRESSURE_RETRY, ours->backpressure.retry);
    as_frame_put_options(q, &o);
}

static void put_settings(const struct as_fleet_deployment *d, struct as_outq *q)
{
    struct as_frame_traffic t = {.flags = d->traffic.is_canary ? AS_FRAME_CANARY : 0,
                                 .canary = d->traffic.canary,
                                 .mirror = d->traffic.mirror,
                                 .fallback = said_fallback(d)};

    put_options(d, q);
    as_frame_put_traffic(q, &t);
    if (!as_frame_router_is_empty(&d->router))
        as_frame_put_router(q, &d->router);
    if (d->services)
        as_fleet_put_services(d->services, q);
}

/* Only what its workers have said: before one is READY they may still say it. */
void as_fleet_record_settings(struct as_fleet_deployment *d)
{
    struct as_outq q;
    struct as_buf now;

    if (!as_fleet_flag(&d->expected) || !as_fleet_flag(&d->registered) || d->deleted || d->declared)
        return;
    as_outq_init(&q);
    as_buf_init(&now);
    put_settings(d, &q);
    as_outq_peek(&q, &now);
    as_outq_fini(&q);
    if (!as_str_eq(as_buf_slice(&now), as_buf_slice(&d->settings)) &&
        report(d, AS_STR(""), as_buf_slice(&now), !d->incomplete)) {
        as_buf_fini(&d->settings);
        d->settings = now;
    } else {
        as_buf_fini(&now);
    }
}

void as_fleet_forget_records(struct as_fleet_deployment *d)
{
    for (uint32_t i = 0; i < d->n_models; i++)
        d->models[i].recorded = false;
    as_buf_drop(&d->settings, d->settings.n);
    d->incomplete = false;
}

/* --- taking over --- */

/* Nobody has registered it, and nobody is going to. */
static void withdraw_model(struct as_fleet_deployment *d, struct as_str model)
{
    for (uint32_t i = 0; i < d->n_models; i++) {
        const struct as_fleet_model *m = &d->models[i];
        char *name = as_str_format("%s:%s", m->name, m->version);

        if (m->declared && !m->gone && as_str_eq(as_str_of(name), model))
            as_fleet_drop_model(d, i);
        free(name);
    }
}

static int restore_model(struct as_fleet_deployment *d, const struct as_frame *frame, bool recorded,
                         const char **ret_why)
{
    struct as_frame_register r;
    struct as_arena a;
    int err;

    as_arena_init(&a, NULL, 0);
    err = as_frame_get_register(frame, &a, &r, ret_why);
    if (!err)
        err = as_fleet_declare_model(d, &r, recorded, ret_why);
    as_arena_fini(&a);
    return err;
}

static int restore_options(struct as_fleet_deployment *d, const struct as_frame *frame)
{
    struct as_frame_options o;
    struct as_fleet_options ours;
    int err = as_frame_get_options(frame, &o);

    if (err)
        return err;
    ours = as_fleet_options_of(&o, d->fleet->conf.request_timeout);
    as_fleet_set_options(d, &ours);
    return 0;
}

static int restore_traffic(struct as_fleet_deployment *d, const struct as_frame *frame)
{
    struct as_frame_traffic t;
    int err = as_frame_get_traffic(frame, &t);

    if (!err)
        as_fleet_set_traffic(d, &(struct as_traffic){.is_canary = t.flags & AS_FRAME_CANARY,
                                                     .canary = t.canary,
                                                     .mirror = t.mirror,
                                                     .fallback = t.fallback});
    return err;
}

static int restore_router(struct as_fleet_deployment *d, const struct as_frame *frame)
{
    struct as_frame_router r;
    int err = as_frame_get_router(frame, &r);

    if (!err)
        as_fleet_set_router(d, &r);
    return err;
}

static int restore_services(struct as_fleet_deployment *d, const struct as_frame *frame,
                            const char **ret_why)
{
    struct as_service_set *set;
    int err = as_fleet_read_services(frame, &set, ret_why);

    if (err)
        return err;
    as_fleet_set_services(d, set);
    as_service_set_unref(set);
    return 0;
}

/* A frame of another type is of a later version. */
static int restore_frame(struct as_fleet_deployment *d, const struct as_frame *frame, bool recorded,
                         const char **ret_why)
{
    *ret_why = "malformed OPTIONS, TRAFFIC or ROUTER";
    switch (frame->type) {
    case AS_FRAME_REGISTER:
        return restore_model(d, frame, recorded, ret_why);
    case AS_FRAME_OPTIONS:
        return restore_options(d, frame);
    case AS_FRAME_TRAFFIC:
        return restore_traffic(d, frame);
    case AS_FRAME_ROUTER:
        return restore_router(d, frame);
    case AS_FRAME_SERVICES:
        return restore_services(d, frame, ret_why);
    default:
        return 0;
    }
}

static int restore_frames(struct as_fleet_deployment *d, const struct as_fleet_record *r,
                          const char **ret_why)
{
    uint64_t *copy = as_xalloc(r->frames.n + sizeof(*copy)); /* frames are aligned */
    struct as_frame frame;
    size_t at = 0;
    int64_t n;
    int err = 0;

    if (r->frames.n)
        memcpy(copy, r->frames.p, r->frames.n);
    while (!err && at < r->frames.n) {
        n = as_frame_next((const uint8_t *)copy + at, r->frames.n - at, &frame);
        *ret_why = "it is no sequence of frames";
        err = n <= 0 ? AS_EPROTO : restore_frame(d, &frame, !r->declared, ret_why);
        at += n > 0 ? (size_t)n : 0;
    }
    free(copy);
    return err;
}

int as_fleet_restore(struct as_fleet *f, const struct as_fleet_record *r, const char **ret_why)
{
    struct as_fleet_deployment *d = as_fleet_find_deployment(f, r->deployment);
    int err;

    /* it was deleted, and is deployed again before as_fleet_cleanup has removed it */
    if (d && d->gone && !d->n_upstreams && r->frames.n)
        as_fleet_remove_deployment(d);
    d = as_fleet_get_deployment(f, r->deployment);
    *ret_why = "the server has as many deployments as it can have";
    if (!d)
        return AS_EFULL;
    if (r->declared && (d->deleted || (d->core && !d->declared)))
        return 0;
    if (r->model.n && !r->frames.n) {
        withdraw_model(d, r->model);
        return 0;
    }
    err = restore_frames(d, r, ret_why);
    d->incomplete = d->incomplete || (err && !r->declared);
    if (err || r->model.n)
        return err;
    if (r->declared) { /* its first worker tells the owner of them */
        as_fleet_set_known(d, r->whole);
    } else if (r->whole && !d->incomplete) {
        as_buf_drop(&d->settings, d->settings.n);
        as_buf_add(&d->settings, r->frames.p, r->frames.n);
        as_fleet_set_known(d, true);
    }
    return 0;
}
