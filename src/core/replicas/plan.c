#include "core/replicas/plan.h"

#include "core/replicas/plan_internal.h"

int as_plan_new(struct as_plan **ret_p, struct as_str name, struct as_start_limit *starts,
                uint64_t seed, const struct as_plan_ops *ops, void *ctx)
{
    struct as_plan *p;

    if (name.n == 0 || name.n > AS_PLAN_NAME_MAX)
        return AS_EINVALID;
    p = as_xalloc(sizeof(*p));
    memcpy(p->name, name.p, name.n);
    p->ops = *ops;
    p->ctx = ctx;
    p->starts = starts;
    p->rand.s = seed;
    p->recheck_at = AS_NEVER;
    p->last_configure_id = as_rand_next(&p->rand) % (AS_PLAN_ASK_END / 2);
    as_condition_init(&p->condition, 0);
    *ret_p = p;
    return 0;
}

void as_plan_free(struct as_plan *p)
{
    if (!p)
        return;
    while (p->n)
        as_replica_slot_free(p->slots[p->n - 1]);
    free(p->slots);
    free(p);
}

void as_plan_set_condition(struct as_plan *p, enum as_condition_cause cause, struct as_str text,
                           as_ns now)
{
    if (as_condition_apply(&p->condition, cause, text, now))
        p->ops.condition(p->ctx, &p->condition);
}

/* --- the target --- */

static bool is_too_much(const struct as_plan_amount *a)
{
    return a->n > (a->percent ? 100 : AS_PLAN_REPLICAS_MAX);
}

const char *as_plan_check(const struct as_plan_target *t)
{
    if (t->generation == 0)
        return "generation must not be 0";
    if (t->replicas > AS_PLAN_REPLICAS_MAX)
        return "replicas must be at most 1024";
    if (t->policy.roll_percent == 0 || t->policy.roll_percent > 100)
        return "rolling_update_percentage must be 1 to 100";
    if (is_too_much(&t->policy.surge) || is_too_much(&t->policy.unavailable))
        return "max_surge and max_unavailable must be at most 100 % or 1024";
    if (t->policy.roll_failures == 0)
        return "the number of failures that end an update must be at least 1";
    if (t->policy.drain_interval == 0)
        return "graceful_shutdown_wait_loop_s must be above 0";
    return NULL;
}

static void report_scaled(struct as_plan *p, uint32_t from, bool automatic, as_ns now)
{
    bool up = p->target.replicas > from;

    if (p->target.replicas == from)
        return;
    as_plan_set_condition(p,
                          automatic ? (up ? AS_CAUSE_AUTOSCALE_UP : AS_CAUSE_AUTOSCALE_DOWN)
                                    : (up ? AS_CAUSE_SCALE_UP : AS_CAUSE_SCALE_DOWN),
                          AS_STR(""), now);
}

void as_plan_retarget(struct as_plan *p, const struct as_plan_target *t)
{
    if (p->target.version != t->version)
        p->other_version = p->target;
    p->target = *t;
}

int as_plan_set_target(struct as_plan *p, const struct as_plan_target *t, as_ns now)
{
    struct as_plan_target was = p->target;
    bool update = p->deleting || was.generation == 0 || was.version != t->version ||
                  was.config != t->config || p->condition.status == AS_STATUS_DEPLOY_FAILED;

    if (as_plan_check(t))
        return AS_EINVALID;
    as_plan_retarget(p, t);
    p->deleting = false;
    if (was.version != t->version)
        p->proven = p->stable.generation && p->stable.version == t->version;
    if (update)
        as_plan_set_condition(p, AS_CAUSE_UPDATE, AS_STR(""), now);
    else
        report_scaled(p, was.replicas, false, now);
    p->settled &= !update && was.replicas == t->replicas;
    as_rollout_run(p, now);
    return 0;
}

int as_plan_scale(struct as_plan *p, uint32_t replicas, bool automatic, as_ns now)
{
    uint32_t was = p->target.replicas;

    if (p->target.generation == 0 || p->deleting || replicas > AS_PLAN_REPLICAS_MAX)
        return AS_EINVALID;
    p->target.replicas = replicas;
    /* a failed update goes back to a target of the same size */
    p->stable.replicas = p->previous.replicas = replicas;
    p->settled &= was == replicas;
    report_scaled(p, was, automatic, now);
    as_rollout_run(p, now);
    return 0;
}

