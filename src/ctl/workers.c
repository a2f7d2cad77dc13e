#include "ctl/workers.h"

#include "ctl/spawn.h"
#include "ctl/standing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* One replica: its place is for as long as the controller wants it, its processes come and go. */
struct worker {
    struct as_list node;
    struct as_workers *all;
    struct as_process *process; /* NULL: waits, is given up, or has just died */
    enum as_ctl_state state;
    uint32_t restarts;
    char *name, *deployment;
    char *token;          /* of the process, or of the last one */
    char *note;           /* the controller's */
    struct as_buf reason; /* how the last process ended, or why there is none */
    struct {
        bool known; /* one has ended, and the controller has not said what comes then */
        pid_t pid;
        int status;
        enum as_exit_kind kind;
    } end;
};

struct as_workers {
    struct as_workers_conf conf;
    struct as_loop *loop;
    struct as_console *console;
    const struct as_log *log;
    struct as_channel *dispatcher, *controller; /* NULL: not there */
    struct as_list workers;
    struct as_standing standing;
    struct as_task stopped;
    uint32_t groups; /* control groups that were opened: their names' numbers */
    bool unbound;    /* that there are none to be had was logged */
    bool begun;      /* dispatchers may be told that they were told all */
    bool stopping;
};

/* --- what is said --- */

static struct as_ctl_message message(const struct worker *w, enum as_ctl_type type)
{
    return (struct as_ctl_message){.type = type,
                                   .state = w->state,
                                   .pid = w->process ? (uint32_t)as_process_pid(w->process) : 0,
                                   .restarts = w->restarts,
                                   .replica = as_str_of(w->name),
                                   .deployment = as_str_of(w->deployment)};
}

/* For the dispatcher. The token, not the replica's name, tells one life of a worker from the next.
 */
static void say_token(struct worker *w)
{
    struct as_ctl_message m = message(w, AS_CTL_TOKEN);

    m.token = as_str_of(w->token);
    as_channel_say(w->all->dispatcher, &m);
}

/* How it ended says whether a request may be to blame: our own SIGKILL is no more a request's doing
 * than somebody else's. */
static void say_forget(struct worker *w)
{
    struct as_ctl_message m = message(w, AS_CTL_FORGET);
    bool killed = WIFSIGNALED(w->end.status) && WTERMSIG(w->end.status) == SIGKILL;

    m.token = as_str_of(w->token);
    m.kind = w->end.kind == AS_EXIT_CRASH && killed ? AS_EXIT_KILLED : w->end.kind;
    as_channel_say(w->all->dispatcher, &m);
}

static void say_replica(struct worker *w)
{
    struct as_ctl_message m = message(w, AS_CTL_REPLICA);

    m.text = as_buf_slice(&w->reason);
    as_channel_say(w->all->dispatcher, &m);
}

static void say_exited(struct worker *w)
{
    struct as_ctl_message m = message(w, AS_CTL_EXITED);

    m.token = as_str_of(w->token);
    m.pid = (uint32_t)w->end.pid;
    m.number = (uint32_t)w->end.status;
    m.kind = w->end.kind;
    m.text = as_buf_slice(&w->reason);
    as_channel_say(w->all->controller, &m);
}

/* What the controller has noted, for the status page. */
static void say_note(struct worker *w)
{
    struct as_ctl_message m = message(w, AS_CTL_NOTE);

    m.text = as_str_of(w->note);
    as_channel_say(w->all->dispatcher, &m);
}

static void say_told(struct as_workers *all)
{
    if (all->begun)
        as_channel_say(all->dispatcher, &(struct as_ctl_message){.type = AS_CTL_TOLD});
}

/* --- the table --- */

static struct worker *find(const struct as_workers *all, struct as_str name)
{
    AS_LIST_EACH(n, &all->workers)
    {
        struct worker *w = AS_LIST_ENTRY(n, struct worker, node);

        if (as_str_eq(as_str_of(w->name), name))
            return w;
    }
    return NULL;
}

