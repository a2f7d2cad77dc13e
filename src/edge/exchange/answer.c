/* Answers to clients: gRPC messages and all errors. Plain HTTP: edge/rest/reply.c. */
#include "base/counter.h"
#include "edge/exchange/client_timeouts.h"
#include "wire/grpc/grpc_details.h"

#include <stdarg.h>

#define MESSAGE_MAX 1024           /* bytes of an error text of the server */
#define RETRY_AFTER (1000 * AS_MS) /* default delay */

#define H(name, value)                                                                             \
    {                                                                                              \
        {name, sizeof(name) - 1},                                                                  \
        {                                                                                          \
            value, sizeof(value) - 1                                                               \
        }                                                                                          \
    }
static const struct as_http_header grpc_headers[] = {
    H("content-type", "application/grpc"),
};
static const struct as_http_header ok_trailers[] = {
    H("grpc-status", "0"),
};
static const struct as_http_header accept_encoding = H("grpc-accept-encoding", AS_GZIP_GRPC_ACCEPT);

void as_exchange_count_grpc(struct as_exchange *x, uint32_t status)
{
    uint32_t code = status < AS_GRPC_CODES ? status : 2;

    static_assert(AS_COUNTS_SERVICE == AS_GRPC_CODES, "the same statuses");
    if (x->answer.counts)
        as_counts_add(x->answer.counts, code);
    else
        as_counter_add(&x->edge->stat.requests[x->rpc][code], 1);
}

bool as_exchange_mark_answered(struct as_exchange *x, uint32_t status)
{
    if (x->state == AS_EXCHANGE_ANSWERED || !x->conn)
        return false;
    x->state = AS_EXCHANGE_ANSWERED;
    as_client_timeouts_start_answer(x);
    x->kind->count(x, status);
    as_conn_schedule_flush(x->conn);
    return true;
}

/* --- errors --- */

void as_exchange_fail_grpc(struct as_exchange *x, uint32_t status, struct as_str message,
                           const struct as_http_header *extra, uint32_t n_extra)
{
    char number[12], text[AS_GRPC_MESSAGE_MAX];
    struct as_http_header h[3 + AS_EXCHANGE_EXTRA] = {grpc_headers[0]};
    struct as_http_answer a = {.status = 200, .headers = h};
    uint32_t n = 1;

    if (!as_exchange_mark_answered(x, status))
        return;
    h[n++] = (struct as_http_header){
        AS_STR("grpc-status"), {number, (size_t)snprintf(number, sizeof(number), "%u", status)}};
    if (message.n)
        h[n++] = (struct as_http_header){
            AS_STR("grpc-message"), {text, as_grpc_encode_message(text, sizeof(text), message)}};
    AS_ASSERT(n + n_extra <= AS_COUNT(h));
    for (uint32_t i = 0; i < n_extra; i++)
        h[n++] = extra[i];
    if (x->answer.headers_sent) {
        as_conn_finish(x->conn, x->stream, h + 1, n - 1);
        return;
    }
    a.n_headers = n;
    as_conn_answer(x->conn, x->stream, &a);
}

void as_exchange_fail_status(struct as_exchange *x, uint32_t status, struct as_str message,
                             const struct as_http_header *extra, uint32_t n_extra)
{
    if (!x->answer.on_fail) {
        x->kind->fail(x, x->grpc ? status : as_grpc_status_http(status), message, extra, n_extra);
    } else if (x->state != AS_EXCHANGE_ANSWERED && x->conn) {
        x->state = AS_EXCHANGE_ANSWERED;
        x->answer.on_fail(x, status, message);
    }
}

/* Memory for the values of the headers of an error. */
struct header_values {
    char number[24];
    char details[AS_GRPC_DETAILS_MAX];
};

/* The delay before a retry in units of `unit`, rounded up: a client that retries too early is
 * refused again. */
static struct as_http_header retry_header(const struct as_exchange *x, struct as_str name,
                                          as_ns unit, struct header_values *v)
{
    as_ns delay = !x->grpc && x->answer.backpressure.has_retry ? x->answer.backpressure.retry
                  : x->answer.retry_after                      ? x->answer.retry_after
                                                               : RETRY_AFTER;
    int n =
        snprintf(v->number, sizeof(v->number), "%lu", (unsigned long)((delay + unit - 1) / unit));

    return (struct as_http_header){name, {v->number, (size_t)n}};
}

/* Headers of an error beside its status and text: whether and when to retry, and what is wrong. */
static uint32_t add_grpc_hints(const struct as_exchange *x, int err, struct as_str text,
                               struct as_http_header *h, struct header_values *v)
{
    as_ns delay = x->answer.retry_after ? x->answer.retry_after : RETRY_AFTER;

