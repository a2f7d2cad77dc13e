/* Each suspect runs alone in a replica that is reserved for it. Only a few run at once, so that
 * most replicas serve other requests; never two with the same fingerprint; and in turns with other
 * requests. */
#include "core/dispatch/faults/quarantine.h"

#include "core/dispatch/choice/multiplex.h"
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"
#include "core/dispatch/faults/fingerprint.h"

/* At most one third of the ready replicas is in quarantine, but at least one may be. */
#define SHARE 3u

/* The only writer of t->state; the picture in the header has every arrow. */
static void set_state(struct as_quarantine *t, enum as_quarantine_state to)
{
    static const uint8_t arrows[] = {
        [AS_QUARANTINE_NONE] = 1u << AS_QUARANTINE_RESERVED,
        [AS_QUARANTINE_RESERVED] = 1u << AS_QUARANTINE_NONE | 1u << AS_QUARANTINE_ALONE,
        [AS_QUARANTINE_ALONE] = 1u << AS_QUARANTINE_NONE | 1u << AS_QUARANTINE_SHARED,
        [AS_QUARANTINE_SHARED] = 1u << AS_QUARANTINE_NONE,
    };

    AS_ASSERT(arrows[t->state] >> to & 1u);
    t->state = to;
}

static uint32_t max_quarantines(const struct as_deployment *d)
{
    return AS_MAX(as_deployment_ready(d) / SHARE, 1);
}

bool as_quarantine_has_room(const struct as_deployment *d, uint32_t model)
{
    if (!d->ops.sample || !d->conf.blame.max || d->n_suspects ||
        d->n_quarantines >= max_quarantines(d))
        return false;
    for (uint32_t i = 0; i < d->n_free; i++) {
        if (!d->free[i]->unanswered && d->free[i]->quarantine.state == AS_QUARANTINE_NONE &&
            as_replica_serves(d->free[i], model))
            return true;
    }
    return false;
}

/* --- waiting suspects --- */

/* When q is refused if it still waits. */
static as_ns refuse_at(const struct as_deployment *d, const struct as_request *q)
{
    if (d->serving_since == AS_NEVER)
        return AS_NEVER;
    return AS_MAX(q->suspected, d->serving_since) + d->conf.quarantine.wait;
}

void as_quarantine_enqueue(struct as_deployment *d, struct as_request *q, as_ns now)
{
    AS_ASSERT(q->blame && q->state == AS_REQ_QUEUED);
    as_list_push(&d->suspects, &q->node);
    d->n_suspects++;
    q->suspected = now;
    if (as_multiplex_applies(d, q))
        as_multiplex_on_end(d, q); /* another one may load its model */
    if (d->serving_since != AS_NEVER)
        d->ops.wake(d->ctx, refuse_at(d, q));
    for (uint32_t i = 0; i < d->n_replicas; i++) { /* replicas whose pause nobody has waited for */
        struct as_quarantine *t = &d->replicas[i]->quarantine;

        if (t->state == AS_QUARANTINE_NONE && t->until > now)
            d->ops.wake(d->ctx, t->until);
        else if (t->state == AS_QUARANTINE_NONE)
            t->until = 0;
    }
}

/* Other requests may use r again. As many as wait now go before a replica is reserved next. */
static void end_turn(struct as_replica *r, enum as_quarantine_state to)
{
    struct as_deployment *d = r->deployment;

    if (r->quarantine.state != AS_QUARANTINE_SHARED) {
        d->n_quarantines--;
        d->turns_owed = d->queue.n + d->n_preferring;
    }
    set_state(&r->quarantine, to);
    as_dispatch_update_limits(r);
}

/* Ends the quarantine of r in any state. rest: until then r is not reserved again. */
static void release_replica(struct as_replica *r, as_ns rest)
{
    r->quarantine.suspect->blame->in_quarantine = false;
    r->quarantine.suspect = NULL;
    r->quarantine.until = rest;
    end_turn(r, AS_QUARANTINE_NONE);
}

static struct as_replica *replica_reserved_for(const struct as_deployment *d,
                                               const struct as_request *q)
{
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        if (d->replicas[i]->quarantine.suspect == q)
            return d->replicas[i];
    }
    return NULL;
}

