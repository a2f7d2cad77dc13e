#include "ctl/crew.h"

#include "ctl/exit_code.h"
#include "ctl/runtime_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOKEN_BYTES 16u
#define TOKEN_HEX   (2 * TOKEN_BYTES + 1)

/* The crew's view of a deployment: names and whether anybody is left to serve it. Its queue and its
 * models are the dispatcher's business. */
struct deployment {
    const char *name;
    bool down; /* every replica was given up and none has been READY since */
};

/* One replica: its place in the crew is for ever, its processes come and go. */
struct worker {
    struct as_child child;
    struct as_crew *crew;
    struct deployment *deployment;
    bool given_up; /* until it is READY again */
    char name[AS_CTL_NAME_MAX + 1];
    char token[TOKEN_HEX]; /* of this life, or of the next one while it stands in line */
    struct as_list place;  /* in the crew's line */
};

struct as_crew {
    struct as_crew_conf conf;
    struct as_crew_ops ops;
    void *ctx;
    struct as_loop *loop;
    struct as_console *console;
    const struct as_log *log;
    struct as_channel *channel; /* NULL: no dispatcher */
    struct deployment *deployments;
    struct worker *workers;
    uint32_t n;
    bool once_ready; /* on_ready was called */
    bool stopping;
    struct as_task stopped;
    /* Workers that may start but for max_starting. First come, first served: a crash loop of one
     * deployment, whose members come again and again, cannot keep the others from starting. */
    struct as_list line;
    struct as_task admit; /* one has left STARTING */
};

static struct worker *worker_of(struct as_child *c)
{
    return AS_CONTAINER(c, struct worker, child);
}

static struct as_ctl_message message(const struct worker *w, enum as_ctl_type type)
{
    return (struct as_ctl_message){.type = type,
                                   .state = w->child.state,
                                   .pid = (uint32_t)w->child.pid,
                                   .restarts = w->child.starts ? w->child.starts - 1 : 0,
                                   .replica = as_str_of(w->name),
                                   .deployment = as_str_of(w->deployment->name)};
}

/* For TOKEN and FORGET. The token, not the replica's name, tells one life of a worker from the
 * next. */
static void say_token(struct worker *w, enum as_ctl_type type)
{
    struct as_ctl_message m = message(w, type);

    m.token = as_str_of(w->token);
    as_channel_say(w->crew->channel, &m);
}

static bool stands_in_line(const struct worker *w)
{
    return !as_list_empty(&w->place);
}

static void say_replica(struct worker *w)
{
    struct as_ctl_message m = message(w, AS_CTL_REPLICA);

    m.text = stands_in_line(w) ? AS_STR("others are starting (--max-starting)")
                               : as_buf_slice(&w->child.reason);
    as_channel_say(w->crew->channel, &m);
}

static uint32_t count_starting(const struct as_crew *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        n += c->workers[i].child.state == AS_CTL_STARTING_STATE;
    return n;
}

static void admit(struct as_crew *c)
{
    struct as_list *n;

    while (!c->stopping && count_starting(c) < c->conf.max_starting && (n = as_list_pop(&c->line)))
        as_child_start(&AS_LIST_ENTRY(n, struct worker, place)->child);
}

static void on_admit(struct as_task *t)
{
    admit(AS_CONTAINER(t, struct as_crew, admit));
}

/* The dispatcher hears the token that a worker will come with before it is started: a quick one may
 * be there sooner than we are back. Of one that has to wait it must know the deployment, or it
 * would take its models for unknown and itself for ready. */
static void on_due(struct as_child *child)
{
    struct worker *w = worker_of(child);

    as_runtime_random_hex(w->token, TOKEN_BYTES);
    say_token(w, AS_CTL_TOKEN);
    as_list_push(&w->crew->line, &w->place);
    admit(w->crew);
    if (stands_in_line(w))
        say_replica(w);
}

/* `down` is said once per deployment: one replica that is left serves all its requests. */
static bool all_given_up(const struct as_crew *c, const struct deployment *d)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->workers[i].deployment == d && !c->workers[i].given_up)
            return false;
    }
    return true;
}

