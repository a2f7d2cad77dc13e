/* anyserve/router.h — a request router in C: a shared object that the dispatcher loads with
 * `--router-plugin DEPLOYMENT=FILE` and calls for each request of that deployment. Whoever starts
 * the server decides which code the dispatcher runs, so a deployment cannot name one itself.
 *
 * The object exports one function, as_router_plugin, which returns a table of functions. It runs in
 * the dispatcher's process and in its loop: a call that takes a microsecond takes that from every
 * request, and a crash ends the dispatcher. What may block, or needs Python, is a router in a
 * process of its own (docs/guide/routers.md).
 *
 * Thread: all functions are called by one thread, never at the same time. What they get is valid
 * during the call. C99; needs no library.
 */
#ifndef ANYSERVE_ROUTER_H
#define ANYSERVE_ROUTER_H

#include <anyserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header's structs. A plugin with another one is refused. */
#define AS_ROUTER_ABI 1u

/* A replica, as it is now. */
struct as_router_replica {
    uint64_t id;      /* stays the same when its process is replaced */
    uint32_t slots;   /* requests that it may execute at once; 0: it is starting */
    uint32_t ongoing; /* requests that it was sent and has not answered */
    uint32_t waiting; /* requests that wait for it alone */
    uint32_t models;  /* multiplexed models that it holds */
    as_ns service;    /* measured time of one request, moving average; 0: unknown */
    bool is_free;     /* it has a free slot and may take this request */
    bool holds_model; /* it holds the request's multiplexed model */
};

struct as_router_request {
    uint64_t model_key; /* hash of its multiplexed model; 0: none. The same while the server runs */
    uint64_t session_key; /* hash of its session; 0: none */
    uint32_t priority;    /* 0: most urgent … 2 */
    uint32_t attempt;     /* times that it was sent before, to replicas that died or returned it */
    as_ns waited;         /* since it was submitted */
    /* The first bytes of its body, as they arrived: of a request of HTTP the body, of a call of a
     * handle its payload, of tensors the first large one. NULL: it has none, or none is here yet.
     */
    const void *body;
    size_t body_size;
};

/* One choice: an index of the replicas and a rank. Of equal ranks the one with the fewest requests
 * is taken; a higher rank only if none of the lower ones is free. */
struct as_router_pick {
    uint32_t replica;
    uint32_t rank; /* not decreasing */
};

/* A choice has at most this many. */
#define AS_ROUTER_PICKS 8u

struct as_router_plugin {
    uint32_t abi; /* AS_ROUTER_ABI */
    /* Begins with a deployment, whose name it gets as people write it. Returns its state; NULL:
     * error, and `why` (at most n bytes with the NUL) says what is wrong: the built-in policy
     * chooses then. */
    void *(*create)(const char *deployment, char *why, size_t n);
    void (*destroy)(void *state);
    /* Chooses for q among n replicas, n > 0, in the order in which they were added. Writes at most
     * AS_ROUTER_PICKS picks and returns their number. 0: the deployment's built-in policy chooses.
     * If none of the chosen replicas is free, the request waits for the first of them, and is put
     * to the plugin again after a while (request_router_config: initial_backoff_s). A pick that is
     * no index of the replicas makes the whole choice invalid: it is counted as 0. */
    uint32_t (*choose)(void *state, const struct as_router_request *q,
                       const struct as_router_replica *replicas, uint32_t n,
                       struct as_router_pick *picks);
    /* Each of these may be NULL. A request was sent to the replica with that id; one has ended
     * there: it was answered, comes back, or the replica has died. The second call follows once
     * after each of the first. */
    void (*on_routed)(void *state, uint64_t replica);
    void (*on_completed)(void *state, uint64_t replica);
};

/* What the shared object exports. Called once; the table must stay. */
const struct as_router_plugin *as_router_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
