/* Calls that reserve a slot first: their clients use it, leave, or forget it, and what the oracle
 * expects of that. */
#include "sim.h"

#define PICK(s, ...)                                                                               \
    ((const as_ns[]){__VA_ARGS__}[below(s, (uint32_t)AS_COUNT(((as_ns[]){__VA_ARGS__})))])

void draw_reservations(struct sim *s)
{
    struct scenario *i = &s->scenario;
    uint32_t reserving = (uint32_t)PICK(s, 50, 500, 1000);

    i->reserve_time = PICK(s, 0, 1, 20 * AS_US, 200 * AS_US, 2 * AS_MS);
    for (uint32_t n = 0; n < i->n_calls; n++) {
        struct call *c = &s->calls[n];

        if (i->batch[c->q.model].max_size || !chance(s, reserving))
            continue;
        c->reserves = true;
        c->q.reservation = AS_RESERVATION_WANTED;
        c->q.has_fallback = c->q.is_mirror = false;
    }
}

static uint32_t number_of(const struct sim *s, const struct call *c)
{
    return (uint32_t)(c - s->calls);
}

void op_reserved(void *ctx, struct as_replica *r, struct as_request *q)
{
    struct sim *s = ctx;
    struct worker *w = as_replica_link(r);
    struct call *c = AS_CONTAINER(q, struct call, q);
    as_ns slow = s->scenario.reserve_time ? 2 * s->scenario.reserve_time : 100 * AS_US;
    as_ns when = s->now + between(s, 0, chance(s, 500) ? slow : slow / 8);

    trace(s, "call %u has a slot of worker %u", number_of(s, c), w->number);
    if (!c->reserves || c->held || c->sends)
        fail(s, "call %u reserves twice", number_of(s, c));
    update_places(s);
    note_sent(s, w, c);
    c->held = true;
    c->held_at = s->now;
    c->own_deadline = c->q.deadline_then;
    s->expected.reserved++;
    if (chance(s, 800))
        schedule(s, when, E_USE, number_of(s, c), 0);
    else if (!s->scenario.reserve_time || chance(s, 500))
        schedule(s, when, E_CANCEL, number_of(s, c), 0);
}

void use_reservation(struct sim *s, uint32_t n)
{
    struct call *c = &s->calls[n];

    if (!c->held)
        return;
    trace(s, "call %u uses its slot", n);
    c->is_used = true;
    as_deployment_dispatch_reserved(s->d, &c->q, s->now);
    c->is_used = false;
    if (c->held)
        fail(s, "call %u is not sent, and not answered", n);
}

void note_used(struct sim *s, struct worker *w, struct call *c)
{
    uint32_t i = 0;

    if (!c->is_used || !c->held || c->state != BOUND || c->worker != w->number)
        fail(s, "call %u is sent, and was not to be sent there", number_of(s, c));
    if (c->q.deadline <= s->now || c->q.deadline != c->own_deadline)
        fail(s, "call %u is sent after its deadline, or has another one", number_of(s, c));
    if (w->lacks[c->q.model] || (w->draining && !c->beyond))
        fail(s, "call %u is sent to worker %u, which does not take it", number_of(s, c), w->number);
    if (s->scenario.strict && c->poison && s->scenario.poison[c->poison - 1].known)
        fail(s, "call %u is sent, and a call like it has ended a worker", number_of(s, c));
    while (w->bound[i] != number_of(s, c))
        i++;
    memmove(w->bound + i, w->bound + i + 1, (w->n_bound - 1 - i) * sizeof(w->bound[0]));
    w->bound[w->n_bound - 1] = number_of(s, c); /* in stream order */
    c->held = false;
    c->stream = c->q.stream;
    c->sent_at = s->now;
    s->expected.used++;
}

bool may_end_reserved(const struct sim *s, const struct call *c, int err)
{
    const struct worker *w = s->workers[c->worker];

    if (!c->reserves || !c->sends)
        return false;
    if (err == AS_EUNUSED)
        return c->held && s->scenario.reserve_time &&
               s->now >= c->held_at + s->scenario.reserve_time;
    if (err == AS_ESUSPECT)
        return c->is_used && may_be_suspect(s);
    if (err != AS_EREPLICA)
        return false;
    /* its worker has died before it ran */
    return (c->state == WAITING && !w->registered && !c->runs) || c->state == PARKED ||
           (c->held && (w->draining || as_replica_breaker(w->replica) == AS_BREAKER_OPEN)) ||
           (c->is_used && w->lacks[c->q.model]);
}

void check_reservations(struct sim *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *c = &s->calls[s->live[i]];
        as_ns limit = c->held_at + s->scenario.reserve_time;

        n += c->held;
        if (!c->held)
            continue;
        if (!s->scenario.reserve_time)
            limit = AS_NEVER;
        if (c->q.deadline != AS_MIN(limit, c->own_deadline))
            fail(s, "call %u may have its slot for another time", s->live[i]);
        if (limit != AS_NEVER && s->now > limit + s->scenario.timer_late + 1)
            fail(s, "call %u has its slot for too long", s->live[i]);
        if (s->workers[c->worker]->draining && !c->beyond)
            fail(s, "call %u has a slot of worker %u, which drains", s->live[i], c->worker);
    }
    if (n != as_deployment_reserved(s->d))
        fail(s, "the number of reservations is wrong");
}
