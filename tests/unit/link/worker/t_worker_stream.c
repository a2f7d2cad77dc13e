/* The worker library: parts within the dispatcher's credit, inputs within ours, and a cancel that
 * wakes all waiting threads. */
#include "worker_pair.h"

#define COUNT 10 /* targets of the two models */
#define TALK  11

static struct as_worker *stream_worker(struct fake *d)
{
    static const struct as_worker_model models[] = {
        {.size = sizeof(struct as_worker_model),
         .name = "count",
         .version = "1",
         .platform = "test",
         .decoupled = true,
         .max_ongoing = 4},
        {.size = sizeof(struct as_worker_model),
         .name = "talk",
         .version = "1",
         .platform = "test",
         .decoupled = true,
         .streams_inputs = true,
         .max_ongoing = 4},
    };
    struct as_worker_conf conf = {.size = sizeof(conf),
                                  .path = d->path,
                                  .token = "secret",
                                  .slots = PAIR_SLOTS,
                                  .max_prefetch = PAIR_PREFETCH,
                                  .max_queued = -1,
                                  .max_message = 16u << 20};
    struct as_worker *w;

    assert_int_equal(as_worker_new(&w, &conf), 0);
    for (size_t i = 0; i < AS_COUNT(models); i++)
        assert_int_equal(as_worker_add(w, &models[i]), 0);
    return w;
}

static int setup(void **state)
{
    struct pair *p = as_xalloc(sizeof(*p));

    fake_init(&p->d);
    p->w = stream_worker(&p->d);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    *state = p;
    return 0;
}

static void grant(struct pair *p, uint64_t stream, uint32_t messages, uint64_t bytes)
{
    struct as_frame_credit c = {.messages = messages, .bytes = bytes};

    as_frame_put_credit(&p->d.out, stream, &c);
}

/* A started request of that model, with credit for so many parts. */
static struct as_worker_req *start(struct pair *p, uint64_t stream, uint32_t target,
                                   uint32_t messages)
{
    struct as_blob *b = as_blob_new(8);
    int64_t shape[1] = {8};
    struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, shape, b->data, 8};
    struct as_msg msg = {.id = AS_STR("id"), .tensors = &t, .n_tensors = 1};
    struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR, .target = target, .more = target == TALK};

    memset(b->data, 1, 8);
    assert_int_equal(as_frame_put_msg(&p->d.out, AS_FRAME_OPEN, stream, &fixed, &msg, b), 0);
    as_blob_unref(b);
    if (messages)
        grant(p, stream, messages, 1 << 20);
    fake_send(&p->d);
    return pair_next(p);
}

static int part(struct pair *p, struct as_worker_req *q, size_t n)
{
    uint8_t *data = calloc(1, n + 1);
    int64_t shape[1] = {(int64_t)n};
    struct as_tensor t = {AS_STR("y"), AS_DT_UINT8, 1, shape, data, n};
    struct as_msg msg = {.tensors = &t, .n_tensors = 1};
    int err = as_worker_part(p->w, q, &msg);

    free(data);
    as_worker_flush(p->w);
    return err;
}

static void expect_part(struct pair *p, uint64_t stream)
{
    fake_expect(&p->d, AS_FRAME_DATA);
    assert_int_equal(p->d.f.stream, stream);
    assert_int_equal(p->d.f.flags, AS_FRAME_F_MSG);
}

static void parts_go_out_as_far_as_credit_reaches(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, COUNT, 2);
    uint64_t service;

    assert_int_equal(as_worker_room(p->w, q), 0);
    assert_int_equal(part(p, q, 8), 0);
    expect_part(p, 1);
    assert_int_equal(part(p, q, 0), 0);
    expect_part(p, 1);
    assert_int_equal(as_worker_room(p->w, q), AS_EAGAIN);
    assert_int_equal(part(p, q, 8), AS_EAGAIN);
    assert_true(fake_is_quiet(&p->d));
    grant(p, 1, 1, 1);
    fake_send(&p->d);
    assert_int_equal(as_worker_await_room(p->w, q), 0);
    assert_int_equal(part(p, q, 8), 0);
    expect_part(p, 1);
    as_worker_finish(p->w, q);
    as_worker_flush(p->w);
    fake_expect(&p->d, AS_FRAME_END);
    assert_int_equal(p->d.f.stream, 1);
    assert_int_equal(as_frame_get_end(&p->d.f, &service), 0);
    assert_true(service > 0);
}

