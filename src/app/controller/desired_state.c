#include "app/controller/desired_state.h"

#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/spec_diff.h"
#include "io/loop/clock.h"
#include "io/process/runtime.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const struct as_spec_limits as_desired_state_limits = {.bytes = AS_STORE_SPEC_MAX,
                                                       .depth = 1000,
                                                       .applications = UINT32_MAX,
                                                       .deployments = UINT32_MAX,
                                                       .errors = 1,
                                                       .stored = true};

/* --- numbers of replicas set by `scale` --- */

static void free_scales(struct as_desired_state_scales *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        free((char *)(uintptr_t)s->all[i].deployment.p);
    free(s->all);
}

static void add_scale(void *scales, const struct as_store_scale *scale)
{
    struct as_desired_state_scales *s = scales;

    s->all = as_xrealloc(s->all, (s->n + 1) * sizeof(*s->all));
    s->all[s->n++] = (struct as_store_scale){{as_str_dup(scale->deployment), scale->deployment.n},
                                             scale->replicas};
}

/* Earlier versions have stored names in place of ids: they were unique in a file. */
static struct as_str full_id(const struct as_spec *s, struct as_str stored, struct as_id *id)
{
    struct as_spec_walk w;

    return !as_id_is_full(stored) && as_spec_find_deployment(s->file, stored, &w)
               ? as_spec_id(w.app, w.deployment, id)
               : stored;
}

static void qualify_scales(struct as_desired_state_scales *s, const struct as_spec *file)
{
    struct as_id id;

    for (uint32_t i = 0; i < s->n; i++) {
        struct as_str *own = &s->all[i].deployment, full = full_id(file, *own, &id);
        char *old = (char *)(uintptr_t)own->p;

        if (full.p == own->p)
            continue;
        *own = (struct as_str){as_str_dup(full), full.n};
        free(old);
    }
}

/* The deployment's num_replicas in the file; -1: there is no such deployment, or the number follows
 * the load. */
static int64_t declared_replicas(const struct as_spec *s, struct as_str deployment)
{
    struct as_spec_walk w;

    return as_spec_find_deployment(s->file, deployment, &w) &&
                   !as_spec_autoscale(w.deployment, NULL)
               ? as_spec_i64(w.deployment, AS_SPEC_DEPLOYMENT_NUM_REPLICAS)
               : -1;
}

/* The numbers that stay valid with the file `to`, and the one that the change sets. A number equal
 * to num_replicas of the file is dropped. */
static struct as_desired_state_scales updated_scales(const struct as_desired_state *d,
                                                     const struct as_spec *to,
                                                     const struct as_desired_state_change *change)
{
    struct as_desired_state_scales s = {0};

    for (uint32_t i = 0; i < d->scales.n; i++) {
        const struct as_store_scale *scale = &d->scales.all[i];
        int64_t number = declared_replicas(to, scale->deployment);

        if (number >= 0 && number == declared_replicas(d->spec, scale->deployment) &&
            !as_str_eq(scale->deployment, change->deployment))
            add_scale(&s, scale);
    }
    if (change->deployment.n && change->replicas != AS_DESIRED_STATE_UNSCALED &&
        change->replicas != declared_replicas(to, change->deployment))
        add_scale(&s, &(struct as_store_scale){change->deployment, (uint32_t)change->replicas});
    return s;
}

static int64_t find_scale(const struct as_desired_state_scales *s, struct as_str deployment)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct as_str own = s->all[i].deployment;

        if (as_str_eq(own, as_id_is_full(own) ? deployment : as_id_name(deployment)))
            return s->all[i].replicas;
    }
    return AS_DESIRED_STATE_UNSCALED;
}

static int load_scales(struct as_desired_state *d, uint64_t generation,
                       struct as_desired_state_scales *ret_s, struct as_buf *err)
{
    *ret_s = (struct as_desired_state_scales){0};
    return d->store ? as_store_each_scale(d->store, generation, add_scale, ret_s, err) : 0;
}

int64_t as_desired_state_scale_of(struct as_desired_state *d, uint64_t generation,
                                  struct as_str deployment)
{
    struct as_desired_state_scales s;
    struct as_buf none = {0};
    int64_t n;

    if (generation == 0 || generation == d->generation)
        return find_scale(&d->scales, deployment);
    load_scales(d, generation, &s, &none);
    as_buf_fini(&none);
    n = find_scale(&s, deployment);
    free_scales(&s);
    return n;
}

