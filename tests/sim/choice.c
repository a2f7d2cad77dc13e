/* Which worker a call goes to, and how long it may wait for certain ones: a model of the rules for
 * multiplexed models, of sessions, and of what the router of the user's own has chosen. */
#include "sim.h"

#define LINE_SCAN 64u /* core may look at that many of those that wait, when caps delay some */

static uint32_t number_of(const struct sim *s, const struct call *c)
{
    return (uint32_t)(c - s->calls);
}

/* --- what the workers hold --- */

static bool holds(const struct worker *w, uint64_t key)
{
    return w->reports[key] || w->of_key[key];
}

static uint32_t count_held(const struct worker *w)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < KEYS_MAX; k++)
        n += holds(w, k);
    return n;
}

/* Of models that it does not hold any more. */
static void forget_loads(struct sim *s, const struct worker *w)
{
    for (uint32_t k = 0; k < KEYS_MAX; k++) {
        if (s->loaders[k].worker == w->number && !holds(w, k))
            s->loaders[k].runs = false;
    }
}

void note_held(struct sim *s, struct worker *w, const uint64_t *keys, uint32_t n)
{
    memset(w->reports, 0, sizeof(w->reports));
    for (uint32_t i = 0; i < n; i++) {
        if (keys[i] >= KEYS_MAX)
            fail(s, "too many models");
        w->reports[keys[i]] = true;
    }
    forget_loads(s, w);
}

void note_left(struct sim *s, struct worker *w, struct call *c, bool answered)
{
    struct loader *l;

    if (!c->is_keyed)
        return;
    c->is_keyed = false;
    l = &s->loaders[c->q.model_key];
    w->of_key[c->q.model_key]--;
    if (l->runs && l->worker == w->number && (answered || !holds(w, c->q.model_key)))
        l->runs = false;
}

void forget_choices(struct sim *s, struct worker *w)
{
    memset(w->reports, 0, sizeof(w->reports));
    forget_loads(s, w);
    for (uint32_t i = 0; i < s->n_sessions; i++) {
        if (s->sessions[i].worker == w->number)
            s->sessions[i].worker = NOBODY;
    }
}

void forget_rules(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_live; i++)
        s->calls[s->live[i]].is_old = s->calls[s->live[i]].state != BOUND;
    s->n_sessions = 0;
}

/* Models count from now on, also those of calls that were sent before. */
void note_multiplexed(struct sim *s)
{
    s->multiplexed = true;
    forget_rules(s);
    for (uint32_t i = 0; i < s->n_live; i++) {
        struct call *c = &s->calls[s->live[i]];

        c->is_keyed = c->state == BOUND && c->q.model_key;
        s->workers[c->worker]->of_key[c->q.model_key] += c->is_keyed;
    }
}

void note_choice(struct sim *s, struct call *c, const struct as_router_choice *choice)
{
    c->asked = false;
    c->asked_at = s->now;
    c->unasked_in = choice ? 0 : s->steps;
    c->n_chosen = choice ? choice->n : 0;
    c->decided_at = c->n_chosen ? 0 : s->now + 1;
    for (uint32_t i = 0; i < c->n_chosen; i++) {
        const struct worker *w = as_replica_link(choice->of[i].replica);

        c->chosen[i] = w->number;
    }
}

/* --- which rules hold for a call --- */

/* It goes wherever there is room, because of what it is. */
static bool has_no_rule(const struct sim *s, const struct call *c)
{
    return c->q.is_mirror || c->q.on_cycle || c->q.blame || c->was_suspect || c->twin ||
           c->is_hedge || c->is_old || s->scenario.batch[c->q.model].max_size;
}

static bool by_model(const struct sim *s, const struct call *c)
{
    return s->multiplexed && c->q.model_key;
}

/* The router of the user's own decides, not the policy. Core takes a question back when the policy
 * decides, or when the call is sent by an older answer. */
