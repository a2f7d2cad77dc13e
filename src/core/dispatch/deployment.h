/* core/dispatch/deployment.h — one deployment in the dispatcher: a bounded queue, replicas with
 * slots, and which request goes to which replica when.
 *
 * A request is sent to a replica only when that replica has a free slot or room to prefetch (late
 * binding). This module makes every decision; the caller's `ops` carry it out. Time and randomness
 * are parameters, so that the same code runs in the server and in the simulator (tests/sim).
 * Thread: the loop that owns the deployment. ops must not call back into the deployment.
 *
 * Ownership: the caller allocates requests, and the deployment holds an accepted one until
 * ops.release. The deployment owns its replicas.
 *
 * Slots: the worker grants them (as_replica_grant). Of each model the oldest streams, as many as
 * its cap allows, may execute; the first `slots` of these do, or will at once. All others are
 * prefetched: they count as queued, and are recalled when another replica could execute them.
 *
 * Cycles: a request on a cycle (as_request.on_cycle) is sent at once, to the replica in rotation
 * with the fewest requests, which executes it beyond its slots (as_request.beyond). It is counted
 * apart, takes no slot, and is neither prefetched nor recalled. It waits only while no replica can
 * take it, or as a suspect.
 *
 * Reservations (as_request.reservation): a request may take a slot first, and say later what is to
 * be executed in it. It waits and is routed as any other. From then on the slot counts as ongoing
 * until the request is sent (as_deployment_dispatch_reserved) and has ended, or is cancelled. It
 * ends by itself when its replica dies, drains or is ejected, or after reserve_time. A deployment
 * that has taken a reservation prefetches nothing any more: what waits in a worker would take the
 * slot that is reserved.
 *
 * Batches (core/queue/batch.h): requests of a model with batching wait until their lane is due and
 * a slot is free. Then they are sent as one call. A batch takes one slot until the last of its
 * requests ends; each request is cancelled, expires, ends and is retried by itself. A deployment
 * that has such a model prefetches nothing: a batch that is sent early would be small, and would
 * wait behind others.
 */
#ifndef AS_CORE_DEPLOYMENT_H
#define AS_CORE_DEPLOYMENT_H

#include "base/err.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/dispatch/choice/router_conf.h"
#include "core/dispatch/faults/quarantine.h"
#include "core/protect/blame.h"
#include "core/protect/breaker.h"
#include "core/protect/codel.h"
#include "core/protect/hedging.h"
#include "core/protect/outlier.h"
#include "core/protect/retry.h"
#include "core/queue/batch.h"
#include "core/queue/fair.h"
#include "core/queue/request.h"
#include "core/queue/share.h"
#include "core/queue/stat.h"

