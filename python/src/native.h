/* native.h — the C extension anyserve._native: binds anyserve/worker.h to Python and numpy.
 *
 *   py_util.h            short forms of Python's C interface
 *   native.c             the module and Link: connecting, the synchronous runner
 *   model.c              a declared model, read once
 *   array.h, array.c     tensors as numpy arrays, over the link's bytes or copied
 *   request.c            the Request object; a message as dicts
 *   request_construct.c  a Request that Python code makes, for unit tests
 *   batch.c              several requests in one call: stacked inputs, split results
 *   args.c               inputs and the Request as the arguments of the handler
 *   call.c               one call of a handler: result or exception, coroutines
 *   handler_error.c      an exception of a handler as a gRPC status and text
 *   loop.c               the link within an event loop: turns, the wait, tasks
 *   sync_handler.c       sync handlers in a worker with an event loop: on its thread or in another
 *   stream.c             a request with several answers or inputs: generators, waiting
 *   admin.c              requests to the replica itself; its options
 *   policy.c             records for a policy process
 *   message.h, message.c requests that the SDK makes itself, from Python values
 *   local.c              the same, with their answers, in one process with the caller
 *   calls/               calls of deployments, whose bodies are opaque to the server
 *   result.c             what a handler returned: its form, its names
 *   output.c             one value of it as a tensor
 *   lossy_values.c       values of which numpy would silently lose something
 *
 * It uses the public worker library and no other code of AnyServe. Decisions are made in Python.
 * Everything here runs with the GIL; it is released only while waiting.
 */
#ifndef ANYSERVE_NATIVE_H
#define ANYSERVE_NATIVE_H

#include "py_util.h"

#include <anyserve/worker.h>

/* A parameter of a handler, for an input or for the Request. */
struct param {
    PyObject *name;
    struct as_str utf8;
    PyObject *fallback; /* its default value; NULL: it is required */
    bool request;       /* it gets the Request, or the list of them in a batch */
};

#define NATIVE_WHY 2048u /* bytes of a text about a client's mistake; long names are cut */

#define NATIVE_CACHED_NAMES    8u  /* inputs of a model whose names are cached … */
#define NATIVE_CACHED_NAME_MAX 64u /* … if they have at most this many bytes */

struct model {
    PyObject *name, *version; /* str */
    PyObject *where;          /* str: file and line of its handler, for messages */
    PyObject *cached_names[NATIVE_CACHED_NAMES]; /* names of the last request's inputs, by position;
                                                    or NULL */
    PyObject *handler;
    PyObject *submit; /* gets a Call and runs it in a thread; NULL: the model has no threads */
    bool is_async, eager, var_keyword, takes_request;
    bool decoupled;      /* the handler gives any number of results */
    bool streams_inputs; /* the handler is called with a Stream, and nothing else */
    bool opaque;  /* requests are calls: the handler is called with an Incoming (opaque.h) … */
    bool http;    /* … or, for a request of HTTP, with an Http (http/http.h) */
    bool batched; /* a call is for several requests … */
    bool as_list, ragged; /* … an input is a list of arrays; their shapes may differ */
    uint32_t short_calls; /* of a sync handler beside an event loop: short calls in a row … */
    uint32_t short_calls_needed; /* … and the number that moves it to the loop's thread */
    struct param *params;
    Py_ssize_t n_params;
    PyObject *kwnames; /* tuple: names of the last parameters, which are keyword-only; or NULL */
    bool has_outputs;
    struct as_tensor_spec *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    PyObject *output_names; /* tuple of str, declared order */
    PyObject *text_owners;  /* list: the objects that the texts of the specs lie in */
};

struct usage {
    as_ns cpu;
    long voluntary;   /* voluntary context switches: waits for anything but a CPU */
    long involuntary; /* involuntary context switches: something else got the CPU */
};

