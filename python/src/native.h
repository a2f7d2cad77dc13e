/* native.h — the C extension anyserve._native: binds anyserve/worker.h to Python and numpy.
 *
 *   native.c    the module and Link: connecting, the synchronous runner, turns of an event loop
 *   model.c     a declared model, read once
 *   request.c   inputs as arrays over the link's bytes; the Request object
 *   batch.c     several requests in one call: stacked inputs, split results
 *   args.c      inputs and the Request as the arguments of the handler
 *   call.c      one call of a handler: result or exception, coroutines
 *   loop.c      the link within an event loop: turns, the wait, tasks
 *   beside.c    handlers that are not async, beside an event loop or on its thread
 *   stream.c    a request with several answers or inputs: generators, what waits for what
 *   rehearse.c  requests that the SDK makes itself
 *   local.c     … and takes the answers of, in one process with its caller
 *   made.c      a Request that Python code makes, for unit tests
 *   result.c    what a handler returned: its form, its names
 *   output.c    one value of it as a tensor
 *   losses.c    what numpy would lose of it
 *
 * It uses the public library and nothing else of AnyServe's. Policy stays in Python. Everything
 * here runs with the GIL; it is released only while waiting.
 */
#ifndef ANYSERVE_NATIVE_H
#define ANYSERVE_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API  NPY_1_7_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL anyserve_array_api
#ifndef ANYSERVE_IMPORT_ARRAY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include <anyserve/worker.h>
#include <string.h>

#define AS_COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define AS_MIN(a, b) ((a) < (b) ? (a) : (b))
#define AS_UNUSED    __attribute__((unused))
#define AS_US        ((as_ns)1000) /* as_ns counts nanoseconds */
#define AS_MS        (1000 * AS_US)
#define AS_SEC       (1000 * AS_MS)
#define AS_STR(lit)  ((struct as_str){(lit), sizeof(lit) - 1})

static inline struct as_str as_str_of(const char *z)
{
    return (struct as_str){z, z ? strlen(z) : 0};
}

static inline bool as_str_eq(struct as_str a, struct as_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* A parameter of a handler that takes an input, or the Request. */
struct param {
    PyObject *name;
    struct as_str utf8;
    PyObject *fallback; /* its default; NULL: required */
    bool request;       /* it takes the request, or those of a batch */
};

#define NATIVE_WHY 2048u /* bytes of what a client did wrong: names of tensors, cut */

#define NATIVE_SEEN      8u  /* inputs of a model whose names are kept … */
#define NATIVE_SEEN_NAME 64u /* … up to so many bytes */

struct model {
    PyObject *name, *version;    /* str */
    PyObject *where;             /* str: file and line of its handler, for people */
    PyObject *seen[NATIVE_SEEN]; /* names of the last request's inputs, by position; or NULL */
    PyObject *handler;
    PyObject *submit; /* callable that takes a Call, for models with threads; or NULL */
    bool is_async, eager, var_keyword, takes_request;
    bool decoupled;       /* the handler gives any number of results */
    bool streams_inputs;  /* it is called with a Stream, and nothing else */
    bool batched;         /* a call takes several requests … */
    bool as_list, ragged; /* … and an input is a list of arrays; their shapes may differ */
    uint32_t short_calls; /* not async, in a worker with an event loop: short calls in a row … */
    uint32_t short_calls_needed; /* … of which so many let it run on the loop's thread: beside.c */
    struct param *params;
    Py_ssize_t n_params;
    PyObject *kwnames; /* tuple: names of the last parameters, which are keyword-only; or NULL */
    bool has_outputs;
    struct as_tensor_spec *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    PyObject *output_names; /* tuple of str, declared order */
    PyObject *text_owners;  /* list: what the texts of the specs are in */
};

struct usage {
    as_ns cpu;
    long voluntary;   /* for anything but a CPU */
    long involuntary; /* of the CPU, to others */
};

typedef struct {
    PyObject_HEAD struct as_worker *w;
    struct model *models;
    uint32_t n_models;
    uint64_t max_message;
    PyObject *on_error; /* (model name, where, exception) -> (gRPC status, text) */
    PyObject *on_ask;   /* (op, text, capsule); or NULL */
    PyObject *trace;    /* contextvars.ContextVar: the id of the request whose code runs; or NULL */
    Py_ssize_t calls;   /* requests that are not answered */
    bool greeting;      /* connect_begin() has not come to its end */
    /* with an event loop, else NULL: */
    PyObject *loop;
    PyObject *spawn;          /* Call -> task */
    PyObject *schedule;       /* () -> a turn soon */
    PyObject *drive;          /* (Stream, what the handler returned) -> coroutine */
    PyObject *on_link_event;  /* None, 'lost' or 'drained' -> None */
    PyObject *run_in_thread;  /* takes a Call, which a thread runs; NULL: no handler needs it */
    PyObject *ready, *timers; /* of asyncio's loops: what is due, and what will be; or NULL */
    int link_fd, epoll_fd;    /* the link's; that of the loop, where we wait in its place, or -1 */
    bool begins_at_once;      /* tasks do that … */
    bool keeps_steps;         /* … because the loop is a LoopBase: there are no eager tasks */
    bool in_turn, scheduled;
    bool in_sync;      /* handlers that are not async run on the loop's thread … */
    PyObject *context; /* … with these context variables */
    struct usage before;
    Py_ssize_t n_in_thread; /* calls in that thread, or on their way there */
} Link;

typedef struct {
    PyObject_HEAD struct as_worker_req *q; /* NULL when answered */
    Link *link; /* keeps the model; NULL: made.c's, the model is its own */
    struct model *m;
    PyObject *hold, *inputs, *parameters, *id, *metadata, *input_parameters;
    uint32_t items;
    as_ns deadline;
    bool cancelled;
} Request;

/* The messages of a request that has several, for the coroutine that serves it. */
typedef struct {
    PyObject_HEAD struct as_worker_req *q; /* NULL when it is over */
    Link *link;
    struct model *m;
    PyObject *room_waiter, *input_waiter; /* futures of who waits; or NULL */
    bool began;                           /* the first input was given */
} Stream;
/* The requests of one call, of a model with batching. */
struct group {
    Py_ssize_t n, cancelled;
    PyObject *requests; /* list of Request, or NULL: the handler does not take it */
    struct member {
        struct as_worker_req *q; /* NULL when answered */
        PyObject *hold;
        int64_t items; /* rows of each input */
    } at[];
};

/* A started request whose handler has not returned: a coroutine, or work for a thread. */
typedef struct {
    PyObject_HEAD Link *link;
    struct model *m;
    struct as_worker_req *q; /* NULL when answered */
    Request *request;        /* or NULL */
    Stream *stream;          /* or NULL */
    struct group *group;     /* or NULL; q is its first */
    PyObject *coro, *task;
    PyObject *first; /* what the coroutine yielded before it had a task */
    bool traced;     /* the task's context has the request's id */
} Call;

extern PyTypeObject native_request_type, native_call_type, native_hold_type, native_stream_type,
    native_loop_type, native_local_type;
extern PyObject *native_response_type; /* anyserve.Response */
extern PyObject *native_output_error;  /* raised for a result that is no answer */

/* The current exception with its traceback, taken off; a new reference. */
static inline PyObject *native_fetch_exception(void)
{
#if PY_VERSION_HEX >= 0x030c0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
#endif
}

/* Elements of a tensor that was checked. */
static inline uint64_t native_count(const struct as_tensor *t)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < t->ndim; i++)
        n *= (uint64_t)t->shape[i];
    return n;
}

