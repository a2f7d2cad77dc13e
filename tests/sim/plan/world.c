/* The supervisor, the dispatcher and the processes. */
#include "plan.h"

#include <inttypes.h>

uint32_t below(struct sim *s, uint32_t n)
{
    return (uint32_t)as_rand_below(&s->rand, n);
}

bool chance(struct sim *s, uint32_t per_mille)
{
    return below(s, 1000) < per_mille;
}

as_ns between(struct sim *s, as_ns lo, as_ns hi)
{
    return lo + as_rand_below(&s->rand, hi - lo + 1);
}

void schedule(struct sim *s, as_ns when, struct event e)
{
    as_event_heap_put(&s->heap, when, &e, sizeof(e));
}

/* --- messages: first in, first out --- */

static as_ns arrival(struct sim *s, as_ns *last)
{
    as_ns when = s->now + between(s, 0, WAY);

    *last = AS_MAX(*last, when);
    return *last;
}

void send_supervisor(struct sim *s, struct event e)
{
    schedule(s, arrival(s, &s->to_supervisor), e);
}

static void send_dispatcher(struct sim *s, struct event e)
{
    e.epoch = s->d_epoch;
    if (s->dispatcher)
        schedule(s, arrival(s, &s->to_dispatcher), e);
}

void send_controller(struct sim *s, struct event e)
{
    e.epoch = s->c_epoch;
    if (!s->controller)
        return;
    schedule(s, arrival(s, &s->to_controller), e);
    if (chance(s, 20) && e.type != E_C_EXITED && e.type != E_C_DISPATCHER) /* sent twice */
        schedule(s, arrival(s, &s->to_controller), e);
}

static struct event about(enum event_type type, const struct proc *p)
{
    return (struct event){.type = type, .token = p->token, .deploy = p->deploy};
}

/* --- processes --- */

struct proc *process_new(struct sim *s)
{
    struct proc *p;

    if (s->n_procs == PROCS_MAX)
        return NULL;
    p = &s->procs[s->n_procs];
    *p = (struct proc){.token = s->n_procs++};
    return p;
}

static enum habit version_habit(const struct sim *s, const struct proc *p)
{
    return s->versions[p->facts.version % VERSIONS];
}

static enum habit config_habit(const struct sim *s, const struct proc *p)
{
    return s->configs[p->facts.config % VERSIONS];
}

void process_add(struct sim *s, struct proc *p)
{
    p->alive = true;
    s->alive[s->n_alive++] = p->token;
}

static void process_remove(struct sim *s, struct proc *p)
{
    uint32_t i = 0;

    p->alive = p->linked = false;
    while (s->alive[i] != p->token)
        i++;
    for (s->n_alive--; i < s->n_alive; i++)
        s->alive[i] = s->alive[i + 1];
}

static void process_start(struct sim *s, struct proc *p)
{
    enum habit h = version_habit(s, p), c = config_habit(s, p);
    as_ns time = between(s, 10 * AS_MS, 200 * AS_MS);
    struct event end = about(E_P_END, p);

    end.kind = chance(s, 500) ? AS_EXIT_CODE : AS_EXIT_CRASH;
    process_add(s, p);
    p->stubborn = chance(s, 60);
    s->tally.starts++;
    if (h == SLOW)
        time = between(s, 200 * AS_MS, s->scenario.policy.start_timeout - 50 * AS_MS);
    if (h == HANGS || c == HANGS)
        return;
    if (h == CRASHES || c == CRASHES)
        schedule(s, s->now + time, end);
    else
        schedule(s, s->now + time, about(E_P_READY, p));
}

static void schedule_register(struct sim *s, struct proc *p)
{
    struct event e = about(E_P_REGISTER, p);

    e.epoch = s->d_epoch;
    schedule(s, s->now + between(s, 0, 10 * AS_MS), e);
}

static void on_process_ready(struct sim *s, struct proc *p)
{
    struct event end = about(E_P_END, p);

    p->ready = true;
    if (s->dispatcher)
        schedule_register(s, p);
    end.kind = AS_EXIT_CRASH;
    /* dies before it could count as available, so that an orderly update never depends on it */
    if (version_habit(s, p) == CRASHES_LATER)
        schedule(s,
                 s->now +
                     between(s, 0, AS_MAX(s->scenario.policy.min_ready, 30 * AS_MS) - 20 * AS_MS),
                 end);
}

static void on_register(struct sim *s, struct proc *p)
{
    p->linked = true;
    p->retired = false;
    note_successor(s, p);
    send_controller(s, about(E_C_READY, p));
}

