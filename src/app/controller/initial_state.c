#include "app/controller/initial_state.h"

#include "app/controller/desired_state.h"
#include "conf/spec/keys/spec_autoscale.h"

static const struct as_spec_object *application(const struct as_spec *s)
{
    return as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, 0);
}

int as_initial_state_spec(struct as_spec **ret_s, const struct as_option_set *opts,
                          const struct as_spec_limits *limits, const struct as_declared *app,
                          struct as_buf *err)
{
    bool given = opts->v[AS_OPT_WORKERS].given;
    int64_t workers = (int64_t)as_option_u64(opts, AS_OPT_WORKERS);
    int rc =
        as_spec_new_from_code(ret_s, limits, AS_INITIAL_STATE_APPLICATION, opts->args[0], app, err);

    if (rc < 0 || !given)
        return rc;
    for (uint32_t i = 0; i < as_spec_count(application(*ret_s), AS_SPEC_APPLICATION_DEPLOYMENTS);
         i++)
        as_spec_set_int(as_spec_object(application(*ret_s), AS_SPEC_APPLICATION_DEPLOYMENTS, i),
                        AS_SPEC_DEPLOYMENT_NUM_REPLICAS, workers);
    return 0;
}

const char *as_initial_state_route(const struct as_spec *s)
{
    return as_spec_str(application(s), AS_SPEC_APPLICATION_ROUTE_PREFIX);
}

uint32_t as_initial_state_replicas(const struct as_spec *s, const char *deployment)
{
    const struct as_spec_object *d =
        as_spec_find(application(s), AS_SPEC_APPLICATION_DEPLOYMENTS, as_str_of(deployment));

    return d ? as_spec_replicas(d) : 0;
}

int as_initial_state_write(const struct as_option_set *opts, const struct as_declared *app,
                           struct as_buf *text, struct as_buf *err)
{
    struct as_spec *s;
    int rc;

    if (!app->n) {
        as_buf_str(text, "{\"applications\": []}");
        return 0;
    }
    rc = as_initial_state_spec(&s, opts, &as_desired_state_limits, app, err);
    if (rc < 0)
        return rc;
    as_desired_state_write(s, text);
    as_spec_free(s);
    return 0;
}
