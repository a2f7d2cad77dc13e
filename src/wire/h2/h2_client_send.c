#include "base/be.h"
#include "base/err.h"
#include "wire/h2/h2_client_internal.h"

static inline uint8_t *put_frame_head(uint8_t *p, uint8_t type, uint8_t flags, uint32_t id,
                                      size_t n)
{
    as_be_put32(p, (uint32_t)n << 8 | type);
    p[4] = flags;
    as_be_put32(p + 5, id);
    return p + AS_H2_CLIENT_FRAME_HEAD;
}

uint8_t *as_h2_client_control(struct as_h2_client *h, uint8_t type, uint8_t flags, uint32_t id,
                              size_t n)
{
    uint8_t *p = as_buf_reserve(&h->control, AS_H2_CLIENT_FRAME_HEAD + n);

    h->control.n += AS_H2_CLIENT_FRAME_HEAD + n;
    return put_frame_head(p, type, flags, id, n);
}

void as_h2_client_fail(struct as_h2_client *h, uint32_t code)
{
    uint8_t *p;

    if (h->over)
        return;
    p = as_h2_client_control(h, NGHTTP2_GOAWAY, 0, 0, 8);
    as_be_put32(p, 0);
    as_be_put32(p + 4, code);
    h->over = true;
}

/* --- one stream --- */

static void copy_body(struct as_h2_client_stream *s, uint8_t *to, size_t n)
{
    s->body_left -= n;
    while (n) {
        const struct as_str *piece = &s->body[s->piece];
        size_t take = AS_MIN(n, piece->n - s->piece_offset);

        if (take)
            memcpy(to, piece->p + s->piece_offset, take);
        to += take;
        n -= take;
        s->piece_offset += take;
        if (s->piece_offset == piece->n) {
            s->piece++;
            s->piece_offset = 0;
        }
    }
}

/* Bytes of the body that the next DATA frame may have. */
static size_t room(const struct as_h2_client *h, const struct as_h2_client_stream *s)
{
    int64_t window = AS_MIN(h->window, s->window);

    return AS_MIN(s->body_left, (size_t)AS_MIN(AS_MAX(window, 0), AS_H2_CLIENT_FRAME_MAX));
}

/* Writes a DATA frame of n bytes at p. */
static void write_data(struct as_h2_client *h, struct as_h2_client_stream *s, uint8_t *p, size_t n)
{
    s->is_sent = n == s->body_left;
    copy_body(
        s, put_frame_head(p, NGHTTP2_DATA, s->is_sent ? NGHTTP2_FLAG_END_STREAM : 0, s->id, n), n);
    h->window -= (int64_t)n;
    s->window -= (int64_t)n;
}

/* A header block above the size of a frame: HEADERS, and CONTINUATION until its end. */
static void put_long_head(struct as_outq *q, uint32_t id, const struct as_buf *block, uint8_t flags)
{
    for (size_t at = 0, n; at < block->n; at += n) {
        uint8_t type = at ? NGHTTP2_CONTINUATION : NGHTTP2_HEADERS;

        n = AS_MIN(block->n - at, (size_t)AS_H2_CLIENT_FRAME_MAX);
        if (at + n == block->n)
            flags |= NGHTTP2_FLAG_END_HEADERS;
        memcpy(put_frame_head(as_outq_alloc(q, AS_H2_CLIENT_FRAME_HEAD + n), type, flags, id, n),
               block->p + at, n);
        flags = 0;
    }
}

/* The first head since the server has said that it wants a smaller table. */
static void put_head_without_table(struct as_h2_client *h, struct as_outq *q,
                                   const struct as_h2_client_stream *s, const struct as_buf *block)
{
    static const uint8_t no_table = 0x20; /* a new size of the table: 0 (RFC 7541 §6.3) */
    struct as_buf b = {0};

    as_buf_add(&b, &no_table, 1);
    as_buf_add(&b, block->p, block->n);
    put_long_head(q, s->id, &b, s->is_sent ? NGHTTP2_FLAG_END_STREAM : 0);
    as_buf_fini(&b);
    h->is_table_told = true;
}

