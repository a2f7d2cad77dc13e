/* Specification of wire/triton/classify: the best classes of every datatype, and their texts. */
#include "wire/triton/classify.h"

#include "unit.h"

#include <math.h>

static struct as_arena arena;

static int set_up(void **state AS_UNUSED)
{
    as_arena_init(&arena, NULL, 0);
    return 0;
}

static int tear_down(void **state AS_UNUSED)
{
    as_arena_fini(&arena);
    return 0;
}

/* The texts, separated by blanks. */
static const char *classes(enum as_dtype t, const void *p, size_t size, const int64_t *shape,
                           uint32_t ndim, uint32_t k, struct as_tensor *out)
{
    const struct as_tensor in = {
        .name = AS_STR("o"), .dtype = t, .ndim = ndim, .shape = shape, .data = p, .nbytes = size};
    static char joined[1024];
    size_t n = 0;
    uint64_t count;

    assert_int_equal(as_classify(&in, NULL, 0, k, &arena, out), 0);
    assert_int_equal(out->dtype, AS_DT_BYTES);
    assert_true(as_str_eq(out->name, AS_STR("o")));
    assert_int_equal(as_tensor_elements(AS_DT_BYTES, out->shape, out->ndim, &count), 0);
    assert_int_equal(as_tensor_check_bytes(out->data, out->nbytes, count), 0);
    joined[0] = 0;
    for (size_t at = 0; at < out->nbytes;) {
        uint32_t len;

        memcpy(&len, out->data + at, 4);
        n += (size_t)snprintf(joined + n, sizeof(joined) - n, "%s%.*s", n ? " " : "", (int)len,
                              (const char *)out->data + at + 4);
        at += 4 + len;
    }
    return joined;
}

#define CLASSES(t, array, k)                                                                       \
    classes(t, array, sizeof(array),                                                               \
            (const int64_t[]){(int64_t)(sizeof(array) / sizeof((array)[0]))}, 1, k, &got)

static void numbers_of_every_type(void **state AS_UNUSED)
{
    struct as_tensor got;

    assert_string_equal(CLASSES(AS_DT_UINT8, ((uint8_t[]){1, 200, 3}), 2), "200:1 3:2");
    assert_string_equal(CLASSES(AS_DT_INT8, ((int8_t[]){1, -128, 127}), 3), "127:2 1:0 -128:1");
    assert_string_equal(CLASSES(AS_DT_UINT16, ((uint16_t[]){65535, 0}), 1), "65535:0");
    assert_string_equal(CLASSES(AS_DT_INT32, ((int32_t[]){-5, -4}), 2), "-4:1 -5:0");
    assert_string_equal(CLASSES(AS_DT_UINT64, ((uint64_t[]){1, UINT64_MAX}), 1),
                        "18446744073709551615:1");
    assert_string_equal(CLASSES(AS_DT_INT64, ((int64_t[]){INT64_MIN, INT64_MAX}), 2),
                        "9223372036854775807:1 -9223372036854775808:0");
    assert_string_equal(CLASSES(AS_DT_FP32, ((float[]){0.1f, -1.5f, 3e38f}), 3),
                        "3e+38:2 0.1:0 -1.5:1");
    assert_string_equal(CLASSES(AS_DT_FP64, ((double[]){0.1, 1.0 / 3}), 2),
                        "0.3333333333333333:1 0.1:0");
    /* 1.5, -2, the smallest number, 0.333251953125 */
    assert_string_equal(CLASSES(AS_DT_FP16, ((uint16_t[]){0x3e00, 0xc000, 0x0001, 0x3555}), 4),
                        "1.5:0 0.33325195:3 5.9604645e-08:2 -2:1");
    assert_string_equal(CLASSES(AS_DT_BF16, ((uint16_t[]){0x3fc0, 0xc000}), 2), "1.5:0 -2:1");
}

static void equal_values_keep_their_order_and_nan_is_last(void **state AS_UNUSED)
{
    struct as_tensor got;

    assert_string_equal(CLASSES(AS_DT_INT32, ((int32_t[]){7, 7, 8, 7}), 3), "8:2 7:0 7:1");
    assert_string_equal(CLASSES(AS_DT_FP32, ((float[]){-0.0f, 0.0f}), 2), "-0:0 0:1");
    assert_string_equal(CLASSES(AS_DT_FP64, ((double[]){NAN, -INFINITY, INFINITY}), 3),
                        "inf:2 -inf:1 nan:0");
}

static void the_first_dimension_is_the_batch(void **state AS_UNUSED)
{
    static const int16_t data[] = {1, 3, 2, 9, 8, 7, 4, 5, 6, 0, 0, 1};
    static const int64_t two[] = {4, 3}, three[] = {2, 3, 2}, empty[] = {0, 3}, none[] = {2, 0};
    struct as_tensor got;

    assert_string_equal(classes(AS_DT_INT16, data, sizeof(data), two, 2, 2, &got),
                        "3:1 2:2 9:0 8:1 6:2 5:1 1:2 0:0");
    assert_true(got.ndim == 2 && got.shape[0] == 4 && got.shape[1] == 2);
    assert_string_equal(classes(AS_DT_INT16, data, sizeof(data), three, 3, 1, &got), "9:3 6:2");
    assert_true(got.ndim == 2 && got.shape[0] == 2 && got.shape[1] == 1);
    assert_string_equal(classes(AS_DT_INT16, data, sizeof(data), NULL, 0, 1, &got), "9:3");
    assert_true(got.ndim == 1 && got.shape[0] == 1);
    assert_string_equal(classes(AS_DT_INT16, data, 0, empty, 2, 3, &got), "");
    assert_true(got.ndim == 2 && got.shape[0] == 0 && got.shape[1] == 0);
    assert_string_equal(classes(AS_DT_INT16, data, 0, none, 2, 3, &got), "");
    assert_true(got.shape[0] == 2 && got.shape[1] == 0);
}

