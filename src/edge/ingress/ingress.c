#include "edge/ingress/ingress.h"

#include "edge/exchange/client_timeouts.h"
#include "edge/exchange/key_access.h"
#include "edge/exchange/urgency.h"
#include "edge/rest/rest_body.h"
#include "edge/websocket/websocket.h"
#include "wire/http/http_field.h"
#include "wire/name_check.h"

#include <string.h>

#define HTTP_2         20u /* as_conn_http_version */
#define FIELDS_OF_OURS 6u  /* host, the fields that the head has apart, x-request-id */

static const struct as_exchange_kind kind;

/* For the metrics. */
static const struct as_rest_route counted_as = {
    .method = "", .path = "", .label = AS_RESOURCE_APPLICATION};

/* --- which requests --- */

static bool is_below(struct as_str path, struct as_str prefix)
{
    return path.n >= prefix.n && memcmp(path.p, prefix.p, prefix.n) == 0 &&
           (path.n == prefix.n || path.p[prefix.n] == '/');
}

/* The server's own paths: /-/ always; /v2 while there are models, and its health always, unless the
 * prefix of the application is as long. */
static bool is_ours(const struct as_exchange *x, struct as_str path, const struct as_route *r)
{
    struct as_str v2 = AS_STR("/v2");

    if (is_below(path, AS_STR("/-")))
        return true;
    if (!is_below(path, v2) || r->prefix.n >= v2.n)
        return false;
    return is_below(path, AS_STR("/v2/health")) ||
           as_registry_count(x->edge->client.registry) > 0 || x->edge->client.models_pending;
}

/* The path without percent-encoding, in which routes are looked up. */
static struct as_str decode_path(struct as_str path, char *room, size_t cap)
{
    size_t n;

    if (!memchr(path.p, '%', path.n) || path.n > cap || as_route_decode(path, room, &n))
        return path;
    return (struct as_str){room, n};
}

static struct as_route *find_route(const struct as_exchange *x, struct as_str path)
{
    const struct as_routes *all = x->edge->client.routes;
    char room[AS_ROUTE_PREFIX_MAX + 256];
    struct as_route *r;

    if (!all || !as_routes_count(all) || !path.n)
        return NULL;
    path = decode_path(path, room, sizeof(room));
    r = as_routes_find(all, path);
    return r && !is_ours(x, path, r) ? r : NULL;
}

/* --- the call --- */

static void free_routes(struct as_ingress *g)
{
    g->x->answer.counts = NULL;
    as_routes_unref(g->routes);
    g->routes = NULL;
}

static void on_release(struct as_call *c)
{
    struct as_exchange *x = AS_CONTAINER(c, struct as_exchange, call);
    struct as_ingress *g = as_ingress_of(x);

    if (!x->conn) /* else until `gone`: the answer may still be counted */
        free_routes(g);
    as_blob_unref(g->first_blob);
    as_blob_unref(g->gather);
    g->first_blob = g->gather = NULL;
    g->over = true;
    as_exchange_released(x);
}

static bool is_idempotent(struct as_str method)
{
    static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"};

    for (size_t i = 0; i < AS_COUNT(methods); i++) {
        if (as_str_eq(method, as_str_of(methods[i])))
            return true;
    }
    return false;
}

void as_ingress_submit(struct as_ingress *g, uint32_t flags)
{
    struct as_exchange *x = g->x;
    struct as_call *c = &x->call;

    g->open.flags = flags;
    as_request_init(&c->core);
    (void)as_urgency_read(x, &c->core); /* it was checked */
    c->core.deadline = x->deadline;
    c->core.idempotent = is_idempotent(g->open.method);
    c->only = NULL;
    c->caller = AS_CALL_NO_CALLER;
    c->owner = NULL;
    c->depth = 0;
    c->is_fallback = false;
    c->payload = (struct as_payload){.kind = AS_FRAME_HTTP,
                                     .body = {(const char *)g->first, g->n_first},
                                     .http = &g->open,
                                     .blob = g->first_blob};
    c->payload.msg.id = g->open.id;
    c->arena = &x->dispatch_arena;
    c->payer = x->budget.answers;
    c->on_answer = as_ingress_on_answer;
    c->on_release = on_release;
    c->stream = &g->stream;
    c->outcome.err = 0;
    g->stream = (struct as_call_stream){.on_part = as_ingress_on_part,
                                        .takes_inputs = !(flags & AS_HTTP_F_WHOLE)};
    x->state = AS_EXCHANGE_WAITING;
    x->in_fleet = true;
    as_fleet_client_submit(&x->edge->client, c);
    /* until its first input: the client may send nothing of the rest */
    if (g->stream.takes_inputs && !x->head->wants_websocket && x->state == AS_EXCHANGE_WAITING)
        as_client_timeouts_start(x, &x->edge->uploads, x->body.received);
}

