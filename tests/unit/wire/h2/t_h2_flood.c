/* Specification of wire/h2/h2: floods, and other behaviour that costs the server more than the
 * client.
 */
#include "h2_raw.h"

/* ---- what costs us more than the client: N are borne, one more ends it with a GOAWAY ---- */

#define CALM "G:11 " /* ENHANCE_YOUR_CALM */

static void check_over(struct pair *t, enum as_h2_breach breach)
{
    assert_string_equal(sent(t), CALM);
    assert_int_equal(t->recv_rc, AS_EPROTO);
    assert_int_equal(t->send_rc, AS_EPROTO);
    assert_int_equal(as_h2_breach(t->h), breach);
    pair_free(t);
}

static void test_pings_come_too_often(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    for (unsigned i = 0; i < 3; i++) { /* the first does not count, two may come early */
        raw(t, NGHTTP2_PING, 0, 0, "12345678", 8);
        assert_int_equal(t->recv_rc, 0);
    }
    raw(t, NGHTTP2_PING, 0, 0, "12345678", 8);
    check_over(t, AS_H2_PINGS);
}

static void test_an_answer_allows_a_ping(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    for (uint32_t id = 1; id < 41; id += 2) {
        raw_request(t, id, NGHTTP2_FLAG_END_STREAM, "te", "trailers");
        pair_answer(t, id, NULL, 0, true);
        sent(t);
        raw(t, NGHTTP2_PING, 0, 0, "12345678", 8);
        assert_int_equal(t->recv_rc, 0);
    }
    pair_free(t);
}

