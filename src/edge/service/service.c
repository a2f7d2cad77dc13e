#include "edge/service/service.h"

#include "edge/exchange/key_access.h"
#include "edge/exchange/urgency.h"
#include "io/random.h"
#include "wire/protobuf/pb.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define BLOCK_MAX (256u << 10) /* bytes of the metadata */
#define ID_MAX    128u         /* characters of a request id that a client gives */
#define PEER_MAX  (INET6_ADDRSTRLEN + 24u)
#define PING_FOR_IT                                                                                \
    "Ping /ray.serve.RayServeAPIService/ListApplications for available applications."

/* --- which application --- */

/* The only row that serves this method; NULL: none does, or several. */
static const struct as_service_provider *find_only(const struct as_service_table *t,
                                                   struct as_str path)
{
    const struct as_service_provider *found = NULL;

    for (uint32_t i = 0; i < t->n; i++) {
        if (!as_service_set_find(t->at[i].set, path))
            continue;
        if (found)
            return NULL;
        found = &t->at[i];
    }
    return found;
}

static const struct as_service_provider *find_named(const struct as_service_table *t,
                                                    struct as_str application)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (as_str_eq(t->at[i].application, application))
            return &t->at[i];
    }
    return NULL;
}

/* As Ray Serve: with one application any name is right. NULL: none, or it is not clear which. */
static const struct as_service_provider *find_provider(const struct as_exchange *x,
                                                       const struct as_service_table *t)
{
    struct as_str name = as_http_head_find(x->head, AS_STR("application"));

    return t->n == 1 ? &t->at[0] : name.n ? find_named(t, name) : find_only(t, x->head->path);
}

/* A method that the application does not have is answered as one that nobody has: it tells nothing
 * about the others. */
static bool check_key(struct as_exchange *x, const struct as_service_provider *p)
{
    if (!x->edge->conf.api_keys)
        return true;
    return p && as_service_set_find(p->set, x->head->path)
               ? as_key_access_check_application(x, p->application)
               : as_key_access_check_unknown(x);
}

bool as_service_check(struct as_exchange *x)
{
    const struct as_service_table *t = as_registry_services(x->edge->client.registry);

    return check_key(x, t ? find_provider(x, t) : NULL);
}

/* NULL: the request was failed. The head's check was passed, but the registry may have changed
 * since. */
static const struct as_service_provider *choose(struct as_exchange *x,
                                                const struct as_service_table *t)
{
    struct as_str name = as_http_head_find(x->head, AS_STR("application"));
    const struct as_service_provider *p = find_provider(x, t);

    if (!check_key(x, p))
        return NULL;
    if (!p && name.n)
        as_exchange_fail(x, AS_ENOTFOUND, "Application '%.*s' not found. " PING_FOR_IT,
                         AS_STR_CUT(name, AS_ID_APPLICATION_MAX));
    else if (!p)
        as_exchange_fail(x, AS_ENOTFOUND, "Application metadata not set. " PING_FOR_IT);
    return p;
}

/* --- metadata --- */

/* The client's address as gRPC writes it: "ipv4:127.0.0.1:50000", "ipv6:%5B::1%5D:50000", "unix:".
 */
static struct as_str peer_of(const struct as_exchange *x, char text[PEER_MAX])
{
    struct sockaddr_storage a = {0};
    const struct sockaddr_in *v4 = (const void *)&a;
    const struct sockaddr_in6 *v6 = (const void *)&a;
    socklen_t len = sizeof(a);
    char host[INET6_ADDRSTRLEN] = "";
    int n = 0;

    if (getpeername(x->conn->sock.fd, (struct sockaddr *)&a, &len) == 0 && a.ss_family == AF_INET &&
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host)))
        n = snprintf(text, PEER_MAX, "ipv4:%s:%u", host, ntohs(v4->sin_port));
    else if (a.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) &&
             inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof(host)))
        n = snprintf(text, PEER_MAX, "ipv4:%s:%u", host, ntohs(v6->sin6_port));
    else if (a.ss_family == AF_INET6 && inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)))
        n = snprintf(text, PEER_MAX, "ipv6:%%5B%s%%5D:%u", host, ntohs(v6->sin6_port));
    else
        n = snprintf(text, PEER_MAX, "unix:");
    return (struct as_str){text, (size_t)n};
}

/* Characters that go into a line of the block; HTTP has refused line ends in values. */
static bool is_line(struct as_str s)
{
    return !s.n || !memchr(s.p, '\n', s.n);
}

static bool is_metadata(const struct as_http_header *h)
{
    return !as_grpc_is_reserved(h->name) && is_line(h->name) && is_line(h->value);
}

static uint8_t *put_line(uint8_t *p, struct as_str s)
{
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\n';
    return p + s.n + 1;
}

