/* app/dispatcher/dispatcher_internal.h — the dispatcher process, for its own files only.
 *
 * dispatcher.c sets the process up and tears it down, dispatcher_messages.c exchanges messages with
 * the supervisor, dispatcher_load.c tells the controller what autoscaling needs,
 * dispatcher_shutdown.c drains and stops the loops, dispatcher_heartbeat.c reports that they turn,
 * dispatcher_keys.c reads API keys, dispatcher_reload.c reads certificates again.
 */
#ifndef AS_APP_DISPATCHER_INTERNAL_H
#define AS_APP_DISPATCHER_INTERNAL_H

#include "app/dispatcher/dispatcher.h"
#include "app/options/tls_conf.h"
#include "base/err.h"
#include "ctl/message/outbox.h"
#include "ctl/output/console.h"
#include "ctl/output/journal.h"
#include "ctl/state/token.h"
#include "edge/admin/status_page.h"
#include "edge/edge.h"
#include "io/loop/file_watch.h"
#include "io/loop/sock.h"
#include "link/simple/simple.h"

#include <pthread.h>

struct as_dispatcher;

struct as_client_lane { /* an event loop with its thread and its clients; lane 0 has the main thread
                         */
    struct as_dispatcher *d;
    struct as_loop *loop;
    struct as_edge *edge;
    /* letters to this loop and back to lane 0; each has its own, since a stop may follow while a
     * slow drain is still under way */
    struct as_letter listen, announce_end, drain, drained, cancel_unanswered, stop, stopped;
    struct as_letter turn, turned; /* for the heartbeat */
    struct as_letter certified;    /* there are certificates at last */
    /* duplicates of the listeners, until it listens on them */
    int grpc[AS_DISPATCHER_LISTENERS], grpc_tls[AS_DISPATCHER_LISTENERS];
    int handover_in, handover_out; /* duplicates, until it adopts clients, or drains; -1: none */
    pthread_t thread;
};

/* --api-keys: dispatcher_keys.c. While a thread reads the files, `former`, `result` and `why` are
 * that thread's. */
struct as_dispatcher_keys {
    struct as_key_table *table; /* the newest one; NULL: none was read */
    struct as_list deliveries;  /* of tables to lanes, which not all have opened */
    struct as_key_table *former, *result;
    struct as_buf why;
};

/* The files that are read again while the server serves: dispatcher_reload.c. */
struct as_dispatcher_reload {
    struct as_tls_conf conf;
    struct as_tls_server *tls;   /* NULL: no certificate is given */
    struct as_file_watch *watch; /* of the files; NULL: they are not watched */
    struct as_file_watch *next;  /* the thread's: replaces it, since links may lead elsewhere now */
    int watch_errno;             /* the thread's; 0: all are watched */
    struct as_timer settle;      /* after a change: several files may be written one by one */
    bool reading;                /* the thread runs */
    bool asked;                  /* … and somebody waits for the outcome */
    bool again, again_asked;     /* another reading is due behind it */
    pthread_t thread;
    struct as_letter done;
    bool tls_failed;  /* the thread's */
    bool uncertified; /* the first loading has failed, and none has been done since */
    uint32_t asked_newest, asked_read; /* numbers of RELOAD: the newest, and the newest before the
                                          reading */
    struct as_buf why;
};

/* only moves forward */
enum as_dispatcher_phase {
    AS_DISPATCHER_SERVING,
    AS_DISPATCHER_SHUTDOWN_DELAY, /* still serves, but is not ready: --shutdown-delay */
    AS_DISPATCHER_DRAINING,
    AS_DISPATCHER_ABORTING, /* --drain-timeout has passed: open requests get an error */
    AS_DISPATCHER_STOPPING
};

/* Used on the loop of lane 0 only, except for members that are atomic by their own headers
 * (budgets, the fleet's flags). Other lanes communicate by letters. */
struct as_dispatcher {
    const struct as_option_set *opts;
    struct as_journal journal;
    struct as_console_shared console;
    struct as_log log;
    struct as_client_lane *lanes;
    uint32_t n_lanes, n_drained, n_stopped; /* how many lanes there are, are drained, are stopped */
    struct as_edge *management; /* on lane 0's loop; serves until the workers are released */
    char token[AS_TOKEN_MAX + 1];
    struct as_fleet *fleet;
    struct as_edge_budgets budgets;
    struct as_status_page status_page;
    struct as_dispatcher_keys keys;
    struct as_shm *shm;     /* shared memory of clients, for all lanes; NULL: not allowed */
    struct as_edge *status; /* on lane 0's loop; serves to the end */
    struct as_edge_budgets status_budgets;
    struct as_dispatcher_reload reload;
    struct as_sock control;      /* to the supervisor */
    struct as_outbox outbox;     /* messages that the supervisor has not read yet */
    bool outbox_full;            /* it was logged that messages are lost */
    struct as_timer end_timer;   /* the next step of the shutdown */
    struct as_timer heartbeat;   /* the next heartbeat to the supervisor */
    uint32_t n_lanes_pending;    /* lanes that have not turned since the last heartbeat */
    struct as_timer admit_timer; /* the longest time that clients wait for workers to come back */
    uint32_t n_awaited;          /* workers that are expected to come back … */
    uint32_t n_awaited_foreign;  /* … and workers that others started, of the former dispatcher */
    bool workers_admitted, clients_admitted;
    bool replaces_other;   /* a former dispatcher serves until this one does */
    bool yielding;         /* a new dispatcher accepts the workers */
    bool listeners_closed; /* the inherited listeners for clients */
    /* Sockets over which client connections come from the former dispatcher, and go to the next
     * one: edge/conn/connection_handover.h. -1: none. */
    int handover_in, handover_out;
    const struct as_dispatcher_fds *fds;
    uv_signal_t sigterm;
    enum as_dispatcher_phase phase;
    int exit_code;
};

