/* link/native/link_traffic, link/fleet/fleet_router: how workers want replicas to be chosen. */
#include "link_world.h"
#include "wire/frame/frame_router.h"

static struct as_frame_router router(const char *policy)
{
    struct as_frame_router r;

    memset(&r, 0, sizeof(r));
    memcpy(r.policy, policy, strlen(policy));
    return r;
}

static void say(struct as_outq *q, const char *policy)
{
    struct as_frame_router r = router(policy);

    as_frame_put_router(q, &r);
}

static const struct as_router_conf *conf(void)
{
    return as_deployment_router(w.fleet->deploys[0]->core);
}

static void a_worker_says_how_replicas_are_chosen(void **state AS_UNUSED)
{
    struct as_frame_router r = router("consistent_hash");
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    assert_int_equal(conf()->policy, AS_ROUTER_LATE_BINDING);
    for (uint32_t key = 1; key < AS_FRAME_ROUTER_END; key++)
        assert_true(as_frame_router_set(&r, key, as_frame_router_ranges[key].max));
    assert_true(as_frame_router_header(r.session_header, AS_STR("x-user")));
    as_frame_put_router(&h->out, &r);
    UNTIL(conf()->policy == AS_ROUTER_CONSISTENT_HASH);
    assert_int_equal(conf()->max_wait, 3600 * AS_SEC);
    assert_int_equal(conf()->virtual_nodes, 1000);
    assert_int_equal(conf()->fallbacks, 7);
    assert_int_equal(conf()->bound, 10000);
    assert_int_equal(conf()->session_ttl, 365 * 86400 * AS_SEC);
    assert_int_equal(conf()->max_sessions, 1000000);
    assert_true(conf()->prefer_near);
    assert_int_equal(conf()->ask_again_first, 3600 * AS_SEC);
    assert_int_equal(conf()->ask_factor, 10000);
    assert_int_equal(conf()->ask_again_max, 3600 * AS_SEC);
    assert_string_equal(w.fleet->deploys[0]->router.session_header, "x-user");
    as_buf_add(&w.recorded, "", 1);
    w.recorded.n--;
    assert_non_null(strstr((const char *)w.recorded.p, "OPTIONS TRAFFIC ROUTER;"));
    say(&h->out, "");
    UNTIL(conf()->policy == AS_ROUTER_LATE_BINDING);
    assert_int_equal(conf()->virtual_nodes, 100);
    end();
}

static void the_servers_policy_is_used_for_one_that_is_not_known(void **state AS_UNUSED)
{
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    say(&h->out, "session");
    UNTIL(conf()->policy == AS_ROUTER_SESSION);
    say(&h->out, "of_a_later_version");
    UNTIL(conf()->policy == AS_ROUTER_LATE_BINDING);
    assert_int_equal(w.gone, 0);
    end();
}

static void a_dispatcher_that_was_told_of_it_knows_it(void **state AS_UNUSED)
{
    const char *why = "";
    struct as_buf frames;
    struct as_outq q;
    struct as_fleet_record r = {.deployment = AS_STR("default#app")};

    begin(usual());
    as_outq_init(&q);
    as_buf_init(&frames);
    say(&q, "round_robin");
    as_outq_peek(&q, &frames);
    r.frames = as_buf_slice(&frames);
    assert_int_equal(as_fleet_restore(w.fleet, &r, &why), 0);
    join(0, "t0", false, &no_options); /* it has no wish */
    assert_int_equal(conf()->policy, AS_ROUTER_ROUND_ROBIN);
    as_buf_fini(&frames);
    as_outq_fini(&q);
    end();
}

static void a_malformed_router_ends_the_link(void **state AS_UNUSED)
{
    struct hand *h;
    uint8_t *p;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    p = as_outq_alloc(&h->out, 64);
    memset(p, 0, 64);
    p[0] = 16; /* the payload: one entry, which is not there */
    p[4] = AS_FRAME_ROUTER;
    p[5] = AS_FRAME_F_OPTIONAL;
    p[24] = 1;
    UNTIL(w.gone == 1);
    assert_int_equal(conf()->policy, AS_ROUTER_LATE_BINDING);
    end();
}

/* --- a router in C --- */

static uint32_t routed, completed;

static void note_routed(void *state AS_UNUSED, uint64_t replica AS_UNUSED)
{
    routed++;
}

static void note_completed(void *state AS_UNUSED, uint64_t replica AS_UNUSED)
{
    completed++;
}

static void destroy(void *state AS_UNUSED)
{
}

/* on_completed follows each on_routed, also when the replica has died. */
static void a_router_in_c_can_count(void **state AS_UNUSED)
{
    static const struct as_router_plugin table = {
        .destroy = destroy, .on_routed = note_routed, .on_completed = note_completed};
    struct hand *h;

    routed = completed = 0;
    begin(usual());
    h = join(0, "t0", true, &no_options);
    as_fleet_find_deployment(w.fleet, AS_STR("default#app"))->plugin.table = &table;
    submit();
    submit();
    start(h, 2);
    assert_int_equal(routed, 2);
    as_frame_put_end(&h->out, h->streams[0], 1);
    UNTIL(completed == 1);
    die(0, "t0");
    UNTIL(completed == 2);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_router_in_c_can_count),
        cmocka_unit_test(a_worker_says_how_replicas_are_chosen),
        cmocka_unit_test(the_servers_policy_is_used_for_one_that_is_not_known),
        cmocka_unit_test(a_dispatcher_that_was_told_of_it_knows_it),
        cmocka_unit_test(a_malformed_router_ends_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
