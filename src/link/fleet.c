#include "link/fleet.h"

#include "base/buf.h"
#include "base/pages.h"
#include "link/link.h"

#define TICKS_PER_INTERVAL 2 /* how often a ping interval is looked at */

static struct as_call *call_of(struct as_request *q)
{
    return AS_CONTAINER(q, struct as_call, core);
}

/* --- verdicts on their way home --- */

static void open_answer(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_call *c = AS_CONTAINER(letter, struct as_call, answer_letter);

    if (!c->cancel_posted)
        c->on_answer(c);
    else
        as_blob_unref(c->result_blob);
}

/* The call's memory may go only when no letter of it is in any mailbox. */
static void home_release(struct as_call *c)
{
    if (c->posted)
        c->released = true; /* they come back first */
    else
        c->on_release(c);
}

static void open_release(struct as_letter *letter, void *to AS_UNUSED)
{
    home_release(AS_CONTAINER(letter, struct as_call, release_letter));
}

static void answer(struct as_call *c)
{
    c->answered = true;
    if (c->client->local) {
        c->on_answer(c);
        return;
    }
    c->answer_letter.open = open_answer;
    as_mbox_post(&c->client->box, &c->answer_letter);
}

static void release(struct as_call *c)
{
    c->client->fleet->unanswered--;
    if (c->on_part)
        as_call_release_input(c);
    if (c->client->local) {
        c->on_release(c);
        return;
    }
    c->release_letter.open = open_release;
    as_mbox_post(&c->client->box, &c->release_letter);
}

/* Answer first: on_release may free the memory that the answer lies in. */
void as_fleet_deliver(struct as_call *c)
{
    answer(c);
    release(c);
}

/* --- what core decides --- */

static void op_batch(void *ctx AS_UNUSED, struct as_replica *r, uint32_t n)
{
    struct as_upstream *u = as_upstream_of(r);

    u->ops->batch(u, n);
}

static void op_wake(void *ctx, as_ns when)
{
    struct as_fleet_deploy *d = ctx;

    if (when < d->timer.at)
        as_timer_set(&d->timer, when);
}

/* Both are of one model, which is ragged or not. */
static bool op_alike(const struct as_request *a, const struct as_request *b)
{
    const struct as_call *x = call_of((struct as_request *)(uintptr_t)a);
    const struct as_call *y = call_of((struct as_request *)(uintptr_t)b);

    return as_call_alike(&x->msg, &y->msg, x->batching == AS_CALL_RAGGED);
}

static void op_send(void *ctx AS_UNUSED, struct as_replica *r, struct as_request *q)
{
    struct as_upstream *u = as_upstream_of(r);

    u->ops->send(u, call_of(q));
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
    struct as_fleet_deploy *d = ctx;
    struct as_call *c = call_of(q);

    if (c->result_blob) { /* a part of the answer had come when the deadline passed */
        struct as_upstream *u = as_upstream_of(q->replica);

        u->ops->pass_over(u, c);
    }
    c->err = err;
    c->status = 0;
    c->message = (struct as_str){0};
    as_model_stat_fail(&d->models[q->model].stat, q, as_loop_now(d->fleet->loop));
    answer(c);
}

static void op_release(void *ctx AS_UNUSED, struct as_request *q)
{
    release(call_of(q));
}

static const struct as_deploy_ops deploy_ops = {
    .batch = op_batch,
    .send = op_send,
    .recall = op_recall,
    .cancel = op_cancel,
    .answer = op_answer,
    .release = op_release,
    .wake = op_wake,
    .alike = op_alike,
};

static void on_deadline(struct as_timer *t)
{
    struct as_fleet_deploy *d = AS_CONTAINER(t, struct as_fleet_deploy, timer);

    as_deploy_expire(d->core, as_loop_now(d->fleet->loop));
    as_timer_set(t, as_deploy_next_deadline(d->core));
}

/* --- deployments and their models --- */

/* Finds or makes it. NULL: too many. */
struct as_fleet_deploy *as_fleet_deploy(struct as_fleet *f, struct as_str name)
{
    uint32_t n = atomic_load_explicit(&f->n_deploys, memory_order_relaxed);
    struct as_fleet_deploy *d, *vacant = NULL;

