#include "conf/spec/spec_plan.h"

#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/keys/spec_policy.h"
#include "conf/spec/keys/spec_router.h"
#include "conf/spec/spec_diff.h"
#include "conf/spec/spec_internal.h"
#include "wire/frame/frame.h"
#include "wire/json/json.h"

void as_spec_plan_target(struct as_plan_target *ret_t, const struct as_spec_object *app,
                         const struct as_spec_object *deployment,
                         const struct as_plan_policy *server, uint64_t generation)
{
    struct as_plan_policy p = *server;
    int64_t percent = as_spec_thousandths(deployment, AS_SPEC_DEPLOYMENT_ROLLING_UPDATE) / 10;

    if (as_spec_is_set(deployment, AS_SPEC_DEPLOYMENT_MAX_RESTARTS)) {
        int64_t restarts = as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_MAX_RESTARTS);

        /* the plan counts failures, with the first one; 0 means "never give up" */
        p.restart.give_up = restarts < 0 ? 0 : (uint32_t)restarts + 1;
    }
    if (as_spec_is_set(deployment, AS_SPEC_DEPLOYMENT_MAX_CONSTRUCTOR_RETRIES))
        p.restart.give_up =
            (uint32_t)as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_MAX_CONSTRUCTOR_RETRIES);
    p.drain_timeout = as_spec_ns(deployment, AS_SPEC_DEPLOYMENT_SHUTDOWN_TIMEOUT);
    if (as_spec_ns(deployment, AS_SPEC_DEPLOYMENT_SHUTDOWN_WAIT))
        p.drain_interval = as_spec_ns(deployment, AS_SPEC_DEPLOYMENT_SHUTDOWN_WAIT);
    p.roll_percent = (uint32_t)AS_MAX(percent, (int64_t)1);
    p.has_surge = as_spec_is_set(deployment, AS_SPEC_DEPLOYMENT_MAX_SURGE);
    p.surge.n = as_spec_amount(deployment, AS_SPEC_DEPLOYMENT_MAX_SURGE, &p.surge.percent);
    if (as_spec_is_set(deployment, AS_SPEC_DEPLOYMENT_MAX_SURGE_PERCENT) &&
        as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_MAX_SURGE_PERCENT) > 0) {
        p.has_surge = true;
        p.surge.percent = true;
        p.surge.n = (uint32_t)as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_MAX_SURGE_PERCENT);
    }
    p.unavailable.n =
        as_spec_amount(deployment, AS_SPEC_DEPLOYMENT_MAX_UNAVAILABLE, &p.unavailable.percent);
    *ret_t = (struct as_plan_target){
        .generation = generation,
        .version = as_spec_hash(app, deployment, AS_SPEC_RESTART),
        .config = as_spec_hash(app, deployment, AS_SPEC_RECONFIGURE),
        .replicas = as_spec_replicas(deployment),
        .policy = p,
    };
}

static void put_json(const struct as_spec_object *o, enum as_spec_key key, struct as_buf *out)
{
    if (!as_spec_is_set(o, key))
        return;
    as_json_put_key(out, as_spec_rows[key].key);
    as_buf_str(out, as_spec_str(o, key)); /* JSON already */
}

/* A policy process is told what it is to run: what its deployment has, or, if it runs the
 * application's autoscaling policy, that one as if it was its deployment's. None is said, too: what
 * the code declares is not asked where a file has fixed the number. */
static void put_policies(const struct as_spec_object *app, const struct as_spec_object *deployment,
                         struct as_buf *out)
{
    struct as_str name = as_str_of(as_spec_str(deployment, AS_SPEC_DEPLOYMENT_NAME));
    const struct as_spec_object *base =
        as_spec_is_policy(name)
            ? as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS, as_id_policy_base(name))
            : NULL;

    if (!base)
        return;
    put_json(base, AS_SPEC_DEPLOYMENT_REQUEST_ROUTER, out);
    if (as_spec_runs_scaling(app, base) && !as_spec_scales_together(app)) {
        put_json(base, AS_SPEC_DEPLOYMENT_AUTOSCALING, out);
        return;
    }
    as_json_put_member_open(out, as_spec_rows[AS_SPEC_DEPLOYMENT_AUTOSCALING].key, '{');
    if (as_spec_runs_scaling(app, base)) {
        as_json_put_key(out, "policy");
        as_buf_str(out, as_spec_str(app, AS_SPEC_APPLICATION_AUTOSCALING_POLICY));
    }
    as_json_put_close(out, '}');
}

/* app: NULL: of a replica that runs. */
static void put_options(const struct as_spec_object *app, const struct as_spec_object *deployment,
                        struct as_buf *out)
{
    uint32_t first = as_spec_first_key(deployment->level),
             width = as_spec_key_count(deployment->level);

