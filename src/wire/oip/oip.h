/* wire/oip/oip.h — messages of inference.GRPCInferenceService (Open Inference Protocol) in
 * protobuf.
 *
 * Field numbers are the official ones (reference notes §1.1). Own zero-copy reader and writer for
 * what travels often; everything is proto3: unknown fields are skipped, the last of duplicate
 * scalar fields and map keys wins, packed and unpacked repeated numbers are both read. A known
 * field with another wire type, and strings that are not UTF-8, are refused.
 * Pure. Parse results point into the message and the arena.
 */
#ifndef AS_WIRE_OIP_H
#define AS_WIRE_OIP_H

#include "base/memory/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/tensor.h"
#include "wire/frame/frame.h"

/* Limits of one message (bad input: EINVALID with a text that names the field). */
#define AS_OIP_TENSORS_MAX AS_FRAME_TENSORS /* inputs, and requested outputs */
#define AS_OIP_PARAMS_MAX  AS_FRAME_PARAMS
#define AS_OIP_TABLE_MAX   (AS_FRAME_TABLE / 2) /* id, names, shapes, parameters, as on the link */
#define AS_OIP_TYPED_MAX   ((uint64_t)64 << 20) /* bytes that typed contents may take beyond n */

/* A range of a region of shared memory, by the name that the client gave it. */
struct as_oip_shm_range {
    struct as_str region; /* empty: none */
    uint64_t offset, size;
};

struct as_oip_requested_output { /* one entry of outputs */
    struct as_str name;
    uint32_t classification;       /* the k best as "value:index[:label]"; 0: the tensor itself */
    struct as_oip_shm_range range; /* where its bytes go, at most so many */
    bool binary;                   /* REST: as bytes behind the JSON */
};

struct as_oip_infer {
    struct as_str model, version, id;
    const struct as_tensor
        *inputs; /* data inside the message (raw) or the arena (typed contents) */
    uint32_t n_inputs;
    /* One per input; NULL: none is there. An input with a range has its size as nbytes, and no data
     * until somebody has read it (BYTES are to be checked then). */
    const struct as_oip_shm_range *ranges;
    const struct as_param *params; /* request-level parameters */
    uint32_t n_params;
    struct as_tensor_params tensor_params; /* of the inputs, less those that the server uses */
    const struct as_oip_requested_output *outputs; /* none: all; each name once */
    uint32_t n_outputs;
    bool has_output_range;   /* an output has a range */
    bool has_classification; /* an output asks for classes */
    uint64_t typed; /* bytes that typed contents or JSON took beside the message, for the caller's
                       accounts */
    struct as_blob *blob; /* REST: holds the bytes of large tensors; the caller's, may be NULL */
    bool binary_output;   /* REST: outputs as bytes behind the JSON, where none was named */
};

/* ModelInferRequest. Checks wire types, datatypes, shapes (no negative size, no overflow), that raw
 * and typed contents are not mixed, one raw entry per input, bytes == shape × dtype, BYTES
 * elements well formed, typed field matching the datatype (FP16 and BF16: raw only), integers that
 * fit it, names given and given once. Typed contents are turned into raw bytes in the arena; packed
 * floats are used where they lie. Parameters of single tensors that say where data is or what is
 * answered (shared_memory_region, _offset, _byte_size, classification) are used, the others of
 * inputs are kept, and count as the request's. An input in shared memory has neither contents nor a
 * raw entry. 0, AS_EINVALID, AS_ENOMEM; on error one line in `why` (cap bytes, NUL at the end) that
 * names the tensor or field ("input 'a': …"). Malformed protobuf: AS_EPROTO, with a line too. */
int as_oip_parse_infer(const uint8_t *p, size_t n, struct as_arena *a, struct as_oip_infer *ret_r,
                       char *why, size_t cap);

/* ModelReadyRequest and ModelMetadataRequest: name=1, version=2. 0 or AS_EPROTO (malformed, or not
 * UTF-8). Slices point into the message. */
int as_oip_parse_name_version(const uint8_t *p, size_t n, struct as_str *ret_name,
                              struct as_str *ret_version);

