/* Setting up a link: HELLO (who is it), REGISTER (what does it serve), CREDIT (how many slots). */
#include "base/err.h"
#include "link/native/link.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOTS_MAX 65535u

/* Maps the status page that came with HELLO. It must be sealed against shrinking, or a read could
 * fault. */
static int map_page(struct as_link *l)
{
    int need = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    int seals;
    void *p;

    /* HELLO announced a page, but brought no descriptor */
    if (l->rx.fd < 0)
        return AS_EINVALID;
    seals = fcntl(l->rx.fd, F_GET_SEALS);
    if (seals < 0 || (seals & need) != need || fstat(l->rx.fd, &st) < 0 ||
        st.st_size != AS_PAGE_SIZE)
        return AS_EINVALID;
    p = mmap(NULL, AS_PAGE_SIZE, PROT_READ, MAP_SHARED, l->rx.fd, 0);
    close(l->rx.fd);
    l->rx.fd = -1;
    if (p == MAP_FAILED)
        return AS_EIO;
    l->page = p;
    return l->page->magic == AS_PAGE_MAGIC ? 0 : AS_EINVALID;
}

/* Refuses with a reason that the worker can show its user. A worker that broke the protocol gets no
 * reason (as_link_protocol_error). */
static void refuse_worker(struct as_link *l, const char *why)
{
    as_frame_put_text(&l->out, AS_FRAME_GOODBYE, as_str_of(why));
    /* a few bytes into an empty socket; then it is closed */
    (void)l->transport->ops->flush(l->transport, &l->out, -1);
    as_link_end(l, why, AS_LOSS_KILLED);
}

static const char *join_deployment(struct as_link *l, struct as_str deployment)
{
    const char *why;

    /* that of our process was checked where it comes from */
    if (!l->up.process && as_registry_check_deployment(deployment, &why))
        return "bad deployment name";
    l->up.deploy = as_fleet_get_deployment(l->up.fleet, deployment);
    if (!l->up.deploy)
        return "the server has as many deployments as it can have";
    as_fleet_add_upstream(l->up.deploy);
    return NULL;
}

/* Of a worker that another program has started: one that names no application is of the default
 * one.
 */
static const char *join_named_deployment(struct as_link *l, struct as_str name)
{
    struct as_id id;

    if (!as_id_is_full(name))
        name = as_id_make(&id, AS_STR(AS_ID_DEFAULT), name);
    return join_deployment(l, name);
}

/* A worker without a deployment joins one that is called "NAME:VERSION" after its first model.
 * NULL, or why that is not possible. */
static const char *join_default_deployment(struct as_link *l, const struct as_frame_register *r)
{
    char name[AS_NAME_MAX + AS_VERSION_MAX + 2];
    const char *why;

    if (l->up.deploy)
        return NULL;
    if (as_registry_check_name(r->name, &why) || as_registry_check_version(r->version, &why))
        return why;
    snprintf(name, sizeof(name), "%.*s:%.*s", AS_STR_FMT(r->name), AS_STR_FMT(r->version));
    return join_named_deployment(l, as_str_of(name));
}

/* NULL, or why it is refused. */
static const char *admit_driver(struct as_link *l, const struct as_frame_hello *h)
{
    struct as_fleet *f = l->up.fleet;

    if (!f->driver_token || !as_str_eq(h->token, as_str_of(f->driver_token))) {
        as_fleet_refuse_payload(f, AS_FLEET_REFUSED_TOKEN, "", l->pid);
        return "wrong token";
    }
    if (!(h->capabilities & AS_CAP_CALLS))
        return "a driver needs the capability CALLS";
    if (h->replica.n > AS_NAME_MAX || (h->replica.n && !as_log_is_plain(h->replica)))
        return "bad name";
    l->is_driver = true;
    l->up.name = h->replica.n ? as_str_dup(h->replica) : as_str_format("driver-%u", l->pid);
    l->peer = as_str_dup(h->peer);
    return NULL;
}

/* Checks the token, and finds the deployment. Our process has the replica and deployment that
 * belong to its token. NULL, or why it is refused. */
