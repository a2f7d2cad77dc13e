/* Specification of core/autoscale/schedule: minimums by day and time, also over midnight and over
 * the end of the week. */
#include "core/autoscale/schedule.h"

#include "unit.h"

static uint8_t days(const char *text)
{
    uint8_t d = 0;

    assert_true(as_schedule_parse_days(as_str_of(text), &d));
    return d;
}

static void test_days_are_names_ranges_and_lists(void **state AS_UNUSED)
{
    assert_int_equal(days("mon"), 0x01);
    assert_int_equal(days("mon-fri"), 0x1f);
    assert_int_equal(days("Sat,SUN"), 0x60);
    assert_int_equal(days("daily"), 0x7f);
    assert_int_equal(days("fri-mon"), 0x71);
    assert_int_equal(days("sun-sun"), 0x40);
    assert_int_equal(days("mon,wed-thu,mon"), 0x0d);
}

static void test_other_days_are_refused(void **state AS_UNUSED)
{
    static const char *const bad[] = {"",     "monday",   "mon-",        "-fri", "mon,",
                                      ",mon", "mon--fri", "mon-fri-sun", "1",    "mon fri"};
    uint8_t d = 42;

    for (size_t i = 0; i < AS_COUNT(bad); i++)
        assert_false(as_schedule_parse_days(as_str_of(bad[i]), &d));
    assert_int_equal(d, 42);
}

static void test_times_are_hours_and_minutes(void **state AS_UNUSED)
{
    static const char *const bad[] = {"",      "8:00", "08:60",    "24:01", "25:00",
                                      "08.00", "0800", "08:00:00", "-1:00", "aa:bb"};
    uint16_t m = 42;

    for (size_t i = 0; i < AS_COUNT(bad); i++)
        assert_false(as_schedule_parse_time(as_str_of(bad[i]), &m));
    assert_int_equal(m, 42);
    assert_true(as_schedule_parse_time(AS_STR("00:00"), &m));
    assert_int_equal(m, 0);
    assert_true(as_schedule_parse_time(AS_STR("23:59"), &m));
    assert_int_equal(m, 1439);
    assert_true(as_schedule_parse_time(AS_STR("24:00"), &m));
    assert_int_equal(m, 1440);
}

static uint32_t minimum(const struct as_schedule *s, uint32_t day, uint32_t hour, uint32_t minute)
{
    return as_schedule_minimum(s, &(struct as_wall_time){.day = day, .minute = 60 * hour + minute});
}

static void test_an_entry_holds_from_its_start_until_its_end(void **state AS_UNUSED)
{
    struct as_schedule s = {.n = 1, .entry = {{days("mon-fri"), 8 * 60, 18 * 60, 4}}};

    assert_int_equal(minimum(&s, 0, 7, 59), 0);
    assert_int_equal(minimum(&s, 0, 8, 0), 4);
    assert_int_equal(minimum(&s, 4, 17, 59), 4);
    assert_int_equal(minimum(&s, 4, 18, 0), 0);
    assert_int_equal(minimum(&s, 5, 12, 0), 0);
}

static void test_an_entry_may_go_over_midnight(void **state AS_UNUSED)
{
    struct as_schedule s = {.n = 1, .entry = {{days("sun"), 22 * 60, 6 * 60, 3}}};

    assert_int_equal(minimum(&s, 6, 21, 59), 0);
    assert_int_equal(minimum(&s, 6, 22, 0), 3);
    assert_int_equal(minimum(&s, 0, 5, 59), 3); /* Monday, of Sunday's entry */
    assert_int_equal(minimum(&s, 0, 6, 0), 0);
    assert_int_equal(minimum(&s, 0, 23, 0), 0);
    s.entry[0] = (struct as_schedule_entry){days("sat"), 0, AS_DAY_MINUTES, 2};
    assert_int_equal(minimum(&s, 5, 0, 0), 2);
    assert_int_equal(minimum(&s, 5, 23, 59), 2);
    assert_int_equal(minimum(&s, 6, 0, 0), 0);
    /* the same time twice is a whole day from there */
    s.entry[0] = (struct as_schedule_entry){days("sat"), 600, 600, 2};
    assert_int_equal(minimum(&s, 5, 9, 59), 0);
    assert_int_equal(minimum(&s, 5, 10, 0), 2);
    assert_int_equal(minimum(&s, 6, 9, 59), 2);
    assert_int_equal(minimum(&s, 6, 10, 0), 0);
}

static void test_the_largest_minimum_counts(void **state AS_UNUSED)
{
    struct as_schedule s = {.n = 3,
                            .entry = {{days("daily"), 0, AS_DAY_MINUTES, 1},
                                      {days("mon"), 8 * 60, 10 * 60, 5},
                                      {days("mon"), 9 * 60, 11 * 60, 3}}};

    assert_int_equal(minimum(&s, 0, 9, 30), 5);
    assert_int_equal(minimum(&s, 0, 10, 30), 3);
    assert_int_equal(minimum(&s, 0, 11, 30), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_days_are_names_ranges_and_lists),
        cmocka_unit_test(test_other_days_are_refused),
        cmocka_unit_test(test_times_are_hours_and_minutes),
        cmocka_unit_test(test_an_entry_holds_from_its_start_until_its_end),
        cmocka_unit_test(test_an_entry_may_go_over_midnight),
        cmocka_unit_test(test_the_largest_minimum_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
