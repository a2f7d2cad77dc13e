/* wire/frame/frame_router.h — ROUTER: how the dispatcher is to choose replicas for a deployment
 * (docs/protocol/link.md, section 11). Pure.
 *
 * What is not set is as the server has it. Thread: any.
 */
#ifndef AS_WIRE_FRAME_ROUTER_H
#define AS_WIRE_FRAME_ROUTER_H

#include "wire/frame/frame.h"

#define AS_FRAME_ROUTER_POLICY 32u /* bytes of the policy's name */
#define AS_FRAME_ROUTER_HEADER 64u /* bytes of the name of a header */
#define AS_FRAME_ROUTER_ROWS   64u /* maximum entries of a frame */

enum as_frame_router_key {
    AS_FRAME_ROUTER_MAX_WAIT = 1,  /* ns; at most an hour */
    AS_FRAME_ROUTER_VIRTUAL_NODES, /* 1 … 1,000 */
    AS_FRAME_ROUTER_FALLBACKS,     /* 0 … 7 */
    AS_FRAME_ROUTER_BOUND,         /* percent; 100 … 10,000 */
    AS_FRAME_ROUTER_SESSION_TTL,   /* ns; 1 ms … a year */
    AS_FRAME_ROUTER_MAX_SESSIONS,  /* 1 … 1,000,000 */
    AS_FRAME_ROUTER_PREFER_LOCAL,  /* 0, 1 */
    AS_FRAME_ROUTER_ASK_FIRST,     /* ns; 1 ms … an hour */
    AS_FRAME_ROUTER_ASK_FACTOR,    /* percent; 100 … 10,000 */
    AS_FRAME_ROUTER_ASK_MAX,       /* ns; 1 ms … an hour */
    AS_FRAME_ROUTER_END
};
/* The bounds of a value; both are inclusive. */
struct as_frame_router_range {
    uint64_t min, max;
};
extern const struct as_frame_router_range as_frame_router_ranges[AS_FRAME_ROUTER_END];

struct as_frame_router {
    char policy[AS_FRAME_ROUTER_POLICY + 1];         /* its name; "": the server's policy */
    char session_header[AS_FRAME_ROUTER_HEADER + 1]; /* "": x-session-id */
    uint32_t has;                        /* bit 1 << key is set for each value that is given */
    uint64_t value[AS_FRAME_ROUTER_END]; /* by key; [0] is not used */
};

/* Copies the name of a header, in lower case and with '-' for '_'. False: it is empty, has more
 * than AS_FRAME_ROUTER_HEADER bytes, or other characters than letters, digits, '-' and '_'. */
bool as_frame_router_header(char ret_name[AS_FRAME_ROUTER_HEADER + 1], struct as_str name);
/* Sets a value. False, with nothing changed: it is out of range. */
bool as_frame_router_set(struct as_frame_router *r, enum as_frame_router_key key, uint64_t value);
bool as_frame_router_eq(const struct as_frame_router *a, const struct as_frame_router *b);
/* Nothing is set. */
bool as_frame_router_is_empty(const struct as_frame_router *r);
/* policy has lower-case letters, digits and '_' only, which is asserted, as the ranges are. */
void as_frame_put_router(struct as_outq *q, const struct as_frame_router *r);
/* Entries with an unknown key are skipped. AS_EPROTO: the frame is malformed, or a value is out of
 * range. */
int as_frame_get_router(const struct as_frame *f, struct as_frame_router *ret_r);

#endif
