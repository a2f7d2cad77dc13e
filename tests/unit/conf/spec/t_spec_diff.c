/* Specification of conf/spec/spec_diff: which deployments a new file changes, and the class of each
 * change. */
#include "conf/spec/spec_diff.h"

#include "spec_case.h"

static void check(const char *before, const char *after, enum as_spec_class cls, const char *keys)
{
    struct as_spec *a = parse(before), *b = parse(after);
    struct as_buf out = {0};

    assert_int_equal(as_spec_compare(app_of(a, 0), deployment_of(a, 0, 0), app_of(b, 0),
                                     deployment_of(b, 0, 0), &out),
                     cls);
    assert_true(as_str_eq(as_buf_slice(&out), as_str_of(keys)));
    /* the hash of each class agrees */
    for (int k = AS_SPEC_LIGHT; k <= AS_SPEC_RESTART; k++) {
        bool same = as_spec_hash(app_of(a, 0), deployment_of(a, 0, 0), (enum as_spec_class)k) ==
                    as_spec_hash(app_of(b, 0), deployment_of(b, 0, 0), (enum as_spec_class)k);

        assert_true(same || k <= (int)cls);
        assert_true(!same || k != (int)cls);
    }
    as_buf_fini(&out);
    as_spec_free(a);
    as_spec_free(b);
}

static void meaning_is_compared_not_spelling(void **state AS_UNUSED)
{
    check(DEPLOYMENT("num_replicas: 1"), DEPLOYMENT("# the default"), AS_SPEC_SAME, "");
    check(DEPLOYMENT("memory: 1G"), DEPLOYMENT("memory: 1073741824"), AS_SPEC_SAME, "");
    check(DEPLOYMENT("request_timeout_s: 1.50"), DEPLOYMENT("request_timeout_s: 15e-1"),
          AS_SPEC_SAME, "");
    check(DEPLOYMENT("user_config: {a: 1, b: 'x'}"), DEPLOYMENT("user_config: {\"b\": x, a: 0x1}"),
          AS_SPEC_SAME, "");
    check(DEPLOYMENT("env: {A: 1, B: 2}"), DEPLOYMENT("env: {B: '2', A: '1'}"), AS_SPEC_SAME, "");
    check(DEPLOYMENT("logging_config: {}"), DEPLOYMENT("logging_config: {encoding: TEXT}"),
          AS_SPEC_SAME, "");
}

static void the_highest_class_counts(void **state AS_UNUSED)
{
    check(DEPLOYMENT("num_replicas: 1"), DEPLOYMENT("num_replicas: 3"), AS_SPEC_LIGHT,
          "num_replicas");
    check(DEPLOYMENT("user_config: 1"), DEPLOYMENT("user_config: '1'"), AS_SPEC_RECONFIGURE,
          "user_config");
    check(DEPLOYMENT("num_replicas: 2"), DEPLOYMENT("user_config: {}"), AS_SPEC_RECONFIGURE,
          "num_replicas,user_config");
    check(DEPLOYMENT("version: 1"), DEPLOYMENT("version: 2, num_replicas: 2"), AS_SPEC_RESTART,
          "num_replicas,version");
    check(DEPLOYMENT("logging_config: {log_level: DEBUG}"), DEPLOYMENT("# default"),
          AS_SPEC_RECONFIGURE, "logging_config");
    check(DEPLOYMENT("warmup_requests: [{request: {}}]"),
          DEPLOYMENT("warmup_requests: [{request: {}, count: 2}]"), AS_SPEC_RESTART,
          "warmup_requests");
    check(DEPLOYMENT("env: {A: ''}"), DEPLOYMENT("env: {}"), AS_SPEC_RESTART, "env");
    /* to set a limit to the value that it has by default is a change: the default may change */
    check(DEPLOYMENT("num_gpus: 0"), DEPLOYMENT("# unset"), AS_SPEC_RESTART, "num_gpus");
}

static void an_application_s_keys_are_its_deployments(void **state AS_UNUSED)
{
    check("applications: [{import_path: a, deployments: [{name: d}]}]",
          "applications: [{import_path: b, deployments: [{name: d}]}]", AS_SPEC_RESTART,
          "import_path");
    check("applications: [{import_path: a, env: {A: 1}, deployments: [{name: d}]}]",
          "applications: [{import_path: a, deployments: [{name: d}]}]", AS_SPEC_RESTART, "env");
    check("applications: [{import_path: a, code: live, deployments: [{name: d}]}]",
          "applications: [{import_path: a, deployments: [{name: d}]}]", AS_SPEC_RESTART, "code");
    check("applications: [{import_path: a, code_exclude: [b], deployments: [{name: d}]}]",
          "applications: [{import_path: a, deployments: [{name: d}]}]", AS_SPEC_LIGHT,
          "code_exclude");
}

