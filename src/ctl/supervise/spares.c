#include "ctl/supervise/spares.h"

#include "base/id.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

struct spare {
    struct as_list node;
    struct as_spares *all;
    struct as_process *process;
    char *name, *deployment;
    struct as_buf shared; /* the SPAWN text without a replica's own items */
    int fd;               /* the other end is its standard input; -1: it is being ended */
};

struct as_spares {
    struct as_list spares;
    struct as_launcher *launcher;
    struct as_console *console;
    void (*on_end)(void *ctx);
    void *ctx;
    bool stopped;
};

static struct spare *new_spare(struct as_spares *all, struct as_str deployment)
{
    struct spare *s = as_xalloc(sizeof(*s));
    struct as_buf name = {0};

    s->all = all;
    s->fd = -1;
    s->deployment = as_str_dup(deployment);
    as_buf_printf(&name, "%.*s-spare", AS_STR_FMT(as_id_shown(deployment)));
    s->name = as_str_dup(as_buf_slice(&name));
    as_buf_fini(&name);
    as_list_push(&all->spares, &s->node);
    return s;
}

static void free_spare(struct spare *s)
{
    as_list_remove(&s->node);
    if (s->fd >= 0)
        close(s->fd);
    as_buf_fini(&s->shared);
    free(s->name);
    free(s->deployment);
    free(s);
}

static void on_line(void *ctx, struct as_str line)
{
    struct spare *s = ctx;

    as_console_write(s->all->console, s->name, line);
}

static void on_process_end(void *ctx, const struct as_process_end *e)
{
    struct spare *s = ctx;
    struct as_spares *all = s->all;
    char reason[256], last[512];
    struct as_str why, line;

    as_output_split_report(e->reason, &why, &line);
    if (s->fd >= 0) /* by itself */
        as_log_event(all->launcher->log, AS_LOG_WARN, "spare_gone",
                     "deployment=%s reason=%s last=%s", as_id_shown_z(s->deployment),
                     as_log_quote(reason, sizeof(reason), why),
                     as_log_quote(last, sizeof(last), line));
    free_spare(s);
    all->on_end(all->ctx);
}

static const struct as_process_ops spare_ops = {on_line, on_process_end};

static void end_spare(struct spare *s, struct as_str why)
{
    if (s->fd < 0)
        return;
    close(s->fd);
    s->fd = -1;
    as_process_kill(s->process, why);
}

static bool is_spare_for(const struct spare *s, struct as_str deployment, struct as_str shared)
{
    return s->fd >= 0 && as_str_eq(as_str_of(s->deployment), deployment) &&
           as_str_eq(as_buf_slice(&s->shared), shared);
}

struct as_process *as_spares_acquire(struct as_spares *all, struct as_str deployment,
                                     struct as_str spawn, const struct as_process_ops *ops,
                                     void *ctx)
{
    struct as_process *p = NULL;
    struct as_buf shared = {0}, own = {0};

    as_spawn_split(spawn, &shared, &own);
    AS_LIST_EACH_ENTRY(s, struct spare, node, &all->spares) {
        if (!is_spare_for(s, deployment, as_buf_slice(&shared)))
            continue;
        /* an empty socket takes so few bytes at once, unless the spare has ended */
        if (send(s->fd, own.p, own.n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)own.n) {
            end_spare(s, AS_STR("the spare does not take its identity"));
            continue;
        }
        p = s->process;
        as_process_set_owner(p, ops, ctx);
        free_spare(s); /* closes the socket, which ends the message */
        break;
    }
    as_buf_fini(&shared);
    as_buf_fini(&own);
    return p;
}

static int start_spare(struct spare *s, struct as_buf *err)
{
    struct as_buf text = {0};
    struct as_spawn how;
    int ends[2], rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        as_buf_str(err, "no file descriptor left\n");
        return AS_EIO;
    }
    s->fd = ends[0];
    as_buf_add(&text, s->shared.p, s->shared.n);
    as_spawn_put(&text, AS_SPAWN_ENV, "ANYSERVE_SPARE=1");
    rc = as_spawn_parse(&how, as_buf_slice(&text));
    if (rc == 0) {
        rc = as_launch(s->all->launcher, s->name, &how, ends[1], &spare_ops, s, &s->process, err);
        as_spawn_fini(&how);
    }
    as_buf_fini(&text);
    close(ends[1]);
    return rc;
}

