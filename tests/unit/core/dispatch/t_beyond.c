/* Specification of requests on a cycle (core/dispatch/beyond.c), which execute beyond the slots.
 * deployment_world.h explains the log.
 */
#include "deployment_world.h"

#include "core/dispatch/deployment_internal.h"

/* Requests of these letters, all on a cycle. */
static void make_cyclic(struct world *w, const char *list, bool idempotent)
{
    make_requests(w, list, idempotent, 0);
    for (; *list; list++)
        req(w, *list)->on_cycle = true;
}

static void test_it_is_sent_though_every_slot_executes(void **state AS_UNUSED)
{
    struct world *w = world_new_with(1, AS_ROUTER_LATE_BINDING);

    make_requests(w, "abc", true, 0);
    make_cyclic(w, "xyz", true);
    join(w, 'A', 1, 0);
    submit_all(w, "abxyz");
    assert_int_equal(submit(w, 'c'), AS_EFULL); /* the limit of the queue is as exact as before */
    expect(w, "a>A x>A y>A z>A");
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    assert_int_equal(as_deployment_beyond(w->d), 3);
    assert_int_equal(as_replica_beyond(rep(w, 'A')), 3);
    assert_int_equal(as_replica_ongoing(rep(w, 'A')), 1);
    assert_int_equal(as_replica_unanswered(rep(w, 'A')), 4);
    assert_int_equal(as_deployment_queued(w->d), 1);
    assert_true(done(w, 'y')); /* its end frees no slot */
    expect(w, "");
    assert_true(done(w, 'a'));
    expect(w, "b>A");
    assert_true(done(w, 'x'));
    assert_true(done(w, 'z'));
    assert_true(done(w, 'b'));
    assert_int_equal(as_deployment_beyond(w->d) + as_deployment_ongoing(w->d), 0);
    world_free(w);
}

static void test_it_takes_no_slot_even_if_one_is_free(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 0);
    make_cyclic(w, "x", true);
    join(w, 'A', 2, 0);
    submit_all(w, "xab");
    expect(w, "x>A a>A b>A");
    assert_true(req(w, 'x')->beyond);
    assert_false(req(w, 'a')->beyond);
    world_free(w);
}

static void test_it_goes_where_the_fewest_are(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abcd", true, 0);
    make_cyclic(w, "uvwxyz", true);
    join(w, 'A', 3, 0);
    join(w, 'B', 1, 0);
    submit_all(w, "abcd"); /* A has three, B one */
    w->n = 0;
    submit_all(w, "uvw");
    expect(w, "u>B v>B w>A"); /* of equals the one that was used less recently */
    as_replica_drain(rep(w, 'A'), true, w->now);
    submit_all(w, "xy");
    expect(w, "x>B y>B");
    grant(w, 'B', 0, 0); /* no slots: it takes nothing */
    as_replica_drain(rep(w, 'A'), false, w->now);
    submit_all(w, "z");
    expect(w, "z>A");
    world_free(w);
}

/* The request that drains may wait for it. */
static void test_a_draining_replica_takes_it_if_there_is_no_other(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 0);
    make_cyclic(w, "xyz", true);
    join(w, 'A', 1, 0);
    submit_all(w, "a");
    as_replica_drain(rep(w, 'A'), true, w->now);
    submit_all(w, "bx");
    expect(w, "a>A x>A");
    assert_true(done(w, 'a'));
    assert_true(done(w, 'x'));
    submit_all(w, "y"); /* A has nothing to finish: it may be gone at any moment */
    expect(w, "");
    assert_int_equal(as_deployment_queued(w->d), 2);
    join(w, 'B', 1, 0);
    as_replica_drain(rep(w, 'A'), false, w->now);
    expect(w, "b>B y>B");
    as_replica_set_unhealthy(rep(w, 'B'), 0); /* it will be killed */
    as_replica_drain(rep(w, 'B'), true, w->now);
    as_replica_drain(rep(w, 'A'), true, w->now);
    submit_all(w, "z");
    expect(w, "");
    world_free(w);
}

static void test_it_waits_for_a_replica_in_rotation(void **state AS_UNUSED)
{
    struct world *w = world_new_with(3, AS_ROUTER_LATE_BINDING);

    make_requests(w, "ab", true, 0);
    make_cyclic(w, "wxyz", true);
    w->now = 100;
    submit_all(w, "ay");
    w->now = 200;
    req(w, 'x')->root = 50;
    submit_all(w, "x");
    assert_int_equal(submit(w, 'z'), AS_EFULL);
    assert_int_equal(as_deployment_queued(w->d), 3);
    expect(w, "");
    join(w, 'A', 1, 0);
    expect(w, "a>A x>A y>A"); /* by age */
    assert_int_equal(as_deployment_queued(w->d), 0);
    submit_all(w, "bw");
    expect(w, "w>A");
    world_free(w);
}

