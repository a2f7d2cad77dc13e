#include "link/fleet/fleet_deployment.h"

#include "base/err.h"
#include "link/fleet/policy/policy.h"

static void on_deadline(struct as_timer *t)
{
    struct as_fleet_deployment *d = AS_CONTAINER(t, struct as_fleet_deployment, timer);

    as_deployment_expire(d->core, as_loop_now(d->fleet->loop));
    as_timer_set(t, as_deployment_next_deadline(d->core));
}

static void on_work(struct as_task *t)
{
    struct as_fleet_deployment *d = AS_CONTAINER(t, struct as_fleet_deployment, work);

    as_deployment_work(d->core, as_loop_now(d->fleet->loop));
}

/* --- fingerprints: large bodies are hashed in portions, one per turn --- */

static const struct as_payload *payload_of(const struct as_request *q)
{
    return &AS_CONTAINER((struct as_request *)(uintptr_t)q, struct as_call, core)->payload;
}

uint64_t as_fleet_hash_sample(void *ctx, const struct as_request *q, uint64_t *ret_sample)
{
    const struct as_fleet_deployment *d = ctx;

    if (ret_sample)
        *ret_sample = as_payload_sample(payload_of(q), d->fleet->conf.deployment.seed);
    return as_payload_size(payload_of(q));
}

bool as_fleet_fingerprint(void *ctx, const struct as_request *q, bool first, uint64_t *bytes,
                          struct as_fingerprint *ret_p)
{
    struct as_fleet_deployment *d = ctx;

    return as_payload_fingerprint(&d->hash, payload_of(q), d->fleet->conf.deployment.seed, first,
                                  bytes, ret_p);
}

void as_fleet_schedule_work(void *ctx)
{
    struct as_fleet_deployment *d = ctx;

    as_loop_defer_next_turn(d->fleet->loop, &d->work);
}

/* --- the table of deployments --- */

struct as_fleet_deployment *as_fleet_find_deployment(const struct as_fleet *f, struct as_str name)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        if (f->deploys[i]->name && as_str_eq(as_str_of(f->deploys[i]->name), name))
            return f->deploys[i];
    }
    return NULL;
}

struct as_fleet_deployment *as_fleet_get_deployment(struct as_fleet *f, struct as_str name)
{
    uint32_t n = atomic_load_explicit(&f->n_deploys, memory_order_relaxed);
    struct as_fleet_deployment *d = as_fleet_find_deployment(f, name), *vacant = NULL;

    if (d)
        return d;
    for (uint32_t i = 0; i < n && !vacant; i++) {
        if (!f->deploys[i]->name)
            vacant = f->deploys[i];
    }
    if (vacant) {
        vacant->name = as_str_dup(name);
        vacant->options.request_timeout = f->conf.request_timeout;
        as_policy_begin(vacant);
        return vacant;
    }
    if (n == AS_FLEET_DEPLOYMENTS_MAX)
        return NULL;
    d = as_xalloc(sizeof(*d));
    d->fleet = f;
    d->name = as_str_dup(name);
    d->number = n;
    d->unserved_since = d->counting.due = AS_NEVER;
    d->options.request_timeout = f->conf.request_timeout;
    atomic_init(&d->down, false);
    atomic_init(&d->expected, false);
    atomic_init(&d->registered, false);
    atomic_init(&d->late, false);
    atomic_init(&d->ready, false);
    atomic_init(&d->asleep, false);
    as_timer_init(&d->timer, f->loop, on_deadline);
    as_task_init(&d->work, on_work);
    f->deploys[n] = d;
    /* release: a client loop that sees the new count also sees the entry */
    atomic_store_explicit(&f->n_deploys, n + 1, memory_order_release);
    as_policy_begin(d);
    return d;
}

/* The first registration creates the queue with its options. Later ones must have the same, or the
 * order of registrations would matter. */
