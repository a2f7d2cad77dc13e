/* A model, independent of core, of what follows from harm: who may be a suspect, who may be
 * refused, whose turn it is, and which replicas may be ejected.
 *
 *  1. No harmless call is ever refused as one that ends workers.
 *  2. A poison ends the workers that had it when core learnt of it first, and one more (if strict).
 *  3. A suspect is alone in its replica for its time, no two with the same fingerprint are in
 * quarantine, and after each suspect as many other calls go as waited then.
 *  4. Breakers change state only along their arrows and in time. No more replicas are ejected than
 * the limit, and never all of them. A replica that fails again and again where others do not is
 * ejected.
 */
#include "sim.h"

static bool waits(const struct call *c)
{
    return !c->answered && !c->cancelled;
}

static uint32_t count_others(const struct sim *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct call *c = &s->calls[s->live[i]];

        n += c->state == WAITING && waits(c) && !c->q.blame;
    }
    return n;
}

/* --- suspects --- */

bool may_be_suspect(const struct sim *s)
{
    return s->scenario.harmful && s->scenario.blame.max && s->expected.deaths;
}

bool may_be_refused(const struct sim *s, const struct call *c)
{
    const struct poison *p = &s->scenario.poison[c->poison ? c->poison - 1 : 0];

    return c->poison && p->deaths_reported > 1 && p->proved;
}

bool waited_too_long(const struct sim *s, const struct call *c)
{
    return c->suspect && s->now >= c->suspected + s->scenario.quarantine.wait;
}

/* Another call that is in quarantine at w. */
static const struct call *tried_at(const struct sim *s, const struct worker *w)
{
    for (uint32_t i = 0; i < w->n_bound; i++) {
        if (s->calls[w->bound[i]].q.blame)
            return &s->calls[w->bound[i]];
    }
    return NULL;
}

static void check_suspect(struct sim *s, struct worker *w, const struct call *c)
{
    uint32_t n = (uint32_t)(c - s->calls);

    s->expected.trials++;
    if (w->n_bound || w->draining || !w->granted || w->lacks[c->q.model] ||
        as_replica_breaker(w->replica) == AS_BREAKER_OPEN)
        fail(s, "call %u, a suspect, is sent to worker %u and is not alone there", n, w->number);
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct call *o = tried_at(s, s->workers[i]);

        if (o && o->fingerprint == c->fingerprint && o->q.model == c->q.model)
            fail(s, "call %u and one with the same fingerprint are in quarantine", n);
    }
    s->turns_owed = AS_MIN(s->turns_owed, count_others(s));
    if (s->scenario.simple && s->turns_owed)
        fail(s, "call %u, a suspect, goes before %u others that have waited", n, s->turns_owed);
    w->alone = true;
}

void judge_sent(struct sim *s, struct worker *w, struct call *c)
{
    const struct call *o = tried_at(s, w);
    uint32_t n = (uint32_t)(c - s->calls);

    if (!s->scenario.harmful)
        return;
    if (c->q.blame) {
        check_suspect(s, w, c);
        return;
    }
    if (o && s->now - o->sent_at < s->scenario.quarantine.time)
        fail(s, "call %u is sent beside a suspect", n);
    if (s->scenario.strict && c->poison && !c->reserves && /* else core does not know it yet */
        s->scenario.poison[c->poison - 1].known)
        fail(s, "call %u is sent together with others, and a call like it has ended a worker", n);
    w->alone = false;
    s->turns_owed -= s->turns_owed > 0;
}

/* The suspect that is alone at w, if any, ends: now other calls have their turn. */
static void end_turn(struct sim *s, const struct worker *w)
{
    if (s->scenario.harmful && as_replica_quarantine(w->replica) == AS_QUARANTINE_ALONE)
        s->turns_owed = count_others(s);
}

void judge_done(struct sim *s, struct worker *w, const struct call *c, bool ends, bool failed)
{
    if (c->q.blame)
        end_turn(s, w);
    if (!ends)
        return;
    w->streak = failed ? w->streak + 1 : 0;
    w->good = failed ? 0 : w->good + 1;
    w->last_answer = s->steps;
}

/* --- deaths --- */

/* Core learns why w died, or has found it unhealthy. */
void judge_crash_reported(struct sim *s, struct worker *w)
{
    for (uint32_t i = 0; i < s->scenario.n_poisons; i++) {
        struct poison *p = &s->scenario.poison[i];

        if (!w->evidence[i])
            continue;
        p->deaths_reported++;
        p->proved = p->proved || w->ran_alone;
        trace(s, "poison %u is reported for the %u. time%s", i + 1, p->deaths_reported,
              w->ran_alone ? ", proved" : "");
    }
}

