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
#include "io/loop/mbox.h"
#include "link/fleet/payload.h"

struct as_fleet_client;
struct as_link;
struct as_simple_conn;
struct as_call;

/* One message of a streamed answer. The payload and its bytes are valid during on_part; a receiver
 * that needs large bytes for longer takes a reference to its blob. */
struct as_part {
    struct as_payload payload;
    uint64_t cost;    /* bytes to return with as_fleet_client_credit, together with one message */
    uint64_t dropped; /* not 0: there was no memory for its body of so many bytes, the payload is
                       * empty, and it is the last part */
    /* used by the fleet only */
    struct as_call *call;
    struct as_letter letter;
    struct as_arena arena;
};

struct as_call {
    /* --- set by the submitter --- */

    /* model, priority, idempotent and deadline; for a model with batching also items
     * (as_model_items) */
    struct as_request core;
    uint32_t deployment;       /* number from the registry */
    bool is_fallback;          /* sent here because deployment fallback_from refused it … */
    uint32_t fallback_from;    /* … which counts it as a fallback */
    struct as_payload payload; /* the inputs; small ones are copied when they are sent */
    /* Holds the decoded answer; the fleet writes to it until on_answer. A call with on_part needs
     * an arena of its own: its parts are delivered while the fleet still writes. */
    struct as_arena *arena;
    struct as_account *payer; /* account for the memory of a large answer; NULL: none. It lives
                               * until on_release */
    void (*on_answer)(struct as_call *c);
    void (*on_release)(struct as_call *c);
    /* For a decoupled model: the answer comes in parts, as many as as_fleet_client_credit allows,
     * and on_answer reports the end (without a result) or the error. NULL: one answer. Called on
     * the home loop, before on_answer, and not after a cancel. */
    void (*on_part)(struct as_call *c, struct as_part *p);
    bool streams_inputs; /* `payload` is the first of several inputs (as_fleet_client_input); needs
                          * on_part */

    /* --- the outcome, valid in on_answer --- */

    int err;           /* 0: `result` holds the outputs; else AS_E… */
    uint32_t status;   /* the gRPC status that the worker gave; 0: the one that belongs to err */
    as_ns retry_after; /* with AS_EFULL: how long the client should wait; 0: unknown */
    uint64_t dropped;  /* with AS_EUNTAKEN: size of the answer that there was no memory for */
    struct as_str message; /* error text; may be empty; valid during on_answer */
    /* The outputs, valid during on_answer; the bytes of large ones as long as its blob, whose
     * reference on_answer takes over. Not aligned if they come from a simple worker. */
    struct as_payload result;

    /* --- used by the fleet only --- */

    struct as_fleet_client *client;
    struct as_letter submit_letter, answer_letter, release_letter, cancel_letter;
    bool cancel_posted;  /* home loop: the client has gone */
    bool released;       /* home loop: the fleet released it while letters were still out */
    uint8_t letters_out; /* home loop: letters on their way to the dispatch loop or back */
    bool answered;
    as_ns executing_since; /* first scan that found it executing (link_health.c); not valid while it
                            * is below core.sent */
    bool started;          /* the status page said so at that scan */
    struct as_simple_conn *conn; /* its connection to a simple worker; else NULL */
    size_t body_received;        /* bytes of the answer's body that are here */
    struct as_frame_msg rx_msg;
    /* Flow control of streams: what the worker may still send; what the client has consumed and
     * the worker was not granted again; what we may still send to the worker. */
    struct as_frame_window part_credit, owed_credit, input_credit;
    struct as_part *part;  /* a large part whose body is being received */
    struct as_call *input; /* an input that waits for input_credit */
    bool inputs_over;      /* the client sends no further input */
    bool inputs_more;      /* home loop: as_fleet_client_input was called */
    struct as_letter credit_letter, end_letter;
    struct as_frame_window credit;        /* home loop: goes out with the next credit_letter … */
    struct as_frame_window posted_credit; /* … and what the one under way carries */
    bool credit_posted;
    struct as_call *target; /* of an input: the call that it belongs to */
};

void as_part_free(struct as_part *p); /* p may be NULL */

#endif
