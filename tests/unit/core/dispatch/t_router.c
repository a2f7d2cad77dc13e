/* Specification of core/dispatch/choice/router: the policies, among free replicas and for sessions.
 */
#include "support/deployment_world.h"

static void session(struct world *w, char c, uint64_t key)
{
    renew_request(w, c);
    req(w, c)->session_key = key * 0x9e3779b97f4a7c15u;
}

static char at(struct world *w, char c)
{
    return letter_of(req(w, c)->replica);
}

static void test_names(void **state AS_UNUSED)
{
    for (uint32_t i = 0; i < AS_ROUTERS; i++)
        assert_int_equal(as_router_of(as_router_name((enum as_router)i)), i);
    assert_string_equal(as_router_name((enum as_router)AS_ROUTERS), "?");
    assert_int_equal(as_router_of("pow2"), -1);
}

static void test_settings_out_of_range_are_refused(void **state AS_UNUSED)
{
    struct world *w = world_new();
    const struct as_router_conf ok = AS_ROUTER_CONF_DEFAULT;
    struct as_router_conf c;

    assert_int_equal(as_deployment_set_router(w->d, &ok, w->now), 0);
#define REFUSED(change)                                                                            \
    c = ok;                                                                                        \
    change;                                                                                        \
    assert_int_equal(as_deployment_set_router(w->d, &c, w->now), AS_EINVALID)
    REFUSED(c.policy = (enum as_router)AS_ROUTERS);
    REFUSED(c.virtual_nodes = 0);
    REFUSED(c.virtual_nodes = 1001);
    REFUSED(c.fallbacks = AS_PREFERENCE_LINKS);
    REFUSED(c.bound = 99);
    REFUSED(c.max_sessions = 0);
    REFUSED(c.max_wait = 3600 * AS_SEC + 1);
    REFUSED(c.ask_factor = 99);
    REFUSED(c.asks = true; c.ask_timeout = 0);
    c = ok;
    c.virtual_nodes = 1000;
    c.fallbacks = AS_PREFERENCE_LINKS - 1;
    c.bound = c.ask_factor = 100;
    c.max_sessions = 1;
    c.max_wait = 3600 * AS_SEC;
    assert_int_equal(as_deployment_set_router(w->d, &c, w->now), 0);
    world_free(w);
}

static void test_round_robin_goes_around_free_replicas(void **state AS_UNUSED)
{
    struct world *w = world_new_with(-1, AS_ROUTER_ROUND_ROBIN);

    for (char c = 'A'; c <= 'C'; c++)
        join(w, c, 2, 0);
    submit_all(w, "abcde");
    expect(w, "a>A b>B c>C d>A e>B");
    done(w, 'a');
    submit_all(w, "fg"); /* after B comes C; B is full, so after C comes A */
    expect(w, "f>C g>A");
    world_free(w);
}

static void test_round_robin_after_a_replica_has_gone(void **state AS_UNUSED)
{
    struct world *w = world_new_with(-1, AS_ROUTER_ROUND_ROBIN);

    for (char c = 'A'; c <= 'D'; c++)
        join(w, c, 9, 0);
    submit_all(w, "ab");
    expect(w, "a>A b>B");
    done(w, 'b');
    die(w, 'B', '-', AS_LOSS_KILLED);
    submit_all(w, "cdef");
    expect(w, "c>D d>A e>C f>D"); /* C has moved to the place of B, whose turn is over */
    world_free(w);
}

static void test_least_ongoing_draws_among_the_least_loaded(void **state AS_UNUSED)
{
    struct world *w = world_new_with(-1, AS_ROUTER_LEAST_ONGOING);
    uint32_t to[26] = {0};

    for (char c = 'A'; c <= 'D'; c++)
        join(w, c, 100, 0);
    submit_all(w, "a"); /* one of them has one more */
    to[at(w, 'a') - 'A'] = 10000;
    for (uint32_t i = 0; i < 3000; i++) {
        renew_request(w, 'z');
        submit_all(w, "z");
        to[at(w, 'z') - 'A']++;
        done(w, 'z');
        w->n = 0;
    }
    for (char c = 'A'; c <= 'D'; c++) {
        if (to[c - 'A'] != 10000)
            assert_in_range(to[c - 'A'], 900, 1100);
    }
    world_free(w);
}

