/* core/autoscale/service_window.h — what the dispatcher's counters say of the last seconds: the
 * rate of arrivals, the service time, its spread, and the latency, for core/autoscale/queue_model.
 *
 * A sample has the counters since the start of the dispatcher; the difference of two samples is the
 * time between them. Percentiles are of a histogram with a bucket for each power of two of
 * microseconds, linear within a bucket. Pure.
 */
#ifndef AS_CORE_SERVICE_WINDOW_H
#define AS_CORE_SERVICE_WINDOW_H

#include "core/autoscale/queue_model.h"

#define AS_SERVICE_BUCKETS 28u /* bucket i: at most 2^i us; the last one: everything longer */
#define AS_SERVICE_SAMPLES 16u

struct as_service_sample {
    as_ns at;
    uint64_t accepted;                    /* requests */
    as_ns service_sum;                    /* of the requests in `service` */
    uint64_t service[AS_SERVICE_BUCKETS]; /* handlers */
    uint64_t latency[AS_SERVICE_BUCKETS]; /* from arrival to the answer */
};

struct as_service_window {
    as_ns length;
    uint32_t n;
    struct as_service_sample sample[AS_SERVICE_SAMPLES]; /* oldest first */
};

void as_service_window_init(struct as_service_window *w, as_ns length);
/* s->at must not decrease. Counters that have fallen are those of a new dispatcher: the window
 * begins anew. */
void as_service_window_add(struct as_service_window *w, const struct as_service_sample *s);
/* mean is 0 if no request ended in the window; latency and service times are those of the requests
 * that did. slots: of as_service_times. */
void as_service_window_times(const struct as_service_window *w, double slots, as_ns now,
                             struct as_service_times *ret_t);

#endif
