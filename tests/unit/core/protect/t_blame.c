/* Specification of core/protect/blame: suspects, what becomes poison and for how long, and the
 * limits of the table.
 */
#include "core/protect/blame.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <cmocka.h>

#define TTL (60 * AS_SEC)
#define NOW (1000 * AS_SEC)

static struct as_fingerprint fingerprint(uint64_t lo)
{
    return (struct as_fingerprint){.lo = lo, .size = 100, .model = 1};
}

static void init(struct as_blame *b, uint32_t max)
{
    as_blame_init(b, &(struct as_blame_conf){.max = max, .ttl = TTL});
}

static struct as_blame_entry *add(struct as_blame *b, uint64_t lo, bool alone, as_ns now)
{
    struct as_fingerprint p = fingerprint(lo);
    struct as_blame_entry *e = as_blame_add(b, &p, alone, 0, now);

    assert_true(as_blame_ok(b));
    return e;
}

static struct as_blame_entry *find(struct as_blame *b, uint64_t lo, as_ns now)
{
    struct as_fingerprint p = fingerprint(lo);

    return as_blame_find(b, &p, now);
}

static void test_the_first_death_makes_a_suspect(void **state AS_UNUSED)
{
    struct as_blame b;

    init(&b, 4);
    assert_int_equal(add(&b, 7, false, NOW)->state, AS_BLAME_SUSPECT);
    assert_int_equal(find(&b, 7, NOW)->deaths_caused, 1);
    assert_null(find(&b, 8, NOW));
    as_blame_fini(&b);
}

static void test_deaths_in_company_make_no_poison(void **state AS_UNUSED)
{
    struct as_blame b;

    init(&b, 4);
    for (int i = 0; i < 10; i++)
        assert_int_equal(add(&b, 7, false, NOW)->state, AS_BLAME_SUSPECT);
    as_blame_fini(&b);
}

static void test_a_death_while_alone_makes_poison(void **state AS_UNUSED)
{
    struct as_blame b;

    init(&b, 4);
    add(&b, 7, false, NOW);
    assert_int_equal(add(&b, 7, true, NOW)->state, AS_BLAME_POISON);
    assert_int_equal(as_blame_poisons(&b), 1);
    as_blame_fini(&b);
}

static void test_verdicts_may_come_in_any_order(void **state AS_UNUSED)
{
    struct as_blame b;

    init(&b, 4);
    assert_int_equal(add(&b, 7, true, NOW)->state,
                     AS_BLAME_SUSPECT); /* the first death is not reported yet */
    assert_int_equal(add(&b, 7, false, NOW)->state, AS_BLAME_POISON);
    /* a suspect again: only a death while it is alone proves something */
    assert_int_equal(find(&b, 7, NOW + TTL)->state, AS_BLAME_SUSPECT);
    assert_int_equal(add(&b, 7, false, NOW + TTL)->state, AS_BLAME_SUSPECT);
    assert_int_equal(add(&b, 7, true, NOW + TTL)->state, AS_BLAME_POISON);
    as_blame_fini(&b);
}

static void test_only_what_may_be_known_is_hashed(void **state AS_UNUSED)
{
    struct as_blame b;

    init(&b, 4);
    assert_false(as_blame_may_match(&b, 1, 100));
    add(&b, 7, false, NOW);
    assert_true(as_blame_may_match(&b, 1, 100));
    assert_false(as_blame_may_match(&b, 1, 101));
    assert_false(as_blame_may_match(&b, 2, 100));
    as_blame_fini(&b);
}

static void test_poison_is_a_suspect_after_its_time(void **state AS_UNUSED)
{
    struct as_blame b;

    init(&b, 4);
    add(&b, 7, false, NOW);
    add(&b, 7, true, NOW);
    assert_int_equal(find(&b, 7, NOW + TTL - 1)->state, AS_BLAME_POISON);
    assert_int_equal(find(&b, 7, NOW + TTL)->state, AS_BLAME_SUSPECT);
    assert_non_null(find(&b, 7, NOW + 2 * TTL - 1));
    assert_null(find(&b, 7, NOW + 2 * TTL));
    assert_int_equal(b.n, 0);
    as_blame_fini(&b);
}

static void test_suspects_are_forgotten_unless_somebody_waits(void **state AS_UNUSED)
{
    struct as_blame b;

    init(&b, 4);
    add(&b, 7, false, NOW);
    add(&b, 8, false, NOW)->n_requests = 1;
    as_blame_expire(&b, NOW + TTL - 1);
    assert_int_equal(b.n, 2);
    as_blame_expire(&b, NOW + TTL);
    assert_int_equal(b.n, 1);
    assert_non_null(find(&b, 8, NOW + TTL));
    find(&b, 8, NOW + TTL)->n_requests = 0;
    as_blame_remove(&b, find(&b, 8, NOW + TTL));
    assert_int_equal(b.n, 0);
    as_blame_fini(&b);
}

static void test_a_full_table_gives_up_its_oldest_suspect_first(void **state AS_UNUSED)
{
    struct as_blame b;

    init(&b, 3);
    add(&b, 1, false, NOW);
    add(&b, 1, true, NOW); /* poison */
    add(&b, 2, false, NOW + 1);
    add(&b, 3, false, NOW + 2);
    assert_non_null(add(&b, 4, false, NOW + 3));
    assert_null(find(&b, 2, NOW + 3));
    assert_non_null(find(&b, 1, NOW + 3));
    assert_non_null(find(&b, 3, NOW + 3));
    assert_int_equal(b.n, 3);
    as_blame_fini(&b);
}

static void test_a_table_in_use_takes_no_new_entry(void **state AS_UNUSED)
{
    struct as_blame b;

    init(&b, 1);
    add(&b, 1, false, NOW)->n_requests = 1;
    assert_null(add(&b, 2, false, NOW));
    find(&b, 1, NOW)->n_requests = 0;
    as_blame_fini(&b);
    init(&b, 0); /* switched off */
    assert_null(add(&b, 2, false, NOW));
    as_blame_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_death_makes_a_suspect),
        cmocka_unit_test(test_deaths_in_company_make_no_poison),
        cmocka_unit_test(test_a_death_while_alone_makes_poison),
        cmocka_unit_test(test_verdicts_may_come_in_any_order),
        cmocka_unit_test(test_only_what_may_be_known_is_hashed),
        cmocka_unit_test(test_poison_is_a_suspect_after_its_time),
        cmocka_unit_test(test_suspects_are_forgotten_unless_somebody_waits),
        cmocka_unit_test(test_a_full_table_gives_up_its_oldest_suspect_first),
        cmocka_unit_test(test_a_table_in_use_takes_no_new_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
