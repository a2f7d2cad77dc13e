#include "edge/exchange/offload.h"

static void on_work(struct as_job *j)
{
    struct as_aside *a = AS_CONTAINER(j, struct as_aside, job);

    a->work(a);
}

static void on_done(struct as_job *j)
{
    struct as_aside *a = AS_CONTAINER(j, struct as_aside, job);
    struct as_exchange *x = a->x;
    bool there = x->conn;

    as_exchange_aside_over(x);
    if (there)
        a->done(a);
}

void as_aside_start(struct as_aside *a)
{
    AS_ASSERT(!a->x->aside);
    a->x->aside = a;
    a->job.work = on_work;
    a->job.done = on_done;
    as_helper_give(&a->x->edge->helper, &a->job);
}

void as_aside_drop(struct as_aside *a)
{
    if (a)
        as_helper_drop(&a->job);
}
