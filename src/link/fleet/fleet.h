/* link/fleet/fleet.h — all deployments, the connections to their workers, and the API for clients.
 *
 * The fleet lives on one loop, the dispatch loop, which owns every queue and every connection to a
 * worker: so counts are exact without locks. Client loops submit calls through a handle of their
 * own (struct as_fleet_client): directly if it is the same loop, else by mailbox. The registry of
 * models is an immutable snapshot that every client loop gets when it changes. Unless a comment
 * says otherwise, functions are called on the dispatch loop.
 *
 * "Our processes" are workers that the supervisor has started and that the fleet knows by their
 * tokens. Other workers connect by themselves.
 */
#ifndef AS_LINK_FLEET_H
#define AS_LINK_FLEET_H

#include "base/log.h"
#include "core/dispatch/deployment.h"
#include "core/queue/model_stat.h"
#include "core/registry/registry.h"
#include "link/fleet/call.h"

struct as_fleet;

struct as_fleet_conf {
    /* Of each deployment; max_queued: of those that set none. The seed is also that of the fleet.
     */
    struct as_deployment_conf deployment;
    uint32_t max_prefetch;
    as_ns ping_interval, ping_timeout, handshake_timeout;
    /* Defaults; a worker may set its own (OPTIONS). 0: no limit, except for health_timeout. */
    as_ns health_period, health_timeout, execution_timeout, request_timeout;
    uint32_t health_failures; /* in a row, after which one of our processes is killed */
    as_ns grace; /* how long a deployment without our processes outlives its last worker */
    /* Simple workers: the folder that their sockets must be in, borrowed. NULL: none may register.
     */
    const char *worker_dir;
    as_ns heartbeat_timeout;      /* longest time between two of their heartbeats; 0: any */
    as_ns simple_idle;            /* an idle connection is closed after this time; 0: never */
    as_ns simple_connect;         /* how long to retry connect while their backlog is full */
    uint64_t max_message;         /* bytes of one answer's body */
    uint64_t max_body;            /* bytes of one request's body: what a worker must accept */
    struct as_frame_window parts; /* how far a streamed answer may run ahead of its client */
    uint32_t call_credit;         /* calls that one request of a worker may have open at once … */
    uint64_t call_credit_bytes;   /* … and the bytes of these */
    uint32_t max_report;          /* bytes of a REPORT that is kept */
    uint32_t max_models;          /* of a REPORT of models, how many count: the last ones */
    uint32_t max_stats;           /* values of one with statistics for autoscaling … */
    uint32_t max_stats_bytes;     /* … and its bytes */
};

/* Why a process of ours ended: what the supervisor saw, or why the fleet had it killed. */
#define AS_FLEET_EXIT_TABLE(X)                                                                     \
    X(CODE, "exit")           /* by itself, with an exit code */                                   \
    X(CRASH, "crash")         /* by SIGSEGV and its like */                                        \
    X(KILLED, "killed")       /* by a signal from outside, or was not ready in time */             \
    X(OOM, "oom")             /* out of memory */                                                  \
    X(STOPPED, "stopped")     /* it was asked to stop */                                           \
    X(HUNG, "hung")           /* a handler ran for longer than the execution timeout */            \
    X(UNHEALTHY, "unhealthy") /* health checks failed */                                           \
    X(SILENT, "silent")       /* it did not answer a ping */                                       \
    X(PROTOCOL, "protocol")   /* it broke the rules of the link */

enum as_fleet_exit {
#define X(name, text) AS_FLEET_EXIT_##name,
    AS_FLEET_EXIT_TABLE(X)
#undef X
        AS_FLEET_EXITS
};
const char *as_fleet_exit_name(uint32_t why); /* NULL: no such value */

/* From where the body of a call was offered and refused: it may be pickled, so only processes with
 * a token of ours, and drivers, may send or take one. */
#define AS_FLEET_REFUSED_TABLE(X)                                                                  \
    X(REGISTER, "join_token_register") /* a worker with the join token registers for calls */      \
    X(CALL, "join_token_call")         /* it makes a call */                                       \
    X(USER, "link_other_user")         /* a process of another user connects */                    \
    X(TOKEN, "link_no_token")          /* a driver without the driver's token */

