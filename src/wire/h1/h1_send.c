/* Answers of HTTP/1.1: heads as text; bodies with a length, in chunks, or until the close. */
#include "base/err.h"
#include "wire/h1/h1_internal.h"
#include "wire/http/http_field.h"

#include <string.h>

#define CANCEL     0x8u   /* code of on_close: CANCEL of RFC 9113 */
#define LOW_WATER  65536u /* the same as AS_H2_LOW_WATER */
#define CHUNK_HEAD 18     /* 16 hexadecimal digits and CR LF */

static struct as_str reason_phrase(uint32_t status)
{
    static const struct {
        uint32_t status;
        struct as_str text;
    } known[] = {
        {101, {"Switching Protocols", 19}},
        {200, {"OK", 2}},
        {201, {"Created", 7}},
        {202, {"Accepted", 8}},
        {204, {"No Content", 10}},
        {304, {"Not Modified", 12}},
        {400, {"Bad Request", 11}},
        {401, {"Unauthorized", 12}},
        {403, {"Forbidden", 9}},
        {404, {"Not Found", 9}},
        {405, {"Method Not Allowed", 18}},
        {406, {"Not Acceptable", 14}},
        {408, {"Request Timeout", 15}},
        {409, {"Conflict", 8}},
        {411, {"Length Required", 15}},
        {412, {"Precondition Failed", 19}},
        {413, {"Content Too Large", 17}},
        {414, {"URI Too Long", 12}},
        {415, {"Unsupported Media Type", 22}},
        {417, {"Expectation Failed", 18}},
        {422, {"Unprocessable Content", 21}},
        {429, {"Too Many Requests", 17}},
        {426, {"Upgrade Required", 16}},
        {431, {"Request Header Fields Too Large", 31}},
        {499, {"Client Closed Request", 21}},
        {500, {"Internal Server Error", 21}},
        {501, {"Not Implemented", 15}},
        {502, {"Bad Gateway", 11}},
        {503, {"Service Unavailable", 19}},
        {504, {"Gateway Timeout", 15}},
        {505, {"HTTP Version Not Supported", 26}},
    };

    for (size_t i = 0; i < AS_COUNT(known); i++) {
        if (known[i].status == status)
            return known[i].text;
    }
    return (struct as_str){"", 0}; /* may be empty (RFC 9112 §4) */
}

/* --- text --- */

static uint8_t *put_text(uint8_t *p, struct as_str s)
{
    if (s.n)
        memcpy(p, s.p, s.n);
    return p + s.n;
}

static uint8_t *put_number(uint8_t *p, uint64_t v)
{
    uint8_t digits[20];
    size_t n = 0;

    do
        digits[n++] = (uint8_t)('0' + v % 10);
    while (v /= 10);
    while (n)
        *p++ = digits[--n];
    return p;
}

/* Fields that determine the framing; they are written by put_framing only. */
static bool is_framing_field(struct as_str name)
{
    return as_str_eq(name, AS_STR("content-length")) || as_str_eq(name, AS_STR("connection")) ||
           as_str_eq(name, AS_STR("transfer-encoding"));
}

static size_t head_size(const struct as_http_answer *a)
{
    size_t n = 192; /* the status line and all fields that are added here */

    for (uint32_t i = 0; i < a->n_headers; i++)
        n += a->headers[i].name.n + a->headers[i].value.n + 4;
    return n;
}

/* The content-length that the headers give, for the answer to HEAD; empty: there is none. */
static struct as_str given_length(const struct as_http_answer *a)
{
    for (uint32_t i = 0; i < a->n_headers; i++) {
        if (as_str_eq(a->headers[i].name, AS_STR("content-length")) &&
            as_http_field_is_valid(&a->headers[i]))
            return a->headers[i].value;
    }
    return (struct as_str){0};
}

static uint8_t *put_framing(struct as_h1 *h, uint8_t *p, const struct as_http_answer *a,
                            uint64_t length)
{
    struct as_str given = h->rq.is_head ? given_length(a) : (struct as_str){0};

    if (a->status == 101)
        return put_text(p, AS_STR("connection: upgrade\r\nupgrade: websocket\r\n"));
    if (a->status == 204 || a->status == 304)
        return p; /* RFC 9110 §8.6 */
    if (h->rq.streamed && a->has_length) {
        p = put_text(p, AS_STR("content-length: "));
        p = put_number(p, a->length);
        return put_text(p, AS_STR("\r\n"));
    }
    if (h->rq.streamed && !h->rq.in_chunks) {
        h->closing = true;
        return p;
    }
    if (h->rq.streamed)
        return put_text(p, AS_STR("transfer-encoding: chunked\r\n"));
    p = put_text(p, AS_STR("content-length: "));
    p = given.n ? put_text(p, given) : put_number(p, length);
    return put_text(p, AS_STR("\r\n"));
}

