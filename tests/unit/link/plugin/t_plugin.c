/* Specification of link/plugin: loading shared objects, and what is done with their choices. */
#include "link/plugin/plugin.h"

#include <string.h>

#include "support/deployment_world.h"

static char why[256];

static int load(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), PLUGINS "/%s.so", name);
    why[0] = '\0';
    return as_plugin_load(as_str_of(name), path, why, sizeof(why));
}

static void test_what_is_no_router_is_refused(void **state AS_UNUSED)
{
    assert_int_equal(load("nothing"), AS_EINVALID);
    assert_non_null(strstr(why, "nothing.so"));
    assert_int_equal(load("router_no_entry"), AS_EINVALID);
    assert_non_null(strstr(why, "no function as_router_plugin"));
    assert_int_equal(load("router_abi"), AS_EINVALID);
    assert_non_null(strstr(why, "another version"));
    assert_int_equal(load("router_null"), AS_EINVALID);
    assert_non_null(strstr(why, "choose"));
    assert_null(as_plugin_find(AS_STR("router_null")));
}

static const struct as_router_plugin *example(void)
{
    if (!as_plugin_find(AS_STR("router_prefix")))
        assert_int_equal(load("router_prefix"), 0);
    return as_plugin_find(AS_STR("router_prefix"));
}

static void test_a_list(void **state AS_UNUSED)
{
    assert_int_equal(as_plugin_load_all(AS_STR(""), why, sizeof(why)), 0);
    assert_int_equal(as_plugin_load_all(AS_STR("one=" PLUGINS "/router_prefix.so,two=" PLUGINS
                                               "/router_abi.so,three=" PLUGINS "/router_prefix.so"),
                                        why, sizeof(why)),
                     AS_EINVALID);
    assert_non_null(as_plugin_find(AS_STR("one")));
    assert_null(as_plugin_find(AS_STR("two")));
    assert_null(as_plugin_find(AS_STR("three")));
}

/* Only the length of the option bounds how many there are. */
static void test_many(void **state AS_UNUSED)
{
    static const char path[] = PLUGINS "/router_prefix.so";
    char name[16];

    for (uint32_t i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "many%u", i);
        assert_int_equal(as_plugin_load(as_str_of(name), path, why, sizeof(why)), 0);
    }
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "many%u", i);
        assert_non_null(as_plugin_find(as_str_of(name)));
    }
    assert_null(as_plugin_find(AS_STR("many100")));
}

static void test_a_name_is_loaded_once(void **state AS_UNUSED)
{
    assert_non_null(example());
    assert_int_equal(load("router_prefix"), AS_EINVALID);
    assert_non_null(strstr(why, "already"));
}

static void test_settings_are_checked_by_the_plugin(void **state AS_UNUSED)
{
    struct as_plugin_use u = {0};

    (void)example();
    assert_int_equal(as_plugin_begin(&u, AS_STR("another"), why, sizeof(why)), 0);
    assert_null(u.table);
    setenv("PREFIX_BYTES", "0", 1);
    assert_int_equal(as_plugin_begin(&u, AS_STR("router_prefix"), why, sizeof(why)), AS_EINVALID);
    assert_non_null(strstr(why, "router_prefix: PREFIX_BYTES"));
    assert_null(u.table);
    setenv("PREFIX_BYTES", "4", 1);
    assert_int_equal(as_plugin_begin(&u, AS_STR("router_prefix"), why, sizeof(why)), 0);
    assert_non_null(u.table);
    as_plugin_end(&u);
    assert_null(u.table);
}

static void test_equal_prefixes_go_to_one_replica(void **state AS_UNUSED)
{
    struct as_plugin_use u = {0};
    struct world *w = world_new();
    struct as_router_choice c, first;
    uint32_t others = 0;

    (void)example();
    setenv("PREFIX_BYTES", "4", 1);
    assert_int_equal(as_plugin_begin(&u, AS_STR("router_prefix"), why, sizeof(why)), 0);
    assert_false(as_plugin_choose(&u, w->d, req(w, 'a'), AS_STR("abcd1"), w->now, &c));
    for (char r = 'A'; r <= 'D'; r++)
        join(w, r, 4, 0);
    assert_true(as_plugin_choose(&u, w->d, req(w, 'a'), AS_STR("abcd1"), w->now, &first));
    assert_int_equal(first.n, 1);
    assert_true(as_plugin_choose(&u, w->d, req(w, 'a'), AS_STR("abcd2"), w->now, &c));
    assert_ptr_equal(c.of[0].replica, first.of[0].replica);
    for (char k = '0'; k <= '9'; k++) {
        char body[5] = "key0";

        body[3] = k;
        assert_true(as_plugin_choose(&u, w->d, req(w, 'a'), as_str_of(body), w->now, &c));
        others += c.of[0].replica != first.of[0].replica;
    }
    assert_true(others > 0);
    /* no body: it has no choice */
    assert_false(as_plugin_choose(&u, w->d, req(w, 'a'), (struct as_str){0}, w->now, &c));
    as_plugin_end(&u);
    world_free(w);
}

