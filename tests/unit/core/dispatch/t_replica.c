/* Specification of core/dispatch/deployment: replicas, prefetch and recall, routers, drain and
 * death. */
#include "deployment_world.h"

/* X was measured at 10 us a call, so that the 100 us of prefetch_work are 10 calls. */
static struct world *measured(uint32_t slots, uint32_t prefetch)
{
    struct world *w = world_new();

    join(w, 'X', slots, prefetch);
    submit_all(w, "z");
    done(w, 'z');
    expect(w, "z>X");
    return w;
}

/* --- prefetch --- */

static void test_nothing_is_prefetched_before_a_measurement(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 8);
    submit_all(w, "ab");
    expect(w, "a>X");
    done_with(w, 'a', 0, false); /* answered without a time */
    submit_all(w, "c");
    expect(w, "b>X");
    assert_int_equal(as_replica_service(rep(w, 'X')), 0);
    done(w, 'b');
    submit_all(w, "d");
    expect(w, "c>X d>X");
    world_free(w);
}

static void test_as_much_is_prefetched_as_fits_in_the_work(void **state AS_UNUSED)
{
    struct world *w = measured(1, 64);

    submit_all(w, "abcdefghijkl");
    expect(w, "a>X b>X c>X d>X e>X f>X g>X h>X i>X j>X k>X"); /* 1 executes, 10 wait */
    assert_int_equal(as_deployment_prefetched(w->d), PREFETCH_WORK / (10 * AS_US));
    assert_int_equal(as_deployment_queued(w->d), 1);
    world_free(w);
}

static void test_the_worker_bounds_what_it_holds(void **state AS_UNUSED)
{
    struct world *w = measured(2, 3);

    submit_all(w, "abcdefg");
    expect(w, "a>X b>X c>X d>X e>X");
    world_free(w);
}

static void test_nothing_is_prefetched_for_slow_handlers(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 8);
    submit_all(w, "a");
    done_with(w, 'a', PREFETCH_WORK + 1, false);
    submit_all(w, "bc");
    expect(w, "a>X b>X");
    done_with(w, 'b', 1, false); /* the average falls below the limit again */
    expect(w, "c>X");
    submit_all(w, "d");
    expect(w, "d>X");
    world_free(w);
}

static void test_the_service_time_is_a_moving_average(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "abc");
    done_with(w, 'a', 80, false);
    assert_int_equal(as_replica_service(rep(w, 'X')), 80);
    done_with(w, 'b', 160, false); /* weight 1/8 */
    assert_int_equal(as_replica_service(rep(w, 'X')), 90);
    done_with(w, 'c', UINT64_MAX, false); /* a false value is cut to an hour */
    assert_true(as_replica_service(rep(w, 'X')) < 3600 * AS_SEC);
    world_free(w);
}

static void test_prefetch_goes_where_least_waits(void **state AS_UNUSED)
{
    struct world *w = measured(1, 4);

    join(w, 'Y', 1, 4);
    submit_all(w, "ab");
    done(w, 'a');
    done(w, 'b');
    submit_all(w, "cdefg");
    expect(w, "a>X b>Y c>X d>Y e>X f>Y g>X");
    world_free(w);
}

/* --- recall --- */

static void test_a_free_slot_recalls_the_newest_that_waits_elsewhere(void **state AS_UNUSED)
{
    struct world *w = measured(1, 8);

    submit_all(w, "abcd");
    expect(w, "a>X b>X c>X d>X");
    join(w, 'Y', 2, 0);
    expect(w, "X<cd"); /* in stream order */
    returned(w, 'X', "cd");
    expect(w, "c>Y d>Y");
    assert_int_equal(as_deployment_stat(w->d)->recalled, 2);
    assert_int_equal(as_deployment_stat(w->d)->replayed, 2);
    done(w, 'c');
    expect(w, "X<b");
    world_free(w);
}

static void test_the_queue_goes_before_a_recall(void **state AS_UNUSED)
{
    struct world *w = measured(1, 1);

    submit_all(w, "abc");
    expect(w, "a>X b>X");
    join(w, 'Y', 1, 0);
    expect(w, "c>Y");
    world_free(w);
}

