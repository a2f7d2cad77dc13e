/* The worker library: CONTROL waits for the runner, one is answered at a time, and the answer goes
 * to the link that sent it. Also OPTIONS, and the time since which the runner is in a handler. */
#include "worker_pair.h"

#include <string.h>

static struct as_worker *asks_worker(struct fake *d)
{
    static const struct as_worker_model model = {
        .size = sizeof(model), .name = "echo", .max_ongoing = 100};
    struct as_worker_conf conf = {.size = sizeof(conf),
                                  .path = d->path,
                                  .token = "secret",
                                  .slots = 4,
                                  .flags = AS_WORKER_ASKS};
    struct as_worker *w;

    assert_int_equal(as_worker_new(&w, &conf), 0);
    assert_int_equal(as_worker_add(w, &model), 0);
    return w;
}

static int setup(void **state)
{
    struct pair *p = as_xalloc(sizeof(*p));

    fake_init(&p->d);
    p->w = asks_worker(&p->d);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    *state = p;
    return 0;
}

static void ask(struct pair *p, uint64_t stream, uint16_t op, const char *text)
{
    struct as_frame_control c = {.op = op, .text = as_str_of(text)};

    as_frame_put_control(&p->d.out, stream, &c);
    fake_send(&p->d);
}

static struct as_frame_control expect_reply(struct pair *p, uint64_t stream)
{
    struct as_frame_control c;

    fake_expect(&p->d, AS_FRAME_CONTROL);
    assert_int_equal(p->d.f.stream, stream);
    assert_int_equal(as_frame_get_control(&p->d.f, &c), 0);
    assert_true(c.reply);
    return c;
}

static struct as_worker_ask *next_ask(struct pair *p)
{
    struct as_worker_ask *a;

    while (!(a = as_worker_next_ask(p->w)))
        assert_int_equal(as_worker_wait(p->w), 0);
    return a;
}

static void a_control_is_answered_by_the_runner(void **state)
{
    struct pair *p = *state;
    struct as_frame_control c;
    struct as_worker_ask *a;

    assert_null(as_worker_next_ask(p->w));
    ask(p, 5, AS_CONTROL_RECONFIGURE, "{\"rank\":2}");
    a = next_ask(p);
    assert_int_equal(as_worker_ask_op(a), AS_WORKER_RECONFIGURE);
    assert_str(as_worker_ask_text(a), "{\"rank\":2}");
    as_worker_reply(p->w, a, AS_STATUS_INVALID_ARGUMENT, AS_STR("no such rank"));
    c = expect_reply(p, 5);
    assert_int_equal(c.op, AS_CONTROL_RECONFIGURE);
    assert_int_equal(c.code, AS_STATUS_INVALID_ARGUMENT);
    assert_str(c.text, "no such rank");
}

static void there_is_one_at_a_time(void **state)
{
    struct pair *p = *state;
    struct as_worker_ask *a;

    ask(p, 1, AS_CONTROL_HEALTH, "");
    ask(p, 2, AS_CONTROL_RECONFIGURE, "{}");
    a = next_ask(p);
    assert_int_equal(as_worker_ask_op(a), AS_WORKER_HEALTH);
    pair_sync(p);
    assert_null(as_worker_next_ask(p->w));
    as_worker_reply(p->w, a, AS_STATUS_OK, AS_STR(""));
    assert_int_equal(expect_reply(p, 1).code, 0);
    a = next_ask(p);
    assert_int_equal(as_worker_ask_op(a), AS_WORKER_RECONFIGURE);
    as_worker_reply(p->w, a, 99, AS_STR("")); /* no status that there is */
    assert_int_equal(expect_reply(p, 2).code, AS_STATUS_UNKNOWN);
}

/* The runner hears of it when it is back, and the handler's time is not the check's. */
static void a_control_waits_for_the_handler(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);
    struct as_worker_ask *a;

    assert_true(p->d.page->busy_since > 0);
    ask(p, 3, AS_CONTROL_HEALTH, "");
    as_frame_put_ping(&p->d.out, AS_FRAME_PING, 7);
    fake_send(&p->d);
    fake_expect(&p->d, AS_FRAME_PONG); /* the guard has read both, and answers for itself only */
    pair_echo(p, q);
    a = as_worker_next_ask(p->w); /* before the next request, without waiting */
    assert_non_null(a);
    assert_int_equal(p->d.page->busy_since, 0);
    as_worker_reply(p->w, a, AS_STATUS_OK, AS_STR("well"));
    fake_expect(&p->d, AS_FRAME_DATA);
    assert_int_equal(expect_reply(p, 3).code, 0);
}

