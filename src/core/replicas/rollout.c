/* The steps from the slots that are there to the target: which slots are added and retired, and how
 * they are configured. */
#include "core/replicas/plan_internal.h"

static bool has_generation(const struct as_plan_target *t)
{
    return t->generation != 0;
}

static bool same_version(const struct as_plan_target *a, const struct as_plan_target *b)
{
    return a->version == b->version && a->config == b->config;
}

/* An update is under way that could be rolled back. */
static bool is_updating(const struct as_plan *p)
{
    return has_generation(&p->stable) && !same_version(&p->stable, &p->target);
}

bool as_rollout_is_old(const struct as_replica_slot *slot)
{
    return slot->facts.version != slot->plan->target.version || slot->facts.stale;
}

static bool is_stable(const struct as_replica_slot *slot)
{
    return has_generation(&slot->plan->stable) && slot->facts.version == slot->plan->stable.version;
}

#define VALUE_LOST 4u /* a slot with less than this has no requests */

/* A replica of the stable version need not be RUNNING for min_ready first. */
static bool is_trusted(const struct as_replica_slot *slot)
{
    return is_stable(slot) || slot->facts.proved;
}

bool as_rollout_is_available(const struct as_replica_slot *slot)
{
    return slot->state == AS_REPLICA_SLOT_RUNNING && is_trusted(slot);
}

/* The slot with the lowest value is retired first when there are too many. A slot that was
 * available before counts more, although its link may not be known yet after a recovery. */
static uint32_t serving_value(const struct as_replica_slot *slot)
{
    static const uint8_t of[AS_REPLICA_SLOT_STATES] = {
        [AS_REPLICA_SLOT_DOWN] = 0,    [AS_REPLICA_SLOT_WAITING] = 1,
        [AS_REPLICA_SLOT_KILLED] = 2,  [AS_REPLICA_SLOT_STARTING] = 3,
        [AS_REPLICA_SLOT_LOST] = 4,    [AS_REPLICA_SLOT_UPDATING] = 5,
        [AS_REPLICA_SLOT_RUNNING] = 5,
    };

    return of[slot->state] + (of[slot->state] >= VALUE_LOST && is_trusted(slot) ? 2u : 0u);
}

as_ns as_rollout_next_due(const struct as_replica_slot *slot)
{
    if (slot->state != AS_REPLICA_SLOT_RUNNING || as_rollout_is_available(slot))
        return AS_NEVER;
    return slot->ready_at + slot->plan->target.policy.min_ready;
}

static void update_proven(struct as_plan *p, as_ns now)
{
    for (uint32_t i = 0; i < p->n; i++) {
        struct as_replica_slot *slot = p->slots[i];

        if (slot->state == AS_REPLICA_SLOT_RUNNING && !slot->facts.proved &&
            now >= slot->ready_at + p->target.policy.min_ready) {
            slot->facts.proved = true;
            p->ops.note(p->ctx, slot);
        }
        p->proven |= as_rollout_is_available(slot) && !as_rollout_is_old(slot);
    }
}

/* How many slots get another config at once. */
static uint32_t config_step(const struct as_plan *p)
{
    uint64_t n = (uint64_t)p->target.replicas * p->target.policy.roll_percent / 100;

    return AS_MAX(1u, (uint32_t)n);
}

static uint32_t resolve_amount(const struct as_plan *p, const struct as_plan_amount *a, bool up)
{
    uint64_t n = (uint64_t)p->target.replicas * a->n;

    return a->percent ? (uint32_t)((n + (up ? 99 : 0)) / 100) : a->n;
}

/* How many slots an update may have beyond N. */
static uint32_t surge_of(const struct as_plan *p)
{
    const struct as_plan_policy *policy = &p->target.policy;

    return policy->has_surge ? resolve_amount(p, &policy->surge, true) : config_step(p);
}

/* How many of N an update may leave unavailable. */
static uint32_t unavailable_of(const struct as_plan *p)
{
    uint32_t n = resolve_amount(p, &p->target.policy.unavailable, false);

    return n || surge_of(p) ? n : 1;
}

