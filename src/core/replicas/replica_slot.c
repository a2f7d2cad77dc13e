#include "core/replicas/replica_slot.h"

#define BIT(name) (1u << AS_PLACE_##name)
static const uint32_t moves[AS_PLACE_STATES] = {
    [AS_PLACE_WAITING] = BIT(STARTING),
    [AS_PLACE_STARTING] =
        BIT(RUNNING) | BIT(KILLED) | BIT(DRAINING) | BIT(STOPPING) | BIT(WAITING) | BIT(DOWN),
    [AS_PLACE_RUNNING] = BIT(UPDATING) | BIT(LOST) | BIT(KILLED) | BIT(DRAINING) | BIT(STOPPING) |
                         BIT(WAITING) | BIT(DOWN),
    [AS_PLACE_UPDATING] =
        BIT(RUNNING) | BIT(LOST) | BIT(KILLED) | BIT(DRAINING) | BIT(WAITING) | BIT(DOWN),
    [AS_PLACE_LOST] =
        BIT(RUNNING) | BIT(KILLED) | BIT(DRAINING) | BIT(STOPPING) | BIT(WAITING) | BIT(DOWN),
    [AS_PLACE_KILLED] = BIT(STOPPING) | BIT(WAITING) | BIT(DOWN),
    [AS_PLACE_DRAINING] = BIT(STOPPING),
    [AS_PLACE_STOPPING] = 0,
    [AS_PLACE_DOWN] = BIT(WAITING),
};

#define WITH_PROCESS                                                                               \
    (BIT(STARTING) | BIT(RUNNING) | BIT(UPDATING) | BIT(LOST) | BIT(KILLED) | BIT(DRAINING) |      \
     BIT(STOPPING))

static bool in(const struct as_place *pl, uint32_t states)
{
    return (1u << pl->state) & states;
}

static const struct as_plan_policy *policy(const struct as_place *pl)
{
    return &pl->plan->target.policy;
}

/* By whose times it drains: those of the version that it runs, as they were asked for last. */
static const struct as_plan_policy *own_policy(const struct as_place *pl)
{
    const struct as_plan *p = pl->plan;
    const struct as_plan_target *const all[] = {&p->target, &p->before, &p->stable, &p->previous};

    for (size_t i = 0; i < AS_COUNT(all); i++) {
        if (all[i]->generation && all[i]->version == pl->facts.version)
            return &all[i]->policy;
    }
    return policy(pl);
}

static void move(struct as_place *pl, enum as_place_state to, as_ns due)
{
    enum as_place_state from = pl->state;

    AS_ASSERT(moves[from] & (1u << to));
    /* one that drains before it was ready goes on starting until it is stopped */
    if (to != AS_PLACE_STARTING && to != AS_PLACE_DRAINING)
        as_starts_leave(pl->plan->starts, &pl->start);
    AS_ASSERT(!pl->lack);
    pl->state = to;
    pl->due = due;
    pl->plan->ops.moved(pl->plan->ctx, pl, from);
}

static void note(struct as_place *pl)
{
    pl->plan->ops.note(pl->plan->ctx, pl);
}

/* Without a dispatcher nobody can become READY or answer, and a healthy process must not be killed
 * for that. */
static as_ns deadline(const struct as_place *pl, as_ns timeout, as_ns now)
{
    return pl->plan->serving ? now + timeout : AS_NEVER;
}

/* The facts that a new process is started with. One of an older version stays what it is: its
 * description is the older one too. */
static void renew(struct as_place *pl)
{
    struct as_place_facts *f = &pl->facts;
    const struct as_plan_target *t = &pl->plan->target;

    if (f->rank_next != f->rank) {
        as_ranks_drop(&pl->plan->ranks, f->rank);
        f->rank = f->rank_next;
    }
    if (f->version == t->version) {
        f->generation = t->generation;
        f->config = t->config;
    }
    f->world = t->replicas;
    f->unsure = false;
    f->ready = false;
    f->starts++;
    f->stale = f->proved = false;
    pl->refuses = false;
}

