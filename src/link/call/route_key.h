/* link/call/route_key.h — what a router goes by: hashes of the multiplexed model that a request is
 * for and of its session, found in its metadata or fields. Pure.
 *
 * Names of headers are compared with '-' for '_', since clients and proxies write either; both the
 * names here and those of requests are in lower case. The last of several headers counts, as for
 * the handler.
 */
#ifndef AS_LINK_ROUTE_KEY_H
#define AS_LINK_ROUTE_KEY_H

#include "link/call/payload.h"

#define AS_ROUTE_SESSION_HEADER "x-session-id"

/* Of an id with at least one byte (of a model, a session or a tenant): never 0. Clients must not
 * know the seed. */
uint64_t as_route_key(struct as_str id, uint64_t seed);

struct as_route_ids {
    struct as_str model, session; /* empty: none */
};
/* session_header: in lower case, with '-' for '_'.
 *
 *   kind     model                                             session
 *   HTTP     serve-multiplexed-model-id                        session_header
 *   CALL     serve-multiplexed-model-id                        serve-session-id; of a gRPC service
 *                                                              also session_header
 *   tensors  serve-multiplexed-model-id, multiplexed-model-id  session_header
 */
struct as_route_ids as_route_find_ids(const struct as_payload *p, struct as_str session_header);

/* Keys of a checked report of model ids (a JSON array; members that are no texts or empty are
 * skipped). The caller frees *ret_keys, which may be NULL. AS_ENOMEM; nothing is written then. */
int as_route_read_models(struct as_str json, uint64_t seed, uint64_t **ret_keys, uint32_t *ret_n);

#endif
