/* Specification of core/registry/traffic: canaries, mirrors and fallback among the versions of one
 * name. */
#include "base/err.h"
#include "core/registry/traffic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define PERCENT (AS_TRAFFIC_ALL / 100)

/* Version N of model m is served by deployment N, which is called "dN". */
static void add(struct as_registry **g, uint32_t n, struct as_traffic t)
{
    char version[12], name[12];
    struct as_model m = {.name = AS_STR("m"), .deployment = n, .traffic = t};
    struct as_registry *next;
    const char *why;

    snprintf(version, sizeof(version), "%u", n);
    snprintf(name, sizeof(name), "d%u", n);
    m.version = as_str_of(version);
    m.served_by = as_str_of(name);
    assert_int_equal(as_registry_with_model(*g, &m, &next, &why), 0);
    as_registry_unref(*g);
    *g = next;
}

static void say(struct as_registry **g, uint32_t n, struct as_traffic t)
{
    struct as_registry *next = as_registry_set_traffic(*g, n, &t);

    as_registry_unref(*g);
    *g = next;
}

static const struct as_model *version(const struct as_registry *g, const char *v)
{
    return as_registry_find(g, AS_STR("m"), as_str_of(v), NULL);
}

static const char *name_of(const struct as_model *m)
{
    static char z[AS_VERSION_MAX + 1];

    if (!m)
        return "none";
    snprintf(z, sizeof(z), "%.*s", AS_STR_FMT(m->version));
    return z;
}

static struct as_traffic canary(uint32_t percent)
{
    return (struct as_traffic){.is_canary = true, .canary = percent * PERCENT};
}

static struct as_traffic mirror(uint32_t percent)
{
    return (struct as_traffic){.mirror = percent * PERCENT};
}

static struct as_traffic fallback(const char *name)
{
    return (struct as_traffic){.fallback = as_str_of(name)};
}

static bool all_serve(void *arg AS_UNUSED, const struct as_model *m AS_UNUSED)
{
    return true;
}

static bool all_but(void *arg, const struct as_model *m)
{
    return m->deployment != *(uint32_t *)arg;
}

static const char *at(const struct as_registry *g, uint32_t percent)
{
    return name_of(as_traffic_canary(g, version(g, ""), percent * PERCENT, all_serve, NULL));
}

/* --- the default version --- */

static void test_a_canary_is_not_the_default_version(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();

    add(&g, 2, canary(10));
    assert_string_equal(name_of(version(g, "")), "2"); /* the only version */
    add(&g, 1, (struct as_traffic){0});
    assert_string_equal(name_of(version(g, "")), "1");
    assert_string_equal(name_of(version(g, "2")), "2");
    add(&g, 3, canary(0));
    assert_string_equal(name_of(version(g, "")), "1");
    say(&g, 2, (struct as_traffic){0}); /* promoted */
    assert_string_equal(name_of(version(g, "")), "2");
    say(&g, 1, canary(1));
    say(&g, 2, canary(1));
    assert_string_equal(name_of(version(g, "")), "3"); /* all are canaries */
    as_registry_unref(g);
}

static void test_only_names_with_traffic_settings_are_routed(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new(), *old;

    add(&g, 1, (struct as_traffic){0});
    assert_false(version(g, "1")->routed);
    add(&g, 2, mirror(1));
    assert_true(version(g, "1")->routed);
    assert_true(version(g, "2")->routed);
    old = as_registry_ref(g);
    say(&g, 2, (struct as_traffic){0});
    assert_false(version(g, "1")->routed);
    assert_true(version(old, "1")->routed); /* the old snapshot is unchanged */
    as_registry_unref(old);
    say(&g, 1, fallback("d2"));
    assert_true(version(g, "2")->routed);
    as_registry_unref(g);
}

static void test_the_same_settings_again_change_nothing(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new(), *next;
    struct as_traffic t = fallback("d1");

    add(&g, 1, t);
    next = as_registry_set_traffic(g, 1, &t);
    assert_ptr_equal(next, g);
    as_registry_unref(next);
    next = as_registry_set_traffic(g, 7, &t); /* it has no model */
    assert_ptr_equal(next, g);
    as_registry_unref(next);
    as_registry_unref(g);
}

