/* core/queue/queue.h — requests that wait for a replica: by priority with a share for the lower
 * ones (core/queue/share.h), within each first come first served, or with fairness among tenants
 * (core/queue/fair.h). A request that another one has made has the place of the request at the root
 * of its chain (as_request.root).
 *
 * All models share one FIFO per priority. A model gets a lane (a queue of its own) when it cannot
 * run on every free slot: because its cap is below the slots of some replica, or because some
 * replica does not serve it. A search then skips all of its requests at once. Roots and
 * arrival numbers keep the order exact across lanes. A model with batching (core/queue/batch.h) has
 * a lane for each kind of request that waits, so that a batch is the front of one lane. A lane that
 * is not due is skipped.
 *
 * The queue owns its lanes, but not the requests. Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_QUEUE_H
#define AS_CORE_QUEUE_H

#include "core/queue/batch.h"
#include "core/queue/fair.h"
#include "core/queue/request.h"
#include "core/queue/share.h"

/* Kinds of one model that have lanes of their own. Requests of further kinds are executed one by
 * one: with so many different kinds no batch would fill anyway. */
#define AS_QUEUE_KINDS_MAX 64u

struct as_batching;

/* One model in one replica. */
struct as_replica_model {
    uint32_t calls;    /* unanswered calls; those beyond the model's cap wait in the worker */
    uint32_t prefetch; /* the most that may wait there behind the model's cap */
    as_ns service;     /* moving average, weight 1/8; 0 unknown; only where the model has a lane */
    uint32_t seen;     /* scratch counter of a walk over the replica's requests */
    bool absent;       /* the worker does not serve this model */
};

/* What a replica could accept now: the argument of a search for its next request. */
struct as_replica_capacity {
    /* by model; NULL: there are no lanes, or caps do not matter */
    const struct as_replica_model *of_model;
    uint32_t slots;   /* the most that it was ever granted: only a cap below this matters */
    bool may_execute; /* it has room for a request whose model is below its cap */
    bool may_wait;    /* it has room for a request that waits behind its model's cap */
};

struct as_lane {
    struct as_list fifo[AS_PRIORITIES];
    struct as_list node; /* in as_queue.active while it holds requests */
    uint32_t model;
    uint32_t cap;      /* calls of the model that each replica may execute; UINT32_MAX: no cap */
    uint32_t n;        /* requests that wait here */
    uint32_t recalled; /* only in as_queue.lanes: requests of the model that are being recalled */
    struct as_batching *batching; /* NULL: one at a time */
    /* only with batching: */
    uint64_t kind;
    uint32_t items; /* of all requests that wait here */
    uint32_t ready; /* requests that need not wait for others any more */
    as_ns next_due; /* when the next of the others becomes ready, or earlier; AS_NEVER */
    /* requests of different kinds: they go one by one, and never wait for others */
    bool one_by_one;
    bool held_back; /* it has requests and is not due */
    bool dropped;   /* only in as_queue.lanes: the model was dropped, nobody serves it */
};

/* The lanes by kind of a model with batching. Its lane in as_queue.lanes holds requests of the
 * kinds for which `kinds` has no room. */
struct as_batching {
    struct as_batch_conf conf;
    as_ns service; /* of one call: moving average, weight 1/8; 0 unknown */
    uint32_t n_kinds;
    struct as_lane *kinds[AS_QUEUE_KINDS_MAX]; /* an empty lane is used again for another kind */
};

struct as_queue {
    struct as_list fifo[AS_PRIORITIES];
    uint32_t n; /* requests, lanes included */
    uint32_t n_of[AS_PRIORITIES];
    struct as_share share;
    struct as_fair *fair;   /* NULL: no fairness. Else a list has the first request of each flow */
    struct as_lane **lanes; /* by model; NULL: its requests are in the shared FIFO */
    uint32_t n_lanes;       /* size of that array */
    uint32_t n_held_back;   /* lanes that are held back */
    struct as_list active;  /* lanes that hold requests */
    /* the request in the queue that was inserted last elsewhere than at the end; NULL: it has left
     */
    const struct as_request *inserted;
    /* May two requests of the same model and kind share a call? Kinds are hashes. NULL: yes. */
    bool (*alike)(const struct as_request *a, const struct as_request *b);
};

void as_queue_init(struct as_queue *u);
void as_queue_fini(struct as_queue *u); /* empty */

/* Inserts q by its age (as_request_is_older) within its priority. At the end (new requests) and at
 * the front (retries) this takes no walk; in between one from the request that was inserted
 * there last, so that those that one request has made take none either. */
void as_queue_push(struct as_queue *u, struct as_request *q);
void as_queue_remove(struct as_queue *u, struct as_request *q);
/* Removes q because it is sent. */
void as_queue_take(struct as_queue *u, struct as_request *q);
/* Charges the tenant of q, which is in no list of the queue, because q is sent. */
static inline void as_queue_charge(struct as_queue *u, struct as_request *q)
{
    if (u->fair)
        as_fair_charge(u->fair, q);
}
/* Turns fairness among tenants on or off; what waits stays. */
void as_queue_set_fair(struct as_queue *u, bool on, enum as_fair_cost cost);
/* The request after q (NULL: the first) in a walk over all requests of a FIFO of the queue or of a
 * lane. Without fairness in their order. */
