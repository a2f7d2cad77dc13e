#include "conf/spec/keys/spec_router.h"

#include "base/err.h"
#include "base/memory/arena.h"
#include "base/suggest.h"
#include "core/dispatch/choice/router_conf.h"
#include "wire/json/json_text.h"

#include <stdlib.h>
#include <string.h>

#define PERIOD_MAX 86400 /* seconds */

/* What a value of the file is multiplied by. */
enum unit { SECONDS, WHOLE, PERCENT, BOOLEAN, HEADER, PERIOD };

struct row {
    const char *key, *range;
    enum unit unit;
    enum as_frame_router_key value;
};

/* request_router_kwargs of the built-in policies. */
static const struct row arguments[] = {
    {"max_wait_s", "a number of seconds from 0 to 3600", SECONDS, AS_FRAME_ROUTER_MAX_WAIT},
    {"virtual_nodes", "a whole number from 1 to 1000", WHOLE, AS_FRAME_ROUTER_VIRTUAL_NODES},
    {"fallbacks", "a whole number from 0 to 7", WHOLE, AS_FRAME_ROUTER_FALLBACKS},
    {"bound", "a number from 1 to 100", PERCENT, AS_FRAME_ROUTER_BOUND},
    {"session_ttl_s", "a number of seconds from 0.001 to 31536000", SECONDS,
     AS_FRAME_ROUTER_SESSION_TTL},
    {"max_sessions", "a whole number from 1 to 1000000", WHOLE, AS_FRAME_ROUTER_MAX_SESSIONS},
    {"session_header", "a name of up to 64 letters, digits, '-' and '_'", HEADER,
     AS_FRAME_ROUTER_END},
    {"prefer_local", "true or false", BOOLEAN, AS_FRAME_ROUTER_PREFER_LOCAL},
};

/* Beside the class and its arguments. */
static const struct row settings[] = {
    {"initial_backoff_s", "a number of seconds from 0.001 to 3600", SECONDS,
     AS_FRAME_ROUTER_ASK_FIRST},
    {"backoff_multiplier", "a number from 1 to 100", PERCENT, AS_FRAME_ROUTER_ASK_FACTOR},
    {"max_backoff_s", "a number of seconds from 0.001 to 3600", SECONDS, AS_FRAME_ROUTER_ASK_MAX},
    /* the replica's: they are only checked */
    {"request_routing_stats_period_s", "a number of seconds above 0, up to 86400", PERIOD,
     AS_FRAME_ROUTER_END},
    {"request_routing_stats_timeout_s", "a number of seconds above 0, up to 86400", PERIOD,
     AS_FRAME_ROUTER_END},
};

struct reader {
    struct as_json *j;
    struct as_frame_router *r;
    struct as_buf *why;
    bool own; /* the class is the program's */
};

/* A value that was read; of the other types only that. */
struct scalar {
    enum as_json_type type;
    double number;
    bool on;
    struct as_str text;
};

static void read_scalar(struct as_json *j, struct as_json_value *v, struct scalar *ret)
{
    *ret = (struct scalar){.type = v->type};
    if (v->type == AS_JSON_NUMBER && as_json_f64(j, v, &ret->number))
        ret->number = -1;
    else if (v->type == AS_JSON_BOOL)
        (void)as_json_bool(j, v, &ret->on);
    else if (v->type == AS_JSON_STRING)
        (void)as_json_string(j, v, &ret->text);
    else if (v->type != AS_JSON_NUMBER)
        (void)as_json_skip(j, v);
}

static void put_scalar(const struct scalar *x, struct as_buf *out)
{
    if (x->type == AS_JSON_NUMBER)
        as_buf_printf(out, "'%.15g'", x->number);
    else if (x->type == AS_JSON_STRING)
        as_buf_printf(out, "'%.*s'", AS_STR_CUT(x->text, 100));
    else
        as_buf_str(out, x->type == AS_JSON_BOOL    ? (x->on ? "'true'" : "'false'")
                        : x->type == AS_JSON_NULL  ? "'null'"
                        : x->type == AS_JSON_ARRAY ? "a list"
                                                   : "a mapping");
}

static bool set_number(struct reader *s, const struct row *row, double x)
{
    double scale = row->unit == SECONDS ? (double)AS_SEC : row->unit == PERCENT ? 100 : 1;

    if (!(x >= 0 && x <= 1e9) || (row->unit == WHOLE && x != (double)(uint64_t)x))
        return false;
    return as_frame_router_set(s->r, row->value, (uint64_t)(x * scale + 0.5));
}

static bool set_value(struct reader *s, const struct row *row, const struct scalar *x)
{
    switch (row->unit) {
    case HEADER:
        return x->type == AS_JSON_STRING && as_frame_router_header(s->r->session_header, x->text);
    case BOOLEAN:
        return x->type == AS_JSON_BOOL && as_frame_router_set(s->r, row->value, x->on);
    case PERIOD:
        return x->type == AS_JSON_NUMBER && x->number > 0 && x->number <= PERIOD_MAX;
    case SECONDS:
    case WHOLE:
    case PERCENT:
        break;
    }
    return x->type == AS_JSON_NUMBER && set_number(s, row, x->number);
}

static int read_row(struct reader *s, const struct row *row, const char *prefix,
                    struct as_json_value *v)
{
    struct scalar x;

    read_scalar(s->j, v, &x);
    if (set_value(s, row, &x))
        return 0;
    as_buf_printf(s->why, "%s%s: ", prefix, row->key);
    put_scalar(&x, s->why);
    as_buf_printf(s->why, " is not %s", row->range);
    return AS_EINVALID;
}

