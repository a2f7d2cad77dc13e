/* Specification of conf/spec/spec_plan: a deployment's keys as a target of core/replicas/plan, and
 * as the JSON object for a worker.
 */
#include "conf/spec/spec_plan.h"

#include "spec_case.h"
#include "wire/frame/frame_router.h"

static const struct as_plan_policy server = {
    .restart = {.base = AS_MS, .max = AS_SEC, .healthy = AS_SEC, .give_up = 5},
    .start_timeout = 120 * AS_SEC,
    .configure_timeout = 60 * AS_SEC,
    .drain_timeout = 1,
    .drain_interval = AS_SEC,
    .stop_timeout = 10 * AS_SEC,
    .min_ready = 3 * AS_SEC,
    .roll_percent = 100,
    .roll_failures = 3,
    .roll_back = true,
};

static struct as_plan_target target(const char *text)
{
    struct as_spec *s = parse(text);
    struct as_plan_target t;

    as_spec_plan_target(&t, app_of(s, 0), deployment_of(s, 0, 0), &server, 7);
    assert_null(as_plan_check(&t));
    as_spec_free(s);
    return t;
}

static void unset_keys_keep_the_servers_policy(void **state AS_UNUSED)
{
    struct as_plan_target t = target(DEPLOYMENT("# nothing"));

    assert_int_equal(t.generation, 7);
    assert_int_equal(t.replicas, 1);
    assert_int_equal(t.policy.restart.give_up, 5);
    assert_int_equal(t.policy.start_timeout, 120 * AS_SEC);
    assert_int_equal(t.policy.drain_interval, AS_SEC);
    assert_int_equal(t.policy.roll_failures, 3);
    assert_true(t.policy.roll_back);
    /* defaults of the table */
    assert_int_equal(t.policy.drain_timeout, 20 * AS_SEC);
    assert_int_equal(t.policy.roll_percent, 20);
}

static void keys_override_the_server(void **state AS_UNUSED)
{
    struct as_plan_target t =
        target(DEPLOYMENT("num_replicas: 1024, max_restarts: 2, graceful_shutdown_timeout_s: 0.5, "
                          "graceful_shutdown_wait_loop_s: 2, rolling_update_percentage: 0.5"));

    assert_int_equal(t.replicas, AS_PLAN_REPLICAS_MAX);
    assert_int_equal(t.policy.restart.give_up, 3); /* the first start and two more */
    assert_int_equal(t.policy.drain_timeout, 500 * AS_MS);
    assert_int_equal(t.policy.drain_interval, 2 * AS_SEC);
    assert_int_equal(t.policy.roll_percent, 50);
    assert_int_equal(target(DEPLOYMENT("max_restarts: -1")).policy.restart.give_up, 0);
    assert_int_equal(target(DEPLOYMENT("max_restarts: 0")).policy.restart.give_up, 1);
    /* Ray Serve counts the failures */
    assert_int_equal(target(DEPLOYMENT("max_constructor_retry_count: 3")).policy.restart.give_up,
                     3);
    assert_false(target(DEPLOYMENT("max_surge_percent: 0")).policy.has_surge);
    assert_true(target(DEPLOYMENT("max_surge_percent: 30")).policy.surge.percent);
    assert_int_equal(target(DEPLOYMENT("max_surge_percent: 30")).policy.surge.n, 30);
    assert_int_equal(target(DEPLOYMENT("rolling_update_percentage: 0.001")).policy.roll_percent, 1);
    assert_int_equal(target(DEPLOYMENT("rolling_update_percentage: 1")).policy.roll_percent, 100);
    assert_int_equal(target(DEPLOYMENT("num_replicas: 0")).replicas, 0);
    assert_false(t.policy.has_surge);
    assert_int_equal(t.policy.unavailable.n, 0);
    t = target(DEPLOYMENT("max_surge: 0, max_unavailable: 30%"));
    assert_true(t.policy.has_surge && t.policy.unavailable.percent && !t.policy.surge.percent);
    assert_int_equal(t.policy.surge.n, 0);
    assert_int_equal(t.policy.unavailable.n, 30);
}

