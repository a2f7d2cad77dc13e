/* How a link ends: by the worker's word, its death, a broken rule or the dispatcher's end. */
#include "base/err.h"
#include "link/fleet/policy/policy.h"
#include "link/native/link.h"

#include <sys/mman.h>
#include <unistd.h>

/* `closing` counts the handles, letters and tasks that still refer to the link. The last of them
 * frees it. */
static void maybe_free(struct as_link *l)
{
    if (--l->closing || l->state != AS_LINK_ENDED) /* a lost link has closed its socket, and waits
                                                      for the death of its process */
        return;
    as_outq_fini(&l->out);
    free(l->rx.reader.p);
    as_arena_fini(&l->scratch);
    free(l->calls);
    free(l->up.name);
    free(l->peer);
    as_service_set_unref(l->services);
    free(l->kill_reason);
    as_link_free_reports(l);
    free(l);
}

void as_link_on_socket_closed(struct as_loop_socket *s)
{
    maybe_free(AS_CONTAINER(s, struct as_link, socket));
}

static void on_pid_closed(struct as_sock *s)
{
    maybe_free(AS_CONTAINER(s, struct as_link, pid_sock));
}

static void on_timer_closed(struct as_timer *t)
{
    maybe_free(AS_CONTAINER(t, struct as_link, timer));
}

static void on_health_closed(struct as_timer *t)
{
    maybe_free(AS_CONTAINER(t, struct as_link, health.timer));
}

static void close_socket(struct as_link *l)
{
    if (as_transport_is_open(l->transport)) {
        l->closing++;
        as_task_cancel(&l->flush);
        l->transport->ops->close(l->transport);
    }
}

/* The death watch lets go of the page. */
static void unwatch(struct as_link *l)
{
    if (as_death_watch_remove(l->up.fleet->death_watch, &l->page->lock))
        l->closing++; /* its letter is still under way */
    l->life = AS_LINK_UNWATCHED;
}

static void close_handles(struct as_link *l)
{
    l->closing += 2; /* the two timers, which also keep l until all closes have been requested */
    close_socket(l);
    if (!l->pid_sock.closing) {
        l->closing++;
        as_sock_close(&l->pid_sock, on_pid_closed);
    }
    if (l->life == AS_LINK_WATCHED)
        unwatch(l);
    if (l->page)
        munmap((void *)(uintptr_t)l->page, AS_PAGE_SIZE);
    if (l->rx.fd >= 0)
        close(l->rx.fd);
    as_timer_close(&l->health.timer, on_health_closed);
    as_timer_close(&l->timer, on_timer_closed);
}

/* Why the process is dead. For our process the supervisor says why, now or later; a worker that
 * said GOODBYE was not killed by a request. */
static enum as_loss death_cause(const struct as_link *l)
{
    if (l->kill_reason)
        return AS_LOSS_UNHEALTHY;
    if (l->state == AS_LINK_LEAVING)
        return AS_LOSS_KILLED;
    if (!l->up.process)
        return AS_LOSS_UNKNOWN;
    return l->up.process->loss;
}

/* Logs the end of a link, and reports it to the owner of the fleet. */
static void report_end(const struct as_link *l, const struct as_link_end_report *e)
{
    struct as_fleet *f = l->up.fleet;
    struct as_str name = as_str_of(l->up.name ? l->up.name : "?"), token = as_str_of(e->token);
    char quoted[256];
    enum as_log_level level = e->warns ? AS_LOG_WARN : AS_LOG_INFO;

    if (!l->up.name)
        as_unknown_peer_log(&f->unknown_peer, f->log, level, l->pid, e->reason,
                            as_loop_now(f->loop));
    else if (l->is_driver)
        as_log_event(f->log, AS_LOG_INFO, "driver_gone", "driver=%.*s pid=%u reason=%s",
                     AS_STR_FMT(name), l->pid,
                     as_log_quote(quoted, sizeof(quoted), as_str_of(e->reason)));
    else
        as_log_event(f->log, level, "worker_gone", "replica=%.*s pid=%u unanswered=%u reason=%s",
                     AS_STR_FMT(as_id_shown(name)), l->pid, e->calls,
                     as_log_quote(quoted, sizeof(quoted), as_str_of(e->reason)));
    if (e->served)
        f->ops.on_gone(f->ctx, name, token, as_str_of(e->reason));
    if (e->retires)
        f->ops.on_retired(f->ctx, name, token);
}