/* Posts a letter; `open` is called with it on the loop of `to`. A letter must not be posted again
 * before it was opened: d->phase prevents a second drain or stop. */
void as_client_lane_post(struct as_client_lane *to, struct as_letter *letter,
                         void (*open)(struct as_letter *, void *));

/* --- dispatcher_messages.c --- */

/* Tells the next dispatcher, through the supervisor, how many requests of the worker remain here;
 * for as_simple_start_handover. */
void as_dispatcher_send_fewer(void *dispatcher, struct as_str worker, uint64_t epoch, uint32_t n);
/* Closes *fd, if it is one, and sets it to `next`. */
void as_dispatcher_replace_fd(int *fd, int next);
void as_dispatcher_on_calls_done(void *ctx);              /* of as_fleet_ops */
extern const struct as_fleet_ops as_dispatcher_fleet_ops; /* ctx: the dispatcher */
void as_dispatcher_on_control(struct as_sock *s, int events);
void as_dispatcher_on_admit_timeout(struct as_timer *t);
/* Sends a message to the supervisor. Messages wait in the outbox while the supervisor does not read
 * (it is stopped, or the machine thrashes), so that serving continues. A full outbox loses the
 * newest messages: the supervisor then learns of READY and KILL only by its own timeouts. */
void as_dispatcher_send(struct as_dispatcher *d, const struct as_ctl_message *m);
void as_dispatcher_send_text(struct as_dispatcher *d, enum as_ctl_type type, struct as_str replica,
                             struct as_str token, struct as_str text);

/* --- dispatcher_load.c --- */

/* Sends LOAD; of as_fleet_ops. */
bool as_dispatcher_send_load(void *ctx, const struct as_fleet_load *l);

/* --- dispatcher_heartbeat.c --- */

/* Call it after SERVING was sent. Sends a heartbeat at intervals, as long as the loop of every lane
 * turns: most clients would not notice a single lane that hangs. */
void as_dispatcher_start_heartbeat(struct as_dispatcher *d);

/* --- dispatcher_reload.c --- */

/* Reads the certificates for the first time, and watches all files. A file that cannot be used is
 * logged: the supervisor has checked it, and it may become usable again. 0 or AS_EIO. */
int as_dispatcher_reload_open(struct as_dispatcher *d);
/* Reads the files again, on a thread beside the loops, since a million keys take two seconds and a
 * network file system may block. What was read before stays where that fails. Logged, and written
 * to the runtime folder for `anyserve reload`. */
void as_dispatcher_reload(struct as_dispatcher *d, uint32_t number);
void as_dispatcher_reload_retry(struct as_dispatcher *d); /* reads them soon, unless one changes */
void as_dispatcher_reload_close(struct as_dispatcher *d); /* the loops have ended */

/* --- dispatcher_keys.c --- */

/* Reads the file of --api-keys, if there is one, for the lanes and the status port's edge, which
 * exist. */
void as_dispatcher_keys_open(struct as_dispatcher *d);
/* Before, on and after the thread of a reading. _take publishes what was read, unless the
 * dispatcher stops, and logs it. False: it could not be read; d->keys.why says why. */
void as_dispatcher_keys_prepare(struct as_dispatcher *d);
void as_dispatcher_keys_read(struct as_dispatcher *d);
bool as_dispatcher_keys_take(struct as_dispatcher *d);
/* --api-keys is given, and no reading has given any. */
bool as_dispatcher_keys_are_missing(const struct as_dispatcher *d);
void as_dispatcher_keys_close(struct as_dispatcher *d); /* lanes have ended; before their loop */

/* --- dispatcher_shutdown.c --- */

/* Begins the shutdown: readiness turns off, and the drain begins after --shutdown-delay. */
void as_dispatcher_shutdown(struct as_dispatcher *d);
/* Drains: new clients are refused, open requests finish, and then, when no request can come any
 * more, the workers are released. Does nothing if it has begun already. */
void as_dispatcher_drain(struct as_dispatcher *d);
void as_dispatcher_on_end_timer(struct as_timer *t);
/* Closes the inherited listeners, once every lane has duplicates: clients are refused when the
 * lanes close those. */
void as_dispatcher_close_listeners(struct as_dispatcher *d);

#endif
