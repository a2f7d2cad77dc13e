#include "tool/simulate/simulation_report.h"

#include "wire/json/json.h"

static const struct {
    const char *name;
    double share;
} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}};

static const char *const priorities[AS_PRIORITIES] = {"priority 1", "priority 2", "priority 3"};

static double seconds(as_ns ns)
{
    return (double)ns / (double)AS_SEC;
}

static double per_second(uint64_t n, as_ns ns)
{
    return ns ? (double)n / seconds(ns) : 0;
}

static double part(double of, double whole)
{
    return whole > 0 ? of / whole : 0;
}

static bool has_priorities(const struct as_simulation_result *r)
{
    return r->of_priority[1].hist.n != r->answered;
}

/* --- text --- */

static void put_head(const struct as_simulation_report *p, struct as_buf *b)
{
    const struct as_simulation_conf *c = p->conf;
    const struct as_simulation_result *r = p->result;
    struct as_timeline_cell all = as_timeline_sum(&r->timeline, 0, AS_TIMELINE_CELLS);

    as_buf_printf(b, "%s: %u replica%s", c->name, c->replicas, c->replicas == 1 ? "" : "s");
    if (c->autoscale)
        as_buf_printf(b, " at first, %.0f to %.0f", c->autoscale->min_replicas,
                      c->autoscale->max_replicas);
    as_buf_printf(b, " × %u at once, ", c->slots);
    if (c->deployment.max_queued < 0)
        as_buf_str(b, "no limit of queued requests");
    else
        as_buf_printf(b, "max_queued_requests %lld", (long long)c->deployment.max_queued);
    as_buf_printf(b, ", router %s\n", p->router);
    as_buf_printf(b,
                  "%llu requests in %.3f s: %llu answered (%.2f/s), %llu failed; "
                  "%.1f%% of the slots were in use\n",
                  (unsigned long long)r->requests, seconds(r->end), (unsigned long long)r->answered,
                  per_second(r->answered, r->end), (unsigned long long)as_simulation_failures(r),
                  100 * part(all.running, all.slots));
    for (int e = 1; e < (int)AS_ERR_ROWS; e++) {
        if (r->failed[e])
            as_buf_printf(b, "  %llu × %s\n", (unsigned long long)r->failed[e], as_err_text(-e));
    }
    if (r->batches)
        as_buf_printf(b, "%llu batches of %.2f requests on average\n",
                      (unsigned long long)r->batches, part((double)r->batched, (double)r->batches));
    if (c->autoscale)
        as_buf_printf(b, "%llu replicas were started, %llu stopped\n",
                      (unsigned long long)r->started, (unsigned long long)r->stopped);
    if (c->max_models)
        as_buf_printf(b, "%llu models were loaded; %.1f%% of the requests found theirs\n",
                      (unsigned long long)r->model_loads,
                      100 * part((double)r->model_hits, (double)(r->model_hits + r->model_loads)));
    if (r->hedges)
        as_buf_printf(b,
                      "%llu requests went to a second replica, too (hedge_quantile), which was "
                      "faster for %llu\n",
                      (unsigned long long)r->hedges, (unsigned long long)r->hedges_won);
    if (r->ejected)
        as_buf_printf(b,
                      "%llu times a replica was ejected, since it looked slow (--outlier-factor)\n",
                      (unsigned long long)r->ejected);
    if (p->skipped)
        as_buf_printf(b, "%llu rows of the trace are for other deployments\n",
                      (unsigned long long)p->skipped);
}

static void put_latency(const char *name, const struct as_simulation_latency *l, struct as_buf *b)
{
    as_buf_printf(b, "  %-12s %11.3f", name, as_simulation_mean(l) / 1e6);
    for (size_t i = 0; i < AS_COUNT(quantiles); i++)
        as_buf_printf(b, " %11.3f",
                      (double)as_loghist_quantile(&l->hist, quantiles[i].share) / 1e6);
    as_buf_printf(b, " %11.3f\n", (double)l->hist.max / 1e6);
}

static void put_latencies(const struct as_simulation_result *r, struct as_buf *b)
{
    as_buf_printf(b, "\nmilliseconds          mean");
    for (size_t i = 0; i < AS_COUNT(quantiles); i++)
        as_buf_printf(b, " %11s", quantiles[i].name);
    as_buf_printf(b, " %11s\n", "max");
    put_latency("queue", &r->queue, b);
    put_latency("service", &r->service, b);
    put_latency("total", &r->total, b);
    for (uint32_t i = 0; i < AS_PRIORITIES && has_priorities(r); i++) {
        if (r->of_priority[i].hist.n)
            put_latency(priorities[i], &r->of_priority[i], b);
    }
}

static void put_rows(const struct as_simulation_report *p, struct as_buf *b)
{
    const struct as_timeline *t = &p->result->timeline;
    uint32_t group = as_timeline_group(t, p->rows);

    as_buf_str(b, "\n    from (s)   arrived/s  answered/s      failed      queued      at most"
                  "    replicas   in use\n");
    for (uint32_t i = 0; i < t->n; i += group) {
        struct as_timeline_cell c = as_timeline_sum(t, i, group);
        double ns = (double)c.covered;

        as_buf_printf(b, "%12.3f %11.2f %11.2f %11llu %11.2f %12u %11.2f %7.1f%%\n",
                      seconds(i * t->interval), per_second(c.arrived, c.covered),
                      per_second(c.answered, c.covered), (unsigned long long)c.failed,
                      part(c.queued, ns), c.most_queued, part(c.replicas, ns),
                      100 * part(c.running, c.slots));
    }
}

void as_simulation_report_text(const struct as_simulation_report *p, struct as_buf *b)
{
    put_head(p, b);
    if (p->result->answered)
        put_latencies(p->result, b);
    put_rows(p, b);
}

