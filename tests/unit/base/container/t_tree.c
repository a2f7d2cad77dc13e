#include "base/container/tree.h"

#include "unit.h"

#include <stdlib.h>

struct item {
    struct as_tree_node node;
    uint64_t key, seq; /* equal keys stay in the order in which they came */
    bool in;
};

static uint64_t compared;

static struct item *item_of(const struct as_tree_node *n)
{
    return AS_CONTAINER((struct as_tree_node *)(uintptr_t)n, struct item, node);
}

static bool before(const struct as_tree_node *a, const struct as_tree_node *b)
{
    compared++;
    return item_of(a)->key < item_of(b)->key;
}

static void check(const struct as_tree *t, uint32_t want)
{
    const struct item *last = NULL;
    uint32_t n = 0;

    for (struct as_tree_node *it = t->first; it; it = as_tree_next(it), n++) {
        struct item *i = item_of(it);

        assert_true(i->in);
        assert_true(!it->up || it->up->weight >= it->weight);
        assert_true(!last || last->key < i->key || (last->key == i->key && last->seq < i->seq));
        last = i;
    }
    assert_int_equal(n, want);
    assert_true(!t->root == !want);
}

static void nodes_are_in_order(void **state AS_UNUSED)
{
    enum { N = 200 };
    struct item *items = as_xalloc(N * sizeof(*items));
    struct as_rand rand = {1};
    struct as_tree t = {0};
    uint64_t seq = 0;
    uint32_t n = 0;

    check(&t, 0);
    for (uint32_t step = 0; step < 20000; step++) {
        struct item *i = &items[as_rand_below(&rand, step < 10000 ? N : 8)];

        if (i->in) {
            as_tree_remove(&t, &i->node);
            i->in = false;
            n--;
        } else {
            i->key = as_rand_below(&rand, 40);
            i->seq = seq++;
            i->in = true;
            as_tree_insert(&t, &i->node, before);
            n++;
        }
        if (step % 7 == 0)
            check(&t, n);
    }
    for (uint32_t i = 0; i < N; i++) {
        if (items[i].in)
            as_tree_remove(&t, &items[i].node);
    }
    check(&t, 0);
    free(items);
}

/* Whatever the order in which they come. */
static void inserting_compares_few(void **state AS_UNUSED)
{
    enum { N = 100000 };
    struct item *items = as_xalloc(N * sizeof(*items));

    for (uint32_t order = 0; order < 3; order++) {
        struct as_tree t = {0};
        uint64_t most = 0;

        for (uint32_t i = 0; i < N; i++) {
            items[i].key = order == 0 ? i : order == 1 ? N - i : i % 2 ? i : N - i;
            compared = 0;
            as_tree_insert(&t, &items[i].node, before);
            most = AS_MAX(most, compared);
        }
        assert_in_range(most, 17, 64);
        for (uint32_t i = 0; i < N; i++) { /* each again, as one that goes and comes back */
            as_tree_remove(&t, &items[i].node);
            compared = 0;
            as_tree_insert(&t, &items[i].node, before);
            assert_in_range(compared, 1, 64);
        }
    }
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_in_order),
        cmocka_unit_test(inserting_compares_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