/* model.c: reads a model that the SDK has checked, and what the dispatcher is told of it, which
 * points into m and stays as long. -1 with an exception: m is half made, and the process must end.
 */
int native_model_init(struct model *m, PyObject *o, struct as_worker_model *ret_r);
void native_models_drop_handlers(Link *l); /* handlers: no call follows */
void native_models_free(Link *l);          /* with the link, which every call and request keeps */

/* request.c */
int native_request_init(void);
PyArray_Descr *native_descr(enum as_dtype t); /* borrowed */
/* An array over the tensor's bytes. *hold is made at the first need; the caller drops it. */
PyObject *native_array(struct as_worker_req *q, const struct as_tensor *t, PyObject **hold);
/* One array over several tensors of a kind, one behind the other: a copy of `rows` rows. */
PyObject *native_stack(const struct as_tensor *const *t, Py_ssize_t n, int64_t rows);
Request *native_request_new(Link *l, struct model *m, struct as_worker_req *q);
/* Before the answer, no exception set: makes what it still lacks if somebody else refers to it. */
void native_request_detach(Request *r);
/* Now, with all that it holds: whatever becomes of its q. -1 with an exception. */
int native_request_materialize(Request *r);

/* rehearse.c: a message as Python has it: tensors, a list of (name, datatype, shape, bytes) or
 * (…, parameters);
 * parameters and metadata (or NULL), dicts; id, a str. It points into these. */
struct message {
    struct as_msg msg;
    struct as_tensor *t;
    int64_t (*dims)[AS_MAX_DIMS];
    struct as_param *p;
    struct as_meta *m;
    struct as_tensor_param *own; /* of single tensors */
    uint32_t n_own;
};
int native_message_read(struct message *s, PyObject *tensors, PyObject *params, PyObject *id,
                        PyObject *meta); /* -1 with an exception */
void native_message_free(struct message *s);

/* request.c, for answers: a new dict of arrays that are copies, a new dict of parameters. */
PyObject *native_outputs(const struct as_msg *msg);
PyObject *native_parameters(const struct as_msg *msg);
/* Of single tensors of the message: a new dict of dicts, by name; tensors without any are not in
 * it.
 */
PyObject *native_tensor_parameters(const struct as_msg *msg, const struct as_tensor_param *p,
                                   uint32_t n);

/* local.c */
PyObject *native_link_local(PyObject *self, PyObject *args);

/* made.c */
PyObject *native_request_construct(PyTypeObject *type, PyObject *args, PyObject *kw);
void native_request_free_constructed(
    Request *r); /* what it has beyond the attributes of every request */

