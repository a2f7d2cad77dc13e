#include "link/simple/simple.h"

#include "base/err.h"
#include "io/socket/folder_socket.h"
#include "link/fleet/policy/policy.h"
#include "link/simple/simple_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define SCHEME             "unix://"
#define FAULT_LOG_INTERVAL AS_SEC /* between two log lines about faults of one worker */
#define VERSION            AS_STR("1")

static struct as_simple *simple_of_upstream(struct as_upstream *u)
{
    return AS_CONTAINER(u, struct as_simple, up);
}

static as_ns now_of(const struct as_simple *s)
{
    return as_loop_now(s->up.fleet->loop);
}

/* During a handover heartbeats go to the new dispatcher, so none are expected here. */
static struct as_lease_conf lease_conf(const struct as_fleet *f)
{
    bool yields = f->simple && f->simple->on_fewer;

    return (struct as_lease_conf){.heartbeat = yields ? 0 : f->conf.heartbeat_timeout,
                                  .grace = f->conf.grace};
}

/* --- log --- */

void as_simple_log_fault(struct as_simple *s, const char *what, struct as_str request)
{
    as_ns now = now_of(s);
    char reason[320], id[128];

    if (s->fault_logged_at && now - s->fault_logged_at < FAULT_LOG_INTERVAL) {
        s->unlogged_faults++;
        return;
    }
    as_log_event(s->up.fleet->log, AS_LOG_WARN, "worker_fault",
                 "replica=%s deployment=%s reason=%s request=%s unlogged=%u", s->worker,
                 as_id_shown_z(s->up.deploy->name),
                 as_log_quote(reason, sizeof(reason), as_str_of(what)),
                 as_log_quote(id, sizeof(id), request), s->unlogged_faults);
    s->fault_logged_at = now;
    s->unlogged_faults = 0;
}

/* --- the end --- */

void as_simple_unref(struct as_simple *s)
{
    if (--s->handles)
        return;
    free(s->up.name);
    free(s->worker);
    free(s->model);
    free(s->version);
    free(s->address);
    as_buf_fini(&s->encoded);
    free(s);
}

static void on_timer_closed(struct as_timer *t)
{
    as_simple_unref(AS_CONTAINER(t, struct as_simple, timer));
}

/* since: see as_fleet_remove_upstream. */
static void end_simple(struct as_simple *s, const char *reason, as_ns since)
{
    struct as_fleet *f = s->up.fleet;

    AS_ASSERT(!s->ended);
    s->ended = true;
    as_log_event(f->log, s->leaving || f->draining ? AS_LOG_INFO : AS_LOG_WARN, "worker_gone",
                 "replica=%s kind=simple deployment=%s epoch=%llu unanswered=%u reason=\"%s\"",
                 s->worker, as_id_shown_z(s->up.deploy->name), (unsigned long long)s->epoch,
                 as_replica_unanswered(s->up.replica), reason);
    as_simple_registry_remove(s);
    as_list_remove(&s->up.node);
    as_fleet_note_upstream_end(&s->up, false);
    as_replica_drain(s->up.replica, true, now_of(s));
    as_simple_conn_close_all(s);
    (void)as_replica_free(s->up.replica, UINT64_MAX, AS_LOSS_UNKNOWN, now_of(s));
    s->up.replica = NULL;
    as_fleet_update_ready(s->up.deploy);
    as_fleet_remove_upstream(s->up.deploy, since);
    as_timer_close(&s->timer, on_timer_closed);
}

/* It gets no new requests, and cannot be found any more. */
static void start_leaving(struct as_simple *s)
{
    s->leaving = true;
    as_simple_registry_remove(s);
    as_replica_drain(s->up.replica, true, now_of(s));
    as_fleet_update_ready(s->up.deploy);
    as_simple_on_call_finished(s);
}

void as_simple_on_call_finished(struct as_simple *s)
{
    as_simple_report_in_flight(s);
    if (s->leaving && !s->ended && as_list_empty(&s->busy) && as_list_empty(&s->waiting))
        end_simple(s, "unregistered", 0);
}

