/* The worker library: calls that it opens: windows, answers, streams, cancel. */
#include "call_pair.h"

static void a_call_is_opened_and_answered(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = calls_open(c, NULL, "hello");
    struct as_body answer = body_of("world");
    struct as_worker_out_msg m;
    struct as_frame_call k;
    void *hold;

    assert_ptr_equal(as_worker_out_data(o), c);
    assert_int_equal(as_worker_out_read(o, &m), AS_EAGAIN);
    assert_int_equal(as_worker_out_wait(o, 0), AS_EDEADLINE);
    k = fake_expect_call(&c->d, 2);
    assert_int_equal(k.target, c->target);
    assert_int_equal(k.parent, 0);
    assert_int_equal(k.flags, 0);
    assert_int_equal(k.timeout, 0);
    fake_answer(&c->d, 2, &answer, false);
    assert_int_equal(as_worker_out_wait(o, AS_NEVER), 0);
    assert_int_equal(as_worker_out_read(o, &m), 0);
    assert_true(body_is(m.body, "world") && m.last);
    hold = as_worker_out_hold(o);
    answer = *m.body;
    assert_int_equal(as_worker_out_read(o, &m), AS_EOF);
    as_worker_out_free(o);
    assert_memory_equal(answer.data.p, "world", 5);
    as_worker_release_hold(hold);
}

static void what_a_call_says_is_on_the_wire(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = calls_start(c, 1, 0);
    struct as_meta meta[2] = {{AS_STR("a"), AS_STR("1")}, {AS_STR("b"), AS_STR("")}};
    struct as_body body = body_of("x");
    struct as_worker_open v = {.size = sizeof(v),
                               .target = c->target,
                               .timeout = AS_SEC,
                               .parent = q,
                               .body = &body,
                               .id = AS_STR("request"),
                               .meta = meta,
                               .n_meta = 2};
    struct as_worker_out *o[3];
    struct as_arena a;
    const char *why;

    for (int i = 0; i < 3; i++) /* the third waits, and is sent from a copy */
        assert_int_equal(as_worker_open(c->w, &v, &o[i]), 0);
    meta[0].value = body.data = AS_STR("gone");
    as_worker_flush(c->w);
    as_arena_init(&a, NULL, 0);
    for (int i = 0; i < 3; i++) {
        struct as_body answer = body_of("y");
        struct as_frame_call k;

        fake_expect(&c->d, AS_FRAME_OPEN);
        assert_int_equal(as_frame_get_call(&c->d.f, &a, &k, &why), 0);
        assert_int_equal(k.parent, 1);
        assert_true(k.timeout > 0 && k.timeout <= AS_SEC);
        assert_true(as_str_eq(k.id, AS_STR("request")));
        assert_int_equal(k.n_meta, 2);
        assert_int_equal(k.priority, 1); /* the default, as of requests of clients */
        assert_true(as_str_eq(k.meta[0].value, AS_STR("1")) && !k.meta[1].value.n);
        assert_int_equal(k.body[24], 'x');
        fake_answer(&c->d, 2 + 2 * (uint64_t)i, &answer, false);
        calls_sync(c);
    }
    as_arena_fini(&a);
    for (int i = 0; i < 3; i++)
        as_worker_out_free(o[i]);
    calls_answer(c, q);
}

static void large_bodies_go_and_come(void **state)
{
    struct calls *c = *state;
    size_t n = 2u << 20;
    char *bytes = malloc(n);
    struct as_body body = {.codec = AS_BODY_BYTES, .data = {bytes, n}};
    struct as_worker_out_msg m;
    struct as_frame_call k = {0};
    struct as_worker_out *o;
    size_t got = 0;

    memset(bytes, 7, n);
    calls_grant(c, 2, 1); /* a window is open until its bytes are used up */
    calls_sync(c);
    o = calls_open_of(c, NULL, &body, false, 0);
    memset(bytes, 8, n); /* it was copied */
    while (fake_is_quiet(&c->d))
        (void)as_worker_poll(c->w);
    fake_expect(&c->d, AS_FRAME_OPEN);
    while (!(c->d.f.flags & AS_FRAME_F_END)) {
        as_worker_flush(c->w);
        fake_expect(&c->d, AS_FRAME_DATA);
        got += c->d.f.n;
        assert_int_equal(c->d.f.p[c->d.f.n - 1], 7);
    }
    assert_int_equal(got, n + 24);
    memset(bytes, 9, n);
    assert_int_equal(as_frame_put_call(&c->d.out, AS_FRAME_DATA, 2, &k, &body, NULL), 0);
    while (c->d.out.bytes) { /* the socket holds less than the answer */
        struct iovec iov[16];
        int v = as_outq_iov(&c->d.out, iov, 16);
        ssize_t r = sendmsg(c->d.fd, &(struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)v},
                            MSG_NOSIGNAL | MSG_DONTWAIT);

        if (r < 0)
            (void)as_worker_poll(c->w);
        else
            as_outq_drop(&c->d.out, (size_t)r);
    }
    assert_int_equal(as_worker_out_wait(o, AS_NEVER), 0);
    assert_int_equal(as_worker_out_read(o, &m), 0);
    assert_int_equal(m.body->data.n, n);
    assert_memory_equal(m.body->data.p, bytes, n);
    as_worker_out_free(o);
    free(bytes);
}

