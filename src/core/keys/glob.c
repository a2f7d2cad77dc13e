#include "core/keys/glob.h"

bool as_glob_matches(struct as_str pattern, struct as_str name)
{
    size_t p = 0, n = 0, star = SIZE_MAX, from = 0;

    while (n < name.n) {
        if (p < pattern.n && pattern.p[p] == '*') {
            star = p++;
            from = n;
        } else if (p < pattern.n && (pattern.p[p] == '?' || pattern.p[p] == name.p[n])) {
            p++;
            n++;
        } else if (star != SIZE_MAX) { /* the last star takes one character more */
            p = star + 1;
            n = ++from;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*')
        p++;
    return p == pattern.n;
}

bool as_glob_list_matches(struct as_str patterns, struct as_str name)
{
    while (patterns.n) {
        if (as_glob_matches(as_str_split(&patterns, ','), name))
            return true;
    }
    return false;
}
