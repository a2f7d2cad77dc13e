#include "core/replicas/replica_slot.h"

#define BIT(name) (1u << AS_REPLICA_SLOT_##name)
static const uint32_t moves[AS_REPLICA_SLOT_STATES] = {
    [AS_REPLICA_SLOT_WAITING] = BIT(STARTING),
    [AS_REPLICA_SLOT_STARTING] =
        BIT(RUNNING) | BIT(KILLED) | BIT(DRAINING) | BIT(STOPPING) | BIT(WAITING) | BIT(DOWN),
    [AS_REPLICA_SLOT_RUNNING] = BIT(UPDATING) | BIT(LOST) | BIT(KILLED) | BIT(DRAINING) |
                                BIT(STOPPING) | BIT(WAITING) | BIT(DOWN),
    [AS_REPLICA_SLOT_UPDATING] =
        BIT(RUNNING) | BIT(LOST) | BIT(KILLED) | BIT(DRAINING) | BIT(WAITING) | BIT(DOWN),
    [AS_REPLICA_SLOT_LOST] =
        BIT(RUNNING) | BIT(KILLED) | BIT(DRAINING) | BIT(STOPPING) | BIT(WAITING) | BIT(DOWN),
    [AS_REPLICA_SLOT_KILLED] = BIT(STOPPING) | BIT(WAITING) | BIT(DOWN),
    [AS_REPLICA_SLOT_DRAINING] = BIT(STOPPING),
    [AS_REPLICA_SLOT_STOPPING] = 0,
    [AS_REPLICA_SLOT_DOWN] = BIT(WAITING),
};

#define WITH_PROCESS                                                                               \
    (BIT(STARTING) | BIT(RUNNING) | BIT(UPDATING) | BIT(LOST) | BIT(KILLED) | BIT(DRAINING) |      \
     BIT(STOPPING))

static bool state_is_in(const struct as_replica_slot *pl, uint32_t states)
{
    return (1u << pl->state) & states;
}

static const struct as_plan_policy *target_policy(const struct as_replica_slot *pl)
{
    return &pl->plan->target.policy;
}

/* By whose times it drains: those of the version that it runs, as they were asked for last. */
static const struct as_plan_policy *own_policy(const struct as_replica_slot *pl)
{
    const struct as_plan *p = pl->plan;
    const struct as_plan_target *const all[] = {&p->target, &p->other_version, &p->stable,
                                                &p->previous};

    for (size_t i = 0; i < AS_COUNT(all); i++) {
        if (all[i]->generation && all[i]->version == pl->facts.version)
            return &all[i]->policy;
    }
    return target_policy(pl);
}

static void set_state(struct as_replica_slot *pl, enum as_replica_slot_state to, as_ns due)
{
    enum as_replica_slot_state from = pl->state;

    AS_ASSERT(moves[from] & (1u << to));
    /* one that drains before it was ready goes on starting until it is stopped */
    if (to != AS_REPLICA_SLOT_STARTING && to != AS_REPLICA_SLOT_DRAINING)
        as_start_limit_remove(pl->plan->starts, &pl->start);
    AS_ASSERT(!pl->lack);
    pl->state = to;
    pl->due = due;
    pl->plan->ops.moved(pl->plan->ctx, pl, from);
}

static void save_facts(struct as_replica_slot *pl)
{
    pl->plan->ops.note(pl->plan->ctx, pl);
}

/* Without a dispatcher nobody can become READY or answer, and a healthy process must not be killed
 * for that. */
static as_ns deadline_after(const struct as_replica_slot *pl, as_ns timeout, as_ns now)
{
    return pl->plan->serving ? now + timeout : AS_NEVER;
}

/* The facts that a new process is started with. One of an older version stays what it is: its
 * description is the older one too. */
