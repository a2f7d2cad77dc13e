/* base/suggest.h — the known name that somebody most likely meant.
 *
 *     struct as_suggest near = {.key = typed};
 *     for each known name: as_suggest_offer(&near, name);
 *     as_suggest_best(&near)
 */
#ifndef AS_BASE_SUGGEST_H
#define AS_BASE_SUGGEST_H

#include "base/str.h"

struct as_suggest {
    struct as_str key; /* what was typed; the caller sets it, the rest is 0 */
    struct as_str best;
    uint32_t distance; /* of best, + 1; 0: none was offered */
};

/* The slice must live as long as it may be the best. */
void as_suggest_offer(struct as_suggest *n, struct as_str name);
/* The closest name; p NULL when none is similar: a wrong hint is worse than none. */
struct as_str as_suggest_best(const struct as_suggest *n);

#endif
