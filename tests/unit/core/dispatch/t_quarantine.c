/* Specification of what core/dispatch/deployment does after deaths: causes that are reported later,
 * attempts and the retry budget, suspects that run alone, requests that are refused.
 * deployment_world.h explains the log.
 */
#include "deployment_world.h"

static void test_after_an_outside_kill_it_runs_again_and_again(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", true, 0);
    join(w, 'A', 1, 0);
    assert_int_equal(submit(w, 'a'), 0);
    for (int i = 0; i < 20; i++) {
        join(w, i % 2 ? 'A' : 'B', 1, 0);
        die(w, i % 2 ? 'B' : 'A', 'a', AS_LOSS_KILLED);
    }
    w->n = 0;
    assert_true(done(w, 'a'));
    expect(w, "");
    assert_int_equal(w->prints, 0); /* no request was a suspect */
    world_free(w);
}

static void test_unexplained_losses_are_counted(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", true, 0);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    join(w, 'C', 1, 0);
    submit(w, 'a');
    die(w, 'A', 'a', AS_LOSS_UNKNOWN);
    die(w, 'B', 'a', AS_LOSS_UNKNOWN);
    die(w, 'C', 'a', AS_LOSS_UNKNOWN); /* the third execution was the last */
    expect(w, "a>A a>B a>C a=EMAYHAVERUN ~a");
    assert_int_equal(as_deployment_stat(w->d)->replays_refused, 1);
    world_free(w);
}

static void test_broken_links_have_a_budget(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abcde", true, 0);
    join(w, 'A', 5, 0);
    submit_all(w, "abcde");
    w->n = 0;
    die(w, 'A', 'e', AS_LOSS_LINK); /* at least three; 10 % of five would be none */
    expect(w, "d=EMAYHAVERUN ~d e=EMAYHAVERUN ~e");
    join(w, 'B', 3, 0);
    done(w, 'a');
    done(w, 'b');
    done(w, 'c');
    w->n = 0;
    make_requests(w, "a", true, 0); /* the budget is free again */
    submit(w, 'a');
    die(w, 'B', 'a', AS_LOSS_LINK);
    expect(w, "a>B");
    assert_int_equal(as_deployment_queued(w->d), 1);
    world_free(w);
}

/* The replica lives on: only one connection of a simple worker has broken. */
static void test_a_lost_connection_goes_by_the_same_table(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ad", true, 0);
    make_requests(w, "bc", false, 0);
    join(w, 'A', 4, 0);
    join(w, 'B', 4, 0);
    as_replica_drain(rep(w, 'B'), true, w->now);
    submit_all(w, "abcd");
    as_replica_drain(rep(w, 'B'), false, w->now);
    as_deployment_cancel(w->d, req(w, 'c'), w->now);
    w->n = 0;
    as_replica_lose_request(rep(w, 'A'), req(w, 'a'), AS_LOSS_LINK, w->now);
    as_replica_lose_request(rep(w, 'A'), req(w, 'b'), AS_LOSS_LINK, w->now);
    as_replica_lose_request(rep(w, 'A'), req(w, 'c'), AS_LOSS_LINK, w->now);
    as_replica_lose_request(rep(w, 'A'), req(w, 'd'), AS_LOSS_UNKNOWN, w->now);
    expect(w, "a>B b=EMAYHAVERUN ~b ~c d>B");
    assert_true(req(w, 'a')->ran && req(w, 'a')->in_budget && !req(w, 'd')->in_budget);
    assert_int_equal(req(w, 'a')->tries, 1);
    as_replica_lose_request(rep(w, 'B'), req(w, 'a'), AS_LOSS_LINK, w->now);
    expect(w, "a>A"); /* other replicas are considered first */
    as_replica_lose_request(rep(w, 'A'), req(w, 'a'), AS_LOSS_LINK, w->now);
    expect(w, "a=EMAYHAVERUN ~a"); /* the third execution was the last */
    assert_int_equal(as_deployment_stat(w->d)->replays_refused, 1);
    assert_int_equal(as_deployment_stat(w->d)->lost, 2);
    world_free(w);
}