enum as_fleet_refused {
#define X(name, text) AS_FLEET_REFUSED_##name,
    AS_FLEET_REFUSED_TABLE(X)
#undef X
        AS_FLEET_REFUSED_KINDS
};
const char *as_fleet_refused_name(enum as_fleet_refused why); /* NULL: no such value */
uint64_t as_fleet_refused_payloads(const struct as_fleet *f, enum as_fleet_refused why);
/* Is this the name that a model of a deployment with a target of calls would have: NAME, or
 * APPLICATION.NAME where the application is not AS_ID_DEFAULT? Any thread. */
bool as_fleet_is_call_target(const struct as_fleet *f, struct as_str model);

/* What another dispatcher must know about a deployment of our processes before a worker of it
 * connects: one of its models, or its settings. The bytes are frames of the link, as a worker sends
 * them (docs/protocol/link.md), so that a version reads what it reads of workers. */
struct as_fleet_record {
    struct as_str deployment;
    struct as_str model;  /* "NAME:VERSION"; empty: `frames` are the settings */
    struct as_str frames; /* REGISTER, or OPTIONS, TRAFFIC, ROUTER, SERVICES; empty: no worker has
                             the model now */
    bool whole;           /* settings: every model that it has now was recorded */
    bool declared; /* for as_fleet_restore: by its code, and no worker has registered it yet */
};

/* What a deployment has to do, for autoscaling. */
struct as_fleet_load {
    struct as_str deployment;
    struct as_deployment *core; /* NULL: it has no queue yet */
    uint32_t queued;            /* requests that wait, at their replicas, too */
    uint32_t ongoing;           /* requests that are executed */
    bool times, stats;          /* what as_fleet_count asked for */
};

/* Callbacks to the owner of the fleet, on the dispatch loop. */
struct as_fleet_ops {
    /* A worker has slots now; models: "NAME:VERSION NAME:VERSION …". */
    void (*on_ready)(void *ctx, struct as_str replica, struct as_str token, struct as_str models);
    /* Its connection has ended. */
    void (*on_gone)(void *ctx, struct as_str replica, struct as_str token, struct as_str reason);
    /* One of our workers hangs or broke the protocol: kill its process. */
    void (*on_kill)(void *ctx, struct as_str replica, struct as_str token, struct as_str reason);
    /* After as_fleet_retire_process: all its requests are answered, or its link has ended. */
    void (*on_retired)(void *ctx, struct as_str replica, struct as_str token);
    /* The result of as_fleet_send_control: 0, or AS_E… with the reason in text (AS_EHANDLER: the
     * worker refused, and the text is the worker's). */
    void (*on_answer)(void *ctx, struct as_str replica, struct as_str token, uint64_t id, int err,
                      struct as_str text);
    /* A worker has said something new about its deployment. False: it cannot be kept. May be NULL.
     */
    bool (*on_record)(void *ctx, const struct as_fleet_record *r);
    /* After as_fleet_await_calls; may be NULL. */
    void (*on_calls_done)(void *ctx);
    /* After as_fleet_confirm. */
    void (*on_confirmed)(void *ctx, uint64_t id);
    /* One of our workers has begun to drain, although neither the fleet drains nor
     * as_fleet_retire_process was called for it. It gets nothing new, and ends when it has answered
     * what it has. */
    void (*on_leaves)(void *ctx, struct as_str replica, struct as_str token);
    /* After as_fleet_count. False: it cannot be told now; comes again after the interval. May be
     * NULL. */
    bool (*on_load)(void *ctx, const struct as_fleet_load *l);
};

int as_fleet_new(struct as_fleet **ret_f, struct as_loop *loop, const struct as_fleet_conf *conf,
                 const struct as_fleet_ops *ops, void *ctx, const struct as_log *log);
/* Ends every link and answers all requests that are left. Client handles must be closed before. */
void as_fleet_free(struct as_fleet *f);
/* Accepts workers from a listening unix socket, which stays the caller's. A second call does
 * nothing. 0 or AS_EIO. */
int as_fleet_listen(struct as_fleet *f, int fd);

/* Announces a deployment of our processes, whether or not one runs now. Until one of them has
 * registered its models, a model that the registry does not know may be one of these. May be
 * repeated. */
void as_fleet_expect_deployment(struct as_fleet *f, struct as_str deployment);
/* Announces one of our processes: it may connect with this token (HELLO). May be repeated. */
void as_fleet_add_process(struct as_fleet *f, struct as_str token, struct as_str replica,
                          struct as_str deployment);
