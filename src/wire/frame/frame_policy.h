/* wire/frame/frame_policy.h — POLICY: what the dispatcher and a policy process say to each other.
 *
 * A policy process runs a router of the user's own (docs/architecture/routing.md). The payload of a
 * frame is a row of records; docs/protocol/link.md, section 19, is the specification. Pure; the
 * decoders return slices into the payload, and allocate nothing.
 */
#ifndef AS_WIRE_FRAME_POLICY_H
#define AS_WIRE_FRAME_POLICY_H

#include "wire/frame/frame.h"

enum as_policy_kind {
    /* to the process */
    AS_POLICY_REPLICA = 1, /* a replica that requests may be sent to, or news of it */
    AS_POLICY_GONE,        /* that replica gets no more requests */
    AS_POLICY_ONGOING,     /* how many requests replicas have */
    AS_POLICY_ROUTE,       /* a question: where should this request go? */
    AS_POLICY_BODY,        /* more of the body of such a request */
    AS_POLICY_ROUTED,      /* a request was sent to a replica … */
    AS_POLICY_COMPLETED,   /* … and has ended */
    AS_POLICY_WITHDRAWN,   /* a question that needs no answer any more */
    AS_POLICY_TO_END,
    /* from the process */
    AS_POLICY_READY = 32, /* it takes questions */
    AS_POLICY_CHOICE,     /* the answer to a question */
    AS_POLICY_MORE,       /* it needs the whole body of a request */
    AS_POLICY_READ,       /* how many bytes of records it has read since the link began */
    AS_POLICY_FROM_END
};

#define AS_POLICY_RECORD     8u           /* bytes of the head of a record */
#define AS_POLICY_BODY_FIRST (64u << 10)  /* bytes of a body that ROUTE has at most */
#define AS_POLICY_BODY_PART  (512u << 10) /* bytes that BODY has at most */
#define AS_POLICY_TEXT       1024u        /* bytes of each text of ROUTE */
#define AS_POLICY_NAME       256u         /* bytes of each name of a replica */
#define AS_POLICY_FACTS      (256u << 10) /* bytes of each JSON text of a replica */
#define AS_POLICY_CHOICES    8u           /* replicas of an answer */
#define AS_POLICY_COUNTS     1024u        /* entries of ONGOING */

struct as_policy_replica {
    uint32_t number; /* the dispatcher's, not used again while the link lives */
    uint32_t max_ongoing, ongoing;
    struct as_str name, node, zone; /* zone: may be empty */
    bool has_models, has_stats;     /* false: as they were said before, at first none */
    struct as_str models;           /* JSON array of texts: the multiplexed models it holds */
    struct as_str stats;            /* JSON object: its last record_routing_stats */
};

struct as_policy_count {
    uint32_t number, ongoing;
};

struct as_policy_route {
    uint64_t id;      /* of the question, not used again while the link lives */
    uint64_t before;  /* the id of the question before about this request, or 0 */
    uint64_t created; /* CLOCK_MONOTONIC ns when the request came */
    uint8_t kind;     /* enum as_frame_kind of its body */
    struct as_str method, model_id, session_id, request_id;
    uint64_t body_len;  /* of the whole body */
    struct as_str body; /* its first bytes, at most AS_POLICY_BODY_FIRST */
};

#define AS_POLICY_BODY_F_GONE 0x1u /* the request does not wait any more: no bytes come */
struct as_policy_body {
    uint64_t id, offset; /* offset: in the body */
    uint32_t flags;
    struct as_str bytes;
};

/* ROUTED, COMPLETED: number is the replica's. WITHDRAWN, MORE: number is 0. GONE: id is 1 if its
 * process has died, else 0. READ: id is the number of bytes. */
struct as_policy_event {
    uint64_t id;
    uint32_t number;
};

#define AS_POLICY_WANTS_ROUTED    0x1u /* the router has on_request_routed … */
#define AS_POLICY_WANTS_COMPLETED 0x2u /* … and on_request_completed */
struct as_policy_ready {
    uint32_t wants;
};

/* Why an answer has no replica. */
enum as_policy_reason {
    AS_POLICY_CHOSEN,  /* it has */
    AS_POLICY_RAISED,  /* choose_replicas has raised an exception */
    AS_POLICY_UNKNOWN, /* it has returned something that is no replica of the deployment */
    AS_POLICY_NONE,    /* it has returned no replica */
    AS_POLICY_BUSY,    /* too many questions were open */
    AS_POLICY_REASONS
};

struct as_policy_choice {
    uint64_t id;
    enum as_policy_reason reason;
    uint32_t n; /* with CHOSEN: 1 … AS_POLICY_CHOICES; else 0 */
    struct {
        uint32_t number;
        uint32_t rank; /* rises; replicas of one rank are equally good */
    } at[AS_POLICY_CHOICES];
};

/* --- writing: appends a record to a payload; the caller bounds it at AS_FRAME_MAX --- */

struct as_buf;
/* The texts have at most the bytes of the limits above, which is asserted. */
void as_policy_put_replica(struct as_buf *b, const struct as_policy_replica *r);
void as_policy_put_ongoing(struct as_buf *b, const struct as_policy_count *at, uint32_t n);
void as_policy_put_route(struct as_buf *b, const struct as_policy_route *r);
void as_policy_put_body(struct as_buf *b, const struct as_policy_body *body);
/* GONE, ROUTED, COMPLETED, WITHDRAWN, MORE, READ. */
void as_policy_put_event(struct as_buf *b, enum as_policy_kind kind,
                         const struct as_policy_event *e);
void as_policy_put_ready(struct as_buf *b, const struct as_policy_ready *r);
void as_policy_put_choice(struct as_buf *b, const struct as_policy_choice *c);
/* Writes the frame (flag OPTIONAL). The records have at most AS_FRAME_MAX bytes. */
void as_frame_put_policy(struct as_outq *q, struct as_str records);

/* --- reading --- */

struct as_policy_record {
    uint32_t kind;
    struct as_str body;
};
/* Takes the next record off the payload. > 0: there was one; 0: the end; AS_EPROTO. A kind that the
 * reader does not know is to be skipped. */
int as_policy_next(struct as_str *rest, struct as_policy_record *ret_r);
/* 0, or AS_EPROTO. */
int as_policy_get_replica(struct as_str body, struct as_policy_replica *ret_r);
/* The i-th entry is as_policy_count_at(body, i). */
int as_policy_get_ongoing(struct as_str body, uint32_t *ret_n);
struct as_policy_count as_policy_count_at(struct as_str body, uint32_t i);
int as_policy_get_route(struct as_str body, struct as_policy_route *ret_r);
int as_policy_get_body(struct as_str body, struct as_policy_body *ret_b);
int as_policy_get_event(struct as_str body, struct as_policy_event *ret_e);
int as_policy_get_ready(struct as_str body, struct as_policy_ready *ret_r);
int as_policy_get_choice(struct as_str body, struct as_policy_choice *ret_c);

#endif
