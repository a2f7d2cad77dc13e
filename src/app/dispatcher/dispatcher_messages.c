/* Messages between the supervisor and the dispatcher. */
#include "app/dispatcher/dispatcher_internal.h"
#include "app/dispatcher/exposure.h"
#include "ctl/message/replica_facts.h"
#include "io/process/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void watch_control(struct as_dispatcher *d)
{
    as_sock_watch(&d->control, UV_READABLE | (as_outbox_has_pending(&d->outbox) ? UV_WRITABLE : 0));
}

void as_dispatcher_send(struct as_dispatcher *d, const struct as_ctl_message *m)
{
    int err;

    if (d->control.closing || !d->control.events)
        return; /* the supervisor has ended: the end of the socket was read */
    err = as_outbox_send(&d->outbox, d->control.fd, m);
    if (err == AS_EFULL && !d->outbox_full)
        as_log_event(
            &d->log, AS_LOG_ERROR, "supervisor_hangs",
            "lost=%s waiting_bytes=%zu action=\"serving continues; later messages are lost, too\"",
            as_ctl_type_name(m->type), d->outbox.wait.n);
    d->outbox_full = err == AS_EFULL;
    watch_control(d);
}

void as_dispatcher_send_text(struct as_dispatcher *d, enum as_ctl_type type, struct as_str replica,
                             struct as_str token, struct as_str text)
{
    as_dispatcher_send(d, &(struct as_ctl_message){
                              .type = type, .replica = replica, .token = token, .text = text});
}

/* --- admitting clients and workers --- */

/* A lane without listeners would serve no client: the process ends, so that a new one may succeed.
 */
static void listen_on(const struct as_client_lane *l, const int *fds, uint32_t n, bool tls)
{
    for (uint32_t k = 0; k < n; k++) {
        if (fds[k] < 0 || as_edge_listen(l->edge, fds[k], tls))
            as_fatal_system("a listener for clients", errno);
        close(fds[k]);
    }
}

static void duplicate(const int *fds, uint32_t n, int *ret_fds)
{
    for (uint32_t k = 0; k < n; k++)
        ret_fds[k] = fcntl(fds[k], F_DUPFD_CLOEXEC, 0);
}

static void open_listen(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_client_lane *l = AS_CONTAINER(letter, struct as_client_lane, listen);

    listen_on(l, l->grpc, l->d->fds->n_grpc, false);
    listen_on(l, l->grpc_tls, l->d->fds->n_grpc_tls, true);
    if (l->handover_in >= 0 && as_edge_adopt(l->edge, l->handover_in))
        as_log_event(&l->d->log, AS_LOG_WARN, "adopt_failed", "reason=\"%s\"", strerror(errno));
    l->handover_in = -1;
}

/* Each lane gets a duplicate of each listener, which it can close on its own. The kernel gives a
 * new client to the loop that accepts first. */
static void admit_clients(struct as_dispatcher *d)
{
    as_timer_set(&d->admit_timer, AS_NEVER);
    if (d->clients_admitted || d->phase != AS_DISPATCHER_SERVING)
        return;
    d->clients_admitted = true;
    for (uint32_t i = 0; i < d->n_lanes; i++) {
        struct as_client_lane *l = &d->lanes[i];

        duplicate(d->fds->grpc, d->fds->n_grpc, l->grpc);
        duplicate(d->fds->grpc_tls, d->fds->n_grpc_tls, l->grpc_tls);
        if (d->handover_in >= 0)
            l->handover_in = fcntl(d->handover_in, F_DUPFD_CLOEXEC, 0);
        as_client_lane_post(l, &l->listen, open_listen);
    }
    as_dispatcher_close_listeners(d);
    as_dispatcher_replace_fd(&d->handover_in, -1);
    if (d->replaces_other)
        as_dispatcher_send_text(d, AS_CTL_OPENED, AS_STR(""), AS_STR(""), AS_STR(""));
}