/* --- points --- */

static void test_an_id_has_one_point(void **state AS_UNUSED)
{
    uint32_t turn = 0, n[10] = {0};
    char id[32];

    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t p, size = (uint32_t)snprintf(id, sizeof(id), "request-%u", i);

        p = as_traffic_point(AS_STR("m"), (struct as_str){id, size}, &turn);
        assert_true(p < AS_TRAFFIC_ALL);
        assert_int_equal(p, as_traffic_point(AS_STR("m"), (struct as_str){id, size}, &turn));
        n[p * 10 / AS_TRAFFIC_ALL]++;
    }
    assert_int_equal(turn, 0);
    for (uint32_t i = 0; i < 10; i++) /* 1000 each; sigma is 30 */
        assert_in_range(n[i], 850, 1150);
    assert_int_not_equal(as_traffic_point(AS_STR("m"), AS_STR("1"), &turn),
                         as_traffic_point(AS_STR("k"), AS_STR("1"), &turn));
}

/* Of any n points in a row, a part p gets n * p, plus or minus two. */
static void test_without_an_id_parts_are_even(void **state AS_UNUSED)
{
    static const uint32_t parts[] = {1, 5, 10, 33, 50, 99};

    for (size_t i = 0; i < AS_COUNT(parts); i++) {
        uint32_t turn = 0x1234567u * (uint32_t)i, met = 0;

        for (uint32_t n = 1; n <= 2000; n++) {
            uint32_t p = as_traffic_point(AS_STR("m"), AS_STR(""), &turn);

            assert_true(p < AS_TRAFFIC_ALL);
            met += p < parts[i] * PERCENT;
            assert_in_range(met + 2, n * parts[i] / 100, n * parts[i] / 100 + 4);
        }
    }
}

/* --- canaries --- */

static void test_a_canary_takes_its_part(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    struct as_model stream = {.name = AS_STR("m"), .decoupled = true};

    add(&g, 1, (struct as_traffic){0});
    add(&g, 2, canary(10));
    assert_string_equal(at(g, 0), "2");
    assert_string_equal(at(g, 9), "2");
    assert_string_equal(at(g, 10), "none");
    add(&g, 3, canary(20)); /* its points follow those of the other canary */
    assert_string_equal(at(g, 9), "2");
    assert_string_equal(at(g, 29), "3");
    assert_string_equal(at(g, 30), "none");
    say(&g, 2, canary(90)); /* the parts add up to more than 100 % */
    assert_string_equal(at(g, 99), "3");
    say(&g, 2, canary(100));
    assert_string_equal(at(g, 99), "2");
    say(&g, 2, canary(0));
    assert_string_equal(at(g, 0), "3");
    assert_null(as_traffic_canary(g, &stream, 0, all_serve, NULL)); /* of another kind */
    as_registry_unref(g);
}

static void test_a_canary_without_replicas_takes_nothing(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    uint32_t dead = 2;

    add(&g, 1, (struct as_traffic){0});
    add(&g, 2, canary(10));
    add(&g, 3, canary(10));
    assert_null(as_traffic_canary(g, version(g, ""), 5 * PERCENT, all_but, &dead));
    /* and no other version gets its part */
    assert_string_equal(name_of(as_traffic_canary(g, version(g, ""), 15 * PERCENT, all_but, &dead)),
                        "3");
    as_registry_unref(g);
}

/* --- mirrors --- */

