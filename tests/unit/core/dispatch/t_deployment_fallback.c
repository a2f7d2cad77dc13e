/* Specification of core/dispatch/deployment: requests that have a fallback deployment, and mirrored
 * copies. */
#include "deployment_world.h"

static void set_fallback(struct world *w, const char *list)
{
    for (; *list; list++)
        req(w, *list)->has_fallback = true;
}

/* --- requests with a fallback --- */

static void test_it_does_not_wait_for_a_first_replica(void **state AS_UNUSED)
{
    struct world *w = world_new();

    set_fallback(w, "ac");
    assert_int_equal(submit(w, 'a'), AS_EUNAVAILABLE);
    assert_int_equal(submit(w, 'b'), 0); /* this one has no fallback */
    assert_int_equal(as_deployment_stat(w->d)->accepted, 1);
    join(w, 'X', 0, 0);
    assert_int_equal(submit(w, 'c'), AS_EUNAVAILABLE); /* it has no slots yet */
    grant(w, 'X', 1, 0);
    renew_request(w, 'c');
    set_fallback(w, "c");
    assert_int_equal(submit(w, 'c'), 0);
    expect(w, "b>X");
    done(w, 'b');
    expect(w, "c>X");
    world_free(w);
}

static void test_it_waits_where_replicas_are_busy(void **state AS_UNUSED)
{
    struct world *w = world_new_with(1, AS_ROUTER_LATE_BINDING);

    join(w, 'X', 1, 0);
    set_fallback(w, "abc");
    submit_all(w, "ab");
    assert_int_equal(submit(w, 'c'), AS_EFULL);
    expect(w, "a>X");
    done(w, 'a');
    expect(w, "b>X");
    world_free(w);
}

static void test_a_draining_replica_does_not_count_as_serving(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    as_replica_drain(rep(w, 'X'), true, w->now);
    assert_false(as_deployment_serves(w->d, 0));
    set_fallback(w, "a");
    assert_int_equal(submit(w, 'a'), AS_EUNAVAILABLE);
    as_replica_drain(rep(w, 'X'), false, w->now);
    assert_true(as_deployment_serves(w->d, 0));
    world_free(w);
}

/* a executes, b is with X too, c and d wait. */
static struct world *dying(void)
{
    struct world *w = world_new();

    join(w, 'X', 2, 0);
    set_fallback(w, "abc");
    submit_all(w, "abcd");
    expect(w, "a>X b>X");
    return w;
}

static void test_with_the_last_replica_it_leaves_unless_it_has_run(void **state AS_UNUSED)
{
    struct world *w = dying();

    req(w, 'a')->idempotent = true;
    as_replica_free(rep(w, 'X'), req(w, 'a')->stream, AS_LOSS_KILLED, w->now);
    expect(w, "b=EUNAVAILABLE ~b c=EUNAVAILABLE ~c");
    assert_true(req(w, 'a')->ran);
    assert_false(req(w, 'b')->ran);
    join(w, 'Y', 2, 0);
    expect(w, "a>Y d>Y");
    world_free(w);
}

static void test_what_must_not_run_twice_may_have_run(void **state AS_UNUSED)
{
    struct world *w = dying();

    as_replica_free(rep(w, 'X'), req(w, 'a')->stream, AS_LOSS_KILLED, w->now);
    expect(w, "a=EMAYHAVERUN ~a b=EUNAVAILABLE ~b c=EUNAVAILABLE ~c");
    world_free(w);
}

static void test_with_another_replica_it_stays(void **state AS_UNUSED)
{
    struct world *w = dying();

    join(w, 'Y', 1, 0);
    expect(w, "c>Y");
    as_replica_free(rep(w, 'X'), 0, AS_LOSS_KILLED, w->now);
    expect(w, "");
    done(w, 'c');
    expect(w, "a>Y");
    world_free(w);
}

static void test_batches_that_wait_leave_too(void **state AS_UNUSED)
{
    struct as_batch_conf conf = {.max_size = 4, .max_wait = AS_SEC};
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_batching(w->d, 0, &conf), 0);
    join(w, 'X', 1, 0);
    set_fallback(w, "ac");
    submit_all(w, "abc");
    expect(w, "");
    as_replica_free(rep(w, 'X'), 0, AS_LOSS_KILLED, w->now);
    expect(w, "a=EUNAVAILABLE ~a c=EUNAVAILABLE ~c");
    assert_int_equal(as_deployment_queued(w->d), 1);
    world_free(w);
}

/* --- mirrored copies --- */

static int submit_mirror(struct world *w, char c)
{
    req(w, c)->is_mirror = true;
    return submit(w, c);
}

static void test_a_copy_gets_a_free_slot_or_nothing(void **state AS_UNUSED)
{
    struct world *w = world_new();

    assert_int_equal(submit_mirror(w, 'a'), AS_EFULL);
    join(w, 'X', 1, 8);
    submit_all(w, "z"); /* from now on X prefetches */
    done(w, 'z');
    assert_int_equal(submit_mirror(w, 'b'), 0);
    assert_int_equal(submit_mirror(w, 'c'), AS_EFULL);
    done(w, 'b');
    as_deployment_set_down(w->d, true, w->now);
    assert_int_equal(submit_mirror(w, 'd'), AS_EFULL);
    expect(w, "z>X b>X");
    assert_int_equal(as_deployment_stat(w->d)->mirrored, 1);
    assert_int_equal(as_deployment_stat(w->d)->mirror_dropped, 3);
    assert_int_equal(as_deployment_stat(w->d)->refused, 0);
    world_free(w);
}

static void test_a_copy_is_not_sent_again(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 2, 0);
    req(w, 'a')->idempotent = true;
    assert_int_equal(submit_mirror(w, 'a'), 0);
    assert_int_equal(submit_mirror(w, 'b'), 0);
    join(w, 'Y', 2, 0);
    as_replica_free(rep(w, 'X'), req(w, 'a')->stream, AS_LOSS_KILLED, w->now);
    expect(w, "a>X b>X a=EUNAVAILABLE ~a b=EUNAVAILABLE ~b");
    assert_int_equal(submit_mirror(w, 'c'), 0);
    assert_false(done_with(w, 'c', 0, true)); /* the worker did not start it */
    expect(w, "c>Y c=EUNAVAILABLE ~c");
    world_free(w);
}

static void test_a_copy_may_fill_a_batch(void **state AS_UNUSED)
{
    struct as_batch_conf conf = {.max_size = 2, .max_wait = AS_SEC};
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_batching(w->d, 0, &conf), 0);
    assert_int_equal(submit_mirror(w, 'a'), AS_EFULL);
    join(w, 'X', 1, 0);
    renew_request(w, 'a');
    assert_int_equal(submit_mirror(w, 'a'), 0);
    submit_all(w, "b");
    expect(w, "X:2 a>X b>X");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_does_not_wait_for_a_first_replica),
        cmocka_unit_test(test_it_waits_where_replicas_are_busy),
        cmocka_unit_test(test_a_draining_replica_does_not_count_as_serving),
        cmocka_unit_test(test_with_the_last_replica_it_leaves_unless_it_has_run),
        cmocka_unit_test(test_what_must_not_run_twice_may_have_run),
        cmocka_unit_test(test_with_another_replica_it_stays),
        cmocka_unit_test(test_batches_that_wait_leave_too),
        cmocka_unit_test(test_a_copy_gets_a_free_slot_or_nothing),
        cmocka_unit_test(test_a_copy_is_not_sent_again),
        cmocka_unit_test(test_a_copy_may_fill_a_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
