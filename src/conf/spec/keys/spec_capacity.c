#include "conf/spec/keys/spec_capacity.h"

#include "conf/spec/keys/spec_policy.h"

static_assert(AS_CAPACITY_ALL == 100 * 1000, "in the units of the row");

bool as_spec_is_uploaded(const struct as_spec_object *app)
{
    const char *code = as_spec_str(app, AS_SPEC_APPLICATION_CODE);

    return code && strncmp(code, "pickle:", 7) == 0;
}

struct as_capacity as_spec_file_capacity(const struct as_spec_object *file)
{
    bool set = as_spec_is_set(file, AS_SPEC_FILE_CAPACITY),
         moved = as_spec_is_set(file, AS_SPEC_FILE_CAPACITY_DIRECTION);

    static_assert(AS_CAPACITY_UP == 1 && AS_CAPACITY_DOWN == 2, "as the words of the row");
    return (struct as_capacity){
        .share =
            set ? (int32_t)as_spec_thousandths(file, AS_SPEC_FILE_CAPACITY) : AS_CAPACITY_UNSET,
        .direction = set && moved ? (enum as_capacity_direction)(
                                        1 + as_spec_i64(file, AS_SPEC_FILE_CAPACITY_DIRECTION))
                                  : AS_CAPACITY_STEADY};
}

struct as_capacity as_spec_capacity(const struct as_spec_object *file,
                                    const struct as_spec_object *app,
                                    const struct as_spec_object *deployment)
{
    if (as_spec_is_uploaded(app) ||
        as_spec_is_policy(as_str_of(as_spec_str(deployment, AS_SPEC_DEPLOYMENT_NAME))))
        return (struct as_capacity){.share = AS_CAPACITY_UNSET};
    return as_spec_file_capacity(file);
}

bool as_spec_same_capacity(const struct as_spec *a, const struct as_spec *b)
{
    return as_spec_file_capacity(a->file).share == as_spec_file_capacity(b->file).share;
}

/* Each application of `a` that no program has uploaded is one of `b`, too. */
static bool has_applications(const struct as_spec *a, const struct as_spec *b)
{
    for (uint32_t i = 0; i < as_spec_count(a->file, AS_SPEC_FILE_APPLICATIONS); i++) {
        const struct as_spec_object *app = as_spec_object(a->file, AS_SPEC_FILE_APPLICATIONS, i),
                                    *other;

        if (as_spec_is_uploaded(app))
            continue;
        other = as_spec_find(b->file, AS_SPEC_FILE_APPLICATIONS,
                             as_str_of(as_spec_str(app, AS_SPEC_APPLICATION_NAME)));
        if (!other || as_spec_is_uploaded(other))
            return false;
    }
    return true;
}

void as_spec_set_direction(struct as_spec *s, const struct as_spec *before)
{
    static const char *const words[] = {[AS_CAPACITY_UP] = "up", [AS_CAPACITY_DOWN] = "down"};
    bool same = before && has_applications(s, before) && has_applications(before, s);
    struct as_capacity was = before ? as_spec_file_capacity(before->file) : (struct as_capacity){0};
    enum as_capacity_direction d =
        as_capacity_next(same ? &was : NULL, as_spec_file_capacity(s->file).share);
    struct as_spec_value v = {0};

    if (d != AS_CAPACITY_STEADY)
        v = (struct as_spec_value){
            .set = true, .from = AS_SPEC_FROM_FILE, .i = (int64_t)d - 1, .s = words[d]};
    s->file->v[AS_SPEC_FILE_CAPACITY_DIRECTION - as_spec_first_key(s->file->level)] = v;
}
