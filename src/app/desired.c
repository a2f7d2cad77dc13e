#include "app/desired.h"

#include "conf/spec_diff.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const struct as_spec_limits as_desired_limits = {.bytes = AS_STORE_SPEC_MAX,
                                                 .depth = 1000,
                                                 .applications = UINT32_MAX,
                                                 .deployments = UINT32_MAX,
                                                 .errors = 1};

/* --- kept --- */

static int take(struct as_desired *d, uint64_t generation, struct as_str text, struct as_buf *err)
{
    struct as_spec *s;
    int rc = as_spec_parse(&s, &as_desired_limits, AS_STORE_FILE, text, err);

    if (rc < 0)
        return rc;
    as_spec_free(d->spec);
    d->spec = s;
    d->generation = generation;
    return 0;
}

/* The newest one. */
static int take_newest(struct as_desired *d, struct as_buf *err)
{
    struct as_store_entry e;
    int rc = as_store_get(d->store, 0, &e, err);

    return rc < 0 ? rc : take(d, e.generation, e.spec, err);
}

int as_desired_open(struct as_desired *d, const char *folder, uint32_t keep,
                    const struct as_log *log, struct as_buf *err)
{
    int rc;

    *d = (struct as_desired){.log = log, .folder = as_str_dup(as_str_of(folder)), .keep = keep};
    rc = as_store_open(&d->store, folder, keep, err);
    return rc < 0 ? rc : take_newest(d, err);
}

int as_desired_begin(struct as_desired *d, const char *folder, uint32_t keep, struct as_str initial,
                     const struct as_log *log, struct as_buf *err)
{
    struct as_buf file;
    bool stored;
    int rc = 0;

    *d = (struct as_desired){.log = log,
                             .folder = as_str_dup(as_str_of(folder)),
                             .keep = keep,
                             .initial = as_str_dup(initial)};
    as_buf_init(&file);
    as_buf_printf(&file, "%s/" AS_STORE_FILE, folder);
    as_buf_add(&file, "", 1);
    stored = access((const char *)file.p, F_OK) == 0;
    as_buf_fini(&file);
    if (stored)
        rc = as_store_open(&d->store, folder, keep, err);
    if (stored && rc == 0)
        rc = take_newest(d, err);
    if (stored && rc == 0)
        return 0;
    /* better what it was started with than nothing */
    as_store_close(d->store);
    d->store = NULL;
    if (take(d, 1, initial, err) < 0)
        return AS_EINVALID;
    return rc;
}

void as_desired_close(struct as_desired *d)
{
    as_store_close(d->store);
    as_spec_free(d->spec);
    free(d->folder);
    free(d->initial);
    *d = (struct as_desired){0};
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / (int64_t)AS_MS;
}

/* The first change of a server that `run` started: what it began with is generation 1. */
static int make_store(struct as_desired *d, struct as_buf *err)
{
    struct as_store_entry e = {
        .cause = AS_STR("run"), .spec = as_str_of(d->initial), .time_ms = now_ms()};
    uint64_t generation;
    int rc = as_store_open(&d->store, d->folder, d->keep, err);

    if (rc == 0)
        rc = as_store_put(d->store, &e, &generation, err);
    if (rc < 0) {
        as_store_close(d->store);
        d->store = NULL;
    }
    return rc;
}

int as_desired_put(struct as_desired *d, struct as_str cause, const struct as_store_failure *failed,
                   struct as_str text, struct as_buf *err)
{
    struct as_store_entry e = {.cause = cause, .spec = text, .time_ms = now_ms()};
    uint64_t generation = 0;
    int rc = d->store ? 0 : make_store(d, err);

    if (failed)
        e.failed = *failed;
    if (rc == 0)
        rc = as_store_put(d->store, &e, &generation, err);
    return rc < 0 ? rc : take(d, generation, text, err);
}

int as_desired_load(struct as_desired *d, uint64_t generation, struct as_spec **ret_s,
                    struct as_buf *err)
{
    struct as_store_entry e = {.generation = 1, .spec = as_str_of(d->initial ? d->initial : "")};
    int rc = 0;

    if (d->store)
        rc = as_store_get(d->store, generation ? generation : d->generation, &e, err);
    else if (generation > 1)
        rc = AS_ENOTFOUND;
    return rc < 0 ? rc : as_spec_parse(ret_s, &as_desired_limits, AS_STORE_FILE, e.spec, err);
}

