/* CONTROL and OPTIONS: health checks and reconfiguration from the server, and options for it.
 *
 * A CONTROL is answered by user code, so it waits for the runner; one at a time is answered. */
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"

#include <string.h>

#define ASKS_MAX 8u /* queued CONTROLs; a dispatcher sends one of each kind at a time */

struct as_worker_ask {
    struct as_list node;
    struct as_worker_link *link;  /* where the answer goes … */
    uint64_t stream, link_number; /* … unless that link has ended */
    uint16_t op;
    size_t n;
    char text[];
};

/* --- receiving CONTROL --- */

static void send_reply(struct as_worker_link *l, uint64_t stream, uint16_t op, uint32_t code,
                       struct as_str text)
{
    struct as_frame_control c = {.op = op, .reply = true, .code = code, .text = text};

    as_frame_put_control(&l->out, stream, &c);
}

/* n_asks is read without the lock: how many CONTROLs can be taken. */
static void update_ask_count(struct as_worker *w)
{
    atomic_store_explicit(&w->n_asks, w->ask_in_progress ? 0 : w->n_queued_asks,
                          memory_order_relaxed);
}

static void enqueue_ask(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                        const struct as_frame_control *c)
{
    struct as_worker_ask *a = w->n_queued_asks < ASKS_MAX ? malloc(sizeof(*a) + c->text.n) : NULL;

    if (!a) {
        send_reply(l, f->stream, c->op, AS_STATUS_RESOURCE_EXHAUSTED,
                   AS_STR("the worker has too many unanswered CONTROLs"));
        return;
    }
    *a = (struct as_worker_ask){
        .link = l, .stream = f->stream, .link_number = l->number, .op = c->op, .n = c->text.n};
    if (a->n)
        memcpy(a->text, c->text.p, a->n);
    as_list_push(&w->asks, &a->node);
    w->n_queued_asks++;
    update_ask_count(w);
}

void as_worker_on_control(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_frame_control c;
    bool takes = w->conf.flags & AS_WORKER_ASKS;

    if (as_frame_get_control(f, &c) || c.reply) {
        as_worker_close_link(w, l, "the dispatcher sent a malformed CONTROL");
        return;
    }
    if (c.op == AS_CONTROL_HEALTH && (w->health || !takes))
        send_reply(l, f->stream, c.op, w->health, as_str_of(w->health_text));
    else if (takes && (c.op == AS_CONTROL_HEALTH || c.op == AS_CONTROL_RECONFIGURE ||
                       c.op == AS_CONTROL_SCALING))
        enqueue_ask(w, l, f, &c);
    else
        send_reply(l, f->stream, c.op, AS_STATUS_UNIMPLEMENTED, (struct as_str){0});
}

void as_worker_drop_asks(struct as_worker *w, const struct as_worker_link *l)
{
    AS_LIST_EACH_ENTRY(a, struct as_worker_ask, node, &w->asks) {
        if (a->link != l)
            continue;
        as_list_remove(&a->node);
        free(a);
        w->n_queued_asks--;
    }
    update_ask_count(w);
}

/* --- answering --- */

struct as_worker_ask *as_worker_next_ask(struct as_worker *w)
{
    struct as_worker_ask *a = NULL;
    struct as_list *n;