void as_spares_refill(struct as_spares *all, struct as_str deployment, struct as_str spawn)
{
    uint32_t wanted = as_spawn_spares(spawn), n = 0;
    struct as_buf shared = {0}, own = {0}, err = {0};

    if (!wanted || all->stopped)
        return;
    as_spawn_split(spawn, &shared, &own);
    AS_LIST_EACH_ENTRY(s, struct spare, node, &all->spares)
        n += is_spare_for(s, deployment, as_buf_slice(&shared));
    for (; n < wanted; n++) {
        struct spare *s = new_spare(all, deployment);

        as_buf_add(&s->shared, shared.p, shared.n);
        if (start_spare(s, &err) < 0) {
            char reason[256];
            struct as_str why, rest;

            as_output_split_report(as_buf_slice(&err), &why, &rest);
            as_log_event(all->launcher->log, AS_LOG_WARN, "spare_failed", "deployment=%s reason=%s",
                         as_id_shown_z(s->deployment), as_log_quote(reason, sizeof(reason), why));
            free_spare(s);
            break;
        }
    }
    as_buf_fini(&shared);
    as_buf_fini(&own);
    as_buf_fini(&err);
}

void as_spares_sweep(struct as_spares *all,
                     bool (*wanted)(void *ctx, struct as_str deployment, struct as_str shared),
                     void *ctx)
{
    AS_LIST_EACH_ENTRY(s, struct spare, node, &all->spares) {
        if (!wanted(ctx, as_str_of(s->deployment), as_buf_slice(&s->shared)))
            end_spare(s, AS_STR("it fits no replica any more"));
    }
}

void as_spares_stop(struct as_spares *all)
{
    all->stopped = true;
    AS_LIST_EACH_ENTRY(s, struct spare, node, &all->spares)
        end_spare(s, AS_STR("the server ends"));
}

bool as_spares_any(const struct as_spares *all)
{
    return !as_list_empty(&all->spares);
}

bool as_spares_owns_pid(const struct as_spares *all, pid_t pid)
{
    AS_LIST_EACH_ENTRY(s, const struct spare, node, &all->spares) {
        if (as_process_pid(s->process) == pid)
            return true;
    }
    return false;
}

/* --- an upgrade's exec --- */

void as_spares_save(const struct as_spares *all, As__Supervisor *state)
{
    AS_LIST_EACH_ENTRY(s, struct spare, node, &all->spares) {
        As__Spare *m = as_reexec_new(&as__spare__descriptor);

        m->deployment = as_str_dup(as_id_name(as_str_of(s->deployment)));
        m->process = as_process_save(s->process, state);
        AS_REEXEC_APPEND(state, spares, m);
    }
}

/* The exec closed their sockets, so that they end by themselves; they are kept until they are
 * reaped. */
void as_spares_restore(struct as_spares *all, struct as_reexec_reader *in)
{
    for (size_t i = 0; i < in->state->n_spares && !in->failed; i++) {
        const As__Spare *m = in->state->spares[i];
        struct spare *s = new_spare(all, as_str_of(m->deployment));

        s->process = as_process_restore(all->launcher->loop, in, m->process,
                                        all->launcher->oom_seen, &spare_ops, s);
        if (s->process)
            as_process_kill(s->process, AS_STR("it was started before the upgrade"));
        else
            free_spare(s);
    }
}

void as_spares_new(struct as_spares **ret_s, struct as_launcher *launcher,
                   struct as_console *console, void (*on_end)(void *ctx), void *ctx)
{
    struct as_spares *all = as_xalloc(sizeof(*all));

    as_list_init(&all->spares);
    all->launcher = launcher;
    all->console = console;
    all->on_end = on_end;
    all->ctx = ctx;
    *ret_s = all;
}

void as_spares_free(struct as_spares *all)
{
    if (!all)
        return;
    AS_LIST_EACH_ENTRY(s, struct spare, node, &all->spares)
        free_spare(s);
    free(all);
}