/* --- JSON --- */

static void put_number(struct as_buf *b, const char *key, double v)
{
    as_json_put_key(b, key);
    as_json_put_f64(b, v);
}

static void put_ms(struct as_buf *b, const char *key, const struct as_simulation_latency *l)
{
    as_json_put_member_open(b, key, '{');
    as_json_put_member_u64(b, "count", l->hist.n);
    put_number(b, "mean_ms", as_simulation_mean(l) / 1e6);
    for (size_t i = 0; i < AS_COUNT(quantiles); i++) {
        char name[16];

        snprintf(name, sizeof(name), "%s_ms", quantiles[i].name);
        put_number(b, name, (double)as_loghist_quantile(&l->hist, quantiles[i].share) / 1e6);
    }
    put_number(b, "max_ms", (double)l->hist.max / 1e6);
    as_json_put_close(b, '}');
}

static void put_conf(const struct as_simulation_report *p, struct as_buf *b)
{
    const struct as_simulation_conf *c = p->conf;

    as_json_put_member_text(b, "deployment", c->name);
    as_json_put_member_u64(b, "num_replicas", c->replicas);
    if (c->autoscale) {
        put_number(b, "min_replicas", c->autoscale->min_replicas);
        put_number(b, "max_replicas", c->autoscale->max_replicas);
    }
    as_json_put_member_u64(b, "max_ongoing_requests", c->slots);
    as_json_put_member_i64(b, "max_queued_requests", c->deployment.max_queued);
    as_json_put_member_text(b, "router", p->router);
}

static void put_decisions(const struct as_simulation_result *r, struct as_buf *b)
{
    as_json_put_member_open(b, "decisions", '[');
    for (uint32_t i = 0; i < r->n_decisions; i++) {
        const struct as_simulation_decision *d = &r->decisions[i];

        as_json_put_open(b, '{');
        put_number(b, "at_s", seconds(d->at));
        as_json_put_member_u64(b, "from", d->from);
        as_json_put_member_u64(b, "to", d->to);
        as_json_put_member_text(b, "why", d->why);
        as_json_put_close(b, '}');
    }
    as_json_put_close(b, ']');
}

static void put_json_rows(const struct as_simulation_report *p, struct as_buf *b)
{
    const struct as_timeline *t = &p->result->timeline;
    uint32_t group = as_timeline_group(t, p->rows);

    put_number(b, "interval_s", seconds(group * t->interval));
    as_json_put_member_open(b, "over_time", '[');
    for (uint32_t i = 0; i < t->n; i += group) {
        struct as_timeline_cell c = as_timeline_sum(t, i, group);
        double ns = (double)c.covered;

        as_json_put_open(b, '{');
        put_number(b, "from_s", seconds(i * t->interval));
        put_number(b, "arrived_per_s", per_second(c.arrived, c.covered));
        put_number(b, "answered_per_s", per_second(c.answered, c.covered));
        as_json_put_member_u64(b, "failed", c.failed);
        put_number(b, "queued", part(c.queued, ns));
        as_json_put_member_u64(b, "most_queued", c.most_queued);
        put_number(b, "replicas", part(c.replicas, ns));
        put_number(b, "starting", part(c.starting, ns));
        put_number(b, "utilisation", part(c.running, c.slots));
        as_json_put_close(b, '}');
    }
    as_json_put_close(b, ']');
}

void as_simulation_report_json(const struct as_simulation_report *p, struct as_buf *b)
{
    const struct as_simulation_result *r = p->result;
    struct as_timeline_cell all = as_timeline_sum(&r->timeline, 0, AS_TIMELINE_CELLS);

    as_json_put_open(b, '{');
    put_conf(p, b);
    as_json_put_member_u64(b, "requests", r->requests);
    as_json_put_member_u64(b, "answered", r->answered);
    as_json_put_member_u64(b, "failed", as_simulation_failures(r));
    as_json_put_member_open(b, "errors", '{');
    for (int e = 1; e < (int)AS_ERR_ROWS; e++) {
        if (r->failed[e])
            as_json_put_member_u64(b, as_err_text(-e), r->failed[e]);
    }
    as_json_put_close(b, '}');
    put_number(b, "seconds", seconds(r->end));
    put_number(b, "answered_per_s", per_second(r->answered, r->end));
    put_number(b, "utilisation", part(all.running, all.slots));
    put_ms(b, "queue", &r->queue);
    put_ms(b, "service", &r->service);
    put_ms(b, "total", &r->total);
    as_json_put_member_open(b, "by_priority", '{');
    for (uint32_t i = 0; i < AS_PRIORITIES; i++) {
        char name[2] = {(char)('1' + i), 0};

        if (r->of_priority[i].hist.n)
            put_ms(b, name, &r->of_priority[i]);
    }
    as_json_put_close(b, '}');
    as_json_put_member_u64(b, "batches", r->batches);
    as_json_put_member_u64(b, "batched_requests", r->batched);
    as_json_put_member_u64(b, "replicas_started", r->started);
    as_json_put_member_u64(b, "replicas_stopped", r->stopped);
    as_json_put_member_u64(b, "model_hits", r->model_hits);
    as_json_put_member_u64(b, "model_loads", r->model_loads);
    as_json_put_member_u64(b, "ejected", r->ejected);
    as_json_put_member_u64(b, "hedges", r->hedges);
    as_json_put_member_u64(b, "hedges_won", r->hedges_won);
    as_json_put_member_u64(b, "other_rows", p->skipped);
    if (p->conf->autoscale)
        put_decisions(r, b);
    put_json_rows(p, b);
    as_json_put_close(b, '}');
}