static void test_unstarted_requests_never_wait_for_the_verdict(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 0);
    join(w, 'A', 1, 4);
    join(w, 'B', 0, 0);
    submit(w, 'a');
    done_with(w, 'a', AS_US, false); /* fast: the next two are prefetched */
    make_requests(w, "a", true, 0);
    submit_all(w, "ab");
    w->n = 0;
    assert_true(die(w, 'A', 'a', AS_LOSS_PENDING) > 0);
    assert_int_equal(as_deployment_parked(w->d), 1);
    grant(w, 'B', 1, 0);
    expect(w, "b>B");
    world_free(w);
}

static void test_the_verdict_lets_the_others_go_on(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    make_requests(w, "a", true, 0);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    submit(w, 'a');
    verdict = die(w, 'A', 'a', AS_LOSS_PENDING);
    expect(w, "a>A");
    assert_true(as_deployment_next_deadline(w->d) == w->now + 25 * AS_MS);
    as_deployment_verdict(w->d, verdict, AS_LOSS_KILLED, w->now);
    expect(w, "a>B");
    assert_int_equal(req(w, 'a')->tries, 0);
    as_deployment_verdict(w->d, verdict, AS_LOSS_KILLED, w->now); /* nobody is left */
    expect(w, "");
    world_free(w);
}

static void test_without_a_verdict_it_goes_on_after_a_while(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    make_requests(w, "a", true, 0);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    submit(w, 'a');
    die(w, 'A', 'a', AS_LOSS_PENDING);
    w->now += 25 * AS_MS - 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "a>A");
    w->now++;
    as_deployment_expire(w->d, w->now);
    expect(w, "a>B");
    /* lost once more, it waits longer: in haste it could end a second worker */
    verdict = die(w, 'B', 'a', AS_LOSS_PENDING);
    assert_true(as_deployment_next_deadline(w->d) == w->now + 2 * AS_SEC);
    assert_int_equal(as_deployment_parked(w->d), 1);
    join(w, 'C', 1, 0);
    as_deployment_verdict(w->d, verdict, AS_LOSS_KILLED, w->now);
    expect(w, "a>C");
    world_free(w);
}

static void test_a_client_that_leaves_or_is_late_does_not_wait(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 0);
    join(w, 'A', 2, 0);
    req(w, 'b')->deadline = w->now + AS_MS;
    submit_all(w, "ab");
    die(w, 'A', 'b', AS_LOSS_PENDING);
    w->n = 0;
    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    assert_true(as_deployment_next_deadline(w->d) == req(w, 'b')->deadline);
    w->now += AS_MS;
    as_deployment_expire(w->d, w->now);
    expect(w, "b=EDEADLINE");
    assert_int_equal(as_deployment_parked(w->d), 0);
    w->now += 24 * AS_MS - 1; /* their bodies stay until the cause is known … */
    as_deployment_expire(w->d, w->now);
    expect(w, "");
    w->now++; /* … or for as long as they would have waited; then only their fingerprints stay */
    as_deployment_expire(w->d, w->now);
    expect(w, "~a ~b");
    assert_int_equal(w->prints, 2);
    assert_true(as_deployment_next_deadline(w->d) == AS_NEVER);
    world_free(w);
}

static void test_a_suspect_runs_alone(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abc", true, 0);
    join(w, 'A', 4, 0);
    join(w, 'B', 4, 0);
    submit_all(w, "a");
    submit_all(w, "b");
    w->n = 0;
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    /* B has b: it is reserved for a until b is done */
    expect(w, "");
    assert_int_equal(as_deployment_suspects(w->d), 1);
    submit(w, 'c');
    expect(w, "");
    done(w, 'b');
    expect(w, "a>B");
    assert_int_equal(as_deployment_stat(w->d)->trials, 1);
    assert_true(done(w, 'a')); /* harmless: the replica serves other requests again */
    expect(w, "c>B");
    assert_int_equal(as_deployment_suspects(w->d), 0);
    world_free(w);
}

static void test_an_idle_replica_runs_a_suspect_at_once(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abc", true, 0);
    join(w, 'A', 2, 0);
    join(w, 'B', 2, 0);
    join(w, 'C', 2, 0);
    submit(w, 'a');
    w->n = 0;
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    submit_all(w, "bc");
    expect(w, "a>B b>C c>C");
    world_free(w);
}

