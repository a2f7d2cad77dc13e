/* Specification of wire/h2/h2: flow control, large bodies, limits. */
#include "h2_pair.h"

#define REQ(t, id)   ((t)->req[((id)-1) / 2])
#define REPLY(t, id) (&(t)->reply[((id)-1) / 2])

/* ---- flow control and large bodies ---- */

static void test_an_answer_waits_for_the_clients_window(void **state)
{
    struct pair *t = pair_new();
    int32_t id = pair_request(t, NULL, NULL, 0);
    uint8_t *body = as_xalloc(200000);

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    pair_answer(t, (uint32_t)id, &(struct as_http_piece){body, 200000, NULL}, 1, true);
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->body.n, 65535);
    assert_false(as_h2_wants_write(t->h));
    assert_int_equal(REQ(t, id)->n_close, 0);
    while (REPLY(t, id)->body.n < 200000) {
        size_t before = REPLY(t, id)->body.n;

        nghttp2_session_consume(t->client, id, 40000);
        pair_pump(t);
        assert_true(REPLY(t, id)->body.n > before);
    }
    assert_int_equal(REQ(t, id)->n_close, 1);
    assert_int_equal(REPLY(t, id)->frames[REPLY(t, id)->n_frames - 1], 'H');
    free(body);
    pair_free(t);
}

static void test_an_upload_waits_for_consume(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 200000};
    int32_t id = pair_request(t, &u, NULL, 0);
    size_t given = 0;

    (void)state;
    t->no_consume = true;
    pair_pump(t);
    assert_int_equal(REQ(t, id)->body.n, 65535);
    while (REQ(t, id)->body.n < 200000) {
        size_t n = REQ(t, id)->body.n - given;

        assert_true(n > 0);
        as_h2_consume(t->h, (uint32_t)id, n);
        given += n;
        pair_pump(t);
    }
    assert_int_equal(REQ(t, id)->n_end, 1);
    pair_free(t);
}

static void test_widen_window_admits_a_whole_body_unconsumed(void **state)
{
    struct as_h2_conf conf = pair_conf;
    struct pair_upload u = {.left = 200000};
    struct pair *t;
    int32_t id;

    (void)state;
    conf.stream_window = 1000;
    t = pair_new_with(&conf, 65535, 16384);
    t->no_consume = true;
    pair_pump(t); /* SETTINGS first, so that the small window is in force */
    id = pair_request(t, &u, NULL, 0);
    pair_pump(t);
    assert_int_equal(REQ(t, id)->body.n, 1000);
    as_h2_widen_window(t->h, (uint32_t)id, 199000 - 1);
    pair_pump(t);
    assert_int_equal(REQ(t, id)->body.n, 199999);
    as_h2_widen_window(t->h, (uint32_t)id, 1);
    pair_pump(t);
    assert_int_equal(REQ(t, id)->n_end, 1);
    pair_free(t);
}

static void test_consume_after_close_opens_the_connection_window(void **state)
{
    struct as_h2_conf conf = pair_conf;
    struct pair_upload u = {.left = 60000, .open = true}, v = {.left = 60000};
    struct pair *t;
    int32_t a, b;

    (void)state;
    conf.conn_window = 65535;
    t = pair_new_with(&conf, 65535, 16384);
    t->no_consume = true;
    t->mode = PAIR_HOLD;
    a = pair_request(t, &u, NULL, 0);
    pair_pump(t);
    nghttp2_submit_rst_stream(t->client, NGHTTP2_FLAG_NONE, a, NGHTTP2_CANCEL);
    b = pair_request(t, &v, NULL, 0);
    pair_pump(t);
    assert_int_equal(REQ(t, a)->n_close, 1);
    assert_int_equal(REQ(t, b)->body.n, 5535);
    as_h2_consume(t->h, (uint32_t)a, 60000);
    pair_pump(t);
    assert_int_equal(REQ(t, b)->body.n, 60000);
    pair_free(t);
}

