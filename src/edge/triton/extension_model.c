/* Model configuration, and statistics of models. */
#include "edge/exchange/dispatch_query.h"
#include "edge/exchange/key_access.h"
#include "edge/triton/extension.h"
#include "io/loop/clock.h"
#include "wire/triton/model_config.h"
#include "wire/triton/model_stats.h"

/* --- configuration --- */

/* The tensors of one item, without the batch dimension, which is the first one. NULL: no memory. */
static const struct as_tensor_spec *item_specs(struct as_arena *a, const struct as_tensor_spec *s,
                                               uint32_t n)
{
    struct as_tensor_spec *item = as_arena_alloc(a, n * sizeof(*item) + 1, 8);

    for (uint32_t i = 0; item && i < n; i++) {
        item[i] = s[i];
        if (s[i].ndim && s[i].ndim != AS_ANY_RANK) {
            item[i].ndim--;
            item[i].shape++;
        }
    }
    return item;
}

static bool add_batching(struct as_model_config *c, const struct as_model *m, struct as_arena *a)
{
    c->max_batch_size = m->batching.max_size;
    c->batching = true;
    c->preferred = m->batching.preferred;
    c->n_preferred = m->batching.n_preferred;
    c->max_delay_us = m->batching.max_wait / AS_US;
    c->ragged = m->batching.ragged;
    c->inputs = item_specs(a, m->inputs, m->n_inputs);
    c->outputs = item_specs(a, m->outputs, m->n_outputs);
    return c->inputs && c->outputs;
}

static struct as_model_config config_of(const struct as_model *m)
{
    return (struct as_model_config){.name = m->name,
                                    .platform = m->platform,
                                    .inputs = m->inputs,
                                    .outputs = m->outputs,
                                    .n_inputs = m->n_inputs,
                                    .n_outputs = m->n_outputs,
                                    .decoupled = m->decoupled};
}

void as_extension_config(struct as_exchange *x, struct as_str model, struct as_str version)
{
    const struct as_model *m = as_exchange_find_model(x, model, version);
    struct as_model_config c;
    struct as_buf out = {0};

    if (!m)
        return;
    c = config_of(m);
    if (m->batching.max_size && !add_batching(&c, m, &x->arena)) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the answer");
        return;
    }
    as_extension_reply(x, as_model_config_put(&c, &x->arena, !x->grpc, &out), &out);
}

/* --- statistics --- */

/* One model of a query: its numbers in the fleet, and the statistics that the fleet has. */
struct row {
    const struct as_model *model; /* owned by x->registry */
    uint32_t deployment, index;
    struct as_model_stat stat;
    struct as_model_batches *batches; /* malloc */
    uint32_t n_batches;
};

struct stats_query {
    struct as_dispatch_query query;
    bool out_of_memory; /* on the dispatch loop */
    uint32_t n;
    struct row rows[];
};

/* Copies the batch sizes that occurred. False: no memory. */
static bool collect_batches(struct row *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->stat.n_calls; i++)
        n += r->stat.calls[i].n > 0;
    r->batches = malloc(n * sizeof(*r->batches) + 1);
    for (uint32_t i = 0; r->batches && i < r->stat.n_calls; i++) {
        const struct as_model_calls *c = &r->stat.calls[i];

        if (c->n)
            r->batches[r->n_batches++] =
                (struct as_model_batches){i + 1, c->n, c->input_ns, c->infer_ns, c->output_ns};
    }
    return r->batches;
}

/* On the dispatch loop. */
static void collect_stats(struct as_dispatch_query *k, struct as_fleet *f)
{
    struct stats_query *q = AS_CONTAINER(k, struct stats_query, query);

    for (uint32_t i = 0; i < q->n && !q->out_of_memory; i++) {
        struct row *r = &q->rows[i];
        const struct as_model_stat *stat = as_fleet_model_stat(f, r->deployment, r->index);

        if (!stat)
            continue; /* the model has gone in the meantime */
        r->stat = *stat;
        q->out_of_memory = !collect_batches(r);
        r->stat.calls = NULL; /* it belongs to the fleet */
    }
}

static void free_batches(struct as_dispatch_query *k)
{
    struct stats_query *q = AS_CONTAINER(k, struct stats_query, query);

    for (uint32_t i = 0; i < q->n; i++)
        free(q->rows[i].batches);
}

static struct as_model_stats stats_of(const struct row *r, uint64_t wall_ms, as_ns now)
{
    const struct as_model_stat *s = &r->stat;
    as_ns since = now > s->last ? now - s->last : 0;

    return (struct as_model_stats){.name = r->model->name,
                                   .version = r->model->version,
                                   .last_ms = s->last ? wall_ms - since / AS_MS : 0,
                                   .inferences = s->inferences,
                                   .executions = s->executions,
                                   .success = s->success,
                                   .fail = s->fail,
                                   .success_ns = s->success_ns,
                                   .fail_ns = s->fail_ns,
                                   .queue_ns = s->queue_ns,
                                   .input_ns = s->input_ns,
                                   .infer_ns = s->service_ns,
                                   .output_ns = s->output_ns,
                                   .batches = r->batches,
                                   .n_batches = r->n_batches};
}

static void send_stats(struct as_dispatch_query *k)
{
    struct stats_query *q = AS_CONTAINER(k, struct stats_query, query);
    struct as_exchange *x = k->x;
    struct as_model_stats *rows =
        q->out_of_memory ? NULL : as_arena_alloc(&x->arena, q->n * sizeof(*rows) + 1, 8);
    as_ns now = as_loop_now(x->edge->loop);
    struct as_buf out = {0};
    int err = AS_ENOMEM;

    for (uint32_t i = 0; rows && i < q->n; i++)
        rows[i] = stats_of(&q->rows[i], as_clock_read(CLOCK_REALTIME) / AS_MS, now);
    if (rows)
        err = as_model_stats_put(rows, q->n, &x->arena, !x->grpc, &out);
    as_extension_reply(x, err, &out);
}

static void add_model(struct stats_query *q, const struct as_model *m)
{
    if (!m->unloaded)
        q->rows[q->n++] = (struct row){.model = m, .deployment = m->deployment, .index = m->index};
}

/* Adds one version of a model, or all of them. */
static void add_versions(struct as_exchange *x, struct stats_query *q, uint32_t room,
                         struct as_str model, struct as_str version)
{
    const struct as_model **all =
        as_arena_alloc(&x->arena, room * sizeof(struct as_model *) + 1, 8);
    uint32_t n = all ? as_registry_versions(x->registry, model, all, room) : 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!version.n || as_str_eq(all[i]->version, version))
            add_model(q, all[i]);
    }
}

void as_extension_statistics(struct as_exchange *x, struct as_str model, struct as_str version)
{
    struct stats_query *q;
    uint32_t room;

    if (model.n && !as_exchange_find_model(x, model, version))
        return;
    if (!x->registry)
        x->registry = as_registry_ref(x->edge->client.registry);
    room = model.n ? as_registry_versions(x->registry, model, NULL, 0)
                   : as_registry_count(x->registry);
    q = calloc(1, sizeof(*q) + room * sizeof(q->rows[0]));
    if (!q) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the answer");
        return;
    }
    q->query.fini = free_batches;
    if (model.n)
        add_versions(x, q, room, model, version);
    for (uint32_t i = 0; !model.n && i < room; i++) {
        if (as_key_access_lists_model(x, as_registry_at(x->registry, i)->name))
            add_model(q, as_registry_at(x->registry, i));
    }
    as_dispatch_query_send(x, &q->query, collect_stats, send_stats);
}
