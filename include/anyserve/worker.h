/* anyserve/worker.h — a worker of AnyServe in C, in C++, or in any language that can call C.
 *
 * A worker is a process that serves models: it connects to the dispatcher's unix socket, says which
 * models it has, takes requests, answers them. This library owns the socket, the frames, the
 * heartbeat and the order of requests. cc $(pkg-config --cflags --libs anyserve-worker).
 *
 * There are two ways to use it, and everything is possible in both:
 *   the loop      as_worker_new, as_worker_add with a handler, as_worker_run, as_worker_free. It
 *                 connects, comes back when the server was restarted, and drains on SIGTERM.
 *   step by step  for an event loop of your own, or another language's runtime: connect, wait or
 *                 poll, next, answer.
 *
 * Threads: one *runner*, the thread that connects, or that calls as_worker_run. It must live as
 * long as the process: its end is how the kernel tells the dispatcher of the worker's death. A
 * thread of the library's, the guard, never calls back; it looks after the socket while a handler
 * runs for more than 1 ms (answers pings, hears cancels, publishes answers). Functions may be
 * called from any thread, unless they say "runner".
 *
 * Errors: 0 or an AS_E… code (anyserve/types.h). Results come through ret_ parameters, and are
 * written only on success. When small memory of its own is refused, the library ends the process.
 *
 * Structs with `size` begin zeroed, with size = sizeof the struct: 0 means the default of a member,
 * and a library newer than your program knows which members you have. as_worker_conf and
 * as_worker_model are copied; what they point to may go after the call.
 */
#ifndef ANYSERVE_WORKER_H
#define ANYSERVE_WORKER_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct as_worker;      /* the worker's end of the link; one in a process */
struct as_worker_req;  /* a request that was started, until it is answered */
struct as_worker_call; /* a request at its handler, and the answer that is being made */

#define AS_WORKER_NAME 256u /* most bytes of token, replica and deployment */
#define AS_WORKER_TENSORS                                                                          \
    4096u /* most tensors of a message, entries of one side of a signature                         \
           */
#define AS_WORKER_PARAMS      1024u /* most parameters of a message */
#define AS_WORKER_PREFERRED   16u   /* most preferred sizes of batches */
#define AS_WORKER_SLOTS       65535u
#define AS_WORKER_INPUTS      16u /* input_messages and input_bytes unless they are set */
#define AS_WORKER_INPUT_BYTES ((uint64_t)1 << 20)

/* --- what it is --- */

enum as_worker_flag {
    AS_WORKER_NO_SIGNALS = 1, /* as_worker_run leaves SIGTERM and SIGINT alone: use as_worker_stop
                               */
    AS_WORKER_ASKS = 2 /* questions come by as_worker_next_ask; without it the library answers them
                        */
};

#define AS_WORKER_REASON 4096u /* bytes of a check's or a reconfiguration's text, with the NUL */

struct as_worker_conf {
    size_t size;
    /* Where: the dispatcher's socket. NULL: $ANYSERVE_LINK with $ANYSERVE_TOKEN, which a server
     * sets for workers that it starts; else the server that runs here, looked up at each connect,
     * so that a server that was started anew is found again: as_worker_locate. */
    const char *path;
    const char
        *runtime_dir;  /* without path: the server's --runtime-dir; NULL: where it is by default */
    uint32_t port;     /* without path: the server's port; 0: the only one that runs, or 8000 */
    const char *token; /* with path: of the spawned worker, or the join token */
    /* Who: */
    const char *replica;    /* its name in logs. NULL: $ANYSERVE_REPLICA, or "worker-PID" */
    const char *deployment; /* NULL: that of the token, or "name:version" of the first model */
    const char *peer;       /* free text: what kind of worker. NULL: "anyserve-c" and the version */
    /* How much: */
    uint32_t slots;        /* calls at once, 1 … AS_WORKER_SLOTS. 0: `threads`, at least 1 */
    uint32_t max_prefetch; /* requests held here beyond the slots, so that none waits for a round
                              trip; the server decides how many it sends. 0: 256 */
    int64_t max_queued; /* of the deployment: requests that wait; -1: any number; 0: the server's */
    uint64_t max_message; /* bytes of one request. 0: whatever the server lets through */
    /* Of one stream of inputs: messages that wait here for their handler, and their bytes; the last
     * may go over it. */
    uint64_t input_messages, input_bytes;
    /* as_worker_run: */
    uint32_t threads; /* that run handlers. 0 or 1: only the one that called as_worker_run */
    uint32_t flags;   /* enum as_worker_flag */
    /* What happens to the link, in a line without newline: connected, lost, refused. Runner. May be
     * NULL. */
    void (*log)(void *ctx, const char *text);
    void *ctx;
    /* as_worker_run calls these between two requests, in the runner's thread, never beside each
     * other; with `threads`, while handlers run in those. AS_STATUS_OK, or another status with a
     * text that says why. NULL: health is what as_worker_set_health said; a reconfiguration is
     * UNIMPLEMENTED. `config` is JSON, docs/PROTOCOL.md section 10. */
    uint32_t (*check_health)(void *ctx, char text[AS_WORKER_REASON]);
    uint32_t (*reconfigure)(void *ctx, struct as_str config, char text[AS_WORKER_REASON]);
};

