/* Specification of wire/oip/oip_json_model: a model's metadata as servers of the protocol write it.
 */
#include "unit.h"
#include "wire/oip/oip_json_model.h"

static struct as_json *json;
static struct as_arena arena;
static struct as_oip_model model;
static char text[4 << 20]; /* with room for the padding */

static int parse(const char *z)
{
    snprintf(text, sizeof(text) - AS_JSON_PADDING, "%s", z);
    as_arena_reset(&arena);
    return as_oip_json_model_parse(json, (const uint8_t *)text, strlen(text), &arena, &model);
}

static void all_members(void **state AS_UNUSED)
{
    assert_int_equal(
        parse(
            "{\"name\":\"m\\u00fc\",\"versions\":[\"1\",\"2\"],\"platform\":\"p\",\"more\":{\"a\":["
            "1]},"
            "\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,3],\"parameters\":{}},"
            "{\"shape\":[],\"datatype\":\"BYTES\",\"name\":\"y\"}],"
            "\"outputs\":[{\"name\":\"z\",\"datatype\":\"FP8\",\"shape\":[9223372036854775807]}]}"),
        0);
    assert_true(as_str_eq(model.name, AS_STR("m\xc3\xbc")));
    assert_true(as_str_eq(model.platform, AS_STR("p")));
    assert_int_equal(model.n_versions, 2);
    assert_true(as_str_eq(model.versions[1], AS_STR("2")));
    assert_int_equal(model.n_inputs, 2);
    assert_true(as_str_eq(model.inputs[0].name, AS_STR("x")));
    assert_int_equal(model.inputs[0].dtype, AS_DT_FP32);
    assert_int_equal(model.inputs[0].ndim, 2);
    assert_int_equal(model.inputs[0].shape[0], -1);
    assert_int_equal(model.inputs[0].shape[1], 3);
    assert_int_equal(model.inputs[1].dtype, AS_DT_BYTES);
    assert_int_equal(model.inputs[1].ndim, 0);
    assert_int_equal(model.n_outputs, 1);
    assert_int_equal(model.outputs[0].dtype, AS_DT_INVALID);
    assert_int_equal(model.outputs[0].shape[0], INT64_MAX);
}

static void missing_members_are_empty(void **state AS_UNUSED)
{
    assert_int_equal(parse("{}"), 0);
    assert_int_equal(model.name.n + model.n_versions + model.n_inputs + model.n_outputs, 0);
    assert_int_equal(parse("{\"name\":\"m\",\"versions\":null,\"inputs\":[{}]}"), 0);
    assert_int_equal(model.n_inputs, 1);
    assert_int_equal(model.inputs[0].ndim, 0);
}

static void malformed_metadata_is_refused(void **state AS_UNUSED)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "1",
                                      "{",
                                      "{}x",
                                      "{\"name\":1}",
                                      "{\"inputs\":{}}",
                                      "{\"inputs\":[1]}",
                                      "{\"inputs\":[[]]}",
                                      "{\"inputs\":[{\"name\":null}]}",
                                      "{\"inputs\":[{\"shape\":[1.5]}]}",
                                      "{\"inputs\":[{\"shape\":[\"1\"]}]}",
                                      "{\"inputs\":[{\"shape\":[9223372036854775808]}]}",
                                      "{\"versions\":[1]}",
                                      "{\"versions\":\"1\"}",
                                      "{\"inputs\":[{}],\"inputs\":[{}]}",
                                      "{\"name\":\"\xff\"}"};

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        if (parse(bad[i]) == 0)
            fail_msg("taken: %s", bad[i]);
    }
}

/* {"inputs":[{"shape":[0,…]}]}: n sizes; and n inputs or versions. */
static int parse_model_with(uint32_t dims, uint32_t inputs, uint32_t versions)
{
    struct as_buf b;
    int rc;

    as_buf_init(&b);
    as_buf_str(&b, "{\"versions\":[");
    for (uint32_t i = 0; i < versions; i++)
        as_buf_str(&b, i ? ",\"\"" : "\"\"");
    as_buf_str(&b, "],\"inputs\":[");
    for (uint32_t i = 0; i < inputs; i++)
        as_buf_str(&b, i ? ",{}" : "{}");
    as_buf_str(&b, inputs ? ",{\"shape\":[" : "{\"shape\":[");
    for (uint32_t i = 0; i < dims; i++)
        as_buf_str(&b, i ? ",0" : "0");
    as_buf_add(&b, "]}]}", 5);
    rc = parse((const char *)b.p);
    as_buf_fini(&b);
    return rc;
}

static void limits_at_n_and_one_more(void **state AS_UNUSED)
{
    assert_int_equal(parse_model_with(AS_MAX_DIMS, 0, 0), 0);
    assert_int_equal(parse_model_with(AS_MAX_DIMS + 1, 0, 0), AS_EINVALID);
    assert_int_equal(parse_model_with(1, AS_OIP_TENSORS_MAX - 1, 0), 0);
    assert_int_equal(model.n_inputs, AS_OIP_TENSORS_MAX);
    assert_int_equal(parse_model_with(1, AS_OIP_TENSORS_MAX, 0), AS_EINVALID);
    assert_int_equal(parse_model_with(1, 0, AS_OIP_TENSORS_MAX), 0);
    assert_int_equal(parse_model_with(1, 0, AS_OIP_TENSORS_MAX + 1), AS_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_members),
        cmocka_unit_test(missing_members_are_empty),
        cmocka_unit_test(malformed_metadata_is_refused),
        cmocka_unit_test(limits_at_n_and_one_more),
    };
    int failed;

    json = as_json_new();
    as_arena_init(&arena, NULL, 0);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    as_arena_fini(&arena);
    as_json_free(json);
    return failed;
}
