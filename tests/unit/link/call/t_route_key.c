/* Which model and session a request is for, wherever it says so. */
#include "unit.h"

#include "link/call/route_key.h"

#include <stdlib.h>
#include <string.h>

static struct as_route_ids ids_of(enum as_frame_kind kind, const struct as_meta *meta, uint32_t n,
                                  const char *header)
{
    struct as_frame_http_open http = {.meta = meta, .n_meta = n};
    struct as_payload p = {.kind = kind};

    if (kind == AS_FRAME_HTTP) {
        p.http = &http;
    } else {
        p.msg.meta = meta;
        p.msg.n_meta = n;
    }
    return as_route_find_ids(&p, as_str_of(header));
}

#define META(k, v)                                                                                 \
    {                                                                                              \
        .key = AS_STR(k), .value = AS_STR(v)                                                       \
    }
#define IDS(kind, header, meta) ids_of(kind, meta, AS_COUNT(meta), header)

static void assert_ids(struct as_route_ids ids, const char *model, const char *session)
{
    assert_true(as_str_eq(ids.model, as_str_of(model)));
    assert_true(as_str_eq(ids.session, as_str_of(session)));
}

static void http_has_fields(void **state AS_UNUSED)
{
    const struct as_meta hyphens[] = {META("serve-multiplexed-model-id", "m"),
                                      META("x-session-id", "s")};
    const struct as_meta underscores[] = {META("serve_multiplexed_model_id", "a"),
                                          META("x_session-id", "s"),
                                          META("serve_multiplexed_model_id", "b")};
    const struct as_meta others[] = {META("multiplexed_model_id", "m"),
                                     META("serve_session_id", "s"), META("x-session-ix", "s")};
    const struct as_meta named[] = {META("x-session-id", "s"), META("x-user_id", "u")};

    assert_ids(IDS(AS_FRAME_HTTP, "x-session-id", hyphens), "m", "s");
    assert_ids(IDS(AS_FRAME_HTTP, "x-session-id", underscores), "b", "s");
    assert_ids(IDS(AS_FRAME_HTTP, "x-session-id", others), "", "");
    assert_ids(IDS(AS_FRAME_HTTP, "x-user-id", named), "", "u");
    assert_ids(ids_of(AS_FRAME_HTTP, NULL, 0, "x-session-id"), "", "");
}

static void calls_have_records(void **state AS_UNUSED)
{
    const struct as_meta handle[] = {META("serve_multiplexed_model_id", "m"),
                                     META("serve_session_id", "s")};
    const struct as_meta http_names[] = {META("multiplexed_model_id", "m"),
                                         META("x-session-id", "s")};
    const struct as_meta service[] = {
        META("anyserve-grpc", "/a.B/C\n1.2.3.4:5\nx-other\nx-session-id\nx_session_id\ns1")};
    const struct as_meta both[] = {META("anyserve-grpc", "/a.B/C\n1.2.3.4:5\nx-session-id\ns1\n"),
                                   META("serve_session_id", "s2")};
    const struct as_meta short_block[] = {META("anyserve-grpc", "/a.B/C")};

    assert_ids(IDS(AS_FRAME_CALL, "x-session-id", handle), "m", "s");
    assert_ids(IDS(AS_FRAME_CALL, "x-session-id", http_names), "", "");
    assert_ids(IDS(AS_FRAME_CALL, "x-session-id", service), "", "s1");
    assert_ids(IDS(AS_FRAME_CALL, "x-session-id", both), "", "s2");
    assert_ids(IDS(AS_FRAME_CALL, "x-session-id", short_block), "", "");
}

static void tensors_have_metadata(void **state AS_UNUSED)
{
    const struct as_meta rest[] = {META("serve_multiplexed_model_id", "m"),
                                   META("x-session-id", "s")};
    const struct as_meta grpc[] = {META("multiplexed_model_id", "m"), META("x_session_id", "s")};

    assert_ids(IDS(AS_FRAME_TENSOR, "x-session-id", rest), "m", "s");
    assert_ids(IDS(AS_FRAME_TENSOR, "x-session-id", grpc), "m", "s");
}

static void keys_are_seeded_and_not_zero(void **state AS_UNUSED)
{
    struct as_str long_id = {calloc(1, 65536), 65536};

    assert_true(as_route_key(AS_STR("a"), 1) == as_route_key(AS_STR("a"), 1));
    assert_true(as_route_key(AS_STR("a"), 1) != as_route_key(AS_STR("a"), 2));
    assert_true(as_route_key(AS_STR("a"), 1) != as_route_key(AS_STR("b"), 1));
    assert_true(as_route_key(long_id, 1) != 0);
    free((char *)(uintptr_t)long_id.p);
}

static void reports_become_keys(void **state AS_UNUSED)
{
    uint64_t *keys;
    uint32_t n;

    assert_int_equal(as_route_read_models(AS_STR("[]"), 7, &keys, &n), 0);
    assert_int_equal(n, 0);
    free(keys);
    assert_int_equal(as_route_read_models(AS_STR(""), 7, &keys, &n), 0);
    assert_int_equal(n, 0);
    free(keys);
    assert_int_equal(
        as_route_read_models(AS_STR("[\"a\", \"\", 3, [\"x\"], null, \"\\u00e9\"]"), 7, &keys, &n),
        0);
    assert_int_equal(n, 2);
    assert_true(keys[0] == as_route_key(AS_STR("a"), 7));
    assert_true(keys[1] == as_route_key(AS_STR("\xc3\xa9"), 7));
    free(keys);
    assert_int_equal(as_route_read_models(AS_STR("[\"a\",\"b\",\"c\"]"), 7, &keys, &n), 0);
    assert_int_equal(n, 3);
    free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_has_fields),       cmocka_unit_test(calls_have_records),
        cmocka_unit_test(tensors_have_metadata), cmocka_unit_test(keys_are_seeded_and_not_zero),
        cmocka_unit_test(reports_become_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