/* 0: answered with the outputs of the call. Else the request fails: as as_worker_call_fail said, or
 * with what the AS_E… code means to a client (any other number: INTERNAL). */
typedef int (*as_worker_handler)(struct as_worker_call *call, void *ctx);

struct as_worker_model {
    size_t size;
    const char *name;     /* UTF-8 */
    const char *version;  /* NULL: "1" */
    const char *platform; /* shown in metadata. NULL: "c" */
    uint32_t max_ongoing; /* of the slots, most that this model takes. 0: all */
    bool idempotent;      /* requests may run again when a worker died over them */
    bool decoupled;       /* answers with any number of messages */
    bool streams_inputs;  /* takes any number of messages; only with decoupled */
    bool has_inputs;  /* the inputs below are all that it takes, and the server checks them; … */
    bool has_outputs; /* … likewise its answers. False: anything goes */
    uint32_t n_inputs, n_outputs;
    const struct as_tensor_spec *inputs, *outputs; /* as requests carry them: with batching the
                                                      first dimension counts items, and is -1 */
    /* Batching: several requests share a call. 0: none. */
    uint32_t max_batch;   /* items of one call */
    as_ns max_wait;       /* how long a request may wait for others */
    bool ragged;          /* inputs of different shapes may share a call */
    uint32_t n_preferred; /* sizes at which a call is not held back */
    uint32_t preferred[AS_WORKER_PREFERRED];
    as_worker_handler handler; /* as_worker_run calls it, with ctx; else NULL */
    void *ctx;
};

/* Makes the library's thread; does not connect. 0; AS_EIO; AS_EINVALID: a name is too long, slots
 * are too many, or the size is not of a version that this library knows. */
int as_worker_new(struct as_worker **ret_w, const struct as_worker_conf *conf);
/* One more model, before the first connect; the models are numbered 0, 1 … . 0; AS_EINVALID, the
 * reason is in as_worker_error. What only the server can judge (names, the signature, what others
 * serve already) it says when connecting. */
int as_worker_add(struct as_worker *w, const struct as_worker_model *model);
/* Says GOODBYE if it can; every request must be answered before. NULL is allowed. Runner. */
void as_worker_free(struct as_worker *w);
const char *as_worker_error(const struct as_worker *w); /* the last reason, never NULL. Runner */
const char *as_worker_version(void);                    /* of the library: "0.1.0" */

/* The socket and the join token of the server of `port` below `runtime_dir`, as `path`,
 * `runtime_dir` and `port` above: as AnyServe's commands find it. 0; AS_ENOTFOUND: no server runs
 * there; AS_EDENIED: its files belong to somebody else; AS_EINVALID: the path is too long. */
#define AS_WORKER_PATH  108u /* bytes with the NUL */
#define AS_WORKER_TOKEN 65u
int as_worker_locate(const char *runtime_dir, uint32_t port, char ret_path[AS_WORKER_PATH],
                     char ret_token[AS_WORKER_TOKEN]);

/* What health checks hear from now on: AS_STATUS_OK, or another status and why. `text` may be NULL;
 * at most 255 bytes of it are kept. */
void as_worker_set_health(struct as_worker *w, uint32_t status, const char *text);

/* What the server shall do with this replica, in place of its own settings. 0: as the server is
 * set; AS_NEVER: never. Any time: what has changed is told to the server, also over a new link. 0;
 * AS_EINVALID: a time is over a day, health_timeout is AS_NEVER, there is no such signal, or a
 * number is out of range. */
