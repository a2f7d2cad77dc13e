/* Suspects: each runs alone in a replica, which is kept free for it. A few at once, so that most of
 * the deployment serves the others; never two that are alike. */
#include "core/replica.h"

#define SHARE 3u /* of the ready replicas, one in so many may be on trial, and always one */

static struct as_request *request_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_request, node);
}

static uint32_t most_trials(const struct as_deploy *d)
{
    return AS_MAX(as_deploy_ready(d) / SHARE, 1);
}

int as_trial_look(struct as_deploy *d, struct as_request *q, as_ns now)
{
    struct as_print p = {0};
    struct as_blamed *e;

    if (q->blame)
        return q->blame->state == AS_BLAME_CONDEMNED ? AS_EPOISON : 0;
    if (!d->blame.n || !d->ops.print)
        return 0;
    as_blame_expire(&d->blame, now);
    if (!as_blame_may_know(&d->blame, q->model, d->ops.print(d->ctx, q, NULL)))
        return 0;
    p.size = d->ops.print(d->ctx, q, &p);
    p.model = q->model;
    e = as_blame_find(&d->blame, &p, now);
    if (!e)
        return 0;
    if (e->state == AS_BLAME_CONDEMNED)
        return AS_EPOISON;
    q->blame = e;
    e->waiting++;
    return 0;
}

bool as_trial_has_room(const struct as_deploy *d, uint32_t model)
{
    if (!d->ops.print || !d->conf.blame.max || d->n_suspects || d->n_trials >= most_trials(d))
        return false;
    for (uint32_t i = 0; i < d->n_free; i++) {
        if (!d->free[i]->unanswered && as_replica_has(d->free[i], model))
            return true;
    }
    return false;
}

void as_trial_suspect(struct as_deploy *d, struct as_request *q, as_ns now)
{
    struct as_print p = {0};

    if (q->blame)
        return;
    p.size = d->ops.print(d->ctx, q, &p);
    p.model = q->model;
    q->blame = as_blame_suspect(&d->blame, &p, now);
    if (q->blame)
        q->blame->waiting++;
}

void as_trial_add(struct as_deploy *d, struct as_request *q)
{
    AS_ASSERT(q->blame && q->state == AS_REQ_QUEUED);
    as_list_push(&d->suspects, &q->node);
    d->n_suspects++;
}

/* One that was never blamed is forgotten with the last who waits as it. */
void as_trial_forget(struct as_deploy *d, struct as_request *q)
{
    struct as_blamed *e = q->blame;

    q->blame = NULL;
    if (--e->waiting == 0 && !e->kills && !e->trying)
        as_blame_acquit(&d->blame, e);
}

/* Whoever was kept free for q, or had it alone. */
static void let_go(struct as_replica *r)
{
    r->tried->blame->trying = false;
    r->tried = NULL;
    r->deploy->n_trials--;
    as_dispatch_relimit(r);
}