static void keep_lack(struct as_place *pl, struct as_str lack)
{
    free(pl->lack);
    pl->lack = lack.n ? as_str_dup(lack) : NULL;
}

/* Its turn has come. It may be another plan's event that asks, so that our plan looks again. */
static bool may(struct as_start *s, as_ns now)
{
    struct as_place *pl = AS_CONTAINER(s, struct as_place, start);
    const struct as_plan_room room = {.kept = !as_rollout_old(pl)};
    struct as_str lack = pl->plan->ops.lacks(pl->plan->ctx, pl, &room);

    if (!as_str_eq(lack, as_place_lack(pl))) {
        keep_lack(pl, lack);
        pl->plan->look = now;
    }
    return lack.n == 0;
}

static void go(struct as_start *s, as_ns now)
{
    struct as_place *pl = AS_CONTAINER(s, struct as_place, start);

    renew(pl);
    as_restart_started(&pl->restart);
    move(pl, AS_PLACE_STARTING, deadline(pl, policy(pl)->start_timeout, now));
    pl->plan->ops.start(pl->plan->ctx, pl);
}

static uint32_t lowest_number(const struct as_plan *p)
{
    uint32_t n = 0;

    while (n < p->n && p->places[n]->facts.number == n)
        n++;
    return n;
}

struct as_place *as_place_put(struct as_plan *p, uint32_t number)
{
    struct as_place *pl = as_xalloc(sizeof(*pl));
    uint32_t at = p->n;

    pl->plan = p;
    pl->facts.number = number;
    pl->facts.rank = pl->facts.rank_next = AS_RANK_NONE;
    pl->state = AS_PLACE_WAITING;
    pl->due = pl->again = AS_NEVER;
    as_start_init(&pl->start, may, go);
    pl->n_name = (uint32_t)snprintf(pl->name, sizeof(pl->name), "%s-%u", p->name, number);
    if (p->n == p->cap) {
        p->cap = AS_MAX(8u, 2 * p->cap);
        p->places = as_xrealloc(p->places, p->cap * sizeof(struct as_place *));
    }
    for (; at > 0 && p->places[at - 1]->facts.number > number; at--)
        p->places[at] = p->places[at - 1];
    p->places[at] = pl;
    p->n++;
    return pl;
}

struct as_place *as_place_new(struct as_plan *p)
{
    struct as_place *pl;

    if (p->n == AS_PLACES_MAX)
        return NULL;
    pl = as_place_put(p, lowest_number(p));
    pl->facts.rank = pl->facts.rank_next = as_ranks_lowest(&p->ranks);
    as_ranks_take(&p->ranks, pl->facts.rank);
    pl->facts.generation = p->target.generation;
    pl->facts.version = p->target.version;
    pl->facts.config = p->target.config;
    pl->facts.world = p->target.replicas;
    as_starts_ask(p->starts, &pl->start);
    return pl;
}

void as_place_free(struct as_place *pl)
{
    struct as_plan *p = pl->plan;
    struct as_place_facts *f = &pl->facts;
    uint32_t at = 0;

    as_starts_leave(p->starts, &pl->start);
    if (f->rank != AS_RANK_NONE)
        as_ranks_drop(&p->ranks, f->rank);
    if (f->rank_next != f->rank)
        as_ranks_drop(&p->ranks, f->rank_next);
    while (p->places[at] != pl)
        at++;
    for (p->n--; at < p->n; at++)
        p->places[at] = p->places[at + 1];
    free(pl->reason);
    free(pl->lack);
    free(pl);
}

static void gone(struct as_place *pl)
{
    pl->plan->ops.gone(pl->plan->ctx, pl);
    as_place_free(pl);
}

/* The signal is repeated, should it not have ended by then. */
static void stop(struct as_place *pl, as_ns now)
{
    as_ns timeout = policy(pl)->stop_timeout;

    move(pl, AS_PLACE_STOPPING, now + timeout + policy(pl)->drain_again);
    pl->plan->ops.stop(pl->plan->ctx, pl, timeout);
}

