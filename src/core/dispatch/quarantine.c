/* Suspects: each runs alone in a replica, which is kept free for it. A few at once, so that most of
 * the deployment serves the others; never two that are alike; in turns with those who wait. */
#include "core/dispatch/quarantine.h"

#include "core/dispatch/replica.h"

#define SHARE 3u /* of the ready replicas, one in so many may be on trial, and always one */

void as_trial_move(struct as_trial *t, enum as_trial_state to)
{
    static const uint8_t arrows[] = {
        [AS_TRIAL_NONE] = 1u << AS_TRIAL_KEPT,
        [AS_TRIAL_KEPT] = 1u << AS_TRIAL_NONE | 1u << AS_TRIAL_ALONE,
        [AS_TRIAL_ALONE] = 1u << AS_TRIAL_NONE | 1u << AS_TRIAL_OPEN,
        [AS_TRIAL_OPEN] = 1u << AS_TRIAL_NONE,
    };

    AS_ASSERT(arrows[t->state] >> to & 1u);
    t->state = to;
}

const char *as_trial_state_name(enum as_trial_state s)
{
    static const char *const names[] = {"none", "kept", "alone", "open"};

    return (size_t)s < AS_COUNT(names) ? names[s] : "?";
}

static struct as_request *request_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_request, node);
}

static uint32_t most_trials(const struct as_deploy *d)
{
    return AS_MAX(as_deploy_ready(d) / SHARE, 1);
}

bool as_trial_has_room(const struct as_deploy *d, uint32_t model)
{
    if (!d->ops.sample || !d->conf.blame.max || d->n_suspects || d->n_trials >= most_trials(d))
        return false;
    for (uint32_t i = 0; i < d->n_free; i++) {
        if (!d->free[i]->unanswered && d->free[i]->trial.state == AS_TRIAL_NONE &&
            as_replica_has(d->free[i], model))
            return true;
    }
    return false;
}

/* --- the line --- */

/* When q, which waits, is refused. */
static as_ns due(const struct as_deploy *d, const struct as_request *q)
{
    if (d->serving == AS_NEVER)
        return AS_NEVER;
    return AS_MAX(q->suspected, d->serving) + d->conf.trial.wait;
}

void as_trial_add(struct as_deploy *d, struct as_request *q, as_ns now)
{
    AS_ASSERT(q->blame && q->state == AS_REQ_QUEUED);
    as_list_push(&d->suspects, &q->node);
    d->n_suspects++;
    q->suspected = now;
    if (d->serving != AS_NEVER)
        d->ops.wake(d->ctx, due(d, q));
    for (uint32_t i = 0; i < d->n_all; i++) { /* rests that nobody has waited for */
        struct as_trial *t = &d->all[i]->trial;

        if (t->state == AS_TRIAL_NONE && t->until > now)
            d->ops.wake(d->ctx, t->until);
        else if (t->state == AS_TRIAL_NONE)
            t->until = 0;
    }
}

/* The others have r again: as many as wait now go before a replica is kept from them next. */
static void end_turn(struct as_replica *r, enum as_trial_state to)
{
    struct as_deploy *d = r->deploy;

    if (r->trial.state != AS_TRIAL_OPEN) {
        d->n_trials--;
        d->owed = d->queue.n;
    }
    as_trial_move(&r->trial, to);
    as_dispatch_relimit(r);
}

/* Whoever was kept free for a suspect, or has it. rest: until then it is not kept again. */
static void let_go(struct as_replica *r, as_ns rest)
{
    r->trial.suspect->blame->trying = false;
    r->trial.suspect = NULL;
    r->trial.until = rest;
    end_turn(r, AS_TRIAL_NONE);
}

static struct as_replica *keeper_of(const struct as_deploy *d, const struct as_request *q)
{
    for (uint32_t i = 0; i < d->n_all; i++) {
        if (d->all[i]->trial.suspect == q)
            return d->all[i];
    }
    return NULL;
}

struct as_replica *as_trial_leave(struct as_deploy *d, struct as_request *q)
{
    struct as_replica *r = q->blame->trying ? keeper_of(d, q) : NULL;

    as_list_remove(&q->node);
    d->n_suspects--;
    if (r)
        let_go(r, 0);
    as_suspect_forget(d, q);
    return r;
}

void as_trial_remove(struct as_deploy *d, struct as_request *q, as_ns now)
{
    struct as_replica *r = as_trial_leave(d, q);

    if (r) {
        as_dispatch_pull(r, now);
        as_dispatch_balance(d);
    }
}

/* --- the trial --- */

/* Is r of no use to those who wait, or have they had their turn? */
static bool may_keep(const struct as_replica *r)
{
    const struct as_deploy *d = r->deploy;

    /* rule 1: one with room could take nothing of what waits */
    return as_replica_has_room(r) || !AS_MIN(d->owed, d->queue.n);
}

/* The one that will be idle first, as far as one can tell, of those that serve the model. */
static struct as_replica *choose(const struct as_deploy *d, uint32_t model, as_ns now)
{
    struct as_replica *best = NULL;