/* --- in and out of the rotation --- */

/* The state of the lease has changed: ends the worker, or takes it out of the rotation or back. */
static void on_lease_changed(struct as_simple *s, const char *reason)
{
    struct as_fleet *f = s->up.fleet;

    if (s->lease.state == AS_LEASE_ENDED) {
        end_simple(s, reason, s->lease.lost);
        return;
    }
    if (s->lease.state == AS_LEASE_LOST)
        as_log_event(f->log, AS_LOG_WARN, "worker_lost", "replica=%s deployment=%s reason=\"%s\"",
                     s->worker, as_id_shown_z(s->up.deploy->name), reason);
    else
        as_log_event(f->log, AS_LOG_INFO, "worker_back", "replica=%s deployment=%s", s->worker,
                     as_id_shown_z(s->up.deploy->name));
    as_replica_drain(s->up.replica, s->lease.state != AS_LEASE_LIVE, now_of(s));
    as_fleet_update_ready(s->up.deploy);
}

void as_simple_schedule(struct as_simple *s, as_ns when)
{
    if (!s->ended && when < s->timer.at)
        as_timer_set(&s->timer, when);
}

/* A worker that leaves needs no heartbeats: its requests may take as long as they need. */
static void schedule_lease(struct as_simple *s)
{
    struct as_lease_conf conf = lease_conf(s->up.fleet);

    if (!s->leaving)
        as_simple_schedule(s, as_lease_next_due(&s->lease, &conf));
}

void as_simple_on_connect_failed(struct as_simple *s, const char *why)
{
    if (s->leaving || !as_lease_refused(&s->lease, now_of(s)))
        return;
    on_lease_changed(s, why);
    schedule_lease(s);
}

void as_simple_on_alive(struct as_simple *s)
{
    struct as_lease_conf conf = lease_conf(s->up.fleet);

    s->alive_at = now_of(s);
    if (!s->leaving && as_lease_connected(&s->lease, &conf, s->alive_at))
        on_lease_changed(s, "");
    schedule_lease(s);
}

void as_simple_on_heartbeat(struct as_simple *s)
{
    struct as_lease_conf conf = lease_conf(s->up.fleet);

    if (as_lease_heartbeat(&s->lease, &conf, now_of(s)))
        on_lease_changed(s, "");
    schedule_lease(s);
}

/* Connects only to see whether somebody listens. */
static void probe_socket(struct as_simple *s)
{
    const char *why;
    int fd, err;

    err =
        as_folder_socket_connect(s->up.fleet->conf.worker_dir, s->socket_path, &fd, &s->pid, &why);
    if (!err) {
        close(fd);
        as_simple_on_alive(s);
    } else if (err != AS_EAGAIN &&
               err != AS_ENOMEM) { /* else its backlog is full, or we lack memory */
        as_simple_on_connect_failed(s, why);
    }
}

void as_simple_probe(struct as_simple *s)
{
    if (!s->ended && !s->leaving && !s->n_conns && s->lease.state == AS_LEASE_LIVE)
        probe_socket(s);
}

bool as_simple_is_listening(struct as_simple *s)
{
    if (!s->ended && !s->leaving && s->lease.state == AS_LEASE_LIVE)
        probe_socket(s);
    return !s->ended && s->lease.state == AS_LEASE_LIVE;
}

static void on_timer(struct as_timer *t)
{
    struct as_simple *s = AS_CONTAINER(t, struct as_simple, timer);
    struct as_lease_conf conf = lease_conf(s->up.fleet);
    as_ns now = now_of(s);
    bool live = s->lease.state == AS_LEASE_LIVE;

    if (!s->leaving && as_lease_tick(&s->lease, &conf, now))
        on_lease_changed(s, live ? "no heartbeat" : "lost for longer than --worker-grace");
    if (s->ended)
        return;
    as_simple_conn_retry_waiting(s);
    as_simple_schedule(s, as_simple_conn_close_idle(s, now));
    schedule_lease(s);
}