static void test_what_waits_can_be_cancelled_and_expires(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_cyclic(w, "xyz", true);
    req(w, 'y')->deadline = w->now + 10;
    submit_all(w, "xyz");
    as_deployment_cancel(w->d, req(w, 'x'), w->now);
    expect(w, "~x");
    assert_true(as_deployment_next_deadline(w->d) == w->now + 10);
    w->now += 10;
    as_deployment_expire(w->d, w->now);
    expect(w, "y=EDEADLINE ~y");
    as_deployment_set_down(w->d, true, w->now);
    expect(w, "z=EUNAVAILABLE ~z");
    assert_int_equal(as_deployment_queued(w->d), 0);
    world_free(w);
}

static void test_a_cancelled_one_counts_until_its_worker_answers(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_cyclic(w, "xy", true);
    join(w, 'A', 1, 0);
    req(w, 'y')->deadline = w->now + 10;
    submit_all(w, "xy");
    as_deployment_cancel(w->d, req(w, 'x'), w->now);
    w->now += 10;
    as_deployment_expire(w->d, w->now);
    expect(w, "x>A y>A x!C y!D y=EDEADLINE");
    assert_int_equal(as_deployment_beyond(w->d), 2);
    assert_false(done(w, 'x'));
    assert_false(done(w, 'y'));
    expect(w, "~x ~y");
    assert_int_equal(as_deployment_beyond(w->d), 0);
    world_free(w);
}

static void test_after_a_death_it_goes_beyond_again(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 0);
    make_cyclic(w, "xyz", false);
    req(w, 'y')->idempotent = true;
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    submit_all(w, "abxyz");
    expect(w, "a>A b>B x>A y>B z>A");
    die(w, 'A', 'x', AS_LOSS_KILLED); /* x had started, z not */
    expect(w, "x=EMAYHAVERUN ~x z>B");
    die(w, 'B', 'y', AS_LOSS_KILLED);
    expect(w, ""); /* all wait, since no replica is left: y may run again, z has not run */
    assert_int_equal(as_deployment_beyond(w->d), 0);
    assert_int_equal(as_deployment_queued(w->d), 4);
    join(w, 'C', 1, 0);
    expect(w, "a>C y>C z>C");
    world_free(w);
}

static void
test_a_worker_that_hands_it_back_gets_it_again_if_there_is_no_other(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_cyclic(w, "x", true);
    join(w, 'A', 1, 0);
    submit_all(w, "x");
    for (uint32_t i = 0; i < AS_REQUEST_RETRIES; i++)
        assert_false(done_with(w, 'x', 0, true));
    assert_true(done_with(w, 'x', 0, true)); /* its error goes to the client */
    expect(w, "x>A x>A x>A x>A x>A x>A x>A x>A x>A");
    submit_all((make_cyclic(w, "x", true), w), "x");
    join(w, 'B', 1, 0);
    assert_false(done_with(w, 'x', 0, true));
    expect(w, "x>A x>B");
    world_free(w);
}

/* Requests that wait at a replica are recalled; what executes beyond its slots is not among them.
 */
static void test_it_is_not_recalled(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abcd", true, 0);
    make_cyclic(w, "xy", true);
    join(w, 'A', 1, 8);
    submit_all(w, "a");
    done(w, 'a'); /* now its service time is known, and it prefetches */
    w->n = 0;
    submit_all(w, "bxcyd");
    expect(w, "b>A x>A c>A y>A d>A");
    assert_int_equal(as_deployment_prefetched(w->d), 2);
    join(w, 'B', 4, 0);
    expect(w, "A<cd");
    returned(w, 'A', "dc");
    expect(w, "d>B c>B");
    assert_int_equal(as_deployment_beyond(w->d), 2);
    world_free(w);
}

static void add_letter(void *arg, struct as_request *q)
{
    char *list = arg;

    list[strlen(list)] = (char)('a' + (int)q->kind);
}

/* The scan for handlers that run too long must see it. */
static void test_it_is_among_the_executing_ones(void **state AS_UNUSED)
{
    struct world *w = world_new();
    char list[26] = "";

    make_requests(w, "abcd", true, 0);
    make_cyclic(w, "xy", true);
    for (char c = 'a'; c <= 'z'; c++)
        req(w, c)->kind = (uint64_t)(c - 'a');
    join(w, 'A', 1, 8);
    submit_all(w, "a");
    done(w, 'a');
    submit_all(w, "bxcdy");
    as_replica_each_executing(rep(w, 'A'), add_letter, list);
    assert_string_equal(list, "bxy");
    as_replica_fail_request(rep(w, 'A'), req(w, 'x'), AS_EHUNG);
    w->n = 0;
    assert_false(done(w, 'x'));
    expect(w, "~x");
    world_free(w);
}