/* The workers that have come back serve; models of the others are unknown until they come, too. */
void as_dispatcher_on_admit_timeout(struct as_timer *t)
{
    admit_clients(AS_CONTAINER(t, struct as_dispatcher, admit_timer));
}

static void admit_clients_if_ready(struct as_dispatcher *d)
{
    if (d->workers_admitted && !d->n_awaited && !d->n_awaited_foreign)
        admit_clients(d);
}

/* Counts the workers that are expected back, from the states that the supervisor reports: a worker
 * that has died meanwhile is not expected any more. */
static void count_awaited(struct as_dispatcher *d)
{
    const char *lost = as_ctl_state_name(AS_CTL_LOST_STATE);
    uint32_t n = 0;

    AS_LIST_EACH(node, &d->status_page.processes)
    {
        n += strcmp(AS_LIST_ENTRY(node, struct as_status_page_process, node)->state, lost) == 0;
    }
    d->n_awaited = d->workers_admitted ? AS_MIN(d->n_awaited, n) : n;
}

/* All tokens are known by now, so that no worker of this server is refused. After a restart of the
 * dispatcher clients wait in the listeners' backlog until the former workers are back; otherwise
 * their models would be unknown for a moment. */
static void admit_workers(struct as_dispatcher *d)
{
    if (as_fleet_listen(d->fleet, d->fds->link))
        as_fatal_system("the listener for workers", errno);
    for (uint32_t k = 0; k < d->fds->n_management; k++) {
        if (as_edge_listen(d->management, d->fds->management[k], false))
            as_fatal_system("the listener for management", errno);
    }
    as_exposure_log(&d->status_page.exposure, &d->log);
    count_awaited(d);
    d->workers_admitted = true;
}

void as_dispatcher_replace_fd(int *fd, int next)
{
    if (*fd >= 0)
        close(*fd);
    *fd = next;
}

/* TOLD: the supervisor has sent all that a new dispatcher must know. Clients are admitted when the
 * expected workers are back, or after --handshake-timeout; a dispatcher that replaces another one
 * has no such timeout. */
static void on_told(struct as_dispatcher *d, const struct as_ctl_message *m)
{
    if (!d->workers_admitted) {
        admit_workers(d);
        d->n_awaited_foreign = m->number;
        d->replaces_other = m->id;
    }
    as_timer_set(&d->admit_timer, m->id ? AS_NEVER
                                        : as_loop_now(d->lanes[0].loop) +
                                              as_option_ns(d->opts, AS_OPT_HANDSHAKE_TIMEOUT));
    admit_clients_if_ready(d);
}

/* --- workers of the management service --- */

static void send_legacy_worker(void *dispatcher, const struct as_simple_saved_registration *l)
{
    struct as_ctl_message m = {
        .type = AS_CTL_LEGACY, .replica = l->worker, .token = l->address, .text = l->encoded};

    m.id = l->epoch;
    if (l->address.n <= AS_CTL_NAME_MAX && l->encoded.n <= AS_CTL_TEXT_MAX)
        as_dispatcher_send(dispatcher, &m);
    /* a worker that is too large for a message registers again at its next heartbeat */
}

void as_dispatcher_send_fewer(void *dispatcher, struct as_str worker, uint64_t epoch, uint32_t n)
{
    struct as_ctl_message m = {.type = AS_CTL_FEWER, .replica = worker, .number = n};

    m.id = epoch;
    as_dispatcher_send(dispatcher, &m);
}

static void adopt_legacy_worker(struct as_dispatcher *d, const struct as_ctl_message *m)
{
    struct as_simple_saved_registration l = {m->replica, m->token, m->text, m->id};
    char why[512] = "", quoted[600];

    if (as_simple_restore(d->fleet, &l, why, sizeof(why)))
        as_log_event(&d->log, AS_LOG_WARN, "worker_not_inherited", "replica=%.*s reason=%s",
                     AS_STR_FMT(m->replica), as_log_quote(quoted, sizeof(quoted), as_str_of(why)));
}

