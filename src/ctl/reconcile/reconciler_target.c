/* Which deployments there are: those of the generation that is wanted, and those that end. */
#include "conf/spec_diff.h"
#include "conf/spec_plan.h"
#include "ctl/reconcile/reconciler_internal.h"

struct as_catalog *as_crew_catalog(struct as_crew *c)
{
    return &c->catalog;
}

struct as_crew_deployment *as_crew_find(const struct as_crew *c, struct as_str name)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (as_str_eq(as_str_of(c->deployments[i]->name), name))
            return c->deployments[i];
    }
    return NULL;
}

uint32_t as_crew_together(const struct as_crew *c, uint32_t first)
{
    const char *name = c->deployments[first]->application;
    uint32_t i = first + 1;

    while (i < c->n && strcmp(c->deployments[i]->application, name) == 0)
        i++;
    return i - first;
}

/* Behind the last one of its application, for which there is room. */
static void put_in(struct as_crew *c, struct as_crew_deployment *d)
{
    uint32_t at = c->n;

    while (at > 0 && strcmp(c->deployments[at - 1]->application, d->application) != 0)
        at--;
    at = at ? at : c->n;
    memmove(&c->deployments[at + 1], &c->deployments[at],
            (c->n - at) * sizeof(struct as_crew_deployment *));
    c->deployments[at] = d;
    c->n++;
}

static void move_to(struct as_crew *c, struct as_crew_deployment *d, struct as_str application)
{
    uint32_t i = 0;

    while (c->deployments[i] != d)
        i++;
    c->n--;
    memmove(&c->deployments[i], &c->deployments[i + 1],
            (c->n - i) * sizeof(struct as_crew_deployment *));
    free(d->application);
    d->application = as_str_dup(application);
    put_in(c, d);
}

static struct as_crew_deployment *add(struct as_crew *c, struct as_str name,
                                      struct as_str application)
{
    struct as_crew_deployment *d = as_xalloc(sizeof(*d));

    d->crew = c;
    d->scaled = -1;
    d->name = as_str_dup(name);
    d->application = as_str_dup(application);
    as_buf_init(&d->why);
    as_buf_init(&d->lack);
    as_buf_init(&d->last_failure);
    /* names were checked by whoever described them */
    AS_ASSERT(
        as_plan_new(&d->plan, name, &c->starts, as_rand_next(&c->rand), &as_crew_plan_ops, d) == 0);
    c->deployments = as_xrealloc(c->deployments, (c->n + 1) * sizeof(struct as_crew_deployment *));
    put_in(c, d);
    return d;
}

static void drop_life(void *arg AS_UNUSED, struct as_place *pl)
{
    as_crew_free_life(pl);
}

void as_crew_free_deployment(struct as_crew_deployment *d)
{
    as_plan_each(d->plan, drop_life, NULL);
    as_crew_release(d);
    as_plan_free(d->plan);
    as_buf_fini(&d->why);
    as_buf_fini(&d->lack);
    as_buf_fini(&d->last_failure);
    free(d->name);
    free(d->application);
    free(d->code);
    free(d);
}

/* The first version has nothing to go back to, so it need not show first that it lasts. */
static struct as_plan_target target_of(const struct as_crew_deployment *d,
                                       const struct as_catalog_page *page, uint64_t generation)
{
    struct as_plan_target t;

    as_spec_target(&t, page->app, page->deployment, &d->crew->conf.policy, generation);
    if (d->scaled >= 0)
        t.replicas = (uint32_t)d->scaled;
    if (!as_plan_stable(d->plan) && !d->stable)
        t.policy.min_ready = 0;
    return t;
}

/* Nothing of it differs from what it was asked to be, so what it is at goes on. How many replicas
 * it is to have is the plan's to say: that changes without a generation of its own. */
static bool unchanged(struct as_crew_deployment *d, const struct as_catalog_page *to)
{
    const struct as_plan_target *t = as_plan_target(d->plan);
    enum as_spec_class cls = AS_SPEC_SAME;
    struct as_catalog_page was;
    struct as_buf keys;
    bool same;

    if (!t || d->deleting || (d->scaled >= 0 ? d->scaled : d->declared) != t->replicas ||
        !as_catalog_find(&d->crew->catalog, t->generation, as_str_of(d->name), &was))
        return false;
    as_buf_init(&keys);
    cls = as_spec_compare(was.app, was.deployment, to->app, to->deployment, &keys);
    same = cls == AS_SPEC_SAME || as_str_eq(as_buf_slice(&keys), AS_STR("num_replicas"));
    as_buf_fini(&keys);
    return same;
}