static void say_down(struct worker *w, enum as_ctl_type type)
{
    struct as_ctl_message m = message(w, type);

    m.text = as_buf_slice(&w->child.reason);
    as_channel_say(w->crew->channel, &m);
}

static int spawn(struct as_child *child, struct as_proc *ret_p, int *ret_out, struct as_buf *err)
{
    struct worker *w = worker_of(child);
    const struct as_crew_conf *conf = &w->crew->conf;
    char deployment[AS_CTL_NAME_MAX + 32]; /* one word: a name may begin with '-' */
    char inputs[48], input_bytes[48];
    const char *argv[] = {
        conf->python, "-m",   "anyserve.worker", conf->target,
        deployment,   inputs, input_bytes,       conf->debug_errors ? "--debug-errors" : NULL,
        NULL};
    /* By environment, not by argument: the command line of a process is readable by everybody. The
     * worker takes the token out of it before it serves. */
    char link[AS_RUNTIME_PATH_MAX + 32], token[64], replica[AS_CTL_NAME_MAX + 32];
    const char *env[] = {link, token, replica, "PYTHONUNBUFFERED=1", NULL};
    struct as_proc_spec spec = {.path = conf->python,
                                .argv = argv,
                                .env = env,
                                .in = -1,
                                .group = true,
                                .batch = conf->batch,
                                .death_signal = SIGKILL};
    int out[2], e, rc;

    snprintf(deployment, sizeof(deployment), "--deployment=%s", w->deployment->name);
    snprintf(inputs, sizeof(inputs), "--stream-inputs=%u", conf->stream_inputs);
    snprintf(input_bytes, sizeof(input_bytes), "--stream-input-bytes=%lu",
             (unsigned long)conf->stream_input_bytes);
    snprintf(link, sizeof(link), "ANYSERVE_LINK=%s", conf->link);
    snprintf(token, sizeof(token), "ANYSERVE_TOKEN=%s", w->token);
    snprintf(replica, sizeof(replica), "ANYSERVE_REPLICA=%s", w->name);
    if (pipe2(out, O_CLOEXEC) < 0) {
        /* counts as a failed start: descriptors may be free again after the backoff */
        as_buf_printf(err, "cannot make a pipe: %s", strerror(errno));
        return AS_EIO;
    }
    spec.out = spec.err = out[1]; /* one pipe for both keeps prints and tracebacks in order */
    rc = as_proc_spawn(ret_p, &spec, &e);
    /* ours would keep the pipe open after the worker's end */
    close(out[1]);
    if (rc < 0) {
        close(out[0]);
        as_buf_printf(err, "cannot start %s: %s", conf->python, strerror(e));
        return rc;
    }
    *ret_out = out[0];
    return 0;
}

static void on_line(struct as_child *child, struct as_str line)
{
    struct worker *w = worker_of(child);

    as_console_line(w->crew->console, w->name, line);
}

/* The server's exit code when this death means that the application cannot start, else 0. */
static int fatal_code(const struct as_crew *c, const struct as_child_death *d)
{
    int code = WIFEXITED(d->status) ? WEXITSTATUS(d->status) : AS_CODE_FAILED;

    /* Once it has served, whatever happens to a worker is answered by starting it again: a server
     * does not end because of what a request did. */
    if (c->once_ready || c->stopping)
        return 0;
    return as_code_fatal(code) ? code : d->gave_up ? AS_CODE_FAILED : 0;
}

static void log_death(struct worker *w, const struct as_child_death *d)
{
    char reason[256], last[512], next[64];
    struct as_str why = as_buf_slice(&w->child.reason);
    const char *nl = memchr(why.p, '\n', why.n);

    /* the first line says how it ended; the rest is its output, which the console has shown already
     */
    why.n = nl ? (size_t)(nl - why.p) : why.n;
    if (d->kind == AS_EXIT_STOPPED)
        snprintf(next, sizeof(next), "none: asked to stop");
    else if (fatal_code(w->crew, d))
        snprintf(next, sizeof(next), "none: the server ends");
    else if (d->gave_up)
        snprintf(next, sizeof(next), "given up for %llu ms",
                 (unsigned long long)(w->child.conf.restart.max / AS_MS));
    else
        snprintf(next, sizeof(next), "restart in %llu ms", (unsigned long long)(d->delay / AS_MS));
    as_log_event(w->crew->log,
                 d->kind == AS_EXIT_STOPPED ? AS_LOG_DEBUG
                 : d->gave_up               ? AS_LOG_ERROR
                                            : AS_LOG_WARN,
                 "worker_exit", "replica=%s pid=%d reason=%s next=\"%s\" last=%s", w->name,
                 (int)w->child.pid, as_log_quote(reason, sizeof(reason), why), next,
                 as_log_quote(last, sizeof(last), d->last));
}

