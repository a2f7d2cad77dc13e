/* Asks the autoscaling policies of the program's: each in the process of NAME.policy, how many
 * replicas the deployment NAME is to have, or, where the policy is the application's, each of its
 * deployments whose number follows the load. */
#include "base/utf8.h"
#include "ctl/reconcile/reconciler_internal.h"
#include "io/loop/clock.h"
#include "link/call/report.h"
#include "wire/json/json_text.h"

#define QUESTION_MAX 49152u /* bytes; replicas that would make it longer are left out */
#define WHY_MAX      300u
#define GRACE        (250 * AS_MS) /* the process keeps the limit, and its answer has to travel */

#define STATS_MAX (AS_CTL_TEXT_MAX - 512) /* likewise with statistics: these come later */

/* --- whom a question is about --- */

/* Those for which the policy of d's process decides; d has the question. */
struct asked {
    const struct as_reconciler_deployment *d;
    uint32_t at;
};

static struct as_reconciler_deployment *next_asked(struct asked *a)
{
    const struct as_reconciler *r = a->d->reconciler;

    while (a->at < r->n) {
        struct as_reconciler_deployment *d = r->deployments[a->at++];

        if (d == a->d ||
            (a->d->scaler->policy.together && d->scaler && !d->deleting &&
             d->scaler->policy.together && strcmp(d->application, a->d->application) == 0))
            return d;
    }
    return NULL;
}

/* The deployment in whose policy process d's policy runs; NULL: there is none. */
static struct as_reconciler_deployment *host_of(struct as_reconciler_deployment *d)
{
    struct as_reconciler_deployment *other;

    if (!d->scaler->policy.together)
        return d;
    for (struct asked a = {.d = d}; (other = next_asked(&a)) != NULL;) {
        if (other->scaler->policy.host)
            return other;
    }
    return NULL;
}

/* --- what replicas say --- */

void as_reconciler_on_stats(struct as_replica_slot *slot, const struct as_ctl_message *m)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);
    struct as_reconciler_scaler *s = proc->deployment->scaler;
    char why[WHY_MAX];

    /* checked by the dispatcher, which talks to the network, so nothing of it is trusted */
    if (!s || !s->policy.own || as_report_check_stats(m->text, UINT32_MAX, why, sizeof(why)))
        return;
    as_buf_set(&proc->stats, m->text);
    proc->stats_at = m->ns;
    proc->stats_told = false;
    s->policy.has_stats = true;
}

static void forget_told(void *arg AS_UNUSED, struct as_replica_slot *slot)
{
    if (as_reconciler_process(slot))
        as_reconciler_process(slot)->stats_told = false;
}

/* --- without an answer --- */

static void set_failure(struct as_reconciler_deployment *d, struct as_str why)
{
    const uint8_t *end = why.n ? memchr(why.p, '\n', why.n) : NULL;
    struct as_str line = {why.p, end ? (size_t)(end - (const uint8_t *)why.p) : why.n};

    as_buf_set(&d->scaler->policy.why, as_utf8_cut(line, WHY_MAX));
    as_autoscaler_clear_answer(&d->scaler->a);
}

static void fail_question(struct as_reconciler_deployment *d, struct as_str why)
{
    struct as_reconciler_policy *p = &d->scaler->policy;
    struct as_reconciler_deployment *other;
    char text[2 * WHY_MAX];

    p->id = 0;
    for (struct asked a = {.d = d}; (other = next_asked(&a)) != NULL;) {
        as_plan_each(other->plan, forget_told, NULL); /* the question may have been lost */
        other->scaler->policy.has_stats = true;
        set_failure(other, why);
    }
    if (p->failing) /* it is asked once a second */
        return;
    p->failing = true;
    as_log_event(d->reconciler->log, AS_LOG_WARN, "scaling_policy_failed",
                 "deployment=%s reason=%s", as_id_shown_z(d->name),
                 as_log_quote(text, sizeof(text), as_buf_slice(&p->why)));
}

/* --- the process --- */

static void find_running(void *arg, struct as_replica_slot *slot)
{
    struct as_replica_slot **found = arg;
    enum as_replica_slot_state state = as_replica_slot_state(slot);

    if (!*found && as_reconciler_process(slot) &&
        (state == AS_REPLICA_SLOT_RUNNING || state == AS_REPLICA_SLOT_UPDATING))
        *found = slot;
}

static struct as_replica_slot *find_process(const struct as_reconciler_deployment *d)
{
    struct as_replica_slot *slot = NULL;
    const struct as_reconciler_deployment *process;
    struct as_buf id = {0};

