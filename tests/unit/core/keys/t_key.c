/* Specification of core/keys/key: rights, expiry and quotas of an API key. */
#include "core/keys/key.h"

#include "unit.h"

#define START (1000 * AS_SEC)

static struct as_key_line line_of(const char *models, const char *applications)
{
    return (struct as_key_line){
        .name = AS_STR("a"), .models = as_str_of(models), .applications = as_str_of(applications)};
}

static void rights(void **state AS_UNUSED)
{
    struct as_key_line l = line_of("iris,llm-*", "shop");
    struct as_key *k = as_key_new(&l, NULL);

    assert_true(as_key_may_use_model(k, AS_STR("iris")));
    assert_true(as_key_may_use_model(k, AS_STR("llm-7b")));
    assert_false(as_key_may_use_model(k, AS_STR("other")));
    assert_true(as_key_may_use_application(k, AS_STR("shop")));
    assert_false(as_key_may_use_application(k, AS_STR("iris")));
    assert_false(as_key_may_use_all_applications(k));
    assert_false(as_key_is_unrestricted(k));
    as_key_unref(k);
    l = line_of("*", "x,*");
    k = as_key_new(&l, NULL);
    assert_true(as_key_is_unrestricted(k));
    as_key_unref(k);
    as_key_unref(NULL);
}

static void expiry(void **state AS_UNUSED)
{
    struct as_key_line l = line_of("*", "*");
    struct as_key *k = as_key_new(&l, NULL);

    assert_false(as_key_is_expired(k, UINT64_MAX));
    as_key_unref(k);
    l.expires = 5000;
    k = as_key_new(&l, NULL);
    assert_false(as_key_is_expired(k, 4999));
    assert_true(as_key_is_expired(k, 5000));
    assert_true(as_key_is_expired(k, 5001));
    as_key_unref(k);
}

static void no_quota(void **state AS_UNUSED)
{
    struct as_key_line l = line_of("*", "*");
    struct as_key *k = as_key_new(&l, NULL);
    as_ns wait;

    assert_null(k->usage);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(as_key_take(k, true, START, &wait), AS_KEY_ACCEPTED);
    as_key_release(k);
    as_key_unref(k);
}

static void in_flight(void **state AS_UNUSED)
{
    struct as_key_line l = line_of("*", "*");
    struct as_key *k;
    as_ns wait;

    l.in_flight = 2;
    k = as_key_new(&l, NULL);
    assert_int_equal(as_key_take(k, true, START, &wait), AS_KEY_ACCEPTED);
    assert_int_equal(as_key_take(k, true, START, &wait), AS_KEY_ACCEPTED);
    assert_int_equal(as_key_take(k, true, START, &wait), AS_KEY_IN_FLIGHT);
    assert_int_equal(as_key_take(k, false, START, &wait), AS_KEY_ACCEPTED); /* does not hold one */
    as_key_release(k);
    assert_int_equal(as_key_take(k, true, START, &wait), AS_KEY_ACCEPTED);
    assert_int_equal(as_key_take(k, true, START, &wait), AS_KEY_IN_FLIGHT);
    assert_int_equal(k->usage->in_flight, 2);
    as_key_unref(k);
}

