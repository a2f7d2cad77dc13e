/* core/dispatch/choice/group.h — a set of replicas with its own waiting line: one replica alone, or
 * all that hold a multiplexed model (core/dispatch/choice/preference.h).
 *
 * Thread: the loop that owns the deployment. Internal to a deployment.
 */
#ifndef AS_CORE_GROUP_H
#define AS_CORE_GROUP_H

#include "base/container/list.h"
#include "base/container/tree.h"
#include "core/queue/request.h"
#include "core/route/hash.h"

struct as_deployment;
struct as_preference;
struct as_replica;

struct as_group {
    struct as_tree line[AS_PRIORITIES]; /* struct as_preference_link, by age */
    uint32_t n;                         /* requests that wait */
    bool cut;                           /* a search has ended at AS_LINE_SCAN, and found none */
    struct as_list waited;              /* of a model, n > 0: in as_deployment.waited */
    struct as_replica *replica;         /* its only member; NULL: those in `members` */
    struct as_holding **members;        /* in any order */
    uint32_t n_members, cap_members;
    uint32_t next; /* where the last search for a free member has ended */
};

/* A replica that holds a model: it is in the model's group. */
struct as_holding {
    uint64_t key;      /* of the model */
    UT_hash_handle hh; /* in as_replica.held */
    uint32_t index;    /* in the group's members */
    struct as_group *group;
    struct as_replica *replica;
    uint32_t sent; /* unanswered requests for the model */
    bool reported;
};

struct as_preference_link {
    struct as_tree_node node;
    struct as_group *group; /* NULL: gone, with its last member */
    struct as_preference *preference;
    as_ns from; /* from when the group will do */
    uint32_t rank;
    bool waits; /* it is in the group's line */
};

void as_group_init(struct as_group *g, struct as_replica *only);
/* The member with a free slot that can execute q and has the fewest requests; NULL: none. It looks
 * at AS_GROUP_SCAN members at most, the next time at the next ones. No option, since it bounds the
 * time of one request in the loop: a free one that was not looked at is found by the next request,
 * and one that waits is taken by the next member that becomes free. */
struct as_replica *as_group_find_free(struct as_group *g, const struct as_request *q);
#define AS_GROUP_SCAN 64u
/* Requests of a line that are looked at when caps of models delay the first ones. Those behind wait
 * until enough of these have gone, or their own time is over. No option: it bounds the time that a
 * free slot costs. */
#define AS_LINE_SCAN 64u

/* A request waits in the line of the link's group, by age, or no more: O(log n), since a router of
 * the user's own may be asked again for each of n that wait. */
void as_group_enter(struct as_deployment *d, struct as_preference_link *l);
void as_group_leave(struct as_deployment *d, struct as_preference_link *l);
/* The next one of a line; NULL: there is none. */
struct as_preference_link *as_group_first(const struct as_group *g, uint32_t priority);
struct as_preference_link *as_group_next(const struct as_preference_link *l);
bool as_group_ok(const struct as_group *g);

#endif
