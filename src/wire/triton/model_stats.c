#include "wire/triton/model_stats.h"

#include "base/err.h"
#include "wire/json/json.h"
#include "wire/protobuf/pb_pack.h"

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

int as_model_stats_put(const struct as_model_stats *rows, uint32_t n, struct as_arena *a,
                       struct as_buf *out)
{
    Inference__ModelStatisticsResponse m = INFERENCE__MODEL_STATISTICS_RESPONSE__INIT;

    m.n_model_stats = n;
    m.model_stats = (Inference__ModelStatistics **)as_pb_pack_rows(
        rows, n, sizeof(*rows), sizeof(struct stats_row), fill_stats_row, a);
    return m.model_stats ? as_pb_pack(&m.base, out) : AS_ENOMEM;
}

/* --- JSON --- */

static void json_duration(struct as_buf *b, const char *key, uint64_t count, as_ns ns)
{
    as_json_put_key(b, key);
    as_json_put_open(b, '{');
    as_json_put_member_u64(b, "count", count);
    as_json_put_member_u64(b, "ns", ns);
    as_json_put_close(b, '}');
}

static void json_batches(struct as_buf *b, const struct as_model_batches *s)
{
    as_json_put_open(b, '{');
    as_json_put_member_u64(b, "batch_size", s->size);
    json_duration(b, "compute_input", s->calls, s->input_ns);
    json_duration(b, "compute_infer", s->calls, s->infer_ns);
    json_duration(b, "compute_output", s->calls, s->output_ns);
    as_json_put_close(b, '}');
}

static void json_row(struct as_buf *b, const struct as_model_stats *s)
{
    as_json_put_open(b, '{');
    as_json_put_member_string(b, "name", s->name);
    as_json_put_member_string(b, "version", s->version);
    as_json_put_member_u64(b, "last_inference", s->last_ms);
    as_json_put_member_u64(b, "inference_count", s->inferences);
    as_json_put_member_u64(b, "execution_count", s->executions);
    as_json_put_key(b, "inference_stats");
    as_json_put_open(b, '{');
    json_duration(b, "success", s->success, s->success_ns);
    json_duration(b, "fail", s->fail, s->fail_ns);
    json_duration(b, "queue", s->success, s->queue_ns);
    json_duration(b, "compute_input", s->success, s->input_ns);
    json_duration(b, "compute_infer", s->success, s->infer_ns);
    json_duration(b, "compute_output", s->success, s->output_ns);
    json_duration(b, "cache_hit", 0, 0);
    json_duration(b, "cache_miss", 0, 0);
    as_json_put_close(b, '}');
    as_json_put_key(b, "batch_stats");
    as_json_put_open(b, '[');
    for (uint32_t i = 0; i < s->n_batches; i++)
        json_batches(b, &s->batches[i]);
    as_json_put_close(b, ']');
    as_json_put_close(b, '}');
}

void as_model_stats_json(const struct as_model_stats *rows, uint32_t n, struct as_buf *out)
{
    as_json_put_open(out, '{');
    as_json_put_key(out, "model_stats");
    as_json_put_open(out, '[');
    for (uint32_t i = 0; i < n; i++)
        json_row(out, &rows[i]);
    as_json_put_close(out, ']');
    as_json_put_close(out, '}');
}
