#include "link/native/link.h"

#include "base/err.h"
#include "wire/frame/frame_policy.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RX_CAP (256u << 10)

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static struct as_link *link_of_upstream(struct as_upstream *u)
{
    return AS_CONTAINER(u, struct as_link, up);
}

bool as_link_drain_socket(struct as_link *l)
{
    uint64_t all = 0;
    int r;

    if (as_transport_is_open(l->transport))
        all = l->received + l->transport->ops->readable(l->transport);
    do {
        r = as_link_read(l);
    } while (r > 0 && l->received < all);
    return r >= 0;
}

/* --- writing --- */

/* One sendmsg for all frames of a turn. */
static void on_flush(struct as_task *t)
{
    struct as_link *l = AS_CONTAINER(t, struct as_link, flush);
    size_t n = l->out.bytes;
    int err = l->transport->ops->flush(l->transport, &l->out, -1);

    n -= AS_MIN(n, l->out.bytes);
    if (n && l->written < l->ping_end) /* it reads what is in front of the ping, however slowly */
        l->ping_since = as_loop_now(l->up.fleet->loop);
    l->written += n;
    if (l->reply_backlog.before && l->written >= l->reply_backlog.place) {
        l->reply_backlog.before = l->reply_backlog.behind;
        l->reply_backlog.behind = 0;
        l->reply_backlog.place = l->written + l->out.bytes;
    }
    if (l->caller)
        as_caller_charge_output(l);
    if (err)
        as_link_on_broken(l);
}

void as_link_count_reply(struct as_link *l, size_t had)
{
    size_t n = l->out.bytes - AS_MIN(had, l->out.bytes);

    if (l->reply_backlog.before) {
        l->reply_backlog.behind += n;
    } else {
        l->reply_backlog.before = n;
        l->reply_backlog.place = l->written + l->out.bytes;
    }
}

void as_link_schedule_flush(struct as_link *l)
{
    if (as_transport_is_open(l->transport))
        as_loop_defer_first(l->up.fleet->loop, &l->flush);
}

static void on_event(struct as_loop_socket *s, int events)
{
    struct as_link *l = AS_CONTAINER(s, struct as_link, socket);

    if (events & UV_WRITABLE)
        as_loop_defer_first(l->up.fleet->loop, &l->flush);
    if (events & UV_READABLE)
        as_link_read(l);
}

/* --- what core decides: struct as_upstream_ops --- */

static void op_batch(struct as_upstream *u, uint32_t n)
{
    struct as_link *l = link_of_upstream(u);
    struct as_frame_batch b = {.first = l->next_stream, .n = n};

    as_frame_put_batch(&l->out, &b);
    as_link_schedule_flush(l);
}

static void op_send(struct as_upstream *u, struct as_call *c)
{
    struct as_link *l = link_of_upstream(u);
    as_ns now = as_loop_now(l->up.fleet->loop);
    struct as_frame_msg fixed = {
        .kind = AS_FRAME_TENSOR, .priority = c->core.priority, .target = c->core.model};

    if (c->core.deadline != AS_NEVER)
        /* 0 would mean no deadline; a deadline that passes now is left to the worker */
        fixed.timeout = c->core.deadline > now ? c->core.deadline - now : 1;
    as_link_add_call(l, c);
    c->body_received = 0;
    c->rx_msg.body_len = 0;
    c->outcome.dropped = 0;
    fixed.more = c->stream && c->stream->takes_inputs;
    if (c->core.beyond)
        c->payload.call_flags |= AS_CALL_F_BEYOND;
    else
        c->payload.call_flags &= ~AS_CALL_F_BEYOND;
    as_link_put_payload(l, AS_FRAME_OPEN, c->core.stream, &fixed, &c->payload);
    if (c->stream)
        as_link_start_stream(l, c);
    if (l->health.execution_timeout && l->health.next_scan == AS_NEVER)
        as_link_watch_execution(l);
    as_link_schedule_flush(l);
}

static void op_recall(struct as_upstream *u, struct as_request *const *q, uint32_t n)
{
    struct as_link *l = link_of_upstream(u);
    uint64_t ids[AS_FRAME_IDS];

    /* core recalls at most as many requests at once as fit a frame */
    AS_ASSERT(n <= AS_FRAME_IDS);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = q[i]->stream;
    as_frame_put_ids(&l->out, AS_FRAME_RECALL, ids, n);
    as_link_schedule_flush(l);
}

