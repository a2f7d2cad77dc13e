/* Looking after a worker: is it well, do its handlers end, and what the controller asks of it.
 *
 * Health checks come at random moments around their period, so that replicas do not all stop for
 * them together. A check that says no, or nothing in time, keeps new requests away until one says
 * yes; so many in a row end the process. A worker whose one thread is inside a handler cannot check
 * itself: its page says so, and the time does not count. That is what the execution timeout is for.
 *
 * Execution timeout: a request runs from the first look that finds it among those that execute
 * (core knows which), so that the verdict is never early, and late by one look at most. The page is
 * not asked for it: a process that was stopped writes nothing. What has started is answered now;
 * the process is ended, and with its death the page tells which of the others may be replayed.
 *
 * What was executing when a worker was found to be unwell is suspect, as after a crash: when it
 * hung, when a ping was not answered, when the first of the checks in a row failed.
 */
#include "base/err.h"
#include "link/native/link.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCAN_INTERVAL (50 * AS_MS) /* between two looks at what runs */
#define DUMP_WAIT     (30 * AS_MS) /* for a worker that is to print where its threads are */
#define DEATH_WAIT    (500 * AS_MS)
#define TEXT_MAX      256u

static as_ns now_of(const struct as_link *l)
{
    return as_loop_now(l->up.fleet->loop);
}

/* Without a page all may have. */
static uint64_t last_started(const struct as_link *l)
{
    return l->page ? __atomic_load_n(&l->page->last_started, __ATOMIC_ACQUIRE) : UINT64_MAX;
}

/* --- in and out of the rotation --- */

void as_link_update_rotation(struct as_link *l)
{
    struct as_upstream *u = &l->up;

    if (!u->replica)
        return;
    as_replica_drain(u->replica,
                     l->draining || l->goodbye || l->condemned || l->state == AS_LINK_BROKEN ||
                         u->retiring || l->care.sick || l->care.ask,
                     now_of(l));
    as_fleet_update_ready(u->deploy);
}

/* --- a worker that has to go --- */

static void request_kill(struct as_link *l)
{
    struct as_fleet *f = l->up.fleet;

    l->killed = true;
    f->ops.on_kill(f->ctx, as_str_of(l->up.name), as_str_of(l->token->token),
                   as_str_of(l->condemned));
    as_timer_set(&l->timer, now_of(l) + DEATH_WAIT);
}

/* The process is ours to end, or else only its link. */
static void execute(struct as_link *l)
{
    uint32_t signal = l->care.dump;

    if (!l->token)
        as_link_end(l, l->condemned, AS_LOSS_LINK);
    else if (signal && l->pid_open &&
             syscall(SYS_pidfd_send_signal, l->pid_sock.fd, (int)signal, NULL, 0) == 0)
        as_timer_set(&l->timer, now_of(l) + DUMP_WAIT);
    else
        request_kill(l);
}

/* suspect_to: what had started when it was found out; what of that is still there is blamed. */
static void mark_for_kill(struct as_link *l, const char *why, enum as_fleet_exit cause,
                          uint64_t suspect_to)
{
    if (l->token)
        l->token->ended = cause;
    l->condemned = as_str_dup(as_str_of(why));
    as_timer_set(&l->care.timer, AS_NEVER);
    as_link_update_rotation(l);
    as_replica_set_unhealthy(l->up.replica, suspect_to);
}

void as_link_kill_unresponsive(struct as_link *l)
{
    if (l->condemned)
        return;
    mark_for_kill(l, "did not answer a ping in time", AS_FLEET_EXIT_SILENT, last_started(l));
    execute(l);
}

/* The time for the dump, or that for its death, is over. */
void as_link_on_kill_timeout(struct as_link *l)
{
    if (l->killed || !l->token)
        as_link_end(l, l->condemned, AS_LOSS_LINK);
    else
        request_kill(l);
}

/* --- health checks --- */

static as_ns jitter(struct as_link *l, as_ns period)
{
    as_ns tenth = period / 10;

    return period - tenth + as_rand_below(&l->up.fleet->rand, 2 * tenth + 1);
}

static void log_health(struct as_link *l, bool well, struct as_str why)
{
    char quoted[TEXT_MAX];

    as_log_event(l->up.fleet->log, well ? AS_LOG_INFO : AS_LOG_WARN, "worker_health",
                 "replica=%s healthy=%d failures=%u reason=%s", l->up.name, well, l->care.failures,
                 as_log_quote(quoted, sizeof(quoted), why));
}

