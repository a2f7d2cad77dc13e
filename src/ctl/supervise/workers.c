#include "ctl/supervise/workers.h"

#include "ctl/output/journal.h"
#include "ctl/supervise/workers_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- messages to dispatcher and controller --- */

static struct as_ctl_message make_message(const struct as_workers_row *w, enum as_ctl_type type)
{
    return (struct as_ctl_message){.type = type,
                                   .state = w->state,
                                   .pid = w->process ? (uint32_t)as_process_pid(w->process) : 0,
                                   .restarts = w->restarts,
                                   .replica = as_str_of(w->name),
                                   .deployment = as_str_of(w->deployment)};
}

/* The token, not the replica's name, tells one process of a replica from the next. */
static void send_token(struct as_workers_row *w)
{
    struct as_ctl_message m = make_message(w, AS_CTL_TOKEN);

    m.token = as_str_of(w->token);
    as_channel_send(w->all->dispatcher, &m);
}

/* The kind of end tells whether a request may be to blame for it: it is not for a SIGKILL, whoever
 * sent it. */
static void send_forget(struct as_workers_row *w)
{
    struct as_ctl_message m = make_message(w, AS_CTL_FORGET);
    bool killed = WIFSIGNALED(w->last_exit.status) && WTERMSIG(w->last_exit.status) == SIGKILL;

    m.token = as_str_of(w->token);
    m.kind = w->last_exit.kind == AS_EXIT_CRASH && killed ? AS_EXIT_KILLED : w->last_exit.kind;
    as_channel_send(w->all->dispatcher, &m);
    as_channel_send(w->all->former, &m);
}

static void send_replica(struct as_workers_row *w)
{
    struct as_ctl_message m = make_message(w, AS_CTL_REPLICA);

    m.text = as_workers_reason(w);
    as_channel_send(w->all->dispatcher, &m);
}

static void send_exited(struct as_workers_row *w)
{
    struct as_ctl_message m = make_message(w, AS_CTL_EXITED);

    m.token = as_str_of(w->token);
    m.pid = (uint32_t)w->last_exit.pid;
    m.number = (uint32_t)w->last_exit.status;
    m.kind = w->last_exit.kind;
    m.text = as_buf_slice(&w->reason);
    as_channel_send(w->all->controller, &m);
}

/* To the dispatcher, for the status page. */
static void send_note(struct as_workers_row *w)
{
    struct as_ctl_message m = make_message(w, AS_CTL_NOTE);

    m.text = as_str_of(w->note);
    as_channel_send(w->all->dispatcher, &m);
}

static void send_told(struct as_workers *all)
{
    if (all->controller_ready)
        as_channel_send(all->dispatcher, &(struct as_ctl_message){.type = AS_CTL_TOLD});
}

static void set_state(struct as_workers_row *w, enum as_ctl_state to)
{
    bool runs = to != AS_CTL_WAITING_STATE && to != AS_CTL_DOWN_STATE;

    AS_ASSERT(runs == (w->process != NULL));
    if (w->state == to)
        return;
    w->state = to;
    send_replica(w);
}

/* --- a process --- */

static void on_line(void *ctx, struct as_str line)
{
    struct as_workers_row *w = ctx;

    as_console_write(w->all->console, as_id_shown_z(w->name), line);
}

void as_workers_process_ended(struct as_workers_row *w, int status, enum as_exit_kind kind,
                              struct as_str reason)
{
    w->last_exit.pid = w->process ? as_process_pid(w->process) : 0;
    w->process = NULL;
    w->in_former = w->leaves = false;
    w->last_exit.undecided = true;
    w->last_exit.status = status;
    w->last_exit.kind = kind;
    as_buf_set(&w->reason, reason);
    as_buf_set(&w->wait_reason, AS_STR(""));
    /* the token of a dead process must not be accepted, whether there is a controller or not */
    send_forget(w);
    w->state = AS_CTL_WAITING_STATE;
    send_replica(w);
    send_exited(w);
}

static void check_all_stopped(struct as_workers *all)
{
    if (all->stopping && !as_workers_any_running(all) && !as_spares_any(all->spares))
        as_loop_defer(all->loop, &all->stopped);
}

