/* Calls that reserve a slot first: from the OPEN with RESERVE to the one that uses the slot. */
#include "call_world.h"

#define SLOT_CAPS (CALL_CAPS | AS_CAP_RESERVE)

static struct hand *caller, *callee;

static void begin_with(struct as_fleet_conf conf)
{
    begin_calls(conf);
    callee = serve(1, "d", "Callee");
    caller = greet_as(0, "c", SLOT_CAPS);
    say_register(caller, "Caller");
    expect(caller, AS_FRAME_REGISTERED);
    say_target(caller, 0, "Callee");
    say_target(caller, 1, "Caller");
}

static void begin_pair(void)
{
    begin_with(calls_conf());
}

static void say(uint64_t stream, uint32_t flags, uint32_t target, const char *text, size_t n)
{
    struct as_body body = bytes_body(text, n);

    say_open_of(caller, stream,
                &(struct as_frame_call){.flags = flags, .target = target, .priority = 1}, &body);
}

static void reserve(uint64_t stream)
{
    say(stream, AS_CALL_F_RESERVE, 0, "for routers", 11);
}

static void expect_slot(uint64_t stream)
{
    struct as_str replica;

    expect(caller, AS_FRAME_RESERVED);
    assert_int_equal(caller->f.stream, stream);
    assert_int_equal(as_frame_get_reserved(&caller->f, &replica), 0);
    assert_true(as_str_eq(replica, AS_STR("a#Callee-0")));
}

static const struct as_deployment *callees(void)
{
    return as_fleet_find_deployment(w.fleet, AS_STR("a#Callee"))->core;
}

static void a_slot_is_reserved_and_used(void **state AS_UNUSED)
{
    begin_pair();
    reserve(2);
    expect_slot(2);
    assert_int_equal(as_deployment_ongoing(callees()), 1);
    assert_int_equal(as_deployment_reserved(callees()), 1);
    say(2, AS_CALL_F_USE, 0, "question", 8);
    expect(callee, AS_FRAME_OPEN);
    assert_text(callee, false, "question");
    assert_int_equal(as_deployment_reserved(callees()), 0);
    say_answer(callee, callee->f.stream, "answer", false);
    expect(caller, AS_FRAME_DATA);
    assert_int_equal(caller->f.stream, 2);
    assert_text(caller, true, "answer");
    assert_int_equal(as_caller_open_calls(link_of("c")), 0);
    assert_int_equal(as_deployment_ongoing(callees()), 0);
    end();
}

static void a_stream_and_a_large_body_use_one(void **state AS_UNUSED)
{
    struct as_frame_credit credit = {.messages = 4, .bytes = 1 << 20};
    char *large = calloc(1, 300000);

    begin_pair();
    reserve(2);
    expect_slot(2);
    memset(large, 'x', 300000);
    say(2, AS_CALL_F_USE | AS_CALL_F_STREAM, 0, large, 300000);
    as_frame_put_credit(&caller->out, 2, &credit);
    expect(callee, AS_FRAME_OPEN);
    say_answer(callee, callee->f.stream, "one", true);
    say_answer(callee, callee->f.stream, "two", false);
    expect(caller, AS_FRAME_DATA);
    assert_text(caller, true, "one");
    expect(caller, AS_FRAME_DATA);
    assert_text(caller, true, "two");
    expect(caller, AS_FRAME_END);
    assert_int_equal(as_caller_open_calls(link_of("c")), 0);
    free(large);
    end();
}

static void cancel_gives_it_back(void **state AS_UNUSED)
{
    begin_pair();
    reserve(2);
    reserve(4);
    reserve(6); /* the third waits for a slot */
    expect_slot(2);
    expect_slot(4);
    as_frame_put_cancel(&caller->out, 2, AS_STATUS_CANCELLED);
    expect_slot(6);
    as_frame_put_cancel(&caller->out, 4, AS_STATUS_CANCELLED);
    as_frame_put_cancel(&caller->out, 6, AS_STATUS_CANCELLED);
    UNTIL(!as_deployment_ongoing(callees()));
    UNTIL(!as_caller_open_calls(link_of("c")));
    end();
}

static void the_end_of_the_link_gives_all_back(void **state AS_UNUSED)
{
    begin_pair();
    reserve(2);
    reserve(4);
    reserve(6);
    expect_slot(2);
    expect_slot(4);
    say(4, AS_CALL_F_USE, 0, "question", 8);
    expect(callee, AS_FRAME_OPEN);
    hand_close(caller);
    expect(callee, AS_FRAME_CANCEL); /* of the one that was sent */
    UNTIL(as_deployment_ongoing(callees()) == 1 && !as_deployment_queued(callees()) &&
          !as_deployment_reserved(callees()));
    end();
}

