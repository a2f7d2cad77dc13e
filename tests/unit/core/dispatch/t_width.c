/* Specification of core/dispatch/width, and of what core/dispatch/dispatch sheds.
 * deployment_world.h explains the log.
 */
#include "deployment_world.h"

#define SLOW (10 * AS_SEC)

/* X has served for longer than slow_start. */
static struct world *beside_one(uint32_t slots)
{
    struct world *w = world_new();

    as_deployment_set_slow_start(w->d, SLOW, w->now);
    join(w, 'X', slots, 0);
    w->now += 2 * SLOW;
    return w;
}

static void expire_at(struct world *w, as_ns when)
{
    assert_int_equal(as_deployment_next_deadline(w->d), when);
    w->now = when;
    as_deployment_expire(w->d, w->now);
}

/* --- slow start --- */

static void test_a_new_replica_gets_its_slots_one_by_one(void **state AS_UNUSED)
{
    struct world *w = beside_one(1);
    as_ns began = w->now;

    submit_all(w, "z");
    join(w, 'Y', 4, 0);
    submit_all(w, "abcde");
    expect(w, "z>X a>Y");
    assert_int_equal(as_replica_cap(rep(w, 'Y')), 1);
    expire_at(w, began + SLOW / 2);
    expect(w, "b>Y");
    expire_at(w, began + SLOW / 4 * 3);
    expect(w, "c>Y");
    expire_at(w, began + SLOW);
    expect(w, "d>Y");
    assert_int_equal(as_deployment_next_deadline(w->d), AS_NEVER);
    assert_true(as_replica_cap(rep(w, 'Y')) >= 4);
    world_free(w);
}

static void test_the_first_replicas_have_all_slots_at_once(void **state AS_UNUSED)
{
    struct world *w = world_new();

    as_deployment_set_slow_start(w->d, SLOW, w->now);
    join(w, 'X', 2, 0);
    w->now += SLOW / 2;
    join(w, 'Y', 2, 0); /* X has not served for so long itself */
    submit_all(w, "abcd");
    expect(w, "a>X b>Y c>X d>Y");
    world_free(w);
}

static void test_a_replica_that_is_left_alone_gets_all_its_slots(void **state AS_UNUSED)
{
    struct world *w = beside_one(1);

    submit_all(w, "z");
    join(w, 'Y', 4, 0);
    submit_all(w, "abcd");
    expect(w, "z>X a>Y");
    as_replica_drain(rep(w, 'X'), true, w->now);
    expect(w, "b>Y c>Y d>Y");
    world_free(w);

    w = beside_one(1);
    submit_all(w, "z");
    join(w, 'Y', 4, 0);
    submit_all(w, "abcd");
    expect(w, "z>X a>Y");
    grant(w, 'X', 0, 0);
    expect(w, "b>Y c>Y d>Y");
    world_free(w);

    w = beside_one(1);
    join(w, 'Y', 4, 0);
    req(w, 'z')->idempotent = true;
    submit_all(w, "zabc");
    expect(w, "z>X a>Y");
    die(w, 'X', '-', AS_LOSS_KILLED);
    expect(w, "z>Y b>Y c>Y");
    world_free(w);
}

static void test_it_prefetches_nothing_while_it_warms_up(void **state AS_UNUSED)
{
    struct world *w = beside_one(1);

    join(w, 'Y', 2, 16);
    submit_all(w, "za");
    done_with(w, 'a', AS_US, false);
    submit_all(w, "bc");
    expect(w, "z>X a>Y b>Y");
    world_free(w);
}

static void test_turning_it_off_ends_it(void **state AS_UNUSED)
{
    struct world *w = beside_one(1);

    submit_all(w, "z");
    join(w, 'Y', 3, 0);
    submit_all(w, "abc");
    expect(w, "z>X a>Y");
    as_deployment_set_slow_start(w->d, 0, w->now);
    expect(w, "b>Y c>Y");
    world_free(w);
}

/* --- adaptive concurrency --- */

static void test_a_replica_uses_as_many_slots_as_are_worth_it(void **state AS_UNUSED)
{
    struct world *w = world_new();

    as_deployment_set_adaptive(w->d, true, w->now);
    join(w, 'X', 26, 0);
    assert_int_equal(as_replica_cap(rep(w, 'X')), 20);
    submit_all(w, "abcdefghijklmnopqrstuvwxyz");
    assert_int_equal(as_deployment_ongoing(w->d), 20);
    assert_int_equal(as_deployment_queued(w->d), 6);
    as_deployment_set_adaptive(w->d, false, w->now);
    assert_int_equal(as_deployment_ongoing(w->d), 26);
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

/* --- CoDel --- */

static void test_what_waited_too_long_is_shed(void **state AS_UNUSED)
{
    struct world *w = world_new();

    as_deployment_set_codel(w->d, &(struct as_codel_conf){5 * AS_MS, 100 * AS_MS});
    join(w, 'X', 1, 0);
    submit_all(w, "abcd");
    w->now += 200 * AS_MS;
    submit_all(w, "e");
    done(w, 'a');
    expect(w, "a>X b>X");
    w->now += 150 * AS_MS; /* all have waited too long for an interval */
    submit_all(w, "f");
    done(w, 'b');
    expect(w, "c=EFULL ~c d=EFULL ~d e=EFULL ~e f>X");
    assert_int_equal(as_deployment_stat(w->d)->shed, 3);
    assert_int_equal(as_deployment_stat(w->d)->failed, 3);
    world_free(w);
}

static void test_a_retry_is_never_shed(void **state AS_UNUSED)
{
    struct world *w = world_new();

    as_deployment_set_codel(w->d, &(struct as_codel_conf){5 * AS_MS, 100 * AS_MS});
    join(w, 'X', 2, 0);
    submit_all(w, "abcde");
    w->now += 200 * AS_MS;
    done(w, 'a');
    expect(w, "a>X b>X c>X");
    w->now += 200 * AS_MS;
    die(w, 'X', '-', AS_LOSS_KILLED);
    join(w, 'Y', 1, 0);
    expect(w, "b>Y");
    done(w, 'b');
    expect(w, "c>Y");
    done(w, 'c');
    expect(w, "d=EFULL ~d e=EFULL ~e");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_replica_gets_its_slots_one_by_one),
        cmocka_unit_test(test_the_first_replicas_have_all_slots_at_once),
        cmocka_unit_test(test_a_replica_that_is_left_alone_gets_all_its_slots),
        cmocka_unit_test(test_it_prefetches_nothing_while_it_warms_up),
        cmocka_unit_test(test_turning_it_off_ends_it),
        cmocka_unit_test(test_a_replica_uses_as_many_slots_as_are_worth_it),
        cmocka_unit_test(test_what_waited_too_long_is_shed),
        cmocka_unit_test(test_a_retry_is_never_shed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
