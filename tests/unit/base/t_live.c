/* Specification of base/memory/live: the gauge of bytes that blobs, arenas and output queues hold.
 */
#include "base/memory/arena.h"
#include "base/memory/live.h"
#include "base/memory/outq.h"
#include "unit.h"

static void blobs_count_until_the_last_unref(void **state AS_UNUSED)
{
    size_t before = as_live_bytes();
    struct as_blob *b = as_blob_new(1000), *empty = as_blob_new(0);

    assert_int_equal(as_live_bytes(), before + 1000);
    as_blob_ref(b);
    as_blob_unref(b);
    assert_int_equal(as_live_bytes(), before + 1000);
    as_blob_unref(b);
    as_blob_unref(empty);
    assert_int_equal(as_live_bytes(), before);
}

static void arenas_count_their_heap_blocks(void **state AS_UNUSED)
{
    uint8_t first[256] __attribute__((aligned(16)));
    size_t before = as_live_bytes();
    struct as_arena a;

    as_arena_init(&a, first, sizeof(first));
    assert_non_null(as_arena_alloc(&a, 200, 8));
    assert_int_equal(as_live_bytes(), before); /* a small request needs no heap */
    assert_non_null(as_arena_alloc(&a, 10000, 8));
    assert_in_range(as_live_bytes(), before + 10000, before + 11000);
    assert_non_null(as_arena_alloc(&a, 100000, 8));
    assert_in_range(as_live_bytes(), before + 110000, before + 111000);
    as_arena_reset(&a);
    assert_int_equal(as_live_bytes(), before);
}

static void output_queues_count_their_chunks(void **state AS_UNUSED)
{
    size_t before = as_live_bytes();
    struct as_blob *b = as_blob_new(100);
    struct as_outq q;

    as_outq_init(&q);
    as_outq_copy(&q, "abc", 3);
    as_outq_ref(&q, b, b->data, 100);
    as_blob_unref(b); /* the queue has a reference */
    assert_true(as_live_bytes() > before + 100);
    as_outq_drop(&q, 103);
    assert_in_range(as_live_bytes(), before + 1, before + (100u << 10)); /* the spare chunk */
    as_outq_copy(&q, "abc", 3);
    as_outq_fini(&q);
    assert_int_equal(as_live_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blobs_count_until_the_last_unref),
        cmocka_unit_test(arenas_count_their_heap_blocks),
        cmocka_unit_test(output_queues_count_their_chunks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
