/* ctl/reconcile/reconciler_internal.h — the structs of the reconciler; only its own files include
 * this.
 *
 *   reconciler.c           messages from the supervisor, and what is due at the end of each turn
 *   reconciler_target.c    which deployments there are, and the target of each
 *   reconciler_ops.c       carries out what the plans decide
 *   reconciler_start.c     the texts of SPAWN and ASK for a replica
 *   reconciler_autoscale.c deployments whose number of replicas follows their load
 *   reconciler_scaling.c   asks the autoscaling policies of the program's
 *   reconciler_devices.c   GPUs and CPUs that replicas have for themselves
 *   reconciler_report.c    status messages to the supervisor
 *   reconciler_requests.c  requests of the control API
 *
 * "Slot" is a replica slot (core/replicas/replica_slot.h): it has one process after the other.
 */
#ifndef AS_CTL_RECONCILER_INTERNAL_H
#define AS_CTL_RECONCILER_INTERNAL_H

#include "base/buf.h"
#include "conf/spec/spec_spawn.h"
#include "core/autoscale/autoscaler.h"
#include "core/autoscale/capacity.h"
#include "core/autoscale/service_window.h"
#include "ctl/reconcile/reconciler.h"

#define AS_RECONCILER_TOKEN_BYTES 16u

struct as_reconciler_application {
    char *name;
    enum as_application_status reported; /* as it was reported last */
};

enum as_reconciler_device_kind {
    AS_RECONCILER_GPUS,
    AS_RECONCILER_CPUS,
    AS_RECONCILER_DEVICE_KINDS
};

/* Devices of one kind that a slot has: from its first process until it is given up or removed. */
struct as_reconciler_devices {
    int64_t n;  /* thousandths of a device; 0: none */
    char *list; /* which ones; NULL: its deployment asks for none */
};

/* Devices of slots that are removed or given up: reserved for the deployment until
 * as_plan_ops.release. */
struct as_reconciler_reserved {
    uint32_t n;
    struct as_reconciler_devices *all;
};

#define AS_RECONCILER_DECISIONS 10u

struct as_reconciler_decision { /* of the autoscaling, that has changed the number */
    as_ns time;                 /* Unix time */
    uint32_t from, to;
    char *reason;
};

/* The autoscaling policy of the program's that decides for a deployment. */
struct as_reconciler_policy {
    bool own;                           /* there is one; else all of this is 0 */
    bool together;                      /* it is the application's … */
    bool host;                          /* … and runs in this deployment's process, which has the
                                           open question for all */
    bool failing;                       /* which was logged */
    uint64_t id;                        /* of the open question; 0: none */
    as_ns deadline;                     /* of it */
    as_ns soonest, next;                /* when it is asked again if an input changes, and else */
    bool has_stats;                     /* statistics have come since the last question */
    pid_t told;                         /* the process that knows those of stats_told */
    struct as_autoscale_decision asked; /* the inputs of the last question */
    struct as_buf why;                  /* there is no answer; empty: there is, or none yet */
};

/* The autoscaling of one deployment. */
struct as_reconciler_scaler {
    struct as_reconciler_policy policy;
    as_ns scaled_up, scaled_down; /* when it last did; Unix time, or 0 */
    struct as_autoscaler a;
    struct as_service_window window;
    uint32_t slots;     /* of all replicas, as the dispatcher said last */
    double slots_each;  /* of one */
    as_ns report_at;    /* when its explanation may be reported again … */
    uint64_t explained; /* … and the hash of what was reported last */
    uint32_t n_decisions;
    struct as_reconciler_decision decisions[AS_RECONCILER_DECISIONS]; /* oldest first */
};

struct as_reconciler_deployment {
    struct as_reconciler *reconciler;
    struct as_reconciler_scaler *scaler; /* NULL: the number does not follow the load */
    struct as_plan *plan;
    char *name, *application; /* name: its id */
    bool deleting;
    bool down;          /* DOWN was sent, by us or the controller before, and no UP since */
    bool in_target;     /* as_reconciler_set_target has found it in the new generation */
    int64_t scaled;     /* number of replicas that was set by hand; -1: `declared` counts */
    uint32_t declared;  /* its num_replicas, or the number with which autoscaling begins */
    bool ingress;       /* handles of its application call it */
    uint32_t reported;  /* the target number of replicas that was reported last */
    char *code;         /* the key `code` of its application, or NULL */
    bool clear_failure; /* the next target clears the failure of its last update */
    /* the part of `scaled` or `declared`, or of the scaler's bounds, that it is to have */
    struct as_capacity capacity;
    /* to be reported to the owner at the end of the turn */
    bool report_stable;
    uint64_t failed_generation; /* the one that was rolled back, or 0 */
    struct as_buf failure;      /* why */
    struct as_reconciler_reserved reserved[AS_RECONCILER_DEVICE_KINDS];
    struct as_buf missing; /* the result of as_plan_ops.lacks */
    /* its stored history: as_reconciler_set_history */
    uint64_t stable, previous;
    struct as_buf last_failure;
};

