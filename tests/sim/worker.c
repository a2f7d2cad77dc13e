/* A simulated worker: it starts streams in the order of their arrival, at most `slots` at once and
 * of each model at most its cap, and answers each. A stream is either started or returned, as the
 * link protocol requires. */
#include "sim.h"

uint32_t worker_new(struct sim *s)
{
    struct worker *w;

    if (s->n_workers == WORKERS_MAX)
        return NOBODY;
    w = as_xalloc(sizeof(*w));
    w->number = s->n_workers;
    w->alive = true;
    w->habits = draw_habits(s);
    w->next_stream = 1;
    s->workers[s->n_workers++] = w;
    return w->number;
}

static void free_pipe(struct pipe *p)
{
    while (p->head) {
        struct message *m = p->head;

        p->head = m->next;
        free(m);
    }
    p->tail = NULL;
}

void worker_free(struct worker *w)
{
    free_pipe(&w->to_worker);
    free_pipe(&w->to_core);
    free(w->streams);
    free(w->queue);
    free(w->bound);
    free(w);
}

static struct stream *stream_of(struct worker *w, uint64_t id)
{
    AS_ASSERT(id % 2 == 1 && id / 2 < w->n_streams);
    return &w->streams[id / 2];
}

static void answer(struct sim *s, struct worker *w, uint64_t id, as_ns service, bool retry)
{
    struct stream *t = stream_of(w, id);
    struct message *m = message_new(M_DONE, 0);

    AS_ASSERT(t->state != S_ENDED);
    t->state = S_ENDED;
    m->stream = id;
    m->call = t->call;
    m->service = service;
    m->flag = retry;
    m->lost = !retry && chance(s, w->habits.loses);
    m->failed = !retry && chance(s, w->habits.fails);
    send_message(s, w, true, m);
}

/* --- starting --- */

/* Starts one stream of a call: the one at that index of the queue. */
static void start_stream(struct sim *s, struct worker *w, uint32_t place, as_ns finish_at)
{
    uint64_t id = w->queue[place];
    struct stream *t = stream_of(w, id);
    struct call *c = &s->calls[t->call];

    memmove(w->queue + place, w->queue + place + 1, (--w->n_queue - place) * sizeof(w->queue[0]));
    w->last_started = AS_MAX(w->last_started, id);
    t->state = S_RUNNING;
    t->ran = true;
    t->started = s->now;
    t->finish_at = finish_at;
    trace(s, "worker %u starts call %u", w->number, t->call);
    if (c->runs++ && (!c->q.idempotent || c->q.is_mirror)) /* a mirrored copy is not retried */
        fail(s, "call %u runs twice", t->call);
    if (!harm_begins(s, w, id))
        schedule(s, t->finish_at, E_FINISH, w->number, id);
}

/* Starts what is at that index of the queue: a stream, or all of a batch that are still there. */
static void start_one(struct sim *s, struct worker *w, uint32_t place)
{
    struct stream *t = stream_of(w, w->queue[place]);
    struct stream *head = stream_of(w, t->first);
    uint64_t end = t->first + 2 * (uint64_t)t->size;
    uint32_t cap = s->scenario.cap[t->model];
    as_ns finish_at = s->now + between(s, w->habits.service_lo, w->habits.service_hi);

    while (place < w->n_queue && w->queue[place] < end) {
        if (s->calls[stream_of(w, w->queue[place])->call].q.model != t->model)
            fail(s, "worker %u gets a batch of two models", w->number);
        start_stream(s, w, place, finish_at);
        head->live++;
    }
    if (t->beyond)
        return;
    w->running++;
    w->of_model[t->model]++;
    if (w->running > w->habits.slots)
        fail(s, "worker %u runs %u with %u slots", w->number, w->running, w->habits.slots);
    if (cap && w->of_model[t->model] > cap)
        fail(s, "worker %u runs %u of model %u, capped at %u", w->number, w->of_model[t->model],
             t->model, cap);
}

/* Has the last stream of the batch come? */
static bool is_whole(const struct worker *w, const struct stream *t)
{
    return t->first / 2 + t->size <= w->n_streams;
}

/* The index of the oldest stream that may start; skips those that wait for their model's cap. */
static bool find_next(const struct sim *s, const struct worker *w, uint32_t *ret_place)
{
    bool blocked = !w->habits.eager && w->running >= w->slots;

    for (uint32_t i = 0; i < w->n_queue; i++) {
        const struct stream *t = &w->streams[w->queue[i] / 2];
        uint32_t cap = s->scenario.cap[t->model];

        *ret_place = i;
        if (t->beyond)
            return true;
        blocked = blocked || !is_whole(w, t);
        if (!blocked && (w->habits.eager || !cap || w->of_model[t->model] < cap))
            return true;
    }
    return false;
}

void worker_start(struct sim *s, struct worker *w)
{
    uint32_t place;

    w->start_due = false;
    while (w->alive && !w->stalled && find_next(s, w, &place))
        start_one(s, w, place);
}

static void start_soon(struct sim *s, struct worker *w)
{
    if (!w->n_queue || w->start_due)
        return;
    if (!w->habits.start_delay) {
        worker_start(s, w);
        return;
    }
    w->start_due = true;
    schedule(s, s->now + between(s, 0, w->habits.start_delay), E_START, w->number, 0);
}