static const char *admit_worker(struct as_link *l, const struct as_frame_hello *h)
{
    struct as_fleet *f = l->up.fleet;
    struct as_fleet_process *t = as_fleet_find_process(f, h->token);
    struct as_str deployment = h->deployment, replica = h->replica;
    const char *why;

    if (t) {
        deployment = as_str_of(t->deployment);
        replica = as_str_of(t->replica);
        if (h->deployment.n && !as_str_eq(h->deployment, deployment) &&
            !as_str_eq(h->deployment, as_id_name(deployment)))
            return "the token belongs to another deployment";
        /* A process that connects again has given up its former link. */
        if (t->up)
            as_link_end(AS_CONTAINER(t->up, struct as_link, up), "connected again", AS_LOSS_KILLED);
        t->up = &l->up;
        l->up.process = t;
    } else if (!f->join_token || !as_str_eq(h->token, as_str_of(f->join_token))) {
        return "wrong token";
    }
    /* the name appears in logs and pages as it is */
    if (!t && (replica.n > AS_NAME_MAX || !as_log_is_plain(replica)))
        return "bad replica name";
    /* without a deployment: its first model names one (join_default_deployment) */
    why = t              ? join_deployment(l, deployment)
          : deployment.n ? join_named_deployment(l, deployment)
                         : NULL;
    if (!why)
        l->up.name = as_str_dup(replica);
    return why;
}

void as_link_on_hello(struct as_link *l, const struct as_frame *f)
{
    struct as_frame_hello h;
    struct as_frame_hello ours = {.lo = AS_FRAME_VERSION,
                                  .hi = AS_FRAME_VERSION,
                                  .max_message = l->up.fleet->conf.max_message,
                                  .pid = (uint32_t)getpid()};
    const char *why;
    int err;

    if (l->state != AS_LINK_HELLO || as_frame_get_hello(f, &h)) {
        as_link_protocol_error(l, "malformed or repeated HELLO");
        return;
    }
    if (h.lo > AS_FRAME_VERSION || h.hi < AS_FRAME_VERSION) {
        refuse_worker(l, "no common protocol version");
        return;
    }
    why = h.max_message < l->up.fleet->conf.max_body ? "max_message is below what clients may send"
          : h.capabilities & AS_CAP_DRIVER           ? admit_driver(l, &h)
                                                     : admit_worker(l, &h);
    if (why) {
        refuse_worker(l, why);
        return;
    }
    err = h.capabilities & AS_CAP_PAGE ? map_page(l) : 0;
    if (err == AS_EIO) { /* our failure, not the worker's: it connects again */
        as_link_end(l, "cannot map its status page", AS_LOSS_KILLED);
        return;
    }
    if (err) {
        refuse_worker(l, "bad status page");
        return;
    }
    if (l->page)
        as_link_watch_death(l);
    l->capabilities =
        h.capabilities & (AS_CAP_PAGE | AS_CAP_RECALL | AS_CAP_CANCEL | AS_CAP_MOVE |
                          AS_CAP_TENSOR_PARAMS | AS_CAP_CALLS | AS_CAP_DRIVER | AS_CAP_RESERVE);
    ours.capabilities = l->capabilities;
    /* the epoch tells two links of one replica apart, in the log and on the status page */
    ours.epoch = l->epoch = ++l->up.fleet->epoch;
    ours.replica = as_id_name(as_str_of(l->up.name)); /* its id may be longer than HELLO allows */
    if (l->up.deploy)
        ours.deployment = as_str_of(l->up.deploy->name);
    ours.peer = AS_STR("anyserve");
    as_link_move(l, l->is_driver ? AS_LINK_DRIVER : AS_LINK_OPEN);
    as_frame_put_hello(&l->out, &ours);
    if (l->capabilities & AS_CAP_CALLS)
        as_caller_start(l);
    if (l->is_driver) {
        l->calls_here = true;
        l->up.fleet->drivers_here++;
        l->last_ping = as_loop_now(l->up.fleet->loop);
        as_log_event(l->up.fleet->log, AS_LOG_INFO, "driver_ready", "driver=%s pid=%u epoch=%lu",
                     l->up.name, l->pid, (unsigned long)l->epoch);
    }
    as_link_schedule_flush(l);
}

