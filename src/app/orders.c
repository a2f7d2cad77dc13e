#include "app/orders.h"

#include "ctl/spec.h"
#include "io/runtime.h"
#include "wire/json.h"

#include <time.h>
#include <unistd.h>

#define HISTORY 100u /* generations; `run` ends with its server, so nobody looks further back */

/* --- the desired state as a text --- */

static struct as_spec_object *application_of(const struct as_spec *s)
{
    return as_spec_find(s->file, AS_SPEC_FILE_APPLICATIONS, AS_STR(AS_ORDERS_APPLICATION));
}

/* What the server itself wrote is not bounded as what people send. */
static const struct as_spec_limits own = {.bytes = AS_STORE_SPEC_MAX,
                                          .depth = 1000,
                                          .applications = UINT32_MAX,
                                          .deployments = UINT32_MAX,
                                          .errors = 1};

/* The code's, with --workers: where every history begins. */
static int initial(const struct as_orders *o, struct as_spec **ret_s, struct as_buf *err)
{
    struct as_spec_object *app;
    int rc = as_spec_of_code(ret_s, &own, AS_ORDERS_APPLICATION, o->opts->args[0], o->app, err);

    if (rc < 0)
        return rc;
    app = application_of(*ret_s);
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS); i++)
        as_spec_set_int(as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i),
                        AS_SPEC_DEPLOYMENT_NUM_REPLICAS,
                        (int64_t)as_option_u64(o->opts, AS_OPT_WORKERS));
    return 0;
}

/* The newest stored one; else the initial one. */
static int current(const struct as_orders *o, struct as_spec **ret_s, struct as_buf *err)
{
    struct as_store_entry e;
    struct as_buf none = {0};
    int rc = o->store ? as_store_get(o->store, 0, &e, &none) : AS_ENOTFOUND;

    if (rc == AS_ENOTFOUND)
        rc = initial(o, ret_s, err);
    else if (rc == 0)
        rc = as_spec_parse(ret_s, &own, AS_STORE_FILE, e.spec, err);
    else
        as_buf_add(err, none.p, none.n);
    as_buf_fini(&none);
    return rc;
}

static int open_store(struct as_orders *o, struct as_buf *err)
{
    return o->store ? 0 : as_store_open(&o->store, o->folder, HISTORY, err);
}

static int store(struct as_orders *o, const struct as_spec *s, const struct as_buf *cause,
                 struct as_buf *err)
{
    struct as_buf text;
    struct timespec now;
    uint64_t generation;
    int rc;

    clock_gettime(CLOCK_REALTIME, &now);
    as_buf_init(&text);
    as_spec_print(s, &text);
    rc = as_store_put(o->store, as_buf_slice(cause), as_buf_slice(&text),
                      now.tv_sec * 1000 + now.tv_nsec / (int64_t)AS_MS, &generation, err);
    as_buf_fini(&text);
    return rc;
}

/* --- the verbs --- */

/* First what comes after a crash, then what happens now. */
static int scale(struct as_orders *o, const struct as_control_request *q, struct as_buf *err)
{
    struct as_spec_object *app, *deployment;
    struct as_spec *s = NULL;
    struct as_buf cause;
    int rc = open_store(o, err);

    if (rc == 0)
        rc = current(o, &s, err);
    if (rc < 0)
        return rc;
    app = application_of(s);
    deployment = app ? as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS, q->deployment) : NULL;
    as_buf_init(&cause);
    as_buf_printf(&cause, "scale %.*s to %u", AS_STR_FMT(q->deployment), q->replicas);
    if (deployment && as_spec_set_int(deployment, AS_SPEC_DEPLOYMENT_NUM_REPLICAS, q->replicas) < 0)
        rc = AS_EINVALID; /* the door has looked already */
    if (rc == 0 && deployment)
        rc = store(o, s, &cause, err);
    if (rc == 0) /* without the deployment it says so */
        rc = as_crew_scale(o->crew, q->deployment, q->replicas, err);
    as_buf_fini(&cause);
    as_spec_free(s);
    return rc;
}

static void show(const struct as_orders *o, struct as_buf *json)
{
    as_json_put_open(json, '{');
    as_json_put_key(json, "controller_info");
    as_json_put_open(json, '{');
    as_json_put_key(json, "pid");
    as_json_put_i64(json, getpid());
    as_json_put_close(json, '}');
    as_json_put_key(json, "applications");
    as_json_put_open(json, '{');
    if (o->app->n) {
        as_json_put_key(json, AS_ORDERS_APPLICATION);
        as_json_put_open(json, '{');
        as_json_put_at_string(json, "name", AS_STR(AS_ORDERS_APPLICATION));
        as_json_put_at_string(json, "status",
                              as_str_of(as_application_status_name(as_crew_status(o->crew))));
        as_json_put_key(json, "deployments");
        as_crew_show(o->crew, json);
        as_json_put_close(json, '}');
    }
    as_json_put_close(json, '}');
    as_json_put_close(json, '}');
}

struct each {
    as_control_row_fn *fn;
    void *arg;
};

