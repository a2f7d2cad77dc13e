/* bench/load_call.h — one call of the load generator: what was sent, what came back, the verdict.
 */
#ifndef AS_BENCH_LOAD_CALL_H
#define AS_BENCH_LOAD_CALL_H

#include "load_h2.h"
#include "load_headers.h"

#define AS_LOAD_PREFIX 5u /* gRPC's, before the message */
#define AS_LOAD_STAMP  8u /* first two numbers of the last tensor, different in every call */

struct as_load_call {
    uint32_t id;                   /* stream; 0: free */
    uint8_t stamp[AS_LOAD_STAMP];  /* as sent */
    uint8_t answer[AS_LOAD_STAMP]; /* as it must come back */
    as_ns start;    /* the latency's begin: when it was sent, or was due (open loop) */
    size_t sent;    /* bytes of the body */
    int64_t window; /* what the peer still lets this stream send */
    bool is_queued; /* in the connection's send queue */
    /* the answer so far */
    int http_status, grpc_status;
    bool is_grpc;
    bool differs; /* a tensor byte is not what was sent */
    uint8_t prefix[AS_LOAD_PREFIX];
    uint64_t got;  /* body bytes, prefix included */
    uint64_t want; /* bytes of the message, once the prefix is here */
};

/* Gives the call a stamp that no other of 2^40 calls has. */
void as_load_call_stamp(struct as_load_call *call, const struct as_load_shape *s, uint64_t number);

/* Body bytes [at, at + n) as they travel: the shape's, with the call's stamp laid over. */
void as_load_call_copy_body(const struct as_load_call *call, const struct as_load_shape *s,
                            size_t at, size_t n, uint8_t *out);

void as_load_call_take_head(struct as_load_call *call, const struct as_load_head *head);
void as_load_call_take_body(struct as_load_call *call, const struct as_load_shape *s,
                            const uint8_t *p, size_t n);

/* After the end of the stream: NULL if the answer is right in every respect, else what is wrong. */
const char *as_load_call_judge(const struct as_load_call *call, const struct as_load_shape *s);

#endif
