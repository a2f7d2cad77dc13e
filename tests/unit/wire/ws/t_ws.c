/* Specification of wire/ws/ws: messages, control frames, limits, and what ends a websocket. */
#include "wire/ws/ws.h"

#include "ws_case.h"

#include "base/err.h"
#include "unit.h"

#define TEXT  0x81
#define BIN   0x82
#define CLOSE 0x88
#define PING  0x89
#define PONG  0x8a

static const struct as_ws_conf conf = {.max_message = 1000, .max_fragments = 4};

/* The client says these bytes, in pieces of `step`; what the owner has seen is `want`. What was
 * sent is in c->sent. */
static void talk(struct ws_case *c, const struct as_buf *in, size_t step, const char *want)
{
    assert_int_equal(ws_open(c, &conf, NULL), 0);
    for (size_t at = 0; at < in->n; at += step) {
        size_t n = AS_MIN(step, in->n - at);

        assert_int_equal(as_ws_recv(c->w, in->p + at, n), n);
    }
    assert_string_equal(as_buf_cstr(&c->seen), want);
}

static void check_bytes(struct ws_case *c, struct as_buf *in, const char *seen, const char *sent,
                        size_t n_sent)
{
    static const size_t steps[] = {1, 2, 3, 7, 100000};

    for (size_t i = 0; i < AS_COUNT(steps); i++) {
        talk(c, in, steps[i], seen);
        assert_int_equal(c->sent.n, n_sent);
        if (n_sent)
            assert_memory_equal(c->sent.p, sent, n_sent);
        ws_close(c);
        *c = (struct ws_case){0};
    }
    as_buf_fini(in);
    *in = (struct as_buf){0};
}

#define CHECK(in, seen, sent) check_bytes(&c, in, seen, sent, sizeof(sent) - 1)

static void whole_messages(void **state AS_UNUSED)
{
    struct ws_case c = {0};
    struct as_buf in = {0};
    uint8_t large[1000];

    memset(large, 'x', sizeof(large));
    ws_frame(&in, TEXT, "hello", 5);
    ws_frame(&in, BIN, "\xff\x00\x80", 3);
    ws_frame(&in, TEXT, "", 0);
    ws_frame(&in, BIN, "", 0);
    ws_frame(&in, TEXT, large, 125);
    ws_frame(&in, TEXT, large, 126);
    ws_frame(&in, BIN, large, 1000);
    talk(&c, &in, 5, "T(hello)B(\xff");
    assert_memory_equal(c.seen.p, "T(hello)B(\xff\x00\x80)T()B()T(125)T(126)B(1000)", 39);
    ws_close(&c);
    as_buf_fini(&in);
}

static void fragments_are_put_together(void **state AS_UNUSED)
{
    struct ws_case c = {0};
    struct as_buf in = {0};

    ws_frame(&in, 0x01, "one ", 4);
    ws_frame(&in, PING, "p", 1); /* control frames come in between */
    ws_frame(&in, 0x00, "", 0);
    ws_frame(&in, 0x00, "two \xe2", 5); /* a character may be cut */
    ws_frame(&in, 0x80, "\x82\xac", 2);
    ws_frame(&in, 0x02, "", 0);
    ws_frame(&in, 0x80, "", 0);
    CHECK(&in, "T(one two \xe2\x82\xac)B()", "\x8a\x01p");
}

static void pings_are_answered_and_pongs_ignored(void **state AS_UNUSED)
{
    struct ws_case c = {0};
    struct as_buf in = {0};
    char sent[2 + 125] = "\x8a\x7d";
    uint8_t p[126];

    memset(p, 'p', sizeof(p));
    memset(sent + 2, 'p', 125);
    ws_frame(&in, PING, p, 125);
    check_bytes(&c, &in, "", sent, sizeof(sent));
    ws_frame(&in, PING, "", 0);
    ws_frame(&in, PONG, "abc", 3);
    CHECK(&in, "", "\x8a\x00");
    ws_frame(&in, PING, p, 126);
    CHECK(&in, "F(1002 the head of a frame is malformed)",
          "\x88\x22\x03\xea"
          "the head of a frame is malformed");
}

