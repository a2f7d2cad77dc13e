/* link/fleet/fleet_deployment.h — what the fleet keeps beside core's deployment, shared inside the
 * folder.
 *
 * Names and caps of the models, the deadline timer, the flag that other threads read. A token
 * belongs to a process that the supervisor started. Thread: the dispatch loop, but for `ready`.
 */
#ifndef AS_LINK_FLEET_DEPLOY_H
#define AS_LINK_FLEET_DEPLOY_H

#include "core/queue/model_stat.h"
#include "link/native/death_watch.h"
#include "link/fleet/fleet.h"
#include "link/fleet/unknown_peer.h"

struct as_upstream;

#define AS_FLEET_DEPLOYMENTS_MAX 1024u
/* A deployment's number: its place in the table, and how many had that place before. */
#define AS_FLEET_DEPLOYMENT_PLACE(number) ((number) & (AS_FLEET_DEPLOYMENTS_MAX - 1))

/* A model's number within its deployment likewise: core, and workers, know it by its place. */
#define AS_FLEET_MODEL_PLACE(index) ((index) & (AS_DEPLOYMENT_MODELS_MAX - 1))
static_assert((AS_DEPLOYMENT_MODELS_MAX & (AS_DEPLOYMENT_MODELS_MAX - 1)) == 0, "places are bits");

struct as_fleet_model {
    char *name, *version;
    uint32_t index;
    uint32_t max_ongoing;
    struct as_batch_conf batching;
    as_ns missed; /* since when no worker that stays has it; AS_NEVER: one has; 0: its last one ends
                   */
    bool gone;    /* not in the registry: nobody served it any more; its place may be used again */
    uint64_t order; /* of those that have gone: the first one is the smallest */
    struct as_model_stat stat;
};

enum as_fleet_idempotent {
    AS_FLEET_AS_REGISTERED,
    AS_FLEET_IDEMPOTENT,
    AS_FLEET_NOT_IDEMPOTENT,
};

/* One place of the table. Made once and never freed before the fleet, since other threads look at
 * the flags of a number that they have from an older snapshot; but a deployment of workers that
 * came by themselves goes when they have gone, and its place is used again. */
struct as_fleet_deployment {
    struct as_fleet *fleet;
    char *name;                 /* NULL: the place is free */
    struct as_deployment *core; /* NULL until a worker has registered */
    uint32_t number;
    uint32_t n_upstreams; /* that have said its name */
    as_ns seen;           /* when one that was not sent away was there last; 0: never */
    as_ns deserted;       /* since when nobody is there; AS_NEVER: somebody is */
    bool deleted;         /* its models are unknown … */
    bool gone;            /* … and no process of ours serves it: it goes with the last upstream */
    int64_t max_queued;   /* as its models are registered; a worker's OPTIONS may say another */
    uint32_t budget;
    enum as_fleet_idempotent idempotent; /* of all its models; else each has its own */
    struct as_traffic traffic;           /* as its workers say; the text is its own */
    as_ns request_timeout;          /* the deadline of those that bring none; 0: they have none */
    uint64_t exits[AS_FLEET_EXITS]; /* of its processes */
    struct as_fleet_model *models;
    uint32_t n_models;
    uint64_t n_gone;       /* so many models have gone */
    struct as_timer timer; /* the next deadline */
    struct as_task work;   /* as_deployment_work, in the next turn */
    struct as_call_hasher hash;
    atomic_bool down;
    atomic_bool expected;   /* a process of ours serves it */
    atomic_bool registered; /* its models are known */
    atomic_bool late;       /* came while clients were served: the server is ready without it */
    atomic_bool ready;
};

struct as_fleet_add_process {
    struct as_list node;
    char *token, *replica, *deployment;
    struct as_link *link;     /* the live one, or NULL */
    bool retiring;            /* its process takes nothing new, whatever link it has */
    enum as_fleet_exit ended; /* why we end its process; AS_FLEET_EXITS: we do not */
    enum as_loss loss; /* why the process died, once it is told; until then AS_LOSS_PENDING */
    uint64_t grave;    /* that waits to be told, in deployment `number`; 0: none does */
    uint32_t number;
};

struct as_fleet {
    struct as_loop *loop;
    struct as_fleet_conf conf;
    struct as_fleet_ops ops;
    void *ctx;
    const struct as_log *log;
    struct as_fleet_deployment *deploys[AS_FLEET_DEPLOYMENTS_MAX];
    atomic_uint n_deploys;
    struct as_list upstreams, tokens, clients;
    struct as_simple_registry *simple; /* workers of the simple protocol; NULL: none has come */
    struct as_mbox *box;               /* of the client handle on this loop */
    char *join_token;
    struct as_registry *registry;
    struct as_death_watch *watch; /* NULL: pidfd only */
    uv_poll_t *listener;
    int listen_fd;
    struct as_timer tick;  /* pings */
    struct as_task tidy;   /* deployments that are to go */
    struct as_list untold; /* links whose end nobody has heard of yet */
    struct as_unknown_peer stranger;
    struct as_log_ratelimit starved; /* of descriptors, where workers come in */
    struct as_rand rand;             /* of moments */
    uint64_t epoch;                  /* of the last link */
    /* Epoch of the last registration of a simple worker. It begins with the time, in us since the
     * machine started: no dispatcher before this one has given as high a one. */
    uint64_t registration;
    uint32_t unanswered;
    bool draining;
    atomic_bool open;     /* workers are let in: all tokens are known */
    atomic_bool given_up; /* as_fleet_abort */
};

