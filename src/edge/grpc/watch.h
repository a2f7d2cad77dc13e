/* edge/grpc/watch.h — grpc.health.v1.Health: what serves, now and whenever that changes.
 *
 * Names of services: "" and "inference.GRPCInferenceService" are the server (SERVING when every
 * deployment has a worker that takes requests and the server is not draining); a model's name is
 * its default version, "NAME:VERSION" that version. Names of services come before names of models.
 * Thread: the loop's.
 */
#ifndef AS_EDGE_WATCH_H
#define AS_EDGE_WATCH_H

#include "edge/exchange/exchange.h"
#include "wire/grpc/grpc_health.h"

enum as_grpc_health as_watch_status(struct as_edge *e, struct as_str service);

void as_watch_check(struct as_exchange *x); /* Check; its message is complete */
void as_watch_list(struct as_exchange *x);  /* List */
void as_watch_open(struct as_exchange *x);  /* Watch; its head has come */

#endif
