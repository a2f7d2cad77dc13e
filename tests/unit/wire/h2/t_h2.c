/* Specification of wire/h2/h2: requests, answers, resets, the end of a connection. */
#include "h2_raw.h"

#define REQ(t, id)   ((t)->req[((id)-1) / 2])
#define REPLY(t, id) (&(t)->reply[((id)-1) / 2])
#define SPELLED      ":status: 200\ncontent-type: application/grpc\ngrpc-status: 0\n"

static void check_echo(struct pair *t, int32_t id, size_t n)
{
    struct pair_reply *reply = REPLY(t, id);

    assert_string_equal(pair_text(&reply->headers), SPELLED);
    assert_int_equal(reply->body.n, n);
    assert_true(reply->closed);
    assert_int_equal(reply->code, NGHTTP2_NO_ERROR);
    assert_int_equal(REQ(t, id)->n_end, 1);
    assert_int_equal(REQ(t, id)->n_close, 1);
    assert_int_equal(REQ(t, id)->code, NGHTTP2_NO_ERROR);
}

static void test_a_unary_call(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 100};
    nghttp2_nv extra[] = {
        pair_nv("te", "trailers"),        pair_nv("content-type", "application/grpc"),
        pair_nv("user-agent", "x/1"),     pair_nv("grpc-timeout", "1S"),
        pair_nv("grpc-encoding", "gzip"), pair_nv("x-id", "7")};
    int32_t id = pair_request(t, &u, extra, AS_COUNT(extra));

    (void)state;
    pair_pump(t);
    assert_string_equal(
        REQ(t, id)->text.p,
        "POST|/m|http|host|application/grpc|trailers|1S|gzip|\nuser-agent: x/1\nx-id: 7");
    assert_false(REQ(t, id)->end_stream);
    check_echo(t, id, 100);
    assert_string_equal(REPLY(t, id)->frames, "hdH");
    assert_false(as_h2_wants_write(t->h));
    assert_false(as_h2_done(t->h));
    pair_free(t);
}

static void test_input_may_be_cut_at_every_byte(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 300};
    int32_t id = pair_request(t, &u, NULL, 0);

    (void)state;
    t->slice = 1;
    pair_pump(t);
    check_echo(t, id, 300);
    assert_int_equal(REQ(t, id)->n_data, 300);
    pair_free(t);
}

static void test_a_request_without_body(void **state)
{
    struct pair *t = pair_new();
    int32_t id = pair_request(t, NULL, NULL, 0);

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    assert_true(REQ(t, id)->end_stream);
    assert_int_equal(REQ(t, id)->n_end, 1);
    assert_int_equal(REQ(t, id)->n_close, 0);
    pair_answer(t, (uint32_t)id, &(struct as_http_piece){(const uint8_t *)"ok", 2, NULL}, 1, false);
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "hD");
    assert_string_equal(pair_text(&REPLY(t, id)->body), "ok");
    assert_int_equal(REQ(t, id)->n_close, 1);
    pair_free(t);
}

static void test_trailers_only_is_one_frame(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 5};
    int32_t id = pair_request(t, &u, NULL, 0);

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    pair_trailers_only(t, (uint32_t)id);
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "H");
    assert_string_equal(pair_text(&REPLY(t, id)->headers),
                        ":status: 200\ncontent-type: application/grpc\ngrpc-status: 12\n");
    pair_free(t);
}

static void test_an_empty_body_sends_no_data_frame(void **state)
{
    struct pair *t = pair_new();
    int32_t id = pair_request(t, NULL, NULL, 0);

    (void)state;
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "hH");
    check_echo(t, id, 0);
    pair_free(t);
}

static void test_a_body_in_many_pieces(void **state)
{
    struct as_http_piece piece[7] = {{NULL, 0, NULL}};
    struct pair *t = pair_new();
    int32_t id = pair_request(t, NULL, NULL, 0);

    (void)state;
    for (size_t i = 1; i < 7; i++)
        piece[i] = (struct as_http_piece){(const uint8_t *)"abcdef" + i - 1, i != 3, NULL};
    t->mode = PAIR_HOLD;
    pair_pump(t);
    pair_answer(t, (uint32_t)id, piece, 7, true);
    pair_pump(t);
    assert_string_equal(pair_text(&REPLY(t, id)->body), "abdef");
    assert_string_equal(REPLY(t, id)->frames, "hdH");
    pair_free(t);
}

