#include "edge/rest/rest.h"

#include "edge/exchange/access.h"
#include "edge/exchange/cors.h"
#include "edge/exchange/client_timeouts.h"
#include "edge/exchange/key_access.h"
#include "edge/rest/landing_page.h"
#include "edge/rest/rest_body.h"

#define ALLOW_RPC  "POST, OPTIONS"
#define ALLOW_ANY  "GET, HEAD, POST, OPTIONS"
#define ALLOW_ROOM 64 /* room for the methods of a path */

/* --- labels --- */

static const char *const resource_names[AS_RESOURCES] = {
    [AS_RESOURCE_NONE] = "none",
    [AS_RESOURCE_SERVER] = "server",
    [AS_RESOURCE_LIVE] = "live",
    [AS_RESOURCE_READY] = "ready",
    [AS_RESOURCE_MODEL] = "model",
    [AS_RESOURCE_MODEL_READY] = "model_ready",
    [AS_RESOURCE_INFER] = "infer",
    [AS_RESOURCE_GENERATE] = "generate",
    [AS_RESOURCE_GENERATE_STREAM] = "generate_stream",
    [AS_RESOURCE_CONFIG] = "config",
    [AS_RESOURCE_STATISTICS] = "statistics",
    [AS_RESOURCE_REPOSITORY] = "repository",
    [AS_RESOURCE_SHARED_MEMORY] = "shared_memory",
    [AS_RESOURCE_TRACE] = "trace",
    [AS_RESOURCE_LOGGING] = "logging",
    [AS_RESOURCE_OPENAPI] = "openapi",
    [AS_RESOURCE_MANAGEMENT] = "management",
    [AS_RESOURCE_CONTROL] = "control",
    [AS_RESOURCE_APPLICATION] = "application",
    [AS_RESOURCE_ROUTES] = "routes",
    [AS_RESOURCE_METRICS] = "metrics",
};

const char *as_resource_name(enum as_resource r)
{
    return resource_names[r];
}

uint32_t as_counted_http_status(uint32_t i)
{
    static const uint16_t statuses[AS_HTTP_STATUSES] = {200, 204, 400, 401, 403, 404, 405,
                                                        408, 409, 413, 415, 429, 431, 499,
                                                        500, 501, 503, 504, 505, 422, 0};

    return i < AS_HTTP_STATUSES ? statuses[i] : 0;
}

/* --- which row --- */

static const struct as_rest_route *find_path(const struct as_rest_table *t, struct as_str path,
                                             struct as_rest_match *ret_m)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const char *pattern = t->rows[i].path;

        if (i && strcmp(pattern, t->rows[i - 1].path) == 0)
            continue; /* another method of the same path */
        if (as_route_matches(pattern, path, ret_m))
            return &t->rows[i];
    }
    return NULL;
}

const struct as_rest_route *as_rest_find(enum as_interface interface, struct as_str path,
                                         struct as_rest_match *ret_m)
{
    return find_path(&as_rest_tables[interface], path, ret_m);
}

static bool same_path(const struct as_rest_route *r, const struct as_rest_route *first,
                      const struct as_rest_table *t)
{
    return r < t->rows + t->n && strcmp(r->path, first->path) == 0;
}

/* The row of the method, among the rows of one path. */
static const struct as_rest_route *find_row(const struct as_rest_route *first, struct as_str method,
                                            const struct as_rest_table *t)
{
    if (as_str_eq(method, AS_STR("HEAD")))
        method = AS_STR("GET");
    for (const struct as_rest_route *r = first; same_path(r, first, t); r++) {
        if (as_str_eq(method, as_str_of(r->method)))
            return r;
    }
    return NULL;
}

/* Writes the methods of a path, for the header Allow. */
static void put_allow(char out[ALLOW_ROOM], const struct as_rest_route *first,
                      const struct as_rest_table *t)
{
    size_t n = 0;

    for (const struct as_rest_route *r = first; same_path(r, first, t); r++)
        n += (size_t)snprintf(out + n, ALLOW_ROOM - n, "%s, ",
                              strcmp(r->method, "GET") ? r->method : "GET, HEAD");
    snprintf(out + n, ALLOW_ROOM - n, "OPTIONS");
}

