#include "wire/triton/model_stats.h"

#include "base/err.h"
#include "wire/triton/message_json.h"

#include <open_inference.pb-c.h>

/* A row with the messages that it points to. */
struct stats_row {
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

struct batch_row {
    Inference__InferBatchStatistics row;
    Inference__StatisticDuration input, infer, output;
};

static bool fill_batch(void *row, const void *from, struct as_arena *a AS_UNUSED)
{
    const struct as_model_batches *of = from;
    struct batch_row *b = row;

    inference__infer_batch_statistics__init(&b->row);
    b->row.batch_size = of->size;
    b->row.compute_input = duration(&b->input, of->calls, of->input_ns);
    b->row.compute_infer = duration(&b->infer, of->calls, of->infer_ns);
    b->row.compute_output = duration(&b->output, of->calls, of->output_ns);
    return true;
}

static bool fill_stats_row(void *row, const void *from, struct as_arena *a)
{
    const struct as_model_stats *s = from;
    struct stats_row *r = row;

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
    r->stats.compute_output = duration(&r->output, s->success, s->output_ns);
    r->stats.cache_hit = duration(&r->hit, 0, 0);
    r->stats.cache_miss = duration(&r->miss, 0, 0);
    r->row.n_batch_stats = s->n_batches;
    r->row.batch_stats = (Inference__InferBatchStatistics **)as_pb_pack_rows(
        s->batches, s->n_batches, sizeof(s->batches[0]), sizeof(struct batch_row), fill_batch, a);
    return r->row.name && r->row.version && r->row.batch_stats;
}

int as_model_stats_put(const struct as_model_stats *rows, uint32_t n, struct as_arena *a, bool json,
                       struct as_buf *out)
{
    Inference__ModelStatisticsResponse m = INFERENCE__MODEL_STATISTICS_RESPONSE__INIT;

    m.n_model_stats = n;
    m.model_stats = (Inference__ModelStatistics **)as_pb_pack_rows(
        rows, n, sizeof(*rows), sizeof(struct stats_row), fill_stats_row, a);
    return m.model_stats ? as_message_put(&m.base, json, out) : AS_ENOMEM;
}
