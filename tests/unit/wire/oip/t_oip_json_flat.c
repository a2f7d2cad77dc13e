/* Specification of wire/oip/oip_json_flat: the server rebuilds the request that a client of
 * generate writes, and the client parses the server's responses. */
#include "wire/oip/oip_json_flat.h"

#include "unit.h"

static struct as_json *json;
static struct as_arena arena;
static struct as_buf text;
static char why[300];

static int set_up(void **state AS_UNUSED)
{
    as_arena_init(&arena, NULL, 0);
    text.n = 0;
    return 0;
}

static int tear_down(void **state AS_UNUSED)
{
    as_arena_fini(&arena);
    return 0;
}

static const char *written(void)
{
    memset(as_buf_reserve(&text, AS_JSON_PADDING), 0, AS_JSON_PADDING);
    return (const char *)text.p;
}

#define SHAPE(...)                                                                                 \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define SPEC(t, ...)                                                                               \
    {                                                                                              \
        .name = AS_STR("x"), .dtype = t, .shape = SHAPE(__VA_ARGS__),                              \
        .ndim = sizeof(SHAPE(__VA_ARGS__)) / sizeof(int64_t)                                       \
    }
#define TENSOR(t, values, ...)                                                                     \
    {                                                                                              \
        .name = AS_STR("x"), .dtype = t, .shape = SHAPE(__VA_ARGS__),                              \
        .ndim = sizeof(SHAPE(__VA_ARGS__)) / sizeof(int64_t), .data = (const uint8_t *)(values),   \
        .nbytes = sizeof(values)                                                                   \
    }

static int put(const struct as_tensor *t)
{
    struct as_oip_request r = {.head = {.outputs = t, .n_outputs = 1}};

    text.n = 0;
    return as_oip_json_flat_put(&text, &r, why, sizeof(why));
}

/* --- requests --- */

static void values_are_nested_like_their_shape(void **state AS_UNUSED)
{
    static const int32_t v[] = {1, 2, 3, 4, 5, 6};
    static const uint8_t words[] = "\2\0\0\0ab\0\0\0\0\1\0\0\0c\1\0\0\0";
    struct as_tensor row = TENSOR(AS_DT_INT32, v, 6), table = TENSOR(AS_DT_INT32, v, 2, 3);
    struct as_tensor cube = TENSOR(AS_DT_INT32, v, 1, 3, 2), scalar = row, empty = row;
    struct as_tensor strings = {.name = AS_STR("x"),
                                .dtype = AS_DT_BYTES,
                                .ndim = 2,
                                .shape = SHAPE(2, 2),
                                .data = words,
                                .nbytes = sizeof(words)};

    assert_int_equal(put(&row), 0);
    assert_string_equal(written(), "{\"x\":[1,2,3,4,5,6]}");
    assert_int_equal(put(&table), 0);
    assert_string_equal(written(), "{\"x\":[[1,2,3],[4,5,6]]}");
    assert_int_equal(put(&cube), 0);
    assert_string_equal(written(), "{\"x\":[[[1,2],[3,4],[5,6]]]}");
    scalar.ndim = 0;
    scalar.nbytes = 4;
    assert_int_equal(put(&scalar), 0);
    assert_string_equal(written(), "{\"x\":1}");
    empty.ndim = 2;
    empty.shape = SHAPE(2, 0);
    empty.data = NULL;
    empty.nbytes = 0;
    assert_int_equal(put(&empty), 0);
    assert_string_equal(written(), "{\"x\":[[],[]]}");
    assert_int_equal(put(&strings), 0);
    assert_string_equal(written(), "{\"x\":[[\"ab\",\"\"],[\"c\",\"\\u0000\"]]}");
}

static void the_server_rebuilds_the_request(void **state AS_UNUSED)
{
    static const float v[] = {1.5f, -2, 0.1f, 4, 5, 6};
    const struct as_tensor_spec spec = {
        .name = AS_STR("x"), .dtype = AS_DT_FP32, .ndim = 2, .shape = (const int64_t[]){-1, -1}};
    const struct as_tensor t = TENSOR(AS_DT_FP32, v, 2, 3);
    const struct as_param params[] = {
        {.name = AS_STR("b"), .type = AS_PARAM_BOOL, .b = true},
        {.name = AS_STR("i"), .type = AS_PARAM_INT64, .i64 = -5},
        {.name = AS_STR("d"), .type = AS_PARAM_DOUBLE, .f64 = .5},
        {.name = AS_STR("s\""), .type = AS_PARAM_STRING, .str = AS_STR("t")}};
    struct as_oip_request r = {.head = {.id = AS_STR("7"),
                                        .outputs = &t,
                                        .n_outputs = 1,
                                        .params = params,
                                        .n_params = AS_COUNT(params)}};
    struct as_oip_infer got;

    assert_int_equal(as_oip_json_flat_fits(&t, &spec, why, sizeof(why)), 0);
    assert_int_equal(as_oip_json_flat_put(&text, &r, why, sizeof(why)), 0);
    written();
    assert_int_equal(
        as_oip_json_parse_generate(json, text.p, text.n, &spec, 1, &arena, &got, why, sizeof(why)),
        0);
    assert_true(as_str_eq(got.id, AS_STR("7")));
    assert_int_equal(got.n_inputs, 1);
    assert_int_equal(got.inputs[0].ndim, 2);
    assert_memory_equal(got.inputs[0].shape, t.shape, 16);
    assert_memory_equal(got.inputs[0].data, v, sizeof(v));
    assert_int_equal(got.n_params, 4);
    assert_true(got.params[0].b && got.params[1].i64 == -5 && got.params[2].f64 == .5);
    assert_true(as_str_eq(got.params[3].name, AS_STR("s\"")));
}

