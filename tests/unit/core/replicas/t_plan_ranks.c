/* Specification of the ranks in core/replicas/plan: unique at every moment, 0 … N-1 once healthy,
 * and changed only if necessary. */
#include "plan_world.h"

static void test_ranks_are_given_in_order(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(rank(&w, i), i);
    world_fini(&w);
}

static void test_the_replacement_of_a_crashed_one_has_its_rank(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    died(&w, 1, AS_EXIT_KILLED);
    assert_int_equal(rank(&w, 0), 0);
    assert_int_equal(rank(&w, 1), 1);
    /* also if the deployment is scaled up while they are dead */
    as_plan_scale(w.p, 4, false, w.now);
    assert_int_equal(rank(&w, 3), 3);
    pass(&w, AS_SEC);
    assert_int_equal(rank(&w, 0), 0);
    assert_int_equal(rank(&w, 1), 1);
    world_fini(&w);
}

static void test_a_rank_is_free_when_the_process_is_dead(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_scale(w.p, 2, false, w.now);
    expect(&w, "DOWNSCALING -2 ?0 ?1");
    as_replica_slot_retired(slot_of(&w, 2), w.now);
    as_plan_scale(w.p, 3, false, w.now);
    assert_int_equal(rank(&w, 2), 2); /* it still has it */
    assert_int_equal(rank(&w, 3), 3);
    world_fini(&w);
}

static void test_a_new_one_takes_the_lowest_free_rank(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    as_plan_scale(w.p, 2, false, w.now); /* the dead slot is removed, and rank 0 is free */
    assert_null(find_place(&w, 0));
    as_plan_scale(w.p, 4, false, w.now);
    assert_int_equal(rank(&w, 0), 0);
    assert_int_equal(rank(&w, 3), 3);
    world_fini(&w);
}

/* Its rank is then given to the one with the highest. */
static void test_the_one_with_the_fewest_requests_is_retired(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_replica_slot_set_load(slot_of(&w, 0), 2);
    as_replica_slot_set_load(slot_of(&w, 1), 0);
    as_replica_slot_set_load(slot_of(&w, 2), 1);
    as_plan_scale(w.p, 2, true, w.now);
    expect(&w, "DOWNSCALING -1 ?0 ?2");
    assert_int_equal(rank(&w, 2), 2);
    world_fini(&w);
}

static void test_of_equal_ones_that_with_the_highest_rank_is_retired(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    for (uint32_t i = 0; i < 3; i++)
        as_replica_slot_set_load(slot_of(&w, i), 7);
    as_plan_scale(w.p, 2, true, w.now);
    expect(&w, "DOWNSCALING -2 ?0 ?1");
    world_fini(&w);
}

/* A handler that runs keeps its process from answering. */
static void test_nobody_is_killed_for_a_number_that_it_has_not_answered(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_scale(w.p, 2, true, w.now);
    expect(&w, "DOWNSCALING -2 ?0 ?1");
    pass(&w, 100 * usual.policy.configure_timeout);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(as_replica_slot_state(slot_of(&w, i)), AS_REPLICA_SLOT_UPDATING);
    world_fini(&w);
}

/* Ranks 1 and 2 of two replicas: the higher one moves to the gap, the other stays. */
static void test_the_fewest_ranks_move(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    expect(&w, "UNHEALTHY");
    as_plan_scale(w.p, 2, false, w.now);
    expect(&w, "DOWNSCALING ~0 ?1 ?2"); /* ranks move last */
    as_replica_slot_configured(slot_of(&w, 1), w.ask - 1, true, AS_STR(""), w.now);
    expect(&w, "");
    answer(&w, 2, true);
    expect(&w, "?2:r0");
    assert_int_equal(w.to.world, 2);
    assert_int_equal(rank(&w, 2), 2); /* until it has confirmed it */
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 2))->rank_next, 0);
    answer(&w, 2, true);
    expect(&w, "HEALTHY");
    assert_int_equal(rank(&w, 1), 1);
    assert_int_equal(rank(&w, 2), 0);
    world_fini(&w);
}

static void test_during_a_move_both_ranks_are_taken(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    as_plan_scale(w.p, 2, false, w.now);
    as_replica_slot_configured(slot_of(&w, 1), w.ask - 1, true, AS_STR(""), w.now);
    answer(&w, 2, true);
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 2))->rank_next, 0);
    as_plan_scale(w.p, 4, false, w.now);
    assert_int_equal(rank(&w, 0), 3); /* 0 is reserved for a move, 1 and 2 are held */
    assert_int_equal(rank(&w, 3), 4);
    world_fini(&w);
}

