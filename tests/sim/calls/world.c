/* The moves of the world, and the dispatcher's side: carries out core's ops, and passes the
 * messages of workers to core. */
#include "calls.h"

static uint32_t number_of(const struct sim *s, const struct call *c)
{
    return (uint32_t)(c - s->calls);
}

void pipe_put(struct pipe *p, enum message_type type, uint32_t call, uint64_t stream)
{
    if (p->head == p->n)
        p->head = p->n = 0;
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->p = as_xrealloc(p->p, p->cap * sizeof(p->p[0]));
    }
    p->p[p->n++] = (struct message){type, call, stream};
}

static bool is_empty(const struct pipe *p)
{
    return p->head == p->n;
}

/* --- the end of calls --- */

static void forget(struct sim *s, struct call *c)
{
    uint32_t last = s->live[--s->n_live];

    if (c->state != CALL_HELD)
        fail(s, "call %u ends twice", number_of(s, c));
    s->live[c->live_at] = last;
    s->calls[last].live_at = c->live_at;
    c->state = CALL_ENDED;
}

/* The answer, or an error, reaches the parent if it still executes. */
static void answer(struct sim *s, struct call *c)
{
    struct call *p = c->parent == NOBODY ? NULL : &s->calls[c->parent];

    if (c->answered)
        fail(s, "call %u is answered twice", number_of(s, c));
    c->answered = true;
    if (p && p->run == RUN_RUNS && p->executions == c->execution && !c->left)
        p->open--;
}

/* --- ops of core --- */

static struct call *call_of(struct as_request *q)
{
    return AS_CONTAINER(q, struct call, q);
}

static void op_send(void *ctx, struct as_replica *r, struct as_request *q)
{
    struct node *n = ctx;
    struct worker *w = as_replica_link(r);
    struct call *c = call_of(q);
    uint32_t i = 0;

    q->stream = w->next_stream;
    w->next_stream += 2;
    while (n->s->workers[i] != w)
        i++;
    c->worker = i;
    n->s->tally.beyond += q->beyond;
    if (q->beyond != q->on_cycle)
        fail(n->s, "call %u goes to the wrong place", number_of(n->s, c));
    trace(n->s, "call %u to worker %u", number_of(n->s, c), i);
    pipe_put(&w->in, M_OPEN, number_of(n->s, c), q->stream);
}

static void op_recall(void *ctx, struct as_replica *r, struct as_request *const *q, uint32_t n)
{
    const struct node *d = ctx;
    struct worker *w = as_replica_link(r);

    for (uint32_t i = 0; i < n; i++)
        pipe_put(&w->in, M_RECALL, number_of(d->s, call_of(q[i])), q[i]->stream);
    pipe_put(&w->in, M_RECALL_END, 0, 0);
}

static void op_cancel(void *ctx, struct as_replica *r, struct as_request *q, int reason AS_UNUSED)
{
    const struct node *n = ctx;
    struct worker *w = as_replica_link(r);

    if (w->alive)
        pipe_put(&w->in, M_CANCEL, number_of(n->s, call_of(q)), q->stream);
}

static void op_answer(void *ctx, struct as_request *q, int err)
{
    struct node *n = ctx;

    trace(n->s, "call %u: %s", number_of(n->s, call_of(q)), as_err_name(err));
    n->s->tally.expired += err == AS_EDEADLINE;
    answer(n->s, call_of(q));
}

static void op_release(void *ctx, struct as_request *q)
{
    const struct node *n = ctx;
    struct call *c = call_of(q);

    if (!c->answered && !c->left)
        fail(n->s, "call %u is released unanswered", number_of(n->s, c));
    forget(n->s, c);
}

static void op_wake(void *ctx AS_UNUSED, as_ns when AS_UNUSED)
{
}

static const struct as_deployment_ops ops = {.send = op_send,
                                             .recall = op_recall,
                                             .cancel = op_cancel,
                                             .answer = op_answer,
                                             .release = op_release,
                                             .wake = op_wake};

/* --- calls --- */

/* As link/fleet/fleet_client.c does. */
static bool is_on_cycle(struct sim *s, uint32_t from, uint32_t to)
{
    bool known =
        as_call_graph_has(&s->graph, from, to) && as_call_graph_is_cyclic(&s->graph, from, to);
    bool cyclic = as_call_graph_is_cyclic(&s->graph, from, to);

    return s->fault == FAULT_WAIT ? false : s->fault == FAULT_LATE ? known : cyclic;
}

