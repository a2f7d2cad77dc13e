/* link/worker.h — the worker's side of a link: connect, register, take requests, answer them.
 *
 * Used by the Python extension (and later by the public C library). It owns the socket, the frames,
 * the status page and the order of streams; what a request means is the caller's business.
 *
 * Threads: one *runner* (the thread that connects; it must live as long as the process, because the
 * status page's robust lock tells of its death) and a *guard* thread of ours that never calls back.
 * The guard takes over the socket when the runner has not been seen for 1 ms, because a handler
 * runs: it reads, answers PING and CONTROL, honours RECALL and CANCEL, publishes answers.
 * as_worker_next and a recall exclude each other: a stream is either started or returned. Functions
 * may be called from any thread unless said otherwise.
 *
 * Memory: a request's bytes lie in a counted buffer that is read into many requests at a time, or,
 * above AS_FRAME_INLINE, in one of its own. Holds keep it alive. When holds of small bodies keep 16
 * MiB of shared buffers from being used again, further bodies are copied out until some are let go,
 * so that a handler that stores its inputs pins their size and not 256 KiB each.
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
    /* Messages and bytes of one stream that wait here for their handler; the last may go over it.
     * No messages: AS_WORKER_INPUTS and AS_WORKER_INPUT_BYTES. */
    struct as_frame_window inputs;
    const struct as_frame_register *models; /* numbered 0 … n_models-1 in `model` */
    uint32_t n_models;
    /* CONTROL health: 0 and NULL text, or a gRPC status and a text. Called by the guard or the
     * runner with the link locked: must neither block nor call back. NULL: always healthy. */
    uint32_t (*health)(void *ctx, const char **ret_text);
    void *ctx;
};

/* Everything is copied. Makes the guard thread; does not connect. 0, AS_EIO, AS_EINVALID: token,
 * replica or deployment longer than AS_FRAME_NAME. */
int as_worker_new(struct as_worker **ret_w, const struct as_worker_conf *conf);
/* Says GOODBYE if it can; requests that the caller still has must be answered before. Runner. */
void as_worker_free(struct as_worker *w);

/* Connects, says HELLO with a fresh status page, registers, waits for every REGISTERED, grants
 * slots. Blocking, bounded by `timeout`. 0; AS_EUNAVAILABLE (no server there, or it did not finish:
 * try again later); AS_EDENIED, AS_EEXISTS, AS_EINVALID: refused, the reason is in as_worker_error.
 * Also the way back after the dispatcher's death: requests that were not started are dropped,
 * started ones read as cancelled and their answers go nowhere. Runner. */
int as_worker_connect(struct as_worker *w, as_ns timeout);
/* The same in steps that do not block, for an event loop. begin: 0, or refused as above. step,
 * whenever as_worker_fd is readable: 0 connected; AS_EAGAIN not yet; else as above. abort: when the
 * caller's time is up. Runner. */
int as_worker_connect_begin(struct as_worker *w);
int as_worker_connect_step(struct as_worker *w);
void as_worker_connect_abort(struct as_worker *w);
const char *as_worker_error(const struct as_worker *w); /* last reason, never NULL. Runner */

/* The next request that may start, or NULL. Storing it on the status page and taking it off the
 * list is one step: user code runs only after this returned it. Publishes pending answers before it
 * would return NULL. Never blocks. Never more than `slots` at once, nor more of a model than its
 * max_ongoing. Streams start in the order in which they came, capped models apart. */
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
 * given outside the runner's loop. */
void as_worker_flush(struct as_worker *w);
/* Tells the dispatcher to send nothing new; wait and poll say AS_ECANCELLED when all is answered.
 */
void as_worker_drain(struct as_worker *w);

/* A request belongs to the caller until as_worker_answer or _fail, which free it (its bytes stay
 * while they are held). */
const struct as_msg *as_worker_req_msg(const struct as_worker_req *q);
uint32_t as_worker_req_model(const struct as_worker_req *q); /* the caller's model number */
as_ns as_worker_req_deadline(const struct as_worker_req *q); /* CLOCK_MONOTONIC, AS_NEVER none */
bool as_worker_req_cancelled(
    const struct as_worker_req *q); /* CANCEL came, the deadline passed, or the link is lost */
void as_worker_req_set_data(struct as_worker_req *q, void *data);
void *as_worker_req_data(const struct as_worker_req *q);
/* Keeps the bytes that tensors of the request point into: 64-byte aligned, unchanged until
 * released, also after the worker is freed. For a numpy array's base object. */
void *as_worker_req_hold(struct as_worker_req *q);
void as_worker_release_hold(void *hold);

/* Pops a started request that was newly cancelled, NULL: none. For an event loop. */
struct as_worker_req *as_worker_cancelled(struct as_worker *w);

/* Tensor bytes are copied before the call returns. 0; AS_ETOOBIG: larger than the dispatcher
 * accepts or than a frame can describe: nothing was sent, the request is still the caller's. */
int as_worker_answer(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg);

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

/* Models registered with streams_inputs: the request is the first message, here are the others.
 * 0: one, which is given back by as_worker_drop_input before q is; AS_EAGAIN: none now; AS_EOF:
 * there is no further one; AS_ECANCELLED. */
int as_worker_next_input(struct as_worker *w, struct as_worker_req *q,
                         struct as_worker_req **ret_input);
void as_worker_drop_input(struct as_worker *w, struct as_worker_req *q,
                          struct as_worker_req *input);
#define AS_WORKER_INPUTS      16u
#define AS_WORKER_INPUT_BYTES ((uint64_t)1 << 20)

/* For an event loop: true when there is what q waits for (room for a part, or news of its inputs).
 * False: as_worker_ready gives q once there is. A cancel is told by as_worker_cancelled. */
enum as_worker_want { AS_WANT_ROOM = 1, AS_WANT_INPUT = 2 };
bool as_worker_want(struct as_worker *w, struct as_worker_req *q, enum as_worker_want what);
/* Pops one; *ret_what: what there is now. NULL: none. */
struct as_worker_req *as_worker_ready(struct as_worker *w, unsigned *ret_what);

/* ERROR instead of an answer, or of what is left of it; grpc_status 1…16. */
void as_worker_fail(struct as_worker *w, struct as_worker_req *q, uint32_t grpc_status,
                    struct as_str message);

/* In a forked child: closes the descriptors and forgets the rest (which leaks there); nothing else
 * may be called with w any more. */
void as_worker_forked(struct as_worker *w);

#endif
