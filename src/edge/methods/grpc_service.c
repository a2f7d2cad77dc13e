/* The table of gRPC methods, and the small RPCs that need no worker. */
#include "edge/admin/registrar.h"
#include "edge/grpc/reflection.h"
#include "edge/grpc/watch.h"
#include "edge/infer/infer.h"
#include "edge/infer/infer_stream.h"
#include "edge/methods/metadata.h"
#include "edge/triton/extension.h"

#define SERVICE "/inference.GRPCInferenceService/"

static const char *const rpc_names[AS_RPC_COUNT] = {
    [AS_RPC_MODEL_INFER] = "ModelInfer",
    [AS_RPC_SERVER_LIVE] = "ServerLive",
    [AS_RPC_SERVER_READY] = "ServerReady",
    [AS_RPC_SERVER_METADATA] = "ServerMetadata",
    [AS_RPC_MODEL_READY] = "ModelReady",
    [AS_RPC_MODEL_METADATA] = "ModelMetadata",
    [AS_RPC_MODEL_CONFIG] = "ModelConfig",
    [AS_RPC_MODEL_STATISTICS] = "ModelStatistics",
    [AS_RPC_REPOSITORY_INDEX] = "RepositoryIndex",
    [AS_RPC_REPOSITORY_LOAD] = "RepositoryModelLoad",
    [AS_RPC_REPOSITORY_UNLOAD] = "RepositoryModelUnload",
    [AS_RPC_SHM_STATUS] = "SystemSharedMemoryStatus",
    [AS_RPC_SHM_REGISTER] = "SystemSharedMemoryRegister",
    [AS_RPC_SHM_UNREGISTER] = "SystemSharedMemoryUnregister",
    [AS_RPC_CUDA_STATUS] = "CudaSharedMemoryStatus",
    [AS_RPC_CUDA_REGISTER] = "CudaSharedMemoryRegister",
    [AS_RPC_CUDA_UNREGISTER] = "CudaSharedMemoryUnregister",
    [AS_RPC_TRACE_SETTING] = "TraceSetting",
    [AS_RPC_LOG_SETTINGS] = "LogSettings",
    [AS_RPC_HEALTH_CHECK] = "Health/Check",
    [AS_RPC_HEALTH_LIST] = "Health/List",
    [AS_RPC_REGISTER_MODEL] = "RegisterModel",
    [AS_RPC_UNREGISTER_MODEL] = "UnregisterModel",
    [AS_RPC_HEARTBEAT] = "Heartbeat",
    [AS_RPC_HEALTH_WATCH] = "Health/Watch",
    [AS_RPC_MODEL_STREAM_INFER] = "ModelStreamInfer",
    [AS_RPC_REFLECTION] = "reflection.v1",
    [AS_RPC_REFLECTION_ALPHA] = "reflection.v1alpha",
    [AS_RPC_UNKNOWN] = "unknown",
    [AS_RPC_HTTP] = "http",
};

#define CLIENTS    (1u << AS_INTERFACE_CLIENTS)
#define MANAGEMENT (1u << AS_INTERFACE_MANAGEMENT)
#define BOTH       (CLIENTS | MANAGEMENT)

/* Streaming methods, and those of other services than the inference service. */
static const struct {
    const char *path;
    enum as_rpc rpc;
    uint32_t interfaces;
} other_methods[] = {
    {SERVICE "ModelStreamInfer", AS_RPC_MODEL_STREAM_INFER, CLIENTS},
    {"/grpc.health.v1.Health/Check", AS_RPC_HEALTH_CHECK, BOTH},
    {"/grpc.health.v1.Health/List", AS_RPC_HEALTH_LIST, BOTH},
    {"/grpc.health.v1.Health/Watch", AS_RPC_HEALTH_WATCH, BOTH},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", AS_RPC_REFLECTION, BOTH},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", AS_RPC_REFLECTION_ALPHA,
     BOTH},
    {"/" AS_MANAGEMENT_SERVICE "/RegisterModel", AS_RPC_REGISTER_MODEL, MANAGEMENT},
    {"/" AS_MANAGEMENT_SERVICE "/UnregisterModel", AS_RPC_UNREGISTER_MODEL, MANAGEMENT},
    {"/" AS_MANAGEMENT_SERVICE "/Heartbeat", AS_RPC_HEARTBEAT, MANAGEMENT},
};

