/* ctl/crew.h — the controller's part: plans carried out by messages.
 *
 * One core/plan per deployment decides; this room knows tokens and texts. What happened is heard
 * from the supervisor, what is to be done is said to it; nothing is known that is not heard, so
 * that a new controller carries on where one that was killed stopped: RUNS tells it of every
 * process and the facts that were noted of it, EXITED of ends that nobody has decided about, and
 * TOLD lets it begin. When its first decisions are said it says SERVING. What was given up is tried
 * again by a new controller. Thread: the loop's.
 */
#ifndef AS_CTL_CREW_H
#define AS_CTL_CREW_H

#include "base/log.h"
#include "core/plan.h"
#include "ctl/describe.h"
#include "ctl/message.h"
#include "ctl/recipe.h"
#include "io/loop.h"

struct as_crew;

struct as_crew_conf {
    const struct as_app *app; /* outlives the crew, as the recipe's strings do */
    struct as_recipe recipe;
    uint32_t workers;      /* replicas of each deployment; at most AS_PLAN_REPLICAS_MAX */
    uint32_t max_starting; /* processes in STARTING at once; the others wait in line; > 0 */
    struct as_plan_policy policy;
    uint64_t seed;
    void (*on_change)(void *ctx); /* something may be another way than before; may be NULL */
    void *ctx;
};

/* To the supervisor. */
typedef void as_crew_say_fn(void *ctx, const struct as_ctl_message *m);

int as_crew_new(struct as_crew **ret_c, struct as_loop *loop, const struct as_crew_conf *conf,
                as_crew_say_fn *say, void *ctx, const struct as_log *log);
/* Closes the timer; the loop must run once more before as_crew_free. */
void as_crew_close(struct as_crew *c);
void as_crew_free(struct as_crew *c);

/* RUNS, EXITED, DISPATCHER, TOLD; READY, GONE, RETIRED, ANSWER, SPAWNED, REVIVE. Others: nothing
 * happens. */
void as_crew_hear(struct as_crew *c, const struct as_ctl_message *m);

/* --- what people ask for: crew_order.c --- */

/* Each begins at once and is done over time; what becomes of it is the deployment's status. 0, or
 * with a sentence in `err`: AS_ENOTFOUND, no such deployment (rollback: nothing was before);
 * AS_EINVALID, too many. scale may be called before the first as_crew_hear: it is what an earlier
 * controller was asked for. */
int as_crew_scale(struct as_crew *c, struct as_str deployment, uint32_t n, struct as_buf *err);
int as_crew_restart(struct as_crew *c, struct as_str deployment, struct as_buf *err);
int as_crew_rollback(struct as_crew *c, struct as_str deployment, struct as_buf *err);

enum as_application_status as_crew_status(const struct as_crew *c); /* of all that it has */

/* A deployment, or one of its replicas. Valid during the call. */
struct as_crew_row {
    struct as_str deployment;
    struct as_str replica; /* empty: the deployment itself */
    struct as_str status, message;
    uint32_t target;  /* of the deployment: replicas that there are to be */
    bool rolled_back; /* likewise: what was asked for last has failed */
    pid_t pid;        /* of the replica's process; 0: none */
    uint32_t rank, starts;
};
/* Each deployment, and its replicas behind it. */
void as_crew_each(const struct as_crew *c, void (*fn)(void *arg, const struct as_crew_row *r),
                  void *arg);
/* Appends {"NAME": {"status": …, "replicas": […]}, …}, as Ray Serve's details have deployments. */
void as_crew_show(const struct as_crew *c, struct as_buf *json);

#endif
