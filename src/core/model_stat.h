/* core/model_stat.h — what became of the requests to one model.
 *
 * Beside the counters of its deployment (core/stat.h), in the terms that clients of the protocol
 * ask for: successes and failures, and where the time of the successful ones went. Plain numbers
 * written by the owning loop; another loop asks by message. Requests that a client took back are in
 * none of them.
 */
#ifndef AS_CORE_MODEL_STAT_H
#define AS_CORE_MODEL_STAT_H

#include "core/request.h"

struct as_model_stat {
    uint64_t success, fail;    /* requests; refused and expired ones are failures */
    uint64_t inferences;       /* items of the successful ones */
    uint64_t executions;       /* calls of the handler that these took */
    as_ns success_ns, fail_ns; /* from the arrival to the verdict; refused ones took none */
    as_ns queue_ns;            /* of successful ones: from the arrival to the (last) dispatch */
    as_ns link_ns;             /* to the worker, waiting there, and back */
    as_ns service_ns;          /* in the handler */
    as_ns last;                /* when the last success was; 0: none */
};

/* The worker's answer to q has come. service: ns the handler ran, 0 unknown (then all of the time
 * since the dispatch counts as that). items: that it held; executions: 1, or 0 when the call of the
 * handler was counted with another request of the same batch. */
static inline void as_model_stat_success(struct as_model_stat *s, const struct as_request *q,
                                         as_ns service, uint32_t items, uint32_t executions,
                                         as_ns now)
{
    as_ns away = now - q->sent;

    if (!service || service > away) /* the worker's clock is not ours */
        service = away;
    s->success++;
    s->inferences += items;
    s->executions += executions;
    s->success_ns += now - q->arrived;
    s->queue_ns += q->sent - q->arrived;
    s->link_ns += away - service;
    s->service_ns += service;
    s->last = now;
}

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
