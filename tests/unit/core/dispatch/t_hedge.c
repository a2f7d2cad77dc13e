/* Specification of core/dispatch/hedge and core/protect/hedging. deployment_world.h explains the
 * log: the hedge of the first request is z, then y, x …
 */
#include "deployment_world.h"

#define DELAY (100 * AS_MS)

static const struct as_hedging_conf usual = {
    .quantile = 500, .budget = 1000, .samples = 1, .min_delay = DELAY};

static void make_hedgeable(struct world *w, const char *list)
{
    make_requests(w, list, true, 0);
    for (; *list; list++)
        req(w, *list)->unary = true;
}

/* X and Y with so many slots, and the time of one short request is known. */
static struct world *hedging(const struct as_hedging_conf *conf, uint32_t slots)
{
    struct world *w = world_new();

    as_deployment_set_hedging(w->d, conf, w->now);
    join(w, 'X', slots, 0);
    join(w, 'Y', slots, 0);
    make_hedgeable(w, "t");
    submit_all(w, "t");
    assert_true(done(w, 't'));
    w->n = 0;
    return w;
}

/* a executes at X and is hedged at Y, or the other way round. */
static struct world *hedged(void)
{
    struct world *w = hedging(&usual, 1);

    make_hedgeable(w, "a");
    submit_all(w, "a");
    expect(w, "a>Y");
    assert_int_equal(as_deployment_next_deadline(w->d), w->now + DELAY);
    w->now += DELAY;
    as_deployment_expire(w->d, w->now);
    expect(w, "z:a z>X");
    return w;
}

static const struct as_stat *stat_of(struct world *w)
{
    return as_deployment_stat(w->d);
}

static void wait_for(struct world *w, as_ns time)
{
    w->now += time;
    as_deployment_expire(w->d, w->now);
}

/* --- when --- */

static void test_it_is_off_by_default(void **state AS_UNUSED)
{
    struct world *w = world_new();

    join(w, 'X', 1, 0);
    join(w, 'Y', 1, 0);
    make_hedgeable(w, "a");
    submit_all(w, "a");
    assert_int_equal(as_deployment_next_deadline(w->d), AS_NEVER);
    wait_for(w, AS_SEC);
    expect(w, "a>X");
    world_free(w);
}

static void test_only_requests_that_may_run_twice_are_hedged(void **state AS_UNUSED)
{
    struct world *w = hedging(&usual, 4);

    make_hedgeable(w, "abcd");
    req(w, 'a')->idempotent = false;
    req(w, 'b')->unary = false;
    req(w, 'c')->is_mirror = true;
    req(w, 'd')->on_cycle = true;
    submit_all(w, "abcd");
    w->n = 0;
    wait_for(w, AS_SEC);
    expect(w, "");
    world_free(w);
}

static void test_the_delay_is_the_measured_quantile(void **state AS_UNUSED)
{
    struct as_hedging_conf conf = {.quantile = 950, .budget = 1000, .samples = 100};
    struct world *w = hedging(&conf, 4); /* which has measured one */
    as_ns delay;

    for (uint32_t i = 2; i <= 100; i++) {
        assert_int_equal(as_deployment_hedge_delay(w->d), 0);
        make_hedgeable(w, "a");
        submit_all(w, "a");
        w->now += i * AS_MS;
        assert_true(done_with(w, 'a', 0, false));
    }
    delay = as_deployment_hedge_delay(w->d);
    assert_in_range(delay, 95 * AS_MS, 95 * AS_MS * 17 / 16);
    make_hedgeable(w, "a");
    submit_all(w, "a");
    w->n = 0;
    wait_for(w, delay - 1);
    expect(w, "");
    wait_for(w, 1);
    w->log[w->n] = '\0';
    assert_string_equal(w->log, letter_of(req(w, 'a')->replica) == 'X' ? "z:a z>Y" : "z:a z>X");
    world_free(w);
}