struct slot_counts {
    uint32_t live;   /* not ending */
    uint32_t early;  /* ending, and not to be replaced before they have ended … */
    uint32_t leaves; /* … except within the surge */
    uint32_t old, available;
    uint32_t not_available; /* new ones that are not available yet */
};

static struct slot_counts count_slots(const struct as_plan *p)
{
    struct slot_counts c = {0};

    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_replica_slot *slot = p->slots[i];
        bool is_old = as_rollout_is_old(slot), is_available = as_rollout_is_available(slot);

        c.early += slot->facts.early;
        c.leaves += slot->facts.leaves;
        if (as_replica_slot_is_ending(slot))
            continue;
        c.live++;
        c.old += is_old;
        c.available += is_available;
        c.not_available += !is_old && !is_available;
    }
    return c;
}

/* a is retired before b if it serves less, is old, or is not of the stable version; then if it has
 * fewer requests; or else if its rank is higher (so that the ranks of those that stay need not
 * change). */
bool as_rollout_retires_before(const struct as_replica_slot *a, const struct as_replica_slot *b)
{
    bool old_a = as_rollout_is_old(a), old_b = as_rollout_is_old(b);

    if (serving_value(a) != serving_value(b))
        return serving_value(a) < serving_value(b);
    if (old_a != old_b)
        return old_a;
    if (old_a && is_stable(a) != is_stable(b))
        return is_stable(b);
    if (a->load != b->load)
        return a->load < b->load;
    return a->facts.rank > b->facts.rank;
}

/* The slot to retire first, of all that do not end, of those that serve, or of the old ones among
 * them; NULL: none. */
static struct as_replica_slot *find_victim(const struct as_plan *p, bool only_old,
                                           bool only_serving)
{
    struct as_replica_slot *v = NULL;

    for (uint32_t i = 0; i < p->n; i++) {
        struct as_replica_slot *slot = p->slots[i];

        if (as_replica_slot_is_ending(slot) || (only_old && !as_rollout_is_old(slot)) ||
            (only_serving && slot->state != AS_REPLICA_SLOT_RUNNING))
            continue;
        if (!v || as_rollout_retires_before(slot, v))
            v = slot;
    }
    return v;
}

static bool serves_nobody(const struct as_replica_slot *slot)
{
    return !as_replica_slot_is_ending(slot) && serving_value(slot) < VALUE_LOST &&
           as_rollout_is_old(slot);
}

/* An old slot that does not serve may be retired if the new version was available once, or if no
 * rollback could use it. These are retired before slots that serve. */
static struct as_replica_slot *idle_victim(const struct as_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        struct as_replica_slot *slot = p->slots[i];

        if (serves_nobody(slot) && (p->proven || !is_stable(slot)))
            return slot;
    }
    return NULL;
}

/* An old slot that does not serve, while `unavailable` allows it to be missing. */
static struct as_replica_slot *missing_victim(const struct as_plan *p, uint32_t least)
{
    struct as_replica_slot *v = find_victim(p, true, false);
    struct slot_counts c = count_slots(p);

    return v && serves_nobody(v) && c.live - c.not_available > least ? v : NULL;
}

/* Is it one of the N, so that another slot must replace it? */
static bool will_be_missing(const struct as_replica_slot *slot)
{
    const struct as_plan *p = slot->plan;

    return !p->deleting && count_slots(p).live <= p->target.replicas;
}

void as_rollout_retire(struct as_replica_slot *slot, as_ns now)
{
    slot->facts.early = will_be_missing(slot);
    as_replica_slot_retire(slot, now);
}

void as_rollout_leave(struct as_replica_slot *slot, as_ns now)
{
    slot->facts.leaves = will_be_missing(slot);
    as_replica_slot_retire(slot, now);
}

