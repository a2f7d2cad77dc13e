/* conf/spec/spec_check.c — the checks of a deployment file that need more than one key. */
#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/keys/spec_policy.h"
#include "conf/spec/keys/spec_router.h"
#include "conf/spec/spec_internal.h"

#define CPUS_MAX 1024 /* CPU_SETSIZE */

static int by_name(const void *x, const void *y)
{
    const struct as_spec_object *const *a = x, *const *b = y;
    int c = strcmp((*a)->v[0].s, (*b)->v[0].s);

    return c ? c : (*a)->line < (*b)->line ? -1 : (*a)->line > (*b)->line;
}

/* Reports equal names of objects, whose first key is their name. `all` gets sorted. */
static void refuse_duplicates(struct as_spec_reader *r, struct as_spec_object **all, uint32_t n,
                              const char *what)
{
    if (n > 1)
        qsort(all, n, sizeof(struct as_spec_object *), by_name);
    for (uint32_t i = 1; i < n; i++) {
        const struct as_spec_value *name = &all[i]->v[0];

        if (strcmp(name->s, all[i - 1]->v[0].s) == 0)
            as_spec_error(r->errors, name->line ? name->line : all[i]->line,
                          name->line ? name->column : all[i]->column,
                          "name: '%s' is already the name of the %s in line %u", name->s, what,
                          all[i - 1]->line);
    }
}

static void check_names(struct as_spec_reader *r, const struct as_spec_object *o,
                        enum as_spec_key list, const char *what)
{
    uint32_t n = as_spec_count(o, list), k = 0;
    struct as_spec_object **all = as_xalloc((n + 1) * sizeof(struct as_spec_object *));

    for (uint32_t i = 0; i < n; i++) {
        struct as_spec_object *one = as_spec_object(o, list, i);

        if (one->v[0].s)
            all[k++] = one;
    }
    refuse_duplicates(r, all, k, what);
    free(all);
}

/* The text is that of Ray Serve, which programs may know. */
static void check_prefixes(struct as_spec_reader *r, const struct as_spec_object *file)
{
    uint32_t n = as_spec_count(file, AS_SPEC_FILE_APPLICATIONS);

    for (uint32_t i = 0; i < n; i++) {
        const struct as_spec_object *app = as_spec_object(file, AS_SPEC_FILE_APPLICATIONS, i);
        const struct as_spec_value *prefix = as_spec_value(app, AS_SPEC_APPLICATION_ROUTE_PREFIX);

        for (uint32_t k = 0; prefix->s && k < i; k++) {
            const struct as_spec_object *other = as_spec_object(file, AS_SPEC_FILE_APPLICATIONS, k);
            const char *taken = as_spec_str(other, AS_SPEC_APPLICATION_ROUTE_PREFIX);

            if (taken && strcmp(taken, prefix->s) == 0)
                as_spec_error(
                    r->errors, prefix->line, prefix->column,
                    "route_prefix: Prefix %s is being used by application \"%s\". Failed to "
                    "deploy application \"%s\".",
                    taken, other->v[0].s ? other->v[0].s : "", app->v[0].s ? app->v[0].s : "");
        }
    }
}

static void check_file(struct as_spec_reader *r, const struct as_spec_object *o)
{
    check_names(r, o, AS_SPEC_FILE_APPLICATIONS, "application");
    check_prefixes(r, o);
    as_spec_check_fallbacks(r, o, false);
}

/* Its deployments are counted as they are now: before the code is known, those of the file. */
static void check_scaled_together(struct as_spec_reader *r, const struct as_spec_object *app)
{
    const struct as_spec_value *policy = as_spec_value(app, AS_SPEC_APPLICATION_AUTOSCALING_POLICY);
    struct as_buf why = {0};
    uint32_t n = 0;

    if (!policy->s)
        return;
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS); i++)
        n += as_spec_autoscale(as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i), NULL);
    if (as_spec_read_policy(policy->s, &why) == 0 && !as_spec_scales_together(app))
        as_buf_str(&why, "policy_function must be the import path of a function of the program");
    else if (!why.n && as_spec_is_set(app, AS_SPEC_APPLICATION_COMMAND))
        as_buf_str(&why, "only an application of Python code has one, not one with a command");
    else if (!why.n && n > AS_SPEC_SCALED_TOGETHER_MAX)
        as_buf_printf(&why, "%u deployments have an autoscaling_config: %u at most", n,
                      AS_SPEC_SCALED_TOGETHER_MAX);
    if (why.n)
        as_spec_error(r->errors, policy->line, policy->column, "autoscaling_policy: %.*s",
                      AS_STR_FMT(as_buf_slice(&why)));
    as_buf_fini(&why);
}

