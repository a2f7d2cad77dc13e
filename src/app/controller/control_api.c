#include "app/controller/control_api.h"

#include "app/controller/initial_state.h"
#include "base/utf8.h"
#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/keys/spec_capacity.h"
#include "conf/spec/spec_row.h"
#include "io/process/runtime.h"
#include "wire/json/json.h"

#include <inttypes.h>
#include <unistd.h>

#define REASON_MAX 640u /* bytes of a reason that a cause contains */
static_assert(sizeof("update of / failed, back to generation 18446744073709551615: ") +
                      2ul * AS_SPEC_NAME_MAX + REASON_MAX <=
                  AS_STORE_CAUSE_MAX,
              "the cause of a failed update fits into the store, whatever its names");

/* --- changes --- */

/* Stores the change, then gives it to the reconciler. An error of this machine is also logged for
 * its operator, who may not be the one that gets the answer. */
static int store_change(struct as_control_api *o, const struct as_desired_state_change *what,
                        const struct as_buf *text, struct as_buf *err)
{
    bool first = !o->desired.store; /* the generation before is stored together with this one */
    uint64_t before = o->desired.generation;
    struct as_spec *s;
    int rc;

    o->sweep_needed = true;
    as_control_api_record_healthy(o, before);
    rc = as_desired_state_add(&o->desired, what, as_buf_slice(text), err);

    if (rc == 0 && first)
        as_control_api_record_healthy(o, before);
    if (rc == 0)
        rc = as_desired_state_load(&o->desired, 0, &s, err);
    if (rc == 0) {
        as_reconciler_set_target(o->reconciler, o->desired.generation, s);
        as_control_api_declare(o);
    } else if (rc != AS_ETOOBIG) { /* an error of the request, which is only answered */
        as_control_api_log_not_stored(o, what->cause, err);
    }
    return rc;
}

static int refuse_autoscaled(const struct as_control_api *o, struct as_str id, struct as_buf *err)
{
    struct as_spec_walk w;

    if (!as_spec_find_deployment(o->desired.spec->file, id, &w) ||
        !as_spec_autoscale(w.deployment, NULL))
        return 0;
    as_buf_printf(err,
                  "the number of replicas of '%.*s' follows its load; change min_replicas and "
                  "max_replicas of its autoscaling_config",
                  AS_STR_FMT(as_id_name(id)));
    return AS_EINVALID;
}

/* The number is stored beside the text, which stays the same. */
static int scale_deployment(struct as_control_api *o, const struct as_control_request *q,
                            struct as_str id, struct as_buf *err)
{
    struct as_desired_state_change what = {.deployment = id, .replicas = q->replicas};
    struct as_buf cause = {0}, text = {0};
    bool reset = q->replicas == AS_CONTROL_NONE;
    int rc;

    if (reset) {
        what.replicas = AS_DESIRED_STATE_UNSCALED;
        as_buf_printf(&cause, "scale %.*s to what its file says", AS_STR_FMT(q->deployment));
    } else {
        as_buf_printf(&cause, "scale %.*s to %u", AS_STR_FMT(q->deployment), q->replicas);
    }
    what.cause = as_buf_slice(&cause);
    rc = refuse_autoscaled(o, id, err);
    if (rc == 0)
        rc = as_desired_state_write_same(&o->desired, q->application, q->deployment, &text, err);
    if (rc == 0 &&
        (!reset || as_desired_state_scale_of(&o->desired, 0, id) != AS_DESIRED_STATE_UNSCALED))
        rc = store_change(o, &what, &text, err);
    as_buf_fini(&cause);
    as_buf_fini(&text);
    return rc;
}

/* A rollback by request: the number of replicas stays as it is, whether from the file or `scale`.
 */
static int rollback_deployment(struct as_control_api *o, const struct as_control_request *q,
                               struct as_str id, struct as_buf *err)
{
    uint64_t generation, left = o->desired.generation;
    struct as_buf cause = {0}, text = {0};
    struct as_declared models = {0};
    int rc = as_reconciler_rollback_target(o->reconciler, id, &generation, err);

    if (rc < 0)
        return rc;
    as_buf_printf(&cause, "rollback %.*s to generation %" PRIu64, AS_STR_FMT(q->deployment),
                  generation);
    rc = as_desired_state_write_rollback(&o->desired, q->application, q->deployment, generation,
                                         false, &text, err);
    if (rc == 0)
        rc = as_desired_state_models_with(&o->desired, generation, q->application, &models, err);
    if (rc == 0)
        rc = store_change(
            o, &(struct as_desired_state_change){.cause = as_buf_slice(&cause), .models = &models},
            &text, err);
    if (rc == 0)
        as_control_api_record_outcome(o, left, id, "healthy", "rolled back", AS_STR(""));
    as_declared_fini(&models);
    as_buf_fini(&cause);
    as_buf_fini(&text);
    return rc;
}

