#include "conf/spec/spec.h"

#include "base/suggest.h"
#include "conf/option/option.h"
#include "conf/spec/spec_internal.h"

#include <errno.h>

struct as_spec_object *as_spec_new_object(struct as_arena *a, enum as_spec_level level)
{
    struct as_spec_object *o = as_spec_alloc(a, sizeof(*o));
    uint32_t first = as_spec_first_key(level), n = as_spec_key_count(level);

    o->level = level;
    o->v = as_spec_alloc(a, n * sizeof(*o->v));
    for (uint32_t i = 0; i < n; i++) {
        const struct as_spec_row *row = &as_spec_rows[first + i];

        as_spec_read_default(a, row, &o->v[i]);
        if (row->type == AS_SPEC_OBJECT) { /* always exists, maybe with nothing but defaults */
            o->v[i].set = true;
            o->v[i].n = 1;
            o->v[i].objects = as_spec_alloc(a, sizeof(struct as_spec_object *));
            o->v[i].objects[0] = as_spec_new_object(a, as_spec_inner_level(row));
        }
    }
    return o;
}

/* --- reading an object --- */

static void refuse_key(struct as_spec_reader *r, enum as_spec_level level,
                       const struct as_spec_node *k)
{
    uint32_t first = as_spec_first_key(level), n = as_spec_key_count(level);
    const char *hint = as_spec_foreign_key_hint(level, k->key);
    struct as_suggest near = {.key = k->key};
    struct as_str best;

    for (uint32_t i = 0; i < n; i++)
        as_suggest_offer(&near, as_str_of(as_spec_rows[first + i].key));
    best = as_suggest_best(&near);
    if (hint)
        as_spec_error(r->errors, k->key_line, k->key_column, "%.*s: unknown key; %s",
                      AS_STR_FMT(as_spec_excerpt(k->key)), hint);
    else if (best.p)
        as_spec_error(r->errors, k->key_line, k->key_column,
                      "%.*s: unknown key; did you mean %.*s?", AS_STR_FMT(as_spec_excerpt(k->key)),
                      AS_STR_FMT(best));
    else
        as_spec_error(r->errors, k->key_line, k->key_column, "%.*s: unknown key of %s %s",
                      AS_STR_FMT(as_spec_excerpt(k->key)),
                      level == AS_SPEC_LEVEL_APPLICATION ? "an" : "a", as_spec_level_name(level));
}

static void read_key(struct as_spec_reader *r, struct as_spec_object *o,
                     const struct as_spec_node *k)
{
    uint32_t first = as_spec_first_key(o->level), n = as_spec_key_count(o->level);

    for (uint32_t i = 0; i < n; i++) {
        const struct as_spec_row *row = &as_spec_rows[first + i];

        if (!as_str_eq(k->key, as_str_of(row->key)))
            continue;
        if (!as_spec_read_value(r, row, k, &o->v[i]))
            o->v[i].line = k->line; /* invalid, but not missing */
        return;
    }
    refuse_key(r, o->level, k);
}

struct as_spec_object *as_spec_read_object(struct as_spec_reader *r, enum as_spec_level level,
                                           const struct as_spec_node *n)
{
    uint32_t first = as_spec_first_key(level), width = as_spec_key_count(level);
    struct as_spec_object *o;
    struct as_buf b = {0};

    if (n->type != AS_SPEC_NODE_MAP) {
        as_spec_node_describe(n, &b);
        as_spec_error(r->errors, n->line, n->column, "expected a mapping of %s keys, not %.*s",
                      as_spec_level_name(level), AS_STR_FMT(as_buf_slice(&b)));
        as_buf_fini(&b);
        return NULL;
    }
    if (level == AS_SPEC_LEVEL_APPLICATION)
        as_spec_unfold_runtime_env(r, (struct as_spec_node *)(uintptr_t)n); /* of our tree */
    o = as_spec_new_object(r->arena, level);
    o->line = n->line;
    o->column = n->column;
    for (const struct as_spec_node *k = n->first; k; k = k->next)
        read_key(r, o, k);
    for (uint32_t i = 0; i < width; i++) {
        if ((as_spec_rows[first + i].flags & AS_SPEC_REQUIRED) && !o->v[i].set && !o->v[i].line)
            as_spec_error(r->errors, n->line, n->column, "%s: is missing; every %s must have it",
                          as_spec_rows[first + i].key, as_spec_level_name(level));
    }
    as_spec_check(r, o);
    return o;
}

/* --- texts and files --- */

