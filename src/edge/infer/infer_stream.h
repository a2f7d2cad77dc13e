/* edge/infer/infer_stream.h — ModelStreamInfer: many requests to models on one streaming call.
 *
 * The semantics are Triton's. Each message is a request, to any model. Models with one response
 * answer in the order of their requests; decoupled models answer whenever they have a response, and
 * clients match responses by the request's id. Every response has the parameter
 * triton_final_response. A decoupled request with triton_enable_empty_final_response is ended by an
 * empty response in which it is true.
 *
 * An error is a message with error_message and the id, and the call continues. If the client's
 * metadata have triton_grpc_error: true, the first error ends the call with its status.
 *
 * A model that streams its inputs gets all requests of the call that name it as one request with
 * many messages, until the client ends its side or the handler has finished. Its responses have the
 * id of the first message.
 *
 * Limits: --stream-requests in progress; the next message is read when there is room for its
 * answer. Thread: the loop's.
 */
#ifndef AS_EDGE_INFER_STREAM_H
#define AS_EDGE_INFER_STREAM_H

#include "edge/grpc/stream.h"

void as_infer_stream_open(struct as_exchange *x);

#endif