/* --- models --- */

static void collect_model(void *arg, const struct as_store_model *m)
{
    as_declared_add_model(arg, m->deployment, m->name, m->frame);
}

/* s: the file of that generation. */
static int load_models(struct as_desired_state *d, uint64_t generation, const struct as_spec *s,
                       struct as_declared *models, struct as_buf *err)
{
    int rc = 0;

    if (generation == d->generation)
        as_declared_copy_all_models(models, &d->models);
    else if (d->store)
        rc = as_store_each_model(d->store, generation, collect_model, models, err);
    for (uint32_t i = 0; i < models->n; i++) {
        char *own = models->deployments[i].name;
        struct as_id id;
        struct as_str full = full_id(s, as_str_of(own), &id);

        if (full.p == own)
            continue;
        models->deployments[i].name = as_str_dup(full);
        free(own);
    }
    return rc;
}

/* Those of the deployments in `to`. */
static void update_models(const struct as_declared *from, const struct as_spec *to,
                          struct as_declared *ret_models)
{
    *ret_models = (struct as_declared){0};
    for (struct as_spec_walk w = {0}; as_spec_next(to->file, &w);) {
        struct as_id id;
        const struct as_declared_deployment *d =
            as_declared_find(from, as_spec_id(w.app, w.deployment, &id));

        if (d)
            as_declared_copy_models(ret_models, d);
    }
}

static bool is_of(const struct as_declared_deployment *d, struct as_str application)
{
    return as_str_eq(as_id_application(as_str_of(d->name)), application);
}

int as_desired_state_models_with(struct as_desired_state *d, uint64_t generation,
                                 struct as_str application, struct as_declared *models,
                                 struct as_buf *err)
{
    struct as_declared then = {0};
    struct as_spec *s = NULL;
    int rc = as_desired_state_load(d, generation, &s, err);

    if (rc == 0)
        rc = load_models(d, generation, s, &then, err);
    for (uint32_t i = 0; rc == 0 && i < then.n; i++) {
        if (is_of(&then.deployments[i], application))
            as_declared_copy_models(models, &then.deployments[i]);
    }
    for (uint32_t i = 0; rc == 0 && i < d->models.n; i++) {
        if (!is_of(&d->models.deployments[i], application))
            as_declared_copy_models(models, &d->models.deployments[i]);
    }
    as_declared_fini(&then);
    as_spec_free(s);
    return rc;
}

/* --- generations --- */

/* Makes this generation the newest; takes over s, scales and models. */
static void set_newest(struct as_desired_state *d, uint64_t generation, struct as_spec *s,
                       struct as_desired_state_scales scales, const struct as_declared *models)
{
    as_spec_free(d->spec);
    free_scales(&d->scales);
    d->spec = s;
    d->scales = scales;
    as_declared_fini(&d->models);
    d->models = *models;
    d->generation = generation;
}

/* Loads the newest generation from the store. */
static int load_newest(struct as_desired_state *d, struct as_buf *err)
{
    struct as_store_entry e;
    struct as_desired_state_scales scales;
    struct as_declared models = {0};
    struct as_spec *s = NULL;
    int rc = as_store_get(d->store, 0, &e, err);

    if (rc == 0)
        rc = as_spec_parse(&s, &as_desired_state_limits, AS_STORE_FILE, e.spec, err);
    if (rc < 0)
        return rc;
    AS_ASSERT(s);
    rc = load_scales(d, e.generation, &scales, err);
    qualify_scales(&scales, s);
    if (rc == 0)
        rc = load_models(d, e.generation, s, &models, err);
    if (rc < 0) {
        as_spec_free(s);
        free_scales(&scales);
        as_declared_fini(&models);
        return rc;
    }
    set_newest(d, e.generation, s, scales, &models);
    return 0;
}

int as_desired_state_open(struct as_desired_state *d, const char *folder, uint32_t keep,
                          const struct as_log *log, struct as_buf *err)
{
    int rc;

    *d = (struct as_desired_state){
        .log = log, .folder = as_str_dup(as_str_of(folder)), .keep = keep};
    rc = as_store_open(&d->store, folder, keep, err);
    return rc < 0 ? rc : load_newest(d, err);
}