/* --- deployment files --- */

int as_control_api_deploy_text(struct as_control_api *o, struct as_str cause,
                               const struct as_buf *text, const struct as_declared *models,
                               bool dry, bool again, struct as_buf *json, struct as_buf *err)
{
    struct as_spec *to;
    struct as_buf changes = {0};
    int rc = as_spec_parse(&to, &as_desired_state_limits, AS_STORE_FILE, as_buf_slice(text), err);

    if (rc < 0)
        return rc;
    as_json_put_open(&changes, '{');
    again = as_deploy_job_write_changes(o->desired.spec, to, &changes) || again ||
            !as_spec_same_capacity(o->desired.spec, to); /* also if no deployment heeds it */
    as_spec_free(to);
    if (!dry && again)
        rc = store_change(o, &(struct as_desired_state_change){.cause = cause, .models = models},
                          text, err);
    if (!dry)
        as_json_put_member_u64(&changes, "generation", o->desired.generation);
    as_json_put_close(&changes, '}');
    as_buf_add(json, changes.p, changes.n);
    as_buf_fini(&changes);
    return rc;
}

static void send_answer(struct as_control_call *k, int err, struct as_buf *json, struct as_buf *why)
{
    as_control_answer(k, err, err ? why : json);
    as_buf_fini(json);
    as_buf_fini(why);
}

void as_control_api_answer_change(struct as_control_api *o, struct as_control_call *k, int err,
                                  struct as_buf *json, struct as_buf *why)
{
    if (err)
        as_control_answer(k, err, why);
    else
        as_confirm_answer(&o->confirm, k, json);
    as_buf_fini(json);
    as_buf_fini(why);
}

static void on_read(void *ctx, int err, struct as_spec *s, struct as_str why)
{
    struct as_control_api *o = ctx;
    struct as_control_call *k = o->pending_call;
    struct as_buf text = {0}, json = {0}, wrong = {0};
    struct as_declared models = {0};

    o->pending_call = NULL;
    o->sweep_needed = true;
    as_buf_add(&wrong, why.p, why.n);
    if (s) {
        as_spec_set_direction(s, o->desired.spec);
        as_desired_state_write(s, &text);
    }
    as_spec_free(s);
    as_deploy_job_copy_models(&o->cache, NULL, &models);
    if (err == 0)
        err = as_control_api_check_generation(o, AS_STR(""), o->expected, &wrong);
    if (err == 0)
        err = as_control_api_deploy_text(
            o, AS_STR("deploy"), &text, &models, o->is_dry_run,
            !o->is_dry_run && as_reconciler_clear_failures(o->reconciler, AS_STR("")), &json,
            &wrong);
    as_declared_fini(&models);
    as_buf_fini(&text);
    if (o->is_dry_run)
        send_answer(k, err, &json, &wrong);
    else
        as_control_api_answer_change(o, k, err, &json, &wrong);
    as_control_api_job_ended(o);
}

void as_control_api_job_ended(struct as_control_api *o)
{
    if (o->has_swept)
        as_control_api_sweep_code(o); /* nothing else would remove the copies of a refused file */
    as_control_api_put_next(o);
}

/* The client has closed the connection: the job is cancelled, and nothing changes. */
void as_control_api_on_gone(void *arg)
{
    struct as_control_api *o = arg;
    struct as_control_call *k = o->pending_call;

    as_deploy_job_stop(o->job);
    o->job = NULL;
    o->pending_call = NULL;
    o->sweep_needed = true;
    as_control_api_put_cancel(o);
    as_control_answer(k, AS_ECANCELLED, NULL);
    as_control_api_job_ended(o);
}

static void start_deploy(struct as_control_api *o, const struct as_control_request *q,
                         struct as_control_call *k)
{
    struct as_buf why = {0};

    if (o->job) {
        as_buf_str(&why, "another deployment file is being read; try again");
        as_control_answer(k, AS_EEXISTS, &why);
        as_buf_fini(&why);
        return;
    }
    o->pending_call = k;
    o->is_dry_run = q->verb == AS_CONTROL_PLAN;
    o->expected = q->generation;
    as_control_set_on_gone(k, as_control_api_on_gone, o);
    as_deploy_job_start(&o->job, &o->deploy_conf, &o->cache, NULL, q->text, on_read, o);
}

/* --- reading --- */

