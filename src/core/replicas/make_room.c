/* Old replicas that end so that a new one finds what it lacks: an update that cannot surge. */
#include "core/replicas/replica_slot.h"

static bool lacks(const struct as_place *pl)
{
    return as_place_lack(pl).n != 0;
}

/* Nothing of it is on its way, so that those which serve are those which will: a new one that does
 * not lacks what is not free, an old one is dead. */
static bool rests(const struct as_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_place *pl = p->places[i];
        bool dead = pl->state == AS_PLACE_WAITING || pl->state == AS_PLACE_DOWN;

        if (!as_place_ends(pl) && !as_rollout_available(pl) &&
            !(as_rollout_old(pl) ? dead : lacks(pl)))
            return false;
    }
    return true;
}

static struct as_place *waiting(const struct as_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (lacks(p->places[i]) && !as_rollout_old(p->places[i]))
            return p->places[i];
    }
    return NULL;
}

/* Whose end is thought of: first those that end already, then old ones, as they would go. */
struct row {
    struct as_place **all;
    uint32_t n, n_ending;
};

static int by_order(const void *x, const void *y)
{
    return as_rollout_before(*(struct as_place *const *)x, *(struct as_place *const *)y) ? -1 : 1;
}

static struct row row_of(const struct as_plan *p)
{
    struct row r = {.all = as_xalloc((p->n + 1) * sizeof(struct as_place *))};

    for (uint32_t i = 0; i < p->n; i++) {
        if (as_place_ends(p->places[i]))
            r.all[r.n++] = p->places[i];
    }
    r.n_ending = r.n;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!as_place_ends(p->places[i]) && as_rollout_old(p->places[i]))
            r.all[r.n++] = p->places[i];
    }
    if (r.n > r.n_ending)
        qsort(&r.all[r.n_ending], r.n - r.n_ending, sizeof(struct as_place *), by_order);
    return r;
}

static bool is_enough(const struct as_place *pl, const struct row *r, uint32_t n)
{
    const struct as_plan_room room = {.kept = true, .ended = r->all, .n = n};

    return pl->plan->ops.lacks(pl->plan->ctx, pl, &room).n == 0;
}

/* The shortest beginning of the row that is enough, when the whole row is. */
static void cut(const struct as_place *pl, struct row *r)
{
    uint32_t too_few = r->n_ending, enough = r->n;

    while (too_few + 1 < enough) {
        uint32_t middle = too_few + (enough - too_few) / 2;

        if (is_enough(pl, r, middle))
            enough = middle;
        else
            too_few = middle;
    }
    r->n = enough;
}

/* Those go out of the row without which it is enough, too: of the last one that is known. */
static void thin(const struct as_place *pl, struct row *r)
{
    for (uint32_t i = r->n_ending; i + 1 < r->n;) {
        struct as_place *one = r->all[i];

        memmove(&r->all[i], &r->all[i + 1], (r->n - i - 1) * sizeof(struct as_place *));
        r->all[r->n - 1] = one;
        if (is_enough(pl, r, r->n - 1)) {
            r->n--;
            continue;
        }
        memmove(&r->all[i + 1], &r->all[i], (r->n - i - 1) * sizeof(struct as_place *));
        r->all[i++] = one;
    }
}

static bool retire(const struct row *r, as_ns now)
{
    bool at_once = false;

    for (uint32_t i = r->n_ending; i < r->n; i++) {
        at_once |= !as_place_runs(r->all[i]);
        as_rollout_retire(r->all[i], now);
    }
    return at_once;
}

/* What its own plan gives up is kept for the one that waits, as long as that can be enough: else
 * another deployment takes it, and those that have ended have ended for nothing. */
bool as_room_make(struct as_plan *p, as_ns now)
{
    struct as_place *pl = waiting(p);
    bool more = false;
    struct row r;

    if (!pl)
        return p->ops.release(p->ctx);
    r = row_of(p);
    if (!is_enough(pl, &r, r.n)) {
        more = p->ops.release(p->ctx);
    } else if (rests(p) && !is_enough(pl, &r, r.n_ending)) {
        cut(pl, &r);
        thin(pl, &r);
        more = retire(&r, now);
    }
    free(r.all);
    return more;
}
