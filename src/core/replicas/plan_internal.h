/* core/replicas/plan_internal.h — the internals of a plan and its slots; only the files of a plan
 * include this.
 *
 * replica_slot.c has the states of one slot, rollout.c decides which slots there are and how they
 * are configured, make_room.c which slots end so that another finds the resources it lacks, plan.c
 * the public functions, plan_check.c the invariants.
 */
#ifndef AS_CORE_PLAN_INTERNAL_H
#define AS_CORE_PLAN_INTERNAL_H

#include "core/replicas/plan.h"
#include "core/replicas/ranks.h"

#define AS_REPLICA_SLOTS_MAX        4096u /* of a deployment, ending slots included */
#define AS_REPLICA_SLOT_NUMBERS_MAX 1000000u
#define AS_REPLICA_SLOT_REASON_MAX  2048u /* bytes stored of why a process ended */

struct as_replica_slot {
    struct as_plan *plan;
    struct as_replica_slot_facts facts;
    enum as_replica_slot_state state;
    struct as_restart restart;
    struct as_start_request start; /* queued while WAITING, counted while STARTING */
    as_ns due;                     /* deadline of the state; AS_NEVER: none */
    as_ns retire_at;               /* DRAINING: when ops.retire is repeated */
    as_ns ready_at;                /* when this process was first READY; 0: not yet */
    uint64_t configure_id; /* UPDATING: the number of the configure that is not answered yet … */
    struct as_replica_slot_facts configure_facts; /* … and the facts that it sent */
    uint32_t load;          /* requests that its process has, as was said last */
    bool given_up;          /* it was given up, and was not READY since */
    bool refuses_configure; /* its process has refused a configure, so it must be replaced */
    uint32_t n_name, n_reason;
    char name[AS_PLAN_NAME_MAX + 16];
    char *reason;
    char *lack; /* WAITING: the resource that is not free; NULL: none, as far as is known */
    void *user;
};

struct as_plan {
    char name[AS_PLAN_NAME_MAX + 1];
    struct as_plan_ops ops;
    void *ctx;
    struct as_start_limit *starts;
    struct as_rand rand;
    struct as_plan_target target, stable, previous; /* generation 0: none */
    struct as_plan_target other_version; /* the last target of another version, reached or not */
    bool running;                        /* as_plan_run was called */
    bool serving;
    bool deleting;
    bool proven;  /* a replica of the target's version was available */
    bool settled; /* the target is reached, and ops.settled was called */
    bool down;
    /* set when an event of another plan changed what a slot of this plan lacks; else AS_NEVER */
    as_ns recheck_at;
    struct as_condition condition;
    struct as_ranks ranks;
    uint64_t last_configure_id;
    uint32_t n, cap;
    struct as_replica_slot **slots; /* in the order of their numbers */
};

/* --- replica_slot.c --- */
/* A new slot with the lowest free number and rank, queued for its start. NULL: too many slots. */
struct as_replica_slot *as_replica_slot_new(struct as_plan *p);
/* Adds a slot without a rank. */
struct as_replica_slot *as_replica_slot_insert(struct as_plan *p, uint32_t number);
void as_replica_slot_free(struct as_replica_slot *slot);              /* removes it; calls no op */
void as_replica_slot_retire(struct as_replica_slot *slot, as_ns now); /* may free slot */
/* For an adopted slot, when all targets are known. */
void as_replica_slot_resume(struct as_replica_slot *slot, as_ns now);
void as_replica_slot_mark_stale(struct as_replica_slot *slot); /* Its process is to be replaced. */
/* Its process may stay after all. */
void as_replica_slot_clear_stale(struct as_replica_slot *slot);
/* Sends a configure; state RUNNING. */
void as_replica_slot_configure(struct as_replica_slot *slot, as_ns now);
void as_replica_slot_tick(struct as_replica_slot *slot, as_ns now);
as_ns as_replica_slot_next_due(const struct as_replica_slot *slot);
void as_replica_slot_set_serving(struct as_replica_slot *slot, bool serving, as_ns now);
void as_replica_slot_revive(struct as_replica_slot *slot, as_ns now);

static inline bool as_replica_slot_is_ending(const struct as_replica_slot *slot)
{
    return slot->state == AS_REPLICA_SLOT_DRAINING || slot->state == AS_REPLICA_SLOT_STOPPING;
}

/* --- rollout.c --- */
/* Takes all steps towards the target that are possible now, and reports changes to ops. */
void as_rollout_run(struct as_plan *p, as_ns now);
/* The processes of slot have failed by their own fault, this many times in a row (UINT32_MAX: it
 * was given up). True: this has ended an update, and the stable target is the target again; or it
 * has ended a restart, and the replicas that were not replaced yet stay. */
bool as_rollout_on_failure(struct as_replica_slot *slot, uint32_t failures, struct as_str reason,
                           as_ns now);
bool as_rollout_is_old(const struct as_replica_slot *slot); /* another slot is to replace it */
/* When it becomes available if it stays RUNNING; else AS_NEVER. */
as_ns as_rollout_next_due(const struct as_replica_slot *slot);
bool as_rollout_is_available(const struct as_replica_slot *slot);
/* Is a retired before b, if one of them must be? */
bool as_rollout_retires_before(const struct as_replica_slot *a, const struct as_replica_slot *b);
/* Retires slot; may free it. */
void as_rollout_retire(struct as_replica_slot *slot, as_ns now);

/* The same for one that has begun to drain by itself. */
void as_rollout_leave(struct as_replica_slot *slot, as_ns now);

/* --- make_room.c --- */
/* Retires old slots if a new slot lacks resources that they have and would not get otherwise.
 * Releases what is reserved for no slot. True: more resources are free now. */
bool as_make_room(struct as_plan *p, as_ns now);

/* --- plan.c --- */

/* Makes t the target. */
void as_plan_retarget(struct as_plan *p, const struct as_plan_target *t);
/* Applies a cause to the plan's condition, and reports the change to ops.condition. */
void as_plan_set_condition(struct as_plan *p, enum as_condition_cause cause, struct as_str text,
                           as_ns now);

#endif
