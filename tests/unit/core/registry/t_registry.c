/* Specification of core/registry/registry: names, versions, snapshots. */
#include "base/err.h"
#include "core/registry/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static bool name_ok(const char *z)
{
    const char *why = NULL;
    int err = as_registry_check_name(as_str_of(z), &why);

    assert_true(err == 0 || (err == AS_EINVALID && why && *why));
    return err == 0;
}

static bool version_ok(const char *z)
{
    const char *why = NULL;
    int err = as_registry_check_version(as_str_of(z), &why);

    assert_true(err == 0 || (err == AS_EINVALID && why && *why));
    return err == 0;
}

static const char *letters(size_t n)
{
    static char z[256];

    memset(z, 'x', n);
    z[n] = '\0';
    return z;
}

static void test_names(void **state AS_UNUSED)
{
    static const char *const good[] = {"a",       "Echo-1.b_c", "a/b/c",     "...",    "-",
                                       "infer/a", "ready/x",    "versions2", "a/Infer"};
    static const char *const bad[] = {"",     "/",        "/a",          "a/",          "a//b",
                                      ".",    "..",       "a/.",         "a/..",        "../a",
                                      "a b",  "a\n",      "caf\xc3\xa9", "a%20",        "a:1",
                                      "a\\b", "versions", "versions/a",  "a/versions/1"};

    for (size_t i = 0; i < AS_COUNT(good); i++)
        assert_true(name_ok(good[i]));
    for (size_t i = 0; i < AS_COUNT(bad); i++)
        assert_false(name_ok(bad[i]));
    assert_true(name_ok(letters(AS_NAME_MAX)));
    assert_false(name_ok(letters(AS_NAME_MAX + 1)));
}

static void test_a_name_does_not_end_in_a_verb(void **state AS_UNUSED)
{
    static const char *const verbs[] = {"config",       "generate", "generate_stream", "infer",
                                        "infer_stream", "load",     "ready",           "setting",
                                        "stats",        "trace",    "unload"};

    for (size_t i = 0; i < AS_COUNT(verbs); i++) {
        char z[64];

        assert_false(name_ok(verbs[i]));
        snprintf(z, sizeof(z), "a/%s", verbs[i]);
        assert_false(name_ok(z));
        snprintf(z, sizeof(z), "%s/a", verbs[i]);
        assert_true(name_ok(z));
        snprintf(z, sizeof(z), "%ss-1", verbs[i]);
        assert_true(name_ok(z));
    }
}

static void test_a_zero_byte_is_no_letter(void **state AS_UNUSED)
{
    const char *why;

    assert_int_equal(as_registry_check_name((struct as_str){"a\0b", 3}, &why), AS_EINVALID);
    assert_int_equal(as_registry_check_version((struct as_str){"1\0", 2}, &why), AS_EINVALID);
}

static void test_versions(void **state AS_UNUSED)
{
    assert_true(version_ok("1"));
    assert_true(version_ok("v2.0_rc-1"));
    assert_true(version_ok("infer"));
    assert_false(version_ok(""));
    assert_false(version_ok("1/2"));
    assert_false(version_ok("1 "));
    assert_true(version_ok(letters(AS_VERSION_MAX)));
    assert_false(version_ok(letters(AS_VERSION_MAX + 1)));
}

/* --- snapshots --- */

static const int64_t any_size[] = {-1};
static const struct as_tensor_spec input_x = {
    .name = {"x", 1}, .dtype = AS_DT_FP32, .ndim = 1, .shape = any_size};

static int add(struct as_registry **g, struct as_model m, const char **ret_why)
{
    struct as_registry *next;
    const char *why = NULL;
    int err = as_registry_with_model(*g, &m, &next, &why);

    if (ret_why)
        *ret_why = why;
    if (err)
        return err;
    as_registry_unref(*g);
    *g = next;
    return 0;
}

static struct as_model model(const char *name, const char *version, uint32_t deployment)
{
    return (struct as_model){
        .name = as_str_of(name), .version = as_str_of(version), .deployment = deployment};
}

static const char *version_of(const struct as_registry *g, const char *name, const char *version)
{
    static char z[AS_VERSION_MAX + 1];
    const struct as_model *m = as_registry_find(g, as_str_of(name), as_str_of(version), NULL);

    if (!m)
        return "none";
    snprintf(z, sizeof(z), "%.*s", AS_STR_FMT(m->version));
    return z;
}

