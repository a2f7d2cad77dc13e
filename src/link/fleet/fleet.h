/* link/fleet/fleet.h — all deployments, their replicas' links, and the way in for client loops.
 *
 * The fleet lives on one loop (the dispatch loop), which owns every queue and every worker link, so
 * that counts are exact without locks. Client loops submit through a handle of their own: directly
 * when it is the same loop, else by mailbox. The registry is a snapshot that the fleet hands to
 * every client loop when it changes.
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
    enum as_router router;
    int64_t max_queued; /* for deployments that set none */
    uint32_t max_prefetch;
    as_ns prefetch_work;
    as_ns ping_interval, ping_timeout, handshake_timeout;
    /* Unless a worker says otherwise (OPTIONS). 0: none, but for the health timeout. */
    as_ns health_period, health_timeout, execution_timeout, request_timeout;
    uint32_t health_failures; /* in a row, that end a process of ours */
    as_ns grace; /* a deployment without workers stays so long, if they came by themselves */
    /* Workers that register from outside; the folder of their sockets, borrowed. NULL: none may. */
    const char *worker_dir;
    as_ns heartbeat_timeout; /* the longest between two of their heartbeats; 0: any */
    as_ns simple_idle;       /* a connection of theirs rests no longer; 0: as long as it likes */
    as_ns simple_connect;    /* waits for room in their backlog so long */
    uint64_t max_message;    /* bytes of one answer's body */
    uint64_t max_body;       /* bytes of one request's body: what a worker must accept */
    struct as_frame_window parts; /* of one answer that is a stream, ahead of its client */
    struct as_retry_conf retry;
    struct as_blame_conf blame;
    struct as_breaker_conf breaker;
    struct as_outlier_conf outlier;
    as_ns verdict_wait, repeat_verdict_wait; /* core/dispatch/deployment.h */
    struct as_quarantine_conf quarantine;
    uint64_t seed;
};

/* What the owner hears; on the dispatch loop. */
/* Why workers' processes end: what the supervisor saw, or why the fleet has ended them. */
#define AS_FLEET_EXIT_TABLE(X)                                                                     \
    X(CODE, "exit")           /* by itself, with a code */                                         \
    X(CRASH, "crash")         /* by SIGSEGV and its like */                                        \
    X(KILLED, "killed")       /* by a signal from outside, or was not ready in time */             \
    X(OOM, "oom")             /* memory was out */                                                 \
    X(STOPPED, "stopped")     /* it was asked to */                                                \
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
const char *as_fleet_exit_name(uint32_t why); /* NULL: there is none such */

struct as_fleet_ops {
    void (*on_ready)(void *ctx, struct as_str replica, struct as_str token, struct as_str models);
    void (*on_gone)(void *ctx, struct as_str replica, struct as_str token, struct as_str reason);
    /* A worker of ours hangs or broke the rules: end its process. */
    void (*on_kill)(void *ctx, struct as_str replica, struct as_str token, struct as_str reason);
    /* To as_fleet_retire_process: nothing of it is unanswered, or its link has ended. */
    void (*on_retired)(void *ctx, struct as_str replica, struct as_str token);
    /* To as_fleet_send_control: 0, or AS_E… with its reason (AS_EHANDLER: the worker's own word).
     */
    void (*on_answer)(void *ctx, struct as_str replica, struct as_str token, uint64_t id, int err,
                      struct as_str text);
};

int as_fleet_new(struct as_fleet **ret_f, struct as_loop *loop, const struct as_fleet_conf *conf,
                 const struct as_fleet_ops *ops, void *ctx, const struct as_log *log);
/* Ends every link, answers what is left. Client handles must be closed before. */
void as_fleet_free(struct as_fleet *f);
/* Takes workers from a listening unix socket (not owned). Once: a second call changes nothing. */
int as_fleet_listen(struct as_fleet *f, int fd);

/* A deployment of processes of ours, whether one runs now or not: until one has told its models, an
 * unknown model may be among them. Repeating it is harmless. */