static void test_mirrors_get_what_others_get(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    const struct as_model *m;

    add(&g, 1, (struct as_traffic){0});
    add(&g, 2, mirror(10));
    add(&g, 3, mirror(30));
    m = as_traffic_mirror(g, version(g, "1"), 9 * PERCENT, NULL);
    assert_string_equal(name_of(m), "2");
    m = as_traffic_mirror(g, version(g, "1"), 9 * PERCENT, m);
    assert_string_equal(name_of(m), "3");
    assert_null(as_traffic_mirror(g, version(g, "1"), 9 * PERCENT, m));
    assert_string_equal(name_of(as_traffic_mirror(g, version(g, "1"), 10 * PERCENT, NULL)), "3");
    assert_null(as_traffic_mirror(g, version(g, "1"), 30 * PERCENT, NULL));
    assert_string_equal(name_of(as_traffic_mirror(g, version(g, "3"), 0, NULL)), "2");
    assert_null(as_traffic_mirror(g, version(g, "2"), 20 * PERCENT,
                                  as_traffic_mirror(g, version(g, "2"), 20 * PERCENT, NULL)));
    as_registry_unref(g);
}

/* --- fallback --- */

static const char *hop(const struct as_registry *g, const char *first, uint32_t n)
{
    return name_of(as_traffic_fallback(g, version(g, first), n));
}

static void test_a_chain_is_followed(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();

    add(&g, 3, fallback("d2"));
    assert_string_equal(hop(g, "3", 1), "none"); /* no deployment of that name serves m */
    add(&g, 2, fallback("d1"));
    add(&g, 1, (struct as_traffic){0});
    assert_string_equal(hop(g, "3", 1), "2");
    assert_string_equal(hop(g, "3", 2), "1");
    assert_string_equal(hop(g, "3", 3), "none");
    assert_string_equal(hop(g, "1", 1), "none");
    as_registry_unref(g);
}

static void test_a_cycle_ends(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();

    add(&g, 1, fallback("d1"));
    assert_string_equal(hop(g, "1", 1), "none");
    say(&g, 1, fallback("d2"));
    add(&g, 2, fallback("d3"));
    add(&g, 3, fallback("d2"));
    assert_string_equal(hop(g, "1", 1), "2");
    assert_string_equal(hop(g, "1", 2), "3");
    assert_string_equal(hop(g, "1", 3), "none");
    assert_string_equal(hop(g, "1", 4), "none");
    as_registry_unref(g);
}

static void test_a_chain_has_a_maximum_length(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    char next[12], want[12];

    for (uint32_t i = 1; i < 20; i++) {
        snprintf(next, sizeof(next), "d%u", i + 1);
        add(&g, i, fallback(next));
    }
    snprintf(want, sizeof(want), "%u", AS_TRAFFIC_HOPS + 1);
    assert_string_equal(hop(g, "1", AS_TRAFFIC_HOPS), want);
    assert_string_equal(hop(g, "1", AS_TRAFFIC_HOPS + 1), "none");
    as_registry_unref(g);
}

static void test_of_several_versions_the_default_one_is_taken(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new(), *next;
    struct as_model m = {.name = AS_STR("m"), .served_by = AS_STR("old"), .deployment = 50};
    static const char *const versions[] = {"4", "11", "beta"};
    const char *why;

    add(&g, 70, fallback("old"));
    for (size_t i = 0; i < AS_COUNT(versions); i++) {
        m.version = as_str_of(versions[i]);
        assert_int_equal(as_registry_with_model(g, &m, &next, &why), 0);
        as_registry_unref(g);
        g = next;
    }
    assert_string_equal(hop(g, "70", 1), "11");
    as_registry_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_canary_is_not_the_default_version),
        cmocka_unit_test(test_only_names_with_traffic_settings_are_routed),
        cmocka_unit_test(test_the_same_settings_again_change_nothing),
        cmocka_unit_test(test_an_id_has_one_point),
        cmocka_unit_test(test_without_an_id_parts_are_even),
        cmocka_unit_test(test_a_canary_takes_its_part),
        cmocka_unit_test(test_a_canary_without_replicas_takes_nothing),
        cmocka_unit_test(test_mirrors_get_what_others_get),
        cmocka_unit_test(test_a_chain_is_followed),
        cmocka_unit_test(test_a_cycle_ends),
        cmocka_unit_test(test_a_chain_has_a_maximum_length),
        cmocka_unit_test(test_of_several_versions_the_default_one_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