static void ask_to_drain(struct as_place *pl, as_ns now)
{
    pl->again = now + own_policy(pl)->drain_again;
    pl->plan->ops.retire(pl->plan->ctx, pl);
}

void as_place_retire(struct as_place *pl, as_ns now)
{
    AS_ASSERT(!as_place_ends(pl));
    if (!in(pl, WITH_PROCESS)) {
        gone(pl);
        return;
    }
    /* or the next controller would take it for one that stays, and end another */
    pl->facts.retiring = true;
    note(pl);
    if (pl->state == AS_PLACE_KILLED) {
        move(pl, AS_PLACE_STOPPING, now + policy(pl)->drain_again);
    } else if (!pl->plan->serving) { /* it has nothing that anybody waits for */
        stop(pl, now);
    } else { /* whatever its state: it may have become ready, and have requests, just now */
        move(pl, AS_PLACE_DRAINING, now + own_policy(pl)->drain_timeout);
        ask_to_drain(pl, now);
    }
}

/* How long it has drained already nobody knows: it is given the whole time. */
void as_place_resume(struct as_place *pl, as_ns now)
{
    if (pl->state != AS_PLACE_DRAINING)
        return;
    pl->due = now + own_policy(pl)->drain_timeout;
    pl->again = now;
}

void as_place_spoil(struct as_place *pl)
{
    if (pl->facts.stale)
        return;
    pl->facts.stale = true;
    note(pl);
}

void as_place_keep(struct as_place *pl)
{
    if (!pl->facts.stale || pl->refuses)
        return;
    pl->facts.stale = false;
    note(pl);
}

void as_place_tell(struct as_place *pl, as_ns now)
{
    struct as_plan *p = pl->plan;

    AS_ASSERT(pl->state == AS_PLACE_RUNNING);
    pl->asked = pl->facts;
    pl->asked.generation = p->target.generation;
    pl->asked.config = p->target.config;
    pl->asked.world = p->target.replicas;
    pl->asked.rank = pl->facts.rank_next;
    pl->ask = ++p->last_ask;
    pl->facts.unsure = true;
    note(pl);
    move(pl, AS_PLACE_UPDATING, deadline(pl, policy(pl)->configure_timeout, now));
    p->ops.configure(p->ctx, pl, pl->ask, &pl->asked);
}

/* --- what happens to it --- */

void as_place_ready(struct as_place *pl, as_ns now)
{
    struct as_plan *p = pl->plan;

    if (pl->state == AS_PLACE_DRAINING) /* a link that does not know of it */
        ask_to_drain(pl, now);
    if (pl->state != AS_PLACE_STARTING && pl->state != AS_PLACE_LOST)
        return;
    if (pl->ready_at == 0) { /* not when only the link is new */
        as_restart_ready(&pl->restart, now);
        pl->ready_at = now;
    }
    pl->given_up = false;
    move(pl, AS_PLACE_RUNNING, AS_NEVER);
    if (!pl->facts.ready) {
        pl->facts.ready = true;
        pl->facts.proved = policy(pl)->min_ready == 0;
        note(pl);
    }
    as_rollout(p, now);
}

static void lose(struct as_place *pl, as_ns now)
{
    if (pl->state == AS_PLACE_RUNNING || pl->state == AS_PLACE_UPDATING)
        move(pl, AS_PLACE_LOST, deadline(pl, policy(pl)->start_timeout, now));
    else if (pl->state == AS_PLACE_DRAINING) /* what it had is answered by others, or nobody */
        stop(pl, now);
}

void as_place_lost(struct as_place *pl, as_ns now)
{
    lose(pl, now);
    as_rollout(pl->plan, now);
}

void as_place_retired(struct as_place *pl, as_ns now)
{
    if (pl->state == AS_PLACE_DRAINING)
        stop(pl, now);
    as_rollout(pl->plan, now);
}

/* What it will not be told, a new process in its stead is started with: unless all were to be told
 * that, and are to be told something else now. */
