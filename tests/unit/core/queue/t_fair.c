/* Specification of core/queue/fair, and of the queue with it. */
#include "base/rand.h"
#include "core/queue/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define POOL 4096u

struct pool {
    struct as_request q[POOL];
    struct as_queue queue;
    uint32_t n;
};

static struct pool *pool_new(enum as_fair_cost cost)
{
    struct pool *p = as_xalloc(sizeof(*p));

    as_queue_init(&p->queue);
    as_queue_set_fair(&p->queue, true, cost);
    return p;
}

static void pool_free(struct pool *p)
{
    struct as_request *q;

    while ((q = as_queue_front(&p->queue)))
        as_queue_remove(&p->queue, q);
    as_queue_fini(&p->queue);
    free(p);
}

static struct as_request *enter_model(struct pool *p, uint32_t model, uint64_t tenant,
                                      uint32_t cost)
{
    struct as_request *q = &p->q[p->n++ % POOL];

    as_request_init(q);
    q->model = model;
    q->tenant = tenant;
    q->cost = cost;
    q->order = p->n;
    q->root = 1;
    q->state = AS_REQ_QUEUED;
    as_queue_push(&p->queue, q);
    return q;
}

static struct as_request *enter(struct pool *p, uint64_t tenant, uint32_t cost)
{
    return enter_model(p, 0, tenant, cost);
}

/* One request of each letter, which is its tenant. */
static void enter_all(struct pool *p, const char *tenants)
{
    for (; *tenants; tenants++)
        enter(p, (uint64_t)*tenants, 1);
}

static struct as_request *first(struct pool *p)
{
    return as_queue_first_for(&p->queue, &(struct as_replica_capacity){.may_execute = true});
}

static struct as_request *take(struct pool *p)
{
    struct as_request *q = first(p);

    if (q)
        as_queue_take(&p->queue, q);
    assert_true(as_queue_ok(&p->queue));
    return q;
}

/* The next requests are of these tenants. */
static void expect(struct pool *p, const char *tenants)
{
    char got[64] = "";
    size_t n = strlen(tenants);

    for (size_t i = 0; i < n; i++) {
        struct as_request *q = take(p);

        got[i] = q ? (char)q->tenant : '-';
    }
    assert_string_equal(got, tenants);
}

static void test_tenants_take_turns(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);

    enter_all(p, "aaaaaaaabbc");
    expect(p, "abcabaaaaaa");
    pool_free(p);
}

static void test_one_tenant_is_served_first_come_first_served(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);

    enter_all(p, "aabab");
    assert_ptr_equal(take(p), &p->q[0]);
    assert_ptr_equal(take(p), &p->q[2]);
    assert_ptr_equal(take(p), &p->q[1]);
    assert_ptr_equal(take(p), &p->q[4]);
    assert_ptr_equal(take(p), &p->q[3]);
    pool_free(p);
}

static void test_who_was_idle_has_saved_nothing_up(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);

    enter_all(p, "aaaaaaaaaaaa");
    expect(p, "aaaaaaa");
    enter_all(p, "bbbb");
    expect(p, "babababaa");
    pool_free(p);
}

static void test_a_request_that_costs_more_counts_as_many(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_SAID);

    for (uint32_t i = 0; i < 3; i++)
        enter(p, 'a', 3);
    enter_all(p, "bbbbbbbbb");
    expect(p, "abbbabbbabbb");
    pool_free(p);
}

static void test_items_may_be_the_cost(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_ITEMS);
    const struct as_batch_conf batch = {.max_size = 4};

    as_queue_add_batching(&p->queue, 0, UINT32_MAX, &batch);
    for (uint32_t i = 0; i < 4; i++) {
        struct as_request *q = &p->q[p->n++];

        as_request_init(q);
        q->tenant = i < 2 ? 'a' : 'b';
        q->items = i < 2 ? 4 : 1;
        q->order = p->n;
        q->state = AS_REQ_QUEUED;
        as_queue_push(&p->queue, q);
    }
    expect(p, "abba");
    pool_free(p);
}

static void test_a_cost_is_bounded(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_SAID);

    enter(p, 'a', UINT32_MAX);
    enter_all(p, "b");
    expect(p, "ab");
    assert_int_equal(p->queue.fair->now[1], 0);
    enter_all(p, "a");
    assert_int_equal(first(p)->tag, AS_FAIR_COST_MAX);
    pool_free(p);
}

