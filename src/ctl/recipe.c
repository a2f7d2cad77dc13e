#include "ctl/recipe.h"

#include "conf/spec_spawn.h"
#include "ctl/message.h"
#include "ctl/spawn.h"
#include "io/runtime.h"

#include <inttypes.h>

/* What is ours in the text beside the deployment's own keys and the context: python's path, at most
 * 4,095 bytes, and under 2,000 of the rest; then the context (8 KiB) and lists of devices (6 KB).
 */
static_assert(AS_RECIPE_OWN_MAX + 6200u + 15000u < AS_CTL_TEXT_MAX, "a recipe is one message");

static void put_python(const struct as_recipe *r, const char *target, const char *deployment,
                       struct as_buf *text)
{
    char item[AS_CTL_NAME_MAX + 64];

    as_spawn_put_arg(text, r->python);
    as_spawn_put_arg(text, "-m");
    as_spawn_put_arg(text, "anyserve.worker");
    as_spawn_put_arg(text, target);
    snprintf(item, sizeof(item), "--deployment=%s", deployment); /* one word: may begin with '-' */
    as_spawn_put_arg(text, item);
    snprintf(item, sizeof(item), "--stream-inputs=%u", r->stream_inputs);
    as_spawn_put_arg(text, item);
    snprintf(item, sizeof(item), "--stream-input-bytes=%" PRIu64, r->stream_input_bytes);
    as_spawn_put_arg(text, item);
    if (r->debug_errors)
        as_spawn_put_arg(text, "--debug-errors");
}

/* By environment, not by argument: the command line of a process is readable by everybody. The
 * worker takes the token out of it before it serves. */
static void put_ours(const struct as_recipe *r, const struct as_recipe_replica *p,
                     struct as_buf *text)
{
    char item[AS_RUNTIME_PATH_MAX + AS_CTL_NAME_MAX + 64];

    snprintf(item, sizeof(item), "ANYSERVE_LINK=%s", r->link);
    as_spawn_put_env(text, item);
    snprintf(item, sizeof(item), "ANYSERVE_TOKEN=%s", p->token);
    as_spawn_put_own(text, item);
    snprintf(item, sizeof(item), "ANYSERVE_REPLICA=%s", p->name);
    as_spawn_put_own(text, item);
    as_spawn_put_own(text, p->context);
}

/* Our SDK can wait for its place; what has devices of its own is like no other replica. */
static uint32_t wanted_spares(const struct as_recipe *r, const struct as_spec_object *app,
                              const struct as_spec_object *deployment,
                              const struct as_recipe_replica *p)
{
    if (!as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH) || p->gpus || p->cpus)
        return 0;
    return as_spec_is_set(deployment, AS_SPEC_DEPLOYMENT_WARM_SPARES)
               ? (uint32_t)as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_WARM_SPARES)
               : r->spares;
}

static bool sets(const char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; *env; env++) {
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return true;
    }
    return false;
}

void as_recipe_write(const struct as_recipe *r, const struct as_spec_object *app,
                     const struct as_spec_object *deployment, const struct as_recipe_replica *p,
                     struct as_buf *text)
{
    const char *target = as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH);
    uint32_t spares = wanted_spares(r, app, deployment, p);
    struct as_spec_spawn own;

    if (target)
        put_python(r, target, as_spec_str(deployment, AS_SPEC_DEPLOYMENT_NAME), text);
    for (uint32_t i = 0; !target && i < as_spec_count(app, AS_SPEC_APPLICATION_COMMAND); i++)
        as_spawn_put_arg(text, as_spec_text(app, AS_SPEC_APPLICATION_COMMAND, i));
    put_ours(r, p, text);
    as_spec_spawn_init(&own, app, deployment, p->gpus, p->cpus);
    if (!sets(own.env, "PYTHONUNBUFFERED"))
        as_spawn_put_env(text, "PYTHONUNBUFFERED=1");
    for (const char **e = own.env; *e; e++)
        as_spawn_put_env(text, *e);
    if (own.dir)
        as_spawn_put_dir(text, own.dir);
    if (own.cpus)
        as_spawn_put_cpus(text, own.cpus);
    if (own.memory)
        as_spawn_put_memory(text, own.memory);
    as_spec_spawn_fini(&own);
    if (r->batch)
        as_spawn_put_batch(text);
    if (spares)
        as_spawn_put_spares(text, spares);
}

size_t as_recipe_own(const struct as_spec_object *app, const struct as_spec_object *deployment)
{
    const char *target = as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH),
               *dir = as_spec_working_dir(app, deployment),
               *cpus = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_CPU_AFFINITY);
    const char **env = as_spec_env(app, deployment);
    size_t n = (target ? strlen(target) + 2 : 0) + (dir ? strlen(dir) + 2 : 0) +
               (cpus ? strlen(cpus) + 2 : 0);

    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_COMMAND); i++)
        n += strlen(as_spec_text(app, AS_SPEC_APPLICATION_COMMAND, i)) + 2;
    for (uint32_t i = 0; env[i]; i++)
        n += strlen(env[i]) + 2;
    free(env);
    return n;
}
