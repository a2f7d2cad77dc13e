/* What people ask of the crew, and what they are told. */
#include "ctl/crew_own.h"
#include "wire/json.h"

static struct as_crew_deployment *named(const struct as_crew *c, struct as_str name,
                                        struct as_buf *err)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (as_str_eq(as_str_of(c->deployments[i].name), name))
            return &c->deployments[i];
    }
    as_buf_printf(err, "there is no deployment '%.*s'", AS_STR_FMT(name));
    return NULL;
}

int as_crew_scale(struct as_crew *c, struct as_str deployment, uint32_t n, struct as_buf *err)
{
    struct as_crew_deployment *d = named(c, deployment, err);

    if (!d)
        return AS_ENOTFOUND;
    if (n > AS_PLAN_REPLICAS_MAX) {
        as_buf_printf(err, "%u replicas are more than %u", n, AS_PLAN_REPLICAS_MAX);
        return AS_EINVALID;
    }
    AS_ASSERT(as_plan_scale(d->plan, n, false, as_loop_now(c->loop)) == 0);
    as_loop_defer(c->loop, &c->after);
    return 0;
}

int as_crew_restart(struct as_crew *c, struct as_str deployment, struct as_buf *err)
{
    struct as_crew_deployment *d = named(c, deployment, err);

    if (!d)
        return AS_ENOTFOUND;
    as_plan_restart(d->plan, as_loop_now(c->loop));
    as_loop_defer(c->loop, &c->after);
    return 0;
}

int as_crew_rollback(struct as_crew *c, struct as_str deployment, struct as_buf *err)
{
    struct as_crew_deployment *d = named(c, deployment, err);
    int rc;

    if (!d)
        return AS_ENOTFOUND;
    rc = as_plan_rollback(d->plan, as_loop_now(c->loop));
    if (rc == AS_ENOTFOUND)
        as_buf_printf(err, "there is nothing before what '%s' serves", d->name);
    as_loop_defer(c->loop, &c->after);
    return rc;
}

/* --- what they are told --- */

#define STATE_MAX 32u /* bytes of a state's name */

/* The names of the field's states are upper-case words (ray-serve's ReplicaState). */
static struct as_str state_word(char word[STATE_MAX], enum as_place_state state)
{
    size_t n = 0;

    for (const char *p = as_place_state_name(state); *p && n < STATE_MAX; p++)
        word[n++] = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    return (struct as_str){word, n};
}

static pid_t pid_of(const struct as_place *pl) /* 0: no process */
{
    const struct as_crew_life *l = as_crew_life(pl);

    return l && as_place_runs(pl) ? l->pid : 0;
}

static void put_place(void *arg, struct as_place *pl)
{
    const struct as_place_facts *f = as_place_facts(pl);
    struct as_buf *b = arg;
    char word[STATE_MAX];

    as_json_put_open(b, '{');
    as_json_put_at_string(b, "replica_id", as_place_name(pl));
    as_json_put_at_string(b, "state", state_word(word, as_place_state(pl)));
    as_json_put_key(b, "pid");
    if (pid_of(pl))
        as_json_put_i64(b, pid_of(pl));
    else
        as_json_put_null(b);
    as_json_put_key(b, "rank");
    if (f->rank == AS_RANK_NONE)
        as_json_put_null(b);
    else
        as_json_put_u64(b, f->rank);
    as_json_put_at_u64(b, "starts", f->starts);
    as_json_put_at_string(b, "message", as_place_reason(pl));
    as_json_put_close(b, '}');
}

static void put_deployment(const struct as_crew *c, const struct as_crew_deployment *d,
                           struct as_buf *b)
{
    const struct as_condition *k = as_plan_condition(d->plan);

    as_json_put_name(b, as_str_of(d->name));
    as_json_put_open(b, '{');
    as_json_put_at_string(b, "name", as_str_of(d->name));
    as_json_put_at_string(b, "status", as_str_of(as_condition_status_name(k->status)));
    as_json_put_at_string(b, "status_trigger", as_str_of(as_condition_trigger_name(k->trigger)));
    as_json_put_at_string(b, "message", as_condition_text(k));
    as_json_put_key(b, "status_age_s");
    as_json_put_f64(b, (double)(as_loop_now(c->loop) - k->since) / (double)AS_SEC);
    as_json_put_at_u64(b, "target_num_replicas", as_plan_target(d->plan)->replicas);
    as_json_put_key(b, "replicas");
    as_json_put_open(b, '[');
    as_plan_each(d->plan, put_place, b);
    as_json_put_close(b, ']');
    as_json_put_close(b, '}');
}

struct each {
    const struct as_crew_deployment *deployment;
    void (*fn)(void *arg, const struct as_crew_row *r);
    void *arg;
};

static void tell_place(void *arg, struct as_place *pl)
{
    const struct as_place_facts *f = as_place_facts(pl);
    const struct each *k = arg;
    char word[STATE_MAX];

    k->fn(k->arg, &(struct as_crew_row){.deployment = as_str_of(k->deployment->name),
                                        .replica = as_place_name(pl),
                                        .status = state_word(word, as_place_state(pl)),
                                        .message = as_place_reason(pl),
                                        .pid = pid_of(pl),
                                        .rank = f->rank,
                                        .starts = f->starts});
}

void as_crew_each(const struct as_crew *c, void (*fn)(void *arg, const struct as_crew_row *r),
                  void *arg)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const struct as_crew_deployment *d = &c->deployments[i];
        const struct as_condition *k = as_plan_condition(d->plan);

        fn(arg, &(struct as_crew_row){.deployment = as_str_of(d->name),
                                      .status = as_str_of(as_condition_status_name(k->status)),
                                      .message = as_condition_text(k),
                                      .target = as_plan_target(d->plan)->replicas,
                                      .rolled_back = k->rolled_back});
        as_plan_each(d->plan, tell_place, &(struct each){d, fn, arg});
    }
}

enum as_application_status as_crew_status(const struct as_crew *c)
{
    const struct as_condition **all = as_xalloc((c->n + 1) * sizeof(const struct as_condition *));
    enum as_application_status s;

    for (uint32_t i = 0; i < c->n; i++)
        all[i] = as_plan_condition(c->deployments[i].plan);
    s = as_application_status_of(all, c->n, false);
    free(all);
    return s;
}

void as_crew_show(const struct as_crew *c, struct as_buf *json)
{
    as_json_put_open(json, '{');
    for (uint32_t i = 0; i < c->n; i++)
        put_deployment(c, &c->deployments[i], json);
    as_json_put_close(json, '}');
}
