/* The history: what changed when, by which command, and the outcome. */
#include "app/controller/control_api.h"
#include "conf/spec/spec_diff.h"
#include "wire/json/json.h"

#include <stdlib.h>

/* --- storing outcomes --- */

void as_control_api_record_outcome(struct as_control_api *o, uint64_t generation, struct as_str id,
                                   const char *from, const char *state, struct as_str why)
{
    struct as_buf err = {0};

    if (!o->desired.store)
        return;
    if (as_store_set_outcome(o->desired.store, generation, as_id_application(id), as_id_name(id),
                             as_str_of(from), as_str_of(state), why, &err) < 0)
        as_control_api_log_not_stored(o, AS_STR("the outcome of a change"), &err);
    as_buf_fini(&err);
}

struct healthy {
    struct as_control_api *o;
    uint64_t generation;
};

static void mark_healthy(void *arg, const struct as_served *s)
{
    const struct healthy *h = arg;

    if (s->kind == AS_SERVED_DEPLOYMENT && as_reconciler_is_stable(h->o->reconciler, s->id))
        as_control_api_record_outcome(h->o, h->generation, s->id, "", "healthy", AS_STR(""));
}

void as_control_api_record_healthy(struct as_control_api *o, uint64_t generation)
{
    if (o->desired.store)
        as_reconciler_each(o->reconciler, mark_healthy, &(struct healthy){o, generation});
}

/* --- the answer --- */

struct row {
    uint64_t generation;
    char *application, *deployment, *step, *keys, *state, *why;
    bool is_newest; /* of its deployment */
};

struct rows {
    const struct as_control_api *o;
    struct row *all; /* newest generation first */
    uint32_t n, cap;
};

static void add_row(void *arg, const struct as_store_change *c)
{
    struct rows *r = arg;
    bool is_newest = true;

    for (uint32_t i = 0; i < r->n && is_newest; i++)
        is_newest = !as_str_eq(as_str_of(r->all[i].deployment), c->deployment) ||
                    !as_str_eq(as_str_of(r->all[i].application), c->application) ||
                    r->all[i].generation == c->generation;
    if (r->n == r->cap) {
        r->cap = AS_MAX(16u, 2 * r->cap);
        r->all = as_xrealloc(r->all, r->cap * sizeof(*r->all));
    }
    r->all[r->n++] = (struct row){c->generation,
                                  as_str_dup(c->application),
                                  as_str_dup(c->deployment),
                                  as_str_dup(c->step),
                                  as_str_dup(c->keys),
                                  as_str_dup(c->state),
                                  as_str_dup(c->why),
                                  is_newest};
}

static void free_rows(struct rows *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        free(r->all[i].application);
        free(r->all[i].deployment);
        free(r->all[i].step);
        free(r->all[i].keys);
        free(r->all[i].state);
        free(r->all[i].why);
    }
    free(r->all);
}

static void set_text(char **text, struct as_str s)
{
    free(*text);
    *text = as_str_dup(s);
}

/* Fills in the state of a change that has no stored outcome. For the newest change of a deployment
 * the reconciler knows the progress; an older one was superseded before it was reached. */
static void fill_state(const struct rows *all, struct row *r)
{
    struct as_id id;
    struct as_str deployment = as_id_make(&id, as_str_of(r->application), as_str_of(r->deployment));
    const struct as_condition *c = as_reconciler_condition(all->o->reconciler, deployment);
    bool is_removed = strcmp(r->step, "removed") == 0;

    if (r->state[0])
        return;
    if (is_removed || (r->is_newest && as_reconciler_is_stable(all->o->reconciler, deployment))) {
        set_text(&r->state, AS_STR("healthy"));
    } else if (!r->is_newest || !c) {
        set_text(&r->state, AS_STR("superseded"));
    } else {
        set_text(&r->state, c->status == AS_STATUS_DEPLOY_FAILED && !c->rolled_back
                                ? AS_STR("failed")
                                : AS_STR("in progress"));
        set_text(&r->why, as_condition_text(c));
    }
}