/* The one whose process has this token: a word about an earlier life finds nobody. */
static struct worker *find_running(const struct as_workers *all, struct as_str token)
{
    AS_LIST_EACH(n, &all->workers)
    {
        struct worker *w = AS_LIST_ENTRY(n, struct worker, node);

        if (w->process && as_str_eq(as_str_of(w->token), token))
            return w;
    }
    return NULL;
}

static bool any_runs(const struct as_workers *all)
{
    AS_LIST_EACH(n, &all->workers)
    {
        if (AS_LIST_ENTRY(n, struct worker, node)->process)
            return true;
    }
    return false;
}

static void set_text(char **text, struct as_str s)
{
    free(*text);
    *text = as_str_dup(s);
}

static void set_reason(struct as_buf *b, struct as_str s)
{
    as_buf_drop(b, b->n);
    as_buf_add(b, s.p, s.n);
}

static struct worker *get(struct as_workers *all, const struct as_ctl_message *m)
{
    struct worker *w = find(all, m->replica);

    if (!w) {
        w = as_xalloc(sizeof(*w));
        w->all = all;
        w->state = AS_CTL_WAITING_STATE;
        w->name = as_str_dup(m->replica);
        w->token = as_str_dup(AS_STR(""));
        w->note = as_str_dup(AS_STR(""));
        as_buf_init(&w->reason);
        as_list_push(&all->workers, &w->node);
    }
    set_text(&w->deployment, m->deployment);
    return w;
}

static void free_worker(struct worker *w)
{
    AS_ASSERT(!w->process);
    as_list_remove(&w->node);
    as_buf_fini(&w->reason);
    free(w->name);
    free(w->deployment);
    free(w->token);
    free(w->note);
    free(w);
}

static void move(struct worker *w, enum as_ctl_state to)
{
    bool runs = to != AS_CTL_WAITING_STATE && to != AS_CTL_DOWN_STATE;

    AS_ASSERT(runs == (w->process != NULL));
    if (w->state == to)
        return;
    w->state = to;
    say_replica(w);
}

/* --- a process --- */

static void on_line(void *ctx, struct as_str line)
{
    struct worker *w = ctx;

    as_console_line(w->all->console, w->name, line);
}

/* Also of one that could not even be started. */
static void ended(struct worker *w, int status, enum as_exit_kind kind, struct as_str reason)
{
    w->end.pid = w->process ? as_process_pid(w->process) : 0;
    w->process = NULL;
    w->end.known = true;
    w->end.status = status;
    w->end.kind = kind;
    set_reason(&w->reason, reason);
    /* nobody may use what a dead process could have leaked, whether there is a controller or not */
    say_forget(w);
    w->state = AS_CTL_WAITING_STATE;
    say_replica(w);
    say_exited(w);
}

static void on_end(void *ctx, const struct as_process_end *e)
{
    struct worker *w = ctx;
    struct as_workers *all = w->all;

    as_log_event(all->log, AS_LOG_DEBUG, "process_end", "replica=%s pid=%d status=%d", w->name,
                 (int)as_process_pid(w->process), e->status);
    ended(w, e->status, e->kind, e->reason);
    if (all->stopping && !any_runs(all))
        as_loop_defer(all->loop, &all->stopped);
}

/* A control group bounds all that a worker starts, and ends it; without one the kernel refuses
 * memory to each process of it alone. */
static void bound(struct worker *w, uint64_t bytes, struct as_cgroup *group,
                  struct as_proc_spec *spec)
{
    char name[200];
    int e;

    snprintf(name, sizeof(name), "%u-%.100s", ++w->all->groups, w->name);
    if (as_cgroup_open(group, "", name, bytes, &e) == 0) {
        spec->cgroup = group;
        return;
    }
    spec->memory = bytes;
    if (!w->all->unbound)
        as_log_event(w->all->log, AS_LOG_INFO, "memory_by_rlimit", "replica=%s reason=\"%s\"",
                     w->name, strerror(e));
    w->all->unbound = true;
}

static void tell_refusal(const struct as_spawn *s, int rc, int e, struct as_buf *err)
{
    if (s->dir && access(s->dir, X_OK) < 0)
        as_buf_printf(err, "cannot start in %s: %s\n", s->dir, strerror(errno));
    else if (s->cpus && rc == AS_EINVALID)
        as_buf_printf(err, "cannot run on the CPUs %s: %s\n", s->cpus, strerror(e));
    else
        as_buf_printf(err, "cannot start %s: %s\n", s->argv[0], strerror(e));
}

