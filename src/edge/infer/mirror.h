/* edge/infer/mirror.h — mirrors requests to other versions of a model.
 *
 * A copy is an exchange without a client. Large tensors are shared by reference, small ones copied;
 * both are charged to the client's account, since they may outlive the request. A copy is skipped,
 * and counted, if the account has no room, if the other version does not accept the inputs, or over
 * --max-requests. Calls that stream inputs are not mirrored. Thread: the loop's.
 */
#ifndef AS_EDGE_MIRROR_H
#define AS_EDGE_MIRROR_H

#include "edge/exchange/exchange.h"

/* Makes the copies of a request that is about to be submitted to a `routed` model. NULL: none. */
struct as_exchange *as_mirror_copy(struct as_exchange *x);
/* Submits the copies, after the request itself, which may be freed by then. NULL is fine. */
void as_mirror_send(struct as_exchange *copies);

#endif