    as_buf_printf(&id, "%s" AS_ID_POLICY, d->name);
    process = as_reconciler_find(d->reconciler, as_buf_slice(&id));
    as_buf_fini(&id);
    if (process && d->reconciler->serving)
        as_plan_each(process->plan, find_running, &slot);
    return slot;
}

void as_reconciler_check_policy(struct as_reconciler_deployment *d, as_ns now)
{
    struct as_reconciler_policy *p = &d->scaler->policy;
    struct as_reconciler_deployment *host;
    char why[WHY_MAX];

    if (!p->own)
        return;
    host = host_of(d);
    if (!host || !find_process(host)) {
        p->id = 0;
        p->next = now;
        snprintf(why, sizeof(why), "the process %.*s" AS_ID_POLICY " does not run",
                 AS_STR_CUT(as_id_name(as_str_of((host ? host : d)->name)), WHY_MAX / 2));
        set_failure(d, as_str_of(why));
    } else if (p->id && now >= p->deadline) {
        snprintf(why, sizeof(why), "it has not answered within %g s",
                 (double)d->reconciler->conf.scaling_timeout / (double)AS_SEC);
        fail_question(d, as_str_of(why));
    }
}

/* --- the question --- */

struct question {
    struct as_buf *json;
    size_t max;  /* bytes of it, after which nothing more is added */
    bool loads;  /* the requests of each; else their names */
    bool is_cut; /* there was no room for all statistics */
};

static void put_replica(void *arg, struct as_replica_slot *slot)
{
    enum as_replica_slot_state state = as_replica_slot_state(slot);
    const struct question *q = arg;
    struct as_str name = as_id_name(as_replica_slot_name(slot));

    if ((state != AS_REPLICA_SLOT_RUNNING && state != AS_REPLICA_SLOT_UPDATING) ||
        q->json->n > q->max)
        return;
    if (q->loads) {
        as_json_put_escaped_key(q->json, name);
        as_json_put_u64(q->json, as_replica_slot_load(slot));
    } else {
        as_json_put_string(q->json, name);
    }
}

/* What is new of it: [seconds since 1970, {name: value, …}]. */
static void put_stats(void *arg, struct as_replica_slot *slot)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);
    enum as_replica_slot_state state = as_replica_slot_state(slot);
    struct question *q = arg;
    struct as_str name = as_id_name(as_replica_slot_name(slot));

    if ((state != AS_REPLICA_SLOT_RUNNING && state != AS_REPLICA_SLOT_UPDATING) || !proc ||
        !proc->stats.n || proc->stats_told)
        return;
    if (q->json->n + 6 * name.n + proc->stats.n + 64 > q->max) {
        q->is_cut = true;
        return;
    }
    as_json_put_escaped_key(q->json, name);
    as_json_put_open(q->json, '[');
    as_json_put_f64(q->json, (double)proc->stats_at / (double)AS_SEC);
    as_buf_str(q->json, ",");
    as_buf_add(q->json, proc->stats.p, proc->stats.n);
    as_json_put_close(q->json, ']');
    proc->stats_told = true;
}

static void put_time(struct as_buf *json, const char *key, as_ns t) /* 0: there is none */
{
    if (!t)
        return;
    as_json_put_key(json, key);
    as_json_put_f64(json, (double)t / (double)AS_SEC);
}

/* The numbers that count: with the defaults, and without policy and schedule. */
static void put_config(struct as_buf *json, const struct as_autoscale_config *c)
{
    as_json_put_member_open(json, "config", '{');
#define X(key, field, def, most, zero, whole)                                                      \
    if (c->field >= 0) {                                                                           \
        as_json_put_key(json, key);                                                                \
        if (whole)                                                                                 \
            as_json_put_u64(json, (uint64_t)c->field);                                             \
        else                                                                                       \
            as_json_put_f64(json, c->field);                                                       \
    }
    AS_AUTOSCALE_NUMBER_TABLE(X)
#undef X
    as_json_put_member_text(json, "aggregation_function",
                            as_autoscale_aggregation_name(c->aggregation));
    as_json_put_close(json, '}');
}

/* What one of n deployments, which are still to be added, may use up to `max`. */
static size_t share(const struct as_buf *json, size_t max, uint32_t n)
{
    return json->n + (max - AS_MIN(json->n, max)) / n;
}

