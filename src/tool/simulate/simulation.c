/* The dispatcher's side: carries out what core decides, and passes on what workers say. */
#include "tool/simulate/simulation.h"

#include "tool/simulate/simulation_internal.h"

void sim_schedule(struct sim *s, as_ns when, enum sim_event_type type, void *of, uint64_t stream)
{
    struct sim_event e = {.type = type, .of = of, .stream = stream};

    as_event_heap_put(&s->heap, when, &e, sizeof(e));
}

/* --- pools --- */

static struct sim_call *call_new(struct sim *s)
{
    struct sim_call *c = s->free_calls;

    if (!c)
        c = as_xalloc(sizeof(*c));
    else
        s->free_calls = c->next;
    c->next = NULL;
    c->execution = NULL;
    as_request_init(&c->q);
    s->open++;
    return c;
}

static void call_free(struct sim *s, struct sim_call *c)
{
    c->execution = NULL;
    c->next = s->free_calls;
    s->free_calls = c;
    s->open--;
}

struct sim_execution *sim_execution_new(struct sim *s, struct sim_worker *w)
{
    struct as_list *node = as_list_pop(&s->free_executions);
    struct sim_execution *x =
        node ? AS_LIST_ENTRY(node, struct sim_execution, node) : as_xalloc(sizeof(*x));

    *x = (struct sim_execution){.worker = w};
    as_list_init(&x->node);
    return x;
}

void sim_execution_free(struct sim *s, struct sim_execution *x)
{
    as_list_push(&s->free_executions, &x->node);
}

/* --- results --- */

static void add_latency(struct as_simulation_latency *l, as_ns ns)
{
    as_loghist_add(&l->hist, ns);
    l->sum += (double)ns;
}

static void count_answer(struct sim *s, const struct sim_call *c)
{
    struct as_simulation_result *r = s->result;

    r->answered++;
    r->end = s->now;
    as_timeline_now(&r->timeline)->answered++;
    add_latency(&r->queue, c->started - c->q.arrived);
    add_latency(&r->service, c->ran);
    add_latency(&r->total, s->now - c->q.arrived);
    add_latency(&r->of_priority[c->q.priority], s->now - c->q.arrived);
}

static void count_failure(struct sim *s, int err)
{
    struct as_simulation_result *r = s->result;

    AS_ASSERT(err < 0 && err > -(int)AS_ERR_ROWS);
    r->failed[-err]++;
    r->end = s->now;
    as_timeline_now(&r->timeline)->failed++;
}

uint64_t as_simulation_failures(const struct as_simulation_result *r)
{
    uint64_t n = 0;

    for (size_t i = 0; i < AS_COUNT(r->failed); i++)
        n += r->failed[i];
    return n;
}

void as_simulation_result_fini(struct as_simulation_result *r)
{
    for (uint32_t i = 0; i < r->n_decisions; i++)
        free(r->decisions[i].why);
    as_timeline_fini(&r->timeline);
}

/* --- ops of core --- */

static struct sim_call *call_of(struct as_request *q)
{
    return AS_CONTAINER(q, struct sim_call, q);
}

static void op_batch(void *ctx, struct as_replica *r, uint32_t n)
{
    struct sim *s = ctx;

    AS_ASSERT(!s->batch_left);
    s->batch = sim_execution_new(s, as_replica_link(r));
    s->batch->batch = true;
    s->batch_left = n;
    s->result->batches++;
    s->result->batched += n;
}

static void send_execution(struct sim *s, struct sim_execution *x)
{
    if (s->conf->link_latency)
        sim_schedule(s, s->now + s->conf->link_latency, SIM_ARRIVE, x, 0);
    else
        sim_worker_receive(s, x);
}

static void op_send(void *ctx, struct as_replica *r, struct as_request *q)
{
    struct sim *s = ctx;
    struct sim_call *c = call_of(q);
    struct sim_execution *x = s->batch_left ? s->batch : sim_execution_new(s, as_replica_link(r));

    q->stream = ++s->last_stream;
    c->execution = x;
    c->next = NULL;
    if (x->n++)
        x->last->next = c;
    else
        x->first = c;
    x->last = c;
    if (!s->batch_left || --s->batch_left == 0)
        send_execution(s, x);
}

static void op_recall(void *ctx, struct as_replica *r, struct as_request *const *q, uint32_t n)
{
    struct sim *s = ctx;
    struct sim_recall *m = as_xalloc(sizeof(*m) + n * sizeof(m->of[0]));

    m->worker = as_replica_link(r);
    m->worker->recalls++;
    m->n = n;
    for (uint32_t i = 0; i < n; i++) {
        m->of[i].call = call_of(q[i]);
        m->of[i].stream = q[i]->stream;
    }
    sim_schedule(s, s->now + s->conf->link_latency, SIM_RECALL, m, 0);
}

static void op_cancel(void *ctx, struct as_replica *r AS_UNUSED, struct as_request *q,
                      int reason AS_UNUSED)
{
    struct sim *s = ctx;

    sim_schedule(s, s->now + s->conf->link_latency, SIM_CANCEL, call_of(q), q->stream);
}

