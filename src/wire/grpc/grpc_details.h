/* wire/grpc/grpc_details.h — details of an error for programs: google.rpc.Status as
 * "grpc-status-details-bin".
 *
 * Sent only where a program can act on them: which field was wrong, when to retry. The messages are
 * those of google/rpc/status.proto and error_details.proto (Status: code=1, message=2, details=3 of
 * Any {type_url=1, value=2}; BadRequest: field_violations=1 {field=1, description=2}; RetryInfo:
 * retry_delay=1 {seconds=1, nanos=2}). Clients limit the size of trailers (some to 8 KiB), so a
 * long text gets no details. Pure; allocates nothing.
 */
#ifndef AS_WIRE_GRPC_DETAILS_H
#define AS_WIRE_GRPC_DETAILS_H

#include "base/str.h"

#define AS_GRPC_DETAILS_HEADER   "grpc-status-details-bin"
#define AS_GRPC_DETAILS_TEXT_MAX 512u  /* maximum bytes of the message, which the details repeat */
#define AS_GRPC_DETAILS_MAX      2048u /* maximum bytes of a value, in base64 */

/* RetryInfo. Both functions write to `out` (AS_GRPC_DETAILS_MAX bytes) and return the value; it is
 * empty if there are no details: the text is too long, is not UTF-8, or names no field. */
struct as_str as_grpc_details_retry(char *out, uint32_t status, struct as_str text, as_ns delay);
/* BadRequest with one violation, if the text names a field: "input 'a': …", "input 'a' …" (field
 * inputs.a) or "raw_input_contents: …" (field raw_input_contents). */
struct as_str as_grpc_details_violation(char *out, uint32_t status, struct as_str text);

/* The field that an error text is about; empty: none. For the function above. */
struct as_str as_grpc_details_field(struct as_str text, bool *ret_is_input);

#endif
