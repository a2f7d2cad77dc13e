/* wire/grpc/grpc_details.h — what an error says to programs: google.rpc.Status as
 * "grpc-status-details-bin".
 *
 * Given sparingly, where a program can act on it: which field was wrong, when to come again. The
 * messages are google/rpc/status.proto and error_details.proto (Status: code=1, message=2,
 * details=3 of Any {type_url=1, value=2}; BadRequest: field_violations=1 {field=1, description=2};
 * RetryInfo: retry_delay=1 {seconds=1, nanos=2}). Clients bound the size of trailers (8 KiB in
 * some), so long texts get no details. Pure; allocates nothing.
 */
#ifndef AS_WIRE_DETAILS_H
#define AS_WIRE_DETAILS_H

#include "base/str.h"

#define AS_GRPC_DETAILS_HEADER   "grpc-status-details-bin"
#define AS_GRPC_DETAILS_TEXT_MAX 512u  /* bytes of a message that is repeated in the details */
#define AS_GRPC_DETAILS_MAX      2048u /* bytes of a value, base64 included */

/* RetryInfo. Both return the value, in out (AS_GRPC_DETAILS_MAX bytes), or an empty one when there
 * is nothing to say: the text is too long or not UTF-8. */
struct as_str as_grpc_details_retry(char *out, uint32_t status, struct as_str text, as_ns delay);
/* BadRequest with one violation, if the text names a field: "input 'a': …", "input 'a' …" (field
 * inputs.a) or "raw_input_contents: …" (field raw_input_contents). */
struct as_str as_grpc_details_violation(char *out, uint32_t status, struct as_str text);

/* The field that a text of ours is about; empty: none. For the above. */
struct as_str as_grpc_details_field(struct as_str text, bool *ret_is_input);

#endif
