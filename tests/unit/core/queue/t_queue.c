/* Specification of core/queue/queue and core/queue/due_heap, against naive arrays. */
#include "base/rand.h"
#include "core/queue/due_heap.h"
#include "core/queue/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define POOL   200u
#define MODELS 6u

struct pool {
    struct as_request q[POOL];
    struct as_queue queue;
    uint64_t orders;
};

static struct as_request *enter_with(struct pool *p, uint32_t i, uint32_t model, uint8_t priority,
                                     as_ns root)
{
    struct as_request *q = &p->q[i];

    as_request_init(q);
    q->model = model;
    q->priority = priority;
    q->order = ++p->orders;
    q->root = root;
    q->state = AS_REQ_QUEUED;
    as_queue_push(&p->queue, q);
    return q;
}

/* All roots are equal, as in a burst: the order of arrival decides. */
static struct as_request *enter(struct pool *p, uint32_t i, uint32_t model, uint8_t priority)
{
    return enter_with(p, i, model, priority, 1);
}

/* For a replica that has a free slot and does not prefetch. */
static struct as_request *first(struct pool *p, const struct as_replica_model *of_model,
                                uint32_t slots)
{
    return as_queue_first_for(&p->queue,
                              &(struct as_replica_capacity){of_model, slots, .may_execute = true});
}

static struct as_request *take(struct pool *p, const struct as_replica_model *of_model,
                               uint32_t slots)
{
    struct as_request *q = first(p, of_model, slots);

    if (q)
        as_queue_remove(&p->queue, q);
    return q;
}

static struct pool *pool_new(void)
{
    struct pool *p = as_xalloc(sizeof(*p));

    as_queue_init(&p->queue);
    return p;
}

static void pool_free(struct pool *p)
{
    while (take(p, NULL, 0))
        ;
    as_queue_fini(&p->queue);
    free(p);
}

static void test_urgent_first_then_first_come(void **state AS_UNUSED)
{
    struct pool *p = pool_new();

    enter(p, 0, 0, 1);
    enter(p, 1, 0, 2);
    enter(p, 2, 0, 1);
    enter(p, 3, 0, 0);
    assert_ptr_equal(take(p, NULL, 1), &p->q[3]);
    assert_ptr_equal(take(p, NULL, 1), &p->q[0]);
    assert_ptr_equal(take(p, NULL, 1), &p->q[2]);
    assert_ptr_equal(take(p, NULL, 1), &p->q[1]);
    assert_null(take(p, NULL, 1));
    pool_free(p);
}

static void expect_order(struct pool *p, const uint32_t *list, uint32_t n)
{
    assert_true(as_queue_ok(&p->queue));
    for (uint32_t i = 0; i < n; i++)
        assert_ptr_equal(take(p, NULL, 1), &p->q[list[i]]);
    assert_null(take(p, NULL, 1));
}

/* What requests that execute wait for goes before younger requests from outside. */
static void test_a_request_waits_at_the_place_of_its_root(void **state AS_UNUSED)
{
    struct pool *p = pool_new();

    enter_with(p, 0, 0, 1, 30);
    enter_with(p, 1, 0, 1, 40);
    enter_with(p, 2, 0, 1, 20); /* made by one that came before all these … */
    enter_with(p, 3, 0, 1, 35); /* … by one between them … */
    enter_with(p, 4, 0, 1, 10);
    enter_with(p, 5, 0, 1, 50);
    expect_order(p, (uint32_t[]){4, 2, 0, 3, 1, 5}, 6);
    pool_free(p);
}

static void test_requests_of_one_root_keep_their_order(void **state AS_UNUSED)
{
    struct pool *p = pool_new();

    enter_with(p, 0, 0, 1, 50);
    for (uint32_t i = 1; i < 5; i++)
        enter_with(p, i, 0, 1, 20);
    as_queue_remove(&p->queue, &p->q[2]);
    as_queue_push(&p->queue, &p->q[2]); /* a retry */
    expect_order(p, (uint32_t[]){1, 2, 3, 4, 0}, 5);
    pool_free(p);
}