struct as_replica *as_quarantine_dequeue(struct as_deployment *d, struct as_request *q)
{
    struct as_replica *r = q->blame->in_quarantine ? replica_reserved_for(d, q) : NULL;

    as_list_remove(&q->node);
    d->n_suspects--;
    if (r)
        release_replica(r, 0);
    as_suspect_remove(d, q);
    return r;
}

void as_quarantine_remove(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_replica *r = as_quarantine_dequeue(d, q);

    if (r) {
        as_dispatch_pull(r, now);
        as_dispatch_balance(d, now);
    }
}

/* --- the quarantine --- */

/* May r be reserved? Yes if waiting requests cannot use it, or have had their turn. */
static bool may_reserve(const struct as_replica *r)
{
    const struct as_deployment *d = r->deployment;

    /* rule 1: if r has room then no waiting request could go there */
    return as_replica_has_room(r) || !AS_MIN(d->turns_owed, d->queue.n + d->n_preferring);
}

/* The replica that will probably be idle first, of those that serve the model and may be reserved.
 */
static struct as_replica *choose_replica(const struct as_deployment *d, uint32_t model, as_ns now)
{
    struct as_replica *best = NULL;

    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];

        if (r->slots && r->quarantine.state == AS_QUARANTINE_NONE && r->quarantine.until <= now &&
            as_replica_is_open(r) && as_replica_serves(r, model) && may_reserve(r) &&
            (!best || r->unanswered < best->unanswered))
            best = r;
    }
    return best;
}

/* The first suspect for which there is a replica, and of whose kind none is in quarantine. */
static struct as_request *next_suspect(const struct as_deployment *d, as_ns now,
                                       struct as_replica **ret_r)
{
    uint32_t without = UINT32_MAX; /* a model for which there is no replica */

    for (struct as_list *n = d->suspects.next; n != &d->suspects; n = n->next) {
        struct as_request *q = as_request_of(n);

        if (q->unverified || q->blame->in_quarantine || q->model == without)
            continue;
        if ((*ret_r = choose_replica(d, q->model, now)))
            return q;
        without = q->model;
    }
    return NULL;
}

static void reserve_replica(struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deployment *d = r->deployment;

    set_state(&r->quarantine, AS_QUARANTINE_RESERVED);
    r->quarantine.suspect = q;
    r->quarantine.until = now + d->conf.quarantine.time;
    q->blame->in_quarantine = true;
    d->n_quarantines++;
    as_dispatch_update_limits(r);
    d->ops.wake(d->ctx, r->quarantine.until);
}

/* How long a suspect may have a replica for itself. */
static as_ns alone_time(const struct as_deployment *d, const struct as_blame_entry *e)
{
    as_ns ran = AS_MIN(e->longest_run, AS_QUARANTINE_MAX / 2);

    return AS_MAX(d->conf.quarantine.time, 2 * ran);
}

/* Sends the suspect to r. False: its deadline has passed, so it ended and r is free again. */
static bool start_alone(struct as_replica *r, as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct as_request *q = r->quarantine.suspect;

    as_list_remove(&q->node);
    d->n_suspects--;
    if (q->deadline <= now) {
        release_replica(r, 0);
        as_deployment_fail(d, q, AS_EDEADLINE);
        return false;
    }
    d->stat.trials++;
    set_state(&r->quarantine, AS_QUARANTINE_ALONE);
    r->quarantine.alone = true;
    r->quarantine.until = now + alone_time(d, q->blame);
    d->ops.wake(d->ctx, r->quarantine.until);
    as_dispatch_send(r, q, now);
    return true;
}

/* r is reserved but still busy: moves the reservation to an idle replica, if there is one. */
static void move_to_idle(struct as_replica *r, as_ns now)
{
    struct as_request *q = r->quarantine.suspect;
    struct as_replica *idle = choose_replica(r->deployment, q->model, now);

    if (!idle || idle->unanswered)
        return;
    release_replica(r, 0);
    reserve_replica(idle, q, now);
    as_dispatch_pull(r, now);
}

