/* Targets and faults, drawn from the seed. */
#include "plan.h"

/* New versions and configs are mostly good, and in an orderly run never make a serving process
 * hang. */
enum habit habit_of(struct sim *s, bool config)
{
    uint32_t dice = below(s, 100);

    if (s->faults_ended)
        return dice < 80 ? GOOD : SLOW;
    if (dice < 55)
        return GOOD;
    if (dice < 65)
        return SLOW;
    if (dice < 80)
        return CRASHES;
    if (dice < 90)
        return config && s->scenario.orderly ? GOOD : HANGS;
    return config || (s->scenario.orderly && !s->scenario.policy.min_ready) ? GOOD : CRASHES_LATER;
}

static void draw_policy(struct sim *s)
{
    struct as_plan_policy *p = &s->scenario.policy;

    *p = (struct as_plan_policy){
        .restart = {.base = between(s, 10 * AS_MS, 100 * AS_MS),
                    .max = between(s, 100 * AS_MS, 2 * AS_SEC),
                    .healthy = AS_SEC,
                    .give_up = below(s, 7)},
        .start_timeout = 2 * AS_SEC,
        .configure_timeout = between(s, 100 * AS_MS, 500 * AS_MS),
        .drain_timeout = between(s, 0, AS_SEC),
        .drain_interval = between(s, 50 * AS_MS, 500 * AS_MS),
        .stop_timeout = between(s, 0, 500 * AS_MS),
        .min_ready = chance(s, 500) ? 0 : between(s, 100 * AS_MS, 400 * AS_MS),
        .roll_percent = chance(s, 500) ? 20 : 1 + below(s, 100),
        .roll_failures = 1 + below(s, 4),
        .roll_back = true,
    };
    if (chance(s, 500)) {
        p->unavailable.percent = chance(s, 300);
        p->unavailable.n = p->unavailable.percent ? below(s, 101) : below(s, 4);
    }
    if (chance(s, 400)) {
        p->has_surge = true;
        p->surge.percent = chance(s, 300);
        p->surge.n = p->surge.percent ? below(s, 101) : below(s, 4);
        if (p->surge.n + p->unavailable.n == 0)
            p->unavailable.n = 1;
    }
}

/* Processes of an impossible past: two with one number, two with one rank, or neither. */
static void draw_past(struct sim *s)
{
    for (uint32_t i = 0, n = 1 + below(s, 4); i < n; i++) {
        struct proc *p = process_new(s);

        p->note.number = below(s, 4);
        p->note.rank = below(s, 4);
        p->note.rank_next = chance(s, 800) ? p->note.rank : below(s, p->note.rank + 1);
        p->note.generation = p->note.version = p->note.config = 1;
        p->note.ready = true;
        p->note.world = 3;
        p->note.starts = 1;
        p->facts = p->note;
        p->ready = p->linked = p->injected = true;
        process_add(s, p);
    }
    s->stores[0] = (struct store){.exists = true,
                                  .target = {.generation = 1,
                                             .version = 1,
                                             .config = 1,
                                             .replicas = 3,
                                             .policy = s->scenario.policy}};
    s->stores[0].stable = s->stores[0].target;
}

void draw_scenario(struct sim *s)
{
    struct scenario *is = &s->scenario;

    is->orderly = chance(s, 400);
    is->untouched = is->orderly && chance(s, 150);
    is->leaving = is->orderly && !is->untouched && chance(s, 400);
    is->deploys = 1 + below(s, DEPLOYS);
    is->max_starting = 1 + below(s, 6);
    is->users = 2 + below(s, is->untouched ? 1 : 24);
    is->faults = is->orderly && !is->leaving ? below(s, 6) : below(s, 40);
    is->busy = between(s, 5 * AS_SEC, 60 * AS_SEC);
    is->devices = chance(s, 500) ? 3 + below(s, 8) : 0;
    draw_policy(s);
    s->generation = 1;
    s->needs[1] = 1;
    s->n_versions = s->n_configs = 2; /* 1 is that of the past */
    s->dispatcher = true;
    s->c_epoch = 1;
    if (!is->orderly && chance(s, 200))
        draw_past(s);
    controller_start(s);
    for (uint32_t i = 0; i < is->users; i++)
        schedule(s, s->now + (i < is->deploys ? 0 : between(s, 0, is->untouched ? 0 : is->busy)),
                 (struct event){.type = E_USER, .deploy = i % is->deploys});
    for (uint32_t i = 0; i < is->faults; i++)
        schedule(s, s->now + between(s, 0, is->busy), (struct event){.type = E_FAULT});
    schedule(s, s->now + is->busy, (struct event){.type = E_FAULTS_END});
}

