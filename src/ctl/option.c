#include "ctl/option.h"

#include "ctl/option_row.h"

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

#define KEY_MAX 64u

static bool known(const struct as_option_set *o, size_t id)
{
    return (as_option_rows[id].scope & o->scope) != 0;
}

void as_option_init(struct as_option_set *o, uint32_t scope)
{
    struct as_buf err;

    *o = (struct as_option_set){.scope = scope};
    as_buf_init(&err);
    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        o->v[i].s = "";
        /* a default that its own bounds refuse is our bug, found by the first run */
        AS_ASSERT(as_option_read(&as_option_rows[i], as_option_rows[i].def, &o->v[i], &err) == 0);
    }
    as_buf_fini(&err);
}

/* Edit distance of two short names, with the swap of neighbours as one step. */
/* Damerau–Levenshtein, restricted: typed in the wrong order is the most common slip. */
static uint32_t distance(struct as_str a, struct as_str b)
{
    uint32_t d[KEY_MAX + 1][KEY_MAX + 1];

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

/* The known name closest to `key`, or NULL when none is similar. */
static const char *nearest(const struct as_option_set *o, struct as_str key)
{
    const char *best = NULL;
    uint32_t best_d = UINT32_MAX;

    if (key.n == 0 || key.n > KEY_MAX)
        return NULL;
    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        struct as_str name = as_str_of(as_option_rows[i].key);
        uint32_t d;

        /* never suggest what would be refused next */
        if (!known(o, i) || (as_option_rows[i].scope & AS_SCOPE_HIDDEN))
            continue;
        d = distance(key, name);
        if (key.n >= 4 && name.n > key.n && memcmp(key.p, name.p, key.n) == 0)
            d = 1; /* an abbreviation */
        if (d < best_d) {
            best_d = d;
            best = as_option_rows[i].key;
        }
    }
    /* further away it would be a guess, and a wrong hint is worse than none */
    return best && best_d <= 1 + key.n / 3 ? best : NULL;
}

/* The id of a name, or -1. */
static int find(const struct as_option_set *o, struct as_str key)
{
    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        if (known(o, i) && as_str_eq(key, as_str_of(as_option_rows[i].key)))
            return (int)i;
    }
    return -1;
}

static int unknown(const struct as_option_set *o, struct as_str key, struct as_buf *err)
{
    const char *name = nearest(o, key);

    as_buf_printf(err, "unknown option --%.*s", AS_STR_FMT(key));
    if (name)
        as_buf_printf(err, "; did you mean --%s?", name);
    return AS_EINVALID;
}

static int add_item(struct as_option_set *o, int id, const char *value, struct as_buf *err)
{
    if (o->n_items == AS_OPTION_ITEMS_MAX) {
        as_buf_printf(err, "--%s=%s: more than %u such options", as_option_rows[id].key, value,
                      AS_OPTION_ITEMS_MAX);
        return AS_EINVALID;
    }
    o->items[o->n_items].id = (enum as_option_id)id;
    o->items[o->n_items++].s = value;
    return 0;
}

/* The set is changed only by a value that is right. */
static int put(struct as_option_set *o, int id, const char *value, struct as_buf *err)
{
    struct as_option_value v = o->v[id];
    struct as_buf why;
    int rc;

    as_buf_init(&why);
    rc = as_option_read(&as_option_rows[id], value, &v, &why);
    if (rc < 0) {
        as_buf_printf(err, "--%s=%s: '%s' %.*s", as_option_rows[id].key, value, value,
                      AS_STR_FMT(as_buf_slice(&why)));
    } else if (as_option_rows[id].type == AS_OPTION_LIST) {
        rc = add_item(o, id, value, err);
    } else {
        v.given = true;
        o->v[id] = v;
    }
    as_buf_fini(&why);
    return rc;
}

int as_option_put(struct as_option_set *o, const char *key, const char *value, struct as_buf *err)
{
    int id = find(o, as_str_of(key));

    return id < 0 ? unknown(o, as_str_of(key), err) : put(o, id, value, err);
}

/* "--no-key" for a switch: its id, else -1. */
static int find_negated(const struct as_option_set *o, struct as_str key)
{
    int id;

    if (key.n <= 3 || memcmp(key.p, "no-", 3) != 0)
        return -1;
    id = find(o, (struct as_str){key.p + 3, key.n - 3});
    return id >= 0 && as_option_rows[id].type == AS_OPTION_BOOL ? id : -1;
}

/* One "--…" argument; `next` is what follows it, or NULL. 1: `next` was its value. */
static int take(struct as_option_set *o, const char *arg, const char *next, struct as_buf *err)
{
    const char *eq = strchr(arg, '=');
    struct as_str key = {arg, eq ? (size_t)(eq - arg) : strlen(arg)};
    /* exact names only: an abbreviation would change its meaning when a row is added */
    int id = find(o, key), rc;

    if (id < 0 && !eq) {
        id = find_negated(o, key);
        if (id >= 0)
            return put(o, id, "off", err);
    }
    if (id < 0)
        return unknown(o, key, err);
    if (eq)
        return put(o, id, eq + 1, err);
    if (as_option_rows[id].type == AS_OPTION_BOOL)
        return put(o, id, "on", err);
    if (!next) {
        as_buf_printf(err, "--%s needs a value", as_option_rows[id].key);
        return AS_EINVALID;
    }
    rc = put(o, id, next, err);
    return rc < 0 ? rc : 1;
}

/* What no single row can see. */
static int check_together(const struct as_option_set *o, struct as_buf *err)
{
    static const enum as_option_id ordered[][2] = {
        {AS_OPT_RESTART_BACKOFF, AS_OPT_RESTART_BACKOFF_MAX},
        /* a stream could never use more than the connection has */
        {AS_OPT_STREAM_WINDOW, AS_OPT_CONNECTION_WINDOW},
        /* a worker would be lost between two of them */
        {AS_OPT_WORKER_HEARTBEAT, AS_OPT_WORKER_HEARTBEAT_TIMEOUT},
    };

    for (size_t i = 0; i < AS_COUNT(ordered); i++) {
        if (o->v[ordered[i][0]].i <= o->v[ordered[i][1]].i || !o->v[ordered[i][1]].i)
            continue; /* 0: off */
        as_buf_printf(err, "--%s is above --%s", as_option_key(ordered[i][0]),
                      as_option_key(ordered[i][1]));
        return AS_EINVALID;
    }
    return 0;
}

static int positional(struct as_option_set *o, const char *arg, struct as_buf *err)
{
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
            rc = positional(o, arg, err);
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            o->help = true;
        } else if (strcmp(arg, "--help-all") == 0) {
            o->help = o->help_all = true;
        } else if (arg[1] != '-') {
            as_buf_printf(err, "unknown option %s; options begin with --", arg);
            rc = AS_EINVALID;
        } else {
            rc = take(o, arg + 2, i + 1 < argc ? argv[i + 1] : NULL, err);
        }
        if (rc < 0)
            return rc;
        i += rc;
    }
    /* --help is answered even for a command line that is wrong otherwise */
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

/* Counts as given: child processes are told, so that parent and child never compute two different
 * limits. */
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
