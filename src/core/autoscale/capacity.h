/* core/autoscale/capacity.h — which part of its replicas a deployment is to have:
 * `target_capacity`, a percentage, with the rules of Ray Serve.
 *
 * A number of replicas becomes n × percentage / 100, rounded half up, and at least 1; 0 % is 0
 * replicas, and 0 replicas stay 0. This holds for num_replicas, and for the bounds of
 * autoscaling_config. While the percentage goes up, initial_replicas is the lower bound in place of
 * min_replicas, so that the replicas that take over traffic from elsewhere are there before it.
 * Pure.
 */
#ifndef AS_CORE_CAPACITY_H
#define AS_CORE_CAPACITY_H

#include "core/autoscale/autoscale_config.h"

#define AS_CAPACITY_UNSET (-1)
#define AS_CAPACITY_ALL   100000 /* 100 % */

enum as_capacity_direction { AS_CAPACITY_STEADY, AS_CAPACITY_UP, AS_CAPACITY_DOWN };

struct as_capacity {
    int32_t share; /* thousandths of a percent, at most _ALL; or _UNSET, which is as _ALL */
    enum as_capacity_direction direction; /* of the last change of share */
};

/* n: at most AS_AUTOSCALE_REPLICAS_MAX. */
uint32_t as_capacity_replicas(const struct as_capacity *p, uint32_t n);
/* Changes min_replicas, initial_replicas, max_replicas and the minimums of the schedule. */
void as_capacity_apply(const struct as_capacity *p, struct as_autoscale_config *c);
/* The direction when `share` follows on `was`. was NULL: other applications had that one. */
enum as_capacity_direction as_capacity_next(const struct as_capacity *was, int32_t share);

#endif