static void refused(struct as_place *pl, struct as_str text, as_ns now)
{
    const struct as_plan_target *t = &pl->plan->target;

    if (pl->asked.version != t->version || pl->asked.config != t->config)
        return; /* what is asked for by now it has not refused */
    if (pl->facts.config == t->config || !as_rollout_failed(pl, UINT32_MAX, text, now)) {
        pl->refuses = true;
        as_place_spoil(pl);
    }
}

/* Which of the two it is now. Of one that refuses what it may have been told before nobody knows
 * whether it then refused as well: it holds both of its ranks until it is replaced. */
static void learn(struct as_place *pl, bool ok)
{
    struct as_place_facts *f = &pl->facts;

    if (!ok && pl->asked.unsure)
        return;
    f->unsure = false;
    if (ok) {
        f->generation = pl->asked.generation;
        f->config = pl->asked.config;
        f->world = pl->asked.world;
    }
    if (f->rank_next != f->rank) {
        as_ranks_drop(&pl->plan->ranks, ok ? f->rank : f->rank_next);
        f->rank = f->rank_next = ok ? f->rank_next : f->rank;
    }
}

void as_place_configured(struct as_place *pl, uint64_t ask, bool ok, struct as_str text, as_ns now)
{
    struct as_plan *p = pl->plan;

    if (pl->state != AS_PLACE_UPDATING || ask != pl->ask)
        return;
    learn(pl, ok);
    note(pl);
    move(pl, AS_PLACE_RUNNING, AS_NEVER);
    if (!ok)
        refused(pl, text, now);
    if (pl->facts.unsure)
        as_place_spoil(pl);
    as_rollout(p, now);
}

static void keep_reason(struct as_place *pl, struct as_str reason)
{
    free(pl->reason);
    pl->n_reason = (uint32_t)AS_MIN(reason.n, AS_PLACE_REASON);
    pl->reason = as_str_dup((struct as_str){reason.p, pl->n_reason});
}

void as_place_died(struct as_place *pl, enum as_exit_kind kind, struct as_str reason, as_ns now)
{
    struct as_plan *p = pl->plan;
    struct as_restart_verdict v;
    bool outside;

    if (!in(pl, WITH_PROCESS))
        return;
    keep_reason(pl, reason);
    if (as_place_ends(pl)) {
        gone(pl);
        as_rollout(p, now);
        return;
    }
    if (kind == AS_EXIT_STOPPED) /* not by us, or it would be ending */
        kind = AS_EXIT_KILLED;
    if (pl->state == AS_PLACE_KILLED)
        kind = AS_EXIT_CRASH;
    if (pl->facts.ready)
        as_plan_say(p, AS_CAUSE_REPLICA_FAILED, reason, now);
    outside = kind == AS_EXIT_KILLED || (kind == AS_EXIT_OOM && pl->restart.ready);
    v = as_restart_died(&pl->restart, &policy(pl)->restart, kind, &p->rand, now);
    pl->ready_at = 0;
    pl->given_up |= v.gave_up;
    if (v.gave_up)
        move(pl, AS_PLACE_DOWN, now + policy(pl)->restart.max);
    else
        move(pl, AS_PLACE_WAITING, v.at);
    /* one that an update has not reached yet says nothing against it */
    if (!outside && (pl->facts.config == p->target.config || pl->facts.unsure))
        as_rollout_failed(pl, v.gave_up ? UINT32_MAX : pl->restart.failures, reason, now);
    as_rollout(p, now);
}

static void fault(struct as_place *pl, struct as_str why, as_ns now)
{
    struct as_plan *p = pl->plan;

    if (!in(pl, WITH_PROCESS) || pl->state == AS_PLACE_KILLED)
        return;
    if (pl->state == AS_PLACE_DRAINING)
        move(pl, AS_PLACE_STOPPING, now + policy(pl)->drain_again);
    else if (pl->state != AS_PLACE_STOPPING)
        move(pl, AS_PLACE_KILLED, now + policy(pl)->drain_again);
    p->ops.kill(p->ctx, pl, why);
}

