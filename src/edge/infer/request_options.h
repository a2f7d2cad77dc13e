/* edge/infer/request_options.h — request parameters that are for the server: priority and timeout.
 *
 * Source: Triton's schedule policy extension. priority: 1 is the highest, 3 the lowest; 0 or none
 * that of the header anyserve-priority, and values above 3 count as 3. timeout: microseconds from
 * now; the earlier of it and the call's deadline applies. Handlers do not see these parameters, so
 * that requests that differ in them can share a batch. Other reserved names are refused. Thread:
 * the loop's.
 */
#ifndef AS_EDGE_REQUEST_OPTIONS_H
#define AS_EDGE_REQUEST_OPTIONS_H

#include "edge/exchange/exchange.h"

/* Sets priority, deadline and parameters of the call of a request with parameters. False: the
 * request was failed. */
bool as_request_options_apply(struct as_exchange *x);

#endif