static void op_answer(void *ctx, struct as_request *q AS_UNUSED, int err)
{
    count_failure(ctx, err);
}

static void op_release(void *ctx, struct as_request *q)
{
    call_free(ctx, call_of(q));
}

/* as_deployment_next_deadline is asked after every event. */
static void op_wake(void *ctx AS_UNUSED, as_ns when AS_UNUSED)
{
}

/* How long the second execution takes does not depend on the first one: as long as the request that
 * came before this one. */
static struct as_request *op_hedge(void *ctx, struct as_request *q)
{
    struct sim_call *c = call_new(ctx);

    c->service = call_of(q)->service_before;
    return &c->q;
}

static const struct as_deployment_ops ops = {
    .batch = op_batch,
    .send = op_send,
    .recall = op_recall,
    .cancel = op_cancel,
    .answer = op_answer,
    .release = op_release,
    .wake = op_wake,
    .hedge = op_hedge,
};

/* --- what workers say --- */

static void on_done(struct sim *s, struct sim_execution *x)
{
    struct as_replica *r = x->worker->replica;

    for (struct sim_call *c = x->first, *next; c; c = next) {
        next = c->next;
        c->execution = NULL;
        if (as_replica_done(r, &c->q, c->ran, false, s->now)) {
            count_answer(s, c);
            call_free(s, c);
        }
    }
    sim_execution_free(s, x);
}

static void on_finish(struct sim *s, struct sim_execution *x)
{
    sim_worker_finish(s, x);
    if (s->conf->link_latency)
        sim_schedule(s, s->now + s->conf->link_latency, SIM_DONE, x, 0);
    else
        on_done(s, x);
}

static void on_cancel(struct sim *s, const struct sim_event *e)
{
    if (sim_worker_drop(e->of, e->stream))
        sim_schedule(s, s->now + s->conf->link_latency, SIM_DROPPED, e->of, 0);
}

/* Its client has been answered, so this releases it. */
static void on_dropped(struct sim *s, struct sim_call *c)
{
    struct sim_execution *x = c->execution;
    bool answered;

    c->execution = NULL;
    answered = as_replica_done(x->worker->replica, &c->q, 0, false, s->now);
    AS_ASSERT(!answered);
    sim_execution_free(s, x);
}

/* The worker keeps what has begun or ended; the others stay in the message. */
static void on_recall(struct sim *s, struct sim_recall *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n; i++) {
        if (sim_worker_drop(m->of[i].call, m->of[i].stream))
            m->of[n++] = m->of[i];
    }
    m->n = n;
    sim_schedule(s, s->now + s->conf->link_latency, SIM_RETURNED, m, 0);
}

static void on_returned(struct sim *s, struct sim_recall *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        struct sim_call *c = m->of[i].call;

        sim_execution_free(s, c->execution);
        c->execution = NULL;
        as_replica_returned(m->worker->replica, &c->q, s->now);
    }
    s->result->recalled += m->n;
    m->worker->recalls--;
    as_replica_recall_done(m->worker->replica, s->now);
    free(m);
}

static void handle(struct sim *s, const struct sim_event *e)
{
    switch (e->type) {
    case SIM_ARRIVE:
        sim_worker_receive(s, e->of);
        break;
    case SIM_FINISH:
        on_finish(s, e->of);
        break;
    case SIM_DONE:
        on_done(s, e->of);
        break;
    case SIM_CANCEL:
        on_cancel(s, e);
        break;
    case SIM_DROPPED:
        on_dropped(s, e->of);
        break;
    case SIM_RECALL:
        on_recall(s, e->of);
        break;
    case SIM_RETURNED:
        on_returned(s, e->of);
        break;
    case SIM_HELD:
        sim_worker_reported(s, e->of);
        break;
    case SIM_STARTED:
        sim_controller_started(s, e->of);
        break;
    case SIM_COUNT:
        sim_controller_count(s);
        break;
    case SIM_DECIDE:
        sim_controller_decide(s);
        break;
    case SIM_HORIZON:
        s->beyond_horizon = true;
        break;
    }
}

/* --- requests --- */

static as_ns deadline_of(const struct sim *s, const struct as_trace_row *row)
{
    if (row->deadline != AS_NEVER)
        return s->now + row->deadline;
    return s->conf->request_timeout ? s->now + s->conf->request_timeout : AS_NEVER;
}

static void submit(struct sim *s, const struct as_trace_row *row)
{
    struct sim_call *c;
    int err;

    s->result->requests++;
    as_timeline_now(&s->result->timeline)->arrived++;
    if (s->open >= s->conf->max_requests) {
        count_failure(s, AS_EFULL);
        return;
    }
    c = call_new(s);
    c->service_before = s->last_service;
    c->service = s->last_service = row->service;
    c->q.idempotent = c->q.unary = s->conf->order.hedging.quantile != 0;
    c->q.priority = row->priority;
    c->q.deadline = deadline_of(s, row);
    c->q.items = 1;
    c->q.model_key = row->model_key;
    c->q.session_key = row->session_key;
    c->q.tenant = row->tenant_key;
    err = as_deployment_submit(s->d, &c->q, s->now);
    if (err) {
        count_failure(s, err);
        call_free(s, c);
    }
}

