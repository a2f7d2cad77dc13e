/* Specification of wire/triton/shm_region: a registration is parsed, regions are written. */
#include "wire/triton/shm_region.h"

#include "base/err.h"
#include "protobuf.h"

static void a_registration_is_parsed(void **state AS_UNUSED)
{
    struct as_shm_region r = {.size = 77};
    struct as_buf b = {0};
    struct as_arena a;

    as_arena_init(&a, NULL, 0);
    pb_text(&b, 1, "r");
    pb_text(&b, 2, "/key");
    pb_number(&b, 3, UINT64_MAX);
    pb_number(&b, 4, 300);
    assert_int_equal(as_shm_region_parse(b.p, b.n - 1, &a, &r), AS_EPROTO);
    assert_int_equal(r.size, 77);
    assert_int_equal(as_shm_region_parse(b.p, b.n, &a, &r), 0);
    assert_true(as_str_eq(r.name, AS_STR("r")) && as_str_eq(r.key, AS_STR("/key")));
    assert_true(r.offset == UINT64_MAX && r.size == 300);
    assert_int_equal(as_shm_region_parse((const uint8_t *)"\x0a\x01\xff", 3, &a, &r), AS_EPROTO);
    assert_int_equal(as_shm_region_parse(NULL, 0, &a, &r), 0);
    assert_true(!r.name.n && !r.key.n && !r.size);
    as_arena_fini(&a);
    as_buf_fini(&b);
}

static void regions_are_written_by_name(void **state AS_UNUSED)
{
    const struct as_shm_region rows[] = {{AS_STR("a"), AS_STR("/k"), 0, 8},
                                         {AS_STR("b"), AS_STR("/k"), 8, 4096}};
    struct as_buf want = {0}, out = {0};
    struct as_arena a;

    for (int i = 0; i < 2; i++) {
        struct as_buf entry = {0}, value = {0};

        pb_text(&value, 1, i ? "b" : "a");
        pb_text(&value, 2, "/k");
        if (i)
            pb_number(&value, 3, 8);
        pb_number(&value, 4, i ? 4096 : 8);
        pb_text(&entry, 1, i ? "b" : "a");
        pb_nest(&entry, 2, value);
        pb_nest(&want, 1, entry);
    }
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_shm_region_put(rows, 2, &a, false, &out), 0);
    assert_int_equal(out.n, want.n);
    assert_memory_equal(out.p, want.p, out.n);
    out.n = 0;
    assert_int_equal(as_shm_region_put(rows, 1, &a, true, &out), 0);
    assert_true(
        as_str_eq(as_buf_slice(&out),
                  AS_STR("[{\"name\":\"a\",\"key\":\"/k\",\"offset\":0,\"byte_size\":8}]")));
    as_arena_fini(&a);
    as_buf_fini(&out);
    as_buf_fini(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_registration_is_parsed),
        cmocka_unit_test(regions_are_written_by_name),
    };

    return cmocka_run_group_tests_name("shm_region", tests, NULL, NULL);
}
