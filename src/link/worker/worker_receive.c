/* Receiving: one buffer for many frames; large bodies are read straight into blobs of their own.
 *
 * Buffer and stream offsets are congruent modulo 64, so that inline bodies are aligned where they
 * were read. A request refers to the buffer that holds its frame. A buffer that nothing refers to
 * is used again from its start; else it becomes a spare, and another buffer is used.
 */
#include "base/memory/pages.h"
#include "base/memory/slab.h"
#include "link/worker/worker_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define ROOM_MIN  (32u << 10) /* with less room at its end, another buffer is used */
#define READS_MAX 8           /* reads in a row, so that other work gets its turn */

static void set_buffer(struct as_worker_rx *rx, struct as_blob *b)
{
    rx->buf = b;
    rx->reader.p = b ? b->data : NULL;
    rx->reader.cap = b ? b->n : 0;
}

void as_worker_rx_reset(struct as_worker *w, struct as_worker_link *l)
{
    struct as_worker_rx *rx = &l->rx;

    rx->reader = (struct as_frame_reader){.p = rx->reader.p, .cap = rx->reader.cap};
    if (rx->into && rx->into->orphan)
        as_worker_req_put(w, rx->into);
    rx->into = NULL;
    if (rx->buf && !as_worker_blob_unshared(rx->buf)) {
        as_blob_unref(rx->buf);
        set_buffer(rx, NULL);
    }
}

void as_worker_rx_fini(struct as_worker_link *l)
{
    as_blob_unref(l->rx.buf);
    for (uint32_t i = 0; i < l->rx.n_spare; i++)
        as_blob_unref(l->rx.spare[i]);
    set_buffer(&l->rx, NULL);
    l->rx.n_spare = 0;
}

static size_t unused_bytes(const struct as_blob *b)
{
    return b && as_worker_blob_unshared(b) ? b->n : 0;
}

/* Unused buffers are not counted. */
void as_worker_count_memory(struct as_worker *w)
{
    size_t unused = 0;

    AS_WORKER_LINKS(w, l)
    {
        const struct as_worker_rx *rx = &l->rx;

        unused += rx->reader.at == rx->reader.end ? unused_bytes(rx->buf) : 0;
        for (uint32_t i = 0; i < rx->n_spare; i++)
            unused += unused_bytes(rx->spare[i]);
    }
    w->stat.live = as_live_bytes() - unused;
}

static void trim_spares(struct as_worker_rx *rx)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < rx->n_spare; i++) {
        if (unused_bytes(rx->spare[i]))
            as_blob_unref(rx->spare[i]);
        else
            rx->spare[n++] = rx->spare[i];
    }
    rx->n_spare = n;
}

void as_worker_trim(struct as_worker *w)
{
    AS_WORKER_LINKS(w, l) trim_spares(&l->rx);
    as_slab_trim();
    as_pages_trim();
}

/* A buffer of AS_WORKER_RX_CAP bytes that nothing refers to. NULL: out of memory. */
static struct as_blob *acquire_buffer(struct as_worker_rx *rx)
{
    for (uint32_t i = 0; i < rx->n_spare; i++) {
        struct as_blob *b = rx->spare[i];

        if (as_worker_blob_unshared(b)) {
            rx->spare[i] = rx->spare[--rx->n_spare];
            rx->pinned = false;
            return b;
        }
    }
    rx->pinned = rx->n_spare == AS_WORKER_RX_SPARE;
    return as_blob_new(AS_WORKER_RX_CAP);
}

static void keep_spare(struct as_worker_rx *rx, struct as_blob *b)
{
    if (b->n == AS_WORKER_RX_CAP && rx->n_spare < AS_WORKER_RX_SPARE)
        rx->spare[rx->n_spare++] = b;
    else
        as_blob_unref(b);
}

/* Switches to a buffer with room for `need` bytes from offset `off`; moves an incomplete frame
 * there. */
