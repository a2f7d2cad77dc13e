/* link/fleet/fleet_record: what a dispatcher tells about a deployment for the next one, and what
 * the next one makes of it, on a real fleet with workers that the test plays. */
#include "link_world.h"

static const struct as_model *known(const char *name)
{
    return as_registry_find(w.client.registry, as_str_of(name), AS_STR("1"), NULL);
}

static const char *recorded(void)
{
    as_buf_add(&w.recorded, "", 1);
    w.recorded.n--;
    return (const char *)w.recorded.p;
}

static int restore(const char *model, struct as_outq *q, bool whole)
{
    struct as_buf frames;
    const char *why = "";
    int err;

    as_buf_init(&frames);
    as_outq_peek(q, &frames);
    err = as_fleet_restore(
        w.fleet,
        &(struct as_fleet_record){as_str_of(w.deployment ? w.deployment : "default#app"),
                                  as_str_of(model), as_buf_slice(&frames), whole, w.declared},
        &why);
    assert_true(!err || why[0]);
    as_buf_fini(&frames);
    as_outq_fini(q);
    return err;
}

static void restore_model(const struct as_frame_register *r)
{
    struct as_outq q;

    as_outq_init(&q);
    assert_int_equal(as_frame_put_register(&q, r), 0);
    assert_int_equal(restore("m:1", &q, false), 0);
}

static void restore_settings(const struct as_frame_options *o, const struct as_frame_traffic *t)
{
    struct as_outq q;

    as_outq_init(&q);
    as_frame_put_options(&q, o);
    as_frame_put_traffic(&q, t);
    assert_int_equal(restore("", &q, true), 0);
}

/* As a dispatcher begins whose former one had "m". */
static void begin_anew(void)
{
    struct as_frame_register r = model(false);

    begin(usual());
    restore_model(&r);
    restore_settings(&no_options, &(struct as_frame_traffic){0});
}

static void each_thing_is_told_once(void **state AS_UNUSED)
{
    begin(usual());
    join(0, "t0", false, &no_options);
    assert_string_equal(recorded(), "m:1 REGISTER;whole OPTIONS TRAFFIC;");
    join(1, "t1", false, &no_options);
    assert_int_equal(w.records, 2);
    end();
}

static void a_change_of_the_settings_is_told(void **state AS_UNUSED)
{
    struct as_frame_traffic canary = {.flags = AS_FRAME_CANARY, .canary = 5000};
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    as_frame_put_traffic(&h->out, &canary);
    UNTIL(w.records == 3);
    assert_string_equal(recorded(), "m:1 REGISTER;whole OPTIONS TRAFFIC;whole OPTIONS TRAFFIC;");
    end();
}

static void workers_of_others_are_not_told(void **state AS_UNUSED)
{
    begin(usual());
    as_fleet_remove_process(w.fleet, AS_STR("t0"), AS_LOSS_KILLED);
    join(0, "join", false, &no_options);
    assert_null(strstr(w.records ? recorded() : "", "REGISTER"));
    end();
}

static void what_cannot_be_kept_is_not_whole(void **state AS_UNUSED)
{
    begin(usual());
    w.refuse_records = true;
    join(0, "t0", false, &no_options);
    assert_null(strstr(recorded(), "whole"));
    end();
}

static void a_restored_model_waits_for_a_replica(void **state AS_UNUSED)
{
    struct request *q;
    struct hand *h;

    begin(usual());
    assert_true(w.client.models_pending);
    end();
    begin_anew();
    as_fleet_set_flag(&w.fleet->accepting, true);
    as_fleet_republish(w.fleet);
    assert_false(w.client.models_pending); /* what is not known does not exist */
    assert_non_null(known("m"));
    assert_false(known("m")->awaited); /* the default version is as it was */
    assert_false(as_fleet_deployment_ready(w.fleet, known("m")->deployment));
    assert_false(as_fleet_ready(w.fleet));
    q = submit();
    assert_false(q->answered);
    h = join(0, "t0", false, &no_options);
    expect(h, AS_FRAME_OPEN);
    assert_true(as_fleet_ready(w.fleet));
    assert_int_equal(w.records, 0); /* the owner has it already */
    end();
}

