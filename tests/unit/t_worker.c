/* The worker's side of a link: greeting, requests and answers, memory, recall, cancel, rules. Who
 * looks after the socket while handlers run is in t_worker_guard.c. */
#include "worker_pair.h"

#include <malloc.h>

/* --- greeting --- */

static void hello_tells_who_it_is_and_brings_a_page(void **state)
{
    struct pair *p = *state;
    struct as_frame_hello *h = &p->d.hello;

    assert_int_equal(h->lo, AS_FRAME_VERSION);
    assert_int_equal(h->hi, AS_FRAME_VERSION);
    assert_str(h->token, "secret");
    assert_str(h->replica, "echo#0");
    assert_str(h->deployment, "echo");
    assert_int_equal(h->pid, getpid());
    assert_int_equal(h->max_message, 16u << 20);
    assert_int_equal(h->capabilities, AS_CAP_PAGE | AS_CAP_RECALL | AS_CAP_CANCEL);
    assert_non_null(p->d.page);
    assert_int_equal(p->d.page->magic, AS_PAGE_MAGIC);
    assert_int_equal(p->d.n_registered, 2);
    assert_int_equal(p->d.credit.slots, PAIR_SLOTS);
    assert_int_equal(p->d.credit.prefetch, PAIR_PREFETCH);
}

static void no_server_means_try_again(void **state AS_UNUSED)
{
    struct fake d;
    struct as_worker *w;

    fake_init(&d);
    w = pair_worker(&d, 1);
    unlink(d.path);
    assert_int_equal(as_worker_connect(w, AS_SEC), AS_EUNAVAILABLE);
    assert_non_null(strstr(as_worker_error(w), d.path));
    as_worker_free(w);
    fake_fini(&d);
}

static void a_server_that_says_nothing_is_given_up(void **state AS_UNUSED)
{
    struct fake d;
    struct as_worker *w;

    fake_init(&d);
    w = pair_worker(&d, 1);
    assert_int_equal(as_worker_connect(w, 5 * AS_MS), AS_EUNAVAILABLE);
    assert_int_equal(as_worker_wait(w), AS_EOF);
    as_worker_free(w);
    fake_fini(&d);
}

static void goodbye_instead_of_hello_is_a_refusal(void **state AS_UNUSED)
{
    struct fake d;
    struct as_worker *w;

    fake_init(&d);
    d.goodbye = "wrong token";
    w = pair_worker(&d, 1);
    assert_int_equal(fake_connect(&d, w), AS_EDENIED);
    assert_string_equal(as_worker_error(w), "wrong token");
    as_worker_free(w);
    fake_fini(&d);
}

static void a_refused_model_is_named_with_the_reason(void **state AS_UNUSED)
{
    static const struct {
        uint32_t code;
        int err;
    } rows[] = {{6, AS_EEXISTS}, {7, AS_EDENIED}, {3, AS_EINVALID}, {13, AS_EINVALID}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct fake d;
        struct as_worker *w;

        fake_init(&d);
        d.refuse_code = rows[i].code;
        w = pair_worker(&d, 1);
        assert_int_equal(fake_connect(&d, w), rows[i].err);
        assert_string_equal(as_worker_error(w), "model echo version 1 was refused: because");
        as_worker_free(w);
        fake_fini(&d);
    }
}

static void names_have_a_limit(void **state AS_UNUSED)
{
    static char longest[AS_FRAME_NAME + 1];
    struct as_worker_conf conf = {.path = "/x", .slots = 1};
    struct as_worker *w;

    conf.token = (struct as_str){longest, AS_FRAME_NAME};
    assert_int_equal(as_worker_new(&w, &conf), 0);
    as_worker_free(w);
    conf.token.n++;
    assert_int_equal(as_worker_new(&w, &conf), AS_EINVALID);
}

/* --- requests --- */

static void a_request_is_answered(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 100);
    const struct as_msg *m = as_worker_req_msg(q);

    assert_int_equal(as_worker_req_model(q), 0);
    assert_int_equal(as_worker_req_deadline(q), AS_NEVER);
    assert_false(as_worker_req_cancelled(q));
    assert_str(m->id, "id");
    assert_str(m->tensors[0].name, "x");
    assert_true(fake_body_ok(&m->tensors[0], 1, 100));
    pair_echo(p, q);
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 1, 100);
}

static void the_page_tells_of_a_start_before_the_handler_runs(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 9, 4);

    assert_int_equal(p->d.page->last_started, 9);
    assert_int_equal(p->d.page->started, 1);
    assert_int_equal(p->d.page->finished, 0);
    assert_true(p->d.page->clock > 0);
    pair_echo(p, q);
    assert_int_equal(p->d.page->finished, 1);
}

