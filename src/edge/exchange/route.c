#include "edge/exchange/route.h"

#include "core/registry/registry.h"

/* The longest name of a model, if every byte is encoded as %XX. */
#define MODEL_MAX (3 * (size_t)AS_NAME_MAX)

/* --- matching --- */

static struct as_str last_segment(struct as_str s)
{
    const char *slash = s.n ? memrchr(s.p, '/', s.n) : NULL;

    return slash ? (struct as_str){slash + 1, (size_t)(s.p + s.n - slash) - 1} : s;
}

static struct as_str *find_variable(const char *pattern, struct as_rest_match *m)
{
    switch (pattern[1]) { /* the first letter of the variable is unique */
    case 'm':
        return &m->model;
    case 'v':
        return &m->version;
    case 'a':
        return &m->application;
    case 'd':
        return &m->deployment;
    default:
        return &m->name;
    }
}

static bool match(const char *pattern, const char *p, const char *end, struct as_rest_match *m);

/* Matches one segment, or for {model} as few segments as possible. */
static bool match_variable(const char *pattern, const char *p, const char *end,
                           struct as_rest_match *m)
{
    struct as_str *v = find_variable(pattern, m);
    const char *behind = strchr(pattern, '}') + 1, *at = p;
    bool many = v == &m->model;

    while (at <= end) {
        const char *slash = at < end ? memchr(at, '/', (size_t)(end - at)) : NULL;
        struct as_str s = {p, (size_t)((slash ? slash : end) - p)};

        if (many && as_str_eq(last_segment(s), AS_STR("versions")))
            return false;
        if (s.n && !(many && as_registry_is_verb(last_segment(s))) &&
            match(behind, s.p + s.n, end, m)) {
            *v = s;
            return true;
        }
        if (!many || !slash || s.n > MODEL_MAX)
            return false;
        at = slash + 1;
    }
    return false;
}

static bool match(const char *pattern, const char *p, const char *end, struct as_rest_match *m)
{
    for (; *pattern; pattern++) {
        if (*pattern == '{')
            return match_variable(pattern, p, end, m);
        if (*pattern == '[') {
            if (match(pattern + 1, p, end, m))
                return true;
            pattern = strchr(pattern, ']');
        } else if (*pattern != ']') {
            if (p == end || *p != *pattern)
                return false;
            p++;
        }
    }
    return p == end;
}

bool as_route_matches(const char *pattern, struct as_str path, struct as_rest_match *ret_m)
{
    ret_m->model = ret_m->version = ret_m->name = (struct as_str){0};
    ret_m->application = ret_m->deployment = (struct as_str){0};
    return match(pattern, path.p, path.p + path.n, ret_m);
}

/* --- percent-encoding (RFC 3986, 2.1) --- */

int as_route_decode(struct as_str s, char *out, size_t *ret_n)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        int c = as_str_percent((struct as_str){s.p + i, s.n - i});

        if (s.p[i] == '%' && c <= 0)
            return AS_EINVALID;
        out[n++] = c > 0 ? (char)c : s.p[i];
        i += c > 0 ? 2 : 0;
    }
    *ret_n = n;
    return 0;
}

bool as_route_put(struct as_buf *out, const char *pattern, bool with_optional,
                  const struct as_rest_match *m)
{
    struct as_rest_match vars = *m;

    if (with_optional && !strchr(pattern, '['))
        return false;
    for (; *pattern; pattern++) {
        struct as_str *v;

        if (*pattern == '[' && !with_optional) {
            pattern = strchr(pattern, ']');
        } else if (*pattern == '{' && (v = find_variable(pattern, &vars))->n) {
            as_buf_percent(out, *v);
            pattern = strchr(pattern, '}');
        } else if (*pattern != '[' && *pattern != ']') {
            as_buf_add(out, pattern, 1);
        }
    }
    return true;
}
