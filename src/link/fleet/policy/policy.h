/* link/fleet/policy/policy.h — a deployment's router of the user's own, which runs in a policy
 * process: the questions to it and its answers (frame POLICY, wire/frame/frame_policy.h).
 *
 * The process is the replica of the deployment NAME.policy. What is said to it in one turn of the
 * loop leaves in one frame. Open questions and bytes that it has not read are bounded: beyond that
 * nothing is asked, and the built-in policy decides. When its link ends, or another process takes
 * over, the open questions are answered without a choice. Private to src/link. Thread: the dispatch
 * loop.
 */
#ifndef AS_LINK_POLICY_H
#define AS_LINK_POLICY_H

#include "link/fleet/fleet_deployment.h"
#include "wire/frame/frame_policy.h"

/* Internal bounds (docs/architecture/routing.md, Questions), and no options: they keep memory and
 * what a process that hangs still has to read small; one that keeps up is far from them. At either
 * one a request is not put to the router: it counts as `busy`, and the built-in policy decides. */
#define AS_POLICY_OPEN   1024u      /* open questions; a power of two */
#define AS_POLICY_WINDOW (4u << 20) /* bytes of records that may be unread before a record more */

struct as_policy; /* of one deployment; made when its process is first ready */

/* Puts the question which replica is to get c. False: there is no process, or it has too much to
 * do; that was counted. True: as_deployment_routed is called later, unless as_policy_unask comes
 * first. */
bool as_policy_ask(struct as_fleet_deployment *d, struct as_call *c);
/* The answer is not needed any more. No effect if c has no open question. */
void as_policy_unask(struct as_fleet_deployment *d, struct as_call *c);

/* c was sent to the replica c->routed_to; and has ended there. For a router that has hooks for
 * this.
 */
void as_policy_note_sent(struct as_fleet_deployment *d, const struct as_call *c);
void as_policy_note_ended(struct as_fleet_deployment *d, struct as_call *c);

/* A frame POLICY from a worker. NULL, or what is wrong with it. */
const char *as_policy_on_frame(struct as_upstream *u, const struct as_frame *f);
/* The upstream ends: as a policy process, or as a replica. To be called before core is told. died:
 * its process has. */
void as_policy_on_upstream_end(struct as_upstream *u, bool died);
/* The deployment has become known: its process may be ready already. */
void as_policy_begin(struct as_fleet_deployment *d);
/* The deployment has no router of its own any more. */
void as_policy_remove(struct as_fleet_deployment *d);
void as_policy_free(struct as_policy *p); /* NULL is fine; open questions are not answered */

/* How questions have ended. */
#define AS_POLICY_OUTCOME_TABLE(X)                                                                 \
    X(CHOSEN, "chosen")   /* the router has chosen */                                              \
    X(RAISED, "raised")   /* choose_replicas has raised */                                         \
    X(UNKNOWN, "unknown") /* it has returned what is no replica */                                 \
    X(NONE, "none")       /* it has returned no replica */                                         \
    X(BUSY, "busy")       /* the process has too many questions, or has not read what it has */    \
    X(LATE, "late")       /* the answer was not there in time */                                   \
    X(LOST, "lost")       /* the process has ended */                                              \
    X(ABSENT, "absent")   /* there is no process */                                                \
    X(LEFT, "left")       /* nobody waits for the request any more */

enum as_policy_outcome {
#define X(name, text) AS_POLICY_OUTCOME_##name,
    AS_POLICY_OUTCOME_TABLE(X)
#undef X
        AS_POLICY_OUTCOMES
};
static_assert(AS_POLICY_OUTCOMES == AS_FLEET_ROUTER_OUTCOMES, "one counter each");

#endif
