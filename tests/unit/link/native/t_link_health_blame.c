/* link/native/link_health: requests that executed when a worker was to be killed are suspects, as
 * after a crash. */
#include "link_world.h"

/* Within this a handler starts, however slow the machine is. */
#define EXECUTION (500 * AS_MS)

static struct as_fleet_conf blaming(void)
{
    struct as_fleet_conf conf = usual();

    conf.deployment.blame = (struct as_blame_conf){.max = 8, .ttl = 60 * AS_SEC};
    return conf;
}

static struct as_stat *stat_now(void)
{
    return as_deployment_stat(w.fleet->deploys[0]->core);
}

/* The process of `token` is dead, as the dispatcher has wanted; the next one in its place. */
static struct hand *replace(const char *token, const char *next, bool idempotent,
                            const struct as_frame_options *o)
{
    UNTIL(w.killed == 1);
    w.killed = 0;
    assert_string_equal(w.token, token);
    die(0, token);
    as_fleet_add_process(w.fleet, as_str_of(next), AS_STR("default#app-0"), AS_STR("default#app"));
    return join(0, next, idempotent, o);
}

/* --- handlers that do not end --- */

static void a_request_that_hangs_ends_two_workers_and_is_refused(void **state AS_UNUSED)
{
    for (int idempotent = 0; idempotent < 2; idempotent++) {
        struct as_frame_options o = one_option(AS_FRAME_OPT_EXECUTION_TIMEOUT, EXECUTION);
        struct request *q;
        struct hand *h;

        begin(blaming());
        h = join(0, "t0", idempotent, &o);
        q = submit_of(1);
        start(h, 1);
        UNTIL(q->answered);
        assert_int_equal(q->call.outcome.err, AS_EHUNG);
        h = replace("t0", "t2", idempotent, &o);
        assert_int_equal(stat_now()->blamed, 1);
        q = submit_of(1); /* alone: its second one proves it */
        start(h, 1);
        assert_int_equal(stat_now()->trials, 1);
        UNTIL(q->answered);
        assert_int_equal(q->call.outcome.err, AS_EHUNG);
        h = replace("t2", "t3", idempotent, &o);
        assert_int_equal(submit_of(1)->call.outcome.err, AS_EPOISON);
        assert_int_equal(stat_now()->quarantined, 1);
        q = submit_of(2); /* another one is served */
        expect(h, AS_FRAME_OPEN);
        assert_false(q->answered);
        end();
    }
}

/* Which of them blocks an event loop cannot be seen: each is tried, and who ends well is cleared.
 */
static void what_executes_beside_a_hung_handler_is_tried(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_EXECUTION_TIMEOUT, 2 * EXECUTION);
    struct request *hung, *young;
    struct hand *h;
    as_ns since;

    begin(blaming());
    h = join(0, "t0", true, &o);
    hung = submit_of(1);
    start(h, 1);
    UNTIL(hung->call.executing_since >= hung->call.core.sent && hung->call.started);
    since = as_loop_now(w.loop); /* so that the times of the two do not end together */
    UNTIL(as_loop_now(w.loop) - since >= EXECUTION);
    young = submit_of(2);
    start(h, 2);
    UNTIL(hung->answered);
    h = replace("t0", "t2", true, &no_options);
    assert_int_equal(stat_now()->blamed, 2);
    assert_int_equal(stat_now()->trials, 1);
    assert_int_equal(young->call.core.tries, 1);
    start(h, 1);
    as_frame_put_end(&h->out, h->streams[0], 0);
    UNTIL(young->answered);
    assert_int_equal(young->call.outcome.err, 0);
    submit_of(2);
    submit_of(2);
    while (h->n < 3) /* side by side again */
        expect(h, AS_FRAME_OPEN);
    assert_int_equal(stat_now()->trials, 1);
    end();
}

