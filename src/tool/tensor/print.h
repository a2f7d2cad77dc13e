/* tool/tensor/print.h — tensors and parameters as text, for people and as JSON.
 *
 * The form for people is the one that tool/tensor/literal reads: what a model answered can be
 * pasted into
 * --input. JSON has the data row by row in one array, as the protocol's own JSON has. Pure.
 */
#ifndef AS_TOOL_PRINT_H
#define AS_TOOL_PRINT_H

#include "base/buf.h"
#include "wire/oip/oip.h"

/* "FP32 [2,-1]"; without a shape when ndim is AS_ANY_RANK. */
void as_print_type(struct as_buf *b, enum as_dtype t, const int64_t *shape, uint32_t ndim);
/* The values with brackets, one row of the last dimension per line, no newline at the end; at most
 * `most` values (0: all), then "…" and how many more there are. */
void as_print_values(struct as_buf *b, const struct as_tensor *t, uint64_t most);
/* {"name":…,"datatype":…,"shape":[…],"data":[…]}. Numbers are exact, NaN and infinities strings as
 * in protobuf's JSON. BYTES are strings; when one of them is not UTF-8, "data_base64" holds them
 * all instead. */
void as_print_json_tensor(struct as_buf *b, const struct as_tensor *t);
/* Control bytes but newline and tab become '?': what a server says must not steer the terminal. */
void as_print_sanitize(struct as_buf *b);
/* name=value, with strings in quotes; the same as members of a JSON object. */
void as_print_params(struct as_buf *b, const struct as_param *p, uint32_t n);
void as_print_json_params(struct as_buf *b, const struct as_param *p, uint32_t n);

#endif
