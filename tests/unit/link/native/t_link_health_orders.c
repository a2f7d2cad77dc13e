/* What a worker and the controller may set for a replica: options, CONTROL, retirement. */
#include "link_world.h"

#include "core/dispatch/deployment_internal.h"
#include "core/replicas/restart.h"

/* --- requests without a deadline --- */

static void the_deployment_has_a_deadline_for_them(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_REQUEST_TIMEOUT, 20 * AS_MS);
    struct request *q;
    struct hand *h;
    as_ns since;

    begin(usual());
    h = join(0, "t0", false, &o);
    since = as_loop_now(w.loop);
    q = submit();
    assert_true(q->call.core.deadline >= since + 20 * AS_MS);
    expect(h, AS_FRAME_CANCEL);
    assert_true(q->answered);
    assert_int_equal(q->call.outcome.err, AS_EDEADLINE);
    end();
}

/* --- what holds for the deployment --- */

static void tell(struct hand *h, enum as_frame_option key, uint64_t v)
{
    struct as_frame_options o = one_option(key, v);

    as_frame_put_options(&h->out, &o);
}

static void a_worker_bounds_the_queue_while_requests_wait(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct as_deployment_conf *now;
    struct hand *h;

    conf.max_prefetch = 0;
    begin(conf);
    h = join(0, "t0", false, &no_options);
    now = &w.fleet->deploys[0]->core->conf;
    for (int i = 0; i < 5; i++)
        submit();
    tell(h, AS_FRAME_OPT_MAX_QUEUED, 3);
    UNTIL(now->max_queued == 3);
    assert_int_equal(submit()->call.outcome.err, AS_EFULL); /* three wait, two execute */
    tell(h, AS_FRAME_OPT_MAX_QUEUED, 4);
    UNTIL(now->max_queued == 4);
    assert_false(submit()->answered);
    as_frame_put_options(&h->out, &no_options); /* as the server is set */
    UNTIL(now->max_queued == 100);
    tell(h, AS_FRAME_OPT_MAX_QUEUED, AS_FRAME_QUEUED_ANY);
    UNTIL(now->max_queued == -1);
    end();
}

static void a_worker_says_how_clients_are_refused(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_BACKPRESSURE_STATUS, 429);
    struct as_fleet_conf conf = usual();
    const struct as_backpressure *now;
    struct request *q;
    struct hand *h;

    conf.max_prefetch = 0;
    conf.deployment.max_queued = 1;
    o.has |= 1u << AS_FRAME_OPT_BACKPRESSURE_RETRY;
    o.value[AS_FRAME_OPT_BACKPRESSURE_RETRY] = 1500 * AS_MS;
    begin(conf);
    h = join(0, "t0", false, &o);
    now = &w.fleet->deploys[0]->options.backpressure;
    while (!(q = submit())->answered)
        ;
    assert_int_equal(q->call.outcome.err, AS_EFULL);
    assert_int_equal(q->call.outcome.backpressure.status, 429);
    assert_int_equal(q->call.outcome.backpressure.retry, 1500 * AS_MS);
    tell(h, AS_FRAME_OPT_BACKPRESSURE_STATUS, 503);
    UNTIL(now->status == 503 && !now->has_retry);
    as_frame_put_options(&h->out, &no_options); /* as the server is set */
    UNTIL(!now->status);
    q = submit();
    assert_int_equal(q->call.outcome.backpressure.status, 0);
    assert_false(q->call.outcome.backpressure.has_retry);
    end();
}

static void a_worker_declares_what_may_run_twice(void **state AS_UNUSED)
{
    for (int yes = 0; yes < 2; yes++) {
        struct as_frame_options o = one_option(AS_FRAME_OPT_IDEMPOTENT, (uint64_t)yes);
        struct request *q;
        struct hand *h;

        begin(usual());
        h = join(0, "t0", !yes, &o); /* its model says the opposite */
        q = submit();
        assert_int_equal(q->call.core.idempotent, yes);
        as_frame_put_options(&h->out, &no_options);
        UNTIL(w.fleet->deploys[0]->options.idempotent == AS_FLEET_AS_REGISTERED);
        assert_int_equal(submit()->call.core.idempotent, !yes);
        assert_int_equal(q->call.core.idempotent, yes); /* what it was taken with */
        end();
    }
}

static void options_that_make_no_sense_end_the_link(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_REQUEST_TIMEOUT, AS_FRAME_OPTION_MAX + 1);
    struct hand *h;

    begin(usual());
    h = join(0, "join", false, &no_options);
    as_frame_put_options(&h->out, &o);
    UNTIL(w.gone == 1);
    end();
}

/* --- the supervisor's word that a process is dead --- */

/* Its socket has ended too, which nobody has looked at yet: that is the end of a dead process's
 * link, not the beginning of a wait for its death. */
