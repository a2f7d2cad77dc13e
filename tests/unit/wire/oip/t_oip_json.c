/* Specification of wire/oip/oip_json: REST bodies are parsed and written. */
#include "oip_json_case.h"

static void assert_str(struct as_str s, const char *want)
{
    assert_int_equal(s.n, strlen(want));
    assert_memory_equal(s.p, want, s.n);
}

/* --- requests --- */

static void a_whole_request(void **state AS_UNUSED)
{
    static const float want[] = {1, 2, 3, 4.5f};

    assert_int_equal(
        parse("{\"unknown\":{\"x\":[1]},\"id\":\"7\",\"parameters\":{\"i\":-1,\"u\":"
              "18446744073709551615,"
              "\"d\":1.5,\"s\":\"t\\n\",\"b\":true},\"inputs\":[{\"data\":[[1,2],[3,4.5]],"
              "\"shape\":[2,2],\"datatype\":\"FP32\",\"name\":\"a\",\"parameters\":{\"own\":[]}}],"
              "\"outputs\":[{\"name\":\"y\"},{\"name\":\"z\",\"parameters\":{\"classification\":3,"
              "\"binary_data\":true}}]}"),
        0);
    assert_str(got.r.id, "7");
    assert_int_equal(got.r.model.n, 0);
    assert_int_equal(got.r.n_inputs, 1);
    assert_str(got.r.inputs[0].name, "a");
    assert_int_equal(got.r.inputs[0].dtype, AS_DT_FP32);
    assert_int_equal(got.r.inputs[0].ndim, 2);
    assert_int_equal(got.r.inputs[0].nbytes, 16);
    assert_memory_equal(got.r.inputs[0].data, want, 16);
    assert_int_equal(got.r.n_params, 5);
    assert_int_equal(got.r.params[0].type, AS_PARAM_INT64);
    assert_int_equal(got.r.params[0].i64, -1);
    assert_int_equal(got.r.params[1].type, AS_PARAM_UINT64);
    assert_true(got.r.params[1].u64 == UINT64_MAX);
    assert_int_equal(got.r.params[2].type, AS_PARAM_DOUBLE);
    assert_true(got.r.params[2].f64 == 1.5);
    assert_str(got.r.params[3].str, "t\n");
    assert_true(got.r.params[4].b);
    assert_int_equal(got.r.n_outputs, 2);
    assert_false(got.r.outputs[0].binary);
    assert_true(got.r.outputs[1].binary);
    assert_int_equal(got.r.outputs[1].classification, 3);
}

static void outputs_requested_in_binary(void **state AS_UNUSED)
{
    assert_int_equal(parse("{\"inputs\":[],\"outputs\":[{\"name\":\"y\"},{\"name\":\"z\","
                           "\"parameters\":{\"binary_data\":false}}],"
                           "\"parameters\":{\"binary_data_output\":true}}"),
                     0);
    assert_true(as_oip_json_is_binary(&got.r, 0));
    assert_false(as_oip_json_is_binary(&got.r, 1));
    assert_int_equal(got.r.n_params, 0);
    assert_int_equal(parse("{\"inputs\":[],\"parameters\":{\"binary_data_output\":true}}"), 0);
    assert_true(as_oip_json_is_binary(&got.r, 5));
    assert_true(as_oip_json_any_binary(&got.r, 1));
    assert_false(as_oip_json_any_binary(&got.r, 0));
    assert_int_equal(parse("{\"inputs\":[]}"), 0);
    assert_false(as_oip_json_any_binary(&got.r, 9));
}

static void scalars_and_empty_tensors(void **state AS_UNUSED)
{
    assert_int_equal(parse(INPUT("\"datatype\":\"INT32\",\"shape\":[],\"data\":5")), 0);
    assert_int_equal(got.r.inputs[0].nbytes, 4);
    assert_int_equal(got.r.inputs[0].data[0], 5);
    assert_int_equal(parse(INPUT("\"datatype\":\"INT32\",\"shape\":[],\"data\":[5]")), 0);
    assert_int_equal(parse(INPUT("\"datatype\":\"BYTES\",\"shape\":[0,4],\"data\":[]")), 0);
    assert_int_equal(got.r.inputs[0].nbytes, 0);
}

