/* Frame headers; the small frames are in t_frame_control.c, messages in t_frame_msg.c, REGISTER in
 * t_frame_register.c. */
#include "frames.h"

static void a_header_is_sixteen_bytes_little_endian(void **state AS_UNUSED)
{
    static const uint8_t want[64] = {8, 0, 0, 0, AS_FRAME_CANCEL,
                                     0, 0, 0, /* length, type, flags */
                                     3, 1, 0, 0, 0,
                                     0, 0, 0, /* stream 259 */
                                     4};
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    as_frame_put_cancel(&q, 259, 4);
    b = bytes_of(&q);
    assert_int_equal(b.n, 64);
    assert_memory_equal(b.p, want, 64);
    free(b.p);
    as_outq_fini(&q);
}

static void next_waits_for_header_payload_and_padding(void **state AS_UNUSED)
{
    struct bytes b = raw_frame(AS_FRAME_PING, 0, 0, "12345678", 8);
    struct as_frame f;

    for (size_t n = 0; n < 64; n++)
        assert_int_equal(as_frame_next(b.p, n, &f), 0);
    assert_int_equal(as_frame_next(b.p, 64, &f), 64);
    assert_int_equal(f.type, AS_FRAME_PING);
    assert_int_equal(f.n, 8);
    assert_memory_equal(f.p, "12345678", 8);
    free(b.p);
}

static void peek_needs_the_header_only(void **state AS_UNUSED)
{
    struct bytes b = raw_frame(AS_FRAME_DATA, AS_FRAME_F_END, 7, NULL, 0);
    struct as_frame f;

    set32(b.p, 49);
    for (size_t n = 0; n < AS_FRAME_HEADER; n++)
        assert_int_equal(as_frame_peek(b.p, n, &f), 0);
    assert_int_equal(as_frame_peek(b.p, AS_FRAME_HEADER, &f), 128);
    assert_int_equal(f.type, AS_FRAME_DATA);
    assert_int_equal(f.flags, AS_FRAME_F_END);
    assert_int_equal(f.stream, 7);
    assert_int_equal(f.n, 49);
    assert_ptr_equal(f.p, b.p + AS_FRAME_HEADER);
    set32(b.p, AS_FRAME_MAX + 1);
    assert_int_equal(as_frame_peek(b.p, AS_FRAME_HEADER, &f), AS_EPROTO);
    free(b.p);
}

static void a_payload_of_48_takes_64_bytes_and_of_49_128(void **state AS_UNUSED)
{
    struct bytes b = bytes_new(128);
    struct as_frame f;

    memset(b.p, 0, 128);
    b.p[0] = 48;
    assert_int_equal(as_frame_next(b.p, 128, &f), 64);
    b.p[0] = 49;
    assert_int_equal(as_frame_next(b.p, 127, &f), 0);
    assert_int_equal(as_frame_next(b.p, 128, &f), 128);
    free(b.p);
}

static void payload_limit(void **state AS_UNUSED)
{
    struct bytes b = bytes_new(AS_ALIGN(AS_FRAME_HEADER + AS_FRAME_MAX, 64));
    struct as_frame f;

    memset(b.p, 0, b.n);
    set32(b.p, AS_FRAME_MAX);
    assert_int_equal(as_frame_next(b.p, b.n, &f), (int64_t)b.n);
    set32(b.p, AS_FRAME_MAX + 1);
    assert_int_equal(as_frame_next(b.p, b.n, &f), AS_EPROTO);
    set32(b.p, UINT32_MAX);
    assert_int_equal(as_frame_next(b.p, 16, &f), AS_EPROTO);
    free(b.p);
}

static void reserved_header_bits_are_refused(void **state AS_UNUSED)
{
    for (int bit = 0; bit < 24; bit++) {
        struct bytes b = raw_frame(AS_FRAME_DATA, 0, 1, NULL, 0);
        bool known = bit == 0 || bit == 1 || bit == 7; /* END, MSG, OPTIONAL */
        struct as_frame f;

        b.p[5 + bit / 8] = (uint8_t)(1u << bit % 8);
        assert_int_equal(as_frame_next(b.p, b.n, &f), known ? 64 : AS_EPROTO);
        free(b.p);
    }
}

static void types_are_known_skipped_or_refused(void **state AS_UNUSED)
{
    static const uint8_t reserved[] = {
        0, AS_FRAME_UNREGISTER, AS_FRAME_STARTED, 31, AS_FRAME_ATTACH, AS_FRAME_DETACH, 255};
    unsigned known = 0;

    for (unsigned t = 0; t < 256; t++)
        known += as_frame_handling_of(&(struct as_frame){.type = (uint8_t)t}) == AS_FRAME_KNOWN;
    assert_int_equal(known, 26);
    for (size_t i = 0; i < sizeof(reserved); i++) {
        struct as_frame f = {.type = reserved[i]};

        assert_int_equal(as_frame_handling_of(&f), AS_FRAME_REFUSE);
        f.flags = AS_FRAME_F_OPTIONAL;
        assert_int_equal(as_frame_handling_of(&f), AS_FRAME_SKIP);
    }
}

static void types_have_names(void **state AS_UNUSED)
{
    assert_string_equal(as_frame_type_name(AS_FRAME_HELLO), "HELLO");
    assert_string_equal(as_frame_type_name(AS_FRAME_GOODBYE), "GOODBYE");
    assert_string_equal(as_frame_type_name(AS_FRAME_BATCH), "BATCH");
    assert_string_equal(as_frame_type_name(AS_FRAME_OPTIONS), "OPTIONS");
    assert_string_equal(as_frame_type_name(0), "?");
    assert_string_equal(as_frame_type_name(AS_FRAME_TRAFFIC), "TRAFFIC");
    assert_string_equal(as_frame_type_name(AS_FRAME_SERVICES), "SERVICES");
    assert_string_equal(as_frame_type_name(AS_FRAME_POLICY), "POLICY");
    assert_string_equal(as_frame_type_name(AS_FRAME_RESERVED), "RESERVED");
    assert_string_equal(as_frame_type_name(31), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_sixteen_bytes_little_endian),
        cmocka_unit_test(next_waits_for_header_payload_and_padding),
        cmocka_unit_test(peek_needs_the_header_only),
        cmocka_unit_test(a_payload_of_48_takes_64_bytes_and_of_49_128),
        cmocka_unit_test(payload_limit),
        cmocka_unit_test(reserved_header_bits_are_refused),
        cmocka_unit_test(types_are_known_skipped_or_refused),
        cmocka_unit_test(types_have_names),
    };

    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
