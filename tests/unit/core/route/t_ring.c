/* Specification of core/route/ring. */
#include "core/route/ring.h"

#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define MEMBERS 20u
#define KEYS    20000u

static uint32_t members[MEMBERS];

static void add(struct as_ring *g, uint32_t i)
{
    members[i] = i;
    as_ring_add(g, &members[i], 1000 + i, 100);
}

static uint32_t first(const struct as_ring *g, uint64_t key)
{
    void *m;

    return as_ring_find(g, key, &m, 1) ? *(uint32_t *)m : UINT32_MAX;
}

static void test_an_empty_ring_has_nobody(void **state AS_UNUSED)
{
    struct as_ring g;
    void *m[2];

    as_ring_init(&g);
    assert_int_equal(as_ring_find(&g, 1, m, 2), 0);
    add(&g, 0);
    assert_int_equal(first(&g, 0), 0);
    assert_int_equal(first(&g, UINT64_MAX), 0); /* behind the last position comes the first */
    assert_int_equal(as_ring_find(&g, 7, m, 2), 1);
    as_ring_remove(&g, &members[0]);
    assert_int_equal(as_ring_find(&g, 1, m, 2), 0);
    as_ring_fini(&g);
}

static void test_keys_are_shared_out(void **state AS_UNUSED)
{
    struct as_ring g;
    struct as_rand keys = {1};
    uint32_t n[MEMBERS] = {0};

    as_ring_init(&g);
    for (uint32_t i = 0; i < MEMBERS; i++)
        add(&g, i);
    for (uint32_t i = 0; i < KEYS; i++)
        n[first(&g, as_rand_next(&keys))]++;
    for (uint32_t i = 0; i < MEMBERS; i++) /* a fair share is 1000; 100 positions: sigma 10 % */
        assert_in_range(n[i], 600, 1400);
    as_ring_fini(&g);
}

static void test_only_keys_of_a_member_that_goes_move(void **state AS_UNUSED)
{
    struct as_ring g;
    struct as_rand keys = {2};
    static uint32_t before[KEYS];
    uint32_t moved = 0;

    as_ring_init(&g);
    for (uint32_t i = 0; i < MEMBERS; i++)
        add(&g, i);
    for (uint32_t i = 0; i < KEYS; i++)
        before[i] = first(&g, as_rand_next(&keys));
    as_ring_remove(&g, &members[7]);
    keys.s = 2;
    for (uint32_t i = 0; i < KEYS; i++) {
        uint32_t now = first(&g, as_rand_next(&keys));

        assert_int_not_equal(now, 7);
        moved += now != before[i];
        assert_true(now == before[i] || before[i] == 7);
    }
    assert_in_range(moved, KEYS / MEMBERS / 2, KEYS / MEMBERS * 2);
    add(&g, 7); /* the same id: the same positions */
    keys.s = 2;
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(first(&g, as_rand_next(&keys)), before[i]);
    as_ring_fini(&g);
}

static void test_the_next_ones_are_different(void **state AS_UNUSED)
{
    struct as_ring g;
    struct as_rand keys = {3};
    void *m[5];

    as_ring_init(&g);
    for (uint32_t i = 0; i < 4; i++)
        add(&g, i);
    for (uint32_t k = 0; k < 1000; k++) {
        assert_int_equal(as_ring_find(&g, as_rand_next(&keys), m, 3), 3);
        assert_ptr_not_equal(m[0], m[1]);
        assert_ptr_not_equal(m[1], m[2]);
        assert_ptr_not_equal(m[0], m[2]);
    }
    assert_int_equal(as_ring_find(&g, 1, m, 5), 4);
    as_ring_fini(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_ring_has_nobody),
        cmocka_unit_test(test_keys_are_shared_out),
        cmocka_unit_test(test_only_keys_of_a_member_that_goes_move),
        cmocka_unit_test(test_the_next_ones_are_different),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
