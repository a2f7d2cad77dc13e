/* link/fleet/call.h — one request on its way from a client protocol to a worker and back.
 *
 * The edge embeds it, fills the first part and submits it on its own loop; the fleet answers it at
 * most once and releases it exactly once, both on the loop that submitted it, answer first. Between
 * submit and release everything here belongs to the fleet; the memory that msg and blob refer to
 * must stay.
 */
#ifndef AS_LINK_CALL_H
#define AS_LINK_CALL_H

#include "base/memory/budget.h"
#include "core/protect/blame.h"
#include "core/queue/request.h"
#include "io/loop/mbox.h"
#include "wire/frame/frame.h"

struct as_fleet_client;
struct as_link;
struct as_simple_conn;
struct as_call;

/* One message of an answer that is a stream. `msg` and the bytes are valid during on_part; who
 * keeps large bytes takes a reference of `blob`. */
struct as_part {
    struct as_msg msg;
    struct as_tensor_params tensor_params; /* of its outputs */
    struct as_blob *blob;                  /* NULL: small */
    uint64_t cost;    /* bytes to give back with as_fleet_client_credit, and one message */
    uint64_t dropped; /* there was no room for it: its bytes; `msg` is empty. It is the last */
    /* the fleet's own */
    struct as_call *call;
    struct as_letter letter;
    struct as_arena arena;
};

/* Whether the model takes batches, and what requests may share one. */
enum as_call_batching { AS_CALL_UNBATCHED, AS_CALL_SAME_SHAPE, AS_CALL_RAGGED };

struct as_call {
    /* model, priority, idempotent, deadline are set by the submitter; of a model with batching the
     * items too (as_model_items) */
    struct as_request core;
    enum as_call_batching batching;
    uint32_t deployment; /* number from the registry */
    bool is_fallback;    /* deployment fallback_from had refused it: to be counted there */
    uint32_t fallback_from;
    struct as_msg msg;                     /* id, inputs, parameters, metadata */
    struct as_tensor_params tensor_params; /* of its inputs */
    struct as_blob *blob; /* holds the bytes of large inputs, or NULL: they are copied */
    /* For the decoded answer; the fleet's until on_answer. Parts are given out before that, so a
     * call that takes them has one that nobody else uses. */
    struct as_arena *arena;
    struct as_account *payer; /* of large answers; NULL: nobody pays. It lives until on_release */
    void (*on_answer)(struct as_call *c);
    void (*on_release)(struct as_call *c);
    /* Of a decoupled model: its answer comes in parts, as many as as_fleet_client_credit allows,
     * and on_answer tells the end (no result) or the error. NULL: one answer. On the submitter's
     * loop, before on_answer; not after a cancel. */
    void (*on_part)(struct as_call *c, struct as_part *p);
    bool streams_inputs; /* `msg` is the first of several: as_fleet_client_input; needs on_part */

    /* the verdict, for on_answer */
    int err;               /* 0: `result` holds the outputs; else AS_E… */
    uint32_t status;       /* gRPC status when the worker gave one, else 0: that of err */
    as_ns retry_after;     /* err AS_EFULL: when trying again is worth it; else 0 */
    uint64_t dropped;      /* err AS_EUNTAKEN: bytes of the answer that there was no room for */
    struct as_str message; /* for people; may be empty; valid during on_answer */
    struct as_msg result;  /* valid during on_answer; bytes of large outputs until blob goes. At any
                            * address: a simple worker's lie where they did in its message */
    struct as_tensor_params result_tensor_params; /* of its outputs; valid as long */
    struct as_blob *result_blob; /* one reference, the submitter's from on_answer on; NULL: small */

    /* the fleet's own */
    struct as_fleet_client *client;
    struct as_letter submit_letter, answer_letter, release_letter, cancel_letter;
    bool cancel_posted; /* home loop: the client has gone */
    bool released;      /* home loop: release came while letters of ours were under way … */
    uint8_t posted;     /* … so many */
    bool answered;
    as_ns begun;  /* executes since; before core.sent: no look has found it so (link_care.c) */
    bool started; /* at that look */
    struct as_simple_conn *conn; /* its connection, where the worker speaks the simple protocol */
    size_t rx_have;              /* bytes of the answer's body received */
    struct as_frame_msg rx_msg;
    /* streams of messages: what the worker may still send us, what was taken but not granted again,
     * what we may send to it */
    struct as_frame_window parts, owed, inputs;
    struct as_part *part;  /* a large one whose body is coming */
    struct as_call *input; /* waits for room */
    bool inputs_over;      /* the client's side has ended */
    bool inputs_more;      /* home loop: as_fleet_client_input was called */
    struct as_letter credit_letter, end_letter;
    struct as_frame_window credit;        /* home loop: to be given back with the next letter … */
    struct as_frame_window posted_credit; /* … and with the one under way */
    bool credit_posted;
    struct as_call *target; /* of an input: the call that it goes to */
};

void as_part_free(struct as_part *p); /* NULL is fine */

/* A hash of what requests of one model must have in common to share a call of its handler: names,
 * datatypes and sizes (but for the first dimension; ragged: but for all) of the inputs, and the
 * parameters of the request. The seed is not for others to know. */
uint64_t as_call_batch_key(const struct as_msg *msg, bool ragged, uint64_t seed);
/* The size of the message's tensors, bytes. */
uint64_t as_call_size(const struct as_msg *msg);
/* A hash of what a handler sees, but of each tensor's bytes only of some in places that others do
 * not know: messages that differ nearly always have another one, and those that do not have the
 * same. */
uint64_t as_call_sample(const struct as_msg *msg, uint64_t seed);

/* A fingerprint that is being taken. */
struct as_call_hasher {
    uint32_t tensor; /* the one that is read … */
    size_t at;       /* … so far */
    uint8_t state[640];
};
/* A hash of all that a handler sees, but for the id and the metadata: names, datatypes, shapes,
 * bytes, parameters. Reads at most *bytes of the tensors, and takes them off. True: *ret_p has it.
 * first: it begins; else it goes on, with the same message. */
bool as_call_fingerprint(struct as_call_hasher *h, const struct as_msg *msg, uint64_t seed,
                         bool first, uint64_t *bytes, struct as_fingerprint *ret_p);
/* Do they have all that in common? */
bool as_call_can_batch(const struct as_msg *a, const struct as_msg *b, bool ragged);
/* Of parameters of single inputs, of which there is one at least, what the above say of a message:
 * a hash, and whether they are the same. */
struct as_fingerprint as_call_params_hash(const struct as_tensor_params *p, uint64_t seed);
bool as_call_params_equal(const struct as_tensor_params *a, const struct as_tensor_params *b);

#endif