static void bytes_may_be_overdrawn_by_one_part(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, COUNT, 0);
    struct as_msg nothing = {0};
    uint64_t cost = as_frame_msg_cost(&nothing, &(struct as_tensor_params){0}, false);

    assert_int_equal(cost, 0);
    grant(p, 1, 100, 100);
    fake_send(&p->d);
    assert_int_equal(as_worker_await_room(p->w, q), 0);
    assert_int_equal(part(p, q, 300000), 0); /* its body follows in DATA frames, without END */
    expect_part(p, 1);
    fake_expect(&p->d, AS_FRAME_DATA);
    assert_int_equal(p->d.f.flags, 0);
    assert_int_equal(p->d.f.n, 300000);
    assert_int_equal(part(p, q, 1), AS_EAGAIN);
    grant(p, 1, 0, 200000);
    fake_send(&p->d);
    pair_sync(p);
    assert_int_equal(as_worker_room(p->w, q), AS_EAGAIN); /* still in debt */
    grant(p, 1, 0, 200000);
    fake_send(&p->d);
    assert_int_equal(as_worker_await_room(p->w, q), 0);
    as_worker_finish(p->w, q);
}

static void zero_parts_are_an_answer(void **state)
{
    struct pair *p = *state;

    as_worker_finish(p->w, start(p, 1, COUNT, 1));
    as_worker_flush(p->w);
    fake_expect(&p->d, AS_FRAME_END);
}

static void a_cancel_ends_the_wait_for_room(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, COUNT, 0);

    as_frame_put_cancel(&p->d.out, 1, 1);
    fake_send(&p->d);
    assert_int_equal(as_worker_await_room(p->w, q), AS_ECANCELLED);
    grant(p, 1, 5, 100);
    fake_send(&p->d);
    pair_sync(p);
    assert_int_equal(part(p, q, 8), AS_ECANCELLED);
    as_worker_fail(p->w, q, 1, AS_STR("cancelled"));
}

struct waiter {
    struct pair *p;
    struct as_worker_req *q;
    pthread_t thread;
    int err;
};

static void *await(void *arg)
{
    struct waiter *t = arg;

    t->err = as_worker_await_room(t->p->w, t->q);
    return NULL;
}

/* Another thread than the runner sleeps on a condition; the runner reads what wakes it. */
static void threads_wait_for_room_too(void **state)
{
    struct pair *p = *state;
    struct waiter t[2] = {{.p = p, .err = -1}, {.p = p, .err = -1}};

    for (int i = 0; i < 2; i++) {
        t[i].q = start(p, (uint64_t)(2 * i + 1), COUNT, 0);
        pthread_create(&t[i].thread, NULL, await, &t[i]);
    }
    grant(p, 1, 1, 1);
    as_frame_put_cancel(&p->d.out, 3, 1);
    fake_send(&p->d);
    pair_sync(p);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i].thread, NULL);
    assert_int_equal(t[0].err, 0);
    assert_int_equal(t[1].err, AS_ECANCELLED);
    as_worker_finish(p->w, t[0].q);
    as_worker_fail(p->w, t[1].q, 1, AS_STR(""));
}

static void the_end_of_the_link_ends_the_wait(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, COUNT, 0);

    fake_hang_up(&p->d);
    assert_int_equal(as_worker_await_room(p->w, q), AS_ECANCELLED);
    as_worker_finish(p->w, q);
}

