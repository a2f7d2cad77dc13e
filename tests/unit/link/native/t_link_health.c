/* link/native/link_health: health checks and the execution timeout. */
#include "link_world.h"

#include <signal.h>
#include <unistd.h>

/* --- health --- */

static uint64_t next_check(struct hand *h)
{
    struct as_frame_control c;

    expect(h, AS_FRAME_CONTROL);
    assert_int_equal(as_frame_get_control(&h->f, &c), 0);
    assert_false(c.reply);
    assert_int_equal(c.op, AS_CONTROL_HEALTH);
    return h->f.stream;
}

static struct as_frame_options checks(as_ns period)
{
    return one_option(AS_FRAME_OPT_HEALTH_PERIOD, period);
}

static void a_sick_worker_gets_nothing_until_it_is_well(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(5 * AS_MS);
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &o);
    reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    UNTIL(ready_replicas() == 0);
    submit();
    reply(h, next_check(h), AS_CONTROL_HEALTH, 0, "");
    expect(h, AS_FRAME_OPEN);
    assert_int_equal(ready_replicas(), 1);
    assert_int_equal(w.killed, 0);
    end();
}

static void failures_in_a_row_end_a_process_of_ours(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(5 * AS_MS);
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &o);
    reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    reply(h, next_check(h), AS_CONTROL_HEALTH, 0, ""); /* begins anew */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(w.killed, 0);
        reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    }
    UNTIL(w.killed == 1);
    assert_int_equal(as_deployment_stat(w.fleet->deploys[0]->core)->sick, 5);
    assert_string_equal(w.token, "t0");
    assert_string_equal(w.why, "3 health checks failed in a row, the last one: no GPU");
    assert_int_equal(w.gone, 0); /* its death is waited for */
    die(0, "t0");
    UNTIL(w.gone == 1);
    end();
}

/* It would only come again; and it may get well. */
static void a_sick_worker_that_we_did_not_start_is_not_killed(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(3 * AS_MS);
    struct hand *h;

    begin(usual());
    h = join(0, "join", false, &o);
    for (int i = 0; i < 5; i++)
        reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    reply(h, next_check(h), AS_CONTROL_HEALTH, 0, "");
    UNTIL(ready_replicas() == 1);
    assert_int_equal(w.killed + w.gone, 0);
    end();
}

static void a_check_without_an_answer_fails(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(5 * AS_MS);
    uint64_t late;
    struct hand *h;

    begin(usual());
    o.has |= 1u << AS_FRAME_OPT_HEALTH_TIMEOUT;
    o.value[AS_FRAME_OPT_HEALTH_TIMEOUT] = 20 * AS_MS;
    h = join(0, "t0", false, &o);
    late = next_check(h);
    UNTIL(ready_replicas() == 0);
    assert_true(next_check(h) > late);
    reply(h, late, AS_CONTROL_HEALTH, 0, ""); /* of the one that has failed: not heard */
    UNTIL(w.killed == 1);
    assert_string_equal(w.why,
                        "3 health checks failed in a row, the last one: no answer within 0.02 s");
    die(0, "t0");
    end();
}

/* Its one thread is inside a handler, for however long: that is the execution timeout's business.
 */
static void the_time_in_a_handler_is_not_the_checks(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(2 * AS_MS);
    uint64_t check;
    struct hand *h;
    as_ns since;

    begin(usual());
    o.has |= 1u << AS_FRAME_OPT_HEALTH_TIMEOUT;
    o.value[AS_FRAME_OPT_HEALTH_TIMEOUT] = 10 * AS_MS;
    h = join(0, "t0", false, &o);
    as_page_set_held(&h->page, 1);
    check = next_check(h);
    since = as_loop_now(w.loop);
    UNTIL(as_loop_now(w.loop) - since > 60 * AS_MS);
    assert_int_equal(ready_replicas(), 1);
    as_page_set_held(&h->page, 0); /* it is back, and answers */
    reply(h, check, AS_CONTROL_HEALTH, 0, "");
    assert_true(next_check(h) > check);
    UNTIL(ready_replicas() == 0); /* now it is free, and does not */
    end();
}

static void no_period_no_checks(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct as_frame_options o = checks(0);
    struct hand *h;

    conf.health_period = AS_MS; /* the worker has the last word */
    conf.ping_interval = 4 * AS_MS;
    begin(conf);
    h = join(0, "t0", false, &o);
    for (int i = 0; i < 5; i++) { /* pings go on */
        UNTIL(hand_reads(h));
        assert_int_equal(h->f.type, AS_FRAME_PING);
        as_frame_put_ping(&h->out, AS_FRAME_PONG, u64_at(h->f.p));
    }
    end();
}

