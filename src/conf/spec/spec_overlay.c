/* conf/spec/spec_overlay.c — adds the values and deployments that the code declares to those of the
 * file.
 */
#include "base/suggest.h"
#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/keys/spec_policy.h"
#include "conf/spec/spec_internal.h"

static bool is_in_file(const struct as_spec_object *o, enum as_spec_key key)
{
    return as_spec_value(o, key)->from == AS_SPEC_FROM_FILE;
}

/* Of num_replicas and autoscaling_config only one counts: the file's, if it has one of them. With
 * `auto` both belong together. */
static bool is_overridden(const struct as_spec_object *o, enum as_spec_key key)
{
    bool replicas = is_in_file(o, AS_SPEC_DEPLOYMENT_NUM_REPLICAS),
         automatic = as_spec_value(o, AS_SPEC_DEPLOYMENT_NUM_REPLICAS)->i == AS_SPEC_REPLICAS_AUTO;

    return (key == AS_SPEC_DEPLOYMENT_NUM_REPLICAS &&
            is_in_file(o, AS_SPEC_DEPLOYMENT_AUTOSCALING)) ||
           (key == AS_SPEC_DEPLOYMENT_AUTOSCALING && replicas && !automatic);
}

/* For each key: the value of the file, else of the code, else the default. */
static void merge_values(struct as_spec_object *o, const struct as_spec_object *code)
{
    uint32_t first = as_spec_first_key(o->level), width = as_spec_key_count(o->level);

    for (uint32_t i = 0; i < width; i++) {
        struct as_spec_value *v = &o->v[i];

        if (o->level == AS_SPEC_LEVEL_DEPLOYMENT && is_overridden(o, first + i))
            continue;
        if (as_spec_rows[first + i].type == AS_SPEC_OBJECT && v->from == AS_SPEC_FROM_FILE)
            merge_values(v->objects[0], code->v[i].objects[0]);
        else if (v->from == AS_SPEC_FROM_DEFAULT && code->v[i].from == AS_SPEC_FROM_CODE)
            *v = code->v[i];
    }
}

static void report_unknown(struct as_spec_reader *r, const struct as_spec_object *app,
                           const struct as_spec_object *d, const struct as_declared *code)
{
    struct as_suggest near = {.key = as_str_of(d->v[0].s)};
    const char *path = as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH);
    const struct as_spec_value *name = &d->v[0];
    struct as_str best;

    for (uint32_t i = 0; i < code->n; i++)
        as_suggest_offer(&near, as_str_of(code->deployments[i].name));
    best = as_suggest_best(&near);
    if (best.p)
        as_spec_error(r->errors, name->line, name->column,
                      "name: %s declares no deployment '%s'; did you mean %.*s?", path, name->s,
                      AS_STR_FMT(best));
    else
        as_spec_error(r->errors, name->line, name->column,
                      "name: %s declares no deployment '%s'%s%s", path, name->s,
                      code->n ? "; it has " : "", code->n ? code->deployments[0].name : "");
}

/* Reads the options of one deployment, a JSON object, as an object of the spec. */
static struct as_spec_object *read_declared(struct as_spec_reader *r,
                                            const struct as_declared_deployment *d)
{
    struct as_str text = as_str_of(d->options ? d->options : "{}");
    struct as_spec_node *n = as_spec_tree(r->arena, text, r->limits->depth, r->errors), *name;

    if (!n || n->type != AS_SPEC_NODE_MAP)
        return NULL;
    for (const struct as_spec_node *k = n->first; k; k = k->next) {
        if (as_str_eq(k->key, AS_STR("name"))) {
            as_spec_error(r->errors, k->key_line, k->key_column,
                          "name: the code has set it already");
            return NULL;
        }
    }
    name = as_spec_alloc(r->arena, sizeof(*name));
    *name = (struct as_spec_node){.key = AS_STR("name"),
                                  .text = as_str_of(as_spec_dup(r->arena, as_str_of(d->name))),
                                  .next = n->first};
    n->first = name;
    n->n++;
    return as_spec_read_object(r, AS_SPEC_LEVEL_DEPLOYMENT, n);
}