static void an_event_loop_is_notified_of_room_and_inputs(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, TALK, 0);
    unsigned what = 0;

    assert_false(as_worker_want(p->w, q, AS_WANT_ROOM));
    assert_false(as_worker_want(p->w, q, AS_WANT_INPUT));
    assert_null(pair_ready(p, &what));
    grant(p, 1, 1, 1);
    as_frame_put_end(&p->d.out, 1, 0);
    fake_send(&p->d);
    fake_expect(&p->d, AS_FRAME_CREDIT); /* for inputs */
    pair_sync(p);
    assert_ptr_equal(pair_ready(p, &what), q);
    assert_int_equal(what, AS_WANT_ROOM | AS_WANT_INPUT);
    assert_null(pair_ready(p, &what));
    assert_true(as_worker_want(p->w, q, AS_WANT_ROOM));
    as_worker_finish(p->w, q);
}

/* The request is finished by another thread, which begins when the loop is told of it. */
struct other {
    struct pair *p;
    struct as_worker_req *q;
    atomic_bool go, over;
    int mine; /* what a reference was taken of */
};

static void *finish_it(void *arg)
{
    struct other *o = arg;

    while (!atomic_load(&o->go))
        sched_yield();
    as_worker_finish(o->p->w, o->q);
    atomic_store(&o->over, true);
    return NULL;
}

static void take_other(void *ctx, struct as_worker_req *q)
{
    struct other *o = as_worker_req_data(q);

    atomic_store(&o->go, true);
    for (int i = 0; i < 100; i++)
        sched_yield();
    assert_false(atomic_load(&o->over)); /* it waits for us */
    assert_ptr_equal(as_worker_req_data(q), o);
    *(struct other **)ctx = o;
}

static void a_request_exists_while_its_credit_is_reported(void **state)
{
    struct pair *p = *state;

    for (uint64_t stream = 1; stream < 100; stream += 2) {
        struct other o = {.p = p}, *told;
        pthread_t t;
        unsigned what;

        o.q = start(p, stream, COUNT, 0);
        as_worker_req_set_data(o.q, &o);
        assert_false(as_worker_want(p->w, o.q, AS_WANT_ROOM));
        assert_int_equal(pthread_create(&t, NULL, finish_it, &o), 0);
        grant(p, stream, 1, 1);
        pair_sync(p);
        assert_true(as_worker_ready(p->w, &what, take_other, &told));
        assert_int_equal(what, AS_WANT_ROOM);
        assert_ptr_equal(told, &o);
        pthread_join(t, NULL);
        assert_false(as_worker_ready(p->w, &what, take_other, &told));
        as_worker_flush(p->w);
        fake_expect(&p->d, AS_FRAME_END);
    }
}

/* --- inputs --- */

static void put_input(struct pair *p, uint64_t stream, size_t n, bool more)
{
    uint8_t *data = calloc(1, n + 1);
    int64_t shape[1] = {(int64_t)n};
    struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, shape, data, n};
    struct as_msg msg = {.id = AS_STR("more"), .tensors = &t, .n_tensors = 1};
    struct as_frame_msg fixed = {.more = more, .input = true};

    memset(data, (int)(n % 251), n);
    assert_int_equal(as_frame_put_msg(&p->d.out, AS_FRAME_DATA, stream, &fixed, &msg, NULL), 0);
    free(data);
}

static void take_input(struct pair *p, struct as_worker_req *q, size_t n)
{
    struct as_worker_req *in;
    const struct as_msg *msg;

    assert_int_equal(as_worker_next_input(p->w, q, &in), 0);
    msg = as_worker_req_msg(in);
    assert_str(msg->id, "more");
    assert_int_equal(msg->tensors[0].nbytes, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(msg->tensors[0].data[i], n % 251);
    as_worker_drop_input(p->w, q, in);
}

static void inputs_come_in_order_and_end(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, TALK, 0), *in;
    struct as_frame_credit c;

    as_worker_flush(p->w);
    fake_expect(&p->d, AS_FRAME_CREDIT);
    assert_int_equal(p->d.f.stream, 1);
    assert_int_equal(as_frame_get_credit(&p->d.f, &c), 0);
    assert_int_equal(c.messages, AS_WORKER_INPUTS);
    assert_int_equal(c.bytes, AS_WORKER_INPUT_BYTES);
    assert_int_equal(as_worker_next_input(p->w, q, &in), AS_EAGAIN);
    put_input(p, 1, 8, true);
    put_input(p, 1, 200000, true);
    put_input(p, 1, 0, false); /* END on the last one */
    fake_send(&p->d);
    pair_sync(p);
    take_input(p, q, 8);
    take_input(p, q, 200000);
    take_input(p, q, 0);
    assert_int_equal(as_worker_next_input(p->w, q, &in), AS_EOF);
    as_worker_finish(p->w, q);
}

