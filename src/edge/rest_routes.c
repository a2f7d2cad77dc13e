/* Every path of plain HTTP. Rows of one path stand together; of two patterns that fit a path the
 * first counts. */
#include "edge/infer.h"
#include "edge/openapi.h"
#include "edge/rest_oip.h"

#define MODEL "/v2/models/{model}[/versions/{version}]"
/* What a request to a model may end in, whatever its handler raises: as_grpc_status_http. */
#define OF_MODELS "400,401,403,404,409,413,429,499,500,501,503,504"

const struct as_rest_route as_rest_routes[] = {
    {"POST",
     MODEL "/infer",
     as_infer_rest,
     AS_RESOURCE_INFER,
     true,
     {"infer", "Calls a model.", "InferRequest", "InferResponse", OF_MODELS}},
    {"GET",
     "/v2",
     as_rest_oip_server,
     AS_RESOURCE_SERVER,
     false,
     {"serverMetadata", "What this server is.", NULL, "ServerMetadata", ""}},
    {"GET",
     "/v2/",
     as_rest_oip_server,
     AS_RESOURCE_SERVER,
     false,
     {"serverMetadataSlash", "The same, as the protocol's document spells the path.", NULL,
      "ServerMetadata", ""}},
    {"GET",
     "/v2/health/live",
     as_rest_oip_live,
     AS_RESOURCE_LIVE,
     false,
     {"serverLive", "The server answers.", NULL, "ServerLive", ""}},
    {"GET",
     "/v2/health/ready",
     as_rest_oip_ready,
     AS_RESOURCE_READY,
     false,
     {"serverReady", "Every model has a worker.", NULL, "ServerReady", "503*"}},
    {"GET",
     MODEL,
     as_rest_oip_model,
     AS_RESOURCE_MODEL,
     false,
     {"modelMetadata", "Versions and signature of a model.", NULL, "ModelMetadata", "400,404,503"}},
    {"GET",
     MODEL "/ready",
     as_rest_oip_model_ready,
     AS_RESOURCE_MODEL_READY,
     false,
     {"modelReady", "The model has a worker.", NULL, "ModelReady", "400,404,503*"}},
    {"GET",
     "/openapi.json",
     as_openapi_serve,
     AS_RESOURCE_OPENAPI,
     false,
     {"openapi", "This document.", NULL, "Object", ""}},
};
const uint32_t as_rest_n_routes = AS_COUNT(as_rest_routes);
