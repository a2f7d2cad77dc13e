/* core/replicas/plan.h — one deployment: what is asked for, what runs, and what to do about the
 * difference.
 *
 * Everything is decided here and carried out by `ops`; time comes in as a parameter and randomness
 * from the seed, so that the same code runs in the controller and in a simulator. Events may come
 * late, twice or not at all where the way they take can lose them; what was asked is asked again.
 * Thread: the caller's, one for all plans that share an as_start_limit: an event of one may start a
 * process of another, so as_plan_next_due of each may have changed. ops may not call back.
 *
 * Places: a replica is a *place*, which outlives its processes. It has a number (the replica's name
 * is `<deployment>-<number>`; a new place takes the lowest free one), a rank, the version that its
 * process runs, and its own restart policy. A process that dies is replaced in its place, with the
 * same number and rank. Another version, and fewer replicas, are other places: see Updates.
 *
 *   WAITING ─────► STARTING ──ready──► RUNNING ◄──lost, ready──► LOST
 *     ▲                │            configure │ ▲ configured      │
 *     │                │                      ▼ │                 │
 *     │                │                    UPDATING              │
 *     │                └─────────┬──────────────┴─────────────────┘
 *     ├────────────── died ──────┤
 *     ├─ died ─ KILLED ◄─────────┤ it took too long, or is at fault
 *     │                          ▼ died too often in a row
 *     └─────────── rest ─────── DOWN
 *
 *   retired with a process:  DRAINING ── drained, or too late ──► STOPPING ── died ──► gone
 *   retired without one:     gone at once
 *
 * Ranks: no two places ever hold the same one. A new place takes the lowest free rank, keeps it
 * over all its processes, and gives it back when it is gone, which is when its last process is
 * dead. Once everything else is as asked for, places with ranks of N and more move to the free ones
 * below N, and no others move; during a move a place holds both. HEALTHY means ranks 0 … N-1.
 *
 * Updates: `surge` places of the new version may be started beyond N, and an old one is retired
 * while more than N - `unavailable` others are available (RUNNING, and new ones for min_ready). So
 * there are never fewer than N - unavailable that serve, if there were N before, and never more
 * than N + surge processes for the sake of an update: what still drains counts, because memory on a
 * machine does not grow. Unless the policy says otherwise, surge = max(1, N × roll_percent / 100)
 * and unavailable = 0: surge first. Old replicas that do not run are replaced when the new version
 * has proved itself. A change of config only is told to running replicas, N × roll_percent / 100 at
 * a time; it is rolled back like a version.
 *
 * Want of a device: a place that lacks something of the machine (ops.lacks) stays WAITING, in the
 * line, until it is free; that is no failure. What its first process took is its own until it is
 * gone or given up. An update that cannot surge for this reason takes old replicas out first: when
 * nothing else of the deployment changes, as few as make room for one new one, and the next when
 * that one is available. What they had is kept for the new one (core/replicas/make_room).
 *
 * Failure of an update: a replica of it that fails roll_failures times in a row (deaths from
 * outside that followed READY do not count; a refused configure counts as all of them). The target
 * then is again the *stable* one, the last that was reached; its places were not touched or come
 * back the same way. Without a stable one the replicas go on trying, with backoff. A restart fails
 * likewise: what it has not replaced yet stays, if any of that serves. What failed is not tried
 * again until somebody asks for something.
 *
 * Restarts: core/replicas/restart for each place. A place that was given up rests for restart.max,
 * then tries again.
 */
#ifndef AS_CORE_PLAN_H
#define AS_CORE_PLAN_H

#include "base/err.h"
#include "core/replicas/condition.h"
#include "core/replicas/restart.h"
#include "core/replicas/start_limit.h"

#define AS_PLAN_REPLICAS_MAX 1024u
#define AS_PLAN_NAME_MAX     200u /* bytes of a deployment's name */
#define AS_RANK_NONE         UINT32_MAX

struct as_plan;         /* one deployment */
struct as_replica_slot; /* one replica */

/* So many replicas, or a part of N. */
struct as_plan_amount {
    uint32_t n; /* replicas, or 0 … 100 */
    bool percent;
};

