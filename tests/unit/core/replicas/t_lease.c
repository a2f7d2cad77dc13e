/* Specification of core/replicas/lease: LIVE, LOST, ENDED. */
#include "core/replicas/lease.h"

#include "unit.h"

static const struct as_lease_conf conf = {.heartbeat = 15 * AS_SEC, .grace = 60 * AS_SEC};
static const struct as_lease_conf silent = {.grace = 60 * AS_SEC}; /* no heartbeats are required */

#define BEGAN (100 * AS_SEC)

static struct as_lease begun(void)
{
    struct as_lease l;

    as_lease_init(&l, BEGAN);
    return l;
}

static void test_a_missed_heartbeat(void **state AS_UNUSED)
{
    struct as_lease l = begun();

    assert_int_equal(as_lease_next_due(&l, &conf), BEGAN + conf.heartbeat);
    assert_false(as_lease_tick(&l, &conf, BEGAN + conf.heartbeat - 1));
    assert_int_equal(l.state, AS_LEASE_LIVE);
    assert_true(as_lease_tick(&l, &conf, BEGAN + conf.heartbeat));
    assert_int_equal(l.state, AS_LEASE_LOST);
}

static void test_heartbeats_keep_it(void **state AS_UNUSED)
{
    struct as_lease l = begun();
    as_ns now = BEGAN;

    for (int i = 0; i < 10; i++) {
        now += conf.heartbeat - 1;
        assert_false(as_lease_tick(&l, &conf, now));
        assert_false(as_lease_heartbeat(&l, &conf, now));
    }
    assert_int_equal(as_lease_next_due(&l, &conf), now + conf.heartbeat);
}

static void test_without_required_heartbeats(void **state AS_UNUSED)
{
    struct as_lease l = begun();

    assert_int_equal(as_lease_next_due(&l, &silent), AS_NEVER);
    assert_false(as_lease_tick(&l, &silent, BEGAN + 86400 * AS_SEC));
    assert_true(as_lease_refused(&l, BEGAN + 86400 * AS_SEC));
    assert_true(as_lease_connected(&l, &silent, BEGAN + 86401 * AS_SEC));
    assert_int_equal(l.state, AS_LEASE_LIVE);
}

static void test_a_heartbeat_brings_it_back(void **state AS_UNUSED)
{
    struct as_lease l = begun();

    assert_true(as_lease_tick(&l, &conf, BEGAN + conf.heartbeat));
    assert_true(as_lease_heartbeat(&l, &conf, BEGAN + conf.heartbeat + 1));
    assert_int_equal(l.state, AS_LEASE_LIVE);
}

static void test_a_refusal_needs_an_answer(void **state AS_UNUSED)
{
    struct as_lease l = begun();

    assert_true(as_lease_refused(&l, BEGAN + 1));
    assert_int_equal(l.state, AS_LEASE_LOST);
    assert_false(as_lease_refused(&l, BEGAN + 2)); /* it is LOST already */
    assert_false(as_lease_heartbeat(&l, &conf, BEGAN + 3));
    assert_int_equal(l.state, AS_LEASE_LOST);
    assert_true(as_lease_connected(&l, &conf, BEGAN + 4));
    assert_int_equal(l.state, AS_LEASE_LIVE);
}

/* Its socket accepts connections, but its heartbeats have stopped: both are needed. */
static void test_an_answer_needs_a_heartbeat(void **state AS_UNUSED)
{
    struct as_lease l = begun();
    as_ns late = BEGAN + conf.heartbeat;

    assert_true(as_lease_tick(&l, &conf, late));
    assert_false(as_lease_connected(&l, &conf, late + 1));
    assert_int_equal(l.state, AS_LEASE_LOST);
    assert_true(as_lease_heartbeat(&l, &conf, late + 2));
    assert_int_equal(l.state, AS_LEASE_LIVE);
}

static void test_the_grace_time(void **state AS_UNUSED)
{
    struct as_lease l = begun();
    as_ns lost = BEGAN + 7;

    assert_true(as_lease_refused(&l, lost));
    assert_int_equal(as_lease_next_due(&l, &conf), lost + conf.grace);
    assert_false(as_lease_tick(&l, &conf, lost + conf.grace - 1));
    assert_true(as_lease_tick(&l, &conf, lost + conf.grace));
    assert_int_equal(l.state, AS_LEASE_ENDED);
    assert_int_equal(as_lease_next_due(&l, &conf), AS_NEVER);
}

/* The grace time counts from the first loss, not from the last refusal, and starts anew after a
 * return. */
static void test_what_the_grace_time_counts_from(void **state AS_UNUSED)
{
    struct as_lease l = begun();

    assert_true(as_lease_refused(&l, BEGAN + 1));
    assert_false(as_lease_refused(&l, BEGAN + 30 * AS_SEC));
    assert_int_equal(as_lease_next_due(&l, &conf), BEGAN + 1 + conf.grace);
    assert_false(as_lease_heartbeat(&l, &conf, BEGAN + 31 * AS_SEC));
    assert_true(as_lease_connected(&l, &conf, BEGAN + 31 * AS_SEC));
    assert_true(as_lease_refused(&l, BEGAN + 40 * AS_SEC));
    assert_int_equal(as_lease_next_due(&l, &conf), BEGAN + 40 * AS_SEC + conf.grace);
}

static void test_what_has_ended_stays_so(void **state AS_UNUSED)
{
    struct as_lease l = begun();
    as_ns end = BEGAN + 1 + conf.grace;

    assert_true(as_lease_refused(&l, BEGAN + 1));
    assert_true(as_lease_tick(&l, &conf, end));
    assert_false(as_lease_heartbeat(&l, &conf, end));
    assert_false(as_lease_connected(&l, &conf, end));
    assert_false(as_lease_refused(&l, end));
    assert_false(as_lease_tick(&l, &conf, end + conf.grace));
    assert_int_equal(l.state, AS_LEASE_ENDED);
}

static void test_no_grace(void **state AS_UNUSED)
{
    static const struct as_lease_conf none = {.heartbeat = 15 * AS_SEC};
    struct as_lease l = begun();

    assert_true(as_lease_refused(&l, BEGAN));
    assert_true(as_lease_tick(&l, &none, BEGAN));
    assert_int_equal(l.state, AS_LEASE_ENDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_missed_heartbeat),
        cmocka_unit_test(test_heartbeats_keep_it),
        cmocka_unit_test(test_without_required_heartbeats),
        cmocka_unit_test(test_a_heartbeat_brings_it_back),
        cmocka_unit_test(test_a_refusal_needs_an_answer),
        cmocka_unit_test(test_an_answer_needs_a_heartbeat),
        cmocka_unit_test(test_the_grace_time),
        cmocka_unit_test(test_what_the_grace_time_counts_from),
        cmocka_unit_test(test_what_has_ended_stays_so),
        cmocka_unit_test(test_no_grace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
