/* Specification of tool/simulate/trace: what a row means, and which lines are refused, with their
 * places. */
#include "tool/simulate/trace.h"

#include "unit.h"

#define ROWS 8u

/* The rows of a text, or its error (`err`). Returns how many rows there are, or the error. */
static int read_trace(const char *text, struct as_trace_row *rows, uint32_t most,
                      struct as_buf *err)
{
    struct as_trace *t = as_trace_new("t");
    int n = 0, rc = 0;

    while (*text && rc >= 0) {
        size_t len = strcspn(text, "\n");
        char *line = as_xalloc(len + 1 + AS_TRACE_PADDING);

        memcpy(line, text, len);
        assert_true((uint32_t)n < most);
        rc = as_trace_line(t, (struct as_str){line, len}, &rows[n], err);
        n += rc > 0;
        text += len + (text[len] == '\n');
        free(line);
    }
    as_trace_free(t);
    return rc < 0 ? rc : n;
}

static void expect(const char *text, int n, struct as_trace_row *rows)
{
    struct as_buf err = {0};
    int rc = read_trace(text, rows, ROWS, &err);

    if (rc != n)
        fail_msg("%s: %d, %s", text, rc, as_buf_cstr(&err));
    as_buf_fini(&err);
}

static void refuse(const char *text, const char *why)
{
    struct as_trace_row rows[ROWS];
    struct as_buf err = {0};

    assert_int_equal(read_trace(text, rows, ROWS, &err), AS_EINVALID);
    assert_string_equal(as_buf_cstr(&err), why);
    as_buf_fini(&err);
}

static void csv_has_names_first(void **state AS_UNUSED)
{
    struct as_trace_row rows[ROWS];

    expect("\xef\xbb\xbfservice_ms, arrival_s\r\n10,0\r\n\n0.25,1.5e-3\n,2\n", 3, rows);
    assert_int_equal(rows[0].arrival, 0);
    assert_int_equal(rows[0].service, 10 * AS_MS);
    assert_int_equal(rows[0].deadline, AS_NEVER);
    assert_int_equal(rows[0].priority, 1);
    assert_int_equal(rows[1].arrival, 1500 * AS_US);
    assert_int_equal(rows[1].service, 250 * AS_US);
    assert_int_equal(rows[2].service, AS_NEVER); /* an empty field is none */
    assert_int_equal(rows[2].arrival, 2 * AS_SEC);
}

static void all_columns_are_read(void **state AS_UNUSED)
{
    struct as_trace_row rows[ROWS];

    expect("arrival_s,service_ms,deployment,model_id,session_id,tenant,priority,deadline_ms\n"
           "1,2,,m,s,t,1,30\n"
           "1,2,,\"m\",other,\"t,\"\"\",9,0\n",
           2, rows);
    assert_int_equal(rows[0].deadline, 30 * AS_MS);
    assert_int_equal(rows[0].priority, 0);
    assert_int_equal(rows[1].priority, 2);
    assert_int_equal(rows[1].deadline, 0);
    assert_true(rows[0].model_key && rows[0].model_key == rows[1].model_key);
    assert_true(rows[0].session_key && rows[0].session_key != rows[1].session_key);
    assert_int_equal(rows[1].tenant_key, as_str_hash(AS_STR("t,\"")));
}

static void json_lines_have_the_same_names(void **state AS_UNUSED)
{
    struct as_trace_row rows[ROWS];

    expect("{\"arrival_s\": 0.1, \"service_ms\": 12.5, \"model_id\": \"m\", \"tenant\": null}\n"
           "{\"arrival_s\": 1, \"session_id\": 7, \"priority\": 3}\n",
           2, rows);
    assert_int_equal(rows[0].arrival, 100 * AS_MS);
    assert_int_equal(rows[0].service, 12500 * AS_US);
    assert_int_equal(rows[0].model_key, as_str_hash(AS_STR("m")));
    assert_int_equal(rows[0].tenant_key, 0);
    assert_int_equal(rows[1].session_key, as_str_hash(AS_STR("7")));
    assert_int_equal(rows[1].priority, 2);
}

