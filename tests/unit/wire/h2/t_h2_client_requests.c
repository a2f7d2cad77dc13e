/* Specification of wire/h2/h2_client, frame by frame: repeated heads, tables of header fields,
 * windows of request bodies, many streams. */
#include "h2_client_frames.h"

#define HEAD " whole :method=POST :path=/m te=trailers\n"

static void a_head_that_is_repeated_means_the_same(void **state AS_UNUSED)
{
    struct world *w = world_new();

    for (uint32_t i = 0; i < 4; i++) {
        char line[100];

        /* other requests between them do not change its meaning */
        assert_int_equal(start(w, NULL, i == 2 ? 0 : 7), 0);
        snprintf(line, sizeof(line), "HEADERS %u end" HEAD, 2 * i + 1);
        assert_string_equal(sent(w), line);
    }
    world_free(w);
}

static void a_server_may_want_no_table(void **state AS_UNUSED)
{
    for (unsigned late = 0; late < 2; late++) {
        struct world *w = world_new();

        if (late) {
            start(w, NULL, 1);
            assert_string_equal(sent(w), "HEADERS 1 end" HEAD);
        }
        setting(w, NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 100);
        assert_int_equal(receive(w), 0);
        assert_string_equal(sent(w), "SETTINGS 0 end\n");
        nghttp2_hd_inflate_change_table_size(w->inflater, 100); /* a block must say so first */
        for (int i = 0; i < 2; i++) {
            char line[100];

            start(w, NULL, 1);
            snprintf(line, sizeof(line), "HEADERS %u end" HEAD, w->call[w->n_started - 1].stream);
            assert_string_equal(sent(w), line);
        }
        world_free(w);
    }
}

static void a_body_waits_for_window(void **state AS_UNUSED)
{
    static const char bytes[40000];
    static const struct as_str body = {bytes, sizeof(bytes)};
    struct world *w = world_new();

    setting(w, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10000);
    receive(w);
    start(w, &body, 0);
    assert_string_equal(sent(w), "SETTINGS 0 end\nHEADERS 1" HEAD "DATA 1 10000\n");
    setting(w, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 5000); /* now it is -5000 */
    window(w, 1, 5000);
    receive(w);
    assert_string_equal(sent(w), "SETTINGS 0 end\n");
    window(w, 1, 1);
    receive(w);
    assert_string_equal(sent(w), "DATA 1 1\n");
    window(w, 1, 100000);
    receive(w);
    assert_string_equal(sent(w), "DATA 1 16384\nDATA 1 end 13615\n");
    start(w, &body, 0); /* of the connection's window 65535 - 40000 are left */
    window(w, 3, 100000);
    assert_string_equal(sent(w), "HEADERS 3" HEAD "DATA 3 5000\n");
    receive(w);
    assert_string_equal(sent(w), "DATA 3 16384\nDATA 3 4151\n");
    window(w, 0, 100000);
    receive(w);
    assert_string_equal(sent(w), "DATA 3 end 14465\n");
    world_free(w);
}

static void bodies_take_turns(void **state AS_UNUSED)
{
    static const char bytes[20000];
    static const struct as_str body = {bytes, sizeof(bytes)};
    struct world *w = world_new();

    start(w, &body, 1);
    start(w, &body, 1);
    assert_string_equal(sent(w), "HEADERS 1" HEAD "HEADERS 3" HEAD "DATA 1 16384\nDATA 3 16384\n"
                                 "DATA 1 end 3616\nDATA 3 end 3616\n");
    world_free(w);
}

static void an_answer_may_come_before_the_request_is_sent(void **state AS_UNUSED)
{
    static const char bytes[70000];
    static const struct as_str body = {bytes, sizeof(bytes)};
    struct world *w = world_new();

    start(w, &body, 0);
    sent(w);
    HEADERS(w, 5, 1, "\x88");
    frame(w, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\0", 4); /* the rest is not wanted */
    receive(w);
    assert_int_equal(w->call[0].n_close, 1);
    assert_true(w->call[0].whole);
    start(w, &body, 0);
    HEADERS(w, 5, 3, "\x88");
    window(w, 0, 200000);
    assert_string_equal(sent(w), "HEADERS 3" HEAD);
    window(w, 3, 10000);
    receive(w);
    assert_int_equal(w->call[1].n_close, 0);
    sent(w); /* the rest is sent */
    assert_int_equal(w->call[1].n_close, 1);
    assert_true(w->call[1].whole);
    world_free(w);
}

/* Answers come in another order than the requests. */
static void many_requests_are_told_apart(void **state AS_UNUSED)
{
    struct world *w = world_new();
    char value[] = "\x88\x00\x01n\x03...";

    for (uint32_t i = 0; i < CALLS; i++)
        assert_int_equal(start(w, NULL, 1), 0);
    sent(w);
    for (uint32_t i = 0; i < CALLS; i++) {
        uint32_t k = i * 77 % CALLS;

        snprintf(value + 5, 4, "%03u", k);
        headers(w, 5, 2 * k + 1, value, 8);
        assert_int_equal(receive(w), 0);
    }
    for (uint32_t k = 0; k < CALLS; k++) {
        char line[50];

        snprintf(line, sizeof(line), ":status=200;n=%03u;", k);
        assert_string_equal(text(&w->call[k].text), line);
        assert_true(w->call[k].whole);
    }
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_that_is_repeated_means_the_same),
        cmocka_unit_test(a_server_may_want_no_table),
        cmocka_unit_test(a_body_waits_for_window),
        cmocka_unit_test(bodies_take_turns),
        cmocka_unit_test(an_answer_may_come_before_the_request_is_sent),
        cmocka_unit_test(many_requests_are_told_apart),
    };

    return cmocka_run_group_tests_name("h2_client_requests", tests, NULL, NULL);
}
