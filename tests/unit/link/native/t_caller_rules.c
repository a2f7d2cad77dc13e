/* What a caller may not do: each broken rule ends its link, and nothing of it stays. */
#include "call_world.h"

static struct hand *caller, *callee;

/* A caller that may call "Callee"; its link is about to be broken. */
static void begin_rule(void)
{
    begin_calls(calls_conf());
    callee = serve(1, "d", "Callee");
    caller = serve(0, "c", "Caller");
    say_target(caller, 0, "Callee");
}

static void assert_broken(const char *why)
{
    UNTIL(w.killed);
    assert_string_equal(w.token, "c");
    assert_string_equal(w.why, why);
    end();
}

static void streams_are_even_and_rise(void **state AS_UNUSED)
{
    static const uint64_t bad[] = {4, 1, 0, 6};

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        begin_rule();
        say_open(caller, bad[i], 0, "q");
        assert_broken(bad[i] & 1 || !bad[i] ? "frame that a worker may not send"
                                            : "OPEN that is not the next even stream");
    }
    begin_rule();
    say_open(caller, 2, 0, "q");
    say_open(caller, 2, 0, "q");
    assert_broken("OPEN that is not the next even stream");
}

static void a_target_is_named_first(void **state AS_UNUSED)
{
    begin_rule();
    say_open_of(caller, 2, &(struct as_frame_call){.target = 1}, &(struct as_body){.codec = 2});
    assert_broken("OPEN of a target that no TARGET names");
    begin_rule();
    say_open_of(caller, 2, &(struct as_frame_call){.target = 70000}, &(struct as_body){.codec = 2});
    assert_broken("OPEN of a target that no TARGET names");
    begin_rule();
    as_frame_put_text(&caller->out, AS_FRAME_TARGET, AS_STR("short"));
    assert_broken("malformed TARGET");
}

static void fields_of_an_open(void **state AS_UNUSED)
{
    begin_rule();
    say_open_of(caller, 2, &(struct as_frame_call){.flags = AS_CALL_F_BEYOND},
                &(struct as_body){.codec = 2});
    assert_broken("OPEN with flags or a priority that a caller may not set");
    begin_rule();
    say_open_of(caller, 2, &(struct as_frame_call){.priority = AS_PRIORITIES},
                &(struct as_body){.codec = 2});
    assert_broken("OPEN with flags or a priority that a caller may not set");
    begin_rule();
    say_open_of(caller, 2, &(struct as_frame_call){.parent = 1}, &(struct as_body){.codec = 2});
    assert_broken("OPEN whose parent was never sent");
    begin_rule();
    say_open_of(caller, 2, &(struct as_frame_call){.more = true}, &(struct as_body){.codec = 2});
    assert_broken("OPEN without END: further messages of a call are reserved");
}

static void bodies_are_checked(void **state AS_UNUSED)
{
    uint8_t bad[32] = {9};
    struct as_frame_call c = {.body = bad, .body_len = sizeof(bad)};

    begin_rule();
    say_open_of(caller, 2, &c, NULL);
    assert_broken("body: unknown codec");
    begin_rule();
    say_open_of(caller, 2, &c, &(struct as_body){.codec = 2, .flags = AS_BODY_F_EXCEPTION});
    assert_broken("body: reserved bits are set");
}

/* A body of n bytes that is announced, and what is sent of it, in one DATA frame. */
static void send_large(uint64_t stream, size_t n, size_t sent, uint8_t flags, uint8_t codec)
{
    struct as_frame_call c = {.body_len = n, .priority = 1};
    uint8_t *body = calloc(1, n + sent);
    struct bytes data;

    body[0] = codec;
    set64(body + 8, n - AS_BODY_FIXED);
    c.body = body;
    {
        struct as_outq q;
        struct bytes all;
        struct as_frame f;
        int64_t head;

        as_outq_init(&q);
        assert_int_equal(as_frame_put_call(&q, AS_FRAME_OPEN, stream, &c, NULL, NULL), 0);
        all = bytes_of(&q);
        head = as_frame_next(all.p, all.n, &f);
        as_outq_copy(&caller->out, all.p, (size_t)head);
        as_outq_fini(&q);
        free(all.p);
    }
    data = raw_frame(AS_FRAME_DATA, flags, stream, body, sent);
    as_outq_copy(&caller->out, data.p, data.n);
    free(data.p);
    free(body);
}