struct as_deployment_ops {
    /* The next n > 1 requests that are sent to r form one call of a handler. */
    void (*batch)(void *ctx, struct as_replica *r, uint32_t n);
    /* Sends q to the replica's worker and sets q->stream (increasing per replica). Never fails: a
     * broken link is reported later, as a death. */
    void (*send)(void *ctx, struct as_replica *r, struct as_request *q);
    /* Asks the worker to give these streams back. The answer is as_replica_returned for each that
     * will not start, then as_replica_recall_done. */
    void (*recall)(void *ctx, struct as_replica *r, struct as_request *const *q, uint32_t n);
    /* Cancels q at its worker, because nobody waits for it any more; reason: AS_ECANCELLED or
     * AS_EDEADLINE. */
    void (*cancel)(void *ctx, struct as_replica *r, struct as_request *q, int reason);
    /* Answers the client of q with err now (AS_EDEADLINE, AS_EUNAVAILABLE, AS_EMAYHAVERUN …), since
     * no worker will. Not called for a request that its client cancelled, nor for one that submit
     * refused. */
    void (*answer)(void *ctx, struct as_request *q, int err);
    /* The deployment does not use q any more (state DONE), so it may be freed. Called exactly once
     * for every request that submit accepted, except when as_replica_done returned true. */
    void (*release)(void *ctx, struct as_request *q);
    /* Have as_deployment_expire called at `when`, too. */
    void (*wake)(void *ctx, as_ns when);
    /* May a and b, of the same model and kind, share a call? Must be pure and transitive. NULL:
     * always. */
    bool (*alike)(const struct as_request *a, const struct as_request *b);
    /* Returns the size of q's body. With ret_sample also a hash of a small part of it; equal bodies
     * must have equal samples. Called only after workers have died. NULL: no request is ever
     * blamed, and `fingerprint` and `next_turn` are not needed. */
    uint64_t (*sample)(void *ctx, const struct as_request *q, uint64_t *ret_sample);
    /* Computes the fingerprint of q's body: equal for requests that a handler cannot tell apart. It
     * works in portions: a call reads at most *bytes of the body and subtracts what it has read
     * (and a little for its other work). first: starts with q; else continues with the one started
     * last. True: done, and *ret_p has hi and lo. */
    bool (*fingerprint)(void *ctx, const struct as_request *q, bool first, uint64_t *bytes,
                        struct as_fingerprint *ret_p);
    /* Have as_deployment_work called in the next turn of the loop. */
    void (*next_turn)(void *ctx);
    /* Puts q to a router of the user's own (as_router_conf.asks). True: *ret has its choice. False:
     * as_deployment_routed gives it later. q may not be accepted yet. */
    bool (*ask)(void *ctx, struct as_request *q, struct as_router_choice *ret);
    /* The answer to that is not needed any more. */
    void (*unask)(void *ctx, struct as_request *q);
    /* q, which was submitted with AS_RESERVATION_WANTED, has a slot of r (HELD). Needed only for
     * such requests. */
    void (*reserved)(void *ctx, struct as_replica *r, struct as_request *q);
    /* Returns a request with the content of q (SENT) for a second execution of it; core sets its
     * fields. It is sent, cancelled, answered and released as others are, and each of the two is
     * released by itself. Only one of them is answered, or returned by as_replica_done: the client
     * has the same request in both. A client that leaves after q was released must be reported
     * with the second one. NULL: q cannot be hedged. The op may be NULL: nothing is. */
    struct as_request *(*hedge)(void *ctx, struct as_request *q);
};

struct as_deployment_conf {
    int64_t max_queued; /* queued + prefetched; -1: no limit by count */
    struct as_router_conf router;
    /* prefetch as many requests as fit in this much measured service time; < 4 s */
    as_ns prefetch_work;
    uint64_t seed;
    struct as_retry_conf retry;
    struct as_blame_conf blame;
    struct as_breaker_conf breaker;
    struct as_outlier_conf outlier;
    /* How long a started idempotent request waits until the cause of its worker's death is known …
     */
    as_ns verdict_wait;
    /* … and one that was lost before without a known cause, or is a suspect */
    as_ns repeat_verdict_wait;
    struct as_quarantine_conf quarantine;
    as_ns reserve_time; /* how long a reserved slot may stay unused; 0: no limit */
};

#define AS_DEPLOYMENT_MODELS_MAX   1024u
#define AS_DEPLOYMENT_REPLICAS_MAX 4096u
#define AS_DEPLOYMENT_SLOTS_MAX    65535u /* a larger grant is cut to this; the prefetch, too */

/* conf and ops are copied; ctx is passed to every op. AS_EINVALID: max_queued or router is invalid.
 */
int as_deployment_new(struct as_deployment **ret_d, struct as_str name,
                      const struct as_deployment_conf *conf, const struct as_deployment_ops *ops,
                      void *ctx);
/* Answers all requests with AS_EUNAVAILABLE and releases them; frees the replicas, too. */
void as_deployment_free(struct as_deployment *d);

/* Sets how many requests of one model (index 0 …) each replica may execute at once; a model that is
 * not set has no cap. To be set once, before the model's first request. AS_EEXISTS: it has another
 * cap already. AS_EINVALID: the index is too large, or the cap is 0. A cap matters in a replica
 * that was ever granted more slots than that. Such a replica is sent as many requests beyond the
 * cap as fit into prefetch_work by the model's own service time there: these wait in the worker,
 * count as queued, and are recalled like other prefetched requests. */
