/* Specification of how core/dispatch/deployment ejects replicas that fail or are slow, and readmits
 * them. deployment_world.h explains the log.
 */
#include "deployment_world.h"

static struct world *three(void)
{
    struct world *w = world_new();

    for (char r = 'A'; r <= 'C'; r++)
        join(w, r, 1, 0);
    return w;
}

/* One request that replica r answers after `service`; the other replicas are busy meanwhile. */
static void serve(struct world *w, char r, as_ns service, bool failed)
{
    char c = 'a';

    for (int i = 0; i < 3; i++, c++) {
        renew_request(w, c);
        req(w, c)->kind = 0;
        assert_int_equal(submit(w, c), 0);
        if (letter_of(req(w, c)->replica) == r)
            break;
    }
    w->now += service;
    req(w, c)->failed = failed;
    assert_true(done_with(w, c, service, false));
    while (c > 'a') {
        c--;
        done_with(w, c, 0, false);
    }
    w->n = 0;
}

static void bad(struct world *w, char r, uint32_t n)
{
    while (n--)
        serve(w, r, AS_MS, true);
}

static enum as_breaker_state state_of(struct world *w, char r)
{
    return as_replica_breaker(rep(w, r));
}

static void test_a_replica_that_fails_alone_is_ejected(void **state AS_UNUSED)
{
    struct world *w = three();

    bad(w, 'A', 4);
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_CLOSED);
    bad(w, 'A', 1);
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_OPEN);
    assert_int_equal(as_deployment_stat(w->d)->ejected, 1);
    for (char c = 'a'; c <= 'd'; c++) {
        renew_request(w, c);
        submit(w, c);
    }
    assert_null(strchr(w->log, 'A'));
    assert_int_equal(as_deployment_queued(w->d), 2);
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

static void test_if_all_fail_none_is_ejected(void **state AS_UNUSED)
{
    struct world *w = three();

    for (int i = 0; i < 30; i++) {
        for (char r = 'A'; r <= 'C'; r++)
            bad(w, r, 1);
    }
    for (char r = 'A'; r <= 'C'; r++)
        assert_int_equal(state_of(w, r), AS_BREAKER_CLOSED);
    world_free(w);
}

static void test_it_is_probed_and_readmitted(void **state AS_UNUSED)
{
    struct world *w = three();

    bad(w, 'A', 5);
    assert_true(as_deployment_next_deadline(w->d) == w->now + AS_SEC);
    w->now += AS_SEC;
    as_deployment_expire(w->d, w->now);
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_HALF_OPEN);
    grant(w, 'A', 4, 4); /* one at a time, whatever it has room for */
    for (char c = 'a'; c <= 'd'; c++) {
        renew_request(w, c);
        submit(w, c);
    }
    assert_int_equal(as_replica_unanswered(rep(w, 'A')), 1);
    assert_int_equal(as_deployment_queued(w->d), 1);
    done(w, 'a');
    done(w, 'b');
    done(w, 'c');
    done(w, 'd');
    serve(w, 'A', AS_MS, false);
    serve(w, 'A', AS_MS, false);
    serve(w, 'A', AS_MS, false);
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_CLOSED);
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

static void test_a_failed_probe_ejects_it_for_longer(void **state AS_UNUSED)
{
    struct world *w = three();

    bad(w, 'A', 5);
    w->now += AS_SEC;
    as_deployment_expire(w->d, w->now);
    serve(w, 'A', AS_MS, true);
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_OPEN);
    assert_true(as_deployment_next_deadline(w->d) == w->now + 2 * AS_SEC);
    world_free(w);
}

static void test_at_most_a_third_is_ejected(void **state AS_UNUSED)
{
    struct world *w = three();

    bad(w, 'A', 5);
    bad(w, 'B', 5);
    assert_int_equal(state_of(w, 'B'), AS_BREAKER_CLOSED);
    world_free(w);
}

static void test_the_last_ones_are_readmitted_at_once(void **state AS_UNUSED)
{
    struct world *w = three();

    bad(w, 'A', 5);
    as_replica_free(rep(w, 'B'), 0, AS_LOSS_KILLED, w->now);
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_OPEN);
    as_replica_drain(rep(w, 'C'), true, w->now);
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_CLOSED);
    renew_request(w, 'a');
    submit(w, 'a');
    expect(w, "a>A");
    world_free(w);
}

