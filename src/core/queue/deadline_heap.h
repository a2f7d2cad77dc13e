/* core/queue/deadline_heap.h — requests by deadline: a binary heap whose members know their index.
 *
 * A request that ends early is therefore removed in O(log n) without a search. The heap owns its
 * array, but not the requests. A request without a deadline must not be pushed.
 */
#ifndef AS_CORE_DEADLINE_HEAP_H
#define AS_CORE_DEADLINE_HEAP_H

#include "core/queue/request.h"

struct as_deadline_heap {
    struct as_request **at; /* at[i]->heap_index == i */
    size_t n, cap;
};

void as_deadline_heap_init(struct as_deadline_heap *h);
void as_deadline_heap_fini(struct as_deadline_heap *h);
/* q must not be in a heap. */
void as_deadline_heap_push(struct as_deadline_heap *h, struct as_request *q);
/* No effect if q is not in it. */
void as_deadline_heap_remove(struct as_deadline_heap *h, struct as_request *q);
/* The request with the earliest deadline, or NULL. */
struct as_request *as_deadline_heap_first(const struct as_deadline_heap *h);
bool as_deadline_heap_ok(const struct as_deadline_heap *h);

#endif