/* YIELD: a new dispatcher with the same listeners serves as soon as it has the workers. Workers
 * that cannot serve two dispatchers go to it when this one has ended. */
static void yield_workers(struct as_dispatcher *d)
{
    struct as_ctl_message m = {.type = AS_CTL_MOVED};

    if (d->yielding || d->phase != AS_DISPATCHER_SERVING)
        return;
    d->yielding = true;
    as_edge_drain(d->status, -1, NULL, NULL);
    as_edge_drain(d->management, -1, NULL, NULL);
    m.id = !as_fleet_hand_over(d->fleet, &m.number);
    as_simple_each_registration(d->fleet, send_legacy_worker, d);
    as_dispatcher_send(d, &m);
    as_log_event(&d->log, AS_LOG_INFO, "yields", "unanswered=%u foreign=%u drains=%u",
                 as_fleet_unanswered(d->fleet), m.number, (unsigned)m.id);
    if (m.id)
        as_dispatcher_drain(d);
}

/* The supervisor has died: kills all workers, which must not outlive it, and ends. */
static void on_supervisor_gone(struct as_dispatcher *d)
{
    as_log_event(&d->log, AS_LOG_ERROR, "supervisor_gone", "action=\"workers are killed\"");
    AS_LIST_EACH_ENTRY(p, struct as_status_page_process, node, &d->status_page.processes) {
        as_proc_kill_group(p->pidfd, (pid_t)p->pid); /* with the processes that a worker forked */
    }
    /* without cleaning up: connections end with the process, and nobody waits for its exit code */
    _exit(1);
}

static void on_answer(void *ctx, struct as_str replica, struct as_str token, uint64_t id, int err,
                      struct as_str text)
{
    struct as_ctl_message m = {
        .type = AS_CTL_ANSWER, .replica = replica, .token = token, .text = text};

    m.id = id;
    m.number = (uint32_t)-err;
    as_dispatcher_send(ctx, &m);
}

static void restore_record(struct as_dispatcher *d, const struct as_ctl_message *m)
{
    const char *why = "";

    if (as_fleet_restore(d->fleet,
                         &(struct as_fleet_record){.deployment = m->deployment,
                                                   .model = m->replica,
                                                   .frames = m->text,
                                                   .whole = m->number != 0,
                                                   .declared = m->id == 1},
                         &why))
        as_log_event(&d->log, m->id == 1 ? AS_LOG_INFO : AS_LOG_WARN, "record_unusable",
                     "deployment=%.*s model=%.*s reason=\"%s\"",
                     AS_STR_FMT(as_id_shown(m->deployment)), AS_STR_FMT(m->replica), why);
}

static void ask_worker(struct as_dispatcher *d, const struct as_ctl_message *m)
{
    enum as_control_op op;
    struct as_str body;

    if (as_ctl_parse_ask(m->text, &op, &body))
        on_answer(d, m->replica, m->token, m->id, AS_EUNIMPLEMENTED, AS_STR("no such question"));
    else
        as_fleet_send_control(d->fleet, m->token, m->id, op, body);
}

static void set_route(struct as_dispatcher *d, const struct as_ctl_message *m)
{
    if (!as_fleet_set_route(d->fleet, m->deployment, m->text))
        as_log_event(&d->log, AS_LOG_WARN, "route_unusable", "deployment=%.*s prefix=%.*s",
                     AS_STR_FMT(as_id_shown(m->deployment)), AS_STR_CUT(m->text, 200));
}

static void set_status(struct as_dispatcher *d, const struct as_ctl_message *m)
{
    bool has_target = m->id == 1;

    as_status_page_set_status(&d->status_page, m->replica, m->deployment, m->text, m->ns,
                              has_target ? (int64_t)m->number : AS_STATUS_PAGE_UNKNOWN);
    if (has_target)
        as_fleet_set_wanted(d->fleet, m->deployment, m->number);
}