static int fits(const struct as_tensor_spec *s, const int64_t *shape, uint32_t ndim)
{
    struct as_tensor t = {.name = AS_STR("x"), .dtype = AS_DT_FP32, .shape = shape, .ndim = ndim};

    why[0] = 0;
    return as_oip_json_flat_fits(&t, s, why, sizeof(why));
}

static void inputs_that_do_not_fit_are_refused(void **state AS_UNUSED)
{
    static const uint8_t bytes[] = "\1\0\0\0\xff";
    struct as_tensor_spec fixed = SPEC(AS_DT_FP32, 2, 3), one = SPEC(AS_DT_FP32, -1, 3);
    struct as_tensor_spec two = SPEC(AS_DT_FP32, -1, -1), any = {.dtype = AS_DT_FP32};
    struct as_tensor_spec other = SPEC(AS_DT_INT8, 2, 3);
    struct as_tensor no_text = {.name = AS_STR("x"),
                                .dtype = AS_DT_BYTES,
                                .ndim = 1,
                                .shape = SHAPE(1),
                                .data = bytes,
                                .nbytes = 5};

    assert_int_equal(fits(NULL, SHAPE(1), 1), AS_EINVALID);
    assert_string_equal(why, "input 'x': generate needs a declared input, and the model does not "
                             "declare this one");
    assert_int_equal(fits(&other, SHAPE(2, 3), 2), AS_EINVALID);
    assert_string_equal(why, "input 'x': generate needs the declared datatype INT8, not FP32");
    assert_int_equal(fits(&fixed, SHAPE(2, 3), 2), 0);
    assert_int_equal(fits(&fixed, SHAPE(3, 2), 2), AS_EINVALID);
    assert_string_equal(why, "input 'x': generate needs the declared shape [2,3], not [3,2]");
    assert_int_equal(fits(&fixed, SHAPE(6), 1), AS_EINVALID);
    assert_int_equal(fits(&one, SHAPE(7, 3), 2), 0);
    assert_int_equal(fits(&one, SHAPE(0, 3), 2), 0);
    assert_int_equal(fits(&one, SHAPE(3, 7), 2), AS_EINVALID);
    assert_int_equal(fits(&two, SHAPE(3, 7), 2), 0);
    assert_int_equal(fits(&two, SHAPE(3, 0), 2),
                     AS_EINVALID); /* an empty array does not show the 3 */
    assert_int_equal(fits(&two, SHAPE(1, 0), 2), 0);
    assert_int_equal(fits(&any, SHAPE(3, 7, 1), 3), 0);
    assert_int_equal(put(&no_text), AS_EINVALID);
    assert_string_equal(why, "input 'x': BYTES that are not UTF-8 cannot be sent as JSON");
}

/* --- responses --- */

static struct as_oip_response answer;
static struct as_str error;

static int read(const char *body, const struct as_tensor_spec *outputs, uint32_t n)
{
    struct as_blob *blob;
    int rc;

    text.n = 0;
    why[0] = 0;
    as_buf_str(&text, body);
    written();
    rc = as_oip_json_flat_parse(json, text.p, text.n, outputs, n, &arena, &answer, &blob, &error,
                                why, sizeof(why));
    if (!rc)
        assert_null(blob); /* these are small */
    return rc;
}