void link_break(struct sim *s, struct proc *p)
{
    if (!p->linked)
        return;
    p->linked = false;
    send_controller(s, about(E_C_GONE, p));
}

void process_end(struct sim *s, struct proc *p, enum as_exit_kind kind)
{
    struct event e = about(E_C_EXITED, p);

    if (!p->alive)
        return;
    trace(s, "process %u (d%u-%u) ends, kind %d", p->token, p->deploy, p->note.number, (int)kind);
    s->tally.deaths++;
    e.kind = p->blamed ? AS_EXIT_CRASH : p->signalled ? AS_EXIT_STOPPED : kind;
    if (s->dispatcher && chance(s, 500))
        link_break(s, p);
    process_remove(s, p);
    send_controller(s, e);
}

/* Before it is ready the signal ends it. */
void process_leave(struct sim *s, struct proc *p)
{
    struct event end = about(E_P_END, p);

    if (!p->ready) {
        process_end(s, p, AS_EXIT_KILLED);
        return;
    }
    if (p->leaves)
        return;
    trace(s, "process %u (d%u-%u) leaves", p->token, p->deploy, p->note.number);
    p->leaves = true;
    s->tally.left++;
    if (p->linked)
        send_controller(s, about(E_C_LEAVES, p));
    end.kind = AS_EXIT_CODE;
    schedule(s, s->now + between(s, 0, chance(s, 500) ? 50 * AS_MS : 3 * AS_SEC), end);
}

static void on_apply(struct sim *s, struct proc *p, const struct event *e)
{
    struct event answer = about(E_C_ANSWER, p);
    enum habit c = s->configs[e->facts.config % VERSIONS];

    answer.ask = e->ask;
    answer.flag = c != CRASHES;
    if (p->facts.config ==
        e->facts.config) /* only rank or world changes: some processes refuse that */
        answer.flag = p->token % 12 || (e->facts.rank == p->facts.rank && !chance(s, 300));
    else if (c == HANGS)
        return;
    s->tally.refused += !answer.flag;
    trace(s, "process %u is sent config %" PRIu64 ", rank %u: %s", p->token, e->facts.config,
          e->facts.rank, answer.flag ? "yes" : "no");
    if (answer.flag) {
        p->facts.config = e->facts.config;
        p->facts.rank = e->facts.rank;
        p->facts.world = e->facts.world;
    }
    send_controller(s, answer);
}

/* --- the supervisor --- */

static void on_spawn(struct sim *s, struct proc *p, const struct event *e)
{
    p->deploy = e->deploy;
    p->note = p->facts = e->facts;
    p->promised = p->facts.rank;
    trace(s, "process %u is d%u-%u, version %" PRIu64 ", rank %u", p->token, p->deploy,
          p->facts.number, p->facts.version, p->facts.rank);
    if (!s->scenario.orderly && !s->faults_ended && chance(s, 10)) {
        process_add(s, p); /* as if fork had failed */
        process_end(s, p, AS_EXIT_CODE);
        return;
    }
    process_start(s, p);
}

static void on_stop(struct sim *s, struct proc *p, const struct event *e)
{
    struct event end = about(p->stubborn || !p->ready ? E_P_SIGKILL : E_P_END, p);

    if (!p->alive)
        return;
    p->signalled = true;
    end.kind = AS_EXIT_STOPPED;
    schedule(s, s->now + (p->stubborn ? e->timeout : between(s, 0, 30 * AS_MS)), end);
}

static void on_kill(struct sim *s, struct proc *p)
{
    if (!p->alive)
        return;
    p->blamed = p->signalled = true;
    s->tally.kills++;
    schedule(s, s->now + between(s, 0, 5 * AS_MS), about(E_P_SIGKILL, p));
}

/* --- the dispatcher --- */

static void dispatcher_send(struct sim *s, struct proc *p, enum event_type type)
{
    send_controller(s, about(type, p));
}

static void on_retire(struct sim *s, struct proc *p)
{
    struct event e = about(E_D_DRAINED, p);

    e.epoch = s->d_epoch;
    p->retired = true;
    if (!p->linked || !p->alive) /* the dispatcher does not know it */
        dispatcher_send(s, p, E_C_RETIRED);
    else if (!p->stubborn)
        schedule(s, s->now + (chance(s, 500) ? 0 : between(s, 0, 150 * AS_MS)), e);
}

static void on_ask(struct sim *s, struct proc *p, struct event e)
{
    as_ns when = s->now + between(s, 0, 20 * AS_MS);

    e.type = E_P_APPLY;
    p->asked = AS_MAX(p->asked, when);
    if (p->linked)
        schedule(s, p->asked, e);
}