static void large_tensors_lie_in_one_blob(void **state AS_UNUSED)
{
    struct as_buf b = {0};

    as_buf_str(&b, "{\"inputs\":[");
    for (int i = 0; i < 2; i++) {
        as_buf_printf(&b, "%s{\"name\":\"%c\",\"shape\":[1500],\"datatype\":\"INT32\",\"data\":[0",
                      i ? "," : "", 'a' + i);
        for (int k = 1; k < 1500; k++)
            as_buf_printf(&b, ",%d", k);
        as_buf_str(&b, "]}");
    }
    as_buf_add(&b, "]}", 3);
    assert_int_equal(parse((const char *)b.p), 0);
    assert_non_null(got.r.blob);
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t *p = got.r.inputs[i].data;

        assert_true(p >= got.r.blob->data && p + 6000 <= got.r.blob->data + got.r.blob->n);
        assert_int_equal((uintptr_t)p % AS_BLOB_ALIGN, 0);
        assert_int_equal(p[4 * 1499] | p[4 * 1499 + 1] << 8, 1499);
    }
    assert_true(got.r.typed >= 12000);
    as_buf_fini(&b);
}

static void binary_parts_lie_in_the_body(void **state AS_UNUSED)
{
    static const char json[] = "{\"inputs\":[{\"name\":\"a\",\"datatype\":\"INT16\",\"shape\":[2],"
                               "\"parameters\":{\"binary_data_size\":4}},"
                               "{\"name\":\"j\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":[9]},"
                               "{\"name\":\"s\",\"datatype\":\"BYTES\",\"shape\":[1],"
                               "\"parameters\":{\"binary_data_size\":7}}]}";

    assert_int_equal(parse_with(json, "\1\2\3\4\3\0\0\0abc", 11), 0);
    assert_ptr_equal(got.r.inputs[0].data, got.body + strlen(json));
    assert_ptr_equal(got.r.inputs[2].data, got.body + strlen(json) + 4);
    assert_int_equal(got.r.inputs[2].nbytes, 7);
    assert_int_equal(parse_with(json, "\1\2\3\4\3\0\0\0abcd", 12), AS_EINVALID);
    assert_string_equal(got.why, "1 bytes of binary data are in no input's binary_data_size");
    assert_int_equal(parse_with(json, "\1\2\3\4\3\0\0\0ab", 10), AS_EINVALID);
    assert_string_equal(
        got.why,
        "input 's': binary_data_size is 7, but only 6 bytes of binary data are left in the body");
    assert_int_equal(parse_with(json, "\1\2\3\4\4\0\0\0abc", 11), AS_EINVALID);
    assert_string_equal(got.why,
                        "input 's': 7 bytes of raw data are not the 1 BYTES elements of shape [1]");
    assert_int_equal(
        parse_with(
            INPUT("\"datatype\":\"INT16\",\"shape\":[2],\"parameters\":{\"binary_data_size\":3}"),
            "abc", 3),
        AS_EINVALID);
    assert_string_equal(got.why, "input 'a': 3 bytes of raw data, shape [2] of INT16 needs 4");
}

static void data_that_does_not_fit_the_shape(void **state AS_UNUSED)
{
    REFUSED(INPUT("\"datatype\":\"INT32\",\"shape\":[2,2],\"data\":[1,2,3]"),
            "input 'a': 3 elements in data, shape [2,2] needs 4");
    REFUSED(INPUT("\"datatype\":\"INT32\",\"shape\":[2],\"data\":[1,2,3]"),
            "input 'a': 3 elements in data, shape [2] needs 2");
    REFUSED(INPUT("\"datatype\":\"INT32\",\"shape\":[4611686018427387904],\"data\":[1]"),
            "input 'a': shape [4611686018427387904] of INT32 is too large");
    REFUSED(INPUT("\"datatype\":\"INT8\",\"shape\":[4611686018427387904],\"data\":[1]"),
            "input 'a': 1 elements in data, shape [4611686018427387904] needs 4611686018427387904");
    REFUSED(INPUT("\"datatype\":\"INT32\",\"shape\":[-1],\"data\":[1]"),
            "input 'a': shape [-1] has a negative size");
    REFUSED(INPUT("\"datatype\":\"INT32\",\"shape\":[1],\"data\":1"),
            "input 'a': data must be an array");
    REFUSED(INPUT("\"datatype\":\"UINT8\",\"shape\":[2],\"data\":[1,300]"),
            "input 'a': data[1]: 300 does not fit UINT8");
}

