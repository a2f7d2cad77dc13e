#include "base/tensor.h"

#include "base/err.h"
#include "base/log.h"
#include "unit.h"

static int elements(enum as_dtype t, const int64_t *shape, uint32_t ndim, uint64_t *n)
{
    return as_tensor_elements(t, shape, ndim, n);
}

static void every_datatype_has_a_name_and_a_size(void **state AS_UNUSED)
{
    static const size_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 2};

    for (int t = 1; t < AS_DT_COUNT; t++) {
        assert_int_equal(as_dtype_of(as_str_of(as_dtype_name((enum as_dtype)t))), t);
        assert_int_equal(as_dtype_size((enum as_dtype)t), sizes[t]);
    }
    assert_int_equal(as_dtype_of(AS_STR("fp32")), AS_DT_INVALID);
    assert_int_equal(as_dtype_of(AS_STR("FP3")), AS_DT_INVALID);
    assert_int_equal(as_dtype_of(AS_STR("")), AS_DT_INVALID);
    assert_string_equal(as_dtype_name((enum as_dtype)99), "INVALID");
}

static void product_of_a_shape(void **state AS_UNUSED)
{
    uint64_t n = 0;

    assert_int_equal(elements(AS_DT_FP32, NULL, 0, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(elements(AS_DT_FP32, (int64_t[]){2, 3, 4}, 3, &n), 0);
    assert_int_equal(n, 24);
    assert_int_equal(elements(AS_DT_FP32, (int64_t[]){0, INT64_MAX, INT64_MAX}, 3, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(elements(AS_DT_FP32, (int64_t[]){-1}, 1, &n), AS_EINVALID);
    assert_int_equal(elements(AS_DT_FP32, (int64_t[]){0, -1}, 2, &n), AS_EINVALID);
}

static void overflow_is_seen_at_the_first_byte_too_many(void **state AS_UNUSED)
{
    uint64_t n;

    assert_int_equal(elements(AS_DT_INT8, (int64_t[]){INT64_MAX}, 1, &n), 0);
    assert_int_equal(elements(AS_DT_INT16, (int64_t[]){INT64_MAX / 2}, 1, &n), 0);
    assert_int_equal(elements(AS_DT_INT16, (int64_t[]){INT64_MAX / 2 + 1}, 1, &n), AS_EINVALID);
    assert_int_equal(elements(AS_DT_FP32, (int64_t[]){16, ((int64_t)1 << 60) + 2}, 2, &n),
                     AS_EINVALID);
    assert_int_equal(elements(AS_DT_BYTES, (int64_t[]){INT64_MAX / 4 + 1}, 1, &n), AS_EINVALID);
}

static void bytes_are_walked_to_the_last_one(void **state AS_UNUSED)
{
    static const uint8_t two[] = {1, 0, 0, 0, 'a', 0, 0, 0, 0};

    assert_int_equal(as_tensor_check_bytes(two, 9, 2), 0);
    assert_int_equal(as_tensor_check_bytes(two, 9, 1), AS_EINVALID);
    assert_int_equal(as_tensor_check_bytes(two, 9, 3), AS_EINVALID);
    assert_int_equal(as_tensor_check_bytes(two, 8, 2), AS_EINVALID);
    assert_int_equal(as_tensor_check_bytes(two, 5, 1), 0);
    assert_int_equal(as_tensor_check_bytes(two, 4, 1), AS_EINVALID);
    assert_int_equal(as_tensor_check_bytes(NULL, 0, 0), 0);
    assert_int_equal(as_tensor_check_bytes((const uint8_t *)"\xff\xff\xff\xff", 4, 1), AS_EINVALID);
}

static void every_error_has_its_row(void **state AS_UNUSED)
{
    for (int e = 0; e > -(int)AS_ERR_ROWS; e--) {
        assert_true(as_err_name(e)[0] && as_err_text(e)[0]);
        assert_non_null(as_grpc_status_name(as_err_grpc(e)));
        assert_true(as_err_http(e) >= 200 && as_err_http(e) < 600);
    }
    assert_string_equal(as_err_name(-4711), "EINTERNAL");
    assert_string_equal(as_err_name(1), "EINTERNAL");
    assert_int_equal(as_err_grpc(AS_EFULL), 8);
    assert_int_equal(as_err_grpc(AS_EMAYHAVERUN), 14);
    assert_int_equal(as_grpc_status_of("UNAVAILABLE"), 14);
    assert_int_equal(as_grpc_status_of("unavailable"), -1);
    assert_null(as_grpc_status_name(17));
    assert_int_equal(as_grpc_status_http(3), 400);
    assert_int_equal(as_grpc_status_http(8), 429);
    assert_int_equal(as_grpc_status_http(16), 401);
    assert_int_equal(as_grpc_status_http(17), 500);
}

struct seen {
    char line[5000];
    size_t n;
};

static void keep(void *ctx, enum as_log_level level AS_UNUSED, const char *line, size_t n)
{
    struct seen *s = ctx;

    memcpy(s->line, line, n);
    s->line[n] = 0;
    s->n = n;
}

static void a_log_line_is_one_line(void **state AS_UNUSED)
{
    struct seen s = {.n = 0};
    struct as_log log = {.level = AS_LOG_INFO, .sink = keep, .ctx = &s};
    char q[64], big[6000];

    as_log_event(&log, AS_LOG_DEBUG, "quiet", "a=1");
    assert_int_equal(s.n, 0);
    as_log_event(&log, AS_LOG_WARN, "gone", "r=%s",
                 as_log_quote(q, sizeof(q), AS_STR("a b\n\"\x01")));
    assert_string_equal(s.line, "level=warn event=gone r=\"a b\\n\\\"\\x01\"\n");
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    as_log_event(&log, AS_LOG_ERROR, "big", "v=%s", big);
    assert_int_equal(s.line[s.n - 1], '\n');
    assert_true(s.n <= 4096);
    assert_string_equal(as_log_quote(q, 8, as_str_of(big)), "xxxxxxx");
    assert_string_equal(as_log_quote(q, sizeof(q), AS_STR("")), "\"\"");
    assert_string_equal(as_log_level_name(AS_LOG_WARN), "warn");
}

static void a_signature_is_searched_by_name(void **state AS_UNUSED)
{
    const struct as_tensor_spec s[] = {{.name = AS_STR("a")}, {.name = AS_STR("ab")}};

    assert_ptr_equal(as_tensor_spec_find(s, 2, AS_STR("ab")), &s[1]);
    assert_null(as_tensor_spec_find(s, 1, AS_STR("ab")));
    assert_null(as_tensor_spec_find(NULL, 0, AS_STR("a")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_is_searched_by_name),
        cmocka_unit_test(every_datatype_has_a_name_and_a_size),
        cmocka_unit_test(product_of_a_shape),
        cmocka_unit_test(overflow_is_seen_at_the_first_byte_too_many),
        cmocka_unit_test(bytes_are_walked_to_the_last_one),
        cmocka_unit_test(every_error_has_its_row),
        cmocka_unit_test(a_log_line_is_one_line),
    };

    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
