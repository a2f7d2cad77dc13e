/* ROUTER: how replicas of a deployment are chosen, within the limits. */
#include "frames.h"

#include "wire/frame/frame_router.h"

#include <string.h>

static struct as_frame_router full(void)
{
    struct as_frame_router r;

    memset(&r, 0, sizeof(r));
    memcpy(r.policy, "consistent_hash", 15);
    assert_true(as_frame_router_header(r.session_header, AS_STR("X_User-Id")));
    for (uint32_t key = 1; key < AS_FRAME_ROUTER_END; key++)
        assert_true(as_frame_router_set(&r, key, as_frame_router_ranges[key].max));
    return r;
}

static void router_round_trip(void **state AS_UNUSED)
{
    struct as_frame_router in = full(), out;
    struct as_frame f;
    struct as_outq q;
    struct bytes b;
    uint32_t n;

    assert_string_equal(in.session_header, "x-user-id");
    as_outq_init(&q);
    as_frame_put_router(&q, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_ROUTER);
    assert_int_equal(f.flags, AS_FRAME_F_OPTIONAL);
    assert_int_equal(as_frame_handling_of(&f), AS_FRAME_KNOWN);
    assert_string_equal(as_frame_type_name(AS_FRAME_ROUTER), "ROUTER");
    assert_int_equal(as_frame_get_router(&f, &out), 0);
    assert_true(as_frame_router_eq(&in, &out));
    out.value[AS_FRAME_ROUTER_BOUND]--;
    assert_false(as_frame_router_eq(&in, &out));
    out = in;
    out.policy[0] = 'x';
    assert_false(as_frame_router_eq(&in, &out));
    out = in;
    out.session_header[0] = 'y';
    assert_false(as_frame_router_eq(&in, &out));
    out = in;
    out.has &= ~(1u << AS_FRAME_ROUTER_BOUND);
    assert_false(as_frame_router_eq(&in, &out));
    assert_false(as_frame_router_is_empty(&out));
    n = f.n;
    for (f.n = 0; f.n < n; f.n++)
        assert_int_equal(as_frame_get_router(&f, &out), AS_EPROTO);
    free(b.p);
    as_outq_fini(&q);
}

static void nothing_is_a_router_too(void **state AS_UNUSED)
{
    struct as_frame_router in, out = full();
    struct as_frame f;
    struct as_outq q;
    struct bytes b;

    memset(&in, 0, sizeof(in));
    as_outq_init(&q);
    as_frame_put_router(&q, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.n, 16);
    assert_int_equal(as_frame_get_router(&f, &out), 0);
    assert_true(as_frame_router_is_empty(&out));
    free(b.p);
    as_outq_fini(&q);
}

static void values_are_within_their_ranges(void **state AS_UNUSED)
{
    struct as_frame_router r;

    memset(&r, 0, sizeof(r));
    for (uint32_t key = 1; key < AS_FRAME_ROUTER_END; key++) {
        const struct as_frame_router_range *range = &as_frame_router_ranges[key];

        assert_false(as_frame_router_set(&r, key, range->max + 1));
        assert_true(!range->min || !as_frame_router_set(&r, key, range->min - 1));
        assert_int_equal(r.has, 0);
    }
    for (uint32_t key = 1; key < AS_FRAME_ROUTER_END; key++)
        assert_true(as_frame_router_set(&r, key, as_frame_router_ranges[key].min));
}

static void names_of_headers_are_normalised(void **state AS_UNUSED)
{
    char name[AS_FRAME_ROUTER_HEADER + 1], text[AS_FRAME_ROUTER_HEADER + 2];

    memset(text, 'a', sizeof(text));
    assert_true(as_frame_router_header(name, (struct as_str){text, AS_FRAME_ROUTER_HEADER}));
    assert_false(as_frame_router_header(name, (struct as_str){text, AS_FRAME_ROUTER_HEADER + 1}));
    assert_false(as_frame_router_header(name, AS_STR("")));
    assert_false(as_frame_router_header(name, AS_STR("a b")));
    assert_false(as_frame_router_header(name, AS_STR("a:b")));
    assert_true(as_frame_router_header(name, AS_STR("A_b")));
    assert_string_equal(name, "a-b");
}

/* A frame with these numbers in front, and one entry. */
static int router_with(uint32_t policy, uint32_t header, uint32_t rows, uint32_t zero, uint32_t key,
                       uint32_t pad, uint64_t value, const char *texts)
{
    uint8_t payload[256] = {0};
    uint32_t head[] = {policy, header, rows, zero, key, pad};
    size_t n = 32 + strlen(texts);
    struct as_frame_router r;
    struct as_frame f;
    struct bytes b;
    int err;

    memcpy(payload, head, sizeof(head));
    memcpy(payload + 24, &value, 8);
    memcpy(payload + 32, texts, strlen(texts));
    b = raw_frame(AS_FRAME_ROUTER, AS_FRAME_F_OPTIONAL, 0, payload, n);
    f = only_frame(b);
    err = as_frame_get_router(&f, &r);
    free(b.p);
    return err;
}

static void malformed_routers_are_refused(void **state AS_UNUSED)
{
    assert_int_equal(router_with(5, 1, 1, 0, AS_FRAME_ROUTER_BOUND, 0, 125, "pow_2a"), 0);
    assert_int_equal(router_with(5, 1, 1, 0, 999, 0, 125, "pow_2a"), 0); /* a later version's */
    assert_int_equal(router_with(5, 1, 1, 0, AS_FRAME_ROUTER_BOUND, 0, 99, "pow_2a"), AS_EPROTO);
    assert_int_equal(router_with(5, 1, 1, 0, 0, 0, 125, "pow_2a"), AS_EPROTO);
    assert_int_equal(router_with(5, 1, 1, 0, AS_FRAME_ROUTER_BOUND, 1, 125, "pow_2a"), AS_EPROTO);
    assert_int_equal(router_with(5, 1, 1, 1, AS_FRAME_ROUTER_BOUND, 0, 125, "pow_2a"), AS_EPROTO);
    assert_int_equal(router_with(5, 1, 2, 0, AS_FRAME_ROUTER_BOUND, 0, 125, "pow_2a"), AS_EPROTO);
    assert_int_equal(router_with(5, 1, 1, 0, AS_FRAME_ROUTER_BOUND, 0, 125, "pow-2a"), AS_EPROTO);
    assert_int_equal(router_with(5, 1, 1, 0, AS_FRAME_ROUTER_BOUND, 0, 125, "pow_2:"), AS_EPROTO);
    assert_int_equal(router_with(UINT32_MAX, 7, 1, 0, 1, 0, 0, "pow_2a"), AS_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(router_round_trip),
        cmocka_unit_test(nothing_is_a_router_too),
        cmocka_unit_test(values_are_within_their_ranges),
        cmocka_unit_test(names_of_headers_are_normalised),
        cmocka_unit_test(malformed_routers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
