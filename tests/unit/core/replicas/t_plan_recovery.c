/* Specification of core/replicas/plan: a new controller adopts the running processes. */
#include "plan_world.h"

/* The notes of three healthy replicas, 0 … 2. */
static struct as_replica_slot_facts note(uint32_t n)
{
    return (struct as_replica_slot_facts){.number = n,
                                          .generation = 1,
                                          .version = 1,
                                          .config = 1,
                                          .rank = n,
                                          .rank_next = n,
                                          .world = 3,
                                          .starts = 1,
                                          .ready = true};
}

/* A controller that has read its store, in which the target was reached. */
static void returns(struct world *w)
{
    world_init(w);
    deploy(w);
    as_plan_restore(w->p, &usual, NULL, AS_STR(""), w->now);
    as_plan_set_serving(w->p, true, w->now);
}

static int adopt(struct world *w, struct as_replica_slot_facts f)
{
    struct as_replica_slot *slot;

    return as_plan_adopt(w->p, &f, w->now, &slot);
}

static void adopt_good(struct world *w, uint32_t n)
{
    assert_int_equal(adopt(w, note(n)), 0);
}

static void test_running_replicas_are_adopted(void **state_ AS_UNUSED)
{
    struct world w;

    returns(&w);
    for (uint32_t i = 0; i < 3; i++)
        adopt_good(&w, i);
    as_plan_run(w.p, w.now);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(state(&w, i), AS_REPLICA_SLOT_LOST); /* until its link is reported */
        ready(&w, i);
    }
    expect(&w, "");
    assert_int_equal(as_plan_condition(w.p)->status, AS_STATUS_HEALTHY);
    assert_true(as_plan_is_settled(w.p));
    world_fini(&w);
}

struct search {
    uint32_t number;
    struct as_replica_slot *found;
};

static void look_at(void *arg, struct as_replica_slot *slot)
{
    struct search *s = arg;

    if (as_replica_slot_facts(slot)->number == s->number)
        s->found = slot;
}

/* The same as that of looking at each slot, with any number of slots and any gaps. */
static void test_a_slot_is_found_by_its_number(void **state_ AS_UNUSED)
{
    static const uint32_t numbers[] = {7, 0, 3, 1, 40, 12, 13, 41, 4, 2, 38};
    struct world w;

    returns(&w);
    for (uint32_t n = 0; n <= AS_COUNT(numbers); n++) {
        for (uint32_t i = 0; i < 45; i++) {
            struct search s = {.number = i};

            as_plan_each(w.p, look_at, &s);
            assert_ptr_equal(as_plan_find(w.p, i), s.found);
        }
        assert_null(as_plan_find(w.p, UINT32_MAX));
        if (n < AS_COUNT(numbers)) {
            struct as_replica_slot_facts f = note(n);

            f.number = numbers[n];
            assert_null(as_plan_find(w.p, f.number));
            assert_int_equal(adopt(&w, f), 0);
            assert_int_equal(as_replica_slot_facts(as_plan_find(w.p, f.number))->number, f.number);
        }
    }
    world_fini(&w);
}

static void test_missing_replicas_are_started(void **state_ AS_UNUSED)
{
    struct world w;

    returns(&w);
    adopt_good(&w, 0);
    adopt_good(&w, 2);
    as_plan_run(w.p, w.now);
    expect(&w, "UNHEALTHY +1");
    assert_int_equal(rank(&w, 1), 1); /* the same name and rank */
    world_fini(&w);
}

static void test_a_starting_process_is_adopted(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f = note(1);
    struct world w;

    returns(&w);
    w.starts.max = 1;
    f.ready = false;
    adopt_good(&w, 0);
    assert_int_equal(adopt(&w, f), 0);
    as_plan_run(w.p, w.now);
    expect(&w, "UNHEALTHY"); /* no other starts before it is READY */
    assert_int_equal(state(&w, 1), AS_REPLICA_SLOT_STARTING);
    ready(&w, 1);
    expect(&w, "+2");
    world_fini(&w);
}

