/* Specification of wire/h2/h2_client, frame by frame: header blocks of answers, answers and
 * connections that break a rule, windows of answers. */
#include "h2_client_frames.h"

static void equal_blocks_mean_the_same_until_the_table_changes(void **state AS_UNUSED)
{
    struct world *w = world_new();
    static const char *const value[] = {"1", "1", "1", "2", "2"};

    for (uint32_t i = 0; i < 5; i++) {
        start(w, NULL, 1);
        sent(w);
        if (i == 0)
            HEADERS(w, 4, 1,
                    "\x88\x40\x01t\x01"
                    "1"); /* enters the field t=1 */
        else if (i == 3)
            HEADERS(w, 4, 7,
                    "\x88\x40\x01t\x01"
                    "2");
        else
            HEADERS(w, 4, 2 * i + 1, "\x88\xbe"); /* the newest entry */
        HEADERS(w, 5, 2 * i + 1, "\xbe");
        assert_int_equal(receive(w), 0);
    }
    for (uint32_t i = 0; i < 5; i++) {
        char line[50];

        snprintf(line, sizeof(line), ":status=200;t=%s;|t=%s;", value[i], value[i]);
        assert_string_equal(text(&w->call[i].text), line);
        assert_true(w->call[i].whole);
    }
    world_free(w);
}

static void a_head_may_come_in_pieces(void **state AS_UNUSED)
{
    struct world *w = world_new();

    start(w, NULL, 0);
    sent(w);
    HEADERS(w, 0x21, 1, "\0\0\0\0\x10\x88\x00\x01"); /* with a priority; END_STREAM */
    frame(w, NGHTTP2_CONTINUATION, 0, 1, "t\x02", 2);
    frame(w, NGHTTP2_CONTINUATION, 4, 1, "xy", 2);
    assert_int_equal(receive(w), 0);
    assert_string_equal(text(&w->call[0].text), ":status=200;t=xy;");
    assert_true(w->call[0].whole);
    start(w, NULL, 0);
    sent(w);
    HEADERS(w, 0, 3, "\x88");
    frame(w, NGHTTP2_PING, 0, 0, "12345678", 8); /* in between: not allowed */
    assert_int_equal(receive(w), AS_EPROTO);
    assert_string_equal(sent(w), "GOAWAY 0 1\n");
    world_free(w);
}

static void padding_is_no_part_of_the_answer(void **state AS_UNUSED)
{
    struct world *w = world_new();

    start(w, NULL, 0);
    sent(w);
    HEADERS(w, 0x0c, 1, "\x03\x88xyz");
    frame(w, NGHTTP2_DATA, 9, 1,
          "\x04"
          "abpppp",
          7);
    assert_int_equal(receive(w), 0);
    assert_string_equal(text(&w->call[0].text), ":status=200;[ab]");
    frame(w, NGHTTP2_DATA, 8, 1,
          "\x07"
          "abpppp",
          7); /* more padding than bytes */
    assert_int_equal(receive(w), AS_EPROTO);
    world_free(w);
}

static void an_answer_of_another_length_is_refused(void **state AS_UNUSED)
{
    for (unsigned n = 0; n < 5; n++) {
        struct world *w = world_new();

        start(w, NULL, 0);
        sent(w);
        HEADERS(w, 4, 1,
                "\x88\x0f\x0d\x01"
                "3"); /* content-length: 3 */
        frame(w, NGHTTP2_DATA, 1, 1, "abcde", n);
        assert_int_equal(receive(w), 0);
        assert_string_equal(sent(w), n == 3 ? "" : "RST_STREAM 1 1\n");
        assert_int_equal(w->call[0].whole, n == 3);
        assert_int_equal(w->call[0].code, n == 3 ? 0 : NGHTTP2_PROTOCOL_ERROR);
        world_free(w);
    }
}

