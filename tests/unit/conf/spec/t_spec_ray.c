/* Keys of Ray Serve's files: what they become, and what is only kept. */
#include "spec_case.h"

#define ENV(keys) "applications: [{import_path: m, " keys "}]"

static void check_env(const char *text, const char *want, const char *dir)
{
    struct as_spec *s = parse(text);
    const struct as_spec_object *app;
    struct as_buf lines = {0};

    app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, 0);
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_ENV); i++)
        as_buf_printf(&lines, "%s;", as_spec_text(app, AS_SPEC_APPLICATION_ENV, i));
    assert_string_equal(as_buf_cstr(&lines), want);
    if (dir)
        assert_string_equal(as_spec_str(app, AS_SPEC_APPLICATION_WORKING_DIR), dir);
    else
        assert_false(as_spec_is_set(app, AS_SPEC_APPLICATION_WORKING_DIR));
    assert_false(as_spec_is_set(app, AS_SPEC_APPLICATION_RUNTIME_ENV));
    as_buf_fini(&lines);
    as_spec_free(s);
}

/* What it has becomes keys of the application, which count more. */
static void a_runtime_env_becomes_our_keys(void **state AS_UNUSED)
{
    check_env(ENV("runtime_env: {env_vars: {A: x, B: '2'}, working_dir: /w}"), "A=x;B=2;", "/w");
    check_env(ENV("env: {B: own, C: y}, working_dir: /own,"
                  " runtime_env: {env_vars: {A: x, B: '2'}, working_dir: /w}"),
              "A=x;B=own;C=y;", "/own");
    check_env(ENV("runtime_env: {py_modules: [/a/b/pkg, /c/m.py, /top]}"), "PYTHONPATH=/a/b:/c:/;",
              NULL);
    check_env(ENV("runtime_env: {py_modules: [/a/pkg], env_vars: {PYTHONPATH: /p}}"),
              "PYTHONPATH=/p;", NULL);
    check_env(ENV("runtime_env: {}"), "", NULL);
    refused(ENV("\nruntime_env: {pip: [x], env_vars: {A: x}, conda: y}"),
            "f:2:1: runtime_env: pip, conda: not supported; env_vars, working_dir and py_modules "
            "are\n");
    refused(ENV("\nruntime_env: [x]"), "f:2:14: runtime_env: is not a mapping\n");
    refused(ENV("\nruntime_env: {env_vars: [x]}"),
            "f:2:25: runtime_env: env_vars is not a mapping of names to texts\n");
    refused(ENV("\nruntime_env: {working_dir: s3://b/x.zip}"),
            "f:2:28: runtime_env: working_dir: a URI is not supported; name a folder of this "
            "machine\n");
    refused(ENV("\nruntime_env: {py_modules: [pkg]}"),
            "f:2:27: runtime_env: py_modules is not a list of absolute paths of modules on this "
            "machine\n");
    refused(ENV("\nruntime_env: {py_modules: ['https://x/y']}"),
            "f:2:27: runtime_env: py_modules is not a list of absolute paths of modules on this "
            "machine\n");
    refused(ENV("\nruntime_env: {env_vars: {'1A': x}}"),
            "f:2:26: env: '1A' is not the name of a variable that can be set\n");
}

static void configurations_are_checked_by_the_names_in_them(void **state AS_UNUSED)
{
    struct as_spec *s = parse(DEPLOYMENT("autoscaling_config: {min_replicas: 1, max_replicas: 3}"));
    const struct as_spec_object *d = as_spec_object(
        as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, 0), AS_SPEC_APPLICATION_DEPLOYMENTS, 0);

    assert_string_equal(as_spec_str(d, AS_SPEC_DEPLOYMENT_AUTOSCALING),
                        "{\"max_replicas\":3,\"min_replicas\":1}");
    as_spec_free(s);
    as_spec_free(parse(DEPLOYMENT("autoscaling_config: null")));
    refused(DEPLOYMENT("backpressure_config: {status: 429}"),
            "f:2:23: backpressure_config: unknown key status; it may have status_code, "
            "retry_after_s\n");
    refused(DEPLOYMENT("backpressure_config: {status_code: 500}"),
            "f:2:22: backpressure_config: status_code is not 503 or 429\n");
    refused(DEPLOYMENT("backpressure_config: {status_code: '429'}"),
            "f:2:22: backpressure_config: status_code is not 503 or 429\n");
    refused(DEPLOYMENT("backpressure_config: {retry_after_s: -0.1}"),
            "f:2:22: backpressure_config: retry_after_s is not a number from 0 to 86400\n");
    refused(DEPLOYMENT("backpressure_config: {retry_after_s: 86400.1}"),
            "f:2:22: backpressure_config: retry_after_s is not a number from 0 to 86400\n");
    refused(DEPLOYMENT("request_router_config: 3"),
            "f:2:24: request_router_config: '3' is not a mapping\n");
    refused(DEPLOYMENT("max_surge_percent: 101"),
            "f:2:20: max_surge_percent: '101' is above the maximum 100\n");
    as_spec_free(parse(DEPLOYMENT("max_surge_percent: 100")));
    refused(DEPLOYMENT("max_surge: 1, max_surge_percent: 100"),
            "f:2:12: max_surge: max_surge_percent is given, too; only one of them can be\n");
    refused(DEPLOYMENT("max_constructor_retry_count: 0"),
            "f:2:30: max_constructor_retry_count: '0' is below the minimum 1\n");
    refused(DEPLOYMENT("max_restarts: 1, max_constructor_retry_count: 1"),
            "f:2:15: max_restarts: max_constructor_retry_count is given, too; only one of them can "
            "be\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_runtime_env_becomes_our_keys),
        cmocka_unit_test(configurations_are_checked_by_the_names_in_them),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
