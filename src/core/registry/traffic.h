/* core/registry/traffic.h — to which other version a request goes: canary, mirror, fallback.
 *
 * The settings are those of a deployment (struct as_traffic in core/registry/registry.h). They
 * apply among the versions of one model name. These functions need not be called for a model that
 * is not `routed`. Pure. Thread: any.
 *
 * Only requests that name no version may go to a canary or a fallback, because a version is served
 * by one deployment only. A request never goes to a version of another kind (decoupled, streamed
 * inputs), because its client expects an answer in the form of the first version.
 */
#ifndef AS_CORE_TRAFFIC_H
#define AS_CORE_TRAFFIC_H

#include "core/registry/registry.h"

/* A request may fall back to at most this many deployments, one after the other. */
#define AS_TRAFFIC_HOPS 8u

/* The point of a request between 0 and AS_TRAFFIC_ALL - 1; a part p gets the points below p. With
 * an id the point is a hash of id and model, the same in any process, so that a client that sends a
 * request again gets the same version, and a request within 5 % is also within 10 %. Without an id
 * points take turns, so that the requests in a row are spread as evenly as possible; *turn is the
 * caller's counter. */
uint32_t as_traffic_point(struct as_str model, struct as_str id, uint32_t *turn);

/* The canary that gets the request at this point, or NULL: m, the default version, gets it. Of
 * several canaries the lower version has the lower points. serves(arg, model) tells whether a model
 * has a replica now; a canary that has none gets no requests. */
const struct as_model *as_traffic_canary(const struct as_registry *g, const struct as_model *m,
                                         uint32_t point,
                                         bool (*serves)(void *arg, const struct as_model *m),
                                         void *arg);

/* The next version of another deployment that gets a copy of a request to m at this point: the
 * first after `after` (NULL: the first of all); NULL: none. */
const struct as_model *as_traffic_mirror(const struct as_registry *g, const struct as_model *m,
                                         uint32_t point, const struct as_model *after);

/* Where a request goes next that was sent to `first`, after n deployments of its chain have refused
 * it, the first one included. NULL: nowhere, because the chain ends, returns to a deployment that
 * has refused it, or has more than AS_TRAFFIC_HOPS links. */
const struct as_model *as_traffic_fallback(const struct as_registry *g,
                                           const struct as_model *first, uint32_t n);

#endif
