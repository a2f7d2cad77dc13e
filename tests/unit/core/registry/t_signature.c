/* Specification of the checks of tensors against a model's signature. */
#include "base/err.h"
#include "core/registry/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const int64_t any_size[] = {-1};
static const int64_t any_by_4[] = {-1, 4};
static const struct as_tensor_spec specs[] = {
    {.name = {"a", 1}, .dtype = AS_DT_FP32, .ndim = 1, .shape = any_size},
    {.name = {"b", 1}, .dtype = AS_DT_FP32, .ndim = 2, .shape = any_by_4},
    {.name = {"s", 1}, .dtype = AS_DT_BYTES, .ndim = 0},
    {.name = {"z", 1}, .dtype = AS_DT_INT64, .ndim = AS_ANY_RANK},
};

static const int64_t shape_3[] = {3}, shape_2_3[] = {2, 3}, shape_2_4[] = {2, 4};

#define TENSOR(name_, dtype_, ndim_, shape_)                                                       \
    ((struct as_tensor){                                                                           \
        .name = AS_STR(name_), .dtype = (dtype_), .ndim = (ndim_), .shape = (shape_)})
#define A TENSOR("a", AS_DT_FP32, 1, shape_3)
#define B TENSOR("b", AS_DT_FP32, 2, shape_2_4)

static char why[256];

/* Inputs of the model "add" that declares the first n_specs of the list above. */
static int check(uint32_t n_specs, const struct as_tensor *t, uint32_t n)
{
    struct as_model m = {
        .name = AS_STR("add"), .has_inputs = true, .inputs = specs, .n_inputs = n_specs};

    why[0] = '\0';
    return as_model_check_inputs(&m, t, n, why, sizeof(why));
}

static void test_what_fits_is_taken_in_any_order(void **state AS_UNUSED)
{
    assert_int_equal(check(2, (struct as_tensor[]){A, B}, 2), 0);
    assert_int_equal(check(2, (struct as_tensor[]){B, A}, 2), 0);
    assert_int_equal(check(0, NULL, 0), 0);
    assert_int_equal(check(4,
                           (struct as_tensor[]){B, A, TENSOR("s", AS_DT_BYTES, 0, NULL),
                                                TENSOR("z", AS_DT_INT64, 2, shape_2_3)},
                           4),
                     0);
    assert_string_equal(why, "");
}

static void test_a_wrong_shape(void **state AS_UNUSED)
{
    assert_int_equal(check(1, (struct as_tensor[]){TENSOR("a", AS_DT_FP32, 2, shape_2_3)}, 1),
                     AS_EINVALID);
    assert_string_equal(why, "input 'a': shape [2,3], model 'add' expects [-1]");
    assert_int_equal(check(2, (struct as_tensor[]){A, TENSOR("b", AS_DT_FP32, 2, shape_2_3)}, 2),
                     AS_EINVALID);
    assert_string_equal(why, "input 'b': shape [2,3], model 'add' expects [-1,4]");
    assert_int_equal(check(1, (struct as_tensor[]){TENSOR("a", AS_DT_FP32, 0, NULL)}, 1),
                     AS_EINVALID);
    assert_string_equal(why, "input 'a': shape [], model 'add' expects [-1]");
}

static void test_a_wrong_datatype(void **state AS_UNUSED)
{
    assert_int_equal(check(1, (struct as_tensor[]){TENSOR("a", AS_DT_INT32, 1, shape_3)}, 1),
                     AS_EINVALID);
    assert_string_equal(why, "input 'a': datatype INT32, model 'add' expects FP32");
}

static void test_an_unexpected_tensor(void **state AS_UNUSED)
{
    assert_int_equal(check(2, (struct as_tensor[]){A, TENSOR("c", AS_DT_FP32, 1, shape_3)}, 2),
                     AS_EINVALID);
    assert_string_equal(why, "model 'add' has no input 'c' (inputs: a, b)");
    assert_int_equal(check(0, (struct as_tensor[]){A}, 1), AS_EINVALID);
    assert_string_equal(why, "model 'add' has no input 'a' (inputs: none)");
}

static void test_a_missing_tensor(void **state AS_UNUSED)
{
    assert_int_equal(check(2, (struct as_tensor[]){A}, 1), AS_EINVALID);
    assert_string_equal(why, "input 'b' of model 'add' is missing");
    assert_int_equal(check(2, (struct as_tensor[]){B}, 1), AS_EINVALID);
    assert_string_equal(why, "input 'a' of model 'add' is missing");
    assert_int_equal(check(1, NULL, 0), AS_EINVALID);
}