    if (!atomic_load_explicit(&w->n_asks, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&w->mu);
    if (!w->ask_in_progress && (n = as_list_pop(&w->asks))) {
        a = AS_LIST_ENTRY(n, struct as_worker_ask, node);
        w->n_queued_asks--;
        w->ask_in_progress = true;
        update_ask_count(w);
        w->runner_seen = as_clock_now();
        as_worker_set_held(w, 0); /* no handler runs */
        as_worker_arm_guard(w);   /* the guard answers pings meanwhile */
    }
    pthread_mutex_unlock(&w->mu);
    return a;
}

enum as_worker_ask_op as_worker_ask_op(const struct as_worker_ask *ask)
{
    return (enum as_worker_ask_op)ask->op;
}

struct as_str as_worker_ask_text(const struct as_worker_ask *ask)
{
    return (struct as_str){ask->text, ask->n};
}

void as_worker_reply(struct as_worker *w, struct as_worker_ask *ask, uint32_t status,
                     struct as_str text)
{
    pthread_mutex_lock(&w->mu);
    w->ask_in_progress = false;
    update_ask_count(w);
    if (ask->link_number == ask->link->number && as_transport_is_open(ask->link->transport)) {
        send_reply(ask->link, ask->stream, ask->op, status <= 16 ? status : AS_STATUS_UNKNOWN,
                   text);
        as_worker_send(w);
    }
    if (w->n_queued_asks)
        as_worker_wake(w);
    pthread_mutex_unlock(&w->mu);
    free(ask);
}

void as_worker_busy(struct as_worker *w, bool busy)
{
    as_worker_set_held(w, busy ? as_clock_now() : 0);
}

/* --- options --- */

/* Encodes a time; 0 is left out. False: it is out of range. */
static bool set_option_time(struct as_frame_options *o, enum as_frame_option key, as_ns v)
{
    if (!v)
        return true;
    if (v != AS_NEVER && v > AS_FRAME_OPTION_MAX)
        return false;
    o->has |= 1u << key;
    o->value[key] = v == AS_NEVER ? 0 : v;
    return true;
}

static void set_option(struct as_frame_options *o, enum as_frame_option key, uint64_t v)
{
    o->has |= 1u << key;
    o->value[key] = v;
}

/* The order of requests, and what protects from overload. */
static bool encode_order(const struct as_worker_options *v, struct as_frame_options *o)
{
    static_assert((int)AS_WORKER_FAIR_COST == (int)AS_FRAME_FAIR_COST, "the same numbers");
    if (!set_option_time(o, AS_FRAME_OPT_CODEL_TARGET, v->codel_target) ||
        !set_option_time(o, AS_FRAME_OPT_SLOW_START, v->slow_start) ||
        (v->codel_interval != AS_NEVER &&
         !set_option_time(o, AS_FRAME_OPT_CODEL_INTERVAL, v->codel_interval)) ||
        !set_option_time(o, AS_FRAME_OPT_HEDGE_MIN_DELAY, v->hedge_min_delay) ||
        v->hedge_quantile > 999 || v->hedge_budget > 1000 ||
        (v->priority_share && v->priority_share < AS_FRAME_SHARE_LEAST) ||
        v->priority_share > AS_FRAME_SHARE_MOST || v->fairness > AS_WORKER_FAIR_COST)
        return false;
    if (v->priority_share)
        set_option(o, AS_FRAME_OPT_PRIORITY_SHARE, v->priority_share);
    if (v->fairness)
        set_option(o, AS_FRAME_OPT_FAIRNESS, v->fairness);
    if (v->adaptive_concurrency)
        set_option(o, AS_FRAME_OPT_ADAPTIVE, 1);
    if (v->hedge_quantile)
        set_option(o, AS_FRAME_OPT_HEDGE_QUANTILE, v->hedge_quantile);
    if (v->hedge_budget)
        set_option(o, AS_FRAME_OPT_HEDGE_BUDGET, v->hedge_budget);
    return true;
}

/* Encodes v for the OPTIONS frame. False: a value is out of range. */
static bool encode_options(const struct as_worker_options *v, struct as_frame_options *o)
{
    if (!set_option_time(o, AS_FRAME_OPT_HEALTH_PERIOD, v->health_period) ||
        !set_option_time(o, AS_FRAME_OPT_HEALTH_TIMEOUT, v->health_timeout) ||
        !set_option_time(o, AS_FRAME_OPT_EXECUTION_TIMEOUT, v->execution_timeout) ||
        !set_option_time(o, AS_FRAME_OPT_REQUEST_TIMEOUT, v->request_timeout) ||
        !set_option_time(o, AS_FRAME_OPT_BACKPRESSURE_RETRY, v->backpressure_retry) ||
        !encode_order(v, o) || v->health_timeout == AS_NEVER || v->dump_signal > 64 ||
        v->health_failures > AS_FRAME_FAILURES_MAX || v->slots > AS_WORKER_SLOTS ||
        v->idempotent < -1 || v->idempotent > 1 || v->max_queued < -1 ||
        v->max_queued > (int64_t)AS_FRAME_QUEUED_MAX ||
        (v->backpressure_status && v->backpressure_status != 429 && v->backpressure_status != 503))
        return false;
    if (v->dump_signal)
        set_option(o, AS_FRAME_OPT_DUMP_SIGNAL, v->dump_signal);
    if (v->health_failures)
        set_option(o, AS_FRAME_OPT_HEALTH_FAILURES, v->health_failures);
    if (v->max_queued)
        set_option(o, AS_FRAME_OPT_MAX_QUEUED,
                   v->max_queued < 0 ? AS_FRAME_QUEUED_ANY : (uint64_t)v->max_queued);
    if (v->queued_per_caller)
        set_option(o, AS_FRAME_OPT_PER_CALLER, 1);
    if (v->backpressure_status)
        set_option(o, AS_FRAME_OPT_BACKPRESSURE_STATUS, v->backpressure_status);
    if (v->idempotent)
        set_option(o, AS_FRAME_OPT_IDEMPOTENT, v->idempotent > 0);
    return true;
}

void as_worker_grant_slots(struct as_worker *w, struct as_worker_link *l)
{
    struct as_frame_credit c = {.slots = w->slots, .prefetch = w->conf.max_prefetch};

    l->max_granted = AS_MAX(l->max_granted, w->slots);
    as_frame_put_credit(&l->out, 0, &c);
}

int as_worker_set_options(struct as_worker *w, const struct as_worker_options *options)
{
    struct as_frame_options o = {0};
    struct as_worker_options v;
    uint32_t slots;

    if (!as_worker_copy_struct(&v, sizeof(v), options) || !encode_options(&v, &o))
        return AS_EINVALID;
    pthread_mutex_lock(&w->mu);
    slots = w->slots;
    w->slots = v.slots ? v.slots : w->conf.slots;
    w->options = o;
    AS_WORKER_LINKS(w, l)
    {
        if (l->state != AS_WORKER_LIVE)
            continue;
        as_frame_put_options(&l->out, &w->options);
        if (w->slots != slots)
            as_worker_grant_slots(w, l);
    }
    as_worker_send(w);
    if (w->slots > slots && as_worker_waiting(w))
        as_worker_wake(w);
    pthread_mutex_unlock(&w->mu);
    return 0;
}

void as_worker_send_options(struct as_worker *w, struct as_worker_link *l)
{
    if (w->options.has)
        as_frame_put_options(&l->out, &w->options);
}
