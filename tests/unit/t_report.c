/* Specification of tool/tally, tool/report, tool/json_scan and tool/fault: counts that add up, what
 * is written is read back, and hostile files are refused. */
#include "tool/report.h"

#include "base/rand.h"
#include "tool/fault.h"
#include "tool/json_scan.h"
#include "unit.h"

static struct as_tally tally;
static struct as_buf text;

static const char *end(struct as_buf *b)
{
    as_buf_reserve(b, 1)[0] = 0;
    return (const char *)b->p;
}

static void fill_tally(void)
{
    tally = (struct as_tally){.min = 0};
    for (uint32_t i = 1; i <= 1000; i++)
        as_tally_answer(&tally, i * AS_US, 0, "");
    as_tally_answer(&tally, 7 * AS_SEC, 8, "the queue is full");
    as_tally_answer(&tally, 7 * AS_SEC, 8, "another text");
    as_tally_answer(&tally, 7 * AS_SEC, 99, "odd");
    as_tally_unanswered(&tally, 20 * AS_MS);
    as_tally_unsent(&tally, 10 * AS_MS);
    tally.in_window = 990;
}

static void every_call_is_counted_once(void **state AS_UNUSED)
{
    fill_tally();
    assert_int_equal(tally.status[0], 1000);
    assert_int_equal(as_tally_failed(&tally), 3);
    assert_int_equal(tally.status[2], 1);
    assert_int_equal(as_tally_due(&tally), 1005);
    assert_int_equal(tally.latency.n, 1002); /* errors have no latency, waiting does */
    assert_int_equal(tally.latency.max, 20 * AS_MS);
    assert_int_equal(tally.min, AS_US);
    assert_true(as_tally_mean(&tally) == (1000 * 1001 / 2 * 1e3 + 30e6) / 1002);
    assert_string_equal(tally.text[8], "the queue is full"); /* the first */
    tally = (struct as_tally){.min = 0};
    assert_true(as_tally_mean(&tally) == 0);
}

static struct as_report report_of(void)
{
    return (struct as_report){.model = AS_STR("m\"x"),
                              .address = "h:1",
                              .protocol = "http",
                              .connections = 2,
                              .streams = 3,
                              .request_bytes = 10,
                              .seconds = 0.5,
                              .warmup = 1,
                              .why_lost = "",
                              .tally = &tally};
}

static void what_is_written_is_read_back(void **state AS_UNUSED)
{
    struct as_report r;
    struct as_report_past past;
    struct as_buf why = {0};

    fill_tally();
    r = report_of();
    text.n = 0;
    as_report_json(&text, &r, NULL);
    assert_int_equal(as_report_read(as_buf_slice(&text), &past, &why), 0);
    for (int i = 0; i < AS_REPORT_ROWS; i++)
        assert_true(past.has[i]);
    assert_true(past.v[AS_REPORT_RATE] == 1980);
    assert_true(past.v[AS_REPORT_FAILED] == 3);
    assert_true(past.v[AS_REPORT_P50] > 480 && past.v[AS_REPORT_P50] <= 502);
    assert_true(past.v[AS_REPORT_MAX] == 20000);
    assert_non_null(strstr(end(&text), "\"model\":\"m\\\"x\""));
    assert_non_null(strstr(
        end(&text), "\"RESOURCE_EXHAUSTED\":{\"count\":2,\"message\":\"the queue is full\"}"));
    as_buf_fini(&why);
}

static void an_earlier_result_is_better_or_worse(void **state AS_UNUSED)
{
    struct as_report_past past = {.v = {[AS_REPORT_RATE] = 990,
                                        [AS_REPORT_P99] = 500,
                                        [AS_REPORT_MAX] = 20000,
                                        [AS_REPORT_FAILED] = 0},
                                  .has = {[AS_REPORT_RATE] = true,
                                          [AS_REPORT_P99] = true,
                                          [AS_REPORT_MAX] = true,
                                          [AS_REPORT_FAILED] = true}};
    struct as_report r;

    fill_tally();
    r = report_of();
    text.n = 0;
    as_report_json(&text, &r, &past);
    end(&text);
    assert_non_null(strstr((char *)text.p, "\"per_second\":{\"before\":990.000,\"now\":1980.000,"
                                           "\"ratio\":2.0000,\"verdict\":\"better\"}"));
    assert_non_null(strstr((char *)text.p, "\"verdict\":\"worse\"}"));
    assert_non_null(strstr((char *)text.p,
                           "\"latency_us.max\":{\"before\":20000.000,\"now\":20000.000,"
                           "\"ratio\":1.0000,\"verdict\":\"same\"}"));
    assert_non_null(strstr((char *)text.p,
                           "\"failed\":{\"before\":0.000,\"now\":3.000,\"verdict\":\"worse\"}"));
    text.n = 0;
    as_report_text(&text, &r, &past, true);
    end(&text);
    assert_non_null(strstr((char *)text.p, "2.000  better"));
    assert_non_null(strstr((char *)text.p, "RESOURCE_EXHAUSTED            2  the queue is full"));
    assert_non_null(strstr((char *)text.p, "1 calls were never answered"));
}

static void nothing_measured_is_reported_too(void **state AS_UNUSED)
{
    struct as_report r = report_of();
    struct as_report_past past;
    struct as_buf why = {0};

    tally = (struct as_tally){.min = 0};
    r.seconds = 0;
    text.n = 0;
    as_report_text(&text, &r, NULL, true);
    text.n = 0;
    as_report_json(&text, &r, NULL);
    assert_int_equal(as_report_read(as_buf_slice(&text), &past, &why), 0);
    as_buf_fini(&why);
}

