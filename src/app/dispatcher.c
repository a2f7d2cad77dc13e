/* The dispatcher process: wiring of loops, fleet, edges, status page and control socket. */
#include "app/dispatcher.h"

#include "app/conf.h"
#include "base/err.h"
#include "ctl/console.h"
#include "ctl/journal.h"
#include "ctl/note.h"
#include "ctl/outbox.h"
#include "ctl/runtime_dir.h"
#include "ctl/token.h"
#include "edge/board.h"
#include "edge/edge.h"
#include "edge/status.h"
#include "io/prompt.h"
#include "io/sock.h"
#include "link/fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct dispatcher;

struct lane { /* one loop with its thread and its clients */
    struct dispatcher *d;
    struct as_loop *loop;
    struct as_edge *edge;
    /* to this loop and back to the dispatch loop; one each, since a drain that takes too long is
     * overtaken by the stop */
    struct as_letter listen, drain, drained, stop, stopped;
    int grpc[AS_DISPATCHER_LISTENERS]; /* its own duplicates, until it listens */
    pthread_t thread;
};

/* forward only */
enum phase { SERVING, DRAINING, STOPPING };

/* Everything here is the dispatch loop's, but for what is said to be atomic in its own header
 * (budget, the fleet's flags). Other lanes hear and tell by letters. */
struct dispatcher {
    const struct as_option_set *opts;
    struct as_journal journal;
    struct as_console_shared console;
    struct as_log log;
    struct lane *lanes;
    uint32_t n_lanes, n_drained, n_stopped; /* lanes that are that far */
    struct as_edge *management; /* on lane 0's loop; serves until the workers are let go */
    char token[AS_TOKEN_MAX + 1];
    struct as_fleet *fleet;
    struct as_budget budget;
    struct as_board board;
    struct as_shm *shm; /* of clients, for all lanes; NULL: not allowed */
    struct as_status *status;
    struct as_sock control;
    struct as_outbox out; /* what the supervisor is to hear */
    bool out_full;        /* it has been logged that messages are lost */
    struct as_timer drain_timer;
    struct as_timer doors; /* the longest that clients wait for workers to come back */
    uint32_t awaited;      /* workers that are expected back: ours … */
    uint32_t foreign;      /* … and others, of the dispatcher that we relieve */
    bool told, open;       /* workers, clients are let in */
    bool relieves;         /* another dispatcher, which serves until we do */
    bool yielding;         /* another dispatcher has the workers' door */
    bool closed;           /* the inherited listeners for clients */
    const struct as_dispatcher_fds *fds;
    uv_signal_t sigterm;
    enum phase phase;
    int exit_code;
};

/* --- letters to the lanes --- */

/* A letter must be under way only once: a second drain or stop is caught by the phase before. */
static void post(struct lane *to, struct as_letter *letter,
                 void (*open)(struct as_letter *, void *))
{
    letter->open = open;
    as_mbox_post(as_edge_box(to->edge), letter);
}

/* --- the end: drain, then stop every lane, then the links, then the loops --- */

/* The last letter: nothing is posted to this lane any more. */
static void open_halt(struct as_letter *letter, void *to AS_UNUSED)
{
    as_loop_stop(AS_CONTAINER(letter, struct lane, stop)->loop);
}

/* Dispatch loop, once per lane. */
static void open_stopped(struct as_letter *letter, void *to AS_UNUSED)
{
    struct dispatcher *d = AS_CONTAINER(letter, struct lane, stopped)->d;

    if (++d->n_stopped < d->n_lanes)
        return;
    /* no connection is left: what workers still hold is released, and told before the halt */
    as_fleet_stop(d->fleet);
    for (uint32_t i = 0; i < d->n_lanes; i++)
        post(&d->lanes[i], &d->lanes[i].stop, open_halt);
}

/* The lane's own loop: its connections are closed there, calls in flight become cancels to the
 * fleet. */
static void open_stop(struct as_letter *letter, void *to AS_UNUSED)
{
    struct lane *l = AS_CONTAINER(letter, struct lane, stop);

    as_edge_stop(l->edge);
    if (l == l->d->lanes)
        as_edge_stop(l->d->management);
    post(&l->d->lanes[0], &l->stopped, open_stopped);
}

/* Also from a drain that has run out of time: letters of the drain may still be under way, and stay
 * harmless. */
