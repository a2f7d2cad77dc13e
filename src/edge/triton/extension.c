#include "edge/triton/extension.h"

#include "edge/exchange/key_access.h"
#include "edge/rest/rest.h"
#include "wire/oip/oip.h"

/* Clients parse the versions in statistics as integers, and fail if they cannot. */
static bool has_integer_versions(const struct as_registry *g)
{
    for (uint32_t i = 0; i < as_registry_count(g); i++) {
        uint64_t n;

        if (as_str_u64(as_registry_at(g, i)->version, &n) || n > INT64_MAX)
            return false;
    }
    return true;
}

uint32_t as_extension_list(const struct as_edge *e, struct as_str out[AS_EXTENSIONS])
{
    uint32_t n = 0;

    out[n++] = AS_STR("binary_tensor_data");
    out[n++] = AS_STR("classification");
    out[n++] = AS_STR("model_configuration");
    out[n++] = AS_STR("parameters");
    out[n++] = AS_STR("schedule_policy");
    if (has_integer_versions(e->client.registry))
        out[n++] = AS_STR("statistics");
    if (e->conf.control)
        out[n++] = AS_STR("model_repository");
    if (e->conf.log)
        out[n++] = AS_STR("logging");
    if (e->conf.shm)
        out[n++] = AS_STR("system_shared_memory");
    AS_ASSERT(n <= AS_EXTENSIONS);
    return n;
}

void as_extension_reply(struct as_exchange *x, int err, struct as_buf *out)
{
    if (!err && !x->grpc && !out->n)
        as_buf_str(out, "{}");
    if (err)
        as_exchange_fail(x, AS_ENOMEM, "no memory for the answer");
    else if (x->grpc)
        as_exchange_reply(x, out);
    else
        as_rest_json(x, 200, out);
    as_buf_fini(out);
}

/* --- the RPCs' messages --- */

/* True: the message was parsed. False: the request was failed. */
static bool is_parsed(struct as_exchange *x, int err)
{
    if (err == AS_EFULL)
        as_exchange_fail(x, AS_EINVALID, "more than %u settings", AS_SETTINGS_MAX);
    else
        as_exchange_is_parsed(x, err, "malformed request message");
    return !err;
}

static void call_config(struct as_exchange *x)
{
    struct as_str name, version;

    if (is_parsed(x, as_oip_parse_name_version(x->body.p, x->body.len, &name, &version)))
        as_extension_config(x, name, version);
}

static void call_statistics(struct as_exchange *x)
{
    struct as_str name, version;

    if (is_parsed(x, as_oip_parse_name_version(x->body.p, x->body.len, &name, &version)))
        as_extension_statistics(x, name, version);
}

static void call_repository_index(struct as_exchange *x)
{
    bool only_ready;

    if (is_parsed(x, as_repository_parse_index(x->body.p, x->body.len, &only_ready)))
        as_extension_index(x, only_ready);
}

static void call_repository_change(struct as_exchange *x)
{
    struct as_repository_change c;

    if (!is_parsed(x, as_repository_parse_change(x->body.p, x->body.len, &x->arena, &c)))
        return;
    if (x->rpc == AS_RPC_REPOSITORY_LOAD)
        as_extension_load(x, &c);
    else
        as_extension_unload(x, &c);
}

static void call_shm_register(struct as_exchange *x)
{
    struct as_shm_region r;

    if (is_parsed(x, as_shm_region_parse(x->body.p, x->body.len, &x->arena, &r)))
        as_extension_shm_register(x, &r);
}

/* Messages that hold a name and nothing else. */
static void call_shm_named(struct as_exchange *x)
{
    struct as_str name, none;

    if (!is_parsed(x, as_oip_parse_name_version(x->body.p, x->body.len, &name, &none)))
        return;
    if (x->rpc == AS_RPC_SHM_STATUS)
        as_extension_shm_status(x, name);
    else
        as_extension_shm_unregister(x, name);
}

static void call_trace_setting(struct as_exchange *x)
{
    const struct as_setting *s;
    struct as_str model;
    uint32_t n;

    if (is_parsed(x, as_settings_parse_trace(x->body.p, x->body.len, &x->arena, &s, &n, &model)) &&
        (model.n || as_key_access_check_server(x)))
        as_extension_trace(x, model, s, n);
}

static void call_log_settings(struct as_exchange *x)
{
    const struct as_setting *s;
    uint32_t n;

    if (is_parsed(x, as_settings_parse_log(x->body.p, x->body.len, &x->arena, &s, &n)))
        as_extension_log(x, s, n);
}

/* Not one model; whether TraceSetting does, its message says. */
static bool concerns_server(enum as_rpc rpc)
{
    return (rpc >= AS_RPC_SHM_STATUS && rpc <= AS_RPC_CUDA_UNREGISTER) ||
           rpc == AS_RPC_LOG_SETTINGS;
}

void as_extension_call(struct as_exchange *x)
{
    static void (*const calls[AS_RPC_COUNT])(struct as_exchange * x) = {
        [AS_RPC_MODEL_CONFIG] = call_config,
        [AS_RPC_MODEL_STATISTICS] = call_statistics,
        [AS_RPC_REPOSITORY_INDEX] = call_repository_index,
        [AS_RPC_REPOSITORY_LOAD] = call_repository_change,
        [AS_RPC_REPOSITORY_UNLOAD] = call_repository_change,
        [AS_RPC_SHM_STATUS] = call_shm_named,
        [AS_RPC_SHM_REGISTER] = call_shm_register,
        [AS_RPC_SHM_UNREGISTER] = call_shm_named,
        [AS_RPC_CUDA_STATUS] = as_extension_cuda_status,
        [AS_RPC_CUDA_REGISTER] = as_extension_cuda_register,
        [AS_RPC_CUDA_UNREGISTER] = as_extension_cuda_unregister,
        [AS_RPC_TRACE_SETTING] = call_trace_setting,
        [AS_RPC_LOG_SETTINGS] = call_log_settings,
    };

    if (concerns_server(x->rpc) && !as_key_access_check_server(x))
        return;
    if (calls[x->rpc])
        calls[x->rpc](x);
    else
        as_exchange_fail(x, AS_EUNIMPLEMENTED, "unknown method");
}
