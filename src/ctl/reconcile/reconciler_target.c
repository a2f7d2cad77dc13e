/* Which deployments there are: those of the target generation, and those being deleted. */
#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/keys/spec_capacity.h"
#include "conf/spec/spec_diff.h"
#include "conf/spec/spec_plan.h"
#include "ctl/reconcile/reconciler_internal.h"

struct as_generations *as_reconciler_generations(struct as_reconciler *r)
{
    return &r->generations;
}

struct as_reconciler_deployment *as_reconciler_find(const struct as_reconciler *r,
                                                    struct as_str name)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (as_str_eq(as_str_of(r->deployments[i]->name), name))
            return r->deployments[i];
    }
    return NULL;
}

uint32_t as_reconciler_application_size(const struct as_reconciler *r, uint32_t first)
{
    const char *name = r->deployments[first]->application;
    uint32_t i = first + 1;

    while (i < r->n && strcmp(r->deployments[i]->application, name) == 0)
        i++;
    return i - first;
}

/* Behind the last one of its application. The array has room for it. */
static void insert_deployment(struct as_reconciler *r, struct as_reconciler_deployment *d)
{
    uint32_t at = r->n;

    while (at > 0 && strcmp(r->deployments[at - 1]->application, d->application) != 0)
        at--;
    at = at ? at : r->n;
    memmove(&r->deployments[at + 1], &r->deployments[at],
            (r->n - at) * sizeof(struct as_reconciler_deployment *));
    r->deployments[at] = d;
    r->n++;
}

static struct as_reconciler_deployment *add_deployment(struct as_reconciler *r, struct as_str id)
{
    struct as_reconciler_deployment *d = as_xalloc(sizeof(*d));

    d->reconciler = r;
    d->scaled = -1;
    d->capacity.share = AS_CAPACITY_UNSET;
    d->name = as_str_dup(id);
    d->application = as_str_dup(as_id_application(id));
    /* names were checked when the spec was parsed */
    AS_ASSERT(as_plan_new(&d->plan, id, &r->starts, as_rand_next(&r->rand), &as_reconciler_plan_ops,
                          d) == 0);
    r->deployments =
        as_xrealloc(r->deployments, (r->n + 1) * sizeof(struct as_reconciler_deployment *));
    insert_deployment(r, d);
    return d;
}

static void free_slot_process(void *arg AS_UNUSED, struct as_replica_slot *slot)
{
    as_reconciler_free_process(slot);
}

void as_reconciler_free_deployment(struct as_reconciler_deployment *d)
{
    as_plan_each(d->plan, free_slot_process, NULL);
    as_reconciler_free_scaler(d);
    as_reconciler_release_devices(d);
    as_plan_free(d->plan);
    as_buf_fini(&d->failure);
    as_buf_fini(&d->missing);
    as_buf_fini(&d->last_failure);
    free(d->name);
    free(d->application);
    free(d->code);
    free(d);
}

static uint32_t whole_number(const struct as_reconciler_deployment *d, uint32_t declared)
{
    return d->scaled >= 0 ? (uint32_t)d->scaled : declared;
}

uint32_t as_reconciler_whole(const struct as_reconciler_deployment *d)
{
    return whole_number(d, d->declared);
}

/* The number of replicas that is asked for now; declared: that of the generation. */
static uint32_t asked_replicas(const struct as_reconciler_deployment *d, uint32_t declared)
{
    if (d->scaler)
        return d->scaler->a.target;
    return as_capacity_replicas(&d->capacity, whole_number(d, declared));
}

/* Without a stable version there is nothing to roll back to: min_ready would only delay the first
 * one. */
static struct as_plan_target make_target(const struct as_reconciler_deployment *d,
                                         const struct as_generations_deployment *specs,
                                         uint64_t generation)
{
    struct as_plan_target t;

    as_spec_plan_target(&t, specs->app, specs->deployment, &d->reconciler->conf.policy, generation);
    t.replicas = asked_replicas(d, t.replicas);
    if (!as_plan_stable(d->plan) && !d->stable)
        t.policy.min_ready = 0;
    return t;
}

/* Its target stays the same, so that an update under way goes on. num_replicas is compared by the
 * plan's number, which also changes without a new generation. */
static bool is_unchanged(struct as_reconciler_deployment *d,
                         const struct as_generations_deployment *to)
{
    const struct as_plan_target *t = as_plan_target(d->plan);
    enum as_spec_class cls = AS_SPEC_SAME;
    struct as_generations_deployment was;
    struct as_buf keys = {0};
    bool same;

    if (!t || d->deleting || asked_replicas(d, d->declared) != t->replicas ||
        !as_generations_find(&d->reconciler->generations, t->generation, as_str_of(d->name), &was))
        return false;
    cls = as_spec_compare(was.app, was.deployment, to->app, to->deployment, &keys);
    same = cls == AS_SPEC_SAME || as_str_eq(as_buf_slice(&keys), AS_STR("num_replicas"));
    as_buf_fini(&keys);
    return same;
}