/* One that came by itself is not ours to end: it waits outside until it is well. */
static void check_failed(struct as_link *l, struct as_str why)
{
    char text[TEXT_MAX];

    if (l->condemned)
        return;
    if (!l->care.failures++)
        l->care.suspect_to = last_started(l);
    l->care.sick = true;
    as_deployment_stat(l->up.deploy->core)->sick++;
    log_health(l, false, why);
    if (l->token && l->care.failures >= AS_MAX(l->care.limit, 1u)) {
        snprintf(text, sizeof(text), "%u health checks failed in a row, the last one: %.*s",
                 l->care.failures, AS_STR_FMT(why));
        /* what has started since the first of them did not make that one fail */
        mark_for_kill(l, text, AS_FLEET_EXIT_UNHEALTHY, l->care.suspect_to);
        execute(l);
        return;
    }
    as_link_update_rotation(l);
}

static void check_passed(struct as_link *l)
{
    bool was_sick = l->care.sick;

    l->care.failures = 0;
    l->care.sick = false;
    if (!was_sick)
        return;
    log_health(l, true, AS_STR("the check passed"));
    as_link_update_rotation(l);
}

static void send_health_check(struct as_link *l, as_ns now)
{
    struct as_frame_control c = {.op = AS_CONTROL_HEALTH};

    l->care.check = ++l->care.controls;
    l->care.asked = now;
    l->health_asked = true;
    as_frame_put_control(&l->out, l->care.check, &c);
    as_link_schedule_flush(l);
}

static bool runner_is_busy(const struct as_link *l)
{
    return l->page && __atomic_load_n(&l->page->busy_since, __ATOMIC_RELAXED);
}

/* A check is under way: its time runs while the worker could answer. */
static void check_deadline(struct as_link *l, as_ns now)
{
    char text[TEXT_MAX];

    if (l->care.ask || runner_is_busy(l))
        l->care.asked = now;
    l->care.due = AS_MIN(l->care.asked + l->care.timeout, now + AS_MAX(l->care.timeout / 4, AS_MS));
    if (now - l->care.asked < l->care.timeout)
        return;
    /* after a stall of ours the answer may be there, unread */
    if (!as_link_drain_socket(l) || !l->care.check)
        return;
    l->care.check = 0; /* what it says later is not heard */
    l->care.due = now + jitter(l, l->care.period);
    snprintf(text, sizeof(text), "no answer within %.3g s",
             (double)l->care.timeout / (double)AS_SEC);
    check_failed(l, as_str_of(text));
}

static void run_health_check(struct as_link *l, as_ns now)
{
    if (now < l->care.due)
        return;
    if (l->care.check) {
        check_deadline(l, now);
    } else if (l->care.ask || l->draining || l->goodbye) {
        l->care.due = now + l->care.period;
    } else {
        send_health_check(l, now);
        l->care.due = now + l->care.timeout;
    }
}

/* --- handlers that do not end --- */

struct look {
    struct as_link *l;
    as_ns now, first; /* when the first of them has run for too long */
    uint64_t last_started;
    struct as_call *hung; /* that one */
    uint32_t n;           /* that have started, and are given up */
};

static as_ns scan_interval(const struct as_link *l)
{
    return AS_MIN(SCAN_INTERVAL, AS_MAX(l->care.execution / 4, AS_MS));
}

static struct as_call *call_of(struct as_request *q)
{
    return AS_CONTAINER(q, struct as_call, core);
}

/* Its client does not read, or has more to say: that is no handler that hangs. */
static bool waits_for_client(const struct as_call *c)
{
    return c->on_part && (c->streams_inputs || !as_frame_window_is_open(&c->parts));
}

static void scan_request(void *arg, struct as_request *q)
{
    struct look *k = arg;
    struct as_call *c = call_of(q);
    bool known = c->begun >= q->sent; /* else what is there is of an earlier life of it */
    bool started = q->stream <= k->last_started;
    as_ns limit;

    /* what its worker did before it began is not its handler's time */
    if (!known || started != c->started || waits_for_client(c) || (k->l->care.ask && !started))
        c->begun = k->now;
    c->started = started;
    /* One that is kept from starting by a handler that hangs must not be found before that. */
    limit = c->begun + k->l->care.execution + (started ? 0 : 2 * scan_interval(k->l));
    if (limit < k->first) {
        k->first = limit;
        k->hung = c;
    }
}

