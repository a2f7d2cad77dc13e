/* A model of what must be true after every event. It uses only what core asked for and what workers
 * answered, and does not look into core. */
#include "sim.h"

static uint32_t number_of(const struct sim *s, const struct call *c)
{
    return (uint32_t)(c - s->calls);
}

static bool waits(const struct call *c) /* a client waits for it */
{
    return !c->answered && !c->cancelled;
}

/* a must go before b, in a lane. */
static bool passes(const struct call *a, const struct call *b)
{
    return a->q.priority != b->q.priority ? a->q.priority < b->q.priority : is_older(a, b);
}

static uint32_t count_waiting(const struct sim *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_live; i++)
        n += s->calls[s->live[i]].state == WAITING;
    return n;
}

static uint32_t count_prefetched(const struct sim *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_workers; i++)
        n += prefetched_calls(s, s->workers[i]);
    return n;
}

/* --- lanes --- */

static const struct as_batch_conf *batching(const struct sim *s, const struct call *c)
{
    const struct as_batch_conf *b = &s->scenario.batch[c->q.model];

    return b->max_size ? b : NULL;
}

static bool same_lane(const struct call *a, const struct call *b)
{
    return a->q.model == b->q.model && a->q.kind == b->q.kind;
}

static bool in_lane(const struct sim *s, const struct call *o, const struct call *c)
{
    return same_lane(o, c) && o->state == WAITING && waits(o) && !o->doomed && !o->q.blame &&
           o->q.deadline > s->now;
}

static uint32_t enough(const struct as_batch_conf *b)
{
    return b->n_preferred ? b->preferred[0] : b->max_size;
}

bool is_due(const struct sim *s, const struct call *c, as_ns late)
{
    const struct as_batch_conf *b = batching(s, c);
    uint32_t items = 0;

    if (!b)
        return true;
    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *o = &s->calls[s->live[i]];

        /* core may refuse the one that is submitted */
        if (!in_lane(s, o, c) || (late && o == s->submitting))
            continue;
        items += o->q.items;
        if (o->sends || o->was_suspect || o->release + late <= s->now || !b->max_wait)
            return true;
    }
    return items >= enough(b);
}

/* Waiting may take half of the time that the handler leaves before the deadline. */
static as_ns release_of(const struct sim *s, const struct call *c)
{
    const struct as_batch_conf *b = batching(s, c);
    as_ns service = as_deployment_batch_service(s->d, c->q.model), half = 0;

    if (c->q.deadline == AS_NEVER)
        return s->now + b->max_wait;
    if (c->q.deadline > s->now + service)
        half = (c->q.deadline - s->now - service) / 2;
    if (half >= b->max_wait)
        return s->now + b->max_wait;
    return service ? s->now + half : s->now;
}

/* Would it be sent at once if it were in a lane with the others? */
static bool would_be_due(const struct sim *s, const struct call *c)
{
    const struct as_batch_conf *b = batching(s, c);
    uint32_t items = c->q.items;

    if (!b || release_of(s, c) <= s->now)
        return true;
    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *o = &s->calls[s->live[i]];

        /* includes calls whose deadline has passed unnoticed: they make room then */
        if (same_lane(o, c) && o->state == WAITING && waits(o) && !o->q.blame)
            items += o->q.items;
    }
    return items >= enough(b);
}

/* Some worker serves calls like c, though it may be full. */
static bool serves(const struct sim *s, const struct call *c)
{
    if (s->freeing) /* replicas are removed one by one */
        return false;
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *w = s->workers[i];

        if (w->registered && w->granted && !w->draining && !w->lacks[c->q.model] &&
            as_replica_breaker(w->replica) != AS_BREAKER_OPEN)
            return true;
    }
    return false;
}

bool fits_a_slot(const struct sim *s, const struct call *c)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (has_slot(s, s->workers[i]) && can_execute(s, s->workers[i], c))
            return true;
    }
    return false;
}

