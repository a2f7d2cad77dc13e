/* anyserve/worker.h — a worker of AnyServe in C, in C++, or in any language that can call C.
 *
 * A worker is a process that serves models. It connects to the dispatcher's unix socket, registers
 * its models, gets requests and answers them. This library handles the socket, the protocol,
 * heartbeats and the order of requests. Build: cc $(pkg-config --cflags --libs anyserve-worker).
 *
 * There are two ways to use it, with the same features:
 *   the loop      as_worker_new, as_worker_add with a handler, as_worker_run, as_worker_free. It
 *                 connects, reconnects when the server was restarted, and drains on SIGTERM.
 *   step by step  for an event loop of your own, or the runtime of another language: connect, wait
 *                 or poll, next, answer.
 *
 * Threads: the *runner* is the thread that connects, or that calls as_worker_run. It must live as
 * long as the process, since the kernel reports its end to the dispatcher as the worker's death.
 * The library has one thread of its own, the guard, which never calls your code. While a handler
 * runs for more than 1 ms the guard serves the socket: it answers pings, receives cancels and sends
 * answers. Functions may be called from any thread, unless their comment says "runner".
 *
 * Errors: 0 or an AS_E… code (anyserve/types.h). Results are returned through ret_ parameters,
 * which are written only on success. If the library cannot get small memory for itself, it ends the
 * process.
 *
 * Structs with `size`: zero them and set size = sizeof the struct. A member that is 0 has its
 * default, and by the size a newer library knows which members your program has. as_worker_conf and
 * as_worker_model are copied, including everything they point to.
 */
#ifndef ANYSERVE_WORKER_H
#define ANYSERVE_WORKER_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct as_worker;      /* the worker's end of the link; one in a process */
struct as_worker_req;  /* a request that was started, until it is answered */
struct as_worker_call; /* a request during its handler, and the answer that the handler builds */

#define AS_WORKER_NAME 256u /* most bytes of token, replica and deployment */
#define AS_WORKER_TENSORS                                                                          \
    4096u /* most tensors of a message, entries of one side of a signature                         \
           */
#define AS_WORKER_PARAMS      1024u /* most parameters of a message */
#define AS_WORKER_PREFERRED   16u   /* most preferred sizes of batches */
#define AS_WORKER_SLOTS       65535u
#define AS_WORKER_INPUTS      16u /* defaults of input_messages and input_bytes */
#define AS_WORKER_INPUT_BYTES ((uint64_t)1 << 20)

/* --- configuration --- */

enum as_worker_flag {
    AS_WORKER_NO_SIGNALS = 1, /* as_worker_run leaves SIGTERM and SIGINT alone: use as_worker_stop
                               */
    AS_WORKER_ASKS = 2, /* CONTROL requests (health, reconfiguration) come by as_worker_next_ask;
                         * else the library answers them */
    /* A driver: it opens calls (anyserve/calls.h), has no models and gets no requests. Without
     * `path` it finds the server and its driver token; with `path`, `token` is that token. */
    AS_WORKER_DRIVER = 4
};

#define AS_WORKER_REASON 4096u /* size of the text that explains a failure, with the NUL */