/* Starts the plan of a deployment that was added after TOLD. */
static void start_plan(struct as_reconciler_deployment *d)
{
    as_ns now = as_loop_now(d->reconciler->loop);

    as_plan_set_serving(d->plan, d->reconciler->serving, now);
    as_plan_restore(d->plan, NULL, NULL, AS_STR(""), now);
    as_plan_run(d->plan, now);
    as_reconciler_report_status(d);
}

/* True: the percentage has changed. Of the direction only the scaler needs to know. */
static bool update_capacity(struct as_reconciler_deployment *d, const struct as_spec *s,
                            const struct as_generations_deployment *specs)
{
    int32_t was = d->capacity.share;

    d->capacity = as_spec_capacity(s->file, specs->app, specs->deployment);
    return d->capacity.share != was;
}

/* True: one of the numbers has changed. */
static bool update_replica_numbers(struct as_reconciler_deployment *d,
                                   const struct as_generations_deployment *specs)
{
    int64_t scaled = d->reconciler->ops.find_scale(d->reconciler->ctx, d->reconciler->generation,
                                                   as_str_of(d->name));
    uint32_t declared = as_spec_replicas(specs->deployment);
    bool other = scaled != d->scaled || declared != d->declared;

    other = as_reconciler_update_scaler(d, specs) || other;

    d->ingress = as_spec_is_set(specs->deployment, AS_SPEC_DEPLOYMENT_INGRESS) &&
                 as_spec_value(specs->deployment, AS_SPEC_DEPLOYMENT_INGRESS)->i;
    d->scaled = scaled;
    d->declared = declared;
    return other;
}

/* True: it has changed. */
static bool update_code(struct as_reconciler_deployment *d, const struct as_spec_object *app)
{
    const char *code = as_spec_str(app, AS_SPEC_APPLICATION_CODE);
    bool same = d->code && code ? strcmp(d->code, code) == 0 : d->code == code;

    if (same)
        return false;
    free(d->code);
    d->code = code ? as_str_dup(as_str_of(code)) : NULL;
    return true;
}

static void set_deployment_target(struct as_reconciler *r, const struct as_spec *s,
                                  const struct as_generations_deployment *specs)
{
    struct as_id id;
    struct as_reconciler_deployment *d =
        as_reconciler_find(r, as_spec_id(specs->app, specs->deployment, &id));
    bool is_new = !d, capacity_changed, numbers_changed, code_changed;
    const struct as_plan_target *was;
    struct as_plan_target t;
    as_ns now = as_loop_now(r->loop);

    if (!d)
        d = add_deployment(r, id.s);
    d->in_target = true;
    capacity_changed = update_capacity(d, s, specs);
    numbers_changed = update_replica_numbers(d, specs);
    code_changed = update_code(d, specs->app);
    if ((capacity_changed || numbers_changed || code_changed) && !is_new)
        as_reconciler_report_status(d);
    if (!capacity_changed && is_unchanged(d, specs) && !d->clear_failure)
        return;
    d->clear_failure = false;
    t = make_target(d, specs, r->generation);
    was = as_plan_target(d->plan);
    /* a rollback goes to the number of replicas that is asked for now */
    if (was && !d->deleting && was->version == t.version && was->config == t.config)
        as_plan_scale(d->plan, t.replicas, false, now);
    d->deleting = false;
    /* cannot fail: the spec has the same bounds as the plan */
    AS_ASSERT(as_plan_set_target(d->plan, &t, now) == 0);
    if (is_new && r->state_known)
        start_plan(d);
    else if (d->reported != t.replicas)
        as_reconciler_report_status(d);
}

uint32_t as_reconciler_clear_failures(struct as_reconciler *r, struct as_str application)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        struct as_reconciler_deployment *d = r->deployments[i];

        d->clear_failure = !d->deleting && as_plan_condition(d->plan)->rolled_back &&
                           (!application.n || as_str_eq(as_str_of(d->application), application));
        n += d->clear_failure;
    }
    return n;
}

/* First the dispatcher is told, so that new requests are refused; then the replicas end when they
 * have answered theirs. */
static void delete_deployment(struct as_reconciler_deployment *d)
{
    if (d->deleting)
        return;
    d->deleting = true;
    if (d->reconciler->state_known)
        as_reconciler_report_delete(d, false);
    as_plan_delete(d->plan, as_loop_now(d->reconciler->loop));
}