int as_desired_state_open_initial(struct as_desired_state *d, const char *folder, uint32_t keep,
                                  struct as_str initial, const struct as_declared *code,
                                  const struct as_log *log, struct as_buf *err)
{
    struct as_declared models = {0};
    char *file = as_str_format("%s/" AS_STORE_FILE, folder);
    bool stored = access(file, F_OK) == 0;
    struct as_spec *s;
    int rc = 0;

    *d = (struct as_desired_state){.log = log,
                                   .folder = as_str_dup(as_str_of(folder)),
                                   .keep = keep,
                                   .initial = as_str_dup(initial)};
    free(file);
    if (stored)
        rc = as_store_open(&d->store, folder, keep, err);
    if (stored && rc == 0)
        rc = load_newest(d, err);
    if (stored && rc == 0)
        return 0;
    /* a store that cannot be read: serve what the server was started with */
    as_store_close(d->store);
    d->store = NULL;
    if (as_spec_parse(&s, &as_desired_state_limits, AS_STORE_FILE, initial, err) < 0)
        return AS_EINVALID;
    as_declared_copy_models_of(&models, AS_STR(AS_ID_DEFAULT), code);
    set_newest(d, 1, s, (struct as_desired_state_scales){0}, &models);
    return rc;
}

static int read_entry(void *arg AS_UNUSED, const struct as_store_entry *e, struct as_buf *err)
{
    struct as_spec *s;
    int rc = as_spec_parse(&s, &as_desired_state_limits, AS_STORE_FILE, e->spec, err);

    if (rc == 0)
        as_spec_free(s);
    return rc;
}

int as_desired_state_probe(const char *folder, struct as_buf *err)
{
    return as_store_probe(folder, read_entry, NULL, err);
}

void as_desired_state_close(struct as_desired_state *d)
{
    as_store_close(d->store);
    as_spec_free(d->spec);
    free_scales(&d->scales);
    as_declared_fini(&d->models);
    free(d->folder);
    free(d->initial);
    *d = (struct as_desired_state){0};
}

/* --- the changes of a generation --- */

struct changes {
    struct as_store_change *all; /* owns the texts of `keys` */
    uint32_t n;
};

static void add_change(struct changes *c, const char *application, const char *deployment,
                       const char *step, const char *keys)
{
    c->all = as_xrealloc(c->all, (c->n + 1) * sizeof(*c->all));
    c->all[c->n++] = (struct as_store_change){.application = as_str_of(application),
                                              .deployment = as_str_of(deployment),
                                              .step = as_str_of(step),
                                              .keys = as_str_of(as_str_dup(as_str_of(keys)))};
}

static void free_changes(struct changes *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        free((char *)(uintptr_t)c->all[i].keys.p);
    free(c->all);
}

static void add_spec_change(void *ctx, const struct as_spec_change *c)
{
    if (c->step != AS_SPEC_UNCHANGED)
        add_change(ctx, c->application, c->deployment, as_spec_step_name(c->step), c->keys);
}

/* For a change of the number of replicas alone: the texts are the same. */
static void add_scale_change(const struct as_desired_state *d,
                             const struct as_desired_state_change *change, struct changes *c)
{
    struct as_spec_walk w;
    char number[24];

    if (!as_spec_find_deployment(d->spec->file, change->deployment, &w))
        return;
    snprintf(number, sizeof(number), "%lld", (long long)change->replicas);
    add_change(c, as_spec_str(w.app, AS_SPEC_APPLICATION_NAME),
               as_spec_str(w.deployment, AS_SPEC_DEPLOYMENT_NAME), "scaled",
               change->replicas == AS_DESIRED_STATE_UNSCALED ? "reset" : number);
}

int64_t as_desired_state_start_time(const struct as_desired_state *d)
{
    struct stat st = {0};
    char *path = as_str_format("%s/" AS_RUNTIME_TOKEN, d->folder);
    int rc = stat(path, &st);

    free(path);
    return (int64_t)((rc ? as_clock_read(CLOCK_REALTIME) : as_timespec_ns(&st.st_mtim)) / AS_MS);
}

/* The rows of scales and models of the deployments in `s`, which point into `from`; the caller
 * frees them. An earlier version reads names only. */
static struct as_store_scale *scale_rows(const struct as_desired_state_scales *from,
                                         const struct as_spec *s)
{
    struct as_store_scale *rows = as_xalloc((from->n + 1) * sizeof(*rows));

    for (uint32_t i = 0; i < from->n; i++)
        rows[i] = (struct as_store_scale){as_spec_plain_id(s->file, from->all[i].deployment),
                                          from->all[i].replicas};
    return rows;
}