struct as_worker_conf {
    size_t size;
    /* Where to connect: the dispatcher's socket. NULL: $ANYSERVE_LINK with $ANYSERVE_TOKEN, which a
     * server sets for workers that it starts; without them, the server on this machine. It is
     * looked up at each connect (as_worker_locate), so that a restarted server is found again. */
    const char *path;
    const char *runtime_dir; /* without path: the server's --runtime-dir; NULL: its default */
    uint32_t port; /* without path: the server's port; 0: that of the only server, or 8000 */
    const char
        *token; /* with path: the token that the server gave this worker, or the join token */
    /* The identity of this worker: */
    const char *replica;    /* name in logs. NULL: $ANYSERVE_REPLICA, or "worker-PID" */
    const char *deployment; /* NULL: the token's, or "name:version" of the first model */
    const char *peer;       /* free text, the kind of worker. NULL: "anyserve-c VERSION" */
    /* Limits: */
    uint32_t slots;        /* calls at once, 1 … AS_WORKER_SLOTS. 0: `threads`, at least 1 */
    uint32_t max_prefetch; /* most requests that wait here in addition, which saves round trips;
                              the server decides how many it sends. 0: 256 */
    int64_t max_queued; /* of the deployment: most queued requests; -1: no limit; 0: the server's */
    uint64_t max_message; /* largest request in bytes. 0: the server's limit */
    /* For one stream of inputs: most messages, and most of their bytes, that wait here for the
     * handler. The last message may exceed input_bytes. */
    uint64_t input_messages, input_bytes;
    /* For as_worker_run: */
    uint32_t threads; /* threads that run handlers. 0 or 1: only the runner */
    uint32_t flags;   /* enum as_worker_flag */
    /* Called by the runner with a line of text, without newline, about the link: connected, lost,
     * refused. May be NULL. */
    void (*log)(void *ctx, const char *text);
    void *ctx;
    /* as_worker_run calls these in the runner, one at a time, between two requests (with `threads`,
     * while handlers run in those). They return AS_STATUS_OK, or another status and the reason in
     * `text`. NULL: health is that of as_worker_set_health; a reconfiguration is answered with
     * UNIMPLEMENTED. `config` is JSON, docs/protocol/link.md section 10. */
    uint32_t (*check_health)(void *ctx, char text[AS_WORKER_REASON]);
    uint32_t (*reconfigure)(void *ctx, struct as_str config, char text[AS_WORKER_REASON]);
};

/* Returns 0: the request is answered with the outputs of the call. Else it fails, with the status
 * of as_worker_call_fail, or with the status that belongs to the AS_E… code (other numbers:
 * INTERNAL).
 */
typedef int (*as_worker_handler)(struct as_worker_call *call, void *ctx);

struct as_worker_model {
    size_t size;
    const char *name;     /* UTF-8 */
    const char *version;  /* NULL: "1" */
    const char *platform; /* shown in metadata. NULL: "c" */
    uint32_t max_ongoing; /* most slots that this model uses at once. 0: all */
    bool idempotent;      /* requests may be repeated if a worker dies while it executes them */
    bool decoupled;       /* an answer has any number of messages */
    bool streams_inputs;  /* a request has any number of messages; only with decoupled */
    bool has_inputs;  /* requests must have exactly the inputs below, which the server checks … */
    bool has_outputs; /* … and answers the outputs. False: nothing is checked */
    uint32_t n_inputs, n_outputs;
    const struct as_tensor_spec *inputs, *outputs; /* shapes as in requests: with batching, the
                                                      first dimension counts items and is -1 */
    /* Batching: several requests share a call of the handler. max_batch 0: none. */
    uint32_t max_batch;   /* most items of one call */
    as_ns max_wait;       /* how long a request may wait for others */
    bool ragged;          /* inputs of different shapes may share a call */
    uint32_t n_preferred; /* sizes that are worth waiting for; at them a call starts at once */
    uint32_t preferred[AS_WORKER_PREFERRED];
    as_worker_handler handler; /* as_worker_run calls it, with ctx; else NULL */
    void *ctx;
    /* Requests are calls (anyserve/calls.h): their bodies are opaque, and each says whether its
     * answer is one message or any number. Without signature, batching, `decoupled` and
     * `streams_inputs`. Clients of the inference protocols do not see the model. */
    bool opaque;
    /* With `opaque`: it takes requests of HTTP, too (anyserve/http.h). Not for as_worker_run. */
    bool http;
};

/* Creates a worker and the guard thread; does not connect. 0; AS_EIO; AS_EINVALID: a name is too
 * long, a number is out of range, or `size` is not that of a version that this library knows. */
int as_worker_new(struct as_worker **ret_w, const struct as_worker_conf *conf);
/* Adds a model, before the first connect; models are numbered 0, 1 … . 0; AS_EINVALID: the reason
 * is in as_worker_error. The server checks the rest (names, signature, models of other deployments)
 * when the worker connects. */