/* With tags that are given on arrival a tenant whose requests expire would be punished for them. */
static void test_what_leaves_unserved_has_cost_nothing(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);
    uint32_t a = 0;

    for (uint32_t round = 0; round < 100; round++) {
        enter_all(p, "aaaaaaaaaab"); /* ten come, nine of which leave */
        for (uint32_t i = 0; i < 9; i++)
            as_queue_remove(&p->queue, &p->q[p->n - 11 + i]);
        a += take(p)->tenant == 'a';
        a += take(p)->tenant == 'a';
    }
    assert_int_equal(a, 100);
    pool_free(p);
}

static void test_a_retry_goes_before_what_came_later_and_is_free(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);
    struct as_request *q;

    enter_all(p, "aaabb");
    q = take(p);
    assert_ptr_equal(q, &p->q[0]);
    as_queue_push(&p->queue, q);
    assert_true(as_queue_ok(&p->queue));
    assert_ptr_equal(take(p), &p->q[3]); /* b has had nothing yet */
    assert_ptr_equal(take(p), &p->q[0]);
    assert_ptr_equal(take(p), &p->q[1]);
    assert_ptr_equal(take(p), &p->q[4]);
    pool_free(p);
}

static void test_each_priority_has_its_own_account(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);

    for (uint32_t i = 0; i < 20; i++) {
        as_request_init(&p->q[i]);
        p->q[i].order = i + 1;
        p->q[i].state = AS_REQ_QUEUED;
        p->q[i].priority = i < 10 ? 0 : 1;
        p->q[i].tenant = i < 11 ? 'a' : 'b';
        as_queue_push(&p->queue, &p->q[i]);
    }
    expect(p, "aaaaaaaaaa");
    expect(p, "ab");
    pool_free(p);
}

/* A lane that its cap holds back does not make a new tenant wait for all that waits there. */
static void test_a_lane_that_is_held_back_stays_fair(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);
    struct as_replica_model of_model[2] = {[1] = {.calls = 1}};
    struct as_replica_capacity t = {of_model, 4, .may_execute = true};
    char got[5] = "";

    as_queue_add_lane(&p->queue, 1, 1);
    for (uint32_t i = 0; i < 2000; i++)
        enter_model(p, i < 1000, i < 1000 ? 'a' : 'b', 1);
    for (uint32_t i = 0; i < 900; i++) {
        struct as_request *q = as_queue_first_for(&p->queue, &t);

        assert_int_equal(q->tenant, 'b');
        as_queue_take(&p->queue, q);
    }
    enter_model(p, 1, 'c', 1);
    of_model[1].calls = 0;
    for (uint32_t i = 0; i < 4; i++) {
        struct as_request *q = as_queue_first_for(&p->queue, &t);

        got[i] = (char)q->tenant;
        as_queue_take(&p->queue, q);
    }
    assert_string_equal(got, "aaca"); /* c waits for two, and not for a hundred */
    pool_free(p);
}

static void test_a_million_tenants_keep_the_table_bounded(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);
    struct as_rand rand = {5};
    uint32_t served = 0, wait = 0;
    struct as_request *old;

    for (uint32_t i = 0; i < 2000; i++)
        enter(p, as_rand_next(&rand), 1);
    old = enter(p, 'a', 1);
    for (uint32_t i = 0; i < 1000000; i++) {
        struct as_request *q = first(p);

        as_queue_take(&p->queue, q);
        wait += served == 0;
        served += q == old && q->tenant == 'a';
        as_request_init(q);
        q->state = AS_REQ_QUEUED;
        q->tenant = as_rand_next(&rand);
        q->order = 3000 + i;
        as_queue_push(&p->queue, q);
    }
    assert_true(as_queue_ok(&p->queue));
    assert_int_equal(served, 1);            /* new tenants never stop it */
    assert_true(wait < 100 * AS_FAIR_ROWS); /* a round for each that shares its row before it */
    pool_free(p);
}