static void on_sync(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_alive; i++) {
        struct proc *p = &s->procs[s->alive[i]];

        if (p->linked && p->leaves)
            dispatcher_send(s, p, E_C_LEAVES);
        else if (p->linked && !p->retired)
            dispatcher_send(s, p, E_C_READY);
    }
}

void dispatcher_kill(struct sim *s)
{
    if (!s->dispatcher)
        return;
    trace(s, "the dispatcher dies");
    s->tally.disconnects++;
    s->dispatcher = false;
    s->d_epoch++;
    for (uint32_t i = 0; i < s->n_alive; i++)
        s->procs[s->alive[i]].linked = false;
    send_controller(s, (struct event){.type = E_C_DISPATCHER, .flag = false});
    schedule(s, s->now + between(s, 10 * AS_MS, 300 * AS_MS), (struct event){.type = E_D_UP});
}

static void on_dispatcher_up(struct sim *s)
{
    trace(s, "the dispatcher is there");
    s->dispatcher = true;
    send_controller(s, (struct event){.type = E_C_DISPATCHER, .flag = true});
    for (uint32_t i = 0; i < s->n_alive; i++) {
        if (s->procs[s->alive[i]].ready && !s->procs[s->alive[i]].leaves)
            schedule_register(s, &s->procs[s->alive[i]]);
    }
}

/* --- events --- */

static void supervise(struct sim *s, struct event *e)
{
    struct proc *p = &s->procs[e->token];

    switch (e->type) {
    case E_SPAWN:
        on_spawn(s, p, e);
        break;
    case E_NOTE:
        p->note = e->facts;
        break;
    case E_STOP:
        on_stop(s, p, e);
        break;
    case E_KILL:
        on_kill(s, p);
        break;
    default: /* for the dispatcher */
        e->type = e->type == E_RETIRE ? E_D_RETIRE : e->type == E_ASK ? E_D_ASK : E_D_SYNC;
        send_dispatcher(s, *e);
        break;
    }
}

static void dispatch(struct sim *s, struct event *e)
{
    struct proc *p = &s->procs[e->token];

    if (e->type == E_D_UP)
        on_dispatcher_up(s);
    else if (!s->dispatcher || e->epoch != s->d_epoch)
        return;
    else if (e->type == E_D_RETIRE)
        on_retire(s, p);
    else if (e->type == E_D_ASK)
        on_ask(s, p, *e);
    else if (e->type == E_D_SYNC)
        on_sync(s);
    else if (p->linked)
        dispatcher_send(s, p, E_C_RETIRED);
}

static void process(struct sim *s, struct event *e)
{
    struct proc *p = &s->procs[e->token];

    if (!p->alive)
        return;
    if (e->type == E_P_READY)
        on_process_ready(s, p);
    else if (e->type == E_P_REGISTER && s->dispatcher && e->epoch == s->d_epoch && !p->linked &&
             !p->leaves)
        on_register(s, p);
    else if (e->type == E_P_APPLY && p->linked && e->epoch == s->d_epoch)
        on_apply(s, p, e);
    else if (e->type == E_P_END || e->type == E_P_SIGKILL)
        process_end(s, p, e->kind);
}

static void handle(struct sim *s, struct event *e)
{
    if (e->type <= E_SYNC)
        supervise(s, e);
    else if (e->type <= E_D_UP)
        dispatch(s, e);
    else if (e->type == E_C_UP)
        controller_start(s);
    else if (e->type < E_C_UP)
        controller_receive(s, e);
    else if (e->type <= E_P_SIGKILL)
        process(s, e);
    else if (e->type == E_USER)
        user_act(s, e->deploy);
    else if (e->type == E_FAULT)
        fault(s);
    else if (e->type == E_FAULTS_END)
        end_faults(s);
    else
        check_end(s);
}

bool run(struct sim *s)
{
    s->now = AS_SEC;
    draw_scenario(s);
    while (s->heap.n && !s->failed) {
        struct event e;

        as_event_heap_take(&s->heap, &e, sizeof(e));
        s->now = e.due.at;
        s->tally.events++;
        handle(s, &e);
        after_controller(s);
        check(s);
        if (e.type == E_VERDICT)
            break;
    }
    s->ops_left = 0;
    for (uint32_t i = 0; i < DEPLOYS; i++)
        as_plan_free(s->plans[i]);
    as_event_heap_fini(&s->heap);
    return !s->failed;
}
