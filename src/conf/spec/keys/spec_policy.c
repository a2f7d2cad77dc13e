/* conf/spec/keys/spec_policy.c — the policy processes of an application: for each deployment with a
 * router or an autoscaling policy of its own a deployment NAME.policy, whose one replica runs
 * these. No code declares it; a file may list it, with options such as env or
 * health_check_timeout_s.
 */
#include "conf/spec/keys/spec_policy.h"

#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/spec_internal.h"
#include "wire/json/json_text.h"

#define ONGOING 100 /* calls that it may execute at once; questions about requests are none */

/* --- what a deployment has of its own --- */

/* Calls `member` for each member of a JSON object. */
static void each_member(struct as_json *j, struct as_json_value *object,
                        void (*member)(void *arg, struct as_json *j, struct as_str key,
                                       struct as_json_value *v),
                        void *arg)
{
    struct as_json_items it;

    if (as_json_items(j, object, &it))
        return;
    while (as_json_next(j, &it) > 0)
        member(arg, j, it.key, &it.value);
}

/* An import path of the program's: "module:name" or "module.name", and none of what is built in,
 * which has Ray Serve's names or ours. As is_own of python/anyserve/code/policy_code.py. */
static bool is_own(struct as_str path)
{
    static const char *const built_in[] = {"ray.serve._private.request_router",
                                           "ray.serve.autoscaling_policy",
                                           "anyserve.serve.autoscaling_policy"};

    if (!path.n || (!memchr(path.p, ':', path.n) && !memchr(path.p, '.', path.n)))
        return false;
    for (size_t i = 0; i < AS_COUNT(built_in); i++) {
        size_t n = strlen(built_in[i]);

        if (path.n >= n && memcmp(path.p, built_in[i], n) == 0)
            return false;
    }
    return true;
}

static void on_router_member(void *arg, struct as_json *j, struct as_str key,
                             struct as_json_value *v)
{
    struct as_str path;

    if (as_str_eq(key, AS_STR("request_router_class")) && as_json_string(j, v, &path) == 0)
        *(bool *)arg = is_own(path);
}

static void on_policy_member(void *arg, struct as_json *j, struct as_str key,
                             struct as_json_value *v)
{
    struct as_str path;

    /* `name` is what Ray Serve called it before */
    if ((as_str_eq(key, AS_STR("policy_function")) || as_str_eq(key, AS_STR("name"))) &&
        as_json_string(j, v, &path) == 0)
        *(bool *)arg = is_own(path);
}

static void on_scaling_member(void *arg, struct as_json *j, struct as_str key,
                              struct as_json_value *v)
{
    if (as_str_eq(key, AS_STR("policy")) && v->type == AS_JSON_OBJECT)
        each_member(j, v, on_policy_member, arg);
}

static bool read_json(const char *json, void (*member)(void *arg, struct as_json *j,
                                                       struct as_str key, struct as_json_value *v))
{
    struct as_json_value root;
    struct as_json_text t;
    bool own = false;

    if (!json)
        return false;
    if (as_json_text_open(&t, as_str_of(json), &root) == 0)
        each_member(t.json, &root, member, &own);
    as_json_text_close(&t);
    return own;
}

bool as_spec_has_own_router(const struct as_spec_object *deployment)
{
    return read_json(as_spec_str(deployment, AS_SPEC_DEPLOYMENT_REQUEST_ROUTER), on_router_member);
}

bool as_spec_has_own_scaling(const struct as_spec_object *deployment)
{
    return read_json(as_spec_str(deployment, AS_SPEC_DEPLOYMENT_AUTOSCALING), on_scaling_member);
}

bool as_spec_scales_together(const struct as_spec_object *app)
{
    return read_json(as_spec_str(app, AS_SPEC_APPLICATION_AUTOSCALING_POLICY), on_policy_member);
}

const struct as_spec_object *as_spec_scaling_host(const struct as_spec_object *app)
{
    const struct as_spec_object *first = NULL;

    if (!as_spec_scales_together(app))
        return NULL;
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS); i++) {
        const struct as_spec_object *d = as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i);

        if (as_spec_autoscale(d, NULL) && (!first || strcmp(d->v[0].s, first->v[0].s) < 0))
            first = d;
    }
    return first;
}