static void a_worker_counts_more_than_a_record(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);
    const struct request *waits;
    struct hand *h;

    begin(usual());
    r.decoupled = false;
    r.budget = 7;
    r.max_queued = 1;
    restore_model(&r);
    restore_settings(&no_options, &(struct as_frame_traffic){0});
    assert_false(known("m")->decoupled);
    waits = submit(); /* it fits what was declared, not what will be executed */
    h = join(0, "t0", false, &no_options);
    assert_true(waits->answered);
    assert_int_equal(waits->call.outcome.err, AS_EUNAVAILABLE);
    assert_true(known("m")->decoupled);
    assert_string_equal(recorded(), "m:1;m:1 REGISTER;");
    submit();
    expect(h, AS_FRAME_OPEN);
    end();
}

static void another_limit_is_the_workers(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);
    struct hand *h;

    begin(usual());
    r.max_ongoing = 1;
    restore_model(&r);
    h = join(0, "t0", false, &no_options);
    submit();
    submit();
    while (h->n < 2)
        expect(h, AS_FRAME_OPEN);
    end();
}

/* As without a record: the workers of one dispatcher must agree. */
static void the_next_worker_must_agree_with_the_first(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);
    struct as_frame_registered answer;
    struct hand *h;

    begin_anew();
    join(0, "t0", false, &no_options);
    h = greet(1, "t1");
    r.decoupled = false;
    assert_int_equal(as_frame_put_register(&h->out, &r), 0);
    expect(h, AS_FRAME_REGISTERED);
    assert_int_equal(as_frame_get_registered(&h->f, &answer), 0);
    assert_int_not_equal(answer.code, 0);
    assert_true(known("m")->decoupled);
    end();
}

static void a_model_that_no_worker_brings_back_goes(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct as_frame_register r = model(false);

    conf.grace = 0;
    begin(conf);
    restore_model(&r);
    r.name = AS_STR("old");
    restore_model(&r);
    restore_settings(&no_options, &(struct as_frame_traffic){0});
    as_fleet_remove_process(w.fleet, AS_STR("t1"), AS_LOSS_KILLED);
    assert_non_null(known("old"));
    join(0, "t0", false, &no_options);
    UNTIL(!known("old"));
    assert_non_null(known("m"));
    assert_string_equal(recorded(), "old:1;");
    end();
}

static void settings_come_back(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_REQUEST_TIMEOUT, 3 * AS_SEC);
    struct as_frame_traffic t = {
        .flags = AS_FRAME_CANARY, .canary = 5000, .mirror = 7, .fallback = AS_STR("other")};
    struct as_frame_register r = model(true);
    const struct as_fleet_deployment *d;
    struct request *q;

    o.has |= 1u << AS_FRAME_OPT_IDEMPOTENT | 1u << AS_FRAME_OPT_MAX_QUEUED |
             1u << AS_FRAME_OPT_PER_CALLER | 1u << AS_FRAME_OPT_BACKPRESSURE_STATUS |
             1u << AS_FRAME_OPT_BACKPRESSURE_RETRY | 1u << AS_FRAME_OPT_HEDGE_QUANTILE |
             1u << AS_FRAME_OPT_HEDGE_BUDGET | 1u << AS_FRAME_OPT_HEDGE_MIN_DELAY;
    o.value[AS_FRAME_OPT_HEDGE_QUANTILE] = 950;
    o.value[AS_FRAME_OPT_HEDGE_BUDGET] = 30;
    o.value[AS_FRAME_OPT_HEDGE_MIN_DELAY] = 0; /* none, which is not the default */
    o.value[AS_FRAME_OPT_BACKPRESSURE_STATUS] = 429;
    o.value[AS_FRAME_OPT_BACKPRESSURE_RETRY] = 0;
    o.value[AS_FRAME_OPT_PER_CALLER] = 1;
    o.value[AS_FRAME_OPT_IDEMPOTENT] = 0;
    o.value[AS_FRAME_OPT_MAX_QUEUED] = 2;
    begin(usual());
    restore_model(&r);
    restore_settings(&o, &t);
    d = w.fleet->deploys[0];
    assert_int_equal(d->options.request_timeout, 3 * AS_SEC);
    assert_int_equal(d->options.idempotent, AS_FLEET_NOT_IDEMPOTENT);
    assert_true(d->options.per_caller);
    assert_int_equal(d->options.hedging.quantile, 950);
    assert_int_equal(d->options.hedging.budget, 30);
    assert_true(known("m")->traffic.is_canary);
    assert_int_equal(known("m")->traffic.canary, 5000);
    assert_int_equal(known("m")->traffic.mirror, 7);
    assert_true(as_str_eq(known("m")->traffic.fallback, AS_STR("default#other")));
    submit();
    submit();
    q = submit();
    assert_int_equal(q->call.outcome.err, AS_EFULL);
    assert_int_equal(q->call.outcome.backpressure.status, 429);
    assert_true(q->call.outcome.backpressure.has_retry && !q->call.outcome.backpressure.retry);
    as_fleet_record_settings(w.fleet->deploys[0]);
    assert_int_equal(w.records, 0); /* the same as was restored */
    end();
}