static void test_the_second_death_makes_poison_for_a_while(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abcd", true, 5);
    for (char r = 'A'; r <= 'D'; r++)
        join(w, r, 1, 0);
    submit(w, 'a');
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    expect(w, "a>A a>B");
    die(w, 'B', 'a', AS_LOSS_CRASHED);
    expect(w, "a=EPOISON ~a");
    assert_int_equal(submit(w, 'b'), AS_EPOISON);
    w->now += 60 * AS_SEC - 1;
    assert_int_equal(submit(w, 'c'), AS_EPOISON);
    assert_int_equal(as_deployment_stat(w->d)->quarantined, 3);
    w->now++;
    submit(w, 'd'); /* a suspect again: it runs alone, and one more death is enough */
    die(w, 'C', 'd', AS_LOSS_CRASHED);
    expect(w, "d>C d=EPOISON ~d");
    world_free(w);
}

static void test_one_that_must_not_run_twice_is_remembered_too(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abc", false, 5);
    for (char r = 'A'; r <= 'C'; r++)
        join(w, r, 1, 0);
    submit(w, 'a');
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    expect(w, "a>A a=EMAYHAVERUN ~a");
    submit(w, 'b');
    die(w, 'B', 'b', AS_LOSS_CRASHED);
    expect(w, "b>B b=EMAYHAVERUN ~b");
    assert_int_equal(submit(w, 'c'), AS_EPOISON);
    world_free(w);
}

static void test_a_client_that_left_does_not_hide_a_poison(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 5);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    submit(w, 'a');
    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    submit(w, 'b');
    assert_non_null(req(w, 'b')->blame);
    world_free(w);
}

static void test_copies_in_the_queue_become_suspects(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abcd", true, 5);
    make_requests(w, "xy", true, 0);
    join(w, 'A', 1, 0);
    submit_all(w, "abxcyd");
    w->n = 0;
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    assert_int_equal(as_deployment_suspects(w->d), 4);
    join(w, 'B', 1, 0);
    join(w, 'C', 1, 0);
    join(w, 'D', 1, 0);
    /* one of them at a time, in the first replica that is idle, whichever that is */
    expect(w, "x>B y>C b>D");
    die(w, 'D', 'b', AS_LOSS_CRASHED);
    expect(w, "c=EPOISON ~c d=EPOISON ~d a=EPOISON ~a b=EPOISON ~b");
    world_free(w);
}

static void test_one_good_run_clears_all_with_the_same_fingerprint(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abc", true, 5);
    join(w, 'A', 1, 0);
    submit_all(w, "abc");
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    join(w, 'B', 4, 0);
    w->n = 0;
    done(w, 'b');
    expect(w, "a>B c>B");
    make_requests(w, "d", true, 5);
    assert_int_equal(submit(w, 'd'), 0);
    expect(w, "d>B");
    world_free(w);
}

static void test_a_harmless_neighbour_is_cleared(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", true, 5);
    make_requests(w, "b", true, 6);
    join(w, 'A', 2, 0);
    submit_all(w, "ab");
    die(w, 'A', 'b', AS_LOSS_CRASHED);
    join(w, 'B', 2, 0);
    join(w, 'C', 2, 0);
    w->n = 0;
    die(w, 'B', 'a', AS_LOSS_CRASHED); /* the poison; of two replicas one may be in quarantine */
    expect(w, "a=EPOISON ~a b>C");
    assert_true(done(w, 'b'));
    make_requests(w, "cd", true, 6);
    submit_all(w, "cd");
    expect(w, "c>C d>C");
    world_free(w);
}

/* After a kill from outside bodies are not read, which would take long for nothing. */
static void test_for_a_kill_from_outside_nothing_is_hashed(void **state AS_UNUSED)
{
    static const enum as_loss outside[] = {AS_LOSS_KILLED, AS_LOSS_UNKNOWN};

    for (size_t i = 0; i < AS_COUNT(outside); i++) {
        struct world *w = world_new();
        uint64_t verdict;

        make_requests(w, "ac", true, 5);
        make_requests(w, "b", false, 6);
        join(w, 'A', 4, 0);
        join(w, 'B', 4, 0);
        as_replica_drain(rep(w, 'B'), true, w->now);
        submit_all(w, "abc");
        as_deployment_cancel(w->d, req(w, 'c'), w->now);
        as_replica_drain(rep(w, 'B'), false, w->now);
        w->n = 0;
        verdict = die(w, 'A', 'c', AS_LOSS_PENDING);
        as_deployment_verdict(w->d, verdict, outside[i], w->now);
        assert_int_equal(w->prints, 0);
        assert_int_equal(as_deployment_stat(w->d)->blamed, 0);
        assert_ptr_equal(req(w, 'a')->replica, rep(w, 'B'));
        assert_int_equal(req(w, 'b')->state, AS_REQ_DONE);
        assert_int_equal(req(w, 'c')->state, AS_REQ_DONE);
        world_free(w);
    }
}

