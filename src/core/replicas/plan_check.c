/* Checks the invariants of a plan that plan.h states; for asserts, tests and the simulator. */
#include "core/replicas/plan_internal.h"

static bool slot_ok(const struct as_plan *p, uint32_t i)
{
    const struct as_replica_slot *slot = p->slots[i];
    const struct as_replica_slot_facts *f = &slot->facts;
    bool nowhere = f->rank == AS_RANK_NONE;

    if (slot->plan != p || (i && p->slots[i - 1]->facts.number >= f->number))
        return false;
    /* only a slot that is ending may have no rank */
    if (nowhere && (f->rank_next != AS_RANK_NONE || slot->state != AS_REPLICA_SLOT_STOPPING))
        return false;
    if (!nowhere &&
        (!as_ranks_is_held(&p->ranks, f->rank) || !as_ranks_is_held(&p->ranks, f->rank_next)))
        return false;
    if (slot->start.counted != (slot->state == AS_REPLICA_SLOT_STARTING) &&
        slot->state != AS_REPLICA_SLOT_DRAINING)
        return false;
    if (as_start_request_is_queued(&slot->start) &&
        (slot->state != AS_REPLICA_SLOT_WAITING || slot->due != AS_NEVER))
        return false;
    if (slot->state == AS_REPLICA_SLOT_WAITING && !as_start_request_is_queued(&slot->start) &&
        slot->due == AS_NEVER)
        return false;
    if (slot->state == AS_REPLICA_SLOT_UPDATING && !f->unsure)
        return false;
    if (slot->lack && !as_start_request_is_queued(&slot->start))
        return false;
    if ((f->early || f->leaves) && !f->retiring)
        return false;
    return as_replica_slot_is_ending(slot) == f->retiring || nowhere ||
           slot->state == AS_REPLICA_SLOT_STOPPING;
}

/* The number of held ranks is that of the slots: no rank is held twice, and none is leaked. */
static bool ranks_ok(const struct as_plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_replica_slot_facts *f = &p->slots[i]->facts;

        n += (f->rank != AS_RANK_NONE) + 0u + (f->rank_next != f->rank);
    }
    return n == p->ranks.n;
}

/* Settled means: one process of the right version for each of the ranks 0 … N-1. */
static bool settled_ok(const struct as_plan *p)
{
    if (p->n != p->target.replicas || p->deleting)
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_replica_slot *slot = p->slots[i];

        if (slot->state != AS_REPLICA_SLOT_RUNNING || slot->facts.rank >= p->n ||
            as_rollout_is_old(slot) || slot->facts.rank_next != slot->facts.rank ||
            slot->facts.config != p->target.config || slot->facts.world != p->n)
            return false;
    }
    return true;
}

bool as_plan_ok(const struct as_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (!slot_ok(p, i))
            return false;
    }
    return ranks_ok(p) && (!p->settled || settled_ok(p));
}