/* A light change changes neither version nor config; a config does not change the version. */
static void classes_become_hashes(void **state AS_UNUSED)
{
    struct as_plan_target plain = target(DEPLOYMENT("# nothing"));
    struct as_plan_target light = target(DEPLOYMENT("num_replicas: 2, max_restarts: 1"));
    struct as_plan_target config = target(DEPLOYMENT("user_config: 1"));
    struct as_plan_target version = target(DEPLOYMENT("version: 1"));

    assert_true(light.version == plain.version && light.config == plain.config);
    assert_true(config.version == plain.version && config.config != plain.config);
    assert_true(version.version != plain.version && version.config == plain.config);
}

static void check_context(const char *lines, const char *want)
{
    struct as_spec *s = parse(lines);
    struct as_replica_slot_facts facts = {.rank = 1, .world = 3};
    struct as_buf b = {0};

    as_spec_put_context(app_of(s, 0), deployment_of(s, 0, 0), "d-4", &facts, &b);
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, want);
    as_buf_fini(&b);
    as_spec_free(s);
}

static void the_context_has_names_and_options(void **state AS_UNUSED)
{
    check_context(
        DEPLOYMENT("num_replicas: 3, num_cpus: 1"),
        "{\"replica\":\"d-4\",\"deployment\":\"d\",\"application\":\"default\",\"rank\":1,"
        "\"world_size\":3,\"local_rank\":1,\"node_rank\":0,\"options\":{}}");
    check_context(
        DEPLOYMENT("version: v\", user_config: {b: 1, a: [x]}, request_timeout_s: 0.5,\n"
                   "idempotent: true, logging_config: {encoding: JSON}, max_queued_requests: -1"),
        "{\"replica\":\"d-4\",\"deployment\":\"d\",\"application\":\"default\",\"version\":"
        "\"v\\\"\","
        "\"rank\":1,\"world_size\":3,\"local_rank\":1,\"node_rank\":0,\"user_config\":{\"a\":["
        "\"x\"],"
        "\"b\":1},\"options\":{\"max_queued_requests\":-1,\"request_timeout_s\":0.5,\"idempotent\":"
        "true,\"logging_config\":{\"encoding\":\"JSON\"}}}");
    check_context(
        DEPLOYMENT("warmup_requests: [{request: {inputs: []}, count: 2}, {request: {id: x}}]"),
        "{\"replica\":\"d-4\",\"deployment\":\"d\",\"application\":\"default\",\"rank\":1,"
        "\"world_size\":3,\"local_rank\":1,\"node_rank\":0,\"options\":{},\"warmup_requests\":["
        "{\"count\":2,\"request\":{\"inputs\":[]}},{\"request\":{\"id\":\"x\"}}]}");
}

static void check_changes(const char *text, bool user_config, const char *want)
{
    struct as_spec *s = parse(text);
    struct as_replica_slot_facts facts = {.rank = 1, .world = 3};
    struct as_buf b = {0};

    as_spec_put_changes(deployment_of(s, 0, 0), &facts, user_config, &b);
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, want);
    as_buf_fini(&b);
    as_spec_free(s);
}

#define RANKS "{\"rank\":1,\"world_size\":3,\"local_rank\":1,\"node_rank\":0,"

static void changes_have_user_config_only_on_request(void **state AS_UNUSED)
{
    check_changes(DEPLOYMENT("user_config: 5, version: x, request_timeout_s: 2"), true,
                  RANKS "\"user_config\":5,\"options\":{\"request_timeout_s\":2}}");
    check_changes(DEPLOYMENT("user_config: 5"), false, RANKS "\"options\":{}}");
    /* user_config was removed */
    check_changes(DEPLOYMENT("version: x"), true, RANKS "\"user_config\":null,\"options\":{}}");
}

static struct as_frame_router router; /* of read_settings */

/* The frames as the dispatcher reads them. */
static void read_settings(const char *text, bool debugging, struct as_frame_options *ret_o,
                          struct as_frame_traffic *ret_t, char fallback[16])
{
    struct as_spec *s = parse(text);
    struct as_buf b = {0};
    struct as_frame f;
    int64_t n;