static void test_priority_counts_more_than_the_root(void **state AS_UNUSED)
{
    struct pool *p = pool_new();

    enter_with(p, 0, 0, 1, 10);
    enter_with(p, 1, 0, 0, 90);
    enter_with(p, 2, 0, 2, 5);
    expect_order(p, (uint32_t[]){1, 0, 2}, 3);
    pool_free(p);
}

static void test_roots_order_across_lanes(void **state AS_UNUSED)
{
    struct pool *p = pool_new();
    struct as_replica_model of_model[MODELS] = {0};
    static const uint32_t order[] = {2, 3, 0, 1};

    as_queue_add_lane(&p->queue, 1, 1);
    enter_with(p, 0, 0, 1, 30);
    enter_with(p, 1, 1, 1, 40);
    enter_with(p, 2, 1, 1, 20);
    enter_with(p, 3, 0, 1, 25);
    assert_true(as_queue_ok(&p->queue));
    for (uint32_t i = 0; i < 4; i++)
        assert_ptr_equal(take(p, of_model, 4), &p->q[order[i]]);
    pool_free(p);
}

static void test_a_retry_goes_back_to_its_place(void **state AS_UNUSED)
{
    struct pool *p = pool_new();

    for (uint32_t i = 0; i < 5; i++)
        enter(p, i, 0, 1);
    as_queue_remove(&p->queue, &p->q[1]);
    as_queue_remove(&p->queue, &p->q[4]);
    as_queue_push(&p->queue, &p->q[4]);
    as_queue_push(&p->queue, &p->q[1]);
    for (uint32_t i = 0; i < 5; i++)
        assert_ptr_equal(take(p, NULL, 1), &p->q[i]);
    pool_free(p);
}

static void test_a_capped_model_is_skipped(void **state AS_UNUSED)
{
    struct pool *p = pool_new();
    struct as_replica_model of_model[MODELS] = {0};

    enter(p, 0, 1, 1);
    enter(p, 1, 0, 1);
    enter(p, 2, 1, 1);
    as_queue_add_lane(&p->queue, 1, 2); /* waiting requests move into the lane */
    assert_true(as_queue_ok(&p->queue));
    enter(p, 3, 1, 0);

    of_model[1].calls = 2; /* full */
    assert_ptr_equal(first(p, of_model, 3), &p->q[1]);
    assert_ptr_equal(first(p, of_model, 2), &p->q[3]); /* cap >= slots */
    of_model[1].calls = 1;
    assert_ptr_equal(take(p, of_model, 3), &p->q[3]);
    assert_ptr_equal(take(p, of_model, 3), &p->q[0]);
    assert_ptr_equal(take(p, of_model, 3), &p->q[1]);
    of_model[1].calls = 2;
    assert_null(take(p, of_model, 3));
    assert_ptr_equal(as_queue_front(&p->queue), &p->q[2]);
    assert_ptr_equal(as_queue_first_of_model(&p->queue, 1), &p->q[2]);
    pool_free(p);
}

static void test_a_model_that_a_replica_lacks_is_skipped(void **state AS_UNUSED)
{
    struct pool *p = pool_new();
    struct as_replica_model all[MODELS] = {0}, some[MODELS] = {[1] = {.absent = true}};

    as_queue_add_lane(&p->queue, 1, UINT32_MAX); /* no effective cap */
    enter(p, 0, 1, 1);
    enter(p, 1, 0, 1);
    assert_ptr_equal(first(p, all, 3), &p->q[0]);
    assert_ptr_equal(take(p, some, 3), &p->q[1]);
    assert_null(take(p, some, 3));
    assert_ptr_equal(take(p, all, 3), &p->q[0]);
    assert_null(as_queue_first_of_model(&p->queue, 1));
    pool_free(p);
}