void as_link_on_register(struct as_link *l, const struct as_frame *f)
{
    struct as_frame_registered answer = {0};
    struct as_frame_register r;
    struct as_arena a;
    const char *why = "", *refusal;
    char name[AS_NAME_MAX + 8], version[AS_VERSION_MAX + 8];
    size_t had = l->out.bytes;
    int err;

    if (l->state == AS_LINK_HELLO) {
        as_link_protocol_error(l, "REGISTER before HELLO");
        return;
    }
    if (l->n_registers++ == AS_DEPLOYMENT_MODELS_MAX) { /* bounds the answers and log lines */
        as_link_protocol_error(l, "REGISTER more often than a deployment can have models");
        return;
    }
    as_arena_init(&a, NULL, 0);
    err = as_frame_get_register(f, &a, &r, &why);
    if (err) {
        as_arena_fini(&a);
        as_link_protocol_error(l, err == AS_ENOMEM ? "out of memory" : why);
        return;
    }
    /* a wrong declaration is the user's fault: it is refused by an answer, and the link stays */
    err = r.budget && r.budget <= SLOTS_MAX && r.max_ongoing ? 0 : AS_EINVALID;
    if (!err && r.opaque && !(l->capabilities & AS_CAP_CALLS)) {
        why = "a target of calls needs the capability CALLS";
        err = AS_EINVALID;
    }
    if (!err && r.opaque && !l->up.process) {
        as_fleet_refuse_payload(l->up.fleet, AS_FLEET_REFUSED_REGISTER, l->up.name, l->pid);
        why = "a worker with the join token may not serve calls";
        err = AS_EDENIED;
    }
    refusal = err ? NULL : join_default_deployment(l, &r);
    if (refusal) {
        why = refusal;
        err = AS_EINVALID;
    }
    if (!err) {
        as_link_apply_traffic(l);
        err = as_fleet_register_model(l->up.deploy, &r, &answer.target, &why);
    }
    if (!err && l->up.process)
        as_fleet_record_model(l->up.deploy, answer.target, &r);
    answer.model = r.model;
    answer.code = as_err_grpc(err);
    answer.message = as_str_of(err ? (why[0] ? why : as_err_text(err)) : "");
    if (err)
        as_log_event(l->up.fleet->log, AS_LOG_WARN, "model_refused",
                     "replica=%s model=%s version=%s reason=\"%s\"", as_id_shown_z(l->up.name),
                     as_log_quote(name, sizeof(name), r.name),
                     as_log_quote(version, sizeof(version), r.version), answer.message.p);
    as_arena_fini(&a);
    as_frame_put_registered(&l->out, &answer);
    as_link_count_reply(l, had);
    if (!err) /* after the answer: the worker must know the target first */
        as_upstream_add_model(&l->up, answer.target);
    as_link_schedule_flush(l);
}

void as_link_on_credit(struct as_link *l, const struct as_frame *f)
{
    struct as_fleet *fleet = l->up.fleet;
    as_ns now = as_loop_now(fleet->loop);
    struct as_frame_credit c;
    bool first = !l->up.replica;

    if (as_frame_get_credit(f, &c) || c.slots > SLOTS_MAX) {
        as_link_protocol_error(l, "malformed CREDIT");
        return;
    }
    if (l->state == AS_LINK_HELLO || !l->up.deploy || !l->up.deploy->core) {
        as_link_protocol_error(l, "CREDIT before a model was registered");
        return;
    }
    if (first && !as_link_alloc_calls(l)) {
        as_link_end(l, "out of memory", AS_LOSS_KILLED);
        return;
    }
    /* the first slots make the link a replica, which can get requests */
    if (first && as_replica_new(&l->up.replica, l->up.deploy->core, l)) {
        as_link_end(l, "the deployment has as many replicas as it can have", AS_LOSS_KILLED);
        return;
    }
    if (first) {
        as_upstream_init_models(&l->up);
        as_fleet_set_place(l->up.replica, as_str_of(l->up.name));
        if (l->reports[AS_REPORT_MODEL_IDS].n)
            as_link_apply_models(l);
        as_link_move(l, AS_LINK_READY);
        l->last_ping = now;
    }
    as_replica_grant(l->up.replica, c.slots, AS_MIN(c.prefetch, fleet->conf.max_prefetch), now);
    as_fleet_update_ready(l->up.deploy);
    if (first) {
        as_log_event(fleet->log, AS_LOG_INFO, "worker_ready",
                     "replica=%s pid=%u slots=%u epoch=%lu", as_id_shown_z(l->up.name), l->pid,
                     c.slots, (unsigned long)l->epoch);
        as_link_health_start(l);
        as_link_apply_traffic(l);
        l->up.retiring = l->up.process && l->up.process->retiring;
        if (l->up.retiring)
            as_link_update_rotation(l);
        as_fleet_report_ready(&l->up);
        as_fleet_schedule_cleanup(l->up.deploy);
    }
}
