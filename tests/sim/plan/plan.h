/* tests/sim/plan/plan.h — a world in which core/replicas/plan keeps simulated replicas running.
 *
 * Virtual time, one heap of events, everything random from one seed: the same seed is the same run.
 * world.c is the supervisor, the dispatcher and the processes; controller.c is what the controller
 * does around core/replicas/plan, its death between any two calls included; devices.c counts what
 * processes need of the machine; scenario.c invents what is asked for and what goes wrong; check.c
 * looks at the processes themselves, not at what core believes of them, after every event.
 *
 * Ways: what the controller says is kept by a socket until the supervisor reads it, so it survives
 * the controller; what is said to a dead controller, or through a dead dispatcher, is lost.
 */
#ifndef AS_SIM_PLAN_H
#define AS_SIM_PLAN_H

#include "../seeds.h"
#include "core/replicas/plan.h"

#define DEPLOYS    2u
#define PROCS_MAX  6000u
#define VERSIONS   96u
#define WAY        (2 * AS_MS) /* a message takes at most so long */
#define NO_PROCESS UINT32_MAX

/* What comes of a version, or of a config. */
enum habit {
    GOOD,
    SLOW,         /* starts slowly, but within its time */
    CRASHES,      /* ends while it starts; a config: also refused by those that run */
    HANGS,        /* never becomes ready; a config: those that run never answer */
    CRASHES_LATER /* ends soon after it was ready; of versions only */
};

struct proc {
    uint32_t deploy, token;
    bool alive, ready; /* it has finished its start */
    bool signalled;    /* it was told to end */
    bool blamed;       /* it was killed for what it did */
    bool injected;     /* a past that cannot be: exempt from what holds for the others */
    struct as_replica_slot_facts note;  /* what the supervisor keeps beside it */
    struct as_replica_slot_facts facts; /* what it believes itself to be */
    struct as_replica_slot_facts kept;  /* what core had noted of it last */
    uint32_t promised;                  /* the rank that it was told to move to last */
    /* the dispatcher's */
    bool linked, retired, gone_reported;
    as_ns asked;   /* when the last ASK comes to it: in order */
    bool stubborn; /* does not drain, or not end by SIGTERM */
    uint32_t has;  /* devices that its place has, as the controller counts */
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
    E_FINALE,
    E_VERDICT
};

struct event {
    struct due due;
    enum event_type type;
    uint32_t token, deploy, epoch;
    uint64_t ask;
    bool flag;
    enum as_exit_kind kind;
    as_ns timeout;
    struct as_replica_slot_facts facts;
};

struct store { /* what survives the controller, of one deployment */
    bool exists, failed, deleted;
    struct as_plan_target target, stable, previous;
};

struct tally { /* what all runs together have met */
    uint64_t events, starts, deaths, kills, updates, scales, rollbacks, recoveries, adopted, moves,
        refused, disconnects, settled, given_up, duplicates, lacking, slowest;
};

struct scenario {
    bool orderly;   /* nothing fails but new versions, and the controller: capacity must hold */
    bool untouched; /* only the controller dies: nothing may be done */
    uint32_t deploys, max_starting, users, faults;
    uint32_t devices; /* of the machine; 0: nobody needs any */
    as_ns busy;       /* so long things happen */
    struct as_plan_policy policy;
};

struct side { /* what the ops of one deployment's plan are called with */
    struct sim *s;
    uint32_t deploy;
};

struct sim {
    uint64_t seed;
    bool verbose, failed, calm;
    struct as_rand rand;
    as_ns now;
    struct heap heap;
    struct scenario scenario;
    /* supervisor, dispatcher, processes */
    struct proc procs[PROCS_MAX];
    uint32_t n_procs;
    uint32_t alive[PROCS_MAX], n_alive; /* those that run, oldest first */
    bool dispatcher;
    uint32_t d_epoch;
    as_ns to_supervisor, to_dispatcher, to_controller; /* arrival of the newest message */
    /* controller */
    bool controller;
    uint32_t c_epoch;
    uint32_t ops_left; /* it dies after so many calls of ops; UINT32_MAX: it lives */
    struct as_plan *plans[DEPLOYS];
    struct side sides[DEPLOYS];
    struct as_start_limit starts;
    as_ns timer_for;
    uint32_t taken; /* devices, of all places, and those that are kept */
    uint32_t kept[DEPLOYS];
    struct store stores[DEPLOYS];
    uint64_t last_ops; /* calls of ops that do something, ever */
    bool untouched;    /* settled, and nothing has happened since but the controller's death */
    /* scenario */
    uint64_t generation;
    uint32_t n_versions, n_configs;
    enum habit versions[VERSIONS], configs[VERSIONS];
    uint32_t needs[VERSIONS]; /* devices of a process of the version */
    as_ns finale;             /* nothing fails after this */
    as_ns restless;           /* the last moment at which not everything was as asked for */
    /* check: so many must serve, and so many processes may there be */
    uint32_t floor[DEPLOYS], ceiling[DEPLOYS];
    uint32_t need[DEPLOYS]; /* the greatest of what has been asked for since all was as asked for */
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
void dispatcher_kill(struct sim *s);
struct proc *process_new(struct sim *s); /* NULL: there were enough */
void process_add(struct sim *s, struct proc *p);

/* --- controller.c --- */
void controller_receive(struct sim *s, const struct event *e);
void controller_start(struct sim *s);
void controller_kill(struct sim *s);
void user_act(struct sim *s, uint32_t deploy);
void user_deploy(struct sim *s, uint32_t deploy, enum habit version, enum habit config,
                 uint32_t replicas);
void after_controller(struct sim *s); /* its timer; its death when its calls are used up */

struct sim *sim_of(void *ctx); /* of ops */
uint32_t deployment_of_slot(const struct sim *s, const struct as_replica_slot *slot);
struct proc *process_of(struct sim *s, const struct as_replica_slot *slot);

/* --- devices.c --- */
uint32_t need_of(const struct sim *s, uint64_t version);
uint32_t demand_of(const struct sim *s, uint32_t deploy); /* at most, whatever it goes back to */
/* No more replicas than there are devices for. */
uint32_t affordable(const struct sim *s, uint32_t deploy, uint32_t need, uint32_t replicas);
void take_devices(struct sim *s, const struct as_replica_slot *slot, struct proc *p);
void reserve_devices(struct sim *s,
                     const struct as_replica_slot *slot); /* kept, until it is released */
struct as_str op_lacks(void *ctx, const struct as_replica_slot *slot,
                       const struct as_plan_headroom *room);
bool op_release(void *ctx);

/* --- scenario.c --- */
void invent(struct sim *s);
void fault(struct sim *s);
void finale(struct sim *s);
enum habit habit_of(struct sim *s, bool config);

/* --- check.c --- */
void note_target(struct sim *s, uint32_t deploy); /* somebody has asked for another */
void note_settled(struct sim *s, uint32_t deploy);
void note_move(struct sim *s, uint32_t deploy, const struct as_replica_slot *slot);
void note_configure(struct sim *s, const struct as_replica_slot *slot,
                    const struct as_replica_slot_facts *to);
void note_restart(struct sim *s, const struct as_replica_slot *slot); /* its next process is due */
void check(struct sim *s);
void check_end(struct sim *s);

#endif
