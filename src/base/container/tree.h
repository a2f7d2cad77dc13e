/* base/container/tree.h — an intrusive ordered tree: its first node in O(1), inserting and removing
 * in O(log n), and a walk in order.
 *
 * It is a treap: ordered by the caller's comparison, and a heap by weights that it draws, so its
 * height is 2 log n or so whatever the order in which nodes come. The tree owns nothing: a member
 * embeds a node and must be removed before it is freed, and what the comparison looks at must not
 * change meanwhile.
 */
#ifndef AS_BASE_TREE_H
#define AS_BASE_TREE_H

#include "base/rand.h"

struct as_tree_node {
    struct as_tree_node *up, *left, *right;
    uint64_t weight; /* of no node below it is it more */
};

struct as_tree { /* all zero: empty */
    struct as_tree_node *root, *first;
    struct as_rand rand;
};

typedef bool (*as_tree_before)(const struct as_tree_node *a, const struct as_tree_node *b);

/* Behind the nodes that n does not go before. */
void as_tree_insert(struct as_tree *t, struct as_tree_node *n, as_tree_before before);
void as_tree_remove(struct as_tree *t, struct as_tree_node *n);
struct as_tree_node *as_tree_next(const struct as_tree_node *n); /* NULL: n is the last one */

#endif