static void test_a_late_verdict_still_blames(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    make_requests(w, "ab", true, 5);
    join(w, 'A', 1, 0);
    join(w, 'B', 2, 0);
    submit(w, 'a');
    verdict = die(w, 'A', 'a', AS_LOSS_PENDING);
    w->now += 25 * AS_MS;
    as_deployment_expire(w->d, w->now); /* runs again, together with others */
    as_deployment_verdict(w->d, verdict, AS_LOSS_CRASHED, w->now);
    submit(w, 'b');
    expect(w, "a>A a>B");
    assert_int_equal(as_deployment_suspects(w->d), 1);
    world_free(w);
}

static void test_without_a_verdict_it_goes_alone_where_a_replica_is_idle(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    make_requests(w, "a", true, 5);
    make_requests(w, "b", true, 0);
    join(w, 'A', 2, 0);
    join(w, 'B', 2, 0);
    submit(w, 'a');
    verdict = die(w, 'A', 'a', AS_LOSS_PENDING);
    w->now += 25 * AS_MS;
    as_deployment_expire(w->d, w->now);
    submit(w, 'b');
    expect(w, "a>A a>B"); /* b waits: no other request goes where a is in quarantine */
    join(w, 'C', 2, 0);
    expect(w, "b>C");
    as_deployment_verdict(w->d, verdict, AS_LOSS_CRASHED, w->now);
    die(w, 'B', 'a', AS_LOSS_CRASHED);
    expect(w, "a=EPOISON ~a");
    world_free(w);
}

static void test_a_suspect_without_a_death_leaves_no_entry(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    make_requests(w, "ab", true, 5);
    join(w, 'A', 2, 0);
    join(w, 'B', 2, 0);
    submit(w, 'a');
    verdict = die(w, 'A', 'a', AS_LOSS_PENDING);
    w->now += 25 * AS_MS;
    as_deployment_expire(w->d, w->now);
    as_deployment_verdict(w->d, verdict, AS_LOSS_KILLED, w->now);
    assert_true(done(w, 'a'));
    w->prints = 0;
    submit(w, 'b');
    assert_int_equal(w->prints, 0);
    expect(w, "a>A a>B b>B");
    world_free(w);
}

static void test_a_kill_from_outside_in_quarantine_proves_nothing(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", true, 5);
    for (char r = 'A'; r <= 'C'; r++)
        join(w, r, 1, 0);
    submit(w, 'a');
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    die(w, 'B', 'a', AS_LOSS_KILLED);
    expect(w, "a>A a>B a>C");
    assert_non_null(req(w, 'a')->blame);
    assert_true(done(w, 'a'));
    world_free(w);
}

/* --- workers that we ended because they hung or were unhealthy --- */

static void test_what_executed_in_an_unhealthy_worker_is_suspect(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 0);
    join(w, 'A', 2, 0);
    join(w, 'B', 2, 0);
    submit(w, 'a');
    as_replica_set_unhealthy(rep(w, 'A'), req(w, 'a')->stream);
    as_replica_drain(rep(w, 'A'), true, w->now);
    die(w, 'A', 'a', AS_LOSS_UNHEALTHY);
    submit(w, 'b');
    expect(w, "a>A a>B"); /* b waits: a is alone */
    assert_int_equal(req(w, 'a')->tries, 1);
    assert_int_equal(as_deployment_stat(w->d)->blamed, 1);
    as_replica_set_unhealthy(rep(w, 'B'), req(w, 'a')->stream);
    as_replica_drain(rep(w, 'B'), true, w->now);
    die(w, 'B', 'a', AS_LOSS_UNHEALTHY);
    expect(w, "a=EPOISON ~a");
    world_free(w);
}

static void test_what_started_later_is_lost_as_by_an_outside_kill(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abc", true, 0);
    join(w, 'A', 3, 0);
    join(w, 'B', 3, 0);
    as_replica_drain(rep(w, 'B'), true, w->now);
    submit_all(w, "abc");
    as_replica_set_unhealthy(rep(w, 'A'), req(w, 'a')->stream);
    as_replica_drain(rep(w, 'A'), true, w->now);
    as_replica_drain(rep(w, 'B'), false, w->now);
    w->n = 0;
    die(w, 'A', 'b', AS_LOSS_UNHEALTHY);
    expect(w, "b>B c>B");
    assert_int_equal(as_deployment_suspects(w->d), 1); /* only a */
    assert_int_equal(req(w, 'b')->tries, 0);
    done(w, 'b');
    done(w, 'c');
    expect(w, "a>B");
    world_free(w);
}