static void test_finding(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    bool known = true;

    assert_null(as_registry_find(g, AS_STR("a"), AS_STR(""), &known));
    assert_false(known);
    assert_int_equal(add(&g, model("a", "1", 0), NULL), 0);
    assert_int_equal(add(&g, model("a/b", "3", 1), NULL), 0);
    assert_string_equal(version_of(g, "a", ""), "1");
    assert_string_equal(version_of(g, "a/b", "3"), "3");
    assert_null(as_registry_find(g, AS_STR("a"), AS_STR("3"), &known));
    assert_true(known);
    assert_null(as_registry_find(g, AS_STR("A"), AS_STR(""), &known));
    assert_false(known);
    assert_string_equal(version_of(g, letters(AS_NAME_MAX + 1), ""), "none");
    assert_string_equal(version_of(g, "a", letters(AS_VERSION_MAX + 1)), "none");
    as_registry_unref(g);
}

static void test_the_default_version(void **state AS_UNUSED)
{
    static const struct {
        const char *versions[4], *want;
    } rows[] = {
        {{"1"}, "1"},
        {{"9", "10", "2"}, "10"},
        {{"1", "v9", "zzz"}, "1"}, /* an integer goes before everything else */
        {{"v9", "v10", "v2"}, "v10"},
        {{"1.9", "1.10"}, "1.10"},
        {{"007", "6"}, "007"},
        {{"99999999999999999999", "100000000000000000000"}, "100000000000000000000"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_registry *g = as_registry_new();

        for (size_t k = 0; k < 4 && rows[i].versions[k]; k++)
            assert_int_equal(add(&g, model("m", rows[i].versions[k], 0), NULL), 0);
        assert_string_equal(version_of(g, "m", ""), rows[i].want);
        as_registry_unref(g);
    }
}

/* Requests do not wait for it while another version serves them. */
static void test_a_version_that_no_worker_served_yet_is_not_the_default(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new(), *next;
    struct as_model first = model("m", "1", 0), second = model("m", "2", 0);

    second.awaited = true;
    second.deployment = 7;
    second.index = 3;
    add(&g, second, NULL);
    assert_string_equal(version_of(g, "m", ""), "2"); /* the only version */
    first.traffic.is_canary = true;
    add(&g, first, NULL);
    assert_string_equal(version_of(g, "m", ""), "1");
    assert_string_equal(version_of(g, "m", "2"), "2");
    next = as_registry_set_served(g, 7, 2);
    assert_ptr_equal(next, g);
    as_registry_unref(next);
    next = as_registry_set_served(g, 7, 3);
    assert_string_equal(version_of(next, "m", ""), "2");
    assert_string_equal(version_of(g, "m", ""), "1"); /* snapshots do not change */
    as_registry_unref(g);
    g = as_registry_set_served(next, 7, 3);
    assert_ptr_equal(next, g);
    as_registry_unref(g);
    as_registry_unref(next);
}

static void test_versions_are_listed_in_natural_order(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    const struct as_model *all[2];

    add(&g, model("m", "10", 0), NULL);
    add(&g, model("m", "9", 0), NULL);
    add(&g, model("m", "v1", 0), NULL);
    add(&g, model("n", "1", 0), NULL);
    assert_int_equal(as_registry_versions(g, AS_STR("m"), NULL, 0), 3);
    assert_int_equal(as_registry_versions(g, AS_STR("m"), all, 2), 3);
    assert_true(as_str_eq(all[0]->version, AS_STR("9")));
    assert_true(as_str_eq(all[1]->version, AS_STR("10")));
    assert_int_equal(as_registry_versions(g, AS_STR("x"), all, 2), 0);
    assert_int_equal(as_registry_count(g), 4);
    assert_true(as_str_eq(as_registry_at(g, 3)->name, AS_STR("n")));
    as_registry_unref(g);
}

static void test_everything_is_copied(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    char name[] = "model", input[] = "input";
    int64_t shape[] = {-1, 4};
    struct as_tensor_spec spec = {as_str_of(input), AS_DT_FP32, 2, shape, NULL, 0};
    struct as_model m = {.name = as_str_of(name),
                         .version = AS_STR("1"),
                         .platform = AS_STR("python"),
                         .has_inputs = true,
                         .inputs = &spec,
                         .n_inputs = 1};
    const struct as_model *found;

    assert_int_equal(add(&g, m, NULL), 0);
    name[0] = input[0] = 'X';
    shape[1] = 5;
    found = as_registry_find(g, AS_STR("model"), AS_STR("1"), NULL);
    assert_non_null(found);
    assert_true(as_str_eq(found->platform, AS_STR("python")));
    assert_true(as_str_eq(found->inputs[0].name, AS_STR("input")));
    assert_int_equal(found->inputs[0].shape[1], 4);
    assert_false(found->has_outputs);
    as_registry_unref(g);
}

static void test_the_same_again_gives_the_same_snapshot(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new(), *again;
    struct as_model m = model("m", "1", 3);
    const char *why;

    m.has_inputs = true;
    m.inputs = &input_x;
    m.n_inputs = 1;
    assert_int_equal(add(&g, m, NULL), 0);
    assert_int_equal(as_registry_with_model(g, &m, &again, &why), 0);
    assert_ptr_equal(again, g);
    as_registry_unref(again);
    as_registry_unref(g);
}

static void test_what_differs_is_refused(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    const char *why;
    struct as_model m = model("m", "1", 3), other;

    m.has_inputs = true;
    m.inputs = &input_x;
    m.n_inputs = 1;
    assert_int_equal(add(&g, m, NULL), 0);

    other = m;
    other.deployment = 4;
    assert_int_equal(add(&g, other, &why), AS_EEXISTS);
    assert_string_equal(why, "another deployment serves this model and version");
    other = m;
    other.has_inputs = false;
    other.n_inputs = 0;
    assert_int_equal(add(&g, other, &why), AS_EEXISTS);
    assert_string_equal(why, "the model is served with other inputs");
    other = m;
    other.has_outputs = true;
    assert_int_equal(add(&g, other, &why), AS_EEXISTS);
    assert_string_equal(why, "the model is served with other outputs");
    other = m;
    other.idempotent = true;
    assert_int_equal(add(&g, other, &why), AS_EEXISTS);
    other = m;
    other.deployment = 4;
    other.version = AS_STR("2"); /* versions of one name may be in different deployments */
    assert_int_equal(add(&g, other, &why), 0);
    as_registry_unref(g);
}

static void test_a_deployment_leaves(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new(), *less;

    add(&g, model("m", "1", 0), NULL);
    add(&g, model("m", "2", 1), NULL);
    less = as_registry_without_deployment(g, 1);
    assert_string_equal(version_of(less, "m", ""), "1");
    assert_string_equal(version_of(g, "m", ""), "2"); /* the old snapshot is as it was */
    as_registry_unref(g);
    g = as_registry_without_deployment(less, 7);
    assert_ptr_equal(g, less);
    as_registry_unref(g);
    as_registry_unref(less);
    as_registry_unref(NULL);
}

static void test_a_model_of_a_deployment_leaves(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new(), *less;
    struct as_model second = model("n", "1", 1);

    second.index = 1;
    add(&g, model("m", "1", 1), NULL);
    add(&g, second, NULL);
    add(&g, model("m", "2", 0), NULL);
    less = as_registry_without_model(g, 1, 0);
    assert_int_equal(as_registry_count(less), 2);
    assert_string_equal(version_of(less, "m", ""), "2"); /* index 0 of another deployment */
    assert_string_equal(version_of(less, "n", ""), "1");
    as_registry_unref(g);
    g = as_registry_without_model(less, 1, 0);
    assert_ptr_equal(g, less);
    as_registry_unref(g);
    as_registry_unref(less);
}

static void test_a_model_is_unloaded_and_loaded(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new(), *off, *same, *on;
    const char *why;

    add(&g, model("a", "1", 0), &why);
    add(&g, model("b", "1", 0), &why);
    add(&g, model("b", "2", 1), &why);
    assert_null(as_registry_set_loaded(g, AS_STR("c"), false));
    off = as_registry_set_loaded(g, AS_STR("b"), false);
    assert_ptr_not_equal(off, g);
    for (uint32_t i = 0; i < 3; i++) {
        bool is_b = as_str_eq(as_registry_at(off, i)->name, AS_STR("b"));

        assert_int_equal(as_registry_at(off, i)->unloaded, is_b);
        assert_false(as_registry_at(g, i)->unloaded);
    }
    assert_string_equal(version_of(off, "b", ""), "2");
    same = as_registry_set_loaded(off, AS_STR("b"), false);
    assert_ptr_equal(same, off);
    /* a worker that registers it again does not load it */
    add(&off, model("b", "1", 0), &why);
    assert_true(as_registry_find(off, AS_STR("b"), AS_STR("1"), NULL)->unloaded);
    on = as_registry_set_loaded(off, AS_STR("b"), true);
    assert_false(as_registry_find(on, AS_STR("b"), AS_STR("2"), NULL)->unloaded);
    as_registry_unref(g);
    as_registry_unref(off);
    as_registry_unref(same);
    as_registry_unref(on);
}

static void test_a_snapshot_lives_until_its_last_reader(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new(), *reader;
    const struct as_model *m;

    add(&g, model("m", "1", 0), NULL);
    reader = as_registry_ref(g);
    m = as_registry_find(reader, AS_STR("m"), AS_STR(""), NULL);
    add(&g, model("n", "1", 0), NULL);
    as_registry_unref(g);
    assert_true(as_str_eq(m->version, AS_STR("1")));
    as_registry_unref(reader);
}

static void test_signatures_are_checked(void **state AS_UNUSED)
{
    static const int64_t below[] = {-2};
    static const int64_t deep[AS_MAX_DIMS + 1];
    static const struct as_tensor_spec bad[][2] = {
        {{.name = {"", 0}, .dtype = AS_DT_FP32}, {.name = {"y", 1}, .dtype = AS_DT_FP32}},
        {{.name = {"x", 1}, .dtype = AS_DT_INVALID}, {.name = {"y", 1}, .dtype = AS_DT_FP32}},
        {{.name = {"x", 1}, .dtype = AS_DT_COUNT}, {.name = {"y", 1}, .dtype = AS_DT_FP32}},
        {{.name = {"x", 1}, .dtype = AS_DT_FP32, .ndim = 1, .shape = below},
         {.name = {"y", 1}, .dtype = AS_DT_FP32}},
        {{.name = {"x", 1}, .dtype = AS_DT_FP32, .ndim = AS_MAX_DIMS + 1, .shape = deep},
         {.name = {"y", 1}, .dtype = AS_DT_FP32}},
        {{.name = {"x", 1}, .dtype = AS_DT_FP32}, {.name = {"x", 1}, .dtype = AS_DT_INT8}},
    };
    struct as_registry *g = as_registry_new();
    struct as_model m = model("m", "1", 0);
    struct as_tensor_spec deepest = {
        .name = {"x", 1}, .dtype = AS_DT_BYTES, .ndim = AS_MAX_DIMS, .shape = deep};
    const char *why;

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        m.has_inputs = true;
        m.inputs = bad[i];
        m.n_inputs = 2;
        assert_int_equal(add(&g, m, &why), AS_EINVALID);
        assert_non_null(why);
    }
    m.inputs = &deepest;
    m.n_inputs = 1;
    assert_int_equal(add(&g, m, &why), 0);
    as_registry_unref(g);
}

