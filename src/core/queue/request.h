/* core/queue/request.h — one request as the scheduler sees it: its state, deadline and place in the
 * order.
 *
 *            submit              dispatch               done
 *   NEW ───────────► QUEUED ───────────────► SENT ───────────────► DONE
 *    │ refused         │ ▲ │ cancel, expire    │ │ cancel, expire     ▲
 *    ▼                 │ └──────────► DONE     │ └──► ABANDONED ──────┘ worker's END/ERROR,
 *   DONE               ├───────────────────────┤                        or its death
 *                      │ returned, worker died │
 *                      └──────── PARKED ◄──────┘ worker died, the cause is not known yet
 *                                  └──► DONE     cancel, expire, may not run again
 *
 *   SENT, ABANDONED, PARKED ──► RETAINED ──► DONE
 *
 * PARKED: the request may run again only once the cause of its worker's death is known
 * (core/dispatch/faults/pending_verdict.h). RETAINED: the request executed in a worker that died,
 * and its client has been answered or has left. Its body stays until the cause of the death is
 * known, because a crash means that the body must be fingerprinted (core/protect/blame.h).
 *
 * The edge embeds this struct in its own request. The deployment holds the request from
 * as_deployment_submit until DONE. Only the worker's status page tells whether a SENT request has
 * started. Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_REQUEST_H
#define AS_CORE_REQUEST_H

#include "base/defs.h"
#include "base/container/list.h"
#include "core/queue/due_heap.h"

struct as_batch;
struct as_blame_entry;
struct as_deployment;
struct as_flow;
struct as_pending_verdict;
struct as_lane;
struct as_replica;
struct as_preference;

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

/* A request may take a slot before it says what is to be executed there:
 *
 *   WANTED ──── sent ────► HELD ──── as_deployment_dispatch_reserved ────► USED
 *
 * WANTED: it waits and is routed as any other. HELD (state SENT): it has a slot of its replica, and
 * its worker knows nothing of it. USED: it was sent to that replica, and never goes elsewhere. */
enum as_reservation {
    AS_RESERVATION_NONE,
    AS_RESERVATION_WANTED,
    AS_RESERVATION_HELD,
    AS_RESERVATION_USED
};

/* Whether a request executes in a second replica, too: core/dispatch/hedge.h. */
enum as_hedge_state {
    AS_HEDGE_NONE,
    AS_HEDGE_WATCHED, /* SENT: its hedge is sent when it has run for long enough … */
    AS_HEDGE_DUE,     /* … which it has */
    AS_HEDGE_SENT,    /* it has had its hedge */
    AS_HEDGE_SECOND   /* it is a hedge */
};

/* Where a replica or the origin of a request is: numbers; 0: unknown. */
struct as_place {
    uint32_t node, zone;
};

