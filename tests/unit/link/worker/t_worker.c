/* The worker library: greeting, requests and answers, the end of a link. Bytes and memory are
 * tested in t_worker_bytes.c, recall, cancel and deadline in t_worker_rules.c, the guard in
 * t_worker_guard.c. */
#include "worker_pair.h"

/* --- greeting --- */

static void hello_names_the_worker_and_brings_a_page(void **state)
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
    assert_int_equal(h->capabilities, AS_CAP_CALLS | AS_CAP_PAGE | AS_CAP_RECALL | AS_CAP_CANCEL |
                                          AS_CAP_MOVE | AS_CAP_TENSOR_PARAMS | AS_CAP_RESERVE);
    assert_non_null(p->d.page);
    assert_int_equal(p->d.page->magic, AS_PAGE_MAGIC);
    assert_int_equal(p->d.n_registered, 3);
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

static void an_event_loop_connects_in_steps(void **state AS_UNUSED)
{
    struct fake d;
    struct as_worker *w;
    int err;

    fake_init(&d);
    w = pair_worker(&d, 1);
    assert_int_equal(as_worker_connect_begin(w), 0);
    assert_int_equal(as_worker_connect_step(w), AS_EAGAIN); /* nobody has answered yet */
    fake_greet_begin(&d);
    while ((err = as_worker_connect_step(w)) == AS_EAGAIN) {
        struct pollfd p = {.fd = as_worker_fd(w), .events = POLLIN};

        assert_int_equal(poll(&p, 1, WAIT_MS), 1); /* it tells when the next step is due */
    }
    assert_int_equal(err, 0);
    fake_greet_end(&d);
    fake_ask(&d, 1, 8);
    fake_send(&d);
    assert_int_equal(as_worker_wait(w), 0);
    assert_int_equal(as_worker_answer(w, as_worker_next(w), &(struct as_msg){0}), 0);
    as_worker_free(w);
    fake_fini(&d);
}

static void connecting_in_steps_may_be_given_up(void **state AS_UNUSED)
{
    struct fake d;
    struct as_worker *w;

    fake_init(&d);
    w = pair_worker(&d, 1);
    assert_int_equal(as_worker_connect_begin(w), 0);
    as_worker_connect_abort(w);
    assert_non_null(strstr(as_worker_error(w), "in time"));
    assert_int_equal(as_worker_connect_step(w), AS_EUNAVAILABLE);
    assert_int_equal(as_worker_poll(w), AS_EOF);
    unlink(d.path);
    assert_int_equal(as_worker_connect_begin(w), AS_EUNAVAILABLE);
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
    static char longest[AS_WORKER_NAME + 2];
    struct as_worker_conf conf = {.size = sizeof(conf), .path = "/x", .token = longest};
    struct as_worker *w;

    memset(longest, 'a', AS_WORKER_NAME);
    assert_int_equal(as_worker_new(&w, &conf), 0);
    as_worker_free(w);
    longest[AS_WORKER_NAME] = 'a';
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

static void the_page_shows_a_start_before_the_handler_runs(void **state)
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

static void the_page_shows_what_the_worker_counts(void **state)
{
    struct pair *p = *state;
    struct as_page_stat s, before;
    struct as_worker_req *q;

    assert_null(as_worker_next(p->w));
    before = as_page_stat_of(p->d.page);
    for (uint64_t i = 0; i < 10; i++) {
        pair_echo(p, pair_start(p, 1 + 2 * i, 100));
        assert_null(as_worker_next(p->w)); /* idle: it writes, and shows */
        fake_expect_echo(&p->d, 1 + 2 * i, 100);
    }
    s = as_page_stat_of(p->d.page);
    assert_int_equal(s.calls, 10);
    assert_int_equal(s.writes - before.writes, 10);
    assert_true(s.reads - before.reads >= 10);
    assert_int_equal(s.cancels, 0);
    q = pair_start(p, 21, 100);
    fake_ask(&p->d, 23, 100);
    as_frame_put_cancel(&p->d.out, 21, 1); /* runs */
    as_frame_put_cancel(&p->d.out, 23, 1); /* waits */
    as_frame_put_cancel(&p->d.out, 19, 1); /* has ended */
    fake_send(&p->d);
    while (fake_is_quiet(&p->d))
        (void)as_worker_poll(p->w);
    assert_int_equal(fake_expect_error(&p->d, 23).code, 1);
    pair_echo(p, q);
    assert_null(as_worker_next(p->w));
    s = as_page_stat_of(p->d.page);
    assert_int_equal(s.calls, 11);
    assert_int_equal(s.cancels, 2);
}

static void counts_go_on_over_links(void **state)
{
    struct pair *p = *state;

    pair_echo(p, pair_start(p, 1, 8));
    fake_hang_up(&p->d);
    while (as_worker_wait(p->w) == 0)
        ;
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    pair_echo(p, pair_start(p, 1, 8));
    assert_null(as_worker_next(p->w));
    assert_int_equal(as_page_stat_of(p->d.page).calls, 2);
    assert_int_equal(p->d.page->started, 1);
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
    assert_ptr_equal(pair_cancelled(p), old);
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

#define PAIRED(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIRED(hello_names_the_worker_and_brings_a_page),
        cmocka_unit_test(no_server_means_try_again),
        cmocka_unit_test(a_server_that_says_nothing_is_given_up),
        cmocka_unit_test(an_event_loop_connects_in_steps),
        cmocka_unit_test(connecting_in_steps_may_be_given_up),
        cmocka_unit_test(goodbye_instead_of_hello_is_a_refusal),
        cmocka_unit_test(a_refused_model_is_named_with_the_reason),
        cmocka_unit_test(names_have_a_limit),
        PAIRED(a_request_is_answered),
        PAIRED(the_page_shows_a_start_before_the_handler_runs),
        PAIRED(the_page_shows_what_the_worker_counts),
        PAIRED(counts_go_on_over_links),
        PAIRED(an_error_says_that_user_code_has_run),
        PAIRED(executing_never_exceeds_the_slots),
        PAIRED(a_capped_model_is_passed_over),
        cmocka_unit_test(an_answer_over_the_dispatchers_limit_stays_the_callers),
        PAIRED(the_dispatchers_drain_ends_after_the_last_answer),
        PAIRED(our_drain_takes_what_is_under_way),
        PAIRED(after_the_dispatchers_death_a_new_one_is_served),
        PAIRED(what_runs_for_a_dead_dispatcher_takes_slots_but_no_grant),
        PAIRED(goodbye_gives_the_reason),
        cmocka_unit_test(freeing_says_goodbye),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
