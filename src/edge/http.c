/* Plain HTTP/2 requests on the gRPC port: health and server metadata. */
#include "edge/exchange.h"

static void health_ready(struct as_exchange *x)
{
    bool ready = !x->edge->draining && as_fleet_ready(x->edge->client.fleet);

    as_exchange_http(x, ready ? 200 : 503,
                     ready ? "{\"ready\":true,\"live\":true}" : "{\"ready\":false,\"live\":true}");
}

static void health_live(struct as_exchange *x)
{
    as_exchange_http(x, 200, "{\"live\":true}");
}

static void server(struct as_exchange *x)
{
    as_exchange_http(x, 200,
                     "{\"name\":\"anyserve\",\"version\":\"" AS_VERSION "\",\"extensions\":[]}");
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

void as_http_request(struct as_exchange *x)
{
    const struct as_h2_head *head = x->head;
    const char *query = head->path.n ? memchr(head->path.p, '?', head->path.n) : NULL;
    struct as_str path = head->path;

    if (as_service_rpc(path) != AS_RPC_UNKNOWN) {
        as_exchange_http(x, 415, "{\"error\":\"content-type must be application/grpc\"}");
        return;
    }
    if (query)
        path.n = (size_t)(query - path.p);
    for (size_t i = 0; i < AS_COUNT(routes); i++) {
        if (!as_str_eq(path, as_str_of(routes[i].path)))
            continue;
        if (as_str_eq(head->method, AS_STR("GET")) || as_str_eq(head->method, AS_STR("HEAD")))
            routes[i].get(x);
        else
            as_exchange_http(x, 405, "{\"error\":\"method not allowed\"}");
        return;
    }
    as_exchange_http(x, 404, "{\"error\":\"not found\"}");
}
