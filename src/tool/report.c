#include "tool/report.h"

#include "tool/json_scan.h"

/* Closer than this to the earlier value is the same: runs differ by as much without a reason. */
#define SAME 0.05
#define BAR  40 /* columns of the longest bar */

static const struct {
    const char *path;
    const char *name;
    double unit; /* of the JSON's number in what people read */
    const char *unit_name;
    bool more_is_better;
} rows[AS_REPORT_ROWS] = {
    [AS_REPORT_RATE] = {"per_second", "answers/s", 1, "", true},
    [AS_REPORT_MEAN] = {"latency_us.mean", "mean", 1e-3, " ms", false},
    [AS_REPORT_P50] = {"latency_us.p50", "p50", 1e-3, " ms", false},
    [AS_REPORT_P90] = {"latency_us.p90", "p90", 1e-3, " ms", false},
    [AS_REPORT_P99] = {"latency_us.p99", "p99", 1e-3, " ms", false},
    [AS_REPORT_P999] = {"latency_us.p999", "p99.9", 1e-3, " ms", false},
    [AS_REPORT_MAX] = {"latency_us.max", "max", 1e-3, " ms", false},
    [AS_REPORT_FAILED] = {"failed", "failed", 1, "", false},
};

static double value_of(const struct as_report *r, enum as_report_row row)
{
    static const double shares[AS_REPORT_ROWS] = {
        [AS_REPORT_P50] = .5, [AS_REPORT_P90] = .9, [AS_REPORT_P99] = .99, [AS_REPORT_P999] = .999};
    const struct as_tally *t = r->tally;

    switch (row) {
    case AS_REPORT_RATE:
        return r->seconds > 0 ? (double)t->in_window / r->seconds : 0;
    case AS_REPORT_MEAN:
        return as_tally_mean(t) / 1e3;
    case AS_REPORT_MAX:
        return (double)t->latency.max / 1e3;
    case AS_REPORT_FAILED:
        return (double)as_tally_failed(t);
    default:
        return (double)as_loghist_at(&t->latency, shares[row]) / 1e3;
    }
}

/* --- an earlier result --- */

static void on_number(void *ctx, const char *path, double v)
{
    struct as_report_past *past = ctx;

    for (size_t i = 0; i < AS_REPORT_ROWS; i++) {
        if (strcmp(path, rows[i].path) == 0) {
            past->v[i] = v;
            past->has[i] = true;
        }
    }
}

int as_report_read(struct as_str text, struct as_report_past *ret_past, struct as_buf *why)
{
    struct as_report_past past = {.v = {0}};
    size_t at;

    if (as_json_scan(text, on_number, &past, &at)) {
        as_buf_printf(why, "is no JSON (position %zu)", at + 1);
        return AS_EINVALID;
    }
    if (!past.has[AS_REPORT_RATE] || !past.has[AS_REPORT_P50]) {
        as_buf_str(why, "is no result of anyserve bench --json");
        return AS_EINVALID;
    }
    *ret_past = past;
    return 0;
}

/* "better", "worse" or "same"; the ratio only where there is one. */
static const char *verdict(enum as_report_row row, double before, double now, double *ret_ratio)
{
    double ratio = before > 0 ? now / before : now > 0 ? 2 : 1;

    *ret_ratio = before > 0 ? ratio : 0;
    if (ratio > 1 - SAME && ratio < 1 + SAME)
        return "same";
    return (ratio > 1) == rows[row].more_is_better ? "better" : "worse";
}

/* --- for people --- */

static void add_comparison(struct as_buf *b, const struct as_report *r,
                           const struct as_report_past *past)
{
    as_buf_printf(b, "\n  %-10s %14s %14s %8s\n", "compared", "before", "now", "ratio");
    for (int i = 0; i < AS_REPORT_ROWS; i++) {
        enum as_report_row row = (enum as_report_row)i;
        double now = value_of(r, row), ratio;
        const char *word;

        if (!past->has[i])
            continue;
        word = verdict(row, past->v[i], now, &ratio);
        as_buf_printf(b, "  %-10s %11.4g%-3s %11.4g%-3s ", rows[i].name, past->v[i] * rows[i].unit,
                      rows[i].unit_name, now * rows[i].unit, rows[i].unit_name);
        if (ratio > 0)
            as_buf_printf(b, "%8.3f  %s\n", ratio, word);
        else
            as_buf_printf(b, "%8s  %s\n", "", word);
    }
}

