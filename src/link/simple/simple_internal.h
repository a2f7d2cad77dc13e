/* link/simple/simple_internal.h — what the files of simple workers share. Private to link/simple.
 */
#ifndef AS_LINK_SIMPLE_INTERNAL_H
#define AS_LINK_SIMPLE_INTERNAL_H

#include "core/replicas/lease.h"
#include "io/loop/sock.h"
#include "link/simple/simple.h"
#include "wire/oip/simple_frame.h"

#define AS_SIMPLE_IDS 4u /* how many ids of requests a connection remembers */
#define AS_SIMPLE_ID  40u

/* One connection, and its one request.
 *
 *        send                 connected           answered, may be reused
 *   ───────────► WAITING ────────────────► BUSY ─────────────────────────► IDLE ──► BUSY (next
 * send) │                       │                               │ │ refused, too late,    │
 * cancelled, broken,            │ closed by the worker, ▼ cancelled             ▼ wrong answer ▼
 * unasked bytes, too long GONE                    GONE                            GONE
 */
enum as_simple_conn_state { AS_SIMPLE_WAITING, AS_SIMPLE_BUSY, AS_SIMPLE_IDLE, AS_SIMPLE_GONE };

struct as_simple_conn {
    struct as_list node; /* in the worker's list for the state */
    struct as_simple *worker;
    enum as_simple_conn_state state;
    struct as_sock sock; /* not open while WAITING */
    struct as_task turn; /* send and cancel happen at the end of the turn */
    struct as_outq out;
    struct as_simple_frame_rx rx;
    struct as_call *call;        /* WAITING, BUSY */
    struct as_str id;            /* sent with the request: the client's, or own_id */
    char own_id[AS_SIMPLE_ID];   /* used if the client gave none; unique */
    uint64_t ids[AS_SIMPLE_IDS]; /* hashes of the last ids of clients */
    uint32_t n_ids;              /* how many ids of clients were sent so far */
    bool was_idle;    /* it was idle before this request: the worker may have closed it */
    bool cancelled;   /* nobody waits for its request */
    bool too_big;     /* the request is too large for the protocol */
    as_ns idle_since; /* in state IDLE */
};

/* One registration. */
struct as_simple {
    struct as_upstream up;
    struct as_list registry_node;       /* in the registry, unless it is leaving */
    struct as_list waiting, busy, idle; /* connections; idle: the last used is the first */
    struct as_lease lease;
    struct as_timer timer; /* for the lease, idle connections and waiting ones */
    char *worker, *model, *version, *address;
    struct as_buf encoded;     /* its model as a REGISTER frame; empty: too large for a frame */
    struct as_str socket_path; /* of the address, relative to --worker-socket-dir */
    uint64_t epoch, stream;
    uint32_t pid, slots, n_conns;
    uint32_t lent;               /* slots that the old dispatcher still uses */
    uint32_t reported_in_flight; /* open requests, as last reported to the new dispatcher */
    uint32_t handles;            /* handles of the event loop that refer to it */
    as_ns alive_at;              /* when it last answered, or accepted a connection */
    as_ns fault_logged_at;       /* when a fault was last logged … */
    uint32_t unlogged_faults;    /* … and how many were not logged since */
    bool leaving;                /* unregistered or replaced: ends with its last request */
    bool ended;                  /* only handles are left to close */
};

#define AS_SIMPLE_READ (64u << 10)

struct as_simple_registry {
    struct as_list bucket[256]; /* of as_simple.registry_node, by the hash of the worker's id */
    struct as_simple_stat stat;
    uint8_t rx[AS_SIMPLE_READ]; /* buffer for one read of any connection */
    /* set by as_simple_start_handover; NULL: there is no new dispatcher */
    void (*on_fewer)(void *arg, struct as_str worker, uint64_t epoch, uint32_t n);
    void *arg;
};

/* The registry of the fleet; allocated by the first call. */
struct as_simple_registry *as_simple_registry_get(struct as_fleet *f);
void as_simple_registry_add(struct as_simple *s);
void as_simple_registry_remove(struct as_simple *s);
struct as_simple *as_simple_registry_find(struct as_fleet *f, struct as_str worker,
                                          struct as_str model, struct as_str version);

/* --- connections (simple_conn.c) --- */

/* Adds a connected socket as an idle connection. */
void as_simple_conn_adopt(struct as_simple *s, int fd);
void as_simple_conn_send(struct as_simple *s, struct as_call *c);
void as_simple_conn_cancel(struct as_simple_conn *conn);
void as_simple_conn_retry_waiting(struct as_simple *s); /* those in state WAITING */
as_ns as_simple_conn_close_idle(struct as_simple *s,
                                as_ns now); /* returns when the next one is to be closed */
/* Closes all; requests go back to core, or are lost. */
void as_simple_conn_close_all(struct as_simple *s);

/* Like as_simple_join. epoch 0: a new one; else this one, with all slots lent. */
int as_simple_join_with_epoch(struct as_fleet *f, const struct as_simple_registration *o,
                              uint64_t epoch, char *why, size_t cap);

/* --- handover (simple_handover.c): stores the registration; reports fewer open requests --- */

void as_simple_save_registration(struct as_simple *s, const struct as_frame_register *model);
void as_simple_report_in_flight(struct as_simple *s);

/* --- the worker (simple.c) --- */

void as_simple_schedule(struct as_simple *s, as_ns when); /* the timer fires at `when` or earlier */
void as_simple_on_connect_failed(struct as_simple *s,
                                 const char *why); /* its socket did not accept */
void as_simple_on_alive(struct as_simple *s);      /* it answered or accepted */
void as_simple_on_heartbeat(struct as_simple *s);  /* a heartbeat has come */
void as_simple_probe(
    struct as_simple *s); /* without connections: connects to see whether it lives */
bool as_simple_is_listening(struct as_simple *s);     /* tries it now */
void as_simple_on_call_finished(struct as_simple *s); /* one of its requests has ended */
void as_simple_unref(struct as_simple *s);
/* Logs a fault of the worker, at most once per second. */
void as_simple_log_fault(struct as_simple *s, const char *what, struct as_str request);

#endif
