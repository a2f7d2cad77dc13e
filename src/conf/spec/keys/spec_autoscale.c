#include "conf/spec/keys/spec_autoscale.h"

#include "wire/json/json_text.h"

/* --- schedule --- */

struct entry {
    struct as_schedule_entry e;
    bool has_start, has_end, has_replicas;
};

static int read_replicas(struct as_json *j, struct as_json_value *v, struct entry *to,
                         struct as_buf *why)
{
    uint64_t n;

    if (v->type != AS_JSON_NUMBER || as_json_u64(j, v, &n) || n > AS_AUTOSCALE_REPLICAS_MAX) {
        as_buf_printf(why, "min_replicas must be a whole number from 0 to %u",
                      AS_AUTOSCALE_REPLICAS_MAX);
        return AS_EINVALID;
    }
    to->e.min_replicas = (uint32_t)n;
    to->has_replicas = true;
    return 0;
}

static int read_time(struct as_json *j, struct as_json_value *v, struct as_str key,
                     uint16_t *ret_minute, struct as_buf *why)
{
    struct as_str text;

    if (v->type == AS_JSON_STRING && as_json_string(j, v, &text) == 0 &&
        as_schedule_parse_time(text, ret_minute))
        return 0;
    as_buf_printf(why, "%.*s must be a time as \"08:30\"", AS_STR_FMT(key));
    return AS_EINVALID;
}

static int read_days(struct as_json *j, struct as_json_value *v, struct entry *to,
                     struct as_buf *why)
{
    struct as_str text;

    if (v->type == AS_JSON_STRING && as_json_string(j, v, &text) == 0 &&
        as_schedule_parse_days(text, &to->e.days))
        return 0;
    as_buf_str(why, "days must be as \"mon-fri\", \"sat,sun\" or \"daily\"");
    return AS_EINVALID;
}

static int read_entry_member(struct as_json *j, struct as_json_items *it, struct entry *to,
                             struct as_buf *why)
{
    if (as_str_eq(it->key, AS_STR("min_replicas")))
        return read_replicas(j, &it->value, to, why);
    if (as_str_eq(it->key, AS_STR("days")))
        return read_days(j, &it->value, to, why);
    if (as_str_eq(it->key, AS_STR("start"))) {
        to->has_start = true;
        return read_time(j, &it->value, it->key, &to->e.start, why);
    }
    if (as_str_eq(it->key, AS_STR("end"))) {
        to->has_end = true;
        return read_time(j, &it->value, it->key, &to->e.end, why);
    }
    as_buf_printf(why, "unknown key '%.*s'; there are days, start, end, min_replicas",
                  AS_STR_CUT(it->key, 64));
    return AS_EINVALID;
}

static int read_entry(struct as_json *j, struct as_json_value *v, struct as_schedule_entry *ret_e,
                      struct as_buf *why)
{
    struct entry to = {.e = {.days = 0x7f}};
    struct as_json_items it;
    int rc = 0, more;

    if (v->type != AS_JSON_OBJECT || as_json_items(j, v, &it)) {
        as_buf_str(why, "it is not a mapping");
        return AS_EINVALID;
    }
    while (!rc && (more = as_json_next(j, &it)) != 0)
        rc = more < 0 ? AS_EINVALID : read_entry_member(j, &it, &to, why);
    if (rc)
        return rc;
    if (!to.has_start || !to.has_end || !to.has_replicas) {
        as_buf_str(why, "start, end and min_replicas are required");
        return AS_EINVALID;
    }
    if (to.e.start == AS_DAY_MINUTES) {
        as_buf_str(why, "start must be before \"24:00\"");
        return AS_EINVALID;
    }
    *ret_e = to.e;
    return 0;
}

static int read_schedule(struct as_json *j, struct as_json_value *v, struct as_schedule *s,
                         struct as_buf *why)
{
    struct as_json_items it;
    int rc = 0, more;

    if (v->type != AS_JSON_ARRAY || as_json_items(j, v, &it)) {
        as_buf_str(why, "schedule must be a list");
        return AS_EINVALID;
    }
    while (!rc && (more = as_json_next(j, &it)) != 0) {
        struct as_buf what = {0};

        if (s->n == AS_SCHEDULE_MAX) {
            as_buf_printf(why, "schedule has more than %u entries", AS_SCHEDULE_MAX);
            return AS_EINVALID;
        }
        rc = more < 0 ? AS_EINVALID : read_entry(j, &it.value, &s->entry[s->n], &what);
        if (rc)
            as_buf_printf(why, "schedule[%u]: %.*s", s->n, AS_STR_FMT(as_buf_slice(&what)));
        s->n++;
        as_buf_fini(&what);
    }
    return rc;
}

/* --- autoscaling_config --- */

static int read_number(struct as_json *j, struct as_json_items *it, struct as_autoscale_config *c,
                       struct as_buf *why)
{
    double v;

    if (it->value.type != AS_JSON_NUMBER || as_json_f64(j, &it->value, &v)) {
        as_buf_printf(why, "%.*s must be a number", AS_STR_FMT(it->key));
        return AS_EINVALID;
    }
    return as_autoscale_config_set(c, it->key, v, why);
}

/* Ray Serve's own policy, by the name that it had before as well. */
static bool is_rays_policy(struct as_str name)
{
    return as_str_eq(name, AS_STR("default_autoscaling_policy"));
}

