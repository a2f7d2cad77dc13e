#include "wire/h1/h1.h"

#include "base/err.h"
#include "base/memory/slab.h"
#include "wire/h1/h1_internal.h"

#include <string.h>

#define MALFORMED 0x1u /* codes of on_close: PROTOCOL_ERROR and CANCEL of RFC 9113 */
#define CANCEL    0x8u

int as_h1_new(struct as_h1 **ret_h, const struct as_h1_conf *conf, const struct as_http_ops *ops,
              void *conn)
{
    struct as_h1 *h = as_slab_get(sizeof(*h));

    if (!h)
        return AS_ENOMEM;
    /* the inline buffers at the end are not cleared: they are larger than the rest of the struct */
    memset(h, 0, offsetof(struct as_h1, inline_rest));
    h->conf = *conf;
    h->ops = ops;
    h->conn = conn;
    h->head_since = AS_NEVER;
    h->in = (struct as_h1_bytes){h->inline_in, 0, sizeof(h->inline_in)};
    h->text = (struct as_h1_bytes){h->inline_out, 0, sizeof(h->inline_out)};
    h->rest = h->inline_rest;
    h->rest_cap = AS_H1_INLINE_REST;
    h->pieces.p = h->inline_pieces;
    h->pieces.cap = AS_H1_INLINE_PIECES;
    *ret_h = h;
    return 0;
}

void as_h1_close_request(struct as_h1 *h, uint32_t code)
{
    void *req = h->rq.req;

    as_h1_drop_pieces(h);
    h->rq.answer = AS_H1_ANSWER_SENT;
    h->rq.req = NULL;
    h->rq.body_buffer = NULL;
    if (req)
        h->ops->on_close(h->conn, req, code);
}

void as_h1_free(struct as_h1 *h)
{
    if (!h)
        return;
    as_h1_close_request(h, CANCEL);
    if (h->in.p != h->inline_in)
        as_slab_put(h->in.p);
    if (h->text.p != h->inline_out)
        as_slab_put(h->text.p);
    if (h->rest != h->inline_rest)
        free(h->rest);
    if (h->pieces.p != h->inline_pieces)
        free(h->pieces.p);
    as_slab_put(h->trailer.p);
    as_slab_put(h);
}

bool as_h1_reserve(struct as_h1_bytes *b, size_t n, const uint8_t *first)
{
    uint8_t *p;

    if (n <= b->cap - b->n)
        return true;
    p = as_slab_get(b->n + n);
    if (!p)
        return false;
    if (b->n)
        memcpy(p, b->p, b->n);
    if (b->p != first)
        as_slab_put(b->p);
    b->p = p;
    b->cap = b->n + n;
    return true;
}

/* --- errors --- */

void as_h1_fail(struct as_h1 *h, uint32_t status, const char *where, uint64_t index,
                const char *what)
{
    enum as_h1_answer_state out = h->rq.answer;

    h->breach = what;
    h->state = AS_H1_OVER;
    h->closing = true;
    h->head_since = AS_NEVER;
    if (out == AS_H1_ANSWER_COMPLETE || out == AS_H1_ANSWER_SENT)
        return; /* the client has its answer or will get it; no request is left for a second one */
    as_h1_close_request(h, MALFORMED);
    if (out == AS_H1_ANSWER_OPEN)
        h->aborted = true;
    else
        as_h1_put_error(h, status, where, index, what);
}

void as_h1_refuse(struct as_h1 *h, uint32_t status, const char *text)
{
    if (h->state != AS_H1_OVER)
        as_h1_fail(h, status, NULL, 0, text);
}

void as_h1_reset(struct as_h1 *h, uint32_t stream)
{
    if (stream == h->stream && h->rq.answer < AS_H1_ANSWER_SENT && h->rq.req)
        h->reset = true;
}

/* --- one request after the other --- */

void as_h1_next_request(struct as_h1 *h)
{
    if (h->rq.answer != AS_H1_ANSWER_SENT)
        return;
    if (h->closing)
        h->state = AS_H1_OVER;
    if (h->state != AS_H1_WAIT)
        return;
    h->rq = (struct as_h1_request){0};
    h->in.n = h->line = 0;
    h->state = AS_H1_LINE;
    h->closing = h->closing_next;
}

