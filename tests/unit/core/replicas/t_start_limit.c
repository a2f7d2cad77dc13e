/* Specification of core/replicas/start_limit: first come, first served, up to the limit at once. */
#include "core/replicas/start_limit.h"

#include "unit.h"

struct world {
    struct as_start_limit a;
    struct as_start_request s[4];
    uint32_t n;
    uint32_t went[8]; /* the starts in their order */
    as_ns when;
};

static struct world w;

static void go(struct as_start_request *s, as_ns now)
{
    w.went[w.n++] = (uint32_t)(s - w.s);
    w.when = now;
}

static uint32_t barred; /* bits of the starts that may not begin */

static bool may(struct as_start_request *s, as_ns now AS_UNUSED)
{
    return !(barred >> (s - w.s) & 1u);
}

static int begin(void **state AS_UNUSED)
{
    w = (struct world){0};
    barred = 0;
    as_start_limit_init(&w.a, 2);
    for (uint32_t i = 0; i < 4; i++)
        as_start_request_init(&w.s[i], may, go);
    return 0;
}

static void ask_all(void)
{
    for (uint32_t i = 0; i < 4; i++)
        as_start_limit_enqueue(&w.a, &w.s[i]);
}

static void test_as_many_start_as_the_limit_allows(void **state AS_UNUSED)
{
    ask_all();
    assert_int_equal(w.n, 0); /* not while may_start is called */
    as_start_limit_admit(&w.a, 7);
    assert_int_equal(w.n, 2);
    assert_int_equal(w.when, 7);
    assert_int_equal(w.a.n, 2);
    assert_false(as_start_request_is_queued(&w.s[1]));
    assert_true(as_start_request_is_queued(&w.s[2]));
    as_start_limit_admit(&w.a, 8);
    assert_int_equal(w.n, 2);
}

static void test_starts_are_first_come_first_served(void **state AS_UNUSED)
{
    ask_all();
    as_start_limit_admit(&w.a, 0);
    as_start_limit_remove(&w.a, &w.s[0]);
    as_start_limit_enqueue(&w.a, &w.s[0]); /* again, at the end of the queue */
    as_start_limit_admit(&w.a, 0);
    as_start_limit_remove(&w.a, &w.s[1]);
    as_start_limit_remove(&w.a, &w.s[2]);
    as_start_limit_admit(&w.a, 0);
    assert_int_equal(w.n, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(w.went[i], i % 4);
}

static void test_a_removed_request_does_not_start(void **state AS_UNUSED)
{
    ask_all();
    as_start_limit_remove(&w.a, &w.s[0]);
    as_start_limit_remove(&w.a, &w.s[0]); /* no effect */
    as_start_limit_admit(&w.a, 0);
    assert_int_equal(w.went[0], 1);
    assert_int_equal(w.went[1], 2);
}

/* Adopted processes that are starting may exceed the limit. */
static void test_adopted_ones_count(void **state AS_UNUSED)
{
    for (uint32_t i = 0; i < 3; i++)
        as_start_limit_count(&w.a, &w.s[i]);
    as_start_limit_enqueue(&w.a, &w.s[3]);
    as_start_limit_remove(&w.a, &w.s[0]);
    as_start_limit_admit(&w.a, 0);
    assert_int_equal(w.n, 0);
    as_start_limit_remove(&w.a, &w.s[1]);
    as_start_limit_admit(&w.a, 0);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.a.n, 2);
}

static void test_one_that_may_not_start_is_overtaken(void **state AS_UNUSED)
{
    barred = 1u << 0 | 1u << 2;
    ask_all();
    as_start_limit_admit(&w.a, 0);
    assert_int_equal(w.n, 2);
    assert_int_equal(w.went[0], 1);
    assert_int_equal(w.went[1], 3);
    as_start_limit_remove(&w.a, &w.s[1]);
    as_start_limit_enqueue(&w.a, &w.s[1]);
    as_start_limit_admit(&w.a, 0);
    assert_int_equal(w.went[2], 1); /* the two are still before it */
    as_start_limit_remove(&w.a, &w.s[1]);
    as_start_limit_remove(&w.a, &w.s[3]);
    as_start_limit_enqueue(&w.a, &w.s[1]);
    barred = 0;
    as_start_limit_admit(&w.a, 0);
    assert_int_equal(w.went[3], 0);
    assert_int_equal(w.went[4], 2);
    assert_true(as_start_request_is_queued(&w.s[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_as_many_start_as_the_limit_allows, begin),
        cmocka_unit_test_setup(test_starts_are_first_come_first_served, begin),
        cmocka_unit_test_setup(test_a_removed_request_does_not_start, begin),
        cmocka_unit_test_setup(test_adopted_ones_count, begin),
        cmocka_unit_test_setup(test_one_that_may_not_start_is_overtaken, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