static int switch_buffer(struct as_worker_rx *rx, size_t need, size_t off)
{
    struct as_frame_reader *r = &rx->reader;
    size_t rest = r->end - r->at;
    struct as_blob *b;

    if (rx->buf && as_worker_blob_unshared(rx->buf) && rx->buf->n >= off + need &&
        off + rest <= r->at) {
        memcpy(r->p + off, r->p + r->at, rest);
    } else {
        b = off + need > AS_WORKER_RX_CAP ? as_blob_new(off + need) : acquire_buffer(rx);
        if (!b)
            return AS_ENOMEM;
        if (rest)
            memcpy(b->data + off, r->p + r->at, rest);
        if (rx->buf)
            keep_spare(rx, rx->buf);
        set_buffer(rx, b);
    }
    r->at = off;
    r->end = off + rest;
    return 0;
}

/* Makes room for the next read. An incomplete frame needs room for all of it in one piece. */
static int make_room(struct as_worker_rx *rx)
{
    struct as_frame_reader *r = &rx->reader;
    size_t rest = r->end - r->at, need = rest ? r->need : 0;
    size_t off = as_frame_reader_offset(r);

    if (rx->buf && !rest && as_worker_blob_unshared(rx->buf)) {
        r->at = r->end = off;
        return 0;
    }
    if (!rest &&
        r->at % AS_FRAME_ALIGN != off) /* a body was read directly, not through the buffer */
        r->at = r->end = AS_ALIGN(r->at, (size_t)AS_FRAME_ALIGN) + off;
    if (rx->buf && r->at < r->cap && r->cap - r->at >= AS_MAX(need, rest + ROOM_MIN))
        return 0;
    return switch_buffer(rx, AS_MAX(need, (size_t)ROOM_MIN), off);
}

/* Handles what comes next in the buffer. False: more bytes are needed, or the link has ended. */
static bool parse_one(struct as_worker *w, struct as_worker_link *l)
{
    struct as_worker_rx *rx = &l->rx;
    struct as_worker_req *q;
    struct as_frame f;

    switch (as_frame_reader_next(&rx->reader, &f)) {
    case AS_FRAME_READ_MORE:
        return false;
    case AS_FRAME_READ_FRAME:
        as_worker_on_frame(w, l, &f, rx->buf);
        break;
    case AS_FRAME_READ_BODY:
        if (!as_worker_begin_body(w, l, &f, &q))
            break;
        rx->reader.sink = q->body->data + q->body_received;
        rx->into = q;
        rx->into_n = f.n;
        break;
    case AS_FRAME_READ_BODY_END:
        q = rx->into;
        rx->into = NULL;
        if (q)
            as_worker_on_body_bytes(w, q, rx->into_n);
        break;
    case AS_FRAME_READ_BAD:
        as_worker_close_link(w, l, "the dispatcher sent a malformed frame header");
    }
    return as_transport_is_open(l->transport);
}

/* One read. True: there may be more. */
static bool read_once(struct as_worker *w, struct as_worker_link *l)
{
    struct as_worker_rx *rx = &l->rx;
    struct iovec iov[2];
    size_t want = 0;
    int k;
    int64_t n;

    if (make_room(rx)) {
        as_worker_close_link(w, l, "out of memory for a receive buffer");
        return false;
    }
    k = as_frame_reader_iov(&rx->reader, iov);
    for (int i = 0; i < k; i++)
        want += iov[i].iov_len;
    n = l->transport->ops->read(l->transport, iov, k, NULL);
    rx->drained = n < (int64_t)want;
    if (n <= 0) {
        if (n == AS_EOF)
            as_worker_close_link(w, l, "the dispatcher closed the link");
        else if (n != AS_EAGAIN)
            as_worker_close_link(w, l, strerror(errno));
        return false;
    }
    as_frame_reader_received(&rx->reader, (size_t)n);
    while (parse_one(w, l))
        ;
    return (size_t)n == want && as_transport_is_open(l->transport);
}

void as_worker_read(struct as_worker *w)
{
    w->was_read = true;
    AS_WORKER_LINKS(w, l)
    {
        for (int i = 0; i < READS_MAX && as_transport_is_open(l->transport) && read_once(w, l); i++)
            ;
        if (__builtin_expect(l->is_second, 0))
            as_worker_handover_step(w, l);
    }
}
