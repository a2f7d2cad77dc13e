/* app/controller/initial_state.h — what `anyserve run FILE` serves first: what the code declares,
 * and --workers.
 *
 * The supervisor checks and shows it, the controller serves it. Pure but for the allocation.
 */
#ifndef AS_APP_INITIAL_H
#define AS_APP_INITIAL_H

#include "conf/option.h"
#include "conf/spec.h"

#define AS_INITIAL_STATE_APPLICATION "default" /* of a server that `run` started */

/* 0 and a whole spec; AS_EINVALID: the code says what the table refuses, `err` has the lines. A
 * --workers that was given takes the place of each num_replicas; else the code's counts, or 1. */
int as_initial_state_spec(struct as_spec **ret_s, const struct as_option_set *opts,
                          const struct as_spec_limits *limits, const struct as_declared *app,
                          struct as_buf *err);
/* How many replicas a deployment of it is to have; 0 also where there is no such deployment. */
uint32_t as_initial_state_replicas(const struct as_spec *s, const char *deployment);

/* The same as the text of a deployment file, which may be without an application. 0; AS_EINVALID,
 * as as_initial_state_spec. */
int as_initial_state_write(const struct as_option_set *opts, const struct as_declared *app,
                           struct as_buf *text, struct as_buf *err);

#endif