/* n: as many contexts come, with this one. */
static void put_context(struct as_reconciler_deployment *d, uint32_t n, struct as_buf *json)
{
    struct as_reconciler_scaler *s = d->scaler;
    struct question names = {.json = json, .max = share(json, QUESTION_MAX, 2 * n)},
                    loads = {.json = json, .max = share(json, QUESTION_MAX, n), .loads = true},
                    stats = {.json = json, .max = share(json, STATS_MAX, n)};
    const struct as_autoscale_decision *last = &s->a.last;
    double total = AS_MAX(last->total, (double)last->queued);

    as_json_put_member_string(json, "deployment", as_id_name(as_str_of(d->name)));
    as_json_put_member_text(json, "application", d->application);
    as_json_put_member_u64(json, "current_num_replicas", last->running);
    as_json_put_member_u64(json, "target_num_replicas", s->a.target);
    as_json_put_key(json, "total_num_requests");
    as_json_put_f64(json, total);
    as_json_put_member_u64(json, "total_queued_requests", last->queued);
    as_json_put_member_u64(json, "capacity_adjusted_min_replicas", last->minimum);
    as_json_put_member_u64(json, "capacity_adjusted_max_replicas",
                           (uint64_t)s->a.config.max_replicas);
    put_time(json, "last_scale_up_time", s->scaled_up);
    put_time(json, "last_scale_down_time", s->scaled_down);
    put_time(json, "current_time", as_clock_read(CLOCK_REALTIME));
    put_config(json, &s->a.config);
    as_json_put_member_open(json, "running_replicas", '[');
    as_plan_each(d->plan, put_replica, &names);
    as_json_put_close(json, ']');
    as_json_put_member_open(json, "aggregated_metrics", '{');
    as_json_put_member_open(json, "running_requests", '{');
    as_plan_each(d->plan, put_replica, &loads);
    as_json_put_close(json, '}');
    as_json_put_close(json, '}');
    as_json_put_member_open(json, "stats", '{');
    as_plan_each(d->plan, put_stats, &stats);
    s->policy.has_stats = stats.is_cut;
    as_json_put_close(json, '}');
    as_json_put_close(json, '}');
}

/* Ids are not used again, not even by the next controller. */
static uint64_t new_id(struct as_reconciler *r)
{
    r->scaling_id = AS_MAX(r->scaling_id + 1, AS_PLAN_ASK_END + as_loop_now(r->loop));
    return r->scaling_id;
}

static void send_question(struct as_reconciler_deployment *d, struct as_replica_slot *process,
                          as_ns now)
{
    struct as_reconciler *r = d->reconciler;
    struct as_reconciler_policy *p = &d->scaler->policy;
    pid_t pid = as_reconciler_process(process)->pid;
    struct as_reconciler_deployment *other;
    struct as_buf text = {0}, json = {0};
    uint32_t left = 0;

    p->id = new_id(r);
    p->deadline = now + r->conf.scaling_timeout + GRACE;
    p->next = now + r->conf.scaling_interval;
    p->soonest = now + AS_MIN(r->conf.load_interval, r->conf.scaling_interval);
    for (struct asked a = {.d = d}; (other = next_asked(&a)) != NULL; left++) {
        struct as_reconciler_policy *of = &other->scaler->policy;

        of->asked = other->scaler->a.last;
        if (of->told != pid) /* a new process knows nothing */
            as_plan_each(other->plan, forget_told, NULL);
        of->told = pid;
    }
    as_json_put_open(&json, '{');
    as_json_put_key(&json, "limit_s");
    as_json_put_f64(&json, (double)r->conf.scaling_timeout / (double)AS_SEC);
    if (p->together)
        as_json_put_member_open(&json, "contexts", '[');
    for (struct asked a = {.d = d}; (other = next_asked(&a)) != NULL; left--) {
        if (p->together)
            as_json_put_open(&json, '{');
        else
            as_json_put_member_open(&json, "context", '{');
        put_context(other, left, &json);
    }
    if (p->together)
        as_json_put_close(&json, ']');
    as_json_put_close(&json, '}');
    as_buf_str(&text, "scaling ");
    as_buf_add(&text, json.p, json.n);
    as_buf_fini(&json);
    AS_ASSERT(text.n <= AS_CTL_TEXT_MAX);
    as_reconciler_send(process, (struct as_ctl_message){
                                    .type = AS_CTL_ASK, .id = p->id, .text = as_buf_slice(&text)});
    as_buf_fini(&text);
}

static bool scaler_has_changed(const struct as_reconciler_scaler *s)
{
    const struct as_autoscale_decision *now = &s->a.last, *then = &s->policy.asked;

    return s->policy.has_stats || now->queued != then->queued || now->ongoing != then->ongoing ||
           now->running != then->running || now->next != then->next;
}

static bool has_changed(const struct as_reconciler_deployment *d)
{
    const struct as_reconciler_deployment *other;

    for (struct asked a = {.d = d}; (other = next_asked(&a)) != NULL;) {
        if (scaler_has_changed(other->scaler))
            return true;
    }
    return false;
}

