/* Requests of the control API: restart, rollback target, what is served. */
#include "ctl/reconcile/reconciler_internal.h"
#include "io/process/proc.h"
#include "wire/json/json.h"

static bool has_application(const struct as_reconciler *r, struct as_str name)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (as_str_eq(as_str_of(r->deployments[i]->application), name))
            return true;
    }
    return false;
}

int as_reconciler_check_name(const struct as_reconciler *r, struct as_str application,
                             struct as_str deployment, struct as_buf *err)
{
    struct as_id id;

    if (!has_application(r, application))
        as_buf_printf(err, "there is no application '%.*s'", AS_STR_FMT(application));
    else if (deployment.p && !as_reconciler_find(r, as_id_make(&id, application, deployment)))
        as_buf_printf(err, "there is no deployment '%.*s'", AS_STR_FMT(deployment));
    else
        return 0;
    return AS_ENOTFOUND;
}

static struct as_reconciler_deployment *find_active(const struct as_reconciler *r,
                                                    struct as_str name, struct as_buf *err)
{
    struct as_reconciler_deployment *d = as_reconciler_find(r, name);

    if (!d || d->deleting)
        as_buf_printf(
            err, d ? "the deployment '%.*s' is being removed" : "there is no deployment '%.*s'",
            AS_STR_FMT(as_id_name(name)));
    return d && !d->deleting ? d : NULL;
}

int as_reconciler_restart(struct as_reconciler *r, struct as_str deployment, struct as_buf *err)
{
    struct as_reconciler_deployment *d = find_active(r, deployment, err);

    if (!d)
        return AS_ENOTFOUND;
    as_plan_restart(d->plan, as_loop_now(r->loop));
    as_loop_defer(r->loop, &r->turn_end);
    return 0;
}

int as_reconciler_rollback_target(const struct as_reconciler *r, struct as_str deployment,
                                  uint64_t *ret_generation, struct as_buf *err)
{
    const struct as_reconciler_deployment *d = find_active(r, deployment, err);
    const struct as_plan_target *to;

    if (!d)
        return AS_ENOTFOUND;
    to = as_plan_rollback_target(d->plan);
    if (!to) {
        as_buf_printf(err, "'%.*s' has no earlier generation to go back to",
                      AS_STR_FMT(as_id_name(as_str_of(d->name))));
        return AS_ENOTFOUND;
    }
    *ret_generation = to->generation;
    return 0;
}

const struct as_condition *as_reconciler_condition(const struct as_reconciler *r,
                                                   struct as_str deployment)
{
    const struct as_reconciler_deployment *d = as_reconciler_find(r, deployment);

    return d && !d->deleting ? as_plan_condition(d->plan) : NULL;
}

bool as_reconciler_is_stable(const struct as_reconciler *r, struct as_str deployment)
{
    const struct as_reconciler_deployment *d = as_reconciler_find(r, deployment);

    return d && !d->deleting && as_plan_is_settled(d->plan);
}

uint32_t as_reconciler_replicas(const struct as_reconciler *r, struct as_str deployment)
{
    const struct as_reconciler_deployment *d = as_reconciler_find(r, deployment);

    if (!d)
        return 0;
    return d->scaler ? d->scaler->a.target : as_reconciler_whole(d);
}

/* --- status --- */

#define STATE_MAX 32u /* bytes of a state's name */

/* Upper case, as Ray Serve's ReplicaState. */
static struct as_str upper_case_state(char word[STATE_MAX], enum as_replica_slot_state state)
{
    size_t n = 0;

    for (const char *p = as_replica_slot_state_name(state); *p && n < STATE_MAX; p++)
        word[n++] = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    return (struct as_str){word, n};
}

static uint32_t slot_pid(const struct as_replica_slot *slot) /* 0: no process */
{
    const struct as_reconciler_process *proc = as_reconciler_process(slot);

    return proc && as_replica_slot_has_process(slot) ? (uint32_t)proc->pid : 0;
}

/* Unix time in ms at which its process began; 0: there is none. Read once for each process. */
static int64_t slot_started(const struct as_replica_slot *slot)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);
    uint32_t pid = slot_pid(slot);

    if (!pid)
        return 0;
    if (proc->started_pid != (pid_t)pid) {
        proc->started_ms = as_proc_started_at((pid_t)pid);
        proc->started_pid = (pid_t)pid;
    }
    return proc->started_ms;
}

/* The message of the deployment that gives the application its status, or what one of them lacks.
 */
static struct as_str application_message(const struct as_reconciler *r, uint32_t first, uint32_t n)
{
    const struct as_condition *worst = NULL;
    struct as_str lack = AS_STR("");

    for (uint32_t i = first; i < first + n; i++) {
        const struct as_condition *k = as_plan_condition(r->deployments[i]->plan);
        bool failed = k->status == AS_STATUS_DEPLOY_FAILED;

        if ((failed || k->status == AS_STATUS_UNHEALTHY) && (!worst || failed))
            worst = k;
        if (!lack.n)
            lack = as_condition_lack(k);
    }
    return worst && worst->n ? as_condition_text(worst) : lack;
}

struct visitor {
    const struct as_reconciler_deployment *deployment;
    as_served_fn *fn;
    void *arg;
};

