#include "edge/exchange/exchange.h"

#include "base/counter.h"
#include "base/memory/slab.h"
#include "edge/exchange/access.h"
#include "edge/exchange/cors.h"
#include "edge/exchange/client_timeouts.h"
#include "edge/exchange/dispatch_query.h"
#include "edge/exchange/key_access.h"
#include "edge/exchange/offload.h"

#define POOL_MAX   256u
#define OVER_LIMIT "the metadata is over --max-header-bytes or --max-headers"

/* --- memory --- */

static struct as_exchange *new_exchange(struct as_edge *e)
{
    struct as_exchange *x = as_slab_get(sizeof(*x));

    if (!x)
        return NULL;
    x->pool_generation = e->pool_generation;
    as_arena_init(&x->arena, x->inline_arena, sizeof(x->inline_arena));
    as_arena_init(&x->dispatch_arena, NULL, 0);
    as_list_init(&x->progress.node);
    return x;
}

static void push_to_pool(struct as_edge *e, struct as_exchange *x)
{
    x->next_free = e->pool;
    e->pool = x;
    as_counter_add(&e->stat.pooled, 1);
}

static struct as_exchange *pop_from_pool(struct as_edge *e)
{
    struct as_exchange *x = e->pool;

    if (!x)
        return NULL;
    e->pool = x->next_free;
    as_counter_sub(&e->stat.pooled, 1);
    e->pool_low = AS_MIN(e->pool_low, e->stat.pooled);
    return x;
}

static struct as_exchange *alloc_exchange(struct as_edge *e)
{
    struct as_exchange *x = pop_from_pool(e);

    if (!x)
        x = new_exchange(e);
    if (x)
        as_counter_add(&e->stat.exchanges, 1);
    return x;
}

static void free_if_unused(struct as_exchange *x)
{
    struct as_edge *e = x->edge;

    if (x->conn || x->in_fleet || x->pending.offload)
        return;
    as_account_uncharge(x->budget.requests, x->budget.reserved);
    as_key_access_release(x);
    as_blob_unref(x->body.blob);
    as_blob_unref(x->body.inputs);
    as_blob_unref(x->answer.text);
    as_blob_unref(x->answer.tensors);
    as_blob_unref(x->answer.deflated);
    if (__builtin_expect(x->budget.is_held, 0)) { /* after the blobs, which are charged to them */
        as_account_unref(x->budget.requests);
        as_account_unref(x->budget.answers);
    }
    as_registry_unref(x->registry);
    as_arena_reset(&x->arena);
    if (x->answer.parts || x->answer.in_dispatch_arena)
        as_arena_reset(&x->dispatch_arena);
    as_counter_sub(&e->stat.exchanges, 1);
    if (x->pool_generation != e->pool_generation) {
        as_slab_put(x);
    } else if (e->stat.pooled >= POOL_MAX) {
        e->pool_overflowed = true;
        as_slab_put(x);
    } else {
        push_to_pool(e, x);
    }
}

/* Exchanges that stay when others are freed lie between these, in as many runs of the slab as the
 * most that there ever were, and keep all of these runs. So the exchanges to keep are allocated
 * anew, which puts them together, and those in use are freed when they are not used any more. */
static void replace_pool(struct as_edge *e, uint64_t keep)
{
    struct as_exchange *x;

    as_exchange_pool_free(e);
    e->pool_generation++;
    while (e->stat.pooled < keep && (x = new_exchange(e)) != NULL)
        push_to_pool(e, x);
}

void as_exchange_pool_trim(struct as_edge *e)
{
    uint64_t n = e->pool_low > AS_EXCHANGE_POOL_MIN ? e->pool_low - AS_EXCHANGE_POOL_MIN : 0;

    if (n || e->pool_overflowed)
        replace_pool(e, e->stat.pooled - n);
    e->pool_overflowed = false;
    e->pool_low = e->stat.pooled;
}

void as_exchange_pool_free(struct as_edge *e)
{
    struct as_exchange *x;

    while ((x = pop_from_pool(e)) != NULL)
        as_slab_put(x);
}

/* --- the model --- */

