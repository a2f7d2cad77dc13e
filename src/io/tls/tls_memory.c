#include "io/tls/tls_memory.h"

#include "base/memory/slab.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Smaller blocks are from the heap. For one that cannot be had the process ends, as it does for
 * small allocations of its own: OpenSSL may keep the failure, as its random generators do, and
 * refuse all later handshakes. A larger one is a connection's: only that is closed. */
#define SLAB_MIN 512u

/* In front of each block. */
struct head {
    alignas(max_align_t) size_t n; /* bytes of the block */
};

static atomic_uint failures;

static bool is_in_slab(size_t n)
{
    return n >= SLAB_MIN;
}

static void *get(size_t n, const char *file AS_UNUSED, int line AS_UNUSED)
{
    struct head *h;

    if (!n || n > SIZE_MAX - sizeof(*h))
        return NULL;
    h = is_in_slab(n) ? as_slab_get(sizeof(*h) + n) : as_xalloc(sizeof(*h) + n);
    if (!h) {
        atomic_fetch_add_explicit(&failures, 1, memory_order_relaxed);
        return NULL;
    }
    h->n = n;
    return h + 1;
}

static void put(void *p, const char *file AS_UNUSED, int line AS_UNUSED)
{
    struct head *h = p;

    if (!p)
        return;
    h--;
    if (is_in_slab(h->n))
        as_slab_put(h);
    else
        free(h);
}

static void *resize(void *p, size_t n, const char *file, int line)
{
    size_t old = p ? ((struct head *)p - 1)->n : 0;
    void *to = get(n, file, line);

    if (!to && n)
        return NULL;
    if (p && to)
        memcpy(to, p, AS_MIN(old, n));
    put(p, file, line);
    return to;
}

unsigned as_tls_memory_failures(void)
{
    return atomic_load_explicit(&failures, memory_order_relaxed);
}

static void use(void)
{
    (void)CRYPTO_set_mem_functions(get, resize, put);
}

void as_tls_memory_use(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, use);
}
