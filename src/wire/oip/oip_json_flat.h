/* wire/oip/oip_json_flat.h — the client's side of Triton's generate: writes requests, parses
 * responses.
 *
 * The server's side is in wire/oip/oip_json.h. Bodies are flat objects, {NAME: value, …}, without
 * datatypes and shapes: both sides know these from the model's metadata. Limits and errors are
 * those of oip_json.h. Pure.
 */
#ifndef AS_WIRE_OIP_JSON_FLAT_H
#define AS_WIRE_OIP_JSON_FLAT_H

#include "wire/oip/oip_json.h"

/* Checks that a server which declares this input as `spec` (NULL: not at all) will rebuild the same
 * tensor from a flat request. 0, or AS_EINVALID with a line. spec->ndim 0 allows any shape, because
 * metadata do not distinguish a scalar from any rank. */
int as_oip_json_flat_fits(const struct as_tensor *t, const struct as_tensor_spec *spec, char *why,
                          size_t cap);
/* Appends {"id"?, "parameters"?: {…}, NAME: value, …}; values are nested like their shapes. The
 * caller must refuse inputs named "id" or "parameters" when the request has these members. 0, or
 * AS_EINVALID with a line: BYTES that are not UTF-8. */
int as_oip_json_flat_put(struct as_buf *b, const struct as_oip_request *r, char *why, size_t cap);

/* Parses a response, or the data of an event of generate_stream. An output that is not declared
 * gets the first datatype that its values fit: INT64, UINT64, FP64, BOOL or BYTES; its shape is its
 * nesting. *ret_error is the text of {"error": …}, and then *ret_r is empty; otherwise its p is
 * NULL. AS_JSON_PADDING bytes after the n bytes at p must be readable. The caller must unref
 * *ret_blob, which may be NULL. */
int as_oip_json_flat_parse(struct as_json *j, const uint8_t *p, size_t n,
                           const struct as_tensor_spec *outputs, uint32_t n_outputs,
                           struct as_arena *a, struct as_oip_response *ret_r,
                           struct as_blob **ret_blob, struct as_str *ret_error, char *why,
                           size_t cap);

#endif