static void test_one_recall_at_a_time(void **state AS_UNUSED)
{
    struct world *w = measured(1, 8);

    submit_all(w, "abcd");
    join(w, 'Y', 1, 0);
    expect(w, "a>X b>X c>X d>X X<d");
    grant(w, 'Y', 2, 0);
    expect(w, "");
    submit_all(w, "ef"); /* take the free slots meanwhile; X does not prefetch */
    expect(w, "e>Y f>Y");
    submit_all(w, "g");
    expect(w, "");
    returned(w, 'X', "d");
    expect(w, "d>X g>X"); /* d is back in its old place, before g */
    world_free(w);
}

static void test_what_was_not_returned_is_not_asked_again(void **state AS_UNUSED)
{
    struct world *w = measured(2, 8);

    submit_all(w, "abc");
    grant(w, 'X', 0, 8); /* the worker runs all three; core sees three that wait */
    join(w, 'Y', 1, 0);
    expect(w, "a>X b>X c>X X<c");
    returned(w, 'X', "");
    expect(w, "X<b");
    returned(w, 'X', "");
    expect(w, "X<a");
    returned(w, 'X', "");
    expect(w, "");
    world_free(w);
}

static void test_an_answer_overtakes_the_recall(void **state AS_UNUSED)
{
    struct world *w = measured(1, 8);

    submit_all(w, "ab");
    join(w, 'Y', 1, 0);
    expect(w, "a>X b>X X<b");
    assert_true(done(w, 'b'));
    returned(w, 'X', "");
    expect(w, "");
    as_replica_recall_done(rep(w, 'X'), w->now); /* not asked for: no effect */
    expect(w, "");
    world_free(w);
}

static void test_a_client_leaves_during_the_recall(void **state AS_UNUSED)
{
    struct world *w = measured(1, 8);

    submit_all(w, "ab");
    join(w, 'Y', 1, 0);
    as_deployment_cancel(w->d, req(w, 'b'), w->now);
    expect(w, "a>X b>X X<b b!C");
    returned(w, 'X', "b");
    expect(w, "~b");
    world_free(w);
}

/* --- routers --- */

static void test_the_least_loaded_then_the_least_recently_used(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 3, 0);
    join(w, 'Y', 3, 0);
    join(w, 'Z', 3, 0);
    submit_all(w, "abcd");
    expect(w, "a>X b>Y c>Z d>X");
    done(w, 'c');
    submit_all(w, "efg");
    expect(w, "e>Z f>Y g>Z"); /* after f all have 2, but Z has 1 */
    world_free(w);
}

static void test_pow2_never_takes_the_busier_of_two(void **state AS_UNUSED)
{
    struct world *w = world_new_with(-1, AS_ROUTER_POW_2);
    uint32_t to[26] = {0};

    join(w, 'A', 100, 0);
    submit_all(w, "abc");
    for (char c = 'B'; c <= 'D'; c++)
        join(w, c, 100, 0);
    for (uint32_t i = 0; i < 3000; i++) {
        renew_request(w, 'z');
        submit_all(w, "z");
        to[letter_of(req(w, 'z')->replica) - 'A']++;
        done(w, 'z');
        w->n = 0;
    }
    assert_int_equal(to[0], 0);
    for (char c = 'B'; c <= 'D'; c++) /* each of the others is chosen at some time */
        assert_in_range(to[c - 'A'], 900, 1100);
    world_free(w);
}

static void test_routers_by_name(void **state AS_UNUSED)
{
    assert_int_equal(as_router_of("late_binding"), AS_ROUTER_LATE_BINDING);
    assert_int_equal(as_router_of("pow_2"), AS_ROUTER_POW_2);
    assert_int_equal(as_router_of("random"), -1);
    assert_int_equal(as_router_of(""), -1);
}

/* --- grants and drain --- */

