/* Protobuf's wire format: what the reader gives and refuses, and the sizes of the writer. */
#include "wire/protobuf/pb.h"

#include "unit.h"

/* All fields of a message: how many, or AS_EPROTO. The last one is in *f. */
static int walk(const char *bytes, size_t n, struct as_pb_field *f)
{
    uint8_t *exact = malloc(n ? n : 1);
    struct as_pb r = {exact, exact + n};
    int fields = 0, more;

    memcpy(exact, bytes, n);
    while ((more = as_pb_next(&r, f)) > 0)
        fields++;
    free(exact);
    return more ? more : fields;
}

#define WALK(lit) walk((lit), sizeof(lit) - 1, &f)

static void every_wire_type_is_read(void **state AS_UNUSED)
{
    struct as_pb_field f;

    assert_int_equal(WALK(""), 0);
    assert_int_equal(WALK("\x08\x96\x01"), 1);
    assert_int_equal(f.number, 1);
    assert_int_equal(f.wire, AS_PB_VARINT);
    assert_int_equal(f.v, 150);
    assert_int_equal(WALK("\x11\1\2\3\4\5\6\7\x08"), 1);
    assert_int_equal(f.number, 2);
    assert_int_equal(f.wire, AS_PB_I64);
    assert_int_equal(f.v, 0x0807060504030201);
    assert_int_equal(WALK("\x1d\1\2\3\4"), 1);
    assert_int_equal(f.number, 3);
    assert_int_equal(f.wire, AS_PB_I32);
    assert_int_equal(f.v, 0x04030201);
    assert_int_equal(WALK("\x22\3abc"), 1);
    assert_int_equal(f.number, 4);
    assert_int_equal(f.wire, AS_PB_LEN);
    assert_int_equal(f.s.n, 3);
    assert_int_equal(WALK("\x22\0"), 1);
    assert_int_equal(f.s.n, 0);
    assert_int_equal(WALK("\x08\1\x12\1x\x08\2"), 3);
}

static void field_numbers(void **state AS_UNUSED)
{
    struct as_pb_field f;

    assert_int_equal(WALK("\x00\x00"), AS_EPROTO);         /* 0 */
    assert_int_equal(WALK("\x80\x00\x00"), AS_EPROTO);     /* 0, long */
    assert_int_equal(WALK("\xf8\xff\xff\xff\x0f\x01"), 1); /* 2^29-1 */
    assert_int_equal(f.number, (1u << 29) - 1);
    assert_int_equal(WALK("\x80\x80\x80\x80\x10\x01"), AS_EPROTO); /* 2^29 */
    assert_int_equal(WALK("\x88\x80\x00\x01"), 1);                 /* 1, longer than needed */
    assert_int_equal(f.number, 1);
}

static void invalid_wire_types(void **state AS_UNUSED)
{
    struct as_pb_field f;

    assert_int_equal(WALK("\x0c"), AS_EPROTO); /* the end of a group that was not opened */
    assert_int_equal(WALK("\x0e\x01"), AS_EPROTO);
    assert_int_equal(WALK("\x0f\x01"), AS_EPROTO);
}

/* proto3 never writes them, but an unknown field may be one. */
static void a_group_is_one_field(void **state AS_UNUSED)
{
    struct as_pb_field f;

    assert_int_equal(WALK("\x0b\x0c"), 1);
    assert_int_equal(f.number, 1);
    assert_int_equal(f.wire, AS_PB_GROUP);
    assert_int_equal(WALK("\x0b\x08\x01\x12\1x\x1d\1\2\3\4\x21\1\2\3\4\5\6\7\x08\x0c\x10\1"), 2);
    assert_int_equal(f.number, 2);
    assert_int_equal(WALK("\x0b\x0b\x13\x14\x0c\x0c\x10\1"), 2); /* groups in it */
    assert_int_equal(WALK("\x0b\x12\1\x0c\x0c"), 1);             /* what looks like its end */
}

static void malformed_groups(void **state AS_UNUSED)
{
    struct as_pb_field f;

    assert_int_equal(WALK("\x0b"), AS_EPROTO);
    assert_int_equal(WALK("\x0b\x14"), AS_EPROTO); /* another one's end */
    assert_int_equal(WALK("\x0b\x0b\x0c"), AS_EPROTO);
    assert_int_equal(WALK("\x0b\x13\x0c\x14"), AS_EPROTO); /* crosswise */
    assert_int_equal(WALK("\x0b\x08\x0c"), AS_EPROTO);     /* no end, but a number */
    assert_int_equal(WALK("\x0b\x12\2x\x0c"), AS_EPROTO);
    assert_int_equal(WALK("\x0b\x0e\x0c"), AS_EPROTO);
    assert_int_equal(WALK("\x0b\x00\x0c"), AS_EPROTO);
    assert_int_equal(WALK("\x0b\x1d\1\2\3"), AS_EPROTO);
}

