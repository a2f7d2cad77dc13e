/* link/simple/simple_internal.h — what the files of a simple worker share. Private to
 * link/simple/simple*.c. */
#ifndef AS_LINK_SIMPLE_OWN_H
#define AS_LINK_SIMPLE_OWN_H

#include "core/replicas/lease.h"
#include "io/loop/sock.h"
#include "link/simple/simple.h"
#include "wire/oip/simple_frame.h"

#define AS_SIMPLE_IDS 4u /* ids of clients that a connection remembers */
#define AS_SIMPLE_ID  40u

/* One connection, and its one request.
 *
 *        send                     connected               answered, and sound
 *   ────────────► WAITING ──────────────────► BUSY ───────────────────────────► IDLE ──► (next
 * send) │ refused, too late,       │ cancelled, broken, a wrong      │ ended, unasked ▼ cancelled
 * ▼ answer                          ▼ bytes, idle time gone                       gone gone
 */
enum as_simple_conn_state { AS_SIMPLE_WAITING, AS_SIMPLE_BUSY, AS_SIMPLE_IDLE, AS_SIMPLE_GONE };

struct as_simple_conn {
    struct as_list node; /* of the worker's list for the state */
    struct as_simple *worker;
    enum as_simple_conn_state state;
    struct as_sock sock; /* not while WAITING */
    struct as_task turn; /* what core has asked for is done with the end of the turn */
    struct as_outq out;
    struct as_simple_frame_rx rx;
    struct as_call *call;        /* WAITING, BUSY */
    struct as_str id;            /* that was sent with it: the client's, or own_id */
    char own_id[AS_SIMPLE_ID];   /* used when the client gave none; not like any other */
    uint64_t ids[AS_SIMPLE_IDS]; /* hashes of the clients' ids that were sent last */
    uint32_t n_ids;              /* sent in all */
    bool used;                   /* it has rested before this request */
    bool cancelled;              /* nobody waits for its request */
    bool too_big;                /* the request cannot be written */
    as_ns rests;                 /* IDLE: since */
};

/* One registration. */
struct as_simple {
    struct as_upstream up;
    struct as_list known;               /* the roster's, while the worker may be spoken of */
    struct as_list waiting, busy, idle; /* connections; idle: last used first */
    struct as_lease lease;
    struct as_timer timer; /* the lease, idle connections, connections that wait */
    char *worker, *model, *version, *address;
    struct as_buf encoded; /* its registration as a REGISTER frame; empty: too large for one */
    struct as_str rest;    /* of the address, below the folder */
    uint64_t epoch, stream;
    uint32_t pid, slots, n_conns;
    uint32_t lent;    /* slots that the dispatcher before us still uses */
    uint32_t kept;    /* requests in hand, as the one that relieves us was told last */
    uint32_t handles; /* of the event loop, that refer to it */
    as_ns answered;   /* when its socket last gave a sign of life */
    as_ns complained; /* when a fault of its was logged last … */
    uint32_t faults;  /* … and how many were not since */
    bool leaving;     /* unregistered or replaced: gone with its last request */
    bool ended;       /* only handles are left to close */
};

#define AS_SIMPLE_READ (64u << 10)

struct as_simple_registry {
    struct as_list bucket[256]; /* as_simple.known by the hash of the worker's id */
    struct as_simple_stat stat;
    uint8_t rx[AS_SIMPLE_READ]; /* of whichever connection is read */
    /* as_simple_start_handover; NULL: no other dispatcher has come */
    void (*fewer)(void *arg, struct as_str worker, uint64_t epoch, uint32_t n);
    void *arg;
};

/* The roster, made when it is needed first. */
struct as_simple_registry *as_simple_registry(struct as_fleet *f);
void as_simple_registry_add(struct as_simple *s);
void as_simple_registry_remove(struct as_simple *s);
struct as_simple *as_simple_registry_find(struct as_fleet *f, struct as_str worker,
                                          struct as_str model, struct as_str version);

/* Connections (simple_conn.c). adopt: one that is connected already. */
void as_simple_conn_adopt(struct as_simple *s, int fd);
void as_simple_conn_send(struct as_simple *s, struct as_call *c);
void as_simple_conn_cancel(struct as_simple_conn *conn);
void as_simple_conn_retry_waiting(struct as_simple *s); /* those that wait for the backlog */
as_ns as_simple_conn_close_idle(struct as_simple *s,
                                as_ns now); /* returns when the next one is due */
/* All of them end: requests are given back to core, as far as that can be. */
void as_simple_conn_close_all(struct as_simple *s);

/* As as_simple_join; epoch 0: the next one, else this one, and all its slots are lent. */
int as_simple_join_with_epoch(struct as_fleet *f, const struct as_simple_registration *o,
                              uint64_t epoch, char *why, size_t cap);

/* For another dispatcher (simple_move.c): its registration; that it may have less in hand. */
void as_simple_save_registration(struct as_simple *s, const struct as_frame_register *model);
void as_simple_report_in_flight(struct as_simple *s);

/* The worker (simple.c). */
void as_simple_schedule(struct as_simple *s, as_ns when); /* the timer fires no later */
void as_simple_on_connect_failed(struct as_simple *s, const char *why); /* its socket */
void as_simple_on_alive(struct as_simple *s);         /* its socket has answered */
void as_simple_on_heartbeat(struct as_simple *s);     /* a heartbeat has come */
void as_simple_probe(struct as_simple *s);            /* no connection is left: is it? */
bool as_simple_is_listening(struct as_simple *s);     /* as far as one can see now */
void as_simple_on_call_finished(struct as_simple *s); /* one request less */
void as_simple_unref(struct as_simple *s);
/* Logs what a worker has done wrong, at most once per second. */
void as_simple_log_fault(struct as_simple *s, const char *what, struct as_str request);

#endif
