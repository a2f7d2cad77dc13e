#include "conf/spec/spec_row.h"

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
#define HEX    64u /* digits of a SHA-256 */

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

/* "copy", "live", or "sha256:DIGEST" of a copy, with "/PATH" when a single file of it is served. */
static bool is_code(struct as_str s)
{
    size_t n = sizeof(DIGEST) - 1, from = n;

    if (as_str_eq(s, AS_STR("copy")) || as_str_eq(s, AS_STR("live")))
        return true;
    if (s.n < n + HEX || memcmp(s.p, DIGEST, n) != 0)
        return false;
    for (; n < from + HEX; n++) {
        if (!((s.p[n] >= '0' && s.p[n] <= '9') || (s.p[n] >= 'a' && s.p[n] <= 'f')))
            return false;
    }
    if (memchr(s.p, '\n', s.n) || memchr(s.p, '\r', s.n))
        return false;
    return s.n == n || (s.p[n] == '/' && is_inner_path((struct as_str){s.p + n + 1, s.n - n - 1}));
}

static const struct form {
    const char *name, *pattern;
    bool (*matches)(struct as_str s);
    const char *error;
} forms[] = {
    {"name", "^[A-Za-z0-9._-]+$", is_name, "is not a name: letters, digits, '.', '_', '-'"},
    {"code", "^(copy|live|sha256:[0-9a-f]{64}(" IN_COPY ")?)$", is_code,
     "is neither copy, nor live, nor sha256:DIGEST of a copy, which may have /PATH of a file "
     "behind it"},
    {"cpus", "^(auto|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)$", is_cpus,
     "is neither auto nor a list of CPUs such as 0-3,8"},
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
    {AS_SPEC_LEVEL_FILE, "target_capacity", "it is not supported; set num_replicas"},
    {AS_SPEC_LEVEL_FILE, "logging_config", "it belongs to each deployment here"},
    {AS_SPEC_LEVEL_APPLICATION, "runtime_env",
     "env and working_dir belong to the application here"},
    {AS_SPEC_LEVEL_APPLICATION, "route_prefix",
     "models are served by their names, not below a path"},
    {AS_SPEC_LEVEL_APPLICATION, "args", "use user_config of a deployment, or env"},
    {AS_SPEC_LEVEL_APPLICATION, "logging_config", "it belongs to each deployment here"},
    {AS_SPEC_LEVEL_DEPLOYMENT, "ray_actor_options",
     "num_cpus, num_gpus, memory, env and working_dir belong to the deployment here"},
    {AS_SPEC_LEVEL_DEPLOYMENT, "autoscaling_config", "it is not supported; set num_replicas"},
    {AS_SPEC_LEVEL_DEPLOYMENT, "max_constructor_retry_count", "it is called max_restarts here"},
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
