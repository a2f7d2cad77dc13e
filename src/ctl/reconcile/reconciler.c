#include "ctl/reconcile/reconciler.h"

#include "ctl/message/replica_facts.h"
#include "ctl/reconcile/reconciler_internal.h"

/* --- messages from the supervisor --- */

struct slot_search {
    struct as_str name;
    struct as_replica_slot *found;
};

static void match_name(void *arg, struct as_replica_slot *slot)
{
    struct slot_search *k = arg;

    if (as_str_eq(as_replica_slot_name(slot), k->name))
        k->found = slot;
}

static struct as_replica_slot *find_slot(const struct as_reconciler *r, struct as_str replica)
{
    struct slot_search k = {.name = replica};

    for (uint32_t i = 0; i < r->n && !k.found; i++)
        as_plan_each(r->deployments[i]->plan, match_name, &k);
    return k.found;
}

static void send_remove(struct as_reconciler *r, struct as_str replica)
{
    r->ops.send(r->ctx, &(struct as_ctl_message){.type = AS_CTL_REMOVE, .replica = replica});
}

/* RUNS: a replica that the supervisor has. One without a process is adopted only when EXITED
 * follows, since nobody has decided about its end; the plan makes all others anew. */
static void on_runs(struct as_reconciler *r, const struct as_ctl_message *m)
{
    struct as_reconciler_deployment *d = as_reconciler_find(r, m->deployment);
    struct as_replica_slot_facts facts;
    struct as_replica_slot *slot = NULL;

    if (!m->number && !m->pid) {
        send_remove(r, m->replica);
        return;
    }
    if (as_replica_facts_parse(&facts, m->text) == 0) {
        if (!d) /* not in the target: it answers its requests, then ends */
            d = as_reconciler_add_leftover(r, m->deployment, &facts);
        if (d)
            as_plan_adopt(d->plan, &facts, as_loop_now(r->loop), &slot);
    }
    if (slot && as_str_eq(as_replica_slot_name(slot), m->replica)) {
        struct as_reconciler_process *proc = as_reconciler_ensure_process(d, slot);

        snprintf(proc->token, sizeof(proc->token), "%.*s", AS_STR_FMT(m->token));
        proc->pid = (pid_t)m->pid;
        proc->adopted_ready = m->state == AS_CTL_READY_STATE;
        proc->leaves = proc->adopted_leaves = m->id != 0;
        proc->has_context_file = true;
        as_reconciler_adopt_devices(r, proc, m->text);
    } else if (m->pid) { /* the plan has no slot for it */
        r->ops.send(r->ctx,
                    &(struct as_ctl_message){
                        .type = AS_CTL_KILL,
                        .replica = m->replica,
                        .token = m->token,
                        .text = AS_STR("the server has no place for this replica any more")});
    }
}

static void handle_death(struct as_reconciler *r, struct as_replica_slot *slot)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);
    /* as_replica_slot_died may free the slot and its process data */
    struct as_buf reason = proc->reason;

    as_buf_init(&proc->reason);
    proc->has_ended = false;
    as_replica_slot_died(slot, proc->kind, as_buf_slice(&reason), as_loop_now(r->loop));
    as_buf_fini(&reason);
}

static void on_exited(struct as_reconciler *r, const struct as_ctl_message *m)
{
    struct as_replica_slot *slot = find_slot(r, m->replica);
    struct as_reconciler_process *proc = slot ? as_reconciler_process(slot) : NULL;

    if (!slot) {
        send_remove(r, m->replica);
        return;
    }
    if (!proc || !as_str_eq(m->token, as_str_of(proc->token)))
        return;
    proc->pid = (pid_t)m->pid;
    proc->status = (int)m->number;
    proc->kind = (enum as_exit_kind)AS_MIN(m->kind, (uint32_t)AS_EXIT_STOPPED);
    as_buf_set(&proc->reason, m->text);
    proc->has_ended = true;
    if (r->state_known) /* else the plan does not act yet */
        handle_death(r, slot);
}

static void on_dispatcher(struct as_reconciler *r, bool serving)
{
    r->serving = serving;
    as_reconciler_dispatcher_changed(r);
    for (uint32_t i = 0; i < r->n; i++)
        as_plan_set_serving(r->deployments[i]->plan, serving, as_loop_now(r->loop));
}

