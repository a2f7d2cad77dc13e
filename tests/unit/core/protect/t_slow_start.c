/* Specification of core/protect/slow_start. */
#include "core/protect/slow_start.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void test_it_grows_from_one_to_all_in_equal_steps(void **state AS_UNUSED)
{
    assert_int_equal(as_slow_start_width(10, 0, 10 * AS_SEC), 1);
    assert_int_equal(as_slow_start_width(10, AS_SEC, 10 * AS_SEC), 1);
    assert_int_equal(as_slow_start_width(10, 2 * AS_SEC - 1, 10 * AS_SEC), 1);
    assert_int_equal(as_slow_start_width(10, 2 * AS_SEC, 10 * AS_SEC), 2);
    assert_int_equal(as_slow_start_width(10, 9 * AS_SEC, 10 * AS_SEC), 9);
    assert_int_equal(as_slow_start_width(10, 10 * AS_SEC, 10 * AS_SEC), 10);
    assert_int_equal(as_slow_start_width(10, AS_NEVER, 10 * AS_SEC), 10);
}

static void test_off_and_few_slots(void **state AS_UNUSED)
{
    assert_int_equal(as_slow_start_width(10, 0, 0), 10);
    assert_int_equal(as_slow_start_width(1, 0, AS_SEC), 1);
    assert_int_equal(as_slow_start_width(0, 0, AS_SEC), 0);
    assert_int_equal(as_slow_start_next(1, 0, AS_SEC), AS_NEVER);
    assert_int_equal(as_slow_start_next(0, 0, AS_SEC), AS_NEVER);
    assert_int_equal(as_slow_start_next(10, 0, 0), AS_NEVER);
    /* the most of both */
    assert_int_equal(as_slow_start_width(65535, AS_SLOW_START_MAX - 1, AS_SLOW_START_MAX), 65534);
    assert_int_equal(as_slow_start_width(65535, AS_SLOW_START_MAX, AS_SLOW_START_MAX), 65535);
}

/* At each step there is one slot more, and one ns before it there is not. */
static void test_the_next_step_is_exact(void **state AS_UNUSED)
{
    static const uint32_t slots[] = {2, 3, 7, 100, 65535};
    static const as_ns durations[] = {1, 10, 999, AS_SEC, AS_SLOW_START_MAX};

    for (size_t i = 0; i < AS_COUNT(slots); i++) {
        for (size_t k = 0; k < AS_COUNT(durations); k++) {
            as_ns age = 0, next;
            uint32_t steps = 0;

            while ((next = as_slow_start_next(slots[i], age, durations[k])) != AS_NEVER) {
                uint32_t width = as_slow_start_width(slots[i], age, durations[k]);

                assert_true(next > age && next <= durations[k]);
                assert_int_equal(as_slow_start_width(slots[i], next - 1, durations[k]), width);
                assert_true(as_slow_start_width(slots[i], next, durations[k]) > width);
                age = next;
                steps++;
            }
            assert_true(steps < slots[i]);
            assert_int_equal(as_slow_start_width(slots[i], age, durations[k]), slots[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_grows_from_one_to_all_in_equal_steps),
        cmocka_unit_test(test_off_and_few_slots),
        cmocka_unit_test(test_the_next_step_is_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