static void test_fewer_slots_make_executing_requests_count_as_waiting(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 3, 0);
    submit_all(w, "abc");
    grant(w, 'X', 1, 0);
    expect(w, "a>X b>X c>X");
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    assert_int_equal(as_deployment_prefetched(w->d), 2);
    submit_all(w, "d");
    done(w, 'a');
    done(w, 'b');
    expect(w, "");
    done(w, 'c');
    expect(w, "d>X");
    world_free(w);
}

static void test_grants_are_bounded(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', UINT32_MAX, UINT32_MAX);
    join(w, 'Y', UINT32_MAX, UINT32_MAX);
    assert_int_equal(as_replica_slots(rep(w, 'X')), AS_DEPLOYMENT_SLOTS_MAX);
    expect(w, "");
    world_free(w);
}

static void test_a_draining_replica_gets_nothing_new(void **state AS_UNUSED)
{
    struct world *w = measured(1, 8);

    submit_all(w, "ab");
    as_replica_drain(rep(w, 'X'), true, w->now);
    assert_int_equal(as_deployment_ready(w->d), 0);
    assert_int_equal(as_deployment_replicas(w->d), 1);
    submit_all(w, "c");
    assert_true(done(w, 'a'));
    expect(w, "a>X b>X");
    as_replica_drain(rep(w, 'X'), false, w->now);
    expect(w, "c>X");
    world_free(w);
}

static void test_what_waits_at_a_draining_replica_moves(void **state AS_UNUSED)
{
    struct world *w = measured(1, 8);

    submit_all(w, "abc");
    as_replica_drain(rep(w, 'X'), true, w->now);
    join(w, 'Y', 8, 0);
    expect(w, "a>X b>X c>X X<bc");
    returned(w, 'X', "bc");
    expect(w, "b>Y c>Y");
    world_free(w);
}

/* --- handed back --- */

static void test_a_request_that_is_handed_back_goes_to_another(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    join(w, 'Y', 1, 0);
    submit_all(w, "a");
    assert_false(done_with(w, 'a', 0, true));
    expect(w, "a>X a>Y");
    submit_all(w, "bc");
    assert_false(
        done_with(w, 'a', 0, true)); /* no other replica has room: X gets it again, before c */
    expect(w, "b>X a>Y");
    world_free(w);
}

static void test_handing_back_is_limited(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "a");
    for (uint32_t i = 0; i < AS_REQUEST_RETRIES; i++)
        assert_false(done_with(w, 'a', 0, true));
    assert_true(done_with(w, 'a', 0, true)); /* now its error goes to the client */
    assert_int_equal(as_deployment_stat(w->d)->replayed, AS_REQUEST_RETRIES);
    w->n = 0;
    expect(w, "");
    world_free(w);
}

static void test_nobody_waits_for_what_is_handed_back(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "a");
    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    assert_false(done_with(w, 'a', 0, true));
    expect(w, "a>X a!C ~a");
    world_free(w);
}

/* --- executing requests --- */

static void list_letter(void *arg, struct as_request *q)
{
    struct world *w = arg;

    note(w, "%c", letter(w, q));
}

static void expect_executing(struct world *w, char r, const char *want)
{
    as_replica_each_executing(rep(w, r), list_letter, w);
    expect(w, want);
}

static void test_as_many_execute_as_there_are_slots(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 2, 2);
    expect_executing(w, 'X', "");
    submit_all(w, "a");
    expect(w, "a>X");
    expect_executing(w, 'X', "a");
    assert_true(done(w, 'a')); /* fast: it prefetches */
    submit_all(w, "bcde");
    expect(w, "b>X c>X d>X e>X");
    expect_executing(w, 'X', "b c");
    as_deployment_cancel(w->d, req(w, 'b'), w->now);
    expect(w, "b!C");
    expect_executing(w, 'X', "b c"); /* the client of one has left, but it still runs */
    world_free(w);
}