static void test_data_after_an_early_answer_is_given_back(void **state)
{
    struct as_h2_conf conf = pair_conf;
    struct pair *t;

    (void)state;
    conf.conn_window = 65535;
    t = pair_new_with(&conf, 65535, 16384);
    pair_pump(t);
    t->mode = PAIR_EARLY;
    for (int i = 0; i < 10; i++) { /* together ten times the connection's window */
        struct pair_upload u = {.left = 65535, .open = true};
        int32_t id = pair_request(t, &u, NULL, 0);

        pair_to_server(t); /* all of it, before the client sees the answer */
        pair_pump(t);
        assert_int_equal(u.left, 0);
        assert_int_equal(REQ(t, id)->n_data, 0);
        assert_string_equal(REPLY(t, id)->frames, "Hr");
    }
    pair_free(t);
}

static void test_large_bodies_are_referenced(void **state)
{
    struct pair *t = pair_new_with(&pair_conf, 1 << 20, 1 << 20);
    int32_t id = pair_request(t, NULL, NULL, 0);
    struct as_blob *blob = as_blob_new(600000);
    struct iovec iov[64];
    size_t inside = 0;
    int k;

    (void)state;
    memset(blob->data, 'b', blob->n);
    t->mode = PAIR_HOLD;
    nghttp2_session_set_local_window_size(t->client, NGHTTP2_FLAG_NONE, 0, 1 << 20);
    pair_pump(t);
    pair_answer(t, (uint32_t)id,
                (const struct as_http_piece[]){{(const uint8_t *)"12345", 5, NULL},
                                               {blob->data, blob->n, blob},
                                               {(const uint8_t *)"end", 3, NULL}},
                3, true);
    assert_int_equal(as_h2_send(t->h, &t->q, SIZE_MAX), 0);
    assert_int_equal(REQ(t, id)->n_close, 1);
    k = as_outq_iov(&t->q, iov, 64);
    for (int i = 0; i < k; i++) {
        const uint8_t *p = iov[i].iov_base;

        inside += p >= blob->data && p < blob->data + blob->n ? iov[i].iov_len : 0;
    }
    assert_int_equal(inside, 600000);
    assert_true(atomic_load(&blob->refs) > 1);
    as_blob_unref(blob); /* the owner drops it in on_close; the queue still has a reference */
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->body.n, 600008);
    assert_memory_equal(REPLY(t, id)->body.p, "12345bbb", 8);
    assert_memory_equal(REPLY(t, id)->body.p + 600004, "bend", 4);
    assert_in_range(REPLY(t, id)->biggest, 16385, 1 << 20);
    pair_free(t);
}

static void test_frames_respect_the_peers_limit(void **state)
{
    struct pair *t = pair_new_with(&pair_conf, 1 << 20, 20000);
    int32_t id = pair_request(t, NULL, NULL, 0);
    uint8_t *body = as_xalloc(50000);

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    pair_answer(t, (uint32_t)id, &(struct as_http_piece){body, 50000, NULL}, 1, true);
    pair_pump(t);
    assert_int_equal(REPLY(t, id)->biggest, 20000);
    assert_string_equal(REPLY(t, id)->frames, "hdddH");
    free(body);
    pair_free(t);
}

static void test_a_large_answer_does_not_hold_up_small_ones(void **state)
{
    struct pair *t = pair_new_with(&pair_conf, 1 << 20, 16384);
    int32_t large = pair_request(t, NULL, NULL, 0), small = pair_request(t, NULL, NULL, 0);
    uint8_t *body = as_xalloc(300000);

    (void)state;
    t->mode = PAIR_HOLD;
    nghttp2_session_set_local_window_size(t->client, NGHTTP2_FLAG_NONE, 0, 1 << 20);
    pair_pump(t);
    pair_answer(t, (uint32_t)large, &(struct as_http_piece){body, 300000, NULL}, 1, true);
    t->send_max = 20000;
    pair_to_client(t);
    assert_in_range(REPLY(t, large)->body.n, 1, 40000);
    pair_answer(t, (uint32_t)small, &(struct as_http_piece){body, 100, NULL}, 1, true);
    while (!REPLY(t, small)->closed)
        assert_true(pair_to_client(t));
    assert_in_range(REPLY(t, large)->body.n, 1, 100000);
    pair_pump(t);
    assert_int_equal(REPLY(t, large)->body.n, 300000);
    free(body);
    pair_free(t);
}