static void on_end(void *ctx, const struct as_process_end *e)
{
    struct as_workers_row *w = ctx;
    struct as_workers *all = w->all;

    as_log_event(all->log, AS_LOG_DEBUG, "process_end", "replica=%s pid=%d status=%d",
                 as_id_shown_z(w->name), (int)as_process_pid(w->process), e->status);
    as_workers_process_ended(w, e->status, e->kind, e->reason);
    check_all_stopped(all);
}

const struct as_process_ops as_workers_process_ops = {on_line, on_end};

/* --- spares --- */

static void on_spare_end(void *ctx)
{
    check_all_stopped(ctx);
}

static bool has_shared_spec(const struct as_workers_row *w, struct as_str shared)
{
    struct as_buf shared_items = {0}, own = {0};
    bool is;

    as_spawn_split(as_buf_slice(&w->spawn), &shared_items, &own);
    is = as_str_eq(as_buf_slice(&shared_items), shared);
    as_buf_fini(&shared_items);
    as_buf_fini(&own);
    return is;
}

static bool is_spare_wanted(void *ctx, struct as_str deployment, struct as_str shared)
{
    const struct as_workers *all = ctx;

    AS_LIST_EACH_ENTRY(w, const struct as_workers_row, node, &all->workers) {
        if (as_str_eq(as_str_of(w->deployment), deployment) && has_shared_spec(w, shared))
            return true;
    }
    return false;
}

/* Not while a replica of the deployment starts: it needs the CPU, and its READY leads here. */
static void refill_spares(struct as_workers_row *w)
{
    AS_LIST_EACH_ENTRY(other, const struct as_workers_row, node, &w->all->workers) {
        if (other->state == AS_CTL_STARTING_STATE && strcmp(other->deployment, w->deployment) == 0)
            return;
    }
    as_spares_refill(w->all->spares, as_str_of(w->deployment), as_buf_slice(&w->spawn));
}

/* --- starts --- */

static int start_process(struct as_workers_row *w, struct as_buf *err)
{
    struct as_str text = as_buf_slice(&w->spawn);
    struct as_spawn s;
    int rc = as_spawn_parse(&s, text);

    if (rc < 0) {
        as_buf_str(err, "its SPAWN message cannot be read\n");
        return rc;
    }
    w->process = as_spares_acquire(w->all->spares, as_str_of(w->deployment), text,
                                   &as_workers_process_ops, w);
    if (w->process)
        as_log_event(w->all->log, AS_LOG_INFO, "spare_used", "replica=%s pid=%d",
                     as_id_shown_z(w->name), (int)as_process_pid(w->process));
    else
        rc = as_launch(&w->all->launcher, as_id_shown_z(w->name), &s, -1, &as_workers_process_ops,
                       w, &w->process, err);
    as_spawn_fini(&s);
    return rc;
}

/* The dispatcher is sent the token before the worker is started: a quick worker may connect before
 * we continue here. */
static void on_spawn(struct as_workers *all, const struct as_ctl_message *m)
{
    struct as_workers_row *w = as_workers_find_or_add(all, m);
    struct as_ctl_message answer;
    struct as_buf err = {0};
    int rc;

    /* the controller did not know of this process yet: its RUNS is on the way */
    if (w->process || all->stopping)
        return;
    as_list_remove(&w->node); /* keeps the order of starts: a new controller is sent the oldest
                                 process first */
    as_list_push(&all->workers, &w->node);
    as_workers_set_text(&w->token, m->token);
    as_buf_set(&w->wait_reason, AS_STR(""));
    w->restarts = m->restarts;
    w->last_exit.undecided = false;
    send_token(w);
    as_journal_add(all->console->journal, as_id_shown_z(w->name));
    as_buf_set(&w->spawn, m->text);
    rc = start_process(w, &err);
    as_spares_sweep(all->spares, is_spare_wanted, all);
    if (rc < 0) {
        /* as shells report a command that cannot be started */
        as_workers_process_ended(w, 127 << 8, AS_EXIT_CODE, as_buf_slice(&err));
    } else {
        set_state(w, AS_CTL_STARTING_STATE);
        send_note(w);
        answer = make_message(w, AS_CTL_SPAWNED);
        answer.token = as_str_of(w->token);
        as_channel_send(all->controller, &answer);
    }
    as_buf_fini(&err);
}

static void stop_process(struct as_workers_row *w, int signal, as_ns timeout)
{
    as_process_stop(w->process, signal, timeout);
    set_state(w, AS_CTL_STOPPING_STATE);
}

