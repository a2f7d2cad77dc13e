/* tool/call/encode.h — a request's tensors as the bytes that a protocol carries. Pure. */
#ifndef AS_TOOL_ENCODE_H
#define AS_TOOL_ENCODE_H

#include "base/buf.h"
#include "wire/oip/oip.h"

/* All append to `out`. 0; AS_EINVALID: a protocol cannot say it; AS_ETOOBIG: a message over 2^31-1
 * bytes; with a sentence in `why`. */

/* ModelInferRequest. framed: behind a gRPC prefix. */
int as_encode_grpc(struct as_buf *out, const struct as_oip_request *r, bool framed,
                   struct as_buf *why);
/* JSON of `…/infer`. binary: then the bytes of the tensors; *ret_json_len is where they begin. */
int as_encode_rest(struct as_buf *out, const struct as_oip_request *r, bool binary,
                   size_t *ret_json_len, struct as_buf *why);
/* JSON of `…/generate_stream`, which knows inputs as the model declares them. */
int as_encode_generate(struct as_buf *out, const struct as_oip_request *r,
                       const struct as_tensor_spec *inputs, uint32_t n_inputs, struct as_buf *why);

#endif
