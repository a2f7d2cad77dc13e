/* wire/oip/oip_json.h — the inference messages of the Open Inference Protocol over REST.
 *
 * JSON, the binary tensor data extension (JSON, then the bytes of tensors in order), and Triton's
 * generate. What a request gives is the same struct as over gRPC, so that a worker cannot tell.
 * Rules and the choices behind them: docs/PROTOCOL.md, "The REST data model". Limits, and errors
 * in `why`, are those of wire/oip/oip.h ("input 'a': 3 elements in data, shape [2,2] needs 4"); all
 * of them are AS_EINVALID, but AS_ENOMEM. Pure.
 */
#ifndef AS_WIRE_OIP_JSON_H
#define AS_WIRE_OIP_JSON_H

#include "base/memory/blob.h"
#include "wire/json/json.h"
#include "wire/oip/oip.h"

/* --- requests --- */

/* Body of POST …/infer: json_len bytes of JSON at p, then the binary data up to n, then
 * AS_JSON_PADDING readable bytes (json_len == n: JSON only). Model and version are left empty, the
 * URL has them. Tensors point into the body (binary), into ret_r->blob (JSON, when more than
 * AS_COPY_MAX bytes: one blob for all of them, each 64-byte aligned), or into the arena. The blob
 * is the caller's from then on; ret_r->typed counts bytes of both.
 * Binary parts are taken in the order of the inputs and must add up to n - json_len exactly.
 * Keys: one that is known must not come twice; unknown ones are checked to be JSON, and ignored.
 * outputs: .binary is resolved (binary_data, else binary_data_output); .classification and ranges
 * of shared memory are handed on, as those of inputs are. `binary_data_output` is no parameter of
 * ret_r. */
int as_oip_json_parse_infer(struct as_json *j, const uint8_t *p, size_t json_len, size_t n,
                            struct as_arena *a, struct as_oip_infer *ret_r, char *why, size_t cap);

/* Raw binary request (Inference-Header-Content-Length: 0): the whole body is the model's one input.
 * Refused without a signature of one input; at most one size of its shape may be variable (its
 * value comes of n); BYTES: one element, the body. All outputs are asked for, in binary. */
int as_oip_json_parse_raw(const struct as_tensor_spec *inputs, uint32_t n_inputs, const uint8_t *p,
                          size_t n, struct as_arena *a, struct as_oip_infer *ret_r, char *why,
                          size_t cap);

/* Body of POST …/generate[_stream]: {"id"?, "parameters"?: {…}, NAME: value, …}. A NAME of the
 * signature is that input: a value alone, or an array, flat or nested. Its shape: that of the
 * signature, where a single variable size comes of the count; with several, the array must be
 * nested as the shape is, or the last of them takes all and the others are 1. Any other NAME is a
 * parameter. Without a signature all are. */
int as_oip_json_parse_generate(struct as_json *j, const uint8_t *p, size_t n,
                               const struct as_tensor_spec *inputs, uint32_t n_inputs,
                               struct as_arena *a, struct as_oip_infer *ret_r, char *why,
                               size_t cap);

/* --- responses --- */

/* Does the i-th output of an answer travel as bytes behind the JSON? Outputs of the answer are in
 * the order of q->outputs, or all of them when none was named. */
static inline bool as_oip_json_is_binary(const struct as_oip_infer *q, uint32_t i)
{
    return q->n_outputs ? q->outputs[i].binary : q->binary_output;
}
/* Any of the n outputs of the answer: then Inference-Header-Content-Length is due. */
bool as_oip_json_any_binary(const struct as_oip_infer *q, uint32_t n);

/* The JSON of an answer to q. First how many bytes it takes at most: 0, or AS_EINVALID with a line:
 * an output in BYTES that are not UTF-8 (ask for it in binary). Then the text: returns its bytes.
 * Behind it the caller sends the data of each binary output, in order. */
int as_oip_json_response_max(const struct as_oip_response *r, const struct as_oip_infer *q,
                             uint64_t *ret_n, char *why, size_t cap);
size_t as_oip_json_put_response(uint8_t *out, const struct as_oip_response *r,
                                const struct as_oip_infer *q);

/* The same for generate: {"id"?, "model_name", "model_version", "parameters"?, OUTPUT: value, …},
 * one element as a value alone, else a flat array. An output named like one of ours replaces it. */
int as_oip_json_generate_max(const struct as_oip_response *r, uint64_t *ret_n, char *why,
                             size_t cap);
size_t as_oip_json_put_generate(uint8_t *out, const struct as_oip_response *r);

/* Metadata of server and model, appended. */
void as_oip_json_put_server(struct as_buf *b, const struct as_oip_server *s);
void as_oip_json_put_model(struct as_buf *b, const struct as_oip_model *m);

/* --- the client's side --- */

/* A request's JSON; `binary`: all its inputs travel behind it, in order (then
 * Inference-Header-Content-Length is due). Outputs that are named ask by their .binary, otherwise
 * `binary_output` speaks for all. */
struct as_oip_json_request {
    struct as_oip_request r; /* model and version are not written */
    bool binary, binary_output;
};
int as_oip_json_request_max(const struct as_oip_json_request *r, uint64_t *ret_n, char *why,
                            size_t cap);
size_t as_oip_json_put_request(uint8_t *out, const struct as_oip_json_request *r);

/* Reads an answer as as_oip_json_parse_infer does a request, but a member that is null counts as
 * missing; *ret_blob is the caller's (or NULL). */
int as_oip_json_parse_response(struct as_json *j, const uint8_t *p, size_t json_len, size_t n,
                               struct as_arena *a, struct as_oip_response *ret_r,
                               struct as_blob **ret_blob, char *why, size_t cap);
/* The text of {"error": …}: 0, or AS_EINVALID when the body is something else. */
int as_oip_json_parse_error(struct as_json *j, const uint8_t *p, size_t n, struct as_arena *a,
                            struct as_str *ret_text);

#endif
