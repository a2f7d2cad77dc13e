/* What a deployment says of other versions' requests and of its own (TRAFFIC): each of its workers
 * says it, and the last word counts. One that is being set up is heard when its first model is
 * registered, if it is the first of its deployment, so that a canary is never the default version
 * for a moment; else when it is ready, so that an update that never gets there changes nothing. */
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
}

void as_link_on_traffic(struct as_link *l, const struct as_frame *f)
{
    struct as_frame_traffic t;
    const char *why;

    static_assert(AS_FRAME_SHARE == AS_TRAFFIC_ALL, "specification");
    if (l->state == AS_LINK_HELLO || as_frame_get_traffic(f, &t)) {
        as_link_protocol_error(l, "malformed TRAFFIC, or TRAFFIC before HELLO");
        return;
    }
    if (t.fallback.n && as_registry_check_deployment(t.fallback, &why)) {
        as_link_protocol_error(l, "TRAFFIC with a fallback that no deployment can be called");
        return;
    }
    if (t.fallback.n)
        memcpy(l->fallback, t.fallback.p, t.fallback.n);
    t.fallback.p = l->fallback;
    l->traffic = t;
    if (l->state == AS_LINK_READY)
        apply_traffic(l);
}

void as_link_apply_traffic(struct as_link *l)
{
    if (l->state == AS_LINK_READY || !l->up.deploy->n_models)
        apply_traffic(l);
}

/* An update that is taken back leaves the words of those that stay. */
void as_link_restore_traffic(const struct as_link *gone)
{
    const struct as_link *last = NULL;

    AS_LIST_EACH(n, &gone->up.fleet->upstreams)
    {
        struct as_upstream *u = AS_LIST_ENTRY(n, struct as_upstream, node);
        const struct as_link *l = AS_CONTAINER(u, struct as_link, up);

        if (u->deploy == gone->up.deploy && u->ops == gone->up.ops && l->state == AS_LINK_READY &&
            (!last || l->epoch > last->epoch))
            last = l;
    }
    if (last)
        apply_traffic(last);
}
