/* Specification of wire/model_config: the message, compared with protobuf written by hand. */
#include "wire/model_config.h"

#include "protobuf.h"

static const int64_t dims[] = {-1, 4};
static const struct as_tensor_spec tensors[] = {
    {{"x", 1}, AS_DT_FP32, 2, dims},
    {{"any", 3}, AS_DT_BYTES, AS_ANY_RANK, NULL},
};

static void assert_written(const struct as_model_config *c, struct as_buf want)
{
    struct as_buf out = {0};
    struct as_arena a;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_model_config_put(c, &a, &out), 0);
    assert_int_equal(out.n, want.n);
    assert_memory_equal(out.p, want.p, out.n);
    as_arena_fini(&a);
    as_buf_fini(&out);
    as_buf_fini(&want);
}

/* Fields 1 to 3 of every message: its names, and the policy that all versions are served. */
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

static void tensors_have_types_of_their_own_names(void **state AS_UNUSED)
{
    const struct as_model_config c = {.name = AS_STR("m"),
                                      .platform = AS_STR("python"),
                                      .inputs = tensors,
                                      .n_inputs = 2,
                                      .outputs = tensors,
                                      .n_outputs = 1};
    struct as_buf want = head(), in = {0}, any = {0}, out = {0};

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
    assert_string_equal(as_model_config_type_name(AS_DT_BYTES), "TYPE_STRING");
    assert_string_equal(as_model_config_type_name(AS_DT_BF16), "TYPE_BF16");
    assert_string_equal(as_model_config_type_name(AS_DT_COUNT), "TYPE_INVALID");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_without_a_signature),
        cmocka_unit_test(tensors_have_types_of_their_own_names),
        cmocka_unit_test(a_model_that_is_batched_and_decoupled),
    };

    return cmocka_run_group_tests_name("model_config", tests, NULL, NULL);
}
