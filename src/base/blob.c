#include "base/blob.h"

#include "base/live.h"

struct as_blob *as_blob_new(size_t n)
{
    size_t head = AS_ALIGN(sizeof(struct as_blob), AS_BLOB_ALIGN);
    struct as_blob *b;

    if (n > SIZE_MAX / 2)
        return NULL;
    /* 64 bytes: a cache line, and as much as any vector load of numpy's asks for */
    b = aligned_alloc(AS_BLOB_ALIGN, head + AS_ALIGN(n, AS_BLOB_ALIGN));
    if (!b)
        return NULL;
    as_live_add(n);
    atomic_init(&b->refs, 1);
    b->n = n;
    b->data = (uint8_t *)b + head;
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
    free(b);
}
