#include "app/server/start.h"

#include "app/client/print.h"
#include "app/controller/deploy_job.h"
#include "app/controller/desired_state.h"
#include "app/options/argument.h"
#include "app/server/detach.h"
#include "app/server/run.h"
#include "conf/option/exit_code.h"
#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/keys/spec_capacity.h"
#include "conf/spec/spec_diff.h"
#include "ctl/state/state_dir.h"
#include "io/process/cgroup.h"
#include "io/process/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* Makes --state-dir absolute, for the controller. */
static int find_folder(struct as_option_set *opts, char **ret_folder, struct as_buf *err)
{
    char *folder = as_state_dir_path(as_option_str(opts, AS_OPT_STATE_DIR)), cwd[4096];

    if (!folder) {
        as_buf_str(err, "there is no home folder to store the state in; choose a --state-dir");
        return AS_EXIT_CODE_CONFIG;
    }
    *ret_folder = folder[0] != '/' && getcwd(cwd, sizeof(cwd)) ? as_str_format("%s/%s", cwd, folder)
                                                               : as_str_dup(as_str_of(folder));
    free(folder);
    as_option_set_str(opts, AS_OPT_STATE_DIR, *ret_folder);
    return AS_EXIT_CODE_OK;
}

/* --- the file --- */

static int describe_applications(struct as_spec *s, const struct as_deploy_job_conf *conf,
                                 int end_fd, struct as_declared *models, struct as_buf *err)
{
    int code = AS_EXIT_CODE_OK;

    for (uint32_t i = 0;
         code == AS_EXIT_CODE_OK && i < as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS); i++) {
        struct as_spec_object *app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, i);
        bool python_code = as_spec_is_set(app, AS_SPEC_APPLICATION_IMPORT_PATH);
        struct as_deploy_job_source w;
        struct as_declared code_says = {0};

        if (python_code) {
            code = as_deploy_job_source(&w, conf, app, NULL, err) < 0 ? AS_EXIT_CODE_CONFIG
                                                                      : AS_EXIT_CODE_OK;
            if (code == AS_EXIT_CODE_OK)
                code = as_describe_run(&code_says, &w.where, end_fd, err);
            as_deploy_job_source_fini(&w);
        }
        if (code == AS_EXIT_CODE_OK && python_code && !code_says.n) {
            as_buf_str(err, "the code declares no model");
            code = AS_EXIT_CODE_INTERPRETER;
        }
        if (code != AS_EXIT_CODE_OK)
            fprintf(stderr, "anyserve: %s:%u:%u: import_path: application '%s' cannot be loaded\n",
                    s->name, app->line, app->column, as_spec_str(app, AS_SPEC_APPLICATION_NAME));
        else if (as_spec_overlay(s, app, python_code ? &code_says : NULL, &conf->limits, err) < 0)
            code = AS_EXIT_CODE_CONFIG;
        as_declared_copy_models_of(models, as_str_of(as_spec_str(app, AS_SPEC_APPLICATION_NAME)),
                                   &code_says);
        as_declared_fini(&code_says);
    }
    if (code == AS_EXIT_CODE_OK && as_deploy_job_check(s, err) < 0)
        code = AS_EXIT_CODE_CONFIG;
    return code;
}

/* before: what it replaces, or NULL. */
static int load_file(const struct as_option_set *opts, const char *python, int end_fd,
                     const struct as_spec *before, struct as_buf *text, struct as_declared *models,
                     struct as_buf *err)
{
    struct as_deploy_job_conf conf = {.python = python,
                                      .timeout = as_option_ns(opts, AS_OPT_START_TIMEOUT)};
    struct as_spec *s;
    char *store;
    int code = as_argument_load_file(opts, &s, err);

    if (code != AS_EXIT_CODE_OK)
        return code;
    as_spec_limits_from_options(&conf.limits, opts);
    store = as_deploy_job_set_code_folder(&conf, opts, as_option_str(opts, AS_OPT_STATE_DIR));
    code = describe_applications(s, &conf, end_fd, models, err);
    free(store);
    if (code == AS_EXIT_CODE_OK) {
        as_spec_set_direction(s, before);
        as_desired_state_write(s, text);
    }
    as_spec_free(s);
    return code;
}

/* --- the store --- */

static void count_changed(void *ctx, const struct as_spec_change *c)
{
    *(uint32_t *)ctx += c->step != AS_SPEC_UNCHANGED;
}

/* The file is equal to the newest generation: restarting a service makes no new one. */
static bool is_stored(const struct as_desired_state *d, const struct as_buf *text)
{
    struct as_buf none = {0};
    struct as_spec *s;
    uint32_t n = 0;

    if (!d->spec)
        return false;
    if (as_spec_parse(&s, &as_desired_state_limits, "", as_buf_slice(text), &none) == 0) {
        n = !as_spec_same_capacity(d->spec, s);
        as_spec_diff(d->spec, s, count_changed, &n);
        as_spec_free(s);
    } else {
        n = 1;
    }
    as_buf_fini(&none);
    return n == 0;
}

/* Stores the file as a new generation if it differs. `text`: the whole file, or empty without one.
 */