static void what_is_told_can_be_restored(void **state AS_UNUSED)
{
    struct as_frame_traffic t = {.mirror = 7};
    struct as_buf frames;
    const char *why;

    begin(usual());
    w.traffic = &t;
    join(0, "t0", false, &(struct as_frame_options){0});
    frames = w.frames;
    as_buf_init(&w.frames);
    end();
    begin_anew();
    assert_int_equal(as_fleet_restore(w.fleet,
                                      &(struct as_fleet_record){AS_STR("default#app"), AS_STR(""),
                                                                as_buf_slice(&frames), true, false},
                                      &why),
                     0);
    assert_int_equal(known("m")->traffic.mirror, 7);
    as_buf_fini(&frames);
    end();
}

/* Of another version, or damaged: the models are as unknown as without a record. */
static void an_unusable_record_is_no_record(void **state AS_UNUSED)
{
    struct as_outq q;

    begin(usual());
    as_outq_init(&q);
    as_outq_copy(&q, "these are no frames of the link, and more than one header", 57);
    assert_int_equal(restore("m:1", &q, false), AS_EPROTO);
    restore_settings(&no_options, &(struct as_frame_traffic){0});
    as_fleet_set_flag(&w.fleet->accepting, true);
    as_fleet_republish(w.fleet);
    assert_true(w.client.models_pending);
    assert_null(known("m"));
    join(0, "t0", false, &no_options);
    assert_non_null(known("m"));
    assert_false(w.client.models_pending);
    end();
}

static void a_deleted_deployment_is_told_anew(void **state AS_UNUSED)
{
    begin_anew();
    as_fleet_delete_deployment(w.fleet, AS_STR("default#app"), false);
    assert_null(known("m"));
    as_fleet_add_process(w.fleet, AS_STR("t2"), AS_STR("app-2"), AS_STR("default#app"));
    join(0, "t2", false, &no_options);
    assert_non_null(known("m"));
    assert_string_equal(recorded(), "m:1 REGISTER;whole OPTIONS TRAFFIC;");
    end();
}

/* The former dispatcher died while the replicas drained: one of them comes to the next one. */
static void a_replica_of_a_deleted_deployment_brings_nothing_back(void **state AS_UNUSED)
{
    begin(usual());
    as_fleet_delete_deployment(w.fleet, AS_STR("default#app"), false);
    as_fleet_set_flag(&w.fleet->accepting, true);
    as_fleet_republish(w.fleet);
    assert_false(w.client.models_pending);
    join(0, "t0", false, &no_options);
    assert_null(known("m"));
    assert_false(w.client.models_pending);
    assert_string_equal(recorded(), "");
    as_fleet_add_process(w.fleet, AS_STR("t2"), AS_STR("app-2"), AS_STR("default#app"));
    as_fleet_republish(w.fleet);
    assert_true(w.client.models_pending);
    join(1, "t2", false, &no_options);
    assert_non_null(known("m"));
    assert_false(w.client.models_pending);
    assert_string_equal(recorded(), "m:1 REGISTER;whole OPTIONS TRAFFIC;");
    end();
}

/* As begin_anew, by what the code declares. */
static void begin_declared(void)
{
    struct as_frame_register r = model(false);

    begin(usual());
    w.declared = true;
    restore_model(&r);
    restore_settings(&no_options, &(struct as_frame_traffic){0});
}

static void declared_models_wait_for_a_worker(void **state AS_UNUSED)
{
    struct request *q;
    struct hand *h;

    begin_declared();
    as_fleet_set_flag(&w.fleet->accepting, true);
    as_fleet_republish(w.fleet);
    assert_false(w.client.models_pending);
    assert_false(as_fleet_ready(w.fleet));
    q = submit();
    assert_false(q->answered);
    assert_int_equal(w.records, 0);
    assert_true(known("m")->awaited); /* other versions are preferred */
    h = join(0, "t0", false, &no_options);
    assert_false(known("m")->awaited);
    expect(h, AS_FRAME_OPEN);
    assert_true(as_fleet_ready(w.fleet));
    /* unlike one that was recorded: the owner learns that a worker has it */
    assert_string_equal(recorded(), "m:1 REGISTER;whole OPTIONS TRAFFIC;");
    end();
}

