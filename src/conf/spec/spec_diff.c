#include "conf/spec/spec_diff.h"

#include "conf/spec/keys/spec_capacity.h"
#include "conf/spec/spec_internal.h"

/* Appends a value as text; values with the same meaning have the same text. */
static void put_value(const struct as_spec_row *row, const struct as_spec_value *v,
                      struct as_buf *out)
{
    if (!v->set)
        return;
    if (row->type != AS_SPEC_OBJECT && row->type != AS_SPEC_OBJECTS) {
        as_spec_put_value(row, v, out);
        return;
    }
    for (uint32_t i = 0; i < v->n; i++)
        as_spec_json(v->objects[i], true, out);
}

static bool same_value(const struct as_spec_row *row, const struct as_spec_value *a,
                       const struct as_spec_value *b)
{
    struct as_buf x = {0}, y = {0};
    bool equal;

    put_value(row, a, &x);
    put_value(row, b, &y);
    equal = a->set == b->set && as_str_eq(as_buf_slice(&x), as_buf_slice(&y));
    as_buf_fini(&x);
    as_buf_fini(&y);
    return equal;
}

static enum as_spec_class compare_objects(const struct as_spec_object *a,
                                          const struct as_spec_object *b, struct as_buf *keys)
{
    uint32_t first = as_spec_first_key(a->level), width = as_spec_key_count(a->level);
    enum as_spec_class worst = AS_SPEC_SAME;

    for (uint32_t i = 0; i < width; i++) {
        const struct as_spec_row *row = &as_spec_rows[first + i];

        if (row->cls == AS_SPEC_SAME || same_value(row, &a->v[i], &b->v[i]))
            continue;
        worst = AS_MAX(worst, row->cls);
        if (keys)
            as_buf_printf(keys, "%s%s", keys->n ? "," : "", row->key);
    }
    return worst;
}

enum as_spec_class as_spec_compare(const struct as_spec_object *old_app,
                                   const struct as_spec_object *old_deployment,
                                   const struct as_spec_object *new_app,
                                   const struct as_spec_object *new_deployment, struct as_buf *keys)
{
    enum as_spec_class app = compare_objects(old_app, new_app, keys),
                       own = compare_objects(old_deployment, new_deployment, keys);

    return AS_MAX(app, own);
}

uint64_t as_spec_hash(const struct as_spec_object *app, const struct as_spec_object *deployment,
                      enum as_spec_class cls)
{
    const struct as_spec_object *both[] = {app, deployment};
    struct as_buf b = {0};
    uint64_t hash;

    for (size_t k = 0; k < AS_COUNT(both); k++) {
        uint32_t first = as_spec_first_key(both[k]->level),
                 width = as_spec_key_count(both[k]->level);

        for (uint32_t i = 0; i < width; i++) {
            const struct as_spec_row *row = &as_spec_rows[first + i];

            /* a key that is not set is left out, so that a row that is added to the table later
             * does not change the version of all deployments */
            if (row->cls != cls || !both[k]->v[i].set)
                continue;
            as_buf_printf(&b, "%s=", row->key);
            put_value(row, &both[k]->v[i], &b);
            as_buf_add(&b, "", 1); /* a separator: no value has a zero byte */
        }
    }
    hash = as_str_hash(as_buf_slice(&b));
    as_buf_fini(&b);
    return hash;
}

const char *as_spec_step_name(enum as_spec_step step)
{
    static const char *const names[] = {[AS_SPEC_ADDED] = "added",
                                        [AS_SPEC_REMOVED] = "removed",
                                        [AS_SPEC_CHANGED] = "changed",
                                        [AS_SPEC_UNCHANGED] = "unchanged"};

    return names[step];
}

/* The same with target_capacity of both files, which a deployment of an uploaded application does
 * not heed. */
static enum as_spec_class compare_walks(const struct as_spec *old, const struct as_spec_walk *was,
                                        const struct as_spec *new, const struct as_spec_walk *w,
                                        struct as_buf *keys)
{
    const struct as_spec_row *row = &as_spec_rows[AS_SPEC_FILE_CAPACITY];
    enum as_spec_class cls =
        as_spec_compare(was->app, was->deployment, w->app, w->deployment, keys);

    if (as_spec_capacity(old->file, was->app, was->deployment).share ==
        as_spec_capacity(new->file, w->app, w->deployment).share)
        return cls;
    as_buf_printf(keys, "%s%s", keys->n ? "," : "", row->key);
    return AS_MAX(cls, row->cls);
}

/* Calls `each` for the deployments of `s`. is_new: `s` is the new spec, and all of its deployments
 * are reported; else only those that `other` does not have. */
static void diff_deployments(const struct as_spec *s, const struct as_spec *other, bool is_new,
                             void (*each)(void *ctx, const struct as_spec_change *c), void *ctx)
{
    for (struct as_spec_walk w = {0}, old; s && as_spec_next(s->file, &w);) {
        const char *app = w.app->v[0].s, *name = w.deployment->v[0].s;
        struct as_spec_change c = {.step = is_new ? AS_SPEC_ADDED : AS_SPEC_REMOVED,
                                   .application = app,
                                   .deployment = name,
                                   .keys = ""};
        struct as_buf keys = {0};
        struct as_id id;
        bool found = other && as_spec_find_deployment(other->file,
                                                      as_spec_id(w.app, w.deployment, &id), &old);

        if (found && !is_new)
            continue;
        if (found) {
            c.cls = compare_walks(other, &old, s, &w, &keys);
            c.step = c.cls == AS_SPEC_SAME ? AS_SPEC_UNCHANGED : AS_SPEC_CHANGED;
            c.keys = as_buf_cstr(&keys);
        }
        each(ctx, &c);
        as_buf_fini(&keys);
    }
}

void as_spec_diff(const struct as_spec *from, const struct as_spec *to,
                  void (*each)(void *ctx, const struct as_spec_change *c), void *ctx)
{
    diff_deployments(to, from, true, each, ctx);
    diff_deployments(from, to, false, each, ctx);
}
