/* Specification of tool/tensor/input, tool/tensor/npy, tool/tensor/sample_input and
 * tool/call/target: options become tensors and addresses, or an error with a reason. */
#include "tool/tensor/input.h"

#include "tool/call/target.h"
#include "tool/tensor/npy.h"
#include "tool/tensor/sample_input.h"
#include "unit.h"

#include <unistd.h>

static struct as_input in;
static struct as_buf why;
static char folder[] = "/tmp/t_input.XXXXXX";
static char path[64];

static const char *error_text(void)
{
    as_buf_reserve(&why, 1)[0] = 0;
    return (const char *)why.p;
}

/* Makes the tensor of `text`. dtype invalid: the model does not declare the input. */
static int make(const char *text, enum as_dtype t, uint32_t ndim, const int64_t *shape)
{
    const struct as_tensor_spec spec = {{"x", 1}, t, ndim, shape, NULL, 0};
    struct as_input_form f;
    bool stdin_used = false;
    int rc;

    as_input_fini(&in);
    in = (struct as_input){.shape = {0}};
    why.n = 0;
    rc = as_input_parse(text, &f, &why);
    return rc ? rc : as_input_make(&f, t == AS_DT_INVALID ? NULL : &spec, &stdin_used, &in, &why);
}

static void check_shape(const int64_t *want, uint32_t ndim)
{
    assert_int_equal(in.tensor.ndim, ndim);
    for (uint32_t i = 0; i < ndim; i++)
        assert_int_equal(in.shape[i], want[i]);
}

#define SHAPE(...)                                                                                 \
    ((const int64_t[]){__VA_ARGS__}), (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void write_file(const char *name, const void *p, size_t n)
{
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int make_at(const char *before, enum as_dtype t, uint32_t ndim, const int64_t *shape)
{
    char text[128];

    snprintf(text, sizeof(text), "%s%s", before, path);
    return make(text, t, ndim, shape);
}

/* --- names, datatypes, shapes --- */

static void check_parse(const char *text, const char *name, enum as_dtype t, int ndim)
{
    struct as_input_form f;

    why.n = 0;
    assert_int_equal(as_input_parse(text, &f, &why), 0);
    assert_true(as_str_eq(f.name, as_str_of(name)));
    assert_int_equal(f.dtype, t);
    assert_int_equal(f.has_shape ? (int)f.ndim : -1, ndim);
}

static void an_option_is_parsed(void **state AS_UNUSED)
{
    check_parse("x=1", "x", AS_DT_INVALID, -1);
    check_parse("x=", "x", AS_DT_INVALID, -1);
    check_parse("x=a=b", "x", AS_DT_INVALID, -1);
    check_parse("x:FP32=1", "x", AS_DT_FP32, -1);
    check_parse("x:BYTES:[2,3]=1", "x", AS_DT_BYTES, 2);
    check_parse("x:INT8:[]=1", "x", AS_DT_INT8, 0);
    check_parse("serving:0=1", "serving:0", AS_DT_INVALID, -1);
    check_parse("serving:0:INT8:[-1]=1", "serving:0", AS_DT_INT8, 1);
    check_parse("a[0]=1", "a[0]", AS_DT_INVALID, -1);
}

static void malformed_options_are_refused(void **state AS_UNUSED)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"x", "'x' is not NAME=VALUE"},
        {"=1", "'=1' is not NAME=VALUE"},
        {"x:FP31=1",
         "unknown datatype 'FP31'; known are BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 "
         "INT32 INT64 FP16 FP32 FP64 BYTES BF16"},
        {"x:FP32:[2,a]=1",
         "shape '[2,a]' is not [N,N,…] with up to 32 sizes, one of which may be -1"},
        {"x:FP32:[-1,-1]=1",
         "shape '[-1,-1]' is not [N,N,…] with up to 32 sizes, one of which may be -1"},
        {"x:FP32:[-2]=1",
         "shape '[-2]' is not [N,N,…] with up to 32 sizes, one of which may be -1"},
        {"x:FP32:[[1]]=1",
         "shape '[[1]]' is not [N,N,…] with up to 32 sizes, one of which may be -1"},
        {"x:[2]=1", "'x:[2]=1': a shape needs a datatype, NAME:DTYPE:[SHAPE]"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_input_form f;

        why.n = 0;
        assert_int_equal(as_input_parse(rows[i].text, &f, &why), AS_EINVALID);
        assert_string_equal(error_text(), rows[i].want);
    }
}

