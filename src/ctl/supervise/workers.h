/* ctl/supervise/workers.h — the worker processes of a server, on the supervisor's side.
 *
 * Starts, signals and reaps processes as the controller's messages say, and decides nothing. For
 * each replica it stores what a new dispatcher needs (token, line of the status page), for each
 * deployment its models, and what a
 * new controller needs (process, note, how it ended), so that either can be killed without asking
 * the other. KILL of the dispatcher is carried out whether there is a controller or not. Thread:
 * the loop's.
 *
 *          SPAWN             READY               GONE, no dispatcher
 *   WAITING ────► STARTING ────────► READY ◄──────────────────────────► LOST
 *   DOWN, by PLACE   │                 │                                  │
 *      ▲             ├─────────────────┴── SIGNAL, stop ──► STOPPING ◄────┤
 *      └── exited ───┴───────────────────────────────────────────┴────────┘
 */
#ifndef AS_CTL_WORKERS_H
#define AS_CTL_WORKERS_H

#include "ctl/message/channel.h"
#include "ctl/output/console.h"
#include "ctl/supervise/process.h"

struct as_workers;

struct as_workers_conf {
    uint64_t *oom_seen;            /* ctl/supervise/process.h */
    bool terminal;                 /* ctl/supervise/launch.h */
    void (*on_stopped)(void *ctx); /* after as_workers_stop, when no process is left; deferred */
    void *ctx;
};

int as_workers_new(struct as_workers **ret_w, struct as_loop *loop,
                   const struct as_workers_conf *conf, struct as_console *console,
                   const struct as_log *log);
void as_workers_close(struct as_workers *all); /* the loop must run once more before _free */
void as_workers_free(struct as_workers *all);  /* without a process */

/* A new dispatcher: it is sent the whole state, then TOLD. NULL: the dispatcher has died, and every
 * link is lost. */
void as_workers_set_dispatcher(struct as_workers *all, struct as_channel *channel);
/* During an upgrade another dispatcher takes over: it is sent the whole state but no TOLD, with
 * every replica LOST until it sends READY. The former dispatcher is sent FORGET only, and its
 * messages about a replica that the new one has are ignored. */
void as_workers_switch_dispatcher(struct as_workers *all, struct as_channel *channel);
void as_workers_remove_former(struct as_workers *all);
/* READY, GONE, KILL, RETIRED, ANSWER or LEAVES of the former dispatcher. True: to be passed to the
 * controller. */
bool as_workers_handle_former(struct as_workers *all, const struct as_ctl_message *m);
/* A message of a process that an earlier version has started has names of deployments and replicas:
 * the same message with their ids, which point into *names. */
struct as_workers_names {
    struct as_id deployment;
    char replica[AS_CTL_NAME_MAX + 1];
};
struct as_ctl_message as_workers_qualify(const struct as_workers *all,
                                         const struct as_ctl_message *m,
                                         struct as_workers_names *names);
/* Whether a message of the current dispatcher is to be passed to the controller. RETIRED is not,
 * while the former dispatcher may still have requests of the replica; the controller asks again. */
bool as_workers_accepts(const struct as_workers *all, const struct as_ctl_message *m);

/* The controller has sent SERVING: from now on dispatchers are sent TOLD. Before that a dispatcher
 * would take models for unknown that the controller has not named yet, and itself for ready. */
void as_workers_controller_ready(struct as_workers *all);
/* A new controller: it is sent RUNS, and EXITED, for every replica. NULL: it has died. */
void as_workers_set_controller(struct as_workers *all, struct as_channel *channel);

/* SPAWN, SIGNAL, NOTE, PLACE, REMOVE, DOWN, UP, STATUS, DELETE, DECLARE of the controller; READY,
 * GONE, LEAVES, MODEL of the dispatcher; KILL of both. Messages about a process that has ended are
 * ignored.
 */
void as_workers_handle(struct as_workers *all, const struct as_ctl_message *m);

/* Sends `signal` to every worker now and SIGKILL after `timeout`; a second call may shorten the
 * timeout. From now on SPAWN is ignored. */
void as_workers_stop(struct as_workers *all, int signal, as_ns timeout);
/* For an upgrade's exec (ctl/message/reexec_state.h). _restore: on a new table; the channels may be
 * NULL. */
void as_workers_save(const struct as_workers *all, As__Supervisor *state);
void as_workers_restore(struct as_workers *all, struct as_reexec_reader *in,
                        struct as_channel *dispatcher, struct as_channel *controller);
bool as_workers_owns_pid(const struct as_workers *all, pid_t pid);
/* The replica that has the process `pid`, or had it last; "spare"; NULL: no worker. */
const char *as_workers_name_of_pid(const struct as_workers *all, pid_t pid);

#endif
