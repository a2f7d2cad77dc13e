/* The worker library: requests of HTTP: heads, bodies in both directions, their windows, their end.
 */
#include "call_pair.h"
#include "wire/frame/frame_http.h"

#define WINDOW AS_HTTP_WINDOW

static void send_open(struct fake *d, uint64_t stream, const char *body, bool whole,
                      uint32_t target, as_ns timeout)
{
    struct as_meta fields[] = {{AS_STR("host"), AS_STR("here")}, {AS_STR("x-a"), AS_STR("1")}};
    struct as_frame_http_open o = {.version = 11,
                                   .target = target,
                                   .timeout = timeout,
                                   .flags = whole ? AS_HTTP_F_WHOLE : 0,
                                   .id = AS_STR("id-1"),
                                   .method = AS_STR("POST"),
                                   .scheme = AS_STR("http"),
                                   .authority = AS_STR("here"),
                                   .path = AS_STR("/api/a%20b"),
                                   .query = AS_STR("q=1"),
                                   .root_path = AS_STR("/api"),
                                   .peer = AS_STR("1.2.3.4:5"),
                                   .server = AS_STR("6.7.8.9:10"),
                                   .meta = fields,
                                   .n_meta = AS_COUNT(fields),
                                   .body_len = strlen(body),
                                   .body = (const uint8_t *)body};

    assert_int_equal(as_frame_put_http_open(&d->out, stream, &o, NULL), 0);
    fake_send(d);
}

static struct as_worker_req *start(struct calls *c, uint64_t stream, const char *body, bool whole)
{
    struct as_worker_req *q;

    send_open(&c->d, stream, body, whole, CALLEE, 0);
    while (!(q = as_worker_next(c->w)))
        assert_int_equal(as_worker_wait(c->w), 0);
    return q;
}

static void send_data(struct calls *c, uint64_t stream, size_t n, bool end)
{
    uint8_t *bytes = calloc(1, n + 1);

    as_frame_put_http_data(&c->d.out, stream, bytes, n, end, NULL);
    calls_sync(c);
    free(bytes);
}

static void read_bytes(struct calls *c, struct as_worker_req *q, size_t n)
{
    struct as_str s;
    void *hold;

    for (size_t got = 0; got < n; got += s.n) {
        assert_int_equal(as_worker_http_read(c->w, q, &s, &hold), 0);
        as_worker_release_hold(hold);
    }
}

static int read_nothing(struct calls *c, struct as_worker_req *q)
{
    struct as_str s;
    void *hold;

    return as_worker_http_read(c->w, q, &s, &hold);
}

/* The next frame is the head of an answer, with these first bytes. */
static void expect_head(struct fake *d, uint64_t stream, unsigned status, size_t n, bool end)
{
    struct as_frame_http_head h;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    fake_expect(d, AS_FRAME_DATA);
    assert_int_equal(d->f.stream, stream);
    assert_int_equal(as_frame_get_http_head(&d->f, &a, &h, &why), 0);
    assert_int_equal(h.status, status);
    assert_int_equal(h.body_len, n);
    assert_int_equal((d->f.flags & AS_FRAME_F_END) != 0, end);
    assert_int_equal(h.service != 0, end);
    as_arena_fini(&a);
}

static size_t expect_data(struct fake *d, uint64_t stream, size_t n, bool end)
{
    size_t got = 0;

    while (got < n) {
        fake_expect(d, AS_FRAME_DATA);
        assert_int_equal(d->f.stream, stream);
        got += d->f.n;
    }
    assert_int_equal(got, n);
    assert_int_equal((d->f.flags & AS_FRAME_F_END) != 0, end);
    return got;
}

static void a_request_is_taken_and_answered(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, "a body", true);
    const struct as_worker_http *h = as_worker_req_http(q);
    struct as_meta field = {AS_STR("content-type"), AS_STR("text/plain")};

    assert_non_null(h);
    assert_int_equal(h->version, 11);
    assert_true(h->whole && !h->websocket);
    assert_true(as_str_eq(h->id, AS_STR("id-1")) && as_str_eq(h->method, AS_STR("POST")));
    assert_true(as_str_eq(h->path, AS_STR("/api/a%20b")) && as_str_eq(h->query, AS_STR("q=1")));
    assert_true(as_str_eq(h->root_path, AS_STR("/api")));
    assert_true(as_str_eq(h->peer, AS_STR("1.2.3.4:5")));
    assert_true(as_str_eq(h->server, AS_STR("6.7.8.9:10")));
    assert_int_equal(h->n_fields, 2);
    assert_true(as_str_eq(h->fields[1].value, AS_STR("1")));
    assert_true(as_str_eq(h->body, AS_STR("a body")));
    assert_int_equal(read_nothing(c, q), AS_EOF);
    assert_int_equal(as_worker_http_answer(c->w, q, 201, &field, 1, AS_STR("made"), true), 4);
    as_worker_flush(c->w);
    expect_head(&c->d, 1, 201, 4, true);
    calls_answer(c, calls_start(c, 3, 0)); /* calls go on beside */
}

