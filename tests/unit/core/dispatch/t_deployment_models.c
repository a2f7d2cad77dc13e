/* Specification of core/dispatch/deployment: replicas that do not all serve the same models, as
 * during an update to another version. deployment_world.h explains the log. */
#include "deployment_world.h"

#define OLD 1u /* a model that only A serves … */
#define NEW 2u /* … and one that only B does; model 0 is served by both */

static void of_model(struct world *w, const char *list, uint32_t model)
{
    for (; *list; list++) {
        renew_request(w, *list);
        req(w, *list)->model = model;
    }
}

static void serve(struct world *w, char r, uint32_t model, bool serves)
{
    as_replica_set_model(rep(w, r), model, serves, w->now);
    assert_true(as_deployment_ok(w->d));
}

/* A of the old version, B of the new one. */
static void join_both(struct world *w, uint32_t slots, uint32_t prefetch)
{
    join(w, 'A', 0, 0);
    serve(w, 'A', NEW, false);
    join(w, 'B', 0, 0);
    serve(w, 'B', OLD, false);
    grant(w, 'A', slots, prefetch);
    grant(w, 'B', slots, prefetch);
}

static void test_a_request_goes_only_to_replicas_with_its_model(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "ab", OLD);
    of_model(w, "cd", NEW);
    join_both(w, 2, 0);
    submit_all(w, "abcd"); /* by load alone half of them would go to B */
    expect(w, "a>A b>A c>B d>B");
    assert_true(as_deployment_is_mixed(w->d));
    world_free(w);
}

static void test_it_waits_for_a_replica_that_has_it(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "abc", OLD);
    join_both(w, 1, 0);
    submit_all(w, "abcd");
    expect(w, "a>A d>B"); /* d, of model 0, need not wait behind b and c */
    assert_int_equal(as_deployment_queued(w->d), 2);
    done(w, 'd');
    expect(w, ""); /* B is idle, but does not serve their model */
    done(w, 'a');
    expect(w, "b>A");
    world_free(w);
}

static void test_all_replicas_serve_all_models_until_it_is_set(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "abc", OLD);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    assert_false(as_deployment_is_mixed(w->d));
    submit_all(w, "abc");
    expect(w, "a>A b>B");
    serve(w, 'B', OLD,
          false); /* c, which waits, cannot go to B any more; b, which is there, stays */
    assert_true(done(w, 'b'));
    expect(w, "");
    serve(w, 'B', OLD, true);
    expect(w, "c>B");
    assert_false(as_deployment_is_mixed(w->d));
    world_free(w);
}

static void test_it_is_neither_prefetched_nor_recalled_to_the_other(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "abcd", OLD);
    join_both(w, 1, 4);
    submit_all(w, "a");
    done(w, 'a'); /* now A's service time is known, so it prefetches */
    w->n = 0;
    renew_request(w, 'a');
    of_model(w, "a", OLD);
    submit_all(w, "abcd");
    expect(w, "a>A b>A c>A d>A"); /* B has a free slot, but nothing is recalled for it */
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

static void test_a_retry_goes_only_to_replicas_with_its_model(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "a", OLD);
    join_both(w, 1, 0);
    submit_all(w, "a");
    as_replica_free(rep(w, 'A'), 0, AS_LOSS_KILLED, w->now);
    expect(w, "a>A");
    assert_int_equal(as_deployment_queued(w->d), 1);
    assert_true(as_deployment_ok(w->d));
    join(w, 'C', 0, 0);
    serve(w, 'C', NEW, false);
    grant(w, 'C', 1, 0);
    expect(w, "a>C");
    world_free(w);
}

