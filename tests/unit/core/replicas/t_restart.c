/* Specification of core/replicas/restart: at once after a kill from outside that followed READY,
 * else with backoff.
 */
#include "core/replicas/restart.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <cmocka.h>

static const struct as_restart_conf conf = {
    .base = 100 * AS_MS, .max = 30 * AS_SEC, .healthy = 60 * AS_SEC};

#define NOW (1000 * AS_SEC)

static struct as_restart_verdict died(struct as_restart *s, enum as_exit_kind kind, as_ns now)
{
    struct as_rand rand = {now};

    return as_restart_died(s, &conf, kind, &rand, now);
}

/* The delay lies within 20 % around `want`. */
static void assert_about(struct as_restart_verdict v, as_ns now, as_ns want)
{
    assert_true(v.restart);
    assert_in_range(v.at - now, want - want / 5, want + want / 5);
}

static void test_an_outside_kill_after_ready_restarts_at_once(void **state AS_UNUSED)
{
    struct as_restart s = {0};

    for (uint32_t i = 0; i < 100; i++) {
        struct as_restart_verdict v;

        as_restart_started(&s);
        as_restart_ready(&s, NOW);
        v = died(&s, AS_EXIT_KILLED, NOW + 1);
        assert_true(v.restart && v.at == NOW + 1);
    }
}

static void test_an_outside_kill_before_ready_backs_off(void **state AS_UNUSED)
{
    struct as_restart s = {0};

    as_restart_started(&s);
    assert_about(died(&s, AS_EXIT_KILLED, NOW), NOW, conf.base);
}

static void test_kills_from_outside_are_no_failures(void **state AS_UNUSED)
{
    struct as_restart_conf few = conf;
    struct as_restart s = {0};
    struct as_rand rand = {1};

    few.give_up = 2;
    for (uint32_t i = 0; i < 100; i++)
        assert_about(as_restart_died(&s, &few, AS_EXIT_KILLED, &rand, NOW), NOW, conf.base);
    for (uint32_t i = 0; i < 3; i++) /* earlier failures still count */
        died(&s, AS_EXIT_CODE, NOW);
    for (uint32_t i = 0; i < 3; i++)
        assert_about(died(&s, AS_EXIT_KILLED, NOW), NOW, conf.base << 2);
    assert_about(died(&s, AS_EXIT_CODE, NOW), NOW, conf.base << 3);
}

static void test_out_of_memory_before_ready_is_a_failure(void **state AS_UNUSED)
{
    struct as_restart_conf few = conf;
    struct as_restart s = {0};
    struct as_rand rand = {1};

    few.give_up = 2;
    for (uint32_t i = 0; i < 10; i++) {
        as_restart_started(&s);
        as_restart_ready(&s, NOW);
        assert_true(as_restart_died(&s, &few, AS_EXIT_OOM, &rand, NOW).at == NOW);
    }
    assert_about(as_restart_died(&s, &few, AS_EXIT_OOM, &rand, NOW), NOW, conf.base);
    assert_true(as_restart_died(&s, &few, AS_EXIT_OOM, &rand, NOW).gave_up);
}

static void test_ready_counts_for_one_process_only(void **state AS_UNUSED)
{
    struct as_restart s = {0};

    as_restart_ready(&s, NOW);
    died(&s, AS_EXIT_KILLED, NOW);
    as_restart_started(&s);
    assert_about(died(&s, AS_EXIT_KILLED, NOW), NOW, conf.base);
}

static void test_the_delay_doubles_up_to_the_maximum(void **state AS_UNUSED)
{
    struct as_restart s = {0};
    as_ns want = conf.base;

    for (uint32_t i = 0; i < 40; i++) {
        as_restart_started(&s);
        assert_about(died(&s, i % 2 ? AS_EXIT_CRASH : AS_EXIT_CODE, NOW + i), NOW + i, want);
        want = AS_MIN(2 * want, conf.max);
    }
}

