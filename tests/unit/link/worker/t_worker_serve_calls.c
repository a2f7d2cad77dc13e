/* The worker library: requests that are calls: bodies, answers, parts, beyond the slots. */
#include "call_pair.h"

static void a_call_is_taken_and_answered(void **state)
{
    struct calls *c = *state;
    struct as_str buffers[2] = {AS_STR("first"), AS_STR("second")};
    struct as_body body = {.codec = AS_BODY_PICKLE,
                           .method = AS_STR("predict"),
                           .data = AS_STR("pickle"),
                           .buffers = buffers,
                           .n_buffers = 2};
    struct as_body answer = body_of("four");
    struct as_worker_req *q;
    const struct as_body *b;

    fake_call(&c->d, 1, &body, 0, 0);
    while (!(q = as_worker_next(c->w)))
        assert_int_equal(as_worker_wait(c->w), 0);
    b = as_worker_req_body(q);
    assert_non_null(b);
    assert_int_equal(b->codec, AS_BODY_PICKLE);
    assert_true(as_str_eq(b->method, AS_STR("predict")));
    assert_true(as_str_eq(b->data, AS_STR("pickle")));
    assert_int_equal(b->n_buffers, 2);
    assert_true(as_str_eq(b->buffers[1], AS_STR("second")));
    assert_int_equal((uintptr_t)b->buffers[0].p % 64, 0);
    assert_int_equal((uintptr_t)b->buffers[1].p % 64, 0);
    assert_true(as_str_eq(as_worker_req_msg(q)->id, AS_STR("id")));
    assert_int_equal(as_worker_req_msg(q)->n_meta, 1);
    assert_true(as_str_eq(as_worker_req_msg(q)->meta[0].value, AS_STR("00-1")));
    assert_false(as_worker_req_streams(q) || as_worker_req_beyond(q));
    assert_int_equal(as_worker_answer_body(c->w, q, &answer), 0);
    as_worker_flush(c->w);
    fake_expect_body(&c->d, 1, &answer, true);
}

static void large_bodies_come_and_go(void **state)
{
    struct calls *c = *state;
    size_t n = 3u << 20;
    char *bytes = malloc(n);
    struct as_str buffer = {bytes, n};
    struct as_body body = {.codec = AS_BODY_PICKLE, .buffers = &buffer, .n_buffers = 1};
    struct as_worker_req *q;
    const struct as_body *b;
    void *hold;

    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i * 7);
    as_frame_put_ping(&c->d.out, AS_FRAME_PING, 1); /* the body does not start at an even place */
    fake_call(&c->d, 1, &body, 0, 0);
    while (!(q = as_worker_next(c->w)))
        assert_int_equal(as_worker_wait(c->w), 0);
    fake_expect(&c->d, AS_FRAME_PONG);
    b = as_worker_req_body(q);
    assert_int_equal(b->buffers[0].n, n);
    assert_int_equal((uintptr_t)b->buffers[0].p % 64, 0);
    assert_memory_equal(b->buffers[0].p, bytes, n);
    hold = as_worker_req_hold(q);
    buffer = b->buffers[0];
    assert_int_equal(as_worker_answer_body(c->w, q, &body), 0); /* from the request's own memory */
    as_worker_flush(c->w);
    buffer.p = bytes;
    fake_expect_body(&c->d, 1, &body, true);
    as_worker_release_hold(hold);
    free(bytes);
}

static void bad_answers_are_refused_and_the_call_stays(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = calls_start(c, 1, 0);
    struct as_str part = AS_STR("no body");
    size_t n = 65u << 20;
    char *bytes = calloc(1, n);
    struct as_body bad[] = {
        {.codec = 3},
        {.codec = AS_BODY_BYTES, .method = AS_STR("m")},
        {.codec = AS_BODY_BYTES, .flags = 2},
        {.codec = AS_BODY_BYTES, .parts = &part, .n_parts = 1},
        {.codec = AS_BODY_BYTES, .n_buffers = 1},
        {.codec = AS_BODY_BYTES, .buffers = &part, .n_buffers = AS_WORKER_BODY_BUFFERS + 1},
    };
    struct as_body large = {.codec = AS_BODY_BYTES, .data = {bytes, n}};

    for (size_t i = 0; i < AS_COUNT(bad); i++)
        assert_int_equal(as_worker_answer_body(c->w, q, &bad[i]), AS_EINVALID);
    assert_int_equal(as_worker_answer_body(c->w, q, &large), AS_ETOOBIG);
    assert_int_equal(as_worker_part_body(c->w, q, &large), AS_EINVALID); /* it does not stream */
    assert_int_equal(as_worker_answer(c->w, q, as_worker_req_msg(q)), AS_EINVALID);
    calls_answer(c, q);
    large = body_of("answer");
    fake_expect_body(&c->d, 1, &large, true);
    free(bytes);
}

