/* edge/admin/registrar.h — anyserve.WorkerManagement: workers that nobody here started come and go.
 *
 * Served at the management door only (edge/conn/access.h), on the dispatch loop, so that each call
 * is a call of link/simple/simple.h. Over gRPC, and as JSON by POST to
 * /anyserve.WorkerManagement/<Rpc>; an error is a gRPC status or an HTTP status with {"error":
 * text}, never success=false.
 */
#ifndef AS_EDGE_REGISTRAR_H
#define AS_EDGE_REGISTRAR_H

#include "edge/exchange/exchange.h"
#include "edge/rest/rest.h"
#include "wire/management/management.h"

#define AS_REGISTRAR_WORKER_MAX 128u     /* characters of a worker_id */
#define AS_REGISTRAR_QUEUED_MAX 10000000 /* as --max-queued-requests has it */

void as_registrar_call(struct as_exchange *x); /* an RPC; its message is complete */

void as_registrar_register(struct as_exchange *x, const struct as_rest_match *m);
void as_registrar_unregister(struct as_exchange *x, const struct as_rest_match *m);
void as_registrar_heartbeat(struct as_exchange *x, const struct as_rest_match *m);

#endif