    switch (err) {
    case AS_EMAYHAVERUN:
    case AS_EHUNG:
    case AS_EUNTAKEN:
        h[0] = (struct as_http_header)H("anyserve-may-have-executed", "1");
        h[1] = (struct as_http_header)H("grpc-retry-pushback-ms", "-1");
        return 2;
    case AS_EPOISON:
        h[0] = (struct as_http_header)H("grpc-retry-pushback-ms", "-1");
        return 1;
    case AS_ESUSPECT:
        h[0] = retry_header(x, AS_STR("grpc-retry-pushback-ms"), AS_MS, v);
        return 1;
    case AS_EFULL:
        h[0] = retry_header(x, AS_STR("grpc-retry-pushback-ms"), AS_MS, v);
        h[1].name = AS_STR(AS_GRPC_DETAILS_HEADER);
        /* the same delay, in whole milliseconds */
        h[1].value = as_grpc_details_retry(v->details, as_err_grpc(err), text,
                                           (delay + AS_MS - 1) / AS_MS * AS_MS);
        return 1 + (h[1].value.n > 0);
    case AS_EINVALID:
        h[0].name = AS_STR(AS_GRPC_DETAILS_HEADER);
        h[0].value = as_grpc_details_violation(v->details, as_err_grpc(err), text);
        return h[0].value.n > 0;
    case AS_EUNIMPLEMENTED:
        h[0] = accept_encoding;
        return 1;
    default:
        return 0;
    }
}

/* The same for plain HTTP: retry-after (RFC 9110, 10.2.3) for errors that may be retried. */
static uint32_t add_http_hints(const struct as_exchange *x, int err, struct as_http_header *h,
                               struct header_values *v)
{
    if (err == AS_EMAYHAVERUN || err == AS_EHUNG || err == AS_EUNTAKEN)
        h[0] = (struct as_http_header)H("anyserve-may-have-executed", "1");
    else if (as_err_retryable(err))
        h[0] = retry_header(x, AS_STR("retry-after"), AS_SEC, v);
    else if (err == AS_EUNAUTHENTICATED) /* RFC 9110, 15.5.2 */
        h[0] = (struct as_http_header)H("www-authenticate", "Bearer");
    else if (err == AS_EMEDIA && x->rest.route) /* RFC 9110, 15.5.16 */
        h[0] = (struct as_http_header)H("accept-encoding", "gzip, deflate");
    else
        return 0;
    return 1;
}

static uint32_t http_status_of(const struct as_exchange *x, int err)
{
    return err == AS_EFULL && x->answer.backpressure.status ? x->answer.backpressure.status
                                                            : as_err_http(err);
}

void as_exchange_fail(struct as_exchange *x, int err, const char *fmt, ...)
{
    struct as_http_header extra[AS_EXCHANGE_EXTRA];
    char text[MESSAGE_MAX];
    struct header_values v;
    struct as_str message = {text, 0};
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    message.n = AS_MIN((size_t)n, sizeof(text) - 1);
    if (!x->grpc && !x->answer.on_fail) {
        x->kind->fail(x, http_status_of(x, err), message, extra, add_http_hints(x, err, extra, &v));
        return;
    }
    as_exchange_fail_status(x, as_err_grpc(err), message, extra,
                            add_grpc_hints(x, err, message, extra, &v));
}

bool as_exchange_is_parsed(struct as_exchange *x, int err, const char *why)
{
    if (err == AS_ENOMEM)
        as_exchange_fail(x, err, "no memory for the request");
    else if (err)
        as_exchange_fail(x, err == AS_EPROTO ? AS_EINVALID : err, "%s", why);
    return !err;
}

void as_exchange_send_status(struct as_exchange *x, uint32_t status,
                             const struct as_http_header *trailers, uint32_t n)
{
    struct as_http_answer a = {.status = 200,
                               .headers = grpc_headers,
                               .n_headers = AS_COUNT(grpc_headers),
                               .trailers = trailers,
                               .n_trailers = n};

    if (!as_exchange_mark_answered(x, status))
        return;
    if (x->answer.headers_sent)
        as_conn_finish(x->conn, x->stream, trailers, n);
    else
        as_conn_answer(x->conn, x->stream, &a);
}

/* --- messages --- */

static const struct as_http_header *trailers_of(const struct as_exchange *x)
{
    return x->answer.trailers ? x->answer.trailers : ok_trailers;
}

static uint32_t n_trailers_of(const struct as_exchange *x)
{
    return x->answer.trailers ? x->answer.n_trailers : AS_COUNT(ok_trailers);
}

/* encoding: AS_GZIP_NONE, or that of the compressed message. Lists the encodings that the server
 * reads: for clients that compress. */
static void send_encoded(struct as_exchange *x, const struct as_http_piece *body, uint32_t n,
                         enum as_gzip_format encoding)
{
    struct as_http_header h[3] = {
        grpc_headers[0], accept_encoding, {AS_STR("grpc-encoding"), as_gzip_name(encoding)}};
    struct as_http_answer a = {.status = 200,
                               .headers = h,
                               .n_headers = encoding ? 3 : 2,
                               .body = body,
                               .n_body = n,
                               .trailers = trailers_of(x),
                               .n_trailers = n_trailers_of(x)};

    if (!x->conn)
        return;
    as_conn_schedule_flush(x->conn);
    as_conn_answer(x->conn, x->stream, &a);
}

