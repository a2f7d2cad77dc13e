/* conf/spec/spec_plan.h — turns a deployment's keys into a target for core/replicas/plan, and into
 * the JSON objects for its workers. Pure.
 */
#ifndef AS_CONF_SPEC_PLAN_H
#define AS_CONF_SPEC_PLAN_H

#include "conf/spec/spec.h"
#include "core/replicas/plan.h"

/* The target of one deployment. `server`: the policy by the server's options, which the
 * deployment's keys override. `generation`: the number under which the caller stores this spec. */
void as_spec_plan_target(struct as_plan_target *ret_t, const struct as_spec_object *app,
                         const struct as_spec_object *deployment,
                         const struct as_plan_policy *server, uint64_t generation);

/* Appends the JSON object with which one replica is started (docs/protocol/link.md, section 10):
 * its names and ranks, user_config, the options of class RECONFIGURE that file or code set, and
 * warmup_requests. */
void as_spec_put_context(const struct as_spec_object *app, const struct as_spec_object *deployment,
                         const char *replica, const struct as_replica_slot_facts *facts,
                         struct as_buf *out);
/* Appends what a worker says of the deployment's settings (the frames OPTIONS and TRAFFIC,
 * docs/protocol/link.md). debugging: without a timeout. */
void as_spec_put_settings(const struct as_spec_object *deployment, bool debugging,
                          struct as_buf *frames);
/* Appends the JSON object that changes a running replica: ranks, options and, with `user_config`,
 * the user_config. */
void as_spec_put_changes(const struct as_spec_object *deployment,
                         const struct as_replica_slot_facts *facts, bool user_config,
                         struct as_buf *out);

#endif