/* The process may have been told: the next process of the slot gets the new rank. */
static void test_one_that_dies_while_it_moves(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    as_plan_scale(w.p, 2, false, w.now);
    as_replica_slot_configured(slot_of(&w, 1), w.ask - 1, true, AS_STR(""), w.now);
    answer(&w, 2, true);
    died(&w, 2, AS_EXIT_KILLED);
    pass(&w, 0);
    assert_int_equal(state(&w, 2), AS_REPLICA_SLOT_STARTING);
    assert_int_equal(rank(&w, 2), 0);
    world_fini(&w);
}

static void test_a_configure_is_repeated_after_a_lost_link(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    as_plan_scale(w.p, 2, false, w.now);
    as_replica_slot_configured(slot_of(&w, 1), w.ask - 1, true, AS_STR(""), w.now);
    answer(&w, 2, true);
    as_replica_slot_lost(slot_of(&w, 2), w.now);
    w.n = 0;
    answer(&w, 2, true); /* too late: it may have come over the old link */
    expect(&w, "");
    ready(&w, 2);
    expect(&w, "?2:r0");
    answer(&w, 2, true);
    expect(&w, "HEALTHY");
    world_fini(&w);
}

/* User code may refuse a rank. Then a new process is started with the free rank. */
static void test_a_refused_rank_replaces_the_process(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    as_plan_scale(w.p, 2, false, w.now);
    as_replica_slot_configured(slot_of(&w, 1), w.ask - 1, true, AS_STR(""), w.now);
    answer(&w, 2, true);
    w.n = 0;
    answer(&w, 2, false);
    expect(&w, "+0");
    assert_int_equal(rank(&w, 0), 0);
    assert_int_equal(rank(&w, 2), 2);
    ready(&w, 0);
    expect(&w, "-2");
    ends(&w, 2);
    expect(&w, "~2 HEALTHY");
    world_fini(&w);
}

/* The first answer was lost with the link, so it may have that rank: no other slot gets either of
 * them. */
static void test_a_rank_refused_after_a_lost_answer_stays_taken(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    as_plan_scale(w.p, 2, false, w.now);
    as_replica_slot_configured(slot_of(&w, 1), w.ask - 1, true, AS_STR(""), w.now);
    answer(&w, 2, true);
    as_replica_slot_lost(slot_of(&w, 2), w.now);
    ready(&w, 2);
    w.n = 0;
    answer(&w, 2, false);
    expect(&w, "+0");
    assert_int_equal(rank(&w, 0), 3);
    ready(&w, 0);
    ends(&w, 2);
    expect(&w, "-2 ~2 ?0:r0");
    world_fini(&w);
}

static void test_an_update_ends_with_the_same_ranks(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.generation = w.t.version = 2;
    deploy(&w);
    assert_int_equal(rank(&w, 3), 3); /* beyond N, while the old ones hold 0 … 2 */
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    assert_true(as_plan_is_settled(w.p));
    world_fini(&w);
}

/* The set of ranks itself. */
static void test_the_set_of_ranks(void **state_ AS_UNUSED)
{
    struct as_ranks *r = as_xalloc(sizeof(*r));

    for (uint32_t i = 0; i < AS_RANKS_MAX; i++) {
        assert_int_equal(as_ranks_lowest_free(r), i);
        as_ranks_reserve(r, i);
    }
    assert_int_equal(as_ranks_lowest_free(r), AS_RANKS_MAX);
    assert_int_equal(r->n, AS_RANKS_MAX);
    as_ranks_release(r, AS_RANKS_MAX - 1);
    as_ranks_release(r, 64);
    assert_false(as_ranks_is_held(r, 64));
    assert_true(as_ranks_is_held(r, 63) && as_ranks_is_held(r, 65));
    assert_int_equal(as_ranks_lowest_free(r), 64);
    assert_int_equal(r->n, AS_RANKS_MAX - 2);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_are_given_in_order),
        cmocka_unit_test(test_the_replacement_of_a_crashed_one_has_its_rank),
        cmocka_unit_test(test_a_rank_is_free_when_the_process_is_dead),
        cmocka_unit_test(test_a_new_one_takes_the_lowest_free_rank),
        cmocka_unit_test(test_the_one_with_the_fewest_requests_is_retired),
        cmocka_unit_test(test_of_equal_ones_that_with_the_highest_rank_is_retired),
        cmocka_unit_test(test_nobody_is_killed_for_a_number_that_it_has_not_answered),
        cmocka_unit_test(test_the_fewest_ranks_move),
        cmocka_unit_test(test_during_a_move_both_ranks_are_taken),
        cmocka_unit_test(test_one_that_dies_while_it_moves),
        cmocka_unit_test(test_a_configure_is_repeated_after_a_lost_link),
        cmocka_unit_test(test_a_refused_rank_replaces_the_process),
        cmocka_unit_test(test_a_rank_refused_after_a_lost_answer_stays_taken),
        cmocka_unit_test(test_an_update_ends_with_the_same_ranks),
        cmocka_unit_test(test_the_set_of_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