struct as_request *as_queue_next(const struct as_list *fifo, const struct as_request *q);

/* Adds a lane for a model that has none yet. Its waiting requests move into it. */
void as_queue_add_lane(struct as_queue *u, uint32_t model, uint32_t cap);
/* Removes the lane of a model of which nothing waits. Later requests go into the shared FIFO. */
void as_queue_remove_lane(struct as_queue *u, uint32_t model);
static inline const struct as_lane *as_queue_lane(const struct as_queue *u, uint32_t model)
{
    return model < u->n_lanes ? u->lanes[model] : NULL;
}

/* Would one more call of the lane's model have to wait for the model's cap, in a replica with these
 * slots? A cap that is not below the slots never matters. */
static inline bool as_lane_cap_reached(const struct as_lane *l,
                                       const struct as_replica_model *of_model, uint32_t slots)
{
    return l->cap < slots && of_model[l->model].calls >= l->cap;
}
/* Could the replica execute one more call of the model at once, if it has a free slot? */
static inline bool as_lane_can_execute(const struct as_lane *l,
                                       const struct as_replica_model *of_model, uint32_t slots)
{
    return !of_model[l->model].absent && !as_lane_cap_reached(l, of_model, slots);
}
/* May one more call of the model be sent to the replica, to execute or to wait there? */
static inline bool as_lane_can_send(const struct as_lane *l, const struct as_replica_capacity *t)
{
    const struct as_replica_model *s = &t->of_model[l->model];

    if (s->absent)
        return false;
    return as_lane_cap_reached(l, t->of_model, t->slots)
               ? t->may_wait && s->calls - l->cap < s->prefetch
               : t->may_execute;
}

/* The next request for a replica: of those whose model has room there and whose lane is due, the
 * oldest of the priority whose turn it is. NULL: none. */
struct as_request *as_queue_first_for(const struct as_queue *u,
                                      const struct as_replica_capacity *t);
/* The same for any of several replicas: as_queue_find for each of them, with `best` of NULLs at
 * first, and then as_queue_choose. */
void as_queue_find(const struct as_queue *u, const struct as_replica_capacity *t,
                   struct as_request *best[AS_PRIORITIES]);
struct as_request *as_queue_choose(const struct as_queue *u,
                                   struct as_request *const best[AS_PRIORITIES]);
/* Could a request of a lower priority be sent to the replica? */
bool as_queue_has_lower(const struct as_queue *u, uint32_t priority,
                        const struct as_replica_capacity *t);
/* The first request of the queue, whatever its model; NULL: empty. */
struct as_request *as_queue_front(const struct as_queue *u);
/* The first request of a model that has a lane; with batching, the first of some kind. NULL: none.
 */
struct as_request *as_queue_first_of_model(const struct as_queue *u, uint32_t model);
/* Moves all waiting requests to `all`, in the order in which they may be pushed again. */
void as_queue_pop_all(struct as_queue *u, struct as_list *all);
bool as_queue_ok(const struct as_queue *u);

/* --- batching --- */

/* Turns batching on for a model that has no requests yet. `cap` counts only if it has no lane. */
void as_queue_add_batching(struct as_queue *u, uint32_t model, uint32_t cap,
                           const struct as_batch_conf *conf);
/* NULL: the model has no batching. */
static inline struct as_batching *as_queue_batching(const struct as_queue *u, uint32_t model)
{
    return model < u->n_lanes && u->lanes[model] ? u->lanes[model]->batching : NULL;
}
/* The lane in which q would wait. Its model has batching, and q->hold_until is set. */
struct as_lane *as_queue_lane_for(struct as_queue *u, const struct as_request *q);
/* Would the lane be due with q added? */
bool as_lane_is_due_with(const struct as_lane *l, const struct as_request *q);
static inline bool as_lane_is_due(const struct as_lane *l) /* l has batching */
{
    return l->n && !l->held_back;
}
struct as_request *as_lane_first(const struct as_lane *l); /* the most urgent; NULL: empty */
/* The request of the lane with which its next call begins; NULL: empty. */
struct as_request *as_queue_first_of_lane(const struct as_queue *u, const struct as_lane *l);
/* q goes before `other`: it is more urgent, or as urgent and older. */
static inline bool as_queue_before(const struct as_request *q, const struct as_request *other)
{
    return q->priority != other->priority ? q->priority < other->priority
                                          : as_request_is_older(q, other);
}
/* Marks requests whose hold_until has come as ready: in all lanes that are held back, or in one
 * lane after requests were taken out of it. */
void as_queue_update_due(struct as_queue *u, as_ns now);
void as_lane_update_due(struct as_queue *u, struct as_lane *l, as_ns now);
/* When as_queue_update_due has something to do, or earlier; AS_NEVER. */
as_ns as_queue_next_release(const struct as_queue *u);

#endif