static void a_close_is_answered(void **state AS_UNUSED)
{
    struct ws_case c = {0};
    struct as_buf in = {0};

    ws_frame(&in, CLOSE,
             "\x03\xe8"
             "bye",
             5);
    ws_frame(&in, TEXT, "late", 4);
    CHECK(&in, "C(1000 bye)", "\x88\x02\x03\xe8");
    ws_frame(&in, CLOSE, "", 0);
    CHECK(&in, "C(1005 )", "\x88\x00");
    ws_frame(&in, 0x01, "half", 4);
    ws_frame(&in, CLOSE, "\x0f\xa0", 2);
    CHECK(&in, "C(4000 )", "\x88\x02\x0f\xa0");
}

static void codes_that_may_not_be_sent(void **state AS_UNUSED)
{
    static const uint16_t bad[] = {0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535};
    static const uint16_t good[] = {1000, 1003, 1007, 1014, 3000, 4999};
    char want[64];

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        uint8_t p[2] = {(uint8_t)(bad[i] >> 8), (uint8_t)bad[i]};
        struct ws_case c = {0};
        struct as_buf in = {0};

        assert_false(as_ws_is_close_code(bad[i]));
        ws_frame(&in, CLOSE, p, 2);
        talk(&c, &in, 100, "F(1002 a close code that may not be sent)");
        assert_true(as_ws_is_closed(c.w));
        ws_close(&c);
        as_buf_fini(&in);
    }
    for (size_t i = 0; i < AS_COUNT(good); i++) {
        uint8_t p[2] = {(uint8_t)(good[i] >> 8), (uint8_t)good[i]};
        struct ws_case c = {0};
        struct as_buf in = {0};

        assert_true(as_ws_is_close_code(good[i]));
        ws_frame(&in, CLOSE, p, 2);
        snprintf(want, sizeof(want), "C(%u )", good[i]);
        talk(&c, &in, 100, want);
        ws_close(&c);
        as_buf_fini(&in);
    }
}

static void malformed_closes(void **state AS_UNUSED)
{
    struct ws_case c = {0};
    struct as_buf in = {0};

    ws_frame(&in, CLOSE, "x", 1);
    CHECK(&in, "F(1002 a close of one byte)",
          "\x88\x15\x03\xea"
          "a close of one byte");
    ws_frame(&in, CLOSE, "\x03\xe8\xff", 3);
    CHECK(&in, "F(1007 the reason of a close is not UTF-8)",
          "\x88\x24\x03\xef"
          "the reason of a close is not UTF-8");
}