static void stop(struct dispatcher *d, int exit_code)
{
    if (d->phase == STOPPING)
        return;
    d->phase = STOPPING;
    d->exit_code = exit_code;
    /* it must not fire into what is being taken down */
    as_timer_set(&d->drain_timer, AS_NEVER);
    for (uint32_t i = 0; i < d->n_lanes; i++)
        post(&d->lanes[i], &d->lanes[i].stop, open_stop);
}

static void watch_control(struct dispatcher *d)
{
    as_sock_watch(&d->control, UV_READABLE | (as_outbox_waits(&d->out) ? UV_WRITABLE : 0));
}

/* A supervisor that reads nothing (stopped, thrashing) does not stop us from serving, so what it
 * should hear waits. A full outbox loses the newest: READY and KILL are about processes that it
 * would then have to find out about by its own timeouts, but clients are still answered. */
static void tell_all(struct dispatcher *d, const struct as_ctl_message *m)
{
    int err;

    if (d->control.closing || !d->control.events)
        return; /* it is gone, and the end of the socket has been read */
    err = as_outbox_say(&d->out, d->control.fd, m);
    if (err == AS_EFULL && !d->out_full)
        as_log_event(&d->log, AS_LOG_ERROR, "supervisor_hangs",
                     "lost=%s waiting_bytes=%zu action=\"serving goes on; later ones too\"",
                     as_ctl_type_name(m->type), d->out.wait.n);
    d->out_full = err == AS_EFULL;
    watch_control(d);
}

static void tell(struct dispatcher *d, enum as_ctl_type type, struct as_str replica,
                 struct as_str token, struct as_str text)
{
    tell_all(d, &(struct as_ctl_message){
                    .type = type, .replica = replica, .token = token, .text = text});
}

static void open_drained(struct as_letter *letter, void *to AS_UNUSED)
{
    struct dispatcher *d = AS_CONTAINER(letter, struct lane, drained)->d;

    /* a lane that drains only after the timeout counts no more */
    if (d->phase != DRAINING || ++d->n_drained < d->n_lanes)
        return;
    if (!d->yielding) /* else they serve another dispatcher */
        as_fleet_drain(d->fleet);
    tell(d, AS_CTL_DRAINED, AS_STR(""), AS_STR(""), AS_STR(""));
    as_log_event(&d->log, AS_LOG_INFO, "drained", "unanswered=%u", as_fleet_unanswered(d->fleet));
    stop(d, 0);
}

/* On the lane's loop: every connection of it is closed. */
static void lane_drained(void *arg)
{
    struct lane *l = arg;

    post(&l->d->lanes[0], &l->drained, open_drained);
}

static void open_drain(struct as_letter *letter, void *to AS_UNUSED)
{
    struct lane *l = AS_CONTAINER(letter, struct lane, drain);

    as_edge_drain(l->edge, lane_drained, l);
}

/* Ours go as soon as every loop has its own: when the loops close theirs, clients are refused. */
static void close_clients_doors(struct dispatcher *d)
{
    for (uint32_t k = 0; k < d->fds->n_grpc; k++)
        close(d->fds->grpc[k]);
    d->closed = true;
}

/* Clients first: new ones are refused, those that are there finish. The workers are told when no
 * request can come any more. */
static void drain(struct dispatcher *d)
{
    struct as_loop *loop = d->lanes[0].loop;

    if (d->phase != SERVING)
        return;
    d->phase = DRAINING;
    if (!d->closed)
        close_clients_doors(d); /* it had not let them in yet */
    d->board.draining = true;
    as_log_event(&d->log, AS_LOG_INFO, "draining", "unanswered=%u", as_fleet_unanswered(d->fleet));
    as_timer_set(&d->drain_timer, as_loop_now(loop) + as_option_ns(d->opts, AS_OPT_DRAIN_TIMEOUT));
    for (uint32_t i = 0; i < d->n_lanes; i++)
        post(&d->lanes[i], &d->lanes[i].drain, open_drain);
    if (!d->yielding)
        as_edge_announce_end(d->management);
}

static void on_drain_timeout(struct as_timer *t)
{
    struct dispatcher *d = AS_CONTAINER(t, struct dispatcher, drain_timer);

    as_log_event(&d->log, AS_LOG_WARN, "drain_timeout", "unanswered=%u",
                 as_fleet_unanswered(d->fleet));
    stop(d, 0);
}

static void on_sigterm(uv_signal_t *h, int signum AS_UNUSED)
{
    drain(h->data);
}

/* --- the supervisor's word --- */

