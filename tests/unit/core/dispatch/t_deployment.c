/* Specification of core/dispatch/deployment: what happens to requests. */
#include "deployment_world.h"

static void test_a_free_slot_takes_a_request_at_once(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 2, 0);
    submit_all(w, "abc");
    expect(w, "a>X b>X");
    assert_int_equal(as_deployment_ongoing(w->d), 2);
    assert_int_equal(as_deployment_queued(w->d), 1);
    assert_true(done(w, 'b'));
    expect(w, "c>X");
    assert_true(done(w, 'a'));
    assert_true(done(w, 'c'));
    expect(w, "");
    assert_int_equal(as_deployment_ongoing(w->d), 0);
    world_free(w);
}

static void test_without_replicas_requests_are_held(void **state AS_UNUSED)
{
    struct world *w = world_new();

    submit_all(w, "ab");
    expect(w, "");
    join(w, 'X', 0, 0); /* a replica without slots changes nothing */
    expect(w, "");
    grant(w, 'X', 1, 0);
    expect(w, "a>X");
    done(w, 'a');
    done(w, 'b');
    expect(w, "b>X");
    world_free(w);
}

static void test_urgent_ones_pass_the_others(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    req(w, 'b')->priority = 2;
    req(w, 'd')->priority = 0;
    submit_all(w, "abcde");
    for (const char *c = "adceb"; *c; c++)
        assert_true(done(w, *c));
    expect(w, "a>X d>X c>X e>X b>X");
    world_free(w);
}

static void test_the_queue_is_bounded(void **state AS_UNUSED)
{
    struct world *w = world_new_with(2, AS_ROUTER_LATE_BINDING);

    join(w, 'X', 1, 0);
    submit_all(w, "abc");
    assert_int_equal(submit(w, 'd'), AS_EFULL);
    assert_int_equal(req(w, 'd')->state, AS_REQ_DONE);
    done(w, 'a');
    submit_all(w, "e");
    expect(w, "a>X b>X");
    assert_int_equal(as_deployment_stat(w->d)->refused, 1);
    assert_int_equal(as_deployment_stat(w->d)->accepted, 4);
    world_free(w);
}

static void test_a_lower_limit_keeps_waiting_requests(void **state AS_UNUSED)
{
    struct world *w = world_new_with(-1, AS_ROUTER_LATE_BINDING);

    join(w, 'X', 1, 0);
    submit_all(w, "abcd");
    as_deployment_set_max_queued(w->d, 2);
    assert_int_equal(submit(w, 'e'), AS_EFULL); /* three wait */
    assert_int_equal(as_deployment_queued(w->d), 3);
    done(w, 'a');
    assert_int_equal(submit(w, 'f'), AS_EFULL); /* two do */
    done(w, 'b');
    submit_all(w, "g"); /* it is the second */
    assert_int_equal(submit(w, 'h'), AS_EFULL);
    as_deployment_set_max_queued(w->d, 3);
    submit_all(w, "i");
    assert_int_equal(submit(w, 'j'), AS_EFULL);
    as_deployment_set_max_queued(w->d, -1);
    submit_all(w, "kl");
    expect(w, "a>X b>X c>X");
    world_free(w);
}

static void test_fewer_slots_than_execute(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 3, 0);
    submit_all(w, "abcde");
    expect(w, "a>X b>X c>X");
    grant(w, 'X', 1, 0); /* executing requests go on … */
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    assert_int_equal(as_deployment_prefetched(w->d), 2);
    done(w, 'a');
    done(w, 'c'); /* … and no other starts before there is a free slot */
    expect(w, "");
    done(w, 'b');
    expect(w, "d>X");
    grant(w, 'X', 2, 0);
    expect(w, "e>X");
    world_free(w);
}

static void test_a_request_that_finds_a_free_slot_is_never_refused(void **state AS_UNUSED)
{
    struct world *w = world_new_with(0, AS_ROUTER_LATE_BINDING);

    assert_int_equal(submit(w, 'a'), AS_EFULL);
    join(w, 'X', 1, 0);
    submit_all(w, "b");
    assert_int_equal(submit(w, 'c'), AS_EFULL);
    expect(w, "b>X");
    world_free(w);
}

