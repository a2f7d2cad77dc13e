/* Specification of conf/spec/keys/spec_policy: which deployments get a policy process, and its
 * options.
 */
#include "conf/spec/keys/spec_policy.h"

#include "conf/spec/spec_plan.h"
#include "spec_case.h"

static struct as_spec *laid(const char *text, const char *lines)
{
    struct as_spec_limits l = limits();
    struct as_spec *s = parse(text);
    struct as_declared code;
    int rc;

    as_buf_fini(&err_text);
    assert_int_equal(as_declared_parse(&code, as_str_of(lines), NULL, NULL, &err_text), 0);
    rc = as_spec_overlay(s, app_of(s, 0), &code, &l, &err_text);
    as_buf_add(&err_text, "", 1);
    as_declared_fini(&code);
    if (rc == 0)
        return s;
    as_spec_free(s);
    return NULL;
}

static struct as_spec_object *find(const struct as_spec *s, const char *name)
{
    return as_spec_find(app_of(s, 0), AS_SPEC_APPLICATION_DEPLOYMENTS, as_str_of(name));
}

#define ROUTER(path)       "{\"request_router_config\": {\"request_router_class\": \"" path "\"}}"
#define SCALING(key, path) "{\"autoscaling_config\": {\"policy\": {\"" key "\": \"" path "\"}}}"

static void own_and_built_in(void **state AS_UNUSED)
{
    static const struct {
        const char *options;
        bool own;
    } cases[] = {
        {"{\"num_cpus\": 1}", false},
        {ROUTER("m:R"), true},
        {ROUTER("pkg.m.R"), true},
        {ROUTER("pow_2"), false},
        {ROUTER("ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter"), false},
        {ROUTER(""), false},
        {"{\"request_router_config\": {\"request_routing_stats_period_s\": 1}}", false},
        {SCALING("policy_function", "m:f"), true},
        {SCALING("name", "m.f"), true},
        {SCALING("policy_function",
                 "anyserve.serve.autoscaling_policy:replica_queue_length_autoscaling_policy"),
         false},
        {SCALING("policy_function", "ray.serve.autoscaling_policy:default_autoscaling_policy"),
         false},
        {SCALING("policy_function", "default_autoscaling_policy"), false},
        {"{\"autoscaling_config\": {\"max_replicas\": 2}}", false},
    };

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        struct as_buf line = {0};
        struct as_spec *s;

        as_buf_printf(&line, "d\t%s\tm:1\n", cases[i].options);
        s = laid("applications: [{import_path: m}]", as_buf_cstr(&line));
        if (!s)
            fail_msg("case %zu: %s", i, (char *)err_text.p);
        assert_int_equal(as_spec_has_own_router(find(s, "d")) ||
                             as_spec_has_own_scaling(find(s, "d")),
                         cases[i].own);
        assert_int_equal(find(s, "d.policy") != NULL, cases[i].own);
        as_spec_free(s);
        as_buf_fini(&line);
    }
}

static void options_of_the_process(void **state AS_UNUSED)
{
    struct as_spec *s = laid(DEPLOYMENT("num_replicas: 3, env: {A: b}, num_gpus: 2"),
                             "d\t" ROUTER("m:R") "\tm:1\n");
    const struct as_spec_object *d = find(s, "d.policy");
    struct as_replica_slot_facts facts = {0};
    struct as_buf out = {0};

    assert_int_equal(as_spec_i64(d, AS_SPEC_DEPLOYMENT_NUM_REPLICAS), 1);
    assert_int_equal(as_spec_i64(d, AS_SPEC_DEPLOYMENT_WARM_SPARES), 0);
    assert_false(as_spec_is_set(d, AS_SPEC_DEPLOYMENT_NUM_GPUS));
    assert_string_equal(as_spec_text(d, AS_SPEC_DEPLOYMENT_ENV, 0), "A=b");
    /* the process is told what to run; replicas tell the dispatcher how they are chosen */
    as_spec_put_context(app_of(s, 0), d, "d.policy-0", &facts, &out);
    assert_non_null(strstr(as_buf_cstr(&out), "\"request_router_config\":{"));
    out.n = 0;
    as_spec_put_context(app_of(s, 0), find(s, "d"), "d-0", &facts, &out);
    assert_non_null(strstr(as_buf_cstr(&out), "\"request_router_config\":{"));
    as_buf_fini(&out);
    as_spec_free(s);
}

/* The number of replicas of a deployment with a policy follows its load, that of the process does
 * not. */