static void too_many_controls_are_refused(void **state)
{
    struct pair *p = *state;
    struct as_worker_ask *a;

    for (uint64_t i = 1; i <= 9; i++) /* eight wait */
        ask(p, i, AS_CONTROL_HEALTH, "");
    while (fake_is_quiet(&p->d))
        (void)as_worker_poll(p->w);
    assert_int_equal(expect_reply(p, 9).code, AS_STATUS_RESOURCE_EXHAUSTED);
    for (uint64_t i = 1; i <= 8; i++) {
        a = next_ask(p);
        as_worker_reply(p->w, a, AS_STATUS_OK, AS_STR(""));
        assert_int_equal(expect_reply(p, i).code, 0);
    }
}

static void the_answer_to_a_lost_link_goes_nowhere(void **state)
{
    struct pair *p = *state;
    struct as_worker_ask *a;

    ask(p, 1, AS_CONTROL_HEALTH, "");
    ask(p, 2, AS_CONTROL_HEALTH, "");
    a = next_ask(p);
    fake_hang_up(&p->d);
    assert_int_equal(as_worker_wait(p->w), AS_EOF);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    assert_null(as_worker_next_ask(p->w)); /* what waited has gone with it */
    as_worker_reply(p->w, a, AS_STATUS_OK, AS_STR(""));
    ask(p, 7, AS_CONTROL_HEALTH, "");
    a = next_ask(p);
    as_worker_reply(p->w, a, AS_STATUS_OK, AS_STR(""));
    expect_reply(p, 7); /* the first thing that the new link hears */
}

/* What the worker says of itself goes before what it would be asked. */
static void health_that_was_set_is_answered_at_once(void **state)
{
    struct pair *p = *state;
    struct as_frame_control c;

    as_worker_set_health(p->w, AS_STATUS_UNAVAILABLE, "no GPU");
    ask(p, 1, AS_CONTROL_HEALTH, "");
    assert_int_equal(as_worker_wait(p->w), 0);
    c = expect_reply(p, 1);
    assert_int_equal(c.code, AS_STATUS_UNAVAILABLE);
    assert_str(c.text, "no GPU");
    assert_null(as_worker_next_ask(p->w));
}

/* --- held --- */

static void the_page_shows_when_the_runner_is_in_a_handler(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;

    assert_null(as_worker_next(p->w));
    assert_int_equal(p->d.page->busy_since, 0);
    q = pair_start(p, 1, 8);
    assert_int_equal(p->d.page->busy_since, p->d.page->clock);
    pair_echo(p, q);
    assert_null(as_worker_next(p->w)); /* it is back */
    assert_int_equal(p->d.page->busy_since, 0);
    as_worker_busy(p->w, true); /* an event loop says so itself */
    assert_true(p->d.page->busy_since > 0);
    as_worker_busy(p->w, false);
    assert_int_equal(p->d.page->busy_since, 0);
}

/* The runner of threads hands on, and is free again. */
static void a_runner_that_hands_over_is_not_held(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);

    assert_null(as_worker_next(p->w));
    assert_int_equal(p->d.page->busy_since, 0);
    pair_echo(p, q);
}

/* --- options --- */

static struct as_frame_options expect_options(struct pair *p)
{
    struct as_frame_options o;

    do {
        assert_true(fake_read(&p->d));
    } while (p->d.f.type == AS_FRAME_DATA); /* answers to what is not this test's matter */
    assert_int_equal(p->d.f.type, AS_FRAME_OPTIONS);
    assert_int_equal(as_frame_get_options(&p->d.f, &o), 0);
    return o;
}

static void options_are_sent_when_they_change(void **state)
{
    struct pair *p = *state;
    struct as_worker_options o = {.size = sizeof(o),
                                  .health_period = AS_NEVER,
                                  .execution_timeout = 2 * AS_SEC,
                                  .dump_signal = 26};
    struct as_frame_options told;

    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    told = expect_options(p);
    assert_int_equal(told.has, 1u << AS_FRAME_OPT_HEALTH_PERIOD |
                                   1u << AS_FRAME_OPT_EXECUTION_TIMEOUT |
                                   1u << AS_FRAME_OPT_DUMP_SIGNAL);
    assert_int_equal(told.value[AS_FRAME_OPT_HEALTH_PERIOD], 0); /* none */
    assert_int_equal(told.value[AS_FRAME_OPT_EXECUTION_TIMEOUT], 2 * AS_SEC);
    assert_int_equal(told.value[AS_FRAME_OPT_DUMP_SIGNAL], 26);
    o = (struct as_worker_options){.size = sizeof(o)}; /* as the server is set */
    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    assert_int_equal(expect_options(p).has, 0);
}

