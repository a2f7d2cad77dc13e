/* edge/grpc/reflection.h — grpc.reflection.v1 and v1alpha: the stream of questions and answers.
 *
 * What the answers say is in wire/grpc/grpc_reflection.h. Thread: the loop's.
 */
#ifndef AS_EDGE_REFLECTION_H
#define AS_EDGE_REFLECTION_H

#include "edge/exchange/exchange.h"

void as_reflection_open(struct as_exchange *x); /* ServerReflectionInfo; its head has come */

#endif
