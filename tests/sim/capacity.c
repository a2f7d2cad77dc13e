/* What a worker has and could take, by the oracle's model. */
#include "sim.h"

/* Is this the first request of its call? False: it is in the same batch as the one before. */
static bool begins(const struct sim *s, const struct worker *w, uint32_t i)
{
    uint64_t batch = s->calls[w->bound[i]].batch;

    return !i || !batch || s->calls[w->bound[i - 1]].batch != batch;
}

static uint32_t held_of_model(const struct sim *s, const struct worker *w, uint32_t model)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->n_bound; i++)
        n += s->calls[w->bound[i]].q.model == model && begins(s, w, i) &&
             !s->calls[w->bound[i]].beyond;
    return n;
}

/* How many calls of the model may be in slots of w. */
static uint32_t cap_of(const struct sim *s, const struct worker *w, uint32_t model)
{
    uint32_t cap = s->scenario.cap[model];

    return cap && cap < w->most_granted ? cap : UINT32_MAX;
}

uint32_t find_waiting(const struct sim *s, const struct worker *w, bool ret_waits[CALLS_MAX])
{
    uint32_t of_model[MODELS_MAX] = {0}, front = 0;

    for (uint32_t i = 0; i < w->n_bound; i++) {
        uint32_t m = s->calls[w->bound[i]].q.model;

        ret_waits[i] = false;
        if (s->calls[w->bound[i]].beyond)
            continue;
        of_model[m] += begins(s, w, i);
        ret_waits[i] = !s->scenario.batched && of_model[m] > cap_of(s, w, m);
        front += !ret_waits[i] && begins(s, w, i);
        ret_waits[i] = ret_waits[i] || front > w->granted;
    }
    return front;
}

uint32_t front_calls(const struct sim *s, const struct worker *w)
{
    bool waiting[CALLS_MAX];

    return find_waiting(s, w, waiting);
}

bool can_execute(const struct sim *s, const struct worker *w, const struct call *c)
{
    return !w->lacks[c->q.model] && held_of_model(s, w, c->q.model) < cap_of(s, w, c->q.model);
}

/* Reserved for a suspect, or the suspect runs there alone. */
bool is_reserved(const struct worker *w)
{
    enum as_quarantine_state t = as_replica_quarantine(w->replica);

    return t == AS_QUARANTINE_RESERVED || t == AS_QUARANTINE_ALONE;
}

bool is_open(const struct worker *w)
{
    return w->registered && !w->draining && !is_reserved(w) &&
           as_replica_breaker(w->replica) != AS_BREAKER_OPEN;
}

/* A worker that is probed gets one call at a time. check_caps checks what core says of the cap. */
static uint32_t width(const struct worker *w)
{
    return AS_MIN(w->granted, as_replica_breaker(w->replica) == AS_BREAKER_HALF_OPEN
                                  ? 1
                                  : as_replica_cap(w->replica));
}

/* It has all of its slots, and a new worker beside it warms up. late: the timer that gives it the
 * last of them may not have fired. */
static bool is_warm(const struct sim *s, const struct worker *w, as_ns late)
{
    return w->registered && w->granted && !w->draining &&
           as_replica_breaker(w->replica) == AS_BREAKER_CLOSED &&
           (!s->scenario.slow_start || !w->warms ||
            s->now >= w->ready_at + s->scenario.slow_start + late);
}

static bool has_warm_peer(const struct sim *s, const struct worker *w, as_ns since, as_ns late)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *o = s->workers[i];

        if (o != w && is_warm(s, o, late) && o->ready_at <= since)
            return true;
    }
    return false;
}

void note_grant(struct sim *s, struct worker *w)
{
    if (!w->granted || w->ready_at != AS_NEVER)
        return;
    w->ready_at = s->now;
    w->warms = s->scenario.slow_start && s->now > s->scenario.slow_start &&
               has_warm_peer(s, w, s->now - s->scenario.slow_start, 0);
    w->may_warm = w->warms &&
                  !has_warm_peer(s, w, s->now - s->scenario.slow_start, s->scenario.timer_late + 1);
}

static uint32_t slow_width(const struct sim *s, const struct worker *w, as_ns now)
{
    as_ns age = now > w->ready_at ? now - w->ready_at : 0;
    uint64_t n = w->granted * age / s->scenario.slow_start;

    return age >= s->scenario.slow_start ? UINT32_MAX : (uint32_t)AS_MAX(n, AS_MIN(w->granted, 1));
}

