/* conf/spec_diff.h — what a new spec changes of an old one, and what that costs.
 *
 * Values are compared by what they mean, not by how or where they are written: a default that is
 * spelled out is no change, nor is another order of keys. Pure.
 */
#ifndef AS_CONF_SPEC_DIFF_H
#define AS_CONF_SPEC_DIFF_H

#include "conf/spec.h"

/* The costliest class of all keys that differ, the application's included (import_path, env, …),
 * for the same deployment in two specs. The keys' names, comma between, are appended to `keys` (may
 * be NULL). */
enum as_spec_class as_spec_compare(const struct as_spec_object *old_app,
                                   const struct as_spec_object *old_deployment,
                                   const struct as_spec_object *new_app,
                                   const struct as_spec_object *new_deployment,
                                   struct as_buf *keys);

/* A number for the values of all keys of one class, of a deployment and its application: equal for
 * what as_spec_compare calls equal, in every process and after every restart. RESTART: which
 * version it is
 * (`version` included). RECONFIGURE: what its workers were told. */
uint64_t as_spec_hash(const struct as_spec_object *app, const struct as_spec_object *deployment,
                      enum as_spec_class cls);

enum as_spec_step { AS_SPEC_ADDED, AS_SPEC_REMOVED, AS_SPEC_CHANGED, AS_SPEC_UNCHANGED };

struct as_spec_change {
    enum as_spec_step step;
    enum as_spec_class cls; /* CHANGED: what it costs */
    const char *application, *deployment;
    const char *keys; /* CHANGED: "num_replicas,env"; else "" */
    const struct as_spec_object *old_app, *old_deployment; /* NULL: ADDED */
    const struct as_spec_object *new_app, *new_deployment; /* NULL: REMOVED */
};

/* One call for each deployment of either spec: those of the new one in its order, then those that
 * are gone. A deployment that moves to another application is removed there and added here. `from`
 * NULL: nothing was there. Both specs are whole (as_spec_overlay). */
void as_spec_diff(const struct as_spec *from, const struct as_spec *to,
                  void (*each)(void *ctx, const struct as_spec_change *c), void *ctx);

#endif
