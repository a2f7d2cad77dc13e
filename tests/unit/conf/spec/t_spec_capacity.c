/* Specification of conf/spec/keys/spec_capacity: target_capacity of a file, for which of its
 * deployments it holds, and its direction. */
#include "conf/spec/keys/spec_capacity.h"

#include "conf/spec/spec_diff.h"
#include "spec_case.h"

#define UPLOADED "pickle:0000000000000000000000000000000000000000000000000000000000000000"
#define APPS     "applications: [{name: a, import_path: m, deployments: [{name: d}]}]\n"

static struct as_spec *with(const char *capacity)
{
    char text[400];

    snprintf(text, sizeof(text), APPS "target_capacity: %s\n", capacity);
    return parse(text);
}

static void has(const char *capacity, int32_t share)
{
    struct as_spec *s = with(capacity);

    assert_int_equal(as_spec_file_capacity(s->file).share, share);
    assert_int_equal(as_spec_capacity(s->file, app_of(s, 0), deployment_of(s, 0, 0)).share, share);
    as_spec_free(s);
}

static void it_is_a_percentage(void **state AS_UNUSED)
{
    has("null", AS_CAPACITY_UNSET);
    has("0", 0);
    has("1", 1000);
    has("49.9", 49900);
    has("50.0", 50000);
    has("33.3333333", 33333);
    has("1e2", 100000);
}

static void another_value_is_refused(void **state AS_UNUSED)
{
    refused(APPS "target_capacity: 100.1",
            "f:2:18: target_capacity: '100.1' is above the maximum 100\n");
    refused(APPS "target_capacity: -0.1",
            "f:2:18: target_capacity: '-0.1' is below the minimum 0\n");
    refused(APPS "target_capacity: .nan", "f:2:18: target_capacity: '.nan' is not a number\n");
    refused(APPS "target_capacity: half", "f:2:18: target_capacity: 'half' is not a number\n");
    refused(APPS "target_capacity: '50'",
            "f:2:18: target_capacity: the text '50' is not a number\n");
    refused(APPS "target_capacity: 50%", "f:2:18: target_capacity: '50%' is not a number\n");
    refused(APPS "target_capacity: true", "f:2:18: target_capacity: 'true' is not a number\n");
    refused(APPS "target_capacity: [50]", "f:2:18: target_capacity: a list is not a number\n");
}

static void of_what_programs_upload_and_of_policies_all_run(void **state AS_UNUSED)
{
    struct as_spec *s =
        parse("target_capacity: 50\n"
              "applications:\n"
              "- {name: own, import_path: m, code: " UPLOADED ", deployments: [{name: d}]}\n"
              "- {name: file, import_path: m, deployments: [{name: d}, {name: d.policy}]}\n");

    assert_int_equal(as_spec_capacity(s->file, app_of(s, 0), deployment_of(s, 0, 0)).share,
                     AS_CAPACITY_UNSET);
    assert_int_equal(as_spec_capacity(s->file, app_of(s, 1), deployment_of(s, 1, 0)).share, 50000);
    assert_int_equal(as_spec_capacity(s->file, app_of(s, 1), deployment_of(s, 1, 1)).share,
                     AS_CAPACITY_UNSET);
    as_spec_free(s);
}

/* --- the direction --- */

static enum as_capacity_direction direction_of(const struct as_spec *s)
{
    return as_spec_file_capacity(s->file).direction;
}

/* Replaces *s by a file that is deployed after it. */
static enum as_capacity_direction deploy(struct as_spec **s, const char *text)
{
    struct as_spec *next = parse(text);

    as_spec_set_direction(next, *s);
    as_spec_free(*s);
    *s = next;
    return direction_of(next);
}

static void it_goes_where_the_file_before_was_not(void **state AS_UNUSED)
{
    struct as_spec *s = NULL;

    assert_int_equal(deploy(&s, APPS), AS_CAPACITY_STEADY);
    assert_int_equal(deploy(&s, APPS "target_capacity: 50"), AS_CAPACITY_DOWN);
    assert_int_equal(deploy(&s, APPS "target_capacity: 50"), AS_CAPACITY_DOWN);
    assert_int_equal(deploy(&s, APPS "target_capacity: 60"), AS_CAPACITY_UP);
    assert_int_equal(deploy(&s, APPS "target_capacity: 60"), AS_CAPACITY_UP);
    assert_int_equal(deploy(&s, APPS "target_capacity: 0"), AS_CAPACITY_DOWN);
    assert_int_equal(deploy(&s, APPS), AS_CAPACITY_STEADY);
    as_spec_free(s);
}

