/* core/queue/request.h — one request as the deciding part sees it: states, deadline, order.
 *
 *            submit              dispatch               done
 *   NEW ───────────► QUEUED ───────────────► SENT ───────────────► DONE
 *    │ refused         │ ▲ │ cancel, expire    │ │ cancel, expire     ▲
 *    ▼                 │ └──────────► DONE     │ └──► ABANDONED ──────┘ worker's END/ERROR,
 *   DONE               ├───────────────────────┤                        or its death
 *                      │ returned, worker died │
 *                      └──────── PARKED ◄──────┘ worker died, and nobody has said why yet
 *                                  └──► DONE     cancel, expire, may not run again
 *
 *   SENT, ABANDONED, PARKED ──► RETAINED ──► DONE
 *
 * RETAINED: it executed in a worker that died. Its client has its answer, or has left; its body
 * stays until it is known whether somebody is to blame for the death, and its fingerprint taken if
 * so.
 *
 * The edge embeds this struct in its own request. From as_deployment_submit until DONE the
 * deployment holds it. Whether a SENT request has started is known only to the worker's status
 * page.
 */
#ifndef AS_CORE_REQUEST_H
#define AS_CORE_REQUEST_H

#include "base/defs.h"
#include "base/list.h"

struct as_batch;
struct as_blame_entry;
struct as_deployment;
struct as_pending_verdict;
struct as_lane;
struct as_replica;

enum as_request_state {
    AS_REQ_NEW,
    AS_REQ_QUEUED,
    AS_REQ_SENT,
    AS_REQ_ABANDONED,
    AS_REQ_PARKED,
    AS_REQ_RETAINED,
    AS_REQ_DONE
};

#define AS_PRIORITIES 3u /* 0 most urgent; the default is 1 */

struct as_request {
    /* set by the owner before submit */
    uint32_t model;    /* index of the model within its deployment */
    uint8_t priority;  /* 0 … AS_PRIORITIES-1 */
    bool idempotent;   /* may run twice */
    bool has_fallback; /* another deployment takes it: refused where no replica takes requests now,
                        * rather than left waiting for one */
    bool is_mirror;    /* a copy that nobody waits for: given a free slot or refused, never again */
    uint32_t items;    /* rows of its inputs; of a model with batching 1 … max_size, else 1 */
    as_ns deadline;    /* AS_NEVER: none */
    uint64_t kind;     /* of a model with batching: requests that may share a call have the same */
    /* set by the owner before as_replica_done: the answer is a failure of the replica, not of the
     * request */
    bool failed;
    /* set by core */
    enum as_request_state state;
    uint8_t attempts;  /* times sent */
    uint8_t retries;   /* times a worker handed it back unstarted, as_replica_done(retry) */
    uint8_t tries;     /* executions that were lost, but for those that an outside kill ended */
    bool ran;          /* an execution of it was lost, whatever ended that: core/protect/retry.h */
    bool in_budget;    /* its replay is in the deployment's budget */
    bool recalled;     /* its RECALL is under way */
    bool bound;        /* its answer has begun, or its worker has read on: never replayed */
    bool unverified;   /* a suspect by a sample of its body; the rest is still to be compared */
    bool started;      /* a RECALL left it with its worker: it runs, do not ask again */
    as_ns arrived;     /* submit */
    as_ns sent;        /* last dispatch */
    as_ns suspected;   /* QUEUED, a suspect: since it waits for a replica of its own */
    as_ns hold_until;  /* of a model with batching: held back no longer than this; 0: ready */
    uint64_t order;    /* arrival number within the deployment; kept over replays */
    uint64_t stream;   /* stream id on the link, set by ops->send */
    size_t heap_index; /* place in the deadline heap, SIZE_MAX: none */
    struct as_replica *replica;
    struct as_lane *lane;         /* QUEUED, of a model with batching: where it waits */
    struct as_batch *batch;       /* SENT: those that share its call; NULL: it is alone */
    struct as_blame_entry *blame; /* it is a suspect, core/protect/blame.h; NULL: it is not */
    struct as_pending_verdict
        *verdict;        /* PARKED, RETAINED: where; NULL: it is not needed there any more */
    struct as_list node; /* queue, suspects, verdict, or the replica's sent list in stream order */
};

/* Times that a worker may hand one request back; then its answer is the answer. */
#define AS_REQUEST_RETRIES 8u

/* State NEW, default priority, one item, no deadline. */
void as_request_init(struct as_request *q);
/* Where the arrows of the picture lead: row from, bit to. */
extern const uint8_t as_request_transitions[];
/* The only writer of q->state; asserts that the picture has the arrow. */
static inline void as_request_set_state(struct as_request *q, enum as_request_state to)
{
    AS_ASSERT(as_request_transitions[q->state] >> to & 1u);
    q->state = to;
}
/* Whether the fields fit the state. */
bool as_request_ok(const struct as_request *q);
const char *as_request_state_name(enum as_request_state s); /* "QUEUED" */

#endif
