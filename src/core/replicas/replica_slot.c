#include "core/replicas/plan_internal.h"

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

static bool state_is_in(const struct as_replica_slot *slot, uint32_t states)
{
    return (1u << slot->state) & states;
}

static const struct as_plan_policy *target_policy(const struct as_replica_slot *slot)
{
    return &slot->plan->target.policy;
}

/* The policy by which it drains: that of the last target of the version that it runs. */
static const struct as_plan_policy *own_policy(const struct as_replica_slot *slot)
{
    const struct as_plan *p = slot->plan;
    const struct as_plan_target *const all[] = {&p->target, &p->other_version, &p->stable,
                                                &p->previous};

    for (size_t i = 0; i < AS_COUNT(all); i++) {
        if (all[i]->generation && all[i]->version == slot->facts.version)
            return &all[i]->policy;
    }
    return target_policy(slot);
}

static void set_state(struct as_replica_slot *slot, enum as_replica_slot_state to, as_ns due)
{
    enum as_replica_slot_state from = slot->state;

    AS_ASSERT(moves[from] & (1u << to));
    /* one that drains before it was READY counts as starting until it is stopped */
    if (to != AS_REPLICA_SLOT_STARTING && to != AS_REPLICA_SLOT_DRAINING)
        as_start_limit_remove(slot->plan->starts, &slot->start);
    AS_ASSERT(!slot->lack);
    slot->state = to;
    slot->due = due;
    slot->plan->ops.moved(slot->plan->ctx, slot, from);
}

static void save_facts(struct as_replica_slot *slot)
{
    slot->plan->ops.note(slot->plan->ctx, slot);
}

/* Without a dispatcher no process can become READY or answer, and must not be killed for that. */
static as_ns deadline_after(const struct as_replica_slot *slot, as_ns timeout, as_ns now)
{
    return slot->plan->serving ? now + timeout : AS_NEVER;
}

/* Updates the facts with which a new process is started. A slot of an older version keeps the
 * generation and config of that version. */