static void large_bodies_are_as_announced(void **state AS_UNUSED)
{
    begin_rule();
    send_large(2, 70000, 70001, AS_FRAME_F_END, AS_BODY_BYTES);
    assert_broken("more DATA than the message announced");
    begin_rule();
    send_large(2, 70000, 69999, AS_FRAME_F_END, AS_BODY_BYTES);
    assert_broken("END before the body was complete");
    begin_rule();
    send_large(2, 70000, 70000, 0, AS_BODY_BYTES);
    assert_broken("a body without END");
    begin_rule();
    send_large(2, 70000, 70000, AS_FRAME_F_END, 3);
    assert_broken("body: unknown codec");
    begin_rule();
    send_large(2, 70000, 70000, AS_FRAME_F_END, AS_BODY_BYTES);
    send_large(4, 70000, 10, 0, AS_BODY_BYTES);
    expect(callee, AS_FRAME_OPEN); /* the first one is whole */
    assert_int_equal(w.killed, 0);
    end();
}

/* A call over the limit is refused; the bytes that follow are read and dropped. */
static void a_body_over_the_limit(void **state AS_UNUSED)
{
    begin_rule();
    send_large(2, (4 << 20) + 1, 100000, 0, AS_BODY_BYTES);
    expect_error(caller, 2, AS_STATUS_RESOURCE_EXHAUSTED);
    say_open(caller, 4, 0, "next");
    expect(callee, AS_FRAME_OPEN);
    assert_text(callee, false, "next");
    assert_int_equal(w.killed, 0);
    end();
}

/* CANCEL may come before the body is complete; what comes of it afterwards is dropped. */
static void a_call_is_cancelled_while_its_body_comes(void **state AS_UNUSED)
{
    struct bytes data;
    uint8_t rest[60000] = {0};

    begin_rule();
    send_large(2, 70000, 10000, 0, AS_BODY_BYTES);
    as_frame_put_cancel(&caller->out, 2, AS_STATUS_CANCELLED);
    expect_error(caller, 2, AS_STATUS_CANCELLED);
    data = raw_frame(AS_FRAME_DATA, AS_FRAME_F_END, 2, rest, sizeof(rest));
    as_outq_copy(&caller->out, data.p, data.n);
    free(data.p);
    say_open(caller, 4, 0, "next");
    expect(callee, AS_FRAME_OPEN);
    assert_text(callee, false, "next");
    end();
}

static void frames_on_streams_that_are_not_open(void **state AS_UNUSED)
{
    struct bytes data = raw_frame(AS_FRAME_DATA, 0, 2, "x", 1);

    begin_rule();
    as_frame_put_cancel(&caller->out, 2, AS_STATUS_CANCELLED);
    assert_broken("frame on a stream that is not open");
    begin_rule();
    as_frame_put_credit(&caller->out, 2, &(struct as_frame_credit){.messages = 1});
    assert_broken("frame on a stream that is not open");
    begin_rule();
    as_outq_copy(&caller->out, data.p, data.n);
    assert_broken("DATA on a stream that is not open");
    begin_rule();
    say_open(caller, 2, 0, "q");
    say_answer(caller, 2, "a further message", false);
    assert_broken("frame that a caller may not send");
    begin_rule();
    say_open(caller, 2, 0, "q");
    as_frame_put_end(&caller->out, 2, 0);
    assert_broken("frame that a caller may not send");
    begin_rule();
    say_open(caller, 2, 0, "q"); /* its answer is one message: it has no credit */
    as_frame_put_credit(&caller->out, 2, &(struct as_frame_credit){.messages = 1});
    assert_broken("malformed CREDIT of a call");
    free(data.p);
}

/* The window of each parent, and that of calls without one: N calls, and N + 1. */
static void no_more_calls_than_credit(void **state AS_UNUSED)
{
    begin_rule();
    for (uint64_t i = 0; i < 4; i++)
        say_open(caller, 2 * (i + 1), 0, "q");
    UNTIL(as_caller_open_calls(link_of("c")) == 4);
    assert_int_equal(w.killed, 0);
    expect(callee, AS_FRAME_OPEN);
    say_answer(callee, callee->f.stream, "a", false);
    expect(caller, AS_FRAME_DATA);
    say_open(caller, 10, 0, "q"); /* one has ended */
    UNTIL(as_caller_open_calls(link_of("c")) == 4);
    say_open(caller, 12, 0, "q");
    assert_broken("more calls are open than CREDIT allows");
}