static void on_end_report(struct as_task *t)
{
    struct as_link *l = AS_CONTAINER(t, struct as_link, end_report.task);

    as_list_remove(&l->end_report.node);
    report_end(l, &l->end_report);
    free(l->end_report.reason);
    free(l->end_report.token);
    maybe_free(l);
}

void as_link_flush_end_reports(struct as_fleet *f)
{
    AS_LIST_EACH_ENTRY(l, struct as_link, end_report.node, &f->end_reports) {
        as_task_cancel(&l->end_report.task);
        on_end_report(&l->end_report.task);
    }
}

/* Clients get their answers first: logging or reporting a death would wake other processes, which
 * may take the CPU before the answers are written. This task runs behind those that write them. */
static void report_end_later(struct as_link *l, const struct as_link_end_report *e)
{
    l->end_report = *e;
    l->end_report.reason = as_str_dup(as_str_of(e->reason));
    l->end_report.token = as_str_dup(as_str_of(e->token));
    as_list_push(&l->up.fleet->end_reports, &l->end_report.node);
    as_task_init(&l->end_report.task, on_end_report);
    as_loop_defer(l->up.fleet->loop, &l->end_report.task);
    l->closing++;
}

void as_link_end(struct as_link *l, const char *reason, enum as_loss loss)
{
    struct as_fleet *f = l->up.fleet;
    bool condemned = l->state == AS_LINK_CONDEMNED;
    uint64_t last = UINT64_MAX;
    struct as_str token = as_str_of(l->up.process ? l->up.process->token : "");
    struct as_link_end_report e = {.reason = (char *)(uintptr_t)reason,
                                   .token = (char *)(uintptr_t)token.p,
                                   .calls = l->n_calls,
                                   .warns = l->state != AS_LINK_LEAVING && !f->draining,
                                   .served = l->up.replica != NULL,
                                   /* else it was reported already */
                                   .retires = l->up.replica && l->up.retiring && l->n_calls};

    /* The page is read once: nobody writes to it any more when the process is dead. With
     * AS_LOSS_LINK the worker may live, or lie, so any request may have run. */
    if (loss != AS_LOSS_LINK && l->page)
        last = __atomic_load_n(&l->page->last_started, __ATOMIC_ACQUIRE);
    /* before core is told: its answers may call this link again */
    as_link_move(l, AS_LINK_ENDED);
    as_list_remove(&l->up.node);
    as_fleet_note_upstream_end(&l->up, l->life == AS_LINK_DEAD);
    if (l->up.process && l->up.process->up == &l->up)
        l->up.process->up = NULL;
    if (l->up.replica)
        as_link_restore_traffic(l);
    as_link_discard_answers(l);
    as_caller_end(l); /* nobody waits for the answers of its own calls */
    as_link_note_moved(l);
    as_link_fail_control(l, reason);
    if (condemned && l->up.process) /* it has closed the link before the kill */
        f->ops.on_kill(f->ctx, as_str_of(l->up.name), token, as_str_of(l->kill_reason));
    if (l->up.replica) {
        /* core answers all requests of this link, or queues them again */
        uint64_t verdict_id = as_replica_free(l->up.replica, last, loss, as_loop_now(f->loop));

        if (verdict_id && l->up.process) {
            l->up.process->verdict_id = verdict_id;
            l->up.process->number = l->up.deploy->number;
        }
        as_fleet_update_ready(l->up.deploy);
    }
    if (l->life == AS_LINK_DEAD)
        report_end_later(l, &e);
    else
        report_end(l, &e);
    if (l->up.deploy)
        as_fleet_remove_upstream(l->up.deploy, as_loop_now(f->loop));
    l->up.process = NULL; /* it may be freed before the link */
    close_handles(l);
}

