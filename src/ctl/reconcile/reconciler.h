/* ctl/reconcile/reconciler.h — the controller's part: plans carried out by messages.
 *
 * One core/replicas/plan per deployment decides; this room knows generations
 * (ctl/state/generations), tokens and texts. What happened is heard from the supervisor, what is to
 * be done is said to it; nothing is known that is not heard, so that a new controller carries on
 * where one that was killed stopped: RUNS tells it of every process and the facts that were noted
 * of it, EXITED of ends that nobody has decided about, and TOLD lets it begin. When its first
 * decisions are said it says SERVING. What was given up is tried again by a new controller. Thread:
 * the loop's.
 */
#ifndef AS_CTL_RECONCILER_H
#define AS_CTL_RECONCILER_H

#include "base/log.h"
#include "core/replicas/plan.h"
#include "ctl/state/generations.h"
#include "ctl/message/message.h"
#include "ctl/worker/worker_spec.h"
#include "io/loop/loop.h"

struct as_reconciler;

struct as_reconciler_conf { /* strings outlive the crew */
    struct as_worker_spec_conf worker_spec;
    const char *folder; /* of the server; long contexts lie there (ctl/message/replica_context.h) */
    const char *gpus, *cpus;      /* that replicas may take, as lists: as_spec_devices_init */
    uint32_t max_starting;        /* processes in STARTING at once; the others wait in line; > 0 */
    struct as_plan_policy policy; /* the server's; keys of a deployment take its place */
    bool tolerate_failures;       /* the server goes on though what it serves cannot start */
    uint64_t seed;
    void (*on_change)(void *ctx); /* something may be another way than before; may be NULL */
    void *ctx;
};

/* What the owner keeps, or tells people. */
struct as_reconciler_outcome {
    struct as_str application, deployment;
    uint64_t generation; /* settled: that is stable; rolled_back: that is the target again */
    uint64_t before; /* settled: what a rollback by hand goes to, or 0; rolled_back: what failed */
    struct as_str why; /* rolled_back */
};

/* settled and rolled_back come at the end of a turn, and may call as_reconciler_set_target. */
struct as_reconciler_ops {
    void (*send)(void *ctx, const struct as_ctl_message *m); /* to the supervisor */
    as_generations_load_fn *load;
    /* The number of replicas that somebody has set, beside what that generation says; -1: none. */
    int64_t (*scaled)(void *ctx, uint64_t generation, struct as_str deployment);
    void (*settled)(void *ctx, const struct as_reconciler_outcome *n);
    void (*rolled_back)(void *ctx, const struct as_reconciler_outcome *n);
};

int as_reconciler_new(struct as_reconciler **ret_c, struct as_loop *loop,
                      const struct as_reconciler_conf *conf, const struct as_reconciler_ops *ops,
                      void *ctx, const struct as_log *log);
/* Closes the timer; the loop must run once more before as_reconciler_free. */
void as_reconciler_close(struct as_reconciler *c);
void as_reconciler_free(struct as_reconciler *c);

/* This is to be: the deployments of `spec`, and no others. Those that do not differ from what they
 * were asked to be are left alone, whatever they are at. The first call comes before the first
 * as_reconciler_handle. `spec` is whole, and taken over. */
void as_reconciler_set_target(struct as_reconciler *c, uint64_t generation, struct as_spec *spec);
/* Somebody deploys: with the next as_reconciler_set_target the failures of updates that were taken
 * back are told no longer, whether a deployment differs or not. How many there are. */
uint32_t as_reconciler_clear_failures(struct as_reconciler *c);
/* Before the first as_reconciler_handle: what is kept of a deployment. stable, previous:
 * generations, 0: none is known; failed: why the last update was taken back, or empty. */
void as_reconciler_set_history(struct as_reconciler *c, struct as_str deployment, uint64_t stable,
                               uint64_t previous, struct as_str failed);

/* RUNS, EXITED, DISPATCHER, TOLD; READY, GONE, RETIRED, ANSWER, SPAWNED, REVIVE. Others: nothing
 * happens. */
void as_reconciler_handle(struct as_reconciler *c, const struct as_ctl_message *m);

/* --- what people ask for: crew_order.c --- */

/* AS_ENOTFOUND with a sentence in `err`: there is no such application, or deployment in it. */
int as_reconciler_check_name(const struct as_reconciler *c, struct as_str application,
                             struct as_str deployment, struct as_buf *err);
/* Begins at once; what becomes of it is the deployment's status. Also AS_ENOTFOUND. */
int as_reconciler_restart(struct as_reconciler *c, struct as_str deployment, struct as_buf *err);
/* The generation that a rollback by hand goes to. AS_ENOTFOUND: there was nothing before. */
int as_reconciler_rollback_target(const struct as_reconciler *c, struct as_str deployment,
                                  uint64_t *ret_generation, struct as_buf *err);
/* Its status, until the crew is told anything; NULL: there is no such deployment, or it ends. */
const struct as_condition *as_reconciler_condition(const struct as_reconciler *c,
                                                   struct as_str deployment);
/* Everything of it is as asked for. */
bool as_reconciler_is_stable(const struct as_reconciler *c, struct as_str deployment);
/* How many replicas it is asked to have. */
uint32_t as_reconciler_replicas(const struct as_reconciler *c, struct as_str deployment);
/* Every deployment that has reached something, as `settled` would tell it. */
void as_reconciler_each_stable(const struct as_reconciler *c,
                               void (*fn)(void *arg, const struct as_reconciler_outcome *n),
                               void *arg);
struct as_generations *as_reconciler_generations(struct as_reconciler *c);

/* An application, a deployment of it, or one of that one's replicas. Valid during the call. */
struct as_reconciler_row {
    struct as_str application;
    struct as_str deployment; /* empty: the application itself */
    struct as_str replica;    /* empty: the deployment itself */
    struct as_str status, message;
    uint32_t target;     /* of the deployment: replicas that there are to be … */
    uint32_t declared;   /* … and what its num_replicas says */
    bool rolled_back;    /* likewise: what was asked for last has failed */
    uint64_t generation; /* likewise: the last one that changed it */
    pid_t pid;           /* of the replica's process; 0: none */
    uint32_t rank, starts;
};
/* Each application, its deployments behind it, and their replicas behind them. */
void as_reconciler_each(const struct as_reconciler *c,
                        void (*fn)(void *arg, const struct as_reconciler_row *r), void *arg);
/* Appends the members "NAME": {"status": …, "deployments": {…}}, … of an object: applications, as
 * Ray Serve's details have them. */
void as_reconciler_put_json(const struct as_reconciler *c, struct as_buf *json);

#endif