static void a_dead_process_has_no_link(void **state AS_UNUSED)
{
    struct request *q;
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    q = submit();
    start(h, 1);
    hand_close(h);
    as_fleet_remove_process(w.fleet, AS_STR("t0"), AS_LOSS_KILLED);
    assert_true(q->answered);
    UNTIL(w.gone == 1); /* when clients have their answers */
    assert_int_equal(q->call.outcome.err, AS_EMAYHAVERUN);
    end();
}

static uint64_t exits(enum as_fleet_exit why)
{
    return w.fleet->deploys[0]->exits[why];
}

static void ends_are_counted_by_their_cause(void **state AS_UNUSED)
{
    static const struct {
        enum as_exit_kind kind;
        enum as_fleet_exit counted;
    } told[] = {
        {AS_EXIT_CODE, AS_FLEET_EXIT_CODE},       {AS_EXIT_CRASH, AS_FLEET_EXIT_CRASH},
        {AS_EXIT_KILLED, AS_FLEET_EXIT_KILLED},   {AS_EXIT_OOM, AS_FLEET_EXIT_OOM},
        {AS_EXIT_STOPPED, AS_FLEET_EXIT_STOPPED},
    };
    struct as_frame_options o = one_option(AS_FRAME_OPT_HEALTH_FAILURES, 1);
    struct hand *h;

    begin(usual());
    for (size_t i = 0; i < AS_COUNT(told); i++) { /* also of one that never came */
        as_fleet_add_process(w.fleet, AS_STR("t"), AS_STR("default#app-9"), AS_STR("default#app"));
        as_fleet_record_exit(w.fleet, AS_STR("t"), told[i].kind);
        as_fleet_remove_process(w.fleet, AS_STR("t"), AS_LOSS_KILLED);
        assert_int_equal(exits(told[i].counted), 1);
    }
    as_fleet_record_exit(w.fleet, AS_STR("unknown"), AS_EXIT_CODE);
    as_fleet_record_exit(w.fleet, AS_STR("t0"), AS_EXIT_STOPPED + 1); /* no kind that we know */
    o.has |= 1u << AS_FRAME_OPT_HEALTH_PERIOD;
    o.value[AS_FRAME_OPT_HEALTH_PERIOD] = AS_MS;
    h = join(0, "t0", false, &o);
    expect(h, AS_FRAME_CONTROL);
    reply(h, h->f.stream, AS_CONTROL_HEALTH, 14, "no GPU");
    UNTIL(w.killed == 1);
    as_fleet_record_exit(w.fleet, AS_STR("t0"), AS_EXIT_KILLED); /* by us, and this is why */
    die(0, "t0");
    h = join(1, "t1", false, &no_options);
    as_frame_put_control(&h->out, 1, &(struct as_frame_control){.op = AS_CONTROL_HEALTH});
    UNTIL(w.killed == 2);
    as_fleet_record_exit(w.fleet, AS_STR("t1"), AS_EXIT_KILLED);
    die(1, "t1");
    for (uint32_t why = 0; why < AS_FLEET_EXITS; why++) {
        assert_non_null(as_fleet_exit_name(why));
        assert_int_equal(exits((enum as_fleet_exit)why),
                         why != AS_FLEET_EXIT_HUNG && why != AS_FLEET_EXIT_SILENT);
    }
    assert_null(as_fleet_exit_name(AS_FLEET_EXITS));
    end();
}

/* --- questions of the controller's --- */

static uint64_t expect_control(struct hand *h, enum as_control_op op, const char *text)
{
    struct as_frame_control c;

    expect(h, AS_FRAME_CONTROL);
    assert_int_equal(as_frame_get_control(&h->f, &c), 0);
    assert_int_equal(c.op, op);
    assert_str(c.text, text);
    return h->f.stream;
}

static uint64_t expect_ask(struct hand *h, const char *text)
{
    return expect_control(h, AS_CONTROL_RECONFIGURE, text);
}

static void ask(const char *token, uint64_t id, const char *text)
{
    as_fleet_send_control(w.fleet, as_str_of(token), id, AS_CONTROL_RECONFIGURE, as_str_of(text));
}