static void no_more_bytes_than_credit(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = calls_conf();
    struct as_body body = {.codec = 2};

    for (uint64_t more = 0; more < 2; more++) {
        conf.call_credit_bytes = 2 * AS_BODY_FIXED + more;
        begin_calls(conf);
        callee = serve(1, "d", "Callee");
        caller = serve(0, "c", "Caller");
        say_target(caller, 0, "Callee");
        for (uint64_t i = 0; i < 3; i++) /* the third one begins below the limit, or at it */
            say_open_of(caller, 2 * (i + 1), &(struct as_frame_call){.priority = 1}, &body);
        if (more) {
            UNTIL(as_caller_open_calls(link_of("c")) == 3);
            assert_int_equal(w.killed, 0);
            end();
        } else {
            assert_broken("more calls are open than CREDIT allows");
        }
    }
}

static void windows_of_two_requests(void **state AS_UNUSED)
{
    struct hand *d;

    begin_rule();
    d = drive(2);
    say_target(d, 0, "Caller");
    say_open(d, 2, 0, "p");
    say_open(d, 4, 0, "q");
    expect(caller, AS_FRAME_OPEN);
    expect(caller, AS_FRAME_OPEN);
    for (uint64_t i = 0; i < 4; i++) {
        say_open(caller, 6 * i + 2, caller->streams[0], "1");
        say_open(caller, 6 * i + 4, caller->streams[1], "2");
        say_open(caller, 6 * i + 6, 0, "0");
    }
    UNTIL(as_caller_open_calls(link_of("c")) == 12);
    assert_int_equal(link_of("c")->caller->n_windows, 2);
    assert_int_equal(w.killed, 0);
    say_open(caller, 26, caller->streams[1], "one too many");
    assert_broken("more calls are open than CREDIT allows");
}

/* Those of a request that has ended count among those without one, beyond their limit if need be.
 */
static void windows_of_requests_that_end(void **state AS_UNUSED)
{
    struct hand *d;

    begin_rule();
    d = drive(2);
    say_target(d, 0, "Caller");
    say_open(d, 2, 0, "p");
    expect(caller, AS_FRAME_OPEN);
    for (uint64_t i = 0; i < 3; i++) {
        say_open(caller, 4 * i + 2, caller->streams[0], "1");
        say_open(caller, 4 * i + 4, 0, "0");
    }
    say_answer(caller, caller->streams[0], "a", false);
    expect(d, AS_FRAME_DATA);
    assert_int_equal(link_of("c")->caller->none.n, 6);
    assert_int_equal(w.killed, 0);
    say_open(caller, 14, caller->streams[0], "one too many");
    assert_broken("more calls are open than CREDIT allows");
}

static void answers_of_a_callee_are_checked(void **state AS_UNUSED)
{
    uint8_t bad[32] = {9};
    struct as_frame_call c = {.body = bad, .body_len = sizeof(bad)};
    struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR};
    struct as_msg empty = {0};

    for (int i = 0; i < 2; i++) {
        begin_rule();
        say_open(caller, 2, 0, "q");
        expect(callee, AS_FRAME_OPEN);
        as_page_start(&callee->page, callee->f.stream, as_loop_now(w.loop));
        if (i)
            as_frame_put_msg(&callee->out, AS_FRAME_DATA, callee->f.stream, &fixed, &empty, NULL);
        else
            as_frame_put_call(&callee->out, AS_FRAME_DATA, callee->f.stream, &c, NULL, NULL);
        UNTIL(w.killed);
        assert_string_equal(w.token, "d");
        assert_string_equal(w.why, i ? "call: its kind is another" : "body: unknown codec");
        expect_error(caller, 2, AS_STATUS_UNAVAILABLE);
        end();
    }
}