/* That process is dead; `loss` says why (AS_LOSS_UNKNOWN: nobody knows). */
void as_fleet_remove_process(struct as_fleet *f, struct as_str token, enum as_loss loss);
/* Counts how that process ended (kind: an as_exit_kind); called before as_fleet_remove_process. If
 * the fleet had the process killed, the fleet's reason is counted instead. */
void as_fleet_record_exit(struct as_fleet *f, struct as_str token, uint32_t kind);
/* That process gets no new requests any more, over whatever link. on_retired is called as soon as
 * all its requests are answered, which may be at once. May be repeated. */
void as_fleet_retire_process(struct as_fleet *f, struct as_str token);
/* Sends a CONTROL frame to the worker (wire/frame/frame.h; text: at most AS_FRAME_CONTROL_TEXT
 * bytes). on_answer reports the result once, under `id`. A worker takes one at a time (else
 * AS_EFULL) and gets no new requests meanwhile. There is no timeout: the caller sets its own. */
void as_fleet_send_control(struct as_fleet *f, struct as_str token, uint64_t id,
                           enum as_control_op op, struct as_str text);
/* The token for workers that we have not started. */
void as_fleet_set_join_token(struct as_fleet *f, struct as_str token);
/* The token for drivers: programs that only make calls. */
void as_fleet_set_driver_token(struct as_fleet *f, struct as_str token);
/* Where the bodies of calls by workers and drivers, and their answers, are charged; each process
 * has an account. Before the first link; they outlive the fleet. Without this nothing is charged.
 */
void as_fleet_set_budgets(struct as_fleet *f, struct as_budget *requests,
                          struct as_budget *answers);
/* Stops serving a deployment: its models become unknown, queued requests are refused, and those
 * that its workers have are still answered. gone: none of its processes is left, so it may be
 * removed. as_fleet_add_process brings it back. */
void as_fleet_delete_deployment(struct as_fleet *f, struct as_str deployment, bool gone);
/* Takes over what on_record has told of a former dispatcher, or what code declares: the models are
 * known, and wait for replicas. What a worker registers itself counts more; what is declared does
 * not count for a deployment whose workers have registered, or that is deleted. Without frames: the
 * model is not declared any more. 0; AS_EPROTO, or an error of the
 * registration, with the reason in *ret_why. */
int as_fleet_restore(struct as_fleet *f, const struct as_fleet_record *r, const char **ret_why);
/* down: no replica will come (again), so its requests are refused. */
void as_fleet_set_down(struct as_fleet *f, struct as_str deployment, bool down);

/* on: calls on_load for this deployment, soon, and then when a request was accepted or has ended,
 * or a replica has come or gone, at most once in `interval` ns; but at once for the first request
 * of a deployment without a replica. off: no more. */
#define AS_FLEET_COUNT_TIMES 0x1u /* with service times */
#define AS_FLEET_COUNT_STATS 0x2u /* also after new AS_REPORT_AUTOSCALING: as_fleet_each_stats */
void as_fleet_count(struct as_fleet *f, struct as_str deployment, bool on, unsigned what,
                    as_ns interval);
/* Its target number of replicas. A deployment that is counted and is to have none is ready: a
 * request starts a replica. */
void as_fleet_set_wanted(struct as_fleet *f, struct as_str deployment, uint32_t replicas);
/* Calls fn for each of its replicas that stays: the requests that it has. */
void as_fleet_each_load(struct as_fleet *f, struct as_str deployment,
                        void (*fn)(void *arg, struct as_str replica, uint32_t requests), void *arg);

#define AS_FLEET_STATS_MAX                                                                         \
    (32u << 10) /* bytes of text: the bound of as_fleet_conf.max_stats_bytes */
struct as_fleet_stats {
    struct as_str replica, token, text; /* text: its last AS_REPORT_AUTOSCALING, checked */
    as_ns at;                           /* when it came; Unix time */
};
/* For on_load of a count with AS_FLEET_COUNT_STATS: calls fn for each replica that has reported
 * since it was called last (after as_fleet_count: for all that have). fn returns false to be called
 * again for this one and the others in the next on_load; then this returns false. */
bool as_fleet_each_stats(struct as_fleet *f, struct as_str deployment,
                         bool (*fn)(void *arg, const struct as_fleet_stats *s), void *arg);

