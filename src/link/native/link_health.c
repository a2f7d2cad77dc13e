/* Health checks, the execution timeout, and the controller's CONTROL.
 *
 * Health checks are sent at random times around their period, so that replicas do not all stop for
 * them together. After a check that fails or is not answered in time, the replica gets no new
 * requests until a check passes; too many failures in a row end the process. A worker whose only
 * thread is inside a handler cannot answer: its page says so, and that time does not count for the
 * check. The execution timeout covers it.
 *
 * Execution timeout: core knows which requests execute; a scan visits them every SCAN_INTERVAL. The
 * time of a request runs from the first scan that finds it. So a timeout is never early, and late
 * by one scan at most. The page is not used for this, since a stopped process does not write to it.
 * When a request has run for too long, all that have are answered, and the worker is killed; when
 * it is dead the page says which of its other requests had not started and may be repeated.
 *
 * The requests that executed when a worker was found unwell are suspects, as after a crash: when a
 * handler hung, when a ping was not answered, or when the first of the failed checks failed.
 */
#include "base/err.h"
#include "link/native/link.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCAN_INTERVAL (50 * AS_MS) /* between two scans of executing requests */
#define TEXT_MAX      256u

static as_ns now_of(const struct as_link *l)
{
    return as_loop_now(l->up.fleet->loop);
}

/* Without a page any request may have started. */
static uint64_t last_started(const struct as_link *l)
{
    return l->page ? __atomic_load_n(&l->page->last_started, __ATOMIC_ACQUIRE) : UINT64_MAX;
}

/* --- killing a worker --- */

void as_link_request_kill(struct as_link *l)
{
    struct as_fleet *f = l->up.fleet;

    as_link_move(l, AS_LINK_KILLED);
    f->ops.on_kill(f->ctx, as_str_of(l->up.name), as_str_of(l->up.process->token),
                   as_str_of(l->kill_reason));
}

/* Kills our process, if the worker has a dump signal after sending that; another worker only loses
 * its link. */
static void kill_worker(struct as_link *l)
{
    uint32_t signal = l->health.dump_signal;

    if (!l->up.process)
        as_link_end(l, l->kill_reason, AS_LOSS_LINK);
    else if (!signal || l->pid_sock.closing ||
             syscall(SYS_pidfd_send_signal, l->pid_sock.fd, (int)signal, NULL, 0) < 0)
        as_link_request_kill(l);
}

/* Takes the worker out of the rotation for good. Requests up to stream suspect_to that still
 * execute are suspects. */
static void mark_for_kill(struct as_link *l, const char *why, enum as_fleet_exit cause,
                          uint64_t suspect_to)
{
    if (l->up.process)
        l->up.process->kill_cause = cause;
    l->kill_reason = as_str_dup(as_str_of(why));
    as_replica_set_unhealthy(l->up.replica, suspect_to);
    as_link_move(l, AS_LINK_CONDEMNED);
}

void as_link_kill_unresponsive(struct as_link *l)
{
    if (!as_link_serves(l)) /* it was found unwell while the socket was read */
        return;
    mark_for_kill(l, "did not answer a ping in time", AS_FLEET_EXIT_SILENT, last_started(l));
    kill_worker(l);
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
                 "replica=%s healthy=%d failures=%u reason=%s", as_id_shown_z(l->up.name), well,
                 l->health.failures, as_log_quote(quoted, sizeof(quoted), why));
}

/* A worker that is not our process is never killed: it only gets no requests until it is well. */
static void check_failed(struct as_link *l, struct as_str why)
{
    char text[TEXT_MAX];

    if (!as_link_serves(l))
        return;
    if (!l->health.failures++)
        l->health.suspects_up_to = last_started(l);
    as_deployment_stat(l->up.deploy->core)->sick++;
    log_health(l, false, why);
    if (l->up.process && l->health.failures >= AS_MAX(l->health.failures_max, 1u)) {
        snprintf(text, sizeof(text), "%u health checks failed in a row, the last one: %.*s",
                 l->health.failures, AS_STR_FMT(why));
        /* requests that started later did not make the first of these checks fail */
        mark_for_kill(l, text, AS_FLEET_EXIT_UNHEALTHY, l->health.suspects_up_to);
        kill_worker(l);
        return;
    }
    as_link_update_rotation(l);
}

