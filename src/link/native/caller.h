/* link/native/caller.h — the calls that a worker or a driver makes over its link: streams of even
 * numbers (docs/protocol/link.md, section 16).
 *
 *   OPEN ─► RECEIVING ─► SUBMITTED ─► released        CANCEL, the end of the link: it is detached,
 *     │   its body comes  │ in the fleet               and nothing is sent for it any more
 *     └───────────────────┘ the body is in OPEN
 *
 * Each call is an as_call of the fleet, submitted as those of clients are, with a block of memory
 * and an arena of its own. A request that executes at the worker, the parent, has a window of its
 * own for the calls that it makes, so no request waits for credit that only its own end could free.
 * When the parent has ended, its calls count among those that have none.
 * The credit of a streamed answer is passed through: the callee may send what the caller has
 * granted. The bytes of bodies, and of what waits in the link's output, are charged to the accounts
 * of the link in the budgets of clients (base/memory/budget.h). Copies of a body:
 * docs/architecture/calls.md. Thread: the dispatch loop. Private to src/link.
 */
#ifndef AS_LINK_CALLER_H
#define AS_LINK_CALLER_H

#include "link/fleet/fleet_deployment.h"

struct as_link;
struct as_caller_call;

#define AS_CALLER_CALLS_MAX (1u << 18) /* open calls of a link; more are refused */

/* A call may reserve a slot first (AS_CALL_F_RESERVE). HELD: RESERVED was sent. FILLED: the OPEN
 * that says what is to be executed has come, and the rest of its body may follow. */
enum as_caller_slot {
    AS_CALLER_SLOT_NONE,
    AS_CALLER_SLOT_WANTED,
    AS_CALLER_SLOT_HELD,
    AS_CALLER_SLOT_FILLED
};

/* What a number of TARGET stands for. */
struct as_caller_target {
    char *id;               /* of the deployment; NULL: the number was never given */
    uint32_t number, model; /* of the deployment and its target when they were found last */
};

/* The open calls of one request that the worker executes, of an ended one, or of none. */
struct as_caller_window {
    uint64_t parent; /* 0: none */
    struct as_caller_window *next;
    uint32_t n;
    uint64_t bytes;
    bool ended; /* the parent has ended: they count in `none`, too */
};

/* Counts the calls of a link for deployments that limit each caller, and has the link's accounts;
 * it lives as long as its calls do. */
struct as_caller_owner {
    struct as_call_owner calls;
    struct as_account *requests, *answers; /* for bodies; NULL: without a limit */
    uint32_t refs;
};

struct as_caller {
    struct as_caller_owner *owner;
    struct as_caller_target *targets;
    uint32_t n_targets;
    struct as_caller_call **calls; /* open calls: a hash table by stream, of cap_calls chains */
    uint32_t n_calls, cap_calls;
    struct as_caller_window **windows; /* of requests that have open calls: another table */
    uint32_t n_windows, cap_windows;
    struct as_caller_window none;   /* of calls whose parent has ended, or that have none */
    struct as_caller_window *spare; /* windows that are not used, at most as many as there were */
    uint64_t next_stream;           /* even */
    size_t charged;                 /* to owner->answers, for the link's output */
};

/* The link answers HELLO: tells the caller its limits. */
void as_caller_start(struct as_link *l);
/* Frames of a caller: TARGET; OPEN, CREDIT, CANCEL and others with an even stream number. */
void as_caller_on_target(struct as_link *l, const struct as_frame *f);
void as_caller_on_frame(struct as_link *l, const struct as_frame *f);
/* The header of a DATA frame that continues the body of an OPEN is here: sets the reader's sink.
 * NULL, or what is wrong. */
const char *as_caller_begin_body(struct as_link *l, const struct as_frame *f);
void as_caller_on_body(struct as_link *l); /* that frame is complete */
/* The request on this odd stream has ended. */
void as_caller_on_parent_end(struct as_link *l, uint64_t stream);
/* The link has written: charges the memory of what is still in its output. */
void as_caller_charge_output(struct as_link *l);
/* The link ends: all its calls are cancelled. */
void as_caller_end(struct as_link *l);
uint32_t as_caller_open_calls(const struct as_link *l);

/* --- between caller*.c --- */

enum { AS_CALLER_FIRST = 1024 }; /* bytes of the arena's first block */