static void a_call_without_an_answer_fails(void **state)
{
    struct calls *c = *state;

    as_worker_finish(c->w, calls_start(c, 1, 0));
    as_worker_flush(c->w);
    assert_int_equal(fake_expect_error(&c->d, 1).code, AS_STATUS_INTERNAL);
}

static void a_stream_is_bound_by_its_credit(void **state)
{
    struct calls *c = *state;
    struct as_frame_credit two = {.messages = 2, .bytes = 1 << 20};
    struct as_worker_req *q = calls_start(c, 1, AS_CALL_F_STREAM);
    struct as_body part = body_of("part");

    assert_true(as_worker_req_streams(q));
    assert_int_equal(as_worker_part_body(c->w, q, &part), AS_EAGAIN);
    as_frame_put_credit(&c->d.out, 1, &two);
    fake_send(&c->d);
    assert_int_equal(as_worker_await_room(c->w, q), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(as_worker_part_body(c->w, q, &part), 0);
    assert_int_equal(as_worker_part_body(c->w, q, &part), AS_EAGAIN);
    assert_int_equal(as_worker_answer_body(c->w, q, &part), AS_EAGAIN);
    as_worker_flush(c->w);
    for (int i = 0; i < 2; i++)
        fake_expect_body(&c->d, 1, &part, false);
    as_worker_finish(c->w, q);
    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_END);
    assert_int_equal(c->d.f.stream, 1);
}

static void a_stream_ends_with_its_last_message(void **state)
{
    struct calls *c = *state;
    struct as_frame_credit one = {.messages = 1, .bytes = 1};
    struct as_worker_req *q = calls_start(c, 1, AS_CALL_F_STREAM);
    struct as_body part = body_of("last");

    as_frame_put_credit(&c->d.out, 1, &one);
    fake_send(&c->d);
    assert_int_equal(as_worker_await_room(c->w, q), 0);
    assert_int_equal(as_worker_answer_body(c->w, q, &part), 0);
    as_worker_flush(c->w);
    fake_expect_body(&c->d, 1, &part, true);
}

static void calls_beyond_start_although_all_slots_execute(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *a = calls_start(c, 1, 0), *b = calls_start(c, 3, 0), *x, *y;
    struct as_body body = body_of("ask");

    fake_call(&c->d, 5, &body, 0, 0);
    calls_sync(c);
    assert_null(as_worker_next(c->w)); /* both slots execute */
    fake_call(&c->d, 7, &body, AS_CALL_F_BEYOND, 0);
    fake_call(&c->d, 9, &body, AS_CALL_F_BEYOND, 0);
    calls_sync(c);
    x = as_worker_next(c->w);
    y = as_worker_next(c->w);
    assert_true(x && y && as_worker_req_beyond(x) && as_worker_req_beyond(y));
    assert_null(as_worker_next(c->w));
    calls_answer(c, x);
    assert_null(as_worker_next(c->w)); /* its end frees no slot */
    calls_answer(c, a);
    a = as_worker_next(c->w);
    assert_non_null(a);
    assert_false(as_worker_req_beyond(a));
    calls_answer(c, a);
    calls_answer(c, b);
    calls_answer(c, y);
    calls_sync(c);
    assert_null(as_worker_next(c->w));
}

static void calls_beyond_count_in_no_limit_of_the_link(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("ask");
    struct as_worker_req *q;
    uint32_t n = 0;

    for (uint64_t s = 1; s < 2 * 1000; s += 2) /* more than slots and prefetch */
        fake_call(&c->d, s, &body, AS_CALL_F_BEYOND, 0);
    while (n < 1000) {
        q = as_worker_next(c->w);
        if (!q) {
            assert_int_equal(as_worker_wait(c->w), 0);
            continue;
        }
        as_worker_fail(c->w, q, AS_STATUS_INTERNAL, AS_STR("no"));
        n++;
    }
    as_worker_flush(c->w);
    for (uint64_t s = 1; s < 2 * 1000; s += 2)
        (void)fake_expect_error(&c->d, s);
}