static void the_limit_ends_it_even_in_the_middle_of_a_body(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = calls_conf();
    struct as_frame_call c = {.flags = AS_CALL_F_USE, .priority = 1, .body_len = 400000};
    uint8_t *bytes = calloc(1, 400000);
    struct as_outq all;
    struct bytes b;
    struct as_frame_error e;

    conf.deployment.reserve_time = 20 * AS_MS;
    begin_with(conf);
    reserve(2);
    expect_slot(2);
    bytes[0] = AS_BODY_BYTES;
    set64(bytes + 8, 400000 - AS_BODY_FIXED);
    c.body = bytes;
    as_outq_init(&all);
    assert_int_equal(as_frame_put_call(&all, AS_FRAME_OPEN, 2, &c, NULL, NULL), 0);
    b = bytes_of(&all);
    as_outq_copy(&caller->out, b.p, 200000);
    e = expect_error(caller, 2, AS_STATUS_UNAVAILABLE);
    assert_true(as_str_eq(e.message, AS_STR("the slot that was reserved was not used in time")));
    as_outq_copy(&caller->out, b.p + 200000, b.n - 200000); /* the rest is dropped */
    say(4, AS_CALL_F_RESERVE, 0, "", 0);
    expect_slot(4);
    as_frame_put_cancel(&caller->out, 4, AS_STATUS_CANCELLED);
    say(4, AS_CALL_F_USE, 0, "late", 4); /* the frames cross: it is dropped, too */
    reserve(6);
    expect_error(caller, 4, AS_STATUS_CANCELLED);
    expect_slot(6);
    as_outq_fini(&all);
    free(b.p);
    free(bytes);
    end();
}

static void it_ends_with_the_replica(void **state AS_UNUSED)
{
    struct as_frame_error e;

    begin_pair();
    reserve(2);
    expect_slot(2);
    hand_close(callee);
    e = expect_error(caller, 2, AS_STATUS_UNAVAILABLE);
    assert_int_equal(e.flags & AS_ERROR_F_STARTED, 0);
    assert_true(as_str_eq(e.message, AS_STR("the replica that was chosen is no longer available")));
    end();
}

static void reservations_are_calls_of_the_window(void **state AS_UNUSED)
{
    begin_pair();
    for (uint64_t stream = 2; stream <= 8; stream += 2)
        reserve(stream);
    expect_slot(2);
    expect_slot(4);
    reserve(10); /* --call-credit is 4 */
    UNTIL(w.killed);
    assert_string_equal(w.why, "more calls are open than CREDIT allows");
    UNTIL(!as_deployment_ongoing(callees()) && !as_deployment_queued(callees()));
    end();
}

static void assert_broken(const char *why)
{
    UNTIL(w.killed);
    assert_string_equal(w.token, "c");
    assert_string_equal(w.why, why);
    UNTIL(!as_deployment_reserved(callees()));
    end();
}

static void rules(void **state AS_UNUSED)
{
    static const uint32_t bad[] = {AS_CALL_F_RESERVE | AS_CALL_F_STREAM,
                                   AS_CALL_F_RESERVE | AS_CALL_F_STREAM | AS_CALL_F_EVERY};

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        begin_pair();
        say(2, bad[i], 0, "", 0);
        assert_broken("OPEN with a reservation that is not as it must be");
    }
    begin_pair();
    say(2, AS_CALL_F_USE, 0, "", 0);
    assert_broken("OPEN in a slot of a stream that is not open");
    begin_pair();
    say(2, 0, 0, "", 0);
    say(2, AS_CALL_F_USE, 0, "", 0);
    assert_broken("OPEN in a slot that was not reserved");
    begin_pair();
    reserve(2);
    expect_slot(2);
    say(2, AS_CALL_F_USE, 1, "", 0);
    assert_broken("OPEN in a slot of another target");
    begin_pair();
    reserve(2);
    expect_slot(2);
    say(2, AS_CALL_F_USE, 0, "", 0);
    say(2, AS_CALL_F_USE, 0, "", 0);
    assert_broken("OPEN in a slot that was not reserved");
    begin_pair();
    link_of("c")->capabilities &= ~(uint64_t)AS_CAP_RESERVE;
    reserve(2);
    assert_broken("OPEN with a reservation that is not as it must be");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_is_reserved_and_used),
        cmocka_unit_test(a_stream_and_a_large_body_use_one),
        cmocka_unit_test(cancel_gives_it_back),
        cmocka_unit_test(the_end_of_the_link_gives_all_back),
        cmocka_unit_test(the_limit_ends_it_even_in_the_middle_of_a_body),
        cmocka_unit_test(it_ends_with_the_replica),
        cmocka_unit_test(reservations_are_calls_of_the_window),
        cmocka_unit_test(rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
