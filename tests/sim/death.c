/* Deaths of workers: what core is told at once and what later, and what happens to their calls. */
#include "sim.h"

/* Core does not report what it did with lost calls: reads it from their states. */
void update_places(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_live; i++) {
        struct call *c = &s->calls[s->live[i]];

        if (c->state == PARKED && c->q.state == AS_REQ_QUEUED) {
            if (s->now < c->parked_until)
                fail(s, "call %u goes on before the cause of the death was reported", s->live[i]);
            c->state = WAITING, c->placed_at = s->now;
        } else if ((c->state == PARKED || c->state == WAITING) && c->q.state == AS_REQ_RETAINED) {
            if (!s->scenario.harmful || (!c->answered && !c->cancelled))
                fail(s, "call %u is retained, and its client waits", s->live[i]);
            c->state = RETAINED;
        }
    }
}

/* The calls that wait for the verdict of this number (0: those whose time is over) go on. */
void resume_parked(struct sim *s, uint64_t verdict_number)
{
    for (uint32_t i = 0; i < s->n_live; i++) {
        struct call *c = &s->calls[s->live[i]];

        if (c->state != PARKED ||
            !(verdict_number ? c->verdict_number == verdict_number : c->parked_until <= s->now))
            continue;
        if (s->scenario.harmful) /* core must fingerprint the calls of the worker first */
            c->parked_until = AS_MIN(c->parked_until, s->now);
        else
            c->state = WAITING, c->placed_at = s->now;
    }
}

static enum as_loss anything(struct sim *s)
{
    static const enum as_loss losses[] = {AS_LOSS_KILLED, AS_LOSS_CRASHED, AS_LOSS_UNKNOWN};

    return losses[below(s, AS_COUNT(losses))];
}

static bool has_begun(const struct worker *w, const struct call *c)
{
    return c->stream / 2 < w->n_streams && w->streams[c->stream / 2].ran;
}

void report_cause(struct sim *s, struct worker *w, uint64_t verdict_number)
{
    enum as_loss loss = !s->scenario.harmful ? anything(s)
                        : w->crashed         ? AS_LOSS_CRASHED
                                             : AS_LOSS_KILLED;

    trace(s, "verdict %llu: %d", (unsigned long long)verdict_number, (int)loss);
    for (uint32_t i = 0; loss == AS_LOSS_KILLED && i < s->n_live; i++) {
        struct call *c = &s->calls[s->live[i]];

        if (c->state != PARKED || c->verdict_number != verdict_number)
            continue;
        c->free_runs += c->ran_there;
        c->losses--;
    }
    resume_parked(s, verdict_number);
    if (loss == AS_LOSS_CRASHED)
        judge_crash_reported(s, w);
    s->replaces = true;
    as_deployment_verdict(s->d, verdict_number, loss, s->now);
    s->replaces = false;
}

/* What core knows of a death at once, and when the cause is reported. The status page is final,
 * unless the worker may live. */
static enum as_loss cause(struct sim *s, const struct worker *w, uint64_t *last)
{
    *last = chance(s, s->scenario.page_lost) ? UINT64_MAX : w->last_started;
    if (w->unhealthy) {
        if (!chance(s, 100))
            return AS_LOSS_UNHEALTHY;
        *last = UINT64_MAX;
        return AS_LOSS_LINK;
    }
    if (chance(s, s->scenario.cause_pending))
        return AS_LOSS_PENDING;
    if (w->crashed)
        return AS_LOSS_CRASHED;
    if (s->scenario.harmful)
        return chance(s, 700) ? AS_LOSS_KILLED : AS_LOSS_UNKNOWN;
    return *last == UINT64_MAX && chance(s, 500) ? AS_LOSS_LINK : anything(s);
}

struct dying {
    enum as_loss loss;
    uint64_t last, blamed; /* streams up to these have started, and are suspects */
    uint32_t calls[CALLS_MAX], n;
    bool doomed[CALLS_MAX];
    as_ns until;
};

/* May it be parked, even if only until bodies are read? */
static bool may_park(const struct sim *s, const struct dying *k, const struct call *c)
{
    if (c->answered || c->cancelled || c->q.bound || !c->q.idempotent || c->stream > k->last)
        return false;
    return k->loss == AS_LOSS_PENDING || (s->scenario.harmful && c->stream <= k->blamed);
}

static void lose(struct sim *s, struct worker *w, struct dying *k, struct call *c)
{
    bool waits = !c->answered && !c->cancelled;
    bool is_free =
        k->loss == AS_LOSS_KILLED || (k->loss == AS_LOSS_UNHEALTHY && c->stream > w->suspect_to);
    bool later = c->q.tries || c->q.blame, parks;

    if (c->held) { /* its worker knows nothing of it */
        note_unbound(s, c);
        return;
    }
    /* a part of its answer came before the death */
    if (c->stream <= w->last_started && !c->q.unary && chance(s, 300))
        as_replica_bind(w->replica, &c->q);
    c->doomed = waits && (c->q.bound || (c->stream <= k->last && !c->q.idempotent));
    k->doomed[k->n] = c->doomed;
    k->calls[k->n++] = (uint32_t)(c - s->calls);
    c->ran_there = has_begun(w, c);
    c->free_runs += is_free && c->ran_there;
    c->losses += c->stream <= k->last && !is_free;
    if (c->twin) {
        c->twin->losses += c->stream <= k->last && !is_free;
        part_twins(c, false);
    }
    parks = may_park(s, k, c);
    if (parks && k->loss == AS_LOSS_PENDING)
        k->until = AS_MAX(k->until, s->now + (later ? s->scenario.repeat_verdict_wait
                                                    : s->scenario.verdict_wait));
    note_unbound(s, c);
    c->state = parks ? PARKED : WAITING;
}

void on_death(struct sim *s, struct worker *w)
{
    struct dying k = {.n = 0};
    uint64_t verdict_number;

    trace(s, "worker %u is buried", w->number);
    k.loss = cause(s, w, &k.last);
    k.blamed = k.loss == AS_LOSS_CRASHED ? k.last : w->unhealthy ? w->suspect_to : 0;
    judge_death(s, w, k.loss);
    while (w->n_bound)
        lose(s, w, &k, &s->calls[w->bound[0]]);
    for (uint32_t i = 0; i < k.n; i++) {
        struct call *c = &s->calls[k.calls[i]];

        c->parked_until = c->state == PARKED && k.loss == AS_LOSS_PENDING ? k.until : s->now;
        c->verdict_number = 0;
    }
    w->registered = false;
    forget_choices(s, w);
    s->expected.deaths++;
    s->replaces = true;
    verdict_number = as_replica_free(w->replica, k.last, k.loss, s->now);
    s->replaces = false;
    update_places(s);
    for (uint32_t i = 0; i < k.n; i++) {
        struct call *c = &s->calls[k.calls[i]];

        if (c->state == PARKED || c->state == RETAINED)
            c->verdict_number = verdict_number;
        if (k.doomed[i] && !c->answered)
            fail(s, "call %u died with its worker and is not answered", k.calls[i]);
        if (k.doomed[i] && !s->scenario.harmful && !c->released)
            fail(s, "call %u died with its worker and is not released", k.calls[i]);
    }
    if (verdict_number && k.loss != AS_LOSS_PENDING)
        fail(s, "core waits for a verdict that it has");
    if (verdict_number && chance(s, s->scenario.reported))
        schedule(s,
                 s->now + between(s, 0,
                                  s->scenario.strict ? s->scenario.verdict_wait - 1
                                                     : 2 * s->scenario.verdict_wait),
                 E_VERDICT, w->number, verdict_number);
}
