/* /metrics in the Prometheus text format: base units, _total for counters, bounded label values. */
#include "base/counter.h"
#include "base/err.h"
#include "base/memory/live.h"
#include "base/memory/pages.h"
#include "edge/admin/metrics_internal.h"
#include "edge/rest/rest.h"

/* A counter of as_edge_stat, of all edges. */
#define SUM(b, field) as_status_page_sum(b, offsetof(struct as_edge_stat, field))

void as_metrics_header(struct as_buf *o, const char *name, const char *type, const char *help)
{
    as_buf_printf(o, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void as_metrics_put(struct as_buf *o, const char *name, const char *type, const char *help,
                    uint64_t v)
{
    as_metrics_header(o, name, type, help);
    as_buf_printf(o, "%s %lu\n", name, v);
}

void as_metrics_put_by(struct as_buf *o, const char *name, const char *label, const char *value,
                       uint64_t v)
{
    as_buf_printf(o, "%s{%s=\"%s\"} %lu\n", name, label, value, v);
}

void as_metrics_put_ids(struct as_buf *o, struct as_str deployment, struct as_str replica)
{
    as_buf_str(o, "application=");
    as_buf_json(o, as_id_application(deployment));
    as_buf_str(o, ",deployment=");
    as_buf_json(o, as_id_name(deployment));
    if (!replica.n)
        return;
    as_buf_str(o, ",replica=");
    as_buf_json(o, as_id_name(replica));
}

struct metric {
    struct as_buf *out;
    const char *name;
    size_t offset; /* of a counter or histogram in as_stat */
    uint32_t (*gauge)(const struct as_deployment *d);
};

static void put_series(struct as_buf *o, const char *name, struct as_str deployment, uint64_t v)
{
    as_buf_printf(o, "%s{", name);
    as_metrics_put_ids(o, deployment, AS_STR(""));
    as_buf_printf(o, "} %lu\n", v);
}

static void put_counter(void *arg, struct as_deployment *d, bool down AS_UNUSED)
{
    const struct metric *e = arg;
    const char *stat = (const char *)as_deployment_stat(d);

    put_series(e->out, e->name, as_deployment_name(d),
               *(const uint64_t *)(const void *)(stat + e->offset));
}

static void put_gauge(void *arg, struct as_deployment *d, bool down AS_UNUSED)
{
    const struct metric *e = arg;

    put_series(e->out, e->name, as_deployment_name(d), e->gauge(d));
}

/* Labels are without their braces. */
static void put_bucket(struct as_buf *o, const char *name, struct as_str labels, const char *le,
                       uint64_t n)
{
    as_buf_printf(o, "%s_bucket{%.*s,le=\"%s\"} %lu\n", name, AS_STR_FMT(labels), le, n);
}

static void put_hist(struct as_buf *o, const char *name, struct as_str labels,
                     const struct as_hist *h)
{
    uint64_t sum = 0;
    char le[32];

    for (uint32_t i = 0; i < AS_HIST_BUCKETS - 1; i++) {
        sum += h->bucket[i];
        snprintf(le, sizeof(le), "%.6f", (double)(1ull << i) / 1e6);
        put_bucket(o, name, labels, le, sum);
    }
    put_bucket(o, name, labels, "+Inf", h->count);
    as_buf_printf(o, "%s_sum{%.*s} %.9f\n%s_count{%.*s} %lu\n", name, AS_STR_FMT(labels),
                  (double)h->sum / 1e9, name, AS_STR_FMT(labels), h->count);
}

/* A histogram of sizes: bucket i counts those up to 2^i. */
static void put_sizes(struct as_buf *o, const char *name, struct as_str labels,
                      const uint64_t buckets[AS_STAT_BATCH_BUCKETS], uint64_t count, uint64_t items)
{
    uint64_t sum = 0;
    char le[32];

    for (uint32_t i = 0; i < AS_STAT_BATCH_BUCKETS; i++) {
        sum += buckets[i];
        snprintf(le, sizeof(le), "%u", 1u << i);
        put_bucket(o, name, labels, le, sum);
    }
    put_bucket(o, name, labels, "+Inf", count);
    as_buf_printf(o, "%s_sum{%.*s} %lu\n%s_count{%.*s} %lu\n", name, AS_STR_FMT(labels), items,
                  name, AS_STR_FMT(labels), count);
}

static void add_label(struct as_buf *b, const char *key, struct as_str value)
{
    as_buf_printf(b, "%s%s=", b->n ? "," : "", key);
    as_buf_json(b, value);
}

/* A histogram has thirty series. Empty ones are left out, so that a thousand unused models do not
 * fill a monitoring system. Counters and gauges of deployments are always written, for dashboards
 * and alerts. */
static void put_deployment_hist(void *arg, struct as_deployment *d, bool down AS_UNUSED)
{
    const struct metric *e = arg;
    const struct as_hist *h =
        (const struct as_hist *)(const void *)((const char *)as_deployment_stat(d) + e->offset);
    struct as_buf labels = {0};

    if (!h->count)
        return;
    as_metrics_put_ids(&labels, as_deployment_name(d), AS_STR(""));
    put_hist(e->out, e->name, as_buf_slice(&labels), h);
    as_buf_fini(&labels);
}

/* as_stat counts an item as AS_US. Only for deployments that have sent batches. */
static void put_batch_sizes(void *arg, struct as_deployment *d, bool down AS_UNUSED)
{
    const struct as_hist *h = &as_deployment_stat(d)->batch;
    const struct metric *e = arg;
    struct as_buf labels = {0};

    if (!h->count)
        return;
    as_metrics_put_ids(&labels, as_deployment_name(d), AS_STR(""));
    put_sizes(e->out, e->name, as_buf_slice(&labels), h->bucket, h->count, h->sum / AS_US);
    as_buf_fini(&labels);
}

/* --- of each model --- */

static void model_labels(struct as_buf *labels, const struct as_fleet_model_row *m)
{
    add_label(labels, "model", m->name);
    add_label(labels, "version", m->version);
    as_buf_str(labels, ",");
    as_metrics_put_ids(labels, m->deployment, AS_STR(""));
}

static void put_model_queue(void *arg, const struct as_fleet_model_row *m)
{
    const struct metric *e = arg;
    struct as_buf labels = {0};

    if (!m->stat->queue.count)
        return;
    model_labels(&labels, m);
    put_hist(e->out, e->name, as_buf_slice(&labels), &m->stat->queue);
    as_buf_fini(&labels);
}

static void put_model_sizes(void *arg, const struct as_fleet_model_row *m)
{
    const struct metric *e = arg;
    uint64_t buckets[AS_STAT_BATCH_BUCKETS] = {0}, items = 0;
    struct as_buf labels = {0};

    if (!m->stat->executions)
        return;
    for (uint32_t i = 0; i < m->stat->n_calls; i++) {
        uint64_t n = m->stat->calls[i].n;

        /* size i + 1 is in (2^(k-1), 2^k] exactly when i has k bits */
        buckets[i ? 32 - (uint32_t)__builtin_clz(i) : 0] += n;
        items += n * (i + 1);
    }
    model_labels(&labels, m);
    put_sizes(e->out, e->name, as_buf_slice(&labels), buckets, m->stat->executions, items);
    as_buf_fini(&labels);
}

static void put_models(struct as_status_page *b, struct as_buf *o)
{
    static const char queue[] = "anyserve_model_queue_duration_seconds";
    static const char sizes[] = "anyserve_model_batch_size";

    as_metrics_header(o, queue, "histogram",
                      "Arrival to dispatch, of requests that were answered.");
    as_fleet_each_model(b->fleet, put_model_queue, &(struct metric){.out = o, .name = queue});
    as_metrics_header(o, sizes, "histogram", "Items of one call of the handler that was answered.");
    as_fleet_each_model(b->fleet, put_model_sizes, &(struct metric){.out = o, .name = sizes});
}

/* --- of each deployment --- */

static const struct {
    const char *name, *help;
    size_t offset;
} counters[] = {
    {"anyserve_deployment_accepted_total",
     "Requests that were not refused for a full queue or for want of workers.",
     offsetof(struct as_stat, accepted)},
    {"anyserve_rejected_requests_total", "Requests refused because the queue was full.",
     offsetof(struct as_stat, refused)},
    {"anyserve_dispatched_total", "Requests sent to a replica, replays included.",
     offsetof(struct as_stat, dispatched)},
    {"anyserve_completed_total", "Answers of replicas that were delivered.",
     offsetof(struct as_stat, completed)},
    {"anyserve_failed_total", "Requests that ended without a replica's answer.",
     offsetof(struct as_stat, failed)},
    {"anyserve_expired_total", "Requests whose deadline passed.",
     offsetof(struct as_stat, expired)},
    {"anyserve_shed_total", "Requests that had waited too long under overload (codel_target_s).",
     offsetof(struct as_stat, shed)},
    {"anyserve_cancelled_total", "Requests whose client left.",
     offsetof(struct as_stat, cancelled)},
    {"anyserve_replayed_total", "Requests sent again to another replica.",
     offsetof(struct as_stat, replayed)},
    {"anyserve_recalled_total", "Prefetched requests that were recalled from a replica.",
     offsetof(struct as_stat, recalled)},
    {"anyserve_lost_total", "Requests that a dead replica may have executed.",
     offsetof(struct as_stat, lost)},
    {"anyserve_replica_deaths_total", "Replicas whose link ended.",
     offsetof(struct as_stat, deaths)},
    {"anyserve_replays_refused_total",
     "Lost requests that were not retried because of --retry-attempts, the retry budget or "
     "--suspect-wait.",
     offsetof(struct as_stat, replays_refused)},
    {"anyserve_blamed_total",
     "Requests that were executing when a replica crashed, hung or failed its health check.",
     offsetof(struct as_stat, blamed)},
    {"anyserve_trials_total", "Suspect requests that were executed alone on a replica.",
     offsetof(struct as_stat, trials)},
    {"anyserve_quarantined_total",
     "Requests refused because requests like them have ended replicas.",
     offsetof(struct as_stat, quarantined)},
    {"anyserve_handlers_hung_total",
     "Requests failed because their handler ran for longer than the execution timeout.",
     offsetof(struct as_stat, hung)},
    {"anyserve_health_checks_failed_total", "Health checks that failed or timed out.",
     offsetof(struct as_stat, sick)},
    {"anyserve_ejections_total", "Ejections of replicas that failed too often or were too slow.",
     offsetof(struct as_stat, ejected)},
    {"anyserve_fallbacks_total",
     "Requests that the deployment could not serve and another one got.",
     offsetof(struct as_stat, fallbacks)},
    {"anyserve_mirrored_total", "Copies of other versions' requests that it executed.",
     offsetof(struct as_stat, mirrored)},
    {"anyserve_mirror_dropped_total", "Copies dropped because no slot was free.",
     offsetof(struct as_stat, mirror_dropped)},
    {"anyserve_mirror_failed_total", "Copies that ended with an error.",
     offsetof(struct as_stat, mirror_failed)},
    {"anyserve_model_hits_total",
     "Requests for a multiplexed model sent to a replica that held it or was loading it.",
     offsetof(struct as_stat, model_hits)},
    {"anyserve_model_misses_total",
     "Requests for a multiplexed model sent to a replica that had to load it.",
     offsetof(struct as_stat, model_misses)},
    {"anyserve_router_late_total",
     "Requests for which the program's router did not answer in time.",
     offsetof(struct as_stat, router_late)},
    {"anyserve_router_fallbacks_total", "Requests for which the program's router had no choice.",
     offsetof(struct as_stat, router_fallbacks)},
};
static const struct {
    const char *name, *help;
    size_t offset;
} hists[] = {
    {"anyserve_queue_duration_seconds", "Arrival to dispatch.", offsetof(struct as_stat, queue)},
    {"anyserve_request_duration_seconds", "Arrival to the replica's answer.",
     offsetof(struct as_stat, total)},
    {"anyserve_service_duration_seconds", "Handler time as the replica measured it.",
     offsetof(struct as_stat, service)},
    {"anyserve_dispatch_duration_seconds",
     "Dispatch to the replica's answer, less the handler time: the way there and back, and the "
     "wait behind other requests of the replica.",
     offsetof(struct as_stat, link)},
};

static uint32_t count_waiting(const struct as_deployment *d)
{
    return as_deployment_queued(d) + as_deployment_prefetched(d);
}

static const struct {
    const char *name, *help;
    uint32_t (*of)(const struct as_deployment *d);
} gauges[] = {
    {"anyserve_queued_requests", "Requests that wait, prefetched ones included.", count_waiting},
    {"anyserve_preferring_requests",
     "Queued requests that wait for replicas with their model or session.",
     as_deployment_preferring},
    {"anyserve_ongoing_requests", "Requests that execute in slots.", as_deployment_ongoing},
    {"anyserve_beyond_requests",
     "Calls along a cycle of deployments that execute beyond the slots.", as_deployment_beyond},
    {"anyserve_suspect_requests", "Suspect requests that wait to be executed alone on a replica.",
     as_deployment_suspects},
    {"anyserve_parked_requests", "Requests that wait for the cause of their replica's death.",
     as_deployment_parked},
    {"anyserve_quarantined_fingerprints",
     "Fingerprints of requests that are refused because they have ended replicas.",
     as_deployment_poisons},
};

enum replicas { WANTED, READY, CONNECTED };

/* Also for deployments without a registered replica. */
static const struct {
    const char *name, *help;
} replicas[] = {
    [WANTED] = {"anyserve_replicas_wanted", "Target number of replicas."},
    [READY] = {"anyserve_replicas_ready", "Replicas that take requests."},
    [CONNECTED] = {"anyserve_replicas", "Replicas that are connected."},
};

static void put_replicas(void *arg, const struct as_status_page_deployment *d)
{
    const int64_t v[] = {[WANTED] = d->wanted, [READY] = d->ready, [CONNECTED] = d->connected};
    struct as_buf *series = arg; /* of each metric */

    for (size_t i = 0; i < AS_COUNT(v); i++) {
        if (v[i] != AS_STATUS_PAGE_UNKNOWN)
            put_series(&series[i], replicas[i].name, d->name, (uint64_t)v[i]);
    }
}

static void put_router(void *arg, struct as_deployment *d, bool down AS_UNUSED)
{
    struct as_buf *o = arg;

    as_buf_str(o, "anyserve_router_info{");
    as_metrics_put_ids(o, as_deployment_name(d), AS_STR(""));
    as_buf_printf(o, ",router=\"%s\"} 1\n", as_router_name(as_deployment_router(d)->policy));
}

static void put_deployments(struct as_status_page *b, struct as_buf *o)
{
    struct as_buf series[AS_COUNT(replicas)] = {0};

    for (size_t i = 0; i < AS_COUNT(counters); i++) {
        struct metric e = {.out = o, .name = counters[i].name, .offset = counters[i].offset};

        as_metrics_header(o, e.name, "counter", counters[i].help);
        as_fleet_each_deployment(b->fleet, put_counter, &e);
    }
    for (size_t i = 0; i < AS_COUNT(gauges); i++) {
        struct metric e = {.out = o, .name = gauges[i].name, .gauge = gauges[i].of};

        as_metrics_header(o, e.name, "gauge", gauges[i].help);
        as_fleet_each_deployment(b->fleet, put_gauge, &e);
    }
    as_metrics_hedges(b, o);
    as_metrics_header(o, "anyserve_router_info", "gauge", "1: how replicas are chosen.");
    as_fleet_each_deployment(b->fleet, put_router, o);
    as_status_page_each_deployment(b, put_replicas, series);
    for (size_t i = 0; i < AS_COUNT(replicas); i++) {
        as_metrics_header(o, replicas[i].name, "gauge", replicas[i].help);
        as_buf_add(o, series[i].p, series[i].n);
        as_buf_fini(&series[i]);
    }
    for (size_t i = 0; i < AS_COUNT(hists); i++) {
        struct metric e = {.out = o, .name = hists[i].name, .offset = hists[i].offset};

        as_metrics_header(o, e.name, "histogram", hists[i].help);
        as_fleet_each_deployment(b->fleet, put_deployment_hist, &e);
    }
    as_metrics_header(o, "anyserve_batch_size", "histogram",
                      "Items of one call of a model with batching.");
    as_fleet_each_deployment(b->fleet, put_batch_sizes,
                             &(struct metric){.out = o, .name = "anyserve_batch_size"});
}

static void put_exits(void *arg, struct as_str deployment, const uint64_t *counts)
{
    struct as_buf *o = arg;

    for (uint32_t why = 0; why < AS_FLEET_EXITS; why++) {
        as_buf_str(o, "anyserve_worker_exits_total{");
        as_metrics_put_ids(o, deployment, AS_STR(""));
        as_buf_printf(o, ",cause=\"%s\"} %lu\n", as_fleet_exit_name(why), counts[why]);
    }
}

static void put_all_exits(struct as_status_page *b, struct as_buf *o)
{
    as_metrics_header(
        o, "anyserve_worker_exits_total", "counter",
        "Worker processes that ended, by cause; all but \"stopped\" ones are replaced.");
    as_fleet_each_exits(b->fleet, put_exits, o);
}

static void put_services(void *arg, struct as_str deployment, const struct as_service_set *set)
{
    struct as_buf *o = arg;

    for (uint32_t i = 0; i < set->n; i++) {
        const struct as_service_method *m = &set->methods[i];

        for (uint32_t code = 0; code < AS_GRPC_CODES; code++) {
            uint64_t n = as_counts_read(m->counts, code);

            if (!n)
                continue;
            as_buf_str(o, "anyserve_requests_total{method=");
            as_buf_json(o, (struct as_str){m->path.p + 1, m->path.n - 1});
            as_buf_str(o, ",");
            as_metrics_put_ids(o, deployment, AS_STR(""));
            as_buf_printf(o, ",code=\"%s\"} %lu\n", as_grpc_status_name(code), n);
        }
    }
}

static void put_requests(struct as_status_page *b, struct as_buf *o)
{
    as_metrics_header(o, "anyserve_requests_total", "counter",
                      "Requests answered, by method and gRPC status.");
    for (uint32_t rpc = 0; rpc < AS_RPC_COUNT; rpc++) {
        for (uint32_t code = 0; code < AS_GRPC_CODES; code++) {
            uint64_t n = SUM(b, requests[rpc][code]);

            if (n)
                as_buf_printf(o, "anyserve_requests_total{method=\"%s\",code=\"%s\"} %lu\n",
                              as_grpc_methods[rpc].name, as_grpc_status_name(code), n);
        }
    }
    as_fleet_each_services(b->fleet, put_services, o);
}

static void put_route(struct as_buf *o, const struct as_route *r)
{
    for (uint32_t s = 0; s < AS_HTTP_STATUSES; s++) {
        uint64_t n = as_counts_read(r->counts, s);

        if (!n)
            continue;
        as_buf_printf(o, "anyserve_http_requests_total{resource=\"%s\",",
                      as_resource_name(AS_RESOURCE_APPLICATION));
        as_metrics_put_ids(o, r->deployment, AS_STR(""));
        as_buf_str(o, ",route=");
        as_buf_json(o, r->prefix);
        as_buf_printf(o, ",status=\"%u\"} %lu\n", as_counted_http_status(s), n);
    }
}

static void put_http_requests(struct as_status_page *b, struct as_buf *o)
{
    const struct as_routes *all = as_fleet_routes(b->fleet);

    as_metrics_header(o, "anyserve_http_requests_total", "counter",
                      "Plain HTTP requests answered, by resource and status; status 0: any other.");
    for (uint32_t r = 0; r < AS_RESOURCES; r++) {
        for (uint32_t s = 0; s < AS_HTTP_STATUSES; s++) {
            uint64_t n = SUM(b, http[r][s]);

            if (n)
                as_buf_printf(o,
                              "anyserve_http_requests_total{resource=\"%s\",status=\"%u\"} %lu\n",
                              as_resource_name((enum as_resource)r), as_counted_http_status(s), n);
        }
    }
    for (uint32_t i = 0; i < as_routes_count(all); i++)
        put_route(o, as_routes_at(all, i));
}

static void put_loops(struct as_status_page *b, struct as_buf *o)
{
    as_metrics_header(o, "anyserve_loop_wakes_total", "counter",
                      "Times that an event loop woke up.");
    for (uint32_t i = 0; i < b->n_loops; i++)
        as_buf_printf(o, "anyserve_loop_wakes_total{loop=\"%u\"} %lu\n", i,
                      as_counter_read(&as_edge_loop_stat(b->edges[i])->wakes));
    as_metrics_header(o, "anyserve_syscalls_total", "counter", "System calls for bytes, by kind.");
    for (uint32_t i = 0; i < b->n_loops; i++) {
        const struct as_loop_stat *s = as_edge_loop_stat(b->edges[i]);

        as_buf_printf(o,
                      "anyserve_syscalls_total{kind=\"read\",loop=\"%u\"} %lu\n"
                      "anyserve_syscalls_total{kind=\"write\",loop=\"%u\"} %lu\n",
                      i, as_counter_read(&s->reads), i, as_counter_read(&s->writes));
    }
}

/* Closed connections by reason, and stalled requests: for noticing hostile clients. */
static void put_closings(struct as_status_page *b, struct as_buf *o)
{
    static const char closed[] = "anyserve_connections_closed_total";
    static const char stalled[] = "anyserve_requests_stalled_total";

    as_metrics_header(o, closed, "counter", "Client connections ended, by reason.");
    for (uint32_t why = 0; why < AS_CLOSE_REASONS; why++) {
        const char *name = as_close_reason_name(why);

        if (name)
            as_metrics_put_by(o, closed, "reason", name, as_status_page_closed_for(b, why));
    }
    as_metrics_header(o, stalled, "counter", "Requests failed because their client was too slow.");
    as_metrics_put_by(o, stalled, "part", "request", SUM(b, slow_requests));
    as_metrics_put_by(o, stalled, "part", "answer", SUM(b, slow_answers));
}

static void put_budgets(const struct as_status_page *b, struct as_buf *o)
{
    static const char refusals[] = "anyserve_budget_refusals_total";
    const struct as_budget *requests = &b->budgets->requests, *answers = &b->budgets->answers;

    as_metrics_put(o, "anyserve_inflight_bytes", "gauge",
                   "Request bytes held, of --max-inflight-bytes.", as_budget_used(requests));
    as_metrics_put(o, "anyserve_answer_bytes", "gauge", "Answer bytes held, of --max-answer-bytes.",
                   as_budget_used(answers));
    as_metrics_header(o, refusals, "counter",
                      "Times that there was no room for bytes of a request, or of an answer.");
    as_metrics_put_by(o, refusals, "of", "requests", atomic_load(&requests->refusals));
    as_metrics_put_by(o, refusals, "of", "answers", atomic_load(&answers->refusals));
}

static void put_server(struct as_status_page *b, as_ns now, struct as_buf *o)
{
    as_metrics_header(o, "anyserve_build_info", "gauge", "The running version.");
    as_buf_str(o, "anyserve_build_info{version=\"" AS_VERSION "\"} 1\n");
    as_metrics_header(o, "anyserve_uptime_seconds", "gauge", "Since the dispatcher started.");
    as_buf_printf(o, "anyserve_uptime_seconds %.3f\n", (double)(now - b->started) / 1e9);
    as_metrics_put(o, "anyserve_connections", "gauge", "Client connections that are open.",
                   as_status_page_connections(b));
    as_metrics_put(o, "anyserve_connections_refused_total", "counter",
                   "Connections over the limit.", SUM(b, refused));
    as_metrics_put(o, "anyserve_received_bytes_total", "counter", "Bytes read from clients.",
                   SUM(b, bytes_in));
    as_metrics_put(o, "anyserve_sent_bytes_total", "counter", "Bytes written to clients.",
                   SUM(b, bytes_out));
    as_metrics_put(o, "anyserve_websockets", "gauge", "Websockets that are open.",
                   SUM(b, websockets));
    as_metrics_put(o, "anyserve_websocket_received_messages_total", "counter",
                   "Messages of websockets from clients.", SUM(b, ws_received));
    as_metrics_put(o, "anyserve_websocket_sent_messages_total", "counter",
                   "Messages of websockets to clients.", SUM(b, ws_sent));
    put_budgets(b, o);
    as_metrics_put(o, "anyserve_exchanges", "gauge",
                   "Requests in memory, also those whose client has gone.", SUM(b, exchanges));
    as_metrics_put(o, "anyserve_exchanges_pooled", "gauge",
                   "Freed requests whose memory is kept for reuse.", SUM(b, pooled));
    as_metrics_put(o, "anyserve_mirror_uncopied_total", "counter",
                   "Copies not made: over --max-inflight-bytes or --max-requests, or unfit inputs.",
                   SUM(b, mirrors_skipped));
    as_metrics_put(o, "anyserve_live_bytes", "gauge",
                   "Bytes that blobs, arenas and output queues hold.", as_live_bytes());
    as_metrics_put(o, "anyserve_kept_bytes", "gauge",
                   "Bytes of freed memory for large tensors that are kept for reuse.",
                   as_pages_cached());
    as_metrics_put(o, "anyserve_unanswered_requests", "gauge", "Requests held by the dispatcher.",
                   as_fleet_unanswered(b->fleet));
    as_metrics_header(o, "anyserve_worker_restarts_total", "counter",
                      "Starts after the first, by replica.");
    AS_LIST_EACH(n, &b->processes)
    {
        struct as_status_page_process *p = AS_LIST_ENTRY(n, struct as_status_page_process, node);

        as_buf_str(o, "anyserve_worker_restarts_total{");
        as_metrics_put_ids(o, as_str_of(p->deployment), as_str_of(p->replica));
        as_buf_printf(o, "} %u\n", p->restarts);
    }
}

void as_status_page_metrics(struct as_status_page *b, as_ns now, struct as_buf *out)
{
    put_server(b, now, out);
    put_closings(b, out);
    as_metrics_tls(b, out);
    put_requests(b, out);
    put_http_requests(b, out);
    put_deployments(b, out);
    put_all_exits(b, out);
    put_models(b, out);
    put_loops(b, out);
    as_metrics_workers(b, out);
    as_metrics_reports(b, out);
}