static void without_the_capability(void **state AS_UNUSED)
{
    struct as_frame_registered answer;

    begin_calls(calls_conf());
    caller = greet_as(0, "c", CALL_CAPS & ~AS_CAP_CALLS);
    say_register(caller, "Caller");
    expect(caller, AS_FRAME_REGISTERED);
    assert_int_equal(as_frame_get_registered(&caller->f, &answer), 0);
    assert_int_equal(answer.code, AS_STATUS_INVALID_ARGUMENT);
    say_target(caller, 0, "Callee");
    assert_broken("frame of a caller without the capability CALLS");
}

/* Pickle is only for processes with a token of ours. */
static void a_worker_with_the_join_token(void **state AS_UNUSED)
{
    struct as_frame_registered answer;

    begin_calls(calls_conf());
    callee = serve(1, "d", "Callee");
    caller = greet_as(0, "join", CALL_CAPS);
    say_register(caller, "Callee");
    expect(caller, AS_FRAME_REGISTERED);
    assert_int_equal(as_frame_get_registered(&caller->f, &answer), 0);
    assert_int_equal(answer.code, AS_STATUS_PERMISSION_DENIED);
    assert_int_equal(as_fleet_refused_payloads(w.fleet, AS_FLEET_REFUSED_REGISTER), 1);
    say_target(caller, 0, "Callee");
    say_open(caller, 2, 0, "q");
    expect_error(caller, 2, AS_STATUS_PERMISSION_DENIED);
    send_large(4, 70000, 70000, AS_FRAME_F_END, AS_BODY_PICKLE);
    expect_error(caller, 4, AS_STATUS_PERMISSION_DENIED);
    assert_int_equal(as_fleet_refused_payloads(w.fleet, AS_FLEET_REFUSED_CALL), 2);
    assert_int_equal(as_fleet_unanswered(w.fleet), 0);
    end();
}

/* For those who serve clients of models: a name that they must refuse to serve. */
static void names_of_targets_are_known(void **state AS_UNUSED)
{
    begin_calls(calls_conf());
    assert_false(as_fleet_is_call_target(w.fleet, AS_STR("a.Callee")));
    callee = serve(1, "d", "Callee");
    assert_true(as_fleet_is_call_target(w.fleet, AS_STR("a.Callee")));
    assert_false(as_fleet_is_call_target(w.fleet, AS_STR("Callee")));
    assert_false(as_fleet_is_call_target(w.fleet, AS_STR("a.Caller")));
    assert_false(as_fleet_is_call_target(w.fleet, AS_STR("a#Callee")));
    assert_false(as_fleet_is_call_target(w.fleet, AS_STR("")));
    as_fleet_delete_deployment(w.fleet, AS_STR("a#Callee"), false);
    assert_false(as_fleet_is_call_target(w.fleet, AS_STR("a.Callee")));
    end();
}

/* Each refusal is counted. */
static void a_driver_without_the_token(void **state AS_UNUSED)
{
    begin_calls(calls_conf());
    for (uint32_t i = 1; i <= 2; i++) {
        caller = greet_as(0, i == 1 ? "join" : "driv", AS_CAP_CALLS | AS_CAP_DRIVER);
        UNTIL(as_fleet_refused_payloads(w.fleet, AS_FLEET_REFUSED_TOKEN) == i);
        hand_close(caller);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_even_and_rise),
        cmocka_unit_test(a_target_is_named_first),
        cmocka_unit_test(fields_of_an_open),
        cmocka_unit_test(bodies_are_checked),
        cmocka_unit_test(large_bodies_are_as_announced),
        cmocka_unit_test(a_body_over_the_limit),
        cmocka_unit_test(a_call_is_cancelled_while_its_body_comes),
        cmocka_unit_test(frames_on_streams_that_are_not_open),
        cmocka_unit_test(no_more_calls_than_credit),
        cmocka_unit_test(no_more_bytes_than_credit),
        cmocka_unit_test(windows_of_two_requests),
        cmocka_unit_test(windows_of_requests_that_end),
        cmocka_unit_test(answers_of_a_callee_are_checked),
        cmocka_unit_test(without_the_capability),
        cmocka_unit_test(a_worker_with_the_join_token),
        cmocka_unit_test(names_of_targets_are_known),
        cmocka_unit_test(a_driver_without_the_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
