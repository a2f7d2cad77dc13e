/* Draws from the seed: the deployment's options, the workers' habits, the clients' behaviour. */
#include "sim.h"

static as_ns pick(struct sim *s, const as_ns *list, uint32_t n)
{
    return list[below(s, n)];
}
#define PICK(s, ...)                                                                               \
    pick(s, (const as_ns[]){__VA_ARGS__}, (uint32_t)AS_COUNT(((as_ns[]){__VA_ARGS__})))

struct habits draw_habits(struct sim *s)
{
    struct habits h = {
        0}; /* one statement each, because the order of the draws is part of what a seed means */

    h.slots = (uint32_t)PICK(s, 1, 1, 1, 2, 3, 5, 8);
    h.prefetch = (uint32_t)PICK(s, 0, 1, 4, 16, 64);
    h.service_lo = PICK(s, 1 * AS_US, 5 * AS_US, 20 * AS_US, 200 * AS_US);
    h.service_hi = h.service_lo * PICK(s, 1, 2, 10);
    h.start_delay = PICK(s, 0, 0, 1 * AS_US, 30 * AS_US);
    h.delay = (uint32_t)PICK(s, 1, 2 * AS_US, 10 * AS_US, 100 * AS_US);
    h.refuse = (uint32_t)PICK(s, 0, 0, 0, 30, 700);
    h.silent = (uint32_t)PICK(s, 0, 0, 100, 1000);
    h.stubborn = (uint32_t)PICK(s, 0, 0, 200, 1000);
    h.cancel_stop = (uint32_t)PICK(s, 0, 500, 1000);
    h.eager = chance(s, 200);
    if (h.eager)
        h.prefetch = 0;
    if (s->scenario.harmful) {
        h.fails = chance(s, s->scenario.failing) ? (uint32_t)PICK(s, 300, 1000)
                                                 : (uint32_t)PICK(s, 0, 20);
        h.loses = (uint32_t)PICK(s, 0, 0, 0, 50);
        if (chance(s, 100)) /* much slower than its peers */
            h.service_lo = h.service_hi = 50 * h.service_hi;
    }
    return h;
}

static void draw_calls(struct sim *s)
{
    as_ns when = 0, gap = PICK(s, 0, 500, 3 * AS_US, 20 * AS_US, 100 * AS_US);
    uint32_t burst = (uint32_t)PICK(s, 1, 1, 4, 30), left = 0;
    uint32_t timed = (uint32_t)PICK(s, 0, 0, 200, 1000);
    uint32_t leaves = (uint32_t)PICK(s, 0, 0, 100, 500);
    uint32_t urgent = (uint32_t)PICK(s, 0, 0, 300);
    uint32_t idempotent = (uint32_t)PICK(s, 0, 0, 500, 1000);
    uint32_t has_fallback = (uint32_t)PICK(s, 0, 0, 0, 500);
    uint32_t is_mirror = (uint32_t)PICK(s, 0, 0, 0, 300);
    /* made by requests that came before them, so with older roots */
    uint32_t nested = (uint32_t)PICK(s, 0, 0, 100, 900);
    uint32_t cyclic = (uint32_t)PICK(s, 0, 0, 50, 500);
    as_ns patience = PICK(s, 20 * AS_US, 200 * AS_US, 2 * AS_MS);

    for (uint32_t i = 0; i < s->scenario.n_calls; i++) {
        struct as_request *q = &s->calls[i].q;

        as_request_init(q);
        if (left-- == 0) {
            when += between(s, 0, 2 * gap * burst);
            left = below(s, burst);
        }
        q->model = below(s, s->scenario.n_models);
        if (chance(s, urgent))
            q->priority = (uint8_t)below(s, AS_PRIORITIES);
        q->idempotent = chance(s, idempotent);
        q->has_fallback = chance(s, has_fallback);
        q->is_mirror = !q->has_fallback && chance(s, is_mirror);
        if (when && chance(s, nested))
            q->root = between(s, chance(s, 500) ? 1 : when - when / 8, when);
        q->on_cycle = chance(s, cyclic);
        if (chance(s, timed))
            q->deadline = chance(s, 20) ? when : when + between(s, 0, patience);
        schedule(s, when, E_SUBMIT, i, 0);
        if (chance(s, leaves))
            schedule(s, when + between(s, 0, patience), E_CANCEL, i, 0);
    }
    s->end = when + 1;
}

/* Tenants, of which the first may send most of the calls. */
static void draw_tenants(struct sim *s)
{
    struct scenario *i = &s->scenario;
    uint32_t first = (uint32_t)PICK(s, 0, 0, 900);

    i->n_tenants = 1 + below(s, TENANTS_MAX);
    i->cost = (enum as_fair_cost)below(s, 3);
    i->most_cost = 1;
    for (uint32_t n = 0; n < i->n_calls; n++) {
        struct as_request *q = &s->calls[n].q;

        q->tenant = 1 + (chance(s, first) ? 0 : below(s, i->n_tenants));
        q->cost = chance(s, 500) ? 1 : 1 + below(s, 20);
        if (i->cost == AS_FAIR_COST_SAID)
            i->most_cost = AS_MAX(i->most_cost, q->cost);
    }
}