static void on_died(struct as_child *child, const struct as_child_death *d)
{
    struct worker *w = worker_of(child);
    struct as_crew *c = w->crew;
    int code = fatal_code(c, d);

    log_death(w, d);
    /* before the next TOKEN: nobody may use what a dead process could have leaked */
    say_token(w, AS_CTL_FORGET);
    if (code)
        c->ops.on_fatal(c->ctx, code, w->name, as_buf_slice(&child->reason));
}

static bool any_runs(const struct as_crew *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (as_child_runs(&c->workers[i].child))
            return true;
    }
    return false;
}

/* A given-up replica rests for the longest backoff, then tries again. Its deployment is down, and
 * refuses requests instead of queueing them, from the last one given up to the first one READY. */
static void after_move(struct worker *w)
{
    struct as_crew *c = w->crew;

    if (w->child.state == AS_CTL_DOWN_STATE) {
        w->given_up = true;
        as_child_revive(&w->child, as_loop_now(c->loop) + c->conf.child.restart.max);
        if (!w->deployment->down && all_given_up(c, w->deployment)) {
            w->deployment->down = true;
            say_down(w, AS_CTL_DOWN);
        }
    } else if (w->child.state == AS_CTL_READY_STATE) {
        w->given_up = false;
        if (w->deployment->down)
            say_down(w, AS_CTL_UP);
        w->deployment->down = false;
    }
}

static void on_moved(struct as_child *child, enum as_ctl_state from)
{
    struct worker *w = worker_of(child);
    struct as_crew *c = w->crew;

    if (child->state == AS_CTL_STARTING_STATE) {
        as_log_event(c->log, AS_LOG_DEBUG, "worker_started", "replica=%s pid=%d", w->name,
                     (int)child->pid);
    }
    if (child->state == AS_CTL_READY_STATE)
        as_log_event(c->log, AS_LOG_DEBUG, "worker_ready", "replica=%s pid=%d", w->name,
                     (int)child->pid);
    if (child->state == AS_CTL_DOWN_STATE)
        as_list_remove(&w->place); /* stopped in line */
    if (from == AS_CTL_STARTING_STATE)
        as_loop_defer(c->loop, &c->admit); /* no start from within another one's move */
    say_replica(w);
    /* deferred: we are inside a child's move, and the owner ends the loop on hearing it */
    if (c->stopping) {
        if (!any_runs(c))
            as_loop_defer(c->loop, &c->stopped);
        return;
    }
    after_move(w);
    if (!c->once_ready && as_crew_ready(c) == c->n) {
        /* every replica, not just one of each deployment: that is what --workers promised */
        c->once_ready = true;
        c->ops.on_ready(c->ctx);
    }
}

static void on_stopped(struct as_task *t)
{
    struct as_crew *c = AS_CONTAINER(t, struct as_crew, stopped);

    c->ops.on_stopped(c->ctx);
}

int as_crew_new(struct as_crew **ret_c, struct as_loop *loop, const struct as_crew_conf *conf,
                const struct as_crew_ops *ops, void *ctx, struct as_console *console,
                const struct as_log *log)
{
    static const struct as_child_ops child_ops = {
        .spawn = spawn, .line = on_line, .due = on_due, .died = on_died, .moved = on_moved};
    struct as_crew *c = as_xalloc(sizeof(*c));

    c->conf = *conf;
    c->ops = *ops;
    c->ctx = ctx;
    c->loop = loop;
    c->console = console;
    c->log = log;
    c->n = conf->app->n * conf->workers;
    c->deployments = as_xalloc(conf->app->n * sizeof(*c->deployments));
    c->workers = as_xalloc(c->n * sizeof(*c->workers));
    as_task_init(&c->stopped, on_stopped);
    as_task_init(&c->admit, on_admit);
    as_list_init(&c->line);
    for (uint32_t i = 0; i < c->n; i++) {
        struct worker *w = &c->workers[i];

        w->crew = c;
        as_list_init(&w->place);
        w->deployment = &c->deployments[i / conf->workers];
        w->deployment->name = conf->app->deployments[i / conf->workers].name;
        snprintf(w->name, sizeof(w->name), "%s-%u", w->deployment->name, i % conf->workers);
        as_child_init(&w->child, w->name, loop, &conf->child, &child_ops);
        as_child_hold(&w->child, true);
    }
    *ret_c = c;
    return 0;
}

