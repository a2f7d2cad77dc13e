/* What must be true of the processes themselves, whatever core believes. */
#include "plan.h"

static bool serves(const struct proc *p)
{
    return p->alive && p->linked && !p->retired && !p->signalled && !p->leaves;
}

/* While the target changes at least the smaller number of replicas must serve, and at most the
 * larger one (and the surge) may run. */
void note_target(struct sim *s, uint32_t deploy)
{
    const struct as_plan_target *t = s->plans[deploy] ? as_plan_target(s->plans[deploy]) : NULL;

    s->untouched = false;
    if (!t)
        return;
    s->floor[deploy] = AS_MIN(s->floor[deploy], t->replicas);
    s->ceiling[deploy] = AS_MAX(s->ceiling[deploy], t->replicas);
    s->need[deploy] = AS_MAX(s->need[deploy], need_of(s, t->version));
}

void note_settled(struct sim *s, uint32_t deploy)
{
    uint32_t n = as_plan_target(s->plans[deploy])->replicas;

    if (!s->floor_holds[deploy] || s->floor[deploy] != n)
        s->tally.settled++;
    s->floor[deploy] = s->ceiling[deploy] = n;
    s->need[deploy] = need_of(s, as_plan_target(s->plans[deploy])->version);
    s->floor_holds[deploy] = true;
}

static bool at_rest(const struct sim *s, uint32_t d)
{
    if (!s->plans[d])
        return s->faults_ended;
    return s->stores[d].deleted ? as_plan_is_empty(s->plans[d]) : as_plan_is_settled(s->plans[d]);
}

/* When the target is reached, a death of the controller must change nothing. */
static void check_rest(struct sim *s)
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < s->scenario.deploys; d++)
        n += at_rest(s, d);
    if (n < s->scenario.deploys)
        s->last_unsettled = s->now;
    else if (s->scenario.untouched && !s->faults_ended)
        s->untouched = true;
}

/* A rank may change only when everything else has reached the target, and only from a rank >= N to
 * a free one. A move that has begun goes on, even if the target changes. */
void note_move(struct sim *s, uint32_t deploy, const struct as_replica_slot *slot)
{
    const struct as_replica_slot_facts *f = as_replica_slot_facts(slot);
    uint32_t n = as_plan_target(s->plans[deploy])->replicas;
    struct proc *p = &s->procs[(uintptr_t)as_replica_slot_user(slot)];

    if (f->rank_next == f->rank || f->rank_next == p->promised || p->injected)
        return;
    p->promised = f->rank_next;
    s->tally.moves++;
    if (f->rank < n || f->rank_next >= n)
        fail(s, "d%u-%u moves from rank %u to %u of %u", deploy, f->number, f->rank, f->rank_next,
             n);
}

/* A rank must be in the note before the process is told, so that the next controller knows it. */
void note_configure(struct sim *s, const struct as_replica_slot *slot,
                    const struct as_replica_slot_facts *to)
{
    const struct as_replica_slot_facts *f = as_replica_slot_facts(slot);

    if (to->rank != f->rank_next)
        fail(s, "%.*s is sent rank %u", AS_STR_FMT(as_replica_slot_name(slot)), to->rank);
}

/* The process that replaces a dead one must have its rank, or the one to which it was to move. */
void note_restart(struct sim *s, const struct as_replica_slot *slot)
{
    const struct as_replica_slot_facts *f = as_replica_slot_facts(slot);
    const struct as_replica_slot_facts *kept =
        &s->procs[(uintptr_t)as_replica_slot_user(slot)].kept;

    if (f->starts < 2)
        return; /* a new slot: there was no process before */
    if (f->rank != kept->rank && f->rank != kept->rank_next)
        fail(s, "%.*s had rank %u, and starts with rank %u", AS_STR_FMT(as_replica_slot_name(slot)),
             kept->rank, f->rank);
    if (f->version != kept->version)
        fail(s, "%.*s was of another version", AS_STR_FMT(as_replica_slot_name(slot)));
}

void note_successor(struct sim *s, const struct proc *p)
{
    for (uint32_t i = 0; i < s->n_alive; i++) {
        const struct proc *other = &s->procs[s->alive[i]];

        s->tally.succeeded +=
            other->leaves && other->deploy == p->deploy && other->token < p->token;
    }
}

static void check_pair(struct sim *s, const struct proc *a, const struct proc *b)
{
    if (a->facts.rank == b->facts.rank)
        fail(s, "processes %u and %u of d%u both have rank %u", a->token, b->token, a->deploy,
             a->facts.rank);
    if (a->facts.number == b->facts.number)
        fail(s, "processes %u and %u both are d%u-%u", a->token, b->token, a->deploy,
             a->facts.number);
}

static uint32_t amount(const struct as_plan_amount *a, uint32_t n, bool up)
{
    return a->percent ? (n * a->n + (up ? 99 : 0)) / 100 : a->n;
}