static void test_prefetched_requests_count_as_queued(void **state AS_UNUSED)
{
    struct world *w = world_new_with(2, AS_ROUTER_LATE_BINDING);

    join(w, 'X', 1, 8);
    submit_all(w, "a");
    done(w, 'a');
    submit_all(w, "bcd");
    expect(w, "a>X b>X c>X d>X");
    assert_int_equal(as_deployment_prefetched(w->d), 2);
    assert_int_equal(as_deployment_queued(w->d), 0);
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    assert_int_equal(submit(w, 'e'), AS_EFULL);
    world_free(w);
}

static void test_a_deadline_in_the_past_is_refused(void **state AS_UNUSED)
{
    struct world *w = world_new();

    req(w, 'a')->deadline = w->now;
    assert_int_equal(submit(w, 'a'), AS_EDEADLINE);
    assert_int_equal(as_deployment_stat(w->d)->expired, 1);
    assert_int_equal(as_deployment_stat(w->d)->accepted, 1);
    req(w, 'b')->deadline = w->now + 1;
    assert_int_equal(submit(w, 'b'), 0);
    assert_int_equal(as_deployment_stat(w->d)->expired, 1);
    assert_int_equal(as_deployment_stat(w->d)->accepted, 2);
    assert_true(as_deployment_next_deadline(w->d) == w->now + 1);
    expect(w, "");
    world_free(w);
}

static void test_the_deadline_ends_queued_and_sent_requests(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    req(w, 'a')->deadline = w->now + 5;
    req(w, 'b')->deadline = w->now + 7;
    req(w, 'c')->deadline = w->now + 6;
    submit_all(w, "abc");
    expect(w, "a>X");
    as_deployment_expire(w->d, w->now + 4);
    expect(w, "");
    as_deployment_expire(w->d, w->now + 6);
    expect(w, "a!D a=EDEADLINE c=EDEADLINE ~c");
    assert_true(as_deployment_next_deadline(w->d) == w->now + 7);
    assert_int_equal(as_deployment_ongoing(w->d),
                     1); /* a keeps its slot until the worker answers */
    w->now += 6;
    assert_false(done_with(w, 'a', 0, false));
    expect(w, "~a b>X");
    assert_int_equal(as_deployment_stat(w->d)->expired, 2);
    world_free(w);
}

static void test_nothing_is_sent_after_its_deadline(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    req(w, 'b')->deadline = w->now + 5; /* the timer is late */
    submit_all(w, "abc");
    done(w, 'a');
    expect(w, "a>X b=EDEADLINE ~b c>X");
    world_free(w);
}

static void test_a_client_that_leaves_the_queue(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "abc");
    as_deployment_cancel(w->d, req(w, 'b'), w->now);
    expect(w, "a>X ~b");
    done(w, 'a');
    expect(w, "c>X");
    world_free(w);
}

static void test_a_client_that_leaves_while_the_worker_has_it(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "ab");
    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    expect(w, "a>X a!C");
    as_deployment_cancel(w->d, req(w, 'a'), w->now); /* again: no effect */
    as_deployment_expire(w->d, AS_NEVER - 1);
    expect(w, "");
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    assert_false(done(w, 'a'));
    expect(w, "~a b>X");
    assert_int_equal(as_deployment_stat(w->d)->cancelled, 1);
    assert_int_equal(as_deployment_stat(w->d)->completed, 0);
    world_free(w);
}

static void test_cancel_after_the_answer_does_nothing(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "a");
    assert_true(done(w, 'a'));
    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    expect(w, "a>X");
    world_free(w);
}

static void test_a_model_under_its_cap_lets_others_pass(void **state AS_UNUSED)
{
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_model(w->d, 1, 2), 0);
    join(w, 'X', 4, 0);
    for (const char *c = "abcd"; *c; c++)
        req(w, *c)->model = 1;
    submit_all(w, "abcde");
    expect(w, "a>X b>X e>X"); /* c and d are skipped, one slot stays free */
    submit_all(w, "fg");
    expect(w, "f>X");
    done(w, 'a');
    expect(w, "c>X"); /* older than g */
    done(w, 'e');
    expect(w, "g>X");
    done(w, 'c');
    expect(w, "d>X");
    world_free(w);
}

/* Otherwise a worker that has async models and a fast sync one would idle for a round trip after
 * each request of the latter. */