static void each_served(void *ctx, as_served_fn *fn, void *arg)
{
    as_reconciler_each(((struct as_control_api *)ctx)->reconciler, fn, arg);
}

/* --- the verbs --- */

/* The requests for which no code is read. */
static int handle_now(struct as_control_api *o, const struct as_control_request *q,
                      struct as_buf *json, struct as_buf *err)
{
    bool one = q->verb == AS_CONTROL_SCALE || q->verb == AS_CONTROL_RESTART ||
               q->verb == AS_CONTROL_ROLLBACK;
    struct as_id id;
    struct as_str deployment = as_id_make(&id, q->application, q->deployment);
    int rc = one ? as_reconciler_check_name(o->reconciler, q->application, q->deployment, err) : 0;

    if (rc < 0)
        return rc;
    switch (q->verb) {
    case AS_CONTROL_SHOW:
        as_control_api_write_status(o, json);
        return 0;
    case AS_CONTROL_CONFIG:
        as_spec_print(o->desired.spec, false, json);
        return 0;
    case AS_CONTROL_HISTORY:
        return as_control_api_write_history(o, json, err);
    case AS_CONTROL_DELETE:
        return as_control_api_delete(o, q, json, err);
    case AS_CONTROL_SCALE:
        rc = scale_deployment(o, q, deployment, err);
        break;
    case AS_CONTROL_RESTART:
        rc = as_reconciler_restart(o->reconciler, deployment, err);
        break;
    default:
        rc = rollback_deployment(o, q, deployment, err);
    }
    if (rc < 0)
        return rc;
    as_json_put_open(json, '{');
    if (q->verb != AS_CONTROL_RESTART) /* a restart makes no generation */
        as_json_put_member_u64(json, "generation", o->desired.generation);
    as_json_put_close(json, '}');
    return 0;
}

static void handle_request(void *ctx, const struct as_control_request *q, struct as_control_call *k)
{
    struct as_control_api *o = ctx;
    struct as_buf json = {0}, err = {0};
    int rc;

    if (q->verb == AS_CONTROL_DEPLOY || q->verb == AS_CONTROL_PLAN) {
        start_deploy(o, q, k);
        return;
    }
    if (q->verb == AS_CONTROL_DEPLOY_ONE || q->verb == AS_CONTROL_PLAN_ONE) {
        as_control_api_put_application(o, q, k);
        return;
    }
    rc = handle_now(o, q, &json, &err);
    if (q->verb == AS_CONTROL_DELETE || q->verb == AS_CONTROL_ROLLBACK)
        as_control_api_answer_change(o, k, rc, &json, &err);
    else
        send_answer(k, rc, &json, &err);
}

/* --- reports of the reconciler --- */

void as_control_api_log_not_stored(const struct as_control_api *o, struct as_str what,
                                   const struct as_buf *err)
{
    char text[512], quoted[256];

    as_log_event(o->log, AS_LOG_ERROR, "state_not_written", "what=%s reason=%s",
                 as_log_quote(quoted, sizeof(quoted), what),
                 as_log_quote(text, sizeof(text), as_buf_slice(err)));
}

int as_control_api_load(struct as_control_api *o, uint64_t generation, struct as_spec **ret_s)
{
    struct as_buf err = {0};
    char text[512];
    int rc;

    rc = as_desired_state_load(&o->desired, generation, ret_s, &err);
    if (rc < 0)
        as_log_event(o->log, AS_LOG_WARN, "generation_unknown", "generation=%" PRIu64 " reason=%s",
                     generation, as_log_quote(text, sizeof(text), as_buf_slice(&err)));
    as_buf_fini(&err);
    return rc;
}

int64_t as_control_api_find_scale(struct as_control_api *o, uint64_t generation,
                                  struct as_str deployment)
{
    return as_desired_state_scale_of(&o->desired, generation, deployment);
}

/* Without a store everything is generation 1, which the next controller knows anyway. */
void as_control_api_on_healthy(struct as_control_api *o, const struct as_reconciler_outcome *n)
{
    struct as_buf err = {0};

    if (!o->desired.store)
        return;
    o->sweep_needed = true;
    if (as_store_set_healthy(o->desired.store, n->application, as_id_name(n->deployment),
                             n->generation, n->before, &err) < 0)
        as_control_api_log_not_stored(o, AS_STR("the healthy generation"), &err);
    as_buf_fini(&err);
    as_control_api_record_outcome(o, n->generation, n->deployment, "failed", "healthy", AS_STR(""));
}