const char *as_rpc_name(enum as_rpc rpc)
{
    return rpc_names[rpc];
}

static enum as_rpc find_other_method(enum as_interface interface, struct as_str path)
{
    for (size_t i = 0; i < AS_COUNT(other_methods); i++) {
        if (other_methods[i].interfaces & 1u << interface &&
            as_str_eq(path, as_str_of(other_methods[i].path)))
            return other_methods[i].rpc;
    }
    return AS_RPC_UNKNOWN;
}

static enum as_rpc find_rpc(enum as_interface interface, struct as_str path)
{
    size_t n = sizeof(SERVICE) - 1;

    if (interface != AS_INTERFACE_CLIENTS || path.n <= n || memcmp(path.p, SERVICE, n) != 0)
        return find_other_method(interface, path);
    for (int i = 0; i <= AS_RPC_LOG_SETTINGS; i++) {
        if (as_str_eq((struct as_str){path.p + n, path.n - n}, as_str_of(rpc_names[i])))
            return (enum as_rpc)i;
    }
    return find_other_method(interface, path);
}

static void reply_bool(struct as_exchange *x, bool v)
{
    uint8_t room[16]; /* the message has two bytes */
    struct as_buf b = {.p = room, .cap = sizeof(room)};

    as_oip_put_live(&b, v);
    as_exchange_reply(x, &b);
}

/* Parses the model's name and version. False: failed. */
static bool parse_named(struct as_exchange *x, struct as_str *ret_name, struct as_str *ret_version)
{
    if (!as_oip_parse_name_version(x->body.p, x->body.len, ret_name, ret_version))
        return true;
    as_exchange_fail(x, AS_EINVALID, "malformed request message");
    return false;
}

/* An unknown model is not ready, which is no error, as with Triton: clients poll until the model is
 * there, and raise on an error. */
static void model_ready(struct as_exchange *x)
{
    struct as_str name, version;
    const struct as_model *m;

    if (!parse_named(x, &name, &version))
        return;
    m = as_registry_find(x->edge->client.registry, name, version, NULL);
    reply_bool(x, m && !x->edge->shutting_down && !m->unloaded &&
                      as_fleet_deployment_ready(x->edge->client.fleet, m->deployment));
}

static void model_metadata(struct as_exchange *x)
{
    struct as_str name, version;

    if (parse_named(x, &name, &version))
        as_metadata_model(x, name, version);
}

static void call(struct as_exchange *x)
{
    switch (x->rpc) {
    case AS_RPC_MODEL_INFER:
        as_infer_grpc(x);
        break;
    case AS_RPC_SERVER_LIVE:
        reply_bool(x, true);
        break;
    case AS_RPC_SERVER_READY:
        reply_bool(x, !x->edge->shutting_down && as_fleet_ready(x->edge->client.fleet));
        break;
    case AS_RPC_SERVER_METADATA:
        as_metadata_server(x);
        break;
    case AS_RPC_MODEL_READY:
        model_ready(x);
        break;
    case AS_RPC_MODEL_METADATA:
        model_metadata(x);
        break;
    case AS_RPC_HEALTH_CHECK:
        as_watch_check(x);
        break;
    case AS_RPC_HEALTH_LIST:
        as_watch_list(x);
        break;
    case AS_RPC_REGISTER_MODEL:
    case AS_RPC_UNREGISTER_MODEL:
    case AS_RPC_HEARTBEAT:
        as_registrar_call(x);
        break;
    default:
        as_extension_call(x);
    }
}

static void open_stream(struct as_exchange *x)
{
    if (x->rpc == AS_RPC_HEALTH_WATCH)
        as_watch_open(x);
    else if (x->rpc == AS_RPC_MODEL_STREAM_INFER)
        as_infer_stream_open(x);
    else
        as_reflection_open(x);
}

const struct as_grpc_methods as_grpc_methods = {
    .name = as_rpc_name,
    .find = find_rpc,
    .call = call,
    .open_stream = open_stream,
};
