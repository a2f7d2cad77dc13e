#include "tool/bench/bench_report.h"

#include "wire/json/json.h"

/* A smaller relative difference counts as the same: runs vary this much. */
#define SAME_RATIO 0.05
#define BAR_MAX    40 /* length of the longest bar, in columns */

enum kind { RATE, FAILED, RESPONSES, LATENCY, FIRST, BETWEEN };

/* Values of `share` that are no quantile. */
#define MEAN (-1.)
#define MOST 2.

/* The six rows of one kind of times, from `row` on; in microseconds. */
#define TIMES(row, kind, path, name)                                                               \
    [row] = {path ".mean", name "mean", 1e-3, " ms", false, kind, MEAN},                           \
    [(row) + 1] = {path ".p50", name "p50", 1e-3, " ms", false, kind, .5},                         \
    [(row) + 2] = {path ".p90", name "p90", 1e-3, " ms", false, kind, .9},                         \
    [(row) + 3] = {path ".p99", name "p99", 1e-3, " ms", false, kind, .99},                        \
    [(row) + 4] = {path ".p999", name "p99.9", 1e-3, " ms", false, kind, .999},                    \
    [(row) + 5] = {path ".max", name "max", 1e-3, " ms", false, kind, MOST}
#define TIMES_ROWS 6

static const struct row {
    const char *path;
    const char *name;
    double unit; /* factor from the JSON's number to the number in the text */
    const char *unit_name;
    bool more_is_better;
    enum kind kind;
    double share; /* of times: the quantile */
} rows[AS_BENCH_REPORT_ROWS] = {
    [AS_BENCH_REPORT_RATE] = {"per_second", "answers/s", 1, "", true, RATE, 0},
    TIMES(AS_BENCH_REPORT_MEAN, LATENCY, "latency_us", ""),
    [AS_BENCH_REPORT_FAILED] = {"failed", "failed", 1, "", false, FAILED, 0},
    [AS_BENCH_REPORT_RESPONSES] = {"responses_per_second", "responses/s", 1, "", true, RESPONSES,
                                   0},
    TIMES(AS_BENCH_REPORT_FIRST_MEAN, FIRST, "first_response_us", "first "),
    TIMES(AS_BENCH_REPORT_BETWEEN_MEAN, BETWEEN, "between_responses_us", "between "),
};

static const struct as_tally_times *times_of(const struct as_tally *t, enum kind kind)
{
    return kind == FIRST ? &t->first : kind == BETWEEN ? &t->between : &t->latency;
}

static double value_of(const struct as_bench_report *r, enum as_bench_report_row row)
{
    const struct as_tally *t = r->tally;
    const struct as_tally_times *times = times_of(t, rows[row].kind);
    double share = rows[row].share;

    if (rows[row].kind == FAILED)
        return (double)as_tally_failed(t);
    if (rows[row].kind == RATE || rows[row].kind == RESPONSES)
        return r->seconds > 0
                   ? (double)(rows[row].kind == RATE ? t->in_window : t->responses_in_window) /
                         r->seconds
                   : 0;
    if (share < 0)
        return as_tally_mean(times) / 1e3;
    return (double)(share > 1 ? times->h.max : as_loghist_quantile(&times->h, share)) / 1e3;
}

/* How many of the rows the measurement has. */
static int n_rows(const struct as_bench_report *r)
{
    return r->stream ? AS_BENCH_REPORT_ROWS : AS_BENCH_REPORT_RESPONSES;
}

/* --- an earlier result --- */

/* Stores a number whose path is "key" or "key.inner". */
static int read_number(struct as_json *j, struct as_json_value *v, struct as_str key,
                       struct as_str inner, struct as_bench_report_baseline *baseline)
{
    double number = 0;
    int err = as_json_f64(j, v, &number);
    char path[64];

    if (err)
        return err == AS_EINVALID ? 0 : err; /* too large for a double: not a number of a report */
    snprintf(path, sizeof(path), "%.*s%s%.*s", AS_STR_FMT(key), inner.n ? "." : "",
             AS_STR_FMT(inner));
    for (size_t i = 0; i < AS_BENCH_REPORT_ROWS; i++) {
        if (strcmp(path, rows[i].path) == 0) {
            baseline->v[i] = number;
            baseline->has[i] = true;
        }
    }
    return 0;
}

static int read_group(struct as_json *j, struct as_json_value *v, struct as_str key,
                      struct as_bench_report_baseline *baseline)
{
    struct as_json_items it;
    int err = as_json_items(j, v, &it), more = 0;

    while (!err && (more = as_json_next(j, &it)) > 0) {
        if (it.value.type == AS_JSON_NUMBER)
            err = read_number(j, &it.value, key, it.key, baseline);
    }
    return err ? err : more;
}

static int read_result(struct as_json *j, struct as_json_value *root,
                       struct as_bench_report_baseline *baseline)
{
    struct as_str none = AS_STR("");
    struct as_json_items it;
    int err, more = 0;