struct as_worker_options {
    size_t size;
    as_ns health_period;      /* between two health checks */
    as_ns health_timeout;     /* an answer to one that takes longer is a failed check */
    as_ns execution_timeout;  /* a handler that runs for longer has its worker killed */
    as_ns request_timeout;    /* of the deployment: the deadline of requests that bring none */
    uint32_t health_failures; /* in a row, that end the process; at most 1000 */
    uint32_t dump_signal; /* makes this process print where its threads are, and go on; sent before
                         such a kill. 0: none */
    /* Calls at once, in place of the slots of as_worker_conf. What executes goes on; when it is
     * more than that, nothing starts until it is less. A model's own max_ongoing counts still,
     * where it is below the slots of as_worker_conf. */
    uint32_t slots;
    int32_t idempotent; /* of the deployment: 1, requests may run again, whatever its models say;
                           -1, they may not. 0: as each model says */
    int64_t max_queued; /* of the deployment, in place of that of as_worker_conf: what waits already
                           stays; more is refused. -1: any number; 0: as there */
};
int as_worker_set_options(struct as_worker *w, const struct as_worker_options *options);

/* What the deployment gets of the requests for other versions of its models, and who gets its own.
 * Parts are in units of 1/AS_WORKER_SHARE. Of several workers of a deployment the last word counts.
 * Any time: it is told to the server, also over a new link. 0; AS_EINVALID: a part is above one, a
 * part as canary without is_canary, or the name is over 256 bytes. */
#define AS_WORKER_SHARE 100000u
struct as_worker_traffic {
    size_t size;
    bool is_canary;       /* its versions are not the default beside one that is none … */
    uint32_t canary;      /* … but get this part of the requests that name no version */
    uint32_t mirror;      /* a copy of this part of what other versions get; answers go nowhere */
    const char *fallback; /* the deployment that gets what this one cannot serve now; NULL: none */
};
int as_worker_set_traffic(struct as_worker *w, const struct as_worker_traffic *traffic);

/* --- the loop --- */

/* Serves until it is drained: after as_worker_stop, SIGTERM or SIGINT, or because the server ends.
 * 0; AS_EDENIED, AS_EEXISTS, AS_EINVALID: the server refuses this worker, the reason is in
 * as_worker_error; AS_EIO: no threads. While no server is there it tries again, at least four times
 * a second. Runner. */
int as_worker_run(struct as_worker *w);
/* Async-signal-safe; also before as_worker_run. */
void as_worker_stop(struct as_worker *w);

/* In a handler, with its call, until it returns; by its thread. */

/* What the client sent: the message of the request, or the newest of as_worker_call_receive. Its
 * bytes are read-only, 64-byte aligned, and stay until the handler returns or receives another
 * message. */
const struct as_msg *as_worker_call_msg(const struct as_worker_call *call);
const struct as_tensor *as_worker_call_input(const struct as_worker_call *call, const char *name);
/* NULL: not there */
/* The parameters of single inputs of that message, in their order, *ret_n of them. */
const struct as_tensor_param *as_worker_call_tensor_params(const struct as_worker_call *call,
                                                           uint32_t *ret_n);
uint32_t as_worker_call_model(const struct as_worker_call *call); /* number of the model */
bool as_worker_call_cancelled(const struct as_worker_call *call); /* nobody waits any more */
as_ns as_worker_call_deadline(const struct as_worker_call *call); /* AS_NEVER: none */
struct as_worker_req *as_worker_call_req(const struct as_worker_call *call); /* to hold its bytes */

/* One more output of the answer: room for its elements, not zeroed, 64-byte aligned, the library's.
 * NULL: bad arguments, BYTES, too many outputs, or no memory; the handler may return AS_EINVALID
 * then, and the reason is known. A name is copied. */
void *as_worker_call_output(struct as_worker_call *call, const char *name, enum as_dtype dtype,
                            uint32_t ndim, const int64_t *shape);
/* One that lies elsewhere, BYTES included: `t` and what it points to must stay until the handler
 * returns or has sent it. 0, AS_EINVALID, AS_ENOMEM. */
int as_worker_call_put(struct as_worker_call *call, const struct as_tensor *t);
/* A parameter of the answer; it must stay likewise. 0, AS_EINVALID, AS_ENOMEM. */
int as_worker_call_param(struct as_worker_call *call, const struct as_param *p);
/* Likewise, of one output that was put already. AS_EINVALID, too: there is none of this name, or
 * the parameter's name is the server's own (binary_data_size, shared_memory_region …). */
