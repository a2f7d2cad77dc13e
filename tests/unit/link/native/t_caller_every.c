/* Calls of every replica of a deployment: one message of each. */
#include "call_world.h"

static struct hand *caller;
static struct hand *d_hand, *e_hand;

static void note_driver(void *arg, const struct as_fleet_driver *d)
{
    *(uint32_t *)arg = d->calls;
}

static uint32_t driver_calls(void)
{
    uint32_t n = UINT32_MAX;

    as_fleet_each_driver(w.fleet, note_driver, &n);
    return n;
}

static void open_every(uint32_t credit)
{
    struct as_frame_call open = {.flags = AS_CALL_F_STREAM | AS_CALL_F_EVERY, .priority = 1};
    struct as_body body = bytes_body("all", 3);

    begin_calls(calls_conf());
    d_hand = serve(0, "d", "Callee");
    e_hand = serve(1, "e", "Callee");
    caller = drive(2);
    say_target(caller, 0, "Callee");
    say_open_of(caller, 2, &open, &body);
    if (credit)
        as_frame_put_credit(&caller->out, 2,
                            &(struct as_frame_credit){.messages = credit, .bytes = 10000});
}

/* The next message is of this replica, with this text and these flags. */
static void expect_of(const char *replica, const char *text, uint8_t flags)
{
    struct as_frame_call c;
    struct as_body body;
    struct as_arena a;
    const char *why;

    expect(caller, AS_FRAME_DATA);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(caller->f.flags, AS_FRAME_F_MSG);
    assert_int_equal(as_frame_get_call(&caller->f, &a, &c, &why), 0);
    assert_int_equal(c.n_meta, 1);
    assert_true(as_str_eq(c.meta[0].key, AS_STR("anyserve-replica")));
    assert_true(as_str_eq(c.meta[0].value, as_str_of(replica)));
    assert_int_equal(as_body_get(c.body, c.body_len, true, &a, &body, &why), 0);
    assert_int_equal(body.flags, flags);
    assert_true(as_str_eq(body.data, as_str_of(text)));
    as_arena_fini(&a);
}

static void every_replica_is_called(void **state AS_UNUSED)
{
    struct as_frame_error e = {.code = AS_STATUS_INTERNAL, .message = AS_STR("no luck")};

    open_every(1);
    expect(d_hand, AS_FRAME_OPEN);
    assert_int_equal(d_hand->f.p[60 - 16], AS_CALL_F_BEYOND);
    assert_text(d_hand, false, "all");
    expect(e_hand, AS_FRAME_OPEN);
    assert_text(e_hand, false, "all");
    as_frame_put_error(&e_hand->out, e_hand->f.stream, &e);
    expect_of("Callee-1", "no luck", AS_BODY_F_EXCEPTION);
    say_answer(d_hand, d_hand->f.stream, "mine", false);
    UNTIL(as_fleet_unanswered(w.fleet) == 0); /* it waits for credit */
    assert_int_equal(driver_calls(), 1);
    as_frame_put_credit(&caller->out, 2, &(struct as_frame_credit){.messages = 1});
    expect_of("Callee-0", "mine", 0);
    expect(caller, AS_FRAME_END);
    assert_int_equal(caller->f.stream, 2);
    assert_int_equal(driver_calls(), 0);
    end();
}

static void no_replica_is_called(void **state AS_UNUSED)
{
    struct as_frame_call open = {.flags = AS_CALL_F_STREAM | AS_CALL_F_EVERY, .priority = 1};

    open_every(9);
    expect(d_hand, AS_FRAME_OPEN);
    expect(e_hand, AS_FRAME_OPEN);
    die(0, "d");
    die(1, "e");
    for (int i = 0; i < 2; i++)
        expect(caller, AS_FRAME_DATA);
    expect(caller, AS_FRAME_END);
    say_open_of(caller, 4, &open, &(struct as_body){.codec = AS_BODY_BYTES});
    expect(caller, AS_FRAME_END);
    assert_int_equal(caller->f.stream, 4);
    as_fleet_set_down(w.fleet, AS_STR("a#Callee"), true);
    say_open_of(caller, 6, &open, &(struct as_body){.codec = AS_BODY_BYTES});
    expect_error(caller, 6, AS_STATUS_UNAVAILABLE);
    end();
}

/* Cancelled, or the caller has gone: in any state of its single calls. */
static void calls_of_every_replica_are_cancelled(void **state AS_UNUSED)
{
    for (int how = 0; how < 4; how++) {
        open_every(0);
        expect(d_hand, AS_FRAME_OPEN);
        expect(e_hand, AS_FRAME_OPEN);
        as_page_start(&d_hand->page, d_hand->f.stream, as_loop_now(w.loop));
        if (how & 1) {
            say_answer(e_hand, e_hand->f.stream, "held", false);
            UNTIL(as_fleet_unanswered(w.fleet) == 1);
        }
        if (how & 2) {
            as_frame_put_cancel(&caller->out, 2, AS_STATUS_CANCELLED);
            expect_error(caller, 2, AS_STATUS_CANCELLED);
        } else {
            hand_close(caller);
        }
        expect(d_hand, AS_FRAME_CANCEL);
        say_answer(d_hand, d_hand->streams[0], "late", false);
        UNTIL(as_fleet_unanswered(w.fleet) <= 1);
        end();
    }
}

/* Behind the whole request of a call nothing of its body may come, not even an end. */
static void a_body_comes_once(void **state AS_UNUSED)
{
    static char text[70000];
    struct as_frame_call open = {.flags = AS_CALL_F_STREAM | AS_CALL_F_EVERY, .priority = 1};
    struct as_body body = bytes_body(text, sizeof(text));

    for (int large = 0; large < 2; large++) {
        struct bytes data = raw_frame(AS_FRAME_DATA, AS_FRAME_F_END, 2, NULL, 0);

        begin_calls(calls_conf());
        d_hand = serve(0, "d", "Callee");
        caller = serve(1, "c", "Caller");
        say_target(caller, 0, "Callee");
        body.data.n = large ? sizeof(text) : 10;
        say_open_of(caller, 2, &open, &body);
        expect(d_hand, AS_FRAME_OPEN);
        as_outq_copy(&caller->out, data.p, data.n);
        free(data.p);
        UNTIL(w.killed);
        assert_string_equal(w.why, "more DATA than the message announced");
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_replica_is_called),
        cmocka_unit_test(no_replica_is_called),
        cmocka_unit_test(calls_of_every_replica_are_cancelled),
        cmocka_unit_test(a_body_comes_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
