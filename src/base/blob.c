#include "base/blob.h"

#include "base/live.h"
#include "base/pages.h"

#define HEAD AS_ALIGN(sizeof(struct as_blob), AS_BLOB_ALIGN)

/* AddressSanitizer sees where a run of the heap ends, of pages it does not. */
#ifdef __SANITIZE_ADDRESS__
#define MAPPED_MIN SIZE_MAX
#else
#define MAPPED_MIN AS_PAGES_MIN
#endif

struct as_blob *as_blob_new(size_t n)
{
    struct as_blob *b;
    size_t mapped = 0;

    if (n > SIZE_MAX / 2)
        return NULL;
    /* 64 bytes: a cache line, and as much as any vector load of numpy's asks for */
    if (n >= MAPPED_MIN)
        b = as_pages_get(HEAD + n, &mapped);
    else
        b = aligned_alloc(AS_BLOB_ALIGN, HEAD + AS_ALIGN(n, AS_BLOB_ALIGN));
    if (!b)
        return NULL;
    as_live_add(n);
    atomic_init(&b->refs, 1);
    b->n = n;
    b->mapped = mapped;
    b->data = (uint8_t *)b + HEAD;
    return b;
}

struct as_blob *as_blob_ref(struct as_blob *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void as_blob_unref(struct as_blob *b)
{
    if (!b)
        return;
    /* acquire: whoever frees it sees the last reads and writes of all who had it */
    if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    as_live_sub(b->n);
    if (b->mapped)
        as_pages_put(b, b->mapped);
    else
        free(b);
}
