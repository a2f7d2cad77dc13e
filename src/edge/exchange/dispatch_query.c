#include "edge/exchange/dispatch_query.h"

static void run_query(struct as_fleet_job *e, struct as_fleet *f)
{
    struct as_dispatch_query *k = AS_CONTAINER(e, struct as_dispatch_query, job);

    k->work(k, f);
}

static void finish_query(struct as_fleet_job *e)
{
    struct as_dispatch_query *k = AS_CONTAINER(e, struct as_dispatch_query, job);

    if (k->x) {
        k->x->pending.query = NULL;
        k->answer(k);
    }
    if (k->fini)
        k->fini(k);
    free(k);
}

void as_dispatch_query_send(struct as_exchange *x, struct as_dispatch_query *k,
                            void (*work)(struct as_dispatch_query *k, struct as_fleet *f),
                            void (*answer)(struct as_dispatch_query *k))
{
    k->job = (struct as_fleet_job){.run = run_query, .done = finish_query};
    k->x = x;
    k->work = work;
    k->answer = answer;
    x->pending.query = k;
    x->state = AS_EXCHANGE_WAITING;
    as_fleet_client_run(&x->edge->client, &k->job);
}