static void malformed_answers_end_the_call_only(void **state AS_UNUSED)
{
    static const struct {
        const char *why, *head, *tail;
        uint8_t head_flags, tail_flags;
    } rows[] = {
        {"no status",
         "\x0f\x10\x01"
         "a",
         NULL, 5, 0},
        {"status after another field",
         "\x0f\x10\x01"
         "a\x88",
         NULL, 5, 0},
        {"two", "\x88\x88", NULL, 5, 0},
        {"of four digits",
         "\x08\x04"
         "2000",
         NULL, 5, 0},
        {"not a number",
         "\x08\x03"
         "abc",
         NULL, 5, 0},
        {"101",
         "\x08\x03"
         "101",
         NULL, 4, 0},
        {"an interim answer that ends",
         "\x08\x03"
         "103",
         NULL, 5, 0},
        {"a pseudo field of requests", "\x88\x82", NULL, 5, 0},
        {"a field of the connection",
         "\x88\x10\x0a"
         "connection\x01"
         "a",
         NULL, 5, 0},
        {"te", "\x88\x10\x02te\x04gzip", NULL, 5, 0},
        {"trailers that do not end", "\x88",
         "\x0f\x10\x01"
         "a",
         4, 4},
        {"trailers with a status", "\x88", "\x88", 4, 5},
        {"two lengths",
         "\x88\x0f\x0d\x01"
         "0\x0f\x0d\x01"
         "0",
         NULL, 5, 0},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct world *w = world_new();

        start(w, NULL, 0);
        sent(w);
        headers(w, rows[i].head_flags, 1, rows[i].head, strlen(rows[i].head));
        if (rows[i].tail)
            headers(w, rows[i].tail_flags, 1, rows[i].tail, strlen(rows[i].tail));
        if (receive(w) || strcmp(sent(w), "RST_STREAM 1 1\n") != 0 || w->call[0].whole ||
            w->call[0].code != NGHTTP2_PROTOCOL_ERROR)
            fail_msg("%s", rows[i].why);
        start(w, NULL, 0);
        sent(w);
        HEADERS(w, 5, 3, "\x88"); /* the next one is not touched by it */
        assert_int_equal(receive(w), 0);
        assert_true(w->call[1].whole);
        world_free(w);
    }
}

static void a_field_that_is_not_valid_is_left_out(void **state AS_UNUSED)
{
    struct world *w = world_new();

    for (uint32_t i = 0; i < 3; i++) { /* also when the block comes again */
        start(w, NULL, 0);
        sent(w);
        HEADERS(w, 5, 2 * i + 1,
                "\x88\x10\x01X\x01"
                "a\x10\x01y\x01\x01\x10\x01z\x01"
                "a");
        assert_int_equal(receive(w), 0);
        assert_string_equal(text(&w->call[i].text), ":status=200;z=a;");
    }
    world_free(w);
}

static void data_before_the_head_is_refused(void **state AS_UNUSED)
{
    struct world *w = world_new();

    start(w, NULL, 0);
    sent(w);
    frame(w, NGHTTP2_DATA, 0, 1, "ab", 2);
    HEADERS(w, 5, 1, "\x88"); /* too late */
    assert_int_equal(receive(w), 0);
    assert_string_equal(sent(w), "RST_STREAM 1 1\n");
    assert_int_equal(w->call[0].text.n, 0);
    assert_false(w->call[0].whole);
    world_free(w);
}

static void received_data_gives_window_back(void **state AS_UNUSED)
{
    static const char bytes[16384];
    struct world *w = world_new();

    start(w, NULL, 0);
    sent(w);
    HEADERS(w, 4, 1, "\x88");
    frame(w, NGHTTP2_DATA, 0, 1, bytes, sizeof(bytes));
    receive(w);
    assert_string_equal(sent(w), "");
    frame(w, NGHTTP2_DATA, 0, 1, bytes, sizeof(bytes));
    receive(w);
    assert_string_equal(sent(w), "WINDOW_UPDATE 1 32768\n");
    for (int i = 0; i < 5; i++) {
        frame(w, NGHTTP2_DATA, 0, 1, bytes, sizeof(bytes));
        frame(w, NGHTTP2_DATA, 0, 1, bytes, sizeof(bytes));
        receive(w);
        assert_string_equal(sent(w), "WINDOW_UPDATE 1 32768\n");
    }
    for (int i = 0; i < 20; i++) /* a stream that is no more: its bytes count for the connection */
        frame(w, NGHTTP2_DATA, 0, 1, bytes, sizeof(bytes));
    as_h2_client_reset(w->h, 1, NGHTTP2_CANCEL);
    assert_string_equal(sent(w), "RST_STREAM 1 8\n");
    receive(w);
    assert_string_equal(sent(w), "WINDOW_UPDATE 0 524288\n");
    world_free(w);
}

