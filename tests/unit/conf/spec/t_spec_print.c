/* Specification of the texts of conf/spec/spec: YAML that is read as the same spec, JSON, the
 * schema, the page. */
#include "conf/spec/spec_diff.h"
#include "wire/json/json.h"

#include "spec_case.h"

static const char everything[] =
    "applications:\n"
    "  - name: shop\n"
    "    import_path: \"shop models.py:app\"\n"
    "    working_dir: /srv/shop\n"
    "    code: live\n"
    "    code_exclude:\n"
    "      - \"*.bin\"\n"
    "    env:\n"
    "      A: \"1\"\n"
    "      B: \"no\"\n"
    "      C: plain.text/x-y\n"
    "      D: \"\"\n"
    "    python: /venv/bin/python\n"
    "    args: {\"size\":\"8\"}\n"
    "    grpc_servicer_functions:\n"
    "      - a.add_BServicer_to_server\n"
    "    route_prefix: /shop\n"
    "    external_scaler_enabled: false\n"
    "    autoscaling_policy: {\"policy_function\":\"scaling:together\"}\n"
    "    deployments:\n"
    "      - name: rank\n"
    "        num_replicas: \"auto\"\n"
    "        ingress: true\n"
    "        version: \"1.10\"\n"
    "        user_config: {\"a\":[1,2.5,null,\"x\\ny\"]}\n"
    "        max_ongoing_requests: 7\n"
    "        max_queued_requests: -1\n"
    "        max_queued_requests_per_caller: true\n"
    "        priority_share: 4\n"
    "        fairness: tenant\n"
    "        fairness_cost: items\n"
    "        codel_target_s: 0.005\n"
    "        codel_interval_s: 0.2\n"
    "        slow_start_s: 10\n"
    "        adaptive_concurrency: true\n"
    "        hedge_quantile: 0.95\n"
    "        hedge_budget: 0.05\n"
    "        hedge_min_delay_s: 0.01\n"
    "        request_timeout_s: 0.25\n"
    "        idempotent: false\n"
    "        execution_timeout_s: 3\n"
    "        health_check_period_s: 1.5\n"
    "        health_check_timeout_s: 2\n"
    "        health_check_failure_threshold: 4\n"
    "        fallback: other\n"
    "        canary_percent: 12.5\n"
    "        mirror_percent: 0.001\n"
    "        max_restarts: 9\n"
    "        warm_spares: 2\n"
    "        graceful_shutdown_wait_loop_s: 1\n"
    "        graceful_shutdown_timeout_s: 21\n"
    "        rolling_update_percentage: 0.5\n"
    "        max_surge: \"25%\"\n"
    "        max_unavailable: 1\n"
    "        autoscaling_config: {\"max_replicas\":3}\n"
    "        request_router_config: {\"max_backoff_s\":1}\n"
    "        backpressure_config: {\"status_code\":429}\n"
    "        num_cpus: 1.5\n"
    "        num_gpus: 2\n"
    "        cpu_affinity: \"0-1\"\n"
    "        memory: 512M\n"
    "        working_dir: x\n"
    "        env: {}\n"
    "        warmup_requests:\n"
    "          - model: m\n"
    "            model_version: \"2\"\n"
    "            count: 3\n"
    "            request: {\"inputs\":[]}\n"
    "        logging_config:\n"
    "          log_level: DEBUG\n"
    "          encoding: JSON\n"
    "          logs_dir: logs\n"
    "          enable_access_log: false\n"
    "          additional_log_standard_attrs:\n"
    "            - funcName\n"
    "  - name: resize\n"
    "    command:\n"
    "      - ./resize\n"
    "      - \"80\"\n"
    "target_capacity: 49.9\n"
    "target_capacity_direction: up\n";

static void printed_specs_are_read_as_the_same(void **state AS_UNUSED)
{
    struct as_spec *s = parse(everything);
    struct as_buf out = {0};

    as_spec_print(s, true, &out);
    as_buf_add(&out, "", 1);
    assert_string_equal((char *)out.p, everything);
    as_spec_free(s);
    as_buf_fini(&out);
}

/* Fails when a key is added to the table but not to the test above. */
static void every_key_is_in_the_test_above(void **state AS_UNUSED)
{
    for (size_t i = 0; i < AS_SPEC_KEYS; i++) {
        char key[80];

        /* it becomes other keys; others exclude them */
        if (i == AS_SPEC_APPLICATION_RUNTIME_ENV || i == AS_SPEC_DEPLOYMENT_MAX_SURGE_PERCENT ||
            i == AS_SPEC_DEPLOYMENT_MAX_CONSTRUCTOR_RETRIES)
            continue;
        snprintf(key, sizeof(key), " %s:", as_spec_rows[i].key);
        assert_non_null(strstr(everything, key + (as_spec_rows[i].level == AS_SPEC_LEVEL_FILE)));
    }
}

