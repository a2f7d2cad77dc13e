/* wire/oip/oip.h — messages of inference.GRPCInferenceService (Open Inference Protocol) in
 * protobuf.
 *
 * Our own zero-copy reader and writer for the frequent messages. Field numbers are those of
 * proto/open_inference.proto. The reader follows proto3: unknown fields are skipped, of duplicate
 * scalar fields and map keys the last one wins, repeated numbers may be packed or not. A known
 * field with another wire type and a string that is not UTF-8 are refused. Pure: no I/O, no global
 * state. Parsed structs point into the message and the arena.
 */
#ifndef AS_WIRE_OIP_H
#define AS_WIRE_OIP_H

#include "base/buf.h"
#include "base/err.h"
#include "base/memory/arena.h"
#include "base/tensor.h"
#include "wire/frame/frame.h"

/* Limits of one message. A message beyond them is AS_EINVALID, with a text that names the field. */
#define AS_OIP_TENSORS_MAX AS_FRAME_TENSORS /* inputs, and also requested outputs */
#define AS_OIP_PARAMS_MAX  AS_FRAME_PARAMS
#define AS_OIP_TABLE_MAX                                                                           \
    (AS_FRAME_TABLE / 2) /* bytes of id, names, shapes, parameters on the link */
#define AS_OIP_TYPED_MAX                                                                           \
    ((uint64_t)64 << 20) /* decoded typed contents, beyond the message's length */

/* A range of a shared memory region. The client chose the region's name when it registered it. */
struct as_oip_shm_range {
    struct as_str region;  /* empty: no range */
    uint64_t offset, size; /* bytes */
};

struct as_oip_requested_output { /* one entry of the request's outputs */
    struct as_str name;
    uint32_t classification;       /* k > 0: the k best classes; 0: the tensor itself */
    struct as_oip_shm_range range; /* where the server writes its bytes; size: the most that fit */
    bool binary;                   /* REST: as bytes after the JSON */
};

struct as_oip_infer {
    struct as_str model, version, id;
    const struct as_tensor *inputs; /* data lie in the message, or typed ones in the arena */
    uint32_t n_inputs;
    /* One per input; NULL: no input is in shared memory. Of an input with a range, nbytes is the
     * range's size and data is NULL until the caller attaches it (and then checks BYTES). */
    const struct as_oip_shm_range *ranges;
    const struct as_param *params; /* request-level parameters */
    uint32_t n_params;
    struct as_tensor_params tensor_params; /* of the inputs, but for those that the server uses */
    const struct as_oip_requested_output *outputs; /* none: all outputs; each name once */
    uint32_t n_outputs;
    bool has_output_range;   /* an output has a range */
    bool has_classification; /* an output asks for the best classes */
    uint64_t typed; /* bytes allocated for typed contents or JSON, in addition to the message; the
                       caller counts them in its budget */
    struct as_blob *blob; /* REST: the bytes of large tensors, or NULL; the caller unrefs it */
    bool binary_output;   /* REST: all outputs as bytes after the JSON, if none was named */
};

/* Parses a ModelInferRequest, and checks
 * - wire types, datatypes and shapes (no negative size, no overflow); names are given once;
 * - raw contents: one entry per input, of the size of its shape, BYTES elements well formed;
 * - typed contents: not mixed with raw ones, in the field of the datatype (FP16 and BF16 have
 *   none), integers in range. They are converted to raw bytes in the arena; packed floats are
 *   used in place.
 *
 * The server itself uses four parameters of a tensor: shared_memory_region, shared_memory_offset,
 * shared_memory_byte_size and classification. The other parameters of inputs go into
 * tensor_params; they count toward the request's limit. An input in shared memory must have
 * neither contents nor a raw entry.
 *
 * 0; AS_EPROTO: malformed protobuf; AS_EINVALID; AS_ENOMEM. After an error `why` (cap bytes, ended
 * by a NUL) has one line that names the tensor or field ("input 'a': …"). */
int as_oip_parse_infer(const uint8_t *p, size_t n, struct as_arena *a, struct as_oip_infer *ret_r,
                       char *why, size_t cap);

/* Parses a ModelReadyRequest or ModelMetadataRequest: name=1, version=2. 0 or AS_EPROTO (malformed,
 * or not UTF-8). Slices point into the message. */
