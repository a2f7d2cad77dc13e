/* The state of the fleet: readiness for client loops, everything else for the status page. */
#include "link/fleet/policy/policy.h"
#include "link/fleet/upstream.h"

bool as_fleet_deployment_ready(const struct as_fleet *f, uint32_t deployment)
{
    const struct as_fleet_deployment *d = f->deploys[AS_FLEET_DEPLOYMENT_PLACE(deployment)];

    return as_fleet_flag(&d->ready) || as_fleet_flag(&d->asleep);
}

bool as_fleet_deployment_down(const struct as_fleet *f, uint32_t deployment)
{
    return as_fleet_flag(&f->deploys[AS_FLEET_DEPLOYMENT_PLACE(deployment)]->down);
}

bool as_fleet_ready(const struct as_fleet *f)
{
    uint32_t n = atomic_load_explicit(&f->n_deploys, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++) {
        const struct as_fleet_deployment *d = f->deploys[i];

        if (as_fleet_flag(&d->expected) && !as_fleet_flag(&d->ready) && !as_fleet_flag(&d->late) &&
            !as_fleet_flag(&d->asleep))
            return false;
    }
    return as_fleet_flag(&f->accepting);
}

uint32_t as_fleet_unanswered(const struct as_fleet *f)
{
    return f->unanswered;
}

struct as_registry *as_fleet_registry(const struct as_fleet *f)
{
    return f->registry;
}

const struct as_model_stat *as_fleet_model_stat(const struct as_fleet *f, uint32_t deployment,
                                                uint32_t model)
{
    struct as_fleet_deployment *d = as_fleet_deployment_by_number(f, deployment);
    const struct as_fleet_model *m = d ? as_fleet_find_model(d, model) : NULL;

    return m ? &m->stat : NULL;
}

void as_fleet_each_replica(struct as_fleet *f,
                           void (*fn)(void *arg, const struct as_fleet_replica *r), void *arg)
{
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        struct as_fleet_driver driver;
        struct as_fleet_replica r = {.name = as_str_of(u->name ? u->name : ""),
                                     .deployment = as_str_of(u->deploy ? u->deploy->name : ""),
                                     .kind = as_str_of(u->ops->kind)};

        if (u->ops->fill_driver && u->ops->fill_driver(u, &driver))
            continue;
        if (u->replica) {
            r.slots = as_replica_slots(u->replica);
            r.ongoing = as_replica_ongoing(u->replica);
            r.beyond = as_replica_beyond(u->replica);
            r.models = as_replica_models(u->replica);
            r.unanswered = as_replica_unanswered(u->replica);
            r.service = as_replica_service(u->replica);
            r.breaker = as_replica_breaker(u->replica);
        }
        u->ops->fill_status(u, &r);
        fn(arg, &r);
    }
}

void as_fleet_each_driver(struct as_fleet *f,
                          void (*fn)(void *arg, const struct as_fleet_driver *d), void *arg)
{
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        struct as_fleet_driver driver;

        if (u->ops->fill_driver && u->ops->fill_driver(u, &driver))
            fn(arg, &driver);
    }
}

void as_fleet_each_deployment(struct as_fleet *f,
                              void (*fn)(void *arg, struct as_deployment *d, bool down), void *arg)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        if (f->deploys[i]->core)
            fn(arg, f->deploys[i]->core, as_fleet_flag(&f->deploys[i]->down));
    }
}

void as_fleet_each_exits(struct as_fleet *f,
                         void (*fn)(void *arg, struct as_str deployment, const uint64_t *counts),
                         void *arg)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        const struct as_fleet_deployment *d = f->deploys[i];

        if (d->name && as_fleet_flag(&d->expected))
            fn(arg, as_str_of(d->name), d->exits);
    }
}

void as_fleet_each_router(struct as_fleet *f,
                          void (*fn)(void *arg, struct as_str deployment, const uint64_t *counts,
                                     const char *const *names),
                          void *arg)
{
    static const char *const names[] = {
#define X(name, text) (text),
        AS_POLICY_OUTCOME_TABLE(X)
#undef X
            NULL};

    for (uint32_t i = 0; i < f->n_deploys; i++) {
        const struct as_fleet_deployment *d = f->deploys[i];

        if (d->name && d->policy)
            fn(arg, as_str_of(d->name), d->router_outcomes, names);
    }
}