static void defaults_are_written_out(void **state AS_UNUSED)
{
    struct as_spec *s = parse("applications: []"), *again;
    struct as_buf out = {0};

    as_spec_print(s, true, &out);
    as_buf_add(&out, "", 1);
    assert_string_equal((char *)out.p, "applications: []\n");
    as_spec_free(s);
    s = parse(DEPLOYMENT("# nothing"));
    out.n = 0;
    as_spec_print(s, true, &out);
    as_buf_add(&out, "", 1);
    assert_non_null(strstr((char *)out.p, "        health_check_period_s: 10\n"));
    assert_null(strstr((char *)out.p, "num_gpus"));
    assert_null(strstr((char *)out.p, "logging_config")); /* when printed, it would be set */
    again = parse((char *)out.p);
    assert_int_equal(as_spec_compare(app_of(s, 0), deployment_of(s, 0, 0), app_of(again, 0),
                                     deployment_of(again, 0, 0), NULL),
                     AS_SPEC_SAME);
    as_spec_free(again);
    as_spec_free(s);
    as_buf_fini(&out);
}

static void json_has_the_values_that_were_set_or_all(void **state AS_UNUSED)
{
    struct as_spec *s = parse(DEPLOYMENT("num_replicas: 2, env: {A: 'x\"'}, memory: 1M, "
                                         "user_config: [1], warmup_requests: [{request: {}}]"));
    struct as_buf out = {0};

    as_spec_json(deployment_of(s, 0, 0), false, &out);
    as_buf_add(&out, "", 1);
    assert_string_equal((char *)out.p,
                        "{\"name\":\"d\",\"num_replicas\":2,\"user_config\":[1],\"memory\":1048576,"
                        "\"env\":{\"A\":\"x\\\"\"},\"warmup_requests\":[{\"request\":{}}]}");
    out.n = 0;
    as_spec_json(deployment_of(s, 0, 0), true, &out);
    as_buf_add(&out, "", 1);
    assert_non_null(strstr((char *)out.p, "\"rolling_update_percentage\":0.2,"));
    assert_non_null(strstr((char *)out.p, "[{\"count\":1,\"request\":{}}]"));
    assert_non_null(strstr((char *)out.p, "{\"log_level\":\"INFO\",\"encoding\":\"TEXT\","
                                          "\"enable_access_log\":true}"));
    as_spec_free(s);
    as_buf_fini(&out);
}

/* Here only that it is JSON with every key; its meaning is tested end to end with jsonschema. */
static void the_schema_names_every_key(void **state AS_UNUSED)
{
    struct as_buf out = {0};
    struct as_json_value root;
    struct as_json *j = as_json_new();
    struct as_arena a;
    size_t n;

    as_arena_init(&a, NULL, 0);
    as_spec_schema(&out);
    n = out.n;
    memset(as_buf_reserve(&out, AS_JSON_PADDING), 0, AS_JSON_PADDING);
    for (size_t i = 0; i < AS_SPEC_KEYS; i++) {
        char key[80];

        /* it becomes other keys; others exclude them */
        if (i == AS_SPEC_APPLICATION_RUNTIME_ENV || i == AS_SPEC_DEPLOYMENT_MAX_SURGE_PERCENT ||
            i == AS_SPEC_DEPLOYMENT_MAX_CONSTRUCTOR_RETRIES)
            continue;
        snprintf(key, sizeof(key), "\"%s\":{", as_spec_rows[i].key);
        assert_non_null(strstr((char *)out.p, key));
    }
    assert_int_equal(as_json_open(j, &a, out.p, n, &root), 0);
    assert_int_equal(as_json_skip(j, &root), 0);
    assert_int_equal(as_json_expect_end(j), 0);
    as_json_close(j);
    as_json_free(j);
    as_arena_fini(&a);
    as_buf_fini(&out);
}

static void the_pages_example_is_valid_and_no_key_is_missing(void **state AS_UNUSED)
{
    struct as_buf page = {0};
    char *from, *to;

    as_spec_markdown(&page);
    as_buf_add(&page, "", 1);
    for (size_t i = 0; i < AS_SPEC_KEYS; i++) {
        char key[80];

        /* it becomes other keys; others exclude them */
        if (i == AS_SPEC_APPLICATION_RUNTIME_ENV || i == AS_SPEC_DEPLOYMENT_MAX_SURGE_PERCENT ||
            i == AS_SPEC_DEPLOYMENT_MAX_CONSTRUCTOR_RETRIES)
            continue;
        snprintf(key, sizeof(key), "\n| `%s` |", as_spec_rows[i].key);
        assert_non_null(strstr((char *)page.p, key));
    }
    from = strchr(strstr((char *)page.p, "```yaml "), '\n') + 1;
    to = strstr(from, "```");
    *to = 0;
    as_spec_free(parse(from));
    as_buf_fini(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed_specs_are_read_as_the_same),
        cmocka_unit_test(every_key_is_in_the_test_above),
        cmocka_unit_test(defaults_are_written_out),
        cmocka_unit_test(json_has_the_values_that_were_set_or_all),
        cmocka_unit_test(the_schema_names_every_key),
        cmocka_unit_test(the_pages_example_is_valid_and_no_key_is_missing),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