static void renew_facts(struct as_replica_slot *slot)
{
    struct as_replica_slot_facts *f = &slot->facts;
    const struct as_plan_target *t = &slot->plan->target;

    if (f->rank_next != f->rank) {
        as_ranks_release(&slot->plan->ranks, f->rank);
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
    slot->refuses_configure = false;
}

static void set_lack(struct as_replica_slot *slot, struct as_str lack)
{
    free(slot->lack);
    slot->lack = lack.n ? as_str_dup(lack) : NULL;
}

/* The start limit allows a start. An event of another plan may have caused this call, so this plan
 * must check itself again. */
static bool may_start(struct as_start_request *s, as_ns now)
{
    struct as_replica_slot *slot = AS_CONTAINER(s, struct as_replica_slot, start);
    const struct as_plan_headroom room = {.kept = !as_rollout_is_old(slot)};
    struct as_str lack = slot->plan->ops.lacks(slot->plan->ctx, slot, &room);

    if (!as_str_eq(lack, as_replica_slot_lack(slot))) {
        set_lack(slot, lack);
        slot->plan->recheck_at = now;
    }
    return lack.n == 0;
}

static void start_process(struct as_start_request *s, as_ns now)
{
    struct as_replica_slot *slot = AS_CONTAINER(s, struct as_replica_slot, start);

    renew_facts(slot);
    as_restart_started(&slot->restart);
    set_state(slot, AS_REPLICA_SLOT_STARTING,
              deadline_after(slot, target_policy(slot)->start_timeout, now));
    slot->plan->ops.start(slot->plan->ctx, slot);
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
    struct as_replica_slot *slot = as_xalloc(sizeof(*slot));
    uint32_t at = p->n;

    slot->plan = p;
    slot->facts.number = number;
    slot->facts.rank = slot->facts.rank_next = AS_RANK_NONE;
    slot->state = AS_REPLICA_SLOT_WAITING;
    slot->due = slot->retire_at = AS_NEVER;
    as_start_request_init(&slot->start, may_start, start_process);
    slot->n_name = (uint32_t)snprintf(slot->name, sizeof(slot->name), "%s-%u", p->name, number);
    if (p->n == p->cap) {
        p->cap = AS_MAX(8u, 2 * p->cap);
        p->slots = as_xrealloc(p->slots, p->cap * sizeof(struct as_replica_slot *));
    }
    for (; at > 0 && p->slots[at - 1]->facts.number > number; at--)
        p->slots[at] = p->slots[at - 1];
    p->slots[at] = slot;
    p->n++;
    return slot;
}

struct as_replica_slot *as_replica_slot_new(struct as_plan *p)
{
    struct as_replica_slot *slot;

    if (p->n == AS_REPLICA_SLOTS_MAX)
        return NULL;
    slot = as_replica_slot_insert(p, lowest_number(p));
    slot->facts.rank = slot->facts.rank_next = as_ranks_lowest_free(&p->ranks);
    as_ranks_reserve(&p->ranks, slot->facts.rank);
    slot->facts.generation = p->target.generation;
    slot->facts.version = p->target.version;
    slot->facts.config = p->target.config;
    slot->facts.world = p->target.replicas;
    as_start_limit_enqueue(p->starts, &slot->start);
    return slot;
}

void as_replica_slot_free(struct as_replica_slot *slot)
{
    struct as_plan *p = slot->plan;
    struct as_replica_slot_facts *f = &slot->facts;
    uint32_t at = 0;

    as_start_limit_remove(p->starts, &slot->start);
    if (f->rank != AS_RANK_NONE)
        as_ranks_release(&p->ranks, f->rank);
    if (f->rank_next != f->rank)
        as_ranks_release(&p->ranks, f->rank_next);
    while (p->slots[at] != slot)
        at++;
    for (p->n--; at < p->n; at++)
        p->slots[at] = p->slots[at + 1];
    free(slot->reason);
    free(slot->lack);
    free(slot);
}

static void remove_slot(struct as_replica_slot *slot)
{
    slot->plan->ops.gone(slot->plan->ctx, slot);
    as_replica_slot_free(slot);
}

/* A signal is sent again if the process has not ended by the deadline. */
static void stop_process(struct as_replica_slot *slot, as_ns now)
{
    as_ns timeout = target_policy(slot)->stop_timeout;

    set_state(slot, AS_REPLICA_SLOT_STOPPING, now + timeout + target_policy(slot)->drain_interval);
    slot->plan->ops.stop(slot->plan->ctx, slot, timeout);
}

static void ask_to_drain(struct as_replica_slot *slot, as_ns now)
{
    slot->retire_at = now + own_policy(slot)->drain_interval;
    slot->plan->ops.retire(slot->plan->ctx, slot);
}

void as_replica_slot_retire(struct as_replica_slot *slot, as_ns now)
{
    AS_ASSERT(!as_replica_slot_is_ending(slot));
    if (!state_is_in(slot, WITH_PROCESS)) {
        remove_slot(slot);
        return;
    }
    /* stored first, or the next controller would keep this slot and retire another */
    slot->facts.retiring = true;
    save_facts(slot);
    if (slot->state == AS_REPLICA_SLOT_KILLED) {
        set_state(slot, AS_REPLICA_SLOT_STOPPING, now + target_policy(slot)->drain_interval);
    } else if (!slot->plan->serving) { /* without a dispatcher it has no requests */
        stop_process(slot, now);
    } else { /* in any other state: it may have become READY and have requests by now */
        set_state(slot, AS_REPLICA_SLOT_DRAINING, now + own_policy(slot)->drain_timeout);
        ask_to_drain(slot, now);
    }
}

/* How long it has drained already is not known: it gets the whole time. */
void as_replica_slot_resume(struct as_replica_slot *slot, as_ns now)
{
    if (slot->state != AS_REPLICA_SLOT_DRAINING)
        return;
    slot->due = now + own_policy(slot)->drain_timeout;
    slot->retire_at = now;
}

void as_replica_slot_mark_stale(struct as_replica_slot *slot)
{
    if (slot->facts.stale)
        return;
    slot->facts.stale = true;
    save_facts(slot);
}

void as_replica_slot_clear_stale(struct as_replica_slot *slot)
{
    if (!slot->facts.stale || slot->refuses_configure)
        return;
    slot->facts.stale = false;
    save_facts(slot);
}

void as_replica_slot_configure(struct as_replica_slot *slot, as_ns now)
{
    struct as_plan *p = slot->plan;
    bool other_config = slot->facts.config != p->target.config;

    AS_ASSERT(slot->state == AS_REPLICA_SLOT_RUNNING);
    slot->configure_facts = slot->facts;
    slot->configure_facts.generation = p->target.generation;
    slot->configure_facts.config = p->target.config;
    slot->configure_facts.world = p->target.replicas;
    slot->configure_facts.rank = slot->facts.rank_next;
    slot->configure_id = ++p->last_configure_id;
    slot->facts.unsure = true;
    save_facts(slot);
    /* A handler may run for longer than the timeout, and a number of replicas that follows the load
     * changes often: that is no reason to kill it. */
    set_state(slot, AS_REPLICA_SLOT_UPDATING,
              other_config ? deadline_after(slot, target_policy(slot)->configure_timeout, now)
                           : AS_NEVER);
    p->ops.configure(p->ctx, slot, slot->configure_id, &slot->configure_facts);
}

/* --- events --- */

void as_replica_slot_ready(struct as_replica_slot *slot, as_ns now)
{
    struct as_plan *p = slot->plan;

    if (slot->state ==
        AS_REPLICA_SLOT_DRAINING) /* a new link, which does not know that the replica drains */
        ask_to_drain(slot, now);
    if (slot->state != AS_REPLICA_SLOT_STARTING && slot->state != AS_REPLICA_SLOT_LOST)
        return;
    if (slot->ready_at == 0) { /* else only the link is new */
        as_restart_ready(&slot->restart, now);
        slot->ready_at = now;
    }
    slot->given_up = false;
    set_state(slot, AS_REPLICA_SLOT_RUNNING, AS_NEVER);
    if (!slot->facts.ready) {
        slot->facts.ready = true;
        slot->facts.proved = target_policy(slot)->min_ready == 0;
        save_facts(slot);
    }
    as_rollout_run(p, now);
}

static void handle_lost_link(struct as_replica_slot *slot, as_ns now)
{
    if (slot->state == AS_REPLICA_SLOT_RUNNING || slot->state == AS_REPLICA_SLOT_UPDATING)
        set_state(slot, AS_REPLICA_SLOT_LOST,
                  deadline_after(slot, target_policy(slot)->start_timeout, now));
    else if (slot->state == AS_REPLICA_SLOT_DRAINING) /* with its link it has lost its requests */
        stop_process(slot, now);
}

void as_replica_slot_lost(struct as_replica_slot *slot, as_ns now)
{
    handle_lost_link(slot, now);
    as_rollout_run(slot->plan, now);
}

void as_replica_slot_retired(struct as_replica_slot *slot, as_ns now)
{
    if (slot->state == AS_REPLICA_SLOT_DRAINING)
        stop_process(slot, now);
    as_rollout_run(slot->plan, now);
}

void as_replica_slot_leaves(struct as_replica_slot *slot, as_ns now)
{
    if (!state_is_in(slot, WITH_PROCESS) || slot->state == AS_REPLICA_SLOT_KILLED ||
        as_replica_slot_is_ending(slot))
        return;
    as_rollout_leave(slot, now);
    as_rollout_run(slot->plan, now);
}

/* A process refuses a configure, so a new process must replace it; unless the refusal has ended the
 * update, and the config is not the target any more. */
static void on_configure_refused(struct as_replica_slot *slot, struct as_str text, as_ns now)
{
    const struct as_plan_target *t = &slot->plan->target;

    if (slot->configure_facts.version != t->version || slot->configure_facts.config != t->config)
        return; /* it has refused an older target, not the current one */
    if (slot->facts.config == t->config || !as_rollout_on_failure(slot, UINT32_MAX, text, now)) {
        slot->refuses_configure = true;
        as_replica_slot_mark_stale(slot);
    }
}

/* Which of the two configs and ranks it has now. If it refuses a configure that may have been sent
 * before, it is not known whether it accepted the first one. Then it holds both ranks until it is
 * replaced. */
static void apply_answer(struct as_replica_slot *slot, bool ok)
{
    struct as_replica_slot_facts *f = &slot->facts;

    if (!ok && slot->configure_facts.unsure)
        return;
    f->unsure = false;
    if (ok) {
        f->generation = slot->configure_facts.generation;
        f->config = slot->configure_facts.config;
        f->world = slot->configure_facts.world;
    }
    if (f->rank_next != f->rank) {
        as_ranks_release(&slot->plan->ranks, ok ? f->rank : f->rank_next);
        f->rank = f->rank_next = ok ? f->rank_next : f->rank;
    }
}

void as_replica_slot_configured(struct as_replica_slot *slot, uint64_t ask, bool ok,
                                struct as_str text, as_ns now)
{
    struct as_plan *p = slot->plan;

    if (slot->state != AS_REPLICA_SLOT_UPDATING || ask != slot->configure_id)
        return;
    apply_answer(slot, ok);
    save_facts(slot);
    set_state(slot, AS_REPLICA_SLOT_RUNNING, AS_NEVER);
    if (!ok)
        on_configure_refused(slot, text, now);
    if (slot->facts.unsure)
        as_replica_slot_mark_stale(slot);
    as_rollout_run(p, now);
}

static void set_reason(struct as_replica_slot *slot, struct as_str reason)
{
    free(slot->reason);
    slot->n_reason = (uint32_t)AS_MIN(reason.n, AS_REPLICA_SLOT_REASON_MAX);
    slot->reason = as_str_dup((struct as_str){reason.p, slot->n_reason});
}

void as_replica_slot_died(struct as_replica_slot *slot, enum as_exit_kind kind,
                          struct as_str reason, as_ns now)
{
    struct as_plan *p = slot->plan;
    struct as_restart_verdict v;
    bool outside;

    if (!state_is_in(slot, WITH_PROCESS))
        return;
    slot->load = 0;
    set_reason(slot, reason);
    if (as_replica_slot_is_ending(slot)) {
        remove_slot(slot);
        as_rollout_run(p, now);
        return;
    }
    if (kind == AS_EXIT_STOPPED) /* not stopped by us: then it would be ending */
        kind = AS_EXIT_KILLED;
    if (slot->state == AS_REPLICA_SLOT_KILLED)
        kind = AS_EXIT_CRASH;
    if (slot->facts.ready)
        as_plan_set_condition(p, AS_CAUSE_REPLICA_FAILED, reason, now);
    outside = kind == AS_EXIT_KILLED || (kind == AS_EXIT_OOM && slot->restart.ready);
    v = as_restart_died(&slot->restart, &target_policy(slot)->restart, kind, &p->rand, now);
    slot->ready_at = 0;
    slot->given_up |= v.gave_up;
    if (v.gave_up)
        set_state(slot, AS_REPLICA_SLOT_DOWN, now + target_policy(slot)->restart.max);
    else
        set_state(slot, AS_REPLICA_SLOT_WAITING, v.at);
    /* a death counts against an update only if the update has reached this slot */
    if (!outside && (slot->facts.config == p->target.config || slot->facts.unsure))
        as_rollout_on_failure(slot, v.gave_up ? UINT32_MAX : slot->restart.failures, reason, now);
    as_rollout_run(p, now);
}

static void kill_faulty(struct as_replica_slot *slot, struct as_str why, as_ns now)
{
    struct as_plan *p = slot->plan;

    if (!state_is_in(slot, WITH_PROCESS) || slot->state == AS_REPLICA_SLOT_KILLED)
        return;
    if (slot->state == AS_REPLICA_SLOT_DRAINING)
        set_state(slot, AS_REPLICA_SLOT_STOPPING, now + target_policy(slot)->drain_interval);
    else if (slot->state != AS_REPLICA_SLOT_STOPPING)
        set_state(slot, AS_REPLICA_SLOT_KILLED, now + target_policy(slot)->drain_interval);
    p->ops.kill(p->ctx, slot, why);
}

void as_replica_slot_set_serving(struct as_replica_slot *slot, bool serving, as_ns now)
{
    if (!serving) {
        handle_lost_link(slot, now);
        if (slot->state == AS_REPLICA_SLOT_STARTING || slot->state == AS_REPLICA_SLOT_LOST)
            slot->due = AS_NEVER;
    } else if (slot->state == AS_REPLICA_SLOT_STARTING || slot->state == AS_REPLICA_SLOT_LOST) {
        slot->due = now + target_policy(slot)->start_timeout;
    } else if (slot->state == AS_REPLICA_SLOT_DRAINING) {
        ask_to_drain(slot, now);
    }
}

/* Starts it again without the failures so far. */
void as_replica_slot_revive(struct as_replica_slot *slot, as_ns now)
{
    slot->restart = (struct as_restart){0};
    set_state(slot, AS_REPLICA_SLOT_WAITING, now);
}

/* --- time --- */

static void on_due(struct as_replica_slot *slot, as_ns now)
{
    slot->due = AS_NEVER;
    switch (slot->state) {
    case AS_REPLICA_SLOT_DOWN:
        as_replica_slot_revive(slot, now);
        as_replica_slot_tick(slot, now);
        break;
    case AS_REPLICA_SLOT_WAITING:
        as_start_limit_enqueue(slot->plan->starts, &slot->start);
        break;
    case AS_REPLICA_SLOT_STARTING:
        kill_faulty(slot, AS_STR("it was not ready in time (--start-timeout)"), now);
        break;
    case AS_REPLICA_SLOT_LOST:
        kill_faulty(slot, AS_STR("its link broke and did not come back in time"), now);
        break;
    case AS_REPLICA_SLOT_UPDATING:
        on_configure_refused(slot, AS_STR("reconfigure took too long"), now);
        kill_faulty(slot, AS_STR("reconfigure took too long"), now);
        break;
    case AS_REPLICA_SLOT_DRAINING:
        stop_process(slot, now);
        break;
    case AS_REPLICA_SLOT_KILLED:
    case AS_REPLICA_SLOT_STOPPING:
        slot->due = now + target_policy(slot)->drain_interval;
        slot->plan->ops.kill(slot->plan->ctx, slot, AS_STR("it did not end after a signal"));
        break;
    default:
        break;
    }
}

void as_replica_slot_tick(struct as_replica_slot *slot, as_ns now)
{
    if (slot->due <= now)
        on_due(slot, now);
    if (slot->state == AS_REPLICA_SLOT_DRAINING && slot->retire_at <= now)
        ask_to_drain(slot, now);
}

as_ns as_replica_slot_next_due(const struct as_replica_slot *slot)
{
    return slot->state == AS_REPLICA_SLOT_DRAINING ? AS_MIN(slot->due, slot->retire_at) : slot->due;
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

const struct as_replica_slot_facts *as_replica_slot_facts(const struct as_replica_slot *slot)
{
    return &slot->facts;
}

enum as_replica_slot_state as_replica_slot_state(const struct as_replica_slot *slot)
{
    return slot->state;
}

struct as_str as_replica_slot_name(const struct as_replica_slot *slot)
{
    return (struct as_str){slot->name, slot->n_name};
}

struct as_str as_replica_slot_reason(const struct as_replica_slot *slot)
{
    return (struct as_str){slot->reason, slot->n_reason};
}

as_ns as_replica_slot_due(const struct as_replica_slot *slot)
{
    return state_is_in(slot, BIT(WAITING) | BIT(DOWN)) ? slot->due : AS_NEVER;
}

bool as_replica_slot_is_queued(const struct as_replica_slot *slot)
{
    return as_start_request_is_queued(&slot->start);
}

struct as_str as_replica_slot_lack(const struct as_replica_slot *slot)
{
    return as_str_of(slot->lack);
}

bool as_replica_slot_has_process(const struct as_replica_slot *slot)
{
    return state_is_in(slot, WITH_PROCESS);
}

struct as_plan *as_replica_slot_plan(const struct as_replica_slot *slot)
{
    return slot->plan;
}

void as_replica_slot_set_user(struct as_replica_slot *slot, void *user)
{
    slot->user = user;
}

void *as_replica_slot_user(const struct as_replica_slot *slot)
{
    return slot->user;
}
