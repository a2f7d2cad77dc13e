/* core/replicas/plan.h — the replicas of one deployment in the controller: the target, what runs,
 * and the steps from one to the other.
 *
 * This module makes every decision; the caller's `ops` carry it out. Time is a parameter and
 * randomness comes from the seed, so that the same code runs in the controller and in the simulator
 * (tests/sim/plan). Events may come late, twice or not at all if their channel can lose them;
 * requests are repeated. Thread: the caller's, one for all plans that share an as_start_limit. An
 * event of one plan may start a process of another, so as_plan_next_due of each may change. ops
 * must not call back.
 *
 * Slots: a replica is a *slot*, which outlives its processes (not to be confused with the slots in
 * which a replica executes requests). A slot has a number (the replica's name is
 * `<deployment>-<number>`; a new slot takes the lowest free number), a rank, the version that its
 * process runs, and its own restart state. A process that dies is replaced in its slot, with the
 * same number and rank. Another version always runs in new slots: see Updates.
 *
 *   WAITING ─────► STARTING ──ready──► RUNNING ◄──lost, ready──► LOST
 *     ▲                │            configure │ ▲ configured      │
 *     │                │                      ▼ │                 │
 *     │                │                    UPDATING              │
 *     │                └─────────┬──────────────┴─────────────────┘
 *     ├────────────── died ──────┤
 *     ├─ died ─ KILLED ◄─────────┤ it took too long
 *     │                          ▼ died too often in a row
 *     └─────────── rest ─────── DOWN
 *
 *   retired with a process:  DRAINING ── drained, or timeout ──► STOPPING ── died ──► removed
 *   retired without one:     removed at once
 *
 * Ranks: no two slots ever hold the same rank. A new slot takes the lowest free rank, keeps it for
 * all of its processes, and releases it when it is removed, which is after its last process is
 * dead. N is the target's number of replicas. When everything else has reached the target, slots
 * with ranks >= N move to the free ranks below N; no other slot moves. During a move a slot holds
 * both ranks. HEALTHY means ranks 0 … N-1.
 *
 * Updates: up to `surge` slots of the new version are started beyond N, and an old slot is retired
 * while more than N - `unavailable` slots are available (RUNNING; for a new version, RUNNING for
 * min_ready). So at least N - unavailable replicas serve, if N did before, and an update never runs
 * more than N + surge processes. Draining replicas count, because they use memory. By default surge
 * = max(1, N × roll_percent / 100) and unavailable = 0. Old replicas that do not run are replaced
 * only after some replica of the new version was available. If only the config changes, running
 * replicas get it by `configure`, N × roll_percent / 100 at a time; it is rolled back like a
 * version.
 *
 * Replicas that leave: a process may begin to drain by itself, since somebody else has sent it
 * SIGTERM. This is no failure. Its slot is retired (without backoff, and without a count of
 * failures), and a new slot takes its place among the N at once, unless there are N + surge
 * processes already: then when one of them has ended. So signals alone never lead to more than
 * that.
 *
 * Missing devices: a slot that lacks a device or memory of the machine (ops.lacks) stays WAITING in
 * the queue until that is free, which is no failure. It keeps what its first process took until it
 * is removed or given up. An update that cannot surge for this reason retires old replicas first:
 * when nothing else of the deployment is changing, as few as make room for one new replica, and
 * more when that one is available. What they had is reserved for the new replica
 * (core/replicas/make_room.c).
 *
 * Failed updates: an update fails when one of its replicas fails roll_failures times in a row.
 * Kills from outside after READY do not count, and a refused configure counts as roll_failures. The
 * target is then again the *stable* one, the last that was reached; its replicas were not touched,
 * or come back by an update. Without a stable target the replicas are restarted on and on, with
 * backoff. A restart (as_plan_restart) fails in the same way: the replicas that it has not replaced
 * yet stay, if any of them serves. What has failed is not tried again until somebody deploys,
 * scales or restarts.
 *
 * Restarts of processes: core/replicas/restart.h for each slot. A slot that was given up is DOWN
 * for restart.max, then tries again.
 */
#ifndef AS_CORE_PLAN_H
#define AS_CORE_PLAN_H

#include "base/err.h"
#include "base/id.h"
#include "core/replicas/condition.h"
#include "core/replicas/restart.h"
#include "core/replicas/start_limit.h"

#define AS_PLAN_REPLICAS_MAX 1024u
#define AS_PLAN_NAME_MAX     AS_ID_MAX           /* bytes of a deployment's id */
#define AS_PLAN_ASK_END      ((uint64_t)1 << 62) /* above the number of each question */
#define AS_RANK_NONE         UINT32_MAX

