/* ctl/message/replica_facts.h — the facts of a replica as text: what the supervisor keeps for the
 * next controller.
 *
 * "number=0 rank=0 …", every field, in any order; unknown ones are skipped, and later ones may
 * be missing, so that a newer controller may be followed by an older one, and the other way. Pure.
 */
#ifndef AS_CTL_REPLICA_FACTS_H
#define AS_CTL_REPLICA_FACTS_H

#include "core/replicas/plan.h"

#define AS_REPLICA_FACTS_MAX 512u /* bytes of a note */

/* Without a NUL's place; returns `out`. */
struct as_str as_replica_facts_write(const struct as_replica_slot_facts *f,
                                     char out[AS_REPLICA_FACTS_MAX]);
/* 0; AS_EINVALID: a field is missing, or is no number: *ret_f is untouched. Whether the facts can
 * be is as_plan_adopt's to say. */
int as_replica_facts_parse(struct as_replica_slot_facts *ret_f, struct as_str text);

#endif