static void check_passed(struct as_link *l)
{
    bool was_sick = l->health.failures > 0;

    l->health.failures = 0;
    if (!was_sick)
        return;
    log_health(l, true, AS_STR("the check passed"));
    as_link_update_rotation(l);
}

static void send_health_check(struct as_link *l, as_ns now)
{
    struct as_frame_control c = {.op = AS_CONTROL_HEALTH};

    l->health.check_stream = ++l->health.n_controls;
    l->health.check_sent = now;
    as_frame_put_control(&l->out, l->health.check_stream, &c);
    as_link_schedule_flush(l);
}

static bool runner_is_busy(const struct as_link *l)
{
    return l->page && __atomic_load_n(&l->page->busy_since, __ATOMIC_RELAXED);
}

/* A check is pending. Its time does not run while the worker cannot answer. */
static void check_deadline(struct as_link *l, as_ns now)
{
    char text[TEXT_MAX];

    if (l->health.control_stream || runner_is_busy(l))
        l->health.check_sent = now;
    l->health.next_check = AS_MIN(l->health.check_sent + l->health.check_timeout,
                                  now + AS_MAX(l->health.check_timeout / 4, AS_MS));
    if (now - l->health.check_sent < l->health.check_timeout)
        return;
    /* if this process was stalled, the answer may be unread in the socket */
    if (!as_link_drain_socket(l) || !l->health.check_stream)
        return;
    l->health.check_stream = 0; /* a later reply is ignored */
    l->health.next_check = now + jitter(l, l->health.check_period);
    snprintf(text, sizeof(text), "no answer within %.3g s",
             (double)l->health.check_timeout / (double)AS_SEC);
    check_failed(l, as_str_of(text));
}

static void run_health_check(struct as_link *l, as_ns now)
{
    if (now < l->health.next_check)
        return;
    if (l->health.check_stream) {
        check_deadline(l, now);
    } else if (l->health.control_stream || l->state != AS_LINK_READY) {
        l->health.next_check = now + l->health.check_period;
    } else {
        send_health_check(l, now);
        l->health.next_check = now + l->health.check_timeout;
    }
}

/* --- the execution timeout --- */

struct scan {
    struct as_link *l;
    as_ns now, first; /* the earliest time at which one has run for too long … */
    uint64_t last_started;
    struct as_call *hung; /* … and which one */
    uint32_t n;           /* requests that were given up */
};

static as_ns scan_interval(const struct as_link *l)
{
    return AS_MIN(SCAN_INTERVAL, AS_MAX(l->health.execution_timeout / 4, AS_MS));
}

static struct as_call *call_of(struct as_request *q)
{
    return AS_CONTAINER(q, struct as_call, core);
}

/* The handler waits for its client: to read, or to send more. So it does not hang. */
static bool waits_for_client(const struct as_call *c)
{
    return c->stream &&
           (c->stream->takes_inputs || !as_frame_window_is_open(&c->stream->part_credit));
}

static void scan_request(void *arg, struct as_request *q)
{
    struct scan *k = arg;
    struct as_call *c = call_of(q);
    bool known = c->executing_since >= q->sent; /* else the fields are from an earlier attempt */
    bool started = q->stream <= k->last_started;
    as_ns limit;

    /* time in which the handler could not run, or waited for its client, does not count */
    if (!known || started != c->started || waits_for_client(c) ||
        (k->l->health.control_stream && !started))
        c->executing_since = k->now;
    c->started = started;
    /* A request that waits behind a hung handler must not be found before that handler. */
    limit = c->executing_since + k->l->health.execution_timeout +
            (started ? 0 : 2 * scan_interval(k->l));
    if (limit < k->first) {
        k->first = limit;
        k->hung = c;
    }
}

static void give_up_request(void *arg, struct as_request *q)
{
    struct scan *k = arg;

    if (call_of(q)->executing_since + k->l->health.execution_timeout > k->now ||
        q->stream > k->last_started)
        return;
    k->n++;
    as_replica_fail_request(k->l->up.replica, q, AS_EHUNG);
}