/* Draws which models have batching, and their requests. */
static void draw_batches(struct sim *s)
{
    for (uint32_t m = 0; m < s->scenario.n_models; m++) {
        struct as_batch_conf *b = &s->scenario.batch[m];

        if (!chance(s, 600))
            continue;
        s->scenario.batched = true;
        b->max_size = (uint32_t)PICK(s, 1, 2, 4, 8, 8, 32);
        b->max_wait = PICK(s, 0, 0, 5 * AS_US, 50 * AS_US, 1 * AS_MS);
        if (b->max_size > 2 && chance(s, 300)) {
            b->preferred[b->n_preferred++] = 2;
            if (chance(s, 500))
                b->preferred[b->n_preferred++] = b->max_size;
        }
    }
    for (uint32_t i = 0; s->scenario.batched && i < s->scenario.n_calls; i++) {
        struct as_request *q = &s->calls[i].q;
        const struct as_batch_conf *b = &s->scenario.batch[q->model];

        if (!b->max_size)
            continue;
        q->kind = chance(s, 700) ? 0 : 1 + below(s, 2);
        if (chance(s, 200))
            q->items = 1 + below(s, b->max_size);
    }
}

/* Workers of two versions: some serve models that others do not, and get or lose models. */
static void draw_models(struct sim *s)
{
    uint32_t changes = (uint32_t)PICK(s, 0, 1, 10);

    s->scenario.lacking = (uint32_t)PICK(s, 100, 400, 900);
    for (uint32_t i = 0; i < changes; i++)
        schedule(s, between(s, 0, s->end), E_MODEL, below(s, 1000), below(s, s->scenario.n_models));
}

/* Rarely more than one kind of trouble at a time, so that each happens under load. */
static void draw_trouble(struct sim *s)
{
    uint32_t kills = (uint32_t)PICK(s, 0, 0, 1, 4, 12);
    uint32_t grants = (uint32_t)PICK(s, 0, 0, 0, 10);
    uint32_t drains = (uint32_t)PICK(s, 0, 0, 0, 6);
    uint32_t downs = (uint32_t)PICK(s, 0, 0, 0, 0, 2);

    for (uint32_t i = 0; i < kills; i++)
        schedule(s, between(s, 0, s->end), E_KILL, below(s, 1000), 0);
    for (uint32_t i = 0; i < grants; i++)
        schedule(s, between(s, 0, s->end), E_GRANT, below(s, 1000), 0);
    for (uint32_t i = 0; i < drains; i++)
        schedule(s, between(s, 0, s->end), E_DRAIN, below(s, 1000), chance(s, 600));
    for (uint32_t i = 0; i < downs; i++) {
        as_ns when = between(s, 0, s->end);

        schedule(s, when, E_DOWN, 0, 1);
        schedule(s, when + between(s, 0, s->end / 8), E_DOWN, 0, 0);
    }
    for (uint32_t i = 0; i < s->scenario.n_workers; i++)
        schedule(s, chance(s, 500) ? 0 : between(s, 0, s->end), E_SPAWN, 0, 0);
}

void draw_scenario(struct sim *s)
{
    struct scenario *i = &s->scenario;

    i->n_calls = 20 + below(s, DRAWN_MAX - 20);
    i->n_workers = 1 + below(s, 5);
    i->n_models = 1 + below(s, MODELS_MAX);
    for (uint32_t m = 0; m < i->n_models; m++)
        i->cap[m] = (uint32_t)PICK(s, 0, 0, 1, 2, 4);
    i->max_queued = (int64_t)PICK(s, 0, 1, 10, 40, 100, 1024);
    if (chance(s, 200))
        i->max_queued = -1;
    i->prefetch_work = PICK(s, 20 * AS_US, 100 * AS_US, 1 * AS_MS);
    i->timer_late = PICK(s, 0, 1, 5 * AS_US, 100 * AS_US);
    i->share = (uint32_t)PICK(s, 8, 8, 2, 3);
    i->page_lost = (uint32_t)PICK(s, 0, 0, 300);
    i->stop_early = chance(s, 50);
    i->cause_pending = (uint32_t)PICK(s, 0, 300, 1000);
    i->verdict_wait = PICK(s, 1 * AS_US, 50 * AS_US, 1 * AS_MS);
    i->repeat_verdict_wait = i->verdict_wait * PICK(s, 1, 10);
    i->reported = 800;
    draw_calls(s);
    draw_routing(s);
    if (chance(s, 400))
        draw_harm(s);
    draw_trouble(s);
    if (chance(s, 500))
        draw_batches(s);
    if (chance(s, 250))
        draw_models(s);
    if (chance(s, 300))
        draw_tenants(s);
    if (chance(s, 150))
        i->codel = (struct as_codel_conf){PICK(s, 1 * AS_US, 20 * AS_US, 200 * AS_US),
                                          PICK(s, 10 * AS_US, 500 * AS_US)};
    if (chance(s, 200))
        i->slow_start = PICK(s, 5 * AS_US, 100 * AS_US, 2 * AS_MS);
    i->adaptive = chance(s, 100);
    if (chance(s, 300))
        draw_reservations(s);
    i->one_queue =
        !i->batched && !i->lacking && !i->router.asks && !i->session_keys && !i->model_keys;
    for (uint32_t m = 0; m < i->n_models; m++)
        i->one_queue = i->one_queue && !i->cap[m];
    i->simple = i->one_queue && !i->n_tenants;
    for (uint32_t n = 0; n < i->n_calls; n++) {
        i->simple = i->simple && s->calls[n].q.priority == 1 && !s->calls[n].q.root &&
                    !s->calls[n].q.on_cycle;
        i->late = i->late || (s->calls[n].q.deadline != AS_NEVER && i->outlier.factor);
    }
    if (chance(s, 300))
        draw_hedging(s);
    schedule(s, s->end, E_CLOSE, 0, 0);
}
