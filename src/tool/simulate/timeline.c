#include "tool/simulate/timeline.h"

#include <string.h>

#define FOLD 10u

static_assert(AS_TIMELINE_CELLS % FOLD == 0, "folding leaves no rest");

void as_timeline_init(struct as_timeline *t)
{
    *t = (struct as_timeline){.interval = AS_TIMELINE_FIRST, .n = 1};
    t->cells = as_xalloc(AS_TIMELINE_CELLS * sizeof(t->cells[0]));
}

void as_timeline_fini(struct as_timeline *t)
{
    free(t->cells);
    *t = (struct as_timeline){0};
}

static void add_cell(struct as_timeline_cell *to, const struct as_timeline_cell *c)
{
    to->arrived += c->arrived;
    to->answered += c->answered;
    to->failed += c->failed;
    to->queued += c->queued;
    to->running += c->running;
    to->slots += c->slots;
    to->replicas += c->replicas;
    to->starting += c->starting;
    to->most_queued = AS_MAX(to->most_queued, c->most_queued);
    to->most_replicas = AS_MAX(to->most_replicas, c->most_replicas);
    to->covered += c->covered;
}

struct as_timeline_cell as_timeline_sum(const struct as_timeline *t, uint32_t first, uint32_t n)
{
    struct as_timeline_cell sum = {0};

    for (uint32_t i = first; i < t->n && i - first < n; i++)
        add_cell(&sum, &t->cells[i]);
    return sum;
}

static void fold(struct as_timeline *t)
{
    uint32_t n = (t->n + FOLD - 1) / FOLD;

    for (uint32_t i = 0; i < n; i++)
        t->cells[i] = as_timeline_sum(t, i * FOLD, FOLD);
    memset(t->cells + n, 0, (AS_TIMELINE_CELLS - n) * sizeof(t->cells[0]));
    t->n = n;
    t->interval *= FOLD;
}

static void add_time(struct as_timeline_cell *c, as_ns lasted, const struct as_timeline_levels *l)
{
    double ns = (double)lasted;

    c->queued += ns * l->queued;
    c->running += ns * l->running;
    c->slots += ns * l->slots;
    c->replicas += ns * l->replicas;
    c->starting += ns * l->starting;
    c->most_queued = AS_MAX(c->most_queued, l->queued);
    c->most_replicas = AS_MAX(c->most_replicas, l->replicas);
    c->covered += lasted;
}

void as_timeline_advance(struct as_timeline *t, as_ns now, const struct as_timeline_levels *levels)
{
    while (now / t->interval >= AS_TIMELINE_CELLS)
        fold(t);
    while (t->now < now) {
        uint32_t i = (uint32_t)(t->now / t->interval);
        as_ns until = AS_MIN(now, (i + 1) * t->interval);

        t->n = AS_MAX(t->n, i + 1);
        add_time(&t->cells[i], until - t->now, levels);
        t->now = until;
    }
}

struct as_timeline_cell *as_timeline_now(struct as_timeline *t)
{
    /* what happens at the end of a cell belongs to it, or the last cell would have no time */
    uint32_t i = (uint32_t)((t->now - (t->now > 0)) / t->interval);

    return &t->cells[i];
}

uint32_t as_timeline_group(const struct as_timeline *t, uint32_t rows)
{
    static const uint32_t steps[] = {1, 2, 5};
    uint32_t tens = 1;

    for (;; tens *= 10) {
        for (size_t i = 0; i < AS_COUNT(steps); i++) {
            if ((t->n + steps[i] * tens - 1) / (steps[i] * tens) <= rows)
                return steps[i] * tens;
        }
    }
}
