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

void as_worker_rx_reset(struct as_worker *w, struct as_worker_link *l)
{
    struct as_worker_rx *rx = &l->rx;

    rx->at = rx->end = rx->skip = rx->left = 0;
    if (rx->into && rx->into->orphan)
        as_worker_req_put(w, rx->into);
    rx->into = NULL;
    if (rx->buf && !as_worker_blob_unshared(rx->buf)) {
        as_blob_unref(rx->buf);
        rx->buf = NULL;
    }
}

void as_worker_rx_fini(struct as_worker_link *l)
{
    as_blob_unref(l->rx.buf);
    for (uint32_t i = 0; i < l->rx.n_spare; i++)
        as_blob_unref(l->rx.spare[i]);
    l->rx.buf = NULL;
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

        unused += rx->at == rx->end ? unused_bytes(rx->buf) : 0;
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
    size_t rest = rx->end - rx->at;
    struct as_blob *b;

    if (rx->buf && as_worker_blob_unshared(rx->buf) && rx->buf->n >= off + need &&
        off + rest <= rx->at) {
        memcpy(rx->buf->data + off, rx->buf->data + rx->at, rest);
    } else {
        b = off + need > AS_WORKER_RX_CAP ? as_blob_new(off + need) : acquire_buffer(rx);
        if (!b)
            return AS_ENOMEM;
        if (rest)
            memcpy(b->data + off, rx->buf->data + rx->at, rest);
        if (rx->buf)
            keep_spare(rx, rx->buf);
        rx->buf = b;
    }
    rx->at = off;
    rx->end = off + rest;
    return 0;
}

/* Makes room for the next read. An incomplete frame needs room for all of it in one piece. */
static int make_room(struct as_worker_rx *rx)
{
    size_t rest = rx->end - rx->at, need = 0;
    size_t off = (AS_FRAME_ALIGN - rx->skip) % AS_FRAME_ALIGN;
    struct as_frame f;
    int64_t n = 0;

    if (rest) {
        n = as_frame_peek(rx->buf->data + rx->at, rest, &f);
        AS_ASSERT(n >= 0); /* parse_one has checked it */
        need = (size_t)n;
    }
    if (rx->buf && !rest && as_worker_blob_unshared(rx->buf)) {
        rx->at = rx->end = off;
        return 0;
    }
    if (!rest &&
        rx->at % AS_FRAME_ALIGN != off) /* a body was read directly, not through the buffer */
        rx->at = rx->end = AS_ALIGN(rx->at, (size_t)AS_FRAME_ALIGN) + off;
    if (rx->buf && rx->at < rx->buf->n && rx->buf->n - rx->at >= AS_MAX(need, rest + ROOM_MIN))
        return 0;
    return switch_buffer(rx, AS_MAX(need, (size_t)ROOM_MIN), off);
}

/* Starts a DATA frame with an incomplete payload: copies what is here; the rest is read in place.
 */
static void begin_direct(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                         size_t total)
{
    struct as_worker_rx *rx = &l->rx;
    struct as_worker_req *q;
    size_t have = rx->end - rx->at - AS_FRAME_HEADER;
    size_t n = AS_MIN(have, (size_t)f->n);
    size_t pad = total - AS_FRAME_HEADER - f->n;

    if (!as_worker_begin_body(w, l, f, &q))
        return;
    memcpy(q->body->data + q->body_received, f->p, n);
    if (n < f->n) {
        rx->into = q;
        rx->left = f->n - n;
    }
    rx->skip = pad - (have - n);
    rx->at = rx->end;
    as_worker_on_body_bytes(w, q, n);
}

static bool is_body(const struct as_frame *f)
{
    return f->type == AS_FRAME_DATA && !(f->flags & AS_FRAME_F_MSG);
}

static bool is_discarded(const struct as_worker *w, const struct as_worker_link *l,
                         const struct as_frame *f)
{
    if (as_worker_find_partial_input(w, l, f->stream))
        return false;
    AS_LIST_EACH(n, &l->waiting)
    {
        if (AS_LIST_ENTRY(n, struct as_worker_req, node)->stream == f->stream)
            return false;
    }
    return true;
}

/* Handles the frame at `at`. False: it is not complete, or the link has ended. */
static bool parse_one(struct as_worker *w, struct as_worker_link *l)
{
    struct as_worker_rx *rx = &l->rx;
    struct as_worker_req *q;
    struct as_frame f;
    size_t have = rx->end - rx->at;
    int64_t n = as_frame_peek(rx->buf->data + rx->at, have, &f);

    if (n < 0) {
        as_worker_close_link(w, l, "the dispatcher sent a malformed frame header");
        return false;
    }
    if (n == 0)
        return false;
    if ((size_t)n > have) {
        if (is_body(&f) && !is_discarded(w, l, &f))
            begin_direct(w, l, &f, (size_t)n);
        return false;
    }
    rx->at += (size_t)n;
    if (!is_body(&f)) {
        as_worker_on_frame(w, l, &f, rx->buf);
    } else if (as_worker_begin_body(w, l, &f, &q)) {
        memcpy(q->body->data + q->body_received, f.p, f.n);
        as_worker_on_body_bytes(w, q, f.n);
    }
    return as_transport_is_open(l->transport);
}

static void parse(struct as_worker *w, struct as_worker_link *l)
{
    struct as_worker_rx *rx = &l->rx;

    if (rx->skip) {
        size_t k = AS_MIN(rx->skip, rx->end - rx->at);

        rx->at += k;
        rx->skip -= k;
        if (rx->skip)
            return;
    }
    while (rx->at < rx->end && parse_one(w, l))
        ;
}

/* One read. True: there may be more. */
static bool read_once(struct as_worker *w, struct as_worker_link *l)
{
    struct as_worker_rx *rx = &l->rx;
    struct iovec iov[2];
    int k = 0;
    size_t want = 0;
    int64_t n;

    if (make_room(rx)) {
        as_worker_close_link(w, l, "out of memory for a receive buffer");
        return false;
    }
    if (rx->left)
        iov[k++] = (struct iovec){rx->into->body->data + rx->into->body_received, rx->left};
    iov[k++] = (struct iovec){rx->buf->data + rx->end, rx->buf->n - rx->end};
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
    if (rx->left) {
        size_t m = AS_MIN(rx->left, (size_t)n);
        struct as_worker_req *q = rx->into;

        rx->left -= m;
        if (!rx->left)
            rx->into = NULL;
        rx->end += (size_t)n - m;
        as_worker_on_body_bytes(w, q, m);
    } else {
        rx->end += (size_t)n;
    }
    parse(w, l);
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