static void bad_calls_are_refused(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("x"), bad = {.codec = 0};
    struct as_worker_open v = {.size = sizeof(v), .target = c->target + 1, .body = &body};
    struct as_meta meta = {AS_STR("k"), {calloc(1, 600000), 600000}};
    struct as_worker_out *o;
    uint32_t n;

    assert_int_equal(as_worker_open(c->w, &v, &o), AS_EINVALID);
    v.target = c->target;
    v.body = &bad;
    assert_int_equal(as_worker_open(c->w, &v, &o), AS_EINVALID);
    v.body = NULL;
    assert_int_equal(as_worker_open(c->w, &v, &o), AS_EINVALID);
    bad = (struct as_body){.codec = AS_BODY_BYTES, .flags = AS_BODY_F_EXCEPTION};
    v.body = &bad;
    assert_int_equal(as_worker_open(c->w, &v, &o), AS_EINVALID);
    v.body = &body;
    v.meta = &meta;
    v.n_meta = 1;
    assert_int_equal(as_worker_open(c->w, &v, &o), AS_ETOOBIG);
    assert_int_equal(as_worker_target(c->w, "a", "", &n), AS_EINVALID);
    assert_int_equal(as_worker_target(c->w, "a#b", "c", &n), AS_EINVALID);
    assert_int_equal(as_worker_target(c->w, "a", "\xff", &n), AS_EINVALID);
    assert_int_equal(as_worker_target(c->w, "a", "B", &n), 0);
    assert_int_equal(n, c->target);
    free((void *)(uintptr_t)meta.value.p);
}

/* --- windows --- */

static void calls_wait_for_the_window_of_their_parent(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *p = calls_start(c, 1, 0), *q = calls_start(c, 3, 0);
    struct as_worker_out *o[4], *other, *none;
    struct as_body answer = body_of("x");

    for (int i = 0; i < 4; i++)
        o[i] = calls_open(c, p, "p");
    other = calls_open(c, q, "q");
    none = calls_open(c, NULL, "none");
    as_worker_flush(c->w);
    assert_int_equal(fake_expect_call(&c->d, 2).parent, 1);
    assert_int_equal(fake_expect_call(&c->d, 4).parent, 1);
    assert_int_equal(fake_expect_call(&c->d, 6).parent, 3);
    assert_int_equal(fake_expect_call(&c->d, 8).parent, 0);
    calls_sync(c);
    assert_true(fake_is_quiet(&c->d));
    fake_answer(&c->d, 4, &answer, false); /* any end gives room to the next one */
    calls_sync(c);
    assert_int_equal(fake_expect_call(&c->d, 10).parent, 1);
    calls_sync(c);
    fake_fail(&c->d, 2, AS_STATUS_INTERNAL, 0, "no");
    calls_sync(c);
    assert_int_equal(fake_expect_call(&c->d, 12).parent, 1);
    for (int i = 0; i < 4; i++)
        as_worker_out_free(o[i]);
    as_worker_out_free(other);
    as_worker_out_free(none);
    calls_answer(c, p);
    calls_answer(c, q);
}

static void a_window_is_bound_in_bytes(void **state)
{
    struct calls *c = *state;
    struct as_body answer = body_of("x");
    struct as_worker_out *a, *b;

    calls_grant(c, 100, 30); /* OPENs of 24 + 7 bytes */
    calls_sync(c);
    a = calls_open(c, NULL, "0123456");
    b = calls_open(c, NULL, "0123456");
    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 2);
    calls_sync(c);
    fake_answer(&c->d, 2, &answer, false);
    calls_sync(c);
    (void)fake_expect_call(&c->d, 4);
    as_worker_out_free(a);
    as_worker_out_free(b);
}

