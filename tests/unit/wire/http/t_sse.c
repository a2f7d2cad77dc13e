/* Specification of wire/http/sse: how lines become events (WHATWG HTML 9.2.6). */
#include "wire/http/sse.h"

#include "unit.h"

static struct as_buf told;

/* The events of a stream that comes in steps of this many bytes, each in brackets; then "." if
 * nothing is left over, "~" if something is, "!" if an event was too big. */
static const char *events(const char *stream, size_t n, size_t step, size_t limit)
{
    struct as_sse s = {0};
    struct as_buf data = {0};
    enum as_sse_result got = AS_SSE_MORE;

    told.n = 0;
    for (size_t at = 0; at < n && got != AS_SSE_TOO_BIG; at += step) {
        const uint8_t *p = (const uint8_t *)stream + at;
        size_t left = AS_MIN(step, n - at);

        while ((got = as_sse_read(&s, &p, &left, &data, limit)) == AS_SSE_EVENT) {
            as_buf_printf(&told, "[%.*s]", AS_STR_FMT(as_buf_slice(&data)));
            data.n = 0;
        }
    }
    as_buf_str(&told, got == AS_SSE_TOO_BIG ? "!" : as_sse_at_boundary(&s) ? "." : "~");
    as_buf_fini(&data);
    as_buf_reserve(&told, 1)[0] = 0;
    return (const char *)told.p;
}

static void check(const char *stream, const char *want)
{
    for (size_t step = 1; step < 6; step++)
        assert_string_equal(events(stream, strlen(stream), step, 100), want);
}

static void an_empty_line_ends_an_event(void **state AS_UNUSED)
{
    check("data: {\"a\":1}\n\ndata: {\"a\":2}\n\n", "[{\"a\":1}][{\"a\":2}].");
    check("data:x\n\n\n\n\ndata:y\n\n", "[x][y].");
    check("", ".");
    check("\n\n", ".");
}

static void lines_end_in_three_ways(void **state AS_UNUSED)
{
    check("data: a\r\n\r\ndata: b\r\rdata: c\n\n", "[a][b][c].");
    check("data: a\r\ndata: b\rdata: c\n\r\n", "[a\nb\nc].");
}

static void one_space_after_the_colon_is_dropped(void **state AS_UNUSED)
{
    check("data:a\n\ndata: a\n\ndata:  a\n\ndata:\ta\n\n", "[a][a][ a][\ta].");
    check("data:\n\ndata: \n\ndata\n\n", "[][][].");
    check("data: a:b\n\n", "[a:b].");
}

static void other_fields_are_dropped(void **state AS_UNUSED)
{
    check(": note\nevent: e\nid: 7\nretry: 10\ndata: a\n\n", "[a].");
    check("dat: a\n\ndatas: b\n\nDATA: c\n\n data: d\n\ndatadata\n\n", ".");
    check("event: alone\n\n", "."); /* no data, no event */
}

static void a_byte_order_mark_is_skipped_at_the_start(void **state AS_UNUSED)
{
    check("\xef\xbb\xbf"
          "data: a\n\n",
          "[a].");
    check("\xef\xbb"
          "data: a\n\ndata: b\n\n",
          "[b].");
    check("data: a\n\n\xef\xbb\xbf"
          "data: b\n\n",
          "[a].");
}

static void a_truncated_stream_is_not_at_a_boundary(void **state AS_UNUSED)
{
    check("data: a\n\ndata: b\n", "[a]~");
    check("data: a\n\ndata: b", "[a]~");
    check("data: a\n\nda", "[a]~");
}

static void limit_at_n_and_one_more(void **state AS_UNUSED)
{
    static const char at[] = "data: abcd\n\n", over[] = "data: abcde\n\n";
    static const char lines[] = "data: ab\ndata: c\n\n";

    for (size_t step = 1; step < 20; step++) {
        assert_string_equal(events(at, strlen(at), step, 4), "[abcd].");
        assert_string_equal(events(over, strlen(over), step, 4), "!");
        assert_string_equal(events(lines, strlen(lines), step, 4), "[ab\nc].");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_line_ends_an_event),
        cmocka_unit_test(lines_end_in_three_ways),
        cmocka_unit_test(one_space_after_the_colon_is_dropped),
        cmocka_unit_test(other_fields_are_dropped),
        cmocka_unit_test(a_byte_order_mark_is_skipped_at_the_start),
        cmocka_unit_test(a_truncated_stream_is_not_at_a_boundary),
        cmocka_unit_test(limit_at_n_and_one_more),
    };
    int failed = cmocka_run_group_tests_name("sse", tests, NULL, NULL);

    as_buf_fini(&told);
    return failed;
}