static void test_a_dropped_model_has_none(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_cyclic(w, "xyz", true);
    req(w, 'x')->model = req(w, 'z')->model = 1;
    submit_all(w, "xy");
    as_deployment_drop_model(w->d, 1, w->now);
    expect(w, "x=EUNAVAILABLE ~x");
    assert_int_equal(submit(w, 'z'), AS_EUNAVAILABLE);
    join(w, 'A', 1, 0);
    expect(w, "y>A");
    assert_true(as_deployment_is_unused(w->d, 1));
    world_free(w);
}

static void test_a_model_that_still_executes_beyond_is_not_unused(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_cyclic(w, "x", true);
    req(w, 'x')->model = 1;
    join(w, 'A', 1, 0);
    submit_all(w, "x");
    as_replica_set_model(rep(w, 'A'), 1, false, w->now);
    as_deployment_drop_model(w->d, 1, w->now);
    assert_false(as_deployment_is_unused(w->d, 1));
    assert_true(done(w, 'x'));
    assert_true(as_deployment_is_unused(w->d, 1));
    world_free(w);
}

/* One that has ended a worker runs alone first, like any other. */
static void test_a_suspect_waits_for_a_replica_of_its_own(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", true, 0);
    make_cyclic(w, "xy", true);
    join(w, 'A', 1, 0);
    submit_all(w, "x");
    die(w, 'A', 'x', AS_LOSS_CRASHED);
    w->n = 0;
    join(w, 'B', 1, 0);
    submit_all(w, "ay");
    expect(w, "x>B"); /* alone: neither a slot nor beyond */
    assert_false(req(w, 'x')->beyond);
    assert_true(done(w, 'x'));
    expect(w, "a>B y>B");
    world_free(w);
}

static void test_what_waits_is_checked_again_after_a_crash(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", true, 7);
    make_cyclic(w, "xy", true);
    req(w, 'x')->kind = 7; /* looks like a */
    join(w, 'A', 1, 0);
    submit_all(w, "a");
    grant(w, 'A', 0, 0);
    submit_all(w, "xy");
    w->n = 0;
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    assert_int_equal(as_deployment_suspects(w->d), 2);
    join(w, 'B', 1, 0);
    expect(w, "y>B");
    assert_false(req(w, 'x')->beyond);
    assert_true(done(w, 'y'));
    expect(w, "x>B");
    world_free(w);
}

/* The suspect itself may wait for the one that waits here: its time alone ends. */
static void test_it_waits_no_longer_than_a_suspect_is_alone(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", true, 0);
    make_cyclic(w, "y", true);
    join(w, 'A', 1, 0);
    submit_all(w, "a");
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    join(w, 'B', 1, 0);
    w->n = 0;
    submit_all(w, "y");
    expect(w, "");
    w->now = as_deployment_next_deadline(w->d);
    as_deployment_expire(w->d, w->now);
    expect(w, "y>B");
    world_free(w);
}

static void test_a_batch_stays_a_batch(void **state AS_UNUSED)
{
    struct world *w = world_new();
    struct as_batch_conf conf = {.max_size = 2, .max_wait = AS_SEC};

    make_cyclic(w, "xyz", true);
    req(w, 'z')->model = 1;
    assert_int_equal(as_deployment_set_batching(w->d, 0, &conf), 0);
    join(w, 'A', 1, 0);
    submit_all(w, "xzy");
    expect(w, "z>A A:2 x>A y>A");
    assert_int_equal(as_deployment_beyond(w->d), 1);
    assert_int_equal(as_deployment_ongoing(w->d), 2);
    world_free(w);
}

/* --- one replica only --- */

static void test_one_for_a_replica_goes_there_at_once(void **state AS_UNUSED)
{
    struct world *w = world_new_with(1, AS_ROUTER_LATE_BINDING);

    make_requests(w, "abcxyz", true, 0);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    submit_all(w, "abc");
    w->n = 0;
    assert_int_equal(as_deployment_submit_to(rep(w, 'B'), req(w, 'x'), w->now), 0);
    assert_int_equal(as_deployment_submit_to(rep(w, 'A'), req(w, 'y'), w->now), 0);
    expect(w, "x>B y>A");
    assert_int_equal(as_deployment_beyond(w->d), 2);
    assert_true(done(w, 'x'));
    assert_true(done_with(w, 'y', 0, true)); /* handed back: its caller gets the error */
    expect(w, "");
    req(w, 'z')->deadline = w->now;
    assert_int_equal(as_deployment_submit_to(rep(w, 'A'), req(w, 'z'), w->now), AS_EDEADLINE);
    assert_int_equal(as_deployment_stat(w->d)->expired, 1);
    world_free(w);
}

