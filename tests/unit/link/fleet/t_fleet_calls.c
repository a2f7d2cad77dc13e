/* link/fleet/fleet_client: calls that workers make, on a real fleet with a worker that the test
 * plays. Its only deployment calls itself. */
#include "link_world.h"

#include "link/fleet/fleet_deployment.h"

static struct hand *come(void)
{
    return join(0, "t0", true, &(struct as_frame_options){0});
}

static struct as_deployment *core(void)
{
    return w.fleet->deploys[0]->core;
}

static struct as_call_owner owner; /* the worker */

/* A request that the worker makes in the context of another; not submitted yet. */
static struct request *call_of_worker(uint32_t depth)
{
    static const int64_t shape[] = {0};
    struct request *q = &w.q[w.n++];

    q->t = (struct as_tensor){.name = AS_STR("x"), .dtype = AS_DT_UINT8, .ndim = 1, .shape = shape};
    as_arena_init(&q->arena, NULL, 0);
    as_request_init(&q->call.core);
    q->call.caller = as_registry_at(w.client.registry, 0)->deployment;
    q->call.depth = depth;
    q->call.owner = &owner;
    q->call.deployment = as_registry_at(w.client.registry, 0)->deployment;
    q->call.core.model = as_registry_at(w.client.registry, 0)->index;
    q->call.payload.msg = (struct as_msg){.tensors = &q->t, .n_tensors = 1};
    q->call.arena = &q->arena;
    q->call.on_answer = on_answer;
    q->call.on_release = on_release;
    return q;
}

static void submit_call(struct request *q)
{
    as_fleet_client_submit(&w.client, &q->call);
}

static void expect_refusal(struct request *q, int err, const char *text)
{
    char message[256];

    q->call.payload.kind = AS_FRAME_CALL;
    submit_call(q);
    assert_true(q->answered && q->released);
    assert_int_equal(q->call.outcome.err, err);
    keep(message, sizeof(message), q->call.outcome.message);
    assert_string_equal(message, text);
}

static void a_call_to_its_own_deployment_waits_for_no_slot(void **state AS_UNUSED)
{
    struct request *root = NULL, *child;
    struct hand *h;

    begin(usual());
    h = come();
    while (as_deployment_queued(core()) == 0)
        root = submit(); /* until every slot executes */
    child = call_of_worker(1);
    child->call.core.root = w.q[0].call.core.root;
    submit_call(child);
    assert_int_equal(as_deployment_beyond(core()), 1);
    assert_true(child->call.core.beyond);
    start(h, w.n - 1); /* all but the queued one are sent */
    as_frame_put_error(&h->out, child->call.core.stream, &(struct as_frame_error){.code = 3});
    UNTIL(child->released);
    assert_int_equal(as_deployment_beyond(core()), 0);
    assert_true(root && !root->answered);
    end();
}

static void calls_of_others_wait_for_a_slot(void **state AS_UNUSED)
{
    struct request *q;

    begin(usual());
    come();
    while (as_deployment_queued(core()) == 0)
        submit();
    q = call_of_worker(1);
    q->call.caller += AS_FLEET_DEPLOYMENTS_MAX; /* its deployment was removed */
    submit_call(q);
    assert_int_equal(as_deployment_beyond(core()), 0);
    assert_int_equal(as_deployment_queued(core()), 2);
    end();
}

static void a_chain_of_calls_has_an_end(void **state AS_UNUSED)
{
    struct request *q;

    begin(usual());
    come();
    q = call_of_worker(16);
    submit_call(q);
    assert_false(q->answered);
    expect_refusal(call_of_worker(17), AS_EFULL, "calls are nested more than 16 deep");
    end();
}

static void what_is_refused_says_why(void **state AS_UNUSED)
{
    struct request *q;

    begin(usual());
    come();
    as_deployment_set_max_queued(core(), 1);
    while (as_deployment_queued(core()) == 0)
        submit();
    q = call_of_worker(0);
    q->call.caller = AS_CALL_NO_CALLER; /* a driver's */
    expect_refusal(q, AS_EFULL,
                   "Request dropped due to backpressure (num_queued_requests=1, "
                   "max_queued_requests=1).");
    assert_true(q->call.outcome.retry_after > 0);
    as_fleet_set_down(w.fleet, AS_STR("default#app"), true);
    expect_refusal(call_of_worker(1), AS_EUNAVAILABLE,
                   "Deployment(name='app', app='default') is unavailable because it failed to "
                   "deploy.");
    q = call_of_worker(1);
    q->call.core.model += AS_DEPLOYMENT_MODELS_MAX;
    expect_refusal(q, AS_ENOTFOUND, "");
    end();
}