static int start(struct worker *w, const struct as_spawn *s, struct as_buf *err)
{
    static const struct as_process_ops ops = {on_line, on_end};
    struct as_proc_spec spec = {.path = s->argv[0],
                                .argv = s->argv,
                                .env = s->env,
                                .in = -1,
                                .group = true,
                                .batch = s->batch,
                                .dir = s->dir,
                                .cpus = s->cpus,
                                .death_signal = SIGKILL};
    struct as_cgroup group = {.procs = -1};
    struct as_proc p;
    int out[2], e, rc;

    if (pipe2(out, O_CLOEXEC) < 0) {
        as_buf_printf(err, "cannot make a pipe: %s\n", strerror(errno));
        return AS_EIO;
    }
    spec.out = spec.err = out[1]; /* one pipe for both keeps prints and tracebacks in order */
    if (s->memory)
        bound(w, s->memory, &group, &spec);
    rc = as_proc_spawn(&p, &spec, &e);
    /* ours would keep the pipe open after the worker's end */
    close(out[1]);
    if (rc < 0) {
        close(out[0]);
        as_cgroup_close(&group); /* nothing is in it */
        tell_refusal(s, rc, e, err);
        return rc;
    }
    rc = as_process_watch(&w->process, w->all->loop, &p, out[0], w->all->conf.oom_seen, &ops, w);
    if (rc < 0) {
        as_cgroup_close(&group);
        as_buf_str(err, "no descriptor left to watch it\n");
    } else {
        as_process_own_group(w->process, &group);
    }
    return rc;
}

/* The dispatcher hears the token that a worker will come with before it is started: a quick one may
 * be there sooner than we are back. */
static void spawn(struct as_workers *all, const struct as_ctl_message *m)
{
    struct worker *w = get(all, m);
    struct as_ctl_message answer;
    struct as_spawn s;
    struct as_buf err;
    int rc;

    /* asked by a controller that knows less than we do: it will hear of the one that runs */
    if (w->process || all->stopping)
        return;
    as_list_remove(&w->node); /* a new controller hears of the oldest process first */
    as_list_push(&all->workers, &w->node);
    as_buf_init(&err);
    set_text(&w->token, m->token);
    w->restarts = m->restarts;
    w->end.known = false;
    say_token(w);
    rc = as_spawn_read(&s, m->text);
    if (rc < 0) {
        as_buf_str(&err, "nothing that could be started\n");
    } else {
        rc = start(w, &s, &err);
        as_spawn_fini(&s);
    }
    if (rc < 0) {
        /* as shells report a command that cannot be started */
        ended(w, 127 << 8, AS_EXIT_CODE, as_buf_slice(&err));
    } else {
        move(w, AS_CTL_STARTING_STATE);
        say_note(w);
        answer = message(w, AS_CTL_SPAWNED);
        answer.token = as_str_of(w->token);
        as_channel_say(all->controller, &answer);
    }
    as_buf_fini(&err);
}

static void stop(struct worker *w, int signal, as_ns timeout)
{
    as_process_stop(w->process, signal, timeout);
    move(w, AS_CTL_STOPPING_STATE);
}

/* --- what is heard --- */

/* A replica without a process: why, and whether one will come. */
static void place(struct as_workers *all, const struct as_ctl_message *m)
{
    struct worker *w = get(all, m);

    if (w->process || (m->state != AS_CTL_WAITING_STATE && m->state != AS_CTL_DOWN_STATE))
        return;
    w->end.known = false; /* decided */
    w->state = m->state;
    w->restarts = m->restarts;
    set_reason(&w->reason, m->text);
    say_replica(w);
}

static void remove_place(struct as_workers *all, const struct as_ctl_message *m)
{
    struct worker *w = find(all, m->replica);

    if (!w || w->process)
        return;
    as_channel_say(all->dispatcher, m);
    free_worker(w);
}

