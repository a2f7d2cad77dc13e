#include "app/controller/deploy_job.h"

#include "conf/spec/spec_diff.h"
#include "ctl/state/code_store.h"
#include "ctl/state/pickle_store.h"
#include "ctl/worker/worker_spec.h"
#include "edge/admin/control.h"
#include "wire/json/json.h"

#include <stdlib.h>
#include <unistd.h>

#define ERRORS_MAX 10u /* errors that are reported of a whole spec */

struct as_deploy_job_description {
    char *name, *key; /* the application's name; key_of when it was described */
    struct as_declared app;
};

struct as_deploy_job {
    struct as_deploy_job_conf conf;
    struct as_deploy_job_cache *cache;
    struct as_spec *spec;
    uint32_t next;     /* index of the application that is processed */
    bool is_whole;     /* a file, not one application */
    bool is_described; /* its code was described in this job */
    struct as_describe_job *describer;
    struct as_deploy_job **self;
    as_deploy_job_done_fn *done;
    void *ctx;
};

/* --- the cache of descriptions --- */

static void free_description(struct as_deploy_job_description *k)
{
    free(k->name);
    free(k->key);
    as_declared_fini(&k->app);
}

void as_deploy_job_cache_fini(struct as_deploy_job_cache *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        free_description(&m->descriptions[i]);
    free(m->descriptions);
    *m = (struct as_deploy_job_cache){0};
}

void as_deploy_job_copy_models(const struct as_deploy_job_cache *m, const char *application,
                               struct as_declared *models)
{
    for (uint32_t i = 0; i < m->n; i++) {
        if (!application || strcmp(m->descriptions[i].name, application) == 0)
            as_declared_copy_models_of(models, as_str_of(m->descriptions[i].name),
                                       &m->descriptions[i].app);
    }
}

/* With its length, since the word may contain any character. */
static void put_word(struct as_buf *b, const char *word)
{
    as_buf_printf(b, "%zu:%s", word ? strlen(word) : 0, word ? word : "");
}

/* All that the description of an application's code depends on: with another key, it may be another
 * one. Files that are used in place (`code: live`) change with `version`; a copy has its own name.
 */
static char *key_of(const struct as_spec_object *app)
{
    struct as_buf b = {0};

    put_word(&b, as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH));
    put_word(&b, as_spec_str(app, AS_SPEC_APPLICATION_WORKING_DIR));
    put_word(&b, as_spec_str(app, AS_SPEC_APPLICATION_CODE));
    put_word(&b, as_spec_str(app, AS_SPEC_APPLICATION_PYTHON));
    put_word(&b, as_spec_str(app, AS_SPEC_APPLICATION_ARGS));
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_GRPC_SERVICERS); i++)
        put_word(&b, as_spec_text(app, AS_SPEC_APPLICATION_GRPC_SERVICERS, i));
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_ENV); i++)
        put_word(&b, as_spec_text(app, AS_SPEC_APPLICATION_ENV, i));
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS); i++) {
        const struct as_spec_object *d = as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i);

        put_word(&b, as_spec_str(d, AS_SPEC_DEPLOYMENT_NAME));
        put_word(&b, as_spec_str(d, AS_SPEC_DEPLOYMENT_VERSION));
    }
    return as_buf_cstr(&b);
}

static struct as_deploy_job_description *find_description(const struct as_deploy_job_cache *m,
                                                          const char *name)
{
    for (uint32_t i = 0; i < m->n; i++) {
        if (strcmp(m->descriptions[i].name, name) == 0)
            return &m->descriptions[i];
    }
    return NULL;
}

static void cache_description(struct as_deploy_job_cache *m, const struct as_spec_object *app,
                              struct as_declared *code)
{
    const char *name = as_spec_str(app, AS_SPEC_APPLICATION_NAME);
    struct as_deploy_job_description *k = find_description(m, name);

    if (k) {
        free(k->key);
        as_declared_fini(&k->app);
    } else {
        m->descriptions = as_xrealloc(m->descriptions, (m->n + 1) * sizeof(*m->descriptions));
        k = &m->descriptions[m->n++];
        k->name = as_str_dup(as_str_of(name));
    }
    k->key = key_of(app);
    k->app = *code;
}