static void missing_keys_and_wrong_types(void **state AS_UNUSED)
{
    REFUSED("[]", "the body must be a JSON object");
    REFUSED("{}", "inputs is missing");
    REFUSED("{\"inputs\":{}}", "inputs must be an array");
    REFUSED("{\"inputs\":[7]}", "inputs[0]: expected an object");
    REFUSED("{\"inputs\":[{}]}", "inputs[0] has no name");
    REFUSED("{\"inputs\":[{\"name\":7}]}", "inputs[0]: name must be a string");
    REFUSED(INPUT("\"datatype\":7"), "input 'a': datatype must be a string");
    REFUSED(INPUT("\"datatype\":\"FP128\""), "input 'a': unknown datatype 'FP128'");
    REFUSED(INPUT("\"shape\":[1]"), "input 'a': datatype is missing");
    REFUSED(INPUT("\"datatype\":\"FP32\""), "input 'a': shape is missing");
    REFUSED(INPUT("\"shape\":[1],\"datatype\":\"FP32\""),
            "input 'a': neither data nor binary_data_size is given");
    REFUSED(INPUT("\"shape\":[1.0]"), "input 'a': shape must be an array of integers");
    REFUSED(INPUT("\"shape\":2"), "input 'a': shape must be an array of integers");
    REFUSED(INPUT("\"parameters\":[]"), "input 'a': parameters must be an object");
    REFUSED(INPUT("\"parameters\":{\"binary_data_size\":-1}"),
            "input 'a': parameter 'binary_data_size' must be an integer, 0 or greater");
    REFUSED(
        INPUT(
            "\"shape\":[1],\"datatype\":\"UINT8\",\"parameters\":{\"shared_memory_region\":\"r\"}"),
        "input 'a': shared_memory_region without shared_memory_byte_size");
    REFUSED(INPUT("\"datatype\":\"INT8\",\"shape\":[1],\"data\":[1],\"parameters\":{\"binary_data_"
                  "size\":0}"),
            "input 'a': data and binary_data_size must not be mixed");
    REFUSED("{\"id\":7}", "id, model_name and model_version must be strings");
    REFUSED("{\"parameters\":7}", "parameters must be an object");
    REFUSED("{\"parameters\":{\"p\":[]}}", "parameter 'p': expected a string, a number or a bool");
    REFUSED("{\"parameters\":{\"p\":1e999}}",
            "parameter 'p': expected a string, a number or a bool");
    REFUSED("{\"parameters\":{\"binary_data_output\":1}}",
            "parameter 'binary_data_output' must be a bool");
    REFUSED("{\"inputs\":[],\"outputs\":{}}", "outputs must be an array");
    REFUSED("{\"inputs\":[],\"outputs\":[{}]}", "outputs[0] has no name");
    REFUSED("{\"inputs\":[],\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":1}}]}",
            "outputs: parameter 'binary_data' must be a bool");
    REFUSED("{\"inputs\":[]", "not JSON at byte 12: expected ',' or '}'");
    REFUSED("{\"inputs\":[],\"x\":[1,]}", "not JSON at byte 20: expected a value");
    REFUSED("{\"inputs\":[]}}", "not JSON at byte 13: something follows the end");
}

