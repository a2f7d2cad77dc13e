/* Drivers: programs that only make calls. */
#include "call_world.h"
#include "core/dispatch/choice/multiplex.h"
#include "link/call/route_key.h"

static struct as_link *driver_link(void)
{
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &w.fleet->upstreams) {
        struct as_link *l = AS_CONTAINER(u, struct as_link, up);

        if (l->is_driver)
            return l;
    }
    return NULL;
}

static void a_driver_calls_and_leaves(void **state AS_UNUSED)
{
    struct hand *d, *callee;

    begin_calls(calls_conf());
    callee = serve(1, "d", "Callee");
    d = drive(0);
    expect(d, AS_FRAME_CREDIT);
    say_target(d, 0, "Callee");
    say_open(d, 2, 0, "q");
    expect(callee, AS_FRAME_OPEN);
    say_answer(callee, callee->f.stream, "a", false);
    expect(d, AS_FRAME_DATA);
    assert_text(d, true, "a");
    assert_string_equal(driver_link()->up.name, "guest");
    assert_string_equal(driver_link()->peer, "a test");
    as_frame_put_text(&d->out, AS_FRAME_GOODBYE, AS_STR("done"));
    UNTIL(!driver_link());
    assert_int_equal(w.gone, 0); /* it was no replica */
    end();
}

static void several_drivers(void **state AS_UNUSED)
{
    struct hand *callee, *d[2];

    begin_calls(calls_conf());
    callee = serve(1, "d", "Callee");
    d[0] = drive(0);
    d[1] = drive(2);
    for (int i = 0; i < 2; i++) {
        say_target(d[i], 0, "Callee");
        say_open(d[i], 2, 0, i ? "two" : "one");
        expect(callee, AS_FRAME_OPEN);
        assert_text(callee, false, i ? "two" : "one");
    }
    say_answer(callee, callee->streams[0], "1", false);
    say_answer(callee, callee->streams[1], "2", false);
    expect(d[0], AS_FRAME_DATA);
    assert_text(d[0], true, "1");
    expect(d[1], AS_FRAME_DATA);
    assert_text(d[1], true, "2");
    end();
}

static void the_token_and_the_role_go_together(void **state AS_UNUSED)
{
    static const struct {
        const char *token;
        uint64_t caps;
    } bad[] = {
        {"drive", CALL_CAPS},                   /* not said to be a driver */
        {"join", AS_CAP_CALLS | AS_CAP_DRIVER}, /* another token */
        {"c", AS_CAP_CALLS | AS_CAP_DRIVER},    /* a replica's */
        {"", AS_CAP_CALLS | AS_CAP_DRIVER},
        {"drive", AS_CAP_DRIVER}, /* it could not call */
    };

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        struct hand *h;

        begin_calls(calls_conf());
        h = greet_as(0, bad[i].token, bad[i].caps);
        expect(h, AS_FRAME_GOODBYE);
        assert_null(driver_link());
        end();
    }
}

static void a_driver_serves_nothing(void **state AS_UNUSED)
{
    static const enum as_frame_type types[] = {
        AS_FRAME_REGISTER, AS_FRAME_CREDIT,   AS_FRAME_DATA,   AS_FRAME_OPTIONS,
        AS_FRAME_TRAFFIC,  AS_FRAME_RETURNED, AS_FRAME_CONTROL};

    for (size_t i = 0; i < AS_COUNT(types); i++) {
        struct bytes b = raw_frame(types[i], 0, types[i] == AS_FRAME_DATA, "", 0);
        struct hand *d;

        begin_calls(calls_conf());
        d = drive(0);
        as_outq_copy(&d->out, b.p, b.n);
        UNTIL(!driver_link());
        assert_int_equal(w.killed, 0); /* it is not our process */
        free(b.p);
        end();
    }
}

