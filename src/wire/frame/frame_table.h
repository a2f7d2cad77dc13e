/* wire/frame/frame_table.h — the parts of messages that tensors and calls share: the records of the
 * table, and a body that is written piece by piece.
 *
 * Private to frame*.c.
 */
#ifndef AS_WIRE_FRAME_TABLE_H
#define AS_WIRE_FRAME_TABLE_H

#include "wire/frame/frame_le.h"

/* The unread part of a table, and why it was refused. */
struct table_reader {
    const uint8_t *p;
    size_t n;
    const char *why;
};

static inline bool reject(struct table_reader *w, const char *why)
{
    w->why = why;
    return false;
}

/* The next `n` bytes of the table, rounded up to 8; NULL: the table is too short. */
static inline const uint8_t *take_bytes(struct table_reader *w, size_t n)
{
    const uint8_t *p = w->p;

    n = AS_ALIGN(n, 8);
    if (n > w->n) {
        w->why = "table: cut short";
        return NULL;
    }
    w->p += n;
    w->n -= n;
    return p;
}

static inline bool get_meta(struct table_reader *w, struct as_meta *m)
{
    const uint8_t *r = take_bytes(w, AS_MSG_META);

    if (!r)
        return false;
    m->key.n = get32(r);
    m->value.n = get32(r + 4);
    r = take_bytes(w, m->key.n + m->value.n);
    if (!r)
        return false;
    m->key.p = (const char *)r;
    m->value.p = (const char *)r + m->key.n;
    return true;
}

/* Writes `a` and then `b`, padded with zeros to 8; returns the end. */
static inline uint8_t *put_names(uint8_t *p, struct as_str a, struct as_str b)
{
    size_t n = AS_ALIGN(a.n + b.n, 8);

    if (!n)
        return p;
    put64(p + n - 8, 0);
    if (a.n)
        memcpy(p, a.p, a.n);
    if (b.n)
        memcpy(p + a.n, b.p, b.n);
    return p + n;
}

/* The size of the header records; more than AS_FRAME_TABLE if they do not fit. */
static inline size_t meta_len(const struct as_meta *m, uint32_t n_meta)
{
    size_t n = 0;

    for (uint32_t i = 0; i < n_meta; i++, m++) {
        if (m->key.n > AS_FRAME_TABLE || m->value.n > AS_FRAME_TABLE)
            return AS_FRAME_TABLE + 1;
        n += AS_MSG_META + AS_ALIGN(m->key.n + m->value.n, 8);
    }
    return n;
}

static inline uint8_t *put_meta(uint8_t *p, const struct as_meta *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, m++) {
        put32(p, (uint32_t)m->key.n);
        put32(p + 4, (uint32_t)m->value.n);
        p = put_names(p + AS_MSG_META, m->key, m->value);
    }
    return p;
}

/* Writes a body piece by piece: into the room of the message's own frame, or, if there is none,
 * into as many DATA frames as needed. */
struct as_frame_body_writer {
    struct as_outq *q;
    uint64_t stream;
    uint64_t left; /* bytes of the body that are not written */
    uint64_t room; /* bytes that the current frame has left */
    bool more;     /* the last frame has no END */
    size_t pad;    /* padding after the current frame */
};

/* For a body of `body` bytes, after the head of its message was written. */
static inline struct as_frame_body_writer as_frame_body_writer(struct as_outq *q, uint64_t stream,
                                                               uint64_t body, bool more)
{
    struct as_frame_body_writer w = {.q = q, .stream = stream, .left = body, .more = more};

    if (body <= AS_FRAME_INLINE) {
        w.room = body;
        w.pad = AS_ALIGN((size_t)body, AS_FRAME_ALIGN) - (size_t)body;
    }
    return w;
}

extern const uint8_t as_frame_zeros[AS_FRAME_ALIGN];

/* Appends n bytes of the body: a reference to `owner`, or a copy if it is NULL. */
void as_frame_body_put(struct as_frame_body_writer *w, const uint8_t *p, uint64_t n,
                       struct as_blob *owner);

#endif
