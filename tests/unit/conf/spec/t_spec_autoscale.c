/* Specification of conf/spec/keys/spec_autoscale: num_replicas and autoscaling_config of a
 * deployment.
 */
#include "conf/spec/keys/spec_autoscale.h"

#include "conf/spec/declared.h"
#include "spec_case.h"

#define PLACE "f:2:21: autoscaling_config: "

static const struct as_spec_object *only(const struct as_spec *s)
{
    return as_spec_object(as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, 0),
                          AS_SPEC_APPLICATION_DEPLOYMENTS, 0);
}

static void is_fixed(const char *text, uint32_t replicas)
{
    struct as_spec *s = parse(text);

    assert_false(as_spec_autoscale(only(s), NULL));
    assert_int_equal(as_spec_replicas(only(s)), replicas);
    as_spec_free(s);
}

static struct as_autoscale_config config_of(const char *text)
{
    struct as_spec *s = parse(text);
    struct as_autoscale_config c;

    assert_true(as_spec_autoscale(only(s), &c));
    assert_int_equal(as_spec_replicas(only(s)), as_autoscale_initial(&c));
    as_spec_free(s);
    return c;
}

static void without_a_configuration_the_number_counts(void **state AS_UNUSED)
{
    is_fixed(DEPLOYMENT("num_replicas: 3"), 3);
    is_fixed(DEPLOYMENT("num_replicas: 0"), 0);
    is_fixed(DEPLOYMENT("version: x"), 1);
    is_fixed(DEPLOYMENT("autoscaling_config: null"), 1);
}

static void a_configuration_has_its_values_and_defaults(void **state AS_UNUSED)
{
    struct as_autoscale_config c = config_of(DEPLOYMENT(
        "autoscaling_config: {min_replicas: 0, max_replicas: 8, initial_replicas: 2, "
        "target_ongoing_requests: 1.5, upscale_delay_s: 0.5, upscaling_factor: null, "
        "aggregation_function: max, target_latency_ms: 50, policy: {policy_kwargs: {a: [1]}}}"));

    assert_true(c.min_replicas == 0 && c.max_replicas == 8 && c.initial_replicas == 2);
    assert_true(c.target_ongoing_requests == 1.5 && c.upscale_delay_s == 0.5);
    assert_true(c.downscale_delay_s == 600 && c.upscaling_factor < 0);
    assert_true(c.target_latency_ms == 50);
    assert_int_equal(c.aggregation, AS_LOAD_MAX);
}

static void auto_is_a_configuration_with_a_larger_maximum(void **state AS_UNUSED)
{
    struct as_autoscale_config c = config_of(DEPLOYMENT("num_replicas: auto"));

    assert_true(c.min_replicas == 1 && c.max_replicas == 100);
    c = config_of(DEPLOYMENT("num_replicas: auto, autoscaling_config: {min_replicas: 7}"));
    assert_true(c.min_replicas == 7 && c.max_replicas == 100);
}

static void a_schedule_is_read(void **state AS_UNUSED)
{
    struct as_autoscale_config c = config_of(DEPLOYMENT(
        "autoscaling_config: {max_replicas: 8, schedule: [{days: mon-fri, start: '08:00', end: "
        "'18:30', min_replicas: 4}, {start: '22:00', end: '06:00', min_replicas: 2}]}"));

    assert_int_equal(c.schedule.n, 2);
    assert_int_equal(c.schedule.entry[0].days, 0x1f);
    assert_int_equal(c.schedule.entry[0].start, 480);
    assert_int_equal(c.schedule.entry[0].end, 1110);
    assert_int_equal(c.schedule.entry[1].days, 0x7f);
    assert_int_equal(c.schedule.entry[1].min_replicas, 2);
}

