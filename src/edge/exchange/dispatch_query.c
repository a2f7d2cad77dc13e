#include "edge/exchange/dispatch_query.h"

static void run(struct as_errand *e, struct as_fleet *f)
{
    struct as_ask *k = AS_CONTAINER(e, struct as_ask, errand);

    k->work(k, f);
}

static void done(struct as_errand *e)
{
    struct as_ask *k = AS_CONTAINER(e, struct as_ask, errand);

    if (k->x) {
        k->x->ask = NULL;
        k->answer(k);
    }
    if (k->fini)
        k->fini(k);
    free(k);
}

void as_ask_send(struct as_exchange *x, struct as_ask *k,
                 void (*work)(struct as_ask *k, struct as_fleet *f),
                 void (*answer)(struct as_ask *k))
{
    k->errand = (struct as_errand){.run = run, .done = done};
    k->x = x;
    k->work = work;
    k->answer = answer;
    x->ask = k;
    x->state = AS_X_WAITING;
    as_client_errand(&x->edge->client, &k->errand);
}