static void options_have_bounds(void **state)
{
    struct pair *p = *state;
    struct as_worker_options o = {.size = sizeof(o), .health_timeout = 86400 * AS_SEC};

    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    o.health_timeout++;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o.health_timeout = AS_NEVER; /* a check without an end would never fail */
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = (struct as_worker_options){.size = sizeof(o), .dump_signal = 64};
    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    o.dump_signal = 65;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = (struct as_worker_options){.size = sizeof(o), .health_failures = 1000};
    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    o.health_failures = 1001;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = (struct as_worker_options){.size = sizeof(o), .slots = 65535, .max_queued = INT32_MAX};
    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    o.slots++;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o.slots = 0;
    o.max_queued++;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o.max_queued = -2;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o.max_queued = -1;
    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    for (int32_t i = -2; i <= 2; i++) {
        o = (struct as_worker_options){.size = sizeof(o), .idempotent = i};
        assert_int_equal(as_worker_set_options(p->w, &o), i < -1 || i > 1 ? AS_EINVALID : 0);
    }
    o.size = 4;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
}

/* A dispatcher that comes anew is told with the greeting: before the first request. */
static void options_are_sent_to_a_new_link(void **state)
{
    struct pair *p = *state;
    struct as_worker_options o = {.size = sizeof(o), .request_timeout = AS_SEC};

    fake_hang_up(&p->d);
    assert_int_equal(as_worker_wait(p->w), AS_EOF);
    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    assert_int_equal(p->d.options.has, 1u << AS_FRAME_OPT_REQUEST_TIMEOUT);
    assert_int_equal(p->d.options.value[AS_FRAME_OPT_REQUEST_TIMEOUT], AS_SEC);
}

static void the_limits_of_the_deployment_are_sent(void **state)
{
    struct pair *p = *state;
    struct as_worker_options o = {.size = sizeof(o), .max_queued = -1, .idempotent = -1};
    struct as_frame_options told;

    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    told = expect_options(p);
    assert_int_equal(told.has, 1u << AS_FRAME_OPT_MAX_QUEUED | 1u << AS_FRAME_OPT_IDEMPOTENT);
    assert_true(told.value[AS_FRAME_OPT_MAX_QUEUED] == AS_FRAME_QUEUED_ANY);
    assert_int_equal(told.value[AS_FRAME_OPT_IDEMPOTENT], 0);
    o = (struct as_worker_options){
        .size = sizeof(o), .max_queued = 7, .idempotent = 1, .queued_per_caller = true};
    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    told = expect_options(p);
    assert_true(told.has >> AS_FRAME_OPT_PER_CALLER & 1);
    assert_int_equal(told.value[AS_FRAME_OPT_PER_CALLER], 1);
    assert_int_equal(told.value[AS_FRAME_OPT_MAX_QUEUED], 7);
    assert_int_equal(told.value[AS_FRAME_OPT_IDEMPOTENT], 1);
}

static void how_clients_are_refused_is_sent(void **state)
{
    struct pair *p = *state;
    struct as_worker_options o = {
        .size = sizeof(o), .backpressure_status = 429, .backpressure_retry = AS_NEVER};
    struct as_frame_options told;

    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    told = expect_options(p);
    assert_int_equal(told.has, 1u << AS_FRAME_OPT_BACKPRESSURE_STATUS |
                                   1u << AS_FRAME_OPT_BACKPRESSURE_RETRY);
    assert_int_equal(told.value[AS_FRAME_OPT_BACKPRESSURE_STATUS], 429);
    assert_int_equal(told.value[AS_FRAME_OPT_BACKPRESSURE_RETRY], 0);
    o.backpressure_status = 404;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o.backpressure_status = 503;
    o.backpressure_retry = AS_FRAME_OPTION_MAX + 1;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
}

