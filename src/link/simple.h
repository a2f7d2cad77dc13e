/* link/simple.h — a worker of the simple protocol, as a replica: its registration, its connections.
 *
 * The dispatcher connects to the worker's unix socket and writes one ModelInferRequest behind its
 * length (4 bytes, big-endian); the worker answers with a ModelInferResponse likewise. One request
 * at a time on a connection, as many connections as the worker has slots; closing one cancels. A
 * connection is used again when its answer was whole and nothing came behind it; one that rests for
 * too long, or on which anything comes unasked, is closed.
 *
 * What may be replayed: a request of which the kernel took no byte. After the first byte only the
 * worker knows, and it has no way to tell: then it may have run.
 *
 * Each (worker, model, version) is a replica of its own. Its lease (core/lease.h) says whether it
 * is in the rotation. Worker bytes are hostile, as on the native link. Thread: the dispatch loop.
 */
#ifndef AS_LINK_SIMPLE_H
#define AS_LINK_SIMPLE_H

#include "link/upstream.h"

/* What RegisterModel said, checked as far as a message can be: names and their lengths. */
struct as_simple_offer {
    struct as_str worker;           /* its id */
    struct as_str address;          /* "unix:///path" */
    struct as_frame_register model; /* name, version, signature, options; budget = max_ongoing */
};

/* Takes the worker into the fleet, in place of what the same worker said of the same model before.
 * Copied. The socket is looked at (below --worker-socket-dir, no symlink, ours) and connected to
 * before anything is sent. 0 and the epoch; AS_EINVALID (address, names, a signature or options
 * that contradict the other replicas'), AS_EDENIED (a socket of somebody else, or elsewhere),
 * AS_EUNAVAILABLE (nobody listens there), AS_EEXISTS (another deployment serves name:version),
 * AS_EFULL; then the line in `why` says which and where. */
int as_simple_join(struct as_fleet *f, const struct as_simple_offer *o, uint64_t *ret_epoch,
                   char *why, size_t cap);
/* Nothing new is sent; gone when what is under way has ended. epoch 0: whichever. 0, AS_ENOTFOUND.
 */
int as_simple_leave(struct as_fleet *f, struct as_str worker, struct as_str model,
                    struct as_str version, uint64_t epoch);
/* It lives. models: the names it says, none: all of its own. True: all of them are known. */
bool as_simple_beat(struct as_fleet *f, struct as_str worker, const struct as_str *models,
                    uint32_t n);

#endif
