/* ctl/reconcile/reconciler_internal.h — the insides of the crew; only its own files include this.
 *
 * crew_want.c knows which deployments there are, crew_ops.c carries out what the plans order,
 * crew_start.c makes a process of a place, crew_devices.c knows what of the machine it has for
 * itself, crew_say.c tells the status, crew.c hears what happened
 * and looks after time, crew_order.c is for people.
 */
#ifndef AS_CTL_RECONCILER_INTERNAL_H
#define AS_CTL_RECONCILER_INTERNAL_H

#include "base/buf.h"
#include "conf/spec_spawn.h"
#include "ctl/reconcile/reconciler.h"

#define AS_RECONCILER_TOKEN_BYTES 16u

struct as_reconciler_application {
    char *name;
    enum as_application_status reported; /* as it was told last */
};

enum as_reconciler_device_kind {
    AS_RECONCILER_GPUS,
    AS_RECONCILER_CPUS,
    AS_RECONCILER_DEVICE_KINDS
};

/* What a place has taken of the machine: from its first process on, until it is given up or gone.
 */
struct as_reconciler_devices {
    int64_t n;  /* thousandths; 0: nothing */
    char *list; /* NULL: its deployment says nothing of these devices */
};

/* What its places had that are gone or given up, until as_plan_ops.release. */
struct as_reconciler_reserved {
    uint32_t n;
    struct as_reconciler_devices *all;
};

struct as_reconciler_deployment {
    struct as_reconciler *reconciler;
    struct as_plan *plan;
    char *name, *application;
    bool deleting;
    bool down;          /* DOWN was said, by us or the controller before us, and not taken back */
    bool in_target;     /* in the generation that is looked through */
    int64_t scaled;     /* replicas that somebody has set; -1: what is declared counts */
    uint32_t declared;  /* its num_replicas */
    uint32_t reported;  /* replicas that there are to be, as it was told last */
    char *code;         /* the key `code` of its application; NULL: it says nothing */
    bool clear_failure; /* the next one takes its last update's failure off it */
    /* what the owner is to hear at the end of the turn */
    bool settled;
    uint64_t failed; /* the generation that was rolled back, or 0 */
    struct as_buf why;
    struct as_reconciler_reserved reserved[AS_RECONCILER_DEVICE_KINDS];
    struct as_buf missing; /* as_plan_ops.lacks answers with it */
    /* what the owner recalled */
    uint64_t stable, previous;
    struct as_buf last_failure;
};

/* Why a place that could start does not. */
enum as_reconciler_wait {
    AS_RECONCILER_WAIT_NONE,
    AS_RECONCILER_WAIT_IN_LINE, /* for others to have started */
    AS_RECONCILER_WAIT_DEVICES  /* for what is not free of the machine */
};

/* What a place is beside the plan's view of it: the process that it has, or had last. */
struct as_reconciler_process {
    struct as_reconciler_deployment *deployment;
    char token[2 * AS_RECONCILER_TOKEN_BYTES + 1];
    pid_t pid;                    /* 0: none, or not known yet */
    int status;                   /* EXITED: of waitpid */
    enum as_reconciler_wait wait; /* as it was said last */
    bool has_context_file;        /* its context may lie in a file */
    struct as_reconciler_devices devices[AS_RECONCILER_DEVICE_KINDS];
    /* said of it once the plan may be told: it was adopted, or could not be started */
    bool adopted_ready, has_ended;
    enum as_exit_kind kind;
    struct as_buf reason;
};

struct as_reconciler {
    struct as_reconciler_conf conf;
    struct as_reconciler_ops ops;
    void *ctx;
    struct as_loop *loop;
    const struct as_log *log;
    struct as_generations generations;
    struct as_start_limit starts;
    struct as_rand rand;
    struct as_spec_devices devices[AS_RECONCILER_DEVICE_KINDS];
    struct as_reconciler_deployment **deployments; /* those of one application beside each other */
    uint32_t n, n_started;
    struct as_reconciler_application *applications;
    uint32_t n_applications;
    uint64_t generation;            /* that is wanted; 0: none yet */
    bool state_known, serving_sent; /* all is known; the first decisions were said, and SERVING */
    bool serving;                   /* the dispatcher */
    bool complete;                  /* every replica has been */
    bool fatal_sent;                /* it cannot start: we are about to be ended */
    struct as_timer timer;
    struct as_task turn_end; /* something has happened: what is due, when is the next deadline */
};