int as_worker_add(struct as_worker *w, const struct as_worker_model *model);
/* A method of a gRPC service of the user, which clients call by its path at the server's port. A
 * request comes as a call (anyserve/calls.h) of the opaque model: docs/protocol/link.md,
 * section 18.
 */
struct as_worker_service_method {
    const char *path;  /* "/package.Service/Method" */
    bool takes_inputs; /* the client sends any number of messages; else one */
    bool gives_parts;  /* the handler sends any number of messages; else one */
};
/* The services that the deployment serves, before the first connect; a second call replaces them.
 * The methods are in the order of strcmp, each path once; at most 1,024. descriptors: a
 * FileDescriptorSet for reflection, or nothing; copied. 0; AS_EINVALID: a path is none, they are
 * not in order, all together have more than 48 KiB, or w has connected. Runner. */
int as_worker_set_services(struct as_worker *w, const struct as_worker_service_method *methods,
                           uint32_t n, struct as_str descriptors);
/* How the server is told of a model when w connects: the frame REGISTER (docs/protocol/link.md),
 * behind it SERVICES with an opaque one; for a program that only describes what it would serve.
 * *ret_p is allocated by malloc, and the caller's. 0; AS_EINVALID: the signature is too large, or
 * there is no such model. Runner. */
int as_worker_registration(struct as_worker *w, uint32_t model, void **ret_p, size_t *ret_n);
/* Says GOODBYE if it is connected, and frees w, which may be NULL, with its calls
 * (anyserve/calls.h). Every request must be answered before. Runner. */
void as_worker_free(struct as_worker *w);
const char *as_worker_error(const struct as_worker *w); /* the last error, never NULL. Runner */
const char *as_worker_version(void);                    /* of the library: "0.1.0" */

/* Finds the socket and the join token of a server on this machine, as AnyServe's commands do;
 * runtime_dir and port are those of as_worker_conf. 0; AS_ENOTFOUND: no server runs there;
 * AS_EDENIED: its files belong to another user; AS_EINVALID: the path is too long. */
#define AS_WORKER_PATH  108u /* bytes with the NUL */
#define AS_WORKER_TOKEN 65u
int as_worker_locate(const char *runtime_dir, uint32_t port, char ret_path[AS_WORKER_PATH],
                     char ret_token[AS_WORKER_TOKEN]);

/* Sets the answer to health checks: AS_STATUS_OK, or another status and the reason. `text` may be
 * NULL, and is cut at 255 bytes. */
void as_worker_set_health(struct as_worker *w, uint32_t status, const char *text);

/* What tenants get equal shares of. */
enum as_worker_fairness {
    AS_WORKER_FAIR_OFF,
    AS_WORKER_FAIR_REQUESTS,
    AS_WORKER_FAIR_ITEMS,
    AS_WORKER_FAIR_COST /* of the field of --cost-header */
};

/* Options of this replica, which replace the server's settings. A member that is 0: the server's
 * setting; AS_NEVER: no such limit. May be set at any time; changes are sent to the server, and
 * again over each new link. 0; AS_EINVALID: a time is over a day, health_timeout is AS_NEVER, there
 * is no such signal, or a number is out of range. */