static void duplicate_keys_are_refused(void **state AS_UNUSED)
{
    REFUSED("{\"id\":\"1\",\"id\":\"1\"}", "key 'id' is given twice");
    REFUSED("{\"inputs\":[],\"inputs\":[]}", "key 'inputs' is given twice");
    REFUSED(INPUT("\"name\":\"b\""), "input 'a': key 'name' is given twice");
    REFUSED(INPUT("\"data\":[1],\"data\":[1]"), "input 'a': key 'data' is given twice");
    REFUSED(INPUT("\"parameters\":{\"binary_data_size\":0,\"binary_data_size\":0}"),
            "input 'a': parameter 'binary_data_size' is given twice");
    REFUSED("{\"inputs\":[],\"parameters\":{\"p\":1,\"p\":1}}", "parameter 'p' is given twice");
    REFUSED("{\"inputs\":[{\"name\":\"a\",\"datatype\":\"INT8\",\"shape\":[0],\"data\":[]},"
            "{\"name\":\"a\",\"datatype\":\"INT8\",\"shape\":[0],\"data\":[]}]}",
            "input 'a' is given twice");
    assert_int_equal(parse("{\"inputs\":[],\"unknown\":1,\"unknown\":2}"), 0);
}

static void limits(void **state AS_UNUSED)
{
    for (uint32_t n = AS_OIP_TENSORS_MAX; n <= AS_OIP_TENSORS_MAX + 1; n++) {
        struct as_buf b = {0};

        as_buf_str(&b, "{\"inputs\":[");
        for (uint32_t i = 0; i < n; i++)
            as_buf_printf(&b, "%s{\"name\":\"%x\",\"datatype\":\"INT8\",\"shape\":[0],\"data\":[]}",
                          i ? "," : "", i);
        as_buf_add(&b, "]}", 3);
        assert_int_equal(parse((char *)b.p), n > AS_OIP_TENSORS_MAX ? AS_EINVALID : 0);
        as_buf_fini(&b);
    }
    assert_string_equal(got.why, "inputs: more than 4096 entries");
    for (uint32_t n = AS_OIP_PARAMS_MAX; n <= AS_OIP_PARAMS_MAX + 1; n++) {
        struct as_buf b = {0};

        as_buf_str(&b, "{\"inputs\":[],\"parameters\":{");
        for (uint32_t i = 0; i < n; i++)
            as_buf_printf(&b, "%s\"%x\":1", i ? "," : "", i);
        as_buf_add(&b, "}}", 3);
        assert_int_equal(parse((char *)b.p), n > AS_OIP_PARAMS_MAX ? AS_EINVALID : 0);
        as_buf_fini(&b);
    }
    assert_string_equal(got.why, "parameters: more than 1024 entries");
}

/* --- requests that need the signature --- */

static const int64_t by_two[] = {-1, 2}, any[] = {-1}, wild[] = {-1, -1}, one[] = {1}, two[] = {2};

static int raw(const struct as_tensor_spec *s, uint32_t n_specs, const void *p, size_t n)
{
    set_body("", p, n);
    return as_oip_json_parse_raw(s, n_specs, got.body, n, &got.arena, &got.r, got.why,
                                 sizeof(got.why));
}