static void tell(void *arg, const struct as_crew_row *r)
{
    const struct each *k = arg;

    k->fn(k->arg, &(struct as_control_row){
                      .kind = r->replica.n ? AS_CONTROL_REPLICA : AS_CONTROL_DEPLOYMENT,
                      .application = AS_STR(AS_ORDERS_APPLICATION),
                      .deployment = r->deployment,
                      .replica = r->replica,
                      .status = r->status,
                      .message = r->message,
                      .target = r->target,
                      .rolled_back = r->rolled_back,
                      .pid = (uint32_t)r->pid,
                      .rank = r->rank == AS_RANK_NONE ? AS_CONTROL_NONE : r->rank,
                      .starts = r->starts});
}

static void each(void *ctx, as_control_row_fn *fn, void *arg)
{
    const struct as_orders *o = ctx;

    if (!o->app->n)
        return;
    fn(arg, &(struct as_control_row){
                .kind = AS_CONTROL_APPLICATION,
                .application = AS_STR(AS_ORDERS_APPLICATION),
                .status = as_str_of(as_application_status_name(as_crew_status(o->crew)))});
    as_crew_each(o->crew, tell, &(struct each){fn, arg});
}

static bool put_entry(void *arg, const struct as_store_entry *e)
{
    struct as_buf *json = arg;

    as_json_put_open(json, '{');
    as_json_put_at_u64(json, "generation", e->generation);
    as_json_put_key(json, "time_ms");
    as_json_put_i64(json, e->time_ms);
    as_json_put_at_string(json, "cause", e->cause);
    as_json_put_close(json, '}');
    return true;
}

static int history(struct as_orders *o, struct as_buf *json, struct as_buf *err)
{
    int rc = 0;

    as_json_put_open(json, '{');
    as_json_put_key(json, "generations");
    as_json_put_open(json, '[');
    if (o->store)
        rc = as_store_each(o->store, put_entry, json, err);
    as_json_put_close(json, ']');
    as_json_put_close(json, '}');
    return rc;
}

static int check_application(const struct as_control_request *q, struct as_buf *err)
{
    if (!q->application.n || as_str_eq(q->application, AS_STR(AS_ORDERS_APPLICATION)))
        return 0;
    as_buf_printf(err, "there is no application '%.*s'", AS_STR_FMT(q->application));
    return AS_ENOTFOUND;
}

static int handle(void *ctx, const struct as_control_request *q, struct as_buf *ret_json,
                  struct as_buf *ret_err)
{
    struct as_orders *o = ctx;
    int rc = check_application(q, ret_err);

    if (rc < 0)
        return rc;
    switch (q->verb) {
    case AS_CONTROL_SHOW:
        show(o, ret_json);
        return 0;
    case AS_CONTROL_HISTORY:
        return history(o, ret_json, ret_err);
    case AS_CONTROL_SCALE:
        rc = scale(o, q, ret_err);
        break;
    case AS_CONTROL_RESTART:
        rc = as_crew_restart(o->crew, q->deployment, ret_err);
        break;
    case AS_CONTROL_ROLLBACK:
        rc = as_crew_rollback(o->crew, q->deployment, ret_err);
        break;
    default:
        as_buf_str(ret_err, "this server serves what it was started with (anyserve run); deploying "
                            "to a running server is not there yet");
        return AS_EUNIMPLEMENTED;
    }
    if (rc == 0)
        as_buf_str(ret_json, "{}");
    return rc;
}

/* --- its life --- */

/* What was asked for before: the numbers of replicas are all that can be asked for yet. */
static int resume(struct as_orders *o, struct as_buf *err)
{
    struct as_spec_object *app;
    struct as_spec *s;
    int rc = open_store(o, err);

    if (rc == 0)
        rc = current(o, &s, err);
    if (rc < 0)
        return rc;
    app = application_of(s);
    for (uint32_t i = 0; app && i < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS); i++) {
        struct as_spec_object *d = as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i);

        as_crew_scale(o->crew, as_str_of(as_spec_str(d, AS_SPEC_DEPLOYMENT_NAME)),
                      (uint32_t)as_spec_i64(d, AS_SPEC_DEPLOYMENT_NUM_REPLICAS), err);
    }
    as_spec_free(s);
    return 0;
}

void as_orders_open(struct as_orders *o, const struct as_option_set *opts, const struct as_app *app,
                    struct as_crew *crew, const struct as_log *log)
{
    char file[AS_RUNTIME_PATH_MAX], text[512];
    struct as_buf err;

    *o = (struct as_orders){.crew = crew, .opts = opts, .app = app, .log = log};
    o->api = (struct as_control){.handle = handle, .each = each, .ctx = o};
    /* shorter than the link socket's path, which was made already */
    AS_ASSERT(as_runtime_path(file, as_option_str(opts, AS_OPT_RUNTIME_DIR),
                              (uint16_t)as_option_u64(opts, AS_OPT_PORT), AS_STORE_FILE) == 0);
    o->folder = as_str_dup((struct as_str){file, strlen(file) - strlen("/" AS_STORE_FILE)});
    if (access(file, F_OK) < 0)
        return;
    as_buf_init(&err);
    if (resume(o, &err) < 0)
        as_log_event(log, AS_LOG_ERROR, "state_lost",
                     "reason=%s action=\"what was changed since the start is not known any more\"",
                     as_log_quote(text, sizeof(text), as_buf_slice(&err)));
    as_buf_fini(&err);
}

void as_orders_close(struct as_orders *o)
{
    as_store_close(o->store);
    free(o->folder);
}
