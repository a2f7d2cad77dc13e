/* core/queue/share.h — priorities with a guaranteed share for the lower ones.
 *
 * Of every `every` calls that are sent while requests of lower priorities could be sent instead, at
 * least one begins with one of those. Otherwise the more urgent request goes first. The same holds
 * among the lower priorities for what is left to them. So with a share of 8 and a backlog of three
 * priorities they get 7/8, 7/64 and 1/64. A call counts only where a lower request could have gone
 * to the same replica; a turn that nobody could use is not lost.
 * Pure. Thread: the caller's.
 */
#ifndef AS_CORE_SHARE_H
#define AS_CORE_SHARE_H

#include "core/queue/request.h"

#define AS_SHARE_DEFAULT 8u
#define AS_SHARE_MIN     2u
#define AS_SHARE_MAX     1000u

struct as_share {
    uint32_t every; /* AS_SHARE_MIN … AS_SHARE_MAX */
    /* by priority: calls of it since one of a lower priority, while there was a choice */
    uint32_t passed[AS_PRIORITIES];
};

/* Which priority is next. classes: not 0; bit p is set when a request of priority p could be sent.
 */
uint32_t as_share_choose(const struct as_share *s, uint32_t classes);
/* A call of this priority is sent. lower: one of a lower priority could have been. */
void as_share_note(struct as_share *s, uint32_t priority, bool lower);

#endif