static void test_a_request_that_is_given_up_keeps_its_slot(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    req(w, 'a')->deadline = w->now + AS_SEC;
    req(w, 'a')->idempotent = true;
    submit_all(w, "ab");
    expect(w, "a>X");
    as_replica_fail_request(rep(w, 'X'), req(w, 'a'), AS_EHUNG);
    expect(w, "a!D a=EHUNG");
    as_replica_fail_request(rep(w, 'X'), req(w, 'a'), AS_EHUNG); /* one answer */
    as_deployment_expire(w->d, w->now + 2 * AS_SEC);
    expect(w, "");
    assert_int_equal(as_deployment_stat(w->d)->failed, 1);
    /* idempotent or not, it does not run again; requests that waited behind it do */
    as_replica_free(rep(w, 'X'), req(w, 'a')->stream, AS_LOSS_KILLED, w->now);
    expect(w, "~a");
    join(w, 'Y', 1, 0);
    expect(w, "b>Y");
    world_free(w);
}

/* --- death --- */

static void test_a_death_retries_what_had_not_started(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 4, 0);
    req(w, 'b')->idempotent = true;
    submit_all(w, "abcdef");
    expect(w, "a>X b>X c>X d>X");
    as_deployment_cancel(w->d, req(w, 'c'), w->now);
    as_replica_free(rep(w, 'X'), req(w, 'c')->stream, AS_LOSS_KILLED, w->now);
    expect(w, "c!C a=EMAYHAVERUN ~a ~c");
    assert_int_equal(as_deployment_queued(w->d), 4);
    join(w, 'Y', 4, 0);
    expect(w, "b>Y d>Y e>Y f>Y"); /* in the order they came */
    assert_int_equal(as_deployment_stat(w->d)->lost, 1);
    assert_int_equal(as_deployment_stat(w->d)->failed, 1);
    assert_int_equal(as_deployment_stat(w->d)->replayed, 2);
    assert_int_equal(as_deployment_stat(w->d)->deaths, 1);
    world_free(w);
}

/* A part of the answer was delivered: another execution would not repeat this one. */
static void test_what_has_begun_to_answer_is_not_retried(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 2, 0);
    req(w, 'a')->idempotent = req(w, 'b')->idempotent = true;
    submit_all(w, "ab");
    expect(w, "a>X b>X");
    assert_true(as_replica_bind(rep(w, 'X'), req(w, 'a')));
    as_replica_free(rep(w, 'X'), req(w, 'b')->stream, AS_LOSS_KILLED, w->now);
    expect(w, "a=EMAYHAVERUN ~a");
    assert_int_equal(as_deployment_queued(w->d), 1);
    world_free(w);
}

static void test_what_has_begun_to_answer_cannot_be_handed_back(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "a");
    expect(w, "a>X");
    as_replica_bind(rep(w, 'X'), req(w, 'a'));
    assert_true(done_with(w, 'a', 0, true)); /* the worker's error is the answer */
    world_free(w);
}

static void test_nobody_waits_for_parts_of_what_was_cancelled(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "a");
    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    assert_false(as_replica_bind(rep(w, 'X'), req(w, 'a')));
    expect(w, "a>X a!C");
    done(w, 'a');
    expect(w, "~a");
    world_free(w);
}

static void test_retries_take_free_slots_at_once(void **state AS_UNUSED)
{
    struct world *w = measured(1, 8);

    submit_all(w, "ab");
    as_replica_drain(rep(w, 'X'), true, w->now);
    req(w, 'c')->priority = 0;
    submit_all(w, "c");
    join(w, 'Y', 2, 0);
    expect(w, "a>X b>X c>Y X<b");
    as_replica_free(rep(w, 'X'), 0, AS_LOSS_KILLED, w->now); /* the recall ends with it */
    expect(w, "a>Y");
    done(w, 'c');
    expect(w, "b>Y");
    world_free(w);
}

static void test_retries_are_queued_above_the_limit(void **state AS_UNUSED)
{
    struct world *w = world_new_with(1, AS_ROUTER_LATE_BINDING);

    join(w, 'X', 3, 0);
    submit_all(w, "abcd");
    as_replica_free(rep(w, 'X'), 0, AS_LOSS_KILLED, w->now);
    assert_int_equal(as_deployment_queued(w->d), 4);
    assert_int_equal(submit(w, 'e'), AS_EFULL);
    expect(w, "a>X b>X c>X");
    world_free(w);
}