/* The lines of the record "anyserve-grpc": the path, the client's address, then a key and a value
 * in turn. A copy, since the call may outlive the client's stream. False: failed. */
static bool copy_metadata(struct as_exchange *x, struct as_str path, struct as_str *ret_block)
{
    const struct as_http_head *head = x->head;
    char peer[PEER_MAX];
    struct as_str address = peer_of(x, peer);
    size_t n = path.n + address.n + 2;
    uint8_t *p, *start;

    for (uint32_t i = 0; i < head->n_rest; i++) {
        if (is_metadata(&head->rest[i]))
            n += head->rest[i].name.n + head->rest[i].value.n + 2;
    }
    if (n > BLOCK_MAX) {
        as_exchange_fail(x, AS_EFULL, "the metadata has %zu bytes; a service gets at most %u", n,
                         BLOCK_MAX);
        return false;
    }
    p = start = as_exchange_alloc(x, n, 1, "the request");
    if (!p)
        return false;
    p = put_line(p, path);
    p = put_line(p, address);
    for (uint32_t i = 0; i < head->n_rest; i++) {
        if (!is_metadata(&head->rest[i]))
            continue;
        p = put_line(p, head->rest[i].name);
        p = put_line(p, head->rest[i].value);
    }
    *ret_block = (struct as_str){(const char *)start, n - 1}; /* without the last line's end */
    return true;
}

/* A copy of a header of the client; empty: there is none. False: failed. */
static bool copy_header(struct as_exchange *x, struct as_str name, struct as_str *ret_value)
{
    struct as_str v = as_http_head_find(x->head, name);

    *ret_value = (struct as_str){0};
    if (!v.n)
        return true;
    ret_value->p = as_exchange_alloc(x, v.n, 1, "the request");
    if (!ret_value->p)
        return false;
    memcpy((char *)(uintptr_t)ret_value->p, v.p, v.n);
    ret_value->n = v.n;
    return true;
}

/* The client's request id, or a new one in the form of a UUID. False: failed. */
static bool set_id(struct as_exchange *x, struct as_str *ret_id)
{
    char *p;

    if (!copy_header(x, AS_STR("request_id"), ret_id))
        return false;
    ret_id->n = AS_MIN(ret_id->n, ID_MAX);
    if (ret_id->n)
        return true;
    p = as_exchange_alloc(x, AS_UUID_LEN + 1, 1, "the request");
    if (!p)
        return false;
    as_random_uuid(p);
    *ret_id = (struct as_str){p, AS_UUID_LEN};
    return true;
}

/* The records that the worker reads; all but the first as those of a handle's call. */
static bool put_meta(struct as_exchange *x, const struct as_service_method *m)
{
    static const struct {
        const char *header, *record;
    } others[] = {{"multiplexed_model_id", "serve_multiplexed_model_id"},
                  {"session_id", "serve_session_id"},
                  {"traceparent", "traceparent"}, /* for the calls that its handler makes */
                  {"tracestate", "tracestate"}};
    struct as_msg *msg = &x->call.payload.msg;
    struct as_meta *meta =
        as_exchange_alloc(x, (1 + AS_COUNT(others)) * sizeof(*meta), 8, "the request");

    *msg = (struct as_msg){0};
    if (!meta || !set_id(x, &msg->id) || !copy_metadata(x, m->path, &meta[0].value))
        return false;
    meta[0].key = AS_STR("anyserve-grpc");
    msg->meta = meta;
    msg->n_meta = 1;
    for (size_t i = 0; i < AS_COUNT(others); i++) {
        struct as_meta *r = &meta[msg->n_meta];

        if (!copy_header(x, as_str_of(others[i].header), &r->value))
            return false;
        r->key = as_str_of(others[i].record);
        msg->n_meta += r->value.n > 0;
    }
    return true;
}

/* --- the call --- */

static bool fits(const struct as_call *c, const struct as_body *body)
{
    const struct as_msg *m = &c->payload.msg;
    const struct as_frame_call f = {.id = m->id, .meta = m->meta, .n_meta = m->n_meta};

    return as_frame_call_cost(&f, body) != UINT64_MAX;
}

