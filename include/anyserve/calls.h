/* anyserve/calls.h — calls of deployments: serving them, and opening them. Part of
 * anyserve/worker.h, which includes it.
 *
 * A *call* is a request whose body is opaque to the server: a method and bytes (struct as_body). A
 * worker serves calls with a model that sets `opaque`, and opens calls of other deployments with
 * as_worker_open. A program that only opens calls is a *driver*: AS_WORKER_DRIVER in
 * as_worker_conf.flags; it has no models, and serves nothing.
 *
 * What is said in worker.h about threads, errors and structs with `size` holds here, too.
 */
#ifndef ANYSERVE_CALLS_H
#define ANYSERVE_CALLS_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct as_worker;
struct as_worker_req;
struct as_worker_call;
struct as_worker_out; /* a call that this program has opened, until it frees it */

#define AS_WORKER_TARGETS      65536u /* most targets of a worker */
#define AS_WORKER_BODY_BUFFERS 4096u  /* most buffers of a body … */
#define AS_WORKER_BODY_PARTS   256u   /* … and parts */
#define AS_WORKER_REPORT_BYTES ((size_t)256 << 10)
#define AS_WORKER_OUT_MESSAGES                                                                     \
    ((uint32_t)1 << 20) /* most messages that are granted and not read                             \
                         */

/* --- serving calls: for requests of models with `opaque` --- */

/* The body of the call; NULL: q has tensors. It is valid as long as q, and its bytes (data,
 * buffers, parts) as long as they are held (as_worker_req_hold). as_worker_req_msg has the id and
 * the metadata. The data starts at a multiple of 8, each buffer and each part at a multiple of 64.
 */
const struct as_body *as_worker_req_body(const struct as_worker_req *q);
/* The caller takes any number of messages: as_worker_part_body, and then as_worker_finish or
 * as_worker_fail. False: it takes one: as_worker_answer_body, or as_worker_fail. */
bool as_worker_req_streams(const struct as_worker_req *q);
/* The caller sends any number of messages after the call: as_worker_next_input gives them, each as
 * a request with a body. The data of the call itself is no message then. */
bool as_worker_req_takes_inputs(const struct as_worker_req *q);
/* The call executes beyond the slots: as_worker_next returns such a request although all slots
 * execute, because a call that holds one of them may wait for it. So it must start at once, on a
 * thread that no other request occupies. Its method and size are of no difference. */
bool as_worker_req_beyond(const struct as_worker_req *q);

/* Answers q and frees it. The bytes of `body` are copied. For a call that streams it is the last
 * message. 0; AS_EINVALID: q has tensors, or the body is malformed (codec, counts, a part that is
 * no body); AS_ETOOBIG: the server takes no body of this size; AS_EAGAIN: q streams, and may not
 * send now (as_worker_room); AS_ENOMEM. After an error nothing was sent, and q still belongs to the
 * caller. */
int as_worker_answer_body(struct as_worker *w, struct as_worker_req *q, const struct as_body *body);
/* Sends one message of a call that streams; q stays the caller's. As as_worker_part: AS_EAGAIN
 * without credit, AS_ECANCELLED; else as as_worker_answer_body, and AS_EINVALID: q does not stream.
 * as_worker_room, as_worker_await_room and as_worker_want say when a message may be sent. */
int as_worker_part_body(struct as_worker *w, struct as_worker_req *q, const struct as_body *body);

/* The same for handlers (worker.h): the body of the call, or NULL; whether it streams; and its
 * answer, which is copied, and sent when the handler has returned 0. as_worker_call_send_body sends
 * a message at once, and blocks while the caller does not read: 0; AS_ECANCELLED: the handler
 * should return, with any result; AS_ETOOBIG; AS_EINVALID. A handler of a call that does not stream
 * must give an answer, or fail. */
const struct as_body *as_worker_call_body(const struct as_worker_call *call);
bool as_worker_call_streams(const struct as_worker_call *call);
int as_worker_call_answer(struct as_worker_call *call, const struct as_body *body);
int as_worker_call_send_body(struct as_worker_call *call, const struct as_body *body);

/* --- opening calls --- */

