/* Specification of core/dispatch/choice/multiplex, and of routers of the user's own. */
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

/* --- routers of the user's own --- */

static struct world *asking(uint32_t replicas, uint32_t slots)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w;

    c.asks = true;
    w = world_new_conf(-1, &c);
    for (uint32_t i = 0; i < replicas; i++)
        join(w, (char)('A' + i), slots, 4);
    return w;
}

static struct as_router_choice choose(struct world *w, const char *list)
{
    struct as_router_choice c = {0};
    uint32_t rank = 0;

    for (; *list; list++) {
        if (*list == ',') {
            rank++;
            continue;
        }
        c.of[c.n].replica = rep(w, *list);
        c.of[c.n++].rank = rank;
    }
    return c;
}

static void answer(struct world *w, char c, const char *list)
{
    struct as_router_choice choice = choose(w, list);

    as_deployment_routed(w->d, req(w, c), &choice, w->now);
}

static void test_the_choice_is_followed(void **state AS_UNUSED)
{
    struct world *w = asking(3, 1);

    submit_all(w, "ab");
    expect(w, "a? b?");
    answer(w, 'b', "C,A");
    answer(w, 'a', "C,B");
    expect(w, "b>C a>B"); /* C is busy: the next rank */
    world_free(w);
}

static void test_a_choice_at_once(void **state AS_UNUSED)
{
    struct world *w = asking(3, 1);

    w->choice = choose(w, "B");
    submit_all(w, "ab");
    expect(w, "a? a>B b?"); /* b waits for B alone */
    done(w, 'a');
    expect(w, "b>B");
    world_free(w);
}

static void test_a_replica_chosen_twice_counts_once(void **state AS_UNUSED)
{
    struct world *w = asking(1, 1);

    w->choice = choose(w, "AA,A");
    submit_all(w, "ab");
    assert_int_equal(req(w, 'b')->preference->n, 1);
    assert_int_equal(rep(w, 'A')->own.n, 1);
    expect(w, "a? a>A b?");
    world_free(w);
}

/* A has room, but the cap of their model delays the first AS_LINE_SCAN that wait for A, and the
 * one behind them is not looked at. When one of them leaves it is. */
static void test_those_behind_a_long_line_have_their_turn(void **state AS_UNUSED)
{
    struct world *w = asking(1, 2);
    struct as_request many[AS_LINE_SCAN];

    assert_int_equal(as_deployment_set_model(w->d, 0, 1), 0);
    req(w, 'b')->model = req(w, 'z')->model = 1;
    w->choice = choose(w, "A");
    submit_all(w, "ab");
    for (uint32_t i = 0; i < AS_LINE_SCAN; i++) {
        as_request_init(&many[i]);
        assert_int_equal(as_deployment_submit(w->d, &many[i], w->now), 0);
    }
    submit_all(w, "z");
    w->n = 0;
    done(w, 'b');
    expect(w, "");
    as_deployment_cancel(w->d, &many[0], w->now);
    assert_int_equal(req(w, 'z')->state, AS_REQ_SENT);
    for (uint32_t i = 1; i < AS_LINE_SCAN; i++) {
        w->n = 0; /* it has names for 26 requests only */
        as_deployment_cancel(w->d, &many[i], w->now);
    }
    world_free(w);
}

static uint32_t depth_of(const struct as_request *q)
{
    const struct as_tree_node *n = &q->preference->links[0].node;
    uint32_t depth = 0;

    for (; n->up; n = n->up)
        depth++;
    return depth;
}

/* Each that is asked for again goes back to its place by age: by a path of its line's tree, not by
 * a walk past all that are younger. */
