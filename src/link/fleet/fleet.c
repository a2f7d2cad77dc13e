#include "link/fleet/fleet.h"

#include "base/buf.h"
#include "base/memory/pages.h"
#include "base/memory/slab.h"
#include "core/replicas/restart.h"
#include "link/fleet/call_error.h"
#include "link/fleet/policy/policy.h"
#include "link/fleet/upstream.h"

#define TICKS_PER_INTERVAL 2 /* of the ping interval */
/* What was not used for so long, or up to twice as long, is returned to the system. */
#define TRIM_INTERVAL (500 * AS_MS)

static struct as_call *call_of(struct as_request *q)
{
    return AS_CONTAINER(q, struct as_call, core);
}

/* Whether the error counts against the worker. Other statuses are about the request. */
static bool is_failure(const struct as_call *c)
{
    uint32_t status = c->outcome.status ? c->outcome.status : as_err_grpc(c->outcome.err);

    return status == AS_STATUS_INTERNAL || status == AS_STATUS_UNAVAILABLE ||
           status == AS_STATUS_UNKNOWN || status == AS_STATUS_DATA_LOSS;
}

void as_fleet_finish_call(struct as_upstream *u, struct as_call *c, struct as_model_times t,
                          bool retry)
{
    struct as_model_stat *stat = &u->deploy->models[c->core.model].stat;
    struct as_batch *b = c->core.batch;
    uint32_t size = b ? b->items : c->core.items;
    as_ns now = as_loop_now(u->fleet->loop);

    if (b && b->counted)
        size = 0;
    else if (b && !c->outcome.err)
        b->counted = c->core.state == AS_REQ_SENT &&
                     !retry; /* a batch counts once, with its first success */
    as_fleet_note_ended(u, c);
    /* in another state the outcome may be on its way to the home loop already */
    c->core.failed = c->core.state == AS_REQ_SENT && c->outcome.err && is_failure(c);
    if (!as_replica_done(u->replica, &c->core, t.service, retry, now)) {
        as_upstream_check_retired(u);
        return;
    }
    as_upstream_check_retired(u);
    if (__builtin_expect(c->core.is_mirror && c->outcome.err, 0))
        as_deployment_stat(u->deploy->core)->mirror_failed++;
    if (c->outcome.err)
        as_model_stat_fail(stat, &c->core, now);
    else
        as_model_stat_success(stat, &c->core, t, size, now);
    as_fleet_answer_call(c);
    as_fleet_note_load(u->deploy);
}

void as_fleet_lose_call(struct as_upstream *u, struct as_call *c, enum as_loss loss)
{
    as_fleet_note_ended(u, c);
    as_replica_lose_request(u->replica, &c->core, loss, as_loop_now(u->fleet->loop));
    as_upstream_check_retired(u);
}

/* --- callbacks of core --- */

static void op_batch(void *ctx AS_UNUSED, struct as_replica *r, uint32_t n)
{
    struct as_upstream *u = as_upstream_of(r);

    u->ops->batch(u, n);
}

static void op_wake(void *ctx, as_ns when)
{
    struct as_fleet_deployment *d = ctx;

    if (when < d->timer.at)
        as_timer_set(&d->timer, when);
}

/* Both requests are for the same model. */
static bool op_alike(const struct as_request *a, const struct as_request *b)
{
    const struct as_call *x = call_of((struct as_request *)(uintptr_t)a);
    const struct as_call *y = call_of((struct as_request *)(uintptr_t)b);

    return as_payload_can_batch(&x->payload, &y->payload);
}

static void op_send(void *ctx AS_UNUSED, struct as_replica *r, struct as_request *q)
{
    struct as_upstream *u = as_upstream_of(r);

    u->ops->send(u, call_of(q));
    as_fleet_note_sent(u, call_of(q));
}

static void op_recall(void *ctx AS_UNUSED, struct as_replica *r, struct as_request *const *q,
                      uint32_t n)
{
    struct as_upstream *u = as_upstream_of(r);

    u->ops->recall(u, q, n);
}

static void op_cancel(void *ctx AS_UNUSED, struct as_replica *r, struct as_request *q, int reason)
{
    struct as_upstream *u = as_upstream_of(r);

    u->ops->cancel(u, call_of(q), reason);
}

static void op_answer(void *ctx, struct as_request *q, int err)
{
    struct as_fleet_deployment *d = ctx;
    struct as_call *c = call_of(q);

    if (c->outcome.result.blob) { /* the deadline passed while the answer was being received */
        struct as_upstream *u = as_upstream_of(q->replica);

        u->ops->discard_answer(u, c);
    }
    if (q->is_mirror)
        as_deployment_stat(d->core)->mirror_failed++;
    as_model_stat_fail(&d->models[q->model].stat, q, as_loop_now(d->fleet->loop));
    as_fleet_answer_with_error(c, d, err);
}

