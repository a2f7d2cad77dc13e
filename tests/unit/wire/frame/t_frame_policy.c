/* POLICY: what the dispatcher and a policy process say to each other, within its limits. */
#include "base/buf.h"
#include "base/err.h"
#include "wire/frame/frame_policy.h"

#include "frames.h"

#include <string.h>

static char bytes[AS_POLICY_FACTS + 1];

/* The first n bytes of a text. */
static struct as_str text(size_t n)
{
    memset(bytes, 'x', sizeof(bytes));
    return (struct as_str){bytes, n};
}

/* The only record of a payload. */
static struct as_policy_record only(const struct as_buf *b, enum as_policy_kind kind)
{
    struct as_str rest = as_buf_slice(b);
    struct as_policy_record r;

    assert_int_equal(rest.n % 8, 0);
    assert_int_equal(as_policy_next(&rest, &r), 1);
    assert_int_equal(r.kind, kind);
    assert_int_equal(as_policy_next(&rest, &r), 0);
    return r;
}

static void replica_round_trip(void **state AS_UNUSED)
{
    struct as_policy_replica in = {.number = 7,
                                   .max_ongoing = 5,
                                   .ongoing = 2,
                                   .name = STATIC_STR("app#D-1"),
                                   .node = STATIC_STR("n"),
                                   .zone = STATIC_STR("z"),
                                   .has_models = true,
                                   .models = STATIC_STR("[\"a\"]"),
                                   .has_stats = true,
                                   .stats = STATIC_STR("{\"hits\": 1}")},
                             out;
    struct as_buf b = {0};

    as_policy_put_replica(&b, &in);
    assert_int_equal(as_policy_get_replica(only(&b, AS_POLICY_REPLICA).body, &out), 0);
    assert_int_equal(out.number, 7);
    assert_int_equal(out.max_ongoing, 5);
    assert_int_equal(out.ongoing, 2);
    assert_true(out.has_models && out.has_stats);
    assert_true(as_str_eq(out.name, in.name) && as_str_eq(out.node, in.node));
    assert_true(as_str_eq(out.zone, in.zone) && as_str_eq(out.models, in.models));
    assert_true(as_str_eq(out.stats, in.stats));
    b.n = 0;
    in.has_models = in.has_stats = false; /* as they were */
    as_policy_put_replica(&b, &in);
    assert_int_equal(as_policy_get_replica(only(&b, AS_POLICY_REPLICA).body, &out), 0);
    assert_true(!out.has_models && !out.has_stats && !out.models.n && !out.stats.n);
    as_buf_fini(&b);
}

static void replica_limits(void **state AS_UNUSED)
{
    struct as_policy_replica in = {.name = text(AS_POLICY_NAME), .has_stats = true}, out;
    struct as_policy_record r;
    struct as_buf b = {0};
    uint8_t *p;

    in.stats = text(AS_POLICY_FACTS);
    as_policy_put_replica(&b, &in);
    r = only(&b, AS_POLICY_REPLICA);
    assert_int_equal(as_policy_get_replica(r.body, &out), 0);
    p = (uint8_t *)(uintptr_t)r.body.p;
    p[24]++; /* one byte of statistics more than the limit, and than there are */
    assert_int_equal(as_policy_get_replica((struct as_str){r.body.p, r.body.n + 1}, &out),
                     AS_EPROTO);
    p[24]--;
    p[12]++; /* a name of 257 bytes */
    assert_int_equal(as_policy_get_replica((struct as_str){r.body.p, r.body.n + 1}, &out),
                     AS_EPROTO);
    p[12]--;
    p[18] = 0; /* statistics without the flag */
    assert_int_equal(as_policy_get_replica(r.body, &out), AS_EPROTO);
    p[18] = 4; /* an unknown flag */
    assert_int_equal(as_policy_get_replica(r.body, &out), AS_EPROTO);
    p[18] = 2;
    assert_int_equal(as_policy_get_replica((struct as_str){r.body.p, r.body.n - 1}, &out),
                     AS_EPROTO);
    assert_int_equal(as_policy_get_replica((struct as_str){r.body.p, 31}, &out), AS_EPROTO);
    p[12] = p[13] = 0; /* no name */
    assert_int_equal(as_policy_get_replica(r.body, &out), AS_EPROTO);
    as_buf_fini(&b);
}

static void counts(void **state AS_UNUSED)
{
    static struct as_policy_count in[AS_POLICY_COUNTS];
    struct as_policy_record r;
    struct as_buf b = {0};
    uint32_t n;

    for (uint32_t i = 0; i < AS_POLICY_COUNTS; i++)
        in[i] = (struct as_policy_count){i, 2 * i};
    as_policy_put_ongoing(&b, in, AS_POLICY_COUNTS);
    r = only(&b, AS_POLICY_ONGOING);
    assert_int_equal(as_policy_get_ongoing(r.body, &n), 0);
    assert_int_equal(n, AS_POLICY_COUNTS);
    assert_int_equal(as_policy_count_at(r.body, 3).number, 3);
    assert_int_equal(as_policy_count_at(r.body, 3).ongoing, 6);
    assert_int_equal(as_policy_get_ongoing((struct as_str){r.body.p, r.body.n + 8}, &n), AS_EPROTO);
    assert_int_equal(as_policy_get_ongoing((struct as_str){r.body.p, 7}, &n), AS_EPROTO);
    assert_int_equal(as_policy_get_ongoing(AS_STR(""), &n), AS_EPROTO);
    as_buf_fini(&b);
}

