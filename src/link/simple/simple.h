/* link/simple/simple.h — a worker of the simple protocol, as a replica: its registration, its
 * connections.
 *
 * The dispatcher connects to the worker's unix socket and writes one ModelInferRequest behind its
 * length (wire/oip/simple_frame.h); the worker answers with a ModelInferResponse likewise. One
 * request at a time on a connection, as many connections as the worker has slots; closing one
 * cancels.
 *
 * An answer is never given to another request. A worker that answers twice could have its second
 * answer taken for that to the next request, so a connection is used again only when its answer
 * repeated the request's id, nothing came behind it, and the next request has another id than the
 * last ones. Where a client gives no id the request has one of ours. An answer with another id, and
 * anything that comes unasked, ends the connection.
 *
 * What may be replayed: a request that the worker has not read to its end. It begins when it has
 * all of it, so this is certain where bytes of it are still here, or where the kernel says that the
 * worker closed with some unread (ECONNRESET): then it counts as handed back. After that only the
 * worker knows, and it has no way to tell: then it has been started, as far as core/protect/retry.h
 * is asked (the worker lives if somebody listens at its socket), and the worker has failed, as far
 * as core/protect/breaker.h is.
 *
 * Each (worker, model, version) is a replica of its own. Its lease (core/replicas/lease.h) says
 * whether it is in the rotation. Worker bytes are hostile, as on the native link. Thread: the
 * dispatch loop.
 */
#ifndef AS_LINK_SIMPLE_H
#define AS_LINK_SIMPLE_H

#include "link/fleet/upstream.h"

/* What RegisterModel encoded, checked as far as a message can be: names and their lengths. */
struct as_simple_registration {
    struct as_str worker;           /* its id */
    struct as_str address;          /* "unix:///path" */
    struct as_frame_register model; /* name, version, signature, options; budget = max_ongoing */
};

/* Takes the worker into the fleet, in place of what the same worker encoded of the same model
 * before, which ends when its requests have; at once, when nobody else serves the model and what it
 * is encoded to be has changed. Copied. No version: "1"; budget 0: 1. The socket is looked at
 * (below
 * --worker-socket-dir, no symlink, ours) and connected to before anything is sent. 0 and the epoch;
 * AS_EINVALID (address, names, a signature or options that contradict the other replicas'),
 * AS_EDENIED (a socket of somebody else, or elsewhere), AS_EUNAVAILABLE (nobody listens there),
 * AS_EEXISTS (another deployment serves name:version), AS_EFULL (too many deployments, models or
 * replicas), AS_EAGAIN (its backlog is full), AS_ENOMEM; then the line in `why` says which and
 * where. */
int as_simple_join(struct as_fleet *f, const struct as_simple_registration *o, uint64_t *ret_epoch,
                   char *why, size_t cap);
/* Nothing new is sent; gone when what is under way has ended. epoch 0: whichever. 0, AS_ENOTFOUND.
 */
int as_simple_leave(struct as_fleet *f, struct as_str worker, struct as_str model,
                    struct as_str version, uint64_t epoch);
/* It lives. models: the names it says, none: all of its own. True: all of them are known. */
bool as_simple_heartbeat(struct as_fleet *f, struct as_str worker, const struct as_str *models,
                         uint32_t n);

/* --- another dispatcher takes over ---
 *
 * The next one has a worker with none of its slots at first, and gets them as the former one has no
 * request for them any more: so a worker has no more requests than slots while there are two. (A
 * client that the former one still has may send it more: those come on top.) */

/* A registration, as it is handed on. */
struct as_simple_saved_registration {
    struct as_str worker, address;
    struct as_str encoded; /* what it encoded of its model: a REGISTER frame */
    uint64_t epoch;
};
/* Of all that may be spoken of; the texts are valid in fn only. */
void as_simple_each_registration(struct as_fleet *f,
                                 void (*fn)(void *arg,
                                            const struct as_simple_saved_registration *l),
                                 void *arg);
/* The former one: fn is called at once for each worker with the number of requests that it has in
 * hand here, and again whenever that has become less. Connections do not rest any more. */
void as_simple_start_handover(struct as_fleet *f,
                              void (*fewer)(void *arg, struct as_str worker, uint64_t epoch,
                                            uint32_t n),
                              void *arg);
/* The next one: as as_simple_join, with its former epoch; all slots are lent. `encoded` may be
 * anything: AS_EPROTO. */
int as_simple_restore(struct as_fleet *f, const struct as_simple_saved_registration *l, char *why,
                      size_t cap);
/* So many slots of it still are, or fewer; no worker: of all. Of one that is not there: nothing. */
void as_simple_limit_lent(struct as_fleet *f, struct as_str worker, uint64_t epoch, uint32_t n);

/* Connections to all of them since the start, for metrics. */
struct as_simple_stat {
    uint64_t opened, reused; /* reused: requests that found one */
    /* closed, by reason: its request was cancelled or came too late; rested too long; the worker
     * ended it while it rested; with a request in hand; it could not be used again (an answer
     * without its id, or an id that comes again); the worker broke the rules; the worker was
     * unregistered, replaced or lost */
    uint64_t cancelled, idle, ended, broken, single, refused, left;
    uint64_t not_connected; /* tries that failed */
};
struct as_simple_stat as_simple_stat(const struct as_fleet *f);

void as_simple_fini(struct as_fleet *f); /* the fleet's own: none of them is left */

#endif