void as_deploy_job_cache_keep(struct as_deploy_job_cache *m, const struct as_spec *s)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < m->n; i++) {
        if (as_spec_find(s->file, AS_SPEC_FILE_APPLICATIONS, as_str_of(m->descriptions[i].name)))
            m->descriptions[kept++] = m->descriptions[i];
        else
            free_description(&m->descriptions[i]);
    }
    m->n = kept;
}

/* --- the job --- */

static void free_job(struct as_deploy_job *j)
{
    as_spec_free(j->spec);
    free(j);
}

static void finish_job(struct as_deploy_job *j, int err, struct as_str why)
{
    struct as_spec *s = err ? NULL : j->spec;

    if (s && j->is_whole)
        as_deploy_job_cache_keep(j->cache, s);
    if (s)
        j->spec = NULL;
    *j->self = NULL;
    j->done(j->ctx, err, s, why);
    free_job(j);
}

int as_deploy_job_check(const struct as_spec *s, struct as_buf *err)
{
    int rc = as_spec_check_whole(s, ERRORS_MAX, err);
    size_t before = err->n;
    char cwd[4096];

    for (struct as_spec_walk w = {0}; as_spec_next(s->file, &w);) {
        const struct as_spec_object *d = w.deployment;
        size_t n = as_worker_spec_own_size(w.app, d, getcwd(cwd, sizeof(cwd)) ? cwd : "");

        if (n > AS_WORKER_SPEC_OWN_MAX)
            as_buf_printf(err,
                          "%s:%u:%u: deployment '%s': its command, working_dir and env have "
                          "%zu bytes; at most %u\n",
                          s->name, d->line, d->column, as_spec_str(d, AS_SPEC_DEPLOYMENT_NAME), n,
                          AS_WORKER_SPEC_OWN_MAX);
    }
    return err->n > before ? AS_EINVALID : rc;
}

char *as_deploy_job_set_code_folder(struct as_deploy_job_conf *conf,
                                    const struct as_option_set *opts, const char *folder)
{
    char *path = as_str_format("%s/" AS_CODE_STORE_FOLDER, folder);

    conf->code = path;
    conf->max_code_bytes = as_option_u64(opts, AS_OPT_MAX_CODE_BYTES);
    conf->max_code_files = (uint32_t)as_option_u64(opts, AS_OPT_MAX_CODE_FILES);
    return path;
}

static const char **texts_of(const struct as_spec_object *app, enum as_spec_key key)
{
    uint32_t n = as_spec_count(app, key);
    const char **all = as_xalloc((n + 3) * sizeof(*all)); /* and two more, see put_args */

    for (uint32_t i = 0; i < n; i++)
        all[i] = as_spec_text(app, key, i);
    return all;
}

/* The arguments of a function that builds the application, and its gRPC services, in the
 * environment of what describes it. */
static void put_args(struct as_deploy_job_source *w, const struct as_spec_object *app)
{
    const char *args = as_spec_str(app, AS_SPEC_APPLICATION_ARGS);
    uint32_t n = as_spec_count(app, AS_SPEC_APPLICATION_ENV);

    w->servicers = as_worker_spec_servicers(app);
    if (w->servicers)
        w->where.env[n++] = w->servicers;
    if (!args)
        return;
    w->args = as_str_format(AS_WORKER_SPEC_ARGS "=%s", args);
    w->where.env[n] = w->args;
}

static bool is_live(const struct as_spec_object *app)
{
    const char *code = as_spec_str(app, AS_SPEC_APPLICATION_CODE);

    return code && strcmp(code, "live") == 0;
}