    for (uint32_t i = 0; i < n; i++) {
        d = f->deploys[i];
        if (d->name && as_str_eq(as_str_of(d->name), name))
            return d;
        if (!d->name && !vacant)
            vacant = d;
    }
    if (vacant) {
        vacant->name = as_str_dup(name);
        return vacant;
    }
    if (n == AS_FLEET_DEPLOYS_MAX)
        return NULL;
    d = as_xalloc(sizeof(*d));
    d->fleet = f;
    d->name = as_str_dup(name);
    d->number = n;
    d->deserted = AS_NEVER;
    atomic_init(&d->down, false);
    atomic_init(&d->expected, false);
    atomic_init(&d->registered, false);
    atomic_init(&d->ready, false);
    as_timer_init(&d->timer, f->loop, on_deadline);
    f->deploys[n] = d;
    /* release: a client loop that sees the count sees the entry */
    atomic_store_explicit(&f->n_deploys, n + 1, memory_order_release);
    return d;
}

/* The queue comes with the first model, whose replica says how long it may be; the others have to
 * agree, or the order of their coming would decide. */
static int ensure_core(struct as_fleet_deploy *d, const struct as_frame_register *r,
                       const char **ret_why)
{
    struct as_fleet *f = d->fleet;
    int64_t max_queued = r->max_queued ? r->max_queued : f->conf.max_queued;
    struct as_deploy_conf conf = {.max_queued = max_queued,
                                  .router = f->conf.router,
                                  .prefetch_work = f->conf.prefetch_work,
                                  .seed = f->conf.seed + d->number};
    int err;

    if (d->core) {
        if (d->max_queued == max_queued && d->budget == r->budget)
            return 0;
        *ret_why = "the deployment's options differ from those of its other models or replicas";
        return AS_EINVALID;
    }
    err = as_deploy_new(&d->core, as_str_of(d->name), &conf, &deploy_ops, d);
    if (err)
        return err;
    d->max_queued = max_queued;
    d->budget = r->budget;
    if (as_fleet_flag(&d->down))
        as_deploy_set_down(d->core, true, as_loop_now(f->loop));
    return 0;
}

static struct as_fleet_model *find_model(struct as_fleet_deploy *d,
                                         const struct as_frame_register *r)
{
    for (uint32_t i = 0; i < d->n_models; i++) {
        if (as_str_eq(as_str_of(d->models[i].name), r->name) &&
            as_str_eq(as_str_of(d->models[i].version), r->version))
            return &d->models[i];
    }
    return NULL;
}

static void open_registry(struct as_letter *letter, void *to);

/* Allocated for each snapshot: models come and go rarely, and a letter inside the client could be
 * under way already. */
struct registry_letter {
    struct as_letter letter;
    struct as_registry *registry;
    bool settling;
};

static bool is_settling(const struct as_fleet *f)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        if (as_fleet_flag(&f->deploys[i]->expected) && !as_fleet_flag(&f->deploys[i]->registered))
            return true;
    }
    return !as_fleet_flag(&f->open);
}

/* The new snapshot for every client loop. */
static void publish(struct as_fleet *f, struct as_registry *g)
{
    as_registry_unref(f->registry);
    f->registry = g;
    AS_LIST_EACH(n, &f->clients)
    {
        struct as_client *c = AS_LIST_ENTRY(n, struct as_client, node);
        struct registry_letter *l = as_xalloc(sizeof(*l));

        l->registry = as_registry_ref(g);
        l->settling = is_settling(f);
        l->letter.open = open_registry;
        if (c->local)
            open_registry(&l->letter, c);
        else
            as_mbox_post(&c->box, &l->letter);
    }
}

static void open_registry(struct as_letter *letter, void *to)
{
    struct registry_letter *l = AS_CONTAINER(letter, struct registry_letter, letter);
    struct as_client *c = to;

    as_registry_unref(c->registry);
    c->registry = l->registry;
    c->settling = l->settling;
    free(l);
    if (c->on_registry)
        c->on_registry(c);
}

