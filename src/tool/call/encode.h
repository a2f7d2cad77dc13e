/* tool/call/encode.h — encodes a request for gRPC, REST or generate. Pure. */
#ifndef AS_TOOL_ENCODE_H
#define AS_TOOL_ENCODE_H

#include "base/buf.h"
#include "wire/oip/oip.h"

/* All append to `out`. 0; AS_EINVALID: the protocol cannot express the request; AS_ETOOBIG: the
 * message is over 2^31-1 bytes. After an error a sentence is in `why`. */

/* ModelInferRequest. framed: with a gRPC prefix before it. */
int as_encode_grpc(struct as_buf *out, const struct as_oip_request *r, bool framed,
                   struct as_buf *why);
/* The body of `…/infer`. binary: the bytes of tensors follow the JSON; *ret_json_len is where they
 * begin. */
int as_encode_rest(struct as_buf *out, const struct as_oip_request *r, bool binary,
                   size_t *ret_json_len, struct as_buf *why);
/* The body of `…/generate_stream`; inputs must be as the model declares them. */
int as_encode_generate(struct as_buf *out, const struct as_oip_request *r,
                       const struct as_tensor_spec *inputs, uint32_t n_inputs, struct as_buf *why);

#endif
