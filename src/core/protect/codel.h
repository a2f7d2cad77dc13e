/* core/protect/codel.h — controlled delay: which requests are shed because all of them wait too
 * long.
 *
 * A queue that is only a burst becomes short again, so some request soon waits for less than
 * `target`. If none does for a whole interval, more comes than can be served. From then on each
 * request that has waited for more than twice the target is shed when its turn comes, until the
 * shortest wait of an interval is below the target again: those that are served have waited for a
 * short time only, and the others know early. Pure. Thread: the caller's.
 */
#ifndef AS_CORE_CODEL_H
#define AS_CORE_CODEL_H

#include "base/defs.h"

#define AS_CODEL_INTERVAL (100 * AS_MS) /* the default */

struct as_codel_conf {
    as_ns target; /* 0: nothing is ever shed */
    as_ns interval;
};

struct as_codel {
    as_ns until; /* the end of this interval */
    as_ns least; /* the shortest wait in it */
    bool overloaded;
};

/* The turn of a request has come that has waited for so long. True: it is to be shed. */
bool as_codel_sheds(struct as_codel *c, const struct as_codel_conf *conf, as_ns waited, as_ns now);

#endif