static void op_cancel(struct as_upstream *u, struct as_call *c, int reason)
{
    struct as_link *l = link_of_upstream(u);

    /* the rest of a body that is being received is discarded */
    as_link_discard_answer(l, c);
    as_frame_put_cancel(&l->out, c->core.stream, as_err_grpc(reason));
    as_link_schedule_flush(l);
}

static void op_discard_answer(struct as_upstream *u, struct as_call *c)
{
    as_link_discard_answer(link_of_upstream(u), c);
}

static void op_credit(struct as_upstream *u, struct as_call *c, const struct as_frame_window *w)
{
    as_link_return_credit(link_of_upstream(u), c, w);
}

static void op_input(struct as_upstream *u, struct as_call *c)
{
    as_link_send_input(link_of_upstream(u), c);
}

static void op_input_end(struct as_upstream *u, struct as_call *c)
{
    as_link_send_input_end(link_of_upstream(u), c);
}

static void op_drain(struct as_upstream *u)
{
    struct as_link *l = link_of_upstream(u);

    if (!as_link_is_up(l))
        return;
    as_frame_put_text(&l->out, AS_FRAME_DRAIN, (struct as_str){0});
    as_link_schedule_flush(l);
}

static bool op_hand_over(struct as_upstream *u, uint32_t *foreign)
{
    struct as_link *l = link_of_upstream(u);

    if (l->state == AS_LINK_HELLO || l->state == AS_LINK_OPEN) {
        as_link_end(l, "another dispatcher takes over",
                    AS_LOSS_KILLED); /* the worker connects again, to the other dispatcher */
        return true;
    }
    if (l->state != AS_LINK_READY && l->state != AS_LINK_DRIVER)
        return true; /* the link is about to end anyway */
    *foreign += !l->up.process && !l->is_driver;
    if (!(l->capabilities & AS_CAP_MOVE))
        return false;
    as_frame_put_text(&l->out, AS_FRAME_MOVE, (struct as_str){0});
    as_link_schedule_flush(l);
    return true;
}

static void op_tick(struct as_upstream *u, as_ns now)
{
    struct as_link *l = link_of_upstream(u);
    const struct as_fleet_conf *conf = &l->up.fleet->conf;

    if (!as_link_serves(l) && l->state != AS_LINK_DRIVER)
        return;
    /* one ping at a time; it carries the time at which it was sent */
    if (l->ping_sent) {
        /* if this process was stalled, the answer may be unread in the socket */
        if (now - l->ping_since >= conf->ping_timeout && as_link_drain_socket(l) && l->ping_sent) {
            if (l->state == AS_LINK_DRIVER)
                as_link_end(l, "did not answer a ping", AS_LOSS_LINK);
            else
                as_link_kill_unresponsive(l);
        }
        return;
    }
    /* A first health check is sent early, since only the worker knows. */
    if (!l->health.check_sent && l->state != AS_LINK_DRIVER)
        as_link_check_health_now(l);
    /* a worker that sends all the time is pinged as well: it may not be reading */
    if (now - l->last_ping < conf->ping_interval)
        return;
    l->ping_sent = l->ping_since = l->last_ping = now;
    as_frame_put_ping(&l->out, AS_FRAME_PING, now);
    l->ping_end = l->written + l->out.bytes;
    as_link_schedule_flush(l);
}

static void op_stop(struct as_upstream *u)
{
    as_link_end(link_of_upstream(u), "the dispatcher ends", AS_LOSS_KILLED);
}

static void op_on_death(struct as_upstream *u)
{
    as_link_on_death(link_of_upstream(u));
}

static bool op_is_up(struct as_upstream *u)
{
    return as_link_is_up(link_of_upstream(u));
}

static void op_update_rotation(struct as_upstream *u)
{
    as_link_update_rotation(link_of_upstream(u));
}

static void op_policy(struct as_upstream *u, struct as_str records)
{
    struct as_link *l = link_of_upstream(u);

    as_frame_put_policy(&l->out, records);
    as_link_schedule_flush(l);
}

static int op_control(struct as_upstream *u, uint64_t id, enum as_control_op op, struct as_str text,
                      const char **ret_why)
{
    return as_link_send_control(link_of_upstream(u), id, op, text, ret_why);
}

