/* ctl/message/replica_facts.h — the facts of a replica as text: what the supervisor keeps for the next controller.
 *
 * "number=0 rank=0 …", every field, in any order; unknown ones are skipped, and later ones may
 * be missing, so that a newer controller may be followed by an older one, and the other way. Pure.
 */
#ifndef AS_CTL_NOTE_H
#define AS_CTL_NOTE_H

#include "core/replicas/plan.h"

#define AS_NOTE_MAX 512u /* bytes of a note */

/* Without a NUL's place; returns `out`. */
struct as_str as_note_write(const struct as_place_facts *f, char out[AS_NOTE_MAX]);
/* 0; AS_EINVALID: a field is missing, or is no number: *ret_f is untouched. Whether the facts can
 * be is as_plan_adopt's to say. */
int as_note_read(struct as_place_facts *ret_f, struct as_str text);

#endif
