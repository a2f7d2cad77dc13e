/* core/replicas/replica_slot.h — the insides of a plan and its places; only core/replicas/plan's
 * own files include this.
 *
 * place.c keeps the states of one place, rollout.c decides which places there are and what they are
 * told, room.c which of them end so that another finds what it lacks, plan.c has the door,
 * plan_ok.c the invariants.
 */
#ifndef AS_CORE_REPLICA_SLOT_H
#define AS_CORE_REPLICA_SLOT_H

#include "core/replicas/plan.h"
#include "core/replicas/ranks.h"

#define AS_REPLICA_SLOTS_MAX        4096u /* of a deployment, those that are ending included */
#define AS_REPLICA_SLOT_NUMBERS_MAX 1000000u
#define AS_REPLICA_SLOT_REASON_MAX  2048u /* bytes kept of why a process ended */

struct as_replica_slot {
    struct as_plan *plan;
    struct as_replica_slot_facts facts;
    enum as_replica_slot_state state;
    struct as_restart restart;
    struct as_start_request start; /* in the line while WAITING, counted while STARTING */
    as_ns due;                     /* the state's one deadline */
    as_ns retire_at;               /* DRAINING: when retire is repeated */
    as_ns ready_at;                /* of this process */
    uint64_t configure_id;         /* UPDATING: the configure that is to be answered … */
    struct as_replica_slot_facts configure_facts; /* … and what it said */
    bool given_up;                                /* until it is READY again */
    bool refuses_configure; /* its process does what it is told no longer: it cannot be kept */
    uint32_t n_name, n_reason;
    char name[AS_PLAN_NAME_MAX + 16];
    char *reason;
    char *lack; /* WAITING: what is not free; NULL: nothing, as far as is known */
    void *user;
};

struct as_plan {
    char name[AS_PLAN_NAME_MAX + 1];
    struct as_plan_ops ops;
    void *ctx;
    struct as_start_limit *starts;
    struct as_rand rand;
    struct as_plan_target target, stable, previous; /* generation 0: there is none */
    struct as_plan_target other_version; /* the last target of another version, reached or not */
    bool running;                        /* as_plan_run was called */
    bool serving;
    bool deleting;
    bool proven;  /* the target's version has had an available replica */
    bool settled; /* and ops was told */
    bool down;
    as_ns recheck_at; /* another plan's event has changed what one of ours lacks; AS_NEVER: none has
                       */
    struct as_condition condition;
    struct as_ranks ranks;
    uint64_t last_configure_id;
    uint32_t n, cap;
    struct as_replica_slot **slots; /* by number */
};

/* --- place.c --- */
/* In the line of those that start, with the lowest free number and rank; NULL: there are too many.
 */
struct as_replica_slot *as_replica_slot_new(struct as_plan *p);
struct as_replica_slot *as_replica_slot_insert(struct as_plan *p,
                                               uint32_t number); /* in the table, without a rank */
void as_replica_slot_free(struct as_replica_slot *slot);         /* out of the table; no op */
void as_replica_slot_retire(struct as_replica_slot *slot,
                            as_ns now); /* it may be gone after this */
void as_replica_slot_resume(struct as_replica_slot *slot,
                            as_ns now); /* adopted, and all targets are known */
void as_replica_slot_mark_stale(struct as_replica_slot *slot); /* its process is to be replaced … */
void as_replica_slot_clear_stale(struct as_replica_slot *slot); /* … and is not */
void as_replica_slot_configure(struct as_replica_slot *slot,
                               as_ns now); /* configure, from RUNNING */
void as_replica_slot_tick(struct as_replica_slot *slot, as_ns now);
as_ns as_replica_slot_next_due(const struct as_replica_slot *slot);
void as_replica_slot_set_serving(struct as_replica_slot *slot, bool serving, as_ns now);
void as_replica_slot_revive(struct as_replica_slot *slot, as_ns now);

static inline bool as_replica_slot_is_ending(const struct as_replica_slot *slot)
{
    return slot->state == AS_REPLICA_SLOT_DRAINING || slot->state == AS_REPLICA_SLOT_STOPPING;
}

/* --- rollout.c --- */
/* What to do about the difference between what is asked for and what is; tells what has changed. */
void as_rollout_run(struct as_plan *p, as_ns now);
/* A process of slot has failed by its own fault, so often in a row (UINT32_MAX: for good). True:
 * that was the end of an update, and the target is the stable one again; or of a restart, and what
 * was not replaced yet stays. */
bool as_rollout_on_failure(struct as_replica_slot *slot, uint32_t failures, struct as_str reason,
                           as_ns now);
bool as_rollout_is_old(const struct as_replica_slot *slot); /* another is to be in its stead */
as_ns as_rollout_next_due(
    const struct as_replica_slot *slot); /* when it becomes available by time alone */
bool as_rollout_is_settled(const struct as_plan *p);
bool as_rollout_is_available(const struct as_replica_slot *slot);
/* Of two that could go: a goes before b. */
bool as_rollout_retires_before(const struct as_replica_slot *a, const struct as_replica_slot *b);
/* It is to end; it may be gone after this. */
void as_rollout_retire(struct as_replica_slot *slot, as_ns now);

/* --- room.c --- */
/* Retires old ones when a new one lacks what they have, and nothing else would give it that; what
 * is kept for nobody is released. True: there is more for those that lack something. */
bool as_make_room(struct as_plan *p, as_ns now);
/* t is asked for from here on. */
void as_plan_retarget(struct as_plan *p, const struct as_plan_target *t);
/* Something has happened that people are told. */
void as_plan_set_condition(struct as_plan *p, enum as_condition_cause cause, struct as_str text,
                           as_ns now);

#endif
