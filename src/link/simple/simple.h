/* link/simple/simple.h — workers of the simple protocol: registration, connections, handover.
 *
 * The dispatcher connects to the worker's unix socket and writes one ModelInferRequest behind its
 * length (wire/frame/simple_frame.h); the worker answers with a ModelInferResponse in the same way.
 * A connection carries one request at a time, and a worker has as many connections as slots.
 * Closing a connection cancels its request.
 *
 * An answer must never be given to another request. If a worker answers twice, its second answer
 * could be taken for the answer to the next request. So a connection is used again only if the
 * answer repeated the request's id, nothing followed it, and the id of the next request differs
 * from the last ones. A request whose client gave no id gets one of ours. An answer with another
 * id, and bytes without a request, end the connection.
 *
 * A request may be repeated if the worker has not read all of it, since it starts only then. That
 * is certain if some of its bytes are still here, or if the kernel says that the worker closed the
 * socket with unread bytes (ECONNRESET): then it counts as returned. Otherwise it counts as started
 * for core/protect/retry.h (the worker lives if somebody listens at its socket), and the worker has
 * failed for core/protect/breaker.h.
 *
 * Each (worker, model, version) is a replica of its own. Its lease (core/replicas/lease.h) decides
 * whether it is in the rotation. Worker bytes are hostile, as on the native link. Thread: the
 * dispatch loop.
 */
#ifndef AS_LINK_SIMPLE_H
#define AS_LINK_SIMPLE_H

#include "link/fleet/upstream.h"

/* A RegisterModel request, whose names and their lengths were checked. */
struct as_simple_registration {
    struct as_str worker;           /* its id */
    struct as_str address;          /* "unix:///path" */
    struct as_frame_register model; /* name, version, signature, options; budget = max_ongoing */
};

/* Adds the worker to the fleet. It replaces an earlier registration of the same worker and model,
 * which ends when its requests are answered; at once if nobody else serves the model and its
 * declaration has changed. Everything is copied. No version means "1", budget 0 means 1. The socket
 * must be below --worker-socket-dir, ours and not behind a symlink; the fleet connects to it before
 * it sends requests. 0 and the epoch; or, with a line in `why`: AS_EINVALID (address, names, or a
 * signature or options that contradict the other replicas), AS_EDENIED (the socket is not ours, or
 * not in the folder), AS_EUNAVAILABLE (nobody listens there), AS_EEXISTS (another deployment serves
 * name:version), AS_EFULL (too many deployments, models or replicas), AS_EAGAIN (its backlog is
 * full), AS_ENOMEM. */
int as_simple_join(struct as_fleet *f, const struct as_simple_registration *o, uint64_t *ret_epoch,
                   char *why, size_t cap);
/* The worker gets no new requests, and is removed when those under way have ended. epoch: of the
 * registration; 0: any. 0 or AS_ENOTFOUND. */
int as_simple_leave(struct as_fleet *f, struct as_str worker, struct as_str model,
                    struct as_str version, uint64_t epoch);
/* A heartbeat for the named models, or, with n 0, for all of the worker. True: all are registered.
 */
bool as_simple_heartbeat(struct as_fleet *f, struct as_str worker, const struct as_str *models,
                         uint32_t n);

/* --- handover to another dispatcher ---
 *
 * The new dispatcher starts with all slots of a worker lent to the old one, and gets them back as
 * the old one's requests end. So a worker never has more requests than slots while there are two
 * dispatchers, except for requests that clients of the old one still send. */

/* A registration, as the old dispatcher hands it over. */
struct as_simple_saved_registration {
    struct as_str worker, address;
    struct as_str encoded; /* its model, as a REGISTER frame */
    uint64_t epoch;
};
/* Visits all registrations that can be handed over; the texts are valid in fn only. */
void as_simple_each_registration(struct as_fleet *f,
                                 void (*fn)(void *arg,
                                            const struct as_simple_saved_registration *l),
                                 void *arg);
/* The old dispatcher: calls `fewer` at once for each worker with the number of its open requests,
 * and again whenever that number has become smaller. Idle connections are closed from now on. */
void as_simple_start_handover(struct as_fleet *f,
                              void (*fewer)(void *arg, struct as_str worker, uint64_t epoch,
                                            uint32_t n),
                              void *arg);
/* The new dispatcher: like as_simple_join, with the former epoch and all slots lent. AS_EPROTO if
 * `encoded` is no REGISTER frame. */
int as_simple_restore(struct as_fleet *f, const struct as_simple_saved_registration *l, char *why,
                      size_t cap);
/* The old dispatcher still uses at most n slots of the worker. Empty name: of every worker. Does
 * nothing for an unknown worker. */
void as_simple_limit_lent(struct as_fleet *f, struct as_str worker, uint64_t epoch, uint32_t n);

/* Connections to all simple workers since the start, for metrics. */
struct as_simple_stat {
    uint64_t opened, reused; /* reused: requests that used an idle connection */
    /* closed connections, by reason */
    uint64_t cancelled;     /* the request was cancelled, or too late */
    uint64_t idle;          /* idle for too long */
    uint64_t ended;         /* closed by the worker while idle … */
    uint64_t broken;        /* … or during a request */
    uint64_t single;        /* not to be used again: an answer without its id, or a repeated id */
    uint64_t refused;       /* the worker broke the protocol */
    uint64_t left;          /* the worker was unregistered, replaced or lost */
    uint64_t not_connected; /* attempts to connect that failed */
};
struct as_simple_stat as_simple_stat(const struct as_fleet *f);

#endif
