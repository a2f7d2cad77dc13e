/* core/dispatch/deployment.h — one deployment: a bounded queue, replicas with slots, and who gets
 * what when.
 *
 * Late binding: a request is bound to a replica only when that replica has a free slot or prefetch
 * room. Everything is decided here and carried out by `ops`; time and randomness come in as
 * parameters, so that the same code runs in the server and in the simulator.
 * Thread: the loop that owns the deployment. ops may not call back into the deployment.
 *
 * Slots: the worker grants them (as_replica_grant). Of each model the oldest streams, as many as
 * its cap, are in front; the first `slots` of these are executing or about to. All others are
 * prefetched: they count as queued, and are recalled when another replica could execute them.
 *
 * Batches (core/queue/batch.h): requests of a model with batching wait until their lane is ripe and
 * a slot is free, and go as one call. A batch takes one slot until the last of its requests has
 * ended; each is cancelled, expires, ends and is replayed by itself. Nothing is prefetched in a
 * deployment that has such a model: a batch that is sent early is a small one, and must not wait
 * behind others.
 */
#ifndef AS_CORE_DEPLOYMENT_H
#define AS_CORE_DEPLOYMENT_H

#include "base/err.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/queue/batch.h"
#include "core/protect/blame.h"
#include "core/protect/breaker.h"
#include "core/protect/outlier.h"
#include "core/protect/retry.h"
#include "core/queue/request.h"
#include "core/queue/stat.h"
#include "core/dispatch/quarantine.h"

struct as_deployment_ops {
    /* The next n > 1 requests that are sent to r are one call of a handler. */
    void (*batch)(void *ctx, struct as_replica *r, uint32_t n);
    /* Sends q to the replica's worker and sets q->stream (increasing per replica). Never fails: a
     * link that breaks reports the death later. */
    void (*send)(void *ctx, struct as_replica *r, struct as_request *q);
    /* Asks streams back; the answer comes as as_replica_returned for each that will not start. */
    void (*recall)(void *ctx, struct as_replica *r, struct as_request *const *q, uint32_t n);
    /* Tells the worker that nobody waits for q any more (reason AS_ECANCELLED or AS_EDEADLINE). */
    void (*cancel)(void *ctx, struct as_replica *r, struct as_request *q, int reason);
    /* q ends here without a worker's answer: err is the verdict (AS_EDEADLINE, AS_EUNAVAILABLE,
     * AS_EMAYHAVERUN …). Not called for a cancel by the client, nor for a refused submit. The
     * client is answered now. */
    void (*answer)(void *ctx, struct as_request *q, int err);
    /* The deployment holds q no longer (state DONE): its memory may go. Called for every request
     * that was accepted by submit, exactly once, except when as_replica_done said that the caller
     * delivers the result. */
    void (*release)(void *ctx, struct as_request *q);
    /* as_deployment_expire has something to do at `when` too: where models have batching, and after
     * a death. */
    void (*wake)(void *ctx, as_ns when);
    /* Likewise: may a and b, of one model and kind, share a call? Pure and
     * the same for all three pairs of any three. NULL: always. */
    bool (*alike)(const struct as_request *a, const struct as_request *b);
    /* The size of q's body, and, where ret_sample is not NULL, a hash of a small part of it, the
     * same where the fingerprint is. Asked for only after workers have died. NULL: nobody is
     * blamed; then fingerprint and next_turn are not needed. */
    uint64_t (*sample)(void *ctx, const struct as_request *q, uint64_t *ret_sample);
    /* The fingerprint of q's body: the same for requests that a handler cannot tell apart. Taken in
     * portions: reads at most *bytes of it, and takes off what it has read (and a little for the
     * rest of the work). True: *ret_p has hi and lo. first: begins; else it goes on with the one
     * begun last. */
    bool (*fingerprint)(void *ctx, const struct as_request *q, bool first, uint64_t *bytes,
                        struct as_fingerprint *ret_p);
    /* as_deployment_work is to be called in the next turn of the loop. */
    void (*next_turn)(void *ctx);
};