static void errors_of_the_connection_end_it(void **state AS_UNUSED)
{
    static const struct {
        const char *why;
        uint8_t type, flags;
        uint32_t id;
        const char *p;
        size_t n;
        uint32_t code;
    } rows[] = {
        {"DATA on 0", NGHTTP2_DATA, 0, 0, "a", 1, NGHTTP2_PROTOCOL_ERROR},
        {"DATA on a stream that was not opened", NGHTTP2_DATA, 0, 9, "a", 1,
         NGHTTP2_PROTOCOL_ERROR},
        {"of the server", NGHTTP2_HEADERS, 5, 2, "\x88", 1, NGHTTP2_PROTOCOL_ERROR},
        {"a broken block", NGHTTP2_HEADERS, 5, 1, "\xff", 1, NGHTTP2_COMPRESSION_ERROR},
        {"RST_STREAM of 3 bytes", NGHTTP2_RST_STREAM, 0, 1, "abc", 3, NGHTTP2_FRAME_SIZE_ERROR},
        {"RST_STREAM on 0", NGHTTP2_RST_STREAM, 0, 0, "abcd", 4, NGHTTP2_PROTOCOL_ERROR},
        {"SETTINGS of 5 bytes", NGHTTP2_SETTINGS, 0, 0, "abcde", 5, NGHTTP2_FRAME_SIZE_ERROR},
        {"SETTINGS on a stream", NGHTTP2_SETTINGS, 0, 1, "", 0, NGHTTP2_PROTOCOL_ERROR},
        {"push", NGHTTP2_SETTINGS, 0, 0, "\0\2\0\0\0\1", 6, NGHTTP2_PROTOCOL_ERROR},
        {"a window above 2^31-1", NGHTTP2_SETTINGS, 0, 0, "\0\4\x80\0\0\0", 6,
         NGHTTP2_FLOW_CONTROL_ERROR},
        {"frames below 16 KiB", NGHTTP2_SETTINGS, 0, 0, "\0\5\0\0\0\1", 6, NGHTTP2_PROTOCOL_ERROR},
        {"PING of 7 bytes", NGHTTP2_PING, 0, 0, "abcdefg", 7, NGHTTP2_FRAME_SIZE_ERROR},
        {"PING on a stream", NGHTTP2_PING, 0, 1, "abcdefgh", 8, NGHTTP2_PROTOCOL_ERROR},
        {"GOAWAY of 7 bytes", NGHTTP2_GOAWAY, 0, 0, "abcdefg", 7, NGHTTP2_FRAME_SIZE_ERROR},
        {"an increment of 0", NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4, NGHTTP2_PROTOCOL_ERROR},
        {"too large a window", NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4,
         NGHTTP2_FLOW_CONTROL_ERROR},
        {"CONTINUATION alone", NGHTTP2_CONTINUATION, 4, 1, "\x88", 1, NGHTTP2_PROTOCOL_ERROR},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct world *w = world_new();
        char line[50];

        start(w, NULL, 0);
        sent(w);
        frame(w, rows[i].type, rows[i].flags, rows[i].id, rows[i].p, rows[i].n);
        snprintf(line, sizeof(line), "GOAWAY 0 %u\n", rows[i].code);
        if (receive(w) != AS_EPROTO || !strstr(sent(w), line) || as_h2_client_usable(w->h))
            fail_msg("%s", rows[i].why);
        assert_true(as_h2_client_done(w->h));
        world_free(w);
    }
}

static void a_stream_with_a_wrong_window_is_reset(void **state AS_UNUSED)
{
    struct world *w = world_new();

    start(w, NULL, 0);
    start(w, NULL, 0);
    sent(w);
    window(w, 1, 0);
    window(w, 3, 0x7fffffff);
    assert_int_equal(receive(w), 0);
    assert_string_equal(sent(w), "RST_STREAM 1 1\nRST_STREAM 3 3\n");
    world_free(w);
}

static void pings_are_answered(void **state AS_UNUSED)
{
    struct world *w = world_new();

    frame(w, NGHTTP2_PING, 0, 0, "12345678", 8);
    frame(w, NGHTTP2_PING, 1, 0, "12345678", 8);
    frame(w, NGHTTP2_PRIORITY, 0, 1, "abcde", 5);
    frame(w, 0xbe, 0xff, 1, "unknown", 7); /* skipped */
    assert_int_equal(receive(w), 0);
    assert_true(as_h2_client_wants_write(w->h));
    assert_string_equal(sent(w), "PING 0 end\n");
    assert_false(as_h2_client_wants_write(w->h));
    for (int i = 0; i < 10000; i++) /* a server that reads no answers */
        frame(w, NGHTTP2_PING, 0, 0, "12345678", 8);
    assert_int_equal(receive(w), AS_EPROTO);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_blocks_mean_the_same_until_the_table_changes),
        cmocka_unit_test(a_head_may_come_in_pieces),
        cmocka_unit_test(padding_is_no_part_of_the_answer),
        cmocka_unit_test(an_answer_of_another_length_is_refused),
        cmocka_unit_test(malformed_answers_end_the_call_only),
        cmocka_unit_test(a_field_that_is_not_valid_is_left_out),
        cmocka_unit_test(data_before_the_head_is_refused),
        cmocka_unit_test(received_data_gives_window_back),
        cmocka_unit_test(errors_of_the_connection_end_it),
        cmocka_unit_test(a_stream_with_a_wrong_window_is_reset),
        cmocka_unit_test(pings_are_answered),
    };

    return cmocka_run_group_tests_name("h2_client_answers", tests, NULL, NULL);
}