static void forget(void *state AS_UNUSED)
{
}

static uint32_t bad_index(void *state AS_UNUSED, const struct as_router_request *q AS_UNUSED,
                          const struct as_router_replica *r AS_UNUSED, uint32_t n,
                          struct as_router_pick *picks)
{
    picks[0] = (struct as_router_pick){n, 0};
    return 1;
}

static uint32_t bad_ranks(void *state AS_UNUSED, const struct as_router_request *q AS_UNUSED,
                          const struct as_router_replica *r AS_UNUSED, uint32_t n AS_UNUSED,
                          struct as_router_pick *picks)
{
    picks[0] = (struct as_router_pick){0, 1};
    picks[1] = (struct as_router_pick){1, 0};
    return 2;
}

static uint32_t too_many(void *state AS_UNUSED, const struct as_router_request *q AS_UNUSED,
                         const struct as_router_replica *r AS_UNUSED, uint32_t n AS_UNUSED,
                         struct as_router_pick *picks AS_UNUSED)
{
    return AS_ROUTER_PICKS + 1;
}

static void test_wrong_choices_are_none(void **state AS_UNUSED)
{
    struct as_router_plugin p = *example();
    struct as_plugin_use u = {.table = &p};
    struct world *w = world_new();
    struct as_router_choice c;

    p.destroy = forget;
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    p.choose = bad_index;
    assert_false(as_plugin_choose(&u, w->d, req(w, 'a'), AS_STR("x"), w->now, &c));
    p.choose = bad_ranks;
    assert_false(as_plugin_choose(&u, w->d, req(w, 'a'), AS_STR("x"), w->now, &c));
    p.choose = too_many;
    assert_false(as_plugin_choose(&u, w->d, req(w, 'a'), AS_STR("x"), w->now, &c));
    as_plugin_end(&u);
    world_free(w);
}

/* What the plugin sees of a replica. */
static uint32_t check_view(void *state, const struct as_router_request *q,
                           const struct as_router_replica *r, uint32_t n,
                           struct as_router_pick *picks)
{
    assert_int_equal(n, 2);
    assert_int_equal(q->model_key, 7);
    assert_int_equal(r[0].slots, 1);
    assert_int_equal(r[0].ongoing, 1);
    assert_false(r[0].is_free);
    assert_true(r[0].holds_model);
    assert_int_equal(r[0].models, 1);
    assert_int_equal(r[1].id, 42);
    assert_true(r[1].is_free);
    assert_false(r[1].holds_model);
    *(bool *)state = true;
    picks[0] = (struct as_router_pick){1, 0};
    return 1;
}

static uint64_t routed, completed;

static void note_routed(void *state AS_UNUSED, uint64_t replica)
{
    routed = replica;
}

static void note_completed(void *state AS_UNUSED, uint64_t replica)
{
    completed = replica;
}

static void test_what_a_plugin_sees(void **state AS_UNUSED)
{
    struct as_router_plugin p = *example();
    bool seen = false;
    struct as_plugin_use u = {.table = &p, .state = &seen};
    struct world *w = world_new();
    struct as_router_choice c;

    p.destroy = forget;
    join(w, 'A', 1, 0);
    as_replica_set_held(rep(w, 'A'), (const uint64_t[]){7}, 1, w->now);
    submit_all(w, "b");
    join(w, 'B', 0, 0);
    as_replica_set_place(rep(w, 'B'), 42, (struct as_place){0});
    grant(w, 'B', 3, 0);
    req(w, 'a')->model_key = 7;
    p.choose = check_view;
    assert_true(as_plugin_choose(&u, w->d, req(w, 'a'), (struct as_str){0}, w->now, &c));
    assert_true(seen);
    assert_ptr_equal(c.of[0].replica, rep(w, 'B'));
    as_plugin_note_sent(&u, rep(w, 'B')); /* it has no such function */
    p.on_routed = note_routed;
    p.on_completed = note_completed;
    as_plugin_note_sent(&u, rep(w, 'B'));
    assert_int_equal(routed, 42);
    as_plugin_note_ended(&u, rep(w, 'B'));
    assert_int_equal(completed, 42);
    as_plugin_end(&u);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_router_is_refused),
        cmocka_unit_test(test_a_list),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_a_name_is_loaded_once),
        cmocka_unit_test(test_settings_are_checked_by_the_plugin),
        cmocka_unit_test(test_equal_prefixes_go_to_one_replica),
        cmocka_unit_test(test_wrong_choices_are_none),
        cmocka_unit_test(test_what_a_plugin_sees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