static void test_batches_go_only_to_replicas_with_their_model(void **state AS_UNUSED)
{
    struct world *w = world_new();
    struct as_batch_conf conf = {.max_size = 4};

    assert_int_equal(as_deployment_set_batching(w->d, OLD, &conf), 0);
    of_model(w, "abc", OLD);
    join_both(w, 1, 0);
    submit_all(w, "abc");
    expect(w, "a>A");
    done(w, 'a');
    expect(w, "A:2 b>A c>A");
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

static void test_a_cap_holds_beside_it(void **state AS_UNUSED)
{
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_model(w->d, OLD, 1), 0);
    of_model(w, "ab", OLD);
    join_both(w, 2, 0);
    submit_all(w, "ab");
    expect(w, "a>A");
    done(w, 'a');
    expect(w, "b>A");
    world_free(w);
}

/* --- has_fallback --- */

static void test_a_fallback_takes_what_no_replica_here_serves(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "ab", OLD);
    req(w, 'a')->has_fallback = req(w, 'b')->has_fallback = true;
    join_both(w, 1, 0);
    assert_true(as_deployment_serves(w->d, OLD));
    submit_all(w, "ab");
    as_replica_free(rep(w, 'A'), 0, AS_LOSS_KILLED, w->now); /* B serves, but not this model */
    assert_false(as_deployment_serves(w->d, OLD));
    expect(w, "a>A a=EUNAVAILABLE ~a b=EUNAVAILABLE ~b");
    renew_request(w, 'a');
    of_model(w, "a", OLD);
    req(w, 'a')->has_fallback = true;
    assert_int_equal(submit(w, 'a'), AS_EUNAVAILABLE);
    world_free(w);
}

/* --- dropped models --- */

static void test_requests_for_a_dropped_model_are_answered(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "abc", OLD);
    join_both(w, 1, 0);
    submit_all(w, "abd");
    submit_all(w, "e"); /* of model 0: it stays */
    as_replica_drain(rep(w, 'A'), true, w->now);
    w->n = 0;
    as_deployment_drop_model(w->d, OLD, w->now);
    expect(w, "b=EUNAVAILABLE ~b");
    assert_int_equal(submit(w, 'c'), AS_EUNAVAILABLE); /* its model was looked up before the drop */
    assert_true(done(w, 'a'));                         /* A ends what it has */
    done(w, 'd');
    expect(w, "e>B");
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

static void test_requests_in_lanes_for_a_dropped_model_are_answered(void **state AS_UNUSED)
{
    struct world *w = world_new();
    struct as_batch_conf conf = {.max_size = 4, .max_wait = AS_SEC};

    assert_int_equal(as_deployment_set_batching(w->d, OLD, &conf), 0);
    of_model(w, "abc", OLD);
    join_both(w, 1, 0);
    req(w, 'b')->kind = 1;
    submit_all(w, "ab"); /* both are held back for others, in lanes of their own */
    req(w, 'c')->deadline = 1;
    w->now = 0;
    as_deployment_drop_model(w->d, OLD, w->now);
    expect(w, "a=EUNAVAILABLE ~a b=EUNAVAILABLE ~b");
    assert_int_equal(submit(w, 'c'), AS_EUNAVAILABLE);
    of_model(w, "d", NEW);
    submit_all(w, "d");
    expect(w, "d>B");
    as_deployment_drop_model(w->d, NEW, w->now);
    w->n = 0;
    as_replica_free(rep(w, 'B'), 0, AS_LOSS_KILLED, w->now); /* it would be queued again */
    expect(w, "d=EUNAVAILABLE ~d");
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

static void test_a_dropped_model_can_come_back(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "ab", OLD);
    join_both(w, 1, 0);
    as_replica_free(rep(w, 'A'), 0, AS_LOSS_KILLED, w->now);
    as_deployment_drop_model(w->d, OLD, w->now);
    join(w, 'C', 1, 0); /* a new replica does not serve dropped models … */
    assert_int_equal(submit(w, 'a'), AS_EUNAVAILABLE);
    assert_true(as_deployment_ok(w->d));
    serve(w, 'C', OLD, true); /* … until as_replica_set_model */
    renew_request(w, 'a');
    of_model(w, "a", OLD);
    submit_all(w, "a");
    expect(w, "a>C");
    world_free(w);
}

