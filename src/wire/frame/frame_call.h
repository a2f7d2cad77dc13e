/* wire/frame/frame_call.h — the frames of calls: OPEN and DATA of kind 3, TARGET,
 * RESERVED and REPORT.
 *
 * docs/protocol/link.md, section 16, is the specification. A call is a request between handlers or
 * from a driver. Its message has the shape of a message of tensors, but the body is a payload body
 * (wire/frame/body.h), whose bytes these functions do not look at. Pure; decoders return slices
 * into the frame and allocate from an arena only.
 */
#ifndef AS_WIRE_FRAME_CALL_H
#define AS_WIRE_FRAME_CALL_H

#include "wire/frame/frame.h"

#define AS_CALL_F_STREAM 0x1u /* the caller takes any number of messages */
#define AS_CALL_F_BEYOND 0x2u /* to a worker: start it although all slots execute */
#define AS_CALL_F_INPUTS 0x8u /* to a worker, with STREAM: DATA|MSG follow, then END */
#define AS_CALL_F_EVERY  0x4u /* from a caller, with STREAM: each replica, one message of each */
/* From a caller: a slot is to be reserved, and RESERVED answers; or, in a second OPEN of its
 * stream, the call is to be executed in the slot that it has. */
#define AS_CALL_F_RESERVE 0x10u
#define AS_CALL_F_USE     0x20u

/* OPEN, or DATA|MSG with an answer (or a part of one). */
struct as_frame_call {
    uint8_t priority; /* OPEN */
    uint32_t target;  /* OPEN: the caller's number (TARGET); to a worker that of REGISTERED */
    uint64_t timeout; /* OPEN: ns that are left, 0: no deadline */
    uint64_t parent;  /* OPEN from a caller: the stream, on this link, of the request in whose
                         context  the call is made; 0: none, and always to a worker */
    uint32_t flags;   /* OPEN: AS_CALL_F_… */
    struct as_str id; /* OPEN: the request id; may be empty */
    const struct as_meta *meta; /* OPEN; DATA for a caller that called every replica */
    uint32_t n_meta;
    uint64_t service; /* DATA: ns that the handler ran, 0: not measured */
    uint32_t ended;   /* DATA: as_frame_moment of the handler's end, 0: not measured */
    bool more;        /* encoder: the sender will send more on this stream, so END is not set */
    uint64_t body_len;
    const uint8_t *body; /* decoder: the inline body; NULL: it follows in DATA frames */
    uint64_t cost; /* decoder: the bytes of credit that the message uses, its table and its body */
};

/* The kind of an OPEN or a DATA|MSG: AS_FRAME_TENSOR also for a DATA without one. 0: the frame is
 * too short for a message. */
static inline unsigned as_frame_kind_of(const struct as_frame *f)
{
    return !f->n ? 0 : f->p[0] || f->type == AS_FRAME_OPEN ? f->p[0] : AS_FRAME_TENSOR;
}

/* Is this OPEN of kind 3 to be executed in a slot that its stream has (AS_CALL_F_USE)? False: also
 * if it is too short for a message. */
bool as_frame_call_uses_slot(const struct as_frame *f);

/* Decodes an OPEN or DATA|MSG of kind 3. Checks the fixed part and the whole table, and that an
 * inline body fills the frame. body_len is at least AS_BODY_FIXED; whether it is acceptable is for
 * the caller to check. 0; AS_EPROTO with a reason in *ret_why (static text); AS_ENOMEM. */
int as_frame_get_call(const struct as_frame *f, struct as_arena *a, struct as_frame_call *ret_c,
                      const char **ret_why);

/* Writes an OPEN (type OPEN) or an answer (type DATA; MSG is added). The body: `body` is laid out,
 * or if it is NULL, the body_len bytes at c->body are a whole body already. Slices of more than
 * AS_COPY_MAX bytes are referenced if `owner` is given (they all lie in owner->data), and copied
 * otherwise. Sets END on the last frame unless `more` is set. 0, or AS_ETOOBIG with nothing
 * written: the table or the body is above a limit. */
int as_frame_put_call(struct as_outq *q, enum as_frame_type type, uint64_t stream,
                      const struct as_frame_call *c, const struct as_body *body,
                      struct as_blob *owner);
/* The bytes of credit that the OPEN uses (its table and its body); UINT64_MAX: over a limit. */
uint64_t as_frame_call_cost(const struct as_frame_call *c, const struct as_body *body);

/* TARGET, from a caller: what its number stands for from now on. */
#define AS_FRAME_TARGET_MAX 65535u
struct as_frame_target {
    uint32_t number; /* the caller's own, 0 … AS_FRAME_TARGET_MAX */
    struct as_str application, deployment;
};
/* 0, or AS_EINVALID with nothing written: what as_frame_get_target would refuse. */
int as_frame_put_target(struct as_outq *q, const struct as_frame_target *t);
/* 0, or AS_EPROTO: the number is too large, a name is empty, not a line of UTF-8 or has a '#', or
 * both with a '#' between them have more than AS_FRAME_NAME bytes. */
int as_frame_get_target(const struct as_frame *f, struct as_frame_target *ret_t);

/* RESERVED, to a caller: the call on this stream has a slot of the replica. The name has 1 …
 * AS_FRAME_NAME bytes (put: it is cut) of a line of UTF-8; get: 0, or AS_EPROTO. */
void as_frame_put_reserved(struct as_outq *q, uint64_t stream, struct as_str replica);
int as_frame_get_reserved(const struct as_frame *f, struct as_str *ret_replica);

/* REPORT, from a worker (flag OPTIONAL): replaces what it reported of this kind before. */
enum as_frame_report_kind {
    AS_REPORT_METRICS = 1,     /* the user's metrics, as lines */
    AS_REPORT_MODEL_IDS = 2,   /* the multiplexed models that it holds: a JSON array */
    AS_REPORT_ROUTING = 3,     /* statistics for routers: a JSON object */
    AS_REPORT_AUTOSCALING = 4, /* statistics for scalers: a JSON object */
    AS_REPORT_END
};
#define AS_FRAME_REPORT_MAX (256u << 10) /* bytes of a report */
struct as_frame_report {
    uint32_t kind; /* a receiver ignores a kind that it does not know */
    struct as_str text;
};
/* The text has at most AS_FRAME_REPORT_MAX bytes, which is asserted. */
void as_frame_put_report(struct as_outq *q, const struct as_frame_report *r);
int as_frame_get_report(const struct as_frame *f, struct as_frame_report *ret_r);

#endif
