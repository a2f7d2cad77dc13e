#include "core/autoscale/autoscaler.h"

#include <math.h>

#define TICK     (100 * AS_MS) /* a number that may change by itself is judged again this often */
#define ROUNDING 1e-9          /* a mean this little above a whole number is that number */

static uint32_t clamp(uint32_t v, double least, double most)
{
    return (uint32_t)AS_MIN(AS_MAX((double)v, least), most);
}

void as_autoscaler_init(struct as_autoscaler *a, const struct as_autoscale_config *config,
                        uint32_t target)
{
    struct as_autoscale_config c = *config;

    *a = (struct as_autoscaler){.config = c, .next_due = AS_NEVER};
    a->target = clamp(target, c.min_replicas, c.max_replicas);
    as_load_history_init(&a->history, as_autoscale_look_back(&c));
    a->last = (struct as_autoscale_decision){
        .target = a->target, .desired = a->target, .next = a->target, .at = AS_NEVER};
}

void as_autoscaler_set_config(struct as_autoscaler *a, const struct as_autoscale_config *config)
{
    as_ns was = as_autoscale_look_back(&a->config), look_back = as_autoscale_look_back(config);

    a->config = *config;
    if (was == look_back)
        return;
    /* the buckets have another width; the counts of now are the beginning */
    as_load_history_init(&a->history, look_back);
}

void as_autoscaler_record(struct as_autoscaler *a, uint32_t queued, uint32_t ongoing, as_ns now)
{
    uint64_t total = (uint64_t)queued + ongoing;

    a->queued = queued;
    a->ongoing = ongoing;
    as_load_history_set(&a->history, (uint32_t)AS_MIN(total, (uint64_t)UINT32_MAX), now);
}

void as_autoscaler_set_times(struct as_autoscaler *a, const struct as_service_times *times)
{
    struct as_service_times t = *times;

    if (!(t.mean > 0)) { /* without an answer in this time the service times stay as they were */
        t.mean = a->times.mean;
        t.p95 = a->times.p95;
        t.cv2 = a->times.cv2;
        t.latency_p95 = a->times.latency_p95;
    }
    a->times = t;
}

void as_autoscaler_forget(struct as_autoscaler *a)
{
    as_load_history_forget(&a->history);
    a->queued = a->ongoing = 0;
}

void as_autoscaler_set_external(struct as_autoscaler *a, bool on)
{
    a->external = on;
    a->has_answer = a->has_answer && on;
}

int as_autoscaler_set_answer(struct as_autoscaler *a, double replicas)
{
    a->has_answer = replicas >= 0 && replicas <= AS_AUTOSCALE_NUMBER_MAX;
    a->answer = a->has_answer ? replicas : 0;
    a->bad_answers += !a->has_answer;
    return a->has_answer ? 0 : AS_EINVALID;
}

void as_autoscaler_clear_answer(struct as_autoscaler *a)
{
    a->has_answer = false;
}

/* --- the policy --- */

struct as_autoscale_wish as_autoscaler_ask(const struct as_autoscale_question *q)
{
    const struct as_autoscale_config *c = q->config;
    struct as_autoscale_wish w = {.replicas = q->total / c->target_ongoing_requests,
                                  .source = AS_AUTOSCALE_ONGOING};
    uint32_t n;

    if (c->target_latency_ms < 0)
        return w;
    w.model = as_queue_model_replicas(q->times, q->queued, c->target_latency_ms / 1000,
                                      (uint32_t)c->max_replicas, &n);
    if (w.model == AS_QUEUE_MODEL_UNKNOWN)
        return w;
    w.source = AS_AUTOSCALE_LATENCY;
    w.replicas = n ? n : q->total > 0;
    return w;
}

/* --- one decision --- */

static double round_up(double v)
{
    return ceil(v - ROUNDING * AS_MAX(1.0, fabs(v)));
}

/* Step 2. Replicas that an update has beyond the target do not count as running. */
static double apply_factor(const struct as_autoscaler *a, double wanted, uint32_t running)
{
    double delta = wanted - running, n;

    n = round_up(running + delta * (delta > 0 ? as_autoscale_up_factor(&a->config)
                                              : as_autoscale_down_factor(&a->config)));
    if (round_up(wanted) < running && n >= running)
        n = running - 1;
    return AS_MAX(n, 0.0);
}

static void apply_bounds(struct as_autoscaler *a, const struct as_autoscale_input *in,
                         struct as_autoscale_decision *d, double n)
{
    uint32_t planned = as_schedule_minimum(&a->config.schedule, &in->wall);
    uint32_t least = AS_MAX((uint32_t)a->config.min_replicas, planned);
    uint32_t most = (uint32_t)a->config.max_replicas, machine = AS_MAX(in->startable, a->target);

    d->minimum = least;
    if (n < least) {
        n = least;
        d->bound =
            planned > (uint32_t)a->config.min_replicas ? AS_AUTOSCALE_SCHEDULE : AS_AUTOSCALE_MIN;
    } else if (n > most) {
        n = most;
        d->bound = AS_AUTOSCALE_MAX;
    }
    /* the minimum is asked for in any case, and the plan says what it lacks */
    if (n > AS_MAX(machine, least)) {
        n = AS_MAX(machine, least);
        d->bound = AS_AUTOSCALE_MACHINE;
    }
    if (n < 1 && a->target > 1) {
        n = 1;
        d->bound = AS_AUTOSCALE_LAST;
    }
    d->desired = (uint32_t)n;
}