/* Two workers call, and clients: each has a limit of its own. */
static void a_limit_may_hold_for_each_caller(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_MAX_QUEUED, 1);
    struct as_call_owner one = {0}, two = {0};
    struct as_call_owner *const owners[] = {&one, &two};
    struct request *q;

    o.has |= 1u << AS_FRAME_OPT_PER_CALLER;
    o.value[AS_FRAME_OPT_PER_CALLER] = 1;
    begin(usual());
    join(0, "t0", true, &o);
    while (as_deployment_queued(core()) == 0)
        submit(); /* two execute, one waits */
    assert_int_equal(submit()->call.outcome.err, AS_EFULL);
    for (uint32_t i = 0; i < AS_COUNT(owners); i++) {
        q = call_of_worker(0);
        q->call.caller = AS_CALL_NO_CALLER;
        q->call.owner = owners[i];
        submit_call(q);
        assert_false(q->answered);
        q = call_of_worker(0);
        q->call.caller = AS_CALL_NO_CALLER;
        q->call.owner = owners[i];
        expect_refusal(q, AS_EFULL,
                       "Request dropped due to backpressure (num_queued_requests=1, "
                       "max_queued_requests=1).");
    }
    assert_int_equal(as_deployment_queued(core()), 3);
    end();
    assert_int_equal(one.waiting[0] + two.waiting[0], 0);
    as_call_owner_fini(&one);
    as_call_owner_fini(&two);
}

static void in_a_drain_only_new_roots_are_refused(void **state AS_UNUSED)
{
    struct request *q;

    begin(usual());
    come();
    as_fleet_drain(w.fleet);
    expect_refusal(call_of_worker(0), AS_EUNAVAILABLE, "the server is shutting down");
    q = call_of_worker(1);
    submit_call(q);
    assert_false(q->answered);
    assert_int_equal(as_deployment_beyond(core()), 1);
    end();
}

/* Its replica takes nothing. */
static void put_out(int i)
{
    as_frame_put_credit(&w.hand[i].out, 0, &(struct as_frame_credit){.slots = 0});
    UNTIL(as_deployment_ready(core()) == 0);
}

static uint32_t calls_done;

static void on_calls_done(void *ctx AS_UNUSED)
{
    calls_done++;
}

static bool turns(uint32_t *left)
{
    return --*left == 0;
}

/* The end of a drain: those who wait for a call get their answer first. */
static void a_drain_waits_for_callers(void **state AS_UNUSED)
{
    struct request *q, *left;
    uint32_t n = 5;

    calls_done = 0;
    begin(usual());
    w.fleet->ops.on_calls_done = on_calls_done;
    come();
    put_out(0); /* nothing is sent */
    as_fleet_refuse_callers(w.fleet);
    expect_refusal(call_of_worker(0), AS_EUNAVAILABLE, "the server is shutting down");
    q = call_of_worker(1);
    left = call_of_worker(1);
    q->call.payload.kind = left->call.payload.kind = AS_FRAME_CALL;
    submit_call(q);
    submit_call(left);
    submit(); /* a client's: the edge waits for that */
    as_fleet_await_calls(w.fleet);
    as_fleet_client_cancel(&w.client, &left->call);
    UNTIL(turns(&n));
    assert_int_equal(calls_done, 0);
    as_deployment_set_down(core(), true, as_loop_now(w.loop));
    assert_true(q->released);
    UNTIL(calls_done == 1);
    end();
}

static void a_drain_without_calls_ends_at_once(void **state AS_UNUSED)
{
    calls_done = 0;
    begin(usual());
    w.fleet->ops.on_calls_done = on_calls_done;
    as_fleet_await_calls(w.fleet);
    UNTIL(calls_done == 1);
    end();
}

/* In an upgrade a driver may make further calls until it has moved. */
static void a_dispatcher_that_hands_over_waits_for_drivers(void **state AS_UNUSED)
{
    uint32_t n = 5, foreign;

    calls_done = 0;
    begin(usual());
    w.fleet->ops.on_calls_done = on_calls_done;
    w.fleet->drivers_here = 2;
    as_fleet_hand_over(w.fleet, &foreign);
    as_fleet_await_calls(w.fleet);
    as_fleet_note_driver_moved(w.fleet);
    UNTIL(turns(&n));
    assert_int_equal(calls_done, 0);
    as_fleet_note_driver_moved(w.fleet);
    UNTIL(calls_done == 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_to_its_own_deployment_waits_for_no_slot),
        cmocka_unit_test(calls_of_others_wait_for_a_slot),
        cmocka_unit_test(a_chain_of_calls_has_an_end),
        cmocka_unit_test(what_is_refused_says_why),
        cmocka_unit_test(a_limit_may_hold_for_each_caller),
        cmocka_unit_test(in_a_drain_only_new_roots_are_refused),
        cmocka_unit_test(a_drain_waits_for_callers),
        cmocka_unit_test(a_drain_without_calls_ends_at_once),
        cmocka_unit_test(a_dispatcher_that_hands_over_waits_for_drivers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
