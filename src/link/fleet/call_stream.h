/* link/fleet/call_stream.h — what a call to a decoupled model has beside an ordinary one: its
 * answer comes in parts, and it may have several inputs. fleet_client_stream.c carries both between
 * the client loop and the fleet.
 */
#ifndef AS_LINK_CALL_STREAM_H
#define AS_LINK_CALL_STREAM_H

#include "io/loop/mbox.h"
#include "link/call/payload.h"

struct as_call;

/* What a part of an answer over HTTP is. */
struct as_http_part {
    enum as_http_message type;      /* 0: bytes of the body, in payload.body */
    struct as_frame_http_head head; /* of AS_HTTP_HEAD; its first bytes are in it */
    /* Of AS_HTTP_WS_MESSAGE; a body that is not in it comes in the next parts. A close without
     * `end` is the server's, not the worker's: both sides are asked to end. */
    struct as_frame_ws_message ws;
};

/* One message of a streamed answer. The payload and its bytes are valid during on_part; a receiver
 * that needs large bytes for longer takes a reference to its blob. */
struct as_part {
    struct as_payload payload;
    struct as_http_part http; /* if payload.kind is AS_FRAME_HTTP */
    uint64_t cost;    /* bytes to return with as_fleet_client_credit, together with one message */
    uint64_t dropped; /* not 0: there was no memory for its body of so many bytes, the payload is
                       * empty, and it is the last part */
    /* used by the fleet only */
    struct as_call *call;
    struct as_letter letter;
    struct as_arena arena;
};

/* One more input of a call (as_fleet_client_input). The fleet owns it until on_release. */
struct as_input {
    struct as_payload payload;
    void (*on_release)(struct as_input *in); /* home loop; whether it was sent or came too late */
    void *owner;                             /* the submitter's */
    /* used by the fleet only */
    struct as_call *call;
    size_t sent; /* bytes of a body of HTTP that were sent */
    struct as_letter letter;
};

struct as_call_stream {
    /* --- set by the submitter --- */

    /* The answer comes in parts, as many as as_fleet_client_credit allows, and on_answer reports
     * the end (without a result) or the error. Called on the home loop, before on_answer, and not
     * after a cancel. */
    void (*on_part)(struct as_call *c, struct as_part *p);
    bool takes_inputs; /* the call's payload is the first of several inputs */
    /* The worker may send what as_fleet_client_credit has granted, no more: the receiver keeps its
     * own account. False: as much as the fleet's conf allows, and again what was consumed. */
    bool passes_credit;
    struct as_frame_window passed; /* with it: what was granted so far; before submit: 0, or that */

    /* --- used by the fleet only --- */

    struct as_call *call;
    bool inputs_over;   /* the client sends no further input */
    bool inputs_more;   /* home loop: as_fleet_client_input was called */
    bool credit_posted; /* home loop: credit_letter is under way */
    /* What the worker may still send; what the client has consumed and the worker was not granted
     * again; what we may still send to the worker. */
    struct as_frame_window part_credit, owed_credit, input_credit;
    struct as_part *part;   /* a large part whose body is being received */
    bool has_head;          /* HTTP: the head of the answer has come … */
    bool accepted;          /* … which accepts a websocket */
    uint64_t ws_left;       /* … and bytes of a websocket's message are still to come */
    struct as_input *input; /* an input that waits for input_credit */
    struct as_letter credit_letter, end_letter;
    struct as_frame_window credit;        /* home loop: goes out with the next credit_letter … */
    struct as_frame_window posted_credit; /* … and what the one under way carries */
};

void as_part_free(struct as_part *p); /* p may be NULL */

#endif
