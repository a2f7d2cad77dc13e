/* Answers to plain HTTP requests, compressed if configured. */
#include "base/counter.h"
#include "edge/exchange/client_timeouts.h"
#include "edge/exchange/cors.h"
#include "edge/rest/rest.h"
#include "edge/rest/rest_body.h"

#define HEADERS_MAX (AS_REST_EXTRA + AS_CORS_FIELDS + 5u)

static const struct as_str json_type = {"application/json", 16};

void as_rest_count(struct as_exchange *x, uint32_t status)
{
    const struct as_rest_route *route = x->rest.route;
    uint64_t *counts = x->edge->stat.http[route ? route->label : AS_RESOURCE_NONE];
    uint32_t i = 0;

    static_assert(AS_HTTP_STATUSES <= AS_COUNTS_ROUTE, "they are counted for each route");
    while (i + 1 < AS_HTTP_STATUSES && as_counted_http_status(i) != status)
        i++;
    if (x->answer.counts)
        as_counts_add(x->answer.counts, i);
    else
        as_counter_add(&counts[i], 1);
}

/* --- sending --- */

/* Every resource here changes while the server runs, errors included. Without a cache-control
 * header a cache may store such answers (Varnish: for 120 s). */
static bool is_get_or_head(const struct as_exchange *x)
{
    return as_str_eq(x->head->method, AS_STR("GET")) || as_str_eq(x->head->method, AS_STR("HEAD"));
}

static void write_reply(struct as_exchange *x, const struct as_rest_reply *r,
                        enum as_gzip_format coding)
{
    bool is_head = as_str_eq(x->head->method, AS_STR("HEAD"));
    struct as_http_header h[HEADERS_MAX];
    struct as_http_answer a = {.status = r->status, .headers = h, .body = r->body};
    char length[24];
    size_t len = 0;

    for (uint32_t i = 0; i < r->n_body; i++)
        len += r->body[i].n;
    if (len) {
        h[a.n_headers++] = (struct as_http_header){AS_STR("content-type"),
                                                   r->content_type.n ? r->content_type : json_type};
        h[a.n_headers++] =
            (struct as_http_header){AS_STR("content-length"),
                                    {length, (size_t)snprintf(length, sizeof(length), "%zu", len)}};
        a.n_body = is_head ? 0 : r->n_body;
    }
    if (coding) {
        h[a.n_headers++] =
            (struct as_http_header){AS_STR("content-encoding"), as_gzip_name(coding)};
        h[a.n_headers++] = (struct as_http_header){AS_STR("vary"), {"accept-encoding", 15}};
    }
    if (is_get_or_head(x))
        h[a.n_headers++] =
            (struct as_http_header){AS_STR("cache-control"), {"no-store", sizeof("no-store") - 1}};
    AS_ASSERT(r->n_extra <= AS_REST_EXTRA);
    for (uint32_t i = 0; i < r->n_extra; i++)
        h[a.n_headers++] = r->extra[i];
    as_cors_put(x->edge, x->head, h, &a.n_headers);
    as_conn_schedule_flush(x->conn);
    as_conn_answer(x->conn, x->stream, &a);
}

/* --- deferred answers: until they are compressed, or until the request has ended --- */

struct as_rest_deferred { /* in the exchange's arena */
    struct as_exchange *x;
    enum as_gzip_format coding;
    struct as_rest_reply r;
    struct as_http_header extra[AS_REST_EXTRA];
    char text[256]; /* of `extra`'s values */
    struct as_http_piece pieces[];
};

/* Copies the answer, which may be on the handler's stack. NULL: it does not fit. */
static struct as_rest_deferred *defer_reply(struct as_exchange *x, const struct as_rest_reply *r)
{
    size_t size = r->n_body * sizeof(*r->body), at = 0;
    struct as_rest_deferred *k = as_arena_alloc(&x->arena, sizeof(*k) + size, 8);

    if (!k)
        return NULL;
    k->x = x;
    k->r = *r;
    k->r.body = k->pieces;
    k->r.extra = k->extra;
    if (size)
        memcpy(k->pieces, r->body, size);
    for (uint32_t i = 0; i < r->n_extra; i++) {
        struct as_str v = r->extra[i].value;

        if (v.n > sizeof(k->text) - at)
            return NULL;
        if (v.n)
            memcpy(k->text + at, v.p, v.n);
        k->extra[i] = (struct as_http_header){r->extra[i].name, {k->text + at, v.n}};
        at += v.n;
    }
    return k;
}