struct as_caller_call {
    struct as_call call;
    struct as_call_stream stream;
    struct as_arena arena;
    struct as_link *link; /* NULL: detached, nobody waits for it */
    struct as_caller_call *next;
    struct as_caller_window *window;
    struct as_caller_owner *owner;
    uint64_t number;  /* of its stream */
    uint64_t cost;    /* bytes of its OPEN */
    uint64_t charged; /* to owner->requests, for the OPEN's bytes in the arena */
    uint64_t parent;
    uint32_t target;
    struct as_frame_window credit; /* what the caller has granted for its answer, and is not used */
    struct as_blob *blob;          /* of a large body … */
    uint64_t body_len, received;   /* … which is being received */
    bool submitted;
    enum as_caller_slot slot;
    struct as_caller_every
        *every;    /* of a call of every replica, once it was submitted; else NULL */
    bool to_every; /* it is to be such a call */
    uint8_t first[AS_CALLER_FIRST] __attribute__((aligned(16)));
};

struct as_caller_call *as_caller_find(const struct as_link *l, uint64_t stream);
/* Opens the call: it counts in the window of `parent`. False: the window is full. */
bool as_caller_add(struct as_link *l, struct as_caller_call *c);
/* Its END or ERROR was sent, or its link ends: it counts no more, and nothing is sent for it. */
void as_caller_detach(struct as_caller_call *c);
void as_caller_free(struct as_caller_call *c);
void as_caller_owner_unref(struct as_caller_owner *o); /* NULL is fine */
/* The request is whole: to the fleet. */
void as_caller_submit(struct as_caller_call *c);
/* Answers with an error of ours, and detaches the call. text: empty: the error's. */
void as_caller_fail(struct as_caller_call *c, int err, struct as_str text);
/* Answers with an error that names the deployment, and detaches the call. */
void as_caller_fail_described(struct as_caller_call *c, int err, const char *what);
/* The bytes of its OPEN are others now. */
void as_caller_change_cost(struct as_caller_call *c, uint64_t cost);
/* --- caller_receive.c --- */
/* Copies the frame, which must outlive the read buffer, and decodes the copy. NULL, or what is
 * wrong. *ret_err: there is no room for it. */
const char *as_caller_decode_open(struct as_caller_call *c, const struct as_frame *f,
                                  struct as_frame_call *ret_m, int *ret_err);
/* What of an OPEN the caller may not say; NULL: nothing. */
const char *as_caller_check_open(const struct as_link *l, const struct as_frame *f,
                                 const struct as_frame_call *m);
/* Checks a whole body, and makes it the call's. NULL, or what is wrong. */
const char *as_caller_set_body(struct as_caller_call *c, const uint8_t *p, uint64_t n);
/* Payload and stream of the call, of an OPEN. */
void as_caller_set_payload(struct as_caller_call *c, const struct as_frame_call *m,
                           const struct as_call *parent);
/* The body follows in DATA frames. The call may end here, for want of memory. */
void as_caller_begin_large(struct as_link *l, struct as_caller_call *c,
                           const struct as_frame_call *m);
/* There is no room for its body of n bytes: answers so, and ends the call. */
void as_caller_fail_for_room(struct as_caller_call *c, int err, uint64_t n);
/* --- caller_slot.c: calls that reserve a slot first --- */
void as_caller_on_reserved(struct as_call *call, struct as_str replica);
/* A second OPEN: what is to be executed in the slot that its stream has. */
void as_caller_on_use(struct as_link *l, const struct as_frame *f);
/* Its body is whole. */
void as_caller_use_slot(struct as_caller_call *c);
/* --- caller_every.c: a call of every replica of a deployment --- */
void as_caller_submit_every(struct as_caller_call *c, struct as_fleet_deployment *d,
                            const struct as_fleet_model *m);
/* CREDIT has come: sends answers that have waited for it. */
void as_caller_every_credited(struct as_caller_call *c);
/* Nobody waits for c any more, which is detached: cancels its calls and frees it. */
void as_caller_every_cancel(struct as_caller_call *c);
/* The callbacks of the fleet. */
void as_caller_on_answer(struct as_call *call);
void as_caller_on_release(struct as_call *call);
void as_caller_on_part(struct as_call *call, struct as_part *p);

#endif
