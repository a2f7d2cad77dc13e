/* A simulated worker: starts what its slots allow in the order of arrival, and what is beyond them
 * at once. A request that runs makes calls, waits for them, and ends. */
#include "calls.h"

void worker_add(struct sim *s, uint32_t deployment)
{
    const struct node *n = &s->nodes[deployment];
    struct worker *w;

    if (s->n_workers == WORKERS_MAX)
        return;
    w = as_xalloc(sizeof(*w));
    w->deployment = deployment;
    w->alive = true;
    w->next_stream = 1;
    if (as_replica_new(&w->replica, n->d, w))
        fail(s, "no replica");
    trace(s, "worker %u of deployment %u", s->n_workers, deployment);
    s->workers[s->n_workers++] = w;
    worker_grant(s, w, n->slots);
}

void worker_free(struct worker *w)
{
    free(w->in.p);
    free(w->out.p);
    free(w);
}

void worker_grant(struct sim *s, struct worker *w, uint32_t slots)
{
    trace(s, "worker of deployment %u grants %u", w->deployment, slots);
    w->slots = slots;
    w->prefetch = s->nodes[w->deployment].prefetch;
    pipe_put(&w->out, M_GRANT, slots, 0);
}

static void begin(struct sim *s, struct worker *w, struct call *c)
{
    c->run = RUN_RUNS;
    c->executions++;
    draw_execution(s, c);
    w->last_started = AS_MAX(w->last_started, c->q.stream);
    w->running += !c->q.beyond;
    trace(s, "call %u runs%s, and makes %u calls", (uint32_t)(c - s->calls),
          c->q.beyond ? " beyond the slots" : "", c->to_make);
}

static void start(struct sim *s, struct worker *w)
{
    while (w->running < w->slots && w->n_waiting) {
        struct call *c = &s->calls[w->waiting[0]];

        memmove(w->waiting, w->waiting + 1, --w->n_waiting * sizeof(w->waiting[0]));
        begin(s, w, c);
    }
}

static bool unqueue(struct worker *w, uint32_t call)
{
    for (uint32_t i = 0; i < w->n_waiting; i++) {
        if (w->waiting[i] != call)
            continue;
        memmove(w->waiting + i, w->waiting + i + 1, (--w->n_waiting - i) * sizeof(w->waiting[0]));
        return true;
    }
    return false;
}

static void leave_slot(struct sim *s, struct worker *w, struct call *c)
{
    w->running -= !c->q.beyond;
    c->run = RUN_NONE;
    start(s, w);
}

static void hear_open(struct sim *s, struct worker *w, const struct message *m)
{
    struct call *c = &s->calls[m->call];

    if (chance(s, s->refuses)) {
        pipe_put(&w->out, M_RETRY, m->call, m->stream);
        return;
    }
    c->run = RUN_WAITS;
    if (c->q.beyond) {
        begin(s, w, c);
        return;
    }
    w->waiting[w->n_waiting++] = m->call;
    start(s, w);
}

static void hear_cancel(struct sim *s, struct worker *w, const struct message *m)
{
    struct call *c = &s->calls[m->call];

    if (c->run == RUN_WAITS) {
        unqueue(w, m->call);
        c->run = RUN_NONE;
        pipe_put(&w->out, M_DONE, m->call, m->stream);
    } else if (c->run == RUN_RUNS && chance(s, s->stops)) {
        cancel_children(s, m->call);
        pipe_put(&w->out, M_DONE, m->call, m->stream);
        leave_slot(s, w, c);
    }
}

void worker_receive(struct sim *s, struct worker *w)
{
    struct message m = w->in.p[w->in.head++];
    struct call *c = &s->calls[m.call];
    /* it is not here any more: it was answered while the message was on its way */
    bool here = m.type == M_OPEN || m.type == M_RECALL_END ||
                (c->run != RUN_NONE && c->q.stream == m.stream && c->q.replica == w->replica);

    if (!here)
        return;
    if (m.type == M_OPEN) {
        hear_open(s, w, &m);
    } else if (m.type == M_CANCEL) {
        hear_cancel(s, w, &m);
    } else if (m.type == M_RECALL_END) {
        pipe_put(&w->out, M_RECALL_END, 0, 0);
    } else if (c->run == RUN_WAITS && unqueue(w, m.call)) {
        c->run = RUN_NONE;
        pipe_put(&w->out, M_RETURNED, m.call, m.stream);
    }
}

/* --- what runs --- */

bool call_can_step(const struct call *c)
{
    if (c->run != RUN_RUNS)
        return false;
    return c->made < c->to_make ? c->open < c->at_once : !c->awaits || !c->open;
}

void call_step(struct sim *s, struct call *c)
{
    uint32_t n = (uint32_t)(c - s->calls), targets = s->nodes[c->deployment].calls, to;
    struct worker *w = s->workers[c->worker];

    if (c->made < c->to_make && s->n_calls < CALLS_MAX) {
        do
            to = below(s, s->n_nodes);
        while (!(targets >> to & 1u));
        c->made++;
        submit(s, to, n);
        return;
    }
    c->made = c->to_make;
    if (c->awaits && c->open)
        return;
    trace(s, "call %u ends", n);
    pipe_put(&w->out, M_DONE, n, c->q.stream);
    leave_slot(s, w, c);
}

/* What it has not sent yet may be lost. */
void worker_kill(struct sim *s, struct worker *w)
{
    trace(s, "a worker of deployment %u dies", w->deployment);
    w->alive = false;
    w->in.n = w->in.head = 0;
    while (w->out.n > w->out.head && chance(s, 500))
        w->out.n--;
    pipe_put(&w->out, M_DEATH, 0, 0);
    s->tally.deaths++;
}