void as_reconciler_set_target(struct as_reconciler *r, uint64_t generation, struct as_spec *spec)
{
    const struct as_spec *target;

    as_generations_add(&r->generations, generation, spec);
    r->generation = generation;
    for (uint32_t i = 0; i < r->n; i++)
        r->deployments[i]->in_target = false;
    target = as_generations_get(&r->generations, generation);
    for (struct as_spec_walk w = {0}; as_spec_next(target->file, &w);)
        set_deployment_target(r, target, &(struct as_generations_deployment){w.app, w.deployment});
    for (uint32_t i = 0; i < r->n; i++) {
        if (!r->deployments[i]->in_target)
            delete_deployment(r->deployments[i]);
    }
    if (r->state_known)
        as_reconciler_report_applications(r);
    as_loop_defer(r->loop, &r->turn_end);
}

struct as_reconciler_deployment *
as_reconciler_add_leftover(struct as_reconciler *r, struct as_str name,
                           const struct as_replica_slot_facts *facts)
{
    struct as_plan_target t = {.generation = facts->generation,
                               .version = facts->version,
                               .config = facts->config,
                               .policy = r->conf.policy};
    struct as_generations_deployment specs;
    struct as_reconciler_deployment *d;
    bool found = as_generations_find(&r->generations, facts->generation, name, &specs);

    if (!name.n || name.n > AS_PLAN_NAME_MAX || !facts->generation)
        return NULL;
    d = add_deployment(r, name);
    if (found)
        as_spec_plan_target(&t, specs.app, specs.deployment, &r->conf.policy, facts->generation);
    t.replicas = 0;
    as_plan_set_serving(d->plan, r->serving, as_loop_now(r->loop));
    AS_ASSERT(as_plan_set_target(d->plan, &t, as_loop_now(r->loop)) == 0);
    delete_deployment(d);
    return d;
}

void as_reconciler_set_history(struct as_reconciler *r, struct as_str deployment, uint64_t stable,
                               uint64_t previous, struct as_str failed)
{
    struct as_reconciler_deployment *d = as_reconciler_find(r, deployment);

    if (!d)
        return;
    d->stable = stable;
    d->previous = previous;
    as_buf_add(&d->last_failure, failed.p, failed.n);
}

/* The target of a stored generation; NULL: it is not stored any more. */
static const struct as_plan_target *restore_target(struct as_reconciler_deployment *d,
                                                   uint64_t generation, struct as_plan_target *t)
{
    struct as_generations_deployment specs;
    int64_t then;

    if (!generation ||
        !as_generations_find(&d->reconciler->generations, generation, as_str_of(d->name), &specs))
        return NULL;
    *t = make_target(d, &specs, generation);
    then = d->reconciler->ops.find_scale(d->reconciler->ctx, generation, as_str_of(d->name));
    if (d->scaled < 0 && then >= 0)
        t->replicas = as_capacity_replicas(&d->capacity, (uint32_t)then);
    return t;
}

/* A server that starts anew has no replica of its stable version yet. If the target is that
 * version, it is not stable before it is reached again; another version is what an update rolls
 * back to. */
void as_reconciler_restore(struct as_reconciler_deployment *d, bool complete)
{
    const struct as_plan_target *target = as_plan_target(d->plan), *stable, *previous;
    struct as_plan_target s, p;

    stable = restore_target(d, d->stable, &s);
    previous = restore_target(d, d->previous, &p);
    if (!d->stable && complete && !d->deleting)
        stable = target; /* nothing is stored: the target was never changed, and had been reached */
    if (stable && !complete && as_plan_is_empty(d->plan) && stable->version == target->version &&
        stable->config == target->config)
        stable = NULL;
    as_plan_restore(d->plan, stable, previous, as_buf_slice(&d->last_failure),
                    as_loop_now(d->reconciler->loop));
}

static bool is_generation_used(void *arg, uint64_t generation)
{
    const struct as_reconciler *r = arg;

    if (generation == r->generation)
        return true;
    for (uint32_t i = 0; i < r->n; i++) {
        if (as_plan_uses(r->deployments[i]->plan, generation))
            return true;
    }
    return false;
}

void as_reconciler_prune(struct as_reconciler *r)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        struct as_reconciler_deployment *d = r->deployments[i];

        if (d->deleting && as_plan_is_empty(d->plan)) {
            as_log_event(r->log, AS_LOG_INFO, "deployment_removed", "deployment=%s",
                         as_id_shown_z(d->name));
            as_reconciler_report_delete(d, true);
            as_reconciler_free_deployment(d);
        } else {
            r->deployments[left++] = d;
        }
    }
    if (left < r->n) {
        r->n = left;
        as_reconciler_report_applications(r);
    }
    as_generations_prune(&r->generations, is_generation_used, r);
}