struct as_plan;         /* one deployment */
struct as_replica_slot; /* one replica */

/* A number of replicas, or a part of N. */
struct as_plan_amount {
    uint32_t n; /* replicas, or a percentage 0 … 100 */
    bool percent;
};

struct as_plan_policy {
    struct as_restart_conf restart; /* give_up: max_restarts; 0 never */
    /* a process that is not READY after this, or not again after LOST, is killed */
    as_ns start_timeout;
    /* a process that has not answered another config after this is killed; for another rank or
     * world there is no such time, since it may only be busy */
    as_ns configure_timeout;
    /* For a replica these come from the last target of the version that it runs: */
    as_ns drain_timeout; /* graceful_shutdown_timeout_s: from retire to stop */
    /* graceful_shutdown_wait_loop_s: retire and kill are repeated after this; > 0 */
    as_ns drain_interval;
    as_ns stop_timeout; /* from SIGTERM to SIGKILL */
    /* a replica of a new version is available after RUNNING this long; 0: at once */
    as_ns min_ready;
    uint32_t roll_percent;             /* 1 … 100 */
    bool has_surge;                    /* else surge comes from roll_percent */
    struct as_plan_amount surge;       /* a percentage is rounded up */
    struct as_plan_amount unavailable; /* rounded down; if both are 0 this one counts as 1 */
    uint32_t roll_failures;            /* failures in a row that end an update; > 0 */
    bool roll_back;                    /* a failed update is rolled back automatically */
};

/* The target. version and config are the caller's hashes; they are compared for equality only. */
struct as_plan_target {
    /* number of the deployed description, by which the caller finds it; not 0 */
    uint64_t generation;
    uint64_t version;  /* hash of all settings that need a new process */
    uint64_t config;   /* hash of all settings that a running process gets by configure */
    uint32_t replicas; /* 0 … AS_PLAN_REPLICAS_MAX */
    struct as_plan_policy policy;
};

/* The facts of a slot. Its process is started with them, and the supervisor stores them beside the
 * process (the note) for the next controller. */
struct as_replica_slot_facts {
    uint32_t number;
    uint64_t generation, version, config; /* what its process runs, and was configured with last */
    uint32_t rank;
    /* the rank it moves to, which the process may know already; = rank when it does not move */
    uint32_t rank_next;
    uint32_t world;  /* the target's number of replicas, as its process was told */
    uint32_t starts; /* processes of this slot so far, this one included */
    bool ready;      /* this process has been READY */
    bool proved;     /* … and RUNNING for min_ready */
    bool unsure;     /* a configure with another config or world was sent, and not confirmed */
    bool stale;      /* to be replaced although its version is right */
    bool retiring;   /* it is ending */
    bool early;      /* … and must have ended before another slot may replace it */
    bool leaves;     /* … by itself, and another slot may replace it at once within the surge */
};

#define AS_REPLICA_SLOT_STATE_TABLE(X)                                                             \
    X(WAITING, "waiting")   /* no process: waits for its backoff, a device, or the start limit */  \
    X(STARTING, "starting") /* a process that is not READY yet */                                  \
    X(RUNNING, "running")                                                                          \
    X(UPDATING, "updating") /* a configure was sent and is not answered yet */                     \
    X(LOST, "lost")         /* the process runs, but has no link to the dispatcher */              \
    X(KILLED, "killed")     /* SIGKILL was sent; the process will be replaced */                   \
    X(DRAINING, "draining") /* takes no new requests, works on those it has */                     \
    X(STOPPING, "stopping") /* SIGTERM or SIGKILL was sent; then the slot is removed */            \
    X(DOWN, "down")         /* no process: given up for a while */

enum as_replica_slot_state {
#define X(name, text) AS_REPLICA_SLOT_##name,
    AS_REPLICA_SLOT_STATE_TABLE(X)
#undef X
        AS_REPLICA_SLOT_STATES
};
const char *as_replica_slot_state_name(enum as_replica_slot_state s); /* "running" */

/* Resources that may be counted as free, in addition to those that are. */
struct as_plan_headroom {
    bool kept;                            /* those that are reserved for this plan (ops.release) */
    struct as_replica_slot *const *ended; /* those that these n slots of the plan have */
    uint32_t n;
};