/* Requests in the queue must not go before those that came back from the dead replica. */
static void test_a_replica_readmitted_by_a_death_serves_the_oldest_first(void **state AS_UNUSED)
{
    struct world *w = three();

    bad(w, 'A', 5);
    as_replica_free(rep(w, 'C'), 0, AS_LOSS_KILLED, w->now);
    make_requests(w, "abc", true, 0);
    submit_all(w, "abc");
    w->n = 0;
    die(w, 'B', 'a', AS_LOSS_KILLED);
    expect(w, "a>A");
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_CLOSED);
    done(w, 'a');
    expect(w, "b>A");
    world_free(w);
}

static void test_a_replica_that_is_several_times_slower_is_ejected(void **state AS_UNUSED)
{
    struct world *w = three();

    for (int i = 0; i < 60 && !state_of(w, 'A'); i++) {
        serve(w, 'B', AS_MS, false);
        serve(w, 'C', AS_MS, false);
        serve(w, 'A', 10 * AS_MS, false);
        assert_true(i > 40 || !state_of(w, 'A')); /* not after a few samples */
    }
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_OPEN);
    w->now += AS_SEC;
    as_deployment_expire(w->d, w->now);
    for (int i = 0; i < 3; i++) /* the probes show that it is still slow */
        serve(w, 'A', 10 * AS_MS, false);
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_OPEN);
    world_free(w);
}

static void test_slow_models_make_no_slow_replica(void **state AS_UNUSED)
{
    struct world *w = three();

    as_deployment_set_model(w->d, 1, 100);
    for (int i = 0; i < 100; i++) {
        serve(w, 'B', AS_MS, false);
        serve(w, 'C', AS_MS, false);
        for (char c = 'a'; c <= 'c'; c++) { /* A has the slow ones */
            renew_request(w, c);
            req(w, c)->model = 1;
            submit(w, c);
        }
        for (char c = 'a'; c <= 'c'; c++)
            done_with(w, c, letter_of(req(w, c)->replica) == 'A' ? 100 * AS_MS : 0, false);
        w->n = 0;
    }
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_CLOSED);
    world_free(w);
}

static void test_a_deadline_that_gave_time_enough_is_a_failure(void **state AS_UNUSED)
{
    struct world *w = three();

    for (int i = 0; i < 20; i++) {
        serve(w, 'A', AS_MS, false);
        serve(w, 'B', AS_MS, false);
        serve(w, 'C', AS_MS, false);
    }
    for (int i = 0; i < 5; i++) { /* too short for any replica: not counted as a failure */
        renew_request(w, 'a');
        req(w, 'a')->deadline = w->now + AS_MS;
        submit(w, 'a');
        w->now += AS_MS;
        as_deployment_expire(w->d, w->now);
        done(w, 'a');
    }
    w->n = 0;
    for (char r = 'A'; r <= 'C'; r++)
        assert_int_equal(state_of(w, r), AS_BREAKER_CLOSED);
    grant(w, 'A', 5, 0); /* A hangs: five of its requests end by their deadlines */
    grant(w, 'B', 0, 0);
    grant(w, 'C', 0, 0);
    for (char c = 'a'; c <= 'e'; c++) {
        renew_request(w, c);
        req(w, c)->deadline = w->now + AS_SEC;
        submit(w, c);
    }
    grant(w, 'B', 1, 0);
    grant(w, 'C', 1, 0);
    w->now += AS_SEC;
    as_deployment_expire(w->d, w->now);
    assert_int_equal(state_of(w, 'A'), AS_BREAKER_OPEN);
    w->n = 0;
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_replica_that_fails_alone_is_ejected),
        cmocka_unit_test(test_if_all_fail_none_is_ejected),
        cmocka_unit_test(test_it_is_probed_and_readmitted),
        cmocka_unit_test(test_a_failed_probe_ejects_it_for_longer),
        cmocka_unit_test(test_at_most_a_third_is_ejected),
        cmocka_unit_test(test_the_last_ones_are_readmitted_at_once),
        cmocka_unit_test(test_a_replica_readmitted_by_a_death_serves_the_oldest_first),
        cmocka_unit_test(test_a_replica_that_is_several_times_slower_is_ejected),
        cmocka_unit_test(test_slow_models_make_no_slow_replica),
        cmocka_unit_test(test_a_deadline_that_gave_time_enough_is_a_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
