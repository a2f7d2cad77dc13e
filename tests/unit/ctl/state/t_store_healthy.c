/* Specification of ctl/state/store: the generations in which deployments were healthy, to which a
 * rollback goes. */
#include "store_case.h"

static void the_healthy_generation_is_kept_for_a_rollback(void **state AS_UNUSED)
{
    struct as_store *s = open_store(1);
    struct as_store_entry e;
    uint64_t g = 0, before = 9;

    assert_int_equal(as_store_healthy(s, AS_STR("app"), AS_STR("echo"), &g, &before, &err),
                     AS_ENOTFOUND);
    assert_int_equal(put(s, "good", "spec of 1"), 1);
    assert_int_equal(as_store_set_healthy(s, AS_STR("app"), AS_STR("echo"), 1, 0, &err), 0);
    put(s, "bad", "x");
    put(s, "worse", "x");
    as_store_close(s);

    s = open_store(1);
    assert_int_equal(as_store_healthy(s, AS_STR("app"), AS_STR("echo"), &g, &before, &err), 0);
    assert_int_equal(g, 1);
    assert_int_equal(before, 0);
    assert_int_equal(as_store_get(s, g, &e, &err), 0);
    assert_true(as_str_eq(e.spec, AS_STR("spec of 1")));
    assert_int_equal(as_store_get(s, 2, &e, &err), AS_ENOTFOUND);
    /* not of a deployment of the same name in another application */
    assert_int_equal(as_store_healthy(s, AS_STR("other"), AS_STR("echo"), &g, &before, &err),
                     AS_ENOTFOUND);
    /* the next healthy generation replaces it */
    assert_int_equal(as_store_set_healthy(s, AS_STR("app"), AS_STR("echo"), 3, 0, &err), 0);
    put(s, "next", "x");
    assert_int_equal(as_store_get(s, 1, &e, &err), AS_ENOTFOUND);
    assert_int_equal(as_store_get(s, 3, &e, &err), 0);
    as_store_close(s);
}

static void the_healthy_generations_of_a_deleted_deployment_go(void **state AS_UNUSED)
{
    struct as_store *s = open_store(1);
    struct as_store_change removed = {
        .application = AS_STR("app"), .deployment = AS_STR("echo"), .step = AS_STR("removed")};
    struct as_store_entry e = {.cause = AS_STR("delete"), .changes = &removed, .n_changes = 1};
    uint64_t g, before;

    for (int i = 0; i < 3; i++)
        put(s, "deploy", "x");
    assert_int_equal(as_store_set_healthy(s, AS_STR("app"), AS_STR("other"), 3, 0, &err), 0);
    put(s, "deploy", "x");
    assert_int_equal(as_store_set_healthy(s, AS_STR("app"), AS_STR("echo"), 4, 3, &err), 0);
    put(s, "deploy", "x");
    assert_int_equal(as_store_put(s, &e, &g, &err), 0);
    assert_int_equal(as_store_healthy(s, AS_STR("app"), AS_STR("echo"), &g, &before, &err),
                     AS_ENOTFOUND);
    assert_int_equal(as_store_get(s, 4, &e, &err), AS_ENOTFOUND);
    assert_int_equal(as_store_get(s, 3, &e, &err), 0); /* of another deployment */
    assert_int_equal(as_store_get(s, 6, &e, &err), 0);
    as_store_close(s);
}

static void the_previous_healthy_generation_is_kept(void **state AS_UNUSED)
{
    struct as_store *s = open_store(1);
    struct as_store_entry e;
    uint64_t g = 0, before = 0;

    put(s, "first", "1");
    put(s, "second", "2");
    assert_int_equal(as_store_set_healthy(s, AS_STR("app"), AS_STR("echo"), 2, 0, &err), 0);
    assert_int_equal(as_store_set_healthy(s, AS_STR("app"), AS_STR("echo"), 3, 2, &err),
                     AS_ENOTFOUND);
    put(s, "third", "3");
    assert_int_equal(as_store_set_healthy(s, AS_STR("app"), AS_STR("echo"), 3, 2, &err), 0);
    put(s, "fourth", "4");
    as_store_close(s);
    s = open_store(1);
    assert_int_equal(as_store_healthy(s, AS_STR("app"), AS_STR("echo"), &g, &before, &err), 0);
    assert_int_equal(g, 3);
    assert_int_equal(before, 2);
    assert_int_equal(as_store_get(s, 2, &e, &err), 0);
    assert_true(as_str_eq(e.spec, AS_STR("2")));
    assert_int_equal(as_store_get(s, 1, &e, &err), AS_ENOTFOUND);
    as_store_close(s);
}

static void add_generation(void *arg, uint64_t generation)
{
    *(uint64_t *)arg = *(uint64_t *)arg * 10 + generation;
}

static void each_healthy_generation_is_listed_once(void **state AS_UNUSED)
{
    struct as_store *s = open_store(1);
    uint64_t all = 0;

    assert_int_equal(as_store_each_healthy(s, add_generation, &all, &err), 0);
    assert_int_equal(all, 0);
    for (int i = 0; i < 3; i++)
        put(s, "x", "x");
    assert_int_equal(as_store_set_healthy(s, AS_STR("app"), AS_STR("a"), 3, 0, &err), 0);
    put(s, "x", "x");
    assert_int_equal(as_store_set_healthy(s, AS_STR("app"), AS_STR("b"), 4, 3, &err), 0);
    assert_int_equal(as_store_each_healthy(s, add_generation, &all, &err), 0);
    assert_int_equal(all, 34);
    assert_int_equal(put(s, "x", "x"), 5); /* no statement is left open */
    as_store_close(s);
}

static void only_a_generation_that_is_there_can_be_healthy(void **state AS_UNUSED)
{
    struct as_store *s = open_store(1);

    err.n = 0;
    assert_int_equal(as_store_set_healthy(s, AS_STR("a"), AS_STR("d"), 7, 0, &err), AS_ENOTFOUND);
    assert_string_equal(error_text(), "there is no generation 7");
    as_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_healthy_generation_is_kept_for_a_rollback),
        IN_FOLDER(the_healthy_generations_of_a_deleted_deployment_go),
        IN_FOLDER(each_healthy_generation_is_listed_once),
        IN_FOLDER(the_previous_healthy_generation_is_kept),
        IN_FOLDER(only_a_generation_that_is_there_can_be_healthy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