static void a_driver_is_pinged(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = calls_conf();
    struct hand *d;
    uint64_t opaque;

    conf.ping_interval = 4 * AS_MS;
    conf.ping_timeout = 20 * AS_MS;
    begin_calls(conf);
    d = drive(0);
    expect(d, AS_FRAME_PING);
    assert_int_equal(as_frame_get_ping(&d->f, &opaque), 0);
    as_frame_put_ping(&d->out, AS_FRAME_PONG, opaque);
    as_frame_put_ping(&d->out, AS_FRAME_PING, 77);
    expect(d, AS_FRAME_PONG);
    assert_int_equal(as_frame_get_ping(&d->f, &opaque), 0);
    assert_int_equal(opaque, 77);
    assert_non_null(driver_link());
    UNTIL(!driver_link()); /* it does not answer the next one */
    end();
}

static void another_dispatcher_takes_over(void **state AS_UNUSED)
{
    struct hand *d, *callee;
    uint32_t foreign;

    begin_calls(calls_conf());
    callee = serve(1, "d", "Callee");
    d = greet_as(0, "drive", AS_CAP_CALLS | AS_CAP_DRIVER | AS_CAP_MOVE);
    expect(d, AS_FRAME_HELLO);
    say_target(d, 0, "Callee");
    say_open(d, 2, 0, "q");
    expect(callee, AS_FRAME_OPEN);
    (void)as_fleet_hand_over(w.fleet, &foreign);
    assert_int_equal(foreign, 0);
    expect(d, AS_FRAME_MOVE);
    say_answer(callee, callee->f.stream, "a", false); /* its calls here end here */
    expect(d, AS_FRAME_DATA);
    end();
}

static void a_draining_server_takes_no_new_calls(void **state AS_UNUSED)
{
    struct hand *d, *caller, *callee;
    struct as_frame_error e;

    begin_calls(calls_conf());
    callee = serve(1, "d", "Callee");
    caller = serve(2, "c", "Caller");
    d = drive(0);
    say_target(d, 0, "Caller");
    say_target(caller, 0, "Callee");
    say_open(d, 2, 0, "q");
    expect(caller, AS_FRAME_OPEN);
    as_fleet_drain(w.fleet);
    say_open(d, 4, 0, "late");
    e = expect_error(d, 4, AS_STATUS_UNAVAILABLE);
    assert_non_null(strstr(e.message.p, "shutting down"));
    say_open(caller, 2, caller->streams[0], "child"); /* of a request that was accepted */
    expect(callee, AS_FRAME_OPEN);
    say_answer(callee, callee->f.stream, "a", false);
    expect(caller, AS_FRAME_DATA);
    say_answer(caller, caller->streams[0], "b", false);
    expect(d, AS_FRAME_DATA);
    assert_text(d, true, "b");
    end();
}

/* --- reports and the status page --- */

static struct as_fleet_replica seen;
static struct as_fleet_driver seen_driver;
static uint32_t n_replicas, n_drivers;

static void note_replica(void *arg AS_UNUSED, const struct as_fleet_replica *r)
{
    seen = *r;
    n_replicas++;
}

static void note_driver(void *arg AS_UNUSED, const struct as_fleet_driver *d)
{
    seen_driver = *d;
    n_drivers++;
}

static void look(void)
{
    n_replicas = n_drivers = 0;
    as_fleet_each_replica(w.fleet, note_replica, NULL);
    as_fleet_each_driver(w.fleet, note_driver, NULL);
}

static void drivers_are_listed_apart(void **state AS_UNUSED)
{
    struct hand *d;

    begin_calls(calls_conf());
    serve(1, "d", "Callee");
    d = drive(0);
    say_target(d, 0, "Callee");
    say_open(d, 2, 0, "q");
    UNTIL(as_fleet_unanswered(w.fleet) == 1);
    look();
    assert_int_equal(n_replicas, 1);
    assert_int_equal(n_drivers, 1);
    assert_true(as_str_eq(seen_driver.name, AS_STR("guest")));
    assert_true(as_str_eq(seen_driver.peer, AS_STR("a test")));
    assert_int_equal(seen_driver.calls, 1);
    assert_int_equal(seen_driver.pid, getpid());
    end();
}

