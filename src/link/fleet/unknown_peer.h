/* link/fleet/unknown_peer.h — the log of connections that end before their HELLO.
 *
 * A process that is refused connects again and again. For each reason there is a line at once, and
 * then one line for each interval with the number of connections. Thread: the dispatch loop.
 */
#ifndef AS_LINK_UNKNOWN_PEER_H
#define AS_LINK_UNKNOWN_PEER_H

#include "base/log.h"

#define AS_UNKNOWN_PEER_INTERVAL                                                                   \
    (2 * AS_SEC) /* above the time between two attempts of a worker                                \
                  */

struct as_unknown_peer {
    char reason[160]; /* why the last one ended; "": there was none */
    uint32_t pid;     /* of the last one */
    uint64_t times;   /* connections that are not logged yet */
    as_ns until;      /* when they will be */
};

void as_unknown_peer_log(struct as_unknown_peer *s, const struct as_log *log,
                         enum as_log_level level, uint32_t pid, const char *reason, as_ns now);
/* To be called regularly: logs what is due. */
void as_unknown_peer_tick(struct as_unknown_peer *s, const struct as_log *log, as_ns now);

#endif