struct as_worker_options {
    size_t size;
    as_ns health_period;      /* between two health checks */
    as_ns health_timeout;     /* a check that is not answered within this time has failed */
    as_ns execution_timeout;  /* the worker is killed if a handler runs for longer */
    as_ns request_timeout;    /* of the deployment: the deadline of requests that have none */
    uint32_t health_failures; /* failures in a row after which the worker is killed; at most 1000 */
    uint32_t dump_signal;     /* a signal that makes this process print its stacks and go on; sent
                             before     a kill. 0: none */
    /* Calls at once, instead of the slots of as_worker_conf. Executing calls go on; if there are
     * more than this, nothing starts until there are fewer. The max_ongoing of a model still holds
     * if it is below the slots of as_worker_conf. */
    uint32_t slots;
    int32_t idempotent; /* of the deployment, whatever its models declare: 1: requests may be
                           repeated; -1: they may not. 0: as the models declare */
    int64_t max_queued; /* of the deployment, instead of that of as_worker_conf; requests that are
                           queued already stay. -1: no limit; 0: as there */
    bool queued_per_caller; /* max_queued holds for each caller apart, not for all together */
    /* How clients of HTTP are refused when max_queued requests wait: with this status, 429 or 503;
     * 0: 503. And the delay in their field retry-after, which is rounded up to seconds; 0: the
     * server estimates it; AS_NEVER: a delay of 0. */
    uint32_t backpressure_status;
    as_ns backpressure_retry;
    /* Of the deployment: of so many calls that are sent while requests of lower priorities wait one
     * is theirs, 2 … 1000; 0: 8. */
    uint32_t priority_share;
    uint32_t fairness; /* among tenants: enum as_worker_fairness */
    /* Requests are shed that have waited for more than twice codel_target, while none has waited
     * for less than it for codel_interval. 0: nothing is shed, and 100 ms. AS_NEVER as 0. */
    as_ns codel_target, codel_interval;
    as_ns slow_start; /* in which a new replica beside others gets all of its slots; 0: at once */
    bool adaptive_concurrency; /* fewer requests at once while more only make them slower */
    /* A request that may be repeated is sent to a second replica when it has run for longer than
     * this part of the requests, in thousandths, up to 999; 0: none is. */
    uint32_t hedge_quantile;
    uint32_t hedge_budget; /* such requests, at most, per thousand, up to 1000; 0: 20 */
    as_ns hedge_min_delay; /* not before this time; 0: a millisecond; AS_NEVER: no minimum */
};
int as_worker_set_options(struct as_worker *w, const struct as_worker_options *options);

/* Canary, mirror and fallback of the deployment. Shares are in units of 1/AS_WORKER_SHARE. If the
 * workers of a deployment declare different values, the last declaration counts. May be set at any
 * time; it is sent to the server, and again over each new link. 0; AS_EINVALID: a share is above 1,
 * canary is set without is_canary, or the name is over 256 bytes. */
#define AS_WORKER_SHARE 100000u
struct as_worker_traffic {
    size_t size;
    bool is_canary;  /* its versions are never the default version, if there is another … */
    uint32_t canary; /* … but get this share of the requests that name no version */
    uint32_t
        mirror; /* it gets copies of this share of other versions' requests; answers are dropped */
    const char
        *fallback; /* deployment that gets requests while this one cannot serve; NULL: none */
};
int as_worker_set_traffic(struct as_worker *w, const struct as_worker_traffic *traffic);

/* How the server chooses a replica of the deployment for a request; docs/guide/routing.md has the
 * policies and the ranges. A member that is 0 or NULL: as the server has it. The last declaration
 * of the deployment's workers counts. May be set at any time; it is sent to the server, and again
 * over each new link. 0; AS_EINVALID: a value is out of range. */
struct as_worker_router {
    size_t size;
    const char *policy; /* "late_binding", "session" …; the server ignores one that it does
                           not know */
    const char *session_header; /* header or metadata that names the session */
    as_ns max_wait;             /* AS_NEVER: 0 */
    uint32_t virtual_nodes, bound, max_sessions;
    int32_t fallbacks; /* -1: none */
    as_ns session_ttl;
    bool prefer_local;
    as_ns ask_first, ask_max; /* a router of the program is asked again after … */
    uint32_t ask_factor;      /* percent */
};
int as_worker_set_router(struct as_worker *w, const struct as_worker_router *router);

/* --- the loop --- */

/* Serves until it is drained: after as_worker_stop, SIGTERM or SIGINT, or because the server ends.
 * While there is no server, it tries to connect at least four times a second. 0; AS_EDENIED,
 * AS_EEXISTS, AS_EINVALID: the server refused this worker, and the reason is in as_worker_error;
 * AS_EIO: cannot start threads. Runner. */
