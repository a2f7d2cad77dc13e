/* Deployments whose number of replicas follows their load: core/autoscale decides, the plan gets
 * the number. */
#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/keys/spec_policy.h"
#include "ctl/message/load.h"
#include "ctl/reconcile/reconciler_internal.h"
#include "io/loop/clock.h"
#include "wire/json/json.h"

#include <time.h>

static_assert(AS_AUTOSCALE_REPLICAS_MAX == AS_PLAN_REPLICAS_MAX, "the plan takes each number");

/* A moment of local time, for the schedule. */
static struct as_wall_time read_wall_clock(void)
{
    as_ns now = as_clock_read(CLOCK_REALTIME);
    time_t seconds = (time_t)(now / AS_SEC);
    struct tm tm;

    if (!localtime_r(&seconds, &tm))
        return (struct as_wall_time){.left = 60 * AS_SEC};
    return (struct as_wall_time){.day = (uint32_t)(tm.tm_wday + 6) % 7, /* 0 is Monday */
                                 .minute = (uint32_t)(60 * tm.tm_hour + tm.tm_min),
                                 .left = 60 * AS_SEC - now % (60 * AS_SEC)};
}

/* --- what the dispatcher counts --- */

static void send_count(const struct as_reconciler_deployment *d, bool on)
{
    const struct as_reconciler *r = d->reconciler;
    bool times = on && d->scaler->a.config.target_latency_ms >= 0;
    bool stats = on && d->scaler->policy.own;

    if (r->state_known && r->serving)
        r->ops.send(r->ctx, &(struct as_ctl_message){.type = AS_CTL_COUNT,
                                                     .deployment = as_str_of(d->name),
                                                     .number = on,
                                                     .id = (times ? AS_CTL_COUNT_TIMES : 0) |
                                                           (stats ? AS_CTL_COUNT_STATS : 0),
                                                     .ns = r->conf.load_interval});
}

void as_reconciler_dispatcher_changed(struct as_reconciler *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct as_reconciler_deployment *d = r->deployments[i];

        if (!d->scaler || d->deleting)
            continue;
        as_autoscaler_forget(&d->scaler->a);
        d->scaler->policy.id = 0; /* nobody answers it */
        if (r->serving)
            send_count(d, true);
    }
}

static void on_replica_load(void *arg, uint32_t number, uint32_t requests)
{
    struct as_replica_slot *slot = as_plan_find(arg, number);

    if (slot)
        as_replica_slot_set_load(slot, requests);
}

void as_reconciler_on_load(struct as_reconciler *r, const struct as_ctl_message *m)
{
    struct as_reconciler_deployment *d = as_reconciler_find(r, m->deployment);
    struct as_reconciler_scaler *s = d ? d->scaler : NULL;
    as_ns now = as_loop_now(r->loop);
    struct as_ctl_load load;

    if (!s || d->deleting)
        return;
    as_autoscaler_record(&s->a, m->number, (uint32_t)AS_MIN(m->id, (uint64_t)UINT32_MAX), now);
    as_ctl_load_parse(m->text, &load, on_replica_load, d->plan);
    if (load.slots)
        s->slots = load.slots;
    if (!load.has_times)
        return;
    load.times.at = now;
    as_service_window_add(&s->window, &load.times);
}

/* --- decisions --- */

static void explain(const struct as_reconciler_scaler *s, as_ns now, struct as_buf *text)
{
    as_autoscaler_explain(&s->a, now, text);
    as_reconciler_explain_policy(s, text);
}

static void count_running(void *arg, struct as_replica_slot *slot)
{
    enum as_replica_slot_state state = as_replica_slot_state(slot);

    *(uint32_t *)arg += state == AS_REPLICA_SLOT_RUNNING || state == AS_REPLICA_SLOT_UPDATING;
}

static void update_times(struct as_reconciler_scaler *s, uint32_t running, as_ns now)
{
    struct as_service_times t;

    if (s->a.config.target_latency_ms < 0)
        return;
    if (running && s->slots)
        s->slots_each = (double)s->slots / running;
    as_service_window_times(&s->window, s->slots_each, now, &t);
    as_autoscaler_set_times(&s->a, &t);
}

static void keep_decision(struct as_reconciler_scaler *s, as_ns now)
{
    struct as_reconciler_decision *k;
    struct as_buf text = {0};

    if (s->n_decisions == AS_RECONCILER_DECISIONS) {
        free(s->decisions[0].reason);
        memmove(&s->decisions[0], &s->decisions[1],
                (AS_RECONCILER_DECISIONS - 1) * sizeof(s->decisions[0]));
        s->n_decisions--;
    }
    explain(s, now, &text);
    k = &s->decisions[s->n_decisions++];
    *k = (struct as_reconciler_decision){.time = as_clock_read(CLOCK_REALTIME),
                                         .from = s->a.last.target,
                                         .to = s->a.last.next,
                                         .reason = as_str_dup(as_buf_slice(&text))};
    *(s->a.last.next > s->a.last.target ? &s->scaled_up : &s->scaled_down) = k->time;
    as_buf_fini(&text);
}

