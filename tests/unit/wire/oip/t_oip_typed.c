/* Specification of wire/oip/oip_typed: typed contents become the bytes of raw contents. */
#include "oip_case.h"

static void typed_integers_become_bytes(void **state AS_UNUSED)
{
    static const struct {
        const char *datatype;
        unsigned field;
        int64_t v[3];
        uint8_t want[24];
    } rows[] = {
        {"BOOL", 1, {1, 0, 200}, {1, 0, 1}},
        {"INT8", 2, {-128, 127, -1}, {0x80, 0x7f, 0xff}},
        {"INT16", 2, {-32768, 32767, 1}, {0, 0x80, 0xff, 0x7f, 1, 0}},
        {"INT32",
         2,
         {INT32_MIN, INT32_MAX, -2},
         {0, 0, 0, 0x80, 255, 255, 255, 127, 254, 255, 255, 255}},
        {"INT64", 3, {INT64_MIN, -1, 7}, {[7] = 0x80, 255, 255, 255, 255, 255, 255, 255, 255, 7}},
        {"UINT8", 4, {0, 255, 1}, {0, 255, 1}},
        {"UINT16", 4, {0, 65535, 256}, {0, 0, 255, 255, 0, 1}},
        {"UINT32", 4, {0, UINT32_MAX, 1}, {0, 0, 0, 0, 255, 255, 255, 255, 1}},
        {"UINT64", 5, {-1, 0, 1}, {255, 255, 255, 255, 255, 255, 255, 255, [16] = 1}},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_buf b = typed(rows[i].datatype, three, 1, numbers(rows[i].field, rows[i].v, 3));
        struct as_buf loose = {0};

        assert_int_equal(parse(&b), 0);
        assert_int_equal(got.r.inputs[0].nbytes, 3 * as_dtype_size(got.r.inputs[0].dtype));
        assert_memory_equal(got.r.inputs[0].data, rows[i].want, got.r.inputs[0].nbytes);
        assert_int_equal(got.r.typed, got.r.inputs[0].nbytes);
        pb_number(&loose, rows[i].field, (uint64_t)rows[i].v[0]); /* packed and not, mixed */
        pb_packed(&loose, rows[i].field, rows[i].v + 1, 2);
        b = typed(rows[i].datatype, three, 1, loose);
        assert_int_equal(parse(&b), 0);
        assert_memory_equal(got.r.inputs[0].data, rows[i].want, got.r.inputs[0].nbytes);
    }
}