void as_control_api_on_rolled_back(struct as_control_api *o, const struct as_reconciler_outcome *n)
{
    struct as_str name = as_id_name(n->deployment);
    struct as_store_failure failed = {n->application, name, as_utf8_cut(n->why, AS_STORE_WHY_MAX)};
    /* keeps the present number of replicas: the old text has an old one, and `scale` may have set
     * another one since */
    struct as_desired_state_change what = {
        .failed = &failed,
        .deployment = n->deployment,
        .replicas = as_reconciler_replicas(o->reconciler, n->deployment)};
    struct as_buf cause = {0}, body = {0}, err = {0};
    struct as_declared models = {0};
    int rc;
    char text[512];

    as_log_event(o->log, AS_LOG_WARN, "update_failed",
                 "deployment=%.*s generation=%" PRIu64 " back_to=%" PRIu64 " reason=%s",
                 AS_STR_FMT(as_id_shown(n->deployment)), n->before, n->generation,
                 as_log_quote(text, sizeof(text), n->why));
    as_control_api_record_outcome(o, n->before, n->deployment, "healthy", "failed", failed.why);
    as_buf_printf(&cause, "update of %.*s/%.*s failed, back to generation %" PRIu64 ": %.*s",
                  AS_STR_FMT(n->application), AS_STR_FMT(name), n->generation,
                  AS_STR_FMT(as_utf8_cut(n->why, REASON_MAX)));
    what.cause = as_buf_slice(&cause);
    rc = as_desired_state_write_rollback(&o->desired, n->application, name, n->generation, true,
                                         &body, &err);
    if (rc == 0)
        rc =
            as_desired_state_models_with(&o->desired, n->generation, n->application, &models, &err);
    what.models = &models;
    if (rc < 0)
        as_control_api_log_not_stored(o, what.cause, &err);
    else
        store_change(o, &what, &body, &err);
    as_declared_fini(&models);
    as_buf_fini(&cause);
    as_buf_fini(&body);
    as_buf_fini(&err);
}

/* --- open and close --- */

/* Collects the updates that failed since the last change by a request, each as "ID\0WHY\0". */
static bool collect_failure(void *arg, const struct as_store_entry *e)
{
    const struct as_store_failure *f = &e->failed;
    struct as_buf *list = arg;

    if (!f->deployment.n)
        return false;
    as_buf_printf(list, "%.*s#%.*s", AS_STR_FMT(f->application), AS_STR_FMT(f->deployment));
    as_buf_add(list, "", 1);
    as_buf_printf(list, "%.*s", AS_STR_FMT(f->why));
    as_buf_add(list, "", 1);
    return true;
}

static struct as_str failure_of(const struct as_buf *list, const char *id)
{
    const char *p = (const char *)list->p, *end = p + list->n;

    while (p < end) {
        const char *why = p + strlen(p) + 1;

        if (strcmp(p, id) == 0)
            return as_str_of(why);
        p = why + strlen(why) + 1;
    }
    return AS_STR("");
}

static void restore_outcomes(struct as_control_api *o, const struct as_buf *failures)
{
    struct as_buf none = {0};

    for (struct as_spec_walk w = {0}; as_spec_next(o->desired.spec->file, &w);) {
        const char *app = as_spec_str(w.app, AS_SPEC_APPLICATION_NAME),
                   *name = as_spec_str(w.deployment, AS_SPEC_DEPLOYMENT_NAME);
        uint64_t stable = 0, before = 0;
        struct as_id id;

        as_store_healthy(o->desired.store, as_str_of(app), as_str_of(name), &stable, &before,
                         &none);
        as_spec_id(w.app, w.deployment, &id);
        as_reconciler_set_history(o->reconciler, id.s, stable, before,
                                  failure_of(failures, id.text));
    }
    as_buf_fini(&none);
}

/* Gives the reconciler the desired state and the stored outcomes. */
static int inform_reconciler(struct as_control_api *o, struct as_buf *err)
{
    struct as_buf failures = {0};
    struct as_spec *s;
    int rc = as_desired_state_load(&o->desired, 0, &s, err);

    if (rc < 0)
        return rc;
    as_reconciler_set_target(o->reconciler, o->desired.generation, s);
    as_control_api_declare(o);
    if (!o->desired.store)
        return 0;
    rc = as_store_each(o->desired.store, collect_failure, &failures, err);
    restore_outcomes(o, &failures);
    as_buf_fini(&failures);
    return rc;
}

