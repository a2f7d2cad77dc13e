#include "core/autoscale/service_window.h"

#include <string.h>

void as_service_window_init(struct as_service_window *w, as_ns length)
{
    *w = (struct as_service_window){.length = length};
}

static bool has_fallen(const struct as_service_sample *was, const struct as_service_sample *s)
{
    if (s->accepted < was->accepted || s->service_sum < was->service_sum)
        return true;
    for (uint32_t i = 0; i < AS_SERVICE_BUCKETS; i++) {
        if (s->service[i] < was->service[i] || s->latency[i] < was->latency[i])
            return true;
    }
    return false;
}

/* Removes the sample with this index. */
static void drop(struct as_service_window *w, uint32_t i)
{
    memmove(&w->sample[i], &w->sample[i + 1], (w->n - i - 1) * sizeof(w->sample[0]));
    w->n--;
}

/* The samples are spread over the window: one that is close to the one before it is replaced. */
void as_service_window_add(struct as_service_window *w, const struct as_service_sample *s)
{
    as_ns apart = w->length / (AS_SERVICE_SAMPLES - 2);

    if (w->n && has_fallen(&w->sample[w->n - 1], s))
        w->n = 0;
    if (w->n > 1 && s->at - w->sample[w->n - 2].at < apart)
        drop(w, w->n - 1);
    while (w->n > 1 && s->at - w->sample[1].at >= w->length)
        drop(w, 0);
    if (w->n == AS_SERVICE_SAMPLES)
        drop(w, 0);
    w->sample[w->n++] = *s;
}

static double bucket_low(uint32_t i)
{
    return i ? (double)((uint64_t)1 << (i - 1)) * 1e-6 : 0;
}

static double bucket_high(uint32_t i)
{
    return (double)((uint64_t)1 << i) * 1e-6;
}

static double quantile(const uint64_t *bucket, uint64_t n, double share)
{
    double rank = share * (double)n, seen = 0;

    for (uint32_t i = 0; i < AS_SERVICE_BUCKETS; i++) {
        double here = (double)bucket[i];

        if (here > 0 && seen + here >= rank)
            return bucket_low(i) + (bucket_high(i) - bucket_low(i)) * (rank - seen) / here;
        seen += here;
    }
    return 0;
}

/* variance / mean², from the middles of the buckets. */
static double spread(const uint64_t *bucket, uint64_t n)
{
    double sum = 0, squares = 0;

    for (uint32_t i = 0; i < AS_SERVICE_BUCKETS; i++) {
        double middle = (bucket_low(i) + bucket_high(i)) / 2;

        sum += middle * (double)bucket[i];
        squares += middle * middle * (double)bucket[i];
    }
    return sum > 0 ? AS_MAX(squares * (double)n / (sum * sum) - 1, 0.0) : 0;
}

void as_service_window_times(const struct as_service_window *w, double slots, as_ns now,
                             struct as_service_times *ret_t)
{
    uint64_t service[AS_SERVICE_BUCKETS], latency[AS_SERVICE_BUCKETS], n = 0, answered = 0;
    const struct as_service_sample *first, *last;

    *ret_t = (struct as_service_times){.slots = slots};
    if (w->n < 2 || now - w->sample[w->n - 1].at >= w->length)
        return;
    first = &w->sample[0];
    last = &w->sample[w->n - 1];
    if (now <= first->at)
        return;
    for (uint32_t i = 0; i < AS_SERVICE_BUCKETS; i++) {
        n += service[i] = last->service[i] - first->service[i];
        answered += latency[i] = last->latency[i] - first->latency[i];
    }
    ret_t->rate = (double)(last->accepted - first->accepted) * 1e9 / (double)(now - first->at);
    if (!n)
        return;
    ret_t->mean = (double)(last->service_sum - first->service_sum) / 1e9 / (double)n;
    ret_t->p95 = AS_MAX(quantile(service, n, 0.95), ret_t->mean);
    ret_t->cv2 = spread(service, n);
    ret_t->latency_p95 = quantile(latency, answered, 0.95);
}