int as_worker_run(struct as_worker *w);
/* Makes as_worker_run drain and return, also if it is called before. The server is told at once,
 * also while a handler runs. Async-signal-safe. It has to return before as_worker_free is called.
 */
void as_worker_stop(struct as_worker *w);

/* The functions below are for handlers, with the handler's call and in its thread. */

/* The message of the request, or the last one from as_worker_call_receive. Its bytes are read-only,
 * 64-byte aligned, and valid until the handler returns or receives another message. */
const struct as_msg *as_worker_call_msg(const struct as_worker_call *call);
const struct as_tensor *as_worker_call_input(const struct as_worker_call *call, const char *name);
/* NULL: there is no such input */
/* The parameters of single inputs of that message: *ret_n, in the order of the inputs. */
const struct as_tensor_param *as_worker_call_tensor_params(const struct as_worker_call *call,
                                                           uint32_t *ret_n);
uint32_t as_worker_call_model(const struct as_worker_call *call); /* number of the model */
bool as_worker_call_cancelled(
    const struct as_worker_call *call); /* the client does not wait any more */
as_ns as_worker_call_deadline(const struct as_worker_call *call); /* AS_NEVER: none */
struct as_worker_req *
as_worker_call_req(const struct as_worker_call *call); /* for as_worker_req_hold */

/* Adds an output to the answer. Returns memory of the library for its elements, 64-byte aligned,
 * not zeroed. The name is copied. NULL: wrong arguments, datatype BYTES, too many outputs, or no
 * memory; the handler may then return AS_EINVALID, and the client gets the reason. */
void *as_worker_call_output(struct as_worker_call *call, const char *name, enum as_dtype dtype,
                            uint32_t ndim, const int64_t *shape);
/* Adds an output, of any datatype, in memory of yours: everything that `t` points to must stay
 * valid until the handler returns or has sent the answer. 0, AS_EINVALID, AS_ENOMEM. */
int as_worker_call_put(struct as_worker_call *call, const struct as_tensor *t);
/* Adds a parameter to the answer; it must stay valid as long. 0, AS_EINVALID, AS_ENOMEM. */
int as_worker_call_param(struct as_worker_call *call, const struct as_param *p);
/* Adds a parameter to one output that was added before. AS_EINVALID also if there is no such
 * output, or if the server reserves the parameter's name (binary_data_size, shared_memory_region
 * …). */
int as_worker_call_tensor_param(struct as_worker_call *call, const char *output,
                                const struct as_param *p);
/* Sets the status and text of a failure; returns AS_EHANDLER, so that a handler can
 * `return as_worker_call_fail(call, AS_STATUS_INVALID_ARGUMENT, "…")`. The text is cut at 511
 * bytes.
 */
int as_worker_call_fail(struct as_worker_call *call, uint32_t status, const char *text);

/* For decoupled models: sends the outputs so far as one response, and starts the next. Blocks while
 * the client does not read. When the handler returns 0, its remaining outputs are the last
 * response; without any, there is no further one. 0; AS_ECANCELLED: the handler should return, with
 * any result; AS_ETOOBIG; AS_EINVALID: the model is not decoupled. */
int as_worker_call_send(struct as_worker_call *call);
/* For models with streams_inputs: waits for the next message. 0; AS_EOF: there is no further one;
 * AS_ECANCELLED; AS_EINVALID: the model has no streams_inputs. */
int as_worker_call_receive(struct as_worker_call *call);

/* For models with batching: the handler is called once, with the first request of a batch. These
 * functions return all requests, including the first. Each has outputs of its own, and may fail
 * alone. If the handler does not return 0, all requests fail. */
uint32_t as_worker_call_count(const struct as_worker_call *call);
struct as_worker_call *as_worker_call_member(struct as_worker_call *call, uint32_t i);

/* --- step by step --- */

/* Connects, registers the models, waits for the server's answers, and grants slots. Blocks for at
 * most `timeout`. 0; AS_EUNAVAILABLE: there is no server, or it did not answer in time; try again
 * later; AS_EDENIED, AS_EEXISTS, AS_EINVALID: refused, the reason is in as_worker_error. Also
 * called to reconnect after the dispatcher's death: then requests that were not started are
 * dropped, and started ones are cancelled and their answers dropped. Runner. */