/* --- what core decides: struct as_upstream_ops --- */

static void op_send(struct as_upstream *u, struct as_call *c)
{
    as_simple_conn_send(simple_of_upstream(u), c);
}

static void op_cancel(struct as_upstream *u AS_UNUSED, struct as_call *c, int reason AS_UNUSED)
{
    as_simple_conn_cancel(c->conn);
}

/* An incomplete answer belongs to its connection. */
static void op_discard_answer(struct as_upstream *u AS_UNUSED, struct as_call *c AS_UNUSED)
{
}

/* The protocol cannot say it; core sends nothing new anyway. */
static void op_drain(struct as_upstream *u AS_UNUSED)
{
}

/* The new dispatcher gets the registration: as_simple_each_registration. */
static bool op_hand_over(struct as_upstream *u AS_UNUSED, uint32_t *foreign AS_UNUSED)
{
    return true;
}

static void op_tick(struct as_upstream *u, as_ns now)
{
    struct as_simple *s = simple_of_upstream(u);
    bool quiet = !s->n_conns && now - s->alive_at >= s->up.fleet->conf.ping_interval;

    if (s->leaving)
        return;
    /* an open connection reports its end by itself */
    if (s->lease.refused || (s->lease.state == AS_LEASE_LIVE && quiet))
        probe_socket(s);
}

static void op_stop(struct as_upstream *u)
{
    end_simple(simple_of_upstream(u), "the dispatcher ends", now_of(simple_of_upstream(u)));
}

static const char *state_name(const struct as_simple *s)
{
    if (s->leaving)
        return "draining";
    return s->lease.state == AS_LEASE_LIVE ? "ready" : "lost";
}

static void op_fill_status(struct as_upstream *u, struct as_fleet_replica *ret_r)
{
    const struct as_simple *s = simple_of_upstream(u);

    ret_r->state = as_str_of(state_name(s));
    ret_r->pid = s->pid;
    ret_r->epoch = s->epoch;
    ret_r->address = as_str_of(s->address);
    ret_r->connections = s->n_conns;
    ret_r->heard = s->lease.heard;
}

/* No batches, no prefetch and no streams. */
static const struct as_upstream_ops ops = {
    .kind = "simple",
    .send = op_send,
    .cancel = op_cancel,
    .discard_answer = op_discard_answer,
    .drain = op_drain,
    .hand_over = op_hand_over,
    .tick = op_tick,
    .stop = op_stop,
    .fill_status = op_fill_status,
};

/* --- registration --- */

AS_PRINTF(4, 5)
static int fail_join(char *why, size_t cap, int err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, cap, fmt, ap);
    va_end(ap);
    return err;
}

static bool is_worker_id(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!word && c != '.' && c != '_' && c != '-')
            return false;
    }
    return s.n >= 1 && s.n <= AS_NAME_MAX;
}

/* A registration in progress. */
struct registration {
    struct as_fleet *f;
    struct as_simple_registration o; /* with defaults for what was left out */
    struct as_str path, socket_path; /* of its address: absolute, and below the folder */
    struct as_simple *old;           /* the registration that it replaces, or NULL */
    struct as_fleet_deployment *d;
    char name[AS_NAME_MAX + AS_VERSION_MAX + 2]; /* of the deployment */
    uint64_t epoch;                              /* its epoch at the old dispatcher; 0: it is new */
    int fd;
    uint32_t pid, target;
    char *why;
    size_t cap;
};