static void an_error_says_that_user_code_has_run(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 4);
    struct as_frame_error e;

    as_worker_fail(p->w, q, 3, AS_STR("no such thing"));
    assert_null(as_worker_next(p->w)); /* the loop boundary publishes */
    e = fake_expect_error(&p->d, 1);
    assert_int_equal(e.code, 3);
    assert_int_equal(e.flags, AS_ERROR_F_STARTED);
    assert_str(e.message, "no such thing");
}

static void executing_never_exceeds_the_slots(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q[PAIR_SLOTS];

    for (uint64_t i = 0; i < PAIR_SLOTS + 2; i++)
        fake_ask(&p->d, 2 * i + 1, 8);
    fake_send(&p->d);
    for (int i = 0; i < PAIR_SLOTS; i++)
        q[i] = pair_next(p);
    assert_null(as_worker_next(p->w));
    pair_echo(p, q[2]);
    q[2] = as_worker_next(p->w);
    assert_non_null(q[2]);
    assert_null(as_worker_next(p->w));
    for (int i = 0; i < PAIR_SLOTS; i++)
        pair_echo(p, q[i]);
    pair_echo(p, pair_next(p));
}

static void a_capped_model_is_passed_over(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *a, *b;

    fake_ask_of(&p->d, 1, 8, 0, 11);
    fake_ask_of(&p->d, 3, 8, 0, 11);
    fake_ask_of(&p->d, 5, 8, 0, 10);
    fake_send(&p->d);
    a = pair_next(p);
    b = pair_next(p);
    assert_int_equal(as_worker_req_model(a), 1);
    assert_int_equal(as_worker_req_model(b), 0);
    assert_null(as_worker_next(p->w));
    assert_int_equal(p->d.page->last_started, 5);
    pair_echo(p, a);
    a = as_worker_next(p->w);
    assert_int_equal(as_worker_req_model(a), 1);
    assert_int_equal(p->d.page->last_started, 5); /* the highest, not the latest */
    pair_echo(p, a);
    pair_echo(p, b);
}

static void bodies_of_many_frames_in_one_read_are_aligned(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, 4096, 20000, AS_FRAME_INLINE};
    struct pair *p = *state;
    uint64_t stream = 1, echoed = 1;

    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < AS_COUNT(sizes); i++, stream += 2)
            fake_ask(&p->d, stream, sizes[i]);
        fake_send(&p->d);
        for (size_t i = 0; i < AS_COUNT(sizes); i++) {
            struct as_worker_req *q = pair_next(p);

            assert_true(fake_body_ok(&as_worker_req_msg(q)->tensors[0],
                                     stream - 2 * (AS_COUNT(sizes) - i), sizes[i]));
            pair_echo(p, q);
        }
        as_worker_flush(p->w);
        for (size_t i = 0; i < AS_COUNT(sizes); i++, echoed += 2)
            fake_expect_echo(&p->d, echoed, sizes[i]);
    }
}

/* Writes what waits in pieces of `step` bytes; the worker reads after each. */
static struct as_worker_req *trickle(struct pair *p, size_t step)
{
    struct bytes b = bytes_of(&p->d.out);
    struct as_worker_req *q = NULL;

    for (size_t at = 0; at < b.n; at += step) {
        size_t n = AS_MIN(step, b.n - at);

        assert_null(q);
        for (size_t done = 0; done < n;) {
            ssize_t k = send(p->d.fd, b.p + at + done, n - done, MSG_DONTWAIT);

            done += k > 0 ? (size_t)k : 0;
            (void)as_worker_poll(p->w);
        }
        q = as_worker_next(p->w);
    }
    free(b.p);
    return q;
}

static void a_large_body_comes_in_frames_of_its_own(void **state)
{
    static const size_t steps[] = {1u << 22, 100000, 65536, 4096, 1021, 64};
    static const size_t sizes[] = {AS_FRAME_INLINE + 1, AS_FRAME_MAX - 16, AS_FRAME_MAX, 300000};
    struct pair *p = *state;
    uint64_t stream = 1;

    for (size_t i = 0; i < AS_COUNT(steps); i++) {
        for (size_t k = 0; k < AS_COUNT(sizes); k++, stream += 2) {
            struct as_worker_req *q;

            fake_ask(&p->d, stream, sizes[k]);
            q = trickle(p, steps[i]);
            assert_non_null(q);
            assert_true(fake_body_ok(&as_worker_req_msg(q)->tensors[0], stream, sizes[k]));
            as_worker_fail(p->w, q, 13, AS_STR(""));
            as_worker_flush(p->w);
            fake_expect_error(&p->d, stream);
        }
    }
}

