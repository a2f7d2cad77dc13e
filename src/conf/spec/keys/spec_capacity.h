/* conf/spec/keys/spec_capacity.h — target_capacity of a file: which part of its replicas each of
 * its deployments has. Applications that programs have uploaded (`code: pickle:…`) are not the
 * file's, and have all of theirs, as in Ray Serve; so do the processes of policies. Pure.
 */
#ifndef AS_CONF_SPEC_CAPACITY_H
#define AS_CONF_SPEC_CAPACITY_H

#include "conf/spec/spec.h"
#include "core/autoscale/capacity.h"

/* A program has uploaded its code. */
bool as_spec_is_uploaded(const struct as_spec_object *app);
/* That of the file. */
struct as_capacity as_spec_file_capacity(const struct as_spec_object *file);
/* That which holds for a deployment of the file. */
struct as_capacity as_spec_capacity(const struct as_spec_object *file,
                                    const struct as_spec_object *app,
                                    const struct as_spec_object *deployment);
/* Both files have the same target_capacity; the direction is not compared. */
bool as_spec_same_capacity(const struct as_spec *a, const struct as_spec *b);
/* Sets target_capacity_direction of a file that is to replace `before` (NULL: nothing), whatever it
 * was. */
void as_spec_set_direction(struct as_spec *s, const struct as_spec *before);

#endif
