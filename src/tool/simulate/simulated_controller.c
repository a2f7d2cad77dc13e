/* The replicas of a simulation: those that there are from the beginning, and those that the
 * autoscaler of core starts and stops, as the controller does in a server. */
#include "tool/simulate/simulation_internal.h"

/* Virtual time begins on a Monday at midnight. */
static struct as_wall_time wall_time(as_ns now)
{
    as_ns minute = 60 * AS_SEC;

    return (struct as_wall_time){.day = (uint32_t)(now / (1440 * minute) % 7),
                                 .minute = (uint32_t)(now / minute % 1440),
                                 .left = minute - now % minute};
}

/* --- the life of a replica: STARTING, READY, DRAINING, gone --- */

static void set_state(struct sim *s, struct sim_worker *w, enum sim_worker_state to)
{
    s->levels.starting -= w->state == SIM_STARTING;
    s->levels.replicas -= w->state == SIM_READY;
    s->n_draining -= w->state == SIM_DRAINING;
    w->state = to;
    s->levels.starting += to == SIM_STARTING;
    s->levels.replicas += to == SIM_READY;
    s->n_draining += to == SIM_DRAINING;
}

static struct sim_worker *add_worker(struct sim *s)
{
    struct sim_worker *w = as_xalloc(sizeof(*w));

    s->workers = as_xrealloc(s->workers, (s->n_workers + 1) * sizeof(void *));
    s->workers[s->n_workers++] = w;
    as_list_init(&w->waiting);
    set_state(s, w, SIM_STARTING);
    return w;
}

static void remove_worker(struct sim *s, struct sim_worker *w)
{
    uint32_t i = 0;

    while (s->workers[i] != w)
        i++;
    memmove(&s->workers[i], &s->workers[i + 1], (--s->n_workers - i) * sizeof(void *));
    set_state(s, w, SIM_GONE);
    free(w->models);
    free(w);
}

static void make_ready(struct sim *s, struct sim_worker *w)
{
    if (as_replica_new(&w->replica, s->d, w) < 0) { /* as many drain as there can be */
        sim_schedule(s, s->now + AS_SEC, SIM_STARTED, w, 0);
        return;
    }
    set_state(s, w, SIM_READY);
    s->levels.slots += s->conf->slots;
    as_replica_grant(w->replica, s->conf->slots, s->conf->prefetch, s->now);
    sim_worker_report(s, w);
}

void sim_controller_start(struct sim *s)
{
    for (uint32_t i = 0; i < s->conf->replicas; i++)
        make_ready(s, add_worker(s));
    if (!s->conf->autoscale)
        return;
    s->scaler = as_xalloc(sizeof(*s->scaler));
    as_autoscaler_init(s->scaler, s->conf->autoscale, s->conf->replicas);
    s->window = as_xalloc(sizeof(*s->window));
    as_service_window_init(s->window, as_autoscale_look_back(s->conf->autoscale));
    s->decide_at = AS_NEVER;
    s->count_due = true;
    sim_schedule(s, 0, SIM_COUNT, NULL, 0);
}

/* Those that have drained end. */
static void end_drained(struct sim *s)
{
    for (uint32_t i = s->n_workers; i-- > 0;) {
        struct sim_worker *w = s->workers[i];

        if (w->state != SIM_DRAINING || as_replica_unanswered(w->replica) || w->recalls ||
            w->reports)
            continue;
        s->levels.slots -= s->conf->slots;
        as_replica_free(w->replica, UINT64_MAX, AS_LOSS_KILLED, s->now);
        remove_worker(s, w);
    }
}

/* --- scaling --- */

/* The one to stop: the newest that starts, else the one with the fewest requests, of these the
 * newest. */
static struct sim_worker *choose_leaver(const struct sim *s)
{
    struct sim_worker *best = NULL;
    uint32_t fewest = UINT32_MAX;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        struct sim_worker *w = s->workers[i];
        uint32_t n = w->state == SIM_READY ? as_replica_unanswered(w->replica) + 1 : 0;

        if ((w->state == SIM_READY || (w->state == SIM_STARTING && !w->cancelled)) && n <= fewest) {
            best = w;
            fewest = n;
        }
    }
    return best;
}

/* A start that is not needed any more ends when its event comes. */
static void stop_one(struct sim *s)
{
    struct sim_worker *w = choose_leaver(s);

    AS_ASSERT(w);
    if (w->state == SIM_STARTING) {
        w->cancelled = true;
        s->levels.starting--;
        return;
    }
    set_state(s, w, SIM_DRAINING);
    as_replica_drain(w->replica, true, s->now);
}