/* One line per power of two of microseconds that has samples. */
static void add_histogram(struct as_buf *b, const struct as_loghist *h)
{
    uint64_t count[64] = {0}, most = 1;
    uint32_t first = 64, last = 0;

    for (uint32_t i = 0; i < AS_COUNT(h->bucket); i++) {
        as_ns low = as_loghist_low(i);
        uint32_t row = low < AS_US ? 0 : 64 - (uint32_t)__builtin_clzll(low / AS_US);

        if (!h->bucket[i])
            continue;
        count[row] += h->bucket[i];
        most = AS_MAX(most, count[row]);
        first = AS_MIN(first, row);
        last = row;
    }
    as_buf_str(b, "\n  latency, ms\n");
    for (uint32_t i = first; i <= last && i < 64; i++) {
        as_buf_printf(b, "  < %9.3f %12llu  ", (double)((uint64_t)1 << i) / 1e3,
                      (unsigned long long)count[i]);
        for (uint64_t k = 0; k < (count[i] * BAR + most - 1) / most; k++)
            as_buf_str(b, "#");
        as_buf_str(b, "\n");
    }
}

static void add_errors(struct as_buf *b, const struct as_report *r)
{
    const struct as_tally *t = r->tally;

    if (as_tally_failed(t))
        as_buf_str(b, "\n  errors\n");
    for (uint32_t i = 1; i < AS_TALLY_STATUSES; i++) {
        if (t->status[i])
            as_buf_printf(b, "  %-20s %10llu  %s\n", as_grpc_status_name(i),
                          (unsigned long long)t->status[i], t->text[i]);
    }
    if (t->unanswered)
        as_buf_printf(b, "  %llu calls were never answered; they count with the time waited.\n",
                      (unsigned long long)t->unanswered);
    if (t->unsent)
        as_buf_printf(b,
                      "  %llu calls were due and never sent, because every stream was taken; they "
                      "count with the time waited.\n",
                      (unsigned long long)t->unsent);
    if (t->late)
        as_buf_printf(b, "  %llu calls were sent more than 1 ms late; that is in their latency.\n",
                      (unsigned long long)t->late);
    if (r->lost)
        as_buf_printf(b, "  %u of %u connections were lost: %s.\n", r->lost, r->connections,
                      r->why_lost);
    if (r->reopened)
        as_buf_printf(b, "  Connections ended %llu times and were opened again: %s.\n",
                      (unsigned long long)r->reopened, r->why_reopened);
    if (r->interrupted)
        as_buf_str(b, "  Interrupted: this is what was measured until then.\n");
}

void as_report_text(struct as_buf *b, const struct as_report *r, const struct as_report_past *past,
                    bool histogram)
{
    const struct as_tally *t = r->tally;

    as_buf_printf(b, "%.*s at %s over %s: ", AS_STR_FMT(r->model), r->address, r->protocol);
    if (r->rate)
        as_buf_printf(b, "%llu calls/s (%s), at most ", (unsigned long long)r->rate,
                      r->poisson ? "poisson" : "constant");
    as_buf_printf(b, "%u × %u in flight, %.2f s after %.2f s of warm-up, %zu bytes per request\n\n",
                  r->connections, r->streams, r->seconds, r->warmup, r->request_bytes);
    as_buf_printf(b, "  calls      %llu due, %llu ok, %llu failed, %llu unanswered, %llu unsent\n",
                  (unsigned long long)as_tally_due(t), (unsigned long long)t->status[0],
                  (unsigned long long)as_tally_failed(t), (unsigned long long)t->unanswered,
                  (unsigned long long)t->unsent);
    as_buf_printf(b, "  answers/s  %.1f\n  latency   ", value_of(r, AS_REPORT_RATE));
    for (int i = AS_REPORT_MEAN; i <= AS_REPORT_MAX; i++)
        as_buf_printf(b, " %s %.3f", rows[i].name, value_of(r, (enum as_report_row)i) / 1e3);
    as_buf_str(b, " ms\n");
    add_errors(b, r);
    if (histogram && t->latency.n)
        add_histogram(b, &t->latency);
    if (past)
        add_comparison(b, r, past);
}

/* --- JSON --- */

