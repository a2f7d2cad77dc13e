/* core/queue/queue.h — requests that wait for a replica: strict priorities, first come first
 * served.
 *
 * All models share one FIFO per priority. A model whose cap can bite (it is below the slots of some
 * replica), or that some replica does not serve, gets lanes of its own, so that its requests are
 * stepped over without a walk; the order number keeps "first come" exact across lanes. A model with
 * batching (core/queue/batch.h) gets a lane for each kind of request that waits, so that a batch is
 * the front of one lane, and nothing of it is stepped over. A lane that is not ripe gives nothing.
 * The queue owns its lanes, never the requests.
 */
#ifndef AS_CORE_QUEUE_H
#define AS_CORE_QUEUE_H

#include "core/queue/batch.h"
#include "core/queue/request.h"

/* Kinds of one model that wait in lanes of their own. Requests of further kinds go one by one:
 * where so many do not fit each other, a batch would not fill anyway. */
#define AS_QUEUE_KINDS_MAX 64u

struct as_batching;

/* What one replica has of one model. */
struct as_replica_model {
    uint32_t calls;    /* unanswered; those beyond the model's cap wait in the worker */
    uint32_t prefetch; /* so many may wait there, as far as the replica takes any in advance */
    as_ns service;     /* moving average, weight 1/8; 0 unknown; only where the model has a lane */
    uint32_t seen;     /* of a walk over the replica's requests */
    bool absent;       /* its worker does not serve it */
};

/* A replica, as whoever looks for its next request needs to know it. */
struct as_replica_capacity {
    const struct as_replica_model *of_model; /* by model; NULL: there are no lanes, or all fit */
    uint32_t slots;   /* the most that it was ever granted: a lower cap counts */
    bool may_execute; /* it has room for a request that no cap holds up */
    bool may_wait;    /* it has room for one that waits there behind its model's cap */
};

struct as_lane {
    struct as_list fifo[AS_PRIORITIES];
    struct as_list node; /* in active while it holds requests */
    uint32_t model, cap, n;
    uint32_t recalled; /* of the lane in as_queue.lanes: requests of the model under recall */
    struct as_batching *batching; /* NULL: one at a time */
    /* with batching */
    uint64_t kind;
    uint32_t items;  /* of all that wait here */
    uint32_t ready;  /* requests that have waited long enough */
    as_ns next_due;  /* none of the others is ready before; AS_NEVER */
    bool one_by_one; /* of many kinds: one by one, at once */
    bool held_back;  /* it has requests and is not ripe */
    bool dropped;    /* of the lane in as_queue.lanes: the model is served no more */
};

/* What a model with batching has beside the lane in as_queue.lanes, which takes the kinds that are
 * too many. */
struct as_batching {
    struct as_batch_conf conf;
    as_ns service; /* of one call: moving average, weight 1/8; 0 unknown */
    uint32_t n_kinds;
    struct as_lane *kinds[AS_QUEUE_KINDS_MAX]; /* an empty one is used again */
};

struct as_queue {
    struct as_list fifo[AS_PRIORITIES];
    uint32_t n;             /* requests, lanes included */
    struct as_lane **lanes; /* by model; NULL: shares the FIFO */
    uint32_t n_lanes;       /* size of that array */
    uint32_t n_held_back;   /* lanes that hold back what they have */
    struct as_list active;  /* lanes that hold requests */
    /* May two requests of the same model and kind share a call? Kinds are hashes. NULL: yes. */
    bool (*alike)(const struct as_request *a, const struct as_request *b);
};

void as_queue_init(struct as_queue *u);
void as_queue_fini(struct as_queue *u); /* empty */

/* By q->order within its priority. At the end, where new ones go, and at the front, where replays
 * go, without a walk. */
void as_queue_push(struct as_queue *u, struct as_request *q);
void as_queue_remove(struct as_queue *u, struct as_request *q);

