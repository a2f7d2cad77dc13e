/* The devices that processes need. There may be more or fewer than enough. */
#include "plan.h"

uint32_t need_of(const struct sim *s, uint64_t version)
{
    return s->scenario.devices ? s->needs[version % VERSIONS] : 0;
}

/* The last process of a slot. */
static struct proc *last_of(struct sim *s, const struct as_replica_slot *slot)
{
    return as_replica_slot_facts(slot)->starts ? process_of(s, slot) : NULL;
}

void reserve_devices(struct sim *s, const struct as_replica_slot *slot)
{
    struct proc *p = last_of(s, slot);

    if (p) {
        s->kept[deployment_of_slot(s, slot)] += p->has;
        p->has = 0;
    }
}

/* A process gets the devices that its slot has already, then free ones, then reserved ones. */
void take_devices(struct sim *s, const struct as_replica_slot *slot, struct proc *p)
{
    uint32_t need = need_of(s, p->kept.version), *kept = &s->kept[deployment_of_slot(s, slot)];
    bool had = as_replica_slot_facts(slot)->starts > 1 && process_of(s, slot)->has;

    p->has = need;
    if (had) {
        process_of(s, slot)->has = 0;
        return;
    }
    s->taken += need;
    while (s->taken > s->scenario.devices && *kept) {
        s->taken--;
        --*kept;
    }
    if (p->has && s->taken > s->scenario.devices)
        fail(s, "%.*s takes a device that is not free", AS_STR_FMT(as_replica_slot_name(slot)));
}

bool op_release(void *ctx)
{
    struct sim *s = sim_of(ctx);
    uint32_t *kept = &s->kept[((struct side *)ctx)->deploy], n = *kept;

    s->taken -= n;
    *kept = 0;
    return n != 0;
}

struct as_str op_lacks(void *ctx, const struct as_replica_slot *slot,
                       const struct as_plan_headroom *room)
{
    struct sim *s = sim_of(ctx);
    uint32_t need = need_of(s, as_replica_slot_facts(slot)->version);
    int64_t there =
        (int64_t)s->scenario.devices - s->taken; /* less than 0 after an impossible past */

    if (need == 0 || (last_of(s, slot) && last_of(s, slot)->has))
        return AS_STR("");
    there += room->kept ? s->kept[deployment_of_slot(s, slot)] : 0;
    for (uint32_t i = 0; i < room->n; i++)
        there += last_of(s, room->ended[i]) ? last_of(s, room->ended[i])->has : 0;
    return need > there ? AS_STR("no device is free") : AS_STR("");
}

static uint32_t more(const struct sim *s, uint32_t n, const struct as_plan_target *t)
{
    return t && t->generation ? AS_MAX(n, t->replicas * need_of(s, t->version)) : n;
}

uint32_t demand_of(const struct sim *s, uint32_t deploy)
{
    const struct store *st = &s->stores[deploy];
    const struct as_plan *p = s->plans[deploy];
    uint32_t n = 0;

    if (!st->exists)
        return 0;
    n = more(s, more(s, more(s, n, &st->target), &st->stable), &st->previous);
    if (p)
        n = more(s, more(s, more(s, n, as_plan_target(p)), as_plan_stable(p)), as_plan_previous(p));
    return n;
}

uint32_t affordable(const struct sim *s, uint32_t deploy, uint32_t need, uint32_t replicas)
{
    uint32_t others = 0;

    for (uint32_t i = 0; i < s->scenario.deploys; i++)
        others += i == deploy ? 0 : demand_of(s, i);
    return need ? AS_MIN(replicas,
                         (s->scenario.devices - AS_MIN(others, s->scenario.devices)) / need)
                : replicas;
}
