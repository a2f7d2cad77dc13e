#include "conf/spec/spec_row.h"

#include "base/digest/sha256.h"

#define X(level, id, key, type, min, max, def, words, cls, flags, doc)                             \
    [AS_SPEC_##level##_##id] = {AS_SPEC_LEVEL_##level, key, AS_SPEC_##type, (int64_t)(min),        \
                                (int64_t)(max),        def, words,          AS_SPEC_##cls,         \
                                AS_SPEC_##flags,       doc},
const struct as_spec_row as_spec_rows[AS_SPEC_KEYS] = {AS_SPEC_TABLE(X)};
#undef X

static const char *const level_names[AS_SPEC_LEVELS] = {
    [AS_SPEC_LEVEL_FILE] = "file",
    [AS_SPEC_LEVEL_APPLICATION] = "application",
    [AS_SPEC_LEVEL_DEPLOYMENT] = "deployment",
    [AS_SPEC_LEVEL_WARMUP] = "warmup",
    [AS_SPEC_LEVEL_LOGGING] = "logging",
};

uint32_t as_spec_first_key(enum as_spec_level level)
{
    uint32_t i = 0;

    while (as_spec_rows[i].level != level)
        i++;
    return i;
}

uint32_t as_spec_key_count(enum as_spec_level level)
{
    uint32_t first = as_spec_first_key(level), i = first;

    while (i < AS_SPEC_KEYS && as_spec_rows[i].level == level)
        i++;
    return i - first;
}

const char *as_spec_level_name(enum as_spec_level level)
{
    return level_names[level];
}

const char *as_spec_class_name(enum as_spec_class cls)
{
    static const char *const names[] = {[AS_SPEC_SAME] = "",
                                        [AS_SPEC_LIGHT] = "light",
                                        [AS_SPEC_RECONFIGURE] = "reconfigure",
                                        [AS_SPEC_RESTART] = "restart"};

    return names[cls];
}

enum as_spec_level as_spec_inner_level(const struct as_spec_row *row)
{
    uint32_t level = 0;

    while (strcmp(level_names[level], row->words) != 0)
        level++;
    return (enum as_spec_level)level;
}

/* --- the forms of texts --- */

static bool is_name(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return s.n > 0;
}

static bool is_deployment(struct as_str s)
{
    const char *slash = s.n ? memchr(s.p, '/', s.n) : NULL;
    size_t n = slash ? (size_t)(slash - s.p) : 0;

    return slash ? is_name((struct as_str){s.p, n}) &&
                       is_name((struct as_str){slash + 1, s.n - n - 1})
                 : is_name(s);
}

static size_t digits(struct as_str s, size_t from)
{
    size_t n = 0;

    while (from + n < s.n && s.p[from + n] >= '0' && s.p[from + n] <= '9')
        n++;
    return n;
}

/* "auto", or a list as the kernel writes it: 0-3,8. */
static bool is_cpus(struct as_str s)
{
    size_t i = 0, n;

    if (as_str_eq(s, AS_STR("auto")))
        return true;
    for (;;) {
        n = digits(s, i);
        i += n;
        if (n && i < s.n && s.p[i] == '-') {
            n = digits(s, i + 1);
            i += 1 + n;
        }
        if (n == 0)
            return false;
        if (i == s.n)
            return true;
        if (s.p[i++] != ',')
            return false;
    }
}

#define DIGEST "sha256:"
#define PICKLE "pickle:"
#define HEX    AS_SHA256_HEX

/* A relative path that does not leave the copy and cannot be taken for an option of a command. */
static bool is_inner_path(struct as_str s)
{
    size_t from = 0;

    if (s.n && s.p[0] == '-')
        return false;
    for (size_t i = 0; i <= s.n; i++) {
        struct as_str part = {s.p + from, i - from};

        if (i < s.n && s.p[i] != '/')
            continue;
        if (!part.n || as_str_eq(part, AS_STR(".")) || as_str_eq(part, AS_STR("..")))
            return false;
        from = i + 1;
    }
    return true;
}

/* The same as a regular expression, without lookahead, which not every validator supports. */
#define DOTTED  "\\.[^/.\\n\\r][^/\\n\\r]*|\\.\\.[^/\\n\\r]+"
#define FIRST   "([^-/.\\n\\r][^/\\n\\r]*|" DOTTED ")"
#define FURTHER "([^/.\\n\\r][^/\\n\\r]*|" DOTTED ")"
#define IN_COPY "/" FIRST "(/" FURTHER ")*"

static bool has_prefix(struct as_str s, const char *prefix)
{
    return s.n >= strlen(prefix) && memcmp(s.p, prefix, strlen(prefix)) == 0;
}

/* "copy", "live", "pickle:DIGEST", or "sha256:DIGEST" of a copy, with "/PATH" when a single file of
 * it is served. */
static bool is_code(struct as_str s)
{
    size_t n = sizeof(DIGEST) - 1; /* and of PICKLE */

    if (as_str_eq(s, AS_STR("copy")) || as_str_eq(s, AS_STR("live")))
        return true;
    if (s.n < n + HEX || (!has_prefix(s, DIGEST) && !has_prefix(s, PICKLE)) ||
        !as_sha256_is_hex((struct as_str){s.p + n, HEX}))
        return false;
    n += HEX;
    if (has_prefix(s, PICKLE))
        return s.n == n;
    if (memchr(s.p, '\n', s.n) || memchr(s.p, '\r', s.n))
        return false;
    return s.n == n || (s.p[n] == '/' && is_inner_path((struct as_str){s.p + n + 1, s.n - n - 1}));
}

/* A path without a slash at its end, or "/". Braces are those of patterns. */
static bool is_prefix(struct as_str s)
{
    return s.n && s.p[0] == '/' && (s.n == 1 || s.p[s.n - 1] != '/') && !memchr(s.p, '{', s.n) &&
           !memchr(s.p, '}', s.n) && !memchr(s.p, '\n', s.n) && !memchr(s.p, '\r', s.n);
}

static const struct form {
    const char *name, *pattern;
    bool (*matches)(struct as_str s);
    const char *error;
} forms[] = {
    {"name", "^[A-Za-z0-9._-]+$", is_name, "is not a name: letters, digits, '.', '_', '-'"},
    {"deployment", "^([A-Za-z0-9._-]+/)?[A-Za-z0-9._-]+$", is_deployment,
     "is neither the name of a deployment nor APPLICATION/NAME: letters, digits, '.', '_', '-'"},
    {"code", "^(copy|live|pickle:[0-9a-f]{64}|sha256:[0-9a-f]{64}(" IN_COPY ")?)$", is_code,
     "is neither copy, nor live, nor pickle:DIGEST, nor sha256:DIGEST of a copy, which may have "
     "/PATH of a file behind it"},
    {"cpus", "^(auto|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)$", is_cpus,
     "is neither auto nor a list of CPUs such as 0-3,8"},
    {"prefix", "^/([^{}\\n\\r]*[^/{}\\n\\r])?$", is_prefix,
     "is no path such as / or /shop: it begins with a slash, ends without one and has no braces"},
};

static const struct form *form_of(const struct as_spec_row *row)
{
    bool text = row->type == AS_SPEC_STRING || row->type == AS_SPEC_TEXT;

    for (size_t i = 0; text && i < AS_COUNT(forms); i++) {
        if (strcmp(forms[i].name, row->words) == 0)
            return &forms[i];
    }
    return NULL;
}

const char *as_spec_pattern(const struct as_spec_row *row)
{
    const struct form *f = form_of(row);

    return f ? f->pattern : NULL;
}

bool as_spec_matches(const struct as_spec_row *row, struct as_str text)
{
    const struct form *f = form_of(row);

    return !f || f->matches(text);
}

const char *as_spec_form_error(const struct as_spec_row *row)
{
    const struct form *f = form_of(row);

    return f ? f->error : "";
}

/* --- keys of other systems' files --- */

static const struct {
    enum as_spec_level level;
    const char *key, *hint;
} foreign_keys[] = {
    {AS_SPEC_LEVEL_FILE, "http_options", "the server's options are given on its command line"},
    {AS_SPEC_LEVEL_FILE, "grpc_options", "the server's options are given on its command line"},
    {AS_SPEC_LEVEL_FILE, "proxy_location", "there is one dispatcher for each machine"},
    {AS_SPEC_LEVEL_FILE, "logging_config", "it belongs to each deployment here"},
    {AS_SPEC_LEVEL_APPLICATION, "logging_config", "it belongs to each deployment here"},
    {AS_SPEC_LEVEL_DEPLOYMENT, "ray_actor_options",
     "num_cpus, num_gpus, memory, env and working_dir belong to the deployment here"},
    {AS_SPEC_LEVEL_DEPLOYMENT, "max_concurrent_queries", "it is called max_ongoing_requests here"},
    {AS_SPEC_LEVEL_DEPLOYMENT, "import_path", "it belongs to the application"},
    {AS_SPEC_LEVEL_DEPLOYMENT, "command", "it belongs to the application"},
};

const char *as_spec_foreign_key_hint(enum as_spec_level level, struct as_str key)
{
    for (size_t i = 0; i < AS_COUNT(foreign_keys); i++) {
        if (foreign_keys[i].level == level && as_str_eq(key, as_str_of(foreign_keys[i].key)))
            return foreign_keys[i].hint;
    }
    return NULL;
}