/* Events of adopted processes, and of processes that could not be started. An event may remove
 * slots: therefore one slot is looked for at a time. */
static void find_with_event(void *arg, struct as_replica_slot *slot)
{
    struct as_replica_slot **found = arg;
    const struct as_reconciler_process *proc = as_reconciler_process(slot);

    if (proc && (proc->adopted_ready || proc->adopted_leaves || proc->has_ended))
        *found = slot;
}

static void deliver_events(struct as_reconciler *r, struct as_reconciler_deployment *d)
{
    for (;;) {
        struct as_replica_slot *slot = NULL;
        struct as_reconciler_process *proc;
        bool leaves;

        as_plan_each(d->plan, find_with_event, &slot);
        if (!slot)
            return;
        proc = as_reconciler_process(slot);
        leaves = proc->adopted_leaves;
        proc->adopted_ready = proc->adopted_leaves = false;
        if (proc->has_ended)
            handle_death(r, slot);
        else if (leaves)
            as_replica_slot_leaves(slot, as_loop_now(r->loop));
        else
            as_replica_slot_ready(slot, as_loop_now(r->loop));
    }
}

static void count_waiting_in_line(void *arg, struct as_replica_slot *slot)
{
    *(uint32_t *)arg += as_replica_slot_is_queued(slot);
}

/* The plans have queued their slots one plan after the other. Deals them anew, so that the first
 * slot of each deployment comes before the second of any. */
static void interleave_start_line(struct as_reconciler *r)
{
    struct as_list *queues = as_xalloc((r->n + 1) * sizeof(*queues)), *node;
    uint32_t left = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t n = 0;

        as_plan_each(r->deployments[i]->plan, count_waiting_in_line, &n);
        as_list_init(&queues[i]);
        for (left += n; n > 0 && (node = as_list_pop(&r->starts.line)); n--)
            as_list_push(&queues[i], node);
    }
    for (uint32_t i = 0; left > 0; i = (i + 1) % r->n) {
        node = as_list_pop(&queues[i]);
        if (node) {
            as_list_push(&r->starts.line, node);
            left--;
        }
    }
    free(queues);
}

/* TOLD: the whole state is known. complete: the server had reached its target before. */
static void on_told(struct as_reconciler *r, bool complete)
{
    r->state_known = true;
    r->complete = complete;
    for (uint32_t i = 0; i < r->n; i++)
        as_reconciler_restore(r->deployments[i], complete);
    for (uint32_t i = 0; i < r->n; i++)
        as_plan_run(r->deployments[i]->plan, as_loop_now(r->loop));
    interleave_start_line(r);
    r->starts.max = r->conf.max_starting;
    as_start_limit_admit(&r->starts, as_loop_now(r->loop));
    as_reconciler_dispatcher_changed(r);
    for (uint32_t i = 0; i < r->n; i++)
        deliver_events(r, r->deployments[i]);
}

static void on_revive(struct as_reconciler *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n; i++)
        n += as_plan_revive(r->deployments[i]->plan, as_loop_now(r->loop));
    as_log_event(r->log, AS_LOG_INFO, "revive", "replicas=%u", n);
}

static void on_leaves(struct as_reconciler *r, struct as_replica_slot *slot)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);

    proc->leaves = true;
    as_log_event(r->log, AS_LOG_INFO, "worker_leaves", "replica=%s pid=%d",
                 as_id_shown_z(as_reconciler_slot_name(slot)), (int)proc->pid);
    as_replica_slot_leaves(slot, as_loop_now(r->loop));
}

/* A message about the current process of a slot. */
static void handle_process_message(struct as_reconciler *r, struct as_replica_slot *slot,
                                   const struct as_ctl_message *m)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);
    as_ns now = as_loop_now(r->loop);

    if (!proc || !as_replica_slot_has_process(slot) || !as_str_eq(m->token, as_str_of(proc->token)))
        return;
    if (m->type == AS_CTL_SPAWNED) {
        proc->pid = (pid_t)m->pid;
        as_log_event(r->log, AS_LOG_DEBUG, "worker_started", "replica=%s pid=%d",
                     as_id_shown_z(as_reconciler_slot_name(slot)), (int)proc->pid);
    } else if (m->type == AS_CTL_READY) {
        as_reconciler_remove_context(slot);
        as_replica_slot_ready(slot, now);
    } else if (m->type == AS_CTL_GONE) {
        as_replica_slot_lost(slot, now);
    } else if (m->type == AS_CTL_RETIRED) {
        as_replica_slot_retired(slot, now);
    } else if (m->type == AS_CTL_LEAVES) {
        on_leaves(r, slot);
    } else if (m->type == AS_CTL_STATS) {
        as_reconciler_on_stats(slot, m);
    } else if (m->type == AS_CTL_ANSWER && !as_reconciler_take_scaling(r, m)) {
        as_reconciler_remove_context(slot);
        as_replica_slot_configured(slot, m->id, m->number == 0, m->text, now);
    }
}