int as_deployment_set_model(struct as_deployment *d, uint32_t model, uint32_t max_ongoing);

/* Turns batching on for a model, with or without a cap (which then counts batches). To be set once,
 * before the model's first request; a max_size of 0 changes nothing. AS_EEXISTS: it has other
 * settings already, or has requests. AS_EINVALID: the index is too large, or as_batch_check refuses
 * conf. */
int as_deployment_set_batching(struct as_deployment *d, uint32_t model,
                               const struct as_batch_conf *conf);

/* No replica serves the model any more. Its waiting requests are answered with AS_EUNAVAILABLE, and
 * new ones are refused with that, until a replica serves it again. */
void as_deployment_drop_model(struct as_deployment *d, uint32_t model, as_ns now);

/* The model was dropped, no replica serves it, and no request of it is left: in the queue, at a
 * replica, or because of a death. */
bool as_deployment_is_unused(const struct as_deployment *d, uint32_t model);
/* Forgets a model that is unused. Its index may then be used for another model with
 * as_deployment_set_model; all replicas count as serving that until as_replica_set_model. */
void as_deployment_forget_model(struct as_deployment *d, uint32_t model);

/* Changes as_deployment_conf.max_queued: at least 1, or -1 for no limit. Requests that wait already
 * stay; new ones are refused until fewer than max_queued wait. */
void as_deployment_set_max_queued(struct as_deployment *d, int64_t max_queued);
/* on: the limit holds for each caller apart, for requests that count those of their caller
 * (as_request.waiting). Nothing is prefetched then, so that what waits is in the queue. */
void as_deployment_set_per_caller(struct as_deployment *d, bool on, as_ns now);
int64_t as_deployment_max_queued(const struct as_deployment *d);
/* Changes as_deployment_conf.router. Requests that wait for certain replicas by the former policy
 * may go to any, and its sessions are forgotten. AS_EINVALID: as at as_deployment_new. */
int as_deployment_set_router(struct as_deployment *d, const struct as_router_conf *conf, as_ns now);
/* The answer to ops.ask for q, which is not under way to a replica yet. Replicas that have gone, or
 * are of another deployment, must not be in it. */
void as_deployment_routed(struct as_deployment *d, struct as_request *q,
                          const struct as_router_choice *choice, as_ns now);
/* Of so many calls that are sent while lower priorities wait one is theirs: core/queue/share.h;
 * AS_SHARE_DEFAULT at first. */
void as_deployment_set_share(struct as_deployment *d, uint32_t every);
/* on: tenants get equal shares of each priority (core/queue/fair.h), and a request is refused while
 * as many of its tenant wait as there is room for further ones. */
void as_deployment_set_fair(struct as_deployment *d, bool on, enum as_fair_cost cost);
/* Requests that are shed (core/protect/codel.h) are answered with AS_EFULL. A target of 0: none. */
void as_deployment_set_codel(struct as_deployment *d, const struct as_codel_conf *conf);
/* The time in which a new replica beside others gets all of its slots; 0: it has them at once. */
void as_deployment_set_slow_start(struct as_deployment *d, as_ns duration, as_ns now);
/* on: each replica uses as many of its slots as core/protect/gradient.h says. */
void as_deployment_set_adaptive(struct as_deployment *d, bool on, as_ns now);

/* Requests that take long execute in a second replica, too (core/protect/hedging.h). While it is on
 * nothing is prefetched. Hedges that were sent go on when it is turned off. */
void as_deployment_set_hedging(struct as_deployment *d, const struct as_hedging_conf *conf,
                               as_ns now);

/* For a shutdown that does not wait any longer. Queued requests are answered with AS_EUNAVAILABLE,
 * parked ones with AS_EMAYHAVERUN. Requests that a replica gives back from now on are treated as
 * after as_deployment_set_down. The caller must free the replicas next. */
void as_deployment_abort(struct as_deployment *d);

