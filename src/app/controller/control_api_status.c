/* What the control API answers about what is served: the reconciler's state, and what was deployed.
 * The names are those of Ray Serve's details. */
#include "app/controller/control_api.h"
#include "conf/spec/keys/spec_capacity.h"
#include "wire/json/json.h"

#include <stdlib.h>
#include <unistd.h>

struct deployed {
    char *application;
    uint64_t generation; /* the last one that has changed it */
    int64_t time_ms;     /* Unix time of that; 0: not known */
};

struct status {
    const struct as_control_api *o;
    struct deployed *all;
    uint32_t n;
};

static struct deployed *find_deployed(const struct status *s, struct as_str application)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (as_str_eq(as_str_of(s->all[i].application), application))
            return &s->all[i];
    }
    return NULL;
}

/* The newest change comes first. */
static void note_change(void *arg, const struct as_store_change *c)
{
    struct status *s = arg;

    if (as_str_eq(c->step, AS_STR("scaled")) || find_deployed(s, c->application))
        return;
    s->all = as_xrealloc(s->all, (s->n + 1) * sizeof(*s->all));
    s->all[s->n++] = (struct deployed){as_str_dup(c->application), c->generation, 0};
}

static bool note_time(void *arg, const struct as_store_entry *e)
{
    const struct status *s = arg;

    for (uint32_t i = 0; i < s->n; i++) {
        if (s->all[i].generation == e->generation)
            s->all[i].time_ms = e->time_ms;
    }
    return true;
}

/* An error of the store is reported where it is written; the times are those of the start then. */
static void read_times(struct status *s)
{
    struct as_store *store = s->o->desired.store;
    struct as_buf ignored = {0};

    if (store && as_store_each_change(store, note_change, s, &ignored) == 0)
        as_store_each(store, note_time, s, &ignored);
    as_buf_fini(&ignored);
}

/* Members of an application beside its status; of one that is being deleted only null. */
static void put_application(const struct status *s, struct as_str name, struct as_buf *json)
{
    const struct as_spec_object *app =
        as_spec_find(s->o->desired.spec->file, AS_SPEC_FILE_APPLICATIONS, name);
    const struct deployed *d = find_deployed(s, name);
    int64_t ms = d && d->time_ms ? d->time_ms : as_desired_state_start_time(&s->o->desired);
    const char *prefix = app ? as_spec_str(app, AS_SPEC_APPLICATION_ROUTE_PREFIX) : NULL;

    as_json_put_key(json, "last_deployed_time_s");
    as_json_put_f64(json, (double)ms / 1e3);
    as_json_put_member_text(json, "source",
                            app && as_spec_is_uploaded(app) ? "imperative" : "declarative");
    as_json_put_key(json, "route_prefix");
    if (prefix)
        as_json_put_string(json, as_str_of(prefix));
    else
        as_json_put_null(json);
    as_json_put_key(json, "docs_path");
    as_json_put_null(json);
    as_json_put_key(json, "deployed_app_config");
    if (app)
        as_spec_json(app, false, json);
    else
        as_json_put_null(json);
}

static void put_details(void *arg, const struct as_served *v, struct as_buf *json)
{
    const struct status *s = arg;
    struct as_spec_walk w;

    if (v->kind == AS_SERVED_APPLICATION) {
        put_application(s, v->application, json);
        return;
    }
    as_json_put_key(json, "deployment_config");
    if (as_spec_find_deployment(s->o->desired.spec->file, v->id, &w))
        as_spec_json(w.deployment, true, json);
    else
        as_json_put_null(json);
}

static void put_capacity(const struct as_spec *s, struct as_buf *json)
{
    struct as_capacity c = as_spec_file_capacity(s->file);

    as_json_put_key(json, "target_capacity");
    if (c.share == AS_CAPACITY_UNSET)
        as_json_put_null(json);
    else
        as_json_put_f64(json, c.share / 1e3);
}

void as_control_api_write_status(const struct as_control_api *o, struct as_buf *json)
{
    struct status s = {.o = o};

    read_times(&s);
    as_json_put_open(json, '{');
    as_json_put_member_open(json, "controller_info", '{');
    as_json_put_member_i64(json, "pid", getpid());
    as_json_put_member_text(json, "state_dir", o->desired.folder);
    as_json_put_close(json, '}');
    as_json_put_member_u64(json, "generation", o->desired.generation);
    put_capacity(o->desired.spec, json);
    as_json_put_member_open(json, "applications", '{');
    as_reconciler_put_json(o->reconciler, put_details, &s, json);
    as_json_put_close(json, '}');
    as_json_put_close(json, '}');
    for (uint32_t i = 0; i < s.n; i++)
        free(s.all[i].application);
    free(s.all);
}
