#include "tool/json_scan.h"

struct scan {
    const char *start, *p, *end;
    void (*on_number)(void *ctx, const char *path, double v);
    void *ctx;
    char path[AS_JSON_SCAN_PATH];
    size_t n;        /* of path */
    uint32_t depth;  /* of objects and arrays */
    uint32_t silent; /* arrays around, and names that did not fit */
};

static void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static bool take(struct scan *s, char c)
{
    skip_space(s);
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* Escapes are checked and left as they stand: our own names have none. */
static bool string(struct scan *s, struct as_str *ret_s)
{
    const char *from;

    if (!take(s, '"'))
        return false;
    for (from = s->p; s->p < s->end && *s->p != '"'; s->p++) {
        if ((unsigned char)*s->p < 0x20)
            return false;
        if (*s->p != '\\')
            continue;
        if (++s->p == s->end || !*s->p || !strchr("\"\\/bfnrtu", *s->p))
            return false;
        for (int i = 0; *s->p == 'u' && i < 4; i++) {
            if (s->end - s->p <= i + 1 || !is_hex(s->p[i + 1]))
                return false;
        }
    }
    *ret_s = (struct as_str){from, (size_t)(s->p - from)};
    return take(s, '"');
}

static size_t digits(struct scan *s)
{
    const char *from = s->p;

    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return (size_t)(s->p - from);
}

static bool number(struct scan *s)
{
    const char *from = s->p;
    char text[64];
    size_t n;

    if (s->p < s->end && *s->p == '-')
        s->p++;
    n = digits(s);
    if (n == 0 || (n > 1 && s->p[-(ptrdiff_t)n] == '0'))
        return false;
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!digits(s))
            return false;
    }
    if (s->p < s->end && (*s->p | 0x20) == 'e') {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
            s->p++;
        if (!digits(s))
            return false;
    }
    n = (size_t)(s->p - from);
    if (s->silent || n >= sizeof(text))
        return true;
    memcpy(text, from, n);
    text[n] = 0;
    s->path[s->n] = 0;
    s->on_number(s->ctx, s->path, strtod(text, NULL));
    return true;
}

static bool word(struct scan *s, const char *z)
{
    size_t n = strlen(z);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, z, n) != 0)
        return false;
    s->p += n;
    return true;
}

static bool value(struct scan *s);

static bool member(struct scan *s)
{
    size_t n = s->n;
    struct as_str name;
    bool fits, ok;

    if (!string(s, &name) || !take(s, ':'))
        return false;
    fits = n + 1 + name.n < AS_JSON_SCAN_PATH;
    if (fits) {
        if (n)
            s->path[s->n++] = '.';
        if (name.n)
            memcpy(s->path + s->n, name.p, name.n);
        s->n += name.n;
    }
    s->silent += !fits;
    ok = value(s);
    s->silent -= !fits;
    s->n = n;
    return ok;
}

static bool items(struct scan *s, bool object)
{
    char close = object ? '}' : ']';

    s->p++;
    if (take(s, close))
        return true;
    do {
        if (object ? !member(s) : !value(s))
            return false;
    } while (take(s, ','));
    return take(s, close);
}

static bool value(struct scan *s)
{
    struct as_str text;
    bool ok;

    skip_space(s);
    if (s->p == s->end || s->depth == AS_JSON_SCAN_DEPTH)
        return false;
    switch (*s->p) {
    case '{':
    case '[':
        s->depth++;
        s->silent += *s->p == '[';
        ok = *s->p == '{';
        ok = items(s, ok);
        if (ok)
            s->silent -= s->p[-1] == ']';
        s->depth--;
        return ok;
    case '"':
        return string(s, &text);
    case 't':
        return word(s, "true");
    case 'f':
        return word(s, "false");
    case 'n':
        return word(s, "null");
    default:
        return number(s);
    }
}

int as_json_scan(struct as_str text, void (*on_number)(void *ctx, const char *path, double v),
                 void *ctx, size_t *ret_at)
{
    struct scan s = {
        .start = text.p, .p = text.p, .end = text.p + text.n, .on_number = on_number, .ctx = ctx};
    bool ok = value(&s);

    skip_space(&s);
    *ret_at = (size_t)(s.p - s.start);
    return ok && s.p == s.end ? 0 : AS_EINVALID;
}