static int check_names(struct registration *j)
{
    struct as_frame_register *m = &j->o.model;
    const char *text;

    if (!m->version.n)
        m->version = VERSION;
    if (!m->budget)
        m->budget = 1;
    if (!is_worker_id(j->o.worker))
        return fail_join(j->why, j->cap, AS_EINVALID,
                         "worker_id: 1 to %u characters of A-Za-z0-9._-", AS_NAME_MAX);
    if (as_registry_check_name(m->name, &text))
        return fail_join(j->why, j->cap, AS_EINVALID, "model_name: %s", text);
    if (as_registry_check_version(m->version, &text))
        return fail_join(j->why, j->cap, AS_EINVALID, "model_version: %s", text);
    if (m->budget > AS_DEPLOYMENT_SLOTS_MAX)
        return fail_join(j->why, j->cap, AS_EINVALID, "max_ongoing_requests: %u is over %u",
                         m->budget, AS_DEPLOYMENT_SLOTS_MAX);
    if (m->max_queued < -1)
        return fail_join(j->why, j->cap, AS_EINVALID, "max_queued_requests: %lld is below -1",
                         (long long)m->max_queued);
    snprintf(j->name, sizeof(j->name), "%.*s:%.*s", AS_STR_FMT(m->name), AS_STR_FMT(m->version));
    return 0;
}

static int check_address(struct registration *j)
{
    struct as_str a = j->o.address, scheme = AS_STR(SCHEME);
    const char *text, *dir = j->f->conf.worker_dir;
    int err;

    if (a.n < scheme.n || memcmp(a.p, scheme.p, scheme.n) != 0)
        return fail_join(j->why, j->cap, AS_EINVALID, "worker_address: not " SCHEME "/PATH");
    if (!dir || !dir[0])
        return fail_join(j->why, j->cap, AS_EDENIED,
                         "worker_address: there is no --worker-socket-dir");
    j->path = (struct as_str){a.p + scheme.n, a.n - scheme.n};
    err = as_folder_socket_relative_path(dir, j->path, &j->socket_path, &text);
    if (!err)
        err = as_folder_socket_connect(dir, j->socket_path, &j->fd, &j->pid, &text);
    if (err)
        return fail_join(j->why, j->cap, err,
                         "worker_address '%.*s': %s (--worker-socket-dir is '%s')",
                         AS_STR_CUT(j->path, 200), text, dir);
    return 0;
}

/* Each worker has its own number of slots, which is the only limit of the model. */
static int try_register(struct registration *j)
{
    struct as_frame_register m = j->o.model;
    const char *text;
    struct as_id id;
    int err;

    j->d =
        as_fleet_get_deployment(j->f, as_id_make(&id, AS_STR(AS_ID_DEFAULT), as_str_of(j->name)));
    if (!j->d)
        return fail_join(j->why, j->cap, AS_EFULL,
                         "the server has %u deployments, which is the most",
                         AS_FLEET_DEPLOYMENTS_MAX);
    as_fleet_add_upstream(j->d);
    m.budget = 0;
    m.max_ongoing = AS_DEPLOYMENT_SLOTS_MAX;
    err = as_fleet_register_model(j->d, &m, &j->target, &text);
    if (!err)
        return 0;
    as_fleet_remove_upstream(j->d, 0);
    return fail_join(j->why, j->cap, err, "model '%s': %s", j->name,
                     text && text[0] ? text : as_err_text(err));
}

static int register_model(struct registration *j)
{
    int err = try_register(j);
    bool alone = j->old && j->d && j->old->up.deploy == j->d && j->d->n_upstreams == 1 &&
                 !as_fleet_flag(&j->d->expected);

    /* it contradicts only its own earlier registration */
    if (err != AS_EEXISTS || !alone)
        return err;
    j->old->leaving = true;
    end_simple(j->old, "registered again as another model", 0);
    j->old = NULL;
    as_fleet_remove_deployment(j->d);
    return try_register(j);
}

static struct as_simple *new_simple(struct registration *j)
{
    struct as_fleet *f = j->f;
    struct as_simple *s = as_xalloc(sizeof(*s));
    const struct as_frame_register *m = &j->o.model;