int as_worker_call_tensor_param(struct as_worker_call *call, const char *output,
                                const struct as_param *p);
/* For `return as_worker_call_fail(call, AS_STATUS_INVALID_ARGUMENT, "…")`: always AS_EHANDLER. The
 * text is copied; at most 511 bytes. */
int as_worker_call_fail(struct as_worker_call *call, uint32_t status, const char *text);

/* Decoupled models: sends what was put as one response, and begins the next. Waits for room: a
 * client that does not read holds its handler up. What is put when the handler returns 0 is the
 * last response; nothing put, none. 0; AS_ECANCELLED: return now, with anything; AS_ETOOBIG;
 * AS_EINVALID: the model is not decoupled. */
int as_worker_call_send(struct as_worker_call *call);
/* Models with streams_inputs: waits for the next message. 0; AS_EOF: there is no further one;
 * AS_ECANCELLED; AS_EINVALID: the model takes one message. */
int as_worker_call_receive(struct as_worker_call *call);

/* Models with batching: the handler is called once, with the first request; these are all of them,
 * the first included. Each has outputs of its own, and may fail by itself; when the handler returns
 * something else than 0, those fail that have not. */
uint32_t as_worker_call_count(const struct as_worker_call *call);
struct as_worker_call *as_worker_call_member(struct as_worker_call *call, uint32_t i);

/* --- step by step --- */

/* Connects, says HELLO, registers, waits for the server's word on every model, grants slots.
 * Blocking, bounded by `timeout`. 0; AS_EUNAVAILABLE (no server there, or it did not finish: try
 * again later); AS_EDENIED, AS_EEXISTS, AS_EINVALID: refused, the reason is in as_worker_error.
 * Also the way back after the dispatcher's death: requests that were not started are dropped,
 * started ones read as cancelled and their answers go nowhere. Runner. */
int as_worker_connect(struct as_worker *w, as_ns timeout);
/* The same in steps that do not block, for an event loop. begin: 0, or refused as above. step,
 * whenever as_worker_fd is readable: 0 connected; AS_EAGAIN not yet; else as above. abort: when the
 * caller's time is up. Runner. */
int as_worker_connect_begin(struct as_worker *w);
int as_worker_connect_step(struct as_worker *w);
void as_worker_connect_abort(struct as_worker *w);

/* The next request that may start, or NULL. Storing it on the status page and taking it off the
 * list is one step: user code runs only after this returned it. Publishes pending answers before it
 * would return NULL. Never blocks. Never more than `slots` at once, nor more of a model than its
 * max_ongoing. Requests start in the order in which they came, capped models apart. */
struct as_worker_req *as_worker_next(struct as_worker *w);
/* The others that share the call of q, which as_worker_next has just given: in the order in which
 * they came, NULL after the last; q is where to begin. They started with it and each is answered by
 * itself; the slot is free when all are. Before the first of them is answered. */
struct as_worker_req *as_worker_next_member(struct as_worker *w, const struct as_worker_req *q);
/* Blocks until as_worker_next may have something, a signal came, or as_worker_wake: 0; AS_EOF: the
 * link is gone (connect again); AS_ECANCELLED: one side said DRAIN and nothing is left. Runner. */
int as_worker_wait(struct as_worker *w);
void as_worker_wake(struct as_worker *w); /* async-signal-safe */
/* For an event loop instead of as_worker_wait: readable when there is something to do; then call
 * as_worker_poll (reads, processes; results as of wait, AS_EAGAIN: nothing to start), then
 * as_worker_next until NULL, as_worker_cancelled until NULL. */
int as_worker_fd(const struct as_worker *w);
int as_worker_poll(struct as_worker *w);
/* Sends what is pending now, as far as the socket takes it; the rest follows by itself. For answers
 * that are given outside the runner's loop. */
void as_worker_flush(struct as_worker *w);
/* Tells the dispatcher to send nothing new; wait and poll say AS_ECANCELLED when all is answered.
 */
void as_worker_drain(struct as_worker *w);

/* A request belongs to the caller until as_worker_answer, _finish or _fail, which free it (its
 * bytes stay while they are held). */
const struct as_msg *as_worker_req_msg(const struct as_worker_req *q);
/* The parameters of its single inputs, in their order, *ret_n of them. */
const struct as_tensor_param *as_worker_req_tensor_params(const struct as_worker_req *q,
                                                          uint32_t *ret_n);
