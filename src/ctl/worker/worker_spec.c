#include "ctl/worker/worker_spec.h"

#include "conf/spec/spec_spawn.h"
#include "ctl/message/message.h"
#include "ctl/message/spawn.h"
#include "ctl/state/code_store.h"
#include "ctl/state/pickle_store.h"
#include "io/process/runtime.h"

#include <inttypes.h>

/* Beside the deployment's own keys the text has: the path of python (at most 4,095 bytes) and less
 * than 2,000 bytes of other arguments; the context (8 KiB) and lists of devices (6 KB); the folder
 * of the copy of the code. */
static_assert(AS_WORKER_SPEC_OWN_MAX + 6100u + 14800u + AS_CODE_STORE_PATH_MAX + AS_CODE_STORE_HEX +
                      16u <
                  AS_CTL_TEXT_MAX,
              "a worker spec fits into one message");

static void put_pickle(const struct as_worker_spec_conf *conf, const char *code,
                       struct as_buf *text)
{
    struct as_buf item = {0};

    as_pickle_store_target(conf->code, code, &item);
    as_spawn_put(text, AS_SPAWN_ARG, "%s", (const char *)item.p);
    as_buf_fini(&item);
}

/* The process starts in the copy, from which its code is loaded, then changes to its working
 * directory, which need not be the folder that was copied. */
static void put_copy(const struct as_worker_spec_conf *conf, const struct as_spec_object *app,
                     const char *code, const char *target, const char *dir, struct as_buf *text)
{
    const char *base = dir && dir[0] == '/' ? "" : conf->cwd;
    struct as_buf item = {0};

    as_code_store_target(code, target, &item);
    as_spawn_put(text, AS_SPAWN_ARG, "%s", (const char *)item.p);
    as_spawn_put(text, AS_SPAWN_ARG, "--working-dir=%s%s%s", base, base[0] && dir ? "/" : "",
                 dir ? dir : "");
    item.n = 0;
    as_code_store_source(conf->cwd, as_spec_str(app, AS_SPEC_APPLICATION_WORKING_DIR), code, target,
                         &item);
    as_spawn_put(text, AS_SPAWN_ARG, "%s", (const char *)item.p);
    item.n = 0;
    as_code_store_path(conf->code, code, &item);
    as_spawn_put(text, AS_SPAWN_DIR, "%s", (const char *)item.p);
    as_buf_fini(&item);
}

static void put_python(const struct as_worker_spec_conf *conf, const struct as_spec_object *app,
                       const char *dir, const char *deployment, struct as_buf *text)
{
    const char *target = as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH),
               *code = as_spec_str(app, AS_SPEC_APPLICATION_CODE),
               *application = as_spec_str(app, AS_SPEC_APPLICATION_NAME),
               *python = as_spec_str(app, AS_SPEC_APPLICATION_PYTHON);

    as_spawn_put(text, AS_SPAWN_ARG, "%s", python ? python : conf->python);
    as_spawn_put(text, AS_SPAWN_ARG, "-m");
    as_spawn_put(text, AS_SPAWN_ARG, "anyserve.worker");
    if (as_code_store_is_copy(code)) {
        put_copy(conf, app, code, target, dir, text);
    } else {
        if (as_pickle_store_is_pickle(code))
            put_pickle(conf, code, text);
        else
            as_spawn_put(text, AS_SPAWN_ARG, "%s", target);
        if (dir)
            as_spawn_put(text, AS_SPAWN_DIR, "%s", dir);
    }
    /* one argument: the name may begin with '-' */
    as_spawn_put(text, AS_SPAWN_ARG, "--deployment=%s", deployment);
    if (strcmp(application, "default") != 0) /* the default of the worker program */
        as_spawn_put(text, AS_SPAWN_ARG, "--application=%s", application);
    as_spawn_put(text, AS_SPAWN_ARG, "--stream-inputs=%u", conf->stream_inputs);
    as_spawn_put(text, AS_SPAWN_ARG, "--stream-input-bytes=%" PRIu64, conf->stream_input_bytes);
    if (conf->debug_errors)
        as_spawn_put(text, AS_SPAWN_ARG, "--debug-errors");
}

/* In the environment, not in arguments: every user can read the command line of a process. The
 * worker removes the token from its environment before it serves. */
static void put_own_env(const struct as_worker_spec_conf *conf,
                        const struct as_worker_spec_replica *replica, struct as_buf *text)
{
    as_spawn_put(text, AS_SPAWN_ENV, "ANYSERVE_LINK=%s", conf->link);
    as_spawn_put(text, AS_SPAWN_OWN_ENV, "ANYSERVE_TOKEN=%s", replica->token);
    as_spawn_put(text, AS_SPAWN_OWN_ENV, "ANYSERVE_REPLICA=%s", replica->name);
    as_spawn_put(text, AS_SPAWN_OWN_ENV, "%s", replica->context);
}