static void test_send_stops_at_max(void **state)
{
    struct pair *t = pair_new_with(&pair_conf, 1 << 20, 16384);
    int32_t id = pair_request(t, NULL, NULL, 0);
    uint8_t *body = as_xalloc(60000);
    unsigned turns = 0;

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    pair_answer(t, (uint32_t)id, &(struct as_http_piece){body, 60000, NULL}, 1, true);
    t->send_max = 1000;
    do {
        assert_true(as_h2_wants_write(t->h));
        assert_int_equal(as_h2_send(t->h, &t->q, 1000), 0);
        assert_in_range(t->q.bytes, 1000, 1000 + 16384 + 9);
        pair_to_client(t);
        turns++;
    } while (REPLY(t, id)->body.n < 60000);
    assert_int_equal(turns, 4); /* a frame each */
    free(body);
    pair_free(t);
}

/* ---- limits on requests ---- */

static int32_t request_with(struct pair *t, size_t n_fields, size_t pad)
{
    static char value[8192];
    nghttp2_nv extra[200];

    memset(value, 'v', sizeof(value));
    for (size_t i = 0; i < n_fields; i++)
        extra[i] = pair_nv("x", "");
    if (pad) {
        extra[0].value = (uint8_t *)value;
        extra[0].valuelen = pad;
    }
    return pair_request(t, NULL, extra, n_fields);
}

static void test_fields_of_every_length(void **state)
{
    struct pair *t = pair_new();

    (void)state;
    for (size_t n = 600; n < 1100;
         n++) { /* around the number that a stream's record holds inline */
        int32_t id = request_with(t, 1, n);

        pair_pump(t);
        assert_int_equal(strlen(strrchr((char *)REQ(t, id)->text.p, ' ')), 1 + n);
        assert_true(REPLY(t, id)->closed);
        assert_non_null(strstr(pair_text(&REPLY(t, id)->headers), "grpc-status: 0\n"));
    }
    pair_free(t);
}

static void check_431(struct pair *t, int32_t id)
{
    assert_null(REQ(t, id));
    assert_string_equal(REPLY(t, id)->frames, "H");
    assert_string_equal(pair_text(&REPLY(t, id)->headers), ":status: 431\n");
}

static void test_the_number_of_fields_is_limited(void **state)
{
    struct pair *t = pair_new();
    int32_t fits, over, after;

    (void)state;
    fits = request_with(t, 96, 0); /* and four pseudo headers: 100 */
    over = request_with(t, 97, 0);
    after = request_with(t, 1, 0);
    pair_pump(t);
    assert_int_equal(REQ(t, fits)->n_end, 1);
    check_431(t, over);
    assert_int_equal(REQ(t, after)->n_end, 1);
    pair_free(t);
}

static void test_the_size_of_the_list_is_limited(void **state)
{
    /* name, value and 32 of :method POST, :scheme http, :path /m, :authority host, x */
    const size_t others = (7 + 4 + 32) + (7 + 4 + 32) + (5 + 2 + 32) + (10 + 4 + 32) + (1 + 32);
    struct pair *t = pair_new();
    int32_t fits, over;

    (void)state;
    fits = request_with(t, 1, 8192 - others);
    over = request_with(t, 1, 8192 - others + 1);
    pair_pump(t);
    assert_int_equal(REQ(t, fits)->n_end, 1);
    check_431(t, over);
    pair_free(t);
}