static void open_listen(struct as_letter *letter, void *to AS_UNUSED)
{
    struct lane *l = AS_CONTAINER(letter, struct lane, listen);

    for (uint32_t k = 0; k < l->d->fds->n_grpc; k++) {
        /* a loop that serves nobody: better a new process, which may find what this one lacks */
        if (l->grpc[k] < 0 || as_edge_listen(l->edge, l->grpc[k]))
            as_fatal_system("a listener for clients", errno);
        close(l->grpc[k]);
    }
}

/* A duplicate for each lane: closing one says nothing to the others, and the kernel gives each new
 * client to whichever loop accepts first. */
static void let_clients_in(struct dispatcher *d)
{
    as_timer_set(&d->doors, AS_NEVER);
    if (d->open || d->phase != SERVING)
        return;
    d->open = true;
    for (uint32_t i = 0; i < d->n_lanes; i++) {
        struct lane *l = &d->lanes[i];

        for (uint32_t k = 0; k < d->fds->n_grpc; k++)
            l->grpc[k] = fcntl(d->fds->grpc[k], F_DUPFD_CLOEXEC, 0);
        post(l, &l->listen, open_listen);
    }
    close_clients_doors(d);
    if (d->relieves)
        tell(d, AS_CTL_OPENED, AS_STR(""), AS_STR(""), AS_STR(""));
}

/* Those who are back serve; models of the others are unknown until they come. */
static void on_doors_timeout(struct as_timer *t)
{
    let_clients_in(AS_CONTAINER(t, struct dispatcher, doors));
}

static void open_doors(struct dispatcher *d)
{
    if (d->told && !d->awaited && !d->foreign)
        let_clients_in(d);
}

/* Their own word counts for more than ours: one that died is not awaited any more. */
static void count_awaited(struct dispatcher *d)
{
    const char *lost = as_ctl_state_name(AS_CTL_LOST_STATE);
    uint32_t n = 0;

    AS_LIST_EACH(node, &d->board.processes)
    {
        n += strcmp(AS_LIST_ENTRY(node, struct as_board_process, node)->state, lost) == 0;
    }
    d->awaited = d->told ? AS_MIN(d->awaited, n) : n;
}

/* All tokens are known now: nobody of ours is refused. After a restart of the dispatcher clients
 * wait in the listeners' backlog until the workers that were there before are back, or their
 * models would be unknown for a moment. */
static void let_workers_in(struct dispatcher *d)
{
    if (as_fleet_listen(d->fleet, d->fds->link))
        as_fatal_system("the listener for workers", errno);
    for (uint32_t k = 0; k < d->fds->n_management; k++) {
        if (as_edge_listen(d->management, d->fds->management[k]))
            as_fatal_system("the listener for management", errno);
    }
    count_awaited(d);
    d->told = true;
}

/* Clients come later when workers are awaited; how long that may take is told, too. */
static void told(struct dispatcher *d, const struct as_ctl_message *m)
{
    if (!d->told) {
        let_workers_in(d);
        d->foreign = m->number;
        d->relieves = m->id;
    }
    as_timer_set(&d->doors, m->id ? AS_NEVER
                                  : as_loop_now(d->lanes[0].loop) +
                                        as_option_ns(d->opts, AS_OPT_HANDSHAKE_TIMEOUT));
    open_doors(d);
}

/* Another dispatcher has the same listeners, and serves as soon as the workers are there. Those
 * that cannot serve two dispatchers come when we have ended. */
static void yield_workers(struct dispatcher *d)
{
    struct as_ctl_message m = {.type = AS_CTL_MOVED};

    if (d->yielding || d->phase != SERVING)
        return;
    d->yielding = true;
    as_status_stop_listening(d->status);
    as_edge_drain(d->management, NULL, NULL);
    m.id = !as_fleet_move(d->fleet, &m.number);
    tell_all(d, &m);
    as_log_event(&d->log, AS_LOG_INFO, "yields", "unanswered=%u foreign=%u drains=%u",
                 as_fleet_unanswered(d->fleet), m.number, (unsigned)m.id);
    if (m.id)
        drain(d);
}

/* Our parent is gone: nothing of ours may outlive it. */
static void orphaned(struct dispatcher *d)
{
    as_log_event(&d->log, AS_LOG_ERROR, "supervisor_gone", "action=\"workers are killed\"");
    AS_LIST_EACH(n, &d->board.processes)
    {
        struct as_board_process *p = AS_LIST_ENTRY(n, struct as_board_process, node);

        /* the process group: also what a worker has forked. Never 0 or 1, which mean all of ours,
         * or all */
        if (p->pid > 1)
            kill(-(pid_t)p->pid, SIGKILL);
    }
    /* no tidying up: connections end with us, and nobody waits for an exit code */
    _exit(1);
}

