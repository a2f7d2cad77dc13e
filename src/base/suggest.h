/* base/suggest.h — finds the known name that is closest to a mistyped one ("did you mean …?").
 *
 *     struct as_suggest suggest = {.key = typed};
 *     for each known name: as_suggest_offer(&suggest, name);
 *     as_suggest_best(&suggest)
 */
#ifndef AS_BASE_SUGGEST_H
#define AS_BASE_SUGGEST_H

#include "base/str.h"

struct as_suggest {
    struct as_str key; /* the name as typed; set by the caller, who zeroes the rest */
    struct as_str best;
    uint32_t distance; /* edit distance of `best`, plus 1; 0: no name was offered */
};

/* `name` must stay valid until the last call of as_suggest_best. */
void as_suggest_offer(struct as_suggest *n, struct as_str name);
/* The closest name, or a NULL slice when no name is similar: a wrong hint is worse than none. */
struct as_str as_suggest_best(const struct as_suggest *n);

#endif