/* Requests of HTTP below this prefix go to the deployment (an id); "": none do. What another
 * deployment had below the same prefix is its no more. False: the prefix is malformed, or there are
 * too many routes (core/registry/routes.h). */
bool as_fleet_set_route(struct as_fleet *f, struct as_str deployment, struct as_str prefix);

/* Calls on_confirmed with this id, which may be at once, when every client loop has the models and
 * routes that there are now. */
void as_fleet_confirm(struct as_fleet *f, uint64_t id);

/* Whether workers are accepted and every deployment of our processes has a replica with slots.
 * Deployments of other workers do not count. */
bool as_fleet_ready(const struct as_fleet *f);                                 /* any thread */
bool as_fleet_deployment_ready(const struct as_fleet *f, uint32_t deployment); /* any thread */
bool as_fleet_deployment_down(const struct as_fleet *f, uint32_t deployment);  /* any thread */
uint32_t as_fleet_unanswered(const struct as_fleet *f); /* requests that are not released yet */
/* For a drain. Calls that workers and drivers make are refused from now on, except those that an
 * accepted request makes. */
void as_fleet_refuse_callers(struct as_fleet *f);
/* on_calls_done is called once, in a later turn, when no worker and no driver awaits a call, and
 * after as_fleet_hand_over when also each driver makes its further calls to the other dispatcher.
 */
void as_fleet_await_calls(struct as_fleet *f);
/* Refuses new requests and sends DRAIN to all workers; accepted requests are still answered. */
void as_fleet_drain(struct as_fleet *f);

/* Another dispatcher takes over: accepts no more workers, and tells those that can serve two
 * dispatchers to connect there as well; they go on serving us. *ret_foreign: how many workers are
 * not our processes. False: some workers can move only when their link here has ended. */
bool as_fleet_hand_over(struct as_fleet *f, uint32_t *ret_foreign);

/* Ends every link at once, accepts no more workers, and answers all requests: those that may have
 * executed with AS_EMAYHAVERUN, the others and all later ones with AS_EUNAVAILABLE. */
void as_fleet_abort(struct as_fleet *f);
bool as_fleet_is_aborted(const struct as_fleet *f); /* any thread */

/* Ends every link at once; the requests that workers have are answered and released. */
void as_fleet_stop(struct as_fleet *f);

/* For the status page; dispatch loop only. */
struct as_fleet_replica {
    struct as_str name, deployment, state; /* "ready", "draining", "starting", "lost" */
    struct as_str kind;                    /* "native", "simple" */
    uint32_t pid, slots, ongoing, beyond, unanswered;
    uint32_t models; /* multiplexed ones that it holds or loads */
    enum as_breaker_state breaker;
    as_ns service;
    uint64_t epoch;
    /* simple workers only: address, open connections, last heartbeat */
    struct as_str address;
    uint32_t connections;
    as_ns heard;
    struct as_page_stat worker;           /* what the worker counts itself; zeros if it does not */
    struct as_str reports[AS_REPORT_END]; /* its last REPORT of each kind, checked; may be empty */
    uint32_t calls;                       /* calls of its own that are open */
};
void as_fleet_each_replica(struct as_fleet *f,
                           void (*fn)(void *arg, const struct as_fleet_replica *r), void *arg);
/* A program that makes calls and serves nothing. */
struct as_fleet_driver {
    struct as_str name, peer; /* peer: what it says it is */
    uint32_t pid, calls;      /* calls: that are open */
    uint64_t epoch;
};
void as_fleet_each_driver(struct as_fleet *f,
                          void (*fn)(void *arg, const struct as_fleet_driver *d), void *arg);
void as_fleet_each_deployment(struct as_fleet *f,
                              void (*fn)(void *arg, struct as_deployment *d, bool down), void *arg);
/* counts: how many processes of a deployment have ended, by enum as_fleet_exit. */
void as_fleet_each_exits(struct as_fleet *f,
                         void (*fn)(void *arg, struct as_str deployment, const uint64_t *counts),
                         void *arg);
/* Deployments that have or had a router of the user's own. counts: how the questions to it have
 * ended (link/fleet/policy/policy.h); names: of these, with NULL behind the last. */
void as_fleet_each_router(struct as_fleet *f,
                          void (*fn)(void *arg, struct as_str deployment, const uint64_t *counts,
                                     const char *const *names),
                          void *arg);