as_ns as_reconciler_ask_policy(struct as_reconciler_deployment *d, as_ns now)
{
    struct as_reconciler_policy *p = &d->scaler->policy;
    struct as_replica_slot *process;
    as_ns due;

    if (!p->own || (p->together && !p->host))
        return AS_NEVER;
    if (p->id)
        return p->deadline;
    process = find_process(d);
    if (!process) /* its READY starts a turn */
        return AS_NEVER;
    due = has_changed(d) ? AS_MIN(p->soonest, p->next) : p->next;
    if (now < due)
        return due;
    send_question(d, process, now);
    return p->deadline;
}

/* --- the answer --- */

/* The numbers of an application's policy, by deployment: one that it leaves out keeps its number.
 * False: something is no number. */
static bool set_answers(struct as_reconciler_deployment *d, struct as_json *j,
                        struct as_json_value *numbers)
{
    struct as_reconciler_deployment *other;
    struct as_json_items it;
    int more;
    double n;

    for (struct asked a = {.d = d}; (other = next_asked(&a)) != NULL;)
        (void)as_autoscaler_set_answer(&other->scaler->a, other->scaler->a.target);
    if (as_json_items(j, numbers, &it))
        return false;
    while ((more = as_json_next(j, &it)) > 0) {
        if (it.value.type != AS_JSON_NUMBER || as_json_f64(j, &it.value, &n))
            return false;
        for (struct asked a = {.d = d}; (other = next_asked(&a)) != NULL;) {
            if (as_str_eq(as_id_name(as_str_of(other->name)), it.key) &&
                as_autoscaler_set_answer(&other->scaler->a, n))
                return false;
        }
    }
    return more == 0;
}

static bool set_answer(struct as_reconciler_deployment *d, struct as_json *j,
                       struct as_json_value *v)
{
    double n;

    if (d->scaler->policy.together)
        return v->type == AS_JSON_OBJECT && set_answers(d, j, v);
    return v->type == AS_JSON_NUMBER && as_json_f64(j, v, &n) == 0 &&
           as_autoscaler_set_answer(&d->scaler->a, n) == 0;
}

/* Reads {"replicas": N}, or {"replicas": {NAME: N, …}} of an application's policy. False: it is
 * malformed. */
static bool read_answer(struct as_reconciler_deployment *d, struct as_str text)
{
    struct as_json_value root;
    struct as_json_items it;
    struct as_json_text t;
    bool done = false, good = false;

    if (as_json_text_open(&t, text, &root) == 0 && root.type == AS_JSON_OBJECT &&
        as_json_items(t.json, &root, &it) == 0) {
        while (!done && as_json_next(t.json, &it) > 0) {
            done = as_str_eq(it.key, AS_STR("replicas"));
            good = done && set_answer(d, t.json, &it.value);
        }
    }
    as_json_text_close(&t);
    return good;
}

static void take_answer(struct as_reconciler_deployment *d, const struct as_ctl_message *m)
{
    struct as_reconciler_policy *p = &d->scaler->policy;
    struct as_reconciler_deployment *other;

    p->id = 0;
    if (m->number) {
        fail_question(d, m->text.n ? m->text : AS_STR("the process has given no reason"));
    } else if (!read_answer(d, m->text)) {
        fail_question(d, AS_STR("what it has answered is no number of replicas"));
    } else {
        for (struct asked a = {.d = d}; (other = next_asked(&a)) != NULL;)
            as_buf_drop(&other->scaler->policy.why, other->scaler->policy.why.n);
        if (p->failing)
            as_log_event(d->reconciler->log, AS_LOG_INFO, "scaling_policy_answers", "deployment=%s",
                         as_id_shown_z(d->name));
        p->failing = false;
    }
}

bool as_reconciler_take_scaling(struct as_reconciler *r, const struct as_ctl_message *m)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct as_reconciler_deployment *d = r->deployments[i];

        if (d->scaler && d->scaler->policy.id && d->scaler->policy.id == m->id) {
            take_answer(d, m);
            return true;
        }
    }
    return m->id >= AS_PLAN_ASK_END; /* it comes too late */
}

void as_reconciler_explain_policy(const struct as_reconciler_scaler *s, struct as_buf *text)
{
    if (!s->policy.own || s->a.has_answer)
        return;
    as_buf_str(text, "; no answer of the policy");
    if (s->policy.why.n)
        as_buf_printf(text, ": %.*s", AS_STR_FMT(as_buf_slice(&s->policy.why)));
    else
        as_buf_str(text, " yet");
}
