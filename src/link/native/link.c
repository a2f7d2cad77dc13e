#include "link/native/link.h"

#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
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

/* --- the end --- */

/* `closing` counts the handles, letters and tasks that still refer to the link. The last of them
 * frees it. */
static void maybe_free(struct as_link *l)
{
    if (--l->closing || l->state != AS_LINK_ENDED) /* a lost link has closed its socket, and waits
                                                      for the death of its process */
        return;
    as_outq_fini(&l->out);
    free(l->rx.reader.p);
    as_arena_fini(&l->scratch);
    free(l->calls);
    free(l->up.name);
    free(l->kill_reason);
    free(l);
}

static void on_socket_closed(struct as_loop_socket *s)
{
    maybe_free(AS_CONTAINER(s, struct as_link, socket));
}

static void on_pid_closed(struct as_sock *s)
{
    maybe_free(AS_CONTAINER(s, struct as_link, pid_sock));
}

static void on_timer_closed(struct as_timer *t)
{
    maybe_free(AS_CONTAINER(t, struct as_link, timer));
}

static void on_health_closed(struct as_timer *t)
{
    maybe_free(AS_CONTAINER(t, struct as_link, health.timer));
}

static void close_socket(struct as_link *l)
{
    if (as_transport_is_open(l->transport)) {
        l->closing++;
        as_task_cancel(&l->flush);
        l->transport->ops->close(l->transport);
    }
}

/* The death watch lets go of the page. */
static void unwatch(struct as_link *l)
{
    if (as_death_watch_remove(l->up.fleet->death_watch, &l->page->lock))
        l->closing++; /* its letter is still under way */
    l->life = AS_LINK_UNWATCHED;
}

static void close_handles(struct as_link *l)
{
    l->closing += 2; /* the two timers, which also keep l until all closes have been requested */
    close_socket(l);
    if (!l->pid_sock.closing) {
        l->closing++;
        as_sock_close(&l->pid_sock, on_pid_closed);
    }
    if (l->life == AS_LINK_WATCHED)
        unwatch(l);
    if (l->page)
        munmap((void *)(uintptr_t)l->page, AS_PAGE_SIZE);
    if (l->rx.fd >= 0)
        close(l->rx.fd);
    as_timer_close(&l->health.timer, on_health_closed);
    as_timer_close(&l->timer, on_timer_closed);
}

/* Why the process is dead. For our process the supervisor says why, now or later; a worker that
 * said GOODBYE was not killed by a request. */
static enum as_loss death_cause(const struct as_link *l)
{
    if (l->kill_reason)
        return AS_LOSS_UNHEALTHY;
    if (l->state == AS_LINK_LEAVING)
        return AS_LOSS_KILLED;
    if (!l->process)
        return AS_LOSS_UNKNOWN;
    return l->process->loss;
}

/* Logs the end of a link, and reports it to the owner of the fleet. */
static void report_end(const struct as_link *l, const struct as_link_end_report *e)
{
    struct as_fleet *f = l->up.fleet;
    struct as_str name = as_str_of(l->up.name ? l->up.name : "?"), token = as_str_of(e->token);
    char quoted[256];
    enum as_log_level level = e->warns ? AS_LOG_WARN : AS_LOG_INFO;

    if (!l->up.name)
        as_unknown_peer_log(&f->unknown_peer, f->log, level, l->pid, e->reason,
                            as_loop_now(f->loop));
    else
        as_log_event(f->log, level, "worker_gone", "replica=%.*s pid=%u unanswered=%u reason=%s",
                     AS_STR_FMT(name), l->pid, e->calls,
                     as_log_quote(quoted, sizeof(quoted), as_str_of(e->reason)));
    if (e->served)
        f->ops.on_gone(f->ctx, name, token, as_str_of(e->reason));
    if (e->retires)
        f->ops.on_retired(f->ctx, name, token);
}

static void on_end_report(struct as_task *t)
{
    struct as_link *l = AS_CONTAINER(t, struct as_link, end_report.task);

    as_list_remove(&l->end_report.node);
    report_end(l, &l->end_report);
    free(l->end_report.reason);
    free(l->end_report.token);
    maybe_free(l);
}

void as_link_flush_end_reports(struct as_fleet *f)
{
    AS_LIST_EACH(n, &f->end_reports)
    {
        struct as_link *l = AS_LIST_ENTRY(n, struct as_link, end_report.node);

        as_task_cancel(&l->end_report.task);
        on_end_report(&l->end_report.task);
    }
}

/* Clients get their answers first: logging or reporting a death would wake other processes, which
 * may take the CPU before the answers are written. This task runs behind those that write them. */
