/* Specification of the client's side of wire/oip/oip: requests agree with our own parser,
 * responses and metadata with our own writer; typed contents of other servers; malformed bytes. */
#include "protobuf.h"
#include "wire/oip/oip.h"

static const int64_t two[] = {1, 2};
static const struct as_tensor tensors[] = {
    {{"a", 1}, AS_DT_FP32, 2, two, (const uint8_t *)"\0\0\x80\x3f\0\0\0\x40", 8},
    {{"b", 1}, AS_DT_BYTES, 0, NULL, (const uint8_t *)"\2\0\0\0hi", 6},
};
static const struct as_param params[] = {
    {.name = {"i", 1}, .type = AS_PARAM_INT64, .i64 = -1},
    {.name = {"s", 1}, .type = AS_PARAM_STRING, .str = {"x", 1}}};
static struct as_arena arena;
static char why[256];

static void check_tensors(const struct as_tensor *t, uint32_t n)
{
    assert_int_equal(n, 2);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(as_str_eq(t[i].name, tensors[i].name));
        assert_int_equal(t[i].dtype, tensors[i].dtype);
        assert_int_equal(t[i].ndim, tensors[i].ndim);
        if (t[i].ndim)
            assert_memory_equal(t[i].shape, tensors[i].shape, 8 * t[i].ndim);
        assert_int_equal(t[i].nbytes, tensors[i].nbytes);
        assert_memory_equal(t[i].data, tensors[i].data, t[i].nbytes);
    }
}

static void a_request_is_parsed_again(void **state AS_UNUSED)
{
    const struct as_oip_requested_output outputs[] = {{.name = AS_STR("y")}, {.name = AS_STR("z")}};
    const struct as_oip_request q = {.head = {.model = AS_STR("m"),
                                              .version = AS_STR("7"),
                                              .id = AS_STR("id"),
                                              .outputs = tensors,
                                              .n_outputs = 2,
                                              .params = params,
                                              .n_params = 2},
                                     .outputs = outputs,
                                     .n_outputs = 2};
    size_t n = (size_t)as_oip_request_len(&q);
    uint8_t *p = malloc(n);
    struct as_oip_infer r;

    as_oip_put_request(p, &q);
    assert_int_equal(as_oip_parse_infer(p, n, &arena, &r, why, sizeof(why)), 0);
    assert_true(as_str_eq(r.model, AS_STR("m")) && as_str_eq(r.version, AS_STR("7")));
    assert_true(as_str_eq(r.id, AS_STR("id")));
    check_tensors(r.inputs, r.n_inputs);
    assert_int_equal(r.n_params, 2);
    assert_int_equal(r.params[0].i64, -1);
    assert_true(as_str_eq(r.params[1].str, AS_STR("x")));
    assert_int_equal(r.n_outputs, 2);
    assert_true(as_str_eq(r.outputs[1].name, AS_STR("z")));
    free(p);
}

static void a_request_over_the_limit_has_no_length(void **state AS_UNUSED)
{
    struct as_tensor t = {.name = AS_STR("a"), .dtype = AS_DT_UINT8};
    struct as_oip_request q = {.head = {.outputs = &t, .n_outputs = 1}};
    size_t rest = (size_t)as_oip_request_len(&q) - 2 + 6; /* tag and length of INT32_MAX bytes */

    t.nbytes = INT32_MAX - rest;
    assert_int_equal(as_oip_request_len(&q), INT32_MAX);
    t.nbytes++;
    assert_true(as_oip_request_len(&q) == UINT64_MAX);
    t.nbytes = SIZE_MAX;
    assert_true(as_oip_request_len(&q) == UINT64_MAX);
}

