#include "conf/option/option.h"

#include "base/suggest.h"
#include "conf/option/option_row.h"
#include "core/route/plugin_list.h"
#include "wire/http/origin.h"

#define X(id, key, type, min, max, def, words, scope, group, doc)                                  \
    [AS_OPT_##id] = {key,                                                                          \
                     AS_OPTION_##type,                                                             \
                     (int64_t)(min),                                                               \
                     (int64_t)(max),                                                               \
                     def,                                                                          \
                     words,                                                                        \
                     AS_SCOPE_##scope,                                                             \
                     group,                                                                        \
                     doc},
const struct as_option_row as_option_rows[AS_OPT_COUNT] = {AS_OPTION_TABLE(X)};
#undef X

static bool is_known(const struct as_option_set *o, size_t id)
{
    return (as_option_rows[id].scope & o->scope) != 0;
}

void as_option_init(struct as_option_set *o, uint32_t scope)
{
    struct as_buf err = {0};

    *o = (struct as_option_set){.scope = scope};
    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        o->v[i].s = "";
        /* a default outside its own bounds is a bug of the table, found by the first run */
        AS_ASSERT(as_option_read(&as_option_rows[i], as_option_rows[i].def, &o->v[i], &err) == 0);
    }
    as_buf_fini(&err);
}

/* The known name that is most similar to `key`; a NULL slice when none is. */
static struct as_str suggest_name(const struct as_option_set *o, struct as_str key)
{
    struct as_suggest near = {.key = key};

    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        /* only options that the user may set */
        if (is_known(o, i) && !(as_option_rows[i].scope & AS_SCOPE_HIDDEN))
            as_suggest_offer(&near, as_str_of(as_option_rows[i].key));
    }
    return as_suggest_best(&near);
}

/* The id of a name, or -1. */
static int find_id(const struct as_option_set *o, struct as_str key)
{
    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        if (is_known(o, i) && as_str_eq(key, as_str_of(as_option_rows[i].key)))
            return (int)i;
    }
    return -1;
}

static int fail_unknown(const struct as_option_set *o, struct as_str key, struct as_buf *err)
{
    struct as_str name = suggest_name(o, key);

    as_buf_printf(err, "unknown option --%.*s", AS_STR_FMT(key));
    if (name.p)
        as_buf_printf(err, "; did you mean --%.*s?", AS_STR_FMT(name));
    return AS_EINVALID;
}

static int add_list_value(struct as_option_set *o, int id, const char *value, struct as_buf *err)
{
    if (o->n_items == AS_OPTION_ITEMS_MAX) {
        as_buf_printf(err, "--%s=%s: more than %u values of repeatable options",
                      as_option_rows[id].key, value, AS_OPTION_ITEMS_MAX);
        return AS_EINVALID;
    }
    o->items[o->n_items].id = (enum as_option_id)id;
    o->items[o->n_items++].s = value;
    return 0;
}

/* An invalid value leaves the set unchanged. */
static int set_value(struct as_option_set *o, int id, const char *value, struct as_buf *err)
{
    struct as_option_value v = o->v[id];
    struct as_buf why = {0};
    int rc;

    rc = as_option_read(&as_option_rows[id], value, &v, &why);
    if (rc < 0) {
        as_buf_printf(err, "--%s=%s: '%s' %.*s", as_option_rows[id].key, value, value,
                      AS_STR_FMT(as_buf_slice(&why)));
    } else if (as_option_rows[id].type == AS_OPTION_LIST) {
        rc = add_list_value(o, id, value, err);
    } else {
        v.given = true;
        o->v[id] = v;
    }
    as_buf_fini(&why);
    return rc;
}

/* Sets one option from its text; `key` without dashes. A string is not copied. */
static int set_text(struct as_option_set *o, const char *key, const char *value, struct as_buf *err)
{
    int id = find_id(o, as_str_of(key));

    return id < 0 ? fail_unknown(o, as_str_of(key), err) : set_value(o, id, value, err);
}

/* The id of the switch `key` in "--no-key", or -1. */
static int find_negated(const struct as_option_set *o, struct as_str key)
{
    int id;

    if (key.n <= 3 || memcmp(key.p, "no-", 3) != 0)
        return -1;
    id = find_id(o, (struct as_str){key.p + 3, key.n - 3});
    return id >= 0 && as_option_rows[id].type == AS_OPTION_BOOL ? id : -1;
}

/* Parses one "--…" argument; `next`: the argument behind it, or NULL. 0; 1: `next` was its value;
 * AS_EINVALID. */
static int parse_option(struct as_option_set *o, const char *arg, const char *next,
                        struct as_buf *err)
{
    const char *eq = strchr(arg, '=');
    struct as_str key = {arg, eq ? (size_t)(eq - arg) : strlen(arg)};
    /* no abbreviations: they would become ambiguous when a row is added */
    int id = find_id(o, key), rc;