static void test_a_retiring_process_goes_on_ending(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f = note(3);
    struct world w;

    returns(&w);
    for (uint32_t i = 0; i < 3; i++)
        adopt_good(&w, i);
    f.retiring = true;
    assert_int_equal(adopt(&w, f), 0);
    as_plan_run(w.p, w.now);
    expect(&w, "-3");
    ends(&w, 3);
    expect(&w, "~3");
    world_fini(&w);
}

/* It drains by the timeout of its own version, which is known when recovery is complete. */
static void test_it_drains_by_the_timeout_of_its_version(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f = note(3);
    struct as_plan_target t = usual;
    struct world w;

    world_init(&w);
    w.t.generation = w.t.version = 2;
    w.t.replicas = 0;
    w.t.policy.drain_timeout = AS_SEC;
    deploy(&w);
    as_plan_set_serving(w.p, true, w.now);
    f.retiring = true;
    assert_int_equal(adopt(&w, f), 0);
    t.policy.drain_timeout = 3 * AS_SEC;
    as_plan_restore(w.p, &t, NULL, AS_STR(""), w.now);
    as_plan_run(w.p, w.now);
    w.n = 0;
    pass(&w, 3 * AS_SEC - 1);
    expect(&w, "-3"); /* again */
    pass(&w, 1);
    expect(&w, "!3");
    world_fini(&w);
}

/* It is not known whether it was told its new rank: it is told again, and both ranks are held. */
static void test_a_slot_whose_rank_was_moving(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f = note(4);
    struct world w;

    returns(&w);
    adopt_good(&w, 0);
    adopt_good(&w, 1);
    f.rank_next = 2;
    f.unsure = true;
    assert_int_equal(adopt(&w, f), 0);
    as_plan_run(w.p, w.now);
    ready(&w, 4);
    expect(&w, "?4:r2");
    answer(&w, 4, true);
    ready(&w, 0);
    ready(&w, 1);
    assert_true(as_plan_is_settled(w.p));
    assert_int_equal(rank(&w, 4), 2);
    world_fini(&w);
}

static void test_an_unconfirmed_config_is_sent_again(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f = note(0);
    struct world w;

    returns(&w);
    f.unsure = true;
    assert_int_equal(adopt(&w, f), 0);
    adopt_good(&w, 1);
    adopt_good(&w, 2);
    as_plan_run(w.p, w.now);
    ready(&w, 0);
    expect(&w, "?0");
    assert_int_equal(w.to.config, 1);
    world_fini(&w);
}

/* Two processes claim one rank, which is impossible: the younger one is killed. */
static void test_two_processes_of_one_rank(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f = note(1);
    struct world w;

    returns(&w);
    adopt_good(&w, 0);
    f.rank = f.rank_next = 0;
    assert_int_equal(adopt(&w, f), 0);
    adopt_good(&w, 2);
    as_plan_run(w.p, w.now);
    expect(&w, "UNHEALTHY x1 +3"); /* its number is taken until it is dead */
    assert_int_equal(rank(&w, 0), 0);
    assert_int_equal(rank(&w, 1), AS_RANK_NONE);
    assert_int_equal(rank(&w, 3), 1);
    died(&w, 1, AS_EXIT_STOPPED);
    expect(&w, "~1");
    world_fini(&w);
}

static void test_two_processes_of_one_number(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f = note(0);
    struct world w;

    returns(&w);
    adopt_good(&w, 0);
    f.rank = f.rank_next = 1;
    assert_int_equal(adopt(&w, f), AS_EEXISTS);
    world_fini(&w);
}

static void test_impossible_facts_are_refused(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f;
    struct world w;

    returns(&w);
#define UNBELIEVABLE(field, bad, good)                                                             \
    f = note(0);                                                                                   \
    f.field = (bad);                                                                               \
    assert_int_equal(adopt(&w, f), AS_EINVALID);                                                   \
    f.field = (good);                                                                              \
    assert_int_equal(adopt(&w, f), 0);                                                             \
    as_plan_free(w.p);                                                                             \
    world_init(&w);                                                                                \
    deploy(&w);
    UNBELIEVABLE(rank, AS_RANKS_MAX, AS_RANKS_MAX - 1)
    UNBELIEVABLE(rank_next, AS_RANKS_MAX, AS_RANKS_MAX - 1)
    UNBELIEVABLE(number, 1000000, 999999)
    UNBELIEVABLE(generation, 0, 1)
    world_fini(&w);
}