static void visit_slot(void *arg, struct as_replica_slot *slot)
{
    const struct as_replica_slot_facts *f = as_replica_slot_facts(slot);
    const struct visitor *v = arg;
    char word[STATE_MAX];

    v->fn(v->arg, &(struct as_served){.kind = AS_SERVED_REPLICA,
                                      .application = as_str_of(v->deployment->application),
                                      .deployment = as_id_name(as_str_of(v->deployment->name)),
                                      .replica = as_id_name(as_replica_slot_name(slot)),
                                      .id = as_str_of(v->deployment->name),
                                      .status = upper_case_state(word, as_replica_slot_state(slot)),
                                      .message = as_reconciler_slot_message(slot),
                                      .pid = slot_pid(slot),
                                      .started_ms = slot_started(slot),
                                      .rank = f->rank,
                                      .starts = f->starts});
}

static void visit_deployment(const struct as_reconciler_deployment *d, as_served_fn *fn, void *arg)
{
    const struct as_condition *k = as_plan_condition(d->plan);
    const struct as_plan_target *t = as_plan_target(d->plan), *stable = as_plan_stable(d->plan);
    struct as_buf message = {0};

    as_reconciler_deployment_message(d, &message);
    fn(arg, &(struct as_served){.kind = AS_SERVED_DEPLOYMENT,
                                .application = as_str_of(d->application),
                                .deployment = as_id_name(as_str_of(d->name)),
                                .id = as_str_of(d->name),
                                .status = as_str_of(as_condition_status_name(k->status)),
                                .message = as_buf_slice(&message),
                                .trigger = as_condition_trigger_name(k->trigger),
                                .since = k->since,
                                .target = t->replicas,
                                .declared = d->declared,
                                .ingress = d->ingress,
                                .rolled_back = k->rolled_back,
                                .generation = t->generation,
                                .healthy = stable ? stable->generation : 0,
                                .code = d->code ? d->code : "live"});
    as_buf_fini(&message);
    as_plan_each(d->plan, visit_slot, &(struct visitor){d, fn, arg});
}

void as_reconciler_each(const struct as_reconciler *r, as_served_fn *fn, void *arg)
{
    for (uint32_t i = 0, n; i < r->n; i += n) {
        n = as_reconciler_application_size(r, i);
        fn(arg, &(struct as_served){.application = as_str_of(r->deployments[i]->application),
                                    .status = as_str_of(as_application_status_name(
                                        as_reconciler_application_status(r, i, n))),
                                    .message = application_message(r, i, n)});
        for (uint32_t k = i; k < i + n; k++)
            visit_deployment(r->deployments[k], fn, arg);
    }
}

/* --- status as JSON --- */

struct status {
    const struct as_reconciler *reconciler;
    struct as_buf *json;
    as_ns now;
    uint32_t depth; /* objects that are open: an application, a deployment in it */
    as_reconciler_details_fn *details;
    void *ctx;
};

static void close_objects(struct status *s, uint32_t depth)
{
    for (; s->depth > depth; s->depth--) { /* its parts, then itself */
        as_json_put_close(s->json, s->depth > AS_SERVED_DEPLOYMENT ? ']' : '}');
        as_json_put_close(s->json, '}');
    }
}

static void put_replica(struct as_buf *b, const struct as_served *v)
{
    as_json_put_open(b, '{');
    as_json_put_member_string(b, "replica_id", v->replica);
    as_json_put_member_string(b, "state", v->status);
    as_json_put_member_u64_or_null(b, "pid", v->pid, 0);
    as_json_put_member_u64_or_null(b, "rank", v->rank, AS_RANK_NONE);
    as_json_put_member_u64(b, "starts", v->starts);
    as_json_put_key(b, "start_time_s");
    if (v->started_ms)
        as_json_put_f64(b, (double)v->started_ms / 1e3);
    else
        as_json_put_null(b);
    as_json_put_member_string(b, "message", v->message);
    as_json_put_close(b, '}');
}

/* An application or a deployment is left open for its parts. */
static void put_served(void *arg, const struct as_served *v)
{
    struct as_str name = v->kind == AS_SERVED_APPLICATION ? v->application : v->deployment;
    struct status *s = arg;
    struct as_buf *b = s->json;

    close_objects(s, v->kind);
    if (v->kind == AS_SERVED_REPLICA) {
        put_replica(b, v);
        return;
    }
    s->depth++;
    as_json_put_escaped_key(b, name);
    as_json_put_open(b, '{');
    as_json_put_member_string(b, "name", name);
    as_json_put_member_string(b, "status", v->status);
    if (v->kind == AS_SERVED_DEPLOYMENT)
        as_json_put_member_text(b, "status_trigger", v->trigger);
    as_json_put_member_string(b, "message", v->message);
    if (s->details)
        s->details(s->ctx, v, b);
    if (v->kind == AS_SERVED_APPLICATION) {
        as_json_put_member_open(b, "deployments", '{');
        return;
    }
    as_json_put_key(b, "status_age_s");
    as_json_put_f64(b, (double)(s->now - v->since) / (double)AS_SEC);
    as_json_put_member_u64(b, "target_num_replicas", v->target);
    as_json_put_member_u64(b, "num_replicas", v->declared);
    as_json_put_member_u64(b, "generation", v->generation);
    as_json_put_member_text(b, "code", v->code);
    as_json_put_member_bool(b, "ingress", v->ingress);
    as_json_put_member_u64_or_null(b, "healthy_generation", v->healthy, 0);
    as_reconciler_put_autoscaling(as_reconciler_find(s->reconciler, v->id), b);
    as_json_put_member_open(b, "replicas", '[');
}

void as_reconciler_put_json(const struct as_reconciler *r, as_reconciler_details_fn *details,
                            void *ctx, struct as_buf *json)
{
    struct status s = {
        .reconciler = r, .json = json, .now = as_loop_now(r->loop), .details = details, .ctx = ctx};

    as_reconciler_each(r, put_served, &s);
    close_objects(&s, 0);
}
