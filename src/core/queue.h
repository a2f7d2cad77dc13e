/* core/queue.h — requests that wait for a replica: strict priorities, first come first served.
 *
 * All models share one FIFO per priority. A model whose cap can bite (it is below the slots of some
 * replica) gets lanes of its own, so that its requests are stepped over without a walk; the order
 * number keeps "first come" exact across lanes. The queue owns its lanes, never the requests.
 */
#ifndef AS_CORE_QUEUE_H
#define AS_CORE_QUEUE_H

#include "core/request.h"

struct as_lane {
    struct as_list fifo[AS_PRIORITIES];
    struct as_list node; /* in active while it holds requests */
    uint32_t model, cap, n;
};

struct as_queue {
    struct as_list fifo[AS_PRIORITIES];
    uint32_t n;             /* requests, lanes included */
    struct as_lane **lanes; /* by model; NULL: shares the FIFO */
    uint32_t n_lanes;       /* size of that array */
    struct as_list active;  /* lanes that hold requests */
};

void as_queue_init(struct as_queue *u);
void as_queue_fini(struct as_queue *u); /* empty */

/* By q->order within its priority. At the end, where new ones go, and at the front, where replays
 * go, without a walk. */
void as_queue_push(struct as_queue *u, struct as_request *q);
void as_queue_remove(struct as_queue *u, struct as_request *q);

/* A lane for the model, which has none yet. Requests that wait already move over. */
void as_queue_restrict(struct as_queue *u, uint32_t model, uint32_t cap);
static inline const struct as_lane *as_queue_lane(const struct as_queue *u, uint32_t model)
{
    return model < u->n_lanes ? u->lanes[model] : NULL;
}

/* May a replica with so many slots, and `of_model` unanswered requests by model, take one more of
 * the lane's model? A cap that the slots cannot exceed restricts nothing. */
static inline bool as_lane_fits(const struct as_lane *l, const uint32_t *of_model, uint32_t slots)
{
    return l->cap >= slots || of_model[l->model] < l->cap;
}

/* What such a replica takes next: the oldest of the most urgent priority whose model has room.
 * of_model may be NULL when there are no lanes. NULL: nothing for it. */
struct as_request *as_queue_first(const struct as_queue *u, const uint32_t *of_model,
                                  uint32_t slots);
/* The very first, whatever its model; NULL: empty. */
struct as_request *as_queue_any(const struct as_queue *u);
bool as_queue_ok(const struct as_queue *u);

#endif
