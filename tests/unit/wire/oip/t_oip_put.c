/* Specification of the writer of wire/oip/oip: responses are compared with protobuf written by
 * hand. */
#include "wire/oip/oip.h"

#include "protobuf.h"

static const int64_t by_two[] = {2, 2}, three[] = {3};
static const uint8_t data[300] = {1, 2, 3};

static struct as_buf written(const struct as_oip_response *r)
{
    uint64_t n = as_oip_response_len(r);
    struct as_buf b = {0};

    as_oip_put_response(as_buf_reserve(&b, n), r);
    b.n = n;
    return b;
}

static void assert_same(struct as_buf *a, struct as_buf *b)
{
    assert_int_equal(a->n, b->n);
    if (a->n)
        assert_memory_equal(a->p, b->p, a->n);
    as_buf_fini(a);
    as_buf_fini(b);
}

static void a_whole_response(void **state AS_UNUSED)
{
    const struct as_param params[] = {
        {.name = AS_STR("b"), .type = AS_PARAM_BOOL, .b = false},
        {.name = AS_STR("i"), .type = AS_PARAM_INT64, .i64 = -1},
        {.name = AS_STR(""), .type = AS_PARAM_STRING, .str = AS_STR("")},
        {.name = AS_STR("d"), .type = AS_PARAM_DOUBLE, .f64 = 0.5},
        {.name = AS_STR("u"), .type = AS_PARAM_UINT64, .u64 = 300},
    };
    const struct as_tensor outputs[] = {
        {AS_STR("x"), AS_DT_FP32, 2, by_two, data, 16},
        {AS_STR("none"), AS_DT_BYTES, 0, NULL, NULL, 0},
        {AS_STR("y"), AS_DT_UINT8, 1, three, data, 300},
    };
    const struct as_oip_response r = {.model = AS_STR("m"),
                                      .version = AS_STR("1"),
                                      .id = AS_STR("id"),
                                      .outputs = outputs,
                                      .n_outputs = 3,
                                      .params = params,
                                      .n_params = 5};
    struct as_buf want = {0}, got = written(&r);

    as_buf_add(&want,
               "\x0a\1m\x12\1"
               "1\x1a\2id",
               10);
    as_buf_add(&want, "\x22\x07\x0a\1b\x12\2\x08\0", 9);
    as_buf_add(&want, "\x22\x10\x0a\1i\x12\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 18);
    as_buf_add(&want, "\x22\6\x0a\0\x12\2\x1a\0", 8);
    as_buf_add(&want, "\x22\x0e\x0a\1d\x12\x09\x21\0\0\0\0\0\0\xe0\x3f", 16);
    as_buf_add(&want, "\x22\x08\x0a\1u\x12\3\x28\xac\2", 10);
    as_buf_add(&want, "\x2a\x0d\x0a\1x\x12\4FP32\x1a\2\2\2", 15);
    as_buf_add(&want, "\x2a\x0d\x0a\4none\x12\5BYTES", 15);
    as_buf_add(&want, "\x2a\x0d\x0a\1y\x12\5UINT8\x1a\1\3", 15);
    pb_bytes(&want, 6, data, 16);
    pb_bytes(&want, 6, data, 0); /* one entry per output, also for an empty one */
    pb_bytes(&want, 6, data, 300);
    assert_same(&got, &want);
}

static void an_empty_response_is_empty(void **state AS_UNUSED)
{
    assert_int_equal(as_oip_response_len(&(struct as_oip_response){0}), 0);
}

static void a_response_in_parts_is_the_same(void **state AS_UNUSED)
{
    const struct as_tensor outputs[] = {{AS_STR("x"), AS_DT_FP32, 2, by_two, data, 16},
                                        {AS_STR("y"), AS_DT_UINT8, 1, three, data, 300}};
    const struct as_oip_response r = {.model = AS_STR("m"), .outputs = outputs, .n_outputs = 2};
    struct as_buf got = {0}, want = written(&r);

    as_oip_put_response_head(as_buf_reserve(&got, as_oip_response_head_len(&r)), &r);
    got.n = as_oip_response_head_len(&r);
    for (int i = 0; i < 2; i++) {
        uint8_t head[AS_OIP_RAW_HEAD_MAX];

        as_buf_add(&got, head, as_oip_put_raw_head(head, outputs[i].nbytes));
        as_buf_add(&got, outputs[i].data, outputs[i].nbytes);
    }
    assert_same(&got, &want);
}

static void raw_heads_fit_their_buffer(void **state AS_UNUSED)
{
    uint8_t head[AS_OIP_RAW_HEAD_MAX];

    assert_int_equal(as_oip_put_raw_head(head, 0), 2);
    assert_int_equal(as_oip_put_raw_head(head, 127), 2);
    assert_int_equal(as_oip_put_raw_head(head, 128), 3);
    assert_int_equal(as_oip_put_raw_head(head, INT32_MAX), 6);
    assert_int_equal(as_oip_put_raw_head(head, SIZE_MAX), AS_OIP_RAW_HEAD_MAX);
}

static void a_response_over_two_gib_has_no_length(void **state AS_UNUSED)
{
    /* "\x2a\x0d…" 11 + 2 bytes of head, 6 bytes of raw head; the data are never read */
    struct as_tensor t[2] = {{AS_STR("y"), AS_DT_INT8, 1, three, data, 0},
                             {AS_STR("y"), AS_DT_INT8, 1, three, data, 0}};
    struct as_oip_response r = {.outputs = t, .n_outputs = 1};
    size_t head = as_oip_response_head_len(&r) + 6;

    t[0].nbytes = INT32_MAX - head;
    assert_int_equal(as_oip_response_len(&r), INT32_MAX);
    t[0].nbytes++;
    assert_true(as_oip_response_len(&r) == UINT64_MAX);
    t[0].nbytes = SIZE_MAX;
    assert_true(as_oip_response_len(&r) == UINT64_MAX);
    r.n_outputs = 2;
    t[0].nbytes = t[1].nbytes = INT32_MAX;
    assert_true(as_oip_response_len(&r) == UINT64_MAX);
}

static void a_request_echoed_is_its_response(void **state AS_UNUSED)
{
    struct as_oip_response r = {.model = AS_STR("m"), .n_outputs = 1};
    struct as_buf in = {0}, b = {0}, got, want = {0};
    struct as_oip_infer q;
    struct as_arena a;
    char why[64];

    pb_text(&in, 1, "x");
    pb_text(&in, 2, "INT8");
    pb_packed(&in, 3, three, 1);
    pb_bytes(&b, 5, in.p, in.n);
    pb_bytes(&b, 7, data, 3);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_oip_parse_infer(b.p, b.n, &a, &q, why, sizeof(why)), 0);
    r.outputs = q.inputs;
    got = written(&r);
    pb_text(&want, 1, "m");
    pb_nest(&want, 5, in);
    pb_bytes(&want, 6, data, 3);
    assert_same(&got, &want);
    as_arena_fini(&a);
    as_buf_fini(&b);
}

