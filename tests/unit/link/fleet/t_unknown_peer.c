/* link/fleet/unknown_peer: one line at once, then one line with a count. */
#include "link/fleet/unknown_peer.h"

#include "unit.h"

struct heard {
    char line[4][200];
    uint32_t n;
};

static void hear(void *ctx, enum as_log_level level AS_UNUSED, const char *line, size_t n)
{
    struct heard *h = ctx;

    assert_true(h->n < AS_COUNT(h->line));
    snprintf(h->line[h->n++], sizeof(h->line[0]), "%.*s", (int)n, line);
}

#define LINE(pid, times, reason)                                                                   \
    "level=warn event=worker_gone replica=? pid=" pid " unanswered=0 times=" times                 \
    " reason=" reason "\n"

static void the_same_reason_is_counted(void **state AS_UNUSED)
{
    struct heard h = {.n = 0};
    struct as_log log = {.level = AS_LOG_INFO, .sink = hear, .ctx = &h};
    struct as_unknown_peer s = {.pid = 0};
    as_ns now = 7;

    for (uint32_t pid = 1; pid <= 6; pid++)
        as_unknown_peer_log(&s, &log, AS_LOG_WARN, pid, "bad", now);
    assert_int_equal(h.n, 1); /* at once, whoever else comes */
    assert_string_equal(h.line[0], LINE("1", "1", "bad"));
    as_unknown_peer_tick(&s, &log, now + AS_UNKNOWN_PEER_INTERVAL - 1);
    assert_int_equal(h.n, 1);
    as_unknown_peer_tick(&s, &log, now + AS_UNKNOWN_PEER_INTERVAL);
    assert_int_equal(h.n, 2);
    assert_string_equal(h.line[1], LINE("6", "5", "bad"));
    as_unknown_peer_log(&s, &log, AS_LOG_WARN, 7, "bad", now + 2 * AS_UNKNOWN_PEER_INTERVAL - 1);
    as_unknown_peer_tick(&s, &log, now + 3 * AS_UNKNOWN_PEER_INTERVAL);
    assert_int_equal(h.n, 3); /* none is lost */
    assert_string_equal(h.line[2], LINE("7", "1", "bad"));
    as_unknown_peer_tick(&s, &log, now + 9 * AS_UNKNOWN_PEER_INTERVAL);
    assert_int_equal(h.n, 3);
    as_unknown_peer_log(&s, &log, AS_LOG_WARN, 8, "bad", now + 9 * AS_UNKNOWN_PEER_INTERVAL);
    assert_int_equal(h.n, 4); /* it is another time */
}

static void another_reason_is_another_line(void **state AS_UNUSED)
{
    struct heard h = {.n = 0};
    struct as_log log = {.level = AS_LOG_INFO, .sink = hear, .ctx = &h};
    struct as_unknown_peer s = {.pid = 0};

    as_unknown_peer_log(&s, &log, AS_LOG_WARN, 1, "bad", 0);
    as_unknown_peer_log(&s, &log, AS_LOG_WARN, 2, "bad", 0);
    as_unknown_peer_log(&s, &log, AS_LOG_WARN, 3, "worse", 0);
    assert_int_equal(h.n, 3);
    assert_string_equal(h.line[1], LINE("2", "1", "bad"));
    assert_string_equal(h.line[2], LINE("3", "1", "worse"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_reason_is_counted),
        cmocka_unit_test(another_reason_is_another_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