static void on_answer(void *ctx, struct as_str replica, struct as_str token, uint64_t id, int err,
                      struct as_str text)
{
    struct as_ctl_message m = {
        .type = AS_CTL_ANSWER, .replica = replica, .token = token, .text = text};

    m.id = id;
    m.number = (uint32_t)-err;
    tell_all(ctx, &m);
}

static void on_message(struct dispatcher *d, const struct as_ctl_message *m)
{
    struct as_place_facts facts;

    enum as_control_op op;
    struct as_str body;

    switch (m->type) {
    /* each is harmless when it is repeated: a supervisor tells a new dispatcher everything */
    case AS_CTL_TOKEN:
        as_fleet_token(d->fleet, m->token, m->replica, m->deployment);
        break;
    case AS_CTL_REPLICA:
        as_fleet_expect(d->fleet, m->deployment);
        as_board_process(&d->board, m->replica, m->deployment,
                         as_str_of(as_ctl_state_name(m->state)), m->text, m->pid, m->restarts);
        if (d->told && !d->open) {
            count_awaited(d);
            open_doors(d);
        }
        break;
    case AS_CTL_NOTE:
        if (as_note_read(&facts, m->text) == 0)
            as_board_rank(&d->board, m->replica, facts.rank, facts.world);
        break;
    case AS_CTL_STATUS:
        as_board_status(&d->board, m->replica, m->deployment, m->text, m->ns);
        break;
    case AS_CTL_DELETE:
        as_fleet_delete(d->fleet, m->deployment, m->number != 0);
        as_board_status(&d->board, AS_STR(""), m->deployment, AS_STR(""), 0);
        break;
    case AS_CTL_REMOVE:
        as_board_forget(&d->board, m->replica);
        break;
    case AS_CTL_FORGET:
        as_fleet_exited(d->fleet, m->token, m->kind);
        as_fleet_forget(d->fleet, m->token, as_loss_of(m->kind));
        break;
    case AS_CTL_DOWN:
    case AS_CTL_UP:
        as_fleet_down(d->fleet, m->deployment, m->type == AS_CTL_DOWN);
        break;
    case AS_CTL_RETIRE:
        as_fleet_retire(d->fleet, m->token);
        break;
    case AS_CTL_ASK:
        if (as_ctl_question(m->text, &op, &body))
            on_answer(d, m->replica, m->token, m->id, AS_EUNIMPLEMENTED,
                      AS_STR("no such question"));
        else
            as_fleet_ask(d->fleet, m->token, m->id, op, body);
        break;
    case AS_CTL_TOLD:
        told(d, m);
        break;
    case AS_CTL_YIELD:
        yield_workers(d);
        if (m->number)
            drain(d);
        break;
    case AS_CTL_DRAIN:
        drain(d);
        break;
    /* ours to say, not to hear: a supervisor of another version */
    default:
        as_log_event(&d->log, AS_LOG_WARN, "control_unexpected", "message=%s",
                     as_ctl_type_name(m->type));
    }
}

static void on_control(struct as_sock *s, int events)
{
    struct dispatcher *d = AS_CONTAINER(s, struct dispatcher, control);
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message m;
    int err;

    if (events & UV_WRITABLE) {
        as_outbox_flush(&d->out, s->fd); /* its end shows below */
        watch_control(d);
    }
    while ((err = as_ctl_receive(s->fd, buf, &m)) != AS_EAGAIN) {
        if (err == AS_EOF) {
            /* while draining it may go first: its last word was to end */
            if (d->phase == SERVING)
                orphaned(d);
            as_sock_watch(s, 0);
            return;
        }
        if (err)
            as_log_event(&d->log, AS_LOG_WARN, "control_malformed", "err=%s", as_err_name(err));
        else
            on_message(d, &m);
    }
}

static void on_ready(void *ctx, struct as_str replica, struct as_str token, struct as_str models)
{
    struct dispatcher *d = ctx;

    tell(d, AS_CTL_READY, replica, token, models);
    /* any READY counts: which replica it is does not matter for the moment when models are known */
    if (token.n && d->awaited)
        d->awaited--;
    else if (!token.n && d->foreign)
        d->foreign--;
    if (!d->open)
        open_doors(d);
}

