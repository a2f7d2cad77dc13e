/* An update that cannot surge: retires old replicas so that a new one finds the resources it lacks.
 */
#include "core/replicas/plan_internal.h"

static bool lacks_something(const struct as_replica_slot *slot)
{
    return as_replica_slot_lack(slot).n != 0;
}

/* Is nothing of the plan in transition? That is: every slot is available, or is a new one that
 * lacks a resource, or an old one without a process. */
static bool is_at_rest(const struct as_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_replica_slot *slot = p->slots[i];
        bool dead = slot->state == AS_REPLICA_SLOT_WAITING || slot->state == AS_REPLICA_SLOT_DOWN;

        if (!as_replica_slot_is_ending(slot) && !as_rollout_is_available(slot) &&
            !(as_rollout_is_old(slot) ? dead : lacks_something(slot)))
            return false;
    }
    return true;
}

static struct as_replica_slot *first_waiting(const struct as_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (lacks_something(p->slots[i]) && !as_rollout_is_old(p->slots[i]))
            return p->slots[i];
    }
    return NULL;
}

/* Slots whose resources are considered: first those that are ending already, then old ones in the
 * order in which they would be retired. */
struct candidates {
    struct as_replica_slot **all;
    uint32_t n, n_ending;
};

static int by_order(const void *x, const void *y)
{
    return as_rollout_retires_before(*(struct as_replica_slot *const *)x,
                                     *(struct as_replica_slot *const *)y)
               ? -1
               : 1;
}

static struct candidates candidates_of(const struct as_plan *p)
{
    struct candidates r = {.all = as_xalloc((p->n + 1) * sizeof(struct as_replica_slot *))};

    for (uint32_t i = 0; i < p->n; i++) {
        if (as_replica_slot_is_ending(p->slots[i]))
            r.all[r.n++] = p->slots[i];
    }
    r.n_ending = r.n;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!as_replica_slot_is_ending(p->slots[i]) && as_rollout_is_old(p->slots[i]))
            r.all[r.n++] = p->slots[i];
    }
    if (r.n > r.n_ending)
        qsort(&r.all[r.n_ending], r.n - r.n_ending, sizeof(struct as_replica_slot *), by_order);
    return r;
}

static bool is_enough(const struct as_replica_slot *slot, const struct candidates *r, uint32_t n)
{
    const struct as_plan_headroom room = {.kept = true, .ended = r->all, .n = n};

    return slot->plan->ops.lacks(slot->plan->ctx, slot, &room).n == 0;
}

/* Shortens the candidates to the fewest from the front that are enough. All of them must be enough.
 */
static void shorten_list(const struct as_replica_slot *slot, struct candidates *r)
{
    uint32_t too_few = r->n_ending, enough = r->n;

    while (too_few + 1 < enough) {
        uint32_t middle = too_few + (enough - too_few) / 2;

        if (is_enough(slot, r, middle))
            enough = middle;
        else
            too_few = middle;
    }
    r->n = enough;
}

/* Removes candidates that are not needed. The last one is, as shorten_list has found. */
static void drop_unneeded(const struct as_replica_slot *slot, struct candidates *r)
{
    for (uint32_t i = r->n_ending; i + 1 < r->n;) {
        struct as_replica_slot *one = r->all[i];

        memmove(&r->all[i], &r->all[i + 1], (r->n - i - 1) * sizeof(struct as_replica_slot *));
        r->all[r->n - 1] = one;
        if (is_enough(slot, r, r->n - 1)) {
            r->n--;
            continue;
        }
        memmove(&r->all[i + 1], &r->all[i], (r->n - i - 1) * sizeof(struct as_replica_slot *));
        r->all[i++] = one;
    }
}

static bool retire_candidates(const struct candidates *r, as_ns now)
{
    bool at_once = false;

    for (uint32_t i = r->n_ending; i < r->n; i++) {
        at_once |= !as_replica_slot_has_process(r->all[i]);
        as_rollout_retire(r->all[i], now);
    }
    return at_once;
}

/* The resources of retired slots stay reserved for the slot that waits, as long as they can be
 * enough for it. Otherwise another deployment could take them, and the slots would have been
 * retired for nothing. */
bool as_make_room(struct as_plan *p, as_ns now)
{
    struct as_replica_slot *slot = first_waiting(p);
    bool more = false;
    struct candidates r;

    if (!slot)
        return p->ops.release(p->ctx);
    r = candidates_of(p);
    if (!is_enough(slot, &r, r.n)) {
        more = p->ops.release(p->ctx);
    } else if (is_at_rest(p) && !is_enough(slot, &r, r.n_ending)) {
        shorten_list(slot, &r);
        drop_unneeded(slot, &r);
        more = retire_candidates(&r, now);
    }
    free(r.all);
    return more;
}
