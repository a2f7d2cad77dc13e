/* Specification of wire/h2/h2: answers whose body comes over time. */
#include "h2_pair.h"

#define REQ(t, id)   ((t)->req[((id)-1) / 2])
#define REPLY(t, id) (&(t)->reply[((id)-1) / 2])

static int32_t begun(struct pair *t, struct pair_upload *u)
{
    int32_t id = pair_request(t, u, NULL, 0);

    t->mode = PAIR_HOLD;
    pair_pump(t);
    as_h2_begin(t->h, (uint32_t)id,
                &(struct as_http_answer){.status = 200, .headers = pair_headers, .n_headers = 1});
    return id;
}

static void write_text(struct pair *t, int32_t id, const char *text, size_t n)
{
    struct as_blob *b = as_blob_new(n);

    memset(b->data, 0, n);
    memcpy(b->data, text, AS_MIN(strlen(text), n));
    as_h2_write(t->h, (uint32_t)id, &(struct as_http_piece){b->data, n, b});
    as_blob_unref(b); /* the stream has its own reference */
}

static void finish(struct pair *t, int32_t id)
{
    as_h2_finish(t->h, (uint32_t)id, pair_trailers, 1);
}

static void test_headers_are_sent_before_the_body(void **state)
{
    struct pair *t = pair_new();
    int32_t id = begun(t, NULL);

    (void)state;
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "h");
    write_text(t, id, "one", 3);
    pair_pump(t);
    assert_string_equal(pair_text(&REPLY(t, id)->body), "one");
    write_text(t, id, "two", 3);
    write_text(t, id, "three", 5);
    assert_int_equal(as_h2_bytes_unsent(t->h, (uint32_t)id), 8);
    pair_pump(t);
    assert_int_equal(as_h2_bytes_unsent(t->h, (uint32_t)id), 0);
    assert_int_equal(as_h2_bytes_sent(t->h, (uint32_t)id), 11);
    assert_false(REPLY(t, id)->closed);
    finish(t, id);
    pair_pump(t);
    assert_string_equal(pair_text(&REPLY(t, id)->body), "onetwothree");
    assert_non_null(strstr(pair_text(&REPLY(t, id)->headers), "grpc-status: 0"));
    assert_true(REPLY(t, id)->closed);
    assert_int_equal(REQ(t, id)->n_close, 1);
    pair_free(t);
}

static void test_an_answer_may_have_no_body(void **state)
{
    struct pair *t = pair_new();
    int32_t id = begun(t, NULL);

    (void)state;
    finish(t, id);
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->body.n, 0);
    assert_true(REPLY(t, id)->closed);
    assert_non_null(strstr(pair_text(&REPLY(t, id)->headers), "grpc-status: 0"));
    pair_free(t);
}

static void test_the_request_goes_on_meanwhile(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 10, .open = true};
    int32_t id = begun(t, &u);

    (void)state;
    write_text(t, id, "x", 1);
    pair_pump(t);
    assert_int_equal(REQ(t, id)->body.n, 10);
    u = (struct pair_upload){.left = 5};
    assert_int_equal(nghttp2_session_resume_data(t->client, id), 0);
    pair_pump(t);
    assert_int_equal(REQ(t, id)->body.n, 15);
    assert_int_equal(REQ(t, id)->n_end, 1);
    finish(t, id);
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "hdH");
    pair_free(t);
}

static void test_finish_before_the_client_has_ended_resets_after_the_trailers(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 10, .open = true};
    int32_t id = begun(t, &u);

    (void)state;
    write_text(t, id, "x", 1);
    finish(t, id);
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "hdHr");
    assert_int_equal(REPLY(t, id)->code, NGHTTP2_NO_ERROR);
    pair_free(t);
}

/* The client never opens its window of 65535: the rest waits in the server. */
static void test_bytes_wait_for_the_clients_window(void **state)
{
    struct pair *t = pair_new();
    int32_t id = begun(t, NULL);

    (void)state;
    write_text(t, id, "", 200000);
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->body.n, 65535);
    assert_int_equal(as_h2_bytes_unsent(t->h, (uint32_t)id), 200000 - 65535);
    assert_int_equal(as_h2_bytes_sent(t->h, (uint32_t)id), 65535);
    assert_int_equal(t->n_drained, 0);
    nghttp2_session_consume(t->client, id, 65535);
    pair_pump(t);
    assert_int_equal(t->n_drained, 0); /* more than AS_H2_LOW_WATER bytes still wait */
    nghttp2_session_consume(t->client, id, 65535);
    pair_pump(t);
    assert_int_equal(as_h2_bytes_unsent(t->h, (uint32_t)id), 200000 - 3 * 65535);
    assert_int_equal(t->n_drained, 1);
    finish(t, id);
    nghttp2_session_consume(t->client, id, 65535);
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->body.n, 200000);
    assert_true(REPLY(t, id)->closed);
    pair_free(t);
}