static void the_process_does_not_scale(void **state AS_UNUSED)
{
    struct as_spec *s =
        laid("applications: [{import_path: m}]",
             "d\t{\"request_router_config\": {\"request_router_class\": \"m:R\"}, "
             "\"autoscaling_config\": {\"policy\": {\"policy_function\": \"m:f\"}}}\tm:1\n");
    struct as_replica_slot_facts facts = {0};
    struct as_buf out = {0};

    assert_false(as_spec_is_set(find(s, "d.policy"), AS_SPEC_DEPLOYMENT_AUTOSCALING));
    assert_int_equal(as_spec_i64(find(s, "d.policy"), AS_SPEC_DEPLOYMENT_NUM_REPLICAS), 1);
    as_spec_put_context(app_of(s, 0), find(s, "d.policy"), "d.policy-0", &facts, &out);
    assert_non_null(strstr(as_buf_cstr(&out), "\"policy_function\":\"m:f\""));
    as_buf_fini(&out);
    as_spec_free(s);
}

/* A policy has nothing to decide where the number is fixed. */
static void a_fixed_number_needs_no_process(void **state AS_UNUSED)
{
    struct as_spec *s =
        laid(DEPLOYMENT("num_replicas: 3"), "d\t" SCALING("policy_function", "m:f") "\tm:1\n");

    assert_null(find(s, "d.policy"));
    as_spec_free(s);
    s = laid(DEPLOYMENT("num_replicas: auto"), "d\t" SCALING("policy_function", "m:f") "\tm:1\n");
    assert_non_null(find(s, "d.policy"));
    as_spec_free(s);
}

#define BOTH(policy)                                                                               \
    "d\t{\"request_router_config\": {\"request_router_class\": \"m:R\"}, "                         \
    "\"autoscaling_config\": {\"policy\": {\"policy_function\": \"" policy "\"}}}\tm:1\n"

/* A process that runs a router is not told of a policy that is never asked; a number that is fixed,
 * or is so no longer, starts it anew, and another policy only where it is asked. */
static void a_fixed_number_leaves_the_policy_out(void **state AS_UNUSED)
{
    static const struct {
        const char *file, *lines, *told;
    } cases[] = {
        {DEPLOYMENT("num_replicas: 3"), BOTH("m:f"), "\"autoscaling_config\":{}"},
        {DEPLOYMENT("num_replicas: 3"), BOTH("m:g"), "\"autoscaling_config\":{}"},
        {DEPLOYMENT("num_replicas: auto"), BOTH("m:f"),
         "\"autoscaling_config\":{\"policy\":{\"policy_function\":\"m:f\"}}"},
        {DEPLOYMENT("num_replicas: auto"), BOTH("m:g"),
         "\"autoscaling_config\":{\"policy\":{\"policy_function\":\"m:g\"}}"},
    };
    struct as_replica_slot_facts facts = {0};
    struct as_plan_policy server = {0};
    struct as_plan_target of[AS_COUNT(cases)];

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        struct as_spec *s = laid(cases[i].file, cases[i].lines);
        struct as_buf out = {0};

        as_spec_put_context(app_of(s, 0), find(s, "d.policy"), "d.policy-0", &facts, &out);
        if (!strstr(as_buf_cstr(&out), cases[i].told))
            fail_msg("'%s' is not in: %s", cases[i].told, as_buf_cstr(&out));
        as_spec_plan_target(&of[i], app_of(s, 0), find(s, "d.policy"), &server, 1);
        as_buf_fini(&out);
        as_spec_free(s);
    }
    assert_true(of[0].version == of[1].version);
    assert_true(of[0].version != of[2].version && of[2].version != of[3].version);
}

/* A new router starts the process anew, and no replica: these are only told. */
static void versions(void **state AS_UNUSED)
{
    static const char *const lines[] = {"d\t" ROUTER("m:R") "\tm:1\n",
                                        "d\t" ROUTER("m:R") "\tm:1\n",
                                        "d\t" ROUTER("m:S") "\tm:1\n"};
    struct as_plan_policy server = {0};
    struct as_plan_target own[3], of_process[3];

    for (int i = 0; i < 3; i++) {
        struct as_spec *s = laid(DEPLOYMENT("num_replicas: 3"), lines[i]);

        as_spec_plan_target(&own[i], app_of(s, 0), find(s, "d"), &server, 1);
        as_spec_plan_target(&of_process[i], app_of(s, 0), find(s, "d.policy"), &server, 1);
        as_spec_free(s);
    }
    assert_true(own[0].version == own[2].version && own[0].config != own[2].config);
    assert_true(of_process[0].version == of_process[1].version);
    assert_true(of_process[0].version != of_process[2].version);
}