static void test_an_unknown_last_start_may_mean_all(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 2, 0);
    submit_all(w, "ab");
    as_replica_free(rep(w, 'X'), UINT64_MAX, AS_LOSS_KILLED, w->now);
    expect(w, "a>X b>X a=EMAYHAVERUN ~a b=EMAYHAVERUN ~b");
    world_free(w);
}

static void test_retries_of_a_deployment_that_is_down_end(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "a");
    as_deployment_set_down(w->d, true, w->now);
    as_replica_free(rep(w, 'X'), 0, AS_LOSS_KILLED, w->now);
    expect(w, "a>X a=EUNAVAILABLE ~a");
    world_free(w);
}

static void write_name(void *arg, struct as_replica *r)
{
    note(arg, "%c", letter_of(r));
}

static void test_replicas_are_visited_in_the_order_they_came(void **state AS_UNUSED)
{
    struct world *w = world_new();

    for (char c = 'A'; c <= 'J'; c++)
        join(w, c, 1, 0);
    as_replica_free(rep(w, 'B'), 0, AS_LOSS_KILLED, w->now);
    as_replica_free(rep(w, 'J'), 0, AS_LOSS_KILLED, w->now);
    for (char c = 'a'; c <= 'h'; c++)
        submit_all(w, (char[]){c, '\0'});
    expect(w, "a>A b>C c>D d>E e>F f>G g>H h>I");
    as_deployment_each_replica(w->d, write_name, w);
    expect(w, "A C D E F G H I");
    assert_true(as_str_eq(as_deployment_name(w->d), AS_STR("test")));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_prefetched_before_a_measurement),
        cmocka_unit_test(test_as_much_is_prefetched_as_fits_in_the_work),
        cmocka_unit_test(test_the_worker_bounds_what_it_holds),
        cmocka_unit_test(test_nothing_is_prefetched_for_slow_handlers),
        cmocka_unit_test(test_the_service_time_is_a_moving_average),
        cmocka_unit_test(test_prefetch_goes_where_least_waits),
        cmocka_unit_test(test_a_free_slot_recalls_the_newest_that_waits_elsewhere),
        cmocka_unit_test(test_the_queue_goes_before_a_recall),
        cmocka_unit_test(test_one_recall_at_a_time),
        cmocka_unit_test(test_what_was_not_returned_is_not_asked_again),
        cmocka_unit_test(test_an_answer_overtakes_the_recall),
        cmocka_unit_test(test_a_client_leaves_during_the_recall),
        cmocka_unit_test(test_the_least_loaded_then_the_least_recently_used),
        cmocka_unit_test(test_pow2_never_takes_the_busier_of_two),
        cmocka_unit_test(test_routers_by_name),
        cmocka_unit_test(test_fewer_slots_make_executing_requests_count_as_waiting),
        cmocka_unit_test(test_grants_are_bounded),
        cmocka_unit_test(test_a_draining_replica_gets_nothing_new),
        cmocka_unit_test(test_what_waits_at_a_draining_replica_moves),
        cmocka_unit_test(test_a_request_that_is_handed_back_goes_to_another),
        cmocka_unit_test(test_handing_back_is_limited),
        cmocka_unit_test(test_nobody_waits_for_what_is_handed_back),
        cmocka_unit_test(test_as_many_execute_as_there_are_slots),
        cmocka_unit_test(test_a_request_that_is_given_up_keeps_its_slot),
        cmocka_unit_test(test_a_death_retries_what_had_not_started),
        cmocka_unit_test(test_what_has_begun_to_answer_is_not_retried),
        cmocka_unit_test(test_what_has_begun_to_answer_cannot_be_handed_back),
        cmocka_unit_test(test_nobody_waits_for_parts_of_what_was_cancelled),
        cmocka_unit_test(test_retries_take_free_slots_at_once),
        cmocka_unit_test(test_retries_are_queued_above_the_limit),
        cmocka_unit_test(test_an_unknown_last_start_may_mean_all),
        cmocka_unit_test(test_retries_of_a_deployment_that_is_down_end),
        cmocka_unit_test(test_replicas_are_visited_in_the_order_they_came),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
