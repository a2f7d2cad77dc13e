/* core/queue/due_heap.h — what is due when: a binary heap whose members know their index.
 *
 * A member that is not needed any more is therefore removed in O(log n) without a search. The heap
 * owns its array, but not the members, which embed a struct as_due. What is never due must not be
 * pushed. Thread: that of its owner.
 */
#ifndef AS_CORE_DUE_HEAP_H
#define AS_CORE_DUE_HEAP_H

#include "base/defs.h"

struct as_due {
    as_ns at;     /* must not change while it is in a heap */
    size_t index; /* in the heap; SIZE_MAX: in none */
};

struct as_due_heap {
    struct as_due **all; /* all[i]->index == i */
    size_t n, cap;
};

void as_due_heap_init(struct as_due_heap *h);
void as_due_heap_fini(struct as_due_heap *h);
/* x must not be in a heap. */
void as_due_heap_push(struct as_due_heap *h, struct as_due *x);
/* No effect if x is not in it. */
void as_due_heap_remove(struct as_due_heap *h, struct as_due *x);
/* The earliest, or NULL. */
static inline struct as_due *as_due_heap_first(const struct as_due_heap *h)
{
    return h->n ? h->all[0] : NULL;
}
bool as_due_heap_ok(const struct as_due_heap *h);

#endif
