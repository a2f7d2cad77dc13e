#include "core/dispatch/router.h"

#include "core/dispatch/deployment_internal.h"

/* a has fewer unanswered requests than b, or as many and was used less recently. */
static bool is_better(const struct as_replica *a, const struct as_replica *b)
{
    if (a->unanswered != b->unanswered)
        return a->unanswered < b->unanswered;
    return a->used_at != b->used_at ? a->used_at < b->used_at : a->index < b->index;
}

static struct as_replica *least_ongoing(struct as_replica *const *free, uint32_t n,
                                        const struct as_request *q, struct as_rand *rand AS_UNUSED)
{
    struct as_replica *best = NULL;

    for (uint32_t i = 0; i < n; i++) {
        if (as_replica_can_execute(free[i], q) && (!best || is_better(free[i], best)))
            best = free[i];
    }
    return best;
}

static struct as_replica *pow2(struct as_replica *const *free, uint32_t n,
                               const struct as_request *q, struct as_rand *rand)
{
    uint32_t i, j;

    if (n <= 2)
        return least_ongoing(free, n, q, rand);
    i = (uint32_t)as_rand_below(rand, n);
    j = (uint32_t)as_rand_below(rand, n - 1);
    j += j >= i;
    if (as_replica_can_execute(free[i], q) && as_replica_can_execute(free[j], q))
        return is_better(free[i], free[j]) ? free[i] : free[j];
    return least_ongoing(free, n, q, rand);
}

static const struct as_router_ops routers[] = {
    [AS_ROUTER_LEAST_ONGOING] = {"least_ongoing", least_ongoing},
    [AS_ROUTER_POW2] = {"pow2", pow2},
};

const struct as_router_ops *as_router_ops(enum as_router r)
{
    AS_ASSERT((size_t)r < AS_COUNT(routers));
    return &routers[r];
}

int as_router_of(const char *name)
{
    for (size_t i = 0; i < AS_COUNT(routers); i++) {
        if (as_str_eq(as_str_of(routers[i].name), as_str_of(name)))
            return (int)i;
    }
    return -1;
}
