/* core/registry/traffic.h — to which version a request goes beside the one that it would be given:
 * canary, mirror, fallback.
 *
 * A deployment says what it wants (struct as_traffic, core/registry/registry.h); whose requests
 * they are is said by the model's name, so all of this happens among the versions of one name.
 * Pure; nothing of it is asked for a model that is not `routed`. Thread: any.
 *
 * Only requests that name no version get a canary or a fallback: a version is served by one
 * deployment, and who names one wants that one. A request is not handed to a version of another
 * kind (decoupled, streamed inputs): its client is answered in the form of the first.
 */
#ifndef AS_CORE_TRAFFIC_H
#define AS_CORE_TRAFFIC_H

#include "core/registry/registry.h"

/* Deployments that one request may fall back to, one after the other. */
#define AS_TRAFFIC_HOPS 8u

/* Where a request stands between 0 and AS_TRAFFIC_ALL - 1. With an id: the same for each request
 * with this id to this model, in any process, so that what a client sends again sees the same
 * version; who is among 5 % is among 10 % as well. Without: by turns, `*turn` is the caller's, so
 * that n requests in a row meet a part as evenly as can be. */
uint32_t as_traffic_point(struct as_str model, struct as_str id, uint32_t *turn);

/* The canary that takes the request at this point, or NULL: m, the default version, does. Of
 * several the lower version has the lower points. `serves` (with arg): whether a model has a
 * replica now; one that has none gets nothing. */
const struct as_model *as_traffic_canary(const struct as_registry *g, const struct as_model *m,
                                         uint32_t point,
                                         bool (*serves)(void *arg, const struct as_model *m),
                                         void *arg);

/* The next version of another deployment that wants a copy of a request to m at this point, behind
 * `after` (NULL: the first); NULL: there is none. */
const struct as_model *as_traffic_mirror(const struct as_registry *g, const struct as_model *m,
                                         uint32_t point, const struct as_model *after);

/* Where a request goes that was first given to `first`, and that n deployments of its chain have
 * refused, the first one included; NULL: nowhere, since the chain ends, comes back to a deployment
 * that has refused already, or has more than AS_TRAFFIC_HOPS links. */
const struct as_model *as_traffic_fallback(const struct as_registry *g,
                                           const struct as_model *first, uint32_t n);

#endif