void as_spec_limits_from_options(struct as_spec_limits *ret_l, const struct as_option_set *o)
{
    *ret_l = (struct as_spec_limits){
        .bytes = as_option_u64(o, AS_OPT_MAX_SPEC_BYTES),
        .depth = (uint32_t)as_option_u64(o, AS_OPT_MAX_SPEC_DEPTH),
        .applications = (uint32_t)as_option_u64(o, AS_OPT_MAX_APPLICATIONS),
        .deployments = (uint32_t)as_option_u64(o, AS_OPT_MAX_DEPLOYMENTS),
        .errors = (uint32_t)as_option_u64(o, AS_OPT_MAX_SPEC_ERRORS),
    };
}

static struct as_spec *new_spec(const char *name)
{
    struct as_spec *s = as_xalloc(sizeof(*s));

    as_arena_init(&s->arena, NULL, 0);
    s->name = as_spec_dup(&s->arena, as_str_of(name));
    return s;
}

void as_spec_free(struct as_spec *s)
{
    if (!s)
        return;
    as_arena_fini(&s->arena);
    free(s);
}

/* The file around one application. */
static struct as_spec_object *read_application(struct as_spec_reader *r, struct as_spec_node *root,
                                               const char *application)
{
    struct as_spec_object *file = as_spec_new_object(r->arena, AS_SPEC_LEVEL_FILE),
                          *app = as_spec_read_object(r, AS_SPEC_LEVEL_APPLICATION, root);
    struct as_spec_value *list =
        &file->v[AS_SPEC_FILE_APPLICATIONS - as_spec_first_key(file->level)];
    struct as_str name = as_str_of(application);

    if (!app)
        return NULL;
    if (!app->v[0].line) {
        app->v[0].s = as_spec_dup(r->arena, name);
        app->v[0].from = AS_SPEC_FROM_FILE;
        if (!name.n || name.n > AS_ID_APPLICATION_MAX ||
            !as_spec_matches(&as_spec_rows[AS_SPEC_APPLICATION_NAME], name))
            as_spec_error(r->errors, 0, 0,
                          "the application's name must be 1 to %u letters, digits, '.', '_', '-'",
                          AS_ID_APPLICATION_MAX);
    } else if (app->v[0].s && !as_str_eq(as_str_of(app->v[0].s), name)) {
        as_spec_error(r->errors, app->v[0].line, app->v[0].column,
                      "name: is '%s', but the request is for '%s'", app->v[0].s, application);
    }
    *list = (struct as_spec_value){.set = true, .from = AS_SPEC_FROM_FILE, .n = 1};
    list->objects = as_spec_alloc(r->arena, sizeof(struct as_spec_object *));
    list->objects[0] = app;
    as_spec_check(r, file);
    return file;
}

/* application: NULL for a whole file. */
static int parse_text(struct as_spec **ret_s, const struct as_spec_limits *l, const char *name,
                      const char *application, struct as_str text, struct as_buf *err)
{
    struct as_spec *s = new_spec(name);
    struct as_spec_errors e = {.out = err, .name = s->name, .max = l->errors};
    struct as_spec_reader r = {
        .arena = &s->arena, .errors = &e, .limits = l, .from = AS_SPEC_FROM_FILE};
    struct as_spec_node *root = NULL;
    int rc;

    if (text.n > l->bytes)
        as_spec_error(&e, 0, 0, "more than %zu bytes (--max-spec-bytes)", l->bytes);
    else
        root = as_spec_tree(&s->arena, text, l->depth, &e);
    if (root)
        s->file = application ? read_application(&r, root, application)
                              : as_spec_read_object(&r, AS_SPEC_LEVEL_FILE, root);
    rc = as_spec_errors_end(&e);
    if (rc == 0)
        *ret_s = s;
    else
        as_spec_free(s);
    return rc;
}

int as_spec_parse(struct as_spec **ret_s, const struct as_spec_limits *l, const char *name,
                  struct as_str text, struct as_buf *err)
{
    return parse_text(ret_s, l, name, NULL, text, err);
}

int as_spec_parse_application(struct as_spec **ret_s, const struct as_spec_limits *l,
                              const char *name, const char *application, struct as_str text,
                              struct as_buf *err)
{
    return parse_text(ret_s, l, name, application, text, err);
}

int as_spec_load(struct as_spec **ret_s, const struct as_spec_limits *l, const char *path,
                 struct as_buf *err)
{
    bool in = strcmp(path, "-") == 0;
    FILE *f = in ? stdin : fopen(path, "re");
    struct as_buf text = {0};
    size_t n = 1;
    int rc = 0, e = errno;