static void write_ten(struct pair *t, struct pair_req *r)
{
    if (t->n_drained < 10)
        write_text(t, (int32_t)r->stream, "next", 4);
    else
        finish(t, (int32_t)r->stream);
}

static void test_the_owner_may_write_and_finish_in_on_drained(void **state)
{
    struct pair *t = pair_new();
    int32_t id = begun(t, NULL);

    (void)state;
    t->more = write_ten;
    write_text(t, id, "first", 5);
    pair_pump(t);
    assert_int_equal(t->n_drained, 10);
    assert_int_equal(REPLY(t, id)->body.n, 5 + 9 * 4);
    assert_true(REPLY(t, id)->closed);
    pair_free(t);
}

static void test_many_pieces(void **state)
{
    struct pair *t = pair_new();
    int32_t id = begun(t, NULL);

    (void)state;
    for (int i = 0; i < 1000; i++) {
        write_text(t, id, "ab", 2);
        if (i % 7 == 0)
            pair_pump(t);
    }
    finish(t, id);
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->body.n, 2000);
    for (size_t i = 0; i < 2000; i++)
        assert_int_equal(REPLY(t, id)->body.p[i], i % 2 ? 'b' : 'a');
    pair_free(t);
}

static void test_large_pieces_are_referenced_and_freed(void **state)
{
    struct pair *t = pair_new_with(&pair_conf, 1 << 20, 16384);
    int32_t id = begun(t, NULL);
    struct as_blob *b = as_blob_new(60000);

    (void)state;
    memset(b->data, 'x', 60000);
    as_h2_write(t->h, (uint32_t)id, &(struct as_http_piece){b->data, 60000, b});
    assert_int_equal(atomic_load(&b->refs), 2);
    pair_pump(t);
    assert_int_equal(atomic_load(&b->refs), 1);
    as_blob_unref(b);
    finish(t, id);
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->body.n, 60000);
    pair_free(t);
}

static void test_calls_that_do_not_fit_are_ignored(void **state)
{
    struct pair *t = pair_new();
    int32_t id = begun(t, NULL);

    (void)state;
    pair_trailers_only(t, (uint32_t)id); /* an answer has begun */
    as_h2_begin(t->h, (uint32_t)id, &(struct as_http_answer){.status = 200});
    finish(t, id);
    write_text(t, id, "late", 4);
    finish(t, id);
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->body.n, 0);
    write_text(t, id, "gone", 4);
    write_text(t, 99, "never was", 9);
    finish(t, 99);
    assert_int_equal(as_h2_bytes_unsent(t->h, 99), 0);
    assert_int_equal(as_h2_bytes_sent(t->h, 99), 0);
    pair_free(t);
}

static void test_waiting_pieces_are_freed_when_the_client_disconnects(void **state)
{
    struct pair *t = pair_new();
    int32_t a = begun(t, NULL), b = begun(t, NULL);

    (void)state;
    write_text(t, a, "", 200000);
    write_text(t, b, "", 200000);
    pair_pump(t);
    nghttp2_submit_rst_stream(t->client, NGHTTP2_FLAG_NONE, a, NGHTTP2_CANCEL);
    pair_pump(t);
    assert_int_equal(REQ(t, a)->n_close, 1);
    assert_int_equal(REQ(t, a)->code, NGHTTP2_CANCEL);
    pair_free(t); /* while b is open: a sanitizer finds what is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_are_sent_before_the_body),
        cmocka_unit_test(test_an_answer_may_have_no_body),
        cmocka_unit_test(test_the_request_goes_on_meanwhile),
        cmocka_unit_test(test_finish_before_the_client_has_ended_resets_after_the_trailers),
        cmocka_unit_test(test_bytes_wait_for_the_clients_window),
        cmocka_unit_test(test_the_owner_may_write_and_finish_in_on_drained),
        cmocka_unit_test(test_many_pieces),
        cmocka_unit_test(test_large_pieces_are_referenced_and_freed),
        cmocka_unit_test(test_calls_that_do_not_fit_are_ignored),
        cmocka_unit_test(test_waiting_pieces_are_freed_when_the_client_disconnects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
