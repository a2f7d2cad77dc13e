/* Specification of conf/spec/spec_overlay: values of the file override those of the code. */
#include "conf/spec/spec.h"

#include "spec_case.h"

/* Parses the lines of a worker program. */
static struct as_declared described(const char *lines)
{
    struct as_buf err = {0};
    struct as_declared app;
    int rc = as_declared_parse(&app, as_str_of(lines), NULL, NULL, &err);

    assert_int_equal(rc, 0);
    return app;
}

/* NULL: refused, the errors are in `err_text`. */
static struct as_spec *laid(const char *text, const char *lines)
{
    struct as_spec_limits l = limits();
    struct as_spec *s = parse(text);
    struct as_declared code = described(lines);
    int rc;

    as_buf_fini(&err_text);
    rc = as_spec_overlay(s, app_of(s, 0), &code, &l, &err_text);
    as_buf_add(&err_text, "", 1);
    as_declared_fini(&code);
    if (rc == 0)
        return s;
    assert_int_equal(rc, AS_EINVALID);
    as_spec_free(s);
    return NULL;
}

static void file_over_code_over_default(void **state AS_UNUSED)
{
    struct as_spec *s = laid(DEPLOYMENT("num_replicas: 3, logging_config: {encoding: JSON}"),
                             "d\t{\"num_replicas\": 5, \"num_cpus\": 2, \"user_config\": {\"a\": "
                             "[1]}, \"logging_config\": {\"log_level\": \"ERROR\"}}\tm:1\n");
    const struct as_spec_object *d = deployment_of(s, 0, 0), *log;

    assert_int_equal(as_spec_i64(d, AS_SPEC_DEPLOYMENT_NUM_REPLICAS), 3);
    assert_int_equal(as_spec_thousandths(d, AS_SPEC_DEPLOYMENT_NUM_CPUS), 2000);
    assert_int_equal(as_spec_value(d, AS_SPEC_DEPLOYMENT_NUM_CPUS)->from, AS_SPEC_FROM_CODE);
    assert_int_equal(as_spec_value(d, AS_SPEC_DEPLOYMENT_NUM_CPUS)->line, 0);
    assert_string_equal(as_spec_str(d, AS_SPEC_DEPLOYMENT_USER_CONFIG), "{\"a\":[1]}");
    assert_int_equal(as_spec_ns(d, AS_SPEC_DEPLOYMENT_SHUTDOWN_TIMEOUT), 20 * AS_SEC);
    log = as_spec_object(d, AS_SPEC_DEPLOYMENT_LOGGING, 0);
    assert_string_equal(as_spec_str(log, AS_SPEC_LOGGING_ENCODING), "JSON");
    assert_string_equal(as_spec_str(log, AS_SPEC_LOGGING_LEVEL), "ERROR");
    as_spec_free(s);
}

/* Errors of code and file together: unknown names, circles across both. */
static void the_merged_spec_is_checked(void **state AS_UNUSED)
{
    struct as_spec *s = laid(DEPLOYMENT("fallback: side"),
                             "d\tm:1\nside\t{\"fallback\": \"slide\"}\tm:2\nslid\tm:3\n");
    struct as_buf err = {0};

    assert_int_equal(as_spec_check_whole(s, 10, &err), AS_EINVALID);
    as_buf_add(&err, "", 1);
    assert_non_null(strstr((char *)err.p, "fallback: of deployment 'side': there is no deployment "
                                          "'slide'; did you mean slid?\n"));
    as_buf_fini(&err);
    as_spec_free(s);
    s = laid(DEPLOYMENT("fallback: side"), "d\tm:1\nside\t{\"fallback\": \"d\"}\tm:2\n");
    assert_int_equal(as_spec_check_whole(s, 10, &err), AS_EINVALID);
    as_buf_add(&err, "", 1);
    assert_non_null(
        strstr((char *)err.p, "fallback: the deployments form a circle: d → side → d\n"));
    as_buf_fini(&err);
    as_spec_free(s);
    s = laid(DEPLOYMENT("fallback: side"), "d\tm:1\nside\tm:2\n");
    assert_int_equal(as_spec_check_whole(s, 10, &err), 0);
    as_spec_free(s);
    /* each of them is valid alone */
    s = laid(DEPLOYMENT("max_unavailable: 0"),
             "d\t{\"max_surge\": 0, \"max_unavailable\": 1}\tm:1\n");
    assert_int_equal(as_spec_check_whole(s, 10, &err), AS_EINVALID);
    as_buf_add(&err, "", 1);
    assert_non_null(strstr((char *)err.p, "max_surge: must not be 0 when max_unavailable is 0"));
    as_buf_fini(&err);
    as_spec_free(s);
}

static void deployments_of_the_code_need_not_be_listed(void **state AS_UNUSED)
{
    struct as_spec *s =
        laid(DEPLOYMENT("num_replicas: 3"), "d\tm:1\ne\t{\"num_replicas\":2}\tn:1\n");

    assert_int_equal(as_spec_count(app_of(s, 0), AS_SPEC_APPLICATION_DEPLOYMENTS), 2);
    assert_string_equal(as_spec_str(deployment_of(s, 0, 1), AS_SPEC_DEPLOYMENT_NAME), "e");
    assert_int_equal(as_spec_i64(deployment_of(s, 0, 1), AS_SPEC_DEPLOYMENT_NUM_REPLICAS), 2);
    as_spec_free(s);
    s = laid("applications: [{import_path: m}]", "x\tm:1\n");
    assert_int_equal(as_spec_count(app_of(s, 0), AS_SPEC_APPLICATION_DEPLOYMENTS), 1);
    assert_int_equal(as_spec_i64(deployment_of(s, 0, 0), AS_SPEC_DEPLOYMENT_NUM_REPLICAS), 1);
    as_spec_free(s);
}