/* args.c: calls the handler of m with what q carries; `r` and `g` may be NULL. NULL: an exception
 * is set, or `why` says what the client did wrong. */
PyObject *native_call_handler(struct model *m, struct as_worker_req *q, Request *r, struct group *g,
                              char *why, size_t cap);

/* call.c */
/* Runs or starts a request; always leaves it answered, or owned by a Call. -1: an exception that
 * ends the worker. */
int native_call_start(Link *l, struct as_worker_req *q);
void native_call_cancel(Call *c); /* both: NULL is fine */
void native_call_stream_ready(Call *c, unsigned what);
/* Every request that is not answered ends here. */
void native_fail(Link *l, struct as_worker_req *q, uint32_t code, struct as_str text);

/* judge.c */
int native_handler_error_init(void);
/* asyncio.CancelledError, or what stands for it while asyncio is not loaded. */
void native_set_cancelled(void);         /* raises it */
bool native_is_cancelled(PyObject *exc); /* none is set */
bool native_raised_cancelled(void);      /* the one that is set: then it is cleared */
/* What an exception means to the client. The SDK is asked once, and logs. */
struct handler_error {
    unsigned int code;
    struct as_str text;
    PyObject *text_owner; /* what text lies in, or NULL; the caller drops it */
    bool is_cancelled;    /* the exception ends a task, too: it has to go on */
};
void native_handler_error(Link *l, struct model *m, PyObject *exc, struct handler_error *ret_v);

/* batch.c */
/* The call that begins with q. NULL: an exception is set, q and its like are unanswered; or they do
 * not fit each other, and are answered. *ret_failed: which. */
struct group *native_group_new(Link *l, struct model *m, struct as_worker_req *q, bool *ret_failed);
void native_group_free(struct group *g);
/* The argument for tensor k. */
PyObject *native_group_array(struct model *m, struct group *g, uint32_t k);
/* Answers all with what the handler returned. -1 with an exception: some are unanswered. */
int native_group_answer(Link *l, struct model *m, struct group *g, PyObject *result);
/* Fails those that are unanswered. */
void native_group_fail(Link *l, struct group *g, uint32_t code, struct as_str text);

/* native.c: what run() and turn() say of the link: None, 'lost', 'drained'. */
PyObject *native_link_outcome(int r);

/* loop.c */
int native_loop_init(void);
/* The task of a call. NULL with an exception: if the call is answered, it ends the worker. */
PyObject *native_spawn_task(Link *l, PyObject *call);
/* Answers that are given outside a turn are published by the next one. */
void native_schedule_turn(Link *l);
/* Methods of Link. */
PyObject *native_link_use_loop(PyObject *self, PyObject *args);
PyObject *native_link_turn(PyObject *self, PyObject *unused);
PyObject *native_link_wait(PyObject *self, PyObject *timeout);
PyObject *native_link_wait_with(PyObject *self, PyObject *fd);

/* beside.c, all on the loop's thread but learn and clock */
int native_sync_init(Link *l); /* -1 with an exception */
void native_sync_init_model(struct model *m);
/* The next call of m's handler runs in the thread beside the loop. */
bool native_sync_in_thread(const Link *l, const struct model *m);
/* Before and after such handlers run on the loop's thread: any number in between, but nobody else's
 * Python code, which would find no running loop. */
void native_sync_enter(Link *l);
void native_sync_leave(Link *l);
/* A call took so long. here: on the loop's thread. */
void native_sync_record(Link *l, struct model *m, as_ns took, bool here);
as_ns native_sync_clock(void);

/* ask.c: hands over what was asked; -1 with an exception that ends the worker. Methods of Link. */
int native_admin_poll(Link *l);
PyObject *native_link_on_ask(PyObject *self, PyObject *callable);
PyObject *native_link_reply(PyObject *self, PyObject *args);
PyObject *native_link_set_options(PyObject *self, PyObject *args);
PyObject *native_link_set_traffic(PyObject *self, PyObject *args);

/* rehearse.c: a method of Link. */
PyObject *native_link_rehearse(PyObject *self, PyObject *args);

/* stream.c */
Stream *native_stream_new(Link *l, struct model *m, struct as_worker_req *q);
/* Sends what a generator gives, to its end. None, or NULL with an exception. */
PyObject *native_stream_run(Link *l, struct model *m, struct as_worker_req *q, PyObject *generator);
/* What the Stream of a request waits for has come: bits of enum as_worker_want. */
void native_stream_notify(Stream *s, unsigned what);

/* result.c: sends one result of several; -1 with an exception: CancelledError when nobody waits. */
int native_send_part(Link *l, struct model *m, struct as_worker_req *q, PyObject *result);
/* answers q with what the handler returned; -1 with an exception: q is unanswered. */
int native_answer(Link *l, struct model *m, struct as_worker_req *q, PyObject *result);
/* Likewise, of one request of a batch: each output must have so many rows. */
int native_answer_rows(Link *l, struct model *m, struct as_worker_req *q, PyObject *result,
                       int64_t rows);

#endif