static void a_raw_body_is_the_only_input(void **state AS_UNUSED)
{
    const struct as_tensor_spec fp = {AS_STR("x"), AS_DT_FP32, 2, by_two, NULL, 0};
    const struct as_tensor_spec text = {AS_STR("s"), AS_DT_BYTES, 1, any, NULL, 0};
    const struct as_tensor_spec texts = {AS_STR("s"), AS_DT_BYTES, 1, two, NULL, 0};
    const struct as_tensor_spec open = {AS_STR("w"), AS_DT_INT8, 2, wild, NULL, 0};
    const struct as_tensor_spec both[] = {fp, text};

    assert_int_equal(raw(&fp, 1, "0123456789abcdef", 16), 0);
    assert_int_equal(got.r.inputs[0].shape[0], 2);
    assert_ptr_equal(got.r.inputs[0].data, got.body);
    assert_true(got.r.binary_output);
    assert_int_equal(raw(&text, 1, "abc", 3), 0);
    assert_int_equal(got.r.inputs[0].nbytes, 7);
    assert_memory_equal(got.r.inputs[0].data, "\3\0\0\0abc", 7);
    assert_int_equal(got.r.inputs[0].shape[0], 1);
    assert_int_equal(raw(&fp, 1, "0123456789", 10), AS_EINVALID);
    assert_string_equal(got.why,
                        "input 'x': 10 bytes do not fit the declared shape [-1,2] of FP32");
    assert_int_equal(raw(&texts, 1, "abc", 3), AS_EINVALID);
    assert_string_equal(got.why, "input 's': a raw request is one element of BYTES, which does not "
                                 "fit the declared shape [2]");
    assert_int_equal(raw(&open, 1, "abc", 3), AS_EINVALID);
    assert_string_equal(got.why, "input 'w': a raw request allows one variable size in the "
                                 "declared shape, which is [-1,-1]");
    assert_int_equal(raw(both, 2, "abc", 3), AS_EINVALID);
    assert_string_equal(
        got.why, "a raw binary request needs a model with one declared input, this model has 2");
}

static int generate(const char *json)
{
    static const struct as_tensor_spec specs[] = {
        {{"text", 4}, AS_DT_BYTES, 1, one, NULL, 0},
        {{"x", 1}, AS_DT_FP32, 2, by_two, NULL, 0},
        {{"w", 1}, AS_DT_INT8, 2, wild, NULL, 0},
        {{"z", 1}, AS_DT_BOOL, AS_ANY_RANK, NULL, NULL, 0}};
    const uint8_t *p = set_body(json, NULL, 0);

    return as_oip_json_parse_generate(got.j, p, strlen(json), specs, AS_COUNT(specs), &got.arena,
                                      &got.r, got.why, sizeof(got.why));
}

static void generate_takes_inputs_by_name(void **state AS_UNUSED)
{
    assert_int_equal(
        generate("{\"id\":\"i\",\"text\":\"hi\",\"x\":[1,2,3,4],\"w\":[[1,2,3],[4,5,6]],\"z\":true,"
                 "\"max_tokens\":5,\"parameters\":{\"t\":0.5}}"),
        0);
    assert_str(got.r.id, "i");
    assert_int_equal(got.r.n_inputs, 4);
    assert_memory_equal(got.r.inputs[0].data, "\2\0\0\0hi", 6);
    assert_int_equal(got.r.inputs[1].shape[0], 2);
    assert_int_equal(got.r.inputs[2].shape[0], 2);
    assert_int_equal(got.r.inputs[2].shape[1], 3);
    assert_int_equal(got.r.inputs[3].ndim, 0);
    assert_int_equal(got.r.n_params, 2);
    assert_str(got.r.params[0].name, "max_tokens");
    assert_int_equal(generate("{\"w\":[1,2,3]}"), 0); /* flat: the last size is computed */
    assert_int_equal(got.r.inputs[0].shape[0], 1);
    assert_int_equal(got.r.inputs[0].shape[1], 3);
}

static void malformed_generate_requests_are_refused(void **state AS_UNUSED)
{
    assert_int_equal(generate("{\"x\":[1,2,3]}"), AS_EINVALID);
    assert_string_equal(got.why, "input 'x': 3 elements do not fit the declared shape [-1,2]");
    assert_int_equal(generate("{\"text\":[\"a\",\"b\"]}"), AS_EINVALID);
    assert_string_equal(got.why, "input 'text': 2 elements do not fit the declared shape [1]");
    assert_int_equal(generate("{\"text\":5}"), AS_EINVALID);
    assert_string_equal(got.why, "input 'text': data[0] is a number, BYTES takes strings");
    assert_int_equal(generate("{\"text\":\"a\",\"text\":\"b\"}"), AS_EINVALID);
    assert_string_equal(got.why, "input 'text' is given twice");
    assert_int_equal(generate("{\"other\":[1]}"), AS_EINVALID);
    assert_string_equal(got.why, "parameter 'other': expected a string, a number or a bool");
    assert_int_equal(generate("{\"id\":\"a\",\"id\":\"b\"}"), AS_EINVALID);
    assert_string_equal(got.why, "key 'id' is given twice");
}