    errno = 0;
    while (f && n > 0 && text.n <= l->bytes) {
        n = fread(as_buf_reserve(&text, 65536), 1, 65536, f);
        text.n += n;
    }
    if (!f || ferror(f)) { /* a directory can be opened, but not read */
        e = f ? errno : e;
        as_buf_printf(err, "%s: %s\n", path, strerror(e));
        rc = e == ENOENT || e == ENOTDIR ? AS_ENOTFOUND : e == EACCES ? AS_EDENIED : AS_EIO;
    }
    if (f && !in)
        fclose(f);
    if (rc == 0)
        rc = as_spec_parse(ret_s, l, in ? "stdin" : path, as_buf_slice(&text), err);
    as_buf_fini(&text);
    return rc;
}

/* --- values --- */

const struct as_spec_value *as_spec_value(const struct as_spec_object *o, enum as_spec_key id)
{
    AS_ASSERT(o->level == as_spec_rows[id].level);
    return &o->v[id - as_spec_first_key(o->level)];
}

static const struct as_spec_value *value_of_types(const struct as_spec_object *o,
                                                  enum as_spec_key id, uint32_t types)
{
    AS_ASSERT(types >> as_spec_rows[id].type & 1);
    return as_spec_value(o, id);
}

#define TYPE_BIT(type) (1u << AS_SPEC_##type)

int as_spec_set_int(struct as_spec_object *o, enum as_spec_key id, int64_t value)
{
    const struct as_spec_row *row = &as_spec_rows[id];

    AS_ASSERT(o->level == row->level && row->type == AS_SPEC_INT);
    if (value < row->min || value > row->max)
        return AS_EINVALID;
    o->v[id - as_spec_first_key(o->level)] =
        (struct as_spec_value){.set = true, .from = AS_SPEC_FROM_FILE, .i = value};
    return 0;
}

bool as_spec_is_set(const struct as_spec_object *o, enum as_spec_key id)
{
    return as_spec_value(o, id)->set;
}

int64_t as_spec_i64(const struct as_spec_object *o, enum as_spec_key id)
{
    return value_of_types(o, id, TYPE_BIT(INT) | TYPE_BIT(SIZE) | TYPE_BIT(ENUM))->i;
}

int64_t as_spec_thousandths(const struct as_spec_object *o, enum as_spec_key id)
{
    return value_of_types(o, id, TYPE_BIT(NUMBER))->i;
}

uint32_t as_spec_amount(const struct as_spec_object *o, enum as_spec_key id, bool *ret_percent)
{
    int64_t i = value_of_types(o, id, TYPE_BIT(AMOUNT))->i;

    *ret_percent = i < 0;
    return (uint32_t)(i < 0 ? -1 - i : i);
}

as_ns as_spec_ns(const struct as_spec_object *o, enum as_spec_key id)
{
    return (as_ns)value_of_types(o, id, TYPE_BIT(DURATION))->i;
}

const char *as_spec_str(const struct as_spec_object *o, enum as_spec_key id)
{
    return value_of_types(o, id,
                          TYPE_BIT(STRING) | TYPE_BIT(TEXT) | TYPE_BIT(ENUM) | TYPE_BIT(JSON))
        ->s;
}

uint32_t as_spec_count(const struct as_spec_object *o, enum as_spec_key id)
{
    return value_of_types(o, id,
                          TYPE_BIT(TEXTS) | TYPE_BIT(MAP) | TYPE_BIT(OBJECT) | TYPE_BIT(OBJECTS))
        ->n;
}

const char *as_spec_text(const struct as_spec_object *o, enum as_spec_key id, uint32_t i)
{
    const struct as_spec_value *v = value_of_types(o, id, TYPE_BIT(TEXTS) | TYPE_BIT(MAP));

    AS_ASSERT(i < v->n);
    return v->texts[i];
}

struct as_spec_object *as_spec_object(const struct as_spec_object *o, enum as_spec_key id,
                                      uint32_t i)
{
    const struct as_spec_value *v = value_of_types(o, id, TYPE_BIT(OBJECT) | TYPE_BIT(OBJECTS));

    AS_ASSERT(i < v->n);
    return v->objects[i];
}