/* Values of the code have no place in the file. */
static void clear_positions(struct as_spec_object *o)
{
    uint32_t first = as_spec_first_key(o->level), width = as_spec_key_count(o->level);

    o->line = o->column = 0;
    for (uint32_t i = 0; i < width; i++) {
        o->v[i].line = o->v[i].column = 0;
        if (as_spec_rows[first + i].type == AS_SPEC_OBJECT ||
            as_spec_rows[first + i].type == AS_SPEC_OBJECTS) {
            for (uint32_t k = 0; k < o->v[i].n; k++)
                clear_positions(o->v[i].objects[k]);
        }
    }
}

static void append_object(struct as_arena *a, struct as_spec_value *list, struct as_spec_object *o,
                          enum as_spec_from from)
{
    struct as_spec_object **objects =
        as_spec_alloc(a, (list->n + 1) * sizeof(struct as_spec_object *));

    if (list->n)
        memcpy(objects, list->objects, list->n * sizeof(struct as_spec_object *));
    objects[list->n++] = o;
    list->objects = objects;
    if (!list->set) {
        list->set = true;
        list->from = from;
    }
}

static struct as_spec_value *deployments_of(struct as_spec_object *app)
{
    uint32_t at = AS_SPEC_APPLICATION_DEPLOYMENTS - as_spec_first_key(app->level);

    return &app->v[at];
}

/* Merges a deployment of the code into the one of that name in the file, or adds it behind the
 * others. */
static void merge_deployment(struct as_spec *s, struct as_spec_object *app,
                             struct as_spec_object *code)
{
    struct as_str name = as_str_of(code->v[0].s);
    struct as_spec_object *own = as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS, name);

    clear_positions(code);
    if (own)
        merge_values(own, code);
    else
        append_object(&s->arena, deployments_of(app), code, AS_SPEC_FROM_CODE);
}

/* An application with a command has a deployment of its own name when the file lists none. */
static void add_command_deployment(struct as_spec *s, struct as_spec_object *app)
{
    struct as_spec_object *d;

    if (as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS))
        return;
    d = as_spec_new_object(&s->arena, AS_SPEC_LEVEL_DEPLOYMENT);
    d->v[0].set = true;
    d->v[0].from = AS_SPEC_FROM_CODE;
    d->v[0].s = app->v[0].s;
    append_object(&s->arena, deployments_of(app), d, AS_SPEC_FROM_CODE);
}

static void set_text(struct as_spec *s, struct as_spec_object *app, enum as_spec_key key,
                     const char *text)
{
    app->v[key - as_spec_first_key(app->level)] = (struct as_spec_value){
        .set = true, .from = AS_SPEC_FROM_CODE, .s = as_spec_dup(&s->arena, as_str_of(text))};
}

/* The deployment for which a deployment NAME.policy chooses; NULL: there is none. */
static struct as_spec_object *base_of(struct as_spec_object *app, const struct as_spec_object *d)
{
    struct as_str name = as_str_of(d->v[0].s);

    return as_spec_is_policy(name)
               ? as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS, as_id_policy_base(name))
               : NULL;
}

static void add_policy(struct as_spec *s, struct as_spec_reader *r, struct as_spec_object *app,
                       struct as_spec_object *base)
{
    struct as_buf name = {0};
    struct as_spec_object *policy;

    as_buf_printf(&name, "%s" AS_ID_POLICY, base->v[0].s);
    policy = as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS, as_buf_slice(&name));
    if (name.n > AS_SPEC_NAME_MAX) {
        as_spec_error(r->errors, base->v[0].line, base->v[0].column,
                      "name: '%s' is too long for a deployment with a router or an autoscaling "
                      "policy of its own: %u characters at most",
                      base->v[0].s, (unsigned)(AS_SPEC_NAME_MAX - (sizeof(AS_ID_POLICY) - 1)));
    } else if (!policy) {
        policy = as_spec_new_object(&s->arena, AS_SPEC_LEVEL_DEPLOYMENT);
        policy->v[0] = (struct as_spec_value){.set = true,
                                              .from = AS_SPEC_FROM_CODE,
                                              .s = as_spec_dup(&s->arena, as_buf_slice(&name))};
        append_object(&s->arena, deployments_of(app), policy, AS_SPEC_FROM_CODE);
    }
    if (policy)
        as_spec_set_policy(&s->arena, policy, app, base);
    as_buf_fini(&name);
}

