/* How the fleet ends: drained, stopped, or aborted. */
#include "link/fleet/upstream.h"

void as_fleet_drain(struct as_fleet *f)
{
    /* from now on new requests are refused; queued ones are still sent */
    f->draining = true;
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        u->ops->drain(u);
    }
}

void as_fleet_stop(struct as_fleet *f)
{
    f->draining = true;
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        u->ops->stop(u);
    }
}

void as_fleet_abort(struct as_fleet *f)
{
    /* first, since the answers below depend on it */
    as_fleet_set_flag(&f->aborted, true);
    as_fleet_close_listener(f);
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        struct as_fleet_deployment *d = f->deploys[i];

        as_fleet_set_flag(&d->down, true);
        if (d->core)
            as_deployment_abort(d->core);
    }
    as_fleet_stop(f);
}

bool as_fleet_is_aborted(const struct as_fleet *f)
{
    return as_fleet_flag(&f->aborted);
}