void as_spec_put_object(struct as_spec *s, enum as_spec_key list, struct as_spec_object *o)
{
    struct as_spec_value *v = &s->file->v[list - as_spec_first_key(s->file->level)];
    struct as_spec_object **all;
    uint32_t i = 0;

    AS_ASSERT(as_spec_rows[list].type == AS_SPEC_OBJECTS);
    while (i < v->n && strcmp(v->objects[i]->v[0].s, o->v[0].s) != 0)
        i++;
    if (i == v->n) {
        all = as_spec_alloc(&s->arena, (v->n + 1) * sizeof(struct as_spec_object *));
        if (v->n)
            memcpy(all, v->objects, v->n * sizeof(struct as_spec_object *));
        v->objects = all;
        v->n++;
    }
    v->objects[i] = o;
}

void as_spec_remove_object(struct as_spec_object *o, enum as_spec_key id, uint32_t i)
{
    struct as_spec_value *v = &o->v[id - as_spec_first_key(o->level)];

    AS_ASSERT(as_spec_rows[id].type == AS_SPEC_OBJECTS && i < v->n);
    for (v->n--; i < v->n; i++)
        v->objects[i] = v->objects[i + 1];
}

struct as_spec_object *as_spec_find(const struct as_spec_object *o, enum as_spec_key id,
                                    struct as_str name)
{
    for (uint32_t i = 0; i < as_spec_count(o, id); i++) {
        struct as_spec_object *k = as_spec_object(o, id, i);
        const char *key = as_spec_rows[as_spec_first_key(k->level)].key;

        AS_ASSERT(strcmp(key, "name") == 0); /* `name` must be the first row of the level */
        if (k->v[0].s && as_str_eq(as_str_of(k->v[0].s), name))
            return k;
    }
    return NULL;
}

bool as_spec_next(const struct as_spec_object *file, struct as_spec_walk *w)
{
    while (!w->app || w->next == as_spec_count(w->app, AS_SPEC_APPLICATION_DEPLOYMENTS)) {
        if (w->next_app == as_spec_count(file, AS_SPEC_FILE_APPLICATIONS))
            return false;
        w->app = as_spec_object(file, AS_SPEC_FILE_APPLICATIONS, w->next_app++);
        w->next = 0;
    }
    w->deployment = as_spec_object(w->app, AS_SPEC_APPLICATION_DEPLOYMENTS, w->next++);
    return true;
}

bool as_spec_find_deployment(const struct as_spec_object *file, struct as_str id,
                             struct as_spec_walk *ret_w)
{
    bool any = !as_id_is_full(id);

    *ret_w = (struct as_spec_walk){0};
    while (as_spec_next(file, ret_w)) {
        const char *app = ret_w->app->v[0].s, *own = ret_w->deployment->v[0].s;

        if (own && as_str_eq(as_str_of(own), as_id_name(id)) &&
            (any || (app && as_str_eq(as_str_of(app), as_id_application(id)))))
            return true;
    }
    return false;
}

struct as_str as_spec_id(const struct as_spec_object *app, const struct as_spec_object *deployment,
                         struct as_id *id)
{
    return as_id_make(id, as_str_of(app->v[0].s), as_str_of(deployment->v[0].s));
}

struct as_str as_spec_plain_id(const struct as_spec_object *file, struct as_str id)
{
    uint32_t n = 0;

    for (struct as_spec_walk w = {0}; as_spec_next(file, &w);)
        n += as_str_eq(as_str_of(w.deployment->v[0].s), as_id_name(id));
    return n == 1 ? as_id_name(id) : id;
}

/* --- values of an application and a deployment together --- */

static size_t name_length(const char *line)
{
    return strcspn(line, "=") + 1; /* with the '=', so that no name is the prefix of another */
}

const char **as_spec_env(const struct as_spec_object *app, const struct as_spec_object *deployment)
{
    const struct as_spec_value *a = as_spec_value(app, AS_SPEC_APPLICATION_ENV),
                               *d = as_spec_value(deployment, AS_SPEC_DEPLOYMENT_ENV);
    const char **env = as_xalloc((a->n + d->n + 1) * sizeof(*env));
    uint32_t i = 0, k = 0, n = 0;

    /* merges two sorted lists; of two lines with the same name the deployment's is used */
    while (i < a->n || k < d->n) {
        int c = i == a->n   ? 1
                : k == d->n ? -1
                            : strncmp(a->texts[i], d->texts[k],
                                      AS_MAX(name_length(a->texts[i]), name_length(d->texts[k])));

        env[n++] = c < 0 ? a->texts[i] : d->texts[k];
        i += c <= 0;
        k += c >= 0;
    }
    return env;
}

const char *as_spec_working_dir(const struct as_spec_object *app,
                                const struct as_spec_object *deployment)
{
    const char *own = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_WORKING_DIR);

    return own ? own : as_spec_str(app, AS_SPEC_APPLICATION_WORKING_DIR);
}
