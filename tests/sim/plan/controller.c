/* The controller around core/replicas/plan: it carries out ops by messages, distinguishes the
 * processes of a slot by tokens, has a store, and may die between any two calls of ops. */
#include "plan.h"

#include <inttypes.h>

struct sim *sim_of(void *ctx)
{
    return ((struct side *)ctx)->s;
}

static uint32_t deployment_of(const struct sim *s, const struct as_plan *p)
{
    for (uint32_t i = 0; i < DEPLOYS; i++) {
        if (s->plans[i] == p)
            return i;
    }
    return 0;
}

uint32_t deployment_of_slot(const struct sim *s, const struct as_replica_slot *slot)
{
    return deployment_of(s, as_replica_slot_plan(slot));
}

struct proc *process_of(struct sim *s, const struct as_replica_slot *slot)
{
    return &s->procs[(uintptr_t)as_replica_slot_user(slot)];
}

struct seek {
    uint32_t token;
    struct as_replica_slot *found;
};

static void match(void *arg, struct as_replica_slot *slot)
{
    struct seek *k = arg;

    if (as_replica_slot_has_process(slot) && (uintptr_t)as_replica_slot_user(slot) == k->token)
        k->found = slot;
}

static struct as_replica_slot *slot_of(struct sim *s, uint32_t deploy, uint32_t token)
{
    struct seek k = {.token = token};

    if (s->plans[deploy])
        as_plan_each(s->plans[deploy], match, &k);
    return k.found;
}

/* False: the controller has died, and the op must have no effect. */
static bool lives(struct sim *s)
{
    if (s->ops_left == 0)
        return false;
    if (s->ops_left != UINT32_MAX)
        s->ops_left--;
    return true;
}

static bool acts(struct sim *s, struct as_replica_slot *slot, const char *what)
{
    if (!lives(s))
        return false;
    trace(s, "%s %.*s", what, AS_STR_FMT(as_replica_slot_name(slot)));
    s->last_ops++;
    if (s->untouched)
        fail(s, "%s %.*s, although the target was reached", what,
             AS_STR_FMT(as_replica_slot_name(slot)));
    return true;
}

/* The next controller must know the facts of a process before anything is done with it. */
static void check_note(struct sim *s, struct as_replica_slot *slot)
{
    const struct as_replica_slot_facts *f = as_replica_slot_facts(slot),
                                       *kept = &process_of(s, slot)->kept;

    if (f->rank == AS_RANK_NONE || process_of(s, slot)->injected)
        return;
    if (f->rank != kept->rank || f->rank_next != kept->rank_next || f->version != kept->version ||
        f->config != kept->config || f->unsure != kept->unsure || f->stale != kept->stale ||
        f->retiring != kept->retiring || f->ready != kept->ready || f->proved != kept->proved)
        fail(s, "the note of %.*s is old", AS_STR_FMT(as_replica_slot_name(slot)));
}

static struct event to(struct sim *s, enum event_type type, struct as_replica_slot *slot)
{
    return (struct event){.type = type,
                          .token = process_of(s, slot)->token,
                          .deploy = deployment_of_slot(s, slot),
                          .facts = *as_replica_slot_facts(slot)};
}

static void op_start(void *ctx, struct as_replica_slot *slot)
{
    struct sim *s = sim_of(ctx);
    struct proc *p;

    if (!acts(s, slot, "start"))
        return;
    note_restart(s, slot);
    p = process_new(s);
    if (!p) {
        fail(s, "more than %u processes", PROCS_MAX);
        return;
    }
    p->kept = *as_replica_slot_facts(slot);
    take_devices(s, slot, p);
    as_replica_slot_set_user(slot, (void *)(uintptr_t)p->token);
    send_supervisor(s, to(s, E_SPAWN, slot));
}

static void op_note(void *ctx, struct as_replica_slot *slot)
{
    struct sim *s = sim_of(ctx);

    note_move(s, deployment_of_slot(s, slot), slot);
    process_of(s, slot)->kept = *as_replica_slot_facts(slot);
    if (lives(s))
        send_supervisor(s, to(s, E_NOTE, slot));
}

