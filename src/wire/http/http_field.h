/* wire/http/http_field.h — which names and values may be sent as a header field, whoever chose
 * them.
 *
 * Both versions of HTTP leave out a field that is not valid: a line end or a NUL would be read as
 * another field or another answer, and strict readers drop an answer with any other forbidden byte
 * (RFC 9110 §5.1 and §5.5, RFC 9113 §8.2). Pure.
 */
#ifndef AS_WIRE_HTTP_FIELD_H
#define AS_WIRE_HTTP_FIELD_H

#include "wire/http/http.h"

/* A token in lower case (RFC 9110 §5.6.2). */
bool as_http_field_is_name(struct as_str name);
/* Visible characters, bytes above 0x7f, and spaces and tabs between them. */
bool as_http_field_is_value(struct as_str value);
/* The field is about the connection, not about the message: "connection", "upgrade" … */
bool as_http_field_is_hop_by_hop(struct as_str name);

/* TOKEN of the value "Bearer TOKEN" of `authorization` (RFC 6750 §2.1), whose scheme is
 * case-insensitive (RFC 9110 §11.1). Empty: it has another form. */
struct as_str as_http_field_bearer(struct as_str value);

/* Name and value are valid, and the field is not hop-by-hop. */
bool as_http_field_is_valid(const struct as_http_header *f);
/* All n fields are valid. */
bool as_http_fields_are_valid(const struct as_http_header *f, uint32_t n);

#endif