static void missing_parts_come_from_the_model(void **state AS_UNUSED)
{
    static const int64_t open[] = {-1}, image[] = {-1, 2, 2}, fixed[] = {2, 2}, many[] = {-1, -1};

    assert_int_equal(make("x=1,2,3", AS_DT_FP32, 1, open), 0);
    assert_int_equal(in.tensor.dtype, AS_DT_FP32);
    check_shape(SHAPE(3));
    assert_int_equal(make("x=5", AS_DT_INT64, 1, open), 0);
    check_shape(SHAPE(1));
    assert_int_equal(make("x=5", AS_DT_INT64, 0, NULL), 0);
    assert_int_equal(in.tensor.ndim, 0);
    assert_int_equal(make("x=5 6", AS_DT_INT64, 0, NULL), 0);
    check_shape(SHAPE(2));
    assert_int_equal(make("x=1,2,3,4,5,6,7,8", AS_DT_UINT8, 3, image), 0);
    check_shape(SHAPE(2, 2, 2));
    assert_int_equal(make("x=1,2,3,4", AS_DT_UINT8, 2, fixed), 0);
    assert_int_equal(make("x=[[1,2],[3,4]]", AS_DT_UINT8, 2, many), 0);
    check_shape(SHAPE(2, 2));
    assert_int_equal(make("x=", AS_DT_UINT8, 3, image), 0);
    check_shape(SHAPE(0, 2, 2));
    assert_int_equal(make("x=hello", AS_DT_BYTES, 1, open), 0);
    check_shape(SHAPE(1));
}

static void values_that_do_not_fit_are_refused(void **state AS_UNUSED)
{
    static const int64_t image[] = {-1, 2, 2}, fixed[] = {2, 2}, many[] = {-1, -1};

    assert_int_equal(make("x=1,2,3", AS_DT_UINT8, 3, image), AS_EINVALID);
    assert_string_equal(error_text(), "input 'x': 3 values do not fit shape [-1,2,2]");
    assert_int_equal(make("x=1", AS_DT_UINT8, 2, fixed), AS_EINVALID);
    assert_string_equal(error_text(), "input 'x': 1 value does not fit shape [2,2]");
    assert_int_equal(make("x=1,2", AS_DT_UINT8, 2, many), AS_EINVALID);
    assert_string_equal(error_text(),
                        "input 'x': shape [-1,-1] has several variable sizes: give the value "
                        "with brackets, or the shape as in NAME:DTYPE:[2,3]=…");
    assert_int_equal(make("x=[1,2]", AS_DT_UINT8, 2, fixed), AS_EINVALID);
    assert_string_equal(error_text(),
                        "input 'x': the value has shape [2], the model expects [2,2]");
    assert_int_equal(make("x=300", AS_DT_UINT8, 0, NULL), AS_EINVALID);
    assert_string_equal(error_text(),
                        "input 'x': value 1 at position 1, '300', is outside 0 … 255 (UINT8)");
    assert_int_equal(make("x=1", AS_DT_INVALID, 0, NULL), AS_EINVALID);
    assert_string_equal(error_text(), "input 'x': the model does not declare this input: give its "
                                      "datatype, NAME:DTYPE=VALUE (for example x:FP32=1,2,3)");
}

static void given_parts_override_the_model(void **state AS_UNUSED)
{
    static const int64_t fixed[] = {2, 2};

    assert_int_equal(make("x:INT8:[4]=1,2,3,4", AS_DT_FP32, 2, fixed), 0);
    assert_int_equal(in.tensor.dtype, AS_DT_INT8);
    check_shape(SHAPE(4));
    assert_int_equal(make("x:INT8:[2,-1]=[1,2,3,4]", AS_DT_INVALID, 0, NULL), 0);
    check_shape(SHAPE(2, 2));
    assert_int_equal(make("x:INT8=[[1],[2]]", AS_DT_FP32, 2, fixed), 0);
    check_shape(SHAPE(2, 1));
    assert_int_equal(make("x:INT8:[]=7", AS_DT_INVALID, 0, NULL), 0);
    assert_int_equal(in.tensor.ndim, 0);
    assert_int_equal(make("x:INT8:[3]=1,2", AS_DT_INVALID, 0, NULL), AS_EINVALID);
    assert_int_equal(make("x:INT8:[0,-1]=1", AS_DT_INVALID, 0, NULL), AS_EINVALID);
    assert_int_equal(
        make("x:INT8:[9223372036854775807,9223372036854775807]=1", AS_DT_INVALID, 0, NULL),
        AS_EINVALID);
}