static void a_larger_window_lets_more_go(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o[5];

    for (int i = 0; i < 5; i++)
        o[i] = calls_open(c, NULL, "x");
    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 2);
    (void)fake_expect_call(&c->d, 4);
    calls_grant(c, 5, 1 << 20);
    calls_sync(c);
    for (uint64_t s = 6; s <= 10; s += 2)
        (void)fake_expect_call(&c->d, s);
    for (int i = 0; i < 5; i++)
        as_worker_out_free(o[i]);
}

static void calls_of_an_answered_parent_have_none(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *p = calls_start(c, 1, 0);
    struct as_worker_out *o[3], *none;
    struct as_body answer = body_of("answer");

    for (int i = 0; i < 3; i++)
        o[i] = calls_open(c, p, "x");
    calls_answer(c, p);
    (void)fake_expect_call(&c->d, 2);
    (void)fake_expect_call(&c->d, 4);
    fake_expect_body(&c->d, 1, &answer, true);
    none = calls_open(c, NULL, "y");
    calls_sync(c); /* the two that are open fill the window without a parent */
    assert_true(fake_is_quiet(&c->d));
    fake_answer(&c->d, 2, &answer, false);
    calls_sync(c);
    assert_int_equal(fake_expect_call(&c->d, 6).parent, 0); /* in order: that of the parent first */
    fake_answer(&c->d, 4, &answer, false);
    calls_sync(c);
    (void)fake_expect_call(&c->d, 8);
    for (int i = 0; i < 3; i++)
        as_worker_out_free(o[i]);
    as_worker_out_free(none);
}

/* --- streams --- */

static uint32_t expect_credit(struct calls *c, uint64_t stream)
{
    struct as_frame_credit k;

    fake_expect(&c->d, AS_FRAME_CREDIT);
    assert_int_equal(c->d.f.stream, stream);
    assert_int_equal(as_frame_get_credit(&c->d.f, &k), 0);
    return k.messages;
}

static void a_stream_is_read_within_its_window(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("x"), part = body_of("part");
    struct as_worker_out *o = calls_open_of(c, NULL, &body, true, 4);
    struct as_worker_out_msg m;

    as_worker_flush(c->w);
    assert_int_equal(fake_expect_call(&c->d, 2).flags, AS_CALL_F_STREAM);
    assert_int_equal(expect_credit(c, 2), 4);
    for (int i = 0; i < 4; i++)
        fake_answer(&c->d, 2, &part, true);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(as_worker_out_wait(o, AS_NEVER), 0);
        assert_int_equal(as_worker_out_read(o, &m), 0);
        assert_true(body_is(m.body, "part") && !m.last);
    }
    assert_int_equal(as_worker_out_read(o, &m), AS_EAGAIN); /* the fourth was read, too */
    as_worker_flush(c->w);
    assert_int_equal(expect_credit(c, 2), 2);
    assert_int_equal(expect_credit(c, 2), 2);
    fake_answer(&c->d, 2, &part, true);
    as_frame_put_end(&c->d.out, 2, 0);
    fake_send(&c->d);
    calls_sync(c);
    assert_int_equal(as_worker_out_read(o, &m), 0);
    assert_true(m.last);
    assert_int_equal(as_worker_out_read(o, &m), AS_EOF);
    as_worker_out_free(o);
}

static void a_stream_without_a_window_is_granted_by_hand(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("x"), part = body_of("part");
    struct as_worker_out *o = calls_open_of(c, NULL, &body, true, 0);
    struct as_worker_out_msg m;

    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 2);
    calls_sync(c);
    assert_true(fake_is_quiet(&c->d));
    as_worker_out_grant(o, 1);
    as_worker_flush(c->w);
    assert_int_equal(expect_credit(c, 2), 1);
    fake_answer(&c->d, 2, &part, true);
    assert_int_equal(as_worker_out_wait(o, AS_NEVER), 0);
    assert_int_equal(as_worker_out_read(o, &m), 0);
    assert_int_equal(as_worker_out_read(o, &m), AS_EAGAIN);
    calls_sync(c);
    assert_true(fake_is_quiet(&c->d));
    fake_fail(&c->d, 2, AS_STATUS_INTERNAL, AS_ERROR_F_STARTED, "broken");
    m = calls_expect_failure(o, AS_STATUS_INTERNAL);
    assert_true(as_str_eq(m.text, AS_STR("broken")));
    assert_int_equal(m.flags, AS_WORKER_OUT_STARTED);
    as_worker_out_free(o);
}

