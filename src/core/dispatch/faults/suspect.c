/* Which requests are suspects (core/protect/blame.h): those that were executing in a worker that
 * crashed and are retried, and those with the same fingerprint. */
#include "core/dispatch/faults/suspect.h"

#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"
#include "core/dispatch/faults/fingerprint.h"

static void mark_suspect(struct as_request *q, struct as_blame_entry *e)
{
    q->blame = e;
    e->n_requests++;
}

/* Looks up the complete fingerprint of q: AS_EPOISON, or 0 and q->blame is set if it is a suspect.
 */
static int check_fingerprint(struct as_deployment *d, struct as_request *q,
                             const struct as_fingerprint *p, as_ns now)
{
    struct as_blame_entry *e = as_blame_find(&d->blame, p, now);

    if (e && e->state == AS_BLAME_POISON)
        return AS_EPOISON;
    if (e)
        mark_suspect(q, e);
    return 0;
}

int as_suspect_check(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_fingerprint p = {.model = q->model};
    struct as_blame_entry *e;

    if (q->blame)
        return q->blame->state == AS_BLAME_POISON && !q->unverified ? AS_EPOISON : 0;
    if (!d->blame.n || !d->ops.sample || q->reservation == AS_RESERVATION_WANTED)
        return 0; /* a reservation is checked when it says what is to be executed */
    as_blame_expire(&d->blame, now);
    if (!as_blame_may_match(&d->blame, q->model, d->ops.sample(d->ctx, q, NULL)))
        return 0;
    p.size = d->ops.sample(d->ctx, q, &p.sample);
    e = as_blame_find_similar(&d->blame, &p);
    if (!e)
        return 0;
    if (!d->fingerprinting && as_fingerprint_compute(d, q, &p, now))
        return check_fingerprint(d, q, &p, now);
    mark_suspect(q, e);
    q->unverified = true;
    d->n_unverified++;
    d->ops.next_turn(d->ctx);
    return 0;
}

static struct as_request *first_unverified(const struct as_deployment *d)
{
    for (struct as_list *n = d->suspects.next; n != &d->suspects; n = n->next) {
        if (as_request_of(n)->unverified)
            return as_request_of(n);
    }
    return NULL;
}

/* The fingerprint of an unverified suspect is complete: is q really one? */
static void verify_one(struct as_deployment *d, struct as_request *q,
                       const struct as_fingerprint *p, as_ns now)
{
    int err;

    as_suspect_remove(d, q);
    err = check_fingerprint(d, q, p, now);
    if (!err && q->blame)
        return; /* it keeps its place: suspects are refused in the order of this list */
    as_list_remove(&q->node);
    d->n_suspects--;
    if (err)
        as_deployment_fail(d, q, err);
    else
        as_dispatch_enqueue(d, q, now);
}

bool as_suspect_verify(struct as_deployment *d, as_ns now)
{
    struct as_request *q;
    bool some = false;

    while (d->n_unverified && (q = first_unverified(d))) {
        struct as_fingerprint p = {0};

        if (!as_fingerprint_compute(d, q, &p, now))
            break;
        verify_one(d, q, &p, now);
        some = true;
    }
    if (some && d->batched)
        as_dispatch_send_all(d, now);
    if (some && d->n_suspects)
        as_quarantine_schedule(d, now);
    return !d->n_unverified;
}

void as_suspect_add(struct as_deployment *d, struct as_request *q, const struct as_fingerprint *p,
                    as_ns now)
{
    struct as_blame_entry *e = q->blame ? NULL : as_blame_add_suspect(&d->blame, p, now);

    if (e)
        mark_suspect(q, e);
}

/* An entry without a death is removed with the last request that refers to it. */
void as_suspect_remove(struct as_deployment *d, struct as_request *q)
{
    struct as_blame_entry *e = q->blame;

    as_fingerprint_cancel(d, q);
    d->n_unverified -= q->unverified;
    q->unverified = false;
    q->blame = NULL;
    if (--e->n_requests == 0 && !e->deaths_caused && !e->in_quarantine)
        as_blame_remove(&d->blame, e);
}

/* --- after a death --- */

/* Checks all that wait again, as if they were submitted now. */
static void recheck_queue(struct as_deployment *d, as_ns now)
{
    struct as_list all, *n;
    struct as_request *q;

    AS_LIST_EACH(it, &d->preferring)
    {
        int err = as_suspect_check(d, q = as_request_of(it), now);

        if (!err && !q->blame)
            continue;
        as_preference_dequeue(d, q);
        if (err)
            as_deployment_fail(d, q, err);
        else
            as_quarantine_enqueue(d, q, now);
    }
    as_list_init(&all);
    as_queue_pop_all(&d->queue, &all);
    while ((q = as_beyond_first(d, UINT32_MAX))) {
        as_beyond_dequeue(d, q);
        as_list_push(&all, &q->node);
    }
    while ((n = as_list_pop(&all))) {
        int err = as_suspect_check(d, q = as_request_of(n), now);

        if (err)
            as_deployment_fail(d, q, err);
        else if (q->blame)
            as_quarantine_enqueue(d, q, now);
        else if (as_request_is_on_cycle(d, q))
            as_beyond_strand(d, q);
        else
            as_queue_push(&d->queue, q);
    }
    as_dispatch_update_lanes(d, now);
}

static void fail_poisons(struct as_deployment *d)
{
    AS_LIST_EACH(n, &d->suspects)
    {
        struct as_request *q = as_request_of(n);

        if (q->blame->state != AS_BLAME_POISON || q->unverified)
            continue;
        if (as_quarantine_dequeue(d, q))
            d->has_released_replicas = true;
        as_deployment_fail(d, q, AS_EPOISON);
    }
}

/* Has an earlier entry of the list the same fingerprint? */
static bool is_duplicate(const struct as_evidence *evidence, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++) {
        if (as_fingerprint_eq(&evidence[k].fingerprint, &evidence[i].fingerprint))
            return true;
    }
    return false;
}

void as_suspect_blame(struct as_deployment *d, struct as_evidence *evidence, uint32_t n, bool alone,
                      as_ns now)
{
    for (uint32_t i = 0; i < n; i++) {
        struct as_evidence *v = &evidence[i];
        struct as_blame_entry *e;

        if (is_duplicate(evidence, i)) {
            e = as_blame_find(&d->blame, &v->fingerprint, now);
        } else {
            e = as_blame_add(&d->blame, &v->fingerprint, alone, v->ran, now);
            d->stat.blamed++;
        }
        if (e && v->q && v->q->state == AS_REQ_PARKED && !v->q->blame)
            mark_suspect(v->q, e);
    }
    if (!n)
        return;
    fail_poisons(d);
    recheck_queue(d, now);
}