void as_reconciler_handle(struct as_reconciler *r, const struct as_ctl_message *m)
{
    struct as_reconciler_deployment *d;
    struct as_replica_slot *slot;

    as_loop_defer(r->loop, &r->turn_end);
    switch (m->type) {
    case AS_CTL_RUNS:
        on_runs(r, m);
        break;
    case AS_CTL_EXITED:
        on_exited(r, m);
        break;
    case AS_CTL_STAYS:
        d = as_reconciler_find(r, m->deployment);
        if (d)
            d->down = true;
        break;
    case AS_CTL_TARGET:
        as_reconciler_on_target(r, m);
        break;
    case AS_CTL_LOAD:
        as_reconciler_on_load(r, m);
        break;
    case AS_CTL_DISPATCHER:
        on_dispatcher(r, m->state == AS_CTL_READY_STATE);
        break;
    case AS_CTL_TOLD:
        on_told(r, m->number != 0);
        break;
    case AS_CTL_REVIVE:
        on_revive(r);
        break;
    default:
        slot = find_slot(r, m->replica);
        if (slot)
            handle_process_message(r, slot, m);
    }
}

/* --- time --- */

static void on_tick(struct as_timer *t)
{
    struct as_reconciler *r = AS_CONTAINER(t, struct as_reconciler, timer);

    as_loop_defer(r->loop, &r->turn_end);
}

static uint32_t count_target_replicas(const struct as_reconciler *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n; i++)
        n += as_plan_target(r->deployments[i]->plan)->replicas;
    return n;
}

/* It has its target number of replicas, as far as there are devices for them; or it has failed, in
 * a server that goes on without. */
static bool is_complete(const struct as_reconciler *r, const struct as_reconciler_deployment *d)
{
    enum as_condition_status s = as_plan_condition(d->plan)->status;

    return d->deleting ||
           as_plan_running(d->plan) + as_plan_lacking(d->plan) >=
               as_plan_target(d->plan)->replicas ||
           (r->conf.tolerate_failures &&
            (s == AS_STATUS_DEPLOY_FAILED || s == AS_STATUS_UNHEALTHY));
}

/* Sends COMPLETE when every replica is READY, not just one of each deployment. */
static void check_complete(struct as_reconciler *r)
{
    uint32_t n = 0;

    if (r->complete || !r->serving)
        return;
    for (uint32_t i = 0; i < r->n; i++) {
        if (!is_complete(r, r->deployments[i]))
            return;
        n += as_plan_running(r->deployments[i]->plan);
    }
    r->complete = true;
    r->ops.send(r->ctx, &(struct as_ctl_message){
                            .type = AS_CTL_COMPLETE, .number = n, .id = count_target_replicas(r)});
}

static void report_wait(void *arg, struct as_replica_slot *slot)
{
    struct as_reconciler_process *proc = as_reconciler_ensure_process(arg, slot);

    enum as_reconciler_wait wait = as_replica_slot_lack(slot).n      ? AS_RECONCILER_WAIT_DEVICES
                                   : as_replica_slot_is_queued(slot) ? AS_RECONCILER_WAIT_IN_LINE
                                                                     : AS_RECONCILER_WAIT_NONE;

    if (wait == proc->wait)
        return;
    proc->wait = wait;
    if (wait)
        as_reconciler_report_slot(slot);
}

static void send_serving(struct as_reconciler *r)
{
    r->serving_sent = true;
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->deployments[i]->deleting) /* the controller before may not have sent it */
            as_reconciler_report_delete(r->deployments[i], false);
        as_reconciler_report_status(r->deployments[i]);
    }
    as_log_event(r->log, AS_LOG_INFO, "controller_ready", "replicas=%u started=%u",
                 count_target_replicas(r), r->n_started);
    r->ops.send(r->ctx, &(struct as_ctl_message){.type = AS_CTL_SERVING});
}

