/* The heartbeat: tells the supervisor that the loops of all lanes turn. */
#include "app/dispatcher/dispatcher_internal.h"
#include "core/replicas/heartbeat.h"

static void open_turned(struct as_letter *letter, void *to AS_UNUSED)
{
    AS_CONTAINER(letter, struct as_client_lane, turned)->d->n_lanes_pending--;
}

static void open_turn(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_client_lane *l = AS_CONTAINER(letter, struct as_client_lane, turn);

    as_client_lane_post(&l->d->lanes[0], &l->turned, open_turned);
}

static void send_heartbeat(struct as_dispatcher *d)
{
    if (!as_outbox_has_pending(&d->outbox) && as_ctl_unread(d->control.fd) <= AS_CTL_UNREAD_MAX)
        as_dispatcher_send(d, &(struct as_ctl_message){.type = AS_CTL_SERVING, .number = 1});
}

/* If all lanes have turned since the last letter, sends a heartbeat and posts the next letter. */
static void on_beat(struct as_timer *t)
{
    struct as_dispatcher *d = AS_CONTAINER(t, struct as_dispatcher, heartbeat);

    if (d->phase == AS_DISPATCHER_STOPPING)
        return; /* a letter that is posted now might not be opened any more */
    as_timer_set(t, as_loop_now(d->lanes[0].loop) +
                        as_heartbeat_interval(as_option_ns(d->opts, AS_OPT_HEARTBEAT_TIMEOUT)));
    if (d->n_lanes_pending)
        return;
    send_heartbeat(d);
    d->n_lanes_pending = d->n_lanes - 1;
    for (uint32_t i = 1; i < d->n_lanes; i++)
        as_client_lane_post(&d->lanes[i], &d->lanes[i].turn, open_turn);
}

void as_dispatcher_start_heartbeat(struct as_dispatcher *d)
{
    as_timer_init(&d->heartbeat, d->lanes[0].loop, on_beat);
    /* the first heartbeat is sent at once: without one the supervisor would not notice a hang that
     * begins now */
    if (as_option_ns(d->opts, AS_OPT_HEARTBEAT_TIMEOUT))
        on_beat(&d->heartbeat);
}