/* The class of each key of an application and a deployment is that of the table. */
static void hashes_know_every_key(void **state AS_UNUSED)
{
    static const struct {
        enum as_spec_key id;
        const char *value;
    } values[] = {
        {AS_SPEC_DEPLOYMENT_MAX_ONGOING_REQUESTS, "max_ongoing_requests: 7"},
        {AS_SPEC_DEPLOYMENT_MAX_QUEUED_REQUESTS, "max_queued_requests: 7"},
        {AS_SPEC_DEPLOYMENT_MAX_QUEUED_PER_CALLER, "max_queued_requests_per_caller: true"},
        {AS_SPEC_DEPLOYMENT_PRIORITY_SHARE, "priority_share: 7"},
        {AS_SPEC_DEPLOYMENT_FAIRNESS, "fairness: tenant"},
        {AS_SPEC_DEPLOYMENT_FAIRNESS_COST, "fairness_cost: header"},
        {AS_SPEC_DEPLOYMENT_CODEL_TARGET, "codel_target_s: 7"},
        {AS_SPEC_DEPLOYMENT_CODEL_INTERVAL, "codel_interval_s: 7"},
        {AS_SPEC_DEPLOYMENT_SLOW_START, "slow_start_s: 7"},
        {AS_SPEC_DEPLOYMENT_ADAPTIVE, "adaptive_concurrency: true"},
        {AS_SPEC_DEPLOYMENT_HEDGE_QUANTILE, "hedge_quantile: 0.9"},
        {AS_SPEC_DEPLOYMENT_HEDGE_BUDGET, "hedge_budget: 0.1"},
        {AS_SPEC_DEPLOYMENT_HEDGE_MIN_DELAY, "hedge_min_delay_s: 7"},
        {AS_SPEC_DEPLOYMENT_IDEMPOTENT, "idempotent: false"},
        {AS_SPEC_DEPLOYMENT_EXECUTION_TIMEOUT, "execution_timeout_s: 7"},
        {AS_SPEC_DEPLOYMENT_HEALTH_CHECK_TIMEOUT, "health_check_timeout_s: 7"},
        {AS_SPEC_DEPLOYMENT_MAX_RESTARTS, "max_restarts: 7"},
        {AS_SPEC_DEPLOYMENT_ROLLING_UPDATE, "rolling_update_percentage: 0.7"},
        {AS_SPEC_DEPLOYMENT_MAX_SURGE, "max_surge: 7"},
        {AS_SPEC_DEPLOYMENT_MAX_UNAVAILABLE, "max_unavailable: 7%"},
        {AS_SPEC_DEPLOYMENT_NUM_CPUS, "num_cpus: 7"},
        {AS_SPEC_DEPLOYMENT_CPU_AFFINITY, "cpu_affinity: 7"},
        {AS_SPEC_DEPLOYMENT_MEMORY, "memory: 7M"},
        {AS_SPEC_DEPLOYMENT_WORKING_DIR, "working_dir: x"},
    };

    for (size_t i = 0; i < AS_COUNT(values); i++) {
        char text[200];

        snprintf(text, sizeof(text), DEPLOYMENT("%s"), values[i].value);
        check(DEPLOYMENT("# nothing"), text, as_spec_rows[values[i].id].cls,
              as_spec_rows[values[i].id].key);
    }
}

static void note(void *ctx, const struct as_spec_change *c)
{
    static const char *const steps[] = {"+", "-", "~", "="};

    as_buf_printf(ctx, "%s%s/%s %s;", steps[c->step], c->application, c->deployment, c->keys);
}

static void a_diff_has_added_changed_and_removed(void **state AS_UNUSED)
{
    struct as_spec *a = parse("applications:\n"
                              "- {name: a, import_path: a, deployments: [{name: x}, {name: y}]}\n"
                              "- {name: b, import_path: b, deployments: [{name: z}]}\n");
    struct as_spec *b = parse("applications:\n"
                              "- {name: c, import_path: c, deployments: [{name: z}]}\n"
                              "- {name: a, import_path: a, deployments: [{name: w},\n"
                              "   {name: y, num_replicas: 2}, {name: x}]}\n");
    struct as_buf out = {0};

    as_spec_diff(a, b, note, &out);
    as_buf_add(&out, "", 1);
    assert_string_equal((char *)out.p, "+c/z ;+a/w ;~a/y num_replicas;=a/x ;-b/z ;");
    out.n = 0;
    as_spec_diff(NULL, a, note, &out);
    as_buf_add(&out, "", 1);
    assert_string_equal((char *)out.p, "+a/x ;+a/y ;+b/z ;");
    as_buf_fini(&out);
    as_spec_free(a);
    as_spec_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meaning_is_compared_not_spelling),
        cmocka_unit_test(the_highest_class_counts),
        cmocka_unit_test(an_application_s_keys_are_its_deployments),
        cmocka_unit_test(hashes_know_every_key),
        cmocka_unit_test(a_diff_has_added_changed_and_removed),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