/* --- files --- */

static void files_are_text_or_bytes_by_their_name(void **state AS_UNUSED)
{
    static const int64_t open[] = {-1};

    write_file("v.txt", "1 2\n3\n", 6);
    assert_int_equal(make_at("x=@", AS_DT_INT16, 1, open), 0);
    check_shape(SHAPE(3));
    assert_int_equal(make_at("x=@raw:", AS_DT_INT16, 1, open), 0);
    check_shape(SHAPE(3));
    assert_memory_equal(in.tensor.data, "1 2\n3\n", 6);
    assert_int_equal(make_at("x=@", AS_DT_BYTES, 1, open), 0);
    assert_memory_equal(in.tensor.data,
                        "\5\0\0\0"
                        "1 2\n3",
                        9);
    assert_int_equal(make_at("x=@raw:", AS_DT_BYTES, 1, open), 0);
    assert_int_equal(in.tensor.nbytes, 10);
    write_file("v.bin", "\1\2\3", 3);
    assert_int_equal(make_at("x=@", AS_DT_UINT8, 1, open), 0);
    check_shape(SHAPE(3));
    assert_int_equal(make_at("x=@", AS_DT_INT16, 1, open), AS_EINVALID);
    assert_string_equal(error_text(), "input 'x': 3 bytes are not a whole number of INT16 values");
    assert_int_equal(make_at("x=@text:", AS_DT_INT16, 1, open), AS_EINVALID);
    write_file("empty", "", 0);
    assert_int_equal(make_at("x=@", AS_DT_UINT8, 1, open), 0);
    check_shape(SHAPE(0));
    assert_int_equal(make_at("x=@text:", AS_DT_BYTES, 1, open), 0);
    check_shape(SHAPE(1));
}

static void a_missing_file_is_an_error(void **state AS_UNUSED)
{
    assert_int_equal(make("x=@/no/such/file", AS_DT_UINT8, 0, NULL), AS_ENOTFOUND);
    assert_string_equal(error_text(),
                        "input 'x': cannot read /no/such/file: No such file or directory");
    assert_int_equal(make("x=@/", AS_DT_UINT8, 0, NULL), AS_ENOTFOUND);
    assert_string_equal(error_text(), "input 'x': cannot read /: Is a directory");
}

/* A .npy file with this dictionary and n bytes of data. */
static size_t npy(uint8_t *out, uint8_t version, const char *head, size_t n)
{
    size_t len = strlen(head), at = version == 1 ? 10 : 12;

    memcpy(out, "\x93NUMPY\0\0\0\0\0\0", 12);
    out[6] = version;
    out[8] = (uint8_t)len;
    out[9] = (uint8_t)(len >> 8);
    if (version > 1)
        out[10] = out[11] = 0;
    memcpy(out + at, head, len);
    for (size_t i = 0; i < n; i++)
        out[at + len + i] = (uint8_t)i;
    return at + len + n;
}

#define NPY(descr, order, shape)                                                                   \
    "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }   \n"

static void numpy_files_have_a_datatype_and_shape(void **state AS_UNUSED)
{
    static const int64_t two[] = {-1, 3};
    uint8_t b[512];

    for (uint8_t version = 1; version <= 3; version++) {
        write_file("v.npy", b, npy(b, version, NPY("<i2", "False", "(2, 3)"), 12));
        assert_int_equal(make_at("x=@", AS_DT_INVALID, 0, NULL), 0);
        assert_int_equal(in.tensor.dtype, AS_DT_INT16);
        check_shape(SHAPE(2, 3));
        assert_memory_equal(in.tensor.data, "\0\1\2\3\4\5\6\7\x08\x09\x0a\x0b", 12);
    }
    assert_int_equal(make_at("x=@", AS_DT_INT16, 2, two), 0);
    assert_int_equal(make_at("x=@", AS_DT_FP32, 2, two), AS_EINVALID);
    assert_string_equal(error_text(), "input 'x': the file has datatype INT16, expected FP32");
    assert_int_equal(make_at("x=@", AS_DT_INT16, 1, two), AS_EINVALID);
    assert_int_equal(make_at("x:INT16:[6]=@", AS_DT_INVALID, 0, NULL), 0);
    check_shape(SHAPE(6));
    write_file("s.npy", b, npy(b, 1, NPY("<f8", "False", "()"), 8));
    assert_int_equal(make_at("x=@", AS_DT_INVALID, 0, NULL), 0);
    assert_int_equal(in.tensor.ndim, 0);
    write_file("h.npy", b, npy(b, 1, NPY("|V2", "True", "(4,)"), 8));
    assert_int_equal(make_at("x=@", AS_DT_INVALID, 0, NULL), 0);
    assert_int_equal(in.tensor.dtype, AS_DT_BF16);
}