static void inputs_that_are_taken_are_granted_again(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, TALK, 0);
    struct as_frame_credit c;

    as_worker_flush(p->w);
    fake_expect(&p->d, AS_FRAME_CREDIT);
    for (uint32_t i = 0; i < AS_WORKER_INPUTS; i++)
        put_input(p, 1, 8, true);
    fake_send(&p->d);
    pair_sync(p);
    for (uint32_t i = 0; i < AS_WORKER_INPUTS; i++)
        take_input(p, q, 8);
    as_worker_flush(p->w);
    for (uint32_t again = 0; again < AS_WORKER_INPUTS; again += c.messages) {
        fake_expect(&p->d, AS_FRAME_CREDIT);
        assert_int_equal(as_frame_get_credit(&p->d.f, &c), 0);
    }
    as_worker_finish(p->w, q);
}

static void expect_end_of_link(struct pair *p, const char *why)
{
    fake_send(&p->d);
    while (as_worker_wait(p->w) == 0)
        ;
    assert_non_null(strstr(as_worker_error(p->w), why));
}

static void more_inputs_than_granted_end_the_link(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, TALK, 0);

    for (uint32_t i = 0; i <= AS_WORKER_INPUTS; i++)
        put_input(p, 1, 8, true);
    expect_end_of_link(p, "that its stream does not take");
    as_worker_finish(p->w, q);
}

static void an_input_for_a_model_that_takes_one_ends_the_link(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, COUNT, 1);

    put_input(p, 1, 8, true);
    expect_end_of_link(p, "that its stream does not take");
    as_worker_finish(p->w, q);
}

static void too_much_credit_ends_the_link(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, COUNT, AS_FRAME_CREDIT_MESSAGES); /* just not */

    grant(p, 1, 1, 0);
    expect_end_of_link(p, "malformed CREDIT");
    as_worker_finish(p->w, q);
}

/* The answer may be over while more of the input is on its way, in the middle of a body too. */
static void inputs_that_cross_the_end_are_passed_over(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = start(p, 1, TALK, 0);
    struct bytes all;

    as_worker_flush(p->w);
    fake_expect(&p->d, AS_FRAME_CREDIT);
    put_input(p, 1, 200000, true);
    put_input(p, 1, 300000, true);
    as_frame_put_end(&p->d.out, 1, 0);
    all = bytes_of(&p->d.out);
    assert_int_equal(send(p->d.fd, all.p, 100000, 0), 100000);
    (void)as_worker_poll(p->w);
    as_worker_finish(p->w, q); /* its body is half here */
    as_worker_flush(p->w);
    fake_expect(&p->d, AS_FRAME_END);
    as_outq_copy(&p->d.out, all.p + 100000, all.n - 100000);
    fake_send(&p->d);
    pair_sync(p);
    free(all.p);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        T(parts_go_out_as_far_as_credit_reaches),
        T(bytes_may_be_overdrawn_by_one_part),
        T(zero_parts_are_an_answer),
        T(a_cancel_ends_the_wait_for_room),
        T(threads_wait_for_room_too),
        T(the_end_of_the_link_ends_the_wait),
        T(an_event_loop_is_notified_of_room_and_inputs),
        T(a_request_exists_while_its_credit_is_reported),
        T(inputs_come_in_order_and_end),
        T(inputs_that_are_taken_are_granted_again),
        T(more_inputs_than_granted_end_the_link),
        T(an_input_for_a_model_that_takes_one_ends_the_link),
        T(too_much_credit_ends_the_link),
        T(inputs_that_cross_the_end_are_passed_over),
    };

    return cmocka_run_group_tests_name("worker_stream", tests, NULL, NULL);
}
