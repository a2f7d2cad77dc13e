/* core/dispatch/choice/router_conf.h — how the replica for a request is chosen: the settings of a
 * deployment, and what a router of the user's own answers. */
#ifndef AS_CORE_ROUTER_CONF_H
#define AS_CORE_ROUTER_CONF_H

#include "base/defs.h"

struct as_replica;

enum as_router {
    /* the free replica with the fewest requests; of these the one that has been at that number for
     * the longest time */
    AS_ROUTER_LATE_BINDING,
    AS_ROUTER_LEAST_ONGOING, /* the same, but one of these at random */
    AS_ROUTER_POW_2,         /* of two free replicas at random the one with fewer requests */
    AS_ROUTER_ROUND_ROBIN,   /* the next free replica in the order in which they were added */
    /* the replica that the session belongs to on a ring of hashes, unless it is loaded beyond the
     * bound; else one of the next on the ring */
    AS_ROUTER_CONSISTENT_HASH,
    AS_ROUTER_SESSION /* the replica that had the session's last request */
};
#define AS_ROUTERS 6u
int as_router_of(const char *name); /* "late_binding", "pow_2" …; -1 */
const char *as_router_name(enum as_router r);

/* How replicas are chosen. Durations in ns. */
struct as_router_conf {
    enum as_router policy;
    /* A request whose replica is busy waits for it so long, and up to twice as long if it is for a
     * multiplexed model (drawn at random, so that not all go on at once). */
    as_ns max_wait;
    uint32_t virtual_nodes; /* consistent_hash: positions of a replica on the ring; > 0 */
    uint32_t fallbacks;     /* consistent_hash: further replicas; < AS_PREFERENCE_LINKS */
    /* consistent_hash: a replica takes sessions of others only up to this percentage of the mean
     * load; >= 100 */
    uint32_t bound;
    as_ns session_ttl;     /* session: a session is forgotten when it was not used for so long */
    uint32_t max_sessions; /* session: … or when there are more than so many; > 0 */
    bool prefer_near;      /* replicas on the node of the request, then in its zone, come first */
    /* Every request is put to ops.ask, and the policy decides only if there is no answer in time.
     * A request whose chosen replicas are all busy waits for them and is put to it again after
     * ask_again_first, then ask_factor percent of that … up to ask_again_max. */
    bool asks;
    as_ns ask_timeout, ask_again_first, ask_again_max;
    uint32_t ask_factor;
};
#define AS_ROUTER_CONF_DEFAULT                                                                     \
    {                                                                                              \
        .policy = AS_ROUTER_LATE_BINDING, .max_wait = AS_SEC, .virtual_nodes = 100,                \
        .fallbacks = 2, .bound = 125, .session_ttl = 3600 * AS_SEC, .max_sessions = 65536,         \
        .ask_timeout = 2 * AS_MS, .ask_again_first = 25 * AS_MS, .ask_again_max = 500 * AS_MS,     \
        .ask_factor = 200                                                                          \
    }

/* Replicas that a router of the user's own has chosen for a request, best first. */
#define AS_PREFERENCE_LINKS 8u
struct as_router_choice {
    uint32_t n; /* 0: the policy decides */
    struct {
        struct as_replica *replica;
        uint32_t
            rank; /* not decreasing; of equal ranks the one with the fewest requests is taken */
    } of[AS_PREFERENCE_LINKS];
};

#endif