/* Each of these alone, and behind a good message; nothing that follows is read. */
static void frames_that_break_a_rule(void **state AS_UNUSED)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *fault;
    } rows[] = {
#define ROW(bytes, fault) {bytes, sizeof(bytes) - 1, fault}
        ROW("\x81\x02hi", "F(1002 a frame without a mask)"),
        ROW("\x89\x00", "F(1002 a frame without a mask)"),
        ROW("\xc1\x80mask", "F(1002 a frame with a reserved bit)"),
        ROW("\xa1\x80mask", "F(1002 a frame with a reserved bit)"),
        ROW("\x91\x80mask", "F(1002 a frame with a reserved bit)"),
        ROW("\x83\x80mask", "F(1002 a frame with a reserved opcode)"),
        ROW("\x87\x80mask", "F(1002 a frame with a reserved opcode)"),
        ROW("\x8b\x80mask", "F(1002 a frame with a reserved opcode)"),
        ROW("\x8f\x80mask", "F(1002 a frame with a reserved opcode)"),
        ROW("\x09\x80", "F(1002 the head of a frame is malformed)"),
        ROW("\x08\x80", "F(1002 the head of a frame is malformed)"),
        ROW("\x89\xfe", "F(1002 the head of a frame is malformed)"),
        ROW("\x80\x80mask", "F(1002 a continuation without a message)"),
        ROW("\x00\x80mask", "F(1002 a continuation without a message)"),
        ROW("\x01\x80mask\x81\x80mask", "F(1002 a message inside another one)"),
        ROW("\x81\xfe\x00\x7dmask", "F(1002 the head of a frame is malformed)"),
        ROW("\x81\xff\x00\x00\x00\x00\x00\x00\xff\xffmask",
            "F(1002 the head of a frame is malformed)"),
        ROW("\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00mask",
            "F(1002 the head of a frame is malformed)"),
        ROW("\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xffmask1", "F(1009 a message that is too big)"),
        ROW("\x81\xfe\x03\xe9mask1", "F(1009 a message that is too big)"),
        ROW("\x81\x81\x00\x00\x00\x00\xff", "F(1007 a text is not UTF-8)"),
        ROW("\x81\x82\x00\x00\x00\x00\xc0\x80", "F(1007 a text is not UTF-8)"),
        ROW("\x81\x83\x00\x00\x00\x00\xed\xa0\x80", "F(1007 a text is not UTF-8)"),
        ROW("\x81\x8a\x00\x00\x00\x00"
            "12345678\xe2\x82",
            "F(1007 a text is not UTF-8)"),
#undef ROW
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        for (int behind = 0; behind < 2; behind++) {
            struct ws_case c = {0};
            struct as_buf in = {0}, want = {0};

            if (behind)
                ws_frame(&in, BIN, "ok", 2);
            as_buf_add(&in, rows[i].bytes, rows[i].n);
            as_buf_printf(&want, "%s%s", behind ? "B(ok)" : "", rows[i].fault);
            talk(&c, &in, 1, as_buf_cstr(&want));
            assert_true(as_ws_is_closed(c.w));
            assert_int_equal(c.sent.p[0], CLOSE);
            in.n = 0;
            ws_frame(&in, TEXT, "more", 4);
            assert_int_equal(as_ws_recv(c.w, in.p, in.n), in.n);
            assert_string_equal(as_buf_cstr(&c.seen), as_buf_cstr(&want));
            ws_close(&c);
            as_buf_fini(&in);
            as_buf_fini(&want);
        }
    }
}

static void limits_at_n_and_one_more(void **state AS_UNUSED)
{
    struct ws_case c = {0};
    struct as_buf in = {0};
    uint8_t p[1001];

    memset(p, 'x', sizeof(p));
    ws_frame(&in, 0x01, p, 500);
    ws_frame(&in, 0x80, p, 500);
    ws_frame(&in, 0x02, p, 1);
    ws_frame(&in, 0x00, p, 1);
    ws_frame(&in, 0x00, p, 1);
    ws_frame(&in, 0x80, p, 1);
    CHECK(&in, "T(1000)B(xxxx)", "");
    ws_frame(&in, 0x01, p, 500);
    ws_frame(&in, 0x80, p, 501);
    talk(&c, &in, 100, "F(1009 a message that is too big)");
    ws_close(&c);
    in.n = 0;
    c = (struct ws_case){0};
    for (int i = 0; i < 5; i++)
        ws_frame(&in, i ? 0x00 : 0x01, p, 0);
    talk(&c, &in, 100, "F(1009 a message of too many fragments)");
    ws_close(&c);
    as_buf_fini(&in);
}