static void test_it_never_queues_and_takes_nobodys_slot(void **state AS_UNUSED)
{
    struct world *w = hedging(&usual, 1);

    make_hedgeable(w, "abc");
    submit_all(w, "abc");
    expect(w, "a>Y b>X");
    wait_for(w, DELAY);
    expect(w, ""); /* both are full, and c waits */
    assert_true(done(w, 'b'));
    expect(w, "c>X");
    assert_true(done(w, 'c'));
    expect(w, "z:a z>X");                             /* as soon as nothing waits */
    assert_int_equal(stat_of(w)->hedges_withheld, 1); /* b */
    world_free(w);
}

static void test_a_free_slot_of_its_own_replica_is_of_no_use(void **state AS_UNUSED)
{
    struct world *w = world_new();

    as_deployment_set_hedging(w->d, &usual, w->now);
    join(w, 'X', 4, 0);
    make_hedgeable(w, "ta");
    submit_all(w, "t");
    assert_true(done(w, 't'));
    submit_all(w, "a");
    w->n = 0;
    wait_for(w, DELAY);
    expect(w, "");
    join(w, 'Y', 1, 0);
    expect(w, "z:a z>Y");
    world_free(w);
}

/* --- the budget --- */

static void test_the_budget_bounds_the_hedges(void **state AS_UNUSED)
{
    struct as_hedging_conf conf = usual;
    struct world *w;

    conf.budget = 20;
    w = hedging(&conf, 100); /* one request of the 50 that a hedge needs */
    for (uint32_t i = 0; i < 47; i++) {
        make_hedgeable(w, "t");
        submit_all(w, "t");
        assert_true(done(w, 't'));
    }
    make_hedgeable(w, "abc");
    submit_all(w, "a");
    w->n = 0;
    wait_for(w, DELAY);
    expect(w, "");      /* the 49th */
    submit_all(w, "b"); /* the 50th */
    wait_for(w, DELAY);
    assert_int_equal(stat_of(w)->hedges, 1);
    wait_for(w, DELAY);
    assert_int_equal(stat_of(w)->hedges, 1); /* nothing is left for b */
    world_free(w);
}

static void test_a_quiet_time_saves_up_ten_hedges(void **state AS_UNUSED)
{
    struct world *w = hedging(&usual, 100);

    for (uint32_t i = 0; i < 100; i++) {
        make_hedgeable(w, "t");
        submit_all(w, "t");
        assert_true(done(w, 't'));
    }
    make_hedgeable(w, "abcdefghijk");
    submit_all(w, "abcdefghijk");
    wait_for(w, DELAY);
    assert_int_equal(stat_of(w)->hedges, AS_HEDGING_BURST);
    w->n = 0;
    world_free(w);
}

/* --- which answer counts --- */

static void test_the_hedge_is_faster(void **state AS_UNUSED)
{
    struct world *w = hedged();

    assert_true(done(w, 'z'));
    expect(w, "a!C"); /* its slot stays taken */
    assert_int_equal(as_replica_ongoing(rep(w, 'Y')), 1);
    assert_false(done(w, 'a'));
    expect(w, "~a");
    assert_int_equal(as_deployment_ongoing(w->d), 0);
    assert_int_equal(stat_of(w)->hedges_won, 1);
    assert_int_equal(stat_of(w)->completed, 2);
    world_free(w);
}

static void test_the_first_is_faster(void **state AS_UNUSED)
{
    struct world *w = hedged();

    assert_true(done(w, 'a'));
    expect(w, "z!C");
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    assert_false(done(w, 'z'));
    expect(w, "~z");
    assert_int_equal(stat_of(w)->hedges_lost, 1);
    world_free(w);
}

static void test_a_failure_of_one_leaves_the_other(void **state AS_UNUSED)
{
    struct world *w = hedged();

    req(w, 'a')->failed = true;
    assert_false(done(w, 'a'));
    expect(w, "~a");
    assert_true(done(w, 'z'));
    expect(w, "");
    assert_int_equal(stat_of(w)->hedges_won, 1);
    world_free(w);
    w = hedged();
    req(w, 'z')->failed = true;
    assert_false(done(w, 'z'));
    expect(w, "~z");
    req(w, 'a')->failed = true; /* the last failure is the answer */
    assert_true(done(w, 'a'));
    expect(w, "");
    assert_int_equal(stat_of(w)->hedges_failed, 1);
    world_free(w);
}