static int ensure_core(struct as_fleet_deployment *d, const struct as_frame_register *r,
                       const char **ret_why)
{
    struct as_fleet *f = d->fleet;
    struct as_deployment_conf conf = f->conf.deployment;
    int err;

    conf.seed += d->number;
    as_fleet_begin_plugin(d);
    conf.router = as_fleet_router_conf(d);
    if (r->max_queued)
        conf.max_queued = r->max_queued;
    if (d->core) {
        if (d->max_queued == conf.max_queued)
            return 0;
        if (d->declared) { /* what a worker says counts more than what the record says */
            d->max_queued = conf.max_queued;
            as_fleet_set_options(d, &d->options);
            return 0;
        }
        *ret_why = "the deployment's options differ from those of its other models or replicas";
        return AS_EINVALID;
    }
    err = as_deployment_new(&d->core, as_str_of(d->name), &conf, &as_fleet_deployment_ops, d);
    if (err)
        return err;
    d->max_queued = conf.max_queued;
    if (as_fleet_flag(&d->down))
        as_deployment_set_down(d->core, true, as_loop_now(f->loop));
    return 0;
}

static struct as_batch_conf batching_of(const struct as_frame_register *r)
{
    struct as_batch_conf c = {.max_size = r->batching.max_size,
                              .max_wait = r->batching.max_wait,
                              .n_preferred = r->batching.n_preferred,
                              .ragged = r->batching.ragged};

    static_assert(AS_FRAME_PREFERRED == AS_BATCH_PREFERRED, "specification");
    memcpy(c.preferred, r->batching.preferred, sizeof(c.preferred));
    return c;
}

/* core keeps the limits of a place. So a removed model gets its place back only if they are equal.
 */
static struct as_fleet_model *find_model(struct as_fleet_deployment *d,
                                         const struct as_frame_register *r,
                                         const struct as_batch_conf *batching)
{
    for (uint32_t i = 0; i < d->n_models; i++) {
        struct as_fleet_model *m = &d->models[i];

        if (!as_str_eq(as_str_of(m->name), r->name) ||
            !as_str_eq(as_str_of(m->version), r->version) || m->opaque != r->opaque)
            continue;
        if (!m->gone || (m->max_ongoing == r->max_ongoing && as_batch_eq(&m->batching, batching)))
            return m;
    }
    return NULL;
}

/* The place of a new model: that of a removed one, else behind the others. */
static uint32_t choose_place(const struct as_fleet_deployment *d)
{
    uint32_t place = d->core ? as_fleet_find_free_place(d) : AS_DEPLOYMENT_MODELS_MAX;

    return place < AS_DEPLOYMENT_MODELS_MAX ? place : d->n_models;
}

static void free_model(struct as_fleet_model *m)
{
    free(m->name);
    free(m->version);
    as_model_stat_fini(&m->stat);
}

/* Called after the registry has the model under this index. */
static void add_model(struct as_fleet_deployment *d, const struct as_frame_register *r,
                      uint32_t index, uint32_t cap, const struct as_batch_conf *batching)
{
    uint32_t place = AS_FLEET_MODEL_PLACE(index);
    int err;

    if (place == d->n_models) {
        d->models = as_xrealloc(d->models, (d->n_models + 1) * sizeof(*d->models));
        d->n_models++;
    } else {
        as_deployment_forget_model(d->core, place);
        free_model(&d->models[place]);
    }
    d->models[place] = (struct as_fleet_model){.name = as_str_dup(r->name),
                                               .version = as_str_dup(r->version),
                                               .index = index,
                                               .max_ongoing = r->max_ongoing,
                                               .opaque = r->opaque,
                                               .batching = *batching,
                                               .unserved_since = AS_NEVER};
    err = as_deployment_set_model(d->core, place, cap);
    AS_ASSERT(!err);
    err = as_deployment_set_batching(d->core, place, batching);
    AS_ASSERT(!err);
    as_fleet_mark_unserved(d, place);
}

/* A max_ongoing that is not below the slots is no limit: it must not become one when more slots are
 * granted later, or by another worker. */
static uint32_t ongoing_cap(const struct as_frame_register *r)
{
    return r->max_ongoing >= r->budget ? AS_DEPLOYMENT_SLOTS_MAX : r->max_ongoing;
}

