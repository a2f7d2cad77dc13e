/* The key `runtime_env` of Ray Serve's files: what it has becomes the keys env and working_dir of
 * the application, which count more where the file has them, too. */
#include "conf/spec/spec_internal.h"

static struct as_spec_node *find_member(struct as_spec_node *n, const char *key)
{
    for (struct as_spec_node *k = n->first; k; k = k->next) {
        if (as_str_eq(k->key, as_str_of(key)))
            return k;
    }
    return NULL;
}

static void remove_member(struct as_spec_node *n, struct as_spec_node *member)
{
    struct as_spec_node **at = &n->first;

    while (*at != member)
        at = &(*at)->next;
    *at = member->next;
    member->next = NULL;
    n->n--;
}

static void add_member(struct as_spec_node *n, struct as_spec_node *member, const char *key)
{
    member->key = as_str_of(key);
    member->next = n->first;
    n->first = member;
    n->n++;
}

/* The application's `env`, made if it has none. */
static struct as_spec_node *env_of(struct as_spec_reader *r, struct as_spec_node *app,
                                   const struct as_spec_node *place)
{
    struct as_spec_node *env = find_member(app, "env");

    if (env)
        return env;
    env = as_spec_alloc(r->arena, sizeof(*env));
    *env = (struct as_spec_node){.type = AS_SPEC_NODE_MAP,
                                 .line = place->line,
                                 .column = place->column,
                                 .key_line = place->key_line,
                                 .key_column = place->key_column};
    add_member(app, env, "env");
    return env;
}

static void refuse(struct as_spec_reader *r, const struct as_spec_node *n, const char *what)
{
    as_spec_error(r->errors, n->line, n->column, "runtime_env: %s", what);
}

static void take_variables(struct as_spec_reader *r, struct as_spec_node *app,
                           struct as_spec_node *vars)
{
    struct as_spec_node *env = env_of(r, app, vars), *next;

    if (vars->type != AS_SPEC_NODE_MAP) {
        refuse(r, vars, "env_vars is not a mapping of names to texts");
        return;
    }
    for (struct as_spec_node *k = vars->first; k && env->type == AS_SPEC_NODE_MAP; k = next) {
        next = k->next;
        if (find_member(env, k->key.p))
            continue;
        remove_member(vars, k);
        add_member(env, k, k->key.p);
    }
}

static bool is_uri(struct as_str s)
{
    return s.n && memmem(s.p, s.n, "://", 3);
}

static void take_folder(struct as_spec_reader *r, struct as_spec_node *app,
                        struct as_spec_node *dir)
{
    if (dir->type == AS_SPEC_NODE_SCALAR && is_uri(dir->text))
        refuse(r, dir, "working_dir: a URI is not supported; name a folder of this machine");
    else if (!find_member(app, "working_dir"))
        add_member(app, dir, "working_dir");
}

/* A module is found in the folder that has it. */
static void take_modules(struct as_spec_reader *r, struct as_spec_node *app,
                         const struct as_spec_node *list)
{
    struct as_spec_node *env, *path;
    struct as_buf b = {0};
    bool ok = list->type == AS_SPEC_NODE_LIST;

    for (const struct as_spec_node *k = ok ? list->first : NULL; k && ok; k = k->next) {
        const char *slash = k->text.n ? memrchr(k->text.p, '/', k->text.n) : NULL;

        ok = k->type == AS_SPEC_NODE_SCALAR && k->text.n > 1 && k->text.p[0] == '/' &&
             !memchr(k->text.p, ':', k->text.n) && slash[1];
        if (ok)
            as_buf_printf(&b, "%s%.*s", b.n ? ":" : "", (int)AS_MAX(slash - k->text.p, 1),
                          k->text.p);
    }
    env = ok ? env_of(r, app, list) : NULL;
    if (!ok) {
        refuse(r, list, "py_modules is not a list of absolute paths of modules on this machine");
    } else if (b.n && env->type == AS_SPEC_NODE_MAP && !find_member(env, "PYTHONPATH")) {
        path = as_spec_alloc(r->arena, sizeof(*path));
        *path = *list;
        path->type = AS_SPEC_NODE_SCALAR;
        path->text = as_str_of(as_spec_dup(r->arena, as_buf_slice(&b)));
        add_member(env, path, "PYTHONPATH");
    }
    as_buf_fini(&b);
}

/* All that it has beside the three, in one error. */
static void refuse_others(struct as_spec_reader *r, const struct as_spec_node *n)
{
    struct as_buf b = {0};

    for (const struct as_spec_node *k = n->first; k; k = k->next)
        as_buf_printf(&b, "%s%.*s", b.n ? ", " : "", AS_STR_FMT(as_spec_excerpt(k->key)));
    if (b.n)
        as_spec_error(r->errors, n->key_line, n->key_column,
                      "runtime_env: %.*s: not supported; env_vars, working_dir and py_modules are",
                      AS_STR_FMT(as_buf_slice(&b)));
    as_buf_fini(&b);
}

void as_spec_unfold_runtime_env(struct as_spec_reader *r, struct as_spec_node *app)
{
    struct as_spec_node *n = find_member(app, "runtime_env"), *one;

    if (!n)
        return;
    remove_member(app, n);
    if (n->type != AS_SPEC_NODE_MAP) {
        as_spec_error(r->errors, n->line, n->column, "runtime_env: is not a mapping");
        return;
    }
    if ((one = find_member(n, "env_vars"))) {
        remove_member(n, one);
        take_variables(r, app, one);
    }
    if ((one = find_member(n, "working_dir"))) {
        remove_member(n, one);
        take_folder(r, app, one);
    }
    if ((one = find_member(n, "py_modules"))) {
        remove_member(n, one);
        take_modules(r, app, one);
    }
    refuse_others(r, n);
}
