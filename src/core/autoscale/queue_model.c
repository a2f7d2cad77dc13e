#include "core/autoscale/queue_model.h"

#include <math.h>

#define TAIL 0.05 /* 1 − 0.95 */

/* Erlang B, one server after the other; C follows from it. */
struct erlang {
    double load;
    uint32_t servers;
    double blocked;
};

static void add_servers(struct erlang *e, uint32_t servers)
{
    while (e->servers < servers) {
        e->servers++;
        e->blocked = e->load * e->blocked / (e->servers + e->load * e->blocked);
    }
}

static double probability_to_wait(const struct erlang *e)
{
    double busy = e->load / e->servers;

    return busy >= 1 ? 1 : e->blocked / (1 - busy * (1 - e->blocked));
}

/* The p95 of the time in the queue, in seconds; INFINITY when the load is too much. */
static double wait_p95(struct erlang *e, const struct as_service_times *t, uint32_t servers)
{
    double waits, mean;

    if (e->load >= servers)
        return INFINITY;
    if (servers > AS_QUEUE_MODEL_SERVERS)
        return e->load < AS_QUEUE_MODEL_BUSY * servers ? 0 : INFINITY;
    add_servers(e, servers);
    waits = probability_to_wait(e);
    if (waits <= TAIL)
        return 0;
    mean = t->mean * (1 + t->cv2) / 2 / (servers - e->load);
    return mean * log(waits / TAIL);
}

enum as_queue_model_result as_queue_model_replicas(const struct as_service_times *t, double queued,
                                                   double target_s, uint32_t most,
                                                   uint32_t *ret_replicas)
{
    struct erlang e = {.load = (t->rate + queued / AS_QUEUE_MODEL_DRAIN_S) * t->mean, .blocked = 1};
    double room = AS_MAX(target_s - t->p95, 0.0);

    if (!(t->mean > 0) || !(t->slots > 0) || !isfinite(e.load))
        return AS_QUEUE_MODEL_UNKNOWN;
    *ret_replicas = 0;
    if (e.load <= 0)
        return AS_QUEUE_MODEL_OK;
    for (uint32_t n = 1; n <= most; n++) {
        double servers = AS_MAX(floor(n * t->slots), 1.0);

        *ret_replicas = n;
        if (wait_p95(&e, t, (uint32_t)AS_MIN(servers, (double)UINT32_MAX)) <= room)
            return t->p95 < target_s ? AS_QUEUE_MODEL_OK : AS_QUEUE_MODEL_UNREACHABLE;
    }
    return AS_QUEUE_MODEL_MORE;
}
