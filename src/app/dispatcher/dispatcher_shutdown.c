/* The shutdown: drain, then stop every lane, then the links, then the loops. */
#include "app/dispatcher/dispatcher_internal.h"

#include <fcntl.h>
#include <unistd.h>

/* How long clients may receive error answers after --drain-timeout. The supervisor kills this
 * process DRAIN_MARGIN (2 s, ctl/supervise/supervisor.c) after --drain-timeout. */
#define ABORT_TIME AS_SEC

void as_client_lane_post(struct as_client_lane *to, struct as_letter *letter,
                         void (*open)(struct as_letter *, void *))
{
    letter->open = open;
    as_mbox_post(as_edge_mailbox(to->edge), letter);
}

/* The last letter to a lane. */
static void open_halt(struct as_letter *letter, void *to AS_UNUSED)
{
    as_loop_stop(AS_CONTAINER(letter, struct as_client_lane, stop)->loop);
}

/* On the loop of lane 0, once for each lane. */
static void open_stopped(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_dispatcher *d = AS_CONTAINER(letter, struct as_client_lane, stopped)->d;

    if (++d->n_stopped < d->n_lanes)
        return;
    /* no connection is left: the fleet releases what workers still hold before the loops halt */
    as_fleet_stop(d->fleet);
    for (uint32_t i = 0; i < d->n_lanes; i++)
        as_client_lane_post(&d->lanes[i], &d->lanes[i].stop, open_halt);
}

/* On the lane's own loop: closes its connections; calls in flight are cancelled at the fleet. */
static void open_stop(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_client_lane *l = AS_CONTAINER(letter, struct as_client_lane, stop);

    as_edge_stop(l->edge);
    if (l == l->d->lanes)
        as_edge_stop(l->d->management);
    as_client_lane_post(&l->d->lanes[0], &l->stopped, open_stopped);
}

/* Stops all lanes. Letters of a drain that has run out of time may still be under way; they do
 * nothing then. */
static void stop_lanes(struct as_dispatcher *d, int exit_code)
{
    if (d->phase == AS_DISPATCHER_STOPPING)
        return;
    d->phase = AS_DISPATCHER_STOPPING;
    d->exit_code = exit_code;
    /* it must not fire during the teardown */
    as_timer_set(&d->end_timer, AS_NEVER);
    for (uint32_t i = 0; i < d->n_lanes; i++)
        as_client_lane_post(&d->lanes[i], &d->lanes[i].stop, open_stop);
}

/* No client is left, and nobody waits for a call. */
static void end_drain(struct as_dispatcher *d)
{
    if (!d->yielding) /* else the workers serve another dispatcher */
        as_fleet_drain(d->fleet);
    as_dispatcher_send_text(d, AS_CTL_DRAINED, AS_STR(""), AS_STR(""), AS_STR(""));
    as_log_event(&d->log, AS_LOG_INFO, "drained", "unanswered=%u", as_fleet_unanswered(d->fleet));
    stop_lanes(d, 0);
}

void as_dispatcher_on_calls_done(void *ctx)
{
    struct as_dispatcher *d = ctx;

    if (d->phase == AS_DISPATCHER_DRAINING)
        end_drain(d);
}

static void open_drained(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_dispatcher *d = AS_CONTAINER(letter, struct as_client_lane, drained)->d;

    /* a lane may report its drain after the stop has begun */
    if (d->phase == AS_DISPATCHER_STOPPING || ++d->n_drained < d->n_lanes)
        return;
    if (d->phase == AS_DISPATCHER_ABORTING) {
        stop_lanes(d, 0);
        return;
    }
    as_fleet_await_calls(d->fleet); /* until --drain-timeout */
}

/* On the lane's loop, when all of its connections are closed. */
static void lane_drained(void *arg)
{
    struct as_client_lane *l = arg;

    as_client_lane_post(&l->d->lanes[0], &l->drained, open_drained);
}

static void open_drain(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_client_lane *l = AS_CONTAINER(letter, struct as_client_lane, drain);

    as_edge_drain(l->edge, l->handover_out, lane_drained, l);
    l->handover_out = -1;
}

/* Gives each lane a duplicate, like the listeners; the other side notices when the last one is
 * closed.
 */
static void share_handover_out(struct as_dispatcher *d)
{
    if (d->handover_out < 0)
        return;
    for (uint32_t i = 0; i < d->n_lanes; i++)
        d->lanes[i].handover_out = fcntl(d->handover_out, F_DUPFD_CLOEXEC, 0);
    as_dispatcher_replace_fd(&d->handover_out, -1);
}