/* --- responses --- */

static const float ys[] = {0.1f, 2};
static const struct as_tensor answer_outputs[] = {
    {{"y", 1}, AS_DT_FP32, 1, two, (const uint8_t *)ys, 8},
    {{"s", 1}, AS_DT_BYTES, 1, one, (const uint8_t *)"\2\0\0\0\"\n", 6},
};
static const struct as_param answer_params[] = {
    {.name = {"p", 1}, .type = AS_PARAM_BOOL, .b = true}};
static const struct as_oip_response answer = {.model = {"m", 1},
                                              .version = {"1", 1},
                                              .id = {"7", 1},
                                              .outputs = answer_outputs,
                                              .n_outputs = 2,
                                              .params = answer_params,
                                              .n_params = 1};

static void written(uint64_t max, size_t n, uint8_t *text, const char *want)
{
    assert_true(n <= max);
    text[n] = 0;
    assert_string_equal((char *)text, want);
}

static void a_response_in_json_and_in_binary(void **state AS_UNUSED)
{
    struct as_oip_requested_output asked[] = {{.name = AS_STR("y"), .binary = true},
                                              {.name = AS_STR("s")}};
    struct as_oip_infer q = {0};
    uint8_t text[512];
    uint64_t max;

    assert_int_equal(as_oip_json_response_max(&answer, &q, &max, got.why, sizeof(got.why)), 0);
    written(
        max, as_oip_json_put_response(text, &answer, &q), text,
        "{\"id\":\"7\",\"model_name\":\"m\",\"model_version\":\"1\",\"parameters\":{\"p\":true},"
        "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[2],\"data\":[0.1,2.0]},"
        "{\"name\":\"s\",\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"\\\"\\n\"]}]}");
    q.outputs = asked;
    q.n_outputs = 2;
    assert_int_equal(as_oip_json_response_max(&answer, &q, &max, got.why, sizeof(got.why)), 0);
    written(
        max, as_oip_json_put_response(text, &answer, &q), text,
        "{\"id\":\"7\",\"model_name\":\"m\",\"model_version\":\"1\",\"parameters\":{\"p\":true},"
        "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[2],"
        "\"parameters\":{\"binary_data_size\":8}},"
        "{\"name\":\"s\",\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"\\\"\\n\"]}]}");
}

/* They are written with binary_data_size; an output in shared memory has none. */
static void outputs_with_parameters(void **state AS_UNUSED)
{
    static const struct as_tensor_param own[] = {
        {{.name = {"content_type", 12}, .type = AS_PARAM_STRING, .str = {"s\"", 2}}, 0},
        {{.name = {"n", 1}, .type = AS_PARAM_INT64, .i64 = -1}, 0},
        {{.name = {"f", 1}, .type = AS_PARAM_BOOL, .b = true}, 1}};
    struct as_oip_requested_output asked[] = {{.name = AS_STR("y"), .binary = true},
                                              {.name = AS_STR("s")}};
    struct as_oip_shm_range ranges[] = {{.region = AS_STR("r"), .size = 8}, {.region = {0}}};
    struct as_oip_response r = answer;
    struct as_oip_infer q = {.outputs = asked, .n_outputs = 2};
    uint8_t text[512];
    uint64_t max;

    r.tensor_params = (struct as_tensor_params){own, 3};
    r.params = NULL;
    r.n_params = 0;
    assert_int_equal(as_oip_json_response_max(&r, &q, &max, got.why, sizeof(got.why)), 0);
    written(max, as_oip_json_put_response(text, &r, &q), text,
            "{\"id\":\"7\",\"model_name\":\"m\",\"model_version\":\"1\","
            "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[2],"
            "\"parameters\":{\"binary_data_size\":8,\"content_type\":\"s\\\"\",\"n\":-1}},"
            "{\"name\":\"s\",\"datatype\":\"BYTES\",\"shape\":[1],\"parameters\":{\"f\":true},"
            "\"data\":[\"\\\"\\n\"]}]}");
    r.ranges = ranges;
    assert_int_equal(as_oip_json_response_max(&r, &q, &max, got.why, sizeof(got.why)), 0);
    written(max, as_oip_json_put_response(text, &r, &q), text,
            "{\"id\":\"7\",\"model_name\":\"m\",\"model_version\":\"1\","
            "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[2]},"
            "{\"name\":\"s\",\"datatype\":\"BYTES\",\"shape\":[1],\"parameters\":{\"f\":true},"
            "\"data\":[\"\\\"\\n\"]}]}");
}

