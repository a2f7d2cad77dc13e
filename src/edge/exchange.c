#include "edge/exchange.h"

#include "base/counter.h"
#include "edge/patience.h"

#include <stdarg.h>

#define POOL_MAX    1024u
#define MESSAGE_MAX 1024 /* bytes of an error text of ours */

static const struct as_h2_header grpc_headers[] = {
    {{"content-type", 12}, {"application/grpc", 16}},
};
static const struct as_h2_header ok_trailers[] = {
    {{"grpc-status", 11}, {"0", 1}},
};

/* --- memory --- */

static struct as_exchange *take(struct as_edge *e)
{
    struct as_exchange *x = e->pool;

    if (x) {
        e->pool = x->next_free;
        as_uncount(&e->stat.pooled, 1);
        e->pool_low = AS_MIN(e->pool_low, e->stat.pooled);
    } else {
        x = aligned_alloc(64, AS_ALIGN(sizeof(*x), 64));
        AS_ASSERT(x);
        as_arena_init(&x->arena, x->first, sizeof(x->first));
        as_list_init(&x->patience);
    }
    as_count(&e->stat.exchanges, 1);
    return x;
}

static void maybe_free(struct as_exchange *x)
{
    struct as_edge *e = x->edge;

    if (x->conn || x->in_fleet)
        return;
    as_budget_give(e->budget, x->reserved);
    as_blob_unref(x->blob);
    as_blob_unref(x->answer);
    as_registry_unref(x->registry);
    as_arena_reset(&x->arena);
    as_uncount(&e->stat.exchanges, 1);
    if (e->stat.pooled >= POOL_MAX) {
        free(x);
        e->freed += sizeof(*x);
        return;
    }
    x->next_free = e->pool;
    e->pool = x;
    as_count(&e->stat.pooled, 1);
}

void as_exchange_pool_trim(struct as_edge *e)
{
    uint64_t n = e->pool_low > AS_POOL_KEEP ? e->pool_low - AS_POOL_KEEP : 0;

    while (n--) {
        struct as_exchange *x = e->pool;

        e->pool = x->next_free;
        as_uncount(&e->stat.pooled, 1);
        e->freed += sizeof(*x);
        free(x);
    }
    e->pool_low = e->stat.pooled;
}

void as_exchange_pool_free(struct as_edge *e)
{
    while (e->pool) {
        struct as_exchange *x = e->pool;

        e->pool = x->next_free;
        free(x);
    }
}

/* --- answers --- */

/* True when somebody is there to hear it; from then on the exchange is ANSWERED. */
static bool answering(struct as_exchange *x, uint32_t status)
{
    if (x->state == AS_X_ANSWERED || !x->conn)
        return false;
    x->state = AS_X_ANSWERED;
    as_patience_answer(x);
    as_count(&x->edge->stat.requests[x->rpc][status < AS_GRPC_CODES ? status : 2], 1);
    as_conn_touch(x->conn);
    return true;
}

void as_exchange_fail_status(struct as_exchange *x, uint32_t status, struct as_str message,
                             const struct as_h2_header *extra, uint32_t n_extra)
{
    char number[12], text[AS_GRPC_MESSAGE_MAX];
    struct as_h2_header h[6] = {grpc_headers[0]};
    struct as_h2_answer a = {.status = 200, .headers = h};
    uint32_t n = 1;

    if (!answering(x, status))
        return;
    h[n++] = (struct as_h2_header){
        AS_STR("grpc-status"), {number, (size_t)snprintf(number, sizeof(number), "%u", status)}};
    if (message.n)
        h[n++] = (struct as_h2_header){AS_STR("grpc-message"),
                                       {text, as_grpc_encode_message(text, sizeof(text), message)}};
    AS_ASSERT(n + n_extra <= AS_COUNT(h));
    for (uint32_t i = 0; i < n_extra; i++)
        h[n++] = extra[i];
    a.n_headers = n;
    as_h2_answer(x->conn->h2, x->stream, &a);
}

/* What a client should know beyond status and text. */
static uint32_t hints(int err, struct as_h2_header *h)
{
    if (err == AS_EMAYHAVERUN) {
        h[0] = (struct as_h2_header){AS_STR("anyserve-may-have-executed"), AS_STR("1")};
        h[1] = (struct as_h2_header){AS_STR("grpc-retry-pushback-ms"), AS_STR("-1")};
        return 2;
    }
    if (err == AS_EFULL) {
        h[0] = (struct as_h2_header){AS_STR("grpc-retry-pushback-ms"), AS_STR("1000")};
        return 1;
    }
    if (err == AS_EUNIMPLEMENTED) {
        h[0] = (struct as_h2_header){AS_STR("grpc-accept-encoding"), AS_STR("identity")};
        return 1;
    }
    return 0;
}