/* Moves a descriptor that came with a message, if there is one. */
static void take_fd(int *to, int *fd)
{
    if (*fd < 0)
        return;
    as_dispatcher_replace_fd(to, *fd);
    *fd = -1;
}

/* fd: the descriptor that came with the message, or -1; only TOLD and YIELD have one. */
static void on_message(struct as_dispatcher *d, const struct as_ctl_message *m, int *fd)
{
    struct as_replica_slot_facts facts;

    switch (m->type) {
    /* each message may be repeated: the supervisor sends everything to a new dispatcher */
    case AS_CTL_TOKEN:
        as_fleet_add_process(d->fleet, m->token, m->replica, m->deployment);
        break;
    case AS_CTL_REPLICA:
        as_fleet_expect_deployment(d->fleet, m->deployment);
        as_status_page_set_process(&d->status_page, m->replica, m->deployment,
                                   as_str_of(as_ctl_state_name(m->state)), m->text, m->pid,
                                   m->restarts);
        if (d->workers_admitted && !d->clients_admitted) {
            count_awaited(d);
            admit_clients_if_ready(d);
        }
        break;
    case AS_CTL_NOTE:
        if (as_replica_facts_parse(&facts, m->text) == 0)
            as_status_page_set_rank(&d->status_page, m->replica, facts.rank, facts.world);
        break;
    case AS_CTL_STATUS:
        set_status(d, m);
        break;
    case AS_CTL_DELETE:
        as_fleet_delete_deployment(d->fleet, m->deployment, m->number != 0);
        as_status_page_set_status(&d->status_page, AS_STR(""), m->deployment, AS_STR(""), 0,
                                  AS_STATUS_PAGE_UNKNOWN);
        break;
    case AS_CTL_REMOVE:
        as_status_page_remove(&d->status_page, m->replica);
        break;
    case AS_CTL_FORGET:
        as_fleet_record_exit(d->fleet, m->token, m->kind);
        as_fleet_remove_process(d->fleet, m->token, as_loss_from_exit(m->kind));
        break;
    case AS_CTL_DOWN:
    case AS_CTL_UP:
        as_fleet_set_down(d->fleet, m->deployment, m->type == AS_CTL_DOWN);
        break;
    case AS_CTL_RETIRE:
        as_fleet_retire_process(d->fleet, m->token);
        break;
    case AS_CTL_REFUSED:
        d->status_page.control_refusals += m->number;
        break;
    case AS_CTL_ASK:
        ask_worker(d, m);
        break;
    case AS_CTL_TOLD:
        if (!d->clients_admitted)
            take_fd(&d->handover_in, fd);
        on_told(d, m);
        break;
    case AS_CTL_YIELD:
        if (d->phase == AS_DISPATCHER_SERVING)
            take_fd(&d->handover_out, fd);
        yield_workers(d);
        if (m->number)
            as_dispatcher_drain(d);
        break;
    case AS_CTL_RELOAD:
        as_dispatcher_reload(d, m->number);
        break;
    case AS_CTL_LEGACY:
        adopt_legacy_worker(d, m);
        break;
    case AS_CTL_FEWER:
        as_simple_limit_lent(d->fleet, m->replica, m->id, m->number);
        break;
    case AS_CTL_RELIEVED:
        as_simple_limit_lent(d->fleet, (struct as_str){0}, 0, 0);
        break;
    case AS_CTL_ADMIT:
        admit_clients(d);
        break;
    case AS_CTL_KNOWN:
        restore_record(d, m);
        break;
    case AS_CTL_ROUTE:
        set_route(d, m);
        break;
    case AS_CTL_COUNT:
        as_fleet_count(d->fleet, m->deployment, m->number != 0, (unsigned)m->id, m->ns);
        break;
    case AS_CTL_CONFIRM:
        as_fleet_confirm(d->fleet, m->id);
        break;
    case AS_CTL_DRAIN:
        as_dispatcher_shutdown(d);
        break;
    /* a message that the dispatcher only sends: the supervisor is of another version */
    default:
        as_log_event(&d->log, AS_LOG_WARN, "control_unexpected", "message=%s",
                     as_ctl_type_name(m->type));
    }
}

