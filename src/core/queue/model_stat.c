#include "core/queue/model_stat.h"

#include "core/queue/batch.h"

#include <stdlib.h>
#include <string.h>

/* Doubles the array, so that it soon has room for every size that the model sees. */
__attribute__((noinline, cold)) static void grow(struct as_model_stat *s, uint32_t size)
{
    uint32_t n = AS_MIN(AS_MAX(size, 2 * s->n_calls), AS_BATCH_MAX);

    AS_ASSERT(size <= n);
    s->calls = as_xrealloc(s->calls, n * sizeof(s->calls[0]));
    memset(s->calls + s->n_calls, 0, (n - s->n_calls) * sizeof(s->calls[0]));
    s->n_calls = n;
}

void as_model_stat_fini(struct as_model_stat *s)
{
    free(s->calls);
    s->calls = NULL;
    s->n_calls = 0;
}

void as_model_stat_success(struct as_model_stat *s, const struct as_request *q,
                           struct as_model_times t, uint32_t size, as_ns now)
{
    as_ns away = now - q->sent, queued = q->sent - q->arrived;
    as_ns infer = t.service ? AS_MIN(t.service, away) : away;
    as_ns output = AS_MIN(t.back, away - infer);

    s->success++;
    s->inferences += q->items;
    s->success_ns += now - q->arrived;
    s->queue_ns += queued;
    s->input_ns += away - infer - output;
    s->service_ns += infer;
    s->output_ns += output;
    s->last = now;
    as_hist_add(&s->queue, queued);
    if (!size)
        return;
    if (size > s->n_calls)
        grow(s, size);
    s->executions++;
    s->calls[size - 1].n++;
    s->calls[size - 1].input_ns += away - infer - output;
    s->calls[size - 1].infer_ns += infer;
    s->calls[size - 1].output_ns += output;
}
