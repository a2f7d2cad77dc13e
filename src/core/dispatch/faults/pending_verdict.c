/* The requests that were executing in workers that died, until the cause of the death is known. A
 * request that may run again only then is PARKED; if the cause is not reported in time it goes on
 * as after an unknown cause. A request that has ended is RETAINED for its body. Fingerprints are
 * computed when the worker crashed, or when the report is late: a crash that is reported after the
 * bodies are freed can still be blamed on them. */
#include "core/dispatch/faults/pending_verdict.h"

#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/faults/fingerprint.h"

#define PENDING_VERDICTS_MAX 256u /* beyond that the oldest is resolved as unknown */

static struct as_pending_verdict *verdict_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_pending_verdict, node);
}

static struct as_evidence *evidence_of(struct as_pending_verdict *pv, const struct as_request *q)
{
    for (uint32_t i = 0; i < pv->n_evidence; i++) {
        if (pv->evidence[i].q == q)
            return &pv->evidence[i];
    }
    return NULL;
}

bool as_pending_verdict_has_evidence(struct as_pending_verdict *pv, const struct as_request *q)
{
    return pv && evidence_of(pv, q);
}

/* Frees pv, which has no parked requests. Its retained requests are released in later turns. */
static void free_verdict(struct as_deployment *d, struct as_pending_verdict *pv)
{
    struct as_list *n;

    AS_ASSERT(as_list_empty(&pv->parked));
    as_quarantine_resolve(d, pv->in_quarantine);
    while ((n = as_list_pop(&pv->retained))) {
        as_fingerprint_cancel(d, as_request_of(n));
        as_request_of(n)->verdict = NULL;
        as_list_push(&d->to_release, n);
    }
    as_list_remove(&pv->node);
    d->n_verdicts--;
    free(pv);
}

/* Ends the parked requests or moves them to `back`, for as_replica_requeue. */
static void resume_parked(struct as_deployment *d, struct as_pending_verdict *pv, enum as_loss loss,
                          struct as_list back[AS_PRIORITIES], as_ns now)
{
    struct as_list *n;
    uint32_t n_alone = 0;

    pv->until = AS_NEVER;
    as_quarantine_resolve(d, pv->in_quarantine);
    pv->in_quarantine = NULL;
    while ((n = as_list_pop(&pv->parked))) {
        struct as_request *q = as_request_of(n);
        struct as_evidence *v = evidence_of(pv, q);

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
        if (loss == AS_LOSS_UNKNOWN && v && pv->state == AS_PENDING_VERDICT_FINGERPRINTED &&
            !n_alone && as_quarantine_has_room(d, q->model)) {
            as_suspect_add(d, q, &v->fingerprint, now);
            n_alone += q->blame != NULL;
        }
        as_replica_collect_retry(back, q);
    }
}

static void resume_one(struct as_deployment *d, struct as_pending_verdict *pv, enum as_loss loss,
                       as_ns now)
{
    struct as_list back[AS_PRIORITIES];

    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&back[p]);
    resume_parked(d, pv, loss, back, now);
    as_replica_requeue(d, back, now);
}

/* --- a new pending verdict --- */

struct collector {
    struct as_pending_verdict *pv;
    uint32_t max;
    as_ns now;
};

static void add_evidence(void *arg, struct as_request *q)
{
    struct collector *k = arg;

    if (k->pv->n_evidence < k->max)
        k->pv->evidence[k->pv->n_evidence++] =
            (struct as_evidence){.q = q, .ran = k->now - q->sent};
}