static void a_control_is_answered_under_its_id(void **state AS_UNUSED)
{
    uint64_t stream;
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    ask("t0", 41, "{\"rank\":1}");
    stream = expect_ask(h, "{\"rank\":1}");
    assert_int_equal(ready_replicas(), 0); /* what comes now is for the new configuration */
    submit();
    ask("t0", 42, "{}"); /* one at a time */
    assert_int_equal(w.answers, 1);
    assert_int_equal(w.id, 42);
    assert_int_equal(w.err, AS_EFULL);
    reply(h, stream + 7, AS_CONTROL_RECONFIGURE, 0, ""); /* to nothing */
    reply(h, stream, AS_CONTROL_RECONFIGURE, 0, "done");
    UNTIL(w.answers == 2);
    assert_int_equal(w.id, 41);
    assert_int_equal(w.err, 0);
    assert_string_equal(w.why, "done");
    assert_string_equal(w.token, "t0");
    expect(h, AS_FRAME_OPEN);
    ask("t0", 43, "{}");
    reply(h, expect_ask(h, "{}"), AS_CONTROL_RECONFIGURE, 3, "Traceback");
    UNTIL(w.answers == 3);
    assert_int_equal(w.err, AS_EHANDLER);
    assert_string_equal(w.why, "Traceback");
    ask("t0", 44, "{}"); /* why is told, whatever is not said */
    reply(h, expect_ask(h, "{}"), AS_CONTROL_RECONFIGURE, AS_STATUS_UNIMPLEMENTED, "");
    UNTIL(w.answers == 4);
    assert_string_equal(w.why, "the worker cannot be reconfigured");
    ask("t0", 45, "{}");
    reply(h, expect_ask(h, "{}"), AS_CONTROL_RECONFIGURE, 9, "");
    UNTIL(w.answers == 5);
    assert_string_equal(w.why, "the worker refused it and gave no reason");
    ask("t0", 46, "{}");
    reply(h, expect_ask(h, "{}"), AS_CONTROL_RECONFIGURE, 0, "");
    UNTIL(w.answers == 6);
    assert_string_equal(w.why, "");
    assert_int_equal(ready_replicas(), 1);
    end();
}

static void ask_scaling(uint64_t id, const char *text)
{
    as_fleet_send_control(w.fleet, AS_STR("t0"), id, AS_CONTROL_SCALING, as_str_of(text));
}

/* A question to a scaling policy stops no requests, and a reconfigure may come beside it. */
static void a_question_to_a_policy_is_apart(void **state AS_UNUSED)
{
    uint64_t scaling, other;
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    ask_scaling(50, "{1}");
    scaling = expect_control(h, AS_CONTROL_SCALING, "{1}");
    assert_int_equal(ready_replicas(), 1);
    ask_scaling(51, "{2}"); /* one at a time */
    assert_int_equal(w.answers, 1);
    assert_int_equal(w.err, AS_EFULL);
    ask("t0", 52, "{}");
    other = expect_ask(h, "{}");
    assert_int_equal(ready_replicas(), 0);
    reply(h, scaling, AS_CONTROL_SCALING, 0, "{\"replicas\": 2}");
    UNTIL(w.answers == 2);
    assert_int_equal(w.id, 50);
    assert_int_equal(w.err, 0);
    assert_string_equal(w.why, "{\"replicas\": 2}");
    assert_int_equal(ready_replicas(), 0);
    reply(h, other, AS_CONTROL_RECONFIGURE, 0, "");
    UNTIL(w.answers == 3);
    assert_int_equal(w.id, 52);
    assert_int_equal(ready_replicas(), 1);
    ask_scaling(53, "{3}");
    reply(h, expect_control(h, AS_CONTROL_SCALING, "{3}"), AS_CONTROL_SCALING, 9, "it has raised");
    UNTIL(w.answers == 4);
    assert_int_equal(w.err, AS_EHANDLER);
    assert_string_equal(w.why, "it has raised");
    ask_scaling(54, "{4}");
    expect_control(h, AS_CONTROL_SCALING, "{4}");
    die(0, "t0");
    assert_int_equal(w.answers, 5);
    assert_int_equal(w.id, 54);
    assert_int_equal(w.err, AS_EUNAVAILABLE);
    end();
}

static void every_control_has_an_answer(void **state AS_UNUSED)
{
    char *large = calloc(1, AS_FRAME_CONTROL_TEXT + 2);
    struct hand *h;

    begin(usual());
    ask("t0", 1, "{}"); /* nobody there */
    assert_int_equal(w.err, AS_EUNAVAILABLE);
    ask("unknown", 2, "{}");
    assert_int_equal(w.err, AS_EUNAVAILABLE);
    assert_int_equal(w.id, 2);
    h = join(0, "t0", false, &no_options);
    memset(large, 'x', AS_FRAME_CONTROL_TEXT + 1);
    ask("t0", 3, large);
    assert_int_equal(w.err, AS_ETOOBIG);
    large[AS_FRAME_CONTROL_TEXT] = 0;
    ask("t0", 4, large);
    assert_int_equal(w.answers, 3);
    expect_ask(h, large);
    die(0, "t0"); /* without a word */
    assert_int_equal(w.answers, 4);
    assert_int_equal(w.id, 4);
    assert_int_equal(w.err, AS_EUNAVAILABLE);
    free(large);
    end();
}