static void the_server_closes_first(void **state AS_UNUSED)
{
    struct ws_case c = {0};
    struct as_buf in = {0};

    assert_int_equal(ws_open(&c, &conf, NULL), 0);
    ws_frame(&in, 0x01, "half", 4);
    as_ws_recv(c.w, in.p, in.n);
    as_ws_close(c.w, 1012, AS_STR("again"));
    as_ws_close(c.w, 1000, AS_STR("not sent"));
    assert_int_equal(c.sent.n, 9);
    assert_memory_equal(c.sent.p,
                        "\x88\x07\x03\xf4"
                        "again",
                        9);
    assert_true(as_ws_is_closing(c.w));
    assert_false(as_ws_is_closed(c.w));
    in.n = 0;
    ws_frame(&in, 0x80, "other half", 10); /* messages are dropped, pings are not answered */
    ws_frame(&in, TEXT, "x", 1);
    ws_frame(&in, PING, "x", 1);
    ws_frame(&in, CLOSE, "\x03\xf4", 2);
    as_ws_pause(c.w, true); /* has no effect any more */
    assert_int_equal(as_ws_recv(c.w, in.p, in.n), in.n);
    assert_true(as_ws_is_closed(c.w));
    assert_int_equal(c.seen.n, 0);
    assert_int_equal(c.sent.n, 9);
    ws_close(&c);
    as_buf_fini(&in);
}

static void what_the_server_may_close_with(void **state AS_UNUSED)
{
    static const struct {
        uint32_t code;
        const char *sent;
        size_t n;
    } rows[] = {{1000, "\x88\x02\x03\xe8", 4},
                {4999, "\x88\x02\x13\x87", 4},
                {AS_WS_NO_CODE, "\x88\x00", 2},
                {AS_WS_ABNORMAL, "\x88\x02\x03\xf3", 4},
                {70000, "\x88\x02\x03\xf3", 4}};
    struct ws_case c = {0};
    char reason[200];

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        assert_int_equal(ws_open(&c, &conf, NULL), 0);
        as_ws_close(c.w, rows[i].code, (struct as_str){0});
        assert_int_equal(c.sent.n, rows[i].n);
        assert_memory_equal(c.sent.p, rows[i].sent, rows[i].n);
        ws_close(&c);
        c = (struct ws_case){0};
    }
    for (size_t i = 0; i < sizeof(reason); i += 2)
        memcpy(reason + i, "\xc3\xa9", 2);
    assert_int_equal(ws_open(&c, &conf, NULL), 0);
    as_ws_close(c.w, 1000, (struct as_str){reason, sizeof(reason)});
    assert_int_equal(c.sent.n, 2 + 2 + 122); /* 123 would cut a character */
    ws_close(&c);
}

static void a_pause_keeps_messages_back(void **state AS_UNUSED)
{
    struct ws_case c = {.pause_after = 2};
    struct as_buf in = {0};
    size_t taken;

    assert_int_equal(ws_open(&c, &conf, NULL), 0);
    ws_frame(&in, TEXT, "a", 1);
    ws_frame(&in, TEXT, "b", 1);
    ws_frame(&in, TEXT, "", 0);
    ws_frame(&in, TEXT, "c", 1);
    taken = as_ws_recv(c.w, in.p, in.n);
    assert_int_equal(taken, 14);
    assert_int_equal(as_ws_recv(c.w, in.p + taken, in.n - taken), 0);
    as_ws_pause(c.w, false);
    assert_int_equal(as_ws_recv(c.w, in.p + taken, in.n - taken), in.n - taken);
    assert_string_equal(as_buf_cstr(&c.seen), "T(a)T(b)T()T(c)");
    ws_close(&c);
    as_buf_fini(&in);
}

/* Whatever the heads look like: the bytes behind a message that pauses are left to the caller. */
static void a_pause_takes_nothing_of_what_follows(void **state AS_UNUSED)
{
    static const size_t sizes[] = {0, 1, 0, 125, 126, 4095, 4096, 4097, 65535, 65536, 2, 100000};
    const struct as_ws_conf big = {.max_message = 100000, .max_fragments = 1};
    size_t at = 0, ends[AS_COUNT(sizes)];
    struct ws_case c = {0};
    struct as_buf in = {0};
    uint8_t *p = calloc(1, 100000);

    assert_int_equal(ws_open(&c, &big, NULL), 0);
    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        ws_frame(&in, BIN, p, sizes[i]);
        ends[i] = in.n;
        ws_frame(&in, PING, "x", 1); /* is read with the next message */
    }
    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        c.pause_after = (unsigned)i + 1;
        at += as_ws_recv(c.w, in.p + at, in.n - at);
        assert_int_equal(at, ends[i]);
        assert_int_equal(c.sent.n, 3 * i);
        assert_int_equal(as_ws_recv(c.w, in.p + at, in.n - at), 0);
        as_ws_pause(c.w, false);
    }
    assert_int_equal(as_ws_recv(c.w, in.p + at, in.n - at), in.n - at);
    assert_int_equal(c.n_messages, AS_COUNT(sizes));
    ws_close(&c);
    as_buf_fini(&in);
    free(p);
}

