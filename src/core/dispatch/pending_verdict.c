/* The requests that were executing in workers that died, until the cause of the death is known. A
 * request that may run again only then is PARKED; if the cause is not reported in time it goes on
 * as after an unknown cause. A request that has ended is RETAINED for its body. Fingerprints are
 * computed when the worker crashed, or when the report is late: a crash that is reported after the
 * bodies are freed can still be blamed on them. */
#include "core/dispatch/replica.h"

#define PENDING_VERDICTS_MAX 256u /* beyond that the oldest is resolved as unknown */

static struct as_pending_verdict *verdict_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_pending_verdict, node);
}

static struct as_request *request_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_request, node);
}

static struct as_evidence *evidence_of(struct as_pending_verdict *g, const struct as_request *q)
{
    for (uint32_t i = 0; i < g->n_evidence; i++) {
        if (g->evidence[i].q == q)
            return &g->evidence[i];
    }
    return NULL;
}

bool as_pending_verdict_has_evidence(struct as_pending_verdict *g, const struct as_request *q)
{
    return g && evidence_of(g, q);
}

/* Frees g, which has no parked requests. Its retained requests are released in later turns. */
static void free_verdict(struct as_deployment *d, struct as_pending_verdict *g)
{
    struct as_list *n;

    AS_ASSERT(as_list_empty(&g->parked));
    as_quarantine_resolve(d, g->in_quarantine);
    while ((n = as_list_pop(&g->retained))) {
        as_fingerprint_cancel(d, request_of(n));
        request_of(n)->verdict = NULL;
        as_list_push(&d->to_release, n);
    }
    as_list_remove(&g->node);
    d->n_verdicts--;
    free(g);
}

/* Ends the parked requests or moves them to `back`, for as_replica_requeue. */
static void resume_parked(struct as_deployment *d, struct as_pending_verdict *g, enum as_loss loss,
                          struct as_list back[AS_PRIORITIES], as_ns now)
{
    struct as_list *n;
    uint32_t n_alone = 0;

    g->until = AS_NEVER;
    as_quarantine_resolve(d, g->in_quarantine);
    g->in_quarantine = NULL;
    while ((n = as_list_pop(&g->parked))) {
        struct as_request *q = request_of(n);
        struct as_evidence *v = evidence_of(g, q);

        d->parked--;
        q->verdict = NULL;
        as_fingerprint_cancel(d, q);
        if (v)
            v->q = NULL;
        if (!as_replica_may_retry(d, q, as_retry_rule(loss, AS_PROGRESS_STARTED, q->idempotent))) {
            as_deployment_fail(d, q, AS_EMAYHAVERUN);
            continue;
        }
        /* it may have ended the worker: if a replica is idle it runs there alone, so that another
         * death would be a proof */
        if (loss == AS_LOSS_UNKNOWN && v && g->state == AS_PENDING_VERDICT_FINGERPRINTED &&
            !n_alone && as_quarantine_has_room(d, q->model)) {
            as_suspect_add(d, q, &v->fingerprint, now);
            n_alone += q->blame != NULL;
        }
        as_replica_collect_retry(back, q);
    }
}

static void resume_one(struct as_deployment *d, struct as_pending_verdict *g, enum as_loss loss,
                       as_ns now)
{
    struct as_list back[AS_PRIORITIES];

    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&back[p]);
    resume_parked(d, g, loss, back, now);
    as_replica_requeue(d, back, now);
}

/* --- a new pending verdict --- */

struct collector {
    struct as_pending_verdict *g;
    uint32_t max;
    as_ns now;
};

static void add_evidence(void *arg, struct as_request *q)
{
    struct collector *k = arg;

    if (k->g->n_evidence < k->max)
        k->g->evidence[k->g->n_evidence++] = (struct as_evidence){.q = q, .ran = k->now - q->sent};
}