static struct as_model model_of(const struct as_fleet_deployment *d,
                                const struct as_frame_register *r)
{
    return (struct as_model){.name = r->name,
                             .version = r->version,
                             .platform = r->platform,
                             .served_by = as_str_of(d->name),
                             .traffic = d->traffic,
                             .deployment = d->number,
                             .idempotent = r->idempotent,
                             .decoupled = r->decoupled,
                             .streams_inputs = r->streams_inputs,
                             .has_inputs = r->has_inputs,
                             .has_outputs = r->has_outputs,
                             .batching = batching_of(r),
                             .inputs = r->inputs,
                             .outputs = r->outputs,
                             .n_inputs = r->n_inputs,
                             .n_outputs = r->n_outputs};
}

/* The registry with this model; a target of calls is in none, so that clients never see it. */
static int enter_model(const struct as_fleet_deployment *d, const struct as_frame_register *r,
                       const struct as_model *m, struct as_registry **ret_g, const char **ret_why)
{
    if (!r->opaque)
        return as_registry_with_model(d->fleet->registry, m, ret_g, ret_why);
    for (uint32_t i = 0; i < d->n_models; i++) {
        const struct as_fleet_model *other = &d->models[i];

        if (other->opaque && !other->gone && other->index != m->index) {
            *ret_why = "the deployment has another target of calls";
            return AS_EINVALID;
        }
    }
    if (as_registry_check_name(r->name, ret_why) || as_registry_check_version(r->version, ret_why))
        return AS_EINVALID;
    *ret_g = as_registry_ref(d->fleet->registry);
    return 0;
}

struct as_fleet_model *as_fleet_call_target(const struct as_fleet_deployment *d)
{
    for (uint32_t i = 0; i < d->n_models; i++) {
        if (d->models[i].opaque && !d->models[i].gone)
            return &d->models[i];
    }
    return NULL;
}

/* A worker registers a model that so far only a record names. If they differ, the worker's counts:
 * it is what will be executed. */
static void confirm_model(struct as_fleet_deployment *d, const struct as_frame_register *r)
{
    struct as_batch_conf batching = batching_of(r);
    struct as_fleet_model *known = find_model(d, r, &batching);
    struct as_model m = model_of(d, r);
    const char *why = "its limit is another one";
    struct as_registry *g;
    int err = 0;

    if (!known || !known->declared || known->gone)
        return;
    known->declared = false;
    if (known->max_ongoing == r->max_ongoing) {
        m.index = known->index;
        err = enter_model(d, r, &m, &g, &why);
        if (!err)
            as_registry_unref(g);
        if (err != AS_EEXISTS)
            return;
    }
    as_log_event(d->fleet->log, AS_LOG_WARN, "record_differs",
                 "deployment=%s model=%s version=%s reason=\"%s\" action=\"what the worker "
                 "registers counts\"",
                 as_id_shown_z(d->name), known->name, known->version, why);
    as_fleet_drop_model(d, (uint32_t)(known - d->models));
}

/* declared: by a record or by code. awaited: by code alone. */
static int register_model(struct as_fleet_deployment *d, const struct as_frame_register *r,
                          bool declared, bool awaited, uint32_t *ret_target, const char **ret_why)
{
    struct as_fleet *f = d->fleet;
    struct as_batch_conf batching = batching_of(r);
    struct as_fleet_model *known = find_model(d, r, &batching);
    struct as_model m = model_of(d, r);
    struct as_registry *g;
    uint32_t place = known ? (uint32_t)(known - d->models) : choose_place(d);
    int err;

    /* core refuses requests for a removed model until a replica has it, which none has: it is new
     */
    if (known && known->gone && declared && as_deployment_is_unused(d->core, place))
        known = NULL;
    *ret_why = "";
    if (place == AS_DEPLOYMENT_MODELS_MAX) {
        *ret_why = "the deployment has as many models as it can have";
        return AS_EINVALID;
    }
    m.index = known                 ? known->index
              : place < d->n_models ? d->models[place].index + AS_DEPLOYMENT_MODELS_MAX
                                    : place;
    m.awaited = awaited;
    err = ensure_core(d, r, ret_why);
    if (err)
        return err;
    /* Before anything of ours changes: this refuses a model that another deployment serves, or with
     * another signature. */
    err = enter_model(d, r, &m, &g, ret_why);
    if (err)
        return err;
    if (!known)
        add_model(d, r, m.index, ongoing_cap(r), &batching);
    else
        known->gone = false;
    d->models[place].idempotent = r->idempotent;
    d->models[place].http = r->http;
    d->models[place].declared = declared;
    d->models[place].awaited = d->models[place].awaited || awaited;
    if (d->deleted)
        as_registry_unref(g);
    else
        as_fleet_publish(f, g);
    as_fleet_note_call_target(d);
    *ret_target = place;
    return 0;
}

