/* core/queue/fair.h — each tenant gets its share of a priority, whatever it and others send.
 *
 * This is start-time fair queueing. Requests of one tenant in one list (a FIFO or a lane of the
 * queue) form a *flow*. Only the first request of each flow stands in the list; the others wait
 * behind it. It has a tag: the point in virtual time at which its service starts, which is the
 * larger of the present and of the point up to which its tenant has been served. The smallest tag
 * goes first. When a request is sent, virtual time moves to its tag, and its tenant has been served
 * for its cost more. Virtual time does not move while nothing is sent, so an idle tenant saves
 * nothing up. Between two tenants that always wait the service differs by at most the largest cost
 * of each. Tags are given when a request becomes the first, not when it arrives: what is cancelled
 * or expires has cost nothing. Each priority has a virtual time of its own.
 *
 * Tenants are kept in a table of AS_FAIR_ROWS, in sets of AS_FAIR_WAYS. A row whose tenant has no
 * request here and was served up to the present says nothing any more, and is used for the next
 * tenant. When all rows of a tenant's set are in use, it shares one, and its share, with another.
 *
 * A list is walked to the place of a new tag: O(tenants that wait in it), at most AS_FAIR_ROWS.
 * Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_FAIR_H
#define AS_CORE_FAIR_H

#include "core/queue/request.h"

/* No option: the number bounds memory and the walk above, and beyond it nothing is refused; tenants
 * of one row have one share together until the row is free again. */
#define AS_FAIR_ROWS     1024u
#define AS_FAIR_WAYS     16u
#define AS_FAIR_COST_MAX 1000000u

/* What a request costs its tenant. */
enum as_fair_cost {
    AS_FAIR_COST_REQUEST, /* 1 */
    AS_FAIR_COST_ITEMS,   /* as_request.items */
    AS_FAIR_COST_SAID     /* as_request.cost */
};

struct as_tenant {
    uint64_t key;
    uint64_t served[AS_PRIORITIES]; /* up to where in virtual time */
    struct as_list flows;
    uint32_t waiting; /* requests */
};

/* The requests of a tenant in one list. */
struct as_flow {
    struct as_list node; /* in as_tenant.flows, or as_fair.unused */
    struct as_tenant *tenant;
    const struct as_list *fifo;
    struct as_request *first; /* in the list */
    struct as_list rest;      /* by age */
};

struct as_fair {
    enum as_fair_cost cost;
    uint64_t now[AS_PRIORITIES]; /* virtual time */
    struct as_list unused;       /* flows */
    struct as_tenant tenants[AS_FAIR_ROWS];
};

struct as_fair *as_fair_new(enum as_fair_cost cost);
void as_fair_free(struct as_fair *f); /* no request waits here; NULL: no effect */

/* Adds q to the list of its priority, which has nothing but such requests. */
void as_fair_insert(struct as_fair *f, struct as_list *fifo, struct as_request *q);
/* Removes q from its list; the next of its flow takes its place. */
void as_fair_remove(struct as_fair *f, struct as_list *fifo, struct as_request *q);
/* The tag that q, in no list of this, would have as the first of a flow. */
uint64_t as_fair_tag(const struct as_fair *f, const struct as_request *q);
/* q is sent: to be called before it is removed from its list, if it is in one. */
void as_fair_charge(struct as_fair *f, struct as_request *q);
/* Requests of the tenant that wait; with those of a tenant that shares its row. */
uint32_t as_fair_waiting(const struct as_fair *f, uint64_t tenant);
/* Is the list in order, and each flow? *ret_n is increased by its requests. */
bool as_fair_ok(const struct as_fair *f, const struct as_list *fifo, uint32_t *ret_n);

#endif