void as_fleet_expect_deployment(struct as_fleet *f, struct as_str deployment);
/* Tokens that a worker may say in HELLO. pid is for messages. Repeating one is harmless. */
void as_fleet_add_process(struct as_fleet *f, struct as_str token, struct as_str replica,
                          struct as_str deployment);
/* That process is dead, and why; AS_LOSS_UNKNOWN: nobody knows. */
void as_fleet_remove_process(struct as_fleet *f, struct as_str token, enum as_loss loss);
/* How the process of that token ended, an as_exit_kind; before as_fleet_remove_process. What the
 * fleet itself has ended it for goes first. Counted. */
void as_fleet_record_exit(struct as_fleet *f, struct as_str token, uint32_t kind);
/* The process of that token takes no new requests any more, over no link; on_retired tells when
 * nothing of it is unanswered: at once when that is so. May be repeated. */
void as_fleet_retire_process(struct as_fleet *f, struct as_str token);
/* A CONTROL to the worker (wire/frame/frame.h, at most AS_FRAME_CONTROL_TEXT bytes of text);
 * on_answer tells what came of it, once, under `id`. One at a time: AS_EFULL. While it is under way
 * the replica gets nothing new. How long it may take is the caller's to judge. */
void as_fleet_send_control(struct as_fleet *f, struct as_str token, uint64_t id,
                           enum as_control_op op, struct as_str text);
void as_fleet_set_join_token(struct as_fleet *f,
                             struct as_str token); /* for workers not started by us */
/* It is to be served no longer: its models are unknown from here on, what its replicas have is
 * answered, and what waits for one is refused. gone: there are none any more, and it goes. A new
 * token of it takes that back. */
void as_fleet_delete_deployment(struct as_fleet *f, struct as_str deployment, bool gone);
/* No replica of it will come (again): its requests are refused. */
void as_fleet_set_down(struct as_fleet *f, struct as_str deployment, bool down);

/* Workers are let in, and every deployment of processes of ours has a replica with slots. Those of
 * workers that came by themselves do not count: a server may wait for them. */
bool as_fleet_ready(const struct as_fleet *f);                                 /* any thread */
bool as_fleet_deployment_ready(const struct as_fleet *f, uint32_t deployment); /* any thread */
bool as_fleet_deployment_down(const struct as_fleet *f, uint32_t deployment);  /* any thread */
uint32_t as_fleet_unanswered(const struct as_fleet *f); /* requests held, whatever their state */
/* DRAIN to all workers: what they hold is finished, nothing new is accepted. */
void as_fleet_drain(struct as_fleet *f);

/* No worker is let in any more: another dispatcher does that from here on. Those that can serve two
 * are told to go there as well, and go on serving us. *ret_foreign: how many of all are not
 * processes of ours. False: some can go only when their link has ended. */
bool as_fleet_hand_over(struct as_fleet *f, uint32_t *ret_foreign);

/* Ends every link at once, and answers all that is held: what may have executed with
 * AS_EMAYHAVERUN, the rest, and what comes from here on, with AS_EUNAVAILABLE. No worker is let in
 * any more. */
void as_fleet_abort(struct as_fleet *f);
bool as_fleet_is_aborted(const struct as_fleet *f); /* any thread */

/* Ends every link at once; what the workers hold is answered and released. */
void as_fleet_stop(struct as_fleet *f);

/* For the status page; dispatch loop only. */
struct as_fleet_replica {
    struct as_str name, deployment, state; /* "ready", "draining", "starting", "lost" */
    struct as_str kind;                    /* "native", "simple" */
    uint32_t pid, slots, ongoing, unanswered;
    enum as_breaker_state breaker;
    as_ns service;
    uint64_t epoch;
    /* simple: the worker's address, open connections, and its last heartbeat */
    struct as_str address;
    uint32_t connections;
    as_ns heard;
    struct as_page_stat worker; /* as the worker counts; zeros where it does not */
};
void as_fleet_each_replica(struct as_fleet *f,
                           void (*fn)(void *arg, const struct as_fleet_replica *r), void *arg);
