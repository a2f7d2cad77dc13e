/* Specification of arena, blob, buf and outq: who owns which bytes, and for how long. */
#include "base/buf.h"
#include "base/memory/arena.h"
#include "base/memory/blob.h"
#include "base/memory/outq.h"
#include "base/rand.h"

#include "unit.h"

static void arena_uses_the_owners_block_first(void **state AS_UNUSED)
{
    _Alignas(16) uint8_t block[256];
    struct as_arena a;
    uint8_t *p;

    as_arena_init(&a, block, sizeof(block));
    p = as_arena_alloc(&a, 100, 8);
    assert_true(p >= block && p + 100 <= block + sizeof(block));
    assert_null(a.heap);
    p = as_arena_alloc(&a, 200, 8); /* does not fit any more */
    assert_non_null(p);
    assert_non_null(a.heap);
    as_arena_reset(&a);
    assert_null(a.heap);
    p = as_arena_alloc(&a, 256, 16);
    assert_ptr_equal(p, block);
    as_arena_fini(&a);
}

static void arena_aligns(void **state AS_UNUSED)
{
    struct as_arena a;

    as_arena_init(&a, NULL, 0);
    for (size_t align = 1; align <= 4096; align *= 2) {
        for (size_t n = 0; n < 70; n += 23) {
            uint8_t *p = as_arena_alloc(&a, n, align);

            assert_int_equal((uintptr_t)p % align, 0);
            memset(p, 1, n); /* a sanitizer detects one byte too many */
        }
    }
    assert_null(as_arena_alloc(&a, SIZE_MAX - 8, 8));
    assert_string_equal(as_arena_dup(&a, AS_STR("xy")), "xy");
    assert_string_equal(as_arena_xdup(&a, AS_STR("xy")).p, "xy");
    assert_int_equal((uintptr_t)as_arena_xalloc(&a, 3) % 16, 0);
    as_arena_fini(&a);
}

static void blob_lives_until_its_last_reference(void **state AS_UNUSED)
{
    struct as_blob *b = as_blob_new(1000);

    assert_int_equal((uintptr_t)b->data % AS_BLOB_ALIGN, 0);
    assert_int_equal(b->n, 1000);
    as_blob_ref(b);
    as_blob_unref(b);
    memset(b->data, 7, 1000);
    as_blob_unref(b);
    as_blob_unref(NULL);
    assert_null(as_blob_new(SIZE_MAX));
}

static void buf_grows_and_drops(void **state AS_UNUSED)
{
    struct as_buf b;

    as_buf_init(&b);
    assert_non_null(as_buf_try_reserve(&b, 0)); /* not NULL, which means out of memory */
    for (int i = 0; i < 1000; i++)
        as_buf_printf(&b, "%03d,", i);
    assert_int_equal(b.n, 4000);
    as_buf_drop(&b, 3996);
    assert_memory_equal(b.p, "999,", 4);
    as_buf_fini(&b);
    as_buf_fini(NULL);
}

static void json_strings_are_valid_whatever_the_bytes(void **state AS_UNUSED)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\n\x01\x7f", "\"\\u000a\\u0001\\u007f\""},
        {"\xc3\xa9", "\"\xc3\xa9\""},
        {"\xc3", "\"\\ufffd\""},                       /* cut */
        {"\xc0\x80", "\"\\ufffd\\ufffd\""},            /* overlong */
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""}, /* surrogate */
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
        {"\xf0\x9f\x99\x82", "\"\xf0\x9f\x99\x82\""},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_buf b;

        as_buf_init(&b);
        as_buf_json(&b, as_str_of(rows[i].in));
        assert_int_equal(b.n, strlen(rows[i].out));
        assert_memory_equal(b.p, rows[i].out, b.n);
        as_buf_fini(&b);
    }
}

static void outq_joins_small_pieces_and_references_large_ones(void **state AS_UNUSED)
{
    struct as_blob *b = as_blob_new(100);
    struct as_outq q;
    struct iovec iov[8];

    memset(b->data, 'b', 100);
    as_outq_init(&q);
    as_outq_copy(&q, "ab", 2);
    as_outq_copy(&q, "cd", 2);
    assert_int_equal(as_outq_iov(&q, iov, 8), 1);
    as_outq_ref(&q, b, b->data + 10, 50);
    as_outq_copy(&q, "e", 1);
    as_blob_unref(b); /* the queue has a reference */
    assert_int_equal(as_outq_iov(&q, iov, 8), 3);
    assert_memory_equal(iov[0].iov_base, "abcd", 4);
    assert_int_equal(iov[1].iov_len, 50);
    assert_int_equal(((char *)iov[1].iov_base)[49], 'b');
    assert_memory_equal(iov[2].iov_base, "e", 1);
    assert_int_equal(q.bytes, 55);
    as_outq_drop(&q, 5);
    assert_int_equal(as_outq_iov(&q, iov, 1), 1);
    assert_int_equal(iov[0].iov_len, 49);
    as_outq_drop(&q, 50);
    assert_int_equal(q.bytes, 0);
    assert_int_equal(as_outq_iov(&q, iov, 8), 0);
    as_outq_fini(&q);
    as_outq_fini(NULL);
}

/* 10^5 random operations, compared with a plain byte string. */
static void outq_equals_its_model(void **state AS_UNUSED)
{
    struct as_rand r = {42};
    struct as_blob *b = as_blob_new(65536);
    struct as_buf model;
    struct as_outq q;

    for (size_t i = 0; i < b->n; i++)
        b->data[i] = (uint8_t)as_rand_next(&r);
    as_buf_init(&model);
    as_outq_init(&q);
    for (int i = 0; i < 100000; i++) {
        uint64_t op = as_rand_below(&r, 4);
        size_t at = as_rand_below(&r, 30000), n = as_rand_below(&r, op ? 300 : 30000);

        if (op < 2) {
            op ? as_outq_copy(&q, b->data + at, n) : as_outq_ref(&q, b, b->data + at, n);
            as_buf_add(&model, b->data + at, n);
        } else {
            struct iovec iov[4];
            int k = as_outq_iov(&q, iov, 4);
            size_t off = 0, drop = as_rand_below(&r, model.n + 1);

            for (int j = 0; j < k; j++) {
                assert_memory_equal(model.p + off, iov[j].iov_base, iov[j].iov_len);
                off += iov[j].iov_len;
            }
            if (model.n > 200000 || op == 3) {
                as_outq_drop(&q, drop);
                as_buf_drop(&model, drop);
            }
        }
        assert_int_equal(q.bytes, model.n);
    }
    as_outq_fini(&q);
    as_buf_fini(&model);
    as_blob_unref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_uses_the_owners_block_first),
        cmocka_unit_test(arena_aligns),
        cmocka_unit_test(blob_lives_until_its_last_reference),
        cmocka_unit_test(buf_grows_and_drops),
        cmocka_unit_test(json_strings_are_valid_whatever_the_bytes),
        cmocka_unit_test(outq_joins_small_pieces_and_references_large_ones),
        cmocka_unit_test(outq_equals_its_model),
    };

    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