static void declared_outputs_have_their_datatype(void **state AS_UNUSED)
{
    struct as_tensor_spec spec = SPEC(AS_DT_FP32, -1, 2);

    assert_int_equal(
        read("{\"id\":\"7\",\"model_name\":\"m\",\"model_version\":\"2\",\"parameters\":"
             "{\"p\":1},\"x\":[1,2,3,4],\"y\":null}",
             &spec, 1),
        0);
    assert_true(as_str_eq(answer.id, AS_STR("7")) && as_str_eq(answer.model, AS_STR("m")) &&
                as_str_eq(answer.version, AS_STR("2")));
    assert_int_equal(answer.n_params, 1);
    assert_int_equal(answer.n_outputs, 1);
    assert_int_equal(answer.outputs[0].dtype, AS_DT_FP32);
    assert_int_equal(answer.outputs[0].ndim, 2);
    assert_memory_equal(answer.outputs[0].shape, SHAPE(2, 2), 16);
    assert_memory_equal(answer.outputs[0].data, ((const float[]){1, 2, 3, 4}), 16);
    assert_null(error.p);
}

static void other_outputs_have_the_datatype_that_fits(void **state AS_UNUSED)
{
    static const struct {
        const char *values;
        enum as_dtype dtype;
        uint32_t ndim;
        size_t nbytes;
    } rows[] = {{"5", AS_DT_INT64, 0, 8},
                {"[1,-2]", AS_DT_INT64, 1, 16},
                {"[1,18446744073709551615]", AS_DT_UINT64, 1, 16},
                {"[[1,2.5],[3,4]]", AS_DT_FP64, 2, 32},
                {"[true,false]", AS_DT_BOOL, 1, 2},
                {"\"text\"", AS_DT_BYTES, 0, 8},
                {"[]", AS_DT_INT64, 1, 0}};
    char body[200];

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        snprintf(body, sizeof(body), "{\"model_name\":\"m\",\"o\":%s}", rows[i].values);
        assert_int_equal(read(body, NULL, 0), 0);
        assert_int_equal(answer.n_outputs, 1);
        assert_int_equal(answer.outputs[0].dtype, rows[i].dtype);
        assert_int_equal(answer.outputs[0].ndim, rows[i].ndim);
        assert_int_equal(answer.outputs[0].nbytes, rows[i].nbytes);
    }
}

static void errors_and_outputs_named_error(void **state AS_UNUSED)
{
    struct as_tensor_spec spec = {.name = AS_STR("error"), .dtype = AS_DT_BYTES};

    assert_int_equal(read("{\"error\":\"no \\u00fc\"}", NULL, 0), 0);
    assert_true(as_str_eq(error, AS_STR("no \xc3\xbc")));
    assert_int_equal(answer.n_outputs, 0);
    assert_int_equal(read("{\"model_name\":\"m\",\"error\":\"e\"}", NULL, 0), 0);
    assert_null(error.p);
    assert_int_equal(answer.n_outputs, 1);
    assert_int_equal(read("{\"error\":\"e\"}", &spec, 1), 0);
    assert_null(error.p);
    assert_int_equal(read("{\"error\":5}", NULL, 0), 0);
    assert_null(error.p);
}

static void an_output_replaces_a_member_of_its_name(void **state AS_UNUSED)
{
    assert_int_equal(read("{\"id\":[1,2],\"model_name\":\"m\",\"parameters\":3}", NULL, 0), 0);
    assert_int_equal(answer.n_outputs, 2);
    assert_int_equal(answer.id.n, 0);
}

static void malformed_responses_are_refused(void **state AS_UNUSED)
{
    static const struct {
        const char *body, *words;
    } rows[] = {{"", "not JSON"},
                {"[1]", "the body must be a JSON object"},
                {"{\"x\":1", "not JSON"},
                {"{\"x\":1} 2", "not JSON"},
                {"{\"x\":1,\"x\":2}", "output 'x' is given twice"},
                {"{\"x\":{\"a\":1}}", "'x'"},
                {"{\"x\":[1,\"a\"]}", "output 'x': its values do not fit any datatype"},
                {"{\"x\":[[1],2]}", "'x'"}};
    struct as_tensor_spec spec = SPEC(AS_DT_INT8, 2);

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        assert_true(read(rows[i].body, NULL, 0) < 0);
        if (!strstr(why, rows[i].words))
            fail_msg("%s: %s", rows[i].body, why);
    }
    assert_int_equal(read("{\"x\":[1,2,3]}", &spec, 1), AS_EINVALID);
    assert_non_null(strstr(why, "3 elements"));
    assert_int_equal(read("{\"x\":[1,200]}", &spec, 1), AS_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(values_are_nested_like_their_shape),        TEST(the_server_rebuilds_the_request),
        TEST(inputs_that_do_not_fit_are_refused),        TEST(declared_outputs_have_their_datatype),
        TEST(other_outputs_have_the_datatype_that_fits), TEST(errors_and_outputs_named_error),
        TEST(an_output_replaces_a_member_of_its_name),   TEST(malformed_responses_are_refused),
    };
    int failed;

    json = as_json_new();
    failed = cmocka_run_group_tests_name("oip_json_flat", tests, NULL, NULL);
    as_buf_fini(&text);
    as_json_free(json);
    return failed;
}
