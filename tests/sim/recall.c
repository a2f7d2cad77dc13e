/* Recalls: what a recall may ask for, and that one runs when it is due. */
#include "sim.h"

/* Could c be recalled, in addition to the calls under recall and `more` of its model? */
static bool recallable(const struct sim *s, const struct call *c, uint32_t more)
{
    if (c->answered || c->cancelled || c->recalled || c->kept_by_worker || c->reserves || c->twin)
        return false;
    if (s->scenario.batched)
        return fits_a_slot(s, c);
    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *o = &s->calls[s->live[i]];

        more += o->recalled && o->q.model == c->q.model;
    }
    return room_of_model(s, c) > more;
}

static uint32_t idle_slots(const struct sim *s) /* without those that a recall will fill */
{
    uint32_t idle = 0, coming = 0;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *w = s->workers[i];

        idle += w->registered ? idle_of(w, front_calls(s, w)) : 0;
        coming += w->registered ? w->recalled : 0;
    }
    return idle > coming ? idle - coming : 0;
}

/* A recall must ask for the newest calls that may be recalled, in stream order, from the worker at
 * which most wait. */
void note_recall(struct sim *s, struct worker *w, struct as_request *const *q, uint32_t n)
{
    uint32_t left = n, last = n - 1, calls = 1, more[MODELS_MAX] = {0};
    bool waiting[CALLS_MAX];

    if (s->freeing)
        fail(s, "recall from worker %u, and the deployment ends", w->number);
    for (uint32_t i = 1; i < n; i++) {
        const struct call *a = AS_CONTAINER(q[i - 1], struct call, q);
        const struct call *b = AS_CONTAINER(q[i], struct call, q);

        calls += !a->batch || a->batch != b->batch;
        last = calls > 1 ? last : i;
    }
    /* at most as many as there are free slots, and the rest of a batch */
    if (w->recalling || !n || n - (s->scenario.batched ? last : 0) > idle_slots(s))
        fail(s, "recall of %u from worker %u is wrong", n, w->number);
    find_waiting(s, w, waiting);
    for (uint32_t k = w->n_bound; left && k > 0; k--) {
        struct call *c = &s->calls[w->bound[k - 1]];

        if (!waiting[k - 1] || !recallable(s, c, more[c->q.model]))
            continue;
        more[c->q.model]++;
        if (&c->q != q[--left])
            fail(s, "call %u should be recalled", w->bound[k - 1]);
    }
    if (left)
        fail(s, "recall from worker %u asks for more than waits there", w->number);
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *o = s->workers[i];

        if (o->recalling || prefetched_calls(s, o) <= prefetched_calls(s, w))
            continue;
        find_waiting(s, o, waiting);
        for (uint32_t k = 0; k < o->n_bound; k++) {
            if (waiting[k] && recallable(s, &s->calls[o->bound[k]], 0))
                fail(s, "recall from worker %u, more waits at %u", w->number, i);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        AS_CONTAINER(q[i], struct call, q)->recalled = true;
    w->recalling = true;
    w->recalled = n;
    s->expected.recalled += n;
}

void check_recalls(struct sim *s)
{
    uint32_t idle = idle_slots(s);

    for (uint32_t i = 0; idle && i < s->n_workers; i++) {
        const struct worker *w = s->workers[i];
        bool waiting[CALLS_MAX];

        if (!w->registered || w->recalling)
            continue;
        find_waiting(s, w, waiting);
        for (uint32_t k = 0; k < w->n_bound; k++) {
            if (waiting[k] && recallable(s, &s->calls[w->bound[k]], 0))
                fail(s, "call %u is not recalled from worker %u, slots are idle", w->bound[k],
                     w->number);
        }
    }
}