/* Returns 0 when q was accepted: it is queued or sent. Otherwise q still belongs to the caller, and
 * only its state has changed: AS_EFULL (the queue is full), AS_EDEADLINE (its deadline has passed),
 * AS_EUNAVAILABLE (the deployment is down, or q->has_fallback and no replica serves the model),
 * AS_EPOISON (requests like it end workers). A mirrored copy (q->is_mirror) is refused with
 * AS_EFULL whatever the reason, except for its deadline. An accepted request with q->has_fallback
 * is answered with AS_EUNAVAILABLE when the last replica dies, unless it has run. */
int as_deployment_submit(struct as_deployment *d, struct as_request *q, as_ns now);
/* Sends q to this replica at once, beyond its slots, whatever else waits. It never goes elsewhere
 * and never runs twice: if the replica dies, or its worker hands it back, the client gets an error.
 * Sets q->idempotent and q->on_cycle. AS_EUNAVAILABLE also if r is not in rotation or does not
 * serve the model; AS_ESUSPECT: a request like it may have ended a worker. Else as
 * as_deployment_submit. Not for models with batching. */
int as_deployment_submit_to(struct as_replica *r, struct as_request *q, as_ns now);
/* Sends q (HELD) to the replica that it has a slot of, before everything that waits. It never goes
 * elsewhere and never runs twice, as after as_deployment_submit_to. It is answered and released at
 * once if it cannot be sent: AS_EDEADLINE; AS_EREPLICA: the replica does not serve the model any
 * more; AS_EPOISON, AS_ESUSPECT: a request like it has, or may have, ended a worker. (A reservation
 * that ends by itself is answered with AS_EREPLICA, or AS_EUNUSED after reserve_time;
 * as_deployment_cancel gives its slot back.) */
void as_deployment_dispatch_reserved(struct as_deployment *d, struct as_request *q, as_ns now);
/* Would as_deployment_submit_to take a request for the model? */
bool as_replica_is_in_rotation(const struct as_replica *r, uint32_t model);
/* After AS_EFULL: how long the client should wait. This is the time until the queue is empty
 * (core/queue/queue_drain.h), plus up to a quarter at random, so that clients do not come back all
 * at once. */
as_ns as_deployment_retry_after(struct as_deployment *d, as_ns now);
/* The client has left. A hedge of q is cancelled, too. QUEUED: q is released at once. SENT: the
 * worker is sent a CANCEL; the slot stays taken, and q is released, when the worker answers with
 * END or ERROR. DONE, ABANDONED: no effect. */
void as_deployment_cancel(struct as_deployment *d, struct as_request *q, as_ns now);
/* Answers all requests whose deadline is <= now with AS_EDEADLINE. Sends the batches that were held
 * back until now, and does whatever else is due. */
void as_deployment_expire(struct as_deployment *d, as_ns now);
/* Computes fingerprints and frees retained bodies, one portion for each turn of the loop. To be
 * called in the turn after ops->next_turn. */
void as_deployment_work(struct as_deployment *d, as_ns now);
/* Bytes that one turn reads of bodies or frees: about 0.2 ms of work. */
#define AS_DEPLOYMENT_PORTION (1u << 20)
/* When as_deployment_expire has something to do, at the earliest; AS_NEVER: nothing. Only the
 * deadline of a newly submitted request and ops->wake can make this time earlier. */
as_ns as_deployment_next_deadline(const struct as_deployment *d);
/* down: no replica will come (a crash loop). All queued requests are answered with AS_EUNAVAILABLE,
 * new ones are refused with that, and so is a retry that finds no free slot at once. Requests that
 * were sent go on. */
void as_deployment_set_down(struct as_deployment *d, bool down, as_ns now);

/* Adds a replica, which has no slots until as_replica_grant. link is the caller's.
 * AS_EFULL: there are AS_DEPLOYMENT_REPLICAS_MAX already. */
int as_replica_new(struct as_replica **ret_r, struct as_deployment *d, void *link);
void *as_replica_link(const struct as_replica *r);
/* Sets whether its worker serves a model; at first a replica serves all of them. Requests of a
 * model that it does not serve are never sent to it; they wait for a replica that serves it. */