static void test_behind_a_cap_waits_what_fits_into_prefetch_work(void **state AS_UNUSED)
{
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_model(w->d, 1, 1), 0);
    join(w, 'X', 4, 8);
    for (const char *c = "abcdefgh"; *c; c++)
        req(w, *c)->model = 1;
    submit_all(w, "ab");
    expect(w, "a>X"); /* its service time is not known yet */
    assert_true(done_with(w, 'a', PREFETCH_WORK / 3, false));
    expect(w, "b>X");
    submit_all(w, "cdef");
    expect(w, "c>X d>X e>X"); /* f would wait for longer than that */
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    assert_int_equal(as_deployment_prefetched(w->d), 3);
    assert_int_equal(as_deployment_queued(w->d), 1);
    submit_all(w, "ij"); /* of another model, for which slots are free */
    expect(w, "i>X j>X");
    assert_int_equal(as_deployment_ongoing(w->d), 3);
    assert_true(done_with(w, 'b', PREFETCH_WORK / 3, false));
    expect(w, "f>X");
    assert_int_equal(as_deployment_ongoing(w->d), 3);
    join(w, 'Y', 1, 8); /* it could start one of them at once */
    expect(w, "X<f");
    returned(w, 'X', "f");
    expect(w, "f>Y");
    assert_true(done_with(w, 'c', 2 * PREFETCH_WORK, false)); /* it is slow now */
    submit_all(w, "gh");
    expect(w, "");
    assert_int_equal(as_deployment_queued(w->d), 2);
    world_free(w);
}

/* The prefetch that the worker granted also limits what waits for a cap. */
static void test_what_waits_behind_caps_is_bounded_by_the_prefetch(void **state AS_UNUSED)
{
    struct world *w = world_new();

    for (uint32_t m = 1; m < 3; m++)
        assert_int_equal(as_deployment_set_model(w->d, m, 1), 0);
    join(w, 'X', 4, 2);
    for (const char *c = "abcdefgh"; *c; c++)
        req(w, *c)->model = 1 + (uint32_t)(*c - 'a') / 4;
    submit_all(w, "a");
    assert_true(done_with(w, 'a', 1, false));
    submit_all(w, "e");
    assert_true(done_with(w, 'e', 1, false));
    submit_all(w, "bcd"); /* one executes, two wait */
    expect(w, "a>X e>X b>X c>X d>X");
    submit_all(w, "fgh");
    expect(w, "f>X");
    assert_int_equal(as_deployment_ongoing(w->d), 2);
    assert_int_equal(as_deployment_prefetched(w->d), 2);
    assert_true(done_with(w, 'b', 1, false));
    expect(w, "g>X");
    world_free(w);
}

static void test_a_cap_that_the_slots_cannot_exceed_restricts_nothing(void **state AS_UNUSED)
{
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_model(w->d, 0, 1), 0);
    join(w, 'X', 1, 4);
    submit_all(w, "a");
    done(w, 'a');
    submit_all(w, "bcd"); /* prefetched as if there were no cap */
    expect(w, "a>X b>X c>X d>X");
    world_free(w);
}

static void test_caps_are_set_once(void **state AS_UNUSED)
{
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_model(w->d, AS_DEPLOYMENT_MODELS_MAX - 1, 3), 0);
    assert_int_equal(as_deployment_set_model(w->d, AS_DEPLOYMENT_MODELS_MAX - 1, 3), 0);
    assert_int_equal(as_deployment_set_model(w->d, AS_DEPLOYMENT_MODELS_MAX - 1, 4), AS_EEXISTS);
    assert_int_equal(as_deployment_set_model(w->d, AS_DEPLOYMENT_MODELS_MAX, 1), AS_EINVALID);
    assert_int_equal(as_deployment_set_model(w->d, 0, 0), AS_EINVALID);
    world_free(w);
}

static void test_down_ends_what_waits_and_refuses_more(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "abc");
    as_deployment_set_down(w->d, true, w->now);
    expect(w, "a>X b=EUNAVAILABLE ~b c=EUNAVAILABLE ~c");
    assert_int_equal(submit(w, 'd'), AS_EUNAVAILABLE);
    assert_true(done(w, 'a')); /* sent requests go on */
    as_deployment_set_down(w->d, false, w->now);
    submit_all(w, "e");
    expect(w, "e>X");
    assert_int_equal(as_deployment_stat(w->d)->failed, 2);
    world_free(w);
}

static void test_abort_answers_queued_requests(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    submit_all(w, "abc");
    as_deployment_abort(w->d);
    expect(w, "a>X b=EUNAVAILABLE ~b c=EUNAVAILABLE ~c");
    assert_int_equal(submit(w, 'd'), AS_EUNAVAILABLE);
    die(w, 'X', 'a', AS_LOSS_KILLED); /* its link is ended */
    expect(w, "a=EMAYHAVERUN ~a");
    world_free(w);
}

