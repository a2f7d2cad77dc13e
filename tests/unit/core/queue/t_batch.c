/* Specification of core/queue/batch: sizes and times; and of batching in core/dispatch/deployment.
 */
#include "core/queue/queue.h"
#include "deployment_world.h"

static const struct as_batch_conf plain = {.max_size = 8};
static const struct as_batch_conf eager = {
    .max_size = 64, .n_preferred = 3, .preferred = {4, 8, 32}};

static void test_without_preferred_sizes_a_full_batch_is_enough(void **state AS_UNUSED)
{
    assert_int_equal(as_batch_enough(&plain), 8);
    assert_int_equal(as_batch_limit(&plain, 1), 8);
    assert_int_equal(as_batch_limit(&plain, 100), 8);
}

static void test_the_largest_preferred_size_that_is_there_is_taken(void **state AS_UNUSED)
{
    assert_int_equal(as_batch_enough(&eager), 4);
    assert_int_equal(as_batch_limit(&eager, 3), 64); /* less than any preferred size: max_size */
    assert_int_equal(as_batch_limit(&eager, 4), 4);
    assert_int_equal(as_batch_limit(&eager, 31), 8);
    assert_int_equal(as_batch_limit(&eager, 32), 32);
    assert_int_equal(as_batch_limit(&eager, 1000), 32);
}

static void test_a_request_is_held_for_max_wait_and_never_into_its_deadline(void **state AS_UNUSED)
{
    struct as_batch_conf c = {.max_size = 8, .max_wait = 1000};

    assert_int_equal(as_batch_hold_until(&plain, AS_NEVER, 0, 5000), 0);
    assert_int_equal(as_batch_hold_until(&c, AS_NEVER, 0, 5000), 6000);
    assert_int_equal(as_batch_hold_until(&c, 9000, 0, 5000), 6000);
    /* half of the time that the handler's 600 leave */
    assert_int_equal(as_batch_hold_until(&c, 7600, 600, 5000), 6000);
    assert_int_equal(as_batch_hold_until(&c, 7598, 600, 5000), 5999);
    assert_int_equal(as_batch_hold_until(&c, 5602, 600, 5000), 5001);
    assert_int_equal(as_batch_hold_until(&c, 5600, 600, 5000), 0);
    assert_int_equal(as_batch_hold_until(&c, 500, 600, 100), 0); /* it will be late anyway */
    /* the time of a call is unknown */
    assert_int_equal(as_batch_hold_until(&c, 7000, 0, 5000), 6000);
    assert_int_equal(as_batch_hold_until(&c, 6998, 0, 5000), 0);
}

static void check_refused(struct as_batch_conf c, const char *why)
{
    assert_string_equal(as_batch_check(&c), why);
}

static void test_settings_are_checked(void **state AS_UNUSED)
{
    struct as_batch_conf none = {0}, most = {.max_size = 65535, .max_wait = 60 * AS_SEC};

    assert_null(as_batch_check(&none));
    assert_null(as_batch_check(&most));
    assert_null(as_batch_check(&eager));
    check_refused((struct as_batch_conf){.max_size = 65536},
                  "max_batch_size must be at most 65535");
    check_refused((struct as_batch_conf){.max_size = 1, .max_wait = 60 * AS_SEC + 1},
                  "max_wait must be at most 60 s");
    check_refused((struct as_batch_conf){.ragged = true}, "batching needs max_batch_size");
    check_refused((struct as_batch_conf){.max_size = 4, .n_preferred = 17},
                  "there may be at most 16 preferred sizes");
    check_refused((struct as_batch_conf){.max_size = 4, .n_preferred = 1, .preferred = {5}},
                  "preferred sizes must be 1 to max_batch_size");
    check_refused((struct as_batch_conf){.max_size = 4, .n_preferred = 2, .preferred = {2, 2}},
                  "preferred sizes must rise");
}

/* --- in a deployment: model 0 has batching, model 1 has not --- */

static struct world *batching(uint32_t max_size, as_ns max_wait)
{
    struct as_batch_conf c = {.max_size = max_size, .max_wait = max_wait};
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_batching(w->d, 0, &c), 0);
    return w;
}

