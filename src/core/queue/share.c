#include "core/queue/share.h"

uint32_t as_share_choose(const struct as_share *s, uint32_t classes)
{
    uint32_t last = 0;

    AS_ASSERT(classes && !(classes >> AS_PRIORITIES));
    for (uint32_t p = 0; classes >> p; p++) {
        if (!(classes >> p & 1))
            continue;
        last = p;
        if (s->passed[p] + 1 < s->every)
            return p;
    }
    return last; /* the others have had their turns, and this is the lowest */
}

void as_share_note(struct as_share *s, uint32_t priority, bool lower)
{
    for (uint32_t p = 0; p < priority; p++)
        s->passed[p] = 0;
    if (lower && s->passed[priority] + 1 < s->every)
        s->passed[priority]++;
}