/* --- suspects --- */

static void test_a_suspect_runs_where_its_model_is(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "abc", OLD);
    req(w, 'a')->kind = req(w, 'b')->kind = 7;
    req(w, 'b')->idempotent = true;
    join_both(w, 1, 0);
    submit_all(w, "a");
    as_replica_free(rep(w, 'A'), req(w, 'a')->stream, AS_LOSS_CRASHED, w->now);
    w->n = 0;
    submit_all(w, "b"); /* like a, which ended A */
    assert_int_equal(as_deployment_suspects(w->d), 1);
    expect(w, ""); /* B is idle, but does not serve the model */
    submit_all(w, "d");
    expect(w, "d>B"); /* nor is B reserved for b */
    join(w, 'C', 1, 0);
    expect(w, "b>C");
    assert_true(as_deployment_ok(w->d));
    world_free(w);
}

/* The replica that was reserved for one is free for the next suspect at once. */
static void test_suspects_of_a_model_that_is_dropped(void **state AS_UNUSED)
{
    struct world *w = world_new();

    of_model(w, "ac", OLD);
    req(w, 'a')->kind = req(w, 'c')->kind = 7;
    req(w, 'b')->kind = req(w, 'g')->kind = 8;
    join(w, 'C', 1, 0);
    submit_all(w, "a");
    as_replica_free(rep(w, 'C'), req(w, 'a')->stream, AS_LOSS_CRASHED, w->now);
    join(w, 'D', 1, 0);
    submit_all(w, "b");
    as_replica_free(rep(w, 'D'), req(w, 'b')->stream, AS_LOSS_CRASHED, w->now);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    submit_all(w, "efcg"); /* A is reserved for c, g waits for its turn */
    assert_int_equal(as_deployment_suspects(w->d), 2);
    w->n = 0;
    as_deployment_drop_model(w->d, OLD, w->now);
    assert_int_equal(as_deployment_suspects(w->d), 1);
    expect(w, "c=EUNAVAILABLE ~c");
    done(w, 'e');
    expect(w, "g>A");
    world_free(w);
}

/* --- an index that is used again --- */

static void test_an_index_is_free_when_nothing_of_it_is_left(void **state AS_UNUSED)
{
    struct world *w = world_new();
    struct as_batch_conf conf = {.max_size = 4, .max_wait = AS_SEC};

    assert_int_equal(as_deployment_set_model(w->d, OLD, 1), 0);
    of_model(w, "ab", OLD);
    join_both(w, 1, 0);
    submit_all(w, "a");
    assert_false(as_deployment_is_unused(w->d, OLD)); /* it is served */
    as_replica_drain(rep(w, 'A'), true, w->now);
    as_deployment_drop_model(w->d, OLD, w->now);
    assert_false(as_deployment_is_unused(w->d, OLD)); /* A has it, and executes */
    as_deployment_cancel(w->d, req(w, 'a'), w->now);
    assert_false(as_deployment_is_unused(w->d, OLD));
    assert_false(done(w, 'a'));
    assert_false(as_deployment_is_unused(w->d, OLD));
    as_replica_free(rep(w, 'A'), 0, AS_LOSS_KILLED, w->now);
    assert_true(as_deployment_is_unused(w->d, OLD));
    assert_int_equal(submit(w, 'b'), AS_EUNAVAILABLE); /* it is dropped all the same */
    as_deployment_forget_model(w->d, OLD);
    assert_true(as_deployment_ok(w->d));
    assert_false(as_deployment_is_mixed(w->d));
    /* another model with its own cap and batching, which B serves until it is set otherwise */
    assert_int_equal(as_deployment_set_model(w->d, OLD, 2), 0);
    assert_int_equal(as_deployment_set_batching(w->d, OLD, &conf), 0);
    conf.max_size = 5;
    assert_int_equal(as_deployment_set_batching(w->d, OLD, &conf), AS_EEXISTS);
    of_model(w, "c", OLD);
    req(w, 'c')->deadline = AS_NEVER;
    w->n = 0;
    submit_all(w, "c");
    w->now += 2 * AS_SEC;
    as_deployment_expire(w->d, w->now);
    expect(w, "c>B");
    world_free(w);
}

