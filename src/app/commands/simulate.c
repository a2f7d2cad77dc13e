#include "app/commands/simulate.h"

#include "app/client/print.h"
#include "app/commands/simulate_plot.h"
#include "app/options/argument.h"
#include "app/options/conf.h"
#include "conf/option/exit_code.h"
#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/keys/spec_capacity.h"
#include "conf/spec/keys/spec_policy.h"
#include "conf/spec/keys/spec_router.h"
#include "link/fleet/router_settings.h"
#include "tool/simulate/simulation_report.h"

#define TEXT_ROWS 12u /* of the table over time */
#define JSON_ROWS 200u

struct job { /* what is simulated */
    struct as_option_set *opts;
    struct as_spec *spec;
    struct as_spec_walk of; /* the deployment */
    char *name;             /* of it, as people say it */
    struct as_simulation_conf conf;
    struct as_autoscale_config autoscale; /* with conf.autoscale */
    struct as_workload workload;
};

static int fail(int code, const char *fmt, ...) AS_PRINTF(2, 3);
static int fail(int code, const char *fmt, ...)
{
    va_list ap;

    fputs("anyserve simulate: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs("\n", stderr);
    return code;
}

static int code_of(int err)
{
    return err == AS_EINVALID    ? AS_EXIT_CODE_CONFIG
           : err == AS_ENOTFOUND ? AS_EXIT_CODE_NOT_FOUND
                                 : AS_EXIT_CODE_FAILED;
}

/* --- the deployment --- */

/* Is it called that, with or without its application? */
static bool is_called(const struct as_spec_walk *w, struct as_str name)
{
    struct as_str app = as_str_of(as_spec_str(w->app, AS_SPEC_APPLICATION_NAME)),
                  own = as_str_of(as_spec_str(w->deployment, AS_SPEC_DEPLOYMENT_NAME));

    if (as_str_eq(name, own))
        return true;
    return name.n == app.n + 1 + own.n && memcmp(name.p, app.p, app.n) == 0 &&
           name.p[app.n] == '/' && memcmp(name.p + app.n + 1, own.p, own.n) == 0;
}

/* How many deployments have that name ("": all), and the first one. */
static uint32_t find(const struct as_spec *spec, struct as_str name, struct as_spec_walk *ret_w)
{
    uint32_t n = 0;

    for (struct as_spec_walk w = {0}; as_spec_next(spec->file, &w);) {
        if ((!name.n || is_called(&w, name)) && n++ == 0)
            *ret_w = w;
    }
    return n;
}

static void put_names(const struct as_spec *spec, struct as_buf *b)
{
    const char *between = "";

    for (struct as_spec_walk w = {0}; as_spec_next(spec->file, &w); between = ", ")
        as_buf_printf(b, "%s%s/%s", between, as_spec_str(w.app, AS_SPEC_APPLICATION_NAME),
                      as_spec_str(w.deployment, AS_SPEC_DEPLOYMENT_NAME));
}

static int choose_deployment(struct job *j)
{
    const char *name = as_option_str(j->opts, AS_OPT_DEPLOYMENT), *file = j->spec->name;
    uint32_t n = find(j->spec, as_str_of(name), &j->of);
    struct as_buf names = {0};
    int code = AS_EXIT_CODE_OK;

    put_names(j->spec, &names);
    if (!names.n)
        code = fail(AS_EXIT_CODE_CONFIG,
                    "%s lists no deployment; `anyserve build` writes a file with those of the code",
                    file);
    else if (!n)
        code = fail(AS_EXIT_CODE_USAGE, "%s has no deployment '%s': it has %s", file, name,
                    as_buf_cstr(&names));
    else if (n > 1)
        code = fail(AS_EXIT_CODE_USAGE, "--deployment says which one of %s: it has %s", file,
                    as_buf_cstr(&names));
    as_buf_fini(&names);
    if (code == AS_EXIT_CODE_OK)
        j->name = as_str_format("%s/%s", as_spec_str(j->of.app, AS_SPEC_APPLICATION_NAME),
                                as_spec_str(j->of.deployment, AS_SPEC_DEPLOYMENT_NAME));
    return code;
}

/* Requests that one replica executes at once: by the option, else the file; else 1. */
static uint32_t slots_of(const struct job *j)
{
    uint64_t v = as_option_u64(j->opts, AS_OPT_MAX_ONGOING);

    if (v)
        return (uint32_t)v;
    if (!as_spec_is_set(j->of.deployment, AS_SPEC_DEPLOYMENT_MAX_ONGOING_REQUESTS))
        return 1;
    return (uint32_t)as_spec_i64(j->of.deployment, AS_SPEC_DEPLOYMENT_MAX_ONGOING_REQUESTS);
}

static struct as_simulation_order read_order(const struct as_spec_object *d)
{
    static const enum as_fair_cost costs[] = {AS_FAIR_COST_REQUEST, AS_FAIR_COST_ITEMS,
                                              AS_FAIR_COST_SAID}; /* as the key's words */

    return (struct as_simulation_order){
        .share = (uint32_t)as_spec_i64(d, AS_SPEC_DEPLOYMENT_PRIORITY_SHARE),
        .fair = as_spec_i64(d, AS_SPEC_DEPLOYMENT_FAIRNESS) != 0,
        .cost = costs[as_spec_i64(d, AS_SPEC_DEPLOYMENT_FAIRNESS_COST)],
        .codel = {as_spec_ns(d, AS_SPEC_DEPLOYMENT_CODEL_TARGET),
                  as_spec_ns(d, AS_SPEC_DEPLOYMENT_CODEL_INTERVAL)},
        .slow_start = as_spec_ns(d, AS_SPEC_DEPLOYMENT_SLOW_START),
        .adaptive = as_spec_value(d, AS_SPEC_DEPLOYMENT_ADAPTIVE)->i != 0,
        .hedging = {.quantile = (uint32_t)as_spec_value(d, AS_SPEC_DEPLOYMENT_HEDGE_QUANTILE)->i,
                    .budget = (uint32_t)as_spec_value(d, AS_SPEC_DEPLOYMENT_HEDGE_BUDGET)->i,
                    .samples = AS_HEDGING_SAMPLES,
                    .min_delay = as_spec_ns(d, AS_SPEC_DEPLOYMENT_HEDGE_MIN_DELAY)},
    };
}

/* The file's router, but for --router. One of the program's own cannot be simulated. */
static int read_router(struct job *j)
{
    const char *json = as_spec_str(j->of.deployment, AS_SPEC_DEPLOYMENT_REQUEST_ROUTER);
    bool replaced = j->opts->v[AS_OPT_ROUTER].given;
    struct as_frame_router router;
    struct as_buf why = {0};
    int code = AS_EXIT_CODE_OK;

    if (!json)
        return AS_EXIT_CODE_OK;
    if (as_spec_has_own_router(j->of.deployment)) {
        if (!replaced)
            code = fail(AS_EXIT_CODE_CONFIG,
                        "request_router_class of '%s' is code, which is not simulated; --router "
                        "chooses a policy in its place",
                        j->name);
    } else if (as_spec_read_router(json, &router, &why) < 0) {
        code = fail(AS_EXIT_CODE_CONFIG, "request_router_config: %s", as_buf_cstr(&why));
    } else {
        if (replaced)
            router.policy[0] = 0; /* its arguments stay */
        as_router_settings_apply(&router, &j->conf.deployment.router);
    }
    as_buf_fini(&why);
    return code;
}

static int read_conf(struct job *j)
{
    const struct as_option_set *o = j->opts;
    const struct as_spec_object *d = j->of.deployment;
    struct as_capacity part = as_spec_capacity(j->spec->file, j->of.app, d);
    bool autoscales = false;
    const char *wrong;
    uint64_t replicas = as_option_u64(o, AS_OPT_REPLICAS);
    as_ns timeout = as_spec_ns(d, AS_SPEC_DEPLOYMENT_REQUEST_TIMEOUT);

    if (!replicas) {
        replicas = as_capacity_replicas(&part, as_spec_replicas(d));
        autoscales = as_spec_autoscale(d, &j->autoscale);
        if (autoscales)
            as_capacity_apply(&part, &j->autoscale);
    }
    j->conf = (struct as_simulation_conf){
        .name = j->name,
        .deployment = as_conf_fleet(o).deployment,
        .replicas = (uint32_t)replicas,
        .start_up = as_option_ns(o, AS_OPT_START_UP),
        .load_interval = as_option_ns(o, AS_OPT_LOAD_INTERVAL),
        .slots = slots_of(j),
        .prefetch = (uint32_t)as_option_u64(o, AS_OPT_MAX_PREFETCH),
        .order = read_order(d),
        .batching = {.max_size = (uint32_t)as_option_u64(o, AS_OPT_BATCH_SIZE)},
        .batch_cost = (double)as_option_u64(o, AS_OPT_BATCH_COST) / 100,
        .max_models = (uint32_t)as_option_u64(o, AS_OPT_MODELS_PER_REPLICA),
        .model_load = as_option_ns(o, AS_OPT_MODEL_LOAD),
        .link_latency = as_option_ns(o, AS_OPT_LINK_LATENCY),
        .request_timeout = timeout ? timeout : as_option_ns(o, AS_OPT_REQUEST_TIMEOUT),
        .max_requests = (uint32_t)as_option_u64(o, AS_OPT_MAX_OPEN_REQUESTS),
    };
    if (autoscales)
        j->conf.autoscale = &j->autoscale;
    if (autoscales && (as_spec_has_own_scaling(d) || as_spec_scales_together(j->of.app)))
        fail(0, "the autoscaling policy is code, which is not simulated; %s decides in its place",
             j->autoscale.target_latency_ms >= 0 ? "target_latency_ms" : "target_ongoing_requests");
    if (j->conf.batching.max_size)
        j->conf.batching.max_wait = as_option_ns(o, AS_OPT_BATCH_WAIT);
    wrong = as_batch_check(&j->conf.batching);
    if (wrong)
        return fail(AS_EXIT_CODE_USAGE, "--batch-size: %s", wrong);
    j->conf.deployment.seed = as_option_u64(o, AS_OPT_SEED);
    if (as_spec_is_set(d, AS_SPEC_DEPLOYMENT_MAX_QUEUED_REQUESTS) &&
        !o->v[AS_OPT_MAX_QUEUED_REQUESTS].given)
        j->conf.deployment.max_queued = as_spec_i64(d, AS_SPEC_DEPLOYMENT_MAX_QUEUED_REQUESTS);
    return read_router(j);
}

static int load_spec(struct job *j)
{
    struct as_buf err = {0};
    int rc = as_argument_check_file("simulate", j->opts->args[0]);

    if (rc != AS_EXIT_CODE_OK)
        return rc;
    rc = as_argument_load_file(j->opts, &j->spec, &err);
    if (rc != AS_EXIT_CODE_OK)
        return as_print_plain_error(&err, rc);
    as_buf_fini(&err);
    rc = choose_deployment(j);
    return rc == AS_EXIT_CODE_OK ? read_conf(j) : rc;
}

/* --- the requests --- */

static enum as_workload_owner owner_of(void *ctx, struct as_str deployment)
{
    const struct job *j = ctx;
    struct as_spec_walk other;

    if (is_called(&j->of, deployment))
        return AS_WORKLOAD_OURS;
    return find(j->spec, deployment, &other) ? AS_WORKLOAD_OTHERS : AS_WORKLOAD_NOBODYS;
}

/* Reads a pattern of the command line. */
static int read_patterns(struct job *j, const char *arrivals, const char *service)
{
    struct as_buf err = {0};
    enum as_option_id id = AS_OPT_ARRIVAL_PATTERN;
    int rc = 0;

    if (arrivals[0])
        rc = as_arrival_pattern_parse(&j->workload.arrivals, as_str_of(arrivals), &err);
    if (rc == 0 && service[0]) {
        id = AS_OPT_SERVICE;
        j->workload.has_service = true;
        rc = as_service_pattern_parse(&j->workload.service, as_str_of(service), &err);
    }
    if (rc < 0)
        fail(0, "--%s: %s", as_option_key(id), as_buf_cstr(&err));
    as_buf_fini(&err);
    return rc < 0 ? AS_EXIT_CODE_USAGE : AS_EXIT_CODE_OK;
}

/* When the load ends: by --duration; else steps and traces end by themselves, and --requests ends
 * the others. */
static as_ns end_of_load(const struct job *j, bool has_trace)
{
    const struct as_arrival_pattern *p = &j->workload.arrivals;

    if (j->opts->v[AS_OPT_SIMULATED_TIME].given)
        return as_option_ns(j->opts, AS_OPT_SIMULATED_TIME);
    if (!has_trace && p->kind == AS_ARRIVAL_STEPS)
        return p->steps[p->n_steps - 1].end;
    return has_trace || j->workload.requests != UINT64_MAX
               ? AS_NEVER
               : as_option_ns(j->opts, AS_OPT_SIMULATED_TIME);
}

static int check_load(const struct job *j, const char *trace, const char *arrivals,
                      const char *service)
{
    if (!trace[0] == !arrivals[0])
        return fail(AS_EXIT_CODE_USAGE, "one of --trace and --arrivals must be given");
    if (arrivals[0] && !service[0])
        return fail(AS_EXIT_CODE_USAGE, "--arrivals needs --service");
    if (strcmp(trace, "-") == 0 && strcmp(j->opts->args[0], "-") == 0)
        return fail(AS_EXIT_CODE_USAGE, "the file and the trace cannot both be stdin");
    return AS_EXIT_CODE_OK;
}

static int open_workload(struct job *j)
{
    const char *trace = as_option_str(j->opts, AS_OPT_TRACE),
               *arrivals = as_option_str(j->opts, AS_OPT_ARRIVAL_PATTERN),
               *service = as_option_str(j->opts, AS_OPT_SERVICE);
    uint64_t requests = as_option_u64(j->opts, AS_OPT_SIMULATED_REQUESTS);
    struct as_buf err = {0};
    int rc = check_load(j, trace, arrivals, service);

    if (rc == AS_EXIT_CODE_OK)
        rc = read_patterns(j, arrivals, service);
    if (rc != AS_EXIT_CODE_OK)
        return rc;
    j->workload.requests = requests ? requests : UINT64_MAX;
    j->workload.duration = end_of_load(j, trace[0]);
    j->workload.seed = as_option_u64(j->opts, AS_OPT_SEED);
    j->workload.owner = owner_of;
    j->workload.ctx = j;
    /* what follows the load goes on until its end, so that one sees the replicas stop */
    if (j->conf.autoscale && j->workload.duration != AS_NEVER)
        j->conf.horizon = j->workload.duration;
    if (!trace[0])
        return AS_EXIT_CODE_OK;
    rc = as_trace_file_open(&j->workload.trace, trace, &err);
    return rc < 0 ? as_print_error(&err, code_of(rc)) : AS_EXIT_CODE_OK;
}

/* --- the result --- */

static int print_result(const struct job *j, const struct as_simulation_result *result)
{
    const char *plot = as_option_str(j->opts, AS_OPT_PLOT);
    uint32_t rows = (uint32_t)as_option_u64(j->opts, AS_OPT_ROWS);
    struct as_simulation_report report = {.conf = &j->conf,
                                          .result = result,
                                          .router =
                                              as_router_name(j->conf.deployment.router.policy),
                                          .skipped = j->workload.skipped,
                                          .rows = rows ? rows : JSON_ROWS};
    struct as_buf text = {0};
    int code = AS_EXIT_CODE_OK;

    as_simulation_report_json(&report, &text);
    if (plot[0])
        code =
            as_simulate_plot_draw(as_option_str(j->opts, AS_OPT_PYTHON), plot, as_buf_slice(&text));
    if (code == AS_EXIT_CODE_OK && !as_option_bool(j->opts, AS_OPT_JSON)) {
        text.n = 0;
        report.rows = rows ? rows : TEXT_ROWS;
        as_simulation_report_text(&report, &text);
    } else if (code == AS_EXIT_CODE_OK) {
        as_buf_str(&text, "\n");
    }
    if (code == AS_EXIT_CODE_OK)
        return as_print_result(&text);
    as_buf_fini(&text);
    return code;
}

static int run(struct job *j)
{
    struct as_simulation_result *result = as_xalloc(sizeof(*result));
    struct as_buf err = {0};
    int rc = as_simulation_run(&j->conf, &j->workload, result, &err);
    int code = rc < 0 ? as_print_error(&err, code_of(rc)) : print_result(j, result);

    as_simulation_result_fini(result);
    free(result);
    return code;
}

int as_simulate_main(struct as_option_set *opts)
{
    const char *plot = as_option_str(opts, AS_OPT_PLOT);
    struct job j = {.opts = opts};
    int code;

    if (plot[0] && !as_simulate_plot_can_draw(plot))
        return fail(AS_EXIT_CODE_USAGE, "--plot: '%s' ends neither in .svg nor in .png", plot);
    code = load_spec(&j);
    if (code == AS_EXIT_CODE_OK)
        code = open_workload(&j);
    if (code == AS_EXIT_CODE_OK)
        code = run(&j);
    as_trace_file_close(j.workload.trace);
    as_spec_free(j.spec);
    free(j.name);
    return code;
}