static void test_many_requests_at_one_replica(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'A', 1000, 0);
    join(w, 'B', 3, 0);
    for (uint32_t i = 0; i < 26; i++)
        submit_all(w, (char[]){(char)('a' + i), 0});
    w->n = 0;
    assert_true(as_deployment_ok(w->d));
    assert_int_equal(as_replica_ongoing(rep(w, 'B')), 3);
    assert_int_equal(as_replica_ongoing(rep(w, 'A')), 23);
    for (uint32_t i = 0; i < 26; i++)
        done(w, (char)('a' + i));
    w->n = 0;
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

static void test_near_replicas_first(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w;

    c.prefer_near = true;
    w = world_new_conf(-1, &c);
    for (char r = 'A'; r <= 'C'; r++)
        join(w, r, 1, 0);
    as_replica_set_place(rep(w, 'A'), 1, (struct as_place){.node = 1, .zone = 1});
    as_replica_set_place(rep(w, 'B'), 2, (struct as_place){.node = 2, .zone = 2});
    as_replica_set_place(rep(w, 'C'), 3, (struct as_place){.node = 3, .zone = 2});
    for (char q = 'a'; q <= 'd'; q++)
        req(w, q)->place = (struct as_place){.node = 3, .zone = 2};
    submit_all(w, "abcd"); /* its node, its zone, anywhere; then the queue */
    expect(w, "a>C b>B c>A");
    done(w, 'c');
    expect(w, "d>A"); /* nobody waits for a near one */
    world_free(w);
}

/* --- consistent_hash --- */

static struct world *ring_world(uint32_t replicas, uint32_t slots, struct as_router_conf *c)
{
    struct world *w;

    c->policy = AS_ROUTER_CONSISTENT_HASH;
    w = world_new_conf(-1, c);
    for (uint32_t i = 0; i < replicas; i++) {
        join(w, (char)('A' + i), 0, 0);
        as_replica_set_place(w->r[i], 100 + i, (struct as_place){0});
        grant(w, (char)('A' + i), slots, 8);
    }
    return w;
}

static void test_a_session_goes_to_one_replica(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = ring_world(4, 2, &c);
    uint32_t used = 0;

    for (uint64_t key = 1; key <= 40; key++) {
        char first;

        session(w, 'a', key);
        submit_all(w, "a");
        first = at(w, 'a');
        used |= 1u << (first - 'A');
        session(w, 'b', key); /* together with the first */
        submit_all(w, "b");
        assert_int_equal(at(w, 'b'), first);
        done(w, 'a');
        done(w, 'b');
        w->n = 0;
    }
    assert_int_equal(used, 0xf);
    world_free(w);
}

