/* edge/admin/registrar.h — anyserve.WorkerManagement: registration of workers that the server did
 * not start.
 *
 * Served on the management interface only (edge/exchange/access.h), on the dispatch loop, where
 * each RPC calls link/simple/simple.h. Over gRPC, and as JSON by POST to
 * /anyserve.WorkerManagement/<Rpc>. An error is a gRPC status, or an HTTP status with {"error":
 * text}, never success=false. Thread: the dispatch loop.
 */
#ifndef AS_EDGE_REGISTRAR_H
#define AS_EDGE_REGISTRAR_H

#include "edge/exchange/exchange.h"
#include "edge/rest/rest.h"
#include "wire/management/management.h"

#define AS_REGISTRAR_WORKER_MAX 128u     /* characters of a worker_id */
#define AS_REGISTRAR_QUEUED_MAX 10000000 /* as of --max-queued-requests */

void as_registrar_call(struct as_exchange *x); /* an RPC; the message is complete */

void as_registrar_register(struct as_exchange *x, const struct as_rest_match *m);
void as_registrar_unregister(struct as_exchange *x, const struct as_rest_match *m);
void as_registrar_heartbeat(struct as_exchange *x, const struct as_rest_match *m);

#endif
