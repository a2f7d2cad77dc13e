/* Which call goes first: a model of the share of lower priorities, and of the order within each. */
#include "sim.h"

bool is_older(const struct call *a, const struct call *b)
{
    return a->root != b->root ? a->root < b->root : a->order < b->order;
}

/* Does o wait for what w could give c? It may have expired, or wait for others of its batch. */
static bool may_compete(const struct sim *s, const struct worker *w, const struct call *o,
                        const struct call *c)
{
    return o != c && goes_beyond(s, o) == goes_beyond(s, c) && o->state == WAITING &&
           !o->answered && !o->cancelled && !o->doomed && !o->q.blame && can_send(s, w, o);
}

/* Could o go to w instead of c, for certain? */
static bool competes(const struct sim *s, const struct worker *w, const struct call *o,
                     const struct call *c)
{
    return may_compete(s, w, o, c) && o != s->submitting && o->q.deadline > s->now &&
           !holds_out(s, o) && is_due(s, o, s->scenario.timer_late + 1);
}

/* The number of calls of a priority that have gone since one of a lower priority, where one of
 * those could have gone: exactly `sure` to `possible`, because timers may be late, and because the
 * calls of a dead worker are sent again by priority alone. */
static void count_turn(struct sim *s, const struct worker *w, const struct call *c)
{
    struct turns *t = &s->turns[c->q.priority];
    bool sure = false, possible = false;

    for (uint32_t p = 0; p < c->q.priority; p++)
        s->turns[p] = (struct turns){0};
    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *o = &s->calls[s->live[i]];

        if (o->q.priority <= c->q.priority || !may_compete(s, w, o, c))
            continue;
        possible = true;
        sure = sure || (!s->replaces && competes(s, w, o, c));
    }
    t->possible += possible;
    t->sure += sure;
    if (t->sure >= s->scenario.share)
        fail(s, "call %u goes, and it is the turn of a lower priority", (uint32_t)(c - s->calls));
}

/* --- fairness --- */

uint32_t waiting_of_tenant(const struct sim *s, const struct call *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_live && s->scenario.n_tenants; i++) {
        const struct call *o = &s->calls[s->live[i]];

        n += o->state == WAITING && o->q.tenant == c->q.tenant && !o->q.blame && !o->q.preference &&
             !goes_beyond(s, o);
    }
    return n;
}

static uint32_t cost_of(const struct sim *s, const struct call *c)
{
    return s->scenario.cost == AS_FAIR_COST_REQUEST ? 1
           : s->scenario.cost == AS_FAIR_COST_ITEMS ? c->q.items
                                                    : c->q.cost;
}

static void forget_lead(struct sim *s, uint32_t p, uint32_t tenant)
{
    for (uint32_t t = 0; t < TENANTS_MAX; t++)
        s->lead[p][t][tenant] = s->lead[p][tenant][t] = 0;
}

/* While two tenants wait in one queue, neither gets more than two requests more than the other. */
static void count_lead(struct sim *s, const struct worker *w, struct call *c)
{
    uint32_t p = c->q.priority, own = (uint32_t)c->q.tenant - 1, cost = cost_of(s, c);
    bool waits[TENANTS_MAX] = {0};

    if (c->paid)
        return;
    c->paid = c->was_queued;
    if (!c->was_queued || c->sends) { /* whether it has paid before is not known */
        forget_lead(s, p, own);
        return;
    }
    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *o = &s->calls[s->live[i]];

        if (o->q.priority == p && competes(s, w, o, c))
            waits[o->q.tenant - 1] = true;
    }
    if (s->replaces)
        forget_lead(s, p, own);
    for (uint32_t t = 0; t < s->scenario.n_tenants; t++) {
        if (!waits[t])
            forget_lead(s, p, t);
        if (t == own || !waits[t] || s->replaces)
            continue;
        s->lead[p][own][t] += cost;
        s->lead[p][t][own] -= AS_MIN(s->lead[p][t][own], cost);
        if (s->lead[p][own][t] > 2 * s->scenario.most_cost)
            fail(s, "call %u: tenant %u is served %u more than tenant %u", (uint32_t)(c - s->calls),
                 own, s->lead[p][own][t], t);
    }
}

void note_queued(struct sim *s)
{
    bool waits[AS_PRIORITIES][TENANTS_MAX] = {0};

    for (uint32_t i = 0; i < s->n_live && s->scenario.n_tenants; i++) {
        struct call *c = &s->calls[s->live[i]];

        c->was_queued = c->was_queued || c->state == WAITING;
        if (c->state == WAITING)
            waits[c->q.priority][c->q.tenant - 1] = true;
    }
    for (uint32_t i = 0; i < AS_PRIORITIES * s->scenario.n_tenants; i++) {
        if (!waits[i % AS_PRIORITIES][i / AS_PRIORITIES])
            forget_lead(s, i % AS_PRIORITIES, i / AS_PRIORITIES);
    }
}

/* Does the order say that o, of the same priority, goes before c? */
static bool goes_first(const struct sim *s, const struct call *o, const struct call *c)
{
    if (s->scenario.n_tenants && !goes_beyond(s, c) &&
        (o->q.tenant != c->q.tenant || o->q.model != c->q.model || o->q.kind != c->q.kind))
        return false;
    return is_older(o, c);
}

void check_order(struct sim *s, const struct worker *w, struct call *c)
{
    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *o = &s->calls[s->live[i]];

        if (o->q.priority > c->q.priority || !competes(s, w, o, c))
            continue;
        if (o->q.priority == c->q.priority
                ? goes_first(s, o, c)
                : goes_beyond(s, c) || s->turns[o->q.priority].possible + 1 < s->scenario.share)
            fail(s, "call %u is sent before call %u", (uint32_t)(c - s->calls), s->live[i]);
    }
    if (goes_beyond(s, c))
        return;
    count_turn(s, w, c);
    if (s->scenario.n_tenants && s->scenario.one_queue)
        count_lead(s, w, c);
}
