/* calls/opaque.h — calls of deployments (anyserve/calls.h) for Python: serving and opening them.
 *
 *   body.c       Body: a body that has come; a body that is to be sent, of Python objects
 *   incoming.c   Incoming: a call that this replica serves
 *   ../http/     requests of HTTP
 *   out.c        Out: a call that this process has opened: its end, reading it
 *   out_open.c   opening one: at once, or when its arguments are here
 *   out_slot.c   an Out that reserves a slot first
 *   out_wait.c   waiting for an Out: threads, coroutines, callbacks
 *   await.c      Await: the coroutine that waits for an Out or for a request of HTTP
 *   caller.c     Link's methods that open calls; a driver's link
 *
 * What a pickle means is decided in Python, by the functions of set_body_hooks.
 */
#ifndef ANYSERVE_OPAQUE_H
#define ANYSERVE_OPAQUE_H

#include "../native.h"

extern PyTypeObject native_body_type, native_piece_type, native_incoming_type, native_out_type,
    native_await_type;

/* --- body.c --- */

/* A body that has come. Its bytes are held as long as it, or a view of a buffer, lives. */
typedef struct {
    PyObject_VAR_HEAD void *hold; /* of as_worker_req_hold or as_worker_out_hold; or NULL */
    struct as_str whole;          /* all of its bytes, as a part of another body has them */
    struct as_str method, data;
    uint8_t codec, flags;
    uint32_t n_buffers, n_parts;
    struct as_str slices[]; /* of the buffers, then of the parts */
} Body;

/* Consumes hold. NULL with an exception. */
Body *native_body_new(const struct as_body *b, void *hold);
/* The value in a body: a new reference. NULL with an exception. */
PyObject *native_body_load(Body *b);
/* For a body with EXCEPTION: the exception that it describes. For a call that has failed: the one
 * that says so. Both never return NULL with anything but an exception set. */
PyObject *native_body_exception(Body *b);
PyObject *native_status_exception(PyObject *out, unsigned status, unsigned flags,
                                  struct as_str text);
PyObject *native_set_body_hooks(PyObject *module, PyObject *args);

#define NATIVE_FEW_SLICES 4u

/* A body of Python objects, which it keeps until it is released. */
struct body_sent {
    struct as_body body;
    Py_buffer data;
    Py_buffer *views; /* of n_views buffers */
    uint32_t n_views;
    size_t bytes; /* of data and buffers */
    struct as_str *slices;
    struct as_str few_slices[NATIVE_FEW_SLICES];
    Py_buffer few_views[NATIVE_FEW_SLICES];
};
/* method: a str, or NULL. data: anything with a buffer. buffers: None, or a list of objects with
 * buffers. parts: None, or a list of Outs that have ended with a body. -1 with an exception: there
 * is nothing to release. */
int native_body_read(struct body_sent *s, PyObject *method, int codec, int flags, PyObject *data,
                     PyObject *buffers, PyObject *parts);
void native_body_release(struct body_sent *s);
/* From this size on the lock of the interpreter is released while a body is copied. */
#define NATIVE_LARGE ((size_t)1 << 20)

/* --- incoming.c --- */

/* What all requests of an opaque model have: calls, and requests of HTTP (http/http.h). */
#define NATIVE_SERVED_HEAD                                                                         \
    PyObject_HEAD struct as_worker_req *q; /* NULL: it has ended */                                \
    Link *link;                                                                                    \
    struct model *m;                                                                               \
    PyObject *id;                                                                                  \
    PyObject *task;      /* of the coroutine that serves it; or NULL */                            \
    PyObject *on_cancel; /* called once; or NULL */                                                \
    as_ns deadline;                                                                                \
    unsigned n_using; /* threads that use q without the lock of the interpreter */                 \
    bool beyond, cancelled
typedef struct {
    NATIVE_SERVED_HEAD;
} Served;

/* o as a Served, if it is one; or NULL */
Served *native_served_of(PyObject *o);
/* Gives it to the handler, which returns a coroutine, or None. Consumes s, which may be NULL with
 * an exception. -1: an exception that ends the worker. */
