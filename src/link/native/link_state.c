/* The states of a link: which may follow which, how long each may last, and what holds in each.
 *
 *   from         may become                                timer of the state
 *   HELLO        OPEN, DRIVER                              handshake (set when accepted)
 *   OPEN         READY                                     the same
 *   DRIVER                                                 none
 *   READY        DRAINING, LEAVING, CONDEMNED, LOST        none
 *   DRAINING     LEAVING, CONDEMNED, LOST                  none
 *   LEAVING      CONDEMNED                                 none
 *   CONDEMNED    KILLED                                    DUMP_WAIT
 *   KILLED                                                 DEATH_WAIT
 *   LOST                                                   DEATH_WAIT
 *
 * Each may become ENDED: by the death of the process, by a broken rule of the protocol, by its
 * timer (CONDEMNED becomes KILLED), or by the end of the socket. With open requests and a process
 * that is watched the end of the socket makes LOST of the first two of those with slots; a link
 * that is to be killed stays what it is, without a socket.
 */
#include "link/native/link.h"

#define DUMP_WAIT  (30 * AS_MS)  /* the worker prints its stacks */
#define DEATH_WAIT (500 * AS_MS) /* the process dies */

#define BIT(s) (1u << AS_LINK_##s)

bool as_link_may_move(enum as_link_state from, enum as_link_state to)
{
    static const uint16_t next[AS_LINK_STATES] = {
        [AS_LINK_HELLO] = BIT(OPEN) | BIT(DRIVER) | BIT(ENDED),
        [AS_LINK_DRIVER] = BIT(ENDED),
        [AS_LINK_OPEN] = BIT(READY) | BIT(ENDED),
        [AS_LINK_READY] = BIT(DRAINING) | BIT(LEAVING) | BIT(CONDEMNED) | BIT(LOST) | BIT(ENDED),
        [AS_LINK_DRAINING] = BIT(LEAVING) | BIT(CONDEMNED) | BIT(LOST) | BIT(ENDED),
        [AS_LINK_LEAVING] = BIT(CONDEMNED) | BIT(ENDED),
        [AS_LINK_CONDEMNED] = BIT(KILLED) | BIT(ENDED),
        [AS_LINK_KILLED] = BIT(ENDED),
        [AS_LINK_LOST] = BIT(ENDED),
    };

    return next[from] >> to & 1u;
}

static as_ns longest_stay(enum as_link_state s)
{
    return s == AS_LINK_CONDEMNED                     ? DUMP_WAIT
           : s == AS_LINK_KILLED || s == AS_LINK_LOST ? DEATH_WAIT
                                                      : AS_NEVER;
}

void as_link_move(struct as_link *l, enum as_link_state to)
{
    as_ns stay = longest_stay(to);

    AS_ASSERT(as_link_may_move(l->state, to));
    l->state = to;
    if (to != AS_LINK_OPEN) /* the handshake goes on, and its timer */
        as_timer_set(&l->timer,
                     stay == AS_NEVER ? AS_NEVER : as_loop_now(l->up.fleet->loop) + stay);
    if (!as_link_serves(l))
        as_timer_set(&l->health.timer, AS_NEVER);
    AS_ASSERT(!as_link_check(l));
    if (to > AS_LINK_READY && to < AS_LINK_ENDED)
        as_link_update_rotation(l);
}

const char *as_link_check(const struct as_link *l)
{
    bool has_slots = l->state >= AS_LINK_READY && l->state < AS_LINK_ENDED;
    bool to_be_killed = l->state == AS_LINK_CONDEMNED || l->state == AS_LINK_KILLED;

    if (l->state == AS_LINK_ENDED)
        return l->timer.at == AS_NEVER && l->health.timer.at == AS_NEVER ? NULL : "a timer is set";
    if ((l->up.replica != NULL) != has_slots)
        return "a replica is a link whose worker has slots";
    if ((l->epoch != 0) != (l->state != AS_LINK_HELLO))
        return "the epoch comes with HELLO";
    if (has_slots && !(l->up.name && l->up.deploy && l->calls))
        return "what has slots has a name, a deployment and a table of requests";
    if ((l->kill_reason != NULL) != to_be_killed)
        return "there is a reason to kill it if it is to be killed";
    if ((l->timer.at == AS_NEVER) != (as_link_serves(l) || l->state == AS_LINK_DRIVER))
        return "its time in the state is bounded unless it serves or only calls";
    if (l->is_driver != (l->state == AS_LINK_DRIVER) && l->state != AS_LINK_HELLO)
        return "a driver stays one";
    if (l->health.timer.at != AS_NEVER && !as_link_serves(l))
        return "only what serves is checked";
    if (l->state == AS_LINK_LOST && as_transport_is_open(l->transport))
        return "a lost link has no socket";
    if (as_link_serves(l) && !as_transport_is_open(l->transport))
        return "what serves has a socket";
    if (l->life == AS_LINK_WATCHED && !l->page)
        return "the death watch looks at a page";
    if (l->up.process && l->up.process->up != &l->up)
        return "a process has one link";
    if (l->n_calls && !has_slots)
        return "requests need slots";
    return NULL;
}

bool as_link_is_up(const struct as_link *l)
{
    return l->state >= AS_LINK_READY && l->state <= AS_LINK_KILLED &&
           as_transport_is_open(l->transport);
}

const char *as_link_state_text(const struct as_link *l)
{
    if (l->state < AS_LINK_READY)
        return "starting";
    if (!as_link_is_up(l))
        return "lost";
    if (!as_link_serves(l) || l->health.failures)
        return "unhealthy";
    if (l->health.control_stream)
        return "updating";
    return l->state != AS_LINK_READY || l->up.retiring ? "draining" : "ready";
}

void as_link_update_rotation(struct as_link *l)
{
    struct as_upstream *u = &l->up;

    if (!u->replica)
        return;
    as_replica_drain(u->replica,
                     l->state != AS_LINK_READY || u->retiring || l->health.failures ||
                         l->health.control_stream,
                     as_loop_now(u->fleet->loop));
    as_fleet_update_ready(u->deploy);
}