static void small_frames_may_surround_a_large_body(void **state)
{
    struct pair *p = *state;
    const size_t large = (3u << 20) + 17;
    struct as_worker_req *q;

    fake_ask(&p->d, 1, 100);
    fake_ask(&p->d, 3, large);
    fake_ask(&p->d, 5, 200);
    q = trickle(p, 1u << 30);
    for (uint64_t stream = 1; stream <= 5; stream += 2) {
        size_t n = stream == 1 ? 100 : stream == 3 ? large : 200;

        assert_true(fake_body_ok(&as_worker_req_msg(q)->tensors[0], stream, n));
        as_worker_fail(p->w, q, 13, AS_STR(""));
        q = stream < 5 ? pair_next(p) : NULL;
    }
}

static void *echo_in_thread(void *arg)
{
    struct pair *p = arg;

    pair_echo(p, pair_next(p));
    while (as_worker_wait(p->w) == 0) /* until drained: what the socket does not take follows */
        (void)as_worker_next(p->w);
    return NULL;
}

static void a_large_answer_goes_out_as_the_socket_takes_it(void **state)
{
    struct pair *p = *state;
    const size_t large = 9u << 20;
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, echo_in_thread, p), 0);
    fake_ask(&p->d, 1, large);
    fake_send(&p->d);
    fake_expect_echo(&p->d, 1, large);
    as_frame_put_text(&p->d.out, AS_FRAME_DRAIN, (struct as_str){0});
    fake_send(&p->d);
    pthread_join(t, NULL);
}

static void an_answer_over_the_dispatchers_limit_stays_the_callers(void **state AS_UNUSED)
{
    struct pair p;
    struct as_worker_req *q;

    fake_init(&p.d);
    p.d.max_message = 1000;
    p.w = pair_worker(&p.d, 1);
    assert_int_equal(fake_connect(&p.d, p.w), 0);
    q = pair_start(&p, 1, 1000);
    pair_echo(&p, q);
    as_worker_flush(p.w);
    fake_expect_echo(&p.d, 1, 1000);
    q = pair_start(&p, 3, 1001);
    assert_int_equal(as_worker_answer(p.w, q, as_worker_req_msg(q)), AS_ETOOBIG);
    as_worker_fail(p.w, q, 8, AS_STR("too large"));
    as_worker_flush(p.w);
    assert_int_equal(fake_expect_error(&p.d, 3).code, 8);
    as_worker_free(p.w);
    fake_fini(&p.d);
}

/* --- memory --- */

static void held_bytes_stay_when_the_buffer_is_used_on(void **state)
{
    struct pair *p = *state;
    void *holds[8];
    struct as_tensor kept[8];
    uint64_t stream = 1;

    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 10; k++, stream += 2) {
            struct as_worker_req *q = pair_start(p, stream, 30000);

            if (k == 5) {
                kept[i] = as_worker_req_msg(q)->tensors[0];
                holds[i] = as_worker_req_hold(q);
            }
            as_worker_fail(p->w, q, 13, AS_STR(""));
        }
    }
    for (int i = 0; i < 8; i++) {
        assert_true(fake_body_ok(&kept[i], (uint64_t)(i * 20 + 11), 30000));
        as_worker_release_hold(holds[i]);
    }
}

static void many_small_holds_do_not_pin_many_buffers(void **state)
{
    /* Each hold is alone in what was read at once; without copying out, 2000 × 256 KiB stay. */
    struct pair *p = *state;
    enum { N = 2000 };
    static void *holds[N];
    static const uint8_t *data[N];
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    size_t after;

    for (uint64_t i = 0; i < N; i++) {
        struct as_worker_req *q;

        fake_ask(&p->d, 4 * i + 1, 100);
        fake_ask(&p->d, 4 * i + 3, 60000);
        fake_send(&p->d);
        q = pair_next(p);
        holds[i] = as_worker_req_hold(q);
        data[i] = as_worker_req_msg(q)->tensors[0].data;
        as_worker_fail(p->w, q, 13, AS_STR(""));
        as_worker_fail(p->w, pair_next(p), 13, AS_STR(""));
        as_worker_flush(p->w);
        fake_expect_error(&p->d, 4 * i + 1);
        fake_expect_error(&p->d, 4 * i + 3);
    }
    after = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_true(after < before + (32u << 20)); /* 16 MiB of buffers, then the bodies alone */
    for (uint64_t i = 0; i < N; i++) {
        struct as_tensor t = {.data = data[i], .nbytes = 100};

        assert_true(fake_body_ok(&t, 4 * i + 1, 100));
        as_worker_release_hold(holds[i]);
    }
}