int as_worker_connect(struct as_worker *w, as_ns timeout);
/* The same in steps that do not block, for an event loop. begin: 0, or an error as above. step, to
 * be called whenever as_worker_fd is readable: 0: connected; AS_EAGAIN: not yet; else an error as
 * above. abort: gives up, after a timeout of the caller's. Runner. */
int as_worker_connect_begin(struct as_worker *w);
int as_worker_connect_step(struct as_worker *w);
void as_worker_connect_abort(struct as_worker *w);

/* Starts the next request and returns it, or NULL. The start is recorded on the status page before
 * this returns. Before it returns NULL it sends pending answers. Never blocks. At most `slots`
 * requests are started at once, and at most max_ongoing of a model. Requests start in the order in
 * which they arrived, except for models at their max_ongoing. */
struct as_worker_req *as_worker_next(struct as_worker *w);
/* The other requests of a batch, in the order in which they arrived. Start with the request that
 * as_worker_next has just returned, and pass each result to the next call; NULL: there are no more.
 * They started together; each is answered on its own, and the slot is free when all are. To be
 * called before the first of them is answered. */
struct as_worker_req *as_worker_next_member(struct as_worker *w, const struct as_worker_req *q);
/* Blocks until as_worker_next may return a request, a signal arrives, or as_worker_wake is called:
 * 0. AS_EOF: the link has ended, connect again. AS_ECANCELLED: the worker is drained. Runner. */
int as_worker_wait(struct as_worker *w);
void as_worker_wake(struct as_worker *w); /* async-signal-safe */
/* For an event loop, instead of as_worker_wait: a descriptor that is readable when there is
 * something to do. Then call as_worker_poll, as_worker_next until it returns NULL, and
 * as_worker_cancelled until it returns false. as_worker_poll reads and handles frames; its results
 * are those of as_worker_wait, and AS_EAGAIN: nothing can start. */
int as_worker_fd(const struct as_worker *w);
int as_worker_poll(struct as_worker *w);
/* Sends pending output now, as much as the socket takes; the rest follows by itself. For answers
 * that are given outside the runner's loop. */
void as_worker_flush(struct as_worker *w);
/* Asks the dispatcher for no new requests. When all are answered, wait and poll return
 * AS_ECANCELLED.
 */
void as_worker_drain(struct as_worker *w);

/* A request belongs to the caller until as_worker_answer, as_worker_finish or as_worker_fail, which
 * free it (its bytes stay as long as they are held). */
const struct as_msg *as_worker_req_msg(const struct as_worker_req *q);
/* The parameters of its single inputs: *ret_n, in the order of the inputs. */
const struct as_tensor_param *as_worker_req_tensor_params(const struct as_worker_req *q,
                                                          uint32_t *ret_n);
uint32_t as_worker_req_model(const struct as_worker_req *q);
as_ns as_worker_req_deadline(const struct as_worker_req *q); /* AS_NEVER: none */
/* It was cancelled, its deadline has passed, or the link is lost. */
bool as_worker_req_cancelled(const struct as_worker_req *q);
void as_worker_req_set_data(struct as_worker_req *q, void *data); /* for use by the caller */
void *as_worker_req_data(const struct as_worker_req *q);
/* Keeps the bytes of the request's tensors valid until as_worker_release_hold, also after the
 * request is answered and the worker is freed. When holds of small bodies pin 16 MiB of shared
 * receive buffers, further bodies are copied out of the buffers. So a handler that stores its
 * inputs uses memory for their size, and not 256 KiB for each. */
void *as_worker_req_hold(struct as_worker_req *q);
void as_worker_release_hold(void *hold);
/* Allocates n bytes, 64-byte aligned, which count in the worker's statistics: for data that is
 * combined from several requests. NULL: out of memory. as_worker_release_hold frees it. */
void *as_worker_hold_new(size_t n, uint8_t **ret_bytes);

