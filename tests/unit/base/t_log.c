/* Specification of base/log: one bounded line per event, with values quoted where necessary. */
#include "base/log.h"

#include "unit.h"

#include <limits.h>

struct heard {
    char line[8192];
    size_t n;
    uint32_t lines;
};

static void sink(void *ctx, enum as_log_level level AS_UNUSED, const char *line, size_t n)
{
    struct heard *h = ctx;

    assert_true(n < sizeof(h->line));
    memcpy(h->line, line, n);
    h->line[n] = 0;
    h->n = n;
    h->lines++;
}

static void an_event_is_one_line(void **state AS_UNUSED)
{
    struct heard h = {0};
    struct as_log log = {.level = AS_LOG_INFO, .sink = sink, .ctx = &h};

    as_log_event(&log, AS_LOG_WARN, "worker_gone", "replica=%s code=%d", "a-0", 3);
    assert_string_equal(h.line, "level=warn event=worker_gone replica=a-0 code=3\n");
    as_log_event(&log, AS_LOG_DEBUG, "unseen", "x=1");
    assert_int_equal(h.lines, 1);
    as_log_event(NULL, AS_LOG_ERROR, "nobody", "x=1");
}

static void a_long_line_is_cut_to_one_write(void **state AS_UNUSED)
{
    struct heard h = {0};
    struct as_log log = {.level = AS_LOG_INFO, .sink = sink, .ctx = &h};
    char text[8000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    as_log_event(&log, AS_LOG_WARN, "long", "text=%s", text);
    assert_int_equal(h.line[h.n - 1], '\n');
    assert_null(memchr(h.line, '\n', h.n - 1));
    assert_true(h.n > 3900);
    assert_true(h.n + strlen("[dispatcher] time=2025-11-21T03:46:00.123Z ") <= PIPE_BUF);
}

static void values_are_quoted_where_needed(void **state AS_UNUSED)
{
    char out[32];

    assert_string_equal(as_log_quote(out, sizeof(out), AS_STR("plain-1.0/x")), "plain-1.0/x");
    assert_string_equal(as_log_quote(out, sizeof(out), AS_STR("")), "\"\"");
    assert_string_equal(as_log_quote(out, sizeof(out), AS_STR("a b")), "\"a b\"");
    assert_string_equal(as_log_quote(out, sizeof(out), AS_STR("k=v")), "\"k=v\"");
    assert_string_equal(as_log_quote(out, sizeof(out), AS_STR("\"\\\n\x1b")),
                        "\"\\\"\\\\\\n\\x1b\"");
}

static void a_value_is_cut_at_what_fits(void **state AS_UNUSED)
{
    char out[8];

    assert_string_equal(as_log_quote(out, sizeof(out), AS_STR("1234567")), "1234567");
    assert_string_equal(as_log_quote(out, sizeof(out), AS_STR("12345678")), "1234567");
    assert_true(strlen(as_log_quote(out, sizeof(out), AS_STR("\x01\x01\x01\x01"))) < sizeof(out));
}

static void levels_have_names(void **state AS_UNUSED)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};

    for (enum as_log_level l = AS_LOG_ERROR; l <= AS_LOG_DEBUG; l++)
        assert_string_equal(as_log_level_name(l), names[l]);
}

static void count(void *ctx, enum as_log_level level AS_UNUSED, const char *line AS_UNUSED,
                  size_t n AS_UNUSED)
{
    ++*(int *)ctx;
}

static void the_level_can_change(void **state AS_UNUSED)
{
    int lines = 0;
    struct as_log log = {.level = AS_LOG_WARN, .sink = count, .ctx = &lines};

    as_log_event(&log, AS_LOG_INFO, "e", "%s", "");
    assert_int_equal(lines, 0);
    as_log_set_level(&log, AS_LOG_INFO);
    assert_int_equal(as_log_get_level(&log), AS_LOG_INFO);
    as_log_event(&log, AS_LOG_INFO, "e", "%s", "");
    as_log_event(&log, AS_LOG_DEBUG, "e", "%s", "");
    assert_int_equal(lines, 1);
}

static void ratelimit_allows_one_line_per_interval(void **state AS_UNUSED)
{
    struct as_log_ratelimit q = {0};
    uint64_t skipped = 99;

    assert_true(as_log_ratelimit_allows(&q, 5, 10, &skipped));
    assert_int_equal(skipped, 0);
    assert_false(as_log_ratelimit_allows(&q, 5, 10, &skipped));
    assert_false(
        as_log_ratelimit_allows(&q, 14, 10, &skipped)); /* one before the end of the interval */
    assert_true(as_log_ratelimit_allows(&q, 15, 10, &skipped));
    assert_int_equal(skipped, 2);
    assert_true(as_log_ratelimit_allows(&q, 25, 10, &skipped));
    assert_int_equal(skipped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_one_line),
        cmocka_unit_test(a_long_line_is_cut_to_one_write),
        cmocka_unit_test(values_are_quoted_where_needed),
        cmocka_unit_test(a_value_is_cut_at_what_fits),
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(the_level_can_change),
        cmocka_unit_test(ratelimit_allows_one_line_per_interval),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
