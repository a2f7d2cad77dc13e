/* The table of workers: lookup, and saving and restoring it for an upgrade's exec. */
#include "ctl/supervise/workers_internal.h"

#include <signal.h>

struct as_workers_row *as_workers_find(const struct as_workers *all, struct as_str name)
{
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers) {
        if (as_str_eq(as_str_of(w->name), name))
            return w;
    }
    return NULL;
}

struct as_workers_row *as_workers_find_running(const struct as_workers *all, struct as_str token)
{
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers) {
        if (w->process && as_str_eq(as_str_of(w->token), token))
            return w;
    }
    return NULL;
}

const char *as_workers_name_of_pid(const struct as_workers *all, pid_t pid)
{
    AS_LIST_EACH_ENTRY(w, struct as_workers_row, node, &all->workers) {
        /* the pid of one that has just ended is not reused so soon */
        if ((w->process && as_process_pid(w->process) == pid) ||
            (w->last_exit.undecided && w->last_exit.pid == pid))
            return as_id_shown_z(w->name);
    }
    return as_spares_owns_pid(all->spares, pid) ? "spare" : NULL;
}

bool as_workers_any_running(const struct as_workers *all)
{
    AS_LIST_EACH_ENTRY(w, const struct as_workers_row, node, &all->workers) {
        if (w->process)
            return true;
    }
    return false;
}

