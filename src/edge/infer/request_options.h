/* edge/infer/request_options.h — parameters of a request that are for the server: priority,
 * timeout.
 *
 * Source: Triton's schedule policy extension. `priority`: 1 is the most urgent, 3 the least; 0, and
 * no priority, is 2, and what is above 3 counts as 3. `timeout`: microseconds from now; the shorter
 * of it and the call's deadline counts. Both are taken out of what the handler sees, so that they
 * keep no requests from sharing a batch. Names that are reserved and mean nothing here are refused.
 */
#ifndef AS_EDGE_REQUEST_OPTIONS_H
#define AS_EDGE_REQUEST_OPTIONS_H

#include "edge/exchange/exchange.h"

/* For a request with parameters whose call is prepared: sets its priority, deadline and parameters.
 * False: it was refused. */
bool as_request_options_apply(struct as_exchange *x);

#endif