struct as_plan_ops {
    /* Names what the process of p needs, does not have, and would not find among the free resources
     * and `room`. Empty: it may start. Valid until the next call. */
    struct as_str (*lacks)(void *ctx, const struct as_replica_slot *p,
                           const struct as_plan_headroom *room);
    /* The resources of slots that were removed or given up are reserved for new slots of this plan.
     * This op makes them free for all plans. True: there were some. */
    bool (*release)(void *ctx);
    /* Start a process for p, with as_replica_slot_facts as its context and its first note. A
     * failure is reported later, as a death. */
    void (*start)(void *ctx, struct as_replica_slot *p);
    /* Store the changed facts of p (the note). The next controller must read these, not older ones,
     * if it sees any effect of a later op. */
    void (*note)(void *ctx, struct as_replica_slot *p);
    /* Send the process the config, rank and world of `to`. The answer comes as
     * as_replica_slot_configured with the number `ask` (below AS_PLAN_ASK_END); it may be lost with
     * the link. A process that does not use them must answer ok: one that refuses is replaced. */
    void (*configure)(void *ctx, struct as_replica_slot *p, uint64_t ask,
                      const struct as_replica_slot_facts *to);
    /* Send it no new requests, and call as_replica_slot_retired when all are answered. Repeated. */
    void (*retire)(void *ctx, struct as_replica_slot *p);
    /* SIGTERM now, SIGKILL after `timeout`. */
    void (*stop)(void *ctx, struct as_replica_slot *p, as_ns timeout);
    void (*kill)(void *ctx, struct as_replica_slot *p, struct as_str why); /* SIGKILL */
    void (*moved)(void *ctx, struct as_replica_slot *p, enum as_replica_slot_state from);
    void (*gone)(void *ctx,
                 struct as_replica_slot *p); /* p has no process, and is freed after this call */
    void (*condition)(void *ctx,
                      const struct as_condition *c); /* status, trigger, text or lack changed */
    /* The update to `from` has failed; `to` is the target again. */
    void (*rolled_back)(void *ctx, uint64_t from, uint64_t to, struct as_str why);
    /* down: there are replicas, but all were given up and none was READY since; then requests are
     * refused. why: the cause of the last replica's death. */
    void (*down)(void *ctx, bool down, struct as_str why);
    /* A target of another generation was reached. It is now the stable one, to which a failed
     * update goes back, and which a recovery needs (with as_plan_previous). */
    void (*settled)(void *ctx, const struct as_plan_target *t);
};

/* name and ops are copied; starts is shared and must outlive the plan. Nothing is done before
 * as_plan_run. seed must differ in each controller, so that an answer to the previous controller's
 * configure is not taken for one to this controller's. AS_EINVALID: the name is empty or too long.
 */
int as_plan_new(struct as_plan **ret_p, struct as_str name, struct as_start_limit *starts,
                uint64_t seed, const struct as_plan_ops *ops, void *ctx);
/* Frees the plan. Calls no op; processes go on. */
void as_plan_free(struct as_plan *p);

/* What is wrong with t (static text), or NULL. */
const char *as_plan_check(const struct as_plan_target *t);
/* Sets the target: somebody has deployed. If it differs from the current target in the number of
 * replicas only, this counts as scaling. AS_EINVALID: as_plan_check refuses it. */
int as_plan_set_target(struct as_plan *p, const struct as_plan_target *t, as_ns now);
/* Changes the number of replicas only, also for the target that a failed update goes back to.
 * automatic: by load, not by hand. */
int as_plan_scale(struct as_plan *p, uint32_t replicas, bool automatic, as_ns now);
/* Ends all replicas; finally as_plan_is_empty is true. as_plan_set_target undoes it. */
void as_plan_delete(struct as_plan *p, as_ns now);

/* Recovery after as_plan_new, in this order: as_plan_set_target with the last controller's target,
 * as_plan_restore with what it had reached, as_plan_adopt for each running process (oldest first),
 * as_plan_set_serving, and as_plan_run after all plans that share an as_start_limit have adopted
 * their processes. stable, previous: NULL if unknown. failed: the text of the failure if the last
 * update was rolled back, else empty. */
void as_plan_restore(struct as_plan *p, const struct as_plan_target *stable,
                     const struct as_plan_target *previous, struct as_str failed, as_ns now);
/* Adds a slot for a running process. Its link is unknown, so its state is LOST, or STARTING if it
 * never was READY. If another slot holds its rank, the slot gets none, and as_plan_run kills the
 * process. AS_EEXISTS: there is a slot with this number; AS_EINVALID: the facts are impossible;
 * AS_EFULL: too many slots. In these cases no slot is added, and the caller must kill the process.
 */
int as_plan_adopt(struct as_plan *p, const struct as_replica_slot_facts *facts, as_ns now,
                  struct as_replica_slot **ret_place);
/* Starts acting: from now on ops are called. */
void as_plan_run(struct as_plan *p, as_ns now);