static void apply_target(struct sim *s)
{
    uint32_t target = s->scaler->target;
    uint32_t n = s->levels.replicas + s->levels.starting;

    for (; n < target; n++) {
        sim_schedule(s, s->now + s->conf->start_up, SIM_STARTED, add_worker(s), 0);
        s->result->started++;
    }
    for (; n > target; n--) {
        stop_one(s);
        s->result->stopped++;
    }
    end_drained(s);
}

/* Which requests have ended lately, for the model of target_latency_ms. */
static void update_times(struct sim *s)
{
    const struct as_stat *stat = as_deployment_stat(s->d);
    struct as_service_sample sample = {
        .at = s->now, .accepted = stat->accepted, .service_sum = stat->service.sum};
    struct as_service_times times;

    static_assert(AS_SERVICE_BUCKETS == AS_HIST_BUCKETS, "the same buckets");
    memcpy(sample.service, stat->service.bucket, sizeof(sample.service));
    memcpy(sample.latency, stat->total.bucket, sizeof(sample.latency));
    as_service_window_add(s->window, &sample);
    as_service_window_times(s->window, s->conf->slots, s->now, &times);
    as_autoscaler_set_times(s->scaler, &times);
}

static void keep_decision(struct sim *s)
{
    struct as_simulation_result *r = s->result;
    struct as_buf why = {0};

    if (r->n_decisions == AS_SIMULATION_DECISIONS)
        return;
    as_autoscaler_explain(s->scaler, s->now, &why);
    r->decisions[r->n_decisions++] =
        (struct as_simulation_decision){.at = s->now,
                                        .from = s->scaler->last.target,
                                        .to = s->scaler->last.next,
                                        .why = as_str_dup(as_buf_slice(&why))};
    as_buf_fini(&why);
}

static void decide(struct sim *s)
{
    struct as_autoscale_input in = {
        .running = s->levels.replicas, .startable = AS_AUTOSCALE_ANY, .wall = wall_time(s->now)};

    if (s->conf->autoscale->target_latency_ms > 0)
        update_times(s);
    if (as_autoscaler_decide(s->scaler, &in, s->now)) {
        keep_decision(s);
        apply_target(s);
    }
    if (s->scaler->next_due == s->decide_at || s->scaler->next_due == AS_NEVER)
        return;
    s->decide_at = AS_MAX(s->scaler->next_due, s->now + 1);
    sim_schedule(s, s->decide_at, SIM_DECIDE, NULL, 0);
}

static uint32_t ongoing_of(const struct sim *s)
{
    return as_deployment_ongoing(s->d);
}

/* The counts of now reach the autoscaler. */
void sim_controller_count(struct sim *s)
{
    s->count_due = false;
    s->counted_at = s->now;
    s->counted_queued = s->levels.queued;
    s->counted_ongoing = ongoing_of(s);
    as_autoscaler_record(s->scaler, s->counted_queued, s->counted_ongoing, s->now);
    decide(s);
}

/* A decision is due by itself, unless its time was changed meanwhile. */
void sim_controller_decide(struct sim *s)
{
    if (s->decide_at != s->now)
        return;
    s->decide_at = AS_NEVER;
    decide(s);
}

void sim_controller_started(struct sim *s, struct sim_worker *w)
{
    if (w->cancelled) {
        s->levels.starting++; /* remove_worker subtracts it */
        remove_worker(s, w);
        return;
    }
    make_ready(s, w);
    decide(s);
}

void sim_controller_notice(struct sim *s)
{
    bool cold;

    if (s->n_draining)
        end_drained(s);
    if (!s->scaler || s->count_due ||
        (s->levels.queued == s->counted_queued && ongoing_of(s) == s->counted_ongoing))
        return;
    /* counts are sent at intervals, but the first request of a deployment without replicas at once
     */
    cold = s->levels.queued && !s->counted_queued && !s->levels.replicas;
    s->count_due = true;
    sim_schedule(s, cold ? s->now : AS_MAX(s->now, s->counted_at + s->conf->load_interval),
                 SIM_COUNT, NULL, 0);
}

void sim_controller_end(struct sim *s)
{
    struct as_list *node;

    for (uint32_t i = 0; i < s->n_workers; i++) {
        while ((node = as_list_pop(&s->workers[i]->waiting)))
            sim_execution_free(s, AS_LIST_ENTRY(node, struct sim_execution, node));
        free(s->workers[i]->models);
        free(s->workers[i]);
    }
    free(s->workers);
    free(s->scaler);
    free(s->window);
}