static void op_release(void *ctx, struct as_request *q)
{
    as_fleet_release_call(call_of(q));
    as_fleet_note_load(ctx);
}

static bool op_ask(void *ctx, struct as_request *q, struct as_router_choice *ret)
{
    return as_fleet_ask_router(ctx, call_of(q), ret);
}

static void op_unask(void *ctx, struct as_request *q)
{
    as_policy_unask(ctx, call_of(q));
}

static void op_reserved(void *ctx AS_UNUSED, struct as_replica *r, struct as_request *q)
{
    call_of(q)->on_reserved(call_of(q), as_str_of(as_upstream_of(r)->name));
}

const struct as_deployment_ops as_fleet_deployment_ops = {
    .ask = op_ask,
    .unask = op_unask,
    .batch = op_batch,
    .send = op_send,
    .recall = op_recall,
    .cancel = op_cancel,
    .answer = op_answer,
    .release = op_release,
    .wake = op_wake,
    .alike = op_alike,
    .sample = as_fleet_hash_sample,
    .fingerprint = as_fleet_fingerprint,
    .next_turn = as_fleet_schedule_work,
    .reserved = op_reserved,
    .hedge = as_fleet_hedge,
};

/* --- readiness --- */

void as_fleet_update_ready(struct as_fleet_deployment *d)
{
    bool ready = d && d->core && as_deployment_ready(d->core) > 0;

    if (d && ready != as_fleet_flag(&d->ready)) {
        as_fleet_set_flag(&d->ready, ready);
        if (ready && as_id_policy_base(as_str_of(d->name)).n)
            as_fleet_set_flag(&d->late, true); /* without it, the server goes on being ready */
        as_fleet_republish(d->fleet);
    }
    if (d) /* another replica may have taken what waited */
        as_fleet_note_load(d);
}

void as_fleet_set_known(struct as_fleet_deployment *d, bool known)
{
    if (as_fleet_flag(&d->registered) == known)
        return;
    as_fleet_set_flag(&d->registered, known);
    as_fleet_republish(d->fleet);
}

void as_fleet_set_registered(struct as_fleet_deployment *d)
{
    if (d->deleted)
        return;
    as_fleet_set_flag(&d->late, false);
    as_fleet_set_known(d, true);
}

void as_fleet_report_ready(struct as_upstream *u)
{
    struct as_fleet *f = u->fleet;
    struct as_buf models;

    as_fleet_set_registered(u->deploy);
    as_fleet_record_settings(u->deploy);
    /* the supervisor does so later; until then requests would be refused despite this worker */
    as_fleet_set_down(f, as_str_of(u->deploy->name), false);
    as_buf_init(&models);
    for (uint32_t i = 0; i < u->deploy->n_models; i++) {
        if (as_upstream_serves(u, i))
            as_buf_printf(&models, "%s%s:%s", models.n ? " " : "", u->deploy->models[i].name,
                          u->deploy->models[i].version);
    }
    f->ops.on_ready(f->ctx, as_str_of(u->name), as_str_of(u->process ? u->process->token : ""),
                    as_buf_slice(&models));
    as_buf_fini(&models);
}

/* --- our processes --- */

/* A linear search is enough: it runs only when a worker connects or ends. The comparison need not
 * take constant time, since only our own user can reach the socket. */
struct as_fleet_process *as_fleet_find_process(struct as_fleet *f, struct as_str token)
{
    AS_LIST_EACH_ENTRY(t, struct as_fleet_process, node, &f->processes) {
        if (as_str_eq(as_str_of(t->token), token))
            return t;
    }
    return NULL;
}

void as_fleet_expect_deployment(struct as_fleet *f, struct as_str deployment)
{
    struct as_fleet_deployment *d = as_fleet_get_deployment(f, deployment);

    if (d && !as_fleet_flag(&d->expected)) /* at the start of the server all are announced before it
                                              accepts workers */
        as_fleet_set_flag(&d->late, as_fleet_flag(&f->accepting));
    /* a deleted deployment is announced until its last process is gone; only as_fleet_add_process
     * brings it back */
    if (d && !d->deleted)
        as_fleet_set_flag(&d->expected, true); /* the server is not ready until it is */
}

/* A deleted deployment is served again. */
static void undelete_deployment(struct as_fleet *f, struct as_str deployment)
{
    struct as_fleet_deployment *d = as_fleet_find_deployment(f, deployment);

    if (d && d->deleted) {
        d->deleted = d->gone = false;
        d->unserved_since = AS_NEVER;
        as_fleet_set_down(f, deployment, false);
        as_fleet_set_flag(&d->late, true);
    }
}

