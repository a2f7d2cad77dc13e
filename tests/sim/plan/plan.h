/* tests/sim/plan/plan.h — a simulation in which core/replicas/plan keeps simulated replicas
 * running.
 *
 * Time is virtual, events are in one heap, and everything random comes from one seed, so that the
 * same seed gives the same run. world.c plays the supervisor, the dispatcher and the processes.
 * controller.c plays the controller around core/replicas/plan, including its death between any two
 * ops. devices.c counts the devices that processes need. scenario.c draws targets and faults.
 * check.c examines the processes themselves after every event, not what core believes of them.
 *
 * Messages: those of the controller stay in a socket until the supervisor reads them, so they
 * survive the controller. Messages to a dead controller, or through a dead dispatcher, are lost.
 */
#ifndef AS_SIM_PLAN_H
#define AS_SIM_PLAN_H

#include "../seeds.h"
#include "base/container/event_heap.h"
#include "core/autoscale/autoscaler.h"
#include "core/replicas/plan.h"

#define DEPLOYS    2u
#define PROCS_MAX  6000u
#define VERSIONS   96u
#define WAY        (2 * AS_MS) /* longest delay of a message */
#define NO_PROCESS UINT32_MAX

/* How processes of a version, or with a config, behave. */
enum habit {
    GOOD,
    SLOW,         /* starts slowly, but before the timeout */
    CRASHES,      /* dies while it starts; a config: running processes refuse it */
    HANGS,        /* never becomes ready; a config: running processes never answer */
    CRASHES_LATER /* dies soon after it was ready; only versions */
};

struct proc {
    uint32_t deploy, token;
    bool alive, ready; /* ready: it has finished its start */
    bool signalled;    /* SIGTERM was sent to it */
    bool blamed;       /* it was killed because of a fault */
    bool injected;     /* part of an impossible past: some checks do not apply to it */
    struct as_replica_slot_facts note;  /* what the supervisor stores beside it */
    struct as_replica_slot_facts facts; /* what the process itself believes */
    struct as_replica_slot_facts kept;  /* the last note that core has sent */
    uint32_t promised;                  /* the rank that it was last told to move to */
    /* state of the dispatcher */
    bool linked, retired, gone_reported;
    as_ns asked;   /* when the last ASK arrives, since these arrive in order */
    bool stubborn; /* does not drain, or does not end by SIGTERM */
    bool leaves;   /* somebody has sent it SIGTERM: it drains by itself, and then ends */
    uint32_t has;  /* devices that its slot has, as the controller counts */
};

enum event_type {
    /* controller to supervisor */
    E_SPAWN,
    E_NOTE,
    E_STOP,
    E_KILL,
    E_RETIRE,
    E_ASK,
    E_SYNC,
    /* supervisor to dispatcher, which passes ASK on */
    E_D_RETIRE,
    E_D_ASK,
    E_D_SYNC,
    E_D_DRAINED,
    E_D_UP,
    /* to the controller */
    E_C_READY,
    E_C_GONE,
    E_C_RETIRED,
    E_C_LEAVES,
    E_C_ANSWER,
    E_C_EXITED,
    E_C_DISPATCHER,
    E_C_TICK,
    E_C_UP,
    /* processes */
    E_P_READY,
    E_P_REGISTER,
    E_P_APPLY,
    E_P_END, /* flag: by its own fault */
    E_P_SIGKILL,
    /* the scenario */
    E_USER,
    E_FAULT,
    E_FAULTS_END,
    E_VERDICT
};

struct event {
    struct as_event_due due;
    enum event_type type;
    uint32_t token, deploy, epoch;
    uint64_t ask;
    bool flag;
    enum as_exit_kind kind;
    as_ns timeout;
    struct as_replica_slot_facts facts;
};

struct store { /* the stored state of one deployment, which survives the controller */
    bool exists, failed, deleted;
    struct as_plan_target target, stable, previous;
};

struct tally { /* sums over all runs */
    uint64_t events, starts, deaths, kills, updates, scales, autoscales, rollbacks, recoveries,
        adopted, moves, refused, disconnects, settled, given_up, duplicates, lacking, slowest, left,
        succeeded;
};

struct scenario {
    bool orderly;   /* only new versions and the controller fail: the capacity must be kept … */
    bool leaving;   /* … except that processes leave by themselves: only the surge must be kept */
    bool untouched; /* only the controller dies: nothing may change */
    uint32_t deploys, max_starting, users, faults;
    uint32_t devices; /* of the machine; 0: no process needs one */
    as_ns busy;       /* how long targets change and faults happen */
    struct as_plan_policy policy;
};

struct side { /* the ctx of the ops of one deployment's plan */
    struct sim *s;
    uint32_t deploy;
};

