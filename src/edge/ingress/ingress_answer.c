/* The answer of a handler: its head is checked, then its bytes go to the client as far as that
 * reads. Errors before the head are texts; behind it the stream or the connection is reset, so that
 * no client takes a part of an answer for the whole. */
#include "edge/exchange/client_timeouts.h"
#include "edge/exchange/cors.h"
#include "edge/ingress/ingress.h"
#include "edge/websocket/websocket.h"
#include "wire/http/http_field.h"

#include <string.h>

#define HIGH_WATER 65536u /* bytes that wait for the client; above it no more are granted */
#define ADDED      (4u + AS_CORS_FIELDS) /* of ours: date, server, x-request-id, content-length */
#define SERVER     "anyserve"

/* --- the head --- */

/* What is being made of the handler's fields. */
struct head {
    struct as_http_header *fields;
    uint32_t n;
    bool has_date, has_server, has_id;
    bool has_cors; /* the handler says itself whose pages may read the answer */
};

/* The name in lower case; the handler may have chosen another. Empty: no memory. */
static struct as_str lower_name(struct as_exchange *x, struct as_str name)
{
    size_t i = 0;
    char *p;

    while (i < name.n && !(name.p[i] >= 'A' && name.p[i] <= 'Z'))
        i++;
    if (i == name.n)
        return name;
    p = as_arena_alloc(&x->arena, name.n, 1);
    if (!p)
        return (struct as_str){0};
    for (i = 0; i < name.n; i++)
        p[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] | 0x20 : name.p[i]);
    return (struct as_str){p, name.n};
}

static const char *read_length(struct as_ingress *g, struct as_str v)
{
    uint64_t n = 0;

    if (!v.n || v.n > 18)
        return "its content-length is no number";
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9')
            return "its content-length is no number";
        n = 10 * n + (uint64_t)(v.p[i] - '0');
    }
    if (g->is_sized && g->size != n)
        return "it has two values of content-length";
    g->is_sized = true;
    g->size = n;
    return NULL;
}

/* NULL, or what is wrong with the field. */
static const char *add_field(struct as_ingress *g, struct head *h, const struct as_meta *m)
{
    struct as_http_header f = {lower_name(g->x, m->key), as_str_trim(m->value)};
    bool *once = NULL;

    if (!as_http_field_is_name(f.name))
        return "a name of its fields is not a token";
    if (!as_http_field_is_value(f.value))
        return "a value of its fields has a control character";
    if (as_http_field_is_hop_by_hop(f.name))
        return NULL;
    if (as_str_eq(f.name, AS_STR("content-length"))) {
        bool had = g->is_sized;
        const char *why = read_length(g, f.value);

        if (why || had)
            return why;
    } else if (as_str_eq(f.name, AS_STR("date"))) {
        once = &h->has_date;
    } else if (as_str_eq(f.name, AS_STR("server"))) {
        once = &h->has_server;
    } else if (as_str_eq(f.name, AS_STR("x-request-id"))) {
        once = &h->has_id;
    } else if (as_str_eq(f.name, AS_STR("access-control-allow-origin"))) {
        h->has_cors = true;
    }
    if (once && *once)
        return NULL;
    if (once)
        *once = true;
    h->fields[h->n++] = f;
    return NULL;
}

static bool accepts_websocket(const struct as_ingress *g, const struct as_frame_http_head *from)
{
    return from->status == 101 && g->open.flags & AS_HTTP_F_WEBSOCKET && !from->end;
}

/* Makes the head for the client. NULL, or what is wrong with the handler's. */
static const char *make_head(struct as_ingress *g, const struct as_frame_http_head *from,
                             struct head *h)
{
    if ((from->status < 200 && !accepts_websocket(g, from)) || from->status > 599)
        return "its status is not within 200 and 599";
    h->fields = as_arena_alloc(&g->x->arena, (from->n_meta + ADDED) * sizeof(*h->fields),
                               _Alignof(struct as_http_header));
    if (!h->fields)
        return "there is no memory for its fields";
    for (uint32_t i = 0; i < from->n_meta; i++) {
        const char *why = add_field(g, h, &from->meta[i]);

        if (why)
            return why;
    }
    if (!h->has_date)
        h->fields[h->n++] = (struct as_http_header){AS_STR("date"), as_ingress_date()};
    if (!h->has_server)
        h->fields[h->n++] = (struct as_http_header){AS_STR("server"), AS_STR(SERVER)};
    if (!h->has_id)
        h->fields[h->n++] = (struct as_http_header){AS_STR("x-request-id"), g->open.id};
    if (!h->has_cors && from->status >= 200)
        as_cors_put(g->x->edge, g->x->head, h->fields, &h->n);
    return NULL;
}

