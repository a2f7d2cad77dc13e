#include "core/autoscale/capacity.h"

uint32_t as_capacity_replicas(const struct as_capacity *p, uint32_t n)
{
    uint64_t scaled;

    if (p->share == AS_CAPACITY_UNSET || p->share == AS_CAPACITY_ALL)
        return n;
    if (!n || !p->share)
        return 0;
    scaled = ((uint64_t)n * (uint64_t)p->share + AS_CAPACITY_ALL / 2) / AS_CAPACITY_ALL;
    return (uint32_t)AS_MAX(scaled, (uint64_t)1);
}

void as_capacity_apply(const struct as_capacity *p, struct as_autoscale_config *c)
{
    if (p->direction == AS_CAPACITY_UP && c->initial_replicas >= 0)
        c->min_replicas = c->initial_replicas;
    c->min_replicas = as_capacity_replicas(p, (uint32_t)c->min_replicas);
    c->max_replicas = as_capacity_replicas(p, (uint32_t)c->max_replicas);
    if (c->initial_replicas >= 0)
        c->initial_replicas = as_capacity_replicas(p, (uint32_t)c->initial_replicas);
    for (uint32_t i = 0; i < c->schedule.n; i++) {
        uint32_t *least = &c->schedule.entry[i].min_replicas;

        *least = as_capacity_replicas(p, *least);
    }
}

enum as_capacity_direction as_capacity_next(const struct as_capacity *was, int32_t share)
{
    if (share == AS_CAPACITY_UNSET)
        return AS_CAPACITY_STEADY;
    if (!was)
        return AS_CAPACITY_UP;
    if (was->share == share)
        return was->direction;
    return was->share != AS_CAPACITY_UNSET && was->share < share ? AS_CAPACITY_UP
                                                                 : AS_CAPACITY_DOWN;
}