/* The distance between pings depends on whether a call is open where the ping stands. */
static void test_pings_during_a_call_keep_a_shorter_distance(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    raw_request(t, 1, 0, "te", "trailers");
    for (unsigned i = 0; i < 10; i++, t->now += 300 * AS_SEC)
        raw(t, NGHTTP2_PING, 0, 0, "12345678", 8);
    assert_int_equal(t->recv_rc, 0);
    raw(t, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x8", 4);
    for (unsigned i = 0; i < 2; i++, t->now += 300 * AS_SEC)
        raw(t, NGHTTP2_PING, 0, 0, "12345678", 8);
    assert_int_equal(t->recv_rc, 0);
    raw(t, NGHTTP2_PING, 0, 0, "12345678", 8);
    check_over(t, AS_H2_PINGS);
}

static void test_cancelled_streams_are_limited(void **state)
{
    struct pair *t = pair_greeted();
    uint32_t stream = 1;

    (void)state;
    for (unsigned i = 0; i < 50; i++, stream += 2) {
        raw_request(t, stream, 0, "te", "trailers");
        raw(t, NGHTTP2_RST_STREAM, 0, stream, "\0\0\0\x8", 4);
        sent(t);
        assert_int_equal(t->send_rc, 0);
    }
    t->now += AS_SEC / 10; /* time gives one back */
    raw_request(t, stream, 0, "te", "trailers");
    raw(t, NGHTTP2_RST_STREAM, 0, stream, "\0\0\0\x8", 4);
    stream += 2;
    raw_request(t, stream, NGHTTP2_FLAG_END_STREAM, "te", "trailers");
    pair_answer(t, stream, NULL, 0, true); /* and so does a call that ends normally */
    sent(t);
    stream += 2;
    raw_request(t, stream, 0, "te", "trailers");
    raw(t, NGHTTP2_RST_STREAM, 0, stream, "\0\0\0\x8", 4);
    assert_int_equal(t->recv_rc, 0);
    stream += 2;
    raw_request(t, stream, 0, "te", "trailers");
    raw(t, NGHTTP2_RST_STREAM, 0, stream, "\0\0\0\x8", 4);
    assert_int_equal(t->n_req, 54);
    check_over(t, AS_H2_RESETS);
}

/* As from clients whose deadlines expire while nothing is answered. */
static void test_a_reset_after_long_does_not_count(void **state)
{
    static const as_ns ages[] = {AS_SEC, AS_SEC - 1};

    (void)state;
    for (size_t k = 0; k < AS_COUNT(ages); k++) {
        struct pair *t = pair_greeted();
        uint32_t stream = 1;

        for (unsigned i = 0; i < 4 && t->recv_rc == 0; i++, stream += 100) {
            for (uint32_t j = 0; j < 50; j++)
                raw_request(t, stream + 2 * j, NGHTTP2_FLAG_END_STREAM, "te", "trailers");
            t->now += ages[k];
            for (uint32_t j = 0; j < 50 && t->recv_rc == 0; j++)
                raw(t, NGHTTP2_RST_STREAM, 0, stream + 2 * j, "\0\0\0\x8", 4);
            if (t->recv_rc == 0)
                sent(t);
        }
        if (k == 0) {
            assert_int_equal(t->recv_rc, 0);
            pair_free(t);
        } else {
            check_over(t, AS_H2_RESETS);
        }
    }
}

/* A call that is cancelled with NO_ERROR has not ended normally. */
static void test_a_reset_without_error_is_a_reset(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    for (uint32_t i = 0; i < 51; i++) {
        assert_int_equal(t->recv_rc, 0);
        raw_request(t, 2 * i + 1, NGHTTP2_FLAG_END_STREAM, "te", "trailers");
        raw(t, NGHTTP2_RST_STREAM, 0, 2 * i + 1, "\0\0\0\0", 4);
        if (i < 50)
            sent(t);
    }
    check_over(t, AS_H2_RESETS);
}

/* MadeYouReset: ways to make the server reset a stream whose request it has begun. */
static void fault_malformed(struct pair *t, uint32_t stream)
{
    raw_request(t, stream, NGHTTP2_FLAG_END_STREAM, "te", "gzip");
}

static void fault_window_overflow(struct pair *t, uint32_t stream)
{
    raw_request(t, stream, NGHTTP2_FLAG_END_STREAM, "te", "trailers");
    raw(t, NGHTTP2_WINDOW_UPDATE, 0, stream, "\x7f\xff\xff\xff", 4);
}

static void fault_length(struct pair *t, uint32_t stream)
{
    raw_request(t, stream, 0, "content-length", "3");
    raw(t, NGHTTP2_DATA, 0, stream, "1234", 4);
}

static void test_streams_that_go_wrong_are_limited(void **state)
{
    static void (*const faults[])(struct pair *, uint32_t) = {fault_malformed,
                                                              fault_window_overflow, fault_length};
    struct as_h2_conf conf = pair_conf;

    (void)state;
    conf.limits.window.burst = 0; /* so that overflows count as faults only */
    for (size_t i = 0; i < AS_COUNT(faults); i++) {
        struct pair *t = pair_new_with(&conf, 65535, 16384);
        char want[32];

        t->mode = PAIR_HOLD;
        pair_pump(t);
        for (uint32_t k = 0; k < 20; k++) {
            snprintf(want, sizeof(want), "R%u:", 2 * k + 1);
            faults[i](t, 2 * k + 1);
            assert_memory_equal(sent(t), want, strlen(want));
            assert_int_equal(t->send_rc, 0);
        }
        t->now += AS_SEC / 10;
        faults[i](t, 41);
        sent(t);
        assert_int_equal(t->send_rc, 0);
        faults[i](t, 43);
        assert_non_null(strstr(sent(t), CALM));
        assert_int_equal(t->send_rc, AS_EPROTO);
        assert_int_equal(as_h2_breach(t->h), AS_H2_FAULTS);
        pair_free(t);
    }
}

/* Complete requests of one frame each, all in one read: those after the breach are not started. */
static void test_no_request_starts_after_a_breach(void **state)
{
    struct pair *t = pair_greeted();
    static const uint8_t ping[17] = {[2] = 8, [3] = NGHTTP2_PING};
    struct as_buf all = {0};
    static uint8_t head[9] = {[2] = 6, [3] = NGHTTP2_HEADERS, [4] = 5, [8] = 1};

    (void)state;
    for (int i = 0; i < 4; i++)
        as_buf_add(&all, ping, sizeof(ping));
    as_buf_add(&all, head, 9);
    as_buf_add(&all, "\x82\x86\x84\x41\x01h", 6); /* GET, http, /, h */
    pair_feed(t, all.p, all.n);
    as_buf_fini(&all);
    assert_int_equal(t->n_req, 0);
    check_over(t, AS_H2_PINGS);
}

static void test_control_frames_are_limited(void **state)
{
    static const struct {
        uint8_t type;
        const char *payload;
        size_t n;
        enum as_h2_breach breach;
    } rows[] = {{NGHTTP2_SETTINGS, "", 0, AS_H2_SETTINGS},
                {NGHTTP2_PRIORITY, "\0\0\0\x3\x5", 5, AS_H2_PRIORITIES},
                {0x77, "what", 4, AS_H2_CONTROL}};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct pair *t = pair_greeted();
        bool stream = rows[i].type == NGHTTP2_PRIORITY;

        for (unsigned k = 0; k < 98; k++) { /* 100, less SETTINGS and the answer to ours */
            raw(t, rows[i].type, 0, stream, rows[i].payload, rows[i].n);
            sent(t);
            assert_int_equal(t->recv_rc, 0);
        }
        raw(t, rows[i].type, 0, stream, rows[i].payload, rows[i].n);
        check_over(t, rows[i].breach);
    }
}

static void test_window_updates_are_limited(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    for (unsigned i = 0; i < 30; i++) {
        raw(t, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4);
        assert_int_equal(t->recv_rc, 0);
    }
    raw_request(t, 1, NGHTTP2_FLAG_END_STREAM, "te", "trailers");
    pair_answer(t, 1, NULL, 0, true); /* for the two frames of the answer */
    assert_string_equal(sent(t), "H1 H1 ");
    for (unsigned i = 0; i < 2 + 8; i++) { /* for the request, for its answer */
        raw(t, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4);
        assert_int_equal(t->recv_rc, 0);
    }
    raw(t, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4);
    check_over(t, AS_H2_WINDOW);
}