/* Only the Python worker can be a spare. A replica with devices of its own fits no spare. */
static uint32_t count_spares(const struct as_worker_spec_conf *conf,
                             const struct as_spec_object *app,
                             const struct as_spec_object *deployment,
                             const struct as_worker_spec_replica *replica)
{
    if (!as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH) || replica->gpus || replica->cpus)
        return 0;
    return as_spec_is_set(deployment, AS_SPEC_DEPLOYMENT_WARM_SPARES)
               ? (uint32_t)as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_WARM_SPARES)
               : conf->spares;
}

static bool sets_variable(const char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; *env; env++) {
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return true;
    }
    return false;
}

char *as_worker_spec_servicers(const struct as_spec_object *app)
{
    uint32_t n = as_spec_count(app, AS_SPEC_APPLICATION_GRPC_SERVICERS);
    struct as_buf b = {0};

    for (uint32_t i = 0; i < n; i++)
        as_buf_printf(&b, "%s%s", i ? "," : AS_WORKER_SPEC_SERVICERS "=",
                      as_spec_text(app, AS_SPEC_APPLICATION_GRPC_SERVICERS, i));
    return n ? as_buf_cstr(&b) : NULL;
}

void as_worker_spec_write(const struct as_worker_spec_conf *conf, const struct as_spec_object *app,
                          const struct as_spec_object *deployment,
                          const struct as_worker_spec_replica *replica, struct as_buf *text)
{
    const char *target = as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH);
    uint32_t spares = count_spares(conf, app, deployment, replica);
    char *servicers = as_worker_spec_servicers(app);
    struct as_spec_spawn own;

    as_spec_spawn_init(&own, app, deployment, replica->gpus, replica->cpus,
                       conf->numerical_threads);
    if (target)
        put_python(conf, app, own.dir, as_spec_str(deployment, AS_SPEC_DEPLOYMENT_NAME), text);
    else if (own.dir)
        as_spawn_put(text, AS_SPAWN_DIR, "%s", own.dir);
    for (uint32_t i = 0; !target && i < as_spec_count(app, AS_SPEC_APPLICATION_COMMAND); i++)
        as_spawn_put(text, AS_SPAWN_ARG, "%s", as_spec_text(app, AS_SPEC_APPLICATION_COMMAND, i));
    put_own_env(conf, replica, text);
    if (servicers)
        as_spawn_put(text, AS_SPAWN_ENV, "%s", servicers);
    free(servicers);
    if (as_spec_str(app, AS_SPEC_APPLICATION_ARGS))
        as_spawn_put(text, AS_SPAWN_ENV, AS_WORKER_SPEC_ARGS "=%s",
                     as_spec_str(app, AS_SPEC_APPLICATION_ARGS));
    if (!sets_variable(own.env, "PYTHONUNBUFFERED"))
        as_spawn_put(text, AS_SPAWN_ENV, "PYTHONUNBUFFERED=1");
    for (const char **e = own.env; *e; e++)
        as_spawn_put(text, AS_SPAWN_ENV, "%s", *e);
    if (own.cpus)
        as_spawn_put(text, AS_SPAWN_CPUS, "%s", own.cpus);
    if (own.memory)
        as_spawn_put_number(text, AS_SPAWN_MEMORY, own.memory);
    as_spec_spawn_fini(&own);
    if (conf->batch)
        as_spawn_put_number(text, AS_SPAWN_BATCH, 1);
    if (spares)
        as_spawn_put_number(text, AS_SPAWN_SPARES, spares);
}

size_t as_worker_spec_own_size(const struct as_spec_object *app,
                               const struct as_spec_object *deployment, const char *cwd)
{
    const char *target = as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH),
               *dir = as_spec_working_dir(app, deployment),
               *from = as_spec_str(app, AS_SPEC_APPLICATION_WORKING_DIR),
               *code = as_spec_str(app, AS_SPEC_APPLICATION_CODE),
               *cpus = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_CPU_AFFINITY),
               *args = as_spec_str(app, AS_SPEC_APPLICATION_ARGS);
    const char **env = as_spec_env(app, deployment);
    char *servicers = as_worker_spec_servicers(app);
    size_t n = (servicers ? strlen(servicers) + 2 : 0) + (target ? strlen(target) + 2 : 0) +
               (dir ? strlen(dir) + 2 : 0) + (cpus ? strlen(cpus) + 2 : 0) +
               (args ? sizeof(AS_WORKER_SPEC_ARGS) + strlen(args) + 2 : 0);

    if (as_code_store_is_copy(code))
        n += strlen(code) + (dir && dir[0] == '/' ? 0 : strlen(cwd) + 1) + strlen(cwd) +
             (from ? strlen(from) : 0) + (target ? strlen(target) : 0) + 3;
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_COMMAND); i++)
        n += strlen(as_spec_text(app, AS_SPEC_APPLICATION_COMMAND, i)) + 2;
    for (uint32_t i = 0; env[i]; i++)
        n += strlen(env[i]) + 2;
    free(env);
    free(servicers);
    return n;
}