/* 10/s with a burst of 3: three at once, then one every 100 ms. */
static void token_bucket(void **state AS_UNUSED)
{
    struct as_key_line l = line_of("*", "*");
    struct as_key *k;
    as_ns wait = 0, now = START;

    l.rate = 10;
    l.rate_period = 1;
    l.burst = 3;
    l.in_flight = 100;
    k = as_key_new(&l, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(as_key_take(k, true, now, &wait), AS_KEY_ACCEPTED);
    assert_int_equal(as_key_take(k, true, now, &wait), AS_KEY_RATE);
    assert_int_equal(wait, 100 * AS_MS);
    assert_int_equal(k->usage->in_flight, 3); /* the refused one is not in flight */
    assert_int_equal(as_key_take(k, true, now + 100 * AS_MS - 1, &wait), AS_KEY_RATE);
    assert_int_equal(wait, 1);
    for (int i = 1; i <= 50; i++) {
        now = START + (as_ns)i * 100 * AS_MS;
        assert_int_equal(as_key_take(k, false, now, &wait), AS_KEY_ACCEPTED);
        assert_int_equal(as_key_take(k, false, now, &wait), AS_KEY_RATE);
    }
    now += 3600 * AS_SEC; /* never more than the burst */
    for (int i = 0; i < 3; i++)
        assert_int_equal(as_key_take(k, false, now, &wait), AS_KEY_ACCEPTED);
    assert_int_equal(as_key_take(k, false, now, &wait), AS_KEY_RATE);
    /* another loop may be a little behind */
    assert_int_equal(as_key_take(k, false, now - AS_MS, &wait), AS_KEY_RATE);
    assert_int_equal(wait, 101 * AS_MS);
    as_key_unref(k);
}

static void a_rate_per_hour(void **state AS_UNUSED)
{
    struct as_key_line l = line_of("*", "*");
    struct as_key *k;
    as_ns wait;

    l.rate = 2;
    l.rate_period = 3600;
    l.burst = 1;
    k = as_key_new(&l, NULL);
    assert_int_equal(as_key_take(k, true, START, &wait), AS_KEY_ACCEPTED);
    assert_int_equal(as_key_take(k, true, START, &wait), AS_KEY_RATE);
    assert_int_equal(wait, 1800 * AS_SEC);
    as_key_unref(k);
}

static void counters_live_on(void **state AS_UNUSED)
{
    struct as_key_line l = line_of("*", "*");
    struct as_key *first, *same, *changed, *free_of_quotas;
    as_ns wait;

    l.in_flight = 2;
    first = as_key_new(&l, NULL);
    assert_int_equal(as_key_take(first, true, START, &wait), AS_KEY_ACCEPTED);
    same = as_key_new(&l, first);
    assert_ptr_equal(same, first);
    l.in_flight = 1;
    changed = as_key_new(&l, first);
    assert_ptr_not_equal(changed, first);
    as_key_unref(same);
    assert_int_equal(as_key_take(changed, true, START, &wait), AS_KEY_IN_FLIGHT);
    as_key_release(first);
    assert_int_equal(as_key_take(changed, true, START, &wait), AS_KEY_ACCEPTED);
    l.in_flight = 0;
    free_of_quotas = as_key_new(&l, changed);
    assert_null(free_of_quotas->usage);
    as_key_unref(first);
    as_key_release(changed);
    as_key_unref(changed);
    as_key_unref(free_of_quotas);
}

/* A line of so many requests in `period` seconds, and a burst. */
static struct as_key_line rate_of(uint32_t rate, uint32_t period, uint32_t burst)
{
    struct as_key_line l = line_of("*", "*");

    l.rate = rate;
    l.rate_period = period;
    l.burst = burst;
    return l;
}

/* `first`, of which all tokens are taken, and then `second`: how long it waits. */
static as_ns wait_after_change(struct as_key_line first, struct as_key_line second)
{
    struct as_key *former = as_key_new(&first, NULL), *k = as_key_new(&second, former);
    as_ns wait = 0, now = START;

    for (uint32_t i = 0; i < first.burst; i++)
        assert_int_equal(as_key_take(former, false, now, &wait), AS_KEY_ACCEPTED);
    assert_int_equal(as_key_take(former, false, now, &wait), AS_KEY_RATE);
    assert_int_equal(as_key_take(k, false, now, &wait), AS_KEY_RATE);
    assert_int_equal(as_key_take(k, false, now + wait - 1, &(as_ns){0}), AS_KEY_RATE);
    /* what another loop has taken of the former key meanwhile */
    former->usage->next = AS_MAX(former->usage->next, now + 3600 * AS_SEC);
    assert_int_equal(as_key_take(k, false, now, &wait), AS_KEY_RATE);
    now += wait;
    assert_int_equal(as_key_take(k, false, now, &(as_ns){0}), AS_KEY_ACCEPTED); /* as it said */
    assert_int_equal(as_key_take(k, false, now, &(as_ns){0}), AS_KEY_RATE);
    now += second.rate_period * AS_SEC * second.burst / second.rate;
    for (uint32_t i = 0; i < second.burst; i++)
        assert_int_equal(as_key_take(k, false, now, &(as_ns){0}), AS_KEY_ACCEPTED);
    assert_int_equal(as_key_take(k, false, now, &(as_ns){0}), AS_KEY_RATE);
    as_key_unref(former);
    as_key_unref(k);
    return wait;
}

static void a_changed_rate(void **state AS_UNUSED)
{
    /* raised: the tokens that are missing are not an hour's */
    assert_int_equal(wait_after_change(rate_of(60, 3600, 60), rate_of(1000, 1, 1000)), AS_MS);
    /* the burst is lowered: not those of the former burst */
    assert_int_equal(wait_after_change(rate_of(1, 60, 60), rate_of(1, 60, 1)), 60 * AS_SEC);
    /* both, the other way round: a bucket that had a token each millisecond gets one a minute */
    assert_int_equal(wait_after_change(rate_of(1000, 1, 1000), rate_of(1, 60, 1)), 60 * AS_SEC);
}

/* A raised burst gives its tokens at once, and what was taken stays taken. */
static void a_raised_burst(void **state AS_UNUSED)
{
    struct as_key_line first = rate_of(1, 60, 2), second = rate_of(1, 60, 5);
    struct as_key *former = as_key_new(&first, NULL), *k = as_key_new(&second, former);
    as_ns wait;

    for (int i = 0; i < 2; i++)
        assert_int_equal(as_key_take(former, false, START, &wait), AS_KEY_ACCEPTED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(as_key_take(k, false, START, &wait), AS_KEY_ACCEPTED);
    assert_int_equal(as_key_take(k, false, START, &wait), AS_KEY_RATE);
    assert_int_equal(wait, 60 * AS_SEC);
    as_key_unref(former);
    as_key_unref(k);
}

/* A loop whose clock is behind by no more than the documented time gives no token away. */
static void clocks_that_differ(void **state AS_UNUSED)
{
    struct as_key_line l = rate_of(1000, 1, 10);
    struct as_key *k = as_key_new(&l, NULL);
    as_ns wait, next;

    for (int i = 0; i < 10; i++)
        assert_int_equal(as_key_take(k, false, START, &wait), AS_KEY_ACCEPTED);
    next = k->usage->next;
    assert_int_equal(as_key_take(k, false, START - AS_KEY_CLOCKS_DIFFER, &wait), AS_KEY_RATE);
    assert_int_equal(k->usage->next, next);
    assert_int_equal(as_key_take(k, false, START, &wait), AS_KEY_RATE);
    assert_int_equal(as_key_take(k, false, START - AS_KEY_CLOCKS_DIFFER - 1, &wait), AS_KEY_RATE);
    assert_int_equal(k->usage->next, next - AS_KEY_CLOCKS_DIFFER - 1);
    as_key_unref(k);
}

static void names_of_refusals(void **state AS_UNUSED)
{
    for (uint32_t i = 0; i < AS_KEY_REFUSALS; i++) {
        assert_non_null(as_key_refusal_name((enum as_key_refusal)i));
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(as_key_refusal_name((enum as_key_refusal)i),
                                    as_key_refusal_name((enum as_key_refusal)k));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rights),
        cmocka_unit_test(expiry),
        cmocka_unit_test(no_quota),
        cmocka_unit_test(in_flight),
        cmocka_unit_test(token_bucket),
        cmocka_unit_test(a_rate_per_hour),
        cmocka_unit_test(counters_live_on),
        cmocka_unit_test(a_changed_rate),
        cmocka_unit_test(a_raised_burst),
        cmocka_unit_test(clocks_that_differ),
        cmocka_unit_test(names_of_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
