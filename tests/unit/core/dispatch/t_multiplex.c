/* Specification of core/dispatch/choice/multiplex. */
#include "core/dispatch/deployment_internal.h"
#include "support/deployment_world.h"

static void model(struct world *w, char c, uint64_t key)
{
    renew_request(w, c);
    req(w, c)->model_key = key;
}

static void holds(struct world *w, char r, uint32_t n, const uint64_t *models)
{
    as_replica_set_held(rep(w, r), models, n, w->now);
}
#define HOLDS(w, r, ...)                                                                           \
    holds(w, r, AS_COUNT(((const uint64_t[]){__VA_ARGS__})), (const uint64_t[]){__VA_ARGS__})

static struct world *begin(uint32_t replicas, uint32_t slots)
{
    struct world *w = world_new();

    for (uint32_t i = 0; i < replicas; i++) {
        join(w, (char)('A' + i), slots, 0);
        holds(w, (char)('A' + i), 0, NULL);
    }
    return w;
}

static void test_the_holder_comes_first(void **state AS_UNUSED)
{
    struct world *w = begin(3, 2);

    HOLDS(w, 'B', 7);
    model(w, 'a', 7);
    model(w, 'b', 7);
    submit_all(w, "ab");
    expect(w, "a>B b>B");
    assert_int_equal(as_deployment_stat(w->d)->model_hits, 2);
    assert_int_equal(as_deployment_stat(w->d)->model_misses, 0);
    world_free(w);
}

static void test_nobody_holds_it_so_the_one_with_the_fewest_models(void **state AS_UNUSED)
{
    struct world *w = begin(3, 2);

    HOLDS(w, 'A', 1, 2);
    HOLDS(w, 'B', 3);
    HOLDS(w, 'C', 4, 5, 6);
    model(w, 'a', 7);
    submit_all(w, "a");
    expect(w, "a>B");
    assert_int_equal(as_deployment_stat(w->d)->model_misses, 1);
    world_free(w);
}

/* They have come before a replica was there: the first report makes the rules hold for them, too.
 */
static void test_what_waits_for_the_first_replica_keeps_to_its_model(void **state AS_UNUSED)
{
    struct world *w = world_new();

    for (const char *c = "abcdef"; *c; c++)
        model(w, *c, *c < 'd' ? 7 : 8);
    submit_all(w, "abcxdef"); /* x is for no model */
    expect(w, "");
    join(w, 'A', 0, 0);
    holds(w, 'A', 0, NULL);
    assert_true(as_deployment_ok(w->d));
    assert_int_equal(as_deployment_queued(w->d), 7);
    grant(w, 'A', 2, 0);
    expect(w, "a>A b>A");
    join(w, 'B', 0, 0);
    holds(w, 'B', 0, NULL);
    grant(w, 'B', 3, 0);
    expect(w, "x>B d>B e>B"); /* c waits for A, which loads its model */
    done(w, 'a');
    expect(w, "c>A");
    done(w, 'd');
    expect(w, "f>B");
    assert_int_equal(as_deployment_stat(w->d)->model_misses, 2);
    world_free(w);
}

/* Twenty requests for a model that nobody holds: one loads it, the others wait for that replica. */
static void test_a_model_is_loaded_once(void **state AS_UNUSED)
{
    struct world *w = begin(3, 3);

    HOLDS(w, 'B', 1);
    HOLDS(w, 'C', 2);
    for (char c = 'a'; c <= 't'; c++) {
        model(w, c, 7);
        assert_int_equal(submit(w, c), 0);
    }
    expect(w, "a>A b>A c>A");
    assert_int_equal(as_deployment_queued(w->d), 17);
    HOLDS(w, 'A', 7);
    w->now += 5 * AS_SEC; /* far beyond every wait, but it is still being loaded */
    as_deployment_expire(w->d, w->now);
    expect(w, "");
    done(w, 'a'); /* loaded: now those whose time is over may go, one of them as the next loader */
    assert_true(as_deployment_ok(w->d));
    assert_int_equal(as_deployment_stat(w->d)->model_misses, 2);
    world_free(w);
}

