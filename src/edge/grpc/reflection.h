/* edge/grpc/reflection.h — grpc.reflection.v1 and v1alpha: ServerReflectionInfo.
 *
 * wire/grpc/grpc_reflection.h builds the answers. Thread: the loop's.
 */
#ifndef AS_EDGE_REFLECTION_H
#define AS_EDGE_REFLECTION_H

#include "edge/exchange/exchange.h"

void as_reflection_open(struct as_exchange *x); /* ServerReflectionInfo; the head was received */

#endif
