/* Specification of tool/bench/tally, tool/bench/bench_report and tool/fault: counts add up, a JSON
 * report is parsed again, and hostile files are refused. */
#include "tool/bench/bench_report.h"

#include "tool/fault.h"
#include "unit.h"

static struct as_tally tally;
static struct as_buf text;
static char shown[300];

static const char *terminated(struct as_buf *b)
{
    as_buf_reserve(b, 1)[0] = 0;
    return (const char *)b->p;
}

static void fill_tally(void)
{
    tally = (struct as_tally){.unsent = 0};
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
    assert_int_equal(tally.latency.h.n,
                     1002); /* errors have no latency; unanswered and unsent calls have */
    assert_int_equal(tally.error_latency.h.n, 3); /* the times of errors */
    assert_int_equal(tally.error_latency.min, 7 * AS_SEC);
    assert_int_equal(tally.latency.h.max, 20 * AS_MS);
    assert_int_equal(tally.latency.min, AS_US);
    assert_true(as_tally_mean(&tally.latency) == (1000 * 1001 / 2 * 1e3 + 30e6) / 1002);
    assert_string_equal(tally.text[8], "the queue is full"); /* the first text of this status */
    tally = (struct as_tally){.unsent = 0};
    assert_true(as_tally_mean(&tally.latency) == 0);
}