/* A file may set options of the process; what it prints is read as the same. */
static void in_a_file(void **state AS_UNUSED)
{
    const char *text = "applications: [{import_path: m, deployments: [{name: d}, {name: d.policy, "
                       "health_check_timeout_s: 9, version: old}]}]";
    struct as_spec *s = laid(text, "d\t" ROUTER("m:R") "\tm:1\n"), *again;
    struct as_buf printed = {0};

    assert_int_equal(as_spec_ns(find(s, "d.policy"), AS_SPEC_DEPLOYMENT_HEALTH_CHECK_TIMEOUT),
                     9 * AS_SEC);
    assert_string_not_equal(as_spec_str(find(s, "d.policy"), AS_SPEC_DEPLOYMENT_VERSION), "old");
    as_spec_print(s, false, &printed);
    again = laid(as_buf_cstr(&printed), "d\t" ROUTER("m:R") "\tm:1\n");
    assert_non_null(again);
    assert_int_equal(as_spec_count(app_of(again, 0), AS_SPEC_APPLICATION_DEPLOYMENTS), 2);
    assert_string_equal(as_spec_str(find(s, "d.policy"), AS_SPEC_DEPLOYMENT_VERSION),
                        as_spec_str(find(again, "d.policy"), AS_SPEC_DEPLOYMENT_VERSION));
    as_buf_fini(&printed);
    as_spec_free(again);
    as_spec_free(s);
}

#define TOGETHER "applications: [{import_path: m, autoscaling_policy: {policy_function: 'm:%s'}}]"

static struct as_spec *laid_together(const char *function, const char *lines)
{
    char text[200];

    snprintf(text, sizeof(text), TOGETHER, function);
    return laid(text, lines);
}

/* The policy of an application runs in one process, of the first deployment whose number follows
 * the load, and counts more than those of deployments. */
static void the_policy_of_an_application(void **state AS_UNUSED)
{
    static const char lines[] =
        "c\t" SCALING("policy_function", "m:g") "\tm:1\n"
                                                "a\tn:1\n"
                                                "b\t{\"num_replicas\": \"auto\"}\to:1\n";
    struct as_spec *s = laid_together("f", lines), *other = laid_together("h", lines);
    struct as_plan_policy server = {0};
    struct as_plan_target own[2], of_process[2];
    struct as_replica_slot_facts facts = {0};
    struct as_buf out = {0};

    assert_true(as_spec_scales_together(app_of(s, 0)));
    assert_ptr_equal(as_spec_scaling_host(app_of(s, 0)), find(s, "b"));
    assert_non_null(find(s, "b.policy"));
    assert_null(find(s, "a.policy"));
    assert_null(find(s, "c.policy"));
    as_spec_put_context(app_of(s, 0), find(s, "b.policy"), "b.policy-0", &facts, &out);
    assert_non_null(strstr(as_buf_cstr(&out),
                           "\"autoscaling_config\":{\"policy\":{\"policy_function\":\"m:f\"}}"));
    as_spec_plan_target(&own[0], app_of(s, 0), find(s, "b"), &server, 1);
    as_spec_plan_target(&own[1], app_of(other, 0), find(other, "b"), &server, 1);
    as_spec_plan_target(&of_process[0], app_of(s, 0), find(s, "b.policy"), &server, 1);
    as_spec_plan_target(&of_process[1], app_of(other, 0), find(other, "b.policy"), &server, 1);
    assert_true(own[0].version == own[1].version && own[0].config == own[1].config);
    assert_true(of_process[0].version != of_process[1].version);
    as_buf_fini(&out);
    as_spec_free(other);
    as_spec_free(s);
    /* a process that runs a router only has no autoscaling policy */
    s = laid_together("f", "a\t{\"num_replicas\": \"auto\"}\tm:1\n"
                           "b\t{\"request_router_config\": {\"request_router_class\": \"m:R\"}, "
                           "\"autoscaling_config\": {\"policy\": {\"policy_function\": "
                           "\"m:g\"}}}\tn:1\n");
    as_spec_put_context(app_of(s, 0), find(s, "b.policy"), "b.policy-0", &facts, &out);
    assert_non_null(strstr(as_buf_cstr(&out), "\"request_router_config\":{"));
    assert_null(strstr(as_buf_cstr(&out), "policy_function"));
    as_buf_fini(&out);
    as_spec_free(s);
    s = laid_together("f", "a\tm:1\n"); /* it has nothing to decide */
    assert_null(as_spec_scaling_host(app_of(s, 0)));
    assert_int_equal(as_spec_count(app_of(s, 0), AS_SPEC_APPLICATION_DEPLOYMENTS), 1);
    as_spec_free(s);
}

