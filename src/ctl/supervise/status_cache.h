/* ctl/supervise/status_cache.h — what stands of deployments: given up or not, and their status, for
 * those who come later.
 *
 * Part of ctl/supervise/workers, which passes on what the controller says; a new dispatcher is told
 * it by as_status_cache_send_all, a new controller what it must take back by
 * as_status_cache_send_down. Thread: the loop's.
 */
#ifndef AS_CTL_STATUS_CACHE_H
#define AS_CTL_STATUS_CACHE_H

#include "base/list.h"
#include "ctl/message/reexec_state.h"
#include "ctl/message/channel.h"

struct as_status_cache {
    struct as_list deployments;
};

void as_status_cache_init(struct as_status_cache *s);
void as_status_cache_fini(struct as_status_cache *s);

/* DOWN, UP, STATUS or DELETE is kept, and said to the dispatcher (NULL: there is none). */
void as_status_cache_update(struct as_status_cache *s, const struct as_ctl_message *m,
                            struct as_channel *dispatcher);
void as_status_cache_send_all(const struct as_status_cache *s, struct as_channel *channel);
void as_status_cache_send_down(const struct as_status_cache *s,
                               struct as_channel *channel); /* STAYS */

/* Over an exec (ctl/message/reexec_state.h). */
void as_status_cache_save(const struct as_status_cache *s, struct as_reexec_writer *c);
void as_status_cache_restore(struct as_status_cache *s, struct as_reexec_reader *c);

#endif