static void a_hold_outlives_the_worker(void **state AS_UNUSED)
{
    struct pair p;
    struct as_worker_req *q;
    struct as_tensor t;
    void *hold;

    fake_init(&p.d);
    p.w = pair_worker(&p.d, 1);
    assert_int_equal(fake_connect(&p.d, p.w), 0);
    q = pair_start(&p, 1, 5000);
    hold = as_worker_req_hold(q);
    t = as_worker_req_msg(q)->tensors[0];
    as_worker_fail(p.w, q, 13, AS_STR(""));
    as_worker_free(p.w);
    fake_fini(&p.d);
    assert_true(fake_body_ok(&t, 1, 5000));
    as_worker_release_hold(hold);
}

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

static void a_running_stream_learns_of_its_cancel(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);
    struct as_frame_error e;

    assert_null(as_worker_cancelled(p->w));
    as_frame_put_cancel(&p->d.out, 1, 1);
    pair_sync(p);
    assert_true(as_worker_req_cancelled(q));
    assert_ptr_equal(as_worker_cancelled(p->w), q);
    assert_null(as_worker_cancelled(p->w)); /* told once */
    pair_echo(p, q);                        /* an answer that nobody reads is not sent */
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
    assert_null(as_worker_cancelled(p->w));
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

/* --- the end --- */

static void the_dispatchers_drain_ends_after_the_last_answer(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);

    as_frame_put_text(&p->d.out, AS_FRAME_DRAIN, AS_STR("enough"));
    pair_sync(p);
    pair_echo(p, q);
    assert_null(as_worker_next(p->w));
    assert_int_equal(as_worker_wait(p->w), AS_ECANCELLED);
    fake_expect_echo(&p->d, 1, 8);
}

static void our_drain_takes_what_is_under_way(void **state)
{
    struct pair *p = *state;
    uint64_t opaque;

    as_worker_drain(p->w);
    fake_expect(&p->d, AS_FRAME_DRAIN);
    fake_expect(&p->d, AS_FRAME_PING);
    assert_int_equal(as_frame_get_ping(&p->d.f, &opaque), 0);
    fake_ask(&p->d, 1, 8); /* crossed our DRAIN */
    as_frame_put_ping(&p->d.out, AS_FRAME_PONG, opaque);
    fake_send(&p->d);
    pair_echo(p, pair_next(p));
    assert_null(as_worker_next(p->w));
    assert_int_equal(as_worker_wait(p->w), AS_ECANCELLED);
    fake_expect_echo(&p->d, 1, 8);
}

static void after_the_dispatchers_death_a_new_one_is_served(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *old, *q;

    fake_ask(&p->d, 101, 8);
    for (uint64_t s = 103; s < 120; s += 2)
        fake_ask(&p->d, s, 8);
    fake_send(&p->d);
    old = pair_next(p);
    fake_hang_up(&p->d);
    while (as_worker_wait(p->w) == 0)
        ;
    assert_int_equal(as_worker_wait(p->w), AS_EOF);
    assert_null(as_worker_next(p->w)); /* what was not started is dropped */
    assert_true(as_worker_req_cancelled(old));
    assert_ptr_equal(as_worker_cancelled(p->w), old);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    assert_int_equal(p->d.hello.epoch, 7); /* as the dead one called us */
    assert_int_equal(p->d.page->last_started, 0);
    pair_echo(p, old); /* goes nowhere */
    q = pair_start(p, 1, 8);
    assert_int_equal(p->d.page->last_started, 1);
    assert_int_equal(p->d.page->finished, 0);
    pair_echo(p, q);
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 1, 8);
}

static void what_runs_for_a_dead_dispatcher_takes_slots_but_no_grant(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *old[PAIR_SLOTS];
    uint64_t s;

    for (s = 1; s < 2 * PAIR_SLOTS; s += 2)
        fake_ask(&p->d, s, 8);
    fake_send(&p->d);
    for (int i = 0; i < PAIR_SLOTS; i++)
        old[i] = pair_next(p);
    fake_hang_up(&p->d);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    for (s = 1; s < 2 * (PAIR_SLOTS + PAIR_PREFETCH); s += 2)
        fake_ask(&p->d, s, 8);
    pair_sync(p); /* the link holds */
    assert_null(as_worker_next(p->w));
    pair_echo(p, old[0]);
    pair_echo(p, pair_next(p));
    for (int i = 1; i < PAIR_SLOTS; i++)
        pair_echo(p, old[i]);
}

