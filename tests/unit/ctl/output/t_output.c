/* Specification of ctl/output/output: bytes of a process become lines, the last ones are kept. */
#include "ctl/output/output.h"

#include "unit.h"

/* Lines come out as "<line>". */
static void collect(void *ctx, struct as_str line)
{
    struct as_buf *b = ctx;

    as_buf_str(b, "<");
    as_buf_add(b, line.p, line.n);
    as_buf_str(b, ">");
}

static const char *text(struct as_buf *b)
{
    as_buf_add(b, "", 1);
    return (char *)b->p;
}

static void check(const char *bytes, const char *want)
{
    size_t n = strlen(bytes);

    for (size_t cut = 0; cut <= n; cut++) {
        struct as_output *o = as_xalloc(sizeof(*o));
        struct as_buf b = {0};

        as_output_init(o, collect, &b);
        as_output_feed(o, bytes, cut);
        as_output_feed(o, bytes + cut, n - cut);
        as_output_end(o);
        assert_string_equal(text(&b), want);
        as_buf_fini(&b);
        free(o);
    }
}

static void lines_may_be_cut_anywhere(void **state AS_UNUSED)
{
    check("", "");
    check("one\ntwo\n", "<one><two>");
    check("\n\n", "<><>");
    check("without end", "<without end>");
}

static void a_carriage_return_starts_the_line_again(void **state AS_UNUSED)
{
    check("10%\r50%\r100%\ndone\n", "<100%><done>");
    check("dos\r\nends\r\n", "<dos><ends>");
    check("last\r", "<last>");
}

static void a_long_line_is_cut_at_the_bound(void **state AS_UNUSED)
{
    struct as_output *o = as_xalloc(sizeof(*o));
    char *line = as_xalloc(AS_OUTPUT_LINE_MAX + 2);

    for (size_t extra = 0; extra <= 1; extra++) {
        struct as_buf b = {0};

        memset(line, 'x', AS_OUTPUT_LINE_MAX + 1);
        line[AS_OUTPUT_LINE_MAX + extra] = '\n';
        as_output_init(o, collect, &b);
        as_output_feed(o, line, AS_OUTPUT_LINE_MAX + extra + 1);
        as_output_feed(o, "next\n", 5);
        assert_int_equal(b.n, AS_OUTPUT_LINE_MAX + 2 + 6);
        assert_int_equal(memcmp(b.p + AS_OUTPUT_LINE_MAX - 5, " [cut]", 6) == 0, extra == 1);
        as_buf_fini(&b);
    }
    free(line);
    free(o);
}

static void the_last_lines_are_kept(void **state AS_UNUSED)
{
    struct as_output *o = as_xalloc(sizeof(*o));
    struct as_buf lines = {0}, tail = {0}, want = {0};
    char line[16];

    as_output_init(o, collect, &lines);
    assert_int_equal(as_output_last(o).n, 0);
    as_output_tail(o, &tail);
    assert_int_equal(tail.n, 0);
    for (unsigned i = 0; i <= AS_OUTPUT_TAIL_LINES; i++) {
        snprintf(line, sizeof(line), "line %u\n", i);
        as_output_feed(o, line, strlen(line));
        if (i > 0)
            as_buf_str(&want, line);
    }
    as_output_tail(o, &tail);
    assert_string_equal(text(&tail), text(&want));
    as_output_feed(o, "  \n\n", 4); /* blank lines do not count */
    assert_true(as_str_eq(as_output_last(o), AS_STR("line 20")));
    as_buf_fini(&lines);
    as_buf_fini(&tail);
    as_buf_fini(&want);
    free(o);
}

static void check_crash(const char *bytes, const char *want)
{
    struct as_output *o = as_xalloc(sizeof(*o));
    struct as_buf lines = {0};
    struct as_str got;

    as_output_init(o, collect, &lines);
    as_output_feed(o, bytes, strlen(bytes));
    got = as_output_crash(o);
    assert_int_equal(got.n, strlen(want));
    assert_memory_equal(got.p ? got.p : "", want, got.n);
    as_buf_fini(&lines);
    free(o);
}

/* What Python's faulthandler prints: threads, the one that crashed among them, the innermost frame
 * first. */
static void where_a_python_program_crashed(void **state AS_UNUSED)
{
    check_crash("", "");
    check_crash("Fatal Python error: Segmentation fault\n\n"
                "Thread 0x1 (most recent call first):\n  File \"other.py\", line 1 in f\n\n"
                "Current thread 0x2 (most recent call first):\n"
                "  File \"app.py\", line 12 in crash\n  File \"app.py\", line 3 in <module>\n",
                "File \"app.py\", line 12 in crash");
    /* a dump that is no crash, and a thread without Python */
    check_crash("Current thread 0x2 (most recent call first):\n  File \"app.py\", line 1 in f\n",
                "");
    check_crash("Fatal Python error: Aborted\n\nCurrent thread 0x2 (most recent call first):\n"
                "  <no Python frame>\n\nThread 0x1 (most recent call first):\n"
                "  File \"other.py\", line 1 in f\n",
                "");
    /* the last of several */
    check_crash("Fatal Python error: a\nCurrent thread 0x2\n  File \"a.py\", line 1 in a\n"
                "Fatal Python error: b\nCurrent thread 0x2\n  File \"b.py\", line 2 in b\n",
                "File \"b.py\", line 2 in b");
}

static void a_long_frame_is_cut(void **state AS_UNUSED)
{
    struct as_output *o = as_xalloc(sizeof(*o));
    struct as_buf lines = {0};
    const char *head = "Fatal Python error: a\nCurrent thread 0x2\n  File \"";

    as_output_init(o, collect, &lines);
    as_output_feed(o, head, strlen(head));
    for (unsigned i = 0; i < AS_OUTPUT_TAIL_LINE_MAX; i++)
        as_output_feed(o, "x", 1);
    as_output_feed(o, "\n", 1);
    assert_int_equal(as_output_crash(o).n, AS_OUTPUT_TAIL_LINE_MAX);
    as_buf_fini(&lines);
    free(o);
}

static void a_report_is_split_into_reason_and_last_line(void **state AS_UNUSED)
{
    struct as_str why, last;

    as_output_split_report(AS_STR("exit code 1\nfirst\nlast\n \t\n"), &why, &last);
    assert_true(as_str_eq(why, AS_STR("exit code 1")));
    assert_true(as_str_eq(last, AS_STR("last")));
    as_output_split_report(AS_STR("signal 9 (SIGKILL)\n"), &why, &last);
    assert_true(as_str_eq(why, AS_STR("signal 9 (SIGKILL)")));
    assert_int_equal(last.n, 0);
    as_output_split_report(AS_STR(""), &why, &last);
    assert_int_equal(why.n + last.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_may_be_cut_anywhere),
        cmocka_unit_test(a_carriage_return_starts_the_line_again),
        cmocka_unit_test(a_long_line_is_cut_at_the_bound),
        cmocka_unit_test(the_last_lines_are_kept),
        cmocka_unit_test(where_a_python_program_crashed),
        cmocka_unit_test(a_long_frame_is_cut),
        cmocka_unit_test(a_report_is_split_into_reason_and_last_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