/* --- messages from dispatcher and controller --- */

/* A replica has no process: the message says why, and whether one will be started. */
static void on_place(struct as_workers *all, const struct as_ctl_message *m)
{
    struct as_workers_row *w = as_workers_find_or_add(all, m);

    if (w->process || (m->state != AS_CTL_WAITING_STATE && m->state != AS_CTL_DOWN_STATE))
        return;
    w->last_exit.undecided = false;
    w->state = m->state;
    w->restarts = m->restarts;
    as_buf_set(&w->wait_reason, m->text);
    send_replica(w);
}

static void on_remove(struct as_workers *all, const struct as_ctl_message *m)
{
    struct as_workers_row *w = as_workers_find(all, m->replica);

    if (!w || w->process)
        return;
    as_channel_send(all->dispatcher, m);
    as_journal_retire(all->console->journal, as_id_shown_z(w->name));
    as_workers_free_row(w);
    as_spares_sweep(all->spares, is_spare_wanted, all);
}

/* A message about the row's current process. */
static void handle_process_message(struct as_workers_row *w, const struct as_ctl_message *m)
{
    switch (m->type) {
    case AS_CTL_READY:
        as_buf_set(&w->reason, AS_STR("")); /* that was the former process's */
        if (w->state == AS_CTL_STARTING_STATE || w->state == AS_CTL_LOST_STATE)
            set_state(w, AS_CTL_READY_STATE);
        refill_spares(w);
        break;
    case AS_CTL_GONE:
        if (w->state == AS_CTL_READY_STATE)
            set_state(w, AS_CTL_LOST_STATE);
        break;
    case AS_CTL_LEAVES:
        w->leaves = true;
        break;
    case AS_CTL_KILL:
        as_process_kill(w->process, m->text);
        break;
    case AS_CTL_SIGNAL:
        stop_process(w, m->number < NSIG ? (int)m->number : SIGTERM, m->ns);
        break;
    default:
        AS_ASSERT(false);
    }
}

static bool runs_deployment(const struct as_workers *all, struct as_str deployment)
{
    AS_LIST_EACH_ENTRY(w, const struct as_workers_row, node, &all->workers) {
        if (w->process && as_str_eq(as_str_of(w->deployment), deployment))
            return true;
    }
    return false;
}

void as_workers_handle(struct as_workers *all, const struct as_ctl_message *m)
{
    struct as_workers_row *w;

    switch (m->type) {
    case AS_CTL_SPAWN:
        on_spawn(all, m);
        break;
    case AS_CTL_PLACE:
        on_place(all, m);
        break;
    case AS_CTL_NOTE: /* may come before the first SPAWN */
        w = as_workers_find_or_add(all, m);
        as_workers_set_text(&w->note, m->text);
        send_note(w);
        break;
    case AS_CTL_REMOVE:
        on_remove(all, m);
        break;
    case AS_CTL_DOWN:
    case AS_CTL_UP:
    case AS_CTL_STATUS:
    case AS_CTL_DELETE:
    case AS_CTL_DECLARE:
    case AS_CTL_ROUTE:
        as_status_cache_update(&all->status_cache, m, all->dispatcher);
        break;
    case AS_CTL_MODEL: /* may come behind DELETE: then nothing would ever remove it */
        if (runs_deployment(all, m->deployment))
            as_status_cache_update(&all->status_cache, m, all->dispatcher);
        break;
    default:
        w = as_workers_find_running(all, m->token);
        if (w)
            handle_process_message(w, m);
    }
}

static void send_all_to_dispatcher(struct as_workers *all)
{
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers) {
        if (w->process)
            send_token(w);
        send_replica(w);
        send_note(w);
    }
    /* DOWN, too: else requests would queue for workers that nobody starts */
    as_status_cache_send_all(&all->status_cache, all->dispatcher);
}

void as_workers_set_dispatcher(struct as_workers *all, struct as_channel *channel)
{
    all->dispatcher = channel;
    if (channel) {
        send_all_to_dispatcher(all);
        send_told(all);
        return;
    }
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers) {
        /* the processes live on and connect to the next dispatcher by themselves */
        if (w->state == AS_CTL_READY_STATE)
            w->state = AS_CTL_LOST_STATE;
    }
}

