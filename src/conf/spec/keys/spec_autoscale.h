/* conf/spec/keys/spec_autoscale.h — how the number of replicas of a deployment is decided: its keys
 * num_replicas and autoscaling_config. Pure.
 */
#ifndef AS_CONF_SPEC_AUTOSCALE_H
#define AS_CONF_SPEC_AUTOSCALE_H

#include "conf/spec/spec.h"
#include "core/autoscale/autoscale_config.h"

/* The value of num_replicas `auto`: autoscaling_config counts, with a larger max_replicas. */
#define AS_SPEC_REPLICAS_AUTO (-1)

/* Does the number of replicas follow the load? A number in num_replicas counts more than an
 * autoscaling_config, as stored texts of earlier versions have both. ret_c may be NULL. */
bool as_spec_autoscale(const struct as_spec_object *deployment, struct as_autoscale_config *ret_c);
/* The number of replicas with which it starts. */
uint32_t as_spec_replicas(const struct as_spec_object *deployment);
/* Reads the JSON of autoscaling_config over the defaults in *c. 0; AS_EINVALID, with what is wrong
 * in `why`. */
int as_spec_read_autoscale(const char *json, struct as_autoscale_config *c, struct as_buf *why);
/* Reads the JSON of a policy: of the member `policy` of autoscaling_config, or of an application's
 * autoscaling_policy. 0; AS_EINVALID, with what is wrong in `why`. */
int as_spec_read_policy(const char *json, struct as_buf *why);

#endif