    for (uint32_t i = 0; i < d->n_all; i++) {
        struct as_replica *r = d->all[i];

        if (r->slots && r->trial.state == AS_TRIAL_NONE && r->trial.until <= now &&
            as_replica_open(r) && as_replica_has(r, model) && may_keep(r) &&
            (!best || r->unanswered < best->unanswered))
            best = r;
    }
    return best;
}

/* The first whose like is not on trial, and for which there is a replica. */
static struct as_request *next(const struct as_deploy *d, as_ns now, struct as_replica **ret_r)
{
    uint32_t without = UINT32_MAX; /* a model for which there is none */

    for (struct as_list *n = d->suspects.next; n != &d->suspects; n = n->next) {
        struct as_request *q = request_of(n);

        if (q->unproved || q->blame->trying || q->model == without)
            continue;
        if ((*ret_r = choose(d, q->model, now)))
            return q;
        without = q->model;
    }
    return NULL;
}

static void keep(struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deploy *d = r->deploy;

    as_trial_move(&r->trial, AS_TRIAL_KEPT);
    r->trial.suspect = q;
    r->trial.until = now + d->conf.trial.time;
    q->blame->trying = true;
    d->n_trials++;
    as_dispatch_relimit(r);
    d->ops.wake(d->ctx, r->trial.until);
}

/* How long it may have a replica for itself. */
static as_ns time_of(const struct as_deploy *d, const struct as_blamed *e)
{
    as_ns ran = AS_MIN(e->ran, AS_TRIAL_MAX / 2);

    return AS_MAX(d->conf.trial.time, 2 * ran);
}

/* False: its deadline has passed, and nobody has r for itself. */
static bool begin(struct as_replica *r, as_ns now)
{
    struct as_deploy *d = r->deploy;
    struct as_request *q = r->trial.suspect;

    as_list_remove(&q->node);
    d->n_suspects--;
    if (q->deadline <= now) {
        let_go(r, 0);
        as_deploy_fail(d, q, AS_EDEADLINE);
        return false;
    }
    d->stat.trials++;
    as_trial_move(&r->trial, AS_TRIAL_ALONE);
    r->trial.alone = true;
    r->trial.until = now + time_of(d, q->blame);
    d->ops.wake(d->ctx, r->trial.until);
    as_dispatch_send(r, q, now);
    return true;
}

/* r is kept and still has others in hand: is there one that has none? */
static void try_idle(struct as_replica *r, as_ns now)
{
    struct as_request *q = r->trial.suspect;
    struct as_replica *idle = choose(r->deploy, q->model, now);

    if (!idle || idle->unanswered)
        return;
    let_go(r, 0);
    keep(idle, q, now);
    as_dispatch_pull(r, now);
}

/* False: some had to go instead, and others may have their turn. */
static bool go(struct as_deploy *d, as_ns now)
{
    struct as_request *q;
    struct as_replica *r;
    bool all = true;

    while (d->n_trials < most_trials(d) && (q = next(d, now, &r)))
        keep(r, q, now);
    for (uint32_t i = 0; d->n_trials && i < d->n_all; i++) {
        r = d->all[i];
        if (r->trial.state == AS_TRIAL_KEPT && r->unanswered)
            try_idle(r, now);
    }
    for (uint32_t i = 0; d->n_trials && i < d->n_all; i++) {
        r = d->all[i];
        if (r->trial.state == AS_TRIAL_KEPT && !r->unanswered)
            all = begin(r, now) && all;
    }
    return all;
}

void as_trial_freed(struct as_deploy *d, as_ns now)
{
    d->has_freed = false;
    for (uint32_t i = 0; i < d->n_all; i++)
        as_dispatch_pull(d->all[i], now);
}

void as_trial_go(struct as_deploy *d, as_ns now)
{
    bool freed = false;

    while (!go(d, now))
        freed = true;
    if (freed)
        as_trial_freed(d, now);
}

void as_trial_sent(struct as_replica *r, const struct as_request *q)
{
    struct as_deploy *d = r->deploy;

    if (q == r->trial.suspect)
        return;
    r->trial.alone = false;
    d->owed -= d->owed > 0;
}

/* All that wait as this suspect may run as they like. */
static void acquit(struct as_deploy *d, struct as_blamed *e, as_ns now)
{
    struct as_list back[AS_PRIORITIES], *n;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&back[p]);
    AS_LIST_EACH(it, &d->suspects)
    {
        struct as_request *q = request_of(it);

        if (q->blame != e)
            continue;
        as_list_remove(it);
        d->n_suspects--;
        d->n_unproved -= q->unproved;
        q->unproved = false;
        as_print_drop(d, q);
        e->waiting--;
        q->blame = NULL;
        as_replica_bury(back, q);
    }
    if (!e->waiting) /* else one is parked: it keeps the entry, and its time */
        as_blame_acquit(&d->blame, e);
    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        while ((n = as_list_pop(&back[p])))
            as_dispatch_place(d, request_of(n), now);
    }
    if (d->batched)
        as_dispatch_flow(d, now);
}

