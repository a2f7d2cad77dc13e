/* link/fleet/fleet_deployment.h — what the fleet stores for each deployment. Private to src/link.
 *
 * Beside core's deployment (queue, replicas) that is: names and limits of its models, the deadline
 * timer, the flags that other threads read, and the processes that the supervisor has announced.
 * Thread: the dispatch loop, except for the atomic flags.
 */
#ifndef AS_LINK_FLEET_DEPLOYMENT_H
#define AS_LINK_FLEET_DEPLOYMENT_H

#include "base/buf.h"
#include "core/queue/model_stat.h"
#include "io/loop/death_watch.h"
#include "link/call/call_graph.h"
#include "link/call/route_key.h"
#include "link/fleet/fleet.h"
#include "link/fleet/unknown_peer.h"
#include "link/plugin/plugin.h"
#include "wire/frame/frame_router.h"

struct as_upstream;
struct as_policy;

#define AS_FLEET_DEPLOYMENTS_MAX 1024u
/* A deployment's number: the low bits are its place in the table, the others count the deployments
 * that had this place before. So the number of a removed deployment never names another one. */
static_assert(AS_FLEET_DEPLOYMENTS_MAX == AS_CALL_GRAPH_NODES, "a node is a place");
#define AS_FLEET_DEPLOYMENT_PLACE(number) ((number) & (AS_FLEET_DEPLOYMENTS_MAX - 1))

/* A model's index within its deployment is made in the same way; core and workers know the model by
 * its place only. */
#define AS_FLEET_MODEL_PLACE(index) ((index) & (AS_DEPLOYMENT_MODELS_MAX - 1))
static_assert((AS_DEPLOYMENT_MODELS_MAX & (AS_DEPLOYMENT_MODELS_MAX - 1)) == 0, "places are bits");

struct as_fleet_model {
    char *name, *version;
    uint32_t index;
    uint32_t max_ongoing;
    struct as_batch_conf batching;
    as_ns unserved_since; /* since when no worker that stays serves it; AS_NEVER: one does; 0: its
                           * last worker was asked to end */
    bool opaque;          /* a target of calls: not in the registry */
    bool http;            /* … and of requests of HTTP; as registered last */
    bool idempotent;      /* as registered last */
    bool declared;  /* known from a record or from code: no worker has registered it here yet */
    bool awaited;   /* … and no former dispatcher has had one, as far as is known */
    bool recorded;  /* on_record has told it, and the owner keeps it */
    bool gone;      /* removed from the registry: its place may be used again … */
    uint64_t order; /* … in the order in which models were removed */
    struct as_model_stat stat;
};

#define AS_FLEET_ROUTER_OUTCOMES 9u

enum as_fleet_idempotent {
    AS_FLEET_AS_REGISTERED,
    AS_FLEET_IDEMPOTENT,
    AS_FLEET_NOT_IDEMPOTENT,
};

/* What OPTIONS say of the deployment: those of its workers, or of the controller before one has
 * come. */
struct as_fleet_options {
    as_ns request_timeout; /* deadline of requests that have none of their own; 0: none */
    enum as_fleet_idempotent idempotent; /* for all its models */
    int64_t max_queued;                  /* 0: as registered; -1: no limit */
    uint32_t share;                      /* of priorities; 0: AS_SHARE_DEFAULT */
    uint32_t fairness;                   /* enum as_frame_fair; 0: none */
    struct as_codel_conf codel;          /* an interval of 0: AS_CODEL_INTERVAL */
    as_ns slow_start;                    /* 0: off */
    bool adaptive;
    struct as_hedging_conf hedging;      /* 0: the default; min_delay AS_NEVER: none */
    bool per_caller;                     /* the limit holds for each caller apart */
    struct as_backpressure backpressure; /* how a client is refused when the queue is full */
};

/* request_timeout: for OPTIONS that set none. */
struct as_fleet_options as_fleet_options_of(const struct as_frame_options *o,
                                            as_ns request_timeout);

/* Whether, and when, the owner is told what a deployment has to do (as_fleet_count). */
struct as_fleet_counting {
    bool on, times, stats;
    bool none_wanted; /* its target number of replicas is 0 */
    bool was_loaded;  /* what was told last were some requests */
    as_ns interval, last;
    as_ns due; /* when it is told next; AS_NEVER: nothing has changed */
};

