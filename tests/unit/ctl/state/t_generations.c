/* Specification of ctl/state/generations: generations that somebody needs. */
#include "ctl/state/generations.h"

#include "unit.h"

static const struct as_spec_limits limits = {
    .bytes = 10000, .depth = 20, .applications = 10, .deployments = 10, .errors = 10};

static struct as_spec *spec_of(const char *text)
{
    struct as_buf err = {0};
    struct as_spec *s;

    assert_int_equal(as_spec_parse(&s, &limits, "test", as_str_of(text), &err), 0);
    return s;
}

#define TWO                                                                                        \
    "applications: [{name: a, command: [x], deployments: [{name: d}]},"                            \
    " {name: b, command: [y], deployments: [{name: e}, {name: f, version: 2}]}]"

/* Generation 7 is stored; counts how often it is loaded. */
static int load(void *ctx, uint64_t generation, struct as_spec **ret_s)
{
    ++*(uint32_t *)ctx;
    if (generation != 7)
        return AS_ENOTFOUND;
    *ret_s = spec_of(TWO);
    return 0;
}

static bool is_generation(void *arg, uint64_t generation)
{
    return generation == *(uint64_t *)arg;
}

static void a_deployment_is_found_in_its_generation(void **state AS_UNUSED)
{
    struct as_generations_deployment page = {0};
    struct as_generations c;

    as_generations_init(&c, NULL, NULL);
    as_generations_add(&c, 1, spec_of(TWO));
    as_generations_add(&c, 2, spec_of("applications: [{command: [x], deployments: [{name: d}]}]"));
    assert_true(as_generations_find(&c, 1, AS_STR("f"), &page));
    assert_string_equal(as_spec_str(page.app, AS_SPEC_APPLICATION_NAME), "b");
    assert_string_equal(as_spec_str(page.deployment, AS_SPEC_DEPLOYMENT_VERSION), "2");
    assert_false(as_generations_find(&c, 2, AS_STR("f"), &page));
    assert_true(as_generations_find(&c, 2, AS_STR("d"), &page));
    assert_false(as_generations_find(&c, 3, AS_STR("d"), &page));
    as_generations_fini(&c);
}

static void a_generation_is_never_replaced(void **state AS_UNUSED)
{
    struct as_generations c;
    const struct as_spec *s;

    as_generations_init(&c, NULL, NULL);
    as_generations_add(&c, 1, spec_of(TWO));
    s = as_generations_get(&c, 1);
    as_generations_add(&c, 1, spec_of("applications: []"));
    assert_ptr_equal(as_generations_get(&c, 1), s);
    as_generations_fini(&c);
}

static void a_stored_generation_is_loaded_once(void **state AS_UNUSED)
{
    struct as_generations_deployment page;
    struct as_generations c;
    uint32_t asked = 0;

    as_generations_init(&c, load, &asked);
    assert_true(as_generations_find(&c, 7, AS_STR("e"), &page));
    assert_true(as_generations_find(&c, 7, AS_STR("d"), &page));
    assert_int_equal(asked, 1);
    assert_null(as_generations_get(&c, 8));
    assert_int_equal(asked, 2);
    as_generations_fini(&c);
}

static void unused_generations_are_freed(void **state AS_UNUSED)
{
    struct as_generations c;
    uint32_t asked = 0;
    uint64_t two = 2;

    as_generations_init(&c, load, &asked);
    for (uint64_t g = 1; g <= 3; g++)
        as_generations_add(&c, g, spec_of(TWO));
    as_generations_prune(&c, is_generation, &two);
    assert_non_null(as_generations_get(&c, 2));
    assert_null(as_generations_get(&c, 1));
    assert_null(as_generations_get(&c, 3));
    assert_int_equal(asked, 2);
    as_generations_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deployment_is_found_in_its_generation),
        cmocka_unit_test(a_generation_is_never_replaced),
        cmocka_unit_test(a_stored_generation_is_loaded_once),
        cmocka_unit_test(unused_generations_are_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
