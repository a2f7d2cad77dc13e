/* The table of workers: lookup, and saving and restoring it for an upgrade's exec. */
#include "ctl/supervise/workers_internal.h"

#include <signal.h>

struct as_workers_row *as_workers_find(const struct as_workers *all, struct as_str name)
{
    AS_LIST_EACH(n, &all->workers)
    {
        struct as_workers_row *w = AS_LIST_ENTRY(n, struct as_workers_row, node);

        if (as_str_eq(as_str_of(w->name), name))
            return w;
    }
    return NULL;
}

struct as_workers_row *as_workers_find_running(const struct as_workers *all, struct as_str token)
{
    AS_LIST_EACH(n, &all->workers)
    {
        struct as_workers_row *w = AS_LIST_ENTRY(n, struct as_workers_row, node);

        if (w->process && as_str_eq(as_str_of(w->token), token))
            return w;
    }
    return NULL;
}

const char *as_workers_name_of_pid(const struct as_workers *all, pid_t pid)
{
    AS_LIST_EACH(n, &all->workers)
    {
        struct as_workers_row *w = AS_LIST_ENTRY(n, struct as_workers_row, node);

        /* the pid of one that has just ended is not reused so soon */
        if ((w->process && as_process_pid(w->process) == pid) ||
            (w->last_exit.undecided && w->last_exit.pid == pid))
            return w->name;
    }
    return as_spares_owns_pid(all->spares, pid) ? "spare" : NULL;
}

bool as_workers_any_running(const struct as_workers *all)
{
    AS_LIST_EACH(n, &all->workers)
    {
        if (AS_LIST_ENTRY(n, struct as_workers_row, node)->process)
            return true;
    }
    return false;
}

void as_workers_set_text(char **text, struct as_str s)
{
    free(*text);
    *text = as_str_dup(s);
}

void as_workers_set_bytes(struct as_buf *b, struct as_str s)
{
    as_buf_drop(b, b->n);
    as_buf_add(b, s.p, s.n);
}

struct as_str as_workers_reason(const struct as_workers_row *w)
{
    return as_buf_slice(w->wait_reason.n ? &w->wait_reason : &w->reason);
}

struct as_workers_row *as_workers_find_or_add(struct as_workers *all,
                                              const struct as_ctl_message *m)
{
    struct as_workers_row *w = as_workers_find(all, m->replica);

    if (!w) {
        w = as_xalloc(sizeof(*w));
        w->all = all;
        w->state = AS_CTL_WAITING_STATE;
        w->name = as_str_dup(m->replica);
        w->token = as_str_dup(AS_STR(""));
        w->note = as_str_dup(AS_STR(""));
        as_buf_init(&w->reason);
        as_buf_init(&w->wait_reason);
        as_buf_init(&w->spawn);
        as_list_push(&all->workers, &w->node);
    }
    as_workers_set_text(&w->deployment, m->deployment);
    return w;
}

void as_workers_free_row(struct as_workers_row *w)
{
    AS_ASSERT(!w->process);
    as_list_remove(&w->node);
    as_buf_fini(&w->reason);
    as_buf_fini(&w->wait_reason);
    as_buf_fini(&w->spawn);
    free(w->name);
    free(w->deployment);
    free(w->token);
    free(w->note);
    free(w);
}

/* --- an upgrade's exec --- */

static void save_worker(const struct as_workers_row *w, struct as_reexec_writer *out)
{
    as_reexec_put(out, "replica", as_str_of(w->name));
    as_reexec_put(out, "deployment", as_str_of(w->deployment));
    as_reexec_put(out, "token", as_str_of(w->token));
    as_reexec_put(out, "note", as_str_of(w->note));
    as_reexec_put(out, "reason", as_buf_slice(&w->reason));
    as_reexec_put(out, "spawn", as_buf_slice(&w->spawn));
    as_reexec_put(out, "state", as_str_of(as_ctl_state_name(w->state)));
    as_reexec_put_u64(out, "restarts", w->restarts);
    as_reexec_put_u64(out, "ended", w->last_exit.undecided);
    as_reexec_put_u64(out, "end-pid", (uint64_t)w->last_exit.pid);
    as_reexec_put_u64(out, "end-status", (uint32_t)w->last_exit.status);
    as_reexec_put_u64(out, "end-kind", w->last_exit.kind);
    as_reexec_put_u64(out, "runs", w->process != NULL);
    if (w->process)
        as_process_save(w->process, out);
}