enum as_router { AS_ROUTER_LEAST_ONGOING, AS_ROUTER_POW2 };
int as_router_of(const char *name); /* "least_ongoing", "pow2"; -1 */
const char *as_router_name(enum as_router r);

struct as_deployment_conf {
    int64_t max_queued; /* queued + prefetched; -1: no limit by count */
    enum as_router router;
    as_ns prefetch_work; /* prefetch what fits in this much measured service time (100 us; < 4 s) */
    uint64_t seed;
    struct as_retry_conf retry;
    struct as_blame_conf blame;
    struct as_breaker_conf breaker;
    struct as_outlier_conf outlier;
    /* How long a started request that may run twice waits to be told why its worker died … */
    as_ns verdict_wait;
    /* … and one that has been lost before, for which nobody could say it */
    as_ns repeat_verdict_wait;
    struct as_quarantine_conf quarantine;
};

#define AS_DEPLOYMENT_MODELS_MAX   1024u
#define AS_DEPLOYMENT_REPLICAS_MAX 4096u
#define AS_DEPLOYMENT_SLOTS_MAX    65535u /* a larger grant counts as this; prefetch likewise */

/* conf and ops are copied; ctx is handed to every op. */
int as_deployment_new(struct as_deployment **ret_d, struct as_str name,
                      const struct as_deployment_conf *conf, const struct as_deployment_ops *ops,
                      void *ctx);
/* Answers what is left with AS_EUNAVAILABLE and releases it; frees the replicas too. */
void as_deployment_free(struct as_deployment *d);

/* Cap of executing requests for one model (index 0 …) in each replica; models not set have none.
 * Set once, before the model's first request: AS_EEXISTS when it has another cap already,
 * AS_EINVALID for an index that is too large or a cap of 0. A cap below the most slots that a
 * replica was ever granted bounds what that replica executes of the model. Behind the cap it is
 * sent what fits into prefetch_work by the model's own service time there: that waits, is counted
 * as queued, and is recalled like anything that is prefetched. */
int as_deployment_set_model(struct as_deployment *d, uint32_t model, uint32_t max_ongoing);

/* The model (which set_model knows or not) takes batches. Once, before the model's first request:
 * AS_EEXISTS when it has others already, AS_EINVALID for an index that is too large or what
 * as_batch_check refuses; a max_size of 0 changes nothing. A model's cap counts batches. */
int as_deployment_set_batching(struct as_deployment *d, uint32_t model,
                               const struct as_batch_conf *conf);

/* No replica that takes requests serves the model, nor will one: what waits for it is answered with
 * AS_EUNAVAILABLE, and what comes is refused so, until a replica serves it again. */
void as_deployment_drop_model(struct as_deployment *d, uint32_t model, as_ns now);

/* Of a model that was dropped, and that no replica serves: nothing of it is held here, in a queue,
 * by a replica or because of a death. */
bool as_deployment_is_unused(const struct as_deployment *d, uint32_t model);
/* Such a model is forgotten: as_deployment_set_model may tell of another one under its index, which
 * all replicas serve until it is said that they do not. */
void as_deployment_forget_model(struct as_deployment *d, uint32_t model);

/* Another bound of the queue, as in as_deployment_conf; at least 1, or -1. What waits stays,
 * however much it is; new requests are refused until fewer wait than that. */
void as_deployment_set_max_queued(struct as_deployment *d, int64_t max_queued);

/* The server ends without waiting any longer: what waits for a replica is answered AS_EUNAVAILABLE,
 * what waits to be told why its replica died AS_EMAYHAVERUN, and what a replica that goes from now
 * on gives back as after as_deployment_set_down. Its replicas are to be freed next. */
void as_deployment_abort(struct as_deployment *d);