/* A queue whose limit is reached takes nothing that must wait. */
static void check_refusal(struct sim *s, const struct call *c, int err)
{
    const struct node *n = &s->nodes[c->deployment];
    int64_t waiting = (int64_t)as_deployment_queued(n->d) + (int64_t)as_deployment_prefetched(n->d);

    if (err == AS_EFULL && (n->max_queued < 0 || waiting < n->max_queued))
        fail(s, "call %u is refused, %lld of %lld wait", number_of(s, c), (long long)waiting,
             (long long)n->max_queued);
    if (err == AS_EUNAVAILABLE && !n->down && !c->q.pinned)
        fail(s, "call %u is refused", number_of(s, c));
    if (err == AS_EFULL)
        s->tally.refused++;
}

static void prepare(struct sim *s, struct call *c, uint32_t parent)
{
    struct call *p = parent == NOBODY ? NULL : &s->calls[parent];

    as_request_init(&c->q);
    c->q.idempotent = chance(s, s->idempotent);
    if (chance(s, s->deadlines))
        c->q.deadline = s->now + below(s, 300);
    if (!p)
        return;
    c->execution = p->executions;
    c->caller = p->worker;
    c->depth = p->depth + 1;
    c->q.root = p->q.root;
    c->q.deadline = AS_MIN(c->q.deadline, p->q.deadline);
    c->q.on_cycle = is_on_cycle(s, p->deployment, c->deployment);
    s->tally.cyclic += c->q.on_cycle;
}

static struct worker *some_worker(struct sim *s)
{
    struct worker *w = s->n_workers ? s->workers[below(s, s->n_workers)] : NULL;

    return w && w->alive && w->replica ? w : NULL;
}

/* Some calls are for one replica only. */
static int submit_to_core(struct sim *s, struct call *c)
{
    struct worker *w = chance(s, s->pins) ? some_worker(s) : NULL;
    struct as_deployment *d = s->nodes[c->deployment].d;

    if (w && w->deployment == c->deployment)
        return as_deployment_submit_to(w->replica, &c->q, s->now);
    return as_deployment_submit(d, &c->q, s->now);
}

void submit(struct sim *s, uint32_t deployment, uint32_t parent)
{
    uint32_t n = s->n_calls++;
    struct call *c = &s->calls[n];
    int err;

    *c = (struct call){.deployment = deployment, .parent = parent, .caller = NOBODY};
    prepare(s, c, parent);
    s->tally.calls++;
    if (c->depth > DEPTH_MAX) {
        s->tally.deep++;
        return;
    }
    trace(s, "call %u of %d goes to deployment %u%s", n, (int)parent, deployment,
          c->q.on_cycle ? ", on a cycle" : "");
    /* before core may send it, and even answer it */
    c->state = CALL_HELD;
    c->live_at = s->n_live;
    s->live[s->n_live++] = n;
    if (parent != NOBODY)
        s->calls[parent].open++;
    err = submit_to_core(s, c);
    if (!err)
        return;
    check_refusal(s, c, err);
    answer(s, c);
    forget(s, c);
}

void cancel_call(struct sim *s, struct call *c)
{
    if (c->state != CALL_HELD || c->left)
        return;
    if (!c->answered) {
        struct call *p = c->parent == NOBODY ? NULL : &s->calls[c->parent];

        c->left = true;
        if (p && p->run == RUN_RUNS && p->executions == c->execution)
            p->open--;
    }
    as_deployment_cancel(s->nodes[c->deployment].d, &c->q, s->now);
}

void cancel_children(struct sim *s, uint32_t parent)
{
    for (uint32_t i = s->n_live; i > 0; i--) {
        struct call *c = i <= s->n_live ? &s->calls[s->live[i - 1]] : NULL;

        if (c && c->parent == parent && c->execution == s->calls[parent].executions)
            cancel_call(s, c);
    }
}

/* --- messages of workers --- */

static void on_death(struct sim *s, struct worker *w)
{
    static const enum as_loss losses[] = {AS_LOSS_KILLED, AS_LOSS_UNKNOWN, AS_LOSS_LINK};
    struct as_replica *r = w->replica;
    uint32_t mine = 0;

    while (s->workers[mine] != w)
        mine++;
    /* what it has executed ends here, so nobody waits for the calls that this made */
    for (uint32_t i = 0; i < s->n_live; i++) {
        struct call *c = &s->calls[s->live[i]];

        if (c->q.replica == r)
            c->run = RUN_NONE;
    }
    for (uint32_t i = 0; i < s->n_calls; i++) {
        if (s->calls[i].caller == mine)
            cancel_call(s, &s->calls[i]);
    }
    w->replica = NULL;
    as_replica_free(r, chance(s, 200) ? UINT64_MAX : w->last_started, losses[below(s, 3)], s->now);
}

