/* The texts of new generations: the newest one, changed. */
#include "app/controller/desired_state.h"
#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/spec_diff.h"

/* Without defaults: a default in the text would override an option of the server. */
void as_desired_state_write(const struct as_spec *s, struct as_buf *text)
{
    as_spec_json(s->file, false, text);
}

static struct as_spec_object *application_of(const struct as_spec *s, struct as_str name,
                                             struct as_buf *err)
{
    struct as_spec_object *app = as_spec_find(s->file, AS_SPEC_FILE_APPLICATIONS, name);

    if (!app)
        as_buf_printf(err, "there is no application '%.*s'", AS_STR_FMT(name));
    return app;
}

static struct as_spec_object *deployment_of(const struct as_spec *s, struct as_str application,
                                            struct as_str name, struct as_buf *err)
{
    struct as_spec_object *app = application_of(s, application, err),
                          *d =
                              app ? as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS, name) : NULL;

    if (app && !d)
        as_buf_printf(err, "there is no deployment '%.*s'", AS_STR_FMT(name));
    return d;
}

int as_desired_state_write_same(struct as_desired_state *d, struct as_str application,
                                struct as_str deployment, struct as_buf *text, struct as_buf *err)
{
    if (!deployment_of(d->spec, application, deployment, err))
        return AS_ENOTFOUND;
    as_desired_state_write(d->spec, text);
    return 0;
}

int as_desired_state_write_without(struct as_desired_state *d, struct as_str application,
                                   struct as_buf *text, struct as_buf *err)
{
    struct as_spec *s;
    uint32_t before;
    int rc;

    if (!application.n) {
        as_buf_str(text, "{\"applications\": []}");
        return 0;
    }
    rc = as_desired_state_load(d, 0, &s, err);
    if (rc < 0)
        return rc;
    before = as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS);
    for (uint32_t i = before; i-- > 0;) {
        const struct as_spec_object *app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, i);

        if (as_str_eq(as_str_of(as_spec_str(app, AS_SPEC_APPLICATION_NAME)), application))
            as_spec_remove_object(s->file, AS_SPEC_FILE_APPLICATIONS, i);
    }
    if (as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS) < before) {
        as_desired_state_write(s, text);
    } else {
        as_buf_printf(err, "there is no application '%.*s'", AS_STR_FMT(application));
        rc = AS_ENOTFOUND;
    }
    as_spec_free(s);
    return rc;
}

/* Replaces an object of a list by one that another spec owns; only for printing the list. */
static void swap_object(const struct as_spec_object *o, enum as_spec_key list,
                        const struct as_spec_object *old, struct as_spec_object *new)
{
    const struct as_spec_value *v = as_spec_value(o, list);

    for (uint32_t i = 0; i < v->n; i++) {
        if (v->objects[i] == old)
            v->objects[i] = new;
    }
}

/* Keeps the present number of replicas; one that follows the load is not kept in a file. */
static void keep_replicas(struct as_spec_object *then, const struct as_spec_object *now)
{
    if (!as_spec_autoscale(then, NULL) && !as_spec_autoscale(now, NULL))
        as_spec_set_int(then, AS_SPEC_DEPLOYMENT_NUM_REPLICAS,
                        as_spec_i64(now, AS_SPEC_DEPLOYMENT_NUM_REPLICAS));
}

/* Replaces the application by its earlier state `then`, with the present numbers of replicas. */
static void swap_application(struct as_spec *s, const struct as_spec_object *app,
                             struct as_spec_object *then)
{
    for (uint32_t i = 0; i < as_spec_count(then, AS_SPEC_APPLICATION_DEPLOYMENTS); i++) {
        struct as_spec_object *d = as_spec_object(then, AS_SPEC_APPLICATION_DEPLOYMENTS, i);
        const char *name = as_spec_str(d, AS_SPEC_DEPLOYMENT_NAME);
        const struct as_spec_object *now =
            as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS, as_str_of(name));

        if (now)
            keep_replicas(d, now);
    }
    swap_object(s->file, AS_SPEC_FILE_APPLICATIONS, app, then);
}

int as_desired_state_write_rollback(struct as_desired_state *d, struct as_str application,
                                    struct as_str deployment, uint64_t generation, bool whole,
                                    struct as_buf *text, struct as_buf *err)
{
    struct as_spec_object *now, *then, *app, *app_then;
    struct as_spec *s = NULL, *old = NULL;
    int rc = as_desired_state_load(d, 0, &s, err);

    if (rc == 0)
        rc = as_desired_state_load(d, generation, &old, err);
    now = rc == 0 ? deployment_of(s, application, deployment, err) : NULL;
    then = now ? deployment_of(old, application, deployment, err) : NULL;
    if (then) {
        app = application_of(s, application, err);
        app_then = application_of(old, application, err);
        if (as_spec_compare(app, now, app_then, now, NULL) == AS_SPEC_SAME)
            swap_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, now, then);
        else
            swap_application(s, app, app_then);
        keep_replicas(then, whole ? then : now);
        as_desired_state_write(s, text);
    } else if (rc == 0) {
        rc = AS_ENOTFOUND;
    }
    as_spec_free(s);
    as_spec_free(old);
    return rc;
}
