/* tests/sim/sim.h — a world in which core/deploy serves simulated clients and workers.
 *
 * Virtual time, one heap of events, everything random from one seed: the same seed is the same run.
 * world.c moves events and plays the dispatcher's side of the links (what src/link does in the
 * server), worker.c plays the workers, scenario.c invents both and the clients, oracle.c keeps its
 * own books beside core's and compares them after every event, room.c says by them what a worker
 * could take.
 */
#ifndef AS_SIM_H
#define AS_SIM_H

#include "base/err.h"
#include "core/deploy.h"
#include "seeds.h"

#define CALLS_MAX   400u
#define WORKERS_MAX 96u /* incarnations in one run */
#define MODELS_MAX  4u
#define NOBODY      UINT32_MAX

/* Where a call is, as the oracle knows it. FREE: not yet submitted, or released. */
enum place { FREE, WAITING, BOUND, PARKED };

struct call {
    struct as_request q;
    enum place place;
    uint32_t live_at; /* in sim.live */
    uint32_t worker;  /* BOUND: which */
    bool accepted, answered, released;
    bool cancelled; /* the client has left */
    bool told;      /* its worker: CANCEL */
    bool recalled, kept;
    bool doomed; /* its worker is being buried: MAYHAVERUN must come */
    uint64_t stream;
    uint64_t batch; /* BOUND: number of its batch, 0 alone */
    uint64_t order; /* of acceptance */
    as_ns release;  /* of a model with batching: then it is held back no longer */
    as_ns came;     /* when it was accepted */
    bool could;     /* WAITING: there was a slot for it after every event since then */
    uint32_t sends, runs, retries;
    as_ns parked_until; /* PARKED: then it goes on without a verdict … */
    uint64_t grave;     /* … which comes under this number */
};

enum message_type { M_OPEN, M_CANCEL, M_RECALL, M_GRANT, M_DONE, M_RETURNED, M_DRAIN, M_DEATH };

struct message {
    struct message *next;
    as_ns due;
    enum message_type type;
    uint64_t stream;
    uint32_t call;
    as_ns service;
    bool flag; /* DONE: retry; DRAIN: on */
    uint32_t slots, prefetch;
    uint64_t first; /* OPEN of a batch: its streams are first, first + 2 … */
    uint32_t size;  /* so many */
    uint32_t n;
    uint64_t ids[]; /* RECALL, RETURNED */
};

/* One direction of a link: first in, first out, each with a delay. */
struct pipe {
    struct message *head, *tail;
    as_ns last; /* arrival of the newest */
};

enum stream_state { S_WAITING, S_RUNNING, S_ENDED };

struct stream {
    uint32_t call, model;
    enum stream_state state;
    as_ns started, finish_at;
    uint64_t first; /* of its batch; itself when it is alone */
    uint32_t size;
    uint32_t live; /* of the first: members that run */
};

/* How a worker behaves; drawn by the scenario. */
struct habits {
    uint32_t slots, prefetch;
    as_ns service_lo, service_hi, start_delay;
    uint32_t delay;       /* of its link, at most, ns */
    uint32_t refuse;      /* per mille of OPENs answered "not started, retry" */
    uint32_t silent;      /* per mille of answers without a service time */
    uint32_t stubborn;    /* per mille of recalled streams that it keeps */
    uint32_t cancel_stop; /* per mille of CANCELs that end the stream early */
    bool eager;           /* starts what comes, whatever its slots: only core keeps the limit */
};

struct worker {
    uint32_t number;
    bool alive;      /* the process */
    bool registered; /* core has its replica */
    struct habits is;
    /* process */
    uint32_t slots, running;       /* calls */
    uint32_t of_model[MODELS_MAX]; /* running calls */
    struct stream *streams;        /* of stream id 2i+1 */
    uint32_t n_streams, cap_streams;
    uint64_t *queue; /* waiting stream ids, oldest first */
    uint32_t n_queue, cap_queue;
    uint64_t last_started;
    bool start_due;
    /* link */
    struct pipe to_worker, to_core;
    struct as_replica *replica;
    uint64_t next_stream;
    uint64_t batch_first; /* core announced a batch … */
    uint32_t batch_size, batch_left;
    uint64_t batch;
    /* oracle: what core knows of it */
    uint32_t granted, prefetch, most_granted;
    bool draining, recalling;
    bool lacks[MODELS_MAX]; /* models that it does not serve */
    uint32_t recalled;
    uint32_t *bound; /* calls in stream order */
    uint32_t n_bound, cap_bound;
};

enum event_type {
    E_SUBMIT,
    E_CANCEL,
    E_EXPIRE,
    E_TO_WORKER,
    E_TO_CORE,
    E_START,
    E_FINISH,
    E_KILL,
    E_SPAWN,
    E_GRANT,
    E_DRAIN,
    E_DOWN,
    E_MODEL,
    E_VERDICT,
    E_CLOSE
};