static void test_what_comes_while_the_slot_is_taken_goes_together(void **state AS_UNUSED)
{
    struct world *w = batching(3, 0);

    join(w, 'X', 1, 0);
    submit_all(w, "abcdef");
    expect(w, "a>X");
    done(w, 'a');
    expect(w, "X:3 b>X c>X d>X");
    assert_int_equal(as_deployment_ongoing(w->d), 3);
    assert_int_equal(as_deployment_queued(w->d), 2);
    done(w, 'c');
    done(w, 'b');
    expect(w, ""); /* one of the three still runs: the slot is taken */
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    done(w, 'd');
    expect(w, "X:2 e>X f>X");
    assert_int_equal(as_deployment_stat(w->d)->batches, 3);
    assert_int_equal(as_deployment_stat(w->d)->batch.bucket[1], 1); /* of 2 */
    assert_int_equal(as_deployment_stat(w->d)->batch.bucket[2], 1); /* of 3 or 4 */
    world_free(w);
}

static void test_items_count_and_order_stays(void **state AS_UNUSED)
{
    struct world *w = batching(8, 0);

    join(w, 'X', 1, 0);
    req(w, 'b')->items = 5;
    req(w, 'c')->items = 4; /* does not fit after b; d would fit, but does not overtake it */
    submit_all(w, "abcd");
    done(w, 'a');
    expect(w, "a>X b>X");
    done(w, 'b');
    expect(w, "X:2 c>X d>X");
    world_free(w);
}

static void test_only_alike_requests_share_a_call(void **state AS_UNUSED)
{
    struct world *w = batching(8, 0);

    join(w, 'X', 1, 0);
    req(w, 'c')->kind = 7;
    req(w, 'e')->kind = 7;
    req(w, 'f')->idempotent = true; /* the same kind (hash) as b, but not alike */
    req(w, 'g')->model = 1;
    submit_all(w, "abcdefg");
    done(w, 'a');
    expect(w, "a>X X:2 b>X d>X");
    done(w, 'b');
    done(w, 'd');
    expect(w, "X:2 c>X e>X");
    done(w, 'c');
    done(w, 'e');
    expect(w, "f>X");
    done(w, 'f');
    expect(w, "g>X");
    world_free(w);
}

static void test_more_kinds_than_lanes_go_one_by_one(void **state AS_UNUSED)
{
    struct as_request q[AS_QUEUE_KINDS_MAX + 3];
    struct as_batch_conf c = {.max_size = 8, .max_wait = AS_SEC};
    struct as_queue u;

    as_queue_init(&u);
    as_queue_add_batching(&u, 0, UINT32_MAX, &c);
    for (uint32_t i = 0; i < AS_COUNT(q); i++) {
        as_request_init(&q[i]);
        as_request_set_state(&q[i], AS_REQ_QUEUED);
        q[i].order = i + 1;
        q[i].hold_until = AS_SEC;
        q[i].kind = AS_MIN(i, AS_QUEUE_KINDS_MAX + 1);
        as_queue_push(&u, &q[i]);
    }
    /* the last three got no lane of their own, and go one by one */
    assert_ptr_equal(as_queue_first_for(&u, &(struct as_replica_capacity){.may_execute = true}),
                     &q[AS_QUEUE_KINDS_MAX]);
    assert_true(as_queue_ok(&u));
    assert_true(as_queue_next_release(&u) == AS_SEC);
    /* an empty lane is used again for another kind */
    as_queue_remove(&u, &q[5]);
    q[5].kind = 1000;
    as_queue_push(&u, &q[5]);
    assert_false(q[5].lane->one_by_one);
    for (uint32_t i = 0; i < AS_COUNT(q); i++)
        as_queue_remove(&u, &q[i]);
    assert_true(as_queue_ok(&u));
    as_queue_fini(&u);
}

static void test_held_back_until_full_or_due(void **state AS_UNUSED)
{
    struct world *w = batching(3, 1000);

    join(w, 'X', 2, 0);
    submit_all(w, "ab");
    expect(w, "");
    assert_true(as_deployment_next_deadline(w->d) == w->now + 1000);
    submit_all(w, "c");
    expect(w, "X:3 a>X b>X c>X"); /* full */
    w->now += 10;
    submit_all(w, "de");
    w->now += 999;
    as_deployment_expire(w->d, w->now);
    expect(w, "");
    w->now += 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "X:2 d>X e>X"); /* due */
    world_free(w);
}