static void a_deployment_that_the_code_lacks_is_an_error(void **state AS_UNUSED)
{
    assert_null(laid("applications:\n- import_path: m\n  deployments:\n  - name: rnaker\n",
                     "ranker\tm:1\nother\tn:1\n"));
    assert_string_equal((char *)err_text.p,
                        "f:4:11: name: m declares no deployment 'rnaker'; did you "
                        "mean ranker?\n");
    assert_null(laid(DEPLOYMENT("# x"), "something-else\tm:1\n"));
    assert_string_equal((char *)err_text.p,
                        "f:1:54: name: m declares no deployment 'd'; it has something-else\n");
}

static void values_of_the_code_are_checked_by_the_same_table(void **state AS_UNUSED)
{
    assert_null(laid("applications: [{import_path: pkg.mod}]",
                     "x\t{\"num_replica\": 2, \"num_cpus\": \"a\"}\tm:1\n"));
    assert_string_equal((char *)err_text.p,
                        "pkg.mod:1:2: num_replica: unknown key; did you mean num_replicas?\n"
                        "pkg.mod:1:32: num_cpus: the text 'a' is not a number\n");
    assert_null(laid("applications: [{import_path: m}]", "x\t{\"name\": \"y\"}\tm:1\n"));
}

static void another_application_may_have_the_same_deployment(void **state AS_UNUSED)
{
    struct as_spec *s = laid("applications:\n"
                             "- {import_path: m}\n"
                             "- {name: b, command: [x], deployments: [{name: d}]}\n",
                             "d\tm:1\n");
    struct as_spec_walk w;

    assert_non_null(s);
    assert_true(as_spec_find_deployment(s->file, AS_STR("default#d"), &w));
    assert_string_equal(w.app->v[0].s, "default");
    assert_true(as_spec_find_deployment(s->file, AS_STR("b#d"), &w));
    assert_string_equal(w.app->v[0].s, "b");
    assert_false(as_spec_find_deployment(s->file, AS_STR("c#d"), &w));
    assert_true(as_str_eq(as_spec_plain_id(s->file, AS_STR("b#d")), AS_STR("b#d")));
    as_spec_free(s);
}

static void a_command_has_one_deployment(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();
    struct as_spec *s = parse("applications: [{name: resize, command: [x]}]");
    struct as_buf err = {0};

    assert_int_equal(as_spec_overlay(s, app_of(s, 0), NULL, &l, &err), 0);
    assert_int_equal(as_spec_count(app_of(s, 0), AS_SPEC_APPLICATION_DEPLOYMENTS), 1);
    assert_string_equal(as_spec_str(deployment_of(s, 0, 0), AS_SPEC_DEPLOYMENT_NAME), "resize");
    as_spec_free(s);
}

static void code_alone_is_a_spec(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();
    struct as_declared code = described("x\t{\"num_replicas\":2}\tm:1\ny\tn:1\n");
    struct as_buf err = {0};
    struct as_spec *s = NULL;

    assert_int_equal(as_spec_new_from_code(&s, &l, "default", "a \"b\".py", &code, &err), 0);
    assert_string_equal(as_spec_str(app_of(s, 0), AS_SPEC_APPLICATION_IMPORT_PATH), "a \"b\".py");
    assert_int_equal(as_spec_i64(deployment_of(s, 0, 0), AS_SPEC_DEPLOYMENT_NUM_REPLICAS), 2);
    assert_string_equal(as_spec_str(deployment_of(s, 0, 1), AS_SPEC_DEPLOYMENT_NAME), "y");
    as_spec_free(s);
    as_declared_fini(&code);
}

static void an_ingress_of_the_command_line_has_all_paths(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();
    struct as_declared with = described("x\tm:1\ny\t{\"ingress\":true}\tn:1\n");
    struct as_declared without = described("x\tm:1\n");
    struct as_buf err = {0};
    struct as_spec *s = NULL;

    assert_int_equal(as_spec_new_from_code(&s, &l, "default", "m:app", &with, &err), 0);
    assert_string_equal(as_spec_str(app_of(s, 0), AS_SPEC_APPLICATION_ROUTE_PREFIX), "/");
    as_spec_free(s);
    assert_int_equal(as_spec_new_from_code(&s, &l, "default", "m.py", &without, &err), 0);
    assert_false(as_spec_is_set(app_of(s, 0), AS_SPEC_APPLICATION_ROUTE_PREFIX));
    as_spec_free(s);
    as_declared_fini(&with);
    as_declared_fini(&without);
}

static void arguments_of_the_command_line_are_a_key(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();
    struct as_declared code = described("@args\t{\"n\":\"3\"}\nx\tm:1\n");
    struct as_buf err = {0};
    struct as_spec *s = NULL;

    assert_int_equal(as_spec_new_from_code(&s, &l, "default", "m:build", &code, &err), 0);
    assert_string_equal(as_spec_str(app_of(s, 0), AS_SPEC_APPLICATION_ARGS), "{\"n\":\"3\"}");
    as_spec_free(s);
    as_declared_fini(&code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_over_code_over_default),
        cmocka_unit_test(the_merged_spec_is_checked),
        cmocka_unit_test(deployments_of_the_code_need_not_be_listed),
        cmocka_unit_test(a_deployment_that_the_code_lacks_is_an_error),
        cmocka_unit_test(values_of_the_code_are_checked_by_the_same_table),
        cmocka_unit_test(another_application_may_have_the_same_deployment),
        cmocka_unit_test(a_command_has_one_deployment),
        cmocka_unit_test(code_alone_is_a_spec),
        cmocka_unit_test(an_ingress_of_the_command_line_has_all_paths),
        cmocka_unit_test(arguments_of_the_command_line_are_a_key),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