static void test_asking_again_is_not_slow_because_many_wait(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = asking(1, 1);
    enum { N = 5000 };
    struct as_request *many = as_xalloc(N * sizeof(*many));
    uint32_t asked = 0;
    as_ns begin;

    w->choice = choose(w, "A");
    submit_all(w, "a");
    begin = w->now;
    for (uint32_t i = 0; i < N; i++, w->now++) {
        w->n = 0; /* it has names for 26 requests only */
        as_request_init(&many[i]);
        assert_int_equal(as_deployment_submit(w->d, &many[i], w->now), 0);
    }
    for (uint32_t i = 0; i < N; i++) {
        w->n = 0;
        w->now = begin + c.ask_again_first + i;
        as_deployment_expire(w->d, w->now);
        asked += w->n == 2; /* "x?" */
        assert_in_range(depth_of(&many[i]), 0, 40);
    }
    assert_int_equal(asked, N);
    for (uint32_t i = 0; i < N; i++)
        assert_in_range(depth_of(&many[i]), 0, 40);
    assert_true(as_deployment_ok(w->d));
    w->n = 0;
    done(w, 'a');
    assert_int_equal(many[0].state, AS_REQ_SENT); /* the oldest is still the first */
    for (uint32_t i = 0; i < N; i++) {
        w->n = 0;
        as_deployment_cancel(w->d, &many[i], w->now);
    }
    world_free(w);
    free(many);
}

static void test_no_answer_in_time(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = asking(1, 2);

    submit_all(w, "a");
    expect(w, "a?");
    w->now += c.ask_timeout - 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "");
    w->now++;
    as_deployment_expire(w->d, w->now);
    expect(w, "-a a>A");
    assert_int_equal(as_deployment_stat(w->d)->router_late, 1);
    answer(w, 'a', "A"); /* too late: no effect */
    expect(w, "");
    world_free(w);
}

static void test_no_choice(void **state AS_UNUSED)
{
    struct world *w = asking(1, 2);

    submit_all(w, "a");
    answer(w, 'a', "");
    expect(w, "a? a>A");
    assert_int_equal(as_deployment_stat(w->d)->router_fallbacks, 1);
    world_free(w);
}

static void test_all_chosen_are_busy_so_it_is_asked_again(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = asking(2, 1);

    w->choice = choose(w, "A");
    submit_all(w, "ab");
    expect(w, "a? a>A b?");
    w->now += c.ask_again_first;
    as_deployment_expire(w->d, w->now);
    expect(w, "b?");
    w->now += 2 * c.ask_again_first - 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "");
    w->choice = choose(w, "AB");
    w->now++;
    as_deployment_expire(w->d, w->now);
    expect(w, "b? b>B");
    world_free(w);
}

static void test_the_only_chosen_one_dies(void **state AS_UNUSED)
{
    struct world *w = asking(2, 1);

    w->choice = choose(w, "A");
    submit_all(w, "ab");
    done_with(w, 'a', 0, false);
    expect(w, "a? a>A b? b>A");
    submit_all(w, "c");
    expect(w, "c?");
    w->choice.n = 0;
    die(w, 'A', 'b', AS_LOSS_KILLED);
    assert_true(as_deployment_ok(w->d));
    w->n = 0;
    answer(w, 'c', "B");
    expect(w, "c>B");
    world_free(w);
}

static void test_a_client_leaves_before_the_answer(void **state AS_UNUSED)
{
    struct world *w = asking(1, 1);

    submit_all(w, "a");
    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    expect(w, "a? -a ~a");
    world_free(w);
}

static void test_a_full_queue_refuses_before_the_answer(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w;

    c.asks = true;
    w = world_new_conf(1, &c);
    join(w, 'A', 1, 0);
    submit_all(w, "a");
    assert_int_equal(submit(w, 'b'), AS_EFULL);
    expect(w, "a? b? -b");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_holder_comes_first),
        cmocka_unit_test(test_nobody_holds_it_so_the_one_with_the_fewest_models),
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
        cmocka_unit_test(test_the_choice_is_followed),
        cmocka_unit_test(test_a_choice_at_once),
        cmocka_unit_test(test_a_replica_chosen_twice_counts_once),
        cmocka_unit_test(test_those_behind_a_long_line_have_their_turn),
        cmocka_unit_test(test_no_answer_in_time),
        cmocka_unit_test(test_asking_again_is_not_slow_because_many_wait),
        cmocka_unit_test(test_no_choice),
        cmocka_unit_test(test_all_chosen_are_busy_so_it_is_asked_again),
        cmocka_unit_test(test_the_only_chosen_one_dies),
        cmocka_unit_test(test_a_client_leaves_before_the_answer),
        cmocka_unit_test(test_a_full_queue_refuses_before_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