/* As many tenants as a set has rows are apart; one more shares a row with one of them. */
static void test_one_tenant_more_than_a_set_has_rows(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);
    const uint64_t sets = AS_FAIR_ROWS / AS_FAIR_WAYS;
    uint32_t shared = 0;

    for (uint64_t t = 1; t <= AS_FAIR_WAYS; t++)
        enter(p, t * sets, 1);
    for (uint64_t t = 1; t <= AS_FAIR_WAYS; t++)
        assert_int_equal(as_fair_waiting(p->queue.fair, t * sets), 1);
    enter(p, (AS_FAIR_WAYS + 1) * sets, 1);
    for (uint64_t t = 1; t <= AS_FAIR_WAYS; t++)
        shared += as_fair_waiting(p->queue.fair, t * sets) == 2;
    assert_int_equal(shared, 1);
    assert_true(as_queue_ok(&p->queue));
    for (uint32_t i = 0; i <= AS_FAIR_WAYS; i++)
        assert_non_null(take(p));
    assert_null(take(p));
    pool_free(p);
}

static void test_rows_are_used_again(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);

    for (uint64_t t = 1; t <= 10 * (uint64_t)AS_FAIR_ROWS; t++) {
        enter(p, t, 1);
        enter(p, t, 1);
        assert_int_equal(as_fair_waiting(p->queue.fair, t), 2);
        assert_int_equal(take(p)->tenant, t);
        assert_int_equal(take(p)->tenant, t);
        assert_int_equal(as_fair_waiting(p->queue.fair, t), 0);
    }
    pool_free(p);
}

static void test_it_is_turned_on_and_off_while_requests_wait(void **state AS_UNUSED)
{
    struct pool *p = pool_new(AS_FAIR_COST_REQUEST);

    enter_all(p, "aaabb");
    as_queue_set_fair(&p->queue, false, AS_FAIR_COST_REQUEST);
    assert_null(p->queue.fair);
    assert_true(as_queue_ok(&p->queue));
    expect(p, "aa"); /* in whatever order they went into the FIFO: by age */
    as_queue_set_fair(&p->queue, true, AS_FAIR_COST_REQUEST);
    assert_true(as_queue_ok(&p->queue));
    expect(p, "abb");
    pool_free(p);
}

/* Whatever comes, leaves and is sent: all tenants that always wait get the same, but for two
 * requests, and each is served in order. */
static void test_the_bound_holds_over_random_operations(void **state AS_UNUSED)
{
    for (uint64_t seed = 1; seed < 20; seed++) {
        struct pool *p = pool_new(AS_FAIR_COST_SAID);
        struct as_rand rand = {seed};
        uint64_t served[4] = {0}, last[4] = {0};
        uint32_t waiting[4] = {0};

        for (uint32_t i = 0; i < 4000; i++) {
            struct as_request *q;
            uint32_t t;

            for (t = 0; t < 4; t++) {
                while (waiting[t] < 5) {
                    enter(p, t, 1 + (uint32_t)as_rand_below(&rand, 9));
                    waiting[t]++;
                }
            }
            q = first(p);
            t = (uint32_t)q->tenant;
            if (as_rand_below(&rand, 3)) {
                as_queue_take(&p->queue, q);
                served[t] += q->cost;
                assert_true(q->order > last[t]);
                last[t] = q->order;
            } else {
                as_queue_remove(&p->queue, q); /* cancelled */
            }
            q->state = AS_REQ_DONE;
            waiting[t]--;
            for (uint32_t k = 0; k < 4; k++)
                assert_true(served[t] <= served[k] + 2 * 9);
        }
        assert_true(as_queue_ok(&p->queue));
        pool_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tenants_take_turns),
        cmocka_unit_test(test_one_tenant_is_served_first_come_first_served),
        cmocka_unit_test(test_who_was_idle_has_saved_nothing_up),
        cmocka_unit_test(test_a_request_that_costs_more_counts_as_many),
        cmocka_unit_test(test_items_may_be_the_cost),
        cmocka_unit_test(test_a_cost_is_bounded),
        cmocka_unit_test(test_what_leaves_unserved_has_cost_nothing),
        cmocka_unit_test(test_a_retry_goes_before_what_came_later_and_is_free),
        cmocka_unit_test(test_each_priority_has_its_own_account),
        cmocka_unit_test(test_a_lane_that_is_held_back_stays_fair),
        cmocka_unit_test(test_a_million_tenants_keep_the_table_bounded),
        cmocka_unit_test(test_one_tenant_more_than_a_set_has_rows),
        cmocka_unit_test(test_rows_are_used_again),
        cmocka_unit_test(test_it_is_turned_on_and_off_while_requests_wait),
        cmocka_unit_test(test_the_bound_holds_over_random_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
