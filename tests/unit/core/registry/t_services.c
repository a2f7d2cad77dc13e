/* Specification of core/registry/services: which deployment serves which methods of the user. */
#include "core/registry/services.h"

#include "core/registry/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const struct as_service_method methods[] = {
    {{"/a.B/C", 6}, false, false, NULL},
    {{"/a.B/D", 6}, true, false, NULL},
    {{"/a.Bc/C", 7}, false, true, NULL},
};

static struct as_service_set *make(uint32_t n, const char *descriptors)
{
    return as_service_set_new(methods, n, as_str_of(descriptors));
}

static void a_set_finds_its_methods(void **state AS_UNUSED)
{
    struct as_service_set *s = make(3, "d");

    for (uint32_t i = 0; i < 3; i++) {
        const struct as_service_method *m = as_service_set_find(s, methods[i].path);

        assert_non_null(m);
        assert_true(m->path.p != methods[i].path.p && as_str_eq(m->path, methods[i].path));
        assert_true(m->takes_inputs == methods[i].takes_inputs &&
                    m->gives_parts == methods[i].gives_parts);
    }
    assert_null(as_service_set_find(s, AS_STR("/a.B/")));
    assert_null(as_service_set_find(s, AS_STR("/a.B/CC")));
    assert_null(as_service_set_find(s, AS_STR("/z/z")));
    assert_null(as_service_set_find(s, AS_STR("")));
    assert_true(as_service_set_has(s, AS_STR("a.B")) && as_service_set_has(s, AS_STR("a.Bc")));
    assert_false(as_service_set_has(s, AS_STR("a")) || as_service_set_has(s, AS_STR("")));
    assert_true(as_str_eq(s->descriptors, AS_STR("d")));
    as_service_set_unref(s);
    as_service_set_unref(NULL);
}

static void sets_are_compared(void **state AS_UNUSED)
{
    struct as_service_set *a = make(2, "d"), *same = make(2, "d"), *more = make(3, "d"),
                          *other = make(2, "e");

    assert_true(as_service_set_eq(a, same) && as_service_set_eq(NULL, NULL));
    assert_false(as_service_set_eq(a, more) || as_service_set_eq(a, other) ||
                 as_service_set_eq(a, NULL) || as_service_set_eq(NULL, a));
    as_service_set_unref(a);
    as_service_set_unref(same);
    as_service_set_unref(more);
    as_service_set_unref(other);
}

/* What clients called before stays counted, whatever else the next set has. */
static void counts_stay_with_their_methods(void **state AS_UNUSED)
{
    struct as_service_set *a = make(2, "d"), *next = make(3, "e");
    struct as_counts *kept = a->methods[1].counts;

    as_counts_add(kept, 5);
    as_service_set_keep_counts(next, NULL);
    assert_ptr_not_equal(next->methods[1].counts, kept);
    as_service_set_keep_counts(next, a);
    as_service_set_unref(a);
    assert_ptr_equal(next->methods[1].counts, kept);
    assert_int_equal(as_counts_read(kept, 5), 1);
    assert_int_equal(as_counts_read(kept, AS_COUNTS_SERVICE), 0); /* beyond */
    assert_int_equal(as_counts_read(next->methods[2].counts, 5), 0);
    as_service_set_unref(next);
}

/* Replaces *g by next. */
static void take(struct as_registry **g, struct as_registry *next)
{
    as_registry_unref(*g);
    *g = next;
}

static void a_registry_has_the_sets_of_its_deployments(void **state AS_UNUSED)
{
    struct as_service_set *few = make(1, ""), *many = make(3, "d");
    struct as_registry *g = as_registry_new(), *old;
    const struct as_service_table *t;

    assert_null(as_registry_services(g));
    take(&g, as_registry_set_services(g, 7, AS_STR("x"), NULL));
    assert_null(as_registry_services(g));
    take(&g, as_registry_set_services(g, 7, AS_STR("x"), few));
    take(&g, as_registry_set_services(g, 8, AS_STR("y"), many));
    old = as_registry_ref(g);
    take(&g, as_registry_set_services(g, 7, AS_STR("x"), many)); /* replaces its row */
    t = as_registry_services(g);
    assert_int_equal(t->n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ptr_equal(t->at[i].set, many);
        assert_true(
            as_str_eq(t->at[i].application, t->at[i].deployment == 7 ? AS_STR("x") : AS_STR("y")));
    }
    assert_ptr_equal(as_registry_services(old)->at[0].set, few); /* a snapshot does not change */
    as_registry_unref(old);
    take(&g, as_registry_without_model(g, 8, 0)); /* which keeps the services */
    assert_int_equal(as_registry_services(g)->n, 2);
    take(&g, as_registry_without_deployment(g, 7));
    assert_int_equal(as_registry_services(g)->n, 1);
    assert_int_equal(as_registry_services(g)->at[0].deployment, 8);
    take(&g, as_registry_without_deployment(g, 8));
    assert_null(as_registry_services(g));
    as_registry_unref(g);
    as_service_set_unref(few);
    as_service_set_unref(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_finds_its_methods),
        cmocka_unit_test(sets_are_compared),
        cmocka_unit_test(counts_stay_with_their_methods),
        cmocka_unit_test(a_registry_has_the_sets_of_its_deployments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
