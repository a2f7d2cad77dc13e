/* Which requests are suspects (core/protect/blame.h): those that were executing in a worker that ended, as
 * far as they run again, and those that are like them. */
#include "core/dispatch/replica.h"

static struct as_request *request_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_request, node);
}

static void hold(struct as_request *q, struct as_blamed *e)
{
    q->blame = e;
    e->waiting++;
}

/* By its whole fingerprint: 0, AS_EPOISON, or 0 and it is a suspect. */
static int judge(struct as_deploy *d, struct as_request *q, const struct as_print *p, as_ns now)
{
    struct as_blamed *e = as_blame_find(&d->blame, p, now);

    if (e && e->state == AS_BLAME_CONDEMNED)
        return AS_EPOISON;
    if (e)
        hold(q, e);
    return 0;
}

int as_suspect_look(struct as_deploy *d, struct as_request *q, as_ns now)
{
    struct as_print p = {.model = q->model};
    struct as_blamed *e;

    if (q->blame)
        return q->blame->state == AS_BLAME_CONDEMNED && !q->unproved ? AS_EPOISON : 0;
    if (!d->blame.n || !d->ops.sample)
        return 0;
    as_blame_expire(&d->blame, now);
    if (!as_blame_may_know(&d->blame, q->model, d->ops.sample(d->ctx, q, NULL)))
        return 0;
    p.size = d->ops.sample(d->ctx, q, &p.sample);
    e = as_blame_like(&d->blame, &p);
    if (!e)
        return 0;
    if (!d->printing && as_print_take(d, q, &p, now))
        return judge(d, q, &p, now);
    hold(q, e);
    q->unproved = true;
    d->n_unproved++;
    d->ops.next_turn(d->ctx);
    return 0;
}

static struct as_request *first_unproved(const struct as_deploy *d)
{
    for (struct as_list *n = d->suspects.next; n != &d->suspects; n = n->next) {
        if (request_of(n)->unproved)
            return request_of(n);
    }
    return NULL;
}

/* One that was taken for a suspect: is it? */
static void prove(struct as_deploy *d, struct as_request *q, const struct as_print *p, as_ns now)
{
    as_ns since = q->suspected;
    int err;

    (void)as_trial_leave(d, q);
    err = judge(d, q, p, now);
    if (err) {
        as_deploy_fail(d, q, err);
    } else if (q->blame) {
        as_trial_add(d, q, now);
        q->suspected = since;
    } else {
        as_dispatch_place(d, q, now);
    }
}

bool as_suspect_prove(struct as_deploy *d, as_ns now)
{
    struct as_request *q;
    bool some = false;

    while (d->n_unproved && (q = first_unproved(d))) {
        struct as_print p = {0};

        if (!as_print_take(d, q, &p, now))
            break;
        prove(d, q, &p, now);
        some = true;
    }
    if (some && d->batched)
        as_dispatch_flow(d, now);
    if (some && d->n_suspects)
        as_trial_go(d, now);
    return !d->n_unproved;
}

void as_suspect_add(struct as_deploy *d, struct as_request *q, const struct as_print *p, as_ns now)
{
    struct as_blamed *e = q->blame ? NULL : as_blame_suspect(&d->blame, p, now);

    if (e)
        hold(q, e);
}

/* One that was never blamed is forgotten with the last who waits as it. */
void as_suspect_forget(struct as_deploy *d, struct as_request *q)
{
    struct as_blamed *e = q->blame;

    as_print_drop(d, q);
    d->n_unproved -= q->unproved;
    q->unproved = false;
    q->blame = NULL;
    if (--e->waiting == 0 && !e->kills && !e->trying)
        as_blame_acquit(&d->blame, e);
}

/* --- after a death --- */

/* What the queue holds of them: it is looked at as if it came now. */
static void look_again(struct as_deploy *d, as_ns now)
{
    struct as_list all;
    struct as_list *n;

    as_list_init(&all);
    as_queue_take(&d->queue, &all);
    while ((n = as_list_pop(&all))) {
        struct as_request *q = request_of(n);
        int err = as_suspect_look(d, q, now);

        if (err)
            as_deploy_fail(d, q, err);
        else if (q->blame)
            as_trial_add(d, q, now);
        else
            as_queue_push(&d->queue, q);
    }
    if (d->batched) {
        AS_LIST_EACH(it, &d->queue.active)
        {
            as_dispatch_hold(d, AS_LIST_ENTRY(it, struct as_lane, node), now);
        }
    }
}

static void fail_condemned(struct as_deploy *d)
{
    AS_LIST_EACH(n, &d->suspects)
    {
        struct as_request *q = request_of(n);

        if (q->blame->state != AS_BLAME_CONDEMNED || q->unproved)
            continue;
        if (as_trial_leave(d, q))
            d->has_freed = true;
        as_deploy_fail(d, q, AS_EPOISON);
    }
}

static bool same(const struct as_print *a, const struct as_print *b)
{
    return a->lo == b->lo && a->hi == b->hi && a->size == b->size && a->model == b->model;
}

/* An earlier one of the list that is the same. */
static bool is_told(const struct as_evidence *evidence, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++) {
        if (same(&evidence[k].print, &evidence[i].print))
            return true;
    }
    return false;
}

void as_suspect_convict(struct as_deploy *d, struct as_evidence *evidence, uint32_t n,
                        bool on_trial, as_ns now)
{
    for (uint32_t i = 0; i < n; i++) {
        struct as_evidence *v = &evidence[i];
        struct as_blamed *e;

        if (is_told(evidence, i)) {
            e = as_blame_find(&d->blame, &v->print, now);
        } else {
            e = as_blame_add(&d->blame, &v->print, on_trial, v->ran, now);
            d->stat.blamed++;
        }
        if (e && v->q && v->q->state == AS_REQ_PARKED && !v->q->blame)
            hold(v->q, e);
    }
    if (!n)
        return;
    fail_condemned(d);
    look_again(d, now);
}
