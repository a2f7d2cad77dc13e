/* The plain HTTP routes of each interface. Rows of one path are adjacent; if two patterns match a
 * path, the first one counts. */
#include "edge/admin/control.h"
#include "edge/admin/registrar.h"
#include "edge/admin/status.h"
#include "edge/infer/infer.h"
#include "edge/ingress/ingress.h"
#include "edge/methods/rest_oip.h"
#include "edge/rest/openapi.h"
#include "edge/triton/extension_rest.h"

#define BODY     AS_REST_BODY
#define CHANGES  AS_REST_CHANGES
#define PICKLE   AS_REST_PICKLE
#define OPTIONAL AS_REST_OPTIONAL

#define ROUTE(method, path, handle, resource, flags, ...)                                          \
    {                                                                                              \
        method, path, handle, AS_RESOURCE_##resource, flags,                                       \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

#define MODEL "/v2/models/{model}[/versions/{version}]"
/* Statuses of a request to a model; its handler may raise any of them: as_grpc_status_http. */
#define MODEL_STATUSES "400,401,403,404,409,413,429,499,500,501,503,504"

static const struct as_rest_route client_routes[] = {
    ROUTE("POST", MODEL "/infer", as_infer_rest, INFER, BODY, "infer", "Calls a model.",
          "InferRequest", "InferResponse", MODEL_STATUSES),
    ROUTE("GET", "/v2", as_rest_oip_server, SERVER, 0, "serverMetadata",
          "Name, version and extensions of the server.", NULL, "ServerMetadata", ""),
    ROUTE("GET", "/v2/", as_rest_oip_server, SERVER, 0, "serverMetadataSlash",
          "The same, with the slash that the protocol's document has.", NULL, "ServerMetadata", ""),
    ROUTE("GET", "/v2/health/live", as_rest_oip_live, LIVE, 0, "serverLive", "The server answers.",
          NULL, "ServerLive", ""),
    ROUTE("GET", "/v2/health/ready", as_rest_oip_ready, READY, 0, "serverReady",
          "Every model has a worker.", NULL, "ServerReady", "503*"),
    ROUTE("GET", MODEL, as_rest_oip_model, MODEL, 0, "modelMetadata",
          "Versions and signature of a model.", NULL, "ModelMetadata", "400,404,503"),
    ROUTE("GET", MODEL "/ready", as_rest_oip_model_ready, MODEL_READY, 0, "modelReady",
          "The model has a worker.", NULL, "ModelReady", "400,404,503*"),
    ROUTE("POST", MODEL "/generate", as_infer_generate, GENERATE, BODY, "modelGenerate",
          "One response to a flat object of inputs and parameters.", "GenerateRequest",
          "GenerateResponse", MODEL_STATUSES),
    ROUTE("POST", MODEL "/generate_stream", as_infer_generate_stream, GENERATE_STREAM, BODY,
          "modelGenerateStream", "Each response as a server-sent event.", "GenerateRequest", NULL,
          MODEL_STATUSES),
    ROUTE("GET", MODEL "/config", as_extension_rest_config, CONFIG, 0, "modelConfig",
          "The configuration of a model.", NULL, "ModelConfig", "400,404,503"),
    ROUTE("GET", MODEL "/stats", as_extension_rest_statistics, STATISTICS, 0, "modelStatistics",
          "Counts and durations of the requests to a model.", NULL, "ModelStatistics",
          "400,404,503"),
    ROUTE("GET", "/v2/models/stats", as_extension_rest_statistics, STATISTICS, 0, "statistics",
          "The same for all models.", NULL, "ModelStatistics", "503"),
    ROUTE("POST", "/v2/repository/index", as_extension_rest_index, REPOSITORY, BODY | OPTIONAL,
          "repositoryIndex", "All models and their states.", "RepositoryIndexRequest",
          "RepositoryIndex", "400,413,503"),
    ROUTE("POST", "/v2/repository[/{name}]/models/{model}/load", as_extension_rest_load, REPOSITORY,
          BODY | OPTIONAL | CHANGES, "repositoryLoad", "Puts a model back into service.",
          "RepositoryLoad", "Object", "400,403,404,413,501,503"),
    ROUTE("POST", "/v2/repository[/{name}]/models/{model}/unload", as_extension_rest_unload,
          REPOSITORY, BODY | OPTIONAL | CHANGES, "repositoryUnload",
          "Takes a model out of service.", "RepositoryUnload", "Object", "400,403,404,413,503"),
    ROUTE("GET", "/v2/systemsharedmemory[/region/{name}]/status", as_extension_rest_shm_status,
          SHARED_MEMORY, 0, "sharedMemoryStatus", "Regions of shared memory.", NULL, "SharedMemory",
          "400,404,503"),
    ROUTE("POST", "/v2/systemsharedmemory/region/{name}/register", as_extension_rest_shm_register,
          SHARED_MEMORY, BODY | CHANGES, "sharedMemoryRegister",
          "Registers a region of shared memory.", "SharedMemoryRegion", "Object",
          "400,403,404,409,413,503"),
    ROUTE("POST", "/v2/systemsharedmemory[/region/{name}]/unregister",
          as_extension_rest_shm_unregister, SHARED_MEMORY, CHANGES, "sharedMemoryUnregister",
          "Unregisters regions.", NULL, "Object", "400,403,503"),
    ROUTE("GET", "/v2/cudasharedmemory[/region/{name}]/status", as_extension_rest_cuda_status,
          SHARED_MEMORY, 0, "cudaStatus", "Always empty: GPU memory is not supported.", NULL,
          "SharedMemory", "400,503"),
    ROUTE("POST", "/v2/cudasharedmemory/region/{name}/register", as_extension_rest_cuda_register,
          SHARED_MEMORY, CHANGES, "cudaRegister", "Not supported.", NULL, "Object",
          "400,403,501,503"),
    ROUTE("POST", "/v2/cudasharedmemory[/region/{name}]/unregister",
          as_extension_rest_cuda_unregister, SHARED_MEMORY, CHANGES, "cudaUnregister",
          "Does nothing: GPU memory is not supported.", NULL, "Object", "400,403,503"),
    ROUTE("GET", "/v2/trace/setting", as_extension_rest_trace, TRACE, 0, "traceSetting",
          "Traces are off.", NULL, "Object", "503"),
    ROUTE("POST", "/v2/trace/setting", as_extension_rest_trace, TRACE, BODY | OPTIONAL | CHANGES,
          "traceSettingChange", "Not supported: traces stay off.", "TraceSettings", "Object",
          "400,403,413,501,503"),
    ROUTE("GET", MODEL "/trace/setting", as_extension_rest_trace, TRACE, 0, "modelTraceSetting",
          "The same for a model.", NULL, "Object", "400,404,503"),
    ROUTE("POST", MODEL "/trace/setting", as_extension_rest_trace, TRACE, BODY | OPTIONAL | CHANGES,
          "modelTraceSettingChange", "The same for a model.", "TraceSettings", "Object",
          "400,403,404,413,501,503"),
    ROUTE("GET", "/v2/logging", as_extension_rest_log, LOGGING, 0, "logSettings",
          "Settings of the log.", NULL, "Object", "503"),
    ROUTE("POST", "/v2/logging", as_extension_rest_log, LOGGING, BODY | OPTIONAL | CHANGES,
          "logSettingsChange", "Sets the level of the log.", "LogSettings", "Object",
          "400,403,413,501,503"),
    ROUTE("GET", "/openapi.json", as_openapi_serve, OPENAPI, 0, "openapi", "This document.", NULL,
          "Object", ""),
    ROUTE("GET", "/v2/openapi.json", as_openapi_serve, OPENAPI, 0, "openapiOfModels",
          "The same where an application has the path /openapi.json.", NULL, "Object", ""),
    ROUTE("GET", "/-/routes", as_ingress_routes_page, ROUTES, 0, "routes",
          "The prefixes of the applications that are served over HTTP.", NULL, "Object", "503"),
    ROUTE("GET", "/-/healthz", as_ingress_health_page, ROUTES, 0, "healthz",
          "The server takes requests for applications.", NULL, NULL, "503"),
};

#define MANAGEMENT "/" AS_MANAGEMENT_SERVICE "/"
static const struct as_rest_route management_routes[] = {
    ROUTE("POST", MANAGEMENT "RegisterModel", as_registrar_register, MANAGEMENT, BODY,
          "registerModel", "Registers a model that a worker serves on its socket.", "Object",
          "Object", "400,401,403,409,413,503"),
    ROUTE("POST", MANAGEMENT "UnregisterModel", as_registrar_unregister, MANAGEMENT, BODY,
          "unregisterModel", "Unregisters it.", "Object", "Object", "400,401,403,404,413,503"),
    ROUTE("POST", MANAGEMENT "Heartbeat", as_registrar_heartbeat, MANAGEMENT, BODY, "heartbeat",
          "Reports that the worker is alive.", "Object", "Object", "400,401,403,413,503"),
    ROUTE("GET", "/v2/health/live", as_rest_oip_live, LIVE, 0, "serverLive", "The server answers.",
          NULL, "ServerLive", "401,403"),
    ROUTE("GET", "/v2/health/ready", as_rest_oip_ready, READY, 0, "serverReady",
          "Every model has a worker.", NULL, "ServerReady", "401,403,503*"),
};

#define APPLICATIONS "/api/serve/applications/"
#define DEPLOYMENT   "/api/v1/applications/{application}/deployments/{deployment}"
static const struct as_rest_route control_routes[] = {
    ROUTE("GET", APPLICATIONS, as_control_show, CONTROL, 0, "applications",
          "Applications and deployments, with their states.", NULL, "Object", "401,403"),
    ROUTE("PUT", APPLICATIONS, as_control_deploy, CONTROL, BODY, "deploy",
          "Deploys a deployment file, in place of what was served before.", "Object", "Object",
          "400,401,403,413,503"),
    ROUTE("DELETE", APPLICATIONS, as_control_delete, CONTROL, 0, "deleteAll",
          "Deletes all applications.", NULL, "Object", "401,403,503"),
    ROUTE("PUT", APPLICATIONS "{application}", as_control_deploy_one, CONTROL, BODY, "deployOne",
          "Deploys one application; the others stay as they are.", "Object", "Object",
          "400,401,403,412"),
    ROUTE("DELETE", APPLICATIONS "{application}", as_control_delete, CONTROL, 0,
          "deleteApplication", "Deletes one application.", NULL, "Object", "401,403,404,503"),
    ROUTE("PUT", "/api/serve/code/{name}", as_control_upload, CONTROL, BODY | PICKLE, "uploadCode",
          "Stores pickled code under its SHA-256; only by the unix socket.", "Object", "Object",
          "400,401,403,413,429,503"),
    ROUTE("GET", "/api/serve/events", as_control_stream_events, CONTROL, 0, "events",
          "Every change of what is served, as server-sent events.", NULL, "Object", "401,403"),
    ROUTE("GET", "/api/serve/config", as_control_config, CONTROL, 0, "config",
          "What is served, as a deployment file in YAML.", NULL, "Object", "401,403"),
    ROUTE("GET", "/api/serve/history", as_control_history, CONTROL, 0, "history",
          "The deployments so far.", NULL, "Object", "401,403,503"),
    ROUTE("POST", DEPLOYMENT "/scale", as_control_scale, CONTROL, BODY, "scale",
          "Sets the number of replicas.", "Object", "Object", "400,401,403,404,409,503"),
    ROUTE("POST", DEPLOYMENT "/restart", as_control_restart, CONTROL, 0, "restart",
          "Replaces every replica, as an update does.", NULL, "Object", "401,403,404"),
    ROUTE("POST", DEPLOYMENT "/rollback", as_control_rollback, CONTROL, 0, "rollback",
          "Returns to the last healthy version.", NULL, "Object", "401,403,404,503"),
};

static const struct as_rest_route status_routes[] = {
    {.method = "GET", .path = AS_REST_METRICS, .handle = as_status_metrics},
    {.method = "GET", .path = "/status", .handle = as_status_server},
    {.method = "GET", .path = "/workers", .handle = as_status_workers},
    {.method = "GET", .path = "/-/healthz", .handle = as_status_health},
    {.method = "GET", .path = "/-/routes", .handle = as_status_routes},
};

/* With --metrics-on-client-port, ahead of the clients' other paths. */
static const struct as_rest_route client_metrics[] = {
    {.method = "GET",
     .path = AS_REST_METRICS,
     .handle = as_status_client_metrics,
     .label = AS_RESOURCE_METRICS},
};
const struct as_rest_table as_rest_client_metrics = {client_metrics, AS_COUNT(client_metrics)};

const struct as_rest_table as_rest_tables[AS_INTERFACES] = {
    [AS_INTERFACE_CLIENTS] = {client_routes, AS_COUNT(client_routes)},
    [AS_INTERFACE_MANAGEMENT] = {management_routes, AS_COUNT(management_routes)},
    [AS_INTERFACE_CONTROL] = {control_routes, AS_COUNT(control_routes)},
    [AS_INTERFACE_STATUS] = {status_routes, AS_COUNT(status_routes)},
};