/* --- retiring --- */

static void an_idle_replica_retires_at_once(void **state AS_UNUSED)
{
    begin(usual());
    as_fleet_retire_process(w.fleet, AS_STR("t0")); /* it has no link yet, and holds nothing */
    assert_int_equal(w.retired, 1);
    assert_string_equal(w.token, "t0");
    join(0, "t0", false, &no_options); /* nor does it get anything later */
    assert_int_equal(ready_replicas(), 0);
    as_fleet_retire_process(w.fleet, AS_STR("t0"));
    assert_int_equal(w.retired, 2);
    as_fleet_retire_process(w.fleet, AS_STR("unknown"));
    assert_int_equal(w.retired, 3);
    assert_string_equal(w.token, "unknown");
    end();
}

static void a_busy_replica_retires_with_its_last_answer(void **state AS_UNUSED)
{
    struct request *a, *b, *c;
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    a = submit();
    b = submit();
    start(h, 2);
    as_fleet_retire_process(w.fleet, AS_STR("t0"));
    c = submit(); /* waits for another */
    assert_int_equal(w.retired, 0);
    as_frame_put_end(&h->out, h->streams[0], 0);
    UNTIL(a->answered);
    assert_int_equal(w.retired, 0);
    as_fleet_client_cancel(&w.client, &b->call); /* it runs until its worker says so */
    assert_int_equal(w.retired, 0);
    as_frame_put_error(&h->out, h->streams[1],
                       &(struct as_frame_error){.code = 1, .flags = AS_ERROR_F_STARTED});
    UNTIL(w.retired == 1);
    assert_true(b->released);
    assert_false(c->answered);
    assert_int_equal(h->n, 2);
    expect(join(1, "t1", false, &no_options), AS_FRAME_OPEN);
    end();
}

static void a_retiring_replica_that_dies_has_retired(void **state AS_UNUSED)
{
    struct request *a;

    begin(usual());
    join(0, "t0", false, &no_options);
    a = submit();
    as_fleet_retire_process(w.fleet, AS_STR("t0"));
    assert_int_equal(w.retired, 0);
    die(0, "t0");
    UNTIL(w.retired == 1);
    assert_false(a->answered); /* it had not started, and waits for another */
    end();
}

/* --- leaving by itself --- */

static void a_worker_of_ours_that_drains_by_itself_is_reported(void **state AS_UNUSED)
{
    struct request *a;
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    a = submit();
    start(h, 1);
    as_frame_put_text(&h->out, AS_FRAME_DRAIN, (struct as_str){0});
    UNTIL(w.left == 1);
    assert_string_equal(w.token, "t0");
    as_frame_put_text(&h->out, AS_FRAME_DRAIN, (struct as_str){0}); /* once */
    as_frame_put_end(&h->out, h->streams[0], 0);
    UNTIL(a->answered);
    assert_int_equal(w.left, 1);
    end();
}

/* Nobody waits for that: it came by itself, is to end anyway, or the whole fleet drains. */
static void others_that_drain_are_not_reported(void **state AS_UNUSED)
{
    struct request *a;
    struct hand *h;

    for (int i = 0; i < 3; i++) {
        begin(usual());
        h = join(0, i == 0 ? "join" : "t0", false, &no_options);
        a = submit();
        start(h, 1);
        if (i == 1)
            as_fleet_retire_process(w.fleet, AS_STR("t0"));
        if (i == 2)
            as_fleet_drain(w.fleet);
        as_frame_put_text(&h->out, AS_FRAME_DRAIN, (struct as_str){0});
        as_frame_put_end(&h->out, h->streams[0], 0);
        UNTIL(a->answered);
        assert_int_equal(w.left, 0);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_deployment_has_a_deadline_for_them),
        cmocka_unit_test(a_worker_bounds_the_queue_while_requests_wait),
        cmocka_unit_test(a_worker_says_how_clients_are_refused),
        cmocka_unit_test(a_worker_declares_what_may_run_twice),
        cmocka_unit_test(options_that_make_no_sense_end_the_link),
        cmocka_unit_test(a_dead_process_has_no_link),
        cmocka_unit_test(ends_are_counted_by_their_cause),
        cmocka_unit_test(a_control_is_answered_under_its_id),
        cmocka_unit_test(a_question_to_a_policy_is_apart),
        cmocka_unit_test(every_control_has_an_answer),
        cmocka_unit_test(an_idle_replica_retires_at_once),
        cmocka_unit_test(a_busy_replica_retires_with_its_last_answer),
        cmocka_unit_test(a_worker_of_ours_that_drains_by_itself_is_reported),
        cmocka_unit_test(others_that_drain_are_not_reported),
        cmocka_unit_test(a_retiring_replica_that_dies_has_retired),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