    as_json_put_member_open(out, "options", '{');
    for (uint32_t i = 0; i < width; i++) {
        const struct as_spec_row *row = &as_spec_rows[first + i];
        const struct as_spec_value *v = &deployment->v[i];

        if (row->cls != AS_SPEC_RECONFIGURE || v->from == AS_SPEC_FROM_DEFAULT ||
            first + i == AS_SPEC_DEPLOYMENT_USER_CONFIG)
            continue;
        as_json_put_key(out, row->key);
        if (row->type == AS_SPEC_OBJECT)
            as_spec_json(v->objects[0], false, out);
        else
            as_spec_put_value(row, v, out);
    }
    if (app)
        put_policies(app, deployment, out);
    as_json_put_close(out, '}');
}

/* Not among the options, since it is only for the start. */
static void put_warmup(const struct as_spec_object *deployment, struct as_buf *out)
{
    const struct as_spec_value *v = as_spec_value(deployment, AS_SPEC_DEPLOYMENT_WARMUP);

    if (v->from == AS_SPEC_FROM_DEFAULT)
        return;
    as_json_put_member_open(out, "warmup_requests", '[');
    for (uint32_t i = 0; i < v->n; i++)
        as_spec_json(v->objects[i], false, out);
    as_json_put_close(out, ']');
}

static void put_ranks(const struct as_replica_slot_facts *facts, struct as_buf *out)
{
    as_json_put_member_u64(out, "rank", facts->rank);
    as_json_put_member_u64(out, "world_size", facts->world);
    as_json_put_member_u64(out, "local_rank", facts->rank); /* there is one machine */
    as_json_put_member_u64(out, "node_rank", 0);
}

void as_spec_put_context(const struct as_spec_object *app, const struct as_spec_object *deployment,
                         const char *replica, const struct as_replica_slot_facts *facts,
                         struct as_buf *out)
{
    const char *version = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_VERSION),
               *config = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_USER_CONFIG);

    as_json_put_open(out, '{');
    as_json_put_member_text(out, "replica", replica);
    as_json_put_member_string(out, "deployment",
                              as_str_of(as_spec_str(deployment, AS_SPEC_DEPLOYMENT_NAME)));
    as_json_put_member_string(out, "application",
                              as_str_of(as_spec_str(app, AS_SPEC_APPLICATION_NAME)));
    if (version)
        as_json_put_member_text(out, "version", version);
    put_ranks(facts, out);
    if (config) {
        as_json_put_key(out, "user_config");
        as_buf_str(out, config); /* JSON already */
    }
    put_options(app, deployment, out);
    put_warmup(deployment, out);
    as_json_put_close(out, '}');
}

static bool is_given(const struct as_spec_object *o, enum as_spec_key key)
{
    return as_spec_value(o, key)->from != AS_SPEC_FROM_DEFAULT;
}

static void set_option(struct as_frame_options *o, enum as_frame_option key, uint64_t value)
{
    o->has |= 1u << key;
    o->value[key] = value;
}

static void set_backpressure(const struct as_spec_object *deployment, struct as_frame_options *o)
{
    const char *json = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_BACKPRESSURE);
    struct as_spec_backpressure b = {0};

    if (!json)
        return;
    (void)as_spec_read_backpressure(json, &b); /* it was checked */
    if (b.status)
        set_option(o, AS_FRAME_OPT_BACKPRESSURE_STATUS, b.status);
    if (b.has_retry)
        set_option(o, AS_FRAME_OPT_BACKPRESSURE_RETRY, b.retry);
}

static void set_given_time(const struct as_spec_object *deployment, enum as_spec_key key,
                           struct as_frame_options *o, enum as_frame_option option)
{
    if (is_given(deployment, key))
        set_option(o, option, as_spec_ns(deployment, key));
}

