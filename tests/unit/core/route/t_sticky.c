/* Specification of core/route/sticky. */
#include "core/route/sticky.h"

#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct fixture {
    struct as_sticky t;
    struct as_sticky_member a, b;
};

static struct fixture begin(uint32_t max, as_ns ttl)
{
    return (struct fixture){.t = {.max = max, .ttl = ttl}};
}

#define BEGIN(f, max, ttl)                                                                         \
    struct fixture f = begin(max, ttl);                                                            \
    as_sticky_init(&f.t, max, ttl);                                                                \
    as_sticky_member_init(&f.a);                                                                   \
    as_sticky_member_init(&f.b)

static void test_the_last_one_is_found(void **state AS_UNUSED)
{
    BEGIN(f, 10, 100);

    assert_null(as_sticky_find(&f.t, 1, 0));
    as_sticky_put(&f.t, 1, &f.a, 0);
    as_sticky_put(&f.t, 2, &f.b, 0);
    assert_ptr_equal(as_sticky_find(&f.t, 1, 0), &f.a);
    as_sticky_put(&f.t, 1, &f.b, 0);
    assert_ptr_equal(as_sticky_find(&f.t, 1, 0), &f.b);
    assert_int_equal(f.t.n, 2);
    as_sticky_fini(&f.t);
}

static void test_what_is_not_used_for_ttl_is_forgotten(void **state AS_UNUSED)
{
    BEGIN(f, 10, 100);

    as_sticky_put(&f.t, 1, &f.a, 1000);
    assert_ptr_equal(as_sticky_find(&f.t, 1, 1099), &f.a);
    assert_null(as_sticky_find(&f.t, 1, 1100));
    assert_int_equal(f.t.n, 0);
    as_sticky_put(&f.t, 1, &f.a, 2000);
    as_sticky_put(&f.t, 1, &f.a, 2050); /* used again */
    assert_ptr_equal(as_sticky_find(&f.t, 1, 2149), &f.a);
    as_sticky_fini(&f.t);
}

static void test_a_full_table_forgets_the_least_recently_used(void **state AS_UNUSED)
{
    BEGIN(f, 3, 100);

    for (uint64_t k = 1; k <= 3; k++)
        as_sticky_put(&f.t, k, &f.a, 0);
    as_sticky_put(&f.t, 1, &f.a, 1);
    as_sticky_put(&f.t, 4, &f.a, 1);
    assert_int_equal(f.t.n, 3);
    assert_null(as_sticky_find(&f.t, 2, 1));
    assert_non_null(as_sticky_find(&f.t, 1, 1));
    assert_non_null(as_sticky_find(&f.t, 3, 1));
    assert_non_null(as_sticky_find(&f.t, 4, 1));
    as_sticky_fini(&f.t);
}

static void test_a_member_that_goes_takes_its_keys(void **state AS_UNUSED)
{
    BEGIN(f, 1000, 100);

    for (uint64_t k = 0; k < 1000; k++)
        as_sticky_put(&f.t, k, k % 3 ? &f.a : &f.b, 0);
    as_sticky_forget(&f.t, &f.a);
    assert_int_equal(f.t.n, 334);
    for (uint64_t k = 0; k < 1000; k++)
        assert_ptr_equal(as_sticky_find(&f.t, k, 0), k % 3 ? NULL : &f.b);
    as_sticky_forget(&f.t, &f.a);
    as_sticky_fini(&f.t);
}

/* A million keys keep the table at its bound. */
static void test_the_table_is_bounded(void **state AS_UNUSED)
{
    struct as_rand keys = {1};
    BEGIN(f, 1024, AS_SEC);

    for (uint32_t i = 0; i < 1000000; i++)
        as_sticky_put(&f.t, as_rand_next(&keys), i & 1 ? &f.a : &f.b, i);
    assert_int_equal(f.t.n, 1024);
    as_sticky_fini(&f.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_one_is_found),
        cmocka_unit_test(test_what_is_not_used_for_ttl_is_forgotten),
        cmocka_unit_test(test_a_full_table_forgets_the_least_recently_used),
        cmocka_unit_test(test_a_member_that_goes_takes_its_keys),
        cmocka_unit_test(test_the_table_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
