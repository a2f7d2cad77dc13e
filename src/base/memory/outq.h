/* base/memory/outq.h — the queue of bytes that wait to be written to one connection.
 *
 * Small pieces are copied into chunks, so that many frames become one iovec. A piece of a blob is
 * referenced without a copy and keeps the blob alive until it is written. The owner asks for
 * iovecs, writes as much as the descriptor accepts, and drops the bytes that were written. Out of
 * memory, the queue becomes broken: it discards all bytes, those that it had and those that still
 * come, and its owner must close the connection. Thread: that of the connection.
 */
#ifndef AS_BASE_OUTQ_H
#define AS_BASE_OUTQ_H

#include "base/buf.h"
#include "base/memory/blob.h"

#include <sys/uio.h>

struct as_outq_seg;

struct as_outq {
    struct as_outq_seg *head, *tail;
    struct as_outq_seg *spare; /* one empty chunk kept, so that a busy queue does not allocate */
    size_t bytes;              /* waiting; not 0 while broken, so that the owner tries to write */
    bool broken;
};

void as_outq_init(struct as_outq *q);
void as_outq_fini(struct as_outq *q);

/* Appends exactly n bytes, which the caller fills before any other call. The pointer is valid until
 * the bytes are dropped. Never NULL: the bytes of a broken queue go to memory that nobody reads. */
uint8_t *as_outq_alloc(struct as_outq *q, size_t n);
void as_outq_copy(struct as_outq *q, const void *p, size_t n);
/* Appends n bytes at p, which are part of `b`, by a reference of its own to `b`. */
void as_outq_ref(struct as_outq *q, struct as_blob *b, const void *p, size_t n);

/* Bytes of memory that the queue has allocated, blobs excluded. Walks all pieces. */
size_t as_outq_memory(const struct as_outq *q);
/* Fills at most `max` iovecs from the front; returns how many. */
int as_outq_iov(const struct as_outq *q, struct iovec *iov, int max);
/* Appends a copy of all that waits to `out`; nothing is dropped. */
void as_outq_peek(const struct as_outq *q, struct as_buf *out);
void as_outq_drop(struct as_outq *q, size_t n); /* n <= q->bytes */

#endif