/* One that was made while the others act. */
static void join_in(struct as_crew_deployment *d)
{
    as_ns now = as_loop_now(d->crew->loop);

    as_plan_serving(d->plan, d->crew->serving, now);
    as_plan_restore(d->plan, NULL, NULL, AS_STR(""), now);
    as_plan_run(d->plan, now);
    as_crew_say_status(d);
}

/* True: another number was set, or is declared. */
static bool learn_numbers(struct as_crew_deployment *d, const struct as_catalog_page *page)
{
    int64_t scaled = d->crew->ops.scaled(d->crew->ctx, d->crew->generation, as_str_of(d->name));
    uint32_t declared = (uint32_t)as_spec_i64(page->deployment, AS_SPEC_DEPLOYMENT_NUM_REPLICAS);
    bool other = scaled != d->scaled || declared != d->declared;

    d->scaled = scaled;
    d->declared = declared;
    return other;
}

/* True: it is another one. */
static bool learn_code(struct as_crew_deployment *d, const struct as_spec_object *app)
{
    const char *code = as_spec_str(app, AS_SPEC_APPLICATION_CODE);
    bool same = d->code && code ? strcmp(d->code, code) == 0 : d->code == code;

    if (same)
        return false;
    free(d->code);
    d->code = code ? as_str_dup(as_str_of(code)) : NULL;
    return true;
}

static void want(struct as_crew *c, const struct as_catalog_page *page)
{
    struct as_str name = as_str_of(as_spec_str(page->deployment, AS_SPEC_DEPLOYMENT_NAME)),
                  app = as_str_of(as_spec_str(page->app, AS_SPEC_APPLICATION_NAME));
    struct as_crew_deployment *d = as_crew_find(c, name);
    bool is_new = !d;
    const struct as_plan_target *was;
    struct as_plan_target t;
    as_ns now = as_loop_now(c->loop);

    if (!d)
        d = add(c, name, app);
    d->listed = true;
    if (!as_str_eq(as_str_of(d->application), app))
        move_to(c, d, app);
    if ((learn_numbers(d, page) | learn_code(d, page->app)) && !is_new)
        as_crew_say_status(d);
    if (unchanged(d, page) && !d->forgiven)
        return;
    d->forgiven = false;
    t = target_of(d, page, c->generation);
    was = as_plan_target(d->plan);
    /* what a failed update goes back to is as large as people ask for now */
    if (was && !d->deleting && was->version == t.version && was->config == t.config)
        as_plan_scale(d->plan, t.replicas, false, now);
    d->deleting = false;
    AS_ASSERT(as_plan_set_target(d->plan, &t, now) == 0); /* the keys' bounds are the plan's */
    if (is_new && c->told)
        join_in(d);
    else if (d->said != t.replicas)
        as_crew_say_status(d);
}

uint32_t as_crew_forgive(struct as_crew *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        struct as_crew_deployment *d = c->deployments[i];

        d->forgiven = !d->deleting && as_plan_condition(d->plan)->rolled_back;
        n += d->forgiven;
    }
    return n;
}

/* First clients are told: what they ask for from here on is unknown. Then its replicas, which
 * answer what they have. */
static void end(struct as_crew_deployment *d)
{
    if (d->deleting)
        return;
    d->deleting = true;
    if (d->crew->told)
        as_crew_say_delete(d, false);
    as_plan_delete(d->plan, as_loop_now(d->crew->loop));
}

void as_crew_want(struct as_crew *c, uint64_t generation, struct as_spec *spec)
{
    const struct as_spec *kept;

    as_catalog_put(&c->catalog, generation, spec);
    c->generation = generation;
    for (uint32_t i = 0; i < c->n; i++)
        c->deployments[i]->listed = false;
    kept = as_catalog_get(&c->catalog, generation);
    for (uint32_t i = 0; i < as_spec_count(kept->file, AS_SPEC_FILE_APPLICATIONS); i++) {
        struct as_catalog_page page;

        page.app = as_spec_object(kept->file, AS_SPEC_FILE_APPLICATIONS, i);
        for (uint32_t k = 0; k < as_spec_count(page.app, AS_SPEC_APPLICATION_DEPLOYMENTS); k++) {
            page.deployment = as_spec_object(page.app, AS_SPEC_APPLICATION_DEPLOYMENTS, k);
            want(c, &page);
        }
    }
    for (uint32_t i = 0; i < c->n; i++) {
        if (!c->deployments[i]->listed)
            end(c->deployments[i]);
    }
    if (c->told)
        as_crew_say_applications(c);
    as_loop_defer(c->loop, &c->after);
}