/* 0: accepted (queued or sent). AS_EFULL, AS_EDEADLINE, AS_EUNAVAILABLE (the deployment is down, or
 * q->has_fallback and it does not serve), AS_EPOISON (one like it ends workers): q is untouched but
 * for its state, and stays the caller's. A spare one is refused by AS_EFULL, for any reason but a
 * deadline that has passed. What is accepted with q->has_fallback is answered AS_EUNAVAILABLE when
 * the last replica dies, unless it has run. */
int as_deployment_submit(struct as_deployment *d, struct as_request *q, as_ns now);
/* After AS_EFULL: when the queue will be empty at the rate at which it drains,
 * core/queue/queue_drain.h. A little more at random, so that not all come back at once. */
as_ns as_deployment_retry_after(struct as_deployment *d, as_ns now);
/* The client has gone. QUEUED: leaves at once (release). SENT: CANCEL goes to the worker, the slot
 * stays taken until its END or ERROR (then release). DONE, ABANDONED: nothing happens. */
void as_deployment_cancel(struct as_deployment *d, struct as_request *q, as_ns now);
/* Ends all whose deadline is <= now: QUEUED and SENT are answered AS_EDEADLINE. Sends the batches
 * that were held back until now. */
void as_deployment_expire(struct as_deployment *d, as_ns now);
/* Large bodies are read, and their memory given back, a portion in each turn: the next one. Asked
 * for by ops->next_turn. */
void as_deployment_work(struct as_deployment *d, as_ns now);
/* Bytes of them in a turn: what takes about 0.2 ms. */
#define AS_DEPLOYMENT_PORTION (1u << 20)
/* When as_deployment_expire has something to do, at the earliest; AS_NEVER: nothing. It comes
 * nearer by the deadline of a request that is submitted, and by ops->wake. */
as_ns as_deployment_next_deadline(const struct as_deployment *d);
/* No replica will come (crash loop): down answers all queued with AS_EUNAVAILABLE and refuses new
 * ones. What is sent goes on; a retry that finds no room at once is answered likewise. */
void as_deployment_set_down(struct as_deployment *d, bool down, as_ns now);

/* A replica of the deployment. Without slots until granted. AS_EFULL: there are too many. */
int as_replica_new(struct as_replica **ret_r, struct as_deployment *d, struct as_str name,
                   void *link);
void *as_replica_link(const struct as_replica *r);
struct as_str as_replica_name(const struct as_replica *r);
/* Whether its worker serves the model, which as_deployment_set_model has been told: until now it
 * did. What r does not serve is never sent to it, and waits for one that does. */
void as_replica_set_model(struct as_replica *r, uint32_t model, bool serves, as_ns now);
void as_replica_grant(struct as_replica *r, uint32_t slots, uint32_t prefetch, as_ns now);
/* true: nothing new is sent to it. What waits there is recalled when another has a free slot. */
void as_replica_drain(struct as_replica *r, bool draining, as_ns now);
/* The worker ended stream q->stream (END or ERROR). service: ns the handler ran, 0 unknown.
 * retry: the worker says that it did not start it and another may (then QUEUED again unless the
 * client left, or workers have said so AS_REQUEST_RETRIES times). True: the client still waits; the
 * caller delivers the worker's answer and owns q again (state DONE, no release call). False: q was
 * released or queued again; do not touch it. */
bool as_replica_done(struct as_replica *r, struct as_request *q, as_ns service, bool retry,
                     as_ns now);
/* q, which its worker may have begun, will not be answered: the connection that q had for itself
 * has broken. That is a failure of r, which goes on; what becomes of q is said by
 * core/protect/retry.h (AS_LOSS_LINK: the worker lives; AS_LOSS_UNKNOWN). It may be released, or
 * queued again: do not touch it. */
void as_replica_lose_request(struct as_replica *r, struct as_request *q, enum as_loss loss,
                             as_ns now);
/* A part of q's answer has come, or more of its input was sent: what another replica would do is
 * no repetition any more, so q is not replayed, idempotent or not. False: nobody waits for q. */