static void earlier_messages_stay_when_a_stream_fails(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("x"), part = body_of("part");
    struct as_worker_out *o = calls_open_of(c, NULL, &body, true, 4);
    struct as_worker_out_msg m;

    as_worker_flush(c->w);
    fake_answer(&c->d, 2, &part, true);
    (void)fake_expect_call(&c->d, 2);
    (void)expect_credit(c, 2);
    fake_fail(&c->d, 2, AS_STATUS_UNAVAILABLE, 0, "lost");
    calls_sync(c);
    assert_int_equal(as_worker_out_read(o, &m), 0);
    assert_false(m.last);
    (void)calls_expect_failure(o, AS_STATUS_UNAVAILABLE);
    as_worker_out_free(o);
}

/* --- cancel --- */

static void a_cancelled_call_has_failed_at_once(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = calls_open(c, NULL, "x"), *next, *third;
    struct as_body answer = body_of("late");
    uint32_t reason;

    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 2);
    as_worker_out_cancel(o);
    as_worker_out_cancel(o);
    (void)calls_expect_failure(o, AS_STATUS_CANCELLED);
    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_CANCEL);
    assert_int_equal(c->d.f.stream, 2);
    assert_int_equal(as_frame_get_cancel(&c->d.f, &reason), 0);
    assert_int_equal(reason, AS_STATUS_CANCELLED);
    next = calls_open(c, NULL, "y");
    third = calls_open(c, NULL, "z");
    calls_sync(c); /* the cancelled one is still counted */
    (void)fake_expect_call(&c->d, 4);
    as_worker_out_free(o); /* no second CANCEL */
    fake_answer(&c->d, 2, &answer, false);
    calls_sync(c);
    (void)fake_expect_call(&c->d, 6);
    as_worker_out_free(next);
    as_worker_out_free(third);
}

static void a_cancelled_parent_cancels_its_calls(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *p = calls_start(c, 1, 0);
    struct as_worker_out *o[3], *detached;

    calls_grant(c, 3, 1 << 20);
    calls_sync(c);
    for (int i = 0; i < 2; i++)
        o[i] = calls_open(c, p, "x");
    detached = calls_open(c, p, "detached");
    o[2] = calls_open(c, p, "waits");
    as_worker_out_detach(detached);
    as_worker_flush(c->w);
    for (uint64_t s = 2; s <= 6; s += 2)
        (void)fake_expect_call(&c->d, s);
    as_frame_put_cancel(&c->d.out, 1, AS_STATUS_DEADLINE_EXCEEDED);
    fake_send(&c->d);
    while (!as_worker_req_cancelled(p))
        (void)as_worker_poll(c->w);
    as_worker_flush(c->w);
    for (uint64_t s = 2; s <= 6; s += 2) {
        fake_expect(&c->d, AS_FRAME_CANCEL);
        assert_int_equal(c->d.f.stream, s);
    }
    for (int i = 0; i < 3; i++) {
        (void)calls_expect_failure(o[i], AS_STATUS_DEADLINE_EXCEEDED);
        as_worker_out_free(o[i]);
    }
    o[0] = calls_open(c, p, "too late");
    (void)calls_expect_failure(o[0], AS_STATUS_CANCELLED);
    as_worker_out_free(o[0]);
    as_worker_fail(c->w, p, AS_STATUS_CANCELLED, AS_STR(""));
    as_worker_flush(c->w);
    (void)fake_expect_error(&c->d, 1);
    calls_sync(c);
    assert_true(fake_is_quiet(&c->d));
}

static void a_freed_call_is_cancelled_and_a_detached_one_goes_on(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *p = calls_start(c, 1, 0);
    struct as_worker_out *freed = calls_open(c, p, "x"), *detached = calls_open(c, p, "y"),
                         *waits = calls_open(c, p, "z");
    struct as_body answer = body_of("answer");

    as_worker_out_free(freed);
    as_worker_out_detach(detached);
    as_worker_out_detach(waits);
    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 2);
    (void)fake_expect_call(&c->d, 4);
    fake_expect(&c->d, AS_FRAME_CANCEL);
    assert_int_equal(c->d.f.stream, 2);
    calls_answer(c, p);
    fake_expect_body(&c->d, 1, &answer, true);
    fake_fail(&c->d, 2, AS_STATUS_CANCELLED, 0, "");
    calls_sync(c);
    (void)fake_expect_call(&c->d, 6); /* although it is detached and its parent has ended */
    fake_answer(&c->d, 4, &answer, false);
    fake_answer(&c->d, 6, &answer, false);
    calls_sync(c);
    assert_true(fake_is_quiet(&c->d));
}

