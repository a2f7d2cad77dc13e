#include "base/memory/outq.h"

#include "base/memory/live.h"
#include "base/memory/slab.h"

#include <string.h>

#define CHUNK 65536
/* Behind a reference usually comes only the header of the next frame. */
#define CHUNK_AFTER_BLOB 512
/* No frame of ours is larger, with its table and inline body (wire/frame/frame.h). */
#define ROOM_MAX (2u << 20)

/* Where the bytes of broken queues are written: shared by all threads and never read. It takes no
 * memory until it is written to. */
static uint8_t discard_area[ROOM_MAX];

struct as_outq_seg {
    struct as_outq_seg *next;
    struct as_blob *blob; /* NULL: a chunk, whose bytes are at mem */
    const uint8_t *p;     /* first byte not yet written */
    size_t n;             /* bytes not yet written */
    size_t cap;           /* chunk: size of mem */
    uint8_t mem[] __attribute__((aligned(64)));
};

void as_outq_init(struct as_outq *q)
{
    *q = (struct as_outq){0};
}

static void free_segment(struct as_outq_seg *s)
{
    as_blob_unref(s->blob);
    as_live_sub(sizeof(*s) + s->cap);
    if (s->cap > CHUNK_AFTER_BLOB)
        as_slab_put(s);
    else
        free(s);
}

void as_outq_fini(struct as_outq *q)
{
    if (!q)
        return;
    while (q->head) {
        struct as_outq_seg *s = q->head;

        q->head = s->next;
        free_segment(s);
    }
    if (q->spare)
        free_segment(q->spare);
    as_outq_init(q);
}

static void mark_broken(struct as_outq *q)
{
    as_outq_fini(q);
    q->broken = true;
    q->bytes = 1;
}

/* NULL: the queue is broken. */
static struct as_outq_seg *push_segment(struct as_outq *q, size_t cap)
{
    struct as_outq_seg *s;

    if (q->broken)
        return NULL;
    /* a queue that is emptied in every turn of the loop uses its spare chunk again and again */
    if (cap && cap <= CHUNK && q->spare) {
        s = q->spare;
        q->spare = NULL;
    } else {
        s = cap > CHUNK_AFTER_BLOB ? as_slab_get(sizeof(*s) + cap)
                                   : aligned_alloc(64, AS_ALIGN(sizeof(*s) + cap, 64));
        if (!s) {
            mark_broken(q);
            return NULL;
        }
        as_live_add(sizeof(*s) + cap);
        s->cap = cap;
    }
    s->next = NULL;
    s->blob = NULL;
    s->p = s->mem;
    s->n = 0;
    if (q->tail)
        q->tail->next = s;
    else
        q->head = s;
    q->tail = s;
    return s;
}

uint8_t *as_outq_alloc(struct as_outq *q, size_t n)
{
    struct as_outq_seg *s = q->tail;
    uint8_t *p;

    if (!s || s->blob || s->cap - (size_t)(s->p - s->mem) - s->n < n)
        s = push_segment(q, AS_MAX(n, (size_t)(s && s->blob ? CHUNK_AFTER_BLOB : CHUNK)));
    if (!s) {
        AS_ASSERT(n <= ROOM_MAX);
        return discard_area;
    }
    p = s->mem + (s->p - s->mem) + s->n;
    s->n += n;
    q->bytes += n;
    return p;
}

void as_outq_copy(struct as_outq *q, const void *p, size_t n)
{
    while (n) { /* as_outq_alloc gives at most ROOM_MAX at once */
        size_t k = AS_MIN(n, (size_t)ROOM_MAX);

        memcpy(as_outq_alloc(q, k), p, k);
        p = (const uint8_t *)p + k;
        n -= k;
    }
}

void as_outq_ref(struct as_outq *q, struct as_blob *b, const void *p, size_t n)
{
    struct as_outq_seg *s;

    /* an empty segment would become an empty iovec that as_outq_drop never removes */
    if (!n)
        return;
    s = push_segment(q, 0);
    if (!s)
        return;
    s->blob = as_blob_ref(b);
    s->p = p;
    s->n = n;
    q->bytes += n;
}

size_t as_outq_memory(const struct as_outq *q)
{
    size_t n = 0;

    for (const struct as_outq_seg *s = q->head; s; s = s->next)
        n += sizeof(*s) + s->cap;
    return n;
}

int as_outq_iov(const struct as_outq *q, struct iovec *iov, int max)
{
    int k = 0;

    for (const struct as_outq_seg *s = q->head; s && k < max; s = s->next) {
        if (!s->n)
            continue;
        iov[k].iov_base = (void *)(uintptr_t)s->p;
        iov[k].iov_len = s->n;
        k++;
    }
    return k;
}

void as_outq_peek(const struct as_outq *q, struct as_buf *out)
{
    for (const struct as_outq_seg *s = q->head; s; s = s->next)
        as_buf_add(out, s->p, s->n);
}

void as_outq_drop(struct as_outq *q, size_t n)
{
    AS_ASSERT(n <= q->bytes);
    q->bytes -= n;
    while (q->head && q->head->n <= n) {
        struct as_outq_seg *s = q->head;

        n -= s->n;
        q->head = s->next;
        if (!q->head)
            q->tail = NULL;
        if (!s->blob && s->cap == CHUNK && !q->spare)
            q->spare = s;
        else
            free_segment(s);
    }
    if (n) {
        AS_ASSERT(q->head); /* q->bytes is the sum of its segments */
        q->head->p += n;
        q->head->n -= n;
    }
}