void as_h1_end_body(struct as_h1 *h)
{
    h->state = AS_H1_WAIT;
    h->rq.body_buffer = NULL;
    h->trailer.n = 0;
    if (h->rq.req && h->rq.answer < AS_H1_ANSWER_COMPLETE)
        h->ops->on_end(h->conn, h->rq.req);
    as_h1_next_request(h);
}

void as_h1_start_request(struct as_h1 *h)
{
    struct as_h1_request *r = &h->rq;

    h->head_since = AS_NEVER;
    h->got_request = true;
    h->stream++;
    h->closing |= r->is_http10;
    r->n_fields = 0;
    r->list_size = 0;
    h->head.end_stream = !r->chunked && !r->left;
    if (h->head.end_stream)
        r->expects = false;
    /* set before on_request: how the answer is sent depends on what is still to be read */
    h->state = h->head.end_stream ? AS_H1_WAIT : r->chunked ? AS_H1_CHUNK : AS_H1_BODY;
    r->req = h->ops->on_request(h->conn, h->stream, &h->head);
    AS_ASSERT(r->req || r->answer >= AS_H1_ANSWER_COMPLETE);
    if (r->expects && r->answer == AS_H1_ANSWER_NONE)
        as_h1_put_continue(h);
    if (h->head.end_stream)
        as_h1_end_body(h);
}

/* --- bodies --- */

/* Passes k bytes of the body at p to the owner. */
static void deliver_body(struct as_h1 *h, const uint8_t *p, size_t k)
{
    struct as_h1_request *r = &h->rq;

    r->left -= k;
    if (!r->req || r->answer >= AS_H1_ANSWER_COMPLETE)
        return;
    if (r->body_buffer) { /* k is at most body_buffer_n */
        r->body_buffer += k;
        r->body_buffer_n -= k;
        if (!r->body_buffer_n)
            r->body_buffer = NULL;
    }
    r->unread += k;
    h->ops->on_data(h->conn, r->req, p, k);
}

static size_t read_body(struct as_h1 *h, const uint8_t *p, size_t n)
{
    struct as_h1_request *r = &h->rq;
    size_t k = (size_t)AS_MIN((uint64_t)n, r->left);

    if (r->body_buffer) {
        uint8_t *to = r->body_buffer;

        k = AS_MIN(k, r->body_buffer_n);
        memcpy(to, p, k);
        p = to;
    }
    deliver_body(h, p, k);
    if (h->state == AS_H1_BODY && !r->left)
        as_h1_end_body(h);
    return k;
}

void as_h1_set_body_buffer(struct as_h1 *h, uint32_t stream, uint8_t *p, size_t n)
{
    if (stream != h->stream || h->state != AS_H1_BODY)
        return;
    AS_ASSERT(n <= h->rq.left);
    h->rq.body_buffer = n ? p : NULL;
    h->rq.body_buffer_n = n;
}

bool as_h1_body_buffer(struct as_h1 *h, uint8_t **ret_p, size_t *ret_n)
{
    if (!h->rq.body_buffer || h->state != AS_H1_BODY || h->rq.answer >= AS_H1_ANSWER_COMPLETE)
        return false;
    *ret_p = h->rq.body_buffer;
    *ret_n = h->rq.body_buffer_n;
    return true;
}

int as_h1_body_received(struct as_h1 *h, size_t k, as_ns now)
{
    h->now = now;
    AS_ASSERT(h->state == AS_H1_BODY && k <= h->rq.body_buffer_n);
    deliver_body(h, h->rq.body_buffer, k);
    if (h->state == AS_H1_BODY && !h->rq.left)
        as_h1_end_body(h);
    return h->state == AS_H1_OVER ? AS_EPROTO : 0;
}

void as_h1_consume(struct as_h1 *h, uint32_t stream, size_t n)
{
    if (stream == h->stream)
        h->rq.unread -= AS_MIN(n, h->rq.unread);
}