struct event {
    struct due due;
    enum event_type type;
    uint32_t n;   /* call or worker */
    uint64_t arg; /* stream, or on/off */
};

struct books { /* what core's statistics must say */
    uint64_t accepted, refused, dispatched, completed, failed, expired, cancelled, replayed,
        recalled, lost, deaths, batches, members, mirrored, mirror_dropped;
};

struct scenario {
    uint32_t n_calls, n_workers, n_models;
    uint32_t cap[MODELS_MAX]; /* 0: none */
    struct as_batch_conf batch[MODELS_MAX];
    bool batched; /* some of them */
    int64_t max_queued;
    as_ns prefetch_work;
    as_ns timer_late; /* the deadline timer fires up to so much late */
    enum as_router router;
    uint32_t blind;  /* per mille of deaths whose page is lost */
    uint32_t untold; /* per mille of those whose cause is told later, or never */
    as_ns verdict_wait, verdict_patience;
    uint32_t lacking; /* per mille of models that a worker comes without */
    bool stop_early;  /* the deployment is freed with work in it */
};

struct sim {
    uint64_t seed;
    bool verbose, failed, closing, down, freeing;
    struct as_rand rand;
    as_ns now, end, expire_at, timer_for;
    as_ns armed; /* what core asked for: deadlines and wakes; as_deploy_expire is called by then */
    uint64_t steps, last_order, last_batch;
    struct heap heap;
    struct scenario is;
    struct as_deploy *d;
    struct call calls[CALLS_MAX];
    uint32_t live[CALLS_MAX], n_live; /* accepted, not released */
    struct worker *workers[WORKERS_MAX];
    uint32_t n_workers;
    struct books books;
};

/* --- main.c --- */
void fail(struct sim *s, const char *fmt, ...) AS_PRINTF(2, 3);
void trace(struct sim *s, const char *fmt, ...) AS_PRINTF(2, 3);

/* --- world.c --- */
bool run(struct sim *s); /* from the first event to the last; false: violation */
void at(struct sim *s, as_ns when, enum event_type type, uint32_t n, uint64_t arg);
uint32_t below(struct sim *s, uint32_t n);
bool chance(struct sim *s, uint32_t per_mille);
as_ns between(struct sim *s, as_ns lo, as_ns hi);
bool sim_alike(const struct as_request *a, const struct as_request *b); /* core asks it too */
struct message *message(enum message_type type, uint32_t n_ids);
void send_message(struct sim *s, struct worker *w, bool to_core, struct message *m);

/* --- scenario.c --- */
void invent(struct sim *s); /* parameters and the first events */
struct habits invent_habits(struct sim *s);

/* --- worker.c --- */
uint32_t worker_new(struct sim *s); /* its number; NOBODY: there were enough */
void worker_free(struct worker *w);
void worker_hear(struct sim *s, struct worker *w, struct message *m); /* keeps nothing of m */
void worker_start(struct sim *s, struct worker *w);
void worker_finish(struct sim *s, struct worker *w, uint64_t stream);
void worker_grant(struct sim *s, struct worker *w, uint32_t slots, uint32_t prefetch);
/* What core is told: whether it serves the model. */
void worker_serve(struct sim *s, struct worker *w, uint32_t model, bool serves);
void worker_kill(struct sim *s, struct worker *w);

/* --- room.c: what a worker has and could take --- */
/* Which of w->bound are in no slot: those behind their model's cap, and those beyond the slots. The
 * number of calls that no cap holds up. */
uint32_t find_waiting(const struct sim *s, const struct worker *w, bool ret_waits[CALLS_MAX]);
uint32_t held(const struct sim *s, const struct worker *w);   /* calls that no cap holds up */
uint32_t excess(const struct sim *s, const struct worker *w); /* what is prefetched there */
bool has_slot(const struct sim *s, const struct worker *w);
/* How many of c's model could begin at once, in all workers together. */
uint32_t room_of_model(const struct sim *s, const struct call *c);
/* No cap would hold c up in w, which serves its model. */
bool fits(const struct sim *s, const struct worker *w, const struct call *c);
/* May c be sent to w, to execute or to wait there? */
bool takes(const struct sim *s, const struct worker *w, const struct call *c);

/* --- oracle.c --- */
int expect_submit(const struct sim *s, const struct call *c);
void note_accepted(struct sim *s, struct call *c);
void note_gone(struct sim *s, struct call *c); /* released, or owned by the caller again */
/* The next n calls for w are one batch; 1: a single call comes. Checks what it will be. */
void note_batch(struct sim *s, struct worker *w, uint32_t n);
void note_sent(struct sim *s, struct worker *w, struct call *c); /* checks that it may be */
void note_unbound(struct sim *s, struct call *c);
void note_recall(struct sim *s, struct worker *w, struct as_request *const *q, uint32_t n);
void note_answer(struct sim *s, struct call *c, int err);
void check(struct sim *s); /* after every event */

#endif
