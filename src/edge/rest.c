/* Plain HTTP/2 requests on the gRPC port: health and server metadata. */
#include "edge/exchange.h"

#define ALLOW_RPC "POST, OPTIONS"
#define ALLOW_GET "GET, HEAD, OPTIONS"
#define ALLOW_ANY "GET, HEAD, POST, OPTIONS"

static void health_ready(struct as_exchange *x)
{
    bool ready = !x->edge->draining && as_fleet_ready(x->edge->client.fleet);

    as_exchange_http(x, ready ? 200 : 503,
                     ready ? "{\"ready\":true,\"live\":true}" : "{\"ready\":false,\"live\":true}",
                     NULL);
}

static void health_live(struct as_exchange *x)
{
    as_exchange_http(x, 200, "{\"live\":true}", NULL);
}

static void server(struct as_exchange *x)
{
    as_exchange_http(
        x, 200, "{\"name\":\"anyserve\",\"version\":\"" AS_VERSION "\",\"extensions\":[]}", NULL);
}

static const struct {
    const char *path;
    void (*get)(struct as_exchange *x);
} routes[] = {
    {"/v2", server},
    {"/v2/", server},
    {"/v2/health/live", health_live},
    {"/v2/health/ready", health_ready},
};

static bool is_method(const struct as_exchange *x, const char *name)
{
    return as_str_eq(x->head->method, as_str_of(name));
}

/* A gRPC content-type on another method than POST, or an RPC's path without the content-type:
 * gRPC's PROTOCOL-HTTP2 and what its servers answer. */
void as_rest_head(struct as_exchange *x)
{
    bool is_rpc = x->grpc || as_service_rpc(x->head->path) != AS_RPC_UNKNOWN;

    if (!is_rpc)
        return;
    if (is_method(x, "OPTIONS"))
        as_exchange_http(x, 204, "", ALLOW_RPC);
    else if (!is_method(x, "POST"))
        as_exchange_http(x, 405, "{\"error\":\"gRPC calls are POST\"}", ALLOW_RPC);
    else
        as_exchange_http(x, 415, "{\"error\":\"content-type must be application/grpc\"}", NULL);
}

void as_rest_request(struct as_exchange *x)
{
    const struct as_http_head *head = x->head;
    const char *query = head->path.n ? memchr(head->path.p, '?', head->path.n) : NULL;
    struct as_str path = head->path;

    if (is_method(x, "OPTIONS") && as_str_eq(path, AS_STR("*"))) { /* the server as a whole */
        as_exchange_http(x, 204, "", ALLOW_ANY);
        return;
    }
    if (query)
        path.n = (size_t)(query - path.p);
    for (size_t i = 0; i < AS_COUNT(routes); i++) {
        if (!as_str_eq(path, as_str_of(routes[i].path)))
            continue;
        if (is_method(x, "GET") || is_method(x, "HEAD"))
            routes[i].get(x);
        else if (is_method(x, "OPTIONS"))
            as_exchange_http(x, 204, "", ALLOW_GET);
        else
            as_exchange_http(x, 405, "{\"error\":\"method not allowed\"}", ALLOW_GET);
        return;
    }
    as_exchange_http(x, 404, "{\"error\":\"not found\"}", NULL);
}
