/* The worker library: recall, cancel and deadline; and dispatchers that break the protocol. */
#include "worker_pair.h"

/* --- recall, cancel, deadline --- */

static void recall_returns_what_was_not_started(void **state)
{
    struct pair *p = *state;
    uint64_t ids[AS_FRAME_IDS], back[AS_FRAME_IDS];
    uint32_t n;
    struct as_worker_req *q;

    for (uint64_t s = 1; s <= 9; s += 2)
        fake_ask(&p->d, s, 8);
    fake_send(&p->d);
    q = pair_next(p);
    ids[0] = 1; /* started */
    ids[1] = 5;
    ids[2] = 9;
    ids[3] = 11; /* never sent */
    as_frame_put_ids(&p->d.out, AS_FRAME_RECALL, ids, 4);
    fake_send(&p->d);
    while (fake_is_quiet(&p->d))
        (void)as_worker_poll(p->w);
    fake_expect(&p->d, AS_FRAME_RETURNED);
    assert_int_equal(as_frame_get_ids(&p->d.f, back, AS_FRAME_IDS, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(back[0], 5);
    assert_int_equal(back[1], 9);
    pair_echo(p, q);
    for (uint64_t s = 3; s <= 7; s += 4) {
        q = as_worker_next(p->w);
        assert_true(fake_body_ok(&as_worker_req_msg(q)->tensors[0], s, 8));
        pair_echo(p, q);
    }
    assert_null(as_worker_next(p->w));
}

static void every_recall_is_answered(void **state)
{
    struct pair *p = *state;
    uint64_t ids[2] = {3, 5}, back[AS_FRAME_IDS];
    uint32_t n;

    as_frame_put_ids(&p->d.out, AS_FRAME_RECALL, ids, 2);
    fake_send(&p->d);
    (void)as_worker_poll(p->w);
    fake_expect(&p->d, AS_FRAME_RETURNED);
    assert_int_equal(as_frame_get_ids(&p->d.f, back, AS_FRAME_IDS, &n), 0);
    assert_int_equal(n, 0);
    for (uint64_t s = 1; s <= 5; s += 2)
        fake_ask(&p->d, s, 8);
    as_frame_put_ids(&p->d.out, AS_FRAME_RECALL, ids, 2);
    fake_send(&p->d);
    (void)as_worker_poll(p->w);
    fake_expect(&p->d, AS_FRAME_RETURNED);
    assert_int_equal(as_frame_get_ids(&p->d.f, back, AS_FRAME_IDS, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(back[0], 3);
    assert_int_equal(back[1], 5);
    pair_echo(p, pair_next(p));
    assert_null(as_worker_next(p->w));
}

/* Everything of a large request but its last `keep` bytes. */
static struct bytes send_cut(struct pair *p, uint64_t stream, size_t n, size_t keep)
{
    struct bytes b;

    fake_ask(&p->d, stream, n);
    b = bytes_of(&p->d.out);
    for (size_t at = 0; at < b.n - keep;) {
        ssize_t k = send(p->d.fd, b.p + at, b.n - keep - at, MSG_DONTWAIT);

        at += k > 0 ? (size_t)k : 0;
        (void)as_worker_poll(p->w);
    }
    return b;
}

static void the_rest_of_a_recalled_body_is_passed_over(void **state)
{
    struct pair *p = *state;
    uint64_t id = 1, back[AS_FRAME_IDS];
    uint32_t n;
    /* the cut is on a frame boundary: two DATA frames are still to come */
    struct bytes b = send_cut(p, 1, 4 * (AS_FRAME_MAX - 16), 2u << 20);

    as_frame_put_ids(&p->d.out, AS_FRAME_RECALL, &id, 1);
    fake_send(&p->d);
    while (fake_is_quiet(&p->d))
        (void)as_worker_poll(p->w);
    fake_expect(&p->d, AS_FRAME_RETURNED);
    assert_int_equal(as_frame_get_ids(&p->d.f, back, AS_FRAME_IDS, &n), 0);
    assert_int_equal(n, 1);
    for (size_t at = b.n - (2u << 20); at < b.n;) {
        ssize_t k = send(p->d.fd, b.p + at, b.n - at, MSG_DONTWAIT);

        at += k > 0 ? (size_t)k : 0;
        (void)as_worker_poll(p->w);
    }
    free(b.p);
    pair_echo(p, pair_start(p, 3, 77));
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 3, 77);
}

static void a_waiting_stream_is_cancelled_at_once(void **state)
{
    struct pair *p = *state;
    struct as_frame_error e;

    fake_ask(&p->d, 1, 8);
    as_frame_put_cancel(&p->d.out, 1, 4);
    fake_send(&p->d);
    (void)as_worker_poll(p->w);
    e = fake_expect_error(&p->d, 1);
    assert_int_equal(e.code, 4);
    assert_int_equal(e.flags, 0);
    assert_null(as_worker_next(p->w));
    assert_int_equal(p->d.page->started, 0);
}

static as_ns monotonic(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (as_ns)ts.tv_sec * AS_SEC + (as_ns)ts.tv_nsec;
}

/* The cancel lies unread in the socket when the handler before it returns. */
static void a_cancel_that_came_while_another_ran_is_heard_before_the_start(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;
    as_ns until;

    fake_ask(&p->d, 1, 8);
    fake_ask(&p->d, 3, 8);
    fake_send(&p->d);
    q = pair_next(p);
    as_frame_put_cancel(&p->d.out, 3, 1);
    fake_send(&p->d);
    for (until = monotonic() + 200 * AS_US; monotonic() < until;)
        ; /* the handler of the first; shorter than what wakes the guard */
    pair_echo(p, q);
    assert_null(as_worker_next(p->w));
    assert_int_equal(p->d.page->started, 1);
    fake_expect_echo(&p->d, 1, 8);
    assert_int_equal(fake_expect_error(&p->d, 3).flags, 0);
}

static void a_running_stream_learns_of_its_cancel(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);
    struct as_frame_error e;

    assert_null(pair_cancelled(p));
    as_frame_put_cancel(&p->d.out, 1, 1);
    pair_sync(p);
    assert_true(as_worker_req_cancelled(q));
    assert_ptr_equal(pair_cancelled(p), q);
    assert_null(pair_cancelled(p)); /* told once */
    pair_echo(p, q);                /* an answer that nobody reads is not sent */
    as_worker_flush(p->w);
    e = fake_expect_error(&p->d, 1);
    assert_int_equal(e.code, 1);
    assert_int_equal(e.flags, AS_ERROR_F_STARTED);
}

static void a_cancel_that_comes_too_late_is_nothing(void **state)
{
    struct pair *p = *state;

    pair_echo(p, pair_start(p, 1, 8));
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 1, 8);
    as_frame_put_cancel(&p->d.out, 1, 1);
    as_frame_put_cancel(&p->d.out, 7, 1);
    pair_sync(p);
    assert_null(pair_cancelled(p));
}

static void a_request_whose_deadline_passed_is_not_started(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;
    struct as_frame_error e;

    fake_ask_of(&p->d, 1, 8, 1, 10); /* one nanosecond */
    fake_ask_of(&p->d, 3, 8, 3600 * AS_SEC, 10);
    fake_send(&p->d);
    q = pair_next(p);
    assert_true(fake_body_ok(&as_worker_req_msg(q)->tensors[0], 3, 8));
    assert_int_not_equal(as_worker_req_deadline(q), AS_NEVER);
    assert_false(as_worker_req_cancelled(q));
    pair_echo(p, q);
    as_worker_flush(p->w);
    e = fake_expect_error(&p->d, 1);
    assert_int_equal(e.code, 4);
    assert_int_equal(e.flags, 0);
    assert_int_equal(p->d.page->started, 1);
}

/* --- rules --- */

static void put_raw(struct fake *d, uint8_t type, uint8_t flags, uint64_t stream, uint32_t n)
{
    uint8_t *p = as_outq_alloc(&d->out, AS_ALIGN(16 + (size_t)n, 64));

    memset(p, 0xff, AS_ALIGN(16 + (size_t)n, 64));
    set32(p, n);
    set32(p + 4, (uint32_t)type | (uint32_t)flags << 8);
    set64(p + 8, stream);
}

static void broken(struct fake *d, int rule)
{
    uint8_t *p;

    switch (rule) {
    case 0: /* header with reserved bits */
        p = as_outq_alloc(&d->out, 64);
        memset(p, 0xff, 64);
        break;
    case 1: /* payload over the limit */
        p = as_outq_alloc(&d->out, 64);
        memset(p, 0, 64);
        set32(p, AS_FRAME_MAX + 1);
        p[4] = AS_FRAME_PING;
        break;
    case 2: /* mandatory type that nobody knows */
        put_raw(d, 77, 0, 0, 8);
        break;
    case 3: /* reserved for later */
        put_raw(d, AS_FRAME_UNREGISTER, 0, 0, 8);
        break;
    case 4: /* what only a worker sends */
        put_raw(d, AS_FRAME_REGISTER, 0, 0, 8);
        break;
    case 5: /* OPEN of rubbish */
        put_raw(d, AS_FRAME_OPEN, 0, 1, 200);
        break;
    case 6: /* an even stream */
        fake_ask(d, 2, 8);
        break;
    case 7: /* a stream id twice */
        fake_ask(d, 1, 8);
        fake_ask(d, 1, 8);
        break;
    case 8: /* an unknown target */
        fake_ask_of(d, 1, 8, 0, 9);
        break;
    case 9: /* more than was granted */
        for (uint64_t i = 0; i <= PAIR_SLOTS + PAIR_PREFETCH; i++)
            fake_ask(d, 2 * i + 1, 8);
        break;
    case 10: /* DATA of a stream that never was */
        put_raw(d, AS_FRAME_DATA, AS_FRAME_F_END, 1, 8);
        break;
    case 11: /* DATA for a stream that is complete */
        fake_ask(d, 1, 8);
        put_raw(d, AS_FRAME_DATA, AS_FRAME_F_END, 1, 8);
        break;
    case 12: /* a second HELLO */
        as_frame_put_hello(&d->out, &(struct as_frame_hello){.lo = 1, .hi = 1, .max_message = 1});
        break;
    case 13: /* a body over our limit */
        fake_ask(d, 1, (16u << 20) + 1);
        break;
    case 14: /* CANCEL of rubbish */
        put_raw(d, AS_FRAME_CANCEL, 0, 1, 64);
        break;
    case 15: /* RECALL of rubbish */
        put_raw(d, AS_FRAME_RECALL, 0, 0, 13);
        break;
    case 16: /* CONTROL of rubbish */
        put_raw(d, AS_FRAME_CONTROL, 0, 0, 3);
        break;
    default: /* PING of rubbish */
        put_raw(d, AS_FRAME_PING, 0, 0, 3);
    }
}

#define RULES 18

static void a_broken_rule_ends_the_link_with_a_reason(void **state AS_UNUSED)
{
    for (int rule = 0; rule < RULES; rule++) {
        struct pair p;
        int r;

        fake_init(&p.d);
        p.w = pair_worker(&p.d, PAIR_SLOTS);
        assert_int_equal(fake_connect(&p.d, p.w), 0);
        broken(&p.d, rule);
        while (p.d.out.bytes) {
            struct iovec v;
            ssize_t n;

            as_outq_iov(&p.d.out, &v, 1);
            n = send(p.d.fd, v.iov_base, v.iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN)
                break;
            as_outq_drop(&p.d.out, n > 0 ? (size_t)n : 0);
            (void)as_worker_poll(p.w);
        }
        while ((r = as_worker_wait(p.w)) == 0)
            ;
        assert_int_equal(r, AS_EOF);
        assert_true(strlen(as_worker_error(p.w)) > 10);
        as_worker_free(p.w);
        fake_fini(&p.d);
    }
}

static void optional_frames_that_nobody_knows_are_skipped(void **state)
{
    struct pair *p = *state;

    put_raw(&p->d, 77, AS_FRAME_F_OPTIONAL, 0, 500);
    put_raw(&p->d, AS_FRAME_ATTACH, AS_FRAME_F_OPTIONAL, 3, 8);
    pair_echo(p, pair_start(p, 5, 8));
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 5, 8);
}