void as_crew_close(struct as_crew *c)
{
    as_task_cancel(&c->stopped);
    as_task_cancel(&c->admit);
    for (uint32_t i = 0; i < c->n; i++)
        as_child_fini(&c->workers[i].child);
}

void as_crew_free(struct as_crew *c)
{
    if (!c)
        return;
    free(c->workers);
    free(c->deployments);
    free(c);
}

void as_crew_start(struct as_crew *c)
{
    /* a start that fails may stop the crew */
    for (uint32_t k = 0; k < c->conf.workers; k++) {
        for (uint32_t i = k; i < c->n && !c->stopping; i += c->conf.workers)
            on_due(&c->workers[i].child);
    }
}

/* Held until the new dispatcher serves: nobody could become READY, so no start timeout may run out.
 */
void as_crew_set_channel(struct as_crew *c, struct as_channel *channel)
{
    c->channel = channel;
    for (uint32_t i = 0; i < c->n; i++) {
        struct worker *w = &c->workers[i];

        as_child_hold(&w->child, true);
        /* the processes live on and come back to the next dispatcher by themselves */
        if (!channel) {
            as_child_lost(&w->child);
            continue;
        }
        if (as_child_runs(&w->child) || stands_in_line(w))
            say_token(w, AS_CTL_TOKEN);
        say_replica(w);
        /* or requests would queue for workers that nobody will start */
        if (w->deployment->down)
            say_down(w, AS_CTL_DOWN);
    }
    as_channel_say(channel, &(struct as_ctl_message){.type = AS_CTL_TOLD});
}

void as_crew_serving(struct as_crew *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        as_child_hold(&c->workers[i].child, false);
    if (c->n == 0 && !c->once_ready) { /* a server for workers from outside */
        c->once_ready = true;
        c->ops.on_ready(c->ctx);
    }
}

void as_crew_message(struct as_crew *c, const struct as_ctl_message *m)
{
    char why[256];

    for (uint32_t i = 0; i < c->n; i++) {
        struct worker *w = &c->workers[i];

        /* the token tells a word about an earlier life from one about this */
        if (!as_child_runs(&w->child) || !as_str_eq(m->token, as_str_of(w->token)))
            continue;
        if (m->type == AS_CTL_READY)
            as_child_ready(&w->child);
        if (m->type == AS_CTL_GONE)
            as_child_lost(&w->child);
        if (m->type == AS_CTL_KILL) {
            snprintf(why, sizeof(why), "%.*s", AS_STR_FMT(m->text));
            as_child_kill(&w->child, why);
        }
        return;
    }
}

void as_crew_stop(struct as_crew *c, int signal, as_ns timeout)
{
    c->stopping = true;
    for (uint32_t i = 0; i < c->n; i++)
        as_child_stop(&c->workers[i].child, signal, timeout);
    if (!any_runs(c))
        as_loop_defer(c->loop, &c->stopped);
}

uint32_t as_crew_revive(struct as_crew *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n && !c->stopping; i++) {
        n += c->workers[i].child.state == AS_CTL_DOWN_STATE;
        as_child_revive(&c->workers[i].child, 0);
    }
    return n;
}

uint32_t as_crew_size(const struct as_crew *c)
{
    return c->n;
}

uint32_t as_crew_ready(const struct as_crew *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        n += c->workers[i].child.state == AS_CTL_READY_STATE;
    return n;
}

bool as_crew_has(const struct as_crew *c, pid_t pid)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->workers[i].child.pid == pid)
            return true;
    }
    return false;
}