static void test_the_jitter_uses_its_whole_range(void **state AS_UNUSED)
{
    as_ns lo = AS_NEVER, hi = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        struct as_restart s = {0};
        as_ns d = died(&s, AS_EXIT_CODE, NOW + i).at - (NOW + i);

        lo = AS_MIN(lo, d);
        hi = AS_MAX(hi, d);
    }
    assert_in_range(lo, conf.base * 80 / 100, conf.base * 81 / 100);
    assert_in_range(hi, conf.base * 119 / 100, conf.base * 120 / 100);
}

static void test_failures_are_forgotten_after_being_healthy(void **state AS_UNUSED)
{
    struct as_restart s = {0};

    for (uint32_t i = 0; i < 5; i++)
        died(&s, AS_EXIT_CODE, NOW);
    as_restart_ready(&s, NOW);
    assert_about(died(&s, AS_EXIT_CRASH, NOW + conf.healthy - 1), NOW + conf.healthy - 1,
                 conf.base << 5);
    as_restart_ready(&s, NOW);
    assert_about(died(&s, AS_EXIT_CRASH, NOW + conf.healthy), NOW + conf.healthy, conf.base);
}

static void test_what_we_stopped_stays_down(void **state AS_UNUSED)
{
    struct as_restart s = {0};
    struct as_restart_verdict v;

    as_restart_ready(&s, NOW);
    v = died(&s, AS_EXIT_STOPPED, NOW);
    assert_false(v.restart || v.gave_up);
}

static void test_giving_up_counts_failures_without_ready(void **state AS_UNUSED)
{
    struct as_restart_conf few = conf;
    struct as_restart s = {0};
    struct as_rand rand = {1};

    few.give_up = 3;
    for (uint32_t i = 0; i < 10; i++) { /* it becomes READY each time, so it is not given up */
        as_restart_started(&s);
        as_restart_ready(&s, NOW);
        assert_true(as_restart_died(&s, &few, AS_EXIT_CRASH, &rand, NOW).restart);
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_true(as_restart_died(&s, &few, AS_EXIT_CODE, &rand, NOW).restart);
    {
        struct as_restart_verdict v = as_restart_died(&s, &few, AS_EXIT_CODE, &rand, NOW);

        assert_true(v.gave_up && !v.restart);
    }
}

/* Wait statuses as the kernel makes them: the code in bits 8-15, or the signal in bits 0-6. */
static void test_the_kind_of_an_exit(void **state AS_UNUSED)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};

    assert_int_equal(as_exit_kind_of(0, false), AS_EXIT_CODE);
    assert_int_equal(as_exit_kind_of(3 << 8, false), AS_EXIT_CODE);
    assert_int_equal(as_exit_kind_of(SIGKILL, false), AS_EXIT_KILLED);
    assert_int_equal(as_exit_kind_of(SIGTERM, false), AS_EXIT_KILLED);
    for (size_t i = 0; i < AS_COUNT(crashes); i++) {
        assert_int_equal(as_exit_kind_of(crashes[i], false), AS_EXIT_CRASH);
        assert_int_equal(as_exit_kind_of(crashes[i] | 0x80, false),
                         AS_EXIT_CRASH); /* core dumped */
    }
    assert_int_equal(as_exit_kind_of(SIGKILL, true), AS_EXIT_STOPPED);
    assert_int_equal(as_exit_kind_of(0, true), AS_EXIT_STOPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_outside_kill_after_ready_restarts_at_once),
        cmocka_unit_test(test_an_outside_kill_before_ready_backs_off),
        cmocka_unit_test(test_kills_from_outside_are_no_failures),
        cmocka_unit_test(test_out_of_memory_before_ready_is_a_failure),
        cmocka_unit_test(test_ready_counts_for_one_process_only),
        cmocka_unit_test(test_the_delay_doubles_up_to_the_maximum),
        cmocka_unit_test(test_the_jitter_uses_its_whole_range),
        cmocka_unit_test(test_failures_are_forgotten_after_being_healthy),
        cmocka_unit_test(test_what_we_stopped_stays_down),
        cmocka_unit_test(test_giving_up_counts_failures_without_ready),
        cmocka_unit_test(test_the_kind_of_an_exit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