static void kill_hung(struct as_link *l, struct scan *k)
{
    const struct as_fleet_model *m = &l->up.deploy->models[k->hung->core.model];
    double limit = (double)l->health.execution_timeout / (double)AS_SEC;
    char why[AS_NAME_MAX + TEXT_MAX];
    bool started = k->hung->core.stream <= k->last_started;

    snprintf(why, sizeof(why),
             started ? "the handler of model %s has run for longer than execution_timeout_s (%.3g)"
                     : "a request of model %s was not started within execution_timeout_s (%.3g)",
             m->name, limit);
    mark_for_kill(
        l, why, AS_FLEET_EXIT_HUNG,
        k->last_started); /* first: the answers below free slots, which must not be used again */
    as_replica_each_executing(l->up.replica, give_up_request, k);
    as_deployment_stat(l->up.deploy->core)->hung += k->n;
    as_log_event(l->up.fleet->log, AS_LOG_WARN, "worker_hung",
                 "replica=%s pid=%u model=%s given_up=%u unanswered=%u ran_ms=%lu",
                 as_id_shown_z(l->up.name), l->pid, m->name, k->n, l->n_calls,
                 (unsigned long)((k->now - k->hung->executing_since) / AS_MS));
    kill_worker(l);
}

/* True: some request has run for too long. */
static bool scan_handlers(struct as_link *l, as_ns now, struct scan *ret_k)
{
    *ret_k = (struct scan){.l = l, .now = now, .first = AS_NEVER, .last_started = last_started(l)};
    as_replica_each_executing(l->up.replica, scan_request, ret_k);
    return ret_k->hung && now >= ret_k->first;
}

static void check_handlers(struct as_link *l, as_ns now)
{
    struct scan k;

    if (now < l->health.next_scan)
        return;
    l->health.next_scan = AS_NEVER; /* op_send sets it again */
    if (!l->health.execution_timeout)
        return;
    /* Timers run first in a turn: if this process was stalled, the answer may be unread. */
    if (scan_handlers(l, now, &k) && as_link_drain_socket(l) && as_link_serves(l) &&
        scan_handlers(l, now, &k))
        kill_hung(l, &k);
    else if (as_link_serves(l) && k.hung)
        l->health.next_scan = AS_MIN(now + scan_interval(l), AS_MAX(k.first, now + AS_MS));
}

/* --- the timer of both, and options --- */

static void set_timer(struct as_link *l)
{
    as_ns at =
        AS_MIN(l->health.check_period ? l->health.next_check : AS_NEVER, l->health.next_scan);

    if (as_link_serves(l))
        as_timer_set(&l->health.timer, at);
}

static void on_health_timer(struct as_timer *t)
{
    struct as_link *l = AS_CONTAINER(t, struct as_link, health.timer);
    as_ns now = now_of(l);

    if (as_link_serves(l) && l->health.check_period)
        run_health_check(l, now);
    if (as_link_serves(l))
        check_handlers(l, now);
    set_timer(l);
}

void as_link_health_init(struct as_link *l)
{
    const struct as_fleet_conf *conf = &l->up.fleet->conf;

    as_timer_init(&l->health.timer, l->up.fleet->loop, on_health_timer);
    l->health.check_period = conf->health_period;
    l->health.check_timeout = conf->health_timeout;
    l->health.execution_timeout = conf->execution_timeout;
    l->health.of_deployment.request_timeout = conf->request_timeout;
    l->health.failures_max = conf->health_failures;
    l->health.next_check = l->health.next_scan = AS_NEVER;
}

static void apply_options(struct as_link *l)
{
    as_fleet_set_options(l->up.deploy, &l->health.of_deployment);
    as_fleet_record_settings(l->up.deploy);
    l->health.next_check = now_of(l) + jitter(l, l->health.check_period);
    l->health.check_stream = 0;
    l->health.next_scan = l->health.execution_timeout ? 0 : AS_NEVER;
    set_timer(l);
}

void as_link_health_start(struct as_link *l)
{
    apply_options(l);
}

void as_link_watch_execution(struct as_link *l)
{
    l->health.next_scan = now_of(l);
    set_timer(l);
}