static void goodbye_gives_the_reason(void **state)
{
    struct pair *p = *state;

    as_frame_put_text(&p->d.out, AS_FRAME_GOODBYE, AS_STR("too old"));
    fake_send(&p->d);
    while (as_worker_wait(p->w) == 0)
        ;
    assert_int_equal(as_worker_wait(p->w), AS_EOF);
    assert_string_equal(as_worker_error(p->w), "too old");
}

static void freeing_says_goodbye(void **state AS_UNUSED)
{
    struct pair p;

    fake_init(&p.d);
    p.w = pair_worker(&p.d, 1);
    assert_int_equal(fake_connect(&p.d, p.w), 0);
    as_worker_free(p.w);
    fake_expect(&p.d, AS_FRAME_GOODBYE);
    assert_false(fake_read(&p.d));
    assert_int_equal(p.d.page->lock, 0);
    fake_fini(&p.d);
}

/* --- rules --- */

static void put_raw(struct fake *d, uint8_t type, uint8_t flags, uint64_t stream, uint32_t n)
{
    uint8_t *p = as_outq_room(&d->out, AS_ALIGN(16 + (size_t)n, 64));

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
        p = as_outq_room(&d->out, 64);
        memset(p, 0xff, 64);
        break;
    case 1: /* payload over the limit */
        p = as_outq_room(&d->out, 64);
        memset(p, 0, 64);
        set32(p, AS_FRAME_MAX + 1);
        p[4] = AS_FRAME_PING;
        break;
    case 2: /* mandatory type that nobody knows */
        put_raw(d, 77, 0, 0, 8);
        break;
    case 3: /* reserved for later */
        put_raw(d, AS_FRAME_BATCH, 0, 0, 8);
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
    put_raw(&p->d, AS_FRAME_BATCH, AS_FRAME_F_OPTIONAL, 3, 8);
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
        PAIRED(hello_tells_who_it_is_and_brings_a_page),
        cmocka_unit_test(no_server_means_try_again),
        cmocka_unit_test(a_server_that_says_nothing_is_given_up),
        cmocka_unit_test(goodbye_instead_of_hello_is_a_refusal),
        cmocka_unit_test(a_refused_model_is_named_with_the_reason),
        cmocka_unit_test(names_have_a_limit),
        PAIRED(a_request_is_answered),
        PAIRED(the_page_tells_of_a_start_before_the_handler_runs),
        PAIRED(an_error_says_that_user_code_has_run),
        PAIRED(executing_never_exceeds_the_slots),
        PAIRED(a_capped_model_is_passed_over),
        PAIRED(bodies_of_many_frames_in_one_read_are_aligned),
        PAIRED(a_large_body_comes_in_frames_of_its_own),
        PAIRED(small_frames_may_surround_a_large_body),
        PAIRED(a_large_answer_goes_out_as_the_socket_takes_it),
        cmocka_unit_test(an_answer_over_the_dispatchers_limit_stays_the_callers),
        PAIRED(held_bytes_stay_when_the_buffer_is_used_on),
        PAIRED(many_small_holds_do_not_pin_many_buffers),
        cmocka_unit_test(a_hold_outlives_the_worker),
        PAIRED(recall_returns_what_was_not_started),
        PAIRED(every_recall_is_answered),
        PAIRED(the_rest_of_a_recalled_body_is_passed_over),
        PAIRED(a_waiting_stream_is_cancelled_at_once),
        PAIRED(a_running_stream_learns_of_its_cancel),
        PAIRED(a_cancel_that_comes_too_late_is_nothing),
        PAIRED(a_request_whose_deadline_passed_is_not_started),
        PAIRED(the_dispatchers_drain_ends_after_the_last_answer),
        PAIRED(our_drain_takes_what_is_under_way),
        PAIRED(after_the_dispatchers_death_a_new_one_is_served),
        PAIRED(what_runs_for_a_dead_dispatcher_takes_slots_but_no_grant),
        PAIRED(goodbye_gives_the_reason),
        cmocka_unit_test(freeing_says_goodbye),
        cmocka_unit_test(a_broken_rule_ends_the_link_with_a_reason),
        PAIRED(optional_frames_that_nobody_knows_are_skipped),
        cmocka_unit_test(rubbish_never_does_more_than_end_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
