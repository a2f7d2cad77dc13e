/* ctl/supervise/status_cache.h — what stands of deployments: given up or not, and their status, for those who
 * come later.
 *
 * Part of ctl/supervise/workers, which passes on what the controller says; a new dispatcher is told it by
 * as_standing_dispatcher, a new controller what it must take back by as_standing_controller.
 * Thread: the loop's.
 */
#ifndef AS_CTL_STANDING_H
#define AS_CTL_STANDING_H

#include "base/list.h"
#include "ctl/message/reexec_state.h"
#include "ctl/message/channel.h"

struct as_standing {
    struct as_list deployments;
};

void as_standing_init(struct as_standing *s);
void as_standing_fini(struct as_standing *s);

/* DOWN, UP, STATUS or DELETE is kept, and said to the dispatcher (NULL: there is none). */
void as_standing_hear(struct as_standing *s, const struct as_ctl_message *m,
                      struct as_channel *dispatcher);
void as_standing_dispatcher(const struct as_standing *s, struct as_channel *channel);
void as_standing_controller(const struct as_standing *s, struct as_channel *channel); /* STAYS */

/* Over an exec (ctl/message/reexec_state.h). */
void as_standing_carry(const struct as_standing *s, struct as_carry *c);
void as_standing_resume(struct as_standing *s, struct as_carried *c);

#endif
