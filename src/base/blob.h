/* base/blob.h — a counted, 64-byte aligned run of bytes, for tensor data above the copy threshold.
 *
 * Filled by one owner, then shared for reading; the last unref frees. The count is atomic, because
 * a request's bytes may still wait in a link's output on one loop when its client has gone on
 * another. Relaxed increments are enough (who increments holds a reference); the decrement is
 * acquire-release so that the last one sees all earlier reads done.
 */
#ifndef AS_BASE_BLOB_H
#define AS_BASE_BLOB_H

#include "base/defs.h"

#include <stdatomic.h>

#define AS_BLOB_ALIGN 64

struct as_blob {
    atomic_uint refs;
    size_t n;      /* bytes at data */
    size_t mapped; /* bytes of the run of pages (base/pages.h) that it lies in; 0: from the heap */
    uint8_t *data;
};

/* One reference, bytes not zeroed; NULL when memory is out (shed the request). */
struct as_blob *as_blob_new(size_t n);
struct as_blob *as_blob_ref(struct as_blob *b);
void as_blob_unref(struct as_blob *b); /* NULL is fine */

#endif