static void on_gone(void *ctx, struct as_str replica, struct as_str token, struct as_str reason)
{
    tell(ctx, AS_CTL_GONE, replica, token, reason);
}

static void on_kill(void *ctx, struct as_str replica, struct as_str token, struct as_str reason)
{
    tell(ctx, AS_CTL_KILL, replica, token, reason);
}

static void on_retired(void *ctx, struct as_str replica, struct as_str token)
{
    tell(ctx, AS_CTL_RETIRED, replica, token, AS_STR(""));
}

/* --- setting up --- */

static void join_token(struct dispatcher *d)
{
    char token[AS_RUNTIME_TOKEN_LEN + 1];

    /* a server without it still serves: only workers that others start cannot join */
    if (as_runtime_read_token(as_option_str(d->opts, AS_OPT_RUNTIME_DIR),
                              (uint16_t)as_option_u64(d->opts, AS_OPT_PORT), token))
        as_log_event(&d->log, AS_LOG_WARN, "no_join_token", "reason=\"only our own workers join\"");
    else
        as_fleet_join_token(d->fleet, as_str_of(token));
}

/* Lane 0 has the dispatch loop, which is there already: with one thread nothing crosses. */
static int set_up_lanes(struct dispatcher *d)
{
    struct as_edge_conf conf = as_conf_edge(d->opts);
    struct as_shm_conf shm = as_conf_shm(d->opts);

    if (as_option_bool(d->opts, AS_OPT_ALLOW_CLIENT_SHM) && as_shm_new(&d->shm, &shm))
        return AS_EIO;
    conf.shm = d->shm;
    conf.control = as_option_bool(d->opts, AS_OPT_ALLOW_CLIENT_CONTROL);
    conf.log = conf.control ? &d->log : NULL;

    for (uint32_t i = 0; i < d->n_lanes; i++) {
        struct lane *l = &d->lanes[i];

        l->d = d;
        if (i && as_loop_new(&l->loop, i))
            return AS_EIO;
        if (as_edge_new(&l->edge, l->loop, d->fleet, &conf, &d->budget, &d->log))
            return AS_EIO;
        d->board.edges[d->board.n_edges++] = l->edge;
    }
    d->board.n_loops = d->n_lanes;
    return 0;
}

/* An edge of its own, so that clients, however many, do not keep workers out. */
static int set_up_management(struct dispatcher *d)
{
    struct as_edge_conf conf = as_conf_management(d->opts);
    const char *file = as_option_str(d->opts, AS_OPT_MANAGEMENT_TOKEN_FILE);
    struct as_buf err;

    as_buf_init(&err);
    /* the supervisor has looked at it; it may have changed before we were started anew */
    if (file[0] && as_token_read(file, d->token, &err) < 0)
        as_log_event(&d->log, AS_LOG_ERROR, "no_management_token",
                     "reason=\"%.*s\" action=\"calls over TCP are refused\"",
                     AS_STR_FMT(as_buf_slice(&err)));
    as_buf_fini(&err);
    conf.token = d->token[0] ? d->token : NULL;
    if (as_edge_new(&d->management, d->lanes[0].loop, d->fleet, &conf, &d->budget, &d->log))
        return AS_EIO;
    d->board.edges[d->board.n_edges++] = d->management;
    return 0;
}

/* The order matters where one part is handed to the next; nothing runs before the loops do. What
 * fails here ends the process: there is nothing to take down for anybody. */
static int set_up(struct dispatcher *d, const struct as_dispatcher_fds *fds)
{
    static const struct as_fleet_ops ops = {on_ready, on_gone, on_kill, on_retired, on_answer};
    struct as_fleet_conf conf = as_conf_fleet(d->opts);
    struct as_loop *loop;

    if (as_loop_new(&d->lanes[0].loop, 0))
        return AS_EIO;
    loop = d->lanes[0].loop;
    as_fleet_new(&d->fleet, loop, &conf, &ops, d, &d->log);
    as_board_init(&d->board, d->fleet, &d->budget, as_loop_now(loop));
    as_timer_init(&d->drain_timer, loop, on_drain_timeout);
    as_timer_init(&d->doors, loop, on_doors_timeout);
    d->sigterm.data = d;
    if (uv_signal_init(&loop->uv, &d->sigterm) || uv_signal_start(&d->sigterm, on_sigterm, SIGTERM))
        return AS_EIO;
    as_outbox_init(&d->out, AS_OUTBOX_LIMIT);
    join_token(d);
    as_status_new(&d->status, loop, &d->board);
    for (uint32_t k = 0; k < fds->n_status; k++) {
        if (as_status_listen(d->status, fds->status[k]))
            return AS_EIO;
    }
    if (set_up_lanes(d) || set_up_management(d))
        return AS_EIO;
    return as_sock_open(&d->control, loop, fds->control, on_control);
}

