/* The rules for the names of models, versions and deployments. */
#include "base/err.h"
#include "core/registry/registry.h"

static bool is_plain(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

bool as_registry_is_verb(struct as_str s)
{
    static const char *const verbs[] = {"config",       "generate", "generate_stream", "infer",
                                        "infer_stream", "load",     "ready",           "setting",
                                        "stats",        "trace",    "unload"};

    for (size_t i = 0; i < AS_COUNT(verbs); i++) {
        if (as_str_eq(s, as_str_of(verbs[i])))
            return true;
    }
    return false;
}

static const char *check_segment(struct as_str s, bool last)
{
    if (s.n == 0)
        return "model name must not have an empty segment";
    if (!is_plain(s))
        return "model name may contain only letters, digits and . _ - /";
    if (as_str_eq(s, AS_STR(".")) || as_str_eq(s, AS_STR("..")))
        return "model name must not have a segment . or ..";
    if (as_str_eq(s, AS_STR("versions")))
        return "model name must not have a segment \"versions\"";
    if (last && as_registry_is_verb(s))
        return "model name must not end in a verb of the protocol, as a/infer does";
    return NULL;
}

int as_registry_check_name(struct as_str name, const char **ret_why)
{
    size_t from = 0;

    if (name.n == 0 || name.n > AS_NAME_MAX) {
        *ret_why = "model name must have 1 to 128 characters";
        return AS_EINVALID;
    }
    for (size_t i = 0; i <= name.n; i++) {
        const char *why;

        if (i < name.n && name.p[i] != '/')
            continue;
        why = check_segment((struct as_str){name.p + from, i - from}, i == name.n);
        if (why) {
            *ret_why = why;
            return AS_EINVALID;
        }
        from = i + 1;
    }
    return 0;
}

static int check_application(struct as_str name, const char **ret_why)
{
    if (name.n == 0 || name.n > AS_ID_APPLICATION_MAX) {
        *ret_why = "application name must have 1 to 127 characters";
        return AS_EINVALID;
    }
    if (!is_plain(name)) {
        *ret_why = "application name may contain only letters, digits and . _ -";
        return AS_EINVALID;
    }
    return 0;
}

int as_registry_check_deployment(struct as_str id, const char **ret_why)
{
    struct as_str name = as_id_name(id);
    const char *colon = name.n ? memchr(name.p, ':', name.n) : NULL;

    if (check_application(as_id_application(id), ret_why))
        return AS_EINVALID;
    if (colon) {
        size_t n = (size_t)(colon - name.p);
        int err = as_registry_check_name((struct as_str){name.p, n}, ret_why);

        return err ? err
                   : as_registry_check_version((struct as_str){colon + 1, name.n - n - 1}, ret_why);
    }
    if (name.n == 0 || name.n > AS_NAME_MAX) {
        *ret_why = "deployment name must have 1 to 128 characters";
        return AS_EINVALID;
    }
    if (!is_plain(name)) {
        *ret_why = "deployment name may contain only letters, digits and . _ -";
        return AS_EINVALID;
    }
    return 0;
}

int as_registry_check_version(struct as_str version, const char **ret_why)
{
    if (version.n == 0 || version.n > AS_VERSION_MAX) {
        *ret_why = "model version must have 1 to 64 characters";
        return AS_EINVALID;
    }
    if (!is_plain(version)) {
        *ret_why = "model version may contain only letters, digits and . _ -";
        return AS_EINVALID;
    }
    return 0;
}

bool as_registry_is_integer(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    }
    return s.n > 0;
}