static void test_a_hundred_streams_answered_in_reverse(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u[100];

    (void)state;
    t->mode = PAIR_HOLD;
    for (size_t i = 0; i < 100; i++) {
        u[i] = (struct pair_upload){.left = i};
        pair_request(t, &u[i], NULL, 0);
    }
    pair_pump(t);
    assert_int_equal(t->n_req, 100);
    for (int32_t id = 199; id > 0; id -= 2) {
        struct as_buf *b = &REQ(t, id)->body;

        assert_int_equal(b->n, id / 2);
        pair_answer(t, (uint32_t)id, &(struct as_http_piece){b->p, b->n, NULL}, 1, true);
    }
    pair_pump(t);
    for (int32_t id = 1; id < 200; id += 2)
        check_echo(t, id, (size_t)id / 2);
    pair_free(t);
}

static void test_records_are_used_again(void **state)
{
    struct pair *t = pair_new();
    nghttp2_nv long_one = pair_nv("x-a", "0123456789012345678901234567890123456789"), many[60];

    (void)state;
    for (size_t i = 0; i < AS_COUNT(many); i++)
        many[i] = long_one;
    for (int round = 0; round < 20; round++) {
        struct pair_upload u = {.left = 50};
        int32_t id = pair_request(t, &u, many, round % 2 ? AS_COUNT(many) : 1);

        pair_pump(t);
        check_echo(t, id, 50);
        assert_string_equal(strrchr((char *)REQ(t, id)->text.p, '\n'),
                            "\nx-a: 0123456789012345678901234567890123456789");
    }
    pair_free(t);
}

static void test_a_repeated_field_is_among_the_rest(void **state)
{
    struct pair *t = pair_new();
    nghttp2_nv extra[] = {pair_nv("grpc-timeout", "1S"), pair_nv("grpc-timeout", "2S"),
                          pair_nv("cookie", "a=b"), pair_nv("tf", "")};
    int32_t id = pair_request(t, NULL, extra, AS_COUNT(extra));

    (void)state;
    pair_pump(t);
    assert_string_equal(REQ(t, id)->text.p,
                        "POST|/m|http|host|||1S||\ngrpc-timeout: 2S\ncookie: a=b\ntf: ");
    pair_free(t);
}

static void test_a_client_resets(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 10};
    int32_t id = pair_request(t, &u, NULL, 0);

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    nghttp2_submit_rst_stream(t->client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    pair_pump(t);
    assert_int_equal(REQ(t, id)->n_close, 1);
    assert_int_equal(REQ(t, id)->code, NGHTTP2_CANCEL);
    pair_answer(t, (uint32_t)id, NULL, 0, true); /* the owner did not know yet */
    as_h2_reset(t->h, (uint32_t)id, NGHTTP2_CANCEL);
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "");
    pair_free(t);
}

static void test_a_client_resets_inside_of_the_answer(void **state)
{
    static uint8_t big[200000];
    struct pair *t = pair_new();
    int32_t id = pair_request(t, NULL, NULL, 0);

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    pair_answer(t, (uint32_t)id, &(struct as_http_piece){big, sizeof(big), NULL}, 1, true);
    pair_pump(t); /* waits for the client's window */
    assert_int_equal(REQ(t, id)->n_close, 0);
    nghttp2_submit_rst_stream(t->client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    pair_pump(t);
    assert_int_equal(REQ(t, id)->n_close, 1);
    id = pair_request(t, NULL, NULL, 0);
    pair_pump(t);
    assert_int_equal(REQ(t, id)->n_end, 1);
    pair_free(t);
}

static void test_the_owner_resets(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 10};
    int32_t id = pair_request(t, &u, NULL, 0);

    (void)state;
    t->mode = PAIR_RESET;
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->code, NGHTTP2_CANCEL);
    assert_int_equal(REQ(t, id)->n_data, 0);
    assert_int_equal(REQ(t, id)->n_end, 0);
    assert_int_equal(REQ(t, id)->n_close, 1);
    pair_free(t);
}