void as_fleet_each_deployment(struct as_fleet *f,
                              void (*fn)(void *arg, struct as_deployment *d, bool down), void *arg);
/* So many of its processes have ended, by as_fleet_exit. */
void as_fleet_each_exits(struct as_fleet *f,
                         void (*fn)(void *arg, struct as_str deployment, const uint64_t *counts),
                         void *arg);
struct as_registry *as_fleet_registry(const struct as_fleet *f); /* borrowed; dispatch loop */
/* One model's, by the numbers that the registry has; NULL: it has gone. Dispatch loop. */
const struct as_model_stat *as_fleet_model_stat(const struct as_fleet *f, uint32_t deployment,
                                                uint32_t model);
struct as_fleet_model_row {
    struct as_str deployment, name, version;
    const struct as_model_stat *stat;
};
void as_fleet_each_model(struct as_fleet *f,
                         void (*fn)(void *arg, const struct as_fleet_model_row *m), void *arg);
/* All versions of a model are refused to new requests, or not any more; what was accepted goes on.
 * 0 or AS_ENOTFOUND. Dispatch loop. */
int as_fleet_set_loaded(struct as_fleet *f, struct as_str model, bool loaded);

/* One client loop's handle. */
struct as_fleet_client {
    struct as_fleet *fleet;
    struct as_loop *loop;
    bool local; /* the same loop: no letters */
    struct as_mbox box;
    uint64_t kind_seed;           /* of as_call_batch_key */
    struct as_registry *registry; /* this loop's snapshot; ref it to keep pointers into it */
    bool models_pending; /* a worker of ours has not told its models yet: an unknown one may be
                          * among them
                          */
    void (*on_registry)(
        struct as_fleet_client *c); /* or a model's readiness changed; may be NULL */
    struct as_list node;
};
/* Opened on the dispatch loop's thread before the client loop runs. */
int as_fleet_client_open(struct as_fleet_client *c, struct as_fleet *f, struct as_loop *loop);
void as_fleet_client_close(struct as_fleet_client *c); /* no call may be open */

/* Client loop; the message fits a frame (wire/frame/frame.h, AS_FRAME_TABLE). The outcome comes by
 * on_answer and on_release, refusals (queue full, down, deadline) too; both may come before submit
 * returns. */
void as_fleet_client_submit(struct as_fleet_client *c, struct as_call *call);
/* The client has gone: no on_answer comes any more, on_release still does. Once per call, not after
 * on_release. */
void as_fleet_client_cancel(struct as_fleet_client *c, struct as_call *call);

/* Calls with on_part: the client has taken so much; the worker may send as much more. Any time
 * between submit and on_release. */
void as_fleet_client_credit(struct as_fleet_client *c, struct as_call *call, uint32_t messages,
                            uint64_t bytes);
/* Calls that stream inputs: one more message, `input->msg` and `input->blob`, owned by the fleet
 * until input->on_release (which may come before this returns). One at a time. What comes too late
 * is released unsent. */
void as_fleet_client_input(struct as_fleet_client *c, struct as_call *call, struct as_call *input);
/* There will be no further input. Once, and not while one is under way. */
void as_fleet_client_input_end(struct as_fleet_client *c, struct as_call *call);

/* Something to be done on the dispatch loop for a client loop, which hears of it afterwards. */
struct as_fleet_job {
    void (*run)(struct as_fleet_job *e, struct as_fleet *f); /* dispatch loop */
    void (*done)(struct as_fleet_job *e);                    /* client loop; e is its again */
    struct as_fleet_client *client;
    struct as_letter letter;
};
/* Client loop; run and done are set. Both may be called before it returns. */
void as_fleet_client_run(struct as_fleet_client *c, struct as_fleet_job *e);

#endif
