/* core/queue/model_stat.h — counters and times of the requests to one model.
 *
 * These are kept beside the counters of the deployment (core/queue/stat.h), in the terms of the
 * protocol's statistics extension: successes and failures, the phases of successful requests, and
 * the times of handler calls by batch size. The numbers are written by the loop that owns the
 * deployment; other loops ask for them by message. Cancelled requests are not counted.
 */
#ifndef AS_CORE_MODEL_STAT_H
#define AS_CORE_MODEL_STAT_H

#include "core/queue/request.h"
#include "core/queue/stat.h"

/* Calls of the handler that had the same number of items. */
struct as_model_calls {
    uint64_t n;
    /* of the first answer of each call; the phases of as_model_stat */
    as_ns input_ns, infer_ns, output_ns;
};

struct as_model_stat {
    uint64_t success, fail;    /* requests; refused and expired ones count as failures */
    uint64_t inferences;       /* items of the successful requests */
    uint64_t executions;       /* calls of the handler that executed them */
    as_ns success_ns, fail_ns; /* from arrival to the answer; refused requests add nothing */
    as_ns queue_ns;            /* of successful requests: from arrival to the last dispatch */
    as_ns input_ns;            /* on the way to the worker, and waiting there */
    as_ns service_ns;          /* in the handler */
    as_ns output_ns;      /* on the way back; where that was not measured it is part of input_ns */
    as_ns last;           /* time of the last success; 0: none */
    struct as_hist queue; /* histogram of queue_ns */
    /* calls[i]: calls with i + 1 items; grows to the largest size seen */
    struct as_model_calls *calls;
    uint32_t n_calls;
};

/* What the worker measured for one request; 0: nothing. The worker is not trusted: the values are
 * cut to the time that passed here. */
struct as_model_times {
    as_ns service; /* ns that the handler ran; 0: all of the time since the dispatch is taken */
    as_ns back;    /* ns from the handler's end until now */
};

/* Frees `calls`. A struct of zeros is the initial state. */
void as_model_stat_fini(struct as_model_stat *s);

/* Counts the worker's answer to q. size: items of the whole call if this is its first answer, at
 * most AS_BATCH_MAX; 0: the call was counted with another request of its batch. */
void as_model_stat_success(struct as_model_stat *s, const struct as_request *q,
                           struct as_model_times t, uint32_t size, as_ns now);

/* Counts an accepted request that ended with an error of the worker or of the deployment. */
static inline void as_model_stat_fail(struct as_model_stat *s, const struct as_request *q,
                                      as_ns now)
{
    s->fail++;
    s->fail_ns += now - q->arrived;
}

/* Counts a request that was refused on arrival. */
static inline void as_model_stat_refuse(struct as_model_stat *s)
{
    s->fail++;
}

#endif