static void test_an_error_of_the_request_is_an_answer(void **state AS_UNUSED)
{
    struct world *w = hedged();

    assert_true(done(w, 'z')); /* not `failed`: the client's own mistake */
    expect(w, "a!C");
    world_free(w);
}

static void test_a_hedge_that_is_handed_back_ends(void **state AS_UNUSED)
{
    struct world *w = hedged();

    assert_false(done_with(w, 'z', 0, true));
    expect(w, "~z");
    assert_true(done(w, 'a'));
    expect(w, "");
    world_free(w);
}

/* --- ends --- */

static void test_a_client_that_leaves_ends_both(void **state AS_UNUSED)
{
    struct world *w = hedged();

    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    expect(w, "z!C a!C");
    as_deployment_cancel(w->d, req(w, 'z'), w->now);
    expect(w, "");
    assert_false(done(w, 'a'));
    assert_false(done(w, 'z'));
    expect(w, "~a ~z");
    assert_int_equal(stat_of(w)->cancelled, 1);
    assert_int_equal(stat_of(w)->hedges_cancelled, 1);
    world_free(w);
}

static void test_a_deadline_ends_both(void **state AS_UNUSED)
{
    struct world *w = hedging(&usual, 1);

    make_hedgeable(w, "a");
    req(w, 'a')->deadline = w->now + 2 * DELAY;
    submit_all(w, "a");
    wait_for(w, DELAY);
    expect(w, "a>Y z:a z>X");
    assert_int_equal(as_deployment_next_deadline(w->d), w->now + DELAY);
    wait_for(w, DELAY);
    w->log[w->n] = '\0';
    assert_true(!strcmp(w->log, "z!D a!D a=EDEADLINE") || !strcmp(w->log, "a!D z!D z=EDEADLINE"));
    w->n = 0;
    assert_int_equal(stat_of(w)->expired, 1);
    assert_int_equal(stat_of(w)->hedges_cancelled, 1);
    world_free(w);
}

static void test_a_death_leaves_the_other(void **state AS_UNUSED)
{
    struct world *w = hedged();

    assert_int_equal(die(w, 'Y', 'a', AS_LOSS_KILLED), 0);
    expect(w, "~a");
    assert_true(done(w, 'z'));
    expect(w, "");
    world_free(w);
    w = hedged();
    assert_int_equal(die(w, 'X', 'z', AS_LOSS_KILLED), 0);
    expect(w, "~z");
    assert_true(done(w, 'a'));
    expect(w, "");
    assert_int_equal(stat_of(w)->hedges_failed, 1);
    world_free(w);
}

/* What is left knows that it has run: it goes to no fallback, and is no suspect that never began.
 */
static void test_one_that_hangs_leaves_the_other_which_has_run(void **state AS_UNUSED)
{
    struct world *w = hedged();

    as_replica_fail_request(rep(w, 'X'), req(w, 'z'), AS_EHUNG);
    assert_true(req(w, 'a')->ran);
    assert_true(done(w, 'a'));
    world_free(w);
    w = hedged();
    as_replica_fail_request(rep(w, 'Y'), req(w, 'a'), AS_EHUNG);
    assert_true(req(w, 'z')->ran);
    assert_true(done(w, 'z'));
    world_free(w);
}

/* What is left is retried as any request, and is not hedged again. */
static void test_deaths_of_both_are_a_retry(void **state AS_UNUSED)
{
    struct world *w = hedged();

    die(w, 'Y', 'a', AS_LOSS_KILLED);
    join(w, 'Y', 1, 0);
    w->n = 0;
    die(w, 'X', 'z', AS_LOSS_KILLED);
    expect(w, "z>Y");
    join(w, 'X', 1, 0);
    wait_for(w, 2 * DELAY);
    expect(w, "");
    assert_true(done(w, 'z'));
    world_free(w);
}