static void the_best_of_many(void **state AS_UNUSED)
{
    static uint32_t data[10007];
    const struct as_tensor in = {.dtype = AS_DT_UINT32,
                                 .ndim = 1,
                                 .shape = (const int64_t[]){10007},
                                 .data = (const uint8_t *)data,
                                 .nbytes = sizeof(data)};
    struct as_tensor got;
    size_t at = 0;

    for (uint32_t i = 0; i < 10007; i++)
        data[i] = i * 7919u % 10007u; /* all values are different */
    assert_int_equal(as_classify(&in, NULL, 0, 10007, &arena, &got), 0);
    for (uint32_t i = 0; i < 10007; i++) {
        char text[64];
        uint32_t len;
        unsigned long value, index;

        memcpy(&len, got.data + at, 4);
        memcpy(text, got.data + at + 4, len);
        text[len] = 0;
        assert_int_equal(sscanf(text, "%lu:%lu", &value, &index), 2);
        assert_int_equal(value, 10006 - i);
        assert_int_equal(data[index], value);
        at += 4 + len;
    }
}

static void classes_with_labels(void **state AS_UNUSED)
{
    static const struct as_str labels[] = {{"cat", 3}, {NULL, 0}, {"a dog: big", 10}};
    static const uint8_t data[] = {1, 2, 3, 4, 9, 8, 7, 6};
    static const int64_t shape[] = {2, 4};
    const struct as_tensor t = {
        .dtype = AS_DT_UINT8, .ndim = 2, .shape = shape, .data = data, .nbytes = 8};
    static const char want[] = "\3\0\0\0"
                               "4:3"
                               "\016\0\0\0"
                               "3:2:a dog: big"
                               "\7\0\0\0"
                               "9:0:cat"
                               "\3\0\0\0"
                               "8:1";
    struct as_tensor got;

    assert_int_equal(as_classify(&t, labels, 3, 2, &arena, &got), 0);
    assert_int_equal(got.nbytes, sizeof(want) - 1);
    assert_memory_equal(got.data, want, sizeof(want) - 1);
}

static void labels_count_toward_the_limit(void **state AS_UNUSED)
{
    static uint8_t data[AS_CLASSIFY_BYTES / 1088 + 1];
    static char text[1024];
    const struct as_str label = {text, sizeof(text)};
    int64_t shape[] = {1, sizeof(data) - 1};
    struct as_tensor t = {
        .dtype = AS_DT_UINT8, .ndim = 2, .shape = shape, .data = data, .nbytes = sizeof(data) - 1};
    struct as_tensor got;

    memset(text, 'x', sizeof(text));
    assert_int_equal(as_classify(&t, &label, 1, AS_CLASSIFY_MAX, &arena, &got), 0);
    shape[1]++;
    t.nbytes++;
    assert_int_equal(as_classify(&t, &label, 1, AS_CLASSIFY_MAX, &arena, &got), AS_ETOOBIG);
    assert_int_equal(as_classify(&t, NULL, 0, AS_CLASSIFY_MAX, &arena, &got), 0);
}

static void datatypes_without_an_order_are_refused(void **state AS_UNUSED)
{
    static uint8_t data[AS_CLASSIFY_MAX + 1];
    struct as_tensor t = {.dtype = AS_DT_BYTES}, got;
    int64_t shape[] = {1, AS_CLASSIFY_MAX};

    assert_int_equal(as_classify(&t, NULL, 0, 1, &arena, &got), AS_EINVALID);
    t.dtype = AS_DT_BOOL;
    assert_int_equal(as_classify(&t, NULL, 0, 1, &arena, &got), AS_EINVALID);
    t = (struct as_tensor){
        .dtype = AS_DT_UINT8, .ndim = 2, .shape = shape, .data = data, .nbytes = AS_CLASSIFY_MAX};
    assert_int_equal(as_classify(&t, NULL, 0, AS_CLASSIFY_MAX, &arena, &got), 0);
    shape[1]++;
    t.nbytes++;
    assert_int_equal(as_classify(&t, NULL, 0, AS_CLASSIFY_MAX + 1, &arena, &got), AS_ETOOBIG);
    assert_int_equal(as_classify(&t, NULL, 0, 5, &arena, &got), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_of_every_type, set_up, tear_down),
        cmocka_unit_test_setup_teardown(equal_values_keep_their_order_and_nan_is_last, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_first_dimension_is_the_batch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_best_of_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(classes_with_labels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_count_toward_the_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(datatypes_without_an_order_are_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}
