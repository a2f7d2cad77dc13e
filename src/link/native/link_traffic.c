/* TRAFFIC, ROUTER and SERVICES frames: what a deployment declares about canary, mirror and
 * fallback, how its replicas are chosen, and the gRPC services of the user that it serves.
 *
 * Each of its workers declares it, and the last declaration counts. The first worker of a
 * deployment is heard when it registers its first model, so that a canary is never the default
 * version, not even for a moment. A worker of an update is heard when it is READY, so that an
 * update that fails changes nothing.
 */
#include "base/err.h"
#include "link/native/link.h"

#include <string.h>

static void apply_traffic(const struct as_link *l)
{
    const struct as_frame_traffic *t = &l->traffic;

    as_fleet_set_traffic(l->up.deploy, &(struct as_traffic){.is_canary = t->flags & AS_FRAME_CANARY,
                                                            .canary = t->canary,
                                                            .mirror = t->mirror,
                                                            .fallback = t->fallback});
    if (l->has_router)
        as_fleet_set_router(l->up.deploy, &l->router);
    as_fleet_set_services(l->up.deploy, l->services);
}

void as_link_on_traffic(struct as_link *l, const struct as_frame *f)
{
    struct as_frame_traffic t;
    const char *why;
    struct as_id id;

    static_assert(AS_FRAME_SHARE == AS_TRAFFIC_ALL, "specification");
    if (l->state == AS_LINK_HELLO || as_frame_get_traffic(f, &t)) {
        as_link_protocol_error(l, "malformed TRAFFIC, or TRAFFIC before HELLO");
        return;
    }
    if (t.fallback.n &&
        as_registry_check_deployment(as_id_resolve(&id, AS_STR(AS_ID_DEFAULT), t.fallback), &why)) {
        as_link_protocol_error(l, "TRAFFIC with a fallback that is no valid deployment name");
        return;
    }
    if (t.fallback.n)
        memcpy(l->fallback, t.fallback.p, t.fallback.n);
    t.fallback.p = l->fallback;
    l->traffic = t;
    if (as_link_is_up(l))
        apply_traffic(l);
}

void as_link_on_router(struct as_link *l, const struct as_frame *f)
{
    if (l->state == AS_LINK_HELLO || as_frame_get_router(f, &l->router)) {
        as_link_protocol_error(l, "malformed ROUTER, or ROUTER before HELLO");
        return;
    }
    l->has_router = true;
    if (as_link_is_up(l))
        apply_traffic(l);
}

void as_link_on_services(struct as_link *l, const struct as_frame *f)
{
    struct as_service_set *set;
    const char *why;

    if (l->state == AS_LINK_HELLO || !l->up.process) {
        as_link_protocol_error(l, "SERVICES before HELLO, or with the join token");
        return;
    }
    if (as_fleet_read_services(f, &set, &why)) {
        as_link_protocol_error(l, *why ? why : "out of memory");
        return;
    }
    as_service_set_unref(l->services);
    l->services = set;
    if (as_link_is_up(l))
        apply_traffic(l);
}

void as_link_apply_traffic(struct as_link *l)
{
    if (as_link_is_up(l) || !l->up.deploy->n_models)
        apply_traffic(l);
}

/* After an update that was taken back, the newest declaration of the remaining workers counts. */
void as_link_restore_traffic(const struct as_link *gone)
{
    const struct as_link *last = NULL;

    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &gone->up.fleet->upstreams) {
        const struct as_link *l = AS_CONTAINER(u, struct as_link, up);

        if (u->deploy == gone->up.deploy && u->ops == gone->up.ops && as_link_is_up(l) &&
            (!last || l->epoch > last->epoch))
            last = l;
    }
    if (last)
        apply_traffic(last);
}