static void a_dropped_head_frees_the_request_as_before(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, "a body", true);

    as_worker_http_drop_head(c->w, q);
    assert_null(as_worker_req_http(q));
    as_worker_http_drop_head(c->w, q);
    assert_int_equal(as_worker_http_answer(c->w, q, 204, NULL, 0, AS_STR(""), true), 0);
    as_worker_flush(c->w);
    expect_head(&c->d, 1, 204, 0, true);
}

static void a_body_comes_within_its_window(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, "first", false);
    struct as_frame_credit k;

    assert_int_equal(read_nothing(c, q), AS_EAGAIN);
    assert_false(as_worker_want(c->w, q, AS_WANT_INPUT));
    send_data(c, 1, WINDOW / 2 - 1, false);
    send_data(c, 1, 1, false);
    assert_true(as_worker_want(c->w, q, AS_WANT_INPUT));
    read_bytes(c, q, WINDOW / 2 - 1);
    as_worker_flush(c->w);
    read_bytes(c, q, 1); /* half of the window is used: it is granted again */
    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_CREDIT);
    assert_int_equal(c->d.f.stream, 1);
    assert_int_equal(as_frame_get_credit(&c->d.f, &k), 0);
    assert_int_equal(k.bytes, WINDOW / 2);
    send_data(c, 1, WINDOW, true);
    read_bytes(c, q, WINDOW);
    assert_int_equal(read_nothing(c, q), AS_EOF);
    assert_int_equal(as_worker_http_answer(c->w, q, 200, NULL, 0, AS_STR(""), true), 0);
    as_worker_flush(c->w);
    expect_head(&c->d, 1, 200, 0, true); /* nothing was granted after the end */
}

static void a_body_comes_before_its_request_starts(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *held[2] = {calls_start(c, 1, 0), calls_start(c, 3, 0)}, *q;

    send_open(&c->d, 5, "", false, CALLEE, 0);
    send_data(c, 5, 1000, true);
    assert_null(as_worker_next(c->w));
    calls_answer(c, held[0]);
    q = as_worker_next(c->w);
    assert_non_null(q);
    read_bytes(c, q, 1000);
    assert_int_equal(read_nothing(c, q), AS_EOF);
    as_worker_fail(c->w, q, AS_STATUS_INTERNAL, AS_STR("no"));
    calls_answer(c, held[1]);
}

static void a_waiting_request_with_a_body_can_be_cancelled(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *held[2] = {calls_start(c, 1, 0), calls_start(c, 3, 0)};

    send_open(&c->d, 5, "", false, CALLEE, 0);
    send_data(c, 5, 1000, false);
    as_frame_put_cancel(&c->d.out, 5, 1);
    calls_sync(c);
    as_worker_flush(c->w);
    assert_int_equal(fake_expect_error(&c->d, 5).code, 1);
    send_data(c, 5, 1000, true); /* it was on its way */
    calls_answer(c, held[0]);
    calls_answer(c, held[1]);
    assert_null(as_worker_next(c->w));
}

/* Its bytes are dropped, those of a frame that is half here as well: the next request gets its own.
 */
