#include "core/route/plugin_list.h"

bool as_plugin_list_next(struct as_str *list, struct as_str *ret_entry)
{
    const char *comma = list->n ? memchr(list->p, ',', list->n) : NULL;
    size_t n = comma ? (size_t)(comma - list->p) : list->n;

    if (!list->n)
        return false;
    *ret_entry = (struct as_str){list->p, n};
    *list = comma ? (struct as_str){comma + 1, list->n - n - 1} : (struct as_str){list->p + n, 0};
    return true;
}

bool as_plugin_split(struct as_str entry, struct as_str *ret_name, struct as_str *ret_path)
{
    const char *equals = entry.n ? memchr(entry.p, '=', entry.n) : NULL;
    size_t n = equals ? (size_t)(equals - entry.p) : 0;

    if (!n || n > AS_PLUGIN_NAME_MAX || n + 1 == entry.n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (entry.p[i] <= ' ')
            return false;
    }
    *ret_name = (struct as_str){entry.p, n};
    *ret_path = (struct as_str){equals + 1, entry.n - n - 1};
    return true;
}

bool as_plugin_list_is_valid(struct as_str list, struct as_str *ret_bad)
{
    if (list.n && list.p[list.n - 1] == ',') {
        *ret_bad = (struct as_str){list.p + list.n, 0};
        return false;
    }
    for (struct as_str rest = list, name, path; as_plugin_list_next(&rest, ret_bad);) {
        if (!as_plugin_split(*ret_bad, &name, &path) || as_plugin_list_has(rest, name))
            return false;
    }
    return true;
}

bool as_plugin_list_has(struct as_str list, struct as_str name)
{
    struct as_str entry, other, path;

    while (as_plugin_list_next(&list, &entry)) {
        if (as_plugin_split(entry, &other, &path) && as_str_eq(other, name))
            return true;
    }
    return false;
}
