/* Reservations: requests that take a slot before they say what is to be executed in it. */
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"

static void update_limits(void *arg AS_UNUSED, struct as_replica *r)
{
    as_dispatch_update_limits(r);
}

void as_reservation_begin(struct as_deployment *d)
{
    d->reserves = true;
    as_deployment_each_replica(d, update_limits, NULL);
}

/* q (SENT) has another deadline. */
static void set_deadline(struct as_deployment *d, struct as_request *q, as_ns deadline)
{
    as_due_heap_remove(&d->deadlines, &q->due);
    q->deadline = deadline;
    if (deadline != AS_NEVER)
        as_due_heap_push(&d->deadlines, &q->due);
}

void as_reservation_hold(struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deployment *d = r->deployment;
    as_ns limit = d->conf.reserve_time ? now + d->conf.reserve_time : AS_NEVER;

    AS_ASSERT(!q->batch && !q->lane);
    q->reservation = AS_RESERVATION_HELD;
    q->deadline_then = q->deadline;
    r->reserved++;
    d->reserved++;
    if (limit < q->deadline) {
        set_deadline(d, q, limit);
        d->ops.wake(d->ctx, limit);
    }
    d->ops.reserved(d->ctx, r, q);
}

void as_reservation_unhold(struct as_request *q)
{
    q->reservation = AS_RESERVATION_USED;
    q->replica->reserved--;
    q->replica->deployment->reserved--;
}

void as_reservation_cancel(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_replica *r = q->replica;

    as_dispatch_detach(q, false);
    as_deployment_release(d, q);
    as_dispatch_pull(r, now);
    as_dispatch_balance(d, now);
}

/* Ends q with err, which gives its slot back. */
static void end_reservation(struct as_deployment *d, struct as_request *q, int err, as_ns now)
{
    struct as_replica *r = q->replica;

    as_dispatch_detach(q, false);
    as_deployment_fail(d, q, err);
    as_dispatch_pull(r, now);
    as_dispatch_balance(d, now);
}

void as_reservation_expire(struct as_deployment *d, struct as_request *q, as_ns now)
{
    end_reservation(d, q, q->deadline_then <= now ? AS_EDEADLINE : AS_EUNUSED, now);
}

void as_reservation_end_all(struct as_replica *r)
{
    struct as_deployment *d = r->deployment;

    if (!r->reserved)
        return;
    AS_LIST_EACH(n, &r->sent)
    {
        struct as_request *q = as_request_of(n);

        if (!as_request_is_held(q))
            continue;
        as_dispatch_detach(q, false);
        as_deployment_fail(d, q, AS_EREPLICA);
    }
}

/* May q be executed at r? A request like one that ended a worker runs alone, which its slot does
 * not allow. */
static int check(const struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deployment *d = r->deployment;
    int err;

    if (q->deadline <= now)
        return AS_EDEADLINE;
    if (!as_replica_serves(r, q->model))
        return AS_EREPLICA;
    if (!d->blame.n)
        return 0;
    err = as_suspect_check(d, q, now);
    if (!q->blame)
        return err;
    as_suspect_remove(d, q);
    return AS_ESUSPECT;
}

void as_deployment_dispatch_reserved(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_replica *r = q->replica;
    int err;

    AS_ASSERT(as_request_is_held(q));
    as_reservation_unhold(q);
    set_deadline(d, q, q->deadline_then);
    q->pinned = true;
    q->idempotent = false;
    err = check(r, q, now);
    if (err) {
        end_reservation(d, q, err, now);
        return;
    }
    d->ongoing -= as_replica_ongoing(r);
    d->prefetched -= as_replica_waiting(r);
    as_list_remove(&q->node); /* `sent` is in stream order */
    as_list_push(&r->sent, &q->node);
    d->ongoing += as_replica_ongoing(r);
    d->prefetched += as_replica_waiting(r);
    q->sent = now;
    d->ops.send(d->ctx, r, q);
    AS_ASSERT(q->stream > r->last_stream);
    r->last_stream = q->stream;
}
