/* The model repository: the models of the running applications. With --allow-client-control clients
 * may unload models and load them again. */
#include "edge/exchange/dispatch_query.h"
#include "edge/exchange/key_access.h"
#include "edge/triton/extension.h"

/* --- index --- */

static struct as_repository_row state_of(const struct as_edge *e, const struct as_model *m)
{
    struct as_repository_row r = {m->name, m->version, "READY", ""};
    const struct as_fleet *f = e->client.fleet;

    if (m->unloaded) {
        r.state = "UNAVAILABLE";
        r.reason = "unloaded";
    } else if (as_fleet_deployment_down(f, m->deployment)) {
        r.state = "UNAVAILABLE";
        r.reason = "its workers fail";
    } else if (!as_fleet_deployment_ready(f, m->deployment)) {
        r.state = "LOADING";
        r.reason = "no worker is ready";
    }
    return r;
}

void as_extension_index(struct as_exchange *x, bool only_ready)
{
    const struct as_registry *g = x->edge->client.registry;
    struct as_repository_row *rows =
        as_arena_alloc(&x->arena, as_registry_count(g) * sizeof(*rows) + 1, 8);
    struct as_buf out = {0};
    uint32_t n = 0;
    int err = AS_ENOMEM;

    for (uint32_t i = 0; rows && i < as_registry_count(g); i++) {
        if (!as_key_access_lists_model(x, as_registry_at(g, i)->name))
            continue;
        rows[n] = state_of(x->edge, as_registry_at(g, i));
        n += !only_ready || strcmp(rows[n].state, "READY") == 0;
    }
    if (rows)
        err = as_repository_put_index(rows, n, &x->arena, !x->grpc, &out);
    as_extension_reply(x, err, &out);
}

/* --- load and unload ---
 *
 * All clients share the models: a key that may use some of them may not take them from others. */

struct change {
    struct as_dispatch_query query;
    bool load, down, ready;
    int err;
    uint32_t n;
    char model[AS_NAME_MAX]; /* n bytes of it */
};

/* On the dispatch loop. */
static void set_loaded(struct as_dispatch_query *k, struct as_fleet *f)
{
    struct change *c = AS_CONTAINER(k, struct change, query);
    const struct as_model *m;

    c->err = as_fleet_set_loaded(f, (struct as_str){c->model, c->n}, c->load);
    if (c->err)
        return;
    m = as_registry_find(as_fleet_registry(f), (struct as_str){c->model, c->n}, (struct as_str){0},
                         NULL);
    c->ready = as_fleet_deployment_ready(f, m->deployment);
    c->down = as_fleet_deployment_down(f, m->deployment);
}

/* Loading succeeds if a worker of the model is ready. */
static void send_outcome(struct as_dispatch_query *k)
{
    struct change *c = AS_CONTAINER(k, struct change, query);
    struct as_exchange *x = k->x;
    struct as_buf out = {0};

    if (c->err)
        as_exchange_fail(x, c->err, "failed to %s '%.*s': the application declares no such model",
                         c->load ? "load" : "unload", (int)c->n, c->model);
    else if (c->load && !c->ready)
        as_exchange_fail(x, AS_EUNAVAILABLE, "failed to load '%.*s': %s", (int)c->n, c->model,
                         c->down ? "its workers fail" : "no worker is ready yet");
    else
        as_extension_reply(x, 0, &out);
    if (!c->err)
        as_log_event(x->edge->log, AS_LOG_INFO, c->load ? "model_loaded" : "model_unloaded",
                     "model=%.*s", (int)c->n, c->model);
}

static void request_change(struct as_exchange *x, struct as_str model, bool load)
{
    const char *verb = load ? "load" : "unload";
    struct change *c;

    if (!x->edge->conf.control) {
        as_exchange_fail(x, AS_EDENIED,
                         "failed to %s '%.*s': the server runs without --allow-client-control",
                         verb, AS_STR_CUT(model, AS_NAME_MAX));
        return;
    }
    if (!as_registry_find(x->edge->client.registry, model, (struct as_str){0}, NULL)) {
        as_exchange_fail(x, x->edge->client.models_pending ? AS_EUNAVAILABLE : AS_ENOTFOUND,
                         "failed to %s '%.*s': %s", verb, AS_STR_CUT(model, AS_NAME_MAX),
                         x->edge->client.models_pending ? "workers are starting"
                                                        : "the application declares no such model");
        return;
    }
    c = calloc(1, sizeof(*c));
    if (!c) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the request");
        return;
    }
    c->load = load;
    c->n = (uint32_t)model.n; /* the registry has it, so it fits */
    memcpy(c->model, model.p, model.n);
    as_dispatch_query_send(x, &c->query, set_loaded, send_outcome);
}

void as_extension_load(struct as_exchange *x, const struct as_repository_change *c)
{
    if (!as_key_access_check_server(x))
        return;
    if (c->n_parameters)
        as_exchange_fail(x, AS_EUNIMPLEMENTED,
                         "failed to load '%.*s': parameter '%.*s' is not supported: the "
                         "application declares its models",
                         AS_STR_CUT(c->model, AS_NAME_MAX), AS_STR_CUT(c->parameters[0], 64));
    else
        request_change(x, c->model, true);
}

void as_extension_unload(struct as_exchange *x, const struct as_repository_change *c)
{
    if (!as_key_access_check_server(x))
        return;
    for (uint32_t i = 0; i < c->n_parameters; i++) {
        if (as_str_eq(c->parameters[i], AS_STR("unload_dependents")))
            continue; /* no model depends on another */
        as_exchange_fail(x, AS_EINVALID, "failed to unload '%.*s': unknown parameter '%.*s'",
                         AS_STR_CUT(c->model, AS_NAME_MAX), AS_STR_CUT(c->parameters[i], 64));
        return;
    }
    request_change(x, c->model, false);
}