/* False: out of memory. */
static bool put_head(struct as_h1 *h, const struct as_http_answer *a, uint64_t length)
{
    uint8_t *p;

    if (!as_h1_reserve(&h->text, head_size(a), h->inline_out))
        return false;
    p = h->text.p + h->text.n;
    p = put_text(p, AS_STR("HTTP/1.1 "));
    p = put_number(p, a->status);
    *p++ = ' ';
    p = put_text(p, reason_phrase(a->status));
    p = put_text(p, AS_STR("\r\n"));
    for (uint32_t i = 0; i < a->n_headers; i++) {
        const struct as_http_header *f = &a->headers[i];

        if (is_framing_field(f->name) || !as_http_field_is_valid(f))
            continue;
        p = put_text(p, f->name);
        p = put_text(p, AS_STR(": "));
        p = put_text(p, f->value);
        p = put_text(p, AS_STR("\r\n"));
    }
    p = put_framing(h, p, a, length);
    if (h->closing && a->status != 101)
        p = put_text(p, AS_STR("connection: close\r\n"));
    p = put_text(p, AS_STR("\r\n"));
    h->text.n = (size_t)(p - h->text.p);
    return true;
}

void as_h1_put_continue(struct as_h1 *h)
{
    static const struct as_str text = {"HTTP/1.1 100 Continue\r\n\r\n", 25};

    h->rq.expects = false;
    /* without memory for it the client waits for a while, and then sends its body */
    if (as_h1_reserve(&h->text, text.n, h->inline_out))
        h->text.n = (size_t)(put_text(h->text.p + h->text.n, text) - h->text.p);
}

void as_h1_put_error(struct as_h1 *h, uint32_t status, const char *where, uint64_t index,
                     const char *what)
{
    static const struct as_http_header json[] = {{{"content-type", 12}, {"application/json", 16}}};
    struct as_http_answer a = {.status = status, .headers = json, .n_headers = 1};
    char body[256];
    int n;

    if (where && index)
        n = snprintf(body, sizeof(body), "{\"error\":\"%s %lu: %s\"}", where, (unsigned long)index,
                     what);
    else
        n = snprintf(body, sizeof(body), "{\"error\":\"%s%s%s\"}", where ? where : "",
                     where ? ": " : "", what);
    AS_ASSERT(n > 0 && (size_t)n < sizeof(body));
    h->rq.streamed = false;
    if (!put_head(h, &a, (uint64_t)n) || h->rq.is_head)
        return;
    if (as_h1_reserve(&h->text, (size_t)n, h->inline_out))
        h->text.n =
            (size_t)(put_text(h->text.p + h->text.n, (struct as_str){body, (size_t)n}) - h->text.p);
}

/* --- an answer --- */

/* Decides, before the answer's head is written, whether the connection can go on after the answer
 * although the request's body is not complete. */
static void plan_unread_body(struct as_h1 *h, uint32_t status)
{
    struct as_h1_request *r = &h->rq;

    r->body_buffer = NULL;
    if (h->state >= AS_H1_WAIT)
        return;
    /* After 408 the rest will not come, and after 413 it is too large. A client that waits for 100
     * Continue may or may not send its body, so the next request could not be found. */
    if (h->state == AS_H1_BODY && r->left <= AS_H1_DISCARD_MAX && !r->expects && status != 408 &&
        status != 413)
        return;
    h->closing = true;
    h->state = AS_H1_OVER;
}

/* The request, if it is `stream` and its answer is in the given state; else NULL. */
static struct as_h1_request *find_request(struct as_h1 *h, uint32_t stream,
                                          enum as_h1_answer_state out)
{
    struct as_h1_request *r = &h->rq;

    return stream == h->stream && r->answer == out && !h->reset ? r : NULL;
}

void as_h1_answer(struct as_h1 *h, uint32_t stream, const struct as_http_answer *a)
{
    struct as_h1_request *r = find_request(h, stream, AS_H1_ANSWER_NONE);
    uint64_t length = 0;

    AS_ASSERT(a->status >= 200 && a->status <= 999);
    if (!r)
        return;
    r->answer = AS_H1_ANSWER_COMPLETE;
    r->no_body = r->is_head || a->status == 204 || a->status == 304;
    plan_unread_body(h, a->status);
    for (uint32_t i = 0; i < a->n_body; i++)
        length += a->body[i].n;
    if (!put_head(h, a, length) ||
        !as_http_pieces_reserve(&h->pieces, a->n_body, h->inline_pieces)) {
        h->reset = true;
        return;
    }
    if (r->no_body || !a->n_body)
        return;
    memcpy(h->pieces.p, a->body, a->n_body * sizeof(*a->body));
    h->pieces.n = a->n_body;
    r->unsent = length;
}

void as_h1_begin(struct as_h1 *h, uint32_t stream, const struct as_http_answer *a)
{
    struct as_h1_request *r = find_request(h, stream, AS_H1_ANSWER_NONE);

    if (!r)
        return;
    r->answer = AS_H1_ANSWER_OPEN;
    r->streamed = true;
    r->in_chunks = !r->is_http10 && !a->has_length && a->status != 101;
    r->is_sized = a->has_length;
    r->no_body = r->is_head || a->status == 204 || a->status == 304;
    if (a->status == 101) {
        AS_ASSERT(h->head.wants_websocket && h->state == AS_H1_WAIT);
        h->state = AS_H1_TUNNEL;
        h->closing = true; /* what follows is no request */
    }
    if (!put_head(h, a, 0))
        h->reset = true;
}