static void traces_of_mooncake_are_read(void **state AS_UNUSED)
{
    struct as_trace_row rows[ROWS];

    expect(
        "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, "
        "47]}\n"
        "{\"timestamp\": 30535, \"input_length\": 1, \"output_length\": 2, \"hash_ids\": []}\n",
        2, rows);
    assert_int_equal(rows[0].arrival, 27482 * AS_MS);
    assert_int_equal(rows[0].session_key, as_str_hash(AS_STR("46")));
    assert_int_equal(rows[0].service, AS_NEVER);
    assert_int_equal(rows[1].session_key, 0);
}

static void times_are_exact_to_their_bounds(void **state AS_UNUSED)
{
    struct as_trace_row rows[ROWS];

    expect("arrival_s,service_ms\n1700000000.123456789,604800000\n", 1, rows);
    assert_int_equal(rows[0].arrival, 1700000000123456789u);
    assert_int_equal(rows[0].service, AS_TRACE_TIME_MAX);
    refuse("arrival_s,service_ms\n0,604800000.000001\n",
           "t:2:3: service_ms: 604800000.000001 is above the maximum 604800000");
    refuse("arrival_s\n1e999999999\n",
           "t:2:1: arrival_s: 1e999999999 is above the maximum 4611686018");
}

static void a_wrong_csv_is_refused_with_its_place(void **state AS_UNUSED)
{
    refuse("arrival_s,service_ms\n1,10\n2,abc\n",
           "t:3:3: service_ms: 'abc' is not a number that is at least 0");
    refuse("arrival_s\nnan\n", "t:2:1: arrival_s: 'nan' is not a number that is at least 0");
    refuse("arrival_s\n-1\n", "t:2:1: arrival_s: '-1' is not a number that is at least 0");
    refuse("arrival_s\ninf\n", "t:2:1: arrival_s: 'inf' is not a number that is at least 0");
    refuse("arrival_s\n0x10\n", "t:2:1: arrival_s: '0x10' is not a number that is at least 0");
    refuse("arrival_s\n2\n1\n", "t:3: it arrives before the request of the row before; a trace is "
                                "sorted by the times of arrival");
    refuse("arrival_s,service_ms\n1\n", "t:2:2: there are fewer fields than columns (2)");
    refuse("arrival_s\n1,2\n", "t:2:3: there are more fields than columns (1)");
    refuse("arrival_s,servce_ms\n",
           "t:1:11: 'servce_ms' is not a column of a trace; did you mean 'service_ms'?");
    refuse("arrival_s,arrival_s\n", "t:1:11: arrival_s comes twice");
    refuse("service_ms\n1\n", "t:1:1: the column arrival_s is missing");
    refuse("arrival_s,tenant\n1,\"a\n", "t:2:3: a quote is not closed in this line");
    refuse("arrival_s,tenant\n1,\"a\"b\n", "t:2:3: something follows a closing quote");
    refuse("arrival_s,priority\n1,1.5\n",
           "t:2:3: priority: '1.5' is not a whole number that is at least 0");
    refuse("arrival_s,tenant\n,a\n", "t:2: arrival_s is missing");
    refuse("arrival_s\n\x01\xff\n", "t:2:1: arrival_s: '..' is not a number that is at least 0");
}

static void a_wrong_json_is_refused_with_its_line(void **state AS_UNUSED)
{
    refuse("{\"arrival_s\": 1}\n[1]\n", "t:2: it is not an object");
    refuse("{\"arrival_s\": \"1\"}\n", "t:1: arrival_s: it is not a number");
    refuse("{\"arrival_s\": -1}\n", "t:1: arrival_s: '-1' is not a number that is at least 0");
    refuse("{\"arrival_s\": 1, \"arrival_s\": 2}\n", "t:1: arrival_s comes twice");
    refuse("{\"arrival_s\": 1, \"timestamp\": 2}\n", "t:1: it has both arrival_s and timestamp");
    refuse("{\"arrival_s\": 1, \"tenant\": {}}\n", "t:1: tenant: it is not a text");
    refuse("{\"timestamp\": 1, \"hash_ids\": [\"a\"]}\n",
           "t:1: hash_ids: it is not an array of numbers");
    refuse("{\"service_ms\": 1}\n", "t:1: arrival_s is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_has_names_first),
        cmocka_unit_test(all_columns_are_read),
        cmocka_unit_test(json_lines_have_the_same_names),
        cmocka_unit_test(traces_of_mooncake_are_read),
        cmocka_unit_test(times_are_exact_to_their_bounds),
        cmocka_unit_test(a_wrong_csv_is_refused_with_its_place),
        cmocka_unit_test(a_wrong_json_is_refused_with_its_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