/* For an event loop: calls `take` with one started request that was cancelled since. False: there
 * is none. Other threads may answer requests, but not this one during `take`: so `take` may read it
 * and take a reference to its as_worker_req_data. `take` must be short, and call no other function
 * of this header. After as_worker_cancelled has returned, another thread may have answered q. */
typedef void (*as_worker_visit)(void *ctx, struct as_worker_req *q);
bool as_worker_cancelled(struct as_worker *w, as_worker_visit take, void *ctx);

/* Answers q and frees it; the bytes of tensors are copied. 0; AS_ETOOBIG: the answer is larger than
 * the dispatcher accepts or a frame can describe; AS_ENOMEM. After an error nothing was sent, and q
 * still belongs to the caller. */
int as_worker_answer(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg);
/* Sets the n parameters of single outputs, in the order of the outputs, for the next message of
 * as_worker_answer or as_worker_part; they must stay valid until then. They are not sent to a
 * server that does not support them. 0; AS_EINVALID: wrong order, unknown type, or a name that the
 * server reserves (binary_data_size, shared_memory_region …). */
int as_worker_req_set_tensor_params(struct as_worker_req *q, const struct as_tensor_param *p,
                                    uint32_t n);
/* Answers q with an error, or ends a stream with one, and frees it. status: 1 … 16 (enum
 * as_grpc_status). */
void as_worker_fail(struct as_worker *w, struct as_worker_req *q, uint32_t status,
                    struct as_str message);

/* Decoupled models answer with any number of as_worker_part, and then as_worker_finish or
 * as_worker_fail. part: like as_worker_answer, but q stays the caller's. AS_EAGAIN: nothing was
 * sent, since the dispatcher has granted no credit; AS_ECANCELLED: the client does not wait any
 * more. A part is sent at once if none was sent within 100 us, else soon after. finish frees q. */
int as_worker_part(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg);
void as_worker_finish(struct as_worker *w, struct as_worker_req *q);
/* Whether a part may be sent: 0, AS_EAGAIN or AS_ECANCELLED. Does not block. */
int as_worker_room(struct as_worker *w, struct as_worker_req *q);
/* Blocks until a part may be sent (0), or AS_ECANCELLED. Any thread, including the runner. */
int as_worker_await_room(struct as_worker *w, struct as_worker_req *q);

/* For models with streams_inputs: q is the first message, and these are the others; for calls with
 * inputs (anyserve/calls.h): all messages. 0: *ret_input
 * is the next one, which must be returned with as_worker_drop_input before q is answered;
 * AS_EAGAIN: none now; AS_EOF: there is no further one; AS_ECANCELLED. */
int as_worker_next_input(struct as_worker *w, struct as_worker_req *q,
                         struct as_worker_req **ret_input);
void as_worker_drop_input(struct as_worker *w, struct as_worker_req *q,
                          struct as_worker_req *input);
/* Blocks until as_worker_next_input would not return AS_EAGAIN. Any thread, including the runner.
 */
void as_worker_await_input(struct as_worker *w, struct as_worker_req *q);

/* For an event loop: true if what q waits for is available: room for a part, or an input or the end
 * of the inputs. False: as_worker_ready will return q when it is. A cancel is reported by
 * as_worker_cancelled instead. */
enum as_worker_want { AS_WANT_ROOM = 1, AS_WANT_INPUT = 2 };
bool as_worker_want(struct as_worker *w, struct as_worker_req *q, enum as_worker_want what);
/* Calls `take` with one such request, like as_worker_cancelled; *ret_what: what is available now.
 * False: there is none. */
bool as_worker_ready(struct as_worker *w, unsigned *ret_what, as_worker_visit take, void *ctx);

/* Makes a request here, to warm a model up before the first connect. It is checked as the server
 * checks requests, and started; it takes no slot. Answer it like any other: the answer is checked
 * and dropped. A model with streams_inputs gets one input. `done` is called by the function that
 * ends the request: AS_STATUS_OK, or another status and a text that is valid during the call. Not
 * for models with `opaque`, whose bodies only their callers can make. 0,
 * and msg is copied; AS_EINVALID: refused, the reason is in as_worker_error; AS_ENOMEM. Not while
 * connected. Runner. */