void as_trial_done(struct as_replica *r, struct as_request *q, bool well, as_ns now)
{
    struct as_deploy *d = r->deploy;
    struct as_blamed *e = q->blame;
    bool held = r->held;

    AS_ASSERT(r->trial.suspect == q);
    let_go(r, 0);
    if (!well)
        return;
    e->waiting--;
    q->blame = NULL;
    /* what waits there is older than some of these: they do not go to r before it */
    r->held = true;
    as_dispatch_relimit(r);
    acquit(d, e, now);
    r->held = held;
    as_dispatch_relimit(r);
}

void as_trial_unkeep(struct as_replica *r)
{
    if (r->trial.state == AS_TRIAL_KEPT)
        let_go(r, 0);
}

struct as_blamed *as_trial_abort(struct as_replica *r)
{
    bool proves = r->trial.state >= AS_TRIAL_ALONE && r->trial.alone;
    struct as_blamed *e = proves ? r->trial.suspect->blame : NULL;

    if (r->trial.state != AS_TRIAL_NONE)
        let_go(r, 0);
    if (e) { /* else the next one like it could end another replica meanwhile */
        e->trying = true;
        e->waiting++;
    }
    return e;
}

void as_trial_decide(struct as_deploy *d, struct as_blamed *e)
{
    if (!e)
        return;
    e->trying = false;
    if (--e->waiting == 0 && !e->kills)
        as_blame_acquit(&d->blame, e);
}

/* --- over time --- */

void as_trial_serving(struct as_deploy *d, as_ns now)
{
    bool serves = as_deploy_ready(d) > 0;

    if (serves == (d->serving != AS_NEVER))
        return;
    d->serving = serves ? now : AS_NEVER;
    if (serves && d->n_suspects)
        d->ops.wake(d->ctx, due(d, request_of(d->suspects.next)));
}

/* They have waited too long. */
static void refuse_late(struct as_deploy *d, as_ns now)
{
    struct as_request *q;

    while (d->n_suspects && due(d, (q = request_of(d->suspects.next))) <= now) {
        struct as_replica *r = as_trial_leave(d, q);

        d->stat.worn += q->ran;
        as_deploy_fail(d, q, q->ran ? AS_EMAYHAVERUN : AS_ESUSPECT);
        if (r)
            as_dispatch_pull(r, now);
    }
}

void as_trial_expire(struct as_deploy *d, as_ns now)
{
    for (uint32_t i = 0; i < d->n_all; i++) {
        struct as_replica *r = d->all[i];

        if (!r->trial.until || r->trial.until > now)
            continue;
        if (r->trial.state == AS_TRIAL_KEPT) {
            let_go(r, now + d->conf.trial.time);
        } else {
            r->trial.until = 0;
            if (r->trial.state != AS_TRIAL_ALONE)
                continue;
            end_turn(r, AS_TRIAL_OPEN);
        }
        as_dispatch_pull(r, now);
    }
    refuse_late(d, now);
    if (d->n_suspects)
        as_trial_go(d, now);
    as_dispatch_balance(d);
}

as_ns as_trial_next(const struct as_deploy *d)
{
    as_ns next = AS_NEVER;

    if (d->n_suspects)
        next = due(d, request_of(d->suspects.next));
    for (uint32_t i = 0; i < d->n_all; i++) {
        const struct as_trial *t = &d->all[i]->trial;

        if (t->until && (t->state != AS_TRIAL_NONE || d->n_suspects))
            next = AS_MIN(next, t->until);
    }
    return next;
}

/* --- invariants --- */

static bool replica_ok(const struct as_replica *r)
{
    const struct as_trial *t = &r->trial;

    if ((t->state == AS_TRIAL_NONE) != (t->suspect == NULL))
        return false;
    if (t->state == AS_TRIAL_NONE)
        return true;
    if (!t->suspect->blame || !t->suspect->blame->trying || (t->state < AS_TRIAL_OPEN && !t->until))
        return false;
    if (t->state == AS_TRIAL_KEPT)
        return t->suspect->state == AS_REQ_QUEUED && !r->draining;
    return t->suspect->replica == r && (t->state == AS_TRIAL_OPEN || r->unanswered == 1);
}

bool as_trial_ok(const struct as_deploy *d)
{
    uint32_t suspects = 0, trials = 0, unproved = 0;
    bool rests = false;
    struct as_replica *r;

    for (struct as_list *n = d->suspects.next; n != &d->suspects; n = n->next, suspects++) {
        const struct as_request *q = request_of(n);

        if (q->state != AS_REQ_QUEUED || !q->blame ||
            (q->blame->state == AS_BLAME_CONDEMNED && !q->unproved))
            return false;
        unproved += q->unproved;
    }
    for (uint32_t i = 0; i < d->n_all; i++) {
        r = d->all[i];
        if (!replica_ok(r))
            return false;
        trials += r->trial.state == AS_TRIAL_KEPT || r->trial.state == AS_TRIAL_ALONE;
        rests = rests || r->trial.until;
    }
    return suspects == d->n_suspects && trials == d->n_trials && unproved == d->n_unproved &&
           as_blame_ok(&d->blame) && (d->serving == AS_NEVER) == (as_deploy_ready(d) == 0) &&
           (!suspects || trials || rests || !next(d, AS_NEVER, &r));
}