uint32_t as_worker_req_model(const struct as_worker_req *q);
as_ns as_worker_req_deadline(const struct as_worker_req *q); /* AS_NEVER: none */
/* CANCEL came, the deadline passed, or the link is lost. */
bool as_worker_req_cancelled(const struct as_worker_req *q);
void as_worker_req_set_data(struct as_worker_req *q, void *data); /* the caller's own */
void *as_worker_req_data(const struct as_worker_req *q);
/* Keeps the bytes that tensors of the request point into: unchanged until released, also after the
 * request is answered and the worker is freed. When holds of small bodies keep 16 MiB of shared
 * buffers from being used again, further bodies are copied out until some are let go, so that a
 * handler that stores its inputs pins their size and not 256 KiB each. */
void *as_worker_req_hold(struct as_worker_req *q);
void as_worker_release_hold(void *hold);
/* Memory of the same kind, for what is put together out of several requests: n bytes, 64-byte
 * aligned, counted in the worker's statistics. NULL: no memory. as_worker_release_hold frees it. */
void *as_worker_hold_new(size_t n, uint8_t **ret_bytes);

/* For an event loop whose requests other threads may answer: pops a started one that was newly
 * cancelled, and calls `take` with it. No thread can end it meanwhile, so `take` may read it, and
 * take a reference of what as_worker_req_data gives; it must be brief, and call nothing else of
 * this header. When as_worker_cancelled has returned, q is there only if nobody else answers it.
 * False: there is none. */
typedef void (*as_worker_visit)(void *ctx, struct as_worker_req *q);
bool as_worker_cancelled(struct as_worker *w, as_worker_visit take, void *ctx);

/* Tensor bytes are copied before the call returns. 0; AS_ETOOBIG: larger than the dispatcher
 * accepts or than a frame can describe; AS_ENOMEM: nothing was sent, the request is still the
 * caller's. */
int as_worker_answer(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg);
/* Parameters of single outputs of the message that as_worker_answer or as_worker_part gives next: n
 * of them, in the order of the outputs, which stay until then. A server that does not know them
 * does not get them. 0; AS_EINVALID: not in order, of an unknown type, or a name that is the
 * server's own (binary_data_size, shared_memory_region …). */
int as_worker_req_set_tensor_params(struct as_worker_req *q, const struct as_tensor_param *p,
                                    uint32_t n);
/* ERROR instead of an answer, or of what is left of it; `status` 1 … 16 (enum as_grpc_status). */
void as_worker_fail(struct as_worker *w, struct as_worker_req *q, uint32_t status,
                    struct as_str message);

/* Models registered as decoupled answer with any number of parts, then as_worker_finish or _fail.
 * part: as _answer, but q stays the caller's; AS_EAGAIN: the dispatcher lets us send no more now,
 * nothing was sent; AS_ECANCELLED: nobody waits. Parts go out at once when none did for 100 us,
 * else soon after. finish frees q. */
int as_worker_part(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg);
void as_worker_finish(struct as_worker *w, struct as_worker_req *q);
/* May a part be sent? 0, AS_EAGAIN, AS_ECANCELLED. Does not block. */
int as_worker_room(struct as_worker *w, struct as_worker_req *q);
/* Blocks until a part may be sent, 0, or AS_ECANCELLED. Any thread, the runner too. */
int as_worker_await_room(struct as_worker *w, struct as_worker_req *q);

/* Models registered with streams_inputs: the request is the first message, here are the others. 0:
 * one, which is given back by as_worker_drop_input before q is; AS_EAGAIN: none now; AS_EOF: there
 * is no further one; AS_ECANCELLED. */
int as_worker_next_input(struct as_worker *w, struct as_worker_req *q,
                         struct as_worker_req **ret_input);
void as_worker_drop_input(struct as_worker *w, struct as_worker_req *q,
                          struct as_worker_req *input);
/* Blocks until as_worker_next_input says something else than AS_EAGAIN. Any thread, the runner too.
 */
void as_worker_await_input(struct as_worker *w, struct as_worker_req *q);

/* For an event loop: true when there is what q waits for (room for a part, or news of its inputs).
 * False: as_worker_ready gives q once there is. A cancel is told by as_worker_cancelled. */
enum as_worker_want { AS_WANT_ROOM = 1, AS_WANT_INPUT = 2 };
bool as_worker_want(struct as_worker *w, struct as_worker_req *q, enum as_worker_want what);
/* Pops one, as as_worker_cancelled does; *ret_what: what there is now. False: there is none. */
bool as_worker_ready(struct as_worker *w, unsigned *ret_what, as_worker_visit take, void *ctx);