static void what_had_not_started_is_not_blamed(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_EXECUTION_TIMEOUT, 30 * AS_MS);
    struct request *q;

    begin(blaming());
    join(0, "t0", true, &o); /* a process that was stopped: it starts nothing */
    q = submit_of(1);
    expect(replace("t0", "t2", true, &no_options), AS_FRAME_OPEN);
    assert_int_equal(stat_now()->blamed + stat_now()->trials, 0);
    assert_int_equal(q->call.core.tries, 0);
    end();
}

/* Nobody knows what it does after its link has gone; what it did is known. */
static void a_worker_that_came_by_itself_blames_too(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_EXECUTION_TIMEOUT, EXECUTION);
    struct request *q;
    struct hand *h;

    begin(blaming());
    h = join(0, "join", false, &o);
    q = submit_of(1);
    start(h, 1);
    UNTIL(q->answered && w.gone == 1);
    assert_int_equal(stat_now()->blamed, 1);
    end();
}

/* --- checks that fail, pings without an answer --- */

static uint64_t next_check(struct hand *h)
{
    expect(h, AS_FRAME_CONTROL);
    return h->f.stream;
}

static void fail_check(struct hand *h)
{
    reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
}

static void what_executed_while_checks_failed_is_suspect(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_HEALTH_PERIOD, 5 * AS_MS);
    struct request *q;
    struct hand *h;

    begin(blaming());
    h = join(0, "t0", true, &o);
    q = submit_of(1);
    start(h, 1);
    for (int i = 0; i < 3; i++)
        fail_check(h);
    h = replace("t0", "t2", true, &o);
    assert_int_equal(stat_now()->blamed, 1);
    assert_int_equal(stat_now()->trials, 1);
    start(h, 1);
    for (int i = 0; i < 3; i++)
        fail_check(h);
    replace("t2", "t3", true, &o);
    assert_true(q->answered); /* it ran alone, and the checks failed again */
    assert_int_equal(q->call.outcome.err, AS_EPOISON);
    assert_int_equal(submit_of(1)->call.outcome.err, AS_EPOISON);
    end();
}

static void what_started_after_the_first_failed_check_is_not(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_HEALTH_PERIOD, 5 * AS_MS);
    struct request *q;
    struct hand *h;

    begin(blaming());
    h = join(0, "t0", true, &o);
    q = submit_of(1);
    expect(h, AS_FRAME_OPEN);
    fail_check(h);
    UNTIL(ready_replicas() == 0); /* the dispatcher has heard it */
    start(h, 1);
    fail_check(h);
    fail_check(h);
    expect(replace("t0", "t2", true, &o), AS_FRAME_OPEN);
    assert_int_equal(stat_now()->blamed + stat_now()->trials, 0);
    assert_int_equal(q->call.core.tries, 0);
    end();
}

static void where_nothing_executed_nobody_is_blamed(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_HEALTH_PERIOD, 5 * AS_MS);
    struct hand *h;

    begin(blaming());
    h = join(0, "t0", true, &o);
    for (int i = 0; i < 3; i++)
        fail_check(h);
    replace("t0", "t2", true, &o);
    assert_int_equal(stat_now()->blamed, 0);
    end();
}

static void what_executed_during_an_unanswered_ping_is_suspect(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = blaming();
    struct hand *h;

    conf.ping_interval = 10 * AS_MS;
    conf.ping_timeout = EXECUTION;
    begin(conf);
    h = join(0, "t0", true, &no_options);
    submit_of(1);
    start(h, 1);
    h = replace("t0", "t2", true, &no_options);
    assert_int_equal(stat_now()->blamed, 1);
    assert_int_equal(stat_now()->trials, 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_hangs_ends_two_workers_and_is_refused),
        cmocka_unit_test(what_executes_beside_a_hung_handler_is_tried),
        cmocka_unit_test(what_had_not_started_is_not_blamed),
        cmocka_unit_test(a_worker_that_came_by_itself_blames_too),
        cmocka_unit_test(what_executed_while_checks_failed_is_suspect),
        cmocka_unit_test(what_started_after_the_first_failed_check_is_not),
        cmocka_unit_test(where_nothing_executed_nobody_is_blamed),
        cmocka_unit_test(what_executed_during_an_unanswered_ping_is_suspect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