static void report_end_later(struct as_link *l, const struct as_link_end_report *e)
{
    l->end_report = *e;
    l->end_report.reason = as_str_dup(as_str_of(e->reason));
    l->end_report.token = as_str_dup(as_str_of(e->token));
    as_list_push(&l->up.fleet->end_reports, &l->end_report.node);
    as_task_init(&l->end_report.task, on_end_report);
    as_loop_defer(l->up.fleet->loop, &l->end_report.task);
    l->closing++;
}

void as_link_end(struct as_link *l, const char *reason, enum as_loss loss)
{
    struct as_fleet *f = l->up.fleet;
    bool condemned = l->state == AS_LINK_CONDEMNED;
    uint64_t last = UINT64_MAX;
    struct as_str token = as_str_of(l->process ? l->process->token : "");
    struct as_link_end_report e = {.reason = (char *)(uintptr_t)reason,
                                   .token = (char *)(uintptr_t)token.p,
                                   .calls = l->n_calls,
                                   .warns = l->state != AS_LINK_LEAVING && !f->draining,
                                   .served = l->up.replica != NULL,
                                   /* else it was reported already */
                                   .retires = l->up.replica && l->up.retiring && l->n_calls};

    /* The page is read once: nobody writes to it any more when the process is dead. With
     * AS_LOSS_LINK the worker may live, or lie, so any request may have run. */
    if (loss != AS_LOSS_LINK && l->page)
        last = __atomic_load_n(&l->page->last_started, __ATOMIC_ACQUIRE);
    /* before core is told: its answers may call this link again */
    as_link_move(l, AS_LINK_ENDED);
    as_list_remove(&l->up.node);
    if (l->process && l->process->link == l)
        l->process->link = NULL;
    if (l->up.replica)
        as_link_restore_traffic(l);
    as_link_discard_answers(l);
    as_link_fail_control(l, reason);
    if (condemned && l->process) /* it has closed the link before the kill */
        f->ops.on_kill(f->ctx, as_str_of(l->up.name), token, as_str_of(l->kill_reason));
    if (l->up.replica) {
        /* core answers all requests of this link, or queues them again */
        uint64_t verdict_id = as_replica_free(l->up.replica, last, loss, as_loop_now(f->loop));

        if (verdict_id && l->process) {
            l->process->verdict_id = verdict_id;
            l->process->number = l->up.deploy->number;
        }
        as_fleet_update_ready(l->up.deploy);
    }
    if (l->life == AS_LINK_DEAD)
        report_end_later(l, &e);
    else
        report_end(l, &e);
    if (l->up.deploy)
        as_fleet_remove_upstream(l->up.deploy, as_loop_now(f->loop));
    l->process = NULL; /* it may be freed before the link */
    close_handles(l);
}

void as_link_protocol_error(struct as_link *l, const char *why)
{
    struct as_fleet *f = l->up.fleet;

    /* Only our own processes are killed; another worker just loses its link. */
    if (l->process) {
        l->process->kill_cause = AS_FLEET_EXIT_PROTOCOL;
        f->ops.on_kill(f->ctx, as_str_of(l->up.name), as_str_of(l->process->token), as_str_of(why));
    }
    as_link_end(l, why, AS_LOSS_LINK);
}

void as_link_on_broken(struct as_link *l)
{
    /* without open requests, or if the death is known, there is nothing to wait for */
    if (!l->up.replica || !l->n_calls || l->state == AS_LINK_LEAVING || l->life == AS_LINK_DEAD ||
        l->pid_sock.closing) {
        as_link_end(l,
                    l->kill_reason                ? l->kill_reason
                    : l->state == AS_LINK_LEAVING ? "said goodbye"
                    : l->life == AS_LINK_DEAD     ? "process died"
                                                  : "link closed",
                    death_cause(l));
        return;
    }
    /* Whether its requests may be repeated is only known when the process is dead: then the page is
     * final. A live process could still be running them. */
    close_socket(l);
    if (as_link_serves(l)) /* else it is to be killed, and the timer of that runs */
        as_link_move(l, AS_LINK_LOST);
}

static void on_timer(struct as_timer *t)
{
    struct as_link *l = AS_CONTAINER(t, struct as_link, timer);

    if (l->state == AS_LINK_CONDEMNED)
        as_link_request_kill(l);
    else if (l->state == AS_LINK_KILLED)
        as_link_end(l, l->kill_reason, AS_LOSS_LINK);
    else if (l->state == AS_LINK_LOST)
        as_link_protocol_error(l, "closed its link with open requests, and its process lives on");
    else
        as_link_protocol_error(l, "did not register in time");
}

/* The answers that it wrote before it died still count. A forked child may keep the socket open, so
 * the link is ended here. */
