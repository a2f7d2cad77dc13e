/* Specification of link/call/call_graph, against a naive search for cycles. */
#include "base/rand.h"
#include "link/call/call_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define LAST (AS_CALL_GRAPH_NODES - 1)

static bool add(struct as_call_graph *g, uint32_t from, uint32_t to)
{
    return as_call_graph_is_cyclic(g, from, to);
}

static void test_a_chain_has_no_cycle(void **state AS_UNUSED)
{
    struct as_call_graph g = {0};

    for (uint32_t i = 0; i < LAST; i++)
        assert_false(add(&g, i, i + 1));
    assert_false(add(&g, 0, LAST));
    assert_true(add(&g, LAST, 0)); /* the edge that closes it … */
    for (uint32_t i = 0; i < LAST; i++)
        assert_true(add(&g, i, i + 1)); /* … and all others of it */
    as_call_graph_fini(&g);
}

static void test_a_node_that_calls_itself_is_a_cycle(void **state AS_UNUSED)
{
    struct as_call_graph g = {0};

    assert_true(add(&g, 7, 7));
    assert_false(add(&g, 7, 8));
    assert_false(add(&g, 6, 7));
    as_call_graph_fini(&g);
}

static void test_edges_beside_a_cycle_are_not_on_it(void **state AS_UNUSED)
{
    struct as_call_graph g = {0};

    assert_false(add(&g, 1, 2));
    assert_false(add(&g, 0, 1));
    assert_false(add(&g, 2, 3));
    assert_true(add(&g, 2, 1));
    assert_true(add(&g, 1, 2));
    assert_false(add(&g, 0, 1));
    assert_false(add(&g, 2, 3));
    as_call_graph_fini(&g);
}

static void test_two_cycles_that_touch_are_one_component(void **state AS_UNUSED)
{
    struct as_call_graph g = {0};

    add(&g, 1, 2);
    add(&g, 2, 1);
    assert_false(add(&g, 4, 3));
    assert_true(add(&g, 3, 4));
    assert_false(add(&g, 2, 3));
    assert_true(add(&g, 4, 1));
    assert_true(add(&g, 2, 3));
    as_call_graph_fini(&g);
}

static void test_edges_of_a_removed_node_go(void **state AS_UNUSED)
{
    struct as_call_graph g = {0};

    add(&g, 1, 2);
    add(&g, 2, 3);
    add(&g, 3, 1);
    add(&g, 3, 2);
    as_call_graph_remove(&g, 1);
    assert_false(as_call_graph_has(&g, 1, 2));
    assert_false(as_call_graph_has(&g, 3, 1));
    assert_true(add(&g, 2, 3)); /* 2 and 3 still call each other */
    as_call_graph_remove(&g, 3);
    assert_false(as_call_graph_has(&g, 2, 3));
    assert_false(add(&g, 1, 2)); /* another deployment has its place */
    as_call_graph_remove(&g, 500);
    as_call_graph_fini(&g);
}

/* --- against a naive search --- */

#define NODES 12u

/* Floyd and Warshall: which nodes can be reached. */
static void close_naive(bool to[NODES][NODES], bool ret_reach[NODES][NODES])
{
    memcpy(ret_reach, to, sizeof(bool[NODES][NODES]));
    for (uint32_t k = 0; k < NODES; k++) {
        for (uint32_t i = 0; i < NODES; i++) {
            for (uint32_t j = 0; j < NODES; j++)
                ret_reach[i][j] = ret_reach[i][j] || (ret_reach[i][k] && ret_reach[k][j]);
        }
    }
}

static void test_it_equals_a_naive_search_over_random_graphs(void **state AS_UNUSED)
{
    struct as_rand rand = {5};

    for (uint32_t round = 0; round < 300; round++) {
        struct as_call_graph g = {0};
        bool to[NODES][NODES] = {0}, reached[NODES][NODES];

        for (uint32_t step = 0; step < 60; step++) {
            uint32_t a = (uint32_t)as_rand_below(&rand, NODES);
            uint32_t b = (uint32_t)as_rand_below(&rand, NODES);

            if (as_rand_below(&rand, 20) == 0) {
                for (uint32_t i = 0; i < NODES; i++)
                    to[a][i] = to[i][a] = false;
                as_call_graph_remove(&g, a * 80);
            } else {
                to[a][b] = true;
                close_naive(to, reached);
                assert_int_equal(add(&g, a * 80, b * 80), reached[b][a] || a == b);
            }
            close_naive(to, reached);
            for (uint32_t i = 0; i < NODES; i++) {
                for (uint32_t j = 0; j < NODES; j++) {
                    assert_int_equal(as_call_graph_has(&g, i * 80, j * 80), to[i][j]);
                    if (to[i][j])
                        assert_int_equal(add(&g, i * 80, j * 80), reached[j][i]);
                }
            }
        }
        as_call_graph_fini(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_chain_has_no_cycle),
        cmocka_unit_test(test_a_node_that_calls_itself_is_a_cycle),
        cmocka_unit_test(test_edges_beside_a_cycle_are_not_on_it),
        cmocka_unit_test(test_two_cycles_that_touch_are_one_component),
        cmocka_unit_test(test_edges_of_a_removed_node_go),
        cmocka_unit_test(test_it_equals_a_naive_search_over_random_graphs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
