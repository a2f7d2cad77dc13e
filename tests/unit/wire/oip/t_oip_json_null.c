/* Specification of wire/oip/oip_json: null in a request. */
#include "oip_json_case.h"

/* Clients that write typed messages write null for a field that is not set. */
static void null_counts_as_absent(void **state AS_UNUSED)
{
    assert_int_equal(
        parse("{\"id\":null,\"parameters\":null,\"outputs\":null,\"more\":null,\"inputs\":[{"
              "\"name\":\"a\",\"datatype\":\"INT8\",\"shape\":[1],\"parameters\":null,"
              "\"data\":[7]}]}"),
        0);
    assert_int_equal(got.r.id.n + got.r.n_params + got.r.n_outputs, 0);
    assert_int_equal(got.r.inputs[0].data[0], 7);
    assert_int_equal(
        parse(
            "{\"parameters\":{\"p\":null,\"binary_data_output\":null,\"q\":1},"
            "\"outputs\":[{\"name\":\"y\",\"parameters\":null},{\"name\":\"z\",\"parameters\":{"
            "\"binary_data\":null,\"classification\":null,\"shared_memory_region\":null}}],"
            "\"inputs\":[{\"name\":\"a\",\"datatype\":\"INT8\",\"shape\":[1],\"parameters\":{"
            "\"binary_data_size\":null,\"shared_memory_region\":null,\"shared_memory_offset\":null,"
            "\"shared_memory_byte_size\":null,\"content_type\":null},\"data\":[7]}]}"),
        0);
    assert_int_equal(got.r.n_params, 1);
    assert_true(as_str_eq(got.r.params[0].name, AS_STR("q")));
    assert_int_equal(got.r.n_outputs, 2);
    assert_false(got.r.outputs[1].binary || got.r.has_output_range || got.r.has_classification ||
                 got.r.ranges);
    assert_int_equal(parse_with("{\"inputs\":[{\"name\":\"a\",\"datatype\":\"INT8\",\"shape\":[1],"
                                "\"data\":null,\"parameters\":{\"binary_data_size\":1}}]}",
                                "\5", 1),
                     0);
    assert_int_equal(got.r.inputs[0].data[0], 5);
    /* a required key is missing then */
    REFUSED("{\"inputs\":null}", "inputs is missing");
    REFUSED("{\"inputs\":[null]}", "inputs[0]: expected an object");
    REFUSED("{\"inputs\":[{\"name\":null}]}", "inputs[0] has no name");
    REFUSED("{\"inputs\":[],\"outputs\":[{\"name\":null}]}", "outputs[0] has no name");
    REFUSED(INPUT("\"datatype\":null,\"shape\":[1]"), "input 'a': datatype is missing");
    REFUSED(INPUT("\"datatype\":\"INT8\",\"shape\":null"), "input 'a': shape is missing");
    REFUSED(INPUT("\"datatype\":\"INT8\",\"shape\":[1],\"data\":null"),
            "input 'a': neither data nor binary_data_size is given");
    REFUSED(INPUT("\"datatype\":\"INT8\",\"shape\":[1],\"data\":[null]"),
            "input 'a': data[0] is null, INT8 takes integers");
}

static int generate(const char *json)
{
    static const int64_t any[] = {-1};
    static const struct as_tensor_spec specs[] = {{{"text", 4}, AS_DT_BYTES, 1, any, NULL, 0},
                                                  {{"x", 1}, AS_DT_FP32, 1, any, NULL, 0}};
    const uint8_t *p = set_body(json, NULL, 0);

    return as_oip_json_parse_generate(got.j, p, strlen(json), specs, AS_COUNT(specs), &got.arena,
                                      &got.r, got.why, sizeof(got.why));
}

static void generate_takes_null_as_absent(void **state AS_UNUSED)
{
    assert_int_equal(generate("{\"id\":null,\"parameters\":null,\"text\":\"hi\",\"x\":null,\"max_"
                              "tokens\":null,\"top_k\":5}"),
                     0);
    assert_int_equal(got.r.id.n, 0);
    assert_int_equal(got.r.n_inputs, 1);
    assert_true(as_str_eq(got.r.inputs[0].name, AS_STR("text")));
    assert_int_equal(got.r.n_params, 1);
    assert_true(as_str_eq(got.r.params[0].name, AS_STR("top_k")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(null_counts_as_absent, up, down),
        cmocka_unit_test_setup_teardown(generate_takes_null_as_absent, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
