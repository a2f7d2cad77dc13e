/* One application at a time: PUT and DELETE of an application, and the check that nobody has
 * changed it meanwhile. Requests that come while a file or an application is being read wait for
 * their turn; each is merged with what is served when its code was read, so none undoes another's.
 */
#include "app/controller/control_api.h"
#include "wire/json/json.h"

#include <inttypes.h>

struct as_control_api_put {
    struct as_list node; /* of those that wait */
    struct as_control_api *o;
    struct as_control_call *call;
    char *application;
    struct as_buf text;
    uint64_t generation; /* AS_CONTROL_ANY: no check */
    bool dry;
};

/* --- the check --- */

struct last_change {
    struct as_str application;
    uint64_t generation;
};

/* A number of replicas that was set by hand stays, whatever is deployed. */
static void note_change(void *arg, const struct as_store_change *c)
{
    struct last_change *l = arg;

    if (as_str_eq(c->application, l->application) && !as_str_eq(c->step, AS_STR("scaled")))
        l->generation = AS_MAX(l->generation, c->generation);
}

/* The last generation that has changed the application (empty: anything); 0: none has. */
static int find_last_change(struct as_control_api *o, struct as_str application, uint64_t *ret_n,
                            struct as_buf *err)
{
    struct last_change l = {.application = application};
    int rc = 0;

    if (application.n && o->desired.store)
        rc = as_store_each_change(o->desired.store, note_change, &l, err);
    else if (!application.n ||
             as_spec_find(o->desired.spec->file, AS_SPEC_FILE_APPLICATIONS, application))
        l.generation = o->desired.generation;
    *ret_n = l.generation;
    return rc;
}

int as_control_api_check_generation(struct as_control_api *o, struct as_str application,
                                    uint64_t expected, struct as_buf *err)
{
    uint64_t now = o->desired.generation, last = 0;
    struct as_buf why = {0};
    int rc;

    if (expected == AS_CONTROL_ANY)
        return 0;
    rc = find_last_change(o, application, &last, err);
    if (rc < 0 || (last <= expected && expected <= now))
        return rc;
    if (expected > now)
        as_buf_printf(&why, "there is no generation %" PRIu64 " yet", expected);
    else if (application.n)
        as_buf_printf(
            &why, "the application '%.*s' was changed in generation %" PRIu64 ", after %" PRIu64,
            AS_STR_FMT(application), last, expected);
    else
        as_buf_printf(&why, "there is generation %" PRIu64 " after %" PRIu64, now, expected);
    as_json_put_open(err, '{');
    as_json_put_member_string(err, "error", as_buf_slice(&why));
    as_json_put_member_u64(err, "generation", now);
    as_json_put_close(err, '}');
    as_buf_fini(&why);
    return AS_ESTALE;
}

/* --- PUT --- */

static void free_put(struct as_control_api_put *p)
{
    free(p->application);
    as_buf_fini(&p->text);
    free(p);
}

/* The limits of a file hold for all applications together. */
static int check_counts(const struct as_control_api *o, const struct as_spec *all,
                        struct as_buf *err)
{
    const struct as_spec_limits *l = &o->deploy_conf.limits;
    uint32_t n = as_spec_count(all->file, AS_SPEC_FILE_APPLICATIONS), deployments = 0;

    for (struct as_spec_walk w = {0}; as_spec_next(all->file, &w);)
        deployments++;
    if (n > l->applications)
        as_buf_printf(err,
                      "%s: with this one there are %u applications; at most %u "
                      "(--max-applications)\n",
                      AS_CONTROL_FILE, n, l->applications);
    else if (deployments > l->deployments)
        as_buf_printf(err,
                      "%s: with these there are %u deployments; at most %u "
                      "(--max-deployments)\n",
                      AS_CONTROL_FILE, deployments, l->deployments);
    else
        return 0;
    return AS_EINVALID;
}

/* The text is that of Ray Serve, as of a file with both. */
static int check_prefix(const struct as_spec *all, const struct as_spec_object *one,
                        struct as_buf *err)
{
    const struct as_spec_value *own = as_spec_value(one, AS_SPEC_APPLICATION_ROUTE_PREFIX);

    for (uint32_t i = 0; own->s && i < as_spec_count(all->file, AS_SPEC_FILE_APPLICATIONS); i++) {
        const struct as_spec_object *app = as_spec_object(all->file, AS_SPEC_FILE_APPLICATIONS, i);
        const char *taken = as_spec_str(app, AS_SPEC_APPLICATION_ROUTE_PREFIX),
                   *name = as_spec_str(app, AS_SPEC_APPLICATION_NAME),
                   *own_name = as_spec_str(one, AS_SPEC_APPLICATION_NAME);

        if (!taken || strcmp(taken, own->s) != 0 || strcmp(name, own_name) == 0)
            continue;
        as_buf_printf(err,
                      "%s:%u:%u: route_prefix: Prefix %s is being used by application \"%s\". "
                      "Failed to deploy application \"%s\".\n",
                      AS_CONTROL_FILE, own->line, own->column, taken, name, own_name);
        return AS_EINVALID;
    }
    return 0;
}

/* Writes what is served with the application of `one` in place of its former state. */
static int merge(struct as_control_api *o, const struct as_spec *one, struct as_buf *text,
                 struct as_buf *err)
{
    struct as_spec_object *app = as_spec_object(one->file, AS_SPEC_FILE_APPLICATIONS, 0);
    struct as_spec *all;
    int rc = as_desired_state_load(&o->desired, 0, &all, err);

