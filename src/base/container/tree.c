#include "base/container/tree.h"

/* The pointer that points at n. */
static struct as_tree_node **place_of(struct as_tree *t, const struct as_tree_node *n)
{
    if (!n->up)
        return &t->root;
    return n->up->left == n ? &n->up->left : &n->up->right;
}

/* Puts n in the place of its parent, which becomes its child; the order stays. */
static void rotate_up(struct as_tree *t, struct as_tree_node *n)
{
    struct as_tree_node *p = n->up, *moved;
    bool left = p->left == n;

    *place_of(t, p) = n;
    n->up = p->up;
    p->up = n;
    moved = left ? n->right : n->left;
    if (left) {
        n->right = p;
        p->left = moved;
    } else {
        n->left = p;
        p->right = moved;
    }
    if (moved)
        moved->up = p;
}

void as_tree_insert(struct as_tree *t, struct as_tree_node *n, as_tree_before before)
{
    struct as_tree_node **at = &t->root;
    bool is_first = true;

    *n = (struct as_tree_node){.weight = as_rand_next(&t->rand)};
    while (*at) {
        n->up = *at;
        if (before(n, *at)) {
            at = &(*at)->left;
        } else {
            at = &(*at)->right;
            is_first = false;
        }
    }
    *at = n;
    if (is_first)
        t->first = n;
    while (n->up && n->weight > n->up->weight)
        rotate_up(t, n);
}

struct as_tree_node *as_tree_next(const struct as_tree_node *n)
{
    struct as_tree_node *it = n->right;

    if (it) {
        while (it->left)
            it = it->left;
        return it;
    }
    for (it = n->up; it && it->right == n; it = it->up)
        n = it;
    return it;
}

void as_tree_remove(struct as_tree *t, struct as_tree_node *n)
{
    struct as_tree_node *child;

    if (t->first == n)
        t->first = as_tree_next(n);
    while (n->left && n->right)
        rotate_up(t, n->left->weight > n->right->weight ? n->left : n->right);
    child = n->left ? n->left : n->right;
    *place_of(t, n) = child;
    if (child)
        child->up = n->up;
    *n = (struct as_tree_node){0};
}