static void op_configure(void *ctx, struct as_replica_slot *slot, uint64_t ask,
                         const struct as_replica_slot_facts *facts)
{
    struct sim *s = sim_of(ctx);
    struct event e;

    if (!acts(s, slot, "configure"))
        return;
    check_note(s, slot);
    note_configure(s, slot, facts);
    e = to(s, E_ASK, slot);
    e.ask = ask;
    e.facts = *facts;
    send_supervisor(s, e);
}

static void op_retire(void *ctx, struct as_replica_slot *slot)
{
    struct sim *s = sim_of(ctx);

    if (!acts(s, slot, "retire"))
        return;
    check_note(s, slot);
    send_supervisor(s, to(s, E_RETIRE, slot));
}

static void op_stop(void *ctx, struct as_replica_slot *slot, as_ns timeout)
{
    struct sim *s = sim_of(ctx);
    struct event e;

    if (!acts(s, slot, "stop"))
        return;
    check_note(s, slot);
    e = to(s, E_STOP, slot);
    e.timeout = timeout;
    send_supervisor(s, e);
}

static void op_kill(void *ctx, struct as_replica_slot *slot, struct as_str why AS_UNUSED)
{
    struct sim *s = sim_of(ctx);

    if (acts(s, slot, "kill"))
        send_supervisor(s, to(s, E_KILL, slot));
}

static void op_moved(void *ctx, struct as_replica_slot *slot, enum as_replica_slot_state from)
{
    struct sim *s = sim_of(ctx);

    s->tally.given_up += as_replica_slot_state(slot) == AS_REPLICA_SLOT_DOWN;
    if (as_replica_slot_state(slot) == AS_REPLICA_SLOT_DOWN)
        reserve_devices(s, slot);
    trace(s, "%.*s: %s → %s", AS_STR_FMT(as_replica_slot_name(slot)),
          as_replica_slot_state_name(from),
          as_replica_slot_state_name(as_replica_slot_state(slot)));
}

static void op_gone(void *ctx, struct as_replica_slot *slot)
{
    trace(sim_of(ctx), "%.*s is gone", AS_STR_FMT(as_replica_slot_name(slot)));
    reserve_devices(sim_of(ctx), slot);
}

static void op_condition(void *ctx, const struct as_condition *c)
{
    struct sim *s = sim_of(ctx);

    s->tally.lacking += as_condition_lack(c).n != 0;
    trace(s, "%s, %s: %.*s %.*s", as_condition_status_name(c->status),
          as_condition_trigger_name(c->trigger), AS_STR_FMT(as_condition_text(c)),
          AS_STR_FMT(as_condition_lack(c)));
}

static struct as_plan *plan_of_target(struct sim *s, uint64_t generation)
{
    for (uint32_t i = 0; i < DEPLOYS; i++) {
        const struct as_plan_target *t = s->plans[i] ? as_plan_target(s->plans[i]) : NULL;

        if (t && t->generation == generation)
            return s->plans[i];
    }
    return NULL;
}

static void op_rolled_back(void *ctx, uint64_t from, uint64_t to_generation, struct as_str why)
{
    struct sim *s = sim_of(ctx);
    struct as_plan *p = plan_of_target(s, to_generation);
    struct store *st = &s->stores[deployment_of(s, p)];

    trace(s, "generation %" PRIu64 " is rolled back to %" PRIu64 ": %.*s", from, to_generation,
          AS_STR_FMT(why));
    s->tally.rollbacks++;
    note_target(s, deployment_of(s, p));
    if (!lives(s))
        return;
    st->target = *as_plan_target(p);
    st->failed = true;
}

static void op_down(void *ctx, bool down, struct as_str why AS_UNUSED)
{
    trace(sim_of(ctx), down ? "down" : "up");
}

static void op_settled(void *ctx, const struct as_plan_target *t)
{
    struct sim *s = sim_of(ctx);
    struct as_plan *p = plan_of_target(s, t->generation);
    struct store *st = &s->stores[deployment_of(s, p)];

    if (!lives(s))
        return;
    trace(s, "generation %" PRIu64 " is reached", t->generation);
    st->stable = *t;
    if (as_plan_previous(p))
        st->previous = *as_plan_previous(p);
}

