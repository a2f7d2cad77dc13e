#include "base/suggest.h"

#define LONGEST                                                                                    \
    64u /* bytes; longer names get no hint, since the table of distances is on the stack */

/* Restricted Damerau–Levenshtein: two letters in the wrong order, the most common slip, cost 1. */
static uint32_t edit_distance(struct as_str a, struct as_str b)
{
    uint32_t d[LONGEST + 1][LONGEST + 1];

    for (uint32_t i = 0; i <= a.n; i++)
        d[i][0] = i;
    for (uint32_t j = 0; j <= b.n; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        for (size_t j = 1; j <= b.n; j++) {
            uint32_t swap = d[i - 1][j - 1] + (a.p[i - 1] != b.p[j - 1]);

            d[i][j] = AS_MIN(AS_MIN(d[i - 1][j], d[i][j - 1]) + 1, swap);
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
                d[i][j] = AS_MIN(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.n][b.n];
}

void as_suggest_offer(struct as_suggest *n, struct as_str name)
{
    uint32_t d;

    if (n->key.n == 0 || n->key.n > LONGEST || name.n > LONGEST)
        return;
    d = edit_distance(n->key, name);
    if (n->key.n >= 4 && name.n > n->key.n && memcmp(n->key.p, name.p, n->key.n) == 0)
        d = 1; /* an abbreviation */
    if (n->distance == 0 || d + 1 < n->distance) {
        n->distance = d + 1;
        n->best = name;
    }
}

struct as_str as_suggest_best(const struct as_suggest *n)
{
    bool similar = n->distance && n->distance - 1 <= 1 + n->key.n / 3;

    return similar ? n->best : (struct as_str){NULL, 0};
}
