/* The worker library: requests that share a batch. */
#include "worker_pair.h"

#define MANY 12 /* target of the model with batching, at most 4 */

static void put_batch(struct fake *d, uint64_t first, uint32_t n)
{
    as_frame_put_batch(&d->out, &(struct as_frame_batch){first, n});
}

static void ask_batch(struct fake *d, uint64_t first, uint32_t n)
{
    put_batch(d, first, n);
    for (uint32_t i = 0; i < n; i++)
        fake_ask_of(d, first + 2 * i, 8, 0, MANY);
}

static uint32_t count(struct pair *p, struct as_worker_req *q)
{
    uint32_t n = 0;

    for (; q; q = as_worker_next_member(p->w, q))
        n++;
    return n;
}

/* Answers q and the rest of its batch, each with what it asked. */
static void echo_all(struct pair *p, struct as_worker_req *q)
{
    while (q) {
        struct as_worker_req *next = as_worker_next_member(p->w, q);

        pair_echo(p, q);
        q = next;
    }
}

static void all_start_together_and_take_one_slot(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *a, *b;

    ask_batch(&p->d, 1, 3);
    ask_batch(&p->d, 7, 2);
    fake_ask(&p->d, 11, 8);
    fake_send(&p->d);
    a = pair_next(p);
    assert_int_equal(p->d.page->last_started, 5); /* before user code of any of them runs */
    assert_int_equal(p->d.page->started, 3);
    assert_int_equal(count(p, a), 3);
    b = as_worker_next(p->w);
    assert_int_equal(count(p, b), 2);
    echo_all(p, b);
    echo_all(p, a);
    echo_all(p, as_worker_next(p->w));
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 7, 8);
    fake_expect_echo(&p->d, 9, 8);
    for (uint64_t s = 1; s <= 5; s += 2)
        fake_expect_echo(&p->d, s, 8);
    fake_expect_echo(&p->d, 11, 8);
    assert_int_equal(p->d.page->finished, 6);
}

static void slots_count_batches(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q[PAIR_SLOTS], *last;

    for (uint32_t i = 0; i <= PAIR_SLOTS; i++)
        ask_batch(&p->d, 1 + 8 * i, 4);
    fake_send(&p->d);
    for (uint32_t i = 0; i < PAIR_SLOTS; i++)
        q[i] = pair_next(p);
    pair_sync(p);
    assert_null(as_worker_next(p->w));
    last = as_worker_next_member(p->w, q[0]);
    pair_echo(p, q[0]);
    assert_null(as_worker_next(p->w)); /* three of the four still run */
    echo_all(p, last);
    assert_int_equal(count(p, q[1]), 4);
    q[0] = as_worker_next(p->w);
    assert_non_null(q[0]);
    for (uint32_t i = 0; i < PAIR_SLOTS; i++)
        echo_all(p, q[i]);
}

static void it_waits_for_the_last_of_its_bodies(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;

    put_batch(&p->d, 1, 2);
    fake_ask_of(&p->d, 1, 100000, 0, MANY);
    fake_send(&p->d);
    pair_sync(p);
    assert_null(as_worker_next(p->w)); /* the first is all here */
    fake_ask_of(&p->d, 3, 8, 0, MANY);
    fake_send(&p->d);
    q = pair_next(p);
    assert_int_equal(count(p, q), 2);
    echo_all(p, q);
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 1, 100000);
    fake_expect_echo(&p->d, 3, 8);
}

static void who_is_cancelled_or_late_leaves_the_others(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;

    fake_ask(&p->d, 1, 8);
    fake_send(&p->d);
    q = pair_next(p);
    put_batch(&p->d, 3, 4);
    fake_ask_of(&p->d, 3, 8, 0, MANY);
    fake_ask_of(&p->d, 5, 8, 0, MANY);
    fake_ask_of(&p->d, 7, 8, 1, MANY); /* a deadline that passes at once */
    fake_ask_of(&p->d, 9, 8, 0, MANY);
    as_frame_put_cancel(&p->d.out, 3, 1);
    fake_send(&p->d);
    while (fake_is_quiet(&p->d))
        (void)as_worker_poll(p->w);
    assert_int_equal(fake_expect_error(&p->d, 3).code, 1);
    pair_echo(p, q);
    q = pair_next(p);
    assert_int_equal(count(p, q), 2);
    assert_int_equal(p->d.page->last_started, 9);
    as_frame_put_cancel(&p->d.out, 5, 1);
    fake_send(&p->d);
    while (!as_worker_req_cancelled(q))
        (void)as_worker_poll(p->w);
    assert_false(as_worker_req_cancelled(as_worker_next_member(p->w, q)));
    echo_all(p, q);
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 1, 8);
    assert_int_equal(fake_expect_error(&p->d, 7).code, 4);
    assert_int_equal(fake_expect_error(&p->d, 5).code, 1);
    fake_expect_echo(&p->d, 9, 8);
}

