/* core/autoscale/autoscale_config.h — the settings of a deployment whose number of replicas follows
 * its load: `autoscaling_config`, with the names, defaults and bounds of Ray Serve, and keys of our
 * own (target_latency_ms, schedule).
 *
 * Plain values; conf/spec reads them from a file. Pure.
 */
#ifndef AS_CORE_AUTOSCALE_CONFIG_H
#define AS_CORE_AUTOSCALE_CONFIG_H

#include "base/buf.h"
#include "base/err.h"
#include "core/autoscale/load_history.h"
#include "core/autoscale/schedule.h"

#define AS_AUTOSCALE_REPLICAS_MAX 1024u
#define AS_AUTOSCALE_AUTO_MAX     100u      /* max_replicas of num_replicas "auto" */
#define AS_AUTOSCALE_NUMBER_MAX   1000000.0 /* of targets and factors */
#define AS_AUTOSCALE_SECONDS_MAX  86400.0

/* The numbers of the mapping: key, field, default, least, most, may it be 0. In the units of the
 * file: seconds, requests, milliseconds. A negative default: the key is not set. */
#define AS_AUTOSCALE_NUMBER_TABLE(X)                                                               \
    X("min_replicas", min_replicas, 1, AS_AUTOSCALE_REPLICAS_MAX, true, true)                      \
    X("initial_replicas", initial_replicas, -1, AS_AUTOSCALE_REPLICAS_MAX, true, true)             \
    X("max_replicas", max_replicas, 1, AS_AUTOSCALE_REPLICAS_MAX, false, true)                     \
    X("target_ongoing_requests", target_ongoing_requests, 2, AS_AUTOSCALE_NUMBER_MAX, false,       \
      false)                                                                                       \
    X("metrics_interval_s", metrics_interval_s, 10, AS_AUTOSCALE_SECONDS_MAX, false, false)        \
    X("look_back_period_s", look_back_period_s, 30, AS_AUTOSCALE_SECONDS_MAX, false, false)        \
    X("smoothing_factor", smoothing_factor, 1, AS_AUTOSCALE_NUMBER_MAX, false, false)              \
    X("upscale_smoothing_factor", upscale_smoothing_factor, -1, AS_AUTOSCALE_NUMBER_MAX, false,    \
      false)                                                                                       \
    X("downscale_smoothing_factor", downscale_smoothing_factor, -1, AS_AUTOSCALE_NUMBER_MAX,       \
      false, false)                                                                                \
    X("upscaling_factor", upscaling_factor, -1, AS_AUTOSCALE_NUMBER_MAX, false, false)             \
    X("downscaling_factor", downscaling_factor, -1, AS_AUTOSCALE_NUMBER_MAX, false, false)         \
    X("upscale_delay_s", upscale_delay_s, 30, AS_AUTOSCALE_SECONDS_MAX, true, false)               \
    X("downscale_delay_s", downscale_delay_s, 600, AS_AUTOSCALE_SECONDS_MAX, true, false)          \
    X("downscale_to_zero_delay_s", downscale_to_zero_delay_s, -1, AS_AUTOSCALE_SECONDS_MAX, true,  \
      false)                                                                                       \
    X("target_latency_ms", target_latency_ms, -1, AS_AUTOSCALE_NUMBER_MAX, false, false)

/* Negative: not set; as_autoscale_config_init. */
struct as_autoscale_config {
#define X(key, field, def, most, zero, whole) double field;
    AS_AUTOSCALE_NUMBER_TABLE(X)
#undef X
    enum as_load_aggregation aggregation;
    struct as_schedule schedule;
};

/* The defaults; automatic: those of num_replicas "auto", which has another max_replicas. */
void as_autoscale_config_init(struct as_autoscale_config *c, bool automatic);
/* Sets a number by its key. AS_ENOTFOUND: no number has this key; AS_EINVALID: v is out of bounds,
 * and `why` says which ("min_replicas must be a whole number from 0 to 1024, not -1"). */
int as_autoscale_config_set(struct as_autoscale_config *c, struct as_str key, double v,
                            struct as_buf *why);
/* "mean", "max", "min"; false: another text. */
bool as_autoscale_config_set_aggregation(struct as_autoscale_config *c, struct as_str name);
const char *as_autoscale_aggregation_name(enum as_load_aggregation a);
/* Checks the values together. 0, or AS_EINVALID and `why`. */
int as_autoscale_config_check(const struct as_autoscale_config *c, struct as_buf *why);

/* The values that count where several keys mean the same, as in Ray Serve. */
uint32_t as_autoscale_initial(const struct as_autoscale_config *c);
double as_autoscale_up_factor(const struct as_autoscale_config *c);
double as_autoscale_down_factor(const struct as_autoscale_config *c);
as_ns as_autoscale_up_delay(const struct as_autoscale_config *c);
/* to_zero: from one replica to none. */
as_ns as_autoscale_down_delay(const struct as_autoscale_config *c, bool to_zero);
as_ns as_autoscale_look_back(const struct as_autoscale_config *c);

#endif
