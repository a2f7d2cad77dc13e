/* edge/infer/mirror.h — copies of requests for the versions that want to see what others get.
 *
 * A copy is an exchange without a client. Large tensors are shared by reference, small ones copied;
 * both are charged to the client's account, since they may stay for longer than the request. What
 * cannot be paid for, does not fit the other version's inputs, or would be one request too many is
 * not made, and counted. Calls that stream inputs are not copied. Thread: the loop's.
 */
#ifndef AS_EDGE_MIRROR_H
#define AS_EDGE_MIRROR_H

#include "edge/exchange/exchange.h"

/* The copies of a request that is ready to be submitted to a model that is `routed`; NULL: none. */
struct as_exchange *as_mirror_copy(struct as_exchange *x);
/* Submits them, after the request itself, which may have gone by now. NULL is fine. */
void as_mirror_send(struct as_exchange *copies);

#endif