static void a_response_is_parsed_again(void **state AS_UNUSED)
{
    const struct as_oip_response q = {.model = AS_STR("m"),
                                      .version = AS_STR("7"),
                                      .id = AS_STR("id"),
                                      .outputs = tensors,
                                      .n_outputs = 2,
                                      .params = params,
                                      .n_params = 2};
    size_t n = (size_t)as_oip_response_len(&q);
    uint8_t *p = malloc(n);
    struct as_oip_response r;

    as_oip_put_response(p, &q);
    assert_int_equal(as_oip_parse_response(p, n, &arena, &r, why, sizeof(why)), 0);
    assert_true(as_str_eq(r.model, AS_STR("m")) && as_str_eq(r.version, AS_STR("7")));
    assert_true(as_str_eq(r.id, AS_STR("id")));
    check_tensors(r.outputs, r.n_outputs);
    assert_int_equal(r.n_params, 2);
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *part = malloc(cut ? cut : 1);
        int rc;

        memcpy(part, p, cut);
        rc = as_oip_parse_response(part, cut, &arena, &r, why, sizeof(why));
        assert_true(rc == 0 || rc == AS_EPROTO || rc == AS_EINVALID);
        free(part);
    }
    free(p);
}

static void other_servers_may_use_typed_contents(void **state AS_UNUSED)
{
    struct as_buf b = {0}, tensor = {0}, contents = {0};
    struct as_oip_response r;

    pb_packed(&contents, 2, (const int64_t[]){5, -6}, 2);
    pb_text(&tensor, 1, "y");
    pb_text(&tensor, 2, "INT8");
    pb_packed(&tensor, 3, (const int64_t[]){2}, 1);
    pb_nest(&tensor, 5, contents);
    pb_nest(&b, 5, tensor);
    pb_text(&b, 7, "a field that responses do not have");
    assert_int_equal(as_oip_parse_response(b.p, b.n, &arena, &r, why, sizeof(why)), 0);
    assert_int_equal(r.n_outputs, 1);
    assert_int_equal(r.outputs[0].nbytes, 2);
    assert_memory_equal(r.outputs[0].data, "\5\xfa", 2);
    as_buf_fini(&b);
}

static void malformed_responses_are_refused(void **state AS_UNUSED)
{
    struct as_buf b = {0}, tensor = {0};
    struct as_oip_response r;

    pb_text(&tensor, 1, "y");
    pb_text(&tensor, 2, "INT16");
    pb_packed(&tensor, 3, (const int64_t[]){2}, 1);
    pb_nest(&b, 5, tensor);
    pb_bytes(&b, 6, "abc", 3);
    assert_int_equal(as_oip_parse_response(b.p, b.n, &arena, &r, why, sizeof(why)), AS_EINVALID);
    assert_string_equal(why, "output 'y': 3 bytes of raw data, shape [2] of INT16 needs 4");
    pb_bytes(&b, 6, "abc", 3);
    assert_int_equal(as_oip_parse_response(b.p, b.n, &arena, &r, why, sizeof(why)), AS_EINVALID);
    assert_string_equal(why, "raw_output_contents: 2 entries for 1 outputs");
    as_buf_fini(&b);
}

static void metadata_is_parsed_again(void **state AS_UNUSED)
{
    static const int64_t any[] = {-1, 28};
    static const struct as_str versions[] = {{"1", 1}, {"v2", 2}};
    static const struct as_tensor_spec specs[] = {
        {{"a", 1}, AS_DT_UINT8, 2, any, NULL, 0},
        {{"b", 1}, AS_DT_BYTES, AS_ANY_RANK, NULL, NULL, 0}};
    const struct as_oip_model m = {AS_STR("m"), AS_STR("p"), versions, 2, specs, specs + 1, 2, 1};
    struct as_buf b = {0};
    struct as_oip_model r;

    as_oip_put_model(&b, &m);
    assert_int_equal(as_oip_parse_model(b.p, b.n, &arena, &r), 0);
    assert_true(as_str_eq(r.name, m.name) && as_str_eq(r.platform, m.platform));
    assert_int_equal(r.n_versions, 2);
    assert_true(as_str_eq(r.versions[1], AS_STR("v2")));
    assert_int_equal(r.n_inputs, 2);
    assert_int_equal(r.inputs[0].dtype, AS_DT_UINT8);
    assert_int_equal(r.inputs[0].ndim, 2);
    assert_memory_equal(r.inputs[0].shape, any, sizeof(any));
    assert_int_equal(r.inputs[1].ndim, 0);
    assert_int_equal(r.n_outputs, 1);
    assert_true(as_str_eq(r.outputs[0].name, AS_STR("b")));
    for (size_t cut = 0; cut < b.n; cut++) {
        int rc = as_oip_parse_model(b.p, cut, &arena, &r);

        assert_true(rc == 0 || rc == AS_EPROTO);
    }
    as_buf_fini(&b);
}

