/* ctl/message/replica_facts.h — the facts of a replica as the text of NOTE, which the supervisor
 * keeps for the next controller.
 *
 * "number=0 rank=0 …": every field, in any order. Unknown fields are skipped, and fields of later
 * versions may be missing, so that controllers of different versions can follow each other. Pure.
 */
#ifndef AS_CTL_REPLICA_FACTS_H
#define AS_CTL_REPLICA_FACTS_H

#include "core/replicas/plan.h"

#define AS_REPLICA_FACTS_MAX 512u /* bytes of the text */

/* Writes to `out` and returns it as a slice. */
struct as_str as_replica_facts_write(const struct as_replica_slot_facts *f,
                                     char out[AS_REPLICA_FACTS_MAX]);
/* 0; AS_EINVALID: a field is missing, or is not a number; *ret_f is not changed. as_plan_adopt
 * checks whether the facts are possible. */
int as_replica_facts_parse(struct as_replica_slot_facts *ret_f, struct as_str text);

#endif
