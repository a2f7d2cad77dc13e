/* bench/clients/churn_call.h — one call of the churn client: what it asks, how it may end, whether
 * it did.
 *
 * A call is drawn at random: its kind, its size, and for some when the client gives it up. The
 * message is a head in the call and tensor bytes out of one pattern that all share, so that a
 * megabyte costs nothing to make and can be checked byte by byte when it comes back.
 */
#ifndef AS_BENCH_CHURN_CALL_H
#define AS_BENCH_CHURN_CALL_H

#include "base/rand.h"

#define CHURN_PATTERN  ((size_t)2 << 20)
#define CHURN_BODY_MAX ((size_t)1 << 20)
#define CHURN_HEAD_MAX 128

enum churn_kind {
    CHURN_ECHO,      /* OK, from a sync worker */
    CHURN_ECHO_LOOP, /* OK, from an async one */
    CHURN_RAISES,    /* INTERNAL */
    CHURN_ERROR,     /* a status of the handler's choice: FAILED_PRECONDITION */
    CHURN_BAD,       /* INTERNAL: an answer that the signature forbids */
    CHURN_NO_MODEL,  /* NOT_FOUND */
    CHURN_NO_METHOD, /* UNIMPLEMENTED */
    CHURN_MALFORMED, /* INVALID_ARGUMENT */
    CHURN_NO_INPUT,  /* INVALID_ARGUMENT, by the declared signature */
    CHURN_TOO_LARGE, /* RESOURCE_EXHAUSTED: the length that is announced */
    CHURN_LATE,      /* DEADLINE_EXCEEDED: a handler that sleeps longer */
    CHURN_CANCEL,    /* reset by the client at some moment: any end */
    CHURN_FLAKY,     /* only by --only: OK, or an error of a worker that is late or hostile */
    CHURN_KINDS
};
extern const char *const churn_kind_names[];

struct churn_call {
    struct churn_call *next_cancel;
    enum churn_kind kind;
    int32_t stream;
    const char *path;
    const char *timeout; /* grpc-timeout, NULL: none */
    uint8_t head[CHURN_HEAD_MAX];
    size_t head_n;         /* gRPC prefix and the message up to the tensor's bytes */
    const uint8_t *tensor; /* in the pattern */
    size_t tensor_n;
    size_t sent;
    size_t stall_at;    /* sends no more than this; SIZE_MAX: all */
    as_ns cancel_after; /* from the start; 0: never */
    as_ns cancel_at;
    /* the answer */
    uint8_t prefix[5];
    uint64_t got; /* bytes of DATA */
    uint64_t announced;
    int status; /* grpc-status, -1: none yet */
    char message[100];
    bool is_echo; /* an OK brings the tensor's bytes back */
    bool is_wrong, is_cancelled;
};

/* Must be called once, before the first call is drawn. */
void churn_pattern_init(uint64_t seed);
/* Draws a call; `only` ≥ 0 fixes its kind. */
void churn_call_draw(struct churn_call *c, struct as_rand *r, int only);
/* Bytes of the request from c->sent on into `to`; 0: nothing now (stalled or all sent). */
size_t churn_call_send(struct churn_call *c, uint8_t *to, size_t n, bool *ret_is_end);
void churn_call_take(struct churn_call *c, const uint8_t *p, size_t n);
/* The stream is closed: NULL: as it should be. */
const char *churn_call_judge(const struct churn_call *c);

#endif