struct as_plan_policy {
    struct as_restart_conf restart; /* give_up: max_restarts; 0 never */
    as_ns start_timeout;            /* READY after a start, or again after LOST; else killed */
    as_ns configure_timeout;        /* an answer to configure; else killed */
    /* Of a replica, by the last target of the version that it runs: */
    as_ns drain_timeout;   /* graceful_shutdown_timeout_s: from retire to stop */
    as_ns drain_interval;  /* graceful_shutdown_wait_loop_s: retire is repeated; > 0 */
    as_ns stop_timeout;    /* from SIGTERM to SIGKILL */
    as_ns min_ready;       /* a new version's replica is available after so long; 0: at once */
    uint32_t roll_percent; /* 1 … 100 */
    bool has_surge;        /* else by roll_percent */
    struct as_plan_amount surge;       /* a percentage is rounded up */
    struct as_plan_amount unavailable; /* rounded down; when both come to 0 this one is 1 */
    uint32_t roll_failures;            /* > 0 */
    bool roll_back;                    /* automatically, when an update fails */
};

/* What is asked for. Hashes are the caller's; only whether they are equal counts. */
struct as_plan_target {
    uint64_t generation; /* of the deployed description, by which the caller finds it; not 0 */
    uint64_t version;    /* all that needs a new process, the text of `version` included */
    uint64_t config;     /* all that a running process is told by configure */
    uint32_t replicas;   /* 0 … AS_PLAN_REPLICAS_MAX */
    struct as_plan_policy policy;
};

/* What a place is: what its process is started with, and what is kept beside the process for the
 * next controller (the note). */
struct as_replica_slot_facts {
    uint32_t number;
    uint64_t generation, version, config; /* what it runs and was told last */
    uint32_t rank;
    uint32_t rank_next; /* it may have been told this one already; = rank when it does not move */
    uint32_t world;     /* number of replicas asked for, as it was told */
    uint32_t starts;    /* processes of this place, this one included */
    bool ready;         /* this process has been READY */
    bool proved;        /* and that for min_ready */
    bool unsure;        /* it may have been told another config or world than these */
    bool stale;         /* it is to be replaced, though its version is right */
    bool retiring;      /* it is to end */
    bool early;         /* and had to before another could take its place */
};

#define AS_REPLICA_SLOT_STATE_TABLE(X)                                                             \
    X(WAITING, "waiting")   /* no process: until its time, or until others have started */         \
    X(STARTING, "starting") /* a process, not READY yet */                                         \
    X(RUNNING, "running")                                                                          \
    X(UPDATING, "updating") /* it was sent a configure and has not answered */                     \
    X(LOST, "lost")         /* the process runs, its link does not */                              \
    X(KILLED, "killed")     /* SIGKILL is under way; it will be started again */                   \
    X(DRAINING, "draining") /* takes nothing new, works on what it has */                          \
    X(STOPPING, "stopping") /* a signal is under way; then the place is gone */                    \
    X(DOWN, "down")         /* no process: given up for a while */

enum as_replica_slot_state {
#define X(name, text) AS_REPLICA_SLOT_##name,
    AS_REPLICA_SLOT_STATE_TABLE(X)
#undef X
        AS_REPLICA_SLOT_STATES
};
const char *as_replica_slot_state_name(enum as_replica_slot_state s); /* "running" */

/* What there is of the machine beside what is free. */
struct as_plan_headroom {
    bool kept; /* what is kept of places of the same plan that are gone */
    struct as_replica_slot *const *ended; /* what these have, of the same plan, too */
    uint32_t n;
};