static void wrong_values_are_named(void **state AS_UNUSED)
{
    refused(DEPLOYMENT("autoscaling_config: {min_replicas: 3, max_replicas: 2}"),
            PLACE "max_replicas (2) must be at least min_replicas (3)\n");
    refused(DEPLOYMENT("autoscaling_config: {min_replicas: -1}"),
            PLACE "min_replicas must be a whole number from 0 to 1024, not -1\n");
    refused(DEPLOYMENT("autoscaling_config: {max_replicas: 1000000000}"),
            PLACE "max_replicas must be a whole number from 1 to 1024, not 1000000000\n");
    refused(DEPLOYMENT("autoscaling_config: {target_ongoing_requests: '2'}"),
            PLACE "target_ongoing_requests must be a number\n");
    refused(DEPLOYMENT("autoscaling_config: {aggregation_function: median}"),
            PLACE "aggregation_function must be \"mean\", \"max\" or \"min\"\n");
    refused(DEPLOYMENT("num_replicas: auto, autoscaling_config: {min_replicas: 101}"),
            "f:2:41: autoscaling_config: max_replicas (100) must be at least min_replicas (101)\n");
    refused(DEPLOYMENT("num_replicas: automatic"),
            "f:2:15: num_replicas: 'automatic' is not a whole number\n");
}

static void a_wrong_policy_is_named(void **state AS_UNUSED)
{
    refused(DEPLOYMENT("autoscaling_config: {policy: 'scaling:by_backlog'}"),
            PLACE "policy must be a mapping with policy_function\n");
    refused(DEPLOYMENT("autoscaling_config: {policy: {polcy_function: 'scaling:by_backlog'}}"),
            PLACE "policy: unknown key 'polcy_function'; there are policy_function, "
                  "policy_kwargs\n");
    refused(DEPLOYMENT("autoscaling_config: {policy: {policy_function: by_backlog}}"),
            PLACE "policy: policy_function must be an import path, as \"module:function\"\n");
    refused(DEPLOYMENT("autoscaling_config: {policy: {name: [1]}}"),
            PLACE "policy: name must be an import path, as \"module:function\"\n");
    refused(DEPLOYMENT("autoscaling_config: {policy: {policy_function: 'a:b', policy_kwargs: 1}}"),
            PLACE "policy: policy_kwargs must be a mapping\n");
    as_spec_free(parse(DEPLOYMENT("autoscaling_config: {policy: null}")));
    as_spec_free(parse(DEPLOYMENT("autoscaling_config: {policy: {name: a.b, policy_kwargs: {}}}")));
    as_spec_free(
        parse(DEPLOYMENT("autoscaling_config: {policy: {name: default_autoscaling_policy}}")));
}

static void wrong_schedules_are_named(void **state AS_UNUSED)
{
    refused(DEPLOYMENT("autoscaling_config: {schedule: 1}"), PLACE "schedule must be a list\n");
    refused(DEPLOYMENT("autoscaling_config: {schedule: [1]}"),
            PLACE "schedule[0]: it is not a mapping\n");
    refused(DEPLOYMENT("autoscaling_config: {schedule: [{start: '08:00'}]}"),
            PLACE "schedule[0]: start, end and min_replicas are required\n");
    refused(DEPLOYMENT(
                "autoscaling_config: {schedule: [{start: '8:00', end: '09:00', min_replicas: 1}]}"),
            PLACE "schedule[0]: start must be a time as \"08:30\"\n");
    refused(DEPLOYMENT("autoscaling_config: {schedule: [{days: monday, start: '08:00', end: "
                       "'09:00', min_replicas: 1}]}"),
            PLACE "schedule[0]: days must be as \"mon-fri\", \"sat,sun\" or \"daily\"\n");
    refused(DEPLOYMENT("autoscaling_config: {schedule: [{hours: 1}]}"),
            PLACE "schedule[0]: unknown key 'hours'; there are days, start, end, min_replicas\n");
    refused(DEPLOYMENT("autoscaling_config: {schedule: [{start: '08:00', end: '09:00', "
                       "min_replicas: 5}]}"),
            PLACE "min_replicas (5) of schedule[0] must be at most max_replicas (1)\n");
}

static char *schedule_of(uint32_t n)
{
    struct as_buf b = {0};

    as_buf_str(&b, "applications: [{import_path: a, deployments: [{name: d,\nautoscaling_config: "
                   "{schedule: [");
    for (uint32_t i = 0; i < n; i++)
        as_buf_printf(&b, "%s{start: '08:00', end: '09:00', min_replicas: 1}", i ? ", " : "");
    as_buf_str(&b, "]}}]}]\n");
    return as_buf_cstr(&b);
}