static void log_decision(const struct as_reconciler_deployment *d)
{
    const struct as_reconciler_decision *k = &d->scaler->decisions[d->scaler->n_decisions - 1];
    char text[512];

    as_log_event(d->reconciler->log, AS_LOG_INFO, "autoscaled",
                 "deployment=%s from=%u to=%u reason=%s", as_id_shown_z(d->name), k->from, k->to,
                 as_log_quote(text, sizeof(text), as_str_of(k->reason)));
}

static void decide(struct as_reconciler_deployment *d, as_ns now)
{
    struct as_reconciler_scaler *s = d->scaler;
    struct as_buf lack = {0};
    struct as_autoscale_input in = {.wall = read_wall_clock()};

    as_plan_each(d->plan, count_running, &in.running);
    in.startable = as_reconciler_startable(d, (uint32_t)s->a.config.max_replicas, &lack);
    in.lack = as_buf_slice(&lack);
    update_times(s, in.running, now);
    if (as_autoscaler_decide(&s->a, &in, now)) {
        keep_decision(s, now);
        log_decision(d);
        as_plan_scale(d->plan, s->a.target, true, now);
        as_reconciler_report_status(d);
    }
    as_buf_fini(&lack);
}

/* The explanation changes with each count: it is reported once a second at most, and while a
 * decision waits, since the time that is left is part of it. Returns when the next report is due.
 */
static as_ns report_explanation(struct as_reconciler_deployment *d, as_ns now)
{
    struct as_reconciler_scaler *s = d->scaler;
    struct as_buf text = {0};
    uint64_t hash;

    explain(s, now, &text);
    hash = as_str_hash(as_buf_slice(&text));
    as_buf_fini(&text);
    if (hash != s->explained && now >= s->report_at) {
        s->explained = hash;
        s->report_at = now + AS_SEC;
        as_reconciler_report_status(d);
    }
    return hash != s->explained || s->a.last.at != AS_NEVER ? AS_MAX(s->report_at, now + AS_MS)
                                                            : AS_NEVER;
}

void as_reconciler_explain(const struct as_reconciler_deployment *d, struct as_buf *text)
{
    const struct as_reconciler_scaler *s = d->scaler;

    if (!s || d->deleting)
        return;
    if (text->n && text->p[text->n - 1] != ' ' && text->p[text->n - 1] != '\n')
        as_buf_str(text, "\n");
    as_buf_str(text, "autoscaling: ");
    explain(s, as_loop_now(d->reconciler->loop), text);
}

static void put_decisions(const struct as_reconciler_scaler *s, struct as_buf *json)
{
    as_json_put_member_open(json, "decisions", '[');
    for (uint32_t i = 0; i < s->n_decisions; i++) {
        const struct as_reconciler_decision *k = &s->decisions[i];

        as_json_put_open(json, '{');
        as_json_put_key(json, "timestamp_s");
        as_json_put_f64(json, (double)k->time / (double)AS_SEC);
        as_json_put_member_u64(json, "prev_num_replicas", k->from);
        as_json_put_member_u64(json, "current_num_replicas", k->to);
        as_json_put_member_text(json, "reason", k->reason);
        as_json_put_close(json, '}');
    }
    as_json_put_close(json, ']');
}

void as_reconciler_put_autoscaling(const struct as_reconciler_deployment *d, struct as_buf *json)
{
    const struct as_reconciler_scaler *s = d->scaler;
    const struct as_autoscale_decision *last = s ? &s->a.last : NULL;
    struct as_buf text = {0};

    if (!s)
        return;
    explain(s, as_loop_now(d->reconciler->loop), &text);
    as_json_put_member_open(json, "autoscaling_detail", '{');
    as_json_put_member_text(json, "scaling_status",
                            last->desired > s->a.target   ? "UPSCALING"
                            : last->desired < s->a.target ? "DOWNSCALING"
                                                          : "STABLE");
    as_json_put_member_string(json, "message", as_buf_slice(&text));
    as_json_put_member_text(json, "metrics_health", last->known ? "healthy" : "unavailable");
    as_json_put_member_open(json, "metrics", '{');
    as_json_put_member_u64(json, "queued_requests", last->queued);
    as_json_put_member_u64(json, "ongoing_requests", last->ongoing);
    as_json_put_member_u64(json, "running_replicas", last->running);
    as_json_put_key(json, "aggregated_requests");
    as_json_put_f64(json, last->total);
    as_json_put_key(json, "wanted_replicas");
    as_json_put_f64(json, last->wanted);
    as_json_put_member_u64(json, "desired_replicas", last->desired);
    as_json_put_close(json, '}');
    put_decisions(s, json);
    as_json_put_member_open(json, "errors", '[');
    if (s->policy.why.n)
        as_json_put_string(json, as_buf_slice(&s->policy.why));
    as_json_put_close(json, ']');
    as_json_put_close(json, '}');
    as_buf_fini(&text);
}