    as_spec_put_settings(deployment_of(s, 0, 0), debugging, &b);
    n = as_frame_next(b.p, b.n, &f);
    assert_true(n > 0 && f.type == AS_FRAME_OPTIONS);
    assert_int_equal(as_frame_get_options(&f, ret_o), 0);
    n += as_frame_next(b.p + n, b.n - (size_t)n, &f);
    assert_int_equal(f.type, AS_FRAME_TRAFFIC);
    assert_int_equal(as_frame_get_traffic(&f, ret_t), 0);
    snprintf(fallback, 16, "%.*s", AS_STR_FMT(ret_t->fallback));
    assert_int_equal(as_frame_next(b.p + n, b.n - (size_t)n, &f), (int64_t)b.n - n);
    assert_int_equal(f.type, AS_FRAME_ROUTER);
    assert_int_equal(as_frame_get_router(&f, &router), 0);
    as_buf_fini(&b);
    as_spec_free(s);
}

static void settings_are_as_a_worker_says_them(void **state AS_UNUSED)
{
    struct as_frame_options o;
    struct as_frame_traffic t;
    char fallback[16];

    read_settings(DEPLOYMENT("version: x"), false, &o, &t, fallback);
    assert_int_equal(o.has, 0);
    assert_true(!t.flags && !t.canary && !t.mirror && !fallback[0]);
    assert_true(as_frame_router_is_empty(&router)); /* it takes back a former one */
    read_settings(DEPLOYMENT("request_router_config: {request_router_class: session}"), false, &o,
                  &t, fallback);
    assert_string_equal(router.policy, "session");
    read_settings(DEPLOYMENT("request_timeout_s: 2.5, idempotent: false, max_queued_requests: -1, "
                             "max_queued_requests_per_caller: true, canary_percent: 0.5, "
                             "mirror_percent: 100, fallback: other"),
                  false, &o, &t, fallback);
    assert_int_equal(o.has, 1u << AS_FRAME_OPT_REQUEST_TIMEOUT | 1u << AS_FRAME_OPT_IDEMPOTENT |
                                1u << AS_FRAME_OPT_MAX_QUEUED | 1u << AS_FRAME_OPT_PER_CALLER);
    assert_int_equal(o.value[AS_FRAME_OPT_PER_CALLER], 1);
    assert_int_equal(o.value[AS_FRAME_OPT_REQUEST_TIMEOUT], 2500 * AS_MS);
    assert_int_equal(o.value[AS_FRAME_OPT_IDEMPOTENT], 0);
    assert_true(o.value[AS_FRAME_OPT_MAX_QUEUED] == AS_FRAME_QUEUED_ANY);
    assert_int_equal(t.flags, AS_FRAME_CANARY);
    assert_int_equal(t.canary, 500);
    assert_int_equal(t.mirror, AS_FRAME_SHARE);
    assert_string_equal(fallback, "other");
    read_settings(DEPLOYMENT("request_timeout_s: 0, canary_percent: 0, idempotent: true"), false,
                  &o, &t, fallback);
    assert_int_equal(o.value[AS_FRAME_OPT_REQUEST_TIMEOUT], 0); /* none, whatever the server has */
    assert_int_equal(o.value[AS_FRAME_OPT_IDEMPOTENT], 1);
    assert_int_equal(t.flags, AS_FRAME_CANARY);
    read_settings(DEPLOYMENT("request_timeout_s: 2, max_queued_requests: 7, "
                             "max_queued_requests_per_caller: false"),
                  true, &o, &t, fallback);
    assert_int_equal(o.has, 1u << AS_FRAME_OPT_MAX_QUEUED);
    assert_int_equal(o.value[AS_FRAME_OPT_MAX_QUEUED], 7);
}

static void read_order(const char *keys, struct as_frame_options *ret_o,
                       struct as_frame_traffic *ret_t, char fallback[16])
{
    char *text =
        as_str_format("applications: [{import_path: m, deployments: [{name: d,\n%s\n}]}]\n", keys);

