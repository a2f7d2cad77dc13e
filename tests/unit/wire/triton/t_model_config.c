/* Specification of wire/triton/model_config: the message, compared with protobuf written by hand.
 */
#include "wire/triton/model_config.h"

#include "protobuf.h"

static const int64_t dims[] = {-1, 4};
static const struct as_tensor_spec tensors[] = {
    {{"x", 1}, AS_DT_FP32, 2, dims, NULL, 0},
    {{"any", 3}, AS_DT_BYTES, AS_ANY_RANK, NULL, NULL, 0},
};

static void assert_written(const struct as_model_config *c, struct as_buf want)
{
    struct as_buf out = {0};
    struct as_arena a;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_model_config_put(c, &a, false, &out), 0);
    assert_int_equal(out.n, want.n);
    assert_memory_equal(out.p, want.p, out.n);
    as_arena_fini(&a);
    as_buf_fini(&out);
    as_buf_fini(&want);
}

/* Ended by a NUL. */
static void put_json(const struct as_model_config *c, struct as_buf *json)
{
    struct as_arena a;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_model_config_put(c, &a, true, json), 0);
    as_arena_fini(&a);
    as_buf_add(json, "", 1);
}

/* Fields 1 to 3 of every message: names, and the policy that all versions are served. */
static struct as_buf head(void)
{
    struct as_buf b = {0}, policy = {0};

    pb_text(&b, 1, "m");
    pb_text(&b, 2, "python");
    pb_nest(&policy, 2, (struct as_buf){0});
    pb_nest(&b, 3, policy);
    return b;
}

static struct as_buf response(struct as_buf config)
{
    struct as_buf b = {0};

    pb_nest(&b, 1, config);
    return b;
}

static void a_model_without_a_signature(void **state AS_UNUSED)
{
    const struct as_model_config c = {.name = AS_STR("m"), .platform = AS_STR("python")};
    struct as_buf want = head();

    pb_text(&want, 17, "anyserve");
    pb_nest(&want, 19, (struct as_buf){0});
    assert_written(&c, response(want));
}

static void tensors_have_triton_datatypes(void **state AS_UNUSED)
{
    const struct as_model_config c = {.name = AS_STR("m"),
                                      .platform = AS_STR("python"),
                                      .inputs = tensors,
                                      .n_inputs = 2,
                                      .outputs = tensors,
                                      .n_outputs = 1};
    struct as_buf want = head(), in = {0}, any = {0}, out = {0}, json = {0};

    pb_text(&in, 1, "x");
    pb_number(&in, 2, 11);
    pb_packed(&in, 4, dims, 2);
    pb_nest(&want, 5, in);
    pb_text(&any, 1, "any");
    pb_number(&any, 2, 13);
    pb_nest(&want, 5, any);
    pb_text(&out, 1, "x");
    pb_number(&out, 2, 11);
    pb_packed(&out, 3, dims, 2);
    pb_nest(&want, 6, out);
    pb_text(&want, 17, "anyserve");
    pb_nest(&want, 19, (struct as_buf){0});
    assert_written(&c, response(want));
    put_json(&c, &json);
    assert_string_equal(
        (char *)json.p,
        "{\"name\":\"m\",\"platform\":\"python\",\"version_policy\":{\"all\":{}},"
        "\"max_batch_size\":0,\"input\":[{\"name\":\"x\",\"data_type\":\"TYPE_FP32\","
        "\"dims\":[-1,4],\"allow_ragged_batch\":false,\"optional\":false},{\"name\":\"any\","
        "\"data_type\":\"TYPE_STRING\",\"dims\":[],\"allow_ragged_batch\":false,\"optional\":false}"
        "],\"output\":[{\"name\":\"x\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1,4]}],"
        "\"parameters\":{},\"backend\":\"anyserve\","
        "\"model_transaction_policy\":{\"decoupled\":false}}");
    as_buf_fini(&json);
}

static void a_model_that_is_batched_and_decoupled(void **state AS_UNUSED)
{
    static const uint32_t preferred[] = {4, 8};
    const struct as_model_config c = {.name = AS_STR("m"),
                                      .platform = AS_STR("python"),
                                      .inputs = tensors,
                                      .n_inputs = 1,
                                      .max_batch_size = 8,
                                      .batching = true,
                                      .preferred = preferred,
                                      .n_preferred = 2,
                                      .max_delay_us = 500,
                                      .ragged = true,
                                      .decoupled = true};
    struct as_buf want = head(), in = {0}, batching = {0}, transaction = {0};

    pb_number(&want, 4, 8);
    pb_text(&in, 1, "x");
    pb_number(&in, 2, 11);
    pb_packed(&in, 4, dims, 2);
    pb_number(&in, 7, 1);
    pb_nest(&want, 5, in);
    pb_packed(&batching, 1, (int64_t[]){4, 8}, 2);
    pb_number(&batching, 2, 500);
    pb_number(&batching, 4, AS_MODEL_CONFIG_PRIORITIES);
    pb_number(&batching, 5, AS_MODEL_CONFIG_PRIORITY_DEFAULT);
    pb_nest(&want, 11, batching);
    pb_text(&want, 17, "anyserve");
    pb_number(&transaction, 1, 1);
    pb_nest(&want, 19, transaction);
    assert_written(&c, response(want));
}

static void labels_are_parameters(void **state AS_UNUSED)
{
    static const struct as_str labels[] = {{"cat", 3}, {"", 0}, {"dog", 3}};
    const struct as_tensor_spec out[] = {tensors[0],
                                         {.name = AS_STR("y"),
                                          .dtype = AS_DT_FP32,
                                          .ndim = AS_ANY_RANK,
                                          .labels = labels,
                                          .n_labels = 3}};
    const struct as_model_config c = {
        .name = AS_STR("m"), .platform = AS_STR("python"), .outputs = out, .n_outputs = 2};
    struct as_buf want = head(), x = {0}, y = {0}, entry = {0}, value = {0}, json = {0};

    pb_text(&x, 1, "x");
    pb_number(&x, 2, 11);
    pb_packed(&x, 3, dims, 2);
    pb_nest(&want, 6, x);
    pb_text(&y, 1, "y");
    pb_number(&y, 2, 11);
    pb_nest(&want, 6, y);
    pb_text(&entry, 1, "y.labels");
    pb_text(&value, 1, "cat\n\ndog\n");
    pb_nest(&entry, 2, value);
    pb_nest(&want, 14, entry);
    pb_text(&want, 17, "anyserve");
    pb_nest(&want, 19, (struct as_buf){0});
    assert_written(&c, response(want));
    put_json(&c, &json);
    assert_non_null(strstr((char *)json.p,
                           "\"parameters\":{\"y.labels\":{\"string_value\":\"cat\\n\\ndog\\n\"}}"));
    as_buf_fini(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_without_a_signature),
        cmocka_unit_test(tensors_have_triton_datatypes),
        cmocka_unit_test(a_model_that_is_batched_and_decoupled),
        cmocka_unit_test(labels_are_parameters),
    };

    return cmocka_run_group_tests_name("model_config", tests, NULL, NULL);
}