static struct proc *any_process(struct sim *s)
{
    return s->n_alive ? &s->procs[s->alive[below(s, s->n_alive)]] : NULL;
}

/* The controller dies at once, or after some of its next calls of ops. */
static void kill_controller(struct sim *s)
{
    if (chance(s, 500))
        controller_kill(s);
    else if (s->controller)
        s->ops_left = below(s, 8);
}

/* The dispatcher finds a fault in a process, so the supervisor kills it at once. */
static void blame(struct sim *s, struct proc *p)
{
    p->blamed = true;
    process_end(s, p, AS_EXIT_CRASH);
}

void fault(struct sim *s)
{
    struct proc *p = any_process(s);
    uint32_t dice = below(s, 100);

    if (s->faults_ended)
        return;
    if (s->scenario.leaving && dice >= 10) {
        if (p)
            process_leave(s, p);
        return;
    }
    if (s->scenario.orderly || dice < 20) {
        kill_controller(s);
        return;
    }
    if (dice < 35)
        dispatcher_kill(s);
    else if (!p)
        return;
    else if (dice < 45)
        process_leave(s, p);
    else if (dice < 60)
        process_end(s, p, chance(s, 800) ? AS_EXIT_KILLED : AS_EXIT_OOM);
    else if (dice < 75)
        process_end(s, p, AS_EXIT_CRASH);
    else if (dice < 85)
        blame(s, p);
    else if (p->linked && s->dispatcher) {
        link_break(s, p);
        if (chance(s, 700)) /* else it does not react, and the timeout must end it */
            schedule(s, s->now + between(s, 0, 100 * AS_MS),
                     (struct event){.type = E_P_REGISTER, .token = p->token, .epoch = s->d_epoch});
    }
}

/* The longest time to reach a target from any state: the replicas drain, end and start one after
 * the other, an update fails in the slowest way, and a slot is DOWN for its whole time. */
static as_ns convergence_limit(const struct sim *s)
{
    const struct as_plan_policy *p = &s->scenario.policy;
    as_ns one = p->start_timeout + p->configure_timeout + p->drain_timeout + 2 * p->stop_timeout +
                p->drain_interval + p->min_ready + AS_SEC / 5;
    as_ns failure = p->start_timeout + p->restart.max * 6 / 5 + AS_SEC / 5;

    return 20 * one + (p->roll_failures + 1) * failure + 2 * p->restart.max + 2 * AS_SEC;
}

static bool good(const struct sim *s, const struct as_plan_target *t)
{
    enum habit v = s->versions[t->version % VERSIONS], c = s->configs[t->config % VERSIONS];

    return t->generation && (v == GOOD || v == SLOW) && (c == GOOD || c == SLOW);
}

/* Will the update succeed, or fail with a good version to go back to? One that is ready for a
 * moment, if min_ready is no longer than that, does neither. */
static bool update_will_settle(const struct sim *s, const struct store *st)
{
    bool flickers = s->versions[st->target.version % VERSIONS] == CRASHES_LATER;

    if (good(s, &st->target))
        return true;
    return good(s, &st->stable) && !(flickers && !s->scenario.policy.min_ready);
}

/* From now on there are no faults, and the target can be reached: so it must be. */
void end_faults(struct sim *s)
{
    if (s->controller && s->ops_left != UINT32_MAX)
        controller_kill(s);
    if (!s->controller || !s->dispatcher) {
        schedule(s, s->now + AS_MS, (struct event){.type = E_FAULTS_END});
        return;
    }
    s->faults_ended = true;
    s->untouched = false;
    s->faults_end_at = s->now;
    trace(s, "nothing fails any more");
    for (uint32_t i = 0; i < s->scenario.deploys; i++) {
        if (!s->plans[i] || s->stores[i].deleted)
            continue;
        if (chance(s, 300)) /* else the current update goes on, good or bad */
            user_deploy(s, i, habit_of(s, false), habit_of(s, true), below(s, 7));
        while (!update_will_settle(s, &s->stores[i]))
            user_deploy(s, i, habit_of(s, false), habit_of(s, true), below(s, 7));
    }
    schedule(s, s->now + convergence_limit(s), (struct event){.type = E_VERDICT});
}