static void test_an_answer_before_the_client_ended_resets_after_it(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 10, .open = true};
    int32_t id = pair_request(t, &u, NULL, 0);

    (void)state;
    t->mode = PAIR_EARLY;
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "Hr");
    assert_int_equal(REPLY(t, id)->code, NGHTTP2_NO_ERROR);
    assert_int_equal(REQ(t, id)->n_data, 0);
    assert_int_equal(REQ(t, id)->n_end, 0);
    assert_int_equal(REQ(t, id)->n_close, 1);
    assert_int_equal(REQ(t, id)->code, NGHTTP2_NO_ERROR);
    pair_free(t);
}

static void test_an_early_answer_with_a_body_resets_after_its_trailers(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 10, .open = true};
    int32_t id = pair_request(t, &u, NULL, 0);

    (void)state;
    t->mode = PAIR_EARLY_ON_DATA;
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "hdHr");
    assert_string_equal(pair_text(&REPLY(t, id)->body), "early");
    assert_int_equal(REQ(t, id)->n_end, 0);
    pair_free(t);
}

static void test_an_early_answer_needs_no_reset_if_the_client_ends_meanwhile(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 10};
    int32_t id = pair_request(t, &u, NULL, 0);

    (void)state;
    t->mode = PAIR_EARLY_ON_DATA; /* END_STREAM is on the frame that is answered */
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "hdH");
    assert_int_equal(REQ(t, id)->n_end, 0);
    pair_free(t);
}

static void test_a_second_answer_is_ignored(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 10};
    int32_t id = pair_request(t, &u, NULL, 0);

    (void)state;
    pair_to_server(t);
    pair_trailers_only(t, (uint32_t)id);
    pair_pump(t);
    check_echo(t, id, 10);
    pair_free(t);
}

static void test_a_connection_is_freed_with_open_streams(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u[3] = {{.left = 10}, {.left = 10, .open = true}, {.left = 10}};
    struct pair_req *first;

    (void)state;
    t->mode = PAIR_HOLD;
    for (size_t i = 0; i < 3; i++)
        pair_request(t, &u[i], NULL, 0);
    pair_pump(t);
    first = REQ(t, 1);
    pair_answer(t, 5, NULL, 0, true);
    assert_int_equal(t->n_close, 0);
    as_h2_free(t->h);
    t->h = NULL;
    assert_int_equal(t->n_close, 3);
    assert_int_equal(first->n_close, 1);
    assert_int_not_equal(first->code, NGHTTP2_NO_ERROR);
    pair_free(t);
}

static void test_a_drain_serves_what_comes_before_the_final_goaway(void **state)
{
    struct pair *t = pair_new();
    int32_t first = pair_request(t, NULL, NULL, 0), second;

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    as_h2_shutdown_notice(t->h);
    assert_int_equal(as_h2_send(t->h, &t->q, 1 << 20), 0);
    second = pair_request(t, NULL, NULL, 0);
    pair_to_server(t); /* crosses the notice */
    pair_to_client(t);
    assert_int_equal(t->goaway_last, INT32_MAX);
    assert_int_equal(t->goaway_code, NGHTTP2_NO_ERROR);
    as_h2_shutdown_final(t->h);
    pair_pump(t);
    assert_int_equal(t->goaway_last, second);
    assert_int_equal(t->goaway_code, NGHTTP2_NO_ERROR);
    pair_answer(t, (uint32_t)first, NULL, 0, true);
    pair_pump(t);
    assert_false(as_h2_done(t->h));
    pair_answer(t, (uint32_t)second, NULL, 0, true);
    pair_pump(t);
    check_echo(t, first, 0);
    check_echo(t, second, 0);
    assert_true(as_h2_done(t->h));
    assert_int_equal(t->send_rc, 0);
    pair_free(t);
}

