/* tool/tensor/print.h — prints tensors and parameters, as text and as JSON.
 *
 * The text can be parsed by tool/tensor/literal: a user can paste an output into --input. In JSON
 * the data are one flat array in row order, as in the protocol's own JSON. Pure.
 */
#ifndef AS_TOOL_PRINT_H
#define AS_TOOL_PRINT_H

#include "base/buf.h"
#include "wire/oip/oip.h"

void as_print_shape(struct as_buf *b, const int64_t *shape, uint32_t ndim); /* "[2,-1]" */
/* "FP32 [2,-1]"; without a shape when ndim is AS_ANY_RANK. */
void as_print_type(struct as_buf *b, enum as_dtype t, const int64_t *shape, uint32_t ndim);
/* The values in brackets, one row of the last dimension per line, without a newline at the end.
 * Prints at most `most` values (0: all), then "…" and the number of the others. */
void as_print_values(struct as_buf *b, const struct as_tensor *t, uint64_t most);
/* {"name":…,"datatype":…,"shape":[…],"data":[…]}. Numbers are exact, NaN and infinities strings as
 * in protobuf's JSON. BYTES are strings; when one of them is not UTF-8, "data_base64" holds them
 * all instead. */
void as_print_json_tensor(struct as_buf *b, const struct as_tensor *t);
/* Replaces control bytes except newline and tab by '?', because a server's text could contain
 * escape sequences for the terminal. */
void as_print_sanitize(struct as_buf *b);
/* Parameters as name=value, with strings in quotes; and as members of a JSON object. */
void as_print_params(struct as_buf *b, const struct as_param *p, uint32_t n);
void as_print_json_params(struct as_buf *b, const struct as_param *p, uint32_t n);

#endif