static void test_a_session_stays_where_it_was(void **state AS_UNUSED)
{
    struct world *w = world_new_with(-1, AS_ROUTER_SESSION);

    as_deployment_set_hedging(w->d, &usual, w->now);
    join(w, 'X', 1, 0);
    join(w, 'Y', 1, 0);
    make_hedgeable(w, "ta");
    req(w, 't')->session_key = req(w, 'a')->session_key = 5;
    submit_all(w, "t");
    expect(w, "t>X");
    assert_true(done(w, 't'));
    submit_all(w, "a");
    wait_for(w, DELAY);
    expect(w, "a>X z:a z>Y");
    assert_true(done(w, 'z'));
    assert_false(done(w, 'a'));
    make_hedgeable(w, "b");
    req(w, 'b')->session_key = 5;
    w->n = 0;
    submit_all(w, "b");
    expect(w, "b>X");
    world_free(w);
}

static void test_only_holders_get_hedges_for_models(void **state AS_UNUSED)
{
    static const uint64_t model = 9;
    struct world *w = hedging(&usual, 2);

    as_replica_set_held(rep(w, 'X'), &model, 1, w->now);
    make_hedgeable(w, "a");
    req(w, 'a')->model_key = model;
    submit_all(w, "a");
    expect(w, "a>X");
    wait_for(w, DELAY);
    expect(w, "");
    as_replica_set_held(rep(w, 'Y'), &model, 1, w->now);
    expect(w, "z:a z>Y");
    world_free(w);
}

static void test_it_can_be_turned_off_while_hedges_run(void **state AS_UNUSED)
{
    struct world *w = hedged();

    as_deployment_set_hedging(w->d, &(struct as_hedging_conf){0}, w->now);
    assert_true(done(w, 'z'));
    expect(w, "a!C");
    assert_false(done(w, 'a'));
    expect(w, "~a");
    world_free(w);
}

static void test_a_deployment_that_ends_answers_once(void **state AS_UNUSED)
{
    struct world *w = hedged();
    struct as_deployment *d = w->d;

    w->n = 0;
    as_deployment_free(d);
    w->log[w->n] = '\0';
    assert_int_equal(strstr(w->log, "a=") != NULL, strstr(w->log, "z=") == NULL);
    assert_non_null(strstr(w->log, "~a"));
    assert_non_null(strstr(w->log, "~z"));
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_off_by_default),
        cmocka_unit_test(test_only_requests_that_may_run_twice_are_hedged),
        cmocka_unit_test(test_the_delay_is_the_measured_quantile),
        cmocka_unit_test(test_it_never_queues_and_takes_nobodys_slot),
        cmocka_unit_test(test_a_free_slot_of_its_own_replica_is_of_no_use),
        cmocka_unit_test(test_the_budget_bounds_the_hedges),
        cmocka_unit_test(test_a_quiet_time_saves_up_ten_hedges),
        cmocka_unit_test(test_the_hedge_is_faster),
        cmocka_unit_test(test_the_first_is_faster),
        cmocka_unit_test(test_a_failure_of_one_leaves_the_other),
        cmocka_unit_test(test_an_error_of_the_request_is_an_answer),
        cmocka_unit_test(test_a_hedge_that_is_handed_back_ends),
        cmocka_unit_test(test_a_client_that_leaves_ends_both),
        cmocka_unit_test(test_a_deadline_ends_both),
        cmocka_unit_test(test_a_death_leaves_the_other),
        cmocka_unit_test(test_one_that_hangs_leaves_the_other_which_has_run),
        cmocka_unit_test(test_deaths_of_both_are_a_retry),
        cmocka_unit_test(test_a_session_stays_where_it_was),
        cmocka_unit_test(test_only_holders_get_hedges_for_models),
        cmocka_unit_test(test_it_can_be_turned_off_while_hedges_run),
        cmocka_unit_test(test_a_deployment_that_ends_answers_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
