/* Specification of wire/h2/h2_guard: every limit at N and N + 1, time, frames that come in pieces.
 */
#include "unit.h"
#include "wire/h2/h2_guard.h"

#include "base/buf.h"

static const struct as_h2_limits limits = {.resets = {5, 10},
                                           .faults = {6, 10},
                                           .control = {7, 10},
                                           .empty = {8, 10},
                                           .window = {9, 10},
                                           .max_continuations = 3,
                                           .max_header_block = 1000,
                                           .ping_interval = 10 * AS_SEC,
                                           .idle_ping_interval = 20 * AS_SEC,
                                           .ping_strikes = 2};

enum { DATA, HEADERS, PRIORITY, RST, SETTINGS, PROMISE, PING, GOAWAY, WINDOW, CONTINUATION };

#define END_STREAM  1
#define END_HEADERS 4
#define PADDED      8

struct wire {
    struct as_h2_guard g;
    as_ns now;
    uint32_t calls;
    size_t slice;  /* bytes per scan; 0: all */
    size_t passed; /* bytes that may be passed on */
    uint16_t n_requests;
};

static void feed(struct wire *w, const uint8_t *p, size_t n)
{
    while (n && !w->g.breach) {
        size_t some = w->slice ? AS_MIN(n, w->slice) : n;
        size_t k = as_h2_guard_scan(&w->g, p, some, w->now, w->calls);

        assert_true(k <= some && (k || w->g.breach || w->g.n_blocks == AS_H2_REQUESTS_PER_RECV));
        if (k < some)
            w->g.n_blocks = 0;
        w->passed += k;
        p += k;
        n -= k;
    }
}

/* Each HEADERS opens a new stream; other frames are of streams that the guard does not know. */
static void frame(struct wire *w, uint8_t type, uint8_t flags, size_t n)
{
    static uint8_t f[9 + 2000];

    memset(f, 0, sizeof(f));
    f[1] = (uint8_t)(n >> 8);
    f[2] = (uint8_t)n;
    f[3] = type;
    f[4] = flags;
    f[5] = type == HEADERS ? 0 : 0x7f;
    f[6] = (uint8_t)(w->n_requests >> 8);
    f[7] = (uint8_t)w->n_requests;
    f[8] = 1;
    w->n_requests = (uint16_t)(w->n_requests + (type == HEADERS));
    feed(w, f, 9 + n);
}

