/* Trailers that were sent before, written again without nghttp2.
 *
 * On most connections every answer ends alike. Once nghttp2 has packed such trailers as nothing but
 * references to its compression table, one byte for each field, the same bytes mean the same until
 * the table changes; and only a block that is more than such references changes it (RFC 7541 §6).
 * Every block that nghttp2 packs comes by here, so that a change is seen. Where the bytes are good,
 * nghttp2 is told that the last DATA frame ends the stream; that frame leaves without END_STREAM,
 * and a HEADERS frame with it follows. That spares a frame's way through nghttp2, 9 % of all
 * instructions of a unary call, and the client sees no difference.
 */
#include "wire/h2_priv.h"

#include <endian.h>

#define FRAME_HEAD 9u

/* The answer's trailers are those of the memo. */
static bool same(const struct as_h2_memo *m, const struct as_h2_stream *s)
{
    const char *p = m->text;

    if (m->n_fields != s->n_trailers)
        return false;
    for (uint32_t i = 0; i < m->n_fields; i++) {
        const nghttp2_nv *f = &s->trailers[i];

        if (f->namelen != m->name_len[i] || f->valuelen != m->value_len[i] ||
            memcmp(p, f->name, f->namelen) != 0 ||
            memcmp(p + f->namelen, f->value, f->valuelen) != 0)
            return false;
        p += f->namelen + f->valuelen;
    }
    return true;
}

/* A new size of the table must be told at the start of the next block (RFC 7541 §4.2), which only
 * nghttp2 can do: not between the client's SETTINGS and that block. */
bool as_h2_tail_known(const struct as_h2 *h, const struct as_h2_stream *s)
{
    return !h->memo.stale && same(&h->memo, s);
}

void as_h2_tail_put(struct as_h2 *h, const struct as_h2_stream *s)
{
    const struct as_h2_memo *m = &h->memo;
    uint8_t *p = as_outq_room(h->q, FRAME_HEAD + m->n_fields);
    const uint32_t id = htobe32(s->id);

    p[0] = p[1] = 0;
    p[2] = (uint8_t)m->n_fields;
    p[3] = NGHTTP2_HEADERS;
    p[4] = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
    memcpy(p + 5, &id, sizeof(id));
    memcpy(p + FRAME_HEAD, m->block, m->n_fields);
}

/* Indexed fields whose index fits into the first byte (RFC 7541 §6.1), and nothing else. */
static bool is_references(const uint8_t *block, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (block[i] <= 0x80 || block[i] == 0xff)
            return false;
    }
    return true;
}

void as_h2_tail_offer(struct as_h2 *h, const struct as_h2_stream *s)
{
    struct as_h2_memo *m = &h->memo;
    size_t n = 0;

    if (m->n_fields || !s->n_trailers || s->n_trailers > AS_H2_MEMO_FIELDS)
        return;
    for (uint32_t i = 0; i < s->n_trailers; i++) {
        const nghttp2_nv *f = &s->trailers[i];

        if (f->namelen + f->valuelen > sizeof(m->text) - n)
            return;
        memcpy(m->text + n, f->name, f->namelen);
        memcpy(m->text + n + f->namelen, f->value, f->valuelen);
        n += f->namelen + f->valuelen;
        m->name_len[i] = (uint8_t)f->namelen;
        m->value_len[i] = (uint8_t)f->valuelen;
    }
    m->n_offered = s->n_trailers;
}

void as_h2_tail_note(struct as_h2 *h, const uint8_t *frame, size_t n)
{
    struct as_h2_memo *m = &h->memo;
    const uint8_t *block = frame + FRAME_HEAD;

    if (n < FRAME_HEAD || (frame[3] != NGHTTP2_HEADERS && frame[3] != NGHTTP2_CONTINUATION))
        return;
    n -= FRAME_HEAD;
    m->stale = false;
    if (!is_references(block, n)) {
        m->n_fields = 0;
    } else if (m->n_offered == n) {
        memcpy(m->block, block, n);
        m->n_fields = m->n_offered;
    }
    m->n_offered = 0;
}