struct as_crew_deployment *as_crew_leftover(struct as_crew *c, struct as_str name,
                                            const struct as_place_facts *facts)
{
    struct as_plan_target t = {.generation = facts->generation,
                               .version = facts->version,
                               .config = facts->config,
                               .policy = c->conf.policy};
    struct as_catalog_page page;
    struct as_crew_deployment *d;
    bool found = as_catalog_find(&c->catalog, facts->generation, name, &page);

    if (!name.n || name.n > AS_PLAN_NAME_MAX || !facts->generation)
        return NULL;
    d = add(c, name,
            found ? as_str_of(as_spec_str(page.app, AS_SPEC_APPLICATION_NAME)) : AS_STR("default"));
    if (found)
        as_spec_target(&t, page.app, page.deployment, &c->conf.policy, facts->generation);
    t.replicas = 0;
    as_plan_serving(d->plan, c->serving, as_loop_now(c->loop));
    AS_ASSERT(as_plan_set_target(d->plan, &t, as_loop_now(c->loop)) == 0);
    end(d);
    return d;
}

void as_crew_recall(struct as_crew *c, struct as_str deployment, uint64_t stable, uint64_t previous,
                    struct as_str failed)
{
    struct as_crew_deployment *d = as_crew_find(c, deployment);

    if (!d)
        return;
    d->stable = stable;
    d->previous = previous;
    as_buf_add(&d->last_failure, failed.p, failed.n);
}

/* The target that a generation makes; NULL: it is not known any more. */
static const struct as_plan_target *recalled(struct as_crew_deployment *d, uint64_t generation,
                                             struct as_plan_target *t)
{
    struct as_catalog_page page;
    int64_t then;

    if (!generation || !as_catalog_find(&d->crew->catalog, generation, as_str_of(d->name), &page))
        return NULL;
    *t = target_of(d, &page, generation);
    then = d->crew->ops.scaled(d->crew->ctx, generation, as_str_of(d->name));
    if (d->scaled < 0 && then >= 0)
        t->replicas = (uint32_t)then;
    return t;
}

/* A server that starts anew with what it had reached has yet to reach it: only another version is
 * worth knowing then, as that to which an update goes back. */
void as_crew_restore(struct as_crew_deployment *d, bool complete)
{
    const struct as_plan_target *target = as_plan_target(d->plan), *stable, *previous;
    struct as_plan_target s, p;

    stable = recalled(d, d->stable, &s);
    previous = recalled(d, d->previous, &p);
    if (!d->stable && complete && !d->deleting)
        stable = target; /* nothing was ever changed, and it was there */
    if (stable && !complete && as_plan_empty(d->plan) && stable->version == target->version &&
        stable->config == target->config)
        stable = NULL;
    as_plan_restore(d->plan, stable, previous, as_buf_slice(&d->last_failure),
                    as_loop_now(d->crew->loop));
}

static bool needed(void *arg, uint64_t generation)
{
    const struct as_crew *c = arg;

    if (generation == c->generation)
        return true;
    for (uint32_t i = 0; i < c->n; i++) {
        if (as_plan_uses(c->deployments[i]->plan, generation))
            return true;
    }
    return false;
}

void as_crew_tidy(struct as_crew *c)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        struct as_crew_deployment *d = c->deployments[i];

        if (d->deleting && as_plan_empty(d->plan)) {
            as_log_event(c->log, AS_LOG_INFO, "deployment_removed", "deployment=%s", d->name);
            as_crew_say_delete(d, true);
            as_crew_free_deployment(d);
        } else {
            c->deployments[kept++] = d;
        }
    }
    if (kept < c->n) {
        c->n = kept;
        as_crew_say_applications(c);
    }
    as_catalog_keep(&c->catalog, needed, c);
}