void as_dispatcher_close_listeners(struct as_dispatcher *d)
{
    for (uint32_t k = 0; k < d->fds->n_grpc; k++)
        close(d->fds->grpc[k]);
    for (uint32_t k = 0; k < d->fds->n_grpc_tls; k++)
        close(d->fds->grpc_tls[k]);
    d->listeners_closed = true;
}

static void open_leave(struct as_letter *letter, void *to AS_UNUSED)
{
    as_edge_announce_shutdown(AS_CONTAINER(letter, struct as_client_lane, announce_end)->edge);
}

void as_dispatcher_shutdown(struct as_dispatcher *d)
{
    as_ns delay = as_option_ns(d->opts, AS_OPT_SHUTDOWN_DELAY);

    if (d->phase != AS_DISPATCHER_SERVING)
        return;
    if (!delay || !d->clients_admitted) { /* no client could see the change of readiness */
        as_dispatcher_drain(d);
        return;
    }
    d->phase = AS_DISPATCHER_SHUTDOWN_DELAY;
    d->status_page.draining = true;
    as_log_event(&d->log, AS_LOG_INFO, "leaving", "delay_ms=%llu",
                 (unsigned long long)(delay / AS_MS));
    as_timer_set(&d->end_timer, as_loop_now(d->lanes[0].loop) + delay);
    for (uint32_t i = 0; i < d->n_lanes; i++)
        as_client_lane_post(&d->lanes[i], &d->lanes[i].announce_end, open_leave);
    as_edge_announce_shutdown(d->management);
}

void as_dispatcher_drain(struct as_dispatcher *d)
{
    struct as_loop *loop = d->lanes[0].loop;

    if (d->phase != AS_DISPATCHER_SERVING && d->phase != AS_DISPATCHER_SHUTDOWN_DELAY)
        return;
    d->phase = AS_DISPATCHER_DRAINING;
    if (!d->listeners_closed)
        as_dispatcher_close_listeners(d); /* no client was admitted yet */
    d->status_page.draining = true;
    as_log_event(&d->log, AS_LOG_INFO, "draining", "unanswered=%u", as_fleet_unanswered(d->fleet));
    as_timer_set(&d->end_timer, as_loop_now(loop) + as_option_ns(d->opts, AS_OPT_DRAIN_TIMEOUT));
    as_dispatcher_replace_fd(&d->handover_in, -1);
    share_handover_out(d);
    for (uint32_t i = 0; i < d->n_lanes; i++)
        as_client_lane_post(&d->lanes[i], &d->lanes[i].drain, open_drain);
    if (!d->yielding) /* else callers connect to the other dispatcher as well */
        as_fleet_refuse_callers(d->fleet);
    if (d->yielding)
        as_simple_start_handover(d->fleet, as_dispatcher_send_fewer, d);
    else
        as_edge_announce_shutdown(d->management);
}

static void open_give_up(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_client_lane *l = AS_CONTAINER(letter, struct as_client_lane, cancel_unanswered);

    as_edge_drain_expired(l->edge);
}

/* After --drain-timeout: open requests get an error, which clients have ABORT_TIME to receive. */
static void cancel_unanswered(struct as_dispatcher *d)
{
    d->phase = AS_DISPATCHER_ABORTING;
    as_log_event(&d->log, AS_LOG_WARN, "drain_timeout", "unanswered=%u",
                 as_fleet_unanswered(d->fleet));
    as_timer_set(&d->end_timer, as_loop_now(d->lanes[0].loop) + ABORT_TIME);
    as_fleet_abort(d->fleet);
    /* in each lane's mailbox this letter follows the fleet's answers */
    for (uint32_t i = 0; i < d->n_lanes; i++)
        as_client_lane_post(&d->lanes[i], &d->lanes[i].cancel_unanswered, open_give_up);
}

void as_dispatcher_on_end_timer(struct as_timer *t)
{
    struct as_dispatcher *d = AS_CONTAINER(t, struct as_dispatcher, end_timer);

    if (d->phase == AS_DISPATCHER_SHUTDOWN_DELAY)
        as_dispatcher_drain(d);
    else if (d->phase == AS_DISPATCHER_DRAINING)
        cancel_unanswered(d);
    else
        stop_lanes(d, 0);
}