int as_fleet_register(struct as_fleet_deploy *d, const struct as_frame_register *r,
                      uint32_t *ret_target, const char **ret_why)
{
    struct as_fleet *f = d->fleet;
    struct as_fleet_model *known = find_model(d, r);
    struct as_model m = {.name = r->name,
                         .version = r->version,
                         .platform = r->platform,
                         .deployment = d->number,
                         .index = known ? (uint32_t)(known - d->models) : d->n_models,
                         .idempotent = r->idempotent,
                         .decoupled = r->decoupled,
                         .streams_inputs = r->streams_inputs,
                         .has_inputs = r->has_inputs,
                         .has_outputs = r->has_outputs,
                         .inputs = r->inputs,
                         .outputs = r->outputs,
                         .n_inputs = r->n_inputs,
                         .n_outputs = r->n_outputs};
    struct as_registry *g;
    int err;

    static_assert(AS_FRAME_PREFERRED == AS_BATCH_PREFERRED, "specification");
    m.batching = (struct as_batch_conf){.max_size = r->batching.max_size,
                                        .max_wait = r->batching.max_wait,
                                        .n_preferred = r->batching.n_preferred,
                                        .ragged = r->batching.ragged};
    memcpy(m.batching.preferred, r->batching.preferred, sizeof(m.batching.preferred));
    *ret_why = "";
    if (!known && d->n_models == AS_DEPLOY_MODELS_MAX) {
        *ret_why = "too many models in one deployment";
        return AS_EINVALID;
    }
    err = ensure_core(d, r, ret_why);
    if (err)
        return err;
    /* Before anything of ours is changed: a model that another deployment has, or with another
     * signature, leaves no trace. */
    err = as_registry_with(f->registry, &m, &g, ret_why);
    if (err)
        return err;
    if (!known) {
        d->models = as_xrealloc(d->models, (d->n_models + 1) * sizeof(*d->models));
        d->models[d->n_models++] = (struct as_fleet_model){.name = as_str_dup(r->name),
                                                           .version = as_str_dup(r->version),
                                                           .max_ongoing = r->max_ongoing};
        err = as_deploy_set_model(d->core, m.index, r->max_ongoing);
        AS_ASSERT(!err);
        err = as_deploy_set_batch(d->core, m.index, &m.batching);
        AS_ASSERT(!err);
    }
    if (g == f->registry)
        as_registry_unref(g);
    else
        publish(f, g);
    *ret_target = m.index;
    return 0;
}

int as_fleet_set_loaded(struct as_fleet *f, struct as_str model, bool loaded)
{
    struct as_registry *g = as_registry_set_loaded(f->registry, model, loaded);

    if (!g)
        return AS_ENOTFOUND;
    if (g == f->registry)
        as_registry_unref(g);
    else
        publish(f, g);
    return 0;
}

void as_fleet_republish(struct as_fleet *f)
{
    publish(f, as_registry_ref(f->registry));
}

void as_fleet_refresh(struct as_fleet_deploy *d)
{
    bool ready = d->core && as_deploy_ready(d->core) > 0;

    if (ready == as_fleet_flag(&d->ready))
        return;
    as_fleet_set_flag(&d->ready, ready);
    as_fleet_republish(d->fleet);
}

void as_fleet_link_ready(struct as_link *l)
{
    struct as_fleet *f = l->up.fleet;
    struct as_buf models;

    if (!as_fleet_flag(&l->up.deploy->registered)) {
        as_fleet_set_flag(&l->up.deploy->registered, true);
        as_fleet_republish(f);
    }
    as_buf_init(&models);
    for (uint32_t i = 0; i < l->up.deploy->n_models; i++)
        as_buf_printf(&models, "%s%s:%s", i ? " " : "", l->up.deploy->models[i].name,
                      l->up.deploy->models[i].version);
    f->ops.on_ready(f->ctx, as_str_of(l->up.name), as_str_of(l->token ? l->token->token : ""),
                    as_buf_slice(&models));
    as_buf_fini(&models);
}

/* --- tokens --- */