static void give_up_request(void *arg, struct as_request *q)
{
    struct look *k = arg;

    if (call_of(q)->begun + k->l->care.execution > k->now || q->stream > k->last_started)
        return;
    k->n++;
    as_replica_fail_request(k->l->up.replica, q, AS_EHUNG);
}

static void kill_hung(struct as_link *l, struct look *k)
{
    const struct as_fleet_model *m = &l->up.deploy->models[k->hung->core.model];
    double limit = (double)l->care.execution / (double)AS_SEC;
    char why[AS_NAME_MAX + TEXT_MAX];
    bool started = k->hung->core.stream <= k->last_started;

    snprintf(why, sizeof(why),
             started ? "the handler of model %s has run for longer than execution_timeout_s (%.3g)"
                     : "a request of model %s was not started within execution_timeout_s (%.3g)",
             m->name, limit);
    mark_for_kill(l, why, AS_FLEET_EXIT_HUNG,
                  k->last_started); /* first: what is answered below makes no room here */
    as_replica_each_executing(l->up.replica, give_up_request, k);
    as_deployment_stat(l->up.deploy->core)->hung += k->n;
    as_log_event(l->up.fleet->log, AS_LOG_WARN, "worker_hung",
                 "replica=%s pid=%u model=%s given_up=%u unanswered=%u ran_ms=%lu", l->up.name,
                 l->pid, m->name, k->n, l->n_calls,
                 (unsigned long)((k->now - k->hung->begun) / AS_MS));
    execute(l);
}

/* True: something has run for too long. */
static bool look(struct as_link *l, as_ns now, struct look *ret_k)
{
    *ret_k = (struct look){.l = l, .now = now, .first = AS_NEVER, .last_started = last_started(l)};
    as_replica_each_executing(l->up.replica, scan_request, ret_k);
    return ret_k->hung && now >= ret_k->first;
}

static void check_handlers(struct as_link *l, as_ns now)
{
    struct look k;

    if (now < l->care.look)
        return;
    l->care.look = AS_NEVER; /* op_send looks again */
    if (!l->care.execution)
        return;
    /* Timers come first in a turn: after a stall of ours the answer may be there, unread. */
    if (look(l, now, &k) && as_link_drain_socket(l) && !l->condemned && look(l, now, &k))
        kill_hung(l, &k);
    else if (!l->ended && !l->condemned && k.hung)
        l->care.look = AS_MIN(now + scan_interval(l), AS_MAX(k.first, now + AS_MS));
}

/* --- the timer of both --- */

static void set_timer(struct as_link *l)
{
    as_ns at = AS_MIN(l->care.period ? l->care.due : AS_NEVER, l->care.look);

    if (!l->condemned && !l->ended)
        as_timer_set(&l->care.timer, at);
}

static void on_health_timer(struct as_timer *t)
{
    struct as_link *l = AS_CONTAINER(t, struct as_link, care.timer);
    as_ns now = now_of(l);

    if (l->state == AS_LINK_READY && l->care.period)
        run_health_check(l, now);
    if (l->state == AS_LINK_READY && !l->condemned && !l->ended)
        check_handlers(l, now);
    if (l->state == AS_LINK_READY)
        set_timer(l);
}

void as_link_health_init(struct as_link *l)
{
    const struct as_fleet_conf *conf = &l->up.fleet->conf;

    as_timer_init(&l->care.timer, l->up.fleet->loop, on_health_timer);
    l->care.period = conf->health_period;
    l->care.timeout = conf->health_timeout;
    l->care.execution = conf->execution_timeout;
    l->care.request = conf->request_timeout;
    l->care.limit = conf->health_failures;
    l->care.due = l->care.look = AS_NEVER;
}

static void apply_options(struct as_link *l)
{
    struct as_fleet_deployment *d = l->up.deploy;

    d->request_timeout = l->care.request;
    d->idempotent = l->care.idempotent;
    as_deployment_set_max_queued(d->core, l->care.max_queued ? l->care.max_queued : d->max_queued);
    l->care.due = now_of(l) + jitter(l, l->care.period);
    l->care.check = 0;
    l->care.look = l->care.execution ? 0 : AS_NEVER;
    set_timer(l);
}

void as_link_health_start(struct as_link *l)
{
    apply_options(l);
}

void as_link_watch_execution(struct as_link *l)
{
    l->care.look = now_of(l);
    set_timer(l);
}