int native_served_start(Link *l, struct as_worker_req *q, Served *s);
/* Waits until no other thread uses q. Other code may run meanwhile, and may end it. */
void native_served_settle(Served *s);
/* Takes q, which nobody else uses from then on. NULL: it has ended. */
struct as_worker_req *native_served_take(Served *s);
void native_served_ended(Served *s); /* q was freed: publishes its answer */
void native_served_fail(Served *s, unsigned status, struct as_str text);
void native_served_cancel(Served *s); /* calls on_cancel, or cancels the task */
PyObject *native_served_fail_method(PyObject *o, PyObject *args);
PyObject *native_served_deadline(PyObject *o, void *unused); /* a getter */
void native_served_fini(Served *s);                          /* drops its references */

typedef struct {
    NATIVE_SERVED_HEAD;
    Body *body; /* NULL: loaded */
    PyObject *method, *metadata;
    PyObject *room_waiter;  /* a future; or NULL */
    PyObject *input_waiter; /* likewise */
    PyObject *state;        /* what Python keeps here; or NULL */
    bool stream, inputs;
} Incoming;

/* Starts a request of an opaque model. -1: an exception that ends the worker. */
int native_incoming_start(Link *l, struct as_worker_req *q);
void native_incoming_ready(Incoming *in, unsigned what);

/* --- await.c --- */

typedef struct await Await;

/* What an Await waits for. Its owner has a list of those that wait. */
struct await_kind {
    /* 1: *ret_value, what `await` gives; 0: it must wait; -1 with an exception */
    int (*take)(PyObject *owner, PyObject **ret_value);
    Await **(*list)(PyObject *owner);
    /* one is in the list; one has left it without being woken; or NULL */
    void (*waits)(PyObject *owner), (*forgotten)(PyObject *owner);
};

/* What `await` runs: a coroutine, so that tasks can be made of it, which needs none itself. */
struct await {
    PyObject_HEAD PyObject *owner; /* NULL: it never waits */
    const struct await_kind *kind;
    PyObject *future, *loop; /* while it waits; or NULL */
    struct await *next; /* in the list of its owner, the last one first; which has a reference */
};

int native_await_init(void);
/* kind: static. */
PyObject *native_await_new(PyObject *owner, const struct await_kind *kind);
/* Takes those of a kind, NULL: all, from the list, and wakes them in the order in which they came.
 */
void native_awaits_wake(Await **list, const struct await_kind *kind, Link *l);

/* --- out.c --- */

enum out_state {
    OUT_WAITS, /* for the answers of other calls, which are its arguments */
    OUT_OPEN,  /* it was opened; also one that waits for a slot, or has one that is not used */
    OUT_ENDED, /* one answer is here, or it has failed, or the stream is over */
};

typedef struct out {
    PyObject_HEAD struct as_worker_out *o; /* NULL: not opened, or ended */
    Link *link;
    enum out_state state;
    bool stream, every, cancelled, kept, opening;
    bool reserve;            /* it reserves a slot first, and has not used it */
    PyObject *replica;       /* the name of the replica of which it has, or had, a slot; or NULL */
    unsigned n_threads;      /* threads that wait for it */
    unsigned status;         /* it has failed so, not 0; else `body` is the answer of a call */
    unsigned flags;          /* … with AS_WORKER_OUT_… … */
    PyObject *text;          /* … and this reason; or NULL */
    struct out *failed;      /* it has failed because this one has: a reference; or NULL */
    Body *body;              /* the answer */
    PyObject *value;         /* … once it was loaded; or NULL */
    PyObject *exception;     /* what result() raises; or NULL: not made yet, or it has not failed */
    PyObject *id;            /* request id */
    PyObject *callbacks;     /* a list; or NULL */
    Await *awaits;           /* coroutines that wait for it, the last one first: references */
    struct out *prev, *next; /* in link->outs */
    uint32_t target;
    uint32_t window; /* of a stream: how many messages may be here unread */
    /* while it waits: */
    struct open_args *args; /* what it will be opened with */
    PyObject *dependents;   /* a list of Outs that wait for this one; or NULL */
} Out;