/* The order of requests, and what protects from overload. */
static void set_order(const struct as_spec_object *deployment, struct as_frame_options *o)
{
    static_assert(AS_FRAME_FAIR_REQUESTS == 1 && AS_FRAME_FAIR_COST == 3,
                  "as the words of the row");
    if (is_given(deployment, AS_SPEC_DEPLOYMENT_PRIORITY_SHARE))
        set_option(o, AS_FRAME_OPT_PRIORITY_SHARE,
                   (uint64_t)as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_PRIORITY_SHARE));
    if (as_spec_value(deployment, AS_SPEC_DEPLOYMENT_FAIRNESS)->i)
        set_option(o, AS_FRAME_OPT_FAIRNESS,
                   1 + (uint64_t)as_spec_value(deployment, AS_SPEC_DEPLOYMENT_FAIRNESS_COST)->i);
    set_given_time(deployment, AS_SPEC_DEPLOYMENT_CODEL_TARGET, o, AS_FRAME_OPT_CODEL_TARGET);
    set_given_time(deployment, AS_SPEC_DEPLOYMENT_CODEL_INTERVAL, o, AS_FRAME_OPT_CODEL_INTERVAL);
    set_given_time(deployment, AS_SPEC_DEPLOYMENT_SLOW_START, o, AS_FRAME_OPT_SLOW_START);
    if (as_spec_value(deployment, AS_SPEC_DEPLOYMENT_ADAPTIVE)->i)
        set_option(o, AS_FRAME_OPT_ADAPTIVE, 1);
    if (is_given(deployment, AS_SPEC_DEPLOYMENT_HEDGE_QUANTILE))
        set_option(o, AS_FRAME_OPT_HEDGE_QUANTILE,
                   (uint64_t)as_spec_value(deployment, AS_SPEC_DEPLOYMENT_HEDGE_QUANTILE)->i);
    if (is_given(deployment, AS_SPEC_DEPLOYMENT_HEDGE_BUDGET))
        set_option(o, AS_FRAME_OPT_HEDGE_BUDGET,
                   (uint64_t)as_spec_value(deployment, AS_SPEC_DEPLOYMENT_HEDGE_BUDGET)->i);
    set_given_time(deployment, AS_SPEC_DEPLOYMENT_HEDGE_MIN_DELAY, o, AS_FRAME_OPT_HEDGE_MIN_DELAY);
}

/* Also when nothing is set, so that a former declaration does not stay. */
static void put_router(const struct as_spec_object *deployment, struct as_outq *q)
{
    const char *json = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_REQUEST_ROUTER);
    struct as_frame_router router;
    struct as_buf why = {0};

    memset(&router, 0, sizeof(router));
    if (json)
        (void)as_spec_read_router(json, &router, &why); /* it was checked */
    as_buf_fini(&why);
    as_frame_put_router(q, &router);
}

/* As python/anyserve/runtime/options.py sends them. */
void as_spec_put_settings(const struct as_spec_object *deployment, bool debugging,
                          struct as_buf *frames)
{
    const char *fallback = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_FALLBACK);
    bool canary = is_given(deployment, AS_SPEC_DEPLOYMENT_CANARY);
    struct as_frame_options o = {0};
    struct as_frame_traffic t = {.fallback = as_str_of(fallback ? fallback : "")};
    struct as_outq q;

    static_assert(AS_FRAME_SHARE == 100 * 1000, "thousandths of a percent");
    if (is_given(deployment, AS_SPEC_DEPLOYMENT_REQUEST_TIMEOUT) && !debugging)
        set_option(&o, AS_FRAME_OPT_REQUEST_TIMEOUT,
                   as_spec_ns(deployment, AS_SPEC_DEPLOYMENT_REQUEST_TIMEOUT));
    if (is_given(deployment, AS_SPEC_DEPLOYMENT_IDEMPOTENT))
        set_option(&o, AS_FRAME_OPT_IDEMPOTENT,
                   as_spec_value(deployment, AS_SPEC_DEPLOYMENT_IDEMPOTENT)->i != 0);
    if (is_given(deployment, AS_SPEC_DEPLOYMENT_MAX_QUEUED_REQUESTS)) /* -1 is _QUEUED_ANY */
        set_option(&o, AS_FRAME_OPT_MAX_QUEUED,
                   (uint64_t)as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_MAX_QUEUED_REQUESTS));
    if (is_given(deployment, AS_SPEC_DEPLOYMENT_MAX_QUEUED_PER_CALLER) &&
        as_spec_value(deployment, AS_SPEC_DEPLOYMENT_MAX_QUEUED_PER_CALLER)->i)
        set_option(&o, AS_FRAME_OPT_PER_CALLER, 1);
    set_backpressure(deployment, &o);
    set_order(deployment, &o);
    if (canary) {
        t.flags = AS_FRAME_CANARY;
        t.canary = (uint32_t)as_spec_thousandths(deployment, AS_SPEC_DEPLOYMENT_CANARY);
    }
    if (is_given(deployment, AS_SPEC_DEPLOYMENT_MIRROR))
        t.mirror = (uint32_t)as_spec_thousandths(deployment, AS_SPEC_DEPLOYMENT_MIRROR);
    as_outq_init(&q);
    as_frame_put_options(&q, &o);
    as_frame_put_traffic(&q, &t);
    put_router(deployment, &q);
    as_outq_peek(&q, frames);
    as_outq_fini(&q);
}

void as_spec_put_changes(const struct as_spec_object *deployment,
                         const struct as_replica_slot_facts *facts, bool user_config,
                         struct as_buf *out)
{
    const char *config = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_USER_CONFIG);

    as_json_put_open(out, '{');
    put_ranks(facts, out);
    if (user_config) {
        as_json_put_key(out, "user_config");
        as_buf_str(out, config ? config : "null");
    }
    put_options(NULL, deployment, out);
    as_json_put_close(out, '}');
}