/* The request is parked until the cause of the death is known, and would then run again. */
static void test_abort_answers_parked_requests(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    make_requests(w, "a", true, 0);
    submit_all(w, "a");
    assert_true(die(w, 'X', 'a', AS_LOSS_PENDING) > 0);
    expect(w, "a>X");
    assert_int_equal(as_deployment_parked(w->d), 1);
    as_deployment_abort(w->d);
    expect(w, "a=EMAYHAVERUN ~a");
    assert_int_equal(as_deployment_parked(w->d), 0);
    world_free(w);
}

static void test_free_answers_all_requests(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 2, 0);
    submit_all(w, "abc");
    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    expect(w, "a>X b>X a!C");
    as_deployment_free(w->d);
    w->log[w->n] = '\0';
    assert_string_equal(w->log, "c=EUNAVAILABLE ~c ~a b=EUNAVAILABLE ~b");
    free(w);
    as_deployment_free(NULL);
}

static void test_statistics_add_up(void **state AS_UNUSED)
{
    struct world *w = world_new();
    const struct as_stat *s = as_deployment_stat(w->d);

    join(w, 'X', 1, 0);
    submit_all(w, "ab");
    done(w, 'a');
    w->now += 5 * AS_US;
    done(w, 'b');
    assert_int_equal(s->accepted, 2);
    assert_int_equal(s->dispatched, 2);
    assert_int_equal(s->completed, 2);
    assert_true(s->queue.sum == 10 * AS_US); /* b waited for a */
    assert_true(s->total.sum == (10 + 25) * AS_US);
    assert_int_equal(s->service.count, 2);
    assert_true(s->service.sum == 20 * AS_US);
    world_free(w);
}

static void test_bad_options_are_refused(void **state AS_UNUSED)
{
    struct as_deployment_ops ops = {0};
    struct as_deployment_conf conf = {.max_queued = -2};
    struct as_deployment *d = NULL;

    assert_int_equal(as_deployment_new(&d, AS_STR("x"), &conf, &ops, NULL), AS_EINVALID);
    conf = (struct as_deployment_conf){.router = {.policy = (enum as_router)7}};
    assert_int_equal(as_deployment_new(&d, AS_STR("x"), &conf, &ops, NULL), AS_EINVALID);
    assert_null(d);
}

/* --- a limit for each caller --- */

static void test_a_limit_for_each_caller_counts_exactly(void **state AS_UNUSED)
{
    struct world *w = world_new_with(2, AS_ROUTER_LATE_BINDING);
    uint32_t one = 0, two = 0;

    make_requests(w, "abcdefghx", true, 0);
    for (const char *c = "abcdx"; *c; c++)
        req(w, *c)->waiting = &one;
    for (const char *c = "efgh"; *c; c++)
        req(w, *c)->waiting = &two;
    as_deployment_set_per_caller(w->d, true, w->now);
    join(w, 'A', 1, 8);
    submit_all(w, "x");
    done(w, 'x'); /* its service time is known, yet nothing is prefetched */
    w->n = 0;
    submit_all(w, "abc");
    assert_int_equal(one, 2); /* a executes */
    assert_int_equal(submit(w, 'd'), AS_EFULL);
    submit_all(w, "ef");
    renew_request(w, 'd');
    req(w, 'd')->waiting = &one;
    assert_int_equal(submit(w, 'g'), AS_EFULL);
    assert_int_equal(two, 2);
    assert_true(done(w, 'a'));
    assert_int_equal(one, 1);
    submit_all(w, "d");
    as_deployment_cancel(w->d, req(w, 'e'), w->now);
    assert_int_equal(two, 1);
    submit_all(w, "h");
    expect(w, "a>A b>A ~e");
    die(w, 'A', 'b', AS_LOSS_KILLED); /* b waits again, beyond the limit */
    assert_int_equal(one, 3);
    as_deployment_set_down(w->d, true, w->now);
    assert_int_equal(one + two, 0);
    world_free(w);
}