struct sim {
    uint64_t seed;
    bool verbose, failed, faults_ended;
    struct as_rand rand;
    as_ns now;
    struct as_event_heap heap;
    struct scenario scenario;
    /* supervisor, dispatcher, processes */
    struct proc procs[PROCS_MAX];
    uint32_t n_procs;
    uint32_t alive[PROCS_MAX], n_alive; /* running processes, oldest first */
    bool dispatcher;
    uint32_t d_epoch;
    as_ns to_supervisor, to_dispatcher, to_controller; /* when the newest message arrives */
    /* controller */
    bool controller;
    uint32_t c_epoch;
    uint32_t ops_left; /* it dies after this many calls of ops; UINT32_MAX: it does not */
    struct as_plan *plans[DEPLOYS];
    struct side sides[DEPLOYS];
    struct as_autoscaler scalers[DEPLOYS]; /* as a new controller makes them: from the target */
    struct as_start_limit starts;
    as_ns timer_for;
    uint32_t taken; /* devices that slots have or that are reserved */
    uint32_t kept[DEPLOYS];
    struct store stores[DEPLOYS];
    uint64_t last_ops; /* calls of ops that had an effect, in the whole run */
    /* settled, and since then nothing has happened except deaths of the controller */
    bool untouched;
    /* scenario */
    uint64_t generation;
    uint32_t n_versions, n_configs;
    enum habit versions[VERSIONS], configs[VERSIONS];
    uint32_t needs[VERSIONS]; /* devices that a process of the version needs */
    as_ns faults_end_at;      /* when the last fault has happened */
    as_ns last_unsettled;     /* the last time at which some target was not reached */
    /* check: how many replicas must serve (floor), and how many processes may exist (ceiling) */
    uint32_t floor[DEPLOYS], ceiling[DEPLOYS];
    uint32_t need[DEPLOYS]; /* the most devices of any target since a target was last reached */
    bool floor_holds[DEPLOYS];
    struct tally tally;
};

/* --- main.c --- */
void fail(struct sim *s, const char *fmt, ...) AS_PRINTF(2, 3);
void trace(struct sim *s, const char *fmt, ...) AS_PRINTF(2, 3);

/* --- world.c --- */
bool run(struct sim *s);
uint32_t below(struct sim *s, uint32_t n);
bool chance(struct sim *s, uint32_t per_mille);
as_ns between(struct sim *s, as_ns lo, as_ns hi);
void schedule(struct sim *s, as_ns when, struct event e);
void send_supervisor(struct sim *s, struct event e);
void send_controller(struct sim *s, struct event e);
void process_end(struct sim *s, struct proc *p, enum as_exit_kind kind);
void link_break(struct sim *s, struct proc *p);
void process_leave(struct sim *s, struct proc *p); /* somebody sends it SIGTERM */
void dispatcher_kill(struct sim *s);
struct proc *process_new(struct sim *s); /* NULL: too many */
void process_add(struct sim *s, struct proc *p);

/* --- controller.c --- */
void controller_receive(struct sim *s, const struct event *e);
void controller_start(struct sim *s);
void controller_kill(struct sim *s);
void user_act(struct sim *s, uint32_t deploy);
void user_deploy(struct sim *s, uint32_t deploy, enum habit version, enum habit config,
                 uint32_t replicas);
void after_controller(struct sim *s); /* sets its timer; ends it when ops_left is 0 */

struct sim *sim_of(void *ctx); /* ctx: that of the ops */
uint32_t deployment_of_slot(const struct sim *s, const struct as_replica_slot *slot);
struct proc *process_of(struct sim *s, const struct as_replica_slot *slot);

/* --- devices.c --- */
uint32_t need_of(const struct sim *s, uint64_t version);
uint32_t demand_of(const struct sim *s, uint32_t deploy); /* at most, also after a rollback */
/* Limits replicas to the number for which there are devices. */
uint32_t affordable(const struct sim *s, uint32_t deploy, uint32_t need, uint32_t replicas);
void take_devices(struct sim *s, const struct as_replica_slot *slot, struct proc *p);
void reserve_devices(struct sim *s, const struct as_replica_slot *slot); /* until op_release */
struct as_str op_lacks(void *ctx, const struct as_replica_slot *slot,
                       const struct as_plan_headroom *room);
bool op_release(void *ctx);

/* --- scenario.c --- */
void draw_scenario(struct sim *s);
void fault(struct sim *s);
void end_faults(struct sim *s);
enum habit habit_of(struct sim *s, bool config);

/* --- check.c --- */
void note_target(struct sim *s, uint32_t deploy); /* the target has changed */
void note_settled(struct sim *s, uint32_t deploy);
void note_move(struct sim *s, uint32_t deploy, const struct as_replica_slot *slot);
void note_configure(struct sim *s, const struct as_replica_slot *slot,
                    const struct as_replica_slot_facts *to);
/* It serves from now on: maybe beside one that leaves. */
void note_successor(struct sim *s, const struct proc *p);
/* Its next process is about to start. */
void note_restart(struct sim *s, const struct as_replica_slot *slot);
void check(struct sim *s);
void check_end(struct sim *s);

#endif