static void the_first_file_and_other_applications_go_up(void **state AS_UNUSED)
{
    struct as_spec *s = NULL;

    assert_int_equal(deploy(&s, APPS "target_capacity: 50"), AS_CAPACITY_UP);
    assert_int_equal(deploy(&s, APPS "target_capacity: 40"), AS_CAPACITY_DOWN);
    assert_int_equal(deploy(&s, "applications: [{name: b, import_path: m}]\ntarget_capacity: 30"),
                     AS_CAPACITY_UP);
    assert_int_equal(deploy(&s, "applications: [{name: b, import_path: m}, {name: c, import_path: "
                                "m}]\ntarget_capacity: 20"),
                     AS_CAPACITY_UP);
    assert_int_equal(deploy(&s, "applications: [{name: b, import_path: m}]\ntarget_capacity: 10"),
                     AS_CAPACITY_UP);
    as_spec_free(s);
}

static void what_programs_upload_is_not_compared(void **state AS_UNUSED)
{
    struct as_spec *s = NULL;

    assert_int_equal(deploy(&s, APPS "target_capacity: 50"), AS_CAPACITY_UP);
    assert_int_equal(
        deploy(&s, "applications: [{name: a, import_path: m, deployments: [{name: d}]}, {name: p, "
                   "import_path: m, code: " UPLOADED "}]\ntarget_capacity: 40"),
        AS_CAPACITY_DOWN);
    as_spec_free(s);
}

/* `anyserve config` prints the key; what a file says of it has no effect. */
static void a_direction_in_a_file_is_replaced(void **state AS_UNUSED)
{
    struct as_spec *s = NULL, *again;
    struct as_buf text = {0};

    assert_int_equal(deploy(&s, APPS "target_capacity: 50\ntarget_capacity_direction: down"),
                     AS_CAPACITY_UP);
    as_spec_json(s->file, false, &text);
    again = parse(as_buf_cstr(&text));
    assert_int_equal(direction_of(again), AS_CAPACITY_UP);
    as_spec_free(again);
    as_buf_fini(&text);
    assert_int_equal(deploy(&s, APPS "target_capacity_direction: up"), AS_CAPACITY_STEADY);
    assert_false(as_spec_is_set(s->file, AS_SPEC_FILE_CAPACITY_DIRECTION));
    as_spec_free(s);
    refused(APPS "target_capacity_direction: left",
            "f:2:28: target_capacity_direction: 'left' is not one of up, down\n");
}

/* --- as a change --- */

static void add_change(void *ctx, const struct as_spec_change *c)
{
    as_buf_printf(ctx, "%s %s %d %s;", c->deployment, as_spec_step_name(c->step), (int)c->cls,
                  c->keys);
}

static void changes(const char *before, const char *after, bool same, const char *want)
{
    struct as_spec *a = parse(before), *b = parse(after);
    struct as_buf out = {0};

    as_spec_diff(a, b, add_change, &out);
    assert_string_equal(as_buf_cstr(&out), want);
    assert_int_equal(as_spec_same_capacity(a, b), same);
    as_buf_fini(&out);
    as_spec_free(a);
    as_spec_free(b);
}

static void it_is_a_light_change_of_its_deployments(void **state AS_UNUSED)
{
    changes(APPS, APPS "target_capacity: 100", false, "d changed 1 target_capacity;");
    changes(APPS "target_capacity: 50", APPS "target_capacity: 50.0", true, "d unchanged 0 ;");
    changes(APPS "target_capacity: 50", APPS "target_capacity: 50\ntarget_capacity_direction: up",
            true, "d unchanged 0 ;");
    changes(APPS "target_capacity: 50",
            "applications: [{name: a, import_path: n, deployments: [{name: d}]}]", false,
            "d changed 3 import_path,target_capacity;");
    changes("applications: []", "{applications: [], target_capacity: 50}", false, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_a_percentage),
        cmocka_unit_test(another_value_is_refused),
        cmocka_unit_test(of_what_programs_upload_and_of_policies_all_run),
        cmocka_unit_test(it_goes_where_the_file_before_was_not),
        cmocka_unit_test(the_first_file_and_other_applications_go_up),
        cmocka_unit_test(what_programs_upload_is_not_compared),
        cmocka_unit_test(a_direction_in_a_file_is_replaced),
        cmocka_unit_test(it_is_a_light_change_of_its_deployments),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return failed;
}