static void refuse_answer(struct as_ingress *g, const char *why)
{
    as_ingress_log_fault(g, why);
    as_exchange_cancel(g->x);
    as_ingress_reply(g->x, 500, AS_STR("Internal Server Error"));
}

/* The answer has begun, and cannot go on. */
static void abort_answer(struct as_ingress *g, const char *why)
{
    as_ingress_log_fault(g, why);
    g->begun = false;
    as_exchange_cancel(g->x);
    as_conn_cut(g->x->conn, g->x->stream);
    as_conn_schedule_flush(g->x->conn);
}

static bool is_head(const struct as_ingress *g)
{
    return as_str_eq(g->open.method, AS_STR("HEAD"));
}

/* An answer that came in one frame. */
static void send_whole(struct as_ingress *g, const struct as_frame_http_head *from, struct head *h)
{
    struct as_exchange *x = g->x;
    struct as_http_answer a = {.status = from->status, .headers = h->fields};
    struct as_http_piece piece = {.n = (size_t)from->body_len};
    char number[24];
    uint8_t *p;

    if (!g->no_body && g->is_sized && g->size != from->body_len) {
        refuse_answer(g, from->body_len > g->size ? "it has more body than its content-length"
                                                  : "it has less body than its content-length");
        return;
    }
    if (!g->is_sized && is_head(g) && from->status != 204 && from->status != 304) {
        size_t n = (size_t)snprintf(number, sizeof(number), "%zu", piece.n);

        h->fields[h->n++] = (struct as_http_header){AS_STR("content-length"), {number, n}};
    }
    a.n_headers = h->n;
    if (piece.n && !g->no_body) {
        p = as_exchange_answer_room(x, piece.n, &x->answer.text);
        if (!p)
            return;
        memcpy(p, from->body, piece.n);
        piece.p = p;
        piece.owner = x->answer.text;
        a.body = &piece;
        a.n_body = 1;
    }
    if (as_exchange_mark_answered(x, from->status))
        as_conn_answer(x->conn, x->stream, &a);
}

static void write_bytes(struct as_ingress *g, const uint8_t *p, size_t n, struct as_blob *b);

static void on_head(struct as_ingress *g, const struct as_frame_http_head *from)
{
    struct as_exchange *x = g->x;
    struct head h = {0};
    struct as_http_answer a = {.status = from->status};
    const char *why = make_head(g, from, &h);
    struct as_blob *first;

    if (why) {
        refuse_answer(g, why);
        return;
    }
    if (accepts_websocket(g, from)) {
        if (!as_websocket_accept(x, h.fields, h.n))
            as_exchange_cancel(x);
        return;
    }
    g->no_body = is_head(g) || from->status == 204 || from->status == 304;
    if (from->end) {
        send_whole(g, from, &h);
        return;
    }
    if (!as_exchange_mark_answered(x, from->status))
        return;
    a.headers = h.fields;
    a.n_headers = h.n;
    a.has_length = g->is_sized;
    a.length = g->size;
    g->begun = true;
    x->answer.headers_sent = true;
    as_conn_begin(x->conn, x->stream, &a);
    as_conn_schedule_flush(x->conn);
    if (!from->body_len)
        return;
    if (as_blob_new_charged(x->budget.answers, (size_t)from->body_len, &first)) {
        abort_answer(g, "there is no room for its body (--max-answer-bytes)");
        return;
    }
    memcpy(first->data, from->body, first->n);
    write_bytes(g, first->data, first->n, first);
    as_blob_unref(first);
}

/* --- bytes --- */

/* The worker may send as much more as the client has read, in steps. */
static void grant(struct as_ingress *g)
{
    uint64_t n = g->unread;

    g->unread = 0;
    if (n && g->x->in_fleet && !g->over && !g->x->cancelled)
        as_fleet_client_credit(&g->x->edge->client, &g->x->call, 0, n);
}

static void write_bytes(struct as_ingress *g, const uint8_t *p, size_t n, struct as_blob *b)
{
    struct as_exchange *x = g->x;
    const struct as_http_piece piece = {p, n, b};

    g->written += n;
    if (g->no_body)
        return;
    if (g->is_sized && g->written > g->size) {
        abort_answer(g, "it has more body than its content-length");
        return;
    }
    as_conn_write(x->conn, x->stream, &piece);
    as_conn_schedule_flush(x->conn);
}

static void on_bytes(struct as_ingress *g, const struct as_payload *p)
{
    if (!g->begun)
        return;
    g->unread += p->body.n;
    write_bytes(g, (const uint8_t *)p->body.p, p->body.n, p->blob);
    if (g->begun && as_conn_unsent(g->x->conn, g->x->stream) < HIGH_WATER)
        grant(g);
}

void as_ingress_drained(struct as_exchange *x)
{
    grant(as_ingress_of(x));
}

