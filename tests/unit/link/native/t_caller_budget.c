/* link/native/caller: the bytes of calls and of their answers are charged to the budgets, to an
 * account of each process; at the limit and one byte beyond. */
#include "call_world.h"

#include "base/memory/budget.h"

static struct as_budget requests, answers;
static struct hand *caller, *callee;

static void begin_budget(void)
{
    struct as_fleet_conf conf = calls_conf();

    conf.call_credit_bytes = 64 << 20; /* the budget refuses first */
    requests = answers = (struct as_budget){.limit = 16 << 20, .share = 100};
    begin_calls(conf);
    as_fleet_set_budgets(w.fleet, &requests, &answers);
    callee = serve(1, "d", "Callee");
    caller = drive(0);
    say_target(caller, 0, "Callee");
}

/* All that was charged is given back when nothing is left of it. */
static void end_budget(void)
{
    hand_close(caller);
    hand_close(callee);
    UNTIL(!as_budget_used(&requests) && !as_budget_used(&answers));
    end();
}

/* A call with n bytes of data. */
static void say_bytes(uint64_t stream, size_t n)
{
    char *p = calloc(1, n);
    struct as_body body = bytes_body(p, n);

    say_open_of(caller, stream, &(struct as_frame_call){.priority = 1}, &body);
    free(p);
}

/* The callee reads a whole call: what waits for it in the output is still charged. */
static void take_call(void)
{
    expect(callee, AS_FRAME_OPEN);
    while (!(callee->f.flags & AS_FRAME_F_END))
        expect(callee, AS_FRAME_DATA);
}

/* What one call of n bytes holds until it is answered. */
static uint64_t price_of(size_t n)
{
    uint64_t used;

    begin_budget();
    say_bytes(2, n);
    expect(callee, AS_FRAME_OPEN);
    used = as_budget_used(&requests);
    end_budget();
    assert_true(used >= n);
    assert_true(used < n + 4096);
    return used;
}

static void test_limit(size_t n)
{
    uint64_t price = price_of(n);
    struct as_frame_error e;

    begin_budget();
    requests.limit = 2 * price;
    say_bytes(2, n);
    say_bytes(4, n);
    expect(callee, AS_FRAME_OPEN);
    expect(callee, AS_FRAME_OPEN);
    assert_int_equal(as_budget_used(&requests), 2 * price);
    say_bytes(6, n); /* one too many */
    e = expect_error(caller, 6, AS_STATUS_RESOURCE_EXHAUSTED);
    assert_non_null(memmem(e.message.p, e.message.n, "does not fit into --max-inflight-bytes", 38));
    assert_int_equal(as_budget_used(&requests), 2 * price);
    end_budget();

    begin_budget();
    requests.limit = 2 * price - 1;
    say_bytes(2, n);
    say_bytes(4, n);
    expect_error(caller, 4, AS_STATUS_RESOURCE_EXHAUSTED);
    take_call();
    say_answer(callee, 1, "done", false); /* the room is free again */
    expect(caller, AS_FRAME_DATA);
    UNTIL(!as_budget_used(&requests));
    say_bytes(6, n);
    expect(callee, AS_FRAME_OPEN);
    assert_int_equal(as_budget_used(&requests), price);
    assert_int_equal(w.killed, 0);
    end_budget();
}

static void calls_in_the_arena(void **state AS_UNUSED)
{
    test_limit(1000);
}

static void calls_in_a_blob(void **state AS_UNUSED)
{
    test_limit(20000);
}

static void calls_with_data_frames(void **state AS_UNUSED)
{
    test_limit(200000);
    test_limit(2 << 20);
}

/* One that can never fit is told so. */
static void larger_than_the_share(void **state AS_UNUSED)
{
    struct as_frame_error e;

    for (uint32_t i = 0; i < 2; i++) {
        begin_budget();
        requests.share = 50;
        requests.limit = i ? 2 * 200000 : 8 << 20;
        say_bytes(2, 200000);
        if (i) {
            e = expect_error(caller, 2, AS_STATUS_RESOURCE_EXHAUSTED);
            assert_non_null(memmem(e.message.p, e.message.n, "what one process may hold", 25));
        } else {
            expect(callee, AS_FRAME_OPEN);
        }
        assert_int_equal(w.killed, 0);
        end_budget();
    }
}

static void answers_at_the_limit(void **state AS_UNUSED)
{
    enum { SIZE = 300000 };
    static char bytes[SIZE];
    struct as_body body = bytes_body(bytes, SIZE - AS_BODY_FIXED);

    for (uint32_t i = 0; i < 2; i++) {
        begin_budget();
        answers.limit = SIZE - i;
        say_bytes(2, 10);
        expect(callee, AS_FRAME_OPEN);
        assert_int_equal(as_frame_put_call(&callee->out, AS_FRAME_DATA, 1,
                                           &(struct as_frame_call){0}, &body, NULL),
                         0);
        if (i)
            expect_error(caller, 2, AS_STATUS_RESOURCE_EXHAUSTED);
        else
            expect(caller, AS_FRAME_DATA);
        assert_int_equal(w.killed, 0);
        end_budget();
    }
}

/* Two drivers have an account each: one that holds its share leaves room for the other. */
static void each_process_has_an_account(void **state AS_UNUSED)
{
    struct hand *other;

    begin_budget();
    requests.share = 50;
    requests.limit = 400000;
    say_bytes(2, 150000);
    expect(callee, AS_FRAME_OPEN);
    say_bytes(4, 150000);
    expect_error(caller, 4, AS_STATUS_RESOURCE_EXHAUSTED);
    other = caller;
    caller = drive(2);
    say_target(caller, 0, "Callee");
    say_bytes(2, 100000);
    expect(callee, AS_FRAME_OPEN);
    hand_close(other);
    end_budget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_in_the_arena),     cmocka_unit_test(calls_in_a_blob),
        cmocka_unit_test(calls_with_data_frames), cmocka_unit_test(larger_than_the_share),
        cmocka_unit_test(answers_at_the_limit),   cmocka_unit_test(each_process_has_an_account),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
