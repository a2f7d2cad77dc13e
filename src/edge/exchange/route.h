/* edge/exchange/route.h — matches paths of plain HTTP requests with the patterns of routes.
 *
 * A pattern is a path with variables. {model} is one or more segments, since names of models may
 * contain slashes; {version}, {name}, {application} and {deployment} are one segment. A part in
 * brackets is optional. {model} never matches a name whose last segment is a verb of the protocol,
 * or a segment "versions": no model has such a name (core/registry/registry.h). So a path has only
 * one meaning, whatever the order of the patterns. Percent-encoding is decoded in variables only:
 * "%2F" is a slash in a name, but never a separator, so a path means the same to the server as to a
 * proxy. Pure functions.
 */
#ifndef AS_EDGE_ROUTE_H
#define AS_EDGE_ROUTE_H

#include "base/buf.h"
#include "base/err.h"

struct as_rest_route;

/* The result of a match. The variables are slices of the path, encoded until as_route_decode. */
struct as_rest_match {
    const struct as_rest_route *route; /* NULL: none */
    struct as_str model, version, name, application, deployment;
    struct as_str query; /* without the '?'; encoded */
};

/* Matches a path without its query. Sets all variables; "" where the pattern has none. */
bool as_route_matches(const char *pattern, struct as_str path, struct as_rest_match *ret_m);

/* Decodes percent-encoding into `out` (room for s.n bytes). 0, or AS_EINVALID: a '%' without two
 * hex digits, or %00. */
int as_route_decode(struct as_str s, char *out, size_t *ret_n);

/* Appends the path of a pattern, with or without its optional part, with the encoded variables of
 * m; an empty variable stays "{name}". False: with_optional, but there is no optional part; nothing
 * was appended. */
bool as_route_put(struct as_buf *out, const char *pattern, bool with_optional,
                  const struct as_rest_match *m);

#endif
