/* wire/http/http_field.h — what can be a field of a header that we send, whoever chose its name and
 * value.
 *
 * What does not fit is left out, by both versions of HTTP: an end of a line or a NUL would be read
 * as another field, or another answer, and strict readers drop an answer with any of the others
 * (RFC 9110 §5.1 and §5.5, RFC 9113 §8.2). Pure.
 */
#ifndef AS_WIRE_FIELD_H
#define AS_WIRE_FIELD_H

#include "wire/http/http.h"

/* A token in lower case. */
bool as_http_field_is_name(struct as_str name);
/* Visible characters, spaces and tabs between them, and bytes above 0x7f. */
bool as_http_field_is_value(struct as_str value);
/* Says something of the connection, and not of the message: "connection", "upgrade" … */
bool as_http_field_is_hop_by_hop(struct as_str name);

/* All three are as they should be. */
bool as_http_field_is_valid(const struct as_http_header *f);
/* All n of them do. */
bool as_http_fields_are_valid(const struct as_http_header *f, uint32_t n);

#endif