void as_plan_delete(struct as_plan *p, as_ns now)
{
    p->deleting = true;
    p->settled = false;
    p->target.replicas = 0;
    as_plan_set_condition(p, AS_CAUSE_DELETE, AS_STR(""), now);
    as_rollout_run(p, now);
}

/* --- recovery --- */

void as_plan_restore(struct as_plan *p, const struct as_plan_target *stable,
                     const struct as_plan_target *previous, struct as_str failed, as_ns now)
{
    if (stable)
        p->stable = *stable;
    if (previous)
        p->previous = *previous;
    p->proven = stable && stable->version == p->target.version;
    /* the last controller had reached it; as_plan_run checks whether that is still true */
    if (p->proven && stable->config == p->target.config)
        as_condition_apply(&p->condition, AS_CAUSE_SETTLED, AS_STR(""), now);
    if (failed.n)
        as_plan_set_condition(p, AS_CAUSE_ROLLED_BACK, failed, now);
}

static bool facts_are_valid(const struct as_replica_slot_facts *f)
{
    return f->number < AS_REPLICA_SLOT_NUMBERS_MAX && f->generation && f->rank < AS_RANKS_MAX &&
           f->rank_next < AS_RANKS_MAX && (f->retiring || !(f->early || f->leaves));
}

struct as_replica_slot *as_plan_find(const struct as_plan *p, uint32_t number)
{
    uint32_t from = 0, to = p->n;

    while (from < to) {
        uint32_t middle = from + (to - from) / 2;

        if (p->slots[middle]->facts.number < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from < p->n && p->slots[from]->facts.number == number ? p->slots[from] : NULL;
}

static void adopt_ranks(struct as_replica_slot *slot, const struct as_replica_slot_facts *f)
{
    struct as_ranks *r = &slot->plan->ranks;

    slot->facts.rank = f->rank;
    slot->facts.rank_next = f->rank_next;
    as_ranks_reserve(r, f->rank);
    if (f->rank_next != f->rank)
        as_ranks_reserve(r, f->rank_next);
}

static void adopt_state(struct as_replica_slot *slot, as_ns now)
{
    bool unbelievable = slot->facts.rank == AS_RANK_NONE;

    if (!slot->facts.ready && !unbelievable)
        as_start_limit_count(slot->plan->starts, &slot->start);
    if (unbelievable) {
        slot->state = AS_REPLICA_SLOT_STOPPING;
        slot->due = now;
    } else if (slot->facts.retiring) {
        slot->state = AS_REPLICA_SLOT_DRAINING;
    } else {
        slot->state = slot->facts.ready ? AS_REPLICA_SLOT_LOST : AS_REPLICA_SLOT_STARTING;
    }
    if (slot->facts.ready)
        as_restart_ready(&slot->restart, now);
}

int as_plan_adopt(struct as_plan *p, const struct as_replica_slot_facts *facts, as_ns now,
                  struct as_replica_slot **ret_place)
{
    struct as_replica_slot *slot;

    if (!facts_are_valid(facts))
        return AS_EINVALID;
    if (as_plan_find(p, facts->number))
        return AS_EEXISTS;
    if (p->n == AS_REPLICA_SLOTS_MAX)
        return AS_EFULL;
    slot = as_replica_slot_insert(p, facts->number);
    slot->facts = *facts;
    slot->facts.rank = slot->facts.rank_next = AS_RANK_NONE;
    if (!as_ranks_is_held(&p->ranks, facts->rank) && !as_ranks_is_held(&p->ranks, facts->rank_next))
        adopt_ranks(slot, facts);
    adopt_state(slot, now);
    *ret_place = slot;
    return 0;
}

static uint32_t count_live(const struct as_plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        n += !as_replica_slot_is_ending(p->slots[i]);
    return n;
}

void as_plan_run(struct as_plan *p, as_ns now)
{
    AS_ASSERT(p->target.generation);
    p->running = true;
    for (uint32_t i = 0; i < p->n; i++)
        as_replica_slot_resume(p->slots[i], now);
    if (count_live(p) < p->target.replicas && p->condition.status == AS_STATUS_HEALTHY)
        as_plan_set_condition(p, AS_CAUSE_REPLICA_FAILED,
                              AS_STR("replicas ended while there was no controller"), now);
    as_plan_tick(p, now);
}

/* --- time --- */

void as_plan_set_serving(struct as_plan *p, bool serving, as_ns now)
{
    if (p->serving == serving)
        return;
    p->serving = serving;
    for (uint32_t i = 0; i < p->n; i++)
        as_replica_slot_set_serving(p->slots[i], serving, now);
    as_rollout_run(p, now);
}

void as_plan_tick(struct as_plan *p, as_ns now)
{
    if (!p->running)
        return;
    for (uint32_t i = 0; i < p->n; i++)
        as_replica_slot_tick(p->slots[i], now);
    as_rollout_run(p, now);
}

as_ns as_plan_next_due(const struct as_plan *p)
{
    as_ns next = p->running ? p->recheck_at : AS_NEVER;

    for (uint32_t i = 0; p->running && i < p->n; i++) {
        next = AS_MIN(next, as_replica_slot_next_due(p->slots[i]));
        next = AS_MIN(next, as_rollout_next_due(p->slots[i]));
    }
    return next;
}

void as_replica_slot_set_load(struct as_replica_slot *slot, uint32_t n)
{
    slot->load = n;
}

uint32_t as_replica_slot_load(const struct as_replica_slot *slot)
{
    return slot->load;
}

uint32_t as_plan_revive(struct as_plan *p, as_ns now)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        if (p->slots[i]->state != AS_REPLICA_SLOT_DOWN)
            continue;
        as_replica_slot_revive(p->slots[i], now);
        n++;
    }
    as_plan_tick(p, now);
    return n;
}