/* A client has offered its bytes to a deployment that unpickles what it gets. */
static void refuse_call(struct as_exchange *x, struct as_str name)
{
    struct as_edge *e = x->edge;
    char quoted[AS_NAME_MAX + 8];
    uint64_t skipped;

    as_counter_add(&e->stat.calls_refused[x->grpc], 1);
    if (as_edge_may_log(e, AS_EDGE_LOG_CALL + x->grpc, &skipped))
        as_log_event(e->log, AS_LOG_WARN, "payload_refused",
                     "from=%s model=%s reason=\"it takes calls of handles only\" skipped=%lu",
                     x->grpc ? "grpc" : "rest", as_log_quote(quoted, sizeof(quoted), name),
                     (unsigned long)skipped);
    as_exchange_fail(x, AS_ENOTFOUND,
                     "unknown model '%.*s': the deployment of this name takes calls of handles "
                     "only",
                     AS_STR_CUT(name, AS_NAME_MAX));
}

static const struct as_model *find_model(struct as_exchange *x, struct as_str name,
                                         struct as_str version, bool to_execute)
{
    bool known;

    if (!as_key_access_check_model(x, name))
        return NULL;
    if (!x->registry)
        x->registry = as_registry_ref(x->edge->client.registry);
    x->model = as_registry_find(x->registry, name, version, &known);
    if (x->model)
        return x->model;
    if (!name.n)
        as_exchange_fail(x, AS_EINVALID, "the model name is empty");
    else if (known)
        as_exchange_fail(x, AS_ENOTFOUND, "model '%.*s' has no version '%.*s'",
                         AS_STR_CUT(name, AS_NAME_MAX), AS_STR_CUT(version, AS_VERSION_MAX));
    else if (to_execute && as_fleet_is_call_target(x->edge->client.fleet, name))
        refuse_call(x, name);
    else if (x->edge->client.models_pending)
        as_exchange_fail(x, AS_EUNAVAILABLE, "model '%.*s' is not known yet: workers are starting",
                         AS_STR_CUT(name, AS_NAME_MAX));
    else
        as_exchange_fail(x, AS_ENOTFOUND, "unknown model '%.*s'", AS_STR_CUT(name, AS_NAME_MAX));
    return NULL;
}

static const struct as_model *check_loaded(struct as_exchange *x, const struct as_model *m)
{
    if (!m || __builtin_expect(!m->unloaded, 1))
        return m;
    as_exchange_fail(x, AS_ENOTFOUND, "model '%.*s' has no available versions: it is unloaded",
                     AS_STR_FMT(m->name));
    return NULL;
}

const struct as_model *as_exchange_find_any_model(struct as_exchange *x, struct as_str name,
                                                  struct as_str version)
{
    return find_model(x, name, version, false);
}

const struct as_model *as_exchange_find_model(struct as_exchange *x, struct as_str name,
                                              struct as_str version)
{
    return check_loaded(x, find_model(x, name, version, false));
}

const struct as_model *as_exchange_find_model_to_infer(struct as_exchange *x, struct as_str name,
                                                       struct as_str version)
{
    return check_loaded(x, find_model(x, name, version, true));
}

/* --- the bytes of the request --- */

static void on_data(void *conn AS_UNUSED, void *req, const uint8_t *p, size_t n)
{
    struct as_exchange *x = req;

    x->body.received += n;
    x->kind->receive(x, p, n);
}

static void receive_grpc(struct as_exchange *x, const uint8_t *p, size_t n)
{
    const uint8_t *bytes;
    uint64_t len;
    bool compressed;

    as_conn_consume(x->conn, x->stream, n);
    while (x->state == AS_EXCHANGE_RECEIVING) {
        switch (as_grpc_read(&x->body.reader, &p, &n, &bytes, &len, &compressed)) {
        case AS_GRPC_MESSAGE:
            if (x->body.reader.messages > 1)
                as_exchange_fail(x, AS_EUNIMPLEMENTED, "more than one message on a unary call");
            else
                as_exchange_begin_message(x, len, compressed, false);
            break;
        case AS_GRPC_BYTES:
            as_exchange_append(x, bytes, (size_t)len);
            break;
        case AS_GRPC_BAD:
            as_exchange_fail(x, AS_EINTERNAL,
                             "malformed gRPC frame: compression flag is not 0 or 1");
            break;
        case AS_GRPC_MORE:
            return;
        }
    }
}