static void a_deployment_may_be_declared_before_it_is_announced(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);
    struct as_outq q;

    begin(usual());
    join(0, "t0", false, &no_options);
    as_fleet_set_flag(&w.fleet->accepting, true);
    assert_true(as_fleet_ready(w.fleet));
    w.declared = true;
    w.deployment = "late";
    r.name = AS_STR("l");
    as_outq_init(&q);
    assert_int_equal(as_frame_put_register(&q, &r), 0);
    assert_int_equal(restore("l:1", &q, false), 0);
    restore_settings(&no_options, &(struct as_frame_traffic){0});
    assert_non_null(known("l"));
    as_fleet_expect_deployment(w.fleet, AS_STR("late"));
    restore_settings(&no_options, &(struct as_frame_traffic){.mirror = 5}); /* a deploy */
    assert_int_equal(known("l")->traffic.mirror, 5);
    assert_true(as_fleet_ready(w.fleet)); /* which does not wait for it */
    end();
}

static void a_declaration_is_replaced(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);
    struct as_outq none;
    struct request *waits;

    begin_declared();
    waits = submit();
    as_outq_init(&none);
    assert_int_equal(restore("m:1", &none, false), 0);
    assert_null(known("m"));
    assert_true(waits->answered);
    assert_int_equal(waits->call.outcome.err, AS_EUNAVAILABLE);
    r.decoupled = false;
    r.max_ongoing = 3;
    restore_model(&r);
    restore_settings(&no_options, &(struct as_frame_traffic){0});
    assert_false(known("m")->decoupled);
    assert_int_equal(restore("m:1", &none, false), 0);
    restore_model(&r); /* with the limits that the last one had */
    assert_false(submit()->answered);
    join(0, "t0", false, &no_options); /* another one */
    assert_true(known("m")->decoupled);
    end();
}

static void a_worker_counts_more_than_a_declaration(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);
    struct as_outq none;
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    w.declared = true;
    r.decoupled = false;
    restore_model(&r);
    assert_true(known("m")->decoupled);
    r.name = AS_STR("more");
    restore_model(&r);
    assert_null(known("more"));
    restore_settings(&no_options, &(struct as_frame_traffic){.mirror = 5});
    assert_int_equal(known("m")->traffic.mirror, 0);
    as_outq_init(&none);
    assert_int_equal(restore("m:1", &none, false), 0);
    submit();
    expect(h, AS_FRAME_OPEN);
    assert_string_equal(recorded(), "m:1 REGISTER;whole OPTIONS TRAFFIC;");
    end();
}

static void what_is_not_declared_may_be_brought_by_a_worker(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);
    struct as_outq q;

    begin(usual());
    as_fleet_set_flag(&w.fleet->accepting, true);
    w.declared = true;
    restore_model(&r);
    for (int whole = 1; whole >= 0; whole--) {
        as_outq_init(&q);
        as_frame_put_options(&q, &no_options);
        assert_int_equal(restore("", &q, whole), 0);
        assert_int_equal(w.client.models_pending, !whole);
    }
    end();
}

static void a_deleted_deployment_is_not_declared(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);

    begin_declared();
    as_fleet_delete_deployment(w.fleet, AS_STR("default#app"), false);
    assert_null(known("m"));
    restore_model(&r);
    assert_null(known("m"));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thing_is_told_once),
        cmocka_unit_test(a_change_of_the_settings_is_told),
        cmocka_unit_test(workers_of_others_are_not_told),
        cmocka_unit_test(what_cannot_be_kept_is_not_whole),
        cmocka_unit_test(a_restored_model_waits_for_a_replica),
        cmocka_unit_test(a_worker_counts_more_than_a_record),
        cmocka_unit_test(another_limit_is_the_workers),
        cmocka_unit_test(the_next_worker_must_agree_with_the_first),
        cmocka_unit_test(a_model_that_no_worker_brings_back_goes),
        cmocka_unit_test(settings_come_back),
        cmocka_unit_test(what_is_told_can_be_restored),
        cmocka_unit_test(an_unusable_record_is_no_record),
        cmocka_unit_test(a_deleted_deployment_is_told_anew),
        cmocka_unit_test(a_replica_of_a_deleted_deployment_brings_nothing_back),
        cmocka_unit_test(declared_models_wait_for_a_worker),
        cmocka_unit_test(a_deployment_may_be_declared_before_it_is_announced),
        cmocka_unit_test(a_declaration_is_replaced),
        cmocka_unit_test(a_worker_counts_more_than_a_declaration),
        cmocka_unit_test(what_is_not_declared_may_be_brought_by_a_worker),
        cmocka_unit_test(a_deleted_deployment_is_not_declared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