void as_workers_save(const struct as_workers *all, struct as_reexec_writer *out)
{
    uint64_t n = 0;

    AS_LIST_EACH(node, &all->workers) n++;
    as_reexec_put_u64(out, "groups", all->launcher.groups);
    as_reexec_put_u64(out, "unbound", all->launcher.limit_logged);
    as_reexec_put_u64(out, "replicas", n);
    AS_LIST_EACH(node, &all->workers)
    save_worker(AS_LIST_ENTRY(node, struct as_workers_row, node), out);
    as_status_cache_save(&all->status_cache, out);
    as_spares_save(all->spares, out);
}

static enum as_ctl_state read_state(struct as_reexec_reader *in)
{
    struct as_str name = as_reexec_get(in, "state");

    for (int s = 0; s < AS_CTL_STATES; s++) {
        if (as_str_eq(name, as_str_of(as_ctl_state_name((enum as_ctl_state)s))))
            return (enum as_ctl_state)s;
    }
    as_reexec_fail(in, "state", "is no state of a replica");
    return AS_CTL_WAITING_STATE;
}

static void restore_worker(struct as_workers *all, struct as_reexec_reader *in)
{
    struct as_ctl_message m = {.replica = as_reexec_get(in, "replica")};
    enum as_ctl_state state;
    struct as_workers_row *w;

    m.deployment = as_reexec_get(in, "deployment");
    if (as_workers_find(all, m.replica))
        as_reexec_fail(in, "replica", "is there twice");
    w = as_workers_find_or_add(all, &m);
    as_workers_set_text(&w->token, as_reexec_get(in, "token"));
    as_workers_set_text(&w->note, as_reexec_get(in, "note"));
    as_workers_set_bytes(&w->reason, as_reexec_get(in, "reason"));
    as_workers_set_bytes(&w->spawn, as_reexec_get(in, "spawn"));
    state = read_state(in);
    w->restarts = (uint32_t)as_reexec_get_u64(in, "restarts", UINT32_MAX);
    w->last_exit.undecided = as_reexec_get_u64(in, "ended", 1);
    w->last_exit.pid = (pid_t)as_reexec_get_u64(in, "end-pid", INT32_MAX);
    w->last_exit.status = (int)as_reexec_get_u64(in, "end-status", UINT32_MAX);
    w->last_exit.kind = (enum as_exit_kind)as_reexec_get_u64(in, "end-kind", AS_EXIT_STOPPED);
    if (as_reexec_get_u64(in, "runs", 1)) {
        w->process =
            as_process_restore(all->loop, in, all->conf.oom_seen, &as_workers_process_ops, w);
        if (w->process)
            w->state = state;
        else if (!in->dry && !in->failed) /* it could not be watched, and was killed */
            as_workers_process_ended(w, SIGKILL, AS_EXIT_CRASH,
                                     AS_STR("no file descriptor left to watch it\n"));
    } else if (state == AS_CTL_WAITING_STATE || state == AS_CTL_DOWN_STATE) {
        w->state = state;
    } else {
        as_reexec_fail(in, "state", "needs a process");
    }
}

void as_workers_restore(struct as_workers *all, struct as_reexec_reader *in,
                        struct as_channel *dispatcher, struct as_channel *controller)
{
    uint64_t n;

    all->dispatcher = dispatcher;
    all->controller = controller;
    all->controller_ready = true; /* an upgrade starts only then */
    all->launcher.groups = (uint32_t)as_reexec_get_u64(in, "groups", UINT32_MAX);
    all->launcher.limit_logged = as_reexec_get_u64(in, "unbound", 1);
    n = as_reexec_get_u64(in, "replicas", UINT32_MAX);
    for (uint64_t i = 0; i < n && !in->failed; i++)
        restore_worker(all, in);
    as_status_cache_restore(&all->status_cache, in);
    as_spares_restore(all->spares, in);
}