bool as_service_prepare(struct as_exchange *x, struct as_body *body,
                        const struct as_service_method **ret_method)
{
    struct as_call *c = &x->call;
    const struct as_service_provider *p;
    const struct as_service_method *m;
    const struct as_service_table *t;

    x->registry = as_registry_ref(x->edge->client.registry);
    t = as_registry_services(x->registry);
    p = t ? choose(x, t) : NULL;
    m = p ? as_service_set_find(p->set, x->head->path) : NULL;
    if (!m) { /* or it was failed */
        as_exchange_fail(x, AS_EUNIMPLEMENTED, "application '%.*s' has no method %.*s",
                         AS_STR_FMT(p ? p->application : AS_STR("")),
                         AS_STR_CUT(x->head->path, 256));
        return false;
    }
    x->answer.counts = m->counts; /* as long as x->registry */
    c->payload = (struct as_payload){.kind = AS_FRAME_CALL, .pieces = body};
    if (!put_meta(x, m))
        return false;
    *body = (struct as_body){.codec = AS_BODY_BYTES};
    body->method.p = as_service_of(m->path).p + as_service_of(m->path).n + 1;
    body->method.n = (size_t)(m->path.p + m->path.n - body->method.p);
    if (!fits(c, body)) {
        as_exchange_fail(x, AS_EFULL, "the metadata is larger than a service can get");
        return false;
    }
    as_request_init(&c->core);
    c->core.model = AS_CALL_TARGET;
    c->core.deadline = x->deadline;
    c->deployment = p->deployment;
    c->caller = AS_CALL_NO_CALLER;
    c->owner = NULL;
    c->only = NULL;
    c->depth = 0;
    c->is_fallback = false;
    c->stream = NULL;
    c->arena = &x->arena;
    *ret_method = m;
    return as_urgency_read(x, &c->core);
}

void as_service_submit(struct as_exchange *x)
{
    x->call.payer = x->budget.answers;
    x->call.outcome.err = 0;
    x->in_fleet = true;
    as_fleet_client_submit(&x->edge->client, &x->call);
}

/* --- one message in each direction --- */

static void on_answer(struct as_call *c)
{
    struct as_exchange *x = AS_CONTAINER(c, struct as_exchange, call);
    struct as_service_answer a;
    struct as_http_piece pieces[2];
    uint8_t *prefix;

    if (c->outcome.err) {
        as_service_send_error(x);
        return;
    }
    x->answer.tensors = c->outcome.result.blob; /* freed with the exchange */
    if (!x->conn || !as_service_read_answer(x, &c->outcome.result, &a))
        return;
    if (a.has_status && a.status) {
        as_exchange_send_status(x, a.status, a.trailers, a.n_trailers);
        return;
    }
    prefix = as_exchange_alloc(x, AS_GRPC_PREFIX, 1, "the answer");
    if (!prefix)
        return;
    as_grpc_prefix(prefix, (uint32_t)a.message.n);
    pieces[0] = (struct as_http_piece){prefix, AS_GRPC_PREFIX, NULL};
    pieces[1] =
        (struct as_http_piece){(const uint8_t *)a.message.p, a.message.n, c->outcome.result.blob};
    if (a.has_status) {
        x->answer.has_encoding = a.has_encoding;
        x->answer.encoding = a.encoding;
        x->answer.trailers = a.trailers;
        x->answer.n_trailers = a.n_trailers;
    }
    as_exchange_send_message(x, pieces, a.message.n ? 2 : 1);
}

static void on_release(struct as_call *c)
{
    as_exchange_released(AS_CONTAINER(c, struct as_exchange, call));
}

void as_service_call(struct as_exchange *x)
{
    struct as_body *body = as_exchange_alloc(x, sizeof(*body), 8, "the request");
    const struct as_service_method *m;

    if (!body || !as_service_prepare(x, body, &m))
        return;
    if (m->takes_inputs || m->gives_parts) { /* another application has it with one message */
        as_exchange_fail(x, AS_EUNIMPLEMENTED, "%.*s is a stream in this application",
                         AS_STR_FMT(m->path));
        return;
    }
    body->data = (struct as_str){(const char *)x->body.p, x->body.len};
    x->call.payload.body = body->data;
    x->call.payload.blob = x->body.blob;
    x->call.on_answer = on_answer;
    x->call.on_release = on_release;
    x->state = AS_EXCHANGE_WAITING;
    as_service_submit(x);
}

/* --- ray.serve.RayServeAPIService --- */

void as_service_healthz(struct as_exchange *x)
{
    uint8_t room[16];
    struct as_buf b = {.p = room, .cap = sizeof(room)};

    if (!as_edge_is_ready(x->edge)) {
        as_exchange_fail(x, AS_EUNAVAILABLE, "the server is not ready");
        return;
    }
    b.n = (size_t)(as_pb_put_str(room, 1, AS_STR("success")) - room);
    as_exchange_reply(x, &b);
}

void as_service_list_applications(struct as_exchange *x)
{
    const struct as_service_table *t = as_registry_services(x->edge->client.registry);
    struct as_buf b = {0};

    for (uint32_t i = 0; t && i < t->n; i++) {
        struct as_str name = t->at[i].application;
        uint8_t *p;

        if (!as_key_access_lists_application(x, name))
            continue;
        p = as_buf_reserve(&b, AS_ID_APPLICATION_MAX + 8);
        b.n += (size_t)(as_pb_put_str(p, 1, name) - p);
    }
    as_exchange_reply(x, &b);
    as_buf_fini(&b);
}
