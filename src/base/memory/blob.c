#include "base/memory/blob.h"

#include "base/err.h"
#include "base/memory/live.h"
#include "base/memory/pages.h"
#include "base/memory/slab.h"

#include <string.h>

#define HEAD_BYTES AS_ALIGN(sizeof(struct as_blob), AS_BLOB_ALIGN)

/* AddressSanitizer sees where a run of the heap ends, of pages it does not. */
#ifdef __SANITIZE_ADDRESS__
#define MAPPED_MIN SIZE_MAX
#else
#define MAPPED_MIN AS_PAGES_MIN
#endif

static_assert(AS_BLOB_FIRST > AS_PAGES_MIN - 1, "what is extended lies in pages");

static_assert(AS_SLAB_ALIGN >= AS_BLOB_ALIGN, "a small one lies in a slab");

/* `p` has room for n bytes behind the head. */
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
    /* 64 bytes: a cache line, and as much as any vector load of numpy's asks for */
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
    /* acquire: whoever frees it sees the last reads and writes of all who had it */
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

/* --- charged ones --- */

static int charge(struct as_account *account, size_t n)
{
    return !account || as_account_try_charge(account, n) ? 0 : AS_EFULL;
}

/* Of n bytes that are charged. */
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
    /* a run that fits all of it is there already: it need not grow */
    if (total >= MAPPED_MIN)
        p = as_pages_reuse(HEAD_BYTES + total, &mapped);
    return finish_charged(p ? init_blob(p, first, mapped) : as_blob_new(first), account, first,
                          ret_b);
}

/* NULL: no memory, b is as it was. */
static struct as_blob *move_larger(struct as_blob *b, size_t n)
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
        b = move_larger(b, n);
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
    AS_ASSERT(n && n <= b->n); /* one byte keeps the account */
    as_live_sub(b->n - n);
    if (b->account)
        as_account_uncharge(b->account, b->n - n);
    b->n = n;
}
