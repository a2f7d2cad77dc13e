/* core/registry/routes.h — which paths belong to which application, as an immutable snapshot.
 *
 * A route is the prefix of an application, and the deployment that its requests go to. A prefix
 * matches a path that is equal, or continues with '/'; the longest one counts. Snapshots are made
 * by one thread and read by all, and counted as those of core/registry/registry.h; only the place
 * that a row remembers belongs to the thread that submits requests.
 */
#ifndef AS_CORE_ROUTES_H
#define AS_CORE_ROUTES_H

#include "base/id.h"
#include "core/registry/counts.h"

#define AS_ROUTES_MAX       1024u
#define AS_ROUTE_PREFIX_MAX 1024u /* bytes */

struct as_route {
    struct as_str prefix;     /* "/", or "/a/b" without a slash at its end */
    struct as_str root;       /* the same; "" for "/" */
    struct as_str deployment; /* its id: APPLICATION#NAME */
    /* Answers, while its prefix and its deployment stay the same; as long as the snapshot. */
    struct as_counts *counts;
    /* Where the fleet found it last; its own (link/fleet). */
    uint32_t number, model;
};
#define AS_ROUTE_UNKNOWN UINT32_MAX /* number */

struct as_routes;

struct as_routes *as_routes_new(void); /* no routes; with one reference */
struct as_routes *as_routes_ref(struct as_routes *g);
void as_routes_unref(struct as_routes *g); /* NULL is fine */

/* A snapshot in which this deployment has this prefix, and neither another deployment nor, for this
 * deployment, another prefix; prefix "": it has none. If that is so already, g with one more
 * reference. NULL: there are AS_ROUTES_MAX, or the prefix is malformed: it does not begin
 * with '/', has more than AS_ROUTE_PREFIX_MAX bytes, or a control character. Slashes at its end do
 * not count. */
struct as_routes *as_routes_set(struct as_routes *g, struct as_str deployment,
                                struct as_str prefix);

/* The route of a path, without its query; NULL: there is none. */
struct as_route *as_routes_find(const struct as_routes *g, struct as_str path);
uint32_t as_routes_count(const struct as_routes *g);
/* Longest prefix first; of equal length in the order of their bytes. */
const struct as_route *as_routes_at(const struct as_routes *g, uint32_t i);

#endif