static void op_fill_status(struct as_upstream *u, struct as_fleet_replica *ret_r)
{
    const struct as_link *l = link_of_upstream(u);

    ret_r->state = as_str_of(as_link_state_text(l));
    ret_r->pid = l->pid;
    ret_r->epoch = l->epoch;
    if (l->page)
        ret_r->worker = as_page_stat_of(l->page);
    for (uint32_t kind = 1; kind < AS_REPORT_END; kind++)
        ret_r->reports[kind] = as_buf_slice(&l->reports[kind]);
    ret_r->calls = as_caller_open_calls(l);
}

static bool op_fill_driver(struct as_upstream *u, struct as_fleet_driver *ret_d)
{
    const struct as_link *l = link_of_upstream(u);

    if (!l->is_driver)
        return false;
    *ret_d = (struct as_fleet_driver){.name = as_str_of(l->up.name),
                                      .peer = as_str_of(l->peer),
                                      .pid = l->pid,
                                      .calls = as_caller_open_calls(l),
                                      .epoch = l->epoch};
    return true;
}

static const struct as_upstream_ops ops = {
    .kind = "native",
    .batch = op_batch,
    .send = op_send,
    .recall = op_recall,
    .cancel = op_cancel,
    .discard_answer = op_discard_answer,
    .credit = op_credit,
    .input = op_input,
    .input_end = op_input_end,
    .drain = op_drain,
    .hand_over = op_hand_over,
    .tick = op_tick,
    .stop = op_stop,
    .on_death = op_on_death,
    .is_up = op_is_up,
    .update_rotation = op_update_rotation,
    .policy = op_policy,
    .control = op_control,
    .fill_status = op_fill_status,
    .fill_driver = op_fill_driver,
};

/* --- accepting --- */

/* Asks the kernel who is at the other end. *ret_pid: also of one who is refused; 0: not known. */
static int identify_peer(struct as_link *l, int fd, uint32_t *ret_pid)
{
    struct ucred cred;
    socklen_t n = sizeof(cred);
    int pidfd = -1;
    socklen_t m = sizeof(pidfd);

    *ret_pid = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
        return AS_EDENIED;
    *ret_pid = (uint32_t)cred.pid;
    if (cred.uid != geteuid())
        return AS_EDENIED;
    l->pid = (uint32_t)cred.pid;
    /* from the socket if the kernel can (6.5): the pid may be another process's by now */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &m) < 0)
        pidfd = cred.pid > 0 ? (int)syscall(SYS_pidfd_open, cred.pid, 0) : -1;
    if (pidfd >= 0)
        (void)as_sock_open(&l->pid_sock, l->up.fleet->loop, pidfd, as_link_on_pid);
    return 0;
}

/* The link adds itself to the fleet, and frees itself. */
static void accept_link(struct as_fleet *f, int fd)
{
    struct as_link *l = calloc(1, sizeof(*l));
    uint8_t *rx = aligned_alloc(AS_FRAME_ALIGN, RX_CAP);
    uint32_t peer;

    if (!l || !rx) { /* the worker connects again */
        as_log_event(f->log, AS_LOG_WARN, "worker_refused", "reason=\"out of memory\"");
        close(fd);
        free(rx);
        free(l);
        return;
    }
    l->up.ops = &ops;
    l->up.fleet = f;
    l->next_stream = 1;
    l->rx.fd = -1;
    l->rx.reader.cap = RX_CAP;
    l->rx.reader.p = rx;
    as_outq_init(&l->out);
    as_arena_init(&l->scratch, l->scratch_first, sizeof(l->scratch_first));
    as_task_init(&l->flush, on_flush);
    as_timer_init(&l->timer, f->loop, as_link_on_timer);
    as_link_health_init(l);
    as_list_push(&f->upstreams, &l->up.node);
    l->pid_sock.closing = true; /* there is nothing to close until it is open */
    l->transport = &l->socket.transport;
    if (as_loop_socket_open(&l->socket, f->loop, fd, on_event, as_link_on_socket_closed)) {
        as_link_end(l, "cannot watch its socket", AS_LOSS_KILLED);
        return;
    }
    if (identify_peer(l, fd, &peer)) {
        as_fleet_refuse_payload(f, AS_FLEET_REFUSED_USER, "", peer);
        as_link_end(l, "a process of another user", AS_LOSS_KILLED);
        return;
    }
    as_timer_set(&l->timer, as_loop_now(f->loop) + f->conf.handshake_timeout);
}

const struct as_upstream_kind as_upstream_native = {
    .accept = accept_link,
    .fini = as_link_flush_end_reports,
};