static void what_waits_may_be_recalled(void **state)
{
    struct pair *p = *state;
    uint64_t ids[] = {1, 3, 5, 7}, got[8];
    uint32_t n;

    ask_batch(&p->d, 1, 2);
    ask_batch(&p->d, 5, 3);
    as_frame_put_ids(&p->d.out, AS_FRAME_RECALL, ids, 4);
    fake_send(&p->d);
    while (fake_is_quiet(&p->d))
        (void)as_worker_poll(p->w);
    fake_expect(&p->d, AS_FRAME_RETURNED);
    assert_int_equal(as_frame_get_ids(&p->d.f, got, 8, &n), 0);
    assert_int_equal(n, 4);
    echo_all(p, pair_next(p)); /* the one that was left */
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 9, 8);
}

static void a_link_that_ends_in_the_middle_leaves_nothing(void **state)
{
    struct pair *p = *state;

    put_batch(&p->d, 1, 3);
    fake_ask_of(&p->d, 1, 8, 0, MANY);
    fake_send(&p->d);
    pair_sync(p);
    fake_hang_up(&p->d);
    while (as_worker_wait(p->w) == 0)
        ;
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    put_batch(&p->d, 1, 2); /* and one of which nothing has come */
    fake_send(&p->d);
    pair_sync(p);
    fake_hang_up(&p->d);
    while (as_worker_wait(p->w) == 0)
        ;
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    ask_batch(&p->d, 1, 4);
    fake_send(&p->d);
    echo_all(p, pair_next(p));
}

static void a_batch_of_an_old_link_keeps_its_slot(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;

    ask_batch(&p->d, 1, 3);
    fake_send(&p->d);
    q = pair_next(p);
    fake_hang_up(&p->d);
    while (as_worker_wait(p->w) == 0)
        ;
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    for (uint32_t i = 0; i < PAIR_SLOTS; i++)
        fake_ask(&p->d, 1 + 2 * i, 8);
    fake_send(&p->d);
    for (uint32_t i = 0; i + 1 < PAIR_SLOTS; i++)
        pair_echo(p, pair_next(p)); /* these end at once: the fourth slot is not needed */
    echo_all(p, q);
    pair_echo(p, pair_next(p));
}

/* Each script ends the link with a reason. */
static void broken_rules_end_the_link(void **state AS_UNUSED)
{
    for (int k = 0; k < 7; k++) {
        struct as_worker_req *q[PAIR_SLOTS + 1];
        uint32_t n = 0;
        struct pair p;

        fake_init(&p.d);
        p.w = pair_worker(&p.d, PAIR_SLOTS);
        assert_int_equal(fake_connect(&p.d, p.w), 0);
        fake_ask(&p.d, 1, 8);
        switch (k) {
        case 0: /* of a stream that is over */
            put_batch(&p.d, 1, 2);
            break;
        case 1: /* two at once */
            put_batch(&p.d, 3, 2);
            put_batch(&p.d, 3, 2);
            break;
        case 2: /* another stream comes than was said */
            put_batch(&p.d, 3, 2);
            fake_ask_of(&p.d, 5, 8, 0, MANY);
            break;
        case 3: /* two models */
            put_batch(&p.d, 3, 2);
            fake_ask_of(&p.d, 3, 8, 0, MANY);
            fake_ask_of(&p.d, 5, 8, 0, 10);
            break;
        case 4: /* more than the model takes */
            put_batch(&p.d, 3, 5);
            fake_ask_of(&p.d, 3, 8, 0, MANY);
            break;
        case 5: /* a model without batching */
            put_batch(&p.d, 3, 2);
            fake_ask_of(&p.d, 3, 8, 0, 10);
            break;
        default: /* beyond slots and prefetch */
            for (uint32_t i = 0; i < PAIR_SLOTS + PAIR_PREFETCH; i++)
                ask_batch(&p.d, 3 + 4 * i, 2);
        }
        fake_send(&p.d);
        while (as_worker_poll(p.w) != AS_EOF) {
            q[n] = as_worker_next(p.w);
            n += q[n] != NULL;
        }
        assert_non_null(strstr(as_worker_error(p.w), "the dispatcher sent"));
        while (n > 0)
            echo_all(&p, q[--n]);
        as_worker_free(p.w);
        fake_fini(&p.d);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_start_together_and_take_one_slot),
        TEST(slots_count_batches),
        TEST(it_waits_for_the_last_of_its_bodies),
        TEST(who_is_cancelled_or_late_leaves_the_others),
        TEST(what_waits_may_be_recalled),
        TEST(a_link_that_ends_in_the_middle_leaves_nothing),
        TEST(a_batch_of_an_old_link_keeps_its_slot),
        cmocka_unit_test(broken_rules_end_the_link),
    };

    return cmocka_run_group_tests_name("worker_batch", tests, NULL, NULL);
}
