/* The worker library: calls that reserve a slot first. */
#include "call_pair.h"

static int setup(void **state)
{
    struct calls *c = as_xalloc(sizeof(*c));

    fake_init(&c->d);
    c->d.more = AS_CAP_CALLS | AS_CAP_RESERVE;
    calls_make(c);
    assert_int_equal(fake_connect(&c->d, c->w), 0);
    calls_expect_target(c);
    *state = c;
    calls_grant(c, 2, 1 << 20);
    calls_sync(c);
    return 0;
}

static struct as_worker_out *reserve(struct calls *c)
{
    struct as_body body = body_of("for routers");
    struct as_worker_open v = {
        .size = sizeof(v), .target = c->target, .body = &body, .reserve = true};
    struct as_worker_out *o;

    assert_int_equal(as_worker_open(c->w, &v, &o), 0);
    as_worker_flush(c->w);
    return o;
}

static int use(struct as_worker_out *o, const struct as_body *body, bool stream)
{
    struct as_worker_open v = {
        .size = sizeof(v), .body = body, .stream = stream, .window = stream ? 4 : 0};

    return as_worker_use_slot(o, &v);
}

static void grant_slot(struct calls *c, uint64_t stream)
{
    as_frame_put_reserved(&c->d.out, stream, AS_STR("a#B-1"));
    calls_sync(c);
}

static void a_slot_is_reserved_and_used(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = reserve(c);
    struct as_body body = body_of("question"), answer = body_of("answer");
    struct as_worker_out_msg m;

    assert_int_equal(fake_expect_call(&c->d, 2).flags, AS_CALL_F_RESERVE);
    assert_int_equal(use(o, &body, false), AS_EINVALID); /* it has none yet */
    grant_slot(c, 2);
    assert_int_equal(as_worker_out_wait(o, AS_NEVER), 0);
    assert_int_equal(as_worker_out_read(o, &m), 0);
    assert_null(m.body);
    assert_int_equal(m.n_meta, 1);
    assert_true(as_str_eq(m.meta[0].key, AS_STR("anyserve-replica")));
    assert_true(as_str_eq(m.meta[0].value, AS_STR("a#B-1")));
    assert_int_equal(as_worker_out_read(o, &m), AS_EAGAIN);
    assert_int_equal(use(o, &body, false), 0);
    assert_int_equal(use(o, &body, false), AS_EINVALID);
    as_worker_flush(c->w);
    assert_int_equal(fake_expect_call(&c->d, 2).flags, AS_CALL_F_USE);
    fake_answer(&c->d, 2, &answer, false);
    assert_int_equal(as_worker_out_wait(o, AS_NEVER), 0);
    assert_int_equal(as_worker_out_read(o, &m), 0);
    assert_true(body_is(m.body, "answer") && m.last);
    as_worker_out_free(o);
}

static void a_stream_with_a_large_body(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = reserve(c);
    char *large = calloc(1, 100000);
    struct as_body body = {.codec = AS_BODY_BYTES, .data = {large, 100000}};
    struct as_body one = body_of("one");
    struct as_worker_out_msg m;
    struct as_frame_call k;

    (void)fake_expect_call(&c->d, 2);
    grant_slot(c, 2);
    assert_int_equal(use(o, &body, true), 0); /* without reading whose it is */
    as_worker_flush(c->w);
    k = fake_expect_call(&c->d, 2);
    assert_int_equal(k.flags, AS_CALL_F_USE | AS_CALL_F_STREAM);
    assert_true(k.body_len > 100000);
    fake_expect(&c->d, AS_FRAME_DATA);
    fake_expect(&c->d, AS_FRAME_CREDIT);
    fake_answer(&c->d, 2, &one, true);
    assert_int_equal(as_worker_out_wait(o, AS_NEVER), 0);
    assert_int_equal(as_worker_out_read(o, &m), 0);
    assert_true(body_is(m.body, "one"));
    as_worker_out_free(o);
    fake_expect(&c->d, AS_FRAME_CANCEL);
    free(large);
}

static void what_is_not_used_is_given_back(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *a = reserve(c), *b = reserve(c);

    (void)fake_expect_call(&c->d, 2);
    (void)fake_expect_call(&c->d, 4);
    grant_slot(c, 2);
    as_worker_out_detach(a); /* nobody will use it */
    fake_expect(&c->d, AS_FRAME_CANCEL);
    assert_int_equal(c->d.f.stream, 2);
    as_worker_out_free(b);
    fake_expect(&c->d, AS_FRAME_CANCEL);
    assert_int_equal(c->d.f.stream, 4);
    grant_slot(c, 4); /* it was on the way: no error */
    fake_fail(&c->d, 2, AS_STATUS_CANCELLED, 0, "cancelled");
    fake_fail(&c->d, 4, AS_STATUS_CANCELLED, 0, "cancelled");
    calls_sync(c);
    assert_string_equal(as_worker_error(c->w), "");
}

static void a_slot_that_was_taken_back_is_not_used(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = reserve(c);
    struct as_body body = body_of("late");
    struct as_worker_out_msg m;

    (void)fake_expect_call(&c->d, 2);
    grant_slot(c, 2);
    fake_fail(&c->d, 2, AS_STATUS_UNAVAILABLE, 0, "not used in time");
    calls_sync(c);
    assert_int_equal(use(o, &body, false), 0);
    assert_int_equal(as_worker_out_read(o, &m), AS_EHANDLER);
    assert_int_equal(m.status, AS_STATUS_UNAVAILABLE);
    assert_int_equal(m.flags, 0);
    as_worker_out_free(o);
}

static void a_server_that_knows_none(void **state)
{
    struct calls *c = *state; /* calls_setup: without the capability */
    struct as_worker_out *o = reserve(c);
    struct as_worker_out_msg m;

    assert_int_equal(as_worker_out_read(o, &m), AS_EHANDLER);
    assert_int_equal(m.status, AS_STATUS_UNIMPLEMENTED);
    as_worker_out_free(o);
}

static void what_is_malformed_is_refused(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("x");
    struct as_worker_open v = {
        .size = sizeof(v), .target = c->target, .body = &body, .reserve = true, .stream = true};
    struct as_worker_out *o;

    assert_int_equal(as_worker_open(c->w, &v, &o), AS_EINVALID);
    o = reserve(c);
    (void)fake_expect_call(&c->d, 2);
    grant_slot(c, 2);
    v.body = NULL;
    assert_int_equal(as_worker_use_slot(o, &v), AS_EINVALID);
    as_frame_put_reserved(&c->d.out, 2, AS_STR("again"));
    fake_send(&c->d);
    (void)as_worker_poll(c->w);
    assert_string_equal(as_worker_error(c->w),
                        "the dispatcher sent a RESERVED that nothing waits for");
    as_worker_out_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_slot_is_reserved_and_used, setup, calls_teardown),
        cmocka_unit_test_setup_teardown(a_stream_with_a_large_body, setup, calls_teardown),
        cmocka_unit_test_setup_teardown(what_is_not_used_is_given_back, setup, calls_teardown),
        cmocka_unit_test_setup_teardown(a_slot_that_was_taken_back_is_not_used, setup,
                                        calls_teardown),
        cmocka_unit_test_setup_teardown(a_server_that_knows_none, calls_setup, calls_teardown),
        cmocka_unit_test_setup_teardown(what_is_malformed_is_refused, setup, calls_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