static void a_detached_stream_runs_to_its_end(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("x"), part = body_of("part");
    struct as_worker_out *o = calls_open_of(c, NULL, &body, true, 0);

    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 2);
    as_worker_out_detach(o);
    as_worker_flush(c->w);
    assert_true(expect_credit(c, 2) >= 8);
    for (int i = 0; i < 8; i++)
        fake_answer(&c->d, 2, &part, true);
    while (fake_is_quiet(&c->d)) {
        (void)as_worker_poll(c->w);
        as_worker_flush(c->w);
    }
    assert_true(expect_credit(c, 2) > 0);
    fake_answer(&c->d, 2, &part, false);
    calls_sync(c);
}

static void cancel_in_the_middle_of_a_body(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = calls_open(c, NULL, "x"), *next;
    size_t n = 1u << 20;
    char *bytes = calloc(1, n);
    struct as_body answer = {.codec = AS_BODY_BYTES, .data = {bytes, n}};
    struct as_frame_call k = {0};
    struct as_buf all = {0};

    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 2);
    assert_int_equal(as_frame_put_call(&c->d.out, AS_FRAME_DATA, 2, &k, &answer, NULL), 0);
    as_outq_peek(&c->d.out, &all);
    as_outq_drop(&c->d.out, c->d.out.bytes);
    assert_int_equal(write(c->d.fd, all.p, 5000), 5000);
    while (as_worker_poll(c->w) != AS_EAGAIN)
        ;
    as_worker_out_free(o);
    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_CANCEL);
    for (size_t at = 5000; at < all.n;) {
        ssize_t r = send(c->d.fd, all.p + at, all.n - at, MSG_DONTWAIT);

        if (r > 0)
            at += (size_t)r;
        (void)as_worker_poll(c->w);
    }
    calls_sync(c); /* its stream has ended: the window is empty again */
    calls_grant(c, 1, 1);
    calls_sync(c);
    next = calls_open(c, NULL, "y");
    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 4);
    as_worker_out_free(next);
    free(all.p);
    free(bytes);
}

static void a_deadline_passes_while_a_call_waits(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("x");
    struct as_worker_open v = {.size = sizeof(v), .target = c->target, .body = &body, .timeout = 1};
    struct as_worker_out *a = calls_open(c, NULL, "x"), *b = calls_open(c, NULL, "x"), *o;

    assert_int_equal(as_worker_open(c->w, &v, &o), 0);
    (void)calls_expect_failure(o, AS_STATUS_DEADLINE_EXCEEDED);
    as_worker_out_free(o);
    as_worker_out_free(a);
    as_worker_out_free(b);
}

#define CALLS_TEST(f) cmocka_unit_test_setup_teardown(f, calls_setup, calls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CALLS_TEST(a_call_is_opened_and_answered),
        CALLS_TEST(what_a_call_says_is_on_the_wire),
        CALLS_TEST(large_bodies_go_and_come),
        CALLS_TEST(bad_calls_are_refused),
        CALLS_TEST(calls_wait_for_the_window_of_their_parent),
        CALLS_TEST(a_window_is_bound_in_bytes),
        CALLS_TEST(a_larger_window_lets_more_go),
        CALLS_TEST(calls_of_an_answered_parent_have_none),
        CALLS_TEST(a_stream_is_read_within_its_window),
        CALLS_TEST(a_stream_without_a_window_is_granted_by_hand),
        CALLS_TEST(earlier_messages_stay_when_a_stream_fails),
        CALLS_TEST(a_cancelled_call_has_failed_at_once),
        CALLS_TEST(a_cancelled_parent_cancels_its_calls),
        CALLS_TEST(a_freed_call_is_cancelled_and_a_detached_one_goes_on),
        CALLS_TEST(a_detached_stream_runs_to_its_end),
        CALLS_TEST(cancel_in_the_middle_of_a_body),
        CALLS_TEST(a_deadline_passes_while_a_call_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