/* Adds the policy processes of the application, and refuses those that have nothing to do. */
static void add_policies(struct as_spec *s, struct as_spec_reader *r, struct as_spec_object *app,
                         const struct as_declared *code)
{
    uint32_t n = as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS);

    for (uint32_t k = 0; k < code->n; k++) {
        if (as_spec_is_policy(as_str_of(code->deployments[k].name)))
            as_spec_error(r->errors, 0, 0,
                          "deployment '%s': names that end with " AS_ID_POLICY
                          " are those of policy processes",
                          code->deployments[k].name);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct as_spec_object *d = as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i), *base;

        if (!as_spec_is_policy(as_str_of(d->v[0].s))) {
            if (as_spec_needs_policy(app, d))
                add_policy(s, r, app, d);
            continue;
        }
        base = base_of(app, d);
        if (!base || !as_spec_needs_policy(app, base))
            as_spec_error(r->errors, d->v[0].line, d->v[0].column,
                          "name: '%s' would be a policy process, and there is no deployment '%.*s' "
                          "with a router or an autoscaling policy of its own",
                          d->v[0].s, AS_STR_FMT(as_id_policy_base(as_str_of(d->v[0].s))));
    }
}

int as_spec_overlay(struct as_spec *s, struct as_spec_object *app, const struct as_declared *code,
                    const struct as_spec_limits *l, struct as_buf *err)
{
    struct as_spec_errors e = {.out = err, .name = s->name, .max = l->errors};
    struct as_spec_reader r = {
        .arena = &s->arena, .errors = &e, .limits = l, .from = AS_SPEC_FROM_CODE};
    uint32_t n = as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS);

    if (!code) {
        add_command_deployment(s, app);
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct as_spec_object *d = as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i);
        bool known = false;

        for (uint32_t k = 0; k < code->n && !known; k++)
            known = strcmp(code->deployments[k].name, d->v[0].s) == 0;
        known = known || as_spec_is_policy(as_str_of(d->v[0].s)); /* add_policies looks at it */
        if (!known)
            report_unknown(&r, app, d, code);
    }
    if (code->code)
        set_text(s, app, AS_SPEC_APPLICATION_CODE, code->code);
    if (code->args && !as_spec_is_set(app, AS_SPEC_APPLICATION_ARGS))
        set_text(s, app, AS_SPEC_APPLICATION_ARGS, code->args);
    /* errors from here on are in the code: name that instead of the file */
    e.name = as_spec_str(app, AS_SPEC_APPLICATION_IMPORT_PATH);
    for (uint32_t k = 0; k < code->n; k++) {
        uint32_t before = e.n;
        struct as_spec_object *d = read_declared(&r, &code->deployments[k]);

        if (d && e.n == before)
            merge_deployment(s, app, d);
    }
    if (!e.n)
        add_policies(s, &r, app, code);
    return as_spec_errors_end(&e);
}

/* An application of anyserve.serve that a command line names has all paths, as one of serve.run. */
static void set_default_route(struct as_spec *s, struct as_spec_object *app)
{
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS); i++) {
        struct as_spec_object *d = as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i);

        if (as_spec_is_set(d, AS_SPEC_DEPLOYMENT_INGRESS) &&
            as_spec_value(d, AS_SPEC_DEPLOYMENT_INGRESS)->i)
            set_text(s, app, AS_SPEC_APPLICATION_ROUTE_PREFIX, "/");
    }
}

int as_spec_new_from_code(struct as_spec **ret_s, const struct as_spec_limits *l, const char *name,
                          const char *target, const struct as_declared *code, struct as_buf *err)
{
    struct as_spec_object *app;
    struct as_spec *s;
    struct as_buf text = {0};
    int rc;

    as_buf_str(&text, "{\"applications\": [{\"name\": ");
    as_buf_json(&text, as_str_of(name));
    as_buf_str(&text, ", \"import_path\": ");
    as_buf_json(&text, as_str_of(target));
    as_buf_str(&text, "}]}");
    rc = as_spec_parse(&s, l, target, as_buf_slice(&text), err);
    as_buf_fini(&text);
    if (rc < 0)
        return rc;
    app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, 0);
    rc = as_spec_overlay(s, app, code, l, err);
    if (rc == 0)
        set_default_route(s, app);
    if (rc == 0)
        rc = as_spec_check_whole(s, l->errors, err);
    if (rc < 0)
        as_spec_free(s);
    else
        *ret_s = s;
    return rc;
}
