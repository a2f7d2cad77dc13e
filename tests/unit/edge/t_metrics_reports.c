/* /metrics: what replicas report of their users' metrics, merged over the replicas. */
#include "call_world.h"

#include "edge/admin/metrics_internal.h"

static void report(struct hand *h, const char *token, const char *text)
{
    struct as_frame_report r = {AS_REPORT_METRICS, as_str_of(text)};
    uint64_t received = link_of(token)->received;

    as_frame_put_report(&h->out, &r);
    UNTIL(link_of(token)->received > received);
}

static void families_are_merged(void **state AS_UNUSED)
{
    struct as_status_page page = {0};
    struct as_buf out = {0};
    struct hand *a, *b;

    begin_calls(calls_conf());
    page.fleet = w.fleet;
    a = serve(0, "d", "Callee");
    b = serve(1, "e", "Callee");
    as_metrics_reports(&page, &out);
    assert_int_equal(out.n, 0);
    report(a, "d",
           "F loads counter \"All \\\"loads\\\": \\u00e9\\ud83d\\ude00 a\\\\b\\nnext\"\n"
           "S loads {replica=\"0\"} 1\n"
           "F b gauge \"the first\"\n"
           "S b {} 5\n");
    report(b, "e",
           "F b histogram \"another kind\"\n"
           "S b_sum {} 6\n"
           "F a gauge \"\"\n"
           "S a {} 7\n"
           "F loads counter \"later\"\n"
           "S loads {replica=\"1\"} 2\n"
           "F z gauge \"\\ud83d\\u0041\\udc00\"\n");
    as_metrics_reports(&page, &out);
    assert_string_equal(as_buf_cstr(&out),
                        "# HELP a \n# TYPE a gauge\na{} 7\n"
                        "# HELP b the first\n# TYPE b gauge\nb{} 5\n"
                        "# HELP loads All \"loads\": \xc3\xa9\xf0\x9f\x98\x80 a\\\\b\\nnext\n"
                        "# TYPE loads counter\nloads{replica=\"0\"} 1\nloads{replica=\"1\"} 2\n"
                        "# HELP z \xef\xbf\xbd"
                        "A\xef\xbf\xbd\n# TYPE z gauge\n");
    as_buf_fini(&out);
    end();
}

/* The metrics of a replica go with it. */
static void of_replicas_that_are_there(void **state AS_UNUSED)
{
    struct as_status_page page = {0};
    struct as_buf out = {0};
    struct hand *a;

    begin_calls(calls_conf());
    page.fleet = w.fleet;
    a = serve(0, "d", "Callee");
    report(a, "d", "F a gauge \"\"\nS a {} 7\n");
    die(0, "d");
    as_metrics_reports(&page, &out);
    assert_int_equal(out.n, 0);
    as_buf_fini(&out);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_merged),
        cmocka_unit_test(of_replicas_that_are_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