int as_deploy_job_source(struct as_deploy_job_source *ret_w, const struct as_deploy_job_conf *conf,
                         const struct as_spec_object *app, const char *known, struct as_buf *err)
{
    const char *code = as_spec_str(app, AS_SPEC_APPLICATION_CODE),
               *python = as_spec_str(app, AS_SPEC_APPLICATION_PYTHON);
    int rc = 0;

    *ret_w = (struct as_deploy_job_source){
        .where = {.python = python ? python : conf->python,
                  .target = as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH),
                  .application = as_spec_str(app, AS_SPEC_APPLICATION_NAME),
                  .dir = as_spec_str(app, AS_SPEC_APPLICATION_WORKING_DIR),
                  .env = texts_of(app, AS_SPEC_APPLICATION_ENV),
                  .timeout = conf->timeout},
        .code = {.store = conf->code,
                 .copy = as_code_store_is_copy(code) ? code : NULL,
                 .pickle = as_pickle_store_is_pickle(code) ? code : NULL,
                 .folder = as_spec_is_set(app, AS_SPEC_APPLICATION_WORKING_DIR),
                 .exclude = texts_of(app, AS_SPEC_APPLICATION_CODE_EXCLUDE),
                 .known = known,
                 .max_bytes = conf->max_code_bytes,
                 .max_files = conf->max_code_files}};
    put_args(ret_w, app);
    if (is_live(app))
        return 0;
    ret_w->where.code = &ret_w->code;
    if (ret_w->code.copy)
        rc = as_code_store_check(conf->code, code, err);
    else if (strlen(conf->code) > AS_CODE_STORE_PATH_MAX)
        rc = AS_EINVALID;
    else if (ret_w->code.pickle)
        rc = as_pickle_store_check(conf->code, code, err);
    if (rc == AS_EINVALID)
        as_buf_printf(err,
                      "the path of the folder for copies of code has %zu bytes, at most %u are "
                      "possible: %s; choose another --state-dir, or use the files in place with "
                      "`code: live`",
                      strlen(conf->code), AS_CODE_STORE_PATH_MAX, conf->code);
    return rc < 0 ? AS_EINVALID : 0;
}

void as_deploy_job_source_fini(struct as_deploy_job_source *w)
{
    free(w->where.env);
    free(w->code.exclude);
    free(w->args);
    free(w->servicers);
    *w = (struct as_deploy_job_source){0};
}

static struct as_spec_object *application(const struct as_deploy_job *j)
{
    return as_spec_object(j->spec->file, AS_SPEC_FILE_APPLICATIONS, j->next);
}

/* The cached description of the current application, if its key is the same, or NULL. */
static const struct as_deploy_job_description *
find_current_description(const struct as_deploy_job *j)
{
    const struct as_spec_object *app = application(j);
    const struct as_deploy_job_description *k =
        find_description(j->cache, as_spec_str(app, AS_SPEC_APPLICATION_NAME));
    char *key = key_of(app);
    bool same = k && strcmp(k->key, key) == 0;

    free(key);
    return same ? k : NULL;
}

static void process_next(struct as_deploy_job *j);

static void fail(struct as_deploy_job *j, struct as_str why)
{
    const struct as_spec_object *app = application(j);
    struct as_buf b = {0};

    as_buf_printf(&b, "%s:%u:%u: import_path: application '%s' cannot be loaded\n%.*s",
                  j->spec->name, app->line, app->column, as_spec_str(app, AS_SPEC_APPLICATION_NAME),
                  AS_STR_FMT(why));
    finish_job(j, AS_EINVALID, as_buf_slice(&b));
    as_buf_fini(&b);
}

static void on_described(void *ctx, const struct as_describe_end *end)
{
    struct as_declared *code = end->app;
    struct as_deploy_job *j = ctx;

    j->describer = NULL;
    if (!code) {
        fail(j, end->why);
        return;
    }
    j->is_described = true;
    if (code->n)
        cache_description(j->cache, application(j), code);
    else
        as_declared_fini(code); /* empty: the code is the copy whose description is cached */
    if (!find_current_description(j))
        fail(j, AS_STR("the code declares no model"));
    else
        process_next(j);
}

/* Starts to describe the code of the current application; a failure ends the job. */
static void describe_next(struct as_deploy_job *j)
{
    const struct as_deploy_job_description *k = find_current_description(j);
    struct as_deploy_job_source w;
    struct as_buf err = {0};
    int rc;

    rc = as_deploy_job_source(&w, &j->conf, application(j), k ? k->app.code : NULL, &err);
    if (rc == 0)
        rc = as_describe_start(&j->describer, j->conf.loop, &w.where, on_described, j, &err);
    as_deploy_job_source_fini(&w);
    if (rc < 0)
        fail(j, as_buf_slice(&err));
    as_buf_fini(&err);
}