static void say_report(struct hand *h, uint32_t kind, const char *text)
{
    struct as_frame_report r = {kind, as_str_of(text)};
    struct as_link *l = link_of("d");
    uint64_t received = l->received;

    as_frame_put_report(&h->out, &r);
    UNTIL(l->received > received);
    look();
}

/* The last report of each kind that is well-formed stays. */
static void reports_are_kept(void **state AS_UNUSED)
{
    char text[1100] = "[";
    struct hand *h;

    begin_calls(calls_conf());
    h = serve(1, "d", "Callee");
    say_report(h, AS_REPORT_MODEL_IDS, "[\"m1\"]");
    assert_true(as_str_eq(seen.reports[AS_REPORT_MODEL_IDS], AS_STR("[\"m1\"]")));
    assert_int_equal(seen.models, 1); /* its router knows them, too */
    say_report(h, AS_REPORT_MODEL_IDS, "[\"m1\", \"m2\"]");
    assert_true(as_str_eq(seen.reports[AS_REPORT_MODEL_IDS], AS_STR("[\"m1\", \"m2\"]")));
    assert_int_equal(seen.models, 2);
    say_report(h, AS_REPORT_MODEL_IDS, "[broken");
    assert_true(as_str_eq(seen.reports[AS_REPORT_MODEL_IDS], AS_STR("[\"m1\", \"m2\"]")));
    say_report(h, 99, "of a later version");
    say_report(h, AS_REPORT_METRICS, "F a gauge \"\"\nS a {} 1\n");
    assert_int_equal(seen.reports[AS_REPORT_METRICS].n, 22);
    memset(text + 1, ' ', sizeof(text) - 1); /* the limit: N bytes, and N + 1 */
    text[999] = ']';
    text[1000] = 0;
    say_report(h, AS_REPORT_MODEL_IDS, text);
    assert_int_equal(seen.reports[AS_REPORT_MODEL_IDS].n, 1000);
    memcpy(text + 999, " ]", 3);
    say_report(h, AS_REPORT_MODEL_IDS, text);
    assert_int_equal(seen.reports[AS_REPORT_MODEL_IDS].n, 1000);
    say_report(h, AS_REPORT_MODEL_IDS, "");
    assert_int_equal(seen.reports[AS_REPORT_MODEL_IDS].n, 0);
    say_report(h, AS_REPORT_AUTOSCALING, "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}");
    assert_int_equal(seen.reports[AS_REPORT_AUTOSCALING].n, 25);
    say_report(h, AS_REPORT_AUTOSCALING, "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5}");
    say_report(h, AS_REPORT_AUTOSCALING, "{\"a\":\"1\"}");
    assert_int_equal(seen.reports[AS_REPORT_AUTOSCALING].n, 25); /* the one before stays */
    memcpy(text, "{\"a\":1", 6);
    memset(text + 6, ' ', 101);
    text[99] = '}';
    text[100] = 0;
    say_report(h, AS_REPORT_AUTOSCALING, text);
    assert_int_equal(seen.reports[AS_REPORT_AUTOSCALING].n, 100);
    text[99] = ' ';
    text[100] = '}';
    text[101] = 0;
    say_report(h, AS_REPORT_AUTOSCALING, text);
    assert_int_equal(seen.reports[AS_REPORT_AUTOSCALING].n, 100);
    assert_int_equal(seen.models, 0);
    assert_int_equal(w.killed, 0);
    end();
}

static void hear(void *ctx, enum as_log_level level AS_UNUSED, const char *line, size_t n)
{
    static const char cut[] = "event=models_cut ";

    *(uint32_t *)ctx += memmem(line, n, cut, sizeof(cut) - 1) != NULL;
}

static bool is_held(const char *id)
{
    struct as_request q;

    as_request_init(&q);
    q.model_key = as_route_key(as_str_of(id), w.fleet->conf.deployment.seed);
    return as_multiplex_holds(link_of("d")->up.replica, &q);
}