struct as_pending_verdict *as_pending_verdict_new(struct as_replica *r, uint64_t suspect_to,
                                                  struct as_blame_entry *quarantined, as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct collector k = {.max = d->ops.sample ? d->conf.blame.max : 0, .now = now};
    struct as_pending_verdict *pv;

    k.max = AS_MIN(k.max, r->unanswered);
    if (d->n_verdicts == PENDING_VERDICTS_MAX) {
        resume_one(d, verdict_of(d->verdicts.next), AS_LOSS_UNKNOWN, now);
        free_verdict(d, verdict_of(d->verdicts.next));
    }
    k.pv = pv = as_xalloc(sizeof(*pv) + k.max * sizeof(pv->evidence[0]));
    pv->number = ++d->last_verdict;
    pv->until = AS_NEVER;
    as_list_init(&pv->parked);
    as_list_init(&pv->retained);
    if (suspect_to == UINT64_MAX) { /* not known what had started: take what could have */
        as_replica_each_executing(r, add_evidence, &k);
    } else {
        AS_LIST_EACH(n, &r->sent)
        {
            if (as_request_of(n)->stream > suspect_to)
                break;
            add_evidence(&k, as_request_of(n));
        }
    }
    pv->in_quarantine = quarantined;
    pv->alone = quarantined && pv->n_evidence == 1;
    as_list_push(&d->verdicts, &pv->node);
    d->n_verdicts++;
    return pv;
}

/* A request that was lost before waits longer: it may be the one that ends workers, and must not
 * end a second one before the cause of the first death is known. */
void as_pending_verdict_park(struct as_deployment *d, struct as_pending_verdict *pv,
                             struct as_request *q, as_ns now)
{
    as_ns wait = q->tries || q->blame ? d->conf.repeat_verdict_wait : d->conf.verdict_wait;

    as_request_set_state(q, AS_REQ_PARKED);
    as_list_push(&pv->parked, &q->node);
    q->verdict = pv;
    d->parked++;
    if (pv->until == AS_NEVER || now + wait > pv->until)
        pv->until = now + wait;
}

void as_pending_verdict_retain(struct as_deployment *d, struct as_pending_verdict *pv,
                               struct as_request *q)
{
    struct as_evidence *v = pv ? evidence_of(pv, q) : NULL;

    if (v && v < pv->evidence + pv->n_fingerprinted) { /* its fingerprint is complete */
        v->q = NULL;
        v = NULL;
    }
    if (!v) {
        as_deployment_release(d, q);
        return;
    }
    as_due_heap_remove(&d->deadlines, &q->due);
    as_request_set_state(q, AS_REQ_RETAINED);
    as_deployment_uncount(d, q);
    q->verdict = pv;
    as_list_push(&pv->retained, &q->node);
}

void as_pending_verdict_remove(struct as_deployment *d, struct as_request *q)
{
    struct as_pending_verdict *pv = q->verdict;

    as_list_remove(&q->node);
    q->verdict = NULL;
    d->parked--;
    as_pending_verdict_retain(d, pv, q);
}

/* --- fingerprints --- */