int as_fleet_register_model(struct as_fleet_deployment *d, const struct as_frame_register *r,
                            uint32_t *ret_target, const char **ret_why)
{
    struct as_fleet *f = d->fleet;
    struct as_fleet_model *m;
    int err;

    confirm_model(d, r);
    err = register_model(d, r, false, false, ret_target, ret_why);
    if (err)
        return err;
    d->declared = false;
    m = &d->models[*ret_target];
    if (m->awaited) {
        m->awaited = false;
        as_fleet_publish(f, as_registry_set_served(f->registry, d->number, m->index));
    }
    return 0;
}

int as_fleet_declare_model(struct as_fleet_deployment *d, const struct as_frame_register *r,
                           bool recorded, const char **ret_why)
{
    struct as_batch_conf batching = batching_of(r);
    const struct as_fleet_model *known = find_model(d, r, &batching);
    uint32_t target;
    int err;

    if (known && !known->gone)
        return 0;
    d->declared = d->declared || !d->core;
    err = register_model(d, r, true, !recorded, &target, ret_why);
    if (!err)
        d->models[target].recorded = recorded;
    return err;
}

static void store_traffic(struct as_fleet_deployment *d, const struct as_traffic *t)
{
    char *old = (char *)(uintptr_t)d->traffic.fallback.p;

    d->traffic = *t;
    d->traffic.fallback.p = t->fallback.n ? as_str_dup(t->fallback) : NULL;
    free(old);
}

void as_fleet_set_traffic(struct as_fleet_deployment *d, const struct as_traffic *said)
{
    struct as_traffic resolved = *said, *t = &resolved;
    struct as_fleet *f = d->fleet;
    struct as_registry *g;
    struct as_id id;

    if (t->fallback.n && as_id_is_full(as_str_of(d->name)))
        t->fallback = as_id_resolve(&id, as_id_application(as_str_of(d->name)), said->fallback);
    if (as_traffic_eq(&d->traffic, t))
        return; /* its models have the same already */
    g = as_registry_set_traffic(f->registry, d->number, t);
    store_traffic(d, t);
    as_log_event(f->log, AS_LOG_INFO, "traffic",
                 "deployment=%s canary=%s canary_percent=%.3f mirror_percent=%.3f fallback=%.*s",
                 as_id_shown_z(d->name), t->is_canary ? "yes" : "no",
                 t->canary * 100.0 / AS_TRAFFIC_ALL, t->mirror * 100.0 / AS_TRAFFIC_ALL,
                 AS_STR_FMT(as_id_shown(t->fallback)));
    as_fleet_publish(f, g);
    as_fleet_record_settings(d);
}

/* --- deployments that come and go with their workers --- */

void as_fleet_add_upstream(struct as_fleet_deployment *d)
{
    d->n_upstreams++;
    d->unserved_since = AS_NEVER;
}

void as_fleet_remove_upstream(struct as_fleet_deployment *d, as_ns since)
{
    AS_ASSERT(d->n_upstreams > 0);
    as_fleet_schedule_cleanup(d);
    d->last_served = AS_MAX(d->last_served, since);
    if (--d->n_upstreams > 0 || as_fleet_flag(&d->expected) || (d->deleted && !d->gone))
        return;
    /* 0: clients never knew it, or it was deleted: it need not wait */
    d->unserved_since = as_fleet_flag(&d->registered) && !d->deleted ? d->last_served : 0;
    as_loop_defer(d->fleet->loop, &d->fleet->cleanup);
}

void as_fleet_free_models(struct as_fleet_deployment *d)
{
    for (uint32_t i = 0; i < d->n_models; i++)
        free_model(&d->models[i]);
    free(d->models);
    d->models = NULL;
    d->n_models = 0;
    store_traffic(d, &(struct as_traffic){0});
    as_service_set_unref(d->services);
    d->services = NULL;
}