static void start(struct wire *w, size_t slice)
{
    *w = (struct wire){.slice = slice};
    as_h2_guard_init(&w->g, &limits, 0);
    feed(w, (const uint8_t *)"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    assert_false(w->g.got_preface);
}

/* n frames pass, the next one is the breach. */
static void check_limit(uint8_t type, uint8_t flags, size_t len, unsigned n,
                        enum as_h2_breach breach)
{
    for (size_t slice = 0; slice < 12; slice++) {
        struct wire w;

        start(&w, slice);
        for (unsigned i = 0; i < n; i++)
            frame(&w, type, flags, len);
        assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
        assert_int_equal(w.passed, 24 + n * (9 + len));
        frame(&w, type, flags, len);
        assert_int_equal(w.g.breach, breach);
        assert_in_range(w.passed, 24 + n * (9 + len), 24 + (n + 1) * (9 + len) - 1);
    }
}

static void counted_frames(void **state AS_UNUSED)
{
    check_limit(RST, 0, 4, 5, AS_H2_RESETS);
    check_limit(SETTINGS, 0, 6, 7, AS_H2_SETTINGS);
    check_limit(SETTINGS, 1, 0, 7, AS_H2_SETTINGS); /* acknowledgements too */
    check_limit(PRIORITY, 0, 5, 7, AS_H2_PRIORITIES);
    check_limit(16, 0, 5, 7, AS_H2_PRIORITIES);
    check_limit(PING, 1, 8, 7, AS_H2_CONTROL);
    check_limit(GOAWAY, 0, 8, 7, AS_H2_CONTROL);
    check_limit(PROMISE, 0, 4, 7, AS_H2_CONTROL);
    check_limit(200, 0, 0, 7, AS_H2_CONTROL);
    check_limit(WINDOW, 0, 4, 9, AS_H2_WINDOW);
    check_limit(DATA, 0, 0, 8, AS_H2_EMPTY);
    check_limit(HEADERS, 0, 0, 8, AS_H2_EMPTY);
}

/* Each frame is checked by wire/h2/h2_closed_streams; a bad frame is left out. */
static void frames_after_the_end_of_a_stream(void **state AS_UNUSED)
{
    static const uint8_t frames[] = "\0\0\1\1\5\0\0\0\1h"  /* HEADERS with END_STREAM */
                                    "\0\0\1\0\0\0\0\0\1d"; /* DATA */

    for (size_t slice = 0; slice < 12; slice++) {
        struct wire w;

        start(&w, slice);
        feed(&w, frames, sizeof(frames) - 1);
        assert_int_equal(w.g.breach, AS_H2_PROTOCOL);
        assert_int_equal(w.g.code, AS_H2_CODE_CLOSED);
        assert_in_range(w.passed, 24 + 10, 24 + 10 + 8);
    }
}

/* RFC 9113 §6.3, RFC 7540 §5.3.1 */
static void invalid_priorities(void **state AS_UNUSED)
{
    static const struct {
        uint8_t frame[17];
        size_t n;
        bool is_bad;
    } cases[] = {
        {"\0\0\5\2\0\0\0\0\0\0\0\0\3w", 14, true},
        {"\0\0\5\2\0\0\0\0\3\0\0\0\3w", 14, true},
        {"\0\0\5\2\0\0\0\0\3\x80\0\0\3w", 14, true}, /* exclusive */
        {"\0\0\5\2\0\0\0\0\3\0\0\0\5w", 14, false},
        {"\0\0\5\2\0\0\0\0\3\0\0\0\0w", 14, false},
        {"\0\0\3\2\0\0\0\0\3\0\0\0", 12, false}, /* nghttp2 reports the wrong length */
        {"\0\0\0\2\0\0\0\0\3", 9, false},
    };

    for (size_t i = 0; i < 12 * AS_COUNT(cases); i++) {
        size_t at = i / 12;
        struct wire w;

        start(&w, i % 12);
        feed(&w, cases[at].frame, cases[at].n);
        assert_int_equal(w.g.breach, cases[at].is_bad ? AS_H2_PROTOCOL : AS_H2_NO_BREACH);
        assert_int_equal(w.g.code, cases[at].is_bad ? AS_H2_CODE_PROTOCOL : 0);
        if (!cases[at].is_bad) { /* and the next frames are scanned as usual */
            frame(&w, HEADERS, END_HEADERS | END_STREAM, 5);
            assert_int_equal(w.g.n_blocks, 1);
            assert_int_equal(w.passed, 24 + cases[at].n + 14);
        }
    }
}

static void frames_that_are_not_counted(void **state AS_UNUSED)
{
    struct wire w;

    start(&w, 0);
    for (unsigned i = 0; i < 1000; i++) {
        frame(&w, DATA, END_STREAM, 0);
        frame(&w, DATA, 0, 1);
        frame(&w, DATA, 0, 2000);
        frame(&w, HEADERS, END_HEADERS, 0);
        frame(&w, HEADERS, 0, 1);
        frame(&w, CONTINUATION, END_HEADERS, 0);
    }
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
}

static void padding_is_empty(void **state AS_UNUSED)
{
    for (size_t slice = 0; slice < 12; slice++) {
        for (size_t len = 1; len <= 257; len += 64) {
            uint8_t f[9 + 257] = {[1] = (uint8_t)(len >> 8), [2] = (uint8_t)len, [4] = PADDED};
            struct wire w;

            start(&w, slice);
            f[9] = (uint8_t)(len - 2); /* one byte of data: it does not count */
            for (unsigned i = 0; i < 20 && len > 1; i++)
                feed(&w, f, 9 + len);
            assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
            f[9] = (uint8_t)(len - 1);
            for (unsigned i = 0; i < 8; i++)
                feed(&w, f, 9 + len);
            assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
            feed(&w, f, 9 + len);
            assert_int_equal(w.g.breach, len <= 256 ? AS_H2_EMPTY : AS_H2_NO_BREACH);
        }
    }
}

static void time_earns_tokens_up_to_the_burst(void **state AS_UNUSED)
{
    struct wire w;

    start(&w, 0);
    for (unsigned i = 0; i < 5; i++)
        frame(&w, RST, 0, 4);
    w.now = AS_SEC / 10; /* ten a second */
    frame(&w, RST, 0, 4);
    w.now = 2 * AS_SEC / 10 - 1;
    w.g.breach = AS_H2_NO_BREACH;
    frame(&w, RST, 0, 4);
    assert_int_equal(w.g.breach, AS_H2_RESETS);
    w.g.breach = AS_H2_NO_BREACH;
    w.g.n_head = 0;
    w.g.skip = 0;
    w.now = 1000000 * AS_SEC;
    for (unsigned i = 0; i < 5; i++)
        frame(&w, RST, 0, 4);
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
    frame(&w, RST, 0, 4);
    assert_int_equal(w.g.breach, AS_H2_RESETS);
}

static void successful_calls_and_answers_give_tokens_back(void **state AS_UNUSED)
{
    struct wire w;

    start(&w, 0);
    for (unsigned i = 0; i < 100; i++)
        as_h2_guard_call_succeeded(&w.g); /* no more than the burst */
    for (unsigned i = 0; i < 5; i++)
        frame(&w, RST, 0, 4);
    as_h2_guard_call_succeeded(&w.g);
    frame(&w, RST, 0, 4);
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
    for (unsigned i = 0; i < 9; i++)
        frame(&w, WINDOW, 0, 4);
    as_h2_guard_answer_sent(&w.g);
    for (unsigned i = 0; i < 4; i++)
        frame(&w, WINDOW, 0, 4);
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
    frame(&w, WINDOW, 0, 4);
    assert_int_equal(w.g.breach, AS_H2_WINDOW);
}

static void requests_and_old_calls_give_tokens_back(void **state AS_UNUSED)
{
    struct wire w;

    start(&w, 0);
    for (unsigned i = 0; i < 5; i++)
        frame(&w, RST, 0, 4);
    w.g.limits.reset_patience = 100;
    as_h2_guard_call_cancelled(&w.g, 100);
    frame(&w, RST, 0, 4);
    w.g.limits.reset_patience = 0; /* off: however old */
    as_h2_guard_call_cancelled(&w.g, AS_NEVER);
    w.g.limits.reset_patience = 100;
    as_h2_guard_call_cancelled(&w.g, 99);
    for (unsigned i = 0; i < 9; i++)
        frame(&w, WINDOW, 0, 4);
    as_h2_guard_request_opened(&w.g);
    frame(&w, WINDOW, 0, 4);
    frame(&w, WINDOW, 0, 4);
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
    frame(&w, RST, 0, 4);
    assert_int_equal(w.g.breach, AS_H2_RESETS);
}

static void faults_and_refusals(void **state AS_UNUSED)
{
    struct wire w;

    start(&w, 0);
    for (unsigned i = 0; i < 6; i++)
        as_h2_guard_stream_fault(&w.g, 0);
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
    as_h2_guard_stream_fault(&w.g, 0);
    assert_int_equal(w.g.breach, AS_H2_FAULTS);
    start(&w, 0);
    for (unsigned i = 0; i < 5; i++)
        as_h2_guard_stream_refused(&w.g, 0);
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
    as_h2_guard_stream_refused(&w.g, 0);
    assert_int_equal(w.g.breach, AS_H2_RESETS);
}

static void header_blocks(void **state AS_UNUSED)
{
    for (size_t slice = 0; slice < 12; slice++) {
        struct wire w;

        start(&w, slice);
        for (unsigned i = 0; i < 50; i++) { /* each block anew */
            frame(&w, HEADERS, 0, 400);
            frame(&w, CONTINUATION, 0, 300);
            frame(&w, CONTINUATION, 0, 299);
            frame(&w, CONTINUATION, END_HEADERS, 1);
            assert_false(w.g.in_block);
        }
        assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
        frame(&w, HEADERS, 0, 1000);
        assert_true(w.g.in_block);
        frame(&w, CONTINUATION, 0, 1);
        assert_int_equal(w.g.breach, AS_H2_HEADERS);
        start(&w, slice);
        frame(&w, HEADERS, END_HEADERS, 1001);
        assert_int_equal(w.g.breach, AS_H2_HEADERS);
        assert_in_range(w.passed, 24, 24 + 8);
        start(&w, slice);
        frame(&w, HEADERS, 0, 1);
        for (unsigned i = 0; i < 3; i++)
            frame(&w, CONTINUATION, 0, 1);
        assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
        frame(&w, CONTINUATION, END_HEADERS, 1);
        assert_int_equal(w.g.breach, AS_H2_CONTINUATIONS);
    }
}

static void pings(void **state AS_UNUSED)
{
    struct wire w;

    for (uint32_t calls = 0; calls < 2; calls++) {
        as_ns least = calls ? 10 * AS_SEC : 20 * AS_SEC;

        start(&w, 0);
        w.calls = calls;
        for (unsigned i = 0; i < 20; i++, w.now += least)
            frame(&w, PING, 0, 8);
        w.now -= least;
        for (unsigned i = 0; i < 2; i++) {
            w.now += least - 1;
            frame(&w, PING, 0, 8);
        }
        assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
        w.now += least - 1;
        frame(&w, PING, 0, 8);
        assert_int_equal(w.g.breach, AS_H2_PINGS);
    }
}

/* grpc-go measures the bandwidth: one ping per round trip with data. */
static void a_ping_for_each_answer_is_free(void **state AS_UNUSED)
{
    struct wire w;

    start(&w, 0);
    for (unsigned i = 0; i < 10000; i++) {
        as_h2_guard_answer_sent(&w.g);
        frame(&w, PING, 0, 8);
    }
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
    for (unsigned i = 0; i < 2; i++) /* only one, however many answers there were */
        as_h2_guard_answer_sent(&w.g);
    frame(&w, PING, 0, 8);
    for (unsigned i = 0; i < 2; i++) /* two may come early */
        frame(&w, PING, 0, 8);
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
    frame(&w, PING, 0, 8);
    assert_int_equal(w.g.breach, AS_H2_PINGS);
}

/* Far enough apart for gRPC's rule, but they count as control frames. */
static void pings_without_a_rule_are_counted(void **state AS_UNUSED)
{
    struct as_h2_limits l = limits;
    struct wire w;

    start(&w, 0);
    l.ping_strikes = 0;
    w.g.limits = l;
    for (unsigned i = 0; i < 7; i++)
        frame(&w, PING, 0, 8);
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
    frame(&w, PING, 0, 8);
    assert_int_equal(w.g.breach, AS_H2_CONTROL);
}

/* The frames before a ping must be processed first, so that the number of open calls is right. */
static void pings_are_checked_in_order(void **state AS_UNUSED)
{
    static const uint8_t two[] = {0, 0, 0, DATA, 1, 0, 0, 0, 1, 0, 0, 8,    PING, 0, 0, 0, 0, 0,
                                  1, 2, 3, 4,    5, 6, 7, 8, 0, 0, 0, DATA, 1,    0, 0, 0, 1};
    struct wire w;

    start(&w, 0);
    assert_int_equal(as_h2_guard_scan(&w.g, two, sizeof(two), 0, 0), 9);
    assert_true(w.g.last_ping == AS_NEVER);
    assert_int_equal(as_h2_guard_scan(&w.g, two + 9, sizeof(two) - 9, 3, 0), sizeof(two) - 9);
    assert_true(w.g.last_ping == 3);
}

/* The owner can react to what many requests in one read have caused. */
static void a_scan_ends_after_many_requests(void **state AS_UNUSED)
{
    static uint8_t all[(AS_H2_REQUESTS_PER_RECV + 1) * 10];
    struct wire w;

    start(&w, 0);
    for (size_t i = 0; i < AS_H2_REQUESTS_PER_RECV + 1; i++)
        memcpy(all + 10 * i, (const uint8_t[10]){[2] = 1, [3] = HEADERS, [4] = END_HEADERS}, 10);
    assert_int_equal(as_h2_guard_scan(&w.g, all, sizeof(all), 0, 0), 10 * AS_H2_REQUESTS_PER_RECV);
    assert_int_equal(as_h2_guard_scan(&w.g, all, 10, 0, 0), 0);
    w.g.n_blocks = 0;
    assert_int_equal(as_h2_guard_scan(&w.g, all, 10, 0, 0), 10);
}

static void no_limits(void **state AS_UNUSED)
{
    static const struct as_h2_limits none;
    struct wire w = {0};

    as_h2_guard_init(&w.g, &none, 0);
    w.g.skip = 0;
    for (unsigned i = 0; i < 5000; i++) {
        frame(&w, (uint8_t)(i % 12), 0, i % 3 ? 0 : 2000);
        as_h2_guard_stream_fault(&w.g, 0);
        as_h2_guard_stream_refused(&w.g, 0);
    }
    assert_int_equal(w.g.breach, AS_H2_NO_BREACH);
}

static void the_preface(void **state AS_UNUSED)
{
    for (size_t slice = 0; slice < 12; slice++) {
        static const uint8_t settings[15] = {[2] = 6, [3] = SETTINGS};
        struct wire w;

        start(&w, slice);
        feed(&w, settings, 14);
        assert_false(w.g.got_preface);
        feed(&w, settings, 1);
        assert_true(w.g.got_preface);
        start(&w, slice);
        frame(&w, SETTINGS, 0, 0);
        assert_true(w.g.got_preface);
    }
}

static void every_breach_has_a_name(void **state AS_UNUSED)
{
    for (int i = 0; i < AS_H2_BREACHES; i++)
        assert_non_null(as_h2_breach_name((enum as_h2_breach)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_frames),
        cmocka_unit_test(frames_that_are_not_counted),
        cmocka_unit_test(frames_after_the_end_of_a_stream),
        cmocka_unit_test(invalid_priorities),
        cmocka_unit_test(padding_is_empty),
        cmocka_unit_test(time_earns_tokens_up_to_the_burst),
        cmocka_unit_test(successful_calls_and_answers_give_tokens_back),
        cmocka_unit_test(requests_and_old_calls_give_tokens_back),
        cmocka_unit_test(faults_and_refusals),
        cmocka_unit_test(header_blocks),
        cmocka_unit_test(pings),
        cmocka_unit_test(a_ping_for_each_answer_is_free),
        cmocka_unit_test(pings_without_a_rule_are_counted),
        cmocka_unit_test(pings_are_checked_in_order),
        cmocka_unit_test(a_scan_ends_after_many_requests),
        cmocka_unit_test(no_limits),
        cmocka_unit_test(the_preface),
        cmocka_unit_test(every_breach_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