static struct as_bench_report report_of(void)
{
    return (struct as_bench_report){.model = AS_STR("m\"x"),
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

static void a_json_report_is_parsed_again(void **state AS_UNUSED)
{
    struct as_bench_report r;
    struct as_bench_report_baseline past;
    struct as_buf why = {0};

    fill_tally();
    r = report_of();
    text.n = 0;
    as_bench_report_json(&text, &r, NULL);
    assert_int_equal(as_bench_report_parse(&text, &past, &why), 0);
    for (int i = 0; i < AS_BENCH_REPORT_ROWS; i++)
        assert_int_equal(past.has[i], i <= AS_BENCH_REPORT_FAILED);
    assert_true(past.v[AS_BENCH_REPORT_RATE] == 1980);
    assert_true(past.v[AS_BENCH_REPORT_FAILED] == 3);
    assert_true(past.v[AS_BENCH_REPORT_P50] > 480 && past.v[AS_BENCH_REPORT_P50] <= 502);
    assert_true(past.v[AS_BENCH_REPORT_MAX] == 20000);
    assert_non_null(strstr(terminated(&text), "\"model\":\"m\\\"x\""));
    assert_non_null(
        strstr(terminated(&text),
               "\"RESOURCE_EXHAUSTED\":{\"count\":2,\"message\":\"the queue is full\"}"));
    as_buf_fini(&why);
}

static void streams_have_times_of_responses(void **state AS_UNUSED)
{
    struct as_bench_report r;
    struct as_bench_report_baseline past;
    struct as_buf why = {0};

    fill_tally();
    for (uint32_t i = 1; i <= 100; i++)
        as_tally_response(&tally, true, i * AS_MS);
    for (uint32_t i = 1; i <= 10; i++)
        as_tally_response(&tally, false, i * AS_US);
    tally.responses_in_window = 110;
    r = report_of();
    r.stream = true;
    text.n = 0;
    as_bench_report_json(&text, &r, NULL);
    assert_int_equal(as_bench_report_parse(&text, &past, &why), 0);
    for (int i = 0; i < AS_BENCH_REPORT_ROWS; i++)
        assert_true(past.has[i]);
    assert_true(past.v[AS_BENCH_REPORT_RESPONSES] == 220);
    assert_true(past.v[AS_BENCH_REPORT_FIRST_MEAN] == 50500);
    assert_true(past.v[AS_BENCH_REPORT_FIRST_MAX] == 100000);
    assert_true(past.v[AS_BENCH_REPORT_FIRST_P50] > 49000 &&
                past.v[AS_BENCH_REPORT_FIRST_P50] <= 51000);
    assert_true(past.v[AS_BENCH_REPORT_BETWEEN_MEAN] == 5.5);
    assert_true(past.v[AS_BENCH_REPORT_BETWEEN_MAX] == 10);
    assert_true(past.v[AS_BENCH_REPORT_MAX] == 20000); /* the latencies of calls are the same */
    past.v[AS_BENCH_REPORT_RESPONSES] = 110;
    text.n = 0;
    as_bench_report_text(&text, &r, &past, false);
    assert_non_null(
        strstr(terminated(&text), "\n  responses  220.0/s\n  first      mean 50.500 p50 "));
    assert_non_null(strstr(terminated(&text), "\n  between    mean 0.005 p50 "));
    assert_non_null(strstr(terminated(&text), "220       2.000  better\n  first mean "));
    r.stream = false; /* compared with a result of streams */
    text.n = 0;
    as_bench_report_text(&text, &r, &past, false);
    assert_null(strstr(terminated(&text), "responses"));
    assert_null(strstr(terminated(&text), "first"));
    as_buf_fini(&why);
}

static void an_earlier_result_is_compared(void **state AS_UNUSED)
{
    struct as_bench_report_baseline past = {.v = {[AS_BENCH_REPORT_RATE] = 990,
                                                  [AS_BENCH_REPORT_P99] = 500,
                                                  [AS_BENCH_REPORT_MAX] = 20000,
                                                  [AS_BENCH_REPORT_FAILED] = 0},
                                            .has = {[AS_BENCH_REPORT_RATE] = true,
                                                    [AS_BENCH_REPORT_P99] = true,
                                                    [AS_BENCH_REPORT_MAX] = true,
                                                    [AS_BENCH_REPORT_FAILED] = true}};
    struct as_bench_report r;

    fill_tally();
    r = report_of();
    text.n = 0;
    as_bench_report_json(&text, &r, &past);
    terminated(&text);
    assert_non_null(strstr((char *)text.p, "\"per_second\":{\"before\":990.000,\"now\":1980.000,"
                                           "\"ratio\":2.0000,\"verdict\":\"better\"}"));
    assert_non_null(strstr((char *)text.p, "\"verdict\":\"worse\"}"));
    assert_non_null(strstr((char *)text.p,
                           "\"latency_us.max\":{\"before\":20000.000,\"now\":20000.000,"
                           "\"ratio\":1.0000,\"verdict\":\"same\"}"));
    assert_non_null(strstr((char *)text.p,
                           "\"failed\":{\"before\":0.000,\"now\":3.000,\"verdict\":\"worse\"}"));
    text.n = 0;
    as_bench_report_text(&text, &r, &past, true);
    terminated(&text);
    assert_non_null(strstr((char *)text.p, "2.000  better"));
    assert_non_null(strstr((char *)text.p, "RESOURCE_EXHAUSTED            2  the queue is full"));
    assert_non_null(strstr((char *)text.p, "1 calls were never answered"));
}

static void an_empty_measurement_is_reported(void **state AS_UNUSED)
{
    struct as_bench_report r = report_of();
    struct as_bench_report_baseline past;
    struct as_buf why = {0};

    tally = (struct as_tally){.unsent = 0};
    r.seconds = 0;
    text.n = 0;
    as_bench_report_text(&text, &r, NULL, true);
    text.n = 0;
    as_bench_report_json(&text, &r, NULL);
    assert_int_equal(as_bench_report_parse(&text, &past, &why), 0);
    as_buf_fini(&why);
}

/* --- reading --- */

/* Why a file with this text is refused; "": it is not. */
static const char *parse_error(const char *json)
{
    static struct as_buf why;
    struct as_bench_report_baseline past;
    int rc;

    text.n = why.n = 0;
    as_buf_str(&text, json);
    rc = as_bench_report_parse(&text, &past, &why);
    assert_int_equal(rc, why.n ? AS_EINVALID : 0);
    snprintf(shown, sizeof(shown), "%.*s", AS_STR_FMT(as_buf_slice(&why)));
    as_buf_fini(&why);
    return shown;
}

static void files_that_are_no_results_are_refused(void **state AS_UNUSED)
{
    static const char *const wrong[] = {"{\"per_second\":1}",
                                        "[1]",
                                        "{}",
                                        "{\"per_second\":\"1\",\"latency_us\":{\"p50\":1}}",
                                        "{\"per_second\":1,\"latency_us\":[{\"p50\":1}]}",
                                        "{\"per_second\":1,\"latency_us\":{\"a\":{\"p50\":1}}}",
                                        "{\"per_second\":1,\"latency_us\":{\"p50\":1e999}}"};

    assert_string_equal(parse_error("{\"per_second\":1,\"latency_us\":{\"p50\":2}}"), "");
    for (size_t i = 0; i < AS_COUNT(wrong); i++)
        assert_string_equal(parse_error(wrong[i]), "is not a result of anyserve bench --json");
    assert_non_null(
        strstr(parse_error("{\"per_second\":1"), "cannot be parsed: not JSON at byte "));
    assert_non_null(strstr(parse_error(""), "cannot be parsed: not JSON"));
    assert_non_null(
        strstr(parse_error("{\"per_second\":1,\"latency_us\":{\"p50\":2}} 1"), "not JSON"));
}

static void errors_have_a_code(void **state AS_UNUSED)
{
    text.n = 0;
    as_fault_write(&text, "infer", 105, AS_STR("no \"m\""), false);
    assert_string_equal(terminated(&text), "anyserve infer: NOT_FOUND: no \"m\"\n");
    text.n = 0;
    as_fault_write(&text, "infer", 105, AS_STR("no \"m\""), true);
    assert_string_equal(terminated(&text), "{\"error\":{\"code\":\"NOT_FOUND\",\"exit_code\":105,"
                                           "\"message\":\"no \\\"m\\\"\"}}\n");
    text.n = 0;
    as_fault_write(&text, "bench", 2, AS_STR("x"), true);
    assert_non_null(strstr(terminated(&text), "\"code\":\"USAGE\""));
}

static int fini(void **state AS_UNUSED)
{
    as_buf_fini(&text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_is_counted_once),
        cmocka_unit_test(a_json_report_is_parsed_again),
        cmocka_unit_test(streams_have_times_of_responses),
        cmocka_unit_test(an_earlier_result_is_compared),
        cmocka_unit_test(an_empty_measurement_is_reported),
        cmocka_unit_test(files_that_are_no_results_are_refused),
        cmocka_unit_test(errors_have_a_code),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, fini);
}