/* The number that is wanted by the requests of this window. */
static void judge(struct as_autoscaler *a, const struct as_autoscale_input *in, as_ns window,
                  as_ns now, struct as_autoscale_decision *d)
{
    uint32_t running = AS_MIN(in->running, a->target);
    struct as_autoscale_question q = {.config = &a->config,
                                      .queued = a->queued,
                                      .running = running,
                                      .target = a->target,
                                      .times = &a->times};
    struct as_autoscale_wish w = {.replicas = a->target, .source = AS_AUTOSCALE_HOLD};
    bool varies, known = a->history.known;
    double n = a->target;

    d->window = window;
    d->bound = AS_AUTOSCALE_UNBOUND;
    d->total = q.total =
        as_load_history_value(&a->history, a->config.aggregation, window, now, &varies);
    if (varies)
        a->next_due = AS_MIN(a->next_due, now + AS_MAX(TICK, a->history.width));
    if (known && !in->running && a->queued + a->ongoing > 0) {
        w.source = AS_AUTOSCALE_COLD;
        w.replicas = n = AS_MAX(ceil(as_autoscale_up_factor(&a->config)), (double)a->target);
    } else if (a->has_answer) {
        w = (struct as_autoscale_wish){.replicas = a->answer, .source = AS_AUTOSCALE_ANSWER};
        n = apply_factor(a, w.replicas, running);
    } else if (known && in->running && !a->external) {
        w = as_autoscaler_ask(&q);
        n = apply_factor(a, w.replicas, running);
    }
    d->source = w.source;
    d->model = w.model;
    d->wanted = w.replicas;
    apply_bounds(a, in, d, n);
}

/* More, or fewer, or neither. For more and for fewer the requests of other windows count. */
static int32_t judge_both(struct as_autoscaler *a, const struct as_autoscale_input *in, as_ns now,
                          struct as_autoscale_decision *d)
{
    as_ns look_back = as_autoscale_look_back(&a->config);
    as_ns up = AS_MIN(look_back, as_autoscale_up_delay(&a->config));
    as_ns down = a->target <= 1 ? 0 : AS_MIN(look_back, as_autoscale_down_delay(&a->config, false));

    judge(a, in, up, now, d);
    if (d->desired > a->target)
        return 1;
    if (down != up)
        judge(a, in, down, now, d);
    if (d->desired < a->target)
        return -1;
    /* what the longer window says is shown, but it has no effect on this side */
    d->desired = a->target;
    return 0;
}

static as_ns delay_of(const struct as_autoscaler *a, const struct as_autoscale_decision *d,
                      int32_t direction)
{
    if (d->source == AS_AUTOSCALE_COLD)
        return 0;
    return direction > 0 ? as_autoscale_up_delay(&a->config)
                         : as_autoscale_down_delay(&a->config, a->target == 1);
}

/* Step 4. */
static void apply_delay(struct as_autoscaler *a, struct as_autoscale_decision *d, int32_t direction,
                        as_ns now)
{
    if (direction != a->direction) {
        a->direction = direction;
        a->since = now;
    }
    if (!direction)
        return;
    d->at = a->since + delay_of(a, d, direction);
    if (now < d->at) {
        a->next_due = AS_MIN(a->next_due, d->at);
        return;
    }
    a->target = d->desired;
    d->at = AS_NEVER;
    a->direction = 0;
    /* what is wanted next: its delay begins then */
    a->next_due = AS_MIN(a->next_due, now + TICK);
}

/* A minimum that begins, or bounds of a new configuration. */
static enum as_autoscale_bound enforce_bounds(struct as_autoscaler *a,
                                              const struct as_autoscale_input *in)
{
    uint32_t least = (uint32_t)a->config.min_replicas, most = (uint32_t)a->config.max_replicas;
    uint32_t planned = as_schedule_minimum(&a->config.schedule, &in->wall);

    if (a->target < AS_MAX(least, planned)) {
        a->target = AS_MAX(least, planned);
        return planned > least ? AS_AUTOSCALE_SCHEDULE : AS_AUTOSCALE_MIN;
    }
    if (a->target > most) {
        a->target = most;
        return AS_AUTOSCALE_MAX;
    }
    return AS_AUTOSCALE_UNBOUND;
}

bool as_autoscaler_decide(struct as_autoscaler *a, const struct as_autoscale_input *in, as_ns now)
{
    struct as_autoscale_decision *d = &a->last;
    uint32_t was = a->target;
    int32_t direction;
    enum as_autoscale_bound enforced = enforce_bounds(a, in);

    *d = (struct as_autoscale_decision){.known = a->history.known,
                                        .queued = a->queued,
                                        .ongoing = a->ongoing,
                                        .running = in->running,
                                        .target = was,
                                        .at = AS_NEVER};
    snprintf(d->lack, sizeof(d->lack), "%.*s", AS_STR_CUT(in->lack, sizeof(d->lack) - 1));
    a->next_due = a->config.schedule.n ? now + AS_MAX(in->wall.left, AS_MS) : AS_NEVER;
    /* the rate falls while nothing is reported */
    if (a->config.target_latency_ms >= 0 && a->times.rate > 0)
        a->next_due = AS_MIN(a->next_due, now + AS_MAX(TICK, a->history.width));
    direction = judge_both(a, in, now, d);
    if (!a->external || d->source != AS_AUTOSCALE_HOLD)
        apply_delay(a, d, direction, now);
    d->next = a->target;
    if (enforced && !d->bound)
        d->bound = enforced;
    return a->target != was;
}
