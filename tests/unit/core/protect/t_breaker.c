/* Specification of core/protect/breaker: the arrows of its picture, and how long it is open. */
#include "core/protect/breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define NOW (1000 * AS_SEC)

static const struct as_breaker_conf conf = {
    .failures = 3, .probes = 2, .open = AS_SEC, .open_max = 8 * AS_SEC};

static void bad(struct as_breaker *b, uint32_t n)
{
    while (n--)
        assert_false(as_breaker_on_answer(b, &conf, true, NOW));
}

static void test_failures_in_a_row_make_it_due(void **state AS_UNUSED)
{
    struct as_breaker b = {0};

    bad(&b, 2);
    assert_false(as_breaker_should_trip(&b, &conf));
    as_breaker_on_answer(&b, &conf, false, NOW); /* a good one begins the row again */
    bad(&b, 2);
    assert_false(as_breaker_should_trip(&b, &conf));
    bad(&b, 1);
    assert_true(as_breaker_should_trip(&b, &conf));
}

static void test_switched_off_it_is_never_due(void **state AS_UNUSED)
{
    const struct as_breaker_conf off = {.open = AS_SEC};
    struct as_breaker b = {0};

    bad(&b, 1000);
    assert_false(as_breaker_should_trip(&b, &off));
}

static void test_open_for_its_time_then_probed(void **state AS_UNUSED)
{
    struct as_breaker b = {0};

    as_breaker_trip(&b, &conf, NOW);
    assert_int_equal(b.state, AS_BREAKER_OPEN);
    assert_false(as_breaker_tick(&b, NOW + AS_SEC - 1));
    assert_true(as_breaker_tick(&b, NOW + AS_SEC));
    assert_int_equal(b.state, AS_BREAKER_HALF_OPEN);
    assert_false(as_breaker_tick(&b, NOW + AS_SEC));
}

static void test_good_probes_close_it(void **state AS_UNUSED)
{
    struct as_breaker b = {0};

    as_breaker_trip(&b, &conf, NOW);
    as_breaker_tick(&b, NOW + AS_SEC);
    assert_false(as_breaker_on_answer(&b, &conf, false, NOW + AS_SEC));
    assert_true(as_breaker_on_answer(&b, &conf, false, NOW + AS_SEC));
    assert_int_equal(b.state, AS_BREAKER_CLOSED);
    assert_int_equal(b.streak, 0);
}

static void test_a_bad_probe_opens_it_for_twice_as_long(void **state AS_UNUSED)
{
    struct as_breaker b = {0};
    as_ns now = NOW, time = AS_SEC;

    as_breaker_trip(&b, &conf, now);
    for (int i = 0; i < 6; i++) {
        assert_true(b.until == now + time);
        now += time;
        assert_true(as_breaker_tick(&b, now));
        as_breaker_on_answer(&b, &conf, false, now);
        assert_true(as_breaker_on_answer(&b, &conf, true, now));
        assert_int_equal(b.state, AS_BREAKER_OPEN);
        time = AS_MIN(2 * time, 8 * AS_SEC);
    }
}

static as_ns close_and_trip(struct as_breaker *b, as_ns closed, as_ns tripped)
{
    as_breaker_tick(b, closed);
    as_breaker_on_answer(b, &conf, false, closed);
    as_breaker_on_answer(b, &conf, false, closed);
    as_breaker_trip(b, &conf, tripped);
    return b->until - tripped;
}

static void test_it_forgets_after_a_while(void **state AS_UNUSED)
{
    struct as_breaker b = {0};

    as_breaker_trip(&b, &conf, NOW);
    assert_true(close_and_trip(&b, NOW + AS_SEC, NOW + 9 * AS_SEC - 1) == 2 * AS_SEC);
    assert_true(close_and_trip(&b, NOW + 20 * AS_SEC, NOW + 28 * AS_SEC) == AS_SEC);
}

static void test_answers_do_not_change_an_open_breaker(void **state AS_UNUSED)
{
    struct as_breaker b = {0};

    as_breaker_trip(&b, &conf, NOW);
    assert_false(as_breaker_on_answer(&b, &conf, true, NOW));
    assert_false(as_breaker_on_answer(&b, &conf, false, NOW));
    assert_false(as_breaker_should_trip(&b, &conf));
    assert_int_equal(b.state, AS_BREAKER_OPEN);
    assert_string_equal(as_breaker_state_name(b.state), "open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_in_a_row_make_it_due),
        cmocka_unit_test(test_switched_off_it_is_never_due),
        cmocka_unit_test(test_open_for_its_time_then_probed),
        cmocka_unit_test(test_good_probes_close_it),
        cmocka_unit_test(test_a_bad_probe_opens_it_for_twice_as_long),
        cmocka_unit_test(test_it_forgets_after_a_while),
        cmocka_unit_test(test_answers_do_not_change_an_open_breaker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