    if (id < 0 && !eq) {
        id = find_negated(o, key);
        if (id >= 0)
            return set_value(o, id, "off", err);
    }
    if (id < 0)
        return fail_unknown(o, key, err);
    if (eq)
        return set_value(o, id, eq + 1, err);
    if (as_option_rows[id].type == AS_OPTION_BOOL)
        return set_value(o, id, "on", err);
    if (!next) {
        as_buf_printf(err, "--%s needs a value", as_option_rows[id].key);
        return AS_EINVALID;
    }
    rc = set_value(o, id, next, err);
    return rc < 0 ? rc : 1;
}

/* The short options. */
static const struct {
    char letter;
    enum as_option_id id;
} letters[] = {
    {'o', AS_OPT_OUTPUT_FILE}, {'y', AS_OPT_YES},   {'w', AS_OPT_WATCH},
    {'f', AS_OPT_FOLLOW},      {'n', AS_OPT_LINES}, {'p', AS_OPT_PORT},
};

/* Parses "-x" or "-xVALUE"; as parse_option. */
static int parse_letter(struct as_option_set *o, const char *arg, const char *next,
                        struct as_buf *err)
{
    for (size_t i = 0; i < AS_COUNT(letters); i++) {
        const struct as_option_row *row = &as_option_rows[letters[i].id];

        if (arg[1] != letters[i].letter || !is_known(o, letters[i].id))
            continue;
        if (arg[2] == 0)
            return parse_option(o, row->key, next, err);
        if (row->type != AS_OPTION_BOOL)
            return set_value(o, (int)letters[i].id, arg + 2, err);
    }
    as_buf_printf(err, "unknown option %s; options begin with --", arg);
    return AS_EINVALID;
}

/* Empty, or a path that is the same whether it is percent-decoded or not. */
static bool is_root_path(struct as_str s)
{
    if (!s.n)
        return true;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] <= ' ' || s.p[i] > '~' || strchr("%?#", s.p[i]))
            return false;
    }
    return s.p[0] == '/' && s.p[s.n - 1] != '/';
}

/* The value of an option is a header field that requests may have beside the ones that the server
 * reads itself; empty: none. AS_EINVALID with a text. */
static int check_header(const struct as_option_set *o, enum as_option_id id, struct as_buf *err)
{
    static const char *const own[] = {"host", "content-type", "content-length", "grpc-timeout",
                                      "grpc-encoding"};
    const char *name = o->v[id].s;
    bool valid = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(name);

    for (size_t i = 0; i < AS_COUNT(own); i++)
        valid = valid && strcmp(own[i], name) != 0;
    if (valid)
        return 0;
    as_buf_printf(err, "--%s: '%s' is not a name like x-tenant: %s", as_option_key(id), name,
                  "it has lower-case letters, digits, '-', '_' and '.', and is none of the fields "
                  "that the server reads itself");
    return AS_EINVALID;
}

static int check_origins(const struct as_option_set *o, enum as_option_id id, struct as_buf *err)
{
    struct as_str bad;

    if (as_origin_list_is_valid(as_str_of(o->v[id].s), &bad))
        return 0;
    as_buf_printf(err, "--%s: '%.*s' is not like https://host or http://host:port%s",
                  as_option_key(id), AS_STR_FMT(bad),
                  as_str_eq(bad, AS_STR("*")) ? "; every origin is to be named" : "");
    return AS_EINVALID;
}

/* Checks that need more than one option, or more than a row can say. */
static int check_together(const struct as_option_set *o, struct as_buf *err)
{
    static const enum as_option_id ordered[][2] = {
        {AS_OPT_RESTART_BACKOFF, AS_OPT_RESTART_BACKOFF_MAX},
        /* a stream cannot use more than its connection's window */
        {AS_OPT_STREAM_WINDOW, AS_OPT_CONNECTION_WINDOW},
        /* else a worker would count as lost between two heartbeats */
        {AS_OPT_WORKER_HEARTBEAT, AS_OPT_WORKER_HEARTBEAT_TIMEOUT},
    };

    struct as_str bad;

    if (check_origins(o, AS_OPT_ALLOW_ORIGIN, err) || check_origins(o, AS_OPT_CORS_ORIGIN, err))
        return AS_EINVALID;
    if (!as_plugin_list_is_valid(as_str_of(o->v[AS_OPT_ROUTER_PLUGIN].s), &bad)) {
        as_buf_printf(err, "--%s: '%.*s' is not DEPLOYMENT=FILE, or its deployment comes twice",
                      as_option_key(AS_OPT_ROUTER_PLUGIN), AS_STR_FMT(bad));
        return AS_EINVALID;
    }
    if (!is_root_path(as_str_of(o->v[AS_OPT_ROOT_PATH].s))) {
        as_buf_printf(err, "--%s: '%s' is not like /shop: %s", as_option_key(AS_OPT_ROOT_PATH),
                      o->v[AS_OPT_ROOT_PATH].s,
                      "it begins with a slash, ends without one, and has no escapes");
        return AS_EINVALID;
    }
    if (check_header(o, AS_OPT_TENANT_HEADER, err) || check_header(o, AS_OPT_COST_HEADER, err))
        return AS_EINVALID;
    for (size_t i = 0; i < AS_COUNT(ordered); i++) {
        if (o->v[ordered[i][0]].i <= o->v[ordered[i][1]].i || !o->v[ordered[i][1]].i)
            continue; /* 0: off */
        as_buf_printf(err, "--%s is above --%s", as_option_key(ordered[i][0]),
                      as_option_key(ordered[i][1]));
        return AS_EINVALID;
    }
    return 0;
}