/* Why a slot that could start does not. */
enum as_reconciler_wait {
    AS_RECONCILER_WAIT_NONE,
    AS_RECONCILER_WAIT_IN_LINE, /* until others have started */
    AS_RECONCILER_WAIT_DEVICES  /* until devices are free */
};

/* The process that a slot has, or had last: what the plan does not need to know. */
struct as_reconciler_process {
    struct as_reconciler_deployment *deployment;
    char token[2 * AS_RECONCILER_TOKEN_BYTES + 1];
    pid_t pid;                    /* 0: none, or not known yet */
    int status;                   /* EXITED: of waitpid */
    pid_t started_pid;            /* of which `started_ms` is; 0: not read yet */
    int64_t started_ms;           /* Unix time */
    enum as_reconciler_wait wait; /* as it was reported last */
    bool has_context_file;        /* its context may be in a file */
    struct as_reconciler_devices devices[AS_RECONCILER_DEVICE_KINDS];
    struct as_buf stats; /* its last STATS, for policies of the program's; empty: none … */
    as_ns stats_at;      /* … and when they came, Unix time */
    bool stats_told;     /* the policy process has them */
    bool leaves;         /* it drains by itself: another SIGTERM might meet its end */
    /* to be reported to the plan at the end of the turn: an adopted one is READY or leaves, or the
     * process has ended */
    bool adopted_ready, adopted_leaves, has_ended;
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
    struct as_reconciler_deployment **deployments; /* those of one application are adjacent */
    uint32_t n, n_started;
    struct as_reconciler_application *applications;
    uint32_t n_applications;
    uint64_t generation;            /* the target's; 0: none yet */
    bool state_known, serving_sent; /* TOLD came; SERVING was sent after the first decisions */
    bool serving;                   /* the dispatcher */
    bool complete;                  /* every replica has been READY: COMPLETE was sent */
    bool fatal_sent;                /* FATAL was sent: the supervisor stops the server */
    uint64_t scaling_id;            /* of the last question to an autoscaling policy */
    struct as_timer timer;
    struct as_task turn_end; /* at the end of a turn in which something happened: does what is due,
                                and sets the timer */
};

extern const struct as_plan_ops as_reconciler_plan_ops; /* ctx: the deployment */

/* --- reconciler_target.c --- */
struct as_reconciler_deployment *as_reconciler_find(const struct as_reconciler *r,
                                                    struct as_str name);
/* The number of deployments of the application whose first one is at `first`. */
uint32_t as_reconciler_application_size(const struct as_reconciler *r, uint32_t first);
/* The number of replicas of which target_capacity is a part: num_replicas, or what `scale` has set.
 * Not for one whose number follows the load. */
uint32_t as_reconciler_whole(const struct as_reconciler_deployment *d);
/* Adds a deployment that is not in the target but has a process, and starts to delete it. NULL: the
 * facts are invalid. */
struct as_reconciler_deployment *
as_reconciler_add_leftover(struct as_reconciler *r, struct as_str name,
                           const struct as_replica_slot_facts *facts);
/* Gives the plan its history, before as_plan_run. complete: the server had reached its target. */
void as_reconciler_restore(struct as_reconciler_deployment *d, bool complete);
/* Frees deleted deployments without replicas, and generations that nothing uses. */
void as_reconciler_prune(struct as_reconciler *r);
void as_reconciler_free_deployment(struct as_reconciler_deployment *d);

/* --- reconciler_start.c --- */
/* Writes the text of SPAWN for the next process of the slot, and assigns the devices that it needs.
 * 0; AS_EFULL, AS_EIO, AS_ENOTFOUND: it cannot be started, with a line in `why`. */
int as_reconciler_write_spawn(struct as_replica_slot *slot, struct as_buf *text,
                              struct as_buf *why);
/* Writes the text of ASK that reconfigures its process to `to`. */
void as_reconciler_write_reconfigure(struct as_replica_slot *slot,
                                     const struct as_replica_slot_facts *to, struct as_buf *text);
/* Removes the file with its context, if there is one. */
void as_reconciler_remove_context(struct as_replica_slot *slot);