/* The encoding of the repeated head that the server understands now. */
static const struct as_buf *choose_head(struct as_h2_client *h)
{
    struct as_h2_client_head *head = &h->head;

    if (h->has_no_table || !head->first.n)
        return &head->plain;
    if (head->is_entered)
        return &head->next;
    head->is_entered = true;
    return &head->first;
}

/* HEADERS of the oldest stream that waits, and the body if it fits into one frame. */
static void begin_stream(struct as_h2_client *h, struct as_outq *q, struct as_h2_client_stream *s)
{
    const struct as_buf *block = s->block.n ? &s->block : choose_head(h);
    size_t n = room(h, s), total = (size_t)2 * AS_H2_CLIENT_FRAME_HEAD + block->n + n;
    uint8_t *p;

    as_list_remove(&s->todo);
    s->is_begun = true;
    h->n_begun++;
    s->is_sent = !s->body_left;
    if (h->has_no_table && !h->is_table_told) {
        put_head_without_table(h, q, s, block);
    } else if (n && n == s->body_left && block->n <= AS_H2_CLIENT_FRAME_MAX) {
        p = put_frame_head(as_outq_alloc(q, total), NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS,
                           s->id, block->n);
        memcpy(p, block->p, block->n);
        write_data(h, s, p + block->n, n);
    } else {
        put_long_head(q, s->id, block, s->is_sent ? NGHTTP2_FLAG_END_STREAM : 0);
    }
    as_h2_client_resume(h, s);
}

static void send_body(struct as_h2_client *h, struct as_outq *q, struct as_h2_client_stream *s)
{
    size_t n = room(h, s);

    as_list_remove(&s->todo);
    write_data(h, s, as_outq_alloc(q, AS_H2_CLIENT_FRAME_HEAD + n), n);
    as_h2_client_resume(h, s); /* behind the others */
    if (s->is_sent && s->whole)
        as_h2_client_close(h, s, NGHTTP2_NO_ERROR);
}

/* A stream that the server does not know is only closed. */
static void send_reset(struct as_h2_client *h, struct as_outq *q, struct as_h2_client_stream *s)
{
    if (s->is_begun)
        as_be_put32(put_frame_head(as_outq_alloc(q, AS_H2_CLIENT_FRAME_HEAD + 4),
                                   NGHTTP2_RST_STREAM, 0, s->id, 4),
                    s->code);
    as_h2_client_close(h, s, s->code);
}

/* --- the connection --- */

static bool may_begin(const struct as_h2_client *h)
{
    return !as_list_empty(&h->waiting) && h->n_begun < h->max_streams && !h->goaway;
}

static bool may_send_body(const struct as_h2_client *h)
{
    return !as_list_empty(&h->sending) && h->window > 0;
}

static struct as_h2_client_stream *first_of(const struct as_list *l)
{
    return AS_LIST_ENTRY(l->next, struct as_h2_client_stream, todo);
}

int as_h2_client_send(struct as_h2_client *h, struct as_outq *q, size_t max)
{
    while (q->bytes < max && (h->control.n || !h->over)) {
        if (h->control.n) {
            as_outq_copy(q, h->control.p, h->control.n);
            h->control.n = 0;
        } else if (!as_list_empty(&h->resets)) {
            send_reset(h, q, first_of(&h->resets));
        } else if (may_begin(h)) {
            begin_stream(h, q, first_of(&h->waiting));
        } else if (may_send_body(h)) {
            send_body(h, q, first_of(&h->sending));
        } else {
            break;
        }
    }
    return h->over ? AS_EPROTO : 0;
}

bool as_h2_client_wants_write(const struct as_h2_client *h)
{
    return h->control.n ||
           (!h->over && (!as_list_empty(&h->resets) || may_begin(h) || may_send_body(h)));
}