static int add_argument(struct as_option_set *o, const char *arg, struct as_buf *err)
{
    if (o->more && o->n_args >= o->more_from) {
        o->n_more++;
        return set_text(o, o->more, arg, err);
    }
    if (o->n_args == AS_OPTION_ARGS_MAX) {
        as_buf_printf(err, "more than %u arguments", AS_OPTION_ARGS_MAX);
        return AS_EINVALID;
    }
    o->args[o->n_args++] = arg;
    return 0;
}

int as_option_parse(struct as_option_set *o, int argc, char *const *argv, struct as_buf *err)
{
    bool only_args = false;

    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        int rc = 0;

        if (!only_args && strcmp(arg, "--") == 0) {
            only_args = true;
        } else if (only_args || arg[0] != '-' || arg[1] == 0) {
            rc = add_argument(o, arg, err);
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            o->help = true;
        } else if (strcmp(arg, "--help-all") == 0) {
            o->help = o->help_all = true;
        } else if (arg[1] != '-') {
            rc = parse_letter(o, arg, i + 1 < argc ? argv[i + 1] : NULL, err);
        } else {
            rc = parse_option(o, arg + 2, i + 1 < argc ? argv[i + 1] : NULL, err);
        }
        if (rc < 0)
            return rc;
        i += rc;
    }
    /* --help works even when options do not fit together */
    return o->help ? 0 : check_together(o, err);
}

uint64_t as_option_u64(const struct as_option_set *o, enum as_option_id id)
{
    enum as_option_type t = as_option_rows[id].type;

    AS_ASSERT(t == AS_OPTION_INT || t == AS_OPTION_SIZE || t == AS_OPTION_ENUM);
    AS_ASSERT(o->v[id].i >= 0);
    return (uint64_t)o->v[id].i;
}

int64_t as_option_i64(const struct as_option_set *o, enum as_option_id id)
{
    AS_ASSERT(as_option_rows[id].type == AS_OPTION_INT);
    return o->v[id].i;
}

as_ns as_option_ns(const struct as_option_set *o, enum as_option_id id)
{
    AS_ASSERT(as_option_rows[id].type == AS_OPTION_DURATION);
    return (as_ns)o->v[id].i;
}

bool as_option_bool(const struct as_option_set *o, enum as_option_id id)
{
    AS_ASSERT(as_option_rows[id].type == AS_OPTION_BOOL);
    return o->v[id].i != 0;
}

const char *as_option_str(const struct as_option_set *o, enum as_option_id id)
{
    AS_ASSERT(as_option_rows[id].type == AS_OPTION_STRING ||
              as_option_rows[id].type == AS_OPTION_ENUM);
    return o->v[id].s;
}

const char *as_option_item(const struct as_option_set *o, enum as_option_id id, uint32_t i)
{
    AS_ASSERT(as_option_rows[id].type == AS_OPTION_LIST);
    for (uint32_t k = 0; k < o->n_items; k++) {
        if (o->items[k].id == id && i-- == 0)
            return o->items[k].s;
    }
    return NULL;
}

const char *as_option_key(enum as_option_id id)
{
    return as_option_rows[id].key;
}

/* Counts as given, so that child processes get the value and do not compute another one. */
void as_option_set_i64(struct as_option_set *o, enum as_option_id id, int64_t v)
{
    AS_ASSERT(as_option_rows[id].type == AS_OPTION_INT ||
              as_option_rows[id].type == AS_OPTION_SIZE ||
              as_option_rows[id].type == AS_OPTION_DURATION);
    AS_ASSERT(v >= as_option_rows[id].min && v <= as_option_rows[id].max);
    o->v[id].i = v;
    o->v[id].given = true;
}

void as_option_set_str(struct as_option_set *o, enum as_option_id id, const char *v)
{
    AS_ASSERT(as_option_rows[id].type == AS_OPTION_STRING);
    o->v[id].s = v;
    o->v[id].given = true;
}
