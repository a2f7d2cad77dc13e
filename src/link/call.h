/* link/call.h — one request on its way from a client protocol to a worker and back.
 *
 * The edge embeds it, fills the first part and submits it on its own loop; the fleet answers it at
 * most once and releases it exactly once, both on the loop that submitted it, answer first. Between
 * submit and release everything here belongs to the fleet; the memory that msg and blob refer to
 * must stay.
 */
#ifndef AS_LINK_CALL_H
#define AS_LINK_CALL_H

#include "core/request.h"
#include "io/mbox.h"
#include "wire/frame.h"

struct as_client;
struct as_link;

struct as_call {
    struct as_request core; /* model, priority, idempotent, deadline are set by the submitter */
    uint32_t deployment;    /* number from the registry */
    struct as_msg msg;      /* id, inputs, parameters, metadata */
    struct as_blob *blob;   /* holds the bytes of large inputs, or NULL: they are copied */
    struct as_arena *arena; /* for the decoded answer; used by one loop at a time */
    void (*on_answer)(struct as_call *c);
    void (*on_release)(struct as_call *c);

    /* the verdict, for on_answer */
    int err;               /* 0: `result` holds the outputs; else AS_E… */
    uint32_t status;       /* gRPC status when the worker gave one, else 0: that of err */
    struct as_str message; /* for people; may be empty; valid during on_answer */
    struct as_msg result;  /* valid during on_answer; bytes of large outputs until blob goes */
    struct as_blob *result_blob; /* one reference, the submitter's from on_answer on; NULL: small */

    /* the fleet's own */
    struct as_client *client;
    struct as_letter submit_letter, answer_letter, release_letter, cancel_letter;
    bool cancel_posted; /* home loop: the cancel letter is under way */
    bool released;      /* home loop: release came while it was */
    bool answered;
    size_t rx_have; /* bytes of the answer's body received */
    struct as_frame_msg rx_msg;
};

#endif