/* --- reconciler_devices.c --- */
/* as_plan_ops.lacks and .release. A slot that needs more devices than the machine has does not
 * wait: its start fails. */
struct as_str as_reconciler_missing_devices(void *ctx, const struct as_replica_slot *slot,
                                            const struct as_plan_headroom *room);
bool as_reconciler_release_devices(void *ctx);
/* 0, or AS_EFULL with a line in `why`. */
int as_reconciler_assign_devices(struct as_reconciler_process *proc,
                                 const struct as_spec_object *deployment, struct as_buf *why);
/* The slot is given up, or removed: its devices are reserved for the deployment. */
void as_reconciler_reserve_devices(struct as_replica_slot *slot);
/* The devices of a process as text, which NOTE has behind the facts; the next controller reads them
 * from there. */
void as_reconciler_write_devices(const struct as_reconciler_process *proc, struct as_buf *note);
void as_reconciler_adopt_devices(struct as_reconciler *r, struct as_reconciler_process *proc,
                                 struct as_str note);

/* How many replicas the machine can have in all, at most `most`: those that are there and lack
 * nothing, and as many more as there are devices and memory for. lack: what is missing for the next
 * one. */
uint32_t as_reconciler_startable(const struct as_reconciler_deployment *d, uint32_t most,
                                 struct as_buf *lack);

/* --- reconciler_autoscale.c --- */
/* The deployment's keys have changed. True: it has become one whose number follows its load, or is
 * one no more. */
bool as_reconciler_update_scaler(struct as_reconciler_deployment *d,
                                 const struct as_generations_deployment *specs);
void as_reconciler_free_scaler(struct as_reconciler_deployment *d);
void as_reconciler_on_load(struct as_reconciler *r, const struct as_ctl_message *m);
void as_reconciler_on_target(struct as_reconciler *r, const struct as_ctl_message *m);
/* There is another dispatcher, or none. */
void as_reconciler_dispatcher_changed(struct as_reconciler *r);
/* Appends why the number is as it is, for people; nothing without autoscaling. */
void as_reconciler_explain(const struct as_reconciler_deployment *d, struct as_buf *text);
/* Appends the member `autoscaling_detail`, with Ray Serve's names; nothing without autoscaling. */
void as_reconciler_put_autoscaling(const struct as_reconciler_deployment *d, struct as_buf *json);
/* Decides for each deployment. Returns when it must be called again. */
as_ns as_reconciler_autoscale(struct as_reconciler *r);

/* --- reconciler_scaling.c --- */
/* Each for a deployment with a scaler. Before the decisions: without a process, and at the end of
 * the time limit, there is no answer. */
void as_reconciler_check_policy(struct as_reconciler_deployment *d, as_ns now);
/* After the decisions of all: asks, if it is time. Returns when it must be called again. */
as_ns as_reconciler_ask_policy(struct as_reconciler_deployment *d, as_ns now);
/* ANSWER. False: it is one to a question of a plan. */
bool as_reconciler_take_scaling(struct as_reconciler *r, const struct as_ctl_message *m);
/* Appends why there is no answer, if one is missing. */
void as_reconciler_explain_policy(const struct as_reconciler_scaler *s, struct as_buf *text);
/* STATS of a replica. */
void as_reconciler_on_stats(struct as_replica_slot *slot, const struct as_ctl_message *m);

/* --- reconciler_report.c --- */
/* Adds names and token to m, and sends it. */
void as_reconciler_send(struct as_replica_slot *slot, struct as_ctl_message m);
/* Sends the status of the deployment, and its application's if that has changed. */
void as_reconciler_report_status(struct as_reconciler_deployment *d);
void as_reconciler_report_applications(struct as_reconciler *r);
/* Sends PLACE: the slot waits or is given up, and why. */
void as_reconciler_report_slot(struct as_replica_slot *slot);
/* The message of a deployment or a replica, for people. */
void as_reconciler_deployment_message(const struct as_reconciler_deployment *d,
                                      struct as_buf *text);
struct as_str as_reconciler_slot_message(const struct as_replica_slot *slot);
void as_reconciler_report_delete(struct as_reconciler_deployment *d, bool gone);
void as_reconciler_report_down(struct as_reconciler_deployment *d, bool down, struct as_str why);
/* The status of the application whose deployments are the n from `first` on. */
enum as_application_status as_reconciler_application_status(const struct as_reconciler *r,
                                                            uint32_t first, uint32_t n);

/* --- reconciler_ops.c --- */
/* The process data of a slot, made on first use. */
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