/* --- heads --- */

static bool is_method(const struct as_exchange *x, const char *name)
{
    return as_str_eq(x->head->method, as_str_of(name));
}

static void answer_allow(struct as_exchange *x, uint32_t status, const char *text,
                         const char *allow)
{
    struct as_http_header h = {AS_STR("allow"), as_str_of(allow)};
    struct as_http_piece body = {(const uint8_t *)text, strlen(text), NULL};

    as_rest_send(
        x, &(struct as_rest_reply){
               .status = status, .extra = &h, .n_extra = 1, .body = &body, .n_body = body.n > 0});
}

static bool decode_variable(struct as_exchange *x, struct as_str *v)
{
    char *p;

    if (!v->n || !memchr(v->p, '%', v->n))
        return true;
    p = as_exchange_alloc(x, v->n, 1, "the request");
    if (!p)
        return false;
    if (as_route_decode(*v, p, &v->n)) {
        as_exchange_fail(x, AS_EINVALID, "malformed percent-encoding in '%.*s'",
                         (int)AS_MIN(v->n, (size_t)AS_NAME_MAX), v->p);
        return false;
    }
    v->p = p;
    return true;
}

/* A gRPC content-type with a method other than POST or over HTTP/1.1, or the path of an RPC without
 * that content-type. Answered as gRPC's PROTOCOL-HTTP2 and its servers do. */
static void answer_misplaced_rpc(struct as_exchange *x)
{
    if (is_method(x, "OPTIONS"))
        answer_allow(x, 204, "", ALLOW_RPC);
    else if (!is_method(x, "POST"))
        answer_allow(x, 405, "{\"error\":\"gRPC calls are POST\"}", ALLOW_RPC);
    else if (!x->conn->protocol->carries_grpc && as_grpc_is_content_type(x->head->content_type))
        answer_allow(x, 505, "{\"error\":\"gRPC needs HTTP/2, and this is HTTP/1.1\"}", ALLOW_RPC);
    else
        as_exchange_fail(x, AS_EMEDIA, "content-type must be application/grpc");
}

static bool is_ours(const struct as_exchange *x, const struct as_rest_table *table,
                    struct as_str path)
{
    struct as_rest_match unused = {0};

    return find_path(table, path, &unused) ||
           as_grpc_method_find(x->edge->conf.interface, path) != AS_RPC_UNKNOWN;
}

/* Timeouts are read from the header grpc-timeout, as by gateways from HTTP to gRPC. */
static void start_body(struct as_exchange *x)
{
    if (x->head->grpc_timeout.n)
        as_exchange_read_timeout(x);
    if (x->state == AS_EXCHANGE_RECEIVING)
        as_rest_body_begin(x, x->rest.route->flags & AS_REST_BODY);
}

static bool is_client_metrics(const struct as_exchange *x, struct as_str path)
{
    return x->edge->conf.interface == AS_INTERFACE_CLIENTS && x->edge->conf.status_page &&
           as_str_eq(path, AS_STR(AS_REST_METRICS));
}

static bool answer_preflight(struct as_exchange *x)
{
    struct as_http_header fields[AS_CORS_PREFLIGHT];
    char text[AS_CORS_TEXT];
    uint32_t n;

    if (!as_cors_is_preflight(x->edge, x->head))
        return false;
    n = as_cors_put_preflight(x->edge, x->head, fields, text);
    as_rest_send(x, &(struct as_rest_reply){.status = 204, .extra = fields, .n_extra = n});
    return true;
}

/* Not one model or application. */
static bool concerns_server(const struct as_exchange *x)
{
    enum as_resource r = x->rest.route->label;

    return r == AS_RESOURCE_SHARED_MEMORY || r == AS_RESOURCE_LOGGING || r == AS_RESOURCE_METRICS ||
           (r == AS_RESOURCE_TRACE && !x->rest.model.n);
}

