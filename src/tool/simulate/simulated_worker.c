/* The workers of a simulation. */
#include "tool/simulate/simulation_internal.h"

/* How long a call takes: its longest request, and a part of the others. */
static as_ns duration_of(const struct sim *s, const struct sim_execution *x)
{
    as_ns longest = 0, sum = 0;

    for (const struct sim_call *c = x->first; c; c = c->next) {
        longest = AS_MAX(longest, c->service);
        sum += c->service;
    }
    return longest + (as_ns)((double)(sum - longest) * s->conf->batch_cost + 0.5);
}

/* --- multiplexed models --- */

void sim_worker_report(struct sim *s, struct sim_worker *w)
{
    if (!s->conf->max_models)
        return;
    w->reports++;
    sim_schedule(s, s->now + s->conf->link_latency, SIM_HELD, w, 0);
}

void sim_worker_reported(struct sim *s, struct sim_worker *w)
{
    uint64_t keys[AS_SIMULATION_MODELS_MAX];

    for (uint32_t i = 0; i < w->n_models; i++)
        keys[i] = w->models[i].key;
    w->reports--;
    as_replica_set_held(w->replica, keys, w->n_models, s->now);
}

/* Makes room for a model at the front of the list, where the most recently used one is. */
static struct sim_model *put_first(struct sim *s, struct sim_worker *w, uint32_t from)
{
    struct sim_model m = {0};

    if (from < w->n_models) {
        m = w->models[from];
    } else if (w->n_models < s->conf->max_models) {
        w->models = as_xrealloc(w->models, (w->n_models + 1) * sizeof(w->models[0]));
        w->n_models++;
    } else {
        from--; /* the last one leaves */
    }
    memmove(w->models + 1, w->models, from * sizeof(w->models[0]));
    w->models[0] = m;
    return &w->models[0];
}

/* How long a request waits for its model. */
static as_ns load_model(struct sim *s, struct sim_worker *w, uint64_t key)
{
    struct sim_model *m;
    uint32_t i = 0;

    while (i < w->n_models && w->models[i].key != key)
        i++;
    m = put_first(s, w, i);
    if (m->key == key) {
        s->result->model_hits++;
        return AS_MAX(m->loaded, s->now) - s->now;
    }
    *m = (struct sim_model){.key = key, .loaded = s->now + s->conf->model_load};
    s->result->model_loads++;
    sim_worker_report(s, w);
    return s->conf->model_load;
}

static as_ns load_models(struct sim *s, struct sim_execution *x)
{
    as_ns longest = 0;

    for (struct sim_call *c = x->first; c && s->conf->max_models; c = c->next) {
        as_ns wait = c->q.model_key ? load_model(s, x->worker, c->q.model_key) : 0;

        longest = AS_MAX(longest, wait);
    }
    return longest;
}

/* --- executions --- */

static void begin(struct sim *s, struct sim_execution *x)
{
    as_ns lasts = duration_of(s, x) + load_models(s, x);

    x->executes = true;
    x->worker->running++;
    s->levels.running++;
    for (struct sim_call *c = x->first; c; c = c->next) {
        c->started = s->now;
        c->ran = lasts;
    }
    sim_schedule(s, s->now + lasts, SIM_FINISH, x, 0);
}

void sim_worker_receive(struct sim *s, struct sim_execution *x)
{
    struct sim_worker *w = x->worker;

    if (w->running < s->conf->slots) {
        begin(s, x);
        return;
    }
    x->waits = true;
    as_list_push(&w->waiting, &x->node);
}

void sim_worker_finish(struct sim *s, struct sim_execution *x)
{
    struct sim_worker *w = x->worker;
    struct as_list *node;

    AS_ASSERT(w->running && x->executes);
    w->running--;
    s->levels.running--;
    node = as_list_pop(&w->waiting);
    if (node) {
        struct sim_execution *next = AS_LIST_ENTRY(node, struct sim_execution, node);

        next->waits = false;
        begin(s, next);
    }
}

bool sim_worker_drop(struct sim_call *c, uint64_t stream)
{
    struct sim_execution *x = c->execution;

    /* what was dropped before does not wait either: its answer is on the way */
    if (c->q.stream != stream || !x || !x->waits || x->batch)
        return false;
    as_list_remove(&x->node);
    x->waits = false;
    return true;
}