void as_place_fault(struct as_place *pl, struct as_str why, as_ns now)
{
    fault(pl, why, now);
    as_rollout(pl->plan, now);
}

void as_place_serving(struct as_place *pl, bool serving, as_ns now)
{
    if (!serving) {
        lose(pl, now);
        if (pl->state == AS_PLACE_STARTING || pl->state == AS_PLACE_LOST)
            pl->due = AS_NEVER;
    } else if (pl->state == AS_PLACE_STARTING || pl->state == AS_PLACE_LOST) {
        pl->due = now + policy(pl)->start_timeout;
    } else if (pl->state == AS_PLACE_DRAINING) {
        ask_to_drain(pl, now);
    }
}

/* A fresh start: what was before is forgotten. */
void as_place_revive(struct as_place *pl, as_ns now)
{
    pl->restart = (struct as_restart){0};
    move(pl, AS_PLACE_WAITING, now);
}

/* --- time --- */

static void on_due(struct as_place *pl, as_ns now)
{
    pl->due = AS_NEVER;
    switch (pl->state) {
    case AS_PLACE_DOWN:
        as_place_revive(pl, now);
        as_place_tick(pl, now);
        break;
    case AS_PLACE_WAITING:
        as_starts_ask(pl->plan->starts, &pl->start);
        break;
    case AS_PLACE_STARTING:
        fault(pl, AS_STR("it was not ready in time (--start-timeout)"), now);
        break;
    case AS_PLACE_LOST:
        fault(pl, AS_STR("its link broke and did not come back in time"), now);
        break;
    case AS_PLACE_UPDATING:
        refused(pl, AS_STR("reconfigure took too long"), now);
        fault(pl, AS_STR("reconfigure took too long"), now);
        break;
    case AS_PLACE_DRAINING:
        stop(pl, now);
        break;
    case AS_PLACE_KILLED:
    case AS_PLACE_STOPPING:
        pl->due = now + policy(pl)->drain_again;
        pl->plan->ops.kill(pl->plan->ctx, pl, AS_STR("it did not end"));
        break;
    default:
        break;
    }
}

void as_place_tick(struct as_place *pl, as_ns now)
{
    if (pl->due <= now)
        on_due(pl, now);
    if (pl->state == AS_PLACE_DRAINING && pl->again <= now)
        ask_to_drain(pl, now);
}

as_ns as_place_next(const struct as_place *pl)
{
    return pl->state == AS_PLACE_DRAINING ? AS_MIN(pl->due, pl->again) : pl->due;
}

/* --- inspection --- */

const char *as_place_state_name(enum as_place_state s)
{
    static const char *const names[] = {
#define X(name, text) [AS_PLACE_##name] = (text),
        AS_PLACE_STATE_TABLE(X)
#undef X
    };

    AS_ASSERT((size_t)s < AS_COUNT(names));
    return names[s];
}

const struct as_place_facts *as_place_facts(const struct as_place *pl)
{
    return &pl->facts;
}

enum as_place_state as_place_state(const struct as_place *pl)
{
    return pl->state;
}

struct as_str as_place_name(const struct as_place *pl)
{
    return (struct as_str){pl->name, pl->n_name};
}

struct as_str as_place_reason(const struct as_place *pl)
{
    return (struct as_str){pl->reason, pl->n_reason};
}

as_ns as_place_due(const struct as_place *pl)
{
    return in(pl, BIT(WAITING) | BIT(DOWN)) ? pl->due : AS_NEVER;
}

bool as_place_in_line(const struct as_place *pl)
{
    return as_start_waits(&pl->start);
}

struct as_str as_place_lack(const struct as_place *pl)
{
    return as_str_of(pl->lack);
}

bool as_place_runs(const struct as_place *pl)
{
    return in(pl, WITH_PROCESS);
}

struct as_plan *as_place_plan(const struct as_place *pl)
{
    return pl->plan;
}

void as_place_set_user(struct as_place *pl, void *user)
{
    pl->user = user;
}

void *as_place_user(const struct as_place *pl)
{
    return pl->user;
}