/* The update goes on where it was; whether the new version works is found out again. */
static void test_in_the_middle_of_an_update(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f = note(3);
    struct world w;

    world_init(&w);
    w.t.generation = w.t.version = 2;
    deploy(&w);
    as_plan_restore(w.p, &usual, NULL, AS_STR(""), w.now);
    as_plan_set_serving(w.p, true, w.now);
    for (uint32_t i = 0; i < 3; i++)
        adopt_good(&w, i);
    f.generation = f.version = 2;
    assert_int_equal(adopt(&w, f), 0);
    as_plan_run(w.p, w.now);
    expect(&w, "");
    for (uint32_t i = 0; i < 3; i++)
        ready(&w, i);
    expect(&w, "");
    ready(&w, 3);
    expect(&w, "-2");
    world_fini(&w);
}

static void test_an_update_that_had_failed(void **state_ AS_UNUSED)
{
    struct world w;

    world_init(&w);
    deploy(&w);
    as_plan_restore(w.p, &usual, NULL, AS_STR("version 2 ended"), w.now);
    as_plan_set_serving(w.p, true, w.now);
    for (uint32_t i = 0; i < 3; i++)
        adopt_good(&w, i);
    as_plan_run(w.p, w.now);
    for (uint32_t i = 0; i < 3; i++)
        ready(&w, i);
    assert_int_equal(as_plan_condition(w.p)->status, AS_STATUS_DEPLOY_FAILED);
    assert_true(as_plan_condition(w.p)->rolled_back);
    assert_true(as_plan_is_settled(w.p));
    world_fini(&w);
}

static void test_one_that_died_from_outside_right_after(void **state_ AS_UNUSED)
{
    struct world w;

    returns(&w);
    for (uint32_t i = 0; i < 3; i++)
        adopt_good(&w, i);
    as_plan_run(w.p, w.now);
    died(&w, 1, AS_EXIT_KILLED); /* it had been ready: at once */
    pass(&w, 0);
    expect(&w, "UNHEALTHY +1");
    world_fini(&w);
}

static void test_answers_to_the_previous_controller_are_ignored(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts f = note(0);
    struct world w, before;

    world_healthy(&before);
    before.t.generation = before.t.config = 2;
    deploy(&before);
    world_init(&w);
    as_plan_free(w.p);
    assert_int_equal(as_plan_new(&w.p, AS_STR("d"), &w.starts, 8, &world_ops, &w), 0);
    w.t = before.t;
    w.t.replicas = 1;
    f.unsure = true;
    deploy(&w);
    assert_int_equal(adopt(&w, f), 0);
    as_plan_set_serving(w.p, true, w.now);
    as_plan_run(w.p, w.now);
    ready(&w, 0);
    expect(&w, "?0");
    as_replica_slot_configured(slot_of(&w, 0), before.ask, true, AS_STR(""), w.now);
    assert_int_equal(state(&w, 0), AS_REPLICA_SLOT_UPDATING);
    answer(&w, 0, true);
    assert_int_equal(state(&w, 0), AS_REPLICA_SLOT_RUNNING);
    world_fini(&w);
    world_fini(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_running_replicas_are_adopted),
        cmocka_unit_test(test_a_slot_is_found_by_its_number),
        cmocka_unit_test(test_missing_replicas_are_started),
        cmocka_unit_test(test_a_starting_process_is_adopted),
        cmocka_unit_test(test_a_retiring_process_goes_on_ending),
        cmocka_unit_test(test_it_drains_by_the_timeout_of_its_version),
        cmocka_unit_test(test_a_slot_whose_rank_was_moving),
        cmocka_unit_test(test_an_unconfirmed_config_is_sent_again),
        cmocka_unit_test(test_two_processes_of_one_rank),
        cmocka_unit_test(test_two_processes_of_one_number),
        cmocka_unit_test(test_impossible_facts_are_refused),
        cmocka_unit_test(test_in_the_middle_of_an_update),
        cmocka_unit_test(test_an_update_that_had_failed),
        cmocka_unit_test(test_one_that_died_from_outside_right_after),
        cmocka_unit_test(test_answers_to_the_previous_controller_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
