/* link/fleet/call_error.h — what the caller is told when the fleet refuses or ends its call.
 *
 * A worker or a driver that made the call gets a text beside the error; clients of the server's
 * protocols get the error's own. Thread: the dispatch loop.
 */
#ifndef AS_LINK_CALL_ERROR_H
#define AS_LINK_CALL_ERROR_H

#include "link/fleet/fleet_deployment.h"

/* Sets the outcome of c, which deployment d (NULL: it was removed) has refused or ends: with
 * AS_EFULL also how a client is refused and when it should come back. */
void as_call_set_error(struct as_call *c, const struct as_fleet_deployment *d, int err);

#endif