static void test_a_deadline_shortens_the_wait(void **state AS_UNUSED)
{
    struct world *w = batching(8, 1000 * AS_US);

    join(w, 'X', 1, 0);
    req(w, 'a')->deadline = w->now + 50 * AS_US; /* the handler's time is unknown */
    submit_all(w, "a");
    expect(w, "a>X");
    done_with(w, 'a', 20 * AS_US, false);
    req(w, 'b')->deadline = w->now + 70 * AS_US;
    submit_all(w, "bc");
    expect(w, "");
    /* half of what its 20 us leave */
    assert_true(as_deployment_next_deadline(w->d) == w->now + 25 * AS_US);
    w->now += 25 * AS_US;
    as_deployment_expire(w->d, w->now);
    expect(w, "X:2 b>X c>X");
    world_free(w);
}

static void test_a_request_that_leaves_a_batch_ends_alone(void **state AS_UNUSED)
{
    struct world *w = batching(8, 0);

    join(w, 'X', 1, 0);
    req(w, 'c')->deadline = w->now + 15 * AS_US;
    req(w, 'd')->deadline = w->now + 1000 * AS_US;
    submit_all(w, "abcde");
    as_deployment_cancel(w->d, req(w, 'b'), w->now); /* while it waits */
    expect(w, "a>X ~b");
    done(w, 'a');
    expect(w, "X:3 c>X d>X e>X");
    w->now += 10 * AS_US;
    as_deployment_expire(w->d, w->now); /* while it runs */
    expect(w, "c!D c=EDEADLINE");
    as_deployment_cancel(w->d, req(w, 'd'), w->now);
    expect(w, "d!C");
    assert_true(done(w, 'e'));
    assert_false(done(w, 'c'));
    submit_all(w, "f");
    expect(w, "~c"); /* d still runs and has the slot */
    assert_false(done(w, 'd'));
    expect(w, "~d f>X");
    world_free(w);
}

static void test_an_expired_request_is_not_sent(void **state AS_UNUSED)
{
    struct world *w = batching(8, 0);

    join(w, 'X', 1, 0);
    req(w, 'b')->deadline = w->now + 1;
    submit_all(w, "abcd");
    expect(w, "a>X");
    done(w, 'a'); /* the timer for b is late */
    expect(w, "b=EDEADLINE ~b X:2 c>X d>X");
    world_free(w);
}

static void test_a_death_retries_a_batch_as_one(void **state AS_UNUSED)
{
    struct world *w = batching(8, 1000);

    join(w, 'X', 1, 0);
    join(w, 'Y', 1, 0);
    req(w, 'a')->model = req(w, 'b')->model = 1;
    submit_all(w, "ab");
    expect(w, "a>X b>Y");
    submit_all(w, "cde");
    w->now += 1000;
    as_deployment_expire(w->d, w->now);
    done(w, 'a');
    expect(w, "X:3 c>X d>X e>X");
    done(w, 'b');
    expect(w, "");
    as_replica_free(rep(w, 'X'), 1, AS_LOSS_KILLED, w->now); /* before it started them */
    expect(w, "Y:3 c>Y d>Y e>Y");
    as_replica_free(rep(w, 'Y'), UINT64_MAX, AS_LOSS_KILLED, w->now);
    expect(w, "c=EMAYHAVERUN ~c d=EMAYHAVERUN ~d e=EMAYHAVERUN ~e");
    world_free(w);
}

static void test_a_batch_is_recalled_when_its_slot_went(void **state AS_UNUSED)
{
    struct world *w = batching(2, 0);

    join(w, 'X', 2, 0);
    submit_all(w, "abc");
    submit_all(w, "de");
    expect(w, "a>X b>X");
    done(w, 'b');
    expect(w, "X:2 c>X d>X");
    grant(w, 'X', 1, 0); /* c and d wait in X now */
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    assert_int_equal(as_deployment_prefetched(w->d), 2);
    join(w, 'Y', 2, 0);
    expect(w, "e>Y X<cd");
    returned(w, 'X', "cd");
    expect(w, "c>Y"); /* each comes back by itself: the first gets the slot */
    world_free(w);
}

static void test_a_full_queue_takes_a_request_that_makes_a_batch_due(void **state AS_UNUSED)
{
    struct as_batch_conf c = {.max_size = 2, .max_wait = AS_MS};
    struct world *w = world_new_with(1, AS_ROUTER_LATE_BINDING);

    assert_int_equal(as_deployment_set_batching(w->d, 0, &c), 0);
    join(w, 'X', 1, 0);
    submit_all(w, "a");
    req(w, 'b')->kind = 1;
    assert_int_equal(submit(w, 'b'), AS_EFULL); /* it would wait */
    submit_all(w, "c");                         /* it would not wait */
    expect(w, "X:2 a>X c>X");
    world_free(w);
}