void as_link_check_health_now(struct as_link *l)
{
    if (!l->health.check_period || l->health.check_stream)
        return;
    l->health.next_check = now_of(l);
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
    l->health.check_period = option_or_default(&o, AS_FRAME_OPT_HEALTH_PERIOD, conf->health_period);
    l->health.check_timeout =
        option_or_default(&o, AS_FRAME_OPT_HEALTH_TIMEOUT, conf->health_timeout);
    l->health.execution_timeout =
        option_or_default(&o, AS_FRAME_OPT_EXECUTION_TIMEOUT, conf->execution_timeout);
    l->health.failures_max =
        (uint32_t)option_or_default(&o, AS_FRAME_OPT_HEALTH_FAILURES, conf->health_failures);
    l->health.dump_signal = (uint32_t)option_or_default(&o, AS_FRAME_OPT_DUMP_SIGNAL, 0);
    l->health.of_deployment = as_fleet_options_of(&o, conf->request_timeout);
    if (as_link_is_up(l))
        apply_options(l);
}

/* --- the controller's CONTROL --- */

static void send_answer(struct as_link *l, uint64_t id, int err, struct as_str text)
{
    struct as_fleet *f = l->up.fleet;

    f->ops.on_answer(f->ctx, as_str_of(l->up.name), as_str_of(l->up.process->token), id, err, text);
}

int as_link_send_control(struct as_link *l, uint64_t id, enum as_control_op op, struct as_str text,
                         const char **ret_why)
{
    struct as_frame_control c = {.op = (uint16_t)op, .text = text};
    bool scaling = op == AS_CONTROL_SCALING;
    uint64_t *stream = scaling ? &l->health.scaling_stream : &l->health.control_stream;

    if (!as_link_serves(l))
        return AS_EUNAVAILABLE;
    if (*stream) {
        *ret_why = "the replica has not answered the previous request yet";
        return AS_EFULL;
    }
    if (text.n > AS_FRAME_CONTROL_TEXT) {
        *ret_why = "the text is longer than a CONTROL frame takes";
        return AS_ETOOBIG;
    }
    *stream = ++l->health.n_controls;
    *(scaling ? &l->health.scaling_id : &l->health.control_id) = id;
    as_frame_put_control(&l->out, *stream, &c);
    as_link_schedule_flush(l);
    if (!scaling) /* no new requests until it is answered: they are for the new configuration */
        as_link_update_rotation(l);
    return 0;
}

void as_link_fail_control(struct as_link *l, const char *why)
{
    bool control = l->health.control_stream, scaling = l->health.scaling_stream;

    l->health.control_stream = l->health.scaling_stream = 0;
    if (control)
        send_answer(l, l->health.control_id, AS_EUNAVAILABLE, as_str_of(why));
    if (scaling)
        send_answer(l, l->health.scaling_id, AS_EUNAVAILABLE, as_str_of(why));
}

/* The reason of a refusal. A worker that gives none may not know the operation. */
static struct as_str refusal_text(const struct as_frame_control *c)
{
    if (c->text.n)
        return c->text;
    return c->code == AS_STATUS_UNIMPLEMENTED ? AS_STR("the worker cannot be reconfigured")
                                              : AS_STR("the worker refused it and gave no reason");
}

/* A reply that is late, or belongs to no CONTROL of ours, is ignored. */
void as_link_on_control(struct as_link *l, const struct as_frame *f)
{
    struct as_frame_control c;

    if (as_frame_get_control(f, &c) || !c.reply) { /* only the dispatcher asks */
        as_link_protocol_error(l, "malformed CONTROL");
        return;
    }
    if (l->health.control_stream && f->stream == l->health.control_stream) {
        l->health.control_stream = 0;
        send_answer(l, l->health.control_id, c.code ? AS_EHANDLER : 0,
                    c.code ? refusal_text(&c) : c.text);
        as_link_update_rotation(l);
    } else if (l->health.scaling_stream && f->stream == l->health.scaling_stream) {
        l->health.scaling_stream = 0;
        send_answer(l, l->health.scaling_id, c.code ? AS_EHANDLER : 0,
                    c.code ? refusal_text(&c) : c.text);
    } else if (l->health.check_stream && f->stream == l->health.check_stream &&
               c.op == AS_CONTROL_HEALTH) {
        l->health.check_stream = 0;
        l->health.next_check = now_of(l) + jitter(l, l->health.check_period);
        if (c.code)
            check_failed(l, c.text.n ? c.text : AS_STR("the worker says that it is not well"));
        else
            check_passed(l);
        set_timer(l);
    }
}
