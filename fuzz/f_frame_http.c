/* fuzz/f_frame_http.c — a hostile peer on the link: any bytes through the decoders of HTTP
 * requests.
 *
 * The input is cut into frames, and each goes through every decoder. A frame that was accepted is
 * encoded again and must come out the same: it has exactly one encoding.
 */
#include "base/err.h"
#include "wire/frame/frame_http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Volatile, so that the reads below are not optimised away: they are what a sanitizer watches. */
static volatile unsigned sink;

static void touch(const void *p, uint64_t n)
{
    const uint8_t *b = p;
    unsigned sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += b[i];
    sink = sum;
}

static void touch_fields(const struct as_meta *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        touch(m[i].key.p, m[i].key.n);
        touch(m[i].value.p, m[i].value.n);
    }
}

/* The queue holds the frame f again; its padding may be anything. */
static void assert_same(struct as_outq *q, const struct as_frame *f)
{
    struct as_frame again;
    struct iovec v;

    AS_ASSERT(as_outq_iov(q, &v, 1) == 1);
    AS_ASSERT(as_frame_next(v.iov_base, v.iov_len, &again) == (int64_t)v.iov_len);
    AS_ASSERT(again.n == f->n && again.type == f->type);
    AS_ASSERT((again.flags & AS_FRAME_F_END) == (f->flags & AS_FRAME_F_END));
    AS_ASSERT(memcmp(again.p, f->p, AS_FRAME_FIXED) == 0);
    as_outq_drop(q, v.iov_len);
}

static void open_or_head(const struct as_frame *f, struct as_outq *q)
{
    struct as_frame_http_open o;
    struct as_frame_http_head h;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    if (as_frame_get_http_open(f, &a, &o, &why) == 0) {
        const struct as_str texts[] = {o.id,    o.method,    o.scheme, o.authority, o.path,
                                       o.query, o.root_path, o.peer,   o.server};

        for (size_t i = 0; i < AS_COUNT(texts); i++)
            touch(texts[i].p, texts[i].n);
        touch_fields(o.meta, o.n_meta);
        touch(o.body, o.body_len);
        AS_ASSERT(as_frame_put_http_open(q, f->stream, &o, NULL) == 0);
        assert_same(q, f);
    } else {
        AS_ASSERT(*why);
    }
    if (as_frame_get_http_head(f, &a, &h, &why) == 0) {
        touch_fields(h.meta, h.n_meta);
        touch(h.body, h.body_len);
        AS_ASSERT(as_frame_put_http_head(q, f->stream, &h, NULL) == 0);
        assert_same(q, f);
    } else {
        AS_ASSERT(*why);
    }
    as_arena_fini(&a);
}

static void decode(const struct as_frame *f)
{
    struct as_frame_ws_message m;
    struct as_outq q;
    const char *why;

    touch(&(unsigned){as_frame_http_type(f)}, sizeof(unsigned));
    as_outq_init(&q);
    open_or_head(f, &q);
    if (as_frame_get_ws_message(f, &m, &why) == 0) {
        AS_ASSERT(m.body || !m.body_len || m.body_len > AS_FRAME_INLINE);
        if (m.body || !m.body_len) {
            touch(m.body, m.body_len);
            AS_ASSERT(as_frame_put_ws_message(&q, f->stream, &m, NULL) == 0);
            assert_same(&q, f);
        }
    } else {
        AS_ASSERT(*why);
    }
    AS_ASSERT(!q.bytes);
    as_outq_fini(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = NULL;
    struct as_frame f;
    size_t at = 0;

    /* Exactly as large as the input, so that a sanitizer sees one byte too far. */
    if (posix_memalign((void **)&copy, AS_FRAME_ALIGN, size ? size : 1))
        return 0;
    if (size)
        memcpy(copy, data, size);
    for (;;) {
        int64_t used = as_frame_next(copy + at, size - at, &f);

        if (used <= 0)
            break;
        at += (size_t)used;
        decode(&f);
    }
    free(copy);
    return 0;
}
