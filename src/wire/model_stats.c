#include "wire/model_stats.h"

#include "base/err.h"
#include "wire/json.h"

#include <open_inference.pb-c.h>

/* A row with all the messages that it points to. */
struct row {
    Inference__ModelStatistics row;
    Inference__InferStatistics stats;
    Inference__StatisticDuration success, fail, queue, input, infer, output, hit, miss;
};

static Inference__StatisticDuration *duration(Inference__StatisticDuration *d, uint64_t count,
                                              as_ns ns)
{
    inference__statistic_duration__init(d);
    d->count = count;
    d->ns = ns;
    return d;
}

static bool fill(struct row *r, const struct as_model_stats *s, struct as_arena *a)
{
    inference__model_statistics__init(&r->row);
    inference__infer_statistics__init(&r->stats);
    r->row.name = as_arena_dup(a, s->name);
    r->row.version = as_arena_dup(a, s->version);
    r->row.last_inference = s->last_ms;
    r->row.inference_count = s->inferences;
    r->row.execution_count = s->executions;
    r->row.inference_stats = &r->stats;
    r->stats.success = duration(&r->success, s->success, s->success_ns);
    r->stats.fail = duration(&r->fail, s->fail, s->fail_ns);
    r->stats.queue = duration(&r->queue, s->success, s->queue_ns);
    r->stats.compute_input = duration(&r->input, s->success, s->input_ns);
    r->stats.compute_infer = duration(&r->infer, s->success, s->infer_ns);
    /* one way to the worker and the way back are measured together, in compute_input */
    r->stats.compute_output = duration(&r->output, s->success, 0);
    r->stats.cache_hit = duration(&r->hit, 0, 0);
    r->stats.cache_miss = duration(&r->miss, 0, 0);
    return r->row.name && r->row.version;
}

int as_model_stats_put(const struct as_model_stats *rows, uint32_t n, struct as_arena *a,
                       struct as_buf *out)
{
    Inference__ModelStatisticsResponse m = INFERENCE__MODEL_STATISTICS_RESPONSE__INIT;
    struct row *r = as_arena_alloc(a, n * sizeof(*r) + 1, 8);
    uint8_t *p;

    m.n_model_stats = n;
    m.model_stats = as_arena_alloc(a, n * sizeof(void *) + 1, 8);
    if (!r || !m.model_stats)
        return AS_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (!fill(&r[i], &rows[i], a))
            return AS_ENOMEM;
        m.model_stats[i] = &r[i].row;
    }
    p = as_buf_try_reserve(out, inference__model_statistics_response__get_packed_size(&m) + 1);
    if (!p)
        return AS_ENOMEM;
    out->n += inference__model_statistics_response__pack(&m, p);
    return 0;
}

/* --- JSON --- */

static void json_number(struct as_buf *b, const char *key, uint64_t v)
{
    as_json_put_key(b, key);
    as_json_put_u64(b, v);
}

static void json_duration(struct as_buf *b, const char *key, uint64_t count, as_ns ns)
{
    as_json_put_key(b, key);
    as_json_put_open(b, '{');
    json_number(b, "count", count);
    json_number(b, "ns", ns);
    as_json_put_close(b, '}');
}

static void json_row(struct as_buf *b, const struct as_model_stats *s)
{
    as_json_put_open(b, '{');
    as_json_put_key(b, "name");
    as_json_put_string(b, s->name);
    as_json_put_key(b, "version");
    as_json_put_string(b, s->version);
    json_number(b, "last_inference", s->last_ms);
    json_number(b, "inference_count", s->inferences);
    json_number(b, "execution_count", s->executions);
    as_json_put_key(b, "inference_stats");
    as_json_put_open(b, '{');
    json_duration(b, "success", s->success, s->success_ns);
    json_duration(b, "fail", s->fail, s->fail_ns);
    json_duration(b, "queue", s->success, s->queue_ns);
    json_duration(b, "compute_input", s->success, s->input_ns);
    json_duration(b, "compute_infer", s->success, s->infer_ns);
    json_duration(b, "compute_output", s->success, 0);
    json_duration(b, "cache_hit", 0, 0);
    json_duration(b, "cache_miss", 0, 0);
    as_json_put_close(b, '}');
    as_json_put_key(b, "batch_stats");
    as_json_put_open(b, '[');
    as_json_put_close(b, ']');
    as_json_put_close(b, '}');
}

void as_model_stats_json(const struct as_model_stats *rows, uint32_t n, struct as_buf *b)
{
    as_json_put_open(b, '{');
    as_json_put_key(b, "model_stats");
    as_json_put_open(b, '[');
    for (uint32_t i = 0; i < n; i++)
        json_row(b, &rows[i]);
    as_json_put_close(b, ']');
    as_json_put_close(b, '}');
}