as_ns as_reconciler_autoscale(struct as_reconciler *r)
{
    as_ns now = as_loop_now(r->loop), next = AS_NEVER;

    for (uint32_t i = 0; i < r->n; i++) {
        struct as_reconciler_deployment *d = r->deployments[i];

        if (!d->scaler || d->deleting)
            continue;
        as_reconciler_check_policy(d, now);
        decide(d, now);
        next = AS_MIN(next, d->scaler->a.next_due);
    }
    for (uint32_t i = 0; i < r->n; i++) { /* a question may be about several of them */
        struct as_reconciler_deployment *d = r->deployments[i];

        if (!d->scaler || d->deleting)
            continue;
        next = AS_MIN(next, as_reconciler_ask_policy(d, now));
        next = AS_MIN(next, report_explanation(d, now));
    }
    return next;
}

/* --- which deployments --- */

void as_reconciler_free_scaler(struct as_reconciler_deployment *d)
{
    struct as_reconciler_scaler *s = d->scaler;

    if (s)
        as_buf_fini(&s->policy.why);
    for (uint32_t i = 0; s && i < s->n_decisions; i++)
        free(s->decisions[i].reason);
    free(s);
    d->scaler = NULL;
}

/* A deployment that is new begins with initial_replicas, another one with the replicas it has. */
static void add_scaler(struct as_reconciler_deployment *d, const struct as_autoscale_config *c)
{
    const struct as_plan_target *t = as_plan_target(d->plan);
    struct as_reconciler_scaler *s = as_xalloc(sizeof(*s));

    as_autoscaler_init(&s->a, c, t && !d->deleting ? t->replicas : as_autoscale_initial(c));
    as_service_window_init(&s->window, as_autoscale_look_back(c));
    s->slots_each = 1;
    d->scaler = s;
}

static void change_scaler(struct as_reconciler_scaler *s, const struct as_autoscale_config *c)
{
    if (as_autoscale_look_back(c) != as_autoscale_look_back(&s->a.config))
        as_service_window_init(&s->window, as_autoscale_look_back(c));
    as_autoscaler_set_config(&s->a, c);
}

static void set_policy(struct as_reconciler_scaler *s,
                       const struct as_generations_deployment *specs)
{
    struct as_reconciler_policy *p = &s->policy;
    bool together = as_spec_scales_together(specs->app),
         host = as_spec_scaling_host(specs->app) == specs->deployment,
         own = together || as_spec_has_own_scaling(specs->deployment);

    as_autoscaler_set_external(&s->a, own);
    if (own == p->own && together == p->together && host == p->host)
        return;
    as_buf_fini(&p->why);
    *p = (struct as_reconciler_policy){.own = own, .together = together, .host = host};
}

bool as_reconciler_update_scaler(struct as_reconciler_deployment *d,
                                 const struct as_generations_deployment *specs)
{
    struct as_autoscale_config c;
    bool was = d->scaler != NULL;

    if (!as_spec_autoscale(specs->deployment, &c)) {
        if (was)
            send_count(d, false);
        as_reconciler_free_scaler(d);
        return was;
    }
    as_capacity_apply(&d->capacity, &c);
    if (was && !d->deleting)
        change_scaler(d->scaler, &c);
    else
        as_reconciler_free_scaler(d);
    if (!d->scaler)
        add_scaler(d, &c);
    set_policy(d->scaler, specs);
    send_count(d, true);
    return !was;
}

/* TARGET: what the controller before has decided, which counts more than initial_replicas. */
void as_reconciler_on_target(struct as_reconciler *r, const struct as_ctl_message *m)
{
    struct as_reconciler_deployment *d = as_reconciler_find(r, m->deployment);

    if (!d || !d->scaler || d->deleting || r->state_known)
        return;
    as_autoscaler_init(&d->scaler->a, &d->scaler->a.config, m->number);
    as_autoscaler_set_external(&d->scaler->a, d->scaler->policy.own);
    as_plan_scale(d->plan, d->scaler->a.target, true, as_loop_now(r->loop));
}