static const struct as_plan_ops ops = {.lacks = op_lacks,
                                       .release = op_release,
                                       .start = op_start,
                                       .note = op_note,
                                       .configure = op_configure,
                                       .retire = op_retire,
                                       .stop = op_stop,
                                       .kill = op_kill,
                                       .moved = op_moved,
                                       .gone = op_gone,
                                       .condition = op_condition,
                                       .rolled_back = op_rolled_back,
                                       .down = op_down,
                                       .settled = op_settled};

static struct as_plan *new_plan(struct sim *s, uint32_t deploy)
{
    char name[8];
    int n = snprintf(name, sizeof(name), "d%u", deploy);

    s->sides[deploy] = (struct side){s, deploy};
    if (as_plan_new(&s->plans[deploy], (struct as_str){name, (size_t)n}, &s->starts,
                    as_rand_next(&s->rand), &ops, &s->sides[deploy]) < 0)
        fail(s, "no plan");
    return s->plans[deploy];
}

/* --- recovery --- */

static const struct as_plan_target *known(const struct as_plan_target *t)
{
    return t->generation ? t : NULL;
}

static void kill_unknown(struct sim *s, const struct proc *p)
{
    s->tally.duplicates++;
    send_supervisor(s, (struct event){.type = E_KILL, .token = p->token, .deploy = p->deploy});
}

/* The message RUNS: running processes in the order of their start. */
static void adopt_all(struct sim *s, uint32_t deploy)
{
    for (uint32_t i = 0; i < s->n_alive; i++) {
        struct proc *p = &s->procs[s->alive[i]];
        struct as_replica_slot *slot;

        if (p->deploy != deploy)
            continue;
        if (as_plan_adopt(s->plans[deploy], &p->note, s->now, &slot) < 0) {
            kill_unknown(s, p);
            continue;
        }
        s->tally.adopted++;
        s->tally.duplicates += as_replica_slot_facts(slot)->rank == AS_RANK_NONE;
        p->kept = *as_replica_slot_facts(slot);
        p->has = need_of(s, p->kept.version);
        s->taken += p->has;
        as_replica_slot_set_user(slot, (void *)(uintptr_t)p->token);
    }
}

static void recover(struct sim *s, uint32_t deploy)
{
    struct store *st = &s->stores[deploy];
    struct as_plan *p = new_plan(s, deploy);

    as_plan_set_target(p, &st->target, s->now);
    as_plan_restore(p, known(&st->stable), known(&st->previous),
                    st->failed ? AS_STR("it failed") : AS_STR(""), s->now);
    adopt_all(s, deploy);
    as_plan_set_serving(p, s->dispatcher, s->now);
    if (st->deleted)
        as_plan_delete(p, s->now);
}

void controller_start(struct sim *s)
{
    trace(s, "a controller comes");
    s->controller = true;
    s->ops_left = UINT32_MAX;
    as_start_limit_init(&s->starts, s->scenario.max_starting);
    for (uint32_t i = 0; i < s->scenario.deploys; i++) {
        if (s->stores[i].exists)
            recover(s, i);
    }
    /* only after all are adopted, because some of them may be starting */
    for (uint32_t i = 0; i < s->scenario.deploys; i++) {
        if (s->plans[i])
            as_plan_run(s->plans[i], s->now);
    }
    send_supervisor(s, (struct event){.type = E_SYNC});
}

void controller_kill(struct sim *s)
{
    if (!s->controller)
        return;
    trace(s, "the controller dies");
    s->tally.recoveries++;
    s->controller = false;
    s->c_epoch++;
    s->ops_left = 0;
    for (uint32_t i = 0; i < DEPLOYS; i++) {
        as_plan_free(s->plans[i]);
        s->plans[i] = NULL;
    }
    s->taken = 0;
    memset(s->kept, 0, sizeof(s->kept));
    for (uint32_t i = 0; i < s->n_procs; i++)
        s->procs[i].has = 0;
    /* the supervisor has read its messages by then */
    schedule(s, s->now + WAY + between(s, AS_MS, 200 * AS_MS), (struct event){.type = E_C_UP});
}