static void on_end(void *conn AS_UNUSED, void *req)
{
    struct as_exchange *x = req;

    x->body.ended = true;
    if (x->answer.deferred)
        x->kind->send_deferred(x);
    else if (x->state == AS_EXCHANGE_RECEIVING || x->kind->streams)
        x->kind->end(x);
}

static void end_grpc(struct as_exchange *x)
{
    as_client_timeouts_stop(x);
    if (!as_grpc_at_boundary(&x->body.reader))
        as_exchange_fail(x, AS_EINTERNAL, "the request ended inside a message");
    else if (x->body.reader.messages != 1)
        as_exchange_fail(x, AS_EUNIMPLEMENTED, "a unary call needs one message, got none");
    else if (x->body.is_compressed)
        as_exchange_inflate(x, as_grpc_methods[x->rpc].handle);
    else
        as_grpc_methods[x->rpc].handle(x);
}

/* --- the head --- */

enum as_rpc as_grpc_method_find(enum as_interface interface, struct as_str path)
{
    uint32_t i = 0;

    while (i < AS_RPC_UNKNOWN && !(as_grpc_methods[i].interfaces & 1u << interface &&
                                   as_str_eq(path, as_str_of(as_grpc_methods[i].path))))
        i++;
    return (enum as_rpc)i;
}

static enum as_rpc find_method(const struct as_edge *e, struct as_str path)
{
    enum as_rpc rpc = as_grpc_method_find(e->conf.interface, path);

    if (e->conf.no_reflection && (rpc == AS_RPC_REFLECTION || rpc == AS_RPC_REFLECTION_ALPHA))
        return AS_RPC_UNKNOWN;
    return rpc;
}

/* The RPC of a path that is none of ours: a method of a service of the user. */
static enum as_rpc find_service(struct as_exchange *x)
{
    const struct as_service_table *t = as_registry_services(x->edge->client.registry);
    const struct as_service_method *m = NULL;

    for (uint32_t i = 0; t && !m && i < t->n; i++)
        m = as_service_set_find(t->at[i].set, x->head->path);
    if (!m)
        return AS_RPC_UNKNOWN;
    return m->takes_inputs || m->gives_parts ? AS_RPC_SERVICE_STREAM : AS_RPC_SERVICE;
}

static void check_encoding(struct as_exchange *x)
{
    struct as_str name = x->head->grpc_encoding;

    if (as_gzip_format_of(name, &x->body.encoding))
        as_exchange_fail(
            x, AS_EUNIMPLEMENTED,
            "grpc-encoding '%.*s' is not supported; the server reads " AS_GZIP_GRPC_ACCEPT,
            AS_STR_CUT(name, 64));
}

void as_exchange_read_timeout(struct as_exchange *x)
{
    const struct as_http_head *head = x->head;
    as_ns timeout;

    if (as_grpc_timeout(head->grpc_timeout, &timeout)) {
        as_exchange_fail(x, AS_EINVALID, "malformed grpc-timeout '%.*s'",
                         AS_STR_CUT(head->grpc_timeout, 32));
        return;
    }
    if (timeout == 0)
        as_exchange_fail(x, AS_EDEADLINE, "the deadline has passed already");
    else if (timeout < AS_NEVER - as_loop_now(x->edge->loop))
        x->deadline = as_loop_now(x->edge->loop) + timeout;
}

static void fail_over_max_requests(struct as_exchange *x)
{
    as_exchange_fail(x, AS_EFULL,
                     "the server has reached its limit of open requests (--max-requests)");
}

static void start_grpc(struct as_exchange *x)
{
    const struct as_grpc_method *method = &as_grpc_methods[x->rpc];
    const struct as_http_head *head = x->head;

    if (x->state != AS_EXCHANGE_RECEIVING) /* its key was refused, and that was counted */
        return;
    if (x->rpc == AS_RPC_UNKNOWN) {
        bool pending = as_key_access_check_unknown(x) &&
                       x->edge->conf.interface == AS_INTERFACE_CLIENTS &&
                       x->edge->client.models_pending;

        as_exchange_fail(x, pending ? AS_EUNAVAILABLE : AS_EUNIMPLEMENTED, "unknown method %.*s%s",
                         AS_STR_CUT(head->path, 256), pending ? ": workers are starting" : "");
        return;
    }
    if (method->check && !method->check(x))
        return;
    /* HTTP/2 has checked the value */
    if (!head->te.n) {
        as_exchange_fail(
            x, AS_EINTERNAL,
            "the header 'te: trailers' is missing: a proxy on the way does not support gRPC");
        return;
    }
    if (head->grpc_encoding.n)
        check_encoding(x);
    if (head->grpc_timeout.n)
        as_exchange_read_timeout(x);
    if (as_rpc_is_streaming(x->rpc) && x->state == AS_EXCHANGE_RECEIVING)
        method->handle(x);
}

