/* Specification of tool/simulate/timeline: nothing that was counted is lost, however long a run
 * lasts. */
#include "tool/simulate/timeline.h"

#include "unit.h"

static void levels_are_weighted_with_their_time(void **state AS_UNUSED)
{
    struct as_timeline t;
    struct as_timeline_cell c;

    as_timeline_init(&t);
    as_timeline_advance(&t, 500 * AS_US, &(struct as_timeline_levels){.queued = 2});
    as_timeline_advance(&t, 2500 * AS_US, &(struct as_timeline_levels){.queued = 4, .slots = 1});
    assert_int_equal(t.n, 3);
    assert_true(t.cells[0].queued == 2 * 5e5 + 4 * 5e5);
    assert_true(t.cells[1].queued == 4e6 && t.cells[2].queued == 2e6);
    assert_int_equal(t.cells[2].covered, 500 * AS_US);
    c = as_timeline_sum(&t, 0, 3);
    assert_true(c.slots == 2e6);
    assert_int_equal(c.most_queued, 4);
    as_timeline_fini(&t);
}

static void what_ends_a_cell_belongs_to_it(void **state AS_UNUSED)
{
    struct as_timeline t;

    as_timeline_init(&t);
    as_timeline_now(&t)->arrived++;
    as_timeline_advance(&t, AS_MS, &(struct as_timeline_levels){0});
    as_timeline_now(&t)->answered++;
    assert_int_equal(t.n, 1);
    assert_int_equal(t.cells[0].arrived, 1);
    assert_int_equal(t.cells[0].answered, 1);
    as_timeline_fini(&t);
}

static void a_long_run_keeps_its_sums(void **state AS_UNUSED)
{
    struct as_timeline t;
    struct as_timeline_cell c;
    as_ns now = 0;

    as_timeline_init(&t);
    for (uint32_t i = 0; i < 50000; i++) {
        now += AS_MS + i * AS_US;
        as_timeline_advance(&t, now, &(struct as_timeline_levels){.running = 3});
        as_timeline_now(&t)->answered++;
    }
    assert_true(t.n <= AS_TIMELINE_CELLS && t.n > AS_TIMELINE_CELLS / 10);
    c = as_timeline_sum(&t, 0, t.n);
    assert_int_equal(c.answered, 50000);
    assert_int_equal(c.covered, now);
    assert_true(c.running > 2.999 * (double)now && c.running < 3.001 * (double)now);
    /* a gap of years */
    as_timeline_advance(&t, now + AS_SEC * 1000000000u, &(struct as_timeline_levels){0});
    assert_true(t.n <= AS_TIMELINE_CELLS);
    assert_int_equal(as_timeline_sum(&t, 0, t.n).answered, 50000);
    as_timeline_fini(&t);
}

static void rows_are_round(void **state AS_UNUSED)
{
    static const struct {
        uint32_t n, rows, group;
    } cases[] = {{1, 12, 1},        {12, 12, 1},      {13, 12, 2},       {25, 12, 5}, {61, 12, 10},
                 {10000, 12, 1000}, {10000, 200, 50}, {10000, 1, 10000}, {2, 1, 2}};

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        struct as_timeline t = {.n = cases[i].n};

        assert_int_equal(as_timeline_group(&t, cases[i].rows), cases[i].group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_weighted_with_their_time),
        cmocka_unit_test(what_ends_a_cell_belongs_to_it),
        cmocka_unit_test(a_long_run_keeps_its_sums),
        cmocka_unit_test(rows_are_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