bool as_replica_bind(struct as_replica *r, struct as_request *q);
/* q will not start there (answer to RECALL): queued again in its old place, or released. */
void as_replica_returned(struct as_replica *r, struct as_request *q, as_ns now);
/* A RECALL was answered; requests of it that were not returned have started or ended. Harmless when
 * none was under way: the worker may lie. */
void as_replica_recall_done(struct as_replica *r, as_ns now);
/* Visits the requests of those calls that execute or are about to: the first ones, as many as r has
 * slots, in stream order; those whose client has left too. fn may give q up, and calls nothing else
 * of this. */
void as_replica_each_executing(struct as_replica *r, void (*fn)(void *arg, struct as_request *q),
                               void *arg);
/* q (SENT) is answered err now, whatever its worker still says; it keeps its slot, as after a
 * cancel. An ABANDONED one has been answered: nothing happens. */
void as_replica_fail_request(struct as_replica *r, struct as_request *q, int err);
/* Its worker hangs or is not well, and will be ended for it: of what it has in hand, streams up to
 * last_started were executing when that was found out, and are suspect if they have not ended when
 * r is freed as AS_LOSS_UNHEALTHY, or AS_LOSS_LINK. Once; drained before. */
void as_replica_set_unhealthy(struct as_replica *r, uint64_t last_started);
/* The worker is dead or its link is broken beyond use, for this reason. Streams up to last_started
 * may have run; what becomes of each request is said by core/protect/retry.h. Frees r.
 * AS_LOSS_PENDING: gives a number for as_deployment_verdict, by which the reason comes later; else
 * 0. */
uint64_t as_replica_free(struct as_replica *r, uint64_t last_started, enum as_loss loss, as_ns now);
/* Why that worker died, at last. A number of long ago is no error. */
void as_deployment_verdict(struct as_deployment *d, uint64_t number, enum as_loss loss, as_ns now);

/* Inspection. */
/* A replica takes requests of the model, or has them in full. */
bool as_deployment_serves(const struct as_deployment *d, uint32_t model);
/* Some replica does not serve some model. */
bool as_deployment_is_mixed(const struct as_deployment *d);
struct as_str as_deployment_name(const struct as_deployment *d);
uint32_t as_deployment_queued(const struct as_deployment *d); /* queue only, suspects included */
uint32_t
as_deployment_suspects(const struct as_deployment *d); /* that wait for a replica of their own */
uint32_t
as_deployment_parked(const struct as_deployment *d); /* until it is told why a worker died */
uint32_t as_deployment_poisons(const struct as_deployment *d); /* fingerprints that are refused */
uint32_t as_deployment_prefetched(const struct as_deployment *d);
uint32_t
as_deployment_ongoing(const struct as_deployment *d); /* requests that execute, in batches or not */
as_ns as_deployment_batch_service(const struct as_deployment *d,
                                  uint32_t model); /* measured; 0 unknown */
uint32_t as_deployment_replicas(const struct as_deployment *d);
uint32_t as_deployment_ready(const struct as_deployment *d); /* replicas with slots, not draining */
struct as_stat *as_deployment_stat(struct as_deployment *d);
uint32_t as_replica_ongoing(const struct as_replica *r);
uint32_t as_replica_slots(const struct as_replica *r);
uint32_t as_replica_unanswered(const struct as_replica *r);
as_ns as_replica_service(const struct as_replica *r); /* measured service time, 0 unknown */
/* Likewise of one model; 0 also while no cap bounds any model. */
as_ns as_replica_model_service(const struct as_replica *r, uint32_t model);
enum as_breaker_state as_replica_breaker(const struct as_replica *r);
enum as_quarantine_state as_replica_quarantine(const struct as_replica *r);
/* Visits replicas in the order they came. */
void as_deployment_each_replica(struct as_deployment *d,
                                void (*fn)(void *arg, struct as_replica *r), void *arg);
bool as_deployment_ok(
    const struct as_deployment *d); /* every invariant, for asserts and the simulator */

#endif
