#include "edge/exchange/offload.h"

static void on_work(struct as_helper_job *j)
{
    struct as_offload *a = AS_CONTAINER(j, struct as_offload, job);

    a->work(a);
}

static void on_done(struct as_helper_job *j)
{
    struct as_offload *a = AS_CONTAINER(j, struct as_offload, job);
    struct as_exchange *x = a->x;
    bool there = x->conn;

    as_exchange_offload_done(x);
    if (there)
        a->done(a);
}

void as_offload_start(struct as_offload *a)
{
    AS_ASSERT(!a->x->pending.offload);
    a->x->pending.offload = a;
    a->job.work = on_work;
    a->job.done = on_done;
    as_helper_submit(&a->x->edge->helper, &a->job);
}

void as_offload_cancel(struct as_offload *a)
{
    if (a)
        as_helper_cancel(&a->job);
}