static void *run_lane(void *arg)
{
    as_loop_run(((struct lane *)arg)->loop);
    return NULL;
}

/* Lanes before the fleet: an edge's client handle must be closed before the fleet goes. Closing is
 * asynchronous, and as_loop_free runs a loop until it is done. */
static void tear_down(struct dispatcher *d)
{
    for (uint32_t i = 1; i < d->n_lanes; i++) {
        pthread_join(d->lanes[i].thread, NULL);
        as_edge_close(d->lanes[i].edge);
        as_loop_free(d->lanes[i].loop);
        as_edge_free(d->lanes[i].edge);
    }
    as_edge_close(d->lanes[0].edge);
    as_edge_close(d->management);
    as_fleet_free(d->fleet);
    as_status_close(d->status);
    as_outbox_flush(&d->out, d->control.fd);
    as_outbox_fini(&d->out);
    as_sock_close(&d->control, NULL);
    as_timer_close(&d->drain_timer, NULL);
    as_timer_close(&d->doors, NULL);
    uv_close((uv_handle_t *)&d->sigterm, NULL);
    as_loop_free(d->lanes[0].loop);
    as_edge_free(d->lanes[0].edge);
    as_edge_free(d->management);
    as_board_fini(&d->board);
    as_shm_free(d->shm);
    free(d->lanes);
}

/* The supervisor has its own copies: closing ours refuses nobody. */
static void close_listeners(const struct dispatcher *d)
{
    const struct as_dispatcher_fds *fds = d->fds;

    for (uint32_t i = 0; i < fds->n_grpc && !d->closed; i++)
        close(fds->grpc[i]);
    for (uint32_t i = 0; i < fds->n_status; i++)
        close(fds->status[i]);
    for (uint32_t i = 0; i < fds->n_management; i++)
        close(fds->management[i]);
    close(fds->link);
}

int as_dispatcher_main(const struct as_option_set *opts, const struct as_dispatcher_fds *fds)
{
    struct dispatcher d = {.fds = fds, .opts = opts};

    d.console = (struct as_console_shared){"dispatcher", &d.journal};
    d.log =
        as_console_shared_log(&d.console, (enum as_log_level)as_option_u64(opts, AS_OPT_LOG_LEVEL));
    if (as_journal_open(&d.journal, as_option_str(opts, AS_OPT_RUNTIME_DIR),
                        (uint16_t)as_option_u64(opts, AS_OPT_PORT), d.console.name,
                        as_option_u64(opts, AS_OPT_LOG_KEEP), 0) < 0)
        as_log_event(&d.log, AS_LOG_WARN, "no_journal", "reason=\"%s\"", strerror(errno));
    (void)as_prompt_thread(AS_PROMPT_SLICE);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the supervisor, which drains us */
    d.n_lanes = (uint32_t)as_option_u64(opts, AS_OPT_THREADS);
    d.lanes = as_xalloc(d.n_lanes * sizeof(*d.lanes));
    d.budget.limit = as_option_u64(opts, AS_OPT_MAX_INFLIGHT_BYTES);
    if (set_up(&d, fds)) {
        as_log_event(&d.log, AS_LOG_ERROR, "dispatcher_failed",
                     "reason=\"cannot set up its loops: %s\"", strerror(errno));
        _exit(AS_EXIT_SYSTEM); /* half of it is there: nothing is torn down */
    }
    for (uint32_t i = 1; i < d.n_lanes; i++) {
        if (pthread_create(&d.lanes[i].thread, NULL, run_lane, &d.lanes[i])) {
            as_log_event(&d.log, AS_LOG_ERROR, "dispatcher_failed", "reason=\"no thread\"");
            _exit(AS_EXIT_SYSTEM); /* other lanes may run by now */
        }
    }
    /* before the loop runs: the socket is empty, it cannot wait */
    tell(&d, AS_CTL_SERVING, AS_STR(""), AS_STR(""), AS_STR(""));
    as_loop_run(d.lanes[0].loop);
    tear_down(&d);
    close_listeners(&d);
    as_journal_close(&d.journal);
    return d.exit_code;
}