/* The depth limit of protobuf's own readers. */
static void depth_of_groups(void **state AS_UNUSED)
{
    char bytes[2 * (AS_PB_DEPTH + 1)];
    struct as_pb_field f;

    for (unsigned deep = AS_PB_DEPTH; deep <= AS_PB_DEPTH + 1; deep++) {
        memset(bytes, 0x0b, deep);
        memset(bytes + deep, 0x0c, deep);
        assert_int_equal(walk(bytes, 2 * deep, &f), deep == AS_PB_DEPTH ? 1 : AS_EPROTO);
    }
}

static void varint_limits(void **state AS_UNUSED)
{
    struct as_pb_field f;

    assert_int_equal(WALK("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 1);
    assert_true(f.v == UINT64_MAX);
    assert_int_equal(WALK("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), AS_EPROTO);
    assert_int_equal(WALK("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), 1);
    assert_int_equal(f.v, 0);
    assert_int_equal(WALK("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), AS_EPROTO);
}

static void every_cut_is_seen(void **state AS_UNUSED)
{
    static const char whole[] = "\x08\x96\x01"
                                "\x11\1\2\3\4\5\6\7\x08"
                                "\x1d\1\2\3\4"
                                "\x22\3abc";
    static const size_t ends[] = {0, 3, 12, 17, 22};
    struct as_pb_field f;
    size_t k = 0;

    for (size_t n = 0; n < sizeof(whole); n++) {
        int got = walk(whole, n, &f);

        if (n == ends[k]) {
            assert_int_equal(got, (int)k);
            k++;
        } else {
            assert_int_equal(got, AS_EPROTO);
        }
    }
    assert_int_equal(k, 5);
}

static void a_length_beyond_the_end_is_refused(void **state AS_UNUSED)
{
    struct as_pb_field f;

    assert_int_equal(WALK("\x0a\x04xyz"), AS_EPROTO);
    assert_int_equal(WALK("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"), AS_EPROTO);
}

static void packed_varints_are_counted(void **state AS_UNUSED)
{
    assert_int_equal(as_pb_count_varints(AS_STR("")), 0);
    assert_int_equal(as_pb_count_varints(AS_STR("\x01\x80\x01\xff\xff\x7f")), 3);
    assert_int_equal(as_pb_count_varints(AS_STR("\x01\x80")), AS_EPROTO);
}

static void written_varints_have_their_computed_size(void **state AS_UNUSED)
{
    for (int bit = 0; bit <= 64; bit++) {
        for (int less = 0; less < 2; less++) {
            uint64_t v = (bit == 64 ? 0 : (uint64_t)1 << bit) - (uint64_t)less, got = 0;
            uint8_t out[16];
            struct as_pb r = {out, as_pb_put_varint(out, v)};

            assert_int_equal(r.end - out, as_pb_varint_len(v));
            assert_int_equal(as_pb_varint(&r, &got), 0);
            assert_true(got == v && r.p == r.end);
        }
    }
}

static void strings_are_written_after_tag_and_length(void **state AS_UNUSED)
{
    uint8_t out[16];

    assert_int_equal(as_pb_put_str(out, 15, AS_STR("ab")) - out, 4);
    assert_memory_equal(out,
                        "\x7a\x02"
                        "ab",
                        4);
    assert_int_equal(as_pb_len_len(2), 4);
    assert_int_equal(as_pb_len_len(127), 129);
    assert_int_equal(as_pb_len_len(128), 131);
    assert_int_equal(as_pb_put_opt(out, 1, AS_STR("")) - out, 0);
    assert_int_equal(as_pb_opt_len(AS_STR("")), 0);
    assert_int_equal(as_pb_put_str(out, 1, AS_STR("")) - out, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wire_type_is_read),
        cmocka_unit_test(field_numbers),
        cmocka_unit_test(invalid_wire_types),
        cmocka_unit_test(a_group_is_one_field),
        cmocka_unit_test(malformed_groups),
        cmocka_unit_test(depth_of_groups),
        cmocka_unit_test(varint_limits),
        cmocka_unit_test(every_cut_is_seen),
        cmocka_unit_test(a_length_beyond_the_end_is_refused),
        cmocka_unit_test(packed_varints_are_counted),
        cmocka_unit_test(written_varints_have_their_computed_size),
        cmocka_unit_test(strings_are_written_after_tag_and_length),
    };

    return cmocka_run_group_tests_name("pb", tests, NULL, NULL);
}
