/* ctl/reconcile/reconciler.h — brings the replicas of each deployment to their target: the
 * controller's core.
 *
 * There is one core/replicas/plan for each deployment, which decides. The reconciler carries out
 * its decisions by messages to the supervisor, and reports to it what comes back. It stores
 * nothing: a new controller learns from the supervisor's messages what there is, and continues
 * where the one before it stopped. RUNS describes each process with the facts that were noted of
 * it, EXITED each end that nobody has decided about; after TOLD it starts to decide, and sends
 * SERVING with its first decisions. A new controller tries replicas again that were given up.
 * Thread: the loop's.
 */
#ifndef AS_CTL_RECONCILER_H
#define AS_CTL_RECONCILER_H

#include "base/log.h"
#include "conf/spec/declared.h"
#include "core/replicas/served.h"
#include "ctl/message/message.h"
#include "ctl/state/generations.h"
#include "ctl/worker/worker_spec.h"
#include "io/loop/loop.h"

struct as_reconciler;

struct as_reconciler_conf { /* strings outlive the reconciler */
    struct as_worker_spec_conf worker_spec;
    /* the server's; long contexts are written there (ctl/message/replica_context.h) */
    const char *folder;
    const char *gpus, *cpus; /* devices that replicas may get, as lists: as_spec_devices_init */
    /* bytes that the limits `memory` of all replicas may have together, as far as autoscaling asks
     * for replicas; 0: not known */
    uint64_t memory;
    as_ns load_interval; /* least time between two counts of the dispatcher, for autoscaling */
    /* of autoscaling policies of the program's: time for an answer, and time between two questions
     * while no input changes */
    as_ns scaling_timeout, scaling_interval;
    uint32_t max_starting;        /* processes in STARTING at once, > 0; others are queued */
    struct as_plan_policy policy; /* the server's defaults; keys of a deployment override them */
    bool tolerate_failures;       /* the server goes on although a deployment cannot start */
    uint64_t seed;
    void (*on_change)(void *ctx); /* something may have changed; may be NULL */
    void *ctx;
};

/* How an update of a deployment ended, for the owner to store and to report. */
struct as_reconciler_outcome {
    struct as_str application, deployment; /* deployment: its id */
    /* on_stable: the stable one; on_rolled_back: the one that is the target again */
    uint64_t generation;
    /* on_stable: the one that a manual rollback goes to, or 0; on_rolled_back: the failed one */
    uint64_t before;
    struct as_str why; /* on_rolled_back */
};

/* on_stable and on_rolled_back are called at the end of the loop's turn, and may call
 * as_reconciler_set_target. */
struct as_reconciler_ops {
    void (*send)(void *ctx, const struct as_ctl_message *m); /* sends m to the supervisor */
    as_generations_load_fn *load;
    /* The number of replicas that was set by hand, which overrides the generation's; -1: none. */
    int64_t (*find_scale)(void *ctx, uint64_t generation, struct as_str deployment);
    void (*on_stable)(void *ctx, const struct as_reconciler_outcome *n);
    void (*on_rolled_back)(void *ctx, const struct as_reconciler_outcome *n);
};

int as_reconciler_new(struct as_reconciler **ret_r, struct as_loop *loop,
                      const struct as_reconciler_conf *conf, const struct as_reconciler_ops *ops,
                      void *ctx, const struct as_log *log);
/* Closes the timer; the loop must run once more before as_reconciler_free. */
void as_reconciler_close(struct as_reconciler *r);
void as_reconciler_free(struct as_reconciler *r);

/* Sets the target: the deployments of `spec`, and no others. A deployment whose target does not
 * change is left alone, even in the middle of an update. To be called before the first
 * as_reconciler_handle. `spec` is complete (as_spec_overlay), and taken over. */
void as_reconciler_set_target(struct as_reconciler *r, uint64_t generation, struct as_spec *spec);
/* Tells the supervisor and the dispatcher the route of a deployment (ROUTE); prefix "": none. */
void as_reconciler_send_route(struct as_reconciler *r, struct as_str deployment,
                              struct as_str prefix);
/* Asks the dispatcher to send CONFIRMED with this id when all that was sent before has its effect.
 */
void as_reconciler_send_confirm(struct as_reconciler *r, uint64_t id);
/* Tells the supervisor the models of a deployment (DECLARE), behind as_reconciler_set_target. room:
 * bytes that may still be declared; the models that have no room are left out. settings: of
 * as_spec_put_settings. */
void as_reconciler_declare(struct as_reconciler *r, const struct as_declared_deployment *models,
                           struct as_str settings, size_t *room);
/* Before a deploy: the next as_reconciler_set_target clears the failure of every deployment of the
 * application (empty: of all) that was rolled back, whether its target changes or not. Returns how
 * many there are. */
uint32_t as_reconciler_clear_failures(struct as_reconciler *r, struct as_str application);
/* Deployments are ids (base/id.h), here and below, except where they stand beside an application.
 *
 * Before the first as_reconciler_handle: the stored history of a deployment. stable, previous:
 * generations, or 0; failed: why the last update was rolled back, or empty. */
void as_reconciler_set_history(struct as_reconciler *r, struct as_str deployment, uint64_t stable,
                               uint64_t previous, struct as_str failed);

/* RUNS, EXITED, STAYS, TARGET, DISPATCHER, TOLD, REVIVE; READY, GONE, RETIRED, ANSWER, SPAWNED,
 * LEAVES, LOAD. Others are ignored. */
void as_reconciler_handle(struct as_reconciler *r, const struct as_ctl_message *m);

/* --- requests of the control API: reconciler_requests.c --- */

/* 0, or AS_ENOTFOUND with a sentence in `err`: there is no such application, or no such deployment
 * in it (empty: any). */
int as_reconciler_check_name(const struct as_reconciler *r, struct as_str application,
                             struct as_str deployment, struct as_buf *err);
/* Starts a restart of its replicas, whose progress the deployment's status shows. 0, AS_ENOTFOUND.
 */
int as_reconciler_restart(struct as_reconciler *r, struct as_str deployment, struct as_buf *err);
/* The generation that a manual rollback goes to. AS_ENOTFOUND: there is no earlier one. */
int as_reconciler_rollback_target(const struct as_reconciler *r, struct as_str deployment,
                                  uint64_t *ret_generation, struct as_buf *err);
/* Its status, valid until the next call on the reconciler; NULL: there is no such deployment, or it
 * is being removed. */
const struct as_condition *as_reconciler_condition(const struct as_reconciler *r,
                                                   struct as_str deployment);
/* All its replicas are as its target says. */
bool as_reconciler_is_stable(const struct as_reconciler *r, struct as_str deployment);
/* The number of replicas that is asked for, of which target_capacity is a part; of one that follows
 * its load, that which it is to have. 0: there is no such deployment. */
uint32_t as_reconciler_replicas(const struct as_reconciler *r, struct as_str deployment);
struct as_generations *as_reconciler_generations(struct as_reconciler *r);

/* Calls fn for each application, then for each of its deployments, each followed by its replicas.
 */
void as_reconciler_each(const struct as_reconciler *r, as_served_fn *fn, void *arg);
/* Appends the members "NAME": {"status": …, "deployments": {…}}, … of an object: applications, as
 * Ray Serve's details have them. details (may be NULL): appends further members of an application
 * or deployment. */
typedef void as_reconciler_details_fn(void *ctx, const struct as_served *s, struct as_buf *json);
void as_reconciler_put_json(const struct as_reconciler *r, as_reconciler_details_fn *details,
                            void *ctx, struct as_buf *json);

#endif
