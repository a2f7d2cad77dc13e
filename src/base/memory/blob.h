/* base/memory/blob.h — a counted, 64-byte aligned run of bytes, for tensor data above the copy
 * threshold.
 *
 * Filled by one owner, then shared for reading; the last unref frees. The count is atomic, because
 * a request's bytes may still wait in a link's output on one loop when its client has gone on
 * another. Relaxed increments are enough (who increments holds a reference); the decrement is
 * acquire-release so that the last one sees all earlier reads done. A blob may be charged to an
 * account (base/memory/budget.h): its bytes are given back when it is freed, whoever lets it go
 * last.
 */
#ifndef AS_BASE_MEMORY_BLOB_H
#define AS_BASE_MEMORY_BLOB_H

#include "base/memory/budget.h"

#define AS_BLOB_ALIGN  64
#define AS_BLOB_FIRST  ((size_t)128 << 10) /* of bytes that come over time: as_blob_new_growing */
#define AS_BLOB_GROWTH 8u

struct as_blob {
    atomic_uint refs;
    size_t n;      /* bytes at data, as many as are charged */
    size_t mapped; /* bytes of the run of pages (base/memory/pages.h) that it lies in; 0: from a
                      slab (base/memory/slab.h) */
    uint8_t *data;
    struct as_account *account; /* NULL: it is not charged */
};

/* One reference, bytes not zeroed; NULL when memory is out (shed the request). */
struct as_blob *as_blob_new(size_t n);
struct as_blob *as_blob_ref(struct as_blob *b);
void as_blob_unref(struct as_blob *b); /* NULL is fine */

/* As as_blob_new, with n bytes of the account's (NULL: nobody's) charged before memory is taken. 0;
 * AS_EFULL: no room there; AS_ENOMEM. */
int as_blob_new_charged(struct as_account *account, size_t n, struct as_blob **ret_b);
/* For `total` bytes that come over time: the first AS_BLOB_FIRST of them are charged now, or all if
 * they are no more. When as_blob_grow_at have come, it is extended to as_blob_grow_to. So whoever
 * has sent AS_BLOB_FIRST, and an eighth of its bytes, has room for all. */
int as_blob_new_growing(struct as_account *account, size_t total, struct as_blob **ret_b);
static inline size_t as_blob_grow_at(const struct as_blob *b, size_t total)
{
    return b->n >= total ? total : AS_MIN(b->n, AS_MAX(total / AS_BLOB_GROWTH, AS_BLOB_FIRST));
}
static inline size_t as_blob_grow_to(size_t come, size_t total)
{
    return come >= total / AS_BLOB_GROWTH ? total : AS_BLOB_GROWTH * come;
}
/* Room for n bytes, more than b->n, with those that are there; of a blob that nobody else refers
 * to. *b may be another one then. Bytes in runs of pages are not copied. AS_EFULL, AS_ENOMEM: it is
 * as it was. */
int as_blob_grow(struct as_blob **b, size_t n);
/* Only the first n bytes, at least one, were needed. */
void as_blob_truncate(struct as_blob *b, size_t n);

#endif