struct as_pending_verdict *as_pending_verdict_new(struct as_replica *r, uint64_t suspect_to,
                                                  struct as_blame_entry *tried, as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct collector k = {.max = d->ops.sample ? d->conf.blame.max : 0, .now = now};
    struct as_pending_verdict *g;

    k.max = AS_MIN(k.max, r->unanswered);
    if (d->n_verdicts == PENDING_VERDICTS_MAX) {
        resume_one(d, verdict_of(d->verdicts.next), AS_LOSS_UNKNOWN, now);
        free_verdict(d, verdict_of(d->verdicts.next));
    }
    k.g = g = as_xalloc(sizeof(*g) + k.max * sizeof(g->evidence[0]));
    g->number = ++d->last_verdict;
    g->until = AS_NEVER;
    as_list_init(&g->parked);
    as_list_init(&g->retained);
    if (suspect_to == UINT64_MAX) { /* not known what had started: take what could have */
        as_replica_each_executing(r, add_evidence, &k);
    } else {
        AS_LIST_EACH(n, &r->sent)
        {
            if (request_of(n)->stream > suspect_to)
                break;
            add_evidence(&k, request_of(n));
        }
    }
    g->in_quarantine = tried;
    g->alone = tried && g->n_evidence == 1;
    as_list_push(&d->verdicts, &g->node);
    d->n_verdicts++;
    return g;
}

/* A request that was lost before waits longer: it may be the one that ends workers, and must not
 * end a second one before the cause of the first death is known. */
void as_pending_verdict_park(struct as_deployment *d, struct as_pending_verdict *g,
                             struct as_request *q, as_ns now)
{
    as_ns wait = q->tries || q->blame ? d->conf.repeat_verdict_wait : d->conf.verdict_wait;

    as_request_set_state(q, AS_REQ_PARKED);
    as_list_push(&g->parked, &q->node);
    q->verdict = g;
    d->parked++;
    if (g->until == AS_NEVER || now + wait > g->until)
        g->until = now + wait;
}

void as_pending_verdict_retain(struct as_deployment *d, struct as_pending_verdict *g,
                               struct as_request *q)
{
    struct as_evidence *v = g ? evidence_of(g, q) : NULL;

    if (v && v < g->evidence + g->n_fingerprinted) { /* its fingerprint is complete */
        v->q = NULL;
        v = NULL;
    }
    if (!v) {
        as_deployment_release(d, q);
        return;
    }
    as_deadline_heap_remove(&d->deadlines, q);
    as_request_set_state(q, AS_REQ_RETAINED);
    as_deployment_uncount(d, q);
    q->verdict = g;
    as_list_push(&g->retained, &q->node);
}

void as_pending_verdict_remove(struct as_deployment *d, struct as_request *q)
{
    struct as_pending_verdict *g = q->verdict;

    as_list_remove(&q->node);
    q->verdict = NULL;
    d->parked--;
    as_pending_verdict_retain(d, g, q);
}

/* --- fingerprints --- */

static bool fingerprint_all(struct as_deployment *d, struct as_pending_verdict *g, as_ns now)
{
    for (; g->n_fingerprinted < g->n_evidence; g->n_fingerprinted++) {
        struct as_evidence *v = &g->evidence[g->n_fingerprinted];

        if (!as_fingerprint_compute(d, v->q, &v->fingerprint, now))
            return false;
        if (v->q->state != AS_REQ_RETAINED)
            continue;
        as_list_remove(&v->q->node);
        v->q->verdict = NULL;
        as_deployment_release(d, v->q);
        v->q = NULL;
    }
    return true;
}

/* All fingerprints of g are complete. */
static void finish_fingerprinting(struct as_deployment *d, struct as_pending_verdict *g,
                                  struct as_list back[AS_PRIORITIES], as_ns now)
{
    enum as_loss loss = g->loss;

    g->state = AS_PENDING_VERDICT_FINGERPRINTED;
    /* first, because requests like the evidence must not go on with the others */
    if (loss != AS_LOSS_UNKNOWN)
        as_suspect_blame(d, g->evidence, g->n_evidence, g->alone, now);
    resume_parked(d, g, loss, back, now);
    if (loss != AS_LOSS_UNKNOWN || !g->n_evidence)
        free_verdict(d, g);
}