/* --- the collected body --- */

static size_t buffer_of(const struct as_ingress *g)
{
    return (size_t)g->x->edge->conf.ingress_buffer;
}

/* Makes room for n bytes of the collected body. False: the request was failed. */
static bool make_room(struct as_ingress *g, size_t n)
{
    struct as_exchange *x = g->x;
    struct as_blob *b;
    size_t room;
    int err;

    if (n <= g->room)
        return true;
    room = g->has_length      ? (size_t)AS_MIN(g->length, (uint64_t)buffer_of(g))
           : n <= AS_COPY_MAX ? AS_MIN(buffer_of(g), (size_t)AS_COPY_MAX)
                              : buffer_of(g);
    room = AS_MAX(room, n);
    if (room <= AS_COPY_MAX) {
        if (!as_exchange_charge(x, room, "the request"))
            return false;
        g->first = as_exchange_alloc(x, room, AS_BLOB_ALIGN, "the request");
        g->room = g->first ? room : 0;
        return g->first != NULL;
    }
    err = as_blob_new_charged(x->budget.requests, room, &b);
    if (err) {
        as_exchange_fail_room(x, err, "the request", room);
        return false;
    }
    if (g->n_first)
        memcpy(b->data, g->first, g->n_first);
    as_blob_unref(g->first_blob);
    g->first_blob = b;
    g->first = b->data;
    g->room = room;
    return true;
}

/* A body that is larger than the buffer goes on as a stream when the buffer is full. */
static void collect(struct as_ingress *g, const uint8_t *p, size_t n)
{
    struct as_exchange *x = g->x;
    size_t k = AS_MIN(n, buffer_of(g) - g->n_first);

    as_conn_consume(x->conn, x->stream, k);
    if (k) {
        if (!make_room(g, g->n_first + k)) {
            as_conn_consume(x->conn, x->stream, n - k);
            return;
        }
        memcpy(g->first + g->n_first, p, k);
        g->n_first += k;
    }
    if (n == k && !(g->has_length && g->length > buffer_of(g) && g->n_first == buffer_of(g)))
        return;
    as_client_timeouts_stop(x);
    as_ingress_submit(g, 0);
    as_ingress_body_receive(g, p + k, n - k);
}

static void receive(struct as_exchange *x, const uint8_t *p, size_t n)
{
    struct as_ingress *g = as_ingress_of(x);

    if (x->answer.deferred) {
        as_conn_consume(x->conn, x->stream, n);
        if (x->body.received > AS_REST_DISCARD_MAX)
            as_rest_send_deferred(x);
    } else if (x->state == AS_EXCHANGE_RECEIVING) {
        collect(g, p, n);
    } else {
        as_ingress_body_receive(g, p, n);
    }
}

static void end(struct as_exchange *x)
{
    if (x->state == AS_EXCHANGE_RECEIVING) {
        as_client_timeouts_stop(x);
        as_ingress_submit(as_ingress_of(x),
                          x->head->wants_websocket ? AS_HTTP_F_WEBSOCKET : AS_HTTP_F_WHOLE);
    } else if (!x->head->wants_websocket) {
        as_ingress_body_end(as_ingress_of(x));
    }
}

/* --- the head --- */

static void add_field(struct as_meta *to, uint32_t *n, const char *name, struct as_str value)
{
    if (value.p)
        to[(*n)++] = (struct as_meta){as_str_of(name), value};
}

static bool is_cookie(const struct as_http_header *h)
{
    return as_str_eq(h->name, AS_STR("cookie"));
}

/* A client of HTTP/2 may send parts of the field cookie, of which a handler gets one value (RFC
 * 9113 §8.2.3). Empty: there is nothing to join. False: the request was failed. */
