/* Specification of base/memory/budget: how much one account may charge alone and beside others, to
 * the byte; how long an account lives. */
#include "base/memory/budget.h"
#include "unit.h"

#include <pthread.h>

#define LIMIT 1000u

static void one_account_alone_gets_its_share(void **state AS_UNUSED)
{
    static const uint32_t shares[] = {1, 25, 50, 99, 100};

    for (size_t i = 0; i < AS_COUNT(shares); i++) {
        struct as_budget b = {.limit = LIMIT, .share = shares[i]};
        struct as_account *a = as_account_new(&b);
        uint64_t most = LIMIT * shares[i] / 100;

        assert_int_equal(as_budget_account_limit(&b), most);
        assert_false(as_account_try_charge(a, most + 1));
        assert_true(as_account_try_charge(a, most));
        assert_int_equal(as_account_charged(a), most);
        assert_int_equal(as_budget_used(&b), most);
        assert_int_equal(as_budget_free(&b), LIMIT - most);
        assert_false(as_account_try_charge(a, 1));
        assert_int_equal(b.refusals, 2);
        as_account_uncharge(a, most);
        assert_int_equal(as_budget_used(&b), 0);
        as_account_unref(a);
    }
}

static void account_limit_of_any_budget(void **state AS_UNUSED)
{
    struct as_budget b = {.limit = (uint64_t)1 << 50, .share = 50};
    struct as_account *a = as_account_new(&b);

    assert_int_equal(as_budget_account_limit(&b), (uint64_t)1 << 49);
    assert_false(as_account_try_charge(a, ((uint64_t)1 << 49) + 1));
    assert_true(as_account_try_charge(a, (uint64_t)1 << 49));
    as_account_uncharge(a, (uint64_t)1 << 49);
    as_account_unref(a);
    b = (struct as_budget){.limit = 199, .share = 99};
    assert_int_equal(as_budget_account_limit(&b), 199 * 99 / 100);
}

/* The second account may have as many bytes as it leaves free. */
static void two_accounts_share_the_limit(void **state AS_UNUSED)
{
    struct as_budget b = {.limit = LIMIT, .share = 50};
    struct as_account *first = as_account_new(&b), *second = as_account_new(&b);

    assert_true(as_account_try_charge(first, 500));
    assert_false(as_account_try_charge(second, 251));
    assert_true(as_account_try_charge(second, 250));
    assert_false(as_account_try_charge(first, 1)); /* it has more than is free already */
    as_account_uncharge(first, 400);
    assert_true(as_account_try_charge(first, 225));
    assert_false(as_account_try_charge(first, 101));
    as_account_uncharge(first, 325);
    as_account_uncharge(second, 250);
    as_account_unref(first);
    as_account_unref(second);
}

/* Ten accounts that charge all they can, one byte at a time, leave a tenth or more free. */
static void greedy_accounts_leave_some_free(void **state AS_UNUSED)
{
    struct as_budget b = {.limit = 11000, .share = 50};
    struct as_account *a[10], *last = as_account_new(&b);
    bool any = true;

    for (size_t i = 0; i < AS_COUNT(a); i++)
        a[i] = as_account_new(&b);
    while (any) {
        any = false;
        for (size_t i = 0; i < AS_COUNT(a); i++)
            any |= as_account_try_charge(a[i], 1);
    }
    for (size_t i = 0; i < AS_COUNT(a); i++) {
        assert_in_range(as_account_charged(a[i]), 999, 1001);
        assert_true(as_account_is_greedy(a[i]));
    }
    assert_in_range(as_budget_free(&b), 990, 1010);
    assert_true(as_account_try_charge(last, 300));
    assert_false(as_account_is_greedy(last)); /* less than half of what is left */
    as_account_uncharge(last, 300);
    as_account_unref(last);
    for (size_t i = 0; i < AS_COUNT(a); i++) {
        as_account_uncharge(a[i], as_account_charged(a[i]));
        as_account_unref(a[i]);
    }
    assert_int_equal(as_budget_used(&b), 0);
}

static void zero_bytes_always_fit(void **state AS_UNUSED)
{
    struct as_budget b = {.limit = 10, .share = 100};
    struct as_account *a = as_account_new(&b);

    assert_true(as_account_try_charge(a, 10));
    assert_false(as_account_has_room(a, 1));
    assert_int_equal(b.refusals, 1);
    assert_true(as_account_try_charge(a, 0));
    as_account_uncharge(a, 0);
    as_account_uncharge(a, 10);
    assert_true(as_account_has_room(a, 10));
    assert_false(as_account_has_room(a, 11));
    as_account_unref(a);
}

static void charges_without_a_check_may_exceed_the_limit(void **state AS_UNUSED)
{
    struct as_budget b = {.limit = 10, .share = 50};
    struct as_account *a = as_account_new(&b), *other = as_account_new(&b);

    as_account_charge(a, 15);
    assert_int_equal(as_budget_used(&b), 15);
    assert_int_equal(as_budget_free(&b), 0);
    assert_true(as_account_is_greedy(a));
    assert_false(as_account_is_greedy(other));
    assert_false(as_account_try_charge(other, 1));
    as_account_uncharge(a, 15);
    as_account_unref(a);
    as_account_unref(other);
}

/* It lives while it has users or charged bytes. AddressSanitizer detects the rest. */
static void account_lives_while_used_or_charged(void **state AS_UNUSED)
{
    struct as_budget b = {.limit = LIMIT, .share = 100};
    struct as_account *a = as_account_new(&b);

    as_account_ref(a);
    as_account_unref(a);
    assert_true(as_account_try_charge(a, 7));
    as_account_unref(a);
    assert_int_equal(as_account_charged(a), 7);
    as_account_uncharge(a, 3);
    as_account_uncharge(a, 4);
    assert_int_equal(as_budget_used(&b), 0);
    as_account_unref(NULL);
}

struct work {
    struct as_account *a;
    uint64_t got;
};

static void *take_and_give(void *arg)
{
    struct work *w = arg;

    for (uint32_t i = 0; i < 20000; i++) {
        if (!as_account_try_charge(w->a, 60))
            continue;
        w->got++;
        as_account_uncharge(w->a, 60);
    }
    return NULL;
}

static void concurrent_charges_add_up(void **state AS_UNUSED)
{
    struct as_budget b = {.limit = 100, .share = 100};
    struct work w[3] = {{as_account_new(&b), 0}, {as_account_new(&b), 0}, {NULL, 0}};
    pthread_t t[3];

    w[2].a = w[0].a;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, take_and_give, &w[i]), 0);
    for (size_t i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    assert_true(w[0].got + w[1].got + w[2].got > 0);
    assert_int_equal(as_budget_used(&b), 0);
    assert_int_equal(as_account_charged(w[0].a), 0);
    as_account_unref(w[0].a);
    as_account_unref(w[1].a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_account_alone_gets_its_share),
        cmocka_unit_test(account_limit_of_any_budget),
        cmocka_unit_test(two_accounts_share_the_limit),
        cmocka_unit_test(greedy_accounts_leave_some_free),
        cmocka_unit_test(zero_bytes_always_fit),
        cmocka_unit_test(charges_without_a_check_may_exceed_the_limit),
        cmocka_unit_test(account_lives_while_used_or_charged),
        cmocka_unit_test(concurrent_charges_add_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