/* The link ends, and the worker says why. */
static void expect_broken(struct calls *c, const char *why)
{
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    if (!strstr(as_worker_error(c->w), why))
        fail_msg("\"%s\" instead of \"%s\"", as_worker_error(c->w), why);
}

static void a_malformed_body_ends_the_link(void **state)
{
    struct calls *c = *state;
    uint8_t bytes[AS_BODY_FIXED] = {9};
    struct as_frame_call k = {.target = CALLEE, .body = bytes, .body_len = sizeof(bytes)};

    assert_int_equal(as_frame_put_call(&c->d.out, AS_FRAME_OPEN, 1, &k, NULL, NULL), 0);
    fake_send(&c->d);
    expect_broken(c, "codec");
}

static void a_large_malformed_body_ends_the_link(void **state)
{
    struct calls *c = *state;
    size_t n = 1u << 20;
    uint8_t *bytes = calloc(1, n);
    struct as_frame_call k = {.target = CALLEE, .body = bytes, .body_len = n};

    bytes[0] = AS_BODY_BYTES;
    bytes[8] = 1; /* one byte of data, and nothing of the rest */
    assert_int_equal(as_frame_put_call(&c->d.out, AS_FRAME_OPEN, 1, &k, NULL, NULL), 0);
    fake_send(&c->d);
    expect_broken(c, "behind its end");
    free(bytes);
}

static void tensors_for_a_model_of_calls_end_the_link(void **state)
{
    struct calls *c = *state;

    fake_ask_of(&c->d, 1, 4, 0, CALLEE);
    fake_send(&c->d);
    expect_broken(c, "unknown model");
}

static void a_call_of_a_model_of_tensors_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("ask");
    struct as_frame_call k = {.target = TENSOR};

    assert_int_equal(as_frame_put_call(&c->d.out, AS_FRAME_OPEN, 1, &k, &body, NULL), 0);
    fake_send(&c->d);
    expect_broken(c, "takes none");
}

static void a_model_of_calls_has_no_signature(void **state)
{
    struct calls *c = *state;
    struct as_worker_conf conf = {.size = sizeof(conf), .path = c->d.path, .token = "x"};
    struct as_worker_model m = {.size = sizeof(m), .name = "A", .opaque = true, .decoupled = true};
    struct as_worker_req *q;
    struct as_worker *w;

    assert_int_equal(as_worker_new(&w, &conf), 0);
    assert_int_equal(as_worker_add(w, &m), AS_EINVALID);
    assert_non_null(strstr(as_worker_error(w), "calls"));
    m.decoupled = false;
    m.max_batch = 2;
    assert_int_equal(as_worker_add(w, &m), AS_EINVALID);
    m.max_batch = 0;
    assert_int_equal(as_worker_add(w, &m), 0);
    assert_int_equal(as_worker_rehearse(w, 0, &(struct as_msg){0}, NULL, NULL, &q), AS_EINVALID);
    assert_non_null(strstr(as_worker_error(w), "takes calls"));
    as_worker_free(w);
}

#define CALLS_TEST(f) cmocka_unit_test_setup_teardown(f, calls_setup, calls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CALLS_TEST(a_call_is_taken_and_answered),
        CALLS_TEST(large_bodies_come_and_go),
        CALLS_TEST(bad_answers_are_refused_and_the_call_stays),
        CALLS_TEST(a_call_without_an_answer_fails),
        CALLS_TEST(a_stream_is_bound_by_its_credit),
        CALLS_TEST(a_stream_ends_with_its_last_message),
        CALLS_TEST(calls_beyond_start_although_all_slots_execute),
        CALLS_TEST(calls_beyond_count_in_no_limit_of_the_link),
        CALLS_TEST(a_malformed_body_ends_the_link),
        CALLS_TEST(a_large_malformed_body_ends_the_link),
        CALLS_TEST(tensors_for_a_model_of_calls_end_the_link),
        CALLS_TEST(a_call_of_a_model_of_tensors_ends_the_link),
        CALLS_TEST(a_model_of_calls_has_no_signature),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