static bool by_router(const struct sim *s, const struct call *c)
{
    return s->scenario.router.asks && (!c->decided_at || c->unasked_in == s->steps);
}

/* --- when a call is sent --- */

/* A worker with a slot for c that does better than w. */
static void check_model(struct sim *s, const struct worker *w, const struct call *c)
{
    uint64_t key = c->q.model_key;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *o = s->workers[i];

        if (o == w || !has_slot(s, o) || !can_execute(s, o, c))
            continue;
        if (holds(o, key))
            fail(s, "call %u goes to worker %u, and worker %u holds its model", number_of(s, c),
                 w->number, i);
        if (count_held(o) < count_held(w))
            fail(s, "call %u is to load its model in worker %u with %u, and worker %u holds %u",
                 number_of(s, c), w->number, count_held(w), i, count_held(o));
    }
}

static void note_model(struct sim *s, struct worker *w, struct call *c)
{
    uint64_t key = c->q.model_key;
    struct loader *l = &s->loaders[key];
    bool by_rule = !has_no_rule(s, c) && !by_router(s, c) && !s->down;

    if (!holds(w, key)) {
        if (by_rule && l->runs && l->by_rule)
            fail(s, "call %u is to load its model in worker %u, and worker %u loads it",
                 number_of(s, c), w->number, l->worker);
        if (by_rule && s->submitting == c) /* one that has waited may have no choice */
            check_model(s, w, c);
        if (!l->runs)
            *l = (struct loader){w->number, true, by_rule};
    }
    w->of_key[key]++;
    c->is_keyed = true;
}

static struct session *find_session(struct sim *s, uint64_t key)
{
    for (uint32_t i = 0; i < s->n_sessions; i++) {
        if (s->sessions[i].key == key)
            return &s->sessions[i];
    }
    return NULL;
}

/* Core knows it: neither is it too old, nor were too many others used since. */
static bool is_known(const struct sim *s, const struct session *e)
{
    const struct as_router_conf *r = &s->scenario.router;
    uint32_t others = 0;

    for (uint32_t i = 0; i < s->n_sessions; i++)
        others += &s->sessions[i] != e && s->sessions[i].used >= e->used;
    return e->worker != NOBODY && s->now - e->used < r->session_ttl && others < r->max_sessions;
}

static void note_session(struct sim *s, const struct worker *w, const struct call *c)
{
    struct session *e = find_session(s, c->q.session_key);
    const struct worker *o;

    if (e && s->submitting == c && is_known(s, e) && !has_no_rule(s, c) && !by_router(s, c) &&
        !by_model(s, c)) {
        o = s->workers[e->worker];
        if (o != w && has_slot(s, o) && can_execute(s, o, c))
            fail(s, "call %u goes to worker %u, and its session was at worker %u", number_of(s, c),
                 w->number, o->number);
    }
    if (!e) {
        AS_ASSERT(s->n_sessions < SESSIONS_MAX);
        e = &s->sessions[s->n_sessions++];
        e->key = c->q.session_key;
    }
    e->worker = w->number;
    e->used = s->now;
}

void note_chosen(struct sim *s, struct worker *w, struct call *c)
{
    if (by_model(s, c))
        note_model(s, w, c);
    if (s->scenario.router.policy == AS_ROUTER_SESSION && c->q.session_key && !c->twin)
        note_session(s, w, c);
    c->is_old = c->asked = false;
    c->n_chosen = 0;
    c->decided_at = 0;
}

/* --- while a call waits --- */

static bool fits(const struct sim *s, const struct worker *w, const struct call *c)
{
    return has_slot(s, w) && can_execute(s, w, c);
}

static bool fits_some(const struct sim *s, const struct call *c)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (fits(s, s->workers[i], c))
            return true;
    }
    return false;
}

/* It has waited for longer than for a certain worker. */
static bool is_overdue(const struct sim *s, const struct call *c)
{
    as_ns since = c->decided_at ? c->decided_at : c->placed_at;

    return s->now > since + 2 * s->scenario.router.max_wait + s->scenario.timer_late + 1;
}