/* --- handlers that do not end --- */

/* Within this a handler starts, however slow the machine is. */
#define EXECUTION AS_SEC

static struct as_frame_options execution(as_ns time)
{
    return one_option(AS_FRAME_OPT_EXECUTION_TIMEOUT, time);
}

/* Both workers; what is hung is answered before its process is dead, the rest goes on elsewhere. */
static void a_hung_handler_is_answered_and_its_worker_killed(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(EXECUTION);
    struct request *hung, *waits;
    struct hand *h, *other;
    as_ns since;

    begin(usual());
    h = join(0, "t0", true, &o);
    as_page_start(&h->page, 1, as_loop_now(w.loop)); /* before the dispatcher looks at the page */
    since = as_loop_now(w.loop);
    hung = submit();
    waits = submit();
    while (h->n < 2) /* the second one does not start */
        expect(h, AS_FRAME_OPEN);
    assert_int_equal(h->streams[0], 1);
    UNTIL(hung->answered);
    assert_int_equal(hung->call.outcome.err, AS_EHUNG); /* idempotent or not */
    assert_true(as_loop_now(w.loop) - since >= EXECUTION);
    assert_int_equal(w.killed, 1);
    assert_string_equal(w.token, "t0");
    assert_string_equal(w.why,
                        "the handler of model m has run for longer than execution_timeout_s (1)");
    assert_false(waits->answered);
    other = join(1, "t1", true, &no_options);
    assert_int_equal(other->n, 0); /* not while it could still be started over there */
    die(0, "t0");
    expect(other, AS_FRAME_OPEN);
    assert_true(hung->released);
    assert_false(waits->answered);
    assert_int_equal(as_deployment_stat(w.fleet->deploys[0]->core)->hung, 1);
    end();
}

/* What the worker says arrives, and is not read before the timers that are due. */
static void on_stall(uv_check_t *check)
{
    uv_check_stop(check);
    flush(check->data);
    usleep(EXECUTION / AS_US + 50 * 1000); /* the behaviour under test */
}

/* Both are due after a stall of ours, and its own word is found by the look at the handler. */
static void a_hung_handler_of_a_sick_worker(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(EXECUTION);
    struct request *hung;
    struct hand *h;
    uv_check_t stall;
    uint64_t check;

    o.has |= 1u << AS_FRAME_OPT_HEALTH_PERIOD | 1u << AS_FRAME_OPT_HEALTH_FAILURES;
    o.value[AS_FRAME_OPT_HEALTH_PERIOD] = 5 * AS_MS;
    o.value[AS_FRAME_OPT_HEALTH_FAILURES] = 1;
    begin(usual());
    h = join(0, "t0", false, &o);
    hung = submit();
    check = next_check(h);
    while (h->n < 1)
        expect(h, AS_FRAME_OPEN);
    start(h, 1);
    UNTIL(hung->call.started); /* as the dispatcher knows */
    reply(h, check, AS_CONTROL_HEALTH, 14, "no GPU");
    uv_check_init(&w.loop->uv, &stall);
    stall.data = h;
    uv_check_start(&stall, on_stall);
    uv_run(&w.loop->uv, UV_RUN_ONCE);
    assert_int_equal(w.killed, 1);
    uv_close((uv_handle_t *)&stall, NULL);
    assert_string_equal(w.why, "1 health checks failed in a row, the last one: no GPU");
    die(0, "t0"); /* turns of the loop follow, one of which closes `stall` */
    UNTIL(hung->answered);
    end();
}

static void others_that_had_started_go_by_the_table(void **state AS_UNUSED)
{
    for (int idempotent = 0; idempotent < 2; idempotent++) {
        struct as_frame_options o = execution(EXECUTION);
        struct request *hung, *young;
        struct hand *h;
        as_ns since;

        begin(usual());
        h = join(0, "t0", idempotent, &o);
        hung = submit();
        start(h, 1);
        UNTIL(hung->call.executing_since >= hung->call.core.sent && hung->call.started);
        since = as_loop_now(w.loop); /* so that the times of the two do not end together */
        UNTIL(as_loop_now(w.loop) - since >= EXECUTION / 2);
        young = submit();
        start(h, 2);
        UNTIL(hung->answered);
        assert_false(young->answered); /* it may end before the process does */
        die(0, "t0");
        if (idempotent) {
            assert_false(young->answered);
            expect(join(1, "t1", true, &no_options), AS_FRAME_OPEN);
        } else {
            assert_true(young->answered);
            assert_int_equal(young->call.outcome.err, AS_EMAYHAVERUN);
        }
        end();
    }
}