static void rubbish_never_does_more_than_end_the_link(void **state AS_UNUSED)
{
    uint64_t seed = 88172645463325252u;

    for (int round = 0; round < 60; round++) {
        struct pair p;
        struct bytes b;

        fake_init(&p.d);
        p.w = pair_worker(&p.d, PAIR_SLOTS);
        assert_int_equal(fake_connect(&p.d, p.w), 0);
        for (uint64_t s = 1; s < 20; s += 2)
            fake_ask(&p.d, s, s == 9 ? 70000 : 50);
        b = bytes_of(&p.d.out);
        for (int flips = 0; flips < 4; flips++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            b.p[(seed >> 8) % 3000] ^= (uint8_t)seed;
        }
        (void)send(p.d.fd, b.p, b.n, MSG_NOSIGNAL);
        shutdown(p.d.fd, SHUT_WR);
        for (int r = 0; r == 0;) {
            struct as_worker_req *q;

            while ((q = as_worker_next(p.w)))
                pair_echo(&p, q);
            r = as_worker_wait(p.w);
            assert_true(r == 0 || r == AS_EOF || r == AS_ECANCELLED);
        }
        free(b.p);
        as_worker_free(p.w);
        fake_fini(&p.d);
    }
}

#define PAIRED(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIRED(recall_returns_what_was_not_started),
        PAIRED(every_recall_is_answered),
        PAIRED(the_rest_of_a_recalled_body_is_passed_over),
        PAIRED(a_waiting_stream_is_cancelled_at_once),
        PAIRED(a_cancel_that_came_while_another_ran_is_heard_before_the_start),
        PAIRED(a_running_stream_learns_of_its_cancel),
        PAIRED(a_cancel_that_comes_too_late_is_nothing),
        PAIRED(a_request_whose_deadline_passed_is_not_started),
        cmocka_unit_test(a_broken_rule_ends_the_link_with_a_reason),
        PAIRED(optional_frames_that_nobody_knows_are_skipped),
        cmocka_unit_test(rubbish_never_does_more_than_end_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