/* ModelInferResponse: outputs always travel as raw_output_contents, one entry per output. */
struct as_oip_response {
    struct as_str model, version, id;
    const struct as_tensor *outputs;
    uint32_t n_outputs;
    const struct as_param *params;
    uint32_t n_params;
    struct as_tensor_params tensor_params; /* of the outputs, in their order */
    /* One per output; NULL: none. An output with a range has no bytes here, but in that range. */
    const struct as_oip_shm_range *ranges;
    bool has_duplicates; /* read: model, version or id was there more than once, the last one counts
                          */
};
/* Size of the encoded message without gRPC prefix; UINT64_MAX when it is over 2^31-1. The caller
 * asks this first: the others need a message that fits. */
uint64_t as_oip_response_len(const struct as_oip_response *r);
/* Writes the whole message to out (exactly as_oip_response_len bytes). */
void as_oip_put_response(uint8_t *out, const struct as_oip_response *r);
/* The same message in parts, so that large tensors are not copied: first the head (all fields but
 * raw_output_contents), then for each output its raw head and its bytes. */
size_t as_oip_response_head_len(const struct as_oip_response *r);
void as_oip_put_response_head(uint8_t *out, const struct as_oip_response *r);
#define AS_OIP_RAW_HEAD_MAX 11u
size_t as_oip_put_raw_head(uint8_t out[AS_OIP_RAW_HEAD_MAX],
                           size_t nbytes); /* returns its length */

/* Small responses, appended to out. */
void as_oip_put_live(struct as_buf *out,
                     bool live); /* ServerLiveResponse, ServerReady…, ModelReady… : field 1 */
struct as_oip_server {
    struct as_str name, version;
    const struct as_str *extensions;
    uint32_t n_extensions;
};
void as_oip_put_server(struct as_buf *out, const struct as_oip_server *s);
struct as_oip_model {
    struct as_str name, platform;
    const struct as_str *versions;
    uint32_t n_versions;
    const struct as_tensor_spec *inputs, *outputs; /* ndim AS_ANY_RANK: no shape is sent */
    uint32_t n_inputs, n_outputs;
};
void as_oip_put_model(struct as_buf *out, const struct as_oip_model *m);

/* --- the client's side --- */

/* ModelInferRequest: a response's fields 1 to 5 are the request's too, so `head` has model,
 * version, id, parameters, and the inputs as its `outputs`. */
struct as_oip_request {
    struct as_oip_response head;
    const struct as_oip_requested_output *outputs; /* asked for; none: all */
    uint32_t n_outputs;
};
/* Size of the encoded message; UINT64_MAX when it is over 2^31-1. */
uint64_t as_oip_request_len(const struct as_oip_request *r);
void as_oip_put_request(uint8_t *out, const struct as_oip_request *r); /* exactly that many bytes */
/* The same message in parts, as of a response: the head (all fields but raw_input_contents), then
 * for each input its raw head (at most AS_OIP_RAW_HEAD_MAX bytes) and its bytes. */
size_t as_oip_request_head_len(const struct as_oip_request *r);
void as_oip_put_request_head(uint8_t *out, const struct as_oip_request *r);
size_t as_oip_put_request_raw_head(uint8_t out[AS_OIP_RAW_HEAD_MAX], size_t nbytes);

/* Reads a ModelInferResponse as as_oip_parse_infer does a request: same checks, same errors. */
int as_oip_parse_response(const uint8_t *p, size_t n, struct as_arena *a,
                          struct as_oip_response *ret_r, char *why, size_t cap);

/* ModelStreamInferResponse: the text of an error (empty: none), and the bytes of the response for
 * as_oip_parse_response (p NULL: there is none). Slices point into the message. 0 or AS_EPROTO. */
int as_oip_parse_stream_response(const uint8_t *p, size_t n, struct as_str *ret_error,
                                 struct as_str *ret_response);

/* ModelReadyRequest and ModelMetadataRequest, appended to out. */
void as_oip_put_name_version(struct as_buf *out, struct as_str name, struct as_str version);

/* ModelMetadataResponse. Slices point into the message, arrays into the arena. A datatype that we
 * do not know is AS_DT_INVALID; no shape is ndim 0 (a scalar, or any shape: the message cannot
 * tell). At most AS_OIP_TENSORS_MAX tensors and versions each, AS_MAX_DIMS sizes.
 * 0, AS_EPROTO, AS_EINVALID (over a limit), AS_ENOMEM. */
int as_oip_parse_model(const uint8_t *p, size_t n, struct as_arena *a, struct as_oip_model *ret_m);

#endif
