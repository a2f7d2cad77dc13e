/* edge/exchange/key_access.h — API keys (--api-keys): who a client is, what it may use, and how
 * much.
 *
 * With keys every request on the clients' interface needs one, in `authorization: Bearer KEY` or
 * `x-api-key: KEY` (of gRPC: metadata), but for probes, which tell nothing beside whether the
 * server is alive and ready. What a key may not use is refused by the same text whether it exists
 * or not, and left out of lists. What concerns the whole server (shared memory, settings of log and
 * traces, loading and unloading, metrics) is for keys that may use everything. Without --api-keys
 * everything passes.
 *
 * The field that has the key is taken out of the request's head, so that neither handlers nor logs
 * get it; see docs/guide/keys.md. Functions named …_check_… fail the request when they return
 * false. Thread: the loop's.
 */
#ifndef AS_EDGE_KEY_ACCESS_H
#define AS_EDGE_KEY_ACCESS_H

#include "edge/exchange/exchange.h"

/* Finds the key of a request whose head was received, and counts it against the key's quotas. */
bool as_key_access_check_request(struct as_exchange *x);
/* The same for the status port: the key must be one that may use everything. False: the request was
 * failed. */
bool as_key_access_check_operator(struct as_exchange *x);
/* For what seemed to be a probe, and by its message is none: whether it has a key, and counts it.
 */
bool as_key_access_check_late(struct as_exchange *x);
/* For one message of a ModelStreamInfer call, which is a request of its own. Renew: the key may
 * have been revoked or changed since the call began. Count: against its quotas. False: it was
 * failed. */
bool as_key_access_renew(struct as_exchange *x);
bool as_key_access_count(struct as_exchange *x);
/* For what is open for long: false when the key was revoked, or has expired. A key whose line has
 * changed otherwise is valid. True without --api-keys. */
bool as_key_access_is_valid(const struct as_exchange *x);
/* Gives up the key of a request that ends. */
void as_key_access_release(struct as_exchange *x);

bool as_key_access_check_model(struct as_exchange *x, struct as_str model);
bool as_key_access_check_application(struct as_exchange *x, struct as_str application);
/* A path, a method or an application that is unknown: only whoever may use all applications is told
 * so. */
bool as_key_access_check_unknown(struct as_exchange *x);
/* Something that concerns the whole server. */
bool as_key_access_check_server(struct as_exchange *x);
/* Fails with NOT_ALLOWED, or UNAUTHENTICATED if there is no key; like all of these with UNAVAILABLE
 * while the server has no valid file of keys. */
void as_key_access_refuse(struct as_exchange *x);

/* Whether the names are in lists for this client. */
bool as_key_access_lists_model(const struct as_exchange *x, struct as_str model);
bool as_key_access_lists_application(const struct as_exchange *x, struct as_str application);

#endif