static void test_a_busy_replica_is_waited_for_then_others(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w;
    char first;

    c.bound = 1000; /* never overloaded */
    w = ring_world(3, 1, &c);
    session(w, 'a', 5);
    session(w, 'b', 5);
    session(w, 'c', 5);
    submit_all(w, "ab");
    first = at(w, 'a');
    assert_null(req(w, 'b')->replica);
    assert_int_equal(as_deployment_queued(w->d), 1);
    assert_true(as_deployment_ok(w->d));
    done(w, 'a'); /* its slot goes to b at once */
    assert_int_equal(at(w, 'b'), first);
    submit_all(w, "c");
    assert_null(req(w, 'c')->replica);
    assert_true(as_deployment_next_deadline(w->d) == w->now + c.max_wait);
    w->now += c.max_wait;
    as_deployment_expire(w->d, w->now); /* now the next on the ring will do */
    assert_int_not_equal(at(w, 'c'), first);
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

static void test_the_bound_sends_sessions_elsewhere(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = ring_world(4, 1, &c);

    for (char q = 'a'; q <= 'd'; q++)
        session(w, q, 5); /* all of one session, more than its share */
    submit_all(w, "abc");
    assert_non_null(req(w, 'a')->replica);
    assert_non_null(req(w, 'b')->replica); /* a fallback */
    assert_non_null(req(w, 'c')->replica);
    assert_int_equal(as_deployment_queued(w->d), 0);
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

static void test_a_replica_that_drains_is_passed_over(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w;
    char first;

    c.bound = 1000;
    w = ring_world(3, 1, &c);
    session(w, 'a', 5);
    session(w, 'b', 5);
    session(w, 'c', 5);
    submit_all(w, "ab");
    first = at(w, 'a');
    as_replica_drain(rep(w, first), true, w->now); /* b need not wait for it */
    assert_non_null(req(w, 'b')->replica);
    assert_int_not_equal(at(w, 'b'), first);
    submit_all(w, "c"); /* it waits where b is, which is next on the ring */
    assert_true(as_deployment_ok(w->d));
    first = at(w, 'b');
    done(w, 'b');
    assert_int_equal(at(w, 'c'), first);
    world_free(w);
}

static void test_death_frees_those_that_wait_for_it(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w;
    char first;

    c.bound = 1000;
    w = ring_world(2, 1, &c);
    session(w, 'a', 5);
    session(w, 'b', 5);
    req(w, 'a')->idempotent = true;
    submit_all(w, "ab");
    first = at(w, 'a');
    w->n = 0;
    die(w, first, 'a', AS_LOSS_KILLED);
    assert_true(as_deployment_ok(w->d));
    assert_int_equal(at(w, 'a'), first == 'A' ? 'B' : 'A'); /* the older one */
    assert_int_equal(as_deployment_queued(w->d), 1);
    done(w, 'a');
    assert_non_null(req(w, 'b')->replica);
    world_free(w);
}

/* --- session --- */

static struct world *session_world(uint32_t replicas, const struct as_router_conf *conf)
{
    struct as_router_conf c = *conf;
    struct world *w;

    c.policy = AS_ROUTER_SESSION;
    w = world_new_conf(-1, &c);
    for (uint32_t i = 0; i < replicas; i++)
        join(w, (char)('A' + i), 1, 0);
    return w;
}

static void test_the_last_replica_of_a_session(void **state AS_UNUSED)
{
    const struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = session_world(3, &c);

    session(w, 'a', 1);
    submit_all(w, "a");
    expect(w, "a>A");
    session(w, 'b', 2);
    submit_all(w, "b");
    expect(w, "b>B");
    done(w, 'a');
    done(w, 'b');
    for (uint32_t i = 0; i < 5; i++) {
        session(w, 'c', 2);
        submit_all(w, "c");
        expect(w, "c>B");
        done(w, 'c');
    }
    die(w, 'B', '-', AS_LOSS_KILLED);
    session(w, 'd', 2);
    submit_all(w, "d"); /* a new replica for it … */
    assert_true(as_deployment_ok(w->d));
    w->n = 0;
    {
        char to = at(w, 'd');

        done(w, 'd');
        session(w, 'e', 2);
        submit_all(w, "e"); /* … which it keeps */
        assert_int_equal(at(w, 'e'), to);
    }
    world_free(w);
}

static void test_a_session_waits_and_then_moves(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w;

    c.max_wait = 5 * AS_MS;
    w = session_world(2, &c);
    session(w, 'a', 1);
    session(w, 'b', 1);
    submit_all(w, "ab");
    expect(w, "a>A"); /* b waits though B is free */
    assert_int_equal(as_deployment_queued(w->d), 1);
    w->now += 5 * AS_MS - 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "");
    w->now += 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "b>B");
    session(w, 'c', 1);
    done(w, 'b');
    submit_all(w, "c"); /* B has the session now */
    expect(w, "c>B");
    world_free(w);
}

