/* Specification of edge/exchange/route: which resource a path names. */
#include "edge/exchange/route.h"

#include "edge/rest/rest.h"
#include "unit.h"

#define INFER    "/v2/models/{model}[/versions/{version}]/infer"
#define METADATA "/v2/models/{model}[/versions/{version}]"
#define REGION   "/v2/systemsharedmemory[/region/{name}]/status"

static void check(const char *pattern, const char *path, const char *model, const char *version,
                  const char *name)
{
    struct as_rest_match m;

    assert_true(as_route_matches(pattern, as_str_of(path), &m));
    assert_true(as_str_eq(m.model, as_str_of(model)));
    assert_true(as_str_eq(m.version, as_str_of(version)));
    assert_true(as_str_eq(m.name, as_str_of(name)));
}

static void check_no_match(const char *pattern, const char *path)
{
    struct as_rest_match m;

    assert_false(as_route_matches(pattern, as_str_of(path), &m));
}

static void a_pattern_without_variables_is_the_path(void **state AS_UNUSED)
{
    check("/v2", "/v2", "", "", "");
    check_no_match("/v2", "/v2/");
    check_no_match("/v2", "/v");
    check_no_match("/v2", "");
    check_no_match("/v2/", "/v2");
}

static void a_model_has_segments(void **state AS_UNUSED)
{
    check(INFER, "/v2/models/a/infer", "a", "", "");
    check(INFER, "/v2/models/team/a/infer", "team/a", "", "");
    check(INFER, "/v2/models/a%2Fb/infer", "a%2Fb", "", "");
    check(METADATA, "/v2/models/team/a", "team/a", "", "");
    check(METADATA, "/v2/models/a/", "a/", "", ""); /* no model has this name */
    check_no_match(INFER, "/v2/models//infer");
    check_no_match(INFER, "/v2/models/infer");
    check_no_match(INFER, "/v2/models/a/infer/");
    check_no_match(METADATA, "/v2/models/");
    check_no_match(METADATA, "/v2/models");
}

static void the_version_is_optional(void **state AS_UNUSED)
{
    check(INFER, "/v2/models/a/versions/1/infer", "a", "1", "");
    check(INFER, "/v2/models/x/y/versions/v1.0/infer", "x/y", "v1.0", "");
    check(METADATA, "/v2/models/a/versions/1", "a", "1", "");
    check_no_match(METADATA, "/v2/models/a/versions");
    check_no_match(METADATA, "/v2/models/a/versions/");
    check_no_match(METADATA, "/v2/models/a/versions/1/2");
    check_no_match(INFER, "/v2/models/versions/1/infer");
    check_no_match(INFER, "/v2/models/a/versions/1/versions/2/infer");
}

/* Without this rule "…/{model}" would match the path of every verb that does not exist. */
static void a_verb_is_not_a_model(void **state AS_UNUSED)
{
    check_no_match(METADATA, "/v2/models/a/infer");
    check_no_match(METADATA, "/v2/models/stats");
    check_no_match(METADATA, "/v2/models/a/trace/setting");
    check(METADATA, "/v2/models/stats/a", "stats/a", "", "");
    check(INFER, "/v2/models/infer/a/infer", "infer/a", "", "");
}

static void other_names_are_one_segment(void **state AS_UNUSED)
{
    check(REGION, "/v2/systemsharedmemory/status", "", "", "");
    check(REGION, "/v2/systemsharedmemory/region/r/status", "", "", "r");
    check_no_match(REGION, "/v2/systemsharedmemory/region/r/s/status");
    check_no_match(REGION, "/v2/systemsharedmemory/region//status");
}

/* Only as many segments are tried as the longest name can have. */
static void long_paths_are_cheap(void **state AS_UNUSED)
{
    static char path[16000];
    size_t n = 0;

    n += (size_t)snprintf(path, sizeof(path), "/v2/models");
    while (n + 8 < sizeof(path))
        n += (size_t)snprintf(path + n, sizeof(path) - n, "/a");
    snprintf(path + n, sizeof(path) - n, "/infer");
    check_no_match(INFER, path);
}