static const struct as_exchange_kind unary_grpc = {
    .start = start_grpc,
    .receive = receive_grpc,
    .end = end_grpc,
    .count = as_exchange_count_grpc,
    .fail = as_exchange_fail_grpc,
};

static bool is_grpc(const struct as_http_head *head)
{
    return as_grpc_is_content_type(head->content_type);
}

/* Answers a request for which there is no memory, without an exchange. */
static void answer_no_memory(struct as_conn *c, uint32_t stream, const struct as_http_head *head)
{
    static const struct as_http_header grpc[] = {
        {{"content-type", 12}, {"application/grpc", 16}},
        {{"grpc-status", 11}, {"8", 1}},
        {{"grpc-message", 12}, {"no memory for the request", 25}},
    };
    struct as_http_header plain[AS_CORS_FIELDS];
    struct as_http_answer a = {.status = 503, .headers = plain};

    if (is_grpc(head))
        a = (struct as_http_answer){.status = 200, .headers = grpc, .n_headers = AS_COUNT(grpc)};
    else
        as_cors_put(c->edge, head, plain, &a.n_headers);
    as_conn_answer(c, stream, &a);
    as_conn_schedule_flush(c);
}

/* c: its connection, or NULL. */
static void init_exchange(struct as_exchange *x, struct as_edge *e, struct as_conn *c,
                          uint32_t stream, const struct as_http_head *head,
                          struct as_account *requests, struct as_account *answers)
{
    memset(x, 0, offsetof(struct as_exchange, next_free));
    x->edge = e;
    x->conn = c;
    x->stream = stream;
    x->head = head;
    x->kind = &as_exchange_http;
    x->deadline = AS_NEVER;
    x->body.ended = head && head->end_stream;
    x->budget.requests = requests;
    x->budget.answers = answers;
    x->rest.route = NULL;
    x->call.payload = (struct as_payload){0}; /* its kind says which of the other fields are read */
}

struct as_exchange *as_exchange_child(struct as_exchange *parent)
{
    struct as_edge *e = parent->edge;
    struct as_exchange *x =
        e->stat.exchanges < e->conf.max_requests ? alloc_exchange(parent->edge) : NULL;

    if (!x)
        return NULL;
    init_exchange(x, parent->edge, parent->conn, parent->stream, parent->head,
                  parent->budget.requests, parent->budget.answers);
    x->grpc = true;
    x->kind = &unary_grpc;
    x->rpc = parent->rpc;
    x->deadline = parent->deadline;
    x->key = parent->key ? as_key_ref(parent->key) : NULL;
    return x;
}

struct as_exchange *as_exchange_shadow(struct as_exchange *of)
{
    struct as_edge *e = of->edge;
    struct as_exchange *x = e->stat.exchanges < e->conf.max_requests ? alloc_exchange(e) : NULL;

    if (!x)
        return NULL;
    init_exchange(x, e, NULL, 0, NULL, of->budget.requests, of->budget.answers);
    x->budget.is_held = true;
    as_account_ref(x->budget.requests);
    as_account_ref(x->budget.answers);
    return x;
}

void as_exchange_cancel(struct as_exchange *x)
{
    if (!x->in_fleet || x->cancelled)
        return;
    x->cancelled = true;
    as_fleet_client_cancel(&x->edge->client, &x->call); /* may release it at once */
}

/* The connection may be freed before the exchange: then the exchange holds the accounts. */
static void detach_from_conn(struct as_exchange *x)
{
    x->conn = NULL;
    if (!x->in_fleet && !x->pending.offload)
        return;
    x->budget.is_held = true;
    as_account_ref(x->budget.requests);
    as_account_ref(x->budget.answers);
}

