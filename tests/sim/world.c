/* Events, and the dispatcher's side of the links: carries out core's ops, and passes the messages
 * of workers to core. */
#include "sim.h"

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

void schedule(struct sim *s, as_ns when, enum event_type type, uint32_t n, uint64_t arg)
{
    struct event e = {.type = type, .n = n, .arg = arg};

    as_event_heap_put(&s->heap, when, &e, sizeof(e));
}

/* --- messages --- */

struct message *message_new(enum message_type type, uint32_t n_ids)
{
    struct message *m = as_xalloc(sizeof(*m) + n_ids * sizeof(m->ids[0]));

    m->type = type;
    m->n = n_ids;
    return m;
}

void send_message(struct sim *s, struct worker *w, bool to_core, struct message *m)
{
    struct pipe *p = to_core ? &w->to_core : &w->to_worker;
    as_ns due = s->now + between(s, 0, w->habits.delay);

    p->last = AS_MAX(p->last, due);
    m->due = p->last;
    if (p->head)
        p->tail->next = m;
    else
        p->head = m;
    p->tail = m;
    schedule(s, m->due, to_core ? E_TO_CORE : E_TO_WORKER, w->number, 0);
}

static struct message *receive(struct sim *s, struct pipe *p)
{
    struct message *m = p->head;

    if (!m || m->due > s->now) /* it was lost with its sender or receiver */
        return NULL;
    p->head = m->next;
    return m;
}

/* --- ops of core --- */

static struct call *call_of(struct as_request *q)
{
    return AS_CONTAINER(q, struct call, q);
}

static uint32_t number_of(const struct sim *s, const struct call *c)
{
    return (uint32_t)(c - s->calls);
}

bool sim_alike(const struct as_request *a, const struct as_request *b)
{
    return a->kind == b->kind;
}

static void op_batch(void *ctx, struct as_replica *r, uint32_t n)
{
    struct sim *s = ctx;
    struct worker *w = as_replica_link(r);

    trace(s, "batch of %u for worker %u", n, w->number);
    if (n < 2 || w->batch_left)
        fail(s, "batch of %u for worker %u is wrong", n, w->number);
    update_places(s);
    w->batch_first = w->next_stream;
    w->batch_size = w->batch_left = n;
    w->batch = ++s->last_batch;
    note_batch(s, w, n);
}

static void op_wake(void *ctx, as_ns when)
{
    struct sim *s = ctx;

    if (when <= s->now)
        fail(s, "core wants to be woken in the past");
    s->next_wake = AS_MIN(s->next_wake, when);
}

static void op_send(void *ctx, struct as_replica *r, struct as_request *q)
{
    struct sim *s = ctx;
    struct worker *w = as_replica_link(r);
    struct call *c = call_of(q);
    struct message *m = message_new(M_OPEN, 0);

    q->stream = w->next_stream;
    w->next_stream += 2;
    trace(s, "call %u to worker %u as stream %llu%s", number_of(s, c), w->number,
          (unsigned long long)q->stream, q->blame ? ", a suspect" : "");
    update_places(s);
    if (c->state == PARKED && s->now >= c->parked_until)
        c->state = WAITING, c->placed_at = s->now; /* it went on and was sent within one event */
    if (c->reserves)
        note_used(s, w, c);
    else
        note_sent(s, w, c);
    m->stream = q->stream;
    m->call = number_of(s, c);
    m->beyond = q->beyond;
    if (w->batch_left) {
        w->batch_left--;
        m->first = w->batch_first;
        m->size = w->batch_size;
    }
    send_message(s, w, false, m);
}

static void op_recall(void *ctx, struct as_replica *r, struct as_request *const *q, uint32_t n)
{
    struct sim *s = ctx;
    struct worker *w = as_replica_link(r);
    struct message *m = message_new(M_RECALL, n);

    trace(s, "recall %u from worker %u", n, w->number);
    note_recall(s, w, q, n);
    for (uint32_t i = 0; i < n; i++)
        m->ids[i] = q[i]->stream;
    send_message(s, w, false, m);
}

static void op_cancel(void *ctx, struct as_replica *r, struct as_request *q, int reason)
{
    struct sim *s = ctx;
    struct call *c = call_of(q);
    struct message *m = message_new(M_CANCEL, 0);

    trace(s, "CANCEL call %u", number_of(s, c));
    if (c->twin && c->q.deadline <= s->now) { /* both expire, and the other one is answered */
        c->answered = true;
        c->twin = c->twin->twin = NULL;
    }
    if (c->state != BOUND || as_replica_link(r) != s->workers[c->worker] ||
        reason != (c->cancelled ? AS_ECANCELLED : AS_EDEADLINE) || c->cancel_sent)
        fail(s, "CANCEL for call %u is wrong", number_of(s, c));
    c->cancel_sent = true;
    m->stream = q->stream;
    send_message(s, as_replica_link(r), false, m);
}