typedef struct {
    PyObject_HEAD struct as_worker *w;
    struct model *models;
    uint32_t n_models;
    uint64_t max_message;
    PyObject *on_error;  /* (model name, where, exception) -> (gRPC status, text) */
    PyObject *on_ask;    /* (op, text, capsule); or NULL */
    PyObject *on_policy; /* (number of a link, records); or NULL */
    PyObject *trace;  /* contextvars.ContextVar: the id of the request whose code runs; or NULL */
    Py_ssize_t calls; /* started requests that are not answered */
    bool connecting;  /* connect_begin() was called and is not complete */
    /* with an event loop; else NULL: */
    PyObject *loop;
    PyObject *spawn;    /* Call -> task */
    PyObject *schedule; /* () schedules a turn */
    PyObject *drive; /* (Stream, what the handler returned) -> coroutine that serves the stream */
    PyObject *on_link_event;  /* (event): None (connecting goes on), 'lost' or 'drained' */
    PyObject *run_in_thread;  /* gets a Call and runs it in a thread; NULL: no handler needs it */
    PyObject *ready, *timers; /* the loop's ready queue and timers, if it is asyncio's; or NULL */
    int link_fd, epoll_fd;    /* epoll_fd: the loop's, if wait() replaces its wait; else -1 */
    bool starts_at_once;      /* the first step of a task runs at once … */
    bool captures_first_step; /* … because the loop is a LoopBase, without eager tasks of its own */
    bool in_turn, scheduled;
    bool in_sync;      /* sync handlers run on the loop's thread … */
    PyObject *context; /* … with these context variables */
    struct usage before;
    Py_ssize_t n_in_thread; /* calls that are in a thread, or on their way there */
    /* calls that this process opens: */
    struct out *outs;          /* those that have not ended */
    PyObject *targets;         /* a dict: (application, deployment) by their number; or NULL */
    Py_ssize_t n_blocked;      /* threads in the library, without the lock of the interpreter */
    unsigned long loop_thread; /* the thread of the loop */
    bool has_calls;            /* a call was opened */
    bool steps_at_once;        /* a coroutine that waits for a call goes on within the turn … */
    bool may_step;             /* … and may do so now, since no other Python code is below it */
    bool is_driver, stop_calls, forked;
} Link;

typedef struct {
    PyObject_HEAD struct as_worker_req *q; /* NULL: it is answered */
    Link *link; /* keeps m alive; NULL: the Request was made in Python, and owns m */
    struct model *m;
    PyObject *hold, *inputs, *parameters, *id, *metadata, *input_parameters;
    uint32_t items;
    as_ns deadline;
    bool cancelled;
} Request;

/* The messages of a request that has several, for the coroutine that serves it. */
typedef struct {
    PyObject_HEAD struct as_worker_req *q; /* NULL: the request is over */
    Link *link;
    struct model *m;
    PyObject *room_waiter, *input_waiter; /* futures that the coroutine waits for; or NULL */
    bool began;                           /* the first input was handed out */
} Stream;
/* The requests of one call of a model with batching. */
struct group {
    Py_ssize_t n, cancelled;
    PyObject *requests; /* list of Request; NULL: the handler does not take it */
    struct member {
        struct as_worker_req *q; /* NULL when answered */
        PyObject *hold;
        int64_t items; /* rows of each input */
    } at[];
};

/* A call of a handler, for one request or for those of a batch. It owns `request` and `group`. */
struct execution {
    Link *link;
    struct model *m;
    struct as_worker_req *q; /* NULL when answered; the first request of a batch */
    Request *request;        /* what the handler gets; or NULL */
    struct group *group;     /* of a batch; or NULL */
};

/* A call whose handler has not returned: a coroutine, or a call for a thread. */
typedef struct {
    PyObject_HEAD struct execution x; /* with a reference to its link */
    Stream *stream;                   /* or NULL */
    PyObject *coro, *task;
    PyObject *first; /* the future that the coroutine yielded before it had a task */
    bool traced;     /* the request's id is set in the task's context */
} Call;

