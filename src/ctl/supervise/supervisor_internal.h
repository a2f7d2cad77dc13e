/* ctl/supervise/supervisor_internal.h — shared by the supervisor's files; nobody else includes it.
 *
 *   supervisor.c          phases, signals, messages between dispatcher and controller
 *   supervisor_signal.c   signalfds, and who sent a signal
 *   supervisor_notify.c   messages to the service manager (sd_notify)
 *   supervisor_upgrade.c  the upgrade of all three processes: `anyserve upgrade`
 */
#ifndef AS_CTL_SUPERVISOR_INTERNAL_H
#define AS_CTL_SUPERVISOR_INTERNAL_H

#include "ctl/output/journal.h"
#include "ctl/output/log_file.h"
#include "ctl/supervise/service.h"
#include "ctl/supervise/supervisor.h"
#include "ctl/supervise/workers.h"

#include <sys/signalfd.h>

enum as_supervisor_phase { STARTING, SERVING, DRAINING, STOPPING, ENDED, PHASES };

/*   NONE ── SIGUSR2 ──► CHECKING ── it can ──► (exec) ──► CONTROLLER ── SERVING ──► DISPATCHER
 *    ▲ ▲                   │ it cannot                                                 │ SERVING
 *    │ └───────────────────┘                                          it gave up       ▼
 *    │ ◄───────────────────────────────────────────────────────────────────────── MOVING
 *    │                                                                                │ OPENED
 *    └──── the former one has ended ──────────────────────────────────────── YIELDING ◄┘
 */
enum as_upgrade_stage {
    AS_UPGRADE_NONE,
    AS_UPGRADE_CHECKING,   /* the new program tests whether it can read our state */
    AS_UPGRADE_CONTROLLER, /* we are the new program; the controller is restarted, ready or not */
    AS_UPGRADE_DISPATCHER, /* a second dispatcher starts beside the one that serves */
    AS_UPGRADE_MOVING,     /* workers connect to the second one */
    AS_UPGRADE_YIELDING,   /* clients do, too; the former one answers the requests that it has */
    AS_UPGRADE_STAGES
};

struct as_supervisor_dispatcher { /* there is one, and two during an upgrade */
    struct as_supervisor *s;
    struct as_service *service; /* NULL: this one is unused */
    struct as_channel *channel; /* NULL: it does not run */
    bool serving;               /* it has sent SERVING */
    bool down;
};

/* Kept small: it forks, signals, reaps and passes messages on. Input from the network is parsed in
 * other processes only. */
struct as_supervisor {
    const struct as_supervisor_conf *conf;
    enum as_supervisor_phase phase;
    int code;
    struct as_loop *loop;
    struct as_console console;
    struct as_log_file log_file;
    struct as_journal journal;
    struct as_log log;
    struct as_sock signals;
    bool has_terminal;     /* it was started with a controlling terminal */
    struct as_sock parent; /* pidfd of the process of --end-with */
    bool watches_parent;
    struct as_supervisor_dispatcher dispatchers[2];
    struct as_supervisor_dispatcher *current; /* the one that serves */
    struct as_supervisor_dispatcher *other;   /* during an upgrade: the next or the former one */
    struct as_service *controller;
    struct as_channel *to_controller; /* NULL: the controller does not run */
    struct as_workers *workers;
    struct as_rand rand;
    uint64_t oom_seen;
    as_ns started_at;
    struct as_task orphans;
    struct as_timer watchdog; /* sends WATCHDOG=1 to the service manager */
    bool watchdog_failed;     /* that WATCHDOG=1 cannot be sent was logged */
    struct {
        uint32_t asked,
            done;        /* numbers: the newest that was asked for, that a dispatcher has done */
        bool next_needs; /* one was asked for while the next dispatcher may have read the files */
    } reload;
    bool complete; /* COMPLETE came: every replica has been READY */
    bool controller_down, workers_down;
    struct {
        enum as_upgrade_stage stage;
        as_ns started_at;
        struct as_process *check;
        struct as_buf check_output; /* the last line that the check printed */
        struct as_timer timer;
        uint32_t attempts; /* CHECKING: polls for an idle moment; CONTROLLER: its starts */
        int handover_fd;   /* for the next dispatcher: the socket by which the former one hands it
                              connections; -1: none */
    } upgrade;
};