static bool join_cookies(struct as_ingress *g, struct as_str *ret_all)
{
    const struct as_http_head *h = g->x->head;
    uint32_t parts = 0;
    size_t n = 0;
    char *p;

    *ret_all = (struct as_str){0};
    for (uint32_t i = 0; i < h->n_rest; i++) {
        if (is_cookie(&h->rest[i])) {
            n += h->rest[i].value.n + 2;
            parts++;
        }
    }
    if (parts < 2 || g->open.version != HTTP_2)
        return true;
    p = as_exchange_alloc(g->x, n, 1, "the request");
    if (!p)
        return false;
    n = 0;
    for (uint32_t i = 0; i < h->n_rest; i++) {
        struct as_str v = h->rest[i].value;

        if (!is_cookie(&h->rest[i]))
            continue;
        if (n) {
            p[n++] = ';';
            p[n++] = ' ';
        }
        if (v.n)
            memcpy(p + n, v.p, v.n);
        n += v.n;
    }
    *ret_all = (struct as_str){p, n};
    return true;
}

/* The fields of the request for the handler; false: the request was failed. */
static bool set_fields(struct as_ingress *g)
{
    const struct as_http_head *h = g->x->head;
    bool made = as_ingress_set_id(g), has_cookies = false;
    struct as_request urgency;
    struct as_str cookies;
    uint32_t n = 0;
    struct as_meta *m = as_exchange_alloc(g->x, (h->n_rest + FIELDS_OF_OURS) * sizeof(*m),
                                          _Alignof(struct as_meta), "the request");

    as_request_init(&urgency);
    if (!m || !join_cookies(g, &cookies) || !as_urgency_read(g->x, &urgency))
        return false;
    add_field(m, &n, "host", h->authority);
    add_field(m, &n, "content-type", h->content_type);
    add_field(m, &n, "grpc-timeout", h->grpc_timeout);
    add_field(m, &n, "grpc-encoding", h->grpc_encoding);
    for (uint32_t i = 0; i < h->n_rest; i++) {
        bool replaced = made && as_str_eq(h->rest[i].name, AS_STR("x-request-id"));
        bool joined = cookies.p && is_cookie(&h->rest[i]);

        if (!replaced && !(joined && has_cookies) && !as_http_field_is_hop_by_hop(h->rest[i].name))
            m[n++] = (struct as_meta){h->rest[i].name, joined ? cookies : h->rest[i].value};
        has_cookies = has_cookies || joined;
    }
    if (made)
        add_field(m, &n, "x-request-id", g->open.id);
    g->open.meta = m;
    g->open.n_meta = n;
    return true;
}

/* --root-path and the path behind it. Without memory the request is failed, and the path alone is
 * returned. */
static struct as_str put_below_root(struct as_exchange *x, struct as_str path)
{
    struct as_str root = x->edge->conf.root_path;
    char *p = root.n ? as_exchange_alloc(x, root.n + path.n, 1, "the request") : NULL;

    if (!p)
        return path;
    memcpy(p, root.p, root.n);
    if (path.n)
        memcpy(p + root.n, path.p, path.n);
    return (struct as_str){p, root.n + path.n};
}

static void set_open(struct as_ingress *g, const struct as_route *r, struct as_str path,
                     struct as_str query)
{
    struct as_exchange *x = g->x;
    const struct as_conn_addresses *at = as_conn_addresses(x->conn);

    g->open =
        (struct as_frame_http_open){.version = as_conn_http_version(x->conn),
                                    .method = x->head->method,
                                    .scheme = x->conn->tls ? AS_STR("https") : x->head->scheme,
                                    .authority = x->head->authority,
                                    .path = put_below_root(x, path),
                                    .query = query,
                                    .root_path = put_below_root(x, r->root),
                                    .peer = as_str_of(at ? at->peer : ""),
                                    .server = as_str_of(at ? at->local : "")};
}

/* Puts the bytes of s at to, if there is room, and adds their number to *n. */
static void move_text(struct as_str *s, char *to, size_t *n)
{
    if (to && s->n) {
        memcpy(to + *n, s->p, s->n);
        s->p = to + *n;
    }
    *n += s->n;
}