/* With fairness a tenant may not take more than half of what others leave. */
static bool is_full(const struct sim *s, const struct call *c)
{
    int64_t room = s->scenario.max_queued - count_waiting(s) - count_prefetched(s);

    return s->scenario.max_queued >= 0 && (room <= 0 || waiting_of_tenant(s, c) >= room);
}

int expect_submit(const struct sim *s, const struct call *c)
{
    if (c->q.is_mirror && (s->down || is_full(s, c) || !fits_a_slot(s, c)))
        return AS_EFULL;
    if (c->q.has_fallback && !serves(s, c))
        return AS_EUNAVAILABLE;
    if (s->down)
        return AS_EUNAVAILABLE;
    if (c->q.deadline <= s->now)
        return AS_EDEADLINE;
    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (goes_beyond(s, c) ? can_send(s, s->workers[i], c)
                              : has_slot(s, s->workers[i]) && can_execute(s, s->workers[i], c) &&
                                    would_be_due(s, c))
            return 0;
    }
    return is_full(s, c) ? AS_EFULL : 0;
}

/* --- the life of a call --- */

void note_accepted(struct sim *s, struct call *c)
{
    c->accepted = true;
    c->state = WAITING;
    c->order = ++s->last_order;
    c->root = c->q.root ? c->q.root : s->now;
    c->release = batching(s, c) ? release_of(s, c) : 0;
    c->accepted_at = c->placed_at = s->now;
    c->always_had_slot = true;
    c->live_at = s->n_live;
    s->live[s->n_live++] = number_of(s, c);
    s->expected.accepted++;
    s->next_wake = AS_MIN(s->next_wake, c->q.deadline);
}

void note_refused(struct sim *s, struct call *c)
{
    uint32_t last = s->live[--s->n_live];

    AS_ASSERT(c->state == WAITING);
    s->live[c->live_at] = last;
    s->calls[last].live_at = c->live_at;
    c->accepted = false;
    c->state = FREE;
    s->last_order--;
    s->expected.accepted--;
}

void note_released(struct sim *s, struct call *c)
{
    uint32_t last = s->live[--s->n_live];

    if (c->released || c->state == BOUND)
        fail(s, "call %u is released %s", number_of(s, c), c->released ? "twice" : "while sent");
    s->live[c->live_at] = last;
    s->calls[last].live_at = c->live_at;
    c->state = FREE;
    c->released = true;
}

void note_unbound(struct sim *s, struct call *c)
{
    struct worker *w = s->workers[c->worker];
    uint32_t i = 0;

    AS_ASSERT(c->state == BOUND);
    note_left(s, w, c, false);
    while (w->bound[i] != number_of(s, c))
        i++;
    memmove(w->bound + i, w->bound + i + 1, (--w->n_bound - i) * sizeof(w->bound[0]));
    w->recalled -= c->recalled;
    c->recalled = c->kept_by_worker = c->beyond = c->held = false;
    c->batch = 0;
    c->placed_at = s->now;
    c->state = WAITING;
}

/* The next call of the lane of c that is not in batch `than`. */
static const struct call *next_in_lane(const struct sim *s, const struct call *c)
{
    const struct call *best = NULL;

    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *o = &s->calls[s->live[i]];

        if (in_lane(s, o, c) && (!best || passes(o, best)))
            best = o;
    }
    return best;
}

/* The size of a batch that begins with c: then calls of its lane in order, as many as fit; 0 if
 * nothing of its lane waits. */
