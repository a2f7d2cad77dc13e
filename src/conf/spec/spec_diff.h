/* conf/spec/spec_diff.h — compares two specs: which deployments change, and what a change requires.
 *
 * Values are compared by their meaning: to write a default, or to change the order of keys, is no
 * change. Pure.
 */
#ifndef AS_CONF_SPEC_DIFF_H
#define AS_CONF_SPEC_DIFF_H

#include "conf/spec/spec.h"

/* Compares one deployment in two specs, with the keys of its application (import_path, env, …). The
 * highest class of the keys that differ; their names are appended to `keys` (may be NULL),
 * separated by commas. */
enum as_spec_class as_spec_compare(const struct as_spec_object *old_app,
                                   const struct as_spec_object *old_deployment,
                                   const struct as_spec_object *new_app,
                                   const struct as_spec_object *new_deployment,
                                   struct as_buf *keys);

/* A hash of all values of one class, of a deployment and its application. It is equal for values
 * that as_spec_compare finds equal, in all processes and after each restart. The hash of RESTART
 * identifies the deployment's version, that of RECONFIGURE the configuration of its workers. */
uint64_t as_spec_hash(const struct as_spec_object *app, const struct as_spec_object *deployment,
                      enum as_spec_class cls);

enum as_spec_step { AS_SPEC_ADDED, AS_SPEC_REMOVED, AS_SPEC_CHANGED, AS_SPEC_UNCHANGED };

const char *as_spec_step_name(enum as_spec_step step); /* "added" */

struct as_spec_change {
    enum as_spec_step step;
    enum as_spec_class cls; /* CHANGED: the highest class of its keys */
    const char *application, *deployment;
    const char *keys; /* CHANGED: "num_replicas,env"; else "" */
};

/* Calls `each` for all deployments of both specs: for those of `to` in their order, then for those
 * that only `from` has. A deployment that moves to another application is removed and added. Where
 * target_capacity of the files differs, that is a change of each deployment for which it holds.
 * `from` NULL: an empty spec. The code's values were added to both (as_spec_overlay). */
void as_spec_diff(const struct as_spec *from, const struct as_spec *to,
                  void (*each)(void *ctx, const struct as_spec_change *c), void *ctx);

#endif