/* Its models become unknown, and its queued requests are answered. A client loop with an older
 * snapshot submits with the old number, which names no deployment any more. */
void as_fleet_remove_deployment(struct as_fleet_deployment *d)
{
    struct as_fleet *f = d->fleet;
    struct as_registry *g = as_registry_without_deployment(f->registry, d->number);

    as_log_event(f->log, AS_LOG_INFO, "deployment_gone", "deployment=%s models=%u",
                 as_id_shown_z(d->name), d->n_models);
    as_call_graph_remove(&f->calls, AS_FLEET_DEPLOYMENT_PLACE(d->number));
    /* first, since a client may submit again when it gets its answer below */
    d->number += AS_FLEET_DEPLOYMENTS_MAX;
    as_fleet_publish(f, g);
    as_timer_set(&d->timer, AS_NEVER);
    as_deployment_free(d->core);
    as_task_cancel(&d->work);
    d->core = NULL;
    as_fleet_free_router(d);
    as_fleet_free_models(d);
    as_fleet_note_call_target(d);
    free(d->name);
    d->name = NULL;
    as_fleet_forget_records(d);
    d->max_queued = 0;
    d->options = (struct as_fleet_options){0};
    memset(&d->router, 0, sizeof(d->router));
    memset(d->exits, 0, sizeof(d->exits));
    d->declared = d->deleted = d->gone = false;
    d->unserved_since = AS_NEVER;
    d->last_served = 0;
    as_fleet_set_flag(&d->down, false);
    as_fleet_set_flag(&d->registered, false);
    as_fleet_set_flag(&d->late, false);
    as_fleet_set_flag(&d->ready, false);
    as_fleet_set_flag(&d->asleep, false);
    d->counting = (struct as_fleet_counting){.due = AS_NEVER};
}

void as_fleet_set_down(struct as_fleet *f, struct as_str deployment, bool down)
{
    struct as_fleet_deployment *d = as_fleet_get_deployment(f, deployment);

    if (!d || as_fleet_flag(&d->down) == down)
        return;
    as_fleet_set_flag(&d->down, down);
    if (d->core)
        as_deployment_set_down(d->core, down, as_loop_now(f->loop));
}

void as_fleet_delete_deployment(struct as_fleet *f, struct as_str deployment, bool gone)
{
    struct as_fleet_deployment *d = as_fleet_find_deployment(f, deployment), *served;
    struct as_registry *g;

    if (!d || f->draining)
        return;
    served = as_fleet_find_deployment(f, as_id_policy_base(deployment));
    if (served)
        as_policy_remove(served);
    g = as_registry_without_deployment(f->registry, d->number);
    as_fleet_publish(f, g);
    as_service_set_unref(d->services); /* published anew if it comes back */
    d->services = NULL;
    as_fleet_set_route(f, deployment, (struct as_str){0});
    d->deleted = true;
    d->gone = gone;
    as_fleet_note_call_target(d);
    as_fleet_forget_records(d);
    as_fleet_set_down(f, deployment, true); /* refuses what is queued: its replicas drain */
    as_fleet_set_flag(&d->expected, false);
    as_fleet_set_flag(&d->registered, false);
    as_fleet_republish(f);
    if (gone && d->n_upstreams == 0) {
        d->unserved_since = 0;
        as_loop_defer(f->loop, &f->cleanup);
    }
}

/* Not called where the last worker ends: that may be inside a callback of core. */
void as_fleet_cleanup(struct as_task *t)
{
    struct as_fleet *f = AS_CONTAINER(t, struct as_fleet, cleanup);
    as_ns now = as_loop_now(f->loop);

    if (f->draining)
        return;
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        struct as_fleet_deployment *d = f->deploys[i];

        if (d->name && d->unserved_since != AS_NEVER && !as_fleet_flag(&d->expected) &&
            (d->unserved_since == 0 || now - d->unserved_since >= f->conf.grace))
            as_fleet_remove_deployment(d);
        else if (d->name)
            as_fleet_drop_unserved_models(d);
    }
}