static void retire_surplus(struct as_plan *p, as_ns now)
{
    uint32_t wanted = p->target.replicas, least = wanted - AS_MIN(wanted, unavailable_of(p));
    struct as_replica_slot *v;

    while ((v = idle_victim(p)))
        as_rollout_retire(v, now);
    while (count_slots(p).old > wanted)
        as_rollout_retire(find_victim(p, true, false), now);
    while (unavailable_of(p) && (v = missing_victim(p, least)))
        as_rollout_retire(v, now);
    while (count_slots(p).available > least && (v = find_victim(p, true, true)))
        as_rollout_retire(v, now);
    for (;;) {
        struct slot_counts c = count_slots(p);

        if (c.live <= wanted + (c.old ? surge_of(p) : 0))
            return;
        as_rollout_retire(find_victim(p, false, false), now);
    }
}

/* Slots up to N are added at once. Successors of slots that leave are added within the surge, and
 * slots of an update only as far as surge and unavailable allow. For both draining slots count. */
static bool may_grow(const struct as_plan *p, const struct slot_counts *c)
{
    uint32_t wanted = p->target.replicas, fresh = c->live - c->old;

    if (c->live + c->early + c->leaves < wanted)
        return true;
    if (p->n >= wanted + surge_of(p))
        return false;
    return c->live + c->early < wanted ||
           (c->old && fresh < wanted && c->not_available < surge_of(p) + unavailable_of(p));
}

static void add_slots(struct as_plan *p)
{
    for (;;) {
        struct slot_counts c = count_slots(p);

        if (!may_grow(p, &c) || !as_replica_slot_new(p))
            return;
    }
}

static void admit_starts(struct as_plan *p, as_ns now)
{
    as_start_limit_admit(p->starts, now);
    p->recheck_at = AS_NEVER;
}

static bool needs_configure(const struct as_replica_slot *slot)
{
    const struct as_replica_slot_facts *f = &slot->facts;
    const struct as_plan_target *t = &slot->plan->target;

    return f->config != t->config || f->world != t->replicas || f->unsure ||
           f->rank_next != f->rank;
}

/* A new config goes to a part of the slots at a time, because it may be wrong. */
static void configure_slots(struct as_plan *p, as_ns now)
{
    uint32_t room = config_step(p);

    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_replica_slot *slot = p->slots[i];

        if (slot->state == AS_REPLICA_SLOT_UPDATING &&
            slot->facts.config != slot->configure_facts.config)
            room -= room > 0;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        struct as_replica_slot *slot = p->slots[i];
        bool other = slot->facts.config != p->target.config;

        if (slot->state != AS_REPLICA_SLOT_RUNNING || as_rollout_is_old(slot) ||
            !needs_configure(slot))
            continue;
        if (other && room == 0)
            continue;
        room -= other;
        as_replica_slot_configure(slot, now);
    }
}

/* Everything except the ranks has reached the target. */
static bool is_complete(const struct as_plan *p)
{
    if (p->n != p->target.replicas)
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_replica_slot *slot = p->slots[i];

        if (!as_rollout_is_available(slot) || as_rollout_is_old(slot) || needs_configure(slot))
            return false;
    }
    return true;
}

/* As many ranks are too high as there are free ones below N: each of these moves once, no other
 * does. */
static void compact_ranks(struct as_plan *p, as_ns now)
{
    uint32_t wanted = p->target.replicas;

    for (uint32_t i = 0; i < p->n; i++) {
        struct as_replica_slot *slot = p->slots[i];

        if (slot->facts.rank < wanted)
            continue;
        slot->facts.rank_next = as_ranks_lowest_free(&p->ranks);
        AS_ASSERT(slot->facts.rank_next < wanted);
        as_ranks_reserve(&p->ranks, slot->facts.rank_next);
        as_replica_slot_configure(slot, now);
    }
}

/* A slot whose rank moves is not complete. */
static bool is_settled(const struct as_plan *p)
{
    return p->running && !p->deleting && is_complete(p);
}

/* A version that was never available is no stable one: with 0 replicas any target is settled. */
static bool update_stable(struct as_plan *p)
{
    bool other = p->stable.generation != p->target.generation;

    if (!p->proven)
        return false;
    if (is_updating(p))
        p->previous = p->stable;
    p->stable = p->target;
    return other;
}

