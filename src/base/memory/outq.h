/* base/memory/outq.h — bytes that wait to be written: copied small ones, referenced large ones.
 *
 * Small pieces are copied one behind the other into chunks, so that many frames become one iovec;
 * pieces of a blob are referenced without a copy and keep the blob alive until they are written.
 * The owner takes iovecs, writes as much as the descriptor accepts, and drops what was written.
 * When memory runs out the queue is broken: what it had and what comes is dropped, and its owner
 * must end the connection, since bytes are missing. Thread: that of its connection.
 */
#ifndef AS_BASE_MEMORY_OUTQ_H
#define AS_BASE_MEMORY_OUTQ_H

#include "base/memory/blob.h"

#include <sys/uio.h>

struct as_outq_seg;

struct as_outq {
    struct as_outq_seg *head, *tail;
    struct as_outq_seg *spare; /* one empty chunk kept, so that a busy queue does not allocate */
    size_t bytes;              /* waiting; never 0 while broken, so that the owner comes by */
    bool broken;
};

void as_outq_init(struct as_outq *q);
void as_outq_fini(struct as_outq *q);

/* Room for exactly n bytes at the end, counted at once; the caller fills it before any other call.
 * Pointers stay valid until the bytes are dropped. Never NULL: a broken queue gives room that
 * nobody reads. */
uint8_t *as_outq_alloc(struct as_outq *q, size_t n);
void as_outq_copy(struct as_outq *q, const void *p, size_t n);
/* Takes a reference of its own on `b`; p[0..n) lies in it. */
void as_outq_ref(struct as_outq *q, struct as_blob *b, const void *p, size_t n);

/* Bytes of memory that are its own: those of blobs are not. Looks at every piece. */
size_t as_outq_memory(const struct as_outq *q);
/* Fills at most max iovecs from the front; returns how many. */
int as_outq_iov(const struct as_outq *q, struct iovec *iov, int max);
void as_outq_drop(struct as_outq *q, size_t n); /* n <= q->bytes */

#endif