void as_fleet_add_process(struct as_fleet *f, struct as_str token, struct as_str replica,
                          struct as_str deployment)
{
    struct as_fleet_process *t;

    if (as_fleet_find_process(f, token))
        return;
    undelete_deployment(f, deployment);
    as_fleet_expect_deployment(f, deployment);
    t = as_xalloc(sizeof(*t));
    t->token = as_str_dup(token);
    t->replica = as_str_dup(replica);
    t->deployment = as_str_dup(deployment);
    t->loss = AS_LOSS_PENDING;
    t->kill_cause = AS_FLEET_EXITS;
    as_list_push(&f->processes, &t->node);
}

static void free_process(struct as_fleet_process *t)
{
    as_list_remove(&t->node);
    free(t->token);
    free(t->replica);
    free(t->deployment);
    free(t);
}

/* If the link has ended already, core holds the lost requests until it knows the cause of death. */
static void report_verdict(struct as_fleet *f, struct as_fleet_process *t)
{
    struct as_fleet_deployment *d =
        t->verdict_id ? as_fleet_deployment_by_number(f, t->number) : NULL;

    if (d && d->core)
        as_deployment_verdict(d->core, t->verdict_id, t->loss, as_loop_now(f->loop));
    t->verdict_id = 0;
}

void as_fleet_record_exit(struct as_fleet *f, struct as_str token, uint32_t kind)
{
    const struct as_fleet_process *t = as_fleet_find_process(f, token);
    struct as_fleet_deployment *d = t ? as_fleet_get_deployment(f, as_str_of(t->deployment)) : NULL;

    static_assert((int)AS_FLEET_EXIT_CODE == AS_EXIT_CODE &&
                      (int)AS_FLEET_EXIT_STOPPED == AS_EXIT_STOPPED,
                  "the first rows of the table are as_exit_kind");
    if (d && t->kill_cause != AS_FLEET_EXITS)
        d->exits[t->kill_cause]++;
    else if (d && kind <= AS_EXIT_STOPPED)
        d->exits[kind]++;
}

void as_fleet_remove_process(struct as_fleet *f, struct as_str token, enum as_loss loss)
{
    struct as_fleet_process *t = as_fleet_find_process(f, token);
    struct as_fleet_deployment *d;

    if (!t)
        return;
    t->loss = loss;
    if (t->up)
        t->up->ops->on_death(t->up);
    report_verdict(f, t);
    d = as_fleet_find_deployment(f, as_str_of(t->deployment));
    free_process(t);
    if (d)
        as_fleet_schedule_cleanup(d);
}

void as_upstream_report_retired(struct as_upstream *u)
{
    struct as_fleet *f = u->fleet;

    f->ops.on_retired(f->ctx, as_str_of(u->name), as_str_of(u->process->token));
}

/* A websocket could last for ever: its client is asked to open another one. */
static void close_websocket(void *arg AS_UNUSED, struct as_request *q)
{
    struct as_call *c = AS_CONTAINER(q, struct as_call, core);

    if (c->payload.kind == AS_FRAME_HTTP && c->stream->accepted && as_call_is_awaited(c))
        as_fleet_deliver_close(c, AS_FLEET_CLOSE_RESTART);
}

void as_fleet_close_websockets(struct as_upstream *u)
{
    if (u->replica)
        as_replica_each_executing(u->replica, close_websocket, NULL);
}

void as_fleet_retire_process(struct as_fleet *f, struct as_str token)
{
    struct as_fleet_process *t = as_fleet_find_process(f, token);
    struct as_upstream *u = t ? t->up : NULL;

    if (t)
        t->retiring = true;
    if (!u || !u->replica) { /* it has no requests */
        f->ops.on_retired(f->ctx, as_str_of(t ? t->replica : ""), token);
        return;
    }
    u->retiring = true;
    u->ops->update_rotation(u);
    as_fleet_close_websockets(u);
    as_fleet_schedule_cleanup(u->deploy);
    as_upstream_check_retired(u);
}

void as_fleet_send_control(struct as_fleet *f, struct as_str token, uint64_t id,
                           enum as_control_op op, struct as_str text)
{
    struct as_fleet_process *t = as_fleet_find_process(f, token);
    const char *why = "the replica is not connected";
    int err = t && t->up ? t->up->ops->control(t->up, id, op, text, &why) : AS_EUNAVAILABLE;

    if (err)
        f->ops.on_answer(f->ctx, as_str_of(t ? t->replica : ""), token, id, err, as_str_of(why));
}

void as_fleet_set_join_token(struct as_fleet *f, struct as_str token)
{
    free(f->join_token);
    f->join_token = as_str_dup(token);
}