void as_link_on_death(struct as_link *l)
{
    if (l->life == AS_LINK_WATCHED)
        unwatch(l);
    l->life = AS_LINK_DEAD; /* so that the end of the socket, if it is read below, ends the link */
    if (!as_transport_is_open(l->transport) || as_link_drain_socket(l))
        as_link_end(l, l->kill_reason ? l->kill_reason : "process died", death_cause(l));
}

static void on_pid(struct as_sock *s, int events AS_UNUSED)
{
    /* a pidfd stays readable: stop polling it */
    as_sock_watch(s, 0);
    as_link_on_death(AS_CONTAINER(s, struct as_link, pid_sock));
}

static void on_death_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_link *l = AS_CONTAINER(letter, struct as_link, death_letter);

    if (l->state == AS_LINK_ENDED) {
        maybe_free(l);
        return;
    }
    l->life = AS_LINK_UNWATCHED; /* the watch has posted its letter, and let go of the page */
    as_link_on_death(l);
}

void as_link_watch_death(struct as_link *l)
{
    l->death_letter.open = on_death_letter;
    if (l->up.fleet->death_watch && l->up.fleet->box &&
        as_death_watch_add(l->up.fleet->death_watch, &l->page->lock, l->up.fleet->box,
                           &l->death_letter))
        l->life = AS_LINK_WATCHED;
}

/* The kernel keeps what was written before a death. Another process may have the socket too and go
 * on writing: that is not read. */
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
    int err;

    if (c->core.deadline != AS_NEVER)
        /* 0 would mean no deadline; a deadline that passes now is left to the worker */
        fixed.timeout = c->core.deadline > now ? c->core.deadline - now : 1;
    as_link_add_call(l, c);
    c->body_received = 0;
    c->rx_msg.body_len = 0;
    c->outcome.dropped = 0;
    fixed.more = c->stream && c->stream->takes_inputs;
    if (l->capabilities & AS_CAP_TENSOR_PARAMS)
        fixed.tensor_params = c->payload.tensor_params;
    err = as_frame_put_msg(&l->out, AS_FRAME_OPEN, c->core.stream, &fixed, &c->payload.msg,
                           c->payload.blob);
    AS_ASSERT(!err); /* the submitter has checked that it fits a frame */
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
    if (l->state != AS_LINK_READY)
        return true; /* the link is about to end anyway */
    *foreign += !l->process;
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

    if (!as_link_serves(l))
        return;
    /* one ping at a time; it carries the time at which it was sent */
    if (l->ping_sent) {
        /* if this process was stalled, the answer may be unread in the socket */
        if (now - l->ping_since >= conf->ping_timeout && as_link_drain_socket(l) && l->ping_sent)
            as_link_kill_unresponsive(l);
        return;
    }
    /* A first health check is sent early, since only the worker knows. */
    if (!l->health.check_sent)
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

static void op_fill_status(struct as_upstream *u, struct as_fleet_replica *ret_r)
{
    const struct as_link *l = link_of_upstream(u);

    ret_r->state = as_str_of(as_link_state_text(l));
    ret_r->pid = l->pid;
    ret_r->epoch = l->epoch;
    if (l->page)
        ret_r->worker = as_page_stat_of(l->page);
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
    .fill_status = op_fill_status,
};

/* --- accepting --- */

/* Asks the kernel who is at the other end. */
static int identify_peer(struct as_link *l, int fd)
{
    struct ucred cred;
    socklen_t n = sizeof(cred);
    int pidfd = -1;
    socklen_t m = sizeof(pidfd);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0 || cred.uid != geteuid())
        return AS_EDENIED;
    l->pid = (uint32_t)cred.pid;
    /* from the socket if the kernel can (6.5): the pid may be another process's by now */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &m) < 0)
        pidfd = cred.pid > 0 ? (int)syscall(SYS_pidfd_open, cred.pid, 0) : -1;
    if (pidfd >= 0)
        (void)as_sock_open(&l->pid_sock, l->up.fleet->loop, pidfd, on_pid);
    return 0;
}

void as_link_accept(struct as_fleet *f, int fd)
{
    struct as_link *l = calloc(1, sizeof(*l));
    uint8_t *rx = aligned_alloc(AS_FRAME_ALIGN, RX_CAP);

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
    as_timer_init(&l->timer, f->loop, on_timer);
    as_link_health_init(l);
    as_list_push(&f->upstreams, &l->up.node);
    l->pid_sock.closing = true; /* there is nothing to close until it is open */
    l->transport = &l->socket.transport;
    if (as_loop_socket_open(&l->socket, f->loop, fd, on_event, on_socket_closed)) {
        as_link_end(l, "cannot watch its socket", AS_LOSS_KILLED);
        return;
    }
    if (identify_peer(l, fd)) {
        as_link_end(l, "a process of another user", AS_LOSS_KILLED);
        return;
    }
    as_timer_set(&l->timer, as_loop_now(f->loop) + f->conf.handshake_timeout);
}