/* False: a suspect ended because of its deadline, so another may have its turn. */
static bool schedule_once(struct as_deployment *d, as_ns now)
{
    struct as_request *q;
    struct as_replica *r;
    bool all = true;

    while (d->n_quarantines < max_quarantines(d) && (q = next_suspect(d, now, &r)))
        reserve_replica(r, q, now);
    for (uint32_t i = 0; d->n_quarantines && i < d->n_replicas; i++) {
        r = d->replicas[i];
        if (r->quarantine.state == AS_QUARANTINE_RESERVED && r->unanswered)
            move_to_idle(r, now);
    }
    for (uint32_t i = 0; d->n_quarantines && i < d->n_replicas; i++) {
        r = d->replicas[i];
        if (r->quarantine.state == AS_QUARANTINE_RESERVED && !r->unanswered)
            all = start_alone(r, now) && all;
    }
    return all;
}

void as_quarantine_pull_freed(struct as_deployment *d, as_ns now)
{
    d->has_released_replicas = false;
    for (uint32_t i = 0; i < d->n_replicas; i++)
        as_dispatch_pull(d->replicas[i], now);
}

void as_quarantine_schedule(struct as_deployment *d, as_ns now)
{
    bool freed = false;

    while (!schedule_once(d, now))
        freed = true;
    if (freed)
        as_quarantine_pull_freed(d, now);
}

void as_quarantine_on_sent(struct as_replica *r, const struct as_request *q)
{
    struct as_deployment *d = r->deployment;

    if (q == r->quarantine.suspect)
        return;
    r->quarantine.alone = false;
    d->turns_owed -= d->turns_owed > 0;
}

/* No request that waits because of this entry is a suspect any more. */
static void clear_suspect(struct as_deployment *d, struct as_blame_entry *e, as_ns now)
{
    struct as_list back[AS_PRIORITIES], *n;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&back[p]);
    AS_LIST_EACH(it, &d->suspects)
    {
        struct as_request *q = as_request_of(it);

        if (q->blame != e)
            continue;
        as_list_remove(it);
        d->n_suspects--;
        d->n_unverified -= q->unverified;
        q->unverified = false;
        as_fingerprint_cancel(d, q);
        e->n_requests--;
        q->blame = NULL;
        as_replica_collect_retry(back, q);
    }
    if (!e->n_requests) /* else a parked request needs the entry, which stays until it expires */
        as_blame_remove(&d->blame, e);
    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        while ((n = as_list_pop(&back[p])))
            as_dispatch_enqueue(d, as_request_of(n), now);
    }
    if (d->batched)
        as_dispatch_send_all(d, now);
}

void as_quarantine_done(struct as_replica *r, struct as_request *q, bool well, as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct as_blame_entry *e = q->blame;
    bool held = r->paused;

    AS_ASSERT(r->quarantine.suspect == q);
    release_replica(r, 0);
    if (!well)
        return;
    e->n_requests--;
    q->blame = NULL;
    /* the queue may have older requests than these: r must take those first */
    r->paused = true;
    as_dispatch_update_limits(r);
    clear_suspect(d, e, now);
    r->paused = held;
    as_dispatch_update_limits(r);
}

void as_quarantine_release(struct as_replica *r)
{
    if (r->quarantine.state == AS_QUARANTINE_RESERVED)
        release_replica(r, 0);
}

struct as_blame_entry *as_quarantine_abort(struct as_replica *r)
{
    bool proves = r->quarantine.state >= AS_QUARANTINE_ALONE && r->quarantine.alone;
    struct as_blame_entry *e = proves ? r->quarantine.suspect->blame : NULL;

    if (r->quarantine.state != AS_QUARANTINE_NONE)
        release_replica(r, 0);
    if (e) { /* or another request like it could end another replica meanwhile */
        e->in_quarantine = true;
        e->n_requests++;
    }
    return e;
}

void as_quarantine_resolve(struct as_deployment *d, struct as_blame_entry *e)
{
    if (!e)
        return;
    e->in_quarantine = false;
    if (--e->n_requests == 0 && !e->deaths_caused)
        as_blame_remove(&d->blame, e);
}

