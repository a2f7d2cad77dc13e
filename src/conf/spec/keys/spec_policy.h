/* conf/spec/keys/spec_policy.h — deployments whose router or autoscaling policy is a class or
 * function of the program: these run in a policy process, the one replica of a deployment
 * NAME.policy. Pure.
 */
#ifndef AS_CONF_SPEC_POLICY_H
#define AS_CONF_SPEC_POLICY_H

#include "conf/spec/spec.h"

/* request_router_class, or the policy of autoscaling_config, is an import path of the program's. */
bool as_spec_has_own_router(const struct as_spec_object *deployment);
bool as_spec_has_own_scaling(const struct as_spec_object *deployment);
bool as_spec_is_policy(struct as_str name); /* it is that of a policy process's deployment */
/* Sets the values of a policy process's deployment that a file does not set. */
void as_spec_set_policy(struct as_arena *a, struct as_spec_object *policy,
                        const struct as_spec_object *base);

#endif