void as_link_protocol_error(struct as_link *l, const char *why)
{
    struct as_fleet *f = l->up.fleet;

    /* Only our own processes are killed; another worker just loses its link. */
    if (l->up.process) {
        l->up.process->kill_cause = AS_FLEET_EXIT_PROTOCOL;
        f->ops.on_kill(f->ctx, as_str_of(l->up.name), as_str_of(l->up.process->token),
                       as_str_of(why));
    }
    as_link_end(l, why, AS_LOSS_LINK);
}

void as_link_on_broken(struct as_link *l)
{
    /* without open requests, or if the death is known, there is nothing to wait for */
    if (!l->up.replica || !l->n_calls || l->state == AS_LINK_LEAVING || l->life == AS_LINK_DEAD ||
        l->pid_sock.closing) {
        as_link_end(l,
                    l->kill_reason                ? l->kill_reason
                    : l->state == AS_LINK_LEAVING ? "said goodbye"
                    : l->life == AS_LINK_DEAD     ? "process died"
                                                  : "link closed",
                    death_cause(l));
        return;
    }
    /* Whether its requests may be repeated is only known when the process is dead: then the page is
     * final. A live process could still be running them. */
    close_socket(l);
    if (as_link_serves(l)) /* else it is to be killed, and the timer of that runs */
        as_link_move(l, AS_LINK_LOST);
}

void as_link_on_timer(struct as_timer *t)
{
    struct as_link *l = AS_CONTAINER(t, struct as_link, timer);

    if (l->state == AS_LINK_CONDEMNED)
        as_link_request_kill(l);
    else if (l->state == AS_LINK_KILLED)
        as_link_end(l, l->kill_reason, AS_LOSS_LINK);
    else if (l->state == AS_LINK_LOST)
        as_link_protocol_error(l, "closed its link with open requests, and its process lives on");
    else
        as_link_protocol_error(l, "did not register in time");
}

/* The answers that it wrote before it died still count. A forked child may keep the socket open, so
 * the link is ended here. */
void as_link_on_death(struct as_link *l)
{
    if (l->life == AS_LINK_WATCHED)
        unwatch(l);
    l->life = AS_LINK_DEAD; /* so that the end of the socket, if it is read below, ends the link */
    if (!as_transport_is_open(l->transport) || as_link_drain_socket(l))
        as_link_end(l, l->kill_reason ? l->kill_reason : "process died", death_cause(l));
}

void as_link_on_pid(struct as_sock *s, int events AS_UNUSED)
{
    /* a pidfd stays readable: stop polling it */
    as_sock_watch(s, 0);
    as_link_on_death(AS_CONTAINER(s, struct as_link, pid_sock));
}

static void on_death_letter(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_link *l = AS_CONTAINER(letter, struct as_link, death_letter);

    if (l->state == AS_LINK_ENDED) {
        maybe_free(l);
        return;
    }
    l->life = AS_LINK_UNWATCHED; /* the watch has posted its letter, and let go of the page */
    as_link_on_death(l);
}

void as_link_watch_death(struct as_link *l)
{
    l->death_letter.open = on_death_letter;
    if (l->up.fleet->death_watch && l->up.fleet->box &&
        as_death_watch_add(l->up.fleet->death_watch, &l->page->lock, l->up.fleet->box,
                           &l->death_letter))
        l->life = AS_LINK_WATCHED;
}

/* The kernel keeps what was written before a death. Another process may have the socket too and go
 * on writing: that is not read. */