static void on_deflated(void *arg, const struct as_compress_result *out)
{
    struct as_rest_deferred *k = arg;
    struct as_exchange *x = k->x;
    struct as_http_piece piece;

    if (out->err) { /* not smaller, or no room: send it uncompressed */
        write_reply(x, &k->r, AS_GZIP_NONE);
        return;
    }
    x->answer.deflated = out->blob;
    piece = (struct as_http_piece){out->blob->data, out->n, out->blob};
    k->r.body = &piece;
    k->r.n_body = 1;
    write_reply(x, &k->r, k->coding);
}

/* The coding for the answer, by --response-compression and the header accept-encoding. */
static enum as_gzip_format choose_content_coding(const struct as_exchange *x, size_t len)
{
    const struct as_edge_conf *conf = &x->edge->conf;
    struct as_str list;

    if (conf->compress == AS_COMPRESS_OFF || len < conf->compress_min || len < 2 ||
        (conf->compress == AS_COMPRESS_MATCH && !x->body.is_compressed) ||
        as_str_eq(x->head->method, AS_STR("HEAD")))
        return AS_GZIP_NONE;
    list = as_http_head_find(x->head, AS_STR("accept-encoding"));
    for (int f = AS_GZIP_GZIP; f < AS_GZIP_FORMATS; f++) {
        if ((conf->compress == AS_COMPRESS_ALWAYS || f == (int)x->body.encoding) &&
            as_gzip_in_accept_encoding(list, (enum as_gzip_format)f))
            return (enum as_gzip_format)f;
    }
    return AS_GZIP_NONE;
}

/* True: it was sent, or will be when it is compressed. */
static bool send_compressed(struct as_exchange *x, const struct as_rest_reply *r)
{
    struct as_rest_deferred *k;
    enum as_gzip_format coding;
    size_t len = 0;

    for (uint32_t i = 0; i < r->n_body; i++)
        len += r->body[i].n;
    coding = choose_content_coding(x, len);
    k = coding ? defer_reply(x, r) : NULL;
    if (!k)
        return false;
    k->coding = coding;
    as_compress_start(&x->edge->compressor, x->budget.answers, coding, false, k->pieces, r->n_body,
                      len - 1, on_deflated, k, &x->pending.compress);
    return true;
}

/* Clients often lose an answer that is sent while they are still sending (curl 7.88 over HTTP/2, or
 * any client if the connection is closed after it). So a short rest of the body is awaited first;
 * for a body of unknown length, up to AS_REST_DISCARD_MAX bytes. Not over --max-requests, where
 * waiting would hold the memory that is short. */
static bool must_wait_for_body(const struct as_exchange *x)
{
    uint64_t n;

    return !x->body.ended && x->edge->stat.exchanges <= x->edge->conf.max_requests &&
           !as_http_head_find(x->head, AS_STR("expect")).p &&
           (!as_rest_body_length(x, &n) || n <= AS_REST_DISCARD_MAX);
}

void as_rest_send_deferred(struct as_exchange *x)
{
    struct as_rest_deferred *k = x->answer.deferred;

    x->answer.deferred = NULL;
    as_client_timeouts_start_answer(x);
    write_reply(x, &k->r, AS_GZIP_NONE);
}

void as_rest_send(struct as_exchange *x, const struct as_rest_reply *r)
{
    AS_ASSERT(r->n_body <= AS_EXCHANGE_PIECES);
    if (!as_exchange_mark_answered(x, r->status))
        return;
    if (must_wait_for_body(x) && (x->answer.deferred = defer_reply(x, r)))
        as_client_timeouts_start(x, &x->edge->uploads, x->body.received);
    else if (!send_compressed(x, r))
        write_reply(x, r, AS_GZIP_NONE);
}

void as_rest_text(struct as_exchange *x, uint32_t status, struct as_str content_type,
                  const struct as_buf *text)
{
    struct as_blob *b;
    uint8_t *p = as_exchange_answer_room(x, text->n, &b);
    struct as_http_piece piece = {p, text->n, b};

    AS_ASSERT(!x->answer.text);
    if (!p)
        return;
    if (text->n)
        memcpy(p, text->p, text->n);
    x->answer.text = b;
    as_rest_send(x,
                 &(struct as_rest_reply){
                     .status = status, .content_type = content_type, .body = &piece, .n_body = 1});
}

/* --- errors --- */

void as_rest_fail(struct as_exchange *x, uint32_t status, struct as_str message,
                  const struct as_http_header *extra, uint32_t n_extra)
{
    struct as_buf json;
    char *p;
    struct as_http_piece piece;

    as_buf_init(&json);
    as_json_put_error(&json, message);
    p = as_arena_dup(&x->arena, as_buf_slice(&json));
    piece = (struct as_http_piece){(const uint8_t *)p, p ? json.n : 0, NULL};
    as_buf_fini(&json);
    as_rest_send(x, &(struct as_rest_reply){.status = status,
                                            .extra = extra,
                                            .n_extra = n_extra,
                                            .body = &piece,
                                            .n_body = p != NULL});
}