extern PyTypeObject native_request_type, native_call_type, native_stream_type, native_loop_type,
    native_local_type;
extern PyObject *native_response_type; /* anyserve.Response */
extern PyObject *native_output_error;  /* raised for a result that is not a valid answer */

/* model.c: reads a model that the SDK has checked. ret_r: what is registered with the dispatcher;
 * it points into m, and is valid as long as m. -1 with an exception: m is incomplete, and the
 * process must end. */
int native_model_init(struct model *m, PyObject *o, struct as_worker_model *ret_r);
void native_models_drop_handlers(Link *l); /* drops references to handlers; no call may follow */
/* Called when the link is freed; every call and request keeps it alive. */
void native_models_free(Link *l);

/* request.c */
/* All NULL: for request_construct.c. */
Request *native_request_new(Link *l, struct model *m, struct as_worker_req *q);
/* Called before the answer, without an exception set: if user code still has a reference, makes the
 * attributes that were not read yet. */
void native_request_detach(Request *r);
/* Makes all attributes now, so that they do not depend on q. -1 with an exception. */
int native_request_materialize(Request *r);

/* request.c, for answers: a new dict of arrays, which are copies; a new dict of parameters. */
PyObject *native_outputs(const struct as_msg *msg);
PyObject *native_parameters(const struct as_msg *msg);
/* Parameters of single tensors: a new dict of dicts, by the tensor's name; a tensor without
 * parameters is not in it. */
PyObject *native_tensor_parameters(const struct as_msg *msg, const struct as_tensor_param *p,
                                   uint32_t n);

/* local.c */
PyObject *native_link_local(PyObject *self, PyObject *args);

/* request_construct.c */
PyObject *native_request_construct(PyTypeObject *type, PyObject *args, PyObject *kw);
/* Frees what only a constructed Request has. */
void native_request_free_constructed(Request *r);

/* args.c: calls the handler with the inputs of its request or batch. NULL: an exception is set, or
 * `why` says what the client did wrong. */
PyObject *native_call_handler(struct execution *x, char why[NATIVE_WHY]);

/* call.c */
/* Runs or starts a request; afterwards it is answered, or owned by a Call. -1: an exception that
 * ends the worker. */
int native_call_start(Link *l, struct as_worker_req *q);
/* call: what is the data of a request: a Call, an Incoming, or NULL. */
void native_call_cancel(PyObject *call);
void native_call_stream_ready(PyObject *call, unsigned what);
/* Ends a request with an error. */
void native_fail(Link *l, struct as_worker_req *q, uint32_t code, struct as_str text);

/* handler_error.c */
int native_handler_error_init(void);
/* asyncio.CancelledError, or a substitute while asyncio is not loaded. */
void native_set_cancelled(void);         /* raises it */
bool native_is_cancelled(PyObject *exc); /* no exception may be set */
bool native_raised_cancelled(void); /* checks the current exception, and clears it if it is one */
/* What the client gets for an exception. Asks the SDK, once; the SDK also logs the exception. */
struct handler_error {
    unsigned int code;
    struct as_str text;
    PyObject *text_owner; /* the object that `text` lies in, or NULL; the caller drops it */
    bool is_cancelled;    /* the exception also ends the task, so the caller must raise it again */
};
/* q: the request, or NULL: it was raised for several. */
void native_handler_error(Link *l, struct model *m, const struct as_worker_req *q, PyObject *exc,
                          struct handler_error *ret_v);

/* batch.c */
/* Collects the requests of the call that begins with x->q in x->group. NULL: an exception is set,
 * and the requests are unanswered; or they do not have the same form, and are answered (*ret_failed
 * is set). */
struct group *native_group_new(struct execution *x, bool *ret_failed);
void native_group_free(struct group *g);
/* The handler's argument for tensor k. */
PyObject *native_group_array(struct model *m, struct group *g, uint32_t k);
/* Answers all with what the handler returned. -1 with an exception: some are unanswered. */
int native_group_answer(struct execution *x, PyObject *result);
/* Fails the requests that are unanswered. */
void native_group_fail(struct execution *x, uint32_t code, struct as_str text);