static int read_policy_function(struct as_json *j, struct as_json_items *it, struct as_buf *why)
{
    struct as_str path;

    if (it->value.type == AS_JSON_STRING && as_json_string(j, &it->value, &path) == 0 && path.n &&
        (memchr(path.p, ':', path.n) || memchr(path.p, '.', path.n) || is_rays_policy(path)))
        return 0;
    as_buf_printf(why, "policy: %.*s must be an import path, as \"module:function\"",
                  AS_STR_FMT(it->key));
    return AS_EINVALID;
}

static int read_policy_member(struct as_json *j, struct as_json_items *it, struct as_buf *why)
{
    bool kwargs = as_str_eq(it->key, AS_STR("policy_kwargs"));

    if (!kwargs && !as_str_eq(it->key, AS_STR("policy_function")) &&
        !as_str_eq(it->key, AS_STR("name"))) {
        as_buf_printf(why, "policy: unknown key '%.*s'; there are policy_function, policy_kwargs",
                      AS_STR_CUT(it->key, 64));
        return AS_EINVALID;
    }
    if (it->value.type == AS_JSON_NULL)
        return as_json_skip(j, &it->value);
    if (!kwargs)
        return read_policy_function(j, it, why);
    if (it->value.type == AS_JSON_OBJECT)
        return as_json_skip(j, &it->value);
    as_buf_str(why, "policy: policy_kwargs must be a mapping");
    return AS_EINVALID;
}

/* Checks what the policy process is to run (conf/spec/keys/spec_policy). */
static int read_policy(struct as_json *j, struct as_json_value *v, struct as_buf *why)
{
    struct as_json_items it;
    int rc = 0, more;

    if (v->type != AS_JSON_OBJECT || as_json_items(j, v, &it)) {
        as_buf_str(why, "policy must be a mapping with policy_function");
        return AS_EINVALID;
    }
    while (!rc && (more = as_json_next(j, &it)) != 0)
        rc = more < 0 ? AS_EINVALID : read_policy_member(j, &it, why);
    return rc;
}

/* What is null has its default, as in Ray Serve. */
static int read_member(struct as_json *j, struct as_json_items *it, struct as_autoscale_config *c,
                       struct as_buf *why)
{
    struct as_str name;

    if (it->value.type == AS_JSON_NULL)
        return as_json_skip(j, &it->value) ? AS_EINVALID : 0;
    if (as_str_eq(it->key, AS_STR("policy")))
        return read_policy(j, &it->value, why);
    if (as_str_eq(it->key, AS_STR("schedule")))
        return read_schedule(j, &it->value, &c->schedule, why);
    if (!as_str_eq(it->key, AS_STR("aggregation_function")))
        return read_number(j, it, c, why);
    if (it->value.type == AS_JSON_STRING && as_json_string(j, &it->value, &name) == 0 &&
        as_autoscale_config_set_aggregation(c, name))
        return 0;
    as_buf_str(why, "aggregation_function must be \"mean\", \"max\" or \"min\"");
    return AS_EINVALID;
}

static int read_root(struct as_json *j, struct as_json_value *root, struct as_autoscale_config *c,
                     struct as_buf *why)
{
    struct as_json_items it;
    int rc = 0, more;

    if (root->type != AS_JSON_OBJECT || as_json_items(j, root, &it)) {
        as_buf_str(why, "it is not a mapping");
        return AS_EINVALID;
    }
    while (!rc && (more = as_json_next(j, &it)) != 0)
        rc = more < 0 ? AS_EINVALID : read_member(j, &it, c, why);
    return rc ? rc : as_autoscale_config_check(c, why);
}

/* Calls `read` with the root of a JSON text. c may be NULL, as `read` wants it. */
static int read_text(const char *json, struct as_autoscale_config *c,
                     int (*read)(struct as_json *j, struct as_json_value *root,
                                 struct as_autoscale_config *c, struct as_buf *why),
                     struct as_buf *why)
{
    struct as_json_value root;
    struct as_json_text t;
    int rc = AS_EINVALID;

    if (as_json_text_open(&t, as_str_of(json), &root) == 0)
        rc = read(t.json, &root, c, why);
    if (rc && !why->n)
        as_buf_str(why, "it is not JSON");
    as_json_text_close(&t);
    return rc;
}

int as_spec_read_autoscale(const char *json, struct as_autoscale_config *c, struct as_buf *why)
{
    return read_text(json, c, read_root, why);
}

static int read_policy_root(struct as_json *j, struct as_json_value *root,
                            struct as_autoscale_config *c AS_UNUSED, struct as_buf *why)
{
    return read_policy(j, root, why);
}

int as_spec_read_policy(const char *json, struct as_buf *why)
{
    return read_text(json, NULL, read_policy_root, why);
}

/* --- a deployment --- */

bool as_spec_autoscale(const struct as_spec_object *deployment, struct as_autoscale_config *ret_c)
{
    const struct as_spec_value *n = as_spec_value(deployment, AS_SPEC_DEPLOYMENT_NUM_REPLICAS);
    const char *json = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_AUTOSCALING);
    bool automatic = n->i == AS_SPEC_REPLICAS_AUTO;
    struct as_autoscale_config c;
    struct as_buf why = {0};

    if (!automatic && (!json || n->from != AS_SPEC_FROM_DEFAULT))
        return false;
    as_autoscale_config_init(&c, automatic);
    if (json)
        (void)as_spec_read_autoscale(json, &c, &why); /* it was checked */
    as_buf_fini(&why);
    if (ret_c)
        *ret_c = c;
    return true;
}

uint32_t as_spec_replicas(const struct as_spec_object *deployment)
{
    struct as_autoscale_config c;

    if (as_spec_autoscale(deployment, &c))
        return as_autoscale_initial(&c);
    return (uint32_t)as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_NUM_REPLICAS);
}
