/* tests/sim/calls/calls.h — deployments that call each other: does some request always go on?
 *
 * Several deployments of core/dispatch with few slots serve requests that call other deployments
 * along a random graph, often with cycles, and wait for the answers while they hold their slots.
 * link/call/call_graph says which calls wait for no slot. In each step one of the moves that are
 * possible is made, chosen at random: a message arrives, a request makes its next call or ends, a
 * replica takes the place of a dead or drained one; or trouble comes: a client leaves, a replica
 * dies or drains, a deployment is down, a deadline passes, a worker changes its slots.
 *
 * A violation: requests are there and only trouble is possible, so they wait for each other; a
 * request ends twice or not at all; a worker gets more than its slots and what it prefetches; a
 * queue exceeds its limit; a counter is not zero at the end; core's own invariants do not hold.
 *
 * world.c has the moves and the dispatcher's side, worker.c plays the workers, scenario.c draws
 * what happens, main.c prints. Everything random comes from one seed.
 */
#ifndef AS_CALLS_SIM_H
#define AS_CALLS_SIM_H

#include "base/err.h"
#include "base/rand.h"
#include "core/dispatch/deployment.h"
#include "link/call/call_graph.h"
#include "seeds.h"

#define DEPLOYMENTS_MAX 5u
#define WORKERS_MAX     64u
#define CALLS_MAX       300u
#define DEPTH_MAX       16u
#define NOBODY          UINT32_MAX

/* What is wrong on purpose: a simulator that finds nothing then is worth nothing. */
enum fault {
    FAULT_NONE,
    FAULT_WAIT, /* every call waits for a slot */
    FAULT_LATE, /* an edge is entered after the call along it has been decided on */
    FAULTS
};

enum call_state { CALL_UNUSED, CALL_HELD, CALL_ENDED }; /* HELD: core has it */
/* At its worker. */
enum run_state { RUN_NONE, RUN_WAITS, RUN_RUNS };

struct call {
    struct as_request q;
    enum call_state state;
    uint32_t deployment, depth;
    uint32_t parent;    /* NOBODY: from outside */
    uint32_t execution; /* of its parent, that made it */
    uint32_t caller;    /* worker that made it; NOBODY: a client */
    uint32_t live_at;   /* in sim.live */
    bool answered, left, is_root;
    /* its current execution */
    enum run_state run;
    uint32_t worker;
    uint32_t executions;    /* that have begun */
    uint32_t to_make, made; /* calls that it makes */
    uint32_t open;          /* calls of this execution without an answer */
    uint32_t at_once;       /* calls that it has open at the same time, at most */
    bool awaits;            /* it ends after them */
};

enum message_type {
    M_OPEN,
    M_CANCEL,
    M_RECALL,
    M_RECALL_END,
    M_DONE,
    M_RETRY,
    M_RETURNED,
    M_GRANT,
    M_DEATH
};

struct message {
    enum message_type type;
    uint32_t call;
    uint64_t stream;
};

struct pipe { /* messages in order */
    struct message *p;
    uint32_t n, cap, head;
};

struct worker {
    uint32_t deployment;
    struct as_replica *replica; /* NULL: core does not have it any more */
    bool alive, draining;
    uint32_t slots, prefetch, granted; /* granted: core knows of */
    uint32_t running;                  /* calls in slots */
    uint32_t waiting[CALLS_MAX], n_waiting;
    uint64_t next_stream, last_started;
    struct pipe in, out;
};

struct node { /* a deployment */
    struct as_deployment *d;
    struct sim *s;
    uint32_t calls; /* a bit for each deployment that it calls */
    uint32_t wanted, slots, prefetch;
    int64_t max_queued;
    bool down;
    bool surge; /* the next replica comes before a draining one is gone */
};

struct tally {
    uint64_t seeds, steps, calls, beyond, refused, deep, deaths, drains, left, expired, replayed,
        deadlocks, cyclic;
};

struct sim {
    uint64_t seed;
    bool verbose, failed, deadlocked, careful;
    enum fault fault;
    struct as_rand rand;
    as_ns now;
    struct as_call_graph graph;
    struct node nodes[DEPLOYMENTS_MAX];
    uint32_t n_nodes;
    struct worker *workers[WORKERS_MAX];
    uint32_t n_workers;
    struct call calls[CALLS_MAX];
    uint32_t n_calls, live[CALLS_MAX], n_live;
    /* what may still happen */
    uint32_t roots, kills, drains, leaves, downs, grants;
    bool fixed; /* workers do not change their slots */
    /* habits, per mille */
    uint32_t fans_out, forgets, refuses, stops, deadlines, idempotent, pins;
    uint32_t depth_max, fan_max;
    struct tally tally;
};

/* --- main.c --- */
void fail(struct sim *s, const char *fmt, ...) AS_PRINTF(2, 3);
void trace(const struct sim *s, const char *fmt, ...) AS_PRINTF(2, 3);

/* --- scenario.c --- */
uint32_t below(struct sim *s, uint32_t n);
bool chance(struct sim *s, uint32_t per_mille);
void draw_scenario(struct sim *s);
void draw_execution(struct sim *s, struct call *c); /* what it calls, and whether it waits */

/* --- world.c --- */
bool run(struct sim *s);
/* A call of that deployment is submitted; parent: NOBODY or the number of a call that executes. */
void submit(struct sim *s, uint32_t deployment, uint32_t parent);
void cancel_call(struct sim *s, struct call *c); /* nobody waits for it any more */
/* The worker that executed it is gone, or it was told to stop: its calls are cancelled. */
void cancel_children(struct sim *s, uint32_t parent);
void pipe_put(struct pipe *p, enum message_type type, uint32_t call, uint64_t stream);

/* --- worker.c --- */
void worker_add(struct sim *s, uint32_t deployment);
void worker_free(struct worker *w);
void worker_receive(struct sim *s, struct worker *w);
/* May the call, which runs, make its next call or end? */
bool call_can_step(const struct call *c);
void call_step(struct sim *s, struct call *c);
void worker_kill(struct sim *s, struct worker *w);
void worker_grant(struct sim *s, struct worker *w, uint32_t slots);

#endif
