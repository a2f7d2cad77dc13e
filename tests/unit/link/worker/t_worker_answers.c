/* The worker library: another thread answers requests while the event loop is notified of cancels
 * and of credit: the request that it is notified of must still exist. */
#include "link/page.h"
#include "worker_pair.h"

/* The caller's own, of one request: who has a reference may look at it. */
struct item {
    struct pair *p;
    struct as_worker_req *q;
    atomic_int refs;
    atomic_bool go, over; /* it is to be answered; it is */
};

static struct as_worker_req *begin(struct pair *p, struct item *it, uint64_t stream)
{
    *it = (struct item){.p = p};
    atomic_init(&it->refs, 1);
    it->q = pair_start(p, stream, 8);
    as_worker_req_set_data(it->q, it);
    return it->q;
}

static void drop(struct item *it)
{
    assert_true(atomic_fetch_sub(&it->refs, 1) > 0);
}

static void *answer(void *arg)
{
    struct item *it = arg;

    while (!atomic_load(&it->go))
        sched_yield();
    pair_echo(it->p, it->q);
    drop(it);
    atomic_store(&it->over, true);
    return NULL;
}

/* While it is told of it the other thread begins to answer it. */
static void take(void *ctx, struct as_worker_req *q)
{
    struct item *it = as_worker_req_data(q);

    assert_ptr_equal(it->q, q);
    assert_true(as_worker_req_cancelled(q) || as_worker_req_model(q));
    atomic_store(&it->go, true);
    for (int i = 0; i < 100; i++)
        sched_yield();
    assert_true(atomic_fetch_add(&it->refs, 1) > 0);
    *(struct item **)ctx = it;
}

static void finish(struct item *it, struct item *told, pthread_t t)
{
    while (!atomic_load(&it->over))
        sched_yield();
    assert_ptr_equal(told, it);
    assert_int_equal(atomic_load(&told->refs), 1); /* ours */
    drop(told);
    pthread_join(t, NULL);
}

static void a_request_exists_while_its_cancel_is_reported(void **state)
{
    struct pair *p = *state;

    for (uint64_t i = 0; i < 100; i++) {
        struct item it, *told;
        pthread_t t;

        begin(p, &it, 2 * i + 1);
        assert_int_equal(pthread_create(&t, NULL, answer, &it), 0);
        as_frame_put_cancel(&p->d.out, 2 * i + 1, 1);
        pair_sync(p);
        assert_true(as_worker_cancelled(p->w, take, &told));
        finish(&it, told, t);
        assert_false(as_worker_cancelled(p->w, take, &told));
        as_worker_flush(p->w);
        assert_int_equal(fake_expect_error(&p->d, 2 * i + 1).code, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_exists_while_its_cancel_is_reported, pair_setup,
                                        pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