    if (root->type != AS_JSON_OBJECT)
        return as_json_skip(j, root);
    err = as_json_items(j, root, &it);
    while (!err && (more = as_json_next(j, &it)) > 0) {
        if (it.value.type == AS_JSON_NUMBER)
            err = read_number(j, &it.value, it.key, none, baseline);
        else if (it.value.type == AS_JSON_OBJECT)
            err = read_group(j, &it.value, it.key, baseline);
    }
    return err ? err : more;
}

int as_bench_report_parse(struct as_buf *text, struct as_bench_report_baseline *ret_past,
                          struct as_buf *why)
{
    struct as_bench_report_baseline baseline = {.v = {0}};
    struct as_json *j = as_json_new();
    struct as_json_value root;
    struct as_arena a;
    int err;

    if (!j)
        as_fatal_memory(0);
    as_arena_init(&a, NULL, 0);
    memset(as_buf_reserve(text, AS_JSON_PADDING), 0, AS_JSON_PADDING);
    err = as_json_open(j, &a, text->p, text->n, &root);
    if (!err)
        err = read_result(j, &root, &baseline);
    if (!err)
        err = as_json_expect_end(j);
    if (err)
        as_buf_printf(why, "cannot be parsed: %s",
                      err == AS_EPROTO ? as_json_why(j) : as_err_text(err));
    else if (!baseline.has[AS_BENCH_REPORT_RATE] || !baseline.has[AS_BENCH_REPORT_P50])
        as_buf_str(why, "is not a result of anyserve bench --json");
    as_json_close(j);
    as_json_free(j);
    as_arena_fini(&a);
    if (why->n)
        return AS_EINVALID;
    *ret_past = baseline;
    return 0;
}

/* "better", "worse" or "same". *ret_ratio is 0 if the earlier value was 0. */
static const char *verdict(enum as_bench_report_row row, double before, double now,
                           double *ret_ratio)
{
    double ratio = before > 0 ? now / before : now > 0 ? 2 : 1;

    *ret_ratio = before > 0 ? ratio : 0;
    if (ratio > 1 - SAME_RATIO && ratio < 1 + SAME_RATIO)
        return "same";
    return (ratio > 1) == rows[row].more_is_better ? "better" : "worse";
}

/* --- text --- */

static void add_comparison(struct as_buf *b, const struct as_bench_report *r,
                           const struct as_bench_report_baseline *baseline)
{
    as_buf_printf(b, "\n  %-13s %14s %14s %8s\n", "compared", "before", "now", "ratio");
    for (int i = 0; i < n_rows(r); i++) {
        enum as_bench_report_row row = (enum as_bench_report_row)i;
        double now = value_of(r, row), ratio;
        const char *word;

        if (!baseline->has[i])
            continue;
        word = verdict(row, baseline->v[i], now, &ratio);
        as_buf_printf(b, "  %-13s %11.4g%-3s %11.4g%-3s ", rows[i].name,
                      baseline->v[i] * rows[i].unit, rows[i].unit_name, now * rows[i].unit,
                      rows[i].unit_name);
        if (ratio > 0)
            as_buf_printf(b, "%8.3f  %s\n", ratio, word);
        else
            as_buf_printf(b, "%8s  %s\n", "", word);
    }
}

/* One line per power of two of microseconds, from the first to the last that has samples. */
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
        for (uint64_t k = 0; k < (count[i] * BAR_MAX + most - 1) / most; k++)
            as_buf_str(b, "#");
        as_buf_str(b, "\n");
    }
}

static void add_errors(struct as_buf *b, const struct as_bench_report *r)
{
    const struct as_tally *t = r->tally;

    if (as_tally_failed(t))
        as_buf_str(b, "\n  errors\n");
    for (uint32_t i = 1; i < AS_TALLY_STATUSES; i++) {
        if (t->status[i])
            as_buf_printf(b, "  %-20s %10llu  %s\n", as_grpc_status_name(i),
                          (unsigned long long)t->status[i], t->text[i]);
    }
    if (t->error_latency.h.n)
        as_buf_printf(b, "  answered after p50 %.3f p99 %.3f max %.3f ms\n",
                      (double)as_loghist_quantile(&t->error_latency.h, .5) / 1e6,
                      (double)as_loghist_quantile(&t->error_latency.h, .99) / 1e6,
                      (double)t->error_latency.h.max / 1e6);
    if (t->unanswered)
        as_buf_printf(b, "  %llu calls were never answered; the time that they waited counts.\n",
                      (unsigned long long)t->unanswered);
    if (t->unsent)
        as_buf_printf(b,
                      "  %llu calls were due and never sent, because every stream was in use; the "
                      "time that they waited counts.\n",
                      (unsigned long long)t->unsent);
    if (t->late)
        as_buf_printf(
            b, "  %llu calls were sent more than 1 ms late; their latency includes the delay.\n",
            (unsigned long long)t->late);
    if (r->lost)
        as_buf_printf(b, "  %u of %u connections were lost: %s.\n", r->lost, r->connections,
                      r->why_lost);
    if (r->reopened)
        as_buf_printf(b, "  Connections ended %llu times and were opened again: %s.\n",
                      (unsigned long long)r->reopened, r->why_reopened);
    if (r->interrupted)
        as_buf_str(b, "  Interrupted: the result covers the time until then.\n");
}