/* From best to worst: a generation has the worst state of its changes. */
static const char *const states[] = {"healthy", "superseded", "in progress", "rolled back",
                                     "failed"};

static uint32_t state_rank(const struct row *r)
{
    for (uint32_t i = 0; i < AS_COUNT(states); i++) {
        if (strcmp(r->state, states[i]) == 0)
            return i;
    }
    return 0;
}

static void put_change(const struct row *r, struct as_buf *json)
{
    as_json_put_open(json, '{');
    as_json_put_member_text(json, "application", r->application);
    as_json_put_member_text(json, "deployment", r->deployment);
    as_json_put_member_text(json, "step", r->step);
    as_json_put_member_text(json, "keys", r->keys);
    as_json_put_member_text(json, "state", r->state);
    as_json_put_member_text(json, "message", r->why);
    as_json_put_close(json, '}');
}

/* "state" is null if the generation has no stored changes: it changed nothing, or an earlier
 * version of the program stored it. */
static void put_state(const struct rows *r, uint64_t generation, struct as_buf *json)
{
    const struct row *worst = NULL;

    for (uint32_t i = 0; i < r->n; i++) {
        const struct row *one = &r->all[i];

        if (one->generation == generation && (!worst || state_rank(one) > state_rank(worst)))
            worst = one;
    }
    as_json_put_key(json, "state");
    if (worst)
        as_json_put_string(json, as_str_of(worst->state));
    else
        as_json_put_null(json);
    as_json_put_member_text(json, "message", worst ? worst->why : "");
    as_json_put_member_open(json, "changes", '[');
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->all[i].generation == generation)
            put_change(&r->all[i], json);
    }
    as_json_put_close(json, ']');
}

struct history {
    struct rows rows;
    struct as_buf *json;
};

static bool put_entry(void *arg, const struct as_store_entry *e)
{
    const struct history *h = arg;
    struct as_buf *json = h->json;

    as_json_put_open(json, '{');
    as_json_put_member_u64(json, "generation", e->generation);
    as_json_put_member_bool(json, "current", e->generation == h->rows.o->desired.generation);
    as_json_put_member_i64(json, "time_ms", e->time_ms);
    as_json_put_member_string(json, "cause", e->cause);
    put_state(&h->rows, e->generation, json);
    if (e->failed.deployment.n) {
        as_json_put_member_open(json, "failed", '{');
        as_json_put_member_string(json, "application", e->failed.application);
        as_json_put_member_string(json, "deployment", e->failed.deployment);
        as_json_put_member_string(json, "message", e->failed.why);
        as_json_put_close(json, '}');
    }
    as_json_put_close(json, '}');
    return true;
}

static void add_first(void *ctx, const struct as_spec_change *c)
{
    add_row(ctx, &(struct as_store_change){.generation = 1,
                                           .application = as_str_of(c->application),
                                           .deployment = as_str_of(c->deployment),
                                           .step = AS_STR("added")});
}

int as_control_api_write_history(struct as_control_api *o, struct as_buf *json, struct as_buf *err)
{
    struct history h = {.rows = {.o = o}, .json = json};
    int rc = 0;

    if (o->desired.store)
        rc = as_store_each_change(o->desired.store, add_row, &h.rows, err);
    else
        as_spec_diff(NULL, o->desired.spec, add_first, &h.rows);
    for (uint32_t i = 0; i < h.rows.n; i++)
        fill_state(&h.rows, &h.rows.all[i]);
    as_json_put_open(json, '{');
    as_json_put_member_open(json, "generations", '[');
    if (!o->desired.store)
        put_entry(&h, &(struct as_store_entry){.generation = 1,
                                               .time_ms = as_desired_state_start_time(&o->desired),
                                               .cause = AS_STR("run")});
    else if (rc == 0)
        rc = as_store_each(o->desired.store, put_entry, &h, err);
    as_json_put_close(json, ']');
    as_json_put_close(json, '}');
    free_rows(&h.rows);
    return rc;
}