void as_exchange_fail(struct as_exchange *x, int err, const char *fmt, ...)
{
    struct as_h2_header extra[2];
    char text[MESSAGE_MAX];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    as_exchange_fail_status(x, as_err_grpc(err),
                            (struct as_str){text, AS_MIN((size_t)n, sizeof(text) - 1)}, extra,
                            hints(err, extra));
}

void as_exchange_ok(struct as_exchange *x, const struct as_h2_piece *body, uint32_t n)
{
    struct as_h2_answer a = {.status = 200,
                             .headers = grpc_headers,
                             .n_headers = AS_COUNT(grpc_headers),
                             .body = body,
                             .n_body = n,
                             .trailers = ok_trailers,
                             .n_trailers = AS_COUNT(ok_trailers)};

    if (answering(x, 0))
        as_h2_answer(x->conn->h2, x->stream, &a);
}

void as_exchange_reply(struct as_exchange *x, const struct as_buf *message)
{
    uint8_t *p = as_arena_alloc(&x->arena, AS_GRPC_PREFIX + message->n, 1);
    struct as_h2_piece piece = {p, AS_GRPC_PREFIX + message->n, NULL};

    if (!p) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the answer");
        return;
    }
    as_grpc_prefix(p, (uint32_t)message->n);
    if (message->n)
        memcpy(p + AS_GRPC_PREFIX, message->p, message->n);
    as_exchange_ok(x, &piece, 1);
}

void as_exchange_http(struct as_exchange *x, uint32_t status, const char *json)
{
    static const struct as_h2_header headers[] = {
        {{"content-type", 12}, {"application/json", 16}},
    };
    char *p = as_arena_dup(&x->arena, as_str_of(json));
    struct as_h2_piece piece = {(const uint8_t *)p, strlen(json), NULL};
    struct as_h2_answer a = {.status = status, .headers = headers, .n_headers = 1, .body = &piece};

    a.n_body = p && piece.n && !as_str_eq(x->head->method, AS_STR("HEAD"));
    if (answering(x, status < 400 ? 0 : 2))
        as_h2_answer(x->conn->h2, x->stream, &a);
}

const struct as_model *as_exchange_find(struct as_exchange *x, struct as_str name,
                                        struct as_str version)
{
    bool known;

    if (!x->registry)
        x->registry = as_registry_ref(x->edge->client.registry);
    x->model = as_registry_find(x->registry, name, version, &known);
    if (x->model)
        return x->model;
    if (!name.n)
        as_exchange_fail(x, AS_EINVALID, "the model name is empty");
    else if (known)
        as_exchange_fail(x, AS_ENOTFOUND, "model '%.*s' has no version '%.*s'",
                         (int)AS_MIN(name.n, (size_t)AS_NAME_MAX), name.p,
                         (int)AS_MIN(version.n, (size_t)AS_VERSION_MAX), version.p);
    else if (x->edge->client.settling)
        as_exchange_fail(x, AS_EUNAVAILABLE, "model '%.*s' is not known yet: workers are starting",
                         (int)AS_MIN(name.n, (size_t)AS_NAME_MAX), name.p);
    else
        as_exchange_fail(x, AS_ENOTFOUND, "unknown model '%.*s'",
                         (int)AS_MIN(name.n, (size_t)AS_NAME_MAX), name.p);
    return NULL;
}

/* --- the body --- */

/* A message begins: is it one that we take, and is there room for it? */
static void begin_message(struct as_exchange *x, uint64_t len, bool compressed)
{
    struct as_edge *e = x->edge;

    if (x->reader.messages > 1) {
        as_exchange_fail(x, AS_EUNIMPLEMENTED, "more than one message on a unary call");
    } else if (compressed) {
        as_exchange_fail(x, AS_EUNIMPLEMENTED,
                         "compressed messages are not supported; send grpc-encoding identity");
    } else if (len > e->conf.max_message) {
        as_exchange_fail(x, AS_ETOOBIG, "message of %lu bytes is over --max-message-bytes %lu",
                         (unsigned long)len, (unsigned long)e->conf.max_message);
    } else if (!as_budget_take(e->budget, len)) {
        as_exchange_fail(x, AS_ETOOBIG,
                         "message of %lu bytes does not fit into --max-inflight-bytes %lu now",
                         (unsigned long)len, (unsigned long)e->budget->limit);
    } else {
        x->reserved = len;
        x->body_len = (size_t)len;
        if (len <= AS_COPY_MAX) {
            x->body = as_arena_alloc(&x->arena, x->body_len, AS_BLOB_ALIGN);
        } else if ((x->blob = as_blob_new(x->body_len))) {
            x->body = x->blob->data;
            as_h2_expect(x->conn->h2, x->stream, x->body_len);
        }
        if (!x->body)
            as_exchange_fail(x, AS_ENOMEM, "no memory for a message of %lu bytes",
                             (unsigned long)len);
    }
}