/* n deployments of the code whose number follows the load. */
static int check_together(uint32_t n)
{
    struct as_buf lines = {0};
    struct as_spec *s;
    int rc;

    for (uint32_t i = 0; i < n; i++)
        as_buf_printf(&lines, "d%u\t{\"num_replicas\": \"auto\"}\tm%u:1\n", i, i);
    s = laid_together("f", as_buf_cstr(&lines));
    assert_non_null(s);
    as_buf_fini(&err_text);
    rc = as_spec_check_whole(s, 10, &err_text);
    as_buf_add(&err_text, "", 1);
    as_spec_free(s);
    as_buf_fini(&lines);
    return rc;
}

static void wrong_policies_of_an_application(void **state AS_UNUSED)
{
    static const struct {
        const char *keys, *want;
    } cases[] = {
        {"import_path: m, autoscaling_policy: {}", "policy_function must be the import path of a "
                                                   "function of the program"},
        {"import_path: m, autoscaling_policy: {policy_function: "
         "'ray.serve.autoscaling_policy:default_autoscaling_policy'}",
         "policy_function must be the import path of a function of the program"},
        {"import_path: m, autoscaling_policy: {policy_function: 7}",
         "policy: policy_function must be an import path"},
        {"command: [m], autoscaling_policy: {policy_function: 'm:f'}",
         "only an application of Python code has one"},
    };
    struct as_spec_limits l = limits();

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        char text[300], want[300];

        snprintf(text, sizeof(text), "applications: [{%s}]", cases[i].keys);
        snprintf(want, sizeof(want), "autoscaling_policy: %s", cases[i].want);
        assert_null(read_with(text, &l));
        if (!strstr((char *)err_text.p, want))
            fail_msg("'%s' is not in: %s", want, (char *)err_text.p);
    }
    assert_int_equal(check_together(AS_SPEC_SCALED_TOGETHER_MAX), 0);
    assert_int_equal(check_together(AS_SPEC_SCALED_TOGETHER_MAX + 1), AS_EINVALID);
    assert_non_null(strstr((char *)err_text.p, "autoscaling_policy: 33 deployments have an "
                                               "autoscaling_config: 32 at most"));
}

static void what_is_refused(void **state AS_UNUSED)
{
    struct as_buf line = {0};
    const char *text =
        "applications: [{import_path: m, deployments: [{name: d}, {name: d.policy}]}]";
    struct as_spec *s;

    assert_null(laid(text, "d\tm:1\n")); /* no router of its own */
    assert_non_null(strstr((char *)err_text.p, "'d.policy' would be a policy process"));
    assert_null(laid(DEPLOYMENT("num_replicas: 1"), "d\tm:1\nd.policy\tp:1\n"));
    assert_non_null(
        strstr((char *)err_text.p, "deployment 'd.policy': names that end with .policy"));
    for (size_t n = AS_SPEC_NAME_MAX - 7; n <= AS_SPEC_NAME_MAX - 6; n++) {
        line.n = 0;
        for (size_t i = 0; i < n; i++)
            as_buf_str(&line, "x");
        as_buf_str(&line, "\t" ROUTER("m:R") "\tm:1\n");
        s = laid("applications: [{import_path: m}]", as_buf_cstr(&line));
        assert_int_equal(s != NULL, n == AS_SPEC_NAME_MAX - 7);
        if (s)
            as_spec_free(s);
        else
            assert_non_null(strstr((char *)err_text.p, "121 characters at most"));
    }
    as_buf_fini(&line);
}

static void names(void **state AS_UNUSED)
{
    assert_true(as_spec_is_policy(AS_STR("d.policy")));
    assert_false(as_spec_is_policy(AS_STR(".policy")));
    assert_false(as_spec_is_policy(AS_STR("policy")));
    assert_true(as_str_eq(as_id_policy_base(AS_STR("app#d.policy")), AS_STR("app#d")));
    assert_false(as_id_policy_base(AS_STR("app#.policy")).n);
    assert_true(as_str_eq(as_id_policy_base(AS_STR("a.b.policy")), AS_STR("a.b")));
}

static int free_errors(void **state AS_UNUSED)
{
    as_buf_fini(&err_text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_and_built_in),
        cmocka_unit_test(a_fixed_number_needs_no_process),
        cmocka_unit_test(a_fixed_number_leaves_the_policy_out),
        cmocka_unit_test(options_of_the_process),
        cmocka_unit_test(the_process_does_not_scale),
        cmocka_unit_test(versions),
        cmocka_unit_test(in_a_file),
        cmocka_unit_test(the_policy_of_an_application),
        cmocka_unit_test(wrong_policies_of_an_application),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, free_errors);
}