static void a_waiting_request_is_too_late_to_start(void **state)
{
    struct calls *c = *state;
    uint8_t bytes[1000] = {0};

    for (uint64_t stream = 1, half = 0; half < 2; half++, stream += 8) {
        struct as_worker_req *held[2] = {calls_start(c, stream, 0), calls_start(c, stream + 2, 0)};
        struct bytes data = raw_frame(AS_FRAME_DATA, 0, stream + 4, bytes, sizeof(bytes));
        size_t first = half ? 500 : data.n;

        send_open(&c->d, stream + 4, "", false, CALLEE, 1);
        as_outq_copy(&c->d.out, data.p, first);
        calls_sync(c);
        calls_answer(c, held[0]);
        fake_expect(&c->d, AS_FRAME_DATA);
        assert_null(as_worker_next(c->w)); /* there is a slot, but no time */
        assert_int_equal(fake_expect_error(&c->d, stream + 4).code, AS_STATUS_DEADLINE_EXCEEDED);
        as_outq_copy(&c->d.out, data.p + first, data.n - first);
        calls_sync(c);
        free(data.p);
        held[0] = start(c, stream + 6, "", false);
        assert_int_equal(read_nothing(c, held[0]), AS_EAGAIN);
        assert_int_equal(as_worker_http_answer(c->w, held[0], 204, NULL, 0, AS_STR(""), true), 0);
        as_worker_flush(c->w);
        expect_head(&c->d, stream + 6, 204, 0, true);
        calls_answer(c, held[1]);
        fake_expect(&c->d, AS_FRAME_DATA);
    }
}

static void a_body_that_nobody_has_read_ends_with_its_request(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, "", false);

    send_data(c, 1, 1000, false);
    assert_int_equal(as_worker_http_answer(c->w, q, 413, NULL, 0, AS_STR("no"), true), 2);
    send_data(c, 1, 1000, true);
    expect_head(&c->d, 1, 413, 2, true);
    calls_answer(c, calls_start(c, 3, 0));
}

static void more_of_a_body_than_its_window_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, "", false);
    uint8_t byte = 0;

    send_data(c, 1, WINDOW, false);
    as_frame_put_http_data(&c->d.out, 1, &byte, 1, false, NULL);
    fake_send(&c->d);
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    assert_non_null(strstr(as_worker_error(c->w), "more of a body"));
    assert_int_equal(as_worker_http_answer(c->w, q, 200, NULL, 0, AS_STR(""), true), AS_ECANCELLED);
    as_worker_fail(c->w, q, 1, AS_STR(""));
}

static void an_answer_waits_for_room(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, "", true);
    size_t n = AS_FRAME_INLINE + WINDOW + 10;
    char *bytes = calloc(1, n);
    struct as_str body = {bytes, n};
    struct as_frame_credit k = {.bytes = 11};

    assert_int_equal(as_worker_http_answer(c->w, q, 200, NULL, 0, body, true), n - 10);
    assert_int_equal(as_worker_http_write(c->w, q, (struct as_str){bytes, 10}, true), 0);
    assert_false(as_worker_want(c->w, q, AS_WANT_ROOM));
    as_worker_flush(c->w);
    expect_head(&c->d, 1, 200, AS_FRAME_INLINE, false);
    expect_data(&c->d, 1, WINDOW, false);
    as_frame_put_credit(&c->d.out, 1, &k);
    calls_sync(c);
    assert_int_equal(as_worker_await_room(c->w, q), 0);
    assert_int_equal(as_worker_http_write(c->w, q, (struct as_str){bytes, 5}, false), 5);
    assert_int_equal(as_worker_http_write(c->w, q, (struct as_str){bytes, 5}, true), 5);
    as_worker_flush(c->w);
    expect_data(&c->d, 1, 5, false);
    expect_data(&c->d, 1, 5, true);
    free(bytes);
}

static void an_answer_may_end_with_nothing(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, "", true);

    assert_int_equal(as_worker_http_answer(c->w, q, 200, NULL, 0, AS_STR("some"), false), 4);
    assert_int_equal(as_worker_http_write(c->w, q, AS_STR(""), false), 0);
    assert_int_equal(as_worker_http_write(c->w, q, AS_STR(""), true), 0);
    as_worker_flush(c->w);
    expect_head(&c->d, 1, 200, 4, false);
    fake_expect(&c->d, AS_FRAME_END);
    q = start(c, 3, "", true);
    assert_int_equal(as_worker_http_answer(c->w, q, 200, NULL, 0, AS_STR(""), false), 0);
    as_worker_finish(c->w, q);
    as_worker_flush(c->w);
    expect_head(&c->d, 3, 200, 0, false);
    fake_expect(&c->d, AS_FRAME_END);
}