void judge_death(struct sim *s, struct worker *w, enum as_loss loss)
{
    uint64_t to = w->unhealthy ? w->suspect_to : w->last_started;
    const struct call *culprit = &s->calls[w->culprit];
    uint32_t n = 0;

    if (!s->scenario.harmful)
        return;
    if (tried_at(s, w))
        end_turn(s, w);
    for (uint32_t i = 0; i < w->n_bound; i++) {
        const struct call *c = &s->calls[w->bound[i]];

        if (c->held || c->stream > to)
            continue;
        n++;
        if (c->poison)
            w->evidence[c->poison - 1]++;
    }
    w->ran_alone = n == 1 && w->alone && tried_at(s, w);
    if ((w->crashed || w->unhealthy) &&
        culprit->sent_at > s->scenario.poison[culprit->poison - 1].known_at &&
        s->scenario.poison[culprit->poison - 1].known && s->scenario.strict && w->ran_alone &&
        ++s->scenario.poison[culprit->poison - 1].after > 1)
        fail(s, "worker %u is the second that poison %u ends after core knew it", w->number,
             culprit->poison);
    if (loss == AS_LOSS_CRASHED || w->unhealthy)
        judge_crash_reported(s, w);
}

/* --- breakers --- */

static bool is_ready(const struct worker *w)
{
    return w->registered && w->granted && !w->draining;
}

/* Another replica was in rotation before this event, and is still registered. */
static bool another_was_in(const struct sim *s, const struct worker *w)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *o = s->workers[i];

        if (o != w && is_ready(o) && o->breaker_before == AS_BREAKER_CLOSED)
            return true;
    }
    return false;
}

static void check_move(struct sim *s, struct worker *w, enum as_breaker_state to)
{
    bool legal = false;

    trace(s, "worker %u: its breaker is %s", w->number, as_breaker_state_name(to));
    if (to == AS_BREAKER_OPEN) {
        legal = true; /* a probe has failed, or it tripped: see must_be_out */
        w->opened = s->now;
        s->expected.ejected += w->breaker == AS_BREAKER_CLOSED;
        w->ejected_now = w->breaker == AS_BREAKER_CLOSED;
    } else if (to == AS_BREAKER_HALF_OPEN) {
        legal = w->breaker == AS_BREAKER_OPEN && s->now >= w->opened + s->scenario.breaker.open;
        s->expected.probed++;
    } else {
        legal = (w->breaker == AS_BREAKER_HALF_OPEN && w->good >= s->scenario.breaker.probes) ||
                !another_was_in(s, w);
        s->expected.closed++;
    }
    if (!legal)
        fail(s, "worker %u: its breaker goes from %s to %s", w->number,
             as_breaker_state_name(w->breaker), as_breaker_state_name(to));
    w->streak = w->good = 0;
    w->breaker = to;
}

/* Should it have been ejected by its last answer? */
static bool must_be_out(const struct sim *s, const struct worker *w, uint32_t ready, uint32_t out)
{
    uint32_t peers[WORKERS_MAX], n = 0;

    if (w->breaker || !s->scenario.breaker.failures || w->streak < s->scenario.breaker.failures ||
        w->last_answer != s->steps || s->scenario.late)
        return false;
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *o = s->workers[i];

        if (o != w && is_ready(o) && o->breaker == AS_BREAKER_CLOSED)
            peers[n++] = o->streak;
    }
    return as_outlier_may_eject(&s->scenario.outlier, ready, out) &&
           as_outlier_is_failing(w->streak, peers, n);
}

static void check_breakers(struct sim *s)
{
    uint32_t ready = 0, in = 0, out = 0, most;
    bool trips = false;

    for (uint32_t i = 0; i < s->n_workers; i++)
        s->workers[i]->breaker_before = s->workers[i]->breaker;
    for (uint32_t i = 0; i < s->n_workers; i++) {
        struct worker *w = s->workers[i];

        if (!w->registered)
            continue;
        if (as_replica_breaker(w->replica) != w->breaker)
            check_move(s, w, as_replica_breaker(w->replica));
        ready += is_ready(w);
        in += is_ready(w) && w->breaker == AS_BREAKER_CLOSED;
        out += w->breaker != AS_BREAKER_CLOSED;
        trips = trips || w->ejected_now;
        w->ejected_now = false;
    }
    most = AS_MAX(ready * s->scenario.outlier.percent / 100, 1);
    if (trips && (out > most || out >= ready))
        fail(s, "%u of %u replicas are ejected, at most %u may be", out, ready, most);
    if (ready && !in)
        fail(s, "all replicas are ejected");
    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (s->workers[i]->registered && must_be_out(s, s->workers[i], ready, out))
            fail(s, "worker %u fails alone, %u times in a row, and is not ejected", i,
                 s->workers[i]->streak);
    }
}

/* --- after every event --- */

static void note_suspects(struct sim *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_live; i++) {
        struct call *c = &s->calls[s->live[i]];
        bool is = c->state == WAITING && c->q.blame;

        n += is;
        if (is && !c->suspect)
            c->suspected = s->now;
        c->suspect = is;
        c->was_suspect = c->was_suspect || is;
        if (is && !may_be_suspect(s))
            fail(s, "call %u is a suspect although no worker has died", s->live[i]);
    }
    if (n != as_deployment_suspects(s->d))
        fail(s, "the number of suspects is wrong");
}

void judge(struct sim *s)
{
    if (!s->scenario.harmful)
        return;
    note_suspects(s);
    check_breakers(s);
    s->turns_owed = AS_MIN(s->turns_owed, count_others(s));
    for (uint32_t i = 0; i < s->scenario.n_poisons && !s->works; i++) {
        struct poison *p = &s->scenario.poison[i];

        if (p->deaths_reported && !p->known) {
            p->known = true;
            p->known_at = s->now;
        }
    }
}