    as_simple_registry_get(f);
    s->up.ops = &ops;
    s->up.fleet = f;
    s->up.deploy = j->d;
    s->up.name = as_str_dup(j->o.worker);
    s->worker = as_str_dup(j->o.worker);
    s->model = as_str_dup(m->name);
    s->version = as_str_dup(m->version);
    s->address = as_str_dup(j->o.address);
    s->socket_path =
        (struct as_str){s->address + (j->socket_path.p - j->o.address.p), j->socket_path.n};
    s->epoch = j->epoch ? j->epoch : ++f->simple_epoch;
    s->pid = j->pid;
    s->slots = m->budget;
    s->lent = j->epoch ? s->slots : 0;
    s->alive_at = as_loop_now(f->loop);
    s->handles = 1;
    as_list_init(&s->registry_node);
    as_list_init(&s->waiting);
    as_list_init(&s->busy);
    as_list_init(&s->idle);
    as_lease_init(&s->lease, s->alive_at);
    as_timer_init(&s->timer, f->loop, on_timer);
    as_buf_init(&s->encoded);
    as_simple_save_registration(s, m);
    return s;
}

/* Puts it into the rotation: its first requests may be sent before this returns. */
static void admit(struct registration *j, struct as_simple *s)
{
    struct as_fleet *f = j->f;

    as_list_push(&f->upstreams, &s->up.node);
    as_upstream_add_model(&s->up, j->target);
    as_upstream_init_models(&s->up);
    as_fleet_set_place(s->up.replica, as_str_of(s->up.name));
    as_simple_registry_add(s);
    as_simple_conn_adopt(s, j->fd);
    schedule_lease(s);
    as_log_event(f->log, AS_LOG_INFO, "worker_ready",
                 "replica=%s kind=simple deployment=%s pid=%u slots=%u epoch=%llu", s->worker,
                 as_id_shown_z(j->d->name), s->pid, s->slots, (unsigned long long)s->epoch);
    as_replica_grant(s->up.replica, s->slots - s->lent, 0, s->alive_at);
    as_fleet_update_ready(j->d);
    as_fleet_set_registered(j->d);
    if (j->old)
        start_leaving(j->old);
}

static int join_fleet(struct as_fleet *f, const struct as_simple_registration *o, uint64_t epoch,
                      uint64_t *ret_epoch, char *why, size_t cap)
{
    struct registration j = {.f = f, .o = *o, .epoch = epoch, .fd = -1, .why = why, .cap = cap};
    struct as_simple *s;
    int err = check_names(&j);

    if (!err && f->draining)
        err = fail_join(why, cap, AS_EUNAVAILABLE, "the server is ending");
    if (!err)
        err = check_address(&j);
    if (err)
        return err;
    j.old = as_simple_registry_find(f, j.o.worker, j.o.model.name, j.o.model.version);
    err = register_model(&j);
    if (err) {
        close(j.fd);
        return err;
    }
    s = new_simple(&j);
    err = as_replica_new(&s->up.replica, j.d->core, &s->up);
    if (err) {
        close(j.fd);
        as_fleet_remove_upstream(j.d, 0);
        as_timer_close(&s->timer, on_timer_closed);
        return fail_join(why, cap, err, "model '%s': it has as many workers as it can have",
                         j.name);
    }
    admit(&j, s);
    *ret_epoch = s->epoch;
    return 0;
}

int as_simple_join(struct as_fleet *f, const struct as_simple_registration *o, uint64_t *ret_epoch,
                   char *why, size_t cap)
{
    return join_fleet(f, o, 0, ret_epoch, why, cap);
}

int as_simple_join_with_epoch(struct as_fleet *f, const struct as_simple_registration *o,
                              uint64_t epoch, char *why, size_t cap)
{
    return join_fleet(f, o, epoch, &epoch, why, cap);
}

int as_simple_leave(struct as_fleet *f, struct as_str worker, struct as_str model,
                    struct as_str version, uint64_t epoch)
{
    struct as_simple *s = as_simple_registry_find(f, worker, model, version.n ? version : VERSION);

    if (!s || (epoch && s->epoch != epoch))
        return AS_ENOTFOUND;
    start_leaving(s);
    return 0;
}