/* Moves requests that can go on to `back`. False: there is more to do in the next turn. */
static bool work_portion(struct as_deployment *d, struct as_list back[AS_PRIORITIES], as_ns now)
{
    struct as_list *n;

    AS_LIST_EACH(it, &d->verdicts)
    {
        struct as_pending_verdict *g = verdict_of(it);

        if (g->state != AS_PENDING_VERDICT_FINGERPRINTING)
            continue;
        if (!fingerprint_all(d, g, now))
            return false;
        finish_fingerprinting(d, g, back, now);
    }
    while (!as_list_empty(&d->to_release)) {
        struct as_request *q = request_of(d->to_release.next);

        if (!as_fingerprint_use_budget(d, d->ops.sample(d->ctx, q, NULL), now))
            return false;
        n = as_list_pop(&d->to_release);
        as_deployment_release(d, request_of(n));
    }
    return true;
}

bool as_pending_verdict_work(struct as_deployment *d, as_ns now)
{
    struct as_list back[AS_PRIORITIES];
    bool all;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&back[p]);
    all = work_portion(d, back, now);
    as_replica_requeue(d, back, now);
    return all;
}

static void start_fingerprinting(struct as_pending_verdict *g, enum as_loss loss)
{
    AS_ASSERT(g->state == AS_PENDING_VERDICT_WAITING);
    g->state = AS_PENDING_VERDICT_FINGERPRINTING;
    g->loss = loss;
    g->until = AS_NEVER;
}

static struct as_pending_verdict *find_verdict(const struct as_deployment *d, uint64_t number)
{
    for (struct as_list *n = d->verdicts.next; n != &d->verdicts; n = n->next) {
        if (verdict_of(n)->number == number)
            return verdict_of(n);
    }
    return NULL;
}

uint64_t as_pending_verdict_start(struct as_deployment *d, struct as_pending_verdict *g,
                                  enum as_loss loss, struct as_list back[AS_PRIORITIES], as_ns now)
{
    uint64_t number = g->number;

    if (as_list_empty(&g->parked) && !g->n_evidence) {
        free_verdict(d, g);
        return 0;
    }
    if (loss == AS_LOSS_PENDING && d->conf.verdict_wait) {
        if (as_list_empty(&g->parked))
            g->until = now + d->conf.verdict_wait;
        d->ops.wake(d->ctx, g->until);
        return number;
    }
    start_fingerprinting(g, loss == AS_LOSS_PENDING ? AS_LOSS_UNKNOWN : loss);
    if (!work_portion(d, back, now))
        d->ops.next_turn(d->ctx);
    return loss == AS_LOSS_PENDING && find_verdict(d, number) ? number : 0;
}

/* --- over time --- */

/* Handles all that are due together, so that requests go on in the order of their arrival,
 * whichever worker had them. */
void as_pending_verdict_expire(struct as_deployment *d, as_ns now)
{
    AS_LIST_EACH(n, &d->verdicts)
    {
        struct as_pending_verdict *g = verdict_of(n);

        if (g->state == AS_PENDING_VERDICT_WAITING && g->until <= now)
            start_fingerprinting(g, AS_LOSS_UNKNOWN);
    }
    if (!as_pending_verdict_work(d, now))
        d->ops.next_turn(d->ctx);
}

as_ns as_pending_verdict_next_due(const struct as_deployment *d)
{
    as_ns next = AS_NEVER;

    for (struct as_list *n = d->verdicts.next; n != &d->verdicts; n = n->next) {
        const struct as_pending_verdict *g = verdict_of(n);

        /* without requests it waits only for the report, and needs no timer */
        if (g->state == AS_PENDING_VERDICT_WAITING && (!as_list_empty(&g->parked) || g->n_evidence))
            next = AS_MIN(next, g->until);
    }
    return next;
}

void as_deployment_verdict(struct as_deployment *d, uint64_t number, enum as_loss loss, as_ns now)
{
    struct as_pending_verdict *g = find_verdict(d, number);
    bool crashed = loss == AS_LOSS_CRASHED;

    if (!g)
        return;
    if (crashed && g->state == AS_PENDING_VERDICT_FINGERPRINTED) {
        as_suspect_blame(d, g->evidence, g->n_evidence, g->alone, now);
        free_verdict(d, g);
    } else if (crashed && g->state == AS_PENDING_VERDICT_FINGERPRINTING) {
        g->loss = loss; /* used when the fingerprints are complete */
    } else if (crashed) {
        start_fingerprinting(g, loss);
    } else {
        resume_one(d, g, loss <= AS_LOSS_CRASHED ? loss : AS_LOSS_UNKNOWN, now);
        free_verdict(d, g);
    }
    if (!as_pending_verdict_work(d, now))
        d->ops.next_turn(d->ctx);
}