/* native.c: what run() and turn() report about the link: None, 'lost', 'drained'. */
PyObject *native_link_outcome(int r);

/* loop.c */
int native_loop_init(void);
/* Makes the task of a coroutine. NULL with an exception: if the call is answered, the exception
 * ends the worker. */
PyObject *native_spawn_task(Link *l, PyObject *coro, PyObject *name);
/* In the loop's thread: sets the result of a future. If `may_step` is set, the task that waits for
 * it goes on before this returns. */
void native_loop_wake(Link *l, PyObject *future, PyObject *name_set_result);
/* Schedules a turn, which publishes answers that are given outside a turn. */
void native_schedule_turn(Link *l);
/* Methods of Link. */
PyObject *native_link_use_loop(PyObject *self, PyObject *args);
PyObject *native_link_turn(PyObject *self, PyObject *unused);
PyObject *native_link_wait(PyObject *self, PyObject *timeout);
PyObject *native_link_wait_with(PyObject *self, PyObject *fd);

/* sync_handler.c; all on the loop's thread, except record and clock */
int native_sync_init(Link *l); /* -1 with an exception */
void native_sync_init_model(struct model *m);
/* True: the next call of m's handler runs in a thread. */
bool native_sync_in_thread(const Link *l, const struct model *m);
/* Called before and after sync handlers run on the loop's thread: any number of handlers in
 * between, but no other Python code, which would find no running loop. */
void native_sync_enter(Link *l);
void native_sync_leave(Link *l);
/* Records how long a call took. here: it ran on the loop's thread. */
void native_sync_record(Link *l, struct model *m, as_ns took, bool here);
as_ns native_sync_clock(void);

/* admin.c: passes requests to the replica itself to Python; -1 with an exception that ends the
 * worker. */
int native_admin_poll(Link *l);
PyObject *native_link_on_ask(PyObject *self, PyObject *callable);
PyObject *native_link_reply(PyObject *self, PyObject *args);
PyObject *native_link_set_options(PyObject *self, PyObject *args);
PyObject *native_link_set_traffic(PyObject *self, PyObject *args);
PyObject *native_link_set_router(PyObject *self, PyObject *args);
PyObject *native_link_set_services(PyObject *self, PyObject *args);

/* policy.c: passes records to Python; -1 with an exception that ends the worker. */
int native_policy_poll(Link *l);
PyObject *native_link_on_policy(PyObject *self, PyObject *callable);
PyObject *native_link_send_policy(PyObject *self, PyObject *args);
PyObject *native_link_spawn(PyObject *self, PyObject *coro);

/* stream.c */
Stream *native_stream_new(Link *l, struct model *m, struct as_worker_req *q);
/* Sends all results of a generator. None, or NULL with an exception. */
PyObject *native_stream_run(Link *l, struct model *m, struct as_worker_req *q, PyObject *generator);
void native_wake_future(PyObject *future);  /* sets its result, unless it is done */
void native_wake_waiter(PyObject **waiter); /* the same for a future, None or NULL; and clears it */
/* Wakes the coroutine that waits for the Stream; what: bits of enum as_worker_want. */
void native_stream_notify(Stream *s, unsigned what);

/* result.c: sends one result of several; -1 with an exception, CancelledError if the request was
 * cancelled. */
int native_send_part(Link *l, struct model *m, struct as_worker_req *q, PyObject *result);
/* Answers q with what the handler returned; -1 with an exception: q is unanswered. */
int native_answer(Link *l, struct model *m, struct as_worker_req *q, PyObject *result);
/* The same for one request of a batch: each output must have this many rows. */
int native_answer_rows(Link *l, struct model *m, struct as_worker_req *q, PyObject *result,
                       int64_t rows);

#endif