static void check_decode(const char *text, const char *want)
{
    char out[64];
    size_t n = 0;

    if (!want) {
        assert_int_equal(as_route_decode(as_str_of(text), out, &n), AS_EINVALID);
        return;
    }
    assert_int_equal(as_route_decode(as_str_of(text), out, &n), 0);
    assert_true(as_str_eq((struct as_str){out, n}, as_str_of(want)));
}

static void percent_encoding_is_decoded(void **state AS_UNUSED)
{
    check_decode("plain", "plain");
    check_decode("a%2Fb%2fc", "a/b/c");
    check_decode("%25%32%35", "%25"); /* once */
    check_decode("a+b", "a+b");
    check_decode("%c3%bc", "\xc3\xbc");
    check_decode("%", NULL);
    check_decode("%4", NULL);
    check_decode("a%4", NULL);
    check_decode("%zz", NULL);
    check_decode("%4g", NULL);
    check_decode("%00", NULL);
}

static void check_put(const char *pattern, bool with_optional, const char *want)
{
    struct as_rest_match m = {.model = AS_STR("a/b c"), .version = AS_STR("1")};
    struct as_buf b;

    as_buf_init(&b);
    assert_int_equal(as_route_put(&b, pattern, with_optional, &m), want != NULL);
    assert_true(as_str_eq(as_buf_slice(&b), as_str_of(want)));
    as_buf_fini(&b);
}

static void a_path_is_made_of_a_pattern(void **state AS_UNUSED)
{
    check_put(INFER, false, "/v2/models/a/b%20c/infer");
    check_put(INFER, true, "/v2/models/a/b%20c/versions/1/infer");
    check_put(REGION, true, "/v2/systemsharedmemory/region/{name}/status");
    check_put("/v2", false, "/v2");
    check_put("/v2", true, NULL);
}

/* Every route is found by its own paths, whatever routes come before it. */
static void no_route_hides_another(void **state AS_UNUSED)
{
    const struct as_rest_match vars = {
        .model = AS_STR("m/n"), .version = AS_STR("7"), .name = AS_STR("x")};

    for (int interface = 0; interface < AS_INTERFACES; interface++) {
        const struct as_rest_table *t = &as_rest_tables[interface];

        for (uint32_t i = 0; i < 2 * t->n; i++) {
            const char *path = t->rows[i / 2].path;
            struct as_rest_match m;
            struct as_buf b;

            as_buf_init(&b);
            if (as_route_put(&b, path, i % 2, &vars)) {
                const struct as_rest_route *found =
                    as_rest_find((enum as_interface)interface, as_buf_slice(&b), &m);

                assert_non_null(found);
                assert_string_equal(found->path, path);
            }
            as_buf_fini(&b);
        }
    }
}

static void each_interface_has_its_own_routes(void **state AS_UNUSED)
{
    struct as_rest_match m;

    assert_null(
        as_rest_find(AS_INTERFACE_CLIENTS, AS_STR("/anyserve.WorkerManagement/Heartbeat"), &m));
    assert_non_null(
        as_rest_find(AS_INTERFACE_MANAGEMENT, AS_STR("/anyserve.WorkerManagement/Heartbeat"), &m));
    assert_null(as_rest_find(AS_INTERFACE_MANAGEMENT, AS_STR("/v2/models/m/infer"), &m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_without_variables_is_the_path),
        cmocka_unit_test(a_model_has_segments),
        cmocka_unit_test(the_version_is_optional),
        cmocka_unit_test(a_verb_is_not_a_model),
        cmocka_unit_test(other_names_are_one_segment),
        cmocka_unit_test(long_paths_are_cheap),
        cmocka_unit_test(percent_encoding_is_decoded),
        cmocka_unit_test(a_path_is_made_of_a_pattern),
        cmocka_unit_test(no_route_hides_another),
        cmocka_unit_test(each_interface_has_its_own_routes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