int as_worker_rehearse(struct as_worker *w, uint32_t model, const struct as_msg *msg,
                       void (*done)(void *ctx, uint32_t status, struct as_str text), void *ctx,
                       struct as_worker_req **ret_q);

/* The same for a program that calls its own models within one process. The answer is checked and
 * passed to `part`: one message, or any number for a decoupled model. `part`, `took` and `done` are
 * called by the thread that answers, without a lock; `done` is the last call, and q is freed then.
 */
struct as_worker_local {
    size_t size;
    const struct as_msg *msg; /* copied */
    bool more;     /* with streams_inputs: further messages follow by as_worker_local_input */
    uint32_t room; /* most parts until as_worker_local_room allows more; 0: no limit */
    void (*part)(
        void *ctx,
        const struct as_msg *msg); /* msg is valid during the call; NULL: the answer is dropped */
    void (*took)(void *ctx);       /* the handler has consumed one more input; may be NULL */
    void (*done)(void *ctx, uint32_t status, struct as_str text);
    void *ctx;
    const struct as_tensor_param *tensor_params; /* of the inputs, in their order; copied */
    uint32_t n_tensor_params;
};
/* 0; AS_EINVALID: refused, the reason is in as_worker_error; AS_ENOMEM. Not while connected. */
int as_worker_local(struct as_worker *w, uint32_t model, const struct as_worker_local *local,
                    struct as_worker_req **ret_q);
/* Sends a further message and the parameters of its single inputs, which are copied; msg NULL:
 * there is no further one. *ret_wanted: a handler on an event loop waits for it (as_worker_want),
 * and the caller must notify that loop. Errors as above. This function and those below may be
 * called by any thread that knows that q has not ended. */
int as_worker_local_input(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg,
                          const struct as_tensor_param *params, uint32_t n_params,
                          bool *ret_wanted);
/* During `part`: the parameters of single outputs of its message: *ret_n, in the order of the
 * outputs. */
const struct as_tensor_param *as_worker_local_tensor_params(const struct as_worker_req *q,
                                                            uint32_t *ret_n);
/* Allows so many more parts. True: a handler on an event loop waits for that. */
bool as_worker_local_room(struct as_worker *w, struct as_worker_req *q, uint32_t parts);
/* Cancels the request. A handler on an event loop must be cancelled there by the caller. */
void as_worker_local_cancel(struct as_worker *w, struct as_worker_req *q);

/* CONTROL requests to the replica itself, with AS_WORKER_ASKS: call as_worker_next_ask before each
 * as_worker_next, and after each as_worker_poll. NULL: there is none, or the last one is not
 * answered yet. It belongs to the caller until as_worker_reply, which any thread may call; its text
 * is cut at 16 KiB. Runner. */
struct as_worker_ask;
enum as_worker_ask_op { AS_WORKER_HEALTH = 1, AS_WORKER_RECONFIGURE = 2, AS_WORKER_SCALING = 6 };
struct as_worker_ask *as_worker_next_ask(struct as_worker *w);
enum as_worker_ask_op as_worker_ask_op(const struct as_worker_ask *ask);
struct as_str as_worker_ask_text(const struct as_worker_ask *ask);
void as_worker_reply(struct as_worker *w, struct as_worker_ask *ask, uint32_t status,
                     struct as_str text);
/* For an event loop: busy says that the runner is inside a sync handler from now on. Health checks
 * then wait, and that time does not count for them; execution_timeout bounds it. Without an event
 * loop the library knows this by itself. Runner. */
void as_worker_busy(struct as_worker *w, bool busy);

/* In a forked child: closes the descriptors; the memory is leaked. No other function may be called
 * with w afterwards. */
void as_worker_forked(struct as_worker *w);

#ifdef __cplusplus
}
#endif

#include "calls.h"
#include "http.h"
#include "policy.h"
#include "websocket.h"

#endif
