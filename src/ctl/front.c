#include "ctl/front.h"

#include <signal.h>
#include <unistd.h>

/* The dispatcher as a child: always exactly one, brought back whatever happens once it has served.
 */
struct as_front {
    struct as_child child;
    struct as_front_conf conf;
    struct as_front_ops ops;
    void *ctx;
    const struct as_log *log;
    struct as_loop *loop;
    struct as_channel *channel; /* NULL without a process */
    struct as_task down;
    bool stopping;
};

static struct as_front *front_of(struct as_child *c)
{
    return AS_CONTAINER(c, struct as_front, child);
}

static void on_message(void *ctx, const struct as_ctl_message *m)
{
    struct as_front *f = ctx;

    if (m->type == AS_CTL_SERVING)
        as_child_ready(&f->child);
    else
        f->ops.on_message(f->ctx, m);
}

static void on_channel_end(void *ctx)
{
    struct as_front *f = ctx;

    /* most likely it has just died; if not, it has until the start timeout */
    f->channel = NULL;
    f->ops.on_channel(f->ctx, NULL);
    as_child_lost(&f->child);
}

/* The child's command line: the options that it knows, then its descriptors. */
/* Only options of its scope: it cannot be told what it does not know. Free with
 * as_option_argv_free. */
static char **make_argv(const struct as_front *f, const struct as_handover *h, struct as_buf *fds)
{
    char **options = as_option_argv(f->conf.opts, AS_SCOPE_DISPATCHER), **argv;
    size_t n = 0, k = 0;

    while (options[n])
        n++;
    argv = as_xalloc((n + 4) * sizeof(*argv));
    argv[k++] = as_str_dup(AS_STR("anyserve"));
    argv[k++] = as_str_dup(AS_STR("dispatcher"));
    as_buf_printf(fds, "--%s=", as_option_key(AS_OPT_FDS));
    as_handover_write(h, fds);
    argv[k++] = as_str_dup(as_buf_slice(fds));
    memcpy(&argv[k], options, (n + 1) * sizeof(*argv));
    free(options);
    return argv;
}

static int spawn(struct as_child *child, struct as_proc *ret_p, int *ret_out, struct as_buf *err)
{
    static const struct as_channel_ops channel_ops = {on_message, on_channel_end};
    struct as_front *f = front_of(child);
    struct as_handover h = f->conf.listeners;
    struct as_proc_spec spec = {
        .path = f->conf.program, .in = -1, .out = -1, .err = -1, .group = true};
    struct as_buf fds;
    char **argv;
    int fd, e, rc;

    *ret_out = -1;
    /* a new pair for each life: what an old one still had to say dies with it */
    if (as_channel_open(&f->channel, f->loop, &channel_ops, f, &fd) < 0) {
        as_buf_str(err, "cannot make the control socket");
        return AS_EIO;
    }
    as_handover_add(&h, AS_HANDOVER_CONTROL, fd);
    as_buf_init(&fds);
    argv = make_argv(f, &h, &fds);
    spec.argv = (const char *const *)argv;
    spec.fds = h.fd;
    spec.n_fds = h.n;
    /* told before it runs: what it has to know comes before anything else */
    f->ops.on_channel(f->ctx, f->channel);
    rc = as_proc_spawn(ret_p, &spec, &e);
    /* its end; the channel ends when the process does */
    close(fd);
    as_option_argv_free(argv);
    as_buf_fini(&fds);
    if (rc < 0)
        as_buf_printf(err, "cannot start %s: %s", f->conf.program, strerror(e));
    return rc;
}

static void on_line(struct as_child *child, struct as_str line)
{
    (void)child;
    (void)line; /* it writes to our stderr itself: its last words need nobody to pass them on */
}

static void on_died(struct as_child *child, const struct as_child_death *d)
{
    struct as_front *f = front_of(child);
    char reason[256];
    struct as_str why = {(const char *)child->reason.p, child->reason.n - 1};

    as_channel_close(f->channel);
    f->channel = NULL;
    if (d->kind != AS_EXIT_STOPPED)
        as_log_event(f->log, d->gave_up ? AS_LOG_ERROR : AS_LOG_WARN, "dispatcher_exit",
                     "pid=%d reason=%s restart_ms=%llu", (int)child->pid,
                     as_log_quote(reason, sizeof(reason), why),
                     (unsigned long long)(d->delay / AS_MS));
    /* workers are LOST from now on, not dead */
    f->ops.on_channel(f->ctx, NULL);
}

static void on_moved(struct as_child *child, enum as_ctl_state from)
{
    struct as_front *f = front_of(child);

    if (child->state == AS_CTL_READY_STATE && from == AS_CTL_STARTING_STATE) {
        child->conf.restart.give_up = 0; /* it can serve: it is brought back whatever happens */
        f->ops.on_serving(f->ctx);
    }
    if (child->state == AS_CTL_DOWN_STATE)
        as_loop_defer(f->loop, &f->down);
}

static void on_down(struct as_task *t)
{
    struct as_front *f = AS_CONTAINER(t, struct as_front, down);

    f->ops.on_down(f->ctx, !f->stopping);
}

int as_front_new(struct as_front **ret_f, struct as_loop *loop, const struct as_front_conf *conf,
                 const struct as_front_ops *ops, void *ctx, const struct as_log *log)
{
    static const struct as_child_ops child_ops = {
        .spawn = spawn, .line = on_line, .died = on_died, .moved = on_moved};
    struct as_front *f = as_xalloc(sizeof(*f));

    f->conf = *conf;
    f->ops = *ops;
    f->ctx = ctx;
    f->log = log;
    f->loop = loop;
    as_task_init(&f->down, on_down);
    as_child_init(&f->child, "dispatcher", loop, &conf->child, &child_ops);
    *ret_f = f;
    return 0;
}

/* Clients are refused by the kernel when the dispatcher's copies go too: at a drain, not before. */
static void close_listeners(struct as_front *f)
{
    while (f->conf.listeners.n > 0)
        close(f->conf.listeners.fd[--f->conf.listeners.n]);
}

void as_front_close(struct as_front *f)
{
    close_listeners(f);
    as_task_cancel(&f->down);
    as_channel_close(f->channel);
    f->channel = NULL;
    as_child_fini(&f->child);
}

void as_front_free(struct as_front *f)
{
    free(f);
}

void as_front_start(struct as_front *f)
{
    as_child_start(&f->child);
}

void as_front_drain(struct as_front *f, as_ns timeout)
{
    f->stopping = true;
    close_listeners(f);
    as_channel_say(f->channel, &(struct as_ctl_message){.type = AS_CTL_DRAIN});
    as_child_stop(&f->child, 0, timeout);
}

void as_front_stop(struct as_front *f)
{
    f->stopping = true;
    close_listeners(f);
    as_child_stop(&f->child, SIGKILL, 0);
}

bool as_front_has(const struct as_front *f, pid_t pid)
{
    return f->child.pid == pid;
}