/* --- events --- */

static void on_slot(struct sim *s, const struct event *e)
{
    struct as_replica_slot *slot = slot_of(s, e->deploy, e->token);

    if (!slot)
        return;
    if (e->type == E_C_READY)
        as_replica_slot_ready(slot, s->now);
    else if (e->type == E_C_GONE)
        as_replica_slot_lost(slot, s->now);
    else if (e->type == E_C_RETIRED)
        as_replica_slot_retired(slot, s->now);
    else if (e->type == E_C_LEAVES)
        as_replica_slot_leaves(slot, s->now);
    else if (e->type == E_C_ANSWER)
        as_replica_slot_configured(slot, e->ask, e->flag, AS_STR("refused"), s->now);
    else
        as_replica_slot_died(slot, e->kind, AS_STR("it ended"), s->now);
}

void controller_receive(struct sim *s, const struct event *e)
{
    if (!s->controller || e->epoch != s->c_epoch)
        return;
    if (e->type != E_C_TICK && e->type != E_C_DISPATCHER) {
        on_slot(s, e);
        return;
    }
    for (uint32_t i = 0; i < DEPLOYS; i++) {
        if (!s->plans[i])
            continue;
        if (e->type == E_C_DISPATCHER)
            as_plan_set_serving(s->plans[i], e->flag, s->now);
        else
            as_plan_tick(s->plans[i], s->now);
    }
}

void after_controller(struct sim *s)
{
    as_ns next = AS_NEVER;

    if (s->controller && s->ops_left == 0)
        controller_kill(s);
    for (uint32_t i = 0; i < DEPLOYS; i++) {
        if (!s->plans[i])
            continue;
        next = AS_MIN(next, as_plan_next_due(s->plans[i]));
        if (as_plan_is_settled(s->plans[i]))
            note_settled(s, i);
    }
    if (next == AS_NEVER || next == s->timer_for)
        return;
    s->timer_for = next;
    schedule(s, AS_MAX(next, s->now) + between(s, 0, 2 * AS_MS),
             (struct event){.type = E_C_TICK, .epoch = s->c_epoch});
}

/* --- users --- */

static void save(struct sim *s, uint32_t deploy)
{
    const struct as_plan *p = s->plans[deploy];
    struct store *st = &s->stores[deploy];

    if (s->ops_left == 0)
        return;
    st->exists = true;
    st->target = *as_plan_target(p);
    st->stable = as_plan_stable(p) ? *as_plan_stable(p) : st->stable;
    st->previous = as_plan_previous(p) ? *as_plan_previous(p) : st->previous;
    st->failed = as_plan_condition(p)->rolled_back;
}

/* The request is stored first, so that a controller that dies meanwhile carries it out when it is
 * back. */
void user_deploy(struct sim *s, uint32_t deploy, enum habit version, enum habit config,
                 uint32_t replicas)
{
    struct store *st = &s->stores[deploy];
    bool fresh = !s->plans[deploy];
    struct as_plan_target t = {.generation = ++s->generation,
                               .version = st->target.version,
                               .config = st->target.config,
                               .replicas = replicas,
                               .policy = s->scenario.policy};

    if (!st->exists || chance(s, 700)) {
        t.version = s->n_versions;
        s->needs[s->n_versions % VERSIONS] = below(s, 3);
        s->versions[s->n_versions++ % VERSIONS] = version;
    }
    if (!st->exists || chance(s, 500)) {
        t.config = s->n_configs;
        s->configs[s->n_configs++ % VERSIONS] = config;
    }
    t.replicas = affordable(s, deploy, need_of(s, t.version), replicas);
    trace(s,
          "d%u: generation %" PRIu64 ", version %" PRIu64 " (%d), config %" PRIu64
          " (%d), %u replicas with %u devices",
          deploy, t.generation, t.version, (int)s->versions[t.version % VERSIONS], t.config,
          (int)s->configs[t.config % VERSIONS], t.replicas, need_of(s, t.version));
    s->tally.updates++;
    *st =
        (struct store){.exists = true, .target = t, .stable = st->stable, .previous = st->previous};
    if (fresh)
        new_plan(s, deploy);
    note_target(s, deploy);
    as_plan_set_target(s->plans[deploy], &t, s->now);
    note_target(s, deploy);
    if (fresh) {
        as_plan_set_serving(s->plans[deploy], s->dispatcher, s->now);
        as_plan_run(s->plans[deploy], s->now);
    }
}

