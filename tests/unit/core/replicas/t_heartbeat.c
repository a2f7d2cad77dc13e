/* Specification of core/replicas/heartbeat: when silence counts as a hang; the test sets the
 * clocks.
 */
#include "core/replicas/heartbeat.h"

#include "unit.h"

#define TIMEOUT (30 * AS_SEC)

struct world {
    struct as_heartbeat h;
    as_ns monotonic, boottime;
};

static struct world begin(as_ns timeout)
{
    struct world w = {.monotonic = 1000 * AS_SEC, .boottime = 5000 * AS_SEC};

    as_heartbeat_init(&w.h, timeout);
    return w;
}

static void pass(struct world *w, as_ns ns)
{
    w->monotonic += ns;
    w->boottime += ns;
}

static bool check(struct world *w)
{
    return as_heartbeat_check(&w->h, w->monotonic, w->boottime);
}

/* Checks in time until a hang is found; returns how long that took. */
static as_ns hangs_after(struct world *w)
{
    as_ns began = w->monotonic;

    for (int i = 0; i < 1000; i++) {
        pass(w, as_heartbeat_check_interval(w->h.timeout));
        if (check(w))
            return w->monotonic - began;
    }
    return AS_NEVER;
}

static void heartbeats_are_more_frequent_than_checks(void **state AS_UNUSED)
{
    assert_int_equal(as_heartbeat_interval(TIMEOUT), TIMEOUT / 8);
    assert_int_equal(as_heartbeat_check_interval(TIMEOUT), TIMEOUT / 4);
    assert_int_equal(as_heartbeat_interval(80 * AS_MS), 10 * AS_MS);
    assert_int_equal(as_heartbeat_interval(80 * AS_MS - 1), 10 * AS_MS);
    assert_int_equal(as_heartbeat_check_interval(1), 20 * AS_MS);
}

static void silence_for_longer_than_the_timeout_is_a_hang(void **state AS_UNUSED)
{
    as_ns step = as_heartbeat_check_interval(TIMEOUT), took;

    /* heartbeats come right after a check, or right before the next one */
    for (as_ns at = 0; at < step; at += step / 10) {
        struct world w = begin(TIMEOUT);

        assert_false(check(&w));
        pass(&w, at);
        as_heartbeat_received(&w.h);
        pass(&w, step - at);
        assert_false(check(&w));
        took = step - at + hangs_after(&w);
        assert_true(took > TIMEOUT && took <= TIMEOUT + TIMEOUT / 2);
        assert_true(check(&w)); /* still */
        as_heartbeat_received(&w.h);
        assert_false(check(&w));
    }
}

static void a_process_that_sends_heartbeats_is_well(void **state AS_UNUSED)
{
    struct world w = begin(TIMEOUT);

    for (int i = 0; i < 1000; i++) {
        if (i % 5 == 0) /* just often enough */
            as_heartbeat_received(&w.h);
        assert_false(check(&w));
        pass(&w, as_heartbeat_check_interval(TIMEOUT));
    }
}

static void a_process_without_heartbeats_is_another_version(void **state AS_UNUSED)
{
    struct world w = begin(TIMEOUT);

    assert_int_equal(hangs_after(&w), AS_NEVER);
    as_heartbeat_received(&w.h);
    assert_true(hangs_after(&w) < AS_NEVER);
    as_heartbeat_init(&w.h, TIMEOUT); /* the next process */
    assert_int_equal(hangs_after(&w), AS_NEVER);
}

static void without_a_timeout_nothing_hangs(void **state AS_UNUSED)
{
    struct world w = begin(0);

    as_heartbeat_received(&w.h);
    assert_int_equal(hangs_after(&w), AS_NEVER);
}

static void a_late_check_finds_no_hang(void **state AS_UNUSED)
{
    as_ns step = as_heartbeat_check_interval(TIMEOUT), whole;
    struct world w = begin(TIMEOUT);

    as_heartbeat_received(&w.h);
    (void)check(&w);
    whole = hangs_after(&w);
    /* the watcher was stopped for days; heartbeats that came meanwhile are read after the check */
    pass(&w, 3 * 86400 * AS_SEC);
    assert_false(check(&w));
    as_heartbeat_received(&w.h);
    pass(&w, step);
    assert_false(check(&w));
    assert_int_equal(hangs_after(&w), whole);
    /* as late as may be, and a little later */
    pass(&w, 2 * step);
    assert_true(check(&w));
    pass(&w, 2 * step + 1);
    assert_false(check(&w));
    assert_int_equal(hangs_after(&w), whole);
    /* checks that are always late never find a hang */
    for (int i = 0; i < 100; i++) {
        pass(&w, 3 * step);
        assert_false(check(&w));
    }
}

static void a_suspended_machine_is_no_hang(void **state AS_UNUSED)
{
    as_ns step = as_heartbeat_check_interval(TIMEOUT), whole;
    struct world w = begin(TIMEOUT);

    as_heartbeat_received(&w.h);
    (void)check(&w);
    whole = hangs_after(&w);
    as_heartbeat_received(&w.h);
    (void)check(&w);
    for (int i = 0; i < 4; i++) {
        pass(&w, step);
        assert_false(check(&w));
    }
    w.boottime += 3600 * AS_SEC; /* which CLOCK_MONOTONIC does not count */
    pass(&w, step);
    assert_false(check(&w));
    assert_int_equal(hangs_after(&w), whole);
    /* the difference of two clocks that are read one after the other varies */
    w.boottime -= AS_MS;
    assert_true(check(&w));
    w.boottime += AS_MS;
    assert_true(check(&w));
}

static void silence_with_a_known_reason_starts_anew(void **state AS_UNUSED)
{
    struct world w = begin(TIMEOUT);
    as_ns whole;

    as_heartbeat_received(&w.h);
    (void)check(&w);
    whole = hangs_after(&w);
    as_heartbeat_reset(&w.h);
    assert_int_equal(hangs_after(&w), whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heartbeats_are_more_frequent_than_checks),
        cmocka_unit_test(silence_for_longer_than_the_timeout_is_a_hang),
        cmocka_unit_test(a_process_that_sends_heartbeats_is_well),
        cmocka_unit_test(a_process_without_heartbeats_is_another_version),
        cmocka_unit_test(without_a_timeout_nothing_hangs),
        cmocka_unit_test(a_late_check_finds_no_hang),
        cmocka_unit_test(a_suspended_machine_is_no_hang),
        cmocka_unit_test(silence_with_a_known_reason_starts_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
