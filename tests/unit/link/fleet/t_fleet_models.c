/* link/fleet/fleet_models: workers of one deployment with different models, on a real fleet with
 * workers that the test plays. All serve "m"; A also serves "old", B "new". */
#include "link_world.h"

static void put_model(struct hand *h, uint16_t number, const char *name)
{
    struct as_frame_register r = model(false);

    r.model = number;
    r.name = as_str_of(name);
    assert_int_equal(as_frame_put_register(&h->out, &r), 0);
    expect(h, AS_FRAME_REGISTERED);
}

/* It has registered, and takes nothing yet. */
static struct hand *come(int i, const char *token, const char *other)
{
    struct hand *h = greet(i, token);

    put_model(h, 0, "m");
    put_model(h, 1, other);
    return h;
}

static void begin_to_serve(struct hand *h)
{
    uint32_t ready = w.ready;

    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 1});
    UNTIL(w.ready > ready);
}

static const struct as_model *known(const char *name)
{
    return as_registry_find(w.client.registry, as_str_of(name), AS_STR("1"), NULL);
}

static void submit_to(struct request *q, const struct as_model *m)
{
    q->call.core.model = m->index;
    as_fleet_client_submit(&w.client, &q->call);
}

/* One more request, of that model. */
static struct request *ask(const struct as_model *m)
{
    static const int64_t shape[] = {0};
    struct request *q = &w.q[w.n++];

    q->t = (struct as_tensor){.name = AS_STR("x"), .dtype = AS_DT_UINT8, .ndim = 1, .shape = shape};
    as_arena_init(&q->arena, NULL, 0);
    as_request_init(&q->call.core);
    q->call.caller = AS_CALL_NO_CALLER;
    q->call.deployment = m->deployment;
    q->call.payload.msg = (struct as_msg){.tensors = &q->t, .n_tensors = 1};
    q->call.arena = &q->arena;
    q->call.on_answer = on_answer;
    q->call.on_release = on_release;
    q->stream.on_part = on_part;
    q->call.stream = &q->stream;
    submit_to(q, m);
    return q;
}

static void both(struct hand **a, struct hand **b)
{
    begin(usual());
    *a = come(0, "t0", "old");
    *b = come(1, "t1", "new");
    begin_to_serve(*a);
    begin_to_serve(*b);
}

static uint32_t queued(void)
{
    return as_deployment_queued(w.fleet->deploys[0]->core);
}

static void each_gets_what_it_has(void **state AS_UNUSED)
{
    struct hand *a, *b;

    both(&a, &b);
    ask(known("old"));
    ask(known("old"));
    ask(known("new"));
    expect(a, AS_FRAME_OPEN);
    expect(b, AS_FRAME_OPEN);
    assert_int_equal(queued(), 1); /* the second one waits for A, though B would be … */
    ask(known("m"));
    assert_int_equal(queued(), 2); /* … as busy: all slots are taken */
    assert_int_equal(a->n + b->n, 2);
    end();
}

static void a_new_model_waits_for_who_has_registered_it(void **state AS_UNUSED)
{
    struct hand *a, *b;

    begin(usual());
    a = come(0, "t0", "old");
    begin_to_serve(a);
    assert_null(known("new"));
    b = come(1, "t1", "new");
    ask(known("new"));
    assert_int_equal(queued(), 1); /* A is idle, and does not know it */
    begin_to_serve(b);
    expect(b, AS_FRAME_OPEN);
    assert_int_equal(a->n, 0);
    end();
}

static void a_model_goes_with_the_last_that_has_it(void **state AS_UNUSED)
{
    const struct as_model *old;
    struct as_registry *before;
    struct request *waits, *late;
    struct hand *a, *b;

    both(&a, &b);
    old = known("old");
    before = as_registry_ref(w.client.registry); /* what a loop has that has not heard of it */
    ask(old);
    expect(a, AS_FRAME_OPEN);
    waits = ask(old);
    as_fleet_retire_process(w.fleet, AS_STR("t0"));
    UNTIL(!known("old"));
    assert_true(waits->answered && waits->released);
    assert_int_equal(waits->call.outcome.err, AS_EUNAVAILABLE);
    assert_non_null(known("m"));
    assert_non_null(known("new"));
    assert_false(w.q[0].answered); /* A ends what it has */
    late = ask(old);
    assert_true(late->answered);
    assert_int_equal(late->call.outcome.err, AS_EUNAVAILABLE);
    as_registry_unref(before);
    end();
}

static void not_while_another_may_bring_it(void **state AS_UNUSED)
{
    struct hand *a, *b;

    both(&a, &b);
    as_fleet_add_process(w.fleet, AS_STR("t2"), AS_STR("app-2"), AS_STR("default#app"));
    as_fleet_retire_process(w.fleet, AS_STR("t0"));
    for (int i = 0; i < 10; i++)
        turn();
    assert_non_null(known("old"));
    die(0, "t0");
    as_fleet_remove_process(w.fleet, AS_STR("t2"), AS_LOSS_KILLED); /* it was none that did */
    UNTIL(!known("old"));
    end();
}

/* It will come again, as other processes that die do. */
static void not_at_once_when_it_dies(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct hand *a, *b;

    both(&a, &b);
    die(0, "t0");
    for (int i = 0; i < 10; i++)
        turn();
    ask(known("old"));
    assert_int_equal(queued(), 1);
    as_fleet_add_process(w.fleet, AS_STR("t2"), AS_STR("app-0"), AS_STR("default#app"));
    a = come(0, "t2", "old");
    begin_to_serve(a);
    expect(a, AS_FRAME_OPEN);
    end();

    conf.grace = 20 * AS_MS; /* unless it does not */
    conf.ping_interval = 10 * AS_MS;
    begin(conf);
    a = come(0, "t0", "old");
    begin_to_serve(a);
    b = come(1, "t1", "new");
    begin_to_serve(b);
    die(0, "t0");
    UNTIL(!known("old"));
    end();
}