static void hear(struct sim *s, struct worker *w)
{
    struct message m = w->out.p[w->out.head++];
    struct call *c = &s->calls[m.call];

    switch (m.type) {
    case M_GRANT:
        w->granted = m.call;
        as_replica_grant(w->replica, m.call, w->prefetch, s->now);
        break;
    case M_DONE:
    case M_RETRY:
        if (as_replica_done(w->replica, &c->q, 1 + below(s, 5), m.type == M_RETRY, s->now)) {
            answer(s, c);
            forget(s, c);
        }
        break;
    case M_RETURNED:
        as_replica_returned(w->replica, &c->q, s->now);
        break;
    case M_RECALL_END:
        as_replica_recall_done(w->replica, s->now);
        break;
    default:
        on_death(s, w);
    }
}

/* A drained worker has nothing left, so it ends. */
static bool is_drained(const struct worker *w)
{
    return w->alive && w->draining && w->replica && !as_replica_unanswered(w->replica) &&
           is_empty(&w->in) && is_empty(&w->out);
}

/* --- moves --- */

static uint32_t count_replicas(const struct sim *s, uint32_t deployment)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *w = s->workers[i];

        n += w->deployment == deployment && w->replica &&
             !(w->draining && s->nodes[deployment].surge);
    }
    return n;
}

enum move { MOVE_TO_WORKER, MOVE_TO_CORE, MOVE_STEP, MOVE_SPAWN, MOVE_END_DRAIN };

struct choice {
    enum move move;
    uint32_t n;
};

/* Everything by which requests go on. */
static uint32_t list_moves(const struct sim *s, struct choice *ret_list)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *w = s->workers[i];

        if (w->alive && !is_empty(&w->in))
            ret_list[n++] = (struct choice){MOVE_TO_WORKER, i};
        if (w->replica && !is_empty(&w->out))
            ret_list[n++] = (struct choice){MOVE_TO_CORE, i};
        if (is_drained(w))
            ret_list[n++] = (struct choice){MOVE_END_DRAIN, i};
    }
    for (uint32_t i = 0; i < s->n_live; i++) {
        if (call_can_step(&s->calls[s->live[i]]))
            ret_list[n++] = (struct choice){MOVE_STEP, s->live[i]};
    }
    for (uint32_t i = 0; i < s->n_nodes && s->n_workers < WORKERS_MAX; i++) {
        if (count_replicas(s, i) < s->nodes[i].wanted)
            ret_list[n++] = (struct choice){MOVE_SPAWN, i};
    }
    return n;
}

static void make_move(struct sim *s, const struct choice *m)
{
    switch (m->move) {
    case MOVE_TO_WORKER:
        worker_receive(s, s->workers[m->n]);
        break;
    case MOVE_TO_CORE:
        hear(s, s->workers[m->n]);
        break;
    case MOVE_STEP:
        call_step(s, &s->calls[m->n]);
        break;
    case MOVE_SPAWN:
        worker_add(s, m->n);
        break;
    default:
        worker_kill(s, s->workers[m->n]);
    }
}

/* --- trouble --- */

static bool take(uint32_t *left)
{
    *left -= *left > 0;
    return true;
}

static void set_down(struct sim *s, struct node *n, bool down)
{
    trace(s, "deployment %u: down %d", (uint32_t)(n - s->nodes), down);
    n->down = down;
    as_deployment_set_down(n->d, down, s->now);
}

static void trouble(struct sim *s)
{
    struct worker *w = some_worker(s);
    struct node *n = &s->nodes[below(s, s->n_nodes)];

    switch (below(s, 5)) {
    case 0:
        if (s->kills && w && take(&s->kills))
            worker_kill(s, w);
        break;
    case 1:
        if (s->drains && w && !w->draining && take(&s->drains)) {
            trace(s, "a worker of deployment %u drains", w->deployment);
            w->draining = true;
            s->tally.drains++;
            as_replica_drain(w->replica, true, s->now);
        }
        break;
    case 2:
        if (s->leaves && s->n_live && take(&s->leaves)) {
            struct call *c = &s->calls[s->live[below(s, s->n_live)]];

            if (c->parent == NOBODY) {
                s->tally.left++;
                cancel_call(s, c);
            }
        }
        break;
    case 3:
        if (s->downs && take(&s->downs))
            set_down(s, n, true);
        else if (n->down)
            set_down(s, n, false);
        break;
    default:
        if (s->grants && w && take(&s->grants))
            worker_grant(s, w, 1 + below(s, 3));
    }
}