static struct as_replica *keeper_of(const struct as_deploy *d, const struct as_request *q)
{
    for (uint32_t i = 0; i < d->n_all; i++) {
        if (d->all[i]->tried == q)
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
        let_go(r);
    as_trial_forget(d, q);
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

/* The one that will be idle first, as far as one can tell, of those that serve the model. */
static struct as_replica *choose(const struct as_deploy *d, uint32_t model)
{
    struct as_replica *best = NULL;

    for (uint32_t i = 0; i < d->n_all; i++) {
        struct as_replica *r = d->all[i];

        if (r->slots && as_replica_open(r) && as_replica_has(r, model) &&
            (!best || r->unanswered < best->unanswered))
            best = r;
    }
    return best;
}

/* The first whose like is not on trial, and for which there is a replica. */
static struct as_request *next(const struct as_deploy *d, struct as_replica **ret_r)
{
    for (struct as_list *n = d->suspects.next; n != &d->suspects; n = n->next) {
        struct as_request *q = request_of(n);

        if (!q->blame->trying && (*ret_r = choose(d, q->model)))
            return q;
    }
    return NULL;
}

static void begin(struct as_replica *r, as_ns now)
{
    struct as_deploy *d = r->deploy;
    struct as_request *q = r->tried;

    as_list_remove(&q->node);
    d->n_suspects--;
    if (q->deadline <= now) {
        let_go(r);
        as_deploy_fail(d, q, AS_EDEADLINE);
        as_dispatch_pull(r, now);
        return;
    }
    d->stat.trials++;
    as_dispatch_send(r, q, now);
}

void as_trial_go(struct as_deploy *d, as_ns now)
{
    struct as_request *q;
    struct as_replica *r;

    while (d->n_trials < most_trials(d) && (q = next(d, &r))) {
        r->tried = q;
        q->blame->trying = true;
        d->n_trials++;
        as_dispatch_relimit(r);
    }
    for (uint32_t i = 0; d->n_trials && i < d->n_all; i++) {
        r = d->all[i];
        if (r->tried && r->tried->state == AS_REQ_QUEUED && !r->unanswered)
            begin(r, now);
    }
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

    AS_ASSERT(r->tried == q);
    let_go(r);
    if (!well)
        return;
    e->waiting--;
    q->blame = NULL;
    acquit(d, e, now);
}

bool as_trial_abort(struct as_replica *r)
{
    bool runs = r->tried && r->tried->state != AS_REQ_QUEUED;

    if (r->tried)
        let_go(r);
    return runs;
}

/* --- after a death --- */

/* Neither is the same as one before. */
static bool is_new(const struct as_print *prints, uint32_t n, const struct as_print *p)
{
    for (uint32_t i = 0; i < n; i++) {
        if (prints[i].lo == p->lo && prints[i].hi == p->hi && prints[i].model == p->model)
            return false;
    }
    return true;
}

uint32_t as_trial_prints(const struct as_replica *r, uint64_t last_started,
                         struct as_print *ret_prints, uint32_t max)
{
    const struct as_deploy *d = r->deploy;
    uint32_t n = 0;

    for (struct as_list *it = r->sent.next; it != &r->sent && n < max; it = it->next) {
        const struct as_request *q = request_of(it);
        struct as_print *p = &ret_prints[n];

        if (q->stream > last_started)
            break;
        *p = (struct as_print){0};
        p->size = d->ops.print(d->ctx, q, p);
        p->model = q->model;
        n += is_new(ret_prints, n, p);
    }
    return n;
}

/* What the queue holds of them: it is looked at as if it came now. */
static void look_again(struct as_deploy *d, as_ns now)
{
    struct as_list all;
    struct as_list *n;

    as_list_init(&all);
    as_queue_take(&d->queue, &all);
    while ((n = as_list_pop(&all))) {
        struct as_request *q = request_of(n);
        int err = as_trial_look(d, q, now);

        if (err)
            as_deploy_fail(d, q, err);
        else if (q->blame)
            as_trial_add(d, q);
        else
            as_queue_push(&d->queue, q);
    }
    if (d->batched) {
        AS_LIST_EACH(it, &d->queue.active)
        {
            as_dispatch_hold(d, AS_LIST_ENTRY(it, struct as_lane, node), now);
        }
        as_dispatch_flow(d, now);
    }
}

static void fail_condemned(struct as_deploy *d)
{
    AS_LIST_EACH(n, &d->suspects)
    {
        struct as_request *q = request_of(n);

        if (q->blame->state != AS_BLAME_CONDEMNED)
            continue;
        (void)as_trial_leave(d, q);
        as_deploy_fail(d, q, AS_EPOISON);
    }
}

void as_trial_convict(struct as_deploy *d, const struct as_print *prints, uint32_t n, bool on_trial,
                      as_ns now)
{
    for (uint32_t i = 0; i < n; i++)
        (void)as_blame_add(&d->blame, &prints[i], on_trial, now);
    d->stat.blamed += n;
    if (!n)
        return;
    fail_condemned(d);
    look_again(d, now);
    as_trial_go(d, now);
}

/* --- invariants --- */

bool as_trial_ok(const struct as_deploy *d)
{
    uint32_t suspects = 0, trials = 0;
    struct as_replica *r;

    for (struct as_list *n = d->suspects.next; n != &d->suspects; n = n->next, suspects++) {
        const struct as_request *q = request_of(n);

        if (q->state != AS_REQ_QUEUED || !q->blame || q->blame->state == AS_BLAME_CONDEMNED)
            return false;
    }
    for (uint32_t i = 0; i < d->n_all; i++) {
        r = d->all[i];
        if (!r->tried)
            continue;
        trials++;
        if (!r->tried->blame || !r->tried->blame->trying || r->draining)
            return false;
        /* alone, or not begun */
        if (r->tried->state != AS_REQ_QUEUED && r->unanswered != 1)
            return false;
    }
    return suspects == d->n_suspects && trials == d->n_trials && as_blame_ok(&d->blame) &&
           (!suspects || trials || !next(d, &r));
}