    if (rc < 0)
        return rc;
    rc = check_prefix(all, app, err);
    as_spec_put_object(all, AS_SPEC_FILE_APPLICATIONS, app);
    all->name = AS_CONTROL_FILE; /* what is wrong in the others was not there before */
    if (rc == 0)
        rc = check_counts(o, all, err);
    if (rc == 0)
        rc = as_deploy_job_check(all, err);
    if (rc == 0)
        as_desired_state_write(all, text);
    as_spec_free(all);
    return rc;
}

/* The models of the other applications stay as they are. */
static void collect_models(const struct as_control_api *o, const char *application,
                           struct as_declared *models)
{
    for (uint32_t i = 0; i < o->desired.models.n; i++) {
        const struct as_declared_deployment *d = &o->desired.models.deployments[i];

        if (!as_str_eq(as_id_application(as_str_of(d->name)), as_str_of(application)))
            as_declared_copy_models(models, d);
    }
    as_deploy_job_copy_models(&o->cache, application, models);
}

static int change_application(struct as_control_api *o, const struct as_control_api_put *p,
                              const struct as_spec *one, struct as_buf *json, struct as_buf *err)
{
    struct as_str application = as_str_of(p->application);
    struct as_buf text = {0}, cause = {0};
    struct as_declared models = {0};
    bool again;
    int rc = as_control_api_check_generation(o, application, p->generation, err);

    if (rc == 0)
        rc = merge(o, one, &text, err);
    if (rc == 0) {
        as_buf_printf(&cause, "deploy %s", p->application);
        collect_models(o, p->application, &models);
        again = !p->dry && as_reconciler_clear_failures(o->reconciler, application);
        rc = as_control_api_deploy_text(o, as_buf_slice(&cause), &text, &models, p->dry, again,
                                        json, err);
    }
    as_declared_fini(&models);
    as_buf_fini(&text);
    as_buf_fini(&cause);
    return rc;
}

static void on_read(void *ctx, int err, struct as_spec *s, struct as_str why)
{
    struct as_control_api *o = ctx;
    struct as_control_api_put *p = o->put;
    struct as_buf json = {0}, wrong = {0};

    o->put = NULL;
    o->pending_call = NULL;
    o->sweep_needed = true;
    as_buf_add(&wrong, why.p, why.n);
    if (err == 0)
        err = change_application(o, p, s, &json, &wrong);
    as_spec_free(s);
    as_deploy_job_cache_keep(&o->cache, o->desired.spec);
    if (p->dry) {
        as_control_answer(p->call, err, err ? &wrong : &json);
        as_buf_fini(&json);
        as_buf_fini(&wrong);
    } else {
        as_control_api_answer_change(o, p->call, err, &json, &wrong);
    }
    free_put(p);
    as_control_api_job_ended(o);
}

static void start(struct as_control_api *o, struct as_control_api_put *p)
{
    o->put = p;
    o->pending_call = p->call;
    as_control_set_on_gone(p->call, as_control_api_on_gone, o);
    as_deploy_job_start(&o->job, &o->deploy_conf, &o->cache, p->application, as_buf_slice(&p->text),
                        on_read, o);
}

/* The client of a request that waits has closed the connection. */
static void on_gone_waiting(void *arg)
{
    struct as_control_api_put *p = arg;

    as_list_remove(&p->node);
    as_control_answer(p->call, AS_ECANCELLED, NULL);
    free_put(p);
}

void as_control_api_put_next(struct as_control_api *o)
{
    struct as_list *node = o->job || o->pending_call ? NULL : as_list_pop(&o->puts);

    if (node)
        start(o, AS_LIST_ENTRY(node, struct as_control_api_put, node));
}

void as_control_api_put_application(struct as_control_api *o, const struct as_control_request *q,
                                    struct as_control_call *k)
{
    struct as_control_api_put *p;
    struct as_buf err = {0};
    /* once before the code is read, which takes time; once after it */
    int rc = as_control_api_check_generation(o, q->application, q->generation, &err);

    if (rc < 0) {
        as_control_answer(k, rc, &err);
        as_buf_fini(&err);
        return;
    }
    p = as_xalloc(sizeof(*p));
    *p = (struct as_control_api_put){.o = o,
                                     .call = k,
                                     .application = as_str_dup(q->application),
                                     .generation = q->generation,
                                     .dry = q->verb == AS_CONTROL_PLAN_ONE};
    as_list_init(&p->node);
    as_buf_add(&p->text, q->text.p, q->text.n);
    as_list_push(&o->puts, &p->node);
    as_control_set_on_gone(k, on_gone_waiting, p);
    as_control_api_put_next(o);
}

void as_control_api_put_cancel(struct as_control_api *o)
{
    if (o->put)
        free_put(o->put);
    o->put = NULL;
}

void as_control_api_put_close(struct as_control_api *o)
{
    struct as_list *node;

    while ((node = as_list_pop(&o->puts))) {
        struct as_control_api_put *p = AS_LIST_ENTRY(node, struct as_control_api_put, node);

        as_control_answer(p->call, AS_ECANCELLED, NULL);
        free_put(p);
    }
}

/* --- DELETE --- */

int as_control_api_delete(struct as_control_api *o, const struct as_control_request *q,
                          struct as_buf *json, struct as_buf *err)
{
    struct as_buf cause = {0}, text = {0};
    int rc = as_control_api_check_generation(o, q->application, q->generation, err);

    if (rc < 0)
        return rc;
    as_buf_printf(&cause, "delete %.*s",
                  AS_STR_FMT(q->application.n ? q->application : AS_STR("everything")));
    rc = as_desired_state_write_without(&o->desired, q->application, &text, err);
    if (rc == 0)
        rc = as_control_api_deploy_text(o, as_buf_slice(&cause), &text, NULL, false, false, json,
                                        err);
    as_buf_fini(&cause);
    as_buf_fini(&text);
    return rc;
}