static void unsupported_numpy_files_are_refused(void **state AS_UNUSED)
{
    static const struct {
        const char *head, *want;
        size_t n;
    } rows[] = {
        {NPY(">i2", "False", "(1,)"),
         "the array is big-endian: save array.astype(array.dtype.newbyteorder('<')) instead", 2},
        {NPY("|O", "False", "(1,)"), "arrays of dtype '|O' cannot be sent", 8},
        {NPY("<U3", "False", "(1,)"), "arrays of dtype '<U3' cannot be sent", 12},
        {NPY("<i2", "True", "(2, 2)"),
         "the array is stored by columns: save numpy.ascontiguousarray(array) instead", 8},
        {NPY("<i2", "False", "(2, 2)"), "the file holds 7 bytes of data, its shape needs 8", 7},
        {NPY("<i2", "False", "(-1,)"), "the shape cannot be read", 2},
        {NPY("<i2", "False", "(99999999999999999999,)"), "the shape cannot be read", 2},
        {NPY("<i2", "False", "(9223372036854775807, 9)"), "the shape is too large", 2},
        {NPY("<i2", "False", "7"), "the shape cannot be read", 2},
        {"{'descr': [('a', '<i2')], 'shape': (1,)}", "arrays of dtype '' cannot be sent", 2},
        {"", "the file is not a complete .npy file of version 1 to 3", 0},
    };
    uint8_t b[512];

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        char want[200];

        write_file("w.npy", b, npy(b, 1, rows[i].head, rows[i].n));
        snprintf(want, sizeof(want), "input 'x': %s", rows[i].want);
        assert_int_equal(make_at("x=@", AS_DT_INVALID, 0, NULL), AS_EINVALID);
        assert_string_equal(error_text(), want);
    }
}

static void a_truncated_numpy_file_is_refused(void **state AS_UNUSED)
{
    uint8_t b[512];
    size_t n = npy(b, 2, NPY("<i2", "False", "(2, 3)"), 12);

    for (size_t cut = 0; cut < n; cut++) {
        char *exact = malloc(cut ? cut : 1);
        int64_t shape[AS_MAX_DIMS];
        struct as_str data;
        enum as_dtype t;
        uint32_t ndim;

        memcpy(exact, b, cut);
        assert_int_equal(as_npy_read((struct as_str){exact, cut}, &t, shape, &ndim, &data, &why),
                         AS_EINVALID);
        free(exact);
    }
}

/* --- sample values --- */

static void sample_values_are_random(void **state AS_UNUSED)
{
    static const int64_t shape[] = {-1, 3};

    for (int t = AS_DT_BOOL; t < AS_DT_COUNT; t++) {
        const struct as_tensor_spec spec = {{"x", 1}, (enum as_dtype)t, 2, shape, NULL, 0};
        struct as_input a = {.shape = {0}}, b = {.shape = {0}};
        struct as_rand r = {1}, same = {1};
        uint64_t n;

        assert_int_equal(as_sample_input_make(&spec, 4, &r, &a, &why), 0);
        assert_int_equal(as_sample_input_make(&spec, 4, &same, &b, &why), 0);
        assert_int_equal(a.shape[0], 4);
        assert_int_equal(as_tensor_elements(spec.dtype, a.shape, 2, &n), 0);
        if (t == AS_DT_BYTES)
            assert_int_equal(as_tensor_check_bytes(a.tensor.data, a.tensor.nbytes, n), 0);
        else
            assert_int_equal(a.tensor.nbytes, n * as_dtype_size(spec.dtype));
        assert_int_equal(a.tensor.nbytes, b.tensor.nbytes);
        assert_memory_equal(a.tensor.data, b.tensor.data, a.tensor.nbytes);
        as_input_fini(&a);
        as_input_fini(&b);
    }
}