static void update_settled(struct as_plan *p, as_ns now)
{
    p->settled = is_settled(p);
    if (!p->settled)
        return;
    if (update_stable(p))
        p->ops.settled(p->ctx, &p->stable);
    as_plan_set_condition(p, AS_CAUSE_SETTLED, AS_STR(""), now);
}

static bool all_given_up(const struct as_plan *p)
{
    uint32_t live = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        if (as_replica_slot_is_ending(p->slots[i]))
            continue;
        if (!p->slots[i]->given_up)
            return false;
        live++;
    }
    return live > 0;
}

static void report_down(struct as_plan *p)
{
    bool down = all_given_up(p);

    if (down == p->down)
        return;
    p->down = down;
    p->ops.down(p->ctx, down, as_condition_text(&p->condition));
}

/* Reports the resource that the first waiting slot lacks, and how many slots wait. */
static void report_lack(struct as_plan *p)
{
    char text[AS_CONDITION_LACK_MAX] = "";
    uint32_t n = as_plan_lacking(p), i = 0;
    int len = 0;

    while (n && !p->slots[i]->lack)
        i++;
    if (n == 1)
        len = snprintf(text, sizeof(text), "%s waits: %s",
                       as_id_name(as_str_of(p->slots[i]->name)).p, p->slots[i]->lack);
    else if (n)
        len = snprintf(text, sizeof(text), "%s and %u more wait: %s",
                       as_id_name(as_str_of(p->slots[i]->name)).p, n - 1, p->slots[i]->lack);
    if (as_condition_set_lack(&p->condition,
                              (struct as_str){text, AS_MIN((size_t)len, sizeof(text) - 1)}))
        p->ops.condition(p->ctx, &p->condition);
}

void as_rollout_run(struct as_plan *p, as_ns now)
{
    if (!p->running)
        return;
    update_proven(p, now);
    retire_surplus(p, now);
    if (!p->deleting)
        add_slots(p);
    do
        admit_starts(p, now);
    while (as_make_room(p, now));
    if (!p->deleting) {
        configure_slots(p, now);
        if (is_complete(p))
            compact_ranks(p, now);
    }
    update_settled(p, now);
    report_lack(p);
    report_down(p);
    AS_ASSERT(as_plan_ok(p));
}

static void roll_back_update(struct as_plan *p, struct as_str reason, as_ns now)
{
    uint64_t from = p->target.generation;

    as_plan_retarget(p, &p->stable);
    p->proven = true;
    as_plan_set_condition(p, AS_CAUSE_ROLLED_BACK, reason, now);
    p->ops.rolled_back(p->ctx, from, p->target.generation, reason);
}

/* Ends a restart: the slots that were to be replaced and serve stay. False: there is none of these.
 */
static bool end_restart(struct as_plan *p)
{
    bool found = false;

    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_replica_slot *slot = p->slots[i];

        found |= slot->facts.stale && !slot->refuses_configure && as_rollout_is_available(slot);
    }
    for (uint32_t i = 0; found && i < p->n; i++) {
        if (!as_replica_slot_is_ending(p->slots[i]))
            as_replica_slot_clear_stale(p->slots[i]);
    }
    return found;
}

bool as_rollout_on_failure(struct as_replica_slot *slot, uint32_t failures, struct as_str reason,
                           as_ns now)
{
    struct as_plan *p = slot->plan;

    if (as_replica_slot_is_ending(slot) || as_rollout_is_old(slot) ||
        failures < p->target.policy.roll_failures)
        return false;
    if (is_updating(p) && p->target.policy.roll_back) {
        roll_back_update(p, reason, now);
        return true;
    }
    if (p->target.policy.roll_back && end_restart(p)) {
        as_plan_set_condition(p, AS_CAUSE_ROLLED_BACK, reason, now);
        return true;
    }
    as_plan_set_condition(p, AS_CAUSE_STARTUP_FAILED, reason, now);
    return false;
}