static void test_empty_frames_are_limited(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    raw_request(t, 1, 0, "te", "trailers");
    for (unsigned i = 0; i < 10; i++) {
        raw(t, NGHTTP2_DATA, i % 2 ? NGHTTP2_FLAG_PADDED : 0, 1, "\x3\0\0\0", i % 2 ? 4 : 0);
        assert_int_equal(t->recv_rc, 0);
    }
    raw(t, NGHTTP2_DATA, 0, 1, "", 0);
    check_over(t, AS_H2_EMPTY);
}

static void test_continuations_are_limited(void **state)
{
    (void)state;
    for (unsigned n = 8; n <= 9; n++) {
        struct pair *t = pair_greeted();
        uint8_t block[128];
        size_t k = literal(block, ":method", "POST");

        k += literal(block + k, ":scheme", "http");
        k += literal(block + k, ":path", "/m");
        k += literal(block + k, ":authority", "h");
        raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, block, k);
        for (unsigned i = 1; i <= n; i++) {
            k = literal(block, "x", "y");
            raw(t, NGHTTP2_CONTINUATION, i == n ? NGHTTP2_FLAG_END_HEADERS : 0, 1, block, k);
        }
        assert_int_equal(t->n_req, n == 8);
        if (n == 9) {
            check_over(t, AS_H2_CONTINUATIONS);
            continue;
        }
        assert_int_equal(t->recv_rc, 0);
        pair_free(t);
    }
}

/* One entry of 4000 bytes in the table, and references to it of a byte each. */
static void test_a_block_that_decodes_to_too_much(void **state)
{
    (void)state;
    /* 8192 are allowed, more than 32768 are a breach; :method … count 43 + 43 + 39 */
    for (unsigned refs = 1; refs <= 9; refs++) {
        struct pair *t = pair_greeted();
        static uint8_t frame[9 + 4096];
        uint8_t *p = frame + 9;
        const size_t entry = 4000 - 1 - 32;

        p += literal(p, ":method", "POST");
        p += literal(p, ":scheme", "http");
        p += literal(p, ":path", "/m");
        p += literal(p, ":authority", "h");
        *p++ = 0x40; /* literal with indexing */
        *p++ = 1;
        *p++ = 'x';
        *p++ = 0x7f;
        *p++ = (uint8_t)((entry - 127) | 0x80);
        *p++ = (uint8_t)((entry - 127) >> 7);
        memset(p, 'v', entry);
        p += entry;
        for (unsigned i = 1; i < refs; i++)
            *p++ = 0xbe; /* the newest entry */
        frame[1] = (uint8_t)((size_t)(p - frame - 9) >> 8);
        frame[2] = (uint8_t)(p - frame - 9);
        frame[3] = NGHTTP2_HEADERS;
        frame[4] = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
        frame[8] = 1;
        pair_feed(t, frame, (size_t)(p - frame));
        assert_int_equal(t->n_req, refs <= 2);
        if (refs == 9) {
            check_over(t, AS_H2_HEADERS);
            continue;
        }
        assert_string_equal(sent(t), refs <= 2 ? "" : "H1 "); /* 431 */
        assert_int_equal(t->recv_rc, 0);
        pair_free(t);
    }
}

static void test_an_incomplete_block_has_an_age(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    assert_true(as_h2_got_preface(t->h));
    assert_true(as_h2_header_block_since(t->h) == AS_NEVER);
    t->now = 7;
    raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, "\x83\x86\x84\x41\x01h", 6);
    t->now = 9;
    assert_true(as_h2_header_block_since(t->h) == 7);
    raw(t, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, "", 0);
    assert_true(as_h2_header_block_since(t->h) == AS_NEVER);
    assert_int_equal(t->n_req, 1);
    pair_free(t);
}

static void test_the_owner_ends_the_connection(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    as_h2_enhance_your_calm(t->h, "header_timeout");
    assert_string_equal(sent(t), CALM);
    assert_int_equal(t->send_rc, AS_EPROTO);
    assert_int_equal(as_h2_breach(t->h), AS_H2_NO_BREACH); /* not the client's fault */
    pair_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pings_come_too_often),
        cmocka_unit_test(test_an_answer_allows_a_ping),
        cmocka_unit_test(test_pings_during_a_call_keep_a_shorter_distance),
        cmocka_unit_test(test_cancelled_streams_are_limited),
        cmocka_unit_test(test_a_reset_after_long_does_not_count),
        cmocka_unit_test(test_a_reset_without_error_is_a_reset),
        cmocka_unit_test(test_streams_that_go_wrong_are_limited),
        cmocka_unit_test(test_no_request_starts_after_a_breach),
        cmocka_unit_test(test_control_frames_are_limited),
        cmocka_unit_test(test_window_updates_are_limited),
        cmocka_unit_test(test_empty_frames_are_limited),
        cmocka_unit_test(test_continuations_are_limited),
        cmocka_unit_test(test_a_block_that_decodes_to_too_much),
        cmocka_unit_test(test_an_incomplete_block_has_an_age),
        cmocka_unit_test(test_the_owner_ends_the_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
