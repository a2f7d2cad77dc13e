/* tests/unit/support/msg_case.h — a message with an example of everything, and its frames. */
#ifndef AS_TESTS_MSG_CASE_H
#define AS_TESTS_MSG_CASE_H

#include "frames.h"

static const int64_t by_two[] = {2, 2}, none[] = {0, 3}, three[] = {3};
static const uint8_t floats[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint8_t words[] = {1, 0, 0, 0, 'a', 0, 0, 0, 0, 2, 0, 0, 0, 'b', 'c'};

static struct as_tensor tensors[] = {
    {STATIC_STR("a"), AS_DT_FP32, 2, by_two, floats, 16},
    {STATIC_STR("text of three"), AS_DT_BYTES, 1, three, words, sizeof(words)},
    {STATIC_STR("empty"), AS_DT_INT64, 2, none, NULL, 0},
    {STATIC_STR("scalar"), AS_DT_FP64, 0, NULL, floats, 8},
};
static struct as_param params[] = {
    {.name = STATIC_STR("yes"), .type = AS_PARAM_BOOL, .b = true},
    {.name = STATIC_STR("minus"), .type = AS_PARAM_INT64, .i64 = -5},
    {.name = STATIC_STR("text"), .type = AS_PARAM_STRING, .str = STATIC_STR("v\xc3\xa9lo")},
    {.name = STATIC_STR(""), .type = AS_PARAM_DOUBLE, .f64 = 0.5},
    {.name = STATIC_STR("big"), .type = AS_PARAM_UINT64, .u64 = UINT64_MAX},
};
static struct as_meta meta[] = {{STATIC_STR("x-key"), STATIC_STR("value")},
                                {STATIC_STR("y"), STATIC_STR("")}};

static const struct as_msg whole = {.id = STATIC_STR("req-1"),
                                    .tensors = tensors,
                                    .params = params,
                                    .meta = meta,
                                    .n_tensors = 4,
                                    .n_params = 5,
                                    .n_meta = 2};
static const struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR,
                                          .priority = 3,
                                          .target = 9,
                                          .timeout = 1234567,
                                          .service = 55,
                                          .ended = 0x80000001u};

AS_UNUSED static struct bytes encode(enum as_frame_type type, const struct as_msg *msg,
                                     struct as_blob *owner)
{
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    assert_int_equal(as_frame_put_msg(&q, type, 41, &fixed, msg, owner), 0);
    assert_int_equal(q.bytes % 64, 0);
    b = bytes_of(&q);
    as_outq_fini(&q);
    return b;
}

#endif