/* The number of serving replicas and of processes must stay within the limits of the policy. */
static void check_update(struct sim *s, uint32_t d, uint32_t serving, uint32_t processes)
{
    const struct as_plan_policy *p = &s->scenario.policy;
    uint32_t n = s->floor[d], surge = AS_MAX(n * p->roll_percent / 100, 1u);
    uint32_t less = amount(&p->unavailable, n, false);

    if (!s->floor_holds[d])
        return;
    if (p->has_surge)
        surge = amount(&p->surge, n, true);
    if (surge == 0)
        less = AS_MAX(less, 1u);
    less = AS_MAX(less,
                  s->need[d]); /* an update that cannot surge: this many old ones must end first */
    if (serving + less < n && !s->scenario.leaving)
        fail(s, "only %u replicas of d%u serve, of %u less %u", serving, d, n, less);
    if (s->ceiling[d] == n && processes > n + surge)
        fail(s, "%u processes of d%u, not %u and %u more", processes, d, n, surge);
}

static void check_processes(struct sim *s)
{
    uint32_t starting = 0, serving[DEPLOYS] = {0}, processes[DEPLOYS] = {0}, devices = 0;

    for (uint32_t i = 0; i < s->n_alive; i++) {
        const struct proc *p = &s->procs[s->alive[i]];

        if (p->injected)
            continue;
        starting += !p->ready && !p->signalled;
        devices += need_of(s, p->facts.version);
        processes[p->deploy]++;
        serving[p->deploy] += serves(p);
        for (uint32_t k = 0; k < i; k++) {
            const struct proc *o = &s->procs[s->alive[k]];

            if (o->deploy == p->deploy && !o->injected)
                check_pair(s, o, p);
        }
    }
    if (starting > s->scenario.max_starting)
        fail(s, "%u processes start at once, of at most %u", starting, s->scenario.max_starting);
    if (s->scenario.devices && devices > s->scenario.devices)
        fail(s, "processes have %u devices of %u", devices, s->scenario.devices);
    for (uint32_t d = 0; s->scenario.orderly && d < s->scenario.deploys; d++)
        check_update(s, d, serving[d], processes[d]);
}

/* What core is sure of must be true, and be stored for the next controller. */
static void check_place(void *arg, struct as_replica_slot *slot)
{
    struct sim *s = arg;
    const struct proc *p = &s->procs[(uintptr_t)as_replica_slot_user(slot)];
    const struct as_replica_slot_facts *f = as_replica_slot_facts(slot);

    if (as_replica_slot_state(slot) != AS_REPLICA_SLOT_RUNNING || f->unsure || !p->alive ||
        p->injected)
        return;
    if (f->proved != p->kept.proved || f->stale != p->kept.stale)
        fail(s, "the note of %.*s is old", AS_STR_FMT(as_replica_slot_name(slot)));
    if (p->facts.rank != f->rank || p->facts.config != f->config || p->facts.world != f->world ||
        p->facts.version != f->version)
        fail(s, "process %u is not what %.*s is believed to be", p->token,
             AS_STR_FMT(as_replica_slot_name(slot)));
}

void check(struct sim *s)
{
    for (uint32_t i = 0; i < DEPLOYS; i++) {
        if (s->plans[i] && !as_plan_ok(s->plans[i]))
            fail(s, "d%u: an invariant of core does not hold", i);
        if (s->plans[i])
            as_plan_each(s->plans[i], check_place, s);
    }
    check_processes(s);
    check_rest(s);
}

/* Every replica must be as the target says, and there must be no others. */
static void check_deploy(struct sim *s, uint32_t d)
{
    const struct as_plan_target *t = as_plan_target(s->plans[d]);
    uint32_t n = 0;

    if (!as_plan_is_settled(s->plans[d])) {
        fail(s, "d%u has not reached its target", d);
        return;
    }
    for (uint32_t i = 0; i < s->n_alive; i++) {
        const struct proc *p = &s->procs[s->alive[i]];

        if (p->deploy != d)
            continue;
        n++;
        if (!serves(p))
            fail(s, "process %u of d%u does not serve", p->token, d);
        if (p->facts.version != t->version || p->facts.config != t->config ||
            p->facts.rank >= t->replicas || p->facts.world != t->replicas)
            fail(s, "process %u of d%u is not as the target says", p->token, d);
    }
    for (uint32_t i = 0; i < s->n_alive; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (s->procs[s->alive[i]].deploy == d && s->procs[s->alive[k]].deploy == d)
                check_pair(s, &s->procs[s->alive[k]], &s->procs[s->alive[i]]);
        }
    }
    if (n != t->replicas)
        fail(s, "%u processes of d%u, not %u", n, d, t->replicas);
}

void check_end(struct sim *s)
{
    s->tally.slowest =
        s->last_unsettled > s->faults_end_at ? s->last_unsettled - s->faults_end_at : 0;
    for (uint32_t d = 0; d < s->scenario.deploys; d++) {
        if (!s->plans[d])
            continue;
        if (s->stores[d].deleted) {
            if (!as_plan_is_empty(s->plans[d]))
                fail(s, "d%u was deleted and is still there", d);
        } else {
            check_deploy(s, d);
        }
    }
}