/* The flags are read by client loops at any time and say nothing about other memory. */
static inline bool as_fleet_flag(const atomic_bool *flag)
{
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static inline void as_fleet_set_flag(atomic_bool *flag, bool v)
{
    atomic_store_explicit(flag, v, memory_order_relaxed);
}

/* The deployment of a number; NULL: it has gone, whoever has its place now. Dispatch loop. */
static inline struct as_fleet_deployment *as_fleet_deployment_by_number(const struct as_fleet *f,
                                                                        uint32_t number)
{
    struct as_fleet_deployment *d = f->deploys[AS_FLEET_DEPLOYMENT_PLACE(number)];

    return d->number == number ? d : NULL;
}

/* The model of a number, which may be of an older snapshot; NULL: it has gone. Dispatch loop. */
static inline struct as_fleet_model *as_fleet_find_model(const struct as_fleet_deployment *d,
                                                         uint32_t index)
{
    uint32_t place = AS_FLEET_MODEL_PLACE(index);

    return place < d->n_models && d->models[place].index == index ? &d->models[place] : NULL;
}

extern const struct as_deployment_ops
    as_fleet_deployment_ops; /* their ctx is the as_fleet_deployment */

/* Of these: sample, print, next_turn. */
uint64_t as_fleet_hash_sample(void *ctx, const struct as_request *q, uint64_t *ret_sample);
bool as_fleet_fingerprint(void *ctx, const struct as_request *q, bool first, uint64_t *bytes,
                          struct as_fingerprint *ret_p);
void as_fleet_schedule_work(void *ctx);

struct as_fleet_add_process *as_fleet_find_process(struct as_fleet *f, struct as_str token);
struct as_fleet_deployment *as_fleet_find_deployment(const struct as_fleet *f,
                                                     struct as_str name); /* or NULL */
/* The deployment of that name, made if it is new; NULL when there are too many. */
struct as_fleet_deployment *as_fleet_deployment(struct as_fleet *f, struct as_str name);
/* core's deployment is made with the first registration's options; later ones must agree, but for
 * a budget of 0: each replica has its own. Gives the target number. 0, AS_EEXISTS, AS_EINVALID with
 * a reason. */
int as_fleet_register_model(struct as_fleet_deployment *d, const struct as_frame_register *r,
                            uint32_t *ret_target, const char **ret_why);
/* The new snapshot, whose reference it takes, for every client loop. */
void as_fleet_publish(struct as_fleet *f, struct as_registry *g);
/* The same snapshot again, because of what is said beside it: readiness, whether more may come. */
void as_fleet_republish(struct as_fleet *f);
/* What its workers say of other versions' requests and of its own; published if it is new. */
void as_fleet_set_traffic(struct as_fleet_deployment *d, const struct as_traffic *t);
/* After replicas came, went or drained. NULL: of a link that has no deployment yet. */
void as_fleet_update_ready(struct as_fleet_deployment *d);
/* An upstream of it is there, or has gone: it was there until `since`, or, 0, nobody waits for it.
 * The last one of workers that came by themselves takes the deployment with it, when none of them
 * that may come back has been there for the fleet's grace time; not before the end of this turn. */
void as_fleet_add_upstream(struct as_fleet_deployment *d);
void as_fleet_remove_upstream(struct as_fleet_deployment *d, as_ns since);
/* Its models are known to clients from here on. */
void as_fleet_set_registered(struct as_fleet_deployment *d);
/* Not inside core: the deployment, which nobody serves, goes now. Its place is free. */
void as_fleet_remove_deployment(struct as_fleet_deployment *d);
void as_fleet_cleanup(struct as_task *t); /* those whose time is over */
void as_fleet_free_models(struct as_fleet_deployment *d);
/* Nobody has it yet, before anybody hears that there is such a model. */
void as_fleet_mark_unserved(struct as_fleet_deployment *d, uint32_t model);
/* The place of a model that has gone, of which nothing is left: of those the one that went first.
 * AS_DEPLOYMENT_MODELS_MAX: there is none. */
uint32_t as_fleet_find_free_place(const struct as_fleet_deployment *d);
/* Who serves what may have changed: models that nobody has and nobody will bring are unknown after
 * this turn. Nobody will when all processes have registered that are there to stay, and the last
 * one that had the model is asked to end; if it has died instead, the fleet's grace time is waited
 * for, since it may come again. */
void as_fleet_schedule_cleanup(struct as_fleet_deployment *d);
void as_fleet_drop_unserved_models(
    struct as_fleet_deployment *d); /* the same, now; not inside core */
/* The upstream has let go of c, whose verdict is set: core takes it back, or the client gets it.
 * t: what the worker measured; retry: as_replica_done. */
void as_fleet_finish_call(struct as_upstream *u, struct as_call *c, struct as_model_times t,
                          bool retry);
/* The upstream has lost c, which its worker may have begun: as_replica_lose_request. */
void as_fleet_lose_call(struct as_upstream *u, struct as_call *c, enum as_loss loss);
void as_fleet_report_ready(struct as_link *l);
void as_fleet_close_listener(struct as_fleet *f);
void as_fleet_resume_listener(
    struct as_fleet *f); /* again, should it rest for want of descriptors */
void as_fleet_answer_call(
    struct as_call *c); /* verdict is set: on_answer on its loop, then on_release */
/* A part for its receiver; consumes heap parts, and those of other loops must be. */
void as_fleet_deliver_part(struct as_call *c, struct as_part *p);
void as_call_init_parts(struct as_call *c);      /* at submit */
void as_call_letter_returned(struct as_call *c); /* home loop: one of c->posted */
void as_call_release_input(struct as_call *c);   /* the one that waits, sent or not */

#endif