static void op_answer(void *ctx, struct as_request *q, int err)
{
    struct sim *s = ctx;

    trace(s, "call %u ends with %s", number_of(s, call_of(q)), as_err_name(err));
    note_answer(s, call_of(q), err);
}

static void op_release(void *ctx, struct as_request *q)
{
    struct sim *s = ctx;
    struct call *c = call_of(q);

    if (s->freeing && c->twin)
        part_twins(c, false);
    if (q->state != AS_REQ_DONE || !(c->answered || c->cancelled))
        fail(s, "call %u is released unanswered", number_of(s, c));
    if (c->state == BOUND && (s->freeing || c->held))
        note_unbound(s, c);
    note_released(s, c);
}

static void op_next_turn(void *ctx)
{
    struct sim *s = ctx;

    if (s->works)
        return;
    s->works = true;
    schedule(s, s->now + 1 + between(s, 0, 2 * AS_US), E_WORK, 0, 0);
}

static const struct as_deployment_ops ops = {
    .ask = op_ask,
    .unask = op_unask,
    .reserved = op_reserved,
    .batch = op_batch,
    .send = op_send,
    .recall = op_recall,
    .cancel = op_cancel,
    .answer = op_answer,
    .release = op_release,
    .wake = op_wake,
    .alike = sim_alike,
    .sample = sim_sample,
    .fingerprint = sim_print,
    .next_turn = op_next_turn,
    .hedge = op_hedge,
};

/* --- messages of workers --- */

static void on_done(struct sim *s, struct worker *w, const struct message *m)
{
    struct call *c = &s->calls[m->call];
    bool waits = !c->answered && !c->cancelled;
    bool again = waits && m->flag && !c->reserves && !c->twin && c->retries < AS_REQUEST_RETRIES;

    trace(s, "worker %u ends call %u%s%s", w->number, m->call, m->flag ? ", retry" : "",
          m->failed ? ", failed" : "");
    c->q.failed = waits && m->failed;
    if (c->twin)
        part_twins(c, !m->flag && !m->failed);
    waits = waits && !c->cancelled;
    judge_done(s, w, c, !again, c->q.failed);
    note_left(s, w, c, !again);
    note_unbound(s, c);
    if (again) {
        c->retries++;
    } else if (waits) {
        c->answered = true;
        s->expected.completed++;
        s->expected.hedges_won += c->is_hedge && !m->failed;
        note_released(s, c);
    }
    if (as_replica_done(w->replica, &c->q, m->service, m->flag, s->now) != (waits && !again))
        fail(s, "call %u: as_replica_done returned the wrong value", m->call);
    if (!again && !c->released)
        fail(s, "call %u is not released", m->call);
}

/* The connection of the call broke. */
static void on_lost(struct sim *s, struct worker *w, const struct message *m)
{
    struct call *c = &s->calls[m->call];
    bool waits = !c->answered && !c->cancelled;

    trace(s, "worker %u loses call %u", w->number, m->call);
    judge_done(s, w, c, waits, true);
    note_unbound(s, c);
    c->doomed = waits && !c->q.idempotent;
    c->losses++;
    if (c->twin) {
        c->twin->losses++;
        part_twins(c, false);
    }
    as_replica_lose_request(w->replica, &c->q, chance(s, 500) ? AS_LOSS_LINK : AS_LOSS_UNKNOWN,
                            s->now);
    if (c->doomed)
        fail(s, "call %u was lost with its connection, and is not answered", m->call);
}

static void on_returned(struct sim *s, struct worker *w, const struct message *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        struct call *c = &s->calls[w->streams[m->ids[i] / 2].call];

        note_unbound(s, c);
        as_replica_returned(w->replica, &c->q, s->now);
        check(s);
    }
    for (uint32_t i = 0; i < w->n_bound; i++) {
        struct call *c = &s->calls[w->bound[i]];

        c->kept_by_worker = c->kept_by_worker || c->recalled;
        c->recalled = false;
    }
    w->recalled = 0;
    w->recalling = false;
    as_replica_recall_done(w->replica, s->now);
}