static void live_and_ready(void **state AS_UNUSED)
{
    struct as_buf b = {0};

    as_oip_put_live(&b, false); /* proto3: the default is left out */
    assert_int_equal(b.n, 0);
    as_oip_put_live(&b, true);
    assert_int_equal(b.n, 2);
    assert_memory_equal(b.p, "\x08\x01", 2);
    as_buf_fini(&b);
}

static void server_metadata(void **state AS_UNUSED)
{
    const struct as_str extensions[] = {AS_STR("a"), AS_STR("")};
    const struct as_oip_server s = {.name = AS_STR("anyserve"),
                                    .version = AS_STR("1"),
                                    .extensions = extensions,
                                    .n_extensions = 2};
    struct as_buf b = {0}, want = {0};

    as_oip_put_server(&b, &s);
    pb_text(&want, 1, "anyserve");
    pb_text(&want, 2, "1");
    pb_text(&want, 3, "a");
    pb_text(&want, 3, "");
    assert_same(&b, &want);
}

static void model_metadata(void **state AS_UNUSED)
{
    static const int64_t any[] = {-1, 4};
    const struct as_tensor_spec inputs[] = {
        {.name = AS_STR("a"), .dtype = AS_DT_FP32, .ndim = 2, .shape = any},
        {.name = AS_STR("b"), .dtype = AS_DT_BYTES, .ndim = AS_ANY_RANK}};
    const struct as_str versions[] = {AS_STR("1"), AS_STR("2")};
    const struct as_oip_model m = {.name = AS_STR("m"),
                                   .platform = AS_STR("python"),
                                   .versions = versions,
                                   .n_versions = 2,
                                   .inputs = inputs,
                                   .n_inputs = 2,
                                   .outputs = inputs,
                                   .n_outputs = 1};
    struct as_buf b = {0}, want = {0}, a = {0}, c = {0};

    as_oip_put_model(&b, &m);
    pb_text(&want, 1, "m");
    pb_text(&want, 2, "1");
    pb_text(&want, 2, "2");
    pb_text(&want, 3, "python");
    pb_text(&a, 1, "a");
    pb_text(&a, 2, "FP32");
    pb_packed(&a, 3, any, 2);
    pb_text(&c, 1, "b");
    pb_text(&c, 2, "BYTES");
    pb_bytes(&want, 4, a.p, a.n);
    pb_nest(&want, 4, c);
    pb_nest(&want, 5, a);
    assert_same(&b, &want);
}