static void route_round_trip(void **state AS_UNUSED)
{
    struct as_policy_route in = {.id = 1ull << 40,
                                 .before = 1ull << 39,
                                 .created = 3,
                                 .kind = AS_FRAME_CALL,
                                 .method = STATIC_STR("m"),
                                 .model_id = STATIC_STR("model"),
                                 .session_id = STATIC_STR("session"),
                                 .request_id = STATIC_STR("id"),
                                 .body_len = 1000000,
                                 .body = STATIC_STR("body")},
                           out;
    struct as_buf b = {0};

    as_policy_put_route(&b, &in);
    assert_int_equal(as_policy_get_route(only(&b, AS_POLICY_ROUTE).body, &out), 0);
    assert_true(out.id == in.id && out.before == in.before && out.created == 3 &&
                out.body_len == 1000000);
    assert_int_equal(out.kind, AS_FRAME_CALL);
    assert_true(as_str_eq(out.method, in.method) && as_str_eq(out.model_id, in.model_id));
    assert_true(as_str_eq(out.session_id, in.session_id));
    assert_true(as_str_eq(out.request_id, in.request_id) && as_str_eq(out.body, in.body));
    as_buf_fini(&b);
}

static void route_limits(void **state AS_UNUSED)
{
    struct as_policy_route in = {.method = text(AS_POLICY_TEXT), .body_len = AS_POLICY_BODY_FIRST},
                           out;
    struct as_policy_record r;
    struct as_buf b = {0};
    uint8_t *p;

    in.body = text(AS_POLICY_BODY_FIRST);
    as_policy_put_route(&b, &in);
    r = only(&b, AS_POLICY_ROUTE);
    assert_int_equal(as_policy_get_route(r.body, &out), 0);
    p = (uint8_t *)(uintptr_t)r.body.p;
    p[16]--; /* more of the body than there is */
    p[17]--;
    p[18]--;
    assert_int_equal(as_policy_get_route(r.body, &out), AS_EPROTO);
    p[16] = 1; /* enough */
    p[18] = 1;
    p[24]++; /* but more than the limit */
    assert_int_equal(as_policy_get_route((struct as_str){r.body.p, r.body.n + 1}, &out), AS_EPROTO);
    p[24]--;
    p[32]++; /* a method of 1,025 bytes */
    assert_int_equal(as_policy_get_route((struct as_str){r.body.p, r.body.n + 1}, &out), AS_EPROTO);
    p[32]--;
    p[29] = 1; /* a reserved byte */
    assert_int_equal(as_policy_get_route(r.body, &out), AS_EPROTO);
    assert_int_equal(as_policy_get_route((struct as_str){r.body.p, 47}, &out), AS_EPROTO);
    as_buf_fini(&b);
}

static void small_records(void **state AS_UNUSED)
{
    struct as_policy_body body = {5, 65536, AS_POLICY_BODY_F_GONE, STATIC_STR("abc")}, body_out;
    struct as_policy_event e = {9, 4}, event_out;
    struct as_policy_ready ready = {AS_POLICY_WANTS_ROUTED | AS_POLICY_WANTS_COMPLETED}, ready_out;
    struct as_policy_record r;
    struct as_buf b = {0};

    as_policy_put_body(&b, &body);
    r = only(&b, AS_POLICY_BODY);
    assert_int_equal(as_policy_get_body(r.body, &body_out), 0);
    assert_true(body_out.id == 5 && body_out.offset == 65536 && body_out.flags == 1);
    assert_true(as_str_eq(body_out.bytes, body.bytes));
    ((uint8_t *)(uintptr_t)r.body.p)[16] = 2;
    assert_int_equal(as_policy_get_body(r.body, &body_out), AS_EPROTO);
    assert_int_equal(as_policy_get_body((struct as_str){r.body.p, 23}, &body_out), AS_EPROTO);

    b.n = 0;
    as_policy_put_event(&b, AS_POLICY_ROUTED, &e);
    r = only(&b, AS_POLICY_ROUTED);
    assert_int_equal(as_policy_get_event(r.body, &event_out), 0);
    assert_true(event_out.id == 9 && event_out.number == 4);
    assert_int_equal(as_policy_get_event((struct as_str){r.body.p, 15}, &event_out), AS_EPROTO);

    b.n = 0;
    as_policy_put_ready(&b, &ready);
    r = only(&b, AS_POLICY_READY);
    assert_int_equal(as_policy_get_ready(r.body, &ready_out), 0);
    assert_int_equal(ready_out.wants, 3);
    ((uint8_t *)(uintptr_t)r.body.p)[0] = 4;
    assert_int_equal(as_policy_get_ready(r.body, &ready_out), AS_EPROTO);
    as_buf_fini(&b);
}

