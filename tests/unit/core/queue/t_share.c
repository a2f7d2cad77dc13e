/* Specification of core/queue/share. */
#include "base/rand.h"
#include "core/queue/share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* The next n calls while requests of these priorities always wait; "0001…" */
static void serve(struct as_share *s, uint32_t classes, uint32_t n, char *ret_list)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = as_share_choose(s, classes);

        as_share_note(s, p, classes >> (p + 1) != 0);
        ret_list[i] = (char)('0' + p);
    }
    ret_list[n] = '\0';
}

static void expect(struct as_share *s, uint32_t classes, const char *want)
{
    char list[256];

    serve(s, classes, (uint32_t)strlen(want), list);
    assert_string_equal(list, want);
}

static void test_one_of_eight_goes_to_a_lower_priority(void **state AS_UNUSED)
{
    struct as_share s = {.every = AS_SHARE_DEFAULT};

    expect(&s, 3, "0000000100000001");
    expect(&s, 5, "0000000200000002");
    expect(&s, 6, "1111111211111112");
}

static void test_the_lowest_gets_its_share_of_that_share(void **state AS_UNUSED)
{
    struct as_share s = {.every = 3};

    expect(&s, 7, "001001002001001002");
}

static void test_a_priority_alone_always_goes(void **state AS_UNUSED)
{
    struct as_share s = {.every = 2};

    expect(&s, 1, "0000");
    expect(&s, 4, "2222");
    expect(&s, 1, "0000");
}

static void test_calls_without_a_choice_do_not_count(void **state AS_UNUSED)
{
    struct as_share s = {.every = 4};

    expect(&s, 1, "00000");
    expect(&s, 3, "0001");
    expect(&s, 3, "00");
    expect(&s, 1, "00000");
    expect(&s, 3, "01"); /* what was counted stays */
}

static void test_a_lower_call_without_a_choice_begins_anew(void **state AS_UNUSED)
{
    struct as_share s = {.every = 4};

    expect(&s, 3, "000");
    expect(&s, 2, "1");
    expect(&s, 3, "0001");
}

/* Whatever waits when: of so many calls in a row, at each of which a lower one could have gone, one
 * was lower. */
static void test_the_share_holds_for_any_mix(void **state AS_UNUSED)
{
    for (uint32_t every = AS_SHARE_MIN; every < 12; every++) {
        struct as_share s = {.every = every};
        struct as_rand rand = {every};
        uint32_t row[AS_PRIORITIES] = {0};

        for (uint32_t i = 0; i < 20000; i++) {
            uint32_t classes = 1 + (uint32_t)as_rand_below(&rand, 7);
            uint32_t p = as_share_choose(&s, classes);

            assert_true(classes >> p & 1);
            for (uint32_t k = 0; k < p; k++)
                row[k] = 0;
            row[p] += classes >> (p + 1) != 0;
            assert_true(row[p] < every);
            as_share_note(&s, p, classes >> (p + 1) != 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_eight_goes_to_a_lower_priority),
        cmocka_unit_test(test_the_lowest_gets_its_share_of_that_share),
        cmocka_unit_test(test_a_priority_alone_always_goes),
        cmocka_unit_test(test_calls_without_a_choice_do_not_count),
        cmocka_unit_test(test_a_lower_call_without_a_choice_begins_anew),
        cmocka_unit_test(test_the_share_holds_for_any_mix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