static struct as_buf param(unsigned field, const char *name, const char *text, uint64_t v)
{
    struct as_buf entry = {0}, value = {0};

    if (text)
        pb_text(&value, field, text);
    else
        pb_number(&value, field, v);
    pb_text(&entry, 1, name);
    pb_nest(&entry, 2, value);
    return entry;
}

static void an_output_in_shared_memory(void **state AS_UNUSED)
{
    const struct as_tensor outputs[] = {
        {AS_STR("x"), AS_DT_UINT8, 1, three, NULL, 0},
        {AS_STR("y"), AS_DT_UINT8, 1, three, data, 3},
    };
    const struct as_oip_shm_range ranges[] = {{AS_STR("r"), 64, 300}, {{NULL, 0}, 0, 0}};
    const struct as_oip_response r = {.outputs = outputs, .n_outputs = 2, .ranges = ranges};
    struct as_buf want = {0}, got = written(&r), x = {0}, y = {0};

    pb_text(&x, 1, "x");
    pb_text(&x, 2, "UINT8");
    pb_packed(&x, 3, three, 1);
    pb_nest(&x, 4, param(3, "shared_memory_region", "r", 0));
    pb_nest(&x, 4, param(2, "shared_memory_offset", NULL, 64));
    pb_nest(&x, 4, param(2, "shared_memory_byte_size", NULL, 300));
    pb_nest(&want, 5, x);
    pb_text(&y, 1, "y");
    pb_text(&y, 2, "UINT8");
    pb_packed(&y, 3, three, 1);
    pb_nest(&want, 5, y);
    pb_bytes(&want, 6, "", 0); /* one entry per output, also for one in shared memory */
    pb_bytes(&want, 6, data, 3);
    assert_same(&got, &want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_response),
        cmocka_unit_test(an_empty_response_is_empty),
        cmocka_unit_test(an_output_in_shared_memory),
        cmocka_unit_test(a_response_in_parts_is_the_same),
        cmocka_unit_test(raw_heads_fit_their_buffer),
        cmocka_unit_test(a_response_over_two_gib_has_no_length),
        cmocka_unit_test(a_request_echoed_is_its_response),
        cmocka_unit_test(live_and_ready),
        cmocka_unit_test(server_metadata),
        cmocka_unit_test(model_metadata),
    };

    return cmocka_run_group_tests_name("oip_put", tests, NULL, NULL);
}