/* Its process does not die, or is not ours: all requests may have run, but the suspects are known.
 */
static void test_an_unhealthy_worker_that_loses_its_link_blames_too(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 0);
    join(w, 'A', 2, 0);
    submit_all(w, "ab");
    as_replica_set_unhealthy(rep(w, 'A'), req(w, 'a')->stream);
    as_replica_drain(rep(w, 'A'), true, w->now);
    w->n = 0;
    as_replica_free(rep(w, 'A'), UINT64_MAX, AS_LOSS_LINK, w->now);
    assert_int_equal(as_deployment_stat(w->d)->blamed, 1);
    assert_non_null(req(w, 'a')->blame);
    assert_null(req(w, 'b')->blame);
    assert_true(req(w, 'a')->in_budget && req(w, 'b')->in_budget);
    world_free(w);
}

static void test_what_ended_before_an_unhealthy_worker_is_not_blamed(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 0);
    join(w, 'A', 2, 0);
    submit_all(w, "ab");
    as_replica_set_unhealthy(rep(w, 'A'), req(w, 'b')->stream);
    as_replica_drain(rep(w, 'A'), true, w->now);
    assert_true(done(w, 'a'));
    die(w, 'A', 'b', AS_LOSS_UNHEALTHY);
    assert_int_equal(as_deployment_stat(w->d)->blamed, 1);
    make_requests(w, "a", true, 0);
    submit(w, 'a');
    assert_null(req(w, 'a')->blame);
    world_free(w);
}

static void test_without_the_table_nothing_is_hashed(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", true, 0);
    w->size[0] = 10;
    w->size[1] = 11; /* no entry has this size */
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    submit(w, 'a');
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    w->prints = 0;
    make_requests(w, "b", true, 0);
    submit(w, 'b');
    assert_int_equal(w->prints, 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_an_outside_kill_it_runs_again_and_again),
        cmocka_unit_test(test_unexplained_losses_are_counted),
        cmocka_unit_test(test_broken_links_have_a_budget),
        cmocka_unit_test(test_a_lost_connection_goes_by_the_same_table),
        cmocka_unit_test(test_unstarted_requests_never_wait_for_the_verdict),
        cmocka_unit_test(test_the_verdict_lets_the_others_go_on),
        cmocka_unit_test(test_without_a_verdict_it_goes_on_after_a_while),
        cmocka_unit_test(test_a_client_that_leaves_or_is_late_does_not_wait),
        cmocka_unit_test(test_a_suspect_runs_alone),
        cmocka_unit_test(test_an_idle_replica_runs_a_suspect_at_once),
        cmocka_unit_test(test_the_second_death_makes_poison_for_a_while),
        cmocka_unit_test(test_one_that_must_not_run_twice_is_remembered_too),
        cmocka_unit_test(test_a_client_that_left_does_not_hide_a_poison),
        cmocka_unit_test(test_copies_in_the_queue_become_suspects),
        cmocka_unit_test(test_one_good_run_clears_all_with_the_same_fingerprint),
        cmocka_unit_test(test_a_harmless_neighbour_is_cleared),
        cmocka_unit_test(test_for_a_kill_from_outside_nothing_is_hashed),
        cmocka_unit_test(test_a_late_verdict_still_blames),
        cmocka_unit_test(test_without_a_verdict_it_goes_alone_where_a_replica_is_idle),
        cmocka_unit_test(test_a_suspect_without_a_death_leaves_no_entry),
        cmocka_unit_test(test_a_kill_from_outside_in_quarantine_proves_nothing),
        cmocka_unit_test(test_what_executed_in_an_unhealthy_worker_is_suspect),
        cmocka_unit_test(test_what_started_later_is_lost_as_by_an_outside_kill),
        cmocka_unit_test(test_an_unhealthy_worker_that_loses_its_link_blames_too),
        cmocka_unit_test(test_what_ended_before_an_unhealthy_worker_is_not_blamed),
        cmocka_unit_test(test_without_the_table_nothing_is_hashed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