static bool fingerprint_all(struct as_deployment *d, struct as_pending_verdict *pv, as_ns now)
{
    for (; pv->n_fingerprinted < pv->n_evidence; pv->n_fingerprinted++) {
        struct as_evidence *v = &pv->evidence[pv->n_fingerprinted];

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

/* All fingerprints of pv are complete. */
static void finish_fingerprinting(struct as_deployment *d, struct as_pending_verdict *pv,
                                  struct as_list back[AS_PRIORITIES], as_ns now)
{
    enum as_loss loss = pv->loss;

    pv->state = AS_PENDING_VERDICT_FINGERPRINTED;
    /* first, because requests like the evidence must not go on with the others */
    if (loss != AS_LOSS_UNKNOWN)
        as_suspect_blame(d, pv->evidence, pv->n_evidence, pv->alone, now);
    resume_parked(d, pv, loss, back, now);
    if (loss != AS_LOSS_UNKNOWN || !pv->n_evidence)
        free_verdict(d, pv);
}

/* Moves requests that can go on to `back`. False: there is more to do in the next turn. */
static bool work_portion(struct as_deployment *d, struct as_list back[AS_PRIORITIES], as_ns now)
{
    struct as_list *n;

    AS_LIST_EACH(it, &d->verdicts)
    {
        struct as_pending_verdict *pv = verdict_of(it);

        if (pv->state != AS_PENDING_VERDICT_FINGERPRINTING)
            continue;
        if (!fingerprint_all(d, pv, now))
            return false;
        finish_fingerprinting(d, pv, back, now);
    }
    while (!as_list_empty(&d->to_release)) {
        struct as_request *q = as_request_of(d->to_release.next);

        if (!as_fingerprint_use_budget(d, d->ops.sample(d->ctx, q, NULL), now))
            return false;
        n = as_list_pop(&d->to_release);
        as_deployment_release(d, as_request_of(n));
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

static void start_fingerprinting(struct as_pending_verdict *pv, enum as_loss loss)
{
    AS_ASSERT(pv->state == AS_PENDING_VERDICT_WAITING);
    pv->state = AS_PENDING_VERDICT_FINGERPRINTING;
    pv->loss = loss;
    pv->until = AS_NEVER;
}

static struct as_pending_verdict *find_verdict(const struct as_deployment *d, uint64_t number)
{
    for (struct as_list *n = d->verdicts.next; n != &d->verdicts; n = n->next) {
        if (verdict_of(n)->number == number)
            return verdict_of(n);
    }
    return NULL;
}

uint64_t as_pending_verdict_start(struct as_deployment *d, struct as_pending_verdict *pv,
                                  enum as_loss loss, struct as_list back[AS_PRIORITIES], as_ns now)
{
    uint64_t number = pv->number;

    if (as_list_empty(&pv->parked) && !pv->n_evidence) {
        free_verdict(d, pv);
        return 0;
    }
    if (loss == AS_LOSS_PENDING && d->conf.verdict_wait) {
        if (as_list_empty(&pv->parked))
            pv->until = now + d->conf.verdict_wait;
        d->ops.wake(d->ctx, pv->until);
        return number;
    }
    start_fingerprinting(pv, loss == AS_LOSS_PENDING ? AS_LOSS_UNKNOWN : loss);
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
        struct as_pending_verdict *pv = verdict_of(n);

        if (pv->state == AS_PENDING_VERDICT_WAITING && pv->until <= now)
            start_fingerprinting(pv, AS_LOSS_UNKNOWN);
    }
    if (!as_pending_verdict_work(d, now))
        d->ops.next_turn(d->ctx);
}

as_ns as_pending_verdict_next_due(const struct as_deployment *d)
{
    as_ns next = AS_NEVER;

    for (struct as_list *n = d->verdicts.next; n != &d->verdicts; n = n->next) {
        const struct as_pending_verdict *pv = verdict_of(n);

        /* without requests it waits only for the report, and needs no timer */
        if (pv->state == AS_PENDING_VERDICT_WAITING &&
            (!as_list_empty(&pv->parked) || pv->n_evidence))
            next = AS_MIN(next, pv->until);
    }
    return next;
}

void as_deployment_verdict(struct as_deployment *d, uint64_t number, enum as_loss loss, as_ns now)
{
    struct as_pending_verdict *pv = find_verdict(d, number);
    bool crashed = loss == AS_LOSS_CRASHED;

    if (!pv)
        return;
    if (crashed && pv->state == AS_PENDING_VERDICT_FINGERPRINTED) {
        as_suspect_blame(d, pv->evidence, pv->n_evidence, pv->alone, now);
        free_verdict(d, pv);
    } else if (crashed && pv->state == AS_PENDING_VERDICT_FINGERPRINTING) {
        pv->loss = loss; /* used when the fingerprints are complete */
    } else if (crashed) {
        start_fingerprinting(pv, loss);
    } else {
        resume_one(d, pv, loss <= AS_LOSS_CRASHED ? loss : AS_LOSS_UNKNOWN, now);
        free_verdict(d, pv);
    }
    if (!as_pending_verdict_work(d, now))
        d->ops.next_turn(d->ctx);
}

static bool is_among(const struct as_list *head, uint32_t model)
{
    for (struct as_list *n = head->next; n != head; n = n->next) {
        if (as_request_of(n)->model == model)
            return true;
    }
    return false;
}

bool as_pending_verdict_holds_model(const struct as_deployment *d, uint32_t model)
{
    for (struct as_list *n = d->verdicts.next; n != &d->verdicts; n = n->next) {
        const struct as_pending_verdict *pv = verdict_of(n);

        if (is_among(&pv->parked, model) || is_among(&pv->retained, model) ||
            (pv->in_quarantine && pv->in_quarantine->fingerprint.model == model))
            return true;
        for (uint32_t i = pv->n_fingerprinted; i < pv->n_evidence; i++) {
            if (pv->evidence[i].q->model == model)
                return true;
        }
    }
    return is_among(&d->to_release, model);
}

void as_pending_verdict_forget_model(struct as_deployment *d, uint32_t model)
{
    AS_LIST_EACH(n, &d->verdicts)
    {
        struct as_pending_verdict *pv = verdict_of(n);
        uint32_t kept = 0;

        for (uint32_t i = 0; i < pv->n_evidence; i++) {
            if (i >= pv->n_fingerprinted || pv->evidence[i].fingerprint.model != model)
                pv->evidence[kept++] = pv->evidence[i];
        }
        pv->n_fingerprinted -= pv->n_evidence - kept;
        pv->n_evidence = kept;
        if (pv->state == AS_PENDING_VERDICT_FINGERPRINTED && !pv->n_evidence)
            free_verdict(d, pv);
    }
}

void as_pending_verdict_fail_all(struct as_deployment *d, int err)
{
    struct as_list *p;

    AS_LIST_EACH(n, &d->verdicts)
    {
        struct as_pending_verdict *pv = verdict_of(n);

        while ((p = as_list_pop(&pv->parked))) {
            d->parked--;
            as_request_of(p)->verdict = NULL;
            as_fingerprint_cancel(d, as_request_of(p));
            as_deployment_fail(d, as_request_of(p), err);
        }
        free_verdict(d, pv);
    }
    while ((p = as_list_pop(&d->to_release)))
        as_deployment_release(d, as_request_of(p));
}

/* --- invariants --- */

static bool retained_ok(const struct as_list *head, const struct as_pending_verdict *pv)
{
    for (struct as_list *k = head->next; k != head; k = k->next) {
        const struct as_request *q = as_request_of(k);

        if (q->state != AS_REQ_RETAINED || q->verdict != pv || !as_request_ok(q))
            return false;
    }
    return true;
}

/* The bodies that are still to be fingerprinted are there. */
static bool evidence_ok(const struct as_pending_verdict *pv)
{
    for (uint32_t i = 0; i < pv->n_evidence; i++) {
        const struct as_request *q = pv->evidence[i].q;

        if (q ? q->verdict != pv : i >= pv->n_fingerprinted)
            return false;
    }
    return pv->n_fingerprinted <= pv->n_evidence;
}

bool as_pending_verdict_ok(const struct as_deployment *d)
{
    uint32_t n = 0, parked = 0;

    for (struct as_list *i = d->verdicts.next; i != &d->verdicts; i = i->next, n++) {
        struct as_pending_verdict *pv = verdict_of(i);

        if ((pv->state == AS_PENDING_VERDICT_WAITING) != (pv->until != AS_NEVER))
            return false;
        if (pv->state == AS_PENDING_VERDICT_FINGERPRINTED &&
            (!as_list_empty(&pv->parked) || !as_list_empty(&pv->retained)))
            return false;
        for (struct as_list *k = pv->parked.next; k != &pv->parked; k = k->next, parked++) {
            const struct as_request *q = as_request_of(k);

            if (q->state != AS_REQ_PARKED || q->verdict != pv || q->bound || !q->idempotent ||
                !as_request_ok(q))
                return false;
        }
        if (!retained_ok(&pv->retained, pv) || !evidence_ok(pv))
            return false;
    }
    return n == d->n_verdicts && parked == d->parked && retained_ok(&d->to_release, NULL);
}