extern const struct as_plan_ops as_reconciler_plan_ops; /* ctx: the deployment */

/* --- crew_want.c --- */
struct as_reconciler_deployment *as_reconciler_find(const struct as_reconciler *c,
                                                    struct as_str name);
/* How many are of the same application as the one at `first`, which is its first one. */
uint32_t as_reconciler_application_size(const struct as_reconciler *c, uint32_t first);
/* One that is wanted no longer, but of which processes run: it is to end. */
struct as_reconciler_deployment *
as_reconciler_add_leftover(struct as_reconciler *c, struct as_str name,
                           const struct as_replica_slot_facts *facts);
/* Restores what is known of it, for as_plan_run. complete: all had been as asked for. */
void as_reconciler_restore(struct as_reconciler_deployment *d, bool complete);
/* What is empty and was to go goes; generations that nobody needs do. */
void as_reconciler_prune(struct as_reconciler *c);
void as_reconciler_free_deployment(struct as_reconciler_deployment *d);

/* --- crew_start.c --- */
/* SPAWN's text for the process that pl is to have, whatever it needs taken. AS_EFULL, AS_EIO,
 * AS_ENOTFOUND: it cannot be started, `why` says why in a line. */
int as_reconciler_write_spawn(struct as_replica_slot *slot, struct as_buf *text,
                              struct as_buf *why);
/* The text of ASK that makes it what `to` says. */
void as_reconciler_write_reconfigure(struct as_replica_slot *slot,
                                     const struct as_replica_slot_facts *to, struct as_buf *text);
void as_reconciler_remove_context(struct as_replica_slot *slot);

/* --- crew_devices.c --- */
/* as_plan_ops.lacks, .release. What the machine does not have at all is not waited for: the start
 * fails. */
struct as_str as_reconciler_missing_devices(void *ctx, const struct as_replica_slot *slot,
                                            const struct as_plan_headroom *room);
bool as_reconciler_release_devices(void *ctx);
/* AS_EFULL: with `why`, a line. */
int as_reconciler_assign_devices(struct as_reconciler_process *proc,
                                 const struct as_spec_object *deployment, struct as_buf *why);
void as_reconciler_reserve_devices(struct as_replica_slot *slot); /* it is given up, or gone */
/* What it has taken, behind its facts in the note; and read from there by the next controller. */
void as_reconciler_write_devices(const struct as_reconciler_process *proc, struct as_buf *note);
void as_reconciler_adopt_devices(struct as_reconciler *c, struct as_reconciler_process *proc,
                                 struct as_str note);

/* --- crew_say.c --- */
void as_reconciler_send(struct as_replica_slot *slot,
                        struct as_ctl_message m); /* names and token are added */
void as_reconciler_report_status(struct as_reconciler_deployment *d); /* and its application's */
void as_reconciler_report_applications(struct as_reconciler *c);
void as_reconciler_report_slot(
    struct as_replica_slot *slot); /* it waits, or is given up, and why */
/* What people are told of a deployment beside its status, and of a replica. */
void as_reconciler_deployment_message(const struct as_reconciler_deployment *d,
                                      struct as_buf *text);
struct as_str as_reconciler_slot_message(const struct as_replica_slot *slot);
void as_reconciler_report_delete(struct as_reconciler_deployment *d, bool gone);
void as_reconciler_report_down(struct as_reconciler_deployment *d, bool down, struct as_str why);
/* Of the application whose deployments are those n from `first` on. */
enum as_application_status as_reconciler_application_status(const struct as_reconciler *c,
                                                            uint32_t first, uint32_t n);

/* --- crew_ops.c --- */
/* Every place has a life from the first time on that something is said or heard of it. */
struct as_reconciler_process *as_reconciler_ensure_process(struct as_reconciler_deployment *d,
                                                           struct as_replica_slot *slot);
void as_reconciler_free_process(struct as_replica_slot *slot);

static inline struct as_reconciler_process *
as_reconciler_process(const struct as_replica_slot *slot) /* NULL: none yet */
{
    return as_replica_slot_user(slot);
}

static inline const char *as_reconciler_slot_name(const struct as_replica_slot *slot)
{
    return as_replica_slot_name(slot).p;
}

#endif