static void check_router(struct sim *s, const struct call *c)
{
    const struct as_router_conf *r = &s->scenario.router;
    as_ns limit = (c->asked ? r->ask_timeout : r->ask_again_max) + s->scenario.timer_late + 1;

    if (c->decided_at) /* in this event */
        return;
    if (!c->asked && !c->n_chosen)
        fail(s, "call %u waits, and the router was not asked", number_of(s, c));
    if (s->now > c->asked_at + limit)
        fail(s, "call %u waits for the router for too long", number_of(s, c));
    for (uint32_t i = 0; i < c->n_chosen; i++) {
        const struct worker *w = s->workers[c->chosen[i]];

        if (w->was_out && w->out_at >= c->asked_at)
            continue; /* nobody waits any more for a worker that was taken out */
        if (fits(s, w, c))
            fail(s, "call %u waits, and worker %u, which was chosen, has room", number_of(s, c),
                 c->chosen[i]);
    }
}

/* Calls for one model. */
struct crowd {
    uint32_t n;              /* that wait … */
    uint32_t without_worker; /* … of these those for which no worker has room … */
    uint32_t early;          /* … and those whose time is not over … */
    bool has_others;         /* … and there are some to which other rules apply */
    const struct call *one;
};

static void check_crowd(struct sim *s, const struct crowd *g, uint64_t key)
{
    bool is_held = false;

    for (uint32_t i = 0; i < s->n_workers; i++)
        is_held = is_held || (s->workers[i]->registered && holds(s->workers[i], key));
    if (g->n && !g->has_others && !g->without_worker && !s->loaders[key].runs &&
        (!g->early || !is_held))
        fail(s, "call %u waits for a model that nobody loads", number_of(s, g->one));
}

static void add_to_crowd(struct sim *s, struct crowd *g, const struct call *c, bool scans_all)
{
    uint64_t key = c->q.model_key;

    g->one = g->n++ ? g->one : c;
    g->without_worker += !fits_some(s, c);
    g->early += !is_overdue(s, c);
    for (uint32_t i = 0; i < s->n_workers && scans_all; i++) {
        if (holds(s->workers[i], key) && fits(s, s->workers[i], c))
            fail(s, "call %u waits, and worker %u, which holds its model, has room",
                 number_of(s, c), i);
    }
}

static void check_waiting(struct sim *s, const struct call *c, struct crowd *crowds, bool scans_all)
{
    bool has_key = by_model(s, c);

    if (has_no_rule(s, c) || by_router(s, c)) {
        crowds[c->q.model_key].has_others |= has_key;
        if (!has_no_rule(s, c) && scans_all)
            check_router(s, c);
    } else if (has_key) {
        add_to_crowd(s, &crowds[c->q.model_key], c, scans_all);
    } else if (fits_some(s, c) && is_overdue(s, c)) {
        fail(s, "call %u waits for certain workers for too long", number_of(s, c));
    }
}

void check_choices(struct sim *s)
{
    struct crowd crowds[KEYS_MAX] = {0};
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        struct worker *w = s->workers[i];

        if (w->registered && !w->draining && as_replica_breaker(w->replica) != AS_BREAKER_OPEN)
            continue;
        w->was_out = true;
        w->out_at = s->now;
    }
    for (uint32_t i = 0; i < s->n_live; i++)
        n += s->calls[s->live[i]].state == WAITING;
    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *c = &s->calls[s->live[i]];

        if (c->state != WAITING)
            continue;
        if (!c->answered && !c->cancelled && c->q.deadline > s->now)
            check_waiting(s, c, crowds, n <= LINE_SCAN);
        else if (by_model(s, c)) /* core may not know its end yet, and it may be the loader */
            crowds[c->q.model_key].has_others = true;
    }
    for (uint32_t k = 0; k < KEYS_MAX; k++)
        check_crowd(s, &crowds[k], k);
}