/* What a call is opened with, while it waits for its arguments. */
struct open_args {
    PyObject *method, *data, *buffers, *parts, *model_id, *session_id, *tenant;
    int priority;     /* 1 … 3; 0: none is given */
    PyObject *parent; /* an Incoming or a Request; or NULL */
    double deadline;  /* time.monotonic(); 0: none */
    int codec;
    uint32_t target;
    Py_ssize_t n_missing; /* parts that have not ended */
};
PyObject *native_link_open(PyObject *self, PyObject *const *args, Py_ssize_t n);
/* Opens x, which was not opened, or uses its slot; or lets it wait for its arguments. -1 with an
 * exception. */
int native_out_start(Out *x, const struct open_args *a);
/* The arguments that open() and use() have in common, v[0] … v[10]: method, codec, data, buffers,
 * parts, deadline, id, model_id, session_id, priority, tenant. -1 with an exception. */
int native_out_read_args(PyObject *const *v, struct open_args *a);
PyObject *native_out_parts(Out *x); /* of one that WAITS: a borrowed list of Outs */
/* Reads what has come. Returns whether it has ended; for a stream, false. */
bool native_out_pump(Out *x);
/* Something came for it: reads it, and wakes who waits. */
void native_out_news(Out *x);
void native_out_cancel(Out *x);
/* The link is closed: ends all calls that are open. */
void native_outs_close(Link *l, const char *why); /* why: NULL: the library's last error */
/* The result of one that has ended: a new reference, or NULL with its exception. */
PyObject *native_out_result(Out *x);
/* The next message of a stream: 1 *ret_value; 0 none now; -1 with an exception, StopIteration at
 * its end. */
int native_out_item(Out *x, PyObject **ret_value);

/* Between these two files: */
void native_out_link(Out *x);   /* into link->outs … */
void native_out_unlink(Out *x); /* … and out of it */
void native_out_free_args(Out *x);
void native_out_set_status(Out *x, unsigned status, unsigned flags, struct as_str text);
bool native_out_has_failed(const Out *x); /* of one that has ended */
/* x has ended, and those that depend on it: without Python code in between, so that everyone sees
 * all of them ended. Then wakes whoever waits for them. */
void native_out_settle(Out *x);
/* Opens one whose arguments are here. Runs no Python code. If it gets a status, the caller must
 * settle it. */
void native_out_open_now(Out *x);

/* --- out_slot.c --- */

/* A message that says that x has a slot. */
void native_out_note_slot(Out *x, const struct as_worker_out_msg *msg);
PyObject *native_out_reserved(PyObject *o, PyObject *unused);
PyObject *native_out_use(PyObject *o, PyObject *const *args, Py_ssize_t n);

/* --- out_wait.c --- */

/* It has ended, or has a message: runs callbacks and wakes coroutines. */
void native_out_wake(Out *x);
void native_out_keep(Out *x);            /* something waits: it lives on until it ends */
void native_out_release_if_idle(Out *x); /* nothing may wait any more; the caller has a reference */
PyObject *native_out_await(PyObject *o);
PyObject *native_out_anext(PyObject *o, PyObject *unused);
PyObject *native_out_result_method(PyObject *o, PyObject *const *args, Py_ssize_t n);
PyObject *native_out_next_method(PyObject *o, PyObject *timeout);
PyObject *native_out_add_done_callback(PyObject *o, PyObject *fn);

/* --- caller.c --- */

/* A call was opened, answered or cancelled: outside a turn, it is sent soon. */
void native_link_send(Link *l, bool answered);
/* Reads the news of calls that were opened. */
void native_link_news(Link *l);
bool native_link_is_here(const Link *l); /* the thread of its event loop */
PyObject *native_link_target(PyObject *self, PyObject *args);
PyObject *native_link_report(PyObject *self, PyObject *args);
PyObject *native_link_driver(PyObject *type, PyObject *args);
PyObject *native_link_run_calls(PyObject *self, PyObject *unused);
PyObject *native_link_stop_calls(PyObject *self, PyObject *unused);

#endif
