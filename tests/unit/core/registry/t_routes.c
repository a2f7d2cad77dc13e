/* Specification of core/registry/routes: which application a path belongs to. */
#include "core/registry/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void set(struct as_routes **g, const char *deployment, const char *prefix)
{
    struct as_routes *next = as_routes_set(*g, as_str_of(deployment), as_str_of(prefix));

    assert_non_null(next);
    as_routes_unref(*g);
    *g = next;
}

static void expect(const struct as_routes *g, const char *path, const char *deployment)
{
    const struct as_route *r = as_routes_find(g, as_str_of(path));

    if (!deployment) {
        assert_null(r);
        return;
    }
    assert_non_null(r);
    if (!as_str_eq(r->deployment, as_str_of(deployment)))
        fail_msg("%s: %.*s, not %s", path, AS_STR_FMT(r->deployment), deployment);
    assert_int_equal(r->number, AS_ROUTE_UNKNOWN);
}

static void the_longest_prefix_counts(void **state AS_UNUSED)
{
    struct as_routes *g = as_routes_new();

    expect(g, "/", NULL);
    set(&g, "a#A", "/a");
    set(&g, "ab#B", "/a/b");
    set(&g, "x#X", "/abc");
    expect(g, "/", NULL);
    expect(g, "/a", "a#A");
    expect(g, "/a/", "a#A");
    expect(g, "/a/c", "a#A");
    expect(g, "/a/b", "ab#B");
    expect(g, "/a/b/c", "ab#B");
    expect(g, "/a/bc", "a#A");
    expect(g, "/ab", NULL);
    expect(g, "/abc", "x#X");
    expect(g, "/abcd", NULL);
    expect(g, "/A", NULL);
    set(&g, "root#R", "/");
    expect(g, "/", "root#R");
    expect(g, "/ab", "root#R");
    expect(g, "/a/bc", "a#A");
    expect(g, "*", NULL);
    expect(g, "", NULL);
    assert_int_equal(as_routes_count(g), 4);
    assert_true(as_str_eq(as_routes_at(g, 0)->prefix, AS_STR("/a/b")));
    assert_true(as_str_eq(as_routes_at(g, 0)->root, AS_STR("/a/b")));
    assert_true(as_str_eq(as_routes_at(g, 3)->prefix, AS_STR("/")));
    assert_int_equal(as_routes_at(g, 3)->root.n, 0);
    as_routes_unref(g);
}

static void routes_change_and_go(void **state AS_UNUSED)
{
    struct as_routes *g = as_routes_new(), *before;

    set(&g, "a#A", "/a");
    before = as_routes_ref(g);
    set(&g, "a#A", "/a");
    assert_ptr_equal(g, before); /* nothing has changed */
    set(&g, "none#N", "");
    assert_ptr_equal(g, before);
    set(&g, "a#A", "/b//"); /* slashes at the end do not count */
    expect(g, "/a", NULL);
    expect(g, "/b/x", "a#A");
    expect(before, "/a", "a#A"); /* a snapshot stays as it is */
    set(&g, "c#C", "/b");        /* the last one has it */
    expect(g, "/b", "c#C");
    assert_int_equal(as_routes_count(g), 1);
    set(&g, "a#A", ""); /* has none any more */
    expect(g, "/b", "c#C");
    set(&g, "c#C", "");
    expect(g, "/b", NULL);
    assert_int_equal(as_routes_count(g), 0);
    as_routes_unref(before);
    as_routes_unref(g);
}

static uint64_t count_of(const struct as_routes *g, const char *path)
{
    return as_counts_read(as_routes_find(g, as_str_of(path))->counts, 0);
}

static void counts_stay_with_their_routes(void **state AS_UNUSED)
{
    struct as_routes *g = as_routes_new(), *before;

    set(&g, "a#A", "/a");
    as_counts_add(as_routes_find(g, AS_STR("/a"))->counts, 0);
    before = as_routes_ref(g);
    set(&g, "b#B", "/b");
    as_counts_add(as_routes_find(before, AS_STR("/a"))->counts,
                  0); /* a request that began before */
    assert_int_equal(count_of(g, "/a"), 2);
    assert_int_equal(count_of(g, "/b"), 0);
    as_routes_unref(before);
    set(&g, "b#B", "/a"); /* another deployment */
    assert_int_equal(count_of(g, "/a"), 0);
    as_counts_add(as_routes_find(g, AS_STR("/a"))->counts, 0);
    set(&g, "b#B", "/c"); /* another prefix */
    assert_int_equal(count_of(g, "/c"), 0);
    as_routes_unref(g);
}

static void limits(void **state AS_UNUSED)
{
    struct as_routes *g = as_routes_new();
    char prefix[AS_ROUTE_PREFIX_MAX + 2], name[16];

    memset(prefix, 'x', sizeof(prefix));
    prefix[0] = '/';
    prefix[AS_ROUTE_PREFIX_MAX] = 0;
    set(&g, "a#A", prefix);
    expect(g, prefix, "a#A");
    assert_null(as_routes_set(g, AS_STR("a#A"), (struct as_str){prefix, AS_ROUTE_PREFIX_MAX + 1}));
    assert_null(as_routes_set(g, AS_STR("a#A"), AS_STR("a")));
    assert_null(as_routes_set(g, AS_STR("a#A"), AS_STR("/\n")));
    assert_null(as_routes_set(g, AS_STR("a#A"), AS_STR("/\x7f")));
    for (unsigned i = 1; i < AS_ROUTES_MAX; i++) {
        snprintf(name, sizeof(name), "/p%u", i);
        set(&g, name + 1, name);
    }
    assert_int_equal(as_routes_count(g), AS_ROUTES_MAX);
    assert_null(as_routes_set(g, AS_STR("z#Z"), AS_STR("/z")));
    set(&g, "p7", "/z"); /* one that is there may change */
    expect(g, "/z", "p7");
    as_routes_unref(g);
    as_routes_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_prefix_counts),
        cmocka_unit_test(counts_stay_with_their_routes),
        cmocka_unit_test(routes_change_and_go),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