static void start(struct as_exchange *x)
{
    struct as_str path = x->head->path, query = {0};
    const char *mark = path.n ? memchr(path.p, '?', path.n) : NULL;
    enum as_interface interface = x->edge->conf.interface;
    const struct as_rest_table *table;
    const struct as_rest_route *first, *row;
    char allow[ALLOW_ROOM];
    bool is_rpc;

    if (x->state != AS_EXCHANGE_RECEIVING || answer_preflight(x))
        return;
    if (is_method(x, "OPTIONS") && as_str_eq(path, AS_STR("*"))) { /* the server as a whole */
        answer_allow(x, 204, "", ALLOW_ANY);
        return;
    }
    if (mark) {
        query = (struct as_str){mark + 1, (size_t)(path.p + path.n - mark) - 1};
        path.n = (size_t)(mark - path.p);
    }
    if (is_client_metrics(x, path))
        table = &as_rest_client_metrics;
    else if (interface == AS_INTERFACE_CLIENTS && as_rest_ingress.start(x, path, query))
        return;
    else
        table = &as_rest_tables[interface];
    is_rpc = as_grpc_is_content_type(x->head->content_type);
    first = is_rpc ? NULL : find_path(table, path, &x->rest);
    if (!first) {
        if (is_rpc && !is_ours(x, table, path) && !as_key_access_check_unknown(x))
            ; /* as a path of an application that the key may not use */
        else if (is_rpc || as_grpc_method_find(interface, path) != AS_RPC_UNKNOWN)
            answer_misplaced_rpc(x);
        else if (!as_landing_page_answer(x, path) && as_key_access_check_unknown(x) &&
                 !(interface == AS_INTERFACE_CLIENTS && as_rest_ingress.not_found(x, path)))
            as_exchange_fail(x, AS_ENOTFOUND, "not found");
        return;
    }
    row = find_row(first, x->head->method, table);
    x->rest.query = query;
    x->rest.route = row ? row : first; /* for the metrics */
    if (!row) {
        put_allow(allow, first, table);
        if (is_method(x, "OPTIONS"))
            answer_allow(x, 204, "", allow);
        else
            answer_allow(x, 405, "{\"error\":\"method not allowed\"}", allow);
    } else if (decode_variable(x, &x->rest.model) && decode_variable(x, &x->rest.version) &&
               decode_variable(x, &x->rest.name) && decode_variable(x, &x->rest.application) &&
               decode_variable(x, &x->rest.deployment) &&
               (!concerns_server(x) || as_key_access_check_server(x)) &&
               (!(row->flags & AS_REST_CHANGES) || as_access_check_change(x))) {
        start_body(x);
    }
}

static void call_handler(struct as_exchange *x)
{
    x->rest.route->handle(x, &x->rest);
}

static void receive(struct as_exchange *x, const uint8_t *p, size_t n)
{
    as_conn_consume(x->conn, x->stream, n);
    if (!x->answer.deferred)
        as_rest_body_receive(x, p, n);
    else if (x->body.received > AS_REST_DISCARD_MAX)
        as_rest_send_deferred(x);
}

static void end(struct as_exchange *x)
{
    as_client_timeouts_stop(x);
    as_rest_body_end(x, call_handler);
}

const struct as_exchange_kind as_exchange_http = {
    .start = start,
    .receive = receive,
    .end = end,
    .send_deferred = as_rest_send_deferred,
    .count = as_rest_count,
    .fail = as_rest_fail,
};

bool as_rest_read_json(struct as_exchange *x, enum as_json_field_type type, void *to,
                       const char *wrong)
{
    struct as_json *j = x->body.len ? as_rest_json_reader(x, false) : NULL;
    struct as_json_value root;
    int err;

    if (!j)
        return !x->body.len;
    err = as_json_open(j, &x->arena, x->body.p, x->body.len, &root);
    if (!err)
        err = as_json_field(j, &root, type, to);
    if (!err)
        err = as_json_expect_end(j);
    if (err && err != AS_EPROTO && err != AS_ENOMEM)
        as_exchange_fail(x, AS_EINVALID, "%s", wrong);
    else
        as_exchange_is_parsed(x, err, as_json_why(j));
    as_json_close(j);
    return !err;
}

struct as_json *as_rest_json_reader(struct as_exchange *x, bool large)
{
    struct as_json **j = large ? &x->edge->large_json : &x->edge->json;

    if (!*j)
        *j = as_json_new();
    if (!*j)
        as_exchange_fail(x, AS_ENOMEM, "no memory to read JSON");
    return *j;
}