static void a_ping_of_the_server(void **state AS_UNUSED)
{
    struct ws_case c = {0};

    assert_int_equal(ws_open(&c, &conf, NULL), 0);
    as_ws_ping(c.w);
    assert_int_equal(c.sent.n, 2);
    assert_memory_equal(c.sent.p, "\x89\x00", 2);
    as_ws_close(c.w, 1000, (struct as_str){0});
    as_ws_ping(c.w);
    assert_int_equal(c.sent.n, 6);
    ws_close(&c);
}

static void heads_of_messages_to_the_client(void **state AS_UNUSED)
{
    static const struct {
        uint64_t n;
        const char *head;
        size_t size;
    } rows[] = {{0, "\x82\x00", 2},
                {125, "\x82\x7d", 2},
                {126, "\x82\x7e\x00\x7e", 4},
                {65535, "\x82\x7e\xff\xff", 4},
                {65536, "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 10}};
    uint8_t head[AS_WS_HEAD];

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        assert_int_equal(as_ws_put_head(head, AS_WS_BINARY, rows[i].n), rows[i].size);
        assert_memory_equal(head, rows[i].head, rows[i].size);
    }
}

/* What a client announces takes no memory; what it sends is charged; without room it ends. */
static void memory_is_charged(void **state AS_UNUSED)
{
    const struct as_ws_conf big = {.max_message = 64u << 20, .max_fragments = 10};
    struct as_budget budget = {.limit = 3u << 20, .share = 100};
    struct as_account *account;
    struct ws_case c = {0};
    struct as_buf in = {0};
    uint8_t *p = calloc(1, 1u << 20);

    account = as_account_new(&budget);
    assert_int_equal(ws_open(&c, &big, account), 0);
    assert_int_equal(as_ws_recv(c.w, (const uint8_t *)"\x82\xff\0\0\0\0\2\0\0\0mask", 14), 14);
    assert_int_equal(as_budget_used(&budget), 0);
    assert_int_equal(as_ws_recv(c.w, p, 1000), 1000);
    assert_true(as_budget_used(&budget) >= 1000);
    assert_true(as_budget_used(&budget) <= AS_BLOB_FIRST);
    for (int i = 0; i < 4; i++)
        as_ws_recv(c.w, p, 1u << 20);
    assert_string_equal(as_buf_cstr(&c.seen), "F(1013 there is no room for the message)");
    assert_int_equal(as_budget_used(&budget), 0);
    ws_close(&c);
    as_account_unref(account);
    as_buf_fini(&in);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_messages),
        cmocka_unit_test(fragments_are_put_together),
        cmocka_unit_test(pings_are_answered_and_pongs_ignored),
        cmocka_unit_test(a_close_is_answered),
        cmocka_unit_test(codes_that_may_not_be_sent),
        cmocka_unit_test(malformed_closes),
        cmocka_unit_test(frames_that_break_a_rule),
        cmocka_unit_test(limits_at_n_and_one_more),
        cmocka_unit_test(the_server_closes_first),
        cmocka_unit_test(what_the_server_may_close_with),
        cmocka_unit_test(a_pause_keeps_messages_back),
        cmocka_unit_test(a_pause_takes_nothing_of_what_follows),
        cmocka_unit_test(a_ping_of_the_server),
        cmocka_unit_test(heads_of_messages_to_the_client),
        cmocka_unit_test(memory_is_charged),
    };

    return cmocka_run_group_tests_name("ws", tests, NULL, NULL);
}