void check_caps(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        struct worker *w = s->workers[i];
        uint32_t cap = w->registered ? as_replica_cap(w->replica) : 0, least = UINT32_MAX;
        as_ns late = s->scenario.timer_late + 1;

        if (!w->registered)
            continue;
        if (!w->granted) {
            w->may_warm = w->may_warm || (w->warms && !has_warm_peer(s, w, AS_NEVER, late));
            continue;
        }
        s->expected.warmed += w->warms && cap == 1 && w->granted > 1;
        if (s->scenario.harmful && cap) /* peers may be ejected, which core sees later */
            continue;
        w->warms = w->warms && has_warm_peer(s, w, AS_NEVER, 0);
        if (w->warms && (w->may_warm || !has_warm_peer(s, w, AS_NEVER, late)))
            w->warms = !s->scenario.adaptive && cap != UINT32_MAX; /* core decides */
        w->may_warm = false;
        if (w->warms)
            least = slow_width(s, w, s->now - AS_MIN(late, s->now));
        if (s->scenario.adaptive ? cap < 1 : cap < AS_MIN(least, w->granted))
            fail(s, "worker %u may use %u of %u slots, too few", i, cap, w->granted);
        if (w->warms && AS_MIN(cap, w->granted) > AS_MIN(slow_width(s, w, s->now), w->granted))
            fail(s, "worker %u may use %u of %u slots, too many", i, cap, w->granted);
    }
}

uint32_t idle_of(const struct worker *w, uint32_t n_held)
{
    return is_open(w) && n_held < width(w) ? width(w) - n_held : 0;
}

bool has_slot(const struct sim *s, const struct worker *w)
{
    return is_open(w) && front_calls(s, w) < width(w);
}

uint32_t room_of_model(const struct sim *s, const struct call *c)
{
    uint32_t n = 0, m = c->q.model;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct worker *w = s->workers[i];

        if (has_slot(s, w) && can_execute(s, w, c))
            n += AS_MIN(width(w) - front_calls(s, w), cap_of(s, w, m) - held_of_model(s, w, m));
    }
    return n;
}

uint32_t prefetched_calls(const struct sim *s, const struct worker *w)
{
    bool waiting[CALLS_MAX];
    uint32_t n = 0;

    find_waiting(s, w, waiting);
    for (uint32_t i = 0; w->registered && i < w->n_bound; i++)
        n += waiting[i];
    return n;
}

/* How many calls that take this long may wait there. */
static uint32_t prefetch_of(const struct sim *s, const struct worker *w, as_ns service)
{
    as_ns n = service ? s->scenario.prefetch_work / service : 0;

    if (s->scenario.batched || may_prefer(s) || s->reserves || s->scenario.hedging.quantile ||
        w->recalling || !w->granted || width(w) < w->granted ||
        as_replica_breaker(w->replica) == AS_BREAKER_HALF_OPEN)
        return 0;
    return (uint32_t)AS_MIN(n, w->prefetch);
}

static bool has_room(const struct sim *s, const struct worker *w)
{
    uint32_t n = front_calls(s, w);

    return is_open(w) &&
           (n < width(w) || (n >= w->granted &&
                             n - w->granted < prefetch_of(s, w, as_replica_service(w->replica)) &&
                             (s->scenario.batched || prefetched_calls(s, w) < w->prefetch)));
}

bool goes_beyond(const struct sim *s, const struct call *c)
{
    return c->q.on_cycle && !s->scenario.batch[c->q.model].max_size && !c->q.blame;
}

static bool in_rotation(const struct worker *w, const struct call *c)
{
    return is_open(w) && w->granted && !w->lacks[c->q.model];
}

static bool some_in_rotation(const struct sim *s, const struct call *c)
{
    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (in_rotation(s->workers[i], c))
            return true;
    }
    return false;
}

/* It drains, and executes calls that may wait for c. */
static bool finishes(const struct worker *w, const struct call *c)
{
    return w->registered && w->draining && w->n_bound && !w->unhealthy && w->granted &&
           !w->lacks[c->q.model] && !is_reserved(w) &&
           as_replica_breaker(w->replica) != AS_BREAKER_OPEN;
}

bool can_send(const struct sim *s, const struct worker *w, const struct call *c)
{
    uint32_t m = c->q.model, n = held_of_model(s, w, m), cap = cap_of(s, w, m);

    if (goes_beyond(s, c))
        return in_rotation(w, c) || (finishes(w, c) && !some_in_rotation(s, c));
    if (can_execute(s, w, c))
        return has_room(s, w);
    return is_open(w) && !w->lacks[m] && prefetched_calls(s, w) < w->prefetch &&
           n - cap < prefetch_of(s, w, as_replica_model_service(w->replica, m));
}
