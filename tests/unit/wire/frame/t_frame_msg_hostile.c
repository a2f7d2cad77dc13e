/* Messages of the link: what as_frame_get_msg refuses, and with which reason. */
#include "msg_case.h"

/* Changes `n` bytes at `offset` in the frame of a message with one FP32 [2,2] tensor, a parameter,
 * a header and an id; returns the reason of as_frame_get_msg. */
static const char *refused(size_t offset, uint64_t v, size_t n)
{
    struct as_msg in = {.id = AS_STR("id"),
                        .tensors = tensors,
                        .params = params,
                        .meta = meta,
                        .n_tensors = 1,
                        .n_params = 1,
                        .n_meta = 1};
    struct bytes b = encode(AS_FRAME_OPEN, &in, NULL);
    struct as_frame_msg m;
    const char *why = "";
    struct as_frame f;
    struct as_arena a;
    struct as_msg msg;
    int err;

    memcpy(b.p + offset, &v, n);
    assert_true(as_frame_next(b.p, b.n, &f) > 0);
    as_arena_init(&a, NULL, 0);
    err = as_frame_get_msg(&f, &a, &m, &msg, &why);
    assert_int_equal(err, *why ? AS_EPROTO : 0);
    as_arena_fini(&a);
    free(b.p);
    return why;
}

/* Offsets in that frame. */
enum { TENSOR = 64, SHAPE = 96, NAME = 112, PARAM = 120, META = 144, ID = 168, TABLE_LEN = 112 };

static void hostile_fixed_parts(void **state AS_UNUSED)
{
    static const char *const reserved = "message: reserved bits are set";
    static const char *const count = "message: a count is over its limit";
    static const char *const cut = "table: cut short";
    static const char *const len = "table: its length is wrong";
    static const char *const body = "body: its length is not what the frame holds";

    assert_string_equal(refused(16, 1, 1), "");
    assert_string_equal(refused(16, AS_FRAME_HTTP, 1),
                        "message: its kind is not served by this version");
    assert_string_equal(refused(18, 1, 2), reserved);
    assert_string_equal(refused(60, 1, 4), "parameter: unknown type"); /* there is none */
    assert_string_equal(refused(60, AS_FRAME_PARAMS, 4), count);
    assert_string_equal(refused(60, 4, 4), cut);
    assert_string_equal(refused(32, 17, 8), body);
    assert_string_equal(refused(32, 15, 8), body);
    assert_string_equal(refused(32, 0, 8), "message: bytes behind the table");
    assert_string_equal(refused(32, AS_FRAME_INLINE + 1, 8), "message: bytes behind the table");
    assert_string_equal(refused(32, UINT64_MAX, 8), "body: its length is out of range");
    assert_string_equal(refused(40, AS_FRAME_TENSORS + 1, 4), count);
    assert_string_equal(refused(44, AS_FRAME_PARAMS + 1, 4), count);
    assert_string_equal(refused(48, AS_FRAME_PARAMS + 1, 4), count);
    assert_string_equal(refused(40, AS_FRAME_TENSORS, 4), cut);
    assert_string_equal(refused(40, 4, 4), cut);
    assert_string_equal(refused(44, 6, 4), cut);
    assert_string_equal(refused(48, 9, 4), cut);
    assert_string_equal(refused(40, 0, 4), "body: its length is not that of the tensors");
    assert_string_equal(refused(52, 9, 4), "table: its length is not that of its entries");
    assert_string_equal(refused(52, UINT32_MAX, 4), "table: its length is not that of its entries");
    assert_string_equal(refused(56, AS_FRAME_TABLE + 8, 4), len);
    assert_string_equal(refused(56, UINT32_MAX, 4), len);
    assert_string_equal(refused(56, TABLE_LEN + 1, 4), len);
    assert_string_equal(refused(56, 256, 4), len);
    assert_string_equal(refused(0, 47, 4), "message: cut short");
}

static void hostile_tensor_records(void **state AS_UNUSED)
{
    static const char *const name = "tensor: its name is empty or not UTF-8";
    static const char *const place = "tensor: its place is not the body, or reserved bits are set";
    static const char *const size = "tensor: its length does not fit shape and datatype";
    static const char *const offset = "tensor: its offset is not the next multiple of 64";

    assert_string_equal(refused(TENSOR, 0, 2), name);
    assert_string_equal(refused(NAME, 0xff, 1), name);
    assert_string_equal(refused(TENSOR, UINT16_MAX, 2), "table: cut short");
    assert_string_equal(refused(TENSOR + 2, 0, 1), "tensor: unknown datatype");
    assert_string_equal(refused(TENSOR + 2, AS_DT_COUNT, 1), "tensor: unknown datatype");
    assert_string_equal(refused(TENSOR + 3, AS_MAX_DIMS, 1), "table: cut short");
    assert_string_equal(refused(TENSOR + 3, AS_MAX_DIMS + 1, 1), "tensor: too many dimensions");
    for (size_t at = 4; at < 16; at++)
        assert_string_equal(refused(TENSOR + at, 1, 1), place);
    assert_string_equal(refused(TENSOR + 16, 64, 8), offset);
    assert_string_equal(refused(TENSOR + 16, 8, 8), offset);
    assert_string_equal(refused(TENSOR + 24, 15, 8), size);
    assert_string_equal(refused(TENSOR + 24, UINT64_MAX, 8), size);
    assert_string_equal(refused(SHAPE, 3, 8), size);
    assert_string_equal(refused(SHAPE, 0, 8), size);
    assert_string_equal(refused(SHAPE, UINT64_MAX, 8), "tensor: bad shape");
    assert_string_equal(refused(SHAPE, (uint64_t)1 << 62, 8), "tensor: bad shape");
    assert_string_equal(refused(TENSOR + 2, AS_DT_BYTES, 1), ""); /* 16 bytes: 4 lengths */
    assert_string_equal(refused(TENSOR + 2, AS_DT_FP64, 1), size);
}