/* Linear: as many as there are workers, and only a greeting or a death asks. Comparing is not
 * constant in time: who can reach the socket is our own user. */
struct as_fleet_token *as_fleet_find_token(struct as_fleet *f, struct as_str token)
{
    AS_LIST_EACH(n, &f->tokens)
    {
        struct as_fleet_token *t = AS_LIST_ENTRY(n, struct as_fleet_token, node);

        if (as_str_eq(as_str_of(t->token), token))
            return t;
    }
    return NULL;
}

void as_fleet_expect(struct as_fleet *f, struct as_str deployment)
{
    struct as_fleet_deploy *d = as_fleet_deploy(f, deployment);

    if (d)
        as_fleet_set_flag(&d->expected, true); /* not ready until it is */
}

void as_fleet_token(struct as_fleet *f, struct as_str token, struct as_str replica,
                    struct as_str deployment)
{
    struct as_fleet_token *t;

    if (as_fleet_find_token(f, token))
        return;
    as_fleet_expect(f, deployment);
    t = as_xalloc(sizeof(*t));
    t->token = as_str_dup(token);
    t->replica = as_str_dup(replica);
    t->deployment = as_str_dup(deployment);
    as_list_push(&f->tokens, &t->node);
}

static void free_token(struct as_fleet_token *t)
{
    as_list_remove(&t->node);
    free(t->token);
    free(t->replica);
    free(t->deployment);
    free(t);
}

void as_fleet_forget(struct as_fleet *f, struct as_str token)
{
    struct as_fleet_token *t = as_fleet_find_token(f, token);

    if (!t)
        return;
    if (t->link) {
        struct as_link *l = t->link;

        /* answers that it had written before it died still count */
        if (l->state == AS_LINK_BROKEN || as_link_drain_socket(l))
            as_link_end(l, "process ended", true);
    }
    free_token(t);
}

void as_fleet_join_token(struct as_fleet *f, struct as_str token)
{
    free(f->join_token);
    f->join_token = as_str_dup(token);
}

void as_fleet_down(struct as_fleet *f, struct as_str deployment, bool down)
{
    struct as_fleet_deploy *d = as_fleet_deploy(f, deployment);

    if (!d || as_fleet_flag(&d->down) == down)
        return;
    as_fleet_set_flag(&d->down, down);
    if (d->core)
        as_deploy_set_down(d->core, down, as_loop_now(f->loop));
}

/* --- deployments of workers that came by themselves --- */

void as_fleet_enter(struct as_fleet_deploy *d)
{
    d->n_upstreams++;
    d->deserted = AS_NEVER;
}

void as_fleet_leave(struct as_fleet_deploy *d, bool at_once)
{
    struct as_fleet *f = d->fleet;

    AS_ASSERT(d->n_upstreams > 0);
    if (--d->n_upstreams > 0 || as_fleet_flag(&d->expected))
        return;
    d->deserted = at_once || !as_fleet_flag(&d->registered)
                      ? 0 /* nobody has heard of it, or nobody waits for it */
                      : as_loop_now(f->loop);
    as_loop_defer(f->loop, &f->tidy);
}

static void free_models(struct as_fleet_deploy *d)
{
    for (uint32_t i = 0; i < d->n_models; i++) {
        free(d->models[i].name);
        free(d->models[i].version);
        as_model_stat_fini(&d->models[i].stat);
    }
    free(d->models);
    d->models = NULL;
    d->n_models = 0;
}

/* Its models are unknown from here on; what waited for a worker is answered. A call that another
 * loop has resolved before has its old number, and finds nobody. */
static void vacate(struct as_fleet_deploy *d)
{
    struct as_fleet *f = d->fleet;
    struct as_registry *g = as_registry_without(f->registry, d->number);

    as_log_event(f->log, AS_LOG_INFO, "deployment_gone", "deployment=%s models=%u", d->name,
                 d->n_models);
    /* first: who hears of the answers below may submit again */
    d->number += AS_FLEET_DEPLOYS_MAX;
    if (g == f->registry)
        as_registry_unref(g);
    else
        publish(f, g);
    as_timer_set(&d->timer, AS_NEVER);
    as_deploy_free(d->core);
    d->core = NULL;
    free_models(d);
    free(d->name);
    d->name = NULL;
    d->max_queued = 0;
    d->budget = 0;
    d->deserted = AS_NEVER;
    as_fleet_set_flag(&d->down, false);
    as_fleet_set_flag(&d->registered, false);
    as_fleet_set_flag(&d->ready, false);
}

