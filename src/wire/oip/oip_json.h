/* wire/oip/oip_json.h — the inference messages of the Open Inference Protocol over REST.
 *
 * These are JSON, the binary tensor data extension (JSON, then the bytes of tensors in order), and
 * Triton's generate. A request is parsed into the same struct as over gRPC, so that a worker does
 * not see a difference. docs/protocol/rest.md has the rules and their reasons.
 * Limits and errors are those of wire/oip/oip.h ("input 'a': 3 elements in data, shape [2,2] needs
 * 4"); every error is AS_EINVALID or AS_ENOMEM. Pure.
 */
#ifndef AS_WIRE_OIP_JSON_H
#define AS_WIRE_OIP_JSON_H

#include "base/memory/blob.h"
#include "wire/json/json.h"
#include "wire/oip/oip.h"

/* --- requests --- */

/* Parses the body of POST …/infer: json_len bytes of JSON at p, then binary data up to n, then
 * AS_JSON_PADDING readable bytes (json_len == n: only JSON). Model and version stay empty: they are
 * in the URL. A tensor's data point into the body (binary data), into ret_r->blob (tensors from
 * JSON, if all of them take more than AS_COPY_MAX bytes: one blob, each tensor 64-byte aligned), or
 * into the arena. The caller must unref the blob. ret_r->typed counts the bytes in the blob and the
 * arena. Binary data belong to the inputs in order; their sizes must add up to n - json_len
 * exactly. A known key must not occur twice. An unknown one is checked for syntax and ignored. The
 * .binary of each output is resolved: its binary_data, else the request's binary_data_output, which
 * is not among ret_r->params. */
int as_oip_json_parse_infer(struct as_json *j, const uint8_t *p, size_t json_len, size_t n,
                            struct as_arena *a, struct as_oip_infer *ret_r, char *why, size_t cap);

/* A raw binary request (Inference-Header-Content-Length: 0): the whole body is the model's only
 * input. The model must declare exactly one input. At most one size of its shape may be variable;
 * it is computed from n. For BYTES the body is a single element. All outputs are requested in
 * binary. */
int as_oip_json_parse_raw(const struct as_tensor_spec *inputs, uint32_t n_inputs, const uint8_t *p,
                          size_t n, struct as_arena *a, struct as_oip_infer *ret_r, char *why,
                          size_t cap);

/* Parses the body of POST …/generate[_stream]: {"id"?, "parameters"?: {…}, NAME: value, …}. A NAME
 * that the signature declares is an input: a single value or an array, flat or nested. Its shape is
 * the declared one. One variable size is computed from the number of elements. Of several, either
 * the array is nested like the shape and gives them, or the last one is computed and the others are
 * 1. Any other NAME is a parameter; without a signature all are. */
int as_oip_json_parse_generate(struct as_json *j, const uint8_t *p, size_t n,
                               const struct as_tensor_spec *inputs, uint32_t n_inputs,
                               struct as_arena *a, struct as_oip_infer *ret_r, char *why,
                               size_t cap);

/* --- responses --- */

/* Whether the i-th output of the response to q is sent as bytes after the JSON. The outputs of a
 * response are in the order of q->outputs; if that is empty, they are all outputs of the model. */
static inline bool as_oip_json_is_binary(const struct as_oip_infer *q, uint32_t i)
{
    return q->n_outputs ? q->outputs[i].binary : q->binary_output;
}
/* Whether any of the response's n outputs is: then the header Inference-Header-Content-Length is
 * due.
 */
bool as_oip_json_any_binary(const struct as_oip_infer *q, uint32_t n);

/* The JSON of the response to q. as_oip_json_response_max computes how many bytes `out` must have:
 * 0, or AS_EINVALID with a line (an output has BYTES that are not UTF-8: the client must request it
 * in binary). as_oip_json_put_response writes the text and returns its length. After the text the
 * caller sends the data of each binary output, in order. */
int as_oip_json_response_max(const struct as_oip_response *r, const struct as_oip_infer *q,
                             uint64_t *ret_n, char *why, size_t cap);
size_t as_oip_json_put_response(uint8_t *out, const struct as_oip_response *r,
                                const struct as_oip_infer *q);

/* The same for generate: {"id"?, "model_name", "model_version", "parameters"?, OUTPUT: value, …}.
 * An output of one element is a single value, any other a flat array. An output with the name of
 * another member replaces that member. */
int as_oip_json_generate_max(const struct as_oip_response *r, uint64_t *ret_n, char *why,
                             size_t cap);
size_t as_oip_json_put_generate(uint8_t *out, const struct as_oip_response *r);

/* Metadata of server and model, appended. */
void as_oip_json_put_server(struct as_buf *b, const struct as_oip_server *s);
void as_oip_json_put_model(struct as_buf *b, const struct as_oip_model *m);

/* --- the client's side --- */

/* A request's JSON. `binary`: all inputs follow it as bytes, in order, and the header
 * Inference-Header-Content-Length is due. Named outputs are requested in binary by their .binary;
 * if none is named, `binary_output` is for all. */
struct as_oip_json_request {
    struct as_oip_request r; /* model and version are not written */
    bool binary, binary_output;
};
int as_oip_json_request_max(const struct as_oip_json_request *r, uint64_t *ret_n, char *why,
                            size_t cap);
size_t as_oip_json_put_request(uint8_t *out, const struct as_oip_json_request *r);

/* Parses a response, with the rules of as_oip_json_parse_infer. The caller must unref *ret_blob,
 * which may be NULL. */
int as_oip_json_parse_response(struct as_json *j, const uint8_t *p, size_t json_len, size_t n,
                               struct as_arena *a, struct as_oip_response *ret_r,
                               struct as_blob **ret_blob, char *why, size_t cap);
/* The text of {"error": …}. 0, or AS_EINVALID when the body is something else. */
int as_oip_json_parse_error(struct as_json *j, const uint8_t *p, size_t n, struct as_arena *a,
                            struct as_str *ret_text);

#endif