static void test_what_a_cap_holds_up_may_wait_in_the_replica(void **state AS_UNUSED)
{
    struct pool *p = pool_new();
    struct as_replica_model of_model[MODELS] = {[1] = {.calls = 3, .prefetch = 2}};
    struct as_replica_capacity t = {of_model, 3, .may_execute = false, .may_wait = true};

    as_queue_add_lane(&p->queue, 1, 2);
    enter(p, 0, 0, 1);
    enter(p, 1, 1, 1);
    assert_ptr_equal(as_queue_first_for(&p->queue, &t), &p->q[1]); /* one waits there: one more */
    of_model[1].calls = 4;                                         /* two do */
    assert_null(as_queue_first_for(&p->queue, &t));
    of_model[1].calls = 3;
    t.may_wait = false;
    assert_null(as_queue_first_for(&p->queue, &t));
    of_model[1].calls = 1; /* its cap does not delay it, but there is no slot */
    t.may_wait = true;
    assert_null(as_queue_first_for(&p->queue, &t));
    t.may_execute = true;
    assert_ptr_equal(as_queue_first_for(&p->queue, &t), &p->q[0]); /* the older one */
    of_model[1].absent = true;
    of_model[1].calls = 3;
    t.may_execute = false;
    assert_null(as_queue_first_for(&p->queue, &t));
    pool_free(p);
}

/* May one more request of q's model be sent to the replica? */
static bool is_taken(const struct as_request *q, const uint32_t *cap,
                     const struct as_replica_capacity *t)
{
    const struct as_replica_model *s = &t->of_model[q->model];
    uint32_t c = cap[q->model];

    if (!c)
        return t->may_execute;
    if (s->absent)
        return false;
    return c < t->slots && s->calls >= c ? t->may_wait && s->calls < c + s->prefetch
                                         : t->may_execute;
}

/* What as_queue_first_for must return, found by a scan of everything. */
static struct as_request *naive_first(struct pool *p, const uint32_t *cap,
                                      const struct as_replica_capacity *t)
{
    struct as_request *best = NULL;

    for (uint32_t i = 0; i < POOL; i++) {
        struct as_request *q = &p->q[i];

        if (q->state != AS_REQ_QUEUED || !is_taken(q, cap, t))
            continue;
        if (!best || q->priority < best->priority ||
            (q->priority == best->priority &&
             (q->root != best->root ? q->root < best->root : q->order < best->order)))
            best = q;
    }
    return best;
}

static void test_it_equals_a_naive_array_over_random_operations(void **state AS_UNUSED)
{
    struct pool *p = pool_new();
    struct as_rand rand = {7};
    uint32_t cap[MODELS] = {0};
    uint32_t n = 0;

    for (uint32_t step = 0; step < 100000; step++) {
        uint32_t i = (uint32_t)as_rand_below(&rand, POOL);
        struct as_request *q = &p->q[i];
        struct as_replica_model of_model[MODELS];
        struct as_replica_capacity t = {of_model, 1 + (uint32_t)as_rand_below(&rand, 4),
                                        .may_execute = as_rand_below(&rand, 4) != 0,
                                        .may_wait = as_rand_below(&rand, 2) != 0};

        for (uint32_t m = 0; m < MODELS; m++)
            of_model[m] = (struct as_replica_model){.calls = (uint32_t)as_rand_below(&rand, 4),
                                                    .prefetch = (uint32_t)as_rand_below(&rand, 3),
                                                    .absent = as_rand_below(&rand, 5) == 0};
        if (q->state == AS_REQ_QUEUED && as_rand_below(&rand, 2)) { /* cancelled */
            as_queue_remove(&p->queue, q);
            q->state = AS_REQ_SENT;
            n--;
        } else if (q->state == AS_REQ_SENT && as_rand_below(&rand, 2)) { /* replayed */
            q->state = AS_REQ_QUEUED;
            as_queue_push(&p->queue, q);
            n++;
        } else if (q->state != AS_REQ_QUEUED) {
            uint32_t model = (uint32_t)as_rand_below(&rand, MODELS);
            uint8_t priority = (uint8_t)as_rand_below(&rand, AS_PRIORITIES);
            as_ns root = as_rand_below(&rand, 3) ? step + 1 : 1 + as_rand_below(&rand, step + 1);

            enter_with(p, i, model, priority, root);
            n++;
        }
        if (step % 25000 == 24999) { /* one more model gets a lane */
            cap[step / 25000] = 1 + step / 25000 % 2;
            as_queue_add_lane(&p->queue, step / 25000, cap[step / 25000]);
        }
        q = as_queue_first_for(&p->queue, &t);
        assert_ptr_equal(q, naive_first(p, cap, &t));
        if (q && as_rand_below(&rand, 2)) { /* dispatched */
            as_queue_remove(&p->queue, q);
            q->state = AS_REQ_SENT;
            n--;
        }
        assert_int_equal(p->queue.n, n);
        if (step % 100 == 0)
            assert_true(as_queue_ok(&p->queue));
    }
    pool_free(p);
}