/* Reads what is between the data of chunks. */
static size_t read_chunk(struct as_h1 *h, const uint8_t *p, size_t n)
{
    struct as_h1_request *r = &h->rq;
    const char *fault;
    size_t k = as_h1_syntax_chunk(&r->chunk, p, n, h->conf.max_chunk_ext, &fault);

    if (fault)
        as_h1_fail(h, 400, "chunk", r->chunk.n + 1, fault);
    else if (r->chunk.at == AS_H1_CHUNK_LAST)
        h->state = AS_H1_TRAILER;
    else if (r->chunk.at == AS_H1_CHUNK_DATA)
        h->state = AS_H1_DATA;
    r->left = r->chunk.size;
    return k;
}

static size_t read_data(struct as_h1 *h, const uint8_t *p, size_t n)
{
    size_t k = (size_t)AS_MIN((uint64_t)n, h->rq.left);

    deliver_body(h, p, k);
    if (h->state == AS_H1_DATA && !h->rq.left) {
        h->rq.chunk.at = AS_H1_CHUNK_END_CR;
        h->state = AS_H1_CHUNK;
    }
    return k;
}

/* --- bytes --- */

/* Reads some of the bytes: at least one, unless the state changes. Returns how many. */
static size_t read_step(struct as_h1 *h, const uint8_t *p, size_t n)
{
    switch (h->state) {
    case AS_H1_LINE:
    case AS_H1_FIELDS:
    case AS_H1_TRAILER:
        return as_h1_read_line(h, p, n);
    case AS_H1_BODY:
        return read_body(h, p, n);
    case AS_H1_CHUNK:
        return read_chunk(h, p, n);
    case AS_H1_DATA:
        return read_data(h, p, n);
    case AS_H1_TUNNEL:
        h->rq.unread += n;
        h->ops->on_data(h->conn, h->rq.req, p, n);
        return n;
    case AS_H1_WAIT:
    case AS_H1_OVER:
        break;
    }
    return 0;
}

int as_h1_recv(struct as_h1 *h, const uint8_t *p, size_t n, as_ns now, size_t *ret_taken)
{
    size_t at = 0;

    h->now = now;
    while (at < n && h->state < AS_H1_WAIT)
        at += read_step(h, p + at, n - at);
    *ret_taken = h->state == AS_H1_OVER ? n : at;
    return h->state == AS_H1_OVER ? AS_EPROTO : 0;
}

bool as_h1_wants_read(const struct as_h1 *h)
{
    return h->state < AS_H1_WAIT && h->rq.unread <= h->conf.max_unread;
}

bool as_h1_done(const struct as_h1 *h)
{
    return h->state == AS_H1_OVER && !h->text.n &&
           (h->rq.answer == AS_H1_ANSWER_NONE || h->rq.answer == AS_H1_ANSWER_SENT);
}

const char *as_h1_breach(const struct as_h1 *h)
{
    return h->breach;
}

as_ns as_h1_head_since(const struct as_h1 *h)
{
    return h->head_since;
}

bool as_h1_got_request(const struct as_h1 *h)
{
    return h->got_request;
}

bool as_h1_is_idle(const struct as_h1 *h)
{
    return h->state == AS_H1_LINE && h->head_since == AS_NEVER &&
           h->rq.answer == AS_H1_ANSWER_NONE && !h->text.n && !h->closing;
}

void as_h1_resume(struct as_h1 *h)
{
    h->got_request = true;
}

void as_h1_shutdown_notice(struct as_h1 *h)
{
    if (h->rq.answer == AS_H1_ANSWER_NONE)
        h->closing = true;
    else /* the answer's head may be written, and say nothing of a close */
        h->closing_next = true;
}

void as_h1_shutdown_final(struct as_h1 *h)
{
    h->closing = true;
    /* SENT: what is read is the rest of a body that is dropped */
    if (h->rq.answer == AS_H1_ANSWER_SENT || (h->state == AS_H1_LINE && h->head_since == AS_NEVER))
        h->state = AS_H1_OVER;
}