static void metadata_is_bounded(void **state AS_UNUSED)
{
    int64_t sizes[AS_MAX_DIMS + 1] = {0};
    struct as_oip_model r;

    for (uint32_t over = 0; over < 2; over++) {
        struct as_buf b = {0}, tensor = {0};

        for (uint32_t i = 0; i < AS_OIP_TENSORS_MAX + over; i++)
            pb_text(&b, 4, "");
        assert_int_equal(as_oip_parse_model(b.p, b.n, &arena, &r), over ? AS_EINVALID : 0);
        b.n = 0;
        pb_packed(&tensor, 3, sizes, AS_MAX_DIMS + over);
        pb_nest(&b, 4, tensor);
        assert_int_equal(as_oip_parse_model(b.p, b.n, &arena, &r), over ? AS_EINVALID : 0);
        as_buf_fini(&b);
    }
}

static void names_and_versions_are_written(void **state AS_UNUSED)
{
    struct as_buf b = {0};
    struct as_str name, version;

    as_oip_put_name_version(&b, AS_STR("m"), AS_STR(""));
    assert_int_equal(as_oip_parse_name_version(b.p, b.n, &name, &version), 0);
    assert_true(as_str_eq(name, AS_STR("m")) && version.n == 0);
    b.n = 0;
    as_oip_put_name_version(&b, AS_STR("m"), AS_STR("3"));
    assert_int_equal(as_oip_parse_name_version(b.p, b.n, &name, &version), 0);
    assert_true(as_str_eq(version, AS_STR("3")));
    as_buf_fini(&b);
}

static int parse_stream(const char *p, size_t n, struct as_str *error, struct as_str *response)
{
    return as_oip_parse_stream_response((const uint8_t *)p, n, error, response);
}

static void stream_responses_are_parsed(void **state AS_UNUSED)
{
    struct as_str error, response;

    assert_int_equal(parse_stream("", 0, &error, &response), 0);
    assert_true(error.n == 0 && response.p == NULL);
    assert_int_equal(parse_stream("\x12\3abc", 5, &error, &response), 0);
    assert_true(error.n == 0 && as_str_eq(response, AS_STR("abc")));
    assert_int_equal(parse_stream("\x12\0", 2, &error, &response), 0);
    assert_true(response.p != NULL && response.n == 0);
    assert_int_equal(parse_stream("\x0a\2no\x12\1i\x18\7", 9, &error, &response), 0);
    assert_true(as_str_eq(error, AS_STR("no")) && as_str_eq(response, AS_STR("i")));
    assert_int_equal(parse_stream("\x0a\2n", 3, &error, &response), AS_EPROTO);
    assert_int_equal(parse_stream("\x0a\1\xff", 3, &error, &response), AS_EPROTO);
    assert_int_equal(parse_stream("\x08\1", 2, &error, &response), AS_EPROTO);
    assert_int_equal(parse_stream("\x10\1", 2, &error, &response), AS_EPROTO);
}

static int setup(void **state AS_UNUSED)
{
    as_arena_init(&arena, NULL, 0);
    return 0;
}

static int teardown(void **state AS_UNUSED)
{
    as_arena_fini(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_parsed_again),
        cmocka_unit_test(a_request_over_the_limit_has_no_length),
        cmocka_unit_test(a_response_is_parsed_again),
        cmocka_unit_test(other_servers_may_use_typed_contents),
        cmocka_unit_test(malformed_responses_are_refused),
        cmocka_unit_test(metadata_is_parsed_again),
        cmocka_unit_test(metadata_is_bounded),
        cmocka_unit_test(names_and_versions_are_written),
        cmocka_unit_test(stream_responses_are_parsed),
    };

    return cmocka_run_group_tests_name("oip_client", tests, setup, teardown);
}
