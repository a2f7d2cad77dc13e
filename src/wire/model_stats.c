#include "wire/model_stats.h"

#include "base/err.h"
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