struct as_plan_ops {
    /* What the process of p needs, does not have, and would not find, in words; empty: it may
     * start. Valid until the next call. */
    struct as_str (*lacks)(void *ctx, const struct as_replica_slot *p,
                           const struct as_plan_headroom *room);
    /* What places had that are gone or given up is kept for this plan's new ones until this is
     * called: it is free for all. True: there was something. */
    bool (*release)(void *ctx);
    /* Start a process for p, with as_replica_slot_facts as its context and its first note. A
     * failure is told later, as a death. */
    void (*start)(void *ctx, struct as_replica_slot *p);
    /* The facts of p have changed: the next controller must read these, not older ones, if it sees
     * anything that is asked for after this call. */
    void (*note)(void *ctx, struct as_replica_slot *p);
    /* Tell the process what it is to be: config, rank and world of `to`. The answer comes with
     * `ask` as as_replica_slot_configured; it may be lost with the link. For a process that has no
     * use for it the answer is yes: what is refused is replaced. */
    void (*configure)(void *ctx, struct as_replica_slot *p, uint64_t ask,
                      const struct as_replica_slot_facts *to);
    /* Give it no new requests; as_replica_slot_retired when nothing unanswered is left. Comes
     * again. */
    void (*retire)(void *ctx, struct as_replica_slot *p);
    /* SIGTERM now, SIGKILL after `timeout`. */
    void (*stop)(void *ctx, struct as_replica_slot *p, as_ns timeout);
    void (*kill)(void *ctx, struct as_replica_slot *p, struct as_str why); /* SIGKILL */
    void (*moved)(void *ctx, struct as_replica_slot *p, enum as_replica_slot_state from);
    void (*gone)(void *ctx,
                 struct as_replica_slot *p); /* without a process, freed after this call */
    void (*condition)(void *ctx,
                      const struct as_condition *c); /* status, trigger or text changed */
    /* The update to `from` has failed; `to` is the target again. */
    void (*rolled_back)(void *ctx, uint64_t from, uint64_t to, struct as_str why);
    /* as_plan_is_down has changed; why: the death that took the last replica. */
    void (*down)(void *ctx, bool down, struct as_str why);
    /* A target of another generation was reached: what a failed update goes back to from now on,
     * and what a recovery needs (with as_plan_previous). */
    void (*settled)(void *ctx, const struct as_plan_target *t);
};

/* name, ops are copied; starts is shared and outlives the plan. Nothing is done before as_plan_run.
 * seed: another one in each controller, for an answer to the one before must not be taken for one
 * to this. */
int as_plan_new(struct as_plan **ret_p, struct as_str name, struct as_start_limit *starts,
                uint64_t seed, const struct as_plan_ops *ops, void *ctx);
/* Forgets everything, calls no op: processes are not its own. */
void as_plan_free(struct as_plan *p);

/* What is wrong with it (static text), or NULL. */
const char *as_plan_check(const struct as_plan_target *t);
/* Somebody has deployed. AS_EINVALID: as_plan_check. Nothing but the number of replicas differs
 * from the target: it is scaling. */
int as_plan_set_target(struct as_plan *p, const struct as_plan_target *t, as_ns now);
/* The number of replicas alone, of the target and also of what a failed update goes back to.
 * `automatic`: by load. */
int as_plan_scale(struct as_plan *p, uint32_t replicas, bool automatic, as_ns now);
/* By hand, to the stable target; when that is reached already, to the one that was stable before
 * it. AS_ENOTFOUND: there is none. */
int as_plan_rollback(struct as_plan *p, as_ns now);
/* All replicas end; as_plan_is_empty is true in the end. set_target takes it back. */
void as_plan_delete(struct as_plan *p, as_ns now);

/* Recovery, in this order after as_plan_new: the target that the last controller had (set_target),
 * what it had reached, each process that runs, oldest first, and whether there is a dispatcher;
 * then as_plan_run, when all plans that share an as_start_limit have adopted what is theirs.
 * stable, previous: NULL, unknown. failed: the text when a rolled-back update was the last word. */
void as_plan_restore(struct as_plan *p, const struct as_plan_target *stable,
                     const struct as_plan_target *previous, struct as_str failed, as_ns now);
/* A process that runs. Its link is unknown: LOST, or STARTING when it never was READY. A rank that
 * another holds is not believed: the place is kept without one until the process, which is killed
 * by as_plan_run, is dead. AS_EEXISTS: there is such a place already; AS_EINVALID: the facts cannot
 * be; AS_EFULL: too many. In these cases there is no place: the caller kills the process. */
int as_plan_adopt(struct as_plan *p, const struct as_replica_slot_facts *facts, as_ns now,
                  struct as_replica_slot **ret_place);
/* From here on it acts. */
void as_plan_run(struct as_plan *p, as_ns now);

