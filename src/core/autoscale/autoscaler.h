/* core/autoscale/autoscaler.h — how many replicas a deployment is to have, by its load.
 *
 * Each decision takes these steps, as Ray Serve does:
 *   1. the policy: how many replicas does the load need? A pure function of the inputs
 *      (as_autoscaler_ask). By default it is requests / target_ongoing_requests, where the requests
 *      are those that wait and those that are executed; with target_latency_ms it is what
 *      core/autoscale/queue_model says. An answer from outside (as_autoscaler_set_answer) replaces
 *      it; while one is expected (as_autoscaler_set_external) and there is none, the number stays.
 *   2. the factors: n = ⌈running + factor × (wanted − running)⌉, where upscaling_factor is for more
 *      replicas and downscaling_factor for fewer; at least one fewer when fewer are wanted.
 *   3. the bounds: min_replicas or the schedule's minimum, max_replicas, and what the machine can
 *      start. From more than one replica the next number is at least one.
 *   4. the delays: a larger number is taken when one was wanted all the time for upscale_delay_s, a
 *      smaller one after downscale_delay_s, and 0 after downscale_to_zero_delay_s. Then the number
 *      that is wanted at that time is taken.
 * Without waiting: the bounds min_replicas, schedule and max_replicas, and the first replica of a
 * deployment that has requests and no replica.
 *
 * The requests of step 1 are aggregated over the smaller of look_back_period_s and the delay of the
 * direction: the counts are exact, so with a delay of 0 the count of now decides. For 0 replicas
 * there must be no request at any time of the delay. Ray averages over look_back_period_s in any
 * case, because its counts come in intervals.
 *
 * Pure: time is a parameter. Nothing is stored: a new controller begins with the number that there
 * is (as_autoscaler_init) and with an empty history. Thread: the caller's.
 */
#ifndef AS_CORE_AUTOSCALER_H
#define AS_CORE_AUTOSCALER_H

#include "core/autoscale/autoscale_config.h"
#include "core/autoscale/queue_model.h"

#define AS_AUTOSCALE_LACK_MAX 256u
#define AS_AUTOSCALE_ANY      UINT32_MAX /* as many replicas as wanted can start */

/* Who said how many replicas are wanted. */
enum as_autoscale_source {
    AS_AUTOSCALE_HOLD,    /* nobody: the counts are not known, or there is nothing to judge */
    AS_AUTOSCALE_ONGOING, /* target_ongoing_requests */
    AS_AUTOSCALE_LATENCY, /* target_latency_ms */
    AS_AUTOSCALE_ANSWER,  /* a policy outside */
    AS_AUTOSCALE_COLD     /* there are requests, and no replica */
};

/* What has changed the number that was wanted. */
enum as_autoscale_bound {
    AS_AUTOSCALE_UNBOUND,
    AS_AUTOSCALE_MIN,
    AS_AUTOSCALE_SCHEDULE,
    AS_AUTOSCALE_MAX,
    AS_AUTOSCALE_MACHINE, /* what the machine can start */
    AS_AUTOSCALE_LAST     /* 0 comes only after 1 */
};

/* What the caller knows at the moment of a decision. */
struct as_autoscale_input {
    uint32_t running;   /* replicas that take requests */
    uint32_t startable; /* replicas that the machine can have in all, or AS_AUTOSCALE_ANY */
    struct as_str lack; /* what it lacks for one more; shown */
    struct as_wall_time wall;
};

/* The numbers of the last decision, for people. */
struct as_autoscale_decision {
    bool known;               /* the counts */
    uint32_t queued, ongoing; /* now */
    uint32_t running, target; /* target: before the decision */
    double total;             /* the aggregate that was judged, and … */
    as_ns window;             /* … over how long */
    enum as_autoscale_source source;
    enum as_queue_model_result model; /* source LATENCY */
    double wanted;                    /* by the source */
    enum as_autoscale_bound bound;
    uint32_t minimum; /* that holds now, by min_replicas or the schedule */
    uint32_t desired; /* after factors and bounds */
    uint32_t next;    /* the target after the decision */
    as_ns at; /* when `desired` becomes the target if it is wanted until then, or AS_NEVER */
    char lack[AS_AUTOSCALE_LACK_MAX];
};

struct as_autoscaler {
    struct as_autoscale_config config;
    struct as_load_history history; /* of queued + ongoing */
    uint32_t queued, ongoing;
    struct as_service_times times;
    bool external; /* a policy outside decides, and nothing else */
    bool has_answer;
    double answer;
    uint64_t bad_answers; /* that were not a number of replicas */
    uint32_t target;
    int32_t direction; /* 1: more is wanted since `since`, -1: fewer, 0: neither */
    as_ns since;
    as_ns next_due;
    struct as_autoscale_decision last;
};

/* The policy's question: everything that the answer depends on. */
struct as_autoscale_question {
    const struct as_autoscale_config *config;
    double total, queued; /* requests: all of them, aggregated; those that wait now */
    uint32_t running, target;
    const struct as_service_times *times;
};
struct as_autoscale_wish {
    double replicas;
    enum as_autoscale_source source;
    enum as_queue_model_result model;
};

/* config was checked, and may be that of `a`. target: the number that the deployment has; it is
 * brought between min_replicas and max_replicas. */
void as_autoscaler_init(struct as_autoscaler *a, const struct as_autoscale_config *config,
                        uint32_t target);
/* Another configuration; number, history and counts stay. */
void as_autoscaler_set_config(struct as_autoscaler *a, const struct as_autoscale_config *config);
/* The counts are these from now on. */
void as_autoscaler_record(struct as_autoscaler *a, uint32_t queued, uint32_t ongoing, as_ns now);
/* What the dispatcher measured lately. mean 0: nothing new. */
void as_autoscaler_set_times(struct as_autoscaler *a, const struct as_service_times *times);
/* The counts are not known any more: the number stays until they are. */
void as_autoscaler_forget(struct as_autoscaler *a);
/* on: only a policy outside decides. While it has given no answer, the number stays but for the
 * bounds and the first replica for a request, and a delay that has begun goes on. off: the answer
 * is dropped. */
void as_autoscaler_set_external(struct as_autoscaler *a, bool on);
/* An answer of a policy outside, which counts until the next one. AS_EINVALID: it is no number from
 * 0 to AS_AUTOSCALE_NUMBER_MAX; then the answer before is dropped, and, unless `external`, the
 * policy of the configuration decides. */
int as_autoscaler_set_answer(struct as_autoscaler *a, double replicas);
void as_autoscaler_clear_answer(struct as_autoscaler *a);
/* The built-in policy. */
struct as_autoscale_wish as_autoscaler_ask(const struct as_autoscale_question *q);
/* Decides. True: a->target has changed. To be called after each change of an input, and at
 * a->next_due at the latest (AS_NEVER: not by itself). */
bool as_autoscaler_decide(struct as_autoscaler *a, const struct as_autoscale_input *in, as_ns now);
/* Appends the last decision as one line for people: the numbers in, the number out, why, and what
 * is waited for. */
void as_autoscaler_explain(const struct as_autoscaler *a, as_ns now, struct as_buf *out);
/* "target_ongoing_requests", "max_replicas", …; "" for HOLD and UNBOUND. */
const char *as_autoscale_source_name(enum as_autoscale_source s);
const char *as_autoscale_bound_name(enum as_autoscale_bound b);

#endif