static void hear(struct sim *s, struct worker *w)
{
    struct message *m = receive(s, &w->to_core);

    if (!m)
        return;
    switch (m->type) {
    case M_GRANT:
        w->granted = m->slots;
        w->prefetch = m->prefetch;
        w->most_granted = AS_MAX(w->most_granted, m->slots);
        note_grant(s, w);
        as_replica_grant(w->replica, m->slots, m->prefetch, s->now);
        break;
    case M_DONE:
        if (m->lost)
            on_lost(s, w, m);
        else
            on_done(s, w, m);
        break;
    case M_RETURNED:
        on_returned(s, w, m);
        break;
    case M_DRAIN:
        w->draining = m->flag || w->unhealthy;
        as_replica_drain(w->replica, w->draining, s->now);
        break;
    default:
        on_death(s, w);
    }
    free(m);
}

/* --- trouble --- */

static void spawn(struct sim *s)
{
    uint32_t n = worker_new(s);
    struct worker *w;

    if (n == NOBODY)
        return;
    w = s->workers[n];
    if (as_replica_new(&w->replica, s->d, w))
        fail(s, "no replica");
    w->registered = true;
    w->ready_at = AS_NEVER;
    for (uint32_t m = 0; m < s->scenario.n_models && !s->closing; m++) {
        if (chance(s, s->scenario.lacking))
            worker_serve(s, w, m, false);
    }
    worker_grant(s, w, w->habits.slots, w->habits.prefetch);
}

/* A random live worker, or NULL. */
static struct worker *somebody(struct sim *s, uint32_t n)
{
    struct worker *alive[WORKERS_MAX];
    uint32_t n_alive = 0;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (s->workers[i]->alive)
            alive[n_alive++] = s->workers[i];
    }
    return n_alive ? alive[n % n_alive] : NULL;
}

static void set_drain(struct sim *s, struct worker *w, bool on)
{
    struct message *m = message_new(M_DRAIN, 0);

    m->flag = on;
    send_message(s, w, true, m);
}

static void trouble(struct sim *s, const struct event *e)
{
    struct worker *w = somebody(s, e->n);

    if (!w)
        return;
    if (e->type == E_KILL)
        worker_kill(s, w);
    else if (e->type == E_DRAIN)
        set_drain(s, w, e->arg);
    else if (e->type == E_HELD) {
        if (w->registered)
            report_held(s, w);
    } else if (e->type == E_MODEL && w->registered) {
        worker_serve(s, w, (uint32_t)e->arg, w->lacks[e->arg]);
    } else if (!w->habits.eager) {
        worker_grant(s, w, below(s, w->habits.slots + 1), below(s, w->habits.prefetch + 1));
    }
}

static void set_down(struct sim *s, bool down)
{
    trace(s, "down: %d", down);
    s->down = down;
    as_deployment_set_down(s->d, down, s->now);
}

/* No more trouble from now on: every waiting call must end. */
static void close_world(struct sim *s)
{
    trace(s, "closing");
    s->closing = true;
    if (s->scenario.stop_early) {
        s->freeing = true;
        as_deployment_free(s->d);
        s->d = NULL;
        return;
    }
    set_down(s, false);
    if (!somebody(s, 0))
        spawn(s);
    for (uint32_t i = 0; i < s->n_workers; i++) {
        struct worker *w = s->workers[i];

        if (w->alive) {
            for (uint32_t m = 0; m < s->scenario.n_models && w->registered; m++)
                worker_serve(s, w, m, true);
            set_drain(s, w, false);
            worker_grant(s, w, w->habits.slots, w->habits.prefetch);
        }
    }
}

static void expire(struct sim *s)
{
    if (s->expire_at != s->now) /* the timer was set again meanwhile */
        return;
    s->timer_for = AS_NEVER;
    s->replaces = as_deployment_parked(s->d) > 0;
    resume_parked(s, 0);
    as_deployment_expire(s->d, s->now);
    s->replaces = false;
    s->next_wake = as_deployment_next_deadline(s->d);
}

static void set_timer(struct sim *s)
{
    as_ns next = as_deployment_next_deadline(s->d);

    if (next < s->next_wake)
        fail(s, "core has something to do and did not ask for a time");
    /* an overdue timer fires, even if its time is changed meanwhile */
    if (next == s->timer_for || (s->timer_for <= s->now && next <= s->now))
        return;
    s->timer_for = s->expire_at = next;
    if (next == AS_NEVER)
        return;
    s->expire_at = AS_MAX(next, s->now) + between(s, 0, s->scenario.timer_late);
    schedule(s, s->expire_at, E_EXPIRE, 0, 0);
}