static void sample_values_are_bounded(void **state AS_UNUSED)
{
    static const int64_t big[] = {-1, 1 << 20};
    const struct as_tensor_spec spec = {{"x", 1}, AS_DT_FP32, 2, big, NULL, 0},
                                odd = {{"y", 1}, 0, 0, NULL, NULL, 0};
    struct as_input a = {.shape = {0}};
    struct as_rand r = {1};

    why.n = 0;
    assert_int_equal(as_sample_input_make(&spec, 512, &r, &a, &why), AS_EINVALID);
    assert_string_equal(
        error_text(),
        "input 'x' would be over 2147483647 bytes: use a smaller --any-size, or --input");
    why.n = 0;
    assert_int_equal(as_sample_input_make(&odd, 1, &r, &a, &why), AS_EINVALID);
    assert_string_equal(error_text(),
                        "input 'y' has an unknown datatype: give its value with --input");
}

/* --- addresses --- */

static void addresses_are_parsed(void **state AS_UNUSED)
{
    static const struct {
        const char *url, *host, *authority;
        uint16_t port;
        enum as_target_scheme scheme;
    } good[] = {{"h", "h", "h:8000", 8000, AS_TARGET_ANY},
                {"h:1", "h", "h:1", 1, AS_TARGET_ANY},
                {"127.0.0.1:65535", "127.0.0.1", "127.0.0.1:65535", 65535, AS_TARGET_ANY},
                {"[::1]:9", "::1", "[::1]:9", 9, AS_TARGET_ANY},
                {"[::1]", "::1", "[::1]:8000", 8000, AS_TARGET_ANY},
                {"grpc://h:2", "h", "h:2", 2, AS_TARGET_CLEAR},
                {"http://h", "h", "h:8000", 8000, AS_TARGET_CLEAR},
                {"grpcs://h:2", "h", "h:2", 2, AS_TARGET_TLS},
                {"https://[::1]:9", "::1", "[::1]:9", 9, AS_TARGET_TLS}};
    static const char *const bad[] = {"",      ":1",      "h:",    "h:0",   "h:65536",
                                      "h:x",   "ftp://h", "::1",   "[::1",  "[::1]x",
                                      "h/x:1", "a b:1",   "u@h:1", "h:1:2", "[]:1"};
    struct as_target t;

    for (size_t i = 0; i < AS_COUNT(good); i++) {
        assert_int_equal(as_target_parse(&t, good[i].url, &why), 0);
        assert_string_equal(t.host, good[i].host);
        assert_string_equal(t.authority, good[i].authority);
        assert_int_equal(t.port, good[i].port);
        assert_int_equal(t.scheme, good[i].scheme);
    }
    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        why.n = 0;
        assert_int_equal(as_target_parse(&t, bad[i], &why), AS_EINVALID);
        assert_true(why.n > 0);
    }
}

static int setup(void **state AS_UNUSED)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state AS_UNUSED)
{
    static const char *const names[] = {"v.txt", "v.bin", "empty", "v.npy",
                                        "s.npy", "h.npy", "w.npy"};

    for (size_t i = 0; i < AS_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    as_input_fini(&in);
    as_buf_fini(&why);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_option_is_parsed),
        cmocka_unit_test(malformed_options_are_refused),
        cmocka_unit_test(missing_parts_come_from_the_model),
        cmocka_unit_test(values_that_do_not_fit_are_refused),
        cmocka_unit_test(given_parts_override_the_model),
        cmocka_unit_test(files_are_text_or_bytes_by_their_name),
        cmocka_unit_test(a_missing_file_is_an_error),
        cmocka_unit_test(numpy_files_have_a_datatype_and_shape),
        cmocka_unit_test(unsupported_numpy_files_are_refused),
        cmocka_unit_test(a_truncated_numpy_file_is_refused),
        cmocka_unit_test(sample_values_are_random),
        cmocka_unit_test(sample_values_are_bounded),
        cmocka_unit_test(addresses_are_parsed),
    };

    return cmocka_run_group_tests_name("input", tests, setup, teardown);
}
