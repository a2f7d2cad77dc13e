/* wire/oip/oip_json_flat.h — Triton's generate as its client sees it: the flat request, the response.
 *
 * The other end of what wire/oip/oip_json.h has for the server: {NAME: value, …} without datatypes and
 * shapes, which both sides know from the model's metadata. Limits and errors are as there. Pure.
 */
#ifndef AS_WIRE_OIP_JSON_FLAT_H
#define AS_WIRE_OIP_JSON_FLAT_H

#include "wire/oip/oip_json.h"

/* Whether a server that knows an input as `spec` makes this tensor of a flat request: 0, or
 * AS_EINVALID with a line. spec NULL: it does not know it. ndim 0 of spec is any rank, because
 * metadata cannot tell it from a scalar. */
int as_oip_json_flat_fits(const struct as_tensor *t, const struct as_tensor_spec *spec, char *why,
                          size_t cap);
/* Appends {"id"?, "parameters"?: {…}, NAME: value, …}; values are nested as their shapes are. Names
 * that generate has for itself (id, parameters) are the caller's to avoid. 0, or AS_EINVALID with a
 * line: BYTES that are not UTF-8. */
int as_oip_json_flat_put(struct as_buf *b, const struct as_oip_request *r, char *why, size_t cap);

/* A response, or an event of generate_stream. Outputs that are not declared have the datatype that
 * their values fit: INT64, UINT64, FP64, BOOL or BYTES, nested as they are. *ret_error: the text of
 * {"error": …}, then *ret_r has nothing; else its p is NULL. p as in as_oip_json_parse_infer;
 * *ret_blob is the caller's (or NULL). */
int as_oip_json_flat_parse(struct as_json *j, const uint8_t *p, size_t n,
                           const struct as_tensor_spec *outputs, uint32_t n_outputs,
                           struct as_arena *a, struct as_oip_response *ret_r,
                           struct as_blob **ret_blob, struct as_str *ret_error, char *why,
                           size_t cap);

#endif