void as_dispatcher_on_control(struct as_sock *s, int events)
{
    struct as_dispatcher *d = AS_CONTAINER(s, struct as_dispatcher, control);
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message m;
    int err, fd;

    if (events & UV_WRITABLE) {
        as_outbox_flush(&d->outbox, s->fd); /* an end of the socket is noticed below */
        watch_control(d);
    }
    while ((err = as_ctl_receive_fd(s->fd, buf, &m, &fd)) != AS_EAGAIN) {
        if (err == AS_EOF) {
            /* during the drain the supervisor, which has asked for it, may end first */
            if (d->phase == AS_DISPATCHER_SERVING)
                on_supervisor_gone(d);
            as_sock_watch(s, 0);
            return;
        }
        if (err) {
            as_log_event(&d->log, AS_LOG_WARN, "control_malformed", "err=%s", as_err_name(err));
            continue;
        }
        on_message(d, &m, &fd);
        as_dispatcher_replace_fd(&fd, -1);
    }
}

static void on_ready(void *ctx, struct as_str replica, struct as_str token, struct as_str models)
{
    struct as_dispatcher *d = ctx;

    as_dispatcher_send_text(d, AS_CTL_READY, replica, token, models);
    /* any replica counts: only the number of workers that are back matters here */
    if (token.n && d->n_awaited)
        d->n_awaited--;
    else if (!token.n && d->n_awaited_foreign)
        d->n_awaited_foreign--;
    if (!d->clients_admitted)
        admit_clients_if_ready(d);
}

static void on_gone(void *ctx, struct as_str replica, struct as_str token, struct as_str reason)
{
    as_dispatcher_send_text(ctx, AS_CTL_GONE, replica, token, reason);
}

static void on_kill(void *ctx, struct as_str replica, struct as_str token, struct as_str reason)
{
    as_dispatcher_send_text(ctx, AS_CTL_KILL, replica, token, reason);
}

static void on_retired(void *ctx, struct as_str replica, struct as_str token)
{
    as_dispatcher_send_text(ctx, AS_CTL_RETIRED, replica, token, AS_STR(""));
}

/* Leaves room in the outbox for messages that must not be lost. */
static bool on_record(void *ctx, const struct as_fleet_record *r)
{
    struct as_dispatcher *d = ctx;

    if (r->frames.n > AS_CTL_TEXT_MAX || d->outbox.wait.n > AS_OUTBOX_LIMIT / 2)
        return false;
    as_dispatcher_send(d, &(struct as_ctl_message){.type = AS_CTL_MODEL,
                                                   .deployment = r->deployment,
                                                   .replica = r->model,
                                                   .number = r->whole,
                                                   .text = r->frames});
    return true;
}

static void on_confirmed(void *ctx, uint64_t id)
{
    as_dispatcher_send(ctx, &(struct as_ctl_message){.type = AS_CTL_CONFIRMED, .id = id});
}

static void on_leaves(void *ctx, struct as_str replica, struct as_str token)
{
    as_dispatcher_send_text(ctx, AS_CTL_LEAVES, replica, token, AS_STR(""));
}

const struct as_fleet_ops as_dispatcher_fleet_ops = {on_ready,
                                                     on_gone,
                                                     on_kill,
                                                     on_retired,
                                                     on_answer,
                                                     on_record,
                                                     as_dispatcher_on_calls_done,
                                                     on_confirmed,
                                                     on_leaves,
                                                     as_dispatcher_send_load};