void as_fleet_set_driver_token(struct as_fleet *f, struct as_str token)
{
    free(f->driver_token);
    f->driver_token = as_str_dup(token);
}

/* --- the tick --- */

static void on_trim(struct as_timer *t)
{
    as_slab_trim();
    as_pages_trim();
    as_timer_set(t, as_loop_now(t->loop) + TRIM_INTERVAL);
}

/* One timer for all links, since pings need not be exact. */
static void on_tick(struct as_timer *t)
{
    struct as_fleet *f = AS_CONTAINER(t, struct as_fleet, tick);
    as_ns now = as_loop_now(f->loop);

    as_fleet_resume_listener(f);
    as_unknown_peer_tick(&f->unknown_peer, f->log, now);
    as_fleet_cleanup(&f->cleanup);
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        u->ops->tick(u, now);
    }
    as_timer_set(t, now + f->conf.ping_interval / TICKS_PER_INTERVAL);
}

/* --- creation and destruction --- */

int as_fleet_new(struct as_fleet **ret_f, struct as_loop *loop, const struct as_fleet_conf *conf,
                 const struct as_fleet_ops *ops, void *ctx, const struct as_log *log)
{
    struct as_fleet *f = as_xalloc(sizeof(*f));

    f->loop = loop;
    f->conf = *conf;
    f->ops = *ops;
    f->ctx = ctx;
    f->log = log;
    f->listen_fd = -1;
    f->rand.s = conf->deployment.seed;
    f->simple_epoch = as_loop_now(loop) / AS_US;
    f->callers = (struct as_fleet_client){.fleet = f, .loop = loop, .local = true};
    atomic_init(&f->n_deploys, 0);
    as_list_init(&f->end_reports);
    as_list_init(&f->upstreams);
    as_list_init(&f->processes);
    as_list_init(&f->clients);
    as_list_init(&f->free_hedges);
    f->registry = as_registry_new();
    f->routes = as_routes_new();
    (void)as_death_watch_new(
        &f->death_watch); /* on an old kernel pidfd reports deaths, only later */
    atomic_init(&f->accepting, false);
    atomic_init(&f->aborted, false);
    as_task_init(&f->cleanup, as_fleet_cleanup);
    as_task_init(&f->calls_done, as_fleet_report_calls_done);
    as_timer_init(&f->tick, loop, on_tick);
    as_timer_set(&f->tick, as_loop_now(loop) + conf->ping_interval / TICKS_PER_INTERVAL);
    as_timer_init(&f->load_timer, loop, as_fleet_on_load_timer);
    as_timer_init(&f->trim, loop, on_trim);
    as_timer_set(&f->trim, as_loop_now(loop) + TRIM_INTERVAL);
    *ret_f = f;
    return 0;
}

static void free_handle(uv_handle_t *h)
{
    free(h);
}

static void free_deploy(struct as_timer *t)
{
    struct as_fleet_deployment *d = AS_CONTAINER(t, struct as_fleet_deployment, timer);

    as_fleet_free_models(d);
    as_buf_fini(&d->settings);
    free(d->name);
    free(d);
}

static void free_fleet(struct as_timer *t)
{
    free(AS_CONTAINER(t, struct as_fleet, tick));
}

static void on_trim_closed(struct as_timer *t)
{
    as_timer_close(&AS_CONTAINER(t, struct as_fleet, trim)->tick, free_fleet);
}

static void on_load_timer_closed(struct as_timer *t)
{
    as_timer_close(&AS_CONTAINER(t, struct as_fleet, load_timer)->trim, on_trim_closed);
}

void as_fleet_free(struct as_fleet *f)
{
    if (!f)
        return;
    AS_ASSERT(as_list_empty(&f->clients));
    as_fleet_stop(f);
    as_upstream_native.fini(f);
    as_task_cancel(&f->cleanup);
    as_task_cancel(&f->calls_done);
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        as_deployment_free(f->deploys[i]->core);
        as_fleet_free_router(f->deploys[i]);
        as_task_cancel(&f->deploys[i]->work);
        as_timer_close(&f->deploys[i]->timer, free_deploy);
    }
    AS_LIST_EACH(n, &f->processes) free_process(AS_LIST_ENTRY(n, struct as_fleet_process, node));
    if (f->listener)
        uv_close((uv_handle_t *)f->listener, free_handle);
    as_death_watch_free(f->death_watch);
    as_call_graph_fini(&f->calls);
    as_call_owner_fini(&f->clients_calls);
    as_fleet_free_hedges(f);
    as_registry_unref(f->registry);
    as_routes_unref(f->routes);
    as_upstream_simple.fini(f);
    free(f->join_token);
    free(f->driver_token);
    as_timer_set(&f->tick, AS_NEVER);
    as_timer_close(&f->load_timer, on_load_timer_closed);
}