void as_ingress_on_part(struct as_call *c, struct as_part *part)
{
    struct as_exchange *x = AS_CONTAINER(c, struct as_exchange, call);
    struct as_ingress *g = as_ingress_of(x);

    if (!x->conn || x->cancelled)
        return;
    if (part->dropped && g->begun)
        abort_answer(g, "there is no room for its body (--max-answer-bytes)");
    else if (part->http.type == AS_HTTP_HEAD)
        on_head(g, &part->http.head);
    else if (part->http.type == AS_HTTP_WS_MESSAGE)
        abort_answer(g, "it has a message of a websocket");
    else if (!part->dropped)
        on_bytes(g, &part->payload);
}

/* --- the end --- */

/* "Request ID timed out after 2.0s." */
static void reply_timeout(struct as_ingress *g)
{
    const struct as_request *q = &g->x->call.core;
    double s = q->deadline != AS_NEVER && q->deadline > q->arrived
                   ? (double)(q->deadline - q->arrived) / AS_SEC
                   : 0;
    char text[AS_INGRESS_ID_MAX + 80];
    int n = snprintf(text, sizeof(text),
                     s == (double)(uint64_t)s ? "Request %.*s timed out after %.1fs."
                                              : "Request %.*s timed out after %gs.",
                     AS_STR_FMT(g->open.id), s);

    as_ingress_reply(g->x, 408, (struct as_str){text, (size_t)n});
}

static void reply_unserved(struct as_ingress *g)
{
    struct as_str id = g->x->call.route->deployment, name = as_id_name(id);
    struct as_str application = as_id_application(id);
    char text[600];
    int n = snprintf(text, sizeof(text),
                     "Deployment(name='%.*s', app='%.*s') takes no HTTP requests: its class has "
                     "neither a method __call__ with a parameter nor serve.ingress.",
                     AS_STR_FMT(name), AS_STR_FMT(application));

    as_ingress_reply(g->x, 500, (struct as_str){text, (size_t)n});
}

/* A worker has said that it failed, with a gRPC status. */
static void reply_status(struct as_ingress *g, const struct as_outcome *o)
{
    switch (o->status) {
    case AS_STATUS_RESOURCE_EXHAUSTED:
    case AS_STATUS_UNAVAILABLE:
        as_ingress_refuse(g->x, 503, o->message.n ? o->message : AS_STR("Service Unavailable"),
                          AS_SEC);
        return;
    case AS_STATUS_DEADLINE_EXCEEDED:
        reply_timeout(g);
        return;
    default:
        if (o->message.n)
            as_ingress_log_fault(g, "the worker failed");
        as_ingress_reply(g->x, 500, AS_STR("Internal Server Error"));
    }
}

/* It was not executed. */
static void reply_refused(struct as_ingress *g, const struct as_outcome *o, struct as_str text)
{
    const struct as_backpressure *b = &o->backpressure; /* zeros, unless the queue is full */

    as_ingress_refuse(g->x, b->status ? b->status : 503, text,
                      b->has_retry     ? b->retry
                      : o->retry_after ? o->retry_after
                                       : AS_SEC);
}

static void reply_error(struct as_ingress *g, const struct as_outcome *o)
{
    struct as_str text = o->message.n ? o->message : as_str_of(as_err_text(o->err));

    if (o->status) {
        reply_status(g, o);
    } else if (o->err == AS_EDEADLINE || o->err == AS_EHUNG) {
        reply_timeout(g);
    } else if (o->err == AS_EUNIMPLEMENTED) {
        reply_unserved(g);
    } else if (o->err == AS_EFULL || o->err == AS_EUNAVAILABLE || o->err == AS_ESUSPECT) {
        reply_refused(g, o, text);
    } else {
        /* the replica died, and the request may have run */
        as_ingress_log_fault(g, as_err_text(o->err));
        as_ingress_reply(g->x, 500, AS_STR("Internal Server Error"));
    }
}

void as_ingress_on_answer(struct as_call *c)
{
    struct as_exchange *x = AS_CONTAINER(c, struct as_exchange, call);
    struct as_ingress *g = as_ingress_of(x);

    g->over = true;
    if (!x->conn)
        return;
    if (g->begun && c->outcome.err) {
        abort_answer(g, as_err_text(c->outcome.err));
    } else if (g->begun && g->is_sized && !g->no_body && g->written < g->size) {
        abort_answer(g, "it has less body than its content-length");
    } else if (g->begun) {
        g->begun = false;
        as_conn_finish(x->conn, x->stream, NULL, 0);
        as_conn_schedule_flush(x->conn);
    } else if (c->outcome.err && x->state != AS_EXCHANGE_ANSWERED) {
        reply_error(g, &c->outcome);
    } else if (x->state != AS_EXCHANGE_ANSWERED) {
        as_ingress_log_fault(g, "it ended without an answer");
        as_ingress_reply(x, 500, AS_STR("Internal Server Error"));
    }
}