static void bytes_that_are_not_utf8(void **state AS_UNUSED)
{
    const struct as_tensor s = {
        AS_STR("s"), AS_DT_BYTES, 1, one, (const uint8_t *)"\1\0\0\0\xff", 5};
    const struct as_oip_response r = {.model = AS_STR("m"), .outputs = &s, .n_outputs = 1};
    struct as_oip_infer q = {0};
    uint64_t max;

    assert_int_equal(as_oip_json_response_max(&r, &q, &max, got.why, sizeof(got.why)), AS_EINVALID);
    assert_string_equal(
        got.why,
        "output 's': BYTES that are not UTF-8 cannot be sent as JSON; request it with binary_data");
    q.binary_output = true;
    assert_int_equal(as_oip_json_response_max(&r, &q, &max, got.why, sizeof(got.why)), 0);
}

static void a_generate_response_is_flat(void **state AS_UNUSED)
{
    const struct as_tensor own = {AS_STR("id"), AS_DT_INT8, 1, one, (const uint8_t *)"\5", 1};
    const struct as_oip_response r = {.model = AS_STR("m"),
                                      .version = AS_STR("1"),
                                      .id = AS_STR("7"),
                                      .outputs = &own,
                                      .n_outputs = 1};
    uint8_t text[256];
    uint64_t max;

    assert_int_equal(as_oip_json_generate_max(&answer, &max, got.why, sizeof(got.why)), 0);
    written(
        max, as_oip_json_put_generate(text, &answer), text,
        "{\"id\":\"7\",\"model_name\":\"m\",\"model_version\":\"1\",\"parameters\":{\"p\":true},"
        "\"y\":[0.1,2.0],\"s\":\"\\\"\\n\"}");
    assert_int_equal(as_oip_json_generate_max(&r, &max, got.why, sizeof(got.why)), 0);
    written(max, as_oip_json_put_generate(text, &r), text,
            "{\"model_name\":\"m\",\"model_version\":\"1\",\"id\":5}");
}

/* --- the client's side --- */

static void a_request_is_parsed_again(void **state AS_UNUSED)
{
    const struct as_oip_requested_output asked[] = {{.name = AS_STR("y"), .binary = true}};
    struct as_oip_json_request q = {.r = {.head = answer, .outputs = asked, .n_outputs = 1}};
    char text[512] = "";
    uint64_t max;

    assert_int_equal(as_oip_json_request_max(&q, &max, got.why, sizeof(got.why)), 0);
    assert_true(as_oip_json_put_request((uint8_t *)text, &q) <= max);
    assert_int_equal(parse(text), 0);
    assert_str(got.r.id, "7");
    assert_int_equal(got.r.n_inputs, 2);
    assert_memory_equal(got.r.inputs[0].data, ys, 8);
    assert_memory_equal(got.r.inputs[1].data, "\2\0\0\0\"\n", 6);
    assert_true(got.r.outputs[0].binary);
    memset(text, 0, sizeof(text));
    q = (struct as_oip_json_request){.r = {.head = answer}, .binary = true, .binary_output = true};
    as_oip_json_put_request((uint8_t *)text, &q);
    assert_int_equal(parse_with(text, "yyyyyyyy\2\0\0\0ab", 14), 0);
    assert_true(got.r.binary_output);
    assert_memory_equal(got.r.inputs[0].data, "yyyyyyyy", 8);
}