static int store_file(struct as_desired_state *d, const char *file, struct as_buf *text,
                      const struct as_declared *models, struct as_buf *banner, struct as_buf *err)
{
    uint64_t before = d->generation;
    struct as_desired_state_change what = {.models = models};
    struct as_buf cause = {0};
    int rc;

    if (text->n ? is_stored(d, text) : d->spec != NULL) {
        as_buf_printf(banner, "generation %" PRIu64 "%s%s, as it is stored\n", d->generation,
                      file ? ", which is " : "", file ? file : "");
        return 0;
    }
    if (!text->n)
        as_buf_str(text, "{\"applications\": []}");
    as_buf_printf(&cause, "start %.900s", file ? file : "without anything");
    what.cause = as_buf_slice(&cause);
    rc = as_desired_state_add(d, &what, as_buf_slice(text), err);
    as_buf_fini(&cause);
    if (rc < 0)
        return rc;
    as_buf_printf(banner, "%s as generation %" PRIu64, file ? file : "nothing yet,", d->generation);
    if (before)
        as_buf_printf(banner, ", which replaces generation %" PRIu64, before);
    as_buf_str(banner, "\n");
    return 0;
}

/* With which it starts. */
static uint32_t replicas_of(struct as_desired_state *d, const struct as_spec_object *app,
                            const struct as_spec_object *o)
{
    struct as_capacity part = as_spec_capacity(d->spec->file, app, o);
    struct as_id id;
    int64_t n = as_desired_state_scale_of(d, 0, as_spec_id(app, o, &id));

    return as_capacity_replicas(&part,
                                n == AS_DESIRED_STATE_UNSCALED ? as_spec_replicas(o) : (uint32_t)n);
}

static void put_applications(struct as_desired_state *of, struct as_buf *banner)
{
    const struct as_spec *s = of->spec;

    as_buf_str(banner, "\n");
    for (uint32_t i = 0; i < as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS); i++) {
        const struct as_spec_object *app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, i);
        const char *route = as_spec_str(app, AS_SPEC_APPLICATION_ROUTE_PREFIX);

        as_buf_printf(banner, "  application %s:", as_spec_str(app, AS_SPEC_APPLICATION_NAME));
        for (uint32_t k = 0; k < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS); k++) {
            const struct as_spec_object *d =
                as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, k);

            as_buf_printf(banner, "%s %s × %u", k ? "," : "",
                          as_spec_str(d, AS_SPEC_DEPLOYMENT_NAME), replicas_of(of, app, d));
        }
        as_buf_printf(banner, "%s%s\n", route ? ", HTTP requests below " : "", route ? route : "");
    }
}

static int prepare(struct as_option_set *opts, const char *python, int end_fd, int *ret_hold,
                   struct as_buf *banner, struct as_buf *err)
{
    const char *file = opts->n_args ? opts->args[0] : NULL;
    const char *folder = as_option_str(opts, AS_OPT_STATE_DIR);
    struct as_desired_state d;
    struct as_declared models = {0};
    struct as_buf text = {0};
    int rc = as_state_dir_lock(folder, ret_hold, err), code = AS_EXIT_CODE_OK;

    if (rc < 0)
        return rc == AS_EEXISTS ? AS_EXIT_CODE_BUSY : AS_EXIT_CODE_CONFIG;
    rc = as_desired_state_open(&d, folder, (uint32_t)as_option_u64(opts, AS_OPT_STATE_GENERATIONS),
                               NULL, err);
    if (rc == AS_ENOTFOUND)
        err->n = 0; /* a new store */
    else if (rc < 0)
        code = rc == AS_EEXISTS ? AS_EXIT_CODE_BUSY : AS_EXIT_CODE_CONFIG;
    if (code == AS_EXIT_CODE_OK && file)
        code = load_file(opts, python, end_fd, d.spec, &text, &models, err);
    if (code == AS_EXIT_CODE_OK && store_file(&d, file, &text, &models, banner, err) < 0)
        code = AS_EXIT_CODE_FAILED;
    if (code == AS_EXIT_CODE_OK) {
        put_applications(&d, banner);
        as_buf_printf(banner, "  state       %s\n", folder);
    }
    as_desired_state_close(&d);
    as_declared_fini(&models);
    as_buf_fini(&text);
    return code;
}

/* Makes the parent of the runtime folder, which may not exist yet in a home folder. */
static int make_parent(const char *path, struct as_buf *err)
{
    const char *slash = strrchr(path, '/');
    char *parent = as_str_dup((struct as_str){path, slash ? (size_t)(slash - path) : 0});
    int rc = parent[0] && access(parent, F_OK) < 0 ? as_state_dir_make(parent, err) : 0;

    free(parent);
    return rc < 0 ? AS_EXIT_CODE_CONFIG : AS_EXIT_CODE_OK;
}

int as_start_main(struct as_option_set *opts)
{
    static const struct as_run_kind kind = {prepare};
    char *folder = NULL, *lasting_dir = NULL;
    struct as_buf err = {0};
    int code, e;

    code = opts->n_args ? as_argument_check_file("start", opts->args[0]) : AS_EXIT_CODE_OK;
    if (code != AS_EXIT_CODE_OK)
        return code;
    code = find_folder(opts, &folder, &err);
    if (code == AS_EXIT_CODE_OK && as_option_bool(opts, AS_OPT_DETACH)) {
        lasting_dir = as_runtime_persistent_base(as_option_str(opts, AS_OPT_RUNTIME_DIR));
        as_option_set_str(opts, AS_OPT_RUNTIME_DIR, lasting_dir);
        as_cgroup_delegate("", "memory", &e); /* before there are two processes */
        code = make_parent(lasting_dir, &err);
        if (code == AS_EXIT_CODE_OK)
            code = as_detach(folder, opts, &err);
    }
    as_print_error(&err, code);
    if (code == AS_EXIT_CODE_OK)
        code = as_run_server(opts, &kind);
    else if (code == AS_DETACHED)
        code = AS_EXIT_CODE_OK;
    free(folder);
    free(lasting_dir);
    return code;
}