static struct as_store_model *model_rows(const struct as_declared *from, const struct as_spec *s,
                                         uint32_t *ret_n)
{
    struct as_store_model *rows = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < from->n; i++) {
        const struct as_declared_deployment *d = &from->deployments[i];

        rows = as_xrealloc(rows, (n + d->n_models + 1) * sizeof(*rows));
        for (uint32_t k = 0; k < d->n_models; k++)
            rows[n++] = (struct as_store_model){as_spec_plain_id(s->file, as_str_of(d->name)),
                                                as_str_of(d->models[k].name),
                                                as_buf_slice(&d->models[k].frame)};
    }
    *ret_n = n;
    return rows;
}

/* For the first change of a server of `run`: stores generation 1, with which it began. */
static int create_store(struct as_desired_state *d, struct as_buf *err)
{
    struct as_store_entry e = {.cause = AS_STR("run"),
                               .spec = as_str_of(d->initial),
                               .time_ms = as_desired_state_start_time(d)};
    struct changes changes = {0};
    struct as_store_model *models = model_rows(&d->models, d->spec, &e.n_models);
    uint64_t generation;
    int rc = as_store_open(&d->store, d->folder, d->keep, err);

    as_spec_diff(NULL, d->spec, add_spec_change, &changes);
    e.changes = changes.all;
    e.n_changes = changes.n;
    e.models = models;
    if (rc == 0)
        rc = as_store_put(d->store, &e, &generation, err);
    free_changes(&changes);
    free(models);
    if (rc < 0) {
        as_store_close(d->store);
        d->store = NULL;
    }
    return rc;
}

static int store_generation(struct as_desired_state *d,
                            const struct as_desired_state_change *change, struct as_str text,
                            const struct as_spec *to, const struct as_desired_state_scales *scales,
                            const struct as_declared *models, uint64_t *ret_generation,
                            struct as_buf *err)
{
    struct changes changes = {0};
    struct as_store_entry e = {.cause = change->cause,
                               .spec = text,
                               .time_ms = (int64_t)(as_clock_read(CLOCK_REALTIME) / AS_MS),
                               .n_scales = scales->n};
    struct as_store_scale *numbers = scale_rows(scales, to);
    struct as_store_model *rows = model_rows(models, to, &e.n_models);
    int rc = d->store ? 0 : create_store(d, err);

    if (change->failed)
        e.failed = *change->failed;
    as_spec_diff(d->spec, to, add_spec_change, &changes);
    if (!changes.n && d->spec && change->deployment.n && !change->failed)
        add_scale_change(d, change, &changes);
    e.changes = changes.all;
    e.n_changes = changes.n;
    e.models = rows;
    e.scales = numbers;
    if (rc == 0)
        rc = as_store_put(d->store, &e, ret_generation, err);
    free_changes(&changes);
    free(numbers);
    free(rows);
    return rc;
}

int as_desired_state_add(struct as_desired_state *d, const struct as_desired_state_change *change,
                         struct as_str text, struct as_buf *err)
{
    struct as_desired_state_scales scales;
    struct as_declared models;
    uint64_t generation = 0;
    struct as_spec *s;
    int rc = as_spec_parse(&s, &as_desired_state_limits, AS_STORE_FILE, text, err);

    if (rc < 0)
        return rc;
    scales = updated_scales(d, s, change);
    update_models(change->models ? change->models : &d->models, s, &models);
    rc = store_generation(d, change, text, s, &scales, &models, &generation, err);
    if (rc == 0) {
        set_newest(d, generation, s, scales, &models);
    } else {
        as_spec_free(s);
        free_scales(&scales);
        as_declared_fini(&models);
    }
    return rc;
}

int as_desired_state_load(struct as_desired_state *d, uint64_t generation, struct as_spec **ret_s,
                          struct as_buf *err)
{
    struct as_store_entry e = {.generation = 1, .spec = as_str_of(d->initial ? d->initial : "")};
    int rc = 0;

    if (d->store)
        rc = as_store_get(d->store, generation ? generation : d->generation, &e, err);
    else if (generation > 1)
        rc = AS_ENOTFOUND;
    return rc < 0 ? rc : as_spec_parse(ret_s, &as_desired_state_limits, AS_STORE_FILE, e.spec, err);
}