static void test_a_tensor_given_twice(void **state AS_UNUSED)
{
    assert_int_equal(check(2, (struct as_tensor[]){A, A}, 2), AS_EINVALID);
    assert_string_equal(why, "input 'a' is given twice");
    assert_int_equal(check(2, (struct as_tensor[]){A, B, A}, 3), AS_EINVALID);
    assert_string_equal(why, "input 'a' is given twice");
}

static void test_without_a_signature_everything_goes(void **state AS_UNUSED)
{
    struct as_model m = {.name = AS_STR("echo")};
    struct as_tensor t = A;

    assert_int_equal(as_model_check_inputs(&m, &t, 1, why, sizeof(why)), 0);
    assert_int_equal(as_model_check_outputs(&m, &t, 1, why, sizeof(why)), 0);
}

static void test_outputs_are_the_handlers_fault(void **state AS_UNUSED)
{
    struct as_model m = {
        .name = AS_STR("add"), .has_outputs = true, .outputs = specs, .n_outputs = 1};
    struct as_tensor t = TENSOR("a", AS_DT_FP64, 1, shape_3);

    assert_int_equal(as_model_check_outputs(&m, &t, 1, why, sizeof(why)), AS_EHANDLER);
    assert_string_equal(why, "output 'a': datatype FP64, model 'add' expects FP32");
    assert_int_equal(as_model_check_outputs(&m, NULL, 0, why, sizeof(why)), AS_EHANDLER);
    assert_string_equal(why, "output 'a' of model 'add' is missing");
}

static void test_long_names_and_shapes_are_cut_in_messages(void **state AS_UNUSED)
{
    static char name[1000];
    static int64_t ones[AS_MAX_DIMS];
    struct as_tensor t = {.name = {name, sizeof(name)}, .dtype = AS_DT_FP32};

    memset(name, 'n', sizeof(name));
    memcpy(name + 99, "\xc3\xa9", 2); /* a character of two bytes across the cut */
    assert_int_equal(check(1, &t, 1), AS_EINVALID);
    assert_true(strlen(why) < 200);
    assert_non_null(strstr(why, "n…' (inputs: a)"));
    t = TENSOR("a", AS_DT_FP32, AS_MAX_DIMS, ones);
    assert_int_equal(check(1, &t, 1), AS_EINVALID);
    assert_non_null(strstr(why, "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,…], model 'add' expects [-1]"));
}

static void test_a_small_buffer_is_never_overrun(void **state AS_UNUSED)
{
    struct as_model m = {.name = AS_STR("add"), .has_inputs = true, .inputs = specs, .n_inputs = 2};
    struct as_tensor t = TENSOR("c", AS_DT_FP32, 1, shape_3);

    for (size_t cap = 0; cap < 60; cap++) {
        memset(why, '#', sizeof(why));
        assert_int_equal(as_model_check_inputs(&m, &t, 1, why, cap), AS_EINVALID);
        assert_true(cap == 0 || strlen(why) < cap);
        assert_int_equal(why[cap], '#');
    }
}

/* The largest signature, its tensors in the worst order. */
static void test_the_largest_signature(void **state AS_UNUSED)
{
    uint32_t n = AS_MODEL_TENSORS_MAX;
    struct as_tensor_spec *s = as_xalloc(n * sizeof(*s));
    struct as_tensor *t = as_xalloc(n * sizeof(*t));
    char(*names)[8] = as_xalloc(n * sizeof(*names));
    struct as_model m = {.name = AS_STR("many"), .has_inputs = true, .inputs = s, .n_inputs = n};

    for (uint32_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof(names[i]), "t%u", i);
        s[i] = (struct as_tensor_spec){.name = as_str_of(names[i]), .dtype = AS_DT_BOOL};
        t[n - 1 - i] = (struct as_tensor){.name = as_str_of(names[i]), .dtype = AS_DT_BOOL};
    }
    assert_int_equal(as_model_check_inputs(&m, t, n, why, sizeof(why)), 0);
    assert_int_equal(as_model_check_inputs(&m, t, n - 1, why, sizeof(why)), AS_EINVALID);
    assert_string_equal(why, "input 't0' of model 'many' is missing");
    free(s);
    free(t);
    free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits_is_taken_in_any_order),
        cmocka_unit_test(test_a_wrong_shape),
        cmocka_unit_test(test_a_wrong_datatype),
        cmocka_unit_test(test_an_unexpected_tensor),
        cmocka_unit_test(test_a_missing_tensor),
        cmocka_unit_test(test_a_tensor_given_twice),
        cmocka_unit_test(test_without_a_signature_everything_goes),
        cmocka_unit_test(test_outputs_are_the_handlers_fault),
        cmocka_unit_test(test_long_names_and_shapes_are_cut_in_messages),
        cmocka_unit_test(test_a_small_buffer_is_never_overrun),
        cmocka_unit_test(test_the_largest_signature),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