void as_link_check_health_now(struct as_link *l)
{
    if (!l->care.period || l->care.check)
        return;
    l->care.due = now_of(l);
    set_timer(l);
}

static as_ns option_or_default(const struct as_frame_options *o, enum as_frame_option key,
                               as_ns ours)
{
    return o->has >> key & 1 ? o->value[key] : ours;
}

void as_link_on_options(struct as_link *l, const struct as_frame *f)
{
    const struct as_fleet_conf *conf = &l->up.fleet->conf;
    struct as_frame_options o;

    if (l->state == AS_LINK_HELLO || as_frame_get_options(f, &o)) {
        as_link_protocol_error(l, "malformed OPTIONS, or OPTIONS before HELLO");
        return;
    }
    l->care.period = option_or_default(&o, AS_FRAME_OPT_HEALTH_PERIOD, conf->health_period);
    l->care.timeout = option_or_default(&o, AS_FRAME_OPT_HEALTH_TIMEOUT, conf->health_timeout);
    l->care.execution =
        option_or_default(&o, AS_FRAME_OPT_EXECUTION_TIMEOUT, conf->execution_timeout);
    l->care.request = option_or_default(&o, AS_FRAME_OPT_REQUEST_TIMEOUT, conf->request_timeout);
    l->care.limit =
        (uint32_t)option_or_default(&o, AS_FRAME_OPT_HEALTH_FAILURES, conf->health_failures);
    l->care.dump = (uint32_t)option_or_default(&o, AS_FRAME_OPT_DUMP_SIGNAL, 0);
    /* AS_FRAME_QUEUED_ANY is core's -1 */
    l->care.max_queued = (int64_t)option_or_default(&o, AS_FRAME_OPT_MAX_QUEUED, 0);
    l->care.idempotent = !(o.has >> AS_FRAME_OPT_IDEMPOTENT & 1) ? AS_FLEET_AS_REGISTERED
                         : o.value[AS_FRAME_OPT_IDEMPOTENT]      ? AS_FLEET_IDEMPOTENT
                                                                 : AS_FLEET_NOT_IDEMPOTENT;
    if (l->state == AS_LINK_READY)
        apply_options(l);
}

/* --- what the controller asks --- */

static void answered(struct as_link *l, int err, struct as_str text)
{
    struct as_fleet *f = l->up.fleet;
    uint64_t id = l->care.ask_id;

    l->care.ask = 0;
    f->ops.on_answer(f->ctx, as_str_of(l->up.name), as_str_of(l->token->token), id, err, text);
}

void as_link_send_control(struct as_link *l, uint64_t id, uint16_t op, struct as_str text)
{
    struct as_frame_control c = {.op = op, .text = text};

    l->care.ask = ++l->care.controls;
    l->care.ask_id = id;
    as_frame_put_control(&l->out, l->care.ask, &c);
    as_link_schedule_flush(l);
    as_link_update_rotation(l); /* what comes now is for the new configuration */
}

void as_link_fail_control(struct as_link *l, const char *why)
{
    if (l->care.ask)
        answered(l, AS_EUNAVAILABLE, as_str_of(why));
}

/* What a worker says of its refusal; one that says nothing may not know the question at all. */
static struct as_str refusal(const struct as_frame_control *c)
{
    if (c->text.n)
        return c->text;
    return c->code == AS_STATUS_UNIMPLEMENTED ? AS_STR("the worker cannot be reconfigured")
                                              : AS_STR("the worker refuses it without a reason");
}

/* A reply that comes too late, or to nothing, changes nothing. */
void as_link_on_control(struct as_link *l, const struct as_frame *f)
{
    struct as_frame_control c;

    if (as_frame_get_control(f, &c) || !c.reply) { /* only we ask */
        as_link_protocol_error(l, "malformed CONTROL");
        return;
    }
    if (l->care.ask && f->stream == l->care.ask) {
        answered(l, c.code ? AS_EHANDLER : 0, c.code ? refusal(&c) : c.text);
        as_link_update_rotation(l);
    } else if (l->care.check && f->stream == l->care.check && c.op == AS_CONTROL_HEALTH) {
        l->care.check = 0;
        l->care.due = now_of(l) + jitter(l, l->care.period);
        if (c.code)
            check_failed(l, c.text.n ? c.text : AS_STR("the worker says that it is not well"));
        else
            check_passed(l);
        if (!l->ended)
            set_timer(l);
    }
}
