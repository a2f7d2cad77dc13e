/* app/controller/initial_state.h — the first desired state of `anyserve run FILE`: what the code
 * declares, with --workers.
 *
 * The supervisor checks and prints it, the controller serves it. The functions only compute.
 */
#ifndef AS_APP_INITIAL_STATE_H
#define AS_APP_INITIAL_STATE_H

#include "conf/option/option.h"
#include "conf/spec/spec.h"

#define AS_INITIAL_STATE_APPLICATION AS_ID_DEFAULT /* of a server that `run` started */

/* Makes a whole spec, which the caller frees. --workers, if given, replaces num_replicas of every
 * deployment; otherwise the number in the code is used, or 1. AS_EINVALID: the code declares
 * something that a deployment file may not contain; `err` has the errors, one per line. */
int as_initial_state_spec(struct as_spec **ret_s, const struct as_option_set *opts,
                          const struct as_spec_limits *limits, const struct as_declared *app,
                          struct as_buf *err);
/* The route_prefix of its application, valid as long as s; NULL: it answers no HTTP requests. */
const char *as_initial_state_route(const struct as_spec *s);
/* num_replicas of a deployment; 0 if there is no such deployment. */
uint32_t as_initial_state_replicas(const struct as_spec *s, const char *deployment);

/* Appends the same as the text of a deployment file; without code it has no application. 0, or
 * AS_EINVALID like as_initial_state_spec. */
int as_initial_state_write(const struct as_option_set *opts, const struct as_declared *app,
                           struct as_buf *text, struct as_buf *err);

#endif
