/* edge/grpc/watch.h — grpc.health.v1.Health: Check, List and Watch.
 *
 * The services "" and "inference.GRPCInferenceService" are the server: SERVING when every
 * deployment has a worker that accepts requests and the server is not shutting down. A model's name
 * is its default version, "NAME:VERSION" that version. Names of services take precedence over names
 * of models. Thread: the loop's.
 */
#ifndef AS_EDGE_WATCH_H
#define AS_EDGE_WATCH_H

#include "edge/exchange/exchange.h"
#include "wire/grpc/grpc_health.h"

void as_watch_check(struct as_exchange *x); /* Check; the message is complete */
void as_watch_list(struct as_exchange *x);  /* List */
void as_watch_open(struct as_exchange *x);  /* Watch; the head was received */

#endif