/* --- the run --- */

static void set_order(struct sim *s)
{
    const struct as_simulation_order *o = &s->conf->order;

    if (o->share)
        as_deployment_set_share(s->d, o->share);
    as_deployment_set_fair(s->d, o->fair, o->cost);
    as_deployment_set_codel(s->d, &o->codel);
    as_deployment_set_slow_start(s->d, o->slow_start, s->now);
    as_deployment_set_adaptive(s->d, o->adaptive, s->now);
    as_deployment_set_hedging(s->d, &o->hedging, s->now);
}

static int sim_open(struct sim *s)
{
    int rc = as_deployment_new(&s->d, as_str_of(s->conf->name), &s->conf->deployment, &ops, s);

    if (rc == 0 && s->conf->batching.max_size)
        rc = as_deployment_set_batching(s->d, 0, &s->conf->batching);
    if (rc == 0) {
        set_order(s);
        sim_controller_start(s);
    }
    if (rc == 0 && s->conf->horizon)
        sim_schedule(s, s->conf->horizon, SIM_HORIZON, NULL, 0);
    s->beyond_horizon = !s->conf->horizon;
    return rc;
}

static void free_execution_of(struct sim *s, const struct sim_event *e)
{
    switch (e->type) {
    case SIM_ARRIVE:
    case SIM_FINISH:
    case SIM_DONE:
        sim_execution_free(s, e->of);
        break;
    case SIM_DROPPED:
        sim_execution_free(s, ((struct sim_call *)e->of)->execution);
        break;
    case SIM_RECALL:
        free(e->of);
        break;
    case SIM_RETURNED: {
        struct sim_recall *m = e->of;

        for (uint32_t i = 0; i < m->n; i++)
            sim_execution_free(s, m->of[i].call->execution);
        free(m);
        break;
    }
    default:
        break;
    }
}

/* Frees everything, also what a wrong row of the trace has left in the middle. */
static void sim_close(struct sim *s)
{
    struct as_list *node;
    struct sim_event e;

    while (s->heap.n) {
        as_event_heap_take(&s->heap, &e, sizeof(e));
        free_execution_of(s, &e);
    }
    sim_controller_end(s);
    if (s->d) {
        s->result->ejected = as_deployment_stat(s->d)->ejected;
        s->result->hedges = as_deployment_stat(s->d)->hedges;
        s->result->hedges_won = as_deployment_stat(s->d)->hedges_won;
        as_deployment_free(s->d); /* answers what still waits */
    }
    while (s->free_calls) {
        struct sim_call *c = s->free_calls;

        s->free_calls = c->next;
        free(c);
    }
    while ((node = as_list_pop(&s->free_executions)))
        free(AS_LIST_ENTRY(node, struct sim_execution, node));
    as_event_heap_fini(&s->heap);
}

static void advance(struct sim *s, as_ns when)
{
    AS_ASSERT(when >= s->now);
    as_timeline_advance(&s->result->timeline, when, &s->levels);
    s->now = when;
}

/* Does what is due next; at the same time: workers first, then deadlines, then arrivals. False:
 * nothing is left to do. */
static bool step(struct sim *s, struct as_workload *workload, struct as_trace_row *row, int *more,
                 struct as_buf *err)
{
    as_ns event = as_event_heap_next(&s->heap), due = as_deployment_next_deadline(s->d);
    as_ns arrival = *more > 0 ? row->arrival : AS_NEVER;

    /* an autoscaler would go on deciding for ever */
    if (*more == 0 && !s->open && s->beyond_horizon)
        return false;
    if (event <= due && event <= arrival && event != AS_NEVER) {
        struct sim_event e;

        as_event_heap_take(&s->heap, &e, sizeof(e));
        advance(s, e.due.at);
        handle(s, &e);
    } else if (due <= arrival && due != AS_NEVER) {
        advance(s, AS_MAX(due, s->now));
        as_deployment_expire(s->d, s->now);
    } else if (arrival != AS_NEVER) {
        advance(s, arrival);
        submit(s, row);
        *more = as_workload_next(workload, row, err);
    } else {
        return false;
    }
    s->levels.queued = as_deployment_queued(s->d) + as_deployment_prefetched(s->d);
    sim_controller_notice(s);
    return *more >= 0;
}

int as_simulation_run(const struct as_simulation_conf *conf, struct as_workload *workload,
                      struct as_simulation_result *ret_r, struct as_buf *err)
{
    struct sim s = {.conf = conf, .result = ret_r};
    struct as_trace_row row;
    int rc, more = 0;

    *ret_r = (struct as_simulation_result){0};
    as_timeline_init(&ret_r->timeline);
    as_list_init(&s.free_executions);
    rc = sim_open(&s);
    if (rc < 0) {
        as_buf_printf(err, "the deployment's options are not valid: %s", as_err_text(rc));
    } else {
        more = as_workload_next(workload, &row, err);
        while (more >= 0 && step(&s, workload, &row, &more, err))
            ;
    }
    sim_close(&s);
    return rc < 0 ? rc : AS_MIN(more, 0);
}