static void test_one_for_a_replica_ends_with_it(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "xyz", true, 0);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    for (const char *c = "xyz"; *c; c++)
        assert_int_equal(as_deployment_submit_to(rep(w, 'A'), req(w, *c), w->now), 0);
    as_deployment_cancel(w->d, req(w, 'z'), w->now);
    w->n = 0;
    die(w, 'A', 'x', AS_LOSS_KILLED); /* x had started */
    expect(w, "x=EMAYHAVERUN ~x ~z y=EUNAVAILABLE ~y");
    world_free(w);
}

static void test_a_replica_that_is_out_takes_none(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "auvxyz", true, 0);
    join(w, 'A', 1, 0);
    join(w, 'B', 0, 0);
    submit_all(w, "a");
    assert_int_equal(as_deployment_submit_to(rep(w, 'B'), req(w, 'x'), w->now), AS_EUNAVAILABLE);
    as_replica_drain(rep(w, 'A'), true, w->now);
    assert_false(as_replica_is_in_rotation(rep(w, 'A'), 0));
    assert_int_equal(as_deployment_submit_to(rep(w, 'A'), req(w, 'y'), w->now), AS_EUNAVAILABLE);
    as_replica_drain(rep(w, 'A'), false, w->now);
    as_replica_set_model(rep(w, 'A'), 1, false, w->now);
    req(w, 'z')->model = 1;
    assert_int_equal(as_deployment_submit_to(rep(w, 'A'), req(w, 'z'), w->now), AS_EUNAVAILABLE);
    assert_true(as_replica_is_in_rotation(rep(w, 'A'), 0));
    req(w, 'a')->kind = req(w, 'u')->kind = 7;
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    grant(w, 'B', 1, 0);
    w->n = 0;
    assert_int_equal(as_deployment_submit_to(rep(w, 'B'), req(w, 'u'), w->now), AS_EUNAVAILABLE);
    assert_true(done(w, 'a')); /* alone, so B takes others again */
    assert_int_equal(as_deployment_submit_to(rep(w, 'B'), req(w, 'v'), w->now), 0);
    expect(w, "v>B");
    world_free(w);
}

static void test_freeing_the_deployment_ends_all(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_cyclic(w, "xy", true);
    submit_all(w, "x");
    join(w, 'A', 1, 0);
    grant(w, 'A', 0, 0);
    submit_all(w, "y");
    w->n = 0;
    as_deployment_free(w->d);
    w->d = NULL;
    w->log[w->n] = '\0';
    assert_string_equal(w->log, "y=EUNAVAILABLE ~y x=EUNAVAILABLE ~x");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_sent_though_every_slot_executes),
        cmocka_unit_test(test_it_takes_no_slot_even_if_one_is_free),
        cmocka_unit_test(test_it_goes_where_the_fewest_are),
        cmocka_unit_test(test_a_draining_replica_takes_it_if_there_is_no_other),
        cmocka_unit_test(test_it_waits_for_a_replica_in_rotation),
        cmocka_unit_test(test_what_waits_can_be_cancelled_and_expires),
        cmocka_unit_test(test_a_cancelled_one_counts_until_its_worker_answers),
        cmocka_unit_test(test_after_a_death_it_goes_beyond_again),
        cmocka_unit_test(test_a_worker_that_hands_it_back_gets_it_again_if_there_is_no_other),
        cmocka_unit_test(test_it_is_not_recalled),
        cmocka_unit_test(test_it_is_among_the_executing_ones),
        cmocka_unit_test(test_a_dropped_model_has_none),
        cmocka_unit_test(test_a_model_that_still_executes_beyond_is_not_unused),
        cmocka_unit_test(test_a_suspect_waits_for_a_replica_of_its_own),
        cmocka_unit_test(test_what_waits_is_checked_again_after_a_crash),
        cmocka_unit_test(test_it_waits_no_longer_than_a_suspect_is_alone),
        cmocka_unit_test(test_a_batch_stays_a_batch),
        cmocka_unit_test(test_one_for_a_replica_goes_there_at_once),
        cmocka_unit_test(test_one_for_a_replica_ends_with_it),
        cmocka_unit_test(test_a_replica_that_is_out_takes_none),
        cmocka_unit_test(test_freeing_the_deployment_ends_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