/* --- other texts --- */

/* Only what was said: a default that is spelled out would take the place of a server's option. */
void as_desired_text(const struct as_spec *s, struct as_buf *text)
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

int as_desired_scaled(struct as_desired *d, struct as_str application, struct as_str deployment,
                      uint32_t replicas, struct as_buf *text, struct as_buf *err)
{
    struct as_spec_object *o;
    struct as_spec *s;
    int rc = as_desired_load(d, 0, &s, err);

    if (rc < 0)
        return rc;
    o = deployment_of(s, application, deployment, err);
    rc = o ? as_spec_set_int(o, AS_SPEC_DEPLOYMENT_NUM_REPLICAS, replicas) : AS_ENOTFOUND;
    if (rc == 0)
        as_desired_text(s, text);
    as_spec_free(s);
    return rc;
}

int as_desired_without(struct as_desired *d, struct as_str application, struct as_buf *text,
                       struct as_buf *err)
{
    struct as_spec *s;
    uint32_t before;
    int rc;

    if (!application.n) {
        as_buf_str(text, "{\"applications\": []}");
        return 0;
    }
    rc = as_desired_load(d, 0, &s, err);
    if (rc < 0)
        return rc;
    before = as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS);
    for (uint32_t i = before; i-- > 0;) {
        const struct as_spec_object *app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, i);

        if (as_str_eq(as_str_of(as_spec_str(app, AS_SPEC_APPLICATION_NAME)), application))
            as_spec_drop(s->file, AS_SPEC_FILE_APPLICATIONS, i);
    }
    if (as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS) < before) {
        as_desired_text(s, text);
    } else {
        as_buf_printf(err, "there is no application '%.*s'", AS_STR_FMT(application));
        rc = AS_ENOTFOUND;
    }
    as_spec_free(s);
    return rc;
}

/* Another object in the place of one that a list has. Only for what is printed next: it stays the
 * other spec's. */
static void swap(const struct as_spec_object *o, enum as_spec_key list,
                 const struct as_spec_object *old, struct as_spec_object *new)
{
    const struct as_spec_value *v = as_spec_value(o, list);

    for (uint32_t i = 0; i < v->n; i++) {
        if (v->objects[i] == old)
            v->objects[i] = new;
    }
}

/* `app` of s goes back to what `then` has, with the numbers of replicas of now. */
static void swap_application(struct as_spec *s, const struct as_spec_object *app,
                             struct as_spec_object *then)
{
    for (uint32_t i = 0; i < as_spec_count(then, AS_SPEC_APPLICATION_DEPLOYMENTS); i++) {
        struct as_spec_object *d = as_spec_object(then, AS_SPEC_APPLICATION_DEPLOYMENTS, i);
        const char *name = as_spec_str(d, AS_SPEC_DEPLOYMENT_NAME);
        const struct as_spec_object *now =
            as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS, as_str_of(name));

        if (now)
            as_spec_set_int(d, AS_SPEC_DEPLOYMENT_NUM_REPLICAS,
                            as_spec_i64(now, AS_SPEC_DEPLOYMENT_NUM_REPLICAS));
    }
    swap(s->file, AS_SPEC_FILE_APPLICATIONS, app, then);
}

int as_desired_back(struct as_desired *d, struct as_str application, struct as_str deployment,
                    uint64_t generation, uint32_t replicas, struct as_buf *text, struct as_buf *err)
{
    struct as_spec_object *now, *then, *app, *app_then;
    struct as_spec *s = NULL, *old = NULL;
    int rc = as_desired_load(d, 0, &s, err);

    if (rc == 0)
        rc = as_desired_load(d, generation, &old, err);
    now = rc == 0 ? deployment_of(s, application, deployment, err) : NULL;
    then = now ? deployment_of(old, application, deployment, err) : NULL;
    if (then) {
        app = application_of(s, application, err);
        app_then = application_of(old, application, err);
        if (as_spec_compare(app, now, app_then, now, NULL) == AS_SPEC_SAME)
            swap(app, AS_SPEC_APPLICATION_DEPLOYMENTS, now, then);
        else
            swap_application(s, app, app_then);
        as_spec_set_int(then, AS_SPEC_DEPLOYMENT_NUM_REPLICAS, replicas);
        as_desired_text(s, text);
    } else if (rc == 0) {
        rc = AS_ENOTFOUND;
    }
    as_spec_free(s);
    as_spec_free(old);
    return rc;
}