static void step(struct sim *s, const struct event *e)
{
    struct worker *w = e->n < s->n_workers ? s->workers[e->n] : NULL;
    struct message *m;

    s->replaces = as_deployment_suspects(s->d) > 0; /* they may be cleared, all at once */
    switch (e->type) {
    case E_SUBMIT:
        client_submit(s, e->n);
        break;
    case E_CANCEL:
        client_leave(s, e->n);
        break;
    case E_EXPIRE:
        expire(s);
        break;
    case E_TO_WORKER:
        m = receive(s, &w->to_worker);
        if (m)
            worker_receive(s, w, m);
        free(m);
        break;
    case E_TO_CORE:
        hear(s, w);
        break;
    case E_START:
        worker_start(s, w);
        break;
    case E_FINISH:
        worker_finish(s, w, e->arg);
        break;
    case E_SPAWN:
        spawn(s);
        break;
    case E_DOWN:
        set_down(s, e->arg);
        break;
    case E_VERDICT:
        report_cause(s, w, e->arg);
        break;
    case E_ROUTED:
        answer_router(s, e->n);
        break;
    case E_ROUTER:
        change_router(s);
        break;
    case E_USE:
        use_reservation(s, e->n);
        break;
    case E_WORK:
        s->works = false;
        s->replaces = true;
        as_deployment_work(s->d, s->now);
        s->replaces = false;
        break;
    case E_CRASH:
        harm_crash(s, w, e->arg);
        break;
    case E_UNHEALTHY:
        harm_find_unhealthy(s, w, e->arg);
        break;
    case E_CLOSE:
        close_world(s);
        break;
    default:
        trouble(s, e);
    }
}

/* Checks at the end of a run, when nothing is left to do. */
static void check_end(struct sim *s)
{
    if (s->failed)
        return;
    if (s->n_live)
        fail(s, "%u calls have no end, the first is call %u", s->n_live, s->live[0]);
    if (s->d && (as_deployment_queued(s->d) || as_deployment_prefetched(s->d) ||
                 as_deployment_ongoing(s->d)))
        fail(s, "counters do not return to zero");
    for (uint32_t i = 0; i < DRAWN_MAX + s->n_hedges; i++) {
        const struct call *c = &s->calls[i];

        if (i >= s->scenario.n_calls && i < DRAWN_MAX)
            continue;
        if (c->accepted != c->released || (c->q.state != AS_REQ_DONE && !s->scenario.stop_early))
            fail(s, "call %u is not done", i);
    }
}

bool run(struct sim *s)
{
    struct as_deployment_conf conf;

    draw_scenario(s);
    s->timer_for = s->next_wake = AS_NEVER;
    conf = (struct as_deployment_conf){.max_queued = s->scenario.max_queued,
                                       .router = s->scenario.router,
                                       .prefetch_work = s->scenario.prefetch_work,
                                       .seed = s->seed,
                                       .retry = {.attempts = UINT8_MAX, .least = UINT32_MAX},
                                       .verdict_wait = s->scenario.verdict_wait,
                                       .repeat_verdict_wait = s->scenario.repeat_verdict_wait,
                                       .reserve_time = s->scenario.reserve_time};
    if (s->scenario.harmful) {
        conf.retry.attempts = s->scenario.attempts;
        conf.blame = s->scenario.blame;
        conf.quarantine = s->scenario.quarantine;
        conf.breaker = s->scenario.breaker;
        conf.outlier = s->scenario.outlier;
    }
    AS_ASSERT(!as_deployment_new(&s->d, AS_STR("sim"), &conf, &ops, s));
    as_deployment_set_share(s->d, s->scenario.share);
    as_deployment_set_codel(s->d, &s->scenario.codel);
    as_deployment_set_slow_start(s->d, s->scenario.slow_start, s->now);
    as_deployment_set_adaptive(s->d, s->scenario.adaptive, s->now);
    as_deployment_set_hedging(s->d, &s->scenario.hedging, s->now);
    as_deployment_set_fair(s->d, s->scenario.n_tenants > 0, s->scenario.cost);
    for (uint32_t m = 0; m < s->scenario.n_models; m++) {
        AS_ASSERT(!s->scenario.cap[m] || !as_deployment_set_model(s->d, m, s->scenario.cap[m]));
        AS_ASSERT(!as_deployment_set_batching(s->d, m, &s->scenario.batch[m]));
    }
    while (s->heap.n && s->d && !s->failed) {
        struct event e;

        as_event_heap_take(&s->heap, &e, sizeof(e));
        AS_ASSERT(e.due.at >= s->now);
        s->now = e.due.at;
        s->steps++;
        step(s, &e);
        if (s->d) {
            check(s);
            set_timer(s);
        }
    }
    check_end(s);
    if (!s->failed) { /* else the model is wrong already and cannot handle the answers */
        s->freeing = true;
        as_deployment_free(s->d);
    }
    for (uint32_t i = 0; i < s->n_workers; i++)
        worker_free(s->workers[i]);
    as_event_heap_fini(&s->heap);
    return !s->failed;
}