void as_plan_restart(struct as_plan *p, as_ns now)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (as_replica_slot_has_process(p->slots[i]) && !as_replica_slot_is_ending(p->slots[i]))
            as_replica_slot_mark_stale(p->slots[i]);
    }
    p->settled = false;
    as_plan_set_condition(p, AS_CAUSE_UPDATE, AS_STR(""), now);
    as_rollout_run(p, now);
}

/* --- inspection --- */

const struct as_plan_target *as_plan_target(const struct as_plan *p)
{
    return p->target.generation ? &p->target : NULL;
}

const struct as_plan_target *as_plan_stable(const struct as_plan *p)
{
    return p->stable.generation ? &p->stable : NULL;
}

const struct as_plan_target *as_plan_previous(const struct as_plan *p)
{
    return p->previous.generation ? &p->previous : NULL;
}

const struct as_plan_target *as_plan_rollback_target(const struct as_plan *p)
{
    const struct as_plan_target *to = as_plan_stable(p);

    if (to && to->version == p->target.version && to->config == p->target.config)
        to = as_plan_previous(p);
    return to;
}

const struct as_condition *as_plan_condition(const struct as_plan *p)
{
    return &p->condition;
}

uint32_t as_plan_running(const struct as_plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        n += p->slots[i]->state == AS_REPLICA_SLOT_RUNNING;
    return n;
}

uint32_t as_plan_lacking(const struct as_plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        n += as_replica_slot_lack(p->slots[i]).n != 0;
    return n;
}

bool as_plan_is_settled(const struct as_plan *p)
{
    return p->settled;
}

bool as_plan_is_empty(const struct as_plan *p)
{
    return p->n == 0;
}

bool as_plan_uses(const struct as_plan *p, uint64_t generation)
{
    if (generation == p->target.generation || generation == p->stable.generation ||
        generation == p->previous.generation)
        return true;
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->slots[i]->facts.generation == generation)
            return true;
    }
    return false;
}

void as_plan_each(struct as_plan *p, void (*fn)(void *arg, struct as_replica_slot *slot), void *arg)
{
    for (uint32_t i = 0; i < p->n; i++)
        fn(arg, p->slots[i]);
}
