#include "ctl/recipe.h"

#include "ctl/message.h"
#include "ctl/spawn.h"
#include "io/runtime.h"

#include <inttypes.h>

void as_recipe_write(const struct as_recipe *r, const char *deployment, const char *replica,
                     const char *token, struct as_buf *text)
{
    char item[AS_RUNTIME_PATH_MAX + AS_CTL_NAME_MAX + 64];

    as_spawn_put_arg(text, r->python);
    as_spawn_put_arg(text, "-m");
    as_spawn_put_arg(text, "anyserve.worker");
    as_spawn_put_arg(text, r->target);
    snprintf(item, sizeof(item), "--deployment=%s", deployment); /* one word: may begin with '-' */
    as_spawn_put_arg(text, item);
    snprintf(item, sizeof(item), "--stream-inputs=%u", r->stream_inputs);
    as_spawn_put_arg(text, item);
    snprintf(item, sizeof(item), "--stream-input-bytes=%" PRIu64, r->stream_input_bytes);
    as_spawn_put_arg(text, item);
    if (r->debug_errors)
        as_spawn_put_arg(text, "--debug-errors");
    /* By environment, not by argument: the command line of a process is readable by everybody. The
     * worker takes the token out of it before it serves. */
    snprintf(item, sizeof(item), "ANYSERVE_LINK=%s", r->link);
    as_spawn_put_env(text, item);
    snprintf(item, sizeof(item), "ANYSERVE_TOKEN=%s", token);
    as_spawn_put_env(text, item);
    snprintf(item, sizeof(item), "ANYSERVE_REPLICA=%s", replica);
    as_spawn_put_env(text, item);
    as_spawn_put_env(text, "PYTHONUNBUFFERED=1");
    if (r->batch)
        as_spawn_put_batch(text);
}

void as_recipe_put_context(struct as_buf *text, const char *deployment, const char *replica,
                           uint32_t rank, uint32_t world_size)
{
    struct as_buf b;

    as_buf_init(&b);
    as_buf_str(&b, "ANYSERVE_CONTEXT={\"replica\":");
    as_buf_json(&b, as_str_of(replica));
    as_buf_str(&b, ",\"deployment\":");
    as_buf_json(&b, as_str_of(deployment));
    as_buf_printf(&b, ",\"application\":\"default\",\"rank\":%u,\"world_size\":%u,", rank,
                  world_size);
    as_buf_printf(&b, "\"local_rank\":%u,\"node_rank\":0}", rank); /* there is one machine */
    as_buf_add(&b, "", 1);
    as_spawn_put_env(text, (const char *)b.p);
    as_buf_fini(&b);
}
