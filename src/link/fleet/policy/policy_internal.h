/* link/fleet/policy/policy_internal.h — what policy.c (questions, the process) and
 * policy_replicas.c (what it is told of replicas) share. Private to both.
 */
#ifndef AS_LINK_POLICY_INTERNAL_H
#define AS_LINK_POLICY_INTERNAL_H

#include "base/buf.h"
#include "link/fleet/policy/policy.h"
#include "link/fleet/upstream.h"

/* A replica, as the process knows it. */
struct as_policy_known {
    uint32_t number;
    struct as_upstream *up;
    uint32_t ongoing, slots, reports; /* as they were said */
    bool seen;                        /* by the walk that goes on */
};

/* A question whose body is being sent. */
struct as_policy_more {
    uint64_t id;
    uint64_t at; /* so many bytes were sent */
};

struct as_policy {
    struct as_fleet_deployment *deploy;
    struct as_upstream *up; /* the process; NULL: there is none */
    uint32_t wants;
    uint64_t next_id;
    struct as_call *open[AS_POLICY_OPEN]; /* by the low bits of the question's id */
    uint32_t n_open;
    struct as_policy_known *known; /* sorted by number */
    uint32_t n_known, cap_known;
    struct as_policy_more *more;
    uint32_t n_more, cap_more;
    struct as_buf out; /* records of this turn */
    bool walked;       /* the replicas were looked at in this turn */
    struct as_task flush;
};

/* An empty text in place of one that is too long. */
static inline struct as_str as_policy_within(struct as_str s, size_t most)
{
    return s.n <= most ? s : AS_STR("");
}

/* There is a process, and it has too much that it has not read. */
bool as_policy_is_over(const struct as_policy *p);
/* Room for a record of that size, in this turn's frame or in the next one. */
struct as_buf *as_policy_room(struct as_policy *p, size_t n);
void as_policy_send_out(struct as_policy *p); /* what this turn has collected */
void as_policy_put_news(struct as_policy *p, enum as_policy_kind kind, uint64_t id,
                        uint32_t number);
struct as_policy_known *as_policy_find_known(const struct as_policy *p, uint32_t number);
void as_policy_forget_known(struct as_policy *p, struct as_policy_known *k, bool died);
/* Says what is new of the replicas, once a turn. */
void as_policy_walk_replicas(struct as_policy *p);

#endif