/* Also as something else: what core knows of the former one is not taken for it. */
static void it_can_come_back(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);
    struct as_fleet_deployment *d;
    struct hand *a, *b;
    uint32_t was;

    both(&a, &b);
    d = w.fleet->deploys[0];
    was = known("old")->index;
    as_fleet_retire_process(w.fleet, AS_STR("t0"));
    UNTIL(!known("old"));
    die(0, "t0");
    as_fleet_add_process(w.fleet, AS_STR("t2"), AS_STR("app-0"), AS_STR("default#app"));
    a = come(0, "t2", "old");
    assert_int_equal(known("old")->index, was);
    begin_to_serve(a);
    ask(known("old"));
    expect(a, AS_FRAME_OPEN);
    assert_int_equal(d->n_models, 3);

    as_fleet_retire_process(w.fleet, AS_STR("t2"));
    UNTIL(!known("old"));
    die(0, "t2");
    as_fleet_add_process(w.fleet, AS_STR("t3"), AS_STR("app-0"), AS_STR("default#app"));
    a = greet(0, "t3");
    put_model(a, 0, "m");
    r.model = 1;
    r.name = AS_STR("old");
    r.decoupled = false;
    r.batching.max_size = 8;
    assert_int_equal(as_frame_put_register(&a->out, &r), 0);
    expect(a, AS_FRAME_REGISTERED);
    assert_int_not_equal(known("old")->index, was);
    assert_int_equal(known("old")->batching.max_size, 8);
    begin_to_serve(a);
    ask(known("old"));
    expect(a, AS_FRAME_OPEN);
    assert_int_equal(b->n, 0);
    end();
}

static void one_that_registers_more_later(void **state AS_UNUSED)
{
    struct hand *a, *b;

    both(&a, &b);
    ask(known("old"));
    ask(known("old"));
    assert_int_equal(queued(), 1);
    put_model(b, 2, "old");
    expect(b, AS_FRAME_OPEN);
    assert_int_equal(queued(), 0);
    end();
}

/* One version of the code after the other, each with a model of its own: A and B take turns. */
static struct hand *next_version(uint32_t v)
{
    char token[16], name[16];
    struct hand *h;

    snprintf(token, sizeof(token), "v%u", v);
    snprintf(name, sizeof(name), "m%u", v);
    as_fleet_add_process(w.fleet, as_str_of(token), AS_STR("app-0"), AS_STR("default#app"));
    h = come((int)(v % HANDS), token, name);
    begin_to_serve(h);
    return h;
}

static void version_ends(uint32_t v)
{
    char token[16], name[16];

    snprintf(token, sizeof(token), "v%u", v);
    snprintf(name, sizeof(name), "m%u", v);
    as_fleet_retire_process(w.fleet, as_str_of(token));
    UNTIL(!known(name));
    die((int)(v % HANDS), token);
}

/* A request for a model as an older snapshot has it; the request is used again. */
static int ask_late(const struct as_model *m)
{
    struct request *q;

    w.q[0] = (struct request){0};
    q = ask(m);
    assert_true(q->answered && q->released);
    as_arena_fini(&q->arena);
    w.n = 0;
    return q->call.outcome.err;
}

static void there_may_be_any_number_of_versions(void **state AS_UNUSED)
{
    struct as_registry *before = NULL;
    struct as_model late = {0};
    struct hand *h;

    begin(usual());
    as_fleet_remove_process(w.fleet, AS_STR("t0"), AS_LOSS_KILLED);
    as_fleet_remove_process(w.fleet, AS_STR("t1"), AS_LOSS_KILLED);
    for (uint32_t v = 0; v < 2 * AS_DEPLOYMENT_MODELS_MAX + 100; v++) {
        char name[16];

        snprintf(name, sizeof(name), "m%u", v);
        h = next_version(v);
        if (v)
            version_ends(v - 1);
        if (before) { /* the number that it knew may be another model's by now */
            assert_int_equal(ask_late(&late), AS_EUNAVAILABLE);
            as_registry_unref(before);
        }
        before = as_registry_ref(w.client.registry);
        if (!known(name))
            fail_msg("version %u is not taken", v);
        late = *known(name);
        if (v % 100)
            continue;
        w.q[0] = (struct request){0};
        ask(known(name));
        h->n = 0;
        expect(h, AS_FRAME_OPEN);
        assert_int_equal(h->n, 1);
        as_fleet_client_cancel(&w.client, &w.q[0].call);
        as_frame_put_end(&h->out, h->streams[0], 0);
        UNTIL(w.q[0].released);
        as_arena_fini(&w.q[0].arena);
        w.n = 0;
    }
    as_registry_unref(before);
    assert_true(w.fleet->deploys[0]->n_models < 10);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gets_what_it_has),
        cmocka_unit_test(a_new_model_waits_for_who_has_registered_it),
        cmocka_unit_test(a_model_goes_with_the_last_that_has_it),
        cmocka_unit_test(not_while_another_may_bring_it),
        cmocka_unit_test(not_at_once_when_it_dies),
        cmocka_unit_test(it_can_come_back),
        cmocka_unit_test(one_that_registers_more_later),
        cmocka_unit_test(there_may_be_any_number_of_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