    read_settings(text, false, ret_o, ret_t, fallback);
    free(text);
}

static void the_order_of_requests_is_among_the_settings(void **state AS_UNUSED)
{
    static const struct {
        const char *keys;
        uint32_t option;
        uint64_t value;
    } cases[] = {
        {"priority_share: 2", AS_FRAME_OPT_PRIORITY_SHARE, 2},
        {"fairness: tenant", AS_FRAME_OPT_FAIRNESS, AS_FRAME_FAIR_REQUESTS},
        {"fairness: tenant, fairness_cost: items", AS_FRAME_OPT_FAIRNESS, AS_FRAME_FAIR_ITEMS},
        {"fairness: tenant, fairness_cost: header", AS_FRAME_OPT_FAIRNESS, AS_FRAME_FAIR_COST},
        {"codel_target_s: 0.005", AS_FRAME_OPT_CODEL_TARGET, 5 * AS_MS},
        {"codel_interval_s: 1", AS_FRAME_OPT_CODEL_INTERVAL, AS_SEC},
        {"slow_start_s: 30", AS_FRAME_OPT_SLOW_START, 30 * AS_SEC},
        {"slow_start_s: 86400", AS_FRAME_OPT_SLOW_START, AS_FRAME_OPTION_MAX}, /* its maximum */
        {"adaptive_concurrency: true", AS_FRAME_OPT_ADAPTIVE, 1},
        {"hedge_quantile: 0.95", AS_FRAME_OPT_HEDGE_QUANTILE, 950},
        {"hedge_budget: 0.001", AS_FRAME_OPT_HEDGE_BUDGET, 1},
        {"hedge_min_delay_s: 0", AS_FRAME_OPT_HEDGE_MIN_DELAY, 0},
    };
    struct as_frame_options o;
    struct as_frame_traffic t;
    char fallback[16];

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        read_order(cases[i].keys, &o, &t, fallback);
        assert_int_equal(o.has, 1u << cases[i].option);
        assert_int_equal(o.value[cases[i].option], cases[i].value);
    }
    read_order("fairness: \"off\", fairness_cost: items, adaptive_concurrency: false", &o, &t,
               fallback);
    assert_int_equal(o.has, 0);
}

static void check_backpressure(const char *config, uint64_t status, uint64_t retry, bool has_retry)
{
    char text[200], fallback[16];
    struct as_frame_options o;
    struct as_frame_traffic t;

    snprintf(text, sizeof(text), DEPLOYMENT("backpressure_config: {%s}"), config);
    read_settings(text, false, &o, &t, fallback);
    assert_int_equal(o.has, (status ? 1u << AS_FRAME_OPT_BACKPRESSURE_STATUS : 0) |
                                (has_retry ? 1u << AS_FRAME_OPT_BACKPRESSURE_RETRY : 0));
    assert_int_equal(o.value[AS_FRAME_OPT_BACKPRESSURE_STATUS], status);
    assert_int_equal(o.value[AS_FRAME_OPT_BACKPRESSURE_RETRY], retry);
}

static void backpressure_is_said_to_the_dispatcher(void **state AS_UNUSED)
{
    check_backpressure("", 0, 0, false);
    check_backpressure("status_code: 503, retry_after_s: null", 503, 0, false);
    check_backpressure("status_code: 429, retry_after_s: 1.2", 429, 1200 * AS_MS, true);
    check_backpressure("retry_after_s: 0", 0, 0, true);
    check_backpressure("retry_after_s: 1.0e-30", 0, 1, true); /* rounded up to a second */
    check_backpressure("retry_after_s: 86400", 0, 86400 * AS_SEC, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unset_keys_keep_the_servers_policy),
        cmocka_unit_test(keys_override_the_server),
        cmocka_unit_test(classes_become_hashes),
        cmocka_unit_test(the_context_has_names_and_options),
        cmocka_unit_test(changes_have_user_config_only_on_request),
        cmocka_unit_test(settings_are_as_a_worker_says_them),
        cmocka_unit_test(the_order_of_requests_is_among_the_settings),
        cmocka_unit_test(backpressure_is_said_to_the_dispatcher),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
