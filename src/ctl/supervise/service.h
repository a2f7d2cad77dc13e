/* ctl/supervise/service.h — the dispatcher's or the controller's process: a child with a control
 * socket.
 *
 * There is always exactly one process: once it has served it is restarted however it ends. Each
 * process gets copies of the same descriptors. For the dispatcher these are the listeners: while it
 * is being restarted the kernel queues connections, and none is refused. A process that serves and
 * whose heartbeat stops is killed, unless a debugger traces it or it was asked to end.
 *
 * It writes its log itself, to our stderr and to its journal, so that its log does not wait for
 * us. Everything else that it prints, as a failed assertion, comes to us by a pipe, and goes to the
 * console and the journal under its name. Thread: the loop's.
 */
#ifndef AS_CTL_SERVICE_H
#define AS_CTL_SERVICE_H

#include "base/log.h"
#include "conf/option/option.h"
#include "ctl/message/channel.h"
#include "ctl/output/console.h"
#include "ctl/supervise/child.h"
#include "ctl/supervise/handover.h"

struct as_service;

struct as_service_conf {
    const char *name;    /* command, and name in the log: "dispatcher" */
    const char *program; /* what is executed: "/proc/self/exe" */
    const struct as_option_set *opts;
    uint32_t scope;         /* options of this scope are passed to it */
    const char *arg;        /* last argument, or NULL */
    struct as_handover fds; /* closed by as_service_drain, _stop or _close */
    /* shows what it prints; its descriptor is where it writes its log */
    struct as_console *console;
    as_ns heartbeat;  /* a heartbeat must come at least so often; 0: not checked
                         (core/replicas/heartbeat.h) */
    int death_signal; /* sent to it when we die; 0: it sees the end of its socket only */
    struct as_child_conf child;
};

struct as_service_ops {
    /* A new process is about to start: what is sent now is what it reads first. NULL: it is dead.
     */
    void (*on_channel)(void *ctx, struct as_channel *channel);
    void (*on_serving)(void *ctx);
    void (*on_message)(void *ctx, const struct as_ctl_message *m); /* all but SERVING */
    void (*on_down)(void *ctx, bool gave_up); /* it is not started again; deferred */
};

/* The command line of such a process: --fds, the options of `scope`, `arg` (or NULL). Free it by
 * as_option_argv_free. */
char **as_service_argv(const char *name, const struct as_option_set *opts, uint32_t scope,
                       const struct as_handover *h, const char *arg);

int as_service_new(struct as_service **ret_s, struct as_loop *loop,
                   const struct as_service_conf *conf, const struct as_service_ops *ops, void *ctx,
                   const struct as_log *log);
void as_service_close(struct as_service *s); /* the loop must run once more before _free */
void as_service_free(struct as_service *s);

void as_service_start(struct as_service *s);
/* Sends DRAIN, after `timeout` SIGKILL; on_down follows its end. Our copies of the descriptors are
 * closed, so that no new connection is accepted. */
void as_service_drain(struct as_service *s, as_ns timeout);
void as_service_stop(struct as_service *s); /* SIGKILL */
/* Sends YIELD with `number` (ctl/message/message.h) and the descriptor `fd` (-1: none); on_down as
 * after as_service_drain. May be repeated. */
void as_service_yield(struct as_service *s, uint32_t number, int fd, as_ns timeout);
/* Ends the process and starts the next one, by the program as it is on the disk now; on_serving
 * follows. */
void as_service_restart(struct as_service *s, as_ns timeout);
bool as_service_is_ready(const struct as_service *s);
/* One that waits for its next start is started now. True: it has a process, ready or not. */
bool as_service_ensure_running(struct as_service *s);
/* The descriptors that each process gets. Owned by the service: a second service needs copies. */
const struct as_handover *as_service_fds(const struct as_service *s);

/* READY, and the socket has taken every message that was sent. */
bool as_service_is_idle(const struct as_service *s);
/* For an upgrade's exec (ctl/message/reexec_state.h). _save: only with a process; messages that
 * the socket has not taken are lost, so a service that is not idle must be restarted. _restore: on
 * a new service; returns its channel, without a call of on_channel, or NULL in a dry read or when
 * it is dead. */
As__Service *as_service_save(const struct as_service *s, As__Supervisor *state);
struct as_channel *as_service_restore(struct as_service *s, struct as_reexec_reader *in,
                                      const As__Service *m);

bool as_service_owns_pid(const struct as_service *s, pid_t pid);

#endif