/* A lane for the model, which has none yet. Requests that wait already move over. */
void as_queue_add_lane(struct as_queue *u, uint32_t model, uint32_t cap);
/* Of which nothing waits: its lane goes, and its requests would share the FIFO. */
void as_queue_remove_lane(struct as_queue *u, uint32_t model);
static inline const struct as_lane *as_queue_lane(const struct as_queue *u, uint32_t model)
{
    return model < u->n_lanes ? u->lanes[model] : NULL;
}

/* Does the cap of the lane's model hold up one more, in a replica with so many slots and `of_model`
 * by model? A cap that the slots cannot exceed holds up nothing. */
static inline bool as_lane_cap_reached(const struct as_lane *l,
                                       const struct as_replica_model *of_model, uint32_t slots)
{
    return l->cap < slots && of_model[l->model].calls >= l->cap;
}
/* May it execute one more of the model at once, if it has a free slot? */
static inline bool as_lane_can_execute(const struct as_lane *l,
                                       const struct as_replica_model *of_model, uint32_t slots)
{
    return !of_model[l->model].absent && !as_lane_cap_reached(l, of_model, slots);
}
/* Does it take one more of the model, to execute or to wait there? */
static inline bool as_lane_can_send(const struct as_lane *l, const struct as_replica_capacity *t)
{
    const struct as_replica_model *s = &t->of_model[l->model];

    if (s->absent)
        return false;
    return as_lane_cap_reached(l, t->of_model, t->slots)
               ? t->may_wait && s->calls - l->cap < s->prefetch
               : t->may_execute;
}

/* What the replica takes next: the oldest of the most urgent priority whose model has room and
 * whose lane is ripe. NULL: nothing for it. */
struct as_request *as_queue_first_for(const struct as_queue *u,
                                      const struct as_replica_capacity *t);
/* The very first, whatever its model; NULL: empty. */
struct as_request *as_queue_front(const struct as_queue *u);
/* The oldest of the most urgent of a model with a lane; with batching, of some kind. NULL: none. */
struct as_request *as_queue_first_of_model(const struct as_queue *u, uint32_t model);
/* All that wait, into `all` in an order that is kept when they are pushed again one by one. */
void as_queue_pop_all(struct as_queue *u, struct as_list *all);
bool as_queue_ok(const struct as_queue *u);

/* --- batching --- */

/* The model, without a request so far, takes batches. `cap`: unless it is restricted already. */
void as_queue_add_batching(struct as_queue *u, uint32_t model, uint32_t cap,
                           const struct as_batch_conf *conf);
/* NULL: one at a time. */
static inline struct as_batching *as_queue_batching(const struct as_queue *u, uint32_t model)
{
    return model < u->n_lanes && u->lanes[model] ? u->lanes[model]->batching : NULL;
}
/* The lane in which q (of a model with batching, release set) would wait. */
struct as_lane *as_queue_lane_for(struct as_queue *u, const struct as_request *q);
/* Would the lane be ripe with q in it too? */
bool as_lane_is_due_with(const struct as_lane *l, const struct as_request *q);
static inline bool as_lane_is_due(const struct as_lane *l) /* one with batching */
{
    return l->n && !l->held_back;
}
struct as_request *as_lane_first(const struct as_lane *l); /* NULL: empty */
/* q comes before: more urgent, or as urgent and older. */
static inline bool as_queue_before(const struct as_request *q, const struct as_request *other)
{
    return q->priority != other->priority ? q->priority < other->priority : q->order < other->order;
}
/* Requests whose release is <= now are ready: of all lanes that hold back something; of one that
 * has just given something away. */
void as_queue_update_due(struct as_queue *u, as_ns now);
void as_lane_update_due(struct as_queue *u, struct as_lane *l, as_ns now);
/* When that is due: not later than the first release of what is held back. AS_NEVER. */
as_ns as_queue_next_release(const struct as_queue *u);

#endif