static void the_order_of_requests_is_sent(void **state)
{
    struct pair *p = *state;
    const struct as_worker_options good = {.size = sizeof(good),
                                           .priority_share = 2,
                                           .fairness = AS_WORKER_FAIR_COST,
                                           .codel_target = 5 * AS_MS,
                                           .codel_interval = AS_SEC,
                                           .slow_start = 30 * AS_SEC,
                                           .adaptive_concurrency = true,
                                           .hedge_quantile = 999,
                                           .hedge_budget = 1000,
                                           .hedge_min_delay = AS_NEVER};
    struct as_worker_options o = good;
    struct as_frame_options told;

    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    told = expect_options(p);
    assert_int_equal(told.value[AS_FRAME_OPT_PRIORITY_SHARE], 2);
    assert_int_equal(told.value[AS_FRAME_OPT_FAIRNESS], AS_FRAME_FAIR_COST);
    assert_int_equal(told.value[AS_FRAME_OPT_CODEL_TARGET], 5 * AS_MS);
    assert_int_equal(told.value[AS_FRAME_OPT_CODEL_INTERVAL], AS_SEC);
    assert_int_equal(told.value[AS_FRAME_OPT_SLOW_START], 30 * AS_SEC);
    assert_int_equal(told.value[AS_FRAME_OPT_ADAPTIVE], 1);
    assert_int_equal(told.value[AS_FRAME_OPT_HEDGE_QUANTILE], 999);
    assert_int_equal(told.value[AS_FRAME_OPT_HEDGE_BUDGET], 1000);
    assert_true(told.has >> AS_FRAME_OPT_HEDGE_MIN_DELAY & 1);
    assert_int_equal(told.value[AS_FRAME_OPT_HEDGE_MIN_DELAY], 0);
    o.hedge_quantile = 1000;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = good;
    o.hedge_budget = 1001;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = good;
    o.priority_share = 1;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o.priority_share = 1001;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = good;
    o.fairness = AS_WORKER_FAIR_COST + 1;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = good;
    o.codel_target = AS_FRAME_OPTION_MAX + 1;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = good;
    o.slow_start = AS_FRAME_OPTION_MAX + 1;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = good;
    o.codel_interval = AS_FRAME_OPTION_MAX + 1;
    assert_int_equal(as_worker_set_options(p->w, &o), AS_EINVALID);
    o = (struct as_worker_options){.size = sizeof(o), .codel_interval = AS_NEVER};
    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    assert_int_equal(expect_options(p).has, 0);
}

/* --- slots --- */

static void set_slots(struct pair *p, uint32_t slots)
{
    struct as_worker_options o = {.size = sizeof(o), .slots = slots};

    assert_int_equal(as_worker_set_options(p->w, &o), 0);
    expect_options(p);
}

static uint32_t expect_slots(struct pair *p)
{
    struct as_frame_credit c;

    fake_expect(&p->d, AS_FRAME_CREDIT);
    assert_int_equal(as_frame_get_credit(&p->d.f, &c), 0);
    return c.slots;
}

/* What was on its way when there were more is taken all the same, and waits. */
static void fewer_slots_than_execute(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q[3], *next;

    assert_int_equal(p->d.credit.slots, 4);
    for (uint64_t i = 0; i < 3; i++)
        q[i] = pair_start(p, 2 * i + 1, 8);
    set_slots(p, 2);
    assert_int_equal(expect_slots(p), 2);
    for (uint64_t i = 3; i < 5; i++)
        fake_ask(&p->d, 2 * i + 1, 8);
    fake_send(&p->d);
    pair_sync(p);
    assert_null(as_worker_next(p->w));
    pair_echo(p, q[0]);
    assert_null(as_worker_next(p->w)); /* two execute */
    pair_echo(p, q[1]);
    next = as_worker_next(p->w);
    assert_non_null(next);
    assert_null(as_worker_next(p->w));
    set_slots(p, 0); /* as it was made */
    assert_int_equal(expect_slots(p), 4);
    pair_echo(p, next);
    next = as_worker_next(p->w);
    assert_non_null(next);
    pair_echo(p, next);
    pair_echo(p, q[2]);
}

static void a_new_link_is_granted_as_many_as_were_set(void **state)
{
    struct pair *p = *state;

    set_slots(p, 6);
    assert_int_equal(expect_slots(p), 6);
    fake_hang_up(&p->d);
    assert_int_equal(as_worker_wait(p->w), AS_EOF);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    assert_int_equal(p->d.credit.slots, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_control_is_answered_by_the_runner, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(there_is_one_at_a_time, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(a_control_waits_for_the_handler, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(too_many_controls_are_refused, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(the_answer_to_a_lost_link_goes_nowhere, setup,
                                        pair_teardown),
        cmocka_unit_test_setup_teardown(health_that_was_set_is_answered_at_once, setup,
                                        pair_teardown),
        cmocka_unit_test_setup_teardown(the_page_shows_when_the_runner_is_in_a_handler, setup,
                                        pair_teardown),
        cmocka_unit_test_setup_teardown(a_runner_that_hands_over_is_not_held, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(options_are_sent_when_they_change, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(options_have_bounds, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(options_are_sent_to_a_new_link, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(the_limits_of_the_deployment_are_sent, setup,
                                        pair_teardown),
        cmocka_unit_test_setup_teardown(how_clients_are_refused_is_sent, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(the_order_of_requests_is_sent, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(fewer_slots_than_execute, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(a_new_link_is_granted_as_many_as_were_set, setup,
                                        pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