void as_fleet_each_services(struct as_fleet *f,
                            void (*fn)(void *arg, struct as_str deployment,
                                       const struct as_service_set *set),
                            void *arg)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        const struct as_fleet_deployment *d = f->deploys[i];

        if (d->name && d->services && !d->deleted)
            fn(arg, as_str_of(d->name), d->services);
    }
}

const struct as_routes *as_fleet_routes(const struct as_fleet *f)
{
    return f->routes;
}

const char *as_fleet_exit_name(uint32_t why)
{
    static const char *const names[] = {
#define X(name, text) text,
        AS_FLEET_EXIT_TABLE(X)
#undef X
    };

    return why < AS_FLEET_EXITS ? names[why] : NULL;
}

void as_fleet_each_model(struct as_fleet *f,
                         void (*fn)(void *arg, const struct as_fleet_model_row *m), void *arg)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        const struct as_fleet_deployment *d = f->deploys[i];

        for (uint32_t k = 0; k < d->n_models; k++) {
            const struct as_fleet_model *m = &d->models[k];

            if (!m->gone) /* its name may be registered again, under another index */
                fn(arg, &(struct as_fleet_model_row){as_str_of(d->name), as_str_of(m->name),
                                                     as_str_of(m->version), &m->stat});
        }
    }
}

/* --- payloads of calls --- */

void as_fleet_set_budgets(struct as_fleet *f, struct as_budget *requests, struct as_budget *answers)
{
    f->call_requests = requests;
    f->call_answers = answers;
}

void as_fleet_refuse_payload(struct as_fleet *f, enum as_fleet_refused why, const char *name,
                             uint32_t pid)
{
    static const char *const reasons[] = {
        [AS_FLEET_REFUSED_REGISTER] = "a worker with the join token may not serve calls",
        [AS_FLEET_REFUSED_CALL] = "a worker with the join token may not call",
        [AS_FLEET_REFUSED_USER] = "a process of another user connects",
        [AS_FLEET_REFUSED_TOKEN] = "a driver without the token of the file driver-token",
    };
    uint64_t skipped;

    static_assert(AS_COUNT(reasons) == AS_FLEET_REFUSED_KINDS, "a text for each");
    f->payloads_refused[why]++;
    if (as_log_ratelimit_allows(&f->refused_log[why], as_loop_now(f->loop), AS_SEC, &skipped))
        as_log_event(f->log, AS_LOG_WARN, "payload_refused",
                     "from=%s replica=%s pid=%u reason=\"%s\" skipped=%lu",
                     as_fleet_refused_name(why), name[0] ? as_id_shown_z(name) : "?", pid,
                     reasons[why], (unsigned long)skipped);
}

/* FNV-1a: a name that happens to have the hash of another gives one wrong line and count. */
static uint64_t hash_bytes(uint64_t h, struct as_str s)
{
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (uint8_t)s.p[i]) * 0x100000001b3u;
    return h;
}

#define HASH_FIRST 0xcbf29ce484222325u

void as_fleet_note_call_target(struct as_fleet_deployment *d)
{
    const struct as_fleet_model *m = d->deleted ? NULL : as_fleet_call_target(d);
    struct as_str application = as_id_application(d->name ? as_str_of(d->name) : AS_STR(""));
    uint64_t h = HASH_FIRST;

    if (m && !as_str_eq(application, AS_STR(AS_ID_DEFAULT)))
        h = hash_bytes(hash_bytes(h, application), AS_STR("."));
    if (m)
        h = hash_bytes(h, as_str_of(m->name)) | 1;
    atomic_store_explicit(&d->call_target, m ? h : 0, memory_order_relaxed);
}

bool as_fleet_is_call_target(const struct as_fleet *f, struct as_str model)
{
    uint32_t n = atomic_load_explicit(&f->n_deploys, memory_order_acquire);
    uint64_t h = hash_bytes(HASH_FIRST, model) | 1;

    for (uint32_t i = 0; i < n; i++) {
        if (atomic_load_explicit(&f->deploys[i]->call_target, memory_order_relaxed) == h)
            return true;
    }
    return false;
}

uint64_t as_fleet_refused_payloads(const struct as_fleet *f, enum as_fleet_refused why)
{
    return f->payloads_refused[why];
}

const char *as_fleet_refused_name(enum as_fleet_refused why)
{
    static const char *const names[] = {
#define X(name, text) text,
        AS_FLEET_REFUSED_TABLE(X)
#undef X
    };

    return why < AS_FLEET_REFUSED_KINDS ? names[why] : NULL;
}