static void on_data(void *conn, void *req, const uint8_t *p, size_t n)
{
    struct as_conn *c = conn;
    struct as_exchange *x = req;
    const uint8_t *bytes;
    uint64_t len;
    bool compressed;

    as_h2_consume(c->h2, x->stream, n);
    x->got += n;
    while (x->state == AS_X_RECEIVING && x->grpc) {
        switch (as_grpc_read(&x->reader, &p, &n, &bytes, &len, &compressed)) {
        case AS_GRPC_MESSAGE:
            begin_message(x, len, compressed);
            break;
        case AS_GRPC_BYTES:
            memcpy(x->body + x->body_have, bytes, (size_t)len);
            x->body_have += (size_t)len;
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

    if (x->state != AS_X_RECEIVING)
        return;
    as_patience_stop(x);
    if (!x->grpc) {
        as_http_request(x);
        return;
    }
    if (!as_grpc_at_boundary(&x->reader))
        as_exchange_fail(x, AS_EINTERNAL, "the request ended inside a message");
    else if (x->reader.messages != 1)
        as_exchange_fail(x, AS_EUNIMPLEMENTED, "a unary call needs one message, got none");
    else
        as_service_call(x);
}

/* --- the head --- */

static void check_grpc(struct as_exchange *x)
{
    const struct as_h2_head *head = x->head;
    as_ns timeout;

    if (x->rpc == AS_RPC_UNKNOWN) {
        as_exchange_fail(x, AS_EUNIMPLEMENTED, "unknown method %.*s",
                         (int)AS_MIN(head->path.n, (size_t)256), head->path.p);
        return;
    }
    if (!head->grpc_timeout.n)
        return;
    if (as_grpc_timeout(head->grpc_timeout, &timeout)) {
        as_exchange_fail(x, AS_EINVALID, "malformed grpc-timeout '%.*s'",
                         (int)AS_MIN(head->grpc_timeout.n, (size_t)32), head->grpc_timeout.p);
        return;
    }
    if (timeout == 0)
        as_exchange_fail(x, AS_EDEADLINE, "the deadline has passed already");
    else if (timeout < AS_NEVER - as_loop_now(x->edge->loop))
        x->deadline = as_loop_now(x->edge->loop) + timeout;
}

static void refuse(struct as_exchange *x)
{
    if (x->grpc)
        as_exchange_fail(x, AS_EFULL, "the server holds all the requests it may (--max-requests)");
    else
        as_exchange_http(x, 503, "{\"error\":\"too many requests (--max-requests)\"}");
}

static void *on_request(void *conn, uint32_t stream, const struct as_h2_head *head)
{
    struct as_conn *c = conn;
    struct as_exchange *x = take(c->edge);

    x->edge = c->edge;
    x->conn = c;
    x->stream = stream;
    x->state = AS_X_RECEIVING;
    x->in_fleet = false;
    x->reader = (struct as_grpc_reader){0};
    x->body = NULL;
    x->body_len = x->body_have = 0;
    x->blob = x->answer = NULL;
    x->reserved = 0;
    x->deadline = AS_NEVER;
    x->registry = NULL;
    x->model = NULL;
    x->head = head;
    x->got = 0;
    as_conn_begin_request(c);
    x->grpc = as_grpc_is_content_type(head->content_type);
    x->rpc = x->grpc ? as_service_rpc(head->path) : AS_RPC_HTTP;
    if (x->grpc && as_str_eq(head->method, AS_STR("POST")))
        check_grpc(x);
    else if (x->grpc)
        as_exchange_http(x, 405, "{\"error\":\"gRPC calls are POST\"}");
    if (c->edge->stat.exchanges > c->edge->conf.max_requests)
        refuse(x);
    if (x->state == AS_X_RECEIVING && !head->end_stream)
        as_patience_upload(x);
    return x;
}

static void on_close(void *conn, void *req, uint32_t code AS_UNUSED)
{
    struct as_conn *c = conn;
    struct as_exchange *x = req;

    as_conn_end_request(c);
    as_patience_stop(x);
    if (x->state != AS_X_ANSWERED)
        as_count(&x->edge->stat.requests[x->rpc][as_err_grpc(AS_ECANCELLED)], 1);
    x->conn = NULL;
    x->head = NULL;
    if (x->in_fleet)
        as_client_cancel(&x->edge->client, &x->call); /* may release it at once */
    else
        maybe_free(x);
}

const struct as_h2_ops as_exchange_ops = {
    .on_request = on_request,
    .on_data = on_data,
    .on_end = on_end,
    .on_close = on_close,
};

void as_exchange_released(struct as_exchange *x)
{
    x->in_fleet = false;
    maybe_free(x);
}