bool as_spec_runs_scaling(const struct as_spec_object *app, const struct as_spec_object *deployment)
{
    if (as_spec_scales_together(app))
        return as_spec_scaling_host(app) == deployment;
    return as_spec_has_own_scaling(deployment) && as_spec_autoscale(deployment, NULL);
}

bool as_spec_needs_policy(const struct as_spec_object *app, const struct as_spec_object *deployment)
{
    return as_spec_has_own_router(deployment) || as_spec_runs_scaling(app, deployment);
}

/* --- names --- */

bool as_spec_is_policy(struct as_str name)
{
    return as_id_policy_base(name).n > 0;
}

/* --- the deployment of a policy process --- */

static struct as_spec_value *value_of(struct as_spec_object *o, enum as_spec_key key)
{
    return &o->v[key - as_spec_first_key(o->level)];
}

/* The file's value stays. */
static void set_number(struct as_spec_object *o, enum as_spec_key key, int64_t i)
{
    struct as_spec_value *v = value_of(o, key);

    if (v->from == AS_SPEC_FROM_DEFAULT)
        *v = (struct as_spec_value){.set = true, .from = AS_SPEC_FROM_CODE, .i = i};
}

static void copy_value(struct as_spec_object *to, const struct as_spec_object *from,
                       enum as_spec_key key)
{
    struct as_spec_value *v = value_of(to, key);

    if (v->from != AS_SPEC_FROM_DEFAULT)
        return;
    *v = *as_spec_value(from, key);
    if (v->set && v->from == AS_SPEC_FROM_FILE)
        v->from = AS_SPEC_FROM_CODE; /* that file has no such line */
    v->line = v->column = 0;
}

/* A change of it starts the process anew: that of what it runs, or of its deployment's code. */
static const char *version_of(struct as_arena *a, const struct as_spec_object *app,
                              const struct as_spec_object *base)
{
    static const enum as_spec_key keys[] = {AS_SPEC_DEPLOYMENT_VERSION,
                                            AS_SPEC_DEPLOYMENT_REQUEST_ROUTER,
                                            AS_SPEC_DEPLOYMENT_AUTOSCALING};
    bool scales = as_spec_runs_scaling(app, base);
    struct as_buf b = {0};
    const char *text;

    for (size_t i = 0; i < AS_COUNT(keys); i++) {
        const char *s = as_spec_str(base, keys[i]);

        if (s && (keys[i] != AS_SPEC_DEPLOYMENT_AUTOSCALING || scales))
            as_buf_str(&b, s);
        as_buf_add(&b, "", 1);
    }
    if (as_spec_scaling_host(app) == base)
        as_buf_str(&b, as_spec_str(app, AS_SPEC_APPLICATION_AUTOSCALING_POLICY));
    as_buf_printf(&b, "%016llx", (unsigned long long)as_str_hash(as_buf_slice(&b)));
    text = as_spec_dup(a, (struct as_str){(const char *)b.p + b.n - 16, 16});
    as_buf_fini(&b);
    return text;
}

void as_spec_set_policy(struct as_arena *a, struct as_spec_object *policy,
                        const struct as_spec_object *app, const struct as_spec_object *base)
{
    copy_value(policy, base, AS_SPEC_DEPLOYMENT_ENV);
    copy_value(policy, base, AS_SPEC_DEPLOYMENT_WORKING_DIR);
    copy_value(policy, base, AS_SPEC_DEPLOYMENT_LOGGING);
    *value_of(policy, AS_SPEC_DEPLOYMENT_VERSION) = (struct as_spec_value){
        .set = true, .from = AS_SPEC_FROM_CODE, .s = version_of(a, app, base)};
    set_number(policy, AS_SPEC_DEPLOYMENT_NUM_REPLICAS, 1);
    set_number(policy, AS_SPEC_DEPLOYMENT_MAX_ONGOING_REQUESTS, ONGOING);
    set_number(policy, AS_SPEC_DEPLOYMENT_WARM_SPARES, 0);
    /* a router that blocks is replaced within seconds */
    set_number(policy, AS_SPEC_DEPLOYMENT_HEALTH_CHECK_PERIOD, (int64_t)AS_SEC);
    set_number(policy, AS_SPEC_DEPLOYMENT_HEALTH_CHECK_TIMEOUT, 2 * (int64_t)AS_SEC);
    set_number(policy, AS_SPEC_DEPLOYMENT_HEALTH_CHECK_FAILURES, 2);
}