static void hostile_parameters_and_metadata(void **state AS_UNUSED)
{
    static const char *const value = "parameter: its value does not fit its type";

    assert_string_equal(refused(PARAM + 2, 0, 1), "parameter: unknown type");
    assert_string_equal(refused(PARAM + 2, 6, 1), "parameter: unknown type");
    assert_string_equal(refused(PARAM + 3, 1, 1), "parameter: unknown type");
    assert_string_equal(refused(PARAM + 8, 2, 8), value);
    assert_string_equal(refused(PARAM + 4, 1, 4), value);
    assert_string_equal(refused(PARAM + 2, AS_PARAM_STRING, 1), value); /* with a number in it */
    assert_string_equal(refused(PARAM + 2, AS_PARAM_UINT64, 1), "");
    assert_string_equal(refused(PARAM, UINT16_MAX, 2), "table: cut short");
    assert_string_equal(refused(PARAM + 16, 0xc0, 1), "parameter: name or text is not UTF-8");
    assert_string_equal(refused(META, UINT32_MAX, 4), "table: cut short");
    assert_string_equal(refused(META + 4, UINT32_MAX, 4), "table: cut short");
    assert_string_equal(refused(META + 8, 0xff, 1), ""); /* metadata is bytes */
    assert_string_equal(refused(ID, 0xff, 1), "id: not UTF-8");
}

static void a_name_given_twice_is_refused(void **state AS_UNUSED)
{
    struct as_tensor t[2] = {tensors[0], tensors[0]};
    struct as_msg in = {.tensors = t, .n_tensors = 2}, msg;
    struct bytes b = encode(AS_FRAME_DATA, &in, NULL);
    struct as_frame f = only_frame(b);
    struct as_frame_msg m;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), AS_EPROTO);
    assert_string_equal(why, "tensor: a name is given twice");
    as_arena_fini(&a);
    free(b.p);
}

static void only_messages_are_decoded(void **state AS_UNUSED)
{
    struct bytes b = encode(AS_FRAME_OPEN, &whole, NULL);
    struct as_frame f = only_frame(b);
    struct as_frame_msg m;
    struct as_arena a;
    struct as_msg msg;
    const char *why;

    as_arena_init(&a, NULL, 0);
    f.type = AS_FRAME_DATA; /* without MSG */
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), AS_EPROTO);
    assert_string_equal(why, "not a message");
    f.flags |= AS_FRAME_F_MSG; /* only OPEN has a kind and a target */
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), AS_EPROTO);
    assert_string_equal(why, "message: its kind is not served by this version");
    memset(b.p + 16, 0, 8);
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), 0);
    assert_int_equal(msg.id.n, whole.id.n); /* an input of a stream has its own id */
    f.type = AS_FRAME_HELLO;
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), AS_EPROTO);
    as_arena_fini(&a);
    free(b.p);
}

static void no_end_before_the_body(void **state AS_UNUSED)
{
    static uint8_t data[AS_FRAME_INLINE + 1];
    int64_t shape[] = {AS_FRAME_INLINE + 1};
    struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, shape, data, sizeof(data)};
    struct as_msg in = {.tensors = &t, .n_tensors = 1}, msg;
    struct bytes b = encode(AS_FRAME_OPEN, &in, NULL);
    struct as_frame_msg m;
    struct as_frame f;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_true(as_frame_next(b.p, b.n, &f) > 0);
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), 0);
    assert_int_equal(m.body_len, sizeof(data));
    assert_null(m.body);
    assert_ptr_equal(msg.tensors[0].data, NULL); /* the offset, until as_frame_msg_set_body */
    f.flags = AS_FRAME_F_END;
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), AS_EPROTO);
    assert_string_equal(why, "message: ends before its body");
    as_arena_fini(&a);
    free(b.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_fixed_parts),
        cmocka_unit_test(hostile_tensor_records),
        cmocka_unit_test(hostile_parameters_and_metadata),
        cmocka_unit_test(a_name_given_twice_is_refused),
        cmocka_unit_test(only_messages_are_decoded),
        cmocka_unit_test(no_end_before_the_body),
    };

    return cmocka_run_group_tests_name("frame_msg_hostile", tests, NULL, NULL);
}
