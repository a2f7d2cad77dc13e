/* Ejects replicas that fail although their peers do not, or that are several times slower than
 * these. An ejected replica gets no requests for a while, and is then probed. Replicas are compared
 * when answers come, not by a timer. */
#include "core/dispatch/faults/outlier_ejection.h"

#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"

#define UNIT  1024u /* the pace of a replica that is as fast as its peers */
#define LOOK  8u    /* compare a replica's pace after every 8 samples */
#define PEERS 64u   /* compare with at most this many peers */

void as_outlier_add_model(struct as_deployment *d, uint32_t model)
{
    if (model < d->n_medians)
        return;
    d->medians = as_xrealloc(d->medians, (model + 1) * sizeof(d->medians[0]));
    while (d->n_medians <= model)
        d->medians[d->n_medians++] = (struct as_median){0};
}

void as_outlier_forget_model(struct as_deployment *d, uint32_t model)
{
    if (model < d->n_medians)
        d->medians[model] = (struct as_median){0};
}

static bool may_eject(const struct as_deployment *d)
{
    return as_outlier_may_eject(&d->conf.outlier, as_deployment_ready(d), d->n_ejected);
}

/* The breaker of r is OPEN: stop sending to it, and set the timer for the probe. */
static void remove_from_rotation(struct as_replica *r)
{
    as_quarantine_release(r);
    as_dispatch_update_limits(r);
    as_preference_release(r);
    as_reservation_end_all(r);
    r->deployment->ops.wake(r->deployment->ctx, r->breaker.until);
}

/* r fails or is slow: as one more, or again when it is HALF_OPEN. */
static void eject(struct as_replica *r, as_ns now)
{
    struct as_deployment *d = r->deployment;
    bool is_new = r->breaker.state == AS_BREAKER_CLOSED;

    as_breaker_trip(&r->breaker, &d->conf.breaker, now);
    d->n_ejected += is_new;
    d->stat.ejected += is_new;
    r->pace = (struct as_median){0}; /* measured anew when it is back */
    r->slow = (struct as_slow_share){0};
    r->peers_pace = 0;
    remove_from_rotation(r);
}

/* --- failures --- */

static bool fails_alone(const struct as_replica *r)
{
    const struct as_deployment *d = r->deployment;
    uint32_t peers[PEERS], n = 0;

    for (uint32_t i = 0; i < d->n_replicas && n < PEERS; i++) {
        if (d->replicas[i] != r && as_replica_is_ready(d->replicas[i]) &&
            !d->replicas[i]->breaker.state)
            peers[n++] = d->replicas[i]->breaker.streak;
    }
    return as_outlier_is_failing(r->breaker.streak, peers, n);
}

void as_outlier_on_result(struct as_replica *r, bool failed, as_ns now)
{
    struct as_deployment *d = r->deployment;
    const struct as_breaker_conf *conf = &d->conf.breaker;

    if (as_breaker_on_answer(&r->breaker, conf, failed, now)) {
        if (r->breaker.state != AS_BREAKER_CLOSED) {
            remove_from_rotation(r);
            return;
        }
        d->n_ejected--;
        as_dispatch_update_limits(r);
    } else if (as_breaker_should_trip(&r->breaker, conf) && may_eject(d) && fails_alone(r)) {
        eject(r, now);
    }
}

/* --- slowness --- */

/* Collects the paces of the other replicas that are not ejected; returns how many. */
static uint32_t peer_paces(const struct as_replica *r, as_ns ret_paces[PEERS])
{
    const struct as_deployment *d = r->deployment;
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->n_replicas && n < PEERS; i++) {
        const struct as_replica *o = d->replicas[i];

        if (o != r && as_replica_is_ready(o) && !o->breaker.state &&
            o->pace.n >= AS_OUTLIER_SAMPLES)
            ret_paces[n++] = o->pace.value;
    }
    return n;
}

/* usual: the median service time of the model, of which r's pace is a multiple. */
static bool is_slow(const struct as_replica *r, as_ns usual)
{
    const struct as_outlier_conf *conf = &r->deployment->conf.outlier;
    as_ns peers[PEERS];

    return r->pace.value * usual / UNIT >= conf->least &&
           as_outlier_is_slow(conf, r->pace.value, peers, peer_paces(r, peers));
}

/* Compares one request with the peers' median, which is looked at now and then. */
static void count_slow(struct as_replica *r, as_ns pace)
{
    as_ns peers[PEERS];

    if (r->pace.n % LOOK == 0)
        r->peers_pace = as_outlier_median(peers, peer_paces(r, peers));
    if (r->peers_pace)
        as_slow_share_add(&r->slow, pace / r->deployment->conf.outlier.factor > r->peers_pace);
}

/* A deployment may have fast and slow models, and one replica may get more of the slow ones. So
 * each service time is compared with the median of its own model. */
void as_outlier_on_service(struct as_replica *r, uint32_t model, as_ns service, as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct as_median *m = &d->medians[model < d->n_medians ? model : 0];

    if (d->n_replicas < 2 || !d->conf.outlier.factor)
        return;
    as_median_add(m, service);
    as_median_add(&r->pace, service * UNIT / m->value);
    if (__builtin_expect(r->breaker.state == AS_BREAKER_HALF_OPEN, 0)) {
        /* compare all probes together: a single one may be slow by chance */
        if (r->pace.n >= d->conf.breaker.probes && is_slow(r, m->value))
            eject(r, now);
        return;
    }
    count_slow(r, service * UNIT / m->value);
    if (r->pace.n % LOOK == 0 && !r->breaker.state && as_slow_share_is_high(&r->slow) &&
        r->pace.value * m->value / UNIT >= d->conf.outlier.least && may_eject(d))
        eject(r, now);
}

/* A client may set a deadline that no replica can meet: that is no failure of this replica. */
void as_outlier_on_deadline(struct as_replica *r, const struct as_request *q, as_ns now)
{
    struct as_deployment *d = r->deployment;
    const struct as_median *m = &d->medians[q->model < d->n_medians ? q->model : 0];

    if (m->n >= AS_OUTLIER_SAMPLES && d->conf.outlier.factor &&
        (now - q->sent) / d->conf.outlier.factor > m->value)
        as_outlier_on_result(r, true, now);
}

/* --- back again --- */

void as_outlier_expire(struct as_deployment *d, as_ns now)
{
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];

        if (!as_breaker_tick(&r->breaker, now))
            continue;
        as_dispatch_update_limits(r);
        as_dispatch_pull(r, now);
    }
    as_dispatch_balance(d, now);
}

as_ns as_outlier_next_due(const struct as_deployment *d)
{
    as_ns next = AS_NEVER;

    for (uint32_t i = 0; i < d->n_replicas; i++) {
        if (d->replicas[i]->breaker.state == AS_BREAKER_OPEN)
            next = AS_MIN(next, d->replicas[i]->breaker.until);
    }
    return next;
}

void as_outlier_readmit_all(struct as_deployment *d, as_ns now)
{
    if (!d->n_ejected)
        return;
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        if (as_replica_is_ready(d->replicas[i]) && !d->replicas[i]->breaker.state)
            return;
    }
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];

        if (!r->breaker.state)
            continue;
        r->breaker = (struct as_breaker){0};
        d->n_ejected--;
        as_dispatch_update_limits(r);
        as_dispatch_pull(r, now);
    }
}
