/* link/fleet/call.h — one request on its way from a client protocol to a worker and back.
 *
 * The edge embeds a call, fills its first part and submits it on its own loop (the home loop). The
 * fleet calls on_answer at most once and then on_release exactly once, both on the home loop.
 * Between submit and on_release every field belongs to the fleet, and the memory that `payload`
 * refers to must stay.
 */
#ifndef AS_LINK_CALL_H
#define AS_LINK_CALL_H

#include "base/memory/budget.h"
#include "core/queue/request.h"
#include "core/registry/routes.h"
#include "link/fleet/call_stream.h"

struct as_fleet_client;
struct as_simple_conn;

/* A call that has more of them above it is refused with AS_EFULL: a chain on a cycle takes no
 * slots, so nothing else would end one without end. */
#define AS_CALL_DEPTH_MAX 16u
#define AS_CALL_TARGET    UINT32_MAX /* core.model: the deployment's target of calls */
#define AS_CALL_NO_CALLER UINT32_MAX /* a client or a driver has made the call */

/* Who makes calls: a worker, a driver, or all clients of the server's protocols. Zeros at first; to
 * be freed when its calls have ended or were cancelled. Dispatch loop. */
struct as_call_owner {
    uint32_t *waiting; /* by place of a deployment that limits each caller: its calls that wait */
};
void as_call_owner_fini(struct as_call_owner *o);

/* How a client of HTTP is refused when the queue of a deployment is full. */
struct as_backpressure {
    uint32_t status; /* 0: that of AS_EFULL */
    bool has_retry;  /* the delay before a retry is … */
    as_ns retry;     /* … this, and not estimated */
};

struct as_outcome {
    int err;           /* 0: `result` holds the outputs; else AS_E… */
    uint32_t status;   /* the gRPC status that the worker gave; 0: the one that belongs to err */
    bool started;      /* with such a status: user code has run */
    bool shed;         /* with AS_EFULL: it was queued, and has waited too long */
    as_ns retry_after; /* with AS_EFULL: how long the client should wait; 0: unknown */
    struct as_backpressure backpressure; /* with AS_EFULL: as the deployment has it */
    uint64_t dropped;      /* with AS_EUNTAKEN: size of the answer that there was no memory for */
    struct as_str message; /* error text; may be empty; valid during on_answer */
    /* The outputs, valid during on_answer; the bytes of large ones as long as its blob, whose
     * reference on_answer takes over. Not aligned if they come from a simple worker. */
    struct as_payload result;
};

/* 0, or an error of our own. */
static inline void as_outcome_set(struct as_outcome *o, int err)
{
    o->err = err;
    o->status = 0;
    o->started = o->shed = false;
    o->message = (struct as_str){0};
}

struct as_call {
    /* --- set by the submitter --- */

    /* model, priority, idempotent and deadline; for a model with batching also items
     * (as_model_items) */
    struct as_request core;
    uint32_t deployment;    /* number from the registry; of a request of HTTP the fleet's to find */
    struct as_route *route; /* of a request of HTTP: whose it is; borrowed until on_release */
    struct as_replica *only; /* as_deployment_submit_to: this one; NULL: any. Local clients only */
    /* A call that a worker makes: the number of the worker's deployment. Else AS_CALL_NO_CALLER. */
    uint32_t caller;
    struct as_call_owner *owner; /* of a call by a worker or a driver; NULL: a client's */
    uint32_t depth; /* calls above it in its chain: 0: made by no request; else its parent's + 1 */
    bool is_fallback;          /* sent here because deployment fallback_from refused it … */
    uint32_t fallback_from;    /* … which counts it as a fallback */
    struct as_payload payload; /* the inputs; small ones are copied when they are sent */
    /* Holds the decoded answer; the fleet writes to it until on_answer. A streamed call needs an
     * arena of its own: its parts are delivered while the fleet still writes. */
    struct as_arena *arena;
    struct as_account *payer; /* account for the memory of a large answer; NULL: none. It lives
                               * until on_release */
    void (*on_answer)(struct as_call *c);
    void (*on_release)(struct as_call *c);
    /* With core.reservation WANTED, of a local client: the call has a slot of the replica of this
     * name. as_fleet_client_use_slot or as_fleet_client_cancel may follow, not from in here. */
    void (*on_reserved)(struct as_call *c, struct as_str replica);
    struct as_call_stream *stream; /* of a decoupled model: stays until on_release; NULL: one
                                    * answer, and one input */

    struct as_outcome outcome; /* valid in on_answer */

    /* --- used by the fleet only --- */

    struct as_fleet_client *client;
    struct as_letter submit_letter, answer_letter, release_letter, cancel_letter;
    uint64_t question;  /* its number at the policy process (policy.h); 0: it was not asked … */
    bool question_open; /* … and there is no answer yet */
    as_ns asked_at;
    uint32_t routed_to;       /* the number of its replica there; 0: none */
    struct as_call *hedge;    /* its second execution, which core has; NULL: none … */
    struct as_call *hedge_of; /* … and a second execution's first */
    bool awaited;             /* a worker or a driver waits for it */
    bool cancel_posted;       /* home loop: the client has gone */
    bool released;            /* home loop: the fleet released it while letters were still out */
    uint8_t letters_out;      /* home loop: letters on their way to the dispatch loop or back */

    /* --- used by the connection of its worker only --- */

    as_ns executing_since; /* first scan that found it executing (link_health.c); not valid while it
                            * is below core.sent */
    bool started;          /* the status page said so at that scan */
    struct as_simple_conn *conn; /* its connection to a simple worker; else NULL */
    size_t body_received;        /* bytes of the answer's body that are here */
    struct as_frame_msg rx_msg;  /* the head of the answer whose body is being received */
};

/* Its outcome may be set. Otherwise it may be on its way to the home loop already. */
static inline bool as_call_is_awaited(const struct as_call *c)
{
    return c->core.state == AS_REQ_SENT;
}

/* The memory into which its answer is received; NULL: none, or nobody waits for it, and then its
 * outcome may be that of its second execution. */
static inline struct as_blob *as_call_receives(const struct as_call *c)
{
    return as_call_is_awaited(c) ? c->outcome.result.blob : NULL;
}

/* Sets its outcome, with a copy of the worker's text. */
void as_call_set_outcome(struct as_call *c, int err, uint32_t status, struct as_str message);
/* Copies the n bytes of an answer out of a read buffer, for another loop: into the arena, or into
 * *ret_blob, which is charged. NULL: no room; *ret_err is AS_EFULL or AS_ENOMEM. */
const uint8_t *as_call_copy_answer(struct as_call *c, const void *bytes, size_t n,
                                   struct as_blob **ret_blob, int *ret_err);

#endif