static void renew_facts(struct as_replica_slot *pl)
{
    struct as_replica_slot_facts *f = &pl->facts;
    const struct as_plan_target *t = &pl->plan->target;

    if (f->rank_next != f->rank) {
        as_ranks_release(&pl->plan->ranks, f->rank);
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
    pl->refuses_configure = false;
}

static void set_lack(struct as_replica_slot *pl, struct as_str lack)
{
    free(pl->lack);
    pl->lack = lack.n ? as_str_dup(lack) : NULL;
}

/* Its turn has come. It may be another plan's event that asks, so that our plan looks again. */
static bool may_start(struct as_start_request *s, as_ns now)
{
    struct as_replica_slot *pl = AS_CONTAINER(s, struct as_replica_slot, start);
    const struct as_plan_headroom room = {.kept = !as_rollout_is_old(pl)};
    struct as_str lack = pl->plan->ops.lacks(pl->plan->ctx, pl, &room);

    if (!as_str_eq(lack, as_replica_slot_lack(pl))) {
        set_lack(pl, lack);
        pl->plan->recheck_at = now;
    }
    return lack.n == 0;
}

static void start_process(struct as_start_request *s, as_ns now)
{
    struct as_replica_slot *pl = AS_CONTAINER(s, struct as_replica_slot, start);

    renew_facts(pl);
    as_restart_started(&pl->restart);
    set_state(pl, AS_REPLICA_SLOT_STARTING,
              deadline_after(pl, target_policy(pl)->start_timeout, now));
    pl->plan->ops.start(pl->plan->ctx, pl);
}

static uint32_t lowest_number(const struct as_plan *p)
{
    uint32_t n = 0;

    while (n < p->n && p->slots[n]->facts.number == n)
        n++;
    return n;
}

struct as_replica_slot *as_replica_slot_insert(struct as_plan *p, uint32_t number)
{
    struct as_replica_slot *pl = as_xalloc(sizeof(*pl));
    uint32_t at = p->n;

    pl->plan = p;
    pl->facts.number = number;
    pl->facts.rank = pl->facts.rank_next = AS_RANK_NONE;
    pl->state = AS_REPLICA_SLOT_WAITING;
    pl->due = pl->retire_at = AS_NEVER;
    as_start_request_init(&pl->start, may_start, start_process);
    pl->n_name = (uint32_t)snprintf(pl->name, sizeof(pl->name), "%s-%u", p->name, number);
    if (p->n == p->cap) {
        p->cap = AS_MAX(8u, 2 * p->cap);
        p->slots = as_xrealloc(p->slots, p->cap * sizeof(struct as_replica_slot *));
    }
    for (; at > 0 && p->slots[at - 1]->facts.number > number; at--)
        p->slots[at] = p->slots[at - 1];
    p->slots[at] = pl;
    p->n++;
    return pl;
}

struct as_replica_slot *as_replica_slot_new(struct as_plan *p)
{
    struct as_replica_slot *pl;

    if (p->n == AS_REPLICA_SLOTS_MAX)
        return NULL;
    pl = as_replica_slot_insert(p, lowest_number(p));
    pl->facts.rank = pl->facts.rank_next = as_ranks_lowest_free(&p->ranks);
    as_ranks_reserve(&p->ranks, pl->facts.rank);
    pl->facts.generation = p->target.generation;
    pl->facts.version = p->target.version;
    pl->facts.config = p->target.config;
    pl->facts.world = p->target.replicas;
    as_start_limit_enqueue(p->starts, &pl->start);
    return pl;
}

void as_replica_slot_free(struct as_replica_slot *pl)
{
    struct as_plan *p = pl->plan;
    struct as_replica_slot_facts *f = &pl->facts;
    uint32_t at = 0;

    as_start_limit_remove(p->starts, &pl->start);
    if (f->rank != AS_RANK_NONE)
        as_ranks_release(&p->ranks, f->rank);
    if (f->rank_next != f->rank)
        as_ranks_release(&p->ranks, f->rank_next);
    while (p->slots[at] != pl)
        at++;
    for (p->n--; at < p->n; at++)
        p->slots[at] = p->slots[at + 1];
    free(pl->reason);
    free(pl->lack);
    free(pl);
}

static void remove_slot(struct as_replica_slot *pl)
{
    pl->plan->ops.gone(pl->plan->ctx, pl);
    as_replica_slot_free(pl);
}

/* The signal is repeated, should it not have ended by then. */
static void stop_process(struct as_replica_slot *pl, as_ns now)
{
    as_ns timeout = target_policy(pl)->stop_timeout;

    set_state(pl, AS_REPLICA_SLOT_STOPPING, now + timeout + target_policy(pl)->drain_interval);
    pl->plan->ops.stop(pl->plan->ctx, pl, timeout);
}

static void ask_to_drain(struct as_replica_slot *pl, as_ns now)
{
    pl->retire_at = now + own_policy(pl)->drain_interval;
    pl->plan->ops.retire(pl->plan->ctx, pl);
}

void as_replica_slot_retire(struct as_replica_slot *pl, as_ns now)
{
    AS_ASSERT(!as_replica_slot_is_ending(pl));
    if (!state_is_in(pl, WITH_PROCESS)) {
        remove_slot(pl);
        return;
    }
    /* or the next controller would take it for one that stays, and end another */
    pl->facts.retiring = true;
    save_facts(pl);
    if (pl->state == AS_REPLICA_SLOT_KILLED) {
        set_state(pl, AS_REPLICA_SLOT_STOPPING, now + target_policy(pl)->drain_interval);
    } else if (!pl->plan->serving) { /* it has nothing that anybody waits for */
        stop_process(pl, now);
    } else { /* whatever its state: it may have become ready, and have requests, just now */
        set_state(pl, AS_REPLICA_SLOT_DRAINING, now + own_policy(pl)->drain_timeout);
        ask_to_drain(pl, now);
    }
}

/* How long it has drained already nobody knows: it is given the whole time. */
void as_replica_slot_resume(struct as_replica_slot *pl, as_ns now)
{
    if (pl->state != AS_REPLICA_SLOT_DRAINING)
        return;
    pl->due = now + own_policy(pl)->drain_timeout;
    pl->retire_at = now;
}

void as_replica_slot_mark_stale(struct as_replica_slot *pl)
{
    if (pl->facts.stale)
        return;
    pl->facts.stale = true;
    save_facts(pl);
}

void as_replica_slot_clear_stale(struct as_replica_slot *pl)
{
    if (!pl->facts.stale || pl->refuses_configure)
        return;
    pl->facts.stale = false;
    save_facts(pl);
}

void as_replica_slot_configure(struct as_replica_slot *pl, as_ns now)
{
    struct as_plan *p = pl->plan;

    AS_ASSERT(pl->state == AS_REPLICA_SLOT_RUNNING);
    pl->configure_facts = pl->facts;
    pl->configure_facts.generation = p->target.generation;
    pl->configure_facts.config = p->target.config;
    pl->configure_facts.world = p->target.replicas;
    pl->configure_facts.rank = pl->facts.rank_next;
    pl->configure_id = ++p->last_configure_id;
    pl->facts.unsure = true;
    save_facts(pl);
    set_state(pl, AS_REPLICA_SLOT_UPDATING,
              deadline_after(pl, target_policy(pl)->configure_timeout, now));
    p->ops.configure(p->ctx, pl, pl->configure_id, &pl->configure_facts);
}

/* --- what happens to it --- */

void as_replica_slot_ready(struct as_replica_slot *pl, as_ns now)
{
    struct as_plan *p = pl->plan;

    if (pl->state == AS_REPLICA_SLOT_DRAINING) /* a link that does not know of it */
        ask_to_drain(pl, now);
    if (pl->state != AS_REPLICA_SLOT_STARTING && pl->state != AS_REPLICA_SLOT_LOST)
        return;
    if (pl->ready_at == 0) { /* not when only the link is new */
        as_restart_ready(&pl->restart, now);
        pl->ready_at = now;
    }
    pl->given_up = false;
    set_state(pl, AS_REPLICA_SLOT_RUNNING, AS_NEVER);
    if (!pl->facts.ready) {
        pl->facts.ready = true;
        pl->facts.proved = target_policy(pl)->min_ready == 0;
        save_facts(pl);
    }
    as_rollout_run(p, now);
}

static void handle_lost_link(struct as_replica_slot *pl, as_ns now)
{
    if (pl->state == AS_REPLICA_SLOT_RUNNING || pl->state == AS_REPLICA_SLOT_UPDATING)
        set_state(pl, AS_REPLICA_SLOT_LOST,
                  deadline_after(pl, target_policy(pl)->start_timeout, now));
    else if (pl->state ==
             AS_REPLICA_SLOT_DRAINING) /* what it had is answered by others, or nobody */
        stop_process(pl, now);
}

void as_replica_slot_lost(struct as_replica_slot *pl, as_ns now)
{
    handle_lost_link(pl, now);
    as_rollout_run(pl->plan, now);
}

void as_replica_slot_retired(struct as_replica_slot *pl, as_ns now)
{
    if (pl->state == AS_REPLICA_SLOT_DRAINING)
        stop_process(pl, now);
    as_rollout_run(pl->plan, now);
}

/* What it will not be told, a new process in its stead is started with: unless all were to be told
 * that, and are to be told something else now. */
static void on_configure_refused(struct as_replica_slot *pl, struct as_str text, as_ns now)
{
    const struct as_plan_target *t = &pl->plan->target;

    if (pl->configure_facts.version != t->version || pl->configure_facts.config != t->config)
        return; /* what is asked for by now it has not refused */
    if (pl->facts.config == t->config || !as_rollout_on_failure(pl, UINT32_MAX, text, now)) {
        pl->refuses_configure = true;
        as_replica_slot_mark_stale(pl);
    }
}

/* Which of the two it is now. Of one that refuses what it may have been told before nobody knows
 * whether it then refused as well: it holds both of its ranks until it is replaced. */
static void apply_answer(struct as_replica_slot *pl, bool ok)
{
    struct as_replica_slot_facts *f = &pl->facts;

    if (!ok && pl->configure_facts.unsure)
        return;
    f->unsure = false;
    if (ok) {
        f->generation = pl->configure_facts.generation;
        f->config = pl->configure_facts.config;
        f->world = pl->configure_facts.world;
    }
    if (f->rank_next != f->rank) {
        as_ranks_release(&pl->plan->ranks, ok ? f->rank : f->rank_next);
        f->rank = f->rank_next = ok ? f->rank_next : f->rank;
    }
}

void as_replica_slot_configured(struct as_replica_slot *pl, uint64_t ask, bool ok,
                                struct as_str text, as_ns now)
{
    struct as_plan *p = pl->plan;

    if (pl->state != AS_REPLICA_SLOT_UPDATING || ask != pl->configure_id)
        return;
    apply_answer(pl, ok);
    save_facts(pl);
    set_state(pl, AS_REPLICA_SLOT_RUNNING, AS_NEVER);
    if (!ok)
        on_configure_refused(pl, text, now);
    if (pl->facts.unsure)
        as_replica_slot_mark_stale(pl);
    as_rollout_run(p, now);
}

static void set_reason(struct as_replica_slot *pl, struct as_str reason)
{
    free(pl->reason);
    pl->n_reason = (uint32_t)AS_MIN(reason.n, AS_REPLICA_SLOT_REASON_MAX);
    pl->reason = as_str_dup((struct as_str){reason.p, pl->n_reason});
}

void as_replica_slot_died(struct as_replica_slot *pl, enum as_exit_kind kind, struct as_str reason,
                          as_ns now)
{
    struct as_plan *p = pl->plan;
    struct as_restart_verdict v;
    bool outside;

    if (!state_is_in(pl, WITH_PROCESS))
        return;
    set_reason(pl, reason);
    if (as_replica_slot_is_ending(pl)) {
        remove_slot(pl);
        as_rollout_run(p, now);
        return;
    }
    if (kind == AS_EXIT_STOPPED) /* not by us, or it would be ending */
        kind = AS_EXIT_KILLED;
    if (pl->state == AS_REPLICA_SLOT_KILLED)
        kind = AS_EXIT_CRASH;
    if (pl->facts.ready)
        as_plan_set_condition(p, AS_CAUSE_REPLICA_FAILED, reason, now);
    outside = kind == AS_EXIT_KILLED || (kind == AS_EXIT_OOM && pl->restart.ready);
    v = as_restart_died(&pl->restart, &target_policy(pl)->restart, kind, &p->rand, now);
    pl->ready_at = 0;
    pl->given_up |= v.gave_up;
    if (v.gave_up)
        set_state(pl, AS_REPLICA_SLOT_DOWN, now + target_policy(pl)->restart.max);
    else
        set_state(pl, AS_REPLICA_SLOT_WAITING, v.at);
    /* one that an update has not reached yet says nothing against it */
    if (!outside && (pl->facts.config == p->target.config || pl->facts.unsure))
        as_rollout_on_failure(pl, v.gave_up ? UINT32_MAX : pl->restart.failures, reason, now);
    as_rollout_run(p, now);
}

static void kill_faulty(struct as_replica_slot *pl, struct as_str why, as_ns now)
{
    struct as_plan *p = pl->plan;

    if (!state_is_in(pl, WITH_PROCESS) || pl->state == AS_REPLICA_SLOT_KILLED)
        return;
    if (pl->state == AS_REPLICA_SLOT_DRAINING)
        set_state(pl, AS_REPLICA_SLOT_STOPPING, now + target_policy(pl)->drain_interval);
    else if (pl->state != AS_REPLICA_SLOT_STOPPING)
        set_state(pl, AS_REPLICA_SLOT_KILLED, now + target_policy(pl)->drain_interval);
    p->ops.kill(p->ctx, pl, why);
}

void as_replica_slot_fault(struct as_replica_slot *pl, struct as_str why, as_ns now)
{
    kill_faulty(pl, why, now);
    as_rollout_run(pl->plan, now);
}

void as_replica_slot_set_serving(struct as_replica_slot *pl, bool serving, as_ns now)
{
    if (!serving) {
        handle_lost_link(pl, now);
        if (pl->state == AS_REPLICA_SLOT_STARTING || pl->state == AS_REPLICA_SLOT_LOST)
            pl->due = AS_NEVER;
    } else if (pl->state == AS_REPLICA_SLOT_STARTING || pl->state == AS_REPLICA_SLOT_LOST) {
        pl->due = now + target_policy(pl)->start_timeout;
    } else if (pl->state == AS_REPLICA_SLOT_DRAINING) {
        ask_to_drain(pl, now);
    }
}

/* A fresh start: what was before is forgotten. */
void as_replica_slot_revive(struct as_replica_slot *pl, as_ns now)
{
    pl->restart = (struct as_restart){0};
    set_state(pl, AS_REPLICA_SLOT_WAITING, now);
}

/* --- time --- */

static void on_due(struct as_replica_slot *pl, as_ns now)
{
    pl->due = AS_NEVER;
    switch (pl->state) {
    case AS_REPLICA_SLOT_DOWN:
        as_replica_slot_revive(pl, now);
        as_replica_slot_tick(pl, now);
        break;
    case AS_REPLICA_SLOT_WAITING:
        as_start_limit_enqueue(pl->plan->starts, &pl->start);
        break;
    case AS_REPLICA_SLOT_STARTING:
        kill_faulty(pl, AS_STR("it was not ready in time (--start-timeout)"), now);
        break;
    case AS_REPLICA_SLOT_LOST:
        kill_faulty(pl, AS_STR("its link broke and did not come back in time"), now);
        break;
    case AS_REPLICA_SLOT_UPDATING:
        on_configure_refused(pl, AS_STR("reconfigure took too long"), now);
        kill_faulty(pl, AS_STR("reconfigure took too long"), now);
        break;
    case AS_REPLICA_SLOT_DRAINING:
        stop_process(pl, now);
        break;
    case AS_REPLICA_SLOT_KILLED:
    case AS_REPLICA_SLOT_STOPPING:
        pl->due = now + target_policy(pl)->drain_interval;
        pl->plan->ops.kill(pl->plan->ctx, pl, AS_STR("it did not end"));
        break;
    default:
        break;
    }
}

void as_replica_slot_tick(struct as_replica_slot *pl, as_ns now)
{
    if (pl->due <= now)
        on_due(pl, now);
    if (pl->state == AS_REPLICA_SLOT_DRAINING && pl->retire_at <= now)
        ask_to_drain(pl, now);
}

as_ns as_replica_slot_next_due(const struct as_replica_slot *pl)
{
    return pl->state == AS_REPLICA_SLOT_DRAINING ? AS_MIN(pl->due, pl->retire_at) : pl->due;
}

/* --- inspection --- */

const char *as_replica_slot_state_name(enum as_replica_slot_state s)
{
    static const char *const names[] = {
#define X(name, text) [AS_REPLICA_SLOT_##name] = (text),
        AS_REPLICA_SLOT_STATE_TABLE(X)
#undef X
    };

    AS_ASSERT((size_t)s < AS_COUNT(names));
    return names[s];
}

const struct as_replica_slot_facts *as_replica_slot_facts(const struct as_replica_slot *pl)
{
    return &pl->facts;
}

enum as_replica_slot_state as_replica_slot_state(const struct as_replica_slot *pl)
{
    return pl->state;
}

struct as_str as_replica_slot_name(const struct as_replica_slot *pl)
{
    return (struct as_str){pl->name, pl->n_name};
}

struct as_str as_replica_slot_reason(const struct as_replica_slot *pl)
{
    return (struct as_str){pl->reason, pl->n_reason};
}

as_ns as_replica_slot_due(const struct as_replica_slot *pl)
{
    return state_is_in(pl, BIT(WAITING) | BIT(DOWN)) ? pl->due : AS_NEVER;
}

bool as_replica_slot_is_queued(const struct as_replica_slot *pl)
{
    return as_start_request_is_queued(&pl->start);
}

struct as_str as_replica_slot_lack(const struct as_replica_slot *pl)
{
    return as_str_of(pl->lack);
}

bool as_replica_slot_has_process(const struct as_replica_slot *pl)
{
    return state_is_in(pl, WITH_PROCESS);
}

struct as_plan *as_replica_slot_plan(const struct as_replica_slot *pl)
{
    return pl->plan;
}

void as_replica_slot_set_user(struct as_replica_slot *pl, void *user)
{
    pl->user = user;
}

void *as_replica_slot_user(const struct as_replica_slot *pl)
{
    return pl->user;
}