void as_exchange_free_child(struct as_exchange *x)
{
    detach_from_conn(x);
    x->head = NULL;
    free_if_unused(x);
}

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct as_conn *c = conn;
    struct as_exchange *x = alloc_exchange(c->edge);

    if (!x) {
        answer_no_memory(c, stream, head);
        return NULL;
    }
    init_exchange(x, c->edge, c, stream, head, c->requests, c->answers);
    as_conn_begin_request(c);
    /* everything else is plain HTTP, even with the content-type of gRPC */
    x->grpc = c->protocol->carries_grpc && is_grpc(head) && as_str_eq(head->method, AS_STR("POST"));
    x->rpc = AS_RPC_HTTP;
    if (x->grpc) {
        x->kind = &unary_grpc;
        x->rpc = find_method(c->edge, head->path);
        if (x->rpc == AS_RPC_UNKNOWN && c->edge->conf.interface == AS_INTERFACE_CLIENTS)
            x->rpc = find_service(x);
    }
    if (c->edge->stat.exchanges > c->edge->conf.max_requests)
        fail_over_max_requests(x);
    else if (__builtin_expect(!c->trusted, 0))
        as_access_check_request(x);
    else if (x->grpc && as_cors_may_be_page(c->edge, head) && !as_access_check_change(x))
        ; /* it was answered */
    else if (c->edge->conf.api_keys)
        as_key_access_check_request(x);
    x->kind->start(x);
    if (x->state == AS_EXCHANGE_RECEIVING && !head->end_stream && !x->streaming)
        as_client_timeouts_start_upload(x);
    return x;
}

static void on_close(void *conn, void *req, uint32_t code AS_UNUSED)
{
    struct as_conn *c = conn;
    struct as_exchange *x = req;

    as_conn_end_request(c);
    as_client_timeouts_stop(x);
    if (c->close_reason == AS_CLOSE_SEND_TIMEOUT)
        as_client_timeouts_log_unread(x);
    if (x->state != AS_EXCHANGE_ANSWERED)
        x->kind->count(x, x->grpc ? as_err_grpc(AS_ECANCELLED) : as_err_http(AS_ECANCELLED));
    if (x->answer.ops)
        x->answer.ops->gone(x);
    as_compress_cancel(x->pending.compress);
    as_offload_cancel(x->pending.offload);
    as_dispatch_query_detach(x);
    detach_from_conn(x);
    x->head = NULL;
    if (x->in_fleet)
        as_exchange_cancel(x);
    else
        free_if_unused(x);
}

static void on_drained(void *conn AS_UNUSED, void *req)
{
    struct as_exchange *x = req;

    if (x->answer.ops)
        x->answer.ops->drained(x);
}

/* To an answer whose fields are to stay valid: they are in the loop's part of the edge. */
static void put_cors(struct as_edge *e, const struct as_http_head *head, struct as_http_answer *a)
{
    uint32_t n = 0;

    static_assert(AS_COUNT(e->over_limit) == AS_CORS_FIELDS, "room for all of them");
    as_cors_put(e, head, e->over_limit, &n);
    if (n) {
        a->headers = e->over_limit;
        a->n_headers = n;
    }
}

/* Metadata over a limit: gRPC answers RESOURCE_EXHAUSTED, plain HTTP 431. */
static void on_over_limit(void *conn, const struct as_http_head *head, struct as_http_answer *a)
{
    static const struct as_http_header headers[] = {
        {{"content-type", 12}, {"application/grpc", 16}},
        {{"grpc-status", 11}, {"8", 1}},
        {{"grpc-message", 12}, {OVER_LIMIT, sizeof(OVER_LIMIT) - 1}},
    };
    struct as_conn *c = conn;

    as_conn_schedule_flush(c);
    if (is_grpc(head))
        *a = (struct as_http_answer){
            .status = 200, .headers = headers, .n_headers = AS_COUNT(headers)};
    else
        put_cors(c->edge, head, a);
}

const struct as_http_ops as_exchange_ops = {
    .on_request = on_request,
    .on_data = on_data,
    .on_end = on_end,
    .on_drained = on_drained,
    .on_over_limit = on_over_limit,
    .on_close = on_close,
};

void as_exchange_released(struct as_exchange *x)
{
    x->in_fleet = false;
    free_if_unused(x);
}

void as_exchange_offload_done(struct as_exchange *x)
{
    x->pending.offload = NULL;
    free_if_unused(x);
}