void as_replica_set_model(struct as_replica *r, uint32_t model, bool serves, as_ns now);
/* A number that stays the same when a replica's process is replaced, so that it keeps its place on
 * the ring of consistent_hash; and where it is. To be called before the first grant. */
void as_replica_set_place(struct as_replica *r, uint64_t id, struct as_place place);
/* The multiplexed models that it holds or is loading: hashes, as as_request.model_key, in any
 * order. From the first such report on, requests for models prefer the replicas that hold them. */
void as_replica_set_held(struct as_replica *r, const uint64_t *models, uint32_t n, as_ns now);
void as_replica_grant(struct as_replica *r, uint32_t slots, uint32_t prefetch, as_ns now);
/* draining: nothing new is sent to it, except requests on a cycle while no replica is in rotation,
 * as long as it has others to finish: these may wait for them. Requests that wait there are
 * recalled when another replica has a free slot. */
void as_replica_drain(struct as_replica *r, bool draining, as_ns now);
/* The worker ended stream q->stream (END or ERROR). service: ns that the handler ran; 0: unknown.
 * retry: the worker did not start it and another may; then q is queued again, unless its client has
 * left or this has happened AS_REQUEST_RETRIES times. True: the caller must deliver the worker's
 * answer and owns q again (state DONE, ops.release is not called). False: q was released or queued
 * again, and must not be touched. */
bool as_replica_done(struct as_replica *r, struct as_request *q, as_ns service, bool retry,
                     as_ns now);
/* q will not be answered, because a connection that served q alone has broken (simple protocol);
 * its worker may have started it. That counts as a failure of r, which goes on.
 * core/protect/retry.h decides what happens to q; loss: AS_LOSS_LINK (the worker lives) or
 * AS_LOSS_UNKNOWN. q may be released or queued again, and must not be touched. */
void as_replica_lose_request(struct as_replica *r, struct as_request *q, enum as_loss loss,
                             as_ns now);
/* A part of q's answer has come, or more of its input was sent. Another execution would not repeat
 * this one, so q is never retried, not even if it is idempotent. False: nobody waits for q. */
bool as_replica_bind(struct as_replica *r, struct as_request *q);
/* The worker gave q back without starting it (answer to a RECALL): q is queued again in its old
 * place, or released. */
void as_replica_returned(struct as_replica *r, struct as_request *q, as_ns now);
/* The worker has answered a RECALL; those of its requests that were not returned have started or
 * ended. No effect when none was under way, as with a worker that breaks the protocol. */
void as_replica_recall_done(struct as_replica *r, as_ns now);
/* Calls fn for each request that executes or will at once: those of the first calls, as many as r
 * has slots, in stream order; also those whose client has left. fn may call
 * as_replica_fail_request, and no other function of the deployment. */
void as_replica_each_executing(struct as_replica *r, void (*fn)(void *arg, struct as_request *q),
                               void *arg);
/* Answers q (SENT) with err now, whatever its worker answers later. q keeps its slot, as after a
 * cancel. No effect on an ABANDONED request, which has been answered. */
void as_replica_fail_request(struct as_replica *r, struct as_request *q, int err);
/* Its worker hangs or is unhealthy and will be killed for that. Streams up to last_started were
 * executing when this was found: those that have not ended become suspects when r is freed with
 * AS_LOSS_UNHEALTHY or AS_LOSS_LINK. To be called once, before as_replica_drain. */
void as_replica_set_unhealthy(struct as_replica *r, uint64_t last_started);
/* The worker is dead, or its link is broken for good; loss: why. Streams up to last_started may
 * have run. core/protect/retry.h decides what happens to each request. Frees r. With
 * AS_LOSS_PENDING it returns a number for as_deployment_verdict, or 0 if nothing waits for the
 * verdict; else 0. */