static void test_the_heap_gives_the_earliest_of_what_is_in(void **state AS_UNUSED)
{
    struct as_due_heap heap;
    struct as_rand rand = {3};
    struct as_request *q = as_xalloc(POOL * sizeof(*q));

    as_due_heap_init(&heap);
    for (uint32_t i = 0; i < POOL; i++)
        as_request_init(&q[i]);
    for (uint32_t step = 0; step < 100000; step++) {
        struct as_request *x = &q[as_rand_below(&rand, POOL)];
        const struct as_due *first;
        as_ns earliest = AS_NEVER;

        if (x->heap_index == SIZE_MAX) {
            x->deadline = as_rand_below(&rand, 1000);
            as_due_heap_push(&heap, &x->due);
        } else {
            as_due_heap_remove(&heap, &x->due);
        }
        for (uint32_t i = 0; i < POOL; i++)
            earliest = q[i].heap_index != SIZE_MAX ? AS_MIN(earliest, q[i].deadline) : earliest;
        first = as_due_heap_first(&heap);
        assert_true((first ? first->at : AS_NEVER) == earliest);
        if (step % 100 == 0)
            assert_true(as_due_heap_ok(&heap));
    }
    as_due_heap_fini(&heap);
    free(q);
}

static void test_leaving_the_heap_twice_is_harmless(void **state AS_UNUSED)
{
    struct as_due_heap heap;
    struct as_request q;

    as_due_heap_init(&heap);
    as_request_init(&q);
    q.deadline = 1;
    as_due_heap_push(&heap, &q.due);
    as_due_heap_remove(&heap, &q.due);
    as_due_heap_remove(&heap, &q.due);
    assert_null(as_due_heap_first(&heap));
    as_due_heap_fini(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urgent_first_then_first_come),
        cmocka_unit_test(test_a_request_waits_at_the_place_of_its_root),
        cmocka_unit_test(test_requests_of_one_root_keep_their_order),
        cmocka_unit_test(test_priority_counts_more_than_the_root),
        cmocka_unit_test(test_roots_order_across_lanes),
        cmocka_unit_test(test_a_retry_goes_back_to_its_place),
        cmocka_unit_test(test_a_capped_model_is_skipped),
        cmocka_unit_test(test_a_model_that_a_replica_lacks_is_skipped),
        cmocka_unit_test(test_what_a_cap_holds_up_may_wait_in_the_replica),
        cmocka_unit_test(test_it_equals_a_naive_array_over_random_operations),
        cmocka_unit_test(test_the_heap_gives_the_earliest_of_what_is_in),
        cmocka_unit_test(test_leaving_the_heap_twice_is_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
