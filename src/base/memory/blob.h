/* base/memory/blob.h — a reference-counted, 64-byte aligned block of bytes, for tensor data that is
 * too large to copy.
 *
 * One owner fills it, then it is shared for reading; the last unref frees it. The count is atomic:
 * a request's bytes may still wait in a link's output on one loop after its client has gone on
 * another. Increments are relaxed, since the caller holds a reference already; the decrement is
 * acquire-release, so that all reads are done before the memory is freed. A blob can be charged to
 * an account (base/memory/budget.h); the charge ends when the blob is freed.
 */
#ifndef AS_BASE_BLOB_H
#define AS_BASE_BLOB_H

#include "base/memory/budget.h"

#define AS_BLOB_ALIGN  64
#define AS_BLOB_FIRST  ((size_t)128 << 10) /* a growing blob starts with so many bytes */
#define AS_BLOB_GROWTH 8u

struct as_blob {
    atomic_uint refs;
    size_t n;      /* bytes at data; so many are charged */
    size_t mapped; /* size of its run of pages (base/memory/pages.h); 0: it is in a slab
                    * (base/memory/slab.h) */
    uint8_t *data;
    struct as_account *account; /* that is charged, or NULL */
};

/* With one reference; the bytes are not zeroed. NULL: out of memory; refuse the request. */
struct as_blob *as_blob_new(size_t n);
struct as_blob *as_blob_ref(struct as_blob *b);
void as_blob_unref(struct as_blob *b); /* NULL is fine */

/* As as_blob_new, and charges n bytes to the account (NULL: to none) before it allocates. 0;
 * AS_EFULL: the account has no room for them; AS_ENOMEM. */
int as_blob_new_charged(struct as_account *account, size_t n, struct as_blob **ret_b);
/* For `total` bytes that a peer has announced and still has to send: the blob starts with at most
 * AS_BLOB_FIRST bytes and grows by a factor of AS_BLOB_GROWTH, so that an announcement alone takes
 * little memory. When as_blob_grow_at() bytes have come, the caller grows the blob to
 * as_blob_grow_to(). A peer that has sent AS_BLOB_FIRST bytes and an eighth of the total has room
 * for all of them. */
int as_blob_new_growing(struct as_account *account, size_t total, struct as_blob **ret_b);
static inline size_t as_blob_grow_at(const struct as_blob *b, size_t total)
{
    return b->n >= total ? total : AS_MIN(b->n, AS_MAX(total / AS_BLOB_GROWTH, AS_BLOB_FIRST));
}
static inline size_t as_blob_grow_to(size_t come, size_t total)
{
    return come >= total / AS_BLOB_GROWTH ? total : AS_BLOB_GROWTH * come;
}
/* Makes room for n bytes, n > (*b)->n, and keeps the bytes that are there; for a blob with a single
 * reference. *b may move. Bytes in runs of pages are not copied. 0; AS_EFULL, AS_ENOMEM: the blob
 * is unchanged. */
int as_blob_grow(struct as_blob **b, size_t n);
/* Ends the charge of all but the first n bytes, n > 0; the memory stays. */
void as_blob_truncate(struct as_blob *b, size_t n);

#endif
