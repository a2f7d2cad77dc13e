/* Specification of core/dispatch/choice/preference: routers of the user's own. */
#include "core/dispatch/deployment_internal.h"
#include "support/deployment_world.h"

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