void as_workers_set_text(char **text, struct as_str s)
{
    free(*text);
    *text = as_str_dup(s);
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

/* --- names of earlier versions, which were unique in a server --- */

static struct as_ctl_message make_ids(struct as_workers_names *n, struct as_str application,
                                      struct as_str deployment, struct as_str replica)
{
    int len = snprintf(n->replica, sizeof(n->replica), "%.*s#%.*s", AS_STR_FMT(application),
                       AS_STR_FMT(replica));

    return (struct as_ctl_message){
        .deployment = as_id_make(&n->deployment, application, deployment),
        .replica = {n->replica, AS_MIN((size_t)len, sizeof(n->replica) - 1)}};
}

/* By its token, else by what the message names: a deployment, or a replica alone. */
static const struct as_workers_row *find_named(const struct as_workers *all,
                                               const struct as_ctl_message *m)
{
    const struct as_workers_row *w = m->token.n ? as_workers_find_running(all, m->token) : NULL;

    if (w)
        return w;
    AS_LIST_EACH_ENTRY(r, const struct as_workers_row, node, &all->workers) {
        if (m->deployment.n ? as_str_eq(as_id_name(as_str_of(r->deployment)), m->deployment)
                            : as_str_eq(as_id_name(as_str_of(r->name)), m->replica))
            return r;
    }
    return NULL;
}

static struct as_str find_application_of(const struct as_workers *all,
                                         const struct as_ctl_message *m)
{
    struct as_str known = as_status_cache_application(&all->status_cache, m->deployment);
    const struct as_workers_row *w = find_named(all, m);

    if (m->type == AS_CTL_STATUS)
        return m->replica;
    if (known.n)
        return known;
    return w ? as_id_application(as_str_of(w->deployment)) : AS_STR(AS_ID_DEFAULT);
}

struct as_ctl_message as_workers_qualify(const struct as_workers *all,
                                         const struct as_ctl_message *m,
                                         struct as_workers_names *names)
{
    bool is_replica = m->type != AS_CTL_STATUS && m->type != AS_CTL_MODEL &&
                      m->type != AS_CTL_DECLARE && m->replica.n;
    struct as_ctl_message full = *m, ids;

    /* workers of others have no deployment of ours */
    if (m->type == AS_CTL_LEGACY || m->type == AS_CTL_FEWER || !(m->deployment.n || is_replica))
        return full;
    ids = make_ids(names, find_application_of(all, m), m->deployment, m->replica);
    if (m->deployment.n)
        full.deployment = ids.deployment;
    if (is_replica)
        full.replica = ids.replica;
    return full;
}

/* --- an upgrade's exec --- */

static As__Replica *save_worker(const struct as_workers_row *w, As__Supervisor *state)
{
    As__Replica *m = as_reexec_new(&as__replica__descriptor);

    m->name = as_str_dup(as_id_name(as_str_of(w->name)));
    m->deployment = as_str_dup(as_id_name(as_str_of(w->deployment)));
    m->application = as_str_dup(as_id_application(as_str_of(w->deployment)));
    m->token = as_str_dup(as_str_of(w->token));
    m->note = as_str_dup(as_str_of(w->note));
    m->reason = as_reexec_bytes(as_buf_slice(&w->reason));
    m->spawn = as_reexec_bytes(as_buf_slice(&w->spawn));
    m->state = as_str_dup(as_str_of(as_ctl_state_name(w->state)));
    m->restarts = w->restarts;
    m->leaves = w->leaves;
    m->end_undecided = w->last_exit.undecided;
    m->end_pid = (uint32_t)w->last_exit.pid;
    m->end_status = (uint32_t)w->last_exit.status;
    m->end_kind = w->last_exit.kind;
    if (w->process)
        m->process = as_process_save(w->process, state);
    return m;
}

void as_workers_save(const struct as_workers *all, As__Supervisor *state)
{
    state->groups = all->launcher.groups;
    state->limit_logged = all->launcher.limit_logged;
    AS_LIST_EACH_ENTRY(w, const struct as_workers_row, node, &all->workers)
        AS_REEXEC_APPEND(state, replicas, save_worker(w, state));
    as_status_cache_save(&all->status_cache, state);
    as_spares_save(all->spares, state);
}

static enum as_ctl_state find_state(struct as_reexec_reader *in, const char *name)
{
    for (int s = 0; s < AS_CTL_STATES; s++) {
        if (strcmp(name, as_ctl_state_name((enum as_ctl_state)s)) == 0)
            return (enum as_ctl_state)s;
    }
    as_reexec_fail(in, "state", "is no state of a replica");
    return AS_CTL_WAITING_STATE;
}

/* An earlier version, whose names were unique, has the application only with the deployment. */
static struct as_str find_application(const As__Supervisor *state, const As__Replica *m)
{
    for (size_t i = 0; i < state->n_deployments && !m->application[0]; i++) {
        const As__Deployment *d = state->deployments[i];

        if (d->application[0] && strcmp(d->name, m->deployment) == 0)
            return as_str_of(d->application);
    }
    return m->application[0] ? as_str_of(m->application) : AS_STR(AS_ID_DEFAULT);
}

static void restore_worker(struct as_workers *all, struct as_reexec_reader *in,
                           const As__Replica *m)
{
    struct as_workers_names names;
    struct as_ctl_message name = make_ids(&names, find_application(in->state, m),
                                          as_str_of(m->deployment), as_str_of(m->name));
    enum as_ctl_state state = find_state(in, m->state);
    struct as_workers_row *w;

    if (as_workers_find(all, name.replica))
        as_reexec_fail(in, "replica", "is there twice");
    if (m->end_kind > AS_EXIT_STOPPED)
        as_reexec_fail(in, "end_kind", "is no kind of end");
    w = as_workers_find_or_add(all, &name);
    as_workers_set_text(&w->token, as_str_of(m->token));
    as_workers_set_text(&w->note, as_str_of(m->note));
    as_buf_set(&w->reason, as_reexec_str(m->reason));
    as_buf_set(&w->spawn, as_reexec_str(m->spawn));
    w->restarts = m->restarts;
    w->leaves = m->leaves;
    w->last_exit.undecided = m->end_undecided;
    w->last_exit.pid = (pid_t)m->end_pid;
    w->last_exit.status = (int)m->end_status;
    w->last_exit.kind = (enum as_exit_kind)m->end_kind;
    if (m->process) {
        w->process = as_process_restore(all->loop, in, m->process, all->conf.oom_seen,
                                        &as_workers_process_ops, w);
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
    all->dispatcher = dispatcher;
    all->controller = controller;
    all->controller_ready = true; /* an upgrade starts only then */
    all->launcher.groups = in->state->groups;
    all->launcher.limit_logged = in->state->limit_logged;
    for (size_t i = 0; i < in->state->n_replicas && !in->failed; i++)
        restore_worker(all, in, in->state->replicas[i]);
    as_status_cache_restore(&all->status_cache, in->state);
    as_spares_restore(all->spares, in);
}
