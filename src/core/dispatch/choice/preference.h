/* core/dispatch/choice/preference.h — requests that wait for certain replicas.
 *
 * A *group* is a set of replicas with its own waiting line: one replica alone, or all that hold a
 * multiplexed model. A request's *preference* has up to AS_PREFERENCE_LINKS links to groups, each
 * valid from some time on, and the time from which any replica will do. While a request has a
 * preference it waits in the lines of the groups that are valid; then it goes to the common queue
 * (core/queue/queue.h).
 *
 * So a replica with a free slot compares the heads of its groups' lines with the head of the queue
 * and takes the oldest. That takes time in proportion to its groups, or to the models that requests
 * wait for, whichever are fewer. Requests that wait here count
 * as queued; they keep their deadline, may be cancelled, and have their place by age when they go
 * over to the queue. One timer heap has the next change of every preference.
 *
 * Thread: the loop that owns the deployment. Internal to a deployment.
 */
#ifndef AS_CORE_PREFERENCE_H
#define AS_CORE_PREFERENCE_H

#include "base/container/list.h"
#include "core/dispatch/choice/group.h"
#include "core/dispatch/choice/router_conf.h"
#include "core/queue/due_heap.h"
#include "core/queue/request.h"

struct as_deployment;
struct as_replica;

struct as_preference {
    struct as_request *request;
    struct as_due due; /* when something of it changes */
    as_ns any_from;    /* from when any replica will do; AS_NEVER: another answer must come */
    as_ns ask_at;      /* when the user's router is asked again; AS_NEVER */
    as_ns ask_gap;     /* … and after which time it was last */
    bool asking;       /* an answer of the user's router is outstanding, until ask_until */
    as_ns ask_until;
    /* its time is over, but another request is loading its model: core/dispatch/choice/multiplex.h
     */
    bool overdue;
    bool of_model; /* filled by the rules for models */
    uint32_t n;
    struct as_preference_link links[AS_PREFERENCE_LINKS];
    struct as_list pool;
};

/* May q (in no list) have preferences? */
bool as_preference_applies(const struct as_deployment *d, const struct as_request *q);
/* Looks for a replica for q, in no list, for which as_preference_applies: one with a free slot that
 * it prefers, or that will do now. NULL: none, and if q->preference is set q must wait for its
 * groups (as_preference_wait), or as_preference_end must be called; else it waits for any replica.
 */
struct as_replica *as_preference_begin(struct as_deployment *d, struct as_request *q, as_ns now);
void as_preference_wait(struct as_deployment *d, struct as_request *q, as_ns now);
/* q, as for as_preference_begin, waits though a replica may have room: as_dispatch_send_all decides
 * by age what goes first, and then as_preference_run. */
void as_preference_enter(struct as_deployment *d, struct as_request *q, as_ns now);
/* q, which waits for its groups, leaves them: it is sent, or ends. */
void as_preference_dequeue(struct as_deployment *d, struct as_request *q);
/* Frees the preference of q, which does not wait (yet, or any more). */
void as_preference_end(struct as_deployment *d, struct as_request *q);
/* Adds a link to a preference that is being filled; no effect if it has one to that group. */
void as_preference_add(struct as_preference *t, struct as_group *g, as_ns from, uint32_t rank);
/* Of the requests that wait for r, by its groups, and that r can execute: the next one of each
 * priority, if it goes before that in `best`. as_preference_forget must follow. */
void as_preference_find(struct as_replica *r, struct as_request *best[AS_PRIORITIES]);
void as_preference_forget(struct as_request *const best[AS_PRIORITIES]);
bool as_preference_has_for(const struct as_replica *r); /* there is one */
/* Something of this preference is to be decided anew, at the next as_preference_run. */
void as_preference_hurry(struct as_deployment *d, struct as_preference *t);
/* r takes nothing now: those that wait for it alone may go elsewhere at the next run. */
void as_preference_release(struct as_replica *r);
/* All but those that wait for a model go over to the queue; as_dispatch_pull must follow for each
 * replica. */
void as_preference_release_all(struct as_deployment *d);
/* as_preference_run must follow: r may have come to hold a model for which requests wait. */
void as_preference_pull_later(struct as_replica *r);
/* Does what the calls before have left to do: routes that were hurried, and replicas that may take
 * what waits for them. */
void as_preference_run(struct as_deployment *d, as_ns now);
/* Does what is due: routes whose time has come, and those that were hurried. */
void as_preference_expire(struct as_deployment *d, as_ns now);
bool as_preference_ok(const struct as_deployment *d);
/* Frees the pool; nothing waits. */
void as_preference_fini(struct as_deployment *d);

#endif
