/* link/fleet/unknown_peer.h — the log of connections that end before they have said who they are.
 *
 * A process that is refused comes again and again: for one reason there is a line at once, and then
 * one for each interval that says how many there were. Loop 0.
 */
#ifndef AS_LINK_STRANGER_H
#define AS_LINK_STRANGER_H

#include "base/log.h"

#define AS_UNKNOWN_PEER_INTERVAL                                                                   \
    (2 * AS_SEC) /* a worker that comes again does so within that time */

struct as_unknown_peer {
    char reason[160]; /* of the last one; "": there was none */
    uint32_t pid;     /* likewise */
    uint64_t times;   /* that were not told yet */
    as_ns until;      /* when they are */
};

void as_unknown_peer_log(struct as_unknown_peer *s, const struct as_log *log,
                         enum as_log_level level, uint32_t pid, const char *reason, as_ns now);
/* At intervals: what is due is told. */
void as_unknown_peer_tick(struct as_unknown_peer *s, const struct as_log *log, as_ns now);

#endif