/* Reports one outcome. The owner may set another target in the callback: therefore the caller
 * starts anew each time. */
static bool notify_owner(struct as_reconciler *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct as_reconciler_deployment *d = r->deployments[i];
        const struct as_plan_target *stable = as_plan_stable(d->plan),
                                    *previous = as_plan_previous(d->plan);
        struct as_reconciler_outcome n = {.application = as_str_of(d->application),
                                          .deployment = as_str_of(d->name)};

        if (d->report_stable && stable) {
            d->report_stable = false;
            n.generation = stable->generation;
            n.before = previous ? previous->generation : 0;
            r->ops.on_stable(r->ctx, &n);
            return true;
        }
        if (d->failed_generation) {
            n.generation = as_plan_target(d->plan)->generation;
            n.before = d->failed_generation;
            n.why = as_buf_slice(&d->failure);
            d->failed_generation = 0;
            r->ops.on_rolled_back(r->ctx, &n);
            return true;
        }
    }
    return false;
}

/* At the end of each turn in which something happened. */
static void on_turn_end(struct as_task *t)
{
    struct as_reconciler *r = AS_CONTAINER(t, struct as_reconciler, turn_end);
    as_ns next, now = as_loop_now(r->loop);

    if (!r->state_known || r->fatal_sent)
        return;
    for (uint32_t i = 0; i < r->n; i++) {
        deliver_events(r, r->deployments[i]);
        if (as_plan_next_due(r->deployments[i]->plan) <= now)
            as_plan_tick(r->deployments[i]->plan, now);
    }
    while (notify_owner(r))
        ;
    as_reconciler_prune(r);
    next = as_reconciler_autoscale(r);
    /* only now: events of one plan may have admitted starts of another */
    for (uint32_t i = 0; i < r->n; i++) {
        as_plan_each(r->deployments[i]->plan, report_wait, r->deployments[i]);
        next = AS_MIN(next, as_plan_next_due(r->deployments[i]->plan));
    }
    if (!r->serving_sent)
        send_serving(r);
    check_complete(r);
    as_timer_set(&r->timer, next);
    if (r->conf.on_change)
        r->conf.on_change(r->conf.ctx);
}

/* A list that cannot be parsed counts as no devices: GPUs may have names that are no numbers. */
static void init_devices(struct as_reconciler *r, struct as_spec_devices *d, const char *what,
                         const char *list)
{
    if (as_spec_devices_init(d, list ? list : "") == 0)
        return;
    d->n = 0;
    as_log_event(r->log, AS_LOG_WARN, "devices_unknown", "kind=%s list=%s", what, list);
}

int as_reconciler_new(struct as_reconciler **ret_r, struct as_loop *loop,
                      const struct as_reconciler_conf *conf, const struct as_reconciler_ops *ops,
                      void *ctx, const struct as_log *log)
{
    struct as_reconciler *r = as_xalloc(sizeof(*r));

    r->conf = *conf;
    r->ops = *ops;
    r->ctx = ctx;
    r->loop = loop;
    r->log = log;
    r->rand.s = conf->seed;
    as_generations_init(&r->generations, ops->load, ctx);
    init_devices(r, &r->devices[AS_RECONCILER_GPUS], "gpus", conf->gpus);
    init_devices(r, &r->devices[AS_RECONCILER_CPUS], "cpus", conf->cpus);
    as_start_limit_init(&r->starts, 0); /* no start before TOLD */
    as_task_init(&r->turn_end, on_turn_end);
    as_timer_init(&r->timer, loop, on_tick);
    *ret_r = r;
    return 0;
}

void as_reconciler_close(struct as_reconciler *r)
{
    as_task_cancel(&r->turn_end);
    as_timer_close(&r->timer, NULL);
}

void as_reconciler_free(struct as_reconciler *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->n; i++)
        as_reconciler_free_deployment(r->deployments[i]);
    for (uint32_t i = 0; i < r->n_applications; i++)
        free(r->applications[i].name);
    as_generations_fini(&r->generations);
    free(r->applications);
    free(r->deployments);
    free(r);
}