static uint32_t fill_of(const struct sim *s, const struct call *c)
{
    const struct as_batch_conf *b = batching(s, c);
    const struct call *list[CALLS_MAX];
    uint32_t n = 0, items = 0, limit = b->max_size, k;

    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *o = &s->calls[s->live[i]];

        if (!in_lane(s, o, c))
            continue;
        items += o->q.items;
        for (k = n++; k > 0 && (o == c || (list[k - 1] != c && passes(o, list[k - 1]))); k--)
            list[k] = list[k - 1];
        list[k] = o;
    }
    for (uint32_t i = 0; i < b->n_preferred; i++)
        limit = b->preferred[i] <= items ? b->preferred[i] : i ? limit : b->max_size;
    if (!n)
        return 0;
    items = list[0]->q.items;
    for (k = 1; k < n && items + list[k]->q.items <= limit; k++)
        items += list[k]->q.items;
    return k;
}

void note_batch(struct sim *s, struct worker *w, uint32_t n)
{
    if (!s->scenario.batched || !has_slot(s, w))
        fail(s, "worker %u has no slot for a batch of %u", w->number, n);
    s->expected.members += n;
}

/* A further member of a batch: it must be the next of its lane. */
static void check_member(struct sim *s, const struct worker *w, const struct call *c)
{
    const struct call *before = &s->calls[w->bound[w->n_bound - 1]];

    if (!same_lane(before, c) || before->batch != w->batch)
        fail(s, "call %u does not fit its batch", number_of(s, c));
    if (c->state != WAITING || !waits(c) || c->doomed || c->q.deadline <= s->now ||
        (!s->scenario.n_tenants && next_in_lane(s, c) != c))
        fail(s, "call %u is not the next for its batch", number_of(s, c));
    if (c->runs && !c->q.idempotent)
        fail(s, "call %u is sent again and has run", number_of(s, c));
}

static void check_send(struct sim *s, const struct worker *w, struct call *c)
{
    uint32_t n = number_of(s, c);

    if (c->state != WAITING || !waits(c) || c->doomed)
        fail(s, "call %u is sent and does not wait", n);
    if (c->q.deadline <= s->now)
        fail(s, "call %u is sent after its deadline", n);
    if (c->q.blame) /* a suspect runs alone, in its own turn: judge.c */
        return;
    if (!can_send(s, w, c))
        fail(s,
             "call %u is sent to worker %u, which has no room for it or does not serve its model",
             n, w->number);
    if (c->q.bound)
        fail(s, "call %u is sent again and has begun to answer", n);
    if (c->runs && !c->q.idempotent)
        fail(s, "call %u is sent again and has run", n);
    if (!is_due(s, c, 0))
        fail(s, "call %u is sent, and its batch is neither full nor due", n);
    /* in a deployment that is down nothing waits for others */
    if (batching(s, c) && !s->down && !s->scenario.n_tenants &&
        fill_of(s, c) != (w->batch_left ? w->batch_size : 1))
        fail(s, "call %u: its batch is of %u, not of %u", n, w->batch_left ? w->batch_size : 1,
             fill_of(s, c));
    check_order(s, w, c);
}

void note_sent(struct sim *s, struct worker *w, struct call *c)
{
    if (c->twin)
        check_hedge(s, w, c);
    else if (w->batch_left && w->batch_left < w->batch_size)
        check_member(s, w, c);
    else
        check_send(s, w, c);
    note_chosen(s, w, c);
    judge_sent(s, w, c);
    c->sent_at = s->now;
    c->batch = w->batch_left ? w->batch : 0;
    c->beyond = goes_beyond(s, c);
    s->expected.beyond += c->beyond;
    if (c->q.beyond != c->beyond)
        fail(s, "call %u goes %s", number_of(s, c), c->beyond ? "to a slot" : "beyond the slots");
    s->expected.batches +=
        batching(s, c) && !c->q.blame && w->batch_left == (c->batch ? w->batch_size : 0);
    if (w->n_bound == w->cap_bound) {
        w->cap_bound = w->cap_bound ? 2 * w->cap_bound : 32;
        w->bound = as_xrealloc(w->bound, w->cap_bound * sizeof(w->bound[0]));
    }
    w->bound[w->n_bound++] = number_of(s, c);
    c->state = BOUND;
    c->worker = w->number;
    c->stream = c->q.stream;
    s->expected.dispatched += !c->twin;
    s->expected.replayed += c->sends++ > 0;
    count_hedgeable(s, c);
}