/* How many bytes the texts of g->open have; puts them at `to`, unless it is NULL. */
static size_t move_texts(struct as_ingress *g, char *to)
{
    struct as_frame_http_open *o = &g->open;
    struct as_str *texts[] = {&o->id,    &o->method,    &o->scheme, &o->authority, &o->path,
                              &o->query, &o->root_path, &o->peer,   &o->server};
    struct as_meta *meta = (struct as_meta *)(uintptr_t)o->meta; /* set_fields made them */
    size_t n = 0;

    for (size_t i = 0; i < AS_COUNT(texts); i++)
        move_text(texts[i], to, &n);
    for (uint32_t i = 0; i < o->n_meta; i++) {
        move_text(&meta[i].key, to, &n);
        move_text(&meta[i].value, to, &n);
    }
    return n;
}

/* Copies what the call says of the head: the fleet may read it when the client's stream is gone.
 * False: the request was failed. */
static bool keep_head(struct as_ingress *g)
{
    char *room = as_exchange_alloc(g->x, move_texts(g, NULL), 1, "the request");

    if (room)
        move_texts(g, room);
    return room != NULL;
}

static void gone(struct as_exchange *x)
{
    struct as_ingress *g = as_ingress_of(x);

    if (x->in_fleet) /* on_release */
        return;
    free_routes(g);
    as_blob_unref(g->first_blob);
    as_blob_unref(g->gather);
    g->first_blob = g->gather = NULL;
}

/* True: the request is an application's, and is answered from here on. */
static bool start(struct as_exchange *x, struct as_str path, struct as_str query)
{
    static const struct as_exchange_answer_ops ops = {.drained = as_ingress_drained, .gone = gone};
    struct as_route *r = find_route(x, path);
    struct as_ingress *g;

    if (!r)
        return false;
    x->rest.route = &counted_as;
    if (!as_key_access_check_application(x, as_id_application(r->deployment)))
        return true;
    g = as_exchange_alloc(x, sizeof(*g), _Alignof(struct as_ingress), "the request");
    if (!g)
        return true;
    *g = (struct as_ingress){.x = x, .routes = as_routes_ref(x->edge->client.routes)};
    x->kind = &kind;
    x->answer.item = g;
    x->answer.ops = &ops;
    x->answer.in_dispatch_arena = true;
    x->call.route = r;
    x->answer.counts = r->counts;
    set_open(g, r, path, query);
    if (x->state == AS_EXCHANGE_ANSWERED)
        return true;
    if ((x->head->wants_websocket && !as_websocket_check(x)) || !set_fields(g))
        return true;
    g->has_length = as_rest_body_length(x, &g->length);
    if (!as_frame_http_open_fits(&g->open))
        as_exchange_fail(x, AS_EHEADERS, "the header fields are larger than a request may have");
    else if (keep_head(g) && !x->head->end_stream && g->has_length && g->length > buffer_of(g) &&
             !buffer_of(g))
        as_ingress_submit(g, 0);
    return true;
}

/* A path that is neither ours nor below a route. False: there are no routes at all. */
static bool not_found(struct as_exchange *x, struct as_str path)
{
    const struct as_routes *all = x->edge->client.routes;
    struct as_str root = x->edge->conf.root_path, shown;
    char room[AS_ROUTE_PREFIX_MAX + 256], text[512];
    int n;

    if (!all || !as_routes_count(all))
        return false;
    shown = decode_path(path, room, sizeof(room));
    if (!as_name_check_line(shown))
        shown = path;
    n = snprintf(text, sizeof(text),
                 "Path '%.*s%.*s' not found. Ping http://.../-/routes for available routes.",
                 AS_STR_CUT(root, 200),
                 AS_STR_CUT(shown, 200)); /* Ray's text, dots included: programs match it */
    as_ingress_reply(x, 404, (struct as_str){text, (size_t)n});
    return true;
}

static void fail(struct as_exchange *x, uint32_t status, struct as_str message,
                 const struct as_http_header *extra AS_UNUSED, uint32_t n_extra AS_UNUSED)
{
    as_exchange_cancel(x);
    if (!x->conn)
        return;
    if (status == 503)
        as_ingress_refuse(x, status, message, AS_SEC);
    else
        as_ingress_reply(x, status, message);
}

static const struct as_exchange_kind kind = {
    .receive = receive,
    .end = end,
    .streams = true,
    .send_deferred = as_rest_send_deferred,
    .count = as_rest_count,
    .fail = fail,
};

const struct as_rest_ingress as_rest_ingress = {.start = start, .not_found = not_found};
