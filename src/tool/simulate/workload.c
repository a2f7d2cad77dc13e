#include "tool/simulate/workload.h"

static void begin(struct as_workload *w)
{
    struct as_rand seeds = {w->seed};

    w->begun = true;
    w->arrival_rand.s = as_rand_next(&seeds);
    w->service_rand.s = as_rand_next(&seeds);
}

/* The next row that is ours. */
static int next_row(struct as_workload *w, struct as_trace_row *ret_row, struct as_buf *err)
{
    for (;;) {
        int rc = as_trace_file_next(w->trace, ret_row, err);

        if (rc <= 0)
            return rc;
        if (as_trace_rows(as_trace_file_trace(w->trace)) == 1)
            w->first = ret_row->arrival;
        ret_row->arrival -= w->first;
        if (!ret_row->deployment.n || !w->owner)
            return 1;
        switch (w->owner(w->ctx, ret_row->deployment)) {
        case AS_WORKLOAD_OURS:
            return 1;
        case AS_WORKLOAD_OTHERS:
            w->skipped++;
            break;
        default:
            as_trace_put_place(as_trace_file_trace(w->trace), err);
            as_buf_printf(err, "deployment: the deployment file has no '%.*s'",
                          AS_STR_CUT(ret_row->deployment, 100));
            return AS_EINVALID;
        }
    }
}

int as_workload_next(struct as_workload *w, struct as_trace_row *ret_row, struct as_buf *err)
{
    int rc = 1;

    if (!w->begun)
        begin(w);
    if (w->n == w->requests)
        return 0;
    if (w->trace) {
        rc = next_row(w, ret_row, err);
    } else {
        *ret_row = (struct as_trace_row){.deadline = AS_NEVER, .service = AS_NEVER, .priority = 1};
        ret_row->arrival = as_arrival_pattern_next(&w->arrivals, &w->arrival_rand);
    }
    if (rc <= 0)
        return rc;
    if (ret_row->arrival >= w->duration)
        return 0;
    if (ret_row->service == AS_NEVER && !w->has_service) {
        as_trace_put_place(as_trace_file_trace(w->trace), err);
        as_buf_str(err, "service_ms is missing, and --service is not given");
        return AS_EINVALID;
    }
    if (ret_row->service == AS_NEVER)
        ret_row->service = as_service_pattern_draw(&w->service, &w->service_rand);
    w->n++;
    return 1;
}