static void send_plain(struct as_exchange *x, const struct as_http_piece *body, uint32_t n)
{
    struct as_http_answer a = {.status = 200,
                               .headers = grpc_headers,
                               .n_headers = AS_COUNT(grpc_headers),
                               .body = body,
                               .n_body = n,
                               .trailers = trailers_of(x),
                               .n_trailers = n_trailers_of(x)};

    as_conn_answer(x->conn, x->stream, &a);
}

/* The encoding for the answer, by --response-compression and the list of the client. An encoding
 * that the client did not list is never used (gRPC's compression document). */
static enum as_gzip_format choose_message_encoding(const struct as_exchange *x)
{
    struct as_str list = as_http_head_find(x->head, accept_encoding.name);

    if (x->answer.has_encoding)
        return as_gzip_in_grpc_list(list, x->answer.encoding) ? x->answer.encoding : AS_GZIP_NONE;
    if (x->edge->conf.compress == AS_COMPRESS_MATCH)
        return as_gzip_in_grpc_list(list, x->body.encoding) ? x->body.encoding : AS_GZIP_NONE;
    for (int f = AS_GZIP_GZIP; f < AS_GZIP_FORMATS; f++) {
        if (as_gzip_in_grpc_list(list, (enum as_gzip_format)f))
            return (enum as_gzip_format)f;
    }
    return AS_GZIP_NONE;
}

/* An answer that is being compressed; in the exchange's arena. */
struct compressed_answer {
    struct as_exchange *x;
    enum as_gzip_format encoding;
    uint32_t n;
    struct as_http_piece pieces[]; /* the uncompressed answer */
};

static void on_deflated(void *arg, const struct as_compress_result *r)
{
    struct compressed_answer *s = arg;
    struct as_exchange *x = s->x;
    struct as_http_piece p[2] = {
        {as_arena_alloc(&x->arena, AS_GRPC_PREFIX, 1), AS_GRPC_PREFIX, NULL}};

    /* not smaller, or no room: send it uncompressed */
    if (r->err || !p[0].p) {
        as_blob_unref(r->blob);
        send_encoded(x, s->pieces, s->n, AS_GZIP_NONE);
        return;
    }
    as_grpc_prefix((uint8_t *)(uintptr_t)p[0].p, (uint32_t)r->n);
    ((uint8_t *)(uintptr_t)p[0].p)[0] = 1; /* compressed */
    x->answer.deflated = r->blob;
    p[1] = (struct as_http_piece){r->blob->data, r->n, r->blob};
    send_encoded(x, p, 2, s->encoding);
}

/* True: it was sent, or will be when it is compressed. */
static bool send_compressed(struct as_exchange *x, const struct as_http_piece *body, uint32_t n)
{
    enum as_gzip_format f = choose_message_encoding(x);
    struct as_http_piece in[AS_EXCHANGE_PIECES]; /* without the prefix */
    size_t size = n * sizeof(*body), len = 0;
    struct compressed_answer *s;

    AS_ASSERT(n <= AS_COUNT(in));

    for (uint32_t i = 0; i < n; i++)
        len += body[i].n;
    len -= AS_GRPC_PREFIX;
    if (!f || len < 2 || (len < x->edge->conf.compress_min && !x->answer.has_encoding))
        return false;
    s = as_arena_alloc(&x->arena, sizeof(*s) + size, 8);
    if (!s)
        return false;
    *s = (struct compressed_answer){x, f, n};
    memcpy(s->pieces, body, size);
    memcpy(in, body, size);
    in[0].p += AS_GRPC_PREFIX;
    in[0].n -= AS_GRPC_PREFIX;
    as_compress_start(&x->edge->compressor, x->budget.answers, f, false, in, n, len - 1,
                      on_deflated, s, &x->pending.compress);
    return true;
}

static bool may_compress(const struct as_exchange *x)
{
    if (x->answer.has_encoding)
        return x->answer.encoding != AS_GZIP_NONE;
    return x->edge->conf.compress == AS_COMPRESS_MATCH
               ? x->body.is_compressed
               : x->edge->conf.compress == AS_COMPRESS_ALWAYS;
}

void as_exchange_send_message(struct as_exchange *x, const struct as_http_piece *body, uint32_t n)
{
    if (!as_exchange_mark_answered(x, 0))
        return;
    if (may_compress(x) && send_compressed(x, body, n))
        return;
    if (x->body.encoding)
        send_encoded(x, body, n, AS_GZIP_NONE);
    else
        send_plain(x, body, n);
}

void as_exchange_reply(struct as_exchange *x, const struct as_buf *message)
{
    uint8_t *p = as_exchange_alloc(x, AS_GRPC_PREFIX + message->n, 1, "the answer");
    struct as_http_piece piece = {p, AS_GRPC_PREFIX + message->n, NULL};

    if (!p)
        return;
    as_grpc_prefix(p, (uint32_t)message->n);
    if (message->n)
        memcpy(p + AS_GRPC_PREFIX, message->p, message->n);
    as_exchange_send_message(x, &piece, 1);
}
