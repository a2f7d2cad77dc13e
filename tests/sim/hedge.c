/* Hedges: which calls may have one, when, and which of the two executions counts. */
#include "sim.h"

static uint32_t number_of(const struct sim *s, const struct call *c)
{
    return (uint32_t)(c - s->calls);
}

static bool waits(const struct call *c)
{
    return !c->answered && !c->cancelled;
}

void draw_hedging(struct sim *s)
{
    struct as_hedging_conf *h = &s->scenario.hedging;
    uint32_t unary = 200 + below(s, 800);
    bool all = chance(s, 700); /* … of them may run twice */

    h->quantile = 300 + below(s, 700);
    h->budget = chance(s, 500) ? 1000 : 1 + below(s, 1000);
    h->samples = chance(s, 500) ? 1 : below(s, 100);
    h->min_delay = chance(s, 500) ? 0 : between(s, 0, 50 * AS_US);
    for (uint32_t i = 0; i < s->scenario.n_calls; i++)
        if (chance(s, unary)) {
            s->calls[i].q.unary = true;
            s->calls[i].q.idempotent = s->calls[i].q.idempotent || all;
        }
}

static bool is_hedgeable(const struct sim *s, const struct call *c)
{
    return s->scenario.hedging.quantile && c->q.idempotent && c->q.unary && !c->q.is_mirror &&
           !c->reserves && !c->beyond && !c->q.blame && !s->scenario.batch[c->q.model].max_size;
}

void count_hedgeable(struct sim *s, const struct call *c)
{
    s->may_hedge += c->sends == 1 && !c->is_hedge && is_hedgeable(s, c);
}

/* The second execution of c is a call like others, which was accepted with c. */
struct as_request *op_hedge(void *ctx, struct as_request *q)
{
    struct sim *s = ctx;
    struct call *c = AS_CONTAINER(q, struct call, q), *h;
    uint32_t n = number_of(s, c);

    if (!is_hedgeable(s, c) || c->state != BOUND || !waits(c) || c->second || c->is_hedge ||
        c->recalled || q->bound)
        fail(s, "call %u is hedged, and must not be", n);
    if (s->now - c->sent_at < s->scenario.hedging.min_delay)
        fail(s, "call %u is hedged too early", n);
    update_places(s);
    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *o = &s->calls[s->live[i]];

        if (o->state == WAITING && o == s->submitting)
            s->hedged_before = true; /* right if core refuses o */
        else if (o->state == WAITING && !o->cancelled && o->q.deadline > s->now) /* else it ends */
            fail(s, "call %u is hedged, and call %u waits", n, s->live[i]);
    }
    if (chance(s, 100) || DRAWN_MAX + s->n_hedges == CALLS_MAX)
        return NULL;
    h = &s->calls[DRAWN_MAX + s->n_hedges++];
    *h = (struct call){.state = WAITING,
                       .accepted = true,
                       .is_hedge = true,
                       .twin = c,
                       .order = c->order,
                       .root = c->root,
                       .accepted_at = c->accepted_at,
                       .placed_at = s->now,
                       .fingerprint = c->fingerprint,
                       .poison = c->poison,
                       .paid = true,
                       .runs = c->runs,
                       .free_runs = c->free_runs,
                       .losses = c->losses,
                       .live_at = s->n_live};
    s->live[s->n_live++] = number_of(s, h);
    c->twin = c->second = h;
    s->expected.hedges++;
    trace(s, "call %u is the hedge of call %u", number_of(s, h), n);
    if (s->expected.hedges * 1000 > s->may_hedge * s->scenario.hedging.budget)
        fail(s, "call %u is hedged beyond the budget", n);
    return &h->q;
}

void check_hedge(struct sim *s, const struct worker *w, const struct call *c)
{
    uint32_t n = number_of(s, c);

    if (w->number == c->twin->worker)
        fail(s, "call %u, a hedge, is sent to the same worker", n);
    if (!has_slot(s, w) || !can_execute(s, w, c))
        fail(s, "call %u, a hedge, is sent to worker %u, which has no slot for it", n, w->number);
}

void part_twins(struct call *c, bool good)
{
    struct call *loser = good ? c->twin : c, *other = loser->twin;

    loser->cancelled = true; /* nobody waits for it */
    loser->twin = other->twin = NULL;
    if (loser->runs && !good) { /* it counts in `losses` */
        other->runs++;
        other->free_runs++;
    }
}

uint64_t waiting_clients(const struct sim *s)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *c = &s->calls[s->live[i]];

        n += waits(c) && !(c->is_hedge && c->twin);
    }
    return n;
}

void check_hedges(struct sim *s)
{
    const struct as_stat *a = as_deployment_stat(s->d);
    uint32_t open = 0;

    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *c = &s->calls[s->live[i]];

        open += c->is_hedge && waits(c);
        if (c->twin && (c->twin->twin != c || !waits(c) || c->state != BOUND))
            fail(s, "call %u has a twin, and does not execute", s->live[i]);
        if ((c->q.twin ? AS_CONTAINER(c->q.twin, struct call, q) : NULL) != c->twin)
            fail(s, "call %u has another twin", s->live[i]);
    }
    if (a->hedges != s->expected.hedges || a->hedges_won != s->expected.hedges_won ||
        a->hedges != a->hedges_won + a->hedges_lost + a->hedges_failed + a->hedges_cancelled + open)
        fail(s, "statistics of hedges are wrong");
}