/* A process that was stopped starts nothing: the verdict is the same, and nothing of it has run. */
static void a_request_that_is_not_started_is_replayed(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(30 * AS_MS);
    struct request *q;

    begin(usual());
    join(0, "t0", false, &o);
    q = submit();
    UNTIL(w.killed == 1);
    assert_string_equal(w.why,
                        "a request of model m was not started within execution_timeout_s (0.03)");
    assert_false(q->answered);
    die(0, "t0");
    assert_false(q->answered);
    expect(join(1, "t1", false, &no_options), AS_FRAME_OPEN);
    end();
}

static void a_handler_that_gives_parts_does_not_hang(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(EXECUTION);
    struct request *q;
    struct hand *h;
    as_ns since;

    begin(usual());
    h = join(0, "t0", false, &o);
    q = submit();
    start(h, 1);
    since = as_loop_now(w.loop);
    for (uint32_t i = 1; as_loop_now(w.loop) - since < EXECUTION * 3 / 2; i++) {
        as_ns last = as_loop_now(w.loop);

        say_part(h, h->streams[0]);
        UNTIL(q->parts == i);
        UNTIL(as_loop_now(w.loop) - last >= 10 * AS_MS);
    }
    assert_int_equal(w.killed, 0);
    UNTIL(w.killed == 1); /* and when it stops giving them, it does */
    end();
}

/* The supervisor has not ended it: half a second later its requests are given up. */
static void a_process_that_does_not_die_loses_its_link(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(10 * AS_MS);
    struct request *q;

    begin(usual());
    join(0, "t0", false, &o);
    q = submit();
    UNTIL(w.killed == 1);
    UNTIL(w.gone == 1);
    assert_true(q->answered);
    assert_int_equal(q->call.outcome.err, AS_EMAYHAVERUN); /* it lives, and could run it yet */
    end();
}

/* The worker prints its stacks before it is killed; what it sends meanwhile does not save it. */
static void credit_does_not_save_a_condemned_worker(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(10 * AS_MS);
    struct hand *h;

    o.has |= 1u << AS_FRAME_OPT_DUMP_SIGNAL;
    o.value[AS_FRAME_OPT_DUMP_SIGNAL] = SIGWINCH; /* the test plays the worker, and ignores it */
    begin(usual());
    h = join(0, "t0", false, &o);
    submit();
    UNTIL(ready_replicas() == 0);
    assert_int_equal(w.killed, 0);
    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 3, .prefetch = 8});
    UNTIL(w.killed == 1);
    assert_string_equal(w.why,
                        "a request of model m was not started within execution_timeout_s (0.01)");
    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 2, .prefetch = 8});
    UNTIL(w.gone == 1); /* nobody reports its death: the link ends all the same */
    end();
}

static void a_worker_that_came_by_itself_loses_its_link_at_once(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(EXECUTION);
    struct request *q;
    struct hand *h;

    begin(usual());
    h = join(0, "join", false, &o);
    q = submit();
    start(h, 1);
    UNTIL(w.gone == 1);
    assert_int_equal(w.killed, 0);
    assert_true(q->answered);
    assert_int_equal(q->call.outcome.err, AS_EHUNG);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sick_worker_gets_nothing_until_it_is_well),
        cmocka_unit_test(failures_in_a_row_end_a_process_of_ours),
        cmocka_unit_test(a_sick_worker_that_we_did_not_start_is_not_killed),
        cmocka_unit_test(a_check_without_an_answer_fails),
        cmocka_unit_test(the_time_in_a_handler_is_not_the_checks),
        cmocka_unit_test(no_period_no_checks),
        cmocka_unit_test(a_hung_handler_is_answered_and_its_worker_killed),
        cmocka_unit_test(a_hung_handler_of_a_sick_worker),
        cmocka_unit_test(others_that_had_started_go_by_the_table),
        cmocka_unit_test(a_request_that_is_not_started_is_replayed),
        cmocka_unit_test(a_handler_that_gives_parts_does_not_hang),
        cmocka_unit_test(a_process_that_does_not_die_loses_its_link),
        cmocka_unit_test(credit_does_not_save_a_condemned_worker),
        cmocka_unit_test(a_worker_that_came_by_itself_loses_its_link_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