/* A word about the process that has this token. */
static void hear_of(struct worker *w, const struct as_ctl_message *m)
{
    switch (m->type) {
    case AS_CTL_READY:
        if (w->state == AS_CTL_STARTING_STATE || w->state == AS_CTL_LOST_STATE)
            move(w, AS_CTL_READY_STATE);
        break;
    case AS_CTL_GONE:
        if (w->state == AS_CTL_READY_STATE)
            move(w, AS_CTL_LOST_STATE);
        break;
    case AS_CTL_KILL:
        as_process_kill(w->process, m->text);
        break;
    case AS_CTL_SIGNAL:
        stop(w, m->number < NSIG ? (int)m->number : SIGTERM, m->ns);
        break;
    default:
        AS_ASSERT(false);
    }
}

void as_workers_hear(struct as_workers *all, const struct as_ctl_message *m)
{
    struct worker *w;

    switch (m->type) {
    case AS_CTL_SPAWN:
        spawn(all, m);
        break;
    case AS_CTL_PLACE:
        place(all, m);
        break;
    case AS_CTL_NOTE: /* also before the first SPAWN */
        w = get(all, m);
        set_text(&w->note, m->text);
        say_note(w);
        break;
    case AS_CTL_REMOVE:
        remove_place(all, m);
        break;
    case AS_CTL_DOWN:
    case AS_CTL_UP:
    case AS_CTL_STATUS:
        as_standing_hear(&all->standing, m, all->dispatcher);
        break;
    default:
        w = find_running(all, m->token);
        if (w)
            hear_of(w, m);
    }
}

void as_workers_dispatcher(struct as_workers *all, struct as_channel *channel)
{
    all->dispatcher = channel;
    AS_LIST_EACH(n, &all->workers)
    {
        struct worker *w = AS_LIST_ENTRY(n, struct worker, node);

        /* the processes live on and come back to the next dispatcher by themselves */
        if (!channel) {
            if (w->state == AS_CTL_READY_STATE)
                w->state = AS_CTL_LOST_STATE;
            continue;
        }
        if (w->process)
            say_token(w);
        say_replica(w);
        say_note(w);
    }
    /* or requests would queue for workers that nobody will start */
    as_standing_dispatcher(&all->standing, channel);
    say_told(all);
}

void as_workers_begin(struct as_workers *all)
{
    if (all->begun)
        return;
    all->begun = true;
    say_told(all);
}

void as_workers_controller(struct as_workers *all, struct as_channel *channel)
{
    all->controller = channel;
    if (!channel)
        return;
    AS_LIST_EACH(n, &all->workers)
    {
        struct worker *w = AS_LIST_ENTRY(n, struct worker, node);
        struct as_ctl_message m = message(w, AS_CTL_RUNS);

        m.token = as_str_of(w->token);
        m.number = w->end.known;
        m.text = as_str_of(w->note);
        as_channel_say(channel, &m);
        if (w->end.known)
            say_exited(w);
    }
    as_standing_controller(&all->standing, channel);
}

void as_workers_stop(struct as_workers *all, int signal, as_ns timeout)
{
    all->stopping = true;
    AS_LIST_EACH(n, &all->workers)
    {
        struct worker *w = AS_LIST_ENTRY(n, struct worker, node);

        if (w->process)
            stop(w, signal, timeout);
    }
    if (!any_runs(all))
        as_loop_defer(all->loop, &all->stopped);
}

bool as_workers_has(const struct as_workers *all, pid_t pid)
{
    AS_LIST_EACH(n, &all->workers)
    {
        struct worker *w = AS_LIST_ENTRY(n, struct worker, node);

        if (w->process && as_process_pid(w->process) == pid)
            return true;
    }
    return false;
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
    as_standing_init(&all->standing);
    as_task_init(&all->stopped, on_stopped);
    as_cgroup_sweep("");
    *ret_w = all;
    return 0;
}

void as_workers_close(struct as_workers *all)
{
    as_task_cancel(&all->stopped);
    all->dispatcher = all->controller = NULL;
}

void as_workers_free(struct as_workers *all)
{
    if (!all)
        return;
    while (!as_list_empty(&all->workers))
        free_worker(AS_LIST_ENTRY(all->workers.next, struct worker, node));
    as_standing_fini(&all->standing);
    free(all);
}