static const struct row *find_row(const struct row *rows, size_t n, struct as_str key)
{
    for (size_t i = 0; i < n; i++) {
        if (as_str_eq(key, as_str_of(rows[i].key)))
            return &rows[i];
    }
    return NULL;
}

static int report_argument(struct reader *s, struct as_str key)
{
    struct as_suggest near = {.key = key};
    struct as_str best;

    for (size_t i = 0; i < AS_COUNT(arguments); i++)
        as_suggest_offer(&near, as_str_of(arguments[i].key));
    best = as_suggest_best(&near);
    as_buf_printf(s->why, "request_router_kwargs: '%.*s' is no argument of a built-in router%s%.*s",
                  AS_STR_CUT(key, 100), best.n ? "; did you mean " : "", AS_STR_FMT(best));
    if (best.n)
        as_buf_str(s->why, "?");
    return AS_EINVALID;
}

static int read_arguments(struct reader *s, struct as_json_value *v)
{
    struct as_json_items it;
    int err = 0;

    if (v->type != AS_JSON_OBJECT) {
        as_buf_str(s->why, "request_router_kwargs: it is not a mapping");
        return AS_EINVALID;
    }
    if (s->own || as_json_items(s->j, v, &it))
        return 0;
    while (!err && as_json_next(s->j, &it) > 0) {
        const struct row *row = find_row(arguments, AS_COUNT(arguments), it.key);

        err = row ? read_row(s, row, "request_router_kwargs: ", &it.value)
                  : report_argument(s, it.key);
    }
    return err;
}

static int report_class(struct reader *s, struct as_str name)
{
    struct as_suggest near = {.key = name};
    struct as_str best;

    for (uint32_t i = 0; i < AS_ROUTERS; i++)
        as_suggest_offer(&near, as_str_of(as_router_name((enum as_router)i)));
    best = as_suggest_best(&near);
    as_buf_printf(s->why, "request_router_class: '%.*s' is no built-in router",
                  AS_STR_CUT(name, 100));
    if (best.n)
        as_buf_printf(s->why, "; did you mean %.*s?", AS_STR_FMT(best));
    else
        as_buf_str(s->why, ".");
    as_buf_str(s->why, " There are ");
    for (uint32_t i = 0; i < AS_ROUTERS; i++)
        as_buf_printf(s->why, "%s%s", i ? ", " : "", as_router_name((enum as_router)i));
    as_buf_str(s->why, ", and classes of yours as `module:Class`");
    return AS_EINVALID;
}

/* Ray Serve's own classes. Its default, which every configuration of a program has that names no
 * other, is as if none was given; of the others there is none here. */
static bool is_rays(struct as_str path)
{
    static const char module[] = "ray.serve._private.request_router";

    return path.n >= sizeof(module) - 1 && memcmp(path.p, module, sizeof(module) - 1) == 0;
}

static bool is_rays_default(struct as_str path)
{
    return as_str_eq(path,
                     AS_STR("ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter"));
}

static int read_class(struct reader *s, struct as_json_value *v)
{
    char text[AS_FRAME_ROUTER_POLICY + 1];
    struct as_str name;

    if (v->type != AS_JSON_STRING || as_json_string(s->j, v, &name)) {
        as_buf_str(s->why, "request_router_class: it is not a text");
        return AS_EINVALID;
    }
    if (!name.n || is_rays_default(name)) /* as if it was not given */
        return 0;
    if (is_rays(name))
        return report_class(s, name);
    s->own = name.n && (memchr(name.p, ':', name.n) || memchr(name.p, '.', name.n));
    if (s->own)
        return 0;
    if (name.n > AS_FRAME_ROUTER_POLICY)
        return report_class(s, name);
    if (name.n)
        memcpy(text, name.p, name.n);
    text[name.n] = 0;
    if (as_router_of(text) < 0)
        return report_class(s, name);
    memcpy(s->r->policy, text, name.n + 1);
    return 0;
}

/* Members come with sorted keys (as_spec_value.s), so the class comes before its arguments. */
static int read_members(struct reader *s, struct as_json_value *root)
{
    struct as_json_items it;
    int err = 0;

    if (as_json_items(s->j, root, &it)) {
        as_buf_str(s->why, "it is not a mapping");
        return AS_EINVALID;
    }
    while (!err && as_json_next(s->j, &it) > 0) {
        const struct row *row = find_row(settings, AS_COUNT(settings), it.key);

        if (row)
            err = read_row(s, row, "", &it.value);
        else if (as_str_eq(it.key, AS_STR("request_router_class")))
            err = read_class(s, &it.value);
        else if (as_str_eq(it.key, AS_STR("request_router_kwargs")))
            err = read_arguments(s, &it.value);
    }
    return err;
}

int as_spec_read_router(const char *json, struct as_frame_router *ret_r, struct as_buf *why)
{
    struct as_frame_router r;
    struct reader s = {.r = &r, .why = why};
    struct as_json_value root;
    struct as_json_text t;
    int err = AS_EINVALID;

    memset(&r, 0, sizeof(r));
    if (as_json_text_open(&t, as_str_of(json), &root) == 0) {
        s.j = t.json;
        err = read_members(&s, &root);
    } else {
        as_buf_str(why, "it is not JSON");
    }
    as_json_text_close(&t);
    if (!err)
        *ret_r = r;
    return err;
}
