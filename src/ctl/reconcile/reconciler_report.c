/* Status messages about deployments, applications and replicas, for the status page and people. */
#include "ctl/reconcile/reconciler_internal.h"

void as_reconciler_send(struct as_replica_slot *slot, struct as_ctl_message m)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);
    uint32_t starts = as_replica_slot_facts(slot)->starts;

    m.replica = as_replica_slot_name(slot);
    m.deployment = as_str_of(proc->deployment->name);
    m.token = as_str_of(proc->token);
    m.restarts = starts ? starts - 1 : 0;
    proc->deployment->reconciler->ops.send(proc->deployment->reconciler->ctx, &m);
}

/* The end of its last process does not matter for one that is READY or ending. */
struct as_str as_reconciler_slot_message(const struct as_replica_slot *slot)
{
    struct as_str lack = as_replica_slot_lack(slot);

    if (lack.n)
        return lack;
    switch (as_replica_slot_state(slot)) {
    case AS_REPLICA_SLOT_WAITING:
    case AS_REPLICA_SLOT_STARTING:
    case AS_REPLICA_SLOT_DOWN:
        return as_replica_slot_reason(slot);
    default:
        return AS_STR("");
    }
}

static void put_capacity(const struct as_reconciler_deployment *d, struct as_buf *text)
{
    as_buf_printf(text, "target_capacity: %.6g%% of ", d->capacity.share / 1e3);
    if (d->scaler)
        as_buf_str(text, "its minimum and maximum");
    else
        as_buf_printf(text, "%u replicas", as_reconciler_whole(d));
}

void as_reconciler_deployment_message(const struct as_reconciler_deployment *d, struct as_buf *text)
{
    const struct as_condition *c = as_plan_condition(d->plan);
    struct as_str message = as_condition_text(c), lack = as_condition_lack(c);
    size_t before = text->n;

    as_buf_add(text, message.p, message.n);
    if (message.n && lack.n && message.p[message.n - 1] != '\n')
        as_buf_str(text, "\n");
    as_buf_add(text, lack.p, lack.n);
    if (d->scaled >= 0 && !d->scaler)
        as_buf_printf(text, "%sscaled to %u; num_replicas is %u", text->n > before ? "\n" : "",
                      (unsigned)d->scaled, d->declared);
    if (d->capacity.share != AS_CAPACITY_UNSET && d->capacity.share != AS_CAPACITY_ALL) {
        as_buf_str(text, text->n > before ? "\n" : "");
        put_capacity(d, text);
    }
    if (d->code && strcmp(d->code, "live") == 0)
        as_buf_printf(text, "%scode: live", text->n > before ? "\n" : "");
}

void as_reconciler_report_slot(struct as_replica_slot *slot)
{
    bool down = as_replica_slot_state(slot) == AS_REPLICA_SLOT_DOWN;

    as_reconciler_send(slot,
                       (struct as_ctl_message){
                           .type = AS_CTL_PLACE,
                           .state = down ? AS_CTL_DOWN_STATE : AS_CTL_WAITING_STATE,
                           .text = as_reconciler_process(slot)->wait == AS_RECONCILER_WAIT_IN_LINE
                                       ? AS_STR("others are starting (--max-starting)")
                                       : as_reconciler_slot_message(slot)});
}

void as_reconciler_report_down(struct as_reconciler_deployment *d, bool down, struct as_str why)
{
    d->down = down;
    d->reconciler->ops.send(d->reconciler->ctx,
                            &(struct as_ctl_message){.type = down ? AS_CTL_DOWN : AS_CTL_UP,
                                                     .deployment = as_str_of(d->name),
                                                     .text = why});
}

/* True: it was sent. */
static bool declare_model(struct as_reconciler *r, struct as_str deployment,
                          const struct as_declared_model *m, size_t *room)
{
    size_t n = AS_CTL_DECLARED_ROW + strlen(m->name) + m->frame.n;

    if (!m->frame.n || m->frame.n > AS_CTL_TEXT_MAX || n > *room)
        return false;
    *room -= n;
    r->ops.send(r->ctx, &(struct as_ctl_message){.type = AS_CTL_DECLARE,
                                                 .deployment = deployment,
                                                 .replica = as_str_of(m->name),
                                                 .text = as_buf_slice(&m->frame)});
    return true;
}

void as_reconciler_declare(struct as_reconciler *r, const struct as_declared_deployment *models,
                           struct as_str settings, size_t *room)
{
    struct as_str name = as_str_of(models->name);
    bool whole = models->n_models > 0 && settings.n <= *room;

    *room -= whole ? settings.n : 0;
    for (uint32_t i = 0; i < models->n_models; i++)
        whole = declare_model(r, name, &models->models[i], room) && whole;
    r->ops.send(r->ctx,
                &(struct as_ctl_message){
                    .type = AS_CTL_DECLARE, .deployment = name, .number = whole, .text = settings});
}

