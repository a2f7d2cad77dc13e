/* Specification of base/suggest: the known name that is suggested for a typed one, if any. */
#include "base/suggest.h"

#include "unit.h"

static void check(const char *typed, const char *want, ...)
{
    struct as_suggest near = {.key = as_str_of(typed)};
    struct as_str best;
    const char *name;
    va_list ap;

    va_start(ap, want);
    while ((name = va_arg(ap, const char *)))
        as_suggest_offer(&near, as_str_of(name));
    va_end(ap);
    best = as_suggest_best(&near);
    assert_true(want ? as_str_eq(best, as_str_of(want)) : !best.p);
}

static void the_closest_name_wins(void **state AS_UNUSED)
{
    check("num_replica", "num_replicas", "name", "num_replicas", "num_gpus", NULL);
    check("nmae", "name", "name", "named", NULL); /* two swapped letters have a distance of 1 */
    check("prot", "port", "host", "port", NULL);
    check("name", "name", "named", "name", NULL);
    check("max_queued", "max_queued_requests", "max_ongoing_requests", "max_queued_requests", NULL);
}

static void a_wrong_hint_is_worse_than_none(void **state AS_UNUSED)
{
    check("color", NULL, "num_replicas", "name", NULL);
    check("x", NULL, NULL);
    check("", NULL, "name", NULL);
}

/* A distance of 1, and 1 more for every three letters. */
static void distance_is_bounded(void **state AS_UNUSED)
{
    check("abXX", "abcd", "abcd", NULL);
    check("aXXX", NULL, "abcd", NULL);
}

static void long_names_get_no_hint(void **state AS_UNUSED)
{
    char at[65], over[66];

    memset(at, 'a', 64);
    at[64] = 0;
    memset(over, 'a', 65);
    over[65] = 0;
    check(at, at, at, NULL);
    check(over, NULL, over, NULL);
    check(at, NULL, over, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_closest_name_wins),
        cmocka_unit_test(a_wrong_hint_is_worse_than_none),
        cmocka_unit_test(distance_is_bounded),
        cmocka_unit_test(long_names_get_no_hint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