/* --- over time --- */

void as_quarantine_update_serving(struct as_deployment *d, as_ns now)
{
    bool serves = as_deployment_ready(d) > 0;

    if (serves == (d->serving_since != AS_NEVER))
        return;
    d->serving_since = serves ? now : AS_NEVER;
    if (serves && d->n_suspects)
        d->ops.wake(d->ctx, refuse_at(d, as_request_of(d->suspects.next)));
}

/* Refuses the suspects that have waited too long. */
static void refuse_late(struct as_deployment *d, as_ns now)
{
    struct as_request *q;

    while (d->n_suspects && refuse_at(d, (q = as_request_of(d->suspects.next))) <= now) {
        struct as_replica *r = as_quarantine_dequeue(d, q);

        d->stat.replays_refused += q->ran;
        as_deployment_fail(d, q, q->ran ? AS_EMAYHAVERUN : AS_ESUSPECT);
        if (r)
            as_dispatch_pull(r, now);
    }
}

void as_quarantine_expire(struct as_deployment *d, as_ns now)
{
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];

        if (!r->quarantine.until || r->quarantine.until > now)
            continue;
        if (r->quarantine.state == AS_QUARANTINE_RESERVED) {
            release_replica(r, now + d->conf.quarantine.time);
        } else {
            r->quarantine.until = 0;
            if (r->quarantine.state != AS_QUARANTINE_ALONE)
                continue;
            end_turn(r, AS_QUARANTINE_SHARED);
        }
        as_dispatch_pull(r, now);
    }
    refuse_late(d, now);
    if (d->n_suspects)
        as_quarantine_schedule(d, now);
    as_dispatch_balance(d, now);
}

as_ns as_quarantine_next_due(const struct as_deployment *d)
{
    as_ns next = AS_NEVER;

    if (d->n_suspects)
        next = refuse_at(d, as_request_of(d->suspects.next));
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        const struct as_quarantine *t = &d->replicas[i]->quarantine;

        if (t->until && (t->state != AS_QUARANTINE_NONE || d->n_suspects))
            next = AS_MIN(next, t->until);
    }
    return next;
}

/* --- invariants --- */

static bool replica_ok(const struct as_replica *r)
{
    const struct as_quarantine *t = &r->quarantine;

    if ((t->state == AS_QUARANTINE_NONE) != (t->suspect == NULL))
        return false;
    if (t->state == AS_QUARANTINE_NONE)
        return true;
    if (!t->suspect->blame || !t->suspect->blame->in_quarantine ||
        (t->state < AS_QUARANTINE_SHARED && !t->until))
        return false;
    if (t->state == AS_QUARANTINE_RESERVED)
        return t->suspect->state == AS_REQ_QUEUED && !r->draining;
    return t->suspect->replica == r && (t->state == AS_QUARANTINE_SHARED || r->unanswered == 1);
}

bool as_quarantine_ok(const struct as_deployment *d)
{
    uint32_t suspects = 0, quarantines = 0, unverified = 0;
    bool pauses = false;
    as_ns since = 0;
    struct as_replica *r;

    for (struct as_list *n = d->suspects.next; n != &d->suspects; n = n->next, suspects++) {
        const struct as_request *q = as_request_of(n);

        if (q->state != AS_REQ_QUEUED || !q->blame || q->suspected < since ||
            (q->blame->state == AS_BLAME_POISON && !q->unverified))
            return false;
        since = q->suspected;
        unverified += q->unverified;
    }
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        r = d->replicas[i];
        if (!replica_ok(r))
            return false;
        quarantines += r->quarantine.state == AS_QUARANTINE_RESERVED ||
                       r->quarantine.state == AS_QUARANTINE_ALONE;
        pauses = pauses || r->quarantine.until;
    }
    return suspects == d->n_suspects && quarantines == d->n_quarantines &&
           unverified == d->n_unverified && as_blame_ok(&d->blame) &&
           (d->serving_since == AS_NEVER) == (as_deployment_ready(d) == 0) &&
           (!suspects || quarantines || pauses || !next_suspect(d, AS_NEVER, &r));
}