static void typed_integers_out_of_range(void **state AS_UNUSED)
{
    static const struct {
        const char *datatype;
        unsigned field;
        int64_t v;
        const char *why;
    } rows[] = {
        {"INT8", 2, 128, "input 'a': int_contents[1]: 128 does not fit INT8"},
        {"INT8", 2, -129, "input 'a': int_contents[1]: -129 does not fit INT8"},
        {"INT16", 2, 32768, "input 'a': int_contents[1]: 32768 does not fit INT16"},
        {"INT16", 2, -32769, "input 'a': int_contents[1]: -32769 does not fit INT16"},
        {"UINT8", 4, 256, "input 'a': uint_contents[1]: 256 does not fit UINT8"},
        {"UINT16", 4, 65536, "input 'a': uint_contents[1]: 65536 does not fit UINT16"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        const int64_t v[] = {0, rows[i].v};
        struct as_buf b = typed(rows[i].datatype, two, 1, numbers(rows[i].field, v, 2));

        REFUSED(&b, AS_EINVALID, rows[i].why);
    }
}

static void packed_floats_are_used_in_place(void **state AS_UNUSED)
{
    struct as_buf c = {0}, b;

    pb_bytes(&c, 6, data, 8);
    b = typed("FP32", two, 1, c);
    assert_int_equal(parse(&b), 0);
    assert_memory_equal(got.r.inputs[0].data, data, 8);
    assert_true(got.r.inputs[0].data > got.bytes && got.r.inputs[0].data < got.bytes + 64);
    assert_int_equal(got.r.typed, 0);
    c = (struct as_buf){0};
    pb_bytes(&c, 7, data, 8);
    as_buf_add(&c, "\x39\1\2\3\4\5\6\7\x08", 9); /* one that is not packed */
    b = typed("FP64", two, 1, c);
    assert_int_equal(parse(&b), 0);
    assert_memory_equal(got.r.inputs[0].data, data, 8);
    assert_memory_equal(got.r.inputs[0].data + 8, data, 8);
    assert_int_equal(got.r.typed, 16);
    c = (struct as_buf){0};
    as_buf_add(&c, "\x35\1\2\3\4", 5);
    b = typed("FP32", NULL, 0, c);
    assert_int_equal(parse(&b), 0);
    assert_memory_equal(got.r.inputs[0].data, data, 4);
    c = (struct as_buf){0};
    pb_bytes(&c, 6, data, 7);
    b = typed("FP32", two, 1, c);
    REFUSED(&b, AS_EPROTO, "input 'a': fp32_contents: malformed");
    c = (struct as_buf){0};
    pb_bytes(&c, 7, data, 12);
    b = typed("FP64", two, 1, c);
    REFUSED(&b, AS_EPROTO, "input 'a': fp64_contents: malformed");
}

static void typed_bytes_get_their_lengths(void **state AS_UNUSED)
{
    struct as_buf c = {0}, b;

    pb_text(&c, 8, "ab");
    pb_text(&c, 8, "");
    pb_bytes(&c, 8, "\xff", 1); /* any bytes */
    b = typed("BYTES", three, 1, c);
    assert_int_equal(parse(&b), 0);
    assert_int_equal(got.r.inputs[0].nbytes, 15);
    assert_memory_equal(got.r.inputs[0].data, "\2\0\0\0ab\0\0\0\0\1\0\0\0\xff", 15);
    c = (struct as_buf){0};
    pb_text(&c, 8, "ab");
    b = typed("BYTES", two, 1, c);
    REFUSED(&b, AS_EINVALID, "input 'a': 1 elements in bytes_contents, shape [2] needs 2");
}

static void several_contents_are_merged(void **state AS_UNUSED)
{
    struct as_buf b = request(), in = input("a", "INT32", two, 1);

    pb_nest(&in, 5, numbers(2, one, 1));
    pb_nest(&in, 5, numbers(2, two, 1));
    pb_nest(&b, INPUTS, in);
    assert_int_equal(parse(&b), 0);
    assert_memory_equal(got.r.inputs[0].data, "\1\0\0\0\2\0\0\0", 8);
}

static void typed_fields_match_the_datatype(void **state AS_UNUSED)
{
    struct as_buf b = typed("INT64", one, 1, numbers(2, one, 1)), c = {0};

    REFUSED(&b, AS_EINVALID, "input 'a': int_contents is given, INT64 takes int64_contents");
    pb_packed(&c, 3, one, 1);
    pb_packed(&c, 2, one, 1);
    b = typed("INT64", two, 1, c);
    REFUSED(&b, AS_EINVALID, "input 'a': int_contents is given, INT64 takes int64_contents");
    b = typed("FP16", one, 1, numbers(2, one, 1));
    REFUSED(&b, AS_EINVALID, "input 'a': FP16 takes raw_input_contents only");
    b = typed("BF16", one, 1, numbers(4, one, 1));
    REFUSED(&b, AS_EINVALID, "input 'a': BF16 takes raw_input_contents only");
    b = typed("FP16", zero, 1, (struct as_buf){0}); /* no contents */
    assert_int_equal(parse(&b), 0);
}

static void typed_counts_match_the_shape(void **state AS_UNUSED)
{
    static const int64_t huge[] = {(int64_t)1 << 50};
    struct as_buf b = typed("INT64", two, 1, numbers(3, by_two, 2));

    assert_int_equal(parse(&b), 0);
    b = typed("INT64", three, 1, numbers(3, by_two, 2));
    REFUSED(&b, AS_EINVALID, "input 'a': 2 elements in int64_contents, shape [3] needs 3");
    b = typed("INT64", one, 1, numbers(3, by_two, 2));
    REFUSED(&b, AS_EINVALID, "input 'a': 2 elements in int64_contents, shape [1] needs 1");
    b = typed("INT64", zero, 1, numbers(3, by_two, 2));
    REFUSED(&b, AS_EINVALID, "input 'a': 2 elements in int64_contents, shape [0] needs 0");
    b = typed("INT64", huge, 1, numbers(3, by_two, 2)); /* no memory is allocated for it */
    REFUSED(&b, AS_EINVALID,
            "input 'a': 2 elements in int64_contents, shape [1125899906842624] needs "
            "1125899906842624");
    b = request();
    pb_nest(&b, INPUTS, input("a", "FP32", by_two, 2));
    REFUSED(&b, AS_EINVALID, "input 'a': no data, shape [2,2] of FP32 needs 4 elements");
    b = request();
    pb_nest(&b, INPUTS, input("a", "FP32", zero, 1));
    assert_int_equal(parse(&b), 0);
    assert_int_equal(got.r.inputs[0].nbytes, 0);
}

static void typed_contents_may_grow_by_64_mib(void **state AS_UNUSED)
{
    const int64_t fits = (int64_t)(AS_OIP_TYPED_MAX / 7); /* 1 byte becomes 8, 7 more */
    struct as_buf b = request(), in, c = {0};

    for (int64_t extra = 0; extra <= 64; extra += 64) {
        int64_t shape[] = {fits + extra};
        uint8_t *v = calloc(1, (size_t)shape[0]);

        pb_bytes(&c, 3, v, (size_t)shape[0]);
        free(v);
        in = input("a", "INT64", shape, 1);
        pb_nest(&in, 5, c);
        pb_nest(&b, INPUTS, in);
        if (extra)
            REFUSED(&b, AS_EINVALID,
                    "input 'a': typed contents take too much memory, use raw_input_contents");
        else
            assert_int_equal(parse(&b), 0);
        b = (struct as_buf){0};
        c = (struct as_buf){0};
    }
}

static void malformed_typed_contents(void **state AS_UNUSED)
{
    struct as_buf c = {0}, b;

    pb_bytes(&c, 3, "\x01\x80", 2);
    b = typed("INT64", two, 1, c);
    REFUSED(&b, AS_EPROTO, "input 'a': int64_contents: malformed");
    c = (struct as_buf){0};
    pb_bytes(&c, 3, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    b = typed("INT64", one, 1, c);
    REFUSED(&b, AS_EPROTO, "input 'a': int64_contents: malformed");
    c = (struct as_buf){0};
    pb_number(&c, 8, 1);
    b = typed("BYTES", one, 1, c);
    REFUSED(&b, AS_EPROTO, "input 'a': bytes_contents: malformed");
    c = (struct as_buf){0};
    as_buf_add(&c, "\x0a\x05x", 3);
    b = typed("BYTES", one, 1, c);
    REFUSED(&b, AS_EPROTO, "input 'a': contents: malformed");
    b = request();
    c = input("a", "INT8", one, 1);
    pb_number(&c, 5, 1);
    pb_nest(&b, INPUTS, c);
    REFUSED(&b, AS_EPROTO, "input 'a': contents: wrong wire type 0");
    c = (struct as_buf){0};
    as_buf_add(&c, "\x0a\x05x", 3);
    b = typed("INT8", one, 1, c);
    pb_bytes(&b, RAW, data, 1);
    REFUSED(&b, AS_EPROTO, "input 'a': contents: malformed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typed_integers_become_bytes),
        cmocka_unit_test(typed_integers_out_of_range),
        cmocka_unit_test(packed_floats_are_used_in_place),
        cmocka_unit_test(typed_bytes_get_their_lengths),
        cmocka_unit_test(several_contents_are_merged),
        cmocka_unit_test(typed_fields_match_the_datatype),
        cmocka_unit_test(typed_counts_match_the_shape),
        cmocka_unit_test(typed_contents_may_grow_by_64_mib),
        cmocka_unit_test(malformed_typed_contents),
    };

    return cmocka_run_group_tests_name("oip_typed", tests, NULL, clean);
}
