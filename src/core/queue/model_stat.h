/* core/queue/model_stat.h — what became of the requests to one model.
 *
 * Beside the counters of its deployment (core/queue/stat.h), in the terms that clients of the protocol
 * ask for: successes and failures, where the time of the successful ones went, and what calls of
 * the handler cost by the number of their items. Plain numbers written by the owning loop; another
 * loop asks by message. Requests that a client took back are in none of them.
 */
#ifndef AS_CORE_MODEL_STAT_H
#define AS_CORE_MODEL_STAT_H

#include "core/queue/request.h"
#include "core/queue/stat.h"

/* Calls of the handler that had the same number of items. */
struct as_model_calls {
    uint64_t n;
    as_ns input_ns, infer_ns, output_ns; /* of each call's first answer; as below */
};

struct as_model_stat {
    uint64_t success, fail;       /* requests; refused and expired ones are failures */
    uint64_t inferences;          /* items of the successful ones */
    uint64_t executions;          /* calls of the handler that these took */
    as_ns success_ns, fail_ns;    /* from the arrival to the verdict; refused ones took none */
    as_ns queue_ns;               /* of successful ones: from the arrival to the (last) dispatch */
    as_ns input_ns;               /* to the worker, and waiting there */
    as_ns service_ns;             /* in the handler */
    as_ns output_ns;              /* the way back, as far as it was measured; else in input_ns */
    as_ns last;                   /* when the last success was; 0: none */
    struct as_hist queue;         /* queue_ns, one by one */
    struct as_model_calls *calls; /* [i]: of i + 1 items; grows with the largest that was seen */
    uint32_t n_calls;
};

/* What the worker measured of one request, 0: it did not. Its clock and its word are not ours: the
 * parts are cut down to the time that there was. */
struct as_model_times {
    as_ns service; /* ns the handler ran; unknown: all of the time since the dispatch */
    as_ns back;    /* ns since it ended */
};

/* Counters start as zeros. Frees what they grew. */
void as_model_stat_fini(struct as_model_stat *s);

/* The worker's answer to q has come. size: items of the call of the handler that it is the first
 * answer of, at most AS_BATCH_MAX; 0: the call was counted with another request of the batch. */
void as_model_stat_success(struct as_model_stat *s, const struct as_request *q,
                           struct as_model_times t, uint32_t size, as_ns now);

/* An accepted request ended with an error, the worker's or core's. */
static inline void as_model_stat_fail(struct as_model_stat *s, const struct as_request *q,
                                      as_ns now)
{
    s->fail++;
    s->fail_ns += now - q->arrived;
}

/* One was refused on arrival. */
static inline void as_model_stat_refuse(struct as_model_stat *s)
{
    s->fail++;
}

#endif