static void add_json_errors(struct as_buf *b, const struct as_tally *t)
{
    bool any = false;

    as_buf_str(b, ",\"errors\":{");
    for (uint32_t i = 1; i < AS_TALLY_STATUSES; i++) {
        if (!t->status[i])
            continue;
        as_buf_printf(b, "%s\"%s\":{\"count\":%llu,\"message\":", any ? "," : "",
                      as_grpc_status_name(i), (unsigned long long)t->status[i]);
        as_buf_json(b, as_str_of(t->text[i]));
        as_buf_str(b, "}");
        any = true;
    }
    as_buf_str(b, "}");
}

static void add_json_histogram(struct as_buf *b, const struct as_loghist *h)
{
    bool any = false;

    as_buf_str(b, ",\"histogram_us\":[");
    for (uint32_t i = 0; i < AS_COUNT(h->bucket); i++) {
        if (!h->bucket[i])
            continue;
        as_buf_printf(b, "%s[%.3f,%u]", any ? "," : "", (double)as_loghist_low(i) / 1e3,
                      h->bucket[i]);
        any = true;
    }
    as_buf_str(b, "]");
}

static void add_json_comparison(struct as_buf *b, const struct as_report *r,
                                const struct as_report_past *past)
{
    bool any = false;

    as_buf_str(b, ",\"compared\":{");
    for (int i = 0; i < AS_REPORT_ROWS; i++) {
        double now = value_of(r, (enum as_report_row)i), ratio;
        const char *word;

        if (!past->has[i])
            continue;
        word = verdict((enum as_report_row)i, past->v[i], now, &ratio);
        as_buf_printf(b, "%s\"%s\":{\"before\":%.3f,\"now\":%.3f,", any ? "," : "", rows[i].path,
                      past->v[i], now);
        if (ratio > 0)
            as_buf_printf(b, "\"ratio\":%.4f,", ratio);
        as_buf_printf(b, "\"verdict\":\"%s\"}", word);
        any = true;
    }
    as_buf_str(b, "}");
}

void as_report_json(struct as_buf *b, const struct as_report *r, const struct as_report_past *past)
{
    const struct as_tally *t = r->tally;

    as_buf_str(b, "{\"model\":");
    as_buf_json(b, r->model);
    as_buf_str(b, ",\"address\":");
    as_buf_json(b, as_str_of(r->address));
    as_buf_printf(b, ",\"protocol\":\"%s\"", r->protocol);
    as_buf_printf(b, ",\"mode\":\"%s\",\"connections\":%u,\"streams\":%u,\"rate\":%llu",
                  !r->rate     ? "closed"
                  : r->poisson ? "poisson"
                               : "constant",
                  r->connections, r->streams, (unsigned long long)r->rate);
    as_buf_printf(b, ",\"request_bytes\":%zu,\"seconds\":%.6f,\"warmup_seconds\":%.6f",
                  r->request_bytes, r->seconds, r->warmup);
    as_buf_printf(b,
                  ",\"due\":%llu,\"ok\":%llu,\"failed\":%llu,\"unanswered\":%llu,\"unsent\":%llu",
                  (unsigned long long)as_tally_due(t), (unsigned long long)t->status[0],
                  (unsigned long long)as_tally_failed(t), (unsigned long long)t->unanswered,
                  (unsigned long long)t->unsent);
    as_buf_printf(b,
                  ",\"late\":%llu,\"lost_connections\":%u,\"reopened_connections\":%llu,"
                  "\"interrupted\":%s",
                  (unsigned long long)t->late, r->lost, (unsigned long long)r->reopened,
                  r->interrupted ? "true" : "false");
    as_buf_printf(b, ",\"per_second\":%.3f,\"latency_us\":{\"min\":%.3f",
                  value_of(r, AS_REPORT_RATE), (double)t->min / 1e3);
    for (int i = AS_REPORT_MEAN; i <= AS_REPORT_MAX; i++)
        as_buf_printf(b, ",\"%s\":%.3f", strchr(rows[i].path, '.') + 1,
                      value_of(r, (enum as_report_row)i));
    as_buf_str(b, "}");
    add_json_errors(b, t);
    add_json_histogram(b, &t->latency);
    if (past)
        add_json_comparison(b, r, past);
    as_buf_str(b, "}\n");
}
