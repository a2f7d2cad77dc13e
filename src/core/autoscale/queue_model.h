/* core/autoscale/queue_model.h — how many replicas keep the 95th percentile of the latency below a
 * target.
 *
 * The model: requests arrive as a Poisson process at `rate`, and wait in one queue for m = replicas
 * × slots servers (M/G/m). With the offered load a = rate × mean service time, the probability to
 * wait is Erlang's C(m, a). The time in the queue, given that one waits, is taken as exponential
 * with the mean  service × (1 + cv²) / 2 / (m − a):  the M/M/m queue with the correction of Allen
 * and Cunneen for the spread of the service time. So
 *
 *     p95 of the wait = mean wait of those that wait × ln(C / 0.05),  0 if C is at most 0.05
 *
 * and the latency is at most about  p95 of the service time + p95 of the wait.  What is queued now
 * counts as further load: it is to be worked off within AS_QUEUE_MODEL_DRAIN_S. What the model does
 * not know: batches (a batch is one request to it), arrivals in bursts, service times that depend
 * on the number of replicas. Pure.
 */
#ifndef AS_CORE_QUEUE_MODEL_H
#define AS_CORE_QUEUE_MODEL_H

#include "base/defs.h"

/* Constants of the model, no limits: what a user sets is the target. */
#define AS_QUEUE_MODEL_DRAIN_S 1.0
/* Erlang's formula is computed for so many servers at most; with more, a load of at most
 * AS_QUEUE_MODEL_BUSY of them counts as no wait. */
#define AS_QUEUE_MODEL_SERVERS 100000u
#define AS_QUEUE_MODEL_BUSY    0.95

/* What was measured, in seconds and requests per second. */
struct as_service_times {
    double rate;        /* requests that arrive */
    double mean;        /* service time; 0: nothing is known yet */
    double p95;         /* of the service time */
    double cv2;         /* its variance / mean² */
    double latency_p95; /* from arrival to the answer; only to be shown */
    double slots;       /* requests that one replica executes at once; above 0 */
};

enum as_queue_model_result {
    AS_QUEUE_MODEL_OK,
    AS_QUEUE_MODEL_UNKNOWN,     /* nothing was measured yet */
    AS_QUEUE_MODEL_UNREACHABLE, /* the service time alone is above the target */
    AS_QUEUE_MODEL_MORE         /* `most` replicas are not enough */
};

/* The least number of replicas, 1 … most, whose latency is below target_s; 0 without load. After
 * UNREACHABLE it is the number with which requests do not wait; after MORE it is `most`. */
enum as_queue_model_result as_queue_model_replicas(const struct as_service_times *t, double queued,
                                                   double target_s, uint32_t most,
                                                   uint32_t *ret_replicas);

#endif