uint64_t as_replica_free(struct as_replica *r, uint64_t last_started, enum as_loss loss, as_ns now);
/* Reports why the worker died whose as_replica_free returned this number. An outdated number has no
 * effect. */
void as_deployment_verdict(struct as_deployment *d, uint64_t number, enum as_loss loss, as_ns now);

/* Inspection. */
/* Some replica serves the model and is in rotation, whether it has a free slot or not. */
bool as_deployment_serves(const struct as_deployment *d, uint32_t model);
/* Some replica does not serve some model. */
bool as_deployment_is_mixed(const struct as_deployment *d);
struct as_str as_deployment_name(const struct as_deployment *d);
/* That wait here, suspects included; without prefetched ones. */
uint32_t as_deployment_queued(const struct as_deployment *d);
/* Of these: requests that wait for certain replicas (core/dispatch/choice/preference.h). */
uint32_t as_deployment_preferring(const struct as_deployment *d);
const struct as_router_conf *as_deployment_router(const struct as_deployment *d);
/* Suspects that wait for a replica of their own. */
uint32_t as_deployment_suspects(const struct as_deployment *d);
uint32_t as_deployment_parked(const struct as_deployment *d); /* requests that wait for a verdict */
/* Fingerprints that are refused as poison. */
uint32_t as_deployment_poisons(const struct as_deployment *d);
uint32_t as_deployment_prefetched(const struct as_deployment *d);
/* Requests that execute in slots, alone or in batches. */
uint32_t as_deployment_ongoing(const struct as_deployment *d);
uint32_t as_deployment_beyond(const struct as_deployment *d); /* … and beyond the slots */
/* How many of those that are ongoing or beyond the slots are reservations that are not used yet. */
uint32_t as_deployment_reserved(const struct as_deployment *d);
/* Measured time of a batch; 0 unknown. */
as_ns as_deployment_batch_service(const struct as_deployment *d, uint32_t model);
/* How long a request runs before it is hedged; 0: hedging is off, or too little was measured. */
as_ns as_deployment_hedge_delay(const struct as_deployment *d);
uint32_t as_deployment_replicas(const struct as_deployment *d);
uint32_t as_deployment_ready(const struct as_deployment *d); /* replicas with slots, not draining */
struct as_stat *as_deployment_stat(struct as_deployment *d);
uint32_t as_replica_ongoing(const struct as_replica *r);
uint32_t as_replica_beyond(const struct as_replica *r);
uint32_t as_replica_slots(const struct as_replica *r);
/* How many of these may be used now, because of slow start or adaptive concurrency; it may be more
 * than there are. */
uint32_t as_replica_cap(const struct as_replica *r);
uint32_t as_replica_models(const struct as_replica *r); /* multiplexed ones that it holds */
uint32_t as_replica_unanswered(const struct as_replica *r);
as_ns as_replica_service(const struct as_replica *r); /* measured service time, 0 unknown */
/* The same for one model; also 0 while the deployment has no lanes. */
as_ns as_replica_model_service(const struct as_replica *r, uint32_t model);
/* A replica as a router sees it. */
struct as_replica_view {
    uint64_t id; /* as_replica_set_place */
    struct as_place place;
    uint32_t slots, unanswered;
    uint32_t waiting; /* requests that wait for it alone */
    uint32_t models;  /* that it holds */
    as_ns service;
    bool is_free;     /* it has a free slot in which it can execute q */
    bool holds_model; /* it holds the model of q */
};
uint64_t as_replica_id(const struct as_replica *r); /* as_replica_view.id */
void as_replica_view(const struct as_replica *r, const struct as_request *q,
                     struct as_replica_view *ret_v);
enum as_breaker_state as_replica_breaker(const struct as_replica *r);
enum as_quarantine_state as_replica_quarantine(const struct as_replica *r);
/* Calls fn for each replica, in the order in which they were added. */
void as_deployment_each_replica(struct as_deployment *d,
                                void (*fn)(void *arg, struct as_replica *r), void *arg);
/* Checks every invariant; for asserts, tests and the simulator. */
bool as_deployment_ok(const struct as_deployment *d);

#endif