void note_answer(struct sim *s, struct call *c, int err)
{
    uint32_t n = number_of(s, c);

    if (!c->accepted || c->released || !waits(c))
        fail(s, "call %u is answered twice", n);
    c->answered = true;
    if (err == AS_EDEADLINE) {
        s->expected.expired++;
        if (c->q.deadline > s->now)
            fail(s, "call %u expires early", n);
        /* it waited for others, though there was time enough even for a late timer */
        if (c->state == WAITING && c->always_had_slot &&
            c->q.deadline - c->accepted_at > 2 * (s->scenario.timer_late + 1))
            fail(s, "call %u expires, and there was a slot for it all the time", n);
        return;
    }
    s->expected.failed++;
    if (err == AS_EFULL) {
        s->expected.shed++;
        if (!s->scenario.codel.target || c->state != WAITING || c->sends ||
            s->now - c->accepted_at <= 2 * s->scenario.codel.target)
            fail(s, "call %u is shed", n);
    } else if (err == AS_EMAYHAVERUN) {
        s->expected.lost++;
        if (!c->doomed && !waited_too_long(s, c) &&
            !(s->scenario.harmful && c->q.idempotent && c->losses >= s->scenario.attempts))
            fail(s, "call %u may not have run", n);
    } else if (err == AS_EPOISON) {
        s->expected.quarantined++;
        if (!may_be_refused(s, c))
            fail(s, "call %u is refused, and is no poison", n);
    } else if (err == AS_ESUSPECT) {
        s->expected.refused_suspects++;
        if (!may_end_reserved(s, c, err) && (!waited_too_long(s, c) || c->runs))
            fail(s, "call %u is refused as a suspect too early, or has run", n);
    } else if (err == AS_EHUNG) {
        if (c->state != BOUND || !s->workers[c->worker]->unhealthy)
            fail(s, "call %u does not hang", n);
    } else if (err == AS_EUNAVAILABLE && c->q.has_fallback && !serves(s, c)) {
        /* it goes to another deployment, and must not run twice thereby, idempotent or not */
        if (c->runs && !(s->down || s->freeing))
            fail(s, "call %u leaves, and has run", n);
    } else if (err == AS_EUNAVAILABLE && c->q.is_mirror) {
        if (c->state == BOUND && !s->freeing) /* its worker is alive */
            fail(s, "call %u, a copy, is given up", n);
    } else if (!may_end_reserved(s, c, err) &&
               (err != AS_EUNAVAILABLE || !(s->down || s->freeing))) {
        fail(s, "call %u ends with %s", n, as_err_name(err));
    }
    c->doomed = false;
}

/* --- after every event --- */

static void check_calls(struct sim *s)
{
    as_ns next = AS_NEVER;
    bool parked = false;

    for (uint32_t i = 0; i < s->n_live; i++) {
        struct call *c = &s->calls[s->live[i]];
        enum as_request_state want = c->state == WAITING    ? AS_REQ_QUEUED
                                     : c->state == PARKED   ? AS_REQ_PARKED
                                     : c->state == RETAINED ? AS_REQ_RETAINED
                                     : waits(c)             ? AS_REQ_SENT
                                                            : AS_REQ_ABANDONED;

        if (c->q.state != want || c->doomed)
            fail(s, "call %u is %s, not %s", s->live[i], as_request_state_name(c->q.state),
                 as_request_state_name(want));
        if (c->state == BOUND && c->cancel_sent == waits(c))
            fail(s, "call %u: its worker was not sent a CANCEL", s->live[i]);
        if (waits(c))
            next = AS_MIN(next, c->q.deadline);
        parked |= c->state == PARKED;
        c->always_had_slot = c->always_had_slot && c->state == WAITING && !c->q.blame &&
                             fits_a_slot(s, c) && !holds_out(s, c);
    }
    /* with batching there is also a deadline for what is held back */
    if (s->scenario.batched || parked || s->scenario.harmful || s->scenario.slow_start ||
                s->scenario.hedging.quantile || may_prefer(s)
            ? as_deployment_next_deadline(s->d) > next
            : as_deployment_next_deadline(s->d) != next)
        fail(s, "the next deadline is wrong");
}