static void check_application(struct as_spec_reader *r, const struct as_spec_object *o)
{
    const struct as_spec_value *path = as_spec_value(o, AS_SPEC_APPLICATION_IMPORT_PATH),
                               *command = as_spec_value(o, AS_SPEC_APPLICATION_COMMAND),
                               *code = as_spec_value(o, AS_SPEC_APPLICATION_CODE);

    check_names(r, o, AS_SPEC_APPLICATION_DEPLOYMENTS, "deployment");
    check_scaled_together(r, o);
    /* a key with an invalid value counts as given, too */
    if (path->line && command->line)
        as_spec_error(
            r->errors, o->line, o->column,
            "import_path: command is given, too; an application must have only one of them");
    else if (!path->line && !command->line)
        as_spec_error(r->errors, o->line, o->column,
                      "import_path: is missing; an application must have import_path or command");
    if (command->line && code->line)
        as_spec_error(
            r->errors, code->line, code->column,
            "code: only works with import_path; the program of a command is never copied");
}

/* The form of the list was checked already: numbers, '-' and ','. */
static void check_cpus(struct as_spec_reader *r, const struct as_spec_value *v)
{
    const char *p = v->s;

    while (p && *p >= '0' && *p <= '9') {
        const char *range = p;
        unsigned long from, to;

        if (!as_str_range(&p, &from, &to) || to >= CPUS_MAX) {
            as_spec_error(r->errors, v->line, v->column,
                          "cpu_affinity: '%.*s' is not a range of CPUs", (int)(p - range), range);
            return;
        }
        p += *p == ',';
    }
}

/* With both 0 an update could never start. */
static void check_update(struct as_spec_reader *r, const struct as_spec_object *o)
{
    const struct as_spec_value *surge = as_spec_value(o, AS_SPEC_DEPLOYMENT_MAX_SURGE),
                               *restarts = as_spec_value(o, AS_SPEC_DEPLOYMENT_MAX_RESTARTS);
    bool percent;

    if (as_spec_value(o, AS_SPEC_DEPLOYMENT_MAX_SURGE_PERCENT)->set && surge->set)
        as_spec_error(r->errors, surge->line, surge->column,
                      "max_surge: max_surge_percent is given, too; only one of them can be");
    if (as_spec_value(o, AS_SPEC_DEPLOYMENT_MAX_CONSTRUCTOR_RETRIES)->set && restarts->set)
        as_spec_error(
            r->errors, restarts->line, restarts->column,
            "max_restarts: max_constructor_retry_count is given, too; only one of them can be");
    if (surge->set && as_spec_amount(o, AS_SPEC_DEPLOYMENT_MAX_SURGE, &percent) == 0 &&
        as_spec_amount(o, AS_SPEC_DEPLOYMENT_MAX_UNAVAILABLE, &percent) == 0)
        as_spec_error(r->errors, surge->line, surge->column,
                      "max_surge: must not be 0 when max_unavailable is 0");
}

static void check_backpressure(struct as_spec_reader *r, const struct as_spec_value *v)
{
    struct as_spec_backpressure b;
    const char *why = v->s ? as_spec_read_backpressure(v->s, &b) : NULL;

    if (why)
        as_spec_error(r->errors, v->line, v->column, "backpressure_config: %s", why);
}

/* Both together are an error, in Ray Serve's words. Texts of the store may have both, from a
 * version that did not use the configuration. */
static void check_replicas(struct as_spec_reader *r, const struct as_spec_object *o)
{
    const struct as_spec_value *n = as_spec_value(o, AS_SPEC_DEPLOYMENT_NUM_REPLICAS),
                               *scaling = as_spec_value(o, AS_SPEC_DEPLOYMENT_AUTOSCALING);
    bool automatic = n->i == AS_SPEC_REPLICAS_AUTO;
    struct as_autoscale_config c;
    struct as_buf why = {0};

    as_autoscale_config_init(&c, automatic);
    if (scaling->s && as_spec_read_autoscale(scaling->s, &c, &why) < 0)
        as_spec_error(r->errors, scaling->line, scaling->column, "autoscaling_config: %.*s",
                      AS_STR_FMT(as_buf_slice(&why)));
    else if (scaling->s && n->from != AS_SPEC_FROM_DEFAULT && !automatic && r->limits &&
             !r->limits->stored)
        as_spec_error(r->errors, n->line, n->column,
                      "num_replicas: Manually setting num_replicas is not allowed when "
                      "autoscaling_config is provided.");
    as_buf_fini(&why);
}

