/* Dead workers of which nobody has said why. What may run again only if that is known waits here
 * for the word; when it does not come in time it goes on without. The fingerprints stay, since a
 * late word still tells who is to blame. */
#include "core/replica.h"

#define GRAVES_MAX 256u /* the oldest goes for a new one */

static struct as_grave *grave_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_grave, node);
}

static void fill(struct as_deploy *d, struct as_grave *g)
{
    AS_ASSERT(as_list_empty(&g->parked));
    as_list_remove(&g->node);
    d->n_graves--;
    free(g);
}

/* What waits there ends, or goes on with `back`, which is to rise. */
static void open_up(struct as_deploy *d, struct as_grave *g, enum as_loss loss,
                    struct as_list back[AS_PRIORITIES], as_ns now)
{
    struct as_list *n;
    uint32_t n_alone = 0;

    g->until = AS_NEVER;
    while ((n = as_list_pop(&g->parked))) {
        struct as_request *q = AS_LIST_ENTRY(n, struct as_request, node);

        d->parked--;
        if (as_replica_may_rise(d, q, as_replay_rule(loss, AS_PROGRESS_STARTED, q->idempotent))) {
            /* it may be what ended the worker: if it costs no more than an idle replica, it goes
             * alone, so that another death is a proof */
            if (loss == AS_LOSS_UNKNOWN && !n_alone && as_trial_has_room(d, q->model)) {
                as_trial_suspect(d, q, now);
                n_alone += q->blame != NULL;
            }
            as_replica_bury(back, q);
        } else
            as_deploy_fail(d, q, AS_EMAYHAVERUN);
    }
}

static void open_one(struct as_deploy *d, struct as_grave *g, enum as_loss loss, as_ns now)
{
    struct as_list back[AS_PRIORITIES];

    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&back[p]);
    open_up(d, g, loss, back, now);
    as_replica_rise(d, back, now);
}

struct as_grave *as_grave_dig(struct as_replica *r, uint64_t last_started, as_ns now)
{
    struct as_deploy *d = r->deploy;
    uint32_t max = d->ops.print ? d->conf.blame.max : 0;
    struct as_grave *g;

    max = AS_MIN(max, r->unanswered);
    if (d->n_graves == GRAVES_MAX) {
        open_one(d, grave_of(d->graves.next), AS_LOSS_UNKNOWN, now);
        fill(d, grave_of(d->graves.next));
    }
    g = as_xalloc(sizeof(*g) + max * sizeof(g->prints[0]));
    g->number = ++d->last_grave;
    g->until = AS_NEVER;
    as_list_init(&g->parked);
    g->n_prints = as_trial_prints(r, last_started, g->prints, max, now);
    as_list_push(&d->graves, &g->node);
    d->n_graves++;
    return g;
}

/* Who has been lost before waits longer: it may be what ends workers, and a second one that ends
 * before the first one's verdict would be the price of haste. */
void as_grave_park(struct as_deploy *d, struct as_grave *g, struct as_request *q, as_ns now)
{
    as_ns wait = q->tries || q->blame ? d->conf.verdict_patience : d->conf.verdict_wait;

    as_request_move(q, AS_REQ_PARKED);
    as_list_push(&g->parked, &q->node);
    d->parked++;
    if (g->until == AS_NEVER || now + wait > g->until)
        g->until = now + wait;
}

void as_grave_unpark(struct as_deploy *d, struct as_request *q)
{
    as_list_remove(&q->node);
    d->parked--;
}

bool as_grave_is_needed(const struct as_grave *g)
{
    return g->n_prints || !as_list_empty(&g->parked);
}

void as_grave_fill(struct as_deploy *d, struct as_grave *g)
{
    fill(d, g);
}

/* All that are due together: who came first goes first, whichever worker had it. */
void as_grave_expire(struct as_deploy *d, as_ns now)
{
    struct as_list back[AS_PRIORITIES];

    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&back[p]);
    AS_LIST_EACH(n, &d->graves)
    {
        struct as_grave *g = grave_of(n);

        if (g->until > now)
            continue;
        open_up(d, g, AS_LOSS_UNKNOWN, back, now);
        if (!as_grave_is_needed(g))
            fill(d, g);
    }
    as_replica_rise(d, back, now);
}

as_ns as_grave_next(const struct as_deploy *d)
{
    as_ns next = AS_NEVER;

    /* one whose requests have all left waits for nothing but the word */
    for (struct as_list *n = d->graves.next; n != &d->graves; n = n->next) {
        if (!as_list_empty(&grave_of(n)->parked))
            next = AS_MIN(next, grave_of(n)->until);
    }
    return next;
}

void as_deploy_verdict(struct as_deploy *d, uint64_t number, enum as_loss loss, as_ns now)
{
    AS_LIST_EACH(n, &d->graves)
    {
        struct as_grave *g = grave_of(n);

        if (g->number != number)
            continue;
        /* first: what is like them must not go with the others */
        if (loss == AS_LOSS_CRASHED)
            as_trial_convict(d, g->prints, g->n_prints, g->on_trial, now);
        open_one(d, g, loss <= AS_LOSS_CRASHED ? loss : AS_LOSS_UNKNOWN, now);
        fill(d, g);
        return;
    }
}

bool as_grave_holds(const struct as_deploy *d, uint32_t model)
{
    for (struct as_list *n = d->graves.next; n != &d->graves; n = n->next) {
        const struct as_list *parked = &grave_of(n)->parked;

        for (struct as_list *k = parked->next; k != parked; k = k->next) {
            if (AS_LIST_ENTRY(k, struct as_request, node)->model == model)
                return true;
        }
    }
    return false;
}

void as_grave_forget(struct as_deploy *d, uint32_t model)
{
    AS_LIST_EACH(n, &d->graves)
    {
        struct as_grave *g = grave_of(n);
        uint32_t kept = 0;

        for (uint32_t i = 0; i < g->n_prints; i++) {
            if (g->prints[i].model != model)
                g->prints[kept++] = g->prints[i];
        }
        g->n_prints = kept;
        if (!as_grave_is_needed(g))
            fill(d, g);
    }
}

void as_grave_fill_all(struct as_deploy *d, int err)
{
    AS_LIST_EACH(n, &d->graves)
    {
        struct as_grave *g = grave_of(n);
        struct as_list *p;

        while ((p = as_list_pop(&g->parked))) {
            d->parked--;
            as_deploy_fail(d, AS_LIST_ENTRY(p, struct as_request, node), err);
        }
        fill(d, g);
    }
}

bool as_grave_ok(const struct as_deploy *d)
{
    uint32_t n = 0, parked = 0;

    for (struct as_list *i = d->graves.next; i != &d->graves; i = i->next, n++) {
        struct as_grave *g = grave_of(i);

        if (g->until == AS_NEVER && !as_list_empty(&g->parked))
            return false;
        for (struct as_list *k = g->parked.next; k != &g->parked; k = k->next, parked++) {
            const struct as_request *q = AS_LIST_ENTRY(k, struct as_request, node);

            if (q->state != AS_REQ_PARKED || q->bound || !q->idempotent || !as_request_ok(q))
                return false;
        }
    }
    return n == d->n_graves && parked == d->parked;
}