void worker_finish(struct sim *s, struct worker *w, uint64_t id)
{
    struct stream *t = stream_of(w, id);
    as_ns ran = s->now - t->started;

    if (!w->alive || w->stalled || t->state != S_RUNNING || t->finish_at != s->now)
        return;
    if (--stream_of(w, t->first)->live == 0 && !t->beyond) {
        w->running--;
        w->of_model[t->model]--;
    }
    answer(s, w, id, chance(s, w->habits.silent) ? 0 : ran, false);
    start_soon(s, w);
}

/* --- messages from the link --- */

static void hear_open(struct sim *s, struct worker *w, const struct message *m)
{
    AS_ASSERT(m->stream == 2 * (uint64_t)w->n_streams + 1);
    if (w->n_streams == w->cap_streams) {
        w->cap_streams = w->cap_streams ? 2 * w->cap_streams : 64;
        w->streams = as_xrealloc(w->streams, w->cap_streams * sizeof(w->streams[0]));
    }
    w->streams[w->n_streams++] = (struct stream){.call = m->call,
                                                 .model = s->calls[m->call].q.model,
                                                 .beyond = m->beyond,
                                                 .first = m->size ? m->first : m->stream,
                                                 .size = m->size ? m->size : 1};
    if (chance(s, w->habits.refuse)) {
        answer(s, w, m->stream, 0, true);
        start_soon(s, w); /* a batch may be complete now */
        return;
    }
    if (w->n_queue == w->cap_queue) {
        w->cap_queue = w->cap_queue ? 2 * w->cap_queue : 64;
        w->queue = as_xrealloc(w->queue, w->cap_queue * sizeof(w->queue[0]));
    }
    w->queue[w->n_queue++] = m->stream;
    start_soon(s, w);
}

/* Removes a waiting stream from the queue. */
static void unqueue(struct worker *w, uint64_t id)
{
    uint32_t i = 0;

    while (w->queue[i] != id)
        i++;
    memmove(w->queue + i, w->queue + i + 1, (--w->n_queue - i) * sizeof(w->queue[0]));
}

static void hear_cancel(struct sim *s, struct worker *w, const struct message *m)
{
    struct stream *t = stream_of(w, m->stream);

    if (t->state == S_ENDED || !chance(s, w->habits.cancel_stop))
        return;
    if (t->state == S_WAITING) {
        unqueue(w, m->stream);
        answer(s, w, m->stream, 0, false);
    } else {
        t->finish_at = s->now;
        schedule(s, s->now, E_FINISH, w->number, m->stream);
    }
}

static void hear_recall(struct sim *s, struct worker *w, const struct message *m)
{
    struct message *back = message_new(M_RETURNED, m->n);

    back->n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        struct stream *t = stream_of(w, m->ids[i]);

        if (t->state != S_WAITING || chance(s, w->habits.stubborn))
            continue;
        unqueue(w, m->ids[i]);
        t->state = S_ENDED;
        back->ids[back->n++] = m->ids[i];
    }
    trace(s, "worker %u returns %u of %u", w->number, back->n, m->n);
    send_message(s, w, true, back);
}

void worker_receive(struct sim *s, struct worker *w, struct message *m)
{
    if (!w->alive)
        return;
    if (m->type == M_OPEN)
        hear_open(s, w, m);
    else if (m->type == M_CANCEL)
        hear_cancel(s, w, m);
    else
        hear_recall(s, w, m);
}

void worker_grant(struct sim *s, struct worker *w, uint32_t slots, uint32_t prefetch)
{
    struct message *m = message_new(M_GRANT, 0);

    trace(s, "worker %u grants %u slots, %u prefetch", w->number, slots, prefetch);
    w->slots = slots;
    m->slots = slots;
    m->prefetch = prefetch;
    send_message(s, w, true, m);
    start_soon(s, w);
}

/* Messages from it may be lost from any point on; messages to it are lost. */
void worker_serve(struct sim *s, struct worker *w, uint32_t model, bool serves)
{
    if (w->lacks[model] != serves)
        return;
    trace(s, "worker %u %s model %u", w->number, serves ? "gets" : "loses", model);
    w->lacks[model] = !serves;
    as_replica_set_model(w->replica, model, serves, s->now);
}

void worker_kill(struct sim *s, struct worker *w)
{
    struct message *m = w->to_core.head;

    trace(s, "worker %u dies, last started %llu", w->number, (unsigned long long)w->last_started);
    w->alive = false;
    free_pipe(&w->to_worker);
    while (m && chance(s, 700))
        m = m->next;
    if (m) {
        while (m->next) {
            struct message *lost = m->next;

            m->next = lost->next;
            free(lost);
        }
        w->to_core.tail = m;
    }
    if (chance(s, 300)) { /* core sees the broken link before the dead process */
        m = message_new(M_DRAIN, 0);
        m->flag = true;
        send_message(s, w, true, m);
    }
    send_message(s, w, true, message_new(M_DEATH, 0));
    schedule(s, s->now + between(s, 0, 200 * AS_US), E_SPAWN, 0, 0);
}
