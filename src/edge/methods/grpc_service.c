/* The table of gRPC methods, and the small RPCs that need no worker. */
#include "edge/admin/registrar.h"
#include "edge/exchange/key_access.h"
#include "edge/grpc/reflection.h"
#include "edge/grpc/watch.h"
#include "edge/infer/infer.h"
#include "edge/infer/infer_stream.h"
#include "edge/methods/metadata.h"
#include "edge/service/service.h"
#include "edge/triton/extension.h"

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
    return as_exchange_is_parsed(
        x, as_oip_parse_name_version(x->body.p, x->body.len, ret_name, ret_version),
        "malformed request message");
}

/* An unknown model is not ready, which is no error, as with Triton: clients poll until the model is
 * there, and raise on an error. */
static void model_ready(struct as_exchange *x)
{
    struct as_str name, version;
    const struct as_model *m;

    if (!parse_named(x, &name, &version) || !as_key_access_check_model(x, name))
        return;
    m = as_registry_find(x->edge->client.registry, name, version, NULL);
    reply_bool(x, m && as_edge_is_model_ready(x->edge, m));
}

static void model_metadata(struct as_exchange *x)
{
    struct as_str name, version;

    if (parse_named(x, &name, &version))
        as_metadata_model(x, name, version);
}

static void server_live(struct as_exchange *x)
{
    reply_bool(x, true);
}

static void server_ready(struct as_exchange *x)
{
    reply_bool(x, as_edge_is_ready(x->edge));
}

#define CLIENTS    (1u << AS_INTERFACE_CLIENTS)
#define MANAGEMENT (1u << AS_INTERFACE_MANAGEMENT)
#define BOTH       (CLIENTS | MANAGEMENT)

#define METHOD(label, place, where, function)                                                      \
    {                                                                                              \
        .name = (label), .path = (place), .interfaces = (where), .handle = (function)              \
    }
#define INFERENCE(name, handle)                                                                    \
    METHOD(name, "/inference.GRPCInferenceService/" name, CLIENTS, handle)
#define HEALTH     "/grpc.health.v1.Health/"
#define REFLECTION "/grpc.reflection."
#define INFO       ".ServerReflection/ServerReflectionInfo"
#define SERVE      "/ray.serve.RayServeAPIService/"
#define WORKERS    "/" AS_MANAGEMENT_SERVICE "/"

const struct as_grpc_method as_grpc_methods[AS_RPC_COUNT] = {
    [AS_RPC_MODEL_INFER] = INFERENCE("ModelInfer", as_infer_grpc),
    [AS_RPC_SERVER_LIVE] = INFERENCE("ServerLive", server_live),
    [AS_RPC_SERVER_READY] = INFERENCE("ServerReady", server_ready),
    [AS_RPC_SERVER_METADATA] = INFERENCE("ServerMetadata", as_metadata_server),
    [AS_RPC_MODEL_READY] = INFERENCE("ModelReady", model_ready),
    [AS_RPC_MODEL_METADATA] = INFERENCE("ModelMetadata", model_metadata),
    [AS_RPC_MODEL_CONFIG] = INFERENCE("ModelConfig", as_extension_call),
    [AS_RPC_MODEL_STATISTICS] = INFERENCE("ModelStatistics", as_extension_call),
    [AS_RPC_REPOSITORY_INDEX] = INFERENCE("RepositoryIndex", as_extension_call),
    [AS_RPC_REPOSITORY_LOAD] = INFERENCE("RepositoryModelLoad", as_extension_call),
    [AS_RPC_REPOSITORY_UNLOAD] = INFERENCE("RepositoryModelUnload", as_extension_call),
    [AS_RPC_SHM_STATUS] = INFERENCE("SystemSharedMemoryStatus", as_extension_call),
    [AS_RPC_SHM_REGISTER] = INFERENCE("SystemSharedMemoryRegister", as_extension_call),
    [AS_RPC_SHM_UNREGISTER] = INFERENCE("SystemSharedMemoryUnregister", as_extension_call),
    [AS_RPC_CUDA_STATUS] = INFERENCE("CudaSharedMemoryStatus", as_extension_call),
    [AS_RPC_CUDA_REGISTER] = INFERENCE("CudaSharedMemoryRegister", as_extension_call),
    [AS_RPC_CUDA_UNREGISTER] = INFERENCE("CudaSharedMemoryUnregister", as_extension_call),
    [AS_RPC_TRACE_SETTING] = INFERENCE("TraceSetting", as_extension_call),
    [AS_RPC_LOG_SETTINGS] = INFERENCE("LogSettings", as_extension_call),
    [AS_RPC_HEALTH_CHECK] = METHOD("Health/Check", HEALTH "Check", BOTH, as_watch_check),
    [AS_RPC_HEALTH_LIST] = METHOD("Health/List", HEALTH "List", BOTH, as_watch_list),
    [AS_RPC_REGISTER_MODEL] =
        METHOD("RegisterModel", WORKERS "RegisterModel", MANAGEMENT, as_registrar_call),
    [AS_RPC_UNREGISTER_MODEL] =
        METHOD("UnregisterModel", WORKERS "UnregisterModel", MANAGEMENT, as_registrar_call),
    [AS_RPC_HEARTBEAT] = METHOD("Heartbeat", WORKERS "Heartbeat", MANAGEMENT, as_registrar_call),
    [AS_RPC_SERVE_HEALTHZ] = METHOD("Healthz", SERVE "Healthz", CLIENTS, as_service_healthz),
    [AS_RPC_SERVE_APPLICATIONS] =
        METHOD("ListApplications", SERVE "ListApplications", CLIENTS, as_service_list_applications),
    [AS_RPC_SERVICE] = {.name = "service", .check = as_service_check, .handle = as_service_call},
    [AS_RPC_SERVICE_STREAM] = {.name = "service_stream",
                               .check = as_service_check,
                               .handle = as_service_open},
    [AS_RPC_HEALTH_WATCH] = METHOD("Health/Watch", HEALTH "Watch", BOTH, as_watch_open),
    [AS_RPC_MODEL_STREAM_INFER] = INFERENCE("ModelStreamInfer", as_infer_stream_open),
    [AS_RPC_REFLECTION] = METHOD("reflection.v1", REFLECTION "v1" INFO, BOTH, as_reflection_open),
    [AS_RPC_REFLECTION_ALPHA] =
        METHOD("reflection.v1alpha", REFLECTION "v1alpha" INFO, BOTH, as_reflection_open),
    [AS_RPC_UNKNOWN] = {.name = "unknown"},
    [AS_RPC_HTTP] = {.name = "http"},
};