static void test_bad_names_are_refused(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    const char *why;

    assert_int_equal(add(&g, model("a/infer", "1", 0), &why), AS_EINVALID);
    assert_int_equal(add(&g, model("a", "", 0), &why), AS_EINVALID);
    assert_int_equal(as_registry_count(g), 0);
    as_registry_unref(g);
}

static void test_thousands_of_models(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    char name[32];

    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "model-%u", i * 7919 % 2000);
        assert_int_equal(add(&g, model(name, "1", i), NULL), 0);
    }
    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "model-%u", i);
        assert_string_equal(version_of(g, name, ""), "1");
        assert_string_equal(version_of(g, name, "2"), "none");
    }
    assert_string_equal(version_of(g, "model-2000", ""), "none");
    as_registry_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_name_does_not_end_in_a_verb),
        cmocka_unit_test(test_a_zero_byte_is_no_letter),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_finding),
        cmocka_unit_test(test_the_default_version),
        cmocka_unit_test(test_a_version_that_no_worker_served_yet_is_not_the_default),
        cmocka_unit_test(test_versions_are_listed_in_natural_order),
        cmocka_unit_test(test_everything_is_copied),
        cmocka_unit_test(test_the_same_again_gives_the_same_snapshot),
        cmocka_unit_test(test_what_differs_is_refused),
        cmocka_unit_test(test_a_deployment_leaves),
        cmocka_unit_test(test_a_model_of_a_deployment_leaves),
        cmocka_unit_test(test_a_model_is_unloaded_and_loaded),
        cmocka_unit_test(test_a_snapshot_lives_until_its_last_reader),
        cmocka_unit_test(test_signatures_are_checked),
        cmocka_unit_test(test_bad_names_are_refused),
        cmocka_unit_test(test_thousands_of_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