static void a_schedule_has_at_most_so_many_entries(void **state AS_UNUSED)
{
    char *most = schedule_of(AS_SCHEDULE_MAX), *more = schedule_of(AS_SCHEDULE_MAX + 1);

    assert_int_equal(config_of(most).schedule.n, AS_SCHEDULE_MAX);
    refused(more, PLACE "schedule has more than 32 entries\n");
    free(most);
    free(more);
}

static void a_number_beside_a_configuration_is_refused(void **state AS_UNUSED)
{
    refused(DEPLOYMENT("num_replicas: 2, autoscaling_config: {max_replicas: 3}"),
            "f:2:15: num_replicas: Manually setting num_replicas is not allowed when "
            "autoscaling_config is provided.\n");
}

/* A version that did not scale has stored both. */
static void in_a_stored_text_the_number_counts(void **state AS_UNUSED)
{
    struct as_spec_limits stored = limits();
    struct as_buf err = {0};
    struct as_spec *s;

    stored.stored = true;
    assert_int_equal(
        as_spec_parse(&s, &stored, "f",
                      AS_STR(DEPLOYMENT("num_replicas: 2, autoscaling_config: {max_replicas: 3}")),
                      &err),
        0);
    assert_false(as_spec_autoscale(only(s), NULL));
    assert_int_equal(as_spec_replicas(only(s)), 2);
    as_spec_free(s);
}

static struct as_spec *with_code(const char *text, const char *options)
{
    struct as_declared_deployment d = {.name = (char *)(uintptr_t) "d",
                                       .options = (char *)(uintptr_t)options};
    struct as_declared code = {.n = 1, .deployments = &d};
    struct as_spec_limits l = limits();
    struct as_spec *s = parse(text);
    struct as_buf err = {0};

    assert_int_equal(
        as_spec_overlay(s, as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, 0), &code, &l, &err),
        0);
    assert_int_equal(as_spec_check_whole(s, 10, &err), 0);
    as_buf_fini(&err);
    return s;
}

/* Of both keys the file's counts, whichever the code has. */
static void the_file_replaces_what_the_code_says(void **state AS_UNUSED)
{
    struct as_autoscale_config c;
    struct as_spec *s =
        with_code(DEPLOYMENT("num_replicas: 4"), "{\"autoscaling_config\": {\"max_replicas\": 9}}");

    assert_false(as_spec_autoscale(only(s), NULL));
    assert_int_equal(as_spec_replicas(only(s)), 4);
    as_spec_free(s);
    s = with_code(DEPLOYMENT("autoscaling_config: {max_replicas: 9}"), "{\"num_replicas\": 4}");
    assert_true(as_spec_autoscale(only(s), &c));
    assert_true(c.max_replicas == 9);
    as_spec_free(s);
    s = with_code(DEPLOYMENT("num_replicas: auto"),
                  "{\"autoscaling_config\": {\"target_ongoing_requests\": 3}}");
    assert_true(as_spec_autoscale(only(s), &c));
    assert_true(c.target_ongoing_requests == 3 && c.max_replicas == 100);
    as_spec_free(s);
}

static void all_values_are_printed_so_that_they_are_read_again(void **state AS_UNUSED)
{
    struct as_spec *s = parse(DEPLOYMENT("autoscaling_config: {max_replicas: 9}"));
    struct as_buf text = {0};

    as_spec_print(s, true, &text);
    assert_null(strstr(as_buf_cstr(&text), "num_replicas:"));
    assert_true(config_of(as_buf_cstr(&text)).max_replicas == 9);
    as_spec_free(s);
    as_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_configuration_the_number_counts),
        cmocka_unit_test(a_configuration_has_its_values_and_defaults),
        cmocka_unit_test(auto_is_a_configuration_with_a_larger_maximum),
        cmocka_unit_test(a_schedule_is_read),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(a_wrong_policy_is_named),
        cmocka_unit_test(wrong_schedules_are_named),
        cmocka_unit_test(a_schedule_has_at_most_so_many_entries),
        cmocka_unit_test(a_number_beside_a_configuration_is_refused),
        cmocka_unit_test(in_a_stored_text_the_number_counts),
        cmocka_unit_test(the_file_replaces_what_the_code_says),
        cmocka_unit_test(all_values_are_printed_so_that_they_are_read_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