/* Not where the last worker goes: core may be in the middle of something. */
static void on_tidy(struct as_task *t)
{
    struct as_fleet *f = AS_CONTAINER(t, struct as_fleet, tidy);
    as_ns now = as_loop_now(f->loop);

    if (f->draining)
        return;
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        struct as_fleet_deploy *d = f->deploys[i];

        if (d->name && d->deserted != AS_NEVER && !as_fleet_flag(&d->expected) &&
            (d->deserted == 0 || now - d->deserted >= f->conf.grace))
            vacate(d);
    }
}

/* --- ending --- */

void as_fleet_drain(struct as_fleet *f)
{
    /* new requests are refused from here on; what is queued is still sent */
    f->draining = true;
    AS_LIST_EACH(n, &f->upstreams)
    {
        struct as_upstream *u = AS_LIST_ENTRY(n, struct as_upstream, node);

        u->ops->drain(u);
    }
}

void as_fleet_stop(struct as_fleet *f)
{
    f->draining = true;
    AS_LIST_EACH(n, &f->upstreams)
    {
        struct as_upstream *u = AS_LIST_ENTRY(n, struct as_upstream, node);

        u->ops->stop(u);
    }
}

/* --- the pulse --- */

/* One timer for all links instead of one each: a ping need not be on time. */
static void on_tick(struct as_timer *t)
{
    struct as_fleet *f = AS_CONTAINER(t, struct as_fleet, tick);
    as_ns now = as_loop_now(f->loop);

    as_pages_trim();
    as_fleet_watch_door(f);
    on_tidy(&f->tidy);
    AS_LIST_EACH(n, &f->upstreams)
    {
        struct as_upstream *u = AS_LIST_ENTRY(n, struct as_upstream, node);

        u->ops->tick(u, now);
    }
    as_timer_set(t, now + f->conf.ping_interval / TICKS_PER_INTERVAL);
}

/* --- life --- */

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
    atomic_init(&f->n_deploys, 0);
    as_list_init(&f->upstreams);
    as_list_init(&f->tokens);
    as_list_init(&f->clients);
    f->registry = as_registry_new();
    (void)as_deathwatch_new(&f->watch); /* an old kernel: pidfd tells, only later */
    atomic_init(&f->open, false);
    as_task_init(&f->tidy, on_tidy);
    as_timer_init(&f->tick, loop, on_tick);
    as_timer_set(&f->tick, as_loop_now(loop) + conf->ping_interval / TICKS_PER_INTERVAL);
    *ret_f = f;
    return 0;
}

static void free_handle(uv_handle_t *h)
{
    free(h);
}

static void free_deploy(struct as_timer *t)
{
    struct as_fleet_deploy *d = AS_CONTAINER(t, struct as_fleet_deploy, timer);

    free_models(d);
    free(d->name);
    free(d);
}

static void free_fleet(struct as_timer *t)
{
    free(AS_CONTAINER(t, struct as_fleet, tick));
}

void as_fleet_free(struct as_fleet *f)
{
    if (!f)
        return;
    AS_ASSERT(as_list_empty(&f->clients));
    as_fleet_stop(f);
    as_task_cancel(&f->tidy);
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        as_deploy_free(f->deploys[i]->core);
        as_timer_close(&f->deploys[i]->timer, free_deploy);
    }
    AS_LIST_EACH(n, &f->tokens) free_token(AS_LIST_ENTRY(n, struct as_fleet_token, node));
    if (f->listener)
        uv_close((uv_handle_t *)f->listener, free_handle);
    as_deathwatch_free(f->watch);
    as_registry_unref(f->registry);
    free(f->join_token);
    as_timer_close(&f->tick, free_fleet);
}
