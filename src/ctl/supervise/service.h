/* ctl/supervise/service.h — the dispatcher's or the controller's process, as the supervisor has it:
 * a child with a control socket.
 *
 * It writes its log itself, to where we print and to its journal, so that nobody's log waits for
 * us. Whatever else it prints, a failed assertion, a library's last words, comes to us by a pipe,
 * and goes the same ways under its name.
 *
 * Always exactly one, brought back whatever happens once it has served. Each life gets copies of
 * the same descriptors: for the dispatcher these are the listeners, so that its death refuses no
 * connection (the kernel queues them until the next life accepts). One that serves and is not heard
 * of for too long is ended, unless somebody debugs it, or we have asked it to end. Thread: the
 * loop's.
 */
#ifndef AS_CTL_SERVICE_H
#define AS_CTL_SERVICE_H

#include "base/log.h"
#include "conf/option.h"
#include "ctl/message/channel.h"
#include "ctl/supervise/child.h"
#include "ctl/output/console.h"
#include "ctl/supervise/handover.h"

struct as_service;

struct as_service_conf {
    const char *name;    /* of the command, and in the log: "dispatcher" */
    const char *program; /* what is executed: "/proc/self/exe" */
    const struct as_option_set *opts;
    uint32_t scope;             /* of the options that it is told */
    const char *arg;            /* behind them, or NULL */
    struct as_handover fds;     /* closed by as_service_drain, _stop or _close */
    struct as_console *console; /* takes what it prints; its descriptor gets the log */
    as_ns heartbeat; /* its loops must turn so often; 0: nobody looks (core/replicas/heartbeat.h) */
    int death_signal; /* that it gets when we die; 0: it sees the end of its socket only */
    struct as_child_conf child;
};

struct as_service_ops {
    /* A new life; all that is said now is there before it starts to look. NULL: it is dead. */
    void (*on_channel)(void *ctx, struct as_channel *channel);
    void (*on_serving)(void *ctx);
    void (*on_message)(void *ctx, const struct as_ctl_message *m); /* the rest */
    void (*on_down)(void *ctx, bool gave_up); /* no life comes any more; deferred */
};

int as_service_new(struct as_service **ret_s, struct as_loop *loop,
                   const struct as_service_conf *conf, const struct as_service_ops *ops, void *ctx,
                   const struct as_log *log);
void as_service_close(struct as_service *s); /* the loop must run once more before _free */
void as_service_free(struct as_service *s);

void as_service_start(struct as_service *s);
/* DRAIN: on_down when it has ended, at the latest after `timeout`. No new connection comes: our
 * copies of the descriptors are closed. */
void as_service_drain(struct as_service *s, as_ns timeout);
void as_service_stop(struct as_service *s); /* SIGKILL */
/* YIELD, as ctl/message/message.h says; on_down as after as_service_drain. May be repeated. fd:
 * goes along (ctl/message/channel.h), or -1. */
void as_service_yield(struct as_service *s, uint32_t number, int fd, as_ns timeout);
/* The next life, by what the program is now; on_serving tells when it is there. */
void as_service_restart(struct as_service *s, as_ns timeout);
bool as_service_is_ready(const struct as_service *s);
/* It has a process, ready or not; one that waits for its next start is started now. */
bool as_service_ensure_running(struct as_service *s);
bool as_service_is_down(const struct as_service *s);
/* The descriptors that each life gets: a second service of the same kind needs copies. */
const struct as_handover *as_service_fds(const struct as_service *s);

/* READY, and everything that was said was taken. */
bool as_service_is_idle(const struct as_service *s);
/* Over an exec (ctl/message/reexec_state.h), with a process; one that is not idle is to be renewed
 * then, since what was said and not taken is lost. _resume on a new one: its channel, of which
 * on_channel is not told; NULL in a dry read, or when it is dead. */
void as_service_save(const struct as_service *s, struct as_reexec_writer *c);
struct as_channel *as_service_restore(struct as_service *s, struct as_reexec_reader *c);

bool as_service_owns_pid(const struct as_service *s, pid_t pid);

#endif