/* Of a longer report the last models count: N, and N + 1. It is logged once until one fits. */
static void of_too_many_models_the_last_ones_count(void **state AS_UNUSED)
{
    uint32_t cuts = 0;
    struct as_log log = {.level = AS_LOG_INFO, .sink = hear, .ctx = &cuts};
    const struct as_log *before;
    struct hand *h;

    begin_calls(calls_conf());
    before = w.fleet->log;
    w.fleet->log = &log;
    h = serve(1, "d", "Callee");
    say_report(h, AS_REPORT_MODEL_IDS, "[\"m1\",\"m2\",\"m3\"]");
    assert_int_equal(seen.models, 3);
    assert_true(is_held("m1"));
    assert_int_equal(cuts, 0);
    say_report(h, AS_REPORT_MODEL_IDS, "[\"m1\",\"m2\",\"m3\",\"m4\"]");
    assert_int_equal(seen.models, 3);
    assert_false(is_held("m1"));
    assert_true(is_held("m2") && is_held("m4"));
    assert_true(as_str_eq(seen.reports[AS_REPORT_MODEL_IDS],
                          AS_STR("[\"m1\",\"m2\",\"m3\",\"m4\"]"))); /* pages show all */
    assert_int_equal(cuts, 1);
    say_report(h, AS_REPORT_MODEL_IDS, "[\"m1\",\"m2\",\"m3\",\"m5\"]");
    assert_int_equal(cuts, 1);
    say_report(h, AS_REPORT_MODEL_IDS, "[\"m1\"]");
    assert_int_equal(seen.models, 1);
    say_report(h, AS_REPORT_MODEL_IDS, "[\"m1\",\"m2\",\"m3\",\"m4\"]");
    assert_int_equal(cuts, 2);
    assert_int_equal(w.killed, 0);
    w.fleet->log = before;
    end();
}

/* They are told once to who asks for them, and again after it has asked again. */
static void statistics_for_autoscaling_are_told(void **state AS_UNUSED)
{
    struct as_str callee = AS_STR("a#Callee");
    struct hand *h;

    begin_calls(calls_conf());
    h = serve(0, "d", "callee");
    as_fleet_count(w.fleet, callee, true, 0, AS_MS);
    UNTIL(w.loads == 1);
    say_report(h, AS_REPORT_AUTOSCALING, "{\"depth\":1}");
    for (uint32_t i = 0; i < 20; i++)
        turn();
    assert_int_equal(w.loads, 1); /* nobody wants them */
    assert_int_equal(w.n_stats, 0);
    as_fleet_count(w.fleet, callee, true, AS_FLEET_COUNT_STATS, AS_MS);
    UNTIL(w.n_stats == 1);
    assert_string_equal(w.stats, "{\"depth\":1}");
    w.refuse_stats = true;
    say_report(h, AS_REPORT_AUTOSCALING, "{\"depth\":2}");
    for (uint32_t loads = w.loads; w.loads < loads + 3;)
        turn();
    assert_int_equal(w.n_stats, 1);
    w.refuse_stats = false;
    UNTIL(w.n_stats == 2);
    assert_string_equal(w.stats, "{\"depth\":2}");
    for (uint32_t i = 0; i < 20; i++)
        turn();
    assert_int_equal(w.n_stats, 2);
    as_fleet_count(w.fleet, callee, true, AS_FLEET_COUNT_STATS, AS_MS); /* a new controller */
    UNTIL(w.n_stats == 3);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_driver_calls_and_leaves),
        cmocka_unit_test(several_drivers),
        cmocka_unit_test(the_token_and_the_role_go_together),
        cmocka_unit_test(a_driver_serves_nothing),
        cmocka_unit_test(a_driver_is_pinged),
        cmocka_unit_test(another_dispatcher_takes_over),
        cmocka_unit_test(a_draining_server_takes_no_new_calls),
        cmocka_unit_test(drivers_are_listed_apart),
        cmocka_unit_test(reports_are_kept),
        cmocka_unit_test(of_too_many_models_the_last_ones_count),
        cmocka_unit_test(statistics_for_autoscaling_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
