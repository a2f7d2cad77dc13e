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

void as_fleet_refuse_callers(struct as_fleet *f)
{
    f->refuses_callers = true;
}

static bool are_calls_done(const struct as_fleet *f)
{
    return f->ends_with_calls && !f->awaited_calls && !(f->hands_over && f->drivers_here);
}

void as_fleet_check_calls_done(struct as_fleet *f)
{
    if (are_calls_done(f))
        as_loop_defer_next_turn(f->loop, &f->calls_done);
}

void as_fleet_await_calls(struct as_fleet *f)
{
    f->ends_with_calls = true;
    as_fleet_check_calls_done(f);
}

void as_fleet_note_driver_moved(struct as_fleet *f)
{
    f->drivers_here--;
    as_fleet_check_calls_done(f);
}

void as_fleet_report_calls_done(struct as_task *t)
{
    struct as_fleet *f = AS_CONTAINER(t, struct as_fleet, calls_done);

    if (!are_calls_done(f)) /* a request that executes has made another */
        return;
    f->ends_with_calls = false;
    if (f->ops.on_calls_done)
        f->ops.on_calls_done(f->ctx);
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
