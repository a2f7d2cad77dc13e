/* base/container/list.h — an intrusive doubly linked list with a head node.
 *
 * The list owns nothing: a member embeds a node and must be removed before it is freed. A node that
 * is in no list points at itself, so removing it twice is harmless.
 */
#ifndef AS_BASE_LIST_H
#define AS_BASE_LIST_H

#include "base/defs.h"

struct as_list {
    struct as_list *next, *prev;
};

static inline void as_list_init(struct as_list *l)
{
    l->next = l->prev = l;
}

static inline bool as_list_empty(const struct as_list *l)
{
    return l->next == l;
}

static inline void as_list_insert_after(struct as_list *at, struct as_list *n)
{
    n->prev = at;
    n->next = at->next;
    at->next->prev = n;
    at->next = n;
}

static inline void as_list_push(struct as_list *head, struct as_list *n) /* at the tail */
{
    as_list_insert_after(head->prev, n);
}

static inline void as_list_remove(struct as_list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->next = n->prev = n;
}

static inline struct as_list *as_list_pop(struct as_list *head) /* from the front, or NULL */
{
    struct as_list *n = head->next;

    if (n == head)
        return NULL;
    /* as as_list_remove does, but written with `head`, so that a static analyzer sees it change */
    head->next = n->next;
    head->next->prev = head;
    n->next = n->prev = n;
    return n;
}

#define AS_LIST_ENTRY(n, type, member) AS_CONTAINER(n, type, member)
/* Only the current member may be removed inside the loop. */
#define AS_LIST_EACH(it, head)                                                                     \
    for (struct as_list *it = (head)->next, *it##_next = it->next; it != (head);                   \
         it = it##_next, it##_next = it->next)
/* The same with the objects themselves: `it` is a pointer to a `type`, whose node is `member`. */
#define AS_LIST_EACH_ENTRY(it, type, member, head)                                                 \
    for (type *it = AS_LIST_OBJECT((head)->next, type, member, head),                              \
              *it##_next = it ? AS_LIST_OBJECT(it->member.next, type, member, head) : NULL;        \
         it; it = it##_next,                                                                       \
              it##_next = it ? AS_LIST_OBJECT(it->member.next, type, member, head) : NULL)
/* NULL behind the last one: the head is no node of an object. */
#define AS_LIST_OBJECT(n, type, member, head)                                                      \
    ((n) == (head) ? NULL : AS_LIST_ENTRY(n, type, member))

#endif
