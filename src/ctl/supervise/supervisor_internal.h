/* ctl/supervise/supervisor_internal.h — what the supervisor's files share; nobody else includes it.
 *
 *   supervisor.c          its life, signals, messages between the two others
 *   supervisor_signal.c   who sent a signal
 *   supervisor_notify.c   what the service manager hears
 *   supervisor_upgrade.c  another version of all three: `anyserve upgrade`
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
    AS_UPGRADE_CHECKING,   /* can the new program read what we know? */
    AS_UPGRADE_CONTROLLER, /* we are the new program; the controller becomes it, ready or not */
    AS_UPGRADE_DISPATCHER, /* another dispatcher starts beside the one that serves */
    AS_UPGRADE_MOVING,     /* workers come over to it */
    AS_UPGRADE_YIELDING,   /* clients do; the former one finishes what it has */
    AS_UPGRADE_STAGES
};

struct as_supervisor_dispatcher { /* a dispatcher: one, or two during an upgrade */
    struct as_supervisor *s;
    struct as_service *service; /* NULL: none was made */
    struct as_channel *channel; /* NULL: it is not there */
    bool serving;               /* takes workers */
    bool down;
};

/* Small enough to be obviously right: it forks, signals, reaps and passes messages on. Everything
 * that can go wrong with bytes from outside is in other processes. */
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
    struct as_supervisor_dispatcher dispatchers[2];
    struct as_supervisor_dispatcher *current, *other; /* who serves; the next, or the former one */
    struct as_service *controller;
    struct as_channel *to_controller; /* NULL: not there */
    struct as_workers *workers;
    struct as_rand rand;
    uint64_t oom_seen;
    as_ns started_at;
    struct as_task orphans;
    struct as_timer watchdog; /* when the service manager is told again that we are well */
    bool watchdog_failed;     /* it has been logged that it does not hear that */
    bool complete;            /* every replica has been READY */
    bool controller_down, workers_down;
    struct {
        enum as_upgrade_stage stage;
        as_ns started_at;
        struct as_process *check;
        struct as_buf check_output; /* by the check: its last line */
        struct as_timer timer;
        uint32_t attempts; /* to become idle; CONTROLLER: starts of it */
        int handover_fd;   /* for the next dispatcher: connections of the former one come by it; -1:
                              none */
    } upgrade;
};

as_ns as_supervisor_option_ns(const struct as_supervisor *s, enum as_option_id id);
void as_supervisor_send_dispatcher_state(
    struct as_supervisor *s); /* whether there is a dispatcher */
struct as_child_conf as_supervisor_child_conf(struct as_supervisor *s);
void as_supervisor_make_dispatcher(struct as_supervisor *s, struct as_supervisor_dispatcher *f,
                                   const struct as_handover *fds);
void as_supervisor_try_end(struct as_supervisor *s);
void as_supervisor_dispatcher_down(
    struct as_supervisor *s); /* what follows from nobody serving any more */

/* supervisor_signal.c */
#define AS_SENDER_MAX 160u /* bytes of the text below */
/* Who sent it, as the value of a log field. */
const char *as_supervisor_signal_sender(const struct signalfd_siginfo *si, char out[AS_SENDER_MAX]);
/* It comes from a worker of ours or from what one has started, for certain: that is logged, and
 * nothing follows from it. A sender that has ended meanwhile, and left its group, cannot be told
 * from an operator's `kill`. */
bool as_supervisor_refuses_signal(struct as_supervisor *s, const struct signalfd_siginfo *si);

/* A drain begins. Who pressed Ctrl-C sits there and waits: they are told for what, apart from the
 * log. delay: of --shutdown-delay. */
void as_supervisor_print_drain(struct as_supervisor *s, const struct signalfd_siginfo *si,
                               as_ns delay);

/* supervisor_notify.c */
/* One word of sd_notify(3). A manager that does not hear it waits until its own timeout. */
void as_supervisor_notify(struct as_supervisor *s, const char *state);
/* WATCHDOG=1 at intervals, for as long as our loop turns, if the manager asked for it. */
void as_supervisor_watchdog_init(struct as_supervisor *s);
void as_supervisor_watchdog_start(struct as_supervisor *s);
/* Before and after an exec that may fail: the manager waits for nobody meanwhile. _leave tells the
 * next image, by the environment, what the manager asked for. */
void as_supervisor_watchdog_pause(struct as_supervisor *s);
void as_supervisor_watchdog_resume(struct as_supervisor *s);

/* supervisor_upgrade.c */
void as_supervisor_upgrade_init(struct as_supervisor *s);
void as_supervisor_upgrade_fini(struct as_supervisor *s);  /* the loop must run on to close it */
void as_supervisor_upgrade_start(struct as_supervisor *s); /* SIGUSR2 */
/* What the old image wrote becomes ours. False: it cannot be; a sentence is in the reader's err. */
bool as_supervisor_restore(struct as_supervisor *s, struct as_reexec_reader *in);
/* Steps: another life of the controller begins; it, or the front that starts, has said SERVING; a
 * front is down; OPENED and MOVED were said. */
void as_supervisor_controller_starting(struct as_supervisor *s);
void as_supervisor_controller_serving(struct as_supervisor *s);
void as_supervisor_dispatcher_serving(struct as_supervisor *s, struct as_supervisor_dispatcher *f);
void as_supervisor_other_dispatcher_down(struct as_supervisor *s, bool gave_up);
void as_supervisor_on_moved(struct as_supervisor *s, uint32_t foreign, bool drains);
void as_supervisor_on_opened(struct as_supervisor *s);
/* What a dispatcher says to the one that relieves it. */
void as_supervisor_on_legacy(struct as_supervisor *s, const struct as_supervisor_dispatcher *f,
                             const struct as_ctl_message *m);
/* The server drains or ends: an upgrade that is under way is given up. */
void as_supervisor_upgrade_cancel(struct as_supervisor *s);

#endif