/* --- reading --- */

static struct as_buf told;

static void on_number(void *ctx, const char *path, double v)
{
    (void)ctx;
    as_buf_printf(&told, "%s=%g;", path, v);
}

static int scan(const char *json, size_t n, size_t *ret_at)
{
    char *exact = malloc(n ? n : 1); /* its own block, so that a sanitizer sees one byte too far */
    int rc;

    told.n = 0;
    memcpy(exact, json, n);
    rc = as_json_scan((struct as_str){exact, n}, on_number, NULL, ret_at);
    free(exact);
    end(&told);
    return rc;
}

static void numbers_have_paths(void **state AS_UNUSED)
{
    static const char json[] =
        " {\"a\":1,\"b\":{\"c\":-2.5e1,\"\":3,\"x\\n\\u00fc\":4},\"l\":[1,{\"d\":2}],\"t\":true,"
        "\"f\":false,\"n\":null,\"s\":\"a\\\"b\",\"e\":{},\"g\":[],\"z\":0} ";
    size_t at;

    assert_int_equal(scan(json, strlen(json), &at), 0);
    assert_string_equal(told.p, "a=1;b.c=-25;b.=3;b.x\\n\\u00fc=4;z=0;");
    assert_int_equal(scan("7", 1, &at), 0);
    assert_string_equal(told.p, "=7;");
    for (size_t cut = 0; cut < strlen(json) - 1; cut++)
        assert_int_equal(scan(json, cut, &at), AS_EINVALID);
}

static void what_is_no_json_is_refused(void **state AS_UNUSED)
{
    static const char *const wrong[] = {
        "",        "{",         "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1,]", "[1 2]", "01",
        "1.",      ".5",        "1e",      "-",        "+1",         "nan",  "tru",   "\"a",
        "\"\\x\"", "\"\\u12\"", "\"\n\"",  "1 1",      "{a:1}",      "]",    "{]",    "[}"};
    size_t at;

    for (size_t i = 0; i < AS_COUNT(wrong); i++)
        assert_int_equal(scan(wrong[i], strlen(wrong[i]), &at), AS_EINVALID);
}

static void depth_and_paths_are_bounded(void **state AS_UNUSED)
{
    char json[600];
    size_t at;

    for (uint32_t over = 0; over < 2; over++) {
        size_t n = AS_JSON_SCAN_DEPTH - 1 + over;

        memset(json, '[', n);
        json[n] = '1';
        memset(json + n + 1, ']', n);
        assert_int_equal(scan(json, 2 * n + 1, &at), over ? AS_EINVALID : 0);
    }
    for (uint32_t over = 0; over < 2; over++) {
        size_t n = AS_JSON_SCAN_PATH - 2 + over;

        json[0] = '{';
        json[1] = '"';
        memset(json + 2, 'x', n);
        memcpy(json + 2 + n, "\":1}", 4);
        assert_int_equal(scan(json, n + 6, &at), 0);
        assert_int_equal(told.n > 0, !over);
    }
}

static void random_bytes_are_read_or_refused(void **state AS_UNUSED)
{
    static const char letters[] = "{}[]\",:01e.-\\untrue ";
    struct as_rand r = {9};
    unsigned good = 0;

    for (int i = 0; i < 200000; i++) {
        char json[12];
        size_t n = as_rand_below(&r, sizeof(json)), at;

        for (size_t k = 0; k < n; k++)
            json[k] = letters[as_rand_below(&r, sizeof(letters) - 1)];
        good += scan(json, n, &at) == 0;
        assert_true(at <= n);
    }
    assert_true(good > 100);
}

static void other_files_are_no_results(void **state AS_UNUSED)
{
    struct as_report_past past;
    struct as_buf why = {0};

    assert_int_equal(as_report_read(AS_STR("{\"per_second\":1"), &past, &why), AS_EINVALID);
    assert_string_equal(end(&why), "is no JSON (position 16)");
    why.n = 0;
    assert_int_equal(as_report_read(AS_STR("{\"per_second\":1}"), &past, &why), AS_EINVALID);
    assert_string_equal(end(&why), "is no result of anyserve bench --json");
    as_buf_fini(&why);
}

static void failures_have_a_name(void **state AS_UNUSED)
{
    text.n = 0;
    as_fault_write(&text, "infer", 105, AS_STR("no \"m\""), false);
    assert_string_equal(end(&text), "anyserve infer: NOT_FOUND: no \"m\"\n");
    text.n = 0;
    as_fault_write(&text, "infer", 105, AS_STR("no \"m\""), true);
    assert_string_equal(end(&text), "{\"error\":{\"code\":\"NOT_FOUND\",\"exit_code\":105,"
                                    "\"message\":\"no \\\"m\\\"\"}}\n");
    text.n = 0;
    as_fault_write(&text, "bench", 2, AS_STR("x"), true);
    assert_non_null(strstr(end(&text), "\"code\":\"USAGE\""));
}

static int fini(void **state AS_UNUSED)
{
    as_buf_fini(&text);
    as_buf_fini(&told);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_is_counted_once),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(an_earlier_result_is_better_or_worse),
        cmocka_unit_test(nothing_measured_is_reported_too),
        cmocka_unit_test(numbers_have_paths),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(depth_and_paths_are_bounded),
        cmocka_unit_test(random_bytes_are_read_or_refused),
        cmocka_unit_test(other_files_are_no_results),
        cmocka_unit_test(failures_have_a_name),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, fini);
}
