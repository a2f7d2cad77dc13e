/* conf/spec/keys/spec_policy.h — deployments whose router or autoscaling policy is a class or
 * function of the program: these run in a policy process, the one replica of a deployment
 * NAME.policy. So does the autoscaling policy of an application, in the process of the first one
 * of the deployments for which it decides. Pure.
 */
#ifndef AS_CONF_SPEC_POLICY_H
#define AS_CONF_SPEC_POLICY_H

#include "conf/spec/spec.h"

/* The most deployments for which one policy of an application decides: a question has all of them,
 * and must fit into a message between processes. */
#define AS_SPEC_SCALED_TOGETHER_MAX 32u

/* request_router_class, or the policy of autoscaling_config, is an import path of the program's. */
bool as_spec_has_own_router(const struct as_spec_object *deployment);
bool as_spec_has_own_scaling(const struct as_spec_object *deployment);
/* autoscaling_policy of the application is: it decides for all its deployments whose number follows
 * the load, whatever policies these have, as in Ray Serve. */
bool as_spec_scales_together(const struct as_spec_object *app);
/* The one of these deployments in whose policy process it runs: the first one by name. NULL: there
 * is no such policy, or no such deployment. */
const struct as_spec_object *as_spec_scaling_host(const struct as_spec_object *app);
/* The policy process of this deployment runs an autoscaling policy: for the number of its replicas,
 * which is not fixed, or for those of its application. */
bool as_spec_runs_scaling(const struct as_spec_object *app,
                          const struct as_spec_object *deployment);
/* A policy process NAME.policy has something to run for this deployment. */
bool as_spec_needs_policy(const struct as_spec_object *app,
                          const struct as_spec_object *deployment);
bool as_spec_is_policy(struct as_str name); /* it is that of a policy process's deployment */
/* Sets the values of a policy process's deployment that a file does not set. */
void as_spec_set_policy(struct as_arena *a, struct as_spec_object *policy,
                        const struct as_spec_object *app, const struct as_spec_object *base);

#endif