/* In Ray Serve, too, only one of the two may set the number. */
static void check_external_scaler(struct as_spec_reader *r, const struct as_spec_object *app)
{
    const struct as_spec_value *external = as_spec_value(app, AS_SPEC_APPLICATION_EXTERNAL_SCALER);

    for (uint32_t i = 0; external->i && i < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS);
         i++) {
        const struct as_spec_object *d = as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i);

        if (as_spec_autoscale(d, NULL))
            as_spec_error(
                r->errors, external->line, external->column,
                "external_scaler_enabled: deployment '%s' has an autoscaling_config; only "
                "one of them can set its number of replicas",
                d->v[0].s ? d->v[0].s : "");
    }
}

/* Texts of the store may have anything, from a version that only kept the configuration: what is
 * wrong has no effect then. */
static void check_router(struct as_spec_reader *r, const struct as_spec_value *v)
{
    struct as_frame_router router;
    struct as_buf why = {0};

    if (v->s && !(r->limits && r->limits->stored) && as_spec_read_router(v->s, &router, &why))
        as_spec_error(r->errors, v->line, v->column, "request_router_config: %.*s",
                      AS_STR_FMT(as_buf_slice(&why)));
    as_buf_fini(&why);
}

static void check_deployment(struct as_spec_reader *r, const struct as_spec_object *o)
{
    const struct as_spec_value *gpus = as_spec_value(o, AS_SPEC_DEPLOYMENT_NUM_GPUS),
                               *cpus = as_spec_value(o, AS_SPEC_DEPLOYMENT_CPU_AFFINITY),
                               *num = as_spec_value(o, AS_SPEC_DEPLOYMENT_NUM_CPUS);

    if (gpus->set && gpus->i > 1000 && gpus->i % 1000)
        as_spec_error(r->errors, gpus->line, gpus->column,
                      "num_gpus: above 1 it must be a whole number");
    if (cpus->s && strcmp(cpus->s, "auto") != 0)
        check_cpus(r, cpus);
    else if (cpus->s && !num->set)
        as_spec_error(r->errors, cpus->line, cpus->column,
                      "cpu_affinity: auto requires num_cpus, the number of CPUs");
    else if (cpus->s && num->i > 1000 && num->i % 1000)
        as_spec_error(r->errors, num->line, num->column,
                      "num_cpus: above 1 it must be a whole number, for cpu_affinity: auto");
    check_update(r, o);
    check_replicas(r, o);
    check_backpressure(r, as_spec_value(o, AS_SPEC_DEPLOYMENT_BACKPRESSURE));
    check_router(r, as_spec_value(o, AS_SPEC_DEPLOYMENT_REQUEST_ROUTER));
}

void as_spec_check(struct as_spec_reader *r, const struct as_spec_object *o)
{
    switch (o->level) {
    case AS_SPEC_LEVEL_FILE:
        check_file(r, o);
        break;
    case AS_SPEC_LEVEL_APPLICATION:
        check_application(r, o);
        break;
    case AS_SPEC_LEVEL_DEPLOYMENT:
        check_deployment(r, o);
        break;
    case AS_SPEC_LEVEL_WARMUP:
    case AS_SPEC_LEVEL_LOGGING:
    case AS_SPEC_LEVELS:
        break;
    }
}

void as_spec_check_merged(struct as_spec_reader *r, const struct as_spec_object *file)
{
    for (uint32_t i = 0; i < as_spec_count(file, AS_SPEC_FILE_APPLICATIONS); i++) {
        const struct as_spec_object *app = as_spec_object(file, AS_SPEC_FILE_APPLICATIONS, i);

        check_external_scaler(r, app);
        check_scaled_together(r, app);
    }
    for (struct as_spec_walk w = {0}; as_spec_next(file, &w);)
        check_deployment(r, w.deployment);
}
