/* link/worker.h — the worker's side of a link: connect, register, take requests, answer them.
 *
 * Used by the Python extension (and later by the public C library). It owns the socket, the frames,
 * the status page and the order of streams; what a request means is the caller's business.
 *
 * Threads: one *runner* (the caller's main thread) and a *guard* thread of ours that never calls
 * back. The guard takes over the socket when a handler has run for 1 ms (or the runner sleeps in
 * user code): it reads, answers PING and CONTROL, honours RECALL and CANCEL, publishes answers.
 * as_worker_next and a recall exclude each other: a stream is either started or returned.
 * Functions may be called from any thread unless said otherwise.
 */
#ifndef AS_LINK_WORKER_H
#define AS_LINK_WORKER_H

#include "wire/frame.h"

struct as_worker;
struct as_worker_req;

struct as_worker_conf {
    const char *path;    /* unix socket of the dispatcher */
    struct as_str token; /* of the spawned worker, or the join token */
    struct as_str replica, deployment, peer;
    uint32_t slots;        /* executing at once */
    uint32_t max_prefetch; /* most streams beyond the slots that this worker is willing to hold */
    uint64_t max_message;  /* bytes of one request body */
    const struct as_frame_register *models;
    uint32_t n_models;
    /* CONTROL health: 0 and NULL text, or a gRPC status and a text; called by the guard or the runner; NULL: always healthy.
     * Must not block. */
    uint32_t (*health)(void *ctx, const char **ret_text);
    void *ctx;
};

/* Everything is copied. Makes the status page and the guard thread; does not connect. */
int as_worker_new(struct as_worker **ret_w, const struct as_worker_conf *conf);
void as_worker_free(struct as_worker *w); /* drops unanswered requests; joins the guard */

/* Connects, says HELLO, registers, waits for every REGISTERED, grants slots. Blocking, bounded by
 * `timeout`. 0; AS_EUNAVAILABLE (no server there: try again later); AS_EDENIED, AS_EEXISTS, AS_EINVALID: refused, the
 * reason is in as_worker_error. Also used to come back after the dispatcher's death: requests that
 * were not started are dropped, answers to streams of the lost link go nowhere. */
int as_worker_connect(struct as_worker *w, as_ns timeout);
const char *as_worker_error(const struct as_worker *w); /* last reason, never NULL */

/* The next request that may start, or NULL. Storing it on the status page and taking it off the
 * list is one step: user code runs only after this returned it. Publishes pending answers before it would return NULL.
 * Never blocks. Never gives more than `slots` at once. */
struct as_worker_req *as_worker_next(struct as_worker *w);
/* Blocks until as_worker_next may have something, the link ended, or as_worker_wake: 0;
 * AS_EOF: the link is gone (connect again); AS_ECANCELLED: the dispatcher said DRAIN/GOODBYE and nothing is left.
 * Runner only; the caller has released the GIL. */
int as_worker_wait(struct as_worker *w);
void as_worker_wake(struct as_worker *w); /* async-signal-safe */
/* For an event loop instead of as_worker_wait: readable when there is something to do; then call
 * as_worker_poll (reads, processes; same results as wait, AS_EAGAIN: nothing yet), then as_worker_next until NULL. */
int as_worker_fd(const struct as_worker *w);
int as_worker_poll(struct as_worker *w);
/* Sends what is pending now. The runner's loop boundary calls it; the guard does when the runner is late. */
void as_worker_flush(struct as_worker *w);

/* A request belongs to the caller until as_worker_answer/_fail, which free it (the body stays while refs are held). */
const struct as_msg *as_worker_req_msg(const struct as_worker_req *q);
uint32_t as_worker_req_model(const struct as_worker_req *q); /* the caller's model number */
as_ns as_worker_req_deadline(const struct as_worker_req *q); /* CLOCK_MONOTONIC, AS_NEVER none */
bool as_worker_req_cancelled(const struct as_worker_req *q); /* CANCEL came or the deadline passed */
void as_worker_req_set_data(struct as_worker_req *q, void *data);
void *as_worker_req_data(const struct as_worker_req *q);
/* The bytes that tensors of the request point into: 64-byte aligned, alive while referenced. For a
 * numpy array's base object. */
void *as_worker_req_hold(struct as_worker_req *q);
void as_worker_release_hold(void *hold);

/* Called by guard or runner, with no lock held, when a CANCEL arrives for a started request. The
 * event loop's way to learn it: as_worker_cancelled pops requests that were newly cancelled. */
struct as_worker_req *as_worker_cancelled(struct as_worker *w);

/* Tensor bytes are copied before the call returns. service: ns the handler ran, 0 unknown. */
void as_worker_answer(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg, as_ns service);
void as_worker_fail(struct as_worker *w, struct as_worker_req *q, uint32_t grpc_status,
                    struct as_str message, as_ns service);

/* In a forked child: closes the socket, forgets the thread; nothing else may be called but free. */
void as_worker_forked(struct as_worker *w);

#endif