static void test_settings_are_made_once(void **state AS_UNUSED)
{
    struct as_batch_conf c = {.max_size = 2}, other = {.max_size = 3}, none = {0};
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_batching(w->d, 0, &c), 0);
    assert_int_equal(as_deployment_set_batching(w->d, 0, &c), 0);
    assert_int_equal(as_deployment_set_batching(w->d, 0, &other), AS_EEXISTS);
    assert_int_equal(as_deployment_set_batching(w->d, 1, &none), 0);
    assert_int_equal(as_deployment_set_batching(w->d, AS_DEPLOYMENT_MODELS_MAX, &c), AS_EINVALID);
    world_free(w);
}

static void test_a_cap_counts_batches(void **state AS_UNUSED)
{
    struct as_batch_conf c = {.max_size = 2};
    struct world *w = world_new();

    assert_int_equal(as_deployment_set_model(w->d, 0, 1), 0);
    assert_int_equal(as_deployment_set_batching(w->d, 0, &c), 0);
    join(w, 'X', 2, 0);
    req(w, 'f')->model = 1;
    submit_all(w, "abcde");
    expect(w, "a>X");
    submit_all(w, "f");
    expect(w, "f>X");
    done(w, 'a');
    expect(w, "X:2 b>X c>X");
    done(w, 'b');
    expect(w, "");
    done(w, 'c');
    expect(w, "X:2 d>X e>X");
    world_free(w);
}

/* Replicas have more slots than the new model's cap, so the model has a lane before its batching is
 * set. */
static void test_a_model_that_comes_when_there_are_replicas(void **state AS_UNUSED)
{
    struct as_batch_conf c = {.max_size = 2};
    struct world *w = world_new();

    join(w, 'X', 4, 0);
    assert_int_equal(as_deployment_set_model(w->d, 1, 1), 0);
    assert_int_equal(as_deployment_set_batching(w->d, 1, &c), 0);
    for (char name = 'a'; name < 'd'; name++)
        req(w, name)->model = 1;
    submit_all(w, "abc");
    expect(w, "a>X"); /* the cap counts batches */
    done(w, 'a');
    expect(w, "X:2 b>X c>X");
    world_free(w);
}

/* It is too late when a request waits. */
static void test_batching_comes_before_the_first_request(void **state AS_UNUSED)
{
    struct as_batch_conf c = {.max_size = 2};
    struct world *w = world_new();

    join(w, 'X', 4, 0);
    assert_int_equal(as_deployment_set_model(w->d, 1, 1), 0);
    req(w, 'a')->model = req(w, 'b')->model = 1;
    submit_all(w, "ab");
    assert_int_equal(as_deployment_set_batching(w->d, 1, &c), AS_EEXISTS);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_preferred_sizes_a_full_batch_is_enough),
        cmocka_unit_test(test_the_largest_preferred_size_that_is_there_is_taken),
        cmocka_unit_test(test_a_request_is_held_for_max_wait_and_never_into_its_deadline),
        cmocka_unit_test(test_settings_are_checked),
        cmocka_unit_test(test_what_comes_while_the_slot_is_taken_goes_together),
        cmocka_unit_test(test_items_count_and_order_stays),
        cmocka_unit_test(test_only_alike_requests_share_a_call),
        cmocka_unit_test(test_more_kinds_than_lanes_go_one_by_one),
        cmocka_unit_test(test_held_back_until_full_or_due),
        cmocka_unit_test(test_a_deadline_shortens_the_wait),
        cmocka_unit_test(test_a_request_that_leaves_a_batch_ends_alone),
        cmocka_unit_test(test_an_expired_request_is_not_sent),
        cmocka_unit_test(test_a_death_retries_a_batch_as_one),
        cmocka_unit_test(test_a_batch_is_recalled_when_its_slot_went),
        cmocka_unit_test(test_a_full_queue_takes_a_request_that_makes_a_batch_due),
        cmocka_unit_test(test_settings_are_made_once),
        cmocka_unit_test(test_a_cap_counts_batches),
        cmocka_unit_test(test_a_model_that_comes_when_there_are_replicas),
        cmocka_unit_test(test_batching_comes_before_the_first_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
