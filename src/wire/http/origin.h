/* wire/http/origin.h — the origin of a web page (RFC 6454), and lists of origins.
 *
 * An origin is scheme://host[:port], where the scheme is http or https, without a path. A list
 * holds one or more origins, separated by commas. Comparison ignores case. Pure.
 */
#ifndef AS_WIRE_ORIGIN_H
#define AS_WIRE_ORIGIN_H

#include "base/str.h"

/* Each entry is an origin; an empty list is valid. *ret_bad: the first entry that is not. */
bool as_origin_list_is_valid(struct as_str list, struct as_str *ret_bad);
bool as_origin_list_contains(struct as_str list, struct as_str origin);
/* An entry of the list has this host, whatever its scheme and port. */
bool as_origin_list_has_host(struct as_str list, struct as_str host);
/* The origin is http:// or https:// followed by this authority (the value of a Host header). */
bool as_origin_is_authority(struct as_str origin, struct as_str authority);

/* The host of an authority: "gpu1:9001" without its port, "[::1]:9001" without port and brackets;
 * empty if the authority has neither form. */
struct as_str as_origin_host(struct as_str authority);

#endif