/* The number of a deployment for as_worker_open; the same names get the same number. It is valid as
 * long as w, over all links, whether the deployment exists or not: if it does not exist when a call
 * is opened, that call ends with NOT_FOUND. The texts are copied; application "" is "default".
 * 0; AS_EINVALID: a name is empty, not a line of UTF-8, or has a '#', or both together are longer
 * than AS_WORKER_NAME - 1; AS_EFULL: there are AS_WORKER_TARGETS. */
int as_worker_target(struct as_worker *w, const char *application, const char *deployment,
                     uint32_t *ret_number);

struct as_worker_open {
    size_t size;
    uint32_t target; /* from as_worker_target */
    as_ns timeout;   /* from now; 0: none. The deadline of the parent holds in any case */
    bool stream;     /* the answer is any number of messages; else it is one */
    /* The request in whose handler the call is made. Its cancellation cancels the call, and the
     * server takes from it the order in its queues, the deadline, and metadata. NULL: none. It must
     * not be answered, by another thread, before as_worker_open returns; a request of
     * as_worker_local or as_worker_rehearse counts as none. */
    struct as_worker_req *parent;
    const struct as_body *body; /* copied */
    struct as_str id;           /* request id for logs; empty: the parent's. Copied */
    const struct as_meta *meta; /* keys in lower case. Copied */
    uint32_t n_meta;
    /* With `stream`: so many messages may be here unread. They are granted to the callee at once,
     * and again as they are read. 0: it may send only what as_worker_out_grant grants. */
    uint32_t window;
    void *data; /* for as_worker_out_data */
    /* With `stream`: each replica of the deployment that runs now is called, also one whose slots
     * all execute. Each answer is one message, of which `meta` has the replica's name as
     * anyserve-replica; a failure is a message with AS_BODY_F_EXCEPTION. */
    bool every;
    /* Without `stream` and `every`: a slot of a replica is reserved. The call waits for it as any
     * other; the first message then has no body, and the replica's name in `meta`
     * (anyserve-replica), and as_worker_use_slot says what is to be executed there. `body` is not
     * executed. The server takes a slot back that is not used for a time (--reserve-time), and if
     * the replica goes. */
    bool reserve;
};
/* Opens a call. It never blocks: a call that cannot be sent now waits in this library, in the order
 * of the calls of its parent, until the server has room for it (CREDIT: each request, and all calls
 * without a parent together, may have so many open) or until there is a link. So the memory of
 * calls that nobody awaits is this program's. A call without a parent that was not sent when a link
 * ends is sent over the next one. Calls of one parent, or of none, to one deployment are queued
 * there in the order in which they were opened.
 *
 * In the runner the call is sent with its next step (as_worker_next, _wait, _poll, _flush,
 * as_worker_out_wait); other threads send it at once, or within 1 ms, if calls come in a row.
 *
 * 0: *ret_o is the caller's, until as_worker_out_free or as_worker_out_detach. What prevents the
 * call later ends *ret_o with a status: UNAVAILABLE: the link or the callee was lost;
 * UNIMPLEMENTED: the server knows no calls. AS_EINVALID: `size`, the target, or the body is
 * malformed; AS_ETOOBIG: id and metadata are too large; AS_ENOMEM; AS_EUNAVAILABLE: this is a
 * forked child. Any thread. */
int as_worker_open(struct as_worker *w, const struct as_worker_open *open,
                   struct as_worker_out **ret_o);
/* The same for a handler, in its thread: the call is its parent (open->parent is not read). */
int as_worker_call_open(struct as_worker_call *call, const struct as_worker_open *open,
                        struct as_worker_out **ret_o);

/* What is to be executed in the slot that o has, after the message with the replica's name: by that
 * replica, before all other calls. `open` is as for as_worker_open; target, parent, every, reserve
 * and data are not read, since o keeps its own. The answer is read from o. What prevents it ends o
 * with a status: UNAVAILABLE: the slot has been taken back. Each slot once; as_worker_out_cancel or
 * _free before that gives it back. 0; AS_EINVALID: o has no slot that is not used, or `open` is
 * malformed; AS_ETOOBIG: id and metadata are too large; AS_ENOMEM; AS_EUNAVAILABLE: this is a
 * forked child. Any thread. */