/* Those with gRPC services of the user. */
void as_fleet_each_services(struct as_fleet *f,
                            void (*fn)(void *arg, struct as_str deployment,
                                       const struct as_service_set *set),
                            void *arg);
const struct as_routes *as_fleet_routes(const struct as_fleet *f); /* borrowed; dispatch loop */
struct as_registry *as_fleet_registry(const struct as_fleet *f);   /* borrowed; dispatch loop */
/* The statistics of one model, by its numbers in the registry. NULL: it is gone. */
const struct as_model_stat *as_fleet_model_stat(const struct as_fleet *f, uint32_t deployment,
                                                uint32_t model);
struct as_fleet_model_row {
    struct as_str deployment, name, version;
    const struct as_model_stat *stat;
};
void as_fleet_each_model(struct as_fleet *f,
                         void (*fn)(void *arg, const struct as_fleet_model_row *m), void *arg);
/* loaded: whether new requests for the model (all its versions) are accepted. Accepted ones go on.
 * 0 or AS_ENOTFOUND. */
int as_fleet_set_loaded(struct as_fleet *f, struct as_str model, bool loaded);

/* as_request.tenant of that name; 0: it is empty. Any thread. */
uint64_t as_fleet_tenant_key(const struct as_fleet *f, struct as_str name);

/* One client loop's handle. */
struct as_fleet_client {
    struct as_fleet *fleet;
    struct as_loop *loop;
    bool local; /* it is on the dispatch loop: nothing goes by mailbox */
    struct as_mbox box;
    uint64_t kind_seed;           /* of as_payload_batch_key */
    struct as_registry *registry; /* this loop's snapshot; ref it to keep pointers into it */
    struct as_routes *routes;     /* likewise */
    bool models_pending; /* one of our deployments has not registered its models yet: a model that
                          * `registry` does not know may be one of them */
    void (*on_registry)(struct as_fleet_client *c); /* a new snapshot, or a deployment's readiness
                                                     * has changed; may be NULL */
    struct as_list node;
};
/* Called on the dispatch loop's thread, before the client loop runs. */
int as_fleet_client_open(struct as_fleet_client *c, struct as_fleet *f, struct as_loop *loop);
void as_fleet_client_close(struct as_fleet_client *c); /* every call must be released */

/* --- on the client loop --- */

/* The message must fit a frame (wire/frame/frame.h, AS_FRAME_TABLE). The outcome, a refusal as well
 * (queue full, deployment down, deadline), comes by on_answer and on_release; both may be called
 * before this returns. */
void as_fleet_client_submit(struct as_fleet_client *c, struct as_call *call);
/* The client has gone: on_answer is not called any more, on_release still is. At most once for each
 * call, and not after on_release. */
void as_fleet_client_cancel(struct as_fleet_client *c, struct as_call *call);
/* For a call that has reserved a slot (as_call.on_reserved), of a local client: it is sent there
 * now. Before this its payload, stream and core.deadline_then may be changed. Its end comes by
 * on_answer and on_release, as after submitting. */
void as_fleet_client_use_slot(struct as_fleet_client *c, struct as_call *call);

/* For streamed calls: the client has consumed so much, and the worker may send as much more.
 * Any time between submit and on_release. */
void as_fleet_client_credit(struct as_fleet_client *c, struct as_call *call, uint32_t messages,
                            uint64_t bytes);
/* For calls that take inputs: sends one more. The fleet owns it until in->on_release, which may be
 * called before this returns. One at a time. An input that comes too late is released without being
 * sent. */
void as_fleet_client_input(struct as_fleet_client *c, struct as_call *call, struct as_input *in);
/* There is no further input. Once for each call, and not while an input is under way. */
void as_fleet_client_input_end(struct as_fleet_client *c, struct as_call *call);

/* A function to run on the dispatch loop on behalf of a client loop. */
struct as_fleet_job {
    void (*run)(struct as_fleet_job *e, struct as_fleet *f); /* dispatch loop */
    void (*done)(struct as_fleet_job *e); /* client loop, afterwards: e may be reused */
    struct as_fleet_client *client;
    struct as_letter letter;
};
/* run and done must be set; both may be called before this returns. */
void as_fleet_client_run(struct as_fleet_client *c, struct as_fleet_job *e);

#endif