static bool is_among(const struct as_list *head, uint32_t model)
{
    for (struct as_list *n = head->next; n != head; n = n->next) {
        if (AS_LIST_ENTRY(n, struct as_request, node)->model == model)
            return true;
    }
    return false;
}

bool as_pending_verdict_holds_model(const struct as_deployment *d, uint32_t model)
{
    for (struct as_list *n = d->verdicts.next; n != &d->verdicts; n = n->next) {
        const struct as_pending_verdict *g = verdict_of(n);

        if (is_among(&g->parked, model) || is_among(&g->retained, model) ||
            (g->in_quarantine && g->in_quarantine->fingerprint.model == model))
            return true;
        for (uint32_t i = g->n_fingerprinted; i < g->n_evidence; i++) {
            if (g->evidence[i].q->model == model)
                return true;
        }
    }
    return is_among(&d->to_release, model);
}

void as_pending_verdict_forget_model(struct as_deployment *d, uint32_t model)
{
    AS_LIST_EACH(n, &d->verdicts)
    {
        struct as_pending_verdict *g = verdict_of(n);
        uint32_t kept = 0;

        for (uint32_t i = 0; i < g->n_evidence; i++) {
            if (i >= g->n_fingerprinted || g->evidence[i].fingerprint.model != model)
                g->evidence[kept++] = g->evidence[i];
        }
        g->n_fingerprinted -= g->n_evidence - kept;
        g->n_evidence = kept;
        if (g->state == AS_PENDING_VERDICT_FINGERPRINTED && !g->n_evidence)
            free_verdict(d, g);
    }
}

void as_pending_verdict_fail_all(struct as_deployment *d, int err)
{
    struct as_list *p;

    AS_LIST_EACH(n, &d->verdicts)
    {
        struct as_pending_verdict *g = verdict_of(n);

        while ((p = as_list_pop(&g->parked))) {
            d->parked--;
            request_of(p)->verdict = NULL;
            as_fingerprint_cancel(d, request_of(p));
            as_deployment_fail(d, request_of(p), err);
        }
        free_verdict(d, g);
    }
    while ((p = as_list_pop(&d->to_release)))
        as_deployment_release(d, request_of(p));
}

/* --- invariants --- */

static bool retained_ok(const struct as_list *head, const struct as_pending_verdict *g)
{
    for (struct as_list *k = head->next; k != head; k = k->next) {
        const struct as_request *q = request_of(k);

        if (q->state != AS_REQ_RETAINED || q->verdict != g || !as_request_ok(q))
            return false;
    }
    return true;
}

/* The bodies that are still to be fingerprinted are there. */
static bool evidence_ok(const struct as_pending_verdict *g)
{
    for (uint32_t i = 0; i < g->n_evidence; i++) {
        const struct as_request *q = g->evidence[i].q;

        if (q ? q->verdict != g : i >= g->n_fingerprinted)
            return false;
    }
    return g->n_fingerprinted <= g->n_evidence;
}

bool as_pending_verdict_ok(const struct as_deployment *d)
{
    uint32_t n = 0, parked = 0;

    for (struct as_list *i = d->verdicts.next; i != &d->verdicts; i = i->next, n++) {
        struct as_pending_verdict *g = verdict_of(i);

        if ((g->state == AS_PENDING_VERDICT_WAITING) != (g->until != AS_NEVER))
            return false;
        if (g->state == AS_PENDING_VERDICT_FINGERPRINTED &&
            (!as_list_empty(&g->parked) || !as_list_empty(&g->retained)))
            return false;
        for (struct as_list *k = g->parked.next; k != &g->parked; k = k->next, parked++) {
            const struct as_request *q = request_of(k);

            if (q->state != AS_REQ_PARKED || q->verdict != g || q->bound || !q->idempotent ||
                !as_request_ok(q))
                return false;
        }
        if (!retained_ok(&g->retained, g) || !evidence_ok(g))
            return false;
    }
    return n == d->n_verdicts && parked == d->parked && retained_ok(&d->to_release, NULL);
}