int as_worker_use_slot(struct as_worker_out *o, const struct as_worker_open *open);

#define AS_WORKER_OUT_STARTED 1u /* the callee's code has run, or may have */
struct as_worker_out_msg {
    const struct as_body *body; /* of a message; NULL: it says that a slot is reserved */
    bool last;                  /* of a message: nothing follows it */
    const struct as_meta *meta; /* of a message: what the server says about it … */
    uint32_t n_meta;            /* … or nothing */
    uint32_t status;            /* AS_EHANDLER: enum as_grpc_status … */
    uint32_t flags;             /* … AS_WORKER_OUT_… … */
    struct as_str text;         /* … and the reason */
};
/* The next message. 0: *ret_m is set, and valid until the next call of this function for o, or the
 * end of o; the bytes stay as long as they are held. AS_EAGAIN: none now; AS_EOF: the call has
 * ended well, and all its messages were read; AS_EHANDLER: it has failed, with status, flags and
 * text. (An answer with the flag AS_BODY_F_EXCEPTION is a message.) Not by two threads at once for
 * one o. */
int as_worker_out_read(struct as_worker_out *o, struct as_worker_out_msg *ret_m);
/* Blocks until as_worker_out_read would not return AS_EAGAIN: 0; AS_EDEADLINE: `timeout` has passed
 * (AS_NEVER: none; 0: only looks); AS_EAGAIN: this thread has handled a signal. Any thread,
 * including the runner, which serves the socket meanwhile. With as_worker_run and one thread,
 * requests beyond the slots execute meanwhile on the same stack: so handlers that wait for calls
 * are entered again. */
int as_worker_out_wait(struct as_worker_out *o, as_ns timeout);
/* For an event loop: an out that has had something new to read since it was last returned, or NULL.
 * An out for which a thread waits in as_worker_out_wait is not returned. From the first use of this
 * function on, as_worker_wait and as_worker_poll return 0 while there is such an out. Runner; no
 * other thread may free the out meanwhile. */
struct as_worker_out *as_worker_next_news(struct as_worker *w);
/* Grants `messages` more of a call that streams. AS_WORKER_OUT_MESSAGES at a time at most. */
void as_worker_out_grant(struct as_worker_out *o, uint32_t messages);
/* Keeps the bytes of the last message valid until as_worker_release_hold (worker.h). NULL: there is
 * no message. */
void *as_worker_out_hold(struct as_worker_out *o);
/* Cancels the call, if it has not ended: from now on it has failed with CANCELLED, and messages
 * that were not read are dropped. The callee is told. o still is the caller's. */
void as_worker_out_cancel(struct as_worker_out *o);
/* Frees o, which may be NULL; a call that has not ended is cancelled. No thread may wait for it. */
void as_worker_out_free(struct as_worker_out *o);
/* Frees o; a call that has not ended goes on (a slot that is not used is given back), and its
 * answer is dropped. It goes on also when its parent is answered, but not when its parent is
 * cancelled. A draining worker waits for it. */
void as_worker_out_detach(struct as_worker_out *o);
void *as_worker_out_data(const struct as_worker_out *o); /* of as_worker_open */
struct as_worker *as_worker_out_worker(const struct as_worker_out *o);

/* --- reports --- */

enum as_worker_report {
    AS_WORKER_REPORT_METRICS = 1,     /* user metrics, docs/protocol/link.md */
    AS_WORKER_REPORT_MULTIPLEXED = 2, /* ids of the loaded models: a JSON list of texts */
    AS_WORKER_REPORT_ROUTING = 3,     /* a JSON object, for routers */
    AS_WORKER_REPORT_AUTOSCALING = 4, /* a JSON object, for scalers */
    AS_WORKER_REPORT_END              /* one more than the last; it may grow */
};
/* Tells the server about this replica. Each report replaces the last one of its kind; the last ones
 * are sent again over each new link. The text is copied. 0; AS_EINVALID: there is no such kind, or
 * w is a driver; AS_ETOOBIG: over AS_WORKER_REPORT_BYTES; AS_ENOMEM. Any thread. */
int as_worker_report(struct as_worker *w, enum as_worker_report kind, struct as_str text);

#ifdef __cplusplus
}
#endif

#endif
