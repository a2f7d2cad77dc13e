/* link/native/link_traffic: what workers declare about canary, mirror and fallback, as the registry
 * has it. */
#include "link_world.h"

static const struct as_traffic *traffic(void)
{
    return &as_registry_find(w.client.registry, AS_STR("m"), AS_STR("1"), NULL)->traffic;
}

static struct as_frame_traffic canary(uint32_t part)
{
    return (struct as_frame_traffic){.flags = AS_FRAME_CANARY, .canary = part};
}

/* Every snapshot on the way there. */
static void look(struct as_fleet_client *c)
{
    const struct as_model *m = as_registry_find(c->registry, AS_STR("m"), AS_STR("1"), NULL);

    assert_true(!m || m->traffic.is_canary);
}

static void a_canary_is_one_from_the_beginning(void **state AS_UNUSED)
{
    struct as_frame_traffic t = canary(7);

    begin(usual());
    w.traffic = &t;
    w.client.on_registry = look;
    join(0, "t0", false, &no_options);
    assert_int_equal(traffic()->canary, 7);
    w.client.on_registry = NULL;
    end();
}

/* Of one that comes by itself the deployment is known by its first model only. */
static void so_is_one_of_a_worker_that_we_did_not_start(void **state AS_UNUSED)
{
    struct as_frame_traffic t = {.mirror = 9, .fallback = AS_STR("other")};

    begin(usual());
    w.traffic = &t;
    join(0, "join", false, &no_options);
    assert_int_equal(traffic()->mirror, 9);
    assert_true(as_str_eq(traffic()->fallback, AS_STR("default#other")));
    end();
}

static void the_last_declaration_counts(void **state AS_UNUSED)
{
    struct as_frame_traffic t = canary(1);
    struct hand *first, *second;

    begin(usual());
    w.traffic = &t;
    first = join(0, "t0", false, &no_options);
    t = canary(2);
    second = join(1, "t1", false, &no_options);
    assert_int_equal(traffic()->canary, 2);
    t = canary(3);
    as_frame_put_traffic(&first->out, &t);
    UNTIL(traffic()->canary == 3);
    t = (struct as_frame_traffic){0};
    as_frame_put_traffic(&second->out, &t);
    UNTIL(!traffic()->is_canary);
    end();
}

/* An update is taken back: the words of those that stay count again. */
static void a_worker_that_leaves_takes_its_declaration_along(void **state AS_UNUSED)
{
    struct as_frame_traffic t = canary(1);

    begin(usual());
    w.traffic = &t;
    join(0, "t0", false, &no_options);
    t = canary(2);
    hand_close(join(1, "t1", false, &no_options));
    as_fleet_remove_process(w.fleet, AS_STR("t1"), AS_LOSS_KILLED);
    UNTIL(w.gone == 1);
    assert_int_equal(traffic()->canary, 1);
    end();
}

/* A replica of an update that never becomes ready changes nothing. */
static void a_declaration_before_ready_waits(void **state AS_UNUSED)
{
    struct as_frame_traffic t = canary(1), none = {0};
    struct as_frame_register r = model(false);
    struct hand *second;

    begin(usual());
    w.traffic = &t;
    join(0, "t0", false, &no_options);
    second = greet(1, "t1");
    as_frame_put_traffic(&second->out, &none);
    assert_int_equal(as_frame_put_register(&second->out, &r), 0);
    expect(second, AS_FRAME_REGISTERED);
    assert_int_equal(traffic()->canary, 1);
    end();
}

static void an_invalid_declaration_ends_the_link(void **state AS_UNUSED)
{
    struct as_frame_traffic t = {.canary = 1};
    struct hand *h;

    begin(usual());
    h = join(0, "join", false, &no_options);
    as_frame_put_traffic(&h->out, &t);
    UNTIL(w.gone == 1);
    end();
}

static void a_fallback_has_a_name_that_deployments_can_have(void **state AS_UNUSED)
{
    struct as_frame_traffic t = {.fallback = AS_STR("x\nlevel=error")};
    struct hand *h;

    begin(usual());
    h = join(0, "join", false, &no_options);
    as_frame_put_traffic(&h->out, &t);
    UNTIL(w.gone == 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_canary_is_one_from_the_beginning),
        cmocka_unit_test(so_is_one_of_a_worker_that_we_did_not_start),
        cmocka_unit_test(the_last_declaration_counts),
        cmocka_unit_test(a_worker_that_leaves_takes_its_declaration_along),
        cmocka_unit_test(a_declaration_before_ready_waits),
        cmocka_unit_test(an_invalid_declaration_ends_the_link),
        cmocka_unit_test(a_fallback_has_a_name_that_deployments_can_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