static void a_response_is_parsed(void **state AS_UNUSED)
{
    static const char text[] =
        "{\"model_name\":\"m\",\"model_version\":\"1\",\"id\":\"7\",\"outputs\":[{\"name\":\"y\","
        "\"datatype\":\"FP32\",\"shape\":[1],\"parameters\":{\"binary_data_size\":4}}]}";
    struct as_blob *blob = NULL;
    struct as_oip_response r;
    struct as_str why;

    set_body(text, "abcd", 4);
    assert_int_equal(as_oip_json_parse_response(got.j, got.body, strlen(text), strlen(text) + 4,
                                                &got.arena, &r, &blob, got.why, sizeof(got.why)),
                     0);
    assert_str(r.model, "m");
    assert_str(r.version, "1");
    assert_memory_equal(r.outputs[0].data, "abcd", 4);
    assert_null(blob);
    set_body("{\"outputs\":[{\"name\":\"y\"}]}", NULL, 0);
    assert_int_equal(as_oip_json_parse_response(got.j, got.body, 26, 26, &got.arena, &r, &blob,
                                                got.why, sizeof(got.why)),
                     AS_EINVALID);
    assert_string_equal(got.why, "output 'y': datatype is missing");
    set_body("{\"code\":5,\"error\":\"no\"}", NULL, 0);
    assert_int_equal(as_oip_json_parse_error(got.j, got.body, 23, &got.arena, &why), 0);
    assert_str(why, "no");
    set_body("{\"code\":5}", NULL, 0);
    assert_int_equal(as_oip_json_parse_error(got.j, got.body, 10, &got.arena, &why), AS_EINVALID);
}

static void metadata(void **state AS_UNUSED)
{
    const struct as_str versions[] = {AS_STR("1"), AS_STR("2")};
    const struct as_tensor_spec in = {AS_STR("x"), AS_DT_FP32, 2, by_two, NULL, 0},
                                out = {AS_STR("y"), AS_DT_BYTES, AS_ANY_RANK, NULL, NULL, 0};
    const struct as_oip_model m = {.name = AS_STR("m"),
                                   .platform = AS_STR("p"),
                                   .versions = versions,
                                   .n_versions = 2,
                                   .inputs = &in,
                                   .outputs = &out,
                                   .n_inputs = 1,
                                   .n_outputs = 1};
    const struct as_oip_server s = {.name = AS_STR("anyserve"),
                                    .version = AS_STR("1.0"),
                                    .extensions = versions,
                                    .n_extensions = 2};
    struct as_buf b = {0};

    as_oip_json_put_model(&b, &m);
    assert_str(
        as_buf_slice(&b),
        "{\"name\":\"m\",\"versions\":[\"1\",\"2\"],\"platform\":\"p\",\"inputs\":[{\"name\":"
        "\"x\",\"datatype\":\"FP32\",\"shape\":[-1,2]}],\"outputs\":[{\"name\":\"y\","
        "\"datatype\":\"BYTES\",\"shape\":[]}]}");
    as_buf_fini(&b);
    as_oip_json_put_server(&b, &s);
    assert_str(as_buf_slice(&b),
               "{\"name\":\"anyserve\",\"version\":\"1.0\",\"extensions\":[\"1\",\"2\"]}");
    as_buf_fini(&b);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        T(a_whole_request),
        T(outputs_requested_in_binary),
        T(scalars_and_empty_tensors),
        T(large_tensors_lie_in_one_blob),
        T(binary_parts_lie_in_the_body),
        T(data_that_does_not_fit_the_shape),
        T(missing_keys_and_wrong_types),
        T(duplicate_keys_are_refused),
        T(limits),
        T(a_raw_body_is_the_only_input),
        T(generate_takes_inputs_by_name),
        T(malformed_generate_requests_are_refused),
        T(a_response_in_json_and_in_binary),
        T(outputs_with_parameters),
        T(bytes_that_are_not_utf8),
        T(a_generate_response_is_flat),
        T(a_request_is_parsed_again),
        T(a_response_is_parsed),
        T(metadata),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