static void wrong_answers_are_refused_and_the_request_stays(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, "", true), *call = calls_start(c, 3, 0);
    static struct as_meta many[1025];
    struct as_body body = body_of("x");

    for (size_t i = 0; i < AS_COUNT(many); i++)
        many[i] = (struct as_meta){AS_STR("a"), AS_STR("b")};
    assert_int_equal(as_worker_http_write(c->w, q, AS_STR("x"), false), AS_EINVALID);
    assert_int_equal(as_worker_http_answer(c->w, q, 100, NULL, 0, AS_STR(""), true), AS_EINVALID);
    assert_int_equal(as_worker_http_answer(c->w, q, 1000, NULL, 0, AS_STR(""), true), AS_EINVALID);
    assert_int_equal(as_worker_http_answer(c->w, q, 200, many, 1025, AS_STR(""), true), AS_ETOOBIG);
    assert_int_equal(as_worker_answer(c->w, q, &(struct as_msg){0}), AS_EINVALID);
    assert_int_equal(as_worker_part(c->w, q, &(struct as_msg){0}), AS_EINVALID);
    assert_int_equal(as_worker_answer_body(c->w, q, &body), AS_EINVALID);
    assert_int_equal(as_worker_http_answer(c->w, call, 200, NULL, 0, AS_STR(""), true),
                     AS_EINVALID);
    assert_null(as_worker_req_http(call));
    assert_int_equal(as_worker_http_answer(c->w, q, 200, many, 1024, AS_STR("x"), false), 1);
    assert_int_equal(as_worker_http_answer(c->w, q, 200, NULL, 0, AS_STR(""), true), AS_EINVALID);
    as_worker_flush(c->w);
    expect_head(&c->d, 1, 200, 1, false);
    as_worker_fail(c->w, q, AS_STATUS_INTERNAL, AS_STR("half way"));
    as_worker_flush(c->w);
    assert_int_equal(fake_expect_error(&c->d, 1).code, AS_STATUS_INTERNAL);
    calls_answer(c, call);
}

static void a_request_without_an_answer_fails(void **state)
{
    struct calls *c = *state;

    as_worker_finish(c->w, start(c, 1, "", true));
    as_worker_flush(c->w);
    assert_int_equal(fake_expect_error(&c->d, 1).code, AS_STATUS_INTERNAL);
}

static void a_cancelled_request_takes_no_answer(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1, "", false);

    as_frame_put_cancel(&c->d.out, 1, 4);
    calls_sync(c);
    assert_true(as_worker_req_cancelled(q));
    assert_int_equal(read_nothing(c, q), AS_ECANCELLED);
    assert_int_equal(as_worker_http_answer(c->w, q, 200, NULL, 0, AS_STR(""), true), AS_ECANCELLED);
    as_worker_fail(c->w, q, 4, AS_STR(""));
    as_worker_flush(c->w);
    assert_int_equal(fake_expect_error(&c->d, 1).code, 4);
}

static void http_for_another_model_ends_the_link(void **state)
{
    struct calls *c = *state;

    send_open(&c->d, 1, "", true, TENSOR, 0);
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    assert_non_null(strstr(as_worker_error(c->w), "request of HTTP"));
}

static void a_model_of_http_is_one_of_calls(void **state AS_UNUSED)
{
    struct as_worker_conf conf = {.size = sizeof(conf), .path = "/tmp/none", .token = "x"};
    struct as_worker_model m = {.size = sizeof(m), .name = "A", .http = true};
    struct as_worker *w;

    assert_int_equal(as_worker_new(&w, &conf), 0);
    assert_int_equal(as_worker_add(w, &m), AS_EINVALID);
    m.opaque = true;
    assert_int_equal(as_worker_add(w, &m), 0);
    as_worker_free(w);
}

#define HTTP_TEST(f) cmocka_unit_test_setup_teardown(f, calls_setup, calls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_TEST(a_request_is_taken_and_answered),
        HTTP_TEST(a_dropped_head_frees_the_request_as_before),
        HTTP_TEST(a_body_comes_within_its_window),
        HTTP_TEST(a_body_comes_before_its_request_starts),
        HTTP_TEST(a_waiting_request_with_a_body_can_be_cancelled),
        HTTP_TEST(a_waiting_request_is_too_late_to_start),
        HTTP_TEST(a_body_that_nobody_has_read_ends_with_its_request),
        HTTP_TEST(more_of_a_body_than_its_window_ends_the_link),
        HTTP_TEST(an_answer_waits_for_room),
        HTTP_TEST(an_answer_may_end_with_nothing),
        HTTP_TEST(wrong_answers_are_refused_and_the_request_stays),
        HTTP_TEST(a_request_without_an_answer_fails),
        HTTP_TEST(a_cancelled_request_takes_no_answer),
        HTTP_TEST(http_for_another_model_ends_the_link),
        cmocka_unit_test(a_model_of_http_is_one_of_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
