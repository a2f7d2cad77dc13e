/* ctl/crew_own.h — the insides of the crew; only its own files include this.
 *
 * crew_ops.c carries out what the plans order, crew.c hears what happened and looks after time,
 * crew_order.c is for people.
 */
#ifndef AS_CTL_CREW_OWN_H
#define AS_CTL_CREW_OWN_H

#include "base/buf.h"
#include "ctl/crew.h"

#define AS_CREW_TOKEN_BYTES 16u

struct as_crew_deployment {
    struct as_crew *crew;
    struct as_plan *plan;
    const char *name;
    bool down; /* DOWN was said, by us or the controller before us, and not taken back */
};

/* What a place is beside the plan's view of it: the process that it has, or had last. */
struct as_crew_life {
    struct as_crew_deployment *deployment;
    char token[2 * AS_CREW_TOKEN_BYTES + 1];
    pid_t pid;   /* 0: none, or not known yet */
    int status;  /* EXITED: of waitpid */
    bool stands; /* that it waits in line was said */
    /* adopted: what is said of it once the plan acts */
    bool was_ready, has_ended;
    enum as_exit_kind kind;
    struct as_buf reason;
};

struct as_crew {
    struct as_crew_conf conf;
    as_crew_say_fn *say;
    void *ctx;
    struct as_loop *loop;
    const struct as_log *log;
    struct as_starts starts;
    struct as_crew_deployment *deployments;
    uint32_t n, n_started;
    bool told, begun; /* all is known; the first decisions were said, and SERVING */
    bool serving;     /* the dispatcher */
    bool once_ready;  /* every replica has been */
    enum as_application_status application; /* as it was said last */
    bool fatal;                             /* it cannot start: we are about to be ended */
    struct as_timer tick;
    struct as_task after; /* something has happened: what is due, when is the next deadline */
};

extern const struct as_plan_ops as_crew_ops; /* ctx: the deployment */

/* Every place has a life from the first time on that something is said or heard of it. */
struct as_crew_life *as_crew_give_life(struct as_crew_deployment *d, struct as_place *pl);
void as_crew_free_life(struct as_place *pl);
void as_crew_say_status(struct as_crew_deployment *d); /* and the application's */
void as_crew_say_place(struct as_place *pl);           /* it waits, or is given up, and why */

static inline struct as_crew_life *as_crew_life(const struct as_place *pl) /* NULL: none yet */
{
    return as_place_user(pl);
}

static inline const char *as_crew_place_name(const struct as_place *pl)
{
    return as_place_name(pl).p;
}

#endif