static void test_a_busy_holder_is_waited_for(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = begin(2, 1);

    HOLDS(w, 'A', 7);
    model(w, 'a', 7);
    model(w, 'b', 7);
    submit_all(w, "ab");
    expect(w, "a>A");
    w->now += c.max_wait - 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "");
    w->now += c.max_wait + 1; /* twice the wait at most */
    as_deployment_expire(w->d, w->now);
    expect(w, "b>B");
    world_free(w);
}

static void test_a_full_model_does_not_hold_up_another(void **state AS_UNUSED)
{
    struct world *w = begin(2, 1);

    HOLDS(w, 'A', 1);
    HOLDS(w, 'B', 2);
    model(w, 'a', 1);
    model(w, 'b', 1);
    model(w, 'c', 1);
    model(w, 'd', 2);
    submit_all(w, "abcd");
    expect(w, "a>A d>B");
    done(w, 'a');
    expect(w, "b>A");
    done(w, 'd');
    expect(w, ""); /* c waits for A, though B is free */
    world_free(w);
}

static void test_the_loader_is_cancelled(void **state AS_UNUSED)
{
    struct world *w = begin(1, 1);

    model(w, 'a', 1);
    model(w, 'b', 7);
    model(w, 'c', 7);
    submit_all(w, "abc"); /* b is the loader and waits for a slot, c waits for the model */
    expect(w, "a>A");
    as_deployment_cancel(w->d, req(w, 'b'), w->now);
    expect(w, "~b");
    done(w, 'a');
    expect(w, "c>A");
    world_free(w);
}

static void test_the_replica_that_loads_dies(void **state AS_UNUSED)
{
    struct world *w = begin(2, 1);

    HOLDS(w, 'B', 1);
    model(w, 'a', 7);
    model(w, 'b', 7);
    req(w, 'a')->idempotent = true;
    submit_all(w, "ab");
    expect(w, "a>A");
    die(w, 'A', 'a', AS_LOSS_KILLED);
    assert_true(as_deployment_ok(w->d));
    done(w, req(w, 'a')->replica ? 'a' : 'b');
    done(w, req(w, 'a')->replica ? 'a' : 'b');
    assert_int_equal(as_deployment_queued(w->d), 0);
    assert_int_equal(as_deployment_stat(w->d)->completed, 2);
    world_free(w);
}

/* A load that failed leaves no holder behind: the replica does not report the model. */
static void test_a_load_that_failed(void **state AS_UNUSED)
{
    struct world *w = begin(2, 1);

    HOLDS(w, 'A', 1);
    model(w, 'a', 7);
    submit_all(w, "a");
    expect(w, "a>B");
    done(w, 'a');
    HOLDS(w, 'B', 2, 3);
    model(w, 'b', 7);
    submit_all(w, "b");
    expect(w, "b>A"); /* the one with the fewest models again */
    world_free(w);
}

/* Nobody waits for a holder that takes nothing: another one loads the model. */
static void test_a_holder_that_drains_is_not_waited_for(void **state AS_UNUSED)
{
    struct world *w = begin(2, 1);

    HOLDS(w, 'A', 7);
    model(w, 'a', 7);
    model(w, 'b', 7);
    model(w, 'c', 7);
    submit_all(w, "ab");
    expect(w, "a>A");
    as_replica_drain(rep(w, 'A'), true, w->now);
    expect(w, "b>B");
    submit_all(w, "c"); /* B loads it and is waited for */
    expect(w, "");
    done(w, 'b');
    expect(w, "c>B");
    world_free(w);
}

static void test_an_evicted_model_has_no_holder(void **state AS_UNUSED)
{
    struct world *w = begin(2, 2);

    HOLDS(w, 'A', 7, 8, 9);
    HOLDS(w, 'A', 8, 9);
    model(w, 'a', 7);
    submit_all(w, "a");
    expect(w, "a>B");
    world_free(w);
}

static void test_a_report_brings_a_holder_to_those_that_wait(void **state AS_UNUSED)
{
    struct world *w = begin(2, 1);

    HOLDS(w, 'A', 7);
    model(w, 'a', 7);
    model(w, 'b', 7);
    submit_all(w, "ab");
    expect(w, "a>A");
    HOLDS(w, 'B', 7);
    expect(w, "b>B");
    world_free(w);
}

