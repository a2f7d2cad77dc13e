/* link/native/link_traffic, link/fleet/fleet_services: the gRPC services of the user that workers
 * tell, as the registry has them. */
#include "link_world.h"
#include "wire/frame/frame_services.h"

static const struct as_frame_service_method methods[] = {
    {STATIC_STR("/a.B/C"), 0},
    {STATIC_STR("/a.B/D"), AS_SERVICE_F_INPUTS | AS_SERVICE_F_PARTS},
};

static void put(struct as_outq *q, uint32_t n)
{
    assert_int_equal(
        as_frame_put_services(q, &(struct as_frame_services){methods, n, AS_STR("set")}), 0);
}

/* How many methods the registry's only row has; 0: there is no row. */
static uint32_t served(void)
{
    const struct as_service_table *t = as_registry_services(w.client.registry);

    if (!t)
        return 0;
    assert_int_equal(t->n, 1);
    assert_true(as_str_eq(t->at[0].application, AS_STR("default")));
    return t->at[0].set->n;
}

static void a_worker_tells_its_services(void **state AS_UNUSED)
{
    const struct as_service_method *m;
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    assert_int_equal(served(), 0);
    put(&h->out, 2);
    UNTIL(served() == 2);
    m = as_service_set_find(as_registry_services(w.client.registry)->at[0].set, AS_STR("/a.B/D"));
    assert_true(m && m->takes_inputs && m->gives_parts);
    put(&h->out, 1); /* replaces it */
    UNTIL(served() == 1);
    put(&h->out, 0);
    UNTIL(served() == 0);
    end();
}

static void services_are_recorded_with_the_settings(void **state AS_UNUSED)
{
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    put(&h->out, 2);
    UNTIL(served() == 2);
    as_buf_add(&w.recorded, "", 1);
    w.recorded.n--;
    assert_non_null(strstr((const char *)w.recorded.p, "OPTIONS TRAFFIC SERVICES;"));
    end();
}

static void a_dispatcher_that_was_told_of_services_knows_them(void **state AS_UNUSED)
{
    const char *why = "";
    struct as_buf frames;
    struct as_outq q;

    begin(usual());
    as_outq_init(&q);
    as_buf_init(&frames);
    put(&q, 2);
    as_outq_peek(&q, &frames);
    assert_int_equal(as_fleet_restore(w.fleet,
                                      &(struct as_fleet_record){.deployment = AS_STR("default#app"),
                                                                .frames = as_buf_slice(&frames)},
                                      &why),
                     0);
    UNTIL(served() == 2);
    as_fleet_delete_deployment(w.fleet, AS_STR("default#app"), false);
    UNTIL(served() == 0);
    as_buf_fini(&frames);
    as_outq_fini(&q);
    end();
}

static void malformed_services_end_the_link(void **state AS_UNUSED)
{
    struct hand *h;
    uint8_t *p;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    p = as_outq_alloc(&h->out, 64);
    memset(p, 0, 64);
    p[0] = 8; /* the payload: one method, which is not there */
    p[4] = AS_FRAME_SERVICES;
    p[5] = AS_FRAME_F_OPTIONAL;
    p[16] = 1;
    UNTIL(w.gone == 1);
    assert_int_equal(served(), 0);
    end();
}

static void a_worker_of_others_has_none(void **state AS_UNUSED)
{
    struct hand *h;

    begin(usual());
    h = join(0, "join", false, &no_options);
    put(&h->out, 1);
    UNTIL(w.gone == 1);
    assert_int_equal(served(), 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_tells_its_services),
        cmocka_unit_test(services_are_recorded_with_the_settings),
        cmocka_unit_test(a_dispatcher_that_was_told_of_services_knows_them),
        cmocka_unit_test(malformed_services_end_the_link),
        cmocka_unit_test(a_worker_of_others_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