/* serving: there is a dispatcher. Without one no replica can become READY, so the deadlines of
 * STARTING, LOST and UPDATING do not run, and all links are lost. A new plan is not serving. */
void as_plan_set_serving(struct as_plan *p, bool serving, as_ns now);
/* Does what is due. To be called at as_plan_next_due at the latest (AS_NEVER: nothing is due). */
void as_plan_tick(struct as_plan *p, as_ns now);
as_ns as_plan_next_due(const struct as_plan *p);

/* Events of a slot. The caller must drop events of earlier processes of the slot (by token); events
 * that do not fit the state are ignored. Each of these may free the slot. */
void as_replica_slot_ready(struct as_replica_slot *slot, as_ns now);
void as_replica_slot_lost(struct as_replica_slot *slot, as_ns now);
void as_replica_slot_retired(struct as_replica_slot *slot, as_ns now);
/* Its process has begun to drain by itself; it will end when it has answered what it has. */
void as_replica_slot_leaves(struct as_replica_slot *slot, as_ns now);
/* ok false: the process refused and is unchanged; text: why. */
void as_replica_slot_configured(struct as_replica_slot *slot, uint64_t ask, bool ok,
                                struct as_str text, as_ns now);
/* The dispatcher says that it has n requests, which it executes or which wait there. Of replicas
 * that are equal otherwise the one with the fewest is retired. */
void as_replica_slot_set_load(struct as_replica_slot *slot, uint32_t n);
uint32_t as_replica_slot_load(const struct as_replica_slot *slot); /* as was said last */
/* Its process is dead. reason: text for people, may have several lines. */
void as_replica_slot_died(struct as_replica_slot *slot, enum as_exit_kind kind,
                          struct as_str reason, as_ns now);
/* By hand. revive: slots that are DOWN start now; returns how many. restart: every replica is
 * replaced as by an update, although the target is the same. */
uint32_t as_plan_revive(struct as_plan *p, as_ns now);
void as_plan_restart(struct as_plan *p, as_ns now);

/* Inspection. */
const struct as_replica_slot_facts *as_replica_slot_facts(const struct as_replica_slot *slot);
enum as_replica_slot_state as_replica_slot_state(const struct as_replica_slot *slot);
/* "<deployment>-<number>", NUL follows. */
struct as_str as_replica_slot_name(const struct as_replica_slot *slot);
/* Why its last process ended. */
struct as_str as_replica_slot_reason(const struct as_replica_slot *slot);
/* WAITING, DOWN: when it starts; else AS_NEVER. */
as_ns as_replica_slot_due(const struct as_replica_slot *slot);
/* It waits for the start limit. */
bool as_replica_slot_is_queued(const struct as_replica_slot *slot);
/* The resource that it waits for; empty: none. */
struct as_str as_replica_slot_lack(const struct as_replica_slot *slot);
bool as_replica_slot_has_process(const struct as_replica_slot *slot); /* it has a process */
struct as_plan *as_replica_slot_plan(const struct as_replica_slot *slot);
void as_replica_slot_set_user(struct as_replica_slot *slot, void *user); /* the caller's pointer */
void *as_replica_slot_user(const struct as_replica_slot *slot);

const struct as_plan_target *as_plan_target(const struct as_plan *p);
const struct as_plan_target *as_plan_stable(const struct as_plan *p);   /* NULL: none */
const struct as_plan_target *as_plan_previous(const struct as_plan *p); /* NULL: none */
/* What a rollback by hand goes to: the stable target, or, if that is the current one, the stable
 * target before it. NULL: there is none. */
const struct as_plan_target *as_plan_rollback_target(const struct as_plan *p);
const struct as_condition *as_plan_condition(const struct as_plan *p);
uint32_t as_plan_running(const struct as_plan *p); /* RUNNING, of any version */
uint32_t as_plan_lacking(const struct as_plan *p); /* slots that wait for a resource */
bool as_plan_is_settled(const struct as_plan *p);  /* the target is reached */
bool as_plan_is_empty(const struct as_plan *p);
/* The description of this generation may be needed again: a slot runs it, or it is a target. */
bool as_plan_uses(const struct as_plan *p, uint64_t generation);
/* Calls fn for each slot in the order of their numbers. fn must not cause events. */
void as_plan_each(struct as_plan *p, void (*fn)(void *arg, struct as_replica_slot *slot),
                  void *arg);
/* The slot with this number; NULL: there is none. In time O(log slots). */
struct as_replica_slot *as_plan_find(const struct as_plan *p, uint32_t number);
/* Checks every invariant; for asserts, tests and the simulator. */
bool as_plan_ok(const struct as_plan *p);

#endif