/* Its replica holds the model like one that got it afterwards, until both are answered. */
static void test_a_request_that_was_sent_before_the_first_report(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'A', 2, 0);
    model(w, 'a', 7);
    submit_all(w, "a");
    join(w, 'B', 2, 0);
    holds(w, 'B', 0, NULL);
    model(w, 'b', 7);
    submit_all(w, "b");
    expect(w, "a>A b>A");
    done(w, 'a');
    model(w, 'c', 7);
    submit_all(w, "c");
    expect(w, "c>A");
    done(w, 'b');
    done(w, 'c');
    assert_true(as_deployment_ok(w->d));
    assert_int_equal(rep(w, 'A')->n_held, 0);
    world_free(w);
}

static void test_the_first_report_while_sessions_wait(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w;

    c.policy = AS_ROUTER_SESSION;
    w = world_new_conf(-1, &c);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    for (char q = 'a'; q <= 'b'; q++) {
        model(w, q, 7);
        req(w, q)->session_key = 1;
    }
    submit_all(w, "ab");
    expect(w, "a>A");
    holds(w, 'A', 0, NULL);
    expect(w, "");
    for (uint32_t i = 0; i < 4; i++) { /* at most the wait for the session and then for the model */
        w->now += c.max_wait;
        as_deployment_expire(w->d, w->now);
    }
    expect(w, "b>B");
    world_free(w);
}

/* Another model of the deployment has batching: a retry waits for its holder all the same. */
static void test_a_retry_beside_batches_waits_for_the_holder(void **state AS_UNUSED)
{
    static const struct as_batch_conf batching = {.max_size = 4};
    struct world *w = begin(3, 1);

    assert_int_equal(as_deployment_set_batching(w->d, 1, &batching), 0);
    HOLDS(w, 'A', 7);
    HOLDS(w, 'B', 7);
    model(w, 'a', 7);
    model(w, 'b', 7);
    req(w, 'b')->idempotent = true;
    submit_all(w, "ab");
    expect(w, "a>A b>B");
    die(w, 'B', 'b', AS_LOSS_KILLED);
    expect(w, ""); /* C is free, and would load the model again */
    done(w, 'a');
    expect(w, "b>A");
    world_free(w);
}

/* Only the last of n holders has slots. True: a request finds it at once. */
static bool finds_the_last_of(uint32_t n)
{
    struct world *w = begin(1, 0);
    struct as_replica *r = NULL;
    bool found;

    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(as_replica_new(&r, w->d, &w->names[1]), 0);
        as_replica_set_held(r, (const uint64_t[]){7}, 1, w->now);
    }
    as_replica_grant(r, 2, 0, w->now);
    model(w, 'a', 7);
    model(w, 'b', 7);
    submit_all(w, "a");
    found = req(w, 'a')->state == AS_REQ_SENT;
    submit_all(w, "b"); /* it looks at the next ones, and both are sent */
    assert_true(req(w, 'a')->replica == r && req(w, 'b')->replica == r);
    world_free(w);
    return found;
}

static void test_very_many_holders_are_looked_at_in_parts(void **state AS_UNUSED)
{
    assert_true(finds_the_last_of(AS_GROUP_SCAN));
    assert_false(finds_the_last_of(AS_GROUP_SCAN + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_holder_comes_first),
        cmocka_unit_test(test_nobody_holds_it_so_the_one_with_the_fewest_models),
        cmocka_unit_test(test_what_waits_for_the_first_replica_keeps_to_its_model),
        cmocka_unit_test(test_a_model_is_loaded_once),
        cmocka_unit_test(test_a_busy_holder_is_waited_for),
        cmocka_unit_test(test_a_full_model_does_not_hold_up_another),
        cmocka_unit_test(test_the_loader_is_cancelled),
        cmocka_unit_test(test_the_replica_that_loads_dies),
        cmocka_unit_test(test_a_load_that_failed),
        cmocka_unit_test(test_a_holder_that_drains_is_not_waited_for),
        cmocka_unit_test(test_an_evicted_model_has_no_holder),
        cmocka_unit_test(test_a_report_brings_a_holder_to_those_that_wait),
        cmocka_unit_test(test_a_request_that_was_sent_before_the_first_report),
        cmocka_unit_test(test_the_first_report_while_sessions_wait),
        cmocka_unit_test(test_very_many_holders_are_looked_at_in_parts),
        cmocka_unit_test(test_a_retry_beside_batches_waits_for_the_holder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
