#include "wire/http/origin.h"

#include "base/defs.h"

#include <strings.h>

/* The part after "http://" or "https://"; n == 0: the origin has neither scheme. */
static struct as_str authority_of(struct as_str origin)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < AS_COUNT(schemes); i++) {
        size_t n = strlen(schemes[i]);

        if (origin.n > n && strncasecmp(origin.p, schemes[i], n) == 0)
            return (struct as_str){origin.p + n, origin.n - n};
    }
    return (struct as_str){0};
}

struct as_str as_origin_host(struct as_str authority)
{
    const char *end;

    if (authority.n && authority.p[0] == '[') {
        end = memchr(authority.p, ']', authority.n);
        return end ? (struct as_str){authority.p + 1, (size_t)(end - authority.p - 1)}
                   : (struct as_str){0};
    }
    end = authority.n ? memchr(authority.p, ':', authority.n) : NULL;
    return (struct as_str){authority.p, end ? (size_t)(end - authority.p) : authority.n};
}

bool as_origin_is_authority(struct as_str origin, struct as_str authority)
{
    return authority.n && as_str_eq_nocase(authority_of(origin), authority);
}

/* The next entry of a list; false after the last one. */
static bool next_entry(struct as_str *list, struct as_str *ret_entry)
{
    const char *comma;

    if (!list->p)
        return false;
    comma = list->n ? memchr(list->p, ',', list->n) : NULL;
    *ret_entry = (struct as_str){list->p, comma ? (size_t)(comma - list->p) : list->n};
    if (comma)
        *list = (struct as_str){comma + 1, list->n - ret_entry->n - 1};
    else
        *list = (struct as_str){0};
    return true;
}

static bool is_of_host(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

/* A name or an address, and perhaps a port. */
static bool is_authority(struct as_str a)
{
    bool brackets = a.n && a.p[0] == '[';
    struct as_str host = as_origin_host(a);
    size_t at = host.n + (brackets ? 2 : 0);

    if (!host.n)
        return false;
    for (size_t i = 0; i < host.n; i++) {
        if (!is_of_host(host.p[i]) && !(brackets && host.p[i] == ':'))
            return false;
    }
    if (at == a.n)
        return true;
    if (a.p[at] != ':' || at + 1 == a.n || a.n - at > 6)
        return false;
    for (size_t i = at + 1; i < a.n; i++) {
        if (a.p[i] < '0' || a.p[i] > '9')
            return false;
    }
    return true;
}

bool as_origin_list_is_valid(struct as_str list, struct as_str *ret_bad)
{
    if (!list.n)
        return true;
    while (next_entry(&list, ret_bad)) {
        if (!is_authority(authority_of(*ret_bad)))
            return false;
    }
    return true;
}

bool as_origin_list_contains(struct as_str list, struct as_str origin)
{
    struct as_str entry;

    while (next_entry(&list, &entry)) {
        if (entry.n && as_str_eq_nocase(entry, origin))
            return true;
    }
    return false;
}

bool as_origin_list_has_host(struct as_str list, struct as_str host)
{
    struct as_str entry;

    while (next_entry(&list, &entry)) {
        if (host.n && as_str_eq_nocase(as_origin_host(authority_of(entry)), host))
            return true;
    }
    return false;
}
