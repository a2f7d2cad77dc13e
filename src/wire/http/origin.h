/* wire/http/origin.h — where a web page came from (RFC 6454), and lists of such places.
 *
 * An origin is scheme://host[:port], of http or https, without a path. A list holds one or more,
 * with commas between them. Case does not count. Pure.
 */
#ifndef AS_WIRE_ORIGIN_H
#define AS_WIRE_ORIGIN_H

#include "base/str.h"

/* Each entry is an origin; an empty list has none. *ret_bad: the first that is not one. */
bool as_origin_list_is_valid(struct as_str list, struct as_str *ret_bad);
bool as_origin_list_contains(struct as_str list, struct as_str origin);
/* One of them has this host, whatever its scheme and port. */
bool as_origin_list_has_host(struct as_str list, struct as_str host);
/* It is http:// or https:// and this authority, as a Host header has it. */
bool as_origin_is_authority(struct as_str origin, struct as_str authority);

/* "gpu1:9001" without its port, "[::1]:9001" without brackets too; empty when it is neither. */
struct as_str as_origin_host(struct as_str authority);

#endif