/* The cause of their worker's death is not known yet: they may come back. */
static void test_it_is_not_while_requests_wait_for_a_verdict(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    of_model(w, "a", OLD);
    req(w, 'a')->idempotent = true;
    req(w, 'a')->kind = 7;
    join_both(w, 1, 0);
    submit_all(w, "a");
    verdict = as_replica_free(rep(w, 'A'), req(w, 'a')->stream, AS_LOSS_PENDING, w->now);
    assert_true(verdict);
    assert_int_equal(as_deployment_parked(w->d), 1);
    as_deployment_drop_model(w->d, OLD, w->now);
    assert_false(as_deployment_is_unused(w->d, OLD));
    w->n = 0;
    as_deployment_verdict(w->d, verdict, AS_LOSS_KILLED, w->now);
    expect(w, "a=EUNAVAILABLE ~a");
    assert_true(as_deployment_is_unused(w->d, OLD));
    world_free(w);
}

/* What requests of the former model did must not be blamed on the next model. */
static void test_requests_are_not_blamed_for_the_former_model(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    of_model(w, "abc", OLD);
    req(w, 'a')->kind = req(w, 'b')->kind = req(w, 'c')->kind = 7;
    join_both(w, 1, 0);
    join(w, 'C', 1, 0);
    submit_all(w, "a");
    as_replica_free(rep(w, 'A'), req(w, 'a')->stream, AS_LOSS_CRASHED, w->now);
    submit_all(w, "b"); /* a suspect, alone at C; the cause of C's death stays unknown */
    verdict = as_replica_free(rep(w, 'C'), req(w, 'b')->stream, AS_LOSS_PENDING, w->now);
    as_deployment_drop_model(w->d, OLD, w->now);
    assert_false(as_deployment_is_unused(w->d, OLD)); /* b's body may have to be read */
    w->now += 2 * AS_SEC;                             /* repeat_verdict_wait */
    as_deployment_expire(w->d, w->now);               /* now it has been read */
    assert_true(as_deployment_is_unused(w->d, OLD));
    as_deployment_forget_model(w->d, OLD);
    assert_true(as_deployment_ok(w->d));
    as_deployment_verdict(w->d, verdict, AS_LOSS_CRASHED, w->now);
    assert_int_equal(as_deployment_poisons(w->d), 0);
    w->n = 0;
    submit_all(w, "c");
    expect(w, "c>B");
    assert_int_equal(as_deployment_suspects(w->d), 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_goes_only_to_replicas_with_its_model),
        cmocka_unit_test(test_it_waits_for_a_replica_that_has_it),
        cmocka_unit_test(test_all_replicas_serve_all_models_until_it_is_set),
        cmocka_unit_test(test_it_is_neither_prefetched_nor_recalled_to_the_other),
        cmocka_unit_test(test_a_retry_goes_only_to_replicas_with_its_model),
        cmocka_unit_test(test_batches_go_only_to_replicas_with_their_model),
        cmocka_unit_test(test_a_cap_holds_beside_it),
        cmocka_unit_test(test_a_fallback_takes_what_no_replica_here_serves),
        cmocka_unit_test(test_requests_for_a_dropped_model_are_answered),
        cmocka_unit_test(test_requests_in_lanes_for_a_dropped_model_are_answered),
        cmocka_unit_test(test_a_dropped_model_can_come_back),
        cmocka_unit_test(test_a_suspect_runs_where_its_model_is),
        cmocka_unit_test(test_suspects_of_a_model_that_is_dropped),
        cmocka_unit_test(test_an_index_is_free_when_nothing_of_it_is_left),
        cmocka_unit_test(test_it_is_not_while_requests_wait_for_a_verdict),
        cmocka_unit_test(test_requests_are_not_blamed_for_the_former_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
