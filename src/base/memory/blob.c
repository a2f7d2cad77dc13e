#include "base/memory/blob.h"

#include "base/err.h"
#include "base/memory/live.h"
#include "base/memory/pages.h"
#include "base/memory/slab.h"

#include <string.h>

#define HEAD_BYTES AS_ALIGN(sizeof(struct as_blob), AS_BLOB_ALIGN)

/* With AddressSanitizer all memory comes from the heap: there it detects accesses out of bounds. */
#ifdef __SANITIZE_ADDRESS__
#define MAPPED_MIN SIZE_MAX
#else
#define MAPPED_MIN AS_PAGES_MIN
#endif

// NOLINTNEXTLINE(misc-redundant-expression): two settings, which are equal today
static_assert(AS_BLOB_FIRST >= AS_PAGES_MIN, "a blob that grows is in a run of pages");

static_assert(AS_SLAB_ALIGN >= AS_BLOB_ALIGN, "a small blob is in a slab");

/* `p` has room for the header and n bytes, or is NULL. */
static struct as_blob *init_blob(void *p, size_t n, size_t mapped)
{
    struct as_blob *b = p;

    if (!b)
        return NULL;
    as_live_add(n);
    atomic_init(&b->refs, 1);
    b->n = n;
    b->mapped = mapped;
    b->data = (uint8_t *)b + HEAD_BYTES;
    b->account = NULL;
    return b;
}

struct as_blob *as_blob_new(size_t n)
{
    size_t mapped = 0;
    void *p;

    if (n > SIZE_MAX / 2)
        return NULL;
    p = n >= MAPPED_MIN ? as_pages_get(HEAD_BYTES + n, &mapped) : as_slab_get(HEAD_BYTES + n);
    return init_blob(p, n, mapped);
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
    if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    as_live_sub(b->n);
    if (b->account)
        as_account_uncharge(b->account, b->n);
    if (b->mapped)
        as_pages_put(b, b->mapped);
    else
        as_slab_put(b);
}

/* --- charged blobs --- */

static int charge(struct as_account *account, size_t n)
{
    return !account || as_account_try_charge(account, n) ? 0 : AS_EFULL;
}

/* Attaches the account, to which n bytes are charged already, to the new blob `b`; NULL: it could
 * not be allocated, so the charge ends. */
static int finish_charged(struct as_blob *b, struct as_account *account, size_t n,
                          struct as_blob **ret_b)
{
    if (!b) {
        if (account)
            as_account_uncharge(account, n);
        return AS_ENOMEM;
    }
    b->account = account;
    *ret_b = b;
    return 0;
}

int as_blob_new_charged(struct as_account *account, size_t n, struct as_blob **ret_b)
{
    int err = charge(account, n);

    return err ? err : finish_charged(as_blob_new(n), account, n, ret_b);
}

int as_blob_new_growing(struct as_account *account, size_t total, struct as_blob **ret_b)
{
    size_t mapped, first = AS_MIN(total, AS_BLOB_FIRST);
    void *p = NULL;
    int err;

    if (total > SIZE_MAX / 2)
        return AS_ENOMEM;
    err = charge(account, first);
    if (err)
        return err;
    /* when a cached run has room for all of it, it never has to move */
    if (total >= MAPPED_MIN)
        p = as_pages_reuse(HEAD_BYTES + total, &mapped);
    return finish_charged(p ? init_blob(p, first, mapped) : as_blob_new(first), account, first,
                          ret_b);
}

/* Moves b to memory for n bytes. NULL: out of memory, b is unchanged. */
static struct as_blob *move_to_larger(struct as_blob *b, size_t n)
{
    struct as_blob *to;
    size_t mapped;

    if (b->mapped) {
        to = as_pages_grow(b, b->mapped, HEAD_BYTES + n, &mapped);
        if (to) {
            to->mapped = mapped;
            to->data = (uint8_t *)to + HEAD_BYTES;
        }
        return to;
    }
    to = n >= MAPPED_MIN ? as_pages_get(HEAD_BYTES + n, &mapped) : as_slab_get(HEAD_BYTES + n);
    if (!to)
        return NULL;
    memcpy(to, b, HEAD_BYTES + b->n);
    to->mapped = n >= MAPPED_MIN ? mapped : 0;
    to->data = (uint8_t *)to + HEAD_BYTES;
    as_slab_put(b);
    return to;
}

int as_blob_grow(struct as_blob **blob, size_t n)
{
    struct as_blob *b = *blob;
    size_t more = n - b->n;
    int err;

    AS_ASSERT(n > b->n && atomic_load_explicit(&b->refs, memory_order_relaxed) == 1);
    if (n > SIZE_MAX / 2)
        return AS_ENOMEM;
    err = charge(b->account, more);
    if (err)
        return err;
    if (HEAD_BYTES + n > b->mapped)
        b = move_to_larger(b, n);
    if (!b) {
        if ((*blob)->account)
            as_account_uncharge((*blob)->account, more);
        return AS_ENOMEM;
    }
    as_live_add(more);
    b->n = n;
    *blob = b;
    return 0;
}

void as_blob_truncate(struct as_blob *b, size_t n)
{
    AS_ASSERT(n && n <= b->n); /* with no byte charged, the account could be freed too early */
    as_live_sub(b->n - n);
    if (b->account)
        as_account_uncharge(b->account, b->n - n);
    b->n = n;
}
