/* core/queue/deadline_heap.h — requests by deadline: a binary heap whose members know their place.
 *
 * So that a request that ends early leaves in O(log n) without a search. The heap owns nothing but
 * its array. Requests without a deadline do not enter.
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
void as_deadline_heap_push(struct as_deadline_heap *h, struct as_request *q); /* q is in no heap */
void as_deadline_heap_remove(struct as_deadline_heap *h,
                             struct as_request *q); /* nothing when it is not in */
struct as_request *
as_deadline_heap_first(const struct as_deadline_heap *h); /* earliest deadline, or NULL */
bool as_deadline_heap_ok(const struct as_deadline_heap *h);

#endif