static void add_times(struct as_buf *b, const struct as_bench_report *r, const char *name,
                      int first)
{
    as_buf_printf(b, "  %-10s", name);
    for (int i = first; i < first + TIMES_ROWS; i++)
        as_buf_printf(b, " %s %.3f",
                      rows[i].name + (rows[first].kind == LATENCY ? 0 : strlen(name) + 1),
                      value_of(r, (enum as_bench_report_row)i) / 1e3);
    as_buf_str(b, " ms\n");
}

void as_bench_report_text(struct as_buf *b, const struct as_bench_report *r,
                          const struct as_bench_report_baseline *baseline, bool histogram)
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
    as_buf_printf(b, "  answers/s  %.1f\n", value_of(r, AS_BENCH_REPORT_RATE));
    add_times(b, r, "latency", AS_BENCH_REPORT_MEAN);
    if (r->stream) {
        as_buf_printf(b, "  responses  %.1f/s\n", value_of(r, AS_BENCH_REPORT_RESPONSES));
        add_times(b, r, "first", AS_BENCH_REPORT_FIRST_MEAN);
        add_times(b, r, "between", AS_BENCH_REPORT_BETWEEN_MEAN);
    }
    add_errors(b, r);
    if (histogram && t->latency.h.n)
        add_histogram(b, &t->latency.h);
    if (baseline)
        add_comparison(b, r, baseline);
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
    if (t->error_latency.h.n)
        as_buf_printf(
            b, ",\"errors_us\":{\"min\":%.3f,\"mean\":%.3f,\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}",
            (double)t->error_latency.min / 1e3, as_tally_mean(&t->error_latency) / 1e3,
            (double)as_loghist_quantile(&t->error_latency.h, .5) / 1e3,
            (double)as_loghist_quantile(&t->error_latency.h, .99) / 1e3,
            (double)t->error_latency.h.max / 1e3);
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

static void add_json_comparison(struct as_buf *b, const struct as_bench_report *r,
                                const struct as_bench_report_baseline *baseline)
{
    bool any = false;

    as_buf_str(b, ",\"compared\":{");
    for (int i = 0; i < n_rows(r); i++) {
        double now = value_of(r, (enum as_bench_report_row)i), ratio;
        const char *word;

        if (!baseline->has[i])
            continue;
        word = verdict((enum as_bench_report_row)i, baseline->v[i], now, &ratio);
        as_buf_printf(b, "%s\"%s\":{\"before\":%.3f,\"now\":%.3f,", any ? "," : "", rows[i].path,
                      baseline->v[i], now);
        if (ratio > 0)
            as_buf_printf(b, "\"ratio\":%.4f,", ratio);
        as_buf_printf(b, "\"verdict\":\"%s\"}", word);
        any = true;
    }
    as_buf_str(b, "}");
}

static void add_json_times(struct as_buf *b, const struct as_bench_report *r, int first)
{
    const char *dot = strchr(rows[first].path, '.');

    as_buf_printf(b, ",\"%.*s\":{\"min\":%.3f", (int)(dot - rows[first].path), rows[first].path,
                  (double)times_of(r->tally, rows[first].kind)->min / 1e3);
    for (int i = first; i < first + TIMES_ROWS; i++)
        as_buf_printf(b, ",\"%s\":%.3f", strchr(rows[i].path, '.') + 1,
                      value_of(r, (enum as_bench_report_row)i));
    as_buf_str(b, "}");
}

void as_bench_report_json(struct as_buf *b, const struct as_bench_report *r,
                          const struct as_bench_report_baseline *baseline)
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
    as_buf_printf(
        b,
        ",\"sent\":%llu,\"late\":%llu,\"lost_connections\":%u,\"reopened_connections\":%llu,"
        "\"interrupted\":%s",
        (unsigned long long)r->sent, (unsigned long long)t->late, r->lost,
        (unsigned long long)r->reopened, r->interrupted ? "true" : "false");
    as_buf_printf(b, ",\"stream\":%s,\"per_second\":%.3f", r->stream ? "true" : "false",
                  value_of(r, AS_BENCH_REPORT_RATE));
    add_json_times(b, r, AS_BENCH_REPORT_MEAN);
    if (r->stream) {
        as_buf_printf(b, ",\"responses\":%llu,\"responses_per_second\":%.3f",
                      (unsigned long long)t->responses_in_window,
                      value_of(r, AS_BENCH_REPORT_RESPONSES));
        add_json_times(b, r, AS_BENCH_REPORT_FIRST_MEAN);
        add_json_times(b, r, AS_BENCH_REPORT_BETWEEN_MEAN);
    }
    if (r->rate)
        as_buf_printf(b, ",\"late_us\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}",
                      (double)as_loghist_quantile(&t->delay, .5) / 1e3,
                      (double)as_loghist_quantile(&t->delay, .99) / 1e3,
                      (double)t->delay.max / 1e3);
    add_json_errors(b, t);
    add_json_histogram(b, &t->latency.h);
    if (baseline)
        add_json_comparison(b, r, baseline);
    as_buf_str(b, "}\n");
}