struct as_request {
    /* set by the caller before as_deployment_submit */
    uint32_t model;   /* index of the model within its deployment */
    uint8_t priority; /* 0 … AS_PRIORITIES-1 */
    bool idempotent;  /* may run more than once */
    bool unary;       /* one input and one answer, each whole: it may be hedged */
    uint32_t cost;    /* what fairness charges its tenant where the sender says it; at least 1 */
    uint64_t tenant;  /* a hash of the tenant's name (core/queue/fair.h); 0: none is known */
    /* another deployment can take it: refused at once when no replica serves the model now, instead
     * of waiting for one */
    bool has_fallback;
    /* a mirrored copy whose answer nobody reads: gets a free slot at once or is refused; never
     * retried */
    bool is_mirror;
    uint32_t items; /* rows of its inputs: 1 … max_size for a model with batching, else 1 */
    union {
        struct as_due due; /* in the heap of its deployment's deadlines */
        struct {
            as_ns deadline; /* AS_NEVER: none */
            /* set by core: index in that heap; SIZE_MAX: not in it */
            size_t heap_index;
        };
    };
    uint64_t kind; /* with batching: requests that may share a call have the same kind (a hash) */
    /* A request that another one makes while it executes: when the first of that chain, the root,
     * was submitted; 0: it is a root itself, and core sets this. Requests wait in the order of
     * their roots, since those that execute wait for the requests that they have made. */
    as_ns root;
    /* What it would wait for may itself wait for it, because deployments call each other in a
     * circle. So it waits for no slot: it executes beyond them. No effect on a model with batching.
     */
    bool on_cycle;
    /* WANTED: it reserves a slot first; not for a model with batching. Core sets HELD and USED. */
    enum as_reservation reservation;
    /* counts the requests of its caller that wait in the queue of this deployment; it stays until
     * the request has ended or was cancelled. NULL: they are not counted
     * (as_deployment_set_per_caller) */
    uint32_t *waiting;
    /* What a router may go by (core/dispatch/choice/router.h); 0: none. Hashes, since equal hashes
     * of different names only make a choice worse: the multiplexed model that it is for, and the
     * session that it is part of. */
    uint64_t model_key, session_key;
    struct as_place place; /* where it comes from */
    /* set by the caller before as_replica_done: the answer is an error that counts against the
     * replica (core/protect/breaker.h), not against the request */
    bool failed;
    /* set by core */
    enum as_request_state state;
    uint8_t attempts; /* times sent */
    uint8_t retries;  /* times that a worker handed it back unstarted: as_replica_done(retry) */
    uint8_t tries;    /* executions that were lost, except those that a kill from outside ended */
    bool ran;         /* some execution of it was lost, for whatever cause: core/protect/retry.h */
    bool in_budget;   /* its retry counts against the deployment's retry budget */
    bool recalled;    /* its worker was asked to give it back (RECALL) and has not answered yet */
    /* part of its answer was delivered, or more of its input was sent: it is bound to this
     * execution and is never retried */
    bool bound;
    /* a suspect because of a sample of its body; the whole body is not compared yet */
    bool unverified;
    /* its worker kept it when it was recalled: it runs, so it is not recalled again */
    bool started;
    /* for one replica only: as_deployment_submit_to, as_deployment_dispatch_reserved */
    bool pinned;
    bool beyond; /* SENT, ABANDONED: it executes beyond the slots of its replica */
    enum as_hedge_state hedge : 8;
    bool charged; /* its tenant has paid: a retry is free */
    uint64_t tag; /* QUEUED, the first of its flow: the start of its service in virtual time */
    struct as_flow *flow; /* QUEUED, with fairness: where it waits */
    as_ns arrived;        /* when it was submitted */
    as_ns sent;           /* when it was last sent */
    as_ns deadline_then;  /* HELD: its deadline once it is USED; until then as_deployment_conf's */
    as_ns suspected;      /* QUEUED, a suspect: when it began to wait for a replica of its own */
    as_ns hold_until; /* with batching: it waits for others until then at most; 0: it may go now */
    uint64_t order;   /* arrival number within the deployment; a retry keeps it, and its root */
    uint64_t stream;  /* stream id on the link, set by ops->send */
    struct as_replica *replica;
    struct as_lane *lane;   /* QUEUED, with batching: the lane in which it waits */
    struct as_batch *batch; /* SENT: the batch that it is part of; NULL: a call of its own */
    /* the entry that makes it a suspect (core/protect/blame.h); NULL: no suspect */
    struct as_blame_entry *blame;
    /* PARKED, RETAINED: the verdict that it waits for; RETAINED and NULL: not needed any more */
    struct as_pending_verdict *verdict;
    /* QUEUED: it waits for certain replicas (core/dispatch/choice/preference.h); NULL: for any */
    struct as_preference *preference;
    /* in the queue, those that wait for certain replicas, the suspects, a pending verdict, or the
     * replica's `sent` */
    struct as_list node;
    struct as_request *twin;   /* SENT: its hedge, or whose hedge it is, while both execute */
    struct as_list hedge_node; /* WATCHED, DUE: in that list */
};

/* The request with that node. */
static inline struct as_request *as_request_of(const struct as_list *node)
{
    return AS_LIST_ENTRY((struct as_list *)(uintptr_t)node, struct as_request, node);
}

/* Its client waits for an answer, which core has accepted to get. */
static inline bool as_request_is_awaited(const struct as_request *q)
{
    return q->state == AS_REQ_QUEUED || q->state == AS_REQ_SENT || q->state == AS_REQ_PARKED;
}

/* Which of two accepted requests of the same priority goes first: the one whose tenant has had less
 * (core/queue/fair.h), then the one whose root is older, then the one that came first. */
static inline bool as_request_is_older(const struct as_request *q, const struct as_request *other)
{
    if (q->tag != other->tag)
        return q->tag < other->tag;
    return q->root != other->root ? q->root < other->root : q->order < other->order;
}

/* A worker may hand one request back this many times. After that its error goes to the client. */
#define AS_REQUEST_RETRIES 8u

/* State NEW, default priority, one item, no deadline. */
void as_request_init(struct as_request *q);
/* The arrows of the picture: [from] has a bit for each state that may follow. */
extern const uint8_t as_request_transitions[];
/* The only writer of q->state; asserts that the picture has this arrow. */
static inline void as_request_set_state(struct as_request *q, enum as_request_state to)
{
    AS_ASSERT(as_request_transitions[q->state] >> to & 1u);
    if (__builtin_expect(q->waiting != NULL, 0) &&
        (to == AS_REQ_QUEUED) != (q->state == AS_REQ_QUEUED))
        *q->waiting += to == AS_REQ_QUEUED ? 1u : -1u;
    q->state = to;
}
/* Whether the fields are consistent with the state. */
bool as_request_ok(const struct as_request *q);
const char *as_request_state_name(enum as_request_state s); /* "QUEUED" */

#endif