/* false: nobody can become READY now (no dispatcher), so no deadline of STARTING, LOST and UPDATING
 * runs, and all links are lost. A new plan is not serving. */
void as_plan_set_serving(struct as_plan *p, bool serving, as_ns now);
/* Does what is due, at as_plan_next_due at the latest (AS_NEVER: nothing is). */
void as_plan_tick(struct as_plan *p, as_ns now);
as_ns as_plan_next_due(const struct as_plan *p);

/* What happens to a place. The caller tells one life of it from the next (by token); what does not
 * fit the state is ignored. A place may be gone after each of these. */
void as_replica_slot_ready(struct as_replica_slot *slot, as_ns now);
void as_replica_slot_lost(struct as_replica_slot *slot, as_ns now);
void as_replica_slot_retired(struct as_replica_slot *slot, as_ns now);
/* ok false: it refused, and is as it was; text: why. */
void as_replica_slot_configured(struct as_replica_slot *slot, uint64_t ask, bool ok,
                                struct as_str text, as_ns now);
/* Its process is dead: how, and what people should know (several lines). kind is CRASH when it was
 * killed for what it did. */
void as_replica_slot_died(struct as_replica_slot *slot, enum as_exit_kind kind,
                          struct as_str reason, as_ns now);
/* It must not go on: it hangs, fails its health checks, breaks the protocol. */
void as_replica_slot_fault(struct as_replica_slot *slot, struct as_str why, as_ns now);
/* By hand. revive: DOWN ones try now; returns how many. restart: every replica is replaced, as by
 * an update, though nothing differs. */
uint32_t as_plan_revive(struct as_plan *p, as_ns now);
void as_plan_restart(struct as_plan *p, as_ns now);

/* Inspection. */
const struct as_replica_slot_facts *as_replica_slot_facts(const struct as_replica_slot *slot);
enum as_replica_slot_state as_replica_slot_state(const struct as_replica_slot *slot);
struct as_str
as_replica_slot_name(const struct as_replica_slot *slot); /* "<deployment>-<number>", NUL follows */
struct as_str
as_replica_slot_reason(const struct as_replica_slot *slot); /* why its last process ended */
as_ns as_replica_slot_due(
    const struct as_replica_slot *slot); /* WAITING, DOWN: when it starts; else AS_NEVER */
bool as_replica_slot_is_queued(
    const struct as_replica_slot *slot); /* it waits for others to have started … */
struct as_str
as_replica_slot_lack(const struct as_replica_slot *slot); /* … or for this, if it is not empty */
bool as_replica_slot_has_process(const struct as_replica_slot *slot); /* it has a process */
struct as_plan *as_replica_slot_plan(const struct as_replica_slot *slot);
void as_replica_slot_set_user(struct as_replica_slot *slot, void *user); /* the caller's own */
void *as_replica_slot_user(const struct as_replica_slot *slot);

struct as_str as_plan_name(const struct as_plan *p);
const struct as_plan_target *as_plan_target(const struct as_plan *p);
const struct as_plan_target *as_plan_stable(const struct as_plan *p);   /* NULL: none */
const struct as_plan_target *as_plan_previous(const struct as_plan *p); /* NULL: none */
const struct as_condition *as_plan_condition(const struct as_plan *p);
uint32_t as_plan_running(const struct as_plan *p); /* RUNNING, of any version */
uint32_t as_plan_lacking(const struct as_plan *p); /* those that lack something of the machine */
bool as_plan_is_settled(const struct as_plan *p);  /* everything is as asked for */
/* There are replicas, every one was given up and none was READY since: requests are refused. */
bool as_plan_is_down(const struct as_plan *p);
bool as_plan_is_empty(const struct as_plan *p);
/* The description of this generation may be needed again: a place runs it, or it is a target. */
bool as_plan_uses(const struct as_plan *p, uint64_t generation);
/* In the order of their numbers. fn may not cause events. */
void as_plan_each(struct as_plan *p, void (*fn)(void *arg, struct as_replica_slot *slot),
                  void *arg);
bool as_plan_ok(const struct as_plan *p); /* every invariant, for asserts and the simulator */

#endif