void as_reconciler_send_route(struct as_reconciler *r, struct as_str deployment,
                              struct as_str prefix)
{
    r->ops.send(r->ctx, &(struct as_ctl_message){
                            .type = AS_CTL_ROUTE, .deployment = deployment, .text = prefix});
}

void as_reconciler_send_confirm(struct as_reconciler *r, uint64_t id)
{
    r->ops.send(r->ctx, &(struct as_ctl_message){.type = AS_CTL_CONFIRM, .id = id});
}

void as_reconciler_report_delete(struct as_reconciler_deployment *d, bool gone)
{
    d->reconciler->ops.send(d->reconciler->ctx,
                            &(struct as_ctl_message){.type = AS_CTL_DELETE,
                                                     .deployment = as_str_of(d->name),
                                                     .number = gone});
}

static void send_application_status(const struct as_reconciler *r, const char *application,
                                    as_ns since, struct as_str text)
{
    r->ops.send(r->ctx, &(struct as_ctl_message){.type = AS_CTL_STATUS,
                                                 .replica = as_str_of(application),
                                                 .ns = since,
                                                 .text = text});
}

enum as_application_status as_reconciler_application_status(const struct as_reconciler *r,
                                                            uint32_t first, uint32_t n)
{
    const struct as_condition **all = as_xalloc((n + 1) * sizeof(const struct as_condition *));
    enum as_application_status s;
    uint32_t ending = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct as_reconciler_deployment *d = r->deployments[first + i];

        ending += d->deleting;
        all[i] = as_plan_condition(d->plan);
    }
    s = as_application_status_of(all, n, n && ending == n);
    free(all);
    return s;
}

/* Returns the number of its deployments, of which *ret_first is the first. */
static uint32_t find_application_deployments(const struct as_reconciler *r, const char *name,
                                             uint32_t *ret_first)
{
    uint32_t i = 0;

    while (i < r->n && strcmp(r->deployments[i]->application, name) != 0)
        i++;
    *ret_first = i;
    return i < r->n ? as_reconciler_application_size(r, i) : 0;
}

static struct as_reconciler_application *find_or_add_application(struct as_reconciler *r,
                                                                 const char *name)
{
    for (uint32_t i = 0; i < r->n_applications; i++) {
        if (strcmp(r->applications[i].name, name) == 0)
            return &r->applications[i];
    }
    r->applications =
        as_xrealloc(r->applications, (r->n_applications + 1) * sizeof(*r->applications));
    r->applications[r->n_applications] = (struct as_reconciler_application){
        .name = as_str_dup(as_str_of(name)), .reported = AS_APPLICATION_NOT_STARTED};
    return &r->applications[r->n_applications++];
}

/* Sends its status if that has changed. False: it has no deployments any more. */
static bool report_application(const struct as_reconciler *r, struct as_reconciler_application *a,
                               as_ns now)
{
    char text[64]; /* no trigger, no message */
    uint32_t first, n = find_application_deployments(r, a->name, &first);
    enum as_application_status s = as_reconciler_application_status(r, first, n);

    if (n && s != a->reported) {
        a->reported = s;
        snprintf(text, sizeof(text), "%s  ", as_application_status_name(s));
        send_application_status(r, a->name, now, as_str_of(text));
    } else if (!n) {
        send_application_status(r, a->name, now, AS_STR(""));
    }
    return n > 0;
}

void as_reconciler_report_applications(struct as_reconciler *r)
{
    as_ns now = as_loop_now(r->loop);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < r->n; i += as_reconciler_application_size(r, i))
        find_or_add_application(r, r->deployments[i]->application);
    for (uint32_t i = 0; i < r->n_applications; i++) {
        struct as_reconciler_application *a = &r->applications[i];

        if (report_application(r, a, now))
            r->applications[kept++] = *a;
        else
            free(a->name);
    }
    r->n_applications = kept;
}

void as_reconciler_report_status(struct as_reconciler_deployment *d)
{
    const struct as_condition *c = as_plan_condition(d->plan);
    struct as_buf b = {0};

    if (!d->reconciler->state_known)
        return; /* before TOLD the state is incomplete */
    as_buf_printf(&b, "%s %s ", as_condition_status_name(c->status),
                  as_condition_trigger_name(c->trigger));
    as_reconciler_deployment_message(d, &b);
    as_reconciler_explain(d, &b);
    d->reported = as_plan_target(d->plan)->replicas;
    d->reconciler->ops.send(d->reconciler->ctx,
                            &(struct as_ctl_message){.type = AS_CTL_STATUS,
                                                     .replica = as_str_of(d->application),
                                                     .deployment = as_str_of(d->name),
                                                     .ns = c->since,
                                                     .id = 1,
                                                     .number = d->reported,
                                                     .text = as_buf_slice(&b)});
    as_buf_fini(&b);
    report_application(d->reconciler, find_or_add_application(d->reconciler, d->application),
                       c->since);
}
