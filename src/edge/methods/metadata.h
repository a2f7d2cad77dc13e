/* edge/methods/metadata.h — ServerMetadata and ModelMetadata: what the server and its models are,
 * over gRPC and plain HTTP. Thread: the loop's.
 */
#ifndef AS_EDGE_METADATA_H
#define AS_EDGE_METADATA_H

#include "edge/rest/rest.h"

void as_metadata_server(struct as_exchange *x);
/* version "": the default version. */
void as_metadata_model(struct as_exchange *x, struct as_str name, struct as_str version);

#endif
