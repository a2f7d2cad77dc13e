/* link/call/report: what a worker reports is checked before anything prints it. */
#include "link/call/report.h"

#include "base/err.h"
#include "unit.h"

#include <string.h>

static char why[200];

static int check(uint32_t kind, const char *text)
{
    why[0] = 0;
    return as_report_check(kind, as_str_of(text), why, sizeof(why));
}

static void assert_wrong(const char *text, const char *reason)
{
    if (check(AS_REPORT_METRICS, text) != AS_EINVALID)
        fail_msg("accepted: %s", text);
    assert_string_equal(why, reason);
}

static const char whole[] = "F requests counter \"How many \\\"requests\\\".\"\n"
                            "S requests {} 3\n"
                            "S requests {model=\"a\\\\b\\\"c\\n\",x_1=\"\"} 2.5e3\n"
                            "F load gauge \"\"\n"
                            "S load {a=\"b\"} NaN\n"
                            "S load {a=\"c\"} -Inf\n"
                            "F time histogram \"s\"\n"
                            "S time_bucket {le=\"1\"} 1\n"
                            "S time_bucket {le=\"+Inf\"} 2\n"
                            "S time_sum {} 7\n"
                            "S time_count {} 2\n";

static void metrics_are_families_with_series(void **state AS_UNUSED)
{
    struct as_str rest = as_str_of(whole);
    struct as_report_family f;
    struct as_report_series s;

    assert_int_equal(check(AS_REPORT_METRICS, whole), 0);
    assert_true(as_report_next_family(&rest, &f));
    assert_true(as_str_eq(f.name, AS_STR("requests")));
    assert_true(as_str_eq(f.kind, AS_STR("counter")));
    assert_true(as_str_eq(f.help, AS_STR("\"How many \\\"requests\\\".\"")));
    assert_true(as_report_next_series(&f.series, &s));
    assert_true(as_str_eq(s.name, AS_STR("requests")));
    assert_true(as_str_eq(s.labels, AS_STR("{}")));
    assert_true(as_str_eq(s.value, AS_STR("3")));
    assert_true(as_report_next_series(&f.series, &s));
    assert_true(as_str_eq(s.value, AS_STR("2.5e3")));
    assert_false(as_report_next_series(&f.series, &s));
    assert_true(as_report_next_family(&rest, &f));
    assert_true(as_report_next_family(&rest, &f));
    assert_true(as_str_eq(f.name, AS_STR("time")));
    for (int i = 0; i < 4; i++)
        assert_true(as_report_next_series(&f.series, &s));
    assert_true(as_str_eq(s.name, AS_STR("time_count")));
    assert_false(as_report_next_family(&rest, &f));
    assert_int_equal(check(AS_REPORT_METRICS, ""), 0);
    rest = AS_STR("");
    assert_false(as_report_next_family(&rest, &f));
}

static void lines_of_metrics_are_checked(void **state AS_UNUSED)
{
    assert_wrong("x\n", "line 1 of the metrics: it begins with neither F nor S");
    assert_wrong("F a gauge \"\"\n\n", "line 2 of the metrics: it begins with neither F nor S");
    assert_wrong("S a {} 1\n", "line 1 of the metrics: a series before its family");
    assert_wrong("F 1a gauge \"\"\n",
                 "line 1 of the metrics: the name of the family is not one of a metric");
    assert_wrong("F anyserve_up gauge \"\"\n", "line 1 of the metrics: the name begins with "
                                               "anyserve_, as those of the server do");
    assert_wrong("F a summary \"\"\n",
                 "line 1 of the metrics: the kind is neither counter, gauge nor histogram");
    assert_wrong("F a gauge help\n", "line 1 of the metrics: the help is not a JSON string");
    assert_wrong("F a gauge \"x\" y\"\n", "line 1 of the metrics: the help is not a JSON string");
    assert_wrong("F a gauge \"x\\\"\n", "line 1 of the metrics: the help is not a JSON string");
    assert_wrong("F a gauge\n", "line 1 of the metrics: the help is not a JSON string");
    assert_wrong("F a gauge \"\\x\"\n", "line 1 of the metrics: the help is not a JSON string");
    assert_wrong("F a gauge \"\\u12g4\"\n", "line 1 of the metrics: the help is not a JSON string");
    assert_wrong("F a gauge \"\\u12\"\n", "line 1 of the metrics: the help is not a JSON string");
    assert_wrong("F a gauge \"\xff\"\n", "the metrics are not UTF-8");
    assert_int_equal(as_report_check(AS_REPORT_METRICS, (struct as_str){"F a gauge \"\\\0\"\n", 15},
                                     why, sizeof(why)),
                     AS_EINVALID);
    assert_wrong("F a gauge \"\"\nS b {} 1\n",
                 "line 2 of the metrics: the series belongs to another family");
    assert_wrong("F a gauge \"\"\nS a_sum {} 1\n",
                 "line 2 of the metrics: the series belongs to another family");
    assert_wrong("F a histogram \"\"\nS a {} 1\n", "line 2 of the metrics: a series of a histogram "
                                                   "is neither _sum, _count nor _bucket");
}