/* Load escape: by the service times it would wait for longer than max_wait. */
static void test_a_session_leaves_a_slow_replica_at_once(void **state AS_UNUSED)
{
    struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w;

    c.max_wait = 5 * AS_MS;
    w = session_world(2, &c);
    session(w, 'a', 1);
    submit_all(w, "a");
    done_with(w, 'a', 6 * AS_MS, false); /* A takes 6 ms for a request */
    session(w, 'b', 1);
    session(w, 'c', 1);
    submit_all(w, "bc");
    expect(w, "a>A b>A c>B");
    world_free(w);
}

static void test_a_request_without_a_session_goes_anywhere(void **state AS_UNUSED)
{
    const struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = session_world(2, &c);

    session(w, 'a', 1);
    session(w, 'b', 1);
    submit_all(w, "abc");
    expect(w, "a>A c>B"); /* b waits for A, c goes on */
    done(w, 'a');
    expect(w, "b>A");
    world_free(w);
}

static void test_order_is_by_age_over_all_lines(void **state AS_UNUSED)
{
    const struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = session_world(1, &c);

    session(w, 'a', 1);
    session(w, 'c', 1);
    session(w, 'e', 1);
    req(w, 'e')->priority = 0;
    submit_all(w, "abcde");
    expect(w, "a>A");
    done(w, 'a');
    done(w, 'e');
    done(w, 'b');
    done(w, 'c');
    expect(w, "e>A b>A c>A d>A");
    world_free(w);
}

static void test_waiting_requests_end_as_all_others(void **state AS_UNUSED)
{
    const struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = session_world(2, &c);

    for (char q = 'a'; q <= 'd'; q++)
        session(w, q, 1);
    req(w, 'c')->deadline = w->now + 10;
    submit_all(w, "abcd");
    expect(w, "a>A");
    as_deployment_cancel(w->d, req(w, 'b'), w->now);
    expect(w, "~b");
    w->now += 10;
    as_deployment_expire(w->d, w->now);
    expect(w, "c=EDEADLINE ~c");
    as_deployment_set_down(w->d, true, w->now);
    expect(w, "d=EUNAVAILABLE ~d");
    world_free(w);
}

static void test_another_router_lets_those_that_wait_go(void **state AS_UNUSED)
{
    const struct as_router_conf c = AS_ROUTER_CONF_DEFAULT;
    struct world *w = session_world(2, &c);

    session(w, 'a', 1);
    session(w, 'b', 1);
    submit_all(w, "ab");
    expect(w, "a>A");
    assert_int_equal(as_deployment_set_router(w->d, &c, w->now), 0);
    expect(w, "b>B");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_settings_out_of_range_are_refused),
        cmocka_unit_test(test_round_robin_goes_around_free_replicas),
        cmocka_unit_test(test_round_robin_after_a_replica_has_gone),
        cmocka_unit_test(test_least_ongoing_draws_among_the_least_loaded),
        cmocka_unit_test(test_many_requests_at_one_replica),
        cmocka_unit_test(test_near_replicas_first),
        cmocka_unit_test(test_a_session_goes_to_one_replica),
        cmocka_unit_test(test_a_busy_replica_is_waited_for_then_others),
        cmocka_unit_test(test_the_bound_sends_sessions_elsewhere),
        cmocka_unit_test(test_a_replica_that_drains_is_passed_over),
        cmocka_unit_test(test_death_frees_those_that_wait_for_it),
        cmocka_unit_test(test_the_last_replica_of_a_session),
        cmocka_unit_test(test_a_session_waits_and_then_moves),
        cmocka_unit_test(test_a_session_leaves_a_slow_replica_at_once),
        cmocka_unit_test(test_a_request_without_a_session_goes_anywhere),
        cmocka_unit_test(test_order_is_by_age_over_all_lines),
        cmocka_unit_test(test_waiting_requests_end_as_all_others),
        cmocka_unit_test(test_another_router_lets_those_that_wait_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