/* One place of the table. It is allocated once and freed with the fleet, since other threads read
 * its flags by a number from an older snapshot. A deployment of workers that we have not started is
 * removed when they are gone, and its place is used again. */
struct as_fleet_deployment {
    struct as_fleet *fleet;
    char *name;                 /* its id (base/id.h); NULL: the place is free */
    struct as_deployment *core; /* NULL until a worker has registered a model */
    uint32_t number;
    uint32_t n_upstreams;
    as_ns last_served;    /* when it last had a worker that was not asked to leave; 0: never */
    as_ns unserved_since; /* since when it has no upstream; AS_NEVER: it has one */
    bool deleted;         /* its models are unknown to clients … */
    bool gone;          /* … and none of our processes is left: removed with its last upstream */
    int64_t max_queued; /* from the registrations; those of the options count more */
    struct as_fleet_options options;
    bool declared;             /* known from records: no worker has registered a model here yet */
    bool incomplete;           /* a model of it could not be recorded */
    struct as_buf settings;    /* as they were recorded last */
    struct as_traffic traffic; /* as its workers declare; owns the text */
    struct as_service_set *services; /* likewise: gRPC services of the user; NULL: none */
    struct as_frame_router router;   /* how replicas are chosen, as its workers declare */
    uint64_t exits[AS_FLEET_EXITS];  /* how its processes ended */
    struct as_fleet_model *models;
    uint32_t n_models;
    uint64_t n_gone;       /* models that were removed so far */
    struct as_timer timer; /* the next deadline */
    struct as_task work;   /* runs as_deployment_work in the next turn */
    struct as_payload_hasher hash;
    struct as_fleet_counting counting;
    struct as_plugin_use plugin; /* a router in C, of --router-plugin */
    struct as_policy *policy;    /* a router of the user's own; NULL: none has been ready so far */
    uint64_t router_outcomes[AS_FLEET_ROUTER_OUTCOMES]; /* by enum as_policy_outcome */
    _Atomic uint64_t call_target; /* hash of the name that as_fleet_is_call_target knows; 0: none */
    atomic_bool down;
    atomic_bool expected;   /* one of our processes serves it, or will */
    atomic_bool registered; /* its models are known */
    atomic_bool late;       /* announced after the server was ready, which does not wait for it */
    atomic_bool ready;
    atomic_bool asleep; /* autoscaling wants no replica now, and starts one for a request */
};

/* A process that the supervisor has started; its worker connects with the token. */
struct as_fleet_process {
    struct as_list node;
    char *token, *replica, *deployment;
    struct as_upstream *up;        /* its connection, or NULL */
    bool retiring;                 /* it gets no new requests, whatever link it has */
    enum as_fleet_exit kill_cause; /* why we have it killed; AS_FLEET_EXITS: we do not */
    enum as_loss loss;   /* why it died, when the supervisor says; until then AS_LOSS_PENDING */
    uint64_t verdict_id; /* core waits for `loss` under this id, in deployment `number`; 0: it does
                          * not */
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
    struct as_list upstreams, processes, clients;
    struct as_list free_hedges; /* struct as_call for second executions that are not in use */
    struct as_simple_registry *simple; /* workers of the simple protocol; NULL: none so far */
    struct as_call_graph calls;        /* which deployment calls which */
    struct as_call_owner
        clients_calls;   /* of the clients of the server's protocols, as one caller */
    struct as_mbox *box; /* the dispatch loop's mailbox */
    char *join_token, *driver_token;
    struct as_fleet_client callers; /* submits what workers and drivers call; it has no mailbox */
    struct as_budget *call_requests, *call_answers; /* for their bodies; NULL: no limit */
    uint64_t payloads_refused[AS_FLEET_REFUSED_KINDS];
    struct as_log_ratelimit refused_log[AS_FLEET_REFUSED_KINDS];
    struct as_registry *registry;
    struct as_routes *routes;
    struct as_death_watch *death_watch; /* NULL: the kernel has none, pidfd is used */
    uv_poll_t *listener;
    int listen_fd;
    struct as_timer tick;       /* pings */
    struct as_timer load_timer; /* the next as_fleet_ops.on_load */
    struct as_timer trim;       /* returns memory that is not used */
    struct as_task cleanup;     /* removes deployments and models that are due */
    struct as_list end_reports; /* links whose end is still to be logged and reported */
    struct as_unknown_peer unknown_peer;
    struct as_log_ratelimit accept_log; /* for lines about accept without descriptors */
    struct as_rand rand;                /* for jitter */
    uint64_t epoch;                     /* of the newest link */
    /* Epoch of the newest registration of a simple worker. It starts with the time since boot in
     * us, so that it is above all epochs that earlier dispatchers have given. */
    uint64_t simple_epoch;
    uint32_t policies, policy_numbers; /* how many there were, and numbers of replicas in them */
    uint32_t unanswered;
    uint32_t awaited_calls; /* of workers and drivers */
    uint32_t drivers_here;  /* drivers that may make further calls here … */
    bool hands_over;        /* … which they do not when they have moved: as_fleet_hand_over */
    bool refuses_callers;   /* … unless a request has made them: as_fleet_refuse_callers */
    bool ends_with_calls;   /* as_fleet_await_calls */
    struct as_task calls_done;
    bool draining;
    atomic_bool accepting; /* workers are accepted: all deployments of ours are announced */
    atomic_bool aborted;   /* as_fleet_abort */
};