static int open_desired(struct as_control_api *o, const struct as_option_set *opts,
                        const struct as_declared *app, struct as_buf *err)
{
    const char *folder = as_option_str(opts, AS_OPT_STATE_DIR);
    uint32_t keep = (uint32_t)as_option_u64(opts, AS_OPT_STATE_GENERATIONS);
    char file[AS_RUNTIME_PATH_MAX], text[512];
    struct as_buf begin = {0};
    int rc;

    if (folder[0]) {
        o->code_dir = as_deploy_job_set_code_folder(&o->deploy_conf, opts, folder);
        return as_desired_state_open(&o->desired, folder, keep, o->log, err);
    }
    rc = as_initial_state_write(opts, app, &begin, err);
    if (rc < 0) {
        as_buf_fini(&begin);
        return rc;
    }
    /* it fits: the path of the link socket, which exists, is longer */
    AS_ASSERT(as_runtime_path(file, as_option_str(opts, AS_OPT_RUNTIME_DIR),
                              (uint16_t)as_option_u64(opts, AS_OPT_PORT), AS_STORE_FILE) == 0);
    file[strlen(file) - strlen("/" AS_STORE_FILE)] = 0;
    o->code_dir = as_deploy_job_set_code_folder(&o->deploy_conf, opts, file);
    rc = as_desired_state_open_initial(&o->desired, file, keep, as_buf_slice(&begin), app, o->log,
                                       err);
    as_buf_fini(&begin);
    if (rc < 0 && o->desired.spec) {
        as_log_event(o->log, AS_LOG_ERROR, "state_lost",
                     "reason=%s action=\"what was changed since the start is not known any more\"",
                     as_log_quote(text, sizeof(text), as_buf_slice(err)));
        rc = 0;
    }
    return rc;
}

int as_control_api_redeclare(struct as_control_api *o, const struct as_option_set *opts,
                             const struct as_declared *app, struct as_buf *err)
{
    struct as_buf text = {0}, json = {0};
    struct as_declared models = {0};
    int rc;

    rc = as_initial_state_write(opts, app, &text, err);
    if (rc == 0) {
        as_declared_copy_models_of(&models, AS_STR(AS_INITIAL_STATE_APPLICATION), app);
        as_reconciler_clear_failures(o->reconciler, AS_STR(""));
        rc = as_control_api_deploy_text(o, AS_STR("reload"), &text, &models, false, true, &json,
                                        err);
        as_declared_fini(&models);
    }
    as_buf_fini(&text);
    as_buf_fini(&json);
    return rc;
}

int as_control_api_open(struct as_control_api *o, const struct as_option_set *opts,
                        const struct as_declared *app, struct as_reconciler *reconciler,
                        struct as_loop *loop, const struct as_log *log)
{
    char text[512];
    struct as_buf err = {0};
    int rc;

    *o = (struct as_control_api){
        .reconciler = reconciler, .log = log, .debugging = as_option_bool(opts, AS_OPT_DEBUG)};
    as_list_init(&o->puts);
    o->control = (struct as_control){.handle = handle_request,
                                     .each = each_served,
                                     .expect_pickle = as_control_api_expect_pickle,
                                     .store_pickle = as_control_api_store_pickle,
                                     .ctx = o};
    as_confirm_open(&o->confirm, reconciler, loop, as_option_ns(opts, AS_OPT_CONFIRM_TIMEOUT), log);
    o->max_uploads = (uint32_t)as_option_u64(opts, AS_OPT_MAX_UNUSED_PICKLES);
    o->deploy_conf =
        (struct as_deploy_job_conf){.loop = loop,
                                    .python = as_option_str(opts, AS_OPT_PYTHON),
                                    .timeout = as_option_ns(opts, AS_OPT_START_TIMEOUT)};
    as_spec_limits_from_options(&o->deploy_conf.limits, opts);
    rc = open_desired(o, opts, app, &err);
    as_code_sweeper_init(&o->sweeper, loop, o->deploy_conf.code, log);
    as_pickle_store_clean(o->deploy_conf.code);
    o->sweep_needed = true;
    if (rc == 0)
        rc = inform_reconciler(o, &err);
    if (rc < 0)
        as_log_event(log, AS_LOG_ERROR, "state_unreadable", "reason=%s",
                     as_log_quote(text, sizeof(text), as_buf_slice(&err)));
    as_buf_fini(&err);
    return rc;
}

void as_control_api_close(struct as_control_api *o)
{
    o->has_swept = false;
    as_control_api_put_close(o);
    if (o->pending_call)
        as_control_api_on_gone(o);
    as_confirm_close(&o->confirm);
    as_deploy_job_cache_fini(&o->cache);
    free(o->declared);
    as_pickle_store_names_fini(&o->uploads);
    as_code_sweeper_close(&o->sweeper);
    free(o->code_dir);
    as_desired_state_close(&o->desired);
}