static struct as_policy_choice choice_of(uint32_t n)
{
    struct as_policy_choice c = {.id = 77, .n = n};

    for (uint32_t i = 0; i < n; i++) {
        c.at[i].number = 10 + i;
        c.at[i].rank = i / 2;
    }
    return c;
}

static void choices(void **state AS_UNUSED)
{
    struct as_policy_choice in = choice_of(AS_POLICY_CHOICES), out;
    struct as_policy_record r;
    struct as_buf b = {0};
    uint8_t *p;

    as_policy_put_choice(&b, &in);
    r = only(&b, AS_POLICY_CHOICE);
    assert_int_equal(as_policy_get_choice(r.body, &out), 0);
    assert_true(out.id == 77 && out.n == AS_POLICY_CHOICES && out.reason == AS_POLICY_CHOSEN);
    assert_true(out.at[7].number == 17 && out.at[7].rank == 3);
    p = (uint8_t *)(uintptr_t)r.body.p;
    p[16 + 7 * 8 + 4] = 2; /* ranks fall */
    assert_int_equal(as_policy_get_choice(r.body, &out), AS_EPROTO);
    p[16 + 7 * 8 + 4] = 3;
    p[12] = AS_POLICY_CHOICES + 1;
    assert_int_equal(as_policy_get_choice((struct as_str){r.body.p, r.body.n + 8}, &out),
                     AS_EPROTO);
    p[12] = AS_POLICY_CHOICES;
    p[8] = AS_POLICY_RAISED; /* a reason, and replicas */
    assert_int_equal(as_policy_get_choice(r.body, &out), AS_EPROTO);
    p[8] = AS_POLICY_REASONS;
    assert_int_equal(as_policy_get_choice(r.body, &out), AS_EPROTO);
    b.n = 0;
    in = choice_of(0);
    in.reason = AS_POLICY_RAISED;
    as_policy_put_choice(&b, &in);
    r = only(&b, AS_POLICY_CHOICE);
    assert_int_equal(as_policy_get_choice(r.body, &out), 0);
    ((uint8_t *)(uintptr_t)r.body.p)[8] = AS_POLICY_CHOSEN; /* no replica, and no reason */
    assert_int_equal(as_policy_get_choice(r.body, &out), AS_EPROTO);
    as_buf_fini(&b);
}

static void rows_of_records(void **state AS_UNUSED)
{
    struct as_policy_event e = {1, 2};
    struct as_policy_record r;
    struct as_buf b = {0};
    struct as_str rest;

    as_policy_put_event(&b, AS_POLICY_ROUTED, &e);
    as_policy_put_event(&b, AS_POLICY_COMPLETED, &e);
    rest = as_buf_slice(&b);
    assert_int_equal(as_policy_next(&rest, &r), 1);
    assert_int_equal(r.kind, AS_POLICY_ROUTED);
    assert_int_equal(as_policy_next(&rest, &r), 1);
    assert_int_equal(r.kind, AS_POLICY_COMPLETED);
    assert_int_equal(as_policy_next(&rest, &r), 0);
    rest = (struct as_str){(const char *)b.p, 7};
    assert_int_equal(as_policy_next(&rest, &r), AS_EPROTO);
    rest = (struct as_str){(const char *)b.p, 23}; /* cut */
    assert_int_equal(as_policy_next(&rest, &r), AS_EPROTO);
    b.p[0] = 0; /* kind 0 */
    rest = as_buf_slice(&b);
    assert_int_equal(as_policy_next(&rest, &r), AS_EPROTO);
    b.p[0] = 200; /* of a later version: skipped by the reader */
    rest = as_buf_slice(&b);
    assert_int_equal(as_policy_next(&rest, &r), 1);
    assert_int_equal(r.kind, 200);
    as_buf_fini(&b);
}

static void frame(void **state AS_UNUSED)
{
    struct as_policy_ready ready = {0};
    struct as_buf b = {0};
    struct as_outq q;
    struct as_frame f;
    struct bytes out;

    as_policy_put_ready(&b, &ready);
    as_outq_init(&q);
    as_frame_put_policy(&q, as_buf_slice(&b));
    out = bytes_of(&q);
    f = only_frame(out);
    as_outq_fini(&q);
    assert_int_equal(f.type, AS_FRAME_POLICY);
    assert_int_equal(f.flags, AS_FRAME_F_OPTIONAL); /* a receiver that does not know it skips it */
    assert_int_equal(as_frame_handling_of(&f), AS_FRAME_KNOWN);
    assert_int_equal(f.n, b.n);
    assert_string_equal(as_frame_type_name(f.type), "POLICY");
    free(out.p);
    as_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replica_round_trip),
        cmocka_unit_test(replica_limits),
        cmocka_unit_test(counts),
        cmocka_unit_test(route_round_trip),
        cmocka_unit_test(route_limits),
        cmocka_unit_test(small_records),
        cmocka_unit_test(choices),
        cmocka_unit_test(rows_of_records),
        cmocka_unit_test(frame),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