static void test_streams_after_the_final_goaway_are_not_served(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 10};
    int32_t first = pair_request(t, &u, NULL, 0);

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    as_h2_shutdown_final(t->h);
    pair_request(t, NULL, NULL, 0);
    pair_to_server(t); /* crosses the GOAWAY */
    pair_pump(t);
    assert_int_equal(t->goaway_last, first);
    assert_int_equal(REQ(t, first)->n_close, 0);
    assert_int_equal(t->n_close, t->n_req - 1);
    pair_answer(t, (uint32_t)first, NULL, 0, true);
    pair_pump(t);
    assert_int_equal(REPLY(t, first)->code, NGHTTP2_NO_ERROR);
    assert_true(as_h2_done(t->h));
    pair_free(t);
}

/* The last stream of a client's GOAWAY is ignored, since the server opens none. grpc-go sends its
 * own last stream, others 2^31 - 1; each is a normal end, repeated or not, whole or in pieces. */
static void test_any_last_stream_in_a_clients_goaway_is_accepted(void **state)
{
    static const uint8_t last[][8] = {
        {0}, {0, 0, 0, 1}, {0x7f, 0xff, 0xff, 0xff}, {0, 0, 0, 2}, {0xff, 0xff, 0xff, 0xff}};

    (void)state;
    for (size_t i = 0; i < 3 * AS_COUNT(last); i++) {
        struct pair *t = pair_greeted();

        t->slice = i % 3; /* all at once, byte by byte, in twos */
        raw_request(t, 1, NGHTTP2_FLAG_END_STREAM, "x", "y");
        raw(t, NGHTTP2_GOAWAY, 0, 0, last[i / 3], 8);
        raw(t, NGHTTP2_GOAWAY, 0, 0, "\0\0\0\3\0\0\0\0bye", 11);
        assert_int_equal(t->recv_rc, 0);
        assert_string_equal(sent(t), "");
        assert_int_equal(as_h2_breach(t->h), AS_H2_NO_BREACH);
        assert_false(as_h2_done(t->h)); /* what it has asked for is answered */
        pair_answer(t, 1, NULL, 0, false);
        assert_string_equal(sent(t), "H1 ");
        assert_int_equal(t->send_rc, 0);
        assert_true(as_h2_done(t->h));
        pair_free(t);
    }
}

static void test_pings_and_settings_are_acknowledged(void **state)
{
    struct pair *t = pair_new();

    (void)state;
    pair_pump(t);
    nghttp2_submit_ping(t->client, NGHTTP2_FLAG_NONE, (const uint8_t *)"12345678");
    pair_to_server(t);
    assert_true(as_h2_wants_write(t->h));
    assert_int_equal(as_h2_send(t->h, &t->q, 1 << 20), 0);
    assert_int_equal(t->q.bytes, 9 + 8);
    pair_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_unary_call),
        cmocka_unit_test(test_input_may_be_cut_at_every_byte),
        cmocka_unit_test(test_a_request_without_body),
        cmocka_unit_test(test_trailers_only_is_one_frame),
        cmocka_unit_test(test_an_empty_body_sends_no_data_frame),
        cmocka_unit_test(test_a_body_in_many_pieces),
        cmocka_unit_test(test_a_hundred_streams_answered_in_reverse),
        cmocka_unit_test(test_records_are_used_again),
        cmocka_unit_test(test_a_repeated_field_is_among_the_rest),
        cmocka_unit_test(test_a_client_resets),
        cmocka_unit_test(test_a_client_resets_inside_of_the_answer),
        cmocka_unit_test(test_the_owner_resets),
        cmocka_unit_test(test_an_answer_before_the_client_ended_resets_after_it),
        cmocka_unit_test(test_an_early_answer_with_a_body_resets_after_its_trailers),
        cmocka_unit_test(test_an_early_answer_needs_no_reset_if_the_client_ends_meanwhile),
        cmocka_unit_test(test_a_second_answer_is_ignored),
        cmocka_unit_test(test_a_connection_is_freed_with_open_streams),
        cmocka_unit_test(test_a_drain_serves_what_comes_before_the_final_goaway),
        cmocka_unit_test(test_streams_after_the_final_goaway_are_not_served),
        cmocka_unit_test(test_any_last_stream_in_a_clients_goaway_is_accepted),
        cmocka_unit_test(test_pings_and_settings_are_acknowledged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