void as_workers_switch_dispatcher(struct as_workers *all, struct as_channel *channel)
{
    all->former = all->dispatcher;
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers) {
        w->in_former = w->state == AS_CTL_READY_STATE;
        if (w->state == AS_CTL_READY_STATE)
            w->state = AS_CTL_LOST_STATE;
    }
    all->dispatcher = channel;
    send_all_to_dispatcher(all);
}

void as_workers_remove_former(struct as_workers *all)
{
    all->former = NULL;
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers)
        w->in_former = false;
}

bool as_workers_handle_former(struct as_workers *all, const struct as_ctl_message *m)
{
    struct as_workers_row *w = as_workers_find_running(all, m->token);

    if (w && (m->type == AS_CTL_KILL || m->type == AS_CTL_LEAVES))
        handle_process_message(w, m);
    if (w && m->type == AS_CTL_GONE)
        w->in_former = false;
    /* READY of the former one came too late; its GONE is out of date when the new one has sent
     * READY */
    return m->type == AS_CTL_ANSWER || m->type == AS_CTL_LEAVES ||
           (m->type == AS_CTL_GONE && w && w->state == AS_CTL_LOST_STATE);
}

bool as_workers_accepts(const struct as_workers *all, const struct as_ctl_message *m)
{
    const struct as_workers_row *w = as_workers_find_running(all, m->token);

    return m->type != AS_CTL_RETIRED || !w || !w->in_former;
}

void as_workers_controller_ready(struct as_workers *all)
{
    as_status_cache_end_declarations(&all->status_cache, all->dispatcher);
    if (all->controller_ready)
        return;
    all->controller_ready = true;
    send_told(all);
}

void as_workers_set_controller(struct as_workers *all, struct as_channel *channel)
{
    all->controller = channel;
    if (!channel)
        return;
    as_status_cache_begin_declarations(&all->status_cache);
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers) {
        struct as_ctl_message m = make_message(w, AS_CTL_RUNS);

        m.token = as_str_of(w->token);
        m.number = w->last_exit.undecided;
        m.id = w->leaves;
        m.text = as_str_of(w->note);
        as_channel_send(channel, &m);
        if (w->last_exit.undecided)
            send_exited(w);
    }
    as_status_cache_send_to_controller(&all->status_cache, channel);
}

void as_workers_stop(struct as_workers *all, int signal, as_ns timeout)
{
    all->stopping = true;
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers) {
        if (w->process)
            stop_process(w, signal, timeout);
    }
    as_spares_stop(all->spares);
    check_all_stopped(all);
}

bool as_workers_owns_pid(const struct as_workers *all, pid_t pid)
{
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers) {
        if (w->process && as_process_pid(w->process) == pid)
            return true;
    }
    return as_spares_owns_pid(all->spares, pid);
}

static void on_stopped(struct as_task *t)
{
    struct as_workers *all = AS_CONTAINER(t, struct as_workers, stopped);

    all->conf.on_stopped(all->conf.ctx);
}

int as_workers_new(struct as_workers **ret_w, struct as_loop *loop,
                   const struct as_workers_conf *conf, struct as_console *console,
                   const struct as_log *log)
{
    struct as_workers *all = as_xalloc(sizeof(*all));

    all->conf = *conf;
    all->loop = loop;
    all->console = console;
    all->log = log;
    as_list_init(&all->workers);
    as_status_cache_init(&all->status_cache);
    as_task_init(&all->stopped, on_stopped);
    all->launcher = (struct as_launcher){
        .loop = loop, .log = log, .oom_seen = conf->oom_seen, .terminal = conf->terminal};
    as_spares_new(&all->spares, &all->launcher, console, on_spare_end, all);
    as_cgroup_remove_stale("");
    *ret_w = all;
    return 0;
}

void as_workers_close(struct as_workers *all)
{
    as_task_cancel(&all->stopped);
    all->dispatcher = all->controller = all->former = NULL;
}

void as_workers_free(struct as_workers *all)
{
    struct as_list *n;

    if (!all)
        return;
    while ((n = as_list_pop(&all->workers)))
        as_workers_free_row(AS_LIST_ENTRY(n, struct as_workers_row, node));
    as_status_cache_fini(&all->status_cache);
    as_spares_free(all->spares);
    free(all);
}
