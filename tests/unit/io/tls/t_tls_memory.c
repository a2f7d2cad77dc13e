/* Specification of io/tls/tls_memory: blocks keep their content when they are resized. */
#include "io/tls/tls_memory.h"

#include "base/defs.h"
#include "unit.h"

#include <openssl/crypto.h>
#include <stddef.h>

static int set_up_all(void **state AS_UNUSED)
{
    CRYPTO_malloc_fn get;
    CRYPTO_realloc_fn resize;
    CRYPTO_free_fn put;

    as_tls_memory_use();
    as_tls_memory_use();
    CRYPTO_get_mem_functions(&get, &resize, &put);
    return get == CRYPTO_malloc; /* it came too late */
}

static void check(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != (uint8_t)(i * 3))
            fail_msg("byte %zu of %zu is wrong", i, n);
    }
}

/* Over the border between the heap and the slabs, in both directions. */
static void resizing(void **state AS_UNUSED)
{
    static const size_t sizes[] = {1, 511, 512, 513, 100, 20000, 300000, 512, 511, 16};
    uint8_t *p = NULL;
    size_t n = 0;

    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        p = OPENSSL_realloc(p, sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        check(p, AS_MIN(n, sizes[i]));
        for (n = 0; n < sizes[i]; n++)
            p[n] = (uint8_t)(n * 3);
    }
    OPENSSL_free(p);
    OPENSSL_free(NULL);
    assert_null(OPENSSL_malloc(0));
    assert_null(OPENSSL_malloc(SIZE_MAX));
    assert_null(OPENSSL_realloc(OPENSSL_malloc(10), 0));
}

#ifndef __SANITIZE_ADDRESS__ /* which ends the process for such a block */
static void a_block_that_cannot_be_had(void **state AS_UNUSED)
{
    unsigned failures = as_tls_memory_failures();

    assert_null(OPENSSL_malloc(SIZE_MAX / 4));
    assert_int_equal(as_tls_memory_failures(), failures + 1);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizing),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(a_block_that_cannot_be_had),
#endif
    };

    return cmocka_run_group_tests(tests, set_up_all, NULL);
}