as_ns as_supervisor_option_ns(const struct as_supervisor *s, enum as_option_id id);
void as_supervisor_send_dispatcher_state(struct as_supervisor *s); /* READY or LOST */
void as_supervisor_make_dispatcher(struct as_supervisor *s, struct as_supervisor_dispatcher *d,
                                   const struct as_handover *fds);
void as_supervisor_try_end(struct as_supervisor *s);
/* Stops the server, unless a former dispatcher still drains. */
void as_supervisor_dispatcher_down(struct as_supervisor *s);

/* supervisor_signal.c */
#define AS_SENDER_MAX 160u /* bytes of the text below */
/* Describes the sender as the value of a log field. */
const char *as_supervisor_signal_sender(const struct signalfd_siginfo *si, char out[AS_SENDER_MAX]);
/* True: a worker, or a process that one started, has sent it. That is logged, and the signal must
 * be ignored. A sender that has ended and left its process group looks like an operator's `kill`.
 */
bool as_supervisor_refuses_signal(struct as_supervisor *s, const struct signalfd_siginfo *si);

/* Remembers whether the server has a controlling terminal. */
void as_supervisor_look_for_terminal(struct as_supervisor *s);
/* True: SIGHUP says that the terminal was closed: by the kernel, or by a shell whose terminal has
 * gone. Any other SIGHUP asks for a reload, and so does each one to a server that was started with
 * SIGHUP ignored (nohup). */
bool as_supervisor_hangup_ends(const struct as_supervisor *s, const struct signalfd_siginfo *si);

/* SIGHUP asks for a reload. It is the current dispatcher's; if that one ends before it has
 * answered, it is the next one's. */
void as_supervisor_reload(struct as_supervisor *s, const struct signalfd_siginfo *si);
/* The current dispatcher serves: it gets what is due. */
void as_supervisor_reload_pending(struct as_supervisor *s);

/* Watches the process of --end-with, if there is one: when it ends, the server ends as after
 * SIGTERM. 0; AS_EIO: errno. */
int as_supervisor_watch_parent(struct as_supervisor *s);

/* A drain starts: after Ctrl-C, prints what it waits for to the terminal. delay: --shutdown-delay.
 */
void as_supervisor_print_drain(struct as_supervisor *s, const struct signalfd_siginfo *si,
                               as_ns delay);

/* supervisor_notify.c */
/* Sends one state of sd_notify(3). When that fails, the manager waits until its own timeout. */
void as_supervisor_notify(struct as_supervisor *s, const char *state);
/* Sends WATCHDOG=1 at intervals from the event loop, if the manager asked for it. */
void as_supervisor_watchdog_init(struct as_supervisor *s);
void as_supervisor_watchdog_start(struct as_supervisor *s);
/* Before an exec, and after one that failed: the manager's watchdog is off in between. _pause puts
 * the manager's interval into the environment for the next image. */
void as_supervisor_watchdog_pause(struct as_supervisor *s);
void as_supervisor_watchdog_resume(struct as_supervisor *s);

/* supervisor_upgrade.c */
void as_supervisor_upgrade_init(struct as_supervisor *s);
void as_supervisor_upgrade_fini(struct as_supervisor *s);  /* the loop must run once more */
void as_supervisor_upgrade_start(struct as_supervisor *s); /* SIGUSR2 */
/* Takes over the state that the old image wrote. False: it is unusable; the reader's err says why.
 */
bool as_supervisor_restore(struct as_supervisor *s, struct as_reexec_reader *in);
/* Events that advance an upgrade: a controller process starts; the controller or the second
 * dispatcher has sent SERVING; the other dispatcher is down; MOVED or OPENED came. */
void as_supervisor_controller_starting(struct as_supervisor *s);
void as_supervisor_controller_serving(struct as_supervisor *s);
void as_supervisor_dispatcher_serving(struct as_supervisor *s, struct as_supervisor_dispatcher *d);
void as_supervisor_other_dispatcher_down(struct as_supervisor *s, bool gave_up);
void as_supervisor_on_moved(struct as_supervisor *s, uint32_t foreign, bool drains);
void as_supervisor_on_opened(struct as_supervisor *s);
/* Passes LEGACY and FEWER of the former dispatcher to the one that takes over. */
void as_supervisor_on_legacy(struct as_supervisor *s, const struct as_supervisor_dispatcher *d,
                             const struct as_ctl_message *m);
/* The server drains or stops: an upgrade that is under way is cancelled. */
void as_supervisor_upgrade_cancel(struct as_supervisor *s);

#endif