static void test_without_a_limit_for_each_caller_all_count(void **state AS_UNUSED)
{
    struct world *w = world_new_with(2, AS_ROUTER_LATE_BINDING);
    uint32_t one = 0;

    make_requests(w, "abcdx", true, 0);
    for (const char *c = "ad"; *c; c++)
        req(w, *c)->waiting = &one;
    as_deployment_set_per_caller(w->d, true, w->now);
    submit_all(w, "ab"); /* b's caller is not known: all that wait count for it */
    assert_int_equal(submit(w, 'c'), AS_EFULL);
    as_deployment_set_per_caller(w->d, false, w->now);
    assert_int_equal(submit(w, 'd'), AS_EFULL);
    join(w, 'A', 1, 8);
    assert_true(done(w, 'a'));
    make_requests(w, "cd", true, 0);
    w->n = 0;
    submit_all(w, "cd");
    expect(w, "c>A d>A"); /* prefetched again */
    as_deployment_set_per_caller(w->d, true, w->now);
    expect(w, "");
    assert_true(done(w, 'b'));
    assert_true(done(w, 'c'));
    submit_all(w, "x");
    as_deployment_set_per_caller(w->d, false, w->now);
    expect(w, "x>A");
    world_free(w);
}

/* --- requests that other requests make --- */

static void test_a_child_goes_before_younger_requests_from_outside(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abcdef", true, 0);
    join(w, 'A', 1, 0);
    w->now = 100;
    submit_all(w, "a");
    w->now = 200;
    submit_all(w, "bc");
    w->now = 300;
    req(w, 'd')->root = 150;
    req(w, 'e')->root = 100;
    req(w, 'f')->root = 999; /* a root that is to come: it counts as arrived now */
    submit_all(w, "fde");
    assert_int_equal(req(w, 'f')->root, 300);
    assert_int_equal(req(w, 'b')->root, 200);
    w->n = 0;
    for (const char *c = "aedbcf"; *c; c++)
        assert_true(done(w, *c));
    expect(w, "e>A d>A b>A c>A f>A");
    world_free(w);
}

static void test_a_retry_keeps_the_place_of_its_root(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abc", true, 0);
    join(w, 'A', 1, 0);
    submit_all(w, "b");
    w->now += 100;
    req(w, 'a')->root = w->now - 100;
    submit_all(w, "ca");
    w->n = 0;
    die(w, 'A', '-', AS_LOSS_KILLED); /* b and a have the same root, and b came first */
    w->now += 100;
    join(w, 'B', 1, 0);
    for (const char *c = "bac"; *c; c++)
        assert_true(done(w, *c));
    expect(w, "b>B a>B c>B");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_free_slot_takes_a_request_at_once),
        cmocka_unit_test(test_without_replicas_requests_are_held),
        cmocka_unit_test(test_urgent_ones_pass_the_others),
        cmocka_unit_test(test_the_queue_is_bounded),
        cmocka_unit_test(test_a_lower_limit_keeps_waiting_requests),
        cmocka_unit_test(test_fewer_slots_than_execute),
        cmocka_unit_test(test_a_request_that_finds_a_free_slot_is_never_refused),
        cmocka_unit_test(test_prefetched_requests_count_as_queued),
        cmocka_unit_test(test_a_deadline_in_the_past_is_refused),
        cmocka_unit_test(test_the_deadline_ends_queued_and_sent_requests),
        cmocka_unit_test(test_nothing_is_sent_after_its_deadline),
        cmocka_unit_test(test_a_client_that_leaves_the_queue),
        cmocka_unit_test(test_a_client_that_leaves_while_the_worker_has_it),
        cmocka_unit_test(test_cancel_after_the_answer_does_nothing),
        cmocka_unit_test(test_a_model_under_its_cap_lets_others_pass),
        cmocka_unit_test(test_behind_a_cap_waits_what_fits_into_prefetch_work),
        cmocka_unit_test(test_what_waits_behind_caps_is_bounded_by_the_prefetch),
        cmocka_unit_test(test_a_cap_that_the_slots_cannot_exceed_restricts_nothing),
        cmocka_unit_test(test_caps_are_set_once),
        cmocka_unit_test(test_down_ends_what_waits_and_refuses_more),
        cmocka_unit_test(test_abort_answers_queued_requests),
        cmocka_unit_test(test_abort_answers_parked_requests),
        cmocka_unit_test(test_free_answers_all_requests),
        cmocka_unit_test(test_statistics_add_up),
        cmocka_unit_test(test_bad_options_are_refused),
        cmocka_unit_test(test_a_limit_for_each_caller_counts_exactly),
        cmocka_unit_test(test_without_a_limit_for_each_caller_all_count),
        cmocka_unit_test(test_a_child_goes_before_younger_requests_from_outside),
        cmocka_unit_test(test_a_retry_keeps_the_place_of_its_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