static void check_slots(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *w = s->workers[i];

        if (!w->registered)
            continue;
        for (uint32_t k = 0; k < s->n_live; k++) {
            const struct call *c = &s->calls[s->live[k]];

            if (c->state == WAITING && !c->q.blame && can_send(s, w, c) && !holds_out(s, c) &&
                is_due(s, c, s->scenario.timer_late + 1))
                fail(s, "call %u waits, worker %u has room", s->live[k], w->number);
        }
    }
}

static void check_counts(struct sim *s)
{
    uint32_t ongoing = 0, registered = 0, ready = 0, beyond = 0;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *w = s->workers[i];
        uint32_t apart = 0;

        if (!w->registered)
            continue;
        for (uint32_t k = 0; k < w->n_bound; k++)
            apart += s->calls[w->bound[k]].beyond;
        registered++;
        ready += w->granted && !w->draining;
        beyond += apart;
        ongoing += w->n_bound - apart - prefetched_calls(s, w);
        if (as_replica_unanswered(w->replica) != w->n_bound ||
            as_replica_slots(w->replica) != w->granted || as_replica_beyond(w->replica) != apart ||
            as_replica_ongoing(w->replica) != w->n_bound - apart - prefetched_calls(s, w))
            fail(s, "the counts of worker %u are wrong", w->number);
    }
    if (as_deployment_queued(s->d) != count_waiting(s) ||
        as_deployment_prefetched(s->d) != count_prefetched(s) ||
        as_deployment_ongoing(s->d) != ongoing || as_deployment_beyond(s->d) != beyond)
        fail(s, "queued, prefetched or ongoing are wrong");
    if (as_deployment_replicas(s->d) != registered || as_deployment_ready(s->d) != ready)
        fail(s, "the number of replicas is wrong");
}

static void check_stat(struct sim *s)
{
    const struct as_stat *a = as_deployment_stat(s->d);
    const struct expected_stats *b = &s->expected;

    if (a->accepted != b->accepted || a->refused != b->refused || a->dispatched != b->dispatched ||
        a->completed != b->completed || a->failed != b->failed || a->expired != b->expired)
        fail(s, "statistics of calls are wrong");
    if (a->cancelled != b->cancelled || a->replayed != b->replayed || a->recalled != b->recalled ||
        a->lost != b->lost || a->deaths != b->deaths || a->shed != b->shed)
        fail(s, "statistics of trouble are wrong");
    if (a->mirrored != b->mirrored || a->mirror_dropped != b->mirror_dropped)
        fail(s, "statistics of copies are wrong");
    if (a->accepted != a->completed + a->failed + a->expired + a->cancelled + waiting_clients(s))
        fail(s, "statistics do not add up");
    if (a->trials != b->trials || a->quarantined != b->quarantined)
        fail(s, "statistics of suspects are wrong");
    if (a->batches != b->batches || a->batch.count != b->batches)
        fail(s, "statistics of batches are wrong");
    if (a->queue.count != a->dispatched || a->total.count != a->completed)
        fail(s, "histograms do not add up");
}

void check(struct sim *s)
{
    update_places(s);
    check_calls(s);
    check_slots(s);
    check_recalls(s);
    check_counts(s);
    check_stat(s);
    check_choices(s);
    check_reservations(s);
    check_hedges(s);
    judge(s);
    note_queued(s);
    check_caps(s);
    if (!as_deployment_ok(s->d))
        fail(s, "core's own invariants do not hold");
}