static void draw_load(void *arg, struct as_replica_slot *slot)
{
    as_replica_slot_set_load(slot, below(arg, 4));
}

/* The number by load: requests come and go, and the decision has no delay. most: for which there
 * are devices. */
static uint32_t autoscale(struct sim *s, uint32_t deploy, uint32_t most)
{
    uint32_t now = as_plan_target(s->plans[deploy])->replicas;
    struct as_autoscaler *a = &s->scalers[deploy];
    struct as_autoscale_input in = {.running = as_plan_running(s->plans[deploy]),
                                    .startable = most};
    struct as_autoscale_config c;

    as_autoscale_config_init(&c, false);
    c.min_replicas = 0;
    c.max_replicas = 6;
    c.upscale_delay_s = c.downscale_delay_s = 0;
    if (!a->config.max_replicas || a->target != now)
        as_autoscaler_init(a, &c, now);
    as_plan_each(s->plans[deploy], draw_load, s);
    as_autoscaler_record(a, below(s, 8), below(s, 8), s->now);
    as_autoscaler_decide(a, &in, s->now);
    s->tally.autoscales++;
    if (a->target > AS_MAX(now, most) || (a->target == 0 && now > 1))
        fail(s, "d%u: from %u to %u, although %u can start", deploy, now, a->target, most);
    /* a number that was too large already would stay */
    return AS_MIN(a->target, most);
}

static void user_scale(struct sim *s, uint32_t deploy)
{
    bool by_load = chance(s, 500);
    uint32_t n = by_load ? 6 : below(s, 7), need = 0;
    const struct as_plan *p = s->plans[deploy];
    const struct as_plan_target *all[] = {as_plan_target(p), as_plan_stable(p),
                                          as_plan_previous(p)};

    for (size_t i = 0; i < AS_COUNT(all); i++)
        need = all[i] ? AS_MAX(need, need_of(s, all[i]->version)) : need;
    n = affordable(s, deploy, need, n);
    if (by_load)
        n = autoscale(s, deploy, n);
    trace(s, "d%u: %u replicas%s", deploy, n, by_load ? " by load" : "");
    s->tally.scales++;
    as_plan_scale(s->plans[deploy], n, by_load, s->now);
    note_target(s, deploy);
    save(s, deploy);
}

/* False: there is nothing to go back to. */
static bool user_rollback(struct as_plan *p, as_ns now)
{
    const struct as_plan_target *to = as_plan_rollback_target(p);
    struct as_plan_target copy;

    if (!to)
        return false;
    copy = *to;
    return as_plan_set_target(p, &copy, now) == 0;
}

void user_act(struct sim *s, uint32_t deploy)
{
    uint32_t dice = below(s, 100);

    if (!s->controller || s->faults_ended)
        return;
    s->untouched = false;
    /* in one of eight cases the controller dies while it carries this out */
    if (chance(s, 125))
        s->ops_left = below(s, 12);
    if (!s->plans[deploy] || dice < 50) {
        user_deploy(s, deploy, habit_of(s, false), habit_of(s, true), below(s, 7));
    } else if (dice < 80) {
        user_scale(s, deploy);
    } else if (dice < 88) {
        trace(s, "d%u: roll back", deploy);
        if (!user_rollback(s->plans[deploy], s->now))
            return;
        note_target(s, deploy);
        save(s, deploy);
        s->stores[deploy].deleted &= s->ops_left == 0;
    } else if (dice < 95) {
        trace(s, "d%u: restart", deploy);
        as_plan_restart(s->plans[deploy], s->now);
        note_target(s, deploy);
    } else {
        trace(s, "d%u: delete", deploy);
        as_plan_delete(s->plans[deploy], s->now);
        note_target(s, deploy);
        s->stores[deploy].deleted = s->ops_left != 0;
    }
}
