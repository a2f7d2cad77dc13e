/* TRAFFIC: which part of other versions' requests a deployment gets, within its limits. */
#include "frames.h"

#include <string.h>

static void traffic_round_trip(void **state AS_UNUSED)
{
    struct as_frame_traffic in = {.flags = AS_FRAME_CANARY,
                                  .canary = 12500,
                                  .mirror = AS_FRAME_SHARE,
                                  .fallback = AS_STR("stable")},
                            out;
    struct as_frame f;
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    as_frame_put_traffic(&q, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_TRAFFIC);
    assert_int_equal(f.flags, AS_FRAME_F_OPTIONAL); /* a receiver that does not know it skips it */
    assert_int_equal(f.n, 16 + 6);
    assert_int_equal(as_frame_handling_of(&f), AS_FRAME_KNOWN);
    assert_int_equal(as_frame_get_traffic(&f, &out), 0);
    assert_int_equal(out.flags, in.flags);
    assert_int_equal(out.canary, in.canary);
    assert_int_equal(out.mirror, in.mirror);
    assert_true(as_str_eq(out.fallback, in.fallback));
    for (f.n = 0; f.n < 16 + 6; f.n++) /* the text is whole */
        assert_int_equal(as_frame_get_traffic(&f, &out), AS_EPROTO);
    free(b.p);
    as_outq_fini(&q);
}

/* Four numbers, and a name of this many bytes after them. */
static int traffic_with(uint32_t flags, uint32_t canary, uint32_t mirror, uint32_t len, size_t n)
{
    uint8_t *payload = calloc(1, 16 + n);
    struct as_frame_traffic t;
    struct as_frame f;
    struct bytes b;
    int err;

    memset(payload + 16, 'x', n);
    set32(payload, flags);
    set32(payload + 4, canary);
    set32(payload + 8, mirror);
    set32(payload + 12, len);
    b = raw_frame(AS_FRAME_TRAFFIC, AS_FRAME_F_OPTIONAL, 0, payload, 16 + n);
    f = only_frame(b);
    err = as_frame_get_traffic(&f, &t);
    free(b.p);
    free(payload);
    return err;
}

static void traffic_has_bounds(void **state AS_UNUSED)
{
    assert_int_equal(traffic_with(0, 0, 0, 0, 0), 0);
    assert_int_equal(traffic_with(AS_FRAME_CANARY, 0, 0, 0, 0), 0);
    assert_int_equal(traffic_with(AS_FRAME_CANARY, AS_FRAME_SHARE, AS_FRAME_SHARE, 0, 0), 0);
    assert_int_equal(traffic_with(AS_FRAME_CANARY, AS_FRAME_SHARE + 1, 0, 0, 0), AS_EPROTO);
    assert_int_equal(traffic_with(0, 0, AS_FRAME_SHARE + 1, 0, 0), AS_EPROTO);
    assert_int_equal(traffic_with(0, 1, 0, 0, 0), AS_EPROTO); /* a part without the canary flag */
    assert_int_equal(traffic_with(2, 0, 0, 0, 0), AS_EPROTO); /* reserved */
    assert_int_equal(traffic_with(0, 0, 0, AS_FRAME_NAME, AS_FRAME_NAME), 0);
    assert_int_equal(traffic_with(0, 0, 0, AS_FRAME_NAME + 1, AS_FRAME_NAME + 1), AS_EPROTO);
    assert_int_equal(traffic_with(0, 0, 0, 4, 5), AS_EPROTO);
    assert_int_equal(traffic_with(0, 0, 0, 5, 4), AS_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic_round_trip),
        cmocka_unit_test(traffic_has_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