void as_h1_write(struct as_h1 *h, uint32_t stream, const struct as_http_piece *piece)
{
    struct as_h1_request *r = find_request(h, stream, AS_H1_ANSWER_OPEN);

    AS_ASSERT(piece->owner);
    if (!r || !piece->n || r->no_body)
        return;
    if (!as_http_pieces_reserve(&h->pieces, 1, h->inline_pieces)) {
        h->reset = true;
        return;
    }
    h->pieces.p[h->pieces.n++] = *piece;
    as_blob_ref(piece->owner);
    r->unsent += piece->n;
}

void as_h1_finish(struct as_h1 *h, uint32_t stream)
{
    struct as_h1_request *r = find_request(h, stream, AS_H1_ANSWER_OPEN);

    if (!r)
        return;
    r->answer = AS_H1_ANSWER_COMPLETE;
    plan_unread_body(h, 200);
}

void as_h1_cut(struct as_h1 *h, uint32_t stream)
{
    struct as_h1_request *r = find_request(h, stream, AS_H1_ANSWER_OPEN);

    if (!r || r->no_body || !(r->in_chunks || r->is_sized)) {
        as_h1_reset(h, stream);
        return;
    }
    r->is_cut = true;
    r->answer = AS_H1_ANSWER_COMPLETE;
    h->closing = true;
    if (h->state < AS_H1_WAIT)
        h->state = AS_H1_OVER;
}

void as_h1_drop_pieces(struct as_h1 *h)
{
    as_http_pieces_drop(&h->pieces, h->rq.streamed);
    h->rq.unsent = 0;
}

size_t as_h1_bytes_unsent(struct as_h1 *h, uint32_t stream)
{
    return stream == h->stream && h->rq.answer < AS_H1_ANSWER_SENT ? h->rq.unsent + h->text.n : 0;
}

uint8_t as_h1_version(const struct as_h1 *h)
{
    return h->rq.is_http10 ? 10 : 11;
}

uint64_t as_h1_bytes_sent(const struct as_h1 *h)
{
    return h->sent;
}

/* --- to the queue --- */

static void queue_body(struct as_h1 *h, struct as_outq *q, size_t max)
{
    static const char digit[] = "0123456789abcdef";
    struct as_h1_request *r = &h->rq;
    size_t n = AS_MIN(r->unsent, max - AS_MIN(max, q->bytes));
    bool was_high = r->unsent > LOW_WATER;
    char head[CHUNK_HEAD];
    size_t at = sizeof(head);

    if (!n)
        return;
    if (r->in_chunks) {
        head[--at] = '\n';
        head[--at] = '\r';
        for (size_t v = n; v; v >>= 4)
            head[--at] = digit[v & 15];
        as_outq_copy(q, head + at, sizeof(head) - at);
    }
    as_http_pieces_send(&h->pieces, q, n, r->streamed);
    r->unsent -= n;
    h->sent += n;
    if (r->in_chunks)
        as_outq_copy(q, "\r\n", 2);
    if (r->answer == AS_H1_ANSWER_OPEN && (was_high || !r->unsent) && r->unsent <= LOW_WATER)
        r->drained_due = true;
}

static void end_answer(struct as_h1 *h, struct as_outq *q)
{
    if (h->rq.in_chunks && !h->rq.no_body && !h->rq.is_cut)
        as_outq_copy(q, "0\r\n\r\n", 5);
    as_h1_close_request(h, 0);
    as_h1_next_request(h);
}

int as_h1_send(struct as_h1 *h, struct as_outq *q, size_t max)
{
    struct as_h1_request *r = &h->rq;

    if (h->reset) {
        h->reset = false;
        h->aborted = true;
        h->state = AS_H1_OVER;
        as_h1_close_request(h, CANCEL);
    }
    if (h->aborted)
        return AS_EPROTO;
    if (h->text.n && q->bytes < max) {
        as_outq_copy(q, h->text.p, h->text.n);
        h->sent += h->text.n;
        h->text.n = 0;
    }
    if (h->text.n || (r->answer != AS_H1_ANSWER_OPEN && r->answer != AS_H1_ANSWER_COMPLETE))
        return 0;
    queue_body(h, q, max);
    if (r->answer == AS_H1_ANSWER_COMPLETE && !r->unsent && q->bytes < max)
        end_answer(h, q);
    if (r->drained_due && r->answer == AS_H1_ANSWER_OPEN && r->req) {
        r->drained_due = false;
        h->ops->on_drained(h->conn, r->req);
    }
    return 0;
}

bool as_h1_wants_write(const struct as_h1 *h)
{
    return h->text.n || h->reset || (h->rq.answer < AS_H1_ANSWER_SENT && h->rq.unsent) ||
           h->rq.answer == AS_H1_ANSWER_COMPLETE;
}