static void test_a_request_over_a_limit_is_reset_if_its_body_goes_on(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u = {.left = 70000, .open = true};
    nghttp2_nv extra[97];
    int32_t id;

    (void)state;
    for (size_t i = 0; i < AS_COUNT(extra); i++)
        extra[i] = pair_nv("x", "");
    id = pair_request(t, &u, extra, AS_COUNT(extra));
    pair_pump(t);
    assert_null(REQ(t, id));
    assert_string_equal(REPLY(t, id)->frames, "Hr");
    pair_free(t);
}

static int32_t with_trailers(struct pair *t, struct pair_upload *u, size_t n)
{
    nghttp2_nv nv[101];
    int32_t id;

    *u = (struct pair_upload){.left = 10, .open = true};
    id = pair_request(t, u, NULL, 0);
    pair_pump(t);
    for (size_t i = 0; i < n; i++)
        nv[i] = pair_nv("x", "");
    assert_int_equal(
        nghttp2_submit_headers(t->client, NGHTTP2_FLAG_END_STREAM, id, NULL, nv, n, NULL), 0);
    pair_pump(t);
    return id;
}

static void test_request_trailers_are_counted_and_dropped(void **state)
{
    struct pair *t = pair_new();
    struct pair_upload u[2];
    int32_t fits, over;

    (void)state;
    fits = with_trailers(t, &u[0], 100);
    assert_int_equal(REQ(t, fits)->n_end, 1);
    assert_int_equal(REQ(t, fits)->code, NGHTTP2_NO_ERROR);
    over = with_trailers(t, &u[1], 101);
    assert_int_equal(REQ(t, over)->n_end, 0);
    assert_int_equal(REQ(t, over)->code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(REPLY(t, over)->code, NGHTTP2_ENHANCE_YOUR_CALM);
    pair_free(t);
}

static void test_too_many_streams_are_refused(void **state)
{
    struct as_h2_conf conf = pair_conf;
    struct pair *t;

    (void)state;
    conf.max_streams = 5;
    t = pair_new_with(&conf, 65535, 16384);
    t->mode = PAIR_HOLD;
    for (int i = 0; i < 6; i++) /* before the client knows the limit */
        pair_request(t, NULL, NULL, 0);
    pair_pump(t);
    assert_int_equal(t->n_req, 5);
    assert_true(REPLY(t, 11)->closed);
    assert_int_equal(REPLY(t, 11)->code, NGHTTP2_REFUSED_STREAM);
    assert_false(REPLY(t, 9)->closed);
    pair_request(t, NULL, NULL, 0); /* the client now knows the limit, and waits */
    pair_pump(t);
    assert_int_equal(t->n_req, 5);
    pair_answer(t, 3, NULL, 0, true);
    pair_pump(t);
    assert_int_equal(t->n_req, 6);
    pair_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_waits_for_the_clients_window),
        cmocka_unit_test(test_an_upload_waits_for_consume),
        cmocka_unit_test(test_widen_window_admits_a_whole_body_unconsumed),
        cmocka_unit_test(test_consume_after_close_opens_the_connection_window),
        cmocka_unit_test(test_data_after_an_early_answer_is_given_back),
        cmocka_unit_test(test_large_bodies_are_referenced),
        cmocka_unit_test(test_frames_respect_the_peers_limit),
        cmocka_unit_test(test_a_large_answer_does_not_hold_up_small_ones),
        cmocka_unit_test(test_send_stops_at_max),
        cmocka_unit_test(test_fields_of_every_length),
        cmocka_unit_test(test_the_number_of_fields_is_limited),
        cmocka_unit_test(test_the_size_of_the_list_is_limited),
        cmocka_unit_test(test_a_request_over_a_limit_is_reset_if_its_body_goes_on),
        cmocka_unit_test(test_request_trailers_are_counted_and_dropped),
        cmocka_unit_test(test_too_many_streams_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