static void labels_and_values_are_checked(void **state AS_UNUSED)
{
    static const char *const bad[] = {
        "a 1",        "{ 1",          "{b} 1",         "{b=} 1",           "{b=\"} 1",
        "{b=\"x\" 1", "{b=\"x\",} 1", "{=\"x\"} 1",    "{1=\"x\"} 1",      "{b=\"\\x\"} 1",
        "{b=\"x\"}1", "{b=\"x\"}",    "{b:c=\"x\"} 1", "{b=\"x\"c=\"\"} 1"};
    static const char *const numbers[] = {"",    "x",   "1 2", "1x",  "0x10",
                                          "0X1", "--1", "1\r", "\t1", "nan(1)"};
    char text[200];

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        snprintf(text, sizeof(text), "F a gauge \"\"\nS a %s\n", bad[i]);
        assert_wrong(text, "line 2 of the metrics: it is not NAME {LABELS} VALUE");
    }
    for (size_t i = 0; i < AS_COUNT(numbers); i++) {
        snprintf(text, sizeof(text), "F a gauge \"\"\nS a {} %s\n", numbers[i]);
        assert_wrong(text, "line 2 of the metrics: the value is not a number");
    }
    snprintf(text, sizeof(text), "F a gauge \"\"\nS a {} %064d\n", 1);
    assert_int_equal(check(AS_REPORT_METRICS, text), 0);
    snprintf(text, sizeof(text), "F a gauge \"\"\nS a {} %065d\n", 1);
    assert_wrong(text, "line 2 of the metrics: the value is not a number");
}

static void the_others_are_json(void **state AS_UNUSED)
{
    assert_int_equal(check(AS_REPORT_MODEL_IDS, "[\"a\", \"b\"]"), 0);
    assert_int_equal(check(AS_REPORT_MODEL_IDS, ""), 0);
    assert_int_equal(check(AS_REPORT_MODEL_IDS, "{}"), AS_EINVALID);
    assert_string_equal(why, "it is no JSON array");
    assert_int_equal(check(AS_REPORT_ROUTING, "{\"a\": [1, 2.5, null]}"), 0);
    assert_int_equal(check(AS_REPORT_ROUTING, "[]"), AS_EINVALID);
    assert_string_equal(why, "it is no JSON object");
    assert_int_equal(check(AS_REPORT_AUTOSCALING, "{\"a\": }"), AS_EINVALID);
    assert_true(why[0]);
    assert_int_equal(check(AS_REPORT_AUTOSCALING, "{} {}"), AS_EINVALID);
    assert_int_equal(check(AS_REPORT_AUTOSCALING, "{\"a\": \"\xff\"}"), AS_EINVALID);
    assert_int_equal(check(AS_REPORT_AUTOSCALING, "{"), AS_EINVALID);
}

static void assert_stats(const char *text, uint32_t max_names, const char *reason)
{
    int err = as_report_check_stats(as_str_of(text), max_names, why, sizeof(why));

    if (!reason)
        assert_int_equal(err, 0);
    else if (err != AS_EINVALID)
        fail_msg("accepted: %s", text);
    else
        assert_string_equal(why, reason);
}

static void statistics_for_autoscaling_are_numbers(void **state AS_UNUSED)
{
    assert_stats("", 1, NULL);
    assert_stats("{}", 1, NULL);
    assert_stats("{\"a\": 1, \"b\": -2.5e3, \"c\": true}", 3, NULL);
    assert_stats("{\"a\": 1, \"b\": 2, \"c\": 3}", 2,
                 "it has more than 2 values (--max-scaling-stats)");
    assert_stats("{\"a b\": null}", 9, "'a b' is no finite number");
    assert_stats("{\"a\": \"1\"}", 9, "'a' is no finite number");
    assert_stats("{\"a\": [1]}", 9, "'a' is no finite number");
    assert_stats("{\"a\": 1e999}", 9, "'a' is no finite number");
    assert_stats("{\"\": 1}", 9, "a value has no name");
    assert_stats("[1]", 9, "it is no JSON object");
    assert_stats("{\"a\": 1", 9, "it is no JSON object");
    assert_stats("{\"a\": NaN}", 9, "it is no JSON object");
    assert_stats("{\"a\": 1} 2", 9, "it is no JSON object");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_are_families_with_series),
        cmocka_unit_test(lines_of_metrics_are_checked),
        cmocka_unit_test(labels_and_values_are_checked),
        cmocka_unit_test(the_others_are_json),
        cmocka_unit_test(statistics_for_autoscaling_are_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
