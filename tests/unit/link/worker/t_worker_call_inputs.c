/* The worker library: calls whose caller sends any number of messages (INPUTS). */
#include "call_pair.h"

#define ROOM ((int64_t)AS_WORKER_INPUTS)

/* An OPEN that messages follow. */
static struct as_worker_req *start(struct calls *c, uint64_t stream, uint32_t flags)
{
    struct as_body body = {.codec = AS_BODY_BYTES, .method = AS_STR("Total")};
    struct as_frame_call k = {.target = CALLEE, .flags = flags, .more = true};
    struct as_worker_req *q;

    assert_int_equal(as_frame_put_call(&c->d.out, AS_FRAME_OPEN, stream, &k, &body, NULL), 0);
    fake_send(&c->d);
    while (!(q = as_worker_next(c->w)))
        assert_int_equal(as_worker_wait(c->w), 0);
    return q;
}

static void send_input(struct calls *c, uint64_t stream, const struct as_body *body)
{
    struct as_frame_call k = {.more = true};

    assert_int_equal(as_frame_put_call(&c->d.out, AS_FRAME_DATA, stream, &k, body, NULL), 0);
    fake_send(&c->d);
}

/* The CREDIT of the stream that the worker grants next. */
static struct as_frame_credit expect_credit(struct calls *c, uint64_t stream)
{
    struct as_frame_credit k;

    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_CREDIT);
    assert_int_equal(c->d.f.stream, stream);
    assert_int_equal(as_frame_get_credit(&c->d.f, &k), 0);
    return k;
}

static struct as_worker_req *started(struct calls *c)
{
    struct as_worker_req *q = start(c, 1, AS_CALL_F_STREAM | AS_CALL_F_INPUTS);

    assert_true(as_worker_req_takes_inputs(q) && as_worker_req_streams(q));
    assert_int_equal(expect_credit(c, 1).messages, ROOM);
    return q;
}

static void take(struct calls *c, struct as_worker_req *q, const char *data)
{
    struct as_worker_req *in;
    int err;

    while ((err = as_worker_next_input(c->w, q, &in)) == AS_EAGAIN)
        as_worker_await_input(c->w, q);
    assert_int_equal(err, 0);
    assert_true(as_str_eq(as_worker_req_body(in)->data, as_str_of(data)));
    as_worker_drop_input(c->w, q, in);
}

static void end(struct calls *c, struct as_worker_req *q)
{
    as_worker_finish(c->w, q);
    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_END);
}

static void messages_come_in_order_and_end(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = started(c), *in;
    struct as_body a = body_of("first"), b = body_of(""), last = body_of("last");

    assert_int_equal(as_worker_next_input(c->w, q, &in), AS_EAGAIN);
    send_input(c, 1, &a);
    send_input(c, 1, &b);
    take(c, q, "first");
    take(c, q, "");
    send_input(c, 1, &last);
    as_frame_put_end(&c->d.out, 1, 0);
    calls_sync(c);
    take(c, q, "last");
    assert_int_equal(as_worker_next_input(c->w, q, &in), AS_EOF);
    end(c, q);
}

static void room_is_granted_again_when_half_is_used(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = started(c);
    struct as_body body = body_of("x");

    for (int i = 0; i < ROOM; i++)
        send_input(c, 1, &body);
    for (int i = 0; i < ROOM / 2; i++)
        take(c, q, "x");
    assert_int_equal(expect_credit(c, 1).messages, ROOM / 2);
    for (int i = 0; i < ROOM / 2; i++)
        take(c, q, "x");
    assert_int_equal(expect_credit(c, 1).messages, ROOM / 2);
    end(c, q);
}

static void a_large_message_comes_in_frames(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = started(c);
    size_t n = 300000;
    char *bytes = calloc(1, n + 1);
    struct as_body body = {.codec = AS_BODY_BYTES, .data = {bytes, n}}, small = body_of("after");

    memset(bytes, 'y', n);
    send_input(c, 1, &body);
    send_input(c, 1, &small);
    take(c, q, bytes);
    take(c, q, "after");
    end(c, q);
    free(bytes);
}

static void a_cancel_ends_the_messages(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = started(c), *in;
    struct as_body body = body_of("x");

    as_frame_put_cancel(&c->d.out, 1, 1);
    calls_sync(c);
    assert_int_equal(as_worker_next_input(c->w, q, &in), AS_ECANCELLED);
    send_input(c, 1, &body); /* it was on its way */
    calls_sync(c);
    as_worker_fail(c->w, q, AS_STATUS_CANCELLED, AS_STR("cancelled"));
    as_worker_flush(c->w);
    assert_int_equal(fake_expect_error(&c->d, 1).code, AS_STATUS_CANCELLED);
    send_input(c, 1, &body);
    as_frame_put_end(&c->d.out, 1, 0);
    calls_sync(c);
    end(c, start(c, 3, AS_CALL_F_STREAM)); /* the link is as before */
}

static void expect_closed(struct calls *c, struct as_worker_req *q, const char *why)
{
    fake_send(&c->d);
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    if (!strstr(as_worker_error(c->w), why))
        fail_msg("\"%s\" instead of \"%s\"", as_worker_error(c->w), why);
    as_worker_fail(c->w, q, AS_STATUS_INTERNAL, AS_STR(""));
}

static void a_call_without_inputs_takes_none(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, AS_CALL_F_STREAM);
    struct as_body body = body_of("x");

    send_input(c, 1, &body);
    expect_closed(c, q, "a message that its stream does not take");
}

static void a_message_beyond_the_room_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = started(c);
    struct as_body body = body_of("x");

    for (int i = 0; i <= ROOM; i++)
        send_input(c, 1, &body);
    expect_closed(c, q, "a message that its stream does not take");
}

static void a_message_behind_the_end_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = started(c);
    struct as_body body = body_of("x");

    as_frame_put_end(&c->d.out, 1, 0);
    send_input(c, 1, &body);
    expect_closed(c, q, "a message that its stream does not take");
}

static void a_malformed_message_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = started(c);
    uint8_t bytes[AS_BODY_FIXED] = {9};
    struct as_frame_call k = {.more = true, .body = bytes, .body_len = sizeof(bytes)};

    assert_int_equal(as_frame_put_call(&c->d.out, AS_FRAME_DATA, 1, &k, NULL, NULL), 0);
    expect_closed(c, q, "unknown codec");
}

static void a_message_of_tensors_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = started(c);
    struct as_frame_msg fixed = {.more = true, .input = true};
    struct as_msg msg = {0};

    assert_int_equal(as_frame_put_msg(&c->d.out, AS_FRAME_DATA, 1, &fixed, &msg, NULL), 0);
    expect_closed(c, q, "");
}

#define INPUTS_TEST(f) cmocka_unit_test_setup_teardown(f, calls_setup, calls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        INPUTS_TEST(messages_come_in_order_and_end),
        INPUTS_TEST(room_is_granted_again_when_half_is_used),
        INPUTS_TEST(a_large_message_comes_in_frames),
        INPUTS_TEST(a_cancel_ends_the_messages),
        INPUTS_TEST(a_call_without_inputs_takes_none),
        INPUTS_TEST(a_message_beyond_the_room_ends_the_link),
        INPUTS_TEST(a_message_behind_the_end_ends_the_link),
        INPUTS_TEST(a_malformed_message_ends_the_link),
        INPUTS_TEST(a_message_of_tensors_ends_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
