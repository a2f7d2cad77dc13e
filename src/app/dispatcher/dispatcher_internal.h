/* app/dispatcher/dispatcher_internal.h — the insides of the dispatcher process; only its own files
 * include this.
 *
 * dispatcher.c sets it up and takes it down, dispatcher_word.c hears the supervisor and tells it,
 * dispatcher_end.c drains and stops the loops, dispatcher_beat.c says that they turn.
 */
#ifndef AS_APP_DISPATCHER_OWN_H
#define AS_APP_DISPATCHER_OWN_H

#include "app/dispatcher/dispatcher.h"
#include "base/err.h"
#include "ctl/output/console.h"
#include "ctl/output/journal.h"
#include "ctl/message/outbox.h"
#include "ctl/state/token.h"
#include "edge/admin/status_page.h"
#include "edge/edge.h"
#include "edge/admin/status_listener.h"
#include "io/loop/sock.h"
#include "link/simple/simple.h"

#include <pthread.h>

struct as_dispatcher;

struct as_client_lane { /* one loop with its thread and its clients */
    struct as_dispatcher *d;
    struct as_loop *loop;
    struct as_edge *edge;
    /* to this loop and back to the dispatch loop; one each, since a drain that takes too long is
     * overtaken by the stop */
    struct as_letter listen, announce_end, drain, drained, cancel_unanswered, stop, stopped;
    struct as_letter turn, turned;
    int grpc[AS_DISPATCHER_LISTENERS]; /* its own duplicates, until it listens */
    int handover_in, handover_out;     /* its own, until it adopts, or drains; -1: none */
    pthread_t thread;
};

/* forward only */
enum as_dispatcher_phase {
    AS_DISPATCHER_SERVING,
    AS_DISPATCHER_SHUTDOWN_DELAY, /* serves on, but says that it is not ready: --shutdown-delay */
    AS_DISPATCHER_DRAINING,
    AS_DISPATCHER_ABORTING, /* the drain has run out of time: what is unanswered is told so */
    AS_DISPATCHER_STOPPING
};

/* Everything here is the dispatch loop's, but for what is said to be atomic in its own header
 * (budgets, the fleet's flags). Other lanes hear and tell by letters. */
struct as_dispatcher {
    const struct as_option_set *opts;
    struct as_journal journal;
    struct as_console_shared console;
    struct as_log log;
    struct as_client_lane *lanes;
    uint32_t n_lanes, n_drained, n_stopped; /* lanes that are that far */
    struct as_edge *management; /* on lane 0's loop; serves until the workers are let go */
    char token[AS_TOKEN_MAX + 1];
    struct as_fleet *fleet;
    struct as_edge_budgets budgets;
    struct as_status_page board;
    struct as_shm *shm; /* of clients, for all lanes; NULL: not allowed */
    struct as_status_listener *status;
    struct as_sock control;
    struct as_outbox out;        /* what the supervisor is to hear */
    bool out_full;               /* it has been logged that messages are lost */
    struct as_timer end_timer;   /* the next step of an end */
    struct as_timer heartbeat;   /* when it is said again that all loops turn */
    uint32_t n_lanes_pending;    /* lanes that were asked to turn, and have not yet */
    struct as_timer admit_timer; /* the longest that clients wait for workers to come back */
    uint32_t awaited;            /* workers that are expected back: ours … */
    uint32_t foreign;            /* … and others, of the dispatcher that we relieve */
    bool told, open;             /* workers, clients are let in */
    bool replaces_other;         /* another dispatcher, which serves until we do */
    bool yielding;               /* another dispatcher has the workers' door */
    bool closed;                 /* the inherited listeners for clients */
    int handover_in,
        handover_out; /* sockets by which clients come from the dispatcher that we relieve, and
            go to the one that replaces_other us: edge/conn/connection_handover.h; -1: none */
    const struct as_dispatcher_fds *fds;
    uv_signal_t sigterm;
    enum as_dispatcher_phase phase;
    int exit_code;
};

/* Opened by `open` on the loop of `to`. A letter must be under way only once: a second drain or
 * stop is caught by the phase before. */
void as_client_lane_post(struct as_client_lane *to, struct as_letter *letter,
                         void (*open)(struct as_letter *, void *));

/* --- dispatcher_word.c --- */

/* For as_simple_start_handover. */
void as_dispatcher_send_fewer(void *dispatcher, struct as_str worker, uint64_t epoch, uint32_t n);
/* *fd becomes `next`; what it was is closed. */
void as_dispatcher_replace_fd(int *fd, int next);
extern const struct as_fleet_ops as_dispatcher_fleet_ops; /* ctx: the dispatcher */
void as_dispatcher_on_control(struct as_sock *s, int events);
void as_dispatcher_on_admit_timeout(struct as_timer *t);
/* A supervisor that reads nothing (stopped, thrashing) does not stop us from serving, so what it
 * should hear waits. A full outbox loses the newest: READY and KILL are about processes that it
 * would then have to find out about by its own timeouts, but clients are still answered. */
void as_dispatcher_send(struct as_dispatcher *d, const struct as_ctl_message *m);
void as_dispatcher_send_text(struct as_dispatcher *d, enum as_ctl_type type, struct as_str replica,
                             struct as_str token, struct as_str text);

/* --- dispatcher_beat.c --- */

/* Behind SERVING, at intervals, for as long as each lane turns: a server of which one hangs looks
 * well to most of its clients. */
void as_dispatcher_start_heartbeat(struct as_dispatcher *d);

/* --- dispatcher_end.c --- */

/* The server is to end: readiness turns, and after --shutdown-delay it drains. */
void as_dispatcher_shutdown(struct as_dispatcher *d);
/* Clients first: new ones are refused, those that are there finish. The workers are told when no
 * request can come any more. Again: nothing happens. */
void as_dispatcher_drain(struct as_dispatcher *d);
void as_dispatcher_on_end_timer(struct as_timer *t);
/* Ours go as soon as every loop has its own: when the loops close theirs, clients are refused. */
void as_dispatcher_close_listeners(struct as_dispatcher *d);

#endif