/* Whether `code` names a copy or pickled code that is there. */
static bool is_stored(const struct as_deploy_job *j, const char *code)
{
    struct as_buf none = {0};
    bool has = false;

    if (as_code_store_is_copy(code))
        has = as_code_store_check(j->conf.code, code, &none) == 0;
    else if (as_pickle_store_is_pickle(code))
        has = as_pickle_store_check(j->conf.code, code, &none) == 0;
    as_buf_fini(&none);
    return has;
}

/* The cached description is valid. It is not for files that will be copied, since they may have
 * changed, nor for a named copy that does not exist any more: describing it gives the error. */
static bool is_description_valid(const struct as_deploy_job *j)
{
    const char *code = as_spec_str(application(j), AS_SPEC_APPLICATION_CODE);
    bool same = j->is_described || is_live(application(j)) || is_stored(j, code);

    return same && find_current_description(j);
}

/* Adds what the code declares to the current application. *ret_described false: the code must be
 * described first. */
static int overlay_application(struct as_deploy_job *j, bool *ret_described, struct as_buf *err)
{
    struct as_spec_object *app = application(j);

    *ret_described = true;
    if (!as_spec_is_set(app, AS_SPEC_APPLICATION_IMPORT_PATH))
        return as_spec_overlay(j->spec, app, NULL, &j->conf.limits, err);
    *ret_described = is_description_valid(j);
    return *ret_described ? as_spec_overlay(j->spec, app, &find_current_description(j)->app,
                                            &j->conf.limits, err)
                          : 0;
}

static void process_next(struct as_deploy_job *j)
{
    struct as_buf err = {0};
    bool described = true;
    int rc = 0;

    while (rc == 0 && j->next < as_spec_count(j->spec->file, AS_SPEC_FILE_APPLICATIONS)) {
        rc = overlay_application(j, &described, &err);
        if (!described)
            break;
        j->next++;
        j->is_described = false;
    }
    if (rc == 0 && described && j->is_whole)
        rc = as_deploy_job_check(j->spec, &err);
    if (rc < 0 || described)
        finish_job(j, rc, as_buf_slice(&err));
    else
        describe_next(j);
    as_buf_fini(&err);
}

void as_deploy_job_start(struct as_deploy_job **ret_job, const struct as_deploy_job_conf *conf,
                         struct as_deploy_job_cache *cache, const char *application,
                         struct as_str text, as_deploy_job_done_fn *done, void *ctx)
{
    struct as_deploy_job *j = as_xalloc(sizeof(*j));
    struct as_buf err = {0};
    int rc;

    j->conf = *conf;
    j->cache = cache;
    j->self = ret_job;
    j->done = done;
    j->ctx = ctx;
    j->is_whole = !application;
    *ret_job = j;
    rc = application ? as_spec_parse_application(&j->spec, &conf->limits, AS_CONTROL_FILE,
                                                 application, text, &err)
                     : as_spec_parse(&j->spec, &conf->limits, AS_CONTROL_FILE, text, &err);
    if (rc < 0)
        finish_job(j, rc, as_buf_slice(&err));
    else
        process_next(j);
    as_buf_fini(&err);
}

void as_deploy_job_stop(struct as_deploy_job *j)
{
    if (!j)
        return;
    as_describe_stop(j->describer);
    free_job(j);
}

/* --- differences between two specs --- */

struct changes {
    struct as_buf *json;
    uint32_t n;
};

static void put_change(void *ctx, const struct as_spec_change *c)
{
    struct changes *k = ctx;

    k->n += c->step != AS_SPEC_UNCHANGED;
    as_json_put_open(k->json, '{');
    as_json_put_member_text(k->json, "application", c->application);
    as_json_put_member_text(k->json, "deployment", c->deployment);
    as_json_put_member_text(k->json, "step", as_spec_step_name(c->step));
    as_json_put_member_text(k->json, "class",
                            c->step == AS_SPEC_CHANGED ? as_spec_class_name(c->cls) : "");
    as_json_put_member_text(k->json, "keys", c->keys);
    as_json_put_close(k->json, '}');
}

uint32_t as_deploy_job_write_changes(const struct as_spec *from, const struct as_spec *to,
                                     struct as_buf *json)
{
    struct changes k = {.json = json};

    as_json_put_member_open(json, "changes", '[');
    as_spec_diff(from, to, put_change, &k);
    as_json_put_close(json, ']');
    return k.n;
}
