/* edge/infer/infer_stream.h — ModelStreamInfer: requests and responses of models on one streaming
 * call.
 *
 * Triton's semantics: any number of requests for any models; each message is a request of its own.
 * Answers of models that give one response come in the order of their requests; those of decoupled
 * models come as they are made, and are told apart by the request's id. Each response has the
 * parameter triton_final_response; a decoupled request with the parameter
 * triton_enable_empty_final_response is ended by an empty response where that is true. An error is
 * a message with error_message and the id, and the call goes on, unless the client's metadata say
 * triton_grpc_error: true; then the first error ends it with its status.
 * A model that streams its inputs gets all requests of the call that name it as one request of many
 * messages, until the client ends its side or the handler has ended; its responses carry the id of
 * the first.
 * Bounds: --stream-requests under way; the next message is not read before there is room for its
 * answer.
 */
#ifndef AS_EDGE_INFER_STREAM_H
#define AS_EDGE_INFER_STREAM_H

#include "edge/grpc/stream.h"

void as_infer_stream_open(struct as_exchange *x);

#endif
