/* ctl/supervise/workers.h — the worker processes of a server, as the supervisor has them.
 *
 * It starts, signals and reaps as the controller says, and decides nothing. For each replica it
 * keeps what a new dispatcher (token, line of the status page) and a new controller (process, note,
 * how it ended) must be told, so that each of the two can be killed without asking the other. A
 * process that the dispatcher wants killed is killed, whether there is a controller or not.
 * Thread: the loop's.
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
    void (*on_stopped)(void *ctx); /* after as_workers_stop: no process is left; deferred */
    void *ctx;
};

int as_workers_new(struct as_workers **ret_w, struct as_loop *loop,
                   const struct as_workers_conf *conf, struct as_console *console,
                   const struct as_log *log);
void as_workers_close(struct as_workers *all); /* the loop must run once more before _free */
void as_workers_free(struct as_workers *all);  /* without a process */

/* A new dispatcher is told all, then TOLD. NULL: it is gone, all links are lost. */
void as_workers_set_dispatcher(struct as_workers *all, struct as_channel *channel);
/* Another dispatcher takes over: it is told all but TOLD, every replica as LOST until it
 * says READY. The former one hears of deaths only, and what it says of a replica that has come over
 * is void. */
void as_workers_switch_dispatcher(struct as_workers *all, struct as_channel *channel);
void as_workers_remove_former(struct as_workers *all);
/* A word of the former one: READY, GONE, KILL, RETIRED, ANSWER. True: it counts for the controller,
 * too. */
bool as_workers_handle_former(struct as_workers *all, const struct as_ctl_message *m);
/* A word of the current one that is only for the controller: RETIRED, while the former one may
 * still have requests of the replica, is not true yet. The controller asks again. */
bool as_workers_accepts(const struct as_workers *all, const struct as_ctl_message *m);

/* The first controller has said what there is to be: no TOLD comes before that, or a dispatcher
 * would take models for unknown that nobody has named yet, and itself for ready. */
void as_workers_controller_ready(struct as_workers *all);
/* A new controller is told RUNS, and EXITED, of every replica. NULL: it is gone. */
void as_workers_set_controller(struct as_workers *all, struct as_channel *channel);

/* SPAWN, SIGNAL, NOTE, PLACE, REMOVE, DOWN, UP, STATUS, DELETE of the controller; READY, GONE of
 * the dispatcher; KILL of both. About processes that are not there: nothing happens. */
void as_workers_handle(struct as_workers *all, const struct as_ctl_message *m);

/* All of them are asked to end: the signal now, SIGKILL after `timeout`; again to hurry. SPAWN is
 * not heard any more. */
void as_workers_stop(struct as_workers *all, int signal, as_ns timeout);
/* Over an exec (ctl/message/reexec_state.h). _resume on a new one; the channels may be NULL. */
void as_workers_save(const struct as_workers *all, struct as_reexec_writer *c);
void as_workers_restore(struct as_workers *all, struct as_reexec_reader *c,
                        struct as_channel *dispatcher, struct as_channel *controller);
bool as_workers_owns_pid(const struct as_workers *all, pid_t pid);
/* Whose process that is, or was until a moment ago; "spare"; NULL: nobody's. */
const char *as_workers_name_of_pid(const struct as_workers *all, pid_t pid);

#endif
