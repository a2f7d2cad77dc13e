/* edge/exchange/urgency.h — what header fields or metadata of a request say of its place in a
 * queue.
 *
 * anyserve-priority: 1 is the most urgent, 3 the least; 0 or none is 2, values above 3 count as 3.
 * The tenant (core/queue/fair.h) is that of the API key, else what the field has that
 * --tenant-header names; the field that --cost-header names has what the request costs it. Both
 * fields must come from a proxy that can be trusted. Thread: the loop's.
 */
#ifndef AS_EDGE_URGENCY_H
#define AS_EDGE_URGENCY_H

#include "edge/exchange/exchange.h"

/* Sets priority, tenant and cost of q, which is new, from the head of x. False: a value is invalid,
 * and x was failed. */
bool as_urgency_read(struct as_exchange *x, struct as_request *q);
/* The priority in core's terms of one in a request: 1 … 3, 0 for none; more counts as 3. */
uint8_t as_urgency_priority(uint64_t said);

#endif