/* A request that is made here, to warm a model up before the first connect: checked as the server
 * checks a request, and started. It is answered like any other, and read to its end if it is a
 * stream, in which there is one input; it takes no slot, and its answer is checked and goes
 * nowhere. `done` hears how it ended, within the call that ends it and by its thread: AS_STATUS_OK,
 * or another status with a text that is gone after the call. 0, msg is copied; AS_EINVALID:
 * refused, the reason is in as_worker_error; AS_ENOMEM. Not while connected. Runner. */
int as_worker_rehearse(struct as_worker *w, uint32_t model, const struct as_msg *msg,
                       void (*done)(void *ctx, uint32_t status, struct as_str text), void *ctx,
                       struct as_worker_req **ret_q);

/* A request that is made here likewise, by a program that calls its own models in one process. Its
 * answer, checked, is given to `part`: one message, or of a decoupled model any number. `part`,
 * `took` and `done` are called where the handler's thread answers, without a lock; `done` is the
 * last, and q is gone then. */
struct as_worker_local {
    size_t size;
    const struct as_msg *msg; /* copied */
    bool more;                /* of a model with streams_inputs: as_worker_local_input follows */
    uint32_t room; /* parts before as_worker_local_room says that there may be more; 0: any number
                    */
    void (*part)(void *ctx, const struct as_msg *msg); /* gone after the call; NULL: not wanted */
    void (*took)(void *ctx); /* the handler is done with one more input; may be NULL */
    void (*done)(void *ctx, uint32_t status, struct as_str text);
    void *ctx;
    const struct as_tensor_param *tensor_params; /* of the inputs, in their order; copied */
    uint32_t n_tensor_params;
};
/* 0; AS_EINVALID: refused, the reason is in as_worker_error; AS_ENOMEM. Not while connected. */
int as_worker_local(struct as_worker *w, uint32_t model, const struct as_worker_local *local,
                    struct as_worker_req **ret_q);
/* One more message and the parameters of its single inputs, which are copied; msg NULL: there will
 * be none. *ret_wanted: the event loop's handler waits for it (as_worker_want), and its owner must
 * be told. Errors as above. Any thread that knows that q has not ended, here and below. */
int as_worker_local_input(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg,
                          const struct as_tensor_param *params, uint32_t n_params,
                          bool *ret_wanted);
/* Within `part`: the parameters of single outputs of its message, in their order, *ret_n of them.
 */
const struct as_tensor_param *as_worker_local_tensor_params(const struct as_worker_req *q,
                                                            uint32_t *ret_n);
/* So many more parts may come. True: the event loop's handler waits for that. */
bool as_worker_local_room(struct as_worker *w, struct as_worker_req *q, uint32_t parts);
/* Nobody waits any more. Who runs the handler in an event loop ends it there. */
void as_worker_local_cancel(struct as_worker *w, struct as_worker_req *q);

/* Questions to the replica itself, with AS_WORKER_ASKS: before each as_worker_next, and after each
 * as_worker_poll, ask for one. NULL: none, or the last one has not been answered: there is one at a
 * time. It belongs to the caller until as_worker_reply, which may be called by any thread, and
 * whose text is cut at 16 KiB. Runner. */
struct as_worker_ask;
enum as_worker_ask_op { AS_WORKER_HEALTH = 1, AS_WORKER_RECONFIGURE = 2 };
struct as_worker_ask *as_worker_next_ask(struct as_worker *w);
enum as_worker_ask_op as_worker_ask_op(const struct as_worker_ask *ask);
struct as_str as_worker_ask_text(const struct as_worker_ask *ask);
void as_worker_reply(struct as_worker *w, struct as_worker_ask *ask, uint32_t status,
                     struct as_str text);
/* Event loops: from now on, until it is said to be false, the runner is in code that cannot be left
 * (a handler that is not asynchronous). Health checks wait for it, and that is held against nobody;
 * execution_timeout bounds it. Without an event loop this is known without being said. Runner. */
void as_worker_busy(struct as_worker *w, bool busy);

/* In a forked child: closes the descriptors and forgets the rest (which leaks there); nothing else
 * may be called with w any more. */
void as_worker_forked(struct as_worker *w);

#ifdef __cplusplus
}
#endif

#endif
