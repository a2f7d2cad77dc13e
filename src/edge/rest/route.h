/* edge/rest/route.h — which resource the path of a plain HTTP request names.
 *
 * A pattern is a path with variables: {model} is one or more segments, since names may hold
 * slashes; {version}, {name}, {application} and {deployment} are one segment; a part in brackets
 * may be absent. "…/{model}" never takes a path whose last segment is a verb of the protocol, nor a
 * segment "versions": no model has such a name (core/registry/registry.h), so that every path has
 * one reading, in whatever order patterns are tried. Percent-encoding is undone in variables only:
 * "%2F" in a name is a slash of the name, but never makes a path something else than it looks like
 * to a proxy. Pure.
 */
#ifndef AS_EDGE_ROUTE_H
#define AS_EDGE_ROUTE_H

#include "base/buf.h"
#include "base/err.h"

struct as_rest_route;

/* What was matched. Slices of the path; decoded by as_route_decode where they hold a '%'. */
struct as_rest_match {
    const struct as_rest_route *route; /* NULL: none */
    struct as_str model, version, name, application, deployment;
    struct as_str query; /* behind '?', without it; encoded */
};

/* Path without query. Fills the variables, empty where the pattern has none. */
bool as_route_matches(const char *pattern, struct as_str path, struct as_rest_match *ret_m);

/* Undoes percent-encoding into `out` (s.n bytes of room). 0, or AS_EINVALID: not two hex digits
 * behind a '%', or %00. */
int as_route_decode(struct as_str s, char *out, size_t *ret_n);
/* The other way: what a segment may not hold as %XX; slashes stay. Appended. */
void as_route_encode(struct as_buf *out, struct as_str s);

/* The concrete path of a pattern, with its optional part or without: the variables replaced by
 * `m`'s, encoded; an empty one keeps its braces. Appended. False, and nothing is: there is no
 * optional part to be with. */
bool as_route_put(struct as_buf *out, const char *pattern, bool with_optional,
                  const struct as_rest_match *m);

#endif