/* --- checks --- */

static void check_worker(struct sim *s, const struct worker *w)
{
    uint32_t held =
        w->replica ? as_replica_unanswered(w->replica) - as_replica_beyond(w->replica) : 0;

    if (w->running > w->slots)
        fail(s, "a worker of deployment %u runs %u with %u slots", w->deployment, w->running,
             w->slots);
    if (w->granted && held > w->granted + w->prefetch)
        fail(s, "a worker of deployment %u holds %u", w->deployment, held);
}

static void check(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (!as_deployment_ok(s->nodes[i].d))
            fail(s, "the invariants of deployment %u do not hold", i);
    }
    for (uint32_t i = 0; s->fixed && i < s->n_workers; i++)
        check_worker(s, s->workers[i]);
}

static void check_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct as_deployment *d = s->nodes[i].d;
        const struct as_stat *t = as_deployment_stat(d);

        if (as_deployment_queued(d) || as_deployment_prefetched(d) || as_deployment_ongoing(d) ||
            as_deployment_beyond(d) || as_deployment_parked(d))
            fail(s, "deployment %u: its counters are not zero", i);
        if (t->accepted != t->completed + t->failed + t->expired + t->cancelled)
            fail(s, "deployment %u: its statistics do not add up", i);
        s->tally.replayed += t->replayed;
        if (!as_deployment_ok(d))
            fail(s, "the invariants of deployment %u do not hold", i);
    }
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *w = s->workers[i];

        if (w->alive && (w->running || w->n_waiting))
            fail(s, "worker %u still runs %u", i, w->running);
    }
}

/* --- the run --- */

static void begin_world(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct node *n = &s->nodes[i];
        struct as_deployment_conf conf = {.max_queued = n->max_queued,
                                          .router = AS_ROUTER_CONF_DEFAULT,
                                          .prefetch_work = 10,
                                          .seed = s->seed + i,
                                          .retry = {.attempts = 3, .percent = 10, .least = 3}};

        n->s = s;
        if (as_deployment_new(&n->d, AS_STR("sim"), &conf, &ops, n))
            fail(s, "no deployment");
    }
}

static void end_world(struct sim *s)
{
    /* after a failure requests may be left: they are answered, which must not fail again */
    for (uint32_t i = 0; i < s->n_nodes; i++)
        as_deployment_free(s->nodes[i].d);
    for (uint32_t i = 0; i < s->n_workers; i++)
        worker_free(s->workers[i]);
    as_call_graph_fini(&s->graph);
}

static void pass_time(struct sim *s)
{
    s->now += below(s, 4);
    for (uint32_t i = 0; s->deadlines && i < s->n_nodes; i++) {
        if (as_deployment_next_deadline(s->nodes[i].d) <= s->now)
            as_deployment_expire(s->nodes[i].d, s->now);
    }
}

bool run(struct sim *s)
{
    struct choice list[3 * WORKERS_MAX + CALLS_MAX + DEPLOYMENTS_MAX];

    s->now = 1;
    draw_scenario(s);
    begin_world(s);
    while (!s->failed && (s->roots || s->n_live)) {
        uint32_t n = list_moves(s, list);

        s->tally.steps++;
        if (!n && s->n_live) {
            s->deadlocked = true;
            fail(s, "%u requests wait for each other", s->n_live);
            break;
        }
        if (s->roots && (!n || chance(s, 200)) && s->n_calls < CALLS_MAX) {
            s->roots--;
            submit(s, below(s, s->n_nodes), NOBODY);
        } else if (n) {
            make_move(s, &list[below(s, n)]);
        } else {
            s->roots = 0;
        }
        if (chance(s, 100))
            trouble(s);
        pass_time(s);
        if (s->careful)
            check(s);
    }
    while (!s->failed) { /* what is still under way arrives */
        uint32_t n = list_moves(s, list);

        if (!n)
            break;
        make_move(s, &list[0]);
    }
    if (!s->failed)
        check_end(s);
    end_world(s);
    return !s->failed;
}