/* Client loops read the flags at any time; they order no other memory. */
static inline bool as_fleet_flag(const atomic_bool *flag)
{
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static inline void as_fleet_set_flag(atomic_bool *flag, bool v)
{
    atomic_store_explicit(flag, v, memory_order_relaxed);
}

/* The deployment of that number; NULL: it was removed. */
static inline struct as_fleet_deployment *as_fleet_deployment_by_number(const struct as_fleet *f,
                                                                        uint32_t number)
{
    struct as_fleet_deployment *d = f->deploys[AS_FLEET_DEPLOYMENT_PLACE(number)];

    return d && d->number == number ? d : NULL;
}

/* The model with that index, which may come from an older snapshot; NULL: it was removed. */
static inline struct as_fleet_model *as_fleet_find_model(const struct as_fleet_deployment *d,
                                                         uint32_t index)
{
    uint32_t place = AS_FLEET_MODEL_PLACE(index);

    return place < d->n_models && d->models[place].index == index ? &d->models[place] : NULL;
}

/* Callbacks of core's deployment; their ctx is the as_fleet_deployment. */
extern const struct as_deployment_ops as_fleet_deployment_ops;
/* Three of them, in fleet_deployment.c. */
uint64_t as_fleet_hash_sample(void *ctx, const struct as_request *q, uint64_t *ret_sample);
bool as_fleet_fingerprint(void *ctx, const struct as_request *q, bool first, uint64_t *bytes,
                          struct as_fingerprint *ret_p);
void as_fleet_schedule_work(void *ctx);

/* Counts a refusal, and logs it, at most one line a second for each kind. name: of the replica or
 * driver; "": not known. */
void as_fleet_refuse_payload(struct as_fleet *f, enum as_fleet_refused why, const char *name,
                             uint32_t pid);
/* The deployment has its target of calls, or has it no more: for as_fleet_is_call_target. */
void as_fleet_note_call_target(struct as_fleet_deployment *d);

struct as_fleet_process *as_fleet_find_process(struct as_fleet *f, struct as_str token);

/* --- deployments and their models --- */

/* NULL: there is none of that name. */
struct as_fleet_deployment *as_fleet_find_deployment(const struct as_fleet *f, struct as_str name);
/* The same, but adds it if it is new; NULL: there are too many. */
struct as_fleet_deployment *as_fleet_get_deployment(struct as_fleet *f, struct as_str name);
/* Registers a model for a worker. The first registration creates core's deployment with its
 * options; later ones must have the same max_queued. Slots are each replica's own.
 * *ret_target: the number by which OPEN frames name the model. 0, AS_EEXISTS, or AS_EINVALID with a
 * reason in *ret_why. */
int as_fleet_register_model(struct as_fleet_deployment *d, const struct as_frame_register *r,
                            uint32_t *ret_target, const char **ret_why);
/* The same for a model that a record names: nothing happens if a worker has registered it.
 * recorded: the owner keeps it as a worker's. */
int as_fleet_declare_model(struct as_fleet_deployment *d, const struct as_frame_register *r,
                           bool recorded, const char **ret_why);
/* The target of calls that the deployment has; NULL: none. It stays until its place is used again.
 */
struct as_fleet_model *as_fleet_call_target(const struct as_fleet_deployment *d);
/* Gives the snapshot to every client loop if it is a new one; takes over the reference. */
void as_fleet_publish(struct as_fleet *f, struct as_registry *g);
/* Gives out the same snapshot again, since readiness or models_pending has changed. */
void as_fleet_republish(struct as_fleet *f);
/* Canary, mirror and fallback, as its workers declare; published if they have changed. The fallback
 * is a name of the same application, or an id. */
void as_fleet_set_traffic(struct as_fleet_deployment *d, const struct as_traffic *said);
/* The gRPC services of the user that it serves, as its workers declare; NULL: none. Published if
 * they have changed. */
void as_fleet_set_services(struct as_fleet_deployment *d, struct as_service_set *set);
/* Makes a set of a frame SERVICES. 0; AS_EPROTO with a reason; AS_ENOMEM. */
int as_fleet_read_services(const struct as_frame *frame, struct as_service_set **ret_set,
                           const char **ret_why);
void as_fleet_put_services(const struct as_service_set *set, struct as_outq *q);
void as_fleet_set_options(struct as_fleet_deployment *d, const struct as_fleet_options *o);

/* --- how replicas are chosen: fleet_router.c --- */

/* Begins with the router in C of d, if there is one and it has not begun yet. */
void as_fleet_begin_plugin(struct as_fleet_deployment *d);
/* Frees what belongs to routers of the user's own; core is gone. */
void as_fleet_free_router(struct as_fleet_deployment *d);
/* Puts c to the router of the user's own: as as_deployment_ops.ask. */
bool as_fleet_ask_router(struct as_fleet_deployment *d, struct as_call *c,
                         struct as_router_choice *ret);
/* c was sent to u; it has ended there, or comes back from there. For routers of the user's own. */
void as_fleet_note_sent(struct as_upstream *u, struct as_call *c);
void as_fleet_note_ended(struct as_upstream *u, struct as_call *c);
/* u ends, with all that was sent to it. To be called before core is told. died: its process has. */
void as_fleet_note_upstream_end(struct as_upstream *u, bool died);
/* The settings of the deployment, else those of the server; and whether a router of the user's own
 * is asked. */
struct as_router_conf as_fleet_router_conf(const struct as_fleet_deployment *d);
/* How its workers want replicas to be chosen. A policy that is not known is logged, and the
 * server's is used. */
void as_fleet_set_router(struct as_fleet_deployment *d, const struct as_frame_router *said);
/* The model and the session that a request for d names. */
struct as_route_ids as_fleet_find_ids(const struct as_fleet_deployment *d,
                                      const struct as_payload *p);
/* Sets the keys of a request's model and session, as its payload names them. */
void as_fleet_set_keys(const struct as_fleet_deployment *d, struct as_call *c);
/* models: a checked report of multiplexed models, of which the last as_fleet_conf.max_models count.
 * Returns how many it has; 0: out of memory. */
uint32_t as_fleet_set_held(const struct as_fleet_deployment *d, struct as_replica *r,
                           struct as_str models);
/* Before the replica's first slots. Its name has its number, so that a process that replaces
 * another one has the same place on a ring of hashes. */
void as_fleet_set_place(struct as_replica *r, struct as_str name);

/* Updates `ready` after a replica was added, removed or drained. d may be NULL. */
void as_fleet_update_ready(struct as_fleet_deployment *d);
/* Counts the deployment's upstreams. since: until when the upstream served; 0: it will not come
 * back. A deployment without our processes is removed after its last upstream: when the fleet's
 * grace time has passed since one served that may come back, else at the end of this turn. */
void as_fleet_add_upstream(struct as_fleet_deployment *d);
void as_fleet_remove_upstream(struct as_fleet_deployment *d, as_ns since);
/* A worker of it serves: from now on its models are known to clients, and the server is not ready
 * without it. */
void as_fleet_set_registered(struct as_fleet_deployment *d);
/* Whether its models are known; one that it does not have is unknown then. */
void as_fleet_set_known(struct as_fleet_deployment *d, bool known);
/* Removes a deployment that nobody serves; its place is free then. Not to be called from a callback
 * of core. */
void as_fleet_remove_deployment(struct as_fleet_deployment *d);
void as_fleet_free_models(struct as_fleet_deployment *d);
/* Tells core that no replica serves this new model yet. */
void as_fleet_mark_unserved(struct as_fleet_deployment *d, uint32_t model);
/* The place of a removed model that no worker and no request refers to any more; of several, the
 * one that was removed first. AS_DEPLOYMENT_MODELS_MAX: there is none. */
uint32_t as_fleet_find_free_place(const struct as_fleet_deployment *d);
/* To be called when a worker has registered, retires or is gone: at the end of this turn models are
 * removed that no worker serves or will serve. That is certain when all processes that stay have
 * registered and the last worker of the model was asked to end; if that worker died, it may come
 * again, and the fleet's grace time must have passed. */
void as_fleet_schedule_cleanup(struct as_fleet_deployment *d);
/* The same, now. Not to be called from a callback of core. */
void as_fleet_drop_unserved_models(struct as_fleet_deployment *d);
void as_fleet_cleanup(struct as_task *t); /* removes all deployments and models that are due */

/* Its models become unknown, and what waits for it is refused. */
void as_fleet_drop_model(struct as_fleet_deployment *d, uint32_t model);

/* --- counts for autoscaling: fleet_load.c --- */

void as_fleet_load_changed(struct as_fleet_deployment *d);
/* To be called when a request of d was accepted or has ended, or a replica has come or gone. */
static inline void as_fleet_note_load(struct as_fleet_deployment *d)
{
    if (__builtin_expect(d->counting.on, 0))
        as_fleet_load_changed(d);
}
void as_fleet_on_load_timer(struct as_timer *t);
struct as_upstream;
void as_fleet_stats_changed(struct as_upstream *u);

/* --- records: what the next dispatcher is told; each says only what is new --- */

void as_fleet_record_model(struct as_fleet_deployment *d, uint32_t model,
                           const struct as_frame_register *r);
void as_fleet_record_gone(struct as_fleet_deployment *d, uint32_t model);
void as_fleet_record_settings(struct as_fleet_deployment *d);
/* The owner has forgotten what was recorded. */
void as_fleet_forget_records(struct as_fleet_deployment *d);

/* --- calls --- */

void as_call_note_answer(struct as_call *c); /* its caller has its answer */
void as_fleet_report_calls_done(struct as_task *t);
void as_fleet_check_calls_done(struct as_fleet *f); /* to be called when that may be so */
void as_fleet_note_driver_moved(struct as_fleet *f);

/* The worker has ended c, and its outcome is set: core queues it again (retry: as_replica_done), or
 * the client gets the outcome. t: times that the worker measured. */
void as_fleet_finish_call(struct as_upstream *u, struct as_call *c, struct as_model_times t,
                          bool retry);
/* The worker was lost with c, and may have started it: as_replica_lose_request. */
void as_fleet_lose_call(struct as_upstream *u, struct as_call *c, enum as_loss loss);
/* Its outcome is set: calls on_answer and then on_release on the home loop. */
void as_fleet_answer_call(struct as_call *c);
/* Core has answered c, or will not use it any more. c may be the second execution of a call: then
 * the call gets the answer, and is released when both of its executions are. */
void as_fleet_answer_with_error(struct as_call *c, const struct as_fleet_deployment *d, int err);
void as_fleet_release_call(struct as_call *c);
/* as_deployment_ops.hedge. */
struct as_request *as_fleet_hedge(void *ctx, struct as_request *q);
void as_fleet_free_hedges(struct as_fleet *f);
/* Calls on_part on the home loop and frees p, which is from malloc. */
void as_fleet_deliver_part(struct as_call *c, struct as_part *p);
/* For a websocket that was accepted: a close of the server's own (link/fleet/call_stream.h). */
#define AS_FLEET_CLOSE_RESTART 1012u
void as_fleet_deliver_close(struct as_call *c, uint16_t code);
/* The worker is to end: closes all websockets that it has accepted. */
void as_fleet_close_websockets(struct as_upstream *u);
void as_call_init_stream(struct as_call *c);     /* at submit */
void as_call_letter_returned(struct as_call *c); /* home loop: one of c->letters_out is back */
/* Releases s->input, if there is one. */
void as_call_release_input(struct as_call_stream *s);

/* --- workers --- */

void as_fleet_report_ready(struct as_upstream *u); /* to the owner, by on_ready */
void as_fleet_close_listener(struct as_fleet *f);
/* Accepts again, if that was paused for lack of descriptors. */
void as_fleet_resume_listener(struct as_fleet *f);

#endif
