/* conf/spec_plan.h — what a deployment's keys mean for core/replicas/plan, and what its workers are
 * told. Pure.
 */
#ifndef AS_CONF_SPEC_PLAN_H
#define AS_CONF_SPEC_PLAN_H

#include "conf/spec.h"
#include "core/replicas/plan.h"

/* The target of one deployment. `server`: the policy that the server's options make; keys that are
 * set take its place. `generation`: under which the caller finds this spec again. */
void as_spec_plan_target(struct as_plan_target *ret_t, const struct as_spec_object *app,
                         const struct as_spec_object *deployment,
                         const struct as_plan_policy *server, uint64_t generation);

/* The JSON object that one replica is started with, or told (docs/PROTOCOL.md, section 10): who it
 * is, user_config, the options of class RECONFIGURE that file or code set, and warmup_requests. */
void as_spec_put_context(const struct as_spec_object *app, const struct as_spec_object *deployment,
                         const char *replica, const struct as_replica_slot_facts *facts,
                         struct as_buf *out);
/* The JSON object that makes a running replica what `facts` says: ranks, options and, with
 * `user_config`, that. */
void as_spec_put_changes(const struct as_spec_object *deployment,
                         const struct as_replica_slot_facts *facts, bool user_config,
                         struct as_buf *out);

#endif