int as_oip_parse_name_version(const uint8_t *p, size_t n, struct as_str *ret_name,
                              struct as_str *ret_version);

/* ModelInferResponse. Outputs are sent as raw_output_contents, one entry per output. */
struct as_oip_response {
    struct as_str model, version, id;
    const struct as_tensor *outputs;
    uint32_t n_outputs;
    const struct as_param *params;
    uint32_t n_params;
    struct as_tensor_params tensor_params; /* of the outputs, sorted by output */
    /* One per output; NULL: none. The bytes of an output with a range are there, not in the
     * message. */
    const struct as_oip_shm_range *ranges;
    bool has_duplicates; /* parsed: model, version or id occurred more than once; the last counts */
};
/* Size of the encoded message without a gRPC prefix; UINT64_MAX when it is over 2^31-1. Call it
 * first: the functions below need a message that fits. */
uint64_t as_oip_response_len(const struct as_oip_response *r);
/* Writes the whole message to out (exactly as_oip_response_len bytes). */
void as_oip_put_response(uint8_t *out, const struct as_oip_response *r);
/* The same message in parts, so that large tensors need no copy: the head (all fields but
 * raw_output_contents), then for each output its raw head (tag and length) and its bytes. */
size_t as_oip_response_head_len(const struct as_oip_response *r);
void as_oip_put_response_head(uint8_t *out, const struct as_oip_response *r);
#define AS_OIP_RAW_HEAD_MAX 11u
/* Returns its length. */
size_t as_oip_put_raw_head(uint8_t out[AS_OIP_RAW_HEAD_MAX], size_t nbytes);

/* Small responses, appended to out. as_oip_put_live writes one bool, field 1: the response to
 * ServerLive, ServerReady and ModelReady. */
void as_oip_put_live(struct as_buf *out, bool live);
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

/* ModelInferRequest. Its fields 1 to 5 are those of a response, so `head` holds model, version, id,
 * parameters, and the inputs (in head.outputs). */
struct as_oip_request {
    struct as_oip_response head;
    const struct as_oip_requested_output *outputs; /* requested; none: all */
    uint32_t n_outputs;
};
/* Size of the encoded message; UINT64_MAX when it is over 2^31-1. */
uint64_t as_oip_request_len(const struct as_oip_request *r);
/* Writes exactly as_oip_request_len bytes. */
void as_oip_put_request(uint8_t *out, const struct as_oip_request *r);
/* The same message in parts, as for a response: the head (all fields but raw_input_contents), then
 * for each input its raw head (at most AS_OIP_RAW_HEAD_MAX bytes) and its bytes. */
size_t as_oip_request_head_len(const struct as_oip_request *r);
void as_oip_put_request_head(uint8_t *out, const struct as_oip_request *r);
size_t as_oip_put_request_raw_head(uint8_t out[AS_OIP_RAW_HEAD_MAX], size_t nbytes);

/* Parses a ModelInferResponse, with the checks and errors of as_oip_parse_infer. */
int as_oip_parse_response(const uint8_t *p, size_t n, struct as_arena *a,
                          struct as_oip_response *ret_r, char *why, size_t cap);

/* Parses a ModelStreamInferResponse: the error's text (empty: no error), and the bytes of the
 * response for as_oip_parse_response (p NULL: no response). Slices point into the message. 0 or
 * AS_EPROTO. */
int as_oip_parse_stream_response(const uint8_t *p, size_t n, struct as_str *ret_error,
                                 struct as_str *ret_response);

/* ModelReadyRequest and ModelMetadataRequest, appended to out. */
void as_oip_put_name_version(struct as_buf *out, struct as_str name, struct as_str version);

/* Parses a ModelMetadataResponse. Slices point into the message, arrays into the arena. An unknown
 * datatype is AS_DT_INVALID. Without a shape ndim is 0, which is a scalar or any shape: the message
 * does not distinguish them. Limits: AS_OIP_TENSORS_MAX inputs, outputs and versions each,
 * AS_MAX_DIMS dimensions. 0, AS_EPROTO, AS_EINVALID (over a limit), AS_ENOMEM. */
int as_oip_parse_model(const uint8_t *p, size_t n, struct as_arena *a, struct as_oip_model *ret_m);

#endif
